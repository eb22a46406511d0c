//! The user has stopped a program in the middle of a long computation. Such a place has no name, so the
//! session goes to one nearby that has.

use std::time::Duration;

use super::{
    Report, Session, Trouble, Why,
    backward::{Found, Patience},
    history::Mark,
    place::Position,
    strides::Stride,
    way::Way,
};

/// What is called near of where the user has stopped the program.
const NEARBY: Duration = Duration::from_millis(1);

impl<'t> Session<'t> {
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
            match self.stride(mark, &end, left.min(mark.pace()), &mut hint)? {
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
