//! clone, fork and vfork: how the child of a fork is handed over to a supervisor of its own. (What is asked
//! for is in `args.rs`, how new tasks come into the domain in `born.rs`.)

use bis_trace::{
    event::{MemWrite, Meta},
    types::{Addr, DomainId, EventSeq, Registers, Tid},
};
use bis_tracee::{TraceeError, handover::Parked};

use super::args::CloneArgs;
use crate::{
    crew::Crew,
    error::{RecordError, Result},
    hooks::Inherited,
    process::Process,
    space::AddressSpace,
    task::{ForkChild, InCall, Task, Traits, stack_pointer},
};

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
        let core = self.core_of_copy();
        let parent = self.id;
        let fork = Fork { id, parked, core, ppid, parent, at, writes, clear_tid, traits, space, hooks };
        self.session.plant(fork);
        Ok(())
    }
}

impl Crew {
    /// What a task asks for that is in a call which makes another.
    pub fn clone_args(&self, call: &InCall) -> CloneArgs {
        CloneArgs::of(&call.entry.call(), &self.memory)
    }

    /// A vfork has returned whose event is long written.
    pub fn check_silent(&mut self, tid: Tid, call: &InCall, raw: &Registers) -> Result<()> {
        let result = call.deed.made().map(|made| i64::from(made.0));
        let predicted =
            self.tasks.contains_key(&tid) && result == Some(raw.result()) && raw.sp() == call.entry.sp();
        if !predicted {
            let what = format!("returned {} from a vfork that had a child", raw.result());
            return Err(RecordError::Unsupported { tid, what });
        }
        Ok(())
    }
}
