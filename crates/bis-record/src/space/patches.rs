//! What is patched in one address space: runs that have given way to jumps, their trampolines, and the arenas
//! in which those lie. Data and lookups; the memory itself is changed in `hooks/patching.rs`.
//!
//! Without address space randomisation, processes that map the same files have the same patches. Each is kept
//! once ([`MadePatches`]); an address space has its place only.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Range,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bis_agent::hooks;
use bis_rewrite::{Run, SiteKind, Trampoline, clock_fault, is_chance};
use bis_trace::{
    event::Insn,
    ours,
    types::{Addr, FileId, PAGE},
};
use bis_tracee::{cpu::instruction_of, maps::Mapping};

use super::{
    dense_texts::DenseTexts,
    patched_texts::{PatchSet, ShownText, lines},
};
use crate::hooks::texts::{MappedPart, TextFile};

/// Bytes of an arena: at its start the address of the hooks, behind it some hundred trampolines.
pub const ARENA_LEN: u64 = 0x1_0000;

/// How a page of text is protected that is not to be executed.
pub const GUARDED: u32 = 1;

const SYSCALL_LEN: u64 = 2;

/// How far a trampoline may be from its run: less than a displacement of 32 bits can say.
const REACH: u64 = 0x7f00_0000;

/// Where trampolines lie.
#[derive(Clone, Debug)]
pub struct Arena {
    pub start: Addr,
    used: u64,
}

impl Arena {
    pub fn new(start: Addr) -> Arena {
        // The slots, and what keeps the first trampoline aligned.
        Arena { start, used: 64 }
    }

    /// Where the address of the hook for such an instruction is; none for one that has no hook.
    pub fn slot(&self, kind: SiteKind) -> Option<Addr> {
        match kind {
            SiteKind::Syscall => Some(self.start),
            SiteKind::Cpuid => Some(self.start + 8),
            SiteKind::Rdtsc => Some(self.start + 16),
            SiteKind::Rdtscp => Some(self.start + 24),
            SiteKind::Rdrand | SiteKind::Rdseed | SiteKind::Rdpid | SiteKind::Lsl | SiteKind::Xbegin => {
                Some(self.start + 40)
            }
            SiteKind::Xsavec => Some(self.start + 48),
            SiteKind::Fnstenv => Some(self.start + 56),
        }
    }

    /// Where the address of the hook for the vdso's clocks is.
    pub fn clock_slot(&self) -> Addr {
        self.start + 32
    }

    /// What is at the arena's start: the addresses of the hooks.
    pub fn slots() -> Vec<u8> {
        let slots = [
            hooks::ENTER,
            hooks::CPUID,
            hooks::RDTSC,
            hooks::RDTSCP,
            hooks::CLOCK,
            hooks::CHANCE,
            hooks::XSAVEC,
            hooks::FNSTENV,
        ];
        slots.map(u64::to_le_bytes).concat()
    }

    /// Is there room for so many bytes beside a trampoline?
    pub fn has_room(&self, len: u64) -> bool {
        self.used + len + 512 < ARENA_LEN
    }

    pub fn reaches(&self, addr: Addr) -> bool {
        self.start.abs_diff(addr) < REACH && self.has_room(0)
    }

    /// The next trampoline begins on a page.
    pub fn align(&mut self) {
        self.used = self.used.next_multiple_of(PAGE).min(ARENA_LEN);
    }

    /// The next trampoline goes there.
    pub fn go_on_from(&mut self, at: Addr) {
        self.used = at.saturating_since(self.start).min(ARENA_LEN);
    }

    /// Where the next trampoline goes.
    pub fn next(&self) -> Addr {
        self.start + self.used
    }

    pub fn take(&mut self, len: usize) {
        self.used += (len as u64).next_multiple_of(16);
    }
}

/// A patched run.
#[derive(Debug)]
pub struct Patch {
    pub start: Addr,
    pub end: Addr,
    /// The instruction that it is about.
    pub site: Addr,
    pub kind: SiteKind,
    /// Its addresses are numbers, because it is made where no tracee is known: see the methods.
    pub trampoline: Trampoline,
    /// What was there before.
    pub original: Vec<u8>,
    /// Where the trampoline begins and ends.
    pub place: (Addr, Addr),
    /// What the trace says of it.
    pub said: Option<Arc<ours::Patch>>,
}

