//! How often the user gets checkpoints without asking for each: after so many events, or so much time of the
//! recording, at the next event. They are made where the user comes for the first time (`kept.rs`).

use std::time::Duration;

use super::place::Position;

/// How often they are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interval {
    #[default]
    Never,
    Events(u64),
    Time(Duration),
}

/// What a session knows of them.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    pub every: Interval,
    /// Where the last one was made.
    pub last: Moment,
    /// Those that nobody has fetched.
    pub made: Vec<Position>,
}

/// An event, how many events of the process were done then, and when it was recorded.
pub(super) type Moment = (u64, u64, Duration);

impl Intervals {
    pub(super) fn is_on(&self) -> bool {
        self.every != Interval::Never
    }

    /// Is it time for one at this event?
    pub(super) fn is_due(&self, now: Moment) -> bool {
        let last = self.last;
        // Else the user has been here before.
        now.0 > last.0
            && match self.every {
                Interval::Never => false,
                // A program that the process executes counts its own.
                Interval::Events(count) => now.1 < last.1 || now.1 - last.1 >= count,
                Interval::Time(time) => now.2.saturating_sub(last.2) >= time,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_due(every: Interval, last: (u64, u64, u64), now: (u64, u64, u64)) -> bool {
        let moment = |(event, count, seconds)| (event, count, Duration::from_secs(seconds));
        Intervals { every, last: moment(last), made: Vec::new() }.is_due(moment(now))
    }

    #[test]
    fn one_is_due_after_so_many_events_or_so_much_time() {
        let (events, time) = (Interval::Events(10), Interval::Time(Duration::from_secs(5)));
        for (every, now, due) in [
            (events, (120, 29, 90), false),
            (events, (120, 30, 20), true),
            (time, (120, 90, 24), false),
            (time, (120, 21, 25), true),
            (Interval::Never, (120, 90, 90), false),
        ] {
            assert_eq!(is_due(every, (100, 20, 20), now), due, "{every:?} {now:?}");
        }
    }

    #[test]
    fn none_is_due_where_the_user_has_been() {
        assert!(!is_due(Interval::Events(1), (100, 20, 20), (100, 21, 21)));
        assert!(!is_due(Interval::Time(Duration::ZERO), (100, 20, 20), (99, 21, 21)));
    }

    #[test]
    fn a_program_that_is_executed_counts_its_own() {
        assert!(is_due(Interval::Events(10), (100, 20, 20), (101, 1, 20)));
    }
}
