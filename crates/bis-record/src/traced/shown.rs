//! The registers of a tracee as its tracer finds them at a stop, and what those mean that it sets there. It
//! looks at no process.
//!
//! What is shown is not always what the task has: the number of a call has its sign, a result of a 32-bit
//! program too, and a call that was interrupted looks as the kernel would have left it. What the tracer gives
//! back as it was shown must leave the task as it was.

use bis_syscalls::errno::{RESTART_BLOCK, RESTARTS, RESTARTSYS};
use bis_trace::types::{NARROW_TABLE, Registers};

use super::books::Kind;

const RESTART_SYSCALL: u64 = libc::SYS_restart_syscall.cast_unsigned();

/// The number of a call as a tracer finds it in `orig_rax`. The kernel takes the lower half of what a 64-bit
/// program has given; a negative one has its sign in the upper half, too, as programs give it.
fn number(regs: &Registers, nr: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of the register")]
    let low = nr as u32;
    if regs.is_narrow() || nr & NARROW_TABLE != 0 { nr } else { i64::from(low.cast_signed()).cast_unsigned() }
}

/// The registers that a task with these shows at a stop of this kind.
pub(super) fn at_stop(kind: Kind, regs: Registers) -> Registers {
    match kind {
        Kind::Entry { .. } => Registers { orig_rax: number(&regs, regs.orig_rax), ..regs },
        Kind::Within { nr } => {
            let rax = i64::from(-libc::ENOSYS).cast_unsigned();
            Registers { orig_rax: number(&regs, nr), rax, ..regs }
        }
        Kind::Exit { nr } => {
            let regs = Registers { orig_rax: number(&regs, nr), ..regs };
            // The kernel leaves the sign of a result, which only a 64-bit tracer sees.
            let rax = match regs.is_narrow() {
                true => regs.result_of(NARROW_TABLE).cast_unsigned(),
                false => regs.rax,
            };
            Registers { rax, ..regs }
        }
        Kind::Signal | Kind::Group | Kind::Event => regs,
    }
}

/// Those of a task whose tracer has asked it to stop, and that stands in front of a call which may wait: as
/// the kernel shows a call that it makes again afterwards.
pub(super) fn interrupted_at_entry(regs: Registers) -> Registers {
    Registers { rax: RESTARTSYS.cast_unsigned(), ..regs }
}

/// Those of a task that has been asked to stop in a call of this number.
pub(super) fn interrupted_in_call(nr: u64, regs: Registers) -> Registers {
    if regs.orig_rax != u64::MAX {
        return regs;
    }
    // The kernel has set it back to in front of the call.
    let result = if regs.rax == RESTART_SYSCALL { RESTART_BLOCK } else { RESTARTSYS };
    Registers { rip: regs.rip + 2, rax: result.cast_unsigned(), orig_rax: nr, ..regs }
}

/// The registers that a task gets whose tracer wants these, of those that it may have. The task has `before`,
/// which are `own` in the program's own text.
pub(super) fn set(kind: Kind, before: &Registers, own: &Registers, wanted: &Registers) -> Registers {
    let mut next = *wanted;
    // What it was shown for these was not what they are.
    if next.rip == own.rip {
        next.rip = before.rip;
    }
    let shown = match kind {
        Kind::Exit { nr } | Kind::Within { nr } => Some(nr),
        Kind::Entry { .. } => Some(before.orig_rax),
        Kind::Signal | Kind::Group | Kind::Event => None,
    };
    if shown.is_some_and(|nr| next.orig_rax == number(before, nr)) {
        next.orig_rax = before.orig_rax;
    }
    // It was shown the sign of a 32-bit result, which the task does not have.
    let low = |word: u64| word & u64::from(u32::MAX);
    if before.is_narrow() && low(next.rax) == low(before.rax) {
        next.rax = before.rax;
    }
    if let Kind::Within { .. } = kind {
        // The kernel puts the call's result there.
        next.rax = before.rax;
    }
    let Registers { cs, ss, ds, es, fs, gs, .. } = *before;
    Registers { cs, ss, ds, es, fs, gs, ..next }
}

/// The registers with which a task goes on from its stop that had `before` there, and is to have `next`.
/// `in_signal`: the stop is one at which the kernel sees to calls that are made again.
pub(super) fn behind_stop(before: &Registers, next: Registers, in_signal: bool) -> Registers {
    let is_again = RESTARTS.contains(&next.result());
    if in_signal && is_again && next.orig_rax.cast_signed() >= 0 {
        // The kernel would do this.
        let again = if next.is_narrow() { 0 } else { RESTART_SYSCALL };
        let rax = if next.result() == RESTART_BLOCK { again } else { next.orig_rax };
        return Registers { rax, rip: next.rip - 2, orig_rax: u64::MAX, ..next };
    }
    if !is_again && before.orig_rax.cast_signed() < 0 {
        // It may stand where the kernel would make a call of that number: one that was not made is told to
        // have come back from there.
        return Registers { orig_rax: before.orig_rax, ..next };
    }
    next
}