impl Patch {
    /// Each instruction of the run, and its end: (address in the run, address in the trampoline).
    pub fn places(&self) -> impl Iterator<Item = (Addr, Addr)> + '_ {
        self.trampoline.places.iter().map(|(original, place)| (Addr(*original), Addr(*place)))
    }

    /// Where the trampoline has its own copy of the instruction that the patch is about.
    pub fn traced(&self) -> Addr {
        Addr(self.trampoline.traced)
    }

    /// The address in the run that this one in the trampoline stands for.
    pub fn original_of(&self, rip: Addr) -> Option<Addr> {
        self.trampoline.original(rip.0).map(Addr)
    }

    /// With what the trace says of it. None where it cannot be said: no patch is as long as that.
    pub fn told(mut self) -> Option<Patch> {
        let within = |addr: Addr, from: Addr| u8::try_from(addr.wrapping_since(from)).ok();
        // Of a transaction, the last place is where it fails, which may be anywhere; its copy stands for the
        // run's end.
        let original = |addr: Addr, copy: Addr| {
            if self.trampoline.abort.is_some() && copy.0 == self.trampoline.done { self.end } else { addr }
        };
        let place = |(addr, copy): (Addr, Addr)| {
            Some([within(original(addr, copy), self.start)?, within(copy, self.place.0)?])
        };
        let said = ours::Patch {
            start: self.start,
            original: self.original.clone(),
            trampoline: self.place.0,
            trampoline_len: within(self.place.1, self.place.0)?,
            site: within(self.site, self.start)?,
            insn: instruction_of(self.kind),
            moved: self.places().map(place).collect::<Option<_>>()?,
            abort: self.trampoline.abort.map(Addr),
        };
        self.said = Some(Arc::new(said));
        Some(self)
    }
}

/// What an instruction that reads the time stamp counter is called in the trace.
pub fn clock_insn(kind: SiteKind) -> Option<Insn> {
    match kind {
        SiteKind::Rdtsc => Some(Insn::Rdtsc),
        SiteKind::Rdtscp => Some(Insn::Rdtscp),
        _ => None,
    }
}

/// What a patch follows from: the run, what is added to its addresses, where the trampoline lies, and where
/// its hook's address does.
type Origin = (Run, u64, Addr, Addr);

/// The patches of all domains.
#[derive(Debug, Default)]
pub struct MadePatches {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    patches: HashMap<Origin, Weak<Patch>>,
    /// How many of `patches` make it worth to look for those that no domain has any more.
    full: usize,
}

impl MadePatches {
    /// The patch with this origin: one that a domain has, or a new one. None if `make` has none.
    pub fn get(&self, origin: Origin, make: impl FnOnce() -> Option<Patch>) -> Option<Arc<Patch>> {
        const FULL_MIN: usize = 4096;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(patch) = known.patches.get(&origin).and_then(Weak::upgrade) {
            return Some(patch);
        }
        let patch = Arc::new(make()?);
        known.patches.insert(origin, Arc::downgrade(&patch));
        if known.patches.len() > known.full {
            known.patches.retain(|_, patch| patch.strong_count() > 0);
            known.full = FULL_MIN.max(2 * known.patches.len());
        }
        Some(patch)
    }
}

/// Executable memory that shows a file.
#[derive(Clone, Debug)]
pub struct TextRange {
    pub start: Addr,
    pub end: Addr,
    /// What is added to the file's own addresses.
    pub bias: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The program may have changed it.
    pub is_changed: bool,
    pub file: Arc<TextFile>,
    /// The file in the trace.
    pub kept: FileId,
}

impl TextRange {
    /// The file's own address of what is mapped here.
    pub fn own(&self, addr: Addr) -> u64 {
        addr.0.wrapping_sub(self.bias)
    }

    /// What it shows of its file, from this offset on.
    pub fn part(&self, offset: u64) -> MappedPart {
        MappedPart { offset, len: self.end - self.start, first: self.own(self.start) }
    }

