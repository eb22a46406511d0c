//! Letting a replica run: toward a position, leg by leg, with stops in between for whoever wants them, or up
//! to something else.

use std::collections::BTreeSet;

use bis_replay::{Ahead, Halt, Limit, Piece, Stop};
use bis_trace::types::EventSeq;

use super::{
    Session, Trouble,
    events::is_step,
    goal::Goal,
    live::Live,
    place::{Leg, Position},
    points::WATCHES_MAX,
    processes::owner,
    report::{no_way, unexpected},
};

/// How long it may take to get to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allowance {
    Endless,
    UntilAlarm,
}

impl<'t> Session<'t> {
    /// How far a replica goes that is to go to this position, as far as that is known.
    pub(super) fn ahead(&self, live: &Live<'_>, end: &Position) -> Ahead {
        let is_in_front = live.replica.done().0 == end.event && self.inner.has(end);
        if is_in_front { Ahead::Place } else { Ahead::Event }
    }

    /// The name of a position that marks lead to.
    pub(super) fn name_of(&mut self, position: &Position) -> Position {
        let name = self.history.name(position);
        self.inner.same(position, &name);
        name
    }

    /// Lets a replica that stands behind an event, and is not behind a position, run there.
    pub(super) fn run_to(&mut self, live: &mut Live<'t>, position: &Position) -> Result<(), Trouble> {
        self.run_from(live, &Position::at(live.replica.done().0), position, Allowance::Endless).map(drop)
    }

    /// Lets a replica that stands at a position know that it does, as if it had come there.
    pub(super) fn run_there(&mut self, live: &mut Live<'t>, position: &Position) -> Result<(), Trouble> {
        self.run_from(live, position, position, Allowance::Endless).map(drop)
    }

    /// Lets a replica that stands at a place, which leads to a position, run there. False: it is not there
    /// when the alarm rings.
    pub(super) fn run_from(
        &mut self,
        live: &mut Live<'t>,
        place: &Position,
        position: &Position,
        allowance: Allowance,
    ) -> Result<bool, Trouble> {
        if (position.event > live.replica.done().0 || position.legs.is_empty())
            && !self.run_to_event(live, position.event, allowance)?
        {
            return Ok(false);
        }
        if position.legs.is_empty() {
            return Ok(true);
        }
        if live.replica.done().0 != position.event {
            return Err(self.not_ours(position.event));
        }
        let is_on_the_way = place.event == position.event;
        let counts = if is_on_the_way { live.counts() } else { BTreeSet::new() };
        live.replica.set_points_and_counts(&position.arrivals(), &counts)?;
        let event = Position::at(position.event);
        let place = if is_on_the_way { place } else { &event };
        let Some(mut goal) = Goal::from(position, live, place) else { return Err(no_way(position)) };
        while let Some(stop) = self.toward(live, &mut goal, &[], &Limit::default())? {
            match stop {
                Stop::End | Stop::Cut => {
                    let what = format!("there is no place {position}: the process ends in front of it");
                    return Err(Trouble::Halt(Halt::Cut(what)));
                }
                Stop::Interrupted if allowance == Allowance::UntilAlarm => return Ok(false),
                _ => {}
            }
        }
        live.replica.set_watches(&[])?;
        Ok(true)
    }

    /// A place that begins with an event of another process.
    fn not_ours(&self, event: EventSeq) -> Trouble {
        let pid = self.pid();
        let whose = owner(self.world, event).map_or_else(
            || "of no process of the recording".into(),
            |owner| format!("of process {owner}: `process {owner}` goes to that"),
        );
        Trouble::Halt(Halt::Cut(format!("event {event} is not one of process {pid}, but {whose}")))
    }

    fn run_to_event(
        &mut self,
        live: &mut Live<'t>,
        event: EventSeq,
        allowance: Allowance,
    ) -> Result<bool, Trouble> {
        if live.replica.done().0 >= event {
            return Ok(true);
        }
        live.replica.set_points(&BTreeSet::new())?;
        live.replica.set_watches(&[])?;
        let limit = Limit { event: Some(event), end: true, ..Limit::default() };
        loop {
            match self.run_a_while(live, &limit)? {
                // Events that come behind it may be none of the program's own; and where its last task ends,
                // there it stays.
                Stop::Event(_) | Stop::Before(_) | Stop::Cut => return Ok(true),
                Stop::Interrupted if allowance == Allowance::UntilAlarm => return Ok(false),
                Stop::Interrupted => {}
                stop => return Err(unexpected(&stop)),
            }
        }
    }

