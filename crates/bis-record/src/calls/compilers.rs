//! What compilers share with each other though none of them is to wait for another: without this, a tree of
//! compilers that could use all cores has one, because each waits for the run tokens of all others.
//!
//! - Archives (`ar(5)`: a package that Go has compiled, a static library) that are mapped shared through a
//!   descriptor which cannot write: each Go compiler maps those of all that it imports, and has them to its
//!   end. Nobody stores into one through memory, so such a mapping is a view like a private one
//!   (`calls/views.rs`), and writes by calls are told. Where somebody has the same file mapped so that it can
//!   be written, it is an object as before.
//! - The counters of Go's programs (golang.org/x/telemetry): one file for all compilers of a version, mapped
//!   shared and writable by each. Its mapping is refused, as on a file system that has none: the counters
//!   stay in the program then, and it goes on.

use std::{fs::File, os::unix::fs::FileExt, path::Path, sync::atomic::Ordering};

use bis_syscalls::Call;
use bis_trace::types::{Fd, Tid};
use bis_tracee::proc;

use crate::{crew::Crew, error::Result};

const MAP_TYPE: u64 = libc::MAP_TYPE as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const PRIVATE: u64 = libc::MAP_PRIVATE as u64;

/// How an archive begins.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// Is the file an archive?
pub(super) fn is_archive(file: &File) -> bool {
    let mut head = [0; ARCHIVE.len()];
    file.read_exact_at(&mut head, 0).is_ok() && head == ARCHIVE
}

/// Is it one of the files in which Go's programs count what they do?
/// `~/.config/go/telemetry/local/compile@go1.26.8-go1.26.8-linux-amd64-2026-11-26.v1.count`
fn is_counters(name: &Path) -> bool {
    let is_of_version_1 = name.to_str().is_some_and(|name| name.ends_with(".v1.count"));
    is_of_version_1 && name.parent().is_some_and(|folder| folder.ends_with("telemetry/local"))
}

impl Crew {
    /// At the entry of an mmap: is it that of such counters? The first in a recording is noted.
    pub(super) fn maps_counters(&self, tid: Tid, call: &Call) -> Result<bool> {
        let [_, _, _, flags, fd, _] = call.args;
        let fd = Fd::of_arg(fd);
        let is_shared = flags & MAP_ANONYMOUS == 0 && flags & MAP_TYPE != PRIVATE;
        if !is_shared || !proc::is_open_for_writing(tid, fd) {
            return Ok(false);
        }
        let Some(name) = proc::link(tid, &format!("fd/{fd}")).filter(|name| is_counters(name)) else {
            return Ok(false);
        };
        if !self.session.counters_refused.swap(true, Ordering::Relaxed) {
            let text = format!(
                "task {tid} wants to count in {}, as others do: refused (ENODEV), and so to all that come \
                 after it, so that none waits for another",
                name.display()
            );
            self.session.note(self.session.writer.next_seq(), text)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn counters_are_known_by_their_folder_and_their_version() {
        let folder = Path::new("/root/.config/go/telemetry/local");
        assert!(is_counters(&folder.join("compile@go1.26.8-go1.26.8-linux-amd64-2026-11-26.v1.count")));
        assert!(!is_counters(&folder.join("weekends")));
        assert!(!is_counters(&folder.join("compile@go1.30-2028-11-26.v2.count")));
        assert!(!is_counters(Path::new("/tmp/my.v1.count")));
    }

    #[test]
    fn an_archive_is_known_by_how_it_begins() {
        let file = File::from(memfd_create("file", MemfdFlags::CLOEXEC).unwrap());
        assert!(!is_archive(&file), "it is empty");
        file.write_all_at(b"!<arch>\n__.PKGDEF       0", 0).unwrap();
        assert!(is_archive(&file));
        file.write_all_at(b"\x7fELF", 0).unwrap();
        assert!(!is_archive(&file));
    }
}
