//! The trace's `steps` file: the registers of tasks behind each instruction that they have executed between
//! two events (`record --steps A..B`). Replay makes the same steps and compares, so that a divergence is
//! narrowed to its instruction.
//!
//! A *stretch* is what one task executes up to one of its events. It is written when that event is, as frames
//! that are appended to the file, each with its own length and checksum:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | length of the compressed content, bytes |
//! | 4..12 | xxh3-64 of the compressed content |
//! | 12.. | the content, as a zstd frame |
//!
//! All numbers are little-endian. The content: the domain's number (4 bytes), the task's (4), that of the
//! event to which the stretch leads (8), the number of states (4); then for each state the changes from the
//! one before it (before the first of a frame: from zeros): a mask (4) with a bit for each of
//! [`Registers::words`], and the words (8) whose bits are set. The first state of a stretch is where the task
//! stood at its begin. A state that equals the one before it is left out: whether the kernel tells of a
//! step that has done nothing differs from run to run.
//!
//! A recorder that is killed leaves a last frame that is cut, which is read over. Everything else that is
//! wrong with the file is damage.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    error::{Result, TraceError},
    opening::NO_LINKS,
    types::{DomainId, EventSeq, REGISTER_COUNT, Registers, Tid},
};

/// The file's name in the trace's folder.
pub const STEPS: &str = "steps";

/// How the file begins, behind which are the first and the last event asked for (8 bytes each).
const MAGIC: [u8; 8] = *b"bisstep1";
const HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 12;
/// Behind which the states begin.
const CONTENT_HEADER_BYTES: usize = 20;
/// A frame has no more states: 65,536, of at most 220 bytes each.
const STATES_MAX: usize = 1 << 16;
const STATE_BYTES_MAX: usize = 4 + 8 * REGISTER_COUNT;
/// More than one frame's content can have, bytes.
const CONTENT_BYTES_MAX: usize = CONTENT_HEADER_BYTES + STATES_MAX * STATE_BYTES_MAX;

/// What of the registers is the program's between two instructions: no number of a system call, no flags of
/// whoever steps it, no selectors that 64-bit code does not use.
#[must_use]
pub fn comparable(regs: &Registers) -> Registers {
    const TRAP_AND_RESUME: u64 = 0x100 | 0x10000;
    let eflags = regs.eflags & !TRAP_AND_RESUME;
    Registers { orig_rax: 0, eflags, ds: 0, es: 0, fs: 0, gs: 0, ..*regs }
}

/// The states of one stretch, while it is executed.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    states: Vec<u8>,
    /// Where each frame begins in `states`, and how many states it has.
    frames: Vec<(usize, u32)>,
    last: Option<Registers>,
}

impl Stretch {
    /// The task stands here now, which is behind an instruction, or (the first time) at the begin.
    pub fn push(&mut self, regs: &Registers) {
        let regs = comparable(regs);
        if self.last == Some(regs) {
            return;
        }
        let is_full = self.frames.last().is_none_or(|(_, count)| *count as usize == STATES_MAX);
        if is_full {
            self.frames.push((self.states.len(), 0));
        }
        let before = self.last.filter(|_| !is_full).unwrap_or_default();
        let pairs = before.words().into_iter().zip(regs.words());
        let changed: Vec<(usize, u64)> = pairs
            .enumerate()
            .filter(|(_, (old, new))| old != new)
            .map(|(index, (_, new))| (index, new))
            .collect();
        let mask = changed.iter().fold(0u32, |mask, (index, _)| mask | 1 << index);
        self.states.extend(mask.to_le_bytes());
        for (_, word) in changed {
            self.states.extend(word.to_le_bytes());
        }
        if let Some((_, count)) = self.frames.last_mut() {
            *count += 1;
        }
        self.last = Some(regs);
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// Writes the file; used by all supervisors.
#[derive(Debug)]
pub struct StepsWriter {
    path: PathBuf,
    file: Mutex<File>,
}

impl StepsWriter {
    /// Makes the file in a trace's folder, for the steps between these two events.
    ///
    /// # Errors
    /// Where it cannot be made or written.
    pub fn create(dir: &Path, (from, to): (EventSeq, EventSeq)) -> Result<StepsWriter> {
        let path = dir.join(STEPS);
        let failed = |source| TraceError::Write { path: path.clone(), source: Arc::new(source) };
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let mut header = MAGIC.to_vec();
        header.extend(from.0.to_le_bytes());
        header.extend(to.0.to_le_bytes());
        file.write_all(&header).map_err(failed)?;
        Ok(StepsWriter { file: Mutex::new(file), path })
    }

    /// Writes a stretch of a task that has led to this event.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn push(&self, domain: DomainId, tid: Tid, event: EventSeq, stretch: &Stretch) -> Result<()> {
        let failed = |source| TraceError::Write { path: self.path.clone(), source: Arc::new(source) };
        let ends = stretch.frames.iter().skip(1).map(|(begin, _)| *begin).chain([stretch.states.len()]);
        for ((begin, count), end) in stretch.frames.iter().zip(ends) {
            let mut content = Vec::with_capacity(CONTENT_HEADER_BYTES + end - begin);
            content.extend(domain.0.to_le_bytes());
            content.extend(tid.0.to_le_bytes());
            content.extend(event.0.to_le_bytes());
            content.extend(count.to_le_bytes());
            content.extend(&stretch.states[*begin..end]);
            let compressed = zstd::bulk::compress(&content, 3).map_err(failed)?;
            let len =
                u32::try_from(compressed.len()).map_err(|_| failed(io::ErrorKind::InvalidData.into()))?;
            let mut frame = len.to_le_bytes().to_vec();
            frame.extend(xxh3_64(&compressed).to_le_bytes());
            frame.extend(compressed);
            self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame).map_err(failed)?;
        }
        Ok(())
    }
}

