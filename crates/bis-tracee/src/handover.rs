//! Handing a task from one supervisor thread to another.
//!
//! A tracer is a thread, and only the tracer itself can let a task go. In between nobody traces the task, so it
//! must do nothing: it sleeps in pause() inside the agent, with every signal blocked, so that none is delivered
//! while nobody looks (SIGKILL alone gets through, as it must).

use bis_agent::PARK;
use bis_trace::types::{Registers, Tid};

use crate::{
    error::{Result, TraceeError},
    sys,
    task::{self, Resume, Running, Status, Stopped},
};

/// A task that no thread traces. Send it to its next supervisor, who calls [`Parked::seize`].
#[derive(Debug)]
pub struct Parked {
    tid: Tid,
    regs: Registers,
    sigmask: u64,
}

impl Parked {
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The registers that the task will go on with.
    pub fn regs(&self) -> &Registers {
        &self.regs
    }

    /// Parks a task that is stopped outside of any system call (a new task's first stop, a call's exit).
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed meanwhile.
    pub fn park(mut stopped: Stopped) -> Result<Parked> {
        let regs = Registers { orig_rax: u64::MAX, ..stopped.regs()? };
        let sigmask = stopped.sigmask()?;
        stopped.set_sigmask(u64::MAX)?;
        stopped.set_regs(&Registers { rip: PARK, ..regs })?;
        let tid = stopped.detach()?;
        Ok(Parked { tid, regs, sigmask })
    }

    /// Takes the task over: the calling thread is its supervisor from now on, and its registers and signal mask
    /// are as they were. True beside it: its process has been stopped meanwhile (SIGSTOP), and who lets it go on must
    /// ask it first ([`Stopped::ask`]).
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed while it was parked; its end is then reported to its parent
    /// only.
    pub fn seize(self) -> Result<(Stopped, bool)> {
        let tid = self.tid;
        match sys::seize(tid) {
            // What the kernel says of a task that was killed and is not reaped yet.
            Err(TraceeError::Os { .. }) if !task::is_alive(tid) => return Err(TraceeError::Died(tid)),
            seized => seized?,
        }
        sys::interrupt(tid)?;
        let mut running = Running::new(tid);
        let mut held_back = None;
        let is_halted = loop {
            let status = task::wait_for(tid)?;
            match status {
                Status::Exited(_) | Status::Killed(_) | Status::Exit(_) => {
                    task::put_back(tid, status);
                    return Err(TraceeError::Died(tid));
                }
                Status::Trap => break false,
                Status::GroupStop(_) => break true,
                // All others are blocked. It is given to the task when that is itself again.
                Status::Signal(signal) => {
                    held_back = Some(signal);
                    running = running.stopped().resume(Resume::Cont, None)?;
                }
                _ => running = running.stopped().resume(Resume::Cont, None)?,
            }
        };
        let mut stopped = running.stopped();
        stopped.set_regs(&self.regs)?;
        stopped.set_sigmask(self.sigmask)?;
        if let Some(signal) = held_back {
            sys::kill(tid, signal)?;
        }
        Ok((stopped, is_halted))
    }
}
