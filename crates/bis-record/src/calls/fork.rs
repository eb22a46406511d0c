//! clone, fork and vfork: what is asked for, and how the child of a fork is handed over to a supervisor of
//! its own. (How new tasks come into the domain is in `born.rs`.)

use bis_syscalls::Handler;
use bis_trace::{
    event::{MemWrite, Meta},
    types::{Addr, DomainId, EventSeq, Registers, Tid},
};
use bis_tracee::{TraceeError, handover::Parked};

use super::args::{CLONE_VFORK, CLONE_VM};
use crate::{
    births::Birth,
    crew::Crew,
    error::{RecordError, Result},
    hooks::Inherited,
    process::Process,
    space::AddressSpace,
    task::{ForkChild, InCall, Task, Traits, stack_pointer},
};

const CLONE_FILES: u64 = libc::CLONE_FILES as u64;
const CLONE_PIDFD: u64 = libc::CLONE_PIDFD as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
const CLONE_PARENT_SETTID: u64 = libc::CLONE_PARENT_SETTID as u64;
const CLONE_CHILD_CLEARTID: u64 = libc::CLONE_CHILD_CLEARTID as u64;
const CLONE_NEWPID: u64 = libc::CLONE_NEWPID as u64;
const CLONE_CHILD_SETTID: u64 = libc::CLONE_CHILD_SETTID as u64;

/// The arguments of clone and its relatives, whichever was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneArgs {
    pub flags: u64,
    /// Where the process descriptor goes.
    pidfd: Addr,
    child_tid: Addr,
    parent_tid: Addr,
}

impl CloneArgs {
    pub fn birth(&self) -> Birth {
        let has = |flag: u64| self.flags & flag != 0;
        Birth {
            is_here: has(CLONE_VM),
            is_thread: has(CLONE_THREAD),
            shares_fds: has(CLONE_FILES),
            is_awaited: has(CLONE_VFORK),
            is_init: has(CLONE_NEWPID),
        }
    }

    /// The word that the kernel clears when the child ends, or null.
    pub fn cleared_word(&self) -> Addr {
        if self.flags & CLONE_CHILD_CLEARTID != 0 { self.child_tid } else { Addr::NULL }
    }

    /// Where the kernel writes the child's number in the child's memory.
    pub fn told_child(&self) -> Option<Addr> {
        (self.flags & CLONE_CHILD_SETTID != 0).then_some(self.child_tid)
    }

    /// Where it writes to its maker's memory: the child's number, and its process descriptor.
    pub fn told_maker(&self) -> impl Iterator<Item = Addr> {
        let number = (self.flags & CLONE_PARENT_SETTID != 0).then_some(self.parent_tid);
        let descriptor = (self.flags & CLONE_PIDFD != 0).then_some(self.pidfd);
        number.into_iter().chain(descriptor)
    }
}

/// A forked child, with all that it has from its parent.
#[derive(Debug)]
pub struct Fork {
    pub id: DomainId,
    pub parked: Parked,
    /// The slot of the session's cores.
    pub core: usize,
    pub ppid: Tid,
    pub parent: DomainId,
    /// The parent's event that tells of the child.
    pub at: EventSeq,
    /// What the kernel has written to the child's memory alone.
    pub writes: Vec<MemWrite>,
    pub clear_tid: Addr,
    pub traits: Traits,
    pub space: AddressSpace,
    pub hooks: Option<Inherited>,
}

