//! Instructions whose result is not a function of the program's state, made to fault and carried out here:
//! `rdtsc`, `rdtscp`, `cpuid`; where they were overwritten by something that faults, `rdrand`, `rdseed`,
//! `rdpid`, `xbegin` and `lsl`. What `cpuid` answers is the processor's own answer without the features whose
//! use could not be replayed.

use std::sync::OnceLock;

use bis_agent::hooks::Cpuid;
use bis_rewrite::SiteKind;
use bis_trace::{
    event::Insn,
    types::{Addr, Registers},
};

use crate::{features::Level, memory::Memory, sys};

/// What the trace calls an instruction that a hook takes the place of; none: a system call.
pub fn instruction_of(kind: SiteKind) -> Option<Insn> {
    match kind {
        SiteKind::Syscall => None,
        SiteKind::Rdtsc => Some(Insn::Rdtsc),
        SiteKind::Rdtscp => Some(Insn::Rdtscp),
        SiteKind::Cpuid => Some(Insn::Cpuid),
        SiteKind::Rdrand => Some(Insn::Rdrand),
        SiteKind::Rdseed => Some(Insn::Rdseed),
        SiteKind::Rdpid => Some(Insn::Rdpid),
        SiteKind::Xbegin => Some(Insn::Xbegin),
        SiteKind::Xsavec => Some(Insn::Xsavec),
        SiteKind::Lsl => Some(Insn::Lsl),
        SiteKind::Fnstenv => Some(Insn::Fnstenv),
    }
}

/// The trapped instruction at `rip`, and its length in bytes.
pub fn trapped_instruction(memory: &Memory, rip: Addr) -> Option<(Insn, u64)> {
    match memory.read_upto(rip, 3)[..] {
        [0x0f, 0x31, ..] => Some((Insn::Rdtsc, 2)),
        [0x0f, 0xa2, ..] => Some((Insn::Cpuid, 2)),
        [0x0f, 0x01, 0xf9] => Some((Insn::Rdtscp, 3)),
        _ => None,
    }
}

fn low_half(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).expect("32 bits")
}

/// Where a component of the extended state lies (Intel SDM volume 1, 13.2): size, offset in bytes, and flags.
/// All zeros: this processor has none of that number.
pub fn component(number: u32) -> [u32; 4] {
    const EXTENDED_STATE: u32 = 0xd;
    sys::cpuid(EXTENDED_STATE, number)
}

/// Carries the instruction out: the registers after it. What is asked of `cpuid` is looked up in `answers`
/// first, as the hooks do: a program is not to get two answers. Nothing beyond `level` is told.
pub fn emulate(insn: Insn, len: u64, before: &Registers, answers: &[Cpuid], level: Level) -> Registers {
    let mut after = Registers { rip: before.rip + len, ..*before };
    match insn {
        Insn::Rdtsc => {
            let tsc = sys::rdtsc();
            (after.rax, after.rdx) = (tsc & 0xffff_ffff, tsc >> 32);
        }
        Insn::Rdtscp => {
            let (tsc, aux) = sys::rdtscp();
            (after.rax, after.rdx, after.rcx) = (tsc & 0xffff_ffff, tsc >> 32, aux.into());
        }
        Insn::Cpuid => {
            let (leaf, subleaf) = (low_half(before.rax), low_half(before.rcx));
            let answer = cpuid_known(before, answers).unwrap_or_else(|| told(level, leaf, subleaf));
            after = with_answer(after, answer);
        }
        // `Chance::emulate`: what they do is said by more than their kind.
        Insn::Rdrand
        | Insn::Rdseed
        | Insn::Rdpid
        | Insn::Xbegin
        | Insn::Xsavec
        | Insn::Lsl
        | Insn::Fnstenv => {}
    }
    after
}

/// The answer to what `cpuid` is asked with these registers, if it is among those that are known.
pub fn cpuid_known(before: &Registers, answers: &[Cpuid]) -> Option<[u32; 4]> {
    let (leaf, subleaf) = (low_half(before.rax), low_half(before.rcx));
    let is_asked = |it: &&Cpuid| it.leaf == leaf && it.subleaf.is_none_or(|asked| asked == subleaf);
    answers.iter().find(is_asked).map(|it| it.answer)
}

