//! A breakpoint with a condition that the program checks itself: it stops where its registers and some words
//! of its memory have given values, and goes on by itself a million times where they have not. A stop of a
//! traced task takes microseconds, the check a few nanoseconds.

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
    /// Which of them are compared first, by number; that what differs most often comes first makes it fast.
    pub first: Vec<u8>,
    /// The arithmetic flags.
    pub flags: u64,
    /// Eight bytes of memory, by address. They are read only where all registers fit.
    pub words: Vec<(u64, u64)>,
    /// Eight bytes of the x87, SSE, AVX and AVX-512 registers, by offset in the area of an `xsave` without
    /// compaction: below 512, or from 576 to [`Conditional::EXTENDED_MAX`]. Only for processors and kernels
    /// that have `xsave`.
    pub extended: Vec<(u16, u64)>,
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
    /// Where the program goes on, from anywhere in the code before it and also from [`Conditional::hit`]: the
    /// same address for all conditions of one span and place.
    pub miss: u64,
    /// Every instruction of the span: its address, and the address of its copy. A task that traps at the
    /// first goes on at the second.
    pub copies: Vec<(u64, u64)>,
    /// Where the comparisons begin; they go on to [`Conditional::hit`].
    pub checks: u64,
    /// The program counter after the `int3` that stops the program where everything fits. The instruction
    /// pointer and the arithmetic flags are the code's own then; all else is the program's, which stands at
    /// the span's beginning.
    pub hit: u64,
}

/// SF, ZF, AF, PF, CF: what `lahf` keeps, in its bits.
const LOW: u64 = 0xd5;
const OVERFLOW: u64 = 0x800;

/// Where in the data the extended registers are put; `xsave` wants it at a multiple of 64.
const EXTENDED: u64 = 1024;

const RAX: u8 = 0;
const RDX: u8 = 2;

impl Conditional {
    /// The most words of memory, and of extended registers, that are looked at.
    pub const CHECKS_MAX: usize = 32;
    /// Bytes of code, and of data, at most.
    pub const LEN_MAX: u64 = 4096;
    /// End of what may be looked at of an `xsave` area: that of AVX-512's registers, where they are last.
    pub const EXTENDED_MAX: u16 = 2688;

    /// The program's own flags, when it has stopped with `eflags`, and the eight bytes at `data + 8` are
    /// `kept`.
    #[must_use]
    pub fn flags(eflags: u64, kept: u64) -> u64 {
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
    /// mov rax, [addr]; where `addr` is near.
    fn load(&mut self, addr: u64) -> Result<(), Error> {
        self.out.branch(&[0x48, 0x8b, 0x05], addr)
    }

    /// cmp register, [value]; jne miss
    fn equals(&mut self, register: u8, value: u64) -> Result<(), Error> {
        let at = self.data + 16 + 8 * self.values.len() as u64;
        self.values.push(value);
        let rex = 0x48 | if register >= 8 { 4 } else { 0 };
        self.out.branch(&[rex, 0x3b, 0x05 | (register & 7) << 3], at)?;
        self.out.branch(&[0x0f, 0x85], self.miss)
    }

    /// Words of memory.
    fn words(&mut self, condition: &Condition) -> Result<(), Error> {
        for (addr, value) in condition.words.iter().take(Conditional::CHECKS_MAX) {
            // mov rax, [addr]
            self.out.push(&[0x48, 0xa1]);
            self.out.push(&addr.to_le_bytes());
            self.equals(RAX, *value)?;
        }
        Ok(())
    }

    /// The processor writes its extended registers to memory, where their words are compared.
    fn extended(&mut self, condition: &Condition) -> Result<(), Error> {
        let extended = condition.extended.iter().take(Conditional::CHECKS_MAX);
        let extended: Vec<_> =
            extended.filter(|(offset, _)| *offset <= Conditional::EXTENDED_MAX - 8).collect();
        if let Some((last, _)) = extended.iter().max_by_key(|(offset, _)| offset) {
            // x87 and SSE; AVX; and AVX-512.
            let components: u8 = match last {
                0..576 => 0x03,
                576..832 => 0x07,
                _ => 0xe7,
            };
            // mov eax, components; xor edx, edx; xsave64 [data + EXTENDED]
            self.out.push(&[0xb8, components, 0, 0, 0, 0x31, 0xd2]);
            self.out.branch(&[0x48, 0x0f, 0xae, 0x25], self.data + EXTENDED)?;
            // mov rdx, what it is known to be by now
            self.out.push(&[0x48, 0xba]);
            self.out.push(&condition.registers[usize::from(RDX)].to_le_bytes());
        }
        for (offset, value) in extended {
            self.load(self.data + EXTENDED + u64::from(*offset))?;
            self.equals(RAX, *value)?;
        }
        Ok(())
    }
}

/// The code segments of 64-bit and 32-bit programs.
const WIDE: u16 = 0x33;
const NARROW: u16 = 0x23;

/// What a 32-bit program executes itself. Most of the code here is 64-bit code, which such a program comes to
/// by a jump that names a segment. That takes some tens of nanoseconds, so what is done each time is 32-bit
/// code.
pub(crate) mod narrow {
    use super::{Builder, Error, NARROW, RAX, WIDE};
    use crate::trampoline::Pending;

