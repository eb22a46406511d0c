//! Calls that would change memory which is not the program's: the agent's, and that of the trampolines. A program that
//! goes through all of its address space (to unmap it, to protect it) finds them like everything else. Such a call is
//! made for the parts around them; on them, it has no effect.

use bis_trace::types::PAGE;
use std::{iter::once, ops::Range};

use bis_agent::{
    AGENT_BASE, AGENT_LEN,
    hooks::{AREA_BASE, AREA_LEN},
};
use bis_syscalls::{Call, Handler};
use bis_trace::{event::Outcome, types::Tid};

use super::shown::without;
use crate::{call::Entry, domain::Domain, error::Result, space::ARENA_LEN};

impl Domain {
    /// The memory in the program's address space that is not the program's.
    pub(super) fn ours(&self) -> Vec<Range<u64>> {
        let scratch = self.space.scratch().ranges();
        if self.hooks.is_none() {
            return once(AGENT_BASE..AGENT_BASE + AGENT_LEN).chain(scratch).collect();
        }
        let patches = self.space.patches();
        let arenas = patches.arenas.iter().map(|arena| arena.start..arena.start + ARENA_LEN);
        let arenas = arenas.chain(patches.dense.ranges());
        once(AGENT_BASE..AREA_BASE + AREA_LEN).chain(arenas).chain(scratch).collect()
    }

    /// At the entry of munmap, mprotect, madvise or mremap: what to do if it concerns memory of ours; none if it does not.
    pub(super) fn enter_over_ours(
        &mut self,
        tid: Tid,
        handler: Handler,
        call: &Call,
    ) -> Result<Option<Entry>> {
        let [addr, len, third, flags, target, _] = call.args;
        if handler == Handler::Mremap && flags & libc::MREMAP_FIXED.cast_unsigned() as u64 != 0 {
            let end = target.saturating_add(third);
            if self.ours().iter().any(|gap| gap.start < end && target < gap.end) {
                self.note_taken(tid, target, third)?;
                return Ok(Some(Entry::Done(-i64::from(libc::ENOMEM))));
            }
        }
        let Some(end) = len.checked_next_multiple_of(PAGE).and_then(|len| addr.checked_add(len)) else {
            return Ok(None);
        };
        let ours = self.ours();
        // What the kernel refuses, it refuses by itself.
        let touches = ours.iter().any(|gap| gap.start < end && addr < gap.end);
        if !touches || !addr.is_multiple_of(PAGE) {
            return Ok(None);
        }
        if handler == Handler::Mremap {
            return Ok(Some(Entry::Done(-i64::from(libc::EFAULT))));
        }
        let mut outcome = Outcome::default();
        let mut result = 0;
        for part in without(addr..end, &ours) {
            let args = [part.start, part.end - part.start, third, 0, 0, 0];
            let made = self.call_for(tid, call.nr.cast_signed(), args)?;
            if made < 0 {
                self.leave_failed(tid, handler, args, &mut outcome)?;
                result = made;
                break;
            }
            match handler {
                Handler::Munmap => self.leave_munmap(args, &mut outcome)?,
                Handler::Mprotect => self.leave_mprotect(tid, args, &mut outcome)?,
                _ => self.leave_advice(args, &mut outcome)?,
            }
        }
        let state = self.call(tid)?;
        state.effects.append(&mut outcome.effects);
        state.writes.append(&mut outcome.writes);
        if let Some(ours) = outcome.ours {
            state.ours.get_or_insert_default().append(*ours);
        }
        Ok(Some(Entry::Done(result)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_left_out() {
        assert_eq!(without(0..10, &[2..3, 5..20]), [0..2, 3..5]);
        assert_eq!(without(0..10, &[20..30, 40..50]), vec![0..10; 1]);
        assert!(without(3..5, &[Range { start: 0, end: 9 }]).is_empty());
    }
}
