//! The last thing that happens in a stretch of the past. A long stretch is cut into pieces, and so is one on
//! which much happens: the last of them are looked at first.

use bis_trace::types::{Addr, EventSeq};

use super::{
    super::{Session, Trouble, history::Mark, place::Position, searched::Wanted},
    hit::{Found, Hit, Patience},
};

/// Rounds of a loop in which much happens that are searched at once, and how many times as much is searched
/// if nothing was found.
const ROUNDS: u64 = 64;
const MORE: u64 = 8;

impl<'t> Session<'t> {
    /// The last thing that happens between a mark and a position, unless it is known that nothing does.
    pub(in crate::session) fn last_hit(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        patience: Patience,
    ) -> Result<Option<Hit>, Trouble> {
        let wanted = self.wanted();
        if self.searched.is_empty(&wanted, &from.position, end) {
            tracing::debug!(from = %from.position, %end, "nothing, as is known");
            return Ok(None);
        }
        let hit = self.find_last_hit(from, end, patience)?;
        if hit.is_none() {
            self.found_empty(&wanted, &from.position, end);
        }
        Ok(hit)
    }

    /// Nothing happens between these: that is remembered. Not where the user stands at the end: what the
    /// event there is told of was not looked for.
    pub(in crate::session) fn found_empty(&mut self, wanted: &Wanted, from: &Position, end: &Position) {
        if !(self.has_heard_of(end) && self.looks_at_events()) {
            self.searched.add_empty(wanted, from.clone(), end.clone());
        }
    }

    /// Looks for it. A long way is cut into pieces, unless it is one, and so is one on which much happens:
    /// the last of them are looked at first.
    fn find_last_hit(
        &mut self,
        from: &Mark<'t>,
        end: &Position,
        patience: Patience,
    ) -> Result<Option<Hit>, Trouble> {
        let found = self.search(from, end, patience)?;
        tracing::debug!(from = %from.position, %end, ?patience, %found, "searched");
        match found {
            Found::Hit(hit) => {
                // The next one is near.
                self.history.add(from.clone());
                Ok(Some(hit))
            }
            Found::Nothing => Ok(None),
            Found::TooMuch(addr) => self.last_of_many(from, end, Addr(addr)),
            Found::TooLong => {
                let mut pieces = vec![(from.clone(), end.clone())];
                for (mark, name) in self.strides(from, end)? {
                    self.mark_on_way(&mark, end, &name);
                    if let Some((_, end)) = pieces.last_mut() {
                        *end = mark.position.clone();
                    }
                    pieces.push((mark, name));
                }
                while let Some((mark, end)) = pieces.pop() {
                    if let Some(hit) = self.last_hit(&mark, &end, Patience::Few)? {
                        return Ok(Some(hit));
                    }
                }
                Ok(None)
            }
        }
    }

    /// The last hit where much happens, mostly with a task at this address.
    fn last_of_many(&mut self, from: &Mark<'t>, end: &Position, addr: Addr) -> Result<Option<Hit>, Trouble> {
        // So many events are cut off at the end of the way.
        let (mut end, mut events) = (end.clone(), 1_u64);
        while let Some(mark) = self.event_between(&from.position, &end, events)? {
            if let Some(hit) = self.last_hit(&mark, &end, Patience::Few)? {
                return Ok(Some(hit));
            }
            (end, events) = (mark.position, events.saturating_mul(MORE));
        }
        // Up to a pause it can be counted if the pause's place is known.
        if end.legs.is_empty() {
            self.place_of_pause(from, &end)?;
        }
        // The program can count how often it comes there; or behind there, where it would stop at each round
        // of a string instruction: much happens in each of these.
        let live = from.resume()?;
        let behind = live.replica.behind_repeated(addr);
        let (addr, mut rounds) = behind.map_or((addr, ROUNDS), |behind| (behind, 1));
        let mut total = self.arrivals_between(live, &from.position, addr, &end)?;
        while total > 2 * rounds {
            // Behind the pause's place is only the pause.
            let pause = self.inner.pause(end.event).flatten().filter(|_| end.legs.is_empty());
            let place = pause.filter(|place| place.done_at(&from.position).is_some()).cloned();
            let way = place.as_ref().unwrap_or(&end);
            let Some((mark, name)) = self.go_to_arrival(from, way, addr, total - rounds)? else { break };
            let name = if place.is_some() { end } else { name };
            if let Some(hit) = self.last_hit(&mark, &name, Patience::FewHits)? {
                return Ok(Some(hit));
            }
            (end, total, rounds) = (mark.position, total - rounds, rounds * MORE);
        }
        self.last_hit(from, &end, Patience::Endless)
    }

    /// A mark behind an event of the process that lies between these: so many events before the end, or in
    /// the middle if there are not so many.
    fn event_between(
        &mut self,
        from: &Position,
        end: &Position,
        events: u64,
    ) -> Result<Option<Mark<'t>>, Trouble> {
        let last = if end.legs.is_empty() { end.event.0.saturating_sub(1) } else { end.event.0 };
        let between = last.saturating_sub(from.event.0);
        for back in [events.min(between.div_ceil(2)), 1] {
            let event = EventSeq(last.saturating_sub(back.saturating_sub(1)));
            if event <= from.event {
                continue;
            }
            let mut live = self.travel(&Position::at(event))?;
            let (event, _) = live.replica.done();
            // The one that was asked for may be another process's: then it stands behind the next one.
            if event > from.event && event <= EventSeq(last) && live.replica.is_at_event() {
                return Ok(Mark::of(&mut live, Position::at(event))?);
            }
        }
        Ok(None)
    }
}
