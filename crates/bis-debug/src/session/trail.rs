//! Marks on the way of a user who goes forward through a long computation, where no event gives a place its
//! name.
//!
//! When the live replica has run for a while without an event, it stands somewhere. Some steps of a copy show
//! which instructions the program executes often, and the live replica begins again at the last mark: nothing
//! has stopped it since, so nothing is told twice. This time the program counts by itself how often it comes
//! to one of these instructions. Whenever a mark is due from then on, the next arrival there has a name.
//!
//! Where the user has been before there are marks ahead. Then what these are named by is counted, and the
//! replica stops at each of them for a moment: from there on places are named as they were the first time,
//! and what was found out then is known.

use std::{collections::BTreeSet, time::Duration};

use bis_replay::{Ahead, Limit};
use bis_trace::types::Addr;

use super::{
    Session, Trouble,
    goal::Goal,
    history::Mark,
    live::Live,
    place::{Leg, Position},
    way::{Trail, Way},
};

/// How long the program takes to count one arrival, nanoseconds: some 25 where it does nothing else.
const COUNT_NS: u64 = 20;

/// When a mark is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    Not,
    /// At the next event, if it comes soon.
    Event,
    /// At the next breakpoint or event, if one comes soon.
    Stop,
}

impl<'t> Session<'t> {
    /// The alarm has rung, and no mark could be made: what is waited for from now on.
    pub(super) fn next_due(&mut self, due: Due, way: &mut Way) -> Result<Due, Trouble> {
        let (event, _) = self.live.replica.done();
        if way.trail.as_ref().is_some_and(|trail| trail.event != event) {
            self.leave_trail(way)?;
        }
        let may_begin_again = way.was_stopped_in != Some(event) && way.given_up != Some(event);
        match (due, &way.trail) {
            (Due::Not, Some(Trail { ahead: Some(_), .. })) => return Ok(Due::Not),
            (Due::Not, None) => return Ok(Due::Event),
            (Due::Event | Due::Stop, _) if may_begin_again => {
                if !self.begin_trail(way)? {
                    way.given_up = Some(event);
                }
                return Ok(Due::Not);
            }
            (Due::Stop, _) => {
                self.count_trail(way)?;
                return Ok(Due::Not);
            }
            (Due::Not | Due::Event, _) => {}
        }
        // The next arrival at what was counted.
        self.live.replica.end_counts()?;
        way.forget_falses();
        Ok(Due::Stop)
    }

    /// The live replica has come to a breakpoint that is none for the user now, or to what is counted for
    /// marks. True: it was for a mark.
    pub(super) fn mark_at_point(
        &mut self,
        way: &mut Way,
        addr: Addr,
        due: &mut Due,
    ) -> Result<bool, Trouble> {
        let (event, _) = self.live.replica.done();
        let Some(trail) = way.trail.as_ref().filter(|trail| trail.addr == addr) else {
            self.mark_at_stop(way, way.at_point(&self.live, addr), due)?;
            return Ok(false);
        };
        if trail.event != event {
            self.leave_trail(way)?;
            return Ok(true);
        }
        let arrivals = self.live.replica.traps().arrivals(addr);
        if let Some((position, n)) = trail.ahead.clone() {
            if arrivals == n {
                tracing::debug!(%position, "at a mark that was made before");
                self.live.replica.end_counts()?;
                self.go_on_from(way, position);
                self.count_trail(way)?;
            }
        } else if *due == Due::Stop && self.slows(trail, arrivals) {
            tracing::debug!(addr = format_args!("{addr:#x}"), "too frequent to be counted");
            self.leave_trail(way)?;
            way.given_up = Some(event);
            *due = Due::Not;
            self.alarm.set(way.wait);
        } else if *due == Due::Stop {
            let position = trail.from.then(Leg::Arrive { addr, n: arrivals - trail.first });
            self.mark_here(way, &position, due)?;
        }
        Ok(true)
    }

    /// Is what is counted so frequent that the program does little else than count? It is better off without
    /// marks then: the whole way once more takes less.
    fn slows(&self, trail: &Trail, arrivals: u64) -> bool {
        let ran = self.live.replica.processor_time().saturating_sub(trail.begun);
        let counting = Duration::from_nanos(COUNT_NS.saturating_mul(arrivals.saturating_sub(trail.first)));
        ran > Duration::ZERO && counting > ran / 4
    }

    /// The live replica has stopped where the user is told nothing. A mark that is due is made there.
    pub(super) fn mark_at_stop(
        &mut self,
        way: &mut Way,
        position: Position,
        due: &mut Due,
    ) -> Result<(), Trouble> {
        way.was_stopped_in = Some(self.live.replica.done().0);
        if *due == Due::Stop { self.mark_here(way, &position, due) } else { Ok(()) }
    }

    /// A mark of where the live replica stands; the way goes on from there.
    fn mark_here(&mut self, way: &mut Way, position: &Position, due: &mut Due) -> Result<(), Trouble> {
        let position = self.exact(position)?;
        if let Some(mark) = Mark::of(&mut self.live, position.clone())? {
            tracing::debug!(%position, "a mark on the way");
            self.history.add(mark.into_stride());
            self.go_on_from(way, position);
        }
        self.count_trail(way)?;
        *due = Due::Not;
        self.alarm.set(way.wait);
        Ok(())
    }

