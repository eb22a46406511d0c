//! Whether a task comes too late for a lock, again and again. A value.
//!
//! One that waits for a lock is woken when somebody gives the lock back. It has its turn later, and the lock
//! may be taken anew by then. Turns end at calls, and a program may make all its calls while it has the lock:
//! then nobody else ever gets it. So a task that finds itself back in its wait without having done anything
//! is to have its turn the next time right where it is woken, before the lock can be taken.

use std::time::{Duration, Instant};

use bis_trace::types::Addr;

/// How often it comes too late before others give way where they wake it.
const TIMES: u32 = 2;

/// How much longer that may become where it does not help: the task may wait for work, of which each piece
/// is short and takes no call.
const TIMES_MAX: u32 = 4096;

/// For how long others are to see who wakes it: one that waits for longer waits for something else than a
/// lock that is taken again and again.
pub const LASTS: Duration = Duration::from_millis(100);

/// How long a task takes at most between two waits for a lock that it has not got, on a machine that does
/// other work, too.
const SHORT: Duration = Duration::from_millis(1);

/// See the module's text.
#[derive(Debug)]
pub struct TooLate {
    /// The futex that it waits for, or has waited for last, and since when.
    futex: Option<(Addr, Instant)>,
    /// When it went on behind that wait, and how many hooked calls there had been.
    went_on: Option<(Instant, u64)>,
    /// How often it has waited for it once more without having done anything.
    times: u32,
    /// How often that is to be before others give way to it.
    limit: u32,
    /// One has, since it waits.
    is_let: bool,
}

impl Default for TooLate {
    fn default() -> TooLate {
        TooLate { futex: None, went_on: None, times: 0, limit: TIMES, is_let: false }
    }
}

impl TooLate {
    /// It is about to wait for this futex, behind so many hooked calls.
    pub fn wait(&mut self, futex: Addr, hooked: u64, now: Instant) {
        let has_done_nothing =
            |(then, before): (Instant, u64)| hooked == before && now.saturating_duration_since(then) < SHORT;
        let is_again = self.is_for(futex) && self.went_on.is_some_and(has_done_nothing);
        if !is_again {
            self.do_other();
        } else if self.is_let {
            (self.times, self.limit) = (0, (2 * self.limit).min(TIMES_MAX));
        } else {
            self.times += 1;
        }
        (self.futex, self.went_on, self.is_let) = (Some((futex, now)), None, false);
    }

    /// It goes on in its program, behind so many hooked calls.
    pub fn go_on(&mut self, hooked: u64, now: Instant) {
        if self.futex.is_some() {
            self.went_on.get_or_insert((now, hooked));
        }
    }

    /// It does something else than to wait for a futex.
    pub fn do_other(&mut self) {
        if self.is_let {
            self.limit = (self.limit / 2).max(TIMES);
        }
        (self.futex, self.went_on, self.times, self.is_let) = (None, None, 0, false);
    }

    /// Does it wait, and is to go on as soon as it is woken?
    pub fn is_so(&self, now: Instant) -> bool {
        let waits = self.went_on.is_none() && self.times >= self.limit;
        waits && self.futex.is_some_and(|(_, since)| now.saturating_duration_since(since) < LASTS)
    }

    /// Those who wait for this futex are woken, and whoever does that gives way. True: to this one, too.
    pub fn let_in(&mut self, woken: Addr, now: Instant) -> bool {
        let is_let = self.is_so(now) && self.is_for(woken);
        self.is_let |= is_let;
        is_let
    }

    fn is_for(&self, futex: Addr) -> bool {
        self.futex.is_some_and(|(for_this, _)| for_this == futex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Addr = Addr(0x1000);
    const OTHER: Addr = Addr(0x2000);
    const MOMENT: Duration = Duration::from_micros(5);

    /// It waits for the lock this often in a row, and has done nothing in between.
    fn again(it: &mut TooLate, times: u32, now: Instant) {
        for _ in 0..times {
            it.go_on(7, now);
            it.wait(LOCK, 7, now + MOMENT);
        }
    }

    #[test]
    fn who_finds_a_lock_taken_again_and_again_is_to_be_let_in() {
        let (mut it, now) = (TooLate::default(), Instant::now());
        it.wait(LOCK, 7, now);
        again(&mut it, TIMES - 1, now);
        assert!(!it.is_so(now) && !it.let_in(LOCK, now));
        again(&mut it, 1, now);
        assert!(it.is_so(now) && !it.let_in(OTHER, now) && it.let_in(LOCK, now));
        assert!(!it.is_so(now + LASTS + MOMENT), "it waits for something else");
        it.go_on(9, now);
        assert!(!it.is_so(now), "it does not wait now");
    }

    #[test]
    fn who_has_made_a_call_or_has_computed_has_not_come_too_late() {
        let (mut it, now) = (TooLate::default(), Instant::now());
        again(&mut it, TIMES, now);
        it.go_on(7, now);
        it.wait(LOCK, 8, now + MOMENT);
        assert!(!it.is_so(now));
        again(&mut it, TIMES - 1, now);
        it.go_on(7, now);
        it.wait(LOCK, 7, now + SHORT);
        assert!(!it.is_so(now));
        again(&mut it, TIMES - 1, now);
        it.do_other();
        again(&mut it, 1, now);
        assert!(!it.is_so(now));
        again(&mut it, TIMES, now);
        it.go_on(7, now);
        it.wait(OTHER, 7, now + MOMENT);
        assert!(!it.is_so(now));
    }

    #[test]
    fn it_goes_on_when_it_does_so_for_the_first_time() {
        let (mut it, now) = (TooLate::default(), Instant::now());
        again(&mut it, TIMES, now);
        it.go_on(7, now);
        it.go_on(7, now + SHORT);
        it.wait(LOCK, 7, now + SHORT + MOMENT);
        assert!(!it.is_so(now), "it has computed, and was stopped meanwhile");
    }

    #[test]
    fn where_it_does_not_help_it_is_tried_less_often_and_where_it_does_more_often() {
        let (mut it, now) = (TooLate::default(), Instant::now());
        it.wait(LOCK, 7, now);
        again(&mut it, TIMES, now);
        assert!(it.let_in(LOCK, now));
        again(&mut it, 2 * TIMES, now);
        assert!(!it.is_so(now));
        again(&mut it, 1, now);
        assert!(it.let_in(LOCK, now));
        it.go_on(7, now);
        it.do_other();
        it.wait(LOCK, 7, now);
        again(&mut it, TIMES, now);
        assert!(it.is_so(now));
    }
}
