//! The command line from outside: help, names of traces, what each command shows of a small trace that is
//! made here by the trace writer, exit statuses, and the lines that a user sees when something is wrong.
//!
//! Recording and replaying are not tested here; `guests.rs` and `real.rs` do that.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bis_trace::{
    Writer,
    event::{
        Base, DomainEntry, Effect, Event, EventKind, Lapse, Machine, MemWrite, Meta, Outcome, SignalEvent,
        SignalPoint, Start, TaskEnd,
    },
    types::{Addr, DomainId, Registers, Signal, Tid},
};

/// What one run of bis came to.
struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

/// A folder of traces, and bis with it.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        Desk { folder: tempfile::tempdir().unwrap() }
    }

    fn traces(&self) -> PathBuf {
        self.folder.path().join("traces")
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bis"));
        command.args(args).stdin(Stdio::null()).env("BIS_TRACES", self.traces()).env_remove("BIS_LOG");
        // A store of its own: what `bis rm` says depends on it.
        command.env("XDG_DATA_HOME", self.folder.path().join("data"));
        command.current_dir(self.folder.path());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            status: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The output of a run that must succeed and say nothing beside.
    fn shows(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "bis {args:?}\n{}", ran.stdout);
        ran.stdout
    }

    /// The one line on standard error of a run that must fail.
    fn refuses(&self, args: &[&str], status: i32) -> String {
        let ran = self.run(args);
        assert_eq!(ran.status, status, "bis {args:?}\n{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "bis {args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("bis: "), "{}", ran.stderr);
        ran.stderr
    }

    /// A trace of a shell (process 100) that forks a child (101), which becomes `ls`; finished or not.
    fn trace(&self, name: &str, started_s: i64, finished: bool) -> PathBuf {
        fs::create_dir_all(self.traces()).unwrap();
        let path = self.traces().join(name);
        write_trace(&path, started_s, finished);
        path
    }
}

fn exec(path: &str, argv: &[&str]) -> Base {
    Base::Exec {
        path: path.into(),
        argv: argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        envp: vec![b"A=1".to_vec()],
        cwd: b"/".to_vec(),
    }
}

fn call(nr: u64, args: [u64; 3], result: i64) -> EventKind {
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

fn write_trace(path: &Path, started_s: i64, finished: bool) {
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
        let start = EventKind::Start(Box::new(Start { base, outcome: Outcome::default() }));
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
    let gone = EventKind::TaskExit { status: TaskEnd::Exec(DomainId(3)), outcome: Box::default() };
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
    let seq =
        push(&mut third, child, EventKind::TaskExit { status: TaskEnd::Exited(2), outcome: Box::default() }); // 9
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
    let seq = push(&mut first, shell, EventKind::TaskExit { status, outcome: Box::default() }); // 12
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

#[test]
fn every_command_has_help_with_examples() {
    let desk = Desk::new();
    let overview = desk.shows(&["--help"]);
    for word in ["BIS_TRACES", "BIS_LOG", "Exit status", "bis replay -a"] {
        assert!(overview.contains(word), "--help lacks {word}");
    }
    for name in [
        "record",
        "replay",
        "ps",
        "dump",
        "info",
        "ls",
        "rm",
        "doctor",
        "syscalls",
        "completions",
        "man",
        "gdbinit",
    ] {
        assert!(overview.contains(&format!("\n  {name} ")), "--help lacks {name}");
        let help = desk.shows(&[name, "--help"]);
        assert!(help.contains("Examples:\n  bis "), "bis {name} --help has no examples");
    }
    assert!(desk.shows(&["--version"]).starts_with("bis "));
}

#[test]
fn completions_and_manual_pages() {
    let desk = Desk::new();
    assert!(desk.shows(&["completions", "bash"]).contains("--older-than"));
    assert!(desk.shows(&["man"]).contains(".TH bis 1"));
    desk.shows(&["man", "--dir", "pages"]);
    let page = fs::read_to_string(desk.folder.path().join("pages/bis-record.1")).unwrap();
    assert!(page.contains("checksum"));
    let page = fs::read_to_string(desk.folder.path().join("pages/bis-replay.1")).unwrap();
    for flag in ["keep\\-listening", "\\-\\-host", "\\-\\-help", "DEBUGGER_ARGS"] {
        assert!(page.contains(flag), "bis-replay.1 lacks {flag}");
    }
}

#[test]
fn bad_command_lines_of_record_are_told_from_the_programs_status() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["record"]).status, 125);
    assert_eq!(desk.run(&["record", "--bogus", "true"]).status, 125);
    assert_eq!(desk.run(&["ls", "--bogus"]).status, 2);
    assert!(desk.refuses(&["record", "--env", "X", "true"], 125).contains("NAME=VALUE"));
    assert!(desk.refuses(&["record", "--cwd", "/nowhere", "true"], 125).contains("no such folder"));
    assert!(desk.refuses(&["record", "no-such-program"], 127).contains("no-such-program"));
    assert!(desk.refuses(&["record", "./no-such-program"], 127).contains("no such file"));
    assert!(desk.refuses(&["record", "/etc/passwd"], 126).contains("may not execute"));
    assert!(desk.refuses(&["record", "/"], 126).contains("folder"));
    fs::create_dir(desk.folder.path().join("full")).unwrap();
    fs::write(desk.folder.path().join("full/x"), "").unwrap();
    assert!(desk.refuses(&["record", "-o", "full", "true"], 125).contains("not empty"));
    // Nothing of all that left a trace.
    assert!(!desk.traces().exists());
}

