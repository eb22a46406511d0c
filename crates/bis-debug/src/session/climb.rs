//! Copies of a replica on its way to a position, ever closer: from the last of them the rest of the way is
//! gone step by step.
//!
//! Most are made after some time. Because programs go in rounds, the last ones are made at arrivals that are
//! counted: some rounds in front of the end, or, if the end is behind loops, in the last rounds of those.

use bis_trace::types::Addr;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bis_replay::{Checkpoint, Limit, Stop};

use super::{
    CHECKPOINT_EVERY, Live, Session, Trouble,
    goal::{Done, Goal},
    history::Mark,
    over::{Calls, Over, Standing},
    passed::Passed,
    place::{Leg, Position},
    window::{Stepped, Window},
};

/// How long a replica runs on the way to the user's place before it is copied: ever shorter.
const LADDER: [Duration; 5] = [
    Duration::from_millis(40),
    Duration::from_millis(4),
    Duration::from_micros(400),
    Duration::from_micros(50),
    Duration::from_micros(12),
];

/// Rounds of a loop that are stepped through at once.
const ROUNDS_MAX: u64 = 32;

/// Stops for which nobody waits.
const STOPS_MAX: u64 = 2000;

/// An end that is more steps away than this is far: there may be loops on the way, of which the last rounds
/// are near.
const FAR: u64 = 200;

/// Steps in such rounds that are left; and what a window is to have at least.
const STEPS_LEFT: u64 = 400;
const STEPS_MIN: u64 = 200;

/// A window with more steps is not begun as early as it was tried.
const WHOLE_MAX: usize = 4000;

/// Instructions whose rounds are counted in one look.
const LOOKS_MAX: usize = 8;

/// A copy of a replica on its way to a position.
pub(super) struct Rung<'t> {
    pub copy: Checkpoint<'t>,
    pub done: Done,
    pub image: usize,
}

/// The copies that lead to a position.
pub(super) struct Climb<'t> {
    /// The mark from which it was gone to.
    pub from: Mark<'t>,
    /// The position's name, of which the rungs know how much is done.
    pub end: Position,
    pub rungs: Vec<Rung<'t>>,
    /// The steps from the last of them to the position, if they were made.
    pub steps: Option<Window<'t>>,
    /// From the last but one of them at least so many steps lead to the position.
    pub steps_before: usize,
    /// Other copies that were made on the way, each with the number of the rung behind which it was.
    pub others: Vec<(usize, Rung<'t>)>,
    /// It began at no copy of a way that was gone before.
    is_new: bool,
}

/// How far the end of a way is from a rung.
enum Nearness<'t> {
    /// It is the same place: an event's place, which has that name only where somebody has asked for it.
    There,
    /// So near that it was gone to step by step.
    Near(Window<'t>),
    /// Farther than from this one: at least so many steps, of which there may be so many left from there.
    Far { nearer: Box<Rung<'t>>, steps: usize, left: u64 },
}

impl<'t> Nearness<'t> {
    /// `window`: the steps that were made from the rung that is farther.
    fn far(nearer: Rung<'t>, window: &Window<'t>, left: u64) -> Nearness<'t> {
        Nearness::Far { nearer: Box::new(nearer), steps: window.len(), left }
    }
}

impl<'t> Climb<'t> {
    /// Keeps all copies that are left, for ways to places in front.
    pub(super) fn keep_in(self, passed: &mut Passed<'t>) {
        let Climb { end, rungs, others, is_new, .. } = self;
        let mut all: Vec<(usize, Rung<'t>)> = rungs.into_iter().enumerate().collect();
        all.extend(others);
        all.sort_by_key(|(number, _)| *number);
        // Arrivals are counted from the event on; and the first is no copy of the way that was gone before.
        let all = all.into_iter().filter(|(number, _)| is_new || *number > 0).map(|(_, rung)| rung);
        let all = all.filter(|rung| rung.copy.done() == end.event).collect();
        passed.keep(is_new, end, all);
    }
}

/// What has come of counting how often tasks come to an address.
enum Rounds<'t> {
    /// So often. The replica is at the end, or where it was to stay.
    All(u64, Live<'t>, Done),
    /// That takes too long to find out. So far it has come, and the end is behind.
    TooMany(Rung<'t>),
}

impl<'t> Rung<'t> {
    /// A replica that goes on from here.
    pub(super) fn resume<'p>(&mut self, end: &'p Position) -> Result<(Live<'t>, Goal<'p>), Trouble> {
        let (replica, company) = self.copy.resume()?;
        let live = Live::new(replica, company, self.image);
        Ok((live, Goal { done: self.done, ..Goal::new(end) }))
    }

    /// The same, and the program counts nothing by itself. It was to count up to the end of the way.
    pub(super) fn resume_without_counts<'p>(
        &mut self,
        end: &'p Position,
    ) -> Result<(Live<'t>, Goal<'p>), Trouble> {
        let (mut live, mut goal) = self.resume(end)?;
        live.replica.end_counts()?;
        goal.ask_anew();
        Ok((live, goal))
    }
}