/// These registers, with what `cpuid` has answered: eax, ebx, ecx, edx.
pub fn with_answer(regs: Registers, [eax, ebx, ecx, edx]: [u32; 4]) -> Registers {
    Registers { rax: eax.into(), rbx: ebx.into(), rcx: ecx.into(), rdx: edx.into(), ..regs }
}

/// The answer without: rdrand, rdseed (chance), rdpid, umonitor/tpause (the time stamp without rdtsc),
/// hardware transactions (aborts are not reproducible), memory protection keys and shadow stacks (their
/// system calls are refused), and AMX (its state is too large to save with every signal).
fn masked(leaf: u32, subleaf: u32, [eax, mut ebx, mut ecx, mut edx]: [u32; 4]) -> [u32; 4] {
    match (leaf, subleaf) {
        (1, _) => ecx &= !(1 << 30), // RDRAND
        (7, 0) => {
            ebx &= !(1 << 4 | 1 << 11 | 1 << 18); // HLE, RTM, RDSEED
            ecx &= !(1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 22); // PKU, OSPKE, WAITPKG, SHSTK, RDPID
            edx &= !(1 << 11 | 1 << 16 | 1 << 22 | 1 << 24 | 1 << 25); // RTM_ALWAYS_ABORT, TSXLDTRK, AMX
        }
        _ => {}
    }
    [eax, ebx, ecx, edx]
}

/// What programs are told: without what cannot be recorded, and what is beyond `level`.
pub(crate) fn told(level: Level, leaf: u32, subleaf: u32) -> [u32; 4] {
    level.masked(leaf, subleaf, masked(leaf, subleaf, sys::cpuid(leaf, subleaf)))
}

/// The questions that programs ask of cpuid, with the answers that they get at this level. Leaves whose
/// answer depends on the core are answered as on the calling thread's.
///
/// To ask takes a virtual machine 10 µs or more, so nothing is asked that nobody asks, behind a leaf's last
/// subleaf: that is answered when the instruction traps. (It need not be zeros: virtual machines tell of
/// state that leaf 13 does not list.)
pub fn cpuid_answers(level: Level) -> Vec<Cpuid> {
    let mut answers = Vec::new();
    let mut ask = |leaf, subleaf: Option<u32>| {
        let told = sys::cpuid(leaf, subleaf.unwrap_or(0));
        let answer = masked(leaf, subleaf.unwrap_or(0), told);
        answers.push(Cpuid { leaf, subleaf, answer: level.masked(leaf, subleaf.unwrap_or(0), answer) });
        told
    };
    for first in [0, 0x4000_0000, 0x8000_0000] {
        let [last, ..] = ask(first, None);
        // A range that the processor does not have is answered with something else.
        if last < first || last - first > 0x40 {
            continue;
        }
        for leaf in first + 1..=last {
            match subleaves(leaf) {
                Subleaves::None => {
                    ask(leaf, None);
                }
                Subleaves::Counted => {
                    // What might be there is asked by programs that do not look how many there are.
                    let last = ask(leaf, Some(0))[0].clamp(if leaf == 7 { 2 } else { 0 }, SUBLEAVES_MAX);
                    for subleaf in 1..=last {
                        ask(leaf, Some(subleaf));
                    }
                }
                Subleaves::Listed(goes_on) => {
                    (0..=SUBLEAVES_MAX).find(|subleaf| !goes_on(ask(leaf, Some(*subleaf))));
                }
                Subleaves::States => {
                    for subleaf in 0..=SUBLEAVES_MAX {
                        ask(leaf, Some(subleaf));
                    }
                }
            }
        }
    }
    answers
}

/// No leaf has more subleaves that anybody asks for.
const SUBLEAVES_MAX: u32 = 16;

/// Which subleaves a leaf has.
enum Subleaves {
    /// The answer is the same for all.
    None,
    /// The first says in eax which is the last.
    Counted,
    /// As long as the answer says so, and the one that does not.
    Listed(fn([u32; 4]) -> bool),
    /// One for each component of the processor's state, behind two.
    States,
}

