//! Backwards: the last thing that happened before where the user stands.
//!
//! A stretch of the past is run through from the last checkpoint before it, with the user's points in it, up
//! to where the user stands (or to where the stretch behind it begins); the last stop on the way is the
//! answer, and if there is none, the stretch before is looked at. On the way checkpoints are made, so that
//! the next search is shorter.
//!
//! A watchpoint is told of in front of the instruction that has touched the bytes: going backwards, that is
//! where they get the value that they had before.
//!
//! How one step back is made is in [`super::window`].

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bis_replay::{Limit, Piece, Stop};
use bis_trace::{
    event::EventKind,
    types::{Addr, EventSeq, Tid},
};

use super::{
    CHECKPOINT_EVERY, Live, Report, Session, Trouble, Why,
    crew::{Stretch, Together},
    end_of,
    forward::{EVENT_AWAITED, Told, Way, call_of},
    goal::Goal,
    history::Mark,
    place::{Leg, Position},
    points::Asker,
    searched::Wanted,
    strides::Stride,
    travel::no_way,
    unexpected,
};

/// What a search has found: where, and what it is.
#[derive(Clone)]
pub(super) struct Hit {
    position: Position,
    report: Report,
    /// What else is to be said.
    note: Option<String>,
}

impl Hit {
    fn new(position: Position, tid: Tid, why: Why) -> Hit {
        Hit { position, report: Report { tid, why }, note: None }
    }
}

/// What the last search has found on its way, up to where the user stands now: a search on for the same need
/// not look again.
pub(super) struct Hits {
    wanted: Wanted,
    hits: Vec<Hit>,
}

/// So many of them are kept.
const HITS_KEPT: usize = 1024;

/// What has come of a search.
enum Found {
    Hit(Hit),
    Nothing,
    /// It was given up: much has happened, the last with a task at this address.
    TooMuch(u64),
    /// It was given up: there is no event for long.
    TooLong,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Hit(hit) => write!(f, "{} ({:?})", hit.position, hit.report.why),
            Found::Nothing => f.write_str("nothing"),
            Found::TooMuch(addr) => write!(f, "much, at {addr:#x}"),
            Found::TooLong => f.write_str("a long computation"),
        }
    }
}

/// When a search is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    Endless,
    /// When much is found.
    FewHits,
    /// The same, and when the first event is far.
    Short,
}

/// A search on its way.
struct Search {
    /// What the user watches.
    own: Arc<[Piece]>,
    way: Way,
    found: Vec<Hit>,
    /// How often watches have triggered since the last event, or since the search's begin.
    triggers: u64,
    /// How much was found.
    hits: u64,
}

/// Rounds of a loop in which much happens that are searched at once, and how many times as much is searched
/// if nothing was found.
const ROUNDS: u64 = 64;
const MORE: u64 = 8;

/// More than this is not looked at one by one before shorter ways are tried.
const HITS_MAX: u64 = 200;

/// So long a search is the session's own; then others help, if there are cores for them.
const ALONE: Duration = Duration::from_millis(30);

/// What is called near of where the user has stopped the program.
const NEARBY: Duration = Duration::from_millis(1);

impl<'t> Session<'t> {
    /// Goes back to the last thing that happened before.
    pub fn reverse(&mut self) -> Report {
        self.moving(Session::reverse_continue)
    }

    /// Goes back by one instruction of a task.
    pub fn reverse_step(&mut self, tid: Tid) -> Report {
        self.moving(|session| session.step_back(tid, true))
    }

    fn reverse_continue(&mut self) -> Result<Report, Trouble> {
        if let Some(report) = self.hit_in_window()? {
            return Ok(report);
        }
        if let Some(hit) = self.known_hit() {
            return self.go_to_hit(hit);
        }
        let mut end = self.exact(&self.position.clone())?;
        let begun = Instant::now();
        let mut may_have_help = true;
        loop {
            let image = self.image_of(end.event);
            self.have_image(image)?;
            end = self.history.name(&end);
            let Some(mark) = self.history.best_before(image, &end) else {
                return self.previous_image(&end);
            };
            if may_have_help && begun.elapsed() > ALONE {
                let stretches = self.stretches(image, &end);
                match self.search_together(&stretches)? {
                    Together::Hit(hit) => return self.go_to_hit(hit),
                    Together::Nothing => {
                        if let Some(first) = stretches.last() {
                            end = first.from.position.clone();
                        }
                        continue;
                    }
                    Together::Never => may_have_help = false,
                }
            }
            if let Some(hit) = self.last_hit(&mark, &end, self.patience(&mark, &end))? {
                return self.go_to_hit(hit);
            }
            end = mark.position;
        }
    }