#[test]
fn traces_are_found_by_name_and_by_path() {
    let desk = Desk::new();
    assert!(desk.refuses(&["info"], 2).contains("bis record PROGRAM"));
    assert!(desk.refuses(&["info", "nothing"], 2).contains("bis ls"));
    assert!(desk.refuses(&["info", "./nothing"], 2).contains("nothing"));
    let path = desk.trace("sh-0", 1_000_000_000, true);
    symlink("sh-0", desk.traces().join("latest")).unwrap();
    let expected = desk.shows(&["info"]);
    for name in ["sh-0", "latest", "./traces/sh-0", path.to_str().unwrap()] {
        assert_eq!(desk.shows(&["info", name]), expected, "{name}");
    }
    fs::write(desk.folder.path().join("file"), "text").unwrap();
    fs::create_dir(desk.folder.path().join("empty")).unwrap();
    for name in ["file", "empty"] {
        for command in ["info", "ps", "dump"] {
            desk.refuses(&[command, name], 2);
        }
    }
}

#[test]
fn info_says_where_when_and_how_it_ended() {
    let desk = Desk::new();
    desk.trace("sh-0", 1_000_000_000, true);
    let info = desk.shows(&["info", "sh-0"]);
    for line in [
        "command      sh -c 'ls -l; true'",
        "folder       /home/user",
        "recorded     2001-09-09 01:46:40 UTC by bis 0.1.0",
        "end          complete; exit status 143 (killed by SIGTERM, if it did not choose that status itself)",
        "machine      A processor, 2 cores, Linux 6.18.0",
        "recording    tick source: state; hooks: no; checksums: no; cpuid recorded: no",
        "processes    2 (2 threads, 3 domains)",
        "events       15",
        "  at event 12: a slow path was taken",
    ] {
        assert!(info.lines().any(|shown| shown == line), "info lacks {line:?}:\n{info}");
    }
    desk.trace("sh-1", 1, false);
    assert!(desk.shows(&["info", "sh-1"]).contains("cut short: "));
    assert!(desk.shows(&["info", "sh-1"]).contains("the disk is full"));
}

#[test]
fn ps_shows_the_tree() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    let expected = "\
PID  PARENT  THREADS  EVENTS  END                COMMAND
100      99        1       8  killed by SIGTERM  sh -c 'ls -l; true'
101     100        1       7  exit 2             └─ ls -l
";
    assert_eq!(desk.shows(&["ps", "sh-0"]), expected);
    let json = desk.shows(&["ps", "sh-0", "--json"]);
    let values: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 2);
    assert_eq!(
        (&values[1]["pid"], &values[1]["domains"], &values[1]["end"]["code"]),
        (&101.into(), &serde_json::json!([2, 3]), &2.into())
    );
    // A trace that was cut still has its events.
    desk.trace("sh-1", 1, false);
    assert!(desk.shows(&["ps", "sh-1"]).contains("not seen"), "{}", desk.shows(&["ps", "sh-1"]));
}

