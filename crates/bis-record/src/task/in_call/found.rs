//! What of a call's effects was found before its event is written. A value.

use bis_trace::{
    event::{Effect, MemWrite, Outcome},
    ours::Ours,
};

#[derive(Clone, Default, Debug)]
pub struct Found {
    effects: Vec<Effect>,
    writes: Vec<MemWrite>,
    /// What of these is ours.
    ours: Option<Box<Ours>>,
}

impl Found {
    /// The call has this effect.
    pub fn add_effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// The call has written this.
    pub fn add_write(&mut self, write: MemWrite) {
        self.writes.push(write);
    }

    /// What this outcome says of effects, of memory and of ours in it, was done for the call's sake.
    pub fn add(&mut self, mut done: Outcome) {
        self.effects.append(&mut done.effects);
        self.writes.append(&mut done.writes);
        if let Some(ours) = done.ours {
            self.ours.get_or_insert_default().append(*ours);
        }
    }

    /// An event is about to be written that says all this.
    pub fn take(&mut self) -> Found {
        std::mem::take(self)
    }

    /// Adds it to the outcome of an event, of which nothing is said yet but what was written.
    pub fn add_to(mut self, outcome: &mut Outcome) {
        outcome.effects.append(&mut self.effects);
        outcome.writes.append(&mut self.writes);
        match (&mut outcome.ours, self.ours) {
            (Some(ours), Some(found)) => ours.append(*found),
            (ours @ None, found) => *ours = found,
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Addr;

    use super::*;

    fn write(addr: u64) -> MemWrite {
        MemWrite { addr: Addr(addr), data: vec![1] }
    }

    #[test]
    fn what_was_found_comes_behind_what_the_outcome_has_and_is_said_once() {
        let mut found = Found::default();
        found.add_write(write(2));
        let mut restored = Outcome { writes: vec![write(3)], ..Outcome::default() };
        restored.ours().own.push((Addr(3), 1));
        found.add(restored);
        let mut outcome = Outcome { writes: vec![write(1)], ..Outcome::default() };
        found.take().add_to(&mut outcome);
        assert_eq!(outcome.writes, [write(1), write(2), write(3)]);
        assert_eq!(outcome.ours().own, [(Addr(3), 1)]);
        found.take().add_to(&mut outcome);
        assert_eq!((outcome.writes.len(), outcome.ours().own.len()), (3, 1));
    }
}
