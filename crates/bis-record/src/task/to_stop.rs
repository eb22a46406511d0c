//! Why a task is to stop before it goes on in its program: its supervisor has asked for that, its process is
//! stopped, or a stop that was kept back has its place in the next call. A value.

use bis_tracee::{Resume, Status};

/// Is the task to stop in the call that it is about to make, or right behind it? There it gets a stop, or
/// SIGCONT, that was kept back. It is asked to stop each time it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum StopsNext {
    #[default]
    No,
    /// The signal has waited for this place.
    ForKept,
    /// The signal has interrupted that call in its hook.
    ForInterrupting,
}

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ToStop {
    is_asked: bool,
    is_halted: bool,
    next: StopsNext,
}

impl ToStop {
    /// Of a task that begins, or is taken over, whose process is stopped or not.
    pub fn of_process(is_halted: bool) -> ToStop {
        ToStop { is_halted, ..ToStop::default() }
    }

    /// We have asked it to stop.
    pub fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Have we asked it to stop, and has it not stopped for that yet?
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// It stands where it may stop for us. True: we have asked it to.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.is_asked)
    }

    /// Its process is stopped, and it is to stop again: it was taken over, or is to leave a hook first.
    pub fn halt(&mut self) {
        self.is_halted = true;
    }

    pub fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// What was kept back comes in the call that the task is about to make, or right behind it.
    pub fn stop_next(&mut self, why: StopsNext) {
        (self.next, self.is_asked) = (why, true);
    }

    /// Has what was kept back interrupted the call that the task is about to make, in its hook?
    pub fn is_for_interrupting(&self) -> bool {
        self.next == StopsNext::ForInterrupting
    }

    /// What was kept back comes otherwise, or is none any more.
    pub fn do_not_stop_next(&mut self) {
        self.next = StopsNext::No;
    }

    /// It has stopped because we have asked. True: for what was kept back.
    pub fn take_next(&mut self) -> bool {
        std::mem::take(&mut self.next) != StopsNext::No
    }

    /// It is about to be resumed: has the kernel to be asked once more to stop it? Where an event says that
    /// it is (`is_told`), or in its call. A stop that it comes to before makes the kernel forget that it was
    /// asked.
    pub fn is_to_be_asked(&self, how: Resume, is_told: bool) -> bool {
        let is_place = how == Resume::Syscall || how != Resume::Listen && is_told;
        self.is_halted && is_place || self.next != StopsNext::No && how != Resume::Listen
    }

    /// It has reported this, and not stopped with its process: is it still to?
    pub fn is_halted_behind(&self, status: Status) -> bool {
        self.is_halted && status != Status::Trap
    }

    /// It has reported this.
    pub fn report(&mut self, status: Status) {
        self.is_asked &= status != Status::Trap;
        self.is_halted &= !matches!(status, Status::Trap | Status::GroupStop(_));
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Signal;

    use super::*;

    const STOP: Status = Status::GroupStop(Signal(19));
    const OTHER: Status = Status::Signal(Signal(10));

    #[test]
    fn a_task_is_asked_until_it_stops_for_that() {
        let mut it = ToStop::default();
        it.ask();
        it.report(OTHER);
        it.report(STOP);
        assert!(it.is_asked());
        it.report(Status::Trap);
        assert!(!it.is_asked());
        it.ask();
        assert!(it.take_asked() && !it.take_asked());
    }

    #[test]
    fn a_task_of_a_stopped_process_is_asked_to_stop_where_an_event_says_that_it_is() {
        let mut it = ToStop::of_process(true);
        assert!(it.is_to_be_asked(Resume::Cont, true) && !it.is_to_be_asked(Resume::Cont, false));
        assert!(it.is_to_be_asked(Resume::Syscall, false) && !it.is_to_be_asked(Resume::Listen, true));
        it.report(OTHER);
        assert!(it.is_halted());
        it.report(STOP);
        assert_eq!(it, ToStop::default());
    }

    #[test]
    fn a_stop_that_was_kept_back_is_asked_for_each_time_until_it_comes() {
        let mut it = ToStop::default();
        it.stop_next(StopsNext::ForKept);
        assert!(it.is_asked() && !it.is_for_interrupting());
        it.report(OTHER);
        assert!(it.is_to_be_asked(Resume::Cont, false) && !it.is_to_be_asked(Resume::Listen, true));
        it.report(Status::Trap);
        assert!(it.take_next() && !it.take_next());
        it.stop_next(StopsNext::ForInterrupting);
        assert!(it.is_for_interrupting());
        it.do_not_stop_next();
        assert!(!it.take_next() && it.is_asked());
    }

    #[test]
    fn a_task_is_to_stop_with_its_process_until_it_stops_for_us() {
        let mut it = ToStop::default();
        assert!(!it.is_halted_behind(OTHER));
        it.halt();
        assert!(it.is_halted_behind(OTHER) && !it.is_halted_behind(Status::Trap));
    }
}
