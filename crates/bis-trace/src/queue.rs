//! From full buffers to chunks on the disk: one background thread compresses and writes.
//!
//! The recorded program waits while its supervisor does, so compression is not the supervisor's work. The
//! queue between them is bounded by bytes: at most [`QUEUED_BYTES_MAX`] wait (or one larger buffer alone),
//! beyond that whoever has more waits too. Chunks stand in the log in the order in which they were handed
//! over.
//!
//! When a write fails, the chunk it broke is cut off, so the log stays whole chunks; a last chunk says why
//! the recording ended, in space that was kept back for it; what comes after is dropped, and everybody who
//! still writes gets the error.

use std::{
    collections::{HashMap, VecDeque},
    io,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    blocks::{self, Folder},
    chunk::{self, CHUNK_HEADER_BYTES, Chunk, FORMAT_FOLDED},
    codec,
    error::{Result, TraceError},
    event::{Event, EventKind, Meta},
    types::DomainId,
};

/// Bytes of messages that wait for the background thread or are in its hands.
pub const QUEUED_BYTES_MAX: usize = 8 << 20;

/// How long the background thread waits for more before it looks by itself, and how often it does so before
/// it has to be woken.
const DOZE: Duration = Duration::from_millis(1);
const DOZES: u32 = 8;
/// Bytes for which it is woken at once. A log of hooked calls that lies in its area still is in the way
/// there.
const DOZING_BYTES_MAX: usize = 128 << 10;

/// Buffers larger than this are not kept for the next chunk.
const REUSED_BYTES_MAX: usize = 1 << 20;
/// Buffers kept for the next chunks.
const SPARE_COUNT_MAX: usize = 8;

/// zstd's level 1: on traces it packs nearly as well as the default and takes a third of the time, and the
/// program wants the other core.
const LEVEL: i32 = 1;

/// A run of messages of one stream, or one event whose message is still to be made.
#[derive(Default)]
pub struct Raw {
    pub stream: u32,
    pub first_seq: u64,
    pub last_seq: u64,
    pub event_count: u32,
    pub bytes: Vec<u8>,
    /// Where in them there is content of memory: offset and length.
    pub content: Vec<(u32, u32)>,
    /// The least format that a reader must know to be right about them; 0: any.
    pub reader: u32,
    /// In their place: an event with a long log of hooked calls. Its message is made here, on another core
    /// than that on which the recorded program waits.
    pub event: Option<LongEvent>,
}

/// An event with a log of hooked calls, and which parts of the log are the content of memory.
pub struct LongEvent {
    pub event: Event,
    pub content: Vec<Range<usize>>,
}

impl Raw {
    /// What it takes of the queue, bytes.
    fn len(&self) -> usize {
        let of_event = self.event.as_ref().map_or(0, |long| codec::content_bytes(&long.event));
        self.bytes.len() + usize::try_from(of_event).unwrap_or(usize::MAX)
    }

    /// Adds an event's message. If it is an event with a log of hooked calls, `content` is which parts of the
    /// log, in their order, are the content of memory.
    ///
    /// # Errors
    /// Where the event breaks a rule of the schema, or its message is longer than a chunk can be: then
    /// nothing is added.
    pub fn add(&mut self, event: &Event, content: &[Range<usize>]) -> Result<()> {
        let before = self.bytes.len();
        codec::write_event(event, &mut self.bytes)
            .map_err(|malformed| TraceError::Invalid { seq: event.seq, what: malformed.0 })?;
        let len = self.bytes.len();
        if len > chunk::RAW_BYTES_MAX as usize {
            self.bytes.truncate(before);
            return Err(TraceError::TooLarge { seq: event.seq, bytes: (len - before) as u64 });
        }
        self.note_content(event, content, before);
        Ok(())
    }

