//! The marks of a session: where it can begin to run from, to get to a position.
//!
//! A *mark* is a checkpoint at a place with a name. Most stand right behind an event; in a long computation
//! there are such as stand at an arrival ([`super::strides`]). Of two places between the same two events, the
//! names tell which comes first only where one begins as the other one does: a mark leads to the positions
//! whose names go on from its own. A position that is known by another name, and is found to lie behind a
//! mark, gets a second name that goes on from there ([`History::also_known`]). So does one that is named by
//! more arrivals at an address than had been counted there when the mark was made.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use bis_replay::{Checkpoint, Halt, Parcel};
use bis_trace::types::{Addr, EventSeq, Tid};

use super::{
    live::Live,
    memory::{self, Budget},
    place::{Leg, Position},
};

/// How long a replica runs before a checkpoint is made, at least.
pub(super) const CHECKPOINT_EVERY: Duration = Duration::from_millis(400);

/// It runs so many times as long as its last checkpoint has cost; up to some time, as whoever goes back waits
/// for as much to be gone again.
const PACE: u32 = 8;
const PACE_MAX: Duration = Duration::from_secs(10);

/// What it costs that a page is written to for the first time behind a checkpoint, and so copied: 3.2 µs in a
/// virtual machine in one (Linux 6.18, AMD Zen 3), less where there are fewer of these.
const PAGE_COST: Duration = Duration::from_micros(3);

/// See the module's text. A clone of it is the same checkpoint.
#[derive(Clone, Debug)]
pub struct Mark<'t> {
    copy: Rc<RefCell<Checkpoint<'t>>>,
    pub position: Position,
    /// The place of the domain among those of the session's process.
    pub image: usize,
    /// For how long tasks have run since the position's event, about.
    pub ran: Duration,
    /// One of those that cut a long computation into pieces.
    is_stride: bool,
    /// What it has cost, and the pages that were copied on the way to it because of the one before.
    cost: Duration,
    /// How often tasks had come to addresses since the position's event.
    arrivals: Rc<BTreeMap<Addr, u64>>,
}

impl<'t> Mark<'t> {
    /// A mark of where a replica stands, whose position this is. None: it cannot be copied here.
    ///
    /// # Errors
    /// Where the process is gone, or the machine has no room.
    pub fn of(live: &mut Live<'t>, position: Position) -> Result<Option<Mark<'t>>, Halt> {
        let traps = live.replica.traps();
        let (ran, arrivals) = (traps.ran_for(), Rc::new(traps.all_arrivals()));
        let began = Instant::now();
        let copy = live.replica.checkpoint(&mut live.company)?;
        let pages = u32::try_from(live.pages_since_mark()).unwrap_or(u32::MAX);
        let cost = began.elapsed().saturating_add(PAGE_COST.saturating_mul(pages));
        let mark = |copy| Mark {
            copy: Rc::new(RefCell::new(copy)),
            position,
            image: live.image,
            ran,
            is_stride: false,
            cost,
            arrivals,
        };
        Ok(copy.map(mark))
    }

    /// This mark, as one of those that cut a long computation into pieces.
    #[must_use]
    pub fn into_stride(self) -> Mark<'t> {
        Mark { is_stride: true, ..self }
    }

    /// How long a replica is to run from here before the next checkpoint is made.
    pub fn pace(&self) -> Duration {
        CHECKPOINT_EVERY.max((self.cost * PACE).min(PACE_MAX))
    }

    /// A copy of it, for another thread. None: it cannot be sent.
    ///
    /// # Errors
    /// Where the machine has no room.
    pub fn send(&self) -> Result<Option<Parcel<'t>>, Halt> {
        self.copy.borrow_mut().send()
    }

    pub fn place(&self) -> Place {
        Place { position: self.position.clone(), image: self.image, ran: self.ran }
    }

    /// The mark of which this is the copy.
    pub fn received(copy: Checkpoint<'t>, place: Place) -> Mark<'t> {
        let Place { position, image, ran } = place;
        let copy = Rc::new(RefCell::new(copy));
        Mark { copy, position, image, ran, is_stride: false, cost: Duration::ZERO, arrivals: Rc::default() }
    }

    /// A replica that goes on from here.
    ///
    /// # Errors
    /// Where the machine has no room.
    pub fn resume(&self) -> Result<Live<'t>, Halt> {
        let (replica, company) = self.copy.borrow_mut().resume()?;
        Ok(Live::new(replica, company, self.image))
    }
}

/// Where a mark is, for another thread.
#[derive(Clone, Debug)]
pub struct Place {
    position: Position,
    image: usize,
    ran: Duration,
}

