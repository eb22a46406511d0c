//! The core that a domain and all its tasks are pinned to.

use std::sync::atomic::Ordering;

use bis_trace::types::Tid;

use crate::{cores::FIRST, crew::Crew, process::Process};

impl Process {
    /// Does `cpuid` tell the program which core it is on, unrecorded? A domain is so from its exec on, or
    /// never.
    pub fn is_told_its_core(&self) -> bool {
        self.is_told_by(self.hooks.is_some())
    }

    /// As [`Process::is_told_its_core`], where it is known whether the domain has hooks.
    pub fn is_told_by(&self, has_hooks: bool) -> bool {
        !self.session.has_cpuid_faulting && (!has_hooks || self.space.has_own_cpuid())
    }

    /// The slot for this domain, or a copy of it, that becomes active. It prefers `current`.
    pub fn enter_core(&self, current: Option<usize>) -> usize {
        let cores = &self.session.cores;
        if self.is_told_its_core() {
            cores.stay(FIRST);
            return FIRST;
        }
        cores.enter(current)
    }

    /// At the exec, while the domain is not counted on any core: the image has its hooks by now, or will have
    /// none. Where it is told its core, it stays on the first one.
    pub fn settle_on_core(&mut self, tid: Tid) {
        if !self.is_told_its_core() {
            return;
        }
        self.core = FIRST;
        self.session.cores.pin(tid, FIRST);
        self.watched.seat.stay();
    }
}

impl Crew {
    /// Moves the calling thread and all tasks to the domain's core.
    pub fn pin(&self) {
        self.watched.seat.set_core(self.session.cores.number(self.core));
        // The watch thread lets the running task go again, if it is still one that gains by it.
        self.watched.loose.store(false, Ordering::Relaxed);
        self.watched.seat.pin(self.tasks.keys().copied());
    }
}
