//! A gdb with a recording, to which commands are typed: how long does each take?
//!
//! Behind each command comes an `echo` of a mark, and its time is from when it was written until its mark is
//! read.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Settings without which gdb asks, or waits for the network; its own files are not read.
const SETTINGS: [&str; 4] =
    ["set width 0", "set pagination off", "set confirm off", "set debuginfod enabled off"];

/// See the module's text. It is killed when it is dropped.
pub struct Gdb {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    limit: Duration,
    asked: u32,
}

impl Gdb {
    /// Starts `PROGRAM replay TRACE` (bis and rr understand the same words) and waits for its prompt: how
    /// long was that?
    pub fn start(program: &Path, trace: &Path, limit: Duration) -> Result<(Gdb, Duration)> {
        let mut command = Command::new(program);
        command.arg("replay").arg(trace).args(["-o", "-nx", "-o", "-q"]);
        command.args(SETTINGS.iter().flat_map(|setting| ["-o", "-iex", "-o", *setting]));
        let (mut gdb, begun) = Gdb::spawn(command, limit)?;
        gdb.ask("")?;
        Ok((gdb, begun.elapsed()))
    }

    /// How long gdb alone takes to read a program's symbols.
    pub fn loading(executable: &Path, limit: Duration) -> Result<Duration> {
        let mut command = Command::new("gdb");
        command.args(["-nx", "-q"]);
        command.args(SETTINGS.iter().flat_map(|setting| ["-iex", *setting]));
        let (mut gdb, begun) = Gdb::spawn(
            {
                command.arg(executable);
                command
            },
            limit,
        )?;
        gdb.ask("")?;
        Ok(begun.elapsed())
    }

    fn spawn(mut command: Command, limit: Duration) -> Result<(Gdb, Instant)> {
        command.env("LC_ALL", "C").env_remove("DEBUGINFOD_URLS");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().with_context(|| format!("failed to start {command:?}"))?;
        let input = child.stdin.take().context("gdb has no input")?;
        let output = child.stdout.take().context("gdb has no output")?;
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            // What the program writes may be no UTF-8.
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        Ok((Gdb { child, input, lines, limit, asked: 0 }, begun))
    }

    /// What gdb shows of a command, and how long it takes.
    pub fn ask(&mut self, command: &str) -> Result<(String, Duration)> {
        self.asked += 1;
        let mark = format!("@@{}@@", self.asked);
        let begun = Instant::now();
        writeln!(self.input, "{command}\necho {mark}\\n")
            .with_context(|| format!("gdb is gone before {command}"))?;
        let mut shown = String::new();
        loop {
            match self.lines.recv_timeout(self.limit.saturating_sub(begun.elapsed())) {
                // The prompt stands before it.
                Ok(line) if line.ends_with(&mark) => return Ok((shown, begun.elapsed())),
                Ok(line) => shown = shown + &line + "\n",
                Err(RecvTimeoutError::Timeout) => {
                    bail!("`{command}` took longer than {} s: {}", self.limit.as_secs(), tail(&shown))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("gdb has ended at `{command}`: {}", tail(&shown))
                }
            }
        }
    }

    /// As `ask`, of a command that must show this text.
    pub fn expect(&mut self, command: &str, wanted: &str) -> Result<Duration> {
        let (shown, took) = self.ask(command)?;
        if !shown.contains(wanted) {
            bail!("`{command}` did not show `{wanted}`: {}", tail(&shown));
        }
        Ok(took)
    }

    /// The number that an expression has.
    pub fn number(&mut self, expression: &str) -> Result<i64> {
        let (shown, _) = self.ask(&format!("printf \"%ld\\n\", (long) ({expression})"))?;
        let digits = shown.split_whitespace().last().unwrap_or_default();
        digits.parse().with_context(|| format!("`{expression}` is no number: {}", tail(&shown)))
    }

    /// The process of bis, or rr.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // It ends by itself when its input does; whoever works still is killed.
        let _ = writeln!(self.input, "kill\nquit");
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}