    /// Goes to the last breakpoint in front of the user's place where the window knows that nothing else lies
    /// in between. A client that steps back from a breakpoint and searches on comes here, as it does for each
    /// stop that it is to ignore.
    fn hit_in_window(&mut self) -> Result<Option<Report>, Trouble> {
        if self.points.has_watchpoints() {
            return Ok(None);
        }
        let places = self.places(&self.live.replica);
        let Some((index, tid, addr)) = self.last_arrival_in_window(&places) else { return Ok(None) };
        if !self.points.is_plain(Addr(addr)) {
            return Ok(None);
        }
        self.position = self.go_in_window(index)?;
        Ok(self.breakpoint_hit(&self.live, tid, Addr(addr)))
    }

    /// What comes before the last hit, where the last search knows it and the user stands at that hit, or the
    /// window knows that nothing lies between. Watches are left to a search: where one has triggered is named
    /// by the instruction that triggered it, and the user never stands there.
    fn known_hit(&mut self) -> Option<Hit> {
        let mut known = self.hits.take()?;
        let last = known.hits.pop()?;
        if self.points.has_watchpoints() || known.wanted != self.wanted() {
            return None;
        }
        let places = self.places(&self.live.replica);
        if self.position != last.position && !self.is_closely_before(&last.position, &places) {
            return None;
        }
        let before = known.hits.last().filter(|before| before.position != last.position).cloned();
        self.hits = Some(known);
        before
    }

    /// What lies between two marks in a computation was cut into pieces before.
    fn patience(&self, from: &Mark<'_>, end: &Position) -> Patience {
        let is_piece = from.position.event == end.event && self.history.is_stride(end);
        if is_piece { Patience::FewHits } else { Patience::Short }
    }

