//! The three kinds of failure of a recording: the environment, something that bis cannot record, a bug.

use std::{error::Error, io, sync::Arc};

use bis_trace::{error::TraceError, types::Tid};
use bis_tracee::{TraceeError, found::FoundError, memory, spawn::SpawnError, ticks::TicksError};

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
    /// A process that runs already cannot be recorded. It goes on by itself.
    #[error(transparent)]
    Found(#[from] FoundError),
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
    /// Was it that this task, or all that have its address space, were killed meanwhile? Of a task that is
    /// being looked after.
    pub fn is_death_of(&self, tid: Tid) -> bool {
        match self {
            Self::Tracee(TraceeError::Died(dead)) => *dead == tid,
            Self::Tracee(error) => error.is_without_memory(),
            _ => false,
        }
    }

    /// What a user can do about it, where a limit or a right is the cause.
    pub fn remedy(&self) -> Option<&'static str> {
        if let Self::Tracee(TraceeError::Os { what: memory::OPEN, source, .. }) = self
            && source.raw_os_error() == Some(libc::EACCES)
        {
            return Some(
                "the kernel shows only root the memory of a program that may be executed but not read: make the \
                 executable readable, or record as root",
            );
        }
        match self.refusal()? {
            libc::EMFILE | libc::ENFILE => {
                Some("bis needs some for each process that it records: raise ulimit -Hn")
            }
            libc::ENOMEM => Some("the limit of memory, ulimit -v or the container's, is too low"),
            libc::EFBIG => Some("the limit of files' sizes, ulimit -f, is too low"),
            libc::EAGAIN => Some(
                "bis has a thread for each process that it records, and some more: the limit of processes, ulimit -u \
                 or the container's, or that of memory, ulimit -v, is too low",
            ),
            _ => None,
        }
    }

    /// The kernel's error that is behind it.
    fn refusal(&self) -> Option<i32> {
        let mut cause: Option<&(dyn Error + 'static)> = Some(self);
        while let Some(error) = cause {
            // A trace's writer keeps its errors, which it says again.
            let kept = error.downcast_ref::<Arc<io::Error>>().map(|kept| &**kept);
            let refused = kept.or_else(|| error.downcast_ref::<io::Error>());
            if let Some(errno) = refused.and_then(io::Error::raw_os_error) {
                return Some(errno);
            }
            cause = error.source();
        }
        None
    }
}

pub type Result<T, E = RecordError> = std::result::Result<T, E>;
