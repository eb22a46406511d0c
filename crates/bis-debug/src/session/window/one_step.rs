//! How a replica makes one step, and a window remembers it.

use bis_replay::{Limit, Stop};
use bis_trace::{
    event::{Event, EventKind, SignalPoint},
    types::{Addr, Signal},
};

use super::{
    super::{
        Session,
        goal::Goal,
        live::Live,
        report::{Trouble, unexpected},
    },
    steps::{Name, Part, Step, Window},
};

/// Steps between two copies in a window.
const COPY_EVERY: usize = 400;

/// The most steps that a window has.
const WINDOW_MAX: usize = 100_000;

/// Does the task of such an event execute the instruction at which it stands before?
fn executes(kind: &EventKind) -> bool {
    match kind {
        EventKind::Syscall { .. } | EventKind::SyscallEnter { .. } | EventKind::Instruction { .. } => true,
        EventKind::Signal(signal) => {
            matches!(signal.point, SignalPoint::Fault | SignalPoint::BeforeSyscall)
        }
        _ => false,
    }
}

/// A signal takes effect behind an instruction, which is done where its task is at its place: a call of a
/// hook, or the `int3` that has raised it.
fn is_behind(event: &Event) -> bool {
    let EventKind::Signal(signal) = &event.kind else { return false };
    match signal.point {
        SignalPoint::AfterHook => !signal.is_of_text(),
        SignalPoint::Fault => signal.signal == Signal::TRAP && !signal.is_of_text(),
        _ => false,
    }
}

/// How far a replica goes for one step.
pub(super) fn one_step(live: &mut Live<'_>) -> Result<Limit<'static>, Trouble> {
    let signals = live.replica.next_event()?.is_some_and(is_behind);
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
        if goal.pass_legs(live)? {
            return Ok(Stepped::There);
        }
        let Some((next, replica)) = live.replica.next_event_and_self()? else { return Ok(Stepped::There) };
        let (tid, part) = (next.tid, Part::of(next, replica));
        let executes = executes(&next.kind);
        let (event, _) = live.replica.done();
        let rip = live.replica.registers(tid).map_or(Addr::NULL, |registers| registers.ip());
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
        let before = there.filter(|(event, _)| is_behind(event)).map(|(event, _)| event.seq);
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
