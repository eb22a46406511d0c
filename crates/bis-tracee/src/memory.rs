//! A task's memory, through `/proc/PID/mem`: reads and writes what the page tables allow and, as a debugger
//! does, private pages that the program itself may not write.

use std::{
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    sync::OnceLock,
};

use bis_trace::{
    event::MemWrite,
    types::{Addr, PAGE, Tid},
};

use crate::{
    error::{Result, TraceeError},
    proc, sys,
};

/// What fails where the kernel does not show us a task's memory.
pub const OPEN: &str = "open the memory";

/// An address space. It stays the same one after its tasks exec: open a new one for the new image.
#[derive(Debug)]
pub struct Memory {
    file: File,
    /// Where the kernel can be asked for single mappings, once that was tried.
    maps: OnceLock<Option<File>>,
}

/// A task's memory as it is looked at wherever some number of the program's may point: a read through
/// `/proc/PID/mem` below the end of a stack makes that grow, up to the reader's own limit instead of the
/// program's (`__access_remote_vm` in the kernel's `mm/memory.c`). A copy between processes
/// (process_vm_readv(2)) does not, and reads what the program itself could. Where that is forbidden (a
/// program that may be executed and not read, by another user than root), it is the other way all the same.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    memory: &'a Memory,
    tid: Tid,
}

impl<'a> Glance<'a> {
    /// `memory` is the task's, which has no other for as long as this is used.
    pub fn new(memory: &'a Memory, tid: Tid) -> Glance<'a> {
        Glance { memory, tid }
    }

    /// As much of `len` bytes from `addr` as can be read without a gap.
    pub fn read_upto(self, addr: Addr, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        match sys::read_memory(self.tid, addr, &mut buf) {
            Ok(done) => buf.truncate(done),
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => buf.clear(),
            Err(_) => return self.memory.read_upto(addr, len),
        }
        buf
    }
}

/// How much of a range the program may use, by what it has mapped there, bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usable {
    Surely(u64),
    /// Not more than that: the kernel does not tell (before Linux 6.11), or it is a file, which may end
    /// before its mapping does.
    Perhaps(u64),
}

/// So many small writes to one page are worth a read of what lies between.
const GROUP_MIN: usize = 3;

/// No longer than a patch.
fn is_small(write: &MemWrite) -> bool {
    const SMALL: usize = 64;
    write.data.len() <= SMALL
}

fn page(write: &MemWrite) -> u64 {
    write.addr.page_number()
}

impl Memory {
    /// # Errors
    /// Where the task is gone or not ours to trace.
    pub fn open(tid: Tid) -> Result<Memory> {
        let file = OpenOptions::new().read(true).write(true).open(proc::path(tid, "mem"));
        let file = file.map_err(|source| TraceeError::Os { what: OPEN, tid, source })?;
        Ok(Memory { file, maps: OnceLock::new() })
    }

    /// Fills `buf` from `addr`.
    ///
    /// # Errors
    /// Where a byte of it is not mapped.
    pub fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<()> {
        let len = buf.len();
        self.file.read_exact_at(buf, addr.0).map_err(|source| TraceeError::Memory { addr, len, source })
    }

    /// As much of `len` bytes from `addr` as is mapped without a gap.
    pub fn read_upto(&self, addr: Addr, len: usize) -> Vec<u8> {
        // A caller that asks for more than there is gets no room for it.
        const PIECE: usize = 1 << 20;
        let mut buf = Vec::new();
        let mut done = 0;
        while done < len {
            if done == buf.len() {
                buf.resize(len.min(done + PIECE.max(done)), 0);
            }
            match self.file.read_at(&mut buf[done..], addr.wrapping_add(done as u64).0) {
                Ok(0) | Err(_) => break,
                Ok(n) => done += n,
            }
        }
        buf.truncate(done);
        buf
    }

    pub fn read_vec(&self, addr: Addr, len: usize) -> Result<Vec<u8>> {
        let mut buf = vec![0; len];
        self.read(addr, &mut buf)?;
        Ok(buf)
    }

