//! `bis info`.

use clap::Args;

use super::TraceArg;

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
