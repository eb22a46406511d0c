//! One `sqlite3` that fills, changes and asks a database on the disk, then one in memory; and one that reads
//! pages of a database at random, again and again.
//!
//! The disk is not waited for (`synchronous = OFF`): what a disk takes is the same with and without a
//! recorder, and differs from run to run by more than the recorder costs.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::content::Numbers;
use crate::step;
use crate::workload::{Job, Site};

/// Rows that one transaction inserts.
const BATCH: u64 = 200;

pub fn prepare(site: &Site) -> Result<Job> {
    let on_disk = statements(1, site.size(60_000, 1_000));
    let in_memory = statements(2, site.size(60_000, 1_000));
    let script = format!("PRAGMA synchronous = OFF;\n{on_disk}.open :memory:\n{in_memory}");
    fs::write(site.folder.join("script.sql"), script).context("failed to write the statements")?;
    let database = site.folder.join("data.db");
    Ok(Job::new(["sqlite3", "-batch", "-bail", "data.db", ".read script.sql"]).reset(move || {
        for name in [database.clone(), database.with_extension("db-journal")] {
            match fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("failed to remove {}", name.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }))
}

/// Rows of half a page each, looked up at random with room for ten pages in the cache: nearly each lookup
/// reads pages of the file.
pub fn reads(site: &Site) -> Result<Job> {
    let (rows, lookups) = (site.size(20_000, 200), site.size(250_000, 500));
    let fill = format!(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, content BLOB);\nWITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT \
         i + 1 FROM n WHERE i < {rows} - 1) INSERT INTO item SELECT i, randomblob(1900) FROM n;\n"
    );
    step::prepare(site.folder, &["sqlite3", "-batch", "-bail", "data.db", &fill], None)?;
    let ask = format!(
        "PRAGMA cache_size = 10;\nWITH RECURSIVE n(i, x) AS (SELECT 0, 1 UNION ALL SELECT i + 1, (x * 1103515245 + \
         12345) & 2147483647 FROM n WHERE i < {lookups} - 1) SELECT count(*), sum(length(content)) FROM n JOIN item \
         ON item.id = (n.x >> 8) % {rows};\n"
    );
    fs::write(site.folder.join("ask.sql"), ask)?;
    let expected = format!("{lookups}|{}\n", lookups * 1900);
    let job = Job::new(["sqlite3", "-batch", "-bail", "-readonly", "data.db", ".read ask.sql"]);
    Ok(job.check(move |step| {
        ensure!(step.stdout == expected.as_bytes(), "{:?} was found", String::from_utf8_lossy(&step.stdout));
        Ok(())
    }))
}

fn statements(seed: u64, rows: u64) -> String {
    let mut numbers = Numbers::new(seed);
    let mut sql =
        String::from("CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, price REAL);\n");
    let mut add = |line: std::fmt::Arguments| sql.write_fmt(line).expect("a string takes everything");
    for row in 0..rows {
        if row % BATCH == 0 {
            add(format_args!("BEGIN;\n"));
        }
        let (kind, number) = (numbers.below(50), numbers.next());
        add(format_args!(
            "INSERT INTO item VALUES ({row}, {kind}, 'name {number:x}', {});\n",
            number % 10_000
        ));
        if row % BATCH == BATCH - 1 {
            add(format_args!("COMMIT;\n"));
            add(format_args!(
                "UPDATE item SET price = price * 1.01 WHERE id = {};\n",
                numbers.below(row + 1)
            ));
        }
    }
    add(format_args!("CREATE INDEX by_kind ON item (kind, price);\n"));
    for kind in 0..50 {
        add(format_args!("SELECT kind, count(*), round(sum(price)) FROM item WHERE kind = {kind};\n"));
        add(format_args!("UPDATE item SET name = upper(name) WHERE kind = {kind} AND price < 500;\n"));
    }
    add(format_args!(
        "SELECT count(*) FROM item WHERE name LIKE '%A1%';\nDELETE FROM item WHERE id % 3 = 0;\n"
    ));
    add(format_args!("SELECT name FROM item ORDER BY price DESC, id LIMIT 5;\nPRAGMA integrity_check;\n"));
    sql
}
