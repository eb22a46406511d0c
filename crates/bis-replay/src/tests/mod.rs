//! Replays of traces made by hand: a page of machine code, and what a recorder would have said of it.
//!
//! The programs are real ones: they run in a stub, and what they do is checked against the events.

mod many;
mod sandbox;
mod single;
mod stops;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bis_trace::{
    StreamWriter, Trace, Writer,
    event::{
        Backing, Base, DomainEntry, Echo, Effect, Event, EventKind, Lapse, LastWay, Machine, MemWrite, Meta,
        Outcome, Start, TaskEnd,
    },
    types::{Addr, DomainId, EventSeq, FileId, ObjectId, PAGE, Registers, StandardStream, Tid},
};

use crate::{Options, ReplayError, Summary, replay_to};

/// Where the tests' programs lie, and their one page of data.
pub(super) const CODE: u64 = 0x40_0000;
pub(super) const DATA: u64 = 0x50_0000;
const MINUS_ENOSYS: u64 = (-38i64).cast_unsigned();

/// A recording under construction.
pub(super) struct Tape {
    pub folder: tempfile::TempDir,
    writer: Writer,
    streams: HashMap<DomainId, StreamWriter>,
    seq: u64,
}

pub(super) const A: DomainId = DomainId(1);
pub(super) const B: DomainId = DomainId(2);

/// The registers with which every program begins.
pub(super) fn first_regs() -> Registers {
    Registers { rip: CODE, rsp: DATA + 0x800, cs: 0x33, ss: 0x2b, eflags: 0x202, ..Registers::default() }
}

/// At the entry of system call `nr`, whose instruction ends at `CODE + end`.
pub(super) fn at_call(regs: &Registers, end: u64, nr: u64) -> Registers {
    let rip = CODE + end;
    Registers { rip, rcx: rip, r11: regs.eflags, orig_rax: nr, rax: MINUS_ENOSYS, ..*regs }
}

pub(super) fn returns(entry: &Registers, result: u64) -> Registers {
    Registers { rax: result, ..*entry }
}

pub(super) fn outcome(regs: Registers) -> Outcome {
    Outcome { regs, ..Outcome::default() }
}

/// The task of a domain that began with a process of this number.
pub(super) fn tid(domain: DomainId) -> Tid {
    Tid(100 + i32::try_from(domain.0).unwrap())
}

pub(super) fn map(addr: Addr, prot: u32, backing: Backing) -> Effect {
    Effect::Map { addr, len: PAGE, prot, backing }
}

pub(super) fn exec_base() -> Base {
    Base::Exec {
        path: b"/test".to_vec(),
        argv: vec![b"test".to_vec(), b"arg\n1".to_vec()],
        envp: vec![],
        cwd: vec![],
    }
}

/// The outcome of an exec whose image is this code and a page of data.
pub(super) fn image(code: &[u8]) -> Outcome {
    Outcome {
        regs: first_regs(),
        effects: vec![map(Addr(CODE), 5, Backing::Anonymous), map(Addr(DATA), 3, Backing::Anonymous)],
        writes: vec![MemWrite { addr: Addr(CODE), data: code.to_vec() }],
        ..Outcome::default()
    }
}

impl Tape {
    pub(super) fn new() -> Tape {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(&folder.path().join("trace")).unwrap();
        let machine = Machine { cpu: bis_tracee::cpu::brand(), ..Machine::default() };
        writer.meta(&Meta::Machine(Box::new(machine))).unwrap();
        Tape { folder, writer, streams: HashMap::new(), seq: 0 }
    }

    pub(super) fn meta(&self, meta: &Meta) {
        self.writer.meta(meta).unwrap();
    }

    /// A file of the trace.
    pub(super) fn keep_bytes(&self, bytes: &[u8]) -> FileId {
        self.writer.files().keep_bytes(bytes).unwrap().file
    }

    /// The number that the next event will have.
    pub(super) fn next(&self) -> EventSeq {
        EventSeq(self.seq + 1)
    }

    /// An event of a domain's first task.
    pub(super) fn event(&mut self, domain: DomainId, kind: EventKind) {
        self.event_of(domain, tid(domain), kind);
    }

    pub(super) fn event_of(&mut self, domain: DomainId, tid: Tid, kind: EventKind) {
        self.push(
            domain,
            &Event { seq: self.next(), tid, kind, ticks: None, sums: vec![], lapse: Lapse::default() },
        );
    }

