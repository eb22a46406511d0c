//! The seccomp filters under which watched, recorded and replayed tasks run: a handful of classic BPF
//! instructions.
//!
//! Recording: every system call stops at the supervisor, but for those made at the agent's own instructions.
//! Replay: every one stops, the supervisor's own included; only a parked task may sleep, in pause(), which
//! can do no harm from wherever it is called. So a replayed program can reach no kernel function by itself,
//! even if it jumps into the agent.
//!
//! Before a recording, where a program runs by itself until it asks for its first checkpoint: only the call
//! that is bis's own stops. Both filters stand then; of two that say the same, the later one's word counts.
//!
//! A call of the 32-bit table (`int 0x80`) stops wherever it is made from: bis makes none of its own that
//! way.

use std::mem;

use bis_agent::{PARK_END, SERIES_SYSCALL_END, UNTRACED_SYSCALL_END, hooks};
use bis_syscalls::own;

/// One instruction of classic BPF (`struct sock_filter`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    k: u32,
}

impl Instruction {
    /// As it lies in memory.
    pub fn to_bytes(self) -> [u8; 8] {
        let [a, b] = self.code.to_le_bytes();
        let [c, d, e, f] = self.k.to_le_bytes();
        [a, b, self.jump_true, self.jump_false, c, d, e, f]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Until the program asks for something that is bis's own.
    Watch,
    Record,
    Replay,
}

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const TRACE: u32 = libc::SECCOMP_RET_TRACE;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

const NR: u32 = mem::offset_of!(libc::seccomp_data, nr) as u32;
const ARCH: u32 = mem::offset_of!(libc::seccomp_data, arch) as u32;
const IP_LOW: u32 = mem::offset_of!(libc::seccomp_data, instruction_pointer) as u32;
const IP_HIGH: u32 = IP_LOW + 4;

const AUDIT_ARCH_X86_64: u32 = linux_raw_sys::ptrace::AUDIT_ARCH_X86_64;
const NR_PAUSE: u32 = libc::SYS_pause as u32;

fn load(k: u32) -> Instruction {
    Instruction { code: LOAD_WORD, jump_true: 0, jump_false: 0, k }
}

/// Goes on with the next instruction if the word equals `k`, else skips `miss` instructions.
fn must_equal(k: u32, miss: u8) -> Instruction {
    Instruction { code: JUMP_EQUAL, jump_true: 0, jump_false: miss, k }
}

fn give(k: u32) -> Instruction {
    Instruction { code: RETURN, jump_true: 0, jump_false: 0, k }
}

fn low(addr: u64) -> u32 {
    u32::try_from(addr).expect("the agent lies below 4 GiB")
}

/// The filter of a mode.
pub fn program(mode: Mode) -> Vec<Instruction> {
    match mode {
        Mode::Watch => vec![
            load(ARCH),
            must_equal(AUDIT_ARCH_X86_64, 3),
            load(NR),
            must_equal(u32::try_from(own::NUMBER).expect("a number of 32 bits"), 1),
            give(TRACE),
            give(ALLOW),
        ],
        Mode::Record => vec![
            load(ARCH),
            must_equal(AUDIT_ARCH_X86_64, 8),
            load(IP_HIGH),
            must_equal(0, 6),
            load(IP_LOW),
            Instruction { code: JUMP_EQUAL, jump_true: 3, jump_false: 0, k: low(hooks::SYSCALL_END) },
            Instruction { code: JUMP_EQUAL, jump_true: 2, jump_false: 0, k: low(UNTRACED_SYSCALL_END) },
            Instruction { code: JUMP_EQUAL, jump_true: 1, jump_false: 0, k: low(SERIES_SYSCALL_END) },
            must_equal(low(PARK_END), 1),
            give(ALLOW),
            give(TRACE),
        ],
        Mode::Replay => vec![
            load(ARCH),
            must_equal(AUDIT_ARCH_X86_64, 7),
            load(NR),
            must_equal(NR_PAUSE, 5),
            load(IP_HIGH),
            must_equal(0, 3),
            load(IP_LOW),
            must_equal(low(PARK_END), 1),
            give(ALLOW),
            give(TRACE),
        ],
    }
}

#[cfg(test)]
mod tests {
    use bis_agent::ROW_SYSCALL_END;

