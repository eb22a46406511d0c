//! What must be as it was recorded, and what is said where it is not.

use bis_trace::types::{Addr, EventSeq, Registers, Signal, Tid};
use bis_tracee::{checksum, maps, siginfo::SigInfo};

use super::Replica;
use crate::{
    divergence::{Divergence, Leave, RegisterDifference, compare},
    error::{Halt, ReplayError},
    scene::{Clues, Scene},
    task::{Found, Place, Task, found_text},
};

/// What a mismatch was, for the report.
pub(crate) struct Mismatch {
    pub expected: String,
    pub found: String,
    pub registers: Vec<RegisterDifference>,
    pub regs: Registers,
    pub fault: Option<(Signal, SigInfo)>,
    pub memory: Option<(Addr, Addr)>,
    pub killed: bool,
}

impl Mismatch {
    pub(crate) fn new(expected: String, found: String, regs: Registers) -> Mismatch {
        Mismatch { expected, found, registers: Vec::new(), regs, fault: None, memory: None, killed: false }
    }
}

/// An event's number and task.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub seq: EventSeq,
    pub tid: Tid,
    /// The counts that the task makes until then.
    pub ticks: Option<u64>,
}

impl Replica<'_> {
    /// Has the task made as many counts since its previous event as when it was recorded?
    pub(crate) fn check_ticks(&self, task: &mut Task, who: Who) -> Result<(), Halt> {
        let Some(wanted) = who.ticks else { return Ok(()) };
        match task.count(&self.space.memory)? {
            Some(count) if count != wanted => {
                let expected = format!("the same after {wanted} counts since its previous event");
                let found = format!("it came after {count}");
                Err(self.diverged(task, who, Mismatch::new(expected, found, task.regs()?)))
            }
            _ => Ok(()),
        }
    }

    /// At an event's place, before its outcome: is the task where it was by its counts, and is memory what it
    /// was, if these were recorded?
    pub(crate) fn check(
        &self,
        task: &mut Task,
        who: Who,
        sums: &[bis_trace::event::RangeSum],
    ) -> Result<(), Halt> {
        self.check_ticks(task, who)?;
        if sums.is_empty() {
            return Ok(());
        }
        let mappings = maps::read(task.ours)?;
        for wanted in sums {
            let (addr, len) = (wanted.addr, wanted.len);
            let sum = if wanted.is_stack { checksum::sum_stack } else { checksum::sum_mapped };
            let found = sum(task.ours, &self.space.memory, &mappings, addr, len)?;
            if found.sum == wanted.sum {
                continue;
            }
            let (start, end) = (wanted.addr, wanted.addr.saturating_add(wanted.len));
            let of = (task.ours, task.regs()?.bits());
            let scene = Scene::new(self.world, &self.space.memory, of);
            let range = format!("memory {start:#x}-{end:#x} ({})", scene.place(start));
            let expected = format!("{range} with checksum {:#018x}", wanted.sum);
            let found = format!("checksum {:#018x}", found.sum);
            let mut mismatch = Mismatch::new(expected, found, task.regs()?);
            mismatch.memory = Some((start, end));
            return Err(self.diverged(task, who, mismatch));
        }
        Ok(())
    }

    pub(crate) fn inconsistent(&self, seq: EventSeq, what: String) -> Halt {
        Halt::Failed(ReplayError::Inconsistent { domain: self.entry.domain, seq, what })
    }

    pub(crate) fn must_equal(
        &self,
        task: &Task,
        who: Who,
        expected: String,
        wanted: &Registers,
        regs: &Registers,
        leave: Leave,
    ) -> Result<(), Halt> {
        let registers = compare(wanted, regs, leave);
        if registers.is_empty() {
            return Ok(());
        }
        let found = if registers.iter().any(|r| r.name == "rip") {
            format!("the same, but at {:#x}", regs.rip)
        } else {
            "the same, with other registers".into()
        };
        Err(self.diverged(task, who, Mismatch { registers, ..Mismatch::new(expected, found, *regs) }))
    }

    /// The task came to stop for another reason than it should.
    pub(crate) fn elsewhere(
        &self,
        task: &Task,
        who: Who,
        expected: String,
        place: &Place,
        wanted: &Registers,
        leave: Leave,
    ) -> Halt {
        let mut mismatch = Mismatch::new(expected, found_text(place), place.regs);
        match &place.found {
            Found::Dead => mismatch.killed = true,
            Found::Fault(info) => mismatch.fault = Some((info.signal(), *info)),
            _ => {}
        }
        if !mismatch.killed {
            mismatch.registers = compare(wanted, &place.regs, leave);
        }
        self.diverged(task, who, mismatch)
    }

    pub(crate) fn diverged(&self, task: &Task, who: Who, mismatch: Mismatch) -> Halt {
        let scene = Scene::new(self.world, &self.space.memory, (task.ours, mismatch.regs.bits()));
        let rip = mismatch.regs.rip;
        let clues = Clues {
            registers: &mismatch.registers,
            fault: mismatch.fault,
            memory: mismatch.memory,
            killed: mismatch.killed,
        };
        let cause = scene.cause(&mismatch.regs, &clues);
        let alive = !mismatch.killed;
        Halt::Failed(ReplayError::Divergence(Box::new(Divergence {
            domain: self.entry.domain,
            pid: self.entry.pid,
            command: self.world.command(self.entry),
            tid: who.tid,
            seq: who.seq,
            // Of the event that is not done.
            position: self.cursor.position + 1,
            expected: mismatch.expected,
            found: mismatch.found,
            registers: mismatch.registers,
            place: if alive { scene.place(Addr(rip)) } else { "unknown".into() },
            code: if alive { scene.code(Addr(rip)) } else { Vec::new() },
            recent: task.recent.iter().map(|(seq, brief)| format!("{seq}  {brief}")).collect(),
            cause,
        })))
    }
}
