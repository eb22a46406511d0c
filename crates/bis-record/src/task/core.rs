//! The core that a domain and all its tasks are pinned to.

use std::sync::atomic::Ordering;

use bis_trace::types::Tid;

use crate::{crew::Crew, process::Process};

impl Process {
    /// Does `cpuid` tell the program which core it is on, unrecorded? A domain is so from its exec on, or
    /// never.
    pub fn is_told_its_core(&self) -> bool {
        let is_recorded = self.hooks.is_some() && !self.space.has_own_cpuid();
        !self.session.has_cpuid_faulting && !is_recorded
    }

    /// The slot for a copy of this domain, which becomes active.
    pub fn core_of_copy(&self) -> usize {
        let cores = &self.session.cores;
        if self.is_told_its_core() { cores.enter_for_good() } else { cores.enter(None) }
    }

    /// The slot for this domain, which becomes active again. It prefers the one where it was.
    pub fn enter_core(&self) -> usize {
        let cores = &self.session.cores;
        if self.is_told_its_core() {
            cores.stay(self.core);
            return self.core;
        }
        cores.enter(Some(self.core))
    }

    /// At the exec, while the domain is not counted on any core: the image has its hooks by now, or will have
    /// none. Where it is told its core, it stays on the one where it is.
    pub fn settle_on_core(&mut self, tid: Tid) {
        if !self.is_told_its_core() {
            return;
        }
        self.watched.seat.stay();
        // It may have been sent elsewhere meanwhile.
        if let Some(slot) = self.watched.seat.core().and_then(|core| self.session.cores.slot(core)) {
            self.core = slot;
        }
        self.session.cores.pin(tid, self.core);
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
