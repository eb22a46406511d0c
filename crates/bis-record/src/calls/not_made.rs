//! A call that the kernel never sees.

use bis_syscalls::{How, row};
use bis_trace::{
    event::Outcome,
    types::{Registers, Tid},
};

use crate::{domain::Domain, error::Result, task::InCall};

impl Domain {
    /// Ends a call that the kernel never sees.
    pub fn not_made(&mut self, tid: Tid, mut call: InCall, result: i64) -> Result<()> {
        let (nr, entry) = call.entry.told();
        let rax = call.entry.result(result);
        // What the processor's syscall instruction does to rcx and r11 has been done at the entry.
        let regs = Registers { rax, orig_rax: u64::MAX, ..entry };
        let mut outcome = Outcome { regs, ..Outcome::default() };
        call.found.take().add_to(&mut outcome);
        if call.entry.is_thunk() {
            // What was written to the room is laid out as the program expects it.
            outcome.regs.rax = result.cast_unsigned();
            self.leave_narrow(tid, &mut call, result, &mut outcome)?;
            outcome.regs.orig_rax = u64::MAX;
        }
        // Where each process makes it, as it begins (rseq), each would stop for it.
        if row(nr).is_some_and(|row| matches!(row.how, How::Refused(_))) {
            self.learn_site(tid, nr, entry.ip(), &mut outcome)?;
        }
        outcome.regs = self.sent_elsewhere(tid, &outcome.regs)?;
        self.task(tid)?.for_tracer.end_call();
        outcome.regs.rip = self.space.patched_rip(outcome.regs.ip()).0;
        self.stopped(tid)?.set_regs(&outcome.regs)?;
        if self.session.traced.is_used() {
            self.note_end_of_call(tid, &call);
        }
        self.take_mail(&mut outcome)?;
        let (kind, sums) = call.event(outcome);
        self.event_with(tid, kind, sums)?;
        self.return_borrowed()?;
        self.task(tid)?.standing.go_on();
        Ok(())
    }
}
