//! `bis record` and `bis run`: what both are asked for is [`Making`].

use std::{ffi::OsString, path::PathBuf};

use bis_record::{Checksum, Counting, Level};
use bis_trace::types::TickKind;
use clap::{
    Args, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser as _},
};

use super::size;

/// How long a thread may run while others of its process could, if nothing else is said.
const SLICE_MS: u64 = 10;

/// Run a program and record everything that it and its descendants do
#[derive(Debug, Args)]
#[command(
    override_usage = "bis record [OPTIONS] [--] PROGRAM [ARGS]...
       bis record [OPTIONS] --attach PID",
    after_help = "The program's terminal, pipes, signals and exit status are as without bis.
Everything after PROGRAM belongs to the program.

Examples:
  bis record python3 app.py --verbose
  bis record -o /tmp/trace -- make -j2
  bis record --env LANG=C --cwd build ctest
  bis record --ticks=stepping -o t /bin/true
  bis record --detach=git --detach=/usr/bin/ssh ./test.sh
  bis record --attach 4711
  while bis record --chaos -o t ./flaky_test; do bis rm t; done"
)]
pub struct Record {
    #[command(flatten)]
    pub making: Making,
    /// Stop at every system call: without the hooks, which make the usual ones inside of the process
    #[arg(short, long, alias = "no-syscall-buffer")]
    pub no_hooks: bool,
    /// Copy what the program reads into the trace, all of it
    ///
    /// Where the program's files and the trace are on one filesystem that clones blocks (btrfs, XFS), reads
    /// of 64 KiB and more are not copied: the trace gets the file's own blocks, which take no room of their
    /// own until the file is changed. With this flag they are compressed into the log, as they are elsewhere.
    #[arg(long)]
    pub no_cloning: bool,
    /// Record on until all that the program has left running has ended
    ///
    /// Without it, the recording ends with the program: processes that it has left (daemons, jobs in the
    /// background) have another second, and are killed then, because what is recorded cannot go on by itself.
    /// bis says which ones those were.
    #[arg(long)]
    pub wait: bool,
    /// How long a thread may run while others of its process could, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = SLICE_MS, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub slice: u64,
    /// Tell the program of no more than a processor of this level has, so that its recording replays on
    /// older ones
    ///
    /// Programs and libraries choose their instructions by what the `cpuid` instruction says. It says no
    /// more than is in this level: not even what nearly all processors have beside it, like AES. What a
    /// program executes without asking is not kept from it (docs/using.md). It takes the hooks, or a
    /// processor that can make `cpuid` fault.
    #[arg(long, value_name = "LEVEL", default_value = "native", conflicts_with = "attach")]
    pub cpu: CpuArg,
    /// Look for rare bugs: turns of random length, threads that are starved for a while, short reads and
    /// writes
    #[arg(long, conflicts_with = "gdb")]
    pub chaos: bool,
    /// The number from which --chaos draws [default: another each time]
    #[arg(long, value_name = "N", requires = "chaos")]
    pub seed: Option<u64>,
    /// What measures how far a thread has come when it is stopped in the middle of its computation
    #[arg(long, value_name = "SOURCE", default_value = "auto", conflicts_with = "gdb")]
    pub ticks: TicksArg,
    /// Record the registers behind each instruction between these two events, for `bis replay
    /// --compare-steps`
    ///
    /// Events have numbers, which bis dump shows. All threads are single-stepped there, some 30,000
    /// instructions a second; and the hooks are left out of the whole recording, as with --no-hooks.
    #[arg(long, value_name = "A..B", value_parser = steps, conflicts_with_all = ["chaos", "attach", "ticks", "gdb"])]
    pub steps: Option<(u64, u64)>,
    /// Write the trace's path and a newline to this descriptor, before the program starts; it does not get
    /// the descriptor
    #[arg(short, long, value_name = "FD", value_parser = clap::value_parser!(i32).range(0..))]
    pub print_trace_dir: Option<i32>,
    /// When the recording fails: `debug` starts gdb on the process with which it does, as it stands there
    #[arg(long, value_name = "WHAT", value_parser = ["debug"])]
    pub on_error: Option<String>,
    /// With --on-error=debug: start no gdb, but serve one at this port (0: any free one), and say on standard
    /// error how to connect
    #[arg(short = 's', long, value_name = "PORT", requires = "on_error")]
    pub port: Option<u16>,
    /// Leave this command out of the recording wherever the program executes it; can be given several times
    ///
    /// A name like `git` means all programs of that name, and with a slash it is a path; `*` and `?` stand
    /// for any text and any character. Such a program, with all that it starts, runs as without bis; the
    /// recording has a process that waits for it and has its exit status. PROGRAM itself is always recorded.
    #[arg(long, value_name = "COMMAND", value_parser = OsStringValueParser::new().try_map(named))]
    pub detach: Vec<OsString>,
    /// What to do where this bis is itself being recorded by bis
    #[arg(long, value_name = "HOW", default_value = "join")]
    pub nested: Nested,
    /// Record a process that runs already, from where it is, with all its threads
    ///
    /// It is recorded to its end, and cannot go on without bis: where the recording is ended, so is the
    /// process. What comes to bis from its terminal (^C) is passed on to it. It takes the right to trace the
    /// process.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["command", "env", "cwd", "gdb"])]
    pub attach: Option<i32>,
    /// The program, looked for as a shell does, and its arguments
    #[arg(required_unless_present = "attach", trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// Run a program live, and record each process of it from its first checkpoint on
#[derive(Debug, Args)]
#[command(
    override_usage = "bis run [OPTIONS] [--] PROGRAM [ARGS]...",
    after_help = "A program makes checkpoints of itself with bis.h (docs/checkpoints.md). Until then it runs as without bis, on
all cores. From a process's first checkpoint on, that process and what it begins is recorded, as by bis
record; where none makes one there is no trace.

Examples:
  bis run ./server
  bis run --gdb ./server --port 8080     gdb on the live program, forwards and backwards
  bis run --on-replay=gdb -o /tmp/trace -- ./solver --retry"
)]
pub struct Run {
    #[command(flatten)]
    pub making: Making,
    /// Go on until all that the program has left running has ended
    ///
    /// Without it, what is recorded of that is killed a second after the program's end, and the rest goes on
    /// without bis: it gets no checkpoints then.
    #[arg(long)]
    pub wait: bool,
    /// What to do where this bis is itself being recorded by bis
    #[arg(long, value_name = "HOW", default_value = "join")]
    pub nested: Nested,
    /// The program, looked for as a shell does, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// What a recording is asked for, however it begins.
#[derive(Debug, Args)]
pub struct Making {
    /// Make the trace in this folder, which must not exist or be empty [default: a new one, `PROGRAM-N`, in
    /// the folder of the traces]
    #[arg(short, long, value_name = "DIR", alias = "output-trace-dir")]
    pub output: Option<PathBuf>,
    /// Set a variable in the program's environment; can be given several times
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<OsString>,
    /// Run the program in this folder
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Record checksums of memory: slow, but replay then finds the first event at which memory differs
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "events")]
    pub checksum: Option<ChecksumArg>,
    /// What to do where the program asks for a replay of what it did since one of its checkpoints
    /// (bis_rollback with BIS_REPLAY)
    #[arg(long, value_name = "HOW", default_value = "check")]
    pub on_replay: OnReplayArg,
    /// Start gdb on the program, and record it from its first instruction on
    ///
    /// The program goes on only as far as gdb lets it, and gdb leads back in what it has done, as in a
    /// replay: reverse-continue, checkpoint, rollback. gdb has the terminal. See docs/debugging.md.
    #[arg(long)]
    pub gdb: bool,
    /// With --gdb: let gdb execute the commands in this file; can be given several times
    #[arg(short = 'x', long = "commands", value_name = "FILE", requires = "gdb")]
    pub commands: Vec<OsString>,
    /// With --gdb: how much memory its checkpoints may take, like 512M or 2G [default: a quarter of the
    /// machine's]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "gdb")]
    pub checkpoint_memory: Option<u64>,
    /// Say where the trace is, also when standard error is not a terminal
    #[arg(short, long)]
    pub verbose: bool,
}

