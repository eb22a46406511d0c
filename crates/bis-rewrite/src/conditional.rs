//! A breakpoint with a condition that the program checks itself: it stops where its registers and some words of its
//! memory have given values, and goes on by itself a million times where they have not. A stop of a traced task takes
//! microseconds, the check a few nanoseconds.

use iced_x86::{Decoder, DecoderOptions};

use crate::{
    run::{Error, JUMP, Run},
    span::Span,
    trampoline::Builder,
};

/// When a conditional breakpoint stops the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The general registers in the processor's order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub registers: [u64; 16],
    /// Lower halves of SSE registers, by number (below 16).
    pub vectors: Vec<(u8, u64)>,
    /// Eight bytes of memory, by address. They are read only where all registers fit.
    pub words: Vec<(u64, u64)>,
}

/// A conditional breakpoint, as bytes for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditional {
    /// The code, to lie where [`conditional`] was told.
    pub code: Vec<u8>,
    /// What the code works with, to lie where [`conditional`] was told, in memory that the program can write.
    pub data: Vec<u8>,
    /// What takes the place of the span: a jump, then `int3`.
    pub patch: Vec<u8>,
    /// Where the program goes on, from anywhere in the code before it and also from [`Conditional::hit`]: the same address
    /// for all conditions of one span and place.
    pub miss: u64,
    /// Every instruction of the span: its address, and the address of its copy. Who traps at the first goes on at the second.
    pub copies: Vec<(u64, u64)>,
    /// Where the comparisons begin; they go on to [`Conditional::hit`].
    pub checks: u64,
    /// The program counter after the `int3` that stops the program where everything fits. The instruction pointer and
    /// the arithmetic flags are the code's own then; all else is the program's, which stands at the span's beginning.
    pub hit: u64,
}

impl Conditional {
    /// The most words and vectors of a condition, together.
    pub const CHECKS_MAX: usize = 64;
    /// Bytes of code, and of data, at most.
    pub const LEN_MAX: u64 = 4096;

    /// The program's own flags, when it has stopped with `eflags`, and the eight bytes at `data + 8` are `kept`.
    #[must_use]
    pub fn flags(eflags: u64, kept: u64) -> u64 {
        /// SF, ZF, AF, PF, CF: what `lahf` keeps, in its bits.
        const LOW: u64 = 0xd5;
        const OVERFLOW: u64 = 0x800;
        let low = kept >> 8 & LOW;
        let overflow = if kept & 1 != 0 { OVERFLOW } else { 0 };
        eflags & !(LOW | OVERFLOW) | low | overflow
    }
}

/// The comparisons, which all lead to one place where they fail.
struct Checks {
    out: Builder,
    data: u64,
    /// The values to compare with, after the two words that the code keeps.
    values: Vec<u64>,
    miss: u64,
}

impl Checks {
    /// cmp register, [value]; jne miss
    fn equals(&mut self, register: u8, value: u64) -> Result<(), Error> {
        let at = self.data + 16 + 8 * self.values.len() as u64;
        self.values.push(value);
        let rex = 0x48 | if register >= 8 { 4 } else { 0 };
        self.out.branch(&[rex, 0x3b, 0x05 | (register & 7) << 3], at)?;
        self.out.branch(&[0x0f, 0x85], self.miss)
    }
}

/// Makes a breakpoint at the beginning of `span`, with code at `at` and data at `data`, that stops where `condition`
/// holds. Of vectors and words, [`Conditional::CHECKS_MAX`] are looked at.
///
/// # Errors
/// If code, data, span and what the span's instructions refer to are too far from one another for displacements of 32
/// bits.
pub fn conditional(span: &Span, at: u64, data: u64, condition: &Condition) -> Result<Conditional, Error> {
    const RAX: u8 = 0;
    let (saved_rax, saved_flags) = (data, data + 8);
    let mut out = Builder::new(at);
    // mov [saved_rax], rax; lahf; seto al; mov [saved_flags], rax; jmp checks
    out.branch(&[0x48, 0x89, 0x05], saved_rax)?;
    out.push(&[0x9f, 0x0f, 0x90, 0xc0]);
    out.branch(&[0x48, 0x89, 0x05], saved_flags)?;
    out.push(&[0xe9]);
    let checks = out.pending();
    let miss = out.here();
    // mov rax, [saved_flags]; add al, 127 (overflows if al is 1); sahf; mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_flags)?;
    out.push(&[0x04, 0x7f, 0x9e]);
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    let mut decoder = Decoder::with_ip(64, span.bytes(), span.start(), DecoderOptions::NONE);
    let mut copies = Vec::new();
    while decoder.can_decode() {
        let it = decoder.decode();
        copies.push((it.ip(), out.here()));
        let offset = it.ip().wrapping_sub(span.start()) as usize;
        let bytes = span.bytes().get(offset..offset + it.len()).ok_or_else(|| Error::BadRun(span.start()))?;
        let displacement = decoder.get_constant_offsets(&it);
        let displacement = displacement.has_displacement().then(|| displacement.displacement_offset());
        out.moved(&it, bytes, displacement)?;
    }
    out.branch(&[0xe9], span.end())?;
    out.finish(checks)?;
    let begin = out.here();
    let mut checks = Checks { out, data, values: Vec::new(), miss };
    for (register, value) in (0..).zip(condition.registers).skip(1) {
        checks.equals(register, value)?;
    }
    // mov rax, [saved_rax]
    checks.out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    checks.equals(RAX, condition.registers[0])?;
    let vectors = condition.vectors.iter().filter(|(register, _)| *register < 16);
    for (register, value) in vectors.take(Conditional::CHECKS_MAX / 2) {
        // movq rax, xmm
        let rex = 0x48 | if *register >= 8 { 4 } else { 0 };
        checks.out.push(&[0x66, rex, 0x0f, 0x7e, 0xc0 | (register & 7) << 3]);
        checks.equals(RAX, *value)?;
    }
    for (addr, value) in condition.words.iter().take(Conditional::CHECKS_MAX / 2) {
        // mov rax, [addr]
        checks.out.push(&[0x48, 0xa1]);
        checks.out.push(&addr.to_le_bytes());
        checks.equals(RAX, *value)?;
    }
    let Checks { mut out, values, .. } = checks;
    // mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    out.push(&[0xcc]);
    let hit = out.here();
    let mut patch = Builder::new(span.start());
    patch.branch(&[0xe9], at)?;
    let mut patch = patch.into_bytes();
    patch.resize(span.bytes().len().clamp(JUMP, Run::MAX), 0xcc);
    let data = [0, 0].into_iter().chain(values).flat_map(u64::to_le_bytes).collect();
    Ok(Conditional { code: out.into_bytes(), data, patch, miss, copies, checks: begin, hit })
}
