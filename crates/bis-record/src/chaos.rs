//! Chaos: scheduling that a program may meet, and hardly ever does, so that rare bugs become frequent.
//!
//! - Turns last from a single instruction to twenty milliseconds, and which task gets the next is drawn.
//! - Now and then, for a while, one thread gets a turn only when no other of its domain can run, or not even
//!   then: the waiting thread that never came in time, the writer that nobody saw halfway.
//! - Threads are stopped in front of instructions that touch memory which others see, and kept there
//!   (`ambush.rs`).
//! - Reads of pipes and stream sockets, and writes to them that may not wait, move fewer bytes than they were
//!   asked to, where POSIX lets them, and epoll(7).
//!
//! All draws come from one seed. With the same seed a recording makes the same choices, though not at the
//! same moments: the program's own time is not chaos's to choose. A recording is replayed without any of
//! this.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bis_syscalls::{Handler, How, Row, rows};
use bis_trace::types::Tid;

/// Bounds of a turn, and of the time between two looks of the watch thread.
const TURN_MIN: Duration = Duration::from_micros(50);
const TURN_MAX: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(3);

/// Bounds of the time for which a thread is starved, or none is.
const MOOD_MIN: Duration = Duration::from_millis(5);
const MOOD_MAX: Duration = Duration::from_millis(300);

/// Bounds of the time for which a task is held where it was stopped, and where it begins.
const HOLD_MIN: Duration = Duration::from_micros(100);
const HOLD_MAX: Duration = Duration::from_millis(30);
const BIRTH_MIN: Duration = Duration::from_millis(1);
const BIRTH_MAX: Duration = Duration::from_millis(80);

/// For how long nobody may run only because tasks are held: this long, and so much of the time since then.
const IDLE_MAX: Duration = Duration::from_millis(100);
const IDLE_SHARE: f64 = 0.15;

/// What ambushes may cost, likewise.
const LAIN_MAX: Duration = Duration::from_millis(50);
const LAIN_SHARE: f64 = 0.15;

/// What turns of a few instructions may cost, likewise: each of these is a stop, and a pause is at their end.
const CREPT_MAX: Duration = Duration::from_millis(300);
const CREPT_SHARE: f64 = 0.15;

/// For how long tasks are held where they were waited for, likewise, all of them together: others may do
/// nothing all that time but wait for what a held one has locked.
const HELD_MAX: Duration = Duration::from_millis(300);
const HELD_SHARE: f64 = 0.25;

/// What draws.
#[derive(Debug)]
pub struct Chaos {
    random: Mutex<fastrand::Rng>,
    began: Instant,
    /// For how long domains have been idle for held tasks, and what ambushes have cost, and for how long
    /// tasks have been held after them, and what turns of a few instructions have cost, microseconds.
    idle_us: AtomicU64,
    lain_us: AtomicU64,
    held_us: AtomicU64,
    crept_us: AtomicU64,
    /// By the number of a socket's inode: what [`Chaos::socket`] was told.
    sockets: Mutex<HashMap<u64, Option<u64>>>,
    /// The numbers of the inodes of pipes and sockets whose edges somebody has asked for (EPOLLET).
    edges: Mutex<HashSet<u64>>,
}

/// When so many sockets are remembered, all are forgotten.
const SOCKETS_MAX: usize = 4096;

/// A task gets no turn until then, as long as another can run; with `hard`, not even if none can.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    until: Instant,
    hard: bool,
}

impl Hold {
    /// Is the task held now, and if so, even where no other can run?
    pub fn starves(self) -> Option<bool> {
        (Instant::now() < self.until).then_some(self.hard)
    }
}

/// What a domain is subjected to.
#[derive(Debug, Default)]
pub struct Mood {
    /// The task that is starved, and whether it is so even where no other can run.
    victim: Option<(Tid, bool)>,
    /// Until when.
    ends: Option<Instant>,
}

impl Mood {
    pub fn is_over(&self) -> bool {
        self.ends.is_none_or(|end| Instant::now() >= end)
    }

    pub fn begin(&mut self, victim: Option<(Tid, bool)>, time: Duration) {
        *self = Mood { victim, ends: Some(Instant::now() + time) };
    }

