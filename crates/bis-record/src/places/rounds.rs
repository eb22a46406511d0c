//! Loops in which a task is stopped: what they write, round by round.
//!
//! A task may come to a place again and again with the same registers, and count somewhere in memory to which
//! nothing leads that is looked at (an interpreter's loop counts down in its function's data until that is
//! compiled). Such rounds are told apart by what they write. So a task that is to have its place by its state
//! goes on until it comes to where it is again. If it soon does, and its registers are the same, it is led
//! through some rounds by single steps, which say what these write: that is kept with the place.
//!
//! This file holds what is known of such loops; `looking.rs` takes the steps.

mod looking;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use bis_trace::types::Addr;

/// How much of what a round writes is kept: so many words.
const WORDS_MAX: usize = 128;
const WORD: u64 = 8;

/// How often a task is led on between two events.
const TRIES_MAX: u32 = 3;

/// How long a task is stepped: so long, and this part of its time.
const SPENT_MIN: Duration = Duration::from_millis(200);
const SPENT_PART: u32 = 4;

/// How often a loop that was looked at in vain is passed over.
const PASSED_OVER_MAX: u32 = 7;

/// How many loops are known of a task.
const ROUNDS_MAX: usize = 16;

/// What is known of a task's loops, the latest last.
#[derive(Debug, Default)]
pub struct Rounds {
    known: Vec<Round>,
    /// The number of the domain's events when the task was last led on to see whether it comes round, and how
    /// often it has been since then.
    tried: (u64, u32),
    /// For how long it was stepped.
    spent: Duration,
}

/// A loop whose rounds agree in all registers.
#[derive(Debug)]
struct Round {
    /// The addresses of its instructions.
    places: BTreeSet<Addr>,
    /// What it writes: whole words, and what they were when they were looked at last.
    words: Vec<(Addr, u64)>,
    /// Do its rounds change any of them?
    changes: bool,
    /// How often the words were what they had been.
    passed_over: u32,
}

impl Round {
    /// `before`: the words that it has written, as they were. Of those that have changed, and the others, no
    /// more than are kept.
    fn of(places: BTreeSet<Addr>, before: &BTreeMap<Addr, u64>, read: impl Fn(Addr) -> Option<u64>) -> Round {
        let now = before.iter().filter_map(|(addr, was)| Some((*was, (*addr, read(*addr)?))));
        let (changed, same): (Vec<_>, Vec<_>) = now.partition(|(was, (_, now))| was != now);
        let changes = !changed.is_empty();
        let words = changed.into_iter().chain(same).map(|(_, word)| word).take(WORDS_MAX).collect();
        Round { places, words, changes, passed_over: 0 }
    }

    /// Looks at the words again, and notes what they are now. True: the round is to be believed. Its words
    /// may have moved since (a collector has gone over them); and a round that changes none need not be asked
    /// each time.
    fn look_again(&mut self, read: impl Fn(Addr) -> Option<u64>) -> bool {
        let mut is_other = false;
        for (addr, word) in &mut self.words {
            if let Some(now) = read(*addr).filter(|now| now != word) {
                (*word, is_other) = (now, true);
            }
        }
        self.passed_over = if is_other { 0 } else { self.passed_over + 1 };
        is_other || !self.changes && self.passed_over <= PASSED_OVER_MAX
    }
}

impl Rounds {
    /// Counts a try to lead the task on, with so many events behind the domain. False: there were enough of
    /// them. Where the task does not come round, it may have been in front of its loop.
    fn begin_try(&mut self, events: u64) -> bool {
        let (at, count) = self.tried;
        self.tried = (events, if at == events { count + 1 } else { 1 });
        self.tried.1 <= TRIES_MAX
    }

    fn at(&mut self, place: Addr) -> Option<&mut Round> {
        self.known.iter_mut().rev().find(|round| round.places.contains(&place))
    }

    /// Is a task to be stepped that has had the processor for so long?
    fn may_spend(&self, ran: Option<Duration>) -> bool {
        self.spent <= SPENT_MIN + ran.unwrap_or_default() / SPENT_PART
    }

    /// `took`: how long the task was stepped for it.
    fn learn(&mut self, round: Round, took: Duration) {
        self.spent += took;
        self.known.retain(|known| known.places.is_disjoint(&round.places));
        if self.known.len() == ROUNDS_MAX {
            self.known.remove(0);
        }
        self.known.push(round);
    }

