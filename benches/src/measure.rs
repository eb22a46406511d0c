//! The rounds: native, then record and replay of each subject, again and again, with a check after each run.
//!
//! A failure of a native run ends its workload; a failure of a subject ends only that subject's part in it,
//! so another recorder's failure costs none of our figures. A subject that failed has no figures at all, not
//! those of the rounds before.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::args::Args;
use crate::stats;
use crate::step::{Runner, Step};
use crate::subject::Subject;
use crate::workload::{Job, Site, Workload, find_program};

/// Everything that all workloads are measured with.
pub struct Bench<'a> {
    pub bis: &'a Path,
    pub subjects: &'a [Subject],
    pub args: &'a Args,
}

/// What came of one workload.
pub struct Outcome {
    pub name: &'static str,
    pub about: &'static str,
    pub state: State,
}

pub enum State {
    /// Something that it needs is not on this machine; says what.
    LeftOut(String),
    /// It could not be prepared, or failed natively.
    Failing(String),
    Measured(Figures),
}

/// The figures of one workload.
#[derive(Default)]
pub struct Figures {
    /// Of one run, in each round that counts.
    pub native_s: Vec<f64>,
    /// The greatest that was sampled, in bytes; none if it was not, or the run was too short to be seen.
    pub native_peak: Option<u64>,
    /// As [`Job::units`].
    pub units: Option<u64>,
    pub repeat: u32,
    pub note: Option<String>,
    /// Whether bis failed, with whatever flags.
    pub ours_failed: bool,
    /// In the order of the subjects; a failure with its message.
    pub subjects: Vec<Result<Pair, String>>,
}

/// One subject's figures.
#[derive(Default)]
pub struct Pair {
    pub record: Side,
    pub replay: Side,
    pub trace: Weight,
}

/// Recording, or replaying.
#[derive(Default)]
pub struct Side {
    /// Of one run, in each round that counts.
    pub seconds: Vec<f64>,
    /// By the native time of the same round.
    pub ratios: Vec<f64>,
    /// As [`Figures::native_peak`].
    pub peak: Option<u64>,
}

/// What one trace occupies on the disk, in bytes.
#[derive(Default, Clone, Copy)]
pub struct Weight {
    /// Files that are only this trace's.
    pub own: u64,
    /// Files that have further names: kept once for several traces. And blocks that files have in common
    /// (reflinks), where `filefrag` is installed to tell; else they are counted as the trace's own.
    pub shared: u64,
}

/// What one round is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The first: warms up, and compares what is replayed with what was recorded.
    Compare,
    /// Its times count.
    Count,
    /// Memory is sampled; its times do not count.
    Sample,
}

impl Outcome {
    /// Whether something failed for which bis may be blamed: another recorder's failures do not count.
    pub fn failed(&self) -> bool {
        match &self.state {
            State::LeftOut(_) => false,
            State::Failing(_) => true,
            State::Measured(figures) => figures.ours_failed,
        }
    }
}

impl Bench<'_> {
    /// Prepares the workload in `place`, an empty folder, and measures it.
    pub fn measure(&self, workload: &Workload, place: &Path) -> Outcome {
        let missing = workload.needs.iter().find(|program| find_program(program).is_none());
        let state = match missing {
            Some(program) => State::LeftOut(format!("{program} is not installed")),
            None => match self.rounds(workload, place) {
                Ok(figures) => State::Measured(figures),
                Err(error) => State::Failing(format!("{error:#}")),
            },
        };
        if let State::Failing(why) | State::LeftOut(why) = &state {
            eprintln!("{}: {why}", workload.name);
        }
        Outcome { name: workload.name, about: workload.about, state }
    }

    fn rounds(&self, workload: &Workload, place: &Path) -> Result<Figures> {
        let name = workload.name;
        let [folder, outputs, traces] = ["work", "outputs", "traces"].map(|part| place.join(part));
        for part in [&folder, &outputs, &traces] {
            fs::create_dir(part).with_context(|| format!("failed to make {}", part.display()))?;
        }
        eprintln!("{name}: preparing");
        let site = Site { folder: &folder, quick: self.args.quick, bis: self.bis };
        let job = (workload.prepare)(&site).context("failed to prepare it")?;
        let run = Run { job: &job, traces, runner: Runner { folder, outputs, limit: self.args.limit() } };
        let mut figures = Figures {
            units: job.units,
            repeat: job.repeat,
            note: job.note.clone(),
            subjects: self.subjects.iter().map(|_| Ok(Pair::default())).collect(),
            ..Figures::default()
        };
        let last = self.args.rounds();
        for number in 0..=last {
            eprintln!(
                "{name}: {}",
                if number == 0 { "warming up".into() } else { format!("round {number} of {last}") }
            );
            let round = if number == 0 { Round::Compare } else { Round::Count };
            self.round(name, &run, round, &mut figures)?;
        }
        if !self.args.no_memory {
            eprintln!("{name}: memory");
            self.round(name, &run, Round::Sample, &mut figures)?;
        }
        Ok(figures)
    }

    fn round(&self, name: &str, run: &Run, round: Round, figures: &mut Figures) -> Result<()> {
        let native = run.native(round).context("natively")?;
        match round {
            Round::Compare => {}
            Round::Count => figures.native_s.push(native.seconds),
            Round::Sample => figures.native_peak = native.peak,
        }
        for (subject, state) in self.subjects.iter().zip(&mut figures.subjects) {
            let Ok(pair) = state else { continue };
            if let Err(error) = run.both(subject, round, &native, pair) {
                let message = format!("{error:#}");
                eprintln!("{name}: {}: {message}", subject.name);
                *state = Err(message);
                figures.ours_failed |= subject.ours;
            }
        }
        Ok(())
    }
}

