//! Memory that somebody outside of the recording can change: a file that another process has mapped shared too, or open for
//! writing, a segment that another one has attached. What that process stores there is in no event, and replay diverges where the
//! program depends on it. So the trace says at the mapping who that was, `bis info` lists it, and a divergence names it.
//!
//! Who has what is looked up in /proc, which shows it for the processes of the same user (to root, for all). One that
//! comes later is not seen.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bis_trace::types::Tid;
use bis_tracee::maps;

use crate::{registry::Key, space::key_of_mapping};

/// How long all such looks of a recording take together: a program may map thousands of files.
const LOOKS_MAX: Duration = Duration::from_millis(300);

/// How much of that is used up, microseconds.
#[derive(Debug, Default)]
pub struct Looked(AtomicU64);

impl Looked {
    /// A process outside of the recording that could change this file, which is new to the recording: what it is called, and what it
    /// has of the file.
    pub fn user_of(&self, key: Key, is_recorded: impl Fn(Tid) -> bool) -> Option<String> {
        if Duration::from_micros(self.0.load(Ordering::Relaxed)) > LOOKS_MAX {
            return None;
        }
        let began = Instant::now();
        let bis = executable("self");
        let uses = |pid: Tid| {
            let is_other = !is_recorded(pid) && executable(&pid.to_string()) != bis;
            is_other.then(|| Use::of(pid, key)).flatten().map(|found| (pid, found))
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Tid));
        let found = pids.filter_map(uses).next();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(took, Ordering::Relaxed);
        let (pid, found) = found?;
        let who = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(format!("{} (process {pid}) {}", who.trim_end(), found.text()))
    }
}

/// What another process has of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Mapped,
    OpenForWriting,
}

impl Use {
    fn of(pid: Tid, key: Key) -> Option<Use> {
        let mappings = maps::read(pid).unwrap_or_default();
        if mappings.iter().any(|m| m.shared && key_of_mapping(m) == key) {
            return Some(Use::Mapped);
        }
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut shown = fds.filter(|fd| fs::metadata(fd.path()).is_ok_and(|m| (m.dev(), m.ino()) == key));
        shown.any(|fd| is_for_writing(pid, &fd.file_name().to_string_lossy())).then_some(Use::OpenForWriting)
    }

    fn text(self) -> &'static str {
        match self {
            Use::Mapped => "has it mapped, too",
            Use::OpenForWriting => "has it open for writing",
        }
    }
}

/// Is this descriptor of a task open for writing?
pub fn is_for_writing(tid: Tid, fd: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

fn executable(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}
