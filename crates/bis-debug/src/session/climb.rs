//! Copies of a replica on its way to a position, ever closer: from the last of them the rest of the way is
//! gone step by step.
//!
//! Most are made after some time; where the text counts its branches, one is made a few counts before the
//! end. Because programs go in rounds, the last ones are made at arrivals that are counted: some rounds in
//! front of the end (`climb/rounds.rs`), or, if the end is behind loops, in the last rounds of those
//! (`climb/nearer.rs`).

mod known;
mod nearer;
mod pause;
mod rounds;
mod rungs;

use std::time::Duration;

use bis_replay::{Limit, Stop};

use self::nearer::{FAR, Nearness};
use super::{
    Session, Trouble,
    goal::{Done, Goal},
    history::{CHECKPOINT_EVERY, Mark},
    live::Live,
    passed::Passed,
    place::Position,
    rung::Rung,
    window::Window,
};

/// How long a replica runs on the way to the user's place before it is copied: ever shorter.
const LADDER: [Duration; 5] = [
    Duration::from_millis(40),
    Duration::from_millis(4),
    Duration::from_micros(400),
    Duration::from_micros(50),
    Duration::from_micros(12),
];

/// After so many stops, those that follow come ever later: where a stop itself puts back what comes behind it
/// (a search for a pause begins anew with a debug register), a way of milliseconds would have hundreds.
const STOPS_MAX: u32 = 30;

/// How many counts of the program's text are left behind the copy that is made by them.
const COUNTS_LEFT: u64 = 40;

/// The copies that lead to a position.
pub(super) struct Climb<'t> {
    /// The mark from which it was gone to.
    pub from: Mark<'t>,
    /// The position's name, of which the rungs know how much is done.
    pub end: Position,
    /// The position to which it is gone from there, past a pause whose place the end is.
    pub behind: Option<Position>,
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

impl<'t> Climb<'t> {
    /// A way to a position of an image that has only its begin. None: there is none from this mark.
    fn begin(from: Mark<'t>, end: &Position, image: usize) -> Result<Option<Climb<'t>>, Trouble> {
        let Live { mut replica, mut company, .. } = from.resume()?;
        let Some(copy) = replica.checkpoint(&mut company)? else { return Ok(None) };
        let live = Live::new(replica, company, image);
        let done = Goal::from(end, &live, &from.position).map(|goal| goal.done);
        drop(live);
        let Some(done) = done else { return Ok(None) };
        let rungs = vec![Rung { copy, done, image }];
        Ok(Some(Climb {
            from,
            end: end.clone(),
            behind: None,
            rungs,
            steps: None,
            steps_before: 0,
            others: Vec::new(),
            is_new: true,
        }))
    }

    /// The goal of a replica that goes on from one of its copies, which has done so much.
    pub(super) fn goal(&self, done: Done) -> Goal<'_> {
        match &self.behind {
            Some(behind) => Goal::new(behind),
            None => Goal { done, ..Goal::new(&self.end) },
        }
    }

    /// From its copies it is gone to this position, which is behind its end or that itself.
    pub(super) fn go_on_to(&mut self, position: &Position) {
        // The steps lead only to its end.
        self.steps = None;
        match &mut self.behind {
            Some(behind) => *behind = position.clone(),
            None => self.end = position.clone(),
        }
    }

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

impl<'t> Session<'t> {
    /// A position by a name to which a mark leads that is near; where there is none in a long computation,
    /// some are made.
    fn near(&mut self, position: &Position) -> Result<Position, Trouble> {
        let name = self.name_of(position);
        let image = self.image_of(position.event);
        let Some(mark) = self.history.best_before(image, &name) else { return Ok(name) };
        let is_here = self.position == *position && self.live.replica.done().0 == mark.position.event;
        let ran = self.live.replica.traps().ran_for().saturating_sub(mark.ran);
        if !is_here || ran < CHECKPOINT_EVERY * 2 {
            return Ok(name);
        }
        for (mark, known) in self.strides(&mark, &name)? {
            self.mark_on_way(&mark, position, &known);
        }
        Ok(self.name_of(position))
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
        if than.is_none()
            && end.legs.is_empty()
            && let Some(place) = self.place_of_pause(&from, end)?
            && let Some(climb) = self.climb_to_pause(&place, own_end)?
        {
            return Ok(Some(climb));
        }
        let Some(mut climb) = Climb::begin(from.clone(), end, image)? else { return Ok(None) };
        if than.is_some() || end.legs.is_empty() {
            self.climb_to(&mut climb, own_end, false)?;
        } else if !self.climb_to(&mut climb, own_end, true)? && climb.rungs[0].copy.done() < end.event {
            // Behind the last event is the very place, by another name.
            climb.end = Position::at(end.event);
            if let Some(place) = self.place_of_pause(&from, &climb.end)?
                && let Some(climb) = self.climb_to_pause(&place, own_end)?
            {
                return Ok(Some(climb));
            }
            climb.rungs[0].done = Done::default();
            self.climb_to(&mut climb, own_end, true)?;
        }
        Ok(Some(climb))
    }

