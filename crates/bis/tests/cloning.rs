//! Large reads on filesystems that clone blocks: `tests/guests/files/clones.c` is recorded on btrfs and on
//! XFS, both in images that are mounted here, and replayed after all that it had read is gone. (And
//! `copies_many.c` and `clones_mapped.c`, which clone.)
//!
//! What is tried: that reads are cloned at all (and not with `--no-cloning`), with hooks and without; that
//! the trace is as good in another place, without cloning; and that a trace whose clones are missing, short
//! or damaged is refused with words that say so. The ordinary guests' driver runs the same guest where
//! nothing is cloned.
//!
//! It needs root, loop devices, and the tools that make both filesystems; without them its trials are
//! ignored, and it says why. The mounts are in a mount namespace of this process and go with it.

mod common;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs::{self, File},
    os::unix::{fs::FileExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use common::{Folder, Step};
use libtest_mimic::{Failed, Trial};

const STEP_LIMIT: Duration = Duration::from_secs(60);

/// mkfs.xfs makes nothing smaller than 300 MB. The image is sparse.
const IMAGE_BYTES: u64 = 1 << 30;

/// Set in the process that has a mount namespace of its own.
const INSIDE: &str = "BIS_TEST_CLONING_INSIDE";

/// Ways to record that clone, by name.
const WAYS: [(&str, &[&str]); 3] =
    [("replay", &[]), ("no_hooks", &["--no-hooks"]), ("checksum", &["--checksum"])];

type Check = fn(&Path) -> Result<(), Failed>;
type Run = Box<dyn Fn(&Path) -> Result<(), Failed> + Send>;

const CHECKS: [(&str, Check); 5] = [
    ("copies", copies),
    ("no_cloning", nothing_is_cloned),
    ("moved", moved),
    ("damaged", damaged),
    ("many", many),
];

fn main() {
    if env::var_os(INSIDE).is_none() && rustix::process::geteuid().is_root() {
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "--propagation", "private", "--"]).args(env::args_os()).env(INSIDE, "1");
        // It only comes back if it failed; then mounting will say why.
        println!("failed to have a mount namespace: {}", inside.exec());
    }
    let mounts = Folder::new("cloning").expect("failed to make a folder");
    let mut trials = Vec::new();
    for kind in ["btrfs", "xfs"] {
        let mounted = mount(kind, mounts.path());
        if let Err(why) = &mounted {
            println!("ignored: everything on {kind}: {why}");
        }
        let missing = mounted.is_err();
        let folder = Arc::new(mounted.unwrap_or_default());
        let mut add = |name: &str, run: Run| {
            let folder = Arc::clone(&folder);
            let trial = Trial::test(format!("{kind}::{name}"), move || common::repeated(|| run(&folder)));
            trials.push(trial.with_ignored_flag(missing));
        };
        for (name, flags) in WAYS {
            add(name, Box::new(move |folder| cloned(folder, flags)));
        }
        for (name, check) in CHECKS {
            add(name, Box::new(check));
        }
    }
    let conclusion = libtest_mimic::run(&common::arguments(), trials);
    for program in BUILT.lock().unwrap_or_else(PoisonError::into_inner).values() {
        let _ = fs::remove_file(program);
    }
    for mounted in ["btrfs", "xfs", "btrfs.tmpfs", "xfs.tmpfs"].map(|name| mounts.path().join(name)) {
        let _ = Command::new("umount").arg(mounted).stderr(std::process::Stdio::null()).status();
    }
    if !conclusion.has_failed() {
        mounts.done();
    }
    conclusion.exit();
}

