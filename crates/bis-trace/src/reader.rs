//! Reading a trace: what it says about itself, and the events of each stream.
//!
//! Opening reads the meta stream into memory; events are read when they are asked for, a chunk at a time, by
//! any number of threads. A trace that was cut short is a trace: [`Trace::ended`] says where and why. Only
//! what cannot be read at all is an error of [`Trace::open`].

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};

use crate::{
    blocks,
    chunk::{self, CHUNK_HEADER_BYTES, Chunk, LOG_HEADER_BYTES, LogHeader},
    clones, codec,
    error::{Result, TraceError, show},
    event::{Cloned, DomainEntry, Event, EventKind, FileEntry, Kept, Machine, Meta},
    files::{hash, nanoseconds, replace_by_copy, sparse_len},
    index::{self, Damage, Place, Table},
    log::{FILES, LAST_WORDS, LOG},
    store::is_marked,
    types::{DomainId, EventSeq, FileId},
};

const LAST_WORDS_BYTES_MAX: u64 = 1 << 10;

/// How a recording ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As it should. The program's exit status: 128 + signal if one killed it.
    Complete { exit_code: u8 },
    /// Early; `why` is a clause for people.
    Cut { why: String },
}

/// A [`Meta::Echo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoEntry {
    pub seq: EventSeq,
    /// Bytes.
    pub len: u64,
    pub domain: DomainId,
    /// 1 or 2.
    pub fd: u8,
}

/// The size of one stream; lengths in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamStats {
    /// [`DomainId::META`] for the meta stream.
    pub stream: DomainId,
    pub chunk_count: u64,
    pub event_count: u64,
    pub raw_len: u64,
    pub compressed_len: u64,
}

/// A trace that can be read, by several threads at once.
#[derive(Debug)]
pub struct Trace {
    dir: PathBuf,
    /// In which it was written.
    format: u32,
    log: File,
    table: RwLock<Table>,
    metas: Vec<Meta>,
    /// What the meta stream has got since the trace was opened ([`Trace::follow`]).
    later: boxcar::Vec<Meta>,
    echoes: Vec<EchoEntry>,
    /// By id, into `metas`.
    files: HashMap<FileId, usize>,
    /// Kept files whose time is not that of the recording, but their content was found to be.
    compared: Mutex<HashSet<(FileId, i64)>>,
    /// What [`Trace::is_still_there`] has found.
    still_there: Mutex<HashMap<FileId, bool>>,
    clones: clones::Source,
    blocks: blocks::Source,
    ending: Ending,
}

/// Who has a kept file beside the trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sharing {
    /// Nobody.
    Own,
    /// The store, for this trace alone.
    Stored,
    /// The store, for other traces too.
    Shared,
    /// It is a file of the machine.
    Machine,
}

