//! What of a task's memory identifies its place at a pause, as far as registers and the next instructions
//! lead. (`surroundings.rs` sees to what changes where none of them points.)

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
};

use bis_agent::OURS;
use bis_trace::{
    event::MemWrite,
    types::{Addr, RED_ZONE, Registers},
};
use bis_tracee::{Glance, place};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// How many of the instructions that come next are asked which memory they use.
const INSTRUCTIONS: usize = 64;
const IN_A_ROW: usize = 16;

/// Bytes that are kept where an instruction or a register points, and at the top of the stack.
const OPERAND_LEN: u64 = 16;
const POINTED_LEN: u64 = 32;
const TOP_LEN: u64 = 256;

/// More than the bytes that give way to a breakpoint.
const SPAN_MAX: u64 = 32;

/// Ranges that are looked at because something else points to them.
const SECOND_MAX: usize = 200;

/// What the memory around a place holds: the top of the stack, what registers point to, what the next
/// instructions will use, and what all these point to in turn. Two passes of a loop that differ in nothing of
/// all that will hardly differ in anything.
pub fn look_around(
    glance: Glance<'_>,
    regs: &Registers,
    is_shown: impl Fn(&Range<Addr>) -> bool,
) -> Vec<MemWrite> {
    let [rdi, rsi, rdx, r10, r8, r9] = regs.args();
    let pointers = [
        regs.rax, regs.rbx, regs.rcx, rdx, rsi, rdi, regs.rbp, r8, r9, r10, regs.r11, regs.r12, regs.r13,
        regs.r14, regs.r15,
    ];
    let pointed = pointers.into_iter().map(|addr| (Addr(addr), POINTED_LEN));
    let used = operands(glance, regs).into_iter().map(|addr| (addr, OPERAND_LEN));
    let first = [(regs.sp(), TOP_LEN)].into_iter().chain(used).chain(pointed);
    let first = place::read(glance, &worth_reading(first.collect(), regs, &is_shown));
    let words = first.iter().flat_map(|held| held.data.chunks_exact(8));
    let words = words.map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])));
    // What looks like the address of something a program has: aligned, above the lowest pages.
    let looks = |word: &u64| word.is_multiple_of(8) && (0x1_0000..0x7fff_ffff_f000).contains(word);
    let second: Vec<(Addr, u64)> = words.filter(looks).map(|addr| (Addr(addr), POINTED_LEN)).collect();
    let mut second = worth_reading(second, regs, &is_shown);
    second.retain(|range| first.iter().all(|held| held.addr != range.0));
    second.truncate(SECOND_MAX);
    let mut held = first;
    held.extend(place::read(glance, &second));
    held
}

/// What those of these ranges hold that say something of the place.
pub fn read_worth(
    glance: Glance<'_>,
    regs: &Registers,
    ranges: Vec<(Addr, u64)>,
    is_shown: impl Fn(&Range<Addr>) -> bool,
) -> Vec<MemWrite> {
    place::read(glance, &worth_reading(ranges, regs, is_shown))
}

/// Those of these ranges that say something, and will say it in replay: not our own memory. A number of the
/// program's may look like an address there.
fn worth_reading(
    mut ranges: Vec<(Addr, u64)>,
    regs: &Registers,
    is_shown: impl Fn(&Range<Addr>) -> bool,
) -> Vec<(Addr, u64)> {
    // What lies below the stack is whatever was left there.
    let stale = regs.sp().saturating_sub(1 << 20)..regs.sp().saturating_sub(RED_ZONE);
    // Where replay puts its breakpoint.
    let patched = regs.ip()..regs.ip().saturating_add(SPAN_MAX);
    let ours = Addr::range(OURS);
    ranges.retain(|(addr, len)| {
        let end = addr.saturating_add(*len);
        let is_apart = |range: &Range<Addr>| end <= range.start || range.end <= *addr;
        [&stale, &patched, &ours].into_iter().all(is_apart) && !is_shown(&(*addr..end))
    });
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

/// The addresses in memory that the next instructions use, as far as the registers say them now and what they
/// load says it then, on all ways that the program may go.
pub fn operands(glance: Glance<'_>, regs: &Registers) -> Vec<Addr> {
    const CODE_LEN: usize = 160;
    let mut found = Vec::new();
    let mut ways = VecDeque::from([(regs.ip(), *regs)]);
    let mut been = BTreeSet::new();
    let mut left = INSTRUCTIONS;
    while let Some((way, mut regs)) = ways.pop_front() {
        let code = glance.read_upto(way, CODE_LEN);
        let mut decoder = Decoder::with_ip(regs.bits(), &code, way.0, DecoderOptions::NONE);
        for count in 0.. {
            if count == IN_A_ROW {
                ways.push_back((Addr(decoder.ip()), regs));
                break;
            }
            if left == 0 || !decoder.can_decode() {
                break;
            }
            let it = decoder.decode();
            if it.is_invalid() || !been.insert(it.ip()) {
                break;
            }
            left -= 1;
            let used = operand(&it, &regs);
            found.extend(used);
            if let Some(addr) = used {
                load(glance, &it, addr, &mut regs);
            }
            let flow = it.flow_control();
            let is_branch = matches!(it.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32);
            let is_near = it.op_count() == 1 && is_branch;
            if is_near && matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                ways.push_back((Addr(it.near_branch_target()), regs));
            }
            if matches!(
                flow,
                FlowControl::UnconditionalBranch
                    | FlowControl::Return
                    | FlowControl::IndirectBranch
                    | FlowControl::Exception
            ) {
                break;
            }
        }
    }
    found
}

/// Where an instruction only loads a pointer from memory, what comes behind it leads on from that.
fn load(glance: Glance<'_>, it: &Instruction, addr: Addr, regs: &mut Registers) {
    let is_load = it.mnemonic() == Mnemonic::Mov && it.op0_kind() == OpKind::Register;
    if is_load
        && it.op0_register().is_gpr64()
        && let Some(register) = regs.general_mut(it.op0_register().number())
        && let Ok(word) = <[u8; 8]>::try_from(glance.read_upto(addr, 8))
    {
        *register = u64::from_le_bytes(word);
    }
}

/// The address that an instruction reads or writes by a memory operand of the usual kind.
fn operand(it: &Instruction, regs: &Registers) -> Option<Addr> {
    let has_memory = (0..it.op_count()).any(|op| it.op_kind(op) == OpKind::Memory);
    if !has_memory {
        return None;
    }
    if it.is_ip_rel_memory_operand() {
        return Some(Addr(it.ip_rel_memory_address()));
    }
    let general = regs.general();
    let value = |register: Register| match register {
        Register::None => Some(0),
        register if register.is_gpr64() => Some(general[register.number()]),
        _ => None,
    };
    let base = Addr(match it.segment_prefix() {
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        _ => 0,
    });
    let index = value(it.memory_index())?.wrapping_mul(u64::from(it.memory_index_scale()));
    Some(
        base.wrapping_add(value(it.memory_base())?)
            .wrapping_add(index)
            .wrapping_add(it.memory_displacement64()),
    )
}
