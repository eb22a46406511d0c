//! The descriptor table of a checkpoint as a value: which descriptors there were, with their positions.
//!
//! The shadow keeps files and folders open. Pipes, sockets, terminals and all others it closes: the other end
//! would wait for the end of what a shadow has open. So one of those that the program closes is gone.

use std::{
    collections::BTreeMap,
    fs,
    ops::RangeInclusive,
    os::{linux::fs::MetadataExt, unix::fs::FileTypeExt},
};

use bis_trace::types::{Fd, Tid};
use bis_tracee::proc;

/// A descriptor as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    /// (device, inode).
    pub file: (u64, u64),
    /// The shadow has it.
    pub is_held: bool,
    /// Of a regular file, in bytes.
    pub position: Option<u64>,
    /// Its `O_*` flags, with O_CLOEXEC.
    pub flags: i32,
    /// Of a file that may be written through it: its length and when it was changed last (seconds,
    /// nanoseconds).
    pub content: Option<(u64, i64, i64)>,
}

impl Descriptor {
    pub fn of(tid: Tid, fd: Fd) -> Option<Descriptor> {
        let meta = fs::metadata(proc::fd(tid, fd)).ok()?;
        let fields = proc::Fields::of_fd(tid, fd)?;
        let flags = fields.number("flags", 8).and_then(|flags| i32::try_from(flags).ok())?;
        let kind = meta.file_type();
        let is_file = kind.is_file();
        let is_written = is_file && flags & libc::O_ACCMODE != libc::O_RDONLY;
        Some(Descriptor {
            file: (meta.st_dev(), meta.st_ino()),
            is_held: (is_file || kind.is_dir()) && !kind.is_socket(),
            position: if is_file { fields.number("pos", 10) } else { None },
            flags,
            content: is_written.then(|| (meta.st_size(), meta.st_mtime(), meta.st_mtime_nsec())),
        })
    }
}

/// The descriptors of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors(pub BTreeMap<Fd, Descriptor>);

impl Descriptors {
    pub(super) fn of(tid: Tid) -> Descriptors {
        let fds = proc::fds(tid).unwrap_or_default();
        Descriptors(fds.into_iter().filter_map(|fd| Some((fd, Descriptor::of(tid, fd)?))).collect())
    }

    /// Is one of them of this file, and was that written to since, as its descriptor shows?
    pub(super) fn are_of_written(&self, tid: Tid, file: (u64, u64)) -> bool {
        let is_written = |fd: Fd, known: &Descriptor| {
            Descriptor::of(tid, fd).is_some_and(|found| found.file == file && found.content != known.content)
        };
        let mut known = self.0.iter().filter(|(_, known)| known.file == file && known.content.is_some());
        known.any(|(fd, known)| is_written(*fd, known))
    }

    /// Those that a shadow must not keep open, in runs with none between them that it has.
    pub(super) fn others(&self) -> Vec<RangeInclusive<Fd>> {
        let runs = self.0.iter().collect::<Vec<_>>();
        let runs = runs.chunk_by(|(_, one), (_, next)| one.is_held == next.is_held);
        let others = runs.filter_map(|run| match (run.first(), run.last()) {
            (Some((first, known)), Some((last, _))) if !known.is_held => Some(**first..=**last),
            _ => None,
        });
        others.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_closed_in_runs() {
        let table = |fds: &[(i32, bool)]| {
            let descriptor =
                |is_held| Descriptor { file: (1, 2), is_held, position: None, flags: 0, content: None };
            Descriptors(fds.iter().map(|(fd, is_held)| (Fd(*fd), descriptor(*is_held))).collect())
        };
        assert_eq!(table(&[]).others(), []);
        assert_eq!(table(&[(0, true), (7, true)]).others(), []);
        let mixed = table(&[(0, false), (2, false), (3, true), (5, false), (9, true), (251, false)]);
        assert_eq!(mixed.others(), [0..=2, 5..=5, 251..=251].map(|run| Fd(*run.start())..=Fd(*run.end())));
    }
}
