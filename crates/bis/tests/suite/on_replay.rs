//! What a program did since one of its checkpoints is executed again while it waits (`bis record
//! --on-replay`). Each script `tests/on_replay/NAME.py` but `common.py` is a trial: it is called with bis,
//! the program `tests/on_replay/faulty.c`, and an empty folder, and ends with 0 where all is as it wants it.
//! `BIS_TEST_REPEAT=N` runs each N times.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    common::{self, Folder, tree},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Vec<Trial> {
    let folder = tree().join("tests/on_replay");
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|e| panic!("failed to read {}: {e}", folder.display()));
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_script = |path: &PathBuf| path.extension().is_some_and(|end| end == "py");
    let mut scripts: Vec<PathBuf> =
        files.filter(|path| is_script(path) && !path.ends_with("common.py")).collect();
    scripts.sort();
    assert!(scripts.len() > 3, "{}: {} scripts", folder.display(), scripts.len());
    let missing: Vec<&str> =
        ["gcc", "gdb", "python3"].into_iter().filter(|need| !common::installed(need)).collect();
    if !missing.is_empty() {
        println!("ignored: all of them: not installed: {}", missing.join(", "));
    }
    let trial = |script: PathBuf| {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let trial = trial(module_path!(), name.clone(), move || common::repeated(|| run(&name, &script)));
        trial.with_ignored_flag(!missing.is_empty())
    };
    scripts.into_iter().map(trial).collect()
}

fn run(name: &str, script: &Path) -> Result<(), Failed> {
    let folder = Folder::new(&format!("on_replay.{name}"))?;
    let program = folder.path().join("faulty");
    let source = tree().join("tests/on_replay/faulty.c");
    let built = Command::new("gcc").args(["-O1", "-g", "-Wall", "-o"]).arg(&program).arg(source).output()?;
    if !built.status.success() {
        return Err(format!("failed to compile: {}", String::from_utf8_lossy(&built.stderr)).into());
    }
    let mut command = common::command("python3", &folder.sub("cwd")?);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(script).arg(common::bis()).arg(&program).arg(folder.path());
    let step = common::run(command, name, folder.path(), None, LIMIT)?;
    if step.status != 0 {
        return Err(format!("{name}: status {}\n{}", step.status, step.shown()).into());
    }
    folder.done();
    Ok(())
}
