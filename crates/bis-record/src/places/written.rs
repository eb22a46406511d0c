//! The pages that a task writes to while it computes.
//!
//! A loop's state may be anywhere, be it in a page that nothing leads to which is looked at: an interpreter
//! counts in its function's data, a benchmark in a frame far up the stack. So the kernel is asked, where it
//! can tell, what a task writes to in a moment in front of its pause; these pages are then looked at as all
//! others are (`surroundings.rs`), in front of them. Where these are not all (there are very many, the kernel
//! does not tell, or would have to be asked for too long), loops that come round soon are stepped
//! (`rounds.rs`).
//!
//! This file holds what is known of such pages; `seeing.rs` asks.

mod seeing;

pub use seeing::Sees;

use std::time::Duration;

use bis_trace::types::{Addr, PAGE, PAGE_LEN};

/// How many pages are looked at because they are written to. Of more, some from everywhere.
pub const PAGES_MAX: usize = 128;

/// How long bis may be at it: so long, and this part of the task's time. In a large process the kernel has
/// many pages to go through.
const SPENT_MIN: Duration = Duration::from_millis(20);
const SPENT_PART: u32 = 16;

/// What is known of the pages that a domain's tasks write to.
#[derive(Debug, Default)]
pub struct Written {
    /// Those of the last moment in which they were seen (start, end).
    pages: Vec<(Addr, Addr)>,
    /// Those at which nothing is looked all the same: what is left below stacks, and what others write to.
    left_out: Vec<(Addr, Addr)>,
    /// How often the task has gone on, in front of its pause.
    looks: u32,
    /// Is account kept of all that may be written to?
    is_whole: bool,
    spent: Duration,
    /// The kernel does not tell.
    is_unknown: bool,
}

impl Written {
    pub fn pages(&self) -> &[(Addr, Addr)] {
        &self.pages
    }

    fn may_spend(&self, ran: Option<Duration>) -> bool {
        self.spent <= SPENT_MIN + ran.unwrap_or_default() / SPENT_PART
    }

    /// Takes these ranges for what is written to, page by page. False: there are too many; then those that
    /// were known before stay, and some of the others come from everywhere.
    fn learn(&mut self, ranges: &[(Addr, Addr)]) -> bool {
        let pages = ranges.iter().flat_map(|(start, end)| Addr::steps(*start..*end, PAGE_LEN));
        let pages: Vec<_> = pages.map(|page| (page, page + PAGE)).collect();
        if pages.len() <= PAGES_MAX {
            self.pages = pages;
            return true;
        }
        let (known, new): (Vec<_>, Vec<_>) =
            pages.into_iter().partition(|page| self.pages.binary_search(page).is_ok());
        let room = PAGES_MAX - known.len();
        let step = new.len().div_ceil(room.max(1)).max(1);
        self.pages = known.into_iter().chain(new.into_iter().step_by(step).take(room)).collect();
        self.pages.sort_unstable();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_pages_some_from_everywhere_are_looked_at() {
        let mut written = Written::default();
        assert!(written.learn(&[(Addr(0x1000), Addr(0x3000)), (Addr(0x8000), Addr(0x9000))]));
        let pages: Vec<u64> = written.pages().iter().map(|(start, _)| start.0).collect();
        assert_eq!(pages, [0x1000, 0x2000, 0x8000]);
        assert!(written.pages().iter().all(|(start, end)| *end == *start + PAGE));
        let far = (Addr(0x1000_0000), Addr(0x1000_1000));
        assert!(!written.learn(&[(Addr(0), Addr(300 * PAGE)), far]));
        assert!(written.pages().len() <= PAGES_MAX && written.pages().len() > PAGES_MAX / 2);
        assert!(written.pages().is_sorted());
        // Those that were known are spared.
        assert!(written.learn(&[(Addr(0x7000), Addr(0x8000))]));
        assert!(!written.learn(&[(Addr(0), Addr(1000 * PAGE))]));
        assert!(written.pages().contains(&(Addr(0x7000), Addr(0x8000))));
        assert!(written.pages().len() <= PAGES_MAX && written.pages().len() > PAGES_MAX / 2);
    }

    #[test]
    fn what_bis_may_spend_is_a_part_of_what_the_task_has_computed() {
        let mut written = Written::default();
        assert!(written.may_spend(None));
        written.spent = 2 * SPENT_MIN;
        assert!(!written.may_spend(None) && !written.may_spend(Some(SPENT_MIN)));
        assert!(written.may_spend(Some(SPENT_PART * SPENT_MIN)));
    }
}
