//! Texts that process after process maps alike: all that is patched in one of them as one value, and the file
//! that shows it so. Data and lookups, like `patches.rs`; how it comes there is in `hooks/sets.rs`.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use bis_trace::{
    event::{Insn, MemWrite},
    ours,
    types::{Addr, FileId},
};

use super::patches::{Patch, TextRange};
use crate::hooks::texts::TextFile;

/// What is patched in a text: its patches, and the instructions that fault in the place of others.
#[derive(Debug)]
pub struct PatchSet {
    pub start: Addr,
    pub end: Addr,
    /// By address.
    runs: Vec<Arc<Patch>>,
    /// The runs by the address of the trampoline.
    by_place: Vec<Arc<Patch>>,
    pub faults: BTreeMap<Addr, (Insn, Vec<u8>)>,
}

impl PatchSet {
    pub fn new(text: Range<Addr>, patches: &[Arc<Patch>], faults: &[ours::Fault]) -> PatchSet {
        let (mut runs, mut by_place) = (patches.to_vec(), patches.to_vec());
        runs.sort_unstable_by_key(|patch| patch.start);
        by_place.sort_unstable_by_key(|patch| patch.place.0);
        let faults = faults.iter().map(|fault| (fault.site, (fault.insn, fault.original.clone())));
        PatchSet { start: text.start, end: text.end, runs, by_place, faults: faults.collect() }
    }

    pub fn patches(&self) -> &[Arc<Patch>] {
        &self.runs
    }

    /// Has its text any byte of this range?
    pub fn touches(&self, start: Addr, end: Addr) -> bool {
        self.start < end && start < self.end
    }

    /// The patched run that begins last before this address.
    pub fn last_before(&self, addr: Addr) -> Option<&Arc<Patch>> {
        let before = self.runs.partition_point(|patch| patch.start < addr);
        self.runs[..before].last()
    }

    /// The patch in whose trampoline this address is.
    pub fn in_trampoline(&self, rip: Addr) -> Option<&Arc<Patch>> {
        let before = self.by_place.partition_point(|patch| patch.place.0 <= rip);
        self.by_place[..before].last().filter(|patch| rip < patch.place.1)
    }

    /// The patches that touch this range.
    pub fn within(&self, start: Addr, end: Addr) -> impl Iterator<Item = &Arc<Patch>> {
        let before = self.runs.partition_point(|patch| patch.start < end);
        self.runs[..before].iter().filter(move |patch| start < patch.end)
    }
}

/// Text that shows a file of ours in place of the program's own, which has this there. It stays so when what
/// is patched is overwritten.
#[derive(Clone, Debug)]
pub struct ShownText {
    pub start: Addr,
    pub end: Addr,
    pub file: Arc<TextFile>,
    /// Where in the program's file it begins.
    pub offset: u64,
    /// Of the program's file, as `/proc/PID/maps` has it.
    pub device: (u32, u32),
    pub inode: u64,
    pub name: Arc<[u8]>,
}

impl ShownText {
    /// What `/proc/PID/maps` would say of it behind the addresses.
    pub fn line(&self) -> Vec<u8> {
        let (major, minor) = self.device;
        let line = format!("r-xp {:08x} {major:02x}:{minor:02x} {} ", self.offset, self.inode);
        [line.as_bytes(), &self.name, b"\n"].concat()
    }

    /// What is left of it without this range.
    pub fn without(self, start: Addr, end: Addr) -> impl Iterator<Item = ShownText> {
        let parts = [(self.start, self.end.min(start)), (self.start.max(end), self.end)];
        let part = move |(from, to): (Addr, Addr)| {
            let offset = self.offset + from.saturating_since(self.start);
            (from < to).then(|| ShownText { start: from, end: to, offset, ..self.clone() })
        };
        parts.into_iter().filter_map(part)
    }
}

/// All that what is patched in a text follows from, beside the recording's options.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SetKey {
    /// Which [`TextFile`]: its address, because a recording keeps all that it has seen.
    file: usize,
    kept: FileId,
    start: Addr,
    end: Addr,
    bias: u64,
    offset: u64,
    /// Where the first trampoline goes, in which arena.
    pub arena: Addr,
    pub at: Addr,
    /// The time stamp counter faults.
    is_closed: bool,
    /// How many places of the file were known.
    places: usize,
}

