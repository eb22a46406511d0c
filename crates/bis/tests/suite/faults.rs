//! `bis record --on-error=debug`: a process with which the recording fails can be looked at, as it stands
//! there.
//!
//! It fails because the trace may not get larger (`prlimit --fsize`), in the middle of what the program
//! reads.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Folder, Step},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// What the program does while it is recorded: there is no end to it.
const LOOK: &str = "\
info threads
thread apply all backtrace
frame function reads
print count > 0
print name
x/i $pc
continue
kill
";

pub fn trials() -> Vec<Trial> {
    let missing = ["gcc", "gdb", "prlimit"].into_iter().find(|program| !common::installed(program));
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    let mut trials = Vec::new();
    for (mode, flag) in [("hooks", "--ticks=auto"), ("no_hooks", "--no-hooks")] {
        trials.push(trial(module_path!(), format!("gdb_is_started::{mode}"), move || gdb_is_started(flag)));
    }
    trials.push(trial(module_path!(), "one_is_served", one_is_served));
    trials.push(trial(module_path!(), "without_it_nobody_looks", without_it));
    trials.into_iter().map(|trial| trial.with_ignored_flag(missing.is_some())).collect()
}

fn program(folder: &Folder) -> Result<PathBuf, Failed> {
    let program = folder.path().join("program");
    let source = common::tree().join("tests/lies/reads_on.c");
    let output =
        Command::new("gcc").args(["-g", "-O0", "-pthread", "-o"]).arg(&program).arg(&source).output()?;
    if !output.status.success() {
        return Err(format!("gcc: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(program)
}

/// A recording that fails.
fn record(folder: &Folder, options: &[&str]) -> Result<Command, Failed> {
    let program = program(folder)?;
    let mut command = common::command("prlimit", folder.path());
    command.arg(format!("--fsize={}", 4 << 20)).arg(common::bis()).args(["record", "--no-cloning", "-o"]);
    command.arg(folder.path().join("trace")).args(options).arg("--").arg(program);
    Ok(command)
}

/// The recording has failed, for that reason.
fn must_fail(step: &Step) -> Result<(), Failed> {
    let text = step.stderr_text();
    if step.status != 125 || !text.contains("ulimit -f") {
        return Err(format!("status 125, and the limit, were expected\n{}", step.shown()).into());
    }
    Ok(())
}

fn shows(step: &Step, shown: &str, wanted: &[&str]) -> Result<(), Failed> {
    let mut rest = shown;
    for text in wanted {
        let Some(at) = rest.find(text) else {
            return Err(format!("{text:?} is not shown here\n{shown}\n{}", step.shown()).into());
        };
        rest = &rest[at + text.len()..];
    }
    Ok(())
}

/// Two threads, of which one waits; where the other stands, and what it has.
const LOOKED: [&str; 7] =
    ["Thread ", "reads (name=", "main () at ", "= 1", "\"/dev/urandom\"", "=> 0x", "SIGABRT"];

/// No process of it is left.
fn nothing_is_left(folder: &Folder) -> Result<(), Failed> {
    let program = folder.path().join("program");
    let is_it = |pid: &Path| fs::read_link(pid.join("exe")).is_ok_and(|exe| exe == program);
    let left: Vec<PathBuf> =
        fs::read_dir("/proc")?.flatten().map(|entry| entry.path()).filter(|pid| is_it(pid)).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("still there: {left:?}").into()) }
}

fn gdb_is_started(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("faults.gdb_is_started")?;
    let command = record(&folder, &["--on-error=debug", flag])?;
    let step = common::run(command, "record", folder.path(), Some(LOOK.as_bytes()), LIMIT)?;
    must_fail(&step)?;
    shows(&step, &String::from_utf8_lossy(&step.stdout), &LOOKED)?;
    shows(&step, &step.stderr_text(), &["bis: the recording fails: ", "bis: failed "])?;
    nothing_is_left(&folder)?;
    folder.done();
    Ok(())
}

/// The line that says so, once it is there.
fn how_to_connect(folder: &Folder) -> Result<String, Failed> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        let text = fs::read_to_string(folder.path().join("record.err")).unwrap_or_default();
        if let Some(line) = text.lines().find(|line| line.contains("target remote ")) {
            return Ok(line.to_owned());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err("it is not said how to connect".into())
}

fn one_is_served() -> Result<(), Failed> {
    let folder = Folder::new("faults.one_is_served")?;
    let command = record(&folder, &["--on-error=debug", "-s", "0"])?;
    let running = common::start(command, "record", folder.path(), None)?;
    let line = how_to_connect(&folder)?;
    let commands = folder.path().join("commands");
    fs::write(&commands, LOOK)?;
    let mut gdb = common::command("sh", folder.path());
    gdb.arg("-c").arg(format!("{} -nx -batch -x '{}'", line.trim(), commands.display()));
    let looked = common::run(gdb, "gdb", folder.path(), None, LIMIT)?;
    shows(&looked, &String::from_utf8_lossy(&looked.stdout), &LOOKED)?;
    must_fail(&running.wait(LIMIT)?)?;
    nothing_is_left(&folder)?;
    folder.done();
    Ok(())
}

fn without_it() -> Result<(), Failed> {
    let folder = Folder::new("faults.without_it")?;
    let step = common::run(record(&folder, &[])?, "record", folder.path(), Some(LOOK.as_bytes()), LIMIT)?;
    must_fail(&step)?;
    if !step.stdout.is_empty() {
        return Err(format!("nothing was to be looked at\n{}", step.shown()).into());
    }
    nothing_is_left(&folder)?;
    folder.done();
    Ok(())
}
