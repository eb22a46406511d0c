//! Runs the real programs of `tests/real/` natively, and recorded and replayed.
//!
//! Each `tests/real/<name>.sh` is in sections, which begin with a comment line of one word: `# setup` runs
//! natively in a fresh folder, once: each trial begins with a copy of it; `# record` is handed to `sh -c`,
//! and that is recorded; `# drive` runs natively beside it (a client for a server) and must succeed; `#
//! check` runs natively afterwards, with the recorded output in `$OUT` and `$ERR`. All but the recorded one
//! know this tree as `$TREE`. Before the sections, `# needs: PROGRAM...` names what must be installed; a
//! trial without it is ignored, and says which package brings it. `# source: PACKAGE` likewise names a source
//! package that `tests/real/sources.sh` fetches; it is in `$SOURCES/PACKAGE/`. `# needs hooks: REASON` leaves
//! out the trial without hooks. `# limit: SECONDS` is the time one step may take (else 180).
//!
//! Like `guests`, with the same names of modes; `tests/real/soak.sh` runs each many times.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::{Folder, Step};
use libtest_mimic::{Failed, Trial};

/// What runs before the recording, natively.
struct Setup {
    text: String,
    /// What it has made, in the folder `cwd` there.
    made: Mutex<Option<Folder>>,
}

impl Drop for Setup {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = made.take() {
            folder.done();
        }
    }
}

struct Real {
    name: String,
    needs: Vec<String>,
    source: Option<String>,
    /// Why it does not hold without hooks.
    needs_hooks: Option<String>,
    /// Why it does not hold natively.
    needs_bis: Option<String>,
    limit: Duration,
    setup: Setup,
    record: String,
    drive: Option<String>,
    check: String,
}

fn main() {
    let mut trials = Vec::new();
    for real in find(&common::tree().join("tests/real")) {
        let missing = real.missing();
        let real = Arc::new(real);
        let modes: [(&str, Option<&'static [&'static str]>); 3] =
            [("native", None), ("replay", Some(&[])), ("no_hooks", Some(&["--no-hooks"]))];
        for (mode, recorded) in modes {
            let name = format!("{}::{mode}", real.name);
            let needed = match mode {
                "native" => real.needs_bis.clone(),
                "no_hooks" => real.needs_hooks.clone(),
                _ => None,
            };
            let missing = missing.clone().or(needed);
            if let Some(why) = &missing {
                println!("ignored: {name}: {why}");
            }
            let real = Arc::clone(&real);
            let trial = Trial::test(name, move || common::repeated(|| real.run(recorded)));
            trials.push(trial.with_ignored_flag(missing.is_some()));
        }
    }
    assert!(trials.len() >= 20, "tests/real was not found or is nearly empty: {} trials", trials.len());
    libtest_mimic::run(&common::arguments(), trials).exit();
}

/// Where `tests/real/sources.sh` puts the source packages.
fn sources() -> PathBuf {
    common::tree().join("target/sources")
}

/// Scripts in the folder that are not programs to record.
const HELPERS: [&str; 2] = ["soak.sh", "sources.sh"];

fn find(root: &Path) -> Vec<Real> {
    let entries = fs::read_dir(root).unwrap_or_else(|e| panic!("failed to read {}: {e}", root.display()));
    let scripts = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut scripts: Vec<PathBuf> = scripts
        .filter(|path| path.extension() == Some(OsStr::new("sh")))
        .filter(|path| !HELPERS.iter().any(|helper| path.file_name() == Some(OsStr::new(helper))))
        .collect();
    scripts.sort();
    scripts.iter().map(|path| Real::read(path)).collect()
}