    /// Notes where there is content of memory in the messages: the event is what was added `from` there on.
    fn note_content(&mut self, event: &Event, content: &[Range<usize>], mut from: usize) {
        let Raw { bytes, content: noted, .. } = self;
        // Messages are not packed: what an event holds is there as it is, and a log of hooked calls is the
        // last thing of its message, in whole words.
        let mut find = |piece: &[u8]| {
            let last = bytes.len().checked_sub(piece.len().next_multiple_of(8)).filter(|last| *last >= from);
            if let Some(last) = last.filter(|last| bytes[*last..].starts_with(piece)) {
                from = last + piece.len();
                return Some(last);
            }
            let first = piece.first_chunk::<{ blocks::PIECE_MIN }>()?;
            let finder = memchr::memmem::Finder::new(first);
            let is_it = |at: &usize| bytes[from + at..].starts_with(piece);
            let at = from + finder.find_iter(&bytes[from..]).find(is_it)?;
            from = at + piece.len();
            Some(at)
        };
        let mut note =
            |at: usize, len: usize| noted.extend(u32::try_from(at).ok().zip(u32::try_from(len).ok()));
        match &event.kind {
            EventKind::Hooked { log, .. } if !content.is_empty() => {
                let Some(at) = find(log) else { return };
                let long =
                    content.iter().filter(|part| part.len() >= blocks::PIECE_MIN && part.end <= log.len());
                long.for_each(|part| note(at + part.start, part.len()));
            }
            EventKind::Syscall { outcome, .. } | EventKind::SyscallExit { outcome, .. } => {
                for write in outcome.writes.iter().filter(|write| write.data.len() >= blocks::PIECE_MIN) {
                    let Some(at) = find(&write.data) else { return };
                    note(at, write.data.len());
                }
            }
            _ => {}
        }
    }
}

/// Where chunks go. A trait so that tests can have a disk that is full.
pub trait Sink: Send {
    /// Appends all of `bytes`, or fails, having written any part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// From here on, the log is for readers of this format, and newer ones, only.
    fn require_reader(&mut self, format: u32) -> io::Result<()>;
    /// Cuts the log to `len` bytes.
    fn cut(&mut self, len: u64) -> io::Result<()>;
    /// Gives back the space that was kept for the last words.
    fn make_room(&mut self);
    /// The log is complete (`whole`) or as complete as it will be.
    fn finish(&mut self, whole: bool);
}

/// What the background thread does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Rest {
    #[default]
    Works,
    /// It waits for a moment, and looks by itself whether something has come. To wake a thread takes the
    /// caller longer than to hand over what a short process has to say.
    Dozes,
    /// It waits to be woken.
    Sleeps,
}

