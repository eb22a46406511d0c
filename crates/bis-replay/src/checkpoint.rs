//! Checkpoints: a replica that is put aside, and can be gone on with any number of times.
//!
//! A checkpoint is a copy of the process, which has one task and does not run, with all else as plain data.
//! Its other threads are made when somebody goes on from it. The kernel copies memory when it is written, so
//! a checkpoint costs what has changed since.
//!
//! What a fork of the kernel's does not copy is dealt with here: memory that the program has asked not to be
//! forked (its advice is taken back for a moment), and shared objects, of which each checkpoint, and each
//! replica made of one, has a copy of its own. A replica that shares memory with others is kept together with
//! them ([`crate::company`]).

use std::collections::BTreeMap;

use bis_trace::{
    event::DomainEntry,
    types::{Addr, EventSeq, Registers, Tid},
};
use bis_tracee::{Memory, Stopped, TraceeError, handover::Parked, identification, maps, remote::Remote};

use crate::{
    apply::{copy_process, make_thread},
    company::{self, Company},
    error::{Halt, ReplayError},
    objects::{self, Objects},
    process::Process,
    replica::{Cursor, Replica},
    space::{DO_FORK, DONT_FORK, KEEP_ON_FORK, Source, Space, WIPE_ON_FORK},
    task::Task,
    traps::Traps,
    world::World,
};

/// See the module's text. The thread that has made it must use it, and drop it.
#[derive(Debug)]
pub struct Checkpoint<'t> {
    kept: Kept<'t>,
    company: Company<'t>,
}

/// One replica that is put aside, without the objects that its process maps: the copy shows those of the
/// replica that it is of.
#[derive(Debug)]
pub(crate) struct Kept<'t> {
    world: &'t World<'t>,
    entry: &'t DomainEntry,
    space: Space,
    tasks: BTreeMap<Tid, Frozen>,
    /// Whose thread the process has.
    leader: Tid,
    slot: Option<Stopped>,
    process: Process,
    traps: Traps,
    cursor: Cursor<'t>,
    core: Option<usize>,
    is_attended: bool,
}

/// A copy of a checkpoint on its way to another thread, which nobody traces. Dropping it ends its process.
#[derive(Debug)]
pub struct Parcel<'t> {
    parked: Parked,
    kept: Kept<'t>,
    company: company::Facts,
}

/// A task that has no thread.
#[derive(Debug)]
struct Frozen {
    task: Task,
    regs: Registers,
    xstate: Vec<u8>,
}

/// Copies the process in whose name `remote` makes calls, with all of its memory.
fn copy_all(remote: &mut Remote<'_>, space: &Space) -> Result<Stopped, TraceeError> {
    let mut advise = |addr: Addr, len: u64, advice: u32| {
        // What it was said of may be gone.
        remote.call(libc::SYS_madvise, [addr.0, len, advice.into(), 0, 0, 0]).map(drop)
    };
    for (addr, len, advice) in &space.fork_advice {
        match *advice {
            DONT_FORK => advise(*addr, *len, DO_FORK)?,
            WIPE_ON_FORK => advise(*addr, *len, KEEP_ON_FORK)?,
            _ => {}
        }
    }
    let copy = copy_process(remote)?;
    advise_again(remote, space)?;
    Ok(copy)
}

/// What the program has said about forks holds again.
fn advise_again(remote: &mut Remote<'_>, space: &Space) -> Result<(), TraceeError> {
    for (addr, len, advice) in &space.fork_advice {
        remote.call(libc::SYS_madvise, [addr.0, *len, (*advice).into(), 0, 0, 0])?;
    }
    Ok(())
}

