//! Dense texts on disk. An entry is two files: `NAME.text`, all segments and the trampolines in whole pages,
//! to be mapped over the original; and `NAME.map`, what is in the first and what addresses in it mean.
//!
//! The name is a hash of everything that the bytes depend on: the file's whole content, the
//! options, the distance between text and trampolines, the words and the hooks, and the version of this code.
//! So an entry never changes: it is there or it is not, and two recorders that make the same one at the same
//! time make the same bytes. Each file is written under another name, brought to the disk, and renamed, the
//! map last; so what has its name is whole, whenever somebody is killed or the power fails. Readers take no
//! lock. A process that has mapped an entry which is removed keeps what it has.
//!
//! Beside them are empty files: `KEY.loops`, of the file with this name, short loops are to be counted as
//! well; `NAME.none`, no such text can be made; and `.NAME.lock`, somebody makes it now, for as long as that
//! process holds the file's lock (flock). The lock saves work, and nothing else depends on it.
//!
//! All entries together have a bound. Those that were used longest ago go first: whoever loads an entry sets
//! the time at which its map was read, because filesystems note reads rarely, or not at all.
//!
//! It is a cache: an entry that cannot be read, or is damaged, counts as not there, and is made anew.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::{
    Dense, DenseLayout, DenseMap, DenseOptions,
    form::{self, MADE, Stored},
    loads::PAGE,
};
use crate::{folder, key::Key, run::SiteKind};

/// No map has this many bytes.
const MAP_MAX: u64 = 1 << 30;
/// A file under its first name that is older was left behind by somebody who was killed.
const STALE: Duration = Duration::from_secs(3600);

/// The name of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseName(pub(super) [u8; 32]);

impl DenseName {
    /// The name of the text that `plan.build(bias, layout)` makes.
    #[must_use]
    pub fn of(key: &Key, options: DenseOptions, bias: u64, layout: &DenseLayout) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&MADE.to_le_bytes());
        hasher.update(&key.0);
        hasher.update(&[u8::from(options.short_loops)]);
        hasher.update(&options.hooks.0.to_le_bytes());
        hasher.update(&layout.trampolines.wrapping_sub(bias).to_le_bytes());
        let save = layout.hook_save.map_or(u64::MAX, u64::from);
        for word in [u64::from(layout.counter), u64::from(layout.save), save] {
            hasher.update(&word.to_le_bytes());
        }
        for kind in SiteKind::ALL {
            let hook = layout.hooks.iter().find(|(one, _)| *one == kind).map_or(0, |(_, address)| *address);
            hasher.update(&hook.to_le_bytes());
        }
        Self(hasher.finalize().into())
    }
}

impl std::fmt::Display for DenseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for DenseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DenseName({self})")
    }
}

/// Where an executable segment is in a stored text. All are multiples of the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSegment {
    /// The file's address of the first byte.
    pub start: u64,
    /// Offset of the first byte in the original file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Offset of the first byte in the stored text.
    pub at: u64,
}

/// A dense text on disk.
#[derive(Debug)]
pub struct DenseEntry {
    /// The stored text, open for reading.
    pub text: File,
    /// Where it is, for those who must open it themselves. It may be removed at any time.
    pub path: PathBuf,
    /// `map` as it is stored, open for reading: what [`DenseMap::load`] takes.
    pub stored_map: File,
    /// Where that is.
    pub map_path: PathBuf,
    /// What is to be mapped over the original.
    pub segments: Vec<StoredSegment>,
    /// Offset of the trampolines in the stored text: a multiple of the page size.
    pub trampolines_at: u64,
    /// Bytes of trampolines. The rest of their last page is zero.
    pub trampolines_len: u64,
    /// What addresses in the trampolines mean.
    pub map: DenseMap,
}

/// A folder of dense texts.
#[derive(Clone, Debug)]
pub struct DenseCache {
    dir: PathBuf,
    limit_bytes: u64,
}

/// A lock in the folder, which its holder's end gives back, however that ends.
#[derive(Debug)]
pub struct DenseLock {
    file: File,
    /// Where it is, if it goes with its holder.
    path: Option<PathBuf>,
}

