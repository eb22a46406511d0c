//! What a task has reported, and its supervisor has not looked at. A value.

use bis_trace::types::Tid;
use bis_tracee::Status;

/// A stop, or the end, that the supervisor has heard of and not handled yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    status: Option<Status>,
    /// The child of a report that came and was not handled before the task's end was reported.
    newborn: Option<Tid>,
}

impl Report {
    pub fn status(&self) -> Option<Status> {
        self.status
    }

    pub fn is_there(&self) -> bool {
        self.status.is_some()
    }

    /// The task has reported this. It may do so before the last report was handled, when it is killed.
    pub fn hear(&mut self, status: Status) {
        if let Some(Status::NewTask(child)) = self.status.replace(status) {
            self.newborn = Some(child);
        }
    }

    /// What the task has reported is this, after all: who has looked at it leaves it to be handled.
    pub fn leave(&mut self, status: Status) {
        self.status = Some(status);
    }

    /// The task's report is handled now.
    pub fn take(&mut self) -> Option<Status> {
        self.status.take()
    }

    /// What the task has reported is looked at, and nothing else is to be done about it.
    pub fn be_done(&mut self) {
        self.status = None;
    }

    /// Has the task made a child of which nobody has heard yet?
    pub fn has_newborn(&self) -> bool {
        self.newborn.is_some() || matches!(self.status, Some(Status::NewTask(_)))
    }

    /// The task ends: the child that it had just made.
    pub fn take_newborn(&mut self) -> Option<Tid> {
        self.newborn.take()
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Signal;

    use super::*;

    const KILLED: Status = Status::Killed(Signal(9));

    #[test]
    fn a_child_is_not_forgotten_where_its_maker_is_killed_at_once() {
        let mut it = Report::default();
        it.hear(Status::NewTask(Tid(7)));
        assert!(it.has_newborn());
        it.hear(KILLED);
        assert_eq!(it.take(), Some(KILLED));
        assert!(it.has_newborn());
        assert_eq!((it.take_newborn(), it.take_newborn()), (Some(Tid(7)), None));
        assert!(!it.has_newborn());
    }

    #[test]
    fn the_child_of_a_report_that_is_handled_is_known() {
        let mut it = Report::default();
        it.hear(Status::NewTask(Tid(7)));
        assert_eq!(it.take(), Some(Status::NewTask(Tid(7))));
        it.hear(KILLED);
        assert_eq!(it.take_newborn(), None);
    }

    #[test]
    fn a_report_is_handled_once_or_left_to_be_handled() {
        let mut it = Report::default();
        it.hear(Status::Seccomp);
        it.be_done();
        assert!(!it.is_there());
        it.leave(Status::Trap);
        assert_eq!(it.status(), Some(Status::Trap));
        assert_eq!((it.take(), it.take()), (Some(Status::Trap), None));
    }
}
