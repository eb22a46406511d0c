//! Random walks through recordings, forwards and backwards: the same place must always show the same program.
//!
//! Each program of `tests/walks/` is recorded, in the modes that its first lines name, and a session walks
//! through it: steps, steps back, runs to breakpoints and watchpoints in both directions, jumps to events and
//! to places where it was before, and interrupts. At each stop the registers of all tasks and sums of all
//! memory that the program may write are compared with what was found under the same name before, in any walk
//! through the same recording. Some moves are tried together with their inverse.
//!
//! `BIS_WALKS=N` makes N walks of each program in each mode, with the seeds 1 to N (default: 6). A failure
//! names its trace, which is kept, and its seed: `BIS_WALK_TRACE=DIR BIS_WALK_SEED=N` walks there again, with
//! `BIS_WALK_PID=N` in another of its processes. `BIS_WALK_LOG=1` prints the moves, and `BIS_LOG` what the
//! session does.
//!
//! The lines `modes:`, `which: forked` (walk through the first child that was forked) and `short` (few moves:
//! each is slow) are looked for in the comments of a program.

#[path = "../common/mod.rs"]
mod common;
mod moves;
mod program;
mod state;
mod walk;
mod watchdog;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::Folder;
use libtest_mimic::{Failed, Trial};
use program::build;
use walk::{Facts, Plan, walk};
use watchdog::Watchdog;

const RECORD_LIMIT: Duration = Duration::from_secs(60);

/// Moves in a walk; and in one where each is slow.
const MOVES: usize = 14;
const MOVES_SHORT: usize = 5;

/// Walks of each recording where nothing else is asked for.
const WALKS: u64 = 6;

/// A mode in which the dynamic linker binds functions when they are called first. It saves the vector
/// registers on the stack then, by an `xsavec`, and what that writes depends on when the kernel has last
/// saved them, were it not for a hook behind it. In all others functions are bound when a program begins:
/// without hooks there is nothing behind it.
const LAZY: &str = "lazy";

fn main() {
    if let Ok(filter) = std::env::var("BIS_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let mut trials = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(&source).unwrap_or_default();
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let modes = word_after(&text, "modes:").unwrap_or("default").to_owned();
        for mode in modes.split_whitespace() {
            let (source, mode) = (source.clone(), mode.to_owned());
            trials.push(Trial::test(format!("{name}::{mode}"), move || trial(&source, &mode)));
        }
    }
    libtest_mimic::run(&common::arguments(), trials).exit();
}

fn sources() -> Vec<PathBuf> {
    let folder = common::tree().join("tests/walks");
    let mut sources: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    sources.sort();
    sources
}

/// What follows these words in a comment at the begin of a program.
fn word_after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.lines().take(6).find_map(|line| Some(line.split_once(words)?.1.trim()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn trial(source: &Path, mode: &str) -> Result<(), Failed> {
    let text = fs::read_to_string(source)?;
    let name = format!("walks-{}-{mode}", source.file_stem().unwrap_or_default().to_string_lossy());
    let folder = Folder::new(&name)?;
    let (argv, addresses) = match build(source, folder.path())? {
        Ok(built) => built,
        Err(missing) => {
            println!("{name}: not walked: there is no {missing} ({})", common::package_of(missing));
            folder.done();
            return Ok(());
        }
    };
    let kept = std::env::var_os("BIS_WALK_TRACE").map(PathBuf::from);
    let trace = kept.clone().unwrap_or_else(|| folder.path().join("trace"));
    if kept.is_none() {
        let extra: &[&str] = match mode {
            "no-hooks" => &["--no-hooks"],
            "software" => &["--ticks=software"],
            _ => &[],
        };
        let words: Vec<&OsStr> = argv.iter().map(AsRef::as_ref).collect();
        let mut record = common::record_command(&trace, extra, &words, folder.path());
        if mode != LAZY {
            record.env("LD_BIND_NOW", "1");
        }
        let step = common::run(record, "record", folder.path(), None, RECORD_LIMIT)?;
        if step.status != 0 {
            return Err(format!("the recording ends with status {}\n{}", step.status, step.shown()).into());
        }
    }
    let seeds = match number("BIS_WALK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("BIS_WALKS").unwrap_or(WALKS),
    };
    let moves = if text.lines().take(6).any(|line| line.ends_with("short")) { MOVES_SHORT } else { MOVES };
    let is_forked = word_after(&text, "which:") == Some("forked");
    let plan = Plan { trace: &trace, is_forked, addresses: &addresses, moves };
    // Walks go on after one that has failed, where many were asked for.
    let mut failures = Vec::new();
    let count = seeds.end - seeds.start;
    let (began, mut done) = (Instant::now(), 0);
    let mut facts = Facts::default();
    if mode == "no-hooks" {
        // Without hooks, `cpuid` is the processor's own where it cannot be trapped: it says which processor
        // it is.
        let mut one = rustix::thread::CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        let _ = rustix::thread::sched_setaffinity(None, &one);
    }
    for seed in seeds {
        let watch = Watchdog::new(format!("{name}: seed {seed} hangs; the trace: {}", trace.display()));
        let mut log = String::new();
        let walked = walk(&plan, seed, &mut facts, &mut log, &watch);
        drop(watch);
        done += 1;
        if let Err(error) = walked {
            let again = format!("BIS_WALK_TRACE={} BIS_WALK_SEED={seed}", trace.display());
            failures.push(format!("{error}\nthe moves:\n{log}again: {again}, trial {name}"));
            if failures.len() as u64 >= number("BIS_WALK_FAILURES").unwrap_or(1) {
                break;
            }
        }
    }
    if count > WALKS {
        let (longest, what) = &facts.longest;
        println!(
            "{name}: {done} walks, {} failures, {} s; the longest move took {longest:.1?}: {what}",
            failures.len(),
            began.elapsed().as_secs()
        );
    }
    if failures.is_empty() {
        folder.done();
        return Ok(());
    }
    Err(failures.join("\n\n").into())
}
