//! Which core is crowded, and which has room.
//!
//! A supervisor and its tasks are pinned to one core, so the kernel cannot move them when others come to that
//! core: several recordings at once, or a build beside one, would share one core while another has nothing to
//! do. So we look ourselves, now and then: how long threads have waited for their core while they could run
//! (`/proc/TID/schedstat`, the kernel's sched-stats.rst), and only where that is much, how busy the cores are
//! (`/proc/stat`).

use std::{
    collections::HashMap,
    fs,
    hash::{BuildHasher, RandomState},
    iter,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use bis_trace::types::Tid;

use crate::{proc, sys};

/// How often to look, unless the looks themselves take long.
pub const EVERY: Duration = Duration::from_millis(100);

/// Between two looks passes at least so many times what the last one took: with thousands of seats, the
/// thread that looks would do nothing else, and may have a higher priority than all of them.
const REST: u32 = 20;

/// Whose threads have waited for more than this part of the time, and run for less than that, finds its core
/// crowded. (Who stops all the time waits much, too: each switch from one to the other is some microseconds.
/// But one of them always runs.)
const WAITED: f64 = 0.3;
const RAN: f64 = 0.75;

/// Whose threads have waited for more than this part of the time, and run for less than that, starve. Among
/// fair shares there is no such wait. But a kernel may give a core to one session alone: Linux 6.18 does for
/// seconds, where two of its threads hand over to each other on that core and a third wakes now and then on
/// another one (groups of tasks by session: sched_autogroup).
const STARVED_WAITED: f64 = 0.8;
const STARVED_RAN: f64 = 0.02;

/// A core that has done nothing for more than this part of the time has room.
const IDLE: f64 = 0.6;

/// Beside a seat's core: nobody is to be sent from there. It is in the same word, so that nobody is sent away
/// who has just been told so.
const STAYS: usize = 1 << (usize::BITS - 1);

/// No core.
const NOWHERE: usize = !STAYS;

/// Where a supervisor and its tasks are. They set it, and whoever balances may send them elsewhere.
#[derive(Debug)]
pub struct Seat {
    supervisor: AtomicI32,
    /// The task that runs, or has run last; 0: there was none.
    runner: AtomicI32,
    /// The core, or [`NOWHERE`], and perhaps [`STAYS`].
    core: AtomicUsize,
    /// The core to which they are to go.
    wanted: AtomicUsize,
}

/// A seat as it was at a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pinned {
    id: u64,
    core: usize,
    supervisor: Tid,
    runner: Tid,
}

impl Pinned {
    /// They take turns: one waits while the other runs. Nobody has run yet where a supervisor has just begun.
    fn threads(&self) -> impl Iterator<Item = Tid> + Clone {
        [self.supervisor, self.runner].into_iter().filter(|tid| *tid != Tid(0))
    }
}

impl Default for Seat {
    fn default() -> Seat {
        Seat::new(Tid(0))
    }
}

impl Seat {
    /// For the tasks of this supervisor.
    pub fn new(supervisor: Tid) -> Seat {
        Seat {
            supervisor: AtomicI32::new(supervisor.0),
            runner: AtomicI32::new(0),
            core: AtomicUsize::new(NOWHERE),
            wanted: AtomicUsize::new(NOWHERE),
        }
    }

    /// From now on its tasks have to be on the core where they are ([`Seat::core`]), however crowded it is.
    /// If they have just been sent there, they may still be on the way: who calls this pins them.
    pub fn stay(&self) {
        self.core.fetch_or(STAYS, Ordering::AcqRel);
    }

    /// Do its tasks have to be on the core where they are?
    pub fn stays(&self) -> bool {
        self.core.load(Ordering::Acquire) & STAYS != 0
    }

    /// The thread that supervises.
    pub fn supervisor(&self) -> Tid {
        Tid(self.supervisor.load(Ordering::Relaxed))
    }

    /// Another thread takes over.
    pub fn set_supervisor(&self, supervisor: Tid) {
        self.supervisor.store(supervisor.0, Ordering::Relaxed);
    }

    /// The task that runs, or has run last; `Tid(0)` if there was none.
    pub fn runner(&self) -> Tid {
        Tid(self.runner.load(Ordering::Relaxed))
    }

    /// The core to which its tasks are pinned, if any has run.
    pub fn core(&self) -> Option<usize> {
        Some(self.core.load(Ordering::Acquire) & !STAYS).filter(|core| *core != NOWHERE)
    }

    /// This task is about to run where the supervisor is.
    pub fn set_runner(&self, runner: Tid) {
        self.runner.store(runner.0, Ordering::Relaxed);
    }

