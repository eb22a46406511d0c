//! This process's memory, as the recorder sees a task's.

use bis_syscalls::Memory;

/// This process's own memory.
pub struct Native;

impl Memory for Native {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        let Ok(base) = usize::try_from(addr) else { return false };
        let local = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(base), iov_len: buf.len() };
        // SAFETY: the local vector is `buf`; the kernel checks the remote one.
        let got =
            unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
        usize::try_from(got) == Ok(buf.len())
    }
}
