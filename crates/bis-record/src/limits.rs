//! The limits of the address space that programs have set or been given, as they see them. The kernel's are
//! higher by what is ours (`bis_tracee::address_limit`); a process without an entry has the kernel's.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::types::Tid;
use bis_tracee::address_limit::Limit;

/// Of all processes of a recording, by their ids.
#[derive(Debug, Default)]
pub struct Limits {
    held: Mutex<HashMap<Tid, Limit>>,
    /// Most recordings have no process with a limit, and need not ask.
    is_used: AtomicBool,
}

impl Limits {
    fn with<T: Default>(&self, use_it: impl FnOnce(&mut HashMap<Tid, Limit>) -> T) -> T {
        if !self.is_used.load(Ordering::Acquire) {
            return T::default();
        }
        use_it(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As the program sees it; none: as the kernel has it.
    pub fn own(&self, pid: Tid) -> Option<Limit> {
        self.with(|held| held.get(&pid).copied())
    }

    pub fn set(&self, pid: Tid, limit: Limit) {
        if limit.is_there() {
            self.is_used.store(true, Ordering::Release);
        }
        self.with(|held| match limit.is_there() {
            true => held.insert(pid, limit),
            false => held.remove(&pid),
        });
    }

    /// A process has been made, and has the limit of its maker.
    pub fn inherit(&self, maker: Tid, child: Tid) {
        self.with(|held| match held.get(&maker).copied() {
            Some(limit) => held.insert(child, limit),
            // The number may have been another process's.
            None => held.remove(&child),
        });
    }

    pub fn forget(&self, pid: Tid) {
        self.with(|held| held.remove(&pid));
    }

    /// A process is about to get memory of ours. One that has come with a limit, from outside, keeps that in
    /// its own eyes; the kernel's becomes as high as it may.
    pub fn begin(&self, pid: Tid) {
        if self.own(pid).is_some() {
            return;
        }
        if let Some(limit) = Limit::of(pid).filter(|limit| limit.is_there()) {
            self.set(pid, limit);
            // Only who is privileged can.
            let _ = limit.with_headroom().set(pid);
        }
    }

    /// A process is about to have nothing of ours.
    pub fn bare(&self, pid: Tid) {
        if let (Some(own), Some(limit)) = (self.own(pid), Limit::of(pid)) {
            let _ = own.and(0, limit.hard).set(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { soft: 1 << 20, hard: 2 << 20 };

    #[test]
    fn a_child_has_its_makers_limit_whoever_had_its_number_before() {
        let limits = Limits::default();
        limits.inherit(Tid(1), Tid(2));
        assert_eq!(limits.own(Tid(2)), None);
        limits.set(Tid(1), LIMIT);
        limits.inherit(Tid(1), Tid(2));
        assert_eq!(limits.own(Tid(2)), Some(LIMIT));
        limits.forget(Tid(1));
        limits.inherit(Tid(1), Tid(2));
        assert_eq!(limits.own(Tid(2)), None);
    }

    #[test]
    fn no_limit_is_the_kernels() {
        let limits = Limits::default();
        limits.set(Tid(1), LIMIT);
        limits.set(Tid(1), Limit::NONE);
        assert_eq!(limits.own(Tid(1)), None);
    }
}
