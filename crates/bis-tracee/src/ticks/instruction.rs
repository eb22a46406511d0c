//! What a source must know of the instruction that a task stands at: is it a conditional branch, and may it
//! be single-stepped? Only opcodes are looked at (Intel SDM volume 2, appendix A); no operand is decoded.

/// An instruction's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// jcc, jrcxz, loop, loope, loopne: a conditional branch, whether it is taken or not.
    Branch,
    /// `pushf`: under a single step it would store the trap flag of the step. And `popf`: after a step over
    /// it, the kernel takes the flag of the next steps for the program's own, and leaves it set.
    Flags,
    /// `syscall`: under a single step it would leave the trap flag in r11.
    Call,
    Other,
}

/// Bytes of the longest instruction.
pub const LEN_MAX: usize = 15;

/// The prefixes that come before REX: operand size, address size, segments, lock and repeat.
const LEGACY: [u8; 11] = [0x66, 0x67, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0xf0, 0xf2, 0xf3];

/// The instruction at the beginning of these bytes, and for [`Class::Flags`] and [`Class::Call`] its length.
pub fn class(bytes: &[u8]) -> (Class, u64) {
    let prefixes = bytes.iter().take_while(|byte| LEGACY.contains(byte)).count();
    let rex = bytes.get(prefixes).is_some_and(|byte| byte & 0xf0 == 0x40);
    let prefixes = prefixes + usize::from(rex);
    let opcode = bytes.get(prefixes..).unwrap_or_default();
    match *opcode {
        [0x70..=0x7f | 0xe0..=0xe3, ..] | [0x0f, 0x80..=0x8f, ..] => (Class::Branch, 0),
        [0x9c | 0x9d, ..] => (Class::Flags, prefixes as u64 + 1),
        [0x0f, 0x05, ..] => (Class::Call, prefixes as u64 + 2),
        _ => (Class::Other, 0),
    }
}

/// How far above the stack pointer `popf` and `iret` find the flags that they load. None: this is neither.
pub fn loaded_flags(bytes: &[u8], is_narrow: bool) -> Option<u64> {
    let prefixes = bytes.iter().take_while(|byte| LEGACY.contains(byte)).count();
    let rex = bytes.get(prefixes).filter(|byte| !is_narrow && **byte & 0xf0 == 0x40);
    // Below the flags, `iret` has where it goes to: an address and a segment, each as large as the operand.
    let word = match rex {
        Some(rex) if rex & 8 != 0 => 8,
        _ if bytes[..prefixes].contains(&0x66) => 2,
        _ => 4,
    };
    match bytes.get(prefixes + usize::from(rex.is_some())) {
        Some(0x9d) => Some(0),
        Some(0xcf) => Some(2 * word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_known_with_any_prefix() {
        for bytes in [
            &[0x74, 0x02][..],
            &[0x7f, 0x80],
            &[0x0f, 0x84, 1, 0, 0, 0],
            &[0x2e, 0x75, 0],
            &[0xf2, 0x0f, 0x8f, 0, 0, 0, 0],
            &[0xe3, 0],
            &[0x67, 0xe3, 0],
            &[0xe2, 0xfe],
            &[0x66, 0x48, 0x70, 0],
        ] {
            assert_eq!(class(bytes).0, Class::Branch, "{bytes:x?}");
        }
        // jmp, call, cmov, setcc, a VEX instruction, and prefixes without an instruction.
        for bytes in [
            &[0xeb, 0][..],
            &[0xe8, 0, 0, 0, 0],
            &[0x0f, 0x44, 0xc0],
            &[0x0f, 0x94, 0xc0],
            &[0xc5, 0xf8, 0x77],
            &[0x66, 0x66],
            &[],
        ] {
            assert_eq!(class(bytes), (Class::Other, 0), "{bytes:x?}");
        }
    }

    #[test]
    fn what_must_not_be_stepped_is_known_with_its_length() {
        assert_eq!(class(&[0x9c]), (Class::Flags, 1));
        assert_eq!(class(&[0x9d]), (Class::Flags, 1));
        assert_eq!(class(&[0x66, 0x9c, 0x70]), (Class::Flags, 2));
        assert_eq!(class(&[0x0f, 0x05]), (Class::Call, 2));
        assert_eq!(class(&[0x48, 0x0f, 0x05]), (Class::Call, 3));
    }

    #[test]
    fn the_flags_lie_behind_two_words_or_at_once() {
        for (bytes, is_narrow, at) in [
            (&[0x9d][..], false, Some(0)),
            (&[0x66, 0x9d], false, Some(0)),
            (&[0xcf], false, Some(8)),
            (&[0x48, 0xcf], false, Some(16)),
            (&[0x66, 0xcf], false, Some(4)),
            (&[0x66, 0x48, 0xcf], false, Some(16)),
            (&[0xcf], true, Some(8)),
            (&[0x66, 0xcf], true, Some(4)),
            // dec eax; iret
            (&[0x48, 0xcf], true, None),
            (&[0x9c], false, None),
            (&[0x66], false, None),
            (&[], false, None),
        ] {
            assert_eq!(loaded_flags(bytes, is_narrow), at, "{bytes:x?}");
        }
    }
}
