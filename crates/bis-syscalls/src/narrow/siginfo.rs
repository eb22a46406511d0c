//! `siginfo_t`: 128 bytes in both layouts. After three numbers (signal, errno, code) comes a union, at 12 in
//! the 32-bit layout and at 16 in the 64-bit one. Which of its members it holds the signal and the code say.

use super::layout::{Fields, Fresh, low, signed};

const LEN: usize = 128;
/// Where the union begins.
const NARROW: usize = 12;
const WIDE: usize = 16;

const SI_TIMER: i32 = -2;
const SI_SIGIO: i32 = -5;
const SI_KERNEL: i32 = 0x80;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
const SIGCHLD: i32 = 17;
const SIGPOLL: i32 = 29;
const SIGSYS: i32 = 31;

/// A field of a member: its kind and its offsets in the union of both layouts.
#[derive(Clone, Copy)]
enum Field {
    /// Four bytes.
    Word(usize, usize),
    /// A signed long.
    Long(usize, usize),
    /// A pointer, or a value that may be one.
    Pointer(usize, usize),
}

use Field::{Long, Pointer, Word};

const PROCESS: &[Field] = &[Word(0, 0), Word(4, 4)];
/// Process and user, or timer and overruns; then the value.
const VALUE: &[Field] = &[Word(0, 0), Word(4, 4), Pointer(8, 8)];
const CHILD: &[Field] = &[Word(0, 0), Word(4, 4), Word(8, 8), Long(12, 16), Long(16, 24)];
const POLL: &[Field] = &[Long(0, 0), Word(4, 8)];
const SYSCALL: &[Field] = &[Pointer(0, 0), Word(4, 8), Word(8, 12)];
const FAULT: &[Field] = &[Pointer(0, 0)];
/// With the last bits of the address.
const POISON: &[Field] = &[Pointer(0, 0), Word(4, 8)];
const BOUNDS: &[Field] = &[Pointer(0, 0), Pointer(8, 16), Pointer(12, 24)];
const KEY: &[Field] = &[Pointer(0, 0), Word(8, 16)];
const PERF: &[Field] = &[Pointer(0, 0), Pointer(4, 8), Word(8, 16), Word(12, 20)];

/// The member of the union that a signal with this code has.
fn member(signal: i32, code: i32) -> &'static [Field] {
    match (signal, code) {
        (_, SI_TIMER) => VALUE,
        (_, SI_SIGIO) => POLL,
        (_, ..0) => VALUE,
        (_, 0 | SI_KERNEL..) => PROCESS,
        (SIGSEGV, 3) => BOUNDS,
        (SIGSEGV, 4) => KEY,
        (SIGBUS, 4 | 5) => POISON,
        (SIGTRAP, 6) => PERF,
        (SIGILL | SIGTRAP | SIGBUS | SIGFPE | SIGSEGV, _) => FAULT,
        (SIGCHLD, 1..=6) => CHILD,
        (SIGSYS, 1 | 2) => SYSCALL,
        (SIGPOLL, _) | (_, 1..=6) => POLL,
        _ => PROCESS,
    }
}

/// The 32-bit layout of a 64-bit siginfo.
pub fn narrowed(bytes: &[u8]) -> Vec<u8> {
    let wide = Fields(bytes);
    let mut narrow = Fresh::new(LEN);
    narrow.put(0, &bytes[..NARROW]);
    for field in member(wide.i32(0), wide.i32(8)) {
        match *field {
            Word(to, from) => narrow.u32(NARROW + to, wide.u32(WIDE + from)),
            Long(to, from) | Pointer(to, from) => narrow.u32(NARROW + to, low(wide.u64(WIDE + from))),
        }
    }
    narrow.0
}

pub(super) fn shape(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    Ok(narrowed(bytes))
}

/// The 64-bit layout of a 32-bit siginfo.
pub fn widened(bytes: &[u8]) -> Vec<u8> {
    let narrow = Fields(bytes);
    let mut wide = Fresh::new(LEN);
    wide.put(0, &bytes[..NARROW]);
    for field in member(narrow.i32(0), narrow.i32(8)) {
        match *field {
            Word(from, to) => wide.u32(WIDE + to, narrow.u32(NARROW + from)),
            Long(from, to) => wide.u64(WIDE + to, signed(narrow.u32(NARROW + from))),
            Pointer(from, to) => wide.u64(WIDE + to, narrow.u32(NARROW + from).into()),
        }
    }
    wide.0
}

/// What `waitid` stores: signal, errno, code; process, user, status. It leaves the rest alone.
pub(super) fn waited(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    Ok([&bytes[..12], &bytes[WIDE..WIDE + 12]].concat())
}
