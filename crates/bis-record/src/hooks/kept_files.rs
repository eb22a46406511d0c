//! The files that hooks map by themselves: not to be executed, and privately, or shared by a descriptor that
//! cannot write to it. They are files of the system that nobody changes, which the trace has kept already,
//! and that a domain has mapped before: libraries, for the most part, of which each process maps the same few
//! pieces.
//!
//! A hook knows such a file by what the trace's store knows it by ([`Identity`]), which fstat says
//! (`memory.c`), and logs its number.

use std::sync::{Mutex, PoisonError};

use bis_agent::hooks::{KEPT_MAX, KeptFile};
use bis_trace::{Identity, types::FileId};
use bis_tracee::area::Area;

/// The last that were mapped by a traced call come first; as many as hooks have room for.
#[derive(Debug, Default)]
pub struct KeptFiles(Mutex<Vec<KeptFile>>);

impl KeptFiles {
    /// This file of the trace was mapped, by a call that was traced.
    pub fn note(&self, identity: &Identity, file: FileId) {
        let Identity { dev, ino, len, mtime_ns, ctime_ns } = *identity;
        let file = u64::from(file.0) + 1;
        let [mtime_ns, ctime_ns] = [mtime_ns, ctime_ns].map(i64::cast_unsigned);
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|known| (known.dev, known.ino) != (dev, ino));
        files.insert(0, KeptFile { file, dev, ino, len, mtime_ns, ctime_ns });
        files.truncate(KEPT_MAX);
    }

    /// Tells hooks which they are. Only while none of their tasks runs.
    pub fn show(&self, area: &Area) {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        area.set_kept(&files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_were_mapped_come_first_and_each_is_there_once() {
        let files = KeptFiles::default();
        let identity = |ino| Identity { dev: 1, ino, len: 3, mtime_ns: 4, ctime_ns: 0 };
        let known = || -> Vec<u64> { files.0.lock().unwrap().iter().map(|kept| kept.file).collect() };
        files.note(&identity(1), FileId(3));
        files.note(&identity(2), FileId(4));
        assert_eq!(known(), [5, 4]);
        files.note(&Identity { mtime_ns: 9, ..identity(1) }, FileId(7));
        assert_eq!(known(), [8, 5], "a file that has changed is another one of the trace");
        (0..u32::try_from(KEPT_MAX).unwrap() - 1)
            .for_each(|n| files.note(&identity(u64::from(n) + 3), FileId(n + 10)));
        assert_eq!((known().len(), known().last()), (KEPT_MAX, Some(&8)), "the one before has given way");
    }
}
