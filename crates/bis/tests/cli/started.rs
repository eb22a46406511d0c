//! Replay, debuggers and servers: what they need, and what they are told.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
    process::{Command, Stdio},
};

use bis_trace::{Writer, event::Meta};

use crate::desk::Desk;

#[test]
fn replay_names_what_it_needs() {
    let desk = Desk::new();
    desk.recording("sh-0");
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
    desk.recording("sh-0");
    let debugger = desk.folder.path().join("my gdb");
    let script = "#!/bin/sh\nfor word; do echo \"$word\"; done\nwhile [ \"$1\" != -x ]; do shift; done\n\
                  grep -c watch-if \"$2\" > asked\nkill -INT $PPID\ngrep SigIgn /proc/$$/status >> asked\nexit 7\n";
    fs::write(&debugger, script).unwrap();
    fs::set_permissions(&debugger, fs::Permissions::from_mode(0o755)).unwrap();
    let name = debugger.to_str().unwrap();
    let ran = desk.run(&["replay", "-d", name, "-p", "ls", "-o", "-batch", "sh-0", "--", "-nx"]);
    assert_eq!(ran.status, 7, "{}{}", ran.stdout, ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..7], ["-l", "10000", "-ex", "set sysroot /", "-ex", "set non-stop off", "-x"]);
    assert!(lines[9].starts_with("target extended-remote 127.0.0.1:"), "{lines:?}");
    let ls = fs::canonicalize("/bin/ls").unwrap();
    assert_eq!(lines[10], "-ex");
    assert!(lines[11].contains("interrupted before it was ready"), "{lines:?}");
    assert_eq!(lines[lines.len() - 3..], ["-batch", "-nx", ls.to_str().unwrap()]);
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
    desk.recording("sh-0");
    let shell = fs::canonicalize("/bin/sh").unwrap();
    for args in
        [&["replay", "--dbgport=0", "sh-0"][..], &["replay", "-h", "127.0.0.1", "-s", "0", "-k", "sh-0"]]
    {
        let mut child = desk.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "Launch gdb with");
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("  gdb '-l' '10000' '-ex' "), "{line}");
        assert!(line.ends_with(&format!(" '{}'", shell.display())), "{line}");
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
