//! `bis ps`.

use clap::Args;

use super::TraceArg;

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
