//! Memory that a process puts back by itself: it compares what it holds with what it is to hold, writes what
//! differs, and notes it.
//!
//! From outside, the kernel looks up and copies each page of the process for us to compare, and looks up
//! those again that are written. The process itself needs neither, so half of the work is left: to read what
//! memory is to hold, from a copy of the process, into [`Room`]s that the process and we have mapped. While
//! it works on one room, others are filled. Where the copy can have the rooms mapped as well, it fills them
//! itself ([`Rooms::of_both`]), and the kernel looks up no page for anybody.

use std::{fmt, fs::File, io, mem, ops::Range, os::fd::AsRawFd as _, ptr, sync::Arc};

use bis_agent::{COPY_OUT, COPY_OUT_END, PUT_BACK, PUT_BACK_END};
use bis_trace::types::{Addr, PAGE, Registers, Tid};

use crate::{
    address_limit,
    area::{Area, memory_file},
    error::{Result, TraceeError},
    memory::Memory,
    remote::{Executed, Remote},
};

/// Bytes of the process's memory that a room is for: with what is compared with it, less than a core's cache.
pub const ROOM: u64 = 256 << 10;

/// As [`ROOM`], of a room that a copy of the process fills: with each, both are let go on, and have stopped.
const ROOM_OF_BOTH: u64 = 1 << 20;

/// Bytes that are compared, and noted, as one.
const BLOCK: usize = 64;

/// A block's note: its address, and a bit for each byte that it held before. What it holds now is in the
/// room.
const NOTE: usize = 2 * size_of::<u64>();

/// What is told apart: a word in which a byte differs.
const WORD: u64 = 8;

/// What a room has, and where: the table of parts, which ends with a part of no bytes; what they are to hold,
/// which are so many bytes; and the notes.
#[derive(Clone, Copy, Debug)]
struct Layout(u64);

impl Layout {
    const fn content_at(self) -> u64 {
        // A part is a page or more.
        ((self.0 / PAGE + 1) * size_of::<[u64; 2]>() as u64).next_multiple_of(PAGE)
    }

    const fn notes_at(self) -> u64 {
        self.content_at() + self.0
    }

    const fn len(self) -> u64 {
        (self.notes_at() + self.0 / BLOCK as u64 * NOTE as u64).next_multiple_of(PAGE)
    }
}

/// Memory that a process and we have mapped, in rooms.
#[derive(Debug)]
pub struct Rooms {
    mapping: Arc<dyn Shared>,
    layout: Layout,
    count: u64,
    /// Where the process has it.
    base: Addr,
    /// Where a copy of it has it.
    in_copy: Option<Addr>,
}

/// Memory that is mapped here as long as this lives.
pub(crate) trait Shared: fmt::Debug + Send + Sync {
    fn base(&self) -> *mut u8;
}

#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    len: usize,
}

impl Shared for Mapping {
    fn base(&self) -> *mut u8 {
        self.base
    }
}

// SAFETY: the mapping is owned and stays until it is dropped. Each room of it is used by whoever has the one
// `Room` of it, and by the process only while that is lent to `Room::put_back`. No reference to its bytes is
// made: they are copied from and to it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no pointer is left.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl Mapping {
    fn of(file: &File, len: usize) -> io::Result<Mapping> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, prot, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: base.cast(), len })
    }
}

/// What a process is to hold in some of its memory, and, later, what it has put back of it.
#[derive(Debug)]
pub struct Room {
    mapping: Arc<dyn Shared>,
    layout: Layout,
    at: u64,
    base: Addr,
    in_copy: Option<Addr>,
    /// Of which memory it says what that is to hold.
    parts: Vec<Range<Addr>>,
    /// Bytes of notes that it holds.
    noted: usize,
}

