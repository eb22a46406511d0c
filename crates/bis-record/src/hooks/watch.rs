//! What concerns the hooks of all domains at once: a file that somebody maps, a turn that is over, a call that waits
//! in its hook though nobody thought it would.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
    time::{Duration, Instant},
};

use bis_agent::hooks::state;
use bis_trace::types::{DomainId, Tid};
use bis_tracee::{area::Area, ours};

use crate::cores::Cores;

/// How often domains are looked at. A task whose turn may be over stops at its next hook.
const TICK: Duration = Duration::from_millis(3);

/// How long a hook's call may take before its supervisor looks after it: where others wait, and where nobody does.
const SLOW: Duration = Duration::from_millis(12);
const SLOW_ALONE: Duration = Duration::from_millis(200);

/// How long somebody who maps a file waits for a write that another domain's hook may be in the middle of.
const WRITE_MAX: Duration = Duration::from_millis(20);

/// A domain's area, as the others see it.
#[derive(Debug)]
pub struct Watched {
    pub area: Arc<Area>,
    /// Its tasks take turns, with each other or with other domains.
    pub takes_turns: AtomicBool,
    /// The thread of its supervisor.
    pub supervisor: AtomicI32,
    /// The supervisor is to look after its running task.
    pub kicked: AtomicBool,
    /// The task that runs.
    pub runner: AtomicI32,
    /// How often a task of the domain has stopped.
    pub stops: AtomicU64,
    /// The slot of the core that supervisor and tasks are pinned to (`cores.rs`).
    pub core: AtomicUsize,
    /// The running task is not pinned now.
    pub loose: AtomicBool,
}

/// All domains that have hooks.
#[derive(Debug, Default)]
pub struct Watch {
    domains: Mutex<HashMap<DomainId, Arc<Watched>>>,
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

/// A domain that makes this many hooked calls between two looks, and stops no more than that, gains nothing from sharing
/// a core with its supervisor.
const HOOKED_MIN: u64 = 30;
const STOPS_MAX: u64 = 2;

impl Watch {
    fn with<T>(&self, use_it: impl FnOnce(&mut HashMap<DomainId, Arc<Watched>>) -> T) -> T {
        use_it(&mut self.domains.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn add(&self, domain: DomainId, area: Arc<Area>) -> Arc<Watched> {
        let watched = Arc::new(Watched {
            area,
            takes_turns: AtomicBool::new(false),
            supervisor: AtomicI32::new(ours::thread_id().0),
            kicked: AtomicBool::new(false),
            runner: AtomicI32::new(0),
            stops: AtomicU64::new(0),
            core: AtomicUsize::new(0),
            loose: AtomicBool::new(false),
        });
        self.with(|domains| domains.insert(domain, Arc::clone(&watched)));
        watched
    }

    pub fn leave(&self, domain: DomainId) {
        self.with(|domains| domains.remove(&domain));
    }

    /// All domains are to come to an event before they learn anything by a call: at the end of the hook that they are
    /// in, or at their next.
    pub fn call_all(&self) {
        self.with(|domains| {
            for watched in domains.values() {
                watched.area.set(state::STOP, 1);
                watched.area.set(state::EXIT_STOP, 1);
            }
        });
    }

    /// A file is about to be mapped where writes to it will be seen: from here on, each write to any file is looked at
    /// again.
    pub fn watch_files(&self) {
        let all: Vec<Arc<Watched>> = self.with(|domains| domains.values().cloned().collect());
        for watched in &all {
            watched.area.set(state::WATCHED, 1);
            watched.area.forget_files();
        }
        fence(Ordering::SeqCst);
        // A hook that has looked already makes its call now.
        let deadline = Instant::now() + WRITE_MAX;
        let busy = |watched: &&Arc<Watched>| watched.area.get(state::WRITING) != 0;
        for watched in all.iter().filter(busy) {
            let count = watched.area.get(state::COUNT);
            while watched.area.get(state::WRITING) != 0
                && watched.area.get(state::COUNT) == count
                && Instant::now() < deadline
            {
                thread::yield_now();
            }
        }
    }

    /// Starts the thread that looks at all domains, for as long as the recording lasts.
    pub fn start(self: &Arc<Watch>, cores: &Arc<Cores>) {
        let (watch, cores) = (Arc::downgrade(self), Arc::clone(cores));
        let look = move || {
            let (mut seen, mut done) = (HashMap::new(), HashMap::new());
            loop {
                thread::sleep(TICK);
                let Some(watch) = watch.upgrade() else { return };
                watch.look(&mut seen);
                watch.loosen(&mut done, &cores);
            }
        };
        if let Err(error) = thread::Builder::new().name("watch".into()).stack_size(64 * 1024).spawn(look) {
            tracing::warn!(%error, "no thread to watch over hooks");
        }
    }

    /// A task that is alone, makes many calls and hardly stops may run on any core: who talks to another process over
    /// pipes runs best where the kernel puts it, mostly on one core with its partner. Once it stops more often, it is pinned
    /// again.
    fn loosen(&self, done: &mut HashMap<DomainId, Done>, cores: &Cores) {
        self.with(|domains| {
            done.retain(|domain, _| domains.contains_key(domain));
            for (domain, watched) in domains.iter() {
                let now = Done {
                    hooked: watched.area.get(state::COUNT),
                    stops: watched.stops.load(Ordering::Relaxed),
                };
                let before = done.insert(*domain, now).unwrap_or(now);
                let (hooked, stops) = (now.hooked - before.hooked, now.stops - before.stops);
                let runner = Tid(watched.runner.load(Ordering::Relaxed));
                let alone = watched.area.get(state::ALONE) != 0 && runner != Tid(0);
                let loose = watched.loose.load(Ordering::Relaxed);
                if !loose && alone && hooked > HOOKED_MIN && stops <= STOPS_MAX {
                    watched.loose.store(true, Ordering::Relaxed);
                    cores.unpin(runner);
                } else if loose && (!alone || stops > STOPS_MAX) {
                    watched.loose.store(false, Ordering::Relaxed);
                    cores.pin(runner, watched.core.load(Ordering::Relaxed));
                }
            }
        });
    }

    fn look(&self, seen: &mut HashMap<DomainId, Seen>) {
        self.with(|domains| {
            seen.retain(|domain, _| domains.contains_key(domain));
            for (domain, watched) in domains.iter() {
                let takes_turns = watched.takes_turns.load(Ordering::Relaxed);
                if takes_turns {
                    watched.area.set(state::STOP, 1);
                }
                if watched.area.get(state::PHASE) != 1 {
                    seen.remove(domain);
                    continue;
                }
                let count = watched.area.get(state::COUNT);
                let entry = seen.entry(*domain).or_insert_with(|| Seen { count, since: Instant::now() });
                if entry.count != count {
                    *entry = Seen { count, since: Instant::now() };
                } else if entry.since.elapsed() > if takes_turns { SLOW } else { SLOW_ALONE } {
                    entry.since = Instant::now();
                    watched.kicked.store(true, Ordering::Release);
                    ours::kick(Tid(watched.supervisor.load(Ordering::Relaxed)));
                }
            }
        });
    }
}