impl Real {
    fn read(path: &Path) -> Self {
        let text =
            fs::read_to_string(path).unwrap_or_else(|e| panic!("failed to read {}: {e}", path.display()));
        let section = |name: &str| -> Option<String> {
            let lines = text.lines().skip_while(|line| line.strip_prefix("# ") != Some(name)).skip(1);
            let end = |line: &&str| !["# setup", "# record", "# drive", "# check"].contains(line);
            text.lines()
                .any(|line| line.strip_prefix("# ") == Some(name))
                .then(|| lines.take_while(end).fold(String::new(), |all, line| all + line + "\n"))
        };
        let directive = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let required =
            |name: &str| section(name).unwrap_or_else(|| panic!("{}: no \"# {name}\"", path.display()));
        let limit = directive("# limit:").map_or(180, |text| {
            text.parse().unwrap_or_else(|_| panic!("{}: not a number of seconds: {text}", path.display()))
        });
        let needs = directive("# needs:").unwrap_or_default().split_whitespace();
        Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            needs: needs.chain(["bash"]).map(str::to_owned).collect(),
            source: directive("# source:").map(str::to_owned),
            needs_hooks: directive("# needs hooks:").map(str::to_owned),
            needs_bis: directive("# needs bis:").map(str::to_owned),
            limit: Duration::from_secs(limit),
            setup: Setup { text: section("setup").unwrap_or_default(), made: Mutex::default() },
            record: required("record").trim().to_owned(),
            drive: section("drive"),
            check: required("check"),
        }
    }

    /// Why this cannot run here.
    fn missing(&self) -> Option<String> {
        if let Some(program) = self.needs.iter().find(|program| !common::installed(program)) {
            return Some(format!("not installed (apt-get install {})", common::package_of(program)));
        }
        let source = self.source.as_ref().filter(|source| !sources().join(source).is_dir())?;
        Some(format!("the source package {source} is not there (tests/real/sources.sh fetches it)"))
    }

    /// Natively, or recorded with these flags and replayed.
    fn run(&self, recorded: Option<&[&str]>) -> Result<(), Failed> {
        let folder = Folder::new(&format!("real.{}", self.name))?;
        let (cwd, logs) = (folder.sub("cwd")?, folder.path());
        self.set_up(&cwd, logs)?;
        let trace = logs.join("trace");
        let argv: [&OsStr; 3] = ["sh".as_ref(), "-c".as_ref(), self.record.as_ref()];
        let subject = if let Some(flags) = recorded {
            common::record_command(&trace, flags, &argv, &cwd)
        } else {
            let mut command = common::command("sh", &cwd);
            command.args(&argv[1..]);
            command
        };
        let ran = self.subject(subject, &cwd, logs);
        let recorded = recorded.is_some();
        let ran = if recorded { ran.map_err(|e| common::explain(&e, &trace))? } else { ran? };
        if recorded {
            common::replay_and_compare(&trace, &ran, logs, self.limit)?;
        }
        folder.done();
        Ok(())
    }

    /// Copies what the setup has made, which the first trial that comes here lets it make.
    fn set_up(&self, cwd: &Path, logs: &Path) -> Result<(), Failed> {
        if self.setup.text.is_empty() {
            return Ok(());
        }
        let mut made = self.setup.made.lock().unwrap_or_else(PoisonError::into_inner);
        let from = match &*made {
            Some(folder) => folder.path().join("cwd"),
            None => {
                let folder = Folder::new(&format!("real.{}.setup", self.name))?;
                let from = folder.sub("cwd")?;
                self.script("setup", &self.setup.text, &from, folder.path())?;
                made.insert(folder).path().join("cwd")
            }
        };
        drop(made);
        let mut copy = common::command("cp", cwd);
        copy.arg("-a").arg(from.join(".")).arg(cwd);
        let step = common::run(copy, "copy", logs, None, self.limit)?;
        if step.status == 0 { Ok(()) } else { Err(step.shown().into()) }
    }

    /// The recorded part with what drives it, and the check of what it did.
    fn subject(&self, command: Command, cwd: &Path, logs: &Path) -> Result<Step, Failed> {
        let mut running = common::start(command, "subject", logs, None)?;
        if let Some(drive) = &self.drive
            && let Err(failure) = self.script("drive", drive, cwd, logs)
        {
            running.kill();
            let err = fs::read(logs.join("subject.err")).unwrap_or_default();
            let text = failure.message().unwrap_or("failed");
            return Err(format!("{text}\n--- the recorded program's stderr\n{}", common::tail(&err)).into());
        }
        let step = running.wait(self.limit)?;
        if step.status != 0 {
            return Err(format!("the program: exit status {}\n{}", step.status, step.shown()).into());
        }
        self.script("check", &self.check, cwd, logs)?;
        Ok(step)
    }

    /// Runs a section natively; every command in it must succeed.
    fn script(&self, what: &str, text: &str, cwd: &Path, logs: &Path) -> Result<(), Failed> {
        let mut bash = common::command("bash", cwd);
        bash.args(["-euo", "pipefail", "-c", text]);
        bash.env("OUT", logs.join("subject.out")).env("ERR", logs.join("subject.err"));
        bash.env("SOURCES", sources()).env("TREE", common::tree());
        // Go's library is built once for all tests.
        bash.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug/go"));
        let step = common::run(bash, what, logs, None, self.limit)?;
        match step.status {
            0 => Ok(()),
            status => Err(format!("{what}: exit status {status}\n{}", step.shown()).into()),
        }
    }
}
