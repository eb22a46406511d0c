//! What is done about a signal that has come: decisions, which know the task's place in a few words and touch
//! nothing. `signals.rs` and `stash.rs` carry them out.

use bis_trace::types::Signal;
use bis_tracee::{Status, siginfo::Disposition};

/// Where a signal has found its task.
#[derive(Clone, Copy, Default, Debug)]
pub struct Arrival {
    /// In a call, which it has interrupted.
    pub in_call: bool,
    /// Where the task's last event has left it, and the signal was to come before the task goes on.
    pub is_expected: bool,
    /// It had been kept back, and has been brought here because its place is here.
    pub is_due: bool,
    /// It is a timer's, and a handler has only just returned.
    pub is_storm: bool,
    /// While the task is stopped, others could do what it would see.
    pub others_go_on: bool,
    /// Others see the process's memory when it has ended.
    pub is_outlived: bool,
}

/// What is done about a signal that has found its task outside of a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The call that it has interrupted gets its event, and the handler is called.
    EndCall,
    /// Its handler is called here.
    Deliver,
    /// It waits for a place where its handler can be called.
    Keep,
    /// The task goes on as if nothing had come.
    Ignore,
    /// The task goes on to a place before it stops or ends: what it has computed comes before what others do
    /// meanwhile.
    Later,
    /// The kernel stops the task's process, at once.
    Stop,
    /// The kernel ends the task's process, and an event says so.
    End,
}

impl Arrival {
    /// Does no event describe the place where the signal has found the task?
    pub fn is_midway(&self) -> bool {
        !self.in_call && !self.is_expected && !self.is_due
    }

    pub fn answer(&self, disposition: Disposition) -> Answer {
        match disposition {
            Disposition::Handler if self.in_call => Answer::EndCall,
            Disposition::Handler if self.is_expected && !self.is_storm => Answer::Deliver,
            Disposition::Handler => Answer::Keep,
            Disposition::Ignore => Answer::Ignore,
            Disposition::Stop if self.is_midway() && self.others_go_on => Answer::Later,
            Disposition::Stop => Answer::Stop,
            Disposition::Fatal if self.is_midway() && self.is_outlived => Answer::Later,
            Disposition::Fatal => Answer::End,
        }
    }
}

/// What is done about a signal that a task meets on its way to the signal stop of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// The task does not notice it.
    Drop,
    /// It waits for its place.
    Keep,
    /// It goes first: the kernel gets it back.
    Give,
}

impl Meeting {
    /// `is_carrier`: it was sent by us, for a signal that is kept already. The others are as in [`Arrival`].
    pub fn of(disposition: Disposition, is_carrier: bool, others_go_on: bool, is_outlived: bool) -> Meeting {
        match disposition {
            Disposition::Ignore => Meeting::Drop,
            Disposition::Handler if is_carrier => Meeting::Drop,
            Disposition::Handler => Meeting::Keep,
            // While the task is stopped, others would go on, and no event says where it is yet. It stops at
            // its next place.
            Disposition::Stop if others_go_on => Meeting::Keep,
            Disposition::Fatal if is_outlived && is_carrier => Meeting::Drop,
            Disposition::Fatal if is_outlived => Meeting::Keep,
            Disposition::Stop | Disposition::Fatal => Meeting::Give,
        }
    }
}

/// How a signal that was kept back comes to its task, which stands at a place for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Not at all: the process has changed its mind, and ignores it now.
    Drop,
    /// It is brought to the task again, and stops or ends the process in the call that it is about to make:
    /// that says where the task is.
    Carry,
    /// It is sent again, and the task goes on to its end at once, without the call that it was about to make.
    End,
    /// The task is brought to its signal stop, and its handler is called.
    Bring,
}

impl Delivery {
    pub fn of(disposition: Disposition, is_outlived: bool) -> Delivery {
        match disposition {
            Disposition::Ignore => Delivery::Drop,
            Disposition::Stop => Delivery::Carry,
            Disposition::Fatal if is_outlived => Delivery::Carry,
            Disposition::Fatal => Delivery::End,
            Disposition::Handler => Delivery::Bring,
        }
    }
}

/// What the next report means of a task that is on its way to the signal stop of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnTheWay {
    Arrived,
    /// It has met another signal.
    Meets,
    /// SIGCONT interrupts its target before it arrives.
    GoesOn,
    /// It was killed, or has stopped with its process: the signal is tried again later.
    Fails,
}

