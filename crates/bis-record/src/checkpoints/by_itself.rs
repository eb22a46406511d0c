//! What memory is to hold again, put back by the process itself, while the shadow copies more of its own for
//! it, or other threads read that from the shadow.

use std::{
    io,
    ops::Range,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use bis_trace::{
    event::MemWrite,
    types::{Addr, Tid},
};
use bis_tracee::{
    put_back::{ROOM, Room, Rooms},
    remote::Remote,
};

use super::content::{Buffers, COMPARED, GAP, Own, Sides, in_runs};
use crate::error::{RecordError, Result};

// A part of memory that may differ fits in a room.
const _: () = assert!(COMPARED <= ROOM);

/// Bytes in pages that may differ that are worth the rooms.
pub const WORTH_ROOMS: u64 = 16 << 20;

/// The process works on one room at a time, so more threads than these would only wait for it.
const FILLERS_MAX: usize = 2;

/// One is filled while the process works on the other, or while that one waits for it.
const ROOMS_EACH: usize = 2;

/// How many rooms there should be for so many cores: of each thread that fills them, and one of the
/// supervisor's own.
pub fn rooms_for(cores: usize) -> u64 {
    (cores.saturating_sub(1).min(FILLERS_MAX) * ROOMS_EACH + 1) as u64
}

/// A room on its way to the process.
struct Filled {
    room: Room,
    chunk: usize,
    /// Whether all of it could be read.
    is_read: bool,
    /// Which of the threads has filled it; none: the supervisor's.
    by: Option<usize>,
}

/// What a thread does beside the process: it fills rooms, and reads what the process has noted in them.
struct Filler<'a> {
    chunks: &'a [&'a [Range<Addr>]],
    /// The chunk that comes next, whoever fills a room with it.
    next: &'a AtomicUsize,
    shadow: Tid,
    writes: Vec<MemWrite>,
}

impl Filler<'_> {
    fn read(&mut self, room: &mut Room) {
        room.take_noted(GAP as u64, |addr, data| self.writes.push(MemWrite { addr, data }));
    }

    /// None: nothing is left.
    fn fill(&mut self, mut room: Room, by: Option<usize>) -> Option<Filled> {
        self.read(&mut room);
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        let is_read = room.fill(self.shadow, self.chunks.get(chunk)?);
        Some(Filled { room, chunk, is_read, by })
    }

    /// Fills rooms until nobody has one for it any more. Returns what the process has noted in them.
    fn serve(mut self, empty: &Receiver<Room>, filled: &Sender<Filled>, by: usize) -> Vec<MemWrite> {
        for room in empty {
            // Nobody hears it where the process has ended.
            self.fill(room, Some(by)).into_iter().for_each(|room| drop(filled.send(room)));
        }
        self.writes
    }
}

/// How many rooms there must be for the shadow to fill one, the process to work on another, and for us to
/// read what it has noted in a third one.
pub const ROOMS_OF_BOTH: usize = 3;

