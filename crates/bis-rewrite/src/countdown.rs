//! A place at which the program counts how often it comes there, and stops by itself at the last time: a few
//! nanoseconds each time, where a stop of a traced task takes microseconds. It is made like a
//! [`crate::conditional`] breakpoint, of which it has the way in and out.

use crate::{
    conditional::{self, narrow},
    predicate::{DEPTH_MAX, Predicate},
    run::Error,
    span::Span,
    trampoline::{Builder, Pending},
};

/// A countdown, as bytes for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countdown {
    /// The code, to lie where [`countdown`] was told.
    pub code: Vec<u8>,
    /// What takes the place of the span: a jump, then `int3`.
    pub patch: Vec<u8>,
    /// Every instruction of the span: its address, and the address of its copy. A task that traps at the
    /// first goes on at the second; so does one that stands at the span's beginning and was counted.
    pub copies: Vec<(u64, u64)>,
    /// The code of the condition: a fault in it is one of the condition's.
    pub condition: std::ops::Range<u64>,
    /// The program counter after the `int3` that stops the program when the word has come to zero. The
    /// instruction pointer and the arithmetic flags ([`crate::Conditional::flags`]) are the code's own then;
    /// all else is the program's, which stands at the span's beginning.
    pub hit: u64,
}

impl Countdown {
    /// Bytes of data: rax and the flags while they are kept, the word that is counted down, rcx, and the
    /// stack of a condition.
    pub const DATA_LEN: u64 = 32 + 8 * DEPTH_MAX as u64;
    /// Where in the data the kept registers are.
    pub const RAX: u64 = 0;
    pub const FLAGS: u64 = 8;
    pub const RCX: u64 = 24;
    /// Where in the data the word is.
    pub const WORD: u64 = 16;
    /// Bytes of code at most, with a condition.
    pub const CODE_MAX: u64 = 3072;
}

/// Makes a countdown at the beginning of `span`, with code at `at` and data at `data`. It stops also each
/// time that the condition holds.
///
/// # Errors
/// If code, data, span and what the span's instructions refer to are too far from one another for
/// displacements of 32 bits.
pub fn countdown(span: &Span, at: u64, data: u64, condition: Option<&Predicate>) -> Result<Countdown, Error> {
    let (saved_rax, saved_flags, word) = (data, data + 8, data + Countdown::WORD);
    let mut out = Builder::new(at);
    if span.is_narrow() && condition.is_none() {
        return narrow_countdown(span, at, data);
    }
    if span.is_narrow() {
        narrow::enter_here(&mut out);
    }
    // mov [saved_rax], rax; lahf; seto al; mov [saved_flags], rax; dec qword [word]; jz hit
    out.branch(&[0x48, 0x89, 0x05], saved_rax)?;
    out.push(&[0x9f, 0x0f, 0x90, 0xc0]);
    out.branch(&[0x48, 0x89, 0x05], saved_flags)?;
    out.branch(&[0x48, 0xff, 0x0d], word)?;
    out.push(&[0x0f, 0x84]);
    let hit = out.pending();
    let begin = out.here();
    let holds = match condition {
        Some(condition) => Some(tested(&mut out, condition, saved_rax, data)?),
        None => None,
    };
    let condition = begin..out.here();
    let copies = conditional::go_on(&mut out, span, saved_rax, saved_flags)?;
    out.finish(hit)?;
    if let Some(holds) = holds {
        out.finish(holds)?;
    }
    // mov rax, [saved_rax]
    out.branch(&[0x48, 0x8b, 0x05], saved_rax)?;
    out.push(&[0xcc]);
    let hit = out.here();
    let patch = conditional::jump(span, at)?;
    Ok(Countdown { code: out.into_bytes(), patch, copies, condition, hit })
}

/// A countdown without a condition in a 32-bit program: all of it is 32-bit code.
fn narrow_countdown(span: &Span, at: u64, data: u64) -> Result<Countdown, Error> {
    let (saved_rax, saved_flags, word) = (data, data + 8, data + Countdown::WORD);
    let mut out = Builder::new(at);
    narrow::save(&mut out, saved_rax, saved_flags);
    let hit = narrow::count_down(&mut out, word);
    let condition = out.here()..out.here();
    narrow::restore(&mut out, saved_rax, saved_flags);
    let copies = conditional::copies(&mut out, span)?;
    out.finish(hit)?;
    narrow::load(&mut out, saved_rax);
    out.push(&[0xcc]);
    let hit = out.here();
    let patch = conditional::jump(span, at)?;
    Ok(Countdown { code: out.into_bytes(), patch, copies, condition, hit })
}

