//! The steps of a window, and how a replica makes one more.

use std::collections::BTreeMap;

use bis_replay::{Checkpoint, Limit, Stop};
use bis_trace::{
    event::{Event, EventKind, SignalPoint},
    types::{Addr, EventSeq, Tid},
};

use super::super::{
    Session,
    goal::Goal,
    history::Mark,
    live::Live,
    place::Position,
    report::{Trouble, unexpected},
    told::is_step,
};

/// Steps between two copies in a window.
const COPY_EVERY: usize = 400;

/// The most steps that a window has.
const WINDOW_MAX: usize = 100_000;

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

    /// The same, with the copy of a replica that stands where it begins.
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
            *seen.entry(Addr(step.rip)).or_default() += 1;
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
    pub(super) rip: u64,
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
    /// The task of this event is at its place, to which a call of a hook has brought it.
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
    pub(super) fn of(kind: &EventKind) -> Part {
        match kind {
            EventKind::SyscallEnter { .. } => Part::Begin,
            EventKind::SyscallExit { .. } => Part::End,
            kind if is_step(kind) => Part::All,
            _ => Part::None,
        }
    }
}

/// Does the task of such an event execute the instruction at which it stands before?
pub(super) fn executes(kind: &EventKind) -> bool {
    match kind {
        EventKind::Syscall { .. } | EventKind::SyscallEnter { .. } | EventKind::Instruction { .. } => true,
        EventKind::Signal(signal) => {
            matches!(signal.point, SignalPoint::Fault | SignalPoint::BeforeSyscall)
        }
        _ => false,
    }
}

/// A signal takes effect behind a call of a hook, which is an instruction by itself.
pub(super) fn is_behind_hook(event: &Event) -> bool {
    matches!(&event.kind, EventKind::Signal(signal) if signal.point == SignalPoint::AfterHook && !signal.is_of_text())
}

/// How far a replica goes for one step.
pub(super) fn one_step(live: &mut Live<'_>) -> Result<Limit<'static>, Trouble> {
    let signals = live.replica.next_event()?.is_some_and(is_behind_hook);
    Ok(Limit { step: true, each_event: true, signals, ..Limit::default() })
}

/// What has come of one step to a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::session) enum Stepped {
    Gone,
    /// The replica stands where it stood.
    Not,
    There,
}

impl<'t> Session<'t> {
    /// Goes one step to a position, and remembers it. The replica has the points that the position counts.
    pub(in crate::session) fn one_step_to(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        window: &mut Window<'t>,
    ) -> Result<Stepped, Trouble> {
        if goal.is_reached(live)? {
            return Ok(Stepped::There);
        }
        let Some(next) = live.replica.next_event()? else { return Ok(Stepped::There) };
        let (tid, part, executes) = (next.tid, Part::of(&next.kind), executes(&next.kind));
        let (event, _) = live.replica.done();
        let rip = live.replica.registers(tid).map_or(0, |registers| registers.rip);
        let is_standing = live.replica.is_standing(tid);
        let is_at_event = live.replica.is_at_event();
        let is_within = live.replica.is_within(tid);
        if window.steps.len() >= WINDOW_MAX {
            window.forget_half();
        }
        let count = window.steps.len();
        let is_copied = window.copies.last().is_some_and(|(at, ..)| *at == count);
        if count > 0
            && count.is_multiple_of(COPY_EVERY)
            && !is_copied
            && let Some(copy) = live.replica.checkpoint(&mut live.company)?
        {
            window.copies.push((count, copy, live.image));
        }
        let there = live.replica.underway().filter(|(_, is_there)| *is_there);
        let before = there.filter(|(event, _)| is_behind_hook(event)).map(|(event, _)| event.seq);
        let limit = one_step(live)?;
        let Some(stop) = self.toward(live, goal, &[], &limit)? else { return Ok(Stepped::There) };
        let (part, is_executed) = match &stop {
            Stop::Before(_) if limit.signals => (Part::All, true),
            Stop::Stepped(_) | Stop::Watched(..) => (Part::All, true),
            Stop::Event(_) => (part, executes),
            // It has not gone on, or is there.
            Stop::Point(..) | Stop::Before(_) | Stop::Interrupted => return Ok(Stepped::Not),
            Stop::End | Stop::Cut => return Ok(Stepped::There),
            stop => return Err(unexpected(stop)),
        };
        // The copy was made in the middle of an instruction: of that, this is the rest.
        let part = if is_within { Part::None } else { part };
        let name = match () {
            () if is_within => Name::None,
            () if before.is_some() => before.map_or(Name::None, Name::Before),
            () if is_at_event || is_standing => Name::Event,
            () if is_executed => Name::Arrival,
            () => Name::None,
        };
        window.steps.push(Step { event, tid, rip, name, part });
        Ok(Stepped::Gone)
    }
}
