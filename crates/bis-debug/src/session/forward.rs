//! Forward: until something happens that the user wants to know.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bis_replay::{Halt, Limit, Piece, Stop};
use bis_trace::{
    event::{Effect, Event, EventKind, TaskEnd},
    types::{Addr, EventSeq, Tid},
};

use super::{
    CHECKPOINT_EVERY, Live, Report, Session, Trouble, Why, end_of,
    history::Mark,
    place::{Leg, Position},
    points::{Asker, Points, Values},
    range::STEPS,
    source::Further,
    trail::{Due, Trail},
    unexpected,
};

/// How long an event is waited for at which a checkpoint can be made, or the program be stopped for the user.
pub(super) const EVENT_AWAITED: Duration = Duration::from_millis(60);

/// What of the way is known: where it began, and what was counted then.
pub(super) struct Way {
    pub from: Position,
    arrivals: BTreeMap<Addr, u64>,
    triggers: u64,
    watches: Arc<[Piece]>,
    pub values: Values,
    /// How often a condition did not hold since this event, and where.
    falses: (EventSeq, BTreeMap<Addr, u64>),
    /// What is counted for marks in a long computation.
    pub trail: Option<Trail>,
    /// The last event behind which the replica has stopped for nothing that the user was told of, since the
    /// way began.
    pub was_stopped_in: Option<EventSeq>,
    /// Behind this event nothing can be counted for marks.
    pub given_up: Option<EventSeq>,
    /// After so long a mark is due.
    pub wait: Duration,
}

/// So many stops cost less than it does to let the program test a condition by itself.
const FALSES: u64 = 16;

impl Way {
    pub(super) fn new(session: &Session<'_>, live: &Live<'_>, from: Position) -> Way {
        let traps = live.replica.traps();
        let watches = session.points.watches();
        Way {
            from,
            arrivals: traps.all_counts(),
            triggers: if traps.watches() == &*watches { traps.triggers() } else { 0 },
            values: session.points.values(&live.replica),
            falses: (EventSeq(0), BTreeMap::new()),
            trail: None,
            was_stopped_in: None,
            given_up: None,
            wait: CHECKPOINT_EVERY,
            watches,
        }
    }

    /// The program tests no condition by itself any more.
    pub(super) fn forget_falses(&mut self) {
        self.falses = (EventSeq(0), BTreeMap::new());
    }

    /// The position of a replica that has stopped at a breakpoint.
    pub(super) fn at_point(&self, live: &Live<'_>, addr: Addr) -> Position {
        let (event, _) = live.replica.done();
        let traps = live.replica.traps();
        let arrivals = traps.arrivals(addr);
        if event == self.from.event && !traps.has_all_arrivals(addr) {
            let n = arrivals - self.arrivals.get(&addr).copied().unwrap_or(0);
            return self.from.then(Leg::Arrive { addr, n });
        }
        let begin = Position::at(event);
        if arrivals == 0 { begin } else { begin.then(Leg::Arrive { addr, n: arrivals }) }
    }

    /// The same at a watchpoint.
    pub(super) fn at_watch(&self, live: &Live<'_>) -> Position {
        let (event, _) = live.replica.done();
        let traps = live.replica.traps();
        let watches = Arc::clone(&self.watches);
        if event == self.from.event && !traps.has_all_triggers() {
            let n = traps.triggers() - self.triggers;
            return self.from.then(Leg::Trigger { watches, n });
        }
        Position::at(event).then(Leg::Trigger { watches, n: traps.triggers() })
    }
}

impl<'t> Session<'t> {
    /// A replica has stopped at a breakpoint whose condition does not hold. Where that happens often between
    /// two events, the program tests it by itself from here on.
    pub(super) fn was_false(
        points: &Points,
        live: &mut Live<'t>,
        way: &mut Way,
        addr: Addr,
    ) -> Result<(), Trouble> {
        let (event, _) = live.replica.done();
        if way.falses.0 != event {
            way.falses = (event, BTreeMap::new());
        }
        let count = way.falses.1.entry(addr).or_default();
        *count += 1;
        // What the program cannot test is asked of it a few times only, as the text around may change.
        if *count >= FALSES
            && count.is_power_of_two()
            && let Some(predicate) = points.predicate(addr)
        {
            live.replica.count_where(addr, &predicate)?;
        }
        Ok(())
    }

