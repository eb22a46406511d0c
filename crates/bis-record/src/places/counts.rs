//! A task that has trapped at a count of its dense text.

use bis_rewrite::{Place, STATUS_FLAGS};
use bis_trace::{
    event::{EventKind, Pause, PausePlace},
    types::{Addr, Registers, Signal, Tid},
};
use bis_tracee::{Status, place, siginfo::SigInfo};

use crate::{domain::Domain, error::Result, events::Recorder, places::Step};

impl Domain {
    /// The task has stopped at an int3. True: it was a count's, and is dealt with.
    pub fn count_trap(&mut self, tid: Tid) -> Result<bool> {
        if !self.space.is_dense() || !SigInfo(self.stopped(tid)?.siginfo()?).is_breakpoint() {
            return Ok(false);
        }
        let found = self.stopped(tid)?.regs()?;
        let Some(Place::Count { resume, flags_lost, trap: true, .. }) =
            self.space.dense_place(found.ip() - 1)
        else {
            return Ok(false);
        };
        let eflags = if flags_lost { found.eflags & !STATUS_FLAGS } else { found.eflags };
        let regs = Registers { rip: resume, eflags, orig_rax: u64::MAX, ..found };
        self.stopped(tid)?.set_regs(&regs)?;
        let status = Status::Signal(Signal::TRAP);
        self.with_source(tid, |source, stopped, memory| source.stopped(stopped, memory, status))?;
        self.forget_stop_at_count();
        let stopped = self.task(tid)?;
        stopped.standing.go_on_midway();
        if !self.is_to_stop(tid)? {
            return Ok(true);
        }
        // A computed jump is made first. It changes nothing but the program counter, which replay sets to
        // what it is here.
        if self.space.dense_place(Addr(resume)).is_some() && self.step(tid)? == Step::Elsewhere {
            return Ok(true);
        }
        let regs = self.stopped(tid)?.regs()?;
        self.recorder().pause_at_count(tid, found.rip)?;
        self.go_from_pause(tid, &regs)?;
        Ok(true)
    }
}

impl Recorder<'_> {
    /// Writes down where the task stands, right behind a count, and where that has trapped.
    fn pause_at_count(&mut self, tid: Tid, trap: u64) -> Result<()> {
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        let Some(count) = self.ticks(tid)? else { return Ok(()) };
        let regs = self.stopped(tid)?.regs()?;
        let extended = place::extended(&self.stopped(tid)?.xstate()?);
        tracing::debug!(domain = %self.id, %tid, count, rip = format_args!("{:#x}", regs.rip), "pause");
        let (held, seen, span) = (Vec::new(), Vec::new(), Vec::new());
        let pause = Pause { place: PausePlace::Count(count), regs, extended, held, seen, span, trap };
        self.event_with(tid, EventKind::Pause(Box::new(pause)), sums)
    }
}
