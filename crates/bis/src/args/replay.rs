//! `bis replay`.

mod on_error;
mod trace_at;

use std::{ffi::OsString, path::PathBuf};

use bis_debug::session::place::{NoPlace, Position};
use clap::{ArgAction, ArgGroup, Args};

use super::{TraceArg, size};
use on_error::OnError;
use trace_at::TraceAt;

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
    /// Try it also on a processor that lacks something which the recorded one offered to its programs
    ///
    /// Without it, such a replay is refused at once. With it, a program that has used what is not here does
    /// something else than it did, which is reported as always.
    #[arg(long)]
    pub any_cpu: bool,
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
    /// The trace is being made: the recorder is at the other end of this descriptor
    #[arg(long, value_name = "FD", hide = true)]
    pub live_fd: Option<i32>,
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

/// A process as people name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcessArg {
    Pid(i32),
    Command(String),
}

impl ProcessArg {
    pub(super) fn parse(text: &str) -> Result<ProcessArg, String> {
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
    Place(Position),
    End,
}

impl GotoArg {
    fn parse(text: &str) -> Result<GotoArg, String> {
        match text {
            "" => Err("give an event's number, a place, or end".into()),
            "end" => Ok(GotoArg::End),
            _ => match text.parse() {
                Ok(event) => Ok(GotoArg::Event(event)),
                Err(_) => text.parse().map(GotoArg::Place).map_err(|error: NoPlace| error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

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
            &["-g", "foo"],
            &["-g", "12+"],
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
}