    /// The supervisor is about to pin itself and its tasks to the core of this number ([`Seat::pin`]). It
    /// says so before: it may starve there at once.
    pub fn set_core(&self, core: usize) {
        self.wanted.store(NOWHERE, Ordering::Relaxed);
        let with_core = |word| Some(word & STAYS | core);
        let _ = self.core.fetch_update(Ordering::AcqRel, Ordering::Acquire, with_core);
    }

    /// Pins the calling thread, which is the supervisor, and these tasks to the seat's core. Whoever starves
    /// there in the middle of it, and is sent to another core, pins all of them to that one.
    pub fn pin(&self, tids: impl Iterator<Item = Tid> + Clone) {
        self.pin_all(iter::once(Tid(0)).chain(tids));
    }

    /// Supervisor and runner are sent to the core of this number, unless they have to be where they are. The
    /// supervisor moves its other tasks when it comes to that ([`Seat::take_wanted`]). They may starve on
    /// that core, too, before they have run there: so from now on they are looked at there.
    pub fn send_to(&self, core: usize) {
        let Some(of) = self.pinned(0) else { return };
        if self.core.compare_exchange(of.core, core, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // It has gone elsewhere by itself, or is to stay.
            return;
        }
        self.wanted.store(core, Ordering::Relaxed);
        self.pin_all(of.threads());
    }

    /// Pins these to the seat's core; to another one, if that changes in the middle of it.
    fn pin_all(&self, tids: impl Iterator<Item = Tid> + Clone) {
        let mut pinned = None;
        while let Some(core) = self.core().filter(|core| Some(*core) != pinned) {
            tids.clone().for_each(|tid| pin(tid, core));
            pinned = Some(core);
        }
    }

    /// The core to which supervisor and runner were sent: once, so that the others can follow.
    pub fn take_wanted(&self) -> Option<usize> {
        if self.wanted.load(Ordering::Relaxed) == NOWHERE {
            return None;
        }
        Some(self.wanted.swap(NOWHERE, Ordering::Relaxed)).filter(|core| *core != NOWHERE)
    }

    /// None: there is nothing to balance.
    fn pinned(&self, id: u64) -> Option<Pinned> {
        let core = self.core.load(Ordering::Acquire);
        let is_movable = core & STAYS == 0 && core != NOWHERE;
        is_movable.then(|| Pinned { id, core, supervisor: self.supervisor(), runner: self.runner() })
    }
}

/// The numbers of the cores in a mask of them, as the kernel gives it ([`sys::get_affinity`]).
pub fn cores_of(mask: &[u8]) -> Vec<usize> {
    (0..mask.len() * 8).filter(|core| mask[core / 8] & (1 << (core % 8)) != 0).collect()
}

/// Pins a task, or with `Tid(0)` the calling thread, to a core. Where that is not allowed it runs anywhere,
/// slower.
pub fn pin(tid: Tid, core: usize) {
    let mut mask = vec![0u8; core / 64 * 8 + 8];
    mask[core / 8] |= 1 << (core % 8);
    if let Err(error) = sys::set_affinity(tid, &mask) {
        tracing::debug!(%tid, core, %error, "not pinned");
    }
}

/// What was seen at the last look.
#[derive(Debug)]
pub struct Balance {
    /// The numbers of the cores that may be used.
    cores: Vec<usize>,
    at: Instant,
    /// How long the last look took.
    took: Duration,
    /// What each had spent.
    spent: HashMap<u64, (Pinned, Vec<(Tid, Spent)>)>,
    /// How long each has run since the look before.
    ran: HashMap<u64, Duration>,
    /// The time from the look before to the last one.
    passed: Duration,
    /// Seats share a core for a reason: they are not sent away for want of room.
    together: bool,
    /// How long each core has been idle; known while one is crowded.
    idle: Option<HashMap<usize, Duration>>,
}

/// Which core a seat needs in place of its own. The greater one is the more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Need {
    /// One that has room: the seat has less than it could have.
    Room,
    /// Any: the seat has nothing at all.
    AnyOther,
}

/// A seat is to go to the core of this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Move {
    need: Need,
    of: Pinned,
    core: usize,
}

/// How long threads have run in all their lives, and how long they have not although they could.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Spent {
    ran: Duration,
    waited: Duration,
}

impl Spent {
    /// None: the thread is gone, or the kernel does not tell.
    fn of(tid: Tid) -> Option<Spent> {
        let (ran, waited) = proc::processor_time(tid)?;
        Some(Spent { ran, waited })
    }

    fn since(&self, before: &Spent) -> Spent {
        let [ran, waited] = [(self.ran, before.ran), (self.waited, before.waited)]
            .map(|(now, before)| now.saturating_sub(before));
        Spent { ran, waited }
    }

