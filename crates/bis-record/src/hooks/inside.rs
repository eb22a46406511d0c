//! A task that stops inside of a hook is led out of it before anything else happens in the domain. (A signal
//! has come, or its supervisor has looked after it.) There are two ways out:
//!
//! - The call was not made yet, or the signal has interrupted it. The call becomes a traced one. The signal
//!   then interrupts that as it should.
//! - The call was made. The task goes on to the end of the hook (a *safepoint*), and stops there. Nothing but
//!   the program's own state is in sight there, and the signal is delivered.

use bis_agent::hooks::{self, state};
use bis_syscalls::errno::RESTARTS;
use bis_trace::{
    event::{EventKind, Outcome, SignalPoint},
    types::{Fd, Registers, Tid},
};
use bis_tracee::siginfo::{Disposition, SigInfo};

use crate::{
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    process::Process,
};

const EINTR: i64 = -(libc::EINTR as i64);

/// Is this a result with which the kernel says that a signal has interrupted a call?
fn is_interrupted(result: i64) -> bool {
    result == EINTR || RESTARTS.contains(&result)
}

impl Domain {
    /// A signal for a handler finds the task in a hook. True: it was that, and the signal is kept.
    pub fn keep_signal_in_hook(&mut self, tid: Tid, info: &SigInfo) -> Result<bool> {
        let is_in_hook = self.lead_out_of_hook(tid, info)?;
        // What one carries is kept already.
        if is_in_hook && !self.is_carrier(tid, info) {
            self.keep_back(tid, *info)?;
        }
        if is_in_hook {
            // What of its calls could tell has been made, or is not made in the hook.
            self.hush(tid)?;
        }
        Ok(is_in_hook)
    }

    /// As [`Domain::keep_signal_in_hook`], of one that is kept already.
    fn lead_out_of_hook(&mut self, tid: Tid, info: &SigInfo) -> Result<bool> {
        let signal = info.signal();
        let others = self.tasks.len() > 1 || self.holds_tokens();
        match self.recorder().kernels_disposition(tid, signal) {
            Disposition::Handler => {}
            Disposition::Ignore => return self.ignore_signal_in_hook(tid),
            // It would stop in the hook, and all others could not come to where they stop; or hold there for
            // its tracer, where no event can say that it is.
            Disposition::Stop if others || self.session.traced.is_tracee(tid) => {}
            // Others see what it has done before.
            Disposition::Fatal if self.is_outlived(tid) => {}
            _ => return Ok(false),
        }
        if self.leave_by_hand(tid)? {
            return Ok(false);
        }
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        let interrupts = self.call_off(tid, &regs)?;
        if interrupts {
            self.task(tid)?.signals.brought.interrupt_call(signal);
        } else {
            self.task(tid)?.signals.brought.interrupt_nothing();
            self.stop_in_hook();
        }
        self.go_on(tid)?;
        Ok(true)
    }

    /// What a neutral carrier brings a task to that is in a hook: that leads the task out of its hook, as if
    /// it came itself. True: it was that.
    pub fn take_neutral_in_hook(&mut self, tid: Tid) -> Result<bool> {
        let mask = self.stopped(tid)?.sigmask()?;
        match self.task(tid)?.signals.stash.neutral(mask) {
            Some(info) => self.lead_out_of_hook(tid, &info),
            None => self.ignore_signal_in_hook(tid),
        }
    }

    /// The task has stopped because its supervisor wanted to look after it.
    pub fn go_from_look(&mut self, tid: Tid) -> Result<()> {
        self.leave_by_hand(tid)?;
        if let Some(regs) = self.in_hook(tid)? {
            self.end_halted_call(tid, &regs)?;
            if !self.call_off(tid, &regs)? {
                // It has been at that call for long. Meanwhile the hooks were told that its turn is over, and
                // that is unsaid as it goes on: if its next call took as long, it would have all turns.
                self.stop_behind_hook();
            }
            return self.go_on(tid);
        }
        let task = self.task(tid)?;
        let (in_call, stops_next) = (task.call.is_some(), task.to_stop.take_next());
        // It has been asked behind its call's event, and before it has executed anything.
        let is_told = in_call || stops_next && !task.standing.is_midway();
        if is_told && self.come_to_stop(tid)? {
            return Ok(());
        }
        if !in_call && self.pause_if_due(tid)? {
            return Ok(());
        }
        if self.in_hook(tid)?.is_some() {
            return self.go_on(tid);
        }
        let task = self.task(tid)?;
        task.standing.set_midway(!in_call);
        task.standing.go_on();
        Ok(())
    }

