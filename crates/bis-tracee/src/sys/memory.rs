//! The memory of other processes, by the kernel's calls that copy between processes.

use std::{fs::File, io, os::fd::AsRawFd, ptr};

use bis_trace::types::{Addr, Tid, prot};
use linux_raw_sys::general::{procmap_query, procmap_query_flags as flag};

/// Reads memory of a process from `addr` (process_vm_readv): how many bytes, up to the first page that cannot
/// be read.
pub fn read_memory(pid: Tid, addr: Addr, buf: &mut [u8]) -> io::Result<usize> {
    let to = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // An address of the other process, which is never followed here; 64 bits are 64 bits.
    let from = libc::iovec { iov_base: ptr::without_provenance_mut(addr.0 as usize), iov_len: buf.len() };
    // SAFETY: the kernel writes to `buf` only, and no more than its length.
    let count = unsafe { libc::process_vm_readv(pid.0, &raw const to, 1, &raw const from, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Reads pieces of a process's memory, which are as long as each other, one behind the other into `buf`
/// (process_vm_readv): how many bytes, up to the first page that cannot be read. At most 1024 pieces
/// (UIO_MAXIOV); `buf` has room for all of them.
pub fn read_pieces(pid: Tid, starts: &[Addr], len: usize, buf: &mut [u8]) -> io::Result<usize> {
    let to = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let piece =
        |start: &Addr| libc::iovec { iov_base: ptr::without_provenance_mut(start.0 as usize), iov_len: len };
    let from: Vec<libc::iovec> = starts.iter().map(piece).collect();
    let count = libc::c_ulong::try_from(from.len()).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: the kernel writes to `buf` only, and no more than its length; `from` has `count` elements.
    let count = unsafe { libc::process_vm_readv(pid.0, &raw const to, 1, from.as_ptr(), count, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes memory of a process (process_vm_writev), each piece at its address: how many bytes in all, up to
/// the first page that the process may not write. At most 1024 pieces (UIO_MAXIOV).
pub fn write_memory<'a>(pid: Tid, pieces: impl Iterator<Item = (Addr, &'a [u8])>) -> io::Result<usize> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (addr, data) in pieces {
        from.push(libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() });
        to.push(libc::iovec { iov_base: ptr::without_provenance_mut(addr.0 as usize), iov_len: data.len() });
    }
    let count = libc::c_ulong::try_from(from.len()).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: the kernel only reads what `from` points to, which lives; both arrays have `count` elements.
    let count = unsafe { libc::process_vm_writev(pid.0, from.as_ptr(), count, to.as_ptr(), count, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes to a task's memory as far as the task itself may write there: how many bytes.
///
/// # Errors
/// If the kernel does not let us do it at all.
pub fn write_where_allowed(tid: Tid, addr: Addr, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let to = libc::iovec { iov_base: ptr::without_provenance_mut(addr.0 as usize), iov_len: bytes.len() };
    // SAFETY: our bytes are only read, and live as long as the call; the other address is of another process.
    let done = unsafe { libc::process_vm_writev(tid.0, &raw const from, 1, &raw const to, 1, 0) };
    let error = io::Error::last_os_error();
    match usize::try_from(done) {
        Ok(done) => Ok(done),
        Err(_) if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
        Err(_) => Err(error),
    }
}

/// ioctl on `/proc/PID/maps`: one mapping, from Linux 6.11 on (`_IOWR('f', 17, struct procmap_query)` in
/// `include/uapi/linux/fs.h`).
pub const PROCMAP_QUERY: libc::c_ulong =
    3 << 30 | (size_of::<procmap_query>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;

/// What the kernel tells of one mapping.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    pub start: Addr,
    /// The first address after it.
    pub end: Addr,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    pub shared: bool,
    pub is_of_file: bool,
}

impl Mapped {
    pub fn is_writable(&self) -> bool {
        self.prot & prot::WRITE != 0
    }

    /// It has some access: what may be written or executed can be read, too (but for keys of protection).
    pub fn is_accessible(&self) -> bool {
        self.prot != 0
    }
}

/// The mapping that an address is in, of the address space whose `/proc/PID/maps` is given
/// ([`PROCMAP_QUERY`]).
///
/// # Errors
/// ENOENT where nothing is mapped, ENOTTY where the kernel does not know the question.
pub fn mapping_at(maps: &File, addr: Addr) -> io::Result<Mapped> {
    query_mapping(maps, addr, 0)
}

/// As [`mapping_at`]; where nothing is mapped, the first mapping behind.
///
/// # Errors
/// ENOENT where there is none, ENOTTY where the kernel does not know the question.
pub fn mapping_from(maps: &File, addr: Addr) -> io::Result<Mapped> {
    query_mapping(maps, addr, flag::PROCMAP_QUERY_COVERING_OR_NEXT_VMA as u64)
}

/// As [`mapping_from`], of mappings that can be written to.
///
/// # Errors
/// As [`mapping_from`].
pub fn writable_mapping_from(maps: &File, addr: Addr) -> io::Result<Mapped> {
    let flags = flag::PROCMAP_QUERY_COVERING_OR_NEXT_VMA as u64 | flag::PROCMAP_QUERY_VMA_WRITABLE as u64;
    query_mapping(maps, addr, flags)
}

fn query_mapping(maps: &File, addr: Addr, flags: u64) -> io::Result<Mapped> {
    // SAFETY: a struct of numbers alone, for which zeros are values.
    let mut query: procmap_query = unsafe { std::mem::zeroed() };
    (query.size, query.query_addr) = (size_of::<procmap_query>() as u64, addr.0);
    query.query_flags = flags;
    // SAFETY: the kernel writes to the struct alone, whose size it is told; no room for names is given.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let has = |bit: flag| query.vma_flags & bit as u64 != 0;
    let access = [
        (flag::PROCMAP_QUERY_VMA_READABLE, prot::READ),
        (flag::PROCMAP_QUERY_VMA_WRITABLE, prot::WRITE),
        (flag::PROCMAP_QUERY_VMA_EXECUTABLE, prot::EXEC),
    ];
    Ok(Mapped {
        start: Addr(query.vma_start),
        end: Addr(query.vma_end),
        prot: access.into_iter().map(|(bit, prot)| if has(bit) { prot } else { 0 }).sum(),
        shared: has(flag::PROCMAP_QUERY_VMA_SHARED),
        is_of_file: query.inode != 0,
    })
}

/// Do two tasks have one address space? Errors where the kernel has no kcmp, or one of them is gone.
pub fn share_memory(one: Tid, other: Tid) -> io::Result<bool> {
    const KCMP_VM: i32 = 1;
    super::have_same(KCMP_VM, (one, other), (0, 0))
}