    /// What the loop writes that has an instruction here: words, as (address, length).
    pub fn words(&self, place: Addr) -> Vec<(Addr, u64)> {
        let round = self.known.iter().rev().find(|round| round.places.contains(&place));
        round.map_or(Vec::new(), |round| round.words.iter().map(|(addr, _)| (*addr, WORD)).collect())
    }
}

/// The words that these bytes lie in.
fn words_of(range: &Range<Addr>) -> impl Iterator<Item = Addr> {
    Addr::steps(Addr(range.start.0 & !(WORD - 1))..range.end, WORD as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(places: &[u64], words: &[(u64, u64)]) -> Round {
        let words = words.iter().map(|(addr, word)| (Addr(*addr), *word)).collect();
        Round { places: places.iter().copied().map(Addr).collect(), words, changes: true, passed_over: 0 }
    }

    #[test]
    fn a_loop_is_known_by_any_of_its_instructions_and_the_latest_counts() {
        let mut rounds = Rounds::default();
        rounds.learn(round(&[0x10, 0x14], &[(0x1000, 1)]), Duration::ZERO);
        rounds.learn(round(&[0x20], &[(0x2000, 1)]), Duration::ZERO);
        assert_eq!(rounds.words(Addr(0x14)), [(Addr(0x1000), 8)]);
        assert_eq!(rounds.words(Addr(0x18)), []);
        rounds.learn(round(&[0x14, 0x18], &[(0x3000, 1)]), SPENT_MIN);
        assert_eq!(rounds.words(Addr(0x14)), [(Addr(0x3000), 8)]);
        assert_eq!(rounds.words(Addr(0x10)), [], "it is another one now");
        for at in 0..ROUNDS_MAX as u64 {
            rounds.learn(round(&[0x100 + at], &[]), Duration::ZERO);
        }
        assert!(rounds.at(Addr(0x20)).is_none());
        assert!(rounds.may_spend(None));
        rounds.learn(round(&[0x10], &[]), SPENT_MIN);
        rounds.learn(round(&[0x10], &[]), Duration::from_millis(1));
        assert!(!rounds.may_spend(None) && rounds.may_spend(Some(8 * SPENT_MIN)));
    }

    #[test]
    fn a_loop_whose_words_stay_as_they_were_is_looked_at_again() {
        let mut known = round(&[0x10], &[(0x1000, 1), (0x1008, 2)]);
        assert!(!known.look_again(|addr| Some(if addr == Addr(0x1000) { 1 } else { 2 })));
        assert!(!known.look_again(|_| None));
        assert!(known.look_again(|addr| Some(if addr == Addr(0x1000) { 7 } else { 2 })));
        assert!(!known.look_again(|addr| Some(if addr == Addr(0x1000) { 7 } else { 2 })));
    }

    #[test]
    fn a_loop_that_writes_nothing_is_looked_at_again_after_a_while() {
        let mut known = Round { changes: false, ..round(&[0x10], &[(0x1000, 1)]) };
        assert!((0..PASSED_OVER_MAX).all(|_| known.look_again(|_| None)));
        assert!(!known.look_again(|_| None));
    }

    #[test]
    fn a_task_is_led_on_a_few_times_between_two_events() {
        let mut rounds = Rounds::default();
        for events in [0, 7] {
            assert_eq!([(); 5].map(|()| rounds.begin_try(events)), [true, true, true, false, false]);
        }
    }

    #[test]
    fn what_changes_in_a_round_is_kept_first() {
        let words: Vec<u64> = words_of(&(Addr(0x1003)..Addr(0x1011))).map(|addr| addr.0).collect();
        assert_eq!(words, [0x1000, 0x1008, 0x1010]);
        let before: BTreeMap<Addr, u64> = (0..200).map(|n| (Addr(0x1000 + 8 * n), 0)).collect();
        let round = Round::of(BTreeSet::new(), &before, |addr| Some(u64::from(addr == Addr(0x1200))));
        let words = round.words;
        assert_eq!((words.len(), words[0], words[1]), (WORDS_MAX, (Addr(0x1200), 1), (Addr(0x1000), 0)));
        assert!(round.changes && !Round::of(BTreeSet::new(), &before, |_| Some(0)).changes);
    }
}
