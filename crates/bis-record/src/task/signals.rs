//! What there is of signals for a task, between the kernel, which has them, and the program, which sees them.
//! A value.
//!
//! Its parts are the ways of a signal to its handler. Each has a file of its own, and is changed by the steps
//! that are named there.

mod brought;
mod coming;
mod own_mask;
mod timers;
mod undone;

pub use brought::Brought;
pub use coming::Coming;
pub use own_mask::OwnMask;
pub use timers::Timers;
pub use undone::Undone;

use std::mem;

use crate::signals::kept::Stash;

/// See the module's text.
#[derive(Default, Debug)]
pub struct Signals {
    /// Signals with handlers that came in the middle of computation: they are delivered at the next call.
    pub stash: Stash,
    /// How one of these comes to the task.
    pub brought: Brought,
    /// What comes before the task executes anything.
    pub coming: Coming,
    /// The mask that it has, while it runs with another one.
    pub own_mask: OwnMask,
    /// Its calls that were put off for handlers.
    pub undone: Undone,
    /// How its timers' signals follow each other.
    pub timers: Timers,
}

impl Signals {
    /// The task's process is to go on: stops that have not come to the task yet are none any more.
    pub fn drop_stops(&mut self) {
        self.stash.drop_stops();
        self.brought.drop_stop();
    }

    /// The task stands where it stood once: of what was under way here, only the signals that wait are left.
    pub fn begin_again(&mut self) {
        *self = Signals { stash: mem::take(&mut self.stash), ..Signals::default() };
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{Registers, Signal};
    use bis_tracee::siginfo::SigInfo;

    use super::*;
    use crate::signals::kept::Carrier;

    fn info(signal: Signal) -> SigInfo {
        SigInfo([0; 128]).of_signal(signal)
    }

    #[test]
    fn of_a_process_that_goes_on_only_stops_are_dropped() {
        let mut it = Signals::default();
        for signal in [Signal(19), Signal(10)] {
            it.stash.keep(info(signal));
        }
        it.brought.interrupt_call(Signal(20));
        it.drop_stops();
        assert_eq!(it.stash.take_of(Signal(19)), None);
        assert_eq!(it.stash.take_of(Signal(10)), Some(info(Signal(10))));
        assert_eq!(it.brought.take_for_call(), None);
    }

    #[test]
    fn a_task_that_is_set_back_keeps_what_waits_for_it() {
        let mut it = Signals::default();
        it.stash.keep(info(Signal(10)));
        it.brought.send(Carrier::Same(Signal(10)));
        it.coming.give(Signal(10));
        it.coming.expect_at(Registers::default());
        it.own_mask.keep(1);
        it.begin_again();
        assert_eq!(it.brought.carrier(), None);
        assert!(!it.coming.is_any() && !it.own_mask.is_kept());
        assert_eq!(it.stash.first(), Some(&info(Signal(10))));
    }
}
