//! What content a file has, found by the file's identity, without reading it.
//!
//! Hashing a big program costs more than its run. So the hash of a file is remembered, over recordings, for
//! as long as its [`Identity`] stays: device, inode, length, the times of its last change in nanoseconds, and
//! its first and last page (where an ELF file has its headers and its build-id). Believing that needs care.
//! An identity is only taken, when it is remembered and when it is looked up, of a file
//!
//! - on a filesystem that is known to change ctime at every change, by this machine's clock; so not on one in
//!   memory, of a network, or whose times come out of an image. Of overlayfs, whose device numbers are used
//!   again, the boot and the number of the mount belong to the identity, and it is believed of system files
//!   only: what its upper layer does with times is not known;
//! - whose times are old: filesystems' clocks tick coarsely, and a second change within a tick leaves the
//!   time as it is;
//! - that nobody has open for writing. A store through a shared mapping changes the times when it makes a
//!   page dirty, and not again until that page was written back. A process that holds such a mapping has the
//!   file open for writing, so the kernel knows; it tells by a lease, for which one has to own the file. A
//!   system file, which only root could write, and nobody edits in place, is believed without.
//!
//! And it is taken before and after the file is read, and must be the same.
//!
//! A file of our own that gets its name when it is whole, and is never written to then (a dense text), is
//! told without the time of its status, which each new link changes.
//!
//! The table is one file of [`BUCKETS`] times [`SLOTS`] records, found by a hash of device and inode: a file
//! that has changed takes the place of what it was, and the oldest record gives way. Recorders read and write
//! records without a lock: one that is half written has a wrong checksum, and counts as not there.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::opening::{claim, name_of};

/// Times younger than this prove nothing: filesystems' clocks tick coarsely.
const SETTLED_NS: i64 = 2_000_000_000;

/// Bytes of a record, and where its checksum is.
const RECORD: usize = 136;
const SUM_AT: usize = RECORD - 8;
const SLOTS: usize = 4;
const BUCKETS: u64 = 8192;

const EDGE: usize = 4096;

/// The first word of each record; another one when its form changes, or what is believed.
const MAGIC: u64 = u64::from_le_bytes(*b"bisknow1");

/// Where files are changed by replacing them, never in place.
const SYSTEM: [&[u8]; 8] = [b"/usr", b"/lib", b"/lib64", b"/bin", b"/sbin", b"/opt", b"/nix", b"/gnu"];

/// A file's identity, and what changes when its content does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    pub dev: u64,
    pub ino: u64,
    /// Bytes.
    pub len: u64,
    /// Nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The same; 0: not looked at.
    pub ctime_ns: i64,
}

impl Identity {
    pub(crate) fn of(stat: &fs::Metadata) -> Identity {
        Identity {
            dev: stat.dev(),
            ino: stat.ino(),
            len: stat.len(),
            mtime_ns: nanoseconds(stat.mtime(), stat.mtime_nsec()),
            ctime_ns: nanoseconds(stat.ctime(), stat.ctime_nsec()),
        }
    }

    /// Whether a change since would show in the times.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.mtime_ns.max(self.ctime_ns) < now.saturating_sub(SETTLED_NS)
    }
}

/// A file's time, since 1970.
pub(crate) fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// What a filesystem's times are worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// Every change of a file shows in them, but see [`Identity`].
    Tell,
    /// As `Tell`, of what is below them; and its device numbers are used again.
    Layers,
    /// Stores through mappings never do, or it is not known.
    Nothing,
}

impl Times {
    pub fn of(file: &File) -> Times {
        const EXT: i64 = 0xef53;
        const XFS: i64 = 0x5846_5342;
        const BTRFS: i64 = 0x9123_683e;
        const F2FS: i64 = 0xf2f5_2010;
        const OVERLAYFS: i64 = 0x794c_7630;
        match rustix::fs::fstatfs(file).map_or(0, |fs| fs.f_type) {
            EXT | XFS | BTRFS | F2FS => Times::Tell,
            OVERLAYFS => Times::Layers,
            _ => Times::Nothing,
        }
    }
}

