//! A breakpoint with a condition that the program checks itself: it stops where its registers have given values, and
//! goes on by itself a million times where they have not. A stop of a traced task takes microseconds, the check a few
//! nanoseconds.

use iced_x86::{Decoder, DecoderOptions};

use crate::{
    run::{Error, JUMP, Run},
    span::Span,
    trampoline::Builder,
};

/// A conditional breakpoint, as bytes for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditional {
    /// The code, to lie where [`conditional`] was told.
    pub code: Vec<u8>,
    /// What the code works with, to lie where [`conditional`] was told, in memory that the program can write.
    pub data: Vec<u8>,
    /// What takes the place of the span: a jump, then `int3`.
    pub patch: Vec<u8>,
    /// The program counter after the `int3` that stops the program where all registers fit. The instruction pointer and
    /// the arithmetic flags are the code's own then; all else is the program's, which stands at the span's beginning. To
    /// let it go on, resume it as it is.
    pub hit: u64,
}

impl Conditional {
    /// Bytes of data.
    pub const DATA_LEN: u64 = 8 * (2 + 16);

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

/// Makes a breakpoint at the beginning of `span`, with code at `at` and data at `data`, that stops where the general
/// registers, in the processor's order (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15), have the values `wanted`.
///
/// # Errors
/// If code, data, span and what the span's instructions refer to are too far from one another for displacements of 32
/// bits.
pub fn conditional(span: &Span, at: u64, data: u64, wanted: &[u64; 16]) -> Result<Conditional, Error> {
    const RAX: usize = 0;
    let (saved_rax, saved_flags) = (data, data + 8);
    let value = |register: usize| data + 16 + 8 * register as u64;
    let mut out = Builder::new(at);
    // mov [saved_rax], rax; lahf; seto al; mov [saved_flags], rax
    out.branch(&[0x48, 0x89, 0x05], saved_rax)?;
    out.push(&[0x9f, 0x0f, 0x90, 0xc0]);
    out.branch(&[0x48, 0x89, 0x05], saved_flags)?;
    let mut misses = Vec::new();
    let mut compare = |out: &mut Builder, register: usize| {
        // cmp register, [value]; jne miss
        let rex = 0x48 | if register >= 8 { 4 } else { 0 };
        out.branch(&[rex, 0x3b, 0x05 | (register as u8 & 7) << 3], value(register))?;
        out.push(&[0x0f, 0x85]);
        misses.push(out.pending());
        Ok::<(), Error>(())
    };
    (1..16).try_for_each(|register| compare(&mut out, register))?;
    // mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    compare(&mut out, RAX)?;
    out.push(&[0xcc]);
    let hit = out.here();
    for miss in misses {
        out.finish(miss)?;
    }
    // mov rax, [saved_flags]; add al, 127 (overflows if al is 1); sahf; mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_flags)?;
    out.push(&[0x04, 0x7f, 0x9e]);
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    let mut decoder = Decoder::with_ip(64, span.bytes(), span.start(), DecoderOptions::NONE);
    while decoder.can_decode() {
        let it = decoder.decode();
        let offset = it.ip().wrapping_sub(span.start()) as usize;
        let bytes = span.bytes().get(offset..offset + it.len()).ok_or_else(|| Error::BadRun(span.start()))?;
        let displacement = decoder.get_constant_offsets(&it);
        let displacement = displacement.has_displacement().then(|| displacement.displacement_offset());
        out.moved(&it, bytes, displacement)?;
    }
    out.branch(&[0xe9], span.end())?;
    let mut patch = Builder::new(span.start());
    patch.branch(&[0xe9], at)?;
    let mut patch = patch.into_bytes();
    patch.resize(span.bytes().len().clamp(JUMP, Run::MAX), 0xcc);
    let words = [0, 0].into_iter().chain(wanted.iter().copied());
    Ok(Conditional { code: out.into_bytes(), data: words.flat_map(u64::to_le_bytes).collect(), patch, hit })
}
