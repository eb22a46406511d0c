//! One replayed address space, and the operations on it that a trace may ask for.
//!
//! Every operation is a system call that the supervisor makes in a task's name. It is also the wall between a
//! trace from a stranger and this machine: what may be asked for is only what is here, with addresses that
//! are the program's own (never the agent's), with bits that are known, on files of the trace or files in
//! memory. Files reach the task by their descriptor in our own process (`/proc/PID/fd/N`), never by a name of
//! the trace.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::File,
    ops::Range,
    os::unix::{ffi::OsStrExt, fs::FileExt},
};

use bis_agent::{
    ARGUMENT_AT,
    hooks::{self, AREA_BASE, AREA_LEN, LOG_BASE, TEXT_BASE, state},
};
use bis_trace::{
    event::{Backing, Effect, MemWrite},
    shared::SharedMappings,
    types::{Addr, Fd, FileId, ObjectId, Tid},
};
use bis_tracee::{
    Memory, TraceeError,
    bulk::Bulk,
    maps, proc,
    remote::{Planned, Remote, Returns, Series},
};

use crate::{
    allowed::{is_harmless, not_own},
    error::{Halt, ReplayError},
    host::Host,
    objects::Mapped,
    ours::ProgramText,
    task::{Hooked, mapped_files},
    world::World,
};

/// What a mapping may need beside the address space: kept files, and shared objects.
type Around<'a> = (&'a World<'a>, &'a dyn Host);

/// Descriptors that a stub keeps open for mappings to come. A second mapping of the same open file is merged
/// with its neighbour by the kernel as it was in the recording, which mremap depends on.
const OPEN_MAX: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    File(FileId),
    Object(ObjectId),
}

/// What a forked domain has of its parent's address space, beside the memory.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// The open descriptors, for mappings.
    pub(crate) open: HashMap<Source, Fd>,
    pub(crate) fork_advice: Vec<(Addr, u64, u32)>,
    pub(crate) text: Option<ProgramText>,
    pub(crate) names: BTreeMap<Tid, Vec<u8>>,
    pub(crate) brk: Option<Addr>,
    pub(crate) hooks: hooks::Places,
    pub(crate) is_told_its_core: bool,
    pub(crate) shared: SharedMappings,
}

/// An address space as its supervisor knows it.
#[derive(Debug)]
pub(crate) struct Space {
    pub memory: Memory,
    /// The task's open descriptors, for mappings.
    pub open: HashMap<Source, Fd>,
    /// What the program has said of ranges (address, length) about forks, in order.
    pub fork_advice: Vec<(Addr, u64, u32)>,
    /// What of it is the program's, where somebody is to be shown that; else nothing is spent on it. It is
    /// fed with events that are read whole (not [`bis_trace::Events::without_ours`]).
    pub text: Option<ProgramText>,
    /// What the tasks have called themselves, where somebody is to be shown that.
    pub names: BTreeMap<Tid, Vec<u8>>,
    /// Where the program's data segment ends, as its last brk has said. Diversions need it, replay does not.
    pub brk: Option<Addr>,
    /// Where the data segment ends by the last brk in the log that hooks are about to consume.
    pub hooked_brk: Option<Addr>,
    /// Of the program's hooks, if it has any.
    pub hooks: hooks::Places,
    /// `cpuid` tells the program which core it is on, and nothing has recorded that.
    pub is_told_its_core: bool,
    /// Which shared objects it maps, where.
    pub shared: SharedMappings,
    /// Those that it has unmapped.
    pub unmapped: HashSet<ObjectId>,
}

/// Why an effect failed, before it is known where it was.
#[derive(Debug)]
pub(crate) enum EffectError {
    /// The trace asks for what it must not have.
    Forbidden(String),
    Failed(ReplayError),
}

impl<E: Into<ReplayError>> From<E> for EffectError {
    fn from(error: E) -> EffectError {
        EffectError::Failed(error.into())
    }
}

/// A range that is to be changed must be the program's own.
fn own(addr: Addr, len: u64) -> Result<(), EffectError> {
    not_own(addr, len).map_or(Ok(()), |why| Err(EffectError::Forbidden(why)))
}