/// Whether a file is one that is replaced, never edited: then a link to it keeps the content.
pub(crate) fn is_system_file(stat: &fs::Metadata, path: &[u8]) -> bool {
    const SET_ID: u32 = 0o6000;
    const OTHERS_WRITE: u32 = 0o022;
    let below = |root: &&[u8]| path.strip_prefix(*root).is_some_and(|rest| rest.first() == Some(&b'/'));
    // A link to a set-user-id file would outlive the update that fixes it.
    stat.uid() == 0 && stat.mode() & (SET_ID | OTHERS_WRITE) == 0 && SYSTEM.iter().any(below)
}

/// Says whether it is certain that no process has this file open for writing. The file is open for reading,
/// by a description of its own.
pub type AtRest = fn(&File) -> bool;

/// What is known of files, over recordings.
#[derive(Debug)]
pub struct KnownFiles {
    table: File,
    at_rest: AtRest,
}

/// All that a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    identity: Identity,
    /// Boot and mount; zero where device numbers last.
    mount: [u8; 16],
    /// Of the first and the last page.
    edges: [u8; 16],
}

impl KnownFiles {
    /// Opens the table in this folder; makes both, for this user alone, if they are not there.
    ///
    /// # Errors
    /// If it cannot be made, or the folder belongs to somebody else, or others may write in it.
    pub fn open(dir: &Path, at_rest: AtRest) -> io::Result<KnownFiles> {
        claim(dir)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // A pipe in its place must not make anybody wait.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed());
        let table = options.open(dir.join("files"))?;
        if !table.metadata()?.is_file() {
            return Err(io::Error::other("the table of known files is not a regular file"));
        }
        Ok(KnownFiles { table, at_rest })
    }

    /// The name of a file whose content can be told by it now; `path` is where it is.
    pub(crate) fn name(&self, source: &File, stat: &fs::Metadata, path: &[u8]) -> Option<Name> {
        let identity = Identity::of(stat);
        if !identity.is_settled() {
            return None;
        }
        let is_system = is_system_file(stat, path);
        let mount = match Times::of(source) {
            Times::Tell => [0; 16],
            Times::Layers if is_system => mount_of(source)?,
            _ => return None,
        };
        if !is_system && !self.is_at_rest(source) {
            return None;
        }
        Some(Name { identity, mount, edges: edges(source, identity.len)? })
    }

    /// The name of a file of our own that nobody writes to.
    pub(crate) fn name_of_ours(source: &File, stat: &fs::Metadata) -> Option<Name> {
        let identity = Identity { ctime_ns: 0, ..Identity::of(stat) };
        Some(Name { identity, mount: [0; 16], edges: edges(source, identity.len)? })
    }

    /// Whether it is certain that nobody has the file open for writing.
    pub fn is_at_rest(&self, source: &File) -> bool {
        // A lease belongs to the description, which may be the program's.
        let own = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(name_of(source));
        own.is_ok_and(|own| (self.at_rest)(&own))
    }

    /// The hash of the content of the file with this name, if it is known.
    pub(crate) fn find(&self, name: &Name) -> Option<[u8; 32]> {
        let (place, _) = bucket(&name.identity);
        let mut bucket = [0; RECORD * SLOTS];
        let got = self.table.read_at(&mut bucket, place).ok()?;
        let (records, _) = bucket[..got].as_chunks::<RECORD>();
        records.iter().filter_map(decode).find(|(known, ..)| known == name).map(|(_, digest, _)| digest)
    }

