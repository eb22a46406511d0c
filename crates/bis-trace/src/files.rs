//! The content of files that the program maps, kept once each in the trace's `files/` folder.
//!
//! A mapped file may be replaced, or gone, when the trace is replayed. So its content is kept: as a reflink
//! where the filesystem can (free, and nothing can change it), as a hard link where the file is one that
//! nobody edits in place (system files: packages are updated by renaming new files over old ones), else as a
//! copy that is sparse where the content is zero. The name is the content's blake3 hash: the same content is
//! kept once.
//!
//! Where the user has a store for all traces (`store.rs`), the content is in that, and the trace's file is a
//! hard link to its entry, which nobody edits. Then a file that is known (`known.rs`) is not even read.
//!
//! Hashing a large file costs more than all else here, so a file is hashed once for as long as its identity,
//! size and times stay. A file that has just been changed, or lives in memory only, is hashed every time: its
//! times prove nothing. A store through a shared mapping may also leave the times alone; content that is
//! mapped shared and writable is not a matter for [`FileStore::keep`] but for [`FileStore::keep_changing`].

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::fs::{AtFlags, CWD};

use crate::{
    copies::{copy, create, hash, name, sparse_len, write_sparse},
    error::{Result, TraceError, show},
    event::{FileEntry, Kept, Meta},
    folder::FILES,
    known::{Identity, KnownFiles, Name, is_system_file, nanoseconds},
    opening::name_of,
    store::{ContentStore, Spare},
    types::FileId,
};

/// What is kept so far.
#[derive(Default)]
pub(crate) struct Store {
    entries: Vec<FileEntry>,
    by_key: HashMap<Identity, usize>,
    by_digest: HashMap<[u8; 32], usize>,
    /// Devices whose files could not be reflinked here.
    no_reflink: HashSet<u64>,
    /// What all traces share, and what is known of files.
    shared: Option<ContentStore>,
    known: Option<KnownFiles>,
    temporary_count: u64,
}

/// What becomes of a file's content under its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    Changes,
    Stays,
}

/// The meta stream, as far as files know of it.
pub(crate) trait Announce {
    /// Adds an entry. It is in the log before any event that is pushed after it.
    fn announce(&self, entry: &Meta) -> Result<()>;
}

/// Keeps files in the trace ([`crate::Writer::files`]).
#[derive(Clone, Copy)]
pub struct FileStore<'a> {
    /// The trace's folder.
    pub(crate) dir: &'a Path,
    pub(crate) store: &'a Mutex<Store>,
    pub(crate) metas: &'a (dyn Announce + Sync),
}

