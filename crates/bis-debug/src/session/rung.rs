//! A copy of a replica on its way to a position, which knows how much of the way is done.

use bis_replay::Checkpoint;

use super::{
    goal::{Done, Goal},
    live::Live,
    place::Position,
    report::Trouble,
};

/// See the module's text.
pub(super) struct Rung<'t> {
    pub copy: Checkpoint<'t>,
    pub done: Done,
    pub image: usize,
}

impl<'t> Rung<'t> {
    /// Does it stand behind the last event in front of a position, and nothing has run since?
    pub(super) fn is_behind_event(&self, position: &Position) -> bool {
        !position.legs.is_empty() && self.copy.done() == position.event && self.done == Done::default()
    }

    /// A replica that goes on from here.
    pub(super) fn resume<'p>(&mut self, end: &'p Position) -> Result<(Live<'t>, Goal<'p>), Trouble> {
        let (replica, company) = self.copy.resume()?;
        let live = Live::new(replica, company, self.image);
        Ok((live, Goal { done: self.done, ..Goal::new(end) }))
    }

    /// As `resume`, but the program counts nothing by itself. It was to count up to the end of the way.
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
