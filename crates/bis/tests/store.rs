//! What traces share: files that programs map are in one store for all traces, and a file that is known is
//! not read again. Each trial has a home of its own, so a store and caches of its own.
//!
//! What is tried: the second recording reads and copies nothing; whatever changes a file, also what its times
//! do not tell, is replayed as it was; a damaged entry; removing, moving and copying; recorders and `bis rm`
//! at the same time; recorders that are killed; a full disk, and a filesystem whose files cannot be linked to
//! (both need root, for a mount).

mod common;

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use common::{Folder, Step};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// Times that are older than two seconds prove something; and a bit.
const SETTLED: Duration = Duration::from_millis(2300);

/// Set in the process that has a mount namespace of its own.
const INSIDE: &str = "BIS_TEST_STORE_INSIDE";

/// Large enough that reading it shows.
const LARGE: usize = 48 << 20;

type Run = fn(&Home) -> Result<(), Failed>;

const TRIALS: [(&str, Run, bool); 10] = [
    ("the_second_reads_nothing", the_second_reads_nothing, false),
    ("changed_with_its_time_set_back", changed_with_its_time_set_back, false),
    ("stored_through_a_mapping", stored_through_a_mapping, false),
    ("damaged", damaged, false),
    ("copy_damaged", copy_damaged, false),
    ("removed_and_moved", removed_and_moved, false),
    ("many_at_once", many_at_once, false),
    ("killed", killed, false),
    ("full_disk", full_disk, true),
    ("without_links", without_links, true),
];

fn main() {
    if env::var_os(INSIDE).is_none() && rustix::process::geteuid().is_root() {
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "--propagation", "private", "--"]).args(env::args_os()).env(INSIDE, "1");
        // It only comes back if it failed; then mounting is not tried.
        println!("failed to have a mount namespace: {}", inside.exec());
    }
    let can_mount = env::var_os(INSIDE).is_some();
    if !can_mount {
        println!("ignored: what needs a mount: it needs root");
    }
    let trial = |(name, run, mounts): &(&'static str, Run, bool)| {
        let (name, run) = (*name, *run);
        let body = move || {
            common::repeated(|| {
                let home = Home::new(name)?;
                run(&home)?;
                home.folder.done();
                Ok(())
            })
        };
        Trial::test(name, body).with_ignored_flag(*mounts && !can_mount)
    };
    libtest_mimic::run(&common::arguments(), TRIALS.iter().map(trial).collect()).exit();
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(why().into()) }
}

/// A user's folder, with the guests in it.
struct Home {
    folder: Folder,
    maps: PathBuf,
    /// Where the traces are; none: where they are by default.
    traces: Option<PathBuf>,
}

impl Home {
    fn new(name: &str) -> Result<Home, Failed> {
        let folder = Folder::new(&format!("store-{name}"))?;
        let maps = folder.path().join("maps");
        common::compile(&common::tree().join("tests/store/maps.c"), &maps)?;
        Ok(Home { folder, maps, traces: None })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn traces(&self) -> PathBuf {
        self.traces.clone().unwrap_or_else(|| self.path(".local/share/bis"))
    }

    fn store(&self) -> PathBuf {
        self.traces().join("store")
    }

    /// A file of that content, whose times are old enough.
    fn file(&self, name: &str, first: u8, len: usize) -> Result<PathBuf, Failed> {
        let path = self.path(name);
        let mut content: Vec<u8> = (0..len).map(|at| (at / 4096 % 251) as u8).collect();
        (content[0], content[len - 1]) = (first, b'!');
        fs::write(&path, content)?;
        thread::sleep(SETTLED);
        Ok(path)
    }

    fn bis(&self, words: &[&OsStr]) -> Command {
        let mut command = common::command(common::bis(), self.folder.path());
        if let Some(traces) = &self.traces {
            command.env("BIS_TRACES", traces);
        }
        command.args(words);
        command
    }

    /// Records the guest with these files; the trace is `maps-NUMBER`.
    fn record(&self, files: &[&Path]) -> Result<Step, Failed> {
        let mut record = self.bis(&["record", "--"].map(OsStr::new));
        record.arg(&self.maps).args(files);
        let step = common::run(record, "record", self.folder.path(), None, LIMIT)?;
        ensure(step.status == 0, || step.shown())?;
        Ok(step)
    }

    fn trace(&self, number: u32) -> PathBuf {
        self.traces().join(format!("maps-{number}"))
    }

    fn replays(&self, number: u32, recorded: &Step) -> Result<(), Failed> {
        common::replay_and_compare(&self.trace(number), recorded, self.folder.path(), LIMIT).map(drop)
    }

    fn says(&self, words: &[&str]) -> Result<String, Failed> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let step = common::run(
            self.bis(&words),
            words[0].to_str().unwrap_or("bis"),
            self.folder.path(),
            None,
            LIMIT,
        )?;
        ensure(step.status == 0, || step.shown())?;
        Ok(String::from_utf8_lossy(&step.stdout).into_owned())
    }
}

