//! The files that hooks map by themselves: privately, and not to be executed. They are files of the system
//! that nobody changes, which the trace has kept already, and that a domain has mapped before: libraries, for
//! the most part, of which each process maps the same few pieces.
//!
//! A hook knows such a file by what fstat says of it (`memory.c`), as the trace's store does
//! ([`bis_trace::files::FileStore::find`]), and logs its number.

use std::{
    fs::Metadata,
    os::linux::fs::MetadataExt,
    sync::{Mutex, PoisonError},
};

use bis_agent::hooks::{KEPT_MAX, KeptFile};
use bis_trace::types::FileId;
use bis_tracee::area::Area;

/// How many are remembered. The first [`KEPT_MAX`] of them are told to hooks.
const KNOWN_MAX: usize = 256;

/// The last that were mapped by a traced call come first.
#[derive(Debug, Default)]
pub struct KeptFiles(Mutex<Vec<KeptFile>>);

impl KeptFiles {
    /// A file of which this is what stat says was mapped, by a call that was traced.
    pub fn note(&self, meta: &Metadata, file: FileId) {
        let mtime_ns = meta.st_mtime().wrapping_mul(1_000_000_000).wrapping_add(meta.st_mtime_nsec());
        let kept = KeptFile {
            file: u64::from(file.0) + 1,
            dev: meta.st_dev(),
            ino: meta.st_ino(),
            len: meta.st_size(),
            mtime_ns: mtime_ns.cast_unsigned(),
        };
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|known| (known.dev, known.ino) != (kept.dev, kept.ino));
        files.insert(0, kept);
        files.truncate(KNOWN_MAX);
    }

    /// Tells hooks which they are. Only while none of their tasks runs.
    pub fn show(&self, area: &Area) {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        area.set_kept(&files[..files.len().min(KEPT_MAX)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_was_mapped_comes_first_and_each_is_there_once() {
        let files = KeptFiles::default();
        let [one, other] = ["/proc/self/exe", "/proc/self"].map(|path| std::fs::metadata(path).unwrap());
        let known = || -> Vec<u64> { files.0.lock().unwrap().iter().map(|kept| kept.file).collect() };
        files.note(&one, FileId(3));
        files.note(&other, FileId(4));
        assert_eq!(known(), [5, 4]);
        files.note(&one, FileId(7));
        assert_eq!(known(), [8, 5], "a file that has changed is another one of the trace");
        for _ in 0..2 * KNOWN_MAX {
            files.note(&one, FileId(7));
        }
        assert_eq!(known().len(), 2);
    }
}
