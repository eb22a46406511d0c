//! What concerns the hooks of all domains at once: a file that somebody maps, a turn that is over, a call
//! that waits in its hook though nobody thought it would.

mod places;

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    thread,
    time::{Duration, Instant},
};

use bis_agent::hooks::{file_bit, state};
use bis_trace::types::{Addr, DomainId, Tid};
use bis_tracee::{
    area::Area,
    balance::{self, Seat},
    ours, sys,
};
use rustix::time::{ClockId, clock_gettime};

use places::Places;

use crate::{chaos::Chaos, cores::Cores, guide::Guide, space::Key};

/// How often domains are looked at. A task whose turn may be over stops at its next hook.
const TICK: Duration = Duration::from_millis(3);

/// A look that took much processor time is not made again before this many times as much has passed, or
/// [`REST_MAX`]: with thousands of domains the looks would take a core for themselves.
const REST: u32 = 10;
const REST_MAX: Duration = Duration::from_millis(100);

/// The processor time of the calling thread.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// How long a hook's call may take before its supervisor looks after it: where others wait, and where nobody
/// does.
const SLOW: Duration = Duration::from_millis(12);
const SLOW_ALONE: Duration = Duration::from_millis(200);

/// How long somebody who maps a file waits for a write that another domain's hook may be in the middle of.
const WRITE_MAX: Duration = Duration::from_millis(20);

/// A domain, as the others see it.
#[derive(Debug, Default)]
pub struct Watched {
    /// Its hooks' area; not set: it has none.
    area: OnceLock<Arc<Area>>,
    /// Its tasks take turns, with each other or with other domains.
    pub takes_turns: AtomicBool,
    /// Its supervisor, the task that runs, and the core that all its tasks are pinned to (`cores.rs`).
    pub seat: Seat,
    /// A signal waits for the running task.
    pub is_awaited: AtomicBool,
    /// The supervisor is to look after its running task: it is in a hook that takes long.
    slow: AtomicBool,
    /// The supervisor is to look after its running task: it has not stopped for a while, and somebody may
    /// want it to.
    turn: AtomicBool,
    /// There is something to hear of tracers or tracees among its tasks.
    news: AtomicBool,
    /// The supervisor sleeps though a task could run, and is to be woken again and again.
    pub holds: AtomicBool,
    /// How often a task of the domain has stopped.
    pub stops: AtomicU64,
    /// The guide says how far the domain goes on; not set: there is none.
    guide: OnceLock<Guide>,
    /// The running task is not pinned now.
    pub loose: AtomicBool,
    /// Where its trampolines lie (`patches.rs`).
    pub arenas: Mutex<Vec<Addr>>,
}

impl Watched {
    /// From here on, the domain has hooks.
    pub fn set_hooks(&self, area: Arc<Area>) {
        self.area.set(area).ok();
    }

    /// From here on, this one says how far the domain goes on.
    pub fn set_guide(&self, guide: Guide) {
        self.guide.set(guide).ok();
    }

    /// Why the supervisor was kicked, if it was: a hook takes long; a turn may be over.
    pub fn take_kick(&self) -> (bool, bool) {
        (self.slow.swap(false, Ordering::AcqRel), self.turn.swap(false, Ordering::AcqRel))
    }

    /// Is there something to hear of tracers or tracees? Asked once.
    pub fn take_news(&self) -> bool {
        self.news.load(Ordering::Acquire) && self.news.swap(false, Ordering::AcqRel)
    }

    fn kick(&self, why: &AtomicBool) {
        why.store(true, Ordering::Release);
        ours::kick(self.seat.supervisor());
    }

    fn set(&self, word: u64, value: u64) {
        if let Some(area) = self.area.get() {
            area.set(word, value);
        }
    }

    /// A word of the hooks' state; without hooks, 0.
    fn get(&self, word: u64) -> u64 {
        self.area.get().map_or(0, |area| area.get(word))
    }
}

/// All domains that there are.
#[derive(Debug, Default)]
pub struct Watch {
    domains: Mutex<HashMap<DomainId, Weak<Watched>>>,
    /// The bits of the files that are, or were, mapped where they may change.
    files: Mutex<BTreeSet<u64>>,
    mapped: AtomicU64,
}

/// What was seen of a hook under way.
struct Seen {
    count: u64,
    since: Instant,
}

/// What a domain had done at the last look.
#[derive(Clone, Copy, Default)]
struct Done {
    hooked: u64,
    stops: u64,
}

