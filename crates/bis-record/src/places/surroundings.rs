//! What a task's memory holds at a pause, further around than registers and the next instructions lead
//! (`nearby.rs` sees to those).
//!
//! A loop's state may be a counter in a page that nothing points to. No list of what to look at would find
//! it, but it has one property: it changes. So a copy is kept of a good part of what the program can write,
//! and words that are not what they were at the last pause are kept with the place, for replay to compare
//! first; of all the rest, a sum. This is not all of memory: what a pause may cost is limited, and large
//! mappings are seen near pointers only.

use std::ops::Range;

use bis_trace::{
    event::{MemWrite, RangeSum},
    types::{Addr, PAGE, PAGE_LEN, Registers, Tid},
};
use bis_tracee::{
    Glance, Memory, checksum,
    maps::Extent,
    pagemap::{Page, PageMap},
    xsave,
};
use xxhash_rust::xxh3::xxh3_64;

use super::{nearby::operands, written::PAGES_MAX};

/// How much is looked at, bytes: this, and the pages that are written to, which take no room from the rest.
/// Of a mapping larger than `WHOLE_MAX`, only pages near pointers are: so many of them, and so much more on
/// both sides of what a register points to.
const TOTAL_MAX: u64 = (1 << 20) + PAGES_MAX as u64 * PAGE;
const WHOLE_MAX: u64 = 256 << 10;
const NEAR_MAX: usize = 128;
const AROUND: u64 = 4096;

/// How much of the stack, and of what is pointed to, is searched for pointers, bytes.
const STACK_LEN: usize = 512;
const OBJECT_LEN: usize = 64;

/// How much of each stack is searched for saved vector registers, bytes.
const SAVED_LEN: usize = 16 << 10;

/// Changed words are kept with a place; those side by side together, up to so many bytes, and so many pieces
/// of all that have changed. After a call like printf much has; the one word that a loop changes must still
/// be among them.
const PIECE_LEN: usize = 64;
const PIECES_MAX: usize = 1024;
const LEFT_MAX: usize = 16;

/// Of so many tasks it is known what they had left below their stacks' ends.
const TASKS_MAX: usize = 16;
const WORD: usize = 8;

/// More than the bytes that replay's breakpoint takes the place of, if they are in memory that can be
/// written.
const PATCH_LEN: u64 = 64;

/// These mappings, but of shared ones that would be looked at whole only what the task has touched: the file
/// system would find room for all else that is read, and may not have it.
pub fn touched(tid: Tid, mappings: Vec<Extent>) -> Vec<Extent> {
    let mut pages = None;
    let mut touched = Vec::new();
    for mapping in mappings {
        let (start, end) = (mapping.range.start, mapping.range.end);
        if !mapping.shared || end - start > WHOLE_MAX {
            touched.push(mapping);
            continue;
        }
        let Ok(pages) = pages.get_or_insert_with(|| PageMap::open(tid)) else { continue };
        let found = |start, end| touched.push(Extent { range: start..end, ..mapping });
        if let Err(error) = pages.each_run(start, end, Page::is_there, found) {
            tracing::debug!(%error, "shared memory is not looked at");
        }
    }
    touched
}

/// Copies of memory: address, content, in order.
type Copies = Vec<(Addr, Vec<u8>)>;

/// What was looked at.
#[derive(Debug, Default)]
pub struct Surroundings {
    copies: Copies,
    /// What the task has left behind below the end of its stack, and what others had left there before.
    left: Copies,
    left_before: Copies,
    /// Where words were others than in the look before (address, length).
    changed: Vec<(Addr, u64)>,
}