fn subleaves(leaf: u32) -> Subleaves {
    match leaf {
        // Caches, enclaves, partitions: a type in eax.
        4 | 0x12 | 0x1b | 0x8000_001d => Subleaves::Listed(|[eax, ..]| eax & 0x1f != 0),
        // Levels of cores: a type in ecx.
        0xb | 0x1f | 0x8000_0026 => Subleaves::Listed(|[_, _, ecx, _]| ecx >> 8 & 0xff != 0),
        7 | 0x14 | 0x17 | 0x18 | 0x1d | 0x1e | 0x20 | 0x23 | 0x24 => Subleaves::Counted,
        0xd => Subleaves::States,
        // Monitoring and allocation: few have any.
        0xf | 0x10 | 0x1a | 0x8000_0020 => Subleaves::Listed(|answer| answer != [0; 4]),
        _ => Subleaves::None,
    }
}

/// An instruction that nothing makes fault, as its bytes say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chance {
    pub insn: Insn,
    /// Bytes of the instruction.
    pub len: usize,
    /// The register that it writes, as the processor counts.
    register: u8,
    /// Of `lsl`: the register with the selector.
    source: u8,
    /// Bytes that it writes: 2 (the rest of the register stays), 4 (the upper half becomes zero) or 8.
    width: u8,
    /// Of a transaction: from the instruction's end to where the program deals with its failure.
    distance: i32,
}

impl Chance {
    /// The instruction at the beginning of these bytes; none if it is none of these.
    pub fn decode(bytes: &[u8]) -> Option<Chance> {
        if let [0xc7, 0xf8, distance @ ..] = bytes {
            let distance = i32::from_le_bytes(*distance.first_chunk()?);
            return Some(Chance { insn: Insn::Xbegin, len: 6, register: 0, source: 0, width: 4, distance });
        }
        let prefixes = bytes.iter().take_while(|byte| matches!(byte, 0x66 | 0xf3 | 0x40..=0x4f)).count();
        let (before, rest) = bytes.split_at(prefixes);
        let rex = before.last().filter(|byte| **byte >= 0x40 && **byte < 0x50).copied().unwrap_or(0);
        let (insn, modrm) = match *rest {
            [0x0f, 0xc7, modrm @ 0xf0..=0xf7, ..] => (Insn::Rdrand, modrm),
            [0x0f, 0xc7, modrm @ 0xf8..=0xff, ..] if before.contains(&0xf3) => (Insn::Rdpid, modrm),
            [0x0f, 0xc7, modrm @ 0xf8..=0xff, ..] => (Insn::Rdseed, modrm),
            [0x0f, 0x03, modrm @ 0xc0..=0xff, ..] => (Insn::Lsl, modrm),
            _ => return None,
        };
        let width = match rex & 8 {
            0 if before.contains(&0x66) => 2,
            0 => 4,
            _ => 8,
        };
        let (operand, other) = (modrm & 7 | (rex & 1) << 3, modrm >> 3 & 7 | (rex & 4) << 1);
        let (register, source) = if insn == Insn::Lsl { (other, operand) } else { (operand, 0) };
        Some(Chance { insn, len: prefixes + 3, register, source, width, distance: 0 })
    }