impl Trace {
    /// Opens a trace, whole or cut short. Fails if it is none, is empty, needs a newer reader, or says what
    /// no recorder would.
    pub fn open(dir: &Path) -> Result<Trace> {
        let failed = |source| TraceError::Read { path: dir.into(), source: Arc::new(source) };
        let log = match OpenOptions::new().read(true).custom_flags(NO_LINKS).open(dir.join(LOG)) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => {
                return Err(TraceError::NotATrace(dir.into()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(TraceError::NotATrace(dir.into()));
            }
            Err(error) => return Err(failed(error)),
        };
        let stat = log.metadata().map_err(failed)?;
        if !stat.is_file() {
            return Err(TraceError::NotATrace(dir.into()));
        }
        let format = check_header(&log, stat.len(), dir)?;
        let mut trace = Trace {
            dir: dir.into(),
            format,
            log,
            table: RwLock::default(),
            metas: Vec::new(),
            later: boxcar::Vec::new(),
            echoes: Vec::new(),
            files: HashMap::new(),
            compared: Mutex::default(),
            still_there: Mutex::default(),
            clones: clones::Source::default(),
            blocks: blocks::Source::default(),
            ending: Ending::Cut { why: String::new() },
        };
        if let Some(table) = index::load(dir, &trace.log, stat.len()) {
            trace.table = RwLock::new(table);
            if trace.read_metas().is_ok() {
                trace.ending = trace.find_ending();
                return Ok(trace);
            }
        }
        // No index, or it does not fit: what the log itself has counts.
        let table = index::scan(&trace.log, stat.len()).map_err(failed)?;
        let damage = table.damage.clone();
        let is_empty = table.streams.is_empty();
        trace.table = RwLock::new(table);
        if is_empty {
            return Err(match damage {
                Some(Damage::Bad(offset)) => trace.damaged(offset, "no part of it is readable"),
                Some(Damage::HalfChunk(_)) | None => empty(dir),
            });
        }
        match trace.read_metas() {
            Ok(()) => {}
            // Sound chunks around a gap: what they say still holds, and the ending tells of the damage.
            Err(TraceError::MissingChunk { .. }) if damage.is_some() => {}
            Err(error) => return Err(error),
        }
        trace.ending = trace.find_ending();
        Ok(trace)
    }

    /// The trace's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Does the trace say what of the recorded memory is bis's own ([`crate::event::Outcome::ours`])? Those
    /// of older formats do not: what they show of a program's text is what replay has there.
    pub fn says_ours(&self) -> bool {
        self.format >= chunk::FORMAT_OURS
    }

    /// Do events say when they were recorded?
    pub fn says_times(&self) -> bool {
        self.format >= chunk::FORMAT_TIMES
    }

    /// All entries of the meta stream in their order, but for [`Meta::Echo`].
    pub fn metas(&self) -> impl Iterator<Item = &Meta> {
        self.metas.iter().chain(self.later.iter().map(|(_, meta)| meta))
    }

    /// Takes in what the recorder has written since: streams that had ended have more events, and there may
    /// be more files and domains. (Echoes, and how the recording has ended, stay as they were when the trace
    /// was opened.) True: there is more than before.
    ///
    /// The recorder hands over whole chunks in an order in which nothing refers to what is not there yet
    /// ([`crate::Writer::flush`]); a chunk that is only half in the log is taken in later.
    ///
    /// # Errors
    /// Where the log cannot be read, or is damaged.
    pub fn follow(&self) -> Result<bool> {
        let failed = |source| TraceError::Read { path: self.dir.clone(), source: Arc::new(source) };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let (end, len) = (table.end(), self.log.metadata().map_err(failed)?.len());
        if end >= len {
            return Ok(false);
        }
        let more = index::scan_from(&self.log, end, len).map_err(failed)?;
        let metas = more.streams.get(&DomainId::META.0).cloned().unwrap_or_default();
        for place in metas {
            let mut messages = Vec::new();
            self.read(&place, &mut messages)?;
            let mut rest = messages.as_slice();
            while !rest.is_empty() {
                match codec::read_meta(&mut rest) {
                    Ok(Meta::Echo { .. }) => {}
                    Ok(meta) => drop(self.later.push(meta)),
                    Err(malformed) => return Err(self.damaged(place.offset, &malformed.to_string())),
                }
            }
        }
        table.extend(&more);
        Ok(!more.streams.is_empty())
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written to the program's output, in the order of the events. Where a part of the meta stream
    /// is lost: what was written before that, as nobody knows what else was.
    pub fn echoes(&self) -> &[EchoEntry] {
        &self.echoes
    }

    /// Where it was recorded; none if its recorder ended before it could say.
    pub fn machine(&self) -> Option<&Machine> {
        self.metas().find_map(|meta| match meta {
            Meta::Machine(machine) => Some(&**machine),
            _ => None,
        })
    }

    pub fn domains(&self) -> impl Iterator<Item = &DomainEntry> {
        self.metas().filter_map(|meta| match meta {
            Meta::Domain(domain) => Some(domain),
            _ => None,
        })
    }

    pub fn ended(&self) -> &Ending {
        &self.ending
    }

    /// A kept file; an error if the trace has none of this id.
    pub fn file(&self, file: FileId) -> Result<&FileEntry> {
        match self.files.get(&file).and_then(|index| self.metas.get(*index)) {
            Some(Meta::File(entry)) => Ok(entry),
            _ => self.file_since(file).ok_or(TraceError::UnknownFile(file)),
        }
    }

    /// One that was kept since the trace was opened.
    fn file_since(&self, file: FileId) -> Option<&FileEntry> {
        self.later.iter().find_map(|(_, meta)| match meta {
            Meta::File(entry) if entry.file == file => Some(entry),
            _ => None,
        })
    }

    /// Where a kept file's content is. (Its name cannot lead out of the trace; [`Trace::open_file`] also
    /// makes sure that it is no symbolic link.)
    pub fn file_path(&self, file: FileId) -> Result<PathBuf> {
        Ok(self.dir.join(FILES).join(&self.file(file)?.name))
    }

    /// Checks that a kept file is there and, if it is a hard link, has not been changed: by size and time of
    /// change. Where the time is another (the trace may have been copied), by content, once.
    pub fn check_file(&self, file: FileId) -> Result<()> {
        self.open_file(file).map(drop)
    }

    /// Opens a kept file for reading, after the checks of [`Trace::check_file`].
    pub fn open_file(&self, file: FileId) -> Result<File> {
        let entry = self.file(file)?;
        let path = self.file_path(file)?;
        let original = if entry.path.is_empty() { "a piece of memory".into() } else { show(&entry.path) };
        let opened = OpenOptions::new().read(true).custom_flags(NO_LINKS).open(&path);
        let opened = opened.and_then(|file| file.metadata().map(|stat| (file, stat)));
        let (content, stat) = match opened {
            Ok((content, stat)) if stat.is_file() => (content, stat),
            Ok(_) => return Err(TraceError::FileMissing { path, original }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TraceError::FileMissing { path, original });
            }
            Err(error) => return Err(TraceError::Read { path, source: Arc::new(error) }),
        };
        let linked = entry.kept == Kept::HardLink;
        let failed = |source| TraceError::Read { path: path.clone(), source: Arc::new(source) };
        let what = if stat.len() != entry.len {
            format!("it had {} bytes, now {}", entry.len, stat.len())
        } else if linked && !self.has_content(entry, &content, &stat).map_err(failed)?
            || !linked && !self.is_as_stored(entry, &content, &stat).map_err(failed)?
        {
            "its content is another".into()
        } else {
            return Ok(content);
        };
        if linked {
            Err(TraceError::FileChanged { original, what })
        } else {
            let what = format!("its content of {original} was changed: {what}");
            Err(TraceError::Damaged { path, offset: 0, what })
        }
    }

    /// Who has a kept file beside this trace, and the bytes that it takes on the disk.
    pub fn sharing(&self, file: FileId) -> Result<(Sharing, u64)> {
        let path = self.file_path(file)?;
        let stat = std::fs::symlink_metadata(&path)
            .map_err(|source| TraceError::Read { path, source: Arc::new(source) })?;
        let sharing = match stat.nlink() {
            0 | 1 => Sharing::Own,
            _ if !is_marked(&stat, &self.file(file)?.digest) => Sharing::Machine,
            2 => Sharing::Stored,
            _ => Sharing::Shared,
        };
        Ok((sharing, stat.blocks() * 512))
    }

    /// Makes a kept file the trace's own, if it is a hard link to a file of the machine's: a copy takes its
    /// place. How many bytes that took.
    pub fn own_file(&self, file: FileId) -> Result<u64> {
        let entry = self.file(file)?;
        let content = self.open_file(file)?;
        let failed = |source| TraceError::Keep { path: show(&entry.path), source: Arc::new(source) };
        if content.metadata().map_err(failed)?.nlink() < 2 {
            return Ok(0);
        }
        replace_by_copy(&self.file_path(file)?, entry, &content).map_err(failed)?;
        Ok(entry.len)
    }

    /// Has the machine this file still, with the content that was kept? The first answer holds for good, so
    /// that whoever asks again while the file is being replaced hears the same.
    pub fn is_still_there(&self, file: FileId) -> bool {
        let mut found = self.still_there.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(is_there) = found.get(&file) {
            return *is_there;
        }
        let is_there = self.file(file).is_ok_and(|entry| self.has_original(entry).unwrap_or(false));
        found.insert(file, is_there);
        is_there
    }

    fn has_original(&self, entry: &FileEntry) -> io::Result<bool> {
        // A pipe that has the file's name now would hold up who opens it.
        let original = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(Path::new(OsStr::from_bytes(&entry.path)))?;
        let stat = original.metadata()?;
        Ok(stat.is_file() && stat.len() == entry.len && self.has_content(entry, &original, &stat)?)
    }

    /// Is the content of a kept file what it was?
    fn has_content(&self, entry: &FileEntry, content: &File, stat: &Metadata) -> io::Result<bool> {
        let mtime_ns = nanoseconds(stat.mtime(), stat.mtime_nsec());
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if mtime_ns == entry.mtime_ns || compared.contains(&(entry.file, mtime_ns)) {
            return Ok(true);
        }
        let is_same = hash(content)?.0 == entry.digest;
        if is_same {
            compared.insert((entry.file, mtime_ns));
        }
        Ok(is_same)
    }

    /// Is a kept file that other traces share what it was? Nobody may write to it; who did has left another
    /// time, and then it is read.
    fn is_as_stored(&self, entry: &FileEntry, content: &File, stat: &Metadata) -> io::Result<bool> {
        // One with large holes is in no store, and its copies may have others.
        if stat.nlink() < 2 || is_marked(stat, &entry.digest) || sparse_len(content)?.is_some() {
            return Ok(true);
        }
        self.has_content(entry, content, stat)
    }

    /// Reads what an event has outside of the log, in the place of what `buffer` held, and checks its sum.
    pub fn read_cloned(&self, cloned: &Cloned, buffer: &mut Vec<u8>) -> Result<()> {
        self.clones.read(&self.dir, cloned, buffer)
    }

    /// The events of a domain, in their order. The stream is over after an error. A stream of a trace that
    /// was cut short ends without [`EventKind::End`], and goes on where [`Trace::follow`] has found more.
    pub fn events(&self, domain: DomainId) -> Events<'_> {
        Events {
            chunks: self.chunks(domain.0),
            messages: Arc::default(),
            at: 0,
            left: 0,
            offset: 0,
            state: State::Open,
            read: codec::read_event,
        }
    }