impl Drop for DenseLock {
    fn drop(&mut self) {
        // While it is still locked: a process that has opened it meanwhile finds that it is there no more.
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl DenseCache {
    /// Opens the folder; makes it (and those above it), for this user alone, if it is not there. When an
    /// entry is stored, and all together have more than `limit_bytes` then, those used longest ago are
    /// removed.
    ///
    /// # Errors
    /// If it cannot be made, is not a folder, belongs to somebody else, or others may write in it.
    pub fn open(dir: &Path, limit_bytes: u64) -> io::Result<Self> {
        folder::claim(dir)?;
        Ok(Self { dir: dir.to_owned(), limit_bytes })
    }

    /// Opens the folder where it is there. None: it is not, and is not made.
    ///
    /// # Errors
    /// As [`DenseCache::open`].
    pub fn open_made(dir: &Path, limit_bytes: u64) -> io::Result<Option<Self>> {
        match folder::check(dir) {
            Ok(()) => Ok(Some(Self { dir: dir.to_owned(), limit_bytes })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The entry of this name. None if there is none that can be used.
    #[must_use]
    pub fn load(&self, name: &DenseName) -> Option<DenseEntry> {
        match self.read(name) {
            Ok(entry) => {
                let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                let as_it_is = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                // Where that cannot be set, the entry is as old as its content.
                let times = Timestamps { last_access: now, last_modification: as_it_is };
                let _ = rustix::fs::futimens(&entry.stored_map, &times);
                Some(entry)
            }
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(path = %self.path(name, "map").display(), %error, "failed to read a dense text");
                }
                None
            }
        }
    }

    /// Is an entry of this name there? It may be damaged.
    #[must_use]
    pub fn is_made(&self, name: &DenseName) -> bool {
        self.path(name, "map").is_file()
    }

    /// Bytes that the entry of this name takes; 0: there is none.
    #[must_use]
    pub fn size(&self, name: &DenseName) -> u64 {
        let paths = ["text", "map"].map(|kind| self.path(name, kind));
        paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|found| found.blocks() * 512).sum()
    }

    /// Was it found that there can be no such text?
    #[must_use]
    pub fn is_refused(&self, name: &DenseName) -> bool {
        self.path(name, "none").is_file()
    }

    /// Remembers that there can be no such text.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn refuse(&self, name: &DenseName) -> io::Result<()> {
        let mut options = options();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(self.path(name, "none")).map(drop)
    }

    /// Says to others that the text of this name is being made, as long as the lock is held. None: somebody
    /// else makes it.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn lock(&self, name: &DenseName) -> io::Result<Option<DenseLock>> {
        let path = self.lock_path(name);
        loop {
            let mut options = options();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                other => other?,
            }
            // Its holder may have removed it since we have opened it.
            let is_it = fs::symlink_metadata(&path).is_ok_and(|there| {
                file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
            });
            if is_it {
                return Ok(Some(DenseLock { file, path: Some(path) }));
            }
        }
    }

    /// Does somebody make the text of this name?
    #[must_use]
    pub fn is_being_made(&self, name: &DenseName) -> bool {
        let Ok(file) = open(&self.lock_path(name)) else { return false };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Waits until nobody else has the turn: making a text takes much memory, so makers take turns.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn turn(&self) -> io::Result<DenseLock> {
        let mut options = options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.dir.join(".turn"))?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
        Ok(DenseLock { file, path: None })
    }

    /// How many bytes the folder's filesystem has left for this user.
    #[must_use]
    pub fn room(&self) -> u64 {
        rustix::fs::statvfs(&self.dir).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize))
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What all entries together may have, bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit_bytes
    }

    fn lock_path(&self, name: &DenseName) -> PathBuf {
        self.dir.join(format!(".{name}.lock"))
    }

    /// Stores a dense text, and gives the entry.
    ///
    /// # Errors
    /// If it cannot be written. There is then no entry, or the one that somebody else has made.
    pub fn store(&self, name: &DenseName, dense: &Dense) -> io::Result<DenseEntry> {
        let mut segments = Vec::new();
        let mut at = 0;
        for segment in &dense.segments {
            let len = segment.bytes.len() as u64;
            segments.push(StoredSegment { start: segment.start, offset: segment.offset, len, at });
            at += len;
        }
        let trampolines = (at, dense.trampolines.len() as u64);
        let padding = vec![0; (trampolines.1.next_multiple_of(PAGE) - trampolines.1) as usize];
        let mut parts: Vec<&[u8]> = dense.segments.iter().map(|segment| &segment.bytes[..]).collect();
        parts.extend([&dense.trampolines[..], &padding]);
        let stored = Stored { segments, trampolines, map: dense.map.clone() };
        let map = form::encode(name, &stored);
        let all = parts.iter().map(|part| part.len() as u64).sum::<u64>() + map.len() as u64;
        self.make_room(name, all);
        self.write(name, "text", &parts)?;
        self.write(name, "map", &[&map])?;
        self.read(name)
    }

    /// Remembers that a task was caught in a short loop of this file's: it is to be counted there, too.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn count_short_loops(&self, key: &Key) -> io::Result<()> {
        let mut options = options();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(self.mark(key)).map(drop)
    }

    /// Was that remembered?
    #[must_use]
    pub fn counts_short_loops(&self, key: &Key) -> bool {
        self.mark(key).is_file()
    }

    fn mark(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{key}.loops"))
    }

    fn path(&self, name: &DenseName, kind: &str) -> PathBuf {
        self.dir.join(format!("{name}.{kind}"))
    }

    fn read(&self, name: &DenseName) -> io::Result<DenseEntry> {
        let damaged = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
        let map_path = self.path(name, "map");
        let stored_map = open(&map_path)?;
        let mut bytes = Vec::new();
        (&stored_map).take(MAP_MAX).read_to_end(&mut bytes)?;
        let stored = form::decode(name, &bytes).ok_or_else(|| damaged("its map is damaged"))?;
        let path = self.path(name, "text");
        let text = open(&path)?;
        let (trampolines_at, trampolines_len) = stored.trampolines;
        let end =
            trampolines_at.checked_add(trampolines_len).and_then(|end| end.checked_next_multiple_of(PAGE));
        if Some(text.metadata()?.len()) != end {
            return Err(damaged("its text has another length than its map says"));
        }
        let Stored { segments, map, .. } = stored;
        Ok(DenseEntry { text, path, stored_map, map_path, segments, trampolines_at, trampolines_len, map })
    }

    fn write(&self, name: &DenseName, kind: &str, parts: &[&[u8]]) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let first = self.dir.join(format!(".{name}.{kind}.{}.{number}", std::process::id()));
        let write = || {
            let mut options = options();
            options.write(true).create_new(true).mode(0o600);
            let mut file = options.open(&first)?;
            parts.iter().try_for_each(|part| file.write_all(part))?;
            // A rename may reach the disk before the content does.
            file.sync_all()?;
            fs::rename(&first, self.path(name, kind))
        };
        write().inspect_err(|_| {
            // What remains is found again by `make_room`.
            let _ = fs::remove_file(&first);
        })
    }

    /// Removes what was left behind by the killed, and the entries used longest ago as long as all together,
    /// with as many bytes as are `coming`, are too many. Whatever cannot be removed stays.
    fn make_room(&self, keep: &DenseName, coming: u64) {
        let Ok(folder) = fs::read_dir(&self.dir) else { return };
        let mut entries: HashMap<String, (SystemTime, u64)> = HashMap::new();
        for item in folder.flatten() {
            let (path, Ok(metadata)) = (item.path(), item.metadata()) else { continue };
            let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let old = SystemTime::now().duration_since(changed).unwrap_or_default();
            let file = item.file_name();
            let file = file.to_string_lossy();
            let is_first_name = file.starts_with('.') && (file.contains(".text.") || file.contains(".map."));
            if is_first_name && old > STALE {
                let _ = fs::remove_file(&path);
            } else if file.starts_with('.') && file.ends_with(".lock") && old > STALE {
                // Its lock is in the way of whoever holds it.
                if let Ok(lock) = open(&path)
                    && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
                {
                    let _ = fs::remove_file(&path);
                }
            } else if let Some((name, "text" | "map")) = file.split_once('.')
                && name.len() == 64
            {
                let used = metadata.accessed().unwrap_or(changed).max(changed);
                let entry = entries.entry(name.to_owned()).or_insert((used, 0));
                *entry = (entry.0.max(used), entry.1 + metadata.blocks() * 512);
            }
        }
        // It is written anew.
        entries.remove(&keep.to_string());
        let mut all: u64 = entries.values().map(|(_, bytes)| bytes).sum();
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(a, (a_used, _)), (b, (b_used, _))| (a_used, a).cmp(&(b_used, b)));
        for (name, (_, bytes)) in entries {
            if all.saturating_add(coming) <= self.limit_bytes {
                break;
            }
            // The map first: without it the text is not looked for.
            let _ = fs::remove_file(self.dir.join(format!("{name}.map")));
            let _ = fs::remove_file(self.dir.join(format!("{name}.text")));
            all = all.saturating_sub(bytes);
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A pipe in an entry's place must not make anybody wait.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32);
    options
}

fn open(path: &Path) -> io::Result<File> {
    let file = options().read(true).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}
