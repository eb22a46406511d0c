//! Writing a trace: the folder, the streams, the meta stream.
//!
//! Each stream has a buffer of its own, which its supervisor fills. A buffer goes to the background thread
//! (`queue.rs`) when it is full, or when it has waited for a while and somebody asks ([`Writer::flush_old`]):
//! a supervisor whose tasks all wait pushes nothing, perhaps for hours, and what it pushed last must not be
//! lost if the recording is killed meanwhile. So a buffer has a lock, which nobody else wants but once a
//! second.
//!
//! Before any domain's buffer, what the meta stream has goes too: a trace that is cut short never shows
//! events of files and domains that it does not know of. For that, whoever hands over a domain's buffer locks
//! it before the meta stream's: what the events in it need was said before they were pushed.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    ops::Range,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    chunk::{self, LOG_HEADER_BYTES},
    clones::Clones,
    codec,
    error::{Result, TraceError},
    event::{Event, EventKind, Meta},
    files::{self, Announce, FileStore},
    folder::{FILES, INDEX, LOG, RESERVE},
    index,
    queue::{Drain, LongEvent, Queue, Raw, Sink},
    types::{DomainId, EventSeq, narrow_number},
};

/// A buffer with this many bytes is a chunk.
const CHUNK_RAW_BYTES: usize = 256 << 10;
/// Where many streams are open, a smaller buffer is one, down to this.
const CHUNK_RAW_BYTES_MIN: usize = 16 << 10;
/// So that all of their buffers together have about this many bytes.
const BUFFERED_BYTES: usize = 2 << 20;
/// A buffer that has waited for this long is old: a chunk at the next [`Writer::flush_old`].
const CHUNK_AGE_MAX: Duration = Duration::from_secs(1);

/// Space for the last words when the disk is full, bytes.
const RESERVE_BYTES: u64 = 64 << 10;

/// A trace that is being written. Clones write to the same trace.
///
/// When the last clone and the last [`StreamWriter`] are gone, all that was handed over is in the log; but
/// only [`Writer::finish`] tells of failures.
#[derive(Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    next_seq: AtomicU64,
    queue: Arc<Queue>,
    meta: Mutex<Buffer>,
    /// The buffers of the streams that are open, by domain.
    streams: Mutex<BTreeMap<u32, Arc<Mutex<Buffer>>>>,
    /// How many there are.
    stream_count: AtomicUsize,
    files: Mutex<files::Store>,
    drain: Mutex<Option<JoinHandle<()>>>,
    /// Which file the log is: device and inode.
    log: Option<(u64, u64)>,
}

/// Messages of one stream that are not handed over yet.
#[derive(Default)]
struct Buffer {
    raw: Raw,
    /// When the first of them came.
    since: Option<Instant>,
}

impl Buffer {
    fn added(&mut self, seq: u64) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
            (self.raw.first_seq, self.raw.last_seq) = (seq, seq);
        }
        self.raw.first_seq = self.raw.first_seq.min(seq);
        self.raw.last_seq = self.raw.last_seq.max(seq);
        self.raw.event_count += 1;
    }

    /// Where an event is about to be added: a buffer that another stream has done with, if there is one.
    fn prepare(&mut self, queue: &Queue) {
        if self.raw.bytes.capacity() == 0 {
            self.raw.bytes = queue.spare();
        }
    }

    fn is_full(&self, stream_count: usize) -> bool {
        let share = BUFFERED_BYTES / stream_count.max(1);
        self.raw.bytes.len() >= share.clamp(CHUNK_RAW_BYTES_MIN, CHUNK_RAW_BYTES)
    }

    fn is_old(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= CHUNK_AGE_MAX)
    }

    fn hand_over(&mut self, queue: &Queue) -> Result<()> {
        if self.since.take().is_none() {
            return Ok(());
        }
        let empty = Raw { stream: self.raw.stream, ..Raw::default() };
        // A stream that has nothing to say keeps no buffer.
        queue.submit(std::mem::replace(&mut self.raw, empty))
    }
}

impl Writer {
    /// Creates a trace in `dir`, which must not exist (its parent must) or be an empty folder. Only its owner
    /// can look into it.
    pub fn create(dir: &Path) -> Result<Writer> {
        Writer::create_for(dir, chunk::READER_FORMAT_MIN)
    }

    /// As [`Writer::create`], for a trace in which streams begin with images
    /// ([`Base::Image`](crate::event::Base::Image)): older readers refuse it.
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn create_for_images(dir: &Path) -> Result<Writer> {
        Writer::create_for(dir, chunk::FORMAT_IMAGES)
    }

