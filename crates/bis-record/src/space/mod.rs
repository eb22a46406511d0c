//! An address space as a value: what the recorder knows of a process's memory beyond what the kernel says of
//! it.
//!
//! It knows no policy, makes no event, and asks nobody. An exec makes a new one ([`AddressSpace::fresh`]); a
//! forked child has its parent's ([`AddressSpace::for_child`]), whole: what is added here is copied by
//! itself. What only the one domain has, because it is about its running (tokens, surroundings, reports), is
//! not here.
//!
//! What is ours in it is here, too: the patches, their trampolines, and which text counts. How they come
//! there is the hooks' (`hooks/patching.rs`, `hooks/dense.rs`).

mod clock;
mod content;
mod dense_texts;
mod mapped;
mod patched_texts;
mod patches;
mod scratch;
mod views;
mod whereabouts;

use std::{collections::BTreeSet, ops::Range};

use bis_trace::{
    event::{Backing, Effect},
    shared::SharedMappings,
    types::Addr,
};

pub use clock::Clock;
pub use content::{content, content_within, own_pages};
pub use dense_texts::{Originals, Pool, chunks, line_of, shown_text};
pub use mapped::{Key, key_of_mapping, open_mapped, stack_floor, stack_limit, stack_limit_or_most};
pub use patched_texts::{
    KnownSet, KnownSets, PatchSet, Patched, PatchedByWrites, PatchedFile, SetKey, ShownText,
};
pub use patches::{ARENA_LEN, Arena, GUARDED, MadePatches, Patch, Patches, TextRange, clock_insn};
pub use scratch::{Place, Room, Scratch, is_too_large, relocate};
pub use views::{FileViews, View, split};

#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// The end of the heap.
    brk: Addr,
    /// The range that the main thread's stack may have: from the lowest address that its limit allows.
    stack: Range<Addr>,
    /// What other mappings that grow down may grow to: all of it is there in replay.
    grows: Vec<Range<Addr>>,
    /// The limit of its process for stacks, bytes, when that was last looked at.
    stack_limit: Option<u64>,
    /// Where the stacks of tasks ended that are no more (or, in a forked child, never were).
    old_stacks: Vec<Addr>,
    /// Where handlers have interrupted computation: the program may go on there by any way it likes, a jump
    /// or a return.
    interrupted_at: BTreeSet<Addr>,
    /// What the program has said about forks of its memory (madvise), in order: address, length, advice.
    fork_advice: Vec<(Addr, u64, u64)>,
    /// What the program believes of its "dumpable" attribute, which belongs to the address space.
    is_dumpable: bool,
    shared: SharedMappings,
    /// Private mappings of files that may change.
    views: FileViews,
    scratch: Scratch,
    /// What is ours in its text.
    patches: Patches,
    clock: Clock,
    /// Its program's: 32 or 64.
    bits: u32,
    /// The text of its image may ask `cpuid` without a hook.
    has_own_cpuid: bool,
}

/// What is left of a range without these, in order.
pub fn without(range: Range<Addr>, ours: &[Range<Addr>]) -> Vec<Range<Addr>> {
    let mut parts = vec![range];
    for gap in ours {
        let cut = |part: Range<Addr>| {
            let (before, after) = (part.start..part.end.min(gap.start), part.start.max(gap.end)..part.end);
            [before, after].into_iter().filter(|part| part.start < part.end)
        };
        parts = parts.into_iter().flat_map(cut).collect();
    }
    parts
}

impl AddressSpace {
    /// The address space of a fresh image, which has these mappings and this end of the heap.
    pub fn fresh(brk: Addr, image: &[Effect]) -> AddressSpace {
        let stack = image.iter().find_map(|effect| match effect {
            Effect::Map { addr, len, backing: Backing::Stack, .. } => Some(*addr..addr + len),
            _ => None,
        });
        AddressSpace {
            brk,
            stack: stack.unwrap_or(Addr::NULL..Addr::NULL),
            grows: Vec::new(),
            stack_limit: None,
            old_stacks: Vec::new(),
            interrupted_at: BTreeSet::new(),
            fork_advice: Vec::new(),
            is_dumpable: true,
            shared: SharedMappings::default(),
            views: FileViews::default(),
            scratch: Scratch::default(),
            patches: Patches::default(),
            clock: Clock::default(),
            bits: 64,
            has_own_cpuid: false,
        }
    }

    /// This address space, of a program of so many bits.
    #[must_use]
    pub fn of_bits(self, bits: u32) -> AddressSpace {
        AddressSpace { bits, ..self }
    }

    /// May the text of its image ask `cpuid` without a hook?
    pub fn has_own_cpuid(&self) -> bool {
        self.has_own_cpuid
    }

