//! Marks in the middle of long computations, where no event gives a place its name.
//!
//! A replica runs from a mark for a while and is interrupted, somewhere. Some steps from there on show which
//! instructions the program executes often; so another replica runs from the same mark, and the program
//! itself counts how often it comes to one of them. When that one is interrupted, it goes on to the next
//! arrival: that place has a name. For the next stride the same address mostly does.

use bis_trace::types::Addr;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bis_replay::{Ahead, Limit, Stop};

use super::{
    Session, Trouble,
    goal::Goal,
    history::{CHECKPOINT_EVERY, Mark},
    live::Live,
    place::{Leg, Position},
};

/// Where a stride has led.
pub(super) enum Stride<'t> {
    /// To a mark in front of the end; and the end by a name that goes on from there.
    Mark(Mark<'t>, Position),
    /// The end comes first.
    End,
    /// To where no address can be counted.
    Nameless,
}

/// How long an event is waited for, which needs no second run; as a part of the stride.
const EVENT_AWAITED_PART: u32 = 8;

/// Instructions that are executed to see which come again.
const LOOK: usize = 300;

/// The addresses that are tried at most.
const TRIED_MAX: usize = 10;

impl<'t> Session<'t> {
    /// Marks all along the way from a mark to a position that it leads to. The position gets a name that goes
    /// on from the last mark. Without a name on the way, they end there.
    pub(super) fn strides(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
    ) -> Result<Vec<(Mark<'t>, Position)>, Trouble> {
        let mut all: Vec<(Mark<'t>, Position)> = Vec::new();
        let (mut from, mut end) = (from.clone(), end.clone());
        let mut hint = None;
        let mut every = CHECKPOINT_EVERY;
        while let Stride::Mark(mark, name) = self.stride(&from, &end, every, &mut hint)? {
            every = mark.pace();
            all.push((mark.clone(), name.clone()));
            (from, end) = (mark, name);
        }
        Ok(all)
    }

    /// A mark on the way to a position, which is called so from there: both are remembered.
    pub(super) fn mark_on_way(&mut self, mark: &Mark<'t>, end: &Position, name: &Position) {
        self.history.add(mark.clone());
        if name != end {
            self.history.also_known(end.clone(), name.clone());
        }
    }

    /// Goes from a mark toward a position in the same interval, to this arrival; there is a mark then, and
    /// the position by a name that goes on from there. None: the position comes first.
    pub(super) fn go_to_arrival(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        addr: Addr,
        n: u64,
    ) -> Result<Option<(Mark<'t>, Position)>, Trouble> {
        let mut live = from.resume()?;
        live.have_points(end, Some(addr))?;
        live.replica.set_watches(&[])?;
        let stops = BTreeSet::from([addr]);
        let goal = Goal::from(end, &live, &from.position);
        let Some(mut goal) = goal.map(|goal| Goal { stops: Some(&stops), ..goal }) else { return Ok(None) };
        let last = live.replica.traps().arrivals(addr) + n;
        live.replica.count_arrivals(addr, Some(last), self.ahead(&live, end))?;
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {
            if live.replica.traps().arrivals(addr) >= last {
                live.replica.end_counts()?;
                let position = from.position.then(Leg::Arrive { addr, n });
                self.inner.note_place(&live, &position);
                return Ok(match self.mark(&mut live, position, &goal)? {
                    Stride::Mark(mark, name) => Some((mark, name)),
                    Stride::End | Stride::Nameless => None,
                });
            }
        }
        Ok(None)
    }

    /// Goes from a mark toward a position for about so long. `hint` is the address that was counted last.
    pub(super) fn stride(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        time: Duration,
        hint: &mut Option<Addr>,
    ) -> Result<Stride<'t>, Trouble> {
        let mut live = from.resume()?;
        // Behind an event, another loop runs.
        let counted = hint.filter(|_| !from.position.legs.is_empty());
        let ahead = self.ahead(&live, end);
        let Some(mut going) = Going::begin(&mut live, from, end, counted, ahead)? else {
            return Ok(Stride::Nameless);
        };
        if !self.run_for(&mut live, &mut going.goal, time, true)? {
            return Ok(Stride::End);
        }
        let (event, _) = live.replica.done();
        if live.replica.is_at_event() && event == from.position.event {
            // On a busy machine a short time may be over before anything runs.
            drop(live);
            return self.stride(from, end, time * 2, hint);
        }
        if live.replica.is_at_event() {
            return self.mark(&mut live, Position::at(event), &going.goal);
        }
        if event != from.position.event {
            // There is a named place on the way; the next stride begins there.
            let position = Position::at(event);
            let mut live = from.resume()?;
            self.run_to(&mut live, &position)?;
            let goal = Goal::from(end, &live, &position);
            return goal.map_or(Ok(Stride::Nameless), |goal| self.mark(&mut live, position, &goal));
        }
        if let Some(stride) = self.finish_stride(&mut live, going, from, time)? {
            return Ok(stride);
        }
        let ahead = self.ahead(&live, end);
        let tried = self.frequent(&mut live, &end.arrivals(), ahead)?;
        tracing::debug!(from = %from.position, ?counted, ?tried, "nothing that was counted comes again");
        drop(live);
        for addr in tried {
            let mut live = from.resume()?;
            let ahead = self.ahead(&live, end);
            let Some(mut going) = Going::begin(&mut live, from, end, Some(addr), ahead)? else { continue };
            if !self.run_for(&mut live, &mut going.goal, time, false)? {
                return Ok(Stride::End);
            }
            if let Some(stride) = self.finish_stride(&mut live, going, from, time)? {
                *hint = Some(addr);
                return Ok(stride);
            }
        }
        Ok(Stride::Nameless)
    }

