//! The trace's `blocks` file: content that the trace has again and again, once.
//!
//! Programs read the same pages of a database, and the same headers, many times, and each time the log would
//! have them anew. So whoever writes chunks looks at the content of memory in them, in pieces of a page: one
//! that comes for the second time goes to `blocks`, and from then on the chunks have references to it. (The
//! first time it is in the log, like all else: most content never comes again. But what does not compress is
//! as long in one place as in the other, and is there once if it goes to `blocks` at once.) A chunk with
//! references is *folded*: its payload has, before compression, how many there are, the references, and the
//! messages without what they stand for. Whoever reads it gets the messages as they were.
//!
//! The file only grows, and a block is in it before the chunk that names it goes to the log: a trace that is
//! cut short anywhere has what its chunks need. A reference has a sum of what it stands for, because the
//! log's checksums do not cover the file.
//!
//! Two pieces are the same if their hashes are: 128 bits of xxh3, with a seed that only this recorder knows
//! (so no program can make two pieces that it takes for one another). A cryptographic hash takes longer than
//! all else that is done with a piece. All that is remembered has a bound: of pieces that came once, a hash
//! in a table where later ones push earlier ones out; of blocks, where they are, up to [`STORED_MAX`]. Beyond
//! that, what is new stays in the log.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    ops::Range,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::{
    chunk::decompress,
    error::{Result, TraceError},
    folder::BLOCKS,
    opening::NO_LINKS,
};

/// A piece has at most this many bytes: what databases and the kernel call a page.
const PIECE_MAX: usize = 4096;
/// Shorter ones are not worth a reference, bytes.
pub const PIECE_MIN: usize = 512;

/// Pieces that came once and are remembered: those of 1 GiB, in 2 MiB.
const ONCE: usize = 1 << 18;
/// How many blocks the file has at most: 1 GiB, of which the recorder remembers 16 MiB.
const STORED_MAX: usize = 1 << 18;
/// Up to so many, what does not compress is stored when it comes for the first time: content that never comes
/// again must not take the room of what does.
const STORED_AT_ONCE_MAX: usize = 1 << 15;

/// Blocks that a reader keeps: 64 MiB, if there are so many. One has this many places where it can be.
const CACHED: usize = 16384;
const WAYS: usize = 8;

/// zstd's level for a block.
const LEVEL: i32 = 1;

/// A reference in a folded chunk: where among the messages (4 bytes), how long (4), where in the file (8),
/// how many bytes there (4), 0 (4), xxh3-64 of the bytes (8).
const REFERENCE: usize = 32;
/// How many references there are comes first.
const COUNT: usize = 4;

/// Where a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    offset: u64,
    /// Bytes in the file; if it is the block's own length, it is not compressed.
    stored: u32,
    sum: u64,
}

/// The `blocks` file of a trace that is being written.
pub(crate) struct Folder {
    path: PathBuf,
    /// Made when it is needed; none after a failure: then the log has all.
    file: Option<Option<File>>,
    len: u64,
    /// Of the hashes of pieces.
    seed: u64,
    once: Vec<u64>,
    stored: HashMap<u128, Block>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
    /// The end of the file, which is not written yet.
    unwritten: Vec<u8>,
    references: Vec<u8>,
    /// The messages without what the references stand for.
    rest: Vec<u8>,
    folded: Vec<u8>,
}

impl Folder {
    pub fn new(dir: &Path) -> Folder {
        Folder {
            path: dir.join(BLOCKS),
            file: None,
            len: 0,
            seed: RandomState::new().build_hasher().finish(),
            once: Vec::new(),
            stored: HashMap::new(),
            compressor: None,
            packed: Vec::new(),
            unwritten: Vec::new(),
            references: Vec::new(),
            rest: Vec::new(),
            folded: Vec::new(),
        }
    }

    /// The messages with references to blocks in place of what these hold; none: there is nothing to refer
    /// to. `content` is where in the messages there is content of memory (offset and length), in that order.
    pub fn fold(&mut self, messages: &[u8], content: &[(u32, u32)]) -> Option<&[u8]> {
        if content.is_empty() || self.file.as_ref().is_some_and(Option::is_none) {
            return None;
        }
        self.references.clear();
        self.rest.clear();
        let mut done = 0;
        for (at, len) in content {
            let (mut at, end) = (*at as usize, *at as usize + *len as usize);
            while end - at >= PIECE_MIN {
                let piece = &messages[at..end.min(at + PIECE_MAX)];
                if let Some(block) = self.block(piece) {
                    let words = [at as u32, piece.len() as u32].map(u32::to_le_bytes);
                    self.references.extend(words.as_flattened());
                    self.references.extend(block.offset.to_le_bytes());
                    self.references.extend([block.stored, 0].map(u32::to_le_bytes).as_flattened());
                    self.references.extend(block.sum.to_le_bytes());
                    self.rest.extend(&messages[done..at]);
                    done = at + piece.len();
                }
                at += piece.len();
            }
        }
        if self.references.is_empty() {
            return None;
        }
        if self.write_out().is_err() {
            // The disk is full, perhaps: what repeats is written again each time, as far as that goes.
            self.file = Some(None);
            return None;
        }
        let count = (self.references.len() / REFERENCE) as u32;
        self.folded.clear();
        self.folded.extend(count.to_le_bytes());
        self.folded.extend(&self.references);
        self.folded.extend(&self.rest);
        self.folded.extend(&messages[done..]);
        Some(&self.folded)
    }

