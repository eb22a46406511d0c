//! Who comes too late, again and again, for a lock in memory that processes share (`task/too_late.rs`): the
//! process that gives it back is another one. A value.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use bis_trace::types::ObjectId;

use crate::task::LASTS;

/// A lock in shared memory: the object, and the byte of it.
pub type Place = (ObjectId, u64);

/// See the module's text.
#[derive(Debug)]
pub struct Latecomers {
    began: Instant,
    /// When the newest of them began to wait, in milliseconds from then on.
    newest: AtomicU64,
    count: AtomicUsize,
    places: Mutex<BTreeMap<Place, usize>>,
}

/// One of them, for as long as this value is there.
#[derive(Debug)]
pub struct Latecomer {
    of: Arc<Latecomers>,
    place: Place,
}

impl Latecomers {
    pub fn new(now: Instant) -> Latecomers {
        Latecomers {
            began: now,
            newest: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            places: Mutex::default(),
        }
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// One more, for the lock at this place.
    pub fn add(self: &Arc<Latecomers>, place: Place, now: Instant) -> Latecomer {
        self.newest.store(self.milliseconds(now), Ordering::Release);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        *places.entry(place).or_default() += 1;
        self.count.fetch_add(1, Ordering::AcqRel);
        Latecomer { of: Arc::clone(self), place }
    }

    /// Is there one, for whatever lock, that has not waited for long?
    pub fn are_there(&self, now: Instant) -> bool {
        self.count.load(Ordering::Acquire) != 0
            && u128::from(self.milliseconds(now).saturating_sub(self.newest.load(Ordering::Acquire)))
                < LASTS.as_millis()
    }

    /// Is there one for the lock at this place?
    pub fn are_at(&self, place: Place, now: Instant) -> bool {
        self.are_there(now) && self.places.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&place)
    }
}

impl Drop for Latecomer {
    fn drop(&mut self) {
        let mut places = self.of.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = places.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                places.remove(&self.place);
            }
        }
        self.of.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_there_until_the_last_is_gone_or_all_have_waited_for_long() {
        let began = Instant::now();
        let now = began + 3 * LASTS;
        let late = Arc::new(Latecomers::new(began));
        let (lock, other) = ((ObjectId(1), 64), (ObjectId(1), 128));
        assert!(!late.are_there(now));
        let (one, two) = (late.add(lock, now), late.add(lock, now));
        assert!(late.are_there(now) && late.are_at(lock, now) && !late.are_at(other, now));
        assert!(!late.are_there(now + LASTS) && !late.are_at(lock, now + LASTS));
        drop(one);
        assert!(late.are_at(lock, now));
        drop(two);
        assert!(!late.are_there(now) && !late.are_at(lock, now));
    }
}
