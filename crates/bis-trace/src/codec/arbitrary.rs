//! For tests: strategies that make any event and any meta entry that the schema allows, and the usual event.

use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*};

use crate::{
    event::{
        Backing, Base, CLONED_BYTES_MAX, Cloned, DomainEntry, Echo, Effect, Event, EventKind, FileEntry,
        Insn, Kept, Lapse, LastWay, Machine, MemWrite, Meta, Outcome, Pause, PausePlace, RangeSum, Refusal,
        SignalEvent, SignalPoint, Start, TaskEnd, Turn, When,
    },
    ours::{Area, AreaKind, DenseText, Diverted, Fault, Guard, Ours, Patch, PatchSet, PatchedText, Pool},
    types::{Addr, DomainId, EventSeq, FileId, ObjectId, Registers, Signal, StandardStream, Tid},
};

/// A plain read of `data`, as most events are.
pub fn plain(seq: u64, data: &[u8]) -> Event {
    let entry = Registers {
        rax: (-38i64).cast_unsigned(),
        orig_rax: 0,
        rdi: 3,
        rsi: 0x7fff_1234_5000,
        rdx: data.len() as u64,
        rip: 0x7f12_3456_789a,
        rsp: 0x7fff_1234_4000 - seq % 512 * 8,
        eflags: 0x246,
        cs: 0x33,
        ss: 0x2b,
        fs_base: 0x7f12_3000_0740,
        ..Registers::default()
    };
    let regs = Registers { rax: data.len() as u64, ..entry };
    let writes =
        if data.is_empty() { vec![] } else { vec![MemWrite { addr: Addr(entry.rsi), data: data.to_vec() }] };
    let outcome = Box::new(Outcome { regs, writes, ..Outcome::default() });
    Event {
        seq: EventSeq(seq),
        tid: Tid(4711),
        kind: EventKind::Syscall { nr: 0, entry, outcome },
        ticks: None,
        sums: vec![],
        lapse: Lapse(7),
    }
}

pub fn registers() -> impl Strategy<Value = Registers> {
    prop_oneof![any::<[u64; 27]>().prop_map(Registers::from_words), Just(Registers::default())]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 1000..3000)]
}

fn tid() -> impl Strategy<Value = Tid> {
    (1..=i32::MAX).prop_map(Tid)
}

fn domain() -> impl Strategy<Value = DomainId> {
    (1..=u32::MAX).prop_map(DomainId)
}

fn signal() -> impl Strategy<Value = Signal> {
    (1u8..=64).prop_map(Signal)
}

fn seq() -> impl Strategy<Value = EventSeq> {
    any::<u64>().prop_map(EventSeq)
}

fn file() -> impl Strategy<Value = FileId> {
    any::<u32>().prop_map(FileId)
}

fn object() -> impl Strategy<Value = ObjectId> {
    any::<u32>().prop_map(ObjectId)
}

fn addr() -> impl Strategy<Value = Addr> {
    any::<u64>().prop_map(Addr)
}

fn backing() -> impl Strategy<Value = Backing> {
    prop_oneof![
        Just(Backing::Anonymous),
        Just(Backing::Stack),
        (file(), any::<u64>()).prop_map(|(file, offset)| Backing::File { file, offset }),
        (object(), any::<u64>()).prop_map(|(object, offset)| Backing::Shared { object, offset }),
    ]
}

fn effect() -> impl Strategy<Value = Effect> {
    let word = any::<u64>;
    prop_oneof![
        (addr(), word(), any::<u32>(), backing()).prop_map(|(addr, len, prot, backing)| Effect::Map {
            addr,
            len,
            prot,
            backing
        }),
        (addr(), word()).prop_map(|(addr, len)| Effect::Unmap { addr, len }),
        (addr(), word(), any::<u32>()).prop_map(|(addr, len, prot)| Effect::Protect { addr, len, prot }),
        (addr(), word(), addr(), word(), any::<bool>()).prop_map(
            |(addr, old_len, new_addr, new_len, keep)| {
                Effect::Remap { addr, old_len, new_addr, new_len, keep }
            }
        ),
        (addr(), word(), any::<u32>()).prop_map(|(addr, len, advice)| Effect::Advise { addr, len, advice }),
        (object(), word(), option::of(file())).prop_map(|(object, len, content)| Effect::NewObject {
            object,
            len,
            content
        }),
        (object(), word(), bytes()).prop_map(|(object, offset, data)| Effect::WriteObject {
            object,
            offset,
            data
        }),
        (object(), word()).prop_map(|(object, len)| Effect::ResizeObject { object, len }),
        (object(), word(), word()).prop_map(|(object, offset, len)| Effect::ClearObject {
            object,
            offset,
            len
        }),
        (tid(), registers(), option::of(bytes())).prop_map(|(tid, regs, xstate)| Effect::NewTask {
            tid,
            regs,
            xstate
        }),
        (tid(), registers(), bytes()).prop_map(|(tid, regs, xstate)| Effect::SetTask { tid, regs, xstate }),
        (tid(), any::<[u8; 16]>()).prop_map(|(tid, descriptor)| Effect::Segment { tid, descriptor }),
        (domain(), tid()).prop_map(|(domain, tid)| Effect::Fork { domain, tid }),
    ]
}