#[test]
fn dump_shows_all_domains_in_one_order() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    let dump = |args: &[&str]| desk.shows(&[&["dump", "sh-0"], args].concat());
    let all = dump(&[]);
    let numbers: Vec<u64> =
        all.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=15).collect::<Vec<_>>(), "{all}");
    for part in [
        "exec /bin/sh: sh -c 'ls -l; true'",
        "read(3, 0x7000, 5) = 5",
        "copy of domain 1 at 3",
        "= -1 ENOENT",
        "SIGTERM (anywhere): ends the task",
        "killed by SIGTERM",
        "exec, goes on in domain 3",
    ] {
        assert!(all.contains(part), "dump lacks {part:?}:\n{all}");
    }
    // The return of a call is shown with what it was called with.
    assert!(all.lines().any(|line| line.contains("... wait4(-1") && line.ends_with("= 101")), "{all}");

    let count = |args: &[&str]| dump(args).lines().count();
    assert_eq!(count(&["--from", "2", "--to", "4"]), 3);
    assert_eq!(count(&["--pid", "101"]), 7);
    assert_eq!(count(&["--tid", "100", "--kind", "signal"]), 1);
    assert_eq!(count(&["--kind", "task-exit", "--kind", "end"]), 6);
    assert_eq!(count(&["--call", "openat", "--call", "wait4"]), 3);
    assert!(dump(&["--full", "--from", "2", "--to", "2"]).contains("memory 0x7000: \"hello\" (5 bytes)"));
    assert!(dump(&["--full", "--from", "2", "--to", "2"]).contains("after 77 ticks"));
    assert!(desk.refuses(&["dump", "sh-0", "--pid", "5"], 2).contains("no such process"));
    assert!(desk.refuses(&["dump", "sh-0", "--call", "nope"], 2).contains("bis syscalls"));
}

