//! What one domain writes into another's private memory (process_vm_writev), on its way there.
//!
//! Only a domain's own supervisor may change its memory, and only at a place that its stream describes. So the call
//! of the writer is not made: its bytes wait here, and the target's supervisor puts them into the target's memory
//! with the next event that it writes (the end of a system call, or the frame of a signal's handler), and into
//! that event.
//!
//! That is early enough for the program: whatever the writer does next that the target could observe (a byte
//! through a pipe, a futex, a signal, its own end) comes to the target through a later system call or signal, and
//! the bytes come with that one at the latest. A target that waits in the kernel gets them when it returns. What
//! comes late is a store that the target looks out for without ever making a call; and whoever looks into the
//! target meanwhile (process_vm_readv) sees the old bytes.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
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
}

/// The members of a recording by process id, and their mail.
#[derive(Debug, Default)]
pub struct Mail {
    books: Mutex<Books>,
    /// Pieces that wait, of all domains.
    count: AtomicUsize,
}

impl Mail {
    fn with<T>(&self, use_it: impl FnOnce(&mut Books) -> T) -> T {
        use_it(&mut self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The process is (now) this domain, or one of its processes.
    pub fn join(&self, pid: Tid, domain: DomainId) {
        self.with(|books| books.domains.insert(pid, domain));
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

    pub fn is_member(&self, pid: Tid) -> bool {
        self.with(|books| books.domains.contains_key(&pid))
    }

    /// Sends bytes to a process. False: it is not (any more) of the recording.
    pub fn send(&self, pid: Tid, pieces: Vec<MemWrite>) -> bool {
        self.with(|books| {
            let Some(domain) = books.domains.get(&pid) else { return false };
            self.count.fetch_add(pieces.len(), Ordering::AcqRel);
            books.waiting.entry(*domain).or_default().extend(pieces);
            true
        })
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
    use super::*;

    #[test]
    fn mail_goes_to_who_the_process_is_now() {
        let (mail, pid) = (Mail::default(), Tid(7));
        let piece = |addr| MemWrite { addr, data: vec![1] };
        assert!(!mail.send(pid, vec![piece(1)]));
        mail.join(pid, DomainId(1));
        assert!(mail.send(pid, vec![piece(1)]) && mail.send(pid, vec![piece(2), piece(3)]));
        assert_eq!(mail.take(DomainId(1)), [piece(1), piece(2), piece(3)]);
        assert_eq!(mail.take(DomainId(1)), []);
        assert!(mail.send(pid, vec![piece(4)]));
        // An exec: the old memory is gone, and what was on its way there with it.
        mail.join(pid, DomainId(2));
        mail.leave(DomainId(1));
        assert!(mail.is_member(pid));
        assert_eq!(mail.take(DomainId(2)), []);
        mail.leave(DomainId(2));
        assert!(!mail.is_member(pid));
    }
}