    /// Where the process has what is at this address of the file.
    pub fn mapped(&self, own: u64) -> Addr {
        Addr(own.wrapping_add(self.bias))
    }

    pub fn contains(&self, addr: Addr) -> bool {
        self.start <= addr && addr < self.end
    }
}

/// The patches of a domain. A forked child has its parent's.
#[derive(Clone, Debug, Default)]
pub struct Patches {
    pub texts: Vec<TextRange>,
    pub arenas: Vec<Arena>,
    /// What is patched whole texts at a time. What becomes of a part of one is done to its patches, each by
    /// itself (`break_sets`).
    sets: Vec<Arc<PatchSet>>,
    /// Text that shows a file of ours.
    shown: Vec<ShownText>,
    /// All other patches.
    runs: BTreeMap<Addr, Arc<Patch>>,
    by_place: BTreeMap<Addr, Addr>,
    /// What has given way to text that counts, by the begin of its trampoline: tasks may still be in those.
    retired: BTreeMap<Addr, Arc<Patch>>,
    /// Instructions that have given way to ones that fault, and their bytes.
    faults: BTreeMap<Addr, (Insn, Vec<u8>)>,
    /// Pages of text that cannot be executed until somebody tries (`hooks/guards.rs`).
    pub guards: BTreeSet<Addr>,
    /// Sites that are not to be tried again.
    pub left: HashSet<Addr>,
    /// Text that counts.
    pub dense: DenseTexts,
    /// Addresses at which a thread may go on by what it has in memory, in order: those of a process that was
    /// found running.
    avoided: Arc<Vec<Addr>>,
}

impl Patches {
    /// From here on there are no patches with one of these addresses in their middle.
    pub fn avoid(&mut self, sorted: Vec<Addr>) {
        self.avoided = Arc::new(sorted);
    }

    /// May a thread come into the middle of this range?
    pub fn is_avoided(&self, start: Addr, end: Addr) -> bool {
        let after = self.avoided.partition_point(|addr| *addr <= start);
        self.avoided.get(after).is_some_and(|addr| *addr < end)
    }

    /// Is there any address into whose neighbourhood nothing is to be patched?
    pub fn avoids_any(&self) -> bool {
        !self.avoided.is_empty()
    }

    pub fn arena_at(&mut self, start: Addr) -> Option<&mut Arena> {
        self.arenas.iter_mut().find(|arena| arena.start == start)
    }

    /// A text is patched by the mapping of a file.
    pub fn add_set(&mut self, set: Arc<PatchSet>, shown: ShownText) {
        self.forget_shown(shown.start, shown.end);
        self.shown.push(shown);
        self.sets.push(set);
    }

    /// The same, patched by writes.
    pub fn add_written_set(&mut self, set: Arc<PatchSet>) {
        self.sets.push(set);
    }

    /// The texts that show a file of ours and have a byte of this range.
    pub fn shown_in(&self, start: Addr, end: Addr) -> Vec<ShownText> {
        self.shown.iter().filter(|text| text.start < end && start < text.end).cloned().collect()
    }

    /// Something else is mapped there now.
    pub fn forget_shown(&mut self, start: Addr, end: Addr) {
        let shown = std::mem::take(&mut self.shown);
        self.shown = shown.into_iter().flat_map(|text| text.without(start, end)).collect();
    }

    /// A mapping has moved, or has another length. Where text has grown by that, it shows of our file what
    /// the program does not have.
    pub fn move_shown(&mut self, from: Range<Addr>, to: Range<Addr>, keep: bool) -> Option<Range<Addr>> {
        let mut grown = None;
        let mut moved = Vec::new();
        for text in self.shown_in(from.start, from.end) {
            let (start, end) = (text.start.max(from.start), text.end.min(from.end));
            let offset = text.offset + (start - text.start);
            let at = |addr: Addr| to.start + (addr - from.start);
            let (start, mut end) = (at(start), at(end).min(to.end));
            if at(from.end) < to.end && end == at(from.end) {
                grown = Some(end..to.end);
                end = to.end;
            }
            if start < end {
                moved.push(ShownText { start, end, offset, ..text });
            }
        }
        if !keep {
            self.forget_shown(from.start, from.end);
        }
        self.forget_shown(to.start, to.end);
        self.shown.extend(moved);
        grown
    }

