//! What a tracer hears of before anything is done about it: a call's entry, a trap, a stop of the process, an
//! exit, a signal, a fault, the end of a step.

use std::mem::take;

use bis_agent::hooks::SAFEPOINT_END;
use bis_trace::{
    event::{EventKind, Outcome, RangeSum, SignalEvent, SignalPoint},
    types::{Addr, NARROW_TABLE, Registers, Signal, Tid},
};
use bis_tracee::{Status, siginfo::SigInfo};

use super::{
    Held,
    books::{Kind, Mode, STATUS_STEP},
    hold::{EVENT_STOP, SYSGOOD, TRAP_TRACE, status_of},
};
use crate::{calls::is_vsyscall, crew::Crew, domain::Domain, error::Result, events::Recorder, task::InCall};

/// What becomes of something that a tracer is to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The task holds.
    Holds,
    /// It has a tracer, who has decided: this signal, or none.
    Decided(Option<Signal>),
    /// Nobody is to hear of it.
    Nobody,
}

/// What becomes of a call about which a filter wants the tracer to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The task holds in front of it.
    Holds,
    /// It is what the tracer has made of it.
    Answered,
    /// There is nobody to be asked.
    Nobody,
}

/// The number and the arguments of the call that is made with these registers.
fn made(regs: &Registers) -> (u64, [u64; 6]) {
    let table = if regs.is_narrow() { NARROW_TABLE } else { 0 };
    (regs.orig_rax, regs.args_of(table))
}

impl Domain {
    /// Tells the task's tracer of what the task has reported, if it is to hear of that before anything is
    /// done about it. True: the task holds.
    pub fn hold_if_told(&mut self, tid: Tid, status: Status) -> Result<bool> {
        let told = match status {
            Status::Seccomp => self.tell_entry(tid)?,
            Status::Trap => self.tell_trap(tid)?,
            Status::GroupStop(signal) => self.tell_group_stop(tid, signal)?,
            Status::Exit(wait_status) => self.tell_exit(tid, wait_status)?,
            _ => Told::Nobody,
        };
        Ok(told == Told::Holds)
    }

