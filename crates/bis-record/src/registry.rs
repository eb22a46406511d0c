//! Memory that several domains map, and the run tokens that guard it.
//!
//! Every such piece of memory is an object, known by the inode that the kernel gives it (shared anonymous
//! memory and System V segments have one too). A domain may execute its program only while it holds the
//! tokens of all objects that it maps; it takes them all at once or waits with none, so that no two domains
//! can wait for each other. Each grant is a turn; the order of an object's turns is what replay keeps.
//!
//! A domain that is alone with an object keeps its token for ever: the price of a mapping that nobody shares
//! is one comparison at each stop.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use bis_trace::{
    event::Turn,
    types::{DomainId, ObjectId},
};

use crate::space::Key;

#[derive(Debug)]
struct Object {
    key: Key,
    /// How many mappings each domain has of it.
    users: HashMap<DomainId, usize>,
    holder: Option<DomainId>,
    /// The current turn, or with no holder the next.
    turn: u64,
}

/// A domain that waits for a turn with all of these objects.
#[derive(Debug)]
struct Waiter {
    ticket: u64,
    ids: Vec<ObjectId>,
    /// Of this one alone: to wake all that wait whenever one of them can go on costs each of them a core for
    /// a moment.
    woken: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<ObjectId, Object>,
    by_key: HashMap<Key, ObjectId>,
    next: u32,
    /// Which domains wait for which objects, in the order in which they came. Without it, a domain that gives
    /// its token back and wants it again would have it before the others were awake.
    waiters: Vec<Waiter>,
    next_ticket: u64,
}

impl State {
    /// Are all these objects free, and did nobody else come for one of them before the one with this ticket?
    fn is_turn(&self, ids: &[ObjectId], ticket: u64) -> bool {
        let free = |id: &ObjectId| self.objects.get(id).is_none_or(|object| object.holder.is_none());
        let wanted = |other: &[ObjectId]| other.iter().any(|id| ids.contains(id));
        ids.iter().all(free) && !self.waiters.iter().any(|other| other.ticket < ticket && wanted(&other.ids))
    }

    /// Those whose turn it is now, to be woken when the lock is free.
    fn ready(&self) -> Vec<Arc<Condvar>> {
        let ready = |waiter: &&Waiter| self.is_turn(&waiter.ids, waiter.ticket);
        self.waiters.iter().filter(ready).map(|waiter| Arc::clone(&waiter.woken)).collect()
    }
}

#[derive(Debug, Default)]
pub struct Registry {
    state: Mutex<State>,
    /// Domains that wait for a token.
    waiting: AtomicU32,
    /// Objects that exist.
    count: AtomicU32,
}

impl Registry {
    fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Is there any object? One load.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub fn find(&self, key: Key) -> Option<ObjectId> {
        self.with(|state| state.by_key.get(&key).copied())
    }

    /// A mapping of the object with this key by a domain; `true` if the object is new, and its turn 0 is then
    /// the domain's.
    pub fn open(&self, key: Key, domain: DomainId) -> (ObjectId, bool) {
        self.with(|state| {
            if let Some(id) = state.by_key.get(&key).copied() {
                if let Some(object) = state.objects.get_mut(&id) {
                    *object.users.entry(domain).or_default() += 1;
                }
                return (id, false);
            }
            state.next += 1;
            let id = ObjectId(state.next);
            state.by_key.insert(key, id);
            let users = HashMap::from([(domain, 1)]);
            state.objects.insert(id, Object { key, users, holder: Some(domain), turn: 0 });
            self.count.fetch_add(1, Ordering::Release);
            (id, true)
        })
    }

    /// Does this domain map the object, and no other one?
    pub fn is_alone(&self, id: ObjectId, domain: DomainId) -> bool {
        let is_alone = |object: &Object| object.users.len() == 1 && object.users.contains_key(&domain);
        self.with(|state| state.objects.get(&id).is_some_and(is_alone))
    }

    /// One more mapping of an object that the domain (or, at a fork, its parent) maps.
    pub fn add(&self, id: ObjectId, domain: DomainId) {
        self.with(|state| {
            if let Some(object) = state.objects.get_mut(&id) {
                *object.users.entry(domain).or_default() += 1;
            }
        });
    }

