//! `bis output`.

use std::ffi::OsString;

use clap::Args;

use super::{TraceArg, replay::ProcessArg};

/// Show what the program wrote, each line with the event that wrote it
#[derive(Debug, Args)]
#[command(
    after_help = "`bis replay -p PROCESS -g EVENT` leads to where a line was written, and `written` in gdb shows the same.
The output is found by a replay, which takes as long as `bis replay -a`.

Examples:
  bis output
  bis output --find 'assertion failed'
  bis output make-3 -p cc1 --json | jq .event"
)]
pub struct Output {
    /// Only lines that have this text; the event is the one that wrote its begin
    #[arg(long, value_name = "TEXT")]
    pub find: Option<OsString>,
    /// Only this process, from its last exec; a program's name means the first process that executed it
    #[arg(short, long, value_name = "PID|COMMAND", value_parser = ProcessArg::parse)]
    pub pid: Option<ProcessArg>,
    /// Try it also on a processor that lacks something which the recorded one offered to its programs
    #[arg(long)]
    pub any_cpu: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub trace: TraceArg,
}
