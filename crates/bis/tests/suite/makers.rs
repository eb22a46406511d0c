//! Dense texts of large programs, which are made in the background: the next recording has them; and whatever
//! becomes of a maker, recordings go on, the cache is whole, and nobody stays behind. Each trial has a home
//! of its own, so a cache of its own.
//!
//! Makers take turns by the lock of a file. A trial that wants to meet one holds that lock.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Folder, Step},
    trial,
};
use bis_trace::types::Tid;
use bis_tracee::proc::Stat;
use libtest_mimic::{Failed, Trial};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};

const LIMIT: Duration = Duration::from_secs(120);

/// Makers run when nobody else does.
const MAKERS_MAX: Duration = Duration::from_secs(120);

type Run = fn(&Home) -> Result<(), Failed>;

const TRIALS: [(&str, Run); 6] = [
    ("the_next_recording_counts", the_next_recording_counts),
    ("nobody_waits", nobody_waits),
    ("killed", killed),
    ("many_at_once", many_at_once),
    ("the_folder_is_removed", the_folder_is_removed),
    ("no_room", no_room),
];

pub fn trials() -> Vec<Trial> {
    let trial = |(name, run): &(&'static str, Run)| {
        let (name, run) = (*name, *run);
        let body = move || {
            common::repeated(|| {
                let home = Home::new(name)?;
                let result = run(&home);
                home.kill_makers();
                result?;
                home.folder.done();
                Ok(())
            })
        };
        trial(module_path!(), name, body)
    };
    TRIALS.iter().map(trial).collect()
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(why().into()) }
}

/// Has any thread of the process its files open still? When the last one has closed them, the first one is
/// there alone, as a zombie: that may be one long before the others, which run when nobody else does.
fn holds_files(process: Pid) -> bool {
    let number = process.as_raw_nonzero().get();
    let state = Stat::of(Tid(number)).ok().and_then(|stat| stat.state());
    let threads = fs::read_dir(format!("/proc/{number}/task")).map_or(0, Iterator::count);
    state.is_some_and(|state| !matches!(state, 'Z' | 'X') || threads > 1)
}

/// A user's folder, with the guest in it.
struct Home {
    folder: Folder,
    wide: PathBuf,
}

impl Home {
    fn new(name: &str) -> Result<Home, Failed> {
        let folder = Folder::new(&format!("makers-{name}"))?;
        let wide = folder.path().join("wide");
        common::compile(&common::tree().join("tests/makers/wide.c"), &wide)?;
        Ok(Home { folder, wide })
    }

    fn texts(&self) -> PathBuf {
        self.folder.path().join(".cache/bis/dense")
    }

    fn trace(&self, number: u32) -> PathBuf {
        self.folder.path().join(format!(".local/share/bis/wide-{number}"))
    }

    fn bis(&self, words: &[&str]) -> Command {
        let mut command = common::command(common::bis(), self.folder.path());
        command.env_remove("BIS_TEXTS").args(words);
        command
    }

    fn record(&self, name: &str) -> Result<Step, Failed> {
        let mut record = self.bis(&["record", "--"]);
        record.arg(&self.wide);
        let step = common::run(record, name, self.folder.path(), None, LIMIT)?;
        ensure(step.status == 0, || step.shown())?;
        Ok(step)
    }

    /// How many pauses of a recording are known by a count.
    fn counted(&self, number: u32) -> Result<u32, Failed> {
        let trace = format!("wide-{number}");
        let step = common::run(self.bis(&["info", &trace]), "info", self.folder.path(), None, LIMIT)?;
        let text = String::from_utf8_lossy(&step.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("pauses "));
        let count = line.and_then(|line| match line.split_once('(') {
            Some((_, rest)) => rest.split(" known").next()?.replace(' ', "").parse().ok(),
            None => Some(0),
        });
        Ok(count.ok_or_else(|| step.shown())?)
    }

