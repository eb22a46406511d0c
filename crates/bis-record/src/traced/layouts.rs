//! How registers, signals and descriptors lie in a tracer's memory. Pure: values in, bytes out.
//!
//! There are two layouts. What a request gives is laid out for the table of the tracer's own call, but for
//! the sets of PTRACE_GETREGSET: these are laid out for the program that the tracee executes.

use std::ops::Range;

use bis_syscalls::{errno::is_kernels_own, narrow};
use bis_trace::types::{REGISTER_COUNT, Registers};

/// Of the extended state, what FXSAVE knows.
pub(super) const FXSAVE_LEN: usize = 512;
/// `siginfo_t`, in both.
pub(super) const SIGINFO_LEN: usize = 128;
/// Where the header of the extended state says which parts of it are not as they are at first, and the bits
/// of those that FXSAVE knows.
const PARTS: usize = 512;
const FXSAVE_PARTS: u8 = 0b11;

const WIDE_WORD: usize = 8;
const NARROW_WORD: usize = 4;

/// Where the numbers of the x87 registers are in FXSAVE's area, how far apart, and how long each is.
const STACK: usize = 32;
const STACK_STEP: usize = 16;
const STACK_LEN: usize = 10;
const STACK_COUNT: usize = 8;
/// What FSAVE writes in front of them, in words of 32 bits: control, status, tags, the last instruction and
/// its segment, the last operand and its segment.
const FSAVE_WORDS: usize = 7;
const FSAVE_LEN: usize = FSAVE_WORDS * NARROW_WORD + STACK_COUNT * STACK_LEN;

/// The bits of `struct user_desc` behind its base and limit.
const FLAGS_KNOWN: u32 = 0x7f;
const SEG_32BIT: u32 = 1;
const CONTENTS_CODE: u32 = 0b100;
const SEG_NOT_PRESENT: u32 = 1 << 5;
/// Not to be written, and not there: what an entry says that has nothing in it.
const FLAGS_EMPTY: u32 = 1 << 3 | SEG_NOT_PRESENT;
const LIMIT_MAX: u32 = 0xf_ffff;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    Wide,
    Narrow,
}

impl Layout {
    /// The layout of the program that is executed with these registers.
    pub fn of(regs: &Registers) -> Layout {
        if regs.is_narrow() { Layout::Narrow } else { Layout::Wide }
    }

    /// Bytes of a word.
    pub fn word(self) -> usize {
        match self {
            Layout::Wide => WIDE_WORD,
            Layout::Narrow => NARROW_WORD,
        }
    }

    /// Bytes of the registers that `struct user` begins with.
    pub fn registers_len(self) -> usize {
        match self {
            Layout::Wide => REGISTER_COUNT * WIDE_WORD,
            Layout::Narrow => 17 * NARROW_WORD,
        }
    }

    /// Bytes of all of `struct user`.
    pub fn user_len(self) -> u64 {
        match self {
            // What the kernel's has behind that of the C library reads as 0.
            Layout::Wide => 928,
            Layout::Narrow => 284,
        }
    }

    /// Where in that the debug registers are.
    fn debug_registers(self) -> Range<u64> {
        match self {
            Layout::Wide => 848..912,
            Layout::Narrow => 252..284,
        }
    }

    /// The number of the debug register at this offset of `struct user`, if one is there.
    pub fn debug_number(self, offset: u64) -> Option<usize> {
        let (place, word) = (self.debug_registers(), self.word() as u64);
        let is_one = place.contains(&offset) && offset.is_multiple_of(word);
        usize::try_from(offset.checked_sub(place.start).filter(|_| is_one)? / word).ok()
    }

    /// A word as a tracer has given it.
    pub fn bytes_of_word(self, word: u64) -> Vec<u8> {
        word.to_le_bytes()[..self.word()].to_vec()
    }

    pub fn registers(self, regs: &Registers) -> Vec<u8> {
        let words: Vec<u64> = match self {
            Layout::Wide => regs.words().to_vec(),
            Layout::Narrow => narrow_words(&mut regs.clone()).into_iter().map(|word| *word).collect(),
        };
        words.into_iter().flat_map(|word| self.bytes_of_word(word)).collect()
    }

