//! What /proc has said of a signal.

use bis_trace::types::{Signal, Tid};
use bis_tracee::siginfo::Disposition;

/// What /proc has said of a signal.
#[derive(Debug)]
pub struct Asked {
    tid: Tid,
    signal: Signal,
    /// How many events the domain had then, and how much had been logged since.
    moment: (u64, u64),
    disposition: Disposition,
}

impl Asked {
    pub fn new(tid: Tid, signal: Signal, moment: (u64, u64), disposition: Disposition) -> Asked {
        Asked { tid, signal, moment, disposition }
    }

    /// What it has said of this signal, if no task of the domain can have changed that since.
    pub fn answer(&self, tid: Tid, signal: Signal, moment: (u64, u64)) -> Option<Disposition> {
        ((self.tid, self.signal, self.moment) == (tid, signal, moment)).then_some(self.disposition)
    }
}
