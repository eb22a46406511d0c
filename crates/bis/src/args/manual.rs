//! What tells of bis itself, or sets up other programs for it: `bis completions`, `bis man`, `bis gdbinit`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print a script that completes bis's command line in your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis completions bash > ~/.local/share/bash-completion/completions/bis
  bis completions fish > ~/.config/fish/completions/bis.fish")]
pub struct Completions {
    pub shell: Shell,
}

/// Print the manual page, or write those of all commands into a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis man | man -l -
  bis man --dir ~/.local/share/man/man1")]
pub struct Man {
    /// Write bis.1, bis-record.1, ... into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Print the commands that gdb has in `bis replay`, for a gdb that you start yourself
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bis gdbinit > ~/.config/bis.gdb
  gdb -x ~/.config/bis.gdb -ex 'target extended-remote :1234' ./program")]
pub struct Gdbinit {}
