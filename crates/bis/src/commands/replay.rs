//! `bis replay`; with a debugger it is `debug.rs`, and here without: `bis replay -a`, a whole recording
//! replayed without a debugger. The replay is `bis-replay`, which also writes the program's output; here is
//! the exit status.

use std::{io::IsTerminal, num::NonZero, thread};

use bis_replay::{Options, ReplayError};
use bis_trace::{Ending, Trace, types::Tid};
use bis_tracee::features::{self, Level};

use crate::{
    args::{ProcessArg, Replay},
    commands::{debug, doctor, profile, steps, trace_at},
    failure::{Failure, Result, status},
    folder, nested, output,
    progress::{self, Progress},
};

pub fn run(args: &Replay) -> Result<u8> {
    if nested::outer().is_some_and(|outer| outer.trace.is_some()) {
        // A replay needs to trace, which a recorded process cannot.
        return Err(nested::leave());
    }
    doctor::finds_processes("replay")?;
    // `-h` alone is a call for help.
    if !args.any_cpu && args.host.as_deref() != Some("") {
        fits_here(&Trace::open(&folder::find(&args.trace.name)?)?)?;
    }
    if args.profile {
        return profile::run(args);
    }
    if let Some(event) = args.trace_from {
        return steps::run(args, event);
    }
    if args.compare_steps {
        return steps::compare(args);
    }
    if !args.trace_at.points.is_empty() {
        return trace_at::run(args);
    }
    if !args.autopilot {
        return debug::run(args);
    }
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let options = Options {
        jobs: args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from),
        quiet: args.quiet,
        pid: args.pid.as_ref().map(|process| pid_of(&trace, process)).transpose()?,
        progress: progress(args.quiet),
    };
    match bis_replay::replay(&trace, &options) {
        Ok(summary) => Ok(match lacking(&trace, summary.incomplete, args.pid.is_none()) {
            None => 0,
            Some(why) => {
                output::note(&format!("bis: replayed all that there is of this trace; {why}"));
                status::CUT
            }
        }),
        Err(error) => {
            let failure = failure_of(&error);
            let Some(domain) = error.domain().filter(|_| args.on_error.debugs) else { return Err(failure) };
            let status = failure.status;
            failure.print();
            debug::at_divergence(args, trace, domain).map_err(|error| error.with_status(status))?;
            // Whatever the debugger's own was.
            Ok(status)
        }
    }
}

/// What is said of a replay that failed, and its exit status.
pub fn failure_of(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Divergence(_) => Failure::new(status::DIVERGED, error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}

/// Has this processor all that the recording's programs are likely to have used? What else it lacks is named
/// where the replay diverges.
pub fn fits_here(trace: &Trace) -> Result<()> {
    let Some(machine) = trace.machine().filter(|machine| !machine.features.is_empty()) else {
        return Ok(());
    };
    let lacking = features::lacking(&machine.features, &features::offered(Level::Native));
    if lacking.needed.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "failed to replay on this processor: it lacks {}, which the recording's programs were told that they may use (it was made on \
         {}); replay it on a processor that has that, or record with `bis record --cpu=x86-64-v3` or -v2 there; --any-cpu tries it \
         all the same",
        lacking.needed.join(", "),
        machine.cpu
    )))
}

/// Replays all of a trace for the sake of its places that are found by their state, if no replay has yet
/// shown that these are right: a session with a debugger cannot begin again where one turns out to be wrong.
pub fn prove(trace: &Trace) {
    if !bis_replay::learnt::has_guesses(trace) {
        return;
    }
    let jobs = thread::available_parallelism().map_or(1, NonZero::get);
    let options = Options { jobs, quiet: true, pid: None, progress: progress(true) };
    if let Err(error) = bis_replay::replay(trace, &options) {
        output::note(&format!(
            "bis: a replay of all that was recorded fails; the session gets to there:\n{error}"
        ));
    }
}

/// The process that was named. By its program it is the first one that executed it: its base name or whole
/// path, as the kernel or as the program knew it.
pub fn pid_of(trace: &Trace, process: &ProcessArg) -> Result<Tid> {
    let name = match process {
        ProcessArg::Pid(pid) => return Ok(Tid(*pid)),
        ProcessArg::Command(name) => name,
    };
    let tail = format!("/{name}");
    let matches = |word: &Vec<u8>| word == name.as_bytes() || word.ends_with(tail.as_bytes());
    let found = trace.domains().find(|entry| {
        let program = entry.base.program();
        program.is_some_and(|program| matches(program.path) || program.argv.first().is_some_and(matches))
    });
    found.map(|entry| entry.pid).ok_or_else(|| {
        Failure::usage(format!(
            "failed to replay {name}: no process of this trace has executed it (bis ps shows them)"
        ))
    })
}

/// What a replay has not got of the run, as a clause; none: it has all. `found` is what the replay itself
/// says. A replay of all processes is none of the whole run where the trace is not whole, also where no
/// domain shows it: the cut may have come before the first event. One process can be complete in a trace that
/// is not.
pub fn lacking(trace: &Trace, found: Option<String>, of_all: bool) -> Option<String> {
    let why = found.or_else(|| match trace.ended() {
        Ending::Complete { .. } => None,
        Ending::Cut { why } => of_all.then(|| why.clone()),
        Ending::Recording => of_all.then(String::new),
    })?;
    Some(match trace.ended() {
        Ending::Recording => no_more(trace).to_owned(),
        _ => format!("{}: {why}", no_more(trace)),
    })
}

/// Why a trace goes no further.
pub fn no_more(trace: &Trace) -> &'static str {
    match trace.ended() {
        Ending::Recording => "it is still being recorded",
        _ => "it was cut short",
    }
}

/// A bar on standard error. None where the program's own output goes to the same terminal.
fn progress(quiet: bool) -> Option<Progress> {
    let is_shared = !quiet && std::io::stdout().is_terminal();
    if is_shared { None } else { progress::bar("events") }
}