impl<'t> Replica<'t> {
    /// A checkpoint of where the replica stands, and its company. None: it cannot be copied here (all of its
    /// tasks are gone, or something counts one of them that cannot be copied, or the company is on its way);
    /// another place will do.
    ///
    /// # Errors
    /// Where a process is gone, or the machine has no room.
    pub fn checkpoint(&mut self, company: &mut Company<'t>) -> Result<Option<Checkpoint<'t>>, Halt> {
        let Some(company) = company.checkpoint()? else { return Ok(None) };
        Ok(self.keep()?.map(|kept| Checkpoint { kept, company }))
    }

    /// The replica alone.
    pub(crate) fn keep(&mut self) -> Result<Option<Kept<'t>>, Halt> {
        self.traps.disarm(&self.space.memory)?;
        let is_in_event = self.cursor.underway.as_ref().is_some_and(crate::replica::Underway::is_begun);
        let may_copy = !is_in_event || self.tasks.values().all(Task::may_copy);
        let Some(leader) = self.tasks.iter().find(|(_, task)| task.stopped.is_some()).map(|(tid, _)| *tid)
        else {
            return Ok(None);
        };
        if !may_copy {
            return Ok(None);
        }
        let mut tasks = BTreeMap::new();
        for (tid, task) in &self.tasks {
            let Some(frozen) = task.freeze(is_in_event) else { return Ok(None) };
            let stopped = task.stopped()?;
            tasks.insert(*tid, Frozen { task: frozen, regs: stopped.regs()?, xstate: stopped.xstate()? });
        }
        let task = self.tasks.get_mut(&leader).expect("was just found");
        let mut remote = Remote::new(&mut task.stopped)?;
        let copy = copy_all(&mut remote, &self.space)?;
        let process = Process::new(copy.tid(), self.process.living());
        remote.finish()?;
        // The registers are put back by the guard, and a call in progress is none any more.
        let mut slot = Some(copy);
        if !self.space.fork_advice.is_empty() {
            let mut remote = Remote::new(&mut slot)?;
            advise_again(&mut remote, &self.space)?;
            remote.finish()?;
        }
        let memory = Memory::open(process.pid())?;
        let space = Space::new(memory, self.space.inherited());
        Ok(Some(Kept {
            world: self.world,
            entry: self.entry,
            space,
            tasks,
            leader,
            slot,
            process,
            traps: self.traps.clone(),
            cursor: self.cursor.clone(),
            core: self.core,
            is_attended: self.is_attended,
        }))
    }
}

impl<'t> Checkpoint<'t> {
    /// A replica that goes on from here, with a company and shared objects of its own. The checkpoint stays.
    ///
    /// # Errors
    /// Where the machine has no room.
    pub fn resume(&mut self) -> Result<(Replica<'t>, Company<'t>), Halt> {
        let company = self.company.resume()?;
        let replica = self.kept.resume(&company.objects)?;
        Ok((replica, company))
    }

    /// A copy of it, for another thread. None: the replica shares memory with others, which are traced here,
    /// or something counts a task that cannot be copied.
    ///
    /// # Errors
    /// Where the machine has no room.
    pub fn send(&mut self) -> Result<Option<Parcel<'t>>, Halt> {
        let Some(company) = self.company.facts() else { return Ok(None) };
        let tasks = self.kept.tasks.iter().map(|(tid, frozen)| Some((*tid, frozen.copy()?)));
        let Some(tasks) = tasks.collect::<Option<BTreeMap<_, _>>>() else { return Ok(None) };
        let (copy, process, space) = self.kept.copy()?;
        let parked = Parked::park(copy)?;
        let kept = Kept {
            world: self.kept.world,
            entry: self.kept.entry,
            space,
            tasks,
            leader: self.kept.leader,
            slot: None,
            process,
            traps: self.kept.traps.clone(),
            cursor: self.kept.cursor.clone(),
            core: self.kept.core,
            is_attended: self.kept.is_attended,
        };
        Ok(Some(Parcel { parked, kept, company }))
    }

    /// The process that holds it, for a caller that asks what it takes of memory.
    pub fn pid(&self) -> Tid {
        self.kept.process.pid()
    }

    /// The last event that is done where it was made.
    pub fn done(&self) -> EventSeq {
        self.kept.cursor.done.0
    }
}

impl<'t> Parcel<'t> {
    /// The copy is this thread's from now on.
    ///
    /// # Errors
    /// Where its process is gone.
    pub fn take(self) -> Result<Checkpoint<'t>, Halt> {
        let Parcel { parked, mut kept, company } = self;
        let (stopped, _) = parked.seize()?;
        kept.slot = Some(stopped);
        Ok(Checkpoint { kept, company: Company::alone(company) })
    }
}

