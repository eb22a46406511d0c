//! Calls that were put off for handlers. A value.

use bis_trace::types::Addr;

/// The `syscall` instruction of a call, and the stack pointer there: a handler may make calls through the
/// same instruction.
type Place = (Addr, Addr);

/// More handlers than this hardly interrupt each other.
const PLACES_MAX: usize = 16;

/// The calls of a task that were put off, the last one last. A call in a handler, its return for one, may be
/// put off for another handler, and the one that the first was called in front of must not be forgotten for
/// that: where timers fire faster than their handlers run, it would be put off for ever.
#[derive(Default, Debug)]
pub struct Undone(Vec<Place>);

impl Undone {
    /// The call at this place is put off.
    pub fn add(&mut self, place: Place) {
        // Handlers that jump away leave theirs behind.
        if self.0.len() == PLACES_MAX {
            self.0.remove(0);
        }
        self.0.push(place);
    }

    /// The task is about to make the call at this place. True: it was put off there. Those that were put off
    /// since will not be made any more.
    pub fn take(&mut self, place: Place) -> bool {
        let at = self.0.iter().rposition(|undone| *undone == place);
        at.into_iter().for_each(|at| self.0.truncate(at));
        at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Place = (Addr(0x1000), Addr(0x9000));
    const RETURN: Place = (Addr(0x2000), Addr(0x8000));

    #[test]
    fn a_call_is_remembered_while_the_return_of_its_handler_is_put_off() {
        let mut undone = Undone::default();
        undone.add(CALL);
        undone.add(RETURN);
        assert!(undone.take(RETURN) && !undone.take(RETURN));
        assert!(undone.take(CALL) && !undone.take(CALL));
    }

    #[test]
    fn a_handler_that_jumps_away_leaves_nothing_for_long() {
        let mut undone = Undone::default();
        undone.add(CALL);
        undone.add(RETURN);
        assert!(undone.take(CALL) && !undone.take(RETURN));
        (0..100).for_each(|n| undone.add((Addr(n), Addr(n))));
        assert!(!undone.take((Addr(0), Addr(0))) && undone.take((Addr(99), Addr(99))));
        assert!(undone.0.len() < PLACES_MAX);
    }
}