    /// What the program is to find in `/proc/PID/maps` instead of what is mapped.
    pub fn instead(&self) -> Vec<(Range<Addr>, Vec<u8>)> {
        self.dense.instead().into_iter().chain(lines(&self.shown)).collect()
    }

    /// A mapping as the program believes it to be.
    pub fn as_believed(&self, mapping: Mapping) -> Mapping {
        let holds = |text: &&ShownText| text.start <= mapping.start && mapping.end <= text.end;
        let Some(text) = self.shown.iter().find(holds) else { return mapping };
        Mapping {
            offset: text.offset + (mapping.start - text.start),
            device: text.device,
            inode: text.inode,
            name: text.name.to_vec(),
            ..mapping
        }
    }

    /// From here on, the patches of these sets are known one by one.
    fn break_sets(&mut self, start: Addr, end: Addr) {
        let sets = std::mem::take(&mut self.sets);
        let (broken, whole): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| set.touches(start, end));
        self.sets = whole;
        for set in broken {
            set.patches().iter().for_each(|patch| self.add(Arc::clone(patch)));
            self.faults.extend(set.faults.clone());
        }
    }

    pub fn add(&mut self, patch: Arc<Patch>) {
        self.by_place.insert(patch.place.0, patch.start);
        self.runs.insert(patch.start, patch);
    }

    /// The patched run that has this address in it.
    fn run_at(&self, addr: Addr) -> Option<&Patch> {
        let patch = self.runs.range(..=addr).next_back().map(|(_, patch)| patch);
        let in_set = || self.set_at(addr)?.last_before(addr + 1);
        let is_it = |patch: &&Arc<Patch>| addr < patch.end;
        patch.filter(is_it).or_else(|| in_set().filter(is_it)).map(Arc::as_ref)
    }

    fn set_at(&self, addr: Addr) -> Option<&PatchSet> {
        self.sets.iter().find(|set| set.start <= addr && addr < set.end).map(Arc::as_ref)
    }

    /// Is any byte of this range patched?
    pub fn overlaps(&self, start: Addr, end: Addr) -> bool {
        let in_set = |set: &Arc<PatchSet>| set.last_before(end).is_some_and(|patch| start < patch.end);
        self.runs.range(..end).next_back().is_some_and(|(_, patch)| start < patch.end)
            || self.sets.iter().filter(|set| set.touches(start, end)).any(in_set)
    }

    /// Where a task goes on that is to go on at `rip`: elsewhere, if that is in the middle of a patch.
    pub fn enter(&self, rip: Addr) -> Addr {
        let Some(patch) = self.run_at(rip).filter(|patch| patch.start != rip) else {
            return self.dense.enter(rip).unwrap_or(rip);
        };
        let place = patch.places().find(|(original, _)| *original == rip);
        place.map_or(rip, |(_, place)| place)
    }

    /// Where a task has to stand after an interrupted call that is traced, at `rip` by itself, so that the
    /// kernel makes the same call again, traced: the kernel goes back by the length of a `syscall`, and there
    /// may be a patch by now.
    pub fn again(&self, rip: Addr) -> Addr {
        let site = rip.wrapping_sub(SYSCALL_LEN);
        let patch = self.run_at(site).filter(|patch| patch.site == site && patch.kind == SiteKind::Syscall);
        patch.map_or(rip, |patch| patch.traced() + SYSCALL_LEN)
    }

    /// The patch in whose trampoline this address is.
    pub fn in_trampoline(&self, rip: Addr) -> Option<&Patch> {
        let patch = self.by_place.range(..=rip).next_back().and_then(|(_, start)| self.runs.get(start));
        let in_set = || self.sets.iter().find_map(|set| set.in_trampoline(rip));
        let retired = || self.retired.range(..=rip).next_back().map(|(_, patch)| patch);
        let is_it = |patch: &&Arc<Patch>| rip < patch.place.1;
        patch.filter(is_it).or_else(in_set).or_else(|| retired().filter(is_it)).map(Arc::as_ref)
    }

    /// The run whose trampoline begins at this address: a task has come there by the jump.
    pub fn begun_at(&self, rip: Addr) -> Option<(Addr, Addr)> {
        let patch = self.in_trampoline(rip)?;
        (patch.place.0 == rip).then_some((patch.start, patch.end))
    }

    /// The program's own address for one in a trampoline.
    pub fn original(&self, rip: Addr) -> Addr {
        let sparse = self.in_trampoline(rip).and_then(|patch| patch.original_of(rip));
        let dense = || self.dense.place(rip).map(|place| Addr(place.address()));
        sparse.or_else(dense).unwrap_or(rip)
    }

    /// Is this address on the way to a hook that has a register of the program's in its state?
    pub fn is_on_the_way(&self, rip: Addr) -> bool {
        self.in_trampoline(rip).is_some_and(|patch| {
            let begins = patch.places().find(|(original, _)| *original == patch.site);
            is_chance(patch.kind) && begins.is_some_and(|(_, place)| place < rip && rip < patch.traced())
        })
    }

    /// Where a task comes out of the hook to which it is on its way here, if that neither waits nor asks the
    /// supervisor: the one of cpuid, or of a number from the processor.
    pub fn silent_end(&self, rip: Addr) -> Option<Addr> {
        let patch = self.in_trampoline(rip)?;
        let is_silent = is_chance(patch.kind) || patch.kind == SiteKind::Cpuid;
        let way = patch.places().find(|(original, _)| *original == patch.site)?.1;
        let end = patch.trampoline.abort.unwrap_or(patch.trampoline.done);
        (is_silent && way < rip && rip < patch.traced()).then_some(Addr(end))
    }

    /// As [`Patches::silent_end`], for the hook of cpuid.
    pub fn cpuid_end(&self, rip: Addr) -> Option<Addr> {
        self.silent_end(rip).filter(|_| self.in_trampoline(rip).is_some_and(|it| it.kind == SiteKind::Cpuid))
    }

    /// Has a hook left the call that comes next here to the supervisor?
    pub fn is_left(&self, rip: Addr) -> bool {
        self.in_trampoline(rip).is_some_and(|patch| patch.kind == SiteKind::Syscall && patch.traced() == rip)
    }

    pub fn add_fault(&mut self, site: Addr, insn: Insn, original: Vec<u8>) {
        self.faults.insert(site, (insn, original));
    }

    /// What a fault at this address stands for, if one was put there, and its length.
    pub fn fault_at(&self, rip: Addr) -> Option<(Insn, u64)> {
        if let Some((insn, original)) = self.known_fault(rip) {
            return Some((*insn, original.len() as u64));
        }
        if let Some(kind) = self.dense.fault_at(rip) {
            return Some((clock_insn(kind)?, clock_fault(kind)?.len() as u64));
        }
        let patch = self.in_trampoline(rip).filter(|patch| patch.traced() == rip)?;
        Some((clock_insn(patch.kind)?, clock_fault(patch.kind)?.len() as u64))
    }

    fn known_fault(&self, site: Addr) -> Option<&(Insn, Vec<u8>)> {
        self.faults.get(&site).or_else(|| self.set_at(site)?.faults.get(&site))
    }

    /// Is this what made a page a guard?
    pub fn is_guard(&self, addr: Addr, len: u64, prot: u32) -> bool {
        len == PAGE && prot == GUARDED && self.guards.contains(&addr)
    }

    /// The bytes of the program's instruction where something that faults was put.
    pub fn fault_bytes(&self, rip: Addr) -> Option<&[u8]> {
        self.known_fault(rip).map(|(_, original)| &original[..])
    }

    /// Where such an instruction reads the time stamp counter.
    pub fn clock_faults(&self) -> Vec<Addr> {
        let is_clock = |insn: Insn| matches!(insn, Insn::Rdtsc | Insn::Rdtscp);
        let all = self.sets.iter().flat_map(|set| &set.faults).chain(&self.faults);
        all.filter(|(_, (insn, _))| is_clock(*insn)).map(|(site, _)| *site).collect()
    }

    /// Forgets the faults of a range: their places, and what was there before.
    pub fn take_faults(&mut self, range: Range<Addr>) -> Vec<(Addr, Vec<u8>)> {
        self.break_sets(range.start, range.end);
        let places: Vec<Addr> = self.faults.range(range).map(|(site, _)| *site).collect();
        let taken = |site: Addr| self.faults.remove(&site).map(|(_, original)| (site, original));
        places.into_iter().filter_map(taken).collect()
    }

    /// Does all of this range show text that was looked at?
    pub fn shows(&self, start: Addr, end: Addr) -> bool {
        let mut at = start;
        while at < end {
            let Some(text) = self.text_at(at) else { return false };
            at = text.end;
        }
        true
    }

    /// Does any of it?
    pub fn shows_any(&self, start: Addr, end: Addr) -> bool {
        self.texts.iter().any(|text| text.start < end && start < text.end)
    }

    /// Is this address in a trampoline?
    pub fn is_trampoline(&self, rip: Addr) -> bool {
        let is_sparse = self.arenas.iter().any(|arena| arena.start <= rip && rip < arena.start + ARENA_LEN);
        is_sparse || self.dense.is_trampoline(rip)
    }

    /// What the program has in this range where its text counts: address and bytes.
    pub fn counted(&self, start: Addr, end: Addr) -> Vec<(Addr, Vec<u8>)> {
        let part = |text: &TextRange| {
            let (from, to) = (text.start.max(start), text.end.min(end));
            let counts = from < to && self.dense.shows_any(from, to);
            counts.then(|| (from, text.file.shown(text.offset + (from - text.start), to - from)))
        };
        self.texts.iter().filter_map(part).collect()
    }

    /// The patches that touch this range.
    pub fn within(&self, start: Addr, end: Addr) -> Vec<Arc<Patch>> {
        let single = self.runs.range(..end).map(|(_, patch)| patch).filter(|patch| start < patch.end);
        let in_sets = self.sets.iter().filter(|set| set.touches(start, end));
        let mut all: Vec<Arc<Patch>> =
            single.chain(in_sets.flat_map(|set| set.within(start, end))).cloned().collect();
        all.sort_by_key(|patch| patch.start);
        all
    }

    /// This part of the address space shows something else now.
    pub fn forget(&mut self, start: Addr, end: Addr) {
        if self.texts.is_empty() {
            return;
        }
        self.forget_patches(start, end);
        self.dense.forget(start, end);
        let mut kept = Vec::new();
        for text in self.texts.drain(..) {
            for (from, to) in [(text.start, text.end.min(start)), (text.start.max(end), text.end)] {
                if from < to {
                    let offset = text.offset + (from - text.start);
                    kept.push(TextRange { start: from, end: to, offset, ..text.clone() });
                }
            }
        }
        self.texts = kept;
    }

    /// Text that counts has taken the place of this one; in the trampolines, tasks may still be.
    pub fn retire(&mut self, start: Addr, end: Addr) {
        self.break_sets(start, end);
        let patches = self.runs.range(start..end).map(|(_, patch)| (patch.place.0, patch.clone()));
        self.retired.extend(patches);
        self.forget_patches(start, end);
    }

    /// What was patched in this part of the address space is not any more.
    pub fn forget_patches(&mut self, start: Addr, end: Addr) {
        self.sets.retain(|set| set.start < start || end < set.end);
        self.take_faults(start..end);
        self.guards.retain(|page| *page < start || end <= *page);
        self.left.retain(|addr| *addr < start || end <= *addr);
        let gone: Vec<Addr> = self.runs.range(start..end).map(|(start, _)| *start).collect();
        for start in gone {
            if let Some(patch) = self.runs.remove(&start) {
                self.by_place.remove(&patch.place.0);
            }
        }
    }

    /// The text that this address is in.
    pub fn text_at(&self, addr: Addr) -> Option<&TextRange> {
        self.texts.iter().find(|text| text.contains(addr))
    }

    /// Does this run of the file lie whole in this text?
    pub fn lies_in(text: &TextRange, run: &Run) -> bool {
        let start = text.mapped(run.start());
        text.start <= start && start.wrapping_add(u64::from(run.len())) <= text.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Addr = Addr(0x40_0000);
    const ARENA: Addr = Addr(0x7000_0000);

    /// A call of two bytes in a run of five.
    fn patch(start: Addr, at: Addr) -> Arc<Patch> {
        let places = [(start, at), (start + 3, at + 3), (start + 5, at + 20)];
        let places = places.map(|(original, place)| (original.0, place.0)).to_vec();
        let (bytes, patch) = (vec![0; 25], vec![0xe9; 5]);
        let trampoline = Trampoline { bytes, patch, traced: at.0 + 18, done: at.0 + 20, abort: None, places };
        let (original, place, kind) = (vec![0x90, 0x90, 0x90, 0x0f, 0x05], (at, at + 25), SiteKind::Syscall);
        let (end, site) = (start + 5, start + 3);
        Arc::new(Patch { start, end, site, kind, trampoline, original, place, said: None })
    }

    /// Three patches and a fault.
    fn patched() -> (Vec<Arc<Patch>>, ours::Fault) {
        let patches = (0..3).map(|n| patch(TEXT + 0x100 + 0x1000 * n, ARENA + 32 * n)).collect();
        (patches, ours::Fault { site: TEXT + 0x200, insn: Insn::Rdtsc, original: vec![0x0f, 0x31] })
    }

    /// What all questions are answered, at all places.
    fn answers(patches: &Patches) -> Vec<String> {
        let places = |start: Addr, len: u64| Addr::steps(start..start + len, 1);
        let all = places(TEXT + 0xf0, 0x20).chain(places(TEXT + 0x10f0, 0x20)).chain(places(ARENA, 100));
        let mut answers: Vec<String> = all
            .map(|at| {
                let [enter, again, original] = [patches.enter(at), patches.again(at), patches.original(at)];
                let [overlaps, left] = [patches.overlaps(at, at + 2), patches.is_left(at)];
                format!(
                    "{at:x}: {enter:x} {again:x} {original:x} {overlaps} {left} {:?}",
                    patches.fault_at(at)
                )
            })
            .collect();
        let within = patches.within(TEXT + 0x104, TEXT + 0x1101);
        answers.push(format!("{:x?}", within.iter().map(|patch| patch.start).collect::<Vec<_>>()));
        answers.push(format!("{:?} {:?}", patches.clock_faults(), patches.fault_bytes(TEXT + 0x200)));
        answers
    }

    #[test]
    fn a_set_is_what_its_patches_are() {
        let (all, fault) = patched();
        let (mut single, mut set) = (Patches::default(), Patches::default());
        all.iter().for_each(|patch| single.add(Arc::clone(patch)));
        single.add_fault(fault.site, fault.insn, fault.original.clone());
        set.sets.push(Arc::new(PatchSet::new(TEXT..TEXT + 0x3000, &all, &[fault])));
        assert_eq!(answers(&set), answers(&single));
        assert_eq!(set.enter(TEXT + 0x103), ARENA + 3);
        assert_eq!(set.fault_bytes(TEXT + 0x200), Some(&[0x0f, 0x31][..]));
        // A part is forgotten; another gives way, and a task may be in its trampoline.
        for (start, end) in [(TEXT + 0x1000, TEXT + 0x2000), (TEXT, TEXT + 0x1000)] {
            let mut broken = [single.clone(), set.clone()];
            broken.iter_mut().for_each(|patches| patches.forget_patches(start, end));
            assert_eq!(answers(&broken[1]), answers(&broken[0]));
            assert_ne!(answers(&broken[1]), answers(&set));
            let mut retired = [single.clone(), set.clone()];
            retired.iter_mut().for_each(|patches| patches.retire(start, end));
            assert_eq!(answers(&retired[1]), answers(&retired[0]));
            assert_eq!(retired[1].original(ARENA + 32 * ((start - TEXT) / 0x1000) + 3), start + 0x103);
        }
        set.forget_patches(TEXT, TEXT + 0x3000);
        assert_eq!(answers(&set), answers(&Patches::default()));
    }
}
