//! Stops a session that is at work, and those that help it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use bis_replay::Interrupt;

/// Stops a session that is at work, from another thread.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    is_asked: Arc<AtomicBool>,
    pub(super) interrupt: Arc<Interrupt>,
    /// Those of the sessions that help it.
    helpers: Arc<Mutex<Vec<Stopper>>>,
}

impl Stopper {
    /// The session stops as soon as it can.
    pub fn ask(&self) {
        let helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_asked.store(true, Ordering::SeqCst);
        self.interrupt.ask();
        helpers.iter().for_each(Stopper::ask);
    }

    /// The caller that has asked does not want it any more. Nobody else can tell: what is asked for before
    /// the session has begun with what it is to stop holds for that; what comes behind its end, for nothing.
    pub fn forget(&self) {
        self.is_asked.store(false, Ordering::SeqCst);
        self.interrupt.take();
    }

    /// One for a session that helps this one, which is asked when this one is.
    pub(super) fn helper(&self) -> Stopper {
        let helper = Stopper::default();
        let mut helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        helpers.push(helper.clone());
        if self.is_asked.load(Ordering::SeqCst) {
            helper.ask();
        }
        helper
    }

    /// All of them are gone.
    pub(super) fn forget_helpers(&self) {
        self.helpers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Has somebody asked, and is not answered yet?
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    pub(super) fn interrupt_of(&self) -> &Interrupt {
        &self.interrupt
    }

    pub(super) fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::SeqCst)
    }
}
