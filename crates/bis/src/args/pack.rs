//! `bis pack`.

use clap::Args;

use super::TraceArg;

/// Make a recording need nothing of this machine
#[derive(Debug, Args)]
#[command(
    after_help = "A recording replays and can be debugged on another machine as it is, if its folder is copied. Packed, it does not
even share files with this one: what was linked is copied. --symbols and --sources add what debuggers
show. They are looked for on the machine that packs: pack where the program was built, or where its
debugging symbols are installed, and before anything is updated.

Examples:
  bis pack                          the latest recording
  bis pack server-3 --symbols --sources
  tar -cSf server-3.tar -C ~/.local/share/bis server-3"
)]
pub struct Pack {
    /// With the symbols that lie apart from the programs: those of distributions, and those that debuginfod
    /// has fetched
    #[arg(long)]
    pub symbols: bool,
    /// With the source files of all programs and libraries, as far as this machine has them
    #[arg(long)]
    pub sources: bool,
    #[command(flatten)]
    pub trace: TraceArg,
}
