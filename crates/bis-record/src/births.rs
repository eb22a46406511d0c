//! What is done about a birth: a task has made another one (clone, fork, vfork), or has a new address space
//! (exec). Here it is decided; `born.rs` carries it out.

use bis_tracee::{Resume, Status};

use crate::task::Onward;

/// What kind of task a clone, fork or vfork makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    /// It shares its maker's memory: it is a task of the same domain.
    pub is_here: bool,
    /// It is a thread of its maker's process.
    pub is_thread: bool,
    /// It has its maker's descriptors themselves, not a copy of them.
    pub shares_fds: bool,
    /// Its maker sleeps until it executes a program or ends.
    pub is_awaited: bool,
    /// It is the first of a pid namespace.
    pub is_init: bool,
}

/// What is done about a new task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Child {
    /// It was killed before its first instruction: nobody has seen it but by its number. One that stands at
    /// its end has to be let go.
    Dead { is_at_end: bool },
    /// It joins the domain.
    Here {
        is_thread: bool,
        has_own_fds: bool,
        /// Its first stop is of its own making, and is to be looked at like any other.
        has_reported: bool,
    },
    /// It waits, stopped, until its maker's event is written, and then begins a domain of its own.
    Elsewhere { shares_fds: bool },
}

/// What its maker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// Its call goes on, and its event is written when it returns.
    Returns,
    /// Its event is written now: the child's events come before its call returns.
    Sleeps,
    /// Its event is written now: it was killed in the call, which never returns.
    Dies,
    /// Nothing: it was killed in the call, and its child with it.
    DiesChildless,
}

impl Maker {
    /// How it goes on in its call when the birth has been written.
    pub fn onward(self) -> Onward {
        match self {
            Maker::Returns => Onward::GoesAlone(Resume::Syscall),
            Maker::Sleeps => Onward::Goes(Resume::Syscall),
            Maker::Dies | Maker::DiesChildless => Onward::Stays,
        }
    }
}

/// What is done about a birth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    pub child: Child,
    pub maker: Maker,
    /// Numbers of tasks may be others for the program than for bis from here on.
    pub begins_namespace: bool,
}

impl Birth {
    /// `first`: the child's first stop. `maker_ends`: its maker was killed in the call.
    pub fn plan(self, first: Status, maker_ends: bool) -> Plan {
        if let Status::Exited(_) | Status::Killed(_) | Status::Exit(_) = first {
            let child = Child::Dead { is_at_end: matches!(first, Status::Exit(_)) };
            let maker = if maker_ends { Maker::DiesChildless } else { Maker::Returns };
            return Plan { child, maker, begins_namespace: false };
        }
        let child = if self.is_here {
            let (is_thread, has_own_fds) = (self.is_thread, !self.shares_fds);
            Child::Here { is_thread, has_own_fds, has_reported: first != Status::Trap }
        } else {
            Child::Elsewhere { shares_fds: self.shares_fds }
        };
        let maker = match (maker_ends, self.is_awaited) {
            (true, _) => Maker::Dies,
            (false, true) => Maker::Sleeps,
            (false, false) => Maker::Returns,
        };
        Plan { child, maker, begins_namespace: self.is_init }
    }
}

/// How a task has come out of its exec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exec {
    /// It stands at the exit of the call, in its new address space.
    Done,
    /// It is gone.
    Gone,
    /// It was killed on the way, and is still to end: in a domain of its own that never ran.
    Ending,
}

impl Exec {
    /// `stop`: its first one behind the exec.
    pub fn of(stop: Status) -> Exec {
        match stop {
            Status::Syscall => Exec::Done,
            Status::Exited(_) | Status::Killed(_) => Exec::Gone,
            _ => Exec::Ending,
        }
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Signal;

    use super::*;

    const THREAD: Birth =
        Birth { is_here: true, is_thread: true, shares_fds: true, is_awaited: false, is_init: false };
    const FORK: Birth = Birth { is_here: false, is_thread: false, shares_fds: false, ..THREAD };
    const VFORK: Birth = Birth { is_here: true, is_awaited: true, ..FORK };

    #[test]
    fn a_thread_joins_and_its_makers_event_waits_for_the_return() {
        let Plan { child, maker, begins_namespace } = THREAD.plan(Status::Trap, false);
        assert_eq!(child, Child::Here { is_thread: true, has_own_fds: false, has_reported: false });
        assert_eq!((maker, begins_namespace), (Maker::Returns, false));
    }

    #[test]
    fn a_forked_child_begins_a_domain() {
        let plan = |birth: Birth| birth.plan(Status::Trap, false);
        assert_eq!(plan(FORK).child, Child::Elsewhere { shares_fds: false });
        assert_eq!(plan(FORK).maker, Maker::Returns);
        let shares = plan(Birth { shares_fds: true, ..FORK });
        assert_eq!(shares.child, Child::Elsewhere { shares_fds: true });
        assert!(plan(Birth { is_init: true, ..FORK }).begins_namespace);
    }

    #[test]
    fn a_vforks_event_comes_before_those_of_its_child() {
        let Plan { child, maker, .. } = VFORK.plan(Status::Trap, false);
        assert_eq!(child, Child::Here { is_thread: false, has_own_fds: true, has_reported: false });
        assert_eq!(maker, Maker::Sleeps);
        // Memory of its own does not change that.
        assert_eq!(Birth { is_awaited: true, ..FORK }.plan(Status::Trap, false).maker, Maker::Sleeps);
    }

    #[test]
    fn a_maker_that_was_killed_tells_of_its_child_at_once() {
        for birth in [THREAD, FORK, VFORK] {
            assert_eq!(birth.plan(Status::Trap, true).maker, Maker::Dies);
        }
    }

    #[test]
    fn a_child_that_was_killed_before_it_ran_is_nobodys() {
        let killed = [Status::Exited(0), Status::Killed(Signal::KILL), Status::Exit(9)];
        for (status, is_at_end) in killed.into_iter().zip([false, false, true]) {
            let init = Birth { is_init: true, ..FORK };
            for birth in [THREAD, FORK, VFORK, init] {
                let plan = birth.plan(status, false);
                assert_eq!((plan.child, plan.maker), (Child::Dead { is_at_end }, Maker::Returns));
                assert!(!plan.begins_namespace);
                assert_eq!(birth.plan(status, true).maker, Maker::DiesChildless);
            }
        }
    }

    #[test]
    fn a_signal_that_comes_first_is_looked_at() {
        let Plan { child, .. } = THREAD.plan(Status::Signal(Signal::STOP), false);
        assert_eq!(child, Child::Here { is_thread: true, has_own_fds: false, has_reported: true });
    }

    #[test]
    fn an_exec_is_done_where_its_call_returns() {
        assert_eq!(Exec::of(Status::Syscall), Exec::Done);
        assert_eq!([Status::Exited(0), Status::Killed(Signal::KILL)].map(Exec::of), [Exec::Gone; 2]);
        assert_eq!(Exec::of(Status::Exit(9)), Exec::Ending);
    }
}
