//! The seccomp filters under which watched, recorded and replayed tasks run: a handful of classic BPF
//! instructions.
//!
//! Recording: every system call stops at the supervisor, but for those made at the agent's own instructions.
//! Replay: every one stops, the supervisor's own included, but for what can do no harm from wherever it is
//! called: a parked task may sleep, in pause(), and what changes nothing but the caller's own private memory
//! beside the agent is let through where the agent goes through a list of calls, and, unless somebody watches
//! that memory, where a hook does. So a replayed program can reach nothing outside by itself, even if it
//! jumps into the agent; and it cannot change the agent, to whose calls the supervisor says yes.
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
    Replay(HookedChanges),
}

/// Where a hook changes the replayed address space.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum HookedChanges {
    /// The call stops: somebody may watch what it changes.
    #[default]
    Stop,
    /// The call is let through.
    Pass,
}

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_IF_ANY: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const A_TO_X: u16 = (libc::BPF_MISC | libc::BPF_TAX) as u16;
const ADD_X: u16 = (libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X) as u16;
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

/// How private memory may be mapped beside that it is. Not in large pages (MAP_HUGETLB): the kernel makes the
/// length a multiple of theirs, which would reach over the agent.
const MAP_AS_WELL: i32 = libc::MAP_FIXED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

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