    /// Carries it out: the registers after it. The processor must have it. `told` says which core the task is
    /// told that it is on.
    pub fn emulate(&self, before: &Registers, told: impl Fn(u32) -> u32) -> Registers {
        /// CF, PF, AF, ZF, SF, OF.
        const ARITHMETIC: u64 = 0x8d5;
        /// What the selector of the segment has, whose limit says the core, and what it asks for beside.
        const CORE_SELECTOR: u16 = 0x78;
        const PRIVILEGE: u16 = 3;
        const ZERO: u64 = 1 << 6;
        /// Node and core: the kernel keeps them together.
        const CORE: u32 = 0xfff;
        let own = |number: u32| number & !CORE | told(number & CORE);
        let mut after = Registers { rip: before.rip + self.len as u64, ..*before };
        let number = match self.insn {
            Insn::Rdrand => sys::rdrand(),
            Insn::Rdseed => sys::rdseed(),
            Insn::Xbegin => {
                after.rip = after.rip.wrapping_add_signed(self.distance.into());
                after.rax = 0;
                return after;
            }
            Insn::Lsl => {
                // The tables of segments are all tasks' alike: what would change a task's is refused.
                let selector = (*register(&mut after, self.source) & 0xffff) as u16;
                let limit = sys::lsl(selector);
                after.eflags = after.eflags & !ZERO | if limit.is_some() { ZERO } else { 0 };
                let Some(limit) = limit else { return after };
                Some(if selector & !PRIVILEGE == CORE_SELECTOR { own(limit) } else { limit }.into())
            }
            _ => Some(own(sys::rdtscp().1).into()),
        };
        if matches!(self.insn, Insn::Rdrand | Insn::Rdseed) {
            after.eflags = after.eflags & !ARITHMETIC | u64::from(number.is_some());
        }
        let place = register(&mut after, self.register);
        let number = number.unwrap_or(0);
        *place = match self.width {
            2 => *place & !0xffff | number & 0xffff,
            4 => number & 0xffff_ffff,
            _ => number,
        };
        after
    }
}

fn register(regs: &mut Registers, number: u8) -> &mut u64 {
    match number {
        0 => &mut regs.rax,
        1 => &mut regs.rcx,
        2 => &mut regs.rdx,
        3 => &mut regs.rbx,
        4 => &mut regs.rsp,
        5 => &mut regs.rbp,
        6 => &mut regs.rsi,
        7 => &mut regs.rdi,
        8 => &mut regs.r8,
        9 => &mut regs.r9,
        10 => &mut regs.r10,
        11 => &mut regs.r11,
        12 => &mut regs.r12,
        13 => &mut regs.r13,
        14 => &mut regs.r14,
        _ => &mut regs.r15,
    }
}

/// Which of the instructions there are whose answers cannot be known, and that `cpuid` is made to hide.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    pub rdrand: bool,
    pub rdseed: bool,
    pub rdpid: bool,
    /// xbegin and its relatives.
    pub transactions: bool,
    pub xsavec: bool,
    /// Nothing in the registers that the kernel saves says where the last x87 instruction was.
    pub forgets_x87: bool,
}

/// What this processor has of them.
pub fn chances() -> Chances {
    let [_, ebx, ecx, _] = if sys::cpuid(0, 0)[0] < 7 { [0; 4] } else { sys::cpuid(7, 0) };
    let state = if xcr0() == 0 { [0; 4] } else { component(1) };
    Chances {
        rdrand: sys::cpuid(1, 0)[2] >> 30 & 1 != 0,
        rdseed: ebx >> 18 & 1 != 0,
        rdpid: ecx >> 22 & 1 != 0,
        transactions: ebx >> 11 & 1 != 0,
        xsavec: state[0] >> 1 & 1 != 0,
        forgets_x87: sys::is_x87_place_lost(),
    }
}

/// Has this processor the rdtscp instruction?
pub fn has_rdtscp() -> bool {
    sys::cpuid(0x8000_0000, 0)[0] > 0x8000_0000 && sys::cpuid(0x8000_0001, 0)[3] >> 27 & 1 != 0
}

/// The state components that the operating system has turned on (XCR0), from cpuid leaf 13; 0 where the
/// processor has no XSAVE.
pub fn xcr0() -> u64 {
    // In a virtual machine, each `cpuid` is an exit to the hypervisor.
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        if sys::cpuid(0, 0)[0] < 13 {
            return 0;
        }
        let [eax, _, _, edx] = sys::cpuid(13, 0);
        u64::from(eax) | u64::from(edx) << 32
    })
}

