//! The files that a trace keeps: where each is, who else has it, and whether its content is what it was.

use std::{
    ffi::OsStr,
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use super::Trace;
use crate::{
    copies::{HOLES_MIN, hash, replace_by_copy, sparse_len},
    error::{Result, TraceError, show},
    event::{FileEntry, Kept, Meta},
    folder::FILES,
    known::nanoseconds,
    opening::NO_LINKS,
    store::is_marked,
    types::FileId,
};

const OTHER_CONTENT: &str = "its content is another";

fn is_linked(entry: &FileEntry) -> bool {
    entry.kept == Kept::HardLink
}

/// A kept file is not what it was.
fn changed(entry: &FileEntry, path: PathBuf, what: String) -> TraceError {
    let original = entry.original().into_owned();
    if is_linked(entry) {
        return TraceError::FileChanged { original, what };
    }
    let what = format!("its content of {original} was changed: {what}");
    TraceError::Damaged { path, offset: 0, what }
}

/// What else has a kept file, beside the trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sharing {
    /// Nobody.
    Own,
    /// The store, for this trace alone.
    Stored,
    /// The store, for other traces too.
    Shared,
    /// It is a file of the machine.
    Machine,
}

impl Trace {
    /// A kept file; an error if the trace has none of this id.
    pub fn file(&self, file: FileId) -> Result<&FileEntry> {
        match self.files.get(&file).and_then(|index| self.metas.get(*index)) {
            Some(Meta::File(entry)) => Ok(entry),
            _ => self.file_since(file).ok_or(TraceError::UnknownFile(file)),
        }
    }

    /// One that was kept since the trace was opened.
    fn file_since(&self, file: FileId) -> Option<&FileEntry> {
        self.later.iter().find_map(|(_, meta)| match meta {
            Meta::File(entry) if entry.file == file => Some(entry),
            _ => None,
        })
    }

    /// Where a kept file's content is. (Its name cannot lead out of the trace; [`Trace::open_file`] also
    /// makes sure that it is no symbolic link.)
    pub fn file_path(&self, file: FileId) -> Result<PathBuf> {
        Ok(self.dir.join(FILES).join(&self.file(file)?.name))
    }

    /// Checks that a kept file is there and, if it is a hard link, has not been changed: by size and time of
    /// change. Where the time is another (the trace may have been copied), by content, once.
    pub fn check_file(&self, file: FileId) -> Result<()> {
        self.open_file(file).map(drop)
    }

