//! Checksums of a task's memory that do not depend on which pages the kernel happens to have allocated: a
//! zero page counts like a page that is not there.

use bis_agent::OURS;
use bis_trace::{
    event::RangeSum,
    types::{Addr, PAGE, PAGE_LEN, Tid, prot},
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::{
    error::{Result, TraceeError},
    maps::{self, Extent, Mapping},
    memory::Memory,
    pagemap::{Page, PageMap},
    xsave,
};

/// Pages looked at in one go.
const BATCH: usize = 256;

/// The checksum of `len` bytes from `addr`, both multiples of the page size; see [`RangeSum::sum`]. Pages
/// that cannot be read count as zero. (Recorders before November 2026 had ranges that ended or began within a
/// page, and what was summed then went on to the end of a page's length: their traces are summed as they
/// were.) Reads the task's mappings: a caller that has them already calls [`sum_mapped`].
///
/// # Errors
/// Where the task is gone.
pub fn sum_range(tid: Tid, memory: &Memory, addr: Addr, len: u64) -> Result<RangeSum> {
    sum_mapped(tid, memory, &maps::read(tid)?, addr, len)
}

/// Like [`sum_range`], with the task's mappings as they are now.
///
/// # Errors
/// Where the task is gone.
pub fn sum_mapped(tid: Tid, memory: &Memory, mappings: &[Mapping], addr: Addr, len: u64) -> Result<RangeSum> {
    sum(tid, Sum { memory, is_stack: false, value: 0, data: Vec::new() }, mappings, addr, len)
}

/// Like [`sum_mapped`], of a stack: the words count as zero that say which vector registers the processor
/// took to be in use when the dynamic linker kept them ([`xsave::is_mask`]). Such a word can outlive all else
/// that would tell of it, in the frame of a later call that has not written there, and is another one in
/// replay.
///
/// # Errors
/// Where the task is gone.
pub fn sum_stack(tid: Tid, memory: &Memory, mappings: &[Mapping], addr: Addr, len: u64) -> Result<RangeSum> {
    sum(tid, Sum { memory, is_stack: true, value: 0, data: Vec::new() }, mappings, addr, len)
}

/// The xxh3-64 of these ranges (address, length) in a row, in pieces; never 0. `read`: as much as can be read
/// of memory. What cannot be read is left out.
pub fn sum_in_a_row(read: impl Fn(Addr, usize) -> Vec<u8>, ranges: &[(Addr, u64)]) -> u64 {
    const PIECE: u64 = 256 << 10;
    let mut hash = Xxh3::new();
    for (addr, len) in ranges {
        let mut done = 0;
        while done < *len {
            let piece = PIECE.min(len - done);
            let data = read(addr.wrapping_add(done), usize::try_from(piece).unwrap_or(0));
            hash.update(&data);
            if (data.len() as u64) < piece {
                break;
            }
            done += piece;
        }
    }
    hash.digest().max(1)
}

fn sum(tid: Tid, mut sum: Sum<'_>, mappings: &[Mapping], addr: Addr, len: u64) -> Result<RangeSum> {
    let os = |source| TraceeError::Os { what: "read the page map", tid, source };
    let pagemap = PageMap::open(tid).map_err(os)?;
    let end = addr.saturating_add(len);
    for mapping in mappings.iter().filter(|m| m.start < end && addr < m.end) {
        let (start, end) = (mapping.start.max(addr), mapping.end.min(end));
        // Whether a page of a file, or of memory that others share, is present says nothing about its
        // content: the kernel maps such pages when it likes.
        let sparse = mapping.inode == 0;
        if sparse {
            let end = start + (end - start).next_multiple_of(PAGE);
            let there = |from, to| sum.add_all(from, to);
            pagemap.each_run(start, end, Page::is_there, there).map_err(os)?;
        } else {
            sum.add_all(start, end);
        }
    }
    Ok(RangeSum { addr, len, sum: sum.value, is_stack: sum.is_stack })
}

struct Sum<'a> {
    memory: &'a Memory,
    is_stack: bool,
    value: u64,
    data: Vec<u8>,
}

