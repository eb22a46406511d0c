//! A search: a stretch of the past is run through once, and the last stop that the user wants to hear of is
//! what it finds. A search that takes long, or finds much, is given up, if it may be.

use std::{collections::BTreeSet, sync::Arc};

use bis_replay::{Limit, Piece, Stop};
use bis_trace::{
    event::{Event, EventKind},
    types::{Addr, DomainId, EventSeq, Tid},
};

use super::{
    super::{
        Catch, Report, Session, Trouble, Why,
        goal::Goal,
        history::{CHECKPOINT_EVERY, Mark},
        live::Live,
        onward::EVENT_AWAITED,
        place::{Leg, Position},
        points::Asker,
        report::{no_way, unexpected},
        told::{Told, call_of},
        way::Way,
    },
    hit::{Found, Hit, Hits, Patience},
};
use crate::protocol::command::PointKind;

/// More than this is not looked at one by one before shorter ways are tried.
const HITS_MAX: u64 = 200;

/// So often it is looked in vain whether a watchpoint's condition holds, before the last part of the way is
/// looked at first.
const LOOKS_MAX: u64 = 2_000;

/// So many hits of a search are kept.
const HITS_KEPT: usize = 1024;

/// A search on its way.
struct Search<'e> {
    end: &'e Position,
    patience: Patience,
    /// Where the replica stops: the user's points, and what is needed to find the end.
    points: BTreeSet<Addr>,
    /// Arrivals that were counted from the event on, and go on being counted.
    counts: BTreeSet<Addr>,
    /// The arrivals by which the end is named are among the points. In front of the end's event nobody asks
    /// for them: each would be a stop.
    is_near: bool,
    /// What the user watches.
    own: Arc<[Piece]>,
    way: Way,
    found: Vec<Hit>,
    /// How often watches have triggered since the last event, or since the search's begin.
    triggers: u64,
    /// How much was found, and how often what had happened was nothing.
    hits: u64,
    looks: u64,
    /// A checkpoint is due, and waits for an event.
    is_due: bool,
    /// The user stands at the end, and has heard of what the event there is to be told of.
    is_heard: bool,
}

impl Search<'_> {
    /// The search has run for long. Has it come to no event, and is to be given up then?
    fn is_too_long(&self, live: &Live<'_>) -> bool {
        let is_long = live.replica.done().0 == self.way.from.event;
        self.is_due && is_long && matches!(self.patience, Patience::Short)
    }

    /// Has so much happened that the search is to be given up?
    fn is_too_much(&self) -> bool {
        match self.patience {
            Patience::Endless => false,
            Patience::FewHits => self.hits > HITS_MAX,
            Patience::Few | Patience::Short => self.hits > HITS_MAX || self.looks > LOOKS_MAX,
        }
    }

    /// From where the end is near on, the arrivals by which it is named are asked for.
    fn come_near(&mut self, live: &mut Live<'_>, goal: &mut Goal<'_>) -> Result<(), Trouble> {
        if !self.is_near && goal.is_near(live)? {
            self.is_near = true;
            self.points.extend(self.end.arrivals());
            live.replica.set_points_and_counts(&self.points, &self.counts)?;
        }
        Ok(())
    }
}

impl<'t> Session<'t> {
    /// The last thing that happens between a mark and a position that it leads to.
    pub(in crate::session) fn search(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        patience: Patience,
    ) -> Result<Found, Trouble> {
        let mut live = from.resume()?;
        let wanted = self.places(&live.replica);
        // Nothing must be missed: a mark that does not lead there is no begin of a search.
        let Some(goal) = Goal::from(end, &live, &from.position) else { return Err(no_way(end)) };
        let mut goal = Goal { stops: Some(&wanted), ..goal };
        let mut search = self.begin_search(&mut live, &mut goal, from, end, patience)?;
        self.alarm.set(CHECKPOINT_EVERY);
        let given_up = self.search_on(&mut live, &mut goal, &mut search)?;
        self.alarm.clear();
        if let Some(found) = given_up {
            return Ok(found);
        }
        let last = search.found.last().cloned();
        self.hits = Some(Hits { wanted: self.wanted(), hits: search.found });
        Ok(last.map_or(Found::Nothing, Found::Hit))
    }