/// A domain that makes this many hooked calls between two looks, and stops no more than that, gains nothing
/// from sharing a core with its supervisor.
const HOOKED_MIN: u64 = 30;
const STOPS_MAX: u64 = 2;

impl Watch {
    /// The domains that there are now.
    fn all(&self) -> Vec<(DomainId, Arc<Watched>)> {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.retain(|_, watched| watched.strong_count() > 0);
        domains.iter().filter_map(|(id, watched)| Some((*id, watched.upgrade()?))).collect()
    }

    /// Where the trampolines of all domains lie.
    pub fn arenas(&self) -> BTreeSet<Addr> {
        let all = self.all();
        let of = |watched: &Watched| watched.arenas.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().flat_map(|(_, watched)| of(watched)).collect()
    }

    /// What there is of a domain that begins. A new one is supervised by the calling thread.
    pub fn of(&self, domain: DomainId) -> Arc<Watched> {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.get(&domain).and_then(Weak::upgrade).unwrap_or_else(|| {
            let watched = Arc::new(Watched { seat: Seat::new(ours::thread_id()), ..Watched::default() });
            domains.insert(domain, Arc::downgrade(&watched));
            watched
        })
    }

    /// There is something to hear for the supervisor of this domain.
    pub fn call(&self, domain: DomainId) {
        if let Some((_, watched)) = self.all().into_iter().find(|(id, _)| *id == domain) {
            watched.kick(&watched.news);
        }
    }

    /// The hooks of this domain are to leave a call alone from here on, until its supervisor tells them anew
    /// what is so (`Process::show_sandbox`).
    pub fn trace(&self, domain: DomainId, nr: i64) {
        fence(Ordering::SeqCst);
        if let Some((_, watched)) = self.all().into_iter().find(|(id, _)| *id == domain)
            && let Some(area) = watched.area.get()
        {
            let nr = nr.cast_unsigned();
            area.add(state::JUDGED + nr / 64 * 8, 1 << (nr % 64));
        }
    }

    /// All domains are to come to an event before they learn anything by a call: at the end of the hook that
    /// they are in, or at their next.
    pub fn call_all(&self) {
        // What they are told has been put where they look for it (`Domain::prepare`) before.
        fence(Ordering::SeqCst);
        for (_, watched) in self.all() {
            watched.set(state::STOP, 1);
            watched.set(state::EXIT_STOP, 1);
        }
    }

    /// This file was mapped where writes to it will be seen, and is known to be (in the registry, or as a
    /// view): from here on, the hooks leave writes to it alone, and have to find out again what their
    /// descriptors are.
    pub fn watch_file(&self, (dev, ino): Key) {
        let bit = file_bit(dev, ino);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(bit);
        self.mapped.fetch_add(1, Ordering::SeqCst);
        let all = self.all();
        for area in all.iter().filter_map(|(_, watched)| watched.area.get()) {
            area.add_file(bit);
            area.set(state::WATCHED, 1);
            area.forget_files();
        }
        fence(Ordering::SeqCst);
        // A hook that has looked already makes its call now.
        let deadline = Instant::now() + WRITE_MAX;
        let busy = |watched: &&Watched| watched.get(state::WRITING) != 0;
        for watched in all.iter().map(|(_, watched)| &**watched).filter(busy) {
            let count = watched.get(state::COUNT);
            while watched.get(state::WRITING) != 0
                && watched.get(state::COUNT) == count
                && Instant::now() < deadline
            {
                thread::yield_now();
            }
        }
    }

