//! A task's turn: it goes on in its program until it has a report, or something was done about it.

use std::time::{Duration, Instant};

use bis_syscalls::SYSCALL_INSN;
use bis_trace::types::{Addr, Tid};
use bis_tracee::{
    Memory, Resume, Status, Stopped, ours, task,
    ticks::{self, Stop, TickSource},
};

use super::{pause::Spot, spin::SHORT};
use crate::{
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    places::Step,
    task::Handle,
};

/// Steps of a task between two looks whether it should stop. A task that steps keeps the watch thread
/// content.
const LOOK_EVERY: u32 = 64;

/// How often a task is looked at for which a signal waits.
const SIGNAL_LOOK: Duration = Duration::from_millis(1);

impl Domain {
    /// Lets a ready task go on in its program until it has a report, or something was done about it.
    pub fn go(&mut self, tid: Tid) -> Result<()> {
        self.begin_ticks(tid)?;
        if self.note_whether_stepped(tid)? {
            return match self.go_stepped(tid) {
                Err(error) if error.is_death_of(tid) => self.await_end(tid),
                other => other,
            };
        }
        if self.task(tid)?.counter.is_none() {
            let how = match self.set_out(tid) {
                Err(error) if error.is_death_of(tid) => return self.await_end(tid),
                other => other?,
            };
            if how == Resume::Step {
                self.prepare(tid);
            }
            if self.guided.is_some() && self.task(tid)?.call.is_none() {
                match self.go_to_points(tid) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) if error.is_death_of(tid) => return self.await_end(tid),
                    Err(error) => return Err(error),
                }
            }
            match self.put_watches_in(tid) {
                Err(error) if error.is_death_of(tid) => return self.await_end(tid),
                other => other?,
            }
            match self.resume(tid, how) {
                Err(error) if error.is_death_of(tid) => return self.await_end(tid),
                other => other?,
            }
            return self.wait_and_watch(tid);
        }
        match self.go_counted(tid) {
            Err(error) if error.is_death_of(tid) => self.await_end(tid),
            other => other,
        }
    }

    /// Are the steps to be recorded that the task makes now? Where they are not, the steps that are recorded
    /// have a gap here, unless the task stands in front of a call.
    fn note_whether_stepped(&mut self, tid: Tid) -> Result<bool> {
        let Some((from, to)) = self.session.options.steps else { return Ok(false) };
        let now = self.session.writer.last_seq();
        let is_traced = {
            let pid = self.task(tid)?.pid;
            self.session.traced.concerns(pid)
        };
        let task = self.task(tid)?;
        let is_plain =
            task.call.is_none() && task.counter.is_none() && !task.signals.coming.is_any() && !is_traced;
        let is_wanted = is_plain && from <= now && now < to;
        // At the instruction of a call, which stops by itself, nothing is lost.
        let rip = self.stopped(tid)?.regs()?.rip;
        if !is_wanted && self.memory.read_upto(Addr(rip), 2) != SYSCALL_INSN {
            self.task(tid)?.steps.interrupt();
        }
        Ok(is_wanted)
    }

    /// As [`Domain::go_counted`], with a source that nobody asks for its counts.
    fn go_stepped(&mut self, tid: Tid) -> Result<()> {
        self.prepare(tid);
        self.note_step(tid)?;
        for step in 1u32.. {
            let how = self.with_stepping(tid, |source, stopped, memory| source.resume(stopped, memory))?;
            self.resume(tid, how)?;
            self.creeping(|domain| domain.wait_for_report(tid))?;
            let Some(status) = self.task(tid)?.report.status() else { return Ok(()) };
            if matches!(status, Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) {
                return Ok(());
            }
            let stop =
                self.with_stepping(tid, |source, stopped, memory| source.stopped(stopped, memory, status))?;
            match stop {
                Stop::Foreign => return Ok(()),
                Stop::Interrupted => {
                    self.task(tid)?.report.leave(Status::Trap);
                    return Ok(());
                }
                Stop::Inside | Stop::Tick => {}
            }
            self.task(tid)?.report.be_done();
            self.note_step(tid)?;
            // Where a signal waits for a place, or it is another's turn.
            if step.is_multiple_of(LOOK_EVERY) && self.has_reason_to_pause(tid) && self.is_to_stop(tid)? {
                return self.end_turn(tid);
            }
        }
        Ok(())
    }

    fn go_counted(&mut self, tid: Tid) -> Result<()> {
        self.prepare(tid);
        for step in 1u32.. {
            let how = self.with_source(tid, |source, stopped, memory| source.resume(stopped, memory))?;
            self.put_watches_in(tid)?;
            self.resume(tid, how)?;
            self.wait_for_report(tid)?;
            let Some(status) = self.task(tid)?.report.status() else { return Ok(()) };
            if matches!(status, Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) {
                return Ok(());
            }
            let stop =
                self.with_source(tid, |source, stopped, memory| source.stopped(stopped, memory, status))?;
            let is_due = match stop {
                Stop::Foreign => return Ok(()),
                Stop::Interrupted => {
                    self.task(tid)?.report.leave(Status::Trap);
                    return Ok(());
                }
                // No count is asked for while recording.
                Stop::Inside | Stop::Tick => step.is_multiple_of(LOOK_EVERY) && self.has_reason_to_pause(tid),
            };
            self.task(tid)?.report.be_done();
            if step.is_multiple_of(LOOK_EVERY) {
                // It has come on; and a signal that it is given now must find its own mask.
                self.unhush(tid)?;
            }
            let rip = self.stopped(tid)?.regs()?.ip();
            if is_due && !self.space.is_in_hooks(rip) && self.pause_if_due(tid)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The task goes on: waits for its report. One that might spin is looked at meanwhile
    /// (`Domain::look_after`).
    pub fn wait_and_watch(&mut self, tid: Tid) -> Result<()> {
        if !self.is_to_be_watched(tid) {
            let has_signal = self.tasks.get(&tid).is_some_and(|task| !task.signals.stash.is_empty());
            if !has_signal || !self.space.is_dense() || self.session.chaos.is_some() {
                return self.wait_for_report(tid);
            }
            // A timer's handler is not to wait for the watch thread's next look.
            return match ours::kicked_every(SIGNAL_LOOK, || self.wait_for_report(tid)) {
                Some(result) => result,
                None => self.wait_for_report(tid),
            };
        }
        let (turn, short) = (self.journal.count(), self.shortest());
        self.task(tid)?.spin.begin_turn(turn, short, || task::cpu_time(tid));
        match ours::kicked_every(SHORT, || self.wait_for_report(tid)) {
            Some(result) => result,
            None => self.wait_for_report(tid),
        }
    }

    /// For how many instructions the task gets a turn: where the domain is stuck; and with chaos, now and
    /// then.
    pub fn draw_steps(&mut self, tid: Tid) -> Option<usize> {
        let Some(chaos) = &self.session.chaos else { return self.led_on.take() };
        let others = self.tasks.len() > 1 || self.holds_tokens();
        if self.tasks.get(&tid)?.is_plain() && others { chaos.steps() } else { None }
    }

    /// [`Domain::creep`], for a task that may be killed meanwhile.
    pub fn creep_on(&mut self, tid: Tid, steps: usize) -> Result<()> {
        let began = Instant::now();
        let crept = self.creep(tid, steps);
        match &self.session.chaos {
            Some(chaos) => chaos.count_crept(began.elapsed()),
            None => self.stuck.count_crept(began.elapsed(), steps),
        }
        match crept {
            Err(error) if error.is_death_of(tid) => self.await_end(tid),
            other => other,
        }
    }

    /// Gives the task a turn of so many instructions; it ends with a pause, or with whatever comes first.
    fn creep(&mut self, tid: Tid, steps: usize) -> Result<()> {
        self.begin_ticks(tid)?;
        self.prepare(tid);
        for step in 0..steps {
            if self.creeping(|domain| domain.step(tid))? == Step::Elsewhere {
                self.stuck.reach(step);
                return Ok(());
            }
        }
        self.end_turn(tid)
    }

    /// Lets the running task make a step of its own, or waits for the end of one: meanwhile it is not asked
    /// to stop.
    pub fn creeping<T>(&mut self, make: impl FnOnce(&mut Domain) -> Result<T>) -> Result<T> {
        self.creeps = true;
        let made = make(self);
        self.creeps = false;
        made
    }

    /// The task has a pause where it stands, and somebody else the next turn; unless something comes first.
    fn end_turn(&mut self, tid: Tid) -> Result<()> {
        let Some(span) = self.find_span(tid)? else { return Ok(()) };
        let span = if let Spot::Sure(span) = span { span.bytes().to_vec() } else { Vec::new() };
        self.pause(tid, span)?;
        self.task(tid)?.standing.go_on();
        match self.session.chaos {
            // Somebody else is drawn.
            Some(_) => self.turns.end(),
            None => {
                self.turns.give_way(tid, Instant::now());
                let hooked = self.hooked();
                self.stuck.lost(hooked);
                self.gives_up = true;
            }
        }
        Ok(())
    }
}

impl Crew {
    fn note_step(&mut self, tid: Tid) -> Result<()> {
        let regs = self.stopped(tid)?.regs()?;
        self.task(tid)?.steps.push(&regs);
        Ok(())
    }

    /// Asks what steps this task, which is stopped.
    fn with_stepping<T>(
        &mut self,
        tid: Tid,
        use_it: impl FnOnce(&mut dyn TickSource, &mut Stopped, &Memory) -> bis_tracee::Result<T>,
    ) -> Result<T> {
        let task = self.tasks.get_mut(&tid);
        let Some((task, Handle::Stopped(stopped))) = task.map(|task| (&mut task.steps, &mut task.handle))
        else {
            return Err(RecordError::Bug { tid, what: "a task that is stepped is not stopped".into() });
        };
        Ok(use_it(task.source(ticks::stepping), stopped, &self.memory)?)
    }
}