fn protection(prot: u32) -> Result<u64, EffectError> {
    if prot > 7 {
        return Err(EffectError::Forbidden(format!("memory protection {prot:#x} does not exist")));
    }
    Ok(prot.into())
}

const fn flags(flags: i32) -> u64 {
    flags.cast_unsigned() as u64
}

/// What an effect does, for an error message: "failed to ...".
pub(crate) fn name_of(effect: &Effect) -> String {
    match effect {
        Effect::Map { addr, len, backing, .. } => {
            let what = match backing {
                Backing::Anonymous => "memory".into(),
                Backing::Stack => "a stack".into(),
                Backing::File { file, offset } => format!("kept file {file} from {offset:#x}"),
                Backing::Shared { object, offset } => format!("shared object {object} from {offset:#x}"),
            };
            format!("map {len:#x} bytes of {what} at {addr:#x}")
        }
        Effect::Unmap { addr, len } => format!("unmap {len:#x} bytes at {addr:#x}"),
        Effect::Protect { addr, len, prot } => format!("protect {len:#x} bytes at {addr:#x} ({prot})"),
        Effect::Remap { addr, old_len, new_addr, new_len, .. } => {
            format!("move {old_len:#x} bytes at {addr:#x} to {new_len:#x} bytes at {new_addr:#x}")
        }
        Effect::Advise { addr, len, advice } => format!("advise {len:#x} bytes at {addr:#x} ({advice})"),
        Effect::NewObject { object, len, .. } => format!("make shared object {object} of {len:#x} bytes"),
        Effect::WriteObject { object, offset, data } => {
            format!("write {:#x} bytes at {offset:#x} of shared object {object}", data.len())
        }
        Effect::ResizeObject { object, len } => format!("make shared object {object} {len:#x} bytes long"),
        Effect::ClearObject { object, offset, len } => {
            format!("clear {len:#x} bytes at {offset:#x} of shared object {object}")
        }
        Effect::NewTask { tid, .. } => format!("make task {tid}"),
        Effect::SetTask { tid, .. } => format!("set task {tid} back"),
        Effect::Segment { tid, .. } => format!("set the thread-local storage of task {tid}"),
        Effect::Fork { domain, .. } => format!("fork domain {domain}"),
    }
}

/// madvise(2): what decides on the fate of memory in a fork, and what takes it back.
pub(crate) const DONT_FORK: u32 = libc::MADV_DONTFORK.cast_unsigned();
pub(crate) const DO_FORK: u32 = libc::MADV_DOFORK.cast_unsigned();
pub(crate) const WIPE_ON_FORK: u32 = libc::MADV_WIPEONFORK.cast_unsigned();
pub(crate) const KEEP_ON_FORK: u32 = libc::MADV_KEEPONFORK.cast_unsigned();

/// Is this an advice that matters when the process is copied?
fn is_of_forks(advice: u32) -> bool {
    [DONT_FORK, DO_FORK, WIPE_ON_FORK, KEEP_ON_FORK].contains(&advice)
}

impl Space {
    pub(crate) fn new(memory: Memory, inherited: Inherited) -> Space {
        let Inherited { open, fork_advice, text, names, brk, hooks, is_told_its_core, shared } = inherited;
        Space {
            memory,
            open,
            fork_advice,
            text,
            names,
            brk,
            hooked_brk: None,
            hooks,
            is_told_its_core,
            shared,
            unmapped: HashSet::new(),
        }
    }

    /// Does it map memory that others share with it?
    pub(crate) fn shows_objects(&self) -> bool {
        !self.shared.is_empty()
    }

    /// What a copy of the process has of it.
    pub(crate) fn inherited(&self) -> Inherited {
        let Space { open, fork_advice, text, names, .. } = self;
        Inherited {
            open: open.clone(),
            fork_advice: fork_advice.clone(),
            text: text.clone(),
            names: names.clone(),
            brk: self.brk,
            hooks: self.hooks,
            is_told_its_core: self.is_told_its_core,
            shared: self.shared.clone(),
        }
    }

