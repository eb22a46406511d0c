//! The calls that change the address space. Their effects are what replay carries out; the kernel has chosen
//! the addresses already.

use std::{
    fs::{self, File, Metadata},
    ops::Range,
    os::{
        linux::fs::MetadataExt,
        unix::{ffi::OsStrExt, fs::FileTypeExt},
    },
    path::Path,
    sync::Arc,
};

use bis_syscalls::{Call, may_block, row};
use bis_trace::{
    event::{Backing, Effect, MemWrite, OUTSIDE, Outcome},
    shared::{Move, SharedRange},
    types::{Addr, Fd, ObjectId, PAGE, Tid, prot},
};
use bis_tracee::{maps, proc, sys};

use super::compilers::is_archive;
use crate::{
    calls::{Entry, Exit, Look},
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    hooks::NewText,
    process::Process,
    session::Session,
    space::{
        AddressSpace, HeapChange, Key, View, content_within, key_of_mapping, open_mapped, stack_floor,
        stack_limit, stack_limit_or_most, without,
    },
    task::InCall,
};

const MAP_SHARED: u64 = libc::MAP_SHARED as u64;
const MAP_SHARED_VALIDATE: u64 = libc::MAP_SHARED_VALIDATE as u64;
const MAP_TYPE: u64 = libc::MAP_TYPE as u64;
pub(super) const MAP_FIXED: u64 = libc::MAP_FIXED as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const MAP_GROWSDOWN: u64 = libc::MAP_GROWSDOWN as u64;
pub(super) const MAP_FIXED_NOREPLACE: u64 = linux_raw_sys::general::MAP_FIXED_NOREPLACE as u64;

const PROT_WRITE: u64 = libc::PROT_WRITE as u64;
pub(super) const PROT_GROWSDOWN: u64 = libc::PROT_GROWSDOWN as u64;

pub(super) const MADV_DONTNEED: u64 = libc::MADV_DONTNEED as u64;
pub(super) const MADV_REMOVE: u64 = libc::MADV_REMOVE as u64;
pub(super) const MADV_FREE: u64 = libc::MADV_FREE as u64;

/// The advices that change what memory shows, or what a child inherits: REMOVE, DONTFORK, DOFORK, WIPEONFORK,
/// KEEPONFORK, DONTNEED_LOCKED, GUARD_INSTALL, GUARD_REMOVE.
pub(super) const ADVICES: [u64; 9] = [MADV_DONTNEED, 9, 10, 11, 18, 19, 24, 102, 103];

/// Those of them that are about forks alone.
const FORK_ADVICES: [u64; 4] = [10, 11, 18, 19];

/// Of a file that changes, a private mapping of at most so many bytes, which is less than this part of the
/// file, is told by what it shows.
const PART_MAX: u64 = 16 << 20;
const PART_OF: u64 = 4;

pub(super) fn page_up(value: u64) -> u64 {
    value.saturating_add(4095) & !4095
}

const PROT_READ: u64 = libc::PROT_READ as u64;

fn prot(value: u64) -> u32 {
    u32::try_from(value & 7).unwrap_or(0)
}

/// Is this file one that nobody changes while programs use it? A read-only shared mapping of such a file (a
/// locale, a cache of fonts) need not be an object: it costs no token.
pub(super) fn is_as_installed(meta: &fs::Metadata, name: &[u8]) -> bool {
    const ROOTS: [&[u8]; 10] = [
        b"/usr/",
        b"/lib/",
        b"/lib64/",
        b"/bin/",
        b"/sbin/",
        b"/opt/",
        b"/nix/",
        b"/gnu/",
        b"/etc/",
        b"/var/cache/",
    ];
    /// Writable by the group or by all.
    const OTHERS_WRITE: u32 = 0o022;
    meta.st_uid() == 0
        && meta.st_mode() & OTHERS_WRITE == 0
        && ROOTS.iter().any(|root| name.starts_with(root))
}

