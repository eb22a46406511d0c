//! `bis rm`.

use std::ffi::OsString;

use clap::Args;

/// Remove recordings
#[derive(Debug, Args)]
#[command(
    after_help = "It asks nothing, says what it removed, and removes nothing that is not a trace, or an empty folder.

Examples:
  bis rm make-3 make-4
  bis rm --older-than 7
  bis rm --all
  bis rm --cache"
)]
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
