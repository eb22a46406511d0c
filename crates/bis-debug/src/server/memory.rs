//! What a server remembers for its client: places that it has been at, and those that the user keeps.

use std::collections::BTreeMap;

use bis_trace::types::{DomainId, Tid};

use crate::session::{libraries::Libraries, place::Position};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Places that the user keeps: their numbers, and notes.
    pub kept: Vec<(u64, Spot, String)>,
    /// Those of them that were made by themselves.
    pub automatic: Vec<u64>,
    pub next: u64,
    /// Where the program has been, as the user saw it.
    pub seen: Vec<Spot>,
    /// Which of those is now.
    pub now: usize,
    /// Where the next resume goes.
    pub target: Option<Target>,
    /// Where the program went by itself after a `vRun`: the resume that follows is for nothing.
    pub has_just_run: bool,
    /// The `vRun` to come is that of `starti`, behind which the client says that the program stands there,
    /// and does not resume it before its user asks for that.
    pub begins_stopped: bool,
    /// The last one was.
    pub has_begun_stopped: bool,
    /// What the client has been told of libraries: where each is, by its path. It keeps those of the same
    /// name as they are.
    pub told_libraries: BTreeMap<String, u64>,
    /// The libraries where the last jump has led.
    pub listed: Listed,
    /// A step back has led over an exec. gdb, where nothing catches that, goes on backwards by itself, and
    /// not by a step.
    pub has_crossed_exec: bool,
    /// Where the user was, and which task stopped there, while the client looks for an answer to show.
    pub search: Option<(Position, Tid)>,
    /// The client speaks of another process now.
    pub is_elsewhere: bool,
}

impl Memory {
    /// Is any of these elsewhere than the client has been told?
    pub fn has_moved(&self, libraries: &Libraries) -> bool {
        let told = &self.told_libraries;
        libraries.libraries.iter().any(|it| told.get(&it.path).is_some_and(|bias| *bias != it.bias))
    }
}

/// The libraries at one place, as somebody sees them who comes from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Listed {
    #[default]
    Same,
    /// Others, but for some that are where they were.
    Others,
    /// One of the same name is somewhere else.
    Moved,
}

/// A place, and the domain whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub domain: DomainId,
    pub position: Position,
}

/// Where the program is to go.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub spot: Spot,
    /// What the user is told there.
    pub note: Option<String>,
    /// It is the one of those in `Memory::seen`.
    pub seen: Option<usize>,
}
