//! Checkpoints that the user gets without asking for each are made, as [`super::intervals`] says.

use bis_trace::types::EventSeq;

use super::{
    Session, Trouble,
    intervals::{Interval, Moment},
    place::Position,
};

impl Session<'_> {
    /// From here on, checkpoints are made so often.
    pub fn set_interval(&mut self, every: Interval) {
        self.intervals.every = every;
        self.intervals.last = self.moment();
    }

    /// The checkpoints that were made since this was asked last.
    pub fn take_made(&mut self) -> Vec<Position> {
        std::mem::take(&mut self.intervals.made)
    }

    /// Is there a copy of the process at this position? Those that are kept give way where they take too much
    /// memory.
    pub fn has_copy(&self, position: &Position) -> bool {
        self.history.has_event(position.event)
    }

    fn moment(&self) -> Moment {
        let replica = &self.live.replica;
        (replica.done().0.0, replica.position(), replica.elapsed().unwrap_or_default())
    }

    /// An event is done: makes a checkpoint, if it is time for one.
    pub(super) fn keep_in_intervals(&mut self) -> Result<(), Trouble> {
        let now = self.moment();
        if !self.intervals.is_due(now) {
            return Ok(());
        }
        self.save_live()?;
        let position = Position::at(EventSeq(now.0));
        if self.has_copy(&position) {
            self.intervals.last = now;
            self.intervals.made.push(position);
        }
        Ok(())
    }
}
