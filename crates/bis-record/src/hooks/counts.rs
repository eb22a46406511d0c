//! Counts of the dense text while recording: the word that they take down, the numbers that events have, and stopping a task
//! at its next count.
//!
//! The word lies in the hooks' area, which the supervisor maps, and begins far above zero: nobody reaches its end. To stop a
//! task soon, the word is set so that the next count traps. What a count leaves in the flags does not depend on the word
//! (`bis_rewrite::count_word`), so a task that has trapped goes on as if it had not; and replay, which sets the word from the
//! last event on so that it traps at the right count, cannot be told apart either.
//!
//! An event's number counts from its domain's previous event, which is also its task's (one task of a domain runs at a time).

use std::time::{Duration, Instant};

use bis_agent::hooks::COUNTDOWN;
use bis_rewrite::{COUNTS_MAX, Place, STATUS_FLAGS, count_word, counts_left};
use bis_trace::{
    event::{EventKind, MemWrite, Pause, PausePlace, SignalPoint},
    types::{Registers, Tid},
};
use bis_tracee::{area::Area, place, siginfo::SigInfo, task};

use super::Hooks;
use crate::{domain::Domain, error::Result, steps::Step};

/// How long a task that was told to stop at its next count may go without one, and how much of that it has had a core, if that
/// does not take for ever. Then it is stopped where it is.
const COUNT_WAIT: Duration = Duration::from_millis(2);
const RUN_MIN: Duration = Duration::from_millis(1);
const COUNT_WAIT_MAX: Duration = Duration::from_millis(200);

/// What a domain knows of its counts.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// So many counts were made when the word was set to let `left` pass.
    made: u64,
    left: u64,
    /// How many had been made at the last event.
    at_event: u64,
    /// The next count traps.
    is_armed: bool,
    /// Since when the running task is to stop at its next count, or was and none came.
    since: Option<Instant>,
    /// How long it had run then.
    run: Option<Duration>,
    /// Since when the domain has one task.
    pub alone_since: Option<Instant>,
    /// A task had to be stopped by its state although it is alone: counts would have served better.
    pub is_wanted: bool,
}

/// What replay begins with.
pub fn full() -> MemWrite {
    MemWrite { addr: COUNTDOWN, data: count_word(COUNTS_MAX).to_le_bytes().to_vec() }
}

impl Counts {
    /// Counts from zero, in a fresh area.
    pub fn new(area: &Area) -> Counts {
        area.set_countdown(count_word(COUNTS_MAX));
        Counts {
            made: 0,
            left: COUNTS_MAX,
            at_event: 0,
            is_armed: false,
            since: None,
            run: None,
            alone_since: None,
            is_wanted: false,
        }
    }

    /// All counts so far. No task runs now.
    fn all(&self, area: &Area) -> u64 {
        let left = counts_left(area.countdown());
        self.made.wrapping_add(self.left).wrapping_sub(left.cast_unsigned())
    }

    fn set(&mut self, area: &Area, left: u64) {
        (self.made, self.left) = (self.all(area), left);
        area.set_countdown(count_word(left));
    }

    fn arm(&mut self, area: &Area) {
        self.set(area, 0);
        (self.is_armed, self.since) = (true, Some(Instant::now()));
    }

    fn disarm(&mut self, area: &Area) {
        if std::mem::take(&mut self.is_armed) {
            self.set(area, COUNTS_MAX);
        }
    }
}