    /// The makers for this home.
    fn makers(&self) -> Vec<Pid> {
        let folder = self.texts();
        let is_one = |line: &[u8]| {
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            words.contains(&&b"make-texts"[..]) && words.contains(&folder.as_os_str().as_encoded_bytes())
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let found = processes.filter_map(|process| {
            let pid = process.file_name().to_string_lossy().parse().ok()?;
            let line = fs::read(process.path().join("cmdline")).ok()?;
            is_one(&line).then(|| Pid::from_raw(pid)).flatten()
        });
        found.collect()
    }

    /// Kills the makers, and waits until they have nothing open any more: they run when nobody else does, and
    /// so they end. Their locks are nobody's only then; their words are gone before.
    fn kill_makers(&self) {
        for maker in self.makers() {
            // It may be gone.
            let _ = kill_process(maker, Signal::KILL);
            let began = Instant::now();
            while holds_files(maker) && began.elapsed() < MAKERS_MAX {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Waits until nobody makes texts any more.
    fn idle(&self) -> Result<(), Failed> {
        let began = Instant::now();
        while !self.makers().is_empty() {
            ensure(began.elapsed() < MAKERS_MAX, || "a maker does not come to its end".into())?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Takes the turn of makers: they begin, and wait for it.
    fn take_turn(&self) -> Result<File, Failed> {
        fs::create_dir_all(self.texts())?;
        let turn = File::create(self.texts().join(".turn"))?;
        flock(&turn, FlockOperation::LockExclusive)?;
        Ok(turn)
    }

    /// The makers, as soon as there is one.
    fn maker(&self) -> Result<Vec<Pid>, Failed> {
        let began = Instant::now();
        loop {
            let makers = self.makers();
            if !makers.is_empty() {
                return Ok(makers);
            }
            ensure(began.elapsed() < LIMIT, || "nobody makes texts".into())?;
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The names in the folder that end so.
    fn names(&self, end: &str) -> Vec<String> {
        let items = fs::read_dir(self.texts()).into_iter().flatten().flatten();
        let names = items.map(|item| item.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(end)).collect()
    }

    /// Is the text of the guest itself, and not only of its libraries, there?
    fn has_wide(&self) -> bool {
        let is_large =
            |name: &String| fs::metadata(self.texts().join(name)).is_ok_and(|f| f.size() > 6 << 20);
        self.names(".text").iter().any(is_large)
    }

    fn replays(&self, number: u32, recorded: &Step) -> Result<(), Failed> {
        common::replay_and_compare(&self.trace(number), recorded, self.folder.path(), LIMIT).map(drop)
    }
}

fn the_next_recording_counts(home: &Home) -> Result<(), Failed> {
    let first = home.record("first")?;
    home.idle()?;
    ensure(home.has_wide(), || "the text was not made".into())?;
    let second = home.record("second")?;
    let counted = home.counted(1)?;
    ensure(counted > 3, || format!("{counted} pauses are known by a count"))?;
    ensure(home.makers().is_empty(), || "it is made again".into())?;
    home.replays(0, &first)?;
    home.replays(1, &second)?;
    // What is in the trace does not need the cache.
    let removed = common::run(home.bis(&["rm", "--cache"]), "rm", home.folder.path(), None, LIMIT)?;
    ensure(removed.status == 0 && home.names("").is_empty(), || removed.shown())?;
    home.replays(1, &second)
}

/// The recording ends though its texts are not made, and a maker has nothing of it.
fn nobody_waits(home: &Home) -> Result<(), Failed> {
    let turn = home.take_turn()?;
    let recorded = home.record("first")?;
    ensure(home.counted(0)? == 0, || "who has made the text?".into())?;
    let [maker] = home.maker()?[..] else { return Err("there are several makers".into()) };
    let proc = Path::new("/proc").join(maker.as_raw_nonzero().to_string());
    let stat = fs::read_to_string(proc.join("stat"))?;
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let own = maker.as_raw_nonzero().to_string();
    ensure(fields[2] == own && fields[3] == own, || format!("it is in a group of others: {stat}"))?;
    ensure(fs::read_link(proc.join("cwd"))? == Path::new("/"), || "it holds a folder".into())?;
    for number in 0..3 {
        let open = fs::read_link(proc.join("fd").join(number.to_string()))?;
        ensure(open == Path::new("/dev/null"), || format!("{number} is {}", open.display()))?;
    }
    home.replays(0, &recorded)?;
    drop(turn);
    home.idle()?;
    ensure(home.has_wide() && home.names(".lock").is_empty(), || "it was not made".into())
}

fn killed(home: &Home) -> Result<(), Failed> {
    let turn = home.take_turn()?;
    home.record("first")?;
    home.maker()?;
    home.kill_makers();
    drop(turn);
    home.idle()?;
    ensure(home.names(".text").is_empty(), || "who has made texts?".into())?;
    // Its locks are nobody's, so the next recording has the texts made. That maker is killed as it writes.
    for round in 0..4 {
        let turn = home.take_turn()?;
        home.record("again")?;
        home.maker()?;
        drop(turn);
        thread::sleep(Duration::from_millis(20 * round));
        home.kill_makers();
        home.idle()?;
        if home.has_wide() {
            break;
        }
    }
    let number = fs::read_dir(home.trace(0).parent().ok_or("no folder")?)?.count();
    home.record("last")?;
    home.idle()?;
    ensure(home.has_wide(), || "it was not made".into())?;
    let recorded = home.record("counts")?;
    // Beside the traces there are the store and the link.
    let last = u32::try_from(number - 2)? + 1;
    ensure(home.counted(last)? > 3, || "what was made is not used".into())?;
    home.replays(last, &recorded)
}

fn many_at_once(home: &Home) -> Result<(), Failed> {
    thread::scope(|scope| {
        let recordings: Vec<_> = (0..4)
            .map(|number| scope.spawn(move || home.record(&format!("one-{number}")).map(drop)))
            .collect();
        recordings.into_iter().try_for_each(|one| one.join().map_err(|_| Failed::from("it has panicked"))?)
    })?;
    home.idle()?;
    ensure(home.has_wide(), || "it was not made".into())?;
    ensure(home.names(".lock").is_empty(), || "a lock stays behind".into())?;
    let first_names = home.names("").into_iter().filter(|name| name.contains(".text.")).count();
    ensure(first_names == 0, || "what was half written stays behind".into())?;
    let recorded = home.record("then")?;
    ensure(home.counted(4)? > 3, || "what was made is not used".into())?;
    home.replays(4, &recorded)
}

fn the_folder_is_removed(home: &Home) -> Result<(), Failed> {
    let _turn = home.take_turn()?;
    let recorded = home.record("first")?;
    home.maker()?;
    fs::remove_dir_all(home.texts())?;
    home.idle()?;
    ensure(!home.texts().exists(), || "it is back".into())?;
    home.replays(0, &recorded)
}

/// The bound of the cache is below what the program needs: nothing that a next recording would remove again
/// is made.
fn no_room(home: &Home) -> Result<(), Failed> {
    let mut record = home.bis(&["record", "--"]);
    record.arg(&home.wide).env("BIS_CACHE_SIZE", "4M");
    let recorded = common::run(record, "small", home.folder.path(), None, LIMIT)?;
    ensure(recorded.status == 0, || recorded.shown())?;
    home.idle()?;
    ensure(!home.has_wide(), || "it was made".into())?;
    home.replays(0, &recorded)
}