impl<'t> Session<'t> {
    /// A position by a name to which a mark leads that is near; where there is none in a long computation,
    /// some are made.
    fn near(&mut self, position: &Position) -> Result<Position, Trouble> {
        let name = self.history.name(position);
        let image = self.image_of(position.event);
        let Some(mark) = self.history.best_before(image, &name) else { return Ok(name) };
        let is_here = self.position == *position && self.live.replica.done().0 == mark.position.event;
        let ran = self.live.replica.traps().ran_for().saturating_sub(mark.ran);
        if !is_here || ran < CHECKPOINT_EVERY * 2 {
            return Ok(name);
        }
        for (mark, known) in self.strides(&mark, &name, CHECKPOINT_EVERY)? {
            self.mark_on_way(&mark, position, &known);
        }
        Ok(self.history.name(position))
    }

    /// The points that a replica needs on its way, with those that are counted already, and another one.
    pub(super) fn have_points(
        live: &mut Live<'t>,
        end: &Position,
        also: Option<Addr>,
    ) -> Result<(), Trouble> {
        let mut points = end.arrivals();
        points.extend(live.replica.traps().all_counts().keys());
        points.extend(also);
        Ok(live.replica.set_points(&points)?)
    }

    /// Copies of a replica on its way to a position, ever closer; and the position by the name by which it is
    /// gone to. None: nothing is in front of it. `than`: the mark from which it was tried, and which is not
    /// far enough before.
    pub(super) fn climb(
        &mut self,
        own_end: &Position,
        than: Option<&Mark<'t>>,
    ) -> Result<Option<Climb<'t>>, Trouble> {
        let image = self.image_of(own_end.event);
        self.have_image(image)?;
        let end = &self.near(own_end)?;
        let from = match than {
            None => self.history.best_before(image, end),
            Some(than) => self.history.best_before_mark(image, end, than),
        };
        let Some(from) = from else { return Ok(None) };
        let Live { mut replica, mut company, .. } = from.resume()?;
        let Some(copy) = replica.checkpoint(&mut company)? else { return Ok(None) };
        let live = Live::new(replica, company, image);
        let done = Goal::from(end, &live, &from.position).map(|goal| goal.done);
        drop(live);
        let Some(done) = done else { return Ok(None) };
        let rungs = vec![Rung { copy, done, image }];
        let mut climb = Climb {
            from,
            end: end.clone(),
            rungs,
            steps: None,
            steps_before: 0,
            others: Vec::new(),
            is_new: true,
        };
        if than.is_some() || end.legs.is_empty() {
            self.climb_to(&mut climb, own_end, false)?;
        } else if !self.climb_to(&mut climb, own_end, true)? && climb.rungs[0].copy.done() < end.event {
            // Behind the last event is the very place, by another name.
            climb.end = Position::at(end.event);
            climb.rungs[0].done = Done::default();
            self.climb_to(&mut climb, own_end, true)?;
        }
        Ok(Some(climb))
    }

    /// Makes the copies behind the first one. Is there more than that in front of the end? `is_last`: nothing
    /// in front of the last interval is wanted.
    fn climb_to(
        &mut self,
        Climb { from, end, rungs, steps, steps_before, others, is_new }: &mut Climb<'t>,
        own_end: &Position,
        is_last: bool,
    ) -> Result<bool, Trouble> {
        if is_last {
            self.last_interval(end, rungs)?;
            if from.position == Position::at(end.event) {
                let passed = self.passed_before(end, &mut rungs[0])?;
                *is_new = passed.is_empty();
                rungs.extend(passed);
            }
        }
        if *is_new {
            self.ladder(end, rungs)?;
        }
        self.last_interval(end, rungs)?;
        self.last_rounds(end, rungs)?;
        let mut many = FAR;
        while let Some(last) = rungs.last_mut() {
            let mut passed = Vec::new();
            let window = Window::new(from.clone(), own_end.clone());
            let nearer = self.nearer(last, end, window, many, &mut passed)?;
            let number = rungs.len() - 1;
            others.extend(passed.into_iter().map(|rung| (number, rung)));
            match nearer {
                Nearness::Far { nearer, steps, left } => {
                    rungs.push(*nearer);
                    *steps_before = steps;
                    many = left.max(FAR);
                }
                Nearness::Near(window) => {
                    *steps = Some(window);
                    return Ok(true);
                }
                Nearness::There if rungs.len() == 1 => return Ok(false),
                Nearness::There => {
                    rungs.pop();
                    *steps_before = 0;
                    if rungs.len() == 1 && is_last {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Copies that are made after some time.
    fn ladder(&mut self, end: &Position, rungs: &mut Vec<Rung<'t>>) -> Result<(), Trouble> {
        for every in LADDER {
            let Some(Rung { copy, done, image }) = rungs.last_mut() else { break };
            let (replica, company) = copy.resume()?;
            let mut live = Live::new(replica, company, *image);
            let mut goal = Goal { done: *done, ..Goal::new(end) };
            Self::have_points(&mut live, end, None)?;
            let mut new: Vec<Rung<'t>> = Vec::new();
            let (mut wait, mut last) = (every, None);
            self.alarm.set(wait);
            while let Some(stop) = self.toward(&mut live, &mut goal, &[], &Limit::default())? {
                if stop != Stop::Interrupted {
                    continue;
                }
                // On a busy machine the shortest time may be over before anything runs.
                let tid = live.replica.next_event()?.map(|event| event.tid);
                let here = (live.replica.done().0, tid.and_then(|tid| live.replica.registers(tid).ok()));
                wait = if last == Some(here) { wait * 2 } else { every };
                if last.replace(here) != Some(here)
                    && !goal.is_reached(&mut live)?
                    && !goal.is_stepping()
                    && let Some(copy) = live.replica.checkpoint(&mut live.company)?
                {
                    new.push(Rung { copy, done: goal.done, image: live.image });
                    if new.len() > 2 {
                        new.remove(0);
                    }
                }
                self.alarm.set(wait);
            }
            self.alarm.clear();
            self.stopper.interrupt.take();
            tracing::debug!(?every, copies = new.len(), "climbed");
            rungs.extend(new);
        }
        Ok(())
    }

    /// On a busy machine a replica may be at the end before a short time is known to be over. Nobody has to
    /// wait for the last event in front of the end, behind which arrivals are counted by themselves.
    fn last_interval(&mut self, end: &Position, rungs: &mut Vec<Rung<'t>>) -> Result<(), Trouble> {
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        if !end.legs.is_empty() {
            let is_behind = end.event > last.copy.done();
            return if is_behind { self.rung_at(rungs, end, Position::at(end.event)) } else { Ok(()) };
        }
        // The end is behind an event: the interval is the one in front of that event.
        let (mut live, mut goal) = last.resume(end)?;
        Self::have_points(&mut live, end, None)?;
        let first = live.replica.done().0;
        let (mut event, mut done) = (first, first);
        let limit = Limit { each_event: true, ..Limit::default() };
        while self.toward(&mut live, &mut goal, &[], &limit)?.is_some() {
            let now = live.replica.done().0;
            if now > done {
                (event, done) = (done, now);
            }
        }
        drop(live);
        if event > first { self.rung_at(rungs, end, Position::at(event)) } else { Ok(()) }
    }

    /// The last rung may be many thousands of instructions away. Programs go in rounds: the last times that a
    /// task was about to execute what it is about to execute at the end are nearly always close.
    fn last_rounds(&mut self, end: &Position, rungs: &mut Vec<Rung<'t>>) -> Result<(), Trouble> {
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        let (legs, has_steps) = match end.legs.as_slice() {
            [legs @ .., Leg::Step { .. }] => (legs, true),
            legs => (legs, false),
        };
        if let [before @ .., Leg::Arrive { addr, n }] = legs {
            // The same loop, some rounds earlier; if they are behind the rung.
            let (mut live, goal) = last.resume(end)?;
            let left = goal.arrived(before.len(), &mut live)?.map(|arrived| n.saturating_sub(arrived));
            let rounds = match left {
                Some(left) if left > 1 => Some((left / 40).clamp(1, ROUNDS_MAX)),
                Some(_) if has_steps => Some(0),
                _ => None,
            };
            if let Some(rounds) = rounds {
                let earlier = Position { event: end.event, legs: before.to_vec() };
                let earlier = earlier.then(Leg::Arrive { addr: *addr, n: n - rounds });
                return self.rung_at(rungs, end, earlier);
            }
        } else if has_steps {
            // Where the steps begin.
            return self.rung_at(rungs, end, Position { event: end.event, legs: legs.to_vec() });
        }
        let (mut live, mut goal) = last.resume(end)?;
        Self::have_points(&mut live, end, None)?;
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
        let tid = match end.legs.last() {
            Some(Leg::Step { tid, .. }) => Some(*tid),
            None => Some(live.replica.done().1),
            Some(_) => live.replica.next_event()?.map(|event| event.tid),
        };
        let Some(tid) = tid else { return Ok(()) };
        // Only where a task has stood there surely begins an instruction: a point elsewhere would change what
        // the program does. A task that has ended stands nowhere.
        let Ok(rip) = live.replica.registers(tid).map(|registers| registers.rip) else { return Ok(()) };
        if end.arrivals().contains(&Addr(rip)) {
            return Ok(());
        }
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        // The last arrival is the end itself.
        let Some((count, ..)) = self.rounds(last, end, Addr(rip), None)?.filter(|(count, ..)| *count > 1)
        else {
            return Ok(());
        };
        let back = (count / 40).clamp(1, ROUNDS_MAX);
        let Some((_, mut live, done)) = self.rounds(last, end, Addr(rip), Some(count - back))? else {
            return Ok(());
        };
        Self::add_rung(rungs, &mut live, done)
    }

    /// How far the end is from a rung; if it is far, there is a rung behind this one: in the last rounds of a
    /// loop that lies between, or in the last call that takes long.
    ///
    /// It goes there step by step, over such calls, and looks ever less often at what has repeated, first
    /// after so many steps; so it ends, even where nothing does. `passed`: copies that it has made on the
    /// way.
    fn nearer(
        &mut self,
        rung: &mut Rung<'t>,
        end: &Position,
        mut window: Window<'t>,
        mut many: u64,
        passed: &mut Vec<Rung<'t>>,
    ) -> Result<Nearness<'t>, Trouble> {
        let (mut live, mut goal) = rung.resume_without_counts(end)?;
        Self::have_points(&mut live, end, None)?;
        let own = end.arrivals();
        // The latest copy may be at the end itself: only who goes on from it knows.
        let (mut gone_on, mut latest) = (None, None);
        let (mut has_gone, mut is_whole) = (false, true);
        let mut calls = Calls::default();
        let mut before: BTreeMap<Addr, u64> = BTreeMap::new();
        loop {
            let mut seen: BTreeMap<Addr, u64> = BTreeMap::new();
            let mut standing = Standing::of(&mut live)?;
            for _ in 0..many {
                if let Some(Standing { registers, .. }) = standing
                    && !own.contains(&registers.ip())
                {
                    *seen.entry(registers.ip()).or_default() += 1;
                }
                match self.one_step_to(&mut live, &mut goal, &mut window)? {
                    Stepped::Gone => {
                        has_gone = true;
                        gone_on = latest.take().or(gone_on);
                    }
                    Stepped::Not => {}
                    Stepped::There if !has_gone => return Ok(Nearness::There),
                    Stepped::There => {
                        let far = gone_on.filter(|_| !is_whole || window.len() > WHOLE_MAX);
                        return Ok(match far {
                            Some(nearer) => Nearness::far(nearer, &window, FAR),
                            None => Nearness::Near(window),
                        });
                    }
                }
                let now = Standing::of(&mut live)?;
                calls.stepped(standing, now, &live);
                standing = now;
                match self.go_over(&mut live, &mut goal, &mut calls, end)? {
                    Over::None => {}
                    Over::Within(here) => passed.push(here),
                    Over::Returned(within) => {
                        passed.extend(gone_on.replace(within));
                        (latest, is_whole) = (None, false);
                        standing = Standing::of(&mut live)?;
                    }
                }
            }
            let often = most_often(&seen);
            let mut looks: VecDeque<Addr> = often.iter().copied().take(LOOKS_MAX).collect();
            let mut too_many = None;
            while let Some(addr) = looks.pop_front() {
                let count = match self.count_rounds(rung, end, addr, None)? {
                    Rounds::All(count, ..) => count,
                    Rounds::TooMany(rung) => {
                        // What the program does not count by itself is asked of the one that comes least
                        // often.
                        looks.clear();
                        let least = often.last().filter(|_| too_many.is_none());
                        looks.extend(least.filter(|least| **least != addr));
                        too_many = Some((addr, rung));
                        continue;
                    }
                };
                let hits = seen[&addr];
                // Rounds with calls that were gone over are longer than their steps.
                let keep = if is_whole { (STEPS_LEFT * hits / many).max(4) } else { 2 };
                if count < before.get(&addr).copied().unwrap_or(0) + hits + 2 * keep {
                    continue;
                }
                let Some((_, mut live, done)) = self.rounds(rung, end, addr, Some(count - keep))? else {
                    continue;
                };
                Self::end_point(&mut live, addr)?;
                if let Some(copy) = live.replica.checkpoint(&mut live.company)? {
                    let rung = Rung { copy, done, image: live.image };
                    let left = if is_whole { keep * many / hits * 2 } else { FAR };
                    return Ok(Nearness::far(rung, &window, left));
                }
            }
            // At a stop a round, the one that comes least often has come nearer than steps would lead.
            if let Some((addr, mut nearer)) = too_many {
                let (mut live, goal) = nearer.resume(end)?;
                Self::end_point(&mut live, addr)?;
                if let Some(copy) = live.replica.checkpoint(&mut live.company)? {
                    let rung = Rung { copy, done: goal.done, image: live.image };
                    return Ok(Nearness::far(rung, &window, FAR));
                }
            }
            for (addr, hits) in seen {
                *before.entry(addr).or_default() += hits;
            }
            if !goal.is_stepping()
                && let Some(copy) = live.replica.checkpoint(&mut live.company)?
            {
                latest = Some(Rung { copy, done: goal.done, image: live.image });
            }
            many *= 2;
        }
    }

    /// A replica does not stop there any more: whoever goes on from it would be stopped each time.
    fn end_point(live: &mut Live<'t>, addr: Addr) -> Result<(), Trouble> {
        let mut points: BTreeSet<Addr> = live.replica.traps().all_counts().into_keys().collect();
        points.remove(&addr);
        Ok(live.replica.set_points(&points)?)
    }

    /// A rung in front of one from which few steps lead to the end, some more rounds before; as far as
    /// `from`, another rung.
    ///
    /// `seen`: how often each address comes in those steps.
    pub(super) fn farther(
        &mut self,
        from: &mut Rung<'t>,
        end: &Position,
        seen: &BTreeMap<Addr, u64>,
    ) -> Result<Option<Rung<'t>>, Trouble> {
        let own = end.arrivals();
        let steps: u64 = seen.values().sum();
        if steps == 0 || steps >= STEPS_MIN {
            return Ok(None);
        }
        let Some(addr) = most_often(seen).into_iter().find(|addr| !own.contains(addr)) else {
            return Ok(None);
        };
        let Some((count, ..)) = self.rounds(from, end, addr, None)? else { return Ok(None) };
        let keep = STEPS_LEFT * seen[&addr] / steps;
        let Some(until) = count.checked_sub(keep).filter(|until| *until > 0) else { return Ok(None) };
        let Some((_, mut live, done)) = self.rounds(from, end, addr, Some(until))? else { return Ok(None) };
        let copy = live.replica.checkpoint(&mut live.company)?;
        Ok(copy.map(|copy| Rung { copy, done, image: live.image }))
    }

    /// The last rung, at a position on the way to the end.
    fn rung_at(
        &mut self,
        rungs: &mut Vec<Rung<'t>>,
        end: &Position,
        earlier: Position,
    ) -> Result<(), Trouble> {
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        let (mut live, mut goal) = last.resume_without_counts(&earlier)?;
        Self::have_points(&mut live, &earlier, None)?;
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
        let Some(goal) = Goal::from(end, &live, &earlier) else { return Ok(()) };
        let done = goal.done;
        // The next steps back are near.
        if let Some(mark) = Mark::of(&mut live, earlier)? {
            self.history.add(mark);
        }
        Self::add_rung(rungs, &mut live, done)
    }

    /// How often tasks come to an address between a rung and the end; with `until`, the replica stays at that
    /// time. None: that would take too long to find out.
    pub(super) fn rounds(
        &mut self,
        rung: &mut Rung<'t>,
        end: &Position,
        addr: Addr,
        until: Option<u64>,
    ) -> Result<Option<(u64, Live<'t>, Done)>, Trouble> {
        Ok(match self.count_rounds(rung, end, addr, until)? {
            Rounds::All(hits, live, done) => Some((hits, live, done)),
            Rounds::TooMany(_) => None,
        })
    }

    fn count_rounds(
        &mut self,
        rung: &mut Rung<'t>,
        end: &Position,
        addr: Addr,
        until: Option<u64>,
    ) -> Result<Rounds<'t>, Trouble> {
        let (mut live, mut goal) = rung.resume_without_counts(end)?;
        Self::have_points(&mut live, end, Some(addr))?;
        let next = live.replica.next_event()?.map(|event| event.seq);
        // Only in the last interval is all that is counted in front of the end.
        let is_last = live.replica.done().0 >= end.event || next.is_none_or(|next| next >= end.event);
        let first = live.replica.traps().arrivals(addr);
        let by_itself = is_last && live.replica.count_arrivals(addr, until.map(|until| first + until))?;
        let (mut hits, mut stops) = (0, 0);
        // Only who goes on from it knows that it is not at the end.
        let mut far: Option<Rung<'t>> = None;
        while let Some(stop) = self.toward(&mut live, &mut goal, &[], &Limit::default())? {
            let is_hit = matches!(stop, Stop::Point(_, at) if at == addr);
            hits += u64::from(is_hit);
            stops += 1;
            if is_hit && (by_itself || until == Some(hits)) {
                break;
            }
            if stops > STOPS_MAX && is_hit {
                if let Some(far) = far {
                    return Ok(Rounds::TooMany(far));
                }
                let copy = live.replica.checkpoint(&mut live.company)?;
                far = copy.map(|copy| Rung { copy, done: goal.done, image: live.image });
            }
        }
        if by_itself {
            let traps = live.replica.traps();
            let now = if end.legs.is_empty() { traps.arrivals_before(addr) } else { traps.arrivals(addr) };
            hits = now.saturating_sub(first);
        }
        live.replica.end_counts()?;
        tracing::debug!(addr = format_args!("{addr:#x}"), hits, by_itself, first, ?until, "rounds");
        Ok(Rounds::All(hits, live, goal.done))
    }

    fn add_rung(rungs: &mut Vec<Rung<'t>>, live: &mut Live<'t>, done: Done) -> Result<(), Trouble> {
        if let Some(copy) = live.replica.checkpoint(&mut live.company)? {
            rungs.push(Rung { copy, done, image: live.image });
        }
        Ok(())
    }
}

/// The addresses that come more than twice, the most frequent first; of those that come equally often, and so
/// are likely in the same loop, few.
fn most_often(seen: &BTreeMap<Addr, u64>) -> Vec<Addr> {
    let mut often: Vec<(u64, Addr)> = seen.iter().map(|(addr, hits)| (*hits, *addr)).collect();
    often.retain(|(hits, _)| *hits > 2);
    often.sort_unstable_by(|a, b| b.cmp(a));
    let few = often
        .iter()
        .enumerate()
        .filter(|(at, (hits, _))| at.checked_sub(2).is_none_or(|at| often[at].0 != *hits));
    few.map(|(_, (_, addr))| *addr).collect()
}
