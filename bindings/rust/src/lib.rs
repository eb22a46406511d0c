//! Checkpoints of a running program, and ways back to them, for programs that run under `bis run` or `bis record`.
//!
//! ```no_run
//! # fn work(_: u32) -> bool { true }
//! // SAFETY: nothing that a way back takes back is relied on outside of this process.
//! let before = unsafe { bis_checkpoint::checkpoint() }?;
//! if before.times() < 3 && !work(before.times()) {
//!     return Err(before.rollback()); // Returns only if it cannot.
//! }
//! before.discard()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Where the program does not run under bis, [`checkpoint`] fails with `ENOSYS`. What comes back and what does not is in
//! `docs/checkpoints.md`.
#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
extern crate std;

use core::{arch::asm, fmt};
use std::io;

const CALL: i64 = 0x0b15_0000;
const CHECKPOINT: u64 = 3;
const ROLLBACK: u64 = 4;
const DISCARD: u64 = 5;
const HOW: u64 = 6;
const RETRY: u64 = 1;
const REPLAY: u64 = 2;

/// # Safety
/// What the operation does to the process must be fine at this place.
#[inline(always)]
unsafe fn ask(operation: u64, first: u64, second: u64) -> io::Result<u64> {
    let result: i64;
    // SAFETY: the kernel changes rax, rcx and r11 alone; memory may be another one, which is the caller's to know.
    unsafe {
        asm!("syscall", inlateout("rax") CALL => result, in("rdi") operation, in("rsi") first, in("rdx") second,
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0)))
}

/// A checkpoint of this process.
#[derive(PartialEq, Eq, Hash)]
pub struct Checkpoint {
    handle: u64,
    times: u32,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checkpoint({})", self.handle)
    }
}

/// Keeps the whole process as it is now. Returns again after each way back to it ([`Checkpoint::rollback`]).
///
/// # Errors
/// ENOSYS: the program does not run under bis. EAGAIN, ENOMEM: there is no room, or a thread is in the middle of a
/// vfork.
///
/// # Safety
/// The function returns more than once, like `setjmp`, and with all private memory of the process as it was. So
/// nothing outside of that (shared memory, another process, a device) may rely on what the process did since.
#[inline(never)]
pub unsafe fn checkpoint() -> io::Result<Checkpoint> {
    let mut handle = 0u64;
    // SAFETY: the pointer is good for eight bytes.
    let times = unsafe { ask(CHECKPOINT, &raw mut handle as u64, 0) }?;
    // It is read after the call, which may return again: not before.
    // SAFETY: it is our own variable.
    let handle = unsafe { core::ptr::read_volatile(&raw const handle) };
    Ok(Checkpoint { handle, times: u32::try_from(times).unwrap_or(u32::MAX) })
}

impl Checkpoint {
    /// How often the process had gone back to it when [`checkpoint`] returned.
    pub fn times(&self) -> u32 {
        self.times
    }

    /// Goes back: all threads go on from the checkpoint, and may take another path. Returns only if that cannot be, and
    /// says why.
    pub fn rollback(&self) -> io::Error {
        // SAFETY: who has made the checkpoint has vouched for it.
        match unsafe { ask(ROLLBACK, self.handle, RETRY) } {
            Err(error) => error,
            Ok(_) => io::Error::other("a way back has returned"),
        }
    }

    /// Executes again what the process did since the checkpoint (since it returned last), exactly, under a debugger if
    /// `bis record --on-replay` asks for one. The process itself is not changed by it.
    ///
    /// # Errors
    /// EINVAL: this process does not have the checkpoint. EIO: the repetition failed.
    pub fn replay(&self) -> io::Result<()> {
        // SAFETY: it changes nothing of the process.
        unsafe { ask(ROLLBACK, self.handle, REPLAY) }.map(drop)
    }

    /// Has the process come back to it, in either way?
    ///
    /// # Errors
    /// EINVAL: this process does not have it (it is its parent's).
    pub fn has_come_back(&self) -> io::Result<bool> {
        // SAFETY: it changes nothing.
        unsafe { ask(HOW, self.handle, 0) }.map(|how| how != 0)
    }

    /// Forgets it, and gives its memory back.
    ///
    /// # Errors
    /// EINVAL: this process does not have it.
    pub fn discard(self) -> io::Result<()> {
        // SAFETY: it changes nothing but what the kernel keeps.
        unsafe { ask(DISCARD, self.handle, 0) }.map(drop)
    }
}