#[test]
fn dump_as_json_holds_everything() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    let json = desk.shows(&["dump", "sh-0", "--json"]);
    let values: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 15);
    let read = &values[1];
    assert_eq!((&read["seq"], &read["call"], &read["result"]), (&2.into(), &"read".into(), &5.into()));
    assert_eq!(read["outcome"]["writes"][0]["data"], "68656c6c6f");
    assert_eq!(read["entry"]["rip"], "0x401000");
    assert_eq!((&read["ticks"], &values[0]["ticks"]), (&77.into(), &serde_json::Value::Null));
    assert_eq!(values[2]["outcome"]["effects"][0]["kind"], "fork");
    assert_eq!(values[10]["signal"], "SIGTERM");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let desk = Desk::new();
    let path = desk.traces().join("long");
    fs::create_dir_all(desk.traces()).unwrap();
    let writer = Writer::create(&path).unwrap();
    let (domain, tid, seq) = (DomainId(1), Tid(7), writer.next_seq());
    let base = exec("/bin/x", &["x"]);
    writer
        .meta(&Meta::Domain(DomainEntry { domain, pid: tid, ppid: Tid(1), tid, base: base.clone(), seq }))
        .unwrap();
    let mut stream = writer.stream(domain);
    let start = EventKind::Start(Box::new(Start { base, outcome: Outcome::default() }));
    stream
        .push(&Event { seq, tid, kind: start, ticks: None, sums: Vec::new(), lapse: Lapse::default() })
        .unwrap();
    for _ in 0..20_000 {
        let kind = call(0, [3, 0x7000, 5], 5);
        stream
            .push(&Event {
                seq: writer.next_seq(),
                tid,
                kind,
                ticks: None,
                sums: Vec::new(),
                lapse: Lapse::default(),
            })
            .unwrap();
    }
    drop(stream);
    writer.finish().unwrap();
    let mut child = desk
        .command(&["dump", "long", "--full"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn the_cache_is_shown_and_emptied() {
    let desk = Desk::new();
    let home = desk.folder.path().join("home");
    let cache = home.join("bis/dense");
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join(format!("{}.text", "0".repeat(64))), vec![1; 64 << 10]).unwrap();
    // What is beside it is not ours.
    fs::write(home.join("bis/other"), "x").unwrap();
    let run = |args: &[&str], size: &str| {
        let output =
            desk.command(args).env("XDG_CACHE_HOME", &home).env("BIS_CACHE_SIZE", size).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (status, shown) = run(&["info", "--cache"], "512M");
    assert_eq!(status, 0, "{shown}");
    for line in [
        &*format!("folder       {}/bis/", home.display()),
        "dense        1 file, 64.0 KiB: ",
        "sites        0 files, 0 B: ",
        "all          1 file, 64.0 KiB",
        "bound        512 MiB for dense (BIS_CACHE_SIZE)",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "no {line:?} in\n{shown}");
    }
    let (status, shown) = run(&["info", "--cache"], "much");
    assert!(status == 2 && shown.contains("BIS_CACHE_SIZE=much"), "{shown}");
    let (status, shown) = run(&["rm", "--cache"], "");
    assert_eq!((status, &*shown), (0, &*format!("removed 1 file from {}/bis/ (64.0 KiB)\n", home.display())));
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    assert!(home.join("bis/other").exists());
    // A program records whatever there is to be read, but not with a bound that nobody can know.
    let (status, shown) = run(&["record", "-o", "t", "true"], "much");
    assert!(status == 125 && shown.contains("BIS_CACHE_SIZE=much"), "{shown}");
    let (status, shown) = run(&["record", "-o", "u", "true"], "1G");
    assert_eq!((status, &*shown), (0, ""));
    let wrong = desk.command(&["record", "-o", "v", "true"]).env("BIS_TEXTS", "never").output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("BIS_TEXTS=never"));
    assert!(!desk.folder.path().join("v").exists());
}

