//! Several tasks, several domains.

use bis_trace::event::Turn;
use bis_trace::types::Addr;

use super::*;

const OBJECT: ObjectId = ObjectId(1);
const SHARED: u64 = 0x60_0000;

fn turn(turn: u64) -> Vec<Turn> {
    vec![Turn { object: OBJECT, turn }]
}

fn token(acquired: Vec<Turn>, released: Vec<Turn>) -> EventKind {
    EventKind::Token { acquired, released }
}

#[test]
fn a_new_task_runs_in_the_same_memory() {
    let mut tape = Tape::new();
    // First: clone (56), exit (60). The new one begins at 32: mov byte [DATA], 'n'; write; exit_group.
    let mut code = [call_code(56), call_code(60)].concat();
    code.resize(32, 0x90);
    code.extend([0xc6, 0x04, 0x25, 0, 0, 0x50, 0, b'n']);
    code.extend([call_code(1), call_code(231)].concat());
    tape.exec(A, &code);
    let new = Tid(555);
    let regs = Registers { rip: CODE + 32, rsp: DATA + 0x400, fs_base: DATA, ..first_regs() };
    let entry = at_call(&first_regs(), 7, 56);
    let made = Outcome {
        effects: vec![Effect::NewTask { tid: new, regs, xstate: None }],
        ..outcome(returns(&entry, 555))
    };
    let after = tape.call_with(A, entry, made);
    // The new task runs first, while the first one waits in the clone's outcome.
    let entry = at_call(&regs, 47, 1);
    tape.meta(&Meta::Echo { seq: tape.next(), domain: A, stream: StandardStream::Output, len: 1 });
    let echo = Some(Echo { stream: StandardStream::Output, ranges: vec![(Addr(DATA), 1)], sum: 0 });
    let written = Outcome { echo, ..outcome(returns(&entry, 1)) };
    let kind = EventKind::Syscall { nr: 1, entry, outcome: Box::new(written.clone()) };
    tape.event_of(A, new, kind);
    // The process's first task goes before the other one.
    let entry = at_call(&after, 14, 60);
    tape.event(A, EventKind::SyscallEnter { nr: 60, entry });
    tape.gone(A, tid(A));
    let entry = at_call(&written.regs, 54, 231);
    tape.event_of(A, new, EventKind::SyscallEnter { nr: 231, entry });
    tape.gone(A, new);
    tape.event(A, EventKind::End);
    let (summary, out) = tape.replay().unwrap();
    assert_eq!((summary.domains, out.as_str()), (1, "n"));
}

/// `fork; mov [DATA], al; write; exit_group`: parent and child write the low byte of fork's result, plus 'a'.
fn forking_code() -> Vec<u8> {
    [
        &call_code(57)[..],                 // ends at 7
        &[0x04, b'a'],                      // add al, 'a'
        &[0x88, 0x04, 0x25, 0, 0, 0x50, 0], // mov [DATA], al; ends at 16
        &[0x31, 0xdb],                      // xor ebx, ebx: flags are known again
        &call_code(1),                      // ends at 25
        &call_code(231),                    // ends at 32
    ]
    .concat()
}

/// Parent and child after the fork, each to its end.
fn fork_and_exit(tape: &mut Tape, effects: Vec<Effect>) -> (Registers, Registers) {
    tape.exec(A, &forking_code());
    let entry = at_call(&first_regs(), 7, 57);
    let at = tape.next();
    let forked = Outcome { effects, ..outcome(returns(&entry, 1)) };
    let parent = tape.call_with(A, entry, forked);
    let child = Registers { rax: 0, orig_rax: u64::MAX, ..entry };
    tape.start(B, Base::Fork { parent: A, at }, outcome(child));
    // `xor ebx, ebx` leaves zero and parity set.
    let [parent, child] = [parent, child].map(|regs| Registers { eflags: 0x246, ..regs });
    (at_call(&parent, 25, 1), at_call(&child, 25, 1))
}

fn forked() -> Vec<Effect> {
    vec![Effect::Fork { domain: B, tid: tid(B) }]
}

#[test]
fn a_fork_is_replayed_beside_its_parent_and_their_output_is_in_order() {
    for jobs in [1, 2] {
        for _ in 0..5 {
            let mut tape = Tape::new();
            let (parent, child) = fork_and_exit(&mut tape, forked());
            let child = tape.output(B, child, 1);
            let parent = tape.output(A, parent, 1);
            tape.exit(A, at_call(&parent, 32, 231));
            tape.exit(B, at_call(&child, 32, 231));
            let options = Options { jobs, ..Options::default() };
            let (summary, out) = tape.replay_with(true, &options).unwrap();
            assert_eq!((summary.domains, out.as_str()), (2, "ab"));
        }
    }
}

