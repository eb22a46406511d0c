//! A program that goes on only as far as its guide lets it ([`crate::guide`]): what a domain knows of that.
//!
//! Breakpoints are `int3` in memory, and watches debug registers, only while a task executes the program:
//! they are put in when it goes on (`points.rs`), and taken out when it reports, before anybody looks at
//! memory. So nothing of them is in the trace, in a forked child, or in what the kernel reads of the program.
//! At one, the task gets a pause: the first of a domain's arrivals at an address since its last event has
//! that address and those registers, so replay cannot take another place for it.
//!
//! Where the program stands still (`stops.rs`), every task's place is described by events.

mod points;
mod stops;

use std::collections::BTreeMap;

use bis_trace::types::{Addr, Tid};
use bis_tracee::debug::{DebugRegisters, Triggered};

use crate::guide::{Guide, Points};

/// What a domain knows of its guide.
#[derive(Debug)]
pub struct Guided {
    guide: Guide,
    points: Points,
    /// What is in for the task that runs.
    armed: Option<Armed>,
    /// What was in for the task that has run last, and what has triggered.
    was_armed: Option<Armed>,
    /// This task executes one instruction.
    step: Option<Tid>,
    /// How many events the domain had had when the program went on.
    count: u64,
    /// The guide knows that this task stands at this address.
    told: Option<(Tid, u64)>,
    /// What the watched bytes held when the program went on.
    values: Vec<Vec<u8>>,
    /// The program is to stand still as soon as all tasks' places are described.
    is_due: bool,
    /// The guide has left.
    is_free: bool,
}

/// What is in for a task.
#[derive(Debug)]
struct Armed {
    tid: Tid,
    /// The bytes that have given way to an `int3`.
    bytes: BTreeMap<Addr, u8>,
    registers: DebugRegisters,
    triggered: Triggered,
    /// The signals that the task blocks: the kernel unblocks SIGTRAP where an `int3` meets it blocked.
    mask: u64,
}

impl Guided {
    /// The program stands in front of its first instruction.
    pub fn new(guide: Guide) -> Guided {
        Guided {
            guide,
            points: Points::default(),
            armed: None,
            was_armed: None,
            step: None,
            count: 0,
            told: None,
            values: Vec::new(),
            is_due: true,
            is_free: false,
        }
    }

    /// Something has happened that the guide hears of at once.
    pub fn let_hear(&mut self) {
        self.is_due = true;
    }

    /// Does the guide want the program to stop?
    fn is_asked(&self) -> bool {
        !self.is_free && self.guide.is_asking()
    }
}
