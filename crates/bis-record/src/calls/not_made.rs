//! A call that the kernel never sees.

use bis_trace::{
    event::{EventKind, Outcome},
    types::{Registers, Tid},
};

use crate::{domain::Domain, error::Result, task::InCall};

impl Domain {
    /// Ends a call that the kernel never sees.
    pub fn not_made(&mut self, tid: Tid, call: InCall, result: i64) -> Result<()> {
        // What the processor's syscall instruction does to rcx and r11 has been done at the entry.
        let regs = Registers { rax: result.cast_unsigned(), orig_rax: u64::MAX, ..call.entry };
        self.stopped(tid)?.set_regs(&regs)?;
        if self.session.traced.is_used() {
            self.call_is_over(tid, &call);
        }
        let InCall { writes, effects, ours, .. } = call;
        let mut outcome = Outcome { regs, writes, effects, ours, ..Outcome::default() };
        self.take_mail(&mut outcome)?;
        let (nr, entry, outcome) = (call.nr, call.entry, Box::new(outcome));
        let kind = if call.entered {
            EventKind::SyscallExit { nr, outcome }
        } else {
            EventKind::Syscall { nr, entry, outcome }
        };
        self.event_with(tid, kind, call.sums)?;
        self.return_borrowed()?;
        self.task(tid)?.standing.go_on();
        Ok(())
    }
}
