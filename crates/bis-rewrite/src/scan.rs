//! Search of code at every byte for what could be an address. It decides nothing: what it finds is judged
//! elsewhere.
//!
//! It looks at all the text of a file (tens of megabytes for some), and is most of the time that a first run
//! costs. So it asks a coarse question of 64 bytes at once, in loops that compilers turn into vector
//! instructions, and the exact one only where the answer was yes.

/// Bytes looked at together.
const BLOCK: usize = 64;

/// Every 4 bytes, at any alignment, that could be the displacement of a jump, call, `xbegin` or `lea`: their
/// offset and value.
pub(crate) fn displacements(code: &[u8]) -> impl Iterator<Item = (usize, i32)> + '_ {
    let first = (!code.is_empty()).then(|| (0, code[0])).filter(|(_, opcode)| matches!(opcode, 0xe8 | 0xe9));
    let opcodes = first.map(|_| 0).into_iter().chain(
        marked(code, 2, |two, marks| {
            for at in 0..BLOCK {
                let (before, last) = (two[at], two[at + 1]);
                let call_or_jump = last & 0xfe == 0xe8;
                let condition = (before == 0x0f) & (last & 0xf0 == 0x80);
                // modrm of operands relative to rip
                let lea = (before == 0x8d) & (last & 0xc7 == 0x05);
                let xbegin = (before == 0xc7) & (last == 0xf8);
                marks[at] = u8::from(call_or_jump | condition | lea | xbegin);
            }
        })
        // From the first of the two bytes to the last.
        .map(|at| at + 1),
    );
    opcodes.filter_map(move |at| {
        let four = code.get(at + 1..)?.first_chunk()?;
        Some((at + 1, i32::from_le_bytes(*four)))
    })
}

/// Every 4 bytes, at any alignment, that are a number of `low..high`: their offset and value.
pub(crate) fn numbers(code: &[u8], low: u64, high: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
    let half = |number: u64| u16::try_from(number >> 16).unwrap_or(u16::MAX);
    let (from, to) = (half(low), half(high));
    marked(code, 4, move |four, marks| {
        for at in 0..BLOCK {
            let upper = u16::from(four[at + 2]) | u16::from(four[at + 3]) << 8;
            marks[at] = u8::from((upper >= from) & (upper <= to));
        }
    })
    .filter_map(move |at| {
        let number = u64::from(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
        (low..high).contains(&number).then_some((at, number))
    })
}

/// The offsets that `mark` marks. It is given [`BLOCK`] bytes and `width - 1` (at most 3) of those that
/// follow, and sets marks to 0 or 1. Offsets at which fewer than `width` bytes are left are not given.
fn marked<'a>(
    code: &'a [u8],
    width: usize,
    mark: impl Fn(&[u8; BLOCK + 3], &mut [u8; BLOCK]) + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let end = (code.len() + 1).saturating_sub(width);
    (0..end).step_by(BLOCK).flat_map(move |start| {
        let mut marks = [0; BLOCK];
        match code[start..].first_chunk() {
            Some(block) => mark(block, &mut marks),
            None => {
                let rest = &code[start..];
                let mut padded = [0; BLOCK + 3];
                padded[..rest.len()].copy_from_slice(rest);
                mark(&padded, &mut marks);
            }
        }
        // One bit for each mark.
        let bits = marks.as_chunks::<8>().0.iter().enumerate().fold(0_u64, |bits, (index, eight)| {
            let gathered = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            bits | gathered << (index * 8)
        });
        std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
            .take_while(|bits| *bits != 0)
            .map(move |bits| start + bits.trailing_zeros() as usize)
            .filter(move |at| *at < end)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow_displacements(code: &[u8]) -> Vec<(usize, i32)> {
        let mut found = Vec::new();
        for at in 1..code.len().saturating_sub(3) {
            let last = code[at - 1];
            let before = if at >= 2 { code[at - 2] } else { 0 };
            let hit = match (before, last) {
                (_, 0xe8 | 0xe9) | (0x0f, 0x80..=0x8f) | (0xc7, 0xf8) => true,
                (0x8d, modrm) => modrm & 0xc7 == 5,
                _ => false,
            };
            if hit {
                found.push((at, i32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]])));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_loop_finds(
            code in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(0xe8), Just(0x0f), Just(0x85), Just(0x8d), Just(0x05), Just(0xc7), Just(0xf8)],
                0..300,
            )
        ) {
            prop_assert_eq!(displacements(&code).collect::<Vec<_>>(), slow_displacements(&code));
        }

        #[test]
        fn finds_every_number(
            code in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..3, Just(0x40)], 0..300),
            low in 0_u64..0x50_0000,
            len in 0_u64..0x200_0000,
        ) {
            let slow: Vec<(usize, u64)> = code
                .windows(4)
                .map(|four| u64::from(u32::from_le_bytes([four[0], four[1], four[2], four[3]])))
                .enumerate()
                .filter(|(_, number)| (low..low + len).contains(number))
                .collect();
            prop_assert_eq!(numbers(&code, low, low + len).collect::<Vec<_>>(), slow);
        }
    }
}
