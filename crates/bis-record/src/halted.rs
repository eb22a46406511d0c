//! The tasks that are stopped with their processes: for tasks that read of them in /proc (to the kernel, they
//! stand in stops of their supervisors' like all others), and for when nobody is left who could let them go
//! on (`session/orphaned.rs`).

use std::{
    collections::{HashMap, HashSet},
    io, mem,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::types::Tid;
use bis_tracee::{Stopped, TraceeError, handover::Parked, task};

/// Of all domains of a recording.
#[derive(Debug, Default)]
pub struct Halted {
    tids: Mutex<HashSet<Tid>>,
    /// In most recordings nothing is ever stopped, and tasks report often.
    is_used: AtomicBool,
    /// The tasks of which their supervisors are just hearing whether they have stopped: nobody else can say
    /// it before that is done.
    unsettled: Mutex<HashSet<Tid>>,
    is_settled: Condvar,
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

    /// Takes a parked task over; true beside it: it has stopped with its process meanwhile. (The kernel says
    /// that one runs which it stops anew for its tracer.)
    ///
    /// # Errors
    /// As those of [`Parked::seize`].
    pub fn take_over(&self, parked: Parked) -> Result<(Stopped, bool), TraceeError> {
        let tid = parked.tid();
        let _unsettled = self.unsettle(tid);
        let seized = parked.seize();
        if matches!(seized, Ok((_, true))) {
            self.set(tid, true);
        }
        seized
    }

    /// Before the calling thread waits for the next report of any of its tasks: waits for that here, and
    /// leaves it there. Until what it returns is dropped, who asks for the task waits. None: nothing was ever
    /// stopped, or there is nothing to wait for.
    ///
    /// # Errors
    /// As those of [`task::wait_any`].
    pub fn before_wait(&self, block: bool) -> io::Result<Option<Unsettled<'_>>> {
        if !self.is_used.load(Ordering::Acquire) {
            return Ok(None);
        }
        Ok(task::next_report(block)?.map(|tid| self.unsettle(tid)))
    }

    fn unsettle(&self, tid: Tid) -> Unsettled<'_> {
        self.unsettled().insert(tid);
        Unsettled { halted: self, tid }
    }

    /// Waits until this task is settled.
    pub fn await_settled(&self, tid: Tid) {
        drop(self.is_settled.wait_while(self.unsettled(), |tids| tids.contains(&tid)));
    }

    fn unsettled(&self) -> MutexGuard<'_, HashSet<Tid>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Tid, bool>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A signal is about to stop the task with its process: is somebody there who could let it go on?
    pub fn note_stop(&self, tid: Tid, is_kept: bool) {
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

/// Its supervisor hears whether this task has stopped.
#[derive(Debug)]
pub struct Unsettled<'a> {
    halted: &'a Halted,
    tid: Tid,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        self.halted.unsettled().remove(&self.tid);
        self.halted.is_settled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

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
    fn who_asks_for_a_task_waits_until_it_is_settled() {
        let halted = Halted::default();
        assert!(halted.before_wait(true).expect("nothing to wait for").is_none(), "nothing was ever stopped");
        let unsettled = halted.unsettle(Tid(7));
        halted.await_settled(Tid(8));
        thread::scope(|scope| {
            let asks = scope.spawn(|| {
                halted.await_settled(Tid(7));
                halted.has(Tid(7))
            });
            halted.set(Tid(7), true);
            drop(unsettled);
            assert!(asks.join().expect("an answer"));
        });
    }

    #[test]
    fn who_loses_the_last_who_could_let_it_go_on_is_told_once() {
        let halted = Halted::default();
        assert_eq!(halted.stopped(), []);
        halted.note_stop(Tid(7), true);
        halted.note_stop(Tid(8), true);
        halted.note_stop(Tid(9), false);
        assert!(!halted.look(Tid(7), true) && !halted.look(Tid(8), true));
        assert!(!halted.look(Tid(9), false), "nobody was there before either");
        halted.forget_stop(Tid(8));
        assert!(!halted.look(Tid(8), false), "it has gone on");
        assert!(halted.look(Tid(7), false) && !halted.look(Tid(7), false));
        halted.forget_stop(Tid(9));
        assert_eq!(halted.stopped(), [Tid(7)]);
    }
}