/// A job with the place in which it runs.
struct Run<'a> {
    job: &'a Job,
    traces: PathBuf,
    runner: Runner,
}

/// One run, or the mean of several in a row.
struct Taken {
    seconds: f64,
    peak: Option<u64>,
    /// Of each run.
    steps: Vec<Step>,
}

impl Taken {
    fn new(steps: Vec<Step>) -> Taken {
        let total: f64 = steps.iter().map(|step| step.took.as_secs_f64()).sum();
        let peak = steps.iter().filter_map(|step| step.peak_pss).max();
        Taken { seconds: total / steps.len() as f64, peak, steps }
    }
}

impl Run<'_> {
    fn native(&self, round: Round) -> Result<Taken> {
        self.settle()?;
        let mut steps = Vec::new();
        let argv = self.job.native_argv();
        for _ in 0..self.job.repeat {
            (self.job.reset)().context("failed to reset its folder")?;
            let step = self.runner.run(&argv, self.job.client.as_ref(), round == Round::Sample)?;
            let step = step.succeeded("it")?;
            (self.job.check)(&step).context("it did not do its work")?;
            steps.push(step);
        }
        Ok(Taken::new(steps))
    }

    /// Records and replays with one subject, and removes the traces unless something failed.
    fn both(&self, subject: &Subject, round: Round, native: &Taken, pair: &mut Pair) -> Result<()> {
        let recorded = self.record(subject, round, native).context("recording")?;
        let weight = weight(&self.trace(0))?;
        let replayed = self.replay(subject, round, &recorded).context("replaying")?;
        match round {
            Round::Compare => {}
            Round::Count => {
                pair.trace = weight;
                for (side, taken) in [(&mut pair.record, &recorded), (&mut pair.replay, &replayed)] {
                    side.seconds.push(taken.seconds);
                    side.ratios.push(taken.seconds / native.seconds);
                }
            }
            Round::Sample => (pair.record.peak, pair.replay.peak) = (recorded.peak, replayed.peak),
        }
        for number in 0..self.job.repeat {
            remove(&self.trace(number))?;
        }
        Ok(())
    }

    fn record(&self, subject: &Subject, round: Round, native: &Taken) -> Result<Taken> {
        self.settle()?;
        let mut steps = Vec::new();
        for number in 0..self.job.repeat {
            (self.job.reset)().context("failed to reset its folder")?;
            let trace = self.trace(number);
            remove(&trace)?;
            let argv = subject.record(&trace, &self.job.argv);
            let step = self.runner.run(&argv, self.job.client.as_ref(), round == Round::Sample)?;
            let step = step.succeeded("it")?;
            (self.job.check)(&step).context("it did not do its work")?;
            ensure!(
                !self.job.same_output || step.stdout == native.steps[0].stdout,
                "it wrote something else than natively: {}",
                difference(&native.steps[0].stdout, &step.stdout)
            );
            steps.push(step);
        }
        Ok(Taken::new(steps))
    }

    fn replay(&self, subject: &Subject, round: Round, recorded: &Taken) -> Result<Taken> {
        self.settle()?;
        let mut steps = Vec::new();
        let aloud = round == Round::Compare;
        for (number, recorded) in (0..self.job.repeat).zip(&recorded.steps) {
            let argv = subject.replay(&self.trace(number), aloud);
            let step = self.runner.run(&argv, None, round == Round::Sample)?.succeeded("it")?;
            if subject.ours && aloud {
                for (what, was, is) in [
                    ("standard output", &recorded.stdout, &step.stdout),
                    ("standard error", &recorded.stderr, &step.stderr),
                ] {
                    ensure!(was == is, "{what} is not what was recorded: {}", difference(was, is));
                }
            }
            steps.push(step);
        }
        Ok(Taken::new(steps))
    }

    fn trace(&self, number: u32) -> PathBuf {
        self.traces.join(number.to_string())
    }

    /// Brings to the disk what earlier runs wrote, so that it is not written while the next one is timed.
    fn settle(&self) -> Result<()> {
        let folder = File::open(&self.runner.folder).context("failed to open the folder")?;
        rustix::fs::syncfs(&folder).context("failed to bring written data to the disk")
    }
}

impl Figures {
    /// The median, in seconds.
    pub fn native(&self) -> Option<f64> {
        stats::median(&self.native_s)
    }

    /// What one trace weighs for each second of native time, in MB (10^6 bytes).
    pub fn trace_mb_per_s(&self, pair: &Pair) -> Option<f64> {
        Some(pair.trace.own as f64 / 1e6 / self.native()?)
    }

