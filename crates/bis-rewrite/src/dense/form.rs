//! The form of a stored map: little-endian numbers, one after the other, and a checksum at the end.
//!
//! | | |
//! | --- | --- |
//! | 8 bytes | magic |
//! | 4, 4 | version, 0 |
//! | 32 | the entry's name |
//! | 8, then 32 each | number of segments; each: start, offset in the original, length, offset in the stored
//! text |
//! | 8, 8 | offset of the trampolines in the stored text, their length |
//! | 8, 8 | base and distance of the map |
//! | 8, then 12 each | number of pieces; each: offset, original, kind (1), length (1), 0 (2) |
//! | 8, then 8 each | number of entries; each: original, offset |
//! | 8, then 48 each | number of sites; each: kind, site, entry, traced, done, abort (-1 for none) |
//! | 32 | blake3 of all before |
//!
//! A change of the form counts [`VERSION`] up, and any change of the code that is made, or of what is
//! counted, [`MADE`]. Traces keep maps ([`DenseMap::load`]): a program that changes the form goes on reading
//! those of before.

use super::{
    cache::{DenseName, StoredSegment},
    map::{DenseMap, DenseSite, Kind, Piece},
};
use crate::run::SiteKind;

const MAGIC: [u8; 8] = *b"bisdense";
const VERSION: u32 = 2;
/// Part of every name, so that another version's entries are not even opened (3: no `lsl` is moved).
pub(super) const MADE: u32 = 3;
const SUM: usize = 32;

/// All that is stored beside the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub segments: Vec<StoredSegment>,
    /// Offset in the stored text, and length.
    pub trampolines: (u64, u64),
    pub map: DenseMap,
}

pub(super) fn encode(name: &DenseName, stored: &Stored) -> Vec<u8> {
    let map = &stored.map;
    let mut out =
        Vec::with_capacity(200 + map.pieces.len() * 12 + map.enters.len() * 8 + map.sites.len() * 48);
    let put = |out: &mut Vec<u8>, words: &[u64]| {
        words.iter().for_each(|word| out.extend(word.to_le_bytes()));
    };
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([0; 4]);
    out.extend(name.0);
    put(&mut out, &[stored.segments.len() as u64]);
    for segment in &stored.segments {
        put(&mut out, &[segment.start, segment.offset, segment.len, segment.at]);
    }
    put(&mut out, &[stored.trampolines.0, stored.trampolines.1]);
    put(&mut out, &[map.base, map.distance, map.pieces.len() as u64]);
    for piece in &map.pieces {
        out.extend(piece.at.to_le_bytes());
        out.extend(piece.original.to_le_bytes());
        out.extend([piece.kind as u8, piece.len, 0, 0]);
    }
    put(&mut out, &[map.enters.len() as u64]);
    for (original, at) in &map.enters {
        out.extend(original.to_le_bytes());
        out.extend(at.to_le_bytes());
    }
    put(&mut out, &[map.sites.len() as u64]);
    for site in &map.sites {
        let abort = site.abort.unwrap_or(u64::MAX);
        put(&mut out, &[site.kind as u64, site.site, site.entry, site.traced, site.done, abort]);
    }
    let sum = blake3::hash(&out);
    out.extend(sum.as_bytes());
    out
}

/// The name that a stored map says it has.
pub(super) fn name(bytes: &[u8]) -> Option<DenseName> {
    bytes.get(16..48)?.try_into().ok().map(DenseName)
}

/// What is stored, if it is whole and of this name.
pub(super) fn decode(name: &DenseName, bytes: &[u8]) -> Option<Stored> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
    if blake3::hash(body).as_bytes() != sum {
        return None;
    }
    let mut rest = Rest(body);
    if rest.take::<8>()? != MAGIC
        || rest.half()? != VERSION
        || rest.half()? != 0
        || rest.take::<32>()? != name.0
    {
        return None;
    }
    let mut segments = Vec::new();
    for _ in 0..rest.count(32)? {
        let [start, offset, len, at] = [rest.word()?, rest.word()?, rest.word()?, rest.word()?];
        segments.push(StoredSegment { start, offset, len, at });
    }
    let trampolines = (rest.word()?, rest.word()?);
    let (base, distance) = (rest.word()?, rest.word()?);
    let len = u32::try_from(trampolines.1).ok()?;
    let mut pieces = Vec::with_capacity(rest.peek(12)?);
    for _ in 0..rest.count(12)? {
        let (at, original) = (rest.half()?, rest.half()?);
        let [kind, len, _, _] = rest.take()?;
        pieces.push(Piece { at, original, kind: Kind::ALL.into_iter().find(|one| *one as u8 == kind)?, len });
    }
    let mut enters = Vec::with_capacity(rest.peek(8)?);
    for _ in 0..rest.count(8)? {
        enters.push((rest.half()?, rest.half()?));
    }
    let mut sites = Vec::new();
    for _ in 0..rest.count(48)? {
        let kind = rest.word()?;
        let kind = SiteKind::ALL.into_iter().find(|one| *one as u64 == kind)?;
        let [site, entry, traced, done, abort] =
            [rest.word()?, rest.word()?, rest.word()?, rest.word()?, rest.word()?];
        sites.push(DenseSite {
            kind,
            site,
            entry,
            traced,
            done,
            abort: (abort != u64::MAX).then_some(abort),
        });
    }
    let map = DenseMap { base, distance, len, pieces, enters, sites };
    rest.0.is_empty().then_some(Stored { segments, trampolines, map })
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// The number of things of `size` bytes that follow. None if there is no room for so many.
    fn count(&mut self, size: usize) -> Option<u64> {
        let count = self.word()?;
        (count <= (self.0.len() / size) as u64).then_some(count)
    }

    /// As `count`, without going on.
    fn peek(&self, size: usize) -> Option<usize> {
        Rest(self.0).count(size).map(|count| count as usize)
    }
}
