//! Counts of the dense text while recording: stopping a task at its next count, and what the trap there means to the program.
//!
//! What counts is a tick source like others (`bis_tracee::ticks::Software`), one for each domain, whose tasks run one at a
//! time; the numbers that events have are in `ticks.rs`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bis_agent::hooks::COUNTDOWN;
use bis_rewrite::{Place, STATUS_FLAGS};
use bis_trace::{
    event::{EventKind, MemWrite, Pause, PausePlace},
    types::{Registers, Signal, Tid},
};
use bis_tracee::{Status, area::Area, place, siginfo::SigInfo, task, ticks::Software};

use super::need::Need;
use crate::{domain::Domain, error::Result, steps::Step, ticks::Counter};

/// How long a task that was told to stop at its next count may go without one, and how much of that it has had a core, if that
/// does not take for ever. Then it is stopped where it is.
const COUNT_WAIT: Duration = Duration::from_millis(2);
const RUN_MIN: Duration = Duration::from_millis(1);
const COUNT_WAIT_MAX: Duration = Duration::from_millis(200);

/// What a domain knows of its counts.
#[derive(Debug)]
pub struct Counts {
    pub counter: Counter,
    /// The running task is to stop at this count.
    asked: Option<u64>,
    /// Since when it is, or was and none came.
    since: Option<Instant>,
    /// How long it had run then.
    run: Option<Duration>,
    /// Since when the domain has one task.
    pub alone_since: Option<Instant>,
    /// A task had to be stopped by its state although it is alone: counts would have served better.
    pub is_wanted: bool,
    pub need: Need,
}

/// What replay begins with.
pub fn full() -> MemWrite {
    MemWrite { addr: COUNTDOWN, data: Software::FULL.to_le_bytes().to_vec() }
}

impl Counts {
    /// Counts from zero, in a fresh area.
    pub fn new(area: &Arc<Area>) -> Counts {
        Counts {
            counter: Counter::new(Box::new(Software::mapped(Arc::clone(area)))),
            asked: None,
            since: None,
            run: None,
            alone_since: None,
            is_wanted: false,
            need: Need::default(),
        }
    }

    /// The task stands at an event: whatever it was to stop for is another matter.
    pub fn forget_stop(&mut self) {
        (self.asked, self.since) = (None, None);
    }
}

impl Domain {
    /// Does the domain's text count?
    pub fn is_dense(&self) -> bool {
        self.space.patches().dense.is_on
    }

    /// The counts of a domain whose text has them.
    fn dense_counts(&mut self) -> Option<&mut Counts> {
        let hooks = self.hooks.as_mut().filter(|_| self.space.patches().dense.is_on)?;
        Some(&mut hooks.counts)
    }

    /// The task is to stop, and computes. True: it goes on to its next count, and stops there. False: there are none, or none
    /// came; until its next event, it does not stop at one.
    pub fn stops_at_count(&mut self, tid: Tid) -> Result<bool> {
        let Some(counts) = self.dense_counts() else { return Ok(false) };
        let (since, asked, run) = (counts.since, counts.asked, counts.run);
        let Some(since) = since else {
            let asked = self.with_source(tid, |source, stopped, memory| source.stop_soon(stopped, memory))?;
            if let Some(counts) = self.dense_counts() {
                (counts.asked, counts.since) = (asked, Some(Instant::now()));
                counts.run = task::cpu_time(tid);
            }
            return Ok(true);
        };
        // It was interrupted in the very moment when it trapped: that comes next.
        let has_trapped = asked.is_some() && self.ticks(tid)? >= asked;
        let waited = since.elapsed();
        let has_run = || match (run, task::cpu_time(tid)) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= RUN_MIN || waited > COUNT_WAIT_MAX,
            _ => true,
        };
        if has_trapped || waited < COUNT_WAIT || asked.is_some() && !has_run() {
            return Ok(true);
        }
        self.with_source(tid, |source, stopped, memory| source.stop_at(stopped, memory, None))?;
        if let Some(counts) = self.dense_counts() {
            counts.asked = None;
        }
        Ok(false)
    }

    pub fn forget_stop_at_count(&mut self) {
        if let Some(counts) = self.dense_counts() {
            counts.forget_stop();
        }
    }

    /// The task computes, and came to no count.
    pub fn learn_loop(&mut self, tid: Tid) -> Result<()> {
        let rip = self.stopped(tid)?.regs()?.rip;
        let patches = self.space.patches();
        if patches.dense.is_on
            && let (Some(text), Some(cache)) =
                (patches.text_at(patches.original(rip)), self.session.texts.dense())
        {
            text.file.learn_loops(cache);
        }
        Ok(())
    }

    /// What it means to stand there, in trampolines of dense text.
    pub fn dense_place(&self, rip: u64) -> Option<Place> {
        self.space.patches().dense.place(rip)
    }

    /// The program's own registers for a task in a trampoline: where it stands, and what a count has put aside.
    pub fn own_registers(&self, regs: &Registers) -> Registers {
        let mut own = Registers { rip: self.original_rip(regs.rip), ..*regs };
        if let (Some(Place::Count { restore_rcx, flags_lost, .. }), Some(hooks)) =
            (self.dense_place(regs.rip), &self.hooks)
        {
            if restore_rcx {
                own.rcx = hooks.area.count_rcx();
            }
            if flags_lost {
                own.eflags &= !STATUS_FLAGS;
            }
        }
        own
    }

    /// The task has stopped at an int3. True: it was a count's, and is dealt with.
    pub fn count_trap(&mut self, tid: Tid) -> Result<bool> {
        if !self.is_dense() || !SigInfo(self.stopped(tid)?.siginfo()?).is_breakpoint() {
            return Ok(false);
        }
        let found = self.stopped(tid)?.regs()?;
        let Some(Place::Count { resume, flags_lost, trap: true, .. }) = self.dense_place(found.rip - 1)
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
        // A computed jump is made first. It changes nothing but the program counter, which replay sets to what it is here.
        if self.dense_place(resume).is_some() && self.step(tid)? == Step::Elsewhere {
            return Ok(true);
        }
        let regs = self.stopped(tid)?.regs()?;
        self.pause_at_count(tid, found.rip)?;
        self.go_from_pause(tid, &regs)?;
        Ok(true)
    }

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
