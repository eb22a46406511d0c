//! How far the end of a way is from a rung, and a rung that is nearer, if it is far.
//!
//! The way is gone step by step, over calls that take long. What repeats on it may be a loop that goes on for
//! long: then its rounds are counted, and the nearer rung is in the last of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bis_trace::types::Addr;

use super::{
    super::{
        Session, Trouble,
        goal::{Done, Goal},
        live::Live,
        over::{Calls, Over, Standing},
        place::Position,
        rung::Rung,
        window::{Stepped, Window},
    },
    rounds::{OFTEN, Rounds, STEPS_LEFT, most_often},
};

/// An end that is more steps away than this is far: there may be loops on the way, of which the last rounds
/// are near.
pub(super) const FAR: u64 = 200;

/// A window with more steps is not begun as early as it was tried.
const WHOLE_MAX: usize = 4000;

/// Instructions whose rounds are counted in one look.
const LOOKS_MAX: usize = 8;

/// How far the end of a way is from a rung.
pub(super) enum Nearness<'t> {
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

/// A way from a rung that is gone step by step.
struct Walk<'t, 'p> {
    live: Live<'t>,
    goal: Goal<'p>,
    window: Window<'t>,
    calls: Calls,
    /// The end was not at the rung itself.
    has_gone: bool,
    /// All steps were made: no call was gone over.
    is_whole: bool,
    /// The last copy that was made, which may be at the end itself: only who goes on from it knows.
    latest: Option<Rung<'t>>,
    /// The last copy from which it went on.
    gone_on: Option<Rung<'t>>,
}

impl<'t, 'p> Walk<'t, 'p> {
    fn from(rung: &mut Rung<'t>, end: &'p Position, window: Window<'t>) -> Result<Walk<'t, 'p>, Trouble> {
        let (mut live, goal) = rung.resume_without_counts(end)?;
        live.have_points(end, None)?;
        let (latest, gone_on) = (None, None);
        let calls = Calls::default();
        Ok(Walk { live, goal, window, calls, has_gone: false, is_whole: true, latest, gone_on })
    }

    /// A step has led from where it was.
    fn note_step(&mut self) {
        self.has_gone = true;
        self.gone_on = self.latest.take().or_else(|| self.gone_on.take());
    }

    /// Keeps a copy of the replica where it is, unless it is between an event and steps behind it.
    fn keep_copy(&mut self) -> Result<(), Trouble> {
        if !self.goal.is_stepping()
            && let Some(copy) = self.live.replica.checkpoint(&mut self.live.company)?
        {
            self.latest = Some(Rung { copy, done: self.goal.done, image: self.live.image });
        }
        Ok(())
    }

    /// The walk has come to the end.
    fn nearness(self) -> Nearness<'t> {
        if !self.has_gone {
            return Nearness::There;
        }
        match self.gone_on.filter(|_| !self.is_whole || self.window.len() > WHOLE_MAX) {
            Some(nearer) => Nearness::far(nearer, &self.window, FAR),
            None => Nearness::Near(self.window),
        }
    }
}

/// What has repeated in a walk.
struct Repeated<'a> {
    /// How often each address came in the last steps, and in those before them.
    seen: &'a BTreeMap<Addr, u64>,
    before: &'a BTreeMap<Addr, u64>,
    /// How many the last steps were.
    many: u64,
    /// No call was gone over.
    is_whole: bool,
}

impl Repeated<'_> {
    /// How many rounds with this instruction are to be left. Rounds with calls that were gone over are longer
    /// than their steps.
    fn kept(&self, addr: Addr) -> u64 {
        if self.is_whole { (STEPS_LEFT * self.seen[&addr] / self.many).max(4) } else { 2 }
    }

    /// Are there, of so many rounds up to the end, many behind those that the walk has made?
    fn leads_far(&self, addr: Addr, count: u64) -> bool {
        let made = self.before.get(&addr).copied().unwrap_or(0) + self.seen[&addr];
        count >= made + 2 * self.kept(addr)
    }

    /// How many steps there may be in the rounds that are left.
    fn left(&self, addr: Addr) -> u64 {
        if self.is_whole { self.kept(addr) * self.many / self.seen[&addr] * 2 } else { FAR }
    }
}

