//! Which chunks a log has, and where: from the `index` file, or by reading the log.
//!
//! The index is only a shortcut. It is believed if its checksum holds and it is of a log of this length, and
//! even then each chunk is checked when it is read. Otherwise the log is walked from its beginning. Where a
//! chunk is not sound, the walk looks for the next sound one, so that damage costs what it hit and no more;
//! the gap in the streams' numbering shows later what is missing.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, BufReader, BufWriter, Read as _, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
};

use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    chunk::{self, CHUNK_HEADER_BYTES, CHUNK_MAGIC, Chunk, LOG_HEADER_BYTES},
    folder::{INDEX, LOG},
};

const INDEX_MAGIC: [u8; 8] = *b"BISINDEX";
/// magic; the log's length; how many chunks. Chunks follow: an offset, and the chunk's header as it is in the
/// log.
const INDEX_HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 8 + CHUNK_HEADER_BYTES;
const SUM_BYTES: usize = 8;

/// A chunk and where its header is, in bytes from the log's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub offset: u64,
    pub chunk: Chunk,
}

/// What is wrong with a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It ends in the middle of the chunk that begins at this byte: nothing unusual for one that was cut
    /// short.
    HalfChunk(u64),
    /// The chunk at this byte is not what was written.
    Bad(u64),
}

/// The chunks of each stream, in the order of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    pub streams: BTreeMap<u32, Vec<Place>>,
    /// The first damage.
    pub damage: Option<Damage>,
}

impl Table {
    fn add(&mut self, place: Place) {
        self.streams.entry(place.chunk.stream).or_default().push(place);
    }

    /// Where the last sound chunk ends, in bytes from the log's beginning.
    pub fn end(&self) -> u64 {
        let last = |places: &Vec<Place>| places.last().map(|place| place.offset + place.chunk.total_len());
        self.streams.values().filter_map(last).max().unwrap_or(LOG_HEADER_BYTES as u64)
    }

    /// Adds what the log has behind this table.
    pub fn extend(&mut self, behind: &Table) {
        for (stream, places) in &behind.streams {
            self.streams.entry(*stream).or_default().extend(places);
        }
        self.damage.clone_from(&behind.damage);
    }
}

/// Writes the index of a complete log. In memory it needs no more for a long log than for a short one.
pub fn write(dir: &Path) -> io::Result<()> {
    let log = File::open(dir.join(LOG))?;
    let log_len = log.metadata()?.len();
    let mut headers = Headers { log: &log, at: LOG_HEADER_BYTES as u64 };
    let mut count = 0u64;
    while headers.at < log_len {
        headers.next()?;
        count += 1;
    }
    let index =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(dir.join(INDEX))?;
    let mut out = BufWriter::with_capacity(64 << 10, index);
    let mut hasher = Xxh3Default::new();
    let mut put = |bytes: &[u8]| {
        hasher.update(bytes);
        out.write_all(bytes)
    };
    put(&INDEX_MAGIC)?;
    put(&log_len.to_le_bytes())?;
    put(&count.to_le_bytes())?;
    headers.at = LOG_HEADER_BYTES as u64;
    for _ in 0..count {
        put(&headers.at.to_le_bytes())?;
        put(&headers.next()?)?;
    }
    let sum = hasher.digest();
    out.write_all(&sum.to_le_bytes())?;
    out.flush()
}

/// The headers of a log that is known to be whole.
struct Headers<'a> {
    log: &'a File,
    at: u64,
}

impl Headers<'_> {
    fn next(&mut self) -> io::Result<[u8; CHUNK_HEADER_BYTES]> {
        let mut header = [0; CHUNK_HEADER_BYTES];
        self.log.read_exact_at(&mut header, self.at)?;
        let chunk = Chunk::from_bytes(&header).ok_or_else(|| io::Error::other("the log is damaged"))?;
        self.at += chunk.total_len();
        Ok(header)
    }
}