/// Has nobody ever touched this System V segment? To look at a page of one makes the page.
fn is_untouched(id: u64) -> bool {
    proc::segments().iter().any(|segment| u64::from(segment.id) == id && segment.is_untouched)
}

pub(super) fn key_of(file: &fs::Metadata) -> Key {
    (file.st_dev(), file.st_ino())
}

/// A mapping that the program has made.
pub(super) struct Made {
    pub tid: Tid,
    pub addr: Addr,
    pub len: u64,
    pub prot: u32,
    pub is_shared: bool,
}

/// The file that was mapped. Its descriptor may be good for mapping and its path not for opening.
fn open_new(made: &Made, path: &Path) -> Result<File> {
    let file = File::open(path).or_else(|error| {
        let mappings = maps::read(made.tid).unwrap_or_default();
        let mapping = mappings.iter().find(|m| m.start == made.addr);
        mapping.and_then(|mapping| open_mapped(made.tid, mapping)).ok_or(error)
    });
    file.map_err(|source| RecordError::Os { what: "open a file that the program has mapped", source })
}

/// Is so little mapped of this file, by far, that what is mapped is better told than the file kept? Not of a
/// program's text, which is looked for in the file (one without a name is none: `Process::add_text`).
fn is_small_part(made: &Made, file: &Metadata) -> bool {
    let is_text = made.prot & prot::EXEC != 0 && file.st_nlink() > 0;
    made.len <= PART_MAX && made.len < file.st_size() / PART_OF && !is_text
}

/// Is it /dev/zero, by whatever name? What is mapped of it is anonymous memory.
fn is_zero_device(meta: &Metadata) -> bool {
    meta.file_type().is_char_device() && meta.st_rdev() == libc::makedev(1, 5)
}

impl AddressSpace {
    /// Nothing is mapped in this range any more. Where the main thread's stack may grow to, it is there in
    /// replay.
    fn free_for_stack(&self, tid: Tid, range: &Range<Addr>, outcome: &mut Outcome) {
        let room = self.stack();
        if range.start >= room.end || range.end <= room.start {
            return;
        }
        let mappings = maps::read(tid).unwrap_or_default();
        let Some(stack) = mappings.iter().find(|m| m.end == room.end) else { return };
        let floor = stack_floor(&mappings, stack, stack_limit_or_most(tid)).max(room.start);
        if floor < range.end && range.start < stack.start {
            let len = stack.start - floor;
            outcome.effects.push(Effect::Map { addr: floor, len, prot: stack.prot, backing: Backing::Stack });
        }
    }

    /// A private mapping that grows down like a stack: in replay, all that it could grow to is there at once.
    fn growing(&mut self, made: &Made, outcome: &mut Outcome) -> Result<()> {
        let Made { tid, addr, prot, .. } = *made;
        let mappings = maps::read(tid)?;
        let Some(mapping) = mappings.iter().find(|m| m.start <= addr && addr < m.end) else {
            return Ok(());
        };
        let floor = stack_floor(&mappings, mapping, stack_limit_or_most(tid));
        let (end, len) = (mapping.end, mapping.end - floor);
        outcome.effects.push(Effect::Map { addr: floor, len, prot, backing: Backing::Stack });
        self.add_growing(floor..end);
        Ok(())
    }

    /// Stacks have a new limit: in replay, where all that they may grow to is mapped from the start, they
    /// must end where they now would. What they have grown to already stays.
    fn limit_stacks(&mut self, tid: Tid, limit: u64, outcome: &mut Outcome) {
        let mappings = maps::read(tid).unwrap_or_default();
        for room in self.rooms_of_stacks_mut() {
            let Some(stack) = mappings.iter().find(|m| m.end == room.end) else { continue };
            let floor = stack_floor(&mappings, stack, limit);
            let (old, prot) = (room.start, stack.prot);
            if floor > old {
                // What the program has mapped in that room stays.
                let mapped: Vec<Range<Addr>> = mappings.iter().map(|m| m.start..m.end).collect();
                let free = without(old..floor, &mapped).into_iter();
                outcome
                    .effects
                    .extend(free.map(|part| Effect::Unmap { addr: part.start, len: part.end - part.start }));
            } else if floor < old {
                let len = old - floor;
                outcome.effects.push(Effect::Map { addr: floor, len, prot, backing: Backing::Stack });
            }
            room.start = floor;
        }
    }

