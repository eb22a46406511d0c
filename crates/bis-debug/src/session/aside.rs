//! What a session knows of the copy of the program that is seen in its place ([`super::diversion`]).

use std::collections::BTreeMap;

use bis_replay::Diversion;
use bis_trace::types::{Addr, Registers, StandardStream, Tid};
use bis_tracee::siginfo::SigInfo;

use super::lent::Lent;

/// What a library still held, of each stream.
pub(super) type Held = BTreeMap<StandardStream, Vec<u8>>;

/// How a session stands to diversions.
#[derive(Debug, Default)]
pub(super) struct Aside<'t> {
    /// The client has read what is known of the last signal: a call may follow.
    pub is_asked: bool,
    pub diverted: Option<Box<Diverted<'t>>>,
    /// What was refused where the client could not be told.
    pub refused: Option<String>,
    /// Memory that the client has asked for.
    pub lent: Lent,
    /// How many states of registers were kept.
    pub kept: u64,
}

/// Registers that a client puts back when its call is over.
#[derive(Debug)]
pub(super) struct Kept {
    pub number: u64,
    pub tid: Tid,
    pub registers: Registers,
    pub extended: Vec<u8>,
    /// Where the function returns to. None: it has not begun.
    pub return_to: Option<Addr>,
}

impl Aside<'_> {
    /// Is what goes on a copy?
    pub(super) fn is_diverted(&self) -> bool {
        self.diverted.as_ref().is_some_and(|diverted| diverted.is_open || diverted.calls > 0)
    }

    /// The signal for which the copy has stopped.
    pub(super) fn signal(&self) -> Option<&SigInfo> {
        self.diverted.as_ref().and_then(|diverted| diverted.signal.as_ref())
    }
}

/// A copy of the program in which functions are called.
#[derive(Debug)]
pub(super) struct Diverted<'t> {
    pub diversion: Diversion<'t>,
    /// Calls that are not over: they are in one another.
    pub calls: u32,
    /// The user has asked for it: it stays when no call is left.
    pub is_open: bool,
    /// In whose name functions are called.
    pub tid: Tid,
    /// The task that had stopped last outside.
    pub tid_outside: Tid,
    /// What the last function has returned.
    pub returned: Option<u64>,
    /// The signal for which it has stopped.
    pub signal: Option<SigInfo>,
    /// What the program's own output is that the C library holds. None: nobody has looked yet.
    pub held: Option<Held>,
    /// Those of calls that are not over.
    pub kept: Vec<Kept>,
}

impl Diverted<'_> {
    /// May all of it be changed?
    pub(super) fn is_writable(&self) -> bool {
        self.is_open || self.calls > 0
    }

    pub(super) fn may_write(&self, addr: Addr) -> bool {
        self.is_writable() || self.returned == Some(addr.0)
    }
}