    /// A hook has ended and the task stopped there, for a signal or for what others have sent.
    pub fn safepoint(&mut self, tid: Tid, entry: &Registers) -> Result<()> {
        let Some(hooks) = &self.hooks else {
            return Err(RecordError::Bug { tid, what: "a safepoint without hooks".into() });
        };
        let (done, rax) = (hooks.area.get(state::DONE), hooks.area.get(state::SAVED_RAX));
        let is_whole = hooks.area.get(state::WHOLE) != 0;
        let [rcx, r11] = [state::SAVED_RCX, state::SAVED_R11].map(|word| hooks.area.get(word));
        hooks.area.set(state::WHOLE, 0);
        let (rcx, r11) = if is_whole { (rcx, r11) } else { (done, entry.r11) };
        let regs = Registers { rip: done, rcx, r11, rax, orig_rax: u64::MAX, ..*entry };
        self.stopped(tid)?.set_regs(&regs)?;
        self.drain(tid)?;
        let cut = self.cut_in_hook();
        let has_effects = is_whole || cut.is_some();
        if has_effects || !self.deliver_stashed(tid, &regs, SignalPoint::AfterHook)? {
            // For what others have sent, or what the hook itself could not say.
            let mut outcome = Outcome { regs, ..Outcome::default() };
            if let Some(fd) = cut {
                self.tell_cut(tid, fd, &mut outcome)?;
            }
            self.take_mail(&mut outcome)?;
            self.stopped(tid)?.set_regs(&regs)?;
            self.task(tid)?.standing.go_on();
            let (nr, outcome) = (hooks::SAFEPOINT, Box::new(outcome));
            self.event(tid, EventKind::Syscall { nr, entry: *entry, outcome })?;
            self.note_end_of_instruction(tid);
            self.return_borrowed()?;
            if has_effects {
                self.deliver_stashed(tid, &regs, SignalPoint::AfterEvent)?;
            } else {
                self.come_to_stop(tid)?;
            }
        }
        Ok(())
    }
}

impl Process {
    /// The task is halted with its process, wherever it is.
    pub fn halt_with_process(&mut self, tid: Tid) -> Result<()> {
        let inside = self.in_hook(tid)?.is_some();
        self.task(tid)?.standing.halt(inside);
        Ok(())
    }

    /// The task is in a hook that logs nothing and does not look whether it is to stop, or on the way there:
    /// takes it out of that. (One in a loop around such a hook would hardly ever be found outside of it;
    /// where branches are counted, it has to be.)
    /// True: it was that, and stands in its program.
    pub fn leave_by_hand(&mut self, tid: Tid) -> Result<bool> {
        if self.hooks.is_none() || self.end_by_hand(tid)?.is_none() {
            return Ok(false);
        }
        if let Some(hooks) = &self.hooks {
            hooks.area.set(state::IN_HOOK, 0);
        }
        self.task(tid)?.standing.come_out_of_hook();
        Ok(true)
    }

    /// The task, which has a tracer, has stopped with its process inside of a hook, where no event can say
    /// that it holds: it comes out of that first. True: it was that.
    pub fn leave_hook_to_halt(&mut self, tid: Tid) -> Result<bool> {
        if self.leave_by_hand(tid)? {
            return Ok(false);
        }
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        if !self.call_off(tid, &regs)? {
            self.stop_in_hook();
        }
        self.task(tid)?.to_stop.halt();
        self.go_on(tid)?;
        Ok(true)
    }

