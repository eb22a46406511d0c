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
    books::Tracee,
    tells::{Asked, Front, StepTrap, Tell},
};
use crate::{calls::is_vsyscall, crew::Crew, domain::Domain, error::Result, events::Recorder};

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

/// The place in front of the call that is made with these registers.
fn front(regs: &Registers) -> Front {
    let table = if regs.is_narrow() { NARROW_TABLE } else { 0 };
    let (nr, args, here) = (regs.orig_rax, regs.args_of(table), (regs.rip, regs.rsp));
    Front { nr, args, here, is_again: false, is_halted: false }
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
        if let Some(decided) = self.take_decision(tid) {
            return Ok(Told::Decided(decided));
        }
        let regs = self.stopped(tid)?.regs()?;
        if regs.rip == SAFEPOINT_END && self.hooks.is_some() || is_vsyscall(&regs) {
            return Ok(Told::Nobody);
        }
        let (is_again, is_halted) = (self.task(tid)?.call.is_some(), self.task(tid)?.to_stop.is_halted());
        let front = Front { is_again, is_halted, ..front(&regs) };
        let told = self.session.traced.with_live(tid, |it| it.tell_front(&front));
        let Some(tell) = told.flatten() else { return Ok(Told::Nobody) };
        self.hold(tid, Held::Report(Status::Seccomp), tell)?;
        Ok(Told::Holds)
    }

    /// A filter of the program's own wants the tracer to be asked about the call that the task stands in
    /// front of, and told this number.
    pub fn tell_filtered(&mut self, tid: Tid, data: u32) -> Result<Asked> {
        let regs = self.stopped(tid)?.regs()?;
        let front = front(&regs);
        let asked = self.session.traced.with_live(tid, |it| it.ask(front.here)).unwrap_or(Asked::Nobody);
        if asked == Asked::Holds {
            self.hold(tid, Held::Report(Status::Seccomp), front.filtered(data))?;
        }
        Ok(asked)
    }

    fn tell_trap(&mut self, tid: Tid) -> Result<Told> {
        if let Some(decided) = self.take_decision(tid) {
            return Ok(Told::Decided(decided));
        }
        if !self.leave_by_hand(tid)? && self.in_hook(tid)?.is_some() {
            return Ok(Told::Nobody);
        }
        if self.tell_interrupted(tid)? {
            return Ok(Told::Holds);
        }
        let told = self.session.traced.with_live(tid, Tracee::tell_trap);
        let Some(tell) = told.flatten() else { return Ok(Told::Nobody) };
        let in_call = self.task(tid)?.call.is_some();
        self.task(tid)?.standing.set_midway(!in_call);
        self.hold(tid, Held::Report(Status::Trap), tell)?;
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
        let Some(nr) = self.task(tid)?.call.as_ref().map(|call| call.entry.own_nr()) else {
            return Ok(false);
        };
        let told = self.session.traced.with_live(tid, |it| it.tell_cut(nr));
        let Some(tell) = told.flatten() else { return Ok(false) };
        self.hold(tid, Held::Report(status), tell)?;
        Ok(true)
    }

    fn tell_group_stop(&mut self, tid: Tid, signal: Signal) -> Result<Told> {
        if let Some(decided) = self.take_decision(tid) {
            return Ok(Told::Decided(decided));
        }
        if !self.leave_by_hand(tid)? && self.in_hook(tid)?.is_some() {
            return Ok(Told::Nobody);
        }
        let seized = self.session.traced.with_live(tid, |it| it.is_stop_news().then_some(it.is_seized));
        let Some(is_seized) = seized.flatten() else { return Ok(Told::Nobody) };
        if self.tell_comes_back(tid, Status::GroupStop(signal))? {
            return Ok(Told::Holds);
        }
        self.session.traced.with_live(tid, |it| it.is_stop_told = true);
        self.halt_with_process(tid)?;
        self.hold(tid, Held::Report(Status::GroupStop(signal)), Tell::group(signal, is_seized))?;
        Ok(Told::Holds)
    }

    fn tell_exit(&mut self, tid: Tid, wait_status: i32) -> Result<Told> {
        if let Some(decided) = self.take_decision(tid) {
            return Ok(Told::Decided(decided));
        }
        let told = self.session.traced.with_live(tid, |it| it.tell_exit(wait_status));
        let Some(tell) = told.flatten() else { return Ok(Told::Nobody) };
        self.hold(tid, Held::Report(Status::Exit(wait_status)), tell)?;
        Ok(Told::Holds)
    }

    /// The task is about to get a signal, in a call (`in_call`) or not. `place`: it was expected where the
    /// task has these registers.
    pub fn tell_signal(&mut self, tid: Tid, info: &SigInfo, place: Option<Registers>) -> Result<Told> {
        if let Some(decided) = self.take_decision(tid) {
            return Ok(Told::Decided(decided));
        }
        let (nr, signal) = (self.task(tid)?.call.as_ref().map(|call| call.entry.own_nr()), info.signal());
        let told = self.session.traced.with_live(tid, |it| it.tell_signal(signal, nr));
        let Some(tell) = told else { return Ok(Told::Nobody) };
        self.hold(tid, Held::Report(Status::Signal(signal)), tell)?;
        // As it is found when it goes on.
        let place = if nr.is_none() { Some(self.stopped(tid)?.regs()?) } else { place };
        let coming = &mut self.task(tid)?.signals.coming;
        match place {
            Some(place) => coming.expect_at(place),
            None => coming.expect_none(),
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
        self.hold(tid, Held::Fault(*info), Tell::signal(info.signal()))?;
        Ok(true)
    }

    /// The task has stopped for the trap behind an instruction that its tracer has let it execute. True: it
    /// holds, or goes on to the end of its step.
    pub fn tell_step(&mut self, tid: Tid) -> Result<bool> {
        if self.session.traced.with_live(tid, |it| it.mode.is_step()) != Some(true) {
            return Ok(false);
        }
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        let skipped =
            self.session.traced.with_live(tid, |it| take(&mut it.is_behind_skipped).then_some(it.mode));
        match StepTrap::of(info.code(), skipped.flatten()) {
            StepTrap::Made if self.pass_step_of_ours(tid)? => return Ok(true),
            StepTrap::Made | StepTrap::Skipped => {}
            StepTrap::GoesOn => {
                self.task(tid)?.standing.go_on();
                return Ok(true);
            }
            StepTrap::Another => return Ok(false),
        }
        self.session.traced.with_live(tid, Tracee::note_step);
        self.task(tid)?.standing.set_midway(true);
        self.hold(tid, Held::Place, Tell::signal(Signal::TRAP))?;
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
            self.hold(tid, Held::Place, Tell::signal(Signal::TRAP))?;
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
    fn take_decision(&mut self, tid: Tid) -> Option<Option<Signal>> {
        self.tasks.get_mut(&tid).and_then(|task| task.for_tracer.take_decision())
    }
}