impl Surroundings {
    /// Has anything been looked at?
    pub fn is_known(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Has what this task has left behind below its stack's end been looked at? Most of it, if it is not the
    /// same function any more.
    pub fn knows_left(&self, sp: Addr) -> bool {
        let is_near = |(addr, data): &(Addr, Vec<u8>)| {
            let len = data.len() as u64;
            (*addr..=*addr + len + len / 2).contains(&sp)
        };
        self.all_left().any(is_near)
    }

    /// Have this page, or these bytes (start, end), been looked at?
    pub fn covers(&self, (start, end): (Addr, Addr)) -> bool {
        let behind = self.copies.partition_point(|(addr, _)| *addr <= start);
        let at = behind.checked_sub(1).and_then(|at| self.copies.get(at));
        at.is_some_and(|(addr, data)| end <= *addr + data.len() as u64)
    }

    fn all_left(&self) -> impl Iterator<Item = &(Addr, Vec<u8>)> + Clone {
        self.left.iter().chain(&self.left_before)
    }

    /// Where the last look has found words that the one before had not.
    pub fn changed(&self) -> &[(Addr, u64)] {
        &self.changed
    }

    /// This is known beside: what other tasks had left behind then, the last ones, and what has `changed`
    /// since.
    pub fn remember(&mut self, before: Surroundings, changed: &[MemWrite]) {
        self.changed = changed.iter().map(|piece| (piece.addr, piece.data.len() as u64)).collect();
        let overlaps = |(addr, data): &(Addr, Vec<u8>)| {
            let is_over = |(other, its): &(Addr, Vec<u8>)| {
                *addr < *other + its.len() as u64 && *other < *addr + data.len() as u64
            };
            self.left.iter().any(is_over)
        };
        let all = before.left.into_iter().chain(before.left_before);
        self.left_before = all.filter(|copy| !overlaps(copy)).take(TASKS_MAX).collect();
    }

    /// As a place has them: xxh3 of the bytes.
    pub fn sums(&self) -> impl Iterator<Item = RangeSum> + '_ {
        self.copies.iter().chain(&self.left).map(|(addr, data)| RangeSum {
            addr: *addr,
            len: data.len() as u64,
            sum: xxh3_64(data),
            is_stack: false,
        })
    }

    /// Looks at the memory of a stopped task with these registers. Stacks end at `stacks`; of `mappings`,
    /// nothing changes but by the domain itself; what is `saved` of vector registers in what is looked at
    /// does not repeat. `left`: what lies below the stack's end, if that does (address, length). `written`:
    /// pages that are to be looked at first (start, end), as far as that may be.
    pub fn look(
        (memory, glance): (&Memory, Glance<'_>),
        regs: &Registers,
        stacks: &[Addr],
        saved: impl FnOnce(&[(Addr, u64)]) -> Vec<Range<Addr>>,
        mappings: &[Extent],
        left: Option<(Addr, u64)>,
        written: &[(Addr, Addr)],
    ) -> Surroundings {
        let writable = mappings.iter().filter(|m| checksum::is_summed(m)).filter_map(|mapping| {
            // As in checksums: what lies below a stack pointer does not all repeat.
            let range = &mapping.range;
            let within = stacks.iter().filter(|rsp| range.contains(*rsp));
            let start = within.map(|rsp| rsp.page_ceil()).max().unwrap_or(range.start);
            (start < range.end).then_some((start, range.end))
        });
        let (whole, large): (Vec<_>, Vec<_>) = writable.partition(|(start, end)| end - start <= WHOLE_MAX);
        let mut near = near(glance, regs, &large);
        let in_large =
            |page: &(Addr, Addr)| large.iter().any(|(start, end)| *start <= page.0 && page.1 <= *end);
        let mut first: Vec<_> = written.iter().copied().filter(in_large).collect();
        near.retain(|page| !first.contains(page));
        first.append(&mut near);
        let read = |(addr, len): (Addr, u64)| {
            let data = memory.read_upto(addr, usize::try_from(len).unwrap_or(0));
            (!data.is_empty()).then_some((addr, data))
        };
        let chosen = choose(whole, first, regs.ip());
        let saved = saved(&chosen);
        let chosen = xsave::leave_out(chosen, &saved);
        let [copies, left] =
            [chosen, left.into_iter().collect()].map(|all| all.into_iter().filter_map(read).collect());
        Surroundings { copies, left, ..Surroundings::default() }
    }

    /// What is here and was not there; of very much, pieces from everywhere. Not what was left behind.
    pub fn changed_since(&self, before: &Surroundings) -> Vec<MemWrite> {
        changed(&self.copies, before.copies.iter(), PIECES_MAX)
    }

    /// Is anything here that was not there?
    pub fn differs_from(&self, before: &Surroundings) -> bool {
        in_both(&self.copies, before.copies.iter())
            .any(|(_, now, then)| differing(now, then).next().is_some())
    }

    /// What was left behind and has changed: little of it, because hardly ever anything depends on it.
    pub fn left_since(&self, before: &Surroundings) -> Vec<MemWrite> {
        changed(&self.left, before.all_left(), LEFT_MAX)
    }
}

/// What is in these copies and was not in those before, in at most so many pieces.
fn changed<'a>(
    now: &'a Copies,
    before: impl Iterator<Item = &'a (Addr, Vec<u8>)> + Clone,
    most: usize,
) -> Vec<MemWrite> {
    let mut changed: Vec<MemWrite> = Vec::new();
    for (start, now, then) in in_both(now, before) {
        for at in differing(now, then) {
            let (addr, word) = (start + at as u64, &now[at..at + WORD]);
            match changed.last_mut() {
                Some(piece)
                    if piece.addr + piece.data.len() as u64 == addr && piece.data.len() < PIECE_LEN =>
                {
                    piece.data.extend(word);
                }
                _ => changed.push(MemWrite { addr, data: word.to_vec() }),
            }
        }
    }
    let step = changed.len().div_ceil(most).max(1);
    changed.into_iter().step_by(step).collect()
}