#[test]
fn a_divergence_in_a_fork_ends_its_parent_too() {
    let mut tape = Tape::new();
    let (parent, child) = fork_and_exit(&mut tape, forked());
    tape.output(B, Registers { r15: 1, ..child }, 1);
    // An endless loop, were it let run: its events never come, the replay is cancelled instead.
    let parent = tape.output(A, parent, 1);
    tape.event(A, token(turn(5), vec![]));
    tape.exit(A, at_call(&parent, 32, 231));
    assert_eq!(tape.diverges().domain, B);
}

#[test]
fn a_process_alone_is_replayed_from_its_nearest_exec() {
    let mut tape = Tape::new();
    let (parent, child) = fork_and_exit(&mut tape, forked());
    let child = tape.output(B, child, 1);
    // The parent's part after the fork is wrong: it must not matter.
    let parent = tape.output(A, Registers { r15: 1, ..parent }, 1);
    tape.exit(A, at_call(&parent, 32, 231));
    tape.exit(B, at_call(&child, 32, 231));
    let options = Options { jobs: 1, pid: Some(tid(B)), ..Options::default() };
    let (summary, out) = tape.replay_with(true, &options).unwrap();
    assert_eq!((summary.domains, out.as_str()), (2, "a"));
}

#[test]
fn an_unknown_process_is_an_error() {
    let mut tape = Tape::new();
    tape.exec(A, &call_code(231));
    tape.exit(A, at_call(&first_regs(), 7, 231));
    let options = Options { pid: Some(Tid(9)), ..Options::default() };
    let error = tape.replay_with(true, &options).unwrap_err();
    assert_eq!(error.to_string(), "the trace has no process 9; it has 101");
}

/// Two programs that add one to a shared byte, read it and exit. `add byte [SHARED], 1; mov bl, [SHARED];
/// getpid; exit_group`.
fn adding_code() -> Vec<u8> {
    [
        &[0x80, 0x04, 0x25, 0, 0, 0x60, 0, 1][..],
        &[0x8a, 0x1c, 0x25, 0, 0, 0x60, 0],
        &call_code(39),  // ends at 22
        &call_code(231), // ends at 29
    ]
    .concat()
}

/// The flags that the addition leaves: no carry, no zero; parity of the result.
fn added(value: u64) -> Registers {
    let parity = if value.count_ones().is_multiple_of(2) { 4 } else { 0 };
    Registers { rbx: value, eflags: 0x202 | parity, ..first_regs() }
}

fn share(tape: &Tape) {
    for domain in [A, B] {
        tape.meta(&Meta::Share { object: OBJECT, domain });
    }
}

/// The second domain runs between the two halves of the first.
fn two_turns(last_value: u64) -> Tape {
    let mut tape = Tape::new();
    share(&tape);
    let mut start = image(&[adding_code(), adding_code()].concat());
    start.effects.extend(Tape::new_object(OBJECT, Addr(SHARED)));
    tape.start(A, exec_base(), start);
    let after_first = tape.call(A, at_call(&added(1), 22, 39), 1);
    // exit_group of the first half is just another call that returns.
    let after_first = tape.call(A, at_call(&after_first, 29, 231), 0);
    tape.event(A, token(vec![], turn(0)));
    // The second one maps the object in its own turn.
    tape.start(B, exec_base(), image(&adding_code()));
    tape.event(B, token(turn(1), vec![]));
    let before = first_regs();
    let effects = vec![map(Addr(SHARED), 3, Backing::Shared { object: OBJECT, offset: 0 })];
    let siginfo = vec![0; 128];
    let handler = Some(Outcome { effects, ..outcome(before) });
    let signal = bis_trace::event::SignalEvent {
        signal: bis_trace::types::Signal(10),
        siginfo,
        point: bis_trace::event::SignalPoint::AfterEvent,
        before,
        handler,
    };
    tape.event(B, EventKind::Signal(Box::new(signal)));
    let after = tape.call(B, at_call(&added(2), 22, 39), 1);
    tape.event(B, token(vec![], turn(1)));
    tape.exit(B, at_call(&after, 29, 231));
    tape.event(A, token(turn(2), vec![]));
    let regs = Registers { rip: CODE + 51, ..added(last_value) };
    let entry = Registers { ..at_call(&regs, 29 + 22, 39) };
    let after = tape.call(A, Registers { rdi: after_first.rdi, ..entry }, 1);
    tape.event(A, token(vec![], turn(2)));
    tape.exit(A, at_call(&after, 58, 231));
    tape
}