    /// The stretches between the marks of an image, from this position back.
    fn stretches(&self, image: usize, end: &Position) -> Vec<Stretch<'t>> {
        let mut stretches: Vec<Stretch<'t>> = Vec::new();
        let mut end = end.clone();
        while let Some(from) = self.history.best_before(image, &end)
            && stretches.iter().all(|known| known.from.position != from.position)
        {
            let patience = self.patience(&from, &end);
            let before = from.position.clone();
            stretches.push(Stretch { from, end, patience });
            end = self.history.name(&before);
        }
        stretches
    }

    /// The last thing that happens between a mark and a position, unless it is known that nothing does.
    pub(super) fn last_hit(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        patience: Patience,
    ) -> Result<Option<Hit>, Trouble> {
        let wanted = self.wanted();
        if self.searched.is_empty(&wanted, &from.position, end) {
            tracing::debug!(from = %from.position, %end, "nothing, as is known");
            return Ok(None);
        }
        let hit = self.find_last_hit(from, end, patience)?;
        if hit.is_none() {
            self.searched.add_empty(&wanted, from.position.clone(), end.clone());
        }
        Ok(hit)
    }

    /// Looks for it. A long way is cut into pieces, unless it is one, and so is one on which much happens:
    /// the last of them are looked at first.
    fn find_last_hit(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        patience: Patience,
    ) -> Result<Option<Hit>, Trouble> {
        let found = self.search(from, end, patience)?;
        tracing::debug!(from = %from.position, %end, ?patience, %found, "searched");
        match found {
            Found::Hit(hit) => {
                // The next one is near.
                self.history.add(from.clone());
                Ok(Some(hit))
            }
            Found::Nothing => Ok(None),
            Found::TooMuch(addr) => self.last_of_many(from, end, Addr(addr), 1),
            Found::TooLong => {
                let mut pieces = vec![(from.clone(), end.clone())];
                for (mark, name) in self.strides(from, end, CHECKPOINT_EVERY)? {
                    self.mark_on_way(&mark, end, &name);
                    if let Some((_, end)) = pieces.last_mut() {
                        *end = mark.position.clone();
                    }
                    pieces.push((mark, name));
                }
                while let Some((mark, end)) = pieces.pop() {
                    if let Some(hit) = self.last_hit(&mark, &end, Patience::FewHits)? {
                        return Ok(Some(hit));
                    }
                }
                Ok(None)
            }
        }
    }

    /// The same where much happens, mostly with a task at this address. `events`: how much of the way is cut
    /// off at its end.
    fn last_of_many(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        addr: Addr,
        events: u64,
    ) -> Result<Option<Hit>, Trouble> {
        if let Some(mark) = self.event_between(&from.position, end, events)? {
            return match self.last_hit(&mark, end, Patience::FewHits)? {
                None => self.last_of_many(from, &mark.position, addr, events * MORE),
                hit => Ok(hit),
            };
        }
        // The program can count how often it comes there; or behind there, where it would stop at each round
        // of a string instruction: much happens in each of these.
        let live = from.resume()?;
        let behind = live.replica.behind_repeated(addr);
        let (addr, mut rounds) = behind.map_or((addr, ROUNDS), |behind| (behind, 1));
        let mut total = self.arrivals_between(live, &from.position, addr, end)?;
        let mut end = end.clone();
        while total > 2 * rounds
            && let Some((mark, name)) = self.go_to_arrival(from, &end, addr, total - rounds)?
        {
            if let Some(hit) = self.last_hit(&mark, &name, Patience::FewHits)? {
                return Ok(Some(hit));
            }
            (end, total, rounds) = (mark.position, total - rounds, rounds * MORE);
        }
        self.last_hit(from, &end, Patience::Endless)
    }

    /// A mark behind an event of the process that lies between these: so many events before the end, or in
    /// the middle if there are not so many.
    fn event_between(
        &mut self,
        from: &Position,
        end: &Position,
        events: u64,
    ) -> Result<Option<Mark<'t>>, Trouble> {
        let last = if end.legs.is_empty() { end.event.0.saturating_sub(1) } else { end.event.0 };
        let between = last.saturating_sub(from.event.0);
        for back in [events.min(between.div_ceil(2)), 1] {
            let event = EventSeq(last.saturating_sub(back.saturating_sub(1)));
            if event <= from.event {
                continue;
            }
            let mut live = self.travel(&Position::at(event))?;
            let (event, _) = live.replica.done();
            if event > from.event && live.replica.is_at_event() {
                return Ok(Mark::of(&mut live, Position::at(event))?);
            }
        }
        Ok(None)
    }

    /// In front of an image there is the one before it, which has executed it; or nothing.
    fn previous_image(&mut self, begin: &Position) -> Result<Report, Trouble> {
        let image = self.image_of(begin.event);
        if image == 0 {
            let entry = self.world.entry(self.images[0]).map_err(bis_replay::Halt::from)?;
            self.settle(Position::at(entry.seq))?;
            return Ok(Report { tid: self.tid, why: Why::Begin });
        }
        let entry = self.world.entry(self.images[image - 1]).map_err(bis_replay::Halt::from)?;
        self.have_image(image - 1)?;
        self.settle(Position::at(entry.seq))?;
        let Report { tid, .. } = self.run_to_image_end()?;
        let path = self.executable_of(entry.domain).unwrap_or_default();
        Ok(Report { tid, why: Why::Exec(path) })
    }

    /// Goes to the end of the present image, stopping nowhere.
    fn run_to_image_end(&mut self) -> Result<Report, Trouble> {
        let mut live = self.travel(&self.position.clone())?;
        live.replica.set_points(&BTreeSet::new())?;
        live.replica.set_watches(&[])?;
        let stop = self.run_until(&mut live, &Limit { end: true, ..Limit::default() })?;
        let Stop::Before(seq) = stop else { return Err(unexpected(&stop)) };
        let event = live.replica.next_event()?.map(|event| (event.tid, end_of(&event.kind)));
        let (tid, end) = event.unwrap_or((self.tid, None));
        self.position = Position { event: live.replica.done().0, legs: vec![Leg::Before(seq)] };
        (self.live, self.tid) = (live, tid);
        Ok(Report { tid, why: Why::End(end) })
    }

    /// The user stands there from now on.
    pub(super) fn settle(&mut self, position: Position) -> Result<(), Trouble> {
        self.live = self.travel(&position)?;
        let tid = self.standing(&position)?;
        self.tid = self.alive(tid);
        self.position = position;
        Ok(())
    }

    /// This task, or one that is there if it has ended: an event that is done may be a task's end.
    pub(super) fn alive(&mut self, tid: Tid) -> Tid {
        let next = self.live.replica.next_event().ok().flatten().map(|event| event.tid);
        let tasks: Vec<Tid> = self.live.replica.tasks().collect();
        [Some(tid), next]
            .into_iter()
            .flatten()
            .find(|tid| tasks.contains(tid))
            .or(tasks.first().copied())
            .unwrap_or(tid)
    }

    /// Whose place it is where the live replica stands.
    fn standing(&mut self, position: &Position) -> Result<Tid, Trouble> {
        if let Some(Leg::Step { tid, .. }) = position.legs.last() {
            return Ok(*tid);
        }
        let done = self.live.replica.done().1;
        if position.legs.is_empty() {
            return Ok(done);
        }
        Ok(self.live.replica.next_event()?.map_or(done, |event| event.tid))
    }

    fn go_to_hit(&mut self, hit: Hit) -> Result<Report, Trouble> {
        self.settle(hit.position)?;
        if let Some(note) = hit.note {
            self.say_line(&note);
        }
        let Report { tid, why } = hit.report;
        self.tid = tid;
        if matches!(why, Why::Watchpoint { .. }) {
            // In front of the instruction.
            self.step_back(tid, false)?;
        }
        Ok(Report { tid, why })
    }

    /// The last thing that happens between a mark and a position that it leads to.
    fn search(&mut self, from: &Mark<'t>, end: &Position, patience: Patience) -> Result<Found, Trouble> {
        let mut live = from.resume()?;
        let wanted = self.places(&live.replica);
        let mut points = wanted.clone();
        // Nothing must be missed: a mark that does not lead there is no begin of a search.
        let Some(goal) = Goal::from(end, &live, &from.position) else { return Err(no_way(end)) };
        let mut goal = Goal { stops: Some(&wanted), ..goal };
        // In front of the end's event nobody asks for the arrivals by which the end is named: each would be a
        // stop.
        let mut is_near = goal.is_near(&mut live)?;
        if is_near {
            points.extend(end.arrivals());
        }
        // Arrivals that were counted from the event on go on being counted.
        if from.position.event == end.event {
            points.extend(live.replica.traps().all_counts().keys());
        }
        live.replica.set_points(&points)?;
        let mut search = Search {
            own: self.points.watches(),
            way: Way::new(self, &live, from.position.clone()),
            found: self
                .hit_at_begin(&mut live, &from.position)?
                .filter(|hit| hit.position != *end)
                .into_iter()
                .collect(),
            triggers: 0,
            hits: 0,
        };
        let interrupt = self.stopper.interrupt.clone();
        // A checkpoint is due, and waits for an event.
        let mut is_due = false;
        self.alarm.set(CHECKPOINT_EVERY);
        loop {
            let each_event = is_due || self.looks_at_events();
            let told = live.replica.next_event()?.map(Told::of);
            let before = told.as_ref().and_then(|told| told.caught_call(self));
            let limit =
                Limit { signals: true, each_event, before, interrupt: Some(&interrupt), ..Limit::default() };
            let own = Arc::clone(&search.own);
            let Some(stop) = self.toward(&mut live, &mut goal, &own, &limit)? else { break };
            if stop == Stop::Interrupted {
                let is_long = live.replica.done().0 == from.position.event;
                if is_due && is_long && matches!(patience, Patience::Short) {
                    self.alarm.clear();
                    return Ok(Found::TooLong);
                }
                is_due = !is_due;
                self.alarm.set(if is_due { EVENT_AWAITED } else { CHECKPOINT_EVERY });
                continue;
            }
            if !is_near && goal.is_near(&mut live)? {
                is_near = true;
                points.extend(end.arrivals());
                live.replica.set_points(&points)?;
            }
            // At the end, only what has changed watched bytes is behind: the user stands right after that.
            let is_end = goal.is_reached(&mut live)?;
            if is_end && !matches!(stop, Stop::Event(_) | Stop::Watched(..)) {
                break;
            }
            if let Stop::Event(_) = stop
                && is_due
                && !is_end
            {
                self.save(&mut live)?;
                is_due = false;
                self.alarm.set(CHECKPOINT_EVERY);
            }
            if matches!(stop, Stop::Event(_)) && self.caught_calls != super::Catch::None {
                // Calls of text that was patched by the event.
                points.extend(self.places(&live.replica));
                live.replica.set_points(&points)?;
            }
            self.look_at(&mut live, &mut search, stop, told.filter(|_| !is_end))?;
            if is_end {
                break;
            }
            if search.hits > HITS_MAX && !matches!(patience, Patience::Endless) {
                self.alarm.clear();
                let tid = live.replica.next_event()?.map_or(Tid(0), |event| event.tid);
                let addr = live.replica.registers(tid).map_or(0, |registers| registers.rip);
                return Ok(Found::TooMuch(addr));
            }
        }
        self.alarm.clear();
        let last = search.found.last().cloned();
        self.hits = Some(Hits { wanted: self.wanted(), hits: search.found });
        Ok(last.map_or(Found::Nothing, Found::Hit))
    }

    /// What a stop in a search is to the user.
    fn look_at(
        &mut self,
        live: &mut Live<'t>,
        search: &mut Search,
        stop: Stop,
        told: Option<Told>,
    ) -> Result<(), Trouble> {
        let hit = match stop {
            Stop::Event(seq) => {
                search.triggers = 0;
                self.event_hit(live, &mut search.way, told, seq)
            }
            Stop::Point(tid, _) | Stop::Stepped(tid) => {
                let rip = live.replica.registers(tid).map_or(0, |registers| registers.rip);
                let report = self.breakpoint_hit(live, tid, Addr(rip));
                if report.is_none() {
                    Self::was_false(&self.points, live, &mut search.way, Addr(rip))?;
                }
                report.map(|report| Hit {
                    position: search.way.at_point(live, Addr(rip)),
                    report,
                    note: None,
                })
            }
            Stop::Watched(tid, pieces) => {
                // Those of a leg come first.
                let watches = live.replica.traps().watches();
                let touched = |number: &usize| {
                    let watch = watches.get(*number)?.without_register();
                    search.own.iter().position(|own| own.without_register() == watch)
                };
                let pieces: Vec<usize> = pieces.iter().filter_map(touched).collect();
                if pieces.is_empty() {
                    return Ok(());
                }
                search.triggers += 1;
                let asker = &mut Asker { replica: &live.replica, target: &self.target, tid };
                let (found, now) = self.points.watchpoint(Some(&pieces), &search.way.values, asker);
                search.way.values = now;
                found.map(|(kind, addr, _)| {
                    let (event, _) = live.replica.done();
                    let from = &search.way.from;
                    let begin = if event == from.event { from.clone() } else { Position::at(event) };
                    let leg = Leg::Trigger { watches: search.own.clone(), n: search.triggers };
                    Hit::new(begin.then(leg), tid, Why::Watchpoint { kind, addr })
                })
            }
            Stop::Before(seq) => self.before_hit(live, seq)?,
            stop => return Err(unexpected(&stop)),
        };
        search.hits += u64::from(hit.is_some());
        search.found.extend(hit);
        if search.found.len() > 2 * HITS_KEPT {
            search.found.drain(..HITS_KEPT);
        }
        Ok(())
    }

    /// The user's breakpoint at which this task stands, or the call that it makes there or has left.
    fn breakpoint_hit(&self, live: &Live<'t>, tid: Tid, addr: Addr) -> Option<Report> {
        let asker = &mut Asker { replica: &live.replica, target: &self.target, tid };
        if let Some(point) = self.points.breakpoint_at(addr, asker).filter(|point| point.commands.is_empty())
        {
            let is_hardware = point.kind == crate::protocol::command::PointKind::Hardware;
            return Some(Report { tid, why: Why::Breakpoint { is_hardware } });
        }
        self.hooked_call(&live.replica, tid, addr).map(|why| Report { tid, why })
    }

    /// What is to be told of an event whose task is at its place.
    fn before_hit(&mut self, live: &mut Live<'t>, seq: EventSeq) -> Result<Option<Hit>, Trouble> {
        let Some(event) = live.replica.next_event()? else { return Ok(None) };
        let tid = event.tid;
        let why = match &event.kind {
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
            let asker = &mut Asker { replica: &live.replica, target: &self.target, tid };
            let (found, now) = self.points.watchpoint(None, &way.values, asker);
            way.values = now;
            if let Some((kind, addr, _)) = found {
                let report = Report { tid, why: Why::Watchpoint { kind, addr } };
                return Some(Hit { position, report, note: self.others.take_change() });
            }
        }
        let (tid, why) = told.and_then(|told| told.why(self, tid))?;
        Some(Hit::new(position, tid, why))
    }

    /// One instruction of this task back, with everything that has happened since. With `is_told`, watched
    /// bytes that it changes are told of, and breakpoints.
    fn step_back(&mut self, tid: Tid, is_told: bool) -> Result<Report, Trouble> {
        let before = self.points.values(&self.live.replica);
        let Some(position) = self.position_before(tid)? else {
            let entry = self.world.entry(self.images[self.image_of(self.position.event)]);
            let entry = entry.map_err(bis_replay::Halt::from)?;
            if self.image_of(entry.seq) > 0 && is_told {
                return self.previous_image(&Position::at(entry.seq));
            }
            self.settle(Position::at(entry.seq))?;
            return Ok(Report { tid: self.tid, why: Why::Begin });
        };
        self.position = position;
        self.tid = tid;
        // A client that has not heard of a change takes the next one for none.
        let asker = &mut Asker { replica: &self.live.replica, target: &self.target, tid };
        let changed = self.points.watchpoint(None, &before, asker).0.filter(|_| is_told);
        let why = changed.map_or(Why::Step, |(kind, addr, _)| Why::Watchpoint { kind, addr });
        Ok(Report { tid, why })
    }

    /// Goes to a place.
    ///
    /// # Errors
    /// Where there is no such place in this process; the session stays where it was.
    pub fn seek(&mut self, position: &Position) -> Result<Report, Trouble> {
        let position = self.exact(position)?;
        self.settle(position)?;
        self.position = self.own_name();
        Ok(Report { tid: self.tid, why: Why::Arrived })
    }

    /// The name of the user's position, which may have been given by an event that comes long before.
    fn own_name(&self) -> Position {
        let (event, _) = self.live.replica.done();
        if self.position.legs.is_empty()
            && let Some((next, true)) = self.live.replica.underway()
        {
            return Position::at(event).then(Leg::Before(next.seq));
        }
        let traps = self.live.replica.traps();
        match self.position.legs.last() {
            Some(Leg::Arrive { addr, .. }) if event != self.position.event => match traps.arrivals(*addr) {
                0 => Position::at(event),
                n => Position::at(event).then(Leg::Arrive { addr: *addr, n }),
            },
            _ => self.position.clone(),
        }
    }

    /// Does something happen between these that the user wants to know of? The clock is not exact: the place
    /// that it has chosen may be behind where the program was stopped.
    fn is_passed(&mut self, from: &Mark<'t>, end: &Position) -> Result<bool, Trouble> {
        if from.position == *end
            || self.places(&self.live.replica).is_empty() && !self.points.has_watchpoints()
        {
            return Ok(false);
        }
        Ok(match self.search(from, end, Patience::FewHits)? {
            // Where it begins the user has been.
            Found::Hit(hit) => hit.position != from.position,
            Found::Nothing => false,
            Found::TooMuch(_) | Found::TooLong => true,
        })
    }

    /// The user has stopped the program where it has no name: goes to a place nearby, which has one.
    pub(super) fn stop_nearby(&mut self, way: &Way) -> Result<Report, Trouble> {
        let ran = self.live.replica.traps().ran_for();
        let (event, _) = self.live.replica.done();
        let begin = if way.from.event == event { way.from.clone() } else { Position::at(event) };
        // Somewhere in front of the next event.
        let next = self.live.replica.next_event()?.map(|event| event.seq);
        let end = Position::at(next.unwrap_or(event));
        let begin = self.exact(&begin)?;
        let mut live = self.travel(&begin)?;
        let first = Mark::of(&mut live, begin)?;
        let mut here = first.clone();
        let mut hint = None;
        while let Some(mark) = &here {
            let left = ran.saturating_sub(mark.ran);
            if left < NEARBY {
                break;
            }
            match self.stride(mark, &end, left.min(CHECKPOINT_EVERY), &mut hint)? {
                Stride::Mark(next, _) => {
                    self.history.add(next.clone());
                    here = Some(next);
                }
                Stride::End | Stride::Nameless => break,
            }
        }
        if let (Some(from), Some(mark)) = (&first, here) {
            if self.is_passed(from, &mark.position)? {
                self.live = from.resume()?;
                self.position = from.position.clone();
                return self.forward(false);
            }
            self.live = mark.resume()?;
            self.position = mark.position;
        }
        let tid = self.live.replica.next_event()?.map_or(self.tid, |event| event.tid);
        Ok(Report { tid, why: Why::Interrupted })
    }
}