#[test]
fn ls_and_rm() {
    let desk = Desk::new();
    let empty = desk.run(&["ls"]);
    assert_eq!((empty.status, empty.stdout.as_str()), (0, ""));
    assert!(empty.stderr.starts_with("no traces in "));
    desk.trace("new-0", 4_000_000_000, true);
    desk.trace("old-0", 1_000_000_000, false);
    let read_only = desk.trace("old-1", 1_000_000_001, true);
    let keep = desk.traces().join("keep");
    fs::create_dir(&keep).unwrap();
    fs::write(keep.join("log"), "a log of something else").unwrap();
    symlink("new-0", desk.traces().join("latest")).unwrap();

    let list = desk.shows(&["ls"]);
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "DATE", "SIZE", "STATE", "COMMAND"]);
    assert_eq!(rows.iter().skip(1).map(|row| row[0]).collect::<Vec<_>>(), ["old-0", "old-1", "new-0"]);
    assert!(rows[1].contains(&"cut") && list.lines().nth(2).unwrap().contains("exit 143"), "{list}");
    assert!(desk.shows(&["ls", "--json"]).contains("\"latest\":true"));

    // Files that cannot be written, in folders that cannot be changed, are still ours to remove.
    let files = read_only.join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("a"), "x").unwrap();
    fs::hard_link(files.join("a"), keep.join("linked")).unwrap();
    fs::set_permissions(files.join("a"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(&files, fs::Permissions::from_mode(0o500)).unwrap();

    assert!(desk.refuses(&["rm", "keep"], 2).contains("not a trace"));
    assert!(desk.refuses(&["rm", desk.folder.path().to_str().unwrap()], 2).contains("not a trace"));
    // An empty folder is what a recorder leaves that was killed at once, but only in the folder of the
    // traces.
    for (folder, status) in [(desk.traces().join("unborn-0"), 0), (desk.folder.path().join("elsewhere"), 2)] {
        fs::create_dir(&folder).unwrap();
        assert_eq!(desk.run(&["rm", folder.to_str().unwrap()]).status, status);
        assert_eq!(folder.exists(), status != 0);
    }
    assert_eq!(desk.shows(&["rm", "--older-than", "30"]).lines().count(), 2);
    assert!(!read_only.exists() && keep.join("linked").exists());
    // By the link: the trace that it names goes, and the link with it.
    assert!(desk.shows(&["rm", "latest"]).contains("new-0"));
    assert!(desk.traces().join("latest").symlink_metadata().is_err());
    desk.trace("a-0", 1, true);
    desk.trace("a-1", 1, true);
    // What can be removed is, whatever the others are.
    let ran = desk.run(&["rm", "a-0", "nothing", "keep"]);
    assert_eq!((ran.status, ran.stdout.lines().count(), ran.stderr.lines().count()), (2, 1, 2));
    assert_eq!(desk.shows(&["rm", "--all"]).lines().count(), 1);
    assert!(keep.join("log").exists());
}

#[test]
fn a_trace_that_is_being_recorded_is_left_alone() {
    let desk = Desk::new();
    let path = desk.trace("sh-0", 1, true);
    let held = fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(desk.shows(&["ls"]).contains("recording"));
    assert!(desk.refuses(&["rm", "sh-0"], 2).contains("being recorded"));
    assert_eq!(desk.shows(&["rm", "--all"]), "");
    // Not by closing it: a process that another test is just starting may have the descriptor still.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::Unlock).unwrap();
    assert_eq!(desk.shows(&["rm", "--all"]).lines().count(), 1);
}

#[test]
fn replay_names_what_it_needs() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    assert!(desk.refuses(&["replay", "-a", "nothing"], 2).contains("nothing"));
    assert_eq!(desk.run(&["replay", "-a", "-p", "0"]).status, 2);
    assert!(desk.refuses(&["replay", "-a", "-p", "nope", "sh-0"], 2).contains("bis ps"));
    assert!(desk.refuses(&["replay", "-p", "nope", "sh-0"], 2).contains("nope"));
    assert!(desk.refuses(&["replay", "-s", "0", "-h", "203.0.113.1", "sh-0"], 2).contains("listen"));
    // What calls for help gets some, also where the short flag means something else.
    let help = desk.shows(&["replay", "-h"]);
    assert!(help.contains("--keep-listening") && help.contains("Examples:"), "{help}");
    let ran = desk.command(&["replay", "sh-0"]).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!((ran.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("install gdb") && said.contains("-s PORT"), "{said}");
    let ran = desk.command(&["run", "--gdb", "/bin/true"]).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("install gdb") && said.lines().count() == 1, "{said}");
    assert_eq!((ran.status.code(), desk.traces().join("true-0").exists()), (Some(125), false), "{said}");
    // A recorder that was killed before it wrote an event.
    fs::create_dir_all(desk.traces()).unwrap();
    let writer = Writer::create(&desk.traces().join("cut-0")).unwrap();
    writer.meta(&Meta::Machine(Box::default())).unwrap();
    writer.meta(&Meta::Cut { why: "the disk is full".into() }).unwrap();
    writer.finish().unwrap();
    assert!(desk.refuses(&["replay", "-a", "cut-0"], 3).contains("the disk is full"));
}

/// The debugger is a script here, which shows how it was called.
#[test]
fn a_debugger_is_started_with_what_it_needs() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    let debugger = desk.folder.path().join("my gdb");
    let script = "#!/bin/sh\nfor word; do echo \"$word\"; done\nwhile [ \"$1\" != -x ]; do shift; done\n\
                  grep -c watch-if \"$2\" > asked\nkill -INT $PPID\ngrep SigIgn /proc/$$/status >> asked\nexit 7\n";
    fs::write(&debugger, script).unwrap();
    fs::set_permissions(&debugger, fs::Permissions::from_mode(0o755)).unwrap();
    let name = debugger.to_str().unwrap();
    let ran = desk.run(&["replay", "-d", name, "-p", "ls", "-o", "-batch", "sh-0", "--", "-nx"]);
    assert_eq!(ran.status, 7, "{}{}", ran.stdout, ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..5], ["-l", "10000", "-ex", "set sysroot /", "-x"]);
    assert!(lines[7].starts_with("target extended-remote 127.0.0.1:"), "{lines:?}");
    assert_eq!(lines[8..], ["-batch", "-nx", "/bin/ls"]);
    // The file with gdb's own commands was there; and SIGINT, which bis outlived, is the debugger's to
    // handle.
    let asked = fs::read_to_string(desk.folder.path().join("asked")).unwrap();
    let (count, ignored) = asked.split_once("\nSigIgn:").expect("two lines");
    assert!(count.parse::<u32>().unwrap() > 1, "{asked}");
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 2, 0, "{asked}");
    assert!(desk.shows(&["gdbinit"]).contains("watch-if"));
}

