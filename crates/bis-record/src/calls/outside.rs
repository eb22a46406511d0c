//! Memory that somebody outside of the recording can change: a file that another process has mapped shared too, or open for
//! writing, a segment that another one has attached. What that process stores there is in no event, and replay diverges where the
//! program depends on it. So the trace says at the mapping who that was, `bis info` lists it, and a divergence names it.
//!
//! Who has what is looked up in /proc, which shows it for the processes of the same user (to root, for all). One that
//! comes later is not seen.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bis_trace::{event::OUTSIDE, types::Tid};
use bis_tracee::{maps, proc};

use super::memory::key_of_mapping;
use crate::{domain::Domain, error::Result, registry::Key};

/// How long all such looks of a recording take together: a program may map thousands of files.
const LOOKS_MAX: Duration = Duration::from_millis(300);

/// How much of that is used up, microseconds.
#[derive(Debug, Default)]
pub struct Looked(AtomicU64);

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
        let is_it = |fd: i32| fs::metadata(proc::fd(pid, fd)).is_ok_and(|m| (m.dev(), m.ino()) == key);
        let mut fds = proc::fds(pid).into_iter();
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
pub fn is_for_writing(tid: Tid, fd: i32) -> bool {
    proc::open_flags(tid, fd).is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

impl Domain {
    /// The task has mapped what is behind `key`, which is new to the recording: notes who else could change it.
    pub(super) fn note_outside(&self, tid: Tid, key: Key, name: &[u8], addr: u64) -> Result<()> {
        let looked = &self.session.looked.0;
        if Duration::from_micros(looked.load(Ordering::Relaxed)) > LOOKS_MAX {
            return Ok(());
        }
        let began = Instant::now();
        let bis = fs::read_link("/proc/self/exe").ok();
        let uses = |pid: Tid| {
            let is_other = !self.session.is_recorded(pid) && proc::executable(pid) != bis;
            is_other.then(|| Use::of(pid, key)).flatten().map(|found| (pid, found))
        };
        let found = proc::processes().into_iter().find_map(uses);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        looked.fetch_add(took, Ordering::Relaxed);
        let Some((pid, found)) = found else { return Ok(()) };
        let text = format!(
            "{OUTSIDE}{}, mapped by task {tid} at {addr:#x}: {} (process {pid}) {}",
            String::from_utf8_lossy(name),
            proc::name(pid),
            found.text()
        );
        self.session.note(self.session.writer.next_seq(), text)
    }
}