    /// Is it this task that is starved now, and if so, even where no other can run?
    pub fn starves(&self, tid: Tid) -> Option<bool> {
        self.victim.filter(|(victim, _)| *victim == tid && !self.is_over()).map(|(_, hard)| hard)
    }
}

impl Chaos {
    pub fn new(seed: u64) -> Chaos {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        let [idle_us, lain_us, held_us, crept_us] = [0; 4].map(AtomicU64::new);
        let (sockets, edges) = (Mutex::default(), Mutex::default());
        Chaos { random, began: Instant::now(), idle_us, lain_us, held_us, crept_us, sockets, edges }
    }

    /// The fewest bytes that a call at this socket may move, which depends on its kind alone; `ask` reads
    /// lists of all sockets of the machine. (The kernel gives a number again after four thousand millions.)
    pub fn socket(&self, inode: u64, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let known = || self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&inode) {
            return *known;
        }
        let least = ask();
        let mut known = known();
        if known.len() >= SOCKETS_MAX {
            known.clear();
        }
        known.insert(inode, least);
        least
    }

    /// Somebody is told of edges of this pipe or socket. That is remembered for good: who asks for its level
    /// later meets less of chaos, and no more than that.
    pub fn note_edges(&self, inode: u64) {
        self.edges.lock().unwrap_or_else(PoisonError::into_inner).insert(inode);
    }

    pub fn has_edges(&self, inode: u64) -> bool {
        self.edges.lock().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A time between these, short and long ones as often: its logarithm is uniform.
    fn time(&self, min: Duration, max: Duration) -> Duration {
        let ratio = max.as_secs_f64() / min.as_secs_f64();
        min.mul_f64(ratio.powf(self.draw(fastrand::Rng::f64)))
    }

    /// How long a turn lasts.
    pub fn turn(&self) -> Duration {
        self.time(TURN_MIN, TURN_MAX)
    }

    /// How many instructions a turn lasts, if it is one of the very short ones: no timer is fine enough for
    /// the few instructions between a check and what relies on it.
    pub fn steps(&self) -> Option<usize> {
        const MAX_LOG2: u32 = 9;
        let steps = self.draw(|random| {
            let max = 2 << random.u32(..MAX_LOG2);
            (random.u8(..) < 80).then(|| random.usize(1..max))
        });
        steps.filter(|_| self.may(&self.crept_us, CREPT_MAX, CREPT_SHARE))
    }

    /// How long the watch thread sleeps.
    pub fn look(&self) -> Duration {
        self.time(TURN_MIN, LOOK_MAX)
    }

    /// Of so many that could have the next turn: which.
    pub fn next(&self, count: usize) -> usize {
        self.draw(|random| if random.u8(..) < 85 { random.usize(..count.max(1)) } else { 0 })
    }

    /// For the next while (the last): which of so many threads is starved, if one is, and whether even where
    /// no other can run.
    pub fn mood(&self, count: usize) -> (Option<(usize, bool)>, Duration) {
        let victim =
            self.draw(|random| random.bool().then(|| (random.usize(..count.max(1)), random.u8(..) < 64)));
        (victim, self.time(MOOD_MIN, MOOD_MAX))
    }

    /// Whether a task that goes on is to be stopped on its way, if it `is` not to be already.
    pub fn ambushes(&self, is: bool) -> bool {
        self.may(&self.lain_us, LAIN_MAX, LAIN_SHARE)
            && self.may(&self.held_us, HELD_MAX, HELD_SHARE)
            && self.draw(|random| random.u8(..) < if is { 64 } else { 200 })
    }

    pub fn coin(&self) -> bool {
        self.draw(fastrand::Rng::bool)
    }

    /// An index of so many: the first half of the time, the next half of the rest, and so on.
    pub fn one_of_first(&self, count: usize) -> usize {
        let last = count.saturating_sub(1);
        self.draw(|random| (0..last).find(|_| random.bool()).unwrap_or(last))
    }

    /// How many of the instructions ahead are to be drawn from: near and far ones as often.
    pub fn how_far(&self) -> usize {
        const MAX_LOG2: u32 = 7;
        self.draw(|random| 4 << random.u32(..MAX_LOG2 - 2))
    }

    pub fn one_of<T: Copy>(&self, choices: &[T]) -> Option<T> {
        self.draw(|random| random.choice(choices).copied())
    }

    /// How a task is held that has been stopped where it matters.
    pub fn hold(&self) -> Hold {
        let (hard, time) = (self.coin(), self.time(HOLD_MIN, HOLD_MAX));
        add(&self.held_us, time);
        Hold { until: Instant::now() + time, hard }
    }

    /// How a task is held that begins, if it is.
    pub fn hold_at_birth(&self) -> Option<Hold> {
        let (is_held, hard) = self.draw(|random| (random.u8(..) < 48, random.u8(..) < 160));
        is_held.then(|| Hold { until: Instant::now() + self.time(BIRTH_MIN, BIRTH_MAX), hard })
    }

    /// May somebody be kept from running where nobody else can run?
    pub fn may_idle(&self) -> bool {
        self.may(&self.idle_us, IDLE_MAX, IDLE_SHARE)
    }

    /// Is this less than so much and so large a share of the time?
    fn may(&self, spent_us: &AtomicU64, max: Duration, share: f64) -> bool {
        let spent = Duration::from_micros(spent_us.load(Ordering::Relaxed));
        spent < max + self.began.elapsed().mul_f64(share)
    }

    /// So long was nobody run because of that.
    pub fn count_idle(&self, time: Duration) {
        add(&self.idle_us, time);
    }

    /// So long has an ambush taken.
    pub fn count_lain(&self, time: Duration) {
        add(&self.lain_us, time);
    }

    /// So long has a turn of a few instructions taken.
    pub fn count_crept(&self, time: Duration) {
        add(&self.crept_us, time);
    }

    /// How many of `len` bytes a call moves.
    pub fn part(&self, len: u64) -> u64 {
        self.draw(|random| if len > 1 && random.u8(..) < 64 { random.u64(1..len) } else { len })
    }
}

