//! Where domains run. A supervisor and its tasks share one core, because a stop costs 25 times as much when
//! they do not (DESIGN.md: 3.2 µs against 76 µs). Domains are spread over the cores that bis itself may use:
//! each goes to the core with the fewest active ones, at its beginning and whenever it wakes up, and away
//! from a core that others crowd (`bis_tracee::balance`); or all share one, where that is faster
//! (`gather.rs`). The first begins where bis itself was put: the kernel knows which core had room.
//!
//! A domain in which `cpuid` tells which core it is executed on, and nothing records that (no hooks, and a
//! processor that cannot make it fault), stays on the core where it begins, recorded and replayed
//! ([`Process::is_told_its_core`]).

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use bis_trace::types::Tid;
use bis_tracee::{balance, sys};

/// A core that does not come back to its supervisor in this time is one on which others compute.
const CROWDED: Duration = Duration::from_micros(500);

/// For so long, that is taken to stay so.
const CROWDED_FOR: Duration = Duration::from_secs(1);

/// For so long, nobody goes to a core on which a domain starved, if there is another one.
const AVOIDED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Cores {
    /// What this process could run on before it pinned anything, as the kernel's bit mask.
    pub original: Vec<u8>,
    /// The numbers of those cores.
    cores: Vec<usize>,
    /// How many domains are active on each.
    active: Vec<AtomicUsize>,
    /// The slot of the core that bis was on at its beginning.
    first: usize,
    began: Instant,
    /// Until when cores are taken to be crowded: microseconds since then.
    crowded_until: AtomicU64,
    /// Until when each is avoided: microseconds since then.
    avoided_until: Vec<AtomicU64>,
    /// The slot at which the next domain that stays for good looks first, and all behind it in turn.
    for_good: AtomicUsize,
    /// The slot that all domains share (`gather.rs`); [`NOWHERE`]: they are spread.
    shared: AtomicUsize,
}

