//! Counting while recording: how a task whose branches a tick source counts is let run, and which number an
//! event gets ([`bis_tracee::ticks`] says what a source is; a task that is not counted goes through here and
//! notices nothing). How a task is stopped at a count of its dense text is in `hooks/counts.rs`.
//!
//! An event's number counts from the task's previous event (that of the dense text from its domain's, of
//! which one task runs at a time). The source is read when the event is written and begins anew when the task
//! goes on: in between, only the supervisor's calls are made in its name, and those have no counts.

use std::{mem, time::Instant};

use bis_trace::types::{Signal, Tid};
use bis_tracee::{
    Memory, Stopped,
    siginfo::{self, Disposition, bit},
    task,
    ticks::TickSource,
};

use crate::{
    error::{RecordError, Result},
    hooks::{
        counter,
        counts::{Asked, Counts},
    },
    process::Process,
    task::{Counter, Handle},
};

impl Process {
    /// The task is about to go on: from here on is counted, if it comes from an event.
    pub fn begin_ticks(&mut self, tid: Tid) -> Result<()> {
        let (ticks, is_dense) = (self.session.ticks, self.space.is_dense());
        let Process { crew, hooks, .. } = self;
        let mut task = crew.tasks.get_mut(&tid);
        if let Some(task) = &mut task
            && task.counter.is_none()
            && ticks.counts_branches()
        {
            task.counter = ticks.of(tid)?.map(Counter::new);
        }
        if let Some(counter) = counter(hooks, is_dense, task) {
            counter.go_on(&crew.memory)?;
        }
        Ok(())
    }

    /// Asks the source that counts for this task, which is stopped.
    pub fn with_source<T>(
        &mut self,
        tid: Tid,
        use_it: impl FnOnce(&mut dyn TickSource, &mut Stopped, &Memory) -> bis_tracee::Result<T>,
    ) -> Result<T> {
        let is_dense = self.space.is_dense();
        let bug = |what: &str| RecordError::Bug { tid, what: what.into() };
        let Process { crew, hooks, .. } = self;
        let task = crew.tasks.get_mut(&tid).ok_or_else(|| bug("an unknown task"))?;
        let Handle::Stopped(mut stopped) = mem::replace(&mut task.handle, Handle::Taken) else {
            return Err(bug("a task that is counted is not stopped"));
        };
        let result = match counter(hooks, is_dense, Some(task)) {
            Some(counter) => Ok(use_it(counter.source(), &mut stopped, &crew.memory)),
            None => Err(bug("the task is not counted")),
        };
        self.task(tid)?.handle = Handle::Stopped(stopped);
        Ok(result??)
    }

    /// The counts of a task since its last event; none if it is not counted.
    pub fn ticks(&mut self, tid: Tid) -> Result<Option<u64>> {
        let is_dense = self.space.is_dense();
        let Process { crew, hooks, .. } = self;
        let Some(counter) = counter(hooks, is_dense, crew.tasks.get_mut(&tid)) else {
            return Ok(None);
        };
        Ok(Some(counter.read(&crew.memory)?))
    }

    /// The counts of a domain whose text has them.
    fn dense_counts(&mut self) -> Option<&mut Counts> {
        let hooks = self.hooks.as_mut().filter(|_| self.space.patches().dense.is_on)?;
        Some(&mut hooks.counts)
    }

    /// The task is to stop, and computes. True: it goes on to its next count, and stops there. False: there
    /// are none, or none came; until its next event, it does not stop at one.
    pub fn stop_at_count(&mut self, tid: Tid) -> Result<bool> {
        let Some(counts) = self.dense_counts() else { return Ok(false) };
        let Some(asked) = counts.asked else {
            if self.would_lose_trap(tid)? {
                return Ok(false);
            }
            let count = self.with_source(tid, |source, stopped, memory| source.stop_soon(stopped, memory))?;
            if let Some(counts) = self.dense_counts() {
                counts.asked = Some(Asked::new(count, Instant::now(), task::cpu_time(tid)));
            }
            return Ok(true);
        };
        let reached = self.ticks(tid)?;
        if asked.goes_on(reached, Instant::now(), || task::cpu_time(tid)) {
            return Ok(true);
        }
        self.with_source(tid, |source, stopped, memory| source.stop_at(stopped, memory, None))?;
        if let Some(asked) = self.dense_counts().and_then(|counts| counts.asked.as_mut()) {
            asked.give_up();
        }
        Ok(false)
    }

    /// Would the kernel take the handler of SIGTRAP away from the program if the task trapped, and unblock
    /// the signal? It does where that is blocked or ignored (`force_sig_info_to_task` in the kernel's
    /// `signal.c`).
    pub fn would_lose_trap(&self, tid: Tid) -> Result<bool> {
        let is_blocked = self.stopped_ref(tid)?.sigmask()? & bit(Signal::TRAP) != 0;
        Ok(is_blocked || siginfo::disposition(tid, Signal::TRAP) == Disposition::Ignore)
    }

    pub fn forget_stop_at_count(&mut self) {
        if let Some(counts) = self.dense_counts() {
            counts.forget_stop();
        }
    }

    /// The task computes, and came to no count, if it was asked to.
    pub fn learn_loop(&mut self, tid: Tid) -> Result<()> {
        if self.dense_counts().is_none_or(|counts| counts.asked.is_none()) {
            return Ok(());
        }
        let rip = self.stopped(tid)?.regs()?.ip();
        let patches = self.space.patches();
        if let (Some(text), Some(cache)) =
            (patches.text_at(patches.original(rip)), self.session.texts.dense())
        {
            text.file.learn_loops(cache);
        }
        Ok(())
    }
}