impl Rest {
    /// Is it to be woken for what is queued, so many bytes?
    fn is_to_be_woken(self, queued_bytes: usize) -> bool {
        match self {
            Rest::Works => false,
            Rest::Dozes => queued_bytes >= DOZING_BYTES_MAX,
            Rest::Sleeps => true,
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Raw>,
    rest: Rest,
    /// How many wait for room, or for something to be written.
    waiters: usize,
    queued_bytes: usize,
    /// How many buffers were handed over, and how many of them are done with.
    submitted: u64,
    done: u64,
    spare: Vec<Vec<u8>>,
    failure: Option<TraceError>,
    closed: bool,
    /// The end was asked for ([`crate::Writer::finish`]), not just come by.
    finished: bool,
}

#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Something is waiting, or the queue is closed.
    work: Condvar,
    /// There is room again.
    room: Condvar,
    /// Failed or closed; looked at without the lock.
    stopped: AtomicBool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything can still be written. Cheap.
    pub fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Queue::refusal(&self.lock()) } else { Ok(()) }
    }

    fn refusal(state: &State) -> Result<()> {
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None if state.closed => Err(TraceError::Finished),
            None => Ok(()),
        }
    }

    /// An empty buffer, perhaps with room.
    pub fn spare(&self) -> Vec<u8> {
        self.lock().spare.pop().unwrap_or_default()
    }

    /// Hands a buffer over. Waits while the queue is full.
    pub fn submit(&self, raw: Raw) -> Result<()> {
        let len = raw.len();
        let full = |state: &mut State| {
            state.queued_bytes > 0
                && state.queued_bytes + len > QUEUED_BYTES_MAX
                && state.failure.is_none()
                && !state.closed
        };
        let mut state = self.wait_for_room(self.lock(), full);
        Queue::refusal(&state)?;
        state.queued_bytes += len;
        state.submitted += 1;
        state.waiting.push_back(raw);
        if state.rest.is_to_be_woken(state.queued_bytes) {
            // Once.
            state.rest = Rest::Works;
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits until all that was handed over so far is written. Fails where it could not be.
    pub fn wait_until_written(&self) -> Result<()> {
        let state = self.lock();
        let until = state.submitted;
        let is_waiting = |state: &mut State| state.done < until && state.failure.is_none();
        self.work.notify_one();
        let state = self.wait_for_room(state, is_waiting);
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Waits for as long as `is_waiting`, which is asked again when something is done with.
    fn wait_for_room<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mut is_waiting: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'s, State> {
        while is_waiting(&mut state) {
            state.waiters += 1;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiters -= 1;
        }
        state
    }

    /// No more comes. What is queued will be written.
    pub fn close(&self, finished: bool) {
        let mut state = self.lock();
        state.closed = true;
        state.finished |= finished;
        self.stopped.store(true, Ordering::Relaxed);
        self.work.notify_all();
        self.room.notify_all();
    }

    /// The first write that failed.
    pub fn failure(&self) -> Option<TraceError> {
        self.lock().failure.clone()
    }

    fn fail(&self, failure: TraceError) {
        self.lock().failure.get_or_insert(failure);
        self.stopped.store(true, Ordering::Relaxed);
        self.room.notify_all();
    }

    /// The next buffer, or none after the end. Waits.
    fn next(&self) -> Option<Raw> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let mut state = self.lock();
        for _ in 0..DOZES {
            if !idle(&mut state) {
                break;
            }
            state.rest = Rest::Dozes;
            (state, _) = self.work.wait_timeout(state, DOZE).unwrap_or_else(PoisonError::into_inner);
        }
        if idle(&mut state) {
            state.rest = Rest::Sleeps;
            state = self.work.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        }
        state.rest = Rest::Works;
        state.waiting.pop_front()
    }

    /// What was handed over with so many bytes is written, or never will be. `bytes`: a buffer that is free
    /// again.
    fn done(&self, len: usize, mut bytes: Vec<u8>) {
        let mut state = self.lock();
        state.queued_bytes -= len;
        state.done += 1;
        if state.spare.len() < SPARE_COUNT_MAX && bytes.capacity() <= REUSED_BYTES_MAX {
            bytes.clear();
            state.spare.push(bytes);
        }
        if state.waiters > 0 {
            self.room.notify_all();
        }
    }
}

/// The background thread's state.
pub struct Drain {
    queue: Arc<Queue>,
    /// For messages.
    path: PathBuf,
    sink: Box<dyn Sink>,
    compressor: zstd::bulk::Compressor<'static>,
    blocks: Folder,
    /// The least format that a reader must know because of the chunks so far; 0: none asks for one.
    reader: u32,
    /// Header and compressed payload of the chunk in hand; longer than it needs to be.
    packed: Vec<u8>,
    /// Bytes of the log so far.
    len: u64,
    /// The next chunk's number in each stream.
    ordinals: HashMap<u32, u32>,
}

