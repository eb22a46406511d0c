//! How a task gets to where an event was recorded: to a system call, to an instruction that traps, to a signal, to a place in
//! the middle of its computation; and the check that it has come there and nowhere else.

use bis_agent::hooks::{SAFEPOINT, entries};
use bis_trace::{
    event::{Insn, Pause, PausePlace, RangeSum, SignalEvent, SignalPoint},
    types::{Registers, Signal},
};
use bis_tracee::place;

use crate::{
    divergence::{Brief, Leave, call_name, compare},
    domain::{Domain, Mismatch, Who},
    error::Halt,
    learnt::How,
    seek::Seek,
    task::{Found, Hooked, Place, Task, fault_text, info_of},
};

fn call_text(nr: u64, rip: u64) -> String {
    format!("{} at {rip:#x}", call_name(nr))
}

pub(crate) fn found_text(place: &Place) -> String {
    match &place.found {
        Found::Call => call_text(place.regs.orig_rax, place.regs.rip),
        Found::Fault(info) => fault_text(info.signal(), info, place.regs.rip),
        Found::Safepoint => "a stop after the last hooked call".into(),
        Found::Breakpoint => format!("a breakpoint at {:#x}", place.regs.rip),
        Found::Tick => format!("a count at {:#x}", place.regs.rip),
        Found::Seen => format!("a look at its own text at {:#x}", place.regs.rip),
        Found::OtherCall => "a hooked call that is not the one in the log".into(),
        Found::Dead => "the task was killed".into(),
    }
}

impl Domain<'_, '_> {
    /// Lets the task run; it may not be within a call.
    pub(crate) fn run(&self, task: &mut Task, who: Who) -> Result<Place, Halt> {
        self.run_to(task, who, false)
    }

    /// The same; with `end_stop`, to the end of the hook that consumes the last hooked call of the log.
    fn run_to(&self, task: &mut Task, who: Who, end_stop: bool) -> Result<Place, Halt> {
        if let Some(nr) = task.in_call {
            let what = format!("task {} runs on although {} did not return", who.tid, call_name(nr));
            return Err(self.inconsistent(who.seq, what));
        }
        let hooked = self.begin_log(task, who, end_stop)?;
        let place = task.run(&self.space.memory)?;
        if place.found == Found::Dead && self.context.shared.board.is_cancelled() {
            return Err(Halt::Cancelled);
        }
        if place.found != Found::Dead {
            self.check_log(task, who, hooked.as_ref(), &place)?;
        }
        Ok(place)
    }

    /// Puts the hooked calls that come before the task's next event where the hooks find them.
    pub(crate) fn begin_log(
        &self,
        task: &mut Task,
        who: Who,
        end_stop: bool,
    ) -> Result<Option<Hooked>, Halt> {
        let hooked = task.hooked.take();
        if let Some(hooked) = &hooked {
            self.space.put_log(hooked, end_stop).map_err(|error| {
                let what = format!("put {:#x} bytes of hooked calls where they belong", hooked.log.len());
                self.effect_failed(who.seq, what, error)
            })?;
        }
        Ok(hooked)
    }

