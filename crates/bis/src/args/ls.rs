//! `bis ls`.

use clap::Args;

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
