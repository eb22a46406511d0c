//! What a call does to another task, or to its own process, beside what its registers and memory say. A
//! value.

use bis_trace::{
    event::MemWrite,
    types::{Addr, DomainId, Tid},
};
use bis_tracee::{Stopped, address_limit::Limit};

use crate::task::Traits;

#[derive(Default, Debug)]
pub enum Deed {
    #[default]
    None,
    /// It has made a task, and has not returned.
    Birth(Birth),
    /// The limit of its address space that a process is to have in the program's eyes.
    Limit(Tid, Limit),
    /// The cores that another task is to have in the program's eyes, as a bit mask, if the kernel would let
    /// this one ask for some.
    Cores(Tid, Vec<u8>),
}

#[derive(Debug)]
pub struct Birth {
    /// The task, as its maker calls it: the result of the call.
    name: Tid,
    /// It has memory of its own, and no supervisor yet.
    child: Option<Box<ForkChild>>,
}

/// The child of a fork, from its making to its handover.
#[derive(Debug)]
pub struct ForkChild {
    pub stopped: Stopped,
    pub domain: DomainId,
    pub writes: Vec<MemWrite>,
    pub clear_tid: Addr,
    pub traits: Traits,
}

impl Deed {
    /// The call has made a task that its maker calls by this name.
    pub fn made_task(name: Tid, child: Option<ForkChild>) -> Deed {
        Deed::Birth(Birth { name, child: child.map(Box::new) })
    }

    /// The task that it has made.
    pub fn made(&self) -> Option<Tid> {
        match self {
            Deed::Birth(birth) => Some(birth.name),
            _ => None,
        }
    }

    /// The child that is to have a supervisor of its own now.
    pub fn take_child(&mut self) -> Option<ForkChild> {
        match self {
            Deed::Birth(birth) => birth.child.take().map(|child| *child),
            _ => None,
        }
    }

    pub fn limit(&self) -> Option<(Tid, Limit)> {
        match self {
            Deed::Limit(pid, limit) => Some((*pid, *limit)),
            _ => None,
        }
    }

    pub fn cores(&self) -> Option<(Tid, &[u8])> {
        match self {
            Deed::Cores(tid, mask) => Some((*tid, mask)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child() -> ForkChild {
        ForkChild {
            stopped: Stopped::adopt(Tid(8)),
            domain: DomainId(2),
            writes: Vec::new(),
            clear_tid: Addr::NULL,
            traits: Traits::default(),
        }
    }

    #[test]
    fn a_child_is_handed_over_once_and_its_name_stays() {
        let mut deed = Deed::made_task(Tid(7), Some(child()));
        assert_eq!(deed.take_child().map(|child| child.domain), Some(DomainId(2)));
        assert!(deed.take_child().is_none());
        assert_eq!(deed.made(), Some(Tid(7)));
    }

    #[test]
    fn a_call_does_one_thing_to_another_task() {
        let cores = Deed::Cores(Tid(7), vec![1]);
        assert_eq!(cores.cores(), Some((Tid(7), &[1][..])));
        assert!(cores.made().is_none() && cores.limit().is_none());
        assert!(Deed::default().cores().is_none());
    }
}
