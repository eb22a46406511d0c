//! What all domain threads of one replay share: the trace, the selection, the board, the echo.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread::Scope,
    time::{Duration, Instant},
};

use bis_trace::{
    ReadAhead,
    types::{DomainId, EventSeq, ObjectId},
};
use bis_tracee::{
    balance::{self, Balance, Seat},
    ours,
};

use crate::{
    alarm::Alarm,
    echo::Echo,
    job::Board,
    learnt::{self, Search},
    objects::Sharers,
    select::Selection,
    world::World,
};

pub(crate) struct Shared<'t> {
    pub world: &'t World<'t>,
    pub selection: &'t Selection,
    pub board: Board,
    pub sharers: Mutex<Sharers>,
    /// None: nothing is shown.
    pub echo: Option<Echo>,
    pub search: Mutex<Search>,
    /// Has no replay of all shown yet that the places which are found by their state are the right ones?
    pub is_guessing: bool,
    /// How many checkpoints there are of all domains.
    pub kept: AtomicUsize,
    /// When the replay has begun.
    pub began: Instant,
    /// When domains are to be stopped.
    pub alarms: Mutex<HashMap<DomainId, Arc<Alarm>>>,
    /// The pauses that were looked for.
    pub found: Mutex<learnt::Found>,
    pub events_done: AtomicU64,
    pub domains_done: AtomicU64,
    pub events_total: u64,
    pub progress: Option<&'t (dyn Fn(u64, u64) + Send + Sync)>,
    /// Where the domains' tasks run.
    pub seats: Mutex<HashMap<DomainId, Arc<Seat>>>,
    /// Reads their events ahead.
    pub ahead: ReadAhead<'t>,
}

/// What a domain's thread gets.
#[derive(Clone, Copy)]
pub(crate) struct Context<'scope, 'env> {
    pub scope: &'scope Scope<'scope, 'env>,
    pub shared: &'env Shared<'env>,
}

impl Shared<'_> {
    /// A seat for a domain that the calling thread replays.
    pub(crate) fn seat(&self, domain: DomainId) -> Arc<Seat> {
        let seat = Arc::new(Seat::new(ours::thread_id()));
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).insert(domain, Arc::clone(&seat));
        seat
    }

    /// Moves domains away from cores that are crowded, until all is done, or for so long. True: it was done
    /// in time.
    pub(crate) fn balance(&self, done: &Receiver<()>, limit: Option<Duration>) -> bool {
        let (began, mut balance) = (Instant::now(), Balance::new(self.world.cores.clone()));
        loop {
            let left = limit.map_or(balance::EVERY, |limit| limit.saturating_sub(began.elapsed()));
            match done.recv_timeout(left.min(balance::EVERY)) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return true,
            }
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return false;
            }
            self.look_at_alarms();
            if !balance.is_due() {
                continue;
            }
            let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
            let _starved = balance.look(seats.iter().map(|(domain, seat)| (u64::from(domain.0), &**seat)));
        }
    }

    /// What goes on for too long is stopped.
    fn look_at_alarms(&self) {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|alarm| alarm.look());
    }

    /// A new alarm for this domain.
    pub(crate) fn alarm(&self, domain: DomainId) -> Arc<Alarm> {
        let alarm = Arc::new(Alarm::new(self.began));
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).insert(domain, Arc::clone(&alarm));
        alarm
    }

    pub(crate) fn search(&self) -> MutexGuard<'_, Search> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a domain does after a failure with which the search may have another try: the first pause that it
    /// looks for otherwise.
    pub(crate) fn learn<T>(&self, from: impl FnOnce(&mut Search, &learnt::Found) -> T) -> T {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        from(&mut self.search(), &found)
    }

    /// Counts events, and tells whoever watches.
    pub(crate) fn add_events(&self, count: u64) {
        let done = self.events_done.fetch_add(count, Ordering::Relaxed) + count;
        if let Some(progress) = self.progress {
            // A cut trace does not say how many there are.
            progress(done, self.events_total.max(done));
        }
    }

    /// One more domain was replayed to its end.
    pub(crate) fn count_domain(&self) {
        self.domains_done.fetch_add(1, Ordering::Relaxed);
    }

    /// A domain has ended: what it was the last to need is given back.
    pub(crate) fn leave(&self, domain: DomainId) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).remove(&domain);
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).remove(&domain);
        let unneeded = self.sharers.lock().unwrap_or_else(PoisonError::into_inner).leave(domain);
        if !unneeded.is_empty() {
            self.board.objects(|all| unneeded.into_iter().for_each(|object| all.forget(object)));
        }
    }

    /// The domain has unmapped an object: will nobody map that any more? In a trace that is not whole, not
    /// all who do are known.
    pub(crate) fn unmap(&self, domain: DomainId, object: ObjectId) -> bool {
        self.world.is_whole()
            && self.sharers.lock().unwrap_or_else(PoisonError::into_inner).unmap(domain, object)
    }

    /// A pause is looked for.
    pub(crate) fn begin_pause(&self, domain: DomainId, pause: EventSeq) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).begin(domain, pause);
    }

    /// The domain goes back to in front of this event.
    pub(crate) fn go_back(&self, domain: DomainId, seq: EventSeq) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).go_back(domain, seq);
    }

    /// It was found.
    pub(crate) fn end_pause(&self, domain: DomainId) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).end(domain);
    }
}
