//! What is patched in one address space: runs that have given way to jumps, their trampolines, and the arenas in which
//! those lie. Data and lookups; the memory itself is changed in `patching.rs`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use bis_rewrite::{Run, SiteKind, Trampoline};

use super::texts::TextFile;

/// Bytes of an arena: at its start the address of the hooks, behind it some hundred trampolines.
pub const ARENA_LEN: u64 = 0x1_0000;

/// How far a trampoline may be from its run: less than a displacement of 32 bits can say.
const REACH: u64 = 0x7f00_0000;

/// Where trampolines lie.
#[derive(Clone, Debug)]
pub struct Arena {
    pub start: u64,
    used: u64,
}

impl Arena {
    pub fn new(start: u64) -> Arena {
        // The slots, and what keeps the first trampoline aligned.
        Arena { start, used: 16 }
    }

    /// Where the address of the hook for such an instruction is; none for one that has no hook.
    pub fn slot(&self, kind: SiteKind) -> Option<u64> {
        match kind {
            SiteKind::Syscall => Some(self.start),
            SiteKind::Cpuid => Some(self.start + 8),
            _ => None,
        }
    }

    pub fn reaches(&self, addr: u64) -> bool {
        self.start.abs_diff(addr) < REACH && self.used + 512 < ARENA_LEN
    }

    /// Where the next trampoline goes.
    pub fn next(&self) -> u64 {
        self.start + self.used
    }

    pub fn take(&mut self, len: usize) {
        self.used += (len as u64).next_multiple_of(16);
    }
}

/// A patched run.
#[derive(Clone, Debug)]
pub struct Patch {
    pub start: u64,
    pub end: u64,
    pub kind: SiteKind,
    pub trampoline: Arc<Trampoline>,
    /// What was there before.
    pub original: Vec<u8>,
    /// Where the trampoline begins and ends.
    pub place: (u64, u64),
}

/// Executable memory that shows a file.
#[derive(Clone, Debug)]
pub struct TextRange {
    pub start: u64,
    pub end: u64,
    /// What is added to the file's own addresses.
    pub bias: u64,
    pub file: Arc<TextFile>,
}

/// The patches of a domain. A forked child has its parent's.
#[derive(Clone, Debug, Default)]
pub struct Patches {
    pub texts: Vec<TextRange>,
    pub arenas: Vec<Arena>,
    runs: BTreeMap<u64, Patch>,
    by_place: BTreeMap<u64, u64>,
    /// Sites that are not to be tried again.
    pub left: HashSet<u64>,
}

impl Patches {
    pub fn add(&mut self, patch: Patch) {
        self.by_place.insert(patch.place.0, patch.start);
        self.runs.insert(patch.start, patch);
    }

    /// The patched run that has this address in it.
    fn run_at(&self, addr: u64) -> Option<&Patch> {
        let (_, patch) = self.runs.range(..=addr).next_back()?;
        (addr < patch.end).then_some(patch)
    }

    /// Is any byte of this range patched?
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.runs.range(..end).next_back().is_some_and(|(_, patch)| start < patch.end)
    }

    /// Where a task goes on that is to go on at `rip`: elsewhere, if that is in the middle of a patch.
    pub fn enter(&self, rip: u64) -> u64 {
        let Some(patch) = self.run_at(rip).filter(|patch| patch.start != rip) else { return rip };
        let place = patch.trampoline.places.iter().find(|(original, _)| *original == rip);
        place.map_or(rip, |(_, place)| *place)
    }

    /// The program's own address for one in a trampoline.
    pub fn original(&self, rip: u64) -> u64 {
        let patch = self.by_place.range(..=rip).next_back().and_then(|(_, start)| self.runs.get(start));
        let patch = patch.filter(|patch| rip < patch.place.1);
        patch.and_then(|patch| patch.trampoline.original(rip)).unwrap_or(rip)
    }

    /// Is this address in a trampoline?
    pub fn is_trampoline(&self, rip: u64) -> bool {
        self.arenas.iter().any(|arena| arena.start <= rip && rip < arena.start + ARENA_LEN)
    }

    /// The patches that touch this range.
    pub fn within(&self, start: u64, end: u64) -> Vec<Patch> {
        self.runs.range(..end).map(|(_, patch)| patch).filter(|patch| start < patch.end).cloned().collect()
    }

    /// This part of the address space shows something else now.
    pub fn forget(&mut self, start: u64, end: u64) {
        if self.texts.is_empty() {
            return;
        }
        self.left.retain(|addr| *addr < start || end <= *addr);
        let gone: Vec<u64> = self.runs.range(start..end).map(|(start, _)| *start).collect();
        for start in gone {
            if let Some(patch) = self.runs.remove(&start) {
                self.by_place.remove(&patch.place.0);
            }
        }
        let mut kept = Vec::new();
        for text in self.texts.drain(..) {
            for (from, to) in [(text.start, text.end.min(start)), (text.start.max(end), text.end)] {
                if from < to {
                    kept.push(TextRange { start: from, end: to, ..text.clone() });
                }
            }
        }
        self.texts = kept;
    }

    /// The text that this address is in.
    pub fn text_at(&self, addr: u64) -> Option<&TextRange> {
        self.texts.iter().find(|text| text.start <= addr && addr < text.end)
    }

    /// Does this run of the file lie whole in this text?
    pub fn lies_in(text: &TextRange, run: &Run) -> bool {
        let start = run.start().wrapping_add(text.bias);
        text.start <= start && start.wrapping_add(u64::from(run.len())) <= text.end
    }
}
