//! With chaos: where a task is to be stopped, and how it is kept from its turn. A value.

use bis_trace::types::Addr;

use crate::chaos::Hold;

#[derive(Default, Debug)]
pub struct WithChaos {
    ambush: Option<Ambush>,
    kept: Kept,
}

/// Breakpoints that wait for their task.
#[derive(Clone, Debug)]
struct Ambush {
    addrs: Vec<Addr>,
    /// They were set where an event has left the task: what they stop in front of has not been reached since.
    is_first: bool,
}

/// Whether the task is kept from its turn.
#[derive(Default, Debug)]
enum Kept {
    /// That has not been drawn yet: the task has just begun.
    #[default]
    Undrawn,
    Drawn(Option<Hold>),
}

/// The task has come to one of the breakpoints that waited for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caught {
    /// Those that go on waiting.
    pub left: Vec<Addr>,
    /// Where the task stands has not been reached since its last event.
    pub is_first: bool,
}

impl WithChaos {
    /// Breakpoints wait for the task at these addresses.
    pub fn lie_in_wait(&mut self, addrs: Vec<Addr>, is_first: bool) {
        self.ambush = (!addrs.is_empty()).then_some(Ambush { addrs, is_first });
    }

    pub fn is_waited_for(&self) -> bool {
        self.ambush.is_some()
    }

    pub fn is_waited_for_at(&self, at: Addr) -> bool {
        self.ambush.as_ref().is_some_and(|ambush| ambush.addrs.contains(&at))
    }

    /// If the task was waited for here: what becomes of the breakpoints. Replay can count how often a place
    /// was reached only from an event on.
    pub fn caught_at(&self, at: Addr) -> Option<Caught> {
        let Ambush { addrs, is_first } = self.ambush.as_ref().filter(|_| self.is_waited_for_at(at))?;
        let left = addrs.iter().copied().filter(|addr| *addr != at && *is_first).collect();
        Some(Caught { left, is_first: *is_first })
    }

    /// The task is waited for no more. True: it was.
    pub fn disarm(&mut self) -> bool {
        self.ambush.take().is_some()
    }

    /// Draws whether a task that has just begun is kept from its turn.
    pub fn begin(&mut self, draw: impl FnOnce() -> Option<Hold>) {
        if let Kept::Undrawn = self.kept {
            self.kept = Kept::Drawn(draw());
        }
    }

    /// The task is kept from its turn.
    pub fn keep(&mut self, hold: Hold) {
        self.kept = Kept::Drawn(Some(hold));
    }

    pub fn kept(&self) -> Option<Hold> {
        match self.kept {
            Kept::Undrawn => None,
            Kept::Drawn(hold) => hold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_was_caught_at_its_first_place_is_waited_for_at_the_others() {
        let mut it = WithChaos::default();
        assert_eq!(it.caught_at(Addr(1)), None);
        it.lie_in_wait(vec![Addr(1), Addr(2)], true);
        assert_eq!(it.caught_at(Addr(3)), None);
        assert_eq!(it.caught_at(Addr(1)), Some(Caught { left: vec![Addr(2)], is_first: true }));
        it.lie_in_wait(vec![Addr(1), Addr(2)], false);
        assert_eq!(it.caught_at(Addr(1)), Some(Caught { left: Vec::new(), is_first: false }));
        it.lie_in_wait(Vec::new(), false);
        assert!(!it.is_waited_for() && !it.disarm());
    }

    #[test]
    fn a_task_that_begins_is_drawn_once() {
        let mut it = WithChaos::default();
        let mut drawn = 0;
        for _ in 0..2 {
            it.begin(|| {
                drawn += 1;
                None
            });
        }
        assert!(drawn == 1 && it.kept().is_none());
    }
}
