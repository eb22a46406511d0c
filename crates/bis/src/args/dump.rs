//! `bis dump`.

use clap::{Args, ValueEnum};

use super::TraceArg;

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
    /// Only system calls of this name, also of those that were made without a stop (hooked); can be given
    /// several times
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