/// A new filesystem of this kind, mounted below `folder`; or why there is none.
fn mount(kind: &str, folder: &Path) -> Result<PathBuf, String> {
    let mkfs = format!("mkfs.{kind}");
    for program in ["gcc", "unshare", "mount", &mkfs] {
        if !common::installed(program) {
            let package = match program {
                "mkfs.btrfs" => "btrfs-progs",
                "mkfs.xfs" => "xfsprogs",
                other => common::package_of(other),
            };
            return Err(format!("{program} is not installed (apt-get install {package})"));
        }
    }
    if !rustix::process::geteuid().is_root() {
        return Err("mounting needs root".into());
    }
    if env::var_os(INSIDE).is_none() {
        return Err("there is no mount namespace for it".into());
    }
    // In memory: cloning brings what is dirty to the disk, and nothing here is about disks.
    let (memory, place) = (folder.join(format!("{kind}.tmpfs")), folder.join(kind));
    let image = memory.join("image");
    let failed = |e: std::io::Error| format!("failed to make an image: {e}");
    for place in [&memory, &place] {
        fs::create_dir(place).map_err(failed)?;
    }
    let make = |program: &str, words: &[&OsStr]| {
        let mut command = common::command(program, folder);
        let output = command.args(words).output().map_err(|e| format!("failed to start {program}: {e}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    };
    let word = OsStr::new;
    make("mount", &[word("-t"), word("tmpfs"), word("tmpfs"), memory.as_os_str()])?;
    File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).map_err(failed)?;
    make(&mkfs, &[word("-q"), image.as_os_str()])?;
    make("mount", &[word("-o"), word("loop,discard"), image.as_os_str(), place.as_os_str()])?;
    Ok(place)
}

/// Guests that were compiled, by name.
static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());

/// A guest of `tests/guests/files`, compiled once.
fn guest(name: &'static str) -> Result<PathBuf, Failed> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = built.get(name) {
        return Ok(program.clone());
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-pthread", "-Wall", "-o"]).arg(&program);
    let output = gcc.arg(common::tree().join(format!("tests/guests/files/{name}.c"))).output();
    let output = output.map_err(|e| format!("failed to start gcc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), || format!("failed to compile: {text}"))?;
    built.insert(name, program.clone());
    Ok(program)
}

/// A recording of the guest below `mounted`, whose files are overwritten and removed afterwards.
struct Recording {
    logs: Folder,
    place: PathBuf,
    trace: PathBuf,
    step: Step,
}

impl Recording {
    fn new(mounted: &Path, flags: &[&str]) -> Result<Recording, Failed> {
        Recording::of(mounted, flags, &[guest("clones")?.as_os_str()])
    }

    fn of(mounted: &Path, flags: &[&str], argv: &[&OsStr]) -> Result<Recording, Failed> {
        let logs = Folder::new("cloning-trial")?;
        let name = logs.path().file_name().ok_or("a folder without a name")?;
        let place = mounted.join(name);
        let (cwd, trace) = (place.join("cwd"), place.join("trace"));
        fs::create_dir_all(&cwd).map_err(|e| format!("failed to make {}: {e}", cwd.display()))?;
        let record = common::record_command(&trace, flags, argv, &cwd);
        let step = common::run(record, "record", logs.path(), None, STEP_LIMIT)?;
        if step.status != 0 {
            return Err(format!("record: exit status {}\n{}", step.status, step.shown()).into());
        }
        for entry in fs::read_dir(&cwd).into_iter().flatten().flatten() {
            let meta = entry.metadata()?;
            // The program's home is there, too, with what bis has learnt.
            if meta.is_file() {
                fs::write(entry.path(), vec![0; usize::try_from(meta.len())?])?;
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Recording { logs, place, trace, step })
    }

    /// The pieces of memory that events have as clones.
    fn pieces(&self) -> Result<u64, Failed> {
        let output = common::command(common::bis(), self.logs.path())
            .args(["dump", "--full"])
            .arg(&self.trace)
            .output()
            .map_err(|e| format!("failed to dump the trace: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter(|line| line.ends_with("of the clones")).count() as u64)
    }

    fn clones(&self) -> PathBuf {
        self.trace.join("clones")
    }

    /// What events have of memory is in the log, or, where it comes several times, in the blocks.
    fn content_len(&self) -> Result<u64, Failed> {
        let blocks = fs::metadata(self.trace.join("blocks")).map_or(0, |meta| meta.len());
        Ok(fs::metadata(self.trace.join("log"))?.len() + blocks)
    }

    fn replays(&self) -> Result<(), Failed> {
        common::replay_and_compare(&self.trace, &self.step, self.logs.path(), STEP_LIMIT).map(drop)
    }

    fn done(self) -> Result<(), Failed> {
        fs::remove_dir_all(&self.place)?;
        self.logs.done();
        Ok(())
    }
}

fn ensure(holds: bool, what: impl Fn() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// What the guest reads without a second process that writes, in whole blocks, takes at least so many pieces.
const PIECES_MIN: u64 = 60;

fn cloned(mounted: &Path, flags: &[&str]) -> Result<(), Failed> {
    let recording = Recording::new(mounted, flags)?;
    let pieces = recording.pieces()?;
    ensure(pieces >= PIECES_MIN, || format!("only {pieces} pieces were cloned"))?;
    recording.replays()?;
    recording.done()
}

fn nothing_is_cloned(mounted: &Path) -> Result<(), Failed> {
    let (copied, cloned) = (Recording::new(mounted, &["--no-cloning"])?, Recording::new(mounted, &[])?);
    ensure(copied.pieces()? == 0 && !copied.clones().exists(), || "it was cloned all the same".into())?;
    let (with, without) = (cloned.content_len()?, copied.content_len()?);
    ensure(with < without / 2, || format!("{with} bytes of log and blocks with clones, {without} without"))?;
    copied.replays()?;
    let short = Recording::of(mounted, &[], &[OsStr::new("true")])?;
    ensure(!short.clones().exists(), || "there is a file for clones, and nothing was cloned".into())?;
    short.done()?;
    copied.done()?;
    cloned.done()
}

/// Copied by ordinary means, to where nothing is cloned.
fn moved(mounted: &Path) -> Result<(), Failed> {
    let mut recording = Recording::new(mounted, &[])?;
    let there = recording.logs.path().join("trace");
    let status = Command::new("cp").arg("-a").arg(&recording.trace).arg(&there).status();
    ensure(status.is_ok_and(|status| status.success()), || "failed to copy the trace".into())?;
    recording.trace = there;
    fs::remove_dir_all(recording.place.join("trace"))?;
    recording.replays()?;
    recording.done()
}

fn damaged(mounted: &Path) -> Result<(), Failed> {
    let recording = Recording::new(mounted, &[])?;
    let clones = recording.clones();
    let refused = |what: &str| {
        let mut replay = common::command(common::bis(), recording.logs.path());
        replay.args(["replay", "-a"]).arg(&recording.trace);
        let step = common::run(replay, "refused", recording.logs.path(), None, STEP_LIMIT)?;
        ensure(step.status == 2 && step.stderr_text().contains(what), || {
            format!("not refused as {what:?}: exit status {}\n{}", step.status, step.shown())
        })
    };
    let file = File::options().read(true).write(true).open(&clones)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, 70_000)?;
    file.write_all_at(&[byte[0] ^ 1], 70_000)?;
    refused("the checksum is wrong")?;
    file.write_all_at(&byte, 70_000)?;
    recording.replays()?;
    file.set_len(file.metadata()?.len() / 2)?;
    refused("it ends before")?;
    fs::remove_file(&clones)?;
    refused("is missing")?;
    recording.done()
}

/// What `cp` does: the program itself clones its files; into some that are mapped, too.
fn copies(mounted: &Path) -> Result<(), Failed> {
    for name in ["copies_many", "clones_mapped"] {
        for flags in [&[][..], &["--no-hooks"], &["--checksum"]] {
            let program = guest(name)?;
            let recording = Recording::of(mounted, flags, &[program.as_os_str()])?;
            let said = String::from_utf8_lossy(&recording.step.stdout).into_owned();
            ensure(said.starts_with("cloned always\n"), || format!("{name} did not clone: {said}"))?;
            recording.replays()?;
            recording.done()?;
        }
    }
    Ok(())
}

/// Several processes at once, of which each reads a file of its own, and all one.
fn many(mounted: &Path) -> Result<(), Failed> {
    const SCRIPT: &str = "head -c 3000000 /dev/urandom > common
        for i in 1 2 3 4 5 6 7 8; do
          (head -c 2000000 /dev/urandom > own.$i
           for k in 1 2 3; do cat own.$i common | dd bs=1M status=none | cksum; cksum own.$i; done) &
        done
        wait";
    let argv = ["sh", "-c", SCRIPT].map(OsStr::new);
    let recording = Recording::of(mounted, &[], &argv)?;
    let pieces = recording.pieces()?;
    ensure(pieces >= PIECES_MIN, || format!("only {pieces} pieces were cloned"))?;
    recording.replays()?;
    recording.done()
}