/// As Delve reads them: it looks for these beginnings, and takes the last word for the executable.
#[test]
fn a_server_says_how_to_connect() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    for args in
        [&["replay", "--dbgport=0", "sh-0"][..], &["replay", "-h", "127.0.0.1", "-s", "0", "-k", "sh-0"]]
    {
        let mut child = desk.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "Launch gdb with");
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("  gdb '-l' '10000' '-ex' "), "{line}");
        assert!(line.ends_with(" '/bin/sh'"), "{line}");
        let (_, address) = line.split_once("'target extended-remote 127.0.0.1:").expect("an address");
        assert!(address.split('\'').next().unwrap().parse::<u16>().unwrap() > 0, "{line}");
        let _ = child.kill();
        child.wait().unwrap();
    }
}

/// Clients of rr find us under its name, and read what it prints.
#[test]
fn what_clients_of_rr_read() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    desk.trace("cut-0", 2, false);
    let expected = "PID\tPPID\tEXIT\tCMD\n100\t--\t-15\tsh -c ls -l; true\n101\t100\t2\tls -l\n";
    assert_eq!(desk.shows(&["ps", "--rr", "sh-0"]), expected);
    assert!(desk.shows(&["ps", "--rr", "cut-0"]).contains("100\t--\t-9\t"));
    assert_eq!(desk.shows(&["ls", "--rr"]), "sh-0\ncut-0\n");
    assert_eq!(desk.shows(&["ls", "--rr", "-t"]), "cut-0\nsh-0\n");
    let rr = desk.folder.path().join("rr");
    symlink(env!("CARGO_BIN_EXE_bis"), &rr).unwrap();
    let as_rr = |args: &[&str]| {
        let mut command = Command::new(&rr);
        command.args(args).env("_RR_TRACE_DIR", desk.traces()).env_remove("BIS_TRACES");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(as_rr(&["ps", "sh-0"]), expected);
    assert_eq!(as_rr(&["ls", "-t", "-r"]), "sh-0\ncut-0\n");
    symlink("sh-0", desk.traces().join("latest")).unwrap();
    assert_eq!(as_rr(&["ps", "latest-trace"]), expected);
    assert_eq!(as_rr(&["ps", desk.traces().join("latest-trace").to_str().unwrap()]), expected);
}

#[test]
fn the_path_of_a_trace_is_told_to_a_descriptor() {
    let desk = Desk::new();
    let script = "\"$0\" record -n --print-trace-dir=3 sh -c 'test -e /proc/self/fd/3 || echo none' 3>told";
    let ran = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_bis")])
        .stdin(Stdio::null())
        .env("BIS_TRACES", desk.traces())
        .current_dir(desk.folder.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let told = fs::read_to_string(desk.folder.path().join("told")).unwrap();
    assert_eq!(told, format!("{}\n", desk.traces().join("sh-0").display()));
    // The program has no such descriptor.
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "none\n");
    assert!(desk.refuses(&["record", "--print-trace-dir=77", "true"], 125).contains("descriptor 77"));
    assert!(!desk.traces().join("true-0").exists());
}

