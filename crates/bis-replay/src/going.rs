//! A task on its way to an event's place: how that is looked for, and how far the search has come.

use std::time::{Duration, Instant};

use bis_trace::types::Registers;

use crate::{seek::Seek, task::Hooked};

/// What a task on its way to an event's place has with it.
#[derive(Clone, Debug)]
pub(crate) struct Going {
    /// The log that its hooks have to consume on the way.
    pub hooked: Option<Hooked>,
    pub search: Search,
}

/// How the place is found.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// It stops by itself there.
    None,
    /// By its state.
    State {
        /// Set when the search has begun.
        seek: Option<Seek>,
        /// Places that fit, and are not it.
        skips: u32,
        /// How often it was there in another state, for a report.
        passed: u64,
        /// How often it was stopped for the search, there or elsewhere.
        stops: u64,
        /// In which state it was there last.
        looked_at: Option<Box<Registers>>,
        in_vain: InVain,
    },
    /// By its count.
    Count {
        /// It has as many counts as it can be stopped at exactly.
        is_near: bool,
        /// It was asked to stop. Asked again between a count and its trap, it would not know the trap.
        is_asked: bool,
        seek: Option<Seek>,
    },
}

/// Arrivals one after another at a place where all is right but memory that only a sum is known of, and that
/// is the same each time: something on the stack that does not repeat (what an xsave left), and would be
/// looked for for ever.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InVain {
    sum: u64,
    times: u32,
    /// When it was first there so, or soon afterwards.
    since: Option<Instant>,
    /// How often all was right but what lies below the stack's end.
    left: u32,
}

impl InVain {
    /// So many do not come about by a program that waits for that memory to change: seconds of them. Nor do
    /// fewer where much memory is looked at each time, which take this long and so many times as long as the
    /// way took when it was recorded.
    const TIMES_MAX: u32 = 20_000;
    const TIMES_MIN: u32 = 512;
    const TAKES_MIN: Duration = Duration::from_secs(10);
    const TAKES_TIMES: u32 = 50;

    /// It was there again; `sum`, if nothing else was wrong.
    pub(crate) fn count(&mut self, sum: Option<u64>) {
        match sum {
            Some(sum) if sum == self.sum => self.times += 1,
            sum => (self.sum, self.times, self.since) = (sum.unwrap_or(0), 0, None),
        }
    }

    /// It was there again, and only what lies below the stack's end was not as it was. True: that was so too
    /// often to wait for it, and says little.
    pub(crate) fn count_left(&mut self) -> bool {
        const LEFT_MAX: u32 = 2_000;
        self.left += 1;
        self.left > LEFT_MAX
    }

    /// Looks at the clock, which begins with the first look. True: nothing has changed for so long that it is
    /// given up. `recorded`: what the way took when it was recorded, where the trace says it.
    pub(crate) fn look_at_clock(&mut self, recorded: Option<Duration>) -> bool {
        // A look at the clock may be a fault.
        if self.times == 0 || !self.times.is_multiple_of(Self::TIMES_MIN / 2) {
            return self.times >= Self::TIMES_MAX;
        }
        let took = self.since.get_or_insert_with(Instant::now).elapsed();
        let is_long = |recorded| took >= Self::TAKES_MIN + recorded * Self::TAKES_TIMES;
        self.times >= Self::TIMES_MAX || self.times >= Self::TIMES_MIN && recorded.is_some_and(is_long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn often(times: u32, since: Duration) -> InVain {
        let since = Instant::now().checked_sub(since);
        InVain { sum: 7, times, since, left: 0 }
    }

    #[test]
    fn memory_that_stays_as_it_is_is_waited_for_only_so_often_or_so_long() {
        let (short, long) = (Duration::from_secs(1), Duration::from_mins(2));
        let recorded = Some(Duration::from_secs(1));
        assert!(often(InVain::TIMES_MAX, short).look_at_clock(recorded));
        assert!(!often(InVain::TIMES_MAX - 1, long).look_at_clock(recorded), "no look at the clock");
        assert!(often(InVain::TIMES_MIN, long).look_at_clock(recorded));
        assert!(
            !often(InVain::TIMES_MIN, long).look_at_clock(Some(Duration::from_secs(3))),
            "it took long when recorded"
        );
        assert!(!often(InVain::TIMES_MIN, short).look_at_clock(recorded));
        assert!(!often(InVain::TIMES_MIN / 2, long).look_at_clock(recorded));
        assert!(!often(InVain::TIMES_MIN, long).look_at_clock(None));
        let mut other = often(InVain::TIMES_MIN, long);
        other.count(Some(8));
        assert!(!other.look_at_clock(recorded) && other.since.is_none());
    }
}
