//! What kinds of events are to a session.

use bis_replay::Replica;
use bis_trace::{
    event::{Event, EventKind, SignalPoint, TaskEnd},
    types::Registers,
};

/// Is this event, which comes next, what its task does when it is let execute one instruction?
pub(super) fn is_step(event: &Event, replica: &Replica<'_>) -> bool {
    match &event.kind {
        EventKind::Signal(signal) => !signal.is_silent() && !leaves_all(event, replica),
        EventKind::Syscall { .. }
        | EventKind::SyscallExit { .. }
        | EventKind::Instruction { .. }
        | EventKind::Start(_) => true,
        _ => false,
    }
}

/// Does this event, which comes next, leave its task as it stands now, with no instruction executed on the
/// way? A signal that its program's tracer has kept from it changes nothing, and so does one that ends it. A
/// task that stands where it has been raised has gone that step already: the `int3` of a tracer, behind which
/// the task stands.
fn leaves_all(event: &Event, replica: &Replica<'_>) -> bool {
    let EventKind::Signal(signal) = &event.kind else { return false };
    let changes = signal.handler.as_ref().is_some_and(|outcome| {
        let is_memory_left =
            outcome.effects.is_empty() && outcome.writes.is_empty() && outcome.clones.is_empty();
        outcome.regs != signal.before || outcome.xstate.is_some() || !is_memory_left
    });
    // A call loses two registers even where a signal comes in its place; and the processor sets a flag as an
    // instruction faults.
    let is_fault = signal.point == SignalPoint::Fault;
    let kept = |regs: Registers| {
        let (rcx, r11) = if is_fault { (regs.rcx, regs.r11) } else { (0, 0) };
        Registers { rcx, r11, eflags: 0, orig_rax: 0, ..regs }
    };
    !changes && replica.registers(event.tid).is_ok_and(|now| kept(now) == kept(signal.before))
}

/// What ends a task for good, of an event that does.
pub(super) fn end_of(kind: &EventKind) -> Option<TaskEnd> {
    match kind {
        EventKind::TaskExit { status, .. } => Some(*status),
        _ => None,
    }
}