/// The files of a folder, by name, with the file that each is, its links, and its length.
fn files(folder: &Path) -> Result<Vec<(String, u64, u64, u64)>, Failed> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).map_err(|e| format!("failed to read {}: {e}", folder.display()))? {
        let (item, stat) = item.and_then(|item| item.metadata().map(|stat| (item, stat)))?;
        found.push((item.file_name().to_string_lossy().into_owned(), stat.ino(), stat.nlink(), stat.len()));
    }
    found.sort();
    Ok(found)
}

fn large(folder: &Path) -> Result<(String, u64, u64, u64), Failed> {
    let found = files(folder)?.into_iter().find(|(.., len)| *len == LARGE as u64);
    Ok(found.ok_or_else(|| format!("the large file is not in {}", folder.display()))?)
}

/// Bytes that a command, and what it waits for, has read by calls.
fn bytes_read(home: &Home, file: &Path) -> Result<u64, Failed> {
    let mut shell = common::command("sh", home.folder.path());
    shell.args(["-c", "\"$@\" >recorded.out && cat /proc/$$/io", "sh"]);
    shell.arg(common::bis()).args(["record", "--"]).arg(&home.maps).arg(file);
    let step = common::run(shell, "io", home.folder.path(), None, LIMIT)?;
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    let read = text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
    Ok(read.ok_or_else(|| step.shown())?)
}

fn the_second_reads_nothing(home: &Home) -> Result<(), Failed> {
    let file = home.file("large", b'a', LARGE)?;
    let first = bytes_read(home, &file)?;
    let second = bytes_read(home, &file)?;
    ensure(first > LARGE as u64 && second < 8 << 20, || {
        format!("{first} and then {second} bytes were read")
    })?;
    let [one, two] = [large(&home.trace(0).join("files"))?, large(&home.trace(1).join("files"))?];
    ensure(one == two && one.2 == 3, || format!("{one:?} is not shared with {two:?}"))?;
    let own = fs::metadata(home.trace(1).join("log"))?.len();
    ensure(own < 1 << 20, || format!("the log has {own} bytes"))?;
    let info = home.says(&["info", "maps-1"])?;
    let shared =
        info.lines().any(|line| line.contains("in the store, for other traces too") && line.contains("MiB"));
    ensure(shared && info.contains("beside that, of which 0 B for this trace alone"), || info)?;
    home.says(&["rm", "maps-0"])?;
    let info = home.says(&["info", "maps-1"])?;
    ensure(info.contains("in the store, for this trace alone"), || info)?;
    let recorded = fs::read(home.path("recorded.out"))?;
    let recorded = Step { status: 0, stdout: recorded, stderr: Vec::new(), took: LIMIT };
    home.replays(1, &recorded)
}

/// Length and time of modification are as they were.
fn changed_with_its_time_set_back(home: &Home) -> Result<(), Failed> {
    let file = home.file("data", b'a', 100_000)?;
    let modified = fs::metadata(&file)?.modified()?;
    home.record(&[&file])?;
    let before = home.record(&[&file])?;
    // In the middle: not in the first page, nor in the last one.
    let writer = fs::File::options().write(true).open(&file)?;
    writer.write_all_at(b"z", 4096 * 7)?;
    writer.set_modified(modified)?;
    drop(writer);
    thread::sleep(SETTLED);
    let after = home.record(&[&file])?;
    ensure(before.stdout != after.stdout, || after.shown())?;
    home.replays(1, &before)?;
    home.replays(2, &after)?;
    // Another file in its place, as old as it was.
    fs::copy(&file, home.path("other"))?;
    fs::File::options().write(true).open(home.path("other"))?.write_all_at(b"b", 0)?;
    fs::rename(home.path("other"), &file)?;
    fs::File::options().write(true).open(&file)?.set_modified(modified)?;
    let last = home.record(&[&file])?;
    ensure(last.stdout.starts_with(b"b"), || last.shown())?;
    home.replays(3, &last)
}

