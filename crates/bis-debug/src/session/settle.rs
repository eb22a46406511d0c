//! Where the user stands: the session goes to a position, and names where it has come to.

use bis_trace::types::Tid;

use super::{
    Report, Session, Trouble, Why,
    place::{Leg, Position},
};

impl Session<'_> {
    /// The user stands there from now on.
    pub(super) fn settle(&mut self, position: Position) -> Result<(), Trouble> {
        self.live = self.travel(&position)?;
        let tid = self.standing(&position)?;
        self.tid = self.alive(tid);
        self.position = position;
        Ok(())
    }

    /// This task, or one that is there if it has ended: an event that is done may be a task's end.
    pub(super) fn alive(&mut self, tid: Tid) -> Tid {
        let next = self.live.replica.next_event().ok().flatten().map(|event| event.tid);
        let tasks: Vec<Tid> = self.live.replica.tasks().collect();
        [Some(tid), next]
            .into_iter()
            .flatten()
            .find(|tid| tasks.contains(tid))
            .or(tasks.first().copied())
            .unwrap_or(tid)
    }

    /// Whose place it is where the live replica stands.
    fn standing(&mut self, position: &Position) -> Result<Tid, Trouble> {
        if let Some(Leg::Step { tid, .. }) = position.legs.last() {
            return Ok(*tid);
        }
        let done = self.live.replica.done().1;
        if position.legs.is_empty() {
            return Ok(done);
        }
        Ok(self.live.replica.next_event()?.map_or(done, |event| event.tid))
    }

    /// Goes to a place.
    ///
    /// # Errors
    /// Where there is no such place in this process; the session stays where it was.
    pub fn seek(&mut self, position: &Position) -> Result<Report, Trouble> {
        let position = self.exact(position)?;
        self.settle(position)?;
        self.position = self.own_name();
        Ok(Report { tid: self.tid, why: Why::Arrived })
    }

    /// Goes back to where the user was, as if a breakpoint of this task's were there.
    ///
    /// # Errors
    /// Where it cannot be gone to, or the user asks to stop.
    pub fn return_to(&mut self, was_at: &Position, tid: Tid) -> Result<Report, Trouble> {
        self.seek(was_at)?;
        self.tid = tid;
        Ok(Report { tid, why: Why::Breakpoint { is_hardware: false } })
    }

    /// The name of the user's position, which may have been given by an event that comes long before.
    fn own_name(&self) -> Position {
        let (event, _) = self.live.replica.done();
        if self.position.legs.is_empty()
            && let Some((next, true)) = self.live.replica.underway()
        {
            return Position::at(event).then(Leg::Before(next.seq));
        }
        let traps = self.live.replica.traps();
        match self.position.legs.last() {
            Some(Leg::Arrive { addr, .. }) if event != self.position.event => match traps.arrivals(*addr) {
                0 => Position::at(event),
                n => Position::at(event).then(Leg::Arrive { addr: *addr, n }),
            },
            _ => self.position.clone(),
        }
    }
}