    /// How many events of a domain the log has.
    pub fn event_count(&self, domain: DomainId) -> u64 {
        let table = self.table();
        let places = table.streams.get(&domain.0).map_or(&[][..], Vec::as_slice);
        places.iter().map(|place| u64::from(place.chunk.event_count)).sum()
    }

    /// Where the log's space goes, by stream.
    pub fn chunk_stats(&self) -> Vec<StreamStats> {
        let stats = |(stream, places): (&u32, &Vec<Place>)| {
            let sum = |part: fn(&Chunk) -> u64| places.iter().map(|place| part(&place.chunk)).sum();
            StreamStats {
                stream: DomainId(*stream),
                chunk_count: places.len() as u64,
                event_count: sum(|chunk| u64::from(chunk.event_count)),
                raw_len: sum(|chunk| u64::from(chunk.raw_len)),
                compressed_len: sum(Chunk::total_len),
            }
        };
        self.table().streams.iter().map(stats).collect()
    }

    fn chunks(&self, stream: u32) -> Chunks<'_> {
        Chunks { trace: self, stream, next: 0, ordinal: 0, spare: Vec::new() }
    }

    /// The n-th chunk of a stream that the log has.
    fn place(&self, stream: u32, index: usize) -> Option<Place> {
        self.table().streams.get(&stream)?.get(index).copied()
    }

    /// Reads the meta stream. After an error, what could be read is there.
    fn read_metas(&mut self) -> Result<()> {
        let (mut metas, mut echoes) = (Vec::new(), Vec::new());
        let chunks = self.chunks(DomainId::META.0);
        let mut outcome = Ok(());
        for next in chunks {
            let (place, messages) = match next {
                Ok(next) => next,
                Err(error) => {
                    let gap = matches!(error, TraceError::MissingChunk { .. });
                    outcome = Err(error);
                    if gap {
                        continue;
                    }
                    break;
                }
            };
            let mut rest = messages.as_slice();
            while !rest.is_empty() {
                let entry = codec::read_meta(&mut rest)
                    .map_err(|malformed| self.damaged(place.offset, &malformed.to_string()))?;
                match entry {
                    Meta::Echo { .. } if outcome.is_err() => {}
                    Meta::Echo { seq, domain, fd, len } => echoes.push(EchoEntry { seq, len, domain, fd }),
                    entry => metas.push(entry),
                }
            }
        }
        echoes.sort_by_key(|echo: &EchoEntry| echo.seq);
        let id = |(index, meta): (usize, &Meta)| match meta {
            Meta::File(entry) => Some((entry.file, index)),
            _ => None,
        };
        self.files = metas.iter().enumerate().filter_map(id).collect();
        (self.metas, self.echoes) = (metas, echoes);
        outcome
    }

    fn find_ending(&self) -> Ending {
        let why = match (&self.table().damage, self.metas.last()) {
            (Some(Damage::Bad(offset)), _) => format!("the chunk at byte {offset} is damaged (checksum)"),
            (_, Some(Meta::Cut { why })) => why.clone(),
            (Some(Damage::HalfChunk(offset)), _) => last_words(&self.dir)
                .unwrap_or_else(|| format!("the log ends in the middle of a chunk at byte {offset}")),
            (None, Some(Meta::End { exit_code, .. })) => match self.lost_events() {
                Some(why) => why,
                None => return Ending::Complete { exit_code: *exit_code },
            },
            (None, _) => last_words(&self.dir).unwrap_or_else(|| "the recorder was killed".into()),
        };
        Ending::Cut { why }
    }

    /// What is wrong if a domain has ended after another number of events than its stream has: each chunk may
    /// be sound, and one of them not there, or there as another stream's.
    fn lost_events(&self) -> Option<String> {
        self.metas.iter().find_map(|meta| {
            let Meta::DomainEnd { domain, event_count, .. } = meta else { return None };
            let has = self.event_count(*domain);
            (has != *event_count).then(|| format!("domain {domain} has {has} events, and had {event_count}"))
        })
    }

    fn damaged(&self, offset: u64, what: &str) -> TraceError {
        TraceError::Damaged { path: self.dir.clone(), offset, what: what.into() }
    }

    /// A chunk's messages, in the place of what `messages` held.
    fn read(&self, place: &Place, messages: &mut Vec<u8>) -> Result<()> {
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

/// What the recorder said when it could write no log any more. It may be a stranger's trace: a line of its
/// beginning.
fn last_words(dir: &Path) -> Option<String> {
    let path = dir.join(OsStr::from_bytes(LAST_WORDS.to_bytes()));
    let file = OpenOptions::new().read(true).custom_flags(NO_LINKS).open(path).ok()?;
    let mut words = Vec::new();
    file.take(LAST_WORDS_BYTES_MAX).read_to_end(&mut words).ok()?;
    let words = String::from_utf8_lossy(&words);
    let line = words.lines().next()?.replace(char::is_control, "");
    (!line.is_empty()).then_some(line)
}

fn empty(dir: &Path) -> TraceError {
    let why = last_words(dir).unwrap_or_else(|| "its recorder ended before it wrote an event".into());
    TraceError::Empty { path: dir.into(), why }
}

/// O_NOFOLLOW | O_NONBLOCK: a stranger's trace may have links to files of ours, or pipes, in place of files.
pub(crate) const NO_LINKS: i32 =
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()).cast_signed();