/// Another process that has a file mapped shared.
struct Holder {
    child: Child,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Holder {
    fn new(home: &Home, file: &Path) -> Result<Holder, Failed> {
        let holds = home.path("holds");
        common::compile(&common::tree().join("tests/store/holds.c"), &holds)?;
        let mut child = Command::new(holds).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let words = child.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Holder { child, words, answers })
    }

    fn store(&mut self, byte: char) -> Result<(), Failed> {
        writeln!(self.words, "{byte}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure(line == "stored\n", || format!("it said {line:?}"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stores to a page that is dirty already leave the file's times as they are.
fn stored_through_a_mapping(home: &Home) -> Result<(), Failed> {
    let file = home.file("data", b'a', 100_000)?;
    let mut holder = Holder::new(home, &file)?;
    holder.store('b')?;
    thread::sleep(SETTLED);
    let times = || fs::metadata(&file).map(|stat| (stat.mtime(), stat.mtime_nsec(), stat.ctime_nsec()));
    let before = times()?;
    let mut recorded = vec![home.record(&[&file])?];
    for byte in ['c', 'd'] {
        holder.store(byte)?;
        recorded.push(home.record(&[&file])?);
    }
    // Else this has not tried what it is for: the kernel has written the page back meanwhile.
    if times()? != before {
        println!("the stores have changed the file's times");
    }
    for (number, (step, first)) in (0..).zip(recorded.iter().zip(["b", "c", "d"])) {
        let text = String::from_utf8_lossy(&step.stdout);
        ensure(text.starts_with(first), || format!("{first} is not what it read: {text}"))?;
        home.replays(number, step)?;
    }
    Ok(())
}

fn damaged(home: &Home) -> Result<(), Failed> {
    let file = home.file("large", b'a', LARGE)?;
    home.record(&[&file])?;
    let recorded = home.record(&[&file])?;
    let entry = home.store().join(large(&home.store())?.0);
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o600))?;
    fs::File::options().write(true).open(&entry)?.write_all_at(&[0xff], LARGE as u64 / 2)?;
    // A trace that has it says so.
    let mut replay = home.bis(&["replay", "-a", "maps-1"].map(OsStr::new));
    replay.env("HOME", home.folder.path());
    let step = common::run(replay, "replay-damaged", home.folder.path(), None, LIMIT)?;
    ensure(step.status != 0 && step.stderr_text().contains("its content is another"), || step.shown())?;
    // And who records next gets another one.
    let again = home.record(&[&file])?;
    ensure(again.stdout == recorded.stdout, || again.shown())?;
    home.replays(2, &again)
}

/// A copy's files are nobody else's, and are not looked at before its replay diverges.
fn copy_damaged(home: &Home) -> Result<(), Failed> {
    let file = home.file("large", b'a', LARGE)?;
    home.record(&[&file])?;
    let copy = home.path("copy");
    let copied = Command::new("cp").arg("-r").arg(home.trace(0)).arg(&copy).status()?;
    ensure(copied.success(), || "failed to copy".into())?;
    let entry = copy.join("files").join(large(&copy.join("files"))?.0);
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o600))?;
    fs::File::options().write(true).open(&entry)?.write_all_at(b"b", 0)?;
    let mut replay = home.bis(&["replay", "-a"].map(OsStr::new));
    replay.arg(&copy).env("HOME", home.folder.path());
    let step = common::run(replay, "replay-damaged", home.folder.path(), None, LIMIT)?;
    let cause = format!(
        "likely cause: the trace is damaged: its file {}, the content of {}, is not what it was",
        entry.display(),
        file.display()
    );
    ensure(step.status != 0 && step.stderr_text().contains(&cause), || step.shown())
}