/// Goes on behind itself where the condition does not hold; the way out is where it does.
fn tested(out: &mut Builder, condition: &Predicate, saved_rax: u64, data: u64) -> Result<Pending, Error> {
    let (saved_rcx, stack) = (data + Countdown::RCX, data + 32);
    // mov [saved_rcx], rcx
    out.branch(&[0x48, 0x89, 0x0d], saved_rcx)?;
    let mut twin = Builder::new(out.here());
    condition.code(&mut twin, [saved_rax, saved_rcx], stack, out.here())?;
    // Two instructions of seven and five bytes lie between.
    let hit = twin.here() + 12;
    condition.code(out, [saved_rax, saved_rcx], stack, hit)?;
    // mov rcx, [saved_rcx]; jmp behind
    out.branch(&[0x48, 0x8b, 0x0d], saved_rcx)?;
    out.branch(&[0xe9], hit + 12)?;
    out.branch(&[0x48, 0x8b, 0x0d], saved_rcx)?;
    out.push(&[0xe9]);
    Ok(out.pending())
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    #[test]
    fn in_a_32_bit_program_all_is_32_bit_code_but_what_tests_a_condition() {
        use crate::Test;
        // mov [0x8049000], eax; jne back: the distance wraps around behind the jump's new place.
        let text = [0xa3, 0x00, 0x90, 0x04, 0x08, 0x75, 0xf9];
        let span = Span::begin(32, 0x804_8000, &text).unwrap();
        assert_eq!(span.bytes(), &text[..5]);
        let made = countdown(&span, 0xf000_0000, 0xf000_2000, None).unwrap();
        let all: Vec<_> =
            Decoder::with_ip(32, &made.code, 0xf000_0000, DecoderOptions::NONE).into_iter().collect();
        assert!(all.iter().all(|it| !it.is_invalid()));
        let (original, copy) = made.copies[0];
        assert_eq!(original, 0x804_8000);
        assert!(all.iter().any(|it| it.ip() == copy && it.memory_displacement32() == 0x804_9000));
        let ends = all.iter().filter(|it| it.flow_control() == iced_x86::FlowControl::UnconditionalBranch);
        assert_eq!(ends.map(|it| it.near_branch_target()).collect::<Vec<_>>(), [0x804_8005]);
        assert_eq!(all.last().map(|it| it.next_ip()), Some(made.hit));
        let patch = Decoder::with_ip(32, &made.patch, 0x804_8000, DecoderOptions::NONE).decode();
        assert_eq!(patch.near_branch_target(), 0xf000_0000);
        // With a condition, the first instruction leads to 64-bit code, and its last to the copies.
        let condition = crate::Predicate::new(vec![Test::Register(3), Test::End]).unwrap();
        let made = countdown(&span, 0xf000_0000, 0xf000_2000, Some(&condition)).unwrap();
        let first = Decoder::with_ip(32, &made.code, 0xf000_0000, DecoderOptions::NONE).decode();
        assert_eq!((first.far_branch_selector(), u64::from(first.far_branch32())), (0x33, first.next_ip()));
        let from = usize::try_from(made.copies[0].1 - 0xf000_0000).unwrap();
        let pointer = [&(0xf000_0000u32 + from as u32).to_le_bytes()[..], &[0x23, 0]].concat();
        assert_eq!(made.code[from - 6..from], pointer);
    }

    #[test]
    fn a_condition_lies_between() {
        use crate::Test;
        let span = Span::new(0x1000, &[0x48, 0x01, 0xd8, 0x48, 0x89, 0x07]).unwrap();
        let steps = vec![Test::Register(0), Test::Constant(7), Test::Equal, Test::End];
        let made = countdown(&span, 0x8000, 0x9000, Predicate::new(steps).as_ref()).unwrap();
        let code = Decoder::with_ip(64, &made.code, 0x8000, DecoderOptions::NONE);
        let all: Vec<_> = code.into_iter().collect();
        assert_eq!(all.iter().map(|it| it.len()).sum::<usize>(), made.code.len());
        // All jumps lead to instructions, or back.
        let starts: Vec<u64> = all.iter().map(|it| it.ip()).collect();
        for it in all.iter().filter(|it| it.is_jcc_near() || it.is_jmp_near()) {
            let to = it.near_branch_target();
            assert!(starts.contains(&to) || to == span.end(), "{:x} to {to:x}", it.ip());
        }
        assert!(made.condition.contains(&(made.condition.end - 1)) && made.condition.end < made.hit);
    }

    #[test]
    fn the_code_leads_back_and_the_patch_to_it() {
        // add rax, rbx; mov [rdi], rax
        let span = Span::new(0x1000, &[0x48, 0x01, 0xd8, 0x48, 0x89, 0x07]).unwrap();
        let made = countdown(&span, 0x8000, 0x9000, None).unwrap();
        assert!(made.code.len() as u64 <= Countdown::CODE_MAX);
        assert_eq!(made.patch, [0xe9, 0xfb, 0x6f, 0, 0, 0xcc]);
        let copies: Vec<u64> = made.copies.iter().map(|(original, _)| *original).collect();
        assert_eq!(copies, [0x1000, 0x1003]);
        assert_eq!(made.code.last(), Some(&0xcc));
        assert_eq!(made.hit, 0x8000 + made.code.len() as u64);
        let code = Decoder::with_ip(64, &made.code, 0x8000, DecoderOptions::NONE);
        assert!(code.into_iter().any(|it| it.near_branch_target() == span.end()));
    }
}
