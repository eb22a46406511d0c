//! How long a task has been ready while more urgent ones had their turns. A value.

use std::time::{Duration, Instant};

/// How long a task is ready at most without a turn, while more urgent ones have theirs.
const PASSED_OVER_MAX: Duration = Duration::from_millis(100);

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PassedOver {
    /// Since when it has been ready, and more urgent ones have had their turns.
    since: Option<Instant>,
    /// That was so for too long: it is the most urgent one until its turn is over.
    is_lifted: bool,
}

impl PassedOver {
    /// Does the task wait for a turn now?
    pub fn note(&mut self, waits: bool, now: Instant) {
        if !waits {
            *self = PassedOver::default();
            return;
        }
        let since = *self.since.get_or_insert(now);
        self.is_lifted |= now - since > PASSED_OVER_MAX;
    }

    pub fn is_lifted(&self) -> bool {
        self.is_lifted
    }

    /// Has it been ready for too long, at the least since this moment?
    pub fn is_for_long(&self, at_least: Instant, now: Instant) -> bool {
        now.saturating_duration_since(self.since.unwrap_or(at_least)) > PASSED_OVER_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_nanos(1);

    #[test]
    fn a_task_that_is_passed_over_for_long_is_lifted_until_it_has_had_its_turn() {
        let begin = Instant::now();
        let late = begin + PASSED_OVER_MAX;
        let mut it = PassedOver::default();
        it.note(true, begin);
        assert!(!it.is_lifted());
        it.note(true, late);
        assert!(!it.is_lifted(), "not for longer than that yet");
        it.note(true, late + MOMENT);
        assert!(it.is_lifted());
        it.note(true, late + PASSED_OVER_MAX);
        assert!(it.is_lifted());
        it.note(false, late);
        assert_eq!(it, PassedOver::default());
    }

    #[test]
    fn a_task_waits_from_when_it_was_first_seen_to_wait() {
        let begin = Instant::now();
        let mut it = PassedOver::default();
        assert!(!it.is_for_long(begin, begin + PASSED_OVER_MAX));
        assert!(it.is_for_long(begin, begin + PASSED_OVER_MAX + MOMENT));
        it.note(true, begin + MOMENT);
        it.note(true, begin + 2 * MOMENT);
        assert!(!it.is_for_long(begin, begin + PASSED_OVER_MAX + MOMENT));
        assert!(it.is_for_long(begin, begin + PASSED_OVER_MAX + 2 * MOMENT));
    }
}