    pub fn read_u64(&self, addr: Addr) -> Result<u64> {
        let mut word = [0; 8];
        self.read(addr, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// A pointer.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn read_addr(&self, addr: Addr) -> Result<Addr> {
        self.read_u64(addr).map(Addr)
    }

    pub fn read_u32(&self, addr: Addr) -> Result<u32> {
        let mut word = [0; 4];
        self.read(addr, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// The bytes before the first NUL from `addr`, at most 64 KiB.
    pub fn read_c_str(&self, addr: Addr) -> Result<Vec<u8>> {
        let mut found = Vec::new();
        while found.len() < 64 * 1024 {
            let at = addr.wrapping_add(found.len() as u64);
            // Not past the page: the next one may not be mapped.
            let len = usize::try_from(PAGE - at.page_offset()).unwrap_or(1);
            let part = self.read_vec(at, len)?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                found.extend_from_slice(&part[..end]);
                return Ok(found);
            }
            found.extend_from_slice(&part);
        }
        let source = io::Error::new(io::ErrorKind::InvalidData, "a string without an end");
        Err(TraceeError::Memory { addr, len: found.len(), source })
    }

    /// # Errors
    /// Where a byte of it is not mapped, or is shared and not writable.
    pub fn write(&self, addr: Addr, data: &[u8]) -> Result<()> {
        let len = data.len();
        self.file.write_all_at(data, addr.0).map_err(|source| TraceeError::Memory { addr, len, source })
    }

    /// Writes as far as the program itself may write there: how many bytes. `tid` is one of its tasks. Where
    /// the kernel does not let us ask (a process that is not dumpable), as [`Memory::write`].
    ///
    /// # Errors
    /// If the task is gone.
    pub fn write_as_program(&self, tid: Tid, addr: Addr, data: &[u8]) -> Result<usize> {
        match sys::write_where_allowed(tid, addr, data) {
            Ok(done) => Ok(done),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(TraceeError::Died(tid)),
            Err(_) => self.write(addr, data).map(|()| data.len()),
        }
    }

    /// How much of a range the program may write. `tid` is one of its tasks.
    pub fn writable(&self, tid: Tid, range: Range<Addr>) -> Usable {
        self.usable(tid, range, sys::Mapped::is_writable)
    }

    /// How much of a range the program may read. We ourselves can read more: memory without any access, too.
    pub fn readable(&self, tid: Tid, range: Range<Addr>) -> Usable {
        self.usable(tid, range, sys::Mapped::is_accessible)
    }

    fn usable(&self, tid: Tid, range: Range<Addr>, may: impl Fn(&sys::Mapped) -> bool) -> Usable {
        let open = || File::open(proc::path(tid, "maps")).ok();
        let all = Usable::Perhaps(range.end - range.start);
        let Some(maps) = self.maps.get_or_init(open) else { return all };
        let (mut at, mut is_sure) = (range.start, true);
        while at < range.end {
            match sys::mapping_at(maps, at) {
                Ok(mapping) if !may(&mapping) => break,
                Ok(mapping) => {
                    is_sure &= !mapping.is_of_file;
                    at = mapping.end.min(range.end);
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                Err(_) => return all,
            }
        }
        let len = at - range.start;
        if is_sure { Usable::Surely(len) } else { Usable::Perhaps(len) }
    }

    /// Makes all of these writes, in order. Many small ones that follow each other on one page, as those of
    /// patched text do, are made as one, with what lies between them as it is: the kernel looks a page up for
    /// each, which takes longer than to read the page. So nobody else may write there meanwhile.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn write_all(&self, writes: &[MemWrite]) -> Result<()> {
        for group in writes.chunk_by(|one, next| is_small(one) && is_small(next) && page(one) == page(next)) {
            let begin = group.iter().map(|write| write.addr).min().unwrap_or_default();
            let end =
                group.iter().map(|write| write.addr + write.data.len() as u64).max().unwrap_or_default();
            let mut bytes = Vec::new();
            if group.len() >= GROUP_MIN {
                bytes = self.read_upto(begin, usize::try_from(end - begin).unwrap_or(0));
            }
            if bytes.is_empty() || bytes.len() as u64 != end - begin {
                group.iter().try_for_each(|write| self.write(write.addr, &write.data))?;
                continue;
            }
            for write in group {
                let from = usize::try_from(write.addr - begin).unwrap_or(0);
                bytes[from..from + write.data.len()].copy_from_slice(&write.data);
            }
            self.write(begin, &bytes)?;
        }
        Ok(())
    }

    /// An argument vector: pointers up to a null one, each to a string. At most 1 Mi entries.
    pub fn read_strings(&self, addr: Addr) -> Result<Vec<Vec<u8>>> {
        let mut strings = Vec::new();
        if addr.is_null() {
            return Ok(strings);
        }
        while strings.len() < 1 << 20 {
            let pointer = self.read_addr(addr + 8 * strings.len() as u64)?;
            if pointer.is_null() {
                break;
            }
            strings.push(self.read_c_str(pointer)?);
        }
        Ok(strings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_space_that_is_gone_is_told_from_an_address_that_is_not_mapped() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let memory = Memory::open(Tid(i32::try_from(child.id()).unwrap())).unwrap();
        let not_mapped = [memory.read_u64(Addr(8)).unwrap_err(), memory.write(Addr(8), &[1]).unwrap_err()];
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = [memory.read_u64(Addr(8)).unwrap_err(), memory.write(Addr(8), &[1]).unwrap_err()];
        assert!(not_mapped.iter().all(|error| !error.is_without_memory()), "{not_mapped:?}");
        assert!(gone.iter().all(TraceeError::is_without_memory), "{gone:?}");
    }

    #[test]
    fn a_range_is_writable_as_far_as_it_is_mapped_so() {
        let me = crate::ours::thread_id();
        let memory = Memory::open(me).unwrap();
        let asked = |at: *const u8, len: u64| {
            let start = Addr(at as u64);
            memory.writable(me, start..start + len)
        };
        let heap = vec![1u8; 1 << 20].leak();
        if asked(b"text".as_ptr(), 1) == Usable::Perhaps(1) {
            // A kernel that does not tell: then it tells of nothing.
            assert_eq!(asked(heap.as_ptr(), 1), Usable::Perhaps(1));
            return;
        }
        assert_eq!(asked(heap.as_ptr(), 1 << 20), Usable::Surely(1 << 20));
        assert_eq!(asked(b"text".as_ptr(), 1), Usable::Surely(0));
        assert_eq!(asked(std::ptr::without_provenance(8), 8), Usable::Surely(0));
        let (Usable::Surely(part) | Usable::Perhaps(part)) = asked(heap.as_ptr(), 1 << 46);
        assert!((1 << 20..1 << 46).contains(&part), "{part:#x}");
    }

    #[test]
    fn writes_made_together_are_as_if_made_one_by_one() {
        const LEN: usize = 4 * 4096;
        let me = Memory::open(crate::ours::thread_id()).unwrap();
        let target = vec![7u8; LEN].leak();
        let start = Addr(target.as_ptr() as u64);
        let write = |at: usize, data: &[u8]| MemWrite { addr: start + at as u64, data: data.to_vec() };
        let writes = [
            // Many on one page, not in order, the last over another.
            write(4000, &[1; 5]),
            write(3990, &[2; 3]),
            write(3900, &[3; 64]),
            write(4002, &[4; 10]),
            // Over the end of a page, a large one, none at all, and too few to be worth it.
            write(2 * 4096 - 3, &[5; 6]),
            write(2 * 4096 + 10, &[6; 2000]),
            write(9000, &[]),
            write(3 * 4096, &[8]),
            write(3 * 4096 + 100, &[9]),
        ];
        let mut expected = vec![7u8; LEN];
        for write in &writes {
            let at = usize::try_from(write.addr - start).unwrap();
            expected[at..at + write.data.len()].copy_from_slice(&write.data);
        }
        me.write_all(&writes).unwrap();
        assert_eq!(me.read_vec(start, LEN).unwrap(), expected);
        assert!(me.write_all(&[write(0, &[1]), MemWrite { addr: Addr(8), data: vec![1] }]).is_err());
    }
}