    /// The live replica stands at this place: names go on from there.
    fn go_on_from(&self, way: &mut Way, position: Position) {
        let mut trail = way.trail.take();
        if let Some(trail) = &mut trail {
            trail.from = position.clone();
            trail.first = self.live.replica.traps().arrivals(trail.addr);
            trail.begun = self.live.replica.processor_time();
        }
        *way = Way::new(self, &self.live, position);
        way.trail = trail;
    }

    /// The program counts for the next mark; up to that, if it is there already.
    fn count_trail(&mut self, way: &mut Way) -> Result<(), Trouble> {
        let Some(trail) = &mut way.trail else { return Ok(()) };
        let now = self.live.replica.traps().arrivals(trail.addr);
        let next = self.history.next_stride(&trail.from).filter(|(_, addr, _)| *addr == trail.addr);
        trail.ahead = next.map(|(position, _, n)| (position, trail.first + n)).filter(|(_, n)| *n > now);
        let until = trail.ahead.as_ref().map(|(_, n)| *n);
        // A breakpoint in a loop would stop the program each time.
        if !self.live.replica.count_arrivals(trail.addr, until, Ahead::Event)? {
            self.leave_trail(way)
        } else {
            Ok(())
        }
    }

    /// Nothing is counted for marks any more.
    fn leave_trail(&mut self, way: &mut Way) -> Result<(), Trouble> {
        way.trail = None;
        let points = self.places_to_next(&self.live.replica);
        Ok(self.live.replica.set_points(&points)?)
    }

    /// The live replica begins again where the way does, and from the mark before that on something is
    /// counted. False: nothing can be.
    fn begin_trail(&mut self, way: &mut Way) -> Result<bool, Trouble> {
        let was_audible = std::mem::replace(&mut self.host.is_audible, false);
        let begun = self.begin_trail_unheard(way);
        self.host.is_audible = was_audible;
        match begun {
            // The session goes on without.
            Err(Trouble::Halt(halt)) => {
                tracing::info!(trouble = Trouble::Halt(halt).text(), "no marks are made in a computation");
                Ok(false)
            }
            begun => begun,
        }
    }

    fn begin_trail_unheard(&mut self, way: &mut Way) -> Result<bool, Trouble> {
        let (event, _) = self.live.replica.done();
        let is_inside = way.from.event == event;
        let base = if is_inside { self.exact(&way.from.clone())? } else { Position::at(event) };
        let name = self.name_of(&base);
        let mut mark = self.history.last_stride(self.live.image, &name);
        if mark.as_ref().is_none_or(|mark| mark.position.event != event) {
            let mut live = self.travel(&Position::at(event))?;
            mark = Mark::of(&mut live, Position::at(event))?;
            mark.iter().for_each(|mark| self.history.add(mark.clone()));
        }
        let Some(mark) = mark else { return Ok(false) };
        let ahead = self.history.next_stride(&mark.position).map(|(_, addr, _)| addr);
        let places = self.places(&self.live.replica);
        let mut tried: Vec<Addr> = ahead.into_iter().collect();
        tried.extend(self.frequent_here()?);
        for addr in tried.into_iter().filter(|addr| !places.contains(addr)) {
            let mut live = mark.resume()?;
            live.have_points(&name, Some(addr))?;
            live.replica.set_watches(&[])?;
            let first = live.replica.traps().arrivals(addr);
            let Some(mut goal) = Goal::from(&name, &live, &mark.position) else { return Ok(false) };
            if !name.arrivals().contains(&addr)
                && !live.replica.count_arrivals(addr, None, self.ahead(&live, &name))?
            {
                continue;
            }
            while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
            live.replica.end_counts()?;
            tracing::debug!(from = %mark.position, begin = %name, addr = format_args!("{addr:#x}"), "a trail");
            let mut points = self.places_to_next(&live.replica);
            points.insert(addr);
            live.replica.set_points(&points)?;
            live.replica.set_watches(&self.points.watches())?;
            live.replica.acknowledge();
            self.live = live;
            // Where what was counted did not come again, the next try is waited for longer: it begins here,
            // too.
            let wait = if way.trail.is_some() { way.wait * 2 } else { way.wait };
            *way = Way::new(self, &self.live, base);
            way.wait = wait;
            let begun = self.live.replica.processor_time();
            way.trail = Some(Trail { addr, event, from: mark.position, first, begun, ahead: None });
            self.count_trail(way)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// What the program executes often from where the live replica stands, which stays there.
    fn frequent_here(&mut self) -> Result<Vec<Addr>, Trouble> {
        let Some(mut copy) = self.live.replica.checkpoint(&mut self.live.company)? else {
            return Ok(Vec::new());
        };
        let (replica, company) = copy.resume()?;
        let mut live = Live::new(replica, company, self.live.image);
        self.frequent(&mut live, &BTreeSet::new(), Ahead::Event)
    }
}
