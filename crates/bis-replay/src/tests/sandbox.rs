//! What a trace from a stranger tries.

use bis_trace::event::MemWrite;
use bis_trace::types::{Addr, NARROW_TABLE, StandardStream};

use super::*;

/// A program that makes this call itself, through the instruction at `via`, or through its own if that is
/// none. The trace says what really happens, so nothing but the filter and the supervisor is in its way.
fn tries(nr: u8, [rdi, rsi, rdx]: [u32; 3], data: &[u8], via: Option<u64>) -> Tape {
    let mut tape = Tape::new();
    // mov eax, nr; mov edi, rdi; mov esi, rsi; mov edx, rdx; then jmp rbx, or syscall and exit_group.
    let mut code = vec![0xb8, nr, 0, 0, 0];
    for (mov, word) in [(0xbf, rdi), (0xbe, rsi), (0xba, rdx)] {
        code.push(mov);
        code.extend(word.to_le_bytes());
    }
    match via {
        Some(_) => code.extend([0xff, 0xe3]),
        None => code.extend([0x0f, 0x05]),
    }
    code.extend(call_code(231));
    let mut start = image(&code);
    start.writes.push(MemWrite { addr: Addr(DATA), data: data.to_vec() });
    start.regs.rbx = via.unwrap_or(0);
    tape.start(A, exec_base(), start);
    let [rdi, rsi, rdx] = [rdi, rsi, rdx].map(u64::from);
    let regs = Registers { rdi, rsi, rdx, rbx: via.unwrap_or(0), ..first_regs() };
    let entry = match via {
        None => at_call(&regs, 22, nr.into()),
        Some(at) => Registers { rip: at + 2, rcx: at + 2, ..at_call(&regs, 0, nr.into()) },
    };
    let after = tape.call_with(A, entry, outcome(Registers { rip: CODE + 22, ..returns(&entry, 3) }));
    tape.exit(A, at_call(&after, 29, 231));
    tape
}

const AGENTS_CALLS: [u64; 4] = [
    bis_agent::UNTRACED_SYSCALL,
    bis_agent::SERIES_SYSCALL_END - 2,
    bis_agent::ROW_SYSCALL,
    bis_agent::PARK_END - 2,
];

#[test]
fn no_system_call_of_the_program_reaches_the_kernel() {
    const CREAT: u8 = 85;
    for via in AGENTS_CALLS.map(Some).into_iter().chain([None]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        let name = [path.to_str().unwrap().as_bytes(), &[0]].concat();
        let data = u32::try_from(DATA).unwrap();
        let (summary, _) = tries(CREAT, [data, 0o666, 0], &name, via).replay().unwrap();
        assert_eq!(summary.domains, 1, "the program did what the trace said ({via:x?})");
        assert!(!path.exists(), "a file was made through {via:x?}");
    }
}

/// Where the agent's list of calls is gone through, calls are let through that change the task's own memory:
/// not the agent, or its calls would be others.
#[test]
fn the_program_cannot_change_the_agent_through_it() {
    const MPROTECT: u8 = 10;
    const MUNMAP: u8 = 11;
    let agent = u32::try_from(bis_agent::AGENT_BASE).unwrap();
    for via in AGENTS_CALLS.map(Some).into_iter().chain([None]) {
        for (nr, start, len) in [(MPROTECT, agent, 4096), (MUNMAP, agent, 1), (MUNMAP, agent - 4096, 8192)] {
            // A call that was made would not be seen here.
            let (summary, _) = tries(nr, [start, len, 7], &[0], via).replay().unwrap();
            assert_eq!(summary.domains, 1, "{nr} {start:#x} ({via:x?})");
        }
    }
    // As this one is not, of memory of its own.
    let own = u32::try_from(DATA).unwrap();
    let made = tries(MPROTECT, [own, 4096, 1], &[0], Some(bis_agent::SERIES_SYSCALL_END - 2));
    assert!(matches!(made.replay(), Err(ReplayError::Divergence(_))));
}

