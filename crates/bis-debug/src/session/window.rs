//! One step back, and the names of places that were found so.
//!
//! A replica is run to just before where the user stands, and copied on the way, ever closer
//! ([`super::climb`]); from the last copy it goes on instruction by instruction, each of which is remembered:
//! a [`Window`]. Further steps back need only that.
//!
//! How a window is made is in `window/make.rs`, and how its places are named in `window/names.rs`; when a
//! step back needs none is in `window/before_hit.rs`.
//!
//! A place in a window has a name at once that says how many steps in front of the window's end it is. Its
//! *exact* name says how to get there by going forward alone: so many steps behind the nearest arrival in the
//! window at the address by which the end is named. Where there is none, it takes a run from the mark before:
//! how often tasks arrive at the place's address up to the end of the window, less those that are in the
//! window from there on.

mod before_hit;
mod known;
mod make;
mod names;
mod one_step;
mod steps;

use std::collections::BTreeSet;

use bis_trace::types::{Addr, EventSeq, Tid};

pub(super) use self::{known::Known, one_step::Stepped, steps::Window};
use self::{
    names::unknown,
    one_step::one_step,
    steps::{Name, Part, Step},
};
use super::{Session, Trouble, live::Live, place::Position};

/// How far in front of a place in a window that is gone to a copy is made, where the last one is farther: who
/// steps back does it again.
const NEAR: usize = 24;

impl<'t> Session<'t> {
    /// Lets the live replica stand one instruction of this task before where it stands; its position. None:
    /// there is none in this image.
    pub(super) fn position_before(&mut self, tid: Tid) -> Result<Option<Position>, Trouble> {
        let mut end = self.position.clone();
        let mut index = self.index_in_window(&end);
        loop {
            if index.is_none() && self.window.as_ref().is_none_or(|window| window.end != end) {
                let exact = self.exact(&end)?;
                match self.make_window(&exact)? {
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
                let step = steps[found];
                let is_last = found + 1 == steps.len() && step.event == end.event;
                if is_last && step.name == Name::Arrival && step.part == Part::All && end == self.position {
                    let registers = self.live.replica.registers(tid).ok();
                    registers.into_iter().for_each(|it| self.known.learn(it.ip(), step.rip));
                }
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
    pub(super) fn last_arrival_in_window(&self, places: &BTreeSet<Addr>) -> Option<(usize, Tid, Addr)> {
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
            if places.contains(&step.rip) {
                return (step.name == Name::Arrival).then_some((index, step.tid, step.rip));
            }
        }
        None
    }

    /// Is the user's place in the window in front of this position, in the same interval, with none of these
    /// addresses on the way? Or is it one instruction in front of it?
    pub(super) fn is_closely_before(&self, position: &Position, places: &BTreeSet<Addr>) -> bool {
        if let Some(addr) = self.known.step_between(&self.position, position) {
            return !places.contains(&addr);
        }
        let Some(window) = self.window.as_ref().filter(|window| window.end == *position) else {
            return false;
        };
        let Some(here) = self.index_in_window(&self.position) else { return false };
        let is_between = |step: &Step| step.event == position.event && !places.contains(&step.rip);
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

    /// The first position in the window that has a name. What is in front of it is no instruction. None:
    /// there is none in front of its end.
    fn begin_of_window(&mut self) -> Result<Option<Position>, Trouble> {
        let steps = self.window.as_ref().map_or(&[][..], |window| &window.steps);
        let Some(first) = steps.iter().position(|step| step.name != Name::None) else { return Ok(None) };
        let position = self.window_position(first);
        self.exact(&position).map(Some)
    }
}
