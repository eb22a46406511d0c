//! Counting while recording: how a task that a tick source counts is let run, which number an event gets, and how such a
//! task is stopped for a pause ([`bis_tracee::ticks`] says what a source is; a task that is not counted goes through
//! here and notices nothing).
//!
//! An event's number counts from the task's previous event. The source is read when the event is written and begins
//! anew when the task goes on: in between, only the supervisor's calls are made in its name, and those have no counts.

use bis_trace::{
    event::{EventKind, SignalPoint},
    types::Tid,
};
use bis_tracee::{
    Memory, Resume, Status, Stopped, TraceeError,
    ticks::{Stop, TickSource},
};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    task::Handle,
};

/// Steps of a task between two looks whether it should stop. A task that steps keeps the watch thread content.
const LOOK_EVERY: u32 = 64;

/// What counts for a task.
#[derive(Debug)]
pub struct Counter {
    source: Box<dyn TickSource>,
    /// The task has not gone on since its last event.
    is_fresh: bool,
}

impl Domain {
    /// Lets a ready task go on in its program until it has a report, or something was done about it.
    pub fn go(&mut self, tid: Tid) -> Result<()> {
        self.begin_ticks(tid)?;
        if self.task(tid)?.counter.is_none() {
            self.resume(tid, Resume::Cont)?;
            return self.wait_for_report(tid);
        }
        match self.go_counted(tid) {
            Err(RecordError::Tracee(TraceeError::Died(dead))) if dead == tid => {
                // Its end is on its way.
                if matches!(self.task(tid)?.handle, Handle::Stopped(_)) {
                    self.resume(tid, Resume::Cont)?;
                }
                self.wait_for_report(tid)
            }
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
        let ticks = self.session.ticks;
        let memory = &self.memory;
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        if task.counter.is_none() {
            let source = ticks.of(tid)?;
            task.counter = source.map(|source| Counter { source, is_fresh: true });
        }
        if let Some(counter) = &mut task.counter
            && std::mem::take(&mut counter.is_fresh)
        {
            counter.source.begin(memory)?;
        }
        Ok(())
    }

    fn with_source<T>(
        &mut self,
        tid: Tid,
        use_it: impl FnOnce(&mut dyn TickSource, &Stopped, &Memory) -> bis_tracee::Result<T>,
    ) -> Result<T> {
        let memory = &self.memory;
        let task = self.tasks.get_mut(&tid);
        match task.map(|task| (&mut task.counter, &task.handle)) {
            Some((Some(counter), Handle::Stopped(stopped))) => {
                Ok(use_it(&mut *counter.source, stopped, memory)?)
            }
            _ => Err(RecordError::Bug { tid, what: "the task is not counted, or not stopped".into() }),
        }
    }

    /// The counts of a task since its last event; none if it is not counted.
    pub fn ticks(&mut self, tid: Tid) -> Result<Option<u64>> {
        let memory = &self.memory;
        let counter = self.tasks.get_mut(&tid).and_then(|task| task.counter.as_mut());
        let Some(counter) = counter else { return Ok(None) };
        if counter.is_fresh { Ok(Some(0)) } else { Ok(Some(counter.source.count(memory)?)) }
    }

    /// The number of an event that is about to be written.
    pub fn ticks_of_event(&mut self, tid: Tid, kind: &EventKind) -> Result<Option<u64>> {
        if self.is_dense() {
            return Ok(self.counts_of_event(kind));
        }
        let ticks = match kind {
            EventKind::Hooked { .. } | EventKind::Token { .. } => return Ok(None),
            // Nor does the task stand at a place because of it.
            EventKind::Signal(event) if event.point == SignalPoint::Anywhere => return Ok(None),
            EventKind::Syscall { .. }
            | EventKind::SyscallEnter { .. }
            | EventKind::Signal(_)
            | EventKind::Instruction { .. } => self.ticks(tid)?,
            // A task that returns has not run since it entered; one that ends may have been killed anywhere.
            EventKind::Start(_)
            | EventKind::SyscallExit { .. }
            | EventKind::TaskExit { .. }
            | EventKind::End
            | EventKind::Pause(_) => None,
        };
        if let Some(counter) = self.tasks.get_mut(&tid).and_then(|task| task.counter.as_mut()) {
            counter.is_fresh = true;
        }
        Ok(ticks)
    }
}
