//! What all traces of a user share: the content of files that programs map, kept once, by content.
//!
//! The store is a folder beside the traces. An entry is a file named by the hash of its content, and a trace
//! that needs it has a hard link to it among its own files. So the number of an entry's links says how many
//! traces need it, nobody has to keep books, and a trace stays a folder that has all it needs, whatever
//! becomes of the store.
//!
//! Recorders share the store without a lock, and may be killed at any time. An entry is written under a first
//! name, gets its name in the trace that it is for, and then its name in the store: so it never is in the
//! store without being needed or whole. Two recorders that make the same entry at the same time both write
//! it; a trace that comes second takes the other's. An entry that only the store has (one link) may be
//! removed at any moment. If a recorder links to it just then, the link comes either before its name is gone,
//! and the trace keeps the content alone, or after, and the recorder makes it again. What has a first name is
//! locked by its writer; without that lock it was left behind by one that was killed.
//!
//! Nobody changes an entry: it can be read only. Whether somebody did all the same is told without reading
//! it, by its length and its time of modification, which the hash says ([`mark`]): a program that writes to
//! it leaves another time. Then it is read, and mended or replaced. A machine that loses its power may lose
//! content that was not on the disk yet, but not the name of the file; so an entry of an earlier boot is read
//! once, and brought to the disk, and from then on others may read it: that is how it is known.
//!
//! A user who records a program in a loop, and removes each trace, would have its content copied each time.
//! So content that is needed again after it was removed is marked by one more of its permissions, and stays
//! for an hour ([`Spare`]) when the next trace is removed.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{CWD, FlockOperation, OFlags},
    time::{ClockId, clock_gettime},
};

use crate::{
    copies::{copy, hash, name},
    opening::{claim, name_of},
};

/// The mode of an entry that may not be on the disk yet, and of one that surely is.
const WRITTEN: u32 = 0o400;
const SYNCED: u32 = 0o444;
/// Added to it where the content was needed, removed, and needed again.
const AGAIN: u32 = 0o100;

/// So long an entry with that mark stays without being needed.
const AGAIN_STAYS: Duration = Duration::from_secs(3600);

/// After this long the kernel has brought what was written to the disk, mostly, and waiting for the rest
/// costs little.
const WRITTEN_BACK: Duration = Duration::from_secs(60);

/// A file under its first name that is younger may not be locked yet.
const LOCKED_AFTER: Duration = Duration::from_secs(2);

/// What no trace has needed for so long goes when a recorder looks, and how often one does.
const SPARE: Duration = Duration::from_secs(24 * 3600);

/// Changed whenever a recorder has looked for what is not needed.
const SWEPT: &str = "swept";

/// How the first names begin.
const FIRST: &str = "new-";

/// The time of modification of the entry of that content: even seconds, in the years from 2004 to 2021, that
/// every filesystem can tell.
pub(crate) fn mark(digest: &[u8; 32]) -> i64 {
    let word = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (1 << 30) + i64::from(word & 0x1fff_fffe)
}

/// Whether this is what an entry of the store looks like that nobody has changed.
pub(crate) fn is_marked(stat: &fs::Metadata, digest: &[u8; 32]) -> bool {
    stat.mtime() == mark(digest) && stat.mtime_nsec() == 0
}

/// A folder of content that traces share.
#[derive(Clone, Debug)]
pub struct ContentStore {
    dir: PathBuf,
}

/// What was removed from a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    pub files: u64,
    /// On the disk.
    pub bytes: u64,
    /// What is not needed, and stays: files, and bytes on the disk.
    pub spared: (u64, u64),
}

/// What of that which no trace needs stays all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spare {
    Nothing,
    /// What is recorded again and again.
    Again,
    /// What was needed a short while ago.
    For(Duration),
}

/// Content as it was put into a trace.
pub(crate) struct Linked {
    pub digest: [u8; 32],
    pub len: u64,
    /// Its blocks are shared with those of the file that it comes from.
    pub is_reflink: bool,
}

/// A file with a first name, which goes with the value.
struct First {
    path: PathBuf,
    file: File,
}

impl Drop for First {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl ContentStore {
    /// The store in this folder, for traces that are made below `traces`; both are made, for this user alone,
    /// if they are not there.
    ///
    /// # Errors
    /// If that cannot be, the folder belongs to somebody else, or nothing in it can be linked to from there.
    pub fn open(dir: &Path, traces: &Path) -> io::Result<ContentStore> {
        claim(dir)?;
        let store = ContentStore { dir: dir.to_owned() };
        let first = store.first()?;
        let probe = traces.join(first.path.file_name().unwrap_or_default());
        fs::hard_link(&first.path, &probe)?;
        fs::remove_file(probe)?;
        Ok(store)
    }

