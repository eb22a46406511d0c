//! The command line: what can be asked, with its help and examples, a module for each command. What is done
//! is in `commands`.

mod doctor;
mod dump;
mod info;
mod ls;
mod make_texts;
mod manual;
mod output;
mod pack;
mod ps;
mod record;
mod replay;
mod rm;
mod syscalls;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::env;

pub use doctor::Doctor;
pub use dump::{Dump, EventName};
pub use info::Info;
pub use ls::Ls;
pub use make_texts::{MakeTexts, Order};
pub use manual::{Completions, Gdbinit, Man};
pub use output::Output;
pub use pack::Pack;
pub use ps::Ps;
pub use record::{CpuArg, Nested, OnReplayArg, Record, Run, TicksArg};
pub use replay::{GotoArg, ProcessArg, Replay};
pub use rm::Rm;
pub use syscalls::Syscalls;

const EXIT_STATUSES: &str = "Exit status:
  record  the program's own, or 128 + the signal that killed it;
          125 bis failed, 126 the program cannot be executed, 127 it was not found
  run     as record
  replay  the debugger's own; with -a: 0 replayed to the end, 1 divergence, 2 bad command line or trace,
          3 the trace was cut short and replayed as far as it goes
  output  as replay -a
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
    Output(Output),
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

#[derive(Debug, Args)]
pub struct TraceArg {
    /// The trace: its name as `bis ls` shows it, or a path
    #[arg(value_name = "TRACE", default_value = "latest")]
    pub name: OsString,
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

#[cfg(test)]
mod tests {
    use super::*;

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
