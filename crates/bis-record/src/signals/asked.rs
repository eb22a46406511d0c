//! What /proc has said of a signal.

use bis_trace::types::{Signal, Tid};
use bis_tracee::siginfo::Disposition;

/// A moment in what a domain does: as long as it is the same, no task of the domain has made a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// How many events the domain has.
    pub events: u64,
    /// How much its hooks have logged since, bytes.
    pub logged: u64,
}

/// What /proc has said of a signal.
#[derive(Debug)]
pub struct Asked {
    tid: Tid,
    signal: Signal,
    /// Then.
    moment: Moment,
    disposition: Disposition,
}

impl Asked {
    pub fn new(tid: Tid, signal: Signal, moment: Moment, disposition: Disposition) -> Asked {
        Asked { tid, signal, moment, disposition }
    }

    /// What it has said of this signal, if no task of the domain can have changed that since.
    pub fn answer(&self, tid: Tid, signal: Signal, moment: Moment) -> Option<Disposition> {
        ((self.tid, self.signal, self.moment) == (tid, signal, moment)).then_some(self.disposition)
    }
}
