//! Places that the dense text names: the replayed program counts as the recorded one did, because it executes the same
//! text, and the word that its counts take down is all that there is to know of rewriting here.
//!
//! To stop a task behind its count N, the word is set to let N-1 pass; the task runs into a trap at the place itself. There
//! is nothing to search and nothing to choose: what is found there is what the event says, or the replay has diverged.
//! At every other event of such a domain the counts since the one before must be as many as when it was recorded.
//!
//! Counts leave the same flags whatever the word is, but for those that trap; the event has the flags of the others.

use bis_agent::hooks::COUNTDOWN;
use bis_rewrite::{COUNTS_MAX, STATUS_FLAGS, count_word, counts_left};
use bis_trace::{event::Pause, types::Registers};
use bis_tracee::Memory;

use crate::{
    divergence::Leave,
    domain::{Domain, Mismatch, Who},
    error::Halt,
    reach::found_text,
    task::{Found, Task},
};

/// Counts since the word was full: in a domain whose text does not count, and has no such word, none.
pub(crate) fn counts(memory: &Memory) -> u64 {
    let left = memory.read_u64(COUNTDOWN).map_or(COUNTS_MAX.cast_signed(), counts_left);
    COUNTS_MAX.wrapping_sub(left.cast_unsigned())
}

impl Domain<'_, '_> {
    fn let_pass(&self, who: Who, left: u64) -> Result<(), Halt> {
        let word = count_word(left.min(COUNTS_MAX)).to_le_bytes();
        let written = self.space.memory.write(COUNTDOWN, &word);
        written
            .map_err(|error| self.effect_failed(who.seq, "set the word of the counts".into(), error.into()))
    }

    /// Lets the task run to the pause behind its count `wanted` since its domain's previous event.
    pub(crate) fn reach_dense_count(
        &self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        wanted: u64,
    ) -> Result<(), Halt> {
        let memory = &self.space.memory;
        let begun = self.counted.get();
        let Some(pass) = wanted.checked_sub(1).filter(|_| wanted <= COUNTS_MAX - begun.min(COUNTS_MAX))
        else {
            return Err(self.inconsistent(who.seq, format!("a pause after {wanted} counts")));
        };
        let hooked = self.begin_log(task, who, false)?;
        self.let_pass(who, pass)?;
        let mut place = task.run(memory)?;
        if place.found == Found::Dead && self.context.shared.board.is_cancelled() {
            return Err(Halt::Cancelled);
        }
        let expected =
            || format!("a pause in the middle of computation at {:#x} after {wanted} counts", pause.regs.rip);
        let left = if place.found == Found::Dead { 0 } else { counts_left(memory.read_u64(COUNTDOWN)?) };
        let is_trap = left == -1 && matches!(place.found, Found::Fault(info) if info.is_breakpoint());
        if !is_trap {
            if place.found == Found::Dead {
                return Err(self.elsewhere(task, who, expected(), &place, &pause.regs, Leave::OrigRax));
            }
            let count = pass.wrapping_sub(left.cast_unsigned());
            let found = format!("{} after {count} counts", found_text(&place));
            return Err(self.diverged(task, who, Mismatch::new(expected(), found, place.regs)));
        }
        self.let_pass(who, COUNTS_MAX - begun - wanted)?;
        self.counted.set(begun + wanted);
        if hooked
            .is_some_and(|hooked| self.space.log_used().is_ok_and(|used| used != hooked.log.len() as u64))
        {
            let found = "the same, with hooked calls left to make".into();
            return Err(self.diverged(task, who, Mismatch::new(expected(), found, place.regs)));
        }
        // It stands behind the trap, with the flags of a count that has trapped; the program goes on elsewhere.
        let eflags = match place.regs.eflags ^ pause.regs.eflags {
            flags if flags & !STATUS_FLAGS == 0 && pause.regs.eflags & STATUS_FLAGS == 0 => pause.regs.eflags,
            _ => place.regs.eflags,
        };
        place.regs = Registers { rip: pause.regs.rip, eflags, ..place.regs };
        self.must_equal(task, who, expected(), &pause.regs, &place.regs, Leave::OrigRax)?;
        if task.extended()? != pause.extended {
            let found = "the same, with other vector or x87 registers".into();
            return Err(self.diverged(task, who, Mismatch::new(expected(), found, place.regs)));
        }
        Ok(task.set_regs(&pause.regs)?)
    }

    /// How many counts the task has made since its domain's previous event.
    pub(crate) fn counts(&self) -> u64 {
        counts(&self.space.memory).wrapping_sub(self.counted.get())
    }

    /// The task has come to an event with this number of counts: they must be as many, and begin anew.
    pub(crate) fn check_counts(&self, task: &Task, who: Who, wanted: u64) -> Result<(), Halt> {
        let count = self.counts();
        if count != wanted {
            let expected = format!("the same after {wanted} counts since the event before");
            let found = format!("it came after {count}");
            return Err(self.diverged(task, who, Mismatch::new(expected, found, task.regs()?)));
        }
        self.counted.set(self.counted.get() + wanted);
        Ok(())
    }
}