    /// As [`Writer::create`], for a trace with checksums of stacks
    /// ([`RangeSum::is_stack`](crate::event::RangeSum::is_stack)), and perhaps with images.
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn create_for_stacks(dir: &Path) -> Result<Writer> {
        Writer::create_for(dir, chunk::FORMAT_STACKS)
    }

    fn create_for(dir: &Path, reader: u32) -> Result<Writer> {
        let failed = |source| TraceError::Create { path: dir.into(), source: Arc::new(source) };
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let used = match dir.read_dir() {
                    Ok(mut entries) => entries.next().transpose().map_err(failed)?.is_some(),
                    Err(error) if error.kind() == io::ErrorKind::NotADirectory => true,
                    Err(error) => return Err(failed(error)),
                };
                if used {
                    return Err(TraceError::NotEmpty(dir.into()));
                }
            }
            Err(error) => return Err(failed(error)),
        }
        DirBuilder::new().mode(0o700).create(dir.join(FILES)).map_err(failed)?;
        let mut log = new_file(&dir.join(LOG)).map_err(failed)?;
        log.write_all(&chunk::log_header(reader)).map_err(failed)?;
        // On a disk that is nearly full already, the recording can go on without it.
        let reserve = new_file(&dir.join(RESERVE)).and_then(|file| {
            Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES)?)
        });
        if reserve.is_err() {
            let _ = std::fs::remove_file(dir.join(RESERVE));
        }
        let identity = log.metadata().map(|log| (log.dev(), log.ino())).map_err(failed)?;
        Writer::begin(dir, Some(identity), Box::new(Disk { log, reader, dir: dir.into() }))
    }

    /// Writes anywhere.
    #[cfg(test)]
    pub(crate) fn with_sink(dir: &Path, sink: Box<dyn Sink>) -> Result<Writer> {
        Writer::begin(dir, None, sink)
    }

    fn begin(dir: &Path, log: Option<(u64, u64)>, sink: Box<dyn Sink>) -> Result<Writer> {
        let failed = |source| TraceError::Create { path: dir.into(), source: Arc::new(source) };
        let queue = Arc::new(Queue::default());
        let drain =
            Drain::new(Arc::clone(&queue), dir.into(), sink, LOG_HEADER_BYTES as u64).map_err(failed)?;
        let drain = thread::Builder::new().name("log".into()).spawn(|| drain.run()).map_err(failed)?;
        Ok(Writer {
            inner: Arc::new(Inner {
                dir: dir.into(),
                next_seq: AtomicU64::new(1),
                queue,
                meta: Mutex::default(),
                streams: Mutex::default(),
                stream_count: AtomicUsize::new(0),
                files: Mutex::default(),
                drain: Mutex::new(Some(drain)),
                log,
            }),
        })
    }

    /// The next number of the trace's one order, from 1.
    pub fn next_seq(&self) -> EventSeq {
        EventSeq(self.inner.next_seq.fetch_add(1, Ordering::Relaxed))
    }

    /// The last number that was given; 0: none was.
    pub fn last_seq(&self) -> EventSeq {
        EventSeq(self.inner.next_seq.load(Ordering::Relaxed) - 1)
    }

    /// The stream of a domain. At most one for each domain: its chunks are numbered in the order of their
    /// coming.
    pub fn stream(&self, domain: DomainId) -> StreamWriter {
        let buffer = Buffer { raw: Raw { stream: domain.0, ..Raw::default() }, since: None };
        let buffer = Arc::new(Mutex::new(buffer));
        let mut streams = lock(&self.inner.streams);
        streams.insert(domain.0, Arc::clone(&buffer));
        self.inner.stream_count.store(streams.len(), Ordering::Relaxed);
        drop(streams);
        StreamWriter { inner: Arc::clone(&self.inner), buffer, domain: domain.0 }
    }

    /// Hands over what all streams have if any of it has waited for longer than a second. To be called every
    /// now and then, by any thread; may wait as a push may, and fails where one would.
    pub fn flush_old(&self) -> Result<()> {
        self.hand_all_over(|meta, buffers| meta.is_old() || buffers.iter().any(|buffer| buffer.is_old()))
    }

    /// Writes all that was pushed so far: a reader that opens the trace when this has returned finds it
    /// there. Fails where it could not be written.
    pub fn flush(&self) -> Result<()> {
        self.hand_all_over(|_, _| true)?;
        self.inner.queue.wait_until_written()
    }

    /// Hands over what all streams have, if `is_wanted` says so of the meta stream and the others.
    ///
    /// Nobody pushes meanwhile, so what is handed over has, with an event, all that was pushed before it
    /// anywhere. And of what is handed over, a domain's beginning never comes before the event of another at
    /// which it begins: it has the higher number.
    fn hand_all_over(
        &self,
        is_wanted: impl FnOnce(&Buffer, &[MutexGuard<'_, Buffer>]) -> bool,
    ) -> Result<()> {
        self.inner.queue.check()?;
        let buffers: Vec<_> = lock(&self.inner.streams).values().map(Arc::clone).collect();
        let mut buffers: Vec<_> = buffers.iter().map(|buffer| lock(buffer)).collect();
        let mut meta = lock(&self.inner.meta);
        if !is_wanted(&meta, &buffers) {
            return Ok(());
        }
        meta.hand_over(&self.inner.queue)?;
        buffers.iter_mut().try_for_each(|buffer| buffer.hand_over(&self.inner.queue))
    }

    /// Adds an entry to the meta stream. It is in the log before any event that is pushed after it.
    pub fn meta(&self, entry: &Meta) -> Result<()> {
        self.inner.meta(entry)
    }

    /// The file for what is not copied into the log but cloned; none where the trace's filesystem does not
    /// clone. Called at most once.
    pub fn clones(&self) -> Option<Clones> {
        Clones::create(&self.inner.dir)
    }

    /// The content of mapped files.
    pub fn files(&self) -> FileStore<'_> {
        let Inner { dir, files, .. } = &*self.inner;
        FileStore { dir, store: files, metas: &*self.inner }
    }

    /// Writes what was handed over, and the index. Streams must have been flushed or dropped before; what
    /// comes later is refused. Fails if anything before could not be written, or nobody will find it.
    pub fn finish(&self) -> Result<()> {
        let flushed = self.inner.flush_meta();
        self.inner.close(true);
        match (self.inner.queue.failure(), flushed) {
            (Some(failure), _) => Err(failure),
            (None, Err(TraceError::Finished) | Ok(())) if self.inner.is_gone() => {
                Err(TraceError::Gone(self.inner.dir.clone()))
            }
            (None, Err(TraceError::Finished) | Ok(())) => Ok(()),
            (None, Err(error)) => Err(error),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn meta(&self, entry: &Meta) -> Result<()> {
        self.queue.check()?;
        let mut buffer = lock(&self.meta);
        codec::write_meta(entry, &mut buffer.raw.bytes)
            .map_err(|malformed| TraceError::Invalid { seq: EventSeq(0), what: malformed.0 })?;
        buffer.added(0);
        // The first words and the last ones should not wait.
        let urgent = matches!(entry, Meta::Machine(_) | Meta::End { .. } | Meta::Cut { .. });
        if urgent || buffer.is_full(1) { buffer.hand_over(&self.queue) } else { Ok(()) }
    }

    /// Is the log not where it was made?
    fn is_gone(&self) -> bool {
        let found = || std::fs::metadata(self.dir.join(LOG)).map(|log| (log.dev(), log.ino())).ok();
        self.log.is_some_and(|log| found() != Some(log))
    }

    fn flush_meta(&self) -> Result<()> {
        lock(&self.meta).hand_over(&self.queue)
    }

    /// Hands over a domain's buffer, which the caller has locked, and before it all that it may need.
    fn hand_over(&self, buffer: &mut Buffer) -> Result<()> {
        self.flush_meta()?;
        buffer.hand_over(&self.queue)
    }

    fn close(&self, finished: bool) {
        self.queue.close(finished);
        let drain = lock(&self.drain).take();
        if let Some(drain) = drain {
            // A panic in it has been printed; what is in the log is in the log.
            let _ = drain.join();
        }
    }
}

impl Announce for Inner {
    fn announce(&self, entry: &Meta) -> Result<()> {
        self.meta(entry)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.flush_meta();
        self.close(false);
    }
}

/// The stream of one domain.
pub struct StreamWriter {
    inner: Arc<Inner>,
    /// Also in the list of the writer's streams.
    buffer: Arc<Mutex<Buffer>>,
    domain: u32,
}

impl StreamWriter {
    /// Adds an event. Usually only a copy into a buffer; waits where the disk cannot keep up. Fails where
    /// this or anything before could not be written.
    pub fn push(&mut self, event: &Event) -> Result<()> {
        let bytes = self.check(event)?;
        self.add(event, bytes, &[])
    }

    /// As [`StreamWriter::push`], for an event that may have a log of hooked calls, of which these parts, in
    /// their order, are the content of memory: what comes again is written once.
    ///
    /// # Errors
    /// As [`StreamWriter::push`].
    pub fn push_with(&mut self, event: Event, content: Vec<Range<usize>>) -> Result<()> {
        let bytes = self.check(&event)?;
        if bytes < CHUNK_RAW_BYTES as u64 || !matches!(event.kind, EventKind::Hooked { .. }) {
            return self.add(&event, bytes, &content);
        }
        // It is a chunk of its own. Its message is made where chunks are written.
        let buffer = &mut *lock(&self.buffer);
        self.inner.hand_over(buffer)?;
        let seq = event.seq.0;
        let event = Some(LongEvent { event, content });
        let (stream, event_count) = (self.domain, 1);
        let raw = Raw { stream, first_seq: seq, last_seq: seq, event_count, event, ..Raw::default() };
        self.inner.queue.submit(raw)
    }

    /// The bytes of memory that an event holds, if it can be written.
    fn check(&self, event: &Event) -> Result<u64> {
        self.inner.queue.check()?;
        let bytes = codec::content_bytes(event);
        if bytes > codec::EVENT_BYTES_MAX {
            return Err(TraceError::TooLarge { seq: event.seq, bytes });
        }
        Ok(bytes)
    }

    fn add(&mut self, event: &Event, bytes: u64, content: &[Range<usize>]) -> Result<()> {
        let buffer = &mut *lock(&self.buffer);
        // A large event is a chunk of its own, so that a chunk is never much larger than its largest event.
        if !buffer.raw.bytes.is_empty() && bytes >= CHUNK_RAW_BYTES as u64 {
            self.inner.hand_over(buffer)?;
        }
        buffer.prepare(&self.inner.queue);
        buffer.raw.add(event, content)?;
        let ours = event.outcome().and_then(|outcome| outcome.ours.as_ref());
        if ours.is_some_and(|ours| !ours.patched.is_empty()) {
            buffer.raw.reader = buffer.raw.reader.max(chunk::FORMAT_PATCHED);
        }
        if is_narrow(event) {
            buffer.raw.reader = chunk::FORMAT_NARROW;
        }
        buffer.added(event.seq.0);
        let count = self.inner.stream_count.load(Ordering::Relaxed);
        if buffer.is_full(count) { self.inner.hand_over(buffer) } else { Ok(()) }
    }

    /// Hands everything over that was pushed.
    pub fn flush(&mut self) -> Result<()> {
        self.inner.hand_over(&mut lock(&self.buffer))
    }
}

/// Is it an event of a 32-bit program?
fn is_narrow(event: &Event) -> bool {
    match &event.kind {
        EventKind::Start(start) => start.outcome.regs.is_narrow(),
        EventKind::Syscall { nr, .. } | EventKind::SyscallEnter { nr, .. } => narrow_number(*nr).is_some(),
        _ => false,
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // A failure is remembered; whoever writes next, or finishes, gets it.
        let _ = self.flush();
        let mut streams = lock(&self.inner.streams);
        streams.remove(&self.domain);
        self.inner.stream_count.store(streams.len(), Ordering::Relaxed);
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The log's file.
struct Disk {
    log: File,
    /// The least format that its readers must know.
    reader: u32,
    dir: PathBuf,
}

/// A disk may be full for a moment: another program's temporary files, or the recorded program's own. The
/// writer waits so long for room, and looks so often.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Writes all of it, and waits for a moment where there is no room.
fn write_patiently(to: &mut dyn io::Write, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
    let mut full_since = None;
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                full_since = None;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                if full_since.get_or_insert_with(Instant::now).elapsed() >= patience {
                    return Err(error);
                }
                thread::sleep(LOOK_EVERY.min(patience));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Sink for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_patiently(&mut self.log, bytes, PATIENCE)
    }

    fn require_reader(&mut self, format: u32) -> io::Result<()> {
        self.reader = self.reader.max(format);
        self.log.write_all_at(&chunk::log_header(self.reader), 0)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        use std::io::Seek as _;
        self.log.set_len(len)?;
        self.log.seek(io::SeekFrom::Start(len)).map(drop)
    }

    fn make_room(&mut self) {
        let _ = std::fs::remove_file(self.dir.join(RESERVE));
    }

    fn finish(&mut self, whole: bool) {
        self.make_room();
        // Without an index the log is read to find out what is in it: slower, not wrong.
        if whole && index::write(&self.dir).is_err() {
            let _ = std::fs::remove_file(self.dir.join(INDEX));
        }
    }
}

#[cfg(test)]
mod tests;
