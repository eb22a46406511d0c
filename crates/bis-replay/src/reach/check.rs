//! The check that a task has come to its event's place, and nowhere else; and what it has come to in words.

use bis_agent::hooks::{SAFEPOINT, entries};
use bis_trace::{
    event::{Insn, SignalEvent, SignalPoint},
    types::{Registers, Signal, narrow_number},
};

use crate::{
    divergence::{Brief, Leave, call_name},
    error::Halt,
    replica::{Mismatch, Replica, Who},
    task::{Found, Hooked, Place, Task, call_text, fault_text, found_text, info_of},
};

pub(super) fn signal_text(event: &SignalEvent) -> String {
    format!("{} at {:#x}", event.signal, event.before.rip)
}

impl Replica<'_> {
    /// Have the hooks consumed all of the log?
    pub(super) fn check_log(
        &self,
        task: &Task,
        who: Who,
        hooked: Option<&Hooked>,
        place: &Place,
    ) -> Result<(), Halt> {
        let Some(hooked) = hooked else { return Ok(()) };
        let used = usize::try_from(self.space.log_used()?).unwrap_or(usize::MAX);
        if used == hooked.log.len() {
            return Ok(());
        }
        let next = entries(hooked.log.get(used..).unwrap_or_default()).next();
        let expected = match next {
            Some(entry) => format!("{} in its hook", call_name(entry.nr.into())),
            None => "the end of the log of hooked calls".into(),
        };
        Err(self.diverged(task, who, Mismatch::new(expected, found_text(place), place.regs)))
    }

    pub(super) fn must_be_call(
        &self,
        task: &Task,
        who: Who,
        nr: u64,
        entry: &Registers,
        place: &Place,
    ) -> Result<(), Halt> {
        let expected = || call_text(nr, entry.ip());
        let wanted = if nr == SAFEPOINT { Found::Safepoint } else { Found::Call };
        let number = narrow_number(nr).map_or(nr, u64::from);
        if place.found != wanted || place.regs.orig_rax != number {
            return Err(self.elsewhere(task, who, expected(), place, entry, Leave::Nothing));
        }
        self.must_equal(task, who, expected(), entry, &place.regs, Leave::Nothing)
    }

    /// The task has come to where it was killed, in a hook or behind one, whose log is used up.
    pub(super) fn must_be_at_hook(&self, task: &Task, who: Who, place: &Place) -> Result<(), Halt> {
        if matches!(place.found, Found::Safepoint | Found::Call | Found::OtherCall) {
            return Ok(());
        }
        let expected = "the call of a hook in which it was killed".to_owned();
        Err(self.diverged(task, who, Mismatch::new(expected, found_text(place), place.regs)))
    }

    pub(super) fn must_be_instruction(
        &self,
        task: &Task,
        who: Who,
        insn: Insn,
        before: &Registers,
        place: &Place,
    ) -> Result<(), Halt> {
        let expected = || format!("{} at {:#x}", Brief::Instruction(insn), before.rip);
        // A trapped instruction is a general protection fault, which has no address.
        let trapped =
            matches!(place.found, Found::Fault(info) if info.signal() == Signal::SEGV && info.code() == 0x80);
        if !trapped {
            return Err(self.elsewhere(task, who, expected(), place, before, Leave::OrigRax));
        }
        self.must_equal(task, who, expected(), before, &place.regs, Leave::OrigRax)
    }

    /// The task has stopped where a signal took effect that came while it ran.
    pub(super) fn must_be_signal(
        &self,
        task: &mut Task,
        who: Who,
        event: &SignalEvent,
        mut place: Place,
    ) -> Result<(), Halt> {
        let expected = || signal_text(event);
        match event.point {
            SignalPoint::Fault => {
                let Some(wanted) = info_of(&event.siginfo) else {
                    return Err(self.inconsistent(who.seq, "a signal's information is not 128 bytes".into()));
                };
                let expected = || fault_text(event.signal, &wanted, event.before.ip());
                let same = matches!(place.found, Found::Fault(info)
                    if info.signal() == event.signal && info.code() == wanted.code() && info.addr() == wanted.addr());
                if !same {
                    return Err(self.elsewhere(task, who, expected(), &place, &event.before, Leave::OrigRax));
                }
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)
            }
            SignalPoint::BeforeSyscall => {
                if place.found != Found::Call {
                    let expected = format!("{} before the system call", expected());
                    return Err(self.elsewhere(task, who, expected, &place, &event.before, Leave::OrigRax));
                }
                // Back before the `syscall` instruction, which is two bytes long.
                place.regs.rip = place.regs.rip.wrapping_sub(2);
                place.regs.rax = place.regs.orig_rax;
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
                Ok(task.set_regs(&place.regs)?)
            }
            SignalPoint::AfterHook => {
                if place.found != Found::Safepoint {
                    let expected = format!("{} after a hooked call", expected());
                    return Err(self.elsewhere(task, who, expected, &place, &event.before, Leave::OrigRax));
                }
                place.regs.rax = self.space.safepoint_rax()?;
                (place.regs.rip, place.regs.rcx) = (event.before.rip, event.before.rip);
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
                Ok(task.set_regs(&place.regs)?)
            }
            SignalPoint::AfterEvent | SignalPoint::Anywhere => Ok(()),
        }
    }
}
