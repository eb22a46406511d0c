//! Every x86-64 system call of Linux 6.18 in one table, and the pure description of the memory that each call
//! reads and writes.
//!
//! A call has one row ([`row`]): its number, name, arguments, whether it can block ([`may_block`]), who
//! records it ([`How`]), and what a reader should know. From the row comes the plan of a call ([`plan`]): the
//! pieces of memory behind its pointers; and after the call the bytes that the kernel wrote
//! ([`Plan::outputs`]). Where an argument's kind is not enough (vectors, messages, ioctl, ...) a function in
//! the family's file under `family/` makes the plan. The text for people comes from the same rows
//! ([`describe()`], [`markdown`]).
//!
//! Beside the table: what a program's own seccomp filters say of a call ([`sandbox`]); the call that bis
//! itself answers ([`own`]); and the calls of 32-bit programs, said in the words of this table ([`narrow`]).
//!
//! This crate knows nothing of ptrace, of traces, or of how the recorder works, and does no IO: the
//! task's memory is the trait [`Memory`]. What is not known is never guessed: it is [`Planned::Slow`], and
//! the recorder then compares all memory. The sizes are those of the kernel's x86-64 ABI, not of a C library.

#![forbid(unsafe_code)]

mod arguments;
mod describe;
mod docs;
pub mod errno;
mod family;
mod hooks;
mod model;
pub mod narrow;
pub mod own;
mod plan;
pub mod sandbox;

use std::sync::LazyLock;

pub use arguments::{
    LimitCall, MakesTask, MovedBytes, OpenFlags, Opens, Receiver, Sleep, SleepFn, Transfer, Vdso,
};
pub use describe::describe;
pub use docs::markdown;
pub use errno::errno_name;
pub use family::futex::{FutexUse, futex_use};
pub use hooks::{Hook, HookMakes, HookPiece, HookShape, HookWait, Hooked, Rule, hook};
pub use model::{Arg, Blocks, Call, FileArg, Handler, How, Kind, Names, PlanFn, Row, Size, Start, Target};
pub use plan::{
    Builder, Count, Dir, Memory, Output, Piece, Plan, Planned, RW_MAX, Slot, Stop, Verdict, When, Written,
};

static TABLE: LazyLock<Vec<&'static Row>> = LazyLock::new(|| {
    let mut rows: Vec<&'static Row> = family::FAMILIES.iter().copied().flatten().collect();
    rows.sort_by_key(|row| row.nr);
    rows
});

/// The instruction `syscall`, which makes a call of the 64-bit table.
pub const SYSCALL_INSN: [u8; 2] = [0x0f, 0x05];

/// `int $0x80`, which makes a call of the 32-bit table ([`narrow`]).
pub const INT80_INSN: [u8; 2] = [0xcd, 0x80];

/// Numbers in the table are below this.
const NR_END: usize = 512;

static BY_NUMBER: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
    let mut slots = vec![None; NR_END];
    for row in TABLE.iter().copied() {
        if let Some(slot) = usize::try_from(row.nr).ok().and_then(|nr| slots.get_mut(nr)) {
            *slot = Some(row);
        }
    }
    slots
});

/// All rows, by number.
pub fn rows() -> &'static [&'static Row] {
    &TABLE
}

/// The row of a call number; none for a number that Linux 6.18 does not know (answer ENOSYS).
pub fn row(nr: u64) -> Option<&'static Row> {
    usize::try_from(nr).ok().and_then(|nr| BY_NUMBER.get(nr).copied().flatten())
}

/// Added to a number of the 32-bit table, where it stands among those of the other.
pub const NARROW_TABLE: u64 = 1 << 32;

/// The number in the 32-bit table, if that is meant. (A program's register may hold anything, with more
/// bits.)
pub(crate) fn narrow_number(nr: u64) -> Option<u32> {
    nr.checked_sub(NARROW_TABLE).and_then(|number| u32::try_from(number).ok())
}

/// The name of a call, of whichever table.
pub fn name(nr: u64) -> Option<&'static str> {
    match narrow_number(nr) {
        Some(number) => narrow::name(number),
        None => row(nr).map(|row| row.name),
    }
}

/// The memory that a call will touch. To be asked right before the call is made, with the task stopped: the
/// plan follows pointers through `mem` as the kernel will. It never fails: memory that cannot be read leaves
/// its part of the plan out, because the kernel will fail there too.
pub fn plan(call: &Call, mem: &dyn Memory) -> Planned {
    let Some(row) = row(call.nr) else {
        return Planned::Refuse(errno::ENOSYS, "Linux 6.18 has no such system call");
    };
    match row.how {
        How::Refused(errno) => return Planned::Refuse(errno, row.note),
        How::Slow => return Planned::Slow(row.note),
        How::Plain | How::Recorder(_) => {}
    }
    let mut builder = Builder::new(call, row, mem);
    let verdict = match row.family {
        Some(family) => family(&mut builder),
        None => {
            builder.by_kinds();
            Ok(())
        }
    };
    match verdict {
        Ok(()) => Planned::Plan(builder.finish()),
        Err(Stop::Slow(why)) => Planned::Slow(why),
        Err(Stop::Refuse(errno, why)) => Planned::Refuse(errno, why),
    }
}

/// Whether the call, with these arguments, can wait for what another task does. True where it depends on the
/// descriptor ([`blocks_by_fd`]).
pub fn may_block(call: &Call) -> bool {
    match row(call.nr).map(|row| row.blocks) {
        None | Some(Blocks::Never) => false,
        Some(Blocks::May | Blocks::ByFd) => true,
        Some(Blocks::If(f) | Blocks::ByFdIf(f)) => f(call),
    }
}

/// Does the call end with EINTR whatever the signal does that has interrupted it?
pub fn is_never_restarted(nr: u64) -> bool {
    row(nr).is_some_and(|row| !row.restarts)
}

/// The descriptor on which it depends whether the call can wait: it cannot if this is, for example, a regular
/// file or is in non-blocking mode. None where it does not depend on a descriptor.
pub fn blocks_by_fd(call: &Call) -> Option<i32> {
    match row(call.nr)?.blocks {
        Blocks::ByFd => Some(call.i32(0)),
        Blocks::ByFdIf(f) => f(call).then(|| call.i32(0)),
        _ => None,
    }
}
