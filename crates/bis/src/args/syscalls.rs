//! `bis syscalls`.

use clap::Args;

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
