//! Replay: the programs of a trace run again and do exactly what they did.
//!
//! Bird's eye. [`replay`] selects what to replay ([`select`]), and starts one thread for each domain that
//! began with an exec, a few at a time ([`job`]). A thread gets an empty process ([`run`]) and makes a
//! [`replica`] of the domain, which builds the recorded address space in it ([`space`]) and lets its tasks
//! run from event to event; at each it compares what the task does with what it did, and makes the recorded
//! outcome true ([`apply`]). Where the recording forked, the process is copied and a further thread takes the
//! copy. A debugger drives replicas without such threads: it is another [`host`], with a [`company`] where
//! memory is shared. A copy that runs what was not recorded is a [`diversion`]. Memory that domains share is
//! in [`objects`]; the program's output is put into its one order by [`echo`], and is had line by line from
//! [`output`]; a difference becomes a report ([`divergence`]).
//!
//! A place in the middle of computation is found by its state, which may deceive: then the domain goes back
//! to a checkpoint in front of it ([`retry`]), or all begins again, with what was learnt ([`learnt`]).
//!
//! What is deliberately absent: knowledge of system calls. An event says what the kernel did, and no recorded
//! call is ever made: the filter under which a stub runs lets nothing through but what its supervisor asks
//! for, and [`space`] is all that it ever asks for. A trace from a stranger can use up time and memory, not
//! more.
#![forbid(unsafe_code)]

mod alarm;
mod allowed;
mod apply;
mod areas;
pub mod checkpoint;
pub mod company;
mod count;
mod counted;
pub mod divergence;
mod diversion;
mod echo;
mod error;
mod going;
pub mod host;
mod job;
pub mod learnt;
mod names;
mod objects;
pub mod ours;
pub mod output;
mod process;
mod reach;
mod repeated;
pub mod replica;
mod retry;
mod run;
mod scene;
mod seek;
mod select;
mod shared;
pub mod solo;
mod space;
mod spans;
mod task;
#[cfg(test)]
mod tests;
pub mod traps;
mod world;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bis_trace::{ReadAhead, Trace, types::Tid};

pub use areas::{Area, Piece};
pub use bis_rewrite::{Predicate, Test};
pub use checkpoint::{Checkpoint, Parcel};
pub use company::Company;
pub use divergence::Divergence;
pub use diversion::{Diversion, Going, Heard, Paused};
pub use error::{Halt, ReplayError};
pub use replica::{Ahead, Limit, Replica, Stop};
pub use run::allow_many_files;
pub use solo::Solo;
pub use task::Interrupt;
pub use world::World;

use crate::{
    echo::Echo,
    job::{Board, Ended},
    learnt::{Learnt, Search},
    objects::Sharers,
    select::Selection,
    shared::Shared,
};

/// Is told of progress: events replayed, and how many there are as far as the trace says. Called from many
/// threads.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// How to replay.
#[derive(Default)]
pub struct Options {
    /// How many domains may run at the same time; 0 means one for each core that this process may use.
    pub jobs: usize,
    /// Do not write what the program wrote.
    pub quiet: bool,
    /// Replay this process only, from its last exec, and what it cannot be replayed without.
    pub pid: Option<Tid>,
    pub progress: Option<Progress>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { jobs, quiet, pid, progress } = self;
        f.debug_struct("Options")
            .field("jobs", jobs)
            .field("quiet", quiet)
            .field("pid", pid)
            .field("progress", &progress.is_some())
            .finish()
    }
}

/// What a replay without divergence came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Domains replayed to their last event.
    pub domains: u64,
    pub events: u64,
    /// Why not everything could be replayed: the trace was cut. None when it was whole.
    pub incomplete: Option<String>,
}

/// Replays a trace, or one process of it, on threads of its own; returns when all have ended and no replayed
/// process is left. Output of the program goes to our standard output and error in the recorded order; a
/// closed pipe there ends the replay quietly, as if it were whole.
///
/// # Errors
/// [`ReplayError::Divergence`] when a program did something else than it did when it was recorded, whose text
/// is the report; the other kinds of [`ReplayError`] when the trace or this machine is at fault.
pub fn replay(trace: &Trace, options: &Options) -> Result<Summary, ReplayError> {
    replay_to(trace, options, !options.quiet, echo::to_our_own())
}

/// How long what follows a guess may take which took this long before, when it was not given up.
fn trial_limit(before: Duration) -> Duration {
    const TRIAL_MIN: Duration = Duration::from_secs(2);
    TRIAL_MIN + 10 * before
}

/// What the program wrote goes to `sink`, if it is heard at all.
fn replay_to(
    trace: &Trace,
    options: &Options,
    is_heard: bool,
    sink: echo::Sink,
) -> Result<Summary, ReplayError> {
    let world = World::new(trace)?;
    let selection = select::select(&world.facts, options.pid)?;
    let whole = Whole { world: &world, options, selection, is_heard };
    run::allow_many_files();
    let known = Learnt::of_trace(trace);
    let mut search = Search::new(known.clone());
    let sink = Arc::new(Mutex::new(Shown { bytes: 0, sink }));
    let mut longest = Duration::ZERO;
    loop {
        let began = Instant::now();
        let limit = search.is_trying_any().then(|| trial_limit(longest));
        let (outcome, found);
        (outcome, found, search) = whole.attempt(search, &sink, limit);
        if !matches!(outcome, Ok(Attempt::TooLong)) {
            longest = longest.max(began.elapsed());
        }
        match outcome {
            Ok(Attempt::Done(summary)) => {
                let is_whole = options.pid.is_none() && !found.is_empty();
                let was_proven = learnt::is_proven(trace);
                if search.learnt != known || is_whole && !was_proven {
                    learnt::keep(trace, &search.learnt, is_whole || was_proven);
                }
                return Ok(summary);
            }
            Ok(Attempt::Again) => {}
            Ok(Attempt::TooLong) => drop(search.give_up(&found)?),
            Err(error) => return Err(error),
        }
        tracing::info!(learnt = search.learnt.to_text(), "the replay begins again");
    }
}