#[test]
fn turns_keep_the_order_of_shared_memory() {
    for jobs in [1, 2, 4] {
        for _ in 0..5 {
            let options = Options { jobs, ..Options::default() };
            let (summary, _) = two_turns(3).replay_with(true, &options).unwrap();
            assert_eq!((summary.domains, summary.incomplete), (2, None));
        }
    }
}

#[test]
fn other_shared_memory_is_noticed() {
    let d = two_turns(7).diverges();
    assert_eq!((d.domain, d.registers[0].name), (A, "rbx"));
    assert!(d.cause.contains("shares with others"), "{d}");
}

#[test]
fn who_shares_memory_comes_along_quietly() {
    let options = Options { jobs: 1, pid: Some(tid(B)), ..Options::default() };
    assert_eq!(two_turns(3).replay_with(true, &options).unwrap().0.domains, 2);
}

#[test]
fn a_call_may_write_to_shared_memory_and_make_it_longer() {
    let mut tape = Tape::new();
    // mov bl, [SHARED + PAGE]; exit_group
    let mut start = image(&[&[0x8a, 0x1c, 0x25, 0, 0x10, 0x60, 0][..], &call_code(231)].concat());
    start.effects.extend([
        Effect::NewObject { object: OBJECT, len: 10, content: None },
        Effect::ResizeObject { object: OBJECT, len: 2 * PAGE },
        Effect::WriteObject { object: OBJECT, offset: PAGE, data: vec![9] },
        Effect::Map {
            addr: Addr(SHARED),
            len: 2 * PAGE,
            prot: 1,
            backing: Backing::Shared { object: OBJECT, offset: 0 },
        },
    ]);
    tape.start(A, exec_base(), start);
    tape.exit(A, at_call(&Registers { rbx: 9, ..first_regs() }, 14, 231));
    assert_eq!(tape.replay().unwrap().0.domains, 1);
}

#[test]
fn who_maps_an_object_waits_until_it_is_there() {
    let mut tape = Tape::new();
    share(&tape);
    // It begins first; its turn is the second.
    let mut start = image(&adding_code());
    start.effects.push(map(Addr(SHARED), 3, Backing::Shared { object: OBJECT, offset: 0 }));
    tape.start(B, exec_base(), start);
    let mut start = image(&adding_code());
    start.effects.extend(Tape::new_object(OBJECT, Addr(SHARED)));
    tape.start(A, exec_base(), start);
    let after = tape.call(A, at_call(&added(1), 22, 39), 1);
    tape.event(A, token(vec![], turn(0)));
    tape.exit(A, at_call(&after, 29, 231));
    tape.event(B, token(turn(1), vec![]));
    let after = tape.call(B, at_call(&added(2), 22, 39), 1);
    tape.event(B, token(vec![], turn(1)));
    tape.exit(B, at_call(&after, 29, 231));
    let options = Options { jobs: 1, ..Options::default() };
    let (summary, _) = tape.replay_with(true, &options).unwrap();
    assert_eq!((summary.domains, summary.incomplete), (2, None));
}

#[test]
fn a_turn_that_never_comes_is_no_hang() {
    let mut tape = two_turns(3);
    let third = DomainId(3);
    tape.exec(third, &call_code(231));
    tape.event(third, token(turn(50), vec![]));
    tape.exit(third, at_call(&first_regs(), 7, 231));
    let (summary, _) = tape.replay().unwrap();
    assert_eq!(summary.domains, 2);
    assert!(summary.incomplete.unwrap().contains("domain 3"));
}

#[test]
fn a_hundred_forks_go_through_two_slots() {
    let mut tape = Tape::new();
    // fork; jmp to it: the parent forks for ever; the child's exit_group is at 16.
    let mut code = [&call_code(57)[..], &[0xeb, 0xf7]].concat();
    code.resize(16, 0x90);
    code.extend(call_code(231));
    tape.exec(A, &code);
    let mut regs = first_regs();
    for number in 0..100 {
        let domain = DomainId(10 + number);
        let entry = at_call(&regs, 7, 57);
        let at = tape.next();
        let effects = vec![Effect::Fork { domain, tid: tid(domain) }];
        regs = tape.call_with(A, entry, Outcome { effects, ..outcome(returns(&entry, 1)) });
        let child = Registers { rip: CODE + 16, ..entry };
        tape.start(domain, Base::Fork { parent: A, at }, outcome(child));
        tape.exit(domain, at_call(&child, 23, 231));
    }
    tape.event(A, EventKind::SyscallEnter { nr: 57, entry: at_call(&regs, 7, 57) });
    tape.gone(A, tid(A));
    tape.event(A, EventKind::End);
    let (summary, _) = tape.replay().unwrap();
    assert_eq!((summary.domains, summary.incomplete), (101, None));
}