impl OnTheWay {
    /// `to`: the signal whose stop the task is brought to. `found`: the one that has come with the report,
    /// if that is of one, and whether it was sent by us.
    pub fn of(report: Option<Status>, to: Signal, found: Option<(Signal, bool)>) -> OnTheWay {
        match (report, found) {
            (Some(Status::Signal(_)), Some((signal, true))) if signal == to => OnTheWay::Arrived,
            (Some(Status::Signal(_)), _) => OnTheWay::Meets,
            (Some(Status::Trap), _) => OnTheWay::GoesOn,
            _ => OnTheWay::Fails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDWAY: Arrival = Arrival {
        in_call: false,
        is_expected: false,
        is_due: false,
        is_storm: false,
        others_go_on: false,
        is_outlived: false,
    };

    #[test]
    fn a_handler_is_called_where_an_event_describes_the_place() {
        assert_eq!(MIDWAY.answer(Disposition::Handler), Answer::Keep);
        let in_call = Arrival { in_call: true, ..MIDWAY };
        assert_eq!(in_call.answer(Disposition::Handler), Answer::EndCall);
        let expected = Arrival { is_expected: true, ..MIDWAY };
        assert_eq!(expected.answer(Disposition::Handler), Answer::Deliver);
    }

    #[test]
    fn a_timer_that_fires_as_fast_as_its_handler_returns_waits_for_the_program() {
        let storm = Arrival { is_expected: true, is_storm: true, ..MIDWAY };
        assert_eq!(storm.answer(Disposition::Handler), Answer::Keep);
        let in_call = Arrival { in_call: true, is_storm: true, ..MIDWAY };
        assert_eq!(in_call.answer(Disposition::Handler), Answer::EndCall);
    }

    #[test]
    fn a_stop_waits_for_a_place_only_where_others_would_go_on_and_there_is_none() {
        let watched = Arrival { others_go_on: true, ..MIDWAY };
        assert_eq!(MIDWAY.answer(Disposition::Stop), Answer::Stop);
        assert_eq!(watched.answer(Disposition::Stop), Answer::Later);
        for place in [
            Arrival { in_call: true, ..watched },
            Arrival { is_expected: true, ..watched },
            Arrival { is_due: true, ..watched },
        ] {
            assert!(!place.is_midway());
            assert_eq!(place.answer(Disposition::Stop), Answer::Stop);
        }
    }

    #[test]
    fn what_ends_the_process_waits_for_a_place_only_where_others_see_its_memory() {
        let seen = Arrival { others_go_on: true, is_outlived: true, ..MIDWAY };
        assert_eq!(seen.answer(Disposition::Fatal), Answer::Later);
        assert_eq!(Arrival { is_due: true, ..seen }.answer(Disposition::Fatal), Answer::End);
        assert_eq!(Arrival { in_call: true, ..seen }.answer(Disposition::Fatal), Answer::End);
    }

    #[test]
    fn what_ends_the_process_ends_it_anywhere() {
        for place in [MIDWAY, Arrival { in_call: true, others_go_on: true, ..MIDWAY }] {
            assert_eq!(place.answer(Disposition::Fatal), Answer::End);
            assert_eq!(place.answer(Disposition::Ignore), Answer::Ignore);
        }
    }

    #[test]
    fn a_signal_met_on_the_way_is_kept_once() {
        assert_eq!(Meeting::of(Disposition::Handler, false, false, false), Meeting::Keep);
        assert_eq!(Meeting::of(Disposition::Handler, true, false, false), Meeting::Drop);
        assert_eq!(Meeting::of(Disposition::Ignore, false, true, false), Meeting::Drop);
        assert_eq!(Meeting::of(Disposition::Stop, false, true, false), Meeting::Keep);
        assert_eq!(Meeting::of(Disposition::Stop, false, false, false), Meeting::Give);
        assert_eq!(Meeting::of(Disposition::Fatal, true, true, false), Meeting::Give);
        assert_eq!(Meeting::of(Disposition::Fatal, false, true, true), Meeting::Keep);
        assert_eq!(Meeting::of(Disposition::Fatal, true, true, true), Meeting::Drop);
    }

    #[test]
    fn what_was_kept_back_comes_as_if_it_came_now() {
        for is_outlived in [false, true] {
            let of = |disposition| Delivery::of(disposition, is_outlived);
            assert_eq!(of(Disposition::Ignore), Delivery::Drop);
            assert_eq!(of(Disposition::Stop), Delivery::Carry);
            assert_eq!(of(Disposition::Handler), Delivery::Bring);
        }
        assert_eq!(Delivery::of(Disposition::Fatal, false), Delivery::End);
        assert_eq!(Delivery::of(Disposition::Fatal, true), Delivery::Carry, "others see its memory");
    }

    #[test]
    fn a_task_arrives_by_the_signal_that_was_sent_to_bring_it_and_by_no_other() {
        let (to, other) = (Signal(10), Signal(12));
        let report = |signal| Some(Status::Signal(signal));
        let of = |report, found| OnTheWay::of(report, to, found);
        assert_eq!(of(report(to), Some((to, true))), OnTheWay::Arrived);
        assert_eq!(of(report(to), Some((to, false))), OnTheWay::Meets, "somebody else has sent it");
        assert_eq!(of(report(other), Some((other, true))), OnTheWay::Meets, "that was to bring it before");
    }

    #[test]
    fn a_signal_that_finds_no_task_is_tried_again() {
        let of = |report| OnTheWay::of(report, Signal(10), None);
        assert_eq!(of(Some(Status::Trap)), OnTheWay::GoesOn);
        let ends = [Status::Exit(9), Status::Exited(0), Status::Killed(Signal::KILL)];
        for report in ends.into_iter().chain([Status::GroupStop(Signal::STOP), Status::Seccomp]) {
            assert_eq!(of(Some(report)), OnTheWay::Fails, "{report:?}");
        }
        assert_eq!(of(None), OnTheWay::Fails);
    }
}