    fn tell_entry(&mut self, tid: Tid) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        let regs = self.stopped(tid)?.regs()?;
        if regs.rip == SAFEPOINT_END && self.hooks.is_some() || is_vsyscall(&regs) {
            return Ok(Told::Nobody);
        }
        let (has_call, is_halted) = (self.task(tid)?.call.is_some(), self.task(tid)?.is_halted);
        let here = Some((regs.rip, regs.rsp));
        let told = self.session.traced.with_live(tid, |it| {
            let (nr, args) = made(&regs);
            let entry = |is_emulated| Kind::Entry { nr, args, is_emulated };
            // One that is about to stop with its process does what it was asked for by that.
            if !is_halted && take(&mut it.is_asked) {
                return Some((entry(false), status_of(libc::SIGTRAP, EVENT_STOP)));
            }
            let is_known = it.entered == here && !it.is_exit_told;
            let is_wanted = it.mode == Mode::Syscall || it.mode.emulates();
            if !is_wanted || is_known || has_call && !it.is_exit_told {
                return None;
            }
            (it.entered, it.is_exit_told) = (here, false);
            let kind = entry(it.mode.emulates());
            let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
            Some((kind, status_of(libc::SIGTRAP | good, 0)))
        });
        let Some((kind, status)) = told.flatten() else { return Ok(Told::Nobody) };
        self.hold(tid, Held::Report(Status::Seccomp), kind, status, 1)?;
        Ok(Told::Holds)
    }

    /// A filter of the program's own wants the tracer to be asked about the call that the task stands in
    /// front of, and told this number.
    pub fn tell_filtered(&mut self, tid: Tid, data: u32) -> Result<Asked> {
        let regs = self.stopped(tid)?.regs()?;
        let here = Some((regs.rip, regs.rsp));
        let asked = self.session.traced.with_live(tid, |it| {
            if !it.wants(libc::PTRACE_O_TRACESECCOMP) {
                return Asked::Nobody;
            }
            // The task may come here more than once before its call is made: memory is mapped for that.
            if it.is_asked_by_filter && it.entered == here {
                return Asked::Answered;
            }
            (it.entered, it.is_exit_told, it.is_asked_by_filter) = (here, false, true);
            Asked::Holds
        });
        let asked = asked.unwrap_or(Asked::Nobody);
        if asked == Asked::Holds {
            let (nr, args) = made(&regs);
            let kind = Kind::Entry { nr, args, is_emulated: false };
            let status = status_of(libc::SIGTRAP, libc::PTRACE_EVENT_SECCOMP);
            self.hold(tid, Held::Report(Status::Seccomp), kind, status, data.into())?;
        }
        Ok(asked)
    }

    fn tell_trap(&mut self, tid: Tid) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        if !self.leave_by_hand(tid)? && self.in_hook(tid)?.is_some() {
            return Ok(Told::Nobody);
        }
        if self.tell_interrupted(tid)? {
            return Ok(Told::Holds);
        }
        let is_wanted = self.session.traced.with_live(tid, |it| {
            let listens = it.mode == Mode::Listen;
            take(&mut it.is_asked) || it.is_seized && listens
        });
        if is_wanted != Some(true) {
            return Ok(Told::Nobody);
        }
        let in_call = self.task(tid)?.call.is_some();
        self.task(tid)?.standing.set_midway(!in_call);
        self.hold(tid, Held::Report(Status::Trap), Kind::Event, status_of(libc::SIGTRAP, EVENT_STOP), 0)?;
        Ok(Told::Holds)
    }

    /// Its tracer has asked a task to stop that is in a call, and hears of calls: the call comes back, to be
    /// made again later, and that is the stop. True: it holds.
    fn tell_interrupted(&mut self, tid: Tid) -> Result<bool> {
        let is_asked = self.session.traced.with_live(tid, |it| it.is_asked);
        if is_asked != Some(true) || !self.tell_comes_back(tid, Status::Trap)? {
            return Ok(false);
        }
        self.session.traced.with_live(tid, |it| it.is_asked = false);
        Ok(true)
    }

    /// A task stops with this report in the middle of a call, which the kernel makes again later: the tracer
    /// that hears of calls is told that it comes back, if it was told of the entry. True: the task holds
    /// for that.
    fn tell_comes_back(&mut self, tid: Tid, status: Status) -> Result<bool> {
        let Some(nr) = self.task(tid)?.call.as_ref().map(InCall::own_nr) else { return Ok(false) };
        let told = self.session.traced.with_live(tid, |it| {
            let is_exit = it.mode == Mode::Syscall && it.entered.is_some() && !it.is_exit_told;
            // The entry is told anew when the call is made again.
            it.is_exit_told = true;
            let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
            is_exit.then_some(status_of(libc::SIGTRAP | good, 0))
        });
        let Some(wait_status) = told.flatten() else { return Ok(false) };
        self.hold(tid, Held::Report(status), Kind::Exit { nr }, wait_status, 2)?;
        Ok(true)
    }

    fn tell_group_stop(&mut self, tid: Tid, signal: Signal) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        if !self.leave_by_hand(tid)? && self.in_hook(tid)?.is_some() {
            return Ok(Told::Nobody);
        }
        let seized = self.session.traced.with_live(tid, |it| {
            // A tracer whose tracee listens has heard of the stop, and hears of it again if it asks.
            let is_news = it.mode != Mode::Listen || it.is_asked;
            is_news.then_some(it.is_seized)
        });
        let Some(is_seized) = seized.flatten() else { return Ok(Told::Nobody) };
        if self.tell_comes_back(tid, Status::GroupStop(signal))? {
            return Ok(Told::Holds);
        }
        self.session.traced.with_live(tid, |it| it.is_stop_told = true);
        self.halt_with_process(tid)?;
        let event = if is_seized { EVENT_STOP } else { 0 };
        let held = Held::Report(Status::GroupStop(signal));
        self.hold(tid, held, Kind::Group, status_of(signal.0.into(), event), 0)?;
        Ok(Told::Holds)
    }

    fn tell_exit(&mut self, tid: Tid, wait_status: i32) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        if self.session.traced.with_live(tid, |it| it.wants(libc::PTRACE_O_TRACEEXIT)) != Some(true) {
            return Ok(Told::Nobody);
        }
        let (held, status) =
            (Held::Report(Status::Exit(wait_status)), status_of(libc::SIGTRAP, libc::PTRACE_EVENT_EXIT));
        let message = u64::try_from(wait_status).unwrap_or(0);
        self.hold(tid, held, Kind::Event, status, message)?;
        Ok(Told::Holds)
    }

    /// The task is about to get a signal, in a call (`in_call`) or not. `place`: it was expected where the
    /// task has these registers.
    pub fn tell_signal(&mut self, tid: Tid, info: &SigInfo, place: Option<Registers>) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        let (in_call, signal) = (self.task(tid)?.call.is_some(), info.signal());
        let held = Held::Report(Status::Signal(signal));
        let nr = self.task(tid)?.call.as_ref().map_or(0, InCall::own_nr);
        let told = self.session.traced.with_live(tid, |it| {
            let is_exit = in_call && it.mode == Mode::Syscall && it.entered.is_some() && !it.is_exit_told;
            let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
            if is_exit {
                it.is_exit_told = true;
                return (Kind::Exit { nr }, status_of(libc::SIGTRAP | good, 0), 2);
            }
            (Kind::Signal, status_of(signal.0.into(), 0), 0)
        });
        let Some((kind, status, message)) = told else { return Ok(Told::Nobody) };
        self.hold(tid, held, kind, status, message)?;
        // As it is found when it goes on.
        self.task(tid)?.expect_signal = place;
        if !in_call {
            let regs = self.stopped(tid)?.regs()?;
            self.task(tid)?.expect_signal = Some(regs);
        }
        if info.is_fault() {
            self.queued_faults.push(*info);
        }
        Ok(Told::Holds)
    }

    /// The task's own instruction has raised a signal. True: it holds.
    pub fn tell_fault(&mut self, tid: Tid, info: &SigInfo, before: &Registers) -> Result<bool> {
        if !self.session.traced.is_tracee(tid) {
            return Ok(false);
        }
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        self.recorder().say_fault(tid, info, before, SignalPoint::Fault, sums)?;
        self.task(tid)?.standing.describe();
        let status = status_of(info.signal().0.into(), 0);
        self.hold(tid, Held::Fault(*info), Kind::Signal, status, 0)?;
        Ok(true)
    }

    /// The task has stopped for the trap behind an instruction that its tracer has let it execute. True: it
    /// holds, or goes on to the end of its step.
    pub fn tell_step(&mut self, tid: Tid) -> Result<bool> {
        if self.session.traced.with_live(tid, |it| it.mode.is_step()) != Some(true) {
            return Ok(false);
        }
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        let skipped = self.session.traced.with_live(tid, |it| (take(&mut it.is_behind_skipped), it.mode));
        match info.code() {
            TRAP_TRACE if self.pass_step_of_ours(tid)? => return Ok(true),
            TRAP_TRACE => {}
            libc::TRAP_BRKPT if skipped == Some((true, Mode::EmulateStep)) => {
                self.task(tid)?.standing.go_on();
                return Ok(true);
            }
            libc::TRAP_BRKPT if matches!(skipped, Some((true, _))) => {}
            _ => return Ok(false),
        }
        self.session.traced.with_live(tid, |it| {
            let touched = if it.debug.is_due { it.debug.status } else { 0 };
            it.debug.status = touched | STATUS_STEP;
        });
        self.task(tid)?.standing.set_midway(true);
        self.hold(tid, Held::Place, Kind::Signal, status_of(libc::SIGTRAP, 0), 0)?;
        Ok(true)
    }

    /// The task has stopped for the trap of a debug register that its tracer has set. True: it holds, or goes
    /// on to where it can.
    pub fn tell_touch(&mut self, tid: Tid) -> Result<bool> {
        let is_due = self.session.traced.with_live(tid, |it| it.debug.is_due);
        if is_due != Some(true) || !SigInfo(self.stopped(tid)?.siginfo()?).is_debug_exception() {
            return Ok(false);
        }
        if self.in_hook(tid)?.is_some() {
            // It is told behind the hook.
            self.task(tid)?.standing.go_on_in_hook();
            self.stop_in_hook();
            return Ok(true);
        }
        // A string instruction has been interrupted between two of its rounds.
        if self.leave_repetition(tid)? {
            self.task(tid)?.standing.set_midway(true);
            self.hold(tid, Held::Place, Kind::Signal, status_of(libc::SIGTRAP, 0), 0)?;
        }
        Ok(true)
    }

    /// The task has made a step for its tracer. If that was in code of ours, or on the way from the program's
    /// to that and back, the program's own instruction is still to be executed: the task goes on. False: it
    /// stands behind its instruction.
    fn pass_step_of_ours(&mut self, tid: Tid) -> Result<bool> {
        let rip = self.stopped(tid)?.regs()?.ip();
        if let Some(end) = self.space.patches().silent_end(rip) {
            self.task(tid)?.standing.go_on_in_hook();
            return Ok(!self.step_to(tid, end)?);
        }
        if self.in_hook(tid)?.is_some() {
            self.task(tid)?.standing.go_on_in_hook();
            return Ok(true);
        }
        let stepped = self.session.traced.with_live(tid, |it| it.stepped_from).flatten();
        let patches = self.space.patches();
        let is_moved = |at: Addr| patches.in_trampoline(at).is_some();
        let is_jump = stepped.is_some_and(|(from, own)| {
            from != rip && own == patches.original(rip) && (is_moved(from) || is_moved(rip))
        });
        if is_jump {
            self.task(tid)?.standing.go_on_midway();
        }
        Ok(is_jump)
    }
}

impl Recorder<'_> {
    /// A signal that has called no handler, and has changed nothing.
    fn say_fault(
        &mut self,
        tid: Tid,
        info: &SigInfo,
        before: &Registers,
        point: SignalPoint,
        sums: Vec<RangeSum>,
    ) -> Result<()> {
        let handler = Some(Outcome { regs: *before, ..Outcome::default() });
        let (signal, siginfo) = (info.signal(), info.0.to_vec());
        let event = SignalEvent { signal, siginfo, point, before: *before, handler };
        self.event_with(tid, EventKind::Signal(Box::new(event)), sums)
    }
}

impl Crew {
    fn decided(&mut self, tid: Tid) -> Option<Option<Signal>> {
        self.tasks.get_mut(&tid).and_then(|task| task.passed.take())
    }
}
