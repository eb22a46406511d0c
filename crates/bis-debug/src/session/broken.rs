//! A replica that cannot go on, because it does something else than what was recorded, or because the trace
//! contradicts itself.
//!
//! It stands where that was seen, to be looked at. That place has a position as any other, from which one
//! goes backwards.

use bis_replay::{Ahead, Halt, Limit, ReplayError};
use bis_syscalls::SYSCALL_INSN;
use bis_trace::types::{Addr, Tid};

use super::{
    Report, Session, Trouble, Why,
    place::{Leg, Position},
};

impl Session<'_> {
    /// The live replica cannot go on: the user looks at it where it stands.
    pub(super) fn broken(&mut self, halt: Halt) -> Report {
        let next = self.live.replica.next_event().ok().flatten().map(|event| event.tid);
        let tid = match &halt {
            Halt::Failed(ReplayError::Divergence(divergence)) => divergence.tid,
            // A trace that contradicts itself may name a task that does not exist.
            _ => next.filter(|tid| self.live.replica.tasks().any(|task| task == *tid)).unwrap_or(self.tid),
        };
        // What is found in one domain is found there each time.
        let is_repeatable = matches!(&halt, Halt::Failed(error) if error.domain().is_some());
        let found = if is_repeatable { self.position_of_break(tid) } else { None };
        self.position = found.unwrap_or_else(|| Position::at(self.live.replica.done().0));
        let report = Report { tid, why: Why::Broken(Trouble::Halt(halt).text()) };
        self.live.broken = Some(report.clone());
        report
    }

    /// The last place in front of the live replica that can be gone to: an arrival at the instruction at
    /// which the task stands, or at the system call that it has made. None: it has come to neither since the
    /// last event.
    fn position_of_break(&mut self, tid: Tid) -> Option<Position> {
        let rip = self.live.replica.registers(tid).ok()?.rip;
        let call = rip.wrapping_sub(SYSCALL_INSN.len() as u64);
        let is_call = self.live.replica.read_program(Addr(call), SYSCALL_INSN.len()) == SYSCALL_INSN;
        let base = Position::at(self.live.replica.done().0);
        for addr in [rip].into_iter().chain(is_call.then_some(call)) {
            match self.arrivals_up_to_break(&base, Addr(addr)) {
                Ok(0) => {}
                Ok(n) => return Some(base.then(Leg::Arrive { addr: Addr(addr), n })),
                Err(trouble) => {
                    tracing::info!(trouble = trouble.text(), "the place of a divergence is not found");
                    return None;
                }
            }
        }
        None
    }

    /// How often tasks arrive at an address behind an event, until the replica cannot go on. It is the same
    /// each time.
    fn arrivals_up_to_break(&mut self, base: &Position, addr: Addr) -> Result<u64, Trouble> {
        let mut live = self.travel(base)?;
        live.replica.set_points(&[addr].into())?;
        live.replica.set_watches(&[])?;
        live.replica.count_arrivals(addr, None, Ahead::Event)?;
        loop {
            match self.run_until(&mut live, &Limit::default()) {
                Ok(bis_replay::Stop::Point(..)) => {}
                Err(Trouble::Asked) => return Err(Trouble::Asked),
                // Whatever it is, it goes no further.
                Ok(_) | Err(Trouble::Halt(_)) => return Ok(live.replica.traps().arrivals(addr)),
            }
        }
    }
}