impl FileStore<'_> {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the present content of a regular file (a memfd too), open for reading; its position stays.
    /// `path` is where it was, for messages and to know system files. The entry is in the meta stream when
    /// this returns.
    pub fn keep(&self, source: &File, path: &[u8]) -> Result<FileEntry> {
        self.keep_as(source, path, Fate::Unknown)
    }

    /// As [`FileStore::keep`], for a file whose content will change under the name that it has now: it is
    /// never linked to.
    pub fn keep_changing(&self, source: &File, path: &[u8]) -> Result<FileEntry> {
        self.keep_as(source, path, Fate::Changes)
    }

    /// As [`FileStore::keep`], for a file of which it is known that nobody edits it in place: it is linked to
    /// wherever that can be.
    pub fn keep_linked(&self, source: &File, path: &[u8]) -> Result<FileEntry> {
        self.keep_as(source, path, Fate::Stays)
    }

    fn keep_as(&self, source: &File, path: &[u8], fate: Fate) -> Result<FileEntry> {
        let failed = |source| self.failed(show(path), source);
        let stat = source.metadata().map_err(failed)?;
        if !stat.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
        }
        let (key, linkable) = identity(&stat, path, fate);
        let settled = fate != Fate::Changes && key.is_settled() && !is_in_memory(source);
        let mut store = self.store();
        if settled && let Some(index) = store.by_key.get(&key) {
            return Ok(store.entries[*index].clone());
        }
        let source = Source { file: source, path, stat: &stat, fate, linkable };
        let folder = self.dir.join(FILES);
        let temporary = store.temporary(&folder);
        let placed = store.place(&source, &temporary);
        let entry = placed.and_then(|placed| {
            if let Some(index) = store.by_digest.get(&placed.digest) {
                return Ok(*index);
            }
            fs::rename(&temporary, folder.join(name(&placed.digest)))?;
            Ok(store.add(&placed, path, key.mtime_ns))
        });
        // Gone already if it was renamed.
        let _ = fs::remove_file(&temporary);
        let index = entry.map_err(failed)?;
        self.announce(&mut store, index)?;
        if settled {
            store.by_key.insert(key, index);
        }
        Ok(store.entries[index].clone())
    }

    /// The file as it was kept, of which this is `stat` now, and what it is known by: without opening it.
    /// None: it was not kept, or it may have changed since.
    pub fn find(&self, stat: &fs::Metadata, path: &[u8]) -> Option<(FileId, Identity)> {
        let (key, _) = identity(stat, path, Fate::Unknown);
        let store = self.store();
        let index = key.is_settled().then(|| store.by_key.get(&key))??;
        Some((store.entries[*index].file, key))
    }

    /// The hash of the content of a file that was kept, and the content, which nothing changes any more.
    pub fn content(&self, file: FileId) -> Option<([u8; 32], File)> {
        let digest = self.store().entries.get(usize::try_from(file.0).ok()?)?.digest;
        let content = File::open(self.dir.join(FILES).join(name(&digest))).ok()?;
        Some((digest, content))
    }

    /// Where the content of a file is that was kept.
    pub fn path(&self, file: FileId) -> Option<PathBuf> {
        let digest = self.store().entries.get(usize::try_from(file.0).ok()?)?.digest;
        std::path::absolute(self.dir.join(FILES).join(name(&digest))).ok()
    }

    /// From here on, what other traces have is not kept again, and what is known of a file is not found
    /// again.
    pub fn share(&self, shared: Option<ContentStore>, known: Option<KnownFiles>) {
        let mut store = self.store();
        (store.shared, store.known) = (shared, known);
    }

    /// Keeps content that no file has. The entry is in the meta stream when this returns.
    pub fn keep_bytes(&self, content: &[u8]) -> Result<FileEntry> {
        self.keep_made(content, false)
    }

    /// As [`FileStore::keep_bytes`], for content that other traces will have, too: it is in the store that
    /// they share.
    pub fn keep_bytes_for_all(&self, content: &[u8]) -> Result<FileEntry> {
        self.keep_made(content, true)
    }

    fn keep_made(&self, content: &[u8], for_all: bool) -> Result<FileEntry> {
        let failed = |source| self.failed("memory".into(), source);
        let digest = *blake3::hash(content).as_bytes();
        let mut store = self.store();
        let index = match store.by_digest.get(&digest) {
            Some(index) => *index,
            None => {
                let folder = self.dir.join(FILES);
                let temporary = store.temporary(&folder);
                // With any trouble the store has, the trace does without.
                let is_shared = for_all && store.share_bytes(content, &digest, &temporary).unwrap_or(false);
                let written = match is_shared {
                    true => Ok(()),
                    false => create(&temporary).and_then(|file| write_sparse(&file, content)),
                };
                let written = written.and_then(|()| fs::rename(&temporary, folder.join(name(&digest))));
                if let Err(error) = written {
                    let _ = fs::remove_file(&temporary);
                    return Err(failed(error));
                }
                let placed = Placed { kept: Kept::Copy, digest, len: content.len() as u64 };
                store.add(&placed, b"", 0)
            }
        };
        self.announce(&mut store, index)?;
        Ok(store.entries[index].clone())
    }

    /// Why a file could not be kept: the folder for it may be gone.
    fn failed(&self, path: String, source: io::Error) -> TraceError {
        if source.kind() == io::ErrorKind::NotFound && !self.dir.join(FILES).is_dir() {
            return TraceError::Gone(self.dir.to_owned());
        }
        TraceError::Keep { path, source: Arc::new(source) }
    }

    /// Puts an entry that is new into the meta stream, under the store's lock: nobody may use it before.
    fn announce(&self, store: &mut Store, index: usize) -> Result<()> {
        let entry = &store.entries[index];
        if store.by_digest.contains_key(&entry.digest) {
            return Ok(());
        }
        self.metas.announce(&Meta::File(entry.clone()))?;
        store.by_digest.insert(entry.digest, index);
        Ok(())
    }
}