    /// Lets a replica go on toward a position, up to its next stop. None: it is there. The points that the
    /// position counts are in it; `watches` are those that the caller wants to hear of, and `wanted` is what
    /// else stops the replica.
    pub(super) fn toward(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        watches: &[Piece],
        wanted: &Limit<'_>,
    ) -> Result<Option<Stop>, Trouble> {
        if goal.pass_legs(live)? {
            live.replica.end_counts()?;
            self.inner.note_place(live, goal.position);
            return Ok(None);
        }
        let is_near = goal.is_near(live)?;
        let leg = goal.leg().filter(|_| is_near).cloned();
        if let Some(Leg::Back { .. }) = leg {
            return Err(no_way(goal.position));
        }
        match &leg {
            Some(Leg::Trigger { watches: own, .. }) => live.replica.set_watches(&together(own, watches))?,
            _ => live.replica.set_watches(watches)?,
        }
        let next = live.replica.next_event_and_self()?;
        let next = next.map(|(event, replica)| (event.tid, is_step(event, replica)));
        let is_stepping =
            matches!(leg, Some(Leg::Step { tid, .. }) if next.is_some_and(|(next, _)| next == tid));
        let ahead = self.ahead(live, goal.position);
        if is_stepping || wanted.step {
            live.replica.end_counts()?;
        } else {
            goal.ask_for_counts(live, leg.as_ref(), is_near, ahead)?;
        }
        let interrupt = self.stopper.interrupt.clone();
        let limit = Limit {
            event: Some(goal.position.event).filter(|_| !is_near),
            before: match leg {
                Some(Leg::Before(event)) => Some(event),
                _ => wanted.before,
            },
            step: wanted.step || is_stepping,
            each_event: wanted.each_event || is_near,
            interrupt: Some(&interrupt),
            ahead,
            ..*wanted
        };
        let stop = self.advance(live, &limit)?;
        if let Stop::Watched(..) = stop {
            live.replica.leave_counts()?;
        }
        if stop == Stop::Interrupted {
            interrupt.take();
            if self.stopper.take() {
                return Err(Trouble::Asked);
            }
        }
        if is_near {
            let is_step = is_stepping
                && match stop {
                    Stop::Stepped(_) | Stop::Watched(..) => true,
                    Stop::Event(_) => next.is_some_and(|(_, is_step)| is_step),
                    _ => false,
                };
            goal.stopped(live, &stop, is_step);
        } else if let Stop::End | Stop::Cut = stop {
            goal.stopped(live, &stop, false);
        }
        Ok(Some(stop))
    }

    /// Lets it run to something else than an alarm.
    pub(super) fn run_until(&mut self, live: &mut Live<'t>, limit: &Limit<'_>) -> Result<Stop, Trouble> {
        loop {
            let stop = self.run_a_while(live, limit)?;
            if stop != Stop::Interrupted {
                return Ok(stop);
            }
        }
    }

    /// Lets it run to something else, or up to an alarm.
    pub(super) fn run_a_while(&mut self, live: &mut Live<'t>, limit: &Limit<'_>) -> Result<Stop, Trouble> {
        let interrupt = self.stopper.interrupt.clone();
        let stop = self.advance(live, &Limit { interrupt: Some(&interrupt), ..*limit })?;
        if stop == Stop::Interrupted {
            interrupt.take();
            if self.stopper.take() {
                return Err(Trouble::Asked);
            }
        }
        Ok(stop)
    }
}

/// The watches of a leg, and behind them those that the caller wants to hear of. Those for which there is no
/// debug register left are watched without one.
fn together(own: &[Piece], wanted: &[Piece]) -> Vec<Piece> {
    let others = wanted.iter().filter(|watch| !own.contains(watch));
    let mut room = WATCHES_MAX;
    let fitting = |piece: &Piece| {
        if let Piece::Register(_) = piece {
            match room.checked_sub(1) {
                Some(left) => room = left,
                None => return piece.without_register(),
            }
        }
        *piece
    };
    own.iter().chain(others).map(fitting).collect()
}
