//! Processes: waiting for them, what they used, and what they execute.

use super::layout::{Fields, Fresh};
use super::room::{Made, Maker, Other, When, made, refused};
use super::siginfo;
use super::time::narrow;
use crate::errno::{E2BIG, EINVAL};

/// The size of the x86-64 `struct rusage`: 18 longs.
const RUSAGE: u64 = 144;

const ARRAYS_TOO_LARGE: &str = "the arrays of arguments and environment are too large for the room";

/// The x86-64 table has only `wait4`.
pub(super) fn waitpid(m: &mut Maker<'_>) -> Made {
    made(61, [m.arg(0), m.arg(1), m.arg(2), 0])
}

/// The kernel writes the usage only with a child's status.
pub(super) fn wait4(m: &mut Maker<'_>) -> Made {
    let usage = match m.raw(3) {
        0 => 0,
        to => {
            let from = m.space(RUSAGE)?;
            m.piece(When::Positive, from, RUSAGE, to, narrow, false);
            from
        }
    };
    made(61, [m.arg(0), m.arg(1), m.arg(2), usage])
}

/// The kernel writes six numbers of the siginfo whatever the result is, and the usage only with a child's.
pub(super) fn waitid(m: &mut Maker<'_>) -> Made {
    let info = match m.raw(2) {
        0 => 0,
        to => m.lazy(When::Always, &[0xff; 128], to, siginfo::waited)?,
    };
    let usage = match m.raw(4) {
        0 => 0,
        to => m.lazy(When::Success, &[0xff; 144], to, narrow)?,
    };
    made(247, [m.arg(0), m.arg(1), info, m.arg(3), usage])
}

pub(super) fn getrusage(m: &mut Maker<'_>) -> Made {
    made(98, [m.arg(0), m.out(m.raw(1), RUSAGE, narrow)?])
}

/// The result is a number of clock ticks, of which the caller gets 32 bits.
pub(super) fn times(m: &mut Maker<'_>) -> Made {
    made(100, [m.out_opt(m.raw(0), 32, narrow)?])
}

pub(super) fn execve(m: &mut Maker<'_>) -> Made {
    made(59, [m.arg(0), m.pointers(1)?, m.pointers(2)?])
}

pub(super) fn execveat(m: &mut Maker<'_>) -> Made {
    made(322, [m.arg(0), m.arg(1), m.pointers(2)?, m.pointers(3)?, m.arg(4)])
}

impl Maker<'_> {
    /// The array of pointers in argument `i`, up to its null, with 8 bytes each. A null pointer is an empty
    /// array.
    fn pointers(&mut self, i: usize) -> Result<u64, Other> {
        if self.raw(i) == 0 {
            return Ok(0);
        }
        let mut wide = Vec::new();
        for at in (self.arg(i)..).step_by(4) {
            if u64::try_from(wide.len()).unwrap_or(u64::MAX) + 8 > self.left() {
                return refused(E2BIG, ARRAYS_TOO_LARGE);
            }
            let pointer = self.read_u32(at)?;
            wide.extend_from_slice(&u64::from(pointer).to_le_bytes());
            if pointer == 0 {
                break;
            }
        }
        self.put_or(&wide, E2BIG)
    }

    /// The `struct sock_fprog` that argument `i` points to: the number of a filter's instructions, which have
    /// one layout in both tables, and where they are.
    fn filter(&mut self, i: usize) -> Result<u64, Other> {
        let bytes = self.read(self.arg(i), 8)?;
        let narrow = Fields(&bytes);
        let mut wide = Fresh::new(16);
        wide.u16(0, narrow.u16(0));
        wide.u64(8, narrow.u32(4).into());
        self.put(&wide.0)
    }
}

/// prctl: nearly all options have numbers, or pointers to what has one layout.
pub(super) fn prctl(m: &mut Maker<'_>) -> Made {
    const PRCTL: u64 = 157;
    match m.raw(0) {
        // PR_SET_SECCOMP, with SECCOMP_MODE_FILTER.
        22 if m.raw(1) == 2 => made(PRCTL, [m.arg(0), m.arg(1), m.filter(2)?]),
        35 => refused(EINVAL, "PR_SET_MM has structures with pointers"),
        59 => refused(EINVAL, "PR_SET_SYSCALL_USER_DISPATCH would catch the calls that bis makes itself"),
        // Numbers, names, and pointers to an `int`. PR_GET_TID_ADDRESS stores 8 bytes in both tables. Options
        // of other processors are among them, and fail. The last two are PR_SET_VMA and PR_SET_PTRACER.
        1..=34 | 36..=58 | 60..=72 | 0x5356_4d41 | 0x5961_6d61 => Ok(m.plain(PRCTL)),
        _ => refused(EINVAL, "a prctl option whose arguments are not known"),
    }
}

/// Of a 32-bit program the kernel takes only the requests about `cpuid` and about the states that the
/// processor saves; segment bases are `set_thread_area`'s.
pub(super) fn arch_prctl(m: &mut Maker<'_>) -> Made {
    match m.raw(0) {
        0x1011 | 0x1012 | 0x1021..=0x1025 => Ok(m.plain(158)),
        _ => super::room::fails(EINVAL),
    }
}

/// Of its operations, SECCOMP_SET_MODE_FILTER alone has a structure with a pointer.
pub(super) fn seccomp(m: &mut Maker<'_>) -> Made {
    const SECCOMP: u64 = 317;
    match m.raw(0) {
        1 => made(SECCOMP, [m.arg(0), m.arg(1), m.filter(2)?]),
        _ => Ok(m.plain(SECCOMP)),
    }
}

/// The mask of a caller of the 32-bit table is a multiple of 4 bytes, and of the 64-bit one of 8.
pub(super) fn sched_getaffinity(m: &mut Maker<'_>) -> Made {
    const GETAFFINITY: u64 = 204;
    let len = m.raw(1);
    if len % 8 != 4 {
        return Ok(m.plain(GETAFFINITY));
    }
    let Some(wide) = len.checked_add(4).map(u64::from) else { return super::room::fails(EINVAL) };
    // No machine has so many processors.
    let wide = wide.min(0x8000);
    let mask = m.space(wide)?;
    let numbers = [mask, m.arg(2), len.into(), 0];
    m.back(
        When::Success,
        |after, [from, to, len, _]| {
            let written = after.count().min(len);
            let bytes = after.bytes(from, written)?;
            after.write(to, bytes);
            after.result = written.cast_signed();
            Ok(())
        },
        numbers,
    );
    made(GETAFFINITY, [m.arg(0), wide, mask])
}

/// `struct sigaltstack`: address, flags and size; 4 bytes each, and 8, 4 and 8.
pub(super) fn sigaltstack(m: &mut Maker<'_>) -> Made {
    let new = match m.arg(0) {
        0 => 0,
        at => {
            let bytes = m.read(at, 12)?;
            let stack = Fields(&bytes);
            let mut wide = Fresh::new(24);
            wide.u64(0, stack.u32(0).into());
            wide.u32(8, stack.u32(4));
            wide.u64(16, stack.u32(8).into());
            m.put(&wide.0)?
        }
    };
    let old = m.out_opt(m.raw(1), 24, |bytes| {
        let stack = Fields(bytes);
        let words = [stack.u32(0), stack.u32(8), stack.u32(16)];
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    })?;
    made(131, [new, old])
}
