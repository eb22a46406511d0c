//! What a server remembers for its client: places that it has been at, and those that the user keeps.

use bis_trace::types::DomainId;

use crate::session::place::Position;

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
    /// The libraries where the last jump has led are others than where it began.
    pub has_other_libraries: bool,
    /// A step back has led over an exec. gdb, where nothing catches that, goes on backwards by itself, and
    /// not by a step.
    pub has_crossed_exec: bool,
    /// The client speaks of another process now.
    pub is_elsewhere: bool,
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
