//! The log's frame: the header of the file, and that of each chunk.
//!
//! A log is [`LOG_HEADER_BYTES`] of header, then chunks with nothing between them. A chunk is
//! [`CHUNK_HEADER_BYTES`] of header and a zstd frame; its checksum is over both, so neither can be read for
//! the other's. All numbers are little-endian. The chunks of a stream are numbered from 0 without gaps: a
//! missing one is noticed.
//!
//! Which reader may read a log is said by two numbers: the format in which it was written, and the least that
//! a reader must know. They differ after an addition that an older reader may ignore.

use std::{cell::RefCell, io};

use xxhash_rust::xxh3::Xxh3Default;

/// The format that this bis writes, and the newest that it reads.
///
/// 1: the first. 2: a pause says what memory held (it was sums before), and events have counts. 3: outcomes
/// say what of the memory that they change is bis's own, which a reader that only replays may ignore. 4:
/// events have times. 5: a stream may begin with the image of a process that was found running; a log that
/// has one is for readers of this format only. 6: a chunk may be folded, and checksums may be of stacks; a
/// log that has either is for readers of this format only. 7: what is patched in a text may be said by a kept
/// file; the same. 8: calls may be of the 32-bit table, and effects of thread-local storage of such programs;
/// the same.
pub const FORMAT: u32 = 8;
/// The first format with 32-bit programs ([`crate::event::Effect::Segment`]).
pub const FORMAT_NARROW: u32 = 8;
/// The first format with patched texts ([`crate::ours::PatchedText`]).
pub const FORMAT_PATCHED: u32 = 7;
/// The first format with folded chunks ([`Chunk::is_folded`]).
pub const FORMAT_FOLDED: u32 = 6;
/// The first format in which checksums may be of stacks ([`crate::event::RangeSum::is_stack`]).
pub const FORMAT_STACKS: u32 = 6;
/// The first format with images ([`crate::event::Base::Image`]).
pub const FORMAT_IMAGES: u32 = 5;
/// The first format in which events have times ([`crate::event::Lapse`]).
pub const FORMAT_TIMES: u32 = 4;
/// The first format with what is bis's own ([`crate::event::Outcome::ours`]).
pub const FORMAT_OURS: u32 = 3;
/// The oldest format that this bis reads.
pub const FORMAT_MIN: u32 = 2;
/// The oldest reader that is right about what this bis writes, unless the log has an image, folded chunks,
/// checksums of stacks, or patched texts.
pub const READER_FORMAT_MIN: u32 = 2;

pub const LOG_MAGIC: [u8; 8] = *b"BISTRACE";
pub const LOG_HEADER_BYTES: usize = 24;

pub const CHUNK_MAGIC: [u8; 4] = [0xb1, 0x5c, 0x4e, 0x0a];
pub const CHUNK_HEADER_BYTES: usize = 48;

/// No chunk is larger than this before compression: a few buffers, or one event of the largest size.
pub const RAW_BYTES_MAX: u32 = 512 << 20;
/// In the place of the length before compression: the chunk is folded.
const FOLDED: u32 = 1 << 31;

/// magic, format, least reader, checksum of these.
pub fn log_header(reader: u32) -> [u8; LOG_HEADER_BYTES] {
    let mut bytes = [0; LOG_HEADER_BYTES];
    bytes[..8].copy_from_slice(&LOG_MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&reader.to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What a log's first bytes turn out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogHeader {
    Good { version: u32 },
    NotATrace,
    Newer { version: u32, reader: u32 },
    Older { version: u32 },
    Damaged,
}

pub fn check_log_header(bytes: &[u8; LOG_HEADER_BYTES]) -> LogHeader {
    let (version, reader) = (u32_at(bytes, 8), u32_at(bytes, 12));
    let sound = xxhash_rust::xxh3::xxh3_64(&bytes[..16]) == u64_at(bytes, 16);
    match (bytes[..8] == LOG_MAGIC, sound) {
        (false, _) => LogHeader::NotATrace,
        (true, false) => LogHeader::Damaged,
        (true, true) if reader > FORMAT => LogHeader::Newer { version, reader },
        (true, true) if version < FORMAT_MIN => LogHeader::Older { version },
        (true, true) => LogHeader::Good { version },
    }
}

/// A chunk's header, but for magic and checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// A domain's id, or 0: the meta stream.
    pub stream: u32,
    /// The number of this chunk in its stream, from 0.
    pub ordinal: u32,
    /// Event numbers; both 0 in the meta stream.
    pub first_seq: u64,
    pub last_seq: u64,
    pub event_count: u32,
    /// Bytes of messages, before they were folded and compressed.
    pub raw_len: u32,
    /// What is compressed has references to the file `blocks` (`blocks.rs`).
    pub is_folded: bool,
    /// Bytes that follow the header.
    pub payload_len: u32,
}

impl Chunk {
    /// The length of header and payload, bytes.
    pub fn total_len(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + u64::from(self.payload_len)
    }

    pub fn to_bytes(self, payload: &[u8]) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4..8].copy_from_slice(&self.stream.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.ordinal.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.event_count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.last_seq.to_le_bytes());
        let folded = if self.is_folded { FOLDED } else { 0 };
        bytes[32..36].copy_from_slice(&(self.raw_len | folded).to_le_bytes());
        bytes[36..40].copy_from_slice(&self.payload_len.to_le_bytes());
        let sum = checksum(&bytes, payload);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header's fields, if it looks like one; the checksum is [`Chunk::is_sound`]'s matter.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Option<Chunk> {
        let chunk = Chunk {
            stream: u32_at(bytes, 4),
            ordinal: u32_at(bytes, 8),
            event_count: u32_at(bytes, 12),
            first_seq: u64_at(bytes, 16),
            last_seq: u64_at(bytes, 24),
            raw_len: u32_at(bytes, 32) & !FOLDED,
            is_folded: u32_at(bytes, 32) & FOLDED != 0,
            payload_len: u32_at(bytes, 36),
        };
        // zstd's worst case is a little above the raw length.
        let credible = chunk.raw_len <= RAW_BYTES_MAX && chunk.payload_len <= RAW_BYTES_MAX / 4 * 5;
        (bytes[..4] == CHUNK_MAGIC && credible).then_some(chunk)
    }
}

/// Whether a header and its payload are as they were written.
pub fn is_sound(header: &[u8; CHUNK_HEADER_BYTES], payload: &[u8]) -> bool {
    checksum(header, payload) == u64_at(header, 40)
}

fn checksum(header: &[u8; CHUNK_HEADER_BYTES], payload: &[u8]) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(&header[..40]);
    hasher.update(payload);
    hasher.digest()
}

/// Decompresses a zstd frame, into the room that there is. A context is kept for each thread: to make one,
/// zstd asks the processor what it can, and where `cpuid` faults (in a supervisor's thread) that takes longer
/// than most chunks.
pub fn decompress(payload: &[u8], messages: &mut Vec<u8>) -> io::Result<usize> {
    thread_local! {
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        let decompressor = match context {
            Some(decompressor) => decompressor,
            None => context.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(payload, messages)
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
