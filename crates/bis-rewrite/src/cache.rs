//! What was learned of files, on disk: a folder with one file for each [`Key`].
//!
//! Learning is by ones and twos, by several recorders at once, and a recorder may be killed at any time. So a
//! file only grows: a process that adds takes the file's lock (flock), reads what is there, and appends what
//! is new in one write. A temporary file and a rename would lose what another recorder added between reading
//! and renaming, unless there were a lock as well. A write that was cut short leaves a record whose checksum
//! is wrong, or a part of one; a process that adds next writes the file again from the good records. Readers
//! take no lock: what they see half-written, they ignore.
//!
//! It is a cache: whatever cannot be read (damaged, of another version, not ours) counts as not there, with a
//! line in the log, and is written anew by the next process that adds. No error of the disk makes an answer
//! wrong.
//!
//! Nothing that comes from here is right by itself. A run must still match the memory (`Run::matches`), and
//! `trampoline` checks its instructions again. What is believed is that nothing leads into the run; so the
//! folder must be ours alone.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, OFlags};

use crate::{
    folder,
    key::Key,
    record::{self, Learned, RECORD},
};

/// No file has this many sites; one that seems to is not ours. 64 MiB.
const RECORDS_MAX: usize = 1 << 20;

/// A folder of what was learned.
#[derive(Clone, Debug)]
pub struct SiteCache {
    pub(crate) dir: PathBuf,
}

/// What a file of the cache says.
#[derive(Default)]
struct Content {
    learned: Vec<Learned>,
    /// Why it must be written anew before anything is added.
    damage: Option<&'static str>,
}

impl SiteCache {
    /// Opens the folder; makes it (and those above it), for this user alone, if it is not there.
    ///
    /// # Errors
    /// If it cannot be made, is not a folder, belongs to somebody else, or others may write in it.
    pub fn open(dir: &Path) -> io::Result<Self> {
        folder::claim(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// All that is known of a file. Nothing if that cannot be read.
    #[must_use]
    pub fn load(&self, key: &Key) -> Vec<Learned> {
        let path = self.path(key);
        let read = options().open(&path).and_then(|mut file| read(&mut file, key));
        match read {
            Ok(content) => {
                if let Some(damage) = content.damage {
                    tracing::warn!(path = %path.display(), "part of the cache of sites is ignored: {damage}");
                }
                content.learned
            }
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "failed to read the cache of sites");
                }
                Vec::new()
            }
        }
    }

    /// Adds to what is known of a file. Of a site that is known already, nothing is added.
    ///
    /// # Errors
    /// If the file cannot be written; what it held before is still there or counts as unknown.
    pub fn add(&self, key: &Key, learned: &[Learned]) -> io::Result<()> {
        if learned.is_empty() {
            return Ok(());
        }
        let path = self.path(key);
        let mut file = options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        // The lock goes with the file's last descriptor, so with its owner, however that ends.
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut content = read(&mut file, key)?;
        let mut known: HashSet<u64> = content.learned.iter().map(Learned::site).collect();
        let mut bytes = Vec::new();
        if let Some(damage) = content.damage.take() {
            if file.metadata()?.len() != 0 {
                tracing::warn!(path = %path.display(), "the cache of sites is written anew: {damage}");
            }
            file.set_len(0)?;
            bytes.extend(record::header(key));
            bytes.extend(content.learned.iter().flat_map(|learned| record::encode(key, learned)));
        }
        let new = learned.iter().filter(|learned| known.insert(learned.site()));
        bytes.extend(
            new.take(RECORDS_MAX - content.learned.len()).flat_map(|learned| record::encode(key, learned)),
        );
        file.seek(io::SeekFrom::End(0))?;
        file.write_all(&bytes)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(key.to_string())
    }
}

pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A pipe in the cache's place must not make anybody wait.
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32);
    options
}

fn read(file: &mut File, key: &Key) -> io::Result<Content> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take((RECORDS_MAX * RECORD + RECORD) as u64).read_to_end(&mut bytes)?;
    let (records, rest) = bytes.as_chunks::<RECORD>();
    let Some((header, records)) = records.split_first() else {
        return Ok(Content { learned: Vec::new(), damage: Some("it has no header") });
    };
    if *header != record::header(key) {
        let damage = Some("it is damaged, of another version, or of another file");
        return Ok(Content { learned: Vec::new(), damage });
    }
    let learned: Vec<Learned> = records.iter().filter_map(|bytes| record::decode(key, bytes)).collect();
    let damaged = learned.len() != records.len() || !rest.is_empty();
    Ok(Content { learned, damage: damaged.then_some("some of its records are damaged") })
}
