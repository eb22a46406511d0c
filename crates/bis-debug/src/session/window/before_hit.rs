//! One step back from a place that a search has found, to the instruction from which the program came there
//! the last time.
//!
//! A client that judges a breakpoint's condition itself steps back from each of its hits, and searches on.
//! All hits are at one address, and mostly the same instruction is in front of it. Then no window is needed:
//! the program counts how often it comes to that instruction up to the hit, and is stopped at the last time.
//! One step must lead to the hit from there; if it does not, it is a window's turn.

use bis_trace::types::Tid;

use super::{
    super::{Session, Trouble, goal::Goal, history::Mark, place::Position},
    known::OneStep,
    one_step::Stepped,
    steps::{Name, Part, Window},
};

/// Tries of a step that do not lead on: a stop at the place itself is one.
const TRIES_MAX: usize = 4;

impl<'t> Session<'t> {
    /// Lets the live replica stand one instruction of this task before where it stands, if a search has led
    /// there, and where the program comes from is known; its position.
    pub(in crate::session) fn position_before_hit(&mut self, tid: Tid) -> Result<Option<Position>, Trouble> {
        let is_hit = self.hits.as_ref().is_some_and(|hits| hits.end_at(&self.position));
        let is_in_window = self.window.as_ref().is_some_and(|window| window.end == self.position);
        if !is_hit || is_in_window {
            return Ok(None);
        }
        let Ok(registers) = self.live.replica.registers(tid) else { return Ok(None) };
        let Some(addr) = self.known.before.get(&registers.ip()).copied() else { return Ok(None) };
        let own_end = self.exact(&self.position.clone())?;
        let end = self.name_of(&own_end);
        let Some(from) = self.mark_in_interval(&end)? else { return Ok(None) };
        let mut live = from.resume()?;
        // Elsewhere each arrival would be a stop, and in a loop there are millions.
        if !live.replica.can_count(addr, &end.arrivals(), self.ahead(&live, &end))? {
            return Ok(None);
        }
        let count = self.arrivals_between(live, &from.position, addr, &end)?;
        if count == 0 {
            return Ok(None);
        }
        let Some((mark, name)) = self.go_to_arrival(&from, &end, addr, count)? else { return Ok(None) };
        if !self.is_one_step(tid, &mark, &name)? {
            tracing::debug!(%own_end, addr = format_args!("{addr:#x}"), "something else is in front of it");
            self.known.before.remove(&registers.ip());
            return Ok(None);
        }
        let mut live = mark.resume()?;
        self.run_there(&mut live, &mark.position)?;
        self.live = live;
        self.known.last = Some(OneStep { from: mark.position.clone(), addr, to: own_end });
        Ok(Some(mark.position))
    }

    /// The last mark in front of a position that is in the interval behind the position's event. There is one
    /// now, if the position is in such an interval.
    fn mark_in_interval(&mut self, end: &Position) -> Result<Option<Mark<'t>>, Trouble> {
        if end.legs.is_empty() {
            return Ok(None);
        }
        let image = self.image_of(end.event);
        let is_inside = |mark: &Mark<'t>| mark.position.event == end.event;
        if let Some(mark) = self.history.best_before(image, end).filter(is_inside) {
            return Ok(Some(mark));
        }
        let begin = Position::at(end.event);
        let mut live = self.travel(&begin)?;
        let mark = Mark::of(&mut live, begin)?;
        // The next steps back are near.
        mark.iter().for_each(|mark| self.history.add(mark.clone()));
        Ok(mark)
    }

    /// Does one instruction of this task lead from a mark to a position?
    fn is_one_step(&mut self, tid: Tid, mark: &Mark<'t>, end: &Position) -> Result<bool, Trouble> {
        let mut live = mark.resume()?;
        live.have_points(end, None)?;
        let Some(mut goal) = Goal::from(end, &live, &mark.position) else { return Ok(false) };
        let mut window = Window::new(mark.clone(), end.clone());
        for _ in 0..TRIES_MAX {
            match self.one_step_to(&mut live, &mut goal, &mut window)? {
                Stepped::Not => {}
                Stepped::There => return Ok(false),
                Stepped::Gone => {
                    let [step] = window.steps[..] else { return Ok(false) };
                    let is_whole = step.name == Name::Arrival && step.part == Part::All && step.tid == tid;
                    return Ok(is_whole && goal.pass_legs(&mut live)?);
                }
            }
        }
        Ok(false)
    }
}
