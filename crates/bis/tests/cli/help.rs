//! Help, and command lines that are none.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::desk::Desk;

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
    assert_eq!(desk.run(&["run"]).status, 125);
    assert_eq!(desk.run(&["run", "--bogus", "true"]).status, 125);
    let overview = desk.shows(&["--help"]);
    assert!(overview.contains("\n  run     as record"), "{overview}");
    assert_eq!(desk.run(&["record", "--detach=", "true"]).status, 125);
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
fn a_word_too_many_is_no_option() {
    let desk = Desk::new();
    assert!(desk.refuses(&["replay", "-a", "base", "extra"], 2).contains("one argument too many: extra"));
    assert!(desk.refuses(&["replay", "-a", "--bogus"], 2).contains("has no option --bogus"));
}

#[test]
fn a_log_that_nobody_writes_is_named() {
    let desk = Desk::new();
    desk.trace("sh-0", 1, true);
    let said = |filter: &str| {
        let output = desk.command(&["ps", "sh-0"]).env("BIS_LOG", filter).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    for wrong in ["zzz", "bis_record=zzz", "bis_recrod=debug", "info,zzz"] {
        assert!(
            said(wrong).contains(&format!("BIS_LOG={wrong} is not a filter")),
            "{wrong}: {}",
            said(wrong)
        );
    }
    for good in ["warn", "INFO", "off", "bis_record=trace", "warn,bis_replay::world=debug", "bis_tracee"] {
        assert_eq!(said(good), "", "{good}");
    }
}

/// The kernel's word for a missing interpreter is that for a missing program.
#[test]
fn a_missing_interpreter_is_named() {
    let desk = Desk::new();
    let script = desk.folder.path().join("script");
    fs::write(&script, "#! /no/such -x\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let said = desk.refuses(&["record", "./script"], 127);
    assert!(said.contains("./script") && said.contains("its interpreter /no/such"), "{said}");
    let mut program = fs::read("/bin/true").unwrap();
    let linker = b"/lib64/ld-linux-x86-64.so.2";
    let place = program.windows(linker.len()).position(|part| part == linker).unwrap();
    program[place + linker.len() - 1] = b'9';
    let linked = desk.folder.path().join("linked");
    fs::write(&linked, program).unwrap();
    fs::set_permissions(&linked, fs::Permissions::from_mode(0o755)).unwrap();
    let said = desk.refuses(&["record", "./linked"], 127);
    assert!(said.contains("its interpreter /lib64/ld-linux-x86-64.so.9"), "{said}");
}
