//! A replay that does something else than the recording can be looked at where it does: `bis replay -a
//! --on-error=debug` starts gdb there, and a session stops there, and can be led backwards from it.
//!
//! The recording is made to say something that the program has not done (`common/told.rs`).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    common::{self, Folder, Step, told::Told},
    trial,
};
use bis_trace::{
    event::{Event, EventKind},
    types::Tid,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

const MUNMAP: u64 = 11;

/// What the program gives back, in bytes (`tests/lies/give_back.c`).
const LEN: u64 = 7 * 4096;

/// Where the program stands at the divergence, and what was before it.
const LOOK: &str = "\
backtrace
print total
continue
print total
reverse-stepi
print $_bis_place
continue
watch total
reverse-continue
print total
delete
break add
reverse-continue
seek end
print total
break give_back
reverse-continue
delete
continue
print total
";

/// What that shows, wherever it is asked.
const LOOKED: [&str; 17] = [
    "munmap ()",
    "in give_back (",
    "in main ()",
    "= 15",
    // It goes no further.
    "SIGABRT",
    "= 15",
    "+0x",
    "SIGABRT",
    "Old value = 15",
    "New value = 10",
    "= 10",
    "add (n=n@entry=4)",
    // There the recording ends for a session.
    "munmap ()",
    "= 15",
    "give_back (memory=",
    "SIGABRT",
    "= 15",
];

pub fn trials() -> Vec<Trial> {
    let missing = !common::installed("gcc") || !common::installed("gdb");
    if missing {
        println!("ignored: everything: gcc or gdb is not installed (apt-get install gcc gdb)");
    }
    let mut trials = Vec::new();
    for (mode, flag) in [("hooks", "--ticks=software"), ("no_hooks", "--no-hooks")] {
        trials.push(trial(module_path!(), format!("on_error::{mode}"), move || on_error(flag)));
        trials.push(trial(module_path!(), format!("session::{mode}"), move || in_a_session(flag)));
        trials
            .push(trial(module_path!(), format!("contradiction::{mode}"), move || at_a_contradiction(flag)));
    }
    trials.push(trial(module_path!(), "nothing_goes_wrong", nothing_goes_wrong));
    trials.into_iter().map(|trial| trial.with_ignored_flag(missing)).collect()
}

/// A recording.
fn recorded(folder: &Folder, flag: &str) -> Result<PathBuf, Failed> {
    let program = folder.path().join("program");
    common::compile(&common::tree().join("tests/lies/give_back.c"), &program)?;
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, &[flag], &[program.as_os_str()], folder.path());
    let step = common::run(record, "record", folder.path(), None, LIMIT)?;
    if step.status != 0 {
        return Err(format!("failed to record\n{}", step.shown()).into());
    }
    Ok(trace)
}

/// A recording that says that other memory was given back; and the event that says so.
fn told_wrongly(folder: &Folder, flag: &str) -> Result<(PathBuf, u64), Failed> {
    let told = Told::read(&recorded(folder, flag)?)?;
    let mut events = told.events.clone();
    let mut seq = None;
    for event in events.values_mut().flatten() {
        if let EventKind::Syscall { nr: MUNMAP, entry, .. } = &mut event.kind
            && entry.rsi == LEN
        {
            entry.rdi ^= 1 << 12;
            seq = Some(event.seq.0);
        }
    }
    let dir = folder.path().join("lie");
    told.write(&events, &dir)?;
    Ok((dir, seq.ok_or("the program's call of munmap is no event")?))
}

fn replay(folder: &Folder, trace: &Path, options: &[&str]) -> Result<Step, Failed> {
    let commands = folder.path().join("commands");
    let mut replay = common::command(common::bis(), folder.path());
    replay.arg("replay").args(options).arg("-x").arg(commands).args(["-o", "-batch", "-o", "-nx"]).arg(trace);
    common::run(replay, "replay", folder.path(), None, LIMIT)
}

/// All of this is shown, in this order.
fn shows(step: &Step, wanted: &[&str]) -> Result<(), Failed> {
    let shown = String::from_utf8_lossy(&step.stdout);
    let mut rest = &shown[..];
    for text in wanted {
        let Some(at) = rest.find(text) else {
            return Err(format!("{text:?} is not shown here\n{}", step.shown()).into());
        };
        rest = &rest[at + text.len()..];
    }
    Ok(())
}

fn on_error(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("diverged.on_error")?;
    let (trace, seq) = told_wrongly(&folder, flag)?;
    fs::write(folder.path().join("commands"), LOOK)?;
    let step = replay(&folder, &trace, &["-a", "--on-error=debug"])?;
    let report = format!("divergence at event {seq} ");
    if step.status != 1 || !step.stderr_text().contains(&report) {
        return Err(format!("status 1 and {report:?} were expected\n{}", step.shown()).into());
    }
    shows(&step, &LOOKED)?;
    folder.done();
    Ok(())
}

fn in_a_session(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("diverged.session")?;
    let (trace, seq) = told_wrongly(&folder, flag)?;
    fs::write(folder.path().join("commands"), format!("continue\n{LOOK}"))?;
    let step = replay(&folder, &trace, &[])?;
    let report = format!("divergence at event {seq} ");
    // gdb shows on standard error what a server says.
    if step.status != 0 || !step.stderr_text().contains(&report) {
        return Err(format!("status 0 and {report:?} were expected\n{}", step.shown()).into());
    }
    shows(&step, &[&["SIGABRT"], &LOOKED[..]].concat())?;
    folder.done();
    Ok(())
}

/// A trace that says of a call that a task has made it which does not exist.
fn at_a_contradiction(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("diverged.contradiction")?;
    let told = Told::read(&recorded(&folder, flag)?)?;
    let mut events = told.events.clone();
    let is_it = |event: &&mut Event| matches!(&event.kind, EventKind::Syscall { nr: MUNMAP, entry, .. } if entry.rsi == LEN);
    let event =
        events.values_mut().flatten().find(is_it).ok_or("the program's call of munmap is no event")?;
    event.tid = Tid(1 << 20);
    let seq = event.seq;
    let lie = folder.path().join("lie");
    told.write(&events, &lie)?;
    fs::write(
        folder.path().join("commands"),
        "backtrace\ncontinue\nx/i $pc\nreverse-continue\nprint $_bis_event\n",
    )?;
    let step = replay(&folder, &lie, &["-a", "--on-error=debug"])?;
    let report = format!("the trace contradicts itself at event {seq} ");
    if step.status != 2 || !step.stderr_text().contains(&report) {
        return Err(format!("status 2 and {report:?} were expected\n{}", step.shown()).into());
    }
    shows(&step, &["in main ()", "SIGABRT", "=> 0x", "history", "= "])?;
    folder.done();
    Ok(())
}

/// No debugger is started then.
fn nothing_goes_wrong() -> Result<(), Failed> {
    let folder = Folder::new("diverged.nothing")?;
    let trace = recorded(&folder, "--ticks=software")?;
    fs::write(folder.path().join("commands"), "print 6 * 7\n")?;
    let step = replay(&folder, &trace, &["-a", "--on-error=debug"])?;
    if step.status != 0 || step.stdout != b"given back\n" {
        return Err(format!("a whole replay was expected\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}