    /// Puts hooked calls where the hooks find them. With `end_stop`, the hook that consumes the last one
    /// stops. `tid` is one of its tasks. It has the files open that hooks map: in the place of their numbers
    /// are its descriptors.
    pub(crate) fn put_log(&self, tid: Tid, hooked: &Hooked, end_stop: bool) -> Result<(), EffectError> {
        let len = hooked.log.len() as u64;
        // Older hooks had somewhat more room for it.
        const ROOM: u64 = AREA_BASE + AREA_LEN - LOG_BASE;
        if len > ROOM {
            return Err(EffectError::Forbidden(format!("the hooks' log has room for {ROOM:#x} bytes")));
        }
        let words = [
            (state::POS, 0),
            (state::END, len),
            (state::REPLAY, u64::MAX),
            (state::ALONE, hooked.alone.into()),
            (state::END_STOP, end_stop.into()),
        ];
        // The words behind stay as the recorder has set them.
        let mut bytes = vec![0u8; usize::try_from(state::COUNTED).unwrap_or(0)];
        for (offset, word) in words {
            let at = usize::try_from(offset).unwrap_or(0);
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
        }
        let descriptor = |(at, file)| {
            let not_open = || EffectError::Forbidden(format!("kept file {file} is not open"));
            let fd = self.descriptor_of(file).ok_or_else(not_open)?;
            Ok((Addr(LOG_BASE + at), fd.arg().to_le_bytes()))
        };
        let descriptors: Vec<_> =
            mapped_files(&hooked.log).map(descriptor).collect::<Result<_, EffectError>>()?;
        let mut pieces = vec![(Addr(AREA_BASE), &*bytes), (Addr(LOG_BASE), &*hooked.log)];
        pieces.extend(descriptors.iter().map(|(addr, word)| (*addr, &word[..])));
        Ok(Bulk::new(&self.memory, tid).write_pieces(&pieces)?)
    }

    /// Does it show this shared object?
    pub(crate) fn shows(&self, object: ObjectId) -> Mapped {
        match () {
            () if self.shared.maps(object) => Mapped::Now,
            () if self.unmapped.contains(&object) => Mapped::NoMore,
            () => Mapped::Never,
        }
    }

    /// Where breakpoints catch a task that is about to execute the program's instruction at this address.
    pub(crate) fn places(&self, addr: Addr) -> Vec<Addr> {
        self.text.as_ref().map_or_else(|| vec![addr], |text| text.places(addr))
    }

    /// Bytes of the log that the hooks have consumed.
    pub(crate) fn log_used(&self) -> Result<u64, TraceeError> {
        self.memory.read_u64(Addr(AREA_BASE + state::POS))
    }

    /// The program's rax at the end of a hook that has stopped.
    pub(crate) fn safepoint_rax(&self) -> Result<u64, TraceeError> {
        self.memory.read_u64(Addr(AREA_BASE + state::SAVED_RAX))
    }

    /// Has the task all of these open?
    pub(crate) fn has_open(&self, sources: &BTreeSet<Source>) -> bool {
        sources.iter().all(|source| self.open.contains_key(source))
    }

    /// The task's own descriptor for a kept file that it has open.
    pub(crate) fn descriptor_of(&self, file: FileId) -> Option<Fd> {
        self.open.get(&Source::File(file)).copied()
    }

    /// The task has all of these open, at once.
    pub(crate) fn open_all(
        &mut self,
        remote: &mut Remote<'_>,
        around: Around<'_>,
        sources: &BTreeSet<Source>,
    ) -> Result<(), EffectError> {
        if sources.len() > OPEN_MAX {
            return Err(EffectError::Forbidden(format!("at most {OPEN_MAX} can be open")));
        }
        let new = sources.iter().filter(|source| !self.open.contains_key(source)).count();
        if self.open.len() + new > OPEN_MAX {
            self.close_all(remote)?;
        }
        for source in sources {
            self.descriptor(remote, around, *source)?;
        }
        Ok(())
    }

