//! A shadow: a copy of a process that never runs, and holds its memory as it was (the Flashback paper, 3.1).
//!
//! The kernel copies memory when it is written, so a shadow costs what has changed since. It is a child of
//! the process, but of a kind that only who asks for it waits for (its end raises no signal), in a session of
//! its own, so that signals for the process's group do not reach it.

use std::{
    cell::{OnceCell, RefCell, RefMut},
    ops::RangeInclusive,
};

use bis_trace::types::{Fd, Signal, Tid};

use crate::{
    address_limit,
    bulk::Bulk,
    error::{Result, TraceeError},
    memory::Memory,
    remote::Remote,
    sys,
    task::{self, Resume, Status, Stopped},
};

/// See the module's text. The thread that has made it must use it, and drop it.
#[derive(Debug)]
pub struct Shadow {
    slot: RefCell<Option<Stopped>>,
    tid: Tid,
    /// Opened when it is looked at first.
    memory: OnceCell<Memory>,
}

impl Shadow {
    /// Copies the process of the task in `slot`, at a stop where remote calls can be made. No call of the
    /// task is in progress then. The copy has these descriptors no more.
    ///
    /// # Errors
    /// Where the machine has no room, or the process may have no more children (EAGAIN, ENOMEM); where the
    /// task has died.
    pub fn of(slot: &mut Option<Stopped>, closed: &[RangeInclusive<Fd>]) -> Result<Shadow> {
        let mut remote = Remote::new(slot)?;
        // No flag, and no signal at its end.
        remote.must("copy the process", libc::SYS_clone, [0; 6])?;
        let copy = remote.take_new_task()?;
        remote.finish()?;
        let tid = copy.tid();
        let mut shadow = Shadow { slot: RefCell::new(Some(copy)), tid, memory: OnceCell::new() };
        let mut remote = Remote::new(shadow.slot.get_mut())?;
        remote.call(libc::SYS_setsid, [0; 6])?;
        for run in closed {
            let [first, last] = [run.start().arg(), run.end().arg()];
            remote.call(libc::SYS_close_range, [first, last, 0, 0, 0, 0])?;
        }
        remote.finish()?;
        Ok(shadow)
    }

    pub fn pid(&self) -> Tid {
        self.tid
    }

    /// What the process's memory held.
    ///
    /// # Errors
    /// Where somebody has killed it.
    pub fn memory(&self) -> Result<&Memory> {
        if self.memory.get().is_none() {
            // Nobody else has set it meanwhile.
            let _ = self.memory.set(Memory::open(self.tid)?);
        }
        self.memory.get().ok_or(TraceeError::Died(self.tid))
    }

    /// The shadow's memory, for much of it.
    ///
    /// # Errors
    /// As [`Shadow::memory`].
    pub fn bulk(&self) -> Result<Bulk<'_>> {
        Ok(Bulk::new(self.memory()?, self.tid))
    }

    /// For calls in its name, and for what it executes of ours.
    ///
    /// # Panics
    /// Where somebody has it already.
    pub fn slot(&self) -> RefMut<'_, Option<Stopped>> {
        self.slot.borrow_mut()
    }

    /// Makes a system call in its name: the kernel's result, a negated errno on failure.
    ///
    /// # Errors
    /// Where somebody has killed it.
    pub fn call(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        let mut remote = Remote::new(self.slot.get_mut())?;
        let result = remote.call(nr, args)?;
        remote.finish()?;
        Ok(result)
    }

    /// As [`Shadow::call`], for a call that maps memory of ours.
    ///
    /// # Errors
    /// As [`Shadow::call`].
    pub fn call_beside_limit(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        let mut remote = Remote::new(self.slot.get_mut())?;
        let result = address_limit::beside(&mut remote, |remote| remote.call(nr, args))?;
        remote.finish()?;
        Ok(result)
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        if sys::kill(self.tid, Signal::KILL).is_err() {
            return;
        }
        // Its memory is free when this returns. Its number is its parent's to give back.
        while let Ok(status) = task::wait_for(self.tid) {
            match status {
                Status::Exited(_) | Status::Killed(_) => return,
                _ => drop(Stopped::adopt(self.tid).resume(Resume::Cont, None)),
            }
        }
        // It may have ended just as a signal came to this thread, which is no answer: its parent can reap it
        // only when its tracer has.
        while sys::wait(Some(self.tid), true)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
        {}
    }
}