    /// The store in this folder, if there is one, to look at and to sweep.
    #[must_use]
    pub fn existing(dir: &Path) -> Option<ContentStore> {
        dir.is_dir().then(|| ContentStore { dir: dir.to_owned() })
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn first(&self) -> io::Result<First> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Processes in other pid namespaces may have our number.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let path = self.dir.join(format!("{FIRST}{}-{number}-{now:x}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let first = First { path, file };
        // Where there are no locks, the age has to do (`sweep`).
        let _ = rustix::fs::flock(&first.file, FlockOperation::NonBlockingLockExclusive);
        Ok(first)
    }

    /// Links `to`, which is not there, to the entry of this content. False: there is none, or it is damaged.
    pub(crate) fn link(&self, digest: &[u8; 32], len: u64, to: &Path) -> io::Result<bool> {
        let entry = self.dir.join(name(digest));
        match fs::hard_link(&entry, to) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            // An entry has as many links as the filesystem can count: the next one makes another.
            Err(error) if error.kind() == ErrorKind::TooManyLinks => {
                let _ = fs::remove_file(&entry);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        // Looked at by the new name, which nobody else removes.
        let is_sound = is_sound(to, digest, len, since_boot());
        if !matches!(is_sound, Ok(true)) {
            fs::remove_file(to)?;
            let _ = fs::remove_file(&entry);
        }
        is_sound
    }

    /// Puts the content of a file, which may change meanwhile, into `to`, which is not there, and into the
    /// store. The hash is of what is there then.
    /// `again`: this content was in the store before.
    pub(crate) fn add(&self, source: &File, to: &Path, again: bool) -> io::Result<Linked> {
        let first = self.first()?;
        let is_reflink = rustix::fs::ioctl_ficlone(&first.file, source).is_ok();
        let (digest, len) = if is_reflink { hash(&first.file)? } else { copy(source, &first.file)? };
        first.file.set_permissions(Permissions::from_mode(if again { WRITTEN | AGAIN } else { WRITTEN }))?;
        first.file.set_modified(marked(&digest))?;
        let linked = Linked { digest, len, is_reflink };
        // Somebody else may have made it since.
        if self.link(&digest, len, to)? {
            return Ok(linked);
        }
        fs::hard_link(&first.path, to)?;
        match fs::hard_link(&first.path, self.dir.join(name(&digest))) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // In this very moment: so it is known to be whole.
                fs::remove_file(to)?;
                if !self.link(&digest, len, to)? {
                    fs::hard_link(&first.path, to)?;
                }
            }
            // Then this trace has it alone.
            Ok(()) | Err(_) => {}
        }
        Ok(linked)
    }

    /// Removes what no trace needs, but for `spare`, and what was left behind by the killed. What cannot be
    /// removed stays.
    pub fn sweep(&self, spare: Spare) -> Swept {
        let mut swept = Swept::default();
        for item in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let (path, file_name) = (item.path(), item.file_name());
            let file_name = file_name.to_string_lossy();
            let Ok(stat) = fs::symlink_metadata(&path) else { continue };
            let (age, bytes) = (age(&stat), stat.blocks() * 512);
            let goes = if file_name.starts_with(FIRST) {
                age > LOCKED_AFTER && !is_locked(&path)
            } else if is_entry(&file_name) && stat.nlink() == 1 {
                // A link that is gone has changed the time.
                let goes = match spare {
                    Spare::Nothing => true,
                    Spare::Again => stat.mode() & AGAIN == 0 || age >= AGAIN_STAYS,
                    Spare::For(time) => age >= time,
                };
                if !goes {
                    swept.spared = (swept.spared.0 + 1, swept.spared.1 + bytes);
                }
                goes
            } else {
                false
            };
            if goes && fs::remove_file(&path).is_ok() && stat.nlink() == 1 {
                swept.files += 1;
                swept.bytes += bytes;
            }
        }
        swept
    }

    /// [`ContentStore::sweep`] for a recorder, of what was not needed for long, once a day: somebody may
    /// remove traces without telling the store.
    pub fn sweep_daily(&self) {
        let marker = self.dir.join(SWEPT);
        let is_due = fs::symlink_metadata(&marker).map_or(true, |stat| age(&stat) > SPARE);
        let write = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&marker);
        if is_due && write().and_then(|file| file.set_modified(SystemTime::now())).is_ok() {
            self.sweep(Spare::For(SPARE));
        }
    }
}

fn is_entry(file_name: &str) -> bool {
    file_name.len() == 64 && file_name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn marked(digest: &[u8; 32]) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(mark(digest).cast_unsigned())
}

/// Since its status has changed.
fn age(stat: &fs::Metadata) -> Duration {
    let changed = UNIX_EPOCH + Duration::from_secs(stat.ctime().try_into().unwrap_or(0));
    SystemTime::now().duration_since(changed).unwrap_or_default()
}

fn is_locked(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(path);
    opened.is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

const NO_WAIT: i32 = (OFlags::NOFOLLOW.bits() | OFlags::NONBLOCK.bits()).cast_signed();

/// Whether an entry is what its name says, which mostly is seen without reading it. The machine began
/// `since_boot` ago.
fn is_sound(path: &Path, digest: &[u8; 32], len: u64, since_boot: Duration) -> io::Result<bool> {
    let file = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(path)?;
    let stat = file.metadata()?;
    if !stat.is_file() || stat.len() != len || stat.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let is_synced = stat.mode() & SYNCED == SYNCED;
    let since_written = stat.created().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    // Without a time of birth it may be of any boot.
    let is_of_this_boot = since_written.is_some_and(|since| since < since_boot);
    if is_marked(&stat, digest) && (is_synced || is_of_this_boot) {
        if !is_synced && since_written.is_some_and(|since| since > WRITTEN_BACK) {
            sync(&file)?;
        }
        return Ok(true);
    }
    if hash(&file)?.0 != *digest {
        return Ok(false);
    }
    // Nobody but us has a descriptor for writing, and none is needed.
    set_modified(&file, mark(digest))?;
    sync(&file)?;
    Ok(true)
}

fn sync(file: &File) -> io::Result<()> {
    file.sync_all()?;
    let again = file.metadata()?.mode() & AGAIN;
    file.set_permissions(Permissions::from_mode(SYNCED | again))
}

fn set_modified(file: &File, seconds: i64) -> io::Result<()> {
    use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};
    let stays = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times =
        Timestamps { last_access: stays, last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 } };
    Ok(rustix::fs::utimensat(CWD, name_of(file), &times, AtFlags::empty())?)
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::from_secs(time.tv_sec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests;