impl Rooms {
    /// Maps so many rooms in the process in whose name calls are made, and here.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile. Where the process has no descriptor left, or may
    /// map no more, it is as it was.
    pub fn make(remote: &mut Remote<'_>, count: u64) -> Result<Rooms> {
        let layout = Layout(ROOM);
        let len = count * layout.len();
        let (fd, file) = memory_file(remote)?;
        let tid = remote.tid();
        let made = file.set_len(len).and_then(|()| Mapping::of(&file, usize::try_from(len).unwrap_or(0)));
        let prot = (libc::PROT_READ | libc::PROT_WRITE).cast_unsigned().into();
        let args = [0, len, prot, libc::MAP_SHARED.cast_unsigned().into(), fd.arg(), 0];
        let what = "map memory that the process shares with us";
        let mapped = match made {
            Ok(mapping) => {
                let map = |remote: &mut Remote<'_>| remote.must(what, libc::SYS_mmap, args);
                address_limit::beside(remote, map).map(|base| (mapping, base))
            }
            Err(source) => Err(TraceeError::Os { what, tid, source }),
        };
        remote.call(libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
        let (mapping, base) = mapped?;
        Ok(Rooms { mapping: Arc::new(mapping), layout, count, base: Addr(base), in_copy: None })
    }

    /// Maps so many larger rooms in the process of this area, in whose name calls are made by `remote`, in a
    /// copy of it that was made since, in whose name they are made by `copy`, and here. None: it cannot be
    /// done.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where one of them ended meanwhile.
    pub fn of_both(
        area: &Area,
        (remote, copy): (&mut Remote<'_>, &mut Remote<'_>),
        count: u64,
    ) -> Result<Option<Rooms>> {
        let layout = Layout(ROOM_OF_BOTH);
        let Some(more) = area.more(count * layout.len()) else { return Ok(None) };
        let Some(base) = more.map_in(remote)? else { return Ok(None) };
        let in_copy = more.map_in(copy)?;
        let rooms = Rooms { mapping: Arc::new(more), layout, count, base, in_copy };
        if in_copy.is_none() {
            rooms.leave(remote, Some(copy))?;
            return Ok(None);
        }
        Ok(Some(rooms))
    }

    /// Each of them, once.
    pub fn each(&self) -> Vec<Room> {
        let room = |index| {
            let (mapping, layout, at) = (Arc::clone(&self.mapping), self.layout, index * self.layout.len());
            let (base, in_copy) = (self.base + at, self.in_copy.map(|base| base + at));
            Room { mapping, layout, at, base, in_copy, parts: Vec::new(), noted: 0 }
        };
        (0..self.count).map(room).collect()
    }

    /// Unmaps them in the process, and in the copy of it that has them.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where one of them ended meanwhile.
    pub fn leave(self, remote: &mut Remote<'_>, copy: Option<&mut Remote<'_>>) -> Result<()> {
        let unmap = |remote: &mut Remote<'_>, base: Addr| {
            let args = [base.0, self.count * self.layout.len(), 0, 0, 0, 0];
            address_limit::beside(remote, |remote| {
                remote.must("unmap memory that the process shares with us", libc::SYS_munmap, args)
            })
        };
        if let (Some(copy), Some(base)) = (copy, self.in_copy) {
            unmap(copy, base)?;
        }
        unmap(remote, self.base).map(drop)
    }
}

impl Room {
    /// How many bytes of the process's memory it is for.
    pub fn capacity(&self) -> u64 {
        self.layout.0
    }

    /// Fills it with what process `from`, which executes nothing, holds in these parts: whole pages, together
    /// at most [`Room::capacity`] bytes. False: not all of it could be read (in some containers, none of it),
    /// and the room is not to be used for it.
    pub fn fill(&mut self, from: Tid, parts: &[Range<Addr>]) -> bool {
        let Some(len) = self.lay_out(parts) else { return false };
        let to = libc::iovec { iov_base: self.place(self.layout.content_at()).cast(), iov_len: len };
        let piece = |part: &Range<Addr>| libc::iovec {
            iov_base: ptr::without_provenance_mut(part.start.0 as usize),
            iov_len: usize::try_from(part.end - part.start).unwrap_or(0),
        };
        let pieces: Vec<libc::iovec> = parts.iter().map(piece).collect();
        // SAFETY: the kernel writes to this room's bytes only, and no more than it has for content; nobody
        // else uses them, because we have the room. There are as many pieces as is said.
        let count = unsafe {
            libc::process_vm_readv(from.0, &raw const to, 1, pieces.as_ptr(), pieces.len() as u64, 0)
        };
        usize::try_from(count) == Ok(len)
    }

