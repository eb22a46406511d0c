//! Checkpoints that the user gets without asking for each: after so many events, or so much time of the
//! recording, at the next event. They are made where the user comes for the first time.

use std::time::Duration;

use bis_trace::types::EventSeq;

use super::{Session, Trouble, place::Position};

/// How often they are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interval {
    #[default]
    Never,
    Events(u64),
    Time(Duration),
}

/// What a session knows of them.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    every: Interval,
    /// Where the last one was made: its event, how many events of the process were done, and when they were
    /// recorded.
    last: (u64, u64, Duration),
    /// Those that nobody has fetched.
    made: Vec<Position>,
}

impl Intervals {
    pub(super) fn is_on(&self) -> bool {
        self.every != Interval::Never
    }
}

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

    fn moment(&self) -> (u64, u64, Duration) {
        let replica = &self.live.replica;
        (replica.done().0.0, replica.position(), replica.elapsed().unwrap_or_default())
    }

    /// An event is done: makes a checkpoint, if it is time for one.
    pub(super) fn keep_in_intervals(&mut self) -> Result<(), Trouble> {
        let (now, last) = (self.moment(), self.intervals.last);
        // The user has been here before.
        if now.0 <= last.0 {
            return Ok(());
        }
        let is_due = match self.intervals.every {
            Interval::Never => false,
            // A program that the process executes counts its own.
            Interval::Events(count) => now.1 < last.1 || now.1 - last.1 >= count,
            Interval::Time(time) => now.2.saturating_sub(last.2) >= time,
        };
        if !is_due {
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
