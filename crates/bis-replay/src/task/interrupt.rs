//! Stops a replica that runs, from another thread.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use bis_trace::types::{Signal, Tid};
use bis_tracee::sys;

/// A way to stop a replica from another thread: [`Interrupt::ask`].
#[derive(Debug, Default)]
pub struct Interrupt {
    is_asked: AtomicBool,
    /// The task that runs, or 0.
    running: AtomicI32,
}

impl Interrupt {
    /// The signal that brings a task to a stop. No signal of this kind reaches a replayed program.
    const SIGNAL: Signal = Signal(16);

    /// The replica stops soon, or when it is told to go on the next time.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        let tid = self.running.load(Ordering::SeqCst);
        if tid != 0 {
            // It may have ended, and its number hardly is another's so soon: its tracer has not reaped it.
            let _ = sys::kill_task(Tid(tid), Interrupt::SIGNAL);
        }
    }

    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// It was asked, and is not any more.
    pub fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::SeqCst)
    }

    /// This task runs from now on, or none.
    pub(super) fn runs(&self, task: Option<Tid>) {
        self.running.store(task.map_or(0, |task| task.0), Ordering::SeqCst);
    }
}