    /// A search that begins with the replica of a mark. From here on the replica stops at the user's points.
    fn begin_search<'e>(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        from: &Mark<'t>,
        end: &'e Position,
        patience: Patience,
    ) -> Result<Search<'e>, Trouble> {
        let is_near = goal.is_near(live)?;
        let mut points = self.places_to_next(&live.replica);
        if is_near {
            points.extend(end.arrivals());
        }
        let counts = if from.position.event == end.event { live.counts() } else { BTreeSet::new() };
        live.replica.set_points_and_counts(&points, &counts)?;
        let at_begin = self.hit_at_begin(live, &from.position)?.filter(|hit| hit.position != *end);
        Ok(Search {
            end,
            patience,
            points,
            counts,
            is_near,
            own: self.points.watches(),
            way: Way::new(self, live, from.position.clone()),
            found: at_begin.into_iter().collect(),
            triggers: 0,
            hits: 0,
            looks: 0,
            is_due: false,
            is_heard: self.has_heard_of(end),
        })
    }

    /// Does the user stand right behind the event that this position is?
    pub(super) fn has_heard_of(&self, end: &Position) -> bool {
        end.legs.is_empty() && self.position == *end
    }

    /// Does the user stand in front of the event that follows this one, but for entries of calls in which
    /// tasks were killed? Behind a signal without a handler, that is the end of a task.
    fn stands_before_end(&self, domain: DomainId, signal: EventSeq) -> bool {
        let between = || {
            let events = self.world.trace().events(domain).map_while(std::result::Result::ok);
            let behind = events.skip_while(|event| event.seq <= signal);
            behind.take_while(|event| event.seq <= self.position.event)
        };
        let is_entry = |event: &Event| matches!(event.kind, EventKind::SyscallEnter { .. });
        let is_in_front = matches!(self.position.legs[..], [Leg::Before(_)]) && signal <= self.position.event;
        is_in_front && (signal == self.position.event || between().all(|event| is_entry(&event)))
    }

    /// Goes to the end of a search, and looks at each stop. What is answered is why it was given up; none: it
    /// has come to the end.
    fn search_on(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        search: &mut Search<'_>,
    ) -> Result<Option<Found>, Trouble> {
        let interrupt = self.stopper.interrupt.clone();
        loop {
            let each_event = search.is_due || self.looks_at_events();
            let next = live.replica.next_event_and_self()?;
            let told = next.map(|(event, replica)| Told::of(event, replica));
            let before = told.as_ref().and_then(|told| told.caught_call(self));
            let limit =
                Limit { signals: true, each_event, before, interrupt: Some(&interrupt), ..Limit::default() };
            let own = Arc::clone(&search.own);
            let Some(stop) = self.toward(live, goal, &own, &limit)? else { return Ok(None) };
            if stop == Stop::Interrupted {
                if search.is_too_long(live) {
                    return Ok(Some(Found::TooLong));
                }
                search.is_due = !search.is_due;
                self.alarm.set(if search.is_due { EVENT_AWAITED } else { CHECKPOINT_EVERY });
                continue;
            }
            search.come_near(live, goal)?;
            // Where the user stands, only what has changed watched bytes is behind: the user stands right
            // after that. What an event is told of that is the end of a piece is found with this piece.
            let is_end = goal.pass_legs(live)?;
            if is_end && !matches!(stop, Stop::Event(_) | Stop::Watched(..)) {
                return Ok(None);
            }
            if let Stop::Event(_) = stop {
                self.pass_event(live, search, is_end)?;
            }
            self.look_at(live, search, stop, told.filter(|_| !is_end || !search.is_heard))?;
            if is_end {
                return Ok(None);
            }
            if search.is_too_much() {
                let tid = live.replica.next_event()?.map_or(Tid(0), |event| event.tid);
                let addr = live.replica.registers(tid).map_or(0, |registers| registers.rip);
                return Ok(Some(Found::TooMuch(addr)));
            }
        }
    }

    /// A search has come to an event: the checkpoint that is due is made, and calls are looked for in text
    /// that was patched by the event.
    fn pass_event(
        &mut self,
        live: &mut Live<'t>,
        search: &mut Search<'_>,
        is_end: bool,
    ) -> Result<(), Trouble> {
        if search.is_due && !is_end {
            self.save(live)?;
            search.is_due = false;
            self.alarm.set(self.history.pace());
        }
        if self.caught_calls != Catch::None {
            live.replica.next_event()?;
            search.points = self.places_to_next(&live.replica);
            if search.is_near {
                search.points.extend(search.end.arrivals());
            }
            live.replica.set_points_and_counts(&search.points, &search.counts)?;
        }
        Ok(())
    }

    /// What a stop in a search is to the user.
    fn look_at(
        &mut self,
        live: &mut Live<'t>,
        search: &mut Search<'_>,
        stop: Stop,
        told: Option<Told>,
    ) -> Result<(), Trouble> {
        let is_watched = matches!(stop, Stop::Watched(..));
        let hit = match stop {
            Stop::Event(seq) => {
                search.triggers = 0;
                self.event_hit(live, &mut search.way, told, seq)
            }
            Stop::Point(tid, _) | Stop::Stepped(tid) => self.point_hit(live, search, tid)?,
            Stop::Watched(tid, pieces) => self.watch_hit(live, search, tid, &pieces),
            Stop::Before(seq) => self.before_hit(live, seq)?,
            stop => return Err(unexpected(&stop)),
        };
        if hit.is_some() {
            search.hits += 1;
        } else if is_watched {
            search.looks += 1;
        }
        search.found.extend(hit);
        if search.found.len() > 2 * HITS_KEPT {
            search.found.drain(..HITS_KEPT);
        }
        Ok(())
    }

    /// What it is to the user that a task stands at a point.
    fn point_hit(
        &mut self,
        live: &mut Live<'t>,
        search: &mut Search<'_>,
        tid: Tid,
    ) -> Result<Option<Hit>, Trouble> {
        let rip = live.replica.registers(tid).map_or(Addr(0), |registers| registers.ip());
        let report = self.breakpoint_hit(live, tid, rip);
        if report.is_none() {
            Self::count_false(&self.points, live, &mut search.way, rip)?;
        }
        Ok(report.map(|report| Hit { position: search.way.at_point(live, rip), report, note: None }))
    }

    /// What it is to the user that a task has touched pieces of memory that are watched.
    fn watch_hit(
        &mut self,
        live: &Live<'t>,
        search: &mut Search<'_>,
        tid: Tid,
        pieces: &[usize],
    ) -> Option<Hit> {
        // Those of a leg come first.
        let watches = live.replica.traps().watches();
        let touched = |number: &usize| {
            let watch = watches.get(*number)?.without_register();
            search.own.iter().position(|own| own.without_register() == watch)
        };
        let pieces: Vec<usize> = pieces.iter().filter_map(touched).collect();
        if pieces.is_empty() {
            return None;
        }
        search.triggers += 1;
        let asker = &mut Asker { replica: &live.replica, targets: &self.targets, tid };
        let (found, now) = self.points.watchpoint(Some(&pieces), &search.way.values, asker);
        search.way.values = now;
        let (kind, addr) = found?;
        let (event, _) = live.replica.done();
        let from = &search.way.from;
        let begin = if event == from.event { from.clone() } else { Position::at(event) };
        let leg = Leg::Trigger { watches: search.own.clone(), n: search.triggers };
        Some(Hit::new(begin.then(leg), tid, Why::Watchpoint { kind, addr }))
    }

    /// The user's breakpoint at which this task stands, or the call that it makes there or has left.
    pub(super) fn breakpoint_hit(&self, live: &Live<'t>, tid: Tid, addr: Addr) -> Option<Report> {
        let asker = &mut Asker { replica: &live.replica, targets: &self.targets, tid };
        if let Some(point) = self.points.breakpoint_at(addr, asker).filter(|point| point.commands.is_empty())
        {
            let is_hardware = point.kind == PointKind::Hardware;
            return Some(Report { tid, why: Why::Breakpoint { is_hardware } });
        }
        self.hooked_call(&live.replica, tid, addr).map(|why| Report { tid, why })
    }

    /// What is to be told of an event whose task is at its place.
    fn before_hit(&mut self, live: &mut Live<'t>, seq: EventSeq) -> Result<Option<Hit>, Trouble> {
        let domain = live.replica.entry().domain;
        let Some(event) = live.replica.next_event()? else { return Ok(None) };
        let tid = event.tid;
        let why = match &event.kind {
            // Back from the end, the one that has ended the process is where the user stands.
            EventKind::Signal(signal) if signal.handler.is_none() && self.stands_before_end(domain, seq) => {
                None
            }
            EventKind::Signal(signal) => Some(Why::Signal(signal.signal))
                .filter(|_| !signal.is_silent() && !self.passed_signals.contains(&signal.signal)),
            kind => call_of(kind).map(|nr| Why::Call { nr, is_entry: true }),
        };
        let position = Position { event: live.replica.done().0, legs: vec![Leg::Before(seq)] };
        Ok(why.map(|why| Hit::new(position, tid, why)))
    }

    /// The breakpoint at which a task stands where a stretch begins.
    fn hit_at_begin(&self, live: &mut Live<'t>, begin: &Position) -> Result<Option<Hit>, Trouble> {
        let tid = if live.replica.is_at_event() {
            Some(live.replica.done().1)
        } else {
            live.replica.next_event()?.map(|event| event.tid)
        };
        let place = tid.and_then(|tid| Some((tid, live.replica.registers(tid).ok()?.rip)));
        let report = place.and_then(|(tid, addr)| self.breakpoint_hit(live, tid, Addr(addr)));
        Ok(report.map(|report| Hit { position: begin.clone(), report, note: None }))
    }

    /// What is to be told of an event that is done.
    fn event_hit(
        &mut self,
        live: &Live<'t>,
        way: &mut Way,
        told: Option<Told>,
        seq: EventSeq,
    ) -> Option<Hit> {
        let tid = live.replica.done().1;
        let position = Position::at(seq);
        if self.points.has_watchpoints() {
            let asker = &mut Asker { replica: &live.replica, targets: &self.targets, tid };
            let (found, now) = self.points.watchpoint(None, &way.values, asker);
            way.values = now;
            if let Some((kind, addr)) = found {
                let report = Report { tid, why: Why::Watchpoint { kind, addr } };
                return Some(Hit { position, report, note: self.others.take_change() });
            }
        }
        let (tid, why) = told.and_then(|told| told.why(self, tid))?;
        Some(Hit::new(position, tid, why))
    }
}
