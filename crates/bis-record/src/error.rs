//! The three kinds of failure of a recording: the environment, something that bis cannot record, a bug.

use std::{error::Error, io, sync::Arc};

use bis_trace::{error::TraceError, types::Tid};
use bis_tracee::{TraceeError, spawn::SpawnError, ticks::TicksError};

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The tick source that was asked for cannot be used.
    #[error(transparent)]
    Ticks(#[from] TicksError),
    #[error(transparent)]
    Tracee(#[from] TraceeError),
    #[error("failed to {what}: {source}")]
    Os { what: &'static str, source: io::Error },
    /// Something that cannot be recorded, named.
    #[error("cannot record this program: task {tid} {what}")]
    Unsupported { tid: Tid, what: String },
    /// An invariant of the recorder does not hold.
    #[error("{what} (task {tid}); this is a bug in bis, please report it with BIS_LOG=debug")]
    Bug { tid: Tid, what: String },
}

impl RecordError {
    /// Was it that this task, or all that have its address space, were killed meanwhile? Of a task that is being looked after.
    pub fn is_death_of(&self, tid: Tid) -> bool {
        match self {
            Self::Tracee(TraceeError::Died(dead)) => *dead == tid,
            Self::Tracee(error) => error.is_without_memory(),
            _ => false,
        }
    }

    /// Has the recorder itself no descriptor left?
    pub fn is_out_of_files(&self) -> bool {
        let mut cause: Option<&(dyn Error + 'static)> = Some(self);
        while let Some(error) = cause {
            // A trace's writer keeps its errors, which it says again.
            let kept = error.downcast_ref::<Arc<io::Error>>().map(|kept| &**kept);
            let refused = kept.or_else(|| error.downcast_ref::<io::Error>());
            if matches!(refused.and_then(io::Error::raw_os_error), Some(libc::EMFILE | libc::ENFILE)) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

pub type Result<T, E = RecordError> = std::result::Result<T, E>;
