//! What kinds of events are to a session.

use bis_trace::event::{EventKind, TaskEnd};

/// Is such an event what a task does when it is let execute one instruction?
pub(super) fn is_step(kind: &EventKind) -> bool {
    match kind {
        EventKind::Signal(signal) => !signal.is_silent(),
        EventKind::Syscall { .. }
        | EventKind::SyscallExit { .. }
        | EventKind::Instruction { .. }
        | EventKind::Start(_) => true,
        _ => false,
    }
}

/// What ends a task for good, of an event that does.
pub(super) fn end_of(kind: &EventKind) -> Option<TaskEnd> {
    match kind {
        EventKind::TaskExit { status, .. } => Some(*status),
        _ => None,
    }
}
