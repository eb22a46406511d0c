//! Where a file's parts have bytes that may be special, on disk: beside what was learned of the file's sites,
//! in `KEY.scan`. Looking for them reads all of the text, which is much where a program is big.
//!
//! The file is written whole under another name, and renamed. Of two recorders that write it at the same
//! time, one wins, and the other's part is looked through again some day. Numbers are 64 bits, least byte
//! first: magic, key (4), the number of parts; of each part its offset and length, 1 if `cpuid` was looked
//! for, the numbers of both kinds of places, and the places; then the first 8 bytes of the blake3 of all
//! that.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    cache::{SiteCache, options},
    key::Key,
};

/// Another one whenever the form changes, or what bytes are looked for.
const MAGIC: u64 = u64::from_le_bytes(*b"bisscan4");

/// No such file has this many bytes.
const BYTES_MAX: u64 = 64 << 20;

/// What a look through a part of a file has found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Scan {
    /// Where the part begins in the file, and how long it is, bytes.
    pub part: (u64, u64),
    /// `cpuid` was looked for as well.
    pub has_cpuid: bool,
    /// Offsets in the part of what may read the time stamp counter.
    pub clocks: Vec<u64>,
    /// Offsets of what may ask the processor for a number, and the like.
    pub chances: Vec<u64>,
}

impl SiteCache {
    /// What is known of a file's parts. Nothing if that cannot be read.
    #[must_use]
    pub fn scans(&self, key: &Key) -> Vec<Scan> {
        let mut bytes = Vec::new();
        let read = options()
            .open(self.dir.join(format!("{key}.scan")))
            .and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
        read.ok().and_then(|_| decode(key, &bytes)).unwrap_or_default()
    }

    /// Remembers what was found in all of these parts of a file, in the place of what was known.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set_scans(&self, key: &Key, scans: &[Scan]) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let first = self.dir.join(format!(".{key}.scan.{}.{number}", std::process::id()));
        let write = || {
            let mut file = options().write(true).create(true).truncate(true).mode(0o600).open(&first)?;
            file.write_all(&encode(key, scans))?;
            fs::rename(&first, self.dir.join(format!("{key}.scan")))
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&first);
        })
    }
}

fn encode(key: &Key, scans: &[Scan]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |word: u64| bytes.extend(word.to_le_bytes());
    put(MAGIC);
    let (words, _) = key.0.as_chunks::<8>();
    words.iter().for_each(|word| put(u64::from_le_bytes(*word)));
    put(scans.len() as u64);
    for Scan { part, has_cpuid, clocks, chances } in scans {
        let head = [part.0, part.1, u64::from(*has_cpuid), clocks.len() as u64, chances.len() as u64];
        head.iter().chain(clocks).chain(chances).for_each(|word| put(*word));
    }
    let sum = blake3::hash(&bytes);
    bytes.extend(&sum.as_bytes()[..8]);
    bytes
}

fn decode(key: &Key, bytes: &[u8]) -> Option<Vec<Scan>> {
    let (bytes, sum) = bytes.split_last_chunk::<8>()?;
    if blake3::hash(bytes).as_bytes()[..8] != sum[..] || bytes.get(8..40)? != key.0 {
        return None;
    }
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    if words.next()? != MAGIC {
        return None;
    }
    let mut words = words.skip(4);
    let count = words.next()?;
    let mut scans = Vec::new();
    for _ in 0..count {
        let part = (words.next()?, words.next()?);
        let has_cpuid = words.next()? != 0;
        let (clocks, chances) = (usize::try_from(words.next()?).ok()?, usize::try_from(words.next()?).ok()?);
        let clocks = words.by_ref().take(clocks).collect();
        let chances = words.by_ref().take(chances).collect();
        scans.push(Scan { part, has_cpuid, clocks, chances });
    }
    Some(scans)
}
