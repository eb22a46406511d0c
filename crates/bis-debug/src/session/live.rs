//! A replica, and what is replayed beside it.

use std::collections::BTreeSet;

use bis_replay::{Company, Replica};
use bis_trace::types::Addr;

use super::{Trouble, place::Position, report::Report};

/// A replica with those that are replayed beside it.
#[derive(Debug)]
pub struct Live<'t> {
    pub replica: Replica<'t>,
    pub(super) company: Company<'t>,
    /// Its domain's place among the images.
    pub(super) image: usize,
    /// Why it cannot go on, if it cannot.
    pub(super) broken: Option<Report>,
    /// How many pages it had been given when its last mark was made.
    given: u64,
}

impl<'t> Live<'t> {
    pub(super) fn new(replica: Replica<'t>, company: Company<'t>, image: usize) -> Live<'t> {
        Live { replica, company, image, broken: None, given: 0 }
    }

    /// How many pages it has been given since its last mark, which is made now.
    pub(super) fn pages_since_mark(&mut self) -> u64 {
        let given = self.replica.pages_given();
        given.saturating_sub(std::mem::replace(&mut self.given, given))
    }

    /// The addresses whose arrivals were counted so far, which goes on wherever it is gone to: places are
    /// named by them.
    pub(super) fn counts(&self) -> BTreeSet<Addr> {
        self.replica.traps().all_counts().into_keys().collect()
    }

    /// The points that a replica needs on its way, with those that are counted already, and another one.
    pub(super) fn have_points(&mut self, end: &Position, also: Option<Addr>) -> Result<(), Trouble> {
        let mut points = end.arrivals();
        points.extend(also);
        // Behind the next event nothing is named by what was counted so far: it would be stops in vain.
        let counts = if self.is_behind_event_of(end)? { self.counts() } else { BTreeSet::new() };
        Ok(self.replica.set_points_and_counts(&points, &counts)?)
    }

    /// Is a position's event done?
    pub(super) fn is_behind_event_of(&mut self, position: &Position) -> Result<bool, Trouble> {
        // The event may be none of this stream's.
        let next = self.replica.next_event()?.map(|event| event.seq);
        Ok(self.replica.done().0 >= position.event || next.is_none_or(|next| next > position.event))
    }
}