    /// Have the hooks consumed all of the log?
    fn check_log(&self, task: &Task, who: Who, hooked: Option<&Hooked>, place: &Place) -> Result<(), Halt> {
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

    /// Lets the task run to where it was interrupted in the middle of its computation: the first place with the state
    /// that was recorded, after all hooked calls of its log.
    pub(crate) fn reach_pause(&self, task: &mut Task, who: Who, pause: &Pause) -> Result<(), Halt> {
        let shared = self.context.shared;
        if let PausePlace::Count(count) = pause.place {
            return self.reach_count(task, who, pause, count);
        }
        let How { mut skips, no_jump, loose } = shared.learnt.of(who.seq);
        let wanted = &pause.regs;
        let hooked = self.begin_log(task, who, false)?;
        let done = |used: u64| hooked.as_ref().is_none_or(|hooked| used == hooked.log.len() as u64);
        let memory = &self.space.memory;
        let is_there = |task: &mut Task, regs: &Registers| -> Result<bool, Halt> {
            if !compare(wanted, regs, Leave::OrigRax).is_empty()
                || who.ticks.is_some() && task.count(memory)? != who.ticks
            {
                return Ok(false);
            }
            let word = place::first_difference(memory, &pause.held);
            let other = if loose { None } else { place::first_other(memory, &pause.seen) };
            if word.is_some() || other.is_some() {
                tracing::debug!(?word, ?other, "the memory is not as it was");
            }
            let memory = word.is_none() && other.is_none();
            let extended = task.extended()? == pause.extended;
            let log = hooked.is_none() || done(self.space.log_used()?);
            tracing::debug!(memory, extended, log, "the place with its registers");
            Ok(memory && extended && log)
        };
        shared.begin_pause(self.entry.domain, who.seq);
        // Is it the place, and not one of those that only look so?
        let mut is_it = |task: &mut Task, regs: &Registers| -> Result<bool, Halt> {
            if !is_there(task, regs)? {
                return Ok(false);
            }
            if skips > 0 {
                skips -= 1;
                return Ok(false);
            }
            shared.end_pause(self.entry.domain);
            Ok(true)
        };
        if is_it(task, &task.regs()?)? {
            return Ok(());
        }
        let mut seek = Seek::begin(task, pause, !no_jump)?;
        // How often it was there in another state, for a report.
        let mut passed = 0u64;
        loop {
            let place = task.run(memory)?;
            if let Found::Fault(info) = place.found
                && seek.forgive(task, memory, pause, info, &place.regs)?
            {
                continue;
            }
            if place.found == Found::Seen {
                return Err(Halt::Seen(who.seq));
            }
            if place.found != Found::Breakpoint {
                if place.found == Found::Dead && self.context.shared.board.is_cancelled() {
                    return Err(Halt::Cancelled);
                }
                seek.end(task, memory, &place)?;
                let expected = format!(
                    "a pause in the middle of computation at {:#x}, where it was {passed} times with other memory or \
                     registers",
                    wanted.rip
                );
                return Err(self.elsewhere(task, who, expected, &place, wanted, Leave::OrigRax));
            }
            let regs = seek.true_registers(memory, place.regs)?;
            if is_it(task, &regs)? {
                task.set_regs(&regs)?;
                seek.end(task, memory, &place)?;
                return Ok(());
            }
            passed += 1;
            seek.pass(task, memory, pause)?;
        }
    }

    pub(crate) fn reach_call(
        &self,
        task: &mut Task,
        who: Who,
        nr: u64,
        entry: &Registers,
    ) -> Result<(), Halt> {
        let place = self.run_to(task, who, nr == SAFEPOINT)?;
        let expected = || call_text(nr, entry.rip);
        let wanted = if nr == SAFEPOINT { Found::Safepoint } else { Found::Call };
        if place.found != wanted || place.regs.orig_rax != nr {
            return Err(self.elsewhere(task, who, expected(), &place, entry, Leave::Nothing));
        }
        self.must_equal(task, who, expected(), entry, &place.regs, Leave::Nothing)
    }

    pub(crate) fn reach_instruction(
        &self,
        task: &mut Task,
        who: Who,
        insn: Insn,
        before: &Registers,
    ) -> Result<(), Halt> {
        let place = self.run(task, who)?;
        let expected = || format!("{} at {:#x}", Brief::Instruction(insn), before.rip);
        // A trapped instruction is a general protection fault, which has no address.
        let trapped =
            matches!(place.found, Found::Fault(info) if info.signal() == Signal::SEGV && info.code() == 0x80);
        if !trapped {
            return Err(self.elsewhere(task, who, expected(), &place, before, Leave::OrigRax));
        }
        self.must_equal(task, who, expected(), before, &place.regs, Leave::OrigRax)
    }

    pub(crate) fn signal(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &SignalEvent,
        sums: &[RangeSum],
    ) -> Result<(), Halt> {
        let expected = || format!("{} at {:#x}", event.signal, event.before.rip);
        match event.point {
            SignalPoint::Fault => {
                let Some(wanted) = info_of(&event.siginfo) else {
                    return Err(self.inconsistent(who.seq, "a signal's information is not 128 bytes".into()));
                };
                let place = self.run(task, who)?;
                let expected = || fault_text(event.signal, &wanted, event.before.rip);
                let same = matches!(place.found, Found::Fault(info)
                    if info.signal() == event.signal && info.code() == wanted.code() && info.addr() == wanted.addr());
                if !same {
                    return Err(self.elsewhere(task, who, expected(), &place, &event.before, Leave::OrigRax));
                }
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
            }
            SignalPoint::AfterEvent => {
                let regs = task.regs()?;
                self.must_equal(task, who, expected(), &event.before, &regs, Leave::OrigRax)?;
            }
            SignalPoint::BeforeSyscall => {
                let mut place = self.run(task, who)?;
                if place.found != Found::Call {
                    let expected = format!("{} before the system call", expected());
                    return Err(self.elsewhere(task, who, expected, &place, &event.before, Leave::OrigRax));
                }
                // Back before the `syscall` instruction, which is two bytes long.
                place.regs.rip = place.regs.rip.wrapping_sub(2);
                place.regs.rax = place.regs.orig_rax;
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
            }
            SignalPoint::AfterHook => {
                let mut place = self.run_to(task, who, true)?;
                if place.found != Found::Safepoint {
                    let expected = format!("{} after a hooked call", expected());
                    return Err(self.elsewhere(task, who, expected, &place, &event.before, Leave::OrigRax));
                }
                place.regs.rax = self.space.safepoint_rax()?;
                (place.regs.rip, place.regs.rcx) = (event.before.rip, event.before.rip);
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
                task.set_regs(&place.regs)?;
            }
            SignalPoint::Anywhere => {}
        }
        self.check(task, who, sums)?;
        if let Some(handler) = &event.handler {
            self.apply(task, who.seq, handler)?;
        }
        task.remember(who.seq, Brief::Signal(event.signal));
        Ok(())
    }
}
