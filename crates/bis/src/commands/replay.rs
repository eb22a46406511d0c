//! `bis replay -a`: a whole recording replayed without a debugger. The replay is `bis-replay`, which also writes
//! the program's output; here are the progress shown on a terminal, and the exit status.

use std::{
    io::IsTerminal,
    num::NonZero,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use bis_replay::{Options, ReplayError};
use bis_trace::{Ending, Trace, types::Tid};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    args::Replay,
    failure::{Failure, Result, status},
    folder, output,
};

/// Nothing is shown of what takes less.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

pub fn run(args: &Replay) -> Result<u8> {
    if !args.autopilot {
        return Err(Failure::usage(
            "failed to replay: this version has no debugger yet; use bis replay -a, which replays to the end without \
             one",
        ));
    }
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let options = Options {
        jobs: args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from),
        quiet: args.quiet,
        pid: args.pid.map(Tid),
        progress: progress(args.quiet),
    };
    match bis_replay::replay(&trace, &options) {
        Ok(summary) => Ok(match summary.incomplete.or_else(|| cut(&trace, args)) {
            None => 0,
            Some(why) => {
                output::note(&format!(
                    "bis: replayed all that there is of this trace; it was cut short: {why}"
                ));
                status::CUT
            }
        }),
        Err(error) => {
            let code = match error {
                ReplayError::Divergence(_) => status::DIVERGED,
                _ => status::USAGE,
            };
            Err(Failure::new(code, error.to_string()))
        }
    }
}

/// Why the trace as a whole is not complete. A whole replay of it is none of the program's run, also where no domain
/// shows it: the cut may have come before the first event. One process can be complete in a trace that is not.
fn cut(trace: &Trace, args: &Replay) -> Option<String> {
    match trace.ended() {
        Ending::Cut { why } if args.pid.is_none() => Some(why.clone()),
        _ => None,
    }
}

type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// A bar on standard error, from the second second on. None where nobody looks at it, or where the program's own
/// output goes to the same terminal.
fn progress(quiet: bool) -> Option<Progress> {
    if !std::io::stderr().is_terminal() || (!quiet && std::io::stdout().is_terminal()) {
        return None;
    }
    let began = Instant::now();
    let shown: OnceLock<Bar> = OnceLock::new();
    Some(Box::new(move |done, of| {
        if began.elapsed() < PROGRESS_AFTER {
            return;
        }
        let bar = &shown.get_or_init(|| Bar(bar(of))).0;
        bar.set_length(of);
        bar.set_position(done);
    }))
}

/// Leaves the terminal clean, also after a failure.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn bar(of: u64) -> ProgressBar {
    let bar = ProgressBar::new(of);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} events, {eta} left") {
        bar.set_style(style);
    }
    bar
}
