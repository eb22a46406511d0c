//! A position that is gone to leg by leg, and how much of the way is done.

use std::collections::BTreeSet;

use bis_replay::{Ahead, Stop};
use bis_trace::types::Addr;

use super::{
    live::Live,
    place::{Leg, Position},
    report::Trouble,
};

/// A position that is gone to, and how much of the way is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal<'p> {
    pub position: &'p Position,
    pub done: Done,
    /// Addresses at which the replica is to stop each time, although the way counts arrivals there.
    pub stops: Option<&'p BTreeSet<Addr>>,
}

/// How much of a way is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Done {
    /// The leg that is underway.
    leg: usize,
    /// Of a leg of arrivals: what was counted when it began, less what was counted in intervals that are over
    /// (so it wraps).
    base: u64,
    /// Of a leg of steps or of triggers: how many are done.
    count: u64,
    /// What was counted of arrivals when the replica stopped last.
    seen: u64,
    /// The program has been asked to count the leg's arrivals by itself.
    is_asked: bool,
    /// The program has been asked to count arrivals of the legs that are done: nobody is to be stopped for
    /// these.
    is_passed_asked: bool,
}

impl Done {
    /// Is one of the first so many legs not yet done?
    pub(super) fn is_in_first(&self, legs: usize) -> bool {
        self.leg < legs
    }

    /// The addresses whose arrivals are still to be counted on the way to a position.
    pub(super) fn left(&self, position: &Position) -> BTreeSet<Addr> {
        arrivals(position.legs.get(self.leg..).unwrap_or_default())
    }
}

impl Goal<'_> {
    pub(super) fn new(position: &Position) -> Goal<'_> {
        Goal { position, done: Done::default(), stops: None }
    }

    /// The goal of a replica that stands at a place which leads to it. None: it does not.
    pub(super) fn from<'p>(position: &'p Position, live: &Live<'_>, place: &Position) -> Option<Goal<'p>> {
        let (leg, count) = position.done_at(place)?;
        let mut done = Done { leg, ..Done::default() };
        match position.legs.get(leg) {
            Some(Leg::Arrive { addr, .. }) if position.event == place.event => {
                done.seen = live.replica.traps().arrivals(*addr);
                done.base = done.seen.wrapping_sub(count);
            }
            Some(Leg::Arrive { .. }) => {}
            _ => done.count = count,
        }
        Some(Goal { position, done, stops: None })
    }

    /// The goal of a replica that is on the first leg of its way, and has done so many of that leg's arrivals
    /// at this address.
    pub(super) fn with_arrivals<'p>(
        position: &'p Position,
        addr: Addr,
        live: &Live<'_>,
        count: u64,
    ) -> Goal<'p> {
        let seen = live.replica.traps().arrivals(addr);
        let done = Done { base: seen.wrapping_sub(count), seen, ..Done::default() };
        Goal { position, done, stops: None }
    }

    /// The address whose arrivals the present leg counts.
    pub(super) fn counts(&self, live: &mut Live<'_>) -> Result<Option<Addr>, Trouble> {
        if !self.is_near(live)? {
            return Ok(None);
        }
        Ok(match self.leg() {
            Some(Leg::Arrive { addr, .. }) => Some(*addr),
            _ => None,
        })
    }

    /// The goal's position, as it is called from where the replica stands.
    pub(super) fn rest(&self, live: &mut Live<'_>, place: &Position) -> Result<Position, Trouble> {
        if !self.is_near(live)? || self.position.done_at(place).is_some() {
            return Ok(self.position.clone());
        }
        let mut legs = self.position.legs.get(self.done.leg..).unwrap_or_default().iter().cloned();
        let mut rest = place.clone();
        if let Some(first) = legs.next() {
            rest = rest.then(match first {
                Leg::Arrive { addr, n } => {
                    let done = live.replica.traps().arrivals(addr).wrapping_sub(self.done.base);
                    Leg::Arrive { addr, n: n.saturating_sub(done) }
                }
                Leg::Trigger { watches, n } => Leg::Trigger { watches, n: n.saturating_sub(self.done.count) },
                Leg::Step { tid, n } => Leg::Step { tid, n: n.saturating_sub(self.done.count) },
                other => other,
            });
        }
        for leg in legs {
            rest = rest.then(leg);
        }
        Ok(rest)
    }

    /// Is what is left of the way made of single steps?
    pub(super) fn is_stepping(&self) -> bool {
        matches!(self.leg(), Some(Leg::Step { .. }))
    }

    /// How many of this leg's arrivals are done. None: the leg is done.
    pub(super) fn arrived(&self, leg: usize, live: &mut Live<'_>) -> Result<Option<u64>, Trouble> {
        Ok(match self.leg() {
            Some(Leg::Arrive { addr, .. }) if self.done.leg == leg && self.is_near(live)? => {
                Some(live.replica.traps().arrivals(*addr).wrapping_sub(self.done.base))
            }
            _ => (self.done.leg <= leg).then_some(0),
        })
    }

    /// The program does not count by itself any more.
    pub(super) fn ask_anew(&mut self) {
        (self.done.is_asked, self.done.is_passed_asked) = (false, false);
    }

    /// The addresses of the legs that are done, if no other leg and nobody else wants them.
    fn passed(&self) -> BTreeSet<Addr> {
        let (done, left) = self.position.legs.split_at(self.done.leg.min(self.position.legs.len()));
        let mut passed = arrivals(done);
        passed.retain(|addr| self.stops.is_none_or(|stops| !stops.contains(addr)));
        &passed - &arrivals(left)
    }

    pub(super) fn leg(&self) -> Option<&Leg> {
        self.position.legs.get(self.done.leg)
    }

    fn next_leg(&mut self, live: &Live<'_>) {
        self.done = Done { leg: self.done.leg + 1, ..Done::default() };
        if let Some(Leg::Arrive { addr, .. }) = self.leg() {
            let arrivals = live.replica.traps().arrivals(*addr);
            (self.done.base, self.done.seen) = (arrivals, arrivals);
        }
    }

    /// Is the position's event done?
    pub(super) fn is_near(&self, live: &mut Live<'_>) -> Result<bool, Trouble> {
        live.is_behind_event_of(self.position)
    }

    /// Goes on to the next leg where one is done. True: the replica has come to the end of its way.
    pub(super) fn pass_legs(&mut self, live: &mut Live<'_>) -> Result<bool, Trouble> {
        if !self.is_near(live)? {
            return Ok(false);
        }
        loop {
            let Some(leg) = self.leg() else { return Ok(true) };
            let is_done = match leg {
                Leg::Arrive { addr, n } => {
                    live.replica.traps().arrivals(*addr).wrapping_sub(self.done.base) >= *n
                }
                Leg::Trigger { n, .. } | Leg::Step { n, .. } => self.done.count >= *n,
                Leg::Before(_) | Leg::Back { .. } => false,
            };
            if !is_done {
                return Ok(false);
            }
            self.next_leg(live);
        }
    }

    /// The replica has stopped, on the way of this leg.
    pub(super) fn stopped(&mut self, live: &Live<'_>, stop: &Stop, is_step: bool) {
        if matches!(stop, Stop::Event(_)) {
            // From here on is counted anew.
            self.ask_anew();
        }
        match (self.leg().cloned(), stop) {
            (Some(Leg::Step { .. }), _) => self.done.count += u64::from(is_step),
            (Some(Leg::Trigger { watches, .. }), Stop::Watched(_, pieces)) => {
                self.done.count += u64::from(pieces.iter().any(|piece| *piece < watches.len()));
            }
            (Some(Leg::Before(event)), Stop::Before(seq)) if event == *seq => self.next_leg(live),
            (Some(Leg::Arrive { addr, .. }), stop) => {
                if matches!(stop, Stop::Event(_)) {
                    self.done.base = self.done.base.wrapping_sub(self.done.seen);
                }
                self.done.seen = live.replica.traps().arrivals(addr);
            }
            _ => {}
        }
        if let Stop::End | Stop::Cut = stop {
            self.done.leg = self.position.legs.len();
        }
    }
}