/// What a file is known by, and whether it may be linked to.
fn identity(stat: &fs::Metadata, path: &[u8], fate: Fate) -> (Identity, bool) {
    let linkable = match fate {
        Fate::Unknown => is_system_file(stat, path),
        Fate::Changes => false,
        Fate::Stays => true,
    };
    // Our own links change it, and those of other recordings: not the content.
    let ctime_ns = if linkable { 0 } else { nanoseconds(stat.ctime(), stat.ctime_nsec()) };
    (Identity { ctime_ns, ..Identity::of(stat) }, linkable)
}

/// A file that is to be kept.
struct Source<'a> {
    file: &'a File,
    path: &'a [u8],
    stat: &'a fs::Metadata,
    fate: Fate,
    linkable: bool,
}

impl Source<'_> {
    /// What its content is known by, if it is known by anything now.
    fn name(&self, known: &KnownFiles) -> Option<Name> {
        let stat = self.file.metadata().ok()?;
        match self.fate {
            Fate::Changes => None,
            Fate::Unknown => known.name(self.file, &stat, self.path),
            Fate::Stays => KnownFiles::name_of_ours(self.file, &stat),
        }
    }

    fn is_shared_content(&self) -> bool {
        // The hash of a file with large holes is not that of its copy, if that has others.
        self.fate != Fate::Changes && matches!(sparse_len(self.file), Ok(None))
    }

    /// A hard link to the file itself. Refused across filesystems, and to those who do not own the file
    /// (fs.protected_hardlinks).
    fn link(&self, to: &Path) -> bool {
        rustix::fs::linkat(CWD, name_of(self.file), CWD, to, AtFlags::SYMLINK_FOLLOW).is_ok()
    }
}

impl Store {
    /// Makes `temporary` have the content of a file, without reading it if it is known.
    fn place(&mut self, source: &Source<'_>, temporary: &Path) -> io::Result<Placed> {
        let name = self.known.as_ref().and_then(|known| source.name(known));
        let digest = self.known.as_ref().zip(name).and_then(|(known, name)| known.find(&name));
        if let Some(digest) = digest
            && let Some(placed) = self.place_known(source, digest, temporary)?
        {
            return Ok(placed);
        }
        // What is known was in the store, mostly.
        let placed = self.place_read(source, temporary, digest.is_some())?;
        if let Some((known, name)) = self.known.as_ref().zip(name)
            // Nobody has changed it while it was read.
            && source.name(known) == Some(name)
        {
            known.add(&name, &placed.digest);
        }
        Ok(placed)
    }

    /// Places content with this hash. None: it has to be read.
    fn place_known(
        &mut self,
        source: &Source<'_>,
        digest: [u8; 32],
        temporary: &Path,
    ) -> io::Result<Option<Placed>> {
        let len = source.stat.len();
        if self.by_digest.contains_key(&digest) {
            return Ok(Some(Placed { kept: Kept::Copy, digest, len }));
        }
        if source.fate == Fate::Stays && source.link(temporary) {
            return Ok(Some(Placed { kept: Kept::HardLink, digest, len }));
        }
        let linked = self.shared.as_ref().map(|shared| shared.link(&digest, len, temporary));
        // With any trouble the store has, the trace does without.
        let is_linked = matches!(linked, Some(Ok(true)));
        Ok(is_linked.then_some(Placed { kept: Kept::Copy, digest, len }))
    }