impl<'t> Session<'t> {
    /// How far the end is from a rung; if it is far, there is a rung behind this one: in the last rounds of a
    /// loop that lies between, or in the last call that takes long.
    ///
    /// It goes there step by step, over such calls, and looks ever less often at what has repeated, first
    /// after so many steps; so it ends, even where nothing does. `passed`: copies that it has made on the
    /// way.
    pub(super) fn nearer(
        &mut self,
        rung: &mut Rung<'t>,
        end: &Position,
        window: Window<'t>,
        mut many: u64,
        passed: &mut Vec<Rung<'t>>,
    ) -> Result<Nearness<'t>, Trouble> {
        let mut walk = Walk::from(rung, end, window)?;
        let own = rung.done.left(end);
        let mut before: BTreeMap<Addr, u64> = BTreeMap::new();
        loop {
            let mut seen: BTreeMap<Addr, u64> = BTreeMap::new();
            if self.walk_on(&mut walk, (end, &own), many, &mut seen, passed)? {
                return Ok(walk.nearness());
            }
            let repeated = Repeated { seen: &seen, before: &before, many, is_whole: walk.is_whole };
            if let Some((nearer, left)) = self.in_last_rounds(rung, end, &repeated)? {
                return Ok(Nearness::far(nearer, &walk.window, left));
            }
            // From there, what the way has counted up to there can be counted as all else.
            let nearer = walk.gone_on.take_if(|copy| copy.done.left(end) != own);
            if let Some(nearer) = nearer {
                return Ok(Nearness::far(nearer, &walk.window, FAR));
            }
            for (addr, hits) in seen {
                *before.entry(addr).or_default() += hits;
            }
            walk.keep_copy()?;
            many *= 2;
        }
    }

    /// Makes so many steps. True: the end was there before they were over. `seen`: how often a task stood in
    /// front of each instruction, but for those that the way itself counts (`own`).
    fn walk_on(
        &mut self,
        walk: &mut Walk<'t, '_>,
        (end, own): (&Position, &BTreeSet<Addr>),
        many: u64,
        seen: &mut BTreeMap<Addr, u64>,
        passed: &mut Vec<Rung<'t>>,
    ) -> Result<bool, Trouble> {
        let mut standing = Standing::of(&mut walk.live)?;
        for _ in 0..many {
            if let Some(Standing { registers, .. }) = standing
                && !own.contains(&registers.ip())
            {
                *seen.entry(registers.ip()).or_default() += 1;
            }
            match self.one_step_to(&mut walk.live, &mut walk.goal, &mut walk.window)? {
                Stepped::Gone => walk.note_step(),
                Stepped::Not => {}
                Stepped::There => return Ok(true),
            }
            let now = Standing::of(&mut walk.live)?;
            walk.calls.stepped(standing, now, &walk.live);
            standing = now;
            match self.go_over(&mut walk.live, &mut walk.goal, &mut walk.calls, end)? {
                Over::None => {}
                Over::Within(here) => passed.push(here),
                Over::Returned(within) => {
                    passed.extend(walk.gone_on.replace(within));
                    (walk.latest, walk.is_whole) = (None, false);
                    standing = Standing::of(&mut walk.live)?;
                }
            }
        }
        Ok(false)
    }

    /// A rung in the last rounds of a loop between a rung and the end, and how many steps there may be left
    /// from it; none: nothing that has repeated leads far.
    fn in_last_rounds(
        &mut self,
        rung: &mut Rung<'t>,
        end: &Position,
        repeated: &Repeated<'_>,
    ) -> Result<Option<(Rung<'t>, u64)>, Trouble> {
        if repeated.seen.values().all(|hits| *hits <= OFTEN) {
            return Ok(None);
        }
        let (mut begun, own) = (rung.resume_without_counts(end)?, rung.done.left(end));
        let ahead = self.ahead(&begun.0, end);
        let often = most_often(repeated.seen, |addr| Ok(begun.0.replica.can_count(addr, &own, ahead)?))?;
        // The replica that was asked makes the first look.
        let mut begun = Some(begun);
        let mut looks: VecDeque<Addr> = often.iter().copied().take(LOOKS_MAX).collect();
        let mut too_many = None;
        while let Some(addr) = looks.pop_front() {
            let begun = match begun.take() {
                Some(begun) => begun,
                None => rung.resume_without_counts(end)?,
            };
            let count = match self.count_rounds(begun, end, addr, None)? {
                Rounds::All(count, ..) => count,
                Rounds::TooMany(rung) => {
                    // What the program does not count by itself is asked of the one that comes least often.
                    looks.clear();
                    let least = often.last().filter(|_| too_many.is_none());
                    looks.extend(least.filter(|least| **least != addr));
                    too_many = Some((addr, rung));
                    continue;
                }
            };
            if !repeated.leads_far(addr, count) {
                continue;
            }
            let until = count - repeated.kept(addr);
            let Some((_, mut live, done)) = self.rounds(rung, end, addr, Some(until))? else { continue };
            if let Some(rung) = rung_without_point(&mut live, addr, done)? {
                return Ok(Some((rung, repeated.left(addr))));
            }
        }
        // At a stop a round, the one that comes least often has come nearer than steps would lead.
        let Some((addr, mut nearer)) = too_many else { return Ok(None) };
        let (mut live, goal) = nearer.resume(end)?;
        Ok(rung_without_point(&mut live, addr, goal.done)?.map(|rung| (rung, FAR)))
    }
}

/// A rung where a replica has come to by stops at an address. The replica does not stop there any more:
/// whoever goes on from it would be stopped each time.
fn rung_without_point<'t>(live: &mut Live<'t>, addr: Addr, done: Done) -> Result<Option<Rung<'t>>, Trouble> {
    let mut counts = live.counts();
    counts.remove(&addr);
    live.replica.set_points_and_counts(&BTreeSet::new(), &counts)?;
    let copy = live.replica.checkpoint(&mut live.company)?;
    Ok(copy.map(|copy| Rung { copy, done, image: live.image }))
}
