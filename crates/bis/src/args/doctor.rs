//! `bis doctor`.

use std::path::PathBuf;

use clap::Args;

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