    /// Opens a kept file for reading, after the checks of [`Trace::check_file`].
    pub fn open_file(&self, file: FileId) -> Result<File> {
        let entry = self.file(file)?;
        let path = self.file_path(file)?;
        let original = entry.original().into_owned();
        let opened = OpenOptions::new().read(true).custom_flags(NO_LINKS).open(&path);
        let opened = opened.and_then(|file| file.metadata().map(|stat| (file, stat)));
        let (content, stat) = match opened {
            Ok((content, stat)) if stat.is_file() => (content, stat),
            Ok(_) => return Err(TraceError::FileMissing { path, original }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TraceError::FileMissing { path, original });
            }
            Err(error) => return Err(TraceError::Read { path, source: Arc::new(error) }),
        };
        let failed = |source| TraceError::Read { path: path.clone(), source: Arc::new(source) };
        let what = if stat.len() != entry.len {
            format!("it had {} bytes, now {}", entry.len, stat.len())
        } else if is_linked(entry) && !self.has_content(entry, &content, &stat).map_err(failed)?
            || !is_linked(entry) && !self.is_as_stored(entry, &content, &stat).map_err(failed)?
        {
            OTHER_CONTENT.into()
        } else {
            return Ok(content);
        };
        Err(changed(entry, path, what))
    }

    /// What is wrong with a kept file, if anything is. All of it is read, whatever its times say, but only
    /// once: [`Trace::check_file`] believes those, and what is the trace's own.
    pub fn find_damage(&self, file: FileId) -> Option<TraceError> {
        let content = match self.open_file(file) {
            Ok(content) => content,
            Err(error) => return Some(error),
        };
        let (entry, path) = (self.file(file).ok()?, self.file_path(file).ok()?);
        // One that may have large holes is hashed without them, and its copies may have others.
        if entry.len > HOLES_MIN {
            return None;
        }
        let stat = content.metadata().ok()?;
        match self.is_same(entry, &content, &stat) {
            Ok(true) => None,
            Ok(false) => Some(changed(entry, path, OTHER_CONTENT.into())),
            Err(error) => Some(TraceError::Read { path, source: Arc::new(error) }),
        }
    }

    /// What else has a kept file, beside this trace, and the bytes that it takes on the disk.
    pub fn sharing(&self, file: FileId) -> Result<(Sharing, u64)> {
        let path = self.file_path(file)?;
        let stat = std::fs::symlink_metadata(&path)
            .map_err(|source| TraceError::Read { path, source: Arc::new(source) })?;
        let sharing = match stat.nlink() {
            0 | 1 => Sharing::Own,
            _ if !is_marked(&stat, &self.file(file)?.digest) => Sharing::Machine,
            2 => Sharing::Stored,
            _ => Sharing::Shared,
        };
        Ok((sharing, stat.blocks() * 512))
    }

    /// Makes a kept file the trace's own, if it is a hard link to a file of the machine's: a copy takes its
    /// place. How many bytes that took.
    pub fn own_file(&self, file: FileId) -> Result<u64> {
        let entry = self.file(file)?;
        let content = self.open_file(file)?;
        let failed = |source| TraceError::Keep { path: show(&entry.path), source: Arc::new(source) };
        if content.metadata().map_err(failed)?.nlink() < 2 {
            return Ok(0);
        }
        replace_by_copy(&self.file_path(file)?, entry, &content).map_err(failed)?;
        Ok(entry.len)
    }

    /// Has the machine this file still, with the content that was kept? The first answer holds for good, so
    /// that whoever asks again while the file is being replaced hears the same.
    pub fn is_still_there(&self, file: FileId) -> bool {
        let mut found = self.still_there.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(is_there) = found.get(&file) {
            return *is_there;
        }
        let is_there = self.file(file).is_ok_and(|entry| self.has_original(entry).unwrap_or(false));
        found.insert(file, is_there);
        is_there
    }

    fn has_original(&self, entry: &FileEntry) -> io::Result<bool> {
        // A pipe that has the file's name now would hold up who opens it.
        let original = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(Path::new(OsStr::from_bytes(&entry.path)))?;
        let stat = original.metadata()?;
        Ok(stat.is_file() && stat.len() == entry.len && self.has_content(entry, &original, &stat)?)
    }

    /// Is the content of a kept file what it was?
    fn has_content(&self, entry: &FileEntry, content: &File, stat: &Metadata) -> io::Result<bool> {
        let mtime_ns = nanoseconds(stat.mtime(), stat.mtime_nsec());
        Ok(mtime_ns == entry.mtime_ns || self.is_same(entry, content, stat)?)
    }

    /// The same by its digest. A file that was read is not read again while its time stays.
    fn is_same(&self, entry: &FileEntry, content: &File, stat: &Metadata) -> io::Result<bool> {
        let mtime_ns = nanoseconds(stat.mtime(), stat.mtime_nsec());
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared.contains(&(entry.file, mtime_ns)) {
            return Ok(true);
        }
        let is_same = hash(content)?.0 == entry.digest;
        if is_same {
            compared.insert((entry.file, mtime_ns));
        }
        Ok(is_same)
    }

    /// Is a kept file that other traces share what it was? Nobody may write to it; a program that did has
    /// left another time, and then it is read.
    fn is_as_stored(&self, entry: &FileEntry, content: &File, stat: &Metadata) -> io::Result<bool> {
        // One with large holes is in no store, and its copies may have others.
        if stat.nlink() < 2 || is_marked(stat, &entry.digest) || sparse_len(content)?.is_some() {
            return Ok(true);
        }
        self.has_content(entry, content, stat)
    }
}
