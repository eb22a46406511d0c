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
    /// is executed again; or the program's own instruction is back where a step led into a trampoline; or it
    /// only tells [what memory holds](SignalEvent::is_of_memory).
    pub fn is_of_text(&self) -> bool {
        let is_unguarded =
            |outcome: &Outcome| outcome.regs.rip == self.before.rip && !outcome.effects.is_empty();
        // A handler has a frame, which moves rsp.
        let is_led_out = |outcome: &Outcome| {
            let Registers { rip, .. } = outcome.regs;
            self.signal == Signal::TRAP
                && self.point == SignalPoint::Fault
                && rip != self.before.rip
                && outcome.regs == Registers { rip, ..self.before }
        };
        let is_of_text = |outcome: &Outcome| is_unguarded(outcome) || is_led_out(outcome);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Effect, types::Addr};

    #[test]
    fn what_gives_the_program_its_text_is_none_of_its_signals() {
        let before = Registers { rip: 0x7000, rsp: 0x8000, rax: 5, ..Registers::default() };
        let event = |signal, regs, effects| SignalEvent {
            signal,
            siginfo: vec![0; 128],
            point: SignalPoint::Fault,
            before,
            handler: Some(Outcome { regs, effects, ..Outcome::default() }),
        };
        let led_out = Registers { rip: 0x1000, ..before };
        assert!(event(Signal::TRAP, led_out, vec![]).is_of_text());
        let allowed = Effect::Protect { addr: Addr(0x7000), len: 0x1000, prot: 5 };
        assert!(event(Signal::SEGV, before, vec![allowed]).is_of_text());
        // A handler, one without room for its frame, another signal, and the end.
        assert!(!event(Signal::TRAP, Registers { rsp: 0x7c00, ..led_out }, vec![]).is_of_text());
        assert!(!event(Signal::TRAP, before, vec![]).is_of_text());
        assert!(!event(Signal::SEGV, led_out, vec![]).is_of_text());
        assert!(!SignalEvent { handler: None, ..event(Signal::TRAP, led_out, vec![]) }.is_of_text());
    }
}