impl From<Run> for Record {
    fn from(run: Run) -> Record {
        let Run { making, wait, nested, command } = run;
        Record {
            making,
            no_hooks: false,
            no_cloning: false,
            wait,
            slice: SLICE_MS,
            chaos: false,
            seed: None,
            ticks: TicksArg::Auto,
            cpu: CpuArg::Native,
            steps: None,
            print_trace_dir: None,
            on_error: None,
            port: None,
            detach: Vec::new(),
            nested,
            attach: None,
            command,
        }
    }
}

/// What programs are told of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CpuArg {
    /// SSE4.2 and POPCNT, as processors since 2009 have them
    #[value(name = "x86-64-v2")]
    V2,
    /// AVX2, BMI and FMA, as most since 2013 and 2015 have them
    #[value(name = "x86-64-v3")]
    V3,
    /// AVX-512
    #[value(name = "x86-64-v4")]
    V4,
    /// All that this one has
    Native,
}

impl From<CpuArg> for Level {
    fn from(arg: CpuArg) -> Level {
        match arg {
            CpuArg::V2 => Level::V2,
            CpuArg::V3 => Level::V3,
            CpuArg::V4 => Level::V4,
            CpuArg::Native => Level::Native,
        }
    }
}

/// How what a program did since a checkpoint is executed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OnReplayArg {
    /// Execute it again, and see that it does the same
    Check,
    /// Start gdb on it, at the terminal, and go on when that has ended
    Gdb,
    /// Serve a debugger that you start, and go on when that has left; standard error says how to connect
    Server,
    /// Write to standard error where it computed, as folded stacks
    Profile,
}

