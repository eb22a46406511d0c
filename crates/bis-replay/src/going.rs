//! A task on its way to an event's place: how that is looked for, and how far the search has come.

use bis_trace::types::Registers;

use crate::{seek::Seek, task::Hooked};

/// What a task on its way to an event's place has with it.
#[derive(Clone, Debug)]
pub(crate) struct Going {
    /// The log that its hooks have to consume on the way.
    pub hooked: Option<Hooked>,
    pub search: Search,
}

/// How the place is found.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// It stops by itself there.
    None,
    /// By its state.
    State {
        /// Set when the search has begun.
        seek: Option<Seek>,
        /// Places that fit, and are not it.
        skips: u32,
        /// How often it was there in another state, for a report.
        passed: u64,
        /// How often it was stopped for the search, there or elsewhere.
        stops: u64,
        /// In which state it was there last.
        looked_at: Option<Box<Registers>>,
        in_vain: InVain,
    },
    /// By its count.
    Count {
        /// It has as many counts as it can be stopped at exactly.
        is_near: bool,
        /// It was asked to stop. Asked again between a count and its trap, it would not know the trap.
        is_asked: bool,
        seek: Option<Seek>,
    },
}

/// Arrivals one after another at a place where all is right but memory that only a sum is known of, and that
/// is the same each time: something on the stack that does not repeat (what an xsave left), and would be
/// looked for for ever.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InVain {
    sum: u64,
    times: u32,
    /// How often all was right but what lies below the stack's end.
    left: u32,
}

impl InVain {
    /// So many do not come about by a program that waits for that memory to change: seconds of them.
    const TIMES_MAX: u32 = 20_000;

    /// It was there again; `sum`, if nothing else was wrong.
    pub(crate) fn count(&mut self, sum: Option<u64>) {
        match sum {
            Some(sum) if sum == self.sum => self.times += 1,
            sum => (self.sum, self.times) = (sum.unwrap_or(0), 0),
        }
    }

    /// It was there again, and only what lies below the stack's end was not as it was. True: that was so too
    /// often to wait for it, and says little.
    pub(crate) fn count_left(&mut self) -> bool {
        const LEFT_MAX: u32 = 2_000;
        self.left += 1;
        self.left > LEFT_MAX
    }

    pub(crate) fn is_for_ever(self) -> bool {
        self.times >= Self::TIMES_MAX
    }
}
