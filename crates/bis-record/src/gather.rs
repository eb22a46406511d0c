//! Whether all domains share one core, although there are more. A value.
//!
//! A client and its server sleep by turns: one while the other works. On two cores each of these sleeps
//! leaves a core with nothing to do, and each end of one wakes that core by an interrupt. In a virtual
//! machine both are the host's business, and take longer (20 to 30 µs) than a short question and its answer;
//! on one core, a switch from one to the other takes 2 µs. Where the tasks of several processes need a run
//! token or a turn, so that few of them can run at a time, a second core may do nothing but to be woken
//! (PostgreSQL 15 and four clients inside a recording: 4,300 transactions a second on one core, 2,400 on
//! two).
//!
//! How things are cannot be seen from the times that threads run and wait. So it is tried, where what runs
//! would nearly have room on one core anyway: for a moment all share one core, and what counts is how many
//! hooked calls they make there in the same time. Where they make more, they stay together, and now and then
//! it is tried whether that is still so. Each try that was in vain doubles the time to the next.

/// Between two tries pass so many looks at least, and at most; and after one that has paid: the next is
/// likely to be in vain.
const REST_MIN: u32 = 8;
const REST_MAX: u32 = 640;
const REST_PAID: u32 = 32;

/// Domains that make fewer hooked calls in a look have no reason to be together.
const CALLS_MIN: u64 = 1000;

/// Whose tasks have run for more than this many cores' time have no room on one.
const RAN_MAX: f64 = 1.6;

/// Those that run for more than this together, and make few calls, would rather have more than one core.
const FULL: f64 = 0.8;

/// A domain that has run for more than this part of the time, and made hardly a call, computes.
const COMPUTED: f64 = 0.3;
const COMPUTED_CALLS: u64 = 30;

/// Where domains are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placing {
    /// Each on the core that had room for it.
    Spread,
    /// All on one core.
    Together,
}

impl Placing {
    fn other(self) -> Placing {
        match self {
            Placing::Spread => Placing::Together,
            Placing::Together => Placing::Spread,
        }
    }

    /// Are these many calls, after a change to this, so many more than those before it that it was worth it?
    /// To be together costs whoever begins to compute; to be spread costs nobody.
    fn pays(self, calls: u64, before: u64) -> bool {
        match self {
            Placing::Together => 4 * calls > 5 * before,
            Placing::Spread => 20 * calls > 21 * before,
        }
    }
}

/// What a domain has done between two looks, in the time of one ([`bis_tracee::balance::EVERY`]).
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its hooked calls.
    pub calls: u64,
    /// Which part of the time its supervisor and tasks have run, together; `None`: tasks of it have taken
    /// turns.
    pub ran: Option<f64>,
}

impl Work {
    fn computes(self) -> bool {
        self.calls < COMPUTED_CALLS && self.ran.is_none_or(|ran| ran > COMPUTED)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing is tried for so many looks.
    Rests(u32),
    /// This was seen before the next try.
    Compares(u64),
    /// Domains have just been sent elsewhere. So many calls were made before.
    Settles(u64),
    Tries(u64),
}

#[derive(Debug)]
pub struct Gather {
    placing: Placing,
    phase: Phase,
    next_rest: u32,
}

impl Gather {
    pub fn new() -> Gather {
        Gather { placing: Placing::Spread, phase: Phase::Rests(0), next_rest: REST_MIN }
    }

    /// All domains that are pinned have done this since the last look. Returns where they are to be from now
    /// on, if that changes.
    pub fn look(&mut self, all: &[Work]) -> Option<Placing> {
        let calls = all.iter().map(|work| work.calls).sum();
        let ran: f64 = all.iter().filter_map(|work| work.ran).sum();
        let computes = all.iter().any(|work| work.computes());
        let may_gain = || {
            all.iter().filter(|work| work.calls > COMPUTED_CALLS).count() > 1
                && calls > CALLS_MIN
                && ran < RAN_MAX
                && !computes
        };
        if self.placing == Placing::Together && (computes || calls <= CALLS_MIN && ran > FULL) {
            return Some(self.give_up());
        }
        match self.phase {
            Phase::Rests(looks) => {
                self.phase = match looks {
                    0 if may_gain() => Phase::Compares(calls),
                    looks => Phase::Rests(looks.saturating_sub(1)),
                };
                None
            }
            Phase::Compares(before) if may_gain() && 4 * before.abs_diff(calls) < before => {
                self.phase = Phase::Settles((before + calls) / 2);
                self.placing = self.placing.other();
                Some(self.placing)
            }
            // What changes by itself is compared with nothing.
            Phase::Compares(_) => {
                self.phase = Phase::Rests(0);
                None
            }
            // So much less at once is in vain.
            Phase::Settles(before) if 10 * calls < 7 * before => Some(self.give_up()),
            Phase::Settles(before) => {
                self.phase = Phase::Tries(before);
                None
            }
            Phase::Tries(before) if self.placing.pays(calls, before) => {
                (self.phase, self.next_rest) = (Phase::Rests(REST_PAID), 2 * REST_PAID);
                None
            }
            Phase::Tries(_) => Some(self.give_up()),
        }
    }