/// See the module's text.
#[derive(Debug)]
pub struct History<'t> {
    /// In the order of their places, as far as that is known; each with its number over the whole session.
    marks: Vec<(u64, Mark<'t>)>,
    next: u64,
    /// Positions with a second name, the latest last.
    names: Vec<(Position, Position)>,
    budget: Rc<Budget>,
    /// What the marks take, as it was measured last.
    used: u64,
    /// It is measured again when there has been a mark of this number.
    measure_at: u64,
    /// Processes of other copies, which count as marks do and can be done without.
    others: Vec<Tid>,
    /// How many of them there were when it was measured last.
    measured: usize,
    /// The marks alone take all that there is.
    is_short: bool,
    /// How long a replica is to run behind the newest mark before the next one is made.
    pace: Duration,
}

/// How many marks there are at most; then every third of the oldest goes.
const MARKS_MAX: usize = 96;

/// How many of the newest are spared then, and at least if memory is short.
const SPARED: u64 = 24;
const SPARED_MIN: u64 = 4;

/// Their memory is measured each time that there are so many more.
const MEASURE_EVERY: u64 = 8;
const MEASURE_MORE: usize = 16;

/// The second names that are remembered.
const NAMES_MAX: usize = 64;

impl<'t> History<'t> {
    pub fn new(budget: Rc<Budget>) -> History<'t> {
        History {
            marks: Vec::new(),
            next: 0,
            names: Vec::new(),
            budget,
            used: 0,
            measure_at: MEASURE_EVERY,
            others: Vec::new(),
            measured: 0,
            is_short: false,
            pace: CHECKPOINT_EVERY,
        }
    }

    pub fn budget(&self) -> &Rc<Budget> {
        &self.budget
    }

    /// How long a replica is to run before the next mark is made.
    pub fn pace(&self) -> Duration {
        self.pace
    }

    pub fn add(&mut self, mark: Mark<'t>) {
        if self.marks.iter().any(|(_, known)| known.position == mark.position) {
            return;
        }
        self.next += 1;
        self.pace = mark.pace();
        let place = |mark: &Mark<'_>| (mark.position.event, mark.ran);
        let at = self.marks.partition_point(|(_, known)| place(known) <= place(&mark));
        self.marks.insert(at, (self.next, mark));
        if self.marks.len() > MARKS_MAX {
            self.thin_out(SPARED, 3);
        }
        if self.next >= self.measure_at {
            self.measure_at = self.next + MEASURE_EVERY;
            self.fit();
        }
    }

    /// One in so many of the marks goes that are not the first of their image, the newest ones excepted. Has
    /// one gone?
    fn thin_out(&mut self, spared: u64, one_in: usize) -> bool {
        let marks: Vec<(u64, usize)> =
            self.marks.iter().map(|(number, mark)| (*number, mark.image)).collect();
        let stay = memory::staying(&marks, self.next.saturating_sub(spared), one_in);
        let mut stays = stay.iter();
        self.marks.retain(|_| stays.next().is_none_or(|stays| *stays));
        self.marks.len() < marks.len()
    }

    /// Marks go until the others take no more than they may.
    fn fit(&mut self) {
        let mut spared = SPARED;
        loop {
            let left = self.budget.left(self.used);
            let used = memory::beside_one(&self.pids(), left);
            self.budget.change(self.used, used);
            self.used = used;
            tracing::debug!(used, left, marks = self.marks.len(), "measured");
            self.is_short = used > left;
            self.measured = self.others.len();
            if self.is_short && !self.others.is_empty() {
                self.others.clear();
                continue;
            }
            if !self.is_short || !self.thin_out(spared, 2) && spared == SPARED_MIN {
                return;
            }
            spared = (spared / 2).max(SPARED_MIN);
        }
    }

    fn pids(&self) -> Vec<Tid> {
        let marks = self.marks.iter().map(|(_, mark)| mark.copy.borrow().pid());
        marks.chain(self.others.iter().copied()).collect()
    }

    /// Other copies of the process count as well. Is there room for them? They go before marks do.
    pub fn count_also(&mut self, others: Vec<Tid>) -> bool {
        if self.is_short && !others.is_empty() {
            return false;
        }
        self.others = others;
        self.measured = self.measured.min(self.others.len());
        if self.others.len() - self.measured < MEASURE_MORE {
            return true;
        }
        self.fit();
        !self.others.is_empty()
    }

    /// What checkpoints may take more than they do.
    pub fn room(&self) -> u64 {
        self.budget.left(self.used).saturating_sub(self.used)
    }

    /// The process of one of the marks: the others are about as large.
    pub fn pid(&self) -> Option<Tid> {
        self.marks.last().map(|(_, mark)| mark.copy.borrow().pid())
    }

    /// How many marks there are, and what they take of memory.
    pub fn size(&self) -> (usize, u64) {
        (self.marks.len(), memory::beside_one(&self.pids(), 0))
    }

    pub fn has_event(&self, event: EventSeq) -> bool {
        self.marks.iter().any(|(_, mark)| mark.position == Position::at(event))
    }

    /// This position is the same as that one, which marks lead to.
    pub fn also_known(&mut self, position: Position, name: Position) {
        self.names.retain(|(known, _)| *known != position);
        if self.names.len() == NAMES_MAX {
            self.names.remove(0);
        }
        self.names.push((position, name));
    }

    /// The name of a position that marks lead to.
    pub fn name(&self, position: &Position) -> Position {
        let known = self.names.iter().find(|(known, _)| known == position);
        let name = known.map_or(position, |(_, name)| name);
        self.name_by_counts(name).unwrap_or_else(|| name.clone())
    }

    /// The name of a position that goes on from the last mark at which there had been fewer arrivals than the
    /// position is named by. None: there is no such mark, or the position's name goes on from it anyway.
    fn name_by_counts(&self, position: &Position) -> Option<Position> {
        let (Leg::Arrive { addr, n }, rest) = position.legs.split_first()? else { return None };
        let before = self.marks.iter().filter_map(|(_, mark)| {
            let count = mark.arrivals.get(addr).filter(|count| *count < n)?;
            let serves = mark.position.event == position.event && !mark.position.legs.is_empty();
            serves.then_some((count, mark.ran, mark))
        });
        let (count, _, mark) = before.max_by_key(|(count, ran, _)| (*count, *ran))?;
        if position.done_at(&mark.position).is_some() {
            return None;
        }
        let name = mark.position.then(Leg::Arrive { addr: *addr, n: n - count });
        Some(rest.iter().fold(name, |name, leg| name.then(leg.clone())))
    }

    /// The next of the marks that cut a long computation behind one of them, or behind an event: its
    /// position, and the arrivals that lead there from this one.
    pub fn next_stride(&self, from: &Position) -> Option<(Position, Addr, u64)> {
        let marks = self.marks.iter().map(|(_, mark)| mark);
        marks.filter(|mark| mark.is_stride && mark.position != *from).find_map(|mark| {
            let (legs, count) = mark.position.done_at(from).filter(|_| mark.position.event == from.event)?;
            match mark.position.legs.get(legs..)? {
                [Leg::Arrive { addr, n }] => Some((mark.position.clone(), *addr, n - count)),
                _ => None,
            }
        })
    }

    /// Is there a mark at this position that cuts a long computation?
    pub fn is_stride(&self, position: &Position) -> bool {
        self.marks.iter().any(|(_, mark)| mark.is_stride && mark.position == *position)
    }

    /// The last mark in front of a position, or at it, that is right behind an event or cuts a long
    /// computation.
    pub fn last_stride(&self, image: usize, position: &Position) -> Option<Mark<'t>> {
        self.last(image, position, |mark| mark.is_stride || mark.position.legs.is_empty())
    }

    /// The last mark of this image from which a position can be gone to, and that is not behind it.
    pub fn best(&self, image: usize, position: &Position) -> Option<Mark<'t>> {
        self.last(image, position, |_| true)
    }

    /// As [`History::best`], but in front of the position.
    pub fn best_before(&self, image: usize, position: &Position) -> Option<Mark<'t>> {
        self.last(image, position, |mark| mark.position != *position)
    }

    /// As [`History::best`], but in front of another mark that serves as well.
    pub fn best_before_mark(&self, image: usize, position: &Position, than: &Mark<'t>) -> Option<Mark<'t>> {
        self.last(image, position, |mark| {
            mark.position != than.position && than.position.done_at(&mark.position).is_some()
        })
    }

    fn last(
        &self,
        image: usize,
        position: &Position,
        serves: impl Fn(&Mark<'t>) -> bool,
    ) -> Option<Mark<'t>> {
        let marks = self.marks.iter().map(|(_, mark)| mark);
        let places = marks.filter(|mark| mark.image == image && serves(mark)).filter_map(|mark| {
            let (legs, count) = position.done_at(&mark.position)?;
            Some(((mark.position.event, legs, count, mark.ran), mark))
        });
        places.max_by_key(|(place, _)| *place).map(|(_, mark)| mark.clone())
    }
}

impl Drop for History<'_> {
    fn drop(&mut self) {
        self.budget.change(self.used, 0);
    }
}
