//! Reading a trace: what it says about itself, and the events of each stream.
//!
//! Opening reads the meta stream into memory; events are read when they are asked for, a chunk at a time, by
//! any number of threads. A trace that was cut short is a trace: [`Trace::ended`] says where and why. Only
//! what cannot be read at all is an error of [`Trace::open`].
//!
//! Chunks are read in `reader/chunks.rs`, and ahead of their time in `reader/ahead.rs`; events in
//! `reader/events.rs`, kept files in `reader/content.rs`.

mod ahead;
mod chunks;
mod content;
mod events;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

pub use self::{ahead::ReadAhead, content::Sharing, events::Events};
use crate::{
    blocks,
    chunk::{self, Chunk, LOG_HEADER_BYTES, LogHeader},
    clones, codec,
    error::{Result, TraceError},
    event::{Cloned, DomainEntry, Machine, Meta},
    folder::{LAST_WORDS, LOG},
    index::{self, Damage, Place, Table},
    opening::NO_LINKS,
    types::{DomainId, EventSeq, FileId, StandardStream},
};

const LAST_WORDS_BYTES_MAX: u64 = 1 << 10;

/// How a recording ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As it should. The program's exit status: 128 + signal if one killed it.
    Complete { exit_code: u8 },
    /// Early; `why` is a clause for people.
    Cut { why: String },
    /// Not yet: its recorder is at work.
    Recording,
}

/// A [`Meta::Echo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoEntry {
    pub seq: EventSeq,
    /// Bytes.
    pub len: u64,
    pub domain: DomainId,
    pub stream: StandardStream,
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

    /// Does it have events for calls of the 32-bit table? Where it has not, they fail without one.
    pub fn tells_narrow_calls(&self) -> bool {
        self.format >= chunk::FORMAT_NARROW
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

    /// What the recorder has said behind the end of a complete log, without memory for what it does there: a
    /// clause for people.
    pub fn last_words_behind_end(&self) -> Option<String> {
        match self.ending {
            Ending::Complete { .. } => last_words(&self.dir),
            // It ends with them already.
            Ending::Cut { .. } | Ending::Recording => None,
        }
    }

    /// Reads what an event has outside of the log, in the place of what `buffer` held, and checks its sum.
    pub fn read_cloned(&self, cloned: &Cloned, buffer: &mut Vec<u8>) -> Result<()> {
        self.clones.read(&self.dir, cloned, buffer)
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
                    Meta::Echo { seq, domain, stream, len } => {
                        echoes.push(EchoEntry { seq, len, domain, stream });
                    }
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
        // Threads that had not heard of it yet may have added entries behind that.
        let cut = self.metas.iter().rev().find_map(|meta| match meta {
            Meta::Cut { why } => Some(why),
            _ => None,
        });
        // Where the log just stops: what its recorder could still say, or it is not done.
        let broken_off = |why: String| match last_words(&self.dir) {
            Some(words) => Ending::Cut { why: words },
            None if is_recording(&self.dir) => Ending::Recording,
            None => Ending::Cut { why },
        };
        let why = match (&self.table().damage, self.metas.last()) {
            (Some(Damage::Bad(offset)), _) => format!("the chunk at byte {offset} is damaged (checksum)"),
            _ if cut.is_some() => cut.cloned().unwrap_or_default(),
            (Some(Damage::HalfChunk(offset)), _) => {
                return broken_off(format!("the log ends in the middle of a chunk at byte {offset}"));
            }
            (None, Some(Meta::End { exit_code, .. })) => match self.lost_events() {
                Some(why) => why,
                None => return Ending::Complete { exit_code: *exit_code },
            },
            (None, _) => return broken_off("the recorder was killed".into()),
        };
        Ending::Cut { why }
    }

    /// What is wrong if a domain has ended after another number of events than its stream has, or has not
    /// ended in a recording that has: each chunk may be sound, and one of them not there, or there as another
    /// stream's.
    fn lost_events(&self) -> Option<String> {
        let mut ended = HashSet::new();
        for meta in &self.metas {
            let Meta::DomainEnd { domain, event_count, .. } = meta else { continue };
            let has = self.event_count(*domain);
            if has != *event_count {
                return Some(format!("domain {domain} has {has} events, and had {event_count}"));
            }
            ended.insert(*domain);
        }
        let left = self.domains().find(|entry| !ended.contains(&entry.domain))?;
        let has = self.event_count(left.domain);
        Some(format!("domain {} has {has} events, and no end", left.domain))
    }
}

/// Has the trace in this folder nothing in its log but the header?
pub fn is_bare(dir: &Path) -> bool {
    dir.join(LOG).metadata().is_ok_and(|log| log.len() <= LOG_HEADER_BYTES as u64)
}

/// Whether a recorder is writing the trace in this folder: it holds a lock on the folder, which the kernel
/// takes from it when it is gone, however it went.
pub fn is_recording(dir: &Path) -> bool {
    let folder = File::open(dir);
    folder.is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
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
    let silent = || match is_recording(dir) {
        true => "it is still being recorded, and there is no event yet",
        false => "its recorder ended before it wrote an event",
    };
    let why = last_words(dir).unwrap_or_else(|| silent().into());
    TraceError::Empty { path: dir.into(), why }
}

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

#[cfg(test)]
mod tests;
