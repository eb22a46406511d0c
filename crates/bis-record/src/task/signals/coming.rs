//! Which signals come to a task before it executes anything: one that is given to it as it is resumed, or one
//! that the kernel has for it. A value.

use bis_trace::types::{Registers, Signal};

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coming {
    given: Option<Signal>,
    /// The kernel has one: the task stands where its event has left it, with these registers, and has them
    /// when the signal comes. (Or another thread gets it.)
    expected: Option<Registers>,
}

impl Coming {
    /// The task is to be given this one when it is resumed.
    pub fn give(&mut self, signal: Signal) {
        self.given = Some(signal);
    }

    /// The task is to be given none.
    pub fn withhold(&mut self) {
        self.given = None;
    }

    /// The task is resumed: it is given this one.
    pub fn take_given(&mut self) -> Option<Signal> {
        self.given.take()
    }

    /// Is the task to be given one when it is resumed?
    pub fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// The kernel has one for the task, which stands here.
    pub fn expect_at(&mut self, place: Registers) {
        self.expected = Some(place);
    }

    /// As far as is known, the kernel has none for the task.
    pub fn expect_none(&mut self) {
        self.expected = None;
    }

    /// Has the kernel one for the task?
    pub fn is_expected(&self) -> bool {
        self.expected.is_some()
    }

    /// Where the task stood when the kernel had one for it.
    pub fn expected(&self) -> Option<Registers> {
        self.expected
    }

    /// Does one come before the task executes anything?
    pub fn is_any(&self) -> bool {
        self.is_given() || self.is_expected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_given_once() {
        let mut it = Coming::default();
        it.give(Signal(10));
        assert!(it.is_given() && it.is_any() && !it.is_expected());
        assert_eq!((it.take_given(), it.take_given()), (Some(Signal(10)), None));
        it.give(Signal(10));
        it.withhold();
        assert!(!it.is_any());
    }

    #[test]
    fn a_signal_is_expected_at_one_place() {
        let mut it = Coming::default();
        let place = Registers { rip: 0x1000, ..Registers::default() };
        it.expect_at(place);
        assert!(it.is_expected() && it.is_any() && !it.is_given());
        assert_eq!(it.expected(), Some(place));
        it.expect_none();
        assert!(!it.is_any());
    }

    #[test]
    fn one_that_is_given_leaves_the_expected_one_where_it_is() {
        let mut it = Coming::default();
        it.expect_at(Registers::default());
        it.give(Signal(10));
        it.take_given();
        assert!(it.is_any());
        it.give(Signal(10));
        it.expect_none();
        assert!(it.is_any());
    }
}