/// No slot.
const NOWHERE: usize = usize::MAX;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Cores {
    pub fn new() -> Cores {
        let original = sys::get_affinity(Tid(0)).unwrap_or_default();
        let cores = balance::cores_of(&original);
        let active = cores.iter().map(|_| AtomicUsize::new(0)).collect();
        let avoided_until = cores.iter().map(|_| AtomicU64::new(0)).collect();
        let current = sys::current_core();
        let first = cores.iter().position(|core| *core == current).unwrap_or(0);
        let (began, crowded_until) = (Instant::now(), AtomicU64::new(0));
        let shared = AtomicUsize::new(NOWHERE);
        let for_good = AtomicUsize::new(first);
        Cores { original, cores, active, first, began, crowded_until, avoided_until, for_good, shared }
    }

    /// From now on all domains that become active share the core of this number; `None`: they are spread.
    pub fn share(&self, core: Option<usize>) {
        let slot = core.and_then(|core| self.slot(core));
        self.shared.store(slot.unwrap_or(NOWHERE), Ordering::Relaxed);
    }

    /// The numbers of the cores, one for each slot.
    pub fn numbers(&self) -> &[usize] {
        &self.cores
    }

    /// How many there are that bis may use.
    pub fn count(&self) -> usize {
        balance::cores_of(&self.original).len()
    }

    /// Gives the core to a task that shares it with its supervisor; false: not done, because others would
    /// have it, too, each for a time slice of theirs. (And whoever yields has used up a slice of its own, as
    /// the kernel counts: it waits for all of them then, at its next wakings, too.)
    pub fn yield_now(&self) -> bool {
        let before = self.began.elapsed();
        if micros(before) < self.crowded_until.load(Ordering::Relaxed) {
            return false;
        }
        thread::yield_now();
        let after = self.began.elapsed();
        if after.saturating_sub(before) > CROWDED {
            self.crowded_until.store(micros(after + CROWDED_FOR), Ordering::Relaxed);
        }
        true
    }

    /// A domain becomes active: the slot of the core that it should run on. It prefers `current`.
    pub fn enter(&self, current: Option<usize>) -> usize {
        let slot = self.best(current);
        self.stay(slot);
        slot
    }

    /// A domain becomes active that can never leave the core again on which it begins: the slot of that.
    /// Where several have as few active ones, each is taken in turn.
    pub fn enter_for_good(&self) -> usize {
        let count = self.cores.len().max(1);
        let turn = self.for_good.fetch_add(1, Ordering::Relaxed);
        let slots = (0..count).map(|slot| (turn + slot) % count);
        let slot = slots.min_by_key(|slot| self.burden(*slot)).unwrap_or(0);
        self.stay(slot);
        slot
    }

    /// What speaks against a slot, most important first: for how long it is avoided still (where all are, the
    /// one is best where it is longest ago that a domain starved), and how many domains are active there.
    fn burden(&self, slot: usize) -> (u64, usize) {
        let avoided_until = self.avoided_until.get(slot).map_or(0, |until| until.load(Ordering::Relaxed));
        let active = self.active.get(slot).map_or(0, |active| active.load(Ordering::Relaxed));
        (avoided_until.saturating_sub(micros(self.began.elapsed())), active)
    }

    /// The slot of the core of this number.
    pub fn slot(&self, core: usize) -> Option<usize> {
        self.cores.iter().position(|number| *number == core)
    }

    /// The slot of the core that a domain should run on which is not counted yet.
    pub fn best(&self, current: Option<usize>) -> usize {
        let shared = self.shared.load(Ordering::Relaxed);
        if shared != NOWHERE {
            return shared;
        }
        let slots = (self.first..self.cores.len()).chain(0..self.first);
        let best = slots.min_by_key(|slot| (self.burden(*slot), Some(*slot) != current));
        best.or(current).unwrap_or(0)
    }

    /// One more domain is active on this slot.
    pub fn stay(&self, slot: usize) {
        if let Some(active) = self.active.get(slot) {
            active.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A domain starved on the core of this number.
    pub fn avoid(&self, core: usize) {
        if let Some(slot) = self.slot(core) {
            self.avoided_until[slot].store(micros(self.began.elapsed() + AVOIDED_FOR), Ordering::Relaxed);
        }
    }

    /// An active domain goes from a slot to the core of this number: the slot of that.
    pub fn move_to(&self, core: usize, from: usize) -> usize {
        let Some(slot) = self.slot(core) else { return from };
        self.leave(from);
        self.stay(slot);
        slot
    }

    /// The number of a slot's core.
    pub fn number(&self, slot: usize) -> usize {
        self.cores.get(slot).copied().unwrap_or(slot)
    }

    /// A domain on this slot has nothing to run.
    pub fn leave(&self, slot: usize) {
        if let Some(active) = self.active.get(slot) {
            active.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Lets a task run on every core that bis may.
    pub fn unpin(&self, tid: Tid) {
        let _ = sys::set_affinity(tid, &self.original);
    }

    /// Pins a task, or with `Tid(0)` the calling thread. A task that died meanwhile does not matter.
    pub fn pin(&self, tid: Tid, slot: usize) {
        if let Some(core) = self.cores.get(slot) {
            balance::pin(tid, *core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three cores, of which bis began on the second.
    fn three() -> Cores {
        Cores {
            original: Vec::new(),
            cores: vec![2, 3, 7],
            active: (0..3).map(|_| AtomicUsize::new(0)).collect(),
            first: 1,
            began: Instant::now(),
            crowded_until: AtomicU64::new(0),
            avoided_until: (0..3).map(|_| AtomicU64::new(0)).collect(),
            for_good: AtomicUsize::new(1),
            shared: AtomicUsize::new(NOWHERE),
        }
    }

    #[test]
    fn domains_spread_from_where_bis_began() {
        let cores = three();
        assert_eq!([cores.enter(None), cores.enter(None), cores.enter(None)], [1, 2, 0]);
        cores.leave(2);
        assert_eq!(cores.enter(Some(0)), 2, "the one with the fewest");
        cores.leave(0);
        cores.leave(1);
        assert_eq!(cores.enter(Some(0)), 0, "of several, the current one");
        // It goes to core 3, whose slot is free.
        assert_eq!(cores.move_to(3, 0), 1);
        assert_eq!(cores.move_to(9, 1), 1, "there is no such core");
        assert_eq!(cores.enter(None), 0);
        cores.share(Some(7));
        assert_eq!([cores.best(Some(0)), cores.best(None)], [2, 2], "the one that all share");
        cores.share(None);
        cores.avoid(7);
        assert_eq!(
            [cores.enter(None), cores.enter(None), cores.enter(None)],
            [1, 0, 1],
            "never where one starved"
        );
        // On all of them, the last time on core 2.
        for (slot, until) in [(0, 3), (1, 1), (2, 2)] {
            let second = 1_000_000;
            cores.avoided_until[slot]
                .store(micros(cores.began.elapsed()) + until * second, Ordering::Relaxed);
        }
        assert_eq!(cores.best(None), 1, "where it is longest ago");
    }
    #[test]
    fn who_stays_for_good_takes_the_cores_in_turn() {
        let cores = three();
        let begin_and_sleep = || {
            let slot = cores.enter_for_good();
            cores.leave(slot);
            slot
        };
        assert_eq!([(); 4].map(|()| begin_and_sleep()), [1, 2, 0, 1], "none is active: each in turn");
        cores.stay(2);
        assert_eq!([(); 3].map(|()| begin_and_sleep()), [0, 0, 1], "not where one is active");
        cores.avoid(2);
        cores.avoid(3);
        assert_eq!(cores.enter_for_good(), 2, "or where one starved, even so");
    }
}
