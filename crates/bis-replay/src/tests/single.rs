//! One domain with one task.

use bis_agent::hooks;
use bis_trace::{
    event::{
        Backing, Effect, Event, EventKind, Insn, Lapse, LastWay, MemWrite, Outcome, RangeSum, SignalEvent,
        SignalPoint, TaskEnd,
    },
    types::{Addr, EventSeq, Registers, Signal, StandardStream},
};

use super::*;

/// `getpid` (39), then `exit_group` (231).
fn two_calls() -> Vec<u8> {
    [call_code(39), call_code(231)].concat()
}

#[test]
fn a_program_is_replayed_to_its_end() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    let after = tape.call(A, at_call(&first_regs(), 7, 39), 4711);
    tape.exit(A, at_call(&after, 14, 231));
    let (summary, _) = tape.replay().unwrap();
    assert_eq!(summary, Summary { domains: 1, events: 5, incomplete: None });
}

/// Each version's hooks, and each compiler's, are another text: a trace brings its own, which say where their
/// parts are.
#[test]
fn hooks_of_another_build_are_replayed_and_of_another_agreement_refused_in_one_line() {
    let at = |addr: u64| usize::try_from(addr - hooks::TEXT_BASE).unwrap();
    let image_of_hooks = || hooks::image(true, &[], &hooks::table());
    let places = at(hooks::CPUID_BASE) - hooks::Places::LEN..at(hooks::CPUID_BASE);
    let damaged = |byte: usize| {
        let mut image = image_of_hooks();
        image[byte] ^= 1;
        image
    };
    // As before they said it.
    let silent = |mut image: Vec<u8>| {
        image[places.clone()].fill(0);
        image
    };
    for (what, hooks_image, refused) in [
        ("this version's", image_of_hooks(), false),
        ("another text", damaged(0x40), false),
        ("another table", damaged(at(hooks::TABLE_BASE)), false),
        ("no hooks", damaged(places.start), true),
        ("the agreement before", damaged(places.start + 8), false),
        ("another agreement", damaged(places.start + 9), true),
        ("a place that is not in the text", damaged(places.start + 16 + 5), true),
        ("this version's, which do not say where they are", silent(image_of_hooks()), false),
        ("others that do not say where they are", silent(damaged(0x40)), true),
    ] {
        let mut tape = Tape::new();
        let file = tape.keep_bytes(&hooks_image);
        let mut image = image(&two_calls());
        image.effects.push(Effect::Map {
            addr: Addr(hooks::TEXT_BASE),
            len: hooks::AREA_BASE - hooks::TEXT_BASE,
            prot: 5,
            backing: Backing::File { file, offset: 0 },
        });
        tape.start(A, exec_base(), image);
        let after = tape.call(A, at_call(&first_regs(), 7, 39), 4711);
        tape.exit(A, at_call(&after, 14, 231));
        let replayed = tape.replay().map(|_| ());
        assert_eq!(matches!(replayed, Err(ReplayError::OtherHooks)), refused, "{what}: {replayed:?}");
        assert!(replayed.is_ok() != refused, "{what}: {replayed:?}");
    }
}

#[test]
fn output_comes_from_memory_before_the_outcome() {
    let mut tape = Tape::new();
    // mov byte [DATA], 'x'; write; exit_group
    let store = [0xc6, 0x04, 0x25, 0, 0, 0x50, 0, b'x'];
    tape.exec(A, &[&store[..], &call_code(1), &call_code(231)].concat());
    let entry = at_call(&first_regs(), 15, 1);
    let seq = tape.next();
    tape.meta(&Meta::Echo { seq, domain: A, stream: StandardStream::Output, len: 2 });
    let after = Outcome {
        echo: Some(Echo {
            stream: StandardStream::Output,
            ranges: vec![(Addr(DATA), 1), (Addr(DATA), 1)],
            sum: 0,
        }),
        writes: vec![MemWrite { addr: Addr(DATA), data: b"y".to_vec() }],
        ..outcome(returns(&entry, 2))
    };
    let after = tape.call_with(A, entry, after);
    tape.exit(A, at_call(&after, 22, 231));
    assert_eq!(tape.replay().unwrap().1, "xx");
}

#[test]
fn another_register_is_a_divergence_that_shows_both() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    let after = tape.call(A, at_call(&first_regs(), 7, 39), 4711);
    let entry = Registers { rbx: 0xbeef, ..at_call(&after, 14, 231) };
    tape.exit(A, entry);
    let d = tape.diverges();
    assert_eq!((d.domain, d.tid, d.seq, d.position), (A, tid(A), EventSeq(3), 3));
    assert_eq!(d.registers.len(), 1);
    assert_eq!((d.registers[0].name, d.registers[0].expected, d.registers[0].found), ("rbx", 0xbeef, 0));
    assert_eq!(d.recent, ["1  it began", "2  getpid (system call 39) = 4711"]);
    let text = d.to_string();
    for part in
        [r"process 101 (test arg\n1)", "0xbeef", "exit_group", "syscall", "mov eax,0E7h", "anonymous memory"]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn another_call_is_a_divergence() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    tape.call(A, at_call(&first_regs(), 7, 40), 4711);
    let d = tape.diverges();
    assert!(d.expected.contains("system call 40") && d.found.contains("system call 39"), "{d}");
}

