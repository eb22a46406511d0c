//! The recorder: domains, scheduling, the making of events.
//!
//! The way of a program: [`record`] opens the trace and starts a thread for the first domain, which starts
//! the program under its supervision (`supervise.rs`). Each system call of a task stops at the supervisor,
//! which looks the call up in the table of `bis-syscalls`, lets it be made, and writes an event of what
//! changed (`call.rs`; special ones in `calls/`). fork and exec make new domains (`born.rs`), which get
//! threads of their own.
#![forbid(unsafe_code)]

mod affinities;
mod base;
mod births;
mod born;
mod call;
mod calls;
mod chaos;
mod checkpoints;
mod cores;
mod crew;
mod domain;
mod ends;
mod error;
mod events;
mod fault;
mod found;
mod gather;
mod guide;
mod guided;
mod halted;
mod hooks;
mod late;
mod latecomers;
mod limits;
mod linger;
mod live;
mod mail;
mod places;
mod process;
mod registry;
mod reports;
mod schedule;
mod seed;
mod session;
mod signals;
mod slow;
mod space;
mod stdio;
mod stuck;
mod supervise;
mod task;
mod tokens;
mod traced;
mod turns;
mod views;

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use bis_trace::types::{EventSeq, TickKind, Tid};
pub use bis_tracee::features::Level;
use bis_tracee::ours;
pub use calls::left_out::Pattern;
pub use checkpoints::replayed::{OnReplay, Stretch};
pub use error::RecordError;
pub use fault::{Fault, OnFault};
pub use guide::{Guide, Guiding, Points, Stand, Watched, Wish};
pub use hooks::makers::{TextMakers, TextOrders};

use seed::Seed;
use session::Session;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub begins: Begins,
    /// The executable: an absolute path, or one relative to `cwd`.
    pub program: PathBuf,
    /// All arguments, the zeroth included.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; none: ours.
    pub cwd: Option<PathBuf>,
    /// A folder that does not exist or is empty.
    pub trace_dir: PathBuf,
    /// Record checksums of memory: slow, for finding divergences. None: no such sums.
    pub checksum: Option<Checksum>,
    /// Single-step all tasks from the first of these events to the second, and record their registers behind
    /// each instruction. Without hooks only, and without chaos.
    pub steps: Option<(EventSeq, EventSeq)>,
    /// How long a task runs while others of its domain could.
    pub slice: Duration,
    /// Draw from this seed who runs when, and how much reads and writes move, to meet rare bugs.
    pub chaos: Option<u64>,
    /// What measures how far a task has come.
    pub ticks: TickKind,
    /// With [`TickKind::Software`]: which text counts.
    pub counts: Counting,
    /// The most that `cpuid` may tell the programs. Less than [`Level::Native`] takes hooks, or a processor
    /// that can make `cpuid` fault.
    pub cpu: Level,
    /// Use the agent's hooks: calls that programs make often do not stop.
    pub hooks: bool,
    /// Clone the blocks of large reads into the trace, where the filesystem can.
    pub cloning: bool,
    /// Record on until all that the program has left running has ended, however long that is.
    pub wait: bool,
    /// The folder in which it is remembered which instructions of which programs the hooks replace. None:
    /// found anew each time.
    pub site_cache: Option<PathBuf>,
    /// What dense texts beside that folder may have together, bytes.
    pub text_bytes_max: u64,
    /// What makes dense texts of large programs while the recording goes on. None: the recorder makes them,
    /// and the program waits.
    pub text_makers: Option<TextMakers>,
    /// The folder in which it is remembered what content files have.
    pub known_files: Option<PathBuf>,
    /// Folders on the trace's filesystem for what all traces share: the first that can be used is.
    pub stores: Vec<PathBuf>,
    /// Commands that are not recorded.
    pub left_out: Vec<Pattern>,
    /// What looks at a process with which the recording fails, before it is killed.
    pub on_fault: Option<OnFault>,
    /// What executes again what was recorded since a checkpoint, where a program asks for it. None: nothing,
    /// and such a request fails.
    pub on_replay: Option<OnReplay>,
    /// The guide says how far the program goes on. Without hooks only. None: it runs.
    pub guide: Option<Guide>,
}

/// What is recorded from where on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// A program, from its first instruction on.
    WithProgram,
    /// A program is started, and each process of it is recorded from where it asks for its first checkpoint.
    WithCheckpoints,
    /// This process, from where it is, and no program is started: `program`, `argv` and `cwd` are then what
    /// it runs, and `env` means nothing.
    WithProcess(Tid),
}

impl Begins {
    /// The process that is there already.
    pub fn found(self) -> Option<Tid> {
        if let Begins::WithProcess(pid) = self { Some(pid) } else { None }
    }
}

/// How often memory is summed, and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Checksum {
    /// What the program can write, at every traced event.
    Events,
    /// As `Events`, and each system call is traced, also those that hooks could make.
    Calls,
    /// As `Calls`, and what the program has of files and cannot write is summed, too: text and constants.
    All,
}

/// Where the text of a program counts, if there are counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// In each domain with several tasks, from the second on.
    WithThreads,
    /// Where tasks have had to be stopped in the middle of their computation a few times.
    WhereNeeded,
}

/// How a recording has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The program's exit status, or 128 plus the signal that killed it.
    pub exit_code: u8,
    /// The processes that the program had left running, and that ended with the recording: name and process
    /// id.
    pub left: Vec<(String, Tid)>,
    /// Those that stood in for programs outside of the recording, which go on.
    pub go_on: Vec<(String, Tid)>,
    /// Has anything been recorded? Not where a program made no checkpoint that was to begin with one.
    pub is_recorded: bool,
    /// Why processes that asked for their first checkpoint did not get it.
    pub refused: Vec<String>,
}

/// Records a run of a program and of all its descendants. What the program has left running when it ends is
/// recorded on for a moment, or with [`Options::wait`] until it has ended; then it is ended, because what is
/// recorded cannot go on without us.
///
/// # Errors
/// When the program could not be started, the trace could not be written, or bis met something that it cannot
/// record. What was recorded until then stays readable.
pub fn record(options: &Options) -> Result<Ended, RecordError> {
    // First of all: a limit of files' sizes that the log exceeds has a signal, too.
    let coming = ours::catch_signals().map_err(|source| RecordError::Os { what: "catch signals", source })?;
    let session = Arc::new(Session::new(options)?);
    session.run(coming, |session| match options.begins {
        Begins::WithProgram => session.plant(Seed::Program),
        Begins::WithCheckpoints => live::begin(session),
        Begins::WithProcess(pid) => session.plant(Seed::Image(pid)),
    })
}
