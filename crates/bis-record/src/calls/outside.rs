//! Memory that somebody outside of the recording can change: a file that another process has mapped shared
//! too, or open for writing, a segment that another one has attached. What that process stores there is in no
//! event, and replay diverges where the program depends on it. So the trace says at the mapping who that was,
//! `bis info` lists it, and a divergence names it.
//!
//! Who has what is looked up in /proc, which shows it for the processes of the same user (to root, for all).
//! One that comes later is not seen.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bis_trace::types::{Fd, Tid};
use bis_tracee::{maps, proc};

use crate::space::{Key, key_of_mapping};

/// How long all such looks of a recording take together: a program may map thousands of files.
const LOOKS_MAX: Duration = Duration::from_millis(300);

/// How much of that is used up, microseconds.
#[derive(Debug, Default)]
pub struct Looked(AtomicU64);

impl Looked {
    /// A process outside of the recording that could change this file, which is new to the recording: what it
    /// is called, and what it has of the file.
    pub fn user_of(&self, key: Key, is_recorded: impl Fn(Tid) -> bool) -> Option<String> {
        if Duration::from_micros(self.0.load(Ordering::Relaxed)) > LOOKS_MAX {
            return None;
        }
        let began = Instant::now();
        let bis = fs::read_link("/proc/self/exe").ok();
        let uses = |pid: Tid| {
            let is_other = !is_recorded(pid) && proc::executable(pid) != bis;
            is_other.then(|| Use::of(pid, key)).flatten().map(|found| (pid, found))
        };
        let found = proc::processes().into_iter().find_map(uses);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(took, Ordering::Relaxed);
        let (pid, found) = found?;
        Some(format!("{} (process {pid}) {}", proc::name(pid), found.text()))
    }
}

/// Does a process outside of the recording map this file shared?
pub fn is_mapped_outside(key: Key, is_ours: impl Fn(Tid) -> bool) -> bool {
    let maps = |pid: &Tid| {
        let mappings = maps::read(*pid).unwrap_or_default();
        mappings.iter().any(|m| m.shared && key_of_mapping(m) == key)
    };
    proc::processes().into_iter().filter(|pid| !is_ours(*pid)).any(|pid| maps(&pid))
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
        let is_it = |fd: Fd| fs::metadata(proc::fd(pid, fd)).is_ok_and(|m| (m.dev(), m.ino()) == key);
        let mut fds = proc::fds(pid).unwrap_or_default().into_iter();
        fds.any(|fd| is_it(fd) && is_for_writing(pid, fd)).then_some(Use::OpenForWriting)
    }

    fn text(self) -> &'static str {
        match self {
            Use::Mapped => "has it mapped, too",
            Use::OpenForWriting => "has it open for writing",
        }
    }
}

/// Is this descriptor of a task open for writing?
pub fn is_for_writing(tid: Tid, fd: Fd) -> bool {
    proc::open_flags(tid, fd).is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}