#[test]
fn a_fault_instead_of_a_call_names_the_address() {
    let mut tape = Tape::new();
    // mov al, [0x123456]
    tape.exec(A, &[0x8a, 0x04, 0x25, 0x56, 0x34, 0x12, 0]);
    tape.call(A, at_call(&first_regs(), 7, 39), 0);
    let d = tape.diverges();
    assert!(d.found.contains("SIGSEGV") && d.found.contains("0x123456"), "{d}");
    assert!(d.cause.contains("nothing is mapped at 0x123456"), "{d}");
}

#[test]
fn a_call_instead_of_a_fault_is_a_divergence() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    tape.event(A, EventKind::Signal(Box::new(fault(Signal(4), 2, Addr(CODE), first_regs(), None))));
    let d = tape.diverges();
    assert!(d.expected.contains("SIGILL") && d.found.contains("getpid"), "{d}");
}

fn fault(signal: Signal, code: u8, addr: Addr, before: Registers, handler: Option<Outcome>) -> SignalEvent {
    let mut siginfo = vec![0u8; 128];
    siginfo[0] = signal.0;
    siginfo[8] = code;
    siginfo[16..24].copy_from_slice(&addr.0.to_le_bytes());
    SignalEvent { signal, siginfo, point: SignalPoint::Fault, before, handler }
}

/// `ud2`; at `CODE + 16`: exit_group.
fn ud2() -> Vec<u8> {
    let mut code = vec![0x0f, 0x0b];
    code.resize(16, 0x90);
    code.extend(call_code(231));
    code
}