    /// It may.
    pub fn set_own_cpuid(&mut self) {
        self.has_own_cpuid = true;
    }

    /// How many bits its program's instructions have: 32 or 64.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The copy that a forked child has. It has one task, so the others' scratch blocks are free in it;
    /// `others` is where their stacks end, of which only the memory is left.
    pub fn for_child(&self, others: impl IntoIterator<Item = Addr>) -> AddressSpace {
        let mut copy = self.clone();
        copy.old_stacks.extend(others);
        copy.scratch.free_all();
        copy
    }

    // --- the heap

    /// The end of the heap.
    pub fn brk(&self) -> Addr {
        self.brk
    }

    /// The heap has this end now. Says which pages that adds, or takes.
    pub fn move_brk(&mut self, brk: Addr) -> HeapChange {
        let (old, new) = (self.brk.page_ceil(), brk.page_ceil());
        self.brk = brk;
        match new {
            _ if new > old => HeapChange::Grown(old..new),
            _ if new < old => HeapChange::Shrunk(new..old),
            _ => HeapChange::None,
        }
    }

    // --- stacks

    /// All that the main thread's stack may grow to.
    pub fn stack(&self) -> Range<Addr> {
        self.stack.clone()
    }

    /// All that stacks may grow to: the main thread's, and what else grows.
    pub fn rooms_of_stacks_mut(&mut self) -> impl Iterator<Item = &mut Range<Addr>> {
        [&mut self.stack].into_iter().chain(&mut self.grows)
    }

    /// See the field; none: it was not looked at yet.
    pub fn stack_limit(&self) -> Option<u64> {
        self.stack_limit
    }

    pub fn set_stack_limit(&mut self, limit: u64) {
        self.stack_limit = Some(limit);
    }

    /// A mapping that grows down has been made.
    pub fn add_growing(&mut self, range: Range<Addr>) {
        self.grows.push(range);
    }

    /// Nothing is mapped in this range any more: what has grown down from its end does no more.
    pub fn forget_growing(&mut self, unmapped: &Range<Addr>) {
        self.grows.retain(|room| !(unmapped.start < room.end && room.end <= unmapped.end));
    }

    /// May a stack, or what else grows, come to be in this range?
    pub fn is_grown_into(&self, range: &Range<Addr>) -> bool {
        let mut rooms = self.grows.iter().chain([&self.stack]);
        rooms.any(|room| room.start < range.end && range.start < room.end)
    }

    /// Below this address, nothing grows. None: beside the main thread's stack there is something that does.
    pub fn below_what_grows(&self) -> Option<Addr> {
        let is_known = self.grows.is_empty() && !self.stack.start.is_null();
        is_known.then_some(self.stack.start)
    }

    /// How far down what is mapped at this address may grow: the highest such floor, if it may grow at all.
    pub fn growth_floor(&self, addr: Addr) -> Option<Addr> {
        let ranges = self.grows.iter().chain([&self.stack]).filter(|range| range.contains(&addr));
        ranges.map(|range| range.start).max()
    }

    /// Nobody is on this stack any more, which ended here.
    pub fn leave_stack(&mut self, pointer: Addr) {
        if !self.old_stacks.contains(&pointer) {
            self.old_stacks.push(pointer);
        }
    }

    /// Where stacks ended that nobody is on any more.
    pub fn old_stacks(&self) -> &[Addr] {
        &self.old_stacks
    }

    // --- text

    /// A handler interrupts the program here.
    pub fn interrupt_at(&mut self, addr: Addr) {
        self.interrupted_at.insert(addr);
    }

    /// Has a handler interrupted the program anywhere in here?
    pub fn is_interrupted_in(&self, range: Range<Addr>) -> bool {
        self.interrupted_at.range(range).next().is_some()
    }

    // --- forks

    /// The program says what becomes of this memory in a fork.
    pub fn advise_of_forks(&mut self, addr: Addr, len: u64, advice: u64) {
        self.fork_advice.push((addr, len, advice));
    }

    /// What it has said, in order.
    pub fn fork_advice(&self) -> &[(Addr, u64, u64)] {
        &self.fork_advice
    }

    // --- attributes

    pub fn is_dumpable(&self) -> bool {
        self.is_dumpable
    }

    pub fn set_dumpable(&mut self, is_dumpable: bool) {
        self.is_dumpable = is_dumpable;
    }

    // --- what is in it

    pub fn shared(&self) -> &SharedMappings {
        &self.shared
    }

    pub fn shared_mut(&mut self) -> &mut SharedMappings {
        &mut self.shared
    }

    pub fn views(&self) -> &FileViews {
        &self.views
    }

