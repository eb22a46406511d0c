//! Traces that earlier versions wrote, or versions built by other compilers, are replayed and debugged for
//! ever: `tests/traces/`.
//!
//! Each folder there has a `trace`; `replayed`, all that `bis replay -a` must print, and the status with
//! which it must end; `debugged`, lines that a session with `tests/traces/commands.gdb` must show, in this
//! order. (All are recordings of `tests/traces/program.c`, but for the one of a 32-bit program, `narrow.c`.)
//! To add one is to add a folder. `examples/read_trace.py` must read them all, too.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    common::{self, Folder, bis, tree},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Vec<Trial> {
    let folder = tree().join("tests/traces");
    let mut kept: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    kept.retain(|path| path.is_dir());
    kept.sort();
    let mut trials = Vec::new();
    let mut add =
        |what: &str, path: &PathBuf, is_possible: bool, test: fn(&Path, &Folder) -> Result<(), Failed>| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (path, label) = (path.clone(), format!("{name}::{what}"));
            let trial = trial(module_path!(), label, move || {
                let folder = Folder::new(&format!("old-{name}"))?;
                test(&path, &folder)?;
                folder.done();
                Ok(())
            });
            trials.push(trial.with_ignored_flag(!is_possible));
        };
    assert!(!kept.is_empty(), "there are no traces");
    for path in &kept {
        add("replay", path, true, replay);
        add("debug", path, common::installed("gdb"), debug);
        add("reader", path, python().is_some(), read);
    }
    trials
}

/// A copy, as somebody gets it who is sent one.
fn copy_of(kept: &Path, folder: &Folder) -> Result<PathBuf, Failed> {
    let trace = folder.path().join("trace");
    fs::create_dir_all(trace.join("files"))?;
    for part in ["", "files"] {
        for entry in fs::read_dir(kept.join("trace").join(part))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), trace.join(part).join(entry.file_name()))?;
            }
        }
    }
    Ok(trace)
}

fn replay(kept: &Path, folder: &Folder) -> Result<(), Failed> {
    let trace = copy_of(kept, folder)?;
    for_any_processor(&trace, folder)?;
    let mut command = common::command(bis(), folder.path());
    command.args(["replay", "-a"]).arg(trace);
    let step = common::run(command, "replay", folder.path(), None, LIMIT)?;
    let outputs = [&step.stdout[..], &step.stderr[..]].concat();
    let printed = format!("{}status {}\n", String::from_utf8_lossy(&outputs), step.status);
    let wanted = fs::read_to_string(kept.join("replayed"))?;
    if printed != wanted {
        return Err(format!("printed:\n{printed}\nwanted:\n{wanted}").into());
    }
    Ok(())
}

/// A trace whose programs were told more than any processor has can be replayed on some machines only: it is
/// to be recorded with `--cpu=x86-64-v2`. (Up to format 5, traces do not say what was told.)
fn for_any_processor(trace: &Path, folder: &Folder) -> Result<(), Failed> {
    let mut command = common::command(bis(), folder.path());
    command.arg("info").arg(trace);
    let step = common::run(command, "info", folder.path(), None, LIMIT)?;
    let shown = String::from_utf8_lossy(&step.stdout);
    match shown.lines().find_map(|line| line.strip_prefix("cpuid says")) {
        Some(told) if told.trim() != "x86-64-v2" => Err(format!("its programs were told of{told}").into()),
        _ => Ok(()),
    }
}

fn debug(kept: &Path, folder: &Folder) -> Result<(), Failed> {
    let trace = copy_of(kept, folder)?;
    let mut command = common::command(bis(), folder.path());
    command.arg("replay").arg(trace).args(["-o", "--batch", "-o", "-nx", "-x"]);
    command.arg(tree().join("tests/traces/commands.gdb"));
    let step = common::run(command, "debug", folder.path(), None, LIMIT)?;
    let shown = format!("{}{}", String::from_utf8_lossy(&step.stdout), String::from_utf8_lossy(&step.stderr));
    let wanted = fs::read_to_string(kept.join("debugged"))?;
    let mut lines = shown.lines();
    for line in wanted.lines() {
        if !lines.any(|shown| shown.contains(line)) {
            return Err(format!("{line:?} was not shown, or not in its place:\n{shown}").into());
        }
    }
    Ok(())
}

/// A Python that has what the reader needs: `.ci/run` makes one.
fn python() -> Option<PathBuf> {
    let own = tree().join("target/python/bin/python");
    let has = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import capnp, xxhash, zstandard"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    [own, "python3".into()].into_iter().find(has)
}

fn read(kept: &Path, folder: &Folder) -> Result<(), Failed> {
    let trace = copy_of(kept, folder)?;
    let python = python().ok_or("there is no Python that has capnp, xxhash and zstandard")?;
    let mut command = common::command(python, folder.path());
    command.arg(tree().join("examples/read_trace.py")).arg(&trace);
    let step = common::run(command, "read", folder.path(), None, LIMIT)?;
    if step.status != 0 {
        return Err(format!("the reader ended with status {}\n{}", step.status, step.shown()).into());
    }
    let printed = String::from_utf8_lossy(&step.stdout).into_owned();
    let trace = bis_trace::Trace::open(&trace)?;
    for domain in trace.domains() {
        for event in trace.events(domain.domain) {
            let event = event?;
            let line = format!("event {} domain {} task {}: ", event.seq, domain.domain, event.tid);
            if !printed.lines().any(|printed| printed.starts_with(&line)) {
                return Err(format!("the reader does not print {line:?}\n{printed}").into());
            }
        }
    }
    Ok(())
}