    /// Who shares the core starves there: from now on they are spread.
    pub fn spread(&mut self) -> Option<Placing> {
        (self.placing == Placing::Together).then(|| self.give_up())
    }

    /// As it was, for longer than the last time.
    fn give_up(&mut self) -> Placing {
        self.placing = self.placing.other();
        self.phase = Phase::Rests(self.next_rest);
        self.next_rest = (2 * self.next_rest).min(REST_MAX);
        self.placing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client and a server that make so many calls each.
    fn pair(calls: u64) -> [Work; 2] {
        [Work { calls, ran: Some(0.4) }; 2]
    }

    /// So many looks at what makes `spread` or `together` calls: how often domains were together, and how
    /// often they were sent elsewhere.
    fn looks(gather: &mut Gather, count: usize, spread: u64, together: u64) -> (usize, usize) {
        let (mut times, mut changes) = (0, 0);
        for _ in 0..count {
            let together_now = gather.placing == Placing::Together;
            times += usize::from(together_now);
            changes +=
                usize::from(gather.look(&pair(if together_now { together } else { spread })).is_some());
        }
        (times, changes)
    }

    #[test]
    fn who_does_more_on_one_core_stays_there() {
        let mut gather = Gather::new();
        let (times, changes) = looks(&mut gather, 1000, 5000, 8000);
        assert!(times > 950 && changes < 20, "{times} {changes}");
        assert_eq!(gather.placing, Placing::Together);
        let (times, _) = looks(&mut gather, 1000, 9000, 8000);
        assert!(times < 700, "it is noticed that this has changed: {times}");
        assert_eq!(gather.placing, Placing::Spread);
    }

    #[test]
    fn tries_in_vain_become_few() {
        let mut gather = Gather::new();
        let (times, _) = looks(&mut gather, 1000, 5000, 4000);
        assert!(times < 20, "{times}");
        assert_eq!(looks(&mut gather, 1000, 5000, 5100).0 / 10, 0, "hardly more is not worth it");
    }

    #[test]
    fn nothing_is_tried_with_what_has_no_room_on_one_core_or_hardly_calls_or_is_alone() {
        let mut gather = Gather::new();
        for _ in 0..100 {
            assert_eq!(gather.look(&[Work { calls: 9000, ran: Some(0.9) }; 2]), None);
            assert_eq!(gather.look(&[Work { calls: 100, ran: Some(0.1) }; 2]), None);
            assert_eq!(
                gather.look(&[Work { calls: 9000, ran: Some(0.1) }, Work { calls: 0, ran: Some(0.1) }]),
                None
            );
        }
    }

    #[test]
    fn who_computes_gets_a_core_at_once() {
        let mut gather = Gather::new();
        looks(&mut gather, 10, 5000, 8000);
        assert_eq!(gather.placing, Placing::Together);
        let computes = [
            Work { calls: 5000, ran: Some(0.3) },
            Work { calls: 5000, ran: Some(0.3) },
            Work { calls: 1, ran: Some(0.4) },
        ];
        assert_eq!(gather.look(&computes), Some(Placing::Spread));
    }

    #[test]
    fn who_takes_turns_and_makes_no_calls_computes_and_so_does_who_makes_few_and_fills_the_core() {
        let takes_turns = Work { calls: 5, ran: None };
        for now in
            [[pair(5000).as_slice(), &[takes_turns]].concat(), vec![Work { calls: 300, ran: Some(0.5) }; 2]]
        {
            let mut gather = Gather::new();
            looks(&mut gather, 10, 5000, 8000);
            assert_eq!(gather.placing, Placing::Together);
            assert_eq!(gather.look(&now), Some(Placing::Spread));
        }
    }

    #[test]
    fn who_starves_is_spread() {
        let mut gather = Gather::new();
        assert_eq!(gather.spread(), None);
        looks(&mut gather, 10, 5000, 8000);
        assert_eq!((gather.spread(), gather.spread()), (Some(Placing::Spread), None));
    }

    #[test]
    fn what_changes_by_itself_is_not_compared() {
        let mut gather = Gather::new();
        for n in 0..100 {
            assert_eq!(gather.look(&pair(2000 << (n % 2))), None);
        }
    }
}