    pub fn views_mut(&mut self) -> &mut FileViews {
        &mut self.views
    }

    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub fn scratch_mut(&mut self) -> &mut Scratch {
        &mut self.scratch
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    pub fn patches(&self) -> &Patches {
        &self.patches
    }

    pub fn patches_mut(&mut self) -> &mut Patches {
        &mut self.patches
    }
}

/// What a new end of the heap does to the pages that are mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeapChange {
    None,
    Grown(Range<Addr>),
    Shrunk(Range<Addr>),
}

#[cfg(test)]
mod tests {
    use bis_trace::{
        shared::SharedRange,
        types::{FileId, ObjectId, PAGE},
    };

    use super::*;

    fn fresh() -> AddressSpace {
        let map = |addr, len, backing| Effect::Map { addr, len, prot: 3, backing };
        let image =
            [map(Addr(0x1000), 0x1000, Backing::Anonymous), map(Addr(0x8000), 0x4000, Backing::Stack)];
        AddressSpace::fresh(Addr(0x5800), &image)
    }

    #[test]
    fn the_heap_changes_by_whole_pages() {
        let mut space = fresh();
        assert_eq!(space.move_brk(Addr(0x5fff)), HeapChange::None);
        assert_eq!(space.move_brk(Addr(0x6001)), HeapChange::Grown(Addr(0x6000)..Addr(0x7000)));
        assert_eq!(space.move_brk(Addr(0x7000)), HeapChange::None);
        assert_eq!(space.move_brk(Addr(0x5001)), HeapChange::Shrunk(Addr(0x6000)..Addr(0x7000)));
    }

    #[test]
    fn what_grows_has_the_highest_floor_that_holds_it() {
        let mut space = fresh();
        assert_eq!(space.stack(), Addr::range(0x8000..0xc000));
        assert_eq!(space.growth_floor(Addr(0xb000)), Some(Addr(0x8000)));
        assert_eq!(space.growth_floor(Addr(0xc000)), None);
        space.add_growing(Addr(0x2000)..Addr(0x4000));
        space.add_growing(Addr(0x3000)..Addr(0x4000));
        assert_eq!(space.growth_floor(Addr(0x3000)), Some(Addr(0x3000)));
        space.rooms_of_stacks_mut().next().unwrap().start = Addr(0xa000);
        assert_eq!(space.growth_floor(Addr(0x9000)), None);
        space.forget_growing(&Addr::range(0x2000..0x3000));
        assert_eq!(space.growth_floor(Addr(0x3000)), Some(Addr(0x3000)));
        space.forget_growing(&Addr::range(0x3800..0x4000));
        assert_eq!(space.growth_floor(Addr(0x3000)), None);
    }

    #[test]
    fn a_child_has_all_that_its_parent_has_and_changes_only_its_own() {
        let mut parent = fresh();
        parent.set_dumpable(false);
        parent.interrupt_at(Addr(0x1234));
        parent.leave_stack(Addr(0x9000));
        parent.leave_stack(Addr(0x9000));
        let object = ObjectId(7);
        parent.shared_mut().add(SharedRange {
            start: Addr(0x10_0000),
            end: Addr(0x20_0000),
            object,
            offset: 0,
        });
        let (key, kept) = ((1, 2), FileId(3));
        let view = View {
            start: Addr(0x5000),
            end: Addr(0x6000),
            key,
            offset: 0,
            len: 1,
            kept,
            kept_len: 1,
            changed: true,
        };
        parent.views_mut().add([view]);
        parent.patches_mut().guards.insert(Addr(0x40_0000));
        parent.clock_mut().closed = true;
        let mut child = parent.for_child([Addr(0xb000)]);
        assert!(child.patches().is_guard(Addr(0x40_0000), PAGE, GUARDED) && child.clock().closed);
        child.patches_mut().forget_patches(Addr::NULL, Addr::MAX);
        assert!(parent.patches().is_guard(Addr(0x40_0000), PAGE, GUARDED));
        assert!(!child.is_dumpable() && child.is_interrupted_in(Addr(0x1234)..Addr(0x1235)));
        assert!(!child.is_interrupted_in(Addr(0x1235)..Addr(0x2000)));
        assert_eq!(child.old_stacks(), [0x9000, 0xb000].map(Addr));
        assert_eq!(child.views().parts(Addr(0), Addr(u64::MAX)), [view]);
        assert_eq!(child.shared().objects(), [object]);
        child.shared_mut().take_all();
        child.views_mut().cut(Addr(0), Addr(u64::MAX));
        child.leave_stack(Addr(0x8800));
        assert!(parent.shared().maps(object) && parent.views().has(key));
        assert_eq!(parent.old_stacks(), [Addr(0x9000)]);
    }
}