impl Process {
    /// Hands the child of a fork to a supervisor of its own.
    pub fn send_off(&mut self, tid: Tid, child: ForkChild, at: EventSeq) -> Result<()> {
        let ForkChild { stopped, domain: id, writes, clear_tid, traits } = child;
        self.session.mail.join(stopped.tid(), id);
        let parked = match Parked::park(stopped) {
            Ok(parked) => parked,
            Err(TraceeError::Died(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let parent = self.task(tid)?;
        let ppid = parent.pid;
        let is_other = |task: &&Task| self.session.options.checksum.is_some() && task.tid != tid;
        let others: Vec<Addr> = self.tasks.values().filter(is_other).filter_map(stack_pointer).collect();
        self.learn_heap();
        let space = self.space.for_child(others);
        for range in space.shared().iter() {
            self.session.registry.add(range.object, id);
        }
        for object in space.shared().objects() {
            self.session.writer.meta(&Meta::Share { object, domain: id })?;
        }
        self.session.views.inherit(self.id, id);
        let hooks = self.hooks_for_child();
        let core = self.enter_core(None);
        let parent = self.id;
        let fork = Fork { id, parked, core, ppid, parent, at, writes, clear_tid, traits, space, hooks };
        self.session.plant(fork);
        Ok(())
    }
}

impl Crew {
    pub fn clone_args(&self, call: &InCall) -> CloneArgs {
        let [first, _, parent_tid, child_tid, ..] = call.entry.args();
        let (parent_tid, child_tid) = (Addr(parent_tid), Addr(child_tid));
        match call.handler {
            // One argument for two purposes, which exclude each other.
            Some(Handler::Clone) => CloneArgs { flags: first, pidfd: parent_tid, child_tid, parent_tid },
            Some(Handler::Vfork) => CloneArgs { flags: CLONE_VM | CLONE_VFORK, ..CloneArgs::default() },
            Some(Handler::Clone3) => {
                // struct clone_args: flags, pidfd, child_tid, parent_tid, ...
                let word = |index: u64| self.memory.read_u64(Addr(first + 8 * index)).unwrap_or(0);
                let addr = |index: u64| Addr(word(index));
                CloneArgs { flags: word(0), pidfd: addr(1), child_tid: addr(2), parent_tid: addr(3) }
            }
            _ => CloneArgs::default(),
        }
    }

    /// A vfork has returned whose event is long written.
    pub fn check_silent(&mut self, tid: Tid, call: &InCall, raw: &Registers) -> Result<()> {
        let result = call.made.map(|made| i64::from(made.0));
        let predicted =
            self.tasks.contains_key(&tid) && result == Some(raw.result()) && raw.rsp == call.entry.rsp;
        if !predicted {
            let what = format!("returned {} from a vfork that had a child", raw.result());
            return Err(RecordError::Unsupported { tid, what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(flags: u64) -> CloneArgs {
        CloneArgs { flags, pidfd: Addr(1), child_tid: Addr(2), parent_tid: Addr(3) }
    }

    #[test]
    fn a_thread_is_a_task_of_its_makers_domain_and_nobody_waits_for_it() {
        // As the C library makes one.
        let thread = with(0x003d_0f00).birth();
        assert!(thread.is_here && thread.is_thread && thread.shares_fds);
        assert!(!thread.is_awaited && !thread.is_init);
    }

    #[test]
    fn a_fork_begins_a_domain_and_a_vfork_does_not() {
        let (fork, vfork) = (with(libc::SIGCHLD as u64).birth(), with(CLONE_VM | CLONE_VFORK).birth());
        assert!(!fork.is_here && !fork.shares_fds && !fork.is_awaited);
        assert!(vfork.is_here && vfork.is_awaited && !vfork.is_thread && !vfork.shares_fds);
    }

    #[test]
    fn a_namespace_is_begun_by_a_process_of_its_own() {
        let first = with(CLONE_NEWPID | libc::SIGCHLD as u64).birth();
        assert!(first.is_init && !first.is_here);
    }

    #[test]
    fn the_kernel_writes_what_it_is_asked_for() {
        let none = with(0);
        assert_eq!(
            (none.cleared_word(), none.told_child(), none.told_maker().count()),
            (Addr::NULL, None, 0)
        );
        let all = with(CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | CLONE_PARENT_SETTID | CLONE_PIDFD);
        assert_eq!((all.cleared_word(), all.told_child()), (Addr(2), Some(Addr(2))));
        assert_eq!(all.told_maker().collect::<Vec<_>>(), [Addr(3), Addr(1)]);
    }
}
