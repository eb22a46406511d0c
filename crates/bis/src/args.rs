//! The command line: what can be asked, with its help and examples. What is done is in `commands`.

use std::{ffi::OsString, path::PathBuf};

use bis_record::{Checksum, Counting};
use bis_rewrite::DenseOrder;
use bis_trace::types::TickKind;
use clap::{
    Arg, ArgAction, ArgGroup, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum,
    error::ErrorKind, parser::ValueSource,
};
use clap_complete::Shell;

use crate::env;

const EXIT_STATUSES: &str = "Exit status:
  record  the program's own, or 128 + the signal that killed it;
          125 bis failed, 126 the program cannot be executed, 127 it was not found
  replay  the debugger's own; with -a: 0 replayed to the end, 1 divergence, 2 bad command line or trace,
          3 the trace was cut short and replayed as far as it goes
  doctor  0 bis can record here, 1 it cannot
  others  0, or 2 when they failed";

/// How long a thread may run while others of its process could, if nothing else is said.
const SLICE_MS: u64 = 10;

#[derive(Debug, Parser)]
#[command(
    name = "bis",
    version,
    about = "Record a run of a program, and replay it exactly, as often as you want",
    long_about = "Record a run of a program with all its processes and threads, and replay it exactly, as often as \
                  you want. Works without performance counters: in virtual machines, containers and CI.",
    after_help = "Examples:
  bis record python3 app.py     record a run
  bis replay                    debug it, forwards and backwards
  bis replay -a                 replay it without a debugger
  bis ps                        the processes of the recording
  bis doctor                    what works on this machine",
    after_long_help = format!("Examples:
  bis record python3 app.py     record a run
  bis replay                    debug it, forwards and backwards
  bis replay -a                 replay it without a debugger
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
    Run(Run),
    Replay(Box<Replay>),
    Ps(Ps),
    Dump(Dump),
    Info(Info),
    Ls(Ls),
    Rm(Rm),
    Pack(Pack),
    Doctor(Doctor),
    Syscalls(Syscalls),
    Completions(Completions),
    Man(Man),
    Gdbinit(Gdbinit),
    #[command(hide = true)]
    MakeTexts(MakeTexts),
}

