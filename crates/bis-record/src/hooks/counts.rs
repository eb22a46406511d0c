//! Counts of the dense text while recording: stopping a task at its next count, and what the trap there means
//! to the program.
//!
//! What counts is a tick source like others (`bis_tracee::ticks::Software`), one for each domain, whose tasks
//! run one at a time; the numbers that events have are in `ticks.rs`.

use bis_trace::types::Addr;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bis_agent::hooks::COUNTDOWN;
use bis_trace::event::MemWrite;
use bis_tracee::{area::Area, ticks::Software};

use crate::task::Counter;

/// What a domain knows of its counts.
#[derive(Debug)]
pub struct Counts {
    pub counter: Counter,
    /// The running task was asked to stop at its next count, since its last event.
    pub asked: Option<Asked>,
    /// Since when the domain has one task.
    pub alone_since: Option<Instant>,
    /// A task had to be stopped by its state although it is alone: counts would have served better.
    pub is_wanted: bool,
    pub need: Need,
}

/// What replay begins with.
pub fn full() -> MemWrite {
    MemWrite { addr: Addr(COUNTDOWN), data: Software::FULL.to_le_bytes().to_vec() }
}

impl Counts {
    /// Counts from zero, in a fresh area.
    pub fn new(area: &Arc<Area>) -> Counts {
        Counts {
            counter: Counter::new(Box::new(Software::mapped(Arc::clone(area)))),
            asked: None,
            alone_since: None,
            is_wanted: false,
            need: Need::default(),
        }
    }

    /// The task stands at an event: whatever it was to stop for is another matter.
    pub fn forget_stop(&mut self) {
        self.asked = None;
    }
}

/// A task is to stop at a count.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// At this one; none: none came, or there are none.
    count: Option<u64>,
    since: Instant,
    /// How long it had run then.
    run: Option<Duration>,
}

impl Asked {
    pub fn new(count: Option<u64>, now: Instant, run: Option<Duration>) -> Asked {
        Asked { count, since: now, run }
    }

    /// Does the task go on to its count? It has come to `reached` and has had a core for as long as `run`
    /// says. If it has come as far as it was asked to, it was interrupted in the very moment when it trapped:
    /// that comes next.
    pub fn goes_on(
        &self,
        reached: Option<u64>,
        now: Instant,
        run: impl FnOnce() -> Option<Duration>,
    ) -> bool {
        let waited = now.saturating_duration_since(self.since);
        let has_run = || match (self.run, run()) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= RUN_MIN || waited > COUNT_WAIT_MAX,
            _ => true,
        };
        let has_trapped = self.count.is_some() && reached >= self.count;
        has_trapped || waited < COUNT_WAIT || self.count.is_some() && !has_run()
    }

    /// It was waited for a count for long enough: none came.
    pub fn give_up(&mut self) {
        self.count = None;
    }
}

/// What is known of a domain's need for counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// How often a task was stopped by its state.
    pauses: u32,
    /// When the others stood badly.
    refused: Option<Instant>,
    /// When it was looked whether the dense texts are there.
    looked: Option<Instant>,
}

impl Need {
    /// Have the others stood badly a short time ago?
    pub fn is_refused(&self) -> bool {
        self.refused.is_some_and(|refused| refused.elapsed() < AGAIN)
    }

    pub fn refuse(&mut self, is_refused: bool) {
        self.refused = is_refused.then(Instant::now);
    }

    pub fn count_pause(&mut self) {
        self.pauses = self.pauses.saturating_add(1);
    }

    /// Has there been one pause?
    pub fn is_first(&self) -> bool {
        self.pauses == 1
    }

    /// Is it time to look whether the dense texts are there?
    pub fn looks_for_texts(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN)
    }

    /// It is looked now whether the dense texts are there.
    pub fn note_look(&mut self) {
        self.looked = Some(Instant::now());
    }

    /// Have there been enough pauses?
    pub fn is_great(&self) -> bool {
        self.pauses >= PAUSES_MAX
    }
}

/// How many pauses by their state are taken before the text counts. To keep and map the dense text of a large
/// program takes some tens of milliseconds; a pause by its state takes two or three, and in replay now and
/// then seconds.
const PAUSES_MAX: u32 = 3;

/// How long nobody looks again where the others stood badly.
const AGAIN: Duration = Duration::from_millis(20);

/// How long nobody looks again for dense texts that are being made.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long a task that was told to stop at its next count may go without one, and how much of that it has
/// had a core, if that does not take for ever. Then it is stopped where it is.
const COUNT_WAIT: Duration = Duration::from_millis(2);

const RUN_MIN: Duration = Duration::from_millis(1);

const COUNT_WAIT_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_task_is_given_time_to_come_to_its_count_and_a_core_to_come_there() {
        let began = Instant::now();
        let asked = Asked::new(Some(7), began, Some(5 * MS));
        let goes_on =
            |waited: Duration, run: Duration| asked.goes_on(Some(3), began + waited, || Some(5 * MS + run));
        assert!(goes_on(MS, MS), "it has not waited for long");
        assert!(goes_on(50 * MS, MS / 2), "it has hardly had a core");
        assert!(!goes_on(50 * MS, MS));
        assert!(!goes_on(201 * MS, MS / 2), "that does not take for ever");
        assert!(!asked.goes_on(Some(3), began + 3 * MS, || None), "nobody knows how long it has run");
    }

    #[test]
    fn a_task_that_has_come_to_its_count_traps_there() {
        let began = Instant::now();
        let mut asked = Asked::new(Some(7), began, Some(MS));
        assert!(asked.goes_on(Some(7), began + 900 * MS, || Some(900 * MS)));
        asked.give_up();
        assert!(!asked.goes_on(Some(7), began + 900 * MS, || Some(900 * MS)));
        assert!(
            asked.goes_on(None, began + MS, || None),
            "where there is none, it is stopped as soon as it may"
        );
    }
}
