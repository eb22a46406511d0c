//! Files that are mapped shared at a checkpoint. What they contain is not the process's, and a way back
//! leaves it as it is. What is kept of them is enough to see that they were written to since.
//!
//! The kernel dates a file's change when it makes a page of it writable for a process, and not at each write.
//! So a page that the process could write to at the checkpoint is known by its bytes; they are summed, up to
//! a limit. Files in memory (tmpfs) have no such dates: all of their bytes are summed, from the mapping's
//! begin up to the limit.

use std::{fs::File, ops::Range, os::unix::fs::MetadataExt};

use bis_trace::types::{Addr, PAGE_LEN, prot};
use bis_tracee::{Result, bulk::Bulk, maps::Mapping, pagemap::PageMap, shadow::Shadow};
use rustix::fs::{SeekFrom, fstatfs, seek};
use xxhash_rust::xxh3::Xxh3;

use crate::space::open_mapped;

/// Of a file, no more bytes than this are summed; and how many at once.
const SUMMED_MAX: u64 = 16 << 20;
const PIECE: usize = 1 << 20;

/// (device, inode).
type FileKey = (u64, u64);

/// How a file was, as far as its inode says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    file: FileKey,
    len: u64,
    /// Seconds, nanoseconds.
    changed: (i64, i64),
}

impl State {
    fn of(file: &File) -> Option<State> {
        let meta = file.metadata().ok()?;
        Some(State {
            file: (meta.dev(), meta.ino()),
            len: meta.size(),
            changed: (meta.mtime(), meta.mtime_nsec()),
        })
    }
}

/// A file that the process has mapped, and may write to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeptFile {
    mapping: Mapping,
    /// None: it could not be opened.
    state: Option<State>,
    /// Which of its bytes were summed, as addresses; none: those that it holds in memory, whichever they are.
    summed: Option<Vec<Range<Addr>>>,
    sum: u64,
    /// It was said of it that it was written to since.
    is_told: bool,
}

impl KeptFile {
    /// None: the process may not write to what it has mapped there.
    pub(super) fn of(mapping: &Mapping, shadow: &Shadow, pages: &PageMap) -> Result<Option<KeptFile>> {
        if mapping.prot & prot::WRITE == 0 {
            return Ok(None);
        }
        let file = open_mapped(shadow.pid(), mapping);
        let summed = match file.as_ref().filter(|file| is_in_memory(file)) {
            Some(_) => None,
            None => Some(at_most(SUMMED_MAX, there(mapping, pages))),
        };
        let (mapping, state) = (mapping.clone(), file.as_ref().and_then(State::of));
        let kept = KeptFile { mapping, state, summed, sum: 0, is_told: false };
        Ok(Some(KeptFile { sum: kept.sum_now(file.as_ref(), shadow)?, ..kept }))
    }

    /// The sum of what was summed, as it is now.
    fn sum_now(&self, file: Option<&File>, shadow: &Shadow) -> Result<u64> {
        let parts = match (&self.summed, file) {
            (Some(parts), _) => parts.clone(),
            (None, Some(file)) => with_data(file, &self.mapping, SUMMED_MAX),
            (None, None) => return Ok(self.sum),
        };
        Ok(sum_of(&shadow.bulk()?, &parts))
    }

    /// What it is called, if it was written to since and that was not said before; but not where
    /// `is_known` says that others tell of this file.
    pub(super) fn tell_written(
        &mut self,
        shadow: &Shadow,
        is_known: impl Fn(FileKey) -> bool,
    ) -> Result<Option<String>> {
        if self.is_told {
            return Ok(None);
        }
        let file = open_mapped(shadow.pid(), &self.mapping);
        let now = file.as_ref().and_then(State::of);
        let is_other = match (self.state, now) {
            (Some(then), Some(now)) if now.file == then.file => now != then,
            // It has another name by now, or none.
            _ => false,
        };
        if !is_other && self.sum_now(file.as_ref(), shadow)? == self.sum {
            return Ok(None);
        }
        self.is_told = true;
        let is_told_else = self.state.is_some_and(|state| is_known(state.file));
        Ok((!is_told_else).then(|| String::from_utf8_lossy(&self.mapping.name).into_owned()))
    }
}

