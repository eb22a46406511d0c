//! The way to a place is begun at copies that were made on the way to another one behind it ([`Passed`]).
//!
//! A user who steps back goes on with it, and the ways to where the user then stands are nearly the same. How
//! far a copy has come on such a way is not known by itself: the place is named by arrivals at an address
//! that nobody has counted there. But the copy leads to the first place, and how often a task comes to the
//! address up to that is soon counted: from the copy on, and from the last event on. The difference lies in
//! front of the copy.
//!
//! [`Passed`]: super::super::passed::Passed

use super::super::{
    Session, Trouble,
    goal::Goal,
    over::Standing,
    passed::Way,
    place::{Leg, Position},
    rung::Rung,
};

impl<'t> Session<'t> {
    /// The last two of the copies that were made on another way that are in front of a position. `first`: a
    /// rung behind the position's event.
    pub(super) fn passed_before(
        &mut self,
        end: &Position,
        first: &mut Rung<'t>,
    ) -> Result<Vec<Rung<'t>>, Trouble> {
        let mut passed = std::mem::take(&mut self.passed);
        let mut found = Ok(Vec::new());
        for way in passed.ways.iter_mut().rev() {
            found = self.last_of_way(way, end, first);
            if !found.as_ref().is_ok_and(Vec::is_empty) {
                break;
            }
        }
        self.passed = passed;
        found
    }

    fn last_of_way(
        &mut self,
        Way { end: other, rungs }: &mut Way<'t>,
        end: &Position,
        first: &mut Rung<'t>,
    ) -> Result<Vec<Rung<'t>>, Trouble> {
        let Some(Leg::Arrive { addr, n }) = end.legs.first() else { return Ok(Vec::new()) };
        if other.event != end.event || other.arrivals().contains(addr) {
            return Ok(Vec::new());
        }
        let (live, _) = first.resume(other)?;
        let goal = Goal::from(other, &live, &Position::at(end.event));
        drop(live);
        let Some(Goal { done, .. }) = goal else { return Ok(Vec::new()) };
        let own = std::mem::replace(&mut first.done, done);
        let total = self.rounds(first, other, *addr, None);
        first.done = own;
        let Some((total, ..)) = total?.filter(|(total, ..)| total >= n) else { return Ok(Vec::new()) };
        // Each copy, as far as it was asked, with the arrivals in front of it.
        let mut before: Vec<Option<u64>> = vec![None; rungs.len()];
        let (mut low, mut high) = (0, rungs.len());
        while low < high {
            let at = usize::midpoint(low, high);
            let Some((left, ..)) = self.rounds(&mut rungs[at], other, *addr, None)? else {
                return Ok(Vec::new());
            };
            before[at] = total.checked_sub(left);
            match before[at] {
                Some(count) if count < *n => low = at + 1,
                _ => high = at,
            }
        }
        let mut found = Vec::new();
        for at in (0..low).rev().take(2) {
            let rung = &mut rungs[at];
            let count = match before[at] {
                Some(count) => count,
                None => match self.rounds(rung, other, *addr, None)? {
                    Some((left, ..)) if left <= total => total - left,
                    _ => break,
                },
            };
            let (mut live, _) = rung.resume_without_counts(other)?;
            // Whether a task that stands there has arrived is the name's to say.
            if Standing::of(&mut live)?.is_none_or(|standing| standing.registers.rip == addr.0) {
                break;
            }
            live.have_points(end, None)?;
            let done = Goal::with_arrivals(end, *addr, &live, count).done;
            let Some(copy) = live.replica.checkpoint(&mut live.company)? else { break };
            found.insert(0, Rung { copy, done, image: live.image });
        }
        tracing::debug!(copies = rungs.len(), before = low, found = found.len(), %end, "on a way that was gone before");
        Ok(found)
    }
}
