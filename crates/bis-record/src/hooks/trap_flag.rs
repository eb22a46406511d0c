//! A program that single-steps itself: it has set the trap flag, and handles SIGTRAP. Its step over an
//! instruction that has given way to a jump ends behind the jump, in the trampoline, and its handler leads it
//! back in front of the jump, as it would for any place in there: it would never come further.
//!
//! So the program's own instructions are put back where it comes to such a jump, and it makes its step again.
//! Their calls are traced from then on. In text that counts (a process with several threads), nothing of this
//! is looked after: a step over such a jump is many, or never ends.

use bis_trace::{
    event::{EventKind, Outcome, SignalEvent, SignalPoint},
    types::{Registers, Signal, Tid},
};
use bis_tracee::siginfo::SigInfo;

use crate::{domain::Domain, error::Result};

impl Domain {
    /// The task has trapped for the flag that the program itself has set. True: a jump of ours has led it
    /// into a trampoline; it is in front of its own instruction again, and no handler hears of this step.
    pub fn step_out_of_trampoline(&mut self, tid: Tid, info: &SigInfo, before: &Registers) -> Result<bool> {
        if info.signal() != Signal::TRAP || info.code() != libc::TRAP_TRACE {
            return Ok(false);
        }
        let Some((start, end)) = self.space.patches().begun_at(before.ip()) else { return Ok(false) };
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        let mut outcome = Outcome { regs: self.own_registers(before), ..Outcome::default() };
        self.unpatch(start, end, &mut outcome)?;
        self.stopped(tid)?.set_regs(&outcome.regs)?;
        let event = SignalEvent {
            signal: Signal::TRAP,
            siginfo: info.0.to_vec(),
            point: SignalPoint::Fault,
            before: *before,
            handler: Some(outcome),
        };
        self.recorder().event_with(tid, EventKind::Signal(Box::new(event)), sums)?;
        self.task(tid)?.standing.describe();
        self.task(tid)?.standing.go_on();
        Ok(true)
    }
}
