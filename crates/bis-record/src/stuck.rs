//! Whether a domain is stuck: one of its tasks loses its turns at calls, and nobody else does anything
//! meanwhile, of its own domain or of those that it shares memory with. A value.
//!
//! Turns end at calls. A program that makes all its calls while it holds a lock never gives a turn away
//! without it: on a machine, it would be interrupted elsewhere, too. So where nobody gets on, the task is led
//! on for some instructions behind its call, and loses its turn there: for few at first, then for more, in a
//! small share of the time. (The others may as well wait for something that does not come yet: that they do
//! nothing is no proof.)

use std::time::{Duration, Instant};

use bis_trace::types::{Addr, Tid};
use xxhash_rust::xxh3::xxh3_64;

/// What turns that end in a row weigh together before the next one ends elsewhere; and what one weighs that
/// ends at the same call as the last one, or at another.
const ENOUGH: u32 = 12;
const SAME: u32 = 4;
const OTHER: u32 = 1;

/// For how many instructions a task is led on at most: the first time, and at last.
const STEPS: u64 = 16;
const STEPS_LOG2: u32 = 8;

/// Calls that others make in hooks while they only wait: of those that give their turns away, most do not
/// stop.
pub const HOOKED_MIN: u64 = 100;

/// For what share of the time that a domain is stuck its task is led on, and for how long at least.
const SHARE: u32 = 30;
const CREPT_MIN: Duration = Duration::from_millis(2);

/// What that takes at most: a pause, and each instruction.
const PAUSE_MAX: Duration = Duration::from_millis(5);
const STEP_MAX: Duration = Duration::from_micros(10);

/// See the module's text.
#[derive(Debug)]
pub struct Stuck {
    /// Who has lost its turn at a call last, and where it stood then.
    at: Option<(Tid, Addr)>,
    /// What its turns weigh that have ended so in a row.
    weight: u32,
    /// How many calls hooks had made by then; none: it has gone on since.
    hooked: Option<u64>,
    /// Another task has done something since.
    has_moved: bool,
    /// How often other domains had done something by then.
    others: u64,
    /// The task has been led on from there, and not lost its turn since.
    is_tried: bool,
    /// Since when nobody else has.
    since: Instant,
    /// For how many instructions it can be led on until it comes to its next call, as far as that is known.
    reach: Option<u64>,
    /// How long the task was led on since then.
    crept: Duration,
}

impl Stuck {
    pub fn new(now: Instant) -> Stuck {
        Stuck {
            at: None,
            weight: 0,
            hooked: None,
            has_moved: false,
            others: 0,
            is_tried: false,
            reach: None,
            since: now,
            crept: Duration::ZERO,
        }
    }

    /// A task is about to lose its turn behind a call, so many hooked calls having been made, and other
    /// domains having done something so often. For how many instructions it is led on instead; none: it loses
    /// its turn there.
    pub fn lose_turn(&mut self, at: (Tid, Addr), hooked: u64, others: u64, now: Instant) -> Option<usize> {
        let is_by_same = self.at.is_some_and(|before| before.0 == at.0);
        if !is_by_same || self.has_moved || self.others != others {
            (self.weight, self.is_tried, self.reach) = (0, false, None);
            (self.since, self.crept) = (now, Duration::ZERO);
        }
        let more = if self.at == Some(at) { SAME } else { OTHER };
        let may_creep = self.crept < CREPT_MIN + now.saturating_duration_since(self.since) / SHARE;
        (self.at, self.others) = (Some(at), others);
        if self.weight >= ENOUGH && !self.is_tried && may_creep {
            self.is_tried = true;
            return Some(self.draw(now));
        }
        self.weight += more;
        self.lost(hooked);
        None
    }

    /// It has lost its turn.
    pub fn lost(&mut self, hooked: u64) {
        if self.is_tried {
            self.weight += SAME;
        }
        (self.hooked, self.has_moved, self.is_tried) = (Some(hooked), false, false);
    }

    /// What is drawn from is how long it has been stuck, which is another time each time.
    fn draw(&self, now: Instant) -> usize {
        let log2 = ((self.weight - ENOUGH) / SAME).min(STEPS_LOG2);
        let drawn = xxh3_64(&now.saturating_duration_since(self.since).as_nanos().to_le_bytes());
        let most = self.reach.unwrap_or(u64::MAX).min(STEPS << log2);
        usize::try_from(1 + drawn % most).unwrap_or(1)
    }

    /// This task goes on in its program, so many hooked calls having been made.
    pub fn go_on(&mut self, tid: Tid, hooked: u64) {
        if self.at.is_some_and(|(by, _)| by == tid)
            && let Some(before) = self.hooked.take()
        {
            self.has_moved |= hooked.saturating_sub(before) >= HOOKED_MIN;
        }
    }