/// Lets calls through that end at these instructions of ours and change no more than the caller's own private
/// memory, beside the agent. Of others nothing is said.
fn private_changes(ends: &[u64]) -> Vec<Instruction> {
    let argument = |arg: u32| load(ARGS + 8 * arg);
    let number = |nr: libc::c_long| u32::try_from(nr).expect("the number of a call");
    // What is to be done with a call, by its number: that ends with an answer.
    let of = |nr: libc::c_long, then: Vec<Instruction>| {
        let skip = u8::try_from(then.len()).expect("a short filter");
        [vec![load(NR), must_equal(number(nr), skip)], then].concat()
    };
    let plain = |code| Instruction { code, jump_true: 0, jump_false: 0, k: 0 };
    let if_least = |k, jump_true| Instruction { code: JUMP_AT_LEAST, jump_true, jump_false: 0, k };
    let beside_agent = vec![
        load(ARGS + 4),
        must_equal(0, 11),
        argument(0),
        if_least(low(AGENT_BASE + AGENT_LEN), 9),
        if_least(low(AGENT_BASE), 9),
        // It begins before the agent, and must end there. The sum of such words has 32 bits.
        load(ARGS + 12),
        must_equal(0, 7),
        argument(1),
        if_least(low(AGENT_BASE), 5),
        plain(A_TO_X),
        argument(0),
        plain(ADD_X),
        if_least(low(AGENT_BASE) + 1, 1),
        give(ALLOW),
        give(TRACE),
    ];
    let behind = u8::try_from(beside_agent.len()).expect("a short filter");
    let other = Instruction { code: AND, jump_true: 0, jump_false: 0, k: !MAP_AS_WELL.cast_unsigned() };
    let is_private = vec![argument(3), other, must_equal(libc::MAP_PRIVATE.cast_unsigned(), behind)];
    let takes_back = vec![argument(2), must_equal(libc::MADV_DONTNEED.cast_unsigned(), behind)];
    let sets_fs = must_equal(linux_raw_sys::general::ARCH_SET_FS, 1);
    let cases = [
        of(libc::SYS_mmap, [is_private, beside_agent.clone(), vec![give(TRACE)]].concat()),
        of(libc::SYS_munmap, beside_agent.clone()),
        of(libc::SYS_mprotect, beside_agent.clone()),
        of(libc::SYS_madvise, [takes_back, beside_agent, vec![give(TRACE)]].concat()),
        of(libc::SYS_arch_prctl, vec![argument(0), sets_fs, give(ALLOW), give(TRACE)]),
    ]
    .concat();
    let behind = u32::try_from(cases.len()).unwrap_or(u32::MAX);
    let is_end = |(index, end): (usize, &u64)| {
        let left = u8::try_from(ends.len() - index).expect("few instructions");
        Instruction { code: JUMP_EQUAL, jump_true: left, jump_false: 0, k: low(*end) }
    };
    let ends: Vec<Instruction> = ends.iter().enumerate().map(is_end).collect();
    let skip = u8::try_from(1 + ends.len() + 1 + cases.len()).expect("a short filter");
    let begin = vec![load(IP_HIGH), must_equal(0, skip), load(IP_LOW)];
    [begin, ends, vec![jump_over(behind)], cases].concat()
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
        Mode::Replay(changes) => {
            let ends: &[u64] = match changes {
                HookedChanges::Stop => &[SERIES_SYSCALL_END],
                HookedChanges::Pass => &[SERIES_SYSCALL_END, hooks::CHANGE_END],
            };
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
            [begin, refuse(refused), private_changes(ends), end].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use bis_agent::ROW_SYSCALL_END;

    use super::*;

    /// What the kernel's interpreter would answer.
    fn run(program: &[Instruction], nr: u32, arch: u32, ip: u64, args: [u64; 6]) -> u32 {
        let (mut accumulator, mut x, mut at) = (0u32, 0u32, 0);
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
                            let half = if (other - ARGS).is_multiple_of(8) { arg } else { arg >> 32 };
                            u32::try_from(half & 0xffff_ffff).unwrap()
                        }
                    }
                }
                JUMP_EQUAL => {
                    let hit = accumulator == instruction.k;
                    at += usize::from(if hit { instruction.jump_true } else { instruction.jump_false });
                }
                JUMP_AT_LEAST => {
                    let hit = accumulator >= instruction.k;
                    at += usize::from(if hit { instruction.jump_true } else { instruction.jump_false });
                }
                JUMP_IF_ANY => {
                    let hit = accumulator & instruction.k != 0;
                    at += usize::from(if hit { instruction.jump_true } else { instruction.jump_false });
                }
                JUMP => at += usize::try_from(instruction.k).unwrap(),
                A_TO_X => x = accumulator,
                ADD_X => accumulator = accumulator.checked_add(x).expect("a sum of 32 bits"),
                AND => accumulator &= instruction.k,
                RETURN => return instruction.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    fn check(mode: Mode, nr: u32, arch: u32, ip: u64, expected: u32) {
        assert_eq!(
            run(&program(mode, &Refused::default()), nr, arch, ip, [AGENT_BASE, 1, 0, 0, 0, 0]),
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

    const STOP: Mode = Mode::Replay(HookedChanges::Stop);
    const PASS: Mode = Mode::Replay(HookedChanges::Pass);

    #[test]
    fn replay_lets_through_the_sleep_of_a_parked_task_and_nothing_that_concerns_the_agent() {
        for mode in [STOP, PASS] {
            check(mode, 34, AUDIT_ARCH_X86_64, PARK_END, ALLOW);
            for nr in (0..500).filter(|nr| *nr != 34) {
                check(mode, nr, AUDIT_ARCH_X86_64, PARK_END, TRACE);
            }
            for nr in 0..500 {
                let ours = [UNTRACED_SYSCALL_END, SERIES_SYSCALL_END, ROW_SYSCALL_END, hooks::CHANGE_END];
                for ip in ours.into_iter().chain([hooks::SYSCALL_END, 0x7fff_f7e0_0000]) {
                    check(mode, nr, AUDIT_ARCH_X86_64, ip, TRACE);
                }
            }
            check(mode, 34, 0x4000_0003, PARK_END, TRACE);
        }
    }

    #[test]
    fn replay_lets_a_task_change_its_own_memory_beside_ours_where_that_is_made_for_it() {
        const FREE: u64 = 0x7fff_f7e0_0000;
        let [mmap, munmap, mprotect, madvise, arch_prctl] = [9, 11, 10, 28, 158];
        let private = 0x32;
        let harmless = [
            (mmap, [FREE, 0x1000, 7, private, 5, 0]),
            (mmap, [1 << 32, 0x1000, 3, 2, 5, 0]),
            (mmap, [hooks::TEXT_BASE, 0x1000, 5, private, 5, 0]),
            (mprotect, [0xffff_f000, 0x2000, 7, 0, 0, 0]),
            (mmap, [0x40_0000, 0x3000, 1, 0x12, 5, 0]),
            (mmap, [0, 0x1000, 3, private, 5, 0]),
            (mprotect, [AGENT_BASE - 0x3000, 0x3000, 7, 0, 0, 0]),
            (munmap, [FREE, 1 << 63, 0, 0, 0, 0]),
            (munmap, [FREE, 0x1000, 0, 0, 0, 0]),
            (mprotect, [FREE, 0x1000, 7, 0, 0, 0]),
            (madvise, [FREE, 0x1000, 4, 0, 0, 0]),
            (arch_prctl, [0x1002, 8, 0, 0, 0, 0]),
        ];
        let others = [
            // In a page of 1 GiB, with the agent in its middle; such that it may grow down to the agent.
            (mmap, [0x4000_0000, 0x1000, 7, private | 0x4_0000 | 30 << 26, u64::MAX, 0]),
            (mmap, [AGENT_BASE + 0x10_0000, 0x1000, 3, private | 0x100, u64::MAX, 0]),
            // Shared, in three ways; in the agent, or over it.
            (mmap, [FREE, 0x1000, 3, 0x11, 5, 0]),
            (mmap, [FREE, 0x1000, 3, 0x13, 5, 0]),
            (mmap, [FREE, 0x1000, 3, 0x18, 5, 0]),
            (mmap, [AGENT_BASE, 0x1000, 3, private, 5, 0]),
            (mmap, [AGENT_BASE - 0x1000, 0x1001, 3, private, 5, 0]),
            (mmap, [0, 1 << 40, 3, private, 5, 0]),
            (mmap, [0x40_0000, 0xffff_f000, 3, private, 5, 0]),
            (mmap, [0x40_0000, AGENT_BASE, 3, private, 5, 0]),
            (munmap, [AGENT_BASE - 0x1000, 0x2000, 0, 0, 0, 0]),
            (munmap, [0, FREE, 0, 0, 0, 0]),
            (mprotect, [AGENT_BASE + AGENT_LEN - 0x1000, 0x2000, 7, 0, 0, 0]),
            // Advice that needs privileges, and removes what others share.
            (madvise, [FREE, 0x1000, 100, 0, 0, 0]),
            (madvise, [FREE, 0x1000, 9, 0, 0, 0]),
            // cpuid does not fault any more.
            (arch_prctl, [0x1012, 1, 0, 0, 0, 0]),
            (25, [FREE, 0x1000, 0x1000, 3, AGENT_BASE, 0]),
            (12, [FREE, 0, 0, 0, 0, 0]),
            (59, [FREE, 0, 0, 0, 0, 0]),
            (329, [FREE, 0x1000, 7, 0, 0, 0]),
        ];
        let answer = |mode, ip, arch, (nr, args): (u32, [u64; 6])| {
            run(&program(mode, &Refused::default()), nr, arch, ip, args)
        };
        let is_made_there = [
            (STOP, SERIES_SYSCALL_END, true),
            (PASS, SERIES_SYSCALL_END, true),
            (STOP, hooks::CHANGE_END, false),
            (PASS, hooks::CHANGE_END, true),
            (PASS, hooks::SYSCALL_END, false),
            (PASS, ROW_SYSCALL_END, false),
            (PASS, UNTRACED_SYSCALL_END, false),
            (PASS, SERIES_SYSCALL_END + (1 << 32), false),
            (PASS, FREE, false),
        ];
        for (mode, ip, is_made) in is_made_there {
            for call in harmless {
                let expected = if is_made { ALLOW } else { TRACE };
                assert_eq!(answer(mode, ip, AUDIT_ARCH_X86_64, call), expected, "{mode:?} {ip:#x} {call:x?}");
                assert_eq!(answer(mode, ip, 0x4000_0003, call), TRACE);
            }
            for call in others {
                assert_eq!(answer(mode, ip, AUDIT_ARCH_X86_64, call), TRACE, "{mode:?} {ip:#x} {call:x?}");
            }
        }
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
        let program = program(PASS, &Refused { then, now });
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
