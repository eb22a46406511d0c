//! What one domain writes into another's private memory (process_vm_writev), on its way there.
//!
//! Only a domain's own supervisor may change its memory, and only at a place that its stream describes. So
//! the call of the writer is not made: its bytes wait here, and the target's supervisor puts them into the
//! target's memory with the next event that it writes (the end of a system call, or the frame of a signal's
//! handler), and into that event.
//!
//! That is early enough for the program: whatever the writer does next that the target could observe (a byte
//! through a pipe, a futex, a signal, its own end) comes to the target through a later system call or signal,
//! and the bytes come with that one at the latest. A target that waits in the kernel gets them when it
//! returns. What comes late is a store that the target looks out for without ever making a call; and a
//! program that looks into the target meanwhile (process_vm_readv) sees the old bytes.

//!
//! An exec replaces the memory. From the call's entry until the new image is known, or the call has failed,
//! nobody knows which of the two a write would reach: a domain that writes waits so long ([`Mail::target`]),
//! and the bytes go to the one that there is then. What still waits for the old one is lost with it, as its
//! memory is.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bis_trace::{
    event::MemWrite,
    types::{DomainId, Tid},
};

#[derive(Debug, Default)]
struct Books {
    /// The processes of the recording, and which domain each is.
    domains: HashMap<Tid, DomainId>,
    waiting: HashMap<DomainId, Vec<MemWrite>>,
    /// Processes with a task in an exec.
    execing: HashSet<Tid>,
}

/// How often who waits for an exec looks whether the process is there at all.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What has become of bytes that were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    OnTheirWay,
    /// The process is another domain by now, or on its way to be one: look again.
    Changed,
    /// It is not (any more) of the recording.
    Gone,
}

/// The members of a recording by process id, and their mail.
#[derive(Debug, Default)]
pub struct Mail {
    books: Mutex<Books>,
    settled: Condvar,
    /// Pieces that wait, of all domains.
    count: AtomicUsize,
}

impl Mail {
    fn with<T>(&self, use_it: impl FnOnce(&mut Books) -> T) -> T {
        use_it(&mut self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The process is (now) this domain, or one of its processes.
    pub fn join(&self, pid: Tid, domain: DomainId) {
        self.with(|books| {
            books.domains.insert(pid, domain);
            books.execing.remove(&pid);
        });
        self.settled.notify_all();
    }

    /// A task of this process goes into an exec. If that succeeds, the process joins another domain.
    pub fn begin_exec(&self, pid: Tid) {
        self.with(|books| books.execing.insert(pid));
    }

    /// The exec has failed. (One whose task is killed in it never ends.)
    pub fn end_exec(&self, pid: Tid) {
        self.with(|books| books.execing.remove(&pid));
        self.settled.notify_all();
    }

    pub fn is_execing(&self, pid: Tid) -> bool {
        self.with(|books| books.execing.contains(&pid))
    }

    /// Which domain the process is, once it is in no exec; none: it is not of the recording. `is_there` says
    /// whether the process exists; one that was killed in its exec never leaves it.
    pub fn target(&self, pid: Tid, is_there: impl Fn() -> bool) -> Option<DomainId> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        while books.execing.contains(&pid) && is_there() {
            let waited = self.settled.wait_timeout(books, LOOK_EVERY);
            books = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        books.domains.get(&pid).copied()
    }

    /// The domain has ended: nobody writes to it any more. A process of it that has gone on in another domain
    /// stays.
    pub fn leave(&self, domain: DomainId) {
        self.with(|books| {
            books.domains.retain(|_, current| *current != domain);
            let lost = books.waiting.remove(&domain).map_or(0, |pieces| pieces.len());
            self.count.fetch_sub(lost, Ordering::AcqRel);
        });
    }

    /// Is this domain one process, and not several that share their memory?
    pub fn is_one(&self, domain: DomainId) -> bool {
        self.with(|books| books.domains.values().filter(|other| **other == domain).count() == 1)
    }

    pub fn is_member(&self, pid: Tid) -> bool {
        self.with(|books| books.domains.contains_key(&pid))
    }

    /// Sends bytes to a process that is this domain.
    pub fn send(&self, pid: Tid, domain: DomainId, pieces: &[MemWrite]) -> Sent {
        self.with(|books| match books.domains.get(&pid) {
            None => Sent::Gone,
            Some(now) if *now != domain || books.execing.contains(&pid) => Sent::Changed,
            Some(_) => {
                self.count.fetch_add(pieces.len(), Ordering::AcqRel);
                books.waiting.entry(domain).or_default().extend_from_slice(pieces);
                Sent::OnTheirWay
            }
        })
    }

    /// Does anything wait for this domain? One load where nothing waits for anybody.
    pub fn has_news(&self, domain: DomainId) -> bool {
        self.count.load(Ordering::SeqCst) != 0 && self.with(|books| books.waiting.contains_key(&domain))
    }

    /// What waits for this domain, in order. One load where nothing waits for anybody.
    pub fn take(&self, domain: DomainId) -> Vec<MemWrite> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let pieces = self.with(|books| books.waiting.remove(&domain)).unwrap_or_default();
        self.count.fetch_sub(pieces.len(), Ordering::AcqRel);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Addr;

    use super::*;

    #[test]
    fn mail_goes_to_who_the_process_is_now() {
        let (mail, pid, one, two) = (Mail::default(), Tid(7), DomainId(1), DomainId(2));
        let piece = |addr| MemWrite { addr, data: vec![1] };
        assert_eq!(mail.send(pid, one, &[piece(Addr(1))]), Sent::Gone);
        mail.join(pid, one);
        assert_eq!(mail.send(pid, one, &[piece(Addr(1))]), Sent::OnTheirWay);
        assert_eq!(mail.send(pid, one, &[piece(Addr(2)), piece(Addr(3))]), Sent::OnTheirWay);
        assert_eq!(mail.take(one), [piece(Addr(1)), piece(Addr(2)), piece(Addr(3))]);
        assert_eq!(mail.take(one), []);
        assert_eq!(mail.send(pid, one, &[piece(Addr(4))]), Sent::OnTheirWay);
        // An exec: the old memory is gone, and what was on its way there with it.
        mail.begin_exec(pid);
        assert_eq!(mail.send(pid, one, &[piece(Addr(5))]), Sent::Changed);
        mail.join(pid, two);
        mail.leave(one);
        assert_eq!(mail.send(pid, one, &[piece(Addr(6))]), Sent::Changed);
        assert!(mail.is_member(pid));
        assert_eq!(mail.take(two), []);
        mail.leave(two);
        assert!(!mail.is_member(pid));
    }

    #[test]
    fn who_writes_waits_for_an_exec_and_not_for_the_dead() {
        let (mail, pid) = (Mail::default(), Tid(7));
        mail.join(pid, DomainId(1));
        mail.begin_exec(pid);
        assert_eq!(mail.target(pid, || false), Some(DomainId(1)));
        std::thread::scope(|scope| {
            let found = scope.spawn(|| mail.target(pid, || true));
            std::thread::sleep(LOOK_EVERY * 2);
            assert!(!found.is_finished());
            mail.join(pid, DomainId(2));
            assert_eq!(found.join().unwrap(), Some(DomainId(2)));
        });
        mail.begin_exec(pid);
        mail.end_exec(pid);
        assert_eq!(mail.target(pid, || true), Some(DomainId(2)));
    }
}