    /// What an mprotect with PROT_GROWSDOWN has protected: from where the mapping begins that `addr` lies in.
    /// What that will grow by is protected like it, and is there in replay already.
    fn protected_below(&self, tid: Tid, addr: Addr, end: Addr) -> Result<Range<Addr>> {
        let mappings = maps::read(tid)?;
        let Some(mapping) = mappings.iter().find(|m| m.start <= addr && addr < m.end) else {
            return Ok(addr..end);
        };
        let has_room = mappings.iter().all(|m| m.end != mapping.start);
        let floor = self.growth_floor(mapping.start).filter(|_| has_room);
        // Something else may have been mapped there since.
        let below =
            mappings.iter().filter(|m| m.end <= mapping.start).map(|m| m.end).max().unwrap_or_default();
        Ok(floor.unwrap_or(mapping.start).max(below)..end)
    }
}

impl Domain {
    pub(super) fn leave_mmap(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let [_, len, asked, flags, fd, offset] = it.args();
        let (tid, addr, len) = (it.tid, Addr(it.value()), page_up(len));
        self.remove_shared(addr, addr + len)?;
        self.remove_views(addr, addr + len);
        let is_shared = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
        let made = Made { tid, addr, len, prot: self.prot_of(tid, asked), is_shared };
        match (flags & MAP_ANONYMOUS != 0, flags & MAP_GROWSDOWN != 0) {
            (false, _) => self.map_file(&made, Fd::of_arg(fd), offset, it.outcome),
            (true, true) if !is_shared => self.space.growing(&made, it.outcome),
            (true, _) => self.map_anonymous(&made, it.outcome),
        }
    }

    /// A mapping of no file.
    fn map_anonymous(&mut self, made: &Made, outcome: &mut Outcome) -> Result<()> {
        if made.is_shared {
            return self.map_shared(made, None, outcome);
        }
        let Made { addr, len, prot, .. } = *made;
        outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
        Ok(())
    }

    /// A mapping of the file behind a descriptor, from `offset` on.
    fn map_file(&mut self, made: &Made, fd: Fd, offset: u64, outcome: &mut Outcome) -> Result<()> {
        let Made { tid, addr, len, prot, is_shared } = *made;
        let path = proc::fd(tid, fd);
        let name = fs::read_link(&path).unwrap_or_default();
        let name = name.as_os_str().as_bytes().to_vec();
        let meta = fs::metadata(&path).map_err(|source| RecordError::Os {
            what: "look at a file that the program has mapped",
            source,
        })?;
        if is_zero_device(&meta) {
            return self.map_anonymous(made, outcome);
        }
        if self.map_settings(made, (&name, meta.st_size()), outcome)? {
            return Ok(());
        }
        let (key, is_as_installed) = (key_of(&meta), is_as_installed(&meta, &name));
        let is_written =
            is_shared && (proc::is_open_for_writing(tid, fd) || self.session.registry.find(key).is_some());
        // Each process maps the same few libraries, piece by piece.
        if is_as_installed
            && !is_written
            && let Some((file, identity)) = self.session.find_kept(&meta, &name)
        {
            let map = Effect::Map { addr, len, prot, backing: Backing::File { file, offset } };
            if prot & prot::EXEC == 0 {
                if let Some(hooks) = &self.hooks {
                    self.session.kept_files.note(&identity, file);
                    self.session.kept_files.show(&hooks.area);
                }
                outcome.effects.push(map);
                return Ok(());
            }
            if meta.st_nlink() > 0
                && let Some(known) = self.session.texts.known(file, &meta)
            {
                let text = NewText { range: addr..addr + len, offset, prot, name: &name };
                outcome.effects.push(map);
                return self.add_known_text(tid, &text, known.map(|known| (file, known)), outcome);
            }
        }
        let file = open_new(made, &path)?;
        if is_written || is_shared && !is_as_installed && !is_archive(&file) {
            return self.map_shared(made, Some((key, file, offset, name)), outcome);
        }
        let kept = if is_as_installed {
            self.session.keep(&file, &name)?
        } else {
            // What is written to the file is in the pages that the program has not written to.
            let is_open = sys::is_open_for_writing(&file);
            if is_open {
                note_outside(&self.session, made, key, &name);
            }
            // (Of a memfd, which has no name, the kernel does not tell who has it open.)
            let is_changing = is_open || meta.st_nlink() == 0 || self.session.registry.find(key).is_some();
            if is_changing && is_small_part(made, &meta) {
                self.add_view_of_part(tid, (addr, len), key, offset, &file, outcome)?;
                return self.map_text(made, offset, &file, &name, outcome);
            }
            let kept = self.add_view((addr, len), key, offset, (&file, &name))?.file;
            if let Some((at, data)) = self.tail(addr..addr + len, offset, meta.st_size()) {
                outcome.writes.push(MemWrite { addr: addr + (at - offset), data });
            }
            kept
        };
        let backing = Backing::File { file: kept, offset };
        outcome.effects.push(Effect::Map { addr, len, prot, backing });
        self.map_text(made, offset, &file, &name, outcome)
    }

