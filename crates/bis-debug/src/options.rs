//! What a session is to be about, and what can be wrong with that.

use std::{
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bis_replay::{Halt, ReplayError};
use bis_trace::{
    Trace, TraceError,
    event::{Backing, DomainEntry, Effect, EventKind, FileEntry, Program},
    types::DomainId,
};

use crate::session::{place::Position, source::LiveProgram};

/// Where a session begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begin {
    /// At the first instruction of the process (of the copy, for [`Which::Forked`]).
    FirstExec,
    /// At this event, in whatever process it is.
    Event(u64),
    /// At a place as `when` prints it.
    Place(Position),
    /// At the end of the process.
    End,
    /// Where the replay does something else than what was recorded.
    Divergence,
}

/// The process that a session begins in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// The one that was recorded first.
    First,
    /// This one, from its last exec; from its fork if it has none.
    Pid(i32),
    /// This one, from its fork; one that vfork has made, from its exec.
    Forked(i32),
    /// The first one that executed a program of this name or path.
    Command(String),
    /// The one of this domain, from the begin of that.
    Domain(DomainId),
}

/// Is told of news as they come, in their order with what the program writes.
pub type Listener = fn(News<'_>);

/// What there is to say.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A breakpoint's command has printed this in a task, when this event was the last one.
    Printed { tid: i32, event: u64, text: &'a [u8] },
    /// For people, in lines.
    Said(&'a [u8]),
}

#[derive(Debug)]
pub struct Options {
    pub which: Which,
    pub begin: Begin,
    /// Wait for another debugger when one has left.
    pub keep_listening: bool,
    /// Give the debugger the files as they were when they were recorded.
    pub serve_files: bool,
    /// Leave out what the program wrote.
    pub quiet: bool,
    /// How much memory checkpoints may take, in bytes.
    pub checkpoint_memory: Option<u64>,
    /// Where what the program wrote goes; none: our standard output and error.
    pub echo_to: Option<File>,
    /// The listener that is told of what breakpoints print, and of other news. None: the debugger.
    pub listener: Option<Listener>,
    /// The program that the trace is being made of: the session follows it.
    pub program: Option<LiveProgram>,
}

#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    #[error("failed to debug {what}: the trace has no such process (bis ps shows its processes)")]
    NoProcess { what: String },
    #[error(
        "failed to debug: this recording was made by an older bis, and does not say which instructions in memory are the program's \
         own; bis replay -a replays it, and a new recording can be debugged"
    )]
    Older,
    #[error("failed to debug: what is asked for has ended before event {0} (bis dump shows its events)")]
    NoEvent(u64),
    #[error("failed to go to that event: {0} (bis dump shows its events)")]
    Outside(String),
    #[error("failed to compare: the trace has no steps (record them: bis record --steps A..B)")]
    NoSteps,
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The replay that was to be looked at does what was recorded.
    #[error(
        "failed to go to the divergence: this time the replay of that process went on to its end without one"
    )]
    NoDivergence,
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The trace ends before the process begins.
    #[error("failed to debug: {0}")]
    Cut(String),
    #[error("failed to {what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

impl From<Halt> for DebugError {
    fn from(halt: Halt) -> DebugError {
        match halt {
            Halt::Failed(error) => DebugError::Replay(error),
            Halt::Cut(why) => DebugError::Cut(why),
            Halt::Seen(event) => {
                DebugError::Cut(format!("a breakpoint was seen by the program at event {event}"))
            }
            Halt::Cancelled => DebugError::Cut("the replay was given up".into()),
        }
    }
}

impl Which {
    /// The domain in which the process begins.
    pub(crate) fn entry<'t>(&self, trace: &'t Trace) -> Result<&'t DomainEntry, DebugError> {
        let entry = match self {
            Which::First => trace.domains().min_by_key(|entry| entry.seq),
            Which::Pid(pid) => {
                trace.domains().filter(|entry| entry.pid.0 == *pid).max_by_key(|entry| entry.seq)
            }
            Which::Forked(pid) => {
                let forked = |entry: &&DomainEntry| entry.pid.0 == *pid && entry.base.is_copy();
                // One that vfork has made has memory of its own only from its exec on.
                let of_pid = |entry: &&DomainEntry| entry.pid.0 == *pid;
                trace.domains().find(forked).or_else(|| trace.domains().find(of_pid))
            }
            Which::Command(name) => trace.domains().find(|entry| executes(entry, name)),
            Which::Domain(domain) => trace.domains().find(|entry| entry.domain == *domain),
        };
        let what = match self {
            Which::First => "the first process".to_owned(),
            Which::Pid(pid) | Which::Forked(pid) => format!("process {pid}"),
            Which::Command(name) => name.clone(),
            Which::Domain(domain) => format!("domain {domain}"),
        };
        entry.ok_or(DebugError::NoProcess { what })
    }
}