impl Sides<'_> {
    /// Like [`Sides::restore_by_itself`], and the shadow fills the rooms, in whose name calls are made by
    /// `shadow`, and which has the rooms mapped, too: for it, its memory is at hand, where the kernel would
    /// look up each page of it for us.
    ///
    /// # Errors
    /// Where one of the processes is gone.
    pub fn restore_by_both(
        &self,
        parts: &[Range<Addr>],
        (remote, shadow): (&mut Remote<'_>, &mut Remote<'_>),
        rooms: &mut [Room; ROOMS_OF_BOTH],
        own: Own<'_>,
        buffers: &mut [Buffers],
        begin: &(dyn Fn() + Sync),
    ) -> Result<Vec<MemWrite>> {
        let lost = |source| RecordError::Os { what: "put memory back", source };
        let chunks = in_runs(parts, rooms[0].capacity());
        let (mut writes, mut is_filled) = (Vec::new(), false);
        for step in 0..chunks.len() + ROOMS_OF_BOTH - 1 {
            // What was filled in the step before is put back, and what was put back then is read.
            let room_of = |behind: usize| (step + ROOMS_OF_BOTH - behind) % ROOMS_OF_BOTH;
            let chunk_of = |behind: usize| chunks.get(step.checked_sub(behind)?).copied();
            let is_filling = match chunk_of(0) {
                Some(chunk) => rooms[room_of(0)].begin_fill(shadow, chunk)?,
                None => false,
            };
            let begun = if is_filled { Some(rooms[room_of(1)].begin_put_back(remote)) } else { None };
            rooms[room_of(2)].take_noted(GAP as u64, |addr, data| writes.push(MemWrite { addr, data }));
            let is_put_back = begun.map(|begun| begun.and_then(|()| rooms[room_of(1)].end_put_back(remote)));
            // Also where the process has ended: a task that runs is nobody's.
            is_filled = is_filling && rooms[room_of(0)].end_fill(shadow)?;
            let is_put_back = is_put_back.transpose()?.unwrap_or(false);
            if let Some(chunk) = chunk_of(1).filter(|_| !is_put_back) {
                writes.extend(self.restore(chunk, own, buffers, begin).map_err(lost)?);
            }
        }
        Ok(writes)
    }

    /// Like [`Sides::restore`], by the process itself, in whose name calls are made; the pieces are in no
    /// order. What it may not read or write is put back from here, with these buffers.
    ///
    /// # Errors
    /// Where one of the processes is gone.
    pub fn restore_by_itself(
        &self,
        parts: &[Range<Addr>],
        (remote, rooms): (&mut Remote<'_>, &Rooms),
        own: Own<'_>,
        buffers: &mut [Buffers],
        begin: &(dyn Fn() + Sync),
    ) -> Result<Vec<MemWrite>> {
        let lost = |source| RecordError::Os { what: "put memory back", source };
        let (chunks, next) = (&in_runs(parts, ROOM), &AtomicUsize::new(0));
        let filler = || Filler { chunks, next, shadow: self.shadow.pid(), writes: Vec::new() };
        let mut rooms = rooms.each().into_iter();
        let (mut here, mut room_here) = (filler(), rooms.next());
        thread::scope(|scope| {
            let (filled, ready) = channel();
            let (mut backs, mut threads) = (Vec::new(), Vec::new());
            while rooms.len() > 0 {
                let (back, empty) = channel();
                rooms.by_ref().take(ROOMS_EACH).for_each(|room| drop(back.send(room)));
                let (filler, filled, by) = (filler(), filled.clone(), backs.len());
                threads.push(scope.spawn(move || {
                    begin();
                    filler.serve(&empty, &filled, by)
                }));
                backs.push(back);
            }
            drop(filled);
            let mut writes = Vec::new();
            for _ in chunks {
                // A thread that would wait fills one.
                let Filled { mut room, chunk, is_read, by } = ready
                    .try_recv()
                    .ok()
                    .or_else(|| here.fill(room_here.take()?, None))
                    .or_else(|| ready.recv().ok())
                    .ok_or_else(|| lost(io::ErrorKind::BrokenPipe.into()))?;
                if !(is_read && room.put_back(remote)?) {
                    let parts = chunks.get(chunk).copied().unwrap_or_default();
                    writes.extend(self.restore(parts, own, buffers, begin).map_err(lost)?);
                }
                match by.and_then(|by| backs.get(by)) {
                    Some(back) => drop(back.send(room)),
                    None => room_here = Some(room),
                }
            }
            // The threads end.
            drop(backs);
            room_here.iter_mut().for_each(|room| here.read(room));
            writes.append(&mut here.writes);
            for thread in threads {
                writes.extend(thread.join().map_err(|_| lost(io::ErrorKind::Other.into()))?);
            }
            Ok(writes)
        })
    }
}