fn is_in_memory(file: &File) -> bool {
    const TMPFS_MAGIC: i64 = libc::TMPFS_MAGIC;
    fstatfs(file).is_ok_and(|found| found.f_type == TMPFS_MAGIC)
}

/// Where a mapping, in its first bytes, shows what the file holds: elsewhere, to read would make it hold
/// zeros.
fn with_data(file: &File, mapping: &Mapping, len_max: u64) -> Vec<Range<Addr>> {
    let mut parts = Vec::new();
    let end = mapping.offset + mapping.len().min(len_max);
    let mut at = mapping.offset;
    while at < end
        && let Ok(from) = seek(file, SeekFrom::Data(at))
    {
        let to = seek(file, SeekFrom::Hole(from)).unwrap_or(end).min(end);
        if to <= from {
            break;
        }
        let addr = |offset: u64| mapping.start + (offset - mapping.offset);
        parts.push(addr(from)..addr(to));
        at = to;
    }
    parts
}

/// The first of these bytes.
fn at_most(mut room: u64, mut parts: Vec<Range<Addr>>) -> Vec<Range<Addr>> {
    for part in &mut parts {
        part.end = part.end.min(part.start + room);
        room -= part.end - part.start;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The pages that the process has there.
fn there(mapping: &Mapping, pages: &PageMap) -> Vec<Range<Addr>> {
    let mut parts = Vec::new();
    let found = |from, to| parts.push(from..to);
    match pages.each_run(mapping.start, mapping.end, |page| page.is_there(), found) {
        Ok(()) => parts,
        Err(_) => Vec::new(),
    }
}

/// The sum of what these pages hold, and where; pages of zeros are as good as none.
fn sum_of(bulk: &Bulk<'_>, parts: &[Range<Addr>]) -> u64 {
    let (mut sum, mut data) = (Xxh3::new(), Vec::new());
    for part in parts {
        for at in Addr::steps(part.start..part.end, PIECE) {
            let len = part.end.min(at + PIECE as u64) - at;
            bulk.read_upto(at, usize::try_from(len).unwrap_or(0), &mut data);
            for (page, bytes) in at.and_behind(PAGE_LEN).zip(data.chunks(PAGE_LEN)) {
                if bytes.iter().any(|byte| *byte != 0) {
                    sum.update(&page.0.to_le_bytes());
                    sum.update(bytes);
                }
            }
        }
    }
    sum.digest()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::FileExt, path::Path};

    use super::*;

    fn mapping_of(len: u64) -> Mapping {
        let name = b"/file".to_vec();
        Mapping {
            start: Addr(0x10_0000),
            end: Addr(0x10_0000 + len),
            prot: 3,
            shared: true,
            offset: 0x1000,
            device: (0, 1),
            inode: 7,
            name,
        }
    }

    #[test]
    fn of_a_file_in_memory_only_what_it_holds_is_read() {
        let folder = Path::new("/dev/shm");
        if !folder.is_dir() {
            return;
        }
        let path = folder.join(format!("bis-files-{}", std::process::id()));
        let options =
            || fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = options().unwrap();
        fs::remove_file(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"x", 0).unwrap();
        file.write_all_at(b"x", 0x4000).unwrap();
        assert!(is_in_memory(&file));
        assert_eq!(
            with_data(&file, &mapping_of(0x8000), 1 << 20),
            vec![Addr::range(0x10_3000..0x10_4000); 1]
        );
        assert_eq!(with_data(&file, &mapping_of(0x8000), 0x3000), vec![]);
        assert_eq!(
            at_most(5, vec![Addr::range(0..3), Addr::range(7..20), Addr::range(30..31)]),
            [Addr::range(0..3), Addr::range(7..9)]
        );
    }
}