    /// Remembers it. What cannot be written is not remembered.
    pub(crate) fn add(&self, name: &Name, digest: &[u8; 32]) {
        let (place, first) = bucket(&name.identity);
        let mut bucket = [0; RECORD * SLOTS];
        let _ = self.table.read_at(&mut bucket, place);
        let (records, _) = bucket.as_chunks::<RECORD>();
        let known: Vec<_> = records.iter().map(decode).collect();
        let is_same = |(other, ..): &(Name, _, u64)| {
            (other.identity.dev, other.identity.ino) == (name.identity.dev, name.identity.ino)
        };
        let same = known.iter().position(|known| known.as_ref().is_some_and(is_same));
        let free = || (0..SLOTS).map(|n| (n + first) % SLOTS).find(|slot| known[*slot].is_none());
        let oldest = || (0..SLOTS).min_by_key(|slot| known[*slot].map_or(0, |(_, _, at)| at));
        let slot = same.or_else(free).or_else(oldest).unwrap_or(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let _ = self.table.write_all_at(&encode(name, digest, now), place + (slot * RECORD) as u64);
    }
}

/// Where the records of a file are, and which of them it takes first.
fn bucket(identity: &Identity) -> (u64, usize) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&identity.dev.to_le_bytes()).update(&identity.ino.to_le_bytes());
    let hash = hasher.finalize();
    let (words, _) = hash.as_bytes().as_chunks::<8>();
    let number = u64::from_le_bytes(words[0]) % BUCKETS;
    (number * (RECORD * SLOTS) as u64, usize::from(words[1][0]) % SLOTS)
}

fn sum(record: &[u8]) -> [u8; 8] {
    let mut sum = [0; 8];
    sum.copy_from_slice(&blake3::hash(record).as_bytes()[..8]);
    sum
}

fn encode(name: &Name, digest: &[u8; 32], at_s: u64) -> [u8; RECORD] {
    let Identity { dev, ino, len, mtime_ns, ctime_ns } = name.identity;
    let words = [MAGIC, dev, ino, len, mtime_ns.cast_unsigned(), ctime_ns.cast_unsigned(), at_s];
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut record = [0; RECORD];
    let parts: [&[u8]; 4] = [&words, &name.mount, &name.edges, digest];
    let mut at = 0;
    for part in parts {
        record[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let sum = sum(&record[..SUM_AT]);
    record[SUM_AT..].copy_from_slice(&sum);
    record
}

fn decode(record: &[u8; RECORD]) -> Option<(Name, [u8; 32], u64)> {
    let word = |n: usize| u64::from_le_bytes(record[n * 8..][..8].try_into().unwrap_or_default());
    if word(0) != MAGIC || sum(&record[..SUM_AT]) != record[SUM_AT..] {
        return None;
    }
    let identity = Identity {
        dev: word(1),
        ino: word(2),
        len: word(3),
        mtime_ns: word(4).cast_signed(),
        ctime_ns: word(5).cast_signed(),
    };
    let name =
        Name { identity, mount: record[56..72].try_into().ok()?, edges: record[72..88].try_into().ok()? };
    Some((name, record[88..120].try_into().ok()?, word(6)))
}

fn half(hash: blake3::Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    half
}

fn edges(file: &File, len: u64) -> Option<[u8; 16]> {
    let mut page = [0; EDGE];
    let mut hasher = blake3::Hasher::new();
    let got = file.read_at(&mut page, 0).ok()?;
    hasher.update(&page[..got]);
    let got = file.read_at(&mut page, len.saturating_sub(EDGE as u64)).ok()?;
    hasher.update(&page[..got]);
    Some(half(hasher.finalize()))
}

/// What tells a mount from all others, of other boots too. None: the kernel does not say (before Linux 6.8).
fn mount_of(file: &File) -> Option<[u8; 16]> {
    const MNT_ID_UNIQUE: u32 = 0x4000;
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()).as_ref()?;
    let wanted = StatxFlags::from_bits_retain(MNT_ID_UNIQUE);
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
    if told.stx_mask & MNT_ID_UNIQUE == 0 {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(boot.as_bytes()).update(&told.stx_mnt_id.to_le_bytes());
    Some(half(hasher.finalize()))
}

#[cfg(test)]
mod tests;
