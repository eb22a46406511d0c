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
//! How a stretch is cut into pieces is in `backward/stretch.rs`, how one is run through in
//! `backward/search.rs`. How one step back is made is in [`super::window`].

mod hit;
mod search;
mod stretch;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bis_replay::{Limit, Stop};
use bis_trace::{
    event::{DomainEntry, Meta},
    types::Tid,
};

pub(super) use self::hit::{Found, Hit, Hits, Patience};
use super::{
    Report, Session, Trouble, Why,
    crew::{Stretch, Together},
    events::end_of,
    history::Mark,
    place::{Leg, Position},
    points::Asker,
    report::unexpected,
    searched::Wanted,
};

/// So long a search is the session's own; then others help, if there are cores for them.
const ALONE: Duration = Duration::from_millis(30);

impl<'t> Session<'t> {
    /// Goes back to the last thing that happened before.
    pub fn reverse(&mut self) -> Report {
        self.moving(Session::reverse_continue)
    }

    /// Goes back by one instruction of a task.
    pub fn reverse_step(&mut self, tid: Tid) -> Report {
        self.moving(|session| session.step_back(tid, true))
    }

    /// Goes back to the last change of what is watched, past all else that would stop it. Where there was
    /// none in this program, it goes to where the user was, and says so as a breakpoint there would.
    pub fn reverse_to_change(&mut self, was_at: &Position, tid: Tid) -> Report {
        let wanted = self.want(Wanted::only(self.points.only_watchpoints()));
        let report = self.moving(|session| {
            loop {
                let report = session.reverse_continue()?;
                match report.why {
                    Why::Begin | Why::Exec(_) => return session.return_to(was_at, tid),
                    Why::Watchpoint { .. } | Why::Interrupted | Why::Broken(_) => return Ok(report),
                    _ => {}
                }
            }
        });
        self.want(wanted);
        report
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
            end = self.name_of(&end);
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
        if !self.points.is_plain(addr) {
            return Ok(None);
        }
        self.position = self.go_in_window(index)?;
        Ok(self.breakpoint_hit(&self.live, tid, addr))
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
        if is_piece { Patience::Few } else { Patience::Short }
    }

    /// The stretches between the marks of an image, from this position back.
    fn stretches(&mut self, image: usize, end: &Position) -> Vec<Stretch<'t>> {
        let mut stretches: Vec<Stretch<'t>> = Vec::new();
        let mut end = end.clone();
        while let Some(from) = self.history.best_before(image, &end)
            && stretches.iter().all(|known| known.from.position != from.position)
        {
            let patience = self.patience(&from, &end);
            let before = from.position.clone();
            stretches.push(Stretch { from, end, patience });
            end = self.name_of(&before);
        }
        stretches
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

    /// One instruction of this task back, with everything that has happened since. With `is_told`, watched
    /// bytes that it changes are told of, and breakpoints.
    fn step_back(&mut self, tid: Tid, is_told: bool) -> Result<Report, Trouble> {
        let values = self.points.values(&self.live.replica);
        let known = if is_told { self.position_before_hit(tid)? } else { None };
        let before = match known {
            None => self.position_before(tid)?,
            known => known,
        };
        let Some(position) = before else {
            let entry = self.world.entry(self.images[self.image_of(self.position.event)]);
            let entry = entry.map_err(bis_replay::Halt::from)?;
            if self.was_made_behind(entry, tid) {
                // It stays where it begins; what others have done before is for them to be led back over.
                return Ok(Report { tid, why: Why::Begin });
            }
            if self.image_of(entry.seq) > 0 && is_told {
                return self.previous_image(&Position::at(entry.seq));
            }
            self.settle(Position::at(entry.seq))?;
            return Ok(Report { tid: self.tid, why: Why::Begin });
        };
        self.position = position;
        self.tid = tid;
        // A client that has not heard of a change takes the next one for none.
        let asker = &mut Asker { replica: &self.live.replica, targets: &self.targets, tid };
        let changed = self.points.watchpoint(None, &values, asker).0.filter(|_| is_told);
        let why = changed.map_or(Why::Step, |(kind, addr)| Why::Watchpoint { kind, addr });
        Ok(Report { tid, why })
    }

    /// Was this task made by another one of the image, and not there when that began?
    fn was_made_behind(&self, begin: &DomainEntry, tid: Tid) -> bool {
        let is_it = |meta: &Meta| match meta {
            Meta::Task { domain, tid: made, seq, .. } => {
                (*domain, *made) == (begin.domain, tid) && *seq > begin.seq
            }
            _ => false,
        };
        self.world.trace().metas().any(is_it)
    }
}
