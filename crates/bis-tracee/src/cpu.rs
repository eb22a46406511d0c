//! Instructions whose result is not a function of the program's state, made to fault and carried out here:
//! `rdtsc`, `rdtscp`, `cpuid`. What `cpuid` answers is the processor's own answer without the features whose
//! use could not be replayed.

use bis_agent::hooks::Cpuid;
use bis_trace::{event::Insn, types::Registers};

use crate::{memory::Memory, sys};

/// The trapped instruction at `rip`, and its length in bytes.
pub fn trapped_instruction(memory: &Memory, rip: u64) -> Option<(Insn, u64)> {
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

/// Carries the instruction out: the registers after it.
pub fn emulate(insn: Insn, len: u64, before: &Registers) -> Registers {
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
            let [eax, ebx, ecx, edx] = masked(leaf, subleaf, sys::cpuid(leaf, subleaf));
            (after.rax, after.rbx, after.rcx, after.rdx) = (eax.into(), ebx.into(), ecx.into(), edx.into());
        }
    }
    after
}

/// The answer without: rdrand, rdseed (chance), rdpid, umonitor/tpause (the time stamp without rdtsc), hardware
/// transactions (aborts are not reproducible), memory protection keys and shadow stacks (their system calls are
/// refused), and AMX (its state is too large to save with every signal).
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

/// The questions that programs ask of cpuid, with the answers that they get. Leaves whose answer depends on the core
/// are answered as on the calling thread's.
pub fn cpuid_answers() -> Vec<Cpuid> {
    /// No leaf has more subleaves that anybody asks for.
    const SUBLEAVES_MAX: u32 = 16;
    let mut answers = Vec::new();
    for first in [0, 0x4000_0000, 0x8000_0000] {
        let last = sys::cpuid(first, 0)[0];
        // A range that the processor does not have is answered with something else.
        if last < first || last - first > 0x40 {
            continue;
        }
        for leaf in first..=last {
            let subleaves = match leaf {
                4 | 0x7 | 0xb | 0xd | 0xf | 0x10 | 0x12 | 0x14 | 0x17 | 0x18 | 0x1a | 0x1b | 0x1d | 0x1e
                | 0x1f | 0x20 | 0x23 | 0x24 | 0x8000_001d | 0x8000_0020 | 0x8000_0026 => SUBLEAVES_MAX,
                _ => 0,
            };
            if subleaves == 0 {
                let answer = masked(leaf, 0, sys::cpuid(leaf, 0));
                answers.push(Cpuid { leaf, subleaf: None, answer });
            }
            for subleaf in 0..subleaves {
                let answer = masked(leaf, subleaf, sys::cpuid(leaf, subleaf));
                answers.push(Cpuid { leaf, subleaf: Some(subleaf), answer });
            }
        }
    }
    answers
}

/// The state components that the operating system has turned on (XCR0), from cpuid leaf 13; 0 where the
/// processor has no XSAVE.
pub fn xcr0() -> u64 {
    if sys::cpuid(0, 0)[0] < 13 {
        return 0;
    }
    let [eax, _, _, edx] = sys::cpuid(13, 0);
    u64::from(eax) | u64::from(edx) << 32
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
    fn time_goes_on() {
        let before = Registers { rip: 100, ..Registers::default() };
        let first = emulate(Insn::Rdtsc, 2, &before);
        let second = emulate(Insn::Rdtsc, 2, &before);
        let whole = |r: Registers| r.rdx << 32 | r.rax;
        assert!(whole(second) > whole(first));
        assert_eq!(first.rip, 102);
    }
}