/// The memory that is in both: where each part begins, what it holds now, and what it held before.
fn in_both<'a>(
    now: &'a Copies,
    before: impl Iterator<Item = &'a (Addr, Vec<u8>)> + Clone,
) -> impl Iterator<Item = (Addr, &'a [u8], &'a [u8])> {
    let all = now.iter().flat_map(move |now| before.clone().map(move |before| (now, before)));
    all.filter_map(|((addr, now), (before_addr, before))| {
        let start = *addr.max(before_addr);
        let end = (addr + now.len() as u64).min(before_addr + before.len() as u64);
        let len = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
        let part = |from: Addr, bytes: &'a [u8]| {
            let at = usize::try_from(start - from).ok()?;
            bytes.get(at..at + len)
        };
        Some((start, part(*addr, now)?, part(*before_addr, before)?))
    })
}

/// Where the words begin that are not the same in these two. Most memory is: of a page at a time, that takes
/// a fraction of looking at each word.
fn differing<'a>(now: &'a [u8], then: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let pages = now.chunks(PAGE_LEN).zip(then.chunks(PAGE_LEN)).enumerate();
    pages.filter(|(_, (now, then))| now != then).flat_map(|(index, (now, then))| {
        let words = now.chunks_exact(WORD).zip(then.chunks_exact(WORD)).enumerate();
        let differ = words.filter(|(_, (now, then))| now != then);
        differ.map(move |(at, _)| index * PAGE_LEN + at * WORD)
    })
}

/// Those of the stacks that end here of which something may be saved in these ranges (address, length). Of a
/// hundred threads, hardly any stack is looked at.
pub fn stacks_within(mut stacks: Vec<Addr>, ranges: &[(Addr, u64)]) -> Vec<Addr> {
    // An area may begin a little below what is searched, and end behind it.
    const REACH: u64 = 2 * SAVED_LEN as u64;
    stacks.retain(|rsp| {
        let near = rsp.page_floor().saturating_sub(PAGE)..rsp.saturating_add(REACH);
        ranges.iter().any(|(addr, len)| *addr < near.end && near.start < addr.saturating_add(*len))
    });
    stacks
}

/// What tasks have saved of their vector registers on their stacks, which end here, and will not be the same
/// in replay.
pub fn saved_states(memory: &Memory, stacks: &[Addr], mappings: &[Extent]) -> Vec<Range<Addr>> {
    there(stacks, mappings).flat_map(|rsp| xsave::areas(memory, rsp, SAVED_LEN)).collect()
}