#[test]
fn a_32_bit_call_does_not_reach_the_kernel_either() {
    const CREAT: u64 = 8;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made");
    let mut tape = Tape::new();
    // mov eax, 8 (creat of the 32-bit table); mov ebx, DATA; mov ecx, 0666; int 0x80; then exit_group.
    let call = [0xb8, 8, 0, 0, 0, 0xbb, 0, 0, 0x50, 0, 0xb9, 0xb6, 1, 0, 0, 0xcd, 0x80];
    let mut start = image(&[&call[..], &call_code(231)].concat());
    let name = [path.to_str().unwrap().as_bytes(), &[0]].concat();
    start.writes.push(MemWrite { addr: Addr(DATA), data: name });
    tape.start(A, exec_base(), start);
    let regs = Registers { rbx: DATA, rcx: 0o666, ..first_regs() };
    let entry = Registers { rip: CODE + 17, rax: MINUS_ENOSYS, orig_rax: CREAT, ..regs };
    let after = returns(&entry, 3);
    let (nr, outcome) = (NARROW_TABLE | CREAT, Box::new(outcome(after)));
    tape.event(A, EventKind::Syscall { nr, entry, outcome });
    tape.exit(A, at_call(&after, 24, 231));
    let (summary, _) = tape.replay().unwrap();
    assert_eq!(summary.domains, 1, "the program did what the trace said");
    assert!(!path.exists(), "a file was made");
}

#[test]
fn the_agent_is_out_of_reach_of_effects_and_writes() {
    let agent = bis_agent::AGENT_BASE;
    let effects = [
        map(Addr(agent), 7, Backing::Anonymous),
        Effect::Unmap { addr: Addr(agent), len: PAGE },
        Effect::Unmap { addr: Addr(0), len: 1 << 46 },
        Effect::Protect { addr: Addr(agent), len: PAGE, prot: 7 },
        Effect::Remap { addr: Addr(DATA), old_len: PAGE, new_addr: Addr(agent), new_len: PAGE, keep: false },
        Effect::Remap { addr: Addr(agent), old_len: PAGE, new_addr: Addr(DATA), new_len: PAGE, keep: true },
        Effect::Advise { addr: Addr(agent), len: PAGE, advice: 4 },
        Effect::Advise { addr: Addr(DATA), len: PAGE, advice: 100 },
        Effect::Map { addr: Addr::MAX - 4095, len: PAGE, prot: 3, backing: Backing::Anonymous },
        Effect::Protect { addr: Addr(DATA), len: PAGE, prot: 0x0100_0000 },
    ];
    for effect in effects {
        let mut tape = Tape::new();
        let mut start = image(&[0x90]);
        start.effects.push(effect.clone());
        tape.start(A, exec_base(), start);
        let error = tape.replay().unwrap_err();
        assert!(matches!(error, ReplayError::Inconsistent { .. }), "{effect:?}: {error}");
    }
    let mut tape = Tape::new();
    let mut start = image(&[0x90]);
    start.writes.push(MemWrite { addr: Addr(agent + 4094), data: vec![0x90; 4] });
    tape.start(A, exec_base(), start);
    assert!(matches!(tape.replay(), Err(ReplayError::Inconsistent { .. })));
}

#[test]
fn impossible_registers_and_ranges_are_errors() {
    let cases: [&dyn Fn(&mut Outcome); 5] = [
        &|start| start.regs.cs = 0x10,
        &|start| start.regs.fs_base = u64::MAX,
        &|start| start.effects.push(Effect::Unmap { addr: Addr(DATA + 1), len: PAGE }),
        &|start| start.writes.push(MemWrite { addr: Addr(0x1234_5000), data: vec![1] }),
        &|start| {
            start.effects.push(Effect::NewObject { object: ObjectId(1), len: u64::MAX, content: None });
        },
    ];
    for (number, case) in cases.iter().enumerate() {
        let mut tape = Tape::new();
        let mut start = image(&[0x90]);
        case(&mut start);
        tape.start(A, exec_base(), start);
        let error = tape.replay().unwrap_err();
        assert!(matches!(error, ReplayError::Effect { .. }), "case {number}: {error}");
    }
}

#[test]
fn output_of_memory_that_is_not_there_is_an_error() {
    for (addr, len) in [(1, 10), (DATA, 1 << 30), (DATA, u64::MAX), (u64::MAX, 2)] {
        let mut tape = Tape::new();
        tape.exec(A, &call_code(1));
        let entry = at_call(&first_regs(), 7, 1);
        let echo = Some(Echo { stream: StandardStream::Output, ranges: vec![(Addr(addr), len)], sum: 0 });
        tape.call_with(A, entry, Outcome { echo, ..outcome(entry) });
        let error = tape.replay().unwrap_err();
        let fits = matches!(error, ReplayError::Effect { .. } | ReplayError::Inconsistent { .. });
        assert!(fits, "{addr:#x} {len:#x}: {error}");
    }
}