    /// Takes no more memory for messages that were long.
    pub fn forget_messages(&mut self) {
        (self.folded, self.rest) = (Vec::new(), Vec::new());
        (self.references, self.unwritten) = (Vec::new(), Vec::new());
    }

    /// Where this is, if it has come before, or does not compress.
    fn block(&mut self, piece: &[u8]) -> Option<Block> {
        // What has the same bytes and another length has another hash.
        let hash = xxh3_128_with_seed(piece, self.seed);
        if let Some(block) = self.stored.get(&hash) {
            return Some(*block);
        }
        if self.once.is_empty() {
            // Not `resize`, which would touch it all: a short recording uses little of it.
            self.once = vec![0; ONCE];
        }
        let word = (hash >> 64) as u64;
        let slot = &mut self.once[hash as usize % ONCE];
        let is_new = *slot != word;
        *slot = word;
        if is_new && (self.stored.len() >= STORED_AT_ONCE_MAX || !is_dense(piece)) {
            return None;
        }
        if self.stored.len() >= STORED_MAX {
            return None;
        }
        let block = self.store(piece).ok()?;
        self.stored.insert(hash, block);
        Some(block)
    }

    fn store(&mut self, piece: &[u8]) -> io::Result<Block> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            None => self.compressor.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        self.packed.resize(zstd::zstd_safe::compress_bound(PIECE_MAX), 0);
        let len = compressor.compress_to_buffer(piece, &mut self.packed[..])?;
        // To read one that is hardly shorter takes longer than it is worth.
        let bytes = if len <= piece.len() / 4 * 3 { &self.packed[..len] } else { piece };
        let offset = self.len + self.unwritten.len() as u64;
        self.unwritten.extend(bytes);
        Ok(Block { offset, stored: bytes.len() as u32, sum: xxh3_64(piece) })
    }

    /// Writes the blocks that are not in the file yet: they have to be, before anything that names them.
    fn write_out(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let file = match &self.file {
            Some(Some(file)) => file,
            _ => {
                let mut options = OpenOptions::new();
                let made = options.write(true).create_new(true).mode(0o600).open(&self.path)?;
                self.file.insert(Some(made)).as_ref().ok_or(io::ErrorKind::NotFound)?
            }
        };
        file.write_all_at(&self.unwritten, self.len)?;
        self.len += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }
}

/// Does it look as if it did not compress? Of some 240 samples, bytes at random have some 155 that differ,
/// and text, code and numbers hardly ever more than 110.
fn is_dense(piece: &[u8]) -> bool {
    const DIFFERENT_MIN: u32 = 140;
    /// No multiple of what programs have arrays of: a sample is of any of their bytes.
    const BETWEEN: usize = 17;
    if piece.len() < PIECE_MAX {
        return false;
    }
    let mut seen = [0u64; 4];
    for byte in piece.iter().step_by(BETWEEN) {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum::<u32>() >= DIFFERENT_MIN
}

/// How long a folded chunk's payload is before compression, at most, whose messages have `raw_len` bytes.
pub(crate) fn folded_len_max(raw_len: usize) -> usize {
    COUNT + raw_len + raw_len / PIECE_MIN * REFERENCE
}

/// The blocks that a reader has had, by their places in the file.
#[derive(Debug, Default)]
struct Cache {
    /// Where in the file, in sets of [`WAYS`]: to which one belongs is known by that.
    offsets: Vec<u64>,
    blocks: Vec<Box<[u8]>>,
    /// Counts the blocks that had to give way.
    pushed_out: usize,
}

/// No block is there.
const NOWHERE: u64 = u64::MAX;

impl Cache {
    fn set(offset: u64) -> Range<usize> {
        // Neighbours are read one after another: they shall not push one another out.
        let set = (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % (CACHED / WAYS);
        set * WAYS..(set + 1) * WAYS
    }

    /// The block of this length at this place of the file.
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let set = Cache::set(offset);
        let way = self.offsets.get(set.clone())?.iter().position(|at| *at == offset)?;
        let block = self.blocks.get(set.start + way)?;
        (block.len() == len).then_some(block)
    }

    /// Keeps a block that is not kept yet: once its set is full, in the place of another.
    fn keep(&mut self, offset: u64, bytes: &[u8]) {
        if self.offsets.is_empty() {
            self.offsets.resize(CACHED, NOWHERE);
            self.blocks.resize(CACHED, Box::default());
        }
        let set = Cache::set(offset);
        let way = match self.offsets[set.clone()].iter().position(|at| [NOWHERE, offset].contains(at)) {
            Some(way) => way,
            None => {
                self.pushed_out += 1;
                self.pushed_out % WAYS
            }
        };
        self.offsets[set.start + way] = offset;
        let block = &mut self.blocks[set.start + way];
        if block.len() == bytes.len() { block.copy_from_slice(bytes) } else { *block = bytes.into() }
    }
}

/// The `blocks` file of a trace that is read; opened when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Source {
    file: OnceLock<File>,
    cache: Mutex<Cache>,
}