impl Sum<'_> {
    /// Adds the pages that these addresses lie in.
    fn add_all(&mut self, start: Addr, end: Addr) {
        for base in Addr::steps(start..end, PAGE_LEN * BATCH) {
            let count = usize::try_from((end - base).div_ceil(PAGE_LEN as u64)).unwrap_or(BATCH);
            self.add(base, count.min(BATCH));
        }
    }

    /// Adds at most [`BATCH`] pages from `addr`.
    fn add(&mut self, addr: Addr, count: usize) {
        if count == 0 {
            return;
        }
        if self.data.len() < count * PAGE_LEN {
            self.data.resize(count * PAGE_LEN, 0);
        }
        let bytes = &mut self.data[..count * PAGE_LEN];
        if self.memory.read(addr, bytes).is_ok() {
            for (index, content) in bytes.chunks_exact_mut(PAGE_LEN).enumerate() {
                if self.is_stack {
                    clear_masks(content);
                }
                if content.iter().any(|byte| *byte != 0) {
                    let seed = addr + (index * PAGE_LEN) as u64;
                    self.value = self.value.wrapping_add(xxh3_64_with_seed(content, seed.0));
                }
            }
        } else if count > 1 {
            // A page of it cannot be read (it lies beyond the end of its file, or is a guard): the others
            // can.
            for page in 0..count {
                self.add(addr + (page * PAGE_LEN) as u64, 1);
            }
        }
    }
}

/// Makes the words of a page zero that are masks of vector registers, or small numbers in such a place.
fn clear_masks(page: &mut [u8]) {
    for (at, word) in (0..).step_by(8).zip(page.chunks_exact_mut(8)).step_by(xsave::WORDS_APART) {
        if xsave::is_mask(at, u64::from_le_bytes(std::array::from_fn(|i| word[i]))) {
            word.fill(0);
        }
    }
}

/// Is this a mapping of a file, private, that the program can read and not change?
pub fn is_constant(mapping: &Mapping) -> bool {
    let ours = mapping.start >= Addr(OURS.start) && mapping.end <= Addr(OURS.end);
    mapping.prot & (prot::READ | prot::WRITE) == prot::READ && !mapping.shared && mapping.inode != 0 && !ours
}

/// Is this a mapping whose content the program can change, so that it belongs into a checksum? Bis's own
/// memory does not.
pub fn is_summed(Extent { range, prot, .. }: &Extent) -> bool {
    let ours = range.start >= Addr(OURS.start) && range.end <= Addr(OURS.end);
    prot & prot::WRITE != 0 && !ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours;

    /// The sums, as of a stack and as of other memory, of a page with these words (number, value).
    fn sums(words: &[(usize, u64)]) -> [u64; 2] {
        let mut room = vec![0u64; 2 * PAGE_LEN / 8];
        let skip = room.as_ptr().align_offset(PAGE_LEN);
        words.iter().for_each(|(at, word)| room[skip + at] = *word);
        let (tid, addr) = (ours::process_id(), Addr(room[skip..].as_ptr().addr() as u64));
        let (memory, mappings) = (Memory::open(tid).unwrap(), maps::read(tid).unwrap());
        let sum = |sum: fn(Tid, &Memory, &[Mapping], Addr, u64) -> Result<RangeSum>| {
            sum(tid, &memory, &mappings, addr, PAGE_LEN as u64).unwrap()
        };
        let (stack, other) = (sum(sum_stack), sum(sum_mapped));
        assert!(stack.is_stack && !other.is_stack);
        // What the page's address adds to it is not the same each time.
        let of = |content: &[u64]| {
            let bytes: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
            xxh3_64_with_seed(&bytes, addr.0)
        };
        let content = &room[skip..skip + PAGE_LEN / 8];
        assert_eq!(other.sum, if content.iter().all(|word| *word == 0) { 0 } else { of(content) });
        [stack.sum, other.sum]
    }

    #[test]
    fn only_of_stacks_small_words_at_the_places_of_masks_are_left_out() {
        for at in [0, 8, 504] {
            let [stack, other] = sums(&[(at, 0xa2)]);
            assert!(stack == 0 && other != 0, "word {at}");
        }
        for (at, word) in [(1, 0xa2), (8, 0x100), (15, 1)] {
            let [stack, other] = sums(&[(at, word)]);
            assert!(stack == other && stack != 0, "word {at}: {word:#x}");
        }
    }
}
