//! Runs every guest of `tests/guests/` natively, recorded and replayed, also with software ticks, with memory
//! checksums, and with `--chaos`; those that make checkpoints, also by `bis run`, of which the end is
//! replayed.
//!
//! A guest is a file `tests/guests/<family>/<name>` with the ending `.c`, `.S`, `.sh` or `.py`; whatever lies
//! there is found, there is no list. It must end with its expected status, and its last line of output must
//! be `guest ok`. Comments in its first lines say what is special: `cflags:` (for gcc), `status:` (when not
//! 0), `needs:` (words: a program, `root`, or a path that must exist), `stdin:` (one line of input),
//! `unsummed:` (why it is not run with checksums: they read all memory at each event), `unstopped:` (calls
//! of which most are made in hooks), `calm:` (why it is not run with chaos), `hooked:` (why it is not run
//! without hooks), `steps:` (it is run with `--ticks=stepping`, too, compiled statically and with these
//! flags, which make it small: an instruction takes 25 µs). `hooked without cpuid_fault:` says why not where
//! the processor has no such flag. Those with chaos run only where `BIS_TEST_CHAOS` is set: chaos finds bugs
//! of bis, too, and not all of them are fixed. Trials are named
//! `family/name::mode`; `BIS_TEST_REPEAT=N` runs each N times.
//!
//! This file knows nothing of what a guest does; what is common to all drivers is in `common`.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use common::{Folder, Step};
use libtest_mimic::{Failed, Trial};

/// No guest takes more than a second natively; a step that takes this long hangs.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// One program, and what its first lines say about it.
struct Guest {
    source: PathBuf,
    /// `family/name`, without the ending.
    name: String,
    cflags: Vec<String>,
    status: i32,
    needs: Vec<String>,
    stdin: Option<Vec<u8>>,
    unsummed: Option<String>,
    calm: Option<String>,
    /// Flags for the program that is stepped; none: it is not.
    steps: Option<Vec<String>>,
    hooked: Option<String>,
    /// Calls of which most are made in hooks.
    unstopped: Vec<String>,
    /// It makes checkpoints of itself.
    has_checkpoints: bool,
    program: OnceLock<Result<PathBuf, String>>,
    small: OnceLock<Result<PathBuf, String>>,
}

#[derive(Clone, Copy)]
enum Mode {
    Native,
    Replay,
    NoHooks,
    Dense,
    Checksum,
    Chaos,
    Stepping,
    Live,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Replay => "replay",
            Self::NoHooks => "no_hooks",
            Self::Dense => "dense",
            Self::Checksum => "checksum",
            Self::Chaos => "chaos",
            Self::Stepping => "stepping",
            Self::Live => "live",
        }
    }
}

fn main() {
    let mut trials = Vec::new();
    let wanted = std::env::var_os("BIS_TEST_CHAOS").is_some();
    let unwanted = "with chaos, only if BIS_TEST_CHAOS is set".to_owned();
    for guest in find(&common::tree().join("tests/guests")) {
        let missing = guest.needs.iter().find_map(|need| unmet(need));
        let guest = Arc::new(guest);
        for mode in [
            Mode::Native,
            Mode::Replay,
            Mode::NoHooks,
            Mode::Dense,
            Mode::Checksum,
            Mode::Chaos,
            Mode::Stepping,
            Mode::Live,
        ] {
            let is_for_it = match mode {
                Mode::Stepping => guest.steps.is_some(),
                Mode::Live => guest.has_checkpoints,
                _ => true,
            };
            if !is_for_it {
                continue;
            }
            let name = format!("{}::{}", guest.name, mode.name());
            let unsummed = guest.unsummed.as_ref().filter(|_| matches!(mode, Mode::Checksum));
            let calm = if wanted { guest.calm.as_ref() } else { Some(&unwanted) };
            let calm = calm.filter(|_| matches!(mode, Mode::Chaos));
            let hooked = guest.hooked.as_ref().filter(|_| matches!(mode, Mode::NoHooks));
            let missing = missing.as_ref().or(unsummed).or(calm).or(hooked);
            if let Some(why) = missing.filter(|why| **why != unwanted) {
                println!("ignored: {name}: {why}");
            }
            let ignored = missing.is_some();
            let guest = Arc::clone(&guest);
            let trial = Trial::test(name, move || common::repeated(|| guest.run(mode)));
            trials.push(trial.with_ignored_flag(ignored));
        }
    }
    assert!(trials.len() > 100, "tests/guests was not found or is nearly empty: {} trials", trials.len());
    libtest_mimic::run(&common::arguments(), trials).exit();
}