    /// What is wrong with the core of threads that have spent this while so much time passed, if anything is.
    fn need(&self, passed: Duration) -> Option<Need> {
        let Spent { ran, waited } = *self;
        let is =
            |waited_more, ran_less| waited > passed.mul_f64(waited_more) && ran < passed.mul_f64(ran_less);
        if is(STARVED_WAITED, STARVED_RAN) {
            Some(Need::AnyOther)
        } else {
            is(WAITED, RAN).then_some(Need::Room)
        }
    }
}

/// Does the thread run, or could it?
pub fn is_runnable(tid: Tid) -> bool {
    proc::Runnable::of(tid).is_ok_and(|state| state.is_so())
}

/// How long each core has had nothing to do since the machine started, from the text of `/proc/stat`.
fn idle_times(stat: &str) -> HashMap<usize, Duration> {
    // In hundredths of a second (USER_HZ is 100 on x86-64).
    let of_line = |line: &str| {
        let words: Vec<u64> =
            line.strip_prefix("cpu")?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        // The core; user, nice, system, idle, iowait, ...
        let &[core, _, _, _, idle, iowait, ..] = words.as_slice() else { return None };
        Some((usize::try_from(core).ok()?, Duration::from_millis(10 * (idle + iowait))))
    };
    stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(of_line).collect()
}

impl Balance {
    pub fn new(cores: Vec<usize>) -> Balance {
        Balance {
            cores,
            at: Instant::now(),
            took: Duration::ZERO,
            spent: HashMap::new(),
            ran: HashMap::new(),
            passed: EVERY,
            together: false,
            idle: None,
        }
    }

    /// From now on seats share a core for a reason, or do no more. Those that starve are sent away all the
    /// same.
    pub fn set_together(&mut self, together: bool) {
        self.together = together;
    }

    /// Which part of the time the seat of this number has run between the last two looks; `None`: it was not
    /// there at both, or another task of it is the runner now.
    pub fn ran(&self, id: u64) -> Option<f64> {
        Some(self.ran.get(&id)?.as_secs_f64() / self.passed.as_secs_f64())
    }

    /// How much time passed between the last two looks.
    pub fn passed(&self) -> Duration {
        self.passed
    }

    /// Is it time to look again?
    pub fn is_due(&self) -> bool {
        self.at.elapsed() > EVERY.max(self.took * REST)
    }

