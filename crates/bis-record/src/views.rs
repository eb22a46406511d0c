//! Private mappings of files that may change: *views*.
//!
//! A page of a private mapping that the process has not written shows the file as it is now, not as it was when it
//! was mapped. Replay maps what the file was then. So whoever changes a file by a call says so here, and each
//! domain that has a view of it reads its own memory again at its next event, and records what it shows
//! (`calls/views.rs`). Only reads: a store by us would make the page the process's own.
//!
//! As with mail (`mail.rs`), that is early enough for a program that learns of the change by a call, and too late
//! for one that looks out for it without making any. What is not seen at all: stores through a shared mapping of
//! the same file, and what processes outside of the recording write.
//!
//! Files of the system, which nobody changes while programs use them, are not views; with none, all this costs one
//! load.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bis_trace::types::{DomainId, FileId};

use crate::registry::Key;

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

/// A range of a domain's address space that shows a file. What replay has there need not be of one piece: there is
/// one view for each, so that each can be moved by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    pub start: u64,
    pub end: u64,
    pub key: Key,
    /// The file's byte at `start`.
    pub offset: u64,
    /// The file's length as far as the domain's events tell it, bytes. In replay, the pages up to there can be accessed,
    /// and no others.
    pub len: u64,
    /// The content of the file when it was mapped, and the length of that, bytes.
    pub kept: FileId,
    pub kept_len: u64,
    /// Has the file changed since it was kept?
    pub changed: bool,
}

impl View {
    /// The part that lies in these addresses.
    pub fn part(&self, start: u64, end: u64) -> Option<View> {
        let (start, end) = (start.max(self.start), end.min(self.end));
        (start < end).then(|| View { start, end, offset: self.offset + (start - self.start), ..*self })
    }

    /// The addresses that show these bytes of the file.
    pub fn addresses(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let to_addr =
            |offset: u64| self.start.saturating_add(offset.saturating_sub(self.offset)).min(self.end);
        let (start, end) = (to_addr(start), to_addr(end));
        (start < end).then_some((start, end))
    }
}

/// Takes `start..end` out of the views; returns the pieces that are gone.
pub fn cut(views: &mut Vec<View>, start: u64, end: u64) -> Vec<View> {
    let before = std::mem::take(views);
    for view in &before {
        views.extend(view.part(0, start));
        views.extend(view.part(end, u64::MAX));
    }
    before.iter().filter_map(|view| view.part(start, end)).collect()
}

/// Makes two views of each that has one of these addresses inside.
pub fn split(views: &mut Vec<View>, at: [u64; 2]) {
    for at in at {
        if let Some(view) = views.iter_mut().find(|view| view.start < at && at < view.end) {
            let upper = view.part(at, u64::MAX);
            view.end = at;
            views.extend(upper);
        }
    }
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
    /// Who has (or has had) a view of which file.
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

    const VIEW: View = View {
        start: 0x5000,
        end: 0x8000,
        key: (1, 2),
        offset: 0x1000,
        len: 0x9000,
        kept: FileId(1),
        kept_len: 0x9000,
        changed: false,
    };

    #[test]
    fn bytes_of_the_file_are_found_where_they_are_shown() {
        assert_eq!(VIEW.addresses(0x1010, 0x1020), Some((0x5010, 0x5020)));
        assert_eq!(VIEW.addresses(0, u64::MAX), Some((0x5000, 0x8000)));
        assert_eq!(VIEW.addresses(0, 0x1000), None);
        assert_eq!(VIEW.addresses(0x4000, 0x5000), None);
    }

    #[test]
    fn a_hole_leaves_both_sides_with_their_offsets() {
        let mut views = vec![VIEW];
        let gone = cut(&mut views, 0x6000, 0x7000);
        assert_eq!(gone, [View { start: 0x6000, end: 0x7000, offset: 0x2000, ..VIEW }]);
        assert_eq!(views, [View { end: 0x6000, ..VIEW }, View { start: 0x7000, offset: 0x3000, ..VIEW },]);
    }

    #[test]
    fn a_split_changes_nothing_but_the_pieces() {
        let mut views = vec![VIEW];
        split(&mut views, [0x6000, 0x8000]);
        assert_eq!(views, [View { end: 0x6000, ..VIEW }, View { start: 0x6000, offset: 0x2000, ..VIEW }]);
    }

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