    /// This task does something else than to wait for others.
    pub fn moves(&mut self, tid: Tid) {
        self.has_moved |= self.at.is_some_and(|(by, _)| by != tid);
    }

    /// The task that was led on has come to another call behind so many instructions.
    pub fn reach(&mut self, steps: usize) {
        self.reach = u64::try_from(steps).ok().filter(|steps| *steps > 0);
    }

    /// A task was led on for this long, for so many instructions at most. (On a busy machine, most of that
    /// time is others'.)
    pub fn count_crept(&mut self, time: Duration, steps: usize) {
        self.crept += time.min(PAUSE_MAX + STEP_MAX * u32::try_from(steps).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Tid = Tid(1);
    const ANOTHER: Tid = Tid(2);
    const CALL: (Tid, Addr) = (BY, Addr(0x1000));
    const MANY: u32 = 1 + ENOUGH / SAME;

    /// The task loses its turn this often in a row, and nobody does anything.
    fn lose(it: &mut Stuck, times: u32, now: Instant) {
        for _ in 0..times {
            it.go_on(BY, 10);
            assert_eq!(it.lose_turn(CALL, 10, 0, now), None);
        }
    }

    #[test]
    fn who_loses_its_turn_at_one_call_again_and_again_is_led_on() {
        let now = Instant::now();
        let mut it = Stuck::new(now);
        lose(&mut it, MANY, now);
        it.go_on(BY, 10);
        let steps = it.lose_turn(CALL, 10, 0, now).expect("it is led on");
        assert!((1..=16).contains(&steps));
        it.reach(1);
        // It has come to another call before it was that far.
        assert_eq!(it.lose_turn((BY, Addr(0x2000)), 10, 0, now), None);
        assert_eq!(it.lose_turn(CALL, 10, 0, now), Some(1), "it is tried again, and does not get there");
    }

    #[test]
    fn who_loses_its_turn_at_many_calls_is_led_on_later() {
        let now = Instant::now();
        let mut it = Stuck::new(now);
        let calls = || (0..).map(|n| (BY, Addr(n)));
        assert!(calls().take(12).all(|call| it.lose_turn(call, 10, 0, now).is_none()));
        assert!(it.lose_turn(CALL, 10, 0, now).is_some());
    }

    #[test]
    fn it_is_led_on_for_more_and_more() {
        let now = Instant::now();
        let mut it = Stuck::new(now);
        lose(&mut it, MANY, now);
        let mut most = 0;
        for n in 0..1000 {
            let then = now + Duration::from_nanos(n);
            most = most.max(it.lose_turn(CALL, 10, 0, then).expect("it is led on"));
            it.lost(10);
        }
        assert!(most > 2048 && most <= 4096, "{most}");
    }

    #[test]
    fn where_others_do_something_nobody_is_stuck() {
        let now = Instant::now();
        let mut it = Stuck::new(now);
        lose(&mut it, MANY, now);
        it.moves(BY);
        it.go_on(ANOTHER, 5000);
        it.moves(ANOTHER);
        lose(&mut it, MANY - 1, now);
        // They have made calls in hooks.
        it.go_on(BY, 10 + HOOKED_MIN);
        lose(&mut it, MANY - 1, now);
        assert_eq!(it.lose_turn(CALL, 10, 1, now), None, "another domain has done something");
        assert_eq!(it.lose_turn(CALL, 10, 0, now), None);
        lose(&mut it, MANY - 2, now);
        assert_eq!(it.lose_turn((ANOTHER, CALL.1), 10, 0, now), None, "another task");
        lose(&mut it, MANY, now);
        it.go_on(BY, 10);
        it.go_on(BY, 5000);
        assert!(it.lose_turn(CALL, 5000, 0, now).is_some(), "those were its own");
    }

    #[test]
    fn a_small_share_of_the_time_is_for_that() {
        let now = Instant::now();
        let mut it = Stuck::new(now);
        lose(&mut it, MANY, now);
        it.count_crept(Duration::from_millis(32), 10_000);
        lose(&mut it, 100, now);
        assert_eq!(it.lose_turn(CALL, 10, 0, now + Duration::from_millis(899)), None);
        assert!(it.lose_turn(CALL, 10, 0, now + Duration::from_millis(901)).is_some());
        // What was done while it was stuck before does not count.
        it.lost(10);
        it.count_crept(Duration::from_secs(1), 1_000_000);
        it.moves(ANOTHER);
        lose(&mut it, MANY - 1, now + Duration::from_secs(1));
        assert!(it.lose_turn(CALL, 10, 0, now + Duration::from_secs(1)).is_some());
    }
}