/// Every guest below `root`, sorted by name.
fn find(root: &Path) -> Vec<Guest> {
    let mut guests = Vec::new();
    let families = fs::read_dir(root).unwrap_or_else(|e| panic!("failed to read {}: {e}", root.display()));
    for family in families.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()) {
        for entry in fs::read_dir(&family).into_iter().flatten().filter_map(Result::ok) {
            let source = entry.path();
            if matches!(source.extension().and_then(OsStr::to_str), Some("c" | "S" | "sh" | "py")) {
                guests.push(Guest::read(source));
            }
        }
    }
    guests.sort_by(|a, b| a.name.cmp(&b.name));
    guests
}

/// Why a `needs:` word is not met here.
fn unmet(need: &str) -> Option<String> {
    if need == "root" {
        return (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned());
    }
    if need.starts_with('/') {
        return (!Path::new(need).exists()).then(|| format!("{need} does not exist here"));
    }
    (!common::installed(need))
        .then(|| format!("not installed (apt-get install {})", common::package_of(need)))
}

/// Does the kernel say that it can make `cpuid` fault here?
fn has_cpuid_faulting() -> bool {
    static INFO: OnceLock<String> = OnceLock::new();
    let info = INFO.get_or_init(|| fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    info.split_whitespace().any(|word| word == "cpuid_fault")
}

impl Guest {
    fn read(source: PathBuf) -> Self {
        let text = fs::read_to_string(&source).unwrap_or_default();
        let directive = |key: &str| {
            text.lines().take(12).find_map(|line| {
                let comment = line.trim_start_matches(['/', '#', '*', ' ']);
                (comment.len() < line.len())
                    .then(|| comment.strip_prefix(key))
                    .flatten()
                    .map(|rest| rest.trim().to_owned())
            })
        };
        let words = |key: &str| -> Vec<String> {
            directive(key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let family =
            source.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut needs = words("needs:");
        match source.extension().and_then(OsStr::to_str) {
            Some("c" | "S") => needs.push("gcc".to_owned()),
            Some("py") => needs.push("python3".to_owned()),
            _ => needs.push("bash".to_owned()),
        }
        let status = directive("status:").map_or(0, |text| {
            text.parse().unwrap_or_else(|_| panic!("{}: not a status: {text}", source.display()))
        });
        Self {
            name: format!("{family}/{stem}"),
            cflags: words("cflags:"),
            status,
            needs,
            stdin: directive("stdin:").map(|line| format!("{line}\n").into_bytes()),
            unsummed: directive("unsummed:"),
            calm: directive("calm:"),
            steps: directive("steps:").map(|text| text.split_whitespace().map(str::to_owned).collect()),
            hooked: directive("hooked:")
                .or_else(|| directive("hooked without cpuid_fault:").filter(|_| !has_cpuid_faulting())),
            unstopped: words("unstopped:"),
            program: OnceLock::new(),
            has_checkpoints: text.contains("#include \"checkpoints.h\"") || text.contains("/checkpoints.h\""),
            small: OnceLock::new(),
            source,
        }
    }

    /// The file to run: the source itself for scripts, else what gcc made of it.
    fn program(&self) -> Result<&Path, Failed> {
        match self.program.get_or_init(|| self.build(&[])) {
            Ok(path) => Ok(path),
            Err(why) => Err(why.into()),
        }
    }

    /// The file to run, small enough to be stepped.
    fn small_program(&self) -> Result<&Path, Failed> {
        let build = || {
            let mut flags = vec!["-static".to_owned()];
            flags.extend(self.steps.iter().flatten().cloned());
            self.build(&flags)
        };
        match self.small.get_or_init(build) {
            Ok(path) => Ok(path),
            Err(why) => Err(why.into()),
        }
    }

    /// Compiles into the cache unless the result there is newer than the source and the header. The flags are
    /// part of the cached name.
    fn build(&self, more: &[String]) -> Result<PathBuf, String> {
        let cflags = [&self.cflags[..], more].concat();
        if !matches!(self.source.extension().and_then(OsStr::to_str), Some("c" | "S")) {
            return Ok(self.source.clone());
        }
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        let program =
            cache.join(format!("{}{}", self.name.replace('/', "."), cflags.concat().replace('/', "_")));
        let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let header = self.source.parent().and_then(Path::parent).map(|root| root.join("guest.h"));
        let newest =
            time(&self.source).max(header.as_deref().and_then(time)).unwrap_or(SystemTime::UNIX_EPOCH);
        if time(&program).is_some_and(|built| built > newest) {
            return Ok(program);
        }
        fs::create_dir_all(&cache).map_err(|e| format!("failed to make {}: {e}", cache.display()))?;
        // Under another name first: two drivers may run at once, and a half-written program must not be run.
        let fresh = cache.join(format!("{}.new{}", self.name.replace('/', "."), std::process::id()));
        let mut gcc = std::process::Command::new("gcc");
        gcc.args(["-O1", "-g", "-pthread", "-Wall", "-o"]).arg(&fresh).arg(&self.source).args(&cflags);
        let output = gcc.output().map_err(|e| format!("failed to start gcc: {e}"))?;
        if !output.status.success() {
            return Err(format!("failed to compile: {}", String::from_utf8_lossy(&output.stderr)));
        }
        fs::rename(&fresh, &program).map_err(|e| format!("failed to place {}: {e}", program.display()))?;
        Ok(program)
    }

    fn run(&self, mode: Mode) -> Result<(), Failed> {
        let program = if matches!(mode, Mode::Stepping) { self.small_program()? } else { self.program()? };
        let folder = Folder::new(&self.name)?;
        let cwd = folder.sub("cwd")?;
        let stdin = self.stdin.as_deref();
        // The same each time, and another for each guest.
        let seed = xxhash_rust::xxh3::xxh3_64(self.name.as_bytes()).to_string();
        let extra: &[&str] = match mode {
            Mode::Native => {
                let step =
                    common::run(common::command(program, &cwd), "native", folder.path(), stdin, STEP_LIMIT)?;
                self.check("native", &step)?;
                folder.done();
                return Ok(());
            }
            Mode::Replay => &[],
            Mode::NoHooks => &["--no-hooks"],
            Mode::Dense => &["--ticks=software"],
            Mode::Checksum => &["--checksum"],
            Mode::Chaos => &["--chaos", "--seed", &seed],
            Mode::Stepping => &["--ticks=stepping"],
            Mode::Live => &[],
        };
        let trace = folder.path().join("trace");
        let is_live = matches!(mode, Mode::Live);
        let record = if is_live { common::run_command } else { common::record_command };
        let record = record(&trace, extra, &[program.as_os_str()], &cwd);
        let recorded = common::run(record, "record", folder.path(), stdin, STEP_LIMIT)
            .and_then(|step| self.check("record", &step).map(|()| step))
            .map_err(|e| common::explain(&e, &trace))?;
        let replay = if is_live { common::replay_and_compare_ends } else { common::replay_and_compare };
        replay(&trace, &recorded, folder.path(), STEP_LIMIT)?;
        if matches!(mode, Mode::Replay) && !self.unstopped.is_empty() {
            self.check_stops(&trace, folder.path())?;
        }
        folder.done();
        Ok(())
    }

    /// At most a tenth of the calls that are said to be made in hooks has stopped its task.
    fn check_stops(&self, trace: &Path, logs: &Path) -> Result<(), Failed> {
        let mut info = common::command(common::bis(), logs);
        info.args(["info", "--stops", "--json"]).arg(trace);
        let told = common::run(info, "info", logs, None, STEP_LIMIT)?;
        let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
        for name in &self.unstopped {
            let call = told["calls"].as_array().into_iter().flatten().find(|call| call["name"] == **name);
            let times = |what: &str| call.and_then(|call| call[what].as_u64()).unwrap_or(0);
            let (traced, hooked) = (times("traced"), times("hooked"));
            if hooked == 0 || traced * 10 > traced + hooked {
                return Err(format!("{name}: {traced} times traced, {hooked} times made in a hook").into());
            }
        }
        Ok(())
    }

    /// The expected status, and `guest ok` as the last line.
    fn check(&self, what: &str, step: &Step) -> Result<(), Failed> {
        if step.status != self.status {
            return Err(format!(
                "{what}: exit status {}, not {}\n{}",
                step.status,
                self.status,
                step.shown()
            )
            .into());
        }
        if !(step.stdout == b"guest ok\n" || step.stdout.ends_with(b"\nguest ok\n")) {
            return Err(format!("{what}: the last line is not \"guest ok\"\n{}", step.shown()).into());
        }
        Ok(())
    }
}