impl Frozen {
    /// None: what counts it cannot be copied.
    fn copy(&self) -> Option<Frozen> {
        Some(Frozen { task: self.task.freeze(true)?, regs: self.regs, xstate: self.xstate.clone() })
    }
}

impl<'t> Kept<'t> {
    /// The event that comes next, or is half done.
    pub(crate) fn next_event(&self) -> Option<EventSeq> {
        self.cursor.underway.as_ref().map(|underway| underway.event.seq)
    }

    /// A copy of the process, with its one task.
    fn copy(&mut self) -> Result<(Stopped, Process, Space), Halt> {
        let mut remote = Remote::new(&mut self.slot)?;
        let copy = copy_all(&mut remote, &self.space)?;
        let process = Process::new(copy.tid(), self.process.living());
        remote.finish()?;
        let memory = Memory::open(process.pid())?;
        let space = Space::new(memory, self.space.inherited());
        Ok((copy, process, space))
    }

    /// A replica that goes on from here, and maps these objects.
    pub(crate) fn resume(&mut self, objects: &Objects) -> Result<Replica<'t>, Halt> {
        let (copy, process, space) = self.copy()?;
        let mut slot = Some(copy);
        let mut stopped: BTreeMap<Tid, Stopped> = BTreeMap::new();
        let mut remote = Remote::new(&mut slot)?;
        advise_again(&mut remote, &space)?;
        let space = remap(&mut remote, space, objects)?;
        for tid in self.tasks.keys().filter(|tid| **tid != self.leader) {
            stopped.insert(*tid, make_thread(&mut remote)?);
        }
        remote.finish()?;
        let leader = slot.ok_or(TraceeError::Died(process.pid()))?;
        stopped.insert(self.leader, leader);
        let mut tasks = BTreeMap::new();
        for (tid, stopped) in stopped {
            let Some(Frozen { task, regs, xstate }) = self.tasks.get(&tid) else { continue };
            let mut stopped = identification::set(stopped, &space.memory, regs)?;
            stopped.set_xstate(xstate)?;
            let mut task = task.thaw(stopped);
            task.set_regs(regs)?;
            tasks.insert(tid, task);
        }
        let (traps, cursor) = (self.traps.clone(), self.cursor.clone());
        let mut traps = traps;
        traps.standing = in_copy(self.traps.standing, &self.tasks, &tasks);
        traps.last = in_copy(self.traps.last, &self.tasks, &tasks);
        let is_attended = self.is_attended;
        Ok(Replica {
            world: self.world,
            entry: self.entry,
            space,
            tasks,
            process,
            traps,
            cursor,
            core: self.core,
            is_attended,
        })
    }
}

/// Where a task stands, which has another id in a copy.
fn in_copy(
    place: Option<(Tid, Addr)>,
    frozen: &BTreeMap<Tid, Frozen>,
    tasks: &BTreeMap<Tid, Task>,
) -> Option<(Tid, Addr)> {
    let (ours, rip) = place?;
    let (tid, _) = frozen.iter().find(|(_, frozen)| frozen.task.ours == ours)?;
    Some((tasks.get(tid)?.ours, rip))
}

/// Lets mappings of shared objects show these copies of them.
fn remap(remote: &mut Remote<'_>, mut space: Space, objects: &Objects) -> Result<Space, Halt> {
    if !space.shows_objects() {
        return Ok(space);
    }
    let of_objects = |source: &Source| matches!(source, Source::Object(_));
    for (_, fd) in space.open.extract_if(|source, _| of_objects(source)).collect::<Vec<_>>() {
        remote.must("close a shared object", libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
    }
    for mapping in maps::read(remote.tid())? {
        let Some(object) = objects::object_of(&mapping.name) else { continue };
        let file = objects.file(object).map_err(|source| ReplayError::io("find a shared object", source))?;
        let fd = match space.open.get(&Source::Object(object)) {
            Some(fd) => *fd,
            None => space.open_shared(remote, object, &file)?,
        };
        let flags = u64::from((libc::MAP_SHARED | libc::MAP_FIXED).cast_unsigned());
        let args = [mapping.start.0, mapping.len(), mapping.prot.into(), flags, fd.arg(), mapping.offset];
        remote.must("map a copy of a shared object", libc::SYS_mmap, args)?;
    }
    Ok(space)
}
