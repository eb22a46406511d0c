//! What the test drivers share: running one step (a command with a time limit, its output kept in files),
//! folders that stay when a test failed, and the record-then-replay sequence with its comparisons.
//!
//! It knows nothing of guests or of real programs; those are in the drivers themselves.

#![allow(dead_code, reason = "each driver is a crate of its own and uses a part of this")]

pub mod told;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

/// The command under test: `BIS_TEST_BIN`, else what cargo built for this test.
pub fn bis() -> PathBuf {
    std::env::var_os("BIS_TEST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_bis").into(), PathBuf::from)
}

/// The top of the source tree.
pub fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders down")
        .to_owned()
}

/// How one command ended and what it wrote.
pub struct Step {
    /// Exit code, or 128 + signal.
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub took: Duration,
}

impl Step {
    /// Both outputs, shortened to what is useful in a failure message.
    pub fn shown(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", tail(&self.stdout), tail(&self.stderr))
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A folder for one trial. It is removed when the trial passes ([`Folder::done`]) and stays otherwise.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Self, Failed> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "{}-{}-{}",
            name.replace('/', "."),
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trials").join(unique);
        fs::create_dir_all(&path).map_err(|e| format!("failed to make {}: {e}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A new, empty folder inside.
    pub fn sub(&self, name: &str) -> Result<PathBuf, Failed> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).map_err(|e| format!("failed to make {}: {e}", path.display()))?;
        Ok(path)
    }

    /// Removes everything, with help for folders that the program left without permissions.
    pub fn done(self) {
        if fs::remove_dir_all(&self.0).is_err() {
            let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.0).stderr(Stdio::null()).status();
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// The last 3000 bytes, as text.
pub fn tail(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(3000);
    let mut text = String::from_utf8_lossy(&bytes[from..]).into_owned();
    if from > 0 {
        text.insert_str(0, "[...]");
    }
    text
}

pub fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A command in the small, known environment that all steps run in; its home is its current folder.
pub fn command(program: impl AsRef<std::ffi::OsStr>, cwd: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(cwd);
    command.env("PATH", path());
    command.env("HOME", cwd).env("LANG", "C.UTF-8").env("TERM", "dumb").env("TMPDIR", "/tmp");
    // What is made in the background would be for a cache that goes with the trial.
    command.env("BIS_TEXTS", "wait");
    for name in ["BIS_LOG", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Starts the command in a process group of its own, its outputs going to `name.out` and `name.err` in
/// `logs`.
pub fn start(mut command: Command, name: &str, logs: &Path, stdin: Option<&[u8]>) -> Result<Running, Failed> {
    let file = |suffix: &str| {
        let path = logs.join(format!("{name}.{suffix}"));
        File::create(&path).map_err(|e| format!("failed to create {}: {e}", path.display()))
    };
    command.stdout(file("out")?).stderr(file("err")?).process_group(0);
    match stdin {
        None => command.stdin(Stdio::null()),
        Some(text) => {
            let path = logs.join(format!("{name}.in"));
            fs::write(&path, text).map_err(|e| format!("failed to write {}: {e}", path.display()))?;
            command.stdin(File::open(&path).map_err(|e| format!("failed to open {}: {e}", path.display()))?)
        }
    };
    let began = Instant::now();
    let child = command.spawn().map_err(|e| format!("failed to start {command:?}: {e}"))?;
    Ok(Running { child, name: name.to_owned(), logs: logs.to_owned(), began })
}

/// A step that has been started; [`Running::wait`] ends it.
pub struct Running {
    child: Child,
    name: String,
    logs: PathBuf,
    began: Instant,
}

impl Running {
    /// Waits until the command ends. After `limit` its process group is killed, and that is the failure.
    pub fn wait(mut self, limit: Duration) -> Result<Step, Failed> {
        let mut pause = Duration::from_millis(1);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if self.began.elapsed() < limit => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Ok(None) => {
                    self.kill();
                    let step = self.collect(137);
                    return Err(format!(
                        "{}: no end after {} s\n{}",
                        self.name,
                        limit.as_secs(),
                        step.shown()
                    )
                    .into());
                }
                Err(e) => return Err(format!("{}: failed to wait: {e}", self.name).into()),
            }
        };
        self.note_time();
        Ok(self.collect(code_of(status)))
    }

    /// Where `BIS_TEST_TIMES` names a file: adds a line with the milliseconds that the step took, its name,
    /// and its trial's folder. This says what to look at when the tests take too long.
    fn note_time(&self) {
        let Some(path) = std::env::var_os("BIS_TEST_TIMES") else { return };
        let line = format!("{} {} {}\n", self.began.elapsed().as_millis(), self.name, self.logs.display());
        let file = File::options().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()));
        written.unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Has it ended? Then it is reaped.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the whole process group and reaps its leader.
    pub fn kill(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }

    fn collect(&self, status: i32) -> Step {
        let read =
            |suffix: &str| fs::read(self.logs.join(format!("{}.{suffix}", self.name))).unwrap_or_default();
        Step { status, stdout: read("out"), stderr: read("err"), took: self.began.elapsed() }
    }
}

/// Compiles one C program.
pub fn compile(source: &Path, program: &Path) -> Result<(), Failed> {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-pthread", "-Wall", "-Wextra", "-o"]).arg(program).arg(source);
    let output = gcc.output().map_err(|e| format!("failed to start gcc: {e}"))?;
    if !output.status.success() {
        return Err(format!("failed to compile: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}

/// [`start`] and [`Running::wait`] in one.
pub fn run(
    command: Command,
    name: &str,
    logs: &Path,
    stdin: Option<&[u8]>,
    limit: Duration,
) -> Result<Step, Failed> {
    start(command, name, logs, stdin)?.wait(limit)
}

/// `bis record -o trace [extra] -- argv`, in `cwd`.
pub fn record_command(trace: &Path, extra: &[&str], argv: &[&std::ffi::OsStr], cwd: &Path) -> Command {
    let mut record = command(bis(), cwd);
    // Some leave processes that end after them.
    record.args(["record", "--wait"]).args(extra).arg("-o").arg(trace).arg("--").args(argv);
    record
}

/// `bis run -o trace -- argv`, in `cwd`.
pub fn run_command(trace: &Path, extra: &[&str], argv: &[&std::ffi::OsStr], cwd: &Path) -> Command {
    let mut run = command(bis(), cwd);
    run.args(["run", "--wait"]).args(extra).arg("-o").arg(trace).arg("--").args(argv);
    run
}

/// Replays `trace` and compares both outputs with those of the recorded run.
pub fn replay_and_compare(
    trace: &Path,
    recorded: &Step,
    logs: &Path,
    limit: Duration,
) -> Result<Step, Failed> {
    replay_and_see(trace, recorded, logs, limit, |then, now| then == now)
}

/// As [`replay_and_compare`], for a run that was recorded from somewhere in the middle on.
pub fn replay_and_compare_ends(
    trace: &Path,
    recorded: &Step,
    logs: &Path,
    limit: Duration,
) -> Result<Step, Failed> {
    replay_and_see(trace, recorded, logs, limit, |then, now| then.ends_with(now))
}

fn replay_and_see(
    trace: &Path,
    recorded: &Step,
    logs: &Path,
    limit: Duration,
    is_as_it_was: fn(&[u8], &[u8]) -> bool,
) -> Result<Step, Failed> {
    let mut replay = command(bis(), logs);
    replay.arg("replay").arg("-a").arg(trace);
    let step = run(replay, "replay", logs, None, limit).map_err(|e| explain(&e, trace))?;
    let mut wrong = String::new();
    if step.status != 0 {
        let _ = writeln!(wrong, "replay: exit status {}", step.status);
    }
    for (what, then, now) in
        [("stdout", &recorded.stdout, &step.stdout), ("stderr", &recorded.stderr, &step.stderr)]
    {
        if !is_as_it_was(then, now) {
            let _ = writeln!(
                wrong,
                "replay: {what} is not what the recorded run wrote\n{}",
                difference(then, now)
            );
        }
    }
    if wrong.is_empty() {
        return Ok(step);
    }
    let _ = write!(wrong, "{}", step.shown());
    Err(explain(&wrong.into(), trace))
}

/// Adds to a failure the command by which a person looks at it.
pub fn explain(failure: &Failed, trace: &Path) -> Failed {
    let text = failure.message().unwrap_or("failed");
    format!("{text}\nthe trace was kept: {} replay -a {}", bis().display(), trace.display()).into()
}

/// Where two outputs begin to differ, with the line of each.
fn difference(then: &[u8], now: &[u8]) -> String {
    let same = then.iter().zip(now).take_while(|(a, b)| a == b).count();
    let line = |bytes: &[u8]| {
        let start = bytes[..same].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let end = bytes[same..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |at| same + at);
        String::from_utf8_lossy(&bytes[start..end.min(start + 300)]).into_owned()
    };
    format!(
        "  they differ from byte {same} (of {} recorded, {} replayed)\n  recorded: {:?}\n  replayed: {:?}",
        then.len(),
        now.len(),
        line(then),
        line(now)
    )
}

/// How often each trial runs: `BIS_TEST_REPEAT`, else once.
pub fn repeats() -> u32 {
    std::env::var("BIS_TEST_REPEAT").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// Runs a trial's body as often as [`repeats`] says; a failure names the round.
pub fn repeated(body: impl Fn() -> Result<(), Failed>) -> Result<(), Failed> {
    let count = repeats();
    for round in 1..=count {
        body().map_err(|failure| match count {
            1 => failure,
            _ => Failed::from(format!("round {round} of {count}: {}", failure.message().unwrap_or("failed"))),
        })?;
    }
    Ok(())
}

/// The steps' `PATH`. Go's own installer puts it where nothing else is.
const FOLDERS: [&str; 7] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/go/bin"];

/// The steps' `PATH`, behind what `BIS_TEST_PATH` has: other versions of what the steps call.
fn path() -> String {
    let first = std::env::var("BIS_TEST_PATH").ok();
    let folders: Vec<&str> = first.as_deref().into_iter().chain(FOLDERS).collect();
    folders.join(":")
}

/// Whether a program of this name can be started from the steps' `PATH`.
pub fn installed(program: &str) -> bool {
    path().split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// The Debian package that brings a program which the tests need.
pub fn package_of(program: &str) -> &str {
    match program {
        "cc" => "gcc",
        "redis-server" => "redis-server",
        "redis-benchmark" | "redis-cli" => "redis-tools",
        "busybox" => "busybox-static",
        "dpkg-source" => "dpkg-dev",
        "xz" => "xz-utils",
        "node" => "nodejs",
        "java" | "javac" => "default-jdk-headless",
        "go" => "golang-go",
        "python3-config" => "python3-dev",
        "musl-gcc" => "musl-tools",
        "objcopy" | "strip" => "binutils",
        "/usr/lib32/crt1.o" => "gcc-multilib",
        other => other,
    }
}

/// Libtest's arguments, with three trials at a time unless told otherwise: most wait for something now and
/// then, and on two processors three at a time take a tenth less than two.
pub fn arguments() -> libtest_mimic::Arguments {
    hear_interrupts();
    let mut arguments = libtest_mimic::Arguments::from_args();
    arguments.test_threads.get_or_insert(3);
    arguments
}

/// A shell without job control ignores SIGINT and SIGQUIT in what it starts in the background, and so would
/// all that these tests start: programs that wait for such a signal would wait for ever.
fn hear_interrupts() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signal 1 is the first bit.
    if ignored & 0b110 != 0 {
        let mut again = Command::new("env");
        again.arg("--default-signal=INT,QUIT").args(std::env::args_os());
        panic!("the tests could not be started anew: {}", again.exec());
    }
}
