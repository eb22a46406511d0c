//! Much memory of a process, read and written by the kernel's own copying between processes
//! (process_vm_readv(2)): a third of the time that /proc/PID/mem takes for whole pages, and many small writes
//! are one call. What that refuses (pages that the program itself may not write, a kernel without it) goes
//! the way of [`Memory`].

use bis_trace::{
    event::MemWrite,
    types::{Addr, PAGE, Tid},
};

use crate::{error::Result, memory::Memory, sys};

/// The kernel takes no more pieces at once (UIO_MAXIOV).
const PIECES_MAX: usize = 1024;

/// The memory of a process that executes nothing else as long as this is used.
#[derive(Clone, Copy, Debug)]
pub struct Bulk<'a> {
    memory: &'a Memory,
    pid: Tid,
}

impl<'a> Bulk<'a> {
    /// `memory` is that of process `pid`.
    pub fn new(memory: &'a Memory, pid: Tid) -> Bulk<'a> {
        Bulk { memory, pid }
    }

    /// The process whose memory it is.
    pub fn pid(&self) -> Tid {
        self.pid
    }

    /// As much of `len` bytes from `addr` as is mapped without a gap, in place of what `buf` holds.
    pub fn read_upto(&self, addr: Addr, len: usize, buf: &mut Vec<u8>) {
        buf.resize(len, 0);
        let done = sys::read_memory(self.pid, addr, buf).unwrap_or(0);
        if done < len {
            buf.truncate(done);
            buf.extend(self.memory.read_upto(addr + done as u64, len - done));
        }
    }

    /// What pages at these addresses hold; none for one that cannot be read.
    pub fn read_pages(&self, starts: &[Addr]) -> Vec<Option<Vec<u8>>> {
        const LEN: usize = PAGE as usize;
        let mut pages = Vec::with_capacity(starts.len());
        for starts in starts.chunks(PIECES_MAX) {
            let mut buf = vec![0; starts.len() * LEN];
            let done = sys::read_pieces(self.pid, starts, LEN, &mut buf).unwrap_or(0) / LEN;
            pages.extend(buf.chunks(LEN).take(done).map(|page| Some(page.to_vec())));
            pages.extend(starts[done..].iter().map(|start| self.memory.read_vec(*start, LEN).ok()));
        }
        pages
    }

    /// Makes all of these writes, in order.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn write_all(&self, writes: &[MemWrite]) -> Result<()> {
        let pieces = writes.iter().map(|write| (write.addr, write.data.as_slice()));
        self.write_pieces(&pieces.collect::<Vec<_>>())
    }

    /// Writes each of these pieces at its address, in order.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn write_pieces(&self, pieces: &[(Addr, &[u8])]) -> Result<()> {
        let mut rest = pieces;
        while !rest.is_empty() {
            let batch = &rest[..rest.len().min(PIECES_MAX)];
            let mut done = sys::write_memory(self.pid, batch.iter().copied()).unwrap_or(0);
            let mut made = 0;
            while let Some((_, data)) = batch.get(made).filter(|(_, data)| data.len() <= done) {
                done -= data.len();
                made += 1;
            }
            if let Some((addr, data)) = batch.get(made) {
                self.memory.write(*addr, data)?;
                made += 1;
            }
            rest = &rest[made..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::ours;

    /// In the middle of three pages there is one that may only be read.
    #[test]
    fn what_may_not_be_written_is_written_all_the_same() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory of ours, which nobody else uses; protecting a page of it touches nothing else.
        let base = unsafe {
            let base = libc::mmap(ptr::null_mut(), 4 * 4096, prot, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.byte_add(4096), 4096, libc::PROT_READ), 0);
            assert_eq!(libc::munmap(base.byte_add(3 * 4096), 4096), 0);
            Addr(base as u64)
        };
        let pid = ours::process_id();
        let memory = Memory::open(pid).unwrap();
        let bulk = Bulk::new(&memory, pid);
        let at = |offset: u64, byte: u8, len: usize| MemWrite { addr: base + offset, data: vec![byte; len] };
        let writes = [at(8, 1, 16), at(4090, 2, 12), at(5000, 3, 8), at(2 * 4096, 4, 4096)];
        bulk.write_all(&writes).unwrap();
        let mut buf = vec![9; 3];
        bulk.read_upto(base, 4 * 4096, &mut buf);
        assert_eq!(buf.len(), 3 * 4096, "as far as it is mapped");
        let pages = bulk.read_pages(&[base + 2 * 4096, base + 3 * 4096, base]);
        assert_eq!(pages, [Some(buf[2 * 4096..].to_vec()), None, Some(buf[..4096].to_vec())]);
        for write in &writes {
            let from = usize::try_from(write.addr - base).unwrap();
            assert_eq!(buf[from..from + write.data.len()], write.data);
        }
        assert!(bulk.write_all(&[at(3 * 4096, 5, 1)]).is_err());
    }
}
