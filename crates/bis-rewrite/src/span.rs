//! Spans: whole instructions from one address on that may give way to a jump, whatever they are.
//!
//! A [`crate::Run`] is chosen around a special instruction, for good. A span begins exactly where somebody
//! wants to look at a program each time it comes there, for a while ([`crate::conditional`]).
//!
//! After an x87 instruction in a span's copy, the processor remembers an address in the copy as the last such
//! instruction's. A caller that takes the copy away may want to correct that.
//!
//! In the middle of a run, nothing of the program may ever arrive, so only an analysis of the file finds one.
//! A span can do without. Where an instruction in its middle begins, the jump that takes its place has a byte
//! that is an `int3` when it is executed: its displacement is chosen so ([`Span::is_trap`]), by choosing
//! where the jump leads. Whoever arrives there traps, and is sent on to where that instruction has gone.

use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::{
    movable::{falls_through, movable_for_a_while as movable},
    run::{JUMP, Run},
};

const INT3: u8 = 0xcc;

/// What a jump out of a 32-bit program leads to lies below this: the last pages are not the program's.
const NARROW_END: u64 = 0xfff0_0000;

/// Whole instructions that may move together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    start: u64,
    bytes: Vec<u8>,
    /// 32 or 64.
    bits: u32,
}

impl Span {
    /// A span of these bytes at `start`; none if they are not 5 to [`Run::MAX`] bytes of whole instructions,
    /// each of which may move. Whether anything leads into the middle of them, only an analysis of the file
    /// can say ([`crate::Text::span_at`]).
    #[must_use]
    pub fn new(start: u64, bytes: &[u8]) -> Option<Self> {
        Self::of_bits(64, start, bytes)
    }

    fn of_bits(bits: u32, start: u64, bytes: &[u8]) -> Option<Self> {
        start.checked_add(bytes.len() as u64)?;
        let span = Self { start, bytes: bytes.to_vec(), bits };
        let instructions = span.instructions();
        let (_, before) = instructions.split_last()?;
        let sound = (JUMP..=Run::MAX).contains(&bytes.len())
            && instructions.iter().all(movable)
            && before.iter().all(falls_through);
        sound.then_some(span)
    }

    /// The shortest span at `start`, where memory begins with these bytes, which are of a program of so many
    /// bits (32 or 64). None where an instruction may not move.
    #[must_use]
    pub fn begin(bits: u32, start: u64, memory: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::with_ip(bits, memory, start, DecoderOptions::NONE);
        while decoder.can_decode() && decoder.position() < JUMP {
            let it = decoder.decode();
            if !movable(&it) || (decoder.position() < JUMP && !falls_through(&it)) {
                return None;
            }
        }
        Self::of_bits(bits, start, memory.get(..decoder.position())?)
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Is it of a 32-bit program?
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        self.bits == 32
    }

    /// Would a jump to `at` in the span's place trap whoever arrives in its middle?
    #[must_use]
    pub fn is_trap(&self, at: u64) -> bool {
        let distance = (at.wrapping_sub(self.start + JUMP as u64) as u32).to_le_bytes();
        self.interior().iter().all(|offset| distance.get(offset - 1).is_none_or(|byte| *byte == INT3))
    }

    /// Addresses to which a jump in the span's place would be such a trap, nearest kinds first; some tens of
    /// thousands at most. With `sure`, nobody arrives in the middle, and any address will do.
    pub fn places(&self, sure: bool) -> impl Iterator<Item = u64> + use<> {
        let interior = if sure { Vec::new() } else { self.interior() };
        let fixed = move |index: usize| interior.contains(&(index + 1));
        let bytes = |fixed: bool, free: &[u8]| if fixed { vec![INT3] } else { free.to_vec() };
        // Up to two gigabytes to both sides; within that, some places in each 16 MiB.
        let high: Vec<u8> = (0..0x7f).flat_map(|n| [n, 0xff - n]).collect();
        let third = bytes(fixed(2), &[0x10, 0x50, 0x90, 0xd0]);
        let second = bytes(fixed(1), &[0x20, 0xa0]);
        let low = bytes(fixed(0), &[0x40]);
        let high = bytes(fixed(3), &high);
        let end = self.start + JUMP as u64;
        let distances = high.into_iter().flat_map(move |high| {
            let (second, low) = (second.clone(), low.clone());
            third.clone().into_iter().flat_map(move |third| {
                let low = low.clone();
                second.clone().into_iter().flat_map(move |second| {
                    low.clone().into_iter().map(move |low| i32::from_le_bytes([low, second, third, high]))
                })
            })
        });
        // A 32-bit program's jump leads nowhere else.
        let limit = if self.is_narrow() { NARROW_END } else { u64::MAX };
        distances
            .filter_map(move |distance| end.checked_add_signed(distance.into()))
            .filter(move |at| *at < limit)
    }

    /// Where instructions after the first begin, bytes from the span's beginning.
    fn interior(&self) -> Vec<usize> {
        self.instructions().iter().skip(1).map(|it| (it.ip() - self.start) as usize).collect()
    }

    /// Address of the first byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Address just after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// What is there.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn instructions(&self) -> Vec<Instruction> {
        Decoder::with_ip(self.bits, &self.bytes, self.start, DecoderOptions::NONE).into_iter().collect()
    }
}