/// The format in which the trace was written, if it can be read.
fn check_header(log: &File, len: u64, dir: &Path) -> Result<u32> {
    let failed = |source| TraceError::Read { path: dir.into(), source: Arc::new(source) };
    let mut header = [0; LOG_HEADER_BYTES];
    let part = &mut header[..usize::try_from(len).unwrap_or(usize::MAX).min(LOG_HEADER_BYTES)];
    log.read_exact_at(part, 0).map_err(failed)?;
    if part.len() < LOG_HEADER_BYTES {
        let magic = &chunk::LOG_MAGIC;
        let ours = part.starts_with(&magic[..part.len().min(magic.len())]);
        return Err(if ours { empty(dir) } else { TraceError::NotATrace(dir.into()) });
    }
    match chunk::check_log_header(&header) {
        LogHeader::Good { version } => Ok(version),
        LogHeader::NotATrace => Err(TraceError::NotATrace(dir.into())),
        LogHeader::Newer { version, reader } => {
            Err(TraceError::Newer { path: dir.into(), version, reader, ours: chunk::FORMAT })
        }
        LogHeader::Older { version } => {
            Err(TraceError::Older { path: dir.into(), version, ours: chunk::FORMAT_MIN })
        }
        LogHeader::Damaged => Err(TraceError::Damaged {
            path: dir.into(),
            offset: 0,
            what: "the header's checksum is wrong".into(),
        }),
    }
}

