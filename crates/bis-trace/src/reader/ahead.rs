//! Chunks that are read before anybody asks for them, by a thread of its own: to decompress a chunk takes
//! about as long as the program takes to use it up.
//!
//! A reader that has taken a chunk of a stream asks for the next ones ([`ReadAhead::ask`]), and finds them
//! read when it comes to them. If nobody has begun with one by then, it reads that itself: so it never waits
//! for what others have asked for.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::Trace;
use crate::{error::Result, index::Place};

/// Reads chunks of a trace ahead, while a thread serves it.
#[derive(Debug)]
pub struct ReadAhead<'t> {
    trace: &'t Trace,
    queue: Mutex<Queue>,
    /// There is something in the queue, or it is closed.
    work: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    wanted: VecDeque<Arc<Asked>>,
    /// How many threads serve it.
    served: usize,
    is_closed: bool,
}

/// A chunk that was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    place: Place,
    state: Mutex<State>,
    /// It is read.
    is_read: Condvar,
}

#[derive(Debug)]
enum State {
    /// Nobody has begun to read it. With a buffer to be used.
    Wanted(Vec<u8>),
    Begun,
    Read(Result<Vec<u8>>),
    /// The reader that has asked for it reads it, or has it.
    Taken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'t> ReadAhead<'t> {
    /// Nothing is read ahead before a thread serves it.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        Self { trace, queue: Mutex::default(), work: Condvar::new() }
    }

    /// Reads what is asked for, until it is closed. Any number of threads may.
    pub fn serve(&self) {
        let mut queue = lock(&self.queue);
        queue.served += 1;
        while !queue.is_closed {
            let Some(asked) = queue.wanted.pop_front() else {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            asked.read(self.trace);
            queue = lock(&self.queue);
        }
        queue.served -= 1;
    }

    /// Nobody serves it any more. What was asked for is read by whoever has asked.
    pub fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        queue.wanted.clear();
        self.work.notify_all();
    }

    /// Asks for these chunks. False: nobody serves.
    pub(super) fn ask(&self, chunks: &[Arc<Asked>]) -> bool {
        let mut queue = lock(&self.queue);
        let is_served = !queue.is_closed && queue.served > 0;
        if is_served && !chunks.is_empty() {
            queue.wanted.extend(chunks.iter().map(Arc::clone));
            self.work.notify_one();
        }
        is_served
    }
}

/// Nobody waits for a chunk whose reader has panicked.
struct Reading<'a>(&'a Asked);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if matches!(*state, State::Begun) {
            *state = State::Taken;
        }
        self.0.is_read.notify_all();
    }
}

impl Asked {
    /// A chunk that is to be read, into one of these buffers.
    pub(super) fn new(place: Place, spare: &mut Vec<Vec<u8>>) -> Arc<Asked> {
        let state = Mutex::new(State::Wanted(spare.pop().unwrap_or_default()));
        Arc::new(Asked { place, state, is_read: Condvar::new() })
    }

    pub(super) fn is_of(&self, place: &Place) -> bool {
        self.place.offset == place.offset
    }

    /// Bytes of messages.
    pub(super) fn raw_len(&self) -> u64 {
        self.place.chunk.raw_len.into()
    }

    fn read(&self, trace: &Trace) {
        let mut messages = {
            let mut state = lock(&self.state);
            match mem::replace(&mut *state, State::Begun) {
                State::Wanted(buffer) => buffer,
                other => {
                    *state = other;
                    return;
                }
            }
        };
        let reading = Reading(self);
        let result = trace.read(&self.place, &mut messages).map(|()| messages);
        *lock(&self.state) = State::Read(result);
        drop(reading);
    }