/// What becomes of the call at whose entry a task holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Changed {
    /// The kernel makes it, with these registers.
    Made(Registers),
    /// It is not made. The task goes on with these registers, wherever its tracer wants.
    NotMade(Registers),
}

impl Changed {
    /// `wanted`: what its tracer has set, where the entry has left `entry`. `is_emulated`: the call is not
    /// made, whatever that says.
    pub(super) fn of(entry: &Registers, wanted: &Registers, is_emulated: bool, is_narrow: bool) -> Changed {
        if is_emulated {
            return Changed::NotMade(Registers { orig_rax: u64::MAX, ..*wanted });
        }
        if wanted.orig_rax.cast_signed() < 0 {
            return Changed::NotMade(*wanted);
        }
        // Of a call that is made, the kernel has the result; of another one, its tracer. And what the
        // instruction of a 64-bit call has made of two registers, it makes of them again.
        let Registers { rip, rax, rcx, r11, .. } = *entry;
        let next = Registers { rip, rax, ..*wanted };
        Changed::Made(if is_narrow { next } else { Registers { rcx, r11, ..next } })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const READ: u64 = libc::SYS_read.cast_unsigned();

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            any::<u64>().prop_map(|nr| Kind::Entry { nr, args: [0; 6], is_emulated: false }),
            any::<u64>().prop_map(|nr| Kind::Exit { nr }),
            any::<u64>().prop_map(|nr| Kind::Within { nr }),
            Just(Kind::Signal),
            Just(Kind::Group),
            Just(Kind::Event),
        ]
    }

    proptest! {
        /// A tracer that sets what it was shown changes nothing, wherever the task stands in text that was
        /// patched.
        #[test]
        fn what_is_given_back_as_it_was_shown_changes_nothing(
            kind in kinds(),
            words in prop::array::uniform27(any::<u64>()),
            is_narrow in any::<bool>(),
            moved in 0u64..16,
        ) {
            let cs = if is_narrow { 0x23 } else { 0x33 };
            let before = Registers { cs, ..Registers::from_words(words) };
            let own = Registers { rip: before.rip.wrapping_add(moved), ..before };
            prop_assert_eq!(set(kind, &before, &own, &at_stop(kind, own)), before);
        }
    }

    #[test]
    fn a_call_that_was_interrupted_is_shown_where_the_kernel_would_restart_it() {
        let back = Registers { rip: 0x1000, rax: READ, orig_rax: u64::MAX, ..Registers::default() };
        let shown = interrupted_in_call(READ, back);
        assert_eq!((shown.rip, shown.result(), shown.orig_rax), (0x1002, RESTARTSYS, READ));
        let by_block = interrupted_in_call(READ, Registers { rax: RESTART_SYSCALL, ..back });
        assert_eq!(by_block.result(), RESTART_BLOCK);
        // One that stands in its call is shown as it is.
        assert_eq!(interrupted_in_call(READ, shown), shown);
    }

    #[test]
    fn a_restart_that_a_tracer_leaves_or_sets_is_carried_out_at_a_signal_alone() {
        let at = Registers {
            rip: 0x1002,
            orig_rax: READ,
            rax: RESTARTSYS.cast_unsigned(),
            ..Registers::default()
        };
        let again = behind_stop(&at, at, true);
        assert_eq!((again.rip, again.rax, again.orig_rax), (0x1000, READ, u64::MAX));
        assert_eq!(behind_stop(&at, at, false), at);
        let done = Registers { rax: 5, ..at };
        assert_eq!(behind_stop(&at, done, true), done, "the tracer has said its result");
        let out = Registers { orig_rax: u64::MAX, rax: 1, ..at };
        assert_eq!(behind_stop(&out, done, true).orig_rax, u64::MAX, "no call is made up");
    }

    #[test]
    fn a_call_of_another_number_is_made_where_the_task_stands_and_one_of_none_is_not() {
        let entry =
            Registers { rip: 0x1002, rcx: 0x1002, r11: 0x246, orig_rax: READ, ..Registers::default() };
        let wanted = Registers { rip: 0x5000, rcx: 1, r11: 2, rax: 7, rdi: 3, orig_rax: 39, ..entry };
        let made = Registers { rdi: 3, orig_rax: 39, ..entry };
        assert_eq!(Changed::of(&entry, &wanted, false, false), Changed::Made(made));
        let narrow = Registers { rcx: 1, r11: 2, ..made };
        assert_eq!(Changed::of(&entry, &wanted, false, true), Changed::Made(narrow));
        let none = Registers { orig_rax: u64::MAX, ..wanted };
        assert_eq!(Changed::of(&entry, &none, false, false), Changed::NotMade(none));
        assert_eq!(Changed::of(&entry, &wanted, true, false), Changed::NotMade(none));
    }
}