    /// How long one of its units takes, in seconds.
    pub fn each(&self, run_s: Option<f64>) -> Option<f64> {
        Some(run_s? / self.units? as f64)
    }
}

/// What a trace occupies; a trace of another recorder may be a folder or a file.
fn weight(path: &Path) -> Result<Weight> {
    let (mut weight, clones) = (Weight::default(), may_clone(path));
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let broken = || format!("failed to look at {}", path.display());
        let meta = fs::symlink_metadata(&path).with_context(broken)?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path).with_context(broken)? {
                left.push(entry.with_context(broken)?.path());
            }
        } else if meta.nlink() > 1 {
            weight.shared += meta.blocks() * 512;
        } else {
            let cloned = if clones { cloned_bytes(&path).min(meta.blocks() * 512) } else { 0 };
            weight.shared += cloned;
            weight.own += meta.blocks() * 512 - cloned;
        }
    }
    Ok(weight)
}

/// Whether files below `path` may have blocks in common: on btrfs and XFS.
fn may_clone(path: &Path) -> bool {
    const CLONING: [i64; 2] = [0x9123_683e, 0x5846_5342];
    rustix::fs::statfs(path).is_ok_and(|fs| CLONING.contains(&fs.f_type))
}

/// The bytes of a file's blocks that belong to other files, too.
fn cloned_bytes(file: &Path) -> u64 {
    let output = Command::new("filefrag").args(["-v", "-b512"]).arg(file).env("LC_ALL", "C").output();
    output.map_or(0, |output| shared_blocks(&String::from_utf8_lossy(&output.stdout)) * 512)
}

/// Of filefrag's table of extents, the lengths of those that are shared.
fn shared_blocks(table: &str) -> u64 {
    let extent = |line: &str| -> Option<u64> {
        let words: Vec<&str> = line.split(':').map(str::trim).collect();
        words.first()?.parse::<u64>().ok()?;
        let is_shared = words.last()?.split(',').any(|flag| flag == "shared");
        is_shared.then(|| words.get(3)?.parse().ok()).flatten()
    };
    table.lines().filter_map(extent).sum()
}

fn remove(trace: &Path) -> Result<()> {
    let gone = if trace.is_dir() { fs::remove_dir_all(trace) } else { fs::remove_file(trace) };
    match gone {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", trace.display()))
        }
        _ => Ok(()),
    }
}

/// The first line in which two outputs differ, for a message.
fn difference(was: &[u8], is: &[u8]) -> String {
    let (was, is) = (String::from_utf8_lossy(was), String::from_utf8_lossy(is));
    let same = was.lines().zip(is.lines()).take_while(|(was, is)| was == is).count();
    let line = |text: &str| text.lines().nth(same).map_or("nothing".into(), |line| format!("{line:?}"));
    format!("line {} was {}, is {}", same + 1, line(&was), line(&is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(b"a\nb\n", b"a\nc\n"), "line 2 was \"b\", is \"c\"");
        assert_eq!(difference(b"a\n", b"a\nc\n"), "line 2 was nothing, is \"c\"");
    }

    #[test]
    fn files_with_further_names_are_shared() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        fs::create_dir_all(trace.join("files")).unwrap();
        fs::write(trace.join("log"), vec![7; 100_000]).unwrap();
        fs::write(trace.join("files/a"), vec![7; 5_000]).unwrap();
        fs::hard_link(trace.join("files/a"), folder.path().join("store")).unwrap();
        for name in ["log", "files/a"] {
            File::open(trace.join(name)).unwrap().sync_all().unwrap();
        }
        let weight = weight(&trace).unwrap();
        let blocks = |name: &str| fs::metadata(trace.join(name)).unwrap().blocks() * 512;
        assert_eq!((weight.own, weight.shared), (blocks("log"), blocks("files/a")));
        assert!(weight.own > 0 && weight.own != weight.shared, "{} and {} bytes", weight.own, weight.shared);
    }

    #[test]
    fn shared_extents_are_told_apart() {
        let table = "Filesystem type is: 9123683e\n\
            File size of /x/clones is 1048576 (2048 blocks of 512 bytes)\n \
            ext:     logical_offset:        physical_offset: length:   expected: flags:\n   \
            0:        0..     511:      26624..     27135:    512:             shared\n   \
            1:      512..    1023:      30000..     30511:    512:      27136:\n   \
            2:     1024..    2047:      40000..     41023:   1024:      30512: last,shared,eof\n\
            /x/clones: 3 extents found\n";
        assert_eq!(shared_blocks(table), 1536);
        assert_eq!(shared_blocks(""), 0);
    }

    #[test]
    fn times_of_repeated_runs_are_divided() {
        let step = |milliseconds| Step {
            status: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            took: std::time::Duration::from_millis(milliseconds),
            peak_pss: Some(milliseconds),
        };
        let taken = Taken::new(vec![step(10), step(30)]);
        assert!((taken.seconds - 0.020).abs() < 1e-9);
        assert_eq!(taken.peak, Some(30));
    }
}
