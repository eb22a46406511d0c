//! Counting while recording: how a task whose branches a tick source counts is let run, and which number an event gets
//! ([`bis_tracee::ticks`] says what a source is; a task that is not counted goes through here and notices nothing). How
//! a task is stopped at a count of its dense text is in `hooks/counts.rs`.
//!
//! An event's number counts from the task's previous event (that of the dense text from its domain's, of which one task runs at a
//! time). The source is read when the event is written and begins anew when the task goes on: in between, only the
//! supervisor's calls are made in its name, and those have no counts.

use std::mem;

use bis_trace::types::Tid;
use bis_tracee::{
    Memory, Resume, Status, Stopped,
    ticks::{Stop, TickSource},
};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    hooks::Hooks,
    task::{Handle, Task},
};

/// Steps of a task between two looks whether it should stop. A task that steps keeps the watch thread content.
const LOOK_EVERY: u32 = 64;

/// What counts: for one task, or for all tasks of a domain whose text is dense.
#[derive(Debug)]
pub struct Counter {
    source: Box<dyn TickSource>,
    /// Nobody for whom it counts has gone on since the last event.
    is_fresh: bool,
}

impl Counter {
    pub fn new(source: Box<dyn TickSource>) -> Counter {
        Counter { source, is_fresh: true }
    }

    /// The counts since the last event.
    pub fn read(&mut self, memory: &Memory) -> Result<u64> {
        if self.is_fresh { Ok(0) } else { Ok(self.source.count(memory)?) }
    }

    /// An event is written.
    pub fn begin_anew(&mut self) {
        self.is_fresh = true;
    }
}

/// The counter for a task, if it has one: the domain's, where its text counts (`is_dense`).
pub fn counter<'a>(
    hooks: &'a mut Option<Hooks>,
    is_dense: bool,
    task: Option<&'a mut Task>,
) -> Option<&'a mut Counter> {
    match hooks {
        Some(hooks) if is_dense => Some(&mut hooks.counts.counter),
        _ => task?.counter.as_mut(),
    }
}

impl Domain {
    /// Lets a ready task go on in its program until it has a report, or something was done about it.
    pub fn go(&mut self, tid: Tid) -> Result<()> {
        self.begin_ticks(tid)?;
        if self.task(tid)?.counter.is_none() {
            self.resume(tid, Resume::Cont)?;
            return self.wait_and_watch(tid);
        }
        match self.go_counted(tid) {
            Err(error) if error.is_death_of(tid) => self.await_end(tid),
            other => other,
        }
    }

    fn go_counted(&mut self, tid: Tid) -> Result<()> {
        self.prepare(tid);
        for step in 1u32.. {
            let how = self.with_source(tid, |source, stopped, memory| source.resume(stopped, memory))?;
            self.resume(tid, how)?;
            self.wait_for_report(tid)?;
            let Some(status) = self.task(tid)?.report else { return Ok(()) };
            if matches!(status, Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) {
                return Ok(());
            }
            let stop =
                self.with_source(tid, |source, stopped, memory| source.stopped(stopped, memory, status))?;
            let is_due = match stop {
                Stop::Foreign => return Ok(()),
                Stop::Interrupted => {
                    self.task(tid)?.report = Some(Status::Trap);
                    return Ok(());
                }
                // No count is asked for while recording.
                Stop::Inside | Stop::Tick => step.is_multiple_of(LOOK_EVERY) && self.has_reason_to_pause(tid),
            };
            self.task(tid)?.report = None;
            let rip = self.stopped(tid)?.regs()?.rip;
            if is_due && !self.is_in_hooks(rip) && self.interrupted(tid)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The task is about to go on: from here on is counted, if it comes from an event.
    pub fn begin_ticks(&mut self, tid: Tid) -> Result<()> {
        let (ticks, is_dense) = (self.session.ticks, self.is_dense());
        let mut task = self.tasks.get_mut(&tid);
        if let Some(task) = &mut task
            && task.counter.is_none()
            && ticks.counts_branches()
        {
            task.counter = ticks.of(tid)?.map(Counter::new);
        }
        if let Some(counter) = counter(&mut self.hooks, is_dense, task)
            && mem::take(&mut counter.is_fresh)
        {
            counter.source.begin(&self.memory)?;
        }
        Ok(())
    }

    /// Asks the source that counts for this task, which is stopped.
    pub fn with_source<T>(
        &mut self,
        tid: Tid,
        use_it: impl FnOnce(&mut dyn TickSource, &Stopped, &Memory) -> bis_tracee::Result<T>,
    ) -> Result<T> {
        let is_dense = self.is_dense();
        let bug = |what: &str| RecordError::Bug { tid, what: what.into() };
        let task = self.tasks.get_mut(&tid).ok_or_else(|| bug("an unknown task"))?;
        let Handle::Stopped(stopped) = mem::replace(&mut task.handle, Handle::Taken) else {
            return Err(bug("a task that is counted is not stopped"));
        };
        let result = match counter(&mut self.hooks, is_dense, Some(task)) {
            Some(counter) => Ok(use_it(&mut *counter.source, &stopped, &self.memory)),
            None => Err(bug("the task is not counted")),
        };
        self.task(tid)?.handle = Handle::Stopped(stopped);
        Ok(result??)
    }

    /// The counts of a task since its last event; none if it is not counted.
    pub fn ticks(&mut self, tid: Tid) -> Result<Option<u64>> {
        let is_dense = self.is_dense();
        let Some(counter) = counter(&mut self.hooks, is_dense, self.tasks.get_mut(&tid)) else {
            return Ok(None);
        };
        Ok(Some(counter.read(&self.memory)?))
    }
}
