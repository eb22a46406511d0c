//! What is told of an event.

use bis_replay::Replica;
use bis_trace::{
    event::{Effect, Event, EventKind},
    types::{EventSeq, Tid},
};

use super::{Session, Why, events::is_step};

/// The number of a whole system call.
pub(super) fn call_of(kind: &EventKind) -> Option<u64> {
    match kind {
        EventKind::Syscall { nr, .. } => Some(*nr),
        _ => None,
    }
}

/// What may be told of an event, kept while it is done.
pub(super) struct Told {
    seq: EventSeq,
    pub tid: Tid,
    /// It is what the task does when it is let execute one instruction.
    pub is_step: bool,
    call: Option<(u64, Option<bool>)>,
    fork: Option<Tid>,
    new_task: Option<Tid>,
}

impl Told {
    pub(super) fn of(event: &Event, replica: &Replica<'_>) -> Told {
        let Event { seq, tid, kind, .. } = event;
        let call = match kind {
            EventKind::Syscall { nr, .. } => Some((*nr, None)),
            EventKind::SyscallEnter { nr, .. } => Some((*nr, Some(true))),
            EventKind::SyscallExit { nr, .. } => Some((*nr, Some(false))),
            _ => None,
        };
        let effects = match kind {
            EventKind::Syscall { outcome, .. } | EventKind::SyscallExit { outcome, .. } => {
                &outcome.effects[..]
            }
            _ => &[],
        };
        let fork = effects.iter().find_map(|effect| match effect {
            Effect::Fork { tid, .. } => Some(*tid),
            _ => None,
        });
        let new_task = effects.iter().find_map(|effect| match effect {
            Effect::NewTask { tid, .. } => Some(*tid),
            _ => None,
        });
        let is_step = is_step(event, replica);
        Told { seq: *seq, tid: *tid, is_step, call, fork, new_task }
    }

    /// This event, if it is a whole system call that is caught: it is told of at its place, too, where the
    /// call is entered.
    pub(super) fn caught_call(&self, session: &Session<'_>) -> Option<EventSeq> {
        matches!(self.call, Some((nr, None)) if session.caught_calls.has(nr)).then_some(self.seq)
    }

    /// What is told of it when it is done, and of which task; `tid` is that of the event.
    pub(super) fn why(&self, session: &Session<'_>, tid: Tid) -> Option<(Tid, Why)> {
        // A child that has its parent's memory until it executes a program is a task of the same domain.
        let vfork = self.new_task.filter(|task| session.is_other_process(*task));
        if session.catches_forks
            && let Some(pid) = self.fork.or(vfork)
        {
            return Some((tid, Why::Fork { pid, is_vfork: vfork.is_some() }));
        }
        if let Some((nr, entry)) = self.call.filter(|(nr, _)| session.caught_calls.has(*nr)) {
            return Some((tid, Why::Call { nr, is_entry: entry.unwrap_or(false) }));
        }
        if !session.tells_threads {
            return None;
        }
        self.new_task.map(|task| (task, Why::ThreadBegins))
    }
}