fn stream() -> impl Strategy<Value = StandardStream> {
    prop::sample::select(StandardStream::ALL.as_slice())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let write = (addr(), bytes()).prop_map(|(addr, data)| MemWrite { addr, data });
    let echo = (stream(), vec((addr(), any::<u64>()), 0..4), any::<u64>())
        .prop_map(|(stream, ranges, sum)| Echo { stream, ranges, sum });
    let cloned = ((addr(), any::<u64>(), any::<u64>()), 1..=CLONED_BYTES_MAX)
        .prop_map(|((addr, offset, sum), len)| Cloned { addr, offset, len, sum });
    let memory = (vec(cloned, 0..4), vec(write, 0..4));
    let ours = option::weighted(0.3, ours().prop_map(Box::new));
    (registers(), option::of(bytes()), vec(effect(), 0..4), memory, option::of(echo), ours).prop_map(
        |(regs, xstate, effects, (clones, writes), echo, ours)| Outcome {
            regs,
            xstate,
            effects,
            clones,
            writes,
            echo,
            ours,
        },
    )
}

fn insn() -> impl Strategy<Value = Insn> {
    proptest::sample::select(Insn::ALL.to_vec())
}

fn patch() -> impl Strategy<Value = Patch> {
    let places = (vec(any::<u8>(), 1..=32), 1u8.., vec(any::<[u8; 2]>(), 0..6), any::<u8>());
    (addr(), addr(), places, option::of(insn()), any::<i32>()).prop_map(
        |(start, trampoline, (original, trampoline_len, moved, site), insn, abort)| {
            let len = u8::try_from(original.len()).unwrap();
            let moved = moved.into_iter().map(|[from, to]| [from % (len + 1), to % trampoline_len]).collect();
            let site = site % len;
            let mut patch =
                Patch { start, original, trampoline, trampoline_len, site, insn, moved, abort: None };
            let end = patch.end();
            patch.abort =
                (insn == Some(Insn::Xbegin)).then(|| end.wrapping_add(i64::from(abort).cast_unsigned()));
            patch
        },
    )
}

fn fault() -> impl Strategy<Value = Fault> {
    let parts = (addr(), insn(), vec(any::<u8>(), 1..=15));
    parts.prop_map(|(site, insn, original)| Fault { site, insn, original })
}

pub fn patch_set() -> impl Strategy<Value = PatchSet> {
    let lists = (vec(patch().prop_map(Arc::new), 0..5), vec(fault(), 0..3));
    lists.prop_map(|(patches, faults)| PatchSet { patches, faults })
}

fn ours() -> impl Strategy<Value = Ours> {
    let words = || (addr(), any::<(u64, u64)>());
    let kind = {
        use AreaKind::{Agent, Arena, HookState, Hooks};
        proptest::sample::select(vec![Agent, Hooks, HookState, Arena])
    };
    let area = (words(), kind).prop_map(|((addr, (len, _)), kind)| Area { addr, len, kind });
    let diverted = (addr(), any::<bool>(), vec(any::<u8>(), 1..40))
        .prop_map(|(addr, is_function, original)| Diverted { addr, original, is_function });
    let pool = (words(), file()).prop_map(|((addr, (len, bias)), map)| Pool { addr, len, bias, map });
    let dense = (words(), addr(), file()).prop_map(|((addr, (len, offset)), pool, file)| DenseText {
        addr,
        len,
        pool,
        file,
        offset,
    });
    let patched = (words(), any::<u64>(), file(), file())
        .prop_map(|((addr, (len, offset)), at, file, set)| PatchedText { addr, len, file, offset, set, at });
    let guard = (addr(), any::<u32>()).prop_map(|(page, prot)| Guard { page, prot });
    let lists = (
        vec((addr(), any::<u64>()), 0..3),
        vec(area, 0..3),
        vec(diverted, 0..3),
        vec(pool, 0..3),
        vec(dense, 0..3),
        vec(patched, 0..3),
        patch_set(),
        vec(guard, 0..3),
    );
    lists.prop_map(|(own, areas, diverted, pools, dense, patched, set, guards)| Ours {
        own,
        areas,
        diverted,
        pools,
        dense,
        patched,
        patches: set.patches,
        faults: set.faults,
        guards,
    })
}