/// The table from the index file; none if it is missing, damaged, or of another log: it says of each chunk
/// what the log says there.
pub fn load(dir: &Path, log: &File, log_len: u64) -> Option<Table> {
    let file = File::open(dir.join(INDEX)).ok()?;
    let len = file.metadata().ok()?.len();
    let mut file = BufReader::with_capacity(64 << 10, file);
    let mut hasher = Xxh3Default::new();
    let mut header = [0; INDEX_HEADER_BYTES];
    file.read_exact(&mut header).ok()?;
    hasher.update(&header);
    let (magic, numbers) = header.split_at(8);
    let [indexed_len, count] = [&numbers[..8], &numbers[8..]].map(word);
    let expected =
        count.checked_mul(ENTRY_BYTES as u64)?.checked_add((INDEX_HEADER_BYTES + SUM_BYTES) as u64)?;
    if magic != INDEX_MAGIC || indexed_len != log_len || expected != len {
        return None;
    }
    let mut table = Table::default();
    let mut end = LOG_HEADER_BYTES as u64;
    for _ in 0..count {
        let mut entry = [0; ENTRY_BYTES];
        file.read_exact(&mut entry).ok()?;
        hasher.update(&entry);
        let (offset, header) = entry.split_first_chunk::<8>()?;
        let chunk = Chunk::from_bytes(header.try_into().ok()?)?;
        let offset = u64::from_le_bytes(*offset);
        let mut in_log = [0; CHUNK_HEADER_BYTES];
        log.read_exact_at(&mut in_log, end).ok()?;
        if offset != end || header != in_log {
            return None;
        }
        end += chunk.total_len();
        table.add(Place { offset, chunk });
    }
    let mut sum = [0; SUM_BYTES];
    file.read_exact(&mut sum).ok()?;
    (end == log_len && u64::from_le_bytes(sum) == hasher.digest()).then_some(table)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The table by reading all of the log.
pub fn scan(log: &File, log_len: u64) -> io::Result<Table> {
    scan_from(log, LOG_HEADER_BYTES as u64, log_len)
}

/// The table of what the log has from this chunk on.
pub fn scan_from(log: &File, mut at: u64, log_len: u64) -> io::Result<Table> {
    let mut scan = Scan { log, log_len, payload: Vec::new(), budget: log_len.saturating_mul(2) };
    let mut table = Table::default();
    while at < log_len {
        match scan.chunk(at)? {
            Found::Sound(chunk) => {
                table.add(Place { offset: at, chunk });
                at += chunk.total_len();
            }
            found => {
                let next = scan.next_sound(at + 1)?;
                let half = matches!(found, Found::PastEnd) && next.is_none();
                let damage = if half { Damage::HalfChunk(at) } else { Damage::Bad(at) };
                table.damage.get_or_insert(damage);
                at = next.unwrap_or(log_len);
            }
        }
    }
    Ok(table)
}

enum Found {
    Sound(Chunk),
    /// It begins as a chunk does, and the log ends before it.
    PastEnd,
    Bad,
}

struct Scan<'a> {
    log: &'a File,
    log_len: u64,
    payload: Vec<u8>,
    /// Bytes that may still be spent on what only looks like a chunk: a hostile log could have one at every
    /// byte.
    budget: u64,
}

impl Scan<'_> {
    fn chunk(&mut self, at: u64) -> io::Result<Found> {
        let mut header = [0; CHUNK_HEADER_BYTES];
        let rest = self.log_len - at;
        if rest < CHUNK_HEADER_BYTES as u64 {
            let part = &mut header[..usize::try_from(rest).unwrap_or(0).min(4)];
            self.log.read_exact_at(part, at)?;
            return Ok(if CHUNK_MAGIC.starts_with(part) { Found::PastEnd } else { Found::Bad });
        }
        self.log.read_exact_at(&mut header, at)?;
        let Some(chunk) = Chunk::from_bytes(&header) else { return Ok(Found::Bad) };
        if chunk.total_len() > rest {
            return Ok(Found::PastEnd);
        }
        self.payload.resize(chunk.payload_len as usize, 0);
        self.log.read_exact_at(&mut self.payload, at + CHUNK_HEADER_BYTES as u64)?;
        Ok(if chunk::is_sound(&header, &self.payload) { Found::Sound(chunk) } else { Found::Bad })
    }

    /// Where the next sound chunk begins, at `from` or later.
    fn next_sound(&mut self, mut from: u64) -> io::Result<Option<u64>> {
        let mut window = vec![0; 64 << 10];
        while from + (CHUNK_HEADER_BYTES as u64) <= self.log_len {
            let len = usize::try_from(self.log_len - from).unwrap_or(usize::MAX).min(window.len());
            self.log.read_exact_at(&mut window[..len], from)?;
            let magics = window[..len].windows(CHUNK_MAGIC.len()).enumerate();
            for (place, _) in magics.filter(|(_, bytes)| *bytes == CHUNK_MAGIC) {
                let at = from + place as u64;
                if let Found::Sound(_) = self.chunk(at)? {
                    return Ok(Some(at));
                }
                let spent = (self.payload.len() + CHUNK_HEADER_BYTES) as u64;
                match self.budget.checked_sub(spent) {
                    Some(left) => self.budget = left,
                    None => return Ok(None),
                }
            }
            // The next window begins where a magic could reach over the end of this one.
            from += (len - (CHUNK_MAGIC.len() - 1)) as u64;
        }
        Ok(None)
    }
}
