//! The tasks that are stopped with their processes: for tasks that read of them in /proc (to the kernel, they
//! stand in stops of their supervisors' like all others), and for when nobody is left who could let them go
//! on (`session/orphaned.rs`).

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
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
    /// The tasks that a signal stops, or has stopped, with their processes, and whether somebody was there,
    /// when it was looked last, who could let them go on.
    kept: Mutex<HashMap<Tid, bool>>,
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

    fn kept(&self) -> MutexGuard<'_, HashMap<Tid, bool>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A signal is about to stop the task with its process: is somebody there who could let it go on?
    pub fn stops(&self, tid: Tid, is_kept: bool) {
        self.is_used.store(true, Ordering::Release);
        self.kept().insert(tid, is_kept);
    }

    /// The task has gone on, or was not stopped.
    pub fn forget_stop(&self, tid: Tid) {
        if self.is_used.load(Ordering::Acquire) {
            self.kept().remove(&tid);
        }
    }

    /// The tasks that a signal stops, or has stopped.
    pub fn stopped(&self) -> Vec<Tid> {
        if !self.is_used.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.kept().keys().copied().collect()
    }

    /// It was looked whether somebody is there who could let this task go on. True: nobody is, and at the
    /// last look somebody was.
    pub fn look(&self, tid: Tid, is_kept: bool) -> bool {
        let before = self.kept().get_mut(&tid).map(|kept| mem::replace(kept, is_kept));
        before == Some(true) && !is_kept
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

    #[test]
    fn who_loses_the_last_who_could_let_it_go_on_is_told_once() {
        let halted = Halted::default();
        assert_eq!(halted.stopped(), []);
        halted.stops(Tid(7), true);
        halted.stops(Tid(8), true);
        halted.stops(Tid(9), false);
        assert!(!halted.look(Tid(7), true) && !halted.look(Tid(8), true));
        assert!(!halted.look(Tid(9), false), "nobody was there before either");
        halted.forget_stop(Tid(8));
        assert!(!halted.look(Tid(8), false), "it has gone on");
        assert!(halted.look(Tid(7), false) && !halted.look(Tid(7), false));
        halted.forget_stop(Tid(9));
        assert_eq!(halted.stopped(), [Tid(7)]);
    }
}
