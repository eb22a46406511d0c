//! What a search finds, and when it is given up.

use std::fmt;

use bis_trace::types::Tid;

use super::super::{
    place::Position,
    report::{Report, Why},
    searched::Wanted,
};

/// What a search has found: where, and what it is.
#[derive(Clone)]
pub(in crate::session) struct Hit {
    pub position: Position,
    pub(super) report: Report,
    /// What else is to be said.
    pub(super) note: Option<String>,
}

impl Hit {
    pub(super) fn new(position: Position, tid: Tid, why: Why) -> Hit {
        Hit { position, report: Report { tid, why }, note: None }
    }
}

/// What the last search has found on its way, up to where the user stands now: a search on for the same need
/// not look again.
pub(in crate::session) struct Hits {
    pub(super) wanted: Wanted,
    pub(super) hits: Vec<Hit>,
}

impl Hits {
    /// Is the last of them at this position?
    pub(in crate::session) fn end_at(&self, position: &Position) -> bool {
        self.hits.last().is_some_and(|hit| hit.position == *position)
    }
}

/// When a search is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::session) enum Patience {
    Endless,
    /// When much is found.
    FewHits,
    /// When much is found, or when much is looked at in vain.
    Few,
    /// As `Few`, or when the first event is far.
    Short,
}

/// What has come of a search.
pub(in crate::session) enum Found {
    Hit(Hit),
    Nothing,
    /// It was given up: much has happened, the last with a task at this address.
    TooMuch(u64),
    /// It was given up: there is no event for long.
    TooLong,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Hit(hit) => write!(f, "{} ({:?})", hit.position, hit.report.why),
            Found::Nothing => f.write_str("nothing"),
            Found::TooMuch(addr) => write!(f, "much, at {addr:#x}"),
            Found::TooLong => f.write_str("a long computation"),
        }
    }
}