fn removed_and_moved(home: &Home) -> Result<(), Failed> {
    let file = home.file("large", b'a', LARGE)?;
    home.record(&[&file])?;
    let recorded = home.record(&[&file])?;
    // A copy has files of its own, and needs nothing; not even rights to write.
    let copy = home.path("copy");
    let copied = Command::new("cp").arg("-r").arg(home.trace(1)).arg(&copy).status()?;
    ensure(copied.success(), || "failed to copy".into())?;
    ensure(large(&copy.join("files"))?.2 == 1, || "the copy is a link".into())?;
    home.says(&["rm", "maps-0"])?;
    large(&home.store())?;
    home.replays(1, &recorded)?;
    let said = home.says(&["rm", "maps-1"])?;
    ensure(said.contains("that no trace needs from"), || said)?;
    let left = files(&home.store())?;
    ensure(left.iter().all(|(name, ..)| name == "swept"), || format!("{left:?} are left"))?;
    // In a loop, from the third time on nothing is copied.
    let mut inodes = Vec::new();
    for _ in 0..3 {
        let recorded = home.record(&[&file])?;
        inodes.push(large(&home.trace(0).join("files"))?.1);
        home.replays(0, &recorded)?;
        home.says(&["rm", "maps-0"])?;
    }
    ensure(inodes[1] == inodes[2], || format!("{inodes:?}"))?;
    let said = home.says(&["rm", "--all"])?;
    ensure(said.contains("removed") && !said.contains("left"), || said)?;
    fs::remove_file(&file)?;
    common::replay_and_compare(&copy, &recorded, home.folder.path(), LIMIT)?;
    // A trace of which the store knows nothing.
    let file = home.file("large", b'b', LARGE)?;
    let recorded = home.record(&[&file])?;
    fs::remove_dir_all(home.store())?;
    home.replays(0, &recorded)?;
    let packed = home.says(&["pack", "maps-0"])?;
    ensure(packed.contains("nothing new"), || packed)?;
    home.record(&[&file])?;
    let packed = home.says(&["pack", "maps-1"])?;
    ensure(packed.contains("copied") && large(&home.trace(1).join("files"))?.2 == 1, || packed)?;
    home.replays(1, &recorded)
}

/// Recorders that all need the same content, which one after the other is removed as it is not needed.
fn many_at_once(home: &Home) -> Result<(), Failed> {
    let (one, two) = (home.file("one", b'a', 3 << 20)?, home.path("two"));
    fs::copy(&one, &two)?;
    let run = |number: u32| -> Result<(), Failed> {
        for round in 0..4 {
            let trace = home.path(&format!("trace-{number}-{round}"));
            let logs = home.folder.sub(&format!("logs-{number}-{round}"))?;
            let mut record = home.bis(&["record", "-o"].map(OsStr::new));
            record.arg(&trace).arg("--").arg(&home.maps).args([&one, &two]);
            let step = common::run(record, "record", &logs, None, LIMIT)?;
            ensure(step.status == 0, || step.shown())?;
            common::replay_and_compare(&trace, &step, &logs, LIMIT)?;
            let mut rm = home.bis(&[OsStr::new("rm")]);
            rm.arg(&trace);
            let step = common::run(rm, "rm", &logs, None, LIMIT)?;
            ensure(step.status == 0, || step.shown())?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..4).map(|number| scope.spawn(move || run(number).map_err(|e| format!("{e:?}")))).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("it panicked".into())))
    })?;
    // What was needed again and again would stay.
    home.says(&["rm", "--all"])?;
    let left = files(&home.store())?;
    ensure(left.iter().all(|(name, ..)| name == "swept"), || format!("{left:?} are left"))
}

fn killed(home: &Home) -> Result<(), Failed> {
    let file = home.file("large", b'a', LARGE)?;
    let mut number = 0;
    for wait_ms in [5, 15, 25, 35, 50, 70, 90] {
        let mut record = home.bis(&["record", "--"].map(OsStr::new));
        record.arg(&home.maps).arg(&file);
        let mut running = common::start(record, &format!("killed-{wait_ms}"), home.folder.path(), None)?;
        thread::sleep(Duration::from_millis(wait_ms));
        running.kill();
        let _ = running.wait(LIMIT);
        while home.trace(number).exists() {
            number += 1;
        }
    }
    let recorded = home.record(&[&file])?;
    home.replays(number, &recorded)?;
    large(&home.store())?;
    thread::sleep(SETTLED + Duration::from_secs(1));
    home.says(&["rm", "--all"])?;
    let left = files(&home.store())?;
    ensure(left.iter().all(|(name, ..)| name == "swept"), || format!("{left:?} are left"))
}

