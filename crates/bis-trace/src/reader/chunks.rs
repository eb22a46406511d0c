//! The chunks of a trace's log: they are found, checked, decompressed and unfolded.

use std::{collections::VecDeque, os::unix::fs::FileExt as _, sync::Arc};

use super::{
    Trace,
    ahead::{Asked, ReadAhead},
};
use crate::{
    blocks,
    chunk::{self, CHUNK_HEADER_BYTES, Chunk, decompress},
    error::{Result, TraceError},
    index::Place,
    types::DomainId,
};

/// So many chunks are read ahead; more are asked for when no more than this are left.
const AHEAD_MAX: usize = 6;
const AHEAD_MIN: usize = 2;
/// Beyond so many bytes, none is asked for; fewer are read faster than others can be asked to.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
const AHEAD_BYTES_MIN: u64 = 64 << 10;

/// So many buffers are kept to be used again: as many as are asked for at once. A new one is some hundred
/// pages that the kernel has to find, and to clear.
const SPARE_MAX: usize = AHEAD_MAX - AHEAD_MIN;

/// The chunks of one stream. A gap in their numbers is an error once, and then they go on.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    pub(super) trace: &'a Trace,
    pub(super) stream: u32,
    /// The index of the next chunk among those that the log has.
    next: usize,
    /// The next chunk's number.
    ordinal: u32,
    /// What earlier chunks were in, to be used again.
    spare: Vec<Vec<u8>>,
    /// What reads the next ones ahead.
    ahead: Option<&'a ReadAhead<'a>>,
    /// The next ones that were asked for, without a gap: the first of them may be behind the next one.
    asked: VecDeque<Arc<Asked>>,
}

impl Clone for Chunks<'_> {
    fn clone(&self) -> Self {
        // What was asked for is had once.
        Self { spare: Vec::new(), asked: VecDeque::new(), ..*self }
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<(Place, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.trace.place(self.stream, self.next)?;
        if place.chunk.ordinal != self.ordinal {
            let missing = TraceError::MissingChunk { stream: DomainId(self.stream), ordinal: self.ordinal };
            self.ordinal = place.chunk.ordinal;
            return Some(Err(missing));
        }
        self.next += 1;
        self.ordinal = self.ordinal.wrapping_add(1);
        let is_asked = self.asked.front().is_some_and(|asked| asked.is_of(&place));
        let asked = if is_asked { self.asked.pop_front() } else { None };
        let read = asked.and_then(|asked| asked.take(&mut self.spare)).unwrap_or_else(|| {
            let mut messages = self.spare.pop().unwrap_or_default();
            self.trace.read(&place, &mut messages).map(|()| messages)
        });
        self.ask();
        Some(read.map(|messages| (place, messages)))
    }
}

impl<'a> Chunks<'a> {
    /// A chunk that has been used up: what it was in is used again.
    pub(super) fn give_back(&mut self, messages: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(messages);
        }
    }

    /// From now on, the next chunks are read ahead.
    pub(super) fn read_ahead(&mut self, ahead: &'a ReadAhead<'a>) {
        self.ahead = Some(ahead);
    }

    /// Asks for the next chunks, as far as there are any yet, once few are left of those that were asked for:
    /// several at a time, because to wake a thread takes longer than to read half a chunk.
    fn ask(&mut self) {
        let Some(ahead) = self.ahead.filter(|_| self.asked.len() <= AHEAD_MIN) else { return };
        let first = self.next + self.asked.len();
        let mut room = AHEAD_BYTES_MAX.saturating_sub(self.asked.iter().map(|asked| asked.raw_len()).sum());
        let new = (first..self.next + AHEAD_MAX).map_while(|index| self.trace.place(self.stream, index));
        let fits = |place: &Place| {
            let fits = room > 0;
            room = room.saturating_sub(place.chunk.raw_len.into());
            fits
        };
        let new: Vec<Place> = new.take_while(fits).collect();
        if new.iter().map(|place| u64::from(place.chunk.raw_len)).sum::<u64>() < AHEAD_BYTES_MIN {
            return;
        }
        let new: Vec<_> = new.into_iter().map(|place| Asked::new(place, &mut self.spare)).collect();
        if ahead.ask(&new) {
            self.asked.extend(new);
        }
    }
}

impl Trace {
    pub(super) fn chunks(&self, stream: u32) -> Chunks<'_> {
        Chunks {
            trace: self,
            stream,
            next: 0,
            ordinal: 0,
            spare: Vec::new(),
            ahead: None,
            asked: VecDeque::new(),
        }
    }

    /// The n-th chunk of a stream that the log has.
    pub(super) fn place(&self, stream: u32, index: usize) -> Option<Place> {
        self.table().streams.get(&stream)?.get(index).copied()
    }

    pub(super) fn damaged(&self, offset: u64, what: &str) -> TraceError {
        TraceError::Damaged { path: self.dir.clone(), offset, what: what.into() }
    }

    /// A chunk's messages, in the place of what `messages` held.
    pub(super) fn read(&self, place: &Place, messages: &mut Vec<u8>) -> Result<()> {
        let failed = |source| TraceError::Read { path: self.dir.clone(), source: Arc::new(source) };
        let mut header = [0; CHUNK_HEADER_BYTES];
        let mut payload = vec![0; place.chunk.payload_len as usize];
        self.log.read_exact_at(&mut header, place.offset).map_err(failed)?;
        self.log.read_exact_at(&mut payload, place.offset + CHUNK_HEADER_BYTES as u64).map_err(failed)?;
        if Chunk::from_bytes(&header) != Some(place.chunk) || !chunk::is_sound(&header, &payload) {
            return Err(self.damaged(place.offset, "the chunk's checksum is wrong"));
        }
        let raw_len = place.chunk.raw_len as usize;
        messages.clear();
        messages.reserve(raw_len);
        if place.chunk.is_folded {
            return self.unfold(place, &payload, messages);
        }
        match decompress(&payload, messages) {
            Ok(len) if len == raw_len && messages.len() == raw_len => Ok(()),
            Ok(_) | Err(_) => Err(self.damaged(place.offset, "the chunk cannot be decompressed")),
        }
    }

    /// A folded chunk's messages, in the place of what `messages` held.
    fn unfold(&self, place: &Place, payload: &[u8], messages: &mut Vec<u8>) -> Result<()> {
        let raw_len = place.chunk.raw_len as usize;
        let mut folded = Vec::with_capacity(blocks::folded_len_max(raw_len));
        if decompress(payload, &mut folded).is_err() {
            return Err(self.damaged(place.offset, "the chunk cannot be decompressed"));
        }
        match self.blocks.unfold(&self.dir, &folded, raw_len, messages) {
            Ok(()) => Ok(()),
            Err(blocks::Unfolded::Failed(error)) => Err(error),
            Err(blocks::Unfolded::Damaged) => {
                Err(self.damaged(place.offset, "the chunk's references make no sense"))
            }
        }
    }
}
