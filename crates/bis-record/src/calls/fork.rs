//! clone, fork and vfork: what is asked for, and how the child of a fork is handed over to a supervisor of
//! its own. (How new tasks come into the domain is in `process.rs`.)

use bis_syscalls::Handler;
use bis_trace::{
    event::{MemWrite, Meta},
    types::{DomainId, EventSeq, Registers, Tid},
};
use bis_tracee::{TraceeError, handover::Parked};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    hooks::Inherited,
    space::AddressSpace,
    task::{ForkChild, InCall, Task, Traits, stack_pointer},
};

pub const CLONE_VM: u64 = 0x100;
pub const CLONE_FILES: u64 = 0x400;
pub const CLONE_PIDFD: u64 = 0x1000;
pub const CLONE_VFORK: u64 = 0x4000;
pub const CLONE_THREAD: u64 = 0x1_0000;
pub const CLONE_PARENT_SETTID: u64 = 0x10_0000;
pub const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
pub const CLONE_NEWPID: u64 = 0x2000_0000;
pub const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// The arguments of clone and its relatives, whichever was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneArgs {
    pub flags: u64,
    /// Where the process descriptor goes.
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
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
    pub clear_tid: u64,
    pub traits: Traits,
    pub space: AddressSpace,
    pub hooks: Option<Inherited>,
}

impl Domain {
    pub fn clone_args(&self, call: &InCall) -> CloneArgs {
        let [first, _, parent_tid, child_tid, ..] = call.entry.args();
        match call.handler {
            // One argument for two purposes, which exclude each other.
            Some(Handler::Clone) => CloneArgs { flags: first, pidfd: parent_tid, child_tid, parent_tid },
            Some(Handler::Vfork) => CloneArgs { flags: CLONE_VM | CLONE_VFORK, ..CloneArgs::default() },
            Some(Handler::Clone3) => {
                // struct clone_args: flags, pidfd, child_tid, parent_tid, ...
                let word = |index: u64| self.memory.read_u64(first + 8 * index).unwrap_or(0);
                CloneArgs { flags: word(0), pidfd: word(1), child_tid: word(2), parent_tid: word(3) }
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

    /// Hands the child of a fork to a supervisor of its own.
    pub fn send_off(&mut self, tid: Tid, child: ForkChild, at: EventSeq) -> Result<()> {
        let ForkChild { stopped, domain: id, writes, clear_tid } = child;
        self.session.mail.join(stopped.tid(), id);
        let parked = match Parked::park(stopped) {
            Ok(parked) => parked,
            Err(TraceeError::Died(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let parent = self.task(tid)?;
        let (ppid, traits) = (parent.pid, parent.traits.clone());
        let is_other = |task: &&Task| self.session.options.checksum.is_some() && task.tid != tid;
        let others = self.tasks.values().filter(is_other).filter_map(stack_pointer);
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