    /// A private mapping of a file that may be executed is text.
    fn map_text(
        &mut self,
        made: &Made,
        offset: u64,
        file: &File,
        name: &[u8],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Made { tid, addr, len, prot, .. } = *made;
        if prot & prot::EXEC != 0 {
            self.add_text(tid, &NewText { range: addr..addr + len, offset, prot, name }, file, outcome)?;
        }
        Ok(())
    }

    /// A shared mapping: of a file from `offset`, or anonymous.
    pub(super) fn map_shared(
        &mut self,
        made: &Made,
        file: Option<(Key, File, u64, Vec<u8>)>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Made { tid, addr, len, prot, .. } = *made;
        let (key, offset) = match &file {
            Some((key, _, offset, _)) => (*key, *offset),
            None => {
                let mappings = maps::read(tid)?;
                let mapping = mappings.iter().find(|m| m.start <= addr && addr < m.end);
                let mapping = mapping.ok_or_else(|| RecordError::Bug {
                    tid,
                    what: format!("the new shared mapping at {addr:#x} is not there"),
                })?;
                (key_of_mapping(mapping), mapping.offset + (addr - mapping.start))
            }
        };
        let (object, new) = self.session.registry.open(key, self.id);
        if file.is_some() {
            self.session.watch.watch_file(key);
        }
        if new {
            let (object_len, content, held) = match &file {
                Some((_, file, _, name)) => {
                    note_outside(&self.session, made, key, name);
                    let len = file.metadata().map_or(0, |meta| meta.st_size());
                    let (kept, held) = self.session.hold_shared(file, name, len)?;
                    (len, kept, held)
                }
                None => (offset + len, None, Vec::new()),
            };
            outcome.effects.push(Effect::NewObject { object, len: object_len, content });
            if !held.is_empty() {
                outcome.effects.push(Effect::WriteObject { object, offset: 0, data: held });
            }
            if let Some((at, data)) = self.tail(addr..addr + len, offset, object_len) {
                outcome.effects.push(Effect::WriteObject { object, offset: at, data });
            }
        }
        outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Shared { object, offset } });
        self.add_shared(SharedRange { start: addr, end: addr + len, object, offset }, new)
    }

    /// What the last page of a file of so many bytes has behind its end, as the range shows it that has just
    /// been mapped from `offset` on: where in the file, and what; none if that is nothing but zeros. Whoever
    /// has mapped a file may store there, and a program that maps it later finds that.
    fn tail(&self, range: Range<Addr>, offset: u64, file_len: u64) -> Option<(u64, Vec<u8>)> {
        let at = file_len.checked_sub(offset)?;
        let start = range.start.saturating_add(at);
        let len = file_len.next_multiple_of(PAGE) - file_len;
        if len == 0 || start >= range.end {
            return None;
        }
        let mut data = self.memory.read_upto(start, usize::try_from(len).ok()?);
        data.truncate(data.iter().rposition(|byte| *byte != 0)? + 1);
        Some((file_len, data))
    }

    /// Anonymous shared memory that was mapped for the task: address, length, protection. A new object.
    pub fn map_new_shared(
        &mut self,
        tid: Tid,
        (addr, len, prot): (u64, u64, u32),
        outcome: &mut Outcome,
    ) -> Result<ObjectId> {
        self.map_shared(&Made { tid, addr: Addr(addr), len, prot, is_shared: true }, None, outcome)?;
        let object = self.space.shared().at(Addr(addr)).map(|range| range.object);
        object.ok_or_else(|| RecordError::Bug { tid, what: "new shared memory that is not known".into() })
    }

    /// A range is not mapped any more: munmap, with these arguments.
    pub fn tell_unmapped(&mut self, args: [u64; 6], outcome: &mut Outcome) -> Result<()> {
        let (addr, len) = (Addr(args[0]), page_up(args[1]));
        self.remove_shared(addr, addr + len)?;
        self.remove_views(addr, addr + len);
        outcome.effects.push(Effect::Unmap { addr, len });
        Ok(())
    }

    /// A munmap, with these arguments, has been made.
    pub(super) fn leave_munmap(&mut self, tid: Tid, args: [u64; 6], outcome: &mut Outcome) -> Result<()> {
        self.tell_unmapped(args, outcome)?;
        let start = Addr(args[0]);
        let range = start..start.saturating_add(page_up(args[1]));
        self.space.free_for_stack(tid, &range, outcome);
        self.space.forget_growing(&range);
        Ok(())
    }

    pub(super) fn leave_mremap(&mut self, it: &mut Exit<'_>) -> Result<()> {
        const MREMAP_DONTUNMAP: u64 = libc::MREMAP_DONTUNMAP as u64;
        let [addr, old_len, new_len, flags, ..] = it.args();
        let (addr, new_addr) = (Addr(addr), Addr(it.value()));
        let (old_len, new_len) = (page_up(old_len), page_up(new_len));
        let keep = flags & MREMAP_DONTUNMAP != 0;
        // A length of 0 is a second mapping of the same pages; since Linux 6.17, several mappings can move at
        // once.
        let by = Move { addr, old_len, new_addr, new_len, keep };
        let moved = self.space.shared().moved(&by);
        if new_addr != addr {
            self.remove_shared(new_addr, new_addr + new_len)?;
        }
        // Counted anew before the old ones go, so that no object ends in between.
        for range in &moved {
            self.session.registry.add(range.object, self.id);
        }
        if old_len > 0 && !keep {
            self.remove_shared(addr, addr + old_len)?;
        }
        if old_len == 0 && moved.is_empty() {
            return self.map_second(it.tid, &by, it.outcome);
        }
        for range in moved {
            self.add_shared(range, false)?;
        }
        self.move_views(it.tid, &by, it.outcome)
    }

    pub(super) fn leave_shmat(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (tid, addr) = (it.tid, Addr(it.value()));
        let (call, outcome) = (&mut *it.call, &mut *it.outcome);
        let mappings = maps::read(tid)?;
        let mapping = mappings.into_iter().find(|m| m.start == addr).ok_or_else(|| RecordError::Bug {
            tid,
            what: format!("the segment attached at {addr:#x} is not there"),
        })?;
        let len = mapping.len();
        self.remove_shared(addr, addr + len)?;
        self.remove_views(addr, addr + len);
        let (object, new) = self.session.registry.open(key_of_mapping(&mapping), self.id);
        if new {
            let made = Made { tid, addr, len, prot: mapping.prot, is_shared: true };
            note_outside(&self.session, &made, key_of_mapping(&mapping), &mapping.name);
            let file = if is_untouched(mapping.inode) { None } else { open_mapped(tid, &mapping) };
            let file = file.filter(|file| file.metadata().is_ok_and(|meta| meta.st_ino() == mapping.inode));
            let content = file.map(|file| self.session.keep_shared(&file, &mapping.name)).transpose()?;
            outcome.effects.push(Effect::NewObject { object, len, content });
            if content.is_none() && !is_untouched(mapping.inode) {
                self.recorder().take_attached_content(tid, call, object, addr..addr + len, outcome)?;
            }
        }
        let backing = Backing::Shared { object, offset: 0 };
        outcome.effects.push(Effect::Map { addr, len, prot: mapping.prot, backing });
        self.add_shared(SharedRange { start: addr, end: addr + len, object, offset: 0 }, new)
    }

    pub(super) fn leave_shmdt(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (addr, outcome) = (Addr(it.args()[0]), &mut *it.outcome);
        // A segment is detached whole: all of its object's ranges that begin at its place.
        let Some(first) = self.space.shared().at(addr) else { return Ok(()) };
        let same = |r: &&SharedRange| r.object == first.object && r.start.wrapping_since(addr) == r.offset;
        let parts: Vec<SharedRange> = self.space.shared().iter().filter(same).copied().collect();
        for part in parts {
            self.remove_shared(part.start, part.end)?;
            outcome.effects.push(Effect::Unmap { addr: part.start, len: part.end - part.start });
        }
        Ok(())
    }
}

