//! Finding a place by its number, the counts of a tick source since the event before: the same for every source.
//!
//! One that counts branches interrupts late by an unknown few, its skid; so it is asked to by as much earlier, and from there a
//! breakpoint at the place stops the task each time that it comes by, until the count is right and registers and memory are, too.
//! Between two conditional branches the task hardly comes there twice; if it does, in a loop that has none, that comparison tells
//! the two apart, or nothing can. A task that has more counts than it should has missed its place, and is not let run on.
//!
//! The counts of dense text trap right behind themselves: that is the place, or the replay has diverged. The replayed program
//! executes the same text as the recorded one, at the same addresses: what its counts take down, and where they trap, is all that
//! there is to know of rewriting here.

use bis_rewrite::STATUS_FLAGS;
use bis_trace::{
    event::Pause,
    types::{Registers, TickKind},
};
use bis_tracee::place;

use crate::{
    divergence::{Leave, compare},
    domain::{Domain, Mismatch, Who},
    error::Halt,
    reach::found_text,
    seek::Seek,
    task::{Found, Place, Task},
};

impl Domain<'_, '_> {
    /// Has the program text that counts by itself?
    fn is_dense(&self) -> bool {
        self.context.shared.ticks.kind() == TickKind::Software
    }

    /// Lets the task run to where it was paused, `wanted` counts behind its previous event.
    pub(crate) fn reach_count(
        &self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        wanted: u64,
    ) -> Result<(), Halt> {
        let hooked = self.begin_log(task, who, false)?;
        let Some(skid) = task.skid() else {
            let what = "a place has a number, and the trace names no tick source".into();
            return Err(self.inconsistent(who.seq, what));
        };
        if self.is_dense() && wanted == 0 {
            return Err(self.inconsistent(who.seq, "a pause behind no count".into()));
        }
        let early = wanted.saturating_sub(skid);
        if early > 0 {
            self.run_to_count(task, who, pause, wanted, early)?;
        }
        if self.is_dense() {
            // It stands behind the trap, which the program does not have.
            task.set_regs(&behind_count(&task.regs()?, &pause.regs))?;
        }
        let memory = &self.space.memory;
        let log_is_used = || -> Result<bool, Halt> {
            let Some(hooked) = &hooked else { return Ok(true) };
            Ok(self.space.log_used()? == hooked.log.len() as u64)
        };
        let is_there = |task: &mut Task| -> Result<bool, Halt> {
            let (count, regs) = (task.count(memory)?, task.regs()?);
            if count != Some(wanted) || !compare(&pause.regs, &regs, Leave::OrigRax).is_empty() {
                tracing::trace!(count, wanted, "not the place");
                return Ok(false);
            }
            let word = place::first_difference(memory, &pause.held);
            let other = place::first_other(memory, &pause.seen);
            let extended = task.extended()? == pause.extended;
            let log = log_is_used()?;
            tracing::debug!(?word, ?other, extended, log, "the place with its count and registers");
            Ok(word.is_none() && other.is_none() && extended && log)
        };
        if is_there(task)? {
            return Ok(());
        }
        if skid == 0 {
            let (found, regs) = (Found::Tick, task.regs()?);
            return Err(self.missed(task, who, pause, wanted, &Place { found, regs }));
        }
        let seek = Seek::begin(task, pause, false)?;
        task.stop_at(memory, wanted + 1)?;
        let place = loop {
            let place = task.run(memory)?;
            if place.found != Found::Breakpoint || is_there(task)? {
                break place;
            }
        };
        seek.end(task, memory, &place)?;
        if place.found == Found::Breakpoint {
            return Ok(());
        }
        Err(self.missed(task, who, pause, wanted, &place))
    }

    /// Lets the task run until it has `early` counts, or a few more, but not more than `wanted`.
    fn run_to_count(
        &self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        wanted: u64,
        early: u64,
    ) -> Result<(), Halt> {
        let memory = &self.space.memory;
        task.stop_at(memory, early)?;
        let place = task.run(memory)?;
        let is_elsewhere = self.is_dense() && pause.trap != 0 && pause.trap != place.regs.rip;
        if place.found == Found::Tick
            && !is_elsewhere
            && task.count(memory)?.is_some_and(|count| count <= wanted)
        {
            return Ok(());
        }
        Err(self.missed(task, who, pause, wanted, &place))
    }

    /// The task has come past its place, or to something else before.
    fn missed(&self, task: &mut Task, who: Who, pause: &Pause, wanted: u64, place: &Place) -> Halt {
        if place.found == Found::Dead {
            if self.context.shared.board.is_cancelled() {
                return Halt::Cancelled;
            }
            return self.elsewhere(task, who, expected(pause, wanted), place, &pause.regs, Leave::OrigRax);
        }
        let count = match task.count(&self.space.memory) {
            Ok(count) => count.unwrap_or(0),
            Err(error) => return error.into(),
        };
        let found = format!("{} after {count} counts", found_text(place));
        let mismatch = Mismatch::new(expected(pause, wanted), found, place.regs);
        let registers = compare(&pause.regs, &place.regs, Leave::OrigRax);
        self.diverged(task, who, Mismatch { registers, ..mismatch })
    }

    /// Has the task made as many counts since its previous event as when it was recorded?
    pub(crate) fn check_ticks(&self, task: &mut Task, who: Who) -> Result<(), Halt> {
        let Some(wanted) = who.ticks else { return Ok(()) };
        match task.count(&self.space.memory)? {
            Some(count) if count != wanted => {
                let expected = format!("the same after {wanted} counts since its previous event");
                let found = format!("it came after {count}");
                Err(self.diverged(task, who, Mismatch::new(expected, found, task.regs()?)))
            }
            _ => Ok(()),
        }
    }
}

/// The registers of a task that has been stopped by a count's trap, as the program has them behind the count: it goes on
/// elsewhere, and where nobody looks at the flags, they are those of a count that has not trapped.
fn behind_count(found: &Registers, wanted: &Registers) -> Registers {
    let differ = found.eflags ^ wanted.eflags;
    let are_lost = differ & !STATUS_FLAGS == 0 && wanted.eflags & STATUS_FLAGS == 0;
    let eflags = if are_lost { wanted.eflags } else { found.eflags };
    Registers { rip: wanted.rip, eflags, ..*found }
}

fn expected(pause: &Pause, wanted: u64) -> String {
    let trap = if pause.trap == 0 { String::new() } else { format!(", with its trap at {:#x}", pause.trap) };
    format!("a pause in the middle of computation at {:#x} after {wanted} counts{trap}", pause.regs.rip)
}
