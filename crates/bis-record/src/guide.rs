//! A guide: somebody who decides how far the program goes on, while it is recorded. A debugger is one.
//!
//! What it sees of the program is the trace: each time the program stands still for it, all that was done so
//! far is in there, and the last event says where the program stands. So a replica of the trace is the
//! program, as far as it has come. The guide says where the program is to stop next; to stop it more often
//! than that does no harm, because whoever replays the trace looks again.

use std::{fmt, path::PathBuf, sync::Arc};

use bis_trace::{
    event::MemWrite,
    types::{Addr, DomainId, EventSeq, Tid},
};

/// Bytes that a guide watches: what touches them stops the program behind the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watched {
    /// A multiple of `len`.
    pub addr: Addr,
    /// 1, 2, 4 or 8.
    pub len: u8,
    /// Reads stop it, too.
    pub reads: bool,
}

/// Where a program that goes on is to stop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Points {
    /// In front of the instructions at these addresses.
    pub breakpoints: Vec<Addr>,
    /// As many as the processor has debug registers; of more, the first ones count.
    pub watches: Vec<Watched>,
    /// Behind each event.
    pub each_event: bool,
}

/// What a guide wants of a program that stands still.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// It goes on, to the first of these.
    Run(Points),
    /// It goes on, but this task executes one instruction, and then it stops. Others may run before, where
    /// this one waits.
    Step(Tid, Points),
    /// These bytes are written to its memory, by an event of this task if it can have one, and it stands
    /// still on.
    Write(Tid, MemWrite),
    /// It goes on to its end, and nobody guides it any more.
    Free,
    /// Its process is killed.
    Kill,
}

/// Where a program stands still.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stand {
    /// Whose folder has all events up to `at`, and may get more.
    pub trace_dir: PathBuf,
    pub pid: Tid,
    pub domain: DomainId,
    /// The last event.
    pub at: EventSeq,
}

/// See the module's text. All are called on supervisors' threads, but for `is_asking`.
pub trait Guiding: Send + Sync {
    /// The program stands still: what is it to do? Returns when that is known. `is_there` says whether the
    /// process lives still; where it does not, any wish will do.
    fn next(&self, stand: &Stand, is_there: &dyn Fn() -> bool) -> Wish;

    /// Is the program, which runs, to stop soon? Asked every few milliseconds, by any thread.
    fn is_asking(&self) -> bool;

    /// The program has ended; all of its events are in the trace.
    fn ended(&self);
}

/// A guide that many can hold.
#[derive(Clone)]
pub struct Guide(Arc<dyn Guiding>);

impl Guide {
    pub fn new(guiding: Arc<dyn Guiding>) -> Guide {
        Guide(guiding)
    }
}

impl std::ops::Deref for Guide {
    type Target = dyn Guiding;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guide")
    }
}