impl Command {
    /// As rr would print it: for clients of rr, which know us by its name.
    pub fn like_rr(&mut self) {
        match self {
            Command::Ps(ps) => ps.rr = true,
            Command::Ls(ls) => ls.rr = true,
            _ => {}
        }
    }
}

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
    /// Make the trace in this folder, which must not exist or be empty [default: a new one, `PROGRAM-N`, in
    /// the folder of the traces]
    #[arg(short, long, value_name = "DIR", alias = "output-trace-dir")]
    pub output: Option<PathBuf>,
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
    /// Look for rare bugs: turns of random length, threads that are starved for a while, short reads and
    /// writes
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
    /// Record checksums of memory: slow, but replay then finds the first event at which memory differs
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "events")]
    pub checksum: Option<ChecksumArg>,
    /// Record the registers behind each instruction between these two events, for `bis replay
    /// --compare-steps`
    ///
    /// Events have numbers, which bis dump shows. All threads are single-stepped there, some 30,000
    /// instructions a second; and the hooks are left out of the whole recording, as with --no-hooks.
    #[arg(long, value_name = "A..B", value_parser = steps, conflicts_with_all = ["chaos", "attach", "ticks"])]
    pub steps: Option<(u64, u64)>,
    /// Write the trace's path and a newline to this descriptor, before the program starts; it does not get
    /// the descriptor
    #[arg(short, long, value_name = "FD", value_parser = clap::value_parser!(i32).range(0..))]
    pub print_trace_dir: Option<i32>,
    /// Say where the trace is, also when standard error is not a terminal
    #[arg(short, long)]
    pub verbose: bool,
    /// When the recording fails: `debug` starts gdb on the process with which it does, as it stands there
    #[arg(long, value_name = "WHAT", value_parser = ["debug"])]
    pub on_error: Option<String>,
    /// With --on-error=debug: start no gdb, but serve one at this port (0: any free one), and say on standard
    /// error how to connect
    #[arg(short = 's', long, value_name = "PORT", requires = "on_error")]
    pub port: Option<u16>,
    /// What to do where the program asks for a replay of what it did since one of its checkpoints
    /// (bis_rollback with BIS_REPLAY)
    #[arg(long, value_name = "HOW", default_value = "check")]
    pub on_replay: OnReplayArg,
    /// Leave this command out of the recording wherever the program executes it; can be given several times
    ///
    /// A name like `git` means all programs of that name, and with a slash it is a path; `*` and `?` stand
    /// for any text and any character. Such a program, with all that it starts, runs as without bis; the
    /// recording has a process that waits for it and has its exit status. PROGRAM itself is always recorded.
    #[arg(long, value_name = "COMMAND")]
    pub detach: Vec<OsString>,
    /// What to do where this bis is itself being recorded by bis
    #[arg(long, value_name = "HOW", default_value = "join")]
    pub nested: Nested,
    /// Record a process that runs already, from where it is, with all its threads
    ///
    /// It is recorded to its end, and cannot go on without bis: where the recording is ended, so is the
    /// process. What comes to bis from its terminal (^C) is passed on to it. Until it executes another
    /// program, all its calls stop. It takes the right to trace the process, and 400 MiB of memory of its own
    /// are the most that it may have.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["command", "env", "cwd"])]
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
  bis run --on-replay=gdb -o /tmp/trace -- ./solver --retry"
)]
pub struct Run {
    /// Make the trace in this folder, which must not exist or be empty [default: a new one, `PROGRAM-N`, in
    /// the folder of the traces]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Go on until all that the program has left running has ended
    ///
    /// Without it, what is recorded of that is killed a second after the program's end, and the rest goes on
    /// without bis: it gets no checkpoints then.
    #[arg(long)]
    pub wait: bool,
    /// Set a variable in the program's environment; can be given several times
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<OsString>,
    /// Run the program in this folder
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Record checksums of memory: slow, but replay then finds the first event at which memory differs
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "events")]
    pub checksum: Option<ChecksumArg>,
    /// Say where the trace is, also when standard error is not a terminal
    #[arg(short, long)]
    pub verbose: bool,
    /// What to do where the program asks for a replay of what it did since one of its checkpoints
    /// (bis_rollback with BIS_REPLAY)
    #[arg(long, value_name = "HOW", default_value = "check")]
    pub on_replay: OnReplayArg,
    /// The program, looked for as a shell does, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

