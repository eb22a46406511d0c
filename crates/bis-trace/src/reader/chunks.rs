//! The chunks of a trace's log: they are found, checked, decompressed and unfolded.

use std::{cell::RefCell, os::unix::fs::FileExt as _, sync::Arc};

use super::Trace;
use crate::{
    blocks,
    chunk::{self, CHUNK_HEADER_BYTES, Chunk},
    error::{Result, TraceError},
    index::Place,
    types::DomainId,
};

/// The chunks of one stream. A gap in their numbers is an error once, and then they go on.
#[derive(Clone, Debug)]
pub(super) struct Chunks<'a> {
    pub(super) trace: &'a Trace,
    pub(super) stream: u32,
    /// The index of the next chunk among those that the log has.
    next: usize,
    /// The next chunk's number.
    ordinal: u32,
    /// What the last chunk was in, to be used again.
    pub(super) spare: Vec<u8>,
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
        let mut messages = std::mem::take(&mut self.spare);
        Some(self.trace.read(&place, &mut messages).map(|()| (place, messages)))
    }
}

impl Trace {
    pub(super) fn chunks(&self, stream: u32) -> Chunks<'_> {
        Chunks { trace: self, stream, next: 0, ordinal: 0, spare: Vec::new() }
    }

    /// The n-th chunk of a stream that the log has.
    fn place(&self, stream: u32, index: usize) -> Option<Place> {
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

    /// The same for a folded chunk.
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

/// Into the room that there is. A context is kept for each thread: to make one, zstd asks the processor what
/// it can, and where `cpuid` faults (in a supervisor's thread) that takes longer than most chunks.
pub(crate) fn decompress(payload: &[u8], messages: &mut Vec<u8>) -> std::io::Result<usize> {
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
