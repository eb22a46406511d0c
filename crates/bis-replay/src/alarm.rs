//! Stops a domain that may go on for ever: one that follows a wrong guess of what a pause is
//! ([`crate::retry`]), and one that looks for a pause at which it will never be, because an earlier place was
//! taken for another. A program that spins on memory for which only it itself waits makes no event any more,
//! and all others may wait for its turn to end.
//!
//! A thread of the whole replay looks at the alarms now and then, and asks whoever is due to stop. What that
//! means is for the domain's own thread to see.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bis_trace::{
    event::{Event, EventKind},
    types::EventSeq,
};

use crate::task::Interrupt;

/// How long a search lasts before anybody asks what it has come to, and how often it is asked from then on.
const SEARCH_MIN: Duration = Duration::from_secs(2);

/// How long a task may compute on its way to a pause without a stop: this, and so many times what the way
/// took when it was recorded (a breakpoint with a condition in a tight loop takes ten or twenty times what
/// the loop does).
const COMPUTED_MIN: Duration = Duration::from_secs(2);
const COMPUTED_TIMES: u32 = 300;

/// A task that was stopped that often since it was asked before, at the place or by what the search itself
/// does to memory, has done something else than to compute: each stop takes what ten thousands of
/// instructions do.
const STOPS_MIN: u64 = 100;

/// When one domain is to be stopped.
#[derive(Debug)]
pub(crate) struct Alarm {
    pub interrupt: Interrupt,
    began: Instant,
    /// What it follows may be wrong, and a pause is looked for: until when, in milliseconds since `began`; 0:
    /// it is not so.
    trial: AtomicU64,
    search: AtomicU64,
}

impl Alarm {
    /// `began`: when the whole replay has. A domain's thread does not look at the clock for that: it may be a
    /// fault there (`modes.rs`), and there are hundreds of domains.
    pub(crate) fn new(began: Instant) -> Alarm {
        let [trial, search] = [0; 2].map(AtomicU64::new);
        Alarm { interrupt: Interrupt::default(), began, trial, search }
    }

    fn ms(&self, at: Instant) -> u64 {
        let ms = at.saturating_duration_since(self.began).as_millis();
        u64::try_from(ms).unwrap_or(u64::MAX).max(1)
    }

    fn is_over(&self, due: &AtomicU64) -> bool {
        let due = due.load(Ordering::Relaxed);
        due != 0 && self.ms(Instant::now()) >= due
    }

    /// A guess is followed until then; none: no more.
    pub(crate) fn set_trial(&self, until: Option<Instant>) {
        self.trial.store(until.map_or(0, |until| self.ms(until)), Ordering::Relaxed);
    }

    /// A search has begun, or goes on after somebody has asked.
    pub(crate) fn begin_search(&self) {
        self.search.store(self.ms(Instant::now() + SEARCH_MIN), Ordering::Relaxed);
    }

    pub(crate) fn end_search(&self) {
        self.search.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_trial_over(&self) -> bool {
        self.is_over(&self.trial)
    }

    pub(crate) fn is_search_long(&self) -> bool {
        self.is_over(&self.search)
    }

    /// Asks the domain to stop, if it is time.
    pub(crate) fn look(&self) {
        if self.is_trial_over() || self.is_search_long() {
            self.interrupt.ask();
        }
    }
}

/// What a search for a pause has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    pub pause: EventSeq,
    /// How often the task was stopped for it.
    pub stops: u64,
    /// For how long it has had a processor in all its life.
    pub ran: Duration,
}

/// What a task's way took when it was recorded. A log of hooked calls is an event that is written when the
/// next one is: the time that it says is that of the way, too.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Recorded {
    hooked_ms: u64,
}

impl Recorded {
    /// This event is done.
    pub(crate) fn done(&mut self, event: &Event) {
        let is_hooked = matches!(event.kind, EventKind::Hooked { .. });
        self.hooked_ms = if is_hooked { self.hooked_ms + event.lapse.ms() } else { 0 };
    }

    /// The way to the next one.
    pub(crate) fn to(self, next: &Event) -> Duration {
        Duration::from_millis(self.hooked_ms + next.lapse.ms())
    }
}

/// How long searches are waited for.
#[derive(Default, Debug)]
pub(crate) struct Patience {
    /// What the search had come to when it was last seen to come to anything.
    before: Option<Progress>,
}

impl Patience {
    /// Notes what a search has come to. True: it is in vain. `recorded`: what the way took when it was
    /// recorded, with all that the task may have waited on it.
    pub(crate) fn note_progress(&mut self, now: Progress, recorded: Duration) -> bool {
        let goes_on = |before: &Progress| before.pause == now.pause && now.stops < before.stops + STOPS_MIN;
        let Some(before) = self.before.filter(goes_on) else {
            self.before = Some(now);
            return false;
        };
        now.ran.saturating_sub(before.ran) >= COMPUTED_MIN + recorded * COMPUTED_TIMES
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::{event::Lapse, types::Tid};

    use super::*;

    fn progress(pause: u64, stops: u64, secs: u64) -> Progress {
        Progress { pause: EventSeq(pause), stops, ran: Duration::from_secs(secs) }
    }

    #[test]
    fn only_who_computes_and_comes_nowhere_is_given_up() {
        let mut patience = Patience::default();
        let recorded = Duration::from_millis(20);
        assert!(!patience.note_progress(progress(7, 0, 100), recorded), "the first time that it is asked");
        assert!(!patience.note_progress(progress(7, 1, 107), recorded), "a long way takes longer");
        assert!(patience.note_progress(progress(7, 1, 108), recorded));
        assert!(!patience.note_progress(progress(7, STOPS_MIN, 110), recorded), "it was stopped often");
        assert!(!patience.note_progress(progress(7, STOPS_MIN, 117), recorded));
        assert!(!patience.note_progress(progress(9, STOPS_MIN, 140), recorded), "another search");
        assert!(
            !patience.note_progress(progress(9, STOPS_MIN, 140), recorded),
            "it has waited for a processor"
        );
    }

    #[test]
    fn the_time_of_a_log_is_that_of_the_way_behind_it() {
        let event = |ms: u64, kind: EventKind| Event {
            seq: EventSeq(1),
            tid: Tid(1),
            kind,
            ticks: None,
            sums: Vec::new(),
            lapse: Lapse::fitting(ms),
        };
        let hooked = |ms| event(ms, EventKind::Hooked { alone: false, log: Vec::new().into() });
        let end = |ms| event(ms, EventKind::End);
        let mut recorded = Recorded::default();
        assert_eq!(recorded.to(&end(3)), Duration::from_millis(3));
        recorded.done(&hooked(5_000));
        recorded.done(&hooked(200));
        assert_eq!(recorded.to(&end(3)), Duration::from_millis(5_203));
        recorded.done(&end(7));
        assert_eq!(recorded.to(&end(3)), Duration::from_millis(3));
    }

    #[test]
    fn an_alarm_asks_when_it_is_due() {
        let alarm = Alarm::new(Instant::now());
        alarm.look();
        assert!(!alarm.interrupt.is_asked());
        alarm.begin_search();
        alarm.look();
        assert!(!alarm.is_search_long() && !alarm.interrupt.is_asked());
        alarm.set_trial(Some(Instant::now()));
        std::thread::sleep(Duration::from_millis(2));
        alarm.look();
        assert!(alarm.is_trial_over() && alarm.interrupt.take());
        alarm.set_trial(None);
        alarm.end_search();
        alarm.look();
        assert!(!alarm.interrupt.is_asked());
    }
}