    /// These bytes of registers in place of those from `at` on. None: there are not so many.
    pub fn put_registers(self, regs: &mut Registers, at: usize, data: &[u8]) -> Option<()> {
        let mut bytes = self.registers(regs);
        bytes.get_mut(at..at.checked_add(data.len())?)?.copy_from_slice(data);
        let chunks = bytes.chunks_exact(self.word());
        if self == Layout::Wide {
            let mut words = [0; REGISTER_COUNT];
            for (word, chunk) in words.iter_mut().zip(chunks) {
                *word = u64::from_le_bytes(chunk.try_into().ok()?);
            }
            *regs = Registers::from_words(words);
            return Some(());
        }
        let given = at..at + data.len();
        for (i, (word, chunk)) in narrow_words(regs).into_iter().zip(chunks).enumerate() {
            if given.contains(&(i * NARROW_WORD)) {
                *word = u32::from_le_bytes(chunk.try_into().ok()?).into();
            }
        }
        let signed = |word: u64| i64::from(low(word).cast_signed()).cast_unsigned();
        // The kernel takes this number for a negative one where it looks whether there is a call at all, and
        // this result where that asks for the call to be made again.
        if given.contains(&(NARROW_ORIG_RAX * NARROW_WORD)) {
            regs.orig_rax = signed(regs.orig_rax);
        }
        if given.contains(&(NARROW_RAX * NARROW_WORD)) && is_kernels_own(signed(regs.rax).cast_signed()) {
            regs.rax = signed(regs.rax);
        }
        Some(())
    }

    /// The x87 registers and, for 64-bit programs, those of SSE, of this extended state.
    pub fn floating(self, regs: &Registers, xstate: &[u8]) -> Option<Vec<u8>> {
        let area = xstate.get(..FXSAVE_LEN)?;
        Some(match self {
            Layout::Wide => area.to_vec(),
            Layout::Narrow => fsave(regs, area),
        })
    }

    pub fn floating_len(self) -> usize {
        match self {
            Layout::Wide => FXSAVE_LEN,
            Layout::Narrow => FSAVE_LEN,
        }
    }

    /// These bytes of them instead, from the first on. None: there are not so many.
    pub fn put_floating(self, regs: &Registers, xstate: &mut [u8], data: &[u8]) -> Option<()> {
        let mut bytes = self.floating(regs, xstate)?;
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        match self {
            Layout::Wide => xstate.get_mut(..FXSAVE_LEN)?.copy_from_slice(&bytes),
            Layout::Narrow => put_fsave(xstate.get_mut(..FXSAVE_LEN)?, &bytes),
        }
        *xstate.get_mut(PARTS)? |= FXSAVE_PARTS;
        Some(())
    }

    pub fn siginfo(self, info: &[u8; SIGINFO_LEN]) -> Vec<u8> {
        match self {
            Layout::Wide => info.to_vec(),
            Layout::Narrow => narrow::siginfo_narrowed(info),
        }
    }

    pub fn siginfo_of(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Layout::Wide => bytes,
            Layout::Narrow => narrow::siginfo_widened(&bytes),
        }
    }
}

/// The low half.
fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

const NARROW_RAX: usize = 6;
const NARROW_ORIG_RAX: usize = 11;

/// The registers of 32-bit programs, in the order in which these find them.
fn narrow_words(r: &mut Registers) -> [&mut u64; 17] {
    [
        &mut r.rbx,
        &mut r.rcx,
        &mut r.rdx,
        &mut r.rsi,
        &mut r.rdi,
        &mut r.rbp,
        &mut r.rax,
        &mut r.ds,
        &mut r.es,
        &mut r.fs,
        &mut r.gs,
        &mut r.orig_rax,
        &mut r.rip,
        &mut r.cs,
        &mut r.eflags,
        &mut r.rsp,
        &mut r.ss,
    ]
}

/// What FSAVE tells of a register: a number, zero, something else that it holds, nothing.
fn tag(number: &[u8]) -> u32 {
    let word = |at: usize| u16::from_le_bytes([number[at], number[at + 1]]);
    let is_normal = word(6) & 0x8000 != 0;
    match word(8) & 0x7fff {
        0 if number[..8].iter().all(|byte| *byte == 0) => 1,
        0 | 0x7fff => 2,
        _ if is_normal => 0,
        _ => 2,
    }
}

