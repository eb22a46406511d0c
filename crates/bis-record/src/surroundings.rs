//! What a task's memory holds at a pause, further around than registers and the next instructions lead
//! (`look_around` in `pause.rs` sees to those).
//!
//! A loop's state may be a counter in a page that nothing points to. No list of what to look at would find it, but it
//! has one property: it changes. So a copy is kept of a good part of what the program can write, and words that are
//! not what they were at the last pause are kept with the place, for replay to compare first; of all the rest, a sum.
//! This is not all of memory: what a pause may cost is limited, and large mappings are seen near registers only.

use bis_trace::{
    event::{MemWrite, RangeSum},
    types::{Registers, Tid},
};
use bis_tracee::{checksum, maps, maps::Mapping};
use xxhash_rust::xxh3::xxh3_64;

use crate::{domain::Domain, error::Result};

/// How much is looked at, bytes; and how much of a mapping that is larger than that of its own: around each register.
const TOTAL_MAX: u64 = 1 << 20;
const WHOLE_MAX: u64 = 256 << 10;
const AROUND: u64 = 4096;

/// Changed words that are kept with a place.
const WORDS_MAX: usize = 48;
const WORD: usize = 8;

const PAGE: u64 = 4096;

/// More than the bytes that replay's breakpoint takes the place of, if they are in memory that can be written.
const PATCH_LEN: u64 = 64;

/// Copies of memory: address, content, in order.
#[derive(Debug, Default)]
pub struct Surroundings(Vec<(u64, Vec<u8>)>);

impl Surroundings {
    /// Has anything been looked at?
    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// As a place has them: xxh3 of the bytes.
    pub fn sums(&self) -> impl Iterator<Item = RangeSum> + '_ {
        self.0.iter().map(|(addr, data)| RangeSum { addr: *addr, len: data.len() as u64, sum: xxh3_64(data) })
    }

    /// Words that are here and were not there, spread over all that are.
    fn changed_since(&self, before: &Surroundings) -> Vec<MemWrite> {
        let mut changed = Vec::new();
        for (addr, data) in &self.0 {
            for (before_addr, before) in &before.0 {
                let start = *addr.max(before_addr);
                let end = (addr + data.len() as u64).min(before_addr + before.len() as u64);
                if start >= end {
                    continue;
                }
                let part = |from: u64, bytes: &'_ [u8]| -> (usize, usize) {
                    let at = usize::try_from(start - from).unwrap_or(bytes.len());
                    (at, at + usize::try_from(end - start).unwrap_or(0))
                };
                let (now, then) = (part(*addr, data), part(*before_addr, before));
                let (now, then) = (data.get(now.0..now.1), before.get(then.0..then.1));
                let words = now
                    .unwrap_or_default()
                    .chunks_exact(WORD)
                    .zip(then.unwrap_or_default().chunks_exact(WORD));
                let differ = (0..).zip(words).filter(|(_, (now, then))| now != then);
                changed.extend(differ.map(|(index, (now, _)): (u64, _)| MemWrite {
                    addr: start + index * WORD as u64,
                    data: now.to_vec(),
                }));
            }
        }
        let step = changed.len().div_ceil(WORDS_MAX).max(1);
        changed.into_iter().step_by(step).collect()
    }
}

impl Domain {
    /// Looks at the memory of a stopped task: which words have changed since the last look.
    pub fn look_wide(&mut self, tid: Tid) -> Result<Vec<MemWrite>> {
        let regs = self.stopped(tid)?.regs()?;
        let mut stacks = self.stack_pointers();
        stacks.extend(&self.old_stacks);
        let ranges = ranges(&maps::read(tid)?, &stacks, &regs);
        let read = |(addr, len): (u64, u64)| {
            let data = self.memory.read_upto(addr, usize::try_from(len).unwrap_or(0));
            (!data.is_empty()).then_some((addr, data))
        };
        let now = Surroundings(ranges.into_iter().filter_map(read).collect());
        let changed = now.changed_since(&self.surroundings);
        self.surroundings = now;
        Ok(changed)
    }
}

/// What to look at, in order: (address, length).
fn ranges(mappings: &[Mapping], stacks: &[u64], regs: &Registers) -> Vec<(u64, u64)> {
    let mut private: Vec<(u64, u64)> = Vec::new();
    for mapping in mappings.iter().filter(|m| checksum::is_summed(m) && !m.shared) {
        // As in checksums: what lies below a stack pointer does not all repeat.
        let within = stacks.iter().filter(|rsp| mapping.start <= **rsp && **rsp < mapping.end);
        let start = within.map(|rsp| rsp.next_multiple_of(PAGE)).max().unwrap_or(mapping.start);
        if start < mapping.end {
            private.push((start, mapping.end));
        }
    }
    let (mut whole, large): (Vec<_>, Vec<_>) =
        private.into_iter().partition(|(start, end)| end - start <= WHOLE_MAX);
    let words = regs.words();
    for (start, end) in large {
        for word in words.iter().filter(|word| (start..end).contains(word)) {
            let from = (word & !(PAGE - 1)).saturating_sub(AROUND).max(start);
            whole.push((from, (from + 3 * AROUND).min(end)));
        }
    }
    whole.sort_unstable_by_key(|(start, end)| (end - start, *start));
    whole.dedup();
    let patched = regs.rip..regs.rip.saturating_add(PATCH_LEN);
    let mut left = TOTAL_MAX;
    let mut chosen = Vec::new();
    for (start, end) in whole {
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
