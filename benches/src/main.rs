//! `bis-bench`: how much slower programs are when they are recorded and replayed.
//!
//! It prepares whole workloads in a temporary folder, runs each natively, recorded and replayed, in turn, and
//! prints the medians of the ratios, what the traces weigh, and the peak of memory; with `--vs` another
//! recorder runs in the same turns. It knows nothing of how bis works: it only runs the command, so it
//! measures any build of it. It is not for functions (that would be a microbenchmark), and it never judges a
//! time: no test depends on one.
//!
//! How it measures, and why so:
//!
//! - *Interleaved.* A machine's speed drifts; a ratio is taken between neighbours in time (record of round i
//!   by native of round i), and the median over the rounds is shown with the least and the greatest.
//! - *A warm-up round*, which counts nowhere, fills caches and is the round in which results are compared:
//!   what the program wrote when it was replayed must be what it wrote when it was recorded.
//! - *Every run is checked.* A workload that failed, or whose result is wrong, is reported with its message
//!   and has no figures.
//! - *Memory in a round of its own*, because sampling it takes time.
//! - Before each timed run, what earlier ones wrote is brought to the disk, so that nobody pays for another.
//!
//! `bis-bench debug` is about something else: how long single commands take in a debugger ([`debug`]).
//!
//! Exit statuses: 0; 1 when a workload failed natively or with bis; 2 for a bad command line or when the
//! benchmark itself could not work.
#![forbid(unsafe_code)]

mod args;
mod debug;
mod json;
mod measure;
mod memory;
mod stats;
mod step;
mod subject;
mod table;
mod workload;
mod workloads;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::Parser;

use args::Args;
use measure::{Bench, Outcome};
use subject::Subject;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bis-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<ExitCode> {
    if let Some(args::Command::Debug(args)) = &args.command {
        return debug::run(args, &args.bis()?);
    }
    let all = workloads::all();
    if args.list {
        for workload in &all {
            println!("{:<16} {}", workload.name, workload.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = args.choose(&all)?;
    let bis = args.bis()?;
    let identity = identity(&bis)?;
    let (subjects, mut notes) = Subject::all(args, &bis)?;
    for note in &notes {
        eprintln!("bis-bench: {note}");
    }
    let folder = match &args.folder {
        Some(folder) => tempfile::Builder::new().prefix("bis-bench.").tempdir_in(folder),
        None => tempfile::Builder::new().prefix("bis-bench.").tempdir(),
    }
    .context("failed to make a temporary folder")?;
    let bench = Bench { bis: &bis, subjects: &subjects, args };
    let mut outcomes = Vec::new();
    for workload in chosen {
        let place = folder.path().join(workload.name);
        fs::create_dir(&place).with_context(|| format!("failed to make {}", place.display()))?;
        outcomes.push(bench.measure(workload, &place));
        if !args.keep {
            fs::remove_dir_all(&place).with_context(|| format!("failed to remove {}", place.display()))?;
        }
    }
    if self::identity(&bis)? != identity {
        let note = format!("{} was replaced meanwhile: the figures are of several builds", bis.display());
        eprintln!("bis-bench: {note}");
        notes.push(note);
    }
    print!("{}", table::render(&subjects, &outcomes));
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&json::report(args, &bis, &subjects, &notes, &outcomes))?;
        fs::write(file, text + "\n").with_context(|| format!("failed to write {}", file.display()))?;
    }
    if args.keep {
        eprintln!("bis-bench: everything is kept in {}", folder.keep().display());
    }
    Ok(if outcomes.iter().any(Outcome::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Changes when a program is built again: its inode, size and time.
fn identity(program: &Path) -> Result<(u64, u64, SystemTime)> {
    let read = || fs::metadata(program).and_then(|meta| Ok((meta.ino(), meta.len(), meta.modified()?)));
    read().with_context(|| format!("failed to look at {}", program.display()))
}
