//! From where the program comes to places: what is known of it, for a step back that needs no window.

use std::collections::BTreeMap;

use bis_trace::types::Addr;

use super::super::place::Position;

/// So many addresses are remembered, and then none.
const ADDRESSES_MAX: usize = 256;

/// From where the program came to addresses.
#[derive(Debug, Default)]
pub(in crate::session) struct Known {
    pub(super) before: BTreeMap<Addr, Addr>,
    pub(super) last: Option<OneStep>,
}

/// Of two places, the first is one instruction in front of the second.
#[derive(Debug)]
pub(super) struct OneStep {
    pub(super) from: Position,
    pub(super) addr: Addr,
    pub(super) to: Position,
}

impl Known {
    /// The program came to an address from this instruction.
    pub(super) fn learn(&mut self, to: Addr, from: Addr) {
        if self.before.len() >= ADDRESSES_MAX {
            self.before.clear();
        }
        self.before.insert(to, from);
    }

    /// The address of the place `from`, if it is known to be one instruction in front of `to`.
    pub(super) fn step_between(&self, from: &Position, to: &Position) -> Option<Addr> {
        let step = self.last.as_ref()?;
        (step.from == *from && step.to == *to).then_some(step.addr)
    }
}
