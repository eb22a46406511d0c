//! What is known of the past: stretches in which there is nothing of what the user wants to know.
//!
//! A stretch lies between two positions, by the names by which it was searched. Marks keep their names, so
//! who looks backwards again over the same stretches need not run through them, unless what is looked for has
//! changed.

use std::{collections::BTreeSet, rc::Rc};

use bis_trace::types::Signal;

use super::{Catch, place::Position, points::Points};

/// All that a search stops at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub points: Points,
    pub passed_signals: BTreeSet<Signal>,
    pub caught_calls: Catch,
    pub catches_forks: bool,
    pub tells_threads: bool,
}

impl Wanted {
    /// These points, and nothing that a program does.
    pub fn only(points: Points) -> Wanted {
        Wanted {
            points,
            passed_signals: (1..=64).map(Signal).collect(),
            caught_calls: Catch::None,
            catches_forks: false,
            tells_threads: false,
        }
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Searched {
    /// What was looked for, and where a stretch begins and ends; the latest last.
    empty: Vec<(Rc<Wanted>, Position, Position)>,
}

/// The stretches that are remembered.
const STRETCHES_MAX: usize = 512;

impl Searched {
    /// Nothing of what is wanted is between these.
    pub fn add_empty(&mut self, wanted: &Wanted, from: Position, end: Position) {
        let known = self.empty.iter().map(|(known, ..)| known).find(|known| ***known == *wanted);
        let wanted = known.map_or_else(|| Rc::new(wanted.clone()), Rc::clone);
        if self.empty.len() == STRETCHES_MAX {
            self.empty.remove(0);
        }
        self.empty.push((wanted, from, end));
    }

    /// Is that known? Several stretches may be one behind the other.
    pub fn is_empty(&self, wanted: &Wanted, from: &Position, end: &Position) -> bool {
        let mut at = from;
        // No stretch is passed twice.
        for _ in 0..self.empty.len() {
            let next = self.empty.iter().find(|(known, begin, _)| begin == at && **known == *wanted);
            match next {
                Some((_, _, to)) if to == end => return true,
                Some((_, _, to)) => at = to,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Position {
        text.parse().unwrap()
    }

    fn wanted(catches_forks: bool) -> Wanted {
        Wanted {
            points: Points::default(),
            passed_signals: BTreeSet::new(),
            caught_calls: Catch::None,
            catches_forks,
            tells_threads: false,
        }
    }

    #[test]
    fn stretches_one_behind_the_other_are_one() {
        let mut searched = Searched::default();
        searched.add_empty(&wanted(false), at("5+0x10#3"), at("5+0x10#9"));
        searched.add_empty(&wanted(false), at("5"), at("5+0x10#3"));
        assert!(searched.is_empty(&wanted(false), &at("5"), &at("5+0x10#9")));
        assert!(searched.is_empty(&wanted(false), &at("5"), &at("5+0x10#3")));
        assert!(!searched.is_empty(&wanted(false), &at("5"), &at("6")));
        assert!(!searched.is_empty(&wanted(true), &at("5"), &at("5+0x10#3")));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_has_no_circle() {
        let mut searched = Searched::default();
        searched.add_empty(&wanted(false), at("7"), at("7"));
        assert!(!searched.is_empty(&wanted(false), &at("7"), &at("8")));
        for event in 0..2 * STRETCHES_MAX {
            searched.add_empty(&wanted(false), at(&event.to_string()), at(&(event + 1).to_string()));
        }
        assert_eq!(searched.empty.len(), STRETCHES_MAX);
        assert!(!searched.is_empty(&wanted(false), &at("7"), &at("8")));
    }
}
