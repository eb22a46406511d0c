//! `bis output`: what the program wrote to its standard output and error, each line with the event that
//! wrote it, so that a debugger can go to where it was. A replay finds it (`bis_replay::output`).

use std::{
    collections::HashMap,
    io::Write,
    sync::mpsc,
    thread::{self, ScopedJoinHandle},
};

use bis_replay::{
    Options, ReplayError, Summary,
    output::{Line, lines},
};
use bis_trace::{
    Trace,
    types::{DomainId, Tid},
};
use serde_json::json;

use super::replay::{failure_of, fits_here, lacking, pid_of};
use crate::{
    args::Output,
    failure::{Result, status},
    folder, human, json, nested, output, progress,
};

/// Lines that wait to be printed, at most: the replay waits for a reader that is slow.
const WAITING_MAX: usize = 1024;

pub fn run(args: &Output) -> Result<u8> {
    if nested::outer().is_some_and(|outer| outer.trace.is_some()) {
        return Err(nested::leave());
    }
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    if !args.any_cpu {
        fits_here(&trace)?;
    }
    let options = Options {
        jobs: 0,
        quiet: false,
        pid: args.pid.as_ref().map(|process| pid_of(&trace, process)).transpose()?,
        progress: progress::bar("events"),
    };
    let pids: HashMap<DomainId, Tid> = trace.domains().map(|entry| (entry.domain, entry.pid)).collect();
    let (heard, replayed) = thread::scope(|scope| -> Result<_> {
        let (give, take) = mpsc::sync_channel::<Line>(WAITING_MAX);
        let replaying: ScopedJoinHandle<'_, std::result::Result<Summary, ReplayError>> =
            // Where nobody reads the lines any more, the replay goes on to its end, in silence.
            scope.spawn(|| lines(&trace, &options, move |line| drop(give.send(line))));
        let heard = show(args, &pids, take);
        let replayed = replaying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((heard, replayed))
    })?;
    heard?;
    let summary = replayed.map_err(|error| failure_of(&error))?;
    Ok(match lacking(&trace, summary.incomplete, args.pid.is_none()) {
        None => 0,
        Some(why) => {
            output::note(&format!("bis: this is all that there is of this trace; {why}"));
            status::CUT
        }
    })
}

/// Prints the lines that were asked for, as they come.
fn show(args: &Output, pids: &HashMap<DomainId, Tid>, lines: mpsc::Receiver<Line>) -> Result<()> {
    let mut out = output::page();
    if !args.json {
        writeln!(out, "{:>8} {:>8}  FD  LINE", "EVENT", "PROCESS")?;
    }
    let sought = args.find.as_ref().map(|text| text.as_encoded_bytes());
    for line in lines {
        let Some(offset) = sought.map_or(Some(0), |text| line.find(text)) else { continue };
        let writer = line.writer(offset);
        let pid = pids.get(&writer.domain).map_or(0, |pid| pid.0);
        if args.json {
            let text = json::text(&line.text);
            let line = json!({"event": writer.event.0, "pid": pid, "fd": line.stream.number(), "line": text});
            writeln!(out, "{line}")?;
        } else {
            let text = human::text(&line.text);
            writeln!(out, "{:>8} {pid:>8}  {:>2}  {text}", writer.event.0, line.stream.number())?;
        }
        if args.find.is_some() {
            out.flush()?;
        }
    }
    out.flush()?;
    Ok(())
}