impl SetKey {
    pub fn new(text: &TextRange, (arena, at): (Addr, Addr), is_closed: bool) -> SetKey {
        SetKey {
            file: Arc::as_ptr(&text.file).addr(),
            kept: text.kept,
            start: text.start,
            end: text.end,
            bias: text.bias,
            offset: text.offset,
            arena,
            at,
            is_closed,
            places: text.file.places(),
        }
    }

    /// Is this the same text, of which less was known?
    fn follows(&self, earlier: &SetKey) -> bool {
        let same = SetKey { places: self.places, ..earlier.clone() };
        *self == same && earlier.places < self.places
    }
}

/// What was patched in a text, by writes to memory.
#[derive(Debug)]
pub struct Patched {
    pub set: Arc<PatchSet>,
    /// The writes to the text, and those to the arena.
    pub sites: Vec<MemWrite>,
    pub trampolines: Vec<MemWrite>,
    pub faults: Vec<ours::Fault>,
    /// Where the arena is used up to.
    pub end: Addr,
    /// The text, as the process had it in which it was patched.
    pub shown: ShownText,
}

/// What is patched by writes each time: a text with few places, or a long one.
#[derive(Debug)]
pub struct PatchedByWrites {
    pub set: Arc<PatchSet>,
    /// The writes to the text, in the order of their addresses, as they are told, and as they are made: those
    /// to a page are one.
    pub sites: Vec<MemWrite>,
    pub merged: Vec<MemWrite>,
    pub trampolines: Vec<MemWrite>,
    pub faults: Vec<ours::Fault>,
    /// Where the arena is used up to.
    pub end: Addr,
}

/// A kept file that has a patched text: its pages, then those of its trampolines, then what is said of them.
#[derive(Debug)]
pub struct PatchedFile {
    pub patched: Arc<Patched>,
    pub kept: FileId,
    pub file: File,
    pub path: PathBuf,
    /// Bytes of the text and of the trampolines, whole pages.
    pub text_len: u64,
    pub trampolines_len: u64,
}

/// What a recording knows of a text as a set.
#[derive(Clone, Debug, Default)]
pub enum KnownSet {
    /// It was not patched before.
    #[default]
    New,
    /// It was patched by writes before.
    Written(Arc<Patched>),
    Kept(Arc<PatchedFile>),
    /// It is always patched by these writes.
    Same(Arc<PatchedByWrites>),
    /// It is always patched by writes, which have to be found.
    Refused,
}

/// The sets of a recording.
#[derive(Debug, Default)]
pub struct KnownSets(Mutex<HashMap<SetKey, KnownSet>>);

impl KnownSets {
    pub fn get(&self, key: &SetKey) -> KnownSet {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned().unwrap_or_default()
    }

    /// What `/proc/PID/maps` would say behind the addresses of what a kept file with this path shows, from
    /// this offset on. None as well of its trampolines.
    pub fn line_of(&self, path: &[u8], offset: u64) -> Option<Vec<u8>> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |known: &KnownSet| match known {
            KnownSet::Kept(kept) if path.ends_with(kept.path.file_name()?.as_encoded_bytes()) => {
                let shown = &kept.patched.shown;
                (offset < kept.text_len)
                    .then(|| ShownText { offset: shown.offset + offset, ..shown.clone() }.line())
            }
            _ => None,
        };
        sets.values().find_map(shown)
    }

    /// From here on, this is known; what was known of the same text when less of it was known is not.
    pub fn set(&self, key: SetKey, known: KnownSet) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|other, _| !key.follows(other));
        sets.insert(key, known);
    }
}

/// What programs are to find in `/proc/PID/maps` where these texts are mapped.
pub fn lines(shown: &[ShownText]) -> impl Iterator<Item = (Range<Addr>, Vec<u8>)> {
    shown.iter().map(|text| (text.start..text.end, text.line()))
}