    /// A fault inside of a hook: one of the program's pointers. True: it was that.
    pub fn answer_fault_in_hook(&mut self, tid: Tid) -> Result<bool> {
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        if !(hooks::COPY..hooks::COPY_FAULT).contains(&regs.rip) {
            return Err(RecordError::Bug { tid, what: format!("a fault in the hooks at {:#x}", regs.rip) });
        }
        self.stopped(tid)?.set_regs(&Registers { rip: hooks::COPY_FAULT, ..regs })?;
        self.go_on(tid)?;
        Ok(true)
    }

    /// A signal that is ignored finds the task in a hook. Without a tracer it would not have come: where it
    /// has ended a call that the kernel does not make again by itself, the call becomes a traced one. True:
    /// it was that.
    pub fn ignore_signal_in_hook(&mut self, tid: Tid) -> Result<bool> {
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        let is_ended = regs.rip == hooks::SYSCALL_END && regs.result() == EINTR;
        if !is_ended || !self.call_off(tid, &regs)? {
            return Ok(false);
        }
        self.go_on(tid)?;
        Ok(true)
    }

    /// The task, which is in a hook, stops at its end if it has made its call there. False: there is none.
    pub fn stop_behind_hook(&self) -> bool {
        let hooks = self.hooks.as_ref().filter(|hooks| hooks.area.get(state::PHASE) != 0);
        hooks.inspect(|hooks| hooks.area.set(state::EXIT_STOP, 1)).is_some()
    }

    /// The task, which is in a hook, stops at its end; on its way out of it, at the next one.
    pub fn stop_in_hook(&self) {
        if let Some(hooks) = &self.hooks {
            let phase = hooks.area.get(state::PHASE);
            hooks.area.set(if phase == 0 { state::STOP } else { state::EXIT_STOP }, 1);
        }
    }

    /// The task goes on in its hook. Was it stopped there with its process, in a call that the kernel does
    /// not make again by itself? That has its result then, as it has natively.
    fn end_halted_call(&mut self, tid: Tid, regs: &Registers) -> Result<()> {
        let was_halted = self.task(tid)?.standing.is_in_hook();
        let is_ended = regs.rip == hooks::SYSCALL_END && regs.result() == EINTR;
        if let Some(hooks) = self.hooks.as_ref().filter(|_| was_halted && is_ended) {
            // As the next instruction does.
            hooks.area.set(state::PHASE, 2);
        }
        Ok(())
    }

    /// Turns the call of the hook that the task is in into a traced one, if it has not been made. False: it
    /// has.
    fn call_off(&mut self, tid: Tid, regs: &Registers) -> Result<bool> {
        let Some(hooks) = &self.hooks else { return Ok(false) };
        if hooks.area.get(state::PHASE) != 1 {
            return Ok(false);
        }
        let interrupted = regs.rip == hooks::SYSCALL_END && is_interrupted(regs.result());
        if regs.rip == hooks::SYSCALL || interrupted {
            let bailed = Registers { rip: hooks::BAILED, orig_rax: u64::MAX, ..*regs };
            self.stopped(tid)?.set_regs(&bailed)?;
            return Ok(true);
        }
        if regs.rip == hooks::SYSCALL_END {
            return Ok(false);
        }
        hooks.area.set(state::BAIL, 1);
        if (hooks::MAKE_CHECK..hooks::SYSCALL).contains(&regs.rip) {
            // It looks again: the branch there is made once, as in replay.
            let check = Registers { rip: hooks::MAKE_CHECK, orig_rax: u64::MAX, ..*regs };
            self.stopped(tid)?.set_regs(&check)?;
        }
        Ok(true)
    }

    /// The descriptor with which a hook has cut a mapped file, if one has since this was last asked.
    fn cut_in_hook(&self) -> Option<Fd> {
        let area = &self.hooks.as_ref()?.area;
        let fd = area.get(state::CUT).checked_sub(1)?;
        area.set(state::CUT, 0);
        i32::try_from(fd).ok().map(Fd)
    }
}

impl Crew {
    /// The task goes on in its hook, and nobody else before it.
    fn go_on(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        task.standing.go_on_in_hook();
        Ok(())
    }
}