impl Recorder<'_> {
    /// What a segment that is new to the recording shows: it may have been filled by somebody before. What is
    /// zero there is zero in replay anyway.
    fn take_attached_content(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        object: ObjectId,
        range: Range<Addr>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        const PIECE_LEN: u64 = 1 << 18;
        let mut addr = range.start;
        while addr < range.end {
            self.spill(tid, call, outcome)?;
            let len = (range.end - addr).min(PIECE_LEN);
            let data = self.memory.read_upto(addr, usize::try_from(len).unwrap_or(0));
            if data.is_empty() {
                break;
            }
            let (offset, len) = (addr - range.start, data.len() as u64);
            if data.iter().any(|byte| *byte != 0) {
                outcome.effects.push(Effect::WriteObject { object, offset, data });
            }
            addr += len;
        }
        Ok(())
    }
}

impl Process {
    pub(super) fn enter_mmap(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let [addr, len, _, flags, fd, _] = call.args;
        let addr = Addr(addr);
        if flags & MAP_ANONYMOUS == 0 && is_changed_by_others(&self.session, tid, Fd::of_arg(fd))? {
            return Ok(Entry::Done(-i64::from(libc::ENODEV)));
        }
        if self.maps_counters(tid, call)? {
            return Ok(Entry::Done(-i64::from(libc::ENODEV)));
        }
        let end = addr.saturating_add(len);
        let ours = self.ours().iter().any(|range| addr < range.end && range.start < end);
        // What the kernel refuses, it refuses by itself.
        let possible = addr.is_multiple_of(PAGE) && len > 0;
        if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 && ours && possible {
            // As the kernel says where it cannot have its way.
            let noreplace = flags & MAP_FIXED_NOREPLACE != 0;
            self.note_taken(tid, addr, len)?;
            return Ok(Entry::Done(-i64::from(if noreplace { libc::EEXIST } else { libc::ENOMEM })));
        }
        Ok(Entry::Make)
    }

