//! A signal that has taken effect, and where.

use super::Outcome;
use crate::types::{Registers, Signal};

#[derive(Clone, PartialEq, Debug)]
pub struct SignalEvent {
    pub signal: Signal,
    /// The kernel's `siginfo_t`, 128 bytes.
    pub siginfo: Vec<u8>,
    pub point: SignalPoint,
    /// The task's registers where the signal took effect.
    pub before: Registers,
    /// The handler's frame and the registers at the handler's first instruction; none where the signal ended
    /// the task. Where the stack had no room for the frame it is what is left of that, and the registers are
    /// as they were; the next event of the task is the SIGSEGV that comes instead.
    pub handler: Option<Outcome>,
}

impl SignalEvent {
    /// Is it none of the program's? The instruction faulted because its text was not to be executed yet, and
    /// is executed again; or it only tells [what memory holds](SignalEvent::is_of_memory).
    pub fn is_of_text(&self) -> bool {
        let is_of_text =
            |outcome: &Outcome| outcome.regs.rip == self.before.rip && !outcome.effects.is_empty();
        self.is_of_memory() || self.handler.as_ref().is_some_and(is_of_text)
    }

    /// Does it do nothing but to tell what memory holds? A large image is told so, and what a tracer writes
    /// to memory.
    pub fn is_of_memory(&self) -> bool {
        let only_writes = |outcome: &Outcome| outcome.regs == self.before && outcome.xstate.is_none();
        self.signal == Signal::TRAP
            && self.point == SignalPoint::AfterEvent
            && self.handler.as_ref().is_some_and(only_writes)
    }

    /// Is it none of the program's? A debugger's user has changed memory here, while the program stood still.
    pub fn is_of_user(&self) -> bool {
        self.signal == Signal::TRAP && self.siginfo == SignalEvent::info_of_user()
    }

    /// What no kernel says of a signal.
    pub fn info_of_user() -> Vec<u8> {
        const MARK: i32 = i32::from_be_bytes(*b"\0bis");
        let (number, code) = (i32::from(Signal::TRAP.0).to_le_bytes(), i32::MIN.to_le_bytes());
        let mut info = [number, MARK.to_le_bytes(), code].concat();
        info.resize(128, 0);
        info
    }

    /// Is it none of the program's, for one reason or the other?
    pub fn is_silent(&self) -> bool {
        self.is_of_text() || self.is_of_user()
    }
}

/// Where a signal took effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalPoint {
    /// The task's own instruction raised it; it is raised in replay too.
    Fault,
    /// Right after the outcome of the task's previous event.
    AfterEvent,
    /// At the entry of a system call, before the `syscall` instruction has had any effect: `before.rip` is
    /// that instruction.
    BeforeSyscall,
    /// Wherever the task was: only for signals that ended it (`handler` is none).
    Anywhere,
    /// At the end of the hook that has logged the last entry of the [`EventKind::Hooked`] before this event:
    /// `before.rip` is where the program goes on.
    AfterHook,
}