/// A file that somebody outside of the recording has mapped, too, and changes: the trace says so, and the
/// divergence names it.
#[test]
fn memory_that_somebody_outside_changes() {
    let desk = Desk::new();
    if Command::new("python3").arg("--version").output().is_err() {
        println!("ignored: not installed (apt-get install python3)");
        return;
    }
    let write = |name: &str, text: &str| fs::write(desk.folder.path().join(name), text).unwrap();
    let map = "import mmap, time\nfile = open('shared', 'r+b')\nmemory = mmap.mmap(file.fileno(), 4096)\n";
    write("shared", &"\0".repeat(4096));
    write(
        "writer.py",
        &format!(
            "{map}print('ready', flush=True)\nfor _ in range(60000):\n  memory[0] = (memory[0] + 1) % 256\n  time.sleep(0.001)\n"
        ),
    );
    write(
        "reader.py",
        &format!("{map}first = memory[0]\nwhile memory[0] == first: time.sleep(0.0001)\nprint('changed')\n"),
    );
    let mut writer = Command::new("python3")
        .arg("writer.py")
        .current_dir(desk.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let recorded = desk.run(&["record", "-o", "read", "python3", "reader.py"]);
    let info = desk.run(&["info", "read"]);
    let replayed = desk.run(&["replay", "-a", "read"]);
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!((recorded.status, recorded.stdout.as_str()), (0, "changed\n"), "{}", recorded.stderr);
    let who = format!("python3 (process {}) has it mapped, too", writer.id());
    let said =
        info.stdout.lines().find(|line| line.contains("shared with somebody outside of the recording"));
    assert!(said.is_some_and(|line| line.contains(&who) && line.contains("/shared, ")), "{}", info.stdout);
    assert_eq!(replayed.status, 1, "{}", replayed.stderr);
    let cause = "memory that was changed from outside of the recording, which is not recorded: ";
    assert!(replayed.stderr.contains(cause) && replayed.stderr.contains(&who), "{}", replayed.stderr);
    assert!(!replayed.stderr.contains("report it"), "{}", replayed.stderr);
}

/// A program that leaves a daemon: the recording ends with the program, unless it is to wait, and says what
/// it has left.
#[test]
fn what_a_program_has_left_running() {
    let desk = Desk::new();
    let ran = desk.run(&["record", "-o", "left", "sh", "-c", "setsid sleep 600 & echo $! > pid; exit 3"]);
    let pid = fs::read_to_string(desk.folder.path().join("pid")).unwrap();
    let pid = pid.trim();
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    let told = format!(
        "bis: the program has left sleep (process {pid}) running; it was killed at the end of the recording"
    );
    assert!(ran.stderr.starts_with(&told), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while is_alive() {
        assert!(std::time::Instant::now() < deadline, "process {pid} has outlived the recording");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Its end is recorded like any other: the trace is whole.
    let told = desk.shows(&["info", "left"]);
    assert!(told.contains("complete; exit status 3"), "{told}");
    assert!(told.contains("what it had left running was killed: sleep"), "{told}");
    let replayed = desk.run(&["replay", "-a", "left"]);
    assert_eq!((replayed.status, replayed.stdout.as_str()), (0, ""), "{}", replayed.stderr);
    // What ends by itself in a moment, or is waited for, is recorded to its end.
    let wait = ["record", "--wait", "-o", "waited", "sh", "-c", "(sleep 3; echo late) & echo early"];
    assert_eq!(desk.shows(&wait), "early\nlate\n");
    assert_eq!(desk.shows(&["replay", "-a", "waited"]), "early\nlate\n");
}

#[test]
fn the_table_of_system_calls() {
    let desk = Desk::new();
    let all = desk.shows(&["syscalls"]);
    assert!(all.lines().count() > 350);
    assert!(all.lines().any(|line| line.trim_start().starts_with("0  read ")));
    assert!(
        desk.shows(&["syscalls", "io_uring"]).lines().skip(1).all(|line| line.contains("refused ENOSYS"))
    );
    let json = desk.shows(&["syscalls", "openat", "--json"]);
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(desk.shows(&["syscalls", "--markdown"]).starts_with("# System calls\n"));
    desk.refuses(&["syscalls", "no_such_call"], 2);
}

#[test]
fn doctor_tries_everything_and_says_so() {
    let desk = Desk::new();
    let ran = desk.run(&["doctor"]);
    let fit = ran.stdout.contains("bis can record on this machine.");
    assert_eq!(ran.status, i32::from(!fit), "{}", ran.stdout);
    for name in [
        "ptrace",
        "kernel",
        "yama",
        "seccomp",
        "performance counters",
        "traces",
        "disk space",
        "limits",
        "debugger",
    ] {
        assert!(ran.stdout.contains(name), "doctor lacks {name}:\n{}", ran.stdout);
    }
    let unwritable = desk.command(&["doctor"]).env("BIS_TRACES", "/proc/bis").output().unwrap();
    let text = String::from_utf8(unwritable.stdout).unwrap();
    assert!(text.contains("cannot write to /proc") && text.contains("BIS_TRACES"), "{text}");
}

#[test]
fn doctor_looks_at_a_text() {
    let desk = Desk::new();
    let own = env!("CARGO_BIN_EXE_bis");
    let ran = desk.run(&["doctor", "--text", own]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for row in
        ["backward branches", "jumps between functions", "direct calls", "computed jumps", "left, by reason"]
    {
        assert!(ran.stdout.contains(row), "no {row} in\n{}", ran.stdout);
    }
    let ran = desk.run(&["doctor", "--json", "--text", own]);
    let page: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one object");
    let branches = |kind: &str| page[kind]["backward_branches"].clone();
    let number = |kind: &str, of: &str| branches(kind)[of].as_u64().expect("a number");
    assert!(number("usual", "counted") > 1000 && number("usual", "short") > 100, "{page}");
    assert!(number("with_short_loops", "counted") > number("usual", "counted"), "{page}");
    assert_eq!(number("with_short_loops", "short"), 0);
    let ran = desk.run(&["doctor", "--text", "/etc/passwd"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("failed to look at /etc/passwd"), "{}", ran.stderr);
}

/// Whatever the machine: a recording by the processor's counters is one that replays, or is refused with what
/// to do.
#[test]
fn counting_by_the_processor_works_or_says_why_not() {
    let desk = Desk::new();
    let ran = desk.run(&["record", "--ticks=hardware", "-o", "counted", "/bin/true"]);
    if ran.status == 0 {
        assert!(desk.shows(&["info", "counted"]).contains("tick source: hardware"));
        desk.shows(&["replay", "-a", "counted"]);
        return;
    }
    assert_eq!((ran.status, ran.stderr.lines().count()), (125, 1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("failed to record /bin/true: failed to ") && ran.stderr.contains("--ticks=auto")
    );
    let counts = |pmu: &str| Path::new("/sys/bus/event_source/devices").join(pmu).exists();
    if !counts("cpu") && !counts("cpu_core") {
        assert!(ran.stderr.contains("no performance counters"), "{}", ran.stderr);
    }
    assert!(!desk.folder.path().join("counted").exists(), "a trace of nothing is left");
    let both = desk.run(&["record", "--chaos", "--ticks=stepping", "/bin/true"]);
    assert!(both.status == 125 && both.stderr.contains("give one of them"), "{}", both.stderr);
}

/// As the first process of a container it has orphans for children.
#[test]
fn it_records_as_process_1() {
    let desk = Desk::new();
    let in_container = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]).args(arguments);
        command.stdin(Stdio::null()).env("BIS_TRACES", desk.traces()).current_dir(desk.folder.path());
        command.output()
    };
    if !in_container(&["true"]).is_ok_and(|output| output.status.success()) {
        println!("ignored: no namespaces for processes here");
        return;
    }
    let bis = env!("CARGO_BIN_EXE_bis");
    let script = "echo $$; (sleep 0.2; echo orphan) & exit 3";
    let recorded = in_container(&[bis, "record", "--wait", "-o", "t", "sh", "-c", script]).unwrap();
    assert_eq!(recorded.status.code(), Some(3), "{recorded:?}");
    let replayed = in_container(&[bis, "replay", "-a", "t"]).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    assert!(recorded.stdout.ends_with(b"orphan\n"), "{recorded:?}");
    assert_eq!(replayed.stdout, recorded.stdout);
}
