//! Signals that stop or end a process.

use bis_trace::{
    event::{EventKind, SignalEvent, SignalPoint},
    types::{Registers, Signal, Tid},
};
use bis_tracee::{
    Resume,
    siginfo::{SigInfo, is_stop},
};

use crate::{domain::Domain, error::Result, task::Onward};

impl Domain {
    pub fn fatal(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<Onward> {
        let before = self.stopped(tid)?.regs()?;
        let event =
            SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler: None };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        self.suffer(tid, info.signal())
    }

    /// The first process of a pid namespace has raised a signal that ends it; but as long as somebody traces
    /// it, the kernel does not let that happen, and would have the instruction raise it again for ever.
    pub fn fatal_for_init(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
        let signal = info.signal();
        let before = self.stopped(tid)?.regs()?;
        let event = SignalEvent { signal, siginfo: info.0.to_vec(), point, before, handler: None };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        if info.is_breakpoint() {
            self.stopped(tid)?.set_regs(&Registers { rip: before.rip - 1, ..before })?;
        }
        self.end_untraced(tid, signal)
    }

    /// The signal stops or ends the task's process. At once: before the task's next turn, another could set a
    /// handler.
    pub fn suffer(&mut self, tid: Tid, signal: Signal) -> Result<Onward> {
        self.task(tid)?.signals.coming.give(signal);
        if is_stop(signal) {
            // Others may learn that it has stopped, and end, before it reports that.
            self.session.about_to_stop(tid);
            let pid = self.task(tid)?.pid;
            self.session.traced.note_stop(pid);
        }
        Ok(Onward::GoesAlone(Resume::Cont))
    }
}