impl Domain {
    /// Does the domain's text count?
    pub fn is_dense(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.patches.dense.is_on)
    }

    /// The number of an event that is about to be written: none if nothing counts, or the event did not come of its task's
    /// running. From here on is counted anew.
    pub fn counts_of_event(&mut self, kind: &EventKind) -> Option<u64> {
        let hooks = self.hooks.as_mut().filter(|hooks| hooks.patches.dense.is_on)?;
        if matches!(kind, EventKind::Hooked { .. } | EventKind::Token { .. }) {
            return None;
        }
        hooks.counts.disarm(&hooks.area);
        hooks.counts.since = None;
        let all = hooks.counts.all(&hooks.area);
        let counts = all.wrapping_sub(std::mem::replace(&mut hooks.counts.at_event, all));
        match kind {
            EventKind::Signal(event) if event.point == SignalPoint::Anywhere => None,
            EventKind::Syscall { .. }
            | EventKind::SyscallEnter { .. }
            | EventKind::Signal(_)
            | EventKind::Instruction { .. } => Some(counts),
            EventKind::Pause(pause) if pause.place == PausePlace::State => Some(counts),
            _ => None,
        }
    }

    /// The task is to stop, and computes. True: it goes on to its next count, and stops there.
    pub fn stops_at_count(&mut self, tid: Tid) -> bool {
        let Some(hooks) = self.hooks.as_mut().filter(|hooks| hooks.patches.dense.is_on) else { return false };
        let Hooks { counts, area, .. } = hooks;
        let Some(since) = counts.since else {
            counts.arm(area);
            counts.run = task::cpu_time(tid);
            return true;
        };
        // It was interrupted in the very moment when it trapped: that comes next.
        let has_trapped = counts.is_armed && counts_left(area.countdown()) < 0;
        let waited = since.elapsed();
        let has_run = || match (counts.run, task::cpu_time(tid)) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= RUN_MIN || waited > COUNT_WAIT_MAX,
            _ => true,
        };
        has_trapped || waited < COUNT_WAIT || counts.is_armed && !has_run()
    }

    /// No count came: until its next event, the task does not trap at one.
    pub fn no_count_came(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.counts.disarm(&hooks.area);
        }
    }

    /// The task computes, and came to no count.
    pub fn learn_loop(&mut self, tid: Tid) -> Result<()> {
        let rip = self.stopped(tid)?.regs()?.rip;
        let Some(hooks) = self.hooks.as_ref().filter(|hooks| hooks.patches.dense.is_on) else {
            return Ok(());
        };
        let rip = hooks.patches.original(rip);
        if let (Some(text), Some(cache)) = (hooks.patches.text_at(rip), self.session.texts.dense()) {
            text.file.learn_loops(cache);
        }
        Ok(())
    }

    /// What it means to stand there, in trampolines of dense text.
    pub fn dense_place(&self, rip: u64) -> Option<Place> {
        self.hooks.as_ref()?.patches.dense.place(rip)
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
        if let Some(hooks) = &mut self.hooks {
            hooks.counts.disarm(&hooks.area);
            hooks.counts.since = None;
        }
        let stopped = self.task(tid)?;
        (stopped.midway, stopped.ready) = (true, true);
        if !self.is_to_stop(tid)? {
            return Ok(true);
        }
        // A computed jump is made first. It changes nothing but the program counter, which replay sets to what it is here.
        if self.dense_place(resume).is_some() && self.step(tid)? == Step::Elsewhere {
            return Ok(true);
        }
        let regs = self.stopped(tid)?.regs()?;
        self.pause_at_count(tid)?;
        self.go_from_pause(tid, &regs)?;
        Ok(true)
    }

    /// Writes down where the task stands, right behind a count.
    fn pause_at_count(&mut self, tid: Tid) -> Result<()> {
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        let Some(hooks) = &self.hooks else { return Ok(()) };
        let count = hooks.counts.all(&hooks.area).wrapping_sub(hooks.counts.at_event);
        let regs = self.stopped(tid)?.regs()?;
        let extended = place::extended(&self.stopped(tid)?.xstate()?);
        tracing::debug!(domain = %self.id, %tid, count, rip = format_args!("{:#x}", regs.rip), "pause");
        let (held, seen, span) = (Vec::new(), Vec::new(), Vec::new());
        let pause = Pause { place: PausePlace::Count(count), regs, extended, held, seen, span };
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, EventKind::Pause(Box::new(pause)), sums)
    }
}