    /// Places content that is not known.
    fn place_read(&mut self, source: &Source<'_>, temporary: &Path, again: bool) -> io::Result<Placed> {
        if source.fate == Fate::Stays && source.link(temporary) {
            let (digest, len) = hash(source.file)?;
            return Ok(Placed { kept: Kept::HardLink, digest, len });
        }
        if let Some(shared) = self.shared.as_ref().filter(|_| source.is_shared_content()) {
            let is_full = |error: &io::Error| {
                [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
            };
            let mut added = shared.add(source.file, temporary, again);
            if added.as_ref().is_err_and(is_full) && shared.sweep(Spare::Nothing).bytes > 0 {
                added = shared.add(source.file, temporary, again);
            }
            if let Ok(linked) = added {
                let kept = if linked.is_reflink { Kept::Reflink } else { Kept::Copy };
                return Ok(Placed { kept, digest: linked.digest, len: linked.len });
            }
            // A disk may be too full for a copy, and have room for a link.
            let _ = fs::remove_file(temporary);
        }
        self.place_alone(source, temporary)
    }

    /// Makes `temporary` have the content of a file, in the cheapest way that is safe. The hash is of what is
    /// there then, whatever happens to the file meanwhile.
    fn place_alone(&mut self, source: &Source<'_>, temporary: &Path) -> io::Result<Placed> {
        let dev = source.stat.dev();
        if !self.no_reflink.contains(&dev) {
            let file = create(temporary)?;
            if rustix::fs::ioctl_ficlone(&file, source.file).is_ok() {
                let (digest, len) = hash(&file)?;
                return Ok(Placed { kept: Kept::Reflink, digest, len });
            }
            self.no_reflink.insert(dev);
            fs::remove_file(temporary)?;
        }
        if source.linkable && source.link(temporary) {
            let (digest, len) = hash(source.file)?;
            return Ok(Placed { kept: Kept::HardLink, digest, len });
        }
        let (digest, len) = copy(source.file, &create(temporary)?)?;
        Ok(Placed { kept: Kept::Copy, digest, len })
    }

    /// Links `to`, which is not there, to an entry of the store that has this content. False: it is not there
    /// when this returns.
    fn share_bytes(&mut self, content: &[u8], digest: &[u8; 32], to: &Path) -> io::Result<bool> {
        let Some(shared) = &self.shared else { return Ok(false) };
        if shared.link(digest, content.len() as u64, to)? {
            return Ok(true);
        }
        let source = to.with_extension("source");
        let added = create(&source)
            .and_then(|file| file.write_all_at(content, 0).map(|()| file))
            .and_then(|file| shared.add(&file, to, false));
        let _ = fs::remove_file(&source);
        if added.as_ref().is_ok_and(|added| added.digest == *digest) {
            return Ok(true);
        }
        let _ = fs::remove_file(to);
        added.map(|_| false)
    }

    fn temporary(&mut self, folder: &Path) -> PathBuf {
        self.temporary_count += 1;
        folder.join(format!("tmp-{}", self.temporary_count))
    }

    /// A new entry, not yet announced.
    fn add(&mut self, placed: &Placed, path: &[u8], mtime_ns: i64) -> usize {
        let index = self.entries.len();
        self.entries.push(FileEntry {
            file: FileId(u32::try_from(index).unwrap_or(u32::MAX)),
            name: name(&placed.digest),
            kept: placed.kept,
            path: path.to_vec(),
            len: placed.len,
            mtime_ns,
            digest: placed.digest,
        });
        index
    }
}

/// Content at its temporary place.
struct Placed {
    kept: Kept,
    digest: [u8; 32],
    len: u64,
}

/// Whether a file is on a filesystem that has no times for stores through mappings (memfd, /dev/shm).
fn is_in_memory(file: &File) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const HUGETLBFS: i64 = 0x9584_58f6;
    rustix::fs::fstatfs(file).map_or(true, |fs| [TMPFS, HUGETLBFS].contains(&fs.f_type))
}

#[cfg(test)]
mod tests;