    /// Goes forward until something happens.
    ///
    /// # Errors
    /// Where the replica cannot go on; the session stays where it was if it can.
    pub fn go(&mut self) -> Report {
        match self.exec_return.take() {
            Some(report) => report,
            None => self.moving(|session| session.forward(true)),
        }
    }

    /// Lets a task execute one instruction, or as many as lie in this range. None: no task of this id.
    pub fn step(&mut self, tid: Tid, range: Option<(Addr, Addr)>) -> Report {
        match self.exec_return.take() {
            Some(report) => report,
            None => self.moving(|session| session.step_range(tid, range)),
        }
    }

    /// What is heard of the program while the user goes forward; and what goes wrong becomes a report.
    pub(super) fn moving(
        &mut self,
        work: impl FnOnce(&mut Session<'t>) -> Result<Report, Trouble>,
    ) -> Report {
        self.exec_return = None;
        let report = work(self);
        self.alarm.clear();
        self.host.is_audible = false;
        let mut report = report.unwrap_or_else(|trouble| {
            let why = match &trouble {
                Trouble::Asked => Why::Interrupted,
                Trouble::Halt(_) => Why::Broken(trouble.text()),
            };
            Report { tid: self.tid, why }
        });
        report.tid = self.alive(report.tid);
        self.tid = report.tid;
        report
    }

    /// The live replica, to be moved on, with the user's points in it.
    fn arm(&mut self) -> Result<(), Trouble> {
        let points = self.places(&self.live.replica);
        self.live.replica.set_points(&points)?;
        let watches = self.points.watches();
        self.live.replica.set_watches(&watches)?;
        Ok(())
    }

    pub(super) fn forward(&mut self, is_audible: bool) -> Result<Report, Trouble> {
        if let Some(end) = self.at_end(None)? {
            return Ok(end);
        }
        self.host.is_audible = is_audible;
        self.run_on()
    }

    /// Lets the live replica run from where it stands until something happens that the user is told of.
    pub(super) fn run_on(&mut self) -> Result<Report, Trouble> {
        self.arm()?;
        self.live.replica.acknowledge();
        let mut way = Way::new(self, &self.live, self.position.clone());
        let mut due = Due::Not;
        self.alarm.set(CHECKPOINT_EVERY);
        loop {
            let each = due != Due::Not || self.looks_at_events();
            if let Some(report) = self.leg_forward(&mut way, each, &mut due)? {
                self.live.replica.end_counts()?;
                return Ok(report);
            }
        }
    }

    /// Does the user stand where the process ends, or where the replica cannot go on? There it stays. Where
    /// it executes the next program, that begins. Where the program still runs, it goes on first: for `step`,
    /// see [`Session::further`].
    fn at_end(&mut self, step: Option<(Tid, Option<(Addr, Addr)>)>) -> Result<Option<Report>, Trouble> {
        if let Some(report) = &self.live.broken {
            return Ok(Some(report.clone()));
        }
        if self.live.replica.next_event()?.is_none()
            && let Further::Stopped(report) = self.further(step)?
        {
            return Ok(Some(report));
        }
        let is_last = self.live.replica.tasks().count() <= 1;
        let is_there = self.live.replica.underway().is_some_and(|(_, is_there)| is_there);
        let Some(event) = self.live.replica.next_event()? else {
            return Ok(Some(Report { tid: self.tid, why: Why::End(None) }));
        };
        let end = match &event.kind {
            EventKind::TaskExit { status, .. } if is_last && is_there => *status,
            _ => return Ok(None),
        };
        // Who comes here backwards has passed the stop in front of this end.
        if let TaskEnd::Exec(domain) = end
            && let Some(image) = self.images.iter().position(|image| *image == domain)
        {
            return self.next_image(image).map(Some);
        }
        Ok(Some(Report { tid: self.tid, why: Why::End(Some(end)) }))
    }

    /// Has every event to be looked at?
    pub(super) fn looks_at_events(&self) -> bool {
        self.points.has_watchpoints()
            || self.caught_calls != super::Catch::None
            || self.catches_forks
            || self.tells_threads
            || self.intervals.is_on()
    }

    /// Lets the live replica run to its next stop. None: it is none for the user.
    fn leg_forward(
        &mut self,
        way: &mut Way,
        each_event: bool,
        due: &mut Due,
    ) -> Result<Option<Report>, Trouble> {
        let interrupt = self.stopper.interrupt.clone();
        let event = self.peek()?;
        let limit = Limit {
            signals: true,
            end: true,
            before: event.as_ref().and_then(|event| event.caught_call(self)),
            each_event,
            interrupt: Some(&interrupt),
            ..Limit::default()
        };
        let stop = self.advance_live(&limit);
        let stop = match stop {
            Ok(stop) => stop,
            Err(halt) => return Ok(Some(self.broken(halt))),
        };
        match stop {
            Stop::Interrupted => {
                interrupt.take();
                if self.stopper.take() {
                    return self.interrupted(way).map(Some);
                }
                *due = match self.next_due(*due, way) {
                    Err(Trouble::Asked) => return self.interrupted(way).map(Some),
                    due => due?,
                };
                self.alarm.set(if *due == Due::Not { way.wait } else { EVENT_AWAITED });
                Ok(None)
            }
            Stop::Event(_) => {
                if *due != Due::Not {
                    self.save_live()?;
                    *due = Due::Not;
                    way.wait = CHECKPOINT_EVERY;
                    self.alarm.set(way.wait);
                }
                self.at_event(way, event)
            }
            stop => self.at_stop(way, stop, due),
        }
    }

    /// What the event that comes next is.
    fn peek(&mut self) -> Result<Option<Told>, Trouble> {
        Ok(self.live.replica.next_event()?.map(Told::of))
    }

    pub(super) fn advance_live(&mut self, limit: &Limit<'_>) -> Result<Stop, Halt> {
        let Session { host, points, others, live, .. } = self;
        others.advance(host, points, live, limit)
    }

    pub(super) fn save_live(&mut self) -> Result<(), Trouble> {
        let Session { live, history, .. } = self;
        let (event, _) = live.replica.done();
        if live.replica.is_at_event()
            && !history.has_event(event)
            && let Some(mark) = Mark::of(live, Position::at(event))?
        {
            history.add(mark);
        }
        Ok(())
    }

    /// The user has asked it to stop, somewhere in a computation: the next place that has a name will do.
    fn interrupted(&mut self, way: &mut Way) -> Result<Report, Trouble> {
        let interrupt = self.stopper.interrupt.clone();
        self.alarm.set(EVENT_AWAITED);
        let limit = Limit {
            each_event: true,
            signals: true,
            end: true,
            interrupt: Some(&interrupt),
            ..Limit::default()
        };
        match self.advance_live(&limit)? {
            Stop::Event(event) => {
                self.position = Position::at(event);
                let tid = self.live.replica.done().1;
                Ok(Report { tid, why: Why::Interrupted })
            }
            Stop::Interrupted => {
                interrupt.take();
                self.stop_nearby(way)
            }
            stop => match self.at_stop(way, stop, &mut Due::Not)? {
                Some(report) => Ok(report),
                None => self.interrupted(way),
            },
        }
    }

    /// At a stop that is no event.
    fn at_stop(&mut self, way: &mut Way, stop: Stop, due: &mut Due) -> Result<Option<Report>, Trouble> {
        match stop {
            Stop::Point(tid, addr) => {
                let (why, printed) = {
                    let asker = &mut Asker { replica: &self.live.replica, target: &self.target, tid };
                    match self.points.breakpoint_at(addr, asker) {
                        None => (self.hooked_call(&self.live.replica, tid, addr), Vec::new()),
                        Some(point) => {
                            let printed = asker.print(&point.commands);
                            let is_hardware = point.kind == crate::protocol::command::PointKind::Hardware;
                            let stops = point.commands.is_empty();
                            (stops.then_some(Why::Breakpoint { is_hardware }), printed)
                        }
                    }
                };
                if !printed.is_empty() {
                    self.printed(tid, printed);
                }
                let is_exit = |exits: &super::range::Exits| exits.tid == tid && exits.places.contains(&addr);
                let why = why.or_else(|| self.exits.as_ref().is_some_and(is_exit).then_some(Why::Step));
                let Some(why) = why else {
                    if !self.mark_at_point(way, addr, due)? {
                        Self::was_false(&self.points, &mut self.live, way, addr)?;
                    }
                    return Ok(None);
                };
                self.position = way.at_point(&self.live, addr);
                Ok(Some(Report { tid, why }))
            }
            Stop::Watched(tid, pieces) => {
                let asker = &mut Asker { replica: &self.live.replica, target: &self.target, tid };
                let (found, now) = self.points.watchpoint(Some(&pieces), &way.values, asker);
                way.values = now;
                let Some((kind, addr, _)) = found else {
                    self.mark_at_stop(way, way.at_watch(&self.live), due)?;
                    return Ok(None);
                };
                self.position = way.at_watch(&self.live);
                Ok(Some(Report { tid, why: Why::Watchpoint { kind, addr } }))
            }
            Stop::Before(event) => self.before(event),
            Stop::Cut if let Some((tid, addr)) = self.unseen_point() => {
                self.live.replica.acknowledge_arrival(tid);
                self.at_stop(way, Stop::Point(tid, addr), due)
            }
            Stop::Cut if self.is_live() => match self.further(None)? {
                Further::Events => Ok(None),
                Further::Nothing => self.at_stop(way, Stop::End, due),
                Further::Stopped(report) => {
                    self.position = Position::at(self.live.replica.done().0);
                    Ok(Some(report))
                }
            },
            Stop::End | Stop::Cut => {
                self.position = Position::at(self.live.replica.done().0);
                Ok(Some(Report { tid: self.tid, why: Why::End(None) }))
            }
            stop => Err(unexpected(&stop)),
        }
    }

    /// A task stands where a signal takes effect, or where the image ends.
    fn before(&mut self, seq: EventSeq) -> Result<Option<Report>, Trouble> {
        let Some(event) = self.live.replica.next_event()? else { return Ok(None) };
        let tid = event.tid;
        let (signal, end) = match &event.kind {
            EventKind::Signal(signal) if signal.is_silent() => return Ok(None),
            EventKind::Signal(signal) => (Some(signal.signal), None),
            kind => (None, end_of(kind)),
        };
        let nr = call_of(&event.kind);
        let position = Position { event: self.live.replica.done().0, legs: vec![Leg::Before(seq)] };
        if let Some(nr) = nr {
            self.position = position;
            return Ok(Some(Report { tid, why: Why::Call { nr, is_entry: true } }));
        }
        if let Some(signal) = signal {
            if self.passed_signals.contains(&signal) {
                return Ok(None);
            }
            self.position = position;
            return Ok(Some(Report { tid, why: Why::Signal(signal) }));
        }
        if let Some(TaskEnd::Exec(domain)) = end
            && let Some(image) = self.images.iter().position(|image| *image == domain)
        {
            return self.next_image(image).map(Some);
        }
        self.position = position;
        Ok(Some(Report { tid, why: Why::End(end) }))
    }

    /// The process goes on in another program.
    fn next_image(&mut self, image: usize) -> Result<Report, Trouble> {
        self.have_image(image)?;
        let call = self.caught_exec();
        let entry = self.world.entry(self.images[image]).map_err(Halt::from)?;
        let position = Position::at(entry.seq);
        self.live = self.travel(&position)?;
        self.position = position;
        let tid = self.live.replica.done().1;
        self.exec_return = call.map(|nr| Report { tid, why: Why::Call { nr, is_entry: false } });
        let path = self.executable_of(entry.domain).unwrap_or_default();
        Ok(Report { tid, why: Why::Exec(path) })
    }

    /// The call by which the program is about to execute another one, if calls like it are caught.
    fn caught_exec(&self) -> Option<u64> {
        let registers = self.live.replica.registers(self.live.replica.tasks().next()?).ok()?;
        let is_exec = |nr: &u64| [libc::SYS_execve, libc::SYS_execveat].contains(&nr.cast_signed());
        [registers.rax, registers.orig_rax].into_iter().filter(is_exec).find(|nr| self.caught_calls.has(*nr))
    }

    /// An event is done.
    fn at_event(&mut self, way: &mut Way, event: Option<Told>) -> Result<Option<Report>, Trouble> {
        let (seq, tid) = self.live.replica.done();
        self.keep_in_intervals()?;
        if self.points.has_watchpoints() {
            let asker = &mut Asker { replica: &self.live.replica, target: &self.target, tid };
            let (found, now) = self.points.watchpoint(None, &way.values, asker);
            way.values = now;
            if let Some((kind, addr, _)) = found {
                self.position = Position::at(seq);
                if let Some(who) = self.others.take_change() {
                    self.say_line(&who);
                }
                return Ok(Some(Report { tid, why: Why::Watchpoint { kind, addr } }));
            }
        }
        if self.caught_calls != super::Catch::None {
            // Calls of text that was patched by the event.
            let points = self.places(&self.live.replica);
            self.live.replica.set_points(&points)?;
        }
        let Some((tid, why)) = event.and_then(|event| event.why(self, tid)) else { return Ok(None) };
        self.position = Position::at(seq);
        Ok(Some(Report { tid, why }))
    }

    fn step_range(&mut self, tid: Tid, range: Option<(Addr, Addr)>) -> Result<Report, Trouble> {
        if let Some(end) = self.at_end(Some((tid, range)))? {
            return Ok(end);
        }
        // Points that were there stay: their arrivals go on being counted.
        let mut points = self.places(&self.live.replica);
        points.extend(self.live.replica.traps().all_counts().keys());
        self.live.replica.set_points(&points)?;
        let watches = self.points.watches();
        self.live.replica.set_watches(&watches)?;
        self.live.replica.acknowledge();
        self.host.is_audible = true;
        let mut way = Way::new(self, &self.live, self.position.clone());
        let limit = Limit { signals: true, end: true, ..Limit::default() };
        let (mut exits, mut count) = (None, 0);
        loop {
            let from = self.position.clone();
            match self.step_live((tid, range), &limit, &mut way)? {
                Ok(()) => {}
                Err(report) => return Ok(report),
            }
            let (event, _) = self.live.replica.done();
            let base = if event == from.event { from } else { Position::at(event) };
            // Behind an event that is the step, nothing was executed.
            let is_behind = self.live.replica.is_at_event() && event != base.event;
            self.position = if is_behind || self.live.replica.is_at_event() {
                Position::at(event)
            } else {
                base.then(Leg::Step { tid, n: 1 })
            };
            let registers = self.live.replica.registers(tid);
            let rip = registers.map_or(0, |registers| registers.rip);
            if let Some(why) = self.hooked_call(&self.live.replica, tid, Addr(rip)) {
                return Ok(Report { tid, why });
            }
            let in_range = range.is_some_and(|(start, end)| (start..end).contains(&Addr(rip)));
            if !in_range || self.points.breakpoints().contains(&Addr(rip)) {
                return Ok(Report { tid, why: Why::Step });
            }
            if self.stopper.take() {
                return Ok(Report { tid, why: Why::Interrupted });
            }
            count += 1;
            if count == STEPS {
                exits = range.and_then(|range| self.exits_of(tid, range));
            }
            let Some(exits) = exits.clone() else { continue };
            let report = self.run_to_exit(exits)?;
            let rip = self.live.replica.registers(tid).map_or(0, |registers| registers.rip);
            let in_range = range.is_some_and(|(start, end)| (start..end).contains(&Addr(rip)));
            if report.why != Why::Step || !in_range {
                return Ok(report);
            }
            way = Way::new(self, &self.live, self.position.clone());
        }
    }

    /// One instruction of this task. The inner error is what stopped it before.
    fn step_live(
        &mut self,
        (tid, range): (Tid, Option<(Addr, Addr)>),
        limit: &Limit<'_>,
        way: &mut Way,
    ) -> Result<Result<(), Report>, Trouble> {
        loop {
            let mut event = self.peek()?;
            if event.is_none() && self.is_live() {
                if let Further::Stopped(report) = self.further(Some((tid, range)))? {
                    self.position = Position::at(self.live.replica.done().0);
                    return Ok(Err(report));
                }
                event = self.peek()?;
            }
            let before = event.as_ref().and_then(|event| event.caught_call(self));
            let is_own = event.as_ref().is_some_and(|event| event.tid == tid);
            let is_its_step = event.as_ref().is_some_and(|event| event.is_step);
            let limit = Limit { step: is_own, each_event: true, before, ..*limit };
            let stop = match self.advance_live(&limit) {
                Ok(stop) => stop,
                Err(halt) => return Ok(Err(self.broken(halt))),
            };
            match stop {
                Stop::Stepped(_) => return Ok(Ok(())),
                Stop::Event(_) => {
                    if let Some(report) = self.at_event(way, event)? {
                        return Ok(Err(report));
                    }
                    if is_own && is_its_step {
                        return Ok(Ok(()));
                    }
                }
                Stop::Interrupted => {
                    self.stopper.interrupt.take();
                    if self.stopper.take() {
                        return Ok(Err(Report { tid, why: Why::Interrupted }));
                    }
                }
                // A breakpoint that the client does not have in now, or whose condition does not hold.
                stop => {
                    let is_step = is_own && matches!(stop, Stop::Watched(..));
                    if let Some(report) = self.at_stop(way, stop, &mut Due::Not)? {
                        return Ok(Err(report));
                    }
                    if is_step {
                        return Ok(Ok(()));
                    }
                }
            }
        }
    }

    /// Goes forward to the end of the process, stopping nowhere.
    pub(super) fn run_to_end(&mut self) -> Result<Report, Trouble> {
        self.without_program(Session::run_to_end_of_trace)
    }

    fn run_to_end_of_trace(&mut self) -> Result<Report, Trouble> {
        let points = std::mem::take(&mut self.points);
        let passed = std::mem::take(&mut self.passed_signals);
        let caught = std::mem::take(&mut self.caught_calls);
        let told = (std::mem::take(&mut self.catches_forks), std::mem::take(&mut self.tells_threads));
        self.passed_signals = (1..=64).map(bis_trace::types::Signal).collect();
        let end = loop {
            match self.forward(false) {
                Ok(Report { why: Why::Exec(_), .. }) => {}
                end => break end,
            }
        };
        (self.points, self.passed_signals, self.caught_calls) = (points, passed, caught);
        (self.catches_forks, self.tells_threads) = told;
        end
    }
}

/// The number of a whole system call.
pub(super) fn call_of(kind: &EventKind) -> Option<u64> {
    match kind {
        EventKind::Syscall { nr, .. } => Some(*nr),
        _ => None,
    }
}

/// What may be told of an event, kept while it is done.
pub(super) struct Told {
    seq: EventSeq,
    tid: Tid,
    is_step: bool,
    call: Option<(u64, Option<bool>)>,
    fork: Option<Tid>,
    new_task: Option<Tid>,
}

impl Told {
    pub(super) fn of(event: &Event) -> Told {
        let Event { seq, tid, kind, .. } = event;
        let call = match kind {
            EventKind::Syscall { nr, .. } => Some((*nr, None)),
            EventKind::SyscallEnter { nr, .. } => Some((*nr, Some(true))),
            EventKind::SyscallExit { nr, .. } => Some((*nr, Some(false))),
            _ => None,
        };
        let effects = match kind {
            EventKind::Syscall { outcome, .. } | EventKind::SyscallExit { outcome, .. } => {
                &outcome.effects[..]
            }
            _ => &[],
        };
        let fork = effects.iter().find_map(|effect| match effect {
            Effect::Fork { tid, .. } => Some(*tid),
            _ => None,
        });
        let new_task = effects.iter().find_map(|effect| match effect {
            Effect::NewTask { tid, .. } => Some(*tid),
            _ => None,
        });
        let is_step = super::travel::is_step(kind);
        Told { seq: *seq, tid: *tid, is_step, call, fork, new_task }
    }

    /// This event, if it is a whole system call that is caught: it is told of at its place, too, where the
    /// call is entered.
    pub(super) fn caught_call(&self, session: &Session<'_>) -> Option<EventSeq> {
        matches!(self.call, Some((nr, None)) if session.caught_calls.has(nr)).then_some(self.seq)
    }

    /// What is told of it when it is done, and of which task; `tid` is that of the event.
    pub(super) fn why(&self, session: &Session<'_>, tid: Tid) -> Option<(Tid, Why)> {
        // A child that has its parent's memory until it executes a program is a task of the same domain.
        let vfork = self.new_task.filter(|task| session.is_other_process(*task));
        if session.catches_forks
            && let Some(pid) = self.fork.or(vfork)
        {
            return Some((tid, Why::Fork { pid, is_vfork: vfork.is_some() }));
        }
        if let Some((nr, entry)) = self.call.filter(|(nr, _)| session.caught_calls.has(*nr)) {
            return Some((tid, Why::Call { nr, is_entry: entry.unwrap_or(false) }));
        }
        if !session.tells_threads {
            return None;
        }
        self.new_task.map(|task| (task, Why::ThreadBegins))
    }
}