    /// Lets a replica run toward a position until so much time is over; with `may_be_longer`, a little more,
    /// up to an event. False: it is there.
    fn run_for(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        time: Duration,
        may_be_longer: bool,
    ) -> Result<bool, Trouble> {
        let mut each_event = false;
        self.alarm.set(time);
        let is_on_the_way = loop {
            let Some(stop) = self.toward(live, goal, &[], &Limit { each_event, ..Limit::default() })? else {
                break false;
            };
            match stop {
                Stop::Interrupted if may_be_longer && !each_event => {
                    each_event = true;
                    self.alarm.set(time / EVENT_AWAITED_PART);
                }
                Stop::Interrupted => break true,
                Stop::Event(_) if each_event && live.replica.is_at_event() && !goal.pass_legs(live)? => {
                    break true;
                }
                _ => {}
            }
        };
        self.alarm.clear();
        self.stopper.interrupt.take();
        tracing::debug!(?time, is_on_the_way, each_event, "ran for a while");
        Ok(is_on_the_way)
    }

    /// From where it was interrupted, to the next arrival at what was counted. None: nothing was, or it does
    /// not come there any more.
    fn finish_stride(
        &mut self,
        live: &mut Live<'t>,
        going: Going<'_>,
        from: &Mark<'t>,
        time: Duration,
    ) -> Result<Option<Stride<'t>>, Trouble> {
        let Going { mut goal, addr: Some(addr), first } = going else { return Ok(None) };
        if live.replica.is_at_event() || live.replica.done().0 != from.position.event {
            return Ok(None);
        }
        if live.replica.traps().arrivals(addr) <= first {
            return Ok(None);
        }
        live.replica.end_counts()?;
        let stops = BTreeSet::from([addr]);
        goal.stops = Some(&stops);
        self.alarm.set(time.max(Duration::from_millis(1)));
        let is_there = loop {
            let Some(stop) =
                self.toward(live, &mut goal, &[], &Limit { each_event: true, ..Limit::default() })?
            else {
                return Ok(Some(Stride::End));
            };
            match stop {
                Stop::Point(_, at) if at == addr => break true,
                Stop::Interrupted | Stop::Event(_) | Stop::End | Stop::Cut => break false,
                _ => {}
            }
        };
        self.alarm.clear();
        self.stopper.interrupt.take();
        if goal.pass_legs(live)? {
            return Ok(Some(Stride::End));
        }
        if !is_there {
            return Ok(None);
        }
        let n = live.replica.traps().arrivals(addr) - first;
        let position = from.position.then(Leg::Arrive { addr, n });
        self.mark(live, position, &goal).map(Some)
    }

    /// Addresses that the program executes often from where this replica stands, which is stepped on: only
    /// where a task has stood there surely begins an instruction. Not where the program cannot count, or
    /// would be in the way of other counts, at `beside`.
    pub(super) fn frequent(
        &mut self,
        live: &mut Live<'t>,
        beside: &BTreeSet<Addr>,
        ahead: Ahead,
    ) -> Result<Vec<Addr>, Trouble> {
        live.replica.end_counts()?;
        live.replica.set_points(&BTreeSet::new())?;
        let mut seen: BTreeMap<Addr, usize> = BTreeMap::new();
        for _ in 0..LOOK {
            let Some(tid) = live.replica.next_event()?.map(|event| event.tid) else { break };
            let registers = live.replica.registers(tid).map_err(bis_replay::Halt::from)?;
            if live.replica.can_count(registers.ip(), beside, ahead)? {
                *seen.entry(registers.ip()).or_default() += 1;
            }
            let limit = Limit { step: true, each_event: true, ..Limit::default() };
            if !matches!(self.run_until(live, &limit)?, Stop::Stepped(_)) {
                break;
            }
        }
        let mut often: Vec<(usize, Addr)> = seen.into_iter().map(|(addr, count)| (count, addr)).collect();
        often.sort_unstable_by(|one, other| other.cmp(one));
        Ok(often.into_iter().map(|(_, addr)| addr).take(TRIED_MAX).collect())
    }

    /// A mark of where a replica stands on its way.
    fn mark(
        &mut self,
        live: &mut Live<'t>,
        position: Position,
        goal: &Goal<'_>,
    ) -> Result<Stride<'t>, Trouble> {
        let end = goal.rest(live, &position)?;
        self.inner.same(goal.position, &end);
        tracing::debug!(%position, %end, "a mark");
        let mark = Mark::of(live, position)?;
        Ok(mark.map_or(Stride::Nameless, |mark| Stride::Mark(mark.into_stride(), end)))
    }
}

/// A replica that has set out, with what is counted on the way.
struct Going<'p> {
    goal: Goal<'p>,
    /// What is counted, and how much of it there was at first.
    addr: Option<Addr>,
    first: u64,
}

impl<'p> Going<'p> {
    /// None: this address cannot be counted, or the mark does not lead to the end.
    fn begin<'t>(
        live: &mut Live<'t>,
        from: &Mark<'t>,
        end: &'p Position,
        addr: Option<Addr>,
        ahead: Ahead,
    ) -> Result<Option<Going<'p>>, Trouble> {
        live.have_points(end, addr)?;
        live.replica.set_watches(&[])?;
        let Some(goal) = Goal::from(end, live, &from.position) else { return Ok(None) };
        let own = goal.counts(live)?;
        let first = addr.or(own).map_or(0, |addr| live.replica.traps().arrivals(addr));
        if let Some(addr) = addr.filter(|addr| own != Some(*addr))
            && !live.replica.count_arrivals(addr, None, ahead)?
        {
            return Ok(None);
        }
        Ok(Some(Going { goal, addr: addr.or(own), first }))
    }
}