    /// The copies that lead to a position behind a pause, whose place this is. None: there is nothing in
    /// front of it up to the last event.
    fn climb_to_pause(&mut self, place: &Position, own_end: &Position) -> Result<Option<Climb<'t>>, Trouble> {
        let image = self.image_of(own_end.event);
        let Some(from) = self.history.best_before(image, place) else { return Ok(None) };
        let Some(mut climb) = Climb::begin(from, place, image)? else { return Ok(None) };
        if !self.climb_to(&mut climb, own_end, true)? {
            return Ok(None);
        }
        // The last step is the pause itself.
        (climb.behind, climb.steps) = (Some(own_end.clone()), None);
        Ok(Some(climb))
    }

    /// Makes the copies behind the first one. Is there more than that in front of the end? `is_last`: nothing
    /// in front of the last interval is wanted.
    fn climb_to(
        &mut self,
        Climb { from, end, behind: _, rungs, steps, steps_before, others, is_new }: &mut Climb<'t>,
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
        self.last_counts(end, rungs)?;
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
            live.have_points(end, None)?;
            let mut new: Vec<Rung<'t>> = Vec::new();
            let (mut wait, mut last, mut stops) = (every, None, 0);
            self.alarm.set(wait);
            while let Some(stop) = self.toward(&mut live, &mut goal, &[], &Limit::default())? {
                if stop != Stop::Interrupted {
                    continue;
                }
                // On a busy machine the shortest time may be over before anything runs.
                let tid = live.replica.next_event()?.map(|event| event.tid);
                let here = (live.replica.done().0, tid.and_then(|tid| live.replica.registers(tid).ok()));
                stops += 1;
                wait = if last == Some(here) || stops > STOPS_MAX { wait * 2 } else { every };
                // From the middle of what is executed in place of an instruction, a call of a hook above all,
                // there may be no instruction up to the end, in which nearly all of the time goes by.
                let is_within = tid.is_some_and(|tid| live.replica.is_within(tid));
                if last.replace(here) != Some(here)
                    && !is_within
                    && !goal.pass_legs(&mut live)?
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
            tracing::debug!(?every, copies = new.len(), stops, "climbed");
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
        live.have_points(end, None)?;
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

    /// A rung a few counts in front of the end, where the program's text counts by itself: in a loop of few
    /// instructions, where nothing else can count its rounds, a short time is many thousands of them.
    fn last_counts(&mut self, end: &Position, rungs: &mut Vec<Rung<'t>>) -> Result<(), Trouble> {
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        let (mut live, mut goal) = last.resume(end)?;
        let (first, Some(begun)) = (live.replica.done(), live.replica.counts()?) else { return Ok(()) };
        live.have_points(end, None)?;
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
        // Counts begin anew with each event.
        let until = if live.replica.done() == first { live.replica.counts()? } else { None };
        drop(live);
        let until = until.and_then(|until| until.checked_sub(COUNTS_LEFT));
        let Some(until) = until.filter(|until| *until > begun + COUNTS_LEFT) else { return Ok(()) };
        let (mut live, mut goal) = last.resume(end)?;
        live.replica.stop_at_count(until)?;
        live.have_points(end, None)?;
        let mut is_there = false;
        while let Some(stop) = self.toward(&mut live, &mut goal, &[], &Limit::default())? {
            is_there = stop == Stop::Interrupted && live.replica.counts()? == Some(until);
            if is_there {
                break;
            }
        }
        tracing::debug!(begun, until, is_there, "counted");
        let tid = live.replica.next_event()?.map(|event| event.tid);
        if is_there
            && !goal.is_stepping()
            && !tid.is_some_and(|tid| live.replica.is_within(tid))
            && let Some(copy) = live.replica.checkpoint(&mut live.company)?
        {
            rungs.push(Rung { copy, done: goal.done, image: live.image });
        }
        Ok(())
    }
}
