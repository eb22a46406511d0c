//! The trace's `clones` file: what the program read in large pieces, as blocks that it has in common with the
//! files that they were read from.
//!
//! On a filesystem that clones blocks (btrfs, XFS, ...) a range of a file becomes a range of another one
//! without its bytes being copied, and whoever writes to either gets new blocks. So a large read costs the
//! trace a few bytes of the log: an event says where in `clones` its bytes are ([`crate::event::Cloned`]).
//! The file only grows, and a range is in it before the event that names it goes to the log: a trace that is
//! cut short anywhere has what its events need.
//!
//! Whether a clone holds what the program read is not known here: whoever makes it compares. The log's
//! checksums do not cover the file, so each event has a sum of its own; [`Source::read`] checks it.
//!
//! The cloning itself is one ioctl that takes a pointer, so it is not in this crate, which has no unsafe
//! code.

use std::{
    fs::{self, File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    error::{Result, TraceError},
    event::Cloned,
    folder::CLONES,
    opening::NO_LINKS,
};

/// Two empty files, by which it is found out whether the filesystem clones.
const PROBES: [&str; 2] = ["clones-probe-1", "clones-probe-2"];

/// No filesystem that clones has smaller blocks that are worth a difference, bytes.
const BLOCK_MIN: u64 = 4096;
/// Larger blocks than these would leave nothing to clone, bytes.
const BLOCK_MAX: u64 = 1 << 20;

/// The `clones` file of a trace that is being written, made when it is needed; used by several threads at
/// once.
#[derive(Debug)]
pub struct Clones {
    file: OnceLock<File>,
    path: PathBuf,
    block_len: u64,
    next: AtomicU64,
}

impl Clones {
    /// None where the trace's filesystem does not clone (which is found out by trying it with nothing).
    pub(crate) fn create(dir: &Path) -> Option<Clones> {
        let probes = PROBES.map(|name| dir.join(name));
        let cloned = create(&probes[0]).and_then(|file| {
            rustix::fs::ioctl_ficlone(&file, &create(&probes[1])?)?;
            Ok(file)
        });
        for probe in probes {
            let _ = fs::remove_file(probe);
        }
        let (path, next) = (dir.join(CLONES), AtomicU64::new(0));
        Some(Clones { file: OnceLock::new(), path, block_len: block_len(&cloned.ok()?)?, next })
    }

    /// The whole blocks of a range of some file, bytes; perhaps none.
    pub fn whole_blocks(&self, range: Range<u64>) -> Range<u64> {
        let start = range.start.checked_next_multiple_of(self.block_len).unwrap_or(range.end);
        let end = range.end - range.end % self.block_len;
        if start < end { start..end } else { 0..0 }
    }

    /// Room for `len` bytes (whole blocks), which nobody else gets: its offset.
    pub fn reserve(&self, len: u64) -> u64 {
        self.next.fetch_add(len.next_multiple_of(self.block_len), Ordering::Relaxed)
    }

    /// What blocks are cloned into.
    ///
    /// # Errors
    /// Where it cannot be made: then nothing is cloned.
    pub fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        // Two threads may come at once: both open the same file.
        let file = create(&self.path)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Does the file hold just this from `offset` on? The clones of one call are looked at through one
    /// buffer.
    pub fn holds(&self, offset: u64, bytes: &[u8], buffer: &mut Vec<u8>) -> bool {
        buffer.resize(bytes.len(), 0);
        let read = self.file.get().is_some_and(|file| file.read_exact_at(buffer, offset).is_ok());
        read && buffer.as_slice() == bytes
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_LINKS).open(path)
}

/// The length to which cloned ranges are aligned, bytes: a power of two.
fn block_len(file: &File) -> Option<u64> {
    let of_filesystem = u64::try_from(rustix::fs::fstatfs(file).ok()?.f_bsize).ok()?;
    (of_filesystem.is_power_of_two() && of_filesystem <= BLOCK_MAX).then(|| of_filesystem.max(BLOCK_MIN))
}

/// The `clones` file of a trace that is read; opened when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Source {
    file: OnceLock<File>,
}

impl Source {
    /// The bytes that an event speaks of, in the place of what `buffer` held; of a trace in `dir`.
    pub fn read(&self, dir: &Path, cloned: &Cloned, buffer: &mut Vec<u8>) -> Result<()> {
        let path = || dir.join(CLONES);
        let failed = |source| TraceError::Read { path: path(), source: Arc::new(source) };
        let damaged = |what: &str| TraceError::Damaged {
            path: path(),
            offset: cloned.offset,
            what: format!("{what} {} bytes that the program read from a file", cloned.len),
        };
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let opened = open(&path())?;
                self.file.get_or_init(|| opened)
            }
        };
        buffer.resize(usize::try_from(cloned.len).unwrap_or(0), 0);
        match file.read_exact_at(buffer, cloned.offset) {
            Ok(()) if xxh3_64(buffer) == cloned.sum => Ok(()),
            Ok(()) => Err(damaged("the checksum is wrong of the")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged("it ends before the")),
            // An offset that no file can have.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(damaged("it has no place for the"))
            }
            Err(error) => Err(failed(error)),
        }
    }
}

fn open(path: &Path) -> Result<File> {
    let missing = || TraceError::ClonesMissing(path.into());
    let opened = OpenOptions::new().read(true).custom_flags(NO_LINKS).open(path);
    let opened = opened.and_then(|file| Ok((file.metadata()?.is_file(), file)));
    match opened {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => Err(missing()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
        Err(error) => Err(TraceError::Read { path: path.into(), source: Arc::new(error) }),
    }
}

/// The sum that an event has of its cloned bytes.
pub fn sum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

#[cfg(test)]
mod tests;
