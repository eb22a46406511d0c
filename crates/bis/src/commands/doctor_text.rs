//! `bis doctor --text FILE`: how much of a program's or library's text can be made to count, and why the rest
//! cannot. It only looks: nothing is changed, cached or run.

use std::{fs, io::Write, path::Path};

use bis_rewrite::{Coverage, DenseOptions, Reason, SiteKind, SiteKinds, Tally, Text};
use serde_json::{Value, json};

use crate::{
    failure::{Failure, Result},
    human, output,
};

/// The special instructions that are looked for.
const KINDS: [SiteKind; 11] = SiteKind::ALL;

pub fn run(file: &Path, json: bool) -> Result<u8> {
    let shown = file.display();
    let bytes = fs::read(file).map_err(|error| Failure::of(format!("read {shown}"), error))?;
    let text =
        Text::parse(&bytes).map_err(|error| Failure::usage(format!("failed to look at {shown}: {error}")))?;
    let plan = |short_loops| text.dense(DenseOptions { short_loops, hooks: SiteKinds::of(&KINDS) });
    let (usual, full) = (plan(false), plan(true));
    let mut out = output::page();
    let (usual, full) = (usual.coverage(), full.coverage());
    if json {
        let page = json!({
            "text_bytes": usual.text, "unknown_bytes": usual.unknown,
            "usual": tallies(usual), "with_short_loops": tallies(full),
        });
        writeln!(out, "{page}")?;
    } else {
        show(&mut out, usual, full)?;
    }
    out.flush()?;
    Ok(0)
}

/// The rows of the table: what is shown, and whether it is left in peace when it is no part of a circle.
fn rows(coverage: &Coverage) -> [(&'static str, &Tally); 5] {
    [
        ("backward branches", &coverage.backward),
        ("jumps between functions", &coverage.crossing),
        ("direct calls", &coverage.calls),
        ("computed jumps", &coverage.computed),
        ("special instructions", &coverage.hooks),
    ]
}

fn show(out: &mut impl Write, usual: &Coverage, full: &Coverage) -> Result<()> {
    writeln!(
        out,
        "{} of text, {} of it of no function that the file tells of (left alone)\n",
        human::bytes(usual.text),
        human::bytes(usual.unknown),
    )?;
    let line = |out: &mut _, cells: [String; 7]| {
        let [name, rest @ ..] = cells;
        let rest: String = rest.iter().map(|cell| format!("{cell:>11}")).collect();
        write_line(out, &format!("{name:24}{rest}"))
    };
    let heads = ["", "seen", "counted", "needless", "short", "left", "covered"];
    line(out, heads.map(str::to_owned))?;
    for (name, tally) in rows(usual) {
        let numbers = [tally.seen, tally.taken, tally.needless, tally.short, tally.left_in_all()];
        let [a, b, c, d, e] = numbers.map(|number| human::count(number as u64));
        line(out, [name.to_owned(), a, b, c, d, e, covered(tally)])?;
    }
    for (title, coverage) in [("left, by reason", usual), ("left when short loops are counted too", full)] {
        writeln!(out, "\n{title}:")?;
        let mut any = false;
        for reason in Reason::ALL {
            let of: Vec<String> = rows(coverage)
                .iter()
                .filter(|(_, tally)| tally.left(reason) != 0)
                .map(|(name, tally)| format!("{} {name}", human::count(tally.left(reason) as u64)))
                .collect();
            if !of.is_empty() {
                writeln!(out, "  {reason}: {}", of.join(", "))?;
                any = true;
            }
        }
        if !any {
            writeln!(out, "  none")?;
        }
    }
    Ok(())
}

fn write_line(out: &mut impl Write, line: &str) -> Result<()> {
    Ok(writeln!(out, "{}", line.trim_end())?)
}

/// What was not left, of what was seen.
fn covered(tally: &Tally) -> String {
    match tally.seen {
        0 => "-".to_owned(),
        #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
        seen => format!("{:.1}%", 100.0 * (1.0 - tally.left_in_all() as f64 / seen as f64)),
    }
}

fn tallies(coverage: &Coverage) -> Value {
    let one = |(name, tally): (&str, &Tally)| {
        let left: serde_json::Map<String, Value> = Reason::ALL
            .into_iter()
            .filter(|reason| tally.left(*reason) != 0)
            .map(|reason| (format!("{reason:?}"), json!(tally.left(reason))))
            .collect();
        let value = json!({
            "seen": tally.seen, "counted": tally.taken, "flags_kept": tally.flags_kept,
            "needless": tally.needless, "short": tally.short, "left": left,
        });
        (name.replace(' ', "_"), value)
    };
    Value::Object(rows(coverage).into_iter().map(one).collect())
}
