//! A replayed process as a thing that must be cleaned up: whatever becomes of its replica, the process is
//! killed and reaped.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::types::Tid;
use bis_tracee::{
    Resume, Status, Stopped, proc,
    task::{self},
};
use rustix::process::{Pid, Signal};

/// The processes that must not outlive a replay: killing them wakes whoever waits for them.
#[derive(Debug, Default)]
pub struct Living {
    pids: Mutex<HashSet<Tid>>,
    is_over: AtomicBool,
}

impl Living {
    fn lock(&self) -> MutexGuard<'_, HashSet<Tid>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process exists that must not outlive the replay.
    pub(crate) fn add(&self, pid: Tid) {
        let mut pids = self.lock();
        pids.insert(pid);
        if self.is_over() {
            kill(pid);
        }
    }

    /// The process is about to be reaped: its number may soon be another's.
    pub(crate) fn remove(&self, pid: Tid) {
        self.lock().remove(&pid);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Kills all of them, and all that come.
    pub fn end(&self) {
        let pids = self.lock();
        self.is_over.store(true, Ordering::Relaxed);
        pids.iter().copied().for_each(kill);
    }
}

pub(crate) fn as_pid(pid: Tid) -> Option<Pid> {
    Pid::from_raw(pid.0)
}

/// Kills a process with all its threads. It may be dead already.
pub(crate) fn kill(pid: Tid) {
    if let Some(pid) = as_pid(pid) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// A process of ours that the calling thread traces. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Tid,
    living: Arc<Living>,
}

impl Process {
    pub(crate) fn new(pid: Tid, living: &Arc<Living>) -> Process {
        living.add(pid);
        Process { pid, living: Arc::clone(living) }
    }

    pub(crate) fn pid(&self) -> Tid {
        self.pid
    }

    pub(crate) fn living(&self) -> &Arc<Living> {
        &self.living
    }
}

/// Waits until a killed task is gone, letting it through its last stops.
pub(crate) fn reap(tid: Tid) {
    loop {
        match task::wait_for(tid) {
            Ok(Status::Exited(_) | Status::Killed(_)) | Err(_) => return,
            Ok(_) => {
                if Stopped::adopt(tid).resume(Resume::Cont, None).is_err() {
                    return;
                }
            }
        }
    }
}

/// The threads of a process but its first: those that the kernel still knows, zombies included.
fn other_threads(pid: Tid) -> Vec<Tid> {
    let mut threads = proc::threads(pid);
    threads.retain(|tid| *tid != pid);
    threads
}

impl Drop for Process {
    fn drop(&mut self) {
        kill(self.pid);
        // The first thread reports its end only after all others are reaped.
        loop {
            let others = other_threads(self.pid);
            if others.is_empty() {
                break;
            }
            others.into_iter().for_each(reap);
        }
        self.living.remove(self.pid);
        reap(self.pid);
    }
}
