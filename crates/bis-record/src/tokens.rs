//! What a domain holds of the run tokens of shared memory.

mod held;

use std::{
    mem,
    time::{Duration, Instant},
};

use bis_trace::types::ObjectId;

use crate::linger::Linger;

/// How long a domain may run on while another waits for a token that it holds; looked at whenever one of its
/// tasks stops.
const TURN_MAX: Duration = Duration::from_millis(2);

/// What a domain holds of the tokens of shared memory. A domain that begins holds none.
#[derive(Debug)]
pub struct Tokens {
    /// The objects whose tokens the domain holds.
    held: Vec<ObjectId>,
    since: Option<Instant>,
    /// Objects whose tokens the domain did not hold, but that the call in progress touches; the registry
    /// counts them as mappings.
    borrowed: Vec<ObjectId>,
    /// Mappings that are gone, but whose end is not written yet: one entry for each.
    unmapped: Vec<ObjectId>,
    /// Whether calls wait for an answer before tokens are given away.
    pub linger: Linger,
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens {
            held: Vec::new(),
            since: None,
            borrowed: Vec::new(),
            unmapped: Vec::new(),
            linger: Linger::for_tokens(),
        }
    }
}

impl Tokens {
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn holds(&self, object: ObjectId) -> bool {
        self.held.contains(&object)
    }

    /// The objects whose tokens the domain needs to run: those that it maps, and those that the call in
    /// progress touches; each once, in the order of all domains.
    fn needed(&self, mapped: Vec<ObjectId>) -> Vec<ObjectId> {
        let mut ids = mapped;
        ids.extend(&self.borrowed);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The token of a new mapping is held already.
    fn hold(&mut self, object: ObjectId) {
        self.held.push(object);
    }

    /// These tokens were taken, with none in hand.
    fn take(&mut self, objects: Vec<ObjectId>, now: Instant) {
        (self.held, self.since) = (objects, Some(now));
    }

    /// Has the domain run for long enough that somebody else may have its turn, if anybody wants it?
    fn is_turn_over(&self, now: Instant) -> bool {
        self.since.is_none_or(|since| now.saturating_duration_since(since) > TURN_MAX)
    }

    /// The call in progress touches this object.
    fn borrow(&mut self, object: ObjectId) {
        self.borrowed.push(object);
    }

    /// The call is over: the tokens of these objects are to be given back.
    fn end_call(&mut self, is_mapped: impl Fn(ObjectId) -> bool) -> Vec<ObjectId> {
        let mut back = Vec::new();
        for id in mem::take(&mut self.borrowed) {
            // One that waits, and gives its tokens away meanwhile, borrows anew.
            if self.holds(id) && !is_mapped(id) && !back.contains(&id) {
                back.push(id);
            }
        }
        back
    }

    /// So many mappings of an object are gone.
    fn unmap(&mut self, object: ObjectId, count: usize) {
        self.unmapped.extend((0..count).map(|_| object));
    }

    /// The end of the mappings that are gone is written: one entry for each.
    fn take_unmapped(&mut self) -> Vec<ObjectId> {
        mem::take(&mut self.unmapped)
    }

    /// These are given back.
    fn give_back(&mut self, objects: &[ObjectId]) {
        self.held.retain(|id| !objects.contains(id));
    }

    /// All are.
    fn give_all_back(&mut self) -> Vec<ObjectId> {
        mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn(ObjectId) -> bool = |_| false;

    fn ids<const N: usize>(numbers: [u32; N]) -> Vec<ObjectId> {
        numbers.into_iter().map(ObjectId).collect()
    }

    fn holding<const N: usize>(numbers: [u32; N]) -> Tokens {
        let mut tokens = Tokens::default();
        tokens.take(ids(numbers), Instant::now());
        tokens
    }

    #[test]
    fn tokens_are_taken_in_one_order_and_each_once() {
        let mut tokens = Tokens::default();
        assert!(tokens.needed(Vec::new()).is_empty() && !tokens.holds_any());
        tokens.borrow(ObjectId(2));
        tokens.borrow(ObjectId(5));
        assert_eq!(tokens.needed(ids([7, 5, 3])), ids([2, 3, 5, 7]));
    }

    #[test]
    fn what_a_call_has_borrowed_is_given_back_behind_it_unless_it_is_mapped_now() {
        let mut tokens = holding([2, 5, 7]);
        for borrowed in ids([2, 5, 9, 2]) {
            tokens.borrow(borrowed);
        }
        assert_eq!(tokens.end_call(|id| id == ObjectId(5)), ids([2]), "the token of 9 is not held");
        assert_eq!(tokens.end_call(NONE), [], "the next call has borrowed nothing");
        assert_eq!(tokens.needed(ids([7])), ids([7]));
    }

    #[test]
    fn what_is_given_back_is_not_held_any_more() {
        let mut tokens = holding([2, 5]);
        tokens.hold(ObjectId(7));
        tokens.give_back(&ids([5, 9]));
        assert!(tokens.holds(ObjectId(2)) && !tokens.holds(ObjectId(5)) && tokens.holds(ObjectId(7)));
        assert_eq!(tokens.give_all_back(), ids([2, 7]));
        assert!(!tokens.holds_any() && tokens.give_all_back().is_empty());
    }

    #[test]
    fn each_mapping_that_is_gone_is_counted() {
        let mut tokens = Tokens::default();
        tokens.unmap(ObjectId(2), 2);
        tokens.unmap(ObjectId(5), 0);
        tokens.unmap(ObjectId(3), 1);
        assert_eq!(tokens.take_unmapped(), ids([2, 2, 3]));
        assert_eq!(tokens.take_unmapped(), []);
    }

    #[test]
    fn a_turn_is_over_when_it_has_lasted_for_long_or_nothing_was_ever_taken() {
        let begin = Instant::now();
        let mut tokens = Tokens::default();
        assert!(tokens.is_turn_over(begin));
        tokens.take(ids([2]), begin);
        assert!(!tokens.is_turn_over(begin) && !tokens.is_turn_over(begin + TURN_MAX));
        assert!(tokens.is_turn_over(begin + TURN_MAX + Duration::from_nanos(1)));
    }
}
