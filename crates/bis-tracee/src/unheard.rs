//! Tracees that have ended, for whose ends no thread of ours has waited yet.
//!
//! The kernel tells the parent of a traced process of its end (SIGCHLD, `wait`) only when the tracer has
//! waited for it. A pidfd is readable before that, and /proc says `Z`.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bis_trace::types::Tid;

use crate::sys;

/// How many threads wait in [`wait_until_heard`].
static WAITING: AtomicUsize = AtomicUsize::new(0);
static LOCK: Mutex<()> = Mutex::new(());
static HEARD: Condvar = Condvar::new();

/// A thread of ours has waited for a task that has ended.
pub(crate) fn tell() {
    // A thread that counts itself looks at the kernel's state after that. So it either counts already, or it
    // does not find the task any more.
    if WAITING.load(Ordering::SeqCst) > 0 {
        drop(LOCK.lock().unwrap_or_else(PoisonError::into_inner));
        HEARD.notify_all();
    }
}

/// Waits until the end of this tracee, which is another thread's, has been waited for; but not for longer
/// than a second. True: it has.
pub fn wait_until_heard(tid: Tid) -> bool {
    /// Its supervisor may be waiting for the one that waits here: better nobody is found than nothing goes
    /// on.
    const WAIT_MAX: Duration = Duration::from_secs(1);
    /// A thread that ends leaves its tracees to the kernel, which tells their parents, and not us.
    const LOOK_EVERY: Duration = Duration::from_millis(1);
    WAITING.fetch_add(1, Ordering::SeqCst);
    let mut lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let mut is_heard = sys::ended_unheard(Some(tid)).is_none();
    while !is_heard && began.elapsed() < WAIT_MAX {
        lock = HEARD.wait_timeout(lock, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        is_heard = sys::ended_unheard(Some(tid)).is_none();
    }
    drop(lock);
    WAITING.fetch_sub(1, Ordering::SeqCst);
    is_heard
}