    pub(super) fn push(&mut self, domain: DomainId, event: &Event) {
        self.seq = event.seq.0;
        let writer = &self.writer;
        self.streams.entry(domain).or_insert_with(|| writer.stream(domain)).push(event).unwrap();
    }

    pub(super) fn start(&mut self, domain: DomainId, base: Base, outcome: Outcome) {
        let tid = tid(domain);
        let entry = DomainEntry { domain, pid: tid, ppid: Tid(1), tid, base: base.clone(), seq: self.next() };
        self.meta(&Meta::Domain(entry));
        self.event(
            domain,
            EventKind::Start(Box::new(Start { base, outcome, has_own_cpuid: false, core: None })),
        );
    }

    /// A domain that begins by exec with this code.
    pub(super) fn exec(&mut self, domain: DomainId, code: &[u8]) {
        self.start(domain, exec_base(), image(code));
    }

    /// A system call with no effect but its result; the registers after it.
    pub(super) fn call(&mut self, domain: DomainId, entry: Registers, result: u64) -> Registers {
        self.call_with(domain, entry, outcome(returns(&entry, result)))
    }

    pub(super) fn call_with(&mut self, domain: DomainId, entry: Registers, outcome: Outcome) -> Registers {
        let after = outcome.regs;
        let nr = entry.orig_rax;
        self.event(domain, EventKind::Syscall { nr, entry, outcome: Box::new(outcome) });
        after
    }

    /// A write to standard output of bytes that lie at `DATA`.
    pub(super) fn output(&mut self, domain: DomainId, entry: Registers, len: u64) -> Registers {
        self.meta(&Meta::Echo { seq: self.next(), domain, stream: StandardStream::Output, len });
        let echo = Some(Echo { stream: StandardStream::Output, ranges: vec![(Addr(DATA), len)], sum: 0 });
        self.call_with(domain, entry, Outcome { echo, ..outcome(returns(&entry, len)) })
    }

    /// The task enters exit_group, and the domain ends.
    pub(super) fn exit(&mut self, domain: DomainId, entry: Registers) {
        self.event(domain, EventKind::SyscallEnter { nr: entry.orig_rax, entry });
        self.gone(domain, tid(domain));
        self.event(domain, EventKind::End);
    }

    pub(super) fn gone(&mut self, domain: DomainId, tid: Tid) {
        let kind = EventKind::TaskExit {
            status: TaskEnd::Exited(0),
            outcome: Box::default(),
            last_way: LastWay::None,
        };
        self.event_of(domain, tid, kind);
    }

    pub(super) fn new_object(object: ObjectId, addr: Addr) -> Vec<Effect> {
        vec![
            Effect::NewObject { object, len: PAGE, content: None },
            map(addr, 3, Backing::Shared { object, offset: 0 }),
        ]
    }

    /// Ends the recording as a whole one (`complete`) or as one whose recorder was killed.
    pub(super) fn trace(mut self, complete: bool) -> (tempfile::TempDir, Trace) {
        self.streams.clear();
        if complete {
            self.writer.meta(&Meta::End { exit_code: 0, seq: self.next() }).unwrap();
        } else {
            self.writer.meta(&Meta::Cut { why: "the disk filled".into() }).unwrap();
        }
        self.writer.finish().unwrap();
        let trace = Trace::open(&self.folder.path().join("trace")).unwrap();
        (self.folder, trace)
    }

    pub(super) fn replay(self) -> Result<(Summary, String), ReplayError> {
        self.replay_with(true, &Options { jobs: 2, ..Options::default() })
    }

    /// What the replay says, and what the program wrote.
    pub(super) fn replay_with(
        self,
        complete: bool,
        options: &Options,
    ) -> Result<(Summary, String), ReplayError> {
        let (_folder, trace) = self.trace(complete);
        let out = Arc::new(Mutex::new(Vec::new()));
        let copy = out.clone();
        let sink = Box::new(move |_, bytes: &[u8]| {
            copy.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        });
        let summary = replay_to(&trace, options, !options.quiet, sink)?;
        let text = String::from_utf8(out.lock().unwrap().clone()).unwrap();
        Ok((summary, text))
    }

    /// The divergence that the replay must end with.
    pub(super) fn diverges(self) -> crate::Divergence {
        match self.replay() {
            Err(ReplayError::Divergence(divergence)) => *divergence,
            other => panic!("expected a divergence, found {other:?}"),
        }
    }
}

/// Machine code: `mov eax, nr; syscall`, 7 bytes.
pub(super) fn call_code(nr: u8) -> [u8; 7] {
    [0xb8, nr, 0, 0, 0, 0x0f, 0x05]
}