const TAG_EMPTY: u32 = 3;

/// As FSAVE would write what FXSAVE has written (Intel SDM volume 1, 8.1.10 and 10.5.1).
fn fsave(regs: &Registers, area: &[u8]) -> Vec<u8> {
    let word = |at: usize| u16::from_le_bytes([area[at], area[at + 1]]);
    let long = |at: usize| u32::from_le_bytes([area[at], area[at + 1], area[at + 2], area[at + 3]]);
    let numbers = || (0..STACK_COUNT).map(|i| &area[STACK + i * STACK_STEP..][..STACK_LEN]);
    let (control, status, used) = (word(0), word(2), area[4]);
    let top = usize::from(status >> 11 & 7);
    let tags = (0..STACK_COUNT).fold(0, |tags, i| {
        // FXSAVE has the registers from the top of their stack on, and their tags from the first on.
        let number = numbers().nth((i + STACK_COUNT - top) % STACK_COUNT).unwrap_or_default();
        let tag = if used & 1 << i == 0 { TAG_EMPTY } else { tag(number) };
        tags | tag << (2 * i)
    });
    const UPPER: u32 = 0xffff_0000;
    let head: [u32; FSAVE_WORDS] = [
        UPPER | u32::from(control),
        UPPER | u32::from(status),
        UPPER | tags,
        long(8),
        // The kernel knows no other segments than the task's own.
        low(regs.cs),
        long(16),
        UPPER | low(regs.ds),
    ];
    head.into_iter().flat_map(u32::to_le_bytes).chain(numbers().flatten().copied()).collect()
}

fn put_fsave(area: &mut [u8], bytes: &[u8]) {
    let (head, numbers) = bytes.split_at(FSAVE_WORDS * NARROW_WORD);
    let half =
        |word: usize, upper: usize| [head[word * NARROW_WORD + upper], head[word * NARROW_WORD + upper + 1]];
    area[0..2].copy_from_slice(&half(0, 0));
    area[2..4].copy_from_slice(&half(1, 0));
    let tags = u16::from_le_bytes(half(2, 0));
    let used =
        (0..8).filter(|i| u32::from(tags >> (2 * i) & 3) != TAG_EMPTY).fold(0, |used, i| used | 1 << i);
    area[4..6].copy_from_slice(&[used, 0]);
    // The last opcode is in the upper half of the segment.
    area[6..8].copy_from_slice(&half(4, 2));
    for (to, word) in [(8, 3), (16, 5)] {
        area[to..to + 4].copy_from_slice(&head[word * NARROW_WORD..][..4]);
        area[to + 4..to + 8].fill(0);
    }
    for (i, number) in numbers.chunks_exact(STACK_LEN).enumerate() {
        area[STACK + i * STACK_STEP..][..STACK_LEN].copy_from_slice(number);
    }
}

/// This descriptor of thread-local storage, as the kernel says it of the entry of that number once it was
/// set. None: the kernel does not take it.
pub(super) fn segment_told(entry: u32, descriptor: &[u8; 16]) -> Option<[u8; 16]> {
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| descriptor[at + i]));
    let (base, limit, flags) = (word(4), word(8), word(12) & FLAGS_KNOWN);
    let is_empty = base == 0 && limit == 0 && (flags == 0 || flags == FLAGS_EMPTY);
    let may_be = flags & SEG_32BIT != 0 && flags & CONTENTS_CODE == 0 && flags & SEG_NOT_PRESENT == 0;
    let told = match (is_empty, may_be) {
        (true, _) => [entry, 0, 0, FLAGS_EMPTY],
        (false, true) => [entry, base, limit & LIMIT_MAX, flags],
        (false, false) => return None,
    };
    let mut bytes = [0; 16];
    for (place, word) in bytes.chunks_exact_mut(4).zip(told) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Some(bytes)
}

