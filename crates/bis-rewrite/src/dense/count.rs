//! The instructions that count. Two forms; both take one count from the word at `counter`, and run into an
//! `int3` of their own when none was left.
//!
//! The word is [`count_word`] of the counts that are left: 256 times them, plus 128. So whatever is left, the
//! subtraction leaves the same flags (all six are 0), but where it traps. A task that counts down from one
//! number and one that counts down from another cannot be told apart afterwards, although flags that nobody
//! looks at live on: `syscall` puts them into r11.
//!
//! The plain one changes the flags:
//!
//! | offset | |
//! | --- | --- |
//! | 0 | `sub qword [counter], 256` |
//! | 12 | `js` trap |
//! | 14 | the exit: a jump to where the program goes |
//! | trap | `int3` |
//!
//! The other keeps all flags, and puts rcx aside at `save` meanwhile. It knows a negative word by its highest
//! byte, which is -1 (the word never gets as low as -2^56):
//!
//! | offset | |
//! | --- | --- |
//! | 0 | `mov [save], rcx` |
//! | 8 | `mov rcx, [counter]` |
//! | 16 | `lea rcx, [rcx-256]` |
//! | 23 | `mov [counter], rcx` |
//! | 31 | `movsx ecx, byte [counter+7]` |
//! | 39 | `lea ecx, [rcx+1]` |
//! | 42 | `jrcxz` cold |
//! | 44 | `mov rcx, [save]` |
//! | 52 | the exit |
//! | cold | `mov rcx, [save]`, then the trap: `int3` |
//!
//! Neither touches the stack. `save` is in use between the first instruction and the restoring one only, and
//! belongs to the address space: whoever stops a task there leads it out ([`Stage`] says how) before another
//! task of the address space runs.

/// What one count takes from the word.
const UNIT: u32 = 256;

/// The status flags: what a plain count leaves is that they are 0, but where it traps; a task that goes on
/// from there clears them.
pub const STATUS_FLAGS: u64 = 0x8d5;

/// The most counts that a word can hold.
pub const COUNTS_MAX: u64 = 1 << 54;

/// The word that lets so many counts pass (at most [`COUNTS_MAX`]); the next one traps.
#[must_use]
pub const fn count_word(left: u64) -> u64 {
    left * UNIT as u64 + UNIT as u64 / 2
}

/// How many counts a word lets pass; -1 after a trap.
#[must_use]
pub const fn counts_left(word: u64) -> i64 {
    (word as i64).div_euclid(UNIT as i64)
}

/// The words that counts use. Addresses, both multiples of 8 below 2 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub counter: u32,
    pub save: u32,
}

/// How far a count has come at an address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// One was taken from the word.
    pub taken: bool,
    /// rcx has its value at `save`.
    pub restore: bool,
    /// It is the trap.
    pub trap: bool,
}

/// Where the exit is.
pub(super) const fn exit(keep_flags: bool) -> usize {
    if keep_flags { 52 } else { 14 }
}

/// Where the trap is, if the exit has `len` bytes.
pub(super) const fn trap(keep_flags: bool, len: usize) -> usize {
    exit(keep_flags) + len + if keep_flags { 8 } else { 0 }
}

/// Bytes of a count whose exit has `len` bytes.
pub(super) const fn size(keep_flags: bool, len: usize) -> usize {
    trap(keep_flags, len) + 1
}