/// So many stops cost less than it does to let the program count by itself.
const FEW: u64 = 12;

impl Position {
    /// The addresses whose arrivals it counts.
    pub(super) fn arrivals(&self) -> BTreeSet<Addr> {
        arrivals(&self.legs)
    }
}

fn arrivals(legs: &[Leg]) -> BTreeSet<Addr> {
    let addr = |leg: &Leg| match leg {
        Leg::Arrive { addr, .. } => Some(*addr),
        _ => None,
    };
    legs.iter().filter_map(addr).collect()
}

impl Goal<'_> {
    /// From here on the program counts the arrivals by itself that this leg, which comes next, and those that
    /// are gone, are named by: each would be a stop.
    pub(super) fn ask_for_counts(
        &mut self,
        live: &mut Live<'_>,
        leg: Option<&Leg>,
        is_near: bool,
        ahead: Ahead,
    ) -> Result<(), Trouble> {
        if let Some(Leg::Arrive { addr, n }) = leg
            && !self.done.is_asked
            && self.stops.is_none_or(|stops| !stops.contains(addr))
        {
            self.done.is_asked = true;
            let stop_at = self.done.base.wrapping_add(*n);
            if stop_at > live.replica.traps().arrivals(*addr).saturating_add(FEW) {
                live.replica.count_arrivals(*addr, Some(stop_at), ahead)?;
            }
        }
        if is_near && !self.done.is_passed_asked {
            self.done.is_passed_asked = true;
            for addr in self.passed() {
                live.replica.count_arrivals(addr, None, ahead)?;
            }
        }
        Ok(())
    }
}