    /// Fills the room by a copy of the process that has the room mapped, too, and in whose name calls are
    /// made with `from`: it begins to. False: it cannot be done.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it has ended.
    pub fn begin_fill(&mut self, from: &mut Remote<'_>, parts: &[Range<Addr>]) -> Result<bool> {
        let Some(base) = self.in_copy.filter(|_| self.lay_out(parts).is_some()) else { return Ok(false) };
        let regs = Registers {
            rip: COPY_OUT,
            orig_rax: u64::MAX,
            r8: base.0,
            rdi: (base + self.layout.content_at()).0,
            ..*from.saved()
        };
        from.begin(&regs.wide())?;
        Ok(true)
    }

    /// Waits for that. False: not all of it could be read, and the room is not to be used for it.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it has ended.
    pub fn end_fill(&mut self, from: &mut Remote<'_>) -> Result<bool> {
        Ok(matches!(from.end(Addr(COPY_OUT_END))?, Executed::Whole(_)))
    }

    /// Has the copy of the process, of which this is the memory, the very same room?
    pub fn is_in_copy(&self, memory: &Memory) -> bool {
        let Some(base) = self.in_copy else { return false };
        (1..=2).all(|word: u64| {
            // SAFETY: the room is ours, and longer than a word.
            unsafe { ptr::copy_nonoverlapping(word.to_ne_bytes().as_ptr(), self.place(0), size_of::<u64>()) };
            memory.read_u64(base).is_ok_and(|found| found == word)
        })
    }

    /// Notes the parts, and how many bytes they have. None: they cannot be put back by the process.
    fn lay_out(&mut self, parts: &[Range<Addr>]) -> Option<usize> {
        let len: u64 = parts.iter().map(|part| part.end - part.start).sum();
        let is_page = |addr: Addr| addr.0.is_multiple_of(PAGE);
        let are_pages = parts.iter().all(|part| is_page(part.start) && is_page(part.end));
        assert!(len <= self.layout.0 && are_pages, "{} parts of {len} bytes", parts.len());
        if parts.iter().any(|part| part.start == Addr(0)) {
            // It would end the table.
            return None;
        }
        let table: Vec<u8> = parts
            .iter()
            .flat_map(|part| [part.start.0, part.end.0])
            .chain([0, 0])
            .flat_map(u64::to_le_bytes)
            .collect();
        // SAFETY: a part is a page or more, so the table has its place for as many as were let in, and one
        // more; the room is ours.
        unsafe { ptr::copy_nonoverlapping(table.as_ptr(), self.place(0), table.len()) };
        self.parts.clear();
        self.parts.extend_from_slice(parts);
        usize::try_from(len).ok()
    }

    /// Lets the process in whose name calls are made put its memory back, and note what was different. False:
    /// an instruction has faulted, because the process may not read or write some of that memory; what was
    /// put back until then is noted.
    ///
    /// Changes the task's vector registers.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub fn put_back(&mut self, remote: &mut Remote<'_>) -> Result<bool> {
        self.begin_put_back(remote)?;
        self.end_put_back(remote)
    }

    /// Begins that.
    ///
    /// # Errors
    /// As [`Room::put_back`].
    pub fn begin_put_back(&mut self, remote: &mut Remote<'_>) -> Result<()> {
        let notes = self.base + self.layout.notes_at();
        let regs = Registers {
            rip: PUT_BACK,
            orig_rax: u64::MAX,
            r8: self.base.0,
            rsi: (self.base + self.layout.content_at()).0,
            r9: notes.0,
            ..*remote.saved()
        };
        remote.begin(&regs.wide())
    }

    /// Waits for the end of that.
    ///
    /// # Errors
    /// As [`Room::put_back`].
    pub fn end_put_back(&mut self, remote: &mut Remote<'_>) -> Result<bool> {
        let notes = self.base + self.layout.notes_at();
        let (regs, is_whole) = match remote.end(Addr(PUT_BACK_END))? {
            Executed::Whole(regs) => (regs, true),
            Executed::Faulted(_, regs) => (regs, false),
        };
        let len = Addr(regs.r9).saturating_since(notes).min(self.layout.len() - self.layout.notes_at());
        self.noted = usize::try_from(len).unwrap_or(0);
        Ok(is_whole)
    }

    /// Tells `tell` what the process has put back and was not told of yet, in order: the words that differed,
    /// those of a page with less than `gap` bytes between them as one piece.
    pub fn take_noted(&mut self, gap: u64, mut tell: impl FnMut(Addr, Vec<u8>)) {
        let mut notes = vec![0; mem::take(&mut self.noted)];
        // SAFETY: that many bytes of this room are behind its notes' begin. The process uses them only while
        // it puts memory back from this room, which is ours.
        unsafe {
            ptr::copy_nonoverlapping(self.place(self.layout.notes_at()), notes.as_mut_ptr(), notes.len())
        };
        // The notes are in the order of the parts, which lie one behind the other in the room.
        let (mut parts, mut at) = (self.parts.iter().peekable(), self.layout.content_at());
        for piece in in_pieces(&notes, gap) {
            let is_elsewhere = |part: &&Range<Addr>| piece.start < part.start || part.end < piece.end;
            while let Some(part) = parts.next_if(is_elsewhere) {
                at += part.end - part.start;
            }
            let part = parts.peek().unwrap_or_else(|| panic!("{piece:?} is noted, and is in no part"));
            let mut data = vec![0; usize::try_from(piece.end - piece.start).unwrap_or(0)];
            let from = self.place(at + (piece.start - part.start));
            // SAFETY: the piece is within a part, whose bytes are in the room from `at` on.
            unsafe { ptr::copy_nonoverlapping(from, data.as_mut_ptr(), data.len()) };
            tell(piece.start, data);
        }
    }

    /// Where this byte of the room is.
    fn place(&self, offset: u64) -> *mut u8 {
        // SAFETY: within the mapping, of which this is one of the rooms.
        unsafe { self.mapping.base().add((self.at + offset) as usize) }
    }
}

