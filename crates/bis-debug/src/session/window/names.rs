//! How a place in a window is named: by its number from the window's end, and exactly, by how it is gone to.

use std::{collections::BTreeSet, sync::Arc};

use bis_replay::{Ahead, Halt, Limit, ReplayError, Stop};
use bis_trace::types::{Addr, EventSeq};

use super::{
    super::{
        Session, Trouble,
        goal::Goal,
        live::Live,
        place::{Leg, Position},
    },
    steps::{Name, Part, Step, Window},
};

/// Steps that are cheaper to make anew than it is to stop at each of many arrivals.
const COUNTED_WITHIN: usize = 200;

impl Window<'_> {
    /// Where the arrivals of an interval are counted from, up to a place in the window.
    fn base(&self, event: EventSeq) -> Position {
        if self.from.position.event == event { self.from.position.clone() } else { Position::at(event) }
    }

    /// The name of the place before a step, if the window ends some steps behind something else, whatever
    /// that is, and the place is among those steps: fewer of them.
    fn name_by_steps(&self, index: usize) -> Option<Position> {
        let step = self.steps.get(index)?;
        let [prefix @ .., Leg::Step { tid, n }] = self.end.legs.as_slice() else { return None };
        let later = self.steps.get(index..)?;
        let is_here = |other: &Step| other.event == self.end.event && other.tid == step.tid;
        if *tid != step.tid || !later.iter().all(is_here) {
            return None;
        }
        let back = later.iter().filter(|step| step.part == Part::All).count() as u64;
        let left = n.checked_sub(back)?;
        let begin = Position { event: self.end.event, legs: prefix.to_vec() };
        Some(if left == 0 { begin } else { begin.then(Leg::Step { tid: *tid, n: left }) })
    }

    /// The name of the place before a step, if it is in the interval in which the window ends, with an
    /// arrival and some steps behind it: so many steps behind that arrival, or an earlier one at the same
    /// address. `end`: the window's end, or, if that is behind a pause, the pause's place.
    fn name_by_arrival(&self, index: usize, end: &Position) -> Option<Position> {
        let step = self.steps.get(index)?;
        let (addr, last, prefix, behind) = match end.legs.as_slice() {
            [prefix @ .., Leg::Arrive { addr, n }] => (*addr, *n, prefix, 0),
            [prefix @ .., Leg::Arrive { addr, n }, Leg::Step { tid, n: behind }] if *tid == step.tid => {
                (*addr, *n, prefix, *behind)
            }
            _ => return None,
        };
        let is_here = |other: &Step| other.event == end.event && other.tid == step.tid;
        let prefix = Position { event: end.event, legs: prefix.to_vec() };
        let name = |n: u64, steps: u64| {
            let arrival = prefix.then(Leg::Arrive { addr, n });
            if steps == 0 { arrival } else { arrival.then(Leg::Step { tid: step.tid, n: steps }) }
        };
        let steps = |steps: &[Step]| steps.iter().filter(|step| step.part == Part::All).count() as u64;
        if !self.steps[index..].iter().all(is_here) {
            return None;
        }
        if let Some(steps) = behind.checked_sub(steps(&self.steps[index..])) {
            return Some(name(last, steps));
        }
        // The place of the arrival that the end is named by.
        let mut left = behind;
        let mut at = self.steps.len();
        while left > 0 {
            at = at.checked_sub(1)?;
            left -= u64::from(self.steps[at].part == Part::All);
        }
        let is_arrival = |step: &&Step| step.rip == addr && step.name == Name::Arrival;
        if behind > 0 && !self.steps.get(at).is_some_and(|step| is_arrival(&step)) {
            return None;
        }
        let begin = self.steps[..=index].iter().rposition(|step| is_arrival(&step))?;
        let later = &self.steps[begin..at];
        if !later.iter().all(is_here) {
            return None;
        }
        let n = last.checked_sub(later.iter().filter(is_arrival).count() as u64).filter(|n| *n > 0)?;
        Some(name(n, steps(&self.steps[begin..index])))
    }

    /// The last step up to this one whose arrivals the program can count by itself, and how many steps of the
    /// same task lead from there to this one. None: there is none near.
    fn counted_before(
        &self,
        index: usize,
        live: &mut Live<'_>,
        end: &Position,
        ahead: Ahead,
    ) -> Result<Option<(usize, u64)>, Trouble> {
        // By these the way to the window's end is counted.
        let beside = end.arrivals();
        let Some(wanted) = self.steps.get(index) else { return Ok(None) };
        let is_here = |step: &Step| step.event == wanted.event && step.tid == wanted.tid;
        let before = self.steps[..=index].iter().enumerate().rev().take(COUNTED_WITHIN);
        let mut steps = 0;
        for (begin, step) in before.take_while(|(_, step)| is_here(step)) {
            steps += u64::from(begin < index && step.part == Part::All);
            let addr = step.rip;
            let is_arrival = step.name == Name::Arrival;
            if is_arrival && live.replica.can_count(addr, &beside, ahead)? {
                return Ok(Some((begin, steps)));
            }
        }
        Ok(None)
    }
}

impl<'t> Session<'t> {
    /// The position of a step of the window. Its exact name takes a run, and is found when it is needed.
    pub(super) fn window_position(&self, index: usize) -> Position {
        let Some(window) = &self.window else { return self.position.clone() };
        let Some(step) = window.steps.get(index) else { return window.end.clone() };
        match step.name {
            Name::Event => return Position::at(step.event),
            Name::Before(seq) => return Position::at(step.event).then(Leg::Before(seq)),
            Name::Arrival | Name::None => {}
        }
        let n = (window.steps.len() - index) as u64;
        Position { event: step.event, legs: vec![Leg::Back { n, of: Arc::new(window.end.clone()) }] }
    }