#[test]
fn a_fault_goes_on_in_its_handler_with_the_frame_written() {
    let mut tape = Tape::new();
    tape.exec(A, &ud2());
    let handler = Registers { rip: CODE + 16, rsp: DATA + 0x100, rdi: 4, ..first_regs() };
    let frame = Outcome {
        writes: vec![MemWrite { addr: Addr(DATA + 0x100), data: vec![7; 64] }],
        ..outcome(handler)
    };
    tape.event(A, EventKind::Signal(Box::new(fault(Signal(4), 2, Addr(CODE), first_regs(), Some(frame)))));
    tape.exit(A, at_call(&handler, 23, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn another_signal_is_a_divergence() {
    let mut tape = Tape::new();
    tape.exec(A, &ud2());
    tape.event(A, EventKind::Signal(Box::new(fault(Signal(11), 1, Addr(CODE), first_regs(), None))));
    let d = tape.diverges();
    assert!(d.expected.contains("SIGSEGV") && d.found.contains("SIGILL"), "{d}");
}

#[test]
fn a_deadly_fault_ends_the_domain() {
    let mut tape = Tape::new();
    tape.exec(A, &ud2());
    tape.event(A, EventKind::Signal(Box::new(fault(Signal(4), 2, Addr(CODE), first_regs(), None))));
    let status = TaskEnd::Killed(Signal(4));
    tape.event(A, EventKind::TaskExit { status, outcome: Box::default(), last_way: LastWay::None });
    tape.event(A, EventKind::End);
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn a_task_that_was_killed_in_a_hook_comes_there_before_it_ends() {
    let killed_at = |code: &[u8], last_way| {
        let mut tape = Tape::new();
        tape.exec(A, code);
        let status = TaskEnd::Killed(Signal::KILL);
        tape.event(A, EventKind::TaskExit { status, outcome: Box::default(), last_way });
        tape.event(A, EventKind::End);
        tape.replay().map(|(summary, _)| summary.events)
    };
    assert_eq!(killed_at(&two_calls(), LastWay::Call).unwrap(), 3);
    assert!(matches!(killed_at(&ud2(), LastWay::Call), Err(ReplayError::Divergence(_))));
    assert_eq!(killed_at(&ud2(), LastWay::None).unwrap(), 3);
    // There is no log that it could use up.
    assert!(matches!(killed_at(&two_calls(), LastWay::Log), Err(ReplayError::Inconsistent { .. })));
}

/// A handler that begins at the second of two calls.
fn sent(point: SignalPoint, before: Registers, handler: Registers) -> EventKind {
    let siginfo = vec![0; 128];
    let handler = Some(outcome(handler));
    EventKind::Signal(Box::new(SignalEvent { signal: Signal(10), siginfo, point, before, handler }))
}

#[test]
fn a_signal_after_an_event_is_written_and_not_run_to() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    let after = tape.call(A, at_call(&first_regs(), 7, 39), 1);
    // Goes back to the first call.
    let handler = Registers { rip: CODE, rdi: 10, ..after };
    tape.event(A, sent(SignalPoint::AfterEvent, after, handler));
    let after = tape.call(A, at_call(&handler, 7, 39), 2);
    tape.exit(A, at_call(&after, 14, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn a_signal_before_a_call_takes_its_place() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    let entry = at_call(&first_regs(), 7, 39);
    let before = Registers { rip: entry.rip - 2, rax: 39, ..entry };
    let handler = Registers { rip: CODE + 7, ..entry };
    tape.event(A, sent(SignalPoint::BeforeSyscall, before, handler));
    tape.exit(A, at_call(&handler, 14, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn a_signal_elsewhere_than_recorded_is_a_divergence() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    let after = tape.call(A, at_call(&first_regs(), 7, 39), 1);
    let before = Registers { rip: CODE + 2, ..after };
    tape.event(A, sent(SignalPoint::AfterEvent, before, after));
    let d = tape.diverges();
    assert_eq!(d.registers[0].name, "rip");
}

#[test]
fn trapped_instructions_give_what_they_gave() {
    let mut tape = Tape::new();
    // rdtsc; exit_group
    tape.exec(A, &[&[0x0f, 0x31][..], &call_code(231)].concat());
    let before = first_regs();
    let after = Registers { rip: CODE + 2, rax: 5, rdx: 6, ..before };
    tape.event(A, EventKind::Instruction { insn: Insn::Rdtsc, before, after });
    tape.exit(A, at_call(&after, 9, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn the_address_space_follows_the_effects() {
    let mut tape = Tape::new();
    let high = 0x7000_0000_0000;
    // mov byte [DATA+PAGE], 1; getpid; mov al, [r8]; exit_group
    let store = [0xc6, 0x04, 0x25, 0, 0x10, 0x50, 0, 1];
    let load = [0x41, 0x8a, 0x00];
    let code = [&store[..], &call_code(39), &load, &call_code(231)].concat();
    let mut start = image(&code);
    start.effects.extend([
        Effect::Map { addr: Addr(DATA + PAGE), len: 3 * PAGE, prot: 0, backing: Backing::Stack },
        Effect::Protect { addr: Addr(DATA + PAGE), len: PAGE, prot: 3 },
        Effect::Unmap { addr: Addr(DATA + 3 * PAGE), len: PAGE },
    ]);
    start.regs.r8 = high;
    tape.start(A, exec_base(), start);
    let entry = at_call(&Registers { r8: high, ..first_regs() }, 15, 39);
    let moved = Outcome {
        effects: vec![
            Effect::Remap {
                addr: Addr(DATA + PAGE),
                old_len: PAGE,
                new_addr: Addr(high),
                new_len: 2 * PAGE,
                keep: false,
            },
            Effect::Remap {
                addr: Addr(high),
                old_len: 2 * PAGE,
                new_addr: Addr(high),
                new_len: 3 * PAGE,
                keep: false,
            },
            Effect::Advise { addr: Addr(high + PAGE), len: PAGE, advice: 4 },
        ],
        ..outcome(returns(&entry, 0))
    };
    let after = tape.call_with(A, entry, moved);
    // The byte that the program stored has moved: `load` finds it in al, and the call's number hides it
    // again.
    tape.exit(A, at_call(&after, 25, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn memory_that_is_several_mappings_here_moves_and_grows_as_one() {
    let mut tape = Tape::new();
    let (high, higher) = (0x7000_0000_0000, 0x7000_0010_0000);
    // mov byte [DATA+PAGE], 1; getpid; mov al, [r8]; exit_group
    let store = [0xc6, 0x04, 0x25, 0, 0x10, 0x50, 0, 1];
    let load = [0x41, 0x8a, 0x00];
    let code = [&store[..], &call_code(39), &load, &call_code(231)].concat();
    let mut start = image(&code);
    // Other than the recording's, their protections differ, so that the kernel does not make one of them.
    start.effects.extend([
        Effect::Map { addr: Addr(DATA + PAGE), len: 2 * PAGE, prot: 3, backing: Backing::Anonymous },
        Effect::Protect { addr: Addr(DATA + 2 * PAGE), len: PAGE, prot: 1 },
    ]);
    start.regs.r8 = higher;
    tape.start(A, exec_base(), start);
    let entry = at_call(&Registers { r8: higher, ..first_regs() }, 15, 39);
    let remap = |addr: Addr, old: u64, new_addr: Addr, new: u64| Effect::Remap {
        addr,
        old_len: old * PAGE,
        new_addr,
        new_len: new * PAGE,
        keep: false,
    };
    let moved = Outcome {
        effects: vec![
            remap(Addr(DATA + PAGE), 2, Addr(high), 3),
            remap(Addr(high), 3, Addr(high), 5),
            remap(Addr(high), 5, Addr(higher), 7),
            Effect::Protect { addr: Addr(higher + PAGE), len: PAGE, prot: 3 },
            remap(Addr(higher), 7, Addr(high), 6),
            remap(Addr(high), 6, Addr(higher), 6),
            Effect::Protect { addr: Addr(higher), len: 6 * PAGE, prot: 1 },
        ],
        ..outcome(returns(&entry, 0))
    };
    let after = tape.call_with(A, entry, moved);
    tape.exit(A, at_call(&after, 25, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn vector_registers_are_set() {
    let mut tape = Tape::new();
    // movq rax, xmm0; mov rbx, rax; exit_group
    let code = [&[0x66, 0x48, 0x0f, 0x7e, 0xc0, 0x48, 0x89, 0xc3][..], &call_code(231)].concat();
    let mut start = image(&code);
    let (stub, _memory) = bis_tracee::image::spawn_stub("test").unwrap();
    let stub = stub.unwrap();
    let mut xstate = stub.xstate().unwrap();
    bis_tracee::sys::tgkill(stub.tid(), stub.tid(), Signal::KILL).unwrap();
    // xmm0 is at 160 of the legacy area; XSTATE_BV is the first word after that area: SSE is in use.
    xstate[160..168].copy_from_slice(&0x1234_5678_9abc_def0u64.to_le_bytes());
    xstate[512] |= 2;
    start.xstate = Some(xstate);
    tape.start(A, exec_base(), start);
    tape.exit(A, at_call(&Registers { rbx: 0x1234_5678_9abc_def0, ..first_regs() }, 15, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn vector_registers_of_another_machine_are_an_error_of_the_machine() {
    let mut tape = Tape::new();
    let start = Outcome { xstate: Some(vec![0xff; 64]), ..image(&two_calls()) };
    tape.start(A, exec_base(), start);
    let error = tape.replay().unwrap_err();
    assert!(matches!(error, ReplayError::Machine(_)), "{error}");
}

#[test]
fn a_cut_trace_is_replayed_as_far_as_it_goes() {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    tape.call(A, at_call(&first_regs(), 7, 39), 4711);
    let (summary, _) = tape.replay_with(false, &Options::default()).unwrap();
    assert_eq!((summary.domains, summary.events), (0, 2));
    let why = summary.incomplete.unwrap();
    assert!(why.contains("the disk filled") && why.contains("domain 1"), "{why}");
}

fn summed(sum: u64) -> Result<(Summary, String), ReplayError> {
    let mut tape = Tape::new();
    tape.exec(A, &two_calls());
    let entry = at_call(&first_regs(), 7, 39);
    let kind = EventKind::Syscall { nr: 39, entry, outcome: Box::new(outcome(returns(&entry, 1))) };
    let sums = vec![RangeSum { addr: Addr(DATA), len: PAGE, sum, is_stack: false }];
    let seq = tape.next();
    tape.push(A, &Event { seq, tid: tid(A), kind, ticks: None, sums, lapse: Lapse::default() });
    tape.exit(A, at_call(&returns(&entry, 1), 14, 231));
    tape.replay()
}

#[test]
fn memory_is_checked_against_its_sums() {
    // The page is empty, and empty pages add nothing.
    assert_eq!(summed(0).unwrap().0.domains, 1);
    let Err(ReplayError::Divergence(d)) = summed(1) else { panic!("no divergence") };
    assert!(d.expected.contains("memory 0x500000-0x501000") && d.found.contains("checksum"), "{d}");
}

#[test]
fn what_cannot_be_is_an_error_and_not_a_panic() {
    let unknown = |tape: &mut Tape| {
        tape.event_of(
            A,
            Tid(7),
            EventKind::Instruction { insn: Insn::Cpuid, before: first_regs(), after: first_regs() },
        )
    };
    let unentered =
        |tape: &mut Tape| tape.event(A, EventKind::SyscallExit { nr: 1, outcome: Box::default() });
    let within = |tape: &mut Tape| {
        let entry = at_call(&first_regs(), 7, 39);
        tape.event(A, EventKind::SyscallEnter { nr: 39, entry });
        tape.call(A, entry, 0);
    };
    let again = |tape: &mut Tape| tape.exec(A, &two_calls());
    let cases: [&dyn Fn(&mut Tape); 4] = [&unknown, &unentered, &within, &again];
    for (number, case) in cases.iter().enumerate() {
        let mut tape = Tape::new();
        tape.exec(A, &two_calls());
        case(&mut tape);
        let error = tape.replay().unwrap_err();
        assert!(matches!(error, ReplayError::Inconsistent { .. }), "case {number}: {error}");
    }
}