    /// An address in the first 4 GiB, as an instruction has it.
    fn address(at: u64) -> [u8; 4] {
        (at as u32).to_le_bytes()
    }

    /// Puts eax and the flags aside: mov [saved_rax], eax; lahf; seto al; mov [saved_flags], eax
    pub(crate) fn save(out: &mut Builder, saved_rax: u64, saved_flags: u64) {
        out.push(&[0xa3]);
        out.push(&address(saved_rax));
        out.push(&[0x9f, 0x0f, 0x90, 0xc0, 0xa3]);
        out.push(&address(saved_flags));
    }

    /// The reverse: mov eax, [saved_flags]; add al, 127 (overflows if al is 1); sahf; mov eax, [saved_rax]
    pub(crate) fn restore(out: &mut Builder, saved_rax: u64, saved_flags: u64) {
        out.push(&[0xa1]);
        out.push(&address(saved_flags));
        out.push(&[0x04, 0x7f, 0x9e]);
        load(out, saved_rax);
    }

    /// mov eax, [at]
    pub(crate) fn load(out: &mut Builder, at: u64) {
        out.push(&[0xa1]);
        out.push(&address(at));
    }

    /// Takes one from the word of eight bytes at `word`; the way out is where it has come to zero:
    /// sub dword [word], 1; sbb dword [word + 4], 0; mov eax, [word]; or eax, [word + 4]; jz
    pub(crate) fn count_down(out: &mut Builder, word: u64) -> Pending {
        out.push(&[0x83, 0x2d]);
        out.push(&address(word));
        out.push(&[1, 0x83, 0x1d]);
        out.push(&address(word + 4));
        out.push(&[0]);
        load(out, word);
        out.push(&[0x0b, 0x05]);
        out.push(&address(word + 4));
        out.push(&[0x0f, 0x84]);
        out.pending()
    }

    /// Goes to `miss` if the register, which is eax as it was put aside, or another one, has not this value:
    /// cmp register, value; jne miss
    pub(crate) fn equals(
        out: &mut Builder,
        (register, saved_rax): (u8, u64),
        value: u64,
        miss: u64,
    ) -> Result<(), Error> {
        if register == RAX {
            load(out, saved_rax);
        }
        out.push(&[0x81, 0xf8 | register]);
        out.push(&address(value));
        out.branch(&[0x0f, 0x85], miss)
    }

    /// Goes on with 64-bit code at `to`.
    pub(crate) fn enter(out: &mut Builder, to: u64) {
        out.push(&[0xea]);
        out.push(&address(to));
        out.push(&WIDE.to_le_bytes());
    }

    /// Goes on as 64-bit code with what follows.
    pub(crate) fn enter_here(out: &mut Builder) {
        /// Bytes of the jump.
        const LEN: u64 = 7;
        let to = out.here() + LEN;
        enter(out, to);
    }

