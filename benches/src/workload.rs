//! What a workload is: a name, and how to prepare a job in an empty folder.
//!
//! Nothing here knows whether a job will be recorded; the job is the same command in all three cases.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::step::{Client, Step};

pub struct Workload {
    pub name: &'static str,
    /// In a few words, for `--list`.
    pub about: &'static str,
    /// Programs without which it is left out.
    pub needs: &'static [&'static str],
    pub prepare: fn(&Site) -> Result<Job>,
}

/// Where a job is prepared, and how big.
pub struct Site<'a> {
    /// Exists, is empty, and is the folder in which the job will run.
    pub folder: &'a Path,
    pub quick: bool,
    /// The command under test, for what only it knows (which calls it hooks).
    pub bis: &'a Path,
}

impl Site<'_> {
    /// A size: the first usually, the second with `--quick`.
    pub fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}

type Reset = Box<dyn Fn() -> Result<()>>;
type Check = Box<dyn Fn(&Step) -> Result<()>>;

/// A command that can be run again and again.
pub struct Job {
    pub argv: Vec<OsString>,
    /// How often it runs in one round; times are divided by it. For what is too short to be timed once.
    pub repeat: u32,
    /// How many of what it is about (calls, turns) one run makes, if that is worth a figure: the table then
    /// says how long one takes.
    pub units: Option<u64>,
    /// Standard output is the same in all runs, so recording must not change it.
    pub same_output: bool,
    /// Brings the folder to the state before a run.
    pub reset: Reset,
    /// Whether a run, native or recorded, did its work. The status was found to be 0 before.
    pub check: Check,
    /// Natively, it runs on one core: what is measured is what bis adds, not that it has threads take turns.
    pub on_one_core: bool,
    /// For servers.
    pub client: Option<Client>,
    /// What a reader of the figures should know.
    pub note: Option<String>,
}

impl Job {
    pub fn new<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Job {
        Job {
            argv: argv.into_iter().map(Into::into).collect(),
            repeat: 1,
            units: None,
            same_output: true,
            on_one_core: false,
            reset: Box::new(|| Ok(())),
            check: Box::new(|_| Ok(())),
            client: None,
            note: None,
        }
    }

    pub fn units(self, units: u64) -> Job {
        Job { units: Some(units), ..self }
    }

    pub fn on_one_core(self) -> Job {
        Job { on_one_core: true, ..self }
    }

    /// The command as it is to run natively.
    pub fn native_argv(&self) -> Vec<OsString> {
        let pin = ["taskset", "-c", "0"].map(OsString::from);
        let pin = pin.into_iter().filter(|_| self.on_one_core);
        pin.chain(self.argv.iter().cloned()).collect()
    }

    pub fn reset(self, reset: impl Fn() -> Result<()> + 'static) -> Job {
        Job { reset: Box::new(reset), ..self }
    }

    pub fn check(self, check: impl Fn(&Step) -> Result<()> + 'static) -> Job {
        Job { check: Box::new(check), ..self }
    }
}

/// Where a program is, as a shell finds it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(runs)
}
