//! A signal that is sent to a process may be taken by any of its threads that does not block it. The kernel
//! wakes the first one if it can (`complete_signal` in its `signal.c`), and programs rely on that: a first
//! thread that sleeps is to be interrupted. Here another one is woken more often: the kernel passes over a
//! thread that stands in a stop of ours, and over one that a signal has woken already, which may be one that
//! the process ignores, because a traced process gets these, too (`timeout` sends SIGTERM, and then SIGCONT).
//! So what another thread has taken is handed to the first one.

use bis_trace::types::Tid;
use bis_tracee::siginfo::SigInfo;

use crate::{domain::Domain, error::Result};

impl Domain {
    /// A thread has taken a signal that its process was sent. True: natively the first thread would have got
    /// it, and gets it now.
    pub fn hand_to_first(&mut self, tid: Tid, info: &SigInfo) -> Result<bool> {
        let Some(first) = self.first_for(tid, info)? else { return Ok(false) };
        tracing::debug!(domain = %self.id, %tid, %first, signal = %info.signal(), "is the first thread's");
        self.keep_back(first, *info)?;
        self.carry(first, info.signal())?;
        Ok(true)
    }
}
