//! The hooks' area of a recorded address space, shared with its supervisor: the state, the classes of
//! descriptors, and the log, in one memory file that both map.
//!
//! The supervisor reads and writes it without a system call. It may do so at any time, also while the task
//! runs: all words are accessed atomically, and the log is read only up to a position that the hooks have
//! published: while the task is stopped, or, of a log that was taken and lies there still, where the hooks do
//! not write meanwhile (`log_rooms.rs`).
//!
//! A forked child gets an area of its own in the same file, behind the others: its parent's mapping is moved
//! there, by a call that needs no descriptor (the child may have none left), and one instead of three.

use bis_trace::types::{Addr, Fd, PAGE};
use bytes::Bytes;
use std::{
    fs::File,
    io,
    mem::offset_of,
    ops::Range,
    os::fd::AsRawFd,
    ptr, slice,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use bis_agent::{
    MEMFD_NAME,
    hooks::{
        self, AREA_BASE, AREA_LEN, COPIED_BASE, COUNT_RCX, COUNTDOWN, FD_CLASS_BASE, FDS, FILES_BASE,
        FILES_BITS, FdClass, KEPT_BASE, KEPT_MAX, KeptFile, LOG_BASE, LOG_LEN, PLAIN_BASE, PLAIN_MAX,
        PlainRange, state,
    },
};

use crate::{
    address_limit,
    error::{Result, TraceeError},
    log_rooms::{self, Hold, Room, Rooms},
    memory::Memory,
    proc, put_back,
    remote::{Planned, Remote, Returns},
    sys,
    task::Stopped,
};

/// The supervisor's mapping of one area.
#[derive(Debug)]
pub struct Area {
    mapping: Arc<Mapping>,
    file: Arc<Places>,
    logs: Mutex<Logs>,
}

/// Of an area's logs.
#[derive(Debug)]
struct Logs {
    rooms: Rooms,
    /// That of the present one.
    room: Room,
}

/// Where an area is mapped here.
#[derive(Debug)]
struct Mapping(*mut u8);

/// A log that lies in an area still.
struct Lying {
    mapping: Arc<Mapping>,
    range: Range<usize>,
    _hold: Hold,
}

/// The places for areas in one file.
#[derive(Debug)]
struct Places {
    used: AtomicU64,
    count: u64,
    /// Those that were used for something else than an area: the first, and how many.
    free: Mutex<Vec<(u64, u64)>>,
}

// SAFETY: the mapping is owned and stays until it is dropped; all access to what the task may change is
// atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

const LEN: usize = AREA_LEN as usize;

/// Where the logs lie in it.
const LOG: usize = (LOG_BASE - AREA_BASE) as usize;

/// A new memory file, which the process in whose name calls are made has open, and we, too.
///
/// # Errors
/// [`TraceeError::OutOfFiles`] where the process has no descriptor left; else where the kernel refuses.
pub(crate) fn memory_file(remote: &mut Remote<'_>) -> Result<(Fd, File)> {
    let tid = remote.tid();
    let cloexec = u64::from(libc::MFD_CLOEXEC);
    let made = remote.call(libc::SYS_memfd_create, [MEMFD_NAME, cloexec, 0, 0, 0, 0])?;
    let Some(fd) = Fd::made(made) else {
        let errno = i32::try_from(-made).unwrap_or(0);
        return Err(match errno {
            libc::EMFILE | libc::ENFILE => TraceeError::OutOfFiles(tid),
            _ => {
                let source = io::Error::from_raw_os_error(errno);
                TraceeError::Os { what: "make a memory file for the process", tid, source }
            }
        });
    };
    match File::options().read(true).write(true).open(proc::fd(tid, fd)) {
        Ok(file) => Ok((fd, file)),
        Err(source) => {
            // A caller that can do without it goes on, and the program has no descriptor more.
            remote.call(libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
            Err(TraceeError::Os { what: "open the process's memory file", tid, source })
        }
    }
}

/// Where the plain ranges are, and how long each is.
const PLAIN: u64 = PLAIN_BASE - AREA_BASE;
const PLAIN_LEN: usize = size_of::<PlainRange>();

/// How many places for areas a file has: none is used twice. Only those that are used take memory.
const PLACES: u64 = 1 << 20;

impl Area {
    /// Gives the address space an area of its own, in place of one that it may share with somebody, and maps
    /// it here. `slot` holds a task stopped outside of any system call.
    ///
    /// # Errors
    /// [`TraceeError::Died`] when the task was killed meanwhile; else where the kernel refuses. Where the
    /// task has no descriptor left ([`TraceeError::OutOfFiles`]), it is as it was.
    pub fn make(slot: &mut Option<Stopped>) -> Result<Area> {
        Area::made(slot, |remote, [map, close]| {
            remote.must("map the hooks' memory", map.nr, map.args)?;
            remote.must("close the hooks' memory", close.nr, close.args).map(drop)
        })
    }

    /// As [`Area::make`], with another call behind those for the area, all in one go. `memory` is the task's.
    pub(crate) fn make_with(slot: &mut Option<Stopped>, memory: &Memory, also: Planned) -> Result<Area> {
        Area::made(slot, |remote, [map, close]| {
            remote.must_all("map the hooks and their memory", memory, &[map, close, also])
        })
    }

    /// Makes an area; `map` makes the calls that map its file and close it.
    fn made(
        slot: &mut Option<Stopped>,
        map: impl FnOnce(&mut Remote<'_>, [Planned; 2]) -> Result<()>,
    ) -> Result<Area> {
        let mut remote = Remote::new(slot)?;
        let tid = remote.tid();
        let failed = |what| move |source| TraceeError::Os { what, tid, source };
        let (fd, file) = memory_file(&mut remote)?;
        let count = PLACES.min(sys::file_size_limit() / AREA_LEN).max(1);
        file.set_len(count * AREA_LEN).map_err(failed("make room for the hooks' memory"))?;
        let prot = (libc::PROT_READ | libc::PROT_WRITE).cast_unsigned().into();
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED).cast_unsigned().into();
        let args = [AREA_BASE, AREA_LEN, prot, flags, fd.arg(), 0];
        let mapping = Planned { nr: libc::SYS_mmap, args, returns: Returns::This(AREA_BASE) };
        let close =
            Planned { nr: libc::SYS_close, args: [fd.arg(), 0, 0, 0, 0, 0], returns: Returns::This(0) };
        address_limit::beside(&mut remote, |remote| map(remote, [mapping, close]))?;
        remote.finish()?;
        let area = Area::map(&file, count).map_err(failed("map the hooks' memory here"))?;
        area.begin_log(Room::FIRST);
        Ok(area)
    }

    /// Gives a child that was forked from the address space of this area one of its own, in place of this
    /// one, and maps it here. `slot` holds the child, stopped outside of any system call, which has not run
    /// yet. The parent may: this one stays its own.
    ///
    /// # Errors
    /// As [`Area::make`].
    pub fn fork(&self, slot: &mut Option<Stopped>) -> Result<Area> {
        let index = self.file.used.fetch_add(1, Ordering::Relaxed);
        if index >= self.file.count {
            return Area::make(slot);
        }
        let page = index * (AREA_LEN / PAGE);
        let mut remote = Remote::new(slot)?;
        let tid = remote.tid();
        let args = [AREA_BASE, AREA_LEN, 0, page, libc::MAP_NONBLOCK.cast_unsigned().into(), 0];
        // A process that has set itself a limit below what it has may fork, but map nothing, not even in
        // place of something else.
        let move_it = |remote: &mut Remote<'_>| remote.call(libc::SYS_remap_file_pages, args);
        let moved = address_limit::beside(&mut remote, move_it)?;
        remote.finish()?;
        if moved != 0 {
            // Some sandboxes forbid what is out of use.
            return Area::make(slot);
        }
        let what = "map the hooks' memory here";
        let area = self.beside(page).map_err(|source| TraceeError::Os { what, tid, source })?;
        area.begin_log(Room::FIRST);
        Ok(area)
    }

    /// Another area in the same file, at this page of it.
    fn beside(&self, page: u64) -> io::Result<Area> {
        Ok(Area::new(self.mapped_again(page, LEN)?, Arc::clone(&self.file)))
    }

    /// Another mapping of the same file, which begins with this page of it.
    fn mapped_again(&self, page: u64, len: usize) -> io::Result<*mut u8> {
        // SAFETY: with an old size of 0, mremap leaves our mapping alone and makes another of the same shared
        // memory, at an address of the kernel's choice.
        let base = unsafe { libc::mremap(self.base().cast(), 0, len, libc::MREMAP_MAYMOVE) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Whole words: the kernel reads all of each.
        let (prot, flags) = (0u64, u64::from(libc::MAP_NONBLOCK.cast_unsigned()));
        // SAFETY: nobody knows the new mapping yet.
        let moved = unsafe { libc::syscall(libc::SYS_remap_file_pages, base, len, prot, page, flags) };
        if moved != 0 {
            let error = io::Error::last_os_error();
            // SAFETY: as above. It shows this area still, whose pages stay.
            unsafe { libc::munmap(base, len) };
            return Err(error);
        }
        Ok(base.cast())
    }

    fn map(file: &File, count: u64) -> io::Result<Area> {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let places = Places { used: AtomicU64::new(1), count, free: Mutex::default() };
        Ok(Area::new(base.cast(), Arc::new(places)))
    }

    fn new(base: *mut u8, file: Arc<Places>) -> Area {
        let logs = Logs { rooms: Rooms::default(), room: Room::FIRST };
        Area { mapping: Arc::new(Mapping(base)), file, logs: Mutex::new(logs) }
    }

    fn base(&self) -> *mut u8 {
        self.mapping.0
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        let is_known = offset < state::LEN
            || [COUNTDOWN - AREA_BASE, COUNT_RCX - AREA_BASE].contains(&offset)
            || (KEPT_BASE..PLAIN_BASE).contains(&(AREA_BASE + offset))
            || (PLAIN..PLAIN + (PLAIN_LEN * PLAIN_MAX) as u64).contains(&offset);
        assert!(is_known && offset.is_multiple_of(8), "{offset:#x} is no word of the state");
        // SAFETY: within the mapping, which lives as long as `self`, and aligned; shared only as an atomic.
        unsafe { AtomicU64::from_ptr(self.base().add(offset as usize).cast()) }
    }

    /// A word of the state (`bis_agent::hooks::state`).
    pub fn get(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    pub fn set(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Sets bits of a word that others may set, too.
    pub fn add(&self, offset: u64, bits: u64) {
        self.word(offset).fetch_or(bits, Ordering::SeqCst);
    }

    /// The word that the dense text counts down.
    pub fn countdown(&self) -> u64 {
        self.get(COUNTDOWN - AREA_BASE)
    }

    pub fn set_countdown(&self, word: u64) {
        self.set(COUNTDOWN - AREA_BASE, word);
    }

    /// The program's rcx, while a task is in the middle of a count that keeps the flags.
    pub fn count_rcx(&self) -> u64 {
        self.get(COUNT_RCX - AREA_BASE)
    }

    /// The ranges of memory that hooks may change. Only while no task runs; as with [`Area::set_plain`].
    pub fn plain(&self) -> Vec<Range<Addr>> {
        let count = usize::try_from(self.get(state::PLAINS)).unwrap_or(PLAIN_MAX).min(PLAIN_MAX);
        let word = |at: u64, of: usize| Addr(self.get(at + of as u64));
        let range = |at| word(at, offset_of!(PlainRange, start))..word(at, offset_of!(PlainRange, end));
        (PLAIN..).step_by(PLAIN_LEN).map(range).take(count).collect()
    }

    /// Says which they are. Those for which there is no room are left out.
    pub fn set_plain(&self, ranges: &[Range<Addr>]) {
        let ranges = &ranges[..ranges.len().min(PLAIN_MAX)];
        for (at, range) in (PLAIN..).step_by(PLAIN_LEN).zip(ranges) {
            self.set(at + offset_of!(PlainRange, start) as u64, range.start.0);
            self.set(at + offset_of!(PlainRange, end) as u64, range.end.0);
        }
        self.set(state::PLAINS, ranges.len() as u64);
    }

    /// The files that hooks may map, instead of those before. As with [`Area::set_plain`].
    pub fn set_kept(&self, files: &[KeptFile]) {
        let places = (KEPT_BASE - AREA_BASE..).step_by(size_of::<KeptFile>()).take(KEPT_MAX);
        // Behind the last one, none.
        let end = (files.len() < KEPT_MAX).then(KeptFile::default);
        for (at, kept) in places.zip(files.iter().copied().chain(end)) {
            let KeptFile { file, dev, ino, len, mtime_ns, ctime_ns } = kept;
            for (offset, word) in [
                (offset_of!(KeptFile, file), file),
                (offset_of!(KeptFile, dev), dev),
                (offset_of!(KeptFile, ino), ino),
                (offset_of!(KeptFile, len), len),
                (offset_of!(KeptFile, mtime_ns), mtime_ns),
                (offset_of!(KeptFile, ctime_ns), ctime_ns),
            ] {
                self.set(at + offset as u64, word);
            }
        }
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_log(&self, room: Room) {
        for (word, value) in [(state::POS, room.start), (state::SOON, room.soon), (state::END, room.end)] {
            self.set(word, value);
        }
    }

    /// More memory of the same file, mapped here, of so many bytes. None where there is none.
    pub(crate) fn more(&self, len: u64) -> Option<More> {
        let places = len.div_ceil(AREA_LEN);
        let place = self.file.take(places)?;
        let (page, len) = (place * (AREA_LEN / PAGE), usize::try_from(len).ok()?);
        let base = self.mapped_again(page, len).inspect_err(|_| self.file.give_back((place, places))).ok()?;
        Some(More { base, len, page, place: (place, places), file: Arc::clone(&self.file) })
    }

    /// Does the log hold anything?
    pub fn has_log(&self) -> bool {
        self.get(state::POS) != self.logs().room.start
    }

    /// Has the hook under way, which is one that logs, finished its entry?
    pub fn has_logged_in_hook(&self) -> bool {
        self.get(state::POS) != self.get(state::BEGAN)
    }

    /// Takes what the log holds. Only while the task is stopped outside of the hooks, or gone. A long log
    /// stays where it lies, and is not written again before what is returned is dropped, with all its copies.
    pub fn take_log(&self) -> Bytes {
        let mut logs = self.logs();
        let start = logs.room.start;
        let range = start..self.get(state::POS).clamp(start, LOG_LEN);
        let is_long = range.end - range.start > log_rooms::LONG;
        let next = is_long.then(|| logs.rooms.hold(range.clone())).flatten();
        let mapping = Arc::clone(&self.mapping);
        let range = LOG + range.start as usize..LOG + range.end as usize;
        let log = match next {
            Some((_hold, room)) => {
                logs.room = room;
                Bytes::from_owner(Lying { mapping, range, _hold })
            }
            None => {
                let log = Bytes::copy_from_slice(mapping.bytes(range));
                logs.room = logs.rooms.first().unwrap_or(logs.room);
                log
            }
        };
        self.begin_log(logs.room);
        log
    }

    fn all_classes(&self) -> &[AtomicU8] {
        // SAFETY: within the mapping, which lives as long as `self`; shared only as atomics, which have the
        // layout of their bytes.
        unsafe { slice::from_raw_parts(self.base().add((FD_CLASS_BASE - AREA_BASE) as usize).cast(), FDS) }
    }

    fn class(&self, fd: usize) -> &AtomicU8 {
        &self.all_classes()[fd]
    }

    /// Says what a descriptor is. One beyond those that have a class is left alone.
    pub fn set_class(&self, fd: Fd, class: FdClass) {
        if let Some(fd) = classed(fd) {
            self.class(fd).store(class as u8, Ordering::Release);
            if class == FdClass::Unknown {
                self.copied(fd).fetch_and(!(1 << (fd % 8)), Ordering::Relaxed);
            }
        }
    }

    /// The byte with the descriptor's bit of those that are copied.
    fn copied(&self, fd: usize) -> &AtomicU8 {
        assert!(fd < FDS, "descriptor {fd} has no bit");
        // SAFETY: within the mapping, which lives as long as `self`; shared only as an atomic.
        unsafe { AtomicU8::from_ptr(self.base().add((COPIED_BASE - AREA_BASE) as usize + fd / 8)) }
    }

    /// Large reads of this descriptor need not be traced any more, until it is closed. Only while the task is
    /// stopped.
    pub fn set_copied(&self, fd: Fd) {
        if let Some(fd) = classed(fd) {
            self.copied(fd).fetch_or(1 << (fd % 8), Ordering::Relaxed);
        }
    }

    pub fn is_copied(&self, fd: Fd) -> bool {
        classed(fd).is_some_and(|fd| self.copied(fd).load(Ordering::Relaxed) & 1 << (fd % 8) != 0)
    }

    pub fn has_class(&self, fd: Fd) -> bool {
        classed(fd).is_some_and(|fd| self.class(fd).load(Ordering::Acquire) != 0)
    }

    /// What the hooks know of a descriptor.
    pub fn class_of(&self, fd: Fd) -> FdClass {
        classed(fd).map_or(FdClass::Unknown, |fd| self.class_at(fd))
    }

    fn class_at(&self, fd: usize) -> FdClass {
        match self.class(fd).load(Ordering::Acquire) {
            1 => FdClass::Plain,
            2 => FdClass::File,
            3 => FdClass::Special,
            4 => FdClass::Shown,
            _ => FdClass::Unknown,
        }
    }

    /// Forgets the classes of all descriptors.
    pub fn forget_classes(&self) {
        self.all_classes().iter().for_each(|class| class.store(FdClass::Unknown as u8, Ordering::Release));
        (0..FDS).step_by(8).for_each(|fd| self.copied(fd).store(0, Ordering::Relaxed));
    }

    /// From here on, the file with this bit is one that somebody has mapped.
    pub fn add_file(&self, bit: u64) {
        assert!(bit < FILES_BITS, "no file has bit {bit}");
        let offset = (FILES_BASE - AREA_BASE + bit / 64 * 8) as usize;
        // SAFETY: within the mapping, which lives as long as `self`, and aligned; shared only as an atomic.
        let word = unsafe { AtomicU64::from_ptr(self.base().add(offset).cast()) };
        word.fetch_or(1 << (bit % 64), Ordering::SeqCst);
    }

    /// Forgets the classes of regular files.
    pub fn forget_files(&self) {
        let file = FdClass::File as u8;
        for class in self.all_classes().iter().filter(|class| class.load(Ordering::SeqCst) == file) {
            let _ = class.compare_exchange(file, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The classes of all descriptors that have one.
    pub fn classes(&self) -> Vec<(Fd, FdClass)> {
        let all = (0..FDS).zip(0..).map(|(index, number)| (Fd(number), self.class_at(index)));
        all.filter(|(_, class)| *class != FdClass::Unknown).collect()
    }

    /// The state as replay begins with it; `counted`: see [`state::COUNTED`].
    pub fn replay_state(counted: bool) -> Vec<u8> {
        let mut bytes = vec![0; state::LEN as usize];
        let at = state::REPLAY as usize;
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let at = state::COUNTED as usize;
        bytes[at..at + 8].copy_from_slice(&u64::from(counted).to_le_bytes());
        bytes
    }
}

/// The place of a descriptor among those that have a class.
fn classed(fd: Fd) -> Option<usize> {
    usize::try_from(fd.0).ok().filter(|index| *index < FDS)
}

impl Mapping {
    /// What lies there: logs only, which nobody writes as long as they are taken or held.
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(LOG <= range.start && range.start <= range.end && range.end <= LEN, "{range:?} is no log");
        // SAFETY: within the mapping, which lives as long as `self`. The hooks write nothing there now; a
        // program that finds the place and writes to it breaks its recording, and readers take what they
        // find.
        unsafe { slice::from_raw_parts(self.0.add(range.start), range.len()) }
    }
}

/// Memory of an area's file beside that of areas, mapped here.
#[derive(Debug)]
pub(crate) struct More {
    base: *mut u8,
    len: usize,
    page: u64,
    /// The first of the places for areas that it takes, and how many.
    place: (u64, u64),
    file: Arc<Places>,
}

// SAFETY: the mapping is owned and stays until it is dropped; whoever uses it says who may when.
unsafe impl Send for More {}
// SAFETY: as above.
unsafe impl Sync for More {}

impl More {
    /// Maps it in an address space that has an area in the same file, in place of nothing. None: it cannot be
    /// done. (Where the area's file is another one, what is mapped is not this.)
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub(crate) fn map_in(&self, remote: &mut Remote<'_>) -> Result<Option<Addr>> {
        let len = self.len as u64;
        address_limit::beside(remote, |remote| {
            let may_move = libc::MREMAP_MAYMOVE.cast_unsigned().into();
            let Ok(base) = u64::try_from(remote.call(libc::SYS_mremap, [AREA_BASE, 0, len, may_move, 0, 0])?)
            else {
                return Ok(None);
            };
            let args = [base, len, 0, self.page, libc::MAP_NONBLOCK.cast_unsigned().into(), 0];
            if remote.call(libc::SYS_remap_file_pages, args)? == 0 {
                return Ok(Some(Addr(base)));
            }
            remote.call(libc::SYS_munmap, [base, len, 0, 0, 0, 0])?;
            Ok(None)
        })
    }
}

impl put_back::Shared for More {
    fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for More {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone and nothing refers to it any more. Whoever else has its pages has
        // no use for them.
        unsafe {
            libc::madvise(self.base.cast(), self.len, libc::MADV_REMOVE);
            libc::munmap(self.base.cast(), self.len);
        }
        self.file.give_back(self.place);
    }
}

impl Places {
    /// So many places that nobody has, one behind the other: the first of them.
    fn take(&self, count: u64) -> Option<u64> {
        let mut free = self.free();
        if let Some(index) = free.iter().position(|(_, len)| *len == count) {
            return Some(free.swap_remove(index).0);
        }
        let first = self.used.fetch_add(count, Ordering::Relaxed);
        (first + count <= self.count).then_some(first)
    }

    fn give_back(&self, place: (u64, u64)) {
        self.free().push(place);
    }

    fn free(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for Lying {
    fn as_ref(&self) -> &[u8] {
        self.mapping.bytes(self.range.clone())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Its pages are given back, even if others live on in the file. SAFETY: the mapping is ours alone and
        // nothing refers to it any more. The address space is gone, or about to be killed.
        unsafe {
            libc::madvise(self.0.cast(), LEN, libc::MADV_REMOVE);
            libc::munmap(self.0.cast(), LEN);
        }
    }
}

/// Is this address one of the hooks' text?
pub fn is_inside(rip: Addr) -> bool {
    hooks::is_inside(rip.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{image, sys, task};

    fn word(memory: &Memory, offset: u64) -> u64 {
        memory.read_u64(Addr(AREA_BASE + offset)).unwrap()
    }

    #[test]
    fn a_long_log_stays_where_it_lies_until_nobody_has_it() {
        let (mut slot, memory) = image::spawn_stub("bis-area-log").unwrap();
        let area = Area::make(&mut slot).unwrap();
        let len = usize::try_from(log_rooms::LONG).unwrap() + 16;
        let mut written = 0;
        let mut write = |len: usize| {
            written += 1;
            let pos = area.get(state::POS);
            memory.write(Addr(LOG_BASE + pos), &vec![written; len]).unwrap();
            area.set(state::POS, pos + len as u64);
            vec![written; len]
        };
        let short = write(100);
        assert!(area.has_log());
        assert_eq!(area.take_log(), short);
        assert!(!area.has_log() && area.get(state::POS) == 0);
        let (first, wanted) = (write(len), area.take_log());
        let second_at = area.get(state::POS);
        assert!(second_at >= len as u64 && area.get(state::SOON) == second_at + log_rooms::LONG);
        // There are two rooms: the second log is copied as long as the first is held.
        let second = write(len);
        assert_eq!(area.take_log(), second);
        assert_eq!(area.get(state::POS), second_at);
        let third = write(len);
        assert_eq!(wanted, first);
        drop(wanted);
        let held = area.take_log();
        assert_eq!((area.get(state::POS), area.get(state::END)), (0, second_at));
        let _ = write(len);
        drop(area.take_log());
        // It outlives the area.
        drop(area);
        assert_eq!(held, third);
        let tid = slot.take().unwrap().tid();
        sys::kill(tid, bis_trace::types::Signal::KILL).unwrap();
        let _ = task::wait_for(tid);
    }

    #[test]
    fn a_forked_area_is_another_and_outlives_the_first() {
        let (mut slot, memory) = image::spawn_stub("bis-area").unwrap();
        let first = Area::make(&mut slot).unwrap();
        first.set(state::COUNT, 5);
        assert_eq!((word(&memory, state::COUNT), word(&memory, state::END)), (5, LOG_LEN));
        // As if it had been forked: what it has mapped is the first one still.
        let second = first.fork(&mut slot).unwrap();
        assert_eq!(first.file.used.load(Ordering::Relaxed), 2);
        assert!(Arc::ptr_eq(&first.file, &second.file), "it was made anew, not moved");
        assert_eq!((word(&memory, state::COUNT), word(&memory, state::END)), (0, LOG_LEN));
        second.set(state::COUNT, 7);
        assert_eq!((first.get(state::COUNT), word(&memory, state::COUNT)), (5, 7));
        let third = second.fork(&mut slot).unwrap();
        drop(first);
        drop(second);
        third.set(state::COUNT, 9);
        assert_eq!(word(&memory, state::COUNT), 9);
        // No place is left in the file: another one.
        third.file.used.store(third.file.count, Ordering::Relaxed);
        let last = third.fork(&mut slot).unwrap();
        assert!(!Arc::ptr_eq(&third.file, &last.file));
        last.set(state::COUNT, 11);
        assert_eq!((third.get(state::COUNT), word(&memory, state::COUNT)), (9, 11));
        let tid = slot.take().unwrap().tid();
        sys::kill(tid, bis_trace::types::Signal::KILL).unwrap();
        let _ = task::wait_for(tid);
    }
}