/// What is wrong with a folded chunk.
#[derive(Debug)]
pub(crate) enum Unfolded {
    /// Its references make no sense.
    Damaged,
    Failed(TraceError),
}

impl Source {
    /// Appends the messages of a folded chunk to `messages`: they have just `raw_len` bytes.
    pub fn unfold(
        &self,
        dir: &Path,
        folded: &[u8],
        raw_len: usize,
        messages: &mut Vec<u8>,
    ) -> Result<(), Unfolded> {
        let references = || {
            let (count, rest) = folded.split_first_chunk::<COUNT>()?;
            let len = (u32::from_le_bytes(*count) as usize).checked_mul(REFERENCE)?;
            let (references, rest) = rest.split_at_checked(len)?;
            Some((references.as_chunks::<REFERENCE>().0, rest))
        };
        let (references, mut rest) = references().ok_or(Unfolded::Damaged)?;
        let start = messages.len();
        for reference in references {
            let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| reference[at + i]));
            let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| reference[at + i]));
            let (at, len) = (word(0) as usize, word(4) as usize);
            let block = Block { offset: long(8), stored: word(16), sum: long(24) };
            let before = at.checked_sub(messages.len() - start).and_then(|len| rest.split_at_checked(len));
            let (before, behind) = before.ok_or(Unfolded::Damaged)?;
            let is_one = (PIECE_MIN..=PIECE_MAX).contains(&len) && block.stored as usize <= len;
            if !is_one || at + len > raw_len {
                return Err(Unfolded::Damaged);
            }
            messages.extend(before);
            self.block(dir, &block, len, messages).map_err(Unfolded::Failed)?;
            rest = behind;
        }
        messages.extend(rest);
        if messages.len() - start == raw_len { Ok(()) } else { Err(Unfolded::Damaged) }
    }

    /// Appends a block of `len` bytes to the messages.
    fn block(&self, dir: &Path, block: &Block, len: usize, messages: &mut Vec<u8>) -> Result<()> {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = cache().get(block.offset, len) {
            messages.extend(bytes);
            return Ok(());
        }
        let start = messages.len();
        self.read(dir, block, len, messages)?;
        cache().keep(block.offset, &messages[start..]);
        Ok(())
    }

    /// Reads a block from the file.
    fn read(&self, dir: &Path, block: &Block, len: usize, messages: &mut Vec<u8>) -> Result<()> {
        let path = || dir.join(BLOCKS);
        let failed = |source| TraceError::Read { path: path(), source: Arc::new(source) };
        let damaged = |what: &str| TraceError::Damaged {
            path: path(),
            offset: block.offset,
            what: format!("{what} {len} bytes that the trace has several times"),
        };
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                let opened = options.read(true).custom_flags(NO_LINKS).open(path()).map_err(failed)?;
                if !opened.metadata().map_err(failed)?.is_file() {
                    return Err(damaged("it is no file, and should have the"));
                }
                self.file.get_or_init(|| opened)
            }
        };
        let (start, is_packed) = (messages.len(), (block.stored as usize) < len);
        let mut packed = Vec::new();
        let place = if is_packed { &mut packed } else { &mut *messages };
        place.resize(place.len() + block.stored as usize, 0);
        let from = place.len() - block.stored as usize;
        match file.read_exact_at(&mut place[from..], block.offset) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged("it ends before the"));
            }
            // An offset that no file can have.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(damaged("it has no place for the"));
            }
            Err(error) => return Err(failed(error)),
        }
        if is_packed {
            let mut unpacked = Vec::with_capacity(len);
            match decompress(&packed, &mut unpacked) {
                Ok(_) if unpacked.len() == len => messages.extend(unpacked),
                Ok(_) | Err(_) => return Err(damaged("it does not hold the")),
            }
        }
        let is_sound = xxh3_64(&messages[start..]) == block.sum;
        if is_sound { Ok(()) } else { Err(damaged("the checksum is wrong of the")) }
    }
}

#[cfg(test)]
mod tests;
