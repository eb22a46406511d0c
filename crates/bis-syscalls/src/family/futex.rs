//! Futexes. The kernel identifies a futex by its address, so a futex word is never moved, whether or not the
//! call writes it.

use super::words::*;
use crate::describe::names::FUTEX_OPS;
use crate::plan::{Memory, Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(202, "futex", &[via("word", INOUT), named("op", &FUTEX_OPS), hex("val"), hex("timeout_or_val2"), via("word2", INOUT), hex("val3")], If(futex_waits)).sleeps(sleep).plan(futex).hooked_for(Rule::of(HookShape::Futex), &[]),
    call(273, "set_robust_list", &[ptr("head"), size("len")], Never).by(Handler::SetRobustList).hooked(Rule::PLAIN),
    call(274, "get_robust_list", &[int("tid"), out("head", Fixed(8)), out("len", Fixed(8))], Never),
    call(449, "futex_waitv", &[inp("waiters"), uint("count"), hex("flags"), inp("timeout"), int("clock")], May),
    call(454, "futex_wake", &[ptr("word"), hex("mask"), int("count"), hex("flags")], Never),
    call(455, "futex_wait", &[ptr("word"), hex("val"), hex("mask"), hex("flags"), inp("timeout"), int("clock")], May),
    call(456, "futex_requeue", &[inp("waiters"), hex("flags"), int("wake_count"), int("requeue_count")], Never),
];

/// What a lock's call does with the futex at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FutexUse {
    /// It waits for somebody to wake it.
    Wait(u64),
    /// It wakes those who wait.
    Wake(u64),
}

/// What a call does with a futex, if it does one of these two things. (The kernel itself hands a
/// priority-inheriting lock over; and who waits for two at once, or is moved from one to another, waits for
/// more than a lock.)
pub fn futex_use(call: &Call) -> Option<FutexUse> {
    match (call.nr, command(call)) {
        (202, 0 | 9) | (455, _) => Some(FutexUse::Wait(call.args[0])),
        (202, 1 | 10) | (454, _) => Some(FutexUse::Wake(call.args[0])),
        _ => None,
    }
}

/// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME are not part of the command.
fn command(call: &Call) -> u32 {
    call.u32(1) & 0x7f
}

/// WAIT 0, LOCK_PI 6, WAIT_BITSET 9, WAIT_REQUEUE_PI 11, LOCK_PI2 13.
fn futex_waits(call: &Call) -> bool {
    matches!(command(call), 0 | 6 | 9 | 11 | 13)
}

/// WAIT 0 and WAIT_BITSET 9 wait if the word has the value that they name.
fn sleep(call: &Call, mem: &dyn Memory) -> Option<Sleep> {
    const FLAGS: u32 = 0x180;
    let mut word = [0; 4];
    let is_wait = matches!(call.u32(1) & !FLAGS, 0 | 9);
    let is_read = is_wait && mem.read(call.args[0], &mut word);
    (is_read && u32::from_le_bytes(word) == call.u32(2)).then_some(Sleep::UntilWoken)
}

/// The words that the kernel itself changes: WAKE_OP (5) the second; the PI operations theirs (LOCK_PI 6,
/// UNLOCK_PI 7, TRYLOCK_PI 8, LOCK_PI2 13 the first; WAIT_REQUEUE_PI 11 and CMP_REQUEUE_PI 12 the second).
fn futex(b: &mut Builder<'_>) -> Verdict {
    let word = match command(b.call) {
        6 | 7 | 8 | 13 => 0,
        5 | 11 | 12 => 4,
        _ => return Ok(()),
    };
    let addr = b.call.args[usize::from(word)];
    let piece = b.piece(Slot::Arg(word), addr, 4, INOUT, Written::All, When::Always);
    b.pin(piece);
    Ok(())
}
