//! Calls that would change memory which is not the program's: the agent's, and that of the trampolines. A
//! program that goes through all of its address space (to unmap it, to protect it) finds them like everything
//! else. Such a call is made for the parts around them; on them, it has no effect.

use std::ops::Range;

use bis_syscalls::Call;
use bis_trace::{
    event::Outcome,
    types::{Addr, PAGE, Registers, Tid},
};

use super::memory::{MADV_DONTNEED, MADV_FREE};
use crate::{calls::Entry, domain::Domain, error::Result, process::Process, space::without};

/// What such a call does to a range, or what it has done where it failed: its arguments, and what becomes of
/// the outcome.
pub(super) type OfRange = fn(&mut Domain, Tid, [u64; 6], &mut Outcome) -> Result<()>;

impl Domain {
    pub(super) fn enter_munmap(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let entry = self.enter_over_ours(tid, call, Domain::leave_munmap, |_, _, _, _| Ok(()))?;
        Ok(entry.unwrap_or(Entry::Make))
    }

    pub(super) fn enter_mprotect(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let entry = self.enter_over_ours(
            tid,
            call,
            |domain, tid, args, outcome| domain.tell_protected(tid, args, outcome),
            |domain, tid, args, outcome| domain.fail_mprotect(tid, args, outcome),
        )?;
        Ok(entry.unwrap_or(Entry::Make))
    }

    /// At the entry of munmap, mprotect or madvise: what to do if it concerns memory of ours; none if it does
    /// not.
    pub(super) fn enter_over_ours(
        &mut self,
        tid: Tid,
        call: &Call,
        done: OfRange,
        failed: OfRange,
    ) -> Result<Option<Entry>> {
        let Some((range, ours)) = self.touches_ours(call) else { return Ok(None) };
        let mut outcome = Outcome::default();
        let mut result = 0;
        for part in without(range, &ours) {
            let args = [part.start.0, part.end - part.start, call.args[2], 0, 0, 0];
            let made = self.call_for(tid, call.nr.cast_signed(), args)?;
            if made < 0 {
                failed(self, tid, args, &mut outcome)?;
                result = made;
                break;
            }
            done(self, tid, args, &mut outcome)?;
        }
        self.call(tid)?.found.add(outcome);
        Ok(Some(Entry::Done(result)))
    }

    /// MADV_FREE lets the kernel choose when pages become zero: MADV_DONTNEED makes them so at once, which is
    /// one of its legal behaviours.
    pub(super) fn enter_madvise(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let advised: OfRange = |domain, _, args, outcome| domain.advised(args, outcome);
        if let Some(entry) = self.enter_over_ours(tid, call, advised, |domain, tid, args, outcome| {
            domain.fail_advice(tid, args, outcome)
        })? {
            return Ok(entry);
        }
        if call.args[2] == MADV_FREE {
            let regs = self.stopped(tid)?.regs()?;
            let regs = Registers { rdx: MADV_DONTNEED, ..regs };
            self.stopped(tid)?.set_regs(&regs)?;
        }
        Ok(Entry::Make)
    }
}

impl Process {
    pub(super) fn enter_mremap(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let [.., new_len, flags, target, _] = call.args;
        let target = Addr(target);
        if flags & u64::from(libc::MREMAP_FIXED.cast_unsigned()) != 0 {
            let end = target.saturating_add(new_len);
            if self.ours().iter().any(|gap| gap.start < end && target < gap.end) {
                self.note_taken(tid, target, new_len)?;
                return Ok(Entry::Done(-i64::from(libc::ENOMEM)));
            }
        }
        let touched = self.touches_ours(call);
        Ok(if touched.is_some() { Entry::Done(-i64::from(libc::EFAULT)) } else { Entry::Make })
    }

    /// The range that the call's first two arguments say, and what is ours, if it is part of that.
    fn touches_ours(&self, call: &Call) -> Option<(Range<Addr>, Vec<Range<Addr>>)> {
        let [addr, len, ..] = call.args;
        let addr = Addr(addr);
        let end = addr.checked_add(len.checked_next_multiple_of(PAGE)?)?;
        let ours = self.ours();
        let touches = ours.iter().any(|gap| gap.start < end && addr < gap.end);
        // What the kernel refuses, it refuses by itself.
        (touches && addr.is_multiple_of(PAGE)).then_some((addr..end, ours))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_left_out() {
        assert_eq!(
            without(Addr::range(0..10), &[Addr::range(2..3), Addr::range(5..20)]),
            [Addr::range(0..2), Addr::range(3..5)]
        );
        assert_eq!(
            without(Addr::range(0..10), &[Addr::range(20..30), Addr::range(40..50)]),
            vec![Addr::range(0..10); 1]
        );
        assert!(without(Addr::range(3..5), &[Range { start: Addr(0), end: Addr(9) }]).is_empty());
    }
}
