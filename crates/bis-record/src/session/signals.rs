//! Signals that come to bis while it records: most are meant for the program.

use std::{
    sync::{Arc, PoisonError},
    thread,
};

use bis_tracee::ours::{self, Came, Coming};

use super::{
    Session,
    course::{Answer, Arrived},
    threads::STACK_BYTES,
};
use crate::error::{RecordError, Result};

impl Session {
    /// Starts the thread that gives the program the signals that are sent to us.
    pub(super) fn listen(self: &Arc<Session>, mut coming: Coming) -> Result<()> {
        let session = Arc::clone(self);
        let listen = move || {
            while let Ok(came) = coming.wait() {
                session.pass_on(came);
            }
        };
        let thread = thread::Builder::new().name("signals".into()).stack_size(STACK_BYTES).spawn(listen);
        thread.map(drop).map_err(|source| RecordError::Os { what: "start a thread", source })
    }

    /// A signal has come to us.
    fn pass_on(&self, Came { signal, sender }: Came) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = Arrived {
            signal,
            is_sent: sender.is_some(),
            is_from_inside: sender.is_some_and(|sender| progress.processes.contains(&sender)),
            leads_session: ours::lead_session(),
            is_found: self.options.begins.found().is_some(),
        };
        match arrived.answer(progress.root, progress.ended.map(|ended| ended.elapsed())) {
            Answer::Drop => {}
            Answer::Keep => progress.early = Some(signal),
            Answer::PassOn(root) => {
                tracing::debug!(%signal, %root, "passed on");
                // It may have ended just now.
                let _ = ours::send(root, signal);
            }
            Answer::EndAll => {
                progress.is_over = true;
                self.changed.notify_all();
            }
        }
    }
}