impl From<Run> for Record {
    fn from(run: Run) -> Record {
        let Run { output, wait, env, cwd, checksum, verbose, on_replay, command } = run;
        Record {
            output,
            no_hooks: false,
            no_cloning: false,
            wait,
            slice: SLICE_MS,
            chaos: false,
            seed: None,
            ticks: TicksArg::Auto,
            env,
            cwd,
            checksum,
            steps: None,
            print_trace_dir: None,
            verbose,
            on_error: None,
            port: None,
            on_replay,
            detach: Vec::new(),
            nested: Nested::Error,
            attach: None,
            command,
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

/// Debug a recorded run, or replay it without a debugger
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "bis replay [OPTIONS] [TRACE] [-- DEBUGGER_ARGS...]",
    group(ArgGroup::new("server").multiple(true)),
    after_help = "Without -a, -s or -h it starts gdb, which is connected to the program and stands at its begin.
All of gdb is there; reverse-continue, reverse-step and the like go backwards; `help bis` in gdb
shows what else there is, for places, checkpoints and processes. docs/debugging.md tells it all.

What the program wrote to standard output and error comes again, in the recorded order.
No recorded system call is made: nothing outside is touched.

Examples:
  bis replay                      debug the latest recording, from its begin
  bis replay make-3 -p cc1        the first process that executed cc1
  bis replay -p 812 -e            process 812, from its end backwards
  bis replay -g 12000             from event 12000 (bis dump shows events)
  bis replay -o --batch -x commands.gdb
  bis replay -s 1234 -k           only serve: for a debugger that you start yourself
  bis replay -d lldb
  bis replay -a                   no debugger: replay the latest recording whole
  bis replay -a -p 812            no debugger: only process 812, from its last exec
  bis replay -a --quiet && echo replays
  bis replay -a --on-error=debug  no debugger, unless the replay fails: gdb starts where it did
  bis replay --profile --svg flames.svg
  bis replay --trace-at parse.c:88 token 'tree->depth' --trace-at free '$rdi'"
)]
pub struct Replay {
    #[command(flatten)]
    pub trace_at: TraceAt,
    // Before those that it looks at, which are taken out of what was parsed.
    #[command(flatten)]
    pub on_error: OnError,
    /// Replay to the end, without a debugger
    #[arg(short = 'a', long)]
    pub autopilot: bool,
    /// This process, from its last exec: its number, or the first one whose program has this name or path
    #[arg(short, long, value_name = "PID|COMMAND", alias = "onprocess", value_parser = ProcessArg::parse)]
    pub pid: Option<ProcessArg>,
    /// Debug this process, from its fork
    #[arg(short, long, value_name = "PID", alias = "onfork", conflicts_with_all = ["pid", "autopilot"],
          value_parser = clap::value_parser!(i32).range(1..))]
    pub forked: Option<i32>,
    /// Begin to debug at this event, at this place (as `$_bis_place` holds it in gdb), or at the `end`
    #[arg(short, long, value_name = "EVENT|PLACE|end", conflicts_with = "autopilot", value_parser = GotoArg::parse)]
    pub goto: Option<GotoArg>,
    /// Begin to debug at the end: as --goto=end
    #[arg(short, long, conflicts_with_all = ["goto", "autopilot"])]
    pub end: bool,
    /// Start no debugger: serve one at this port (0: any free one), and say on standard error how to connect
    #[arg(short = 's', long, value_name = "PORT", alias = "dbgport", group = "server")]
    pub port: Option<u16>,
    /// Start no debugger: serve one at this address of ours [default: 127.0.0.1]
    #[arg(short = 'h', long, value_name = "HOST", alias = "dbghost", group = "server",
          num_args = 0..=1, default_missing_value = "")]
    pub host: Option<String>,
    /// With --port or --host: when a debugger leaves, wait for another one
    #[arg(short, long, requires = "server")]
    pub keep_listening: bool,
    /// Start this debugger; one with lldb in its name is started as LLDB is [default: gdb]
    #[arg(short, long, value_name = "DEBUGGER")]
    pub debugger: Option<OsString>,
    /// Pass this argument to the debugger; can be given several times
    #[arg(short = 'o', long = "debugger-option", value_name = "OPTION", allow_hyphen_values = true)]
    pub debugger_options: Vec<OsString>,
    /// Let gdb execute the commands in this file, once it is connected; can be given several times
    #[arg(short = 'x', long = "commands", value_name = "FILE", alias = "gdb-x")]
    pub commands: Vec<OsString>,
    /// Let gdb speak this interpreter's language, like mi3: for editors
    #[arg(short, long, value_name = "NAME")]
    pub interpreter: Option<OsString>,
    /// Let gdb show positions as Emacs reads them
    #[arg(long)]
    pub fullname: bool,
    /// Give the debugger programs and libraries out of the trace, not those that this machine has now: slower
    #[arg(long)]
    pub serve_files: bool,
    /// Write what the program wrote to this file or terminal
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quiet", "autopilot"])]
    pub tty: Option<PathBuf>,
    /// How much memory checkpoints may take, like 512M or 2G [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub checkpoint_memory: Option<u64>,
    /// Start no debugger: sample where the recorded run computed, and print it as folded stacks, in
    /// microseconds
    ///
    /// Of all processes, or of the one that --pid or --forked names. Time in the kernel is not in it: no
    /// recorded call is made again.
    #[arg(long, conflicts_with_all = ["autopilot", "server", "debugger", "commands", "trace_at", "goto", "end", "debugger_args"])]
    pub profile: bool,
    /// With --profile: write the folded stacks to this file
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub folded: Option<PathBuf>,
    /// With --profile: draw them as a flame graph, which browsers show
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub svg: Option<PathBuf>,
    /// Start no debugger: show the registers in front of each instruction, from this event on
    ///
    /// On standard error, a line for each. Of all processes, one after the other, or of the one that --pid or
    /// --forked names.
    #[arg(short, long, value_name = "EVENT", alias = "trace",
          conflicts_with_all = ["server", "debugger", "commands", "trace_at", "profile", "goto", "end", "debugger_args", "on_error"])]
    pub trace_from: Option<u64>,
    /// The part of the recording that a process was (of the companion that a recording starts)
    #[arg(long, hide = true, value_name = "N", conflicts_with_all = ["pid", "forked"])]
    pub domain: Option<u32>,
    /// With --profile: only what came behind this event
    #[arg(long, hide = true, value_name = "EVENT", requires = "profile")]
    pub profile_from: Option<u64>,
    /// Start no debugger: compare the registers behind each instruction of which the recording has them
    /// (record --steps)
    ///
    /// The first instruction that does something else than it did is shown, with the registers. Status 1
    /// then.
    #[arg(long, conflicts_with_all = ["autopilot", "server", "debugger", "commands", "trace_at", "profile", "trace_from", "goto", "end", "debugger_args", "on_error"])]
    pub compare_steps: bool,
    /// As rr's, which pins a replay to a core unless it is told not to; bis never does
    #[arg(short = 'u', long, hide = true)]
    pub cpu_unbound: bool,
    /// With -a: how many processes to replay at once [default: the number of cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), requires = "autopilot")]
    pub jobs: Option<u16>,
    /// Leave out what the program wrote
    #[arg(short, long, alias = "no-redirect-output")]
    pub quiet: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    #[command(flatten)]
    pub trace: TraceArg,
    /// More arguments for the debugger
    #[arg(last = true, value_name = "DEBUGGER_ARGS")]
    pub debugger_args: Vec<OsString>,
}

