//! Signals that come to bis while it records: most are meant for the program.

use std::{
    sync::{Arc, PoisonError},
    thread,
    time::Duration,
};

use bis_tracee::ours::{self, Came, Coming};

use super::{Session, threads::STACK_BYTES};
use crate::error::{RecordError, Result};

/// A signal that comes to us so soon after the program's end is the one that has ended it.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

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

    /// A signal has come to us. The terminal's come to the program as well; and so does what a process of the
    /// recording has sent to a group that both belong to. All else was meant for the program.
    fn pass_on(&self, Came { signal, sender }: Came) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let hangup = i32::from(signal.0) == libc::SIGHUP && ours::lead_session();
        if sender.is_some_and(|sender| progress.processes.contains(&sender)) {
            return;
        }
        match progress.root {
            // Only the processes that the program has left are still there: it does not wait for them, nor
            // need we.
            Some(_) if progress.exit_code.is_some() => {
                let ends =
                    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&signal.0.into());
                if ends && progress.ended.is_some_and(|at| at.elapsed() > SAME_SIGNAL) {
                    progress.is_over = true;
                    self.changed.notify_all();
                }
            }
            // What was found running is in another group: the terminal's do not come to it.
            Some(root) if sender.is_some() || hangup || self.options.begins.found().is_some() => {
                tracing::debug!(%signal, %root, "passed on");
                // It may have ended just now.
                let _ = ours::send(root, signal);
            }
            Some(_) => {}
            None => progress.early = Some(signal),
        }
    }
}
