//! One step back, and the names of places that were found so.
//!
//! A replica is run to just before where the user stands, and copied on the way, ever closer
//! ([`super::climb`]); from the last copy it goes on instruction by instruction, each of which is remembered:
//! a [`Window`]. Further steps back need only that.
//!
//! A place in a window has a name at once that says how many steps in front of the window's end it is. Its
//! *exact* name says how to get there by going forward alone: so many steps behind the nearest arrival in the
//! window at the address by which the end is named. Where there is none, it takes a run from the mark before:
//! how often tasks arrive at the place's address up to the end of the window, less those that are in the
//! window from there on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bis_replay::{Checkpoint, Limit, Stop};
use bis_trace::{
    event::{Event, EventKind, SignalPoint},
    types::{Addr, EventSeq, Tid},
};

use super::{
    Live, Session, Trouble,
    climb::{Climb, Rung},
    goal::Goal,
    history::Mark,
    passed::Passed,
    place::{Leg, Position},
    travel::is_step,
    unexpected,
};

/// Steps between two copies in a window.
const COPY_EVERY: usize = 400;

/// How far in front of a place in a window that is gone to a copy is made, where the last one is farther: who
/// steps back does it again.
const NEAR: usize = 24;

/// The most steps that a window has.
const WINDOW_MAX: usize = 100_000;

/// A window with fewer steps is begun as early as the copy before, if that is no more steps in front of the
/// end.
const LONG_ENOUGH: usize = 100;
const NEAR_ENOUGH: usize = 200;

/// Instructions in front of the user's place, each of which is remembered.
#[derive(Debug)]
pub(super) struct Window<'t> {
    /// Copies of the replica: the first at the window's begin, and then one every so many steps.
    copies: Vec<(usize, Checkpoint<'t>, usize)>,
    steps: Vec<Step>,
    /// The mark from which it was gone to.
    from: Mark<'t>,
    /// Where it ends: the user's place when it was made.
    end: Position,
}

impl<'t> Window<'t> {
    /// One in front of this position, without steps as yet, and without the copy with which it begins.
    pub(super) fn new(from: Mark<'t>, end: Position) -> Window<'t> {
        Window { copies: Vec::new(), steps: Vec::new(), from, end }
    }

    /// How many steps it has.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The same, with the copy of a replica that stands where it begins.
    fn begin_at(mut self, copy: Checkpoint<'t>, image: usize) -> Window<'t> {
        // What is far from its end may have been forgotten: then there is another one.
        if self.copies.first().is_none_or(|(at, ..)| *at > 0) {
            self.copies.insert(0, (0, copy, image));
        }
        self
    }

    /// Where the arrivals of an interval are counted from, up to a place in the window.
    fn base(&self, event: EventSeq) -> Position {
        if self.from.position.event == event { self.from.position.clone() } else { Position::at(event) }
    }

    /// The name of the place before a step, if it is in the interval in which the window ends, with an
    /// arrival and some steps behind it: so many steps behind that arrival, or an earlier one at the same
    /// address.
    fn name_by_arrival(&self, index: usize) -> Option<Position> {
        let step = self.steps.get(index)?;
        let (addr, last, prefix, behind) = match self.end.legs.as_slice() {
            [prefix @ .., Leg::Arrive { addr, n }] => (*addr, *n, prefix, 0),
            [prefix @ .., Leg::Arrive { addr, n }, Leg::Step { tid, n: behind }] if *tid == step.tid => {
                (*addr, *n, prefix, *behind)
            }
            _ => return None,
        };
        let is_here = |other: &Step| other.event == self.end.event && other.tid == step.tid;
        let prefix = Position { event: self.end.event, legs: prefix.to_vec() };
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
        let is_arrival = |step: &&Step| step.rip == addr.0 && step.name == Name::Arrival;
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

    /// How often each address comes.
    fn addresses(&self) -> BTreeMap<Addr, u64> {
        let mut seen = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.name == Name::Arrival) {
            *seen.entry(Addr(step.rip)).or_default() += 1;
        }
        seen
    }

    /// On a busy machine the last copy may have been made too early. What is far from the end is not needed.
    fn forget_half(&mut self) {
        let half = self.steps.len() / 2;
        let Some(first) = self.copies.iter().position(|(at, ..)| *at >= half) else { return };
        self.copies.drain(..first);
        let from = self.copies.first().map_or(0, |(at, ..)| *at);
        self.steps.drain(..from);
        self.copies.iter_mut().for_each(|(at, ..)| *at -= from);
    }
}

/// Where the replica stood before one step.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The last event that was done.
    event: EventSeq,
    /// The task that made it.
    tid: Tid,
    /// About to execute this.
    rip: u64,
    name: Name,
    part: Part,
}

/// What the place before a step is called by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    /// The event before: nothing has run since.
    Event,
    /// It is an arrival at its address.
    Arrival,
    /// The task of this event is at its place, to which a call of a hook has brought it.
    Before(EventSeq),
    /// Neither: the next event finds its task there, and has not yet been done.
    None,
}

