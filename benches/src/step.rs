//! One run of one command: its time, its outputs, its end.
//!
//! Standard input is empty, the outputs go to files. The command has a process group of its own, which is
//! killed when it takes longer than its limit. No thread of ours runs beside a timed command: the wait is one
//! `poll`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::memory;

/// How a command ended.
pub struct Step {
    /// Exit code, or 128 + signal.
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// From the start of the command to its end; with a [`Client`], the time of the client's load.
    pub took: Duration,
    /// In bytes; only if it was sampled, and long enough.
    pub peak_pss: Option<u64>,
}

/// What is done to a server while it runs.
pub struct Client {
    /// The server is ready when it accepts connections here; below the folder in which it runs.
    pub socket: PathBuf,
    /// The load, which is timed.
    pub load: Vec<OsString>,
    /// Ends the server.
    pub stop: Vec<OsString>,
}

/// Where and how commands run.
pub struct Runner {
    pub folder: PathBuf,
    /// The outputs' files are made here.
    pub outputs: PathBuf,
    pub limit: Duration,
}

impl Step {
    /// An error with the end of what the command wrote, unless it ended with status 0.
    pub fn succeeded(self, what: &str) -> Result<Step> {
        if self.status != 0 {
            bail!("{what} ended with status {}{}", self.status, self.shown());
        }
        Ok(self)
    }

    /// The end of standard error, or of standard output if that is empty, for a message.
    fn shown(&self) -> String {
        let text = if self.stderr.is_empty() { &self.stdout } else { &self.stderr };
        let text = String::from_utf8_lossy(text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(6)..];
        if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) }
    }
}

impl Runner {
    /// Runs `argv` to its end. With a client, the command is a server, and the time is that of the client.
    pub fn run(&self, argv: &[OsString], client: Option<&Client>, sample: bool) -> Result<Step> {
        let name = argv[0].to_string_lossy().into_owned();
        let (out, err) = (self.outputs.join("stdout"), self.outputs.join("stderr"));
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(&self.folder).process_group(0);
        environment(&mut command);
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
        let begun = Instant::now();
        let mut child = command.spawn().with_context(|| format!("failed to start {name}"))?;
        let over = AtomicBool::new(false);
        let (loaded, took, peak_pss) = thread::scope(|scope| {
            let sampler = sample.then(|| scope.spawn(|| memory::peak_pss(child.id(), &over)));
            let loaded = client.map(|client| self.load(client, &child)).transpose();
            if loaded.is_err() {
                kill(&child);
            }
            let ended = wait(&child, self.limit.saturating_sub(begun.elapsed()));
            let took = begun.elapsed();
            over.store(true, Ordering::Release);
            let peak = sampler.and_then(|sampler| sampler.join().expect("the sampler does not panic"));
            (loaded, ended.map(|()| took), peak)
        });
        let status = number(child.wait().with_context(|| format!("failed to wait for {name}"))?);
        let (stdout, stderr) = (read(&out)?, read(&err)?);
        let mut step = Step { status, stdout, stderr, took: Duration::ZERO, peak_pss };
        let loaded = loaded.with_context(|| format!("the server {name} was not served{}", step.shown()))?;
        step.took = took.with_context(|| format!("{name}{}", step.shown()))?;
        if let Some(load) = loaded {
            step.took = load;
        }
        Ok(step)
    }

    /// Waits until the server accepts connections, puts the load on it, ends it; the time of the load.
    fn load(&self, client: &Client, server: &Child) -> Result<Duration> {
        let begun = Instant::now();
        // From the root the path may be too long for an address; from the command's folder it is short.
        let socket = PathBuf::from(format!("/proc/{}/cwd", server.id())).join(&client.socket);
        while UnixStream::connect(&socket).is_err() {
            if begun.elapsed() > self.limit || has_ended(server) {
                bail!("it never accepted a connection");
            }
            // Only how early the load may begin depends on this, and the load alone is timed.
            thread::sleep(Duration::from_millis(2));
        }
        let begun = Instant::now();
        self.beside(&client.load, "load")?;
        let took = begun.elapsed();
        self.beside(&client.stop, "stop")?;
        Ok(took)
    }

    /// Runs a command that belongs to no recording.
    fn beside(&self, argv: &[OsString], what: &str) -> Result<()> {
        let outputs = self.outputs.join(what);
        fs::create_dir_all(&outputs).with_context(|| format!("failed to make {}", outputs.display()))?;
        let own = Runner { folder: self.folder.clone(), outputs, limit: self.limit };
        own.run(argv, None, false)?.succeeded(&argv[0].to_string_lossy())?;
        Ok(())
    }
}

/// Runs a command for preparing something; an error unless it succeeds.
pub fn prepare(folder: &Path, argv: &[&str], stdin: Option<File>) -> Result<Vec<u8>> {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(folder);
    environment(&mut command);
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    let output = command.output().with_context(|| format!("failed to start {}", argv[0]))?;
    let step = Step {
        status: number(output.status),
        stdout: output.stdout,
        stderr: output.stderr,
        took: Duration::ZERO,
        peak_pss: None,
    };
    Ok(step.succeeded(&argv.join(" "))?.stdout)
}

/// What of the user's environment would change the work.
fn environment(command: &mut Command) {
    command.env("LC_ALL", "C").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "GIT_DIR", "GIT_WORK_TREE", "PYTHONPATH", "NODE_OPTIONS"]
    {
        command.env_remove(name);
    }
}

/// Waits for the end of the child, which stays to be reaped; kills its group at the limit.
fn wait(child: &Child, limit: Duration) -> Result<()> {
    if ended_within(child, limit)? {
        return Ok(());
    }
    kill(child);
    ended_within(child, Duration::from_secs(60))?;
    bail!("did not end within {} seconds, and was killed", limit.as_secs());
}

fn has_ended(child: &Child) -> bool {
    ended_within(child, Duration::ZERO).unwrap_or(true)
}

/// Whether the child ended before the time was over.
fn ended_within(child: &Child, limit: Duration) -> Result<bool> {
    let handle = pidfd_open(id(child), PidfdFlags::empty()).context("failed to open the process")?;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("the limit is too long")?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("failed to wait for the process"),
        }
    }
}

/// Kills the child's group. The child is not reaped yet, so the number is still its own.
fn kill(child: &Child) {
    // A group that is gone already needs no killing.
    let _ = kill_process_group(id(child), Signal::KILL);
}

fn id(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("failed to make {}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.with_context(|| format!("failed to read {}", path.display())),
    }
}
