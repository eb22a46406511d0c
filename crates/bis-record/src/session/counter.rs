//! What the time stamp counter is, told by a clock of the kernel.
//!
//! In a domain that is closed (`hooks/clock.rs`) `rdtsc` faults, and each time costs two switches. A hook can
//! ask CLOCK_MONOTONIC_RAW there, by a system call that costs a hundredth: where the kernel takes that clock
//! from the counter, it is the same in nanoseconds, and nobody corrects it. How far the counter goes in a
//! nanosecond is measured from the begin of the recording on, at times when an `rdtsc` faults anyway. What
//! was measured over some time holds for as long a time again, so that the error stays as small as that of
//! reading both clocks at once. Where it was once not as foretold, the kernel's clock is another one, and all
//! instructions fault.
//!
//! A counter that is told so lies some hundred nanoseconds behind ([`BEHIND`]): never in front of one that
//! was read, and never behind one that a fault has told before, because a fault takes longer than that.

use bis_tracee::sys::{self, BothClocks};

/// So far behind the counter is what a hook says, in nanoseconds.
const BEHIND: u64 = 500;

/// Two clocks that were read at once have been read within this time, in nanoseconds.
const AT_ONCE: u64 = 200;

/// The clocks agree if what one foretells of the other is not further away than this, in nanoseconds.
const AGREES: u64 = 500;

/// Less time than this says nothing of how fast the counter is, in nanoseconds.
const SHORTEST: u64 = 10_000_000;

/// The longest time for which a measure holds, in nanoseconds.
const LONGEST: u64 = 10_000_000_000;

/// How the counter is told by the clock; by default for no time at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What is said at `clock`.
    pub counter: u64,
    /// A time of CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub clock: u64,
    /// How far the counter goes in a nanosecond, in 2^-32.
    pub rate: u64,
    /// For how long this holds, in nanoseconds.
    pub lasts: u64,
}

impl Told {
    /// What is said at this time of the clock; none: it does not hold then.
    pub fn at(&self, clock: u64) -> Option<u64> {
        let since = clock.checked_sub(self.clock).filter(|since| *since < self.lasts)?;
        Some(self.counter + scaled(since, self.rate))
    }
}

fn scaled(nanoseconds: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(nanoseconds) * u128::from(rate)) >> 32).unwrap_or(u64::MAX)
}

/// What is known of the counter and the clock.
#[derive(Debug)]
pub struct Counter {
    first: BothClocks,
    told: Option<Told>,
    agrees: bool,
}

impl Counter {
    /// From when on the counter is measured.
    pub fn begin(first: BothClocks) -> Self {
        Self { first, told: None, agrees: true }
    }

    /// Both were read at once, now: how the counter is told from here on. None: that is not known.
    pub fn measure(&mut self, now: BothClocks) -> Option<Told> {
        let since = now.clock.checked_sub(self.first.clock).filter(|since| *since >= SHORTEST)?;
        let went = now.counter.checked_sub(self.first.counter)?;
        let rate = u64::try_from((u128::from(went) << 32) / u128::from(since)).ok()?;
        let is_at_once = |it: &BothClocks| it.width <= scaled(AT_ONCE, rate);
        if !is_at_once(&self.first) {
            // Nothing comes of that begin.
            self.first = now;
            return None;
        }
        if !is_at_once(&now) {
            return None;
        }
        if let Some(foretold) = self.told.and_then(|told| told.at(now.clock)) {
            let is = now.counter.saturating_sub(scaled(BEHIND, rate));
            self.agrees &= foretold.abs_diff(is) <= scaled(AGREES, rate);
        }
        let counter = now.counter.saturating_sub(scaled(BEHIND, rate));
        let told = Told { counter, clock: now.clock, rate, lasts: since.min(LONGEST) };
        self.told = self.agrees.then_some(told);
        self.told
    }

    /// As [`Counter::measure`], by the clocks of this machine.
    pub fn measure_now(&mut self) -> Option<Told> {
        self.agrees.then(|| self.measure(sys::both_clocks())).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGA: u64 = 1_000_000_000;

    /// Both clocks `at` nanoseconds behind some begin; the counter goes 2.6 times as fast.
    fn read(at: u64) -> BothClocks {
        BothClocks { counter: 77_000 + at * 26 / 10, clock: 5 + at, width: 100 }
    }

    #[test]
    fn a_measure_holds_for_as_long_as_it_took() {
        let mut counter = Counter::begin(read(0));
        assert_eq!(counter.measure(read(SHORTEST - 1)), None, "too short a time");
        let told = counter.measure(read(GIGA)).expect("a measure");
        assert_eq!(told.lasts, GIGA);
        let said = told.at(read(2 * GIGA - 1).clock).expect("it holds");
        let is = read(2 * GIGA - 1).counter;
        assert!(said < is && is - said < scaled(BEHIND, told.rate) + 3, "{said} for {is}");
        assert_eq!(told.at(read(2 * GIGA).clock), None);
        assert_eq!(told.at(read(GIGA - 1).clock), None, "the time before");
        let told = counter.measure(read(100 * GIGA)).expect("another one");
        assert_eq!(told.lasts, LONGEST);
    }

    #[test]
    fn clocks_that_were_not_read_at_once_say_nothing() {
        let slow = |at| BothClocks { width: 2000, ..read(at) };
        let mut counter = Counter::begin(slow(0));
        assert_eq!(counter.measure(read(GIGA)), None, "the first ones were not");
        assert_eq!(counter.measure(slow(2 * GIGA)), None);
        assert_eq!(counter.measure(read(3 * GIGA)).map(|told| told.lasts), Some(2 * GIGA));
    }

    #[test]
    fn a_clock_that_is_not_the_counter_is_never_asked_again() {
        let mut counter = Counter::begin(read(0));
        assert!(counter.measure(read(GIGA)).is_some());
        let moved = |at| BothClocks { counter: read(at).counter + 2000, ..read(at) };
        assert_eq!(counter.measure(moved(GIGA + GIGA / 2)), None);
        assert_eq!(counter.measure(read(3 * GIGA)), None);
    }
}
