//! `bis ls`: the traces in the folder of the traces, oldest first if not asked otherwise.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::SystemTime,
};

use bis_trace::Trace;
use serde_json::json;

use crate::{
    args::Ls,
    commands::info::{ending, size_on_disk},
    failure::Result,
    folder, human, output,
    output::Table,
};

/// What is shown of a trace, also of one that cannot be opened.
struct Line {
    path: PathBuf,
    started_s: i64,
    /// Tells those apart that were begun within a second.
    born: SystemTime,
    size_bytes: u64,
    command: String,
    state: String,
}

fn look(path: PathBuf) -> Line {
    let size_bytes = size_on_disk(&path);
    let recording = folder::is_recording(&path);
    let born = born(&path);
    match Trace::open(&path) {
        Ok(trace) => {
            // A recorder that was killed at once leaves a trace that says nothing about itself.
            let machine = trace.machine().cloned().unwrap_or_default();
            Line {
                started_s: if machine.started_s > 0 { machine.started_s } else { modified_s(&path) },
                born,
                size_bytes,
                command: human::command_line(&machine.argv),
                state: if recording { "recording".into() } else { ending(&trace).short },
                path,
            }
        }
        Err(error) => Line {
            started_s: modified_s(&path),
            born,
            size_bytes,
            command: String::new(),
            state: if recording { "recording".into() } else { format!("unreadable: {error}") },
            path,
        },
    }
}

/// When a trace's folder was made. Where the filesystem does not know, when its log was written last: in the
/// order in which the recordings ended, mostly that in which they began.
fn born(path: &Path) -> SystemTime {
    let made = path.metadata().and_then(|metadata| metadata.created());
    made.or_else(|_| path.join("log").metadata()?.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn modified_s(path: &Path) -> i64 {
    let modified = path.metadata().and_then(|metadata| metadata.modified()).ok();
    let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

pub fn run(args: &Ls) -> Result<u8> {
    let traces = folder::traces()?;
    let mut lines: Vec<Line> = folder::list(&traces)?.into_iter().map(look).collect();
    lines.sort_by(|a, b| (a.started_s, a.born, &a.path).cmp(&(b.started_s, b.born, &b.path)));
    if args.newest_first != args.reverse {
        lines.reverse();
    }
    let latest = folder::latest(&traces);
    let mut out = output::page();
    let name = |line: &Line| line.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if args.json {
        for line in &lines {
            let value = json!({
                "name": name(line), "path": line.path.to_string_lossy(), "started_s": line.started_s,
                "size_bytes": line.size_bytes, "command": line.command, "state": line.state,
                "latest": line.path.file_name() == latest.as_deref(),
            });
            writeln!(out, "{value}")?;
        }
    } else if args.rr {
        for line in &lines {
            writeln!(out, "{}", name(line))?;
        }
    } else if lines.is_empty() {
        output::note(&format!("no traces in {}", traces.display()));
    } else {
        let mut table = Table::new(["NAME", "DATE", "SIZE", "STATE", "COMMAND"], &[2]);
        let taken = lines.iter().map(|line| name(line).len() + line.state.len()).max().unwrap_or(0) + 45;
        let room = human::room(taken);
        for line in &lines {
            table.push([
                human::text(name(line).as_bytes()),
                human::date(line.started_s),
                human::bytes(line.size_bytes),
                human::text(line.state.as_bytes()),
                human::shortened(&line.command, room),
            ]);
        }
        table.write(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}