/// The pieces of memory that are noted as different.
fn in_pieces(notes: &[u8], gap: u64) -> Vec<Range<Addr>> {
    const LOWEST: u64 = u64::from_ne_bytes([1; 8]);
    let mut pieces: Vec<Range<Addr>> = Vec::new();
    let mut add = |start: Addr, end: Addr| match pieces.last_mut() {
        Some(last)
            if start.page_floor() == last.start.page_floor() && start.saturating_since(last.end) < gap =>
        {
            last.end = end;
        }
        _ => pieces.push(start..end),
    };
    let (words, _) = notes.as_chunks::<{ size_of::<u64>() }>();
    for [addr, held] in words.as_chunks::<2>().0 {
        let (addr, differ) = (Addr(u64::from_le_bytes(*addr)), !u64::from_le_bytes(*held));
        // Has each word a byte that differs? The usual question whether some byte of a word is 0.
        if differ.wrapping_sub(LOWEST) & !differ & (LOWEST << 7) == 0 {
            add(addr, addr + BLOCK as u64);
            continue;
        }
        for index in (0..BLOCK as u64 / WORD).filter(|index| differ >> (index * WORD) & 0xff != 0) {
            let start = addr + index * WORD;
            add(start, start + WORD);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{PAGE_LEN, Signal};

    use super::*;
    use crate::{image, ours, sys};

    #[test]
    fn a_process_puts_back_what_differs_and_faults_where_it_may_not_write() {
        const BASE: u64 = 0x2000_0000;
        // What it is to hold lies in our own memory, at the same addresses.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let wanted: Vec<u8> = (0..4 * PAGE_LEN).map(|at| (at / 64 % 251) as u8).collect();
        // SAFETY: new memory, at a place where nothing is; as many bytes as it has are written there.
        unsafe {
            let at = ptr::without_provenance_mut(BASE as usize);
            let here = libc::mmap(at, 4 * PAGE_LEN, prot, flags, -1, 0);
            assert_eq!(here as u64, BASE);
            ptr::copy_nonoverlapping(wanted.as_ptr(), here.cast(), wanted.len());
        }
        let (mut slot, memory) = image::spawn_stub("bis-put-back").unwrap();
        let tid = slot.as_ref().unwrap().tid();
        let mut remote = Remote::new(&mut slot).unwrap();
        let args = |prot: i32| [BASE, 4 * PAGE, prot.cast_unsigned().into(), flags.cast_unsigned().into()];
        let [addr, len, prot, flags] = args(prot);
        remote.must("map", libc::SYS_mmap, [addr, len, prot, flags, u64::MAX, 0]).unwrap();
        let mut held = wanted.clone();
        // A byte, two blocks that touch, the last byte of a page and the first of the next, and a page that
        // is left out.
        for at in [70, 1024, 1088, 4095, 4096, 2 * 4096 + 5, 4 * 4096 - 1] {
            held[at] ^= 0xff;
        }
        memory.write(Addr(BASE), &held).unwrap();
        let page = |index: u64| Addr(BASE + index * PAGE);
        let rooms = Rooms::make(&mut remote, 2).unwrap();
        let [mut first, mut second] = rooms.each().try_into().unwrap();
        let parts = [page(0)..page(2), page(3)..page(4)];
        assert!(second.fill(ours::process_id(), &parts));
        assert!(first.fill(ours::process_id(), &[]));
        assert!(first.put_back(&mut remote).unwrap() && noted_in(&mut first).is_empty());
        assert!(second.put_back(&mut remote).unwrap());
        let noted = noted_in(&mut second);
        assert!(noted_in(&mut second).is_empty());
        let places: Vec<_> = noted.iter().map(|(addr, data)| (addr.0 - BASE, data.len())).collect();
        assert_eq!(places, [(64, 8), (1024, 72), (4088, 8), (4096, 8), (4 * 4096 - 8, 8)]);
        for (addr, data) in &noted {
            let from = usize::try_from(addr.0 - BASE).unwrap();
            assert_eq!(data, &wanted[from..from + data.len()]);
            held[from..from + data.len()].copy_from_slice(data);
        }
        assert_eq!(memory.read_vec(Addr(BASE), held.len()).unwrap(), held);
        assert!(held != wanted, "a page was left out");

        // It may not write the second page.
        memory.write(page(0), &[1]).unwrap();
        memory.write(page(1), &[1]).unwrap();
        remote.must("protect", libc::SYS_mprotect, [page(1).0, PAGE, 1, 0, 0, 0]).unwrap();
        assert!(second.fill(ours::process_id(), &parts));
        assert!(!second.put_back(&mut remote).unwrap());
        assert_eq!(noted_in(&mut second), [(page(0), wanted[..8].to_vec())]);
        assert!(!second.fill(ours::process_id(), &[page(0)..page(1), Addr(PAGE)..Addr(2 * PAGE)]));
        rooms.leave(&mut remote, None).unwrap();
        remote.finish().unwrap();
        let maps = crate::maps::read(tid).unwrap();
        assert!(maps.iter().all(|mapping| !mapping.shared || mapping.start.0 >= 0x6000_0000), "{maps:?}");
        drop((first, second));
        sys::kill(tid, Signal::KILL).unwrap();
    }

    #[test]
    fn words_that_are_near_are_one_piece() {
        let note = |addr: u64, differ: u64| [addr.to_le_bytes(), (!differ).to_le_bytes()].concat();
        let pieces = |notes: &[Vec<u8>]| -> Vec<_> {
            let pieces = in_pieces(&notes.concat(), 64);
            pieces.iter().map(|piece| (piece.start.0, piece.end.0)).collect()
        };
        let all = u64::MAX;
        assert_eq!(
            pieces(&[note(0x1f80, all), note(0x1fc0, all), note(0x2000, all)]),
            [(0x1f80, 0x2000), (0x2000, 0x2040)]
        );
        assert_eq!(pieces(&[note(0x1000, 1), note(0x1040, 1 << 63)]), [(0x1000, 0x1008), (0x1078, 0x1080)]);
        assert_eq!(pieces(&[note(0x1000, 1), note(0x1040, 1)]), [(0x1000, 0x1048)]);
        assert_eq!(
            pieces(&[note(0x1000, 1 << 5 | 1 << 60), note(0x1080, 1)]),
            [(0x1000, 0x1040), (0x1080, 0x1088)]
        );
        // A byte of each word, and the same without one of them.
        let each = u64::from_ne_bytes([0x10; 8]);
        assert_eq!(pieces(&[note(0x1000, each)]), [(0x1000, 0x1040)]);
        assert_eq!(pieces(&[note(0x1000, each & 0xff)]), [(0x1000, 0x1008)]);
        assert_eq!(pieces(&[note(0x1000, each << 8)]), [(0x1008, 0x1040)]);
    }

    fn noted_in(room: &mut Room) -> Vec<(Addr, Vec<u8>)> {
        let mut noted = Vec::new();
        room.take_noted(64, |addr, data| noted.push((addr, data)));
        noted
    }
}
