//! The commands that gdb has in `bis replay`, in a real gdb, against a server of nothing
//! (`tests/gdb/server.py`), which shows what it was asked. So they are tested without a recording: what gdb
//! makes of stops that come from far away is the hard part. It needs python3 and gdb with Python; without
//! those, the tests say so and pass.

mod common;

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

struct Session {
    shown: String,
    /// What the server was asked, in order.
    asked: Vec<String>,
}

/// Runs gdb commands; what fails in gdb's own code shows as "internal-error".
fn session(commands: &[&str]) -> Option<Session> {
    if !["python3", "gdb"].iter().all(|program| common::installed(program)) {
        eprintln!("ignored: needs python3 and gdb");
        return None;
    }
    let tree = common::tree();
    let mut server = Command::new("python3")
        .arg(tree.join("tests/gdb/server.py"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(server.stdout.take().unwrap());
    let mut port = String::new();
    told.read_line(&mut port).unwrap();
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-l", "20", "-ex", "set sysroot /", "-x"]);
    gdb.arg(tree.join("crates/bis-debug/src/gdb_script.gdb"));
    gdb.args(["-ex", &format!("target extended-remote 127.0.0.1:{}", port.trim())]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb.arg("/bin/true").stdin(Stdio::null()).output().unwrap();
    let mut asked = String::new();
    told.read_to_string(&mut asked).unwrap();
    server.wait().unwrap();
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!shown.contains("internal-error"), "{shown}");
    Some(Session { shown, asked: asked.lines().map(str::to_owned).collect() })
}

/// Each of `parts` comes, in this order.
fn has(session: &Session, parts: &[&str]) {
    let mut rest = session.shown.as_str();
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => panic!("{part:?} does not come in {}\n{:?}", session.shown, session.asked),
        }
    }
}

#[test]
fn a_target_is_armed_and_the_next_resume_leads_there() {
    let Some(ran) =
        session(&["seek 13", "print $pc", "print $_bis_event", "print $_bis_place", "info threads"])
    else {
        return;
    };
    has(&ran, &["[Switching to Thread 101]", "0x40000d", "= 13", "= \"13.0\"", "* 2", "0x000000000040000d"]);
    let asked = [
        "bis",
        "prompt",
        "stopped thread 100",
        "seek 13",
        "packet bs",
        "prompt",
        "stopped thread 101",
        "libraries",
    ];
    assert_eq!(ran.asked, asked);
}

/// gdb would step over a breakpoint first, and believe that nothing but the step can end.
#[test]
fn a_breakpoint_under_the_program_does_not_matter() {
    let Some(ran) = session(&[
        "break *0x401000",
        "seek 13",
        "break *0x40000d",
        "back 2",
        "print $pc",
        "checkpoint",
        "restart 8",
        "print $pc",
        "run 9",
    ]) else {
        return;
    };
    has(&ran, &["= (void (*)()) 0x400002", "Checkpoint 1 at 0x400002", "= (void (*)()) 0x400008"]);
    assert!(ran.asked.contains(&"packet vRun;;39".to_owned()), "{:?}", ran.asked);
}

#[test]
fn what_the_server_refuses_is_shown_and_moves_nothing() {
    let Some(ran) = session(&["seek nowhere", "seek 7", "restart", "seek", "when", "info checkpoints"])
    else {
        return;
    };
    has(&ran, &["This is the place.", "Completed event: 7", "said info checkpoints"]);
    has(&ran, &["there is no such seek", "restart needs", "seek needs a place"]);
    assert!(!ran.asked.iter().any(|asked| asked.starts_with("packet")), "{:?}", ran.asked);
}

#[test]
fn another_process_has_other_symbols() {
    let Some(ran) = session(&["process 200", "info inferiors", "print $_bis_event"]) else { return };
    has(&ran, &["0x0000000000402000", "/true", "= 50"]);
    assert!(ran.asked.contains(&"packet vRun;".to_owned()), "{:?}", ran.asked);
}

#[test]
fn conditions_of_watchpoints_are_sent() {
    let Some(ran) = session(&[
        "watch-if *(char*)0x601000 if *(long *)0x601008 != 0x123456789abcdef",
        "watch-if *(int*)0x601010 $rax == -3",
        "delete 1",
        "watch-if $rax 1",
        "watch-if *(int*)0x601010",
    ]) else {
        return;
    };
    has(&ran, &["watchpoint 1", "watchpoint 2", "$rax is not in memory", "Usage: watch-if"]);
    let asked: Vec<&str> =
        ran.asked.iter().filter(|asked| asked.starts_with("watch")).map(String::as_str).collect();
    // const32 0x601008, ref64, const64, equal, log_not, end.
    assert_eq!(asked[0], "watch-if 601000 1 24006010081a1640250123456789abcdef130e27");
    // reg 0, a constant, equal, end.
    assert!(asked[1].starts_with("watch-if 601010 4 260000") && asked[1].ends_with("1327"), "{asked:?}");
    assert_eq!(asked[2..], ["watch-unless 601000 1"]);
}
