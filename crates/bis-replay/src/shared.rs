//! What all domain threads of one replay share: the trace, the selection, the board, the echo, and the kept
//! files.

use std::{
    collections::HashMap,
    fs::File,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread::Scope,
    time::{Duration, Instant},
};

use bis_trace::{
    Trace,
    event::{Base, DomainEntry, FileEntry, Machine},
    types::{DomainId, EventSeq, FileId},
};
use bis_tracee::{
    balance::{self, Balance, Seat},
    ours,
    ticks::Ticks,
};
use rustix::fs::StatVfsMountFlags;

use crate::{
    echo::Echo,
    error::ReplayError,
    job::Board,
    learnt::{self, Learnt},
    objects::{self, Sharers},
    run,
    select::Selection,
};

pub(crate) struct Shared<'t> {
    pub trace: &'t Trace,
    pub machine: Machine,
    pub ticks: Ticks,
    pub selection: Selection,
    pub entries: HashMap<DomainId, DomainEntry>,
    pub files: HashMap<FileId, FileEntry>,
    pub board: Board,
    pub sharers: Mutex<Sharers>,
    /// None: nothing is shown.
    pub echo: Option<Echo>,
    pub learnt: Learnt,
    /// The pauses that were looked for.
    pub found: Mutex<learnt::Found>,
    pub events_done: AtomicU64,
    pub domains_done: AtomicU64,
    pub events_total: u64,
    pub progress: Option<&'t (dyn Fn(u64, u64) + Send + Sync)>,
    /// Where the domains' tasks run.
    pub seats: Mutex<HashMap<DomainId, Arc<Seat>>>,
    /// Copies in memory of kept files, where the trace's own may not be executed.
    pub copies: Mutex<HashMap<FileId, Arc<File>>>,
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

    /// Moves domains away from cores that are crowded, until all is done, or for so long. True: it was done in time.
    pub(crate) fn balance(&self, done: &Receiver<()>, limit: Option<Duration>) -> bool {
        let (began, mut balance) = (Instant::now(), Balance::new(run::usable_cores(&self.machine)));
        loop {
            let left = limit.map_or(balance::EVERY, |limit| limit.saturating_sub(began.elapsed()));
            match done.recv_timeout(left.min(balance::EVERY)) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return true,
            }
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return false;
            }
            let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
            balance.look(seats.iter().map(|(domain, seat)| (u64::from(domain.0), &**seat)));
        }
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
        let unneeded = self.sharers.lock().unwrap_or_else(PoisonError::into_inner).leave(domain);
        if !unneeded.is_empty() {
            self.board.objects(|all| unneeded.into_iter().for_each(|object| all.forget(object)));
        }
    }

    /// A pause is looked for.
    pub(crate) fn begin_pause(&self, domain: DomainId, pause: EventSeq) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).begin(domain, pause);
    }

    /// It was found.
    pub(crate) fn end_pause(&self, domain: DomainId) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).end(domain);
    }

    /// The command line of a domain's process: its own, or that of the ancestor that it is a copy of.
    pub(crate) fn command(&self, entry: &DomainEntry) -> String {
        let mut base = &entry.base;
        // No chain of copies is longer than there are domains, whatever the trace says.
        for _ in 0..=self.entries.len() {
            match base {
                Base::Exec { argv, .. } => {
                    let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
                    return words.join(" ");
                }
                Base::Fork { parent, .. } => match self.entries.get(parent) {
                    Some(entry) => base = &entry.base,
                    None => break,
                },
            }
        }
        String::new()
    }

    /// A kept file as something that can be mapped executable.
    pub(crate) fn mappable(&self, file: FileId) -> Result<Arc<File>, ReplayError> {
        let opened = self.trace.open_file(file)?;
        let noexec =
            rustix::fs::fstatvfs(&opened).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOEXEC));
        if !noexec {
            return Ok(Arc::new(opened));
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.get(&file) {
            return Ok(copy.clone());
        }
        let copy = objects::copy_of(file, &opened)
            .map_err(|source| ReplayError::io(format!("copy kept file {file} into memory"), source))?;
        let copy = Arc::new(copy);
        copies.insert(file, copy.clone());
        Ok(copy)
    }
}