/// What a `bis record` does inside of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Nested {
    /// Run the program, in the recording that there is; no other trace is made
    Join,
    /// Fail
    Error,
    /// Record outside of the recording that there is, which has the exit status and nothing else
    Detach,
    /// Try to record, as if there was no other recording
    Ignore,
}

/// When memory is summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ChecksumArg {
    /// At every traced event, what the program can write
    Events,
    /// The same, and each system call is traced: the hooks make none
    Calls,
    /// The same, and text and constants are summed too
    All,
}

impl From<ChecksumArg> for Checksum {
    fn from(arg: ChecksumArg) -> Checksum {
        match arg {
            ChecksumArg::Events => Checksum::Events,
            ChecksumArg::Calls => Checksum::Calls,
            ChecksumArg::All => Checksum::All,
        }
    }
}

/// Tick sources as people name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TicksArg {
    /// What serves best: counts in a rewritten text where a process needs them, else registers and memory
    Auto,
    /// Counts in a rewritten text
    Software,
    /// Conditional branches, by the processor's performance counters
    Hardware,
    /// Conditional branches, by single steps: ten thousand times slower; for tests
    Stepping,
}

impl TicksArg {
    /// `plain`: nothing is to be counted unless that is asked for: so with chaos, which stops programs
    /// anywhere, and without hooks.
    pub fn kind(self, plain: bool) -> TickKind {
        match self {
            TicksArg::Auto if plain => TickKind::State,
            TicksArg::Auto | TicksArg::Software => TickKind::Software,
            TicksArg::Hardware => TickKind::Hardware,
            TicksArg::Stepping => TickKind::Stepping,
        }
    }

    pub fn counts(self) -> Counting {
        if self == TicksArg::Auto { Counting::WhereNeeded } else { Counting::WithThreads }
    }
}

/// A command that has a name: an empty one would leave out nothing.
fn named(command: OsString) -> Result<OsString, String> {
    if command.is_empty() { Err("give the name of a program, or a path".into()) } else { Ok(command) }
}

/// Two numbers of events, the second greater than the first.
fn steps(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "give the numbers of two events, like 120..135".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from < to { Ok((from, to)) } else { Err("the second event is not behind the first".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    use crate::args::Cli;

    #[test]
    fn steps_are_between_two_events() {
        assert_eq!(steps("7..9"), Ok((7, 9)));
        assert_eq!(steps("0..1"), Ok((0, 1)));
        for wrong in ["", "7", "7..", "..9", "9..7", "7..7", "a..b", "1..2..3", "-1..4"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
        for wrong in ["--chaos", "--attach=1", "--ticks=stepping"] {
            let words = ["bis", "record", "--steps=1..2", wrong, "true"];
            assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
        }
    }
}
