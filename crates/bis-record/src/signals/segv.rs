//! What a process does at SIGSEGV, as it has set it: a value. What it is kept for is in `faults.rs`.

use bis_tracee::siginfo::Disposition;

/// What a process does at SIGSEGV: the kernel's `struct sigaction`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegvAction([u8; SegvAction::LEN]);

impl SegvAction {
    pub const LEN: usize = 32;

    /// None: it is the default; or it becomes that by itself when the handler is called (SA_RESETHAND).
    pub fn of(bytes: [u8; SegvAction::LEN]) -> Option<SegvAction> {
        const ONCE: u64 = linux_raw_sys::general::SA_RESETHAND as u64;
        let action = SegvAction(bytes);
        (action.word(0) != 0 && action.word(1) & ONCE == 0).then_some(action)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn word(&self, at: usize) -> u64 {
        self.0.as_chunks().0.get(at).map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// What /proc says of it.
    pub fn disposition(&self) -> Disposition {
        const IGNORE: u64 = libc::SIG_IGN as u64;
        if self.word(0) == IGNORE { Disposition::Ignore } else { Disposition::Handler }
    }

    /// What an exec leaves of it, and a clone that clears handlers: only what is ignored stays so.
    pub fn without_handler(self) -> Option<SegvAction> {
        Some(self).filter(|action| action.disposition() == Disposition::Ignore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(handler: u64, flags: u64) -> Option<SegvAction> {
        let mut bytes = [0; SegvAction::LEN];
        bytes[..8].copy_from_slice(&handler.to_le_bytes());
        bytes[8..16].copy_from_slice(&flags.to_le_bytes());
        SegvAction::of(bytes)
    }

    #[test]
    fn what_the_kernel_may_change_by_itself_is_not_kept() {
        assert_eq!(action(0, 4), None);
        assert_eq!(action(0x1000, 0x8000_0004), None);
        assert_eq!(action(0x1000, 4).unwrap().disposition(), Disposition::Handler);
        assert_eq!(action(1, 0).unwrap().disposition(), Disposition::Ignore);
    }

    #[test]
    fn only_what_is_ignored_outlives_an_exec() {
        assert_eq!(action(0x1000, 4).unwrap().without_handler(), None);
        assert_eq!(action(1, 0).unwrap().without_handler(), action(1, 0));
    }
}
