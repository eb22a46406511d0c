//! The tasks that are stopped with their processes, for tasks that read of them in /proc: to the kernel, they
//! stand in stops of their supervisors' like all others.

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::types::Tid;

/// Of all domains of a recording.
#[derive(Debug, Default)]
pub struct Halted {
    tids: Mutex<HashSet<Tid>>,
    /// In most recordings nothing is ever stopped, and tasks report often.
    is_used: AtomicBool,
}

impl Halted {
    fn with<T: Default>(&self, use_it: impl FnOnce(&mut HashSet<Tid>) -> T) -> T {
        if !self.is_used.load(Ordering::Acquire) {
            return T::default();
        }
        use_it(&mut self.tids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The task has stopped with its process, or reports something else.
    pub fn set(&self, tid: Tid, is_halted: bool) {
        if is_halted {
            self.is_used.store(true, Ordering::Release);
        }
        self.with(|tids| if is_halted { tids.insert(tid) } else { tids.remove(&tid) });
    }

    pub fn has(&self, tid: Tid) -> bool {
        self.with(|tids| tids.contains(&tid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_halted_until_it_is_not() {
        let halted = Halted::default();
        halted.set(Tid(7), false);
        assert!(!halted.has(Tid(7)));
        halted.set(Tid(7), true);
        assert!(halted.has(Tid(7)) && !halted.has(Tid(8)));
        halted.set(Tid(7), false);
        assert!(!halted.has(Tid(7)));
    }
}
