//! The descriptor table of a checkpoint as a value: which descriptors there were, with their positions.
//!
//! The shadow keeps files and folders open. Pipes, sockets, terminals and all others it closes: the other end
//! would wait for the end of what a shadow has open. So one of those that the program closes is gone.

use std::{
    collections::BTreeMap,
    fs,
    os::{linux::fs::MetadataExt, unix::fs::FileTypeExt},
};

use bis_trace::types::Tid;
use bis_tracee::{Result, proc, shadow::Shadow};

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
    pub fn of(tid: Tid, fd: i32) -> Option<Descriptor> {
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
pub(super) struct Descriptors(pub BTreeMap<i32, Descriptor>);

impl Descriptors {
    pub(super) fn of(tid: Tid) -> Descriptors {
        let fds = proc::fds(tid).unwrap_or_default();
        Descriptors(fds.into_iter().filter_map(|fd| Some((fd, Descriptor::of(tid, fd)?))).collect())
    }

    /// The shadow closes those that it must not keep open.
    pub(super) fn close_others(&self, shadow: &mut Shadow) -> Result<()> {
        let mut first = 0;
        let held = self.0.iter().filter(|(_, known)| known.is_held).map(|(fd, _)| i64::from(*fd));
        for fd in held.chain([i64::from(u32::MAX) + 1]) {
            if first < fd {
                let args = [first.cast_unsigned(), (fd - 1).cast_unsigned(), 0, 0, 0, 0];
                shadow.call(libc::SYS_close_range, args)?;
            }
            first = fd + 1;
        }
        Ok(())
    }
}
