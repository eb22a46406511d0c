//! The steps of a window, each by the place before it.

use std::collections::BTreeMap;

use bis_replay::{Checkpoint, Replica};
use bis_trace::{
    event::{Event, EventKind},
    types::{Addr, EventSeq, Tid},
};

use super::super::{events::is_step, history::Mark, place::Position};

/// Instructions in front of the user's place, each of which is remembered.
#[derive(Debug)]
pub(in crate::session) struct Window<'t> {
    /// Copies of the replica: the first at the window's begin, and then one every so many steps.
    pub(super) copies: Vec<(usize, Checkpoint<'t>, usize)>,
    pub(super) steps: Vec<Step>,
    /// The mark from which it was gone to.
    pub(super) from: Mark<'t>,
    /// Where it ends: the user's place when it was made.
    pub(super) end: Position,
}

impl<'t> Window<'t> {
    /// One in front of this position, without steps as yet, and without the copy with which it begins.
    pub(in crate::session) fn new(from: Mark<'t>, end: Position) -> Window<'t> {
        Window { copies: Vec::new(), steps: Vec::new(), from, end }
    }

    /// How many steps it has.
    pub(in crate::session) fn len(&self) -> usize {
        self.steps.len()
    }

    /// This window, with the copy of a replica that stands where it begins.
    pub(super) fn begin_at(mut self, copy: Checkpoint<'t>, image: usize) -> Window<'t> {
        // What is far from its end may have been forgotten: then there is another one.
        if self.copies.first().is_none_or(|(at, ..)| *at > 0) {
            self.copies.insert(0, (0, copy, image));
        }
        self
    }

    /// How often each address comes.
    pub(super) fn addresses(&self) -> BTreeMap<Addr, u64> {
        let mut seen = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.name == Name::Arrival) {
            *seen.entry(step.rip).or_default() += 1;
        }
        seen
    }

    /// On a busy machine the last copy may have been made too early. What is far from the end is not needed.
    pub(super) fn forget_half(&mut self) {
        let half = self.steps.len() / 2;
        let Some(first) = self.copies.iter().position(|(at, ..)| *at >= half) else { return };
        self.copies.drain(..first);
        let from = self.copies.first().map_or(0, |(at, ..)| *at);
        self.steps.drain(..from);
        self.copies.iter_mut().for_each(|(at, ..)| *at -= from);
    }
}

/// Where the replica stood before one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The last event that was done.
    pub(super) event: EventSeq,
    /// The task that made it.
    pub(super) tid: Tid,
    /// About to execute this.
    pub(super) rip: Addr,
    pub(super) name: Name,
    pub(super) part: Part,
}

/// What the place before a step is called by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    /// The event before: nothing has run since.
    Event,
    /// It is an arrival at its address.
    Arrival,
    /// The task of this event is at its place, to which a call of a hook or an `int3` has brought it.
    Before(EventSeq),
    /// Neither: the next event finds its task there, and has not yet been done.
    None,
}

/// What of an instruction a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Nothing of it: what else an event does.
    None,
    All,
    /// The entry of a system call, which ends with another step.
    Begin,
    /// The end of one.
    End,
}

impl Part {
    /// Of the step to this event, which comes next.
    pub(super) fn of(event: &Event, replica: &Replica<'_>) -> Part {
        match &event.kind {
            EventKind::SyscallEnter { .. } => Part::Begin,
            EventKind::SyscallExit { .. } => Part::End,
            _ if is_step(event, replica) => Part::All,
            _ => Part::None,
        }
    }
}
