//! Private mappings of files that may change, and shared ones of archives that can only be read
//! (`calls/compilers.rs`): *views*.
//!
//! A page of a private mapping that the process has not written shows the file as it is now, not as it was
//! when it was mapped. Replay maps what the file was then. So whoever changes a file by a call says so here,
//! and each domain that has a view of it reads its own memory again at its next event, and records what it
//! shows (`calls/views.rs`; where an address space shows what is `space/views.rs`). Only reads: a store by us
//! would make the page the process's own.
//!
//! As with mail (`mail.rs`), that is early enough for a program that learns of the change by a call, and too
//! late for one that looks out for it without making any. What is not seen at all: stores through a shared
//! mapping of the same file, and what processes outside of the recording write.
//!
//! Files of the system, which nobody changes while programs use them, are not views; with none, all this
//! costs one load.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bis_trace::types::DomainId;

use crate::space::Key;

/// A file has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    pub key: Key,
    /// The first byte of the file that may have changed, and the one after the last.
    pub start: u64,
    pub end: u64,
    /// The file's length after it, bytes.
    pub len: u64,
}

/// A file that somebody has a view of.
#[derive(Debug)]
struct Viewed {
    /// To ask for its length.
    file: Arc<File>,
    users: Vec<DomainId>,
}

#[derive(Debug, Default)]
struct Books {
    /// Which domains have (or have had) a view of which file.
    files: HashMap<Key, Viewed>,
    waiting: HashMap<DomainId, Vec<Change>>,
}

/// The files that domains have views of, and the changes that they have not recorded yet.
#[derive(Debug, Default)]
pub struct Views {
    books: Mutex<Books>,
    files: AtomicUsize,
    waiting: AtomicUsize,
}

impl Views {
    fn with<T>(&self, use_it: impl FnOnce(&mut Books) -> T) -> T {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_it(&mut books);
        self.files.store(books.files.len(), Ordering::Release);
        self.waiting.store(books.waiting.values().map(Vec::len).sum(), Ordering::Release);
        result
    }

    /// Has nobody a view of anything? One load.
    pub fn is_empty(&self) -> bool {
        self.files.load(Ordering::Acquire) == 0
    }

    pub fn has(&self, key: Key) -> bool {
        !self.is_empty() && self.with(|books| books.files.contains_key(&key))
    }

    /// The domain has a view of this file, until it ends or forgets it.
    pub fn add(
        &self,
        key: Key,
        domain: DomainId,
        file: impl FnOnce() -> std::io::Result<File>,
    ) -> std::io::Result<()> {
        self.with(|books| {
            let viewed = match books.files.entry(key) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(place) => place.insert(Viewed { file: Arc::new(file()?), users: Vec::new() }),
            };
            if !viewed.users.contains(&domain) {
                viewed.users.push(domain);
            }
            Ok(())
        })
    }

    /// A file that somebody has a view of.
    pub fn file(&self, key: Key) -> Option<Arc<File>> {
        self.with(|books| books.files.get(&key).map(|viewed| Arc::clone(&viewed.file)))
    }

    /// The domain has no view of this file any more.
    pub fn forget(&self, key: Key, domain: DomainId) {
        self.with(|books| {
            if let Some(viewed) = books.files.get_mut(&key) {
                viewed.users.retain(|user| *user != domain);
            }
            books.files.retain(|_, viewed| !viewed.users.is_empty());
        });
    }

    /// A forked child has its parent's views, and has still to hear what its parent has still to hear.
    pub fn inherit(&self, parent: DomainId, child: DomainId) {
        if self.is_empty() {
            return;
        }
        self.with(|books| {
            for viewed in books.files.values_mut().filter(|viewed| viewed.users.contains(&parent)) {
                viewed.users.push(child);
            }
            if let Some(changes) = books.waiting.get(&parent).cloned() {
                books.waiting.insert(child, changes);
            }
        });
    }

    /// The domain has ended.
    pub fn leave(&self, domain: DomainId) {
        if self.is_empty() {
            return;
        }
        self.with(|books| {
            books.files.values_mut().for_each(|viewed| viewed.users.retain(|user| *user != domain));
            books.files.retain(|_, viewed| !viewed.users.is_empty());
            books.waiting.remove(&domain);
        });
    }

    /// Tells all who have a view of the file.
    pub fn tell(&self, change: Change) {
        self.with(|books| {
            for user in books.files.get(&change.key).map(|viewed| &viewed.users).into_iter().flatten() {
                books.waiting.entry(*user).or_default().push(change);
            }
        });
    }

    /// Is there anything that the domain has not recorded yet? One load where there is nothing for anybody.
    pub fn has_news(&self, domain: DomainId) -> bool {
        self.waiting.load(Ordering::SeqCst) != 0 && self.with(|books| books.waiting.contains_key(&domain))
    }

    /// What the domain has not recorded yet, in order. One load where there is nothing for anybody.
    pub fn take(&self, domain: DomainId) -> Vec<Change> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.with(|books| books.waiting.remove(&domain)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_those_who_look() {
        let (views, a, b, c) = (Views::default(), DomainId(1), DomainId(2), DomainId(3));
        let change = Change { key: (1, 2), start: 0, end: 1, len: 1 };
        views.tell(change);
        assert!(views.is_empty() && views.take(a).is_empty());
        let null = || File::open("/dev/null");
        views.add((1, 2), a, null).unwrap();
        views.tell(change);
        views.inherit(a, b);
        views.tell(change);
        assert_eq!(views.take(a), [change, change]);
        assert_eq!(views.take(b), [change, change]);
        assert!(views.take(c).is_empty());
        views.forget((1, 2), a);
        views.tell(change);
        assert!(views.take(a).is_empty());
        assert_eq!(views.take(b), [change]);
        views.leave(b);
        assert!(views.is_empty() && !views.has((1, 2)));
    }
}