    /// The chunk's messages, if somebody has begun to read them. None: whoever has asked is to read them, for
    /// which the buffer comes back.
    pub(super) fn take(&self, spare: &mut Vec<Vec<u8>>) -> Option<Result<Vec<u8>>> {
        let is_begun = |state: &mut State| matches!(state, State::Begun);
        let mut state =
            self.is_read.wait_while(lock(&self.state), is_begun).unwrap_or_else(PoisonError::into_inner);
        match mem::replace(&mut *state, State::Taken) {
            State::Read(result) => Some(result),
            State::Wanted(unused) => {
                spare.push(unused);
                None
            }
            State::Begun | State::Taken => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::FileExt as _, path::Path, thread};

    use super::*;
    use crate::{codec::arbitrary::plain, event::Event, log::Writer, types::DomainId};

    const CHUNKS: usize = 40;

    /// A stream of chunks of about 50 KB, one in four of them much smaller.
    fn a_trace(dir: &Path) {
        let writer = Writer::create(dir).unwrap();
        let mut stream = writer.stream(DomainId(1));
        for chunk in 0..CHUNKS {
            let len = if chunk % 4 == 3 { 10 } else { 50_000 };
            let content: Vec<u8> = (0..len).map(|at| (at * 7 + chunk) as u8).collect();
            stream.push(&plain(writer.next_seq().0, &content)).unwrap();
            stream.flush().unwrap();
        }
        drop(stream);
        writer.finish().unwrap();
    }

    fn read(trace: &Trace, ahead: Option<&ReadAhead<'_>>) -> Vec<Option<Event>> {
        let mut events = trace.events(DomainId(1));
        let mut all = Vec::new();
        match ahead {
            None => all.extend(events.map(Result::ok)),
            Some(ahead) => {
                events.read_ahead(ahead);
                for number in 0.. {
                    if number == CHUNKS / 2 {
                        // A copy has the same to come.
                        let mut copy = events.clone();
                        assert_eq!(copy.next().map(Result::ok), events.clone().next().map(Result::ok));
                    }
                    let Some(event) = events.next() else { break };
                    all.push(event.ok());
                }
            }
        }
        all
    }

    #[test]
    fn what_is_read_ahead_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        a_trace(dir.path());
        let check = |trace: &Trace| {
            let wanted = read(trace, None);
            for readers in [0, 1, 3] {
                let ahead = ReadAhead::new(trace);
                thread::scope(|scope| {
                    (0..readers).for_each(|_| drop(scope.spawn(|| ahead.serve())));
                    while lock(&ahead.queue).served < readers {
                        thread::yield_now();
                    }
                    assert_eq!(read(trace, Some(&ahead)), wanted);
                    ahead.close();
                    assert_eq!(read(trace, Some(&ahead)), wanted);
                });
            }
            wanted
        };
        let trace = Trace::open(dir.path()).unwrap();
        assert_eq!(check(&trace).len(), CHUNKS);
        // A damaged chunk ends the stream, whoever has read it.
        let place = trace.place(1, CHUNKS / 2 + 1).unwrap();
        let log = std::fs::OpenOptions::new().write(true).open(dir.path().join(crate::folder::LOG)).unwrap();
        log.write_all_at(&[0xff; 8], place.offset + crate::chunk::CHUNK_HEADER_BYTES as u64).unwrap();
        assert_eq!(check(&trace).iter().filter(|event| event.is_some()).count(), CHUNKS / 2 + 1);
    }

    /// What was read ahead is what is given: the log is not read again for it.
    #[test]
    fn a_stream_uses_what_was_read_ahead() {
        let dir = tempfile::tempdir().unwrap();
        a_trace(dir.path());
        let trace = Trace::open(dir.path()).unwrap();
        let wanted = read(&trace, None);
        let ahead = ReadAhead::new(&trace);
        lock(&ahead.queue).served = 1;
        let mut events = trace.events(DomainId(1));
        events.read_ahead(&ahead);
        assert_eq!(events.next().unwrap().ok(), wanted[0]);
        let asked: Vec<_> = lock(&ahead.queue).wanted.drain(..).collect();
        assert!(asked.len() > 2, "{}", asked.len());
        asked.iter().for_each(|asked| asked.read(&trace));
        let log = std::fs::OpenOptions::new().write(true).open(dir.path().join(crate::folder::LOG)).unwrap();
        let first = trace.place(1, 1).unwrap().offset;
        log.write_all_at(&vec![0xff; 1 << 20], first).unwrap();
        for wanted in &wanted[1..=asked.len()] {
            assert_eq!(events.next().unwrap().ok(), *wanted);
        }
        assert!(events.next().unwrap().is_err(), "nobody has read that before it was damaged");
    }

    #[test]
    fn whoever_has_asked_reads_what_nobody_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        a_trace(dir.path());
        let trace = Trace::open(dir.path()).unwrap();
        let ahead = ReadAhead::new(&trace);
        let place = trace.place(1, 0).unwrap();
        let mut spare = vec![vec![7; 3]];
        let asked = Asked::new(place, &mut spare);
        assert!(spare.is_empty() && !ahead.ask(&[Arc::clone(&asked)]), "nobody serves it");
        assert!(asked.take(&mut spare).is_none());
        assert_eq!(spare, [[7; 3]], "the buffer comes back");
        // It is not read any more.
        asked.read(&trace);
        assert!(matches!(*lock(&asked.state), State::Taken));
        let asked = Asked::new(place, &mut spare);
        asked.read(&trace);
        let mut wanted = Vec::new();
        trace.read(&place, &mut wanted).unwrap();
        assert_eq!(asked.take(&mut spare).unwrap().unwrap(), wanted);
    }
}
