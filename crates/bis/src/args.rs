//! The command line: what can be asked, with its help and examples. What is done is in `commands`.

use std::{ffi::OsString, path::PathBuf};

use bis_record::Counting;
use bis_trace::types::TickKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::env;

const EXIT_STATUSES: &str = "Exit status:
  record  the program's own, or 128 + the signal that killed it;
          125 bis failed, 126 the program cannot be executed, 127 it was not found
  replay  0 replayed to the end, 1 divergence, 2 bad command line or trace,
          3 the trace was cut short and replayed as far as it goes
  doctor  0 bis can record here, 1 it cannot
  others  0, or 2 when they failed";

#[derive(Debug, Parser)]
#[command(
    name = "bis",
    version,
    about = "Record a run of a program, and replay it exactly, as often as you want",
    long_about = "Record a run of a program with all its processes and threads, and replay it exactly, as often as \
                  you want. Works without performance counters: in virtual machines, containers and CI.",
    after_help = "Examples:
  bis record python3 app.py     record a run
  bis replay -a                 replay it
  bis ps                        the processes of the recording
  bis doctor                    what works on this machine",
    after_long_help = format!("Examples:
  bis record python3 app.py     record a run
  bis replay -a                 replay it
  bis ps                        the processes of the recording
  bis doctor                    what works on this machine

{EXIT_STATUSES}

{}", env::help()),
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Record(Record),
    Replay(Replay),
    Ps(Ps),
    Dump(Dump),
    Info(Info),
    Ls(Ls),
    Rm(Rm),
    Doctor(Doctor),
    Syscalls(Syscalls),
    Completions(Completions),
    Man(Man),
}

/// Run a program and record everything that it and its descendants do
#[derive(Debug, Args)]
#[command(
    override_usage = "bis record [OPTIONS] [--] PROGRAM [ARGS]...",
    after_help = "The program's terminal, pipes, signals and exit status are as without bis.
Everything after PROGRAM belongs to the program.

Examples:
  bis record python3 app.py --verbose
  bis record -o /tmp/trace -- make -j2
  bis record --env LANG=C --cwd build ctest
  bis record --ticks=stepping -o t /bin/true
  while bis record --chaos -o t ./flaky_test; do bis rm t; done"
)]
pub struct Record {
    /// Make the trace in this folder, which must not exist or be empty [default: a new one, `PROGRAM-N`, in the
    /// folder of the traces]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Stop at every system call: without the hooks, which make the usual ones inside of the process
    #[arg(short, long)]
    pub no_hooks: bool,
    /// Copy what the program reads into the trace, all of it
    ///
    /// Where the program's files and the trace are on one filesystem that clones blocks (btrfs, XFS), reads of 64 KiB and
    /// more are not copied: the trace gets the file's own blocks, which take no room of their own until the file is
    /// changed. With this flag they are compressed into the log, as they are elsewhere.
    #[arg(long)]
    pub no_cloning: bool,
    /// How long a thread may run while others of its process could, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub slice: u64,
    /// Look for rare bugs: turns of random length, threads that are starved for a while, short reads and writes
    #[arg(long)]
    pub chaos: bool,
    /// The number from which --chaos draws [default: another each time]
    #[arg(long, value_name = "N", requires = "chaos")]
    pub seed: Option<u64>,
    /// What measures how far a thread has come when it is stopped in the middle of its computation
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    pub ticks: TicksArg,
    /// Set a variable in the program's environment; can be given several times
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<OsString>,
    /// Run the program in this folder
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Record checksums of memory at every traced event: slow, but replay then finds the first event at which
    /// memory differs
    #[arg(long)]
    pub checksum: bool,
    /// Say where the trace is, also when standard error is not a terminal
    #[arg(short, long)]
    pub verbose: bool,
    /// The program, looked for as a shell does, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
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
    /// `plain`: nothing is to be counted unless that is asked for: so with chaos, which stops programs anywhere, and without hooks.
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

/// Replay a recorded run
#[derive(Debug, Args)]
#[command(
    after_help = "What the program wrote to standard output and error comes again, in the recorded order.
No recorded system call is made: nothing outside is touched.

Examples:
  bis replay -a                   the latest recording, whole
  bis replay -a make-3            the recording of that name
  bis replay -a /tmp/trace -p 812 only process 812, from its last exec
  bis replay -a --quiet && echo replays"
)]
pub struct Replay {
    /// Replay to the end, without a debugger (needed: this version has no debugger)
    #[arg(short = 'a', long)]
    pub autopilot: bool,
    /// Replay only this process, from its last exec
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// How many processes to replay at once [default: the number of cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Leave out what the program wrote
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub trace: TraceArg,
}