    /// To be called when it [is due](Balance::is_due): sends at most one of the seats, which the caller calls
    /// by the numbers, to another core. To one that has room only by chance: another process may be about to
    /// do the same, and both would meet again.
    ///
    /// Returns the core on which that one starved, if it did.
    pub fn look<'a>(&mut self, seats: impl Iterator<Item = (u64, &'a Seat)> + Clone) -> Option<usize> {
        if self.cores.len() < 2 {
            return None;
        }
        let all: Vec<Pinned> = seats.clone().filter_map(|(id, seat)| seat.pinned(id)).collect();
        let stat = || fs::read_to_string("/proc/stat").unwrap_or_default();
        let began = Instant::now();
        self.passed = self.at.elapsed();
        let chosen = self.choose(&all, self.passed, Spent::of, is_runnable, || idle_times(&stat()));
        self.at = Instant::now();
        self.took = self.at - began;
        let by_chance = || RandomState::new().hash_one(()) & 1 == 0;
        let Move { need, of, core } = chosen.filter(|found| found.need == Need::AnyOther || by_chance())?;
        let (id, seat) = seats.into_iter().find(|(id, _)| *id == of.id)?;
        tracing::debug!(id, from = of.core, to = core, ?need, "its core is crowded");
        seat.send_to(core);
        (need == Need::AnyOther).then_some(of.core)
    }

    fn choose(
        &mut self,
        all: &[Pinned],
        passed: Duration,
        spent: impl Fn(Tid) -> Option<Spent>,
        is_runnable: impl Fn(Tid) -> bool,
        idle_times: impl Fn() -> HashMap<usize, Duration>,
    ) -> Option<Move> {
        let before = std::mem::take(&mut self.spent);
        self.ran.clear();
        let mut crowded: Option<(Need, Pinned)> = None;
        for pinned in all {
            // A task that has ended may still be the runner, and its supervisor has something to do all the
            // same.
            let now: Vec<(Tid, Spent)> =
                pinned.threads().filter_map(|tid| Some((tid, spent(tid)?))).collect();
            self.spent.insert(pinned.id, (*pinned, now.clone()));
            // The same threads, be they on another core now.
            let are_same = |then: &Pinned| Pinned { core: pinned.core, ..*then } == *pinned;
            let Some((then_pinned, then)) = before.get(&pinned.id).filter(|(then, _)| are_same(then)) else {
                continue;
            };
            let mut sum = Spent::default();
            for (tid, now) in now {
                let Some((_, then)) = then.iter().find(|(of, _)| *of == tid) else { continue };
                let since = now.since(then);
                // The kernel counts a wait when it is over.
                let waits = since == Spent::default() && is_runnable(tid);
                sum.ran += since.ran;
                sum.waited += if waits { passed } else { since.waited };
            }
            self.ran.insert(pinned.id, sum.ran);
            if then_pinned == pinned
                && let Some(need) = sum.need(passed)
                && (need == Need::AnyOther || !self.together)
                && crowded.is_none_or(|(most, _)| need > most)
            {
                crowded = Some((need, *pinned));
            }
        }
        let Some((need, crowded)) = crowded else {
            self.idle = None;
            return None;
        };
        let now = idle_times();
        let before = self.idle.replace(now)?;
        let now = self.idle.as_ref()?;
        let idled = |core: &usize| now.get(core)?.checked_sub(*before.get(core)?);
        let others = self.cores.iter().filter(|core| **core != crowded.core);
        let (idle, core) = others.filter_map(|core| Some((idled(core)?, *core))).max()?;
        let found = Move { need, of: crowded, core };
        (need == Need::AnyOther || idle > passed.mul_f64(IDLE)).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: Duration = Duration::from_millis(100);

    fn pinned(id: u64, core: usize) -> Pinned {
        let first = i32::try_from(id).unwrap_or(0) * 10;
        Pinned { id, core, supervisor: Tid(first), runner: Tid(first + 1) }
    }

    /// Three looks, 100 ms after another, with what each thread runs and waits and each core idles in that
    /// time, ms.
    fn looks(all: &[Pinned], spend: &[(i32, u64, u64)], idles: &[(usize, u64)]) -> Vec<Option<(u64, usize)>> {
        let mut balance = Balance::new(idles.iter().map(|(core, _)| *core).collect());
        let mut looks = Vec::new();
        for n in 0..3 {
            let spent = |tid: Tid| {
                let one = spend.iter().find(|(of, ..)| *of == tid.0);
                let [ran, waited] = one
                    .map_or([0; 2], |(_, ran, waited)| [*ran, *waited])
                    .map(|time| Duration::from_millis(n * time));
                Some(Spent { ran, waited })
            };
            let idle = || idles.iter().map(|(core, idle)| (*core, Duration::from_millis(n * idle))).collect();
            let found = balance.choose(all, PASSED, spent, |_| false, idle);
            looks.push(found.map(|found| (found.of.id, found.core)));
        }
        looks
    }

    #[test]
    fn who_waits_goes_to_the_core_that_idles_most() {
        let all = [pinned(1, 0), pinned(2, 1)];
        let found = looks(&all, &[(20, 40, 20), (21, 20, 20)], &[(0, 0), (1, 0), (2, 70), (3, 90)]);
        assert_eq!(found, [None, None, Some((2, 3))]);
    }

    #[test]
    fn nobody_moves_without_need_or_room() {
        let all = [pinned(1, 0)];
        assert_eq!(looks(&all, &[(10, 70, 20)], &[(0, 0), (1, 100)]), [None; 3]);
        assert_eq!(looks(&all, &[(10, 20, 80)], &[(0, 0), (1, 50)]), [None; 3]);
        assert_eq!(looks(&all, &[(10, 20, 80)], &[(0, 100)]), [None; 3]);
    }

    #[test]
    fn who_starves_goes_where_there_is_no_room_either() {
        let all = [pinned(1, 0), pinned(2, 0)];
        let found = looks(&all, &[(10, 20, 80), (20, 0, 0), (21, 1, 95)], &[(0, 0), (1, 0), (2, 5)]);
        assert_eq!(found, [None, None, Some((2, 2))]);
        assert_eq!(looks(&all, &[(20, 5, 0), (21, 0, 95)], &[(0, 0), (1, 0)]), [None; 3], "it has a share");
    }

    /// What it has waited is not yet in the kernel's count.
    #[test]
    fn who_has_not_run_once_starves() {
        let found = [true, false].map(|is_runnable| {
            let mut balance = Balance::new(vec![0, 1]);
            let mut look = || {
                let spent = |_| Some(Spent::default());
                balance.choose(
                    &[pinned(1, 0)],
                    PASSED,
                    spent,
                    |_| is_runnable,
                    || HashMap::from([(1, PASSED)]),
                )
            };
            [look(), look(), look()].map(|found| found.map(|found| (found.need, found.core)))
        });
        assert_eq!(found, [[None, None, Some((Need::AnyOther, 1))], [None; 3]]);
    }

    #[test]
    fn a_supervisor_starves_though_its_runner_is_gone() {
        let mut balance = Balance::new(vec![0, 1]);
        let mut look = || {
            // Of seat 1, 10 is the supervisor and 11 the runner.
            let spent = |tid| (tid == Tid(10)).then(Spent::default);
            balance.choose(&[pinned(1, 0)], PASSED, spent, |_| true, || HashMap::from([(1, PASSED)]))
        };
        let found = [look(), look(), look()].map(|found| found.map(|found| (found.need, found.core)));
        assert_eq!(found, [None, None, Some((Need::AnyOther, 1))]);
    }

    /// It may starve there, too, before its supervisor has run once.
    #[test]
    fn who_is_sent_is_looked_at_where_it_was_sent() {
        let seat = Seat::new(Tid(1));
        seat.set_core(0);
        seat.set_runner(Tid(2));
        seat.send_to(1);
        assert_eq!(seat.pinned(7), Some(Pinned { id: 7, core: 1, supervisor: Tid(1), runner: Tid(2) }));
        assert_eq!([seat.take_wanted(), seat.take_wanted()], [Some(1), None]);
    }

    #[test]
    fn a_look_that_took_long_is_not_soon_made_again() {
        let ago = |time| Instant::now().checked_sub(time).unwrap();
        let balance = |took| Balance { at: ago(2 * EVERY), took, ..Balance::new(vec![0, 1]) };
        assert!(balance(Duration::ZERO).is_due());
        assert!(!balance(EVERY).is_due());
    }

    #[test]
    fn who_stops_all_the_time_is_no_crowd() {
        assert_eq!(looks(&[pinned(1, 0)], &[(10, 50, 20), (11, 45, 25)], &[(0, 0), (1, 100)]), [None; 3]);
    }

    #[test]
    fn who_has_just_moved_is_not_judged_by_what_was() {
        let mut balance = Balance::new(vec![0, 1]);
        let idle = |n| HashMap::from([(0, PASSED * n), (1, PASSED * n)]);
        let mut look = |core, n| {
            balance
                .choose(
                    &[pinned(1, core)],
                    PASSED,
                    |_| Some(Spent { ran: Duration::ZERO, waited: PASSED * n }),
                    |_| false,
                    || idle(n),
                )
                .map(|found| (found.of.id, found.core))
        };
        assert_eq!([look(0, 0), look(0, 1), look(0, 2)], [None, None, Some((1, 1))]);
        assert_eq!([look(1, 3), look(1, 4), look(1, 5)], [None, None, Some((1, 0))]);
    }

    #[test]
    fn a_mask_names_its_cores() {
        assert_eq!(cores_of(&[0b1000_0001, 0, 0b10]), [0, 7, 17]);
        assert!(cores_of(&[]).is_empty());
    }

    #[test]
    fn the_kernels_lines_are_read() {
        let stat = "cpu  1 2 3 4 5 6 7 0 0 0\ncpu0 10 0 5 300 20 0 1 0 0 0\ncpu12 1 0 0 7 0 0 0 0 0 0\nintr 5 6\ncpufoo\n";
        let wanted = HashMap::from([(0, Duration::from_millis(3200)), (12, Duration::from_millis(70))]);
        assert_eq!(idle_times(stat), wanted);
        assert!(!idle_times(&fs::read_to_string("/proc/stat").unwrap_or_default()).is_empty());
    }

    #[test]
    fn a_thread_that_runs_is_told_from_one_that_is_gone() {
        assert!(Spent::of(crate::ours::thread_id()).is_some());
        assert!(Spent::of(Tid(i32::MAX)).is_none());
    }

    #[test]
    fn nobody_is_sent_away_who_stays() {
        let here = sys::current_core();
        let seat = Seat::default();
        seat.set_core(here);
        seat.send_to(here + 1);
        assert_eq!((seat.core(), seat.take_wanted()), (Some(here + 1), Some(here + 1)));
        seat.stay();
        seat.send_to(here);
        assert_eq!((seat.core(), seat.take_wanted()), (Some(here + 1), None), "it stays where it was sent");
        seat.set_core(here);
        seat.send_to(here + 1);
        assert_eq!(seat.core(), Some(here), "it goes by itself, and still stays");
        assert!(seat.stays() && seat.pinned(0).is_none());
        assert!(!Seat::default().stays() && Seat::default().core().is_none());
    }
}
