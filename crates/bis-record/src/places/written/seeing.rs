//! The kernel is asked which pages a task writes to, in front of its pause.

use std::time::Instant;

use bis_trace::types::{Addr, Signal, Tid};
use bis_tracee::{checksum, maps, siginfo::SigInfo, task, written::Writes};

use crate::{crew::with_slot, domain::Domain, error::Result};

/// How often a task goes on to see what else it writes, in front of one pause.
const LOOKS_MAX: u32 = 2;

/// Is all looked at that a task writes to, in front of its pause?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sees {
    /// The task is to go on for a moment, to see that.
    NotYet,
    All,
    /// Nobody knows: the kernel does not tell, or is not asked each time, or there is too much.
    Perhaps,
}

/// Does the kernel tell what tasks write to?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// From now on.
    Begun,
    /// The task has a trap that must be reported first.
    Later,
    /// It does not, or not now.
    Unknown,
}

impl Domain {
    /// The task has been stopped, and its surroundings are known. Looks whether they hold all that it writes
    /// to, or begins to look.
    pub fn see_what_it_writes(&mut self, tid: Tid) -> Result<Sees> {
        let began = Instant::now();
        let sees = self.see_writes(tid);
        if matches!(sees, Ok(Sees::All | Sees::Perhaps)) {
            self.writes = None;
            self.written.looks = 0;
        }
        self.written.spent += began.elapsed();
        sees
    }

    fn see_writes(&mut self, tid: Tid) -> Result<Sees> {
        let Some(writes) = &mut self.process.crew.writes else {
            let is_left = self.is_in_young_turn() && !self.written.pages.is_empty();
            if is_left || self.creeps || !self.written.may_spend(task::cpu_time(tid)) {
                return Ok(Sees::Perhaps);
            }
            return match self.begin_to_see_writes(tid)? {
                Begin::Unknown => Ok(Sees::Perhaps),
                Begin::Later => Ok(Sees::NotYet),
                Begin::Begun => {
                    self.look_wide(tid)?;
                    Ok(Sees::NotYet)
                }
            };
        };
        let Ok((ranges, may_be_exact)) = writes.since_last() else { return Ok(Sees::Perhaps) };
        let are_all = self.written.learn(&ranges) && self.written.is_whole;
        let is_covered = |page: &(Addr, Addr)| self.surroundings.covers(*page);
        let uncovered = self.written.pages.iter().filter(|page| !is_covered(page));
        let (mut left_out, mut new) = (0, 0);
        for page in uncovered {
            *(if self.written.left_out.contains(page) { &mut left_out } else { &mut new }) += 1;
        }
        let pages = self.written.pages.len();
        tracing::debug!(domain = %self.id, %tid, pages, left_out, new, "writes to");
        if new == 0 && !may_be_exact || self.written.looks == LOOKS_MAX {
            return Ok(if are_all && left_out + new == 0 { Sees::All } else { Sees::Perhaps });
        }
        self.written.looks += 1;
        self.look_wide(tid)?;
        let left_out = |page: &(Addr, Addr)| !self.surroundings.covers(*page);
        self.written.left_out = self.written.pages.iter().copied().filter(left_out).collect();
        Ok(Sees::NotYet)
    }

    /// Asks the kernel to tell from now on what the tasks write to.
    pub fn begin_to_see_writes(&mut self, tid: Tid) -> Result<Begin> {
        if self.written.is_unknown {
            return Ok(Begin::Unknown);
        }
        let pending = self.stopped(tid)?.pending()?;
        let mut traps =
            pending.iter().map(|info| SigInfo(*info)).filter(|info| info.signal() == Signal::TRAP);
        // Either would come to a call in the task's name.
        match traps.next() {
            Some(trap) if trap.is_debug_exception() => return Ok(Begin::Later),
            Some(_) => return Ok(Begin::Unknown),
            None => {}
        }
        let mut mappings = maps::writable(tid)?;
        mappings.retain(checksum::is_summed);
        let (own, shared): (Vec<_>, Vec<_>) = mappings.into_iter().partition(|m| !m.shared);
        let ranges = own.into_iter().map(|m| (m.range.start, m.range.end)).collect();
        let pid = self.task(tid)?.pid;
        self.process.crew.writes = with_slot(self, tid, |_, slot| Ok(Writes::begin(slot, pid, ranges)?))?;
        self.written.looks = 0;
        self.written.is_unknown = self.writes.is_none();
        self.written.is_whole = shared.is_empty() && self.writes.as_ref().is_some_and(Writes::is_whole);
        Ok(if self.written.is_unknown { Begin::Unknown } else { Begin::Begun })
    }
}