/// The stretch of a task that leads to an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps {
    pub tid: Tid,
    /// The first is where the task stood at the stretch's begin, each other one is behind an instruction.
    pub states: Vec<Registers>,
}

/// A trace's recorded steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllSteps {
    /// The events asked for.
    pub from: EventSeq,
    pub to: EventSeq,
    /// By domain and the event to which the stretch leads.
    stretches: BTreeMap<(DomainId, EventSeq), Vec<Vec<u8>>>,
    /// The last frame is not whole: the recorder was killed while it wrote it.
    pub is_cut: bool,
    path: PathBuf,
}

impl AllSteps {
    /// The steps of the trace in this folder. None: it has none.
    ///
    /// # Errors
    /// Where the file cannot be read, or is not what a recorder writes.
    pub fn open(dir: &Path) -> Result<Option<AllSteps>> {
        let path = dir.join(STEPS);
        let failed = |source| TraceError::Read { path: path.clone(), source: Arc::new(source) };
        let opened = OpenOptions::new().read(true).custom_flags(NO_LINKS).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(damaged(&path, 0, "it is no file"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        AllSteps::parse(&bytes, path).map(Some)
    }

    fn parse(bytes: &[u8], path: PathBuf) -> Result<AllSteps> {
        let header = bytes.get(..HEADER_BYTES).filter(|header| header.starts_with(&MAGIC));
        let Some(header) = header else { return Err(damaged(&path, 0, "it does not begin as steps do")) };
        let (from, to) = (EventSeq(u64_at(header, 8)), EventSeq(u64_at(header, 16)));
        let mut steps = AllSteps { from, to, stretches: BTreeMap::new(), is_cut: false, path };
        let mut at = HEADER_BYTES;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let whole = rest.get(..FRAME_HEADER_BYTES).and_then(|header| {
                let len = u32_at(header, 0) as usize;
                Some((u64_at(header, 4), rest.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES.checked_add(len)?)?))
            });
            let Some((sum, compressed)) = whole else {
                steps.is_cut = true;
                break;
            };
            if xxh3_64(compressed) != sum {
                return Err(damaged(&steps.path, at, "a frame's checksum is wrong"));
            }
            let content = zstd::bulk::decompress(compressed, CONTENT_BYTES_MAX)
                .ok()
                .filter(|content| content.len() >= CONTENT_HEADER_BYTES);
            let Some(content) = content else {
                return Err(damaged(&steps.path, at, "a frame cannot be decompressed"));
            };
            let key = (DomainId(u32_at(&content, 0)), EventSeq(u64_at(&content, 8)));
            steps.stretches.entry(key).or_default().push(compressed.to_vec());
            at += FRAME_HEADER_BYTES + compressed.len();
        }
        Ok(steps)
    }

    /// The events of a domain to which stretches lead, in their order.
    pub fn events(&self, domain: DomainId) -> impl Iterator<Item = EventSeq> + '_ {
        let all = (domain, EventSeq(0))..=(domain, EventSeq(u64::MAX));
        self.stretches.range(all).map(|((_, event), _)| *event)
    }

    /// The stretch that leads to an event. None: there is none.
    ///
    /// # Errors
    /// Where it is not what a recorder writes.
    pub fn stretch(&self, domain: DomainId, event: EventSeq) -> Result<Option<Steps>> {
        let Some(frames) = self.stretches.get(&(domain, event)) else { return Ok(None) };
        let mut steps = Steps { tid: Tid(0), states: Vec::new() };
        for compressed in frames {
            let content = zstd::bulk::decompress(compressed, CONTENT_BYTES_MAX).unwrap_or_default();
            let states = states(&content).ok_or_else(|| damaged(&self.path, 0, "a frame has no states"))?;
            steps.tid = Tid(u32_at(&content, 4).cast_signed());
            steps.states.extend(states);
        }
        Ok(Some(steps))
    }
}

/// The states in a frame's content. None: they are not all there, or there is more.
fn states(content: &[u8]) -> Option<Vec<Registers>> {
    let count = u32_at(content.get(..CONTENT_HEADER_BYTES)?, 16);
    let mut rest = &content[CONTENT_HEADER_BYTES..];
    let mut states = Vec::new();
    let mut words = Registers::default().words();
    for _ in 0..count {
        let (mask, tail) = rest.split_at_checked(4)?;
        let mask = u32_at(mask, 0);
        rest = tail;
        if mask >> REGISTER_COUNT != 0 {
            return None;
        }
        for (index, word) in words.iter_mut().enumerate() {
            if mask >> index & 1 != 0 {
                let (value, tail) = rest.split_at_checked(8)?;
                *word = u64_at(value, 0);
                rest = tail;
            }
        }
        states.push(Registers::from_words(words));
    }
    rest.is_empty().then_some(states)
}

fn damaged(path: &Path, at: usize, what: &str) -> TraceError {
    TraceError::Damaged { path: path.into(), offset: at as u64, what: what.into() }
}

/// The number at an offset at which there are as many bytes.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests;