/// The words of those stacks that may be all that is left in sight of such a state. To look for a place, what
/// else there is is enough.
pub fn saved_masks(memory: &Memory, stacks: &[Addr], mappings: &[Extent]) -> Vec<Range<Addr>> {
    there(stacks, mappings).flat_map(|rsp| xsave::masks(memory, rsp, SAVED_LEN)).collect()
}

/// The stacks that are mapped where they end: a look at the page below one would make it grow.
fn there(stacks: &[Addr], mappings: &[Extent]) -> impl Iterator<Item = Addr> {
    let is_there = |rsp: &Addr| mappings.iter().any(|m| m.range.contains(rsp));
    stacks.iter().copied().filter(is_there)
}

/// Pages of large mappings that are near what registers point to, what the next instructions use, and what
/// the top of the stack, and then what all of it points to, point to.
fn near(glance: Glance<'_>, regs: &Registers, large: &[(Addr, Addr)]) -> Vec<(Addr, Addr)> {
    let mut pages: Vec<(Addr, Addr)> = Vec::new();
    let mut add = |words: &[Addr], around: u64| {
        for word in words {
            let Some((start, end)) = large.iter().find(|(start, end)| (*start..*end).contains(word)) else {
                continue;
            };
            let page = word.page_floor();
            let from = page.saturating_sub(around).max(*start);
            for page in Addr::steps(from..(page + PAGE + around).min(*end), PAGE_LEN) {
                if pages.len() < NEAR_MAX && !pages.contains(&(page, page + PAGE)) {
                    pages.push((page, page + PAGE));
                }
            }
        }
    };
    let words_at = |addr: Addr, len: usize| -> Vec<Addr> {
        let bytes = glance.read_upto(addr - addr.0 % 8, len);
        bytes
            .chunks_exact(WORD)
            .map(|word| Addr(u64::from_le_bytes(std::array::from_fn(|i| word[i]))))
            .collect()
    };
    let first = regs.words().map(Addr);
    add(&first, AROUND);
    add(&operands(glance, regs), 0);
    let stack = words_at(regs.sp(), STACK_LEN);
    add(&stack, 0);
    let pointers = first.iter().chain(&stack).filter(|word| (PAGE..1 << 47).contains(&word.0));
    let second: Vec<Addr> = pointers.flat_map(|word| words_at(*word, OBJECT_LEN)).collect();
    add(&second, 0);
    pages
}