/// The path of the executable that a domain runs.
pub(crate) fn executable_of<'t>(trace: &'t Trace, mut entry: &'t DomainEntry) -> Option<&'t Path> {
    loop {
        if let Some(program) = entry.base.program() {
            return Some(Path::new(std::ffi::OsStr::from_bytes(program.path)));
        }
        let (parent, _) = entry.base.copied_from()?;
        entry = trace.domains().find(|other| other.domain == parent)?;
    }
}

/// A trace from before it said what is bis's own shows nothing of the program.
pub(crate) fn check_format(trace: &Trace) -> Result<(), DebugError> {
    if trace.says_ours() { Ok(()) } else { Err(DebugError::Older) }
}

/// An executable, for a debugger to read symbols from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executable {
    /// Where its file is: where it was, or in the trace.
    pub path: PathBuf,
    /// Where it was, if the machine has it no more: there is nothing now, or another file.
    pub replaced: Option<PathBuf>,
    /// Is the dynamic linker that it asks for another one by now? A debugger finds it by its name.
    pub has_other_linker: bool,
}

/// The executable that the session begins in.
pub(crate) fn executable(trace: &Trace, options: &Options) -> Result<Executable, DebugError> {
    let entry = options.which.entry(trace)?;
    let none = || DebugError::NoProcess { what: format!("process {}", entry.pid) };
    let was = executable_of(trace, entry).ok_or_else(none)?;
    let path = symbols_of(trace, entry).ok_or_else(none)?;
    let has_other_linker =
        image(trace, entry).iter().skip(1).any(|mapped| !trace.is_still_there(mapped.file));
    let replaced = (path != was).then(|| was.to_owned());
    Ok(Executable { path, replaced, has_other_linker })
}

/// The files of a fresh program: its own, and its dynamic linker if it has one.
fn image<'t>(trace: &'t Trace, mut entry: &'t DomainEntry) -> Vec<&'t FileEntry> {
    while let Some((parent, _)) = entry.base.copied_from() {
        let Some(parent) = trace.domains().find(|other| other.domain == parent) else { return Vec::new() };
        entry = parent;
    }
    let Some(Program { path, .. }) = entry.base.program() else { return Vec::new() };
    let Some(Ok(first)) = trace.events(entry.domain).next() else { return Vec::new() };
    let EventKind::Start(start) = first.kind else { return Vec::new() };
    let mut files: Vec<&FileEntry> = Vec::new();
    for effect in &start.outcome.effects {
        if let Effect::Map { backing: Backing::File { file, .. }, .. } = effect
            && files.iter().all(|known| known.file != *file)
            && let Ok(file) = trace.file(*file)
            // Memory that was kept as a file: of the recorder's own.
            && !file.path.is_empty()
        {
            files.push(file);
        }
    }
    // By its name where that is known: a program may be mapped above its linker.
    if let Some(at) = files.iter().position(|file| file.path == *path) {
        files.swap(0, at);
    }
    files
}

/// Where a debugger finds the program of a domain: where it was, or what the trace has kept of it, if another
/// file has its name now.
pub(crate) fn symbols_of(trace: &Trace, entry: &DomainEntry) -> Option<PathBuf> {
    let was = executable_of(trace, entry)?;
    match image(trace, entry).first() {
        Some(file) => Some(file_for_debugger(trace, file).unwrap_or_else(|| was.to_owned())),
        None => Some(was.to_owned()),
    }
}

/// Where the trace has a file that the machine has no more. None: the machine has it, or the trace's own was
/// changed as well.
pub(crate) fn file_for_debugger(trace: &Trace, entry: &FileEntry) -> Option<PathBuf> {
    if entry.path.is_empty() || trace.is_still_there(entry.file) {
        return None;
    }
    trace.check_file(entry.file).ok()?;
    std::path::absolute(trace.file_path(entry.file).ok()?).ok()
}

pub(crate) fn executes(entry: &DomainEntry, name: &str) -> bool {
    let Some(Program { path, argv, .. }) = entry.base.program() else { return false };
    let tail = format!("/{name}");
    [Some(path), argv.first()]
        .into_iter()
        .flatten()
        .any(|word| word == name.as_bytes() || word.ends_with(tail.as_bytes()))
}
