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
//! In replay, calls that a filter from outside has refused when they were recorded are refused by ours, with
//! the same error: they have no events. Those that a filter from outside refuses now, and did not then, have
//! events; of an error and a stop the kernel would take the error, so ours has a trap for them, which is
//! stronger, and which a tracer sees as a signal ([`crate::task`] tells of it as of any other call's entry).
//! Calls of bis's own are in neither.
//!
//! A call of the 32-bit table (`int 0x80`) stops wherever it is made from: bis makes none of its own that
//! way.

use std::mem;

use bis_agent::{AGENT_BASE, AGENT_LEN, PARK_END, SERIES_SYSCALL_END, UNTRACED_SYSCALL_END, hooks};
use bis_syscalls::own;
use bis_trace::event::{Refusal, When};

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

/// The calls that a filter from outside refuses.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Refused {
    /// Where they were recorded.
    pub then: Vec<Refusal>,
    /// Where they are replayed.
    pub now: Vec<Refusal>,
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
const JUMP_IF_ANY: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const TRAP: u32 = libc::SECCOMP_RET_TRAP;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO;
const TRACE: u32 = libc::SECCOMP_RET_TRACE;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

const NR: u32 = mem::offset_of!(libc::seccomp_data, nr) as u32;
const ARGS: u32 = mem::offset_of!(libc::seccomp_data, args) as u32;
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

fn jump_over(count: u32) -> Instruction {
    Instruction { code: JUMP, jump_true: 0, jump_false: 0, k: count }
}

fn low(addr: u64) -> u32 {
    u32::try_from(addr).expect("the agent lies below 4 GiB")
}

/// What is done about a call that is refused, unless others do it.
fn rule(Refusal { nr, when, .. }: &Refusal, answer: u32) -> Vec<Instruction> {
    let argument = |arg: u8| load(ARGS + 8 * u32::from(arg));
    let answer = give(answer);
    match *when {
        When::Always => vec![load(NR), must_equal(*nr, 1), answer],
        When::Equal { arg, word } => {
            vec![load(NR), must_equal(*nr, 3), argument(arg), must_equal(word, 1), answer]
        }
        When::HasBits { arg, bits } => {
            let any = Instruction { code: JUMP_IF_ANY, jump_true: 0, jump_false: 1, k: bits };
            vec![load(NR), must_equal(*nr, 3), argument(arg), any, answer]
        }
    }
}

/// The rules for calls that are refused, but for those that are made from the agent's page.
fn refuse(refused: &Refused) -> Vec<Instruction> {
    let then = refused.then.iter().flat_map(|refusal| rule(refusal, REFUSE | u32::from(refusal.errno)));
    let now = refused.now.iter().flat_map(|refusal| rule(refusal, TRAP));
    let rules: Vec<Instruction> = then.chain(now).collect();
    if rules.is_empty() {
        return rules;
    }
    let behind = u32::try_from(rules.len()).unwrap_or(u32::MAX);
    let ours = vec![
        load(IP_HIGH),
        must_equal(0, 4),
        load(IP_LOW),
        Instruction { code: AND, jump_true: 0, jump_false: 0, k: !low(AGENT_LEN - 1) },
        must_equal(low(AGENT_BASE), 1),
        jump_over(behind),
    ];
    [ours, rules].concat()
}

/// The filter of a mode; that of replay knows which calls are refused.
pub fn program(mode: Mode, refused: &Refused) -> Vec<Instruction> {
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
        Mode::Replay => {
            let begin = vec![load(ARCH), must_equal(AUDIT_ARCH_X86_64, 1), jump_over(1), give(TRACE)];
            let end = vec![
                load(NR),
                must_equal(NR_PAUSE, 5),
                load(IP_HIGH),
                must_equal(0, 3),
                load(IP_LOW),
                must_equal(low(PARK_END), 1),
                give(ALLOW),
                give(TRACE),
            ];
            [begin, refuse(refused), end].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use bis_agent::ROW_SYSCALL_END;

    use super::*;

    /// What the kernel's interpreter would answer.
    fn run(program: &[Instruction], nr: u32, arch: u32, ip: u64, args: [u64; 6]) -> u32 {
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
                        other => {
                            let arg = args[usize::try_from((other - ARGS) / 8).unwrap()];
                            assert_eq!((other - ARGS) % 8, 0, "a lower half");
                            u32::try_from(arg & 0xffff_ffff).unwrap()
                        }
                    }
                }
                JUMP_EQUAL => {
                    let hit = accumulator == instruction.k;
                    at += usize::from(if hit { instruction.jump_true } else { instruction.jump_false });
                }
                JUMP_IF_ANY => {
                    let hit = accumulator & instruction.k != 0;
                    at += usize::from(if hit { instruction.jump_true } else { instruction.jump_false });
                }
                JUMP => at += usize::try_from(instruction.k).unwrap(),
                AND => accumulator &= instruction.k,
                RETURN => return instruction.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    fn check(mode: Mode, nr: u32, arch: u32, ip: u64, expected: u32) {
        assert_eq!(
            run(&program(mode, &Refused::default()), nr, arch, ip, [0; 6]),
            expected,
            "{mode:?} {nr} {arch:#x} {ip:#x}"
        );
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

    #[test]
    fn replay_refuses_what_was_refused_and_sees_what_was_not_but_nothing_of_ours() {
        let then = vec![
            Refusal { nr: 435, when: When::Always, errno: 38 },
            Refusal { nr: 135, when: When::Equal { arg: 0, word: 0x4_0000 }, errno: 1 },
            Refusal { nr: 56, when: When::HasBits { arg: 0, bits: 0x1000_0000 }, errno: 1 },
            Refusal { nr: 16, when: When::Equal { arg: 1, word: 0x5412 }, errno: 13 },
        ];
        let now = vec![
            Refusal { nr: 435, when: When::Always, errno: 1 },
            Refusal { nr: 272, when: When::Always, errno: 1 },
        ];
        let program = program(Mode::Replay, &Refused { then, now });
        let at = |nr: u32, ip: u64, args: [u64; 2]| {
            run(&program, nr, AUDIT_ARCH_X86_64, ip, [args[0], args[1], 0, 0, 0, 0])
        };
        for ip in [0x40_1000, 0x7000_1339, 0x7fff_f7e0_0000, UNTRACED_SYSCALL_END + (1 << 32)] {
            assert_eq!(at(435, ip, [7, 7]), REFUSE | 38);
            assert_eq!(at(135, ip, [0x4_0000, 0]), REFUSE | 1);
            assert_eq!(at(135, ip, [0, 0x4_0000]), TRACE);
            assert_eq!(at(56, ip, [0x1000_0011, 0]), REFUSE | 1);
            assert_eq!(at(56, ip, [17, 0]), TRACE);
            assert_eq!(at(16, ip, [0, 0x5412]), REFUSE | 13);
            assert_eq!(at(16, ip, [0x5412, 0]), TRACE);
            assert_eq!(at(272, ip, [0, 0]), TRAP);
            assert_eq!(at(0, ip, [0, 0]), TRACE);
        }
        for ip in [UNTRACED_SYSCALL_END, SERIES_SYSCALL_END, ROW_SYSCALL_END] {
            assert_eq!(at(435, ip, [0, 0]), TRACE);
            assert_eq!(at(272, ip, [0, 0]), TRACE);
            assert_eq!(at(135, ip, [0x4_0000, 0]), TRACE);
        }
        assert_eq!(at(34, PARK_END, [0, 0]), ALLOW);
        assert_eq!(run(&program, 435, 0x4000_0003, 0x40_1000, [0; 6]), TRACE);
    }
}