    /// A range is protected anew: mprotect, with these arguments.
    pub fn tell_protected(&mut self, tid: Tid, args: [u64; 6], outcome: &mut Outcome) -> Result<()> {
        let [addr, len, raw_prot, ..] = args;
        let addr = Addr(addr);
        let range = addr..addr + page_up(len);
        let range = match raw_prot & PROT_GROWSDOWN {
            0 => range,
            _ => self.space.protected_below(tid, addr, range.end)?,
        };
        if raw_prot & PROT_WRITE != 0 {
            // A program that is about to change text looks at it first.
            self.unpatch(range.start, range.end, outcome)?;
        }
        if len > 0 {
            outcome.effects.push(Effect::Protect {
                addr: range.start,
                len: range.end - range.start,
                prot: self.prot_of(tid, raw_prot),
            });
        }
        Ok(())
    }

    /// A second mapping has been made of a file's pages that are shared for the kernel and private in replay,
    /// because nobody changes them through the mapping: replay cannot make one of the other.
    fn map_second(&mut self, tid: Tid, by: &Move, outcome: &mut Outcome) -> Result<()> {
        let Move { new_addr: addr, new_len: len, .. } = *by;
        let end = addr + len;
        self.remove_views(addr, end);
        let mappings = maps::read(tid)?;
        let Some(mapping) = mappings.iter().find(|m| m.start <= addr && addr < m.end) else {
            let what = format!("the second mapping at {addr:#x} is not there");
            return Err(RecordError::Bug { tid, what });
        };
        let (prot, offset) = (mapping.prot, mapping.offset + (addr - mapping.start));
        if let Some(view) = self.space.views().parts(by.addr, by.addr + 1).first() {
            return self.add_second_view(tid, View { start: addr, end, offset, ..*view }, prot, outcome);
        }
        let Some(file) = open_mapped(tid, mapping) else {
            outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
            outcome.writes.extend(content_within(tid, &self.memory, mapping, addr..end)?);
            return Ok(());
        };
        let backing = Backing::File { file: self.session.keep(&file, &mapping.name)?, offset };
        outcome.effects.push(Effect::Map { addr, len, prot, backing });
        if prot & prot::EXEC != 0 {
            let text = NewText { range: addr..end, offset, prot, name: &mapping.name };
            self.add_text(tid, &text, &file, outcome)?;
        }
        Ok(())
    }

