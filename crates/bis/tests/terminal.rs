//! bis at a terminal: the scripts of `tests/terminal/` sit at a pseudo-terminal, type, press ^C and ^Z, and
//! look at what a user would see; then they replay. They need python3 and bash; without those, the tests say
//! so and pass.
//!
//! What goes on inside of a recording between a program and a terminal that it has made is in the guests.

mod common;

use std::process::{Command, Stdio};

fn sit(script: &str) {
    if !["python3", "bash"].iter().all(|program| common::installed(program)) {
        eprintln!("ignored: {script}: needs python3 and bash");
        return;
    }
    let folder = common::tree().join("tests/terminal");
    let output = Command::new("python3")
        .arg(folder.join(script))
        .arg(common::bis())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("BIS_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("failed to start python3: {e}"));
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && shown.trim() == "terminal ok", "{script}: {shown}{said}");
}

#[test]
fn an_interactive_shell_with_jobs() {
    sit("shell.py");
}

#[test]
fn signals_of_the_terminal_and_of_others() {
    sit("signals.py");
}

#[test]
fn gdb_on_a_program_that_runs() {
    if ["gdb", "gcc"].iter().all(|program| common::installed(program)) {
        sit("gdb.py");
    } else {
        eprintln!("ignored: gdb.py: needs gdb and gcc");
    }
}

#[test]
fn a_terminal_that_is_stopped() {
    sit("stopped.py");
}

#[test]
fn a_program_that_is_left_out() {
    sit("left_out.py");
}
