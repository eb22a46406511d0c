//! What is shown of a trace, by whatever name it is found.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::symlink,
    },
    process::Stdio,
};

use bis_trace::{
    Writer,
    event::{Base, DomainEntry, Event, EventKind, Lapse, Meta, Outcome, Start},
    types::{DomainId, Tid},
};

use crate::desk::{Desk, call, exec, write_trace};

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
        "end          complete; exit status 143 (killed by SIGTERM)",
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

/// A path is shown in one line, whatever it is made of.
#[test]
fn paths_are_escaped() {
    let desk = Desk::new();
    let name = OsStr::from_bytes(b"a\nb\xff");
    write_trace(&desk.folder.path().join(name), 1, true);
    let path = OsString::from_vec([b"./", name.as_bytes()].concat());
    let shown = |args: &[&OsStr]| {
        let output = desk.command(args).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &[][..]), "{args:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let info = shown(&["info".as_ref(), &path]);
    assert!(info.lines().next().unwrap().ends_with(r"/a\nb\xff"), "{info}");
    let removed = shown(&["rm".as_ref(), &path]);
    assert!(removed.lines().count() == 1 && removed.contains(r"/a\nb\xff ("), "{removed}");
}

/// In JSON a string is what the program had: JSON has escapes of its own.
#[test]
fn words_are_not_escaped_twice() {
    let desk = Desk::new();
    let words = ["sh", "a\nb", "c\\d"];
    small_trace(&desk, "words", exec("/bin/sh", &words), Vec::new());
    let json: serde_json::Value = serde_json::from_str(&desk.shows(&["ps", "words", "--json"])).unwrap();
    assert_eq!(json["argv"], serde_json::json!(words));
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

/// Of the calls that were made without a stop: those that were asked for, and what was between two stops is
/// one event as ever.
#[test]
fn dump_finds_calls_in_hooks() {
    let desk = Desk::new();
    let entry = |nr: u32, result: i64| {
        let head = nr | 2 << 12;
        [&head.to_le_bytes()[..], &[0; 4], &result.to_le_bytes()].concat()
    };
    // openat, close, openat, openat; then close alone.
    let logs = [[entry(257, 3), entry(3, 0), entry(257, 4), entry(257, 4)].concat(), entry(3, 0)];
    let hooked = logs.map(|log| EventKind::Hooked { alone: false, log: log.into() });
    small_trace(&desk, "hooked", exec("/bin/sh", &["sh"]), hooked.to_vec());
    let dump = |args: &[&str]| desk.shows(&[&["dump", "hooked"], args].concat());
    assert_eq!(
        dump(&["--call", "openat"]),
        "       2 7           -- 3 hooked: openat = 3, openat = 4 (2 times)\n"
    );
    assert_eq!(dump(&["--call", "close"]).lines().count(), 2);
    assert_eq!(dump(&["--call", "read"]), "");
    assert_eq!(dump(&["--call", "openat", "--kind", "syscall"]), "");
    let json: serde_json::Value = serde_json::from_str(&dump(&["--call", "openat", "--json"])).unwrap();
    let results: Vec<_> =
        json["calls"].as_array().unwrap().iter().map(|call| call["result"].clone()).collect();
    assert_eq!(results, [3, 4, 4]);
    assert_eq!(json["calls"][0]["call"], "openat");
    assert!(dump(&[]).contains("-- 4 hooked: openat = 3, close = 0, openat = 4 (2 times)"));
}

/// Numbers between which there is nothing are a mistake, and not a recording without events.
#[test]
fn dump_says_that_there_are_no_such_events() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    assert!(desk.refuses(&["dump", "sh-0", "--from", "10", "--to", "5"], 2).contains("--to"));
    let beyond = desk.refuses(&["dump", "sh-0", "--from", "99999"], 2);
    assert!(beyond.contains("99999") && beyond.contains("15"), "{beyond}");
    assert_eq!(desk.shows(&["dump", "sh-0", "--from", "15"]).lines().count(), 1);
}

/// A trace of one process (7) with a domain, which has these events behind its begin.
fn small_trace(desk: &Desk, name: &str, base: Base, events: Vec<EventKind>) {
    fs::create_dir_all(desk.traces()).unwrap();
    let writer = Writer::create(&desk.traces().join(name)).unwrap();
    let (domain, tid, seq) = (DomainId(1), Tid(7), writer.next_seq());
    writer
        .meta(&Meta::Domain(DomainEntry { domain, pid: tid, ppid: Tid(1), tid, base: base.clone(), seq }))
        .unwrap();
    let mut stream = writer.stream(domain);
    let start = EventKind::Start(Box::new(Start {
        base,
        outcome: Outcome::default(),
        has_own_cpuid: false,
        core: None,
    }));
    let kinds = [(seq, start)].into_iter().chain(events.into_iter().map(|kind| (writer.next_seq(), kind)));
    for (seq, kind) in kinds {
        let event = Event { seq, tid, kind, ticks: None, sums: Vec::new(), lapse: Lapse::default() };
        stream.push(&event).unwrap();
    }
    drop(stream);
    writer.finish().unwrap();
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let desk = Desk::new();
    let reads = (0..20_000).map(|_| call(0, [3, 0x7000, 5], 5)).collect();
    small_trace(&desk, "long", exec("/bin/x", &["x"]), reads);
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