/// The chunks of one stream. A gap in their numbers is an error once, and then they go on.
#[derive(Clone, Debug)]
struct Chunks<'a> {
    trace: &'a Trace,
    stream: u32,
    /// The index of the next chunk among those that the log has.
    next: usize,
    /// The next chunk's number.
    ordinal: u32,
    /// What the last chunk was in, to be used again.
    spare: Vec<u8>,
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// The last event was [`EventKind::End`].
    Ended,
    Over,
}

/// The events of a domain ([`Trace::events`]). Holds one chunk in memory, which its copies share.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    chunks: Chunks<'a>,
    /// The chunk in hand, decompressed, and how much of it has been read.
    messages: Arc<Vec<u8>>,
    at: usize,
    /// Events that it should still have.
    left: u32,
    /// Where it is in the log.
    offset: u64,
    state: State,
    /// How much of an event is read.
    read: fn(&mut &[u8]) -> codec::Result<Event>,
}

impl Events<'_> {
    /// The same events, but what they say of bis's own memory ([`crate::event::Outcome::ours`]) is left out:
    /// to replay alone, nobody needs it, and it takes time to read.
    #[must_use]
    pub fn without_ours(self) -> Self {
        Self { read: codec::read_event_to_replay, ..self }
    }

    fn step(&mut self) -> Result<Option<Event>> {
        let trace = self.chunks.trace;
        while self.at == self.messages.len() {
            if self.left > 0 {
                return Err(trace.damaged(self.offset, "the chunk has fewer events than it says"));
            }
            let used = Arc::try_unwrap(std::mem::take(&mut self.messages));
            (self.chunks.spare, self.at) = (used.unwrap_or_default(), 0);
            match self.chunks.next() {
                Some(next) => {
                    let (place, messages) = next?;
                    (self.messages, self.at) = (Arc::new(messages), 0);
                    (self.left, self.offset) = (place.chunk.event_count, place.offset);
                }
                None => {
                    return match trace.table().damage {
                        // What was there may have been this stream's.
                        Some(Damage::Bad(offset)) if self.state != State::Ended => {
                            Err(trace.damaged(offset, "events of this domain may be lost there"))
                        }
                        _ => Ok(None),
                    };
                }
            }
        }
        let mut rest = &self.messages[self.at..];
        let event =
            (self.read)(&mut rest).map_err(|malformed| trace.damaged(self.offset, &malformed.to_string()))?;
        self.at = self.messages.len() - rest.len();
        self.left = (self.left.checked_sub(1))
            .ok_or_else(|| trace.damaged(self.offset, "the chunk has more events than it says"))?;
        self.state = if event.kind == EventKind::End { State::Ended } else { State::Open };
        Ok(Some(event))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.state == State::Over {
            return None;
        }
        let next = self.step().transpose();
        // Where there is nothing more, there may be later.
        if matches!(next, Some(Err(_))) {
            self.state = State::Over;
        }
        next
    }
}

#[cfg(test)]
mod tests;