/// What comes before the exit.
pub(super) fn head(out: &mut Vec<u8>, words: Words, keep_flags: bool, exit_len: usize) {
    let first = out.len();
    let mut put = |opcode: &[u8], word: u32| {
        out.extend(opcode);
        out.extend(word.to_le_bytes());
    };
    if keep_flags {
        put(&[0x48, 0x89, 0x0c, 0x25], words.save);
        put(&[0x48, 0x8b, 0x0c, 0x25], words.counter);
        out.extend([0x48, 0x8d, 0x89]);
        out.extend((-(UNIT as i32)).to_le_bytes());
        let mut put = |opcode: &[u8], word: u32| {
            out.extend(opcode);
            out.extend(word.to_le_bytes());
        };
        put(&[0x48, 0x89, 0x0c, 0x25], words.counter);
        put(&[0x0f, 0xbe, 0x0c, 0x25], words.counter + 7);
        out.extend([0x8d, 0x49, 0x01]);
        out.extend([0xe3, 8 + exit_len as u8]);
        restore(out, words);
    } else {
        put(&[0x48, 0x81, 0x2c, 0x25], words.counter);
        out.extend(UNIT.to_le_bytes());
        out.extend([0x78, exit_len as u8]);
    }
    debug_assert_eq!(out.len() - first, exit(keep_flags));
}

/// What comes after the exit.
pub(super) fn tail(out: &mut Vec<u8>, words: Words, keep_flags: bool) {
    if keep_flags {
        restore(out, words);
    }
    out.push(0xcc);
}

fn restore(out: &mut Vec<u8>, words: Words) {
    out.extend([0x48, 0x8b, 0x0c, 0x25]);
    out.extend(words.save.to_le_bytes());
}

/// How far a count has come that stands at `offset`; none if no instruction is there.
pub(super) fn stage(keep_flags: bool, exit_len: usize, offset: usize) -> Option<Stage> {
    let stage = |taken, restore| Some(Stage { taken, restore, trap: false });
    if offset == trap(keep_flags, exit_len) {
        return Some(Stage { taken: true, restore: false, trap: true });
    }
    match (keep_flags, offset) {
        (false, 0) | (true, 0 | 8) => stage(false, false),
        (false, 12 | 14) | (true, 52) => stage(true, false),
        (true, 16 | 23) => stage(false, true),
        (true, 31 | 39 | 42 | 44) => stage(true, true),
        (true, offset) if offset == exit(true) + exit_len => stage(true, true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    use super::*;

    #[test]
    fn a_word_traps_when_none_is_left() {
        assert_eq!(counts_left(count_word(5)), 5);
        assert_eq!(counts_left(count_word(0)), 0);
        assert_eq!(counts_left(count_word(0).wrapping_sub(UNIT.into())), -1);
        assert!(count_word(0).wrapping_sub(UNIT.into()).cast_signed() < 0);
        assert_eq!(counts_left(count_word(COUNTS_MAX)), COUNTS_MAX.cast_signed());
    }

    /// The tables above are what is emitted: an instruction begins exactly where there is a stage.
    #[test]
    fn every_instruction_is_a_stage() {
        let words = Words { counter: 0x7000_1000, save: 0x7000_1008 };
        for keep in [false, true] {
            for exit_code in [&[0xe9, 0, 0, 0, 0][..], &[0xff, 0xe0], &[0xff, 0x24, 0xc5, 0, 0, 0, 0]] {
                let mut bytes = Vec::new();
                head(&mut bytes, words, keep, exit_code.len());
                bytes.extend(exit_code);
                tail(&mut bytes, words, keep);
                assert_eq!(bytes.len(), size(keep, exit_code.len()));
                let all: Vec<_> = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).into_iter().collect();
                assert!(all.iter().all(|it| !it.is_invalid()));
                for offset in 0..=bytes.len() {
                    let begins = all.iter().find(|it| it.ip() == offset as u64);
                    let stage = stage(keep, exit_code.len(), offset);
                    assert_eq!(begins.is_some(), stage.is_some(), "{keep} {offset}");
                    let trap = begins.is_some_and(|it| it.mnemonic() == Mnemonic::Int3);
                    assert_eq!(trap, stage.is_some_and(|stage| stage.trap));
                }
                let to_trap = all.iter().find(|it| matches!(it.mnemonic(), Mnemonic::Js | Mnemonic::Jrcxz));
                let cold = trap(keep, exit_code.len()) - if keep { 8 } else { 0 };
                assert_eq!(to_trap.map(|it| it.near_branch64()), Some(cold as u64));
            }
        }
    }
}
