//! Whether a task spins for others, and is to be looked at: questions, which change nothing.

use std::{ops::Range, time::Duration};

use bis_trace::types::{Addr, Tid};
use bis_tracee::task;
use xxhash_rust::xxh3::Xxh3;

use super::{SHORT, SHORT_BY_STATE};
use crate::{crew::Crew, domain::Domain, process::Process, task::Task};

/// How long a task that has spun is passed over, at most, if what it looks at does not change: its loop may
/// end by its count.
const IDLE_MAX: Duration = Duration::from_millis(10);

impl Domain {
    /// Might this task spin while others wait, so that it is to be looked at early?
    pub fn is_to_be_watched(&self, tid: Tid) -> bool {
        self.session.chaos.is_none()
            && self.tasks.get(&tid).is_some_and(|task| !task.spin.known.is_empty() && task.counter.is_none())
            && (self.tasks.len() > 1 || self.holds_tokens())
    }

    /// The supervisor was called away from waiting for this task: is it time to look whether it spins?
    pub fn is_to_be_looked_at(&self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        if self.space.is_dense() && self.session.chaos.is_none() && self.is_awaited_by_signal(tid) {
            return true;
        }
        let is_due = || {
            let ran = task::cpu_time(tid).unwrap_or_default();
            ran.saturating_sub(task.spin.ran) >= task.spin.patience
        };
        self.is_to_be_watched(tid)
            && task.spin.turn == self.journal.count()
            && self.is_waited_for(task)
            && is_due()
    }

    /// Does anybody wait for this task's turn who would get it?
    fn is_waited_for(&self, task: &Task) -> bool {
        let mut others = self.tasks.values().filter(|other| other.tid != task.tid);
        others.any(|other| self.waits_for_turn(other) && self.urgency(other) <= self.urgency(task))
            || self.holds_tokens() && self.session.registry.is_wanted()
    }
}

impl Process {
    pub fn shortest(&self) -> Duration {
        if self.space.is_dense() { SHORT } else { SHORT_BY_STATE }
    }
}

impl Crew {
    /// Would this task, which has spun until it gave its turn away, only go on spinning?
    pub fn is_idle(&self, task: &Task) -> bool {
        let Some(since) = task.spin.idle else { return false };
        since.elapsed() < IDLE_MAX && task.spin.before.is_some_and(|before| before.seen == self.seen(task))
    }

    /// What the task's loop looks at, as it is now: xxh3.
    pub fn seen(&self, task: &Task) -> u64 {
        let mut seen = Xxh3::new();
        let reads = task.spin.known.get(task.spin.current).map_or(&[][..], |known| &known.reads);
        self.content(reads).iter().for_each(|bytes| seen.update(bytes));
        seen.digest()
    }

    pub fn content(&self, ranges: &[Range<Addr>]) -> Vec<Vec<u8>> {
        let read = |range: &Range<Addr>| {
            self.memory.read_upto(range.start, usize::try_from(range.end - range.start).unwrap_or(0))
        };
        ranges.iter().map(read).collect()
    }
}
