//! The calls that the kernel makes as the program made them, because it remembers by which table a call came
//! or because the 64-bit call would do something else:
//!
//! - `sigaction` and its kind: the frame of a handler is of the table by which the handler was set.
//!   `sigreturn` belongs to that frame.
//! - `mmap`, `mremap`, `shmat`: a mapping must lie below 4 GiB.
//! - `clone` and its kind: the child begins with 32-bit registers, and its TLS is a segment.
//! - `set_thread_area`, `get_thread_area`: the x86-64 kernel answers ENOSYS to the 64-bit numbers.
//! - `getdents`: some file systems (ext4) give positions of 32 bits to 32-bit calls, and of 64 to others;
//!   C libraries of 32-bit programs fail where a position does not fit.
//! - `sigprocmask`: it leaves the signals above the first 32 as they are.
//! - `restart_syscall`: the kernel knows what is to go on.

use super::layout::Fields;
use super::room::{Made, Maker, Other, Own, refused};
use crate::errno::EINVAL;
use crate::model::Call;

const RT_SIGACTION: u64 = 13;
const SET_LEN: u64 = 8;

/// The call with these arguments, of which the plan is right.
fn planned<const N: usize>(nr: u64, given: [u64; N]) -> Made {
    own(nr, given, None, None)
}

/// The call with these arguments, which writes `len` bytes at `to` if that is not null.
fn writes<const N: usize>(nr: u64, given: [u64; N], to: u64, len: u64) -> Made {
    let outputs = if to == 0 { Vec::new() } else { vec![(to, len)] };
    own(nr, given, Some(outputs), None)
}

fn own<const N: usize>(
    nr: u64,
    given: [u64; N],
    outputs: Option<Vec<(u64, u64)>>,
    result_at: Option<u64>,
) -> Made {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&given);
    Err(Other::Own(Own { call: Call { nr, args }, outputs, result_at }))
}

/// A call with the same arguments in the same order, of which the plan is right.
pub(super) fn same(m: &mut Maker<'_>, nr: u64) -> Made {
    planned(nr, m.plain(nr).args)
}

/// i386: flags, stack, parent's word, TLS, child's word. x86-64 has the last two the other way round.
pub(super) fn clone(m: &mut Maker<'_>) -> Made {
    planned(56, [m.arg(0), m.arg(1), m.arg(2), m.arg(4), m.arg(3)])
}

/// The old action has 20 bytes: handler, flags, restorer, and a mask of 8 bytes.
pub(super) fn rt_sigaction(m: &mut Maker<'_>) -> Made {
    writes(RT_SIGACTION, [m.arg(0), m.arg(1), m.arg(2), m.arg(3)], m.arg(2), 20)
}

/// The old action has 16 bytes: handler, a mask of 4 bytes, flags, restorer.
pub(super) fn sigaction(m: &mut Maker<'_>) -> Made {
    writes(RT_SIGACTION, [m.arg(0), m.arg(1), m.arg(2), SET_LEN], m.arg(2), 16)
}

/// There is no structure: the second argument is the handler. The call here has null pointers.
pub(super) fn signal(m: &mut Maker<'_>) -> Made {
    writes(RT_SIGACTION, [m.arg(0), 0, 0, SET_LEN], 0, 0)
}

/// The old mask has 4 bytes.
pub(super) fn sigprocmask(m: &mut Maker<'_>) -> Made {
    writes(14, [m.arg(0), m.arg(1), m.arg(2), SET_LEN], m.arg(2), 4)
}

/// A `struct user_desc` of 16 bytes, of which the kernel may write the entry's number.
pub(super) fn set_thread_area(m: &mut Maker<'_>) -> Made {
    writes(205, [m.arg(0)], m.arg(0), 16)
}

pub(super) fn get_thread_area(m: &mut Maker<'_>) -> Made {
    writes(211, [m.arg(0)], m.arg(0), 16)
}

/// The offset is counted in pages.
pub(super) fn mmap2(m: &mut Maker<'_>) -> Made {
    planned(9, [m.arg(0), m.arg(1), m.arg(2), m.arg(3), m.arg(4), m.arg(5) << 12])
}

/// All arguments lie in memory, and the offset is counted in bytes.
pub(super) fn mmap(m: &mut Maker<'_>) -> Made {
    let bytes = m.read(m.arg(0), 24)?;
    let word = |i: usize| u64::from(Fields(&bytes).u32(4 * i));
    planned(9, [word(0), word(1), word(2), word(3), word(4), word(5)])
}

pub(super) fn shmat(m: &mut Maker<'_>) -> Made {
    planned(30, [m.arg(0), m.arg(1), m.arg(2)])
}

/// `ipc(SHMAT, id, flags, &result, address)`.
pub(super) fn ipc_shmat(m: &mut Maker<'_>) -> Made {
    let at = m.arg(3);
    own(30, [m.arg(1), m.arg(4), m.arg(2)], Some(vec![(at, 4)]), Some(at))
}

/// In the old layout of an entry the kernel itself makes the records, and they fit what the plan says.
pub(super) fn getdents(m: &mut Maker<'_>, nr: u64) -> Made {
    planned(nr, [m.arg(0), m.arg(1), m.arg(2)])
}

/// `struct clone_args` is the same in both tables.
pub(super) fn clone3(m: &mut Maker<'_>) -> Made {
    if m.raw(1) > 4096 {
        return refused(EINVAL, "a structure of clone3 that is larger than any kernel takes");
    }
    planned(435, [m.arg(0), m.arg(1)])
}
