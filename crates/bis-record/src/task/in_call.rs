//! A system call between its entry and its event. A value.
//!
//! Its parts are the ideas that a call is made of. Each has a file of its own, and is changed by the steps of
//! a call's life that are named there.

mod as_made;
mod asked;
mod deed;
mod found;
mod lock;
mod pieces;
mod telling;
mod wait;

pub use as_made::{AsMade, Narrow, Way};
pub use asked::Asked;
pub use deed::{Deed, ForkChild};
pub use found::Found;
pub use lock::Lock;
pub use pieces::Pieces;
pub use telling::Telling;
pub use wait::Wait;

use bis_syscalls::Handler;
use bis_trace::{
    event::{EventKind, MemWrite, Outcome, RangeSum},
    types::{Registers, StandardStream},
};

#[derive(Debug)]
pub struct InCall {
    /// How the program has made it.
    pub entry: AsMade,
    handler: Option<Handler>,
    /// Which memory it touches, and where that lies meanwhile.
    pub pieces: Pieces,
    /// How much of it the kernel is asked for.
    pub asked: Asked,
    /// Which events of it are written.
    pub telling: Telling,
    /// What of its effects was found on the way.
    pub found: Found,
    /// The lock of standard output or error, if it writes there.
    pub lock: Lock,
    /// What is known of its wait.
    pub wait: Wait,
    /// What it does to another task.
    pub deed: Deed,
}

impl InCall {
    /// A call at its entry, of which nothing is known yet but how it was made, and the sums of memory before
    /// it.
    pub fn new(entry: AsMade, sums: Vec<RangeSum>) -> InCall {
        InCall {
            entry,
            handler: None,
            pieces: Pieces::default(),
            asked: Asked::default(),
            telling: Telling::new(sums),
            found: Found::default(),
            lock: Lock::default(),
            wait: Wait::default(),
            deed: Deed::default(),
        }
    }

    /// What is special about it, as the table of calls says.
    pub fn handler(&self) -> Option<Handler> {
        self.handler
    }

    /// The table of calls says what is special about it.
    pub fn set_handler(&mut self, handler: Handler) {
        self.handler = Some(handler);
    }

    /// Does it execute a program?
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Some(Handler::Execve | Handler::Execveat))
    }

    /// Does it wait in a `pause`, for what the kernel does not know of: tracees, or its turn to write to
    /// standard output or error?
    pub fn pauses(&self) -> bool {
        self.lock.is_awaited() || self.wait.is_for_tracees()
    }

    /// Another task writes to this stream: the call waits for its turn, in a `pause`.
    pub fn await_lock(&mut self, stream: StandardStream) {
        self.lock = Lock::Awaited(stream);
        self.wait.be_known(true);
    }

    /// Was it made with other arguments than the program's?
    pub fn has_other_args(&self) -> bool {
        self.pieces.are_in_scratch() || self.asked.is_otherwise()
    }

    /// Has it made a task, and not returned?
    pub fn has_made_child(&self) -> bool {
        self.telling.is_whole() || self.deed.made().is_some()
    }

    /// Has it made a task of which its event has not told yet?
    pub fn has_untold_child(&self) -> bool {
        self.deed.made().is_some() && !self.telling.is_whole()
    }

    /// It has written this, if anything.
    pub fn wrote(&mut self, write: Option<MemWrite>) {
        write.into_iter().for_each(|write| self.found.add_write(write));
    }

    /// It is known by another call from here on: the sums that go with its first event.
    pub fn into_sums(mut self) -> Vec<RangeSum> {
        self.telling.take_sums()
    }

    /// Its entry is written now: this event, with these sums.
    pub fn enter(&mut self) -> (EventKind, Vec<RangeSum>) {
        let (nr, entry) = self.entry.told();
        (EventKind::SyscallEnter { nr, entry }, self.telling.enter())
    }

    /// The event that says this outcome of it, with the sums that go with that.
    pub fn event(&mut self, outcome: Outcome) -> (EventKind, Vec<RangeSum>) {
        let ((nr, entry), outcome) = (self.entry.told(), Box::new(outcome));
        let kind = match self.telling.is_entered() {
            true => EventKind::SyscallExit { nr, outcome },
            false => EventKind::Syscall { nr, entry, outcome },
        };
        (kind, self.telling.take_sums())
    }

    /// As [`InCall::event`], for an outcome that leaves the task in front of the call: the kernel has made
    /// it, and the program makes it once more.
    pub fn event_in_front(&mut self, outcome: Outcome) -> (EventKind, Vec<RangeSum>) {
        let regs: Registers = self.entry.before();
        let event = self.event(Outcome { regs, ..outcome });
        self.telling.begin_again();
        event
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{Addr, Tid};

    use super::*;

    fn call() -> InCall {
        let entry = Registers { orig_rax: 57, rsp: 0x7000, ..Registers::default() };
        InCall::new(AsMade::of(&entry), Vec::new())
    }

    #[test]
    fn a_call_has_one_event_or_two() {
        let mut call = call();
        assert!(matches!(call.event(Outcome::default()).0, EventKind::Syscall { nr: 57, .. }));
        assert!(matches!(call.enter().0, EventKind::SyscallEnter { nr: 57, .. }));
        assert!(matches!(call.event(Outcome::default()).0, EventKind::SyscallExit { nr: 57, .. }));
    }

    #[test]
    fn an_event_in_front_of_a_call_closes_its_entry() {
        let mut call = call();
        call.enter();
        let (kind, _) = call.event_in_front(Outcome::default());
        let EventKind::SyscallExit { outcome, .. } = kind else { panic!("{kind:?}") };
        assert_eq!(outcome.regs, call.entry.before());
        assert!(matches!(call.event(Outcome::default()).0, EventKind::Syscall { .. }));
    }

    #[test]
    fn a_child_is_untold_until_the_event_of_its_making() {
        let mut call = call();
        assert!(!call.has_made_child() && !call.has_untold_child());
        call.deed = Deed::made_task(Tid(7), None);
        assert!(call.has_made_child() && call.has_untold_child());
        call.telling.end();
        assert!(call.has_made_child() && !call.has_untold_child());
    }

    #[test]
    fn a_call_pauses_for_its_turn_to_write_and_for_tracees() {
        let mut writes = call();
        writes.await_lock(StandardStream::Output);
        assert!(writes.pauses() && writes.wait.is_known());
        writes.lock.hold(StandardStream::Output);
        assert!(!writes.pauses());
        let mut waits = call();
        waits.wait.be_for_tracees(Registers::default());
        assert!(waits.pauses());
    }

    #[test]
    fn a_call_of_which_less_is_asked_has_other_arguments() {
        let mut call = call();
        assert!(!call.has_other_args());
        call.asked.ask_otherwise();
        assert!(call.has_other_args());
        assert_eq!(call.entry.sp(), Addr(0x7000));
    }
}
