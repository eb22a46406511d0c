//! Rungs at places of which it is known that they are on the way: a replica is led there, and copied.

use bis_replay::Limit;

use super::super::{
    Session, Trouble,
    goal::{Done, Goal},
    history::Mark,
    live::Live,
    place::Position,
    rung::Rung,
};

impl<'t> Session<'t> {
    /// The last rung, at a position on the way to the end.
    pub(super) fn rung_at(
        &mut self,
        rungs: &mut Vec<Rung<'t>>,
        end: &Position,
        earlier: Position,
    ) -> Result<(), Trouble> {
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        let rung = self.rung_from(last, end, earlier)?;
        rungs.extend(rung);
        Ok(())
    }

    /// A rung behind another one, at a position on the way to the end.
    pub(super) fn rung_from(
        &mut self,
        last: &mut Rung<'t>,
        end: &Position,
        earlier: Position,
    ) -> Result<Option<Rung<'t>>, Trouble> {
        let (mut live, mut goal) = last.resume_without_counts(&earlier)?;
        live.have_points(&earlier, None)?;
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
        let Some(goal) = Goal::from(end, &live, &earlier) else { return Ok(None) };
        let done = goal.done;
        // The next steps back are near.
        if let Some(mark) = Mark::of(&mut live, earlier)? {
            self.history.add(mark);
        }
        Self::rung_here(&mut live, done)
    }

    pub(super) fn rung_here(live: &mut Live<'t>, done: Done) -> Result<Option<Rung<'t>>, Trouble> {
        let copy = live.replica.checkpoint(&mut live.company)?;
        Ok(copy.map(|copy| Rung { copy, done, image: live.image }))
    }
}