/// Mounts, for this process and its children; it goes with the value.
struct Mounted(PathBuf);

impl Mounted {
    fn new(words: &[&OsStr], at: &Path) -> Result<Mounted, Failed> {
        fs::create_dir_all(at)?;
        let step = Command::new("mount").args(words).arg(at).output()?;
        ensure(step.status.success(), || String::from_utf8_lossy(&step.stderr).into_owned())?;
        Ok(Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What no trace needs makes room; and where there is none, it is said, and nothing is left in the store.
fn full_disk(home: &Home) -> Result<(), Failed> {
    let disk = home.path("disk");
    let _disk = Mounted::new(&["-t", "tmpfs", "-o", "size=24m", "tmpfs"].map(OsStr::new), &disk)?;
    let home = Home { traces: Some(disk), folder: Folder::new("store-full-home")?, maps: home.maps.clone() };
    let len = 9 << 20;
    let (one, two) = (home.file("one", b'a', len)?, home.file("two", b'b', len)?);
    home.record(&[&one])?;
    home.record(&[&two])?;
    // Without telling the store.
    fs::remove_dir_all(home.trace(0))?;
    let three = home.file("three", b'c', len)?;
    let recorded = home.record(&[&three])?;
    // It has got the number that was free.
    home.replays(0, &recorded)?;
    let four = home.file("four", b'd', len)?;
    let mut record = home.bis(&["record", "--"].map(OsStr::new));
    record.arg(&home.maps).arg(&four);
    let step = common::run(record, "record-full", home.folder.path(), None, LIMIT)?;
    ensure(step.status != 0 && step.stderr_text().contains("No space left"), || step.shown())?;
    home.replays(0, &recorded)?;
    thread::sleep(SETTLED + Duration::from_secs(1));
    home.says(&["rm", "--all"])?;
    let left = files(&home.store())?;
    ensure(left.iter().all(|(name, ..)| name == "swept"), || format!("{left:?} are left"))?;
    home.record(&[&four])?;
    home.folder.done();
    Ok(())
}

/// A folder mounted in another place is the same filesystem, over whose mounts nothing can be linked.
fn without_links(home: &Home) -> Result<(), Failed> {
    let (source, elsewhere) = (home.folder.sub("source")?, home.path("elsewhere"));
    let _mounted = Mounted::new(&[OsStr::new("--bind"), source.as_os_str()], &elsewhere)?;
    let file = home.file("large", b'a', LARGE)?;
    let record = |number: u32, traces: Option<&Path>| -> Result<(), Failed> {
        let trace = elsewhere.join(format!("maps-{number}"));
        let mut record = home.bis(&["record", "-o"].map(OsStr::new));
        if let Some(traces) = traces {
            record.env("BIS_TRACES", traces);
        }
        record.arg(&trace).arg("--").arg(&home.maps).arg(&file);
        let step = common::run(record, "record", home.folder.path(), None, LIMIT)?;
        ensure(step.status == 0, || step.shown())?;
        common::replay_and_compare(&trace, &step, home.folder.path(), LIMIT).map(drop)
    };
    record(0, None)?;
    record(1, None)?;
    let links = large(&elsewhere.join("maps-1/files"))?.2;
    ensure(links == 1, || format!("{links} links over a mount"))?;
    let info = home.says(&["info", &elsewhere.join("maps-1").to_string_lossy()])?;
    ensure(info.contains("copies") && !info.contains("in the store"), || info)?;
    let left = files(&home.store())?;
    ensure(left.is_empty(), || format!("{left:?} are in the store"))?;
    // Beside the traces there can be one.
    record(2, Some(&elsewhere))?;
    record(3, Some(&elsewhere))?;
    let links = large(&elsewhere.join("maps-3/files"))?.2;
    ensure(links == 3, || format!("{links} links in the store beside the traces"))
}