    /// A position that says how it is reached by going forward alone: one that was found by steps back is
    /// given the number of the arrival.
    pub(in crate::session) fn exact(&mut self, position: &Position) -> Result<Position, Trouble> {
        let Some(Leg::Back { n, of }) = position.legs.first() else {
            if self.position == *position {
                self.inner.note_place(&self.live, position);
            }
            return Ok(position.clone());
        };
        let of = self.exact(of)?;
        if self.window.as_ref().is_none_or(|window| window.end != of) {
            self.in_window = None;
            self.window = self.make_window_of(&of, *n)?;
        }
        let Some(window) = &self.window else { return Err(unknown()) };
        let back = usize::try_from(*n).unwrap_or(usize::MAX);
        let Some(index) = window.steps.len().checked_sub(back) else { return Err(unknown()) };
        let Some(step) = window.steps.get(index).copied() else { return Err(unknown()) };
        let pause = self.inner.pause(window.end.event).flatten().filter(|_| window.end.legs.is_empty());
        let end = pause.unwrap_or(&window.end);
        let mut exact = match step.name {
            Name::Event => Position::at(step.event),
            Name::Before(seq) => Position::at(step.event).then(Leg::Before(seq)),
            Name::None => return Err(unknown()),
            Name::Arrival if let Some(near) = window.name_by_steps(index) => near,
            Name::Arrival if let Some(near) = window.name_by_arrival(index, end) => near,
            Name::Arrival => {
                let base = window.base(step.event);
                let mut live = self.travel_exactly(&base)?;
                let Some(window) = &self.window else { return Err(unknown()) };
                let name = self.history.name(&of);
                let ahead = self.ahead(&live, &name);
                let counted = window.counted_before(index, &mut live, &name, ahead)?;
                let (begin, steps) = counted.unwrap_or((index, 0));
                let Some(begin) = window.steps.get(begin..) else { return Err(unknown()) };
                let addr = begin.first().map_or(step.rip, |step| step.rip);
                let is_same = |other: &&Step| {
                    other.event == step.event && other.rip == addr && other.name == Name::Arrival
                };
                let later = begin.iter().filter(is_same).count() as u64;
                let total = self.arrivals_between(live, &base, addr, &of)?;
                let arrival = match (total + 1).checked_sub(later) {
                    None => return Err(unknown()),
                    // The first of them is the one that has given the mark its name.
                    Some(0) if matches!(base.legs.last(), Some(Leg::Arrive { addr: own, .. }) if *own == addr) => {
                        base
                    }
                    Some(0) => return Err(unknown()),
                    Some(n) => base.then(Leg::Arrive { addr, n }),
                };
                if steps == 0 { arrival } else { arrival.then(Leg::Step { tid: step.tid, n: steps }) }
            }
        };
        for leg in position.legs.iter().skip(1) {
            exact = exact.then(leg.clone());
        }
        if self.position == *position {
            self.inner.note_place(&self.live, &exact);
            self.position = exact.clone();
        }
        if let Some((known, _)) = self.in_window.as_mut().filter(|(known, _)| known == position) {
            *known = exact.clone();
        }
        Ok(exact)
    }

    /// How often tasks arrive at an address behind this place, where a replica stands, up to the next event;
    /// or in front of this position, if that is in the same interval.
    pub(in crate::session) fn arrivals_between(
        &mut self,
        mut live: Live<'t>,
        base: &Position,
        addr: Addr,
        end: &Position,
    ) -> Result<u64, Trouble> {
        let name = self.name_of(end);
        // Its newest name may not go on from there.
        let end = if name.done_at(base).is_some() { &name } else { end };
        // Behind a pause, it is the pause's place up to which is counted.
        let place = self.inner.pause(end.event).flatten().filter(|_| end.legs.is_empty()).cloned();
        let place = place.filter(|place| place.event == base.event && place.done_at(base).is_some());
        let end = place.as_ref().unwrap_or(end);
        let is_inside = end.event == base.event;
        let mut points = if is_inside { end.arrivals() } else { BTreeSet::new() };
        points.insert(addr);
        live.replica.set_points_and_counts(&points, &live.counts())?;
        live.replica.set_watches(&[])?;
        let first = live.replica.traps().arrivals(addr);
        if !is_inside {
            live.replica.count_arrivals(addr, None, Ahead::Event)?;
            loop {
                match self.run_until(&mut live, &Limit { each_event: true, ..Limit::default() })? {
                    Stop::Point(..) => {}
                    _ => return Ok(live.replica.traps().arrivals_before(addr) - first),
                }
            }
        }
        let Some(mut goal) = Goal::from(end, &live, base) else { return Err(unknown()) };
        // Steps on the way end all counts.
        let (is_own, mut is_asked) = (end.arrivals().contains(&addr), false);
        loop {
            let is_reached = goal.pass_legs(&mut live)?;
            let can_be = !is_own && !is_reached && !goal.is_stepping();
            if can_be && !is_asked {
                live.replica.count_arrivals(addr, None, self.ahead(&live, end))?;
            }
            is_asked = can_be;
            if self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_none() {
                break;
            }
        }
        // The arrival that ends the way is not in front of it.
        let next = live.replica.next_event()?.map(|event| event.tid);
        let is_at = |tid| live.replica.registers(tid).is_ok_and(|registers| registers.rip == addr.0);
        let ends_here = next.is_some_and(|tid| is_at(tid) && live.replica.is_counted(tid));
        Ok(live.replica.traps().arrivals(addr) - first - u64::from(ends_here))
    }
}

pub(super) fn unknown() -> Trouble {
    let what = "a position is known only by what came behind it, and that is forgotten";
    Trouble::Halt(Halt::Failed(ReplayError::Machine(what.into())))
}
