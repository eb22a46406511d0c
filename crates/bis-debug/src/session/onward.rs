//! The live replica on its way forward, with what is looked for: what all ways forward do with it.

use std::time::Duration;

use bis_replay::{Halt, Limit, Stop};

use super::{Catch, Session, Trouble, history::Mark, place::Position, told::Told};

/// How long an event is waited for at which a checkpoint can be made, or the program be stopped for the user.
pub(super) const EVENT_AWAITED: Duration = Duration::from_millis(60);

impl Session<'_> {
    /// The live replica, to be moved on, with the user's points in it.
    pub(super) fn arm(&mut self) -> Result<(), Trouble> {
        // Its log is known then.
        self.live.replica.next_event()?;
        let points = self.places_to_next(&self.live.replica);
        self.live.replica.set_points(&points)?;
        let watches = self.points.watches();
        self.live.replica.set_watches(&watches)?;
        Ok(())
    }

    /// Has every event to be looked at?
    pub(super) fn looks_at_events(&self) -> bool {
        self.points.has_watchpoints()
            || self.caught_calls != Catch::None
            || self.catches_forks
            || self.tells_threads
            || self.intervals.is_on()
    }

    /// What the event that comes next is.
    pub(super) fn peek(&mut self) -> Result<Option<Told>, Trouble> {
        Ok(self.live.replica.next_event_and_self()?.map(|(event, replica)| Told::of(event, replica)))
    }

    pub(super) fn advance_live(&mut self, limit: &Limit<'_>) -> Result<Stop, Halt> {
        let Session { host, points, others, live, .. } = self;
        others.advance(host, points, live, limit)
    }

    pub(super) fn save_live(&mut self) -> Result<(), Trouble> {
        let Session { live, history, .. } = self;
        let (event, _) = live.replica.done();
        if live.replica.is_at_event()
            && !history.has_event(event)
            && let Some(mark) = Mark::of(live, Position::at(event))?
        {
            history.add(mark);
        }
        Ok(())
    }
}