    fn close_all(&mut self, remote: &mut Remote<'_>) -> Result<(), EffectError> {
        for (_, fd) in self.open.drain() {
            remote.must("close a file", libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// The task's own descriptor for a file or object.
    fn descriptor(
        &mut self,
        remote: &mut Remote<'_>,
        (world, host): Around<'_>,
        source: Source,
    ) -> Result<Fd, EffectError> {
        if let Some(fd) = self.open.get(&source) {
            return Ok(*fd);
        }
        if self.open.len() >= OPEN_MAX {
            self.close_all(remote)?;
        }
        let (file, mode) = match source {
            Source::File(file) => (world.mappable(file)?, libc::O_RDONLY),
            Source::Object(object) => {
                let file = host.object(object).map_err(|source| ReplayError::io("find it", source))?;
                (file, libc::O_RDWR)
            }
        };
        let fd = self.open_ours(remote, &file, mode)?;
        self.open.insert(source, fd);
        Ok(fd)
    }

    /// Opens a shared object in the task, to be mapped.
    pub(crate) fn open_shared(
        &mut self,
        remote: &mut Remote<'_>,
        object: ObjectId,
        file: &File,
    ) -> Result<Fd, Halt> {
        let fd = self.open_ours(remote, file, libc::O_RDWR).map_err(|error| match error {
            EffectError::Failed(error) => Halt::Failed(error),
            EffectError::Forbidden(why) => Halt::Failed(ReplayError::Machine(why)),
        })?;
        self.open.insert(Source::Object(object), fd);
        Ok(fd)
    }

    /// Opens in the task what we have open.
    fn open_ours(&self, remote: &mut Remote<'_>, file: &File, mode: i32) -> Result<Fd, EffectError> {
        let path = proc::own_fd(file);
        self.memory.write(Addr(ARGUMENT_AT), &[path.as_os_str().as_bytes(), b"\0"].concat())?;
        let args = [ARGUMENT_AT, flags(mode | libc::O_CLOEXEC | libc::O_NOCTTY), 0, 0, 0, 0];
        Ok(Fd::of_arg(remote.must("open a file in the replayed process", libc::SYS_open, args)?))
    }

    /// The call that makes this mapping. What it maps is open.
    fn mapping(
        &mut self,
        world: &World<'_>,
        (addr, len): (Addr, u64),
        prot: u32,
        backing: &Backing,
    ) -> Result<Planned, EffectError> {
        own(addr, len)?;
        let prot = protection(prot)?;
        let fd = source(backing).and_then(|source| self.open.get(&source)).map_or(u64::MAX, |fd| fd.arg());
        let (kind, offset) = match backing {
            Backing::Anonymous | Backing::Stack => {
                (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, 0)
            }
            Backing::File { file, offset } => {
                if addr == Addr(TEXT_BASE) {
                    self.hooks = places_of_hooks(world, *file)?;
                }
                (libc::MAP_PRIVATE | libc::MAP_NORESERVE, *offset)
            }
            Backing::Shared { offset, .. } => (libc::MAP_SHARED, *offset),
        };
        let args = [addr.0, len, prot, flags(kind | libc::MAP_FIXED), fd, offset];
        Ok(Planned { nr: libc::SYS_mmap, args, returns: Returns::This(addr.0) })
    }

    /// The call that is all of an effect ([`is_single_call`]). What it maps is open.
    fn single_call(&mut self, world: &World<'_>, effect: &Effect) -> Result<Planned, EffectError> {
        let (addr, len, nr, how) = match *effect {
            Effect::Map { addr, len, prot, ref backing } => {
                return self.mapping(world, (addr, len), prot, backing);
            }
            Effect::Unmap { addr, len } => (addr, len, libc::SYS_munmap, 0),
            Effect::Protect { addr, len, prot } => (addr, len, libc::SYS_mprotect, protection(prot)?),
            _ => unreachable!("an effect that is not a single call"),
        };
        own(addr, len)?;
        Ok(Planned { nr, args: [addr.0, len, how, 0, 0, 0], returns: Returns::This(0) })
    }

    /// Carries out effects of which each is a single call ([`is_single_call`]), with few stops. Where one
    /// fails: which.
    pub(crate) fn change_together(
        &mut self,
        remote: &mut Remote<'_>,
        around: Around<'_>,
        effects: &[&Effect],
    ) -> Result<(), (usize, EffectError)> {
        let mapped =
            |effect: &&Effect| if let Effect::Map { backing, .. } = effect { source(backing) } else { None };
        let first = effects.iter().position(|effect| mapped(effect).is_some()).unwrap_or(0);
        let sources: BTreeSet<Source> = effects.iter().filter_map(mapped).collect();
        self.open_all(remote, around, &sources).map_err(|error| (first, error))?;
        let mut calls = Vec::with_capacity(effects.len());
        for (index, effect) in effects.iter().enumerate() {
            calls.push(self.single_call(around.0, effect).map_err(|error| (index, error))?);
        }
        let series = remote.series(&self.memory, &calls).map_err(|error| (0, error.into()))?;
        let Series { made, result, .. } = series;
        if let Some(call) = calls.get(made) {
            let error = remote.check(name_of_call(call.nr), result).map_err(EffectError::from);
            let error = error.and_then(|found| expect_at(Addr(call.args[0]), found));
            return error.map_err(|error| (made, error));
        }
        for (index, effect) in effects.iter().enumerate() {
            self.settle(remote, effect).map_err(|error| (index, error))?;
        }
        Ok(())
    }

    /// Carries out an effect on the address space that is more than a single call; objects and new tasks are
    /// others' business.
    pub(crate) fn change(&mut self, remote: &mut Remote<'_>, effect: &Effect) -> Result<(), EffectError> {
        match *effect {
            Effect::Remap { addr, old_len, new_addr, new_len, keep } => {
                own(addr, old_len)?;
                own(new_addr, new_len)?;
                remap(remote, &(addr..addr + old_len), &(new_addr..new_addr + new_len), keep)?;
            }
            Effect::Advise { addr, len, advice } => {
                own(addr, len)?;
                if !is_harmless(advice.into()) {
                    return Err(EffectError::Forbidden(format!("advice {advice} is not one of replay's")));
                }
                remote.must("advise memory", libc::SYS_madvise, [addr.0, len, advice.into(), 0, 0, 0])?;
                if is_of_forks(advice) {
                    self.fork_advice.push((addr, len, advice));
                }
            }
            Effect::Map { .. } | Effect::Unmap { .. } | Effect::Protect { .. } => {
                unreachable!("an effect that is a single call")
            }
            Effect::NewObject { .. }
            | Effect::WriteObject { .. }
            | Effect::ResizeObject { .. }
            | Effect::ClearObject { .. }
            | Effect::NewTask { .. }
            | Effect::SetTask { .. }
            | Effect::Segment { .. }
            | Effect::Fork { .. } => unreachable!("not an effect on an address space"),
        }
        self.settle(remote, effect)
    }

    /// An effect is carried out: what is shown no more need not be open.
    fn settle(&mut self, remote: &mut Remote<'_>, effect: &Effect) -> Result<(), EffectError> {
        for object in self.shared.change(effect) {
            self.unmapped.insert(object);
            if let Some(fd) = self.open.remove(&Source::Object(object)) {
                remote.must("close a shared object", libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
            }
        }
        Ok(())
    }

    /// Puts bytes into the program's memory.
    pub(crate) fn put(&self, addr: Addr, bytes: &[u8]) -> Result<(), EffectError> {
        own(addr, bytes.len() as u64)?;
        Ok(self.memory.write(addr, bytes)?)
    }

    /// Puts bytes into the program's memory that no trace asks for.
    pub(crate) fn put_own(&self, addr: Addr, bytes: &[u8]) -> Result<(), Halt> {
        self.put(addr, bytes).map_err(|error| match error {
            EffectError::Failed(error) => Halt::Failed(error),
            EffectError::Forbidden(why) => Halt::Failed(ReplayError::Machine(why)),
        })
    }

    /// Puts all of these into the program's memory, in order.
    pub(crate) fn put_all(&self, writes: &[MemWrite]) -> Result<(), EffectError> {
        writes.iter().try_for_each(|write| own(write.addr, write.data.len() as u64))?;
        Ok(self.memory.write_all(writes)?)
    }
}

/// Moves memory, or gives it another length. What was one mapping in the recording may be several here:
/// whether the kernel makes one of two neighbours depends on what of them was written before which fork.
fn remap(
    remote: &mut Remote<'_>,
    from: &Range<Addr>,
    to: &Range<Addr>,
    keep: bool,
) -> Result<(), EffectError> {
    let tid = remote.tid();
    let is_moved = to.start != from.start;
    let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let how = match (is_moved, keep) {
        (false, _) => 0,
        (true, false) => moves,
        (true, true) => moves | libc::MREMAP_DONTUNMAP,
    };
    let mut make = |from: &Range<Addr>, to: &Range<Addr>| {
        let args = [from.start.0, from.end - from.start, to.end - to.start, flags(how), to.start.0, 0];
        remote.must("move memory", libc::SYS_mremap, args)
    };
    let is_several = |error: &TraceeError| matches!(error, TraceeError::Os { source, .. } if source.raw_os_error() == Some(libc::EFAULT));
    match make(from, to) {
        Err(error) if is_several(&error) => {}
        found => return expect_at(to.start, found?),
    }
    // What it is shorter by is gone; what it is longer by belongs to the last of them.
    let (from, gone) = match from.end - from.start > to.end - to.start {
        true => (from.start..from.start + (to.end - to.start), from.start + (to.end - to.start)..from.end),
        false => (from.clone(), from.end..from.end),
    };
    for mapping in maps::read(tid)?.iter().filter(|m| m.start < from.end && from.start < m.end) {
        let part = mapping.start.max(from.start)..mapping.end.min(from.end);
        let is_last = part.end == from.end;
        if is_moved || is_last {
            let start = to.start + (part.start - from.start);
            let end = if is_last { to.end } else { start + (part.end - part.start) };
            expect_at(start, make(&part, &(start..end))?)?;
        }
    }
    if !gone.is_empty() {
        remote.must("unmap memory", libc::SYS_munmap, [gone.start.0, gone.end - gone.start, 0, 0, 0, 0])?;
    }
    Ok(())
}

/// Where a replay must know its way in the trace's hooks. Their text, their table of calls and what cpuid
/// answered are the trace's own.
fn places_of_hooks(world: &World<'_>, file: FileId) -> Result<hooks::Places, EffectError> {
    let mut image = vec![0; hooks::Places::SEEN];
    let read = world.mappable(file)?.read_exact_at(&mut image, 0);
    let places = read.ok().and_then(|()| hooks::Places::of(&image));
    places.ok_or_else(|| ReplayError::OtherHooks.into())
}

/// Is such an effect a single call?
pub(crate) fn is_single_call(effect: &Effect) -> bool {
    matches!(effect, Effect::Map { .. } | Effect::Unmap { .. } | Effect::Protect { .. })
}

/// What has to be open for such a mapping.
fn source(backing: &Backing) -> Option<Source> {
    match *backing {
        Backing::Anonymous | Backing::Stack => None,
        Backing::File { file, .. } => Some(Source::File(file)),
        Backing::Shared { object, .. } => Some(Source::Object(object)),
    }
}

/// What a call is to do, for messages.
fn name_of_call(nr: i64) -> &'static str {
    match nr {
        libc::SYS_munmap => "unmap memory",
        libc::SYS_mprotect => "change the protection of memory",
        _ => "map memory",
    }
}

fn expect_at(addr: Addr, found: u64) -> Result<(), EffectError> {
    if addr == Addr(found) {
        return Ok(());
    }
    Err(EffectError::Forbidden(format!("memory for {addr:#x} came to be at {found:#x}")))
}

impl EffectError {
    /// Did the task die while it was worked on?
    pub(crate) fn is_death(&self) -> bool {
        matches!(self, EffectError::Failed(ReplayError::Tracee(TraceeError::Died(_))))
    }
}
