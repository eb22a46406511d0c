//! A folder of traces that the trace writer has made, with bis to look at them.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bis_trace::{
    Writer,
    event::{
        Base, DomainEntry, Effect, Event, EventKind, Lapse, LastWay, Machine, MemWrite, Meta, Outcome,
        SignalEvent, SignalPoint, Start, TaskEnd,
    },
    types::{Addr, DomainId, Registers, Signal, Tid},
};

/// What one run of bis came to.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A folder of traces, and bis with it.
pub struct Desk {
    pub folder: tempfile::TempDir,
}

impl Desk {
    pub fn new() -> Desk {
        Desk { folder: tempfile::tempdir().unwrap() }
    }

    pub fn traces(&self) -> PathBuf {
        self.folder.path().join("traces")
    }

    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bis"));
        command.args(args).stdin(Stdio::null()).env("BIS_TRACES", self.traces()).env_remove("BIS_LOG");
        // A store of its own: what `bis rm` says depends on it.
        command.env("XDG_DATA_HOME", self.folder.path().join("data"));
        command.current_dir(self.folder.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            status: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The output of a run that must succeed and say nothing beside.
    pub fn shows(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "bis {args:?}\n{}", ran.stdout);
        ran.stdout
    }

    /// The one line on standard error of a run that must fail.
    pub fn refuses(&self, args: &[&str], status: i32) -> String {
        let ran = self.run(args);
        assert_eq!(ran.status, status, "bis {args:?}\n{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "bis {args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("bis: "), "{}", ran.stderr);
        ran.stderr
    }

    /// A trace of a shell (process 100) that forks a child (101), which becomes `ls`; finished or not.
    pub fn trace(&self, name: &str, started_s: i64, finished: bool) -> PathBuf {
        fs::create_dir_all(self.traces()).unwrap();
        let path = self.traces().join(name);
        write_trace(&path, started_s, finished);
        path
    }

    /// The same two as bis records them, for what replays.
    pub fn recording(&self, name: &str) {
        fs::create_dir_all(self.traces()).unwrap();
        let path = self.traces().join(name);
        let ran = self.run(&["record", "-o", path.to_str().unwrap(), "/bin/sh", "-c", "/bin/ls -l; true"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
}

pub fn exec(path: &str, argv: &[&str]) -> Base {
    Base::Exec {
        path: path.into(),
        argv: argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        envp: vec![b"A=1".to_vec()],
        cwd: b"/".to_vec(),
    }
}

pub fn call(nr: u64, args: [u64; 3], result: i64) -> EventKind {
    let entry = Registers {
        orig_rax: nr,
        rdi: args[0],
        rsi: args[1],
        rdx: args[2],
        rip: 0x40_1000,
        ..Default::default()
    };
    let regs = Registers { rax: result.cast_unsigned(), ..entry };
    let writes = match nr {
        0 => vec![MemWrite { addr: Addr(args[1]), data: b"hello".to_vec() }],
        _ => Vec::new(),
    };
    EventKind::Syscall { nr, entry, outcome: Box::new(Outcome { regs, writes, ..Default::default() }) }
}

pub fn write_trace(path: &Path, started_s: i64, finished: bool) {
    let writer = Writer::create(path).unwrap();
    writer
        .meta(&Meta::Machine(Box::new(Machine {
            bis_version: "0.1.0".into(),
            kernel: "6.18.0".into(),
            cpu: "A processor".into(),
            core_count: 2,
            tick_source: "state".into(),
            started_s,
            argv: vec![b"sh".to_vec(), b"-c".to_vec(), b"ls -l; true".to_vec()],
            cwd: b"/home/user".to_vec(),
            ..Default::default()
        })))
        .unwrap();
    let (shell, child) = (Tid(100), Tid(101));
    let begin = |domain: u32, tid: Tid, ppid: i32, base: Base| {
        let seq = writer.next_seq();
        let entry =
            DomainEntry { domain: DomainId(domain), pid: tid, ppid: Tid(ppid), tid, base: base.clone(), seq };
        writer.meta(&Meta::Domain(entry)).unwrap();
        let mut stream = writer.stream(DomainId(domain));
        let start = EventKind::Start(Box::new(Start {
            base,
            outcome: Outcome::default(),
            has_own_cpuid: false,
            core: None,
        }));
        stream
            .push(&Event { seq, tid, kind: start, ticks: None, sums: Vec::new(), lapse: Lapse::default() })
            .unwrap();
        stream
    };
    let push = |stream: &mut bis_trace::StreamWriter, tid: Tid, kind: EventKind| {
        let seq = writer.next_seq();
        // The number of a call that returned, as if ticks had been counted.
        let ticks = matches!(kind, EventKind::Syscall { .. }).then_some(77);
        stream.push(&Event { seq, tid, kind, ticks, sums: Vec::new(), lapse: Lapse::default() }).unwrap();
        seq
    };
    let mut first = begin(1, shell, 99, exec("/bin/sh", &["sh", "-c", "ls -l; true"])); // 1
    push(&mut first, shell, call(0, [3, 0x7000, 5], 5)); // 2
    let fork = EventKind::Syscall {
        nr: 57,
        entry: Registers::default(),
        outcome: Box::new(Outcome {
            regs: Registers { rax: 101, ..Default::default() },
            effects: vec![Effect::Fork { domain: DomainId(2), tid: child }],
            ..Default::default()
        }),
    };
    let at = push(&mut first, shell, fork); // 3
    let mut second = begin(2, child, 100, Base::Fork { parent: DomainId(1), at }); // 4
    let gone = EventKind::TaskExit {
        status: TaskEnd::Exec(DomainId(3)),
        outcome: Box::default(),
        last_way: LastWay::None,
    };
    let seq = push(&mut second, child, gone); // 5
    writer
        .meta(&Meta::TaskEnd { domain: DomainId(2), tid: child, status: TaskEnd::Exec(DomainId(3)), seq })
        .unwrap();
    let mut third = begin(3, child, 100, exec("/bin/ls", &["ls", "-l"])); // 6
    push(&mut third, child, call(257, [0xffff_ff9c, 0x8000, 0], -2)); // 7
    let entry = Registers { orig_rax: 61, rdi: u64::MAX, ..Default::default() };
    push(&mut first, shell, EventKind::SyscallEnter { nr: 61, entry }); // 8
    if !finished {
        drop((first, second, third));
        writer.meta(&Meta::Cut { why: "the disk is full".into() }).unwrap();
        writer.finish().unwrap();
        return;
    }
    let seq = push(
        &mut third,
        child,
        EventKind::TaskExit { status: TaskEnd::Exited(2), outcome: Box::default(), last_way: LastWay::None },
    ); // 9
    writer.meta(&Meta::TaskEnd { domain: DomainId(3), tid: child, status: TaskEnd::Exited(2), seq }).unwrap();
    let regs = Registers { rax: 101, ..Default::default() };
    let outcome = Box::new(Outcome { regs, ..Default::default() });
    push(&mut first, shell, EventKind::SyscallExit { nr: 61, outcome }); // 10
    let killed = SignalEvent {
        signal: Signal(15),
        siginfo: vec![0; 128],
        point: SignalPoint::Anywhere,
        before: Registers::default(),
        handler: None,
    };
    push(&mut first, shell, EventKind::Signal(Box::new(killed))); // 11
    let status = TaskEnd::Killed(Signal(15));
    let seq = push(
        &mut first,
        shell,
        EventKind::TaskExit { status, outcome: Box::default(), last_way: LastWay::None },
    ); // 12
    writer.meta(&Meta::TaskEnd { domain: DomainId(1), tid: shell, status, seq }).unwrap();
    for (domain, mut stream, tid, event_count) in
        [(1, first, shell, 8), (2, second, child, 3), (3, third, child, 4)]
    {
        let seq = push(&mut stream, tid, EventKind::End); // 13, 14, 15
        drop(stream);
        writer.meta(&Meta::DomainEnd { domain: DomainId(domain), seq, event_count }).unwrap();
    }
    writer.meta(&Meta::Note { seq, text: "a slow path was taken".into() }).unwrap();
    writer.meta(&Meta::End { exit_code: 143, seq: writer.next_seq() }).unwrap();
    writer.finish().unwrap();
}