/// The places to print at, each with its expressions: `--trace-at LOCATION EXPR...`, again and again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceAt {
    pub points: Vec<Vec<String>>,
}

/// What `--on-error` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnError {
    pub debugs: bool,
}

impl OnError {
    const ID: &str = "on_error";
    /// What is said to a debugger, which -a starts only if it is told to.
    const TO_DEBUGGER: [(&str, &str); 10] = [
        ("port", "--port"),
        ("host", "--host"),
        ("debugger", "--debugger"),
        ("debugger_options", "--debugger-option"),
        ("commands", "--commands"),
        ("interpreter", "--interpreter"),
        ("fullname", "--fullname"),
        ("serve_files", "--serve-files"),
        ("checkpoint_memory", "--checkpoint-memory"),
        ("debugger_args", "arguments for the debugger"),
    ];
}

impl FromArgMatches for OnError {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OnError, clap::Error> {
        let debugs = matches.contains_id(OnError::ID);
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let idle = OnError::TO_DEBUGGER.iter().find(|(id, _)| is_given(id));
        match idle {
            Some((_, name)) if is_given("autopilot") && !debugs => Err(clap::Error::raw(
                ErrorKind::ArgumentConflict,
                format!(
                    "with -a there is no debugger, and so no {name} (but with --on-error=debug, after a divergence)"
                ),
            )),
            _ => Ok(OnError { debugs }),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OnError::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Whether what goes to a debugger conflicts with `-a` depends on this, which cannot be derived.
impl Args for OnError {
    fn augment_args(command: clap::Command) -> clap::Command {
        let arg = Arg::new(OnError::ID)
            .long("on-error")
            .value_name("WHAT")
            .value_parser(["debug"])
            .requires("autopilot")
            .help(
                "With -a: `debug` starts the debugger where the replay did something else than the recording",
            );
        command.arg(arg)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        OnError::augment_args(command)
    }
}

impl TraceAt {
    const ID: &str = "trace_at";
}

impl FromArgMatches for TraceAt {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TraceAt, clap::Error> {
        let all = matches.get_occurrences::<String>(TraceAt::ID);
        let points = all.map(|all| all.map(|words| words.cloned().collect()).collect());
        Ok(TraceAt { points: points.unwrap_or_default() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = TraceAt::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Which expressions belong to which place is lost in what can be derived.
impl Args for TraceAt {
    fn augment_args(command: clap::Command) -> clap::Command {
        let others =
            ["autopilot", "port", "host", "debugger", "commands", "interpreter", "fullname", "debugger_args"];
        let arg = Arg::new(TraceAt::ID)
            .long("trace-at")
            .num_args(1..)
            .action(ArgAction::Append)
            .value_names(["LOCATION", "EXPR"])
            .conflicts_with_all(others)
            .help("Start no debugger: print what the expressions are at each arrival at LOCATION; can be given several times")
            .long_help(
                "Start no debugger: print what the expressions are at each arrival at LOCATION, which is FILE:LINE, FUNCTION \
                 or *ADDRESS; can be given several times.\n\n\
                 Each line begins with the thread and the last event. The trace's name comes before this option. \
                 It needs gdb.",
            );
        command.arg(arg)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        TraceAt::augment_args(command)
    }
}

/// A process as people name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcessArg {
    Pid(i32),
    Command(String),
}

impl ProcessArg {
    fn parse(text: &str) -> Result<ProcessArg, String> {
        if text.is_empty() {
            return Err("give the number of a process, or the name of its program".into());
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(ProcessArg::Command(text.into()));
        }
        match text.parse() {
            Ok(pid) if pid > 0 => Ok(ProcessArg::Pid(pid)),
            _ => Err("no process has this number (bis ps shows the processes)".into()),
        }
    }
}

/// Where to begin, as people write it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GotoArg {
    Event(u64),
    Place(String),
    End,
}

impl GotoArg {
    fn parse(text: &str) -> Result<GotoArg, String> {
        match text {
            "" => Err("give an event's number, a place, or end".into()),
            "end" => Ok(GotoArg::End),
            _ => Ok(text.parse().map_or_else(|_| GotoArg::Place(text.into()), GotoArg::Event)),
        }
    }
}

/// Two numbers of events, the second greater than the first.
fn steps(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "give the numbers of two events, like 120..135".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from < to { Ok((from, to)) } else { Err("the second event is not behind the first".into()) }
}

/// A number of bytes, with K, M, G or T for powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|end: char| end.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("give a number of bytes, or one with K, M, G or T behind it".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "give a number of bytes, like 512M or 2G".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than there can be".into())
}

/// Show the processes of a recording as a tree
#[derive(Debug, Args)]
#[command(
    after_help = "Where bis is called by the name rr (ln -s bis rr), --rr is understood: so rr's clients can read it.

Examples:
  bis ps
  bis ps make-3 --threads
  bis ps --json | jq .pid"
)]
pub struct Ps {
    /// A line for every thread
    #[arg(short, long)]
    pub threads: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// As rr prints it, which programs read: PID, PPID, EXIT and CMD with tabs between
    #[arg(long, conflicts_with_all = ["json", "threads"])]
    pub rr: bool,
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
  bis info --stops /tmp/trace
  bis info --cache")]
pub struct Info {
    #[command(flatten)]
    pub trace: TraceArg,
    /// Count why its tasks stopped: which calls were traced, and why each was
    #[arg(long)]
    pub stops: bool,
    /// With --stops: one JSON object
    #[arg(long, requires = "stops")]
    pub json: bool,
    /// Show what is remembered between recordings instead: where it is, and how much
    #[arg(long, conflicts_with_all = ["stops", "json", "name"])]
    pub cache: bool,
}

/// List the recordings
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis ls
  bis ls --json")]
pub struct Ls {
    /// Newest first
    #[arg(short = 't', long, alias = "sort-by-age")]
    pub newest_first: bool,
    /// The other way round
    #[arg(short, long)]
    pub reverse: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// As rr prints it, which programs read: only the names
    #[arg(long, conflicts_with = "json")]
    pub rr: bool,
}

/// Remove recordings
#[derive(Debug, Args)]
#[command(after_help = "It asks nothing, says what it removed, and removes nothing that is not a trace.

Examples:
  bis rm make-3 make-4
  bis rm --older-than 7
  bis rm --all
  bis rm --cache")]
pub struct Rm {
    /// Every trace in the folder of the traces
    #[arg(long, conflicts_with_all = ["older_than", "traces"])]
    pub all: bool,
    /// Every trace in the folder of the traces that was begun more than this many days ago
    #[arg(long, value_name = "DAYS", conflicts_with = "traces")]
    pub older_than: Option<u32>,
    /// No trace, but all that is remembered between recordings: it will be found again
    #[arg(long, conflicts_with_all = ["all", "older_than", "traces"])]
    pub cache: bool,
    /// Names of traces, or paths
    #[arg(value_name = "TRACE", required_unless_present_any = ["all", "older_than", "cache"])]
    pub traces: Vec<OsString>,
}

/// Make a recording need nothing of this machine
#[derive(Debug, Args)]
#[command(
    after_help = "A recording replays and can be debugged on another machine as it is, if its folder is copied. Packed, it does not
even share files with this one: what was linked is copied. --symbols and --sources add what debuggers
show. They are looked for on the machine that packs: pack where the program was built, or where its
debugging symbols are installed, and before anything is updated.

Examples:
  bis pack                          the latest recording
  bis pack server-3 --symbols --sources
  tar -cSf server-3.tar -C ~/.local/share/bis server-3"
)]
pub struct Pack {
    /// With the symbols that lie apart from the programs: those of distributions, and those that debuginfod
    /// has fetched
    #[arg(long)]
    pub symbols: bool,
    /// With the source files of all programs and libraries, as far as this machine has them
    #[arg(long)]
    pub sources: bool,
    #[command(flatten)]
    pub trace: TraceArg,
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

/// Print the commands that gdb has in `bis replay`, for a gdb that you start yourself
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis gdbinit > ~/.config/bis.gdb
  gdb -x ~/.config/bis.gdb -ex 'target extended-remote :1234' ./program")]
pub struct Gdbinit {}

/// Make dense texts for recordings to come (started by a recording)
#[derive(Debug, Args)]
pub struct MakeTexts {
    /// Where they are kept
    #[arg(long)]
    pub folder: PathBuf,
    /// What all in there may have together, bytes
    #[arg(long)]
    pub limit: u64,
    /// The number of the descriptor of a program's file, and what to make of it
    #[arg(value_name = "FD=ORDER", required = true, value_parser = order)]
    pub orders: Vec<Order>,
}

/// A text that is to be made of the file that is open there.
#[derive(Clone, Debug)]
pub struct Order {
    pub fd: i32,
    pub order: DenseOrder,
}

fn order(text: &str) -> Result<Order, String> {
    let (fd, order) = text.split_once('=').ok_or("give it as FD=ORDER")?;
    let fd = fd.parse().map_err(|_| "a descriptor is a number".to_owned())?;
    Ok(Order { fd, order: order.parse::<DenseOrder>().map_err(|error| error.to_string())? })
}

#[derive(Debug, Args)]
pub struct TraceArg {
    /// The trace: its name as `bis ls` shows it, or a path
    #[arg(value_name = "TRACE", default_value = "latest")]
    pub name: OsString,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(args: &[&str]) -> Result<Replay, String> {
        let words = ["bis", "replay"].iter().chain(args);
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Replay(replay)) => Ok(*replay),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What rr's users and its clients write.
    #[test]
    fn the_flags_of_rr_are_understood() {
        let delve = replay(&["--dbgport=0", "/tmp/t"]).unwrap();
        assert_eq!((delve.port, delve.trace.name.to_str()), (Some(0), Some("/tmp/t")));
        let midas = replay(&["-h", "127.0.0.1", "-s", "50505", "-p", "812", "-k", "sh-0"]).unwrap();
        assert_eq!((midas.host.as_deref(), midas.port), (Some("127.0.0.1"), Some(50505)));
        assert_eq!((midas.pid, midas.keep_listening), (Some(ProcessArg::Pid(812)), true));
        assert_eq!(midas.trace.name, "sh-0");
        let forked = replay(&["-h", "127.0.0.1", "-s", "1", "-f", "813", "-k", "sh-0"]).unwrap();
        assert_eq!(forked.forked, Some(813));
        let emacs = replay(&["-i=mi", "--fullname", "sh-0"]).unwrap();
        assert_eq!((emacs.interpreter.unwrap().to_str(), emacs.fullname), (Some("mi"), true));
        assert_eq!(replay(&["--interpreter=mi3"]).unwrap().interpreter.unwrap(), "mi3");
        let options =
            replay(&["-o", "-ex", "-o", "continue", "-x", "f", "sh-0", "--", "-q", "--batch"]).unwrap();
        assert_eq!(options.debugger_options, ["-ex", "continue"]);
        assert_eq!(options.debugger_args, ["-q", "--batch"]);
        assert_eq!((options.commands, options.trace.name), (vec!["f".into()], "sh-0".into()));
        let long = replay(&["--onprocess=make", "--goto=7", "--no-redirect-output", "--gdb-x=g"]).unwrap();
        assert_eq!(
            (long.pid, long.goto),
            (Some(ProcessArg::Command("make".into())), Some(GotoArg::Event(7)))
        );
        assert!(long.quiet && replay(&["-e"]).unwrap().end);
        // As people call for help.
        assert_eq!(replay(&["-h"]).unwrap().host.as_deref(), Some(""));
    }

    #[test]
    fn a_debugger_may_come_at_a_divergence() {
        let words = ["-a", "--on-error=debug", "-x", "f", "-s", "0", "t", "--", "-q"];
        let asked = replay(&words).unwrap();
        assert!(asked.autopilot && asked.on_error.debugs && asked.port == Some(0));
        assert!(!replay(&["-a"]).unwrap().on_error.debugs);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            &["-k"][..],
            &["-p", "0"],
            &["-p", ""],
            &["-f", "0"],
            &["-f", "1", "-p", "1"],
            &["-e", "-g", "5"],
            &["-a", "-s", "0"],
            &["-a", "-e"],
            &["-a", "--", "-q"],
            &["--on-error=debug"],
            &["-a", "--on-error=sleep"],
            &["-a", "--on-error=debug", "-e"],
            &["-j", "2"],
            &["--checkpoint-memory", "many"],
            &["--tty", "x", "-q"],
        ] {
            assert!(replay(wrong).is_err(), "{wrong:?}");
        }
    }

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

    #[test]
    fn sizes_have_letters() {
        for (text, bytes) in [("0", 0), ("100", 100), ("512M", 512 << 20), ("2g", 2 << 30), ("1KiB", 1024)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "M", "1.5G", "-1", "1X", "99999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
