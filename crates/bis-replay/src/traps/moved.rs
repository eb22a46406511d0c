//! Breakpoints on text that gives way to a jump which searches or counts: they go along into the copies of
//! its instructions.

use std::ops::Range;

use bis_trace::types::Addr;
use bis_tracee::{Memory, TraceeError};

use super::Traps;

impl Traps {
    /// Can all breakpoints in this text, which is to give way to a search's jump, go along into these copies
    /// of its instructions? False: one is on the first of them, or on none.
    pub(crate) fn can_move(&self, text: Range<Addr>, copies: &[(u64, u64)]) -> bool {
        let has_copy = |at: &Addr| copies.iter().skip(1).any(|(original, _)| *original == at.0);
        self.points.range(text).all(|(at, _)| has_copy(at))
    }

    /// Takes away the breakpoints on these instructions, and on those that have given way to a search's jump.
    pub(crate) fn lift_moved(&mut self, memory: &Memory, copies: &[(u64, u64)]) -> Result<(), TraceeError> {
        let of_copies = copies.iter().skip(1).map(|(original, _)| Addr(*original));
        let all: Vec<Addr> = self.moved.iter().map(|(original, _)| *original).chain(of_copies).collect();
        all.into_iter().try_for_each(|at| self.lift(memory, at))
    }

    /// These instructions have given way to a search's jump and are executed as copies, but for the first,
    /// whose address is the jump's own; without copies, none is any more. Breakpoints on them, which were
    /// lifted, are put to where they are executed.
    pub(crate) fn put_moved(&mut self, memory: &Memory, copies: &[(u64, u64)]) {
        let old = std::mem::take(&mut self.moved);
        self.moved = copies.iter().skip(1).map(|(original, copy)| (Addr(*original), Addr(*copy))).collect();
        let new = self.moved.clone();
        for at in old.iter().chain(&new).map(|(original, _)| *original) {
            let executed = self.copy_of(at).unwrap_or(at);
            if let Some(point) = self.points.get_mut(&at) {
                point.at = executed;
                self.put_back(memory, at);
            }
        }
    }

    /// Where the instruction at an address is executed that has given way to a jump which counts or searches,
    /// and is not the first to have given way to that.
    pub(crate) fn copy_of(&self, addr: Addr) -> Option<Addr> {
        let moved = self.moved.iter().find(|(original, _)| *original == addr).map(|(_, copy)| *copy);
        moved.or_else(|| self.counted.iter().find_map(|counted| counted.inside(addr.0)).map(Addr))
    }

    /// The program's own place for one among the copies of what has given way to a jump that counts or
    /// searches.
    pub(crate) fn original_of(&self, rip: Addr) -> Option<Addr> {
        let moved = self.moved.iter().find(|(_, copy)| *copy == rip).map(|(original, _)| *original);
        moved.or_else(|| self.counted.iter().find_map(|counted| counted.original(rip)).map(Addr))
    }
}