    use super::*;

    /// What the kernel's interpreter would answer.
    fn run(program: &[Instruction], nr: u32, arch: u32, ip: u64) -> u32 {
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let instruction = program[at];
            at += 1;
            match instruction.code {
                LOAD_WORD => {
                    accumulator = match instruction.k {
                        NR => nr,
                        ARCH => arch,
                        IP_LOW => u32::try_from(ip & 0xffff_ffff).unwrap(),
                        IP_HIGH => u32::try_from(ip >> 32).unwrap(),
                        other => panic!("load from {other}"),
                    }
                }
                JUMP_EQUAL => {
                    let hit = accumulator == instruction.k;
                    at += usize::from(if hit { instruction.jump_true } else { instruction.jump_false });
                }
                RETURN => return instruction.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    fn check(mode: Mode, nr: u32, arch: u32, ip: u64, expected: u32) {
        assert_eq!(run(&program(mode), nr, arch, ip), expected, "{mode:?} {nr} {arch:#x} {ip:#x}");
    }

    #[test]
    fn recording_lets_through_only_the_agents_instructions() {
        check(Mode::Record, 0, AUDIT_ARCH_X86_64, UNTRACED_SYSCALL_END, ALLOW);
        check(Mode::Record, 9, AUDIT_ARCH_X86_64, SERIES_SYSCALL_END, ALLOW);
        check(Mode::Record, 0, AUDIT_ARCH_X86_64, ROW_SYSCALL_END, TRACE);
        check(Mode::Record, 34, AUDIT_ARCH_X86_64, PARK_END, ALLOW);
        check(Mode::Record, 0, AUDIT_ARCH_X86_64, hooks::SYSCALL_END, ALLOW);
        check(Mode::Record, 0, AUDIT_ARCH_X86_64, 0x40_1000, TRACE);
        check(Mode::Record, 0, AUDIT_ARCH_X86_64, UNTRACED_SYSCALL_END + (1 << 32), TRACE);
        check(Mode::Record, 0, 0x4000_0003, UNTRACED_SYSCALL_END, TRACE);
        check(Mode::Record, 20, 0x4000_0003, 0x40_1000, TRACE);
    }

    #[test]
    fn watching_stops_only_our_own_call() {
        let own = u32::try_from(own::NUMBER).unwrap();
        check(Mode::Watch, own, AUDIT_ARCH_X86_64, 0x40_1000, TRACE);
        check(Mode::Watch, own, 0x4000_0003, 0x40_1000, ALLOW);
        for nr in 0..500 {
            check(Mode::Watch, nr, AUDIT_ARCH_X86_64, 0x7fff_f7e0_0000, ALLOW);
        }
    }

    #[test]
    fn replay_lets_through_only_the_sleep_of_a_parked_task() {
        check(Mode::Replay, 34, AUDIT_ARCH_X86_64, PARK_END, ALLOW);
        for nr in (0..500).filter(|nr| *nr != 34) {
            check(Mode::Replay, nr, AUDIT_ARCH_X86_64, PARK_END, TRACE);
        }
        for nr in 0..500 {
            check(Mode::Replay, nr, AUDIT_ARCH_X86_64, UNTRACED_SYSCALL_END, TRACE);
            check(Mode::Replay, nr, AUDIT_ARCH_X86_64, SERIES_SYSCALL_END, TRACE);
            check(Mode::Replay, nr, AUDIT_ARCH_X86_64, ROW_SYSCALL_END, TRACE);
            check(Mode::Replay, nr, AUDIT_ARCH_X86_64, 0x7fff_f7e0_0000, TRACE);
        }
        check(Mode::Replay, 34, 0x4000_0003, PARK_END, TRACE);
    }
}
