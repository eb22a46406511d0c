//! Where a text asks the processor for what no recording can know and nothing can make a fault: `rdrand`,
//! `rdseed`, `rdpid`, and transactions, which fail when they like (`xbegin`); on processors without faulting
//! of it, and in many virtual machines, `cpuid`, which says on which core it is executed. And `xsavec`, which
//! writes those parts of the registers that the processor thinks are in use: that depends on when the kernel
//! has last saved them. And `lsl`, which says on which core it is executed, for one selector: the limit of
//! that segment is where the kernel keeps the core's number for `getcpu` (on processors without `rdpid`).
//! Which selector a register holds is known when it is executed; where it is in memory, the instruction is
//! left alone, because no compiler and no library makes such.
//!
//! And `fnstenv` and `fnsave`, which store where the last x87 instruction was: on AMD's processors, the
//! kernel loses that whenever it saves the registers of a task for another one's, if no exception is pending.
//!
//! A recorder hides the others from programs that ask `cpuid`; some do not ask. Their instructions can be
//! replaced where they are found, and only where they are sure: an occurrence of the bytes in text of which
//! nothing is known is left, because it may be a number, or data. So this, other than `clock`, gives no
//! guarantee. Nothing here looks at processes.

use iced_x86::{Decoder, DecoderOptions, Instruction};
use memchr::memmem;

use crate::{
    analysis::Analysis,
    choose,
    record::Learned,
    run::{Reason, SiteKind, is_chance, is_sought},
};

/// Bytes of prefixes that one of these may have before its opcode: 66 or f3, and REX.
pub const CHANCE_PREFIXES_MAX: u64 = 3;

/// The offsets at which `code` has the bytes of `cpuid`, in order.
#[must_use]
pub fn cpuid_bytes(code: &[u8]) -> Vec<usize> {
    memmem::find_iter(code, &[0x0f, 0xa2]).collect()
}

/// The offsets at which `code` has the opcode of such an instruction, in order for each of the opcodes.
#[must_use]
pub fn chance_bytes(code: &[u8]) -> Vec<usize> {
    // rdrand, rdseed and rdpid have a register as their operand.
    let is_register = |at: &usize| code.get(at + 2).is_some_and(|modrm| *modrm >= 0xf0);
    // The operand of xsavec is memory.
    let is_area = |at: &usize| code.get(at + 2).is_some_and(|modrm| *modrm < 0xc0 && *modrm >> 3 & 7 == 4);
    let numbers = memmem::find_iter(code, &[0x0f, 0xc7]).filter(|at| is_register(at) || is_area(at));
    // xbegin leads somewhere near; most bytes that look like it do not.
    let leads_somewhere = |at: &usize| {
        let distance = code.get(at + 2..).and_then(|rest| rest.first_chunk());
        let to = distance.map(|four| (*at as i64 + 6).saturating_add(i32::from_le_bytes(*four).into()));
        to.is_some_and(|to| (0..code.len() as i64).contains(&to))
    };
    let transactions = memmem::find_iter(code, &[0xc7, 0xf8]).filter(leads_somewhere);
    // lsl with its selector in a register.
    let is_between_registers = |at: &usize| code.get(at + 2).is_some_and(|modrm| *modrm >= 0xc0);
    let limits = memmem::find_iter(code, &[0x0f, 0x03]).filter(is_between_registers);
    numbers.chain(transactions).chain(limits).chain(environment_bytes(code)).collect()
}

/// Where `fnstenv` and `fnsave` are for all that the bytes around them say. They have one byte of opcode,
/// which is in most instructions something else: with an eighth of all operands, every two hundredth byte of
/// a text.
fn environment_bytes(code: &[u8]) -> impl Iterator<Item = usize> {
    let is_area = |at: usize| code.get(at + 1).is_some_and(|modrm| *modrm < 0xc0 && *modrm >> 3 & 7 == 6);
    memchr::memchr2_iter(0xd9, 0xdd, code).filter(move |at| is_area(*at) && is_likely_site(code, *at))
}

/// Does an instruction of this kind have its opcode here, for most of those who begin to decode a little
/// before? Whoever begins in the middle of an instruction soon finds the begin of another one.
fn is_likely_site(code: &[u8], at: usize) -> bool {
    const BEGINS: [usize; 5] = [24, 27, 31, 34, 38];
    const MOST: usize = 3;
    let is_met = |back: &&usize| {
        let Some(begin) = at.checked_sub(**back) else { return true };
        let end = code.len().min(at + 16);
        let mut decoder = Decoder::with_ip(64, &code[begin..end], 0, DecoderOptions::NONE);
        let mut it = Instruction::default();
        while decoder.can_decode() && decoder.position() < **back {
            let first = decoder.position();
            decoder.decode_out(&mut it);
            if decoder.position() > **back {
                return is_near(first as u64, **back as u64) && SiteKind::of(&it) == Some(SiteKind::Fnstenv);
            }
        }
        decoder.decode_out(&mut it);
        SiteKind::of(&it) == Some(SiteKind::Fnstenv)
    };
    BEGINS.iter().filter(is_met).count() >= MOST
}

impl Learned {
    /// Does this say what the opcode is that [`chance_bytes`] or [`cpuid_bytes`] has found at `site`?
    #[must_use]
    pub fn is_of_chance(&self, site: u64) -> bool {
        match self {
            Self::Run(run) if is_chance(run.kind()) => is_near(run.site(), site),
            Self::Clock { site: begin, kind } if is_chance(*kind) => is_near(*begin, site),
            other => other.site() == site,
        }
    }
}

pub(crate) fn chance_at(text: &Analysis<'_>, vaddr: u64) -> Learned {
    let refused = |reason| Learned::Refused { site: vaddr, reason };
    let Some(region) = text.functions().region(text, vaddr) else { return refused(Reason::NotASite) };
    if region.is_doubtful() || !region.sure || text.functions().broken || text.is_tired() {
        return refused(Reason::Undecoded);
    }
    let instructions = text.decode(&region);
    let after = instructions.partition_point(|it| it.ip() <= vaddr);
    let Some(it) = after.checked_sub(1).map(|index| &instructions[index]) else {
        return refused(Reason::Undecoded);
    };
    if !is_that(it, vaddr) {
        return refused(Reason::NotASite);
    }
    if instructions.iter().any(Instruction::is_invalid) {
        return refused(Reason::Undecoded);
    }
    match (choose::run_at(text, it.ip()), SiteKind::of(it)) {
        (Ok(run), _) => Learned::Run(run),
        (Err(_), Some(kind)) => Learned::Clock { site: it.ip(), kind },
        (Err(reason), None) => refused(reason),
    }
}

/// May an instruction that begins here have its opcode there?
fn is_near(begin: u64, opcode: u64) -> bool {
    begin <= opcode && opcode <= begin.saturating_add(CHANCE_PREFIXES_MAX)
}

/// Is it such an instruction, whose opcode is at this address, and which replacing leaves something to go on
/// with?
fn is_that(it: &Instruction, vaddr: u64) -> bool {
    is_near(it.ip(), vaddr)
        && SiteKind::of(it).is_some_and(is_sought)
        && it.op0_register().full_register() != iced_x86::Register::RSP
}