/// The processor's brand, for people.
pub fn brand() -> String {
    if sys::cpuid(0x8000_0000, 0)[0] < 0x8000_0004 {
        return "unknown".into();
    }
    let words = (0x8000_0002..=0x8000_0004).flat_map(|leaf| sys::cpuid(leaf, 0));
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_and_transactions_are_hidden() {
        let all = [u32::MAX; 4];
        assert_eq!(masked(1, 0, all)[2] & (1 << 30), 0);
        let [eax, ebx, ecx, _] = masked(7, 0, all);
        assert_eq!((eax, ebx & (1 << 18 | 1 << 11), ecx & (1 << 22)), (u32::MAX, 0, 0));
        assert_eq!(masked(0xb, 0, all), all);
    }

    #[test]
    fn what_programs_ask_first_is_answered_once() {
        let answers = cpuid_answers(Level::Native);
        let mut asked: Vec<(u32, Option<u32>)> = answers.iter().map(|it| (it.leaf, it.subleaf)).collect();
        for question in [
            (0, None),
            (1, None),
            (4, Some(0)),
            (7, Some(0)),
            (0xd, Some(0)),
            (0xd, Some(1)),
            (0x8000_0000, None),
        ] {
            let is_there = question.0 >= 0x8000_0000 || question.0 <= sys::cpuid(0, 0)[0];
            assert_eq!(asked.contains(&question), is_there, "{question:x?}");
        }
        for known in answers.iter().filter(|it| [0, 7, 0xd, 0x8000_0002].contains(&it.leaf)) {
            let subleaf = known.subleaf.unwrap_or(0);
            assert_eq!(
                known.answer,
                masked(known.leaf, subleaf, sys::cpuid(known.leaf, subleaf)),
                "{known:x?}"
            );
        }
        let count = asked.len();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), count);
    }

    #[test]
    fn instructions_of_chance_are_told_by_their_bytes() {
        let of = |bytes: &[u8]| {
            Chance::decode(bytes).map(|it| (it.insn, it.len, it.register, it.width, it.distance))
        };
        assert_eq!(of(&[0x0f, 0xc7, 0xf0, 0x73]), Some((Insn::Rdrand, 3, 0, 4, 0)));
        assert_eq!(of(&[0x49, 0x0f, 0xc7, 0xf2]), Some((Insn::Rdrand, 4, 10, 8, 0)));
        assert_eq!(of(&[0x66, 0x41, 0x0f, 0xc7, 0xf9]), Some((Insn::Rdseed, 5, 9, 2, 0)));
        assert_eq!(of(&[0xf3, 0x0f, 0xc7, 0xfb]), Some((Insn::Rdpid, 4, 3, 4, 0)));
        assert_eq!(of(&[0xc7, 0xf8, 0xfe, 0xff, 0xff, 0xff]), Some((Insn::Xbegin, 6, 0, 4, -2)));
        // lsl r9, ebx; lsl ax, r10w
        assert_eq!(of(&[0x4c, 0x0f, 0x03, 0xcb]), Some((Insn::Lsl, 4, 9, 8, 0)));
        assert_eq!(of(&[0x66, 0x41, 0x0f, 0x03, 0xc2]), Some((Insn::Lsl, 5, 0, 2, 0)));
        assert_eq!(of(&[0x0f, 0x03, 0x03]), None);
        assert_eq!(of(&[0x0f, 0xc7, 0x08]), None);
        assert_eq!(of(&[0x90, 0x0f, 0xc7, 0xf0]), None);
    }

    #[test]
    fn a_number_goes_where_it_belongs_and_a_transaction_fails() {
        let before = Registers { rip: 100, rax: u64::MAX, r9: u64::MAX, eflags: 0x2, ..Registers::default() };
        let fails = Chance::decode(&[0xc7, 0xf8, 0x10, 0, 0, 0]).map(|it| it.emulate(&before, |core| core));
        assert_eq!(fails, Some(Registers { rip: 122, rax: 0, ..before }));
        if chances().rdrand {
            let short = Chance::decode(&[0x66, 0x41, 0x0f, 0xc7, 0xf1]).expect("rdrand r9w");
            let short = short.emulate(&before, |core| core);
            assert_eq!((short.rip, short.r9 >> 16, short.rax), (105, u64::MAX >> 16, u64::MAX));
        }
    }

    #[test]
    fn time_goes_on() {
        let before = Registers { rip: 100, ..Registers::default() };
        let first = emulate(Insn::Rdtsc, 2, &before, &[], Level::Native);
        let second = emulate(Insn::Rdtsc, 2, &before, &[], Level::Native);
        let whole = |r: Registers| r.rdx << 32 | r.rax;
        assert!(whole(second) > whole(first));
        assert_eq!(first.rip, 102);
    }
}