/// The base of a descriptor of thread-local storage.
pub(super) fn segment_base(descriptor: &[u8; 16]) -> u64 {
    u32::from_le_bytes([descriptor[4], descriptor[5], descriptor[6], descriptor[7]]).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn regs() -> Registers {
        let words: Vec<u64> = (1..=REGISTER_COUNT as u64).map(|i| i << 32 | i).collect();
        Registers::from_words(words.try_into().unwrap())
    }

    #[test]
    fn registers_that_are_put_are_those_that_are_told() {
        for layout in [Layout::Wide, Layout::Narrow] {
            let mut to = regs();
            let bytes = layout.registers(&to);
            assert_eq!(bytes.len(), layout.registers_len());
            let changed: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x40).collect();
            layout.put_registers(&mut to, 0, &changed).unwrap();
            assert_eq!(layout.registers(&to), changed);
            assert_eq!(layout.put_registers(&mut to, bytes.len() - 4, &[0; 8]), None);
        }
    }

    #[test]
    fn a_narrow_tracer_changes_the_register_that_it_means() {
        let mut to = regs();
        Layout::Narrow.put_registers(&mut to, 4, &7u32.to_le_bytes()).unwrap();
        assert_eq!(to, Registers { rcx: 7, ..regs() });
        Layout::Narrow.put_registers(&mut to, 44, &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(to.orig_rax, u64::MAX);
        assert_eq!(Layout::Narrow.debug_number(252), Some(0));
        assert_eq!(Layout::Narrow.debug_number(280), Some(7));
        assert_eq!(Layout::Wide.debug_number(852), None);
    }

    #[test]
    fn fsave_is_what_fxsave_is() {
        let mut area = vec![0; 1024];
        area[..6].copy_from_slice(&[0x7f, 3, 0, 0x30, 0b1100_0000, 0]);
        // At the top of the stack 1.0, then a zero.
        area[STACK..STACK + STACK_LEN].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
        let told = Layout::Narrow.floating(&regs(), &area).unwrap();
        assert_eq!(told.len(), 108);
        assert_eq!(told[8..12], [0xff, 0x4f, 0xff, 0xff]);
        let mut back = vec![0; 1024];
        Layout::Narrow.put_floating(&regs(), &mut back, &told).unwrap();
        assert_eq!(back[PARTS], 3);
        assert_eq!(back[..PARTS], area[..PARTS]);
    }

    #[test]
    fn descriptors_are_checked_as_the_kernel_does_it() {
        let of = |words: [u32; 4]| -> [u8; 16] {
            words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>().try_into().unwrap()
        };
        assert_eq!(segment_told(13, &of([9, 0x1000, 0xfffff, 0x51])), Some(of([13, 0x1000, 0xfffff, 0x51])));
        assert_eq!(segment_told(13, &of([9, 0, 0, 0])), Some(of([13, 0, 0, 0x28])));
        assert_eq!(segment_told(13, &of([9, 0x1000, 0xfffff, 0x50])), None);
        assert_eq!(segment_told(13, &of([9, 0x1000, 0xfffff, 0x55])), None);
    }

    proptest! {
        /// Whatever a tracer puts into registers is what it is told then, and all others are as they were.
        #[test]
        fn what_is_put_is_told_and_nothing_else_changes(
            words in prop::array::uniform27(any::<u64>()),
            at in 0..250_usize,
            data in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            for layout in [Layout::Wide, Layout::Narrow] {
                let word = layout.word();
                let (at, data) = (at / word * word, &data[..data.len() / word * word]);
                let before = Registers::from_words(words);
                let (mut to, mut bytes) = (before, layout.registers(&before));
                let put = layout.put_registers(&mut to, at, data);
                prop_assert_eq!(put.is_some(), at + data.len() <= layout.registers_len());
                if put.is_some() {
                    bytes[at..at + data.len()].copy_from_slice(data);
                } else {
                    prop_assert_eq!(to, before);
                }
                prop_assert_eq!(layout.registers(&to), bytes);
            }
        }

        /// The kernel takes a descriptor as it has told it.
        #[test]
        fn a_descriptor_that_is_told_is_taken_again(
            entry in 12..15_u32,
            words in prop::array::uniform4(any::<u32>()),
        ) {
            let given: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            if let Some(told) = segment_told(entry, &given.try_into().unwrap()) {
                prop_assert_eq!(segment_told(entry, &told), Some(told));
                let is_empty = segment_base(&told) == 0;
                prop_assert!(is_empty || segment_base(&told) == u64::from(words[1]));
            }
        }
    }
}