fn base() -> impl Strategy<Value = Base> {
    prop_oneof![
        (bytes(), vec(bytes(), 0..4), vec(bytes(), 0..4), bytes())
            .prop_map(|(path, argv, envp, cwd)| Base::Exec { path, argv, envp, cwd }),
        (domain(), seq()).prop_map(|(parent, at)| Base::Fork { parent, at }),
        (bytes(), vec(bytes(), 0..4), vec(bytes(), 0..4), bytes(), bytes())
            .prop_map(|(path, argv, envp, cwd, auxv)| Base::Image { path, argv, envp, cwd, auxv }),
    ]
}

fn task_end() -> impl Strategy<Value = TaskEnd> {
    prop_oneof![
        any::<u8>().prop_map(TaskEnd::Exited),
        signal().prop_map(TaskEnd::Killed),
        domain().prop_map(TaskEnd::Exec),
        Just(TaskEnd::Dethreaded),
    ]
}

fn last_way() -> impl Strategy<Value = LastWay> {
    proptest::sample::select(vec![LastWay::None, LastWay::Log, LastWay::Call])
}

fn point() -> impl Strategy<Value = SignalPoint> {
    use SignalPoint::{AfterEvent, AfterHook, Anywhere, BeforeSyscall, Fault};
    proptest::sample::select(vec![Fault, AfterEvent, BeforeSyscall, Anywhere, AfterHook])
}

fn kind() -> impl Strategy<Value = EventKind> {
    let turn = || (object(), any::<u64>()).prop_map(|(object, turn)| Turn { object, turn });
    let insn = insn();
    let siginfo = vec(any::<u8>(), 128);
    prop_oneof![
        (base(), outcome(), any::<bool>(), proptest::option::of(0..u16::MAX)).prop_map(
            |(base, outcome, has_own_cpuid, core)| {
                EventKind::Start(Box::new(Start { base, outcome, has_own_cpuid, core }))
            }
        ),
        // Half of them change only rax, which is written in another way.
        (any::<u64>(), registers(), outcome(), any::<bool>(), any::<u64>()).prop_map(
            |(nr, entry, mut outcome, plain, rax)| {
                if plain {
                    outcome.regs = Registers { rax, ..entry };
                }
                EventKind::Syscall { nr, entry, outcome: Box::new(outcome) }
            }
        ),
        (any::<u64>(), registers()).prop_map(|(nr, entry)| EventKind::SyscallEnter { nr, entry }),
        (any::<u64>(), outcome())
            .prop_map(|(nr, outcome)| EventKind::SyscallExit { nr, outcome: Box::new(outcome) }),
        (signal(), siginfo, point(), registers(), option::of(outcome())).prop_map(
            |(signal, siginfo, point, before, handler)| {
                EventKind::Signal(Box::new(SignalEvent { signal, siginfo, point, before, handler }))
            }
        ),
        (insn, registers(), registers()).prop_map(|(insn, before, after)| EventKind::Instruction {
            insn,
            before,
            after
        }),
        (task_end(), outcome(), last_way()).prop_map(|(status, outcome, last_way)| EventKind::TaskExit {
            status,
            outcome: Box::new(outcome),
            last_way
        }),
        (vec(turn(), 0..4), vec(turn(), 0..4))
            .prop_map(|(acquired, released)| EventKind::Token { acquired, released }),
        Just(EventKind::End),
        (option::of(any::<u64>()), registers(), any::<u64>(), bytes(), sums(), bytes()).prop_map(
            |(count, regs, addr, extended, seen, span)| {
                let held = vec![MemWrite { addr: Addr(addr), data: span.clone() }];
                let place = count.map_or(PausePlace::State, PausePlace::Count);
                EventKind::Pause(Box::new(Pause { place, regs, extended, held, seen, span, trap: addr / 2 }))
            }
        ),
        (any::<bool>(), vec(any::<u8>(), 1..200))
            .prop_map(|(alone, log)| EventKind::Hooked { alone, log: log.into() }),
    ]
}