/// What to look at, in order: (address, length); of mappings (start, end) as much as there may be.
fn choose(mut whole: Vec<(Addr, Addr)>, near: Vec<(Addr, Addr)>, rip: Addr) -> Vec<(Addr, u64)> {
    whole.sort_unstable_by_key(|(start, end)| (end - start, *start));
    let patched = rip..rip.saturating_add(PATCH_LEN);
    let mut left = TOTAL_MAX;
    let mut chosen = Vec::new();
    for (start, end) in near.into_iter().chain(whole) {
        // Around the place that replay's breakpoint is at.
        let parts = if end <= patched.start || patched.end <= start {
            [(start, end), (end, end)]
        } else {
            [(start, patched.start.max(start)), (patched.end.min(end), end)]
        };
        for (start, end) in parts.into_iter().filter(|(start, end)| start < end) {
            let Some(rest) = left.checked_sub(end - start) else { continue };
            left = rest;
            chosen.push((start, end - start));
        }
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(addr: u64, bytes: &[u8]) -> Surroundings {
        Surroundings { copies: vec![(Addr(addr), bytes.to_vec())], ..Surroundings::default() }
    }

    #[test]
    fn any_word_that_differs_is_found_and_none_that_is_in_one_of_the_two_alone() {
        let then = vec![7; 3 * PAGE_LEN];
        let is_seen = |at: usize, from: u64| {
            let mut now = then.clone();
            now[at] = 1;
            let (now, then) = (memory(from, &now), memory(0x10_000, &then));
            assert_eq!(now.differs_from(&then), !now.changed_since(&then).is_empty());
            now.differs_from(&then)
        };
        assert!([0, 4095, 4096, 3 * PAGE_LEN - 1].into_iter().all(|at| is_seen(at, 0x10_000)));
        assert!(!is_seen(0, 0xf000) && is_seen(4096, 0xf000), "its first page was not looked at before");
        assert!(!is_seen(3 * PAGE_LEN - 1, 0x11_000) && !is_seen(0, 0x20_000));
        assert!(!memory(0x10_000, &then).differs_from(&memory(0x10_000, &then)));
    }

    #[test]
    fn changed_words_that_lie_side_by_side_are_one_piece() {
        let then = vec![0; 4096];
        let mut now = then.clone();
        now[8] = 1;
        now[100..300].fill(2);
        let changed = memory(0x1000, &now).changed_since(&memory(0x1000, &then));
        let found: Vec<(u64, usize)> = changed.iter().map(|piece| (piece.addr.0, piece.data.len())).collect();
        // Whole words, in pieces of at most 64 bytes.
        assert_eq!(found, [(0x1008, 8), (0x1060, 64), (0x10a0, 64), (0x10e0, 64), (0x1120, 16)]);
        assert!(changed.iter().all(|piece| {
            let at = usize::try_from(piece.addr.0 - 0x1000).unwrap();
            piece.data == now[at..at + piece.data.len()]
        }));
    }

    #[test]
    fn of_what_moved_only_the_common_part_is_compared_and_of_very_much_only_pieces_are_kept() {
        let (then, now) = (vec![0; 0x10000], vec![1; 0x10000]);
        let changed = memory(0x1000, &now).changed_since(&memory(0x1ff0, &then));
        assert_eq!(changed[0].addr, Addr(0x1ff0));
        assert!(changed.len() <= PIECES_MAX && changed.len() > PIECES_MAX / 2, "{}", changed.len());
        assert!(changed.last().unwrap().addr > Addr(0xf000));
        assert_eq!(memory(0x1000, &now).changed_since(&memory(0x20000, &then)), []);
    }

    #[test]
    fn a_page_is_covered_by_one_copy_as_a_whole() {
        let copies = vec![(Addr(0x1000), vec![0; 0x2000]), (Addr(0x8000), vec![0; 0x800])];
        let known = Surroundings { copies, ..Surroundings::default() };
        let covers = |start| known.covers((Addr(start), Addr(start + 0x1000)));
        assert!(covers(0x1000) && covers(0x2000));
        assert!(!covers(0) && !covers(0x3000) && !covers(0x8000) && !covers(0x9000));
    }

    #[test]
    fn what_the_last_look_found_changed_is_remembered_until_the_next() {
        let (before, mut now, mut next) =
            (memory(0x1000, &[0; 64]), memory(0x1000, &[1; 64]), memory(0x1000, &[1; 64]));
        let changed = now.changed_since(&before);
        now.remember(before, &changed);
        assert_eq!(now.changed(), [(Addr(0x1000), 64)]);
        assert!(now.covers((Addr(0x1008), Addr(0x1010))) && !now.covers((Addr(0x1038), Addr(0x1048))));
        let changed = next.changed_since(&now);
        next.remember(now, &changed);
        assert_eq!(next.changed(), []);
    }

    #[test]
    fn what_other_tasks_had_left_behind_is_remembered() {
        let left = |addr: u64, byte: u8| Surroundings {
            left: vec![(Addr(addr), vec![byte; 64])],
            ..Surroundings::default()
        };
        let mut of_second = left(0x2000, 1);
        of_second.remember(left(0x1000, 1), &[]);
        assert!(of_second.knows_left(Addr(0x1040)) && of_second.knows_left(Addr(0x2040)));
        assert!(of_second.knows_left(Addr(0x2060)) && !of_second.knows_left(Addr(0x2061)));
        let mut of_first = left(0x1000, 2);
        assert_eq!(of_first.left_since(&of_second)[0].addr, Addr(0x1000));
        assert_eq!(left(0x3000, 2).left_since(&of_second), []);
        of_first.remember(of_second, &[]);
        assert_eq!(left(0x2000, 1).left_since(&of_first), []);
        assert_eq!(left(0x1000, 2).left_since(&of_first), [], "the newer one counts");
    }
}