    /// 64-bit code goes on with the 32-bit code that follows.
    pub(crate) fn leave(out: &mut Builder) -> Result<(), Error> {
        /// Bytes of the jump, and of the address and segment that it reads.
        const LEN: u64 = 6;
        const POINTER_LEN: u64 = 6;
        let pointer = out.here() + LEN;
        out.branch(&[0xff, 0x2d], pointer)?;
        out.push(&address(pointer + POINTER_LEN));
        out.push(&NARROW.to_le_bytes());
        Ok(())
    }
}

/// The program goes on: its flags and rax come back, the span's instructions follow, and a jump behind the
/// span. Where each instruction is now.
pub(crate) fn go_on(
    out: &mut Builder,
    span: &Span,
    saved_rax: u64,
    saved_flags: u64,
) -> Result<Copies, Error> {
    // mov rax, [saved_flags]; add al, 127 (overflows if al is 1); sahf; mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_flags)?;
    out.push(&[0x04, 0x7f, 0x9e]);
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    if span.is_narrow() {
        narrow::leave(out)?;
    }
    copies(out, span)
}

/// Where each of the span's instructions is now.
type Copies = Vec<(u64, u64)>;

/// The span's instructions, and a jump behind the span.
pub(crate) fn copies(out: &mut Builder, span: &Span) -> Result<Copies, Error> {
    let mut decoder = Decoder::with_ip(span.bits(), span.bytes(), span.start(), DecoderOptions::NONE);
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
    let end = if span.is_narrow() { out.narrow(span.end()) } else { span.end() };
    out.branch(&[0xe9], end)?;
    Ok(copies)
}

/// What takes the place of a span whose code lies at `at`: a jump, then `int3`.
pub(crate) fn jump(span: &Span, at: u64) -> Result<Vec<u8>, Error> {
    let mut patch = Builder::new(span.start());
    let to = if span.is_narrow() { patch.narrow(at) } else { at };
    patch.branch(&[0xe9], to)?;
    let mut patch = patch.into_bytes();
    patch.resize(span.bytes().len().clamp(JUMP, Run::MAX), 0xcc);
    Ok(patch)
}

/// Makes a breakpoint at the beginning of `span`, with code at `at` and data at `data`, a multiple of 64,
/// that stops where `condition` holds. Of words, and of extended registers, the first
/// [`Conditional::CHECKS_MAX`] are looked at.
///
/// # Errors
/// If code, data, span and what the span's instructions refer to are too far from one another for
/// displacements of 32 bits.
pub fn conditional(span: &Span, at: u64, data: u64, condition: &Condition) -> Result<Conditional, Error> {
    let (saved_rax, saved_flags) = (data, data + 8);
    let mut out = Builder::new(at);
    let fast = span.is_narrow().then(|| {
        // jmp fast
        out.push(&[0xe9]);
        out.pending()
    });
    let full = out.here();
    // mov [saved_rax], rax; lahf; seto al; mov [saved_flags], rax; jmp checks
    out.branch(&[0x48, 0x89, 0x05], saved_rax)?;
    out.push(&[0x9f, 0x0f, 0x90, 0xc0]);
    out.branch(&[0x48, 0x89, 0x05], saved_flags)?;
    out.push(&[0xe9]);
    let checks = out.pending();
    let miss = out.here();
    let copies = go_on(&mut out, span, saved_rax, saved_flags)?;
    let mut order: Vec<u8> = condition.first.iter().copied().filter(|register| *register < 16).collect();
    order.extend((0..16).rev().filter(|register| !condition.first.contains(register)));
    if let Some(fast) = fast {
        let narrow_miss = out.here();
        narrow::restore(&mut out, saved_rax, saved_flags);
        let first = copies.first().map_or(narrow_miss, |(_, copy)| *copy);
        out.branch(&[0xe9], first)?;
        out.finish(fast)?;
        narrow::save(&mut out, saved_rax, saved_flags);
        for register in order.iter().copied().filter(|register| *register < 8) {
            let value = condition.registers[usize::from(register)];
            narrow::equals(&mut out, (register, saved_rax), value, narrow_miss)?;
        }
        narrow::restore(&mut out, saved_rax, saved_flags);
        narrow::enter(&mut out, full);
    }
    out.finish(checks)?;
    let begin = out.here();
    let mut checks = Checks { out, data, values: Vec::new(), miss };
    for register in order {
        if register == RAX {
            checks.load(saved_rax)?;
        }
        checks.equals(register, condition.registers[usize::from(register)])?;
    }
    // What `lahf` and `seto` make of rax.
    checks.load(saved_flags)?;
    let low = (condition.flags & LOW | 2) << 8 | u64::from(condition.flags & OVERFLOW != 0);
    checks.equals(RAX, condition.registers[usize::from(RAX)] & !0xffff | low)?;
    checks.words(condition)?;
    checks.extended(condition)?;
    let Checks { mut out, values, .. } = checks;
    // mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    out.push(&[0xcc]);
    let hit = out.here();
    let patch = jump(span, at)?;
    let data = [0, 0].into_iter().chain(values).flat_map(u64::to_le_bytes).collect();
    Ok(Conditional { code: out.into_bytes(), data, patch, miss, copies, checks: begin, hit })
}
