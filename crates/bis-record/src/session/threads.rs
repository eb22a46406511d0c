//! The threads that supervise domains.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    thread,
};

use bis_trace::types::Tid;
use bis_tracee::{modes, remote};

use super::Session;
use crate::error::{RecordError, Result};

/// A supervisor needs little: its buffers are on the heap.
pub(super) const STACK_BYTES: usize = 512 * 1024;

/// How a domain begins, and what becomes of it: what its supervisor's thread does.
pub trait Beginning: Send + 'static {
    /// What the thread is called.
    fn name(&self) -> String;

    /// In that thread, until there is nothing left to supervise.
    ///
    /// # Errors
    /// When the recording cannot go on.
    fn supervise(self, session: &Arc<Session>) -> Result<()>;
}

impl Session {
    /// Starts a supervisor thread for the domain that begins so.
    pub fn plant(self: &Arc<Session>, beginning: impl Beginning) {
        self.spawn(beginning.name(), |session| beginning.supervise(session));
    }

    /// Starts a thread of this name that supervises, as `work` does it.
    pub fn spawn(
        self: &Arc<Session>,
        name: String,
        work: impl FnOnce(&Arc<Session>) -> Result<()> + Send + 'static,
    ) {
        self.update(|progress| progress.live += 1);
        let session = Arc::clone(self);
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            modes::cpuid_as_tasks();
            remote::keep_stops();
            let run = || work(&session);
            // A panic must end the recording, not leave everybody waiting for this thread.
            let result = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                Err(RecordError::Bug { tid: Tid(0), what: "a supervisor panicked".into() })
            });
            session.update(|progress| {
                progress.live = progress.live.saturating_sub(1);
                if let Err(error) = result {
                    session.fail(progress, error);
                }
            });
        });
        if let Err(source) = thread {
            let error = RecordError::Os { what: "start a supervisor thread", source };
            self.update(|progress| {
                progress.live = progress.live.saturating_sub(1);
                self.fail(progress, error);
            });
        }
    }
}