impl Drain {
    /// `len` is what the log holds already, bytes.
    pub fn new(queue: Arc<Queue>, path: PathBuf, sink: Box<dyn Sink>, len: u64) -> io::Result<Drain> {
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Drain {
            blocks: Folder::new(&path),
            queue,
            path,
            sink,
            compressor,
            reader: 0,
            packed: Vec::new(),
            len,
            ordinals: HashMap::new(),
        })
    }

    /// Writes until the queue is closed and empty.
    pub fn run(mut self) {
        let mut failed = false;
        while let Some(mut raw) = self.queue.next() {
            let len = raw.len();
            if !failed && let Err(error) = self.make_message(&mut raw).and_then(|()| self.write(&raw)) {
                failed = true;
                self.last_words(&error);
                let (path, source) = (self.path.clone(), Arc::new(error));
                self.queue.fail(TraceError::Write { path, source });
            }
            self.queue.done(len, raw.bytes);
            if self.packed.len() > 2 * REUSED_BYTES_MAX {
                self.packed = Vec::new();
                self.blocks.forget_messages();
            }
        }
        let finished = self.queue.lock().finished;
        self.sink.finish(finished && !failed);
    }

    /// Makes the message of an event that has none yet.
    fn make_message(&self, raw: &mut Raw) -> io::Result<()> {
        let Some(LongEvent { event, content }) = raw.event.take() else { return Ok(()) };
        raw.bytes = self.queue.spare();
        raw.add(&event, &content).map_err(io::Error::other)
    }

    /// Appends a chunk, whole or not at all.
    fn write(&mut self, raw: &Raw) -> io::Result<()> {
        let too_long = |_| io::Error::other("a chunk is too long");
        let folded = self.blocks.fold(&raw.bytes, &raw.content);
        let is_folded = folded.is_some();
        let reader = raw.reader.max(if is_folded { FORMAT_FOLDED } else { 0 });
        if reader > self.reader {
            self.sink.require_reader(reader)?;
            self.reader = reader;
        }
        let bytes = folded.unwrap_or(&raw.bytes);
        let room = CHUNK_HEADER_BYTES + zstd::zstd_safe::compress_bound(bytes.len());
        if self.packed.len() < room {
            self.packed.resize(room, 0);
        }
        // There is room for the result, so memory of its own is all that it can want for.
        let payload_len = self
            .compressor
            .compress_to_buffer(bytes, &mut self.packed[CHUNK_HEADER_BYTES..])
            .map_err(|_| rustix::io::Errno::NOMEM)?;
        let ordinal = self.ordinals.get(&raw.stream).copied().unwrap_or(0);
        let chunk = Chunk {
            stream: raw.stream,
            ordinal,
            first_seq: raw.first_seq,
            last_seq: raw.last_seq,
            event_count: raw.event_count,
            raw_len: u32::try_from(raw.bytes.len()).map_err(too_long)?,
            is_folded,
            payload_len: u32::try_from(payload_len).map_err(too_long)?,
        };
        let (header, rest) = self.packed.split_at_mut(CHUNK_HEADER_BYTES);
        header.copy_from_slice(&chunk.to_bytes(&rest[..payload_len]));
        match self.sink.append(&self.packed[..CHUNK_HEADER_BYTES + payload_len]) {
            Ok(()) => {
                self.len += chunk.total_len();
                self.ordinals.insert(raw.stream, ordinal + 1);
                Ok(())
            }
            Err(error) => {
                // If this fails too, readers find half a chunk at the end, and say so.
                let _ = self.sink.cut(self.len);
                Err(error)
            }
        }
    }

    /// Says in the log why it ends, if there is any room for that.
    fn last_words(&mut self, error: &io::Error) {
        self.sink.make_room();
        let why = match error.kind() {
            io::ErrorKind::StorageFull => "the disk was full".into(),
            io::ErrorKind::FileTooLarge => "the log reached the limit of files' sizes (ulimit -f)".into(),
            io::ErrorKind::OutOfMemory => {
                "there was no memory to write it with: the limit (ulimit -v, or the container's) is too low"
                    .into()
            }
            _ => format!("the trace could not be written any further: {error}"),
        };
        let mut raw = Raw { stream: DomainId::META.0, event_count: 1, ..Raw::default() };
        if codec::write_meta(&Meta::Cut { why }, &mut raw.bytes).is_ok() {
            let _ = self.write(&raw);
        }
    }
}