fn add(total_us: &AtomicU64, time: Duration) {
    total_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The calls that no hook makes: those that may move fewer bytes, but for writes to regular files, which are
/// not shortened ([`bis_agent::hooks::state::FILES_ALONE`]); the one that says of what they must not shorten;
/// and the one after which SIGTRAP may be blocked, so that nobody lies in wait for the task any more.
pub fn traced() -> Vec<u64> {
    let is_write = |row: &Row| row.how == How::Recorder(Handler::Write);
    let is_shortened = |row: &&&Row| row.transfer.is_some_and(|it| it.may_be_shortened()) && !is_write(row);
    let shortened = rows().iter().filter(is_shortened).map(|row| row.nr);
    shortened.chain([libc::SYS_epoll_ctl, libc::SYS_rt_sigprocmask].map(i64::cast_unsigned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 4000;
    const HOUR: Duration = Duration::from_secs(3600);

    /// How many of so many draws are like this.
    fn count(draw: impl FnMut() -> bool) -> usize {
        std::iter::repeat_with(draw).take(DRAWS).filter(|is_it| *is_it).count()
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let choices = |seed| {
            let chaos = Chaos::new(seed);
            let choice = || (chaos.turn(), chaos.next(5), chaos.mood(4), chaos.part(900), chaos.how_far());
            std::iter::repeat_with(choice).take(20).collect::<Vec<_>>()
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
    }

    #[test]
    fn turns_are_within_their_bounds_short_and_long_ones_as_often() {
        let chaos = Chaos::new(1);
        let turns: Vec<Duration> = std::iter::repeat_with(|| chaos.turn()).take(DRAWS).collect();
        assert!(turns.iter().all(|turn| (TURN_MIN..=TURN_MAX).contains(turn)));
        // From 50 us to 1 ms it is as far as from there to 20 ms.
        let short = turns.iter().filter(|turn| **turn < Duration::from_millis(1)).count();
        assert!((DRAWS * 4 / 10..DRAWS * 6 / 10).contains(&short), "{short}");
    }

    #[test]
    fn whatever_is_chosen_is_there() {
        let chaos = Chaos::new(2);
        for count in [0, 1, 2, 7] {
            for _ in 0..DRAWS {
                let index = [chaos.next(count), chaos.one_of_first(count)];
                assert!(index.iter().all(|index| *index < count.max(1)), "{index:?} of {count}");
                let (victim, time) = chaos.mood(count);
                assert!(victim.is_none_or(|(victim, _)| victim < count.max(1)), "{victim:?} of {count}");
                assert!((MOOD_MIN..=MOOD_MAX).contains(&time));
            }
        }
        assert_eq!(chaos.one_of::<u8>(&[]), None);
    }

    #[test]
    fn the_nearer_is_chosen_the_more_often() {
        let chaos = Chaos::new(3);
        let mut counts = [0; 6];
        for _ in 0..DRAWS {
            counts[chaos.one_of_first(6)] += 1;
        }
        assert!(counts[..4].is_sorted_by(|nearer, farther| *nearer > farther * 3 / 2), "{counts:?}");
        assert!(counts[3] > 0, "{counts:?}");
    }

    #[test]
    fn a_call_moves_a_part_now_and_then_and_never_nothing() {
        let chaos = Chaos::new(4);
        assert_eq!((chaos.part(0), chaos.part(1)), (0, 1));
        let parts: Vec<u64> = std::iter::repeat_with(|| chaos.part(10)).take(DRAWS).collect();
        assert!(parts.iter().all(|part| (1..=10).contains(part)));
        let whole = parts.iter().filter(|part| **part == 10).count();
        assert!((DRAWS * 7 / 10..DRAWS * 8 / 10).contains(&whole), "{whole}");
    }

    #[test]
    fn what_has_taken_too_much_time_is_not_done_any_more() {
        let chaos = Chaos::new(5);
        assert!(chaos.may_idle());
        chaos.count_idle(HOUR);
        assert!(!chaos.may_idle());
        // Each has an account of its own.
        assert!(count(|| chaos.steps().is_some()) > 0 && count(|| chaos.ambushes(false)) > 0);
        chaos.count_crept(HOUR);
        assert_eq!(count(|| chaos.steps().is_some()), 0);
        assert!(count(|| chaos.ambushes(false)) > 0);
        chaos.count_lain(HOUR);
        assert_eq!(count(|| chaos.ambushes(false)), 0);
    }

    #[test]
    fn tasks_that_were_held_long_are_a_reason_to_stop_no_more() {
        let chaos = Chaos::new(6);
        assert!(count(|| chaos.ambushes(true)) > 0);
        // Of 4000 times between 0.1 and 30 ms the sum is some 20 s.
        for _ in 0..DRAWS {
            chaos.hold();
        }
        assert_eq!(count(|| chaos.ambushes(true)), 0);
    }

    #[test]
    fn a_task_that_is_no_victim_is_not_starved_nor_is_one_for_ever() {
        let (victim, other) = (Tid(5), Tid(6));
        let mut mood = Mood::default();
        assert!(mood.is_over() && mood.starves(victim).is_none());
        mood.begin(Some((victim, true)), HOUR);
        assert!(!mood.is_over());
        assert_eq!((mood.starves(victim), mood.starves(other)), (Some(true), None));
        mood.begin(Some((victim, true)), Duration::ZERO);
        assert!(mood.is_over() && mood.starves(victim).is_none());
        mood.begin(None, HOUR);
        assert_eq!(mood.starves(victim), None);
    }

    #[test]
    fn a_socket_is_asked_about_once() {
        let chaos = Chaos::new(7);
        assert_eq!(chaos.socket(1, || Some(3)), Some(3));
        assert_eq!(chaos.socket(2, || None), None);
        assert_eq!(chaos.socket(1, || panic!("it is known")), Some(3));
        assert_eq!(chaos.socket(2, || panic!("it is known, to be none")), None);
        for inode in 3..=SOCKETS_MAX as u64 + 1 {
            chaos.socket(inode, || None);
        }
        assert_eq!(chaos.socket(1, || Some(4)), Some(4), "all were forgotten");
    }

    #[test]
    fn no_hook_makes_a_call_that_may_be_shortened_but_for_writes_to_files() {
        let shortened = [libc::SYS_read, libc::SYS_sendto, libc::SYS_recvfrom];
        let traced: Vec<i64> =
            shortened.into_iter().chain([libc::SYS_epoll_ctl, libc::SYS_rt_sigprocmask]).collect();
        assert_eq!(super::traced(), traced.into_iter().map(i64::cast_unsigned).collect::<Vec<_>>());
    }
}
