//! The command line, and what follows from it alone: which workloads are meant, where the `bis` to measure
//! is.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};

use crate::workload::Workload;

/// Measure how much slower programs are when they are recorded and replayed.
#[derive(Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    bis-bench --only cp-a,python,git --rounds 3\n  \
    bis-bench --columns n --json figures.json\n  \
    bis-bench --vs 'rr record -o {trace} {cmd}' 'rr replay -a {trace}'\n  \
    bis-bench debug --only watch\n\n\
    A ratio is the time of one run by the time of the native run of the same round. Times are from the start of the\n\
    command to its end. MB are 10^6 bytes. Needs gcc; a workload whose program is missing is left out."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Only these workloads
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// List the workloads
    #[arg(long)]
    pub list: bool,
    /// How many rounds count; one more, for warming up, comes before [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Small sizes and one round: shows that everything works, the figures mean little
    #[arg(long)]
    pub quick: bool,
    /// More columns: the same with these flags of `bis record`
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    pub columns: Vec<Column>,
    /// Another recorder, in the same turns; {trace} becomes the trace's folder, {cmd} the program and its
    /// arguments
    #[arg(long, num_args = 2, value_names = ["RECORD CMD", "REPLAY CMD"])]
    pub vs: Vec<String>,
    /// Write the figures as JSON, with those of every round
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Leave out the round that samples memory
    #[arg(long)]
    pub no_memory: bool,
    /// The bis to measure [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    bis: Option<PathBuf>,
    /// Make the temporary folder here; needs about 2 GB [default: $TMPDIR, else /tmp]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Keep the temporary folder: what was prepared, and the traces of runs that failed
    #[arg(long)]
    pub keep: bool,
    /// The longest time one run may take, in seconds; it fails then
    #[arg(long, value_name = "SECONDS", default_value = "900")]
    limit: u64,
}

#[derive(Subcommand)]
pub enum Command {
    Debug(DebugArgs),
}

/// Measure how long a person waits in a debugger
#[derive(clap::Args)]
pub struct DebugArgs {
    /// Only these rows
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// List the rows
    #[arg(long)]
    pub list: bool,
    /// Small sizes: shows that everything works, the figures mean little
    #[arg(long)]
    pub quick: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The bis to measure [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    bis: Option<PathBuf>,
    /// The longest time one command in the debugger may take, in seconds; its row fails then
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    limit: u64,
}

impl DebugArgs {
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    pub fn bis(&self) -> Result<PathBuf> {
        find_bis(self.bis.as_deref())
    }
}

/// The command to measure, as an absolute path, because workloads run in folders of their own.
fn find_bis(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => env::current_exe().context("failed to find this program's folder")?.with_file_name("bis"),
    };
    path.canonicalize()
        .with_context(|| format!("failed to find {}; build it, or name another with --bis", path.display()))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// `record --no-hooks`
    N,
    /// `record --no-cloning`
    NoCloning,
}

impl Column {
    /// The flag of `bis record` that this column is about.
    pub fn flag(self) -> &'static str {
        match self {
            Column::N => "--no-hooks",
            Column::NoCloning => "--no-cloning",
        }
    }

    /// The column's name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Column::N => "-n",
            Column::NoCloning => "no cloning",
        }
    }
}

impl Args {
    /// How many rounds count, at least 1.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }

    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    /// The workloads that are meant, in the order of `all`.
    pub fn choose<'a>(&self, all: &'a [Workload]) -> Result<Vec<&'a Workload>> {
        if let Some(unknown) = self.only.iter().find(|name| all.iter().all(|workload| workload.name != *name))
        {
            bail!("there is no workload {unknown}; --list shows them");
        }
        let meant =
            |workload: &&Workload| self.only.is_empty() || self.only.iter().any(|name| name == workload.name);
        Ok(all.iter().filter(meant).collect())
    }

    pub fn bis(&self) -> Result<PathBuf> {
        find_bis(self.bis.as_deref())
    }
}
