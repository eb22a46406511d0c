//! The dense text: a variant of a file's text that counts.
//!
//! The problem. To name a place in a run, so that another run can be stopped at it, something must count how
//! far a program has come. Here the program counts for itself: one 64-bit word, at a fixed address, is taken
//! down wherever execution could go on without end, and when it gets below zero the program runs into an
//! `int3`.
//!
//! *Where* is decided on the file's flow graph. Nothing runs forever without going around a circle of it
//! again and again, so one count on each circle is enough, and a branch that leads backwards without closing
//! one (from the cold end of a function, mostly) needs none:
//! * of branches inside of a function: those backward ones without which the others would still make a circle
//!   (`flow`);
//! * of calls, and of jumps to other functions: those that lead back to a function which is still waiting for
//!   the caller, when the file's calls are walked from the top (`calls`). Only recursion is counted;
//! * of computed jumps: all, but for those of `switch` whose table leads forward only.
//!
//! A call by way of the linkage table to a function of the file itself is a call like others (`stubs`).
//!
//! What this leaves out, on purpose: circles that are closed by a call through a pointer, or by way of
//! another file (`qsort`'s comparison calling `qsort`), if neither file has a loop on them; they are as deep
//! as the stack, and no loop turns in them. And, unless [`DenseOptions::short_loops`] says otherwise,
//! innermost loops of at most [`SHORT`] instructions without a call, for which a count would cost more than
//! they do: whoever is caught in one for long needs the other variant.
//!
//! *How*. A branch, jump or call with a displacement of 32 bits stays where it is and gets another
//! displacement: it leads to a *count* of 20 bytes, and that to the target. A call is still a call, so the
//! address on the stack is the program's own. Branches of two bytes, and computed jumps, move with their
//! neighbours (`runs`), like the sites of hooks. In both, the program is stopped after the branch and before
//! its target. Where the target might look at the flags (`flags`), which is rare, they are kept.
//!
//! Sure or untouched, as everywhere in this crate: what is left is counted by [`Reason`] in [`Coverage`].
//!
//! The modules: `survey` decodes all of the file once, `flow` and `calls` choose, `flags` looks at targets,
//! `runs` finds room, `plan` puts that in order; `emit` makes bytes, `build` the whole text; `map` is what a
//! supervisor asks; `cache` keeps both on disk, and `order` says to another process what to make.

mod build;
mod cache;
mod calls;
mod class;
mod count;
mod emit;
mod flags;
mod flow;
mod form;
mod loads;
mod map;
mod order;
mod plan;
mod runs;
mod stubs;
mod survey;

pub use build::{Dense, DenseLayout, Segment};
pub use cache::{DenseCache, DenseEntry, DenseLock, DenseName, StoredSegment};
pub use count::{COUNTS_MAX, STATUS_FLAGS, count_word, counts_left};
pub use map::{DenseMap, DenseSite, Place};
pub use order::{DenseOrder, NoOrder};
pub use plan::DensePlan;

use crate::run::{Reason, SiteKind};

/// The most instructions that a loop has to count as short.
pub const SHORT: usize = 16;

/// Kinds of sites that are to be hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SiteKinds(pub(crate) u16);

impl SiteKinds {
    /// The kinds named.
    #[must_use]
    pub fn of(kinds: &[SiteKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }

    /// Whether `kind` is one of them.
    #[must_use]
    pub fn has(self, kind: SiteKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// What the dense text is to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DenseOptions {
    /// Count in short innermost loops too.
    pub short_loops: bool,
    /// Which special instructions lead to hooks. The others stay as they are.
    pub hooks: SiteKinds,
}

/// What became of the places of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub seen: usize,
    /// Counted (or, for special instructions, hooked).
    pub taken: usize,
    /// Of those, how many keep the flags.
    pub flags_kept: usize,
    /// Those that close no circle which is not counted elsewhere.
    pub needless: usize,
    /// Those of short innermost loops.
    pub short: usize,
    left: [usize; Reason::ALL.len()],
}

impl Tally {
    /// How many were left as they are for this reason, though they should have been taken.
    #[must_use]
    pub fn left(&self, reason: Reason) -> usize {
        Reason::ALL.iter().position(|one| *one == reason).map_or(0, |at| self.left[at])
    }

    /// How many were left for any reason.
    #[must_use]
    pub fn left_in_all(&self) -> usize {
        self.left.iter().sum()
    }

    fn leave(&mut self, reason: Reason) {
        if let Some(at) = Reason::ALL.iter().position(|one| *one == reason) {
            self.left[at] += 1;
        }
    }
}

/// How much of a file's text is known, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes of text.
    pub text: u64,
    /// Of those, bytes whose instructions cannot be told with certainty. What is in them is left, and in no
    /// tally.
    pub unknown: u64,
    /// Branches to an address before their own, or their own, in the same function.
    pub backward: Tally,
    /// Branches to another function, or to the other half of a function that the compiler split. Either
    /// direction.
    pub crossing: Tally,
    /// Direct calls to the file's own functions, also by way of its linkage table. Either direction.
    pub calls: Tally,
    /// Computed jumps, without those of procedure linkage tables.
    pub computed: Tally,
    /// Special instructions of the kinds that were asked for.
    pub hooks: Tally,
}