    pub(super) fn leave_brk(&mut self, it: &mut Exit<'_>) -> Result<()> {
        self.learn_heap();
        let change = self.space.move_brk(Addr(it.value()));
        self.show_heap();
        self.tell_heap(it.tid, change, it.outcome);
        Ok(())
    }

    pub(super) fn leave_madvise(&mut self, it: &mut Exit<'_>) -> Result<()> {
        // It may have been made with another one (`enter_madvise`).
        it.outcome.regs.rdx = it.call.entry.regs().rdx;
        self.advised(it.args(), it.outcome)?;
        self.tell_removed(it.tid, it.args());
        Ok(())
    }

    /// Advice is given: madvise, with these arguments.
    pub(super) fn advised(&mut self, args: [u64; 6], outcome: &mut Outcome) -> Result<()> {
        let [addr, len, advice, ..] = args;
        let addr = Addr(addr);
        let advice = if advice == MADV_FREE { MADV_DONTNEED } else { advice };
        if FORK_ADVICES.contains(&advice) && len > 0 {
            self.space.advise_of_forks(addr, page_up(len), advice);
        }
        if ADVICES.contains(&advice) && len > 0 {
            let advice = u32::try_from(advice).unwrap_or(0);
            outcome.effects.push(Effect::Advise { addr, len: page_up(len), advice });
            self.show_again(addr, addr + page_up(len), outcome)?;
            self.show_own_again((addr, addr + page_up(len)), advice, outcome)?;
        }
        Ok(())
    }

    pub(super) fn enter_shmat(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        const SHM_REMAP: u64 = libc::SHM_REMAP as u64;
        let [_, addr, flags, ..] = call.args;
        let addr = Addr(addr);
        if flags & SHM_REMAP != 0 && self.ours().iter().any(|range| range.contains(&addr)) {
            self.note_taken(tid, addr, 0)?;
            return Ok(Entry::Done(-i64::from(libc::ENOMEM)));
        }
        Ok(Entry::Make)
    }

