//! Copies of a replica that were made on the way to a place, for the way to another place in front of that
//! (`climb/known.rs`).

use bis_trace::types::Tid;

use super::{
    place::{Leg, Position},
    rung::Rung,
};

/// So many are kept of a way, and so many ways.
const KEPT_MAX: usize = 16;
const WAYS_MAX: usize = 3;

/// Those of one way.
pub(super) struct Way<'t> {
    /// Where they lead to.
    pub end: Position,
    /// In the order of their places.
    pub rungs: Vec<Rung<'t>>,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Passed<'t> {
    /// The first began behind an event. Those that began at its copies follow, the latest last.
    pub ways: Vec<Way<'t>>,
}

impl<'t> Passed<'t> {
    /// Keeps the copies of a way, in the order of their places. `is_new`: it began at no copy of another way.
    pub(super) fn keep(&mut self, is_new: bool, end: Position, mut rungs: Vec<Rung<'t>>) {
        rungs.drain(..rungs.len().saturating_sub(KEPT_MAX));
        if rungs.is_empty() || !matches!(end.legs[..], [Leg::Arrive { .. }]) {
            return;
        }
        if is_new {
            self.ways.clear();
        } else if self.ways.len() >= WAYS_MAX {
            self.ways.remove(1);
        }
        self.ways.push(Way { end, rungs });
    }

    /// The processes of all copies.
    pub(super) fn pids(&self) -> Vec<Tid> {
        self.ways.iter().flat_map(|way| &way.rungs).map(|rung| rung.copy.pid()).collect()
    }
}