fn sums() -> impl Strategy<Value = Vec<RangeSum>> {
    let sum = |(addr, len, sum, is_stack)| RangeSum { addr, len, sum, is_stack };
    vec((addr(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(sum), 0..4)
}

pub fn event() -> impl Strategy<Value = Event> {
    (1..=u64::MAX, tid(), kind(), option::of(0..u64::MAX), sums(), any::<u16>()).prop_map(
        |(seq, tid, kind, ticks, sums, lapse)| Event {
            seq: EventSeq(seq),
            tid,
            kind,
            ticks,
            sums,
            lapse: Lapse(lapse),
        },
    )
}

fn machine() -> impl Strategy<Value = Machine> {
    let texts = (any::<String>(), any::<String>(), any::<String>(), any::<String>());
    let numbers = any::<(u32, i64, u64)>();
    let paths = (vec(bytes(), 0..4), bytes());
    let features = vec(any::<u32>(), 0..12);
    (texts, any::<(bool, bool, bool)>(), numbers, paths, features, vec(refusal(), 0..4)).prop_map(
        |(texts, flags, (core_count, started_s, xcr0), (argv, cwd), features, refused)| {
            let ((bis_version, kernel, cpu, tick_source), (cpuid_faulting, hooks, checksums)) =
                (texts, flags);
            Machine {
                bis_version,
                kernel,
                cpu,
                cpuid_faulting,
                core_count,
                tick_source,
                hooks,
                checksums,
                started_s,
                argv,
                cwd,
                xcr0,
                features,
                refused,
            }
        },
    )
}

fn refusal() -> impl Strategy<Value = Refusal> {
    (any::<u32>(), 1..=4095u16, 0..3u8, 0..=5u8, any::<u32>()).prop_map(|(nr, errno, when, arg, word)| {
        let when = match when {
            0 => When::Always,
            1 => When::Equal { arg, word },
            _ => When::HasBits { arg, bits: word },
        };
        Refusal { nr, when, errno }
    })
}

fn file_entry() -> impl Strategy<Value = FileEntry> {
    let kept = proptest::sample::select(vec![Kept::Reflink, Kept::HardLink, Kept::Copy]);
    (file(), "[0-9a-z-]{1,64}", kept, bytes(), any::<(u64, i64, [u8; 32])>()).prop_map(
        |(file, name, kept, path, (len, mtime_ns, digest))| FileEntry {
            file,
            name,
            kept,
            path,
            len,
            mtime_ns,
            digest,
        },
    )
}

pub fn meta() -> impl Strategy<Value = Meta> {
    let ppid = (0..=i32::MAX).prop_map(Tid);
    prop_oneof![
        machine().prop_map(|machine| Meta::Machine(Box::new(machine))),
        file_entry().prop_map(Meta::File),
        (domain(), tid(), ppid, tid(), base(), seq()).prop_map(|(domain, pid, ppid, tid, base, seq)| {
            Meta::Domain(DomainEntry { domain, pid, ppid, tid, base, seq })
        }),
        (domain(), tid(), tid(), seq()).prop_map(|(domain, tid, pid, seq)| Meta::Task {
            domain,
            tid,
            pid,
            seq
        }),
        (domain(), tid(), task_end(), seq()).prop_map(|(domain, tid, status, seq)| Meta::TaskEnd {
            domain,
            tid,
            status,
            seq
        }),
        (domain(), seq(), any::<u64>()).prop_map(|(domain, seq, event_count)| Meta::DomainEnd {
            domain,
            seq,
            event_count
        }),
        (seq(), domain(), stream(), any::<u64>()).prop_map(|(seq, domain, stream, len)| Meta::Echo {
            seq,
            domain,
            stream,
            len
        }),
        (object(), domain()).prop_map(|(object, domain)| Meta::Share { object, domain }),
        (seq(), any::<String>()).prop_map(|(seq, text)| Meta::Note { seq, text }),
        (any::<u8>(), seq()).prop_map(|(exit_code, seq)| Meta::End { exit_code, seq }),
        any::<String>().prop_map(|why| Meta::Cut { why }),
    ]
}