    /// Behind a call: has the process that this memory belongs to another limit for its stacks? A child that
    /// only shares the memory has a limit of its own. It may be set by anybody, also from outside of the
    /// recording: it is looked at where the call sets limits, and where others have had the time to.
    pub(super) fn follow_stack_limit(&mut self, call: &InCall, outcome: &mut Outcome) {
        let sets_limits =
            row(call.entry.nr()).is_some_and(|row| row.limit.is_some_and(|limit| limit.new.is_some()));
        let known = self.space.stack_limit();
        let may_wait = || may_block(&call.entry.call());
        if !(sets_limits || known.is_none() || may_wait()) {
            return;
        }
        let owner = self.first_tid;
        let Some(limit) = stack_limit(owner) else { return };
        self.space.set_stack_limit(limit);
        if known.is_some_and(|known| known != limit) {
            self.space.limit_stacks(owner, limit, outcome);
        }
    }
}

impl Crew {
    /// The program wants memory where bis has some, and is refused it.
    pub(super) fn note_taken(&self, tid: Tid, addr: Addr, len: u64) -> Result<()> {
        let seq = self.session.writer.next_seq();
        let text = format!(
            "task {tid} wants memory at {addr:#x} ({len:#x} bytes), where bis itself has some: refused, as where \
             there is no room"
        );
        self.session.note(seq, text)
    }

    /// The protection that memory has for which the program asks for this one: what can be read can be
    /// executed, if it has the personality READ_IMPLIES_EXEC.
    pub(super) fn prot_of(&self, tid: Tid, asked: u64) -> u32 {
        let reads_execute = self.tasks.get(&tid).is_some_and(|task| task.traits.wishes.reads_execute);
        let read = asked & PROT_READ != 0;
        prot(asked) | if reads_execute && read { prot::EXEC } else { 0 }
    }

    /// The heap ends elsewhere.
    pub fn tell_heap(&mut self, tid: Tid, change: HeapChange, outcome: &mut Outcome) {
        match change {
            HeapChange::None => {}
            HeapChange::Grown(Range { start: addr, end }) => {
                let (prot, backing) = (self.prot_of(tid, 3), Backing::Anonymous);
                outcome.effects.push(Effect::Map { addr, len: end - addr, prot, backing });
            }
            HeapChange::Shrunk(Range { start: addr, end }) => {
                outcome.effects.push(Effect::Unmap { addr, len: end - addr });
            }
        }
    }
}

/// The task has mapped what is behind `key`, which is new to the recording: the trace is to say who else
/// could change it.
fn note_outside(session: &Arc<Session>, made: &Made, key: Key, name: &[u8]) {
    let Made { tid, addr, is_shared, .. } = *made;
    let name = String::from_utf8_lossy(name);
    let text = format!("{OUTSIDE}{name}, mapped by task {tid} at {addr:#x}");
    session.look_outside(Look { key, seq: session.writer.next_seq(), text, is_private: !is_shared });
}

/// Is the descriptor one whose memory, once mapped, a device or the kernel writes to, unseen by bis? Such
/// are devices, sockets (the kernel puts received pages there) and most anonymous inodes. Their mappings
/// are refused, as those of files that cannot be mapped, and programs read and write instead.
fn is_changed_by_others(session: &Session, tid: Tid, fd: Fd) -> Result<bool> {
    let path = proc::fd(tid, fd);
    // Without a descriptor, the kernel refuses it.
    let Ok(meta) = fs::metadata(&path) else { return Ok(false) };
    let kind = meta.file_type();
    if kind.is_file() || kind.is_dir() || kind.is_fifo() || is_zero_device(&meta) {
        return Ok(false);
    }
    if kind.is_block_device() || kind.is_char_device() {
        let name = fs::read_link(&path).unwrap_or_default();
        let text = format!("task {tid} wants to map the device {}: refused (ENODEV)", name.display());
        session.note(session.writer.next_seq(), text)?;
    }
    Ok(true)
}
