//! What can go wrong between a supervisor and a task.

use std::io;

use bis_trace::types::{Addr, Tid};

#[derive(Debug, thiserror::Error)]
pub enum TraceeError {
    /// The task was killed (SIGKILL, or another thread's exit) while the supervisor worked on it. Not a
    /// fault: the next wait says how it ended.
    #[error("task {0} died")]
    Died(Tid),
    /// The task has no descriptor left, or the system has none for it. The supervisor's own want of one is
    /// [`TraceeError::Os`].
    #[error("task {0} has no descriptor left")]
    OutOfFiles(Tid),
    /// The kernel refused an operation.
    #[error("failed to {what} (task {tid}): {source}")]
    Os { what: &'static str, tid: Tid, source: io::Error },
    /// The task's memory at this range cannot be read or written.
    #[error("failed to access {len} bytes at {addr:#x}: {source}")]
    Memory { addr: Addr, len: usize, source: io::Error },
    /// The task stopped in a way that nothing explains: a bug in bis.
    #[error("task {tid} stopped unexpectedly while {doing}: {found} (this is a bug in bis)")]
    Unexpected { tid: Tid, doing: &'static str, found: String },
}

impl TraceeError {
    /// Was there no address space any more? The last task that had it is dead then; the kernel's `mem_rw`
    /// (fs/proc/base.c) transfers nothing, where an address that is not mapped is an error.
    #[must_use]
    pub fn is_without_memory(&self) -> bool {
        let Self::Memory { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero)
    }

    /// Was a request refused because the task does not stand in the stop that the request is for?
    #[must_use]
    pub fn is_of_another_stop(&self) -> bool {
        matches!(self, Self::Os { source, .. } if source.raw_os_error() == Some(libc::EIO))
    }

    /// Was it that no more signals may wait?
    #[must_use]
    pub fn is_out_of_signals(&self) -> bool {
        matches!(self, Self::Os { source, .. } if source.raw_os_error() == Some(libc::EAGAIN))
    }
}

pub type Result<T, E = TraceeError> = std::result::Result<T, E>;
