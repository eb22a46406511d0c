//! Where a guided program stands still, and how it goes on from there.

use bis_trace::{
    event::{EventKind, MemWrite, Outcome, SignalEvent, SignalPoint},
    types::{Signal, Tid},
};
use bis_tracee::{ours, siginfo::SigInfo, sys};

use super::Guided;
use crate::{
    domain::Domain,
    error::Result,
    events::Recorder,
    guide::{Stand, Wish},
    places::Step,
    task::Task,
};

impl Domain {
    /// A task is about to execute the program: the guide's points are put in. False: it stood at one that the
    /// guide knows of, and something else has come while it went past it.
    pub fn go_to_points(&mut self, tid: Tid) -> Result<bool> {
        let Some(guided) = &mut self.guided else { return Ok(true) };
        if let Some(told) = guided.take_told(tid)
            && told == self.stopped(tid)?.regs()?.rip
            && self.creeping(|domain| domain.step(tid))? == Step::Elsewhere
        {
            return Ok(false);
        }
        self.recorder().arm(tid)?;
        Ok(true)
    }

    /// The task has got SIGTRAP. True: at a point of the guide's, where it has a pause now.
    pub fn trap_for_guide(&mut self, tid: Tid) -> Result<bool> {
        if self.guided.is_none() {
            return Ok(false);
        }
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        if !(info.is_breakpoint() || info.is_debug_exception())
            || !self.recorder().take_point(tid, info.is_breakpoint())?
        {
            return Ok(false);
        }
        // A watched string instruction has been interrupted between two of its rounds.
        if info.is_breakpoint() || self.leave_repetition(tid)? {
            self.pause_for_guide(tid)?;
        }
        Ok(true)
    }

    /// The task's place is described, and the guide is asked what comes next.
    fn pause_for_guide(&mut self, tid: Tid) -> Result<()> {
        let regs = self.pause(tid, Vec::new())?;
        if let Some(guided) = &mut self.guided {
            guided.tell_place(tid, regs.rip);
        }
        self.go_from_pause(tid, &regs)?;
        Ok(())
    }

    /// Is the program to stand still now? Only where each task's place is described.
    pub fn is_to_stand(&self) -> bool {
        let Some(guided) = self.guided.as_ref().filter(|guided| !guided.is_free) else { return false };
        let runner = self.watched.seat.runner();
        let is_underway = self.tasks.values().any(|task| task.standing.is_midway())
            || self.tasks.get(&runner).is_some_and(|task| task.report.is_there());
        if is_underway {
            return false;
        }
        let is_there = |tid: Tid| self.tasks.contains_key(&tid);
        guided.is_to_stand(self.journal.count(), is_there, || self.watched_values())
    }

    fn watched_values(&self) -> Vec<Vec<u8>> {
        let watches = self.guided.iter().flat_map(|guided| &guided.points.watches);
        watches.map(|watch| self.memory.read_upto(watch.addr, watch.len.into())).collect()
    }

    /// The program stands still until the guide says how it goes on.
    pub fn stand(&mut self) -> Result<()> {
        self.write_entries()?;
        self.release_tokens()?;
        self.session.writer.flush()?;
        let first = self.first_tid;
        let Some(pid) = self.tasks.get(&first).or(self.tasks.values().next()).map(|task| task.pid) else {
            return Ok(());
        };
        let stand = Stand {
            trace_dir: self.session.options.trace_dir.clone(),
            pid,
            domain: self.id,
            at: self.journal.last_seq(),
        };
        // What a task that is stopped has to report is that it was killed.
        let stopped = self.tasks.values().filter(|task| task.standing.is_ready());
        let stopped: Vec<Tid> = stopped.map(|task| task.tid).collect();
        let is_there = || !stopped.iter().any(|tid| sys::has_report(*tid));
        let Some(guide) = self.guided.as_ref().map(|guided| guided.guide.clone()) else { return Ok(()) };
        let wish = loop {
            match guide.next(&stand, &is_there) {
                Wish::Write(tid, write) => {
                    self.write_for_guide(tid, write)?;
                    self.session.writer.flush()?;
                }
                wish => break wish,
            }
        };
        let count = self.journal.count();
        let Some(guided) = &mut self.guided else { return Ok(()) };
        if guided.follow(wish, count) {
            let _ = ours::send(pid, Signal::KILL);
        }
        let values = self.watched_values();
        if let Some(guided) = &mut self.guided {
            guided.values = values;
        }
        Ok(())
    }

    /// Writes what the guide wants to memory: the event is one of a task that stands between two events, for
    /// the others' places are known only by the calls that they are in. Nothing is written where there is no
    /// such task, or no such memory.
    fn write_for_guide(&mut self, tid: Tid, write: MemWrite) -> Result<()> {
        let is_between = |task: &Task| task.standing.is_ready() && task.call.is_none();
        let wanted = self.tasks.get(&tid).filter(|task| is_between(task));
        let Some(tid) =
            wanted.or_else(|| self.tasks.values().find(|task| is_between(task))).map(|task| task.tid)
        else {
            return Ok(());
        };
        self.ensure_tokens()?;
        let before = self.stopped(tid)?.regs()?;
        if self.memory.read_vec(write.addr, write.data.len()).is_err()
            || self.memory.write(write.addr, &write.data).is_err()
        {
            return Ok(());
        }
        let outcome = Outcome { regs: before, writes: vec![write], ..Outcome::default() };
        let event = SignalEvent {
            signal: Signal::TRAP,
            siginfo: SignalEvent::info_of_user(),
            point: SignalPoint::AfterEvent,
            before,
            handler: Some(outcome),
        };
        self.event(tid, EventKind::Signal(Box::new(event)))
    }

    /// The task that is to make a step now, if it can.
    pub fn to_step_for_guide(&self) -> Option<Tid> {
        let tid = self.guided.as_ref()?.step?;
        let is_plain =
            |task: &Task| task.standing.is_ready() && task.call.is_none() && !task.signals.coming.is_any();
        self.tasks.get(&tid).filter(|task| is_plain(task)).map(|_| tid)
    }

    /// Lets the task execute one instruction.
    pub fn step_for_guide(&mut self, tid: Tid) -> Result<()> {
        match self.make_step(tid) {
            Err(error) if error.is_death_of(tid) => self.await_end(tid),
            other => other,
        }
    }

    fn make_step(&mut self, tid: Tid) -> Result<()> {
        self.begin_ticks(tid)?;
        self.prepare(tid);
        let step = self.creeping(|domain| domain.step(tid))?;
        // A call, a fault, or the like: that has an event of its own.
        if step == Step::Elsewhere || !self.leave_repetition(tid)? {
            return Ok(());
        }
        self.pause_for_guide(tid)
    }
}

impl Recorder<'_> {
    /// The domain begins: if it is the program that the guide leads, the guide is asked first.
    pub fn begin_guided(&mut self) -> Result<()> {
        let Some(guide) = self.session.options.guide.clone() else { return Ok(()) };
        let first = self.first_tid;
        let pid = self.task(first)?.pid;
        if self.session.is_root(pid) && self.guided.is_none() {
            self.watched.set_guide(guide.clone());
            *self.guided = Some(Guided::new(guide));
        }
        Ok(())
    }

    /// The program has ended.
    pub fn end_guided(&mut self) -> Result<()> {
        if let Some(guided) = &self.guided {
            self.session.writer.flush()?;
            guided.guide.ended();
        }
        Ok(())
    }
}