    /// Tells new hooks which files are mapped. They are among [`Watch::of`]'s already, and hear of others by
    /// themselves.
    pub fn show_files(&self, area: &Area) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().for_each(|bit| area.add_file(*bit));
        area.set(state::WATCHED, u64::from(!files.is_empty()));
    }

    /// How often a file has begun to be watched. A domain that finds out what a descriptor is, and then tells
    /// the hooks, looks here before and after: in between, it may have become something else.
    pub fn mapped(&self) -> u64 {
        self.mapped.load(Ordering::SeqCst)
    }

    /// Starts the thread that looks at all domains, for as long as the recording lasts.
    pub fn start(self: &Arc<Watch>, cores: &Arc<Cores>, chaos: Option<Arc<Chaos>>) {
        let (watch, cores) = (Arc::downgrade(self), Arc::clone(cores));
        let look = move || {
            // It hardly computes; and whoever starves goes on only when it has looked ([`Watch::balance`]).
            if let Err(error) = sys::run_at_once() {
                tracing::debug!(%error, "who watches waits for its core as all others do");
            }
            let (mut seen, mut done) = (HashMap::new(), HashMap::new());
            let mut places = Places::new(&cores);
            let mut rest = Duration::ZERO;
            loop {
                thread::sleep(chaos.as_ref().map_or(TICK, |chaos| chaos.look()).max(rest));
                let before = used();
                let Some(watch) = watch.upgrade() else { return };
                watch.look(&mut seen);
                watch.loosen(&mut done, &cores, chaos.is_some());
                if places.balance.is_due() {
                    watch.balance(&mut places, &cores, chaos.is_none());
                }
                rest = (used().saturating_sub(before) * REST).min(REST_MAX);
            }
        };
        if let Err(error) = thread::Builder::new().name("watch".into()).stack_size(64 * 1024).spawn(look) {
            tracing::warn!(%error, "no thread to watch over hooks");
        }
    }

    /// A task that is alone, makes many calls and hardly stops may run on any core: a task that talks to
    /// another process over pipes runs best where the kernel puts it, mostly on one core with its partner.
    /// Once it stops more often, it is pinned again.
    fn loosen(&self, done: &mut HashMap<DomainId, Done>, cores: &Cores, impatient: bool) {
        let all = self.all();
        // Those of domains that have ended stay behind.
        let then = mem::take(done);
        for (domain, watched) in &all {
            let now =
                Done { hooked: watched.get(state::COUNT), stops: watched.stops.load(Ordering::Relaxed) };
            done.insert(*domain, now);
            let before = then.get(domain).copied().unwrap_or(now);
            let (hooked, stops) = (now.hooked - before.hooked, now.stops - before.stops);
            let runner = watched.seat.runner();
            let alone = watched.get(state::ALONE) != 0 && runner != Tid(0);
            let loose = watched.loose.load(Ordering::Relaxed);
            let may_leave = alone && !watched.seat.stays();
            if !loose && may_leave && hooked > HOOKED_MIN && stops <= STOPS_MAX {
                watched.loose.store(true, Ordering::Relaxed);
                cores.unpin(runner);
            } else if loose && (!alone || stops > STOPS_MAX) {
                watched.loose.store(false, Ordering::Relaxed);
                watched.seat.core().into_iter().for_each(|core| balance::pin(runner, core));
            }
            // It computes. Whether that keeps anybody waiting, its supervisor knows.
            let may_matter =
                watched.takes_turns.load(Ordering::Relaxed) || watched.is_awaited.load(Ordering::Relaxed);
            if may_matter && (stops == 0 || impatient) && watched.get(state::PHASE) == 0 {
                watched.kick(&watched.turn);
            }
        }
    }

    /// A domain whose core is crowded goes to one that has room; or all share one, where they may and do more
    /// there. Those that are not pinned are the kernel's to place.
    fn balance(&self, places: &mut Places, cores: &Cores, may_gather: bool) {
        let mut all = self.all();
        all.retain(|(_, watched)| !watched.loose.load(Ordering::Relaxed));
        let seats = all.iter().map(|(id, watched)| (u64::from(id.0), &watched.seat));
        let starved = places.balance.look(seats);
        starved.into_iter().for_each(|core| cores.avoid(core));
        if may_gather && cores.count() > 1 {
            places.gather(&all, cores, starved);
        }
    }

    fn look(&self, seen: &mut HashMap<DomainId, Seen>) {
        let all = self.all();
        // Those of domains that have ended, or are in no call now, stay behind.
        let mut then = mem::take(seen);
        for (domain, watched) in &all {
            let is_asked = watched.guide.get().is_some_and(|guide| guide.is_asking());
            if is_asked || watched.holds.load(Ordering::Relaxed) {
                watched.kick(&watched.turn);
            }
            if watched.news.load(Ordering::Acquire) {
                // A kick that comes before its supervisor waits is lost.
                watched.kick(&watched.news);
            }
            let takes_turns = watched.takes_turns.load(Ordering::Relaxed);
            if takes_turns {
                watched.set(state::STOP, 1);
            }
            if watched.get(state::PHASE) != 1 {
                continue;
            }
            let count = watched.get(state::COUNT);
            let same = then.remove(domain).filter(|entry| entry.count == count);
            let mut entry = same.unwrap_or_else(|| Seen { count, since: Instant::now() });
            if entry.since.elapsed() > if takes_turns { SLOW } else { SLOW_ALONE } {
                entry.since = Instant::now();
                watched.kick(&watched.slow);
            }
            seen.insert(*domain, entry);
        }
    }
}