    /// One mapping less. With its last mapping an object is gone; if the same file is mapped again, that is a
    /// new one.
    pub fn remove(&self, id: ObjectId, domain: DomainId) {
        let ready = self.with(|state| {
            let Some(object) = state.objects.get_mut(&id) else { return Vec::new() };
            if let Some(count) = object.users.get_mut(&domain) {
                *count -= 1;
                if *count == 0 {
                    object.users.remove(&domain);
                }
            }
            if object.users.is_empty() {
                let key = object.key;
                state.objects.remove(&id);
                state.by_key.remove(&key);
                self.count.fetch_sub(1, Ordering::Release);
            }
            state.ready()
        });
        ready.iter().for_each(|woken| woken.notify_one());
    }

    /// Does any domain wait for a token? One load.
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) != 0
    }

    /// Waits until all these objects are free, and takes them. `granted` is called with the turns while
    /// nobody else can be granted one.
    pub fn acquire<T>(&self, domain: DomainId, ids: &[ObjectId], granted: impl FnOnce(Vec<Turn>) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_turn(ids, u64::MAX) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            let woken = Arc::new(Condvar::new());
            state.waiters.push(Waiter { ticket, ids: ids.to_vec(), woken: Arc::clone(&woken) });
            while !state.is_turn(ids, ticket) {
                state = woken.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiters.retain(|other| other.ticket != ticket);
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        let mut turns = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(object) = state.objects.get_mut(id) {
                object.holder = Some(domain);
                turns.push(Turn { object: *id, turn: object.turn });
            }
        }
        granted(turns)
    }

    /// Gives back those of these objects that the domain holds. `released` is called with the turns before
    /// anybody else can be granted one.
    pub fn release<T>(&self, domain: DomainId, ids: &[ObjectId], released: impl FnOnce(Vec<Turn>) -> T) -> T {
        let (result, ready) = self.with(|state| {
            let mut turns = Vec::new();
            for id in ids {
                if let Some(object) = state.objects.get_mut(id)
                    && object.holder == Some(domain)
                {
                    turns.push(Turn { object: *id, turn: object.turn });
                    object.holder = None;
                    object.turn += 1;
                }
            }
            (released(turns), state.ready())
        });
        ready.iter().for_each(|woken| woken.notify_one());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const A: DomainId = DomainId(1);
    const B: DomainId = DomainId(2);

    #[test]
    fn turns_have_no_gaps_and_wait_for_each_other() {
        let registry = Arc::new(Registry::default());
        let (id, new) = registry.open((1, 2), A);
        assert!(new);
        assert_eq!(registry.open((1, 2), B), (id, false));
        let other = Arc::clone(&registry);
        let waiter = std::thread::spawn(move || other.acquire(B, &[id], |turns| turns));
        while !registry.is_wanted() {
            std::thread::yield_now();
        }
        let turn = |turn| vec![Turn { object: id, turn }];
        assert_eq!(registry.release(A, &[id], |turns| turns), turn(0));
        assert_eq!(waiter.join().unwrap(), turn(1));
        assert_eq!(registry.release(A, &[id], |turns| turns), []);
        assert_eq!(registry.release(B, &[id], |turns| turns), turn(1));
        assert_eq!(registry.acquire(A, &[id], |turns| turns), turn(2));
    }

    #[test]
    fn who_gives_a_token_back_waits_behind_those_who_wanted_it() {
        let registry = Arc::new(Registry::default());
        let (id, _) = registry.open((1, 2), A);
        registry.add(id, B);
        let other = Arc::clone(&registry);
        let waiter = std::thread::spawn(move || {
            other.acquire(B, &[id], |_| ());
            other.release(B, &[id], |turns| turns)
        });
        while !registry.is_wanted() {
            std::thread::yield_now();
        }
        registry.release(A, &[id], |_| ());
        // At once, and still it is the waiter's turn first.
        assert_eq!(registry.acquire(A, &[id], |turns| turns), [Turn { object: id, turn: 2 }]);
        assert_eq!(waiter.join().unwrap(), [Turn { object: id, turn: 1 }]);
    }

    #[test]
    fn an_object_ends_with_its_last_mapping() {
        let registry = Registry::default();
        let (id, _) = registry.open((1, 2), A);
        registry.add(id, B);
        registry.remove(id, A);
        assert_eq!(registry.find((1, 2)), Some(id));
        registry.remove(id, B);
        assert_eq!(registry.find((1, 2)), None);
        assert!(registry.is_empty());
        let (again, new) = registry.open((1, 2), A);
        assert!(new && again != id);
    }
}