/// What of an instruction a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Nothing of it: what else an event does.
    None,
    All,
    /// The entry of a system call, which ends with another step.
    Begin,
    /// The end of one.
    End,
}

impl Part {
    fn of(kind: &EventKind) -> Part {
        match kind {
            EventKind::SyscallEnter { .. } => Part::Begin,
            EventKind::SyscallExit { .. } => Part::End,
            kind if is_step(kind) => Part::All,
            _ => Part::None,
        }
    }
}

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

/// A signal takes effect behind a call of a hook, which is an instruction by itself.
fn is_behind_hook(event: &Event) -> bool {
    matches!(&event.kind, EventKind::Signal(signal) if signal.point == SignalPoint::AfterHook && !signal.is_of_text())
}

/// What has come of one step to a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stepped {
    Gone,
    /// The replica stands where it stood.
    Not,
    There,
}

/// How far a replica goes for one step.
fn one_step(live: &mut Live<'_>) -> Result<Limit<'static>, Trouble> {
    let signals = live.replica.next_event()?.is_some_and(is_behind_hook);
    Ok(Limit { step: true, each_event: true, signals, ..Limit::default() })
}

impl<'t> Session<'t> {
    /// Lets the live replica stand one instruction of this task before where it stands; its position. None:
    /// there is none in this image.
    pub(super) fn position_before(&mut self, tid: Tid) -> Result<Option<Position>, Trouble> {
        let mut end = self.position.clone();
        let mut index = self.index_in_window(&end);
        loop {
            if index.is_none() && self.window.as_ref().is_none_or(|window| window.end != end) {
                match self.make_window(&end)? {
                    Some(window) => self.window = Some(window),
                    None => return Ok(None),
                }
            }
            let Some(window) = &self.window else { return Ok(None) };
            let steps = window.steps.get(..index.unwrap_or(window.steps.len())).unwrap_or_default();
            let is_its = |step: &Step| step.tid == tid && step.part != Part::None;
            let mut found = steps.iter().rposition(is_its);
            let mut is_in_call = false;
            if let Some(end) = found.filter(|at| steps[*at].part == Part::End) {
                found = steps[..end].iter().rposition(is_its);
                is_in_call = found.is_none();
            }
            if let Some(found) = found {
                return self.go_in_window(found).map(Some);
            }
            let Some(first) = window.steps.first() else { return Ok(None) };
            // In the interval in which a window begins, only the task runs that makes its first step.
            let (image, event) = (self.image_of(first.event), first.event);
            // It may also begin in the middle of what is executed in place of an instruction: the first of
            // that is in front of it.
            let is_later = first.tid == tid && first.name != Name::Event && !is_in_call;
            let begin = if is_later { self.begin_of_window()? } else { None };
            end = match begin {
                Some(begin) => begin,
                None => match self.last_event_of(image, tid, event)? {
                    Some(last) => Position::at(last),
                    None => return Ok(None),
                },
            };
            (self.window, index) = (None, None);
        }
    }

    /// The last event of a task, up to this one.
    fn last_event_of(
        &mut self,
        image: usize,
        tid: Tid,
        until: EventSeq,
    ) -> Result<Option<EventSeq>, Trouble> {
        let Some(domain) = self.images.get(image) else { return Ok(None) };
        let mut last = None;
        for event in self.world.trace().events(*domain) {
            let event = event.map_err(bis_replay::Halt::from)?;
            if event.seq > until {
                break;
            }
            if event.tid == tid {
                last = Some(event.seq);
            }
        }
        Ok(last)
    }

    /// Where in the window this position is, if it is one of those that were found there.
    fn index_in_window(&self, position: &Position) -> Option<usize> {
        let (known, index) = self.in_window.as_ref()?;
        (known == position && self.window.is_some()).then_some(*index)
    }

    /// The last arrival at one of these addresses in front of the user's place that the window knows, if it
    /// is in the same interval: with its task.
    pub(super) fn last_arrival_in_window(&self, places: &BTreeSet<Addr>) -> Option<(usize, Tid, u64)> {
        let window = self.window.as_ref()?;
        let here = match self.index_in_window(&self.position) {
            None if window.end == self.position => window.steps.len(),
            here => here?,
        };
        // Behind an event, that is told of first.
        let (event, _) = self.live.replica.done();
        for (index, step) in window.steps.get(..here)?.iter().enumerate().rev() {
            if step.event != event || !matches!(step.name, Name::Arrival | Name::None) {
                return None;
            }
            if places.contains(&Addr(step.rip)) {
                return (step.name == Name::Arrival).then_some((index, step.tid, step.rip));
            }
        }
        None
    }

    /// Is the user's place in the window in front of this position, in the same interval, with none of these
    /// addresses on the way?
    pub(super) fn is_closely_before(&self, position: &Position, places: &BTreeSet<Addr>) -> bool {
        let Some(window) = self.window.as_ref().filter(|window| window.end == *position) else {
            return false;
        };
        let Some(here) = self.index_in_window(&self.position) else { return false };
        let is_between = |step: &Step| step.event == position.event && !places.contains(&Addr(step.rip));
        window.steps.get(here..).is_some_and(|steps| steps.iter().all(is_between))
    }

    /// Goes to the place before a step of the window.
    pub(super) fn go_in_window(&mut self, index: usize) -> Result<Position, Trouble> {
        let Some(window) = &mut self.window else { return Err(unknown()) };
        let at = window.copies.partition_point(|(at, ..)| *at <= index).saturating_sub(1);
        let Some((from, copy, image)) = window.copies.get_mut(at) else { return Err(unknown()) };
        let (from, image) = (*from, *image);
        let (replica, company) = copy.resume()?;
        let mut live = Live::new(replica, company, image);
        // The copy may have been made while the program counted.
        live.replica.end_counts()?;
        live.replica.set_points(&BTreeSet::new())?;
        live.replica.set_watches(&[])?;
        let near = index.saturating_sub(NEAR);
        for step in from..index {
            if step == near && step > from {
                let copy = live.replica.checkpoint(&mut live.company)?;
                let window = self.window.as_mut();
                if let (Some(copy), Some(window)) = (copy, window) {
                    window.copies.insert(at + 1, (step, copy, image));
                }
            }
            let limit = one_step(&mut live)?;
            self.run_until(&mut live, &limit)?;
        }
        // The copy from which no step leads there does not know that it has arrived.
        let step = self.window.as_ref().and_then(|window| window.steps.get(index));
        if let Some(step) = step.filter(|step| step.name == Name::Arrival) {
            live.replica.acknowledge_arrival(step.tid);
        }
        self.live = live;
        let position = self.window_position(index);
        self.in_window = Some((position.clone(), index));
        Ok(position)
    }

    /// The position of a step of the window. Its exact name takes a run, and is found when it is needed.
    fn window_position(&self, index: usize) -> Position {
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

    /// The first position in the window that has a name. What is in front of it is no instruction. None:
    /// there is none in front of its end.
    fn begin_of_window(&mut self) -> Result<Option<Position>, Trouble> {
        let steps = self.window.as_ref().map_or(&[][..], |window| &window.steps);
        let Some(first) = steps.iter().position(|step| step.name != Name::None) else { return Ok(None) };
        let position = self.window_position(first);
        self.exact(&position).map(Some)
    }

    /// A position that says how it is reached by going forward alone: one that was found by steps back is
    /// given the number of the arrival.
    pub(super) fn exact(&mut self, position: &Position) -> Result<Position, Trouble> {
        let Some(Leg::Back { n, of }) = position.legs.first() else { return Ok(position.clone()) };
        let of = self.exact(of)?;
        if self.window.as_ref().is_none_or(|window| window.end != of) {
            self.in_window = None;
            self.window = self.make_window_of(&of, *n)?;
        }
        let Some(window) = &self.window else { return Err(unknown()) };
        let back = usize::try_from(*n).unwrap_or(usize::MAX);
        let Some(index) = window.steps.len().checked_sub(back) else { return Err(unknown()) };
        let Some(step) = window.steps.get(index).copied() else { return Err(unknown()) };
        let mut exact = match step.name {
            Name::Event => Position::at(step.event),
            Name::Before(seq) => Position::at(step.event).then(Leg::Before(seq)),
            Name::None => return Err(unknown()),
            Name::Arrival if let Some(near) = window.name_by_arrival(index) => near,
            Name::Arrival => {
                let later = window.steps[index..].iter();
                let is_same = |other: &&Step| {
                    other.event == step.event && other.rip == step.rip && other.name == Name::Arrival
                };
                let later = later.filter(is_same).count() as u64;
                let base = window.base(step.event);
                let live = self.travel(&base)?;
                let total = self.arrivals_between(live, &base, Addr(step.rip), &of)?;
                match (total + 1).checked_sub(later) {
                    None => return Err(unknown()),
                    // The first of them is the one that has given the mark its name.
                    Some(0) if matches!(base.legs.last(), Some(Leg::Arrive { addr, .. }) if *addr == Addr(step.rip)) => {
                        base
                    }
                    Some(0) => return Err(unknown()),
                    Some(n) => base.then(Leg::Arrive { addr: Addr(step.rip), n }),
                }
            }
        };
        for leg in position.legs.iter().skip(1) {
            exact = exact.then(leg.clone());
        }
        if self.position == *position {
            self.position = exact.clone();
        }
        if let Some((known, _)) = self.in_window.as_mut().filter(|(known, _)| known == position) {
            *known = exact.clone();
        }
        Ok(exact)
    }

    /// How often tasks arrive at an address behind this place, where a replica stands, up to the next event;
    /// or in front of this position, if that is in the same interval.
    pub(super) fn arrivals_between(
        &mut self,
        mut live: Live<'t>,
        base: &Position,
        addr: Addr,
        end: &Position,
    ) -> Result<u64, Trouble> {
        let name = self.history.name(end);
        // Its newest name may not go on from there.
        let end = if name.done_at(base).is_some() { &name } else { end };
        let is_inside = end.event == base.event;
        let mut points = if is_inside { end.arrivals() } else { BTreeSet::new() };
        points.extend(live.replica.traps().all_counts().keys());
        points.insert(addr);
        live.replica.set_points(&points)?;
        live.replica.set_watches(&[])?;
        let first = live.replica.traps().arrivals(addr);
        if !is_inside {
            live.replica.count_arrivals(addr, None)?;
            loop {
                match self.run_until(&mut live, &Limit { each_event: true, ..Limit::default() })? {
                    Stop::Point(..) => {}
                    _ => return Ok(live.replica.traps().arrivals_before(addr) - first),
                }
            }
        }
        let Some(mut goal) = Goal::from(end, &live, base) else { return Err(unknown()) };
        if !end.arrivals().contains(&addr) {
            live.replica.count_arrivals(addr, None)?;
        }
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
        // The arrival that ends the way is not in front of it.
        let next = live.replica.next_event()?.map(|event| event.tid);
        let is_at = |tid| live.replica.registers(tid).is_ok_and(|registers| registers.rip == addr.0);
        let ends_here = next.is_some_and(|tid| is_at(tid) && live.replica.is_counted(tid));
        Ok(live.replica.traps().arrivals(addr) - first - u64::from(ends_here))
    }

    /// The instructions in front of a position. There are none in it where it begins behind an event, and
    /// only others come then.
    fn make_window(&mut self, end: &Position) -> Result<Option<Window<'t>>, Trouble> {
        self.windows(end, |window| {
            window.steps.first().is_some_and(|first| first.name == Name::Event)
                || window.steps.iter().any(|step| step.part != Part::None)
        })
    }

    /// The same, with at least so many steps.
    fn make_window_of(&mut self, end: &Position, n: u64) -> Result<Option<Window<'t>>, Trouble> {
        self.windows(end, |window| window.steps.len() as u64 >= n)
    }

    /// A window that is enough.
    fn windows(
        &mut self,
        end: &Position,
        is_enough: impl Fn(&Window<'t>) -> bool,
    ) -> Result<Option<Window<'t>>, Trouble> {
        let own_end = self.exact(end)?;
        let mut tried: Option<Mark<'t>> = None;
        while let Some(mut climb) = self.climb(&own_end, tried.as_ref())? {
            // From the last copy that is in front of the place, step by step.
            while let Some(rung) = climb.rungs.pop() {
                let window = match climb.steps.take() {
                    Some(steps) => steps.begin_at(rung.copy, rung.image),
                    None => self.window_from(rung, climb.from.clone(), &climb.end, &own_end)?,
                };
                tracing::debug!(steps = window.len(), end = %window.end, "a window");
                if !is_enough(&window) {
                    climb.steps_before = 0;
                    continue;
                }
                // Who has gone one step back goes others; each window takes time.
                let longer = self.longer(&mut climb, &window, &own_end)?;
                let is_longer = |longer: &Window<'t>| longer.len() > window.len() && is_enough(longer);
                climb.keep_in(&mut self.passed);
                if !self.history.count_also(self.passed.pids()) {
                    self.passed = Passed::default();
                }
                return Ok(Some(longer.filter(is_longer).unwrap_or(window)));
            }
            // The mark may be at the very place, by another name, or within the same instruction.
            tried = Some(climb.from);
        }
        Ok(None)
    }

    /// One that begins some more rounds before this one, or at the copy before, if that is near.
    fn longer(
        &mut self,
        climb: &mut Climb<'t>,
        window: &Window<'t>,
        own_end: &Position,
    ) -> Result<Option<Window<'t>>, Trouble> {
        let Climb { from, end, rungs, steps_before, .. } = climb;
        let Some(mut before) = rungs.pop() else { return Ok(None) };
        match self.farther(&mut before, end, &window.addresses())? {
            Some(farther) => self.window_from(farther, from.clone(), end, own_end).map(Some),
            None if window.len() < LONG_ENOUGH && *steps_before < NEAR_ENOUGH => {
                self.near_window_from(before, from.clone(), end, own_end)
            }
            None => Ok(None),
        }
    }

    /// What lies between a rung and a position.
    fn window_from(
        &mut self,
        Rung { mut copy, done, image }: Rung<'t>,
        from: Mark<'t>,
        end: &Position,
        own_end: &Position,
    ) -> Result<Window<'t>, Trouble> {
        let (replica, company) = copy.resume()?;
        let mut live = Live::new(replica, company, image);
        let mut goal = Goal { done, ..Goal::new(end) };
        let mut window = Window::new(from, own_end.clone()).begin_at(copy, image);
        // The copy may have been made while the program counted, in the middle of that.
        live.replica.end_counts()?;
        Self::have_points(&mut live, end, None)?;
        while self.one_step_to(&mut live, &mut goal, &mut window)? != Stepped::There {}
        Ok(window)
    }

    /// The same, if it is near.
    fn near_window_from(
        &mut self,
        mut rung: Rung<'t>,
        from: Mark<'t>,
        end: &Position,
        own_end: &Position,
    ) -> Result<Option<Window<'t>>, Trouble> {
        let (mut live, mut goal) = rung.resume_without_counts(end)?;
        Self::have_points(&mut live, end, None)?;
        let mut window = Window::new(from, own_end.clone());
        for _ in 0..NEAR_ENOUGH {
            if self.one_step_to(&mut live, &mut goal, &mut window)? == Stepped::There {
                return Ok(Some(window.begin_at(rung.copy, rung.image)));
            }
        }
        Ok(None)
    }

    /// Goes one step to a position, and remembers it. The replica has the points that the position counts.
    pub(super) fn one_step_to(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        window: &mut Window<'t>,
    ) -> Result<Stepped, Trouble> {
        if goal.is_reached(live)? {
            return Ok(Stepped::There);
        }
        let Some(next) = live.replica.next_event()? else { return Ok(Stepped::There) };
        let (tid, part, executes) = (next.tid, Part::of(&next.kind), executes(&next.kind));
        let (event, _) = live.replica.done();
        let rip = live.replica.registers(tid).map_or(0, |registers| registers.rip);
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
        let before = there.filter(|(event, _)| is_behind_hook(event)).map(|(event, _)| event.seq);
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

fn unknown() -> Trouble {
    let what = "a position is known only by what came behind it, and that is forgotten";
    Trouble::Halt(bis_replay::Halt::Failed(bis_replay::ReplayError::Machine(what.into())))
}
