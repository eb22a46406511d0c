//! Calls that failed after they had changed the address space: the kernel goes through a range mapping by
//! mapping, and stops at one that is not there, or that refuses. How far it came is not in the result; it is
//! in what the memory is now.

use std::ops::Range;

use bis_trace::{
    event::Outcome,
    types::{Addr, PAGE, Tid},
};
use bis_tracee::{
    image::USER_END,
    maps::{self, Mapping},
};

use super::memory::{
    ADVICES, MADV_DONTNEED, MADV_FREE, MAP_FIXED, MAP_FIXED_NOREPLACE, PROT_GROWSDOWN, page_up,
};
use crate::{calls::Exit, domain::Domain, error::Result, process::Process, space::without};

/// The parts of the range that are mapped, a part for each mapping.
fn mapped<'a>(
    mappings: &'a [Mapping],
    range: &'a Range<Addr>,
) -> impl Iterator<Item = (&'a Mapping, Range<Addr>)> {
    let part = |m: &Mapping| range.start.max(m.start)..range.end.min(m.end);
    mappings.iter().map(move |m| (m, part(m))).filter(|(_, part)| part.start < part.end)
}

/// The part of the range, from its start, that has this protection without a hole.
fn protected(mappings: &[Mapping], range: &Range<Addr>, prot: u32) -> Range<Addr> {
    let mut end = range.start;
    for (mapping, part) in mapped(mappings, range) {
        if part.start != end || mapping.prot != prot {
            break;
        }
        end = part.end;
    }
    range.start..end
}

fn range(addr: Addr, len: u64) -> Range<Addr> {
    addr..addr.saturating_add(page_up(len))
}

impl Domain {
    pub(super) fn fail_mmap(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let [addr, len, _, flags, ..] = it.args();
        if flags & MAP_FIXED == 0 || flags & MAP_FIXED_NOREPLACE != 0 {
            return Ok(());
        }
        self.tell_unmapped_in(it.tid, &range(Addr(addr), len), it.outcome)
    }

    /// The target is cleared, and the end of a source that is longer, before the move itself.
    pub(super) fn fail_mremap(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let [addr, len, new_len, flags, target, _] = it.args();
        if flags & u64::from(libc::MREMAP_FIXED.cast_unsigned()) == 0 {
            return Ok(());
        }
        self.tell_unmapped_in(it.tid, &range(Addr(addr), len), it.outcome)?;
        self.tell_unmapped_in(it.tid, &range(Addr(target), new_len), it.outcome)
    }

    /// What is not mapped (any more) in this range: the old mapping gives way before the new one is refused.
    /// Beyond [`USER_END`] nothing can have been. (With page tables of five levels there can; that a call has
    /// failed after it had unmapped something there is not seen.)
    fn tell_unmapped_in(&mut self, tid: Tid, range: &Range<Addr>, outcome: &mut Outcome) -> Result<()> {
        let range = &(range.start..range.end.min(Addr(USER_END)));
        if !range.start.is_multiple_of(PAGE) || range.is_empty() {
            return Ok(());
        }
        let mappings = maps::read(tid)?;
        // Below the stack nothing is mapped, and in replay all that it may grow to.
        let there = mapped(&mappings, range).map(|(_, part)| part).chain([self.space.stack()]);
        let there: Vec<Range<Addr>> = there.collect();
        for gap in without(range.clone(), &there) {
            self.tell_unmapped([gap.start.0, gap.end - gap.start, 0, 0, 0, 0], outcome)?;
        }
        Ok(())
    }
}

impl Process {
    /// An mprotect has failed.
    pub(super) fn fail_mprotect(&mut self, tid: Tid, args: [u64; 6], outcome: &mut Outcome) -> Result<()> {
        let [addr, len, asked, ..] = args;
        if !addr.is_multiple_of(PAGE) {
            return Ok(());
        }
        let done = protected(&maps::read(tid)?, &range(Addr(addr), len), self.prot_of(tid, asked));
        // What had this protection before has it still.
        let asked = asked & !PROT_GROWSDOWN;
        self.tell_protected(tid, [done.start.0, done.end - done.start, asked, 0, 0, 0], outcome)
    }

    pub(super) fn fail_madvise(&mut self, it: &mut Exit<'_>) -> Result<()> {
        // It may have been made with another advice (`enter_madvise`).
        it.outcome.regs.rdx = it.call.entry.regs().rdx;
        self.fail_advice(it.tid, it.args(), it.outcome)
    }

    /// Advice that the kernel has given to some of the mappings. It is given to each again, which changes
    /// nothing where it was given before; the kernel goes on behind a hole, and stops at a mapping that
    /// refuses.
    pub(super) fn fail_advice(&mut self, tid: Tid, args: [u64; 6], outcome: &mut Outcome) -> Result<()> {
        let [addr, len, advice, ..] = args;
        let advice = if advice == MADV_FREE { MADV_DONTNEED } else { advice };
        if !ADVICES.contains(&advice) || !addr.is_multiple_of(PAGE) {
            return Ok(());
        }
        let whole = range(Addr(addr), len);
        let mappings = maps::read(tid)?;
        for (_, part) in mapped(&mappings, &whole) {
            let args = [part.start.0, part.end - part.start, advice, 0, 0, 0];
            if self.call_for(tid, libc::SYS_madvise, args)? < 0 {
                break;
            }
            self.advised(args, outcome)?;
            self.tell_removed(tid, args);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, prot: u32) -> Mapping {
        Mapping {
            start: Addr(start),
            end: Addr(end),
            prot,
            shared: false,
            offset: 0,
            device: (0, 0),
            inode: 0,
            name: Vec::new(),
        }
    }

    #[test]
    fn a_failed_mprotect_has_come_to_the_first_hole_or_refusal() {
        let all = [mapping(1, 3, 1), mapping(3, 5, 1), mapping(5, 6, 3), mapping(7, 9, 1)];
        assert_eq!(protected(&all, &(Addr::range(2..9)), 1), Addr::range(2..5));
        assert_eq!(protected(&all[..2], &(Addr::range(2..9)), 1), Addr::range(2..5));
        assert_eq!(protected(&all, &(Addr::range(5..9)), 3), Addr::range(5..6));
        assert!(protected(&all, &(Addr::range(0..9)), 1).is_empty());
        assert!(protected(&all, &(Addr::range(5..9)), 1).is_empty());
    }
}
