//! The mask of blocked signals that a task has set, while the recorder lets it run with another one. A value.
//! Why it does is said in `signals/stash.rs`.

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OwnMask(Option<u64>);

impl OwnMask {
    /// The task gets another mask now, in place of this one; which is its own, if it had no other before.
    pub fn keep(&mut self, mask: u64) {
        self.0.get_or_insert(mask);
    }

    /// Has the task another mask than its own?
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// The task's own mask, where the kernel says this one.
    pub fn behind(&self, mask: u64) -> u64 {
        self.0.unwrap_or(mask)
    }

    /// The task gets its own one again. None: it has that.
    pub fn take(&mut self) -> Option<u64> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mask_that_is_kept_is_the_tasks_own() {
        let mut it = OwnMask::default();
        assert!(!it.is_kept());
        assert_eq!(it.behind(7), 7);
        it.keep(1);
        it.keep(3);
        assert!(it.is_kept());
        assert_eq!(it.behind(7), 1);
        assert_eq!((it.take(), it.take()), (Some(1), None));
        assert_eq!(it.behind(7), 7);
    }
}
