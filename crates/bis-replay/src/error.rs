//! What can go wrong in a replay, and how a domain's thread learns that it must stop.
//!
//! Three kinds are kept apart: the trace (damaged, or at odds with itself), this machine (something that the
//! recorded one had is missing), and the replay proper, where a program did something else than it did when
//! it was recorded: [`ReplayError::Divergence`].

use std::io;

use bis_trace::{
    TraceError,
    types::{DomainId, EventSeq, Tid},
};
use bis_tracee::{TraceeError, spawn::SpawnError, ticks::TicksError};

use crate::{divergence::Divergence, ours::TextError};

/// Why a replay failed. One line each, but for a divergence, whose text is the whole report.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What the program's own text is cannot be told.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A program did something else than it did when it was recorded.
    #[error("{0}")]
    Divergence(Box<Divergence>),
    /// This machine lacks what the recorded one had.
    #[error("failed to replay on this machine: {0}")]
    Machine(String),
    /// `Options::pid` names no process of the trace.
    #[error("the trace has no process {pid}; it has {}", list(known))]
    UnknownPid { pid: Tid, known: Vec<Tid> },
    /// What the trace says cannot be: it was damaged, or its maker has a fault.
    #[error(
        "the trace contradicts itself at event {seq} of domain {domain}: {what} (it was damaged, or bis has a bug: please report it)"
    )]
    Inconsistent { domain: DomainId, seq: EventSeq, what: String },
    /// An operation on a replayed address space was refused.
    #[error("failed to {what} at event {seq} of domain {domain}: {source}")]
    Effect {
        domain: DomainId,
        seq: EventSeq,
        what: String,
        #[source]
        source: Box<ReplayError>,
    },
    /// The program runs hooks that this version does not know: how they are stopped and led on would be
    /// guessed.
    #[error(
        "the trace was recorded with other hooks than this version of bis has: replay it with the version that \
         recorded it (bis info says which)"
    )]
    OtherHooks,
    #[error(transparent)]
    Tracee(#[from] TraceeError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The trace's tick source cannot be used here.
    #[error("{0} (the trace needs it: its places are counted by it)")]
    Ticks(#[from] TicksError),
    #[error("failed to {what}: {source}")]
    Io { what: String, source: io::Error },
}

fn list(pids: &[Tid]) -> String {
    if pids.is_empty() {
        return "none".into();
    }
    let names: Vec<String> = pids.iter().map(Tid::to_string).collect();
    names.join(", ")
}

impl ReplayError {
    /// The domain whose replica stands where this was found, and can be looked at.
    #[must_use]
    pub fn domain(&self) -> Option<DomainId> {
        match self {
            ReplayError::Divergence(divergence) => Some(divergence.domain),
            ReplayError::Inconsistent { domain, .. } | ReplayError::Effect { domain, .. } => Some(*domain),
            _ => None,
        }
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> ReplayError {
        ReplayError::Io { what: what.into(), source }
    }
}

/// Why a replica cannot go on.
#[derive(Debug)]
pub enum Halt {
    /// Somebody else failed, or nobody reads our output any more.
    Cancelled,
    /// The trace has no more of this domain, or of a domain that this one waits for.
    Cut(String),
    /// The program has read its text at this pause while a jump of ours was there.
    Seen(EventSeq),
    Failed(ReplayError),
}

impl<E: Into<ReplayError>> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Failed(error.into())
    }
}
