//! Replay: the programs of a trace run again and do exactly what they did.
//!
//! Bird's eye. [`replay`] selects what to replay ([`select`]), and starts one thread for each domain that began
//! with an exec, a few at a time ([`job`]). A thread gets an empty process ([`run`]), builds the recorded address
//! space in it ([`space`]), and lets its tasks run from event to event ([`domain`]); at each it compares what the
//! task does with what it did, and makes the recorded outcome true ([`apply`]). Where the recording forked, the
//! process is copied and a further thread takes the copy. Memory that domains share is in [`objects`]; the
//! program's output is put into its one order by [`echo`]; a difference becomes a report ([`divergence`]).
//!
//! What is deliberately absent: knowledge of system calls. An event says what the kernel did, and no recorded call
//! is ever made: the filter under which a stub runs lets nothing through but what its supervisor asks for, and
//! [`space`] is all that it ever asks for. A trace from a stranger can use up time and memory, not more.
#![forbid(unsafe_code)]

mod apply;
pub mod divergence;
mod domain;
mod echo;
mod error;
mod job;
mod objects;
mod reach;
mod run;
mod scene;
mod seek;
mod select;
mod shared;
mod space;
mod stub;
mod task;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, atomic::AtomicU64},
};

use bis_trace::{Trace, event::Meta, types::Tid};

pub use divergence::Divergence;
pub use error::ReplayError;

use crate::{echo::Echo, job::Board, objects::Sharers, select::Facts, shared::Shared};

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
/// process is left. Output of the program goes to our standard output and error in the recorded order; a closed
/// pipe there ends the replay quietly, as if it were whole.
///
/// # Errors
/// [`ReplayError::Divergence`] when a program did something else than it did when it was recorded, whose text
/// is the report; the other kinds of [`ReplayError`] when the trace or this machine is at fault.
pub fn replay(trace: &Trace, options: &Options) -> Result<Summary, ReplayError> {
    replay_to(trace, options, echo::to_our_own())
}

fn replay_to(trace: &Trace, options: &Options, sink: echo::Sink) -> Result<Summary, ReplayError> {
    let mut facts = Facts::default();
    let mut files = HashMap::new();
    for meta in trace.metas() {
        match meta {
            Meta::Domain(entry) => facts.domains.push(entry.clone()),
            Meta::Task { domain, pid, .. } => facts.tasks.push((*domain, *pid)),
            Meta::Share { object, domain } => facts.shares.push((*object, *domain)),
            Meta::File(entry) => drop(files.insert(entry.file, entry.clone())),
            _ => {}
        }
    }
    let selection = select::select(&facts, options.pid)?;
    let echo = (!options.quiet).then(|| {
        // Where all is to be heard, so is what a cut trace has lost but for its place.
        let is_heard = |domain| options.pid.is_none() || selection.heard.contains(domain);
        let heard = trace.echoes().iter().filter(|echo| is_heard(&echo.domain));
        Echo::new(heard.map(|echo| (echo.seq.0, echo.domain)), sink)
    });
    let selected = |(_, domain): &(_, _)| selection.extents.contains_key(domain);
    let sharers = Sharers::new(facts.shares.iter().copied().filter(selected));
    let board = Board::new(run::cores(options.jobs), selection.roots.len());
    for domain in &selection.roots {
        board.begin_once(*domain);
    }
    let events_total = selection.extents.keys().map(|domain| trace.event_count(*domain)).sum();
    let shared = Shared {
        trace,
        machine: trace.machine().cloned().unwrap_or_default(),
        selection,
        entries: facts.domains.into_iter().map(|entry| (entry.domain, entry)).collect(),
        files,
        board,
        sharers: Mutex::new(sharers),
        echo,
        events_done: AtomicU64::new(0),
        domains_done: AtomicU64::new(0),
        events_total,
        progress: options.progress.as_deref(),
        copies: Mutex::default(),
    };
    run::allow_many_files();
    run::run_all(&shared);
    let Shared { board, events_done, domains_done, .. } = shared;
    let cut = board.outcome()?;
    Ok(Summary {
        domains: domains_done.into_inner(),
        events: events_done.into_inner(),
        incomplete: cut.map(|cut| why_cut(trace, cut)),
    })
}

fn why_cut(trace: &Trace, cut: String) -> String {
    match trace.ended() {
        bis_trace::Ending::Cut { why } => format!("{why}; {cut}"),
        bis_trace::Ending::Complete { .. } => cut,
    }
}
