//! Where a task's stacks end, as far as its events say it: the one that it is on, and the one that it was on
//! before. A value.

use bis_trace::types::Addr;

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stacks {
    /// Where its stack ended when memory was last summed for it.
    end: Option<Addr>,
    /// Where the one ended that it was on before it went to another one: by the call of a handler, or by any
    /// way that a program likes.
    left: Option<Addr>,
}

impl Stacks {
    /// As a task has them that goes back to where it had left that stack.
    pub fn with_left(left: Option<Addr>) -> Stacks {
        Stacks { end: None, left }
    }

    /// Memory is summed while the task's stack ends here. If it has gone to another stack since the last
    /// time, that is where it left this one. `is_away`: is what is at the first address on another stack than
    /// what is at the second?
    pub fn sum(&mut self, now: Addr, is_away: impl FnOnce(Addr, Addr) -> bool) {
        let before = self.end.replace(now);
        self.left = before.filter(|before| is_away(*before, now)).or(self.left);
    }

    pub fn left(&self) -> Option<Addr> {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Stacks are of a page each here.
    fn is_away(left: Addr, now: Addr) -> bool {
        left.0 >> 12 != now.0 >> 12
    }

    #[test]
    fn a_task_that_goes_to_another_stack_may_go_on_where_it_has_left_this_one() {
        let mut stacks = Stacks::default();
        for (now, left) in [
            (0x1800, None),
            (0x1700, None),
            // A handler is called on a stack of its own.
            (0x9f00, Some(0x1700)),
            (0x9e00, Some(0x1700)),
            (0x1600, Some(0x9e00)),
        ] {
            stacks.sum(Addr(now), is_away);
            assert_eq!(stacks.left(), left.map(Addr), "{now:#x}");
        }
    }

    #[test]
    fn a_task_that_goes_back_has_been_nowhere_since() {
        let mut stacks = Stacks::with_left(Some(Addr(0x1700)));
        stacks.sum(Addr(0x9f00), |_, _| panic!("it was on no other"));
        assert_eq!(stacks.left(), Some(Addr(0x1700)));
    }

    proptest! {
        #[test]
        fn the_stack_that_was_left_is_the_last_other_one(
            places in prop::collection::vec(0x1000..0x5000_u64, 1..20),
        ) {
            let mut stacks = Stacks::default();
            places.iter().for_each(|now| stacks.sum(Addr(*now), is_away));
            let now = *places.last().unwrap();
            let other = places.iter().rev().find(|place| is_away(Addr(**place), Addr(now)));
            prop_assert_eq!(stacks.left(), other.copied().map(Addr));
        }
    }
}