/// A small generator of numbers (xorshift64), so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.next() % choices.len() as u64).unwrap()]
    }

    fn addr(&mut self) -> u64 {
        let any = self.next();
        let agent = bis_agent::AGENT_BASE;
        self.one_of(&[DATA, DATA, CODE, 0x60_0000, agent, agent - PAGE, 1 << 46, (1 << 47) - PAGE, 0, any])
    }

    fn len(&mut self) -> u64 {
        let any = self.next();
        self.one_of(&[PAGE, PAGE, 2 * PAGE, 4 * PAGE, 1, 0, 1 << 30, any])
    }

    fn effect(&mut self) -> Effect {
        let object = ObjectId(self.one_of(&[1, 1, 2]));
        let offset = self.one_of(&[0, PAGE, 1, u64::MAX]);
        let file = bis_trace::types::FileId(3);
        let backing = match self.next() % 6 {
            0 => Backing::Shared { object, offset },
            1 => Backing::File { file, offset },
            2 => Backing::Stack,
            _ => Backing::Anonymous,
        };
        let prot = self.one_of(&[0, 1, 3, 3, 5, 7, 0x100]);
        let (addr, len) = (self.addr(), self.len());
        match self.next() % 13 {
            0..3 => Effect::Map { addr: Addr(addr), len, prot, backing },
            3 => Effect::Unmap { addr: Addr(addr), len },
            4 => Effect::Protect { addr: Addr(addr), len, prot },
            5 => {
                let (new_addr, new_len, keep) = (self.addr(), self.len(), self.next().is_multiple_of(2));
                Effect::Remap { addr: Addr(addr), old_len: len, new_addr: Addr(new_addr), new_len, keep }
            }
            6 => {
                Effect::Advise { addr: Addr(addr), len, advice: self.one_of(&[4, 9, 10, 11, 18, 19, 100, 7]) }
            }
            7 => Effect::NewObject { object, len, content: self.one_of(&[None, None, None, Some(file)]) },
            8 => Effect::WriteObject { object, offset, data: vec![1; 10] },
            // Not beyond what a test may fill.
            9 => Effect::ResizeObject { object, len: len % (1 << 20) },
            10 => Effect::ClearObject { object, offset, len },
            11 => {
                Effect::NewTask { tid: Tid(self.one_of(&[101, 7, 8, 9])), regs: first_regs(), xstate: None }
            }
            _ => Effect::Fork { domain: DomainId(self.one_of(&[1, 2, 3])), tid: Tid(5) },
        }
    }
}

#[test]
fn whatever_the_effects_are_the_replay_ends() {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    let (mut whole, mut refused) = (0, 0);
    for _ in 0..300 {
        let mut tape = Tape::new();
        let mut start = image(&[0x90]);
        let count = numbers.next() % 6;
        start.effects.extend((0..count).map(|_| numbers.effect()));
        if numbers.next().is_multiple_of(4) {
            start.writes.push(MemWrite { addr: Addr(numbers.addr()), data: vec![1; 100] });
        }
        tape.start(A, exec_base(), start);
        tape.gone(A, tid(A));
        tape.event(A, EventKind::End);
        match tape.replay() {
            Ok(_) => whole += 1,
            Err(ReplayError::Divergence(d)) => panic!("nothing ran: {d}"),
            Err(_) => refused += 1,
        }
    }
    assert!(whole > 30 && refused > 30, "{whole} whole, {refused} refused");
}

#[test]
fn no_replayed_process_outlives_a_failure() {
    let before = children();
    let mut tape = Tape::new();
    tape.exec(A, &[0xeb, 0xfe]);
    // B diverges at once; A would loop for ever.
    tape.call(A, at_call(&first_regs(), 7, 39), 0);
    tape.exec(B, &[0x0f, 0x0b]);
    tape.call(B, at_call(&first_regs(), 7, 39), 0);
    assert_eq!(tape.diverges().domain, B);
    assert!(children().iter().all(|child| before.contains(child) || !is_stub(*child)));
}

/// The children of all threads of this process.
fn children() -> Vec<i32> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

/// Other tests run at the same time and have stubs of their own; those end by themselves.
fn is_stub(pid: i32) -> bool {
    std::thread::sleep(std::time::Duration::from_millis(500));
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(b"bis-replay")
}
