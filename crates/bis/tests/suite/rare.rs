//! Programs with rare bugs (`tests/rare/`): `bis record --chaos` finds each, and the recording of a failure
//! shows it again.
//!
//! For each program there are two trials. `found` records it with one seed after the other until it fails,
//! and replays that recording several times: the same output each time. Chaos does not choose all that
//! happens, so a bug that it finds in one run of twenty is looked for in up to [`RUNS_MAX`]; that it is
//! missed in all of them is as good as impossible, and says that chaos has become worse. `right` runs the
//! program by itself, where its bug hardly ever shows: it ends in one of the two ways that it has.
//!
//! How often a bug shows is not asserted: `tests/rare/rates.sh` measures it.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    common::{self, Folder, Step},
    trial,
};
use libtest_mimic::{Failed, Trial};

const STEP_LIMIT: Duration = Duration::from_secs(60);

/// In how many recordings a bug is looked for.
const RUNS_MAX: u32 = 400;

/// How often the recording of a failure is replayed.
const REPLAYS: u32 = 20;

struct Bug {
    source: PathBuf,
    name: String,
}

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut bugs: Vec<Bug> = fs::read_dir(common::tree().join("tests/rare"))
        .unwrap_or_else(|e| panic!("failed to read tests/rare: {e}"))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().and_then(OsStr::to_str) == Some("c"))
        .map(|source| {
            let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Bug { source, name }
        })
        .collect();
    bugs.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(bugs.len() >= 10, "tests/rare is nearly empty: {} programs", bugs.len());
    let missing = !common::installed("gcc");
    if missing {
        println!("ignored: everything: gcc is not installed (apt-get install gcc)");
    }
    for bug in bugs {
        let bug = Arc::new(bug);
        for (mode, run) in [("right", Bug::run_alone as fn(&Bug) -> _), ("found", Bug::find)] {
            let bug = Arc::clone(&bug);
            let name = format!("{}::{mode}", bug.name);
            trials.push(
                trial(module_path!(), name, move || common::repeated(|| run(&bug)))
                    .with_ignored_flag(missing),
            );
        }
    }
    trials
}

/// What a program says of its run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
}

impl Bug {
    fn build(&self, folder: &Path) -> Result<PathBuf, Failed> {
        let program = folder.join("program");
        common::compile(&self.source, &program)?;
        Ok(program)
    }

    fn run_alone(&self) -> Result<(), Failed> {
        let folder = Folder::new(&format!("rare.{}", self.name))?;
        let program = self.build(folder.path())?;
        let cwd = folder.sub("cwd")?;
        let step = common::run(common::command(&program, &cwd), "native", folder.path(), None, STEP_LIMIT)?;
        verdict("native", &step)?;
        folder.done();
        Ok(())
    }

    fn find(&self) -> Result<(), Failed> {
        let folder = Folder::new(&format!("rare.{}", self.name))?;
        let program = self.build(folder.path())?;
        let cwd = folder.sub("cwd")?;
        let trace = folder.path().join("trace");
        for seed in 1..=RUNS_MAX {
            let _ = fs::remove_dir_all(&trace);
            let seed = seed.to_string();
            let extra = ["--chaos", "--seed", &seed];
            let record = common::record_command(&trace, &extra, &[program.as_os_str()], &cwd);
            let recorded = common::run(record, "record", folder.path(), None, STEP_LIMIT)
                .and_then(|step| verdict("record", &step).map(|verdict| (step, verdict)))
                .map_err(|e| common::explain(&e, &trace));
            let (recorded, verdict) = recorded?;
            if verdict == Verdict::Wrong {
                for _ in 0..REPLAYS {
                    common::replay_and_compare(&trace, &recorded, folder.path(), STEP_LIMIT)?;
                }
                folder.done();
                return Ok(());
            }
        }
        folder.done();
        Err(format!("the bug did not show in {RUNS_MAX} recordings with --chaos").into())
    }
}

/// Right and 0, or wrong and 1; anything else is a failure of the program, or of bis.
fn verdict(what: &str, step: &Step) -> Result<Verdict, Failed> {
    let says = |text: &[u8]| step.stdout.split(|byte| *byte == b'\n').any(|line| line.starts_with(text));
    match step.status {
        0 if says(b"right: ") => Ok(Verdict::Right),
        1 if says(b"wrong: ") => Ok(Verdict::Wrong),
        status => Err(format!("{what}: exit status {status}\n{}", step.shown()).into()),
    }
}
