//! Whether signals of timers wait, so that a program comes on between two of their handlers. A value.

use std::mem;

/// What the last calls of a task were, as far as its timers matter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timers {
    /// The task's last event is the return from a handler, between which and the next one it comes on in its
    /// program.
    has_returned: bool,
    /// It has set a timer, and no handler has returned since: nothing fires after that call that had fired
    /// before it.
    has_set: bool,
}

impl Timers {
    /// A call is over; it was the return from a handler, or sets a timer. True: what was kept back, and what
    /// the kernel has meanwhile, waits no longer, because natively it would have come before the call
    /// returned.
    pub fn end_call(&mut self, returns: bool, sets_timer: bool) -> bool {
        let is_last = returns && mem::take(&mut self.has_set);
        self.has_set |= sets_timer;
        self.has_returned = returns && !is_last;
        sets_timer || is_last
    }

    /// Is a timer's signal that comes now to wait, because a handler has only just returned?
    pub fn are_to_wait(&self) -> bool {
        self.has_returned
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_timer_waits_behind_the_return_of_a_handler_until_the_next_call() {
        let mut timers = Timers::default();
        assert!(!timers.are_to_wait());
        assert!(!timers.end_call(true, false));
        assert!(timers.are_to_wait());
        assert!(!timers.end_call(false, false));
        assert!(!timers.are_to_wait());
    }

    #[test]
    fn behind_a_call_that_sets_a_timer_and_the_next_return_nothing_waits() {
        let mut timers = Timers::default();
        assert!(timers.end_call(false, true));
        assert!(!timers.end_call(false, false), "other calls come between");
        assert!(timers.end_call(true, false) && !timers.are_to_wait());
        assert!(!timers.end_call(true, false) && timers.are_to_wait(), "once");
    }

    proptest! {
        /// However calls follow each other: of two returns between which no timer is set, a timer's signal
        /// waits behind the second one.
        #[test]
        fn no_two_returns_in_a_row_let_timers_through(
            calls in prop::collection::vec((any::<bool>(), any::<bool>()), 0..20),
        ) {
            let mut timers = Timers::default();
            let mut is_set = false;
            for (returns, sets_timer) in calls {
                let lets = timers.end_call(returns, sets_timer);
                prop_assert_eq!(lets, sets_timer || returns && is_set);
                prop_assert_eq!(timers.are_to_wait(), returns && !is_set);
                is_set = sets_timer || is_set && !returns;
            }
        }
    }
}
