//! The place of a pause as an arrival.
//!
//! A pause is found by its state: a search looks at the task each time that it comes to the place. In a loop
//! of a few bytes that is in the way of whatever would count the loop's rounds, and without a count a way to
//! somewhere shortly before the pause has a stop in each of a million rounds. So the program counts its
//! arrivals at the place itself, and stops at each that has some of the registers of the pause: that is the
//! very one, or one of few. From then on the place has a name to which no search leads
//! ([`super::super::inner`]).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bis_replay::{Ahead, Limit, Predicate, Stop, Test};
use bis_trace::{
    event::{Event, EventKind, PausePlace},
    types::{Addr, EventSeq, Registers},
};

use super::super::{
    Session, Trouble,
    history::Mark,
    live::Live,
    place::{Leg, Position},
};

/// How many registers are compared: for each there are steps of a condition, of which there is room for 64.
const COMPARED_MAX: usize = 8;

/// For how long the arrivals are counted: nobody looks for the pause meanwhile, so nothing else would end it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it may have come to another place that looks like it.
const TRIES_MAX: usize = 64;

/// The place and the registers of the event that comes next, if it is this one and a pause that is found by
/// its state.
fn next_pause(next: Option<&Event>, wanted: EventSeq) -> Option<(Addr, Registers)> {
    match next {
        Some(Event { seq, kind: EventKind::Pause(pause), .. })
            if *seq == wanted && pause.place == PausePlace::State =>
        {
            Some((pause.regs.ip(), pause.regs))
        }
        _ => None,
    }
}

/// Have the registers these values, which they have not now? None: all of them have.
fn condition(now: &Registers, wanted: &Registers) -> Option<Predicate> {
    /// The steps for each register.
    const STEPS: usize = 6;
    let values = (0..).zip(now.general().into_iter().zip(wanted.general()));
    let differ = values.filter(|(_, (now, wanted))| now != wanted).take(COMPARED_MAX);
    let differ: Vec<(u8, u64)> = differ.map(|(register, (_, wanted))| (register, wanted)).collect();
    if differ.is_empty() {
        return None;
    }
    let compared = differ.iter().enumerate().flat_map(|(at, (register, wanted))| {
        let next = (at + 1) * STEPS;
        [
            Test::Register(*register),
            Test::Constant(*wanted),
            Test::Equal,
            Test::GoIf(next),
            Test::Constant(0),
            Test::End,
        ]
    });
    Predicate::new(compared.chain([Test::Constant(1), Test::End]).collect())
}

impl<'t> Session<'t> {
    /// The same place as this position, which is behind a pause, by a way from the event before that. None:
    /// it is not behind a pause, or the arrivals at it cannot be counted. The mark is in front of it.
    pub(in crate::session) fn place_of_pause(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
    ) -> Result<Option<Position>, Trouble> {
        if let Some(known) = self.inner.pause(end.event) {
            return Ok(known.cloned());
        }
        let place = self.look_for_pause(from, end)?;
        if place.is_none() {
            tracing::debug!(from = %from.position, %end, "no place of a pause");
        }
        self.inner.note_pause(end.event, place.clone());
        Ok(place)
    }

    fn look_for_pause(&mut self, from: &Mark<'t>, end: &Position) -> Result<Option<Position>, Trouble> {
        let mut live = self.at_event_of(from)?;
        live.replica.set_points(&BTreeSet::new())?;
        live.replica.set_watches(&[])?;
        let before = EventSeq(end.event.0.saturating_sub(1));
        if live.replica.done().0 < before {
            let limit = Limit { event: Some(before), ..Limit::default() };
            if !matches!(self.run_until(&mut live, &limit)?, Stop::Event(_)) {
                return Ok(None);
            }
        }
        let event = live.replica.next_event()?;
        let Some((addr, wanted)) = next_pause(event, end.event) else { return Ok(None) };
        let Some(tid) = event.map(|event| event.tid) else { return Ok(None) };
        let Ok(now) = live.replica.registers(tid) else { return Ok(None) };
        let Some(condition) = condition(&now, &wanted) else { return Ok(None) };
        live.replica.set_points(&BTreeSet::from([addr]))?;
        if !live.replica.count_where(addr, &condition, Ahead::Place)? {
            return Ok(None);
        }
        let n = self.arrivals_to_pause(&mut live, addr, end.event);
        self.alarm.clear();
        self.stopper.interrupt.take();
        let Some(n) = n? else { return Ok(None) };
        let place = Position::at(live.replica.done().0).then(Leg::Arrive { addr, n });
        tracing::debug!(%place, %end, "a pause");
        self.inner.note_place(&live, &place);
        Ok(Some(place))
    }

    /// How many arrivals there are at the address of a pause, which comes next, up to the pause itself; the
    /// program counts them, and stops where it may be there.
    fn arrivals_to_pause(
        &mut self,
        live: &mut Live<'t>,
        addr: Addr,
        pause: EventSeq,
    ) -> Result<Option<u64>, Trouble> {
        let limit = Limit { ahead: Ahead::Place, each_event: true, ..Limit::default() };
        let begun = Instant::now();
        for _ in 0..TRIES_MAX {
            // An alarm that rings while a copy is asked is over then.
            let left = PATIENCE.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            self.alarm.set(left);
            match self.run_a_while(live, &limit) {
                Ok(Stop::Point(_, at)) if at == addr => {}
                // Whatever it is, the way with a search is left.
                Ok(_) | Err(Trouble::Halt(_)) => return Ok(None),
                Err(trouble) => return Err(trouble),
            }
            // Is all else as it was, too? Then a copy is there before it has gone a step.
            let Some(mut copy) = live.replica.checkpoint(&mut live.company)? else { return Ok(None) };
            let (replica, company) = copy.resume()?;
            let mut copy = Live::new(replica, company, live.image);
            copy.replica.end_counts()?;
            let step = Limit { before: Some(pause), step: true, ..Limit::default() };
            if self.run_until(&mut copy, &step)? == Stop::Before(pause) {
                return Ok(Some(live.replica.traps().arrivals(addr)));
            }
        }
        Ok(None)
    }

    /// A replica at the event behind which a mark is.
    fn at_event_of(&mut self, mark: &Mark<'t>) -> Result<Live<'t>, Trouble> {
        if mark.position.legs.is_empty() {
            return Ok(mark.resume()?);
        }
        self.travel_exactly(&Position::at(mark.position.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_compared_if_anything_does() {
        let now = Registers { rcx: 1, r15: 5, ..Registers::default() };
        assert_eq!(condition(&now, &now), None);
        let wanted = Registers { rcx: 7, r15: 9, ..now };
        let block = |register, value, next| {
            [
                Test::Register(register),
                Test::Constant(value),
                Test::Equal,
                Test::GoIf(next),
                Test::Constant(0),
                Test::End,
            ]
        };
        let steps = [block(1, 7, 6), block(15, 9, 12)].concat();
        let steps = steps.into_iter().chain([Test::Constant(1), Test::End]).collect();
        assert_eq!(condition(&now, &wanted), Predicate::new(steps));
    }

    #[test]
    fn the_steps_for_all_registers_that_are_compared_find_room() {
        let mut wanted = Registers::default();
        (0..16).for_each(|number| *wanted.general_mut(number).unwrap() = 1);
        assert!(condition(&Registers::default(), &wanted).is_some());
    }
}