/// What has been written so far, over all attempts.
struct Shown {
    bytes: u64,
    sink: echo::Sink,
}

/// A sink for one attempt: what earlier ones have written does not come again.
fn sink_of_attempt(shown: &Arc<Mutex<Shown>>) -> echo::Sink {
    let shown = shown.clone();
    let mut skip = shown.lock().unwrap_or_else(PoisonError::into_inner).bytes;
    Box::new(move |source, bytes| {
        let known = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
        skip -= known as u64;
        let bytes = &bytes[known..];
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if !bytes.is_empty() {
            (shown.sink)(source, bytes)?;
            shown.bytes += bytes.len() as u64;
        }
        Ok(())
    })
}

/// What all attempts to replay have in common.
struct Whole<'t> {
    world: &'t World<'t>,
    options: &'t Options,
    selection: Selection,
    is_heard: bool,
}

enum Attempt {
    Done(Summary),
    /// All begins again, with what was learnt.
    Again,
    TooLong,
}

impl Whole<'_> {
    /// What the threads of one attempt share, before the first of them has begun.
    fn shared(&self, search: Search, sink: &Arc<Mutex<Shown>>) -> Shared<'_> {
        let Whole { world, options, selection, is_heard } = self;
        let trace = world.trace;
        let echo = is_heard.then(|| {
            // Where all is to be heard, so is what a cut trace has lost but for its place.
            let is_heard = |domain| options.pid.is_none() || selection.heard.contains(domain);
            let heard = trace.echoes().iter().filter(|echo| is_heard(&echo.domain));
            Echo::new(heard.map(|echo| (echo.seq.0, echo.domain)), sink_of_attempt(sink))
        });
        let selected = |(_, domain): &(_, _)| selection.extents.contains_key(domain);
        let sharers = Sharers::new(world.facts.shares.iter().copied().filter(selected));
        let board = Board::new(run::cores(options.jobs, world), selection.roots.len());
        for domain in &selection.roots {
            board.begin_once(*domain);
        }
        let events_total = selection.extents.keys().map(|domain| trace.event_count(*domain)).sum();
        Shared {
            world,
            selection,
            board,
            sharers: Mutex::new(sharers),
            echo,
            search: Mutex::new(search),
            is_guessing: !learnt::is_proven(trace),
            kept: AtomicUsize::new(0),
            began: Instant::now(),
            alarms: Mutex::default(),
            found: Mutex::default(),
            events_done: AtomicU64::new(0),
            domains_done: AtomicU64::new(0),
            events_total,
            progress: options.progress.as_deref(),
            seats: Mutex::default(),
            ahead: ReadAhead::new(trace),
        }
    }

    fn attempt(
        &self,
        search: Search,
        sink: &Arc<Mutex<Shown>>,
        limit: Option<Duration>,
    ) -> (Result<Attempt, ReplayError>, learnt::Found, Search) {
        let shared = self.shared(search, sink);
        thread::scope(|scope| {
            let (done, wait) = mpsc::channel::<()>();
            let shared = &shared;
            scope.spawn(move || {
                if !shared.balance(&wait, limit) {
                    shared.board.end_with(Ended::TooLong);
                }
            });
            let _closing = Closing(&shared.ahead);
            // On one core, it would only take time away from the program. Where there can be no more threads,
            // nothing is read ahead.
            if self.world.cores.len() > 1 {
                let reader = thread::Builder::new().name("read ahead".into());
                let _ = reader.spawn_scoped(scope, || shared.ahead.serve());
            }
            run::run_all(shared);
            drop(done);
        });
        let Shared { board, events_done, domains_done, found, search, .. } = shared;
        let search = search.into_inner().unwrap_or_else(PoisonError::into_inner);
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done = |cut: Option<String>| {
            let incomplete = cut.map(|cut| why_cut(self.world.trace, cut));
            Attempt::Done(Summary {
                domains: domains_done.into_inner(),
                events: events_done.into_inner(),
                incomplete,
            })
        };
        let outcome = board.outcome().map(|ended| match ended {
            Ended::Whole => done(None),
            Ended::Cut(why) => done(Some(why)),
            Ended::Again => Attempt::Again,
            Ended::TooLong => Attempt::TooLong,
        });
        (outcome, found, search)
    }
}

/// Ends the service, even after a panic.
struct Closing<'a>(&'a ReadAhead<'a>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn why_cut(trace: &Trace, cut: String) -> String {
    match trace.ended() {
        bis_trace::Ending::Cut { why } => format!("{why}; {cut}"),
        bis_trace::Ending::Complete { .. } | bis_trace::Ending::Recording => cut,
    }
}