/// Show the processes of a recording as a tree
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis ps
  bis ps make-3 --threads
  bis ps --json | jq .pid")]
pub struct Ps {
    /// A line for every thread
    #[arg(short, long)]
    pub threads: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub trace: TraceArg,
}

/// Show the events of a recording, in their order
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis dump | less
  bis dump --pid 812 --kind signal
  bis dump --call openat --call execve
  bis dump --from 1000 --to 1020 --full
  bis dump --json | jq -r .kind | sort | uniq -c")]
pub struct Dump {
    /// Only events of this thread; can be given several times
    #[arg(long, value_name = "TID")]
    pub tid: Vec<i32>,
    /// Only events of this process; can be given several times
    #[arg(short, long, value_name = "PID")]
    pub pid: Vec<i32>,
    /// Only events from this number on
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub from: u64,
    /// Only events up to and with this number
    #[arg(long, value_name = "SEQ", default_value_t = u64::MAX, hide_default_value = true)]
    pub to: u64,
    /// Only events of this kind; can be given several times
    #[arg(short, long, value_name = "KIND")]
    pub kind: Vec<EventName>,
    /// Only system calls of this name; can be given several times
    #[arg(short, long, value_name = "NAME")]
    pub call: Vec<String>,
    /// With registers, address-space operations and bytes written
    #[arg(short, long)]
    pub full: bool,
    /// One JSON object a line, with everything
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub trace: TraceArg,
}

/// The kinds of events, as `dump` names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum EventName {
    Start,
    Syscall,
    Enter,
    Exit,
    Signal,
    Instruction,
    TaskExit,
    Token,
    Pause,
    Hooked,
    End,
}

/// Show what a recording says about itself: machine, versions, size, how it ended
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis info
  bis info --stops /tmp/trace")]
pub struct Info {
    #[command(flatten)]
    pub trace: TraceArg,
    /// Count why its tasks stopped: which calls were traced, and why each was
    #[arg(long)]
    pub stops: bool,
    /// With --stops: one JSON object
    #[arg(long, requires = "stops")]
    pub json: bool,
}

/// List the recordings
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis ls
  bis ls --json")]
pub struct Ls {
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Remove recordings
#[derive(Debug, Args)]
#[command(after_help = "It asks nothing, says what it removed, and removes nothing that is not a trace.

Examples:
  bis rm make-3 make-4
  bis rm --older-than 7
  bis rm --all")]
pub struct Rm {
    /// Every trace in the folder of the traces
    #[arg(long, conflicts_with_all = ["older_than", "traces"])]
    pub all: bool,
    /// Every trace in the folder of the traces that was begun more than this many days ago
    #[arg(long, value_name = "DAYS", conflicts_with = "traces")]
    pub older_than: Option<u32>,
    /// Names of traces, or paths
    #[arg(value_name = "TRACE", required_unless_present_any = ["all", "older_than"])]
    pub traces: Vec<OsString>,
}

/// Show what works on this machine, and what to do about what does not
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis doctor
  bis doctor --json
  bis doctor --text /usr/bin/node")]
pub struct Doctor {
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Instead: how much of this program's or library's text can be made to count, and why the rest cannot
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
}

/// Show how each system call is recorded
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis syscalls
  bis syscalls futex epoll
  bis syscalls --markdown > docs/syscalls.md")]
pub struct Syscalls {
    /// Only calls whose name contains one of these
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The whole table as a Markdown page
    #[arg(long, conflicts_with_all = ["json", "names"])]
    pub markdown: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Print a script that completes bis's command line in your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis completions bash > ~/.local/share/bash-completion/completions/bis
  bis completions fish > ~/.config/fish/completions/bis.fish")]
pub struct Completions {
    pub shell: Shell,
}

/// Print the manual page, or write those of all commands into a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis man | man -l -
  bis man --dir ~/.local/share/man/man1")]
pub struct Man {
    /// Write bis.1, bis-record.1, ... into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TraceArg {
    /// The trace: its name as `bis ls` shows it, or a path
    #[arg(value_name = "TRACE", default_value = "latest")]
    pub name: OsString,
}
