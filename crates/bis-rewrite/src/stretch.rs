//! A long stretch of text of which nothing is known: all that is between two functions that the file tells
//! of. A stripped Go program is one such stretch of 50 MB, and Chromium has some of up to 100 MB, with
//! thousands of places to be asked about.
//!
//! Somebody who decoded all of it for each place, or kept its instructions (ten times its size), would not
//! come to an end. So a stretch is decoded as a whole once, from its start, and what is kept of it is small:
//! where in each block the first instruction begins, from which a few instructions are decoded again for each
//! place, and which of the stretch's own addresses its operands name. When it is first asked whether all its
//! computed jumps are understood, it is decoded once more; that answer is for the whole stretch, as it is for
//! a function.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use iced_x86::Instruction;

use crate::{functions::Region, listing::Listing, tables, targets::Targets};

/// One mark for so many bytes.
const BLOCK: u64 = 4096;

/// A run has ended so many bytes behind its site.
const AHEAD: u64 = 64;

/// A longer stretch than this is dealt with here; the instructions of others are at hand, all of them.
pub(crate) const WHOLE_MAX: u64 = 64 << 10;

/// Those that have been asked about.
#[derive(Default)]
pub(crate) struct Stretches(Mutex<Vec<Arc<Stretch>>>);

impl Stretches {
    /// What is known of the region, if it is such a stretch.
    pub fn of(&self, listing: &Listing<'_>, region: &Region) -> Option<Arc<Stretch>> {
        if region.sure || region.len() <= WHOLE_MAX {
            return None;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stretch) = known.iter().find(|stretch| stretch.region == *region) {
            return Some(stretch.clone());
        }
        let stretch = Arc::new(Stretch::of(listing, *region));
        known.push(stretch.clone());
        Some(stretch)
    }
}

/// What is kept of one.
pub(crate) struct Stretch {
    region: Region,
    /// The first instruction that begins in each block.
    marks: Vec<u64>,
    /// Addresses in the region that operands relative to rip name. Sorted.
    operands: Vec<u64>,
    understood: OnceLock<bool>,
}

impl Stretch {
    fn of(listing: &Listing<'_>, region: Region) -> Self {
        let (mut marks, mut operands): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        for it in listing.instructions(region.start, &region) {
            if marks.last().is_none_or(|last| last / BLOCK != it.ip() / BLOCK) {
                marks.push(it.ip());
            }
            if it.is_ip_rel_memory_operand() && region.contains(it.memory_displacement64()) {
                operands.push(it.memory_displacement64());
            }
        }
        listing.worked(region.len());
        operands.sort_unstable();
        operands.dedup();
        Self { region, marks, operands, understood: OnceLock::new() }
    }

    /// The instructions from somewhere before an address to some bytes behind it.
    pub fn around(&self, listing: &Listing<'_>, address: u64) -> Vec<Instruction> {
        let before = self.marks.partition_point(|mark| *mark <= address);
        let Some(from) = before.checked_sub(1).map(|at| self.marks[at]) else { return Vec::new() };
        listing.worked(BLOCK);
        listing.instructions(from, &self.region).take_while(|it| it.ip() < address + AHEAD).collect()
    }

    /// Whether an operand of one of its instructions names an address of `from..to`.
    pub fn names(&self, from: u64, to: u64) -> bool {
        let first = self.operands.partition_point(|operand| *operand < from);
        self.operands.get(first).is_some_and(|operand| *operand < to)
    }

    /// Whether all computed jumps in it are understood.
    pub fn understood(&self, listing: &Listing<'_>, targets: &Targets) -> bool {
        *self.understood.get_or_init(|| {
            listing.worked(2 * self.region.len());
            tables::understood_in(listing, targets, &self.region)
        })
    }
}
