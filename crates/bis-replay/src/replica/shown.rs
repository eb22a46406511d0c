//! Where the tasks of a replica stand, in terms of the program, and what registers and memory it has there.

use bis_trace::types::{Addr, Registers, Tid};
use bis_tracee::{TraceeError, maps};

use super::Replica;
use crate::{
    ours::{ProgramText, Shown},
    task,
    traps::Traps,
};

impl Replica<'_> {
    /// Is where this task stands the last of the arrivals that were counted?
    pub fn is_counted(&self, tid: Tid) -> bool {
        self.place_of(tid).is_some_and(|place| self.traps.last == Some(place))
    }

    /// Does this task stand where the last event has left it? That is no arrival.
    pub fn is_standing(&self, tid: Tid) -> bool {
        self.place_of(tid).is_some_and(|place| self.traps.standing == Some(place))
    }

    /// Where a task stands, or where the jumps of ours lead at which it does.
    pub(super) fn place_of(&self, tid: Tid) -> Option<(Tid, Addr)> {
        let task = self.tasks.get(&tid)?;
        Some((task.ours, self.led_to(task.regs().ok()?.ip())))
    }

    /// Where a jump of ours leads that is here: to the copy of an instruction of the program, or back from
    /// one. Else the same.
    pub(crate) fn led_to(&self, rip: Addr) -> Addr {
        let Some(text) = &self.space.text else { return rip };
        let mut rip = rip;
        // A jump may lead to another; not in a circle.
        for _ in 0..4 {
            let Some(next) = text.leads_to(rip) else { break };
            rip = next;
        }
        rip
    }

    /// The driver knows where the last event has left its task: a breakpoint there does not stop that task.
    pub fn acknowledge(&mut self) {
        if let Some((ours, rip)) = self.traps.standing
            && let Some(task) = self.tasks.values_mut().find(|task| task.ours == ours)
        {
            task.told = Some(rip);
        }
    }

    /// Does the driver know where this task stands?
    pub fn is_told(&self, tid: Tid) -> bool {
        let place = self.place_of(tid).map(|(_, place)| place);
        self.tasks.get(&tid).is_some_and(|task| task.told.is_some() && task.told == place)
    }

    /// The driver knows where this task has come to: a breakpoint there does not stop it again.
    pub fn acknowledge_arrival(&mut self, tid: Tid) {
        let place = self.place_of(tid).map(|(_, place)| place);
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.told = place;
        }
    }

    /// Is this task within a system call, and in which?
    pub fn in_call(&self, tid: Tid) -> Option<u64> {
        self.tasks.get(&tid).and_then(|task| task.in_call)
    }

    /// What is mapped in the replayed process.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn maps(&self) -> Result<Vec<maps::Mapping>, TraceeError> {
        let tid = self
            .tasks
            .values()
            .find(|task| task.stopped.is_some())
            .map_or(self.process.pid(), |task| task.ours);
        maps::read(tid)
    }

    /// The registers of a task, as the program has them.
    ///
    /// # Errors
    /// Where there is no such task, or it is gone.
    pub fn registers(&self, tid: Tid) -> Result<Registers, TraceeError> {
        let task = self.tasks.get(&tid).ok_or(TraceeError::Died(tid))?;
        let regs = task::shown(&task.regs()?);
        let rip = match self.stands(tid) {
            Shown::Program { addr } | Shown::Within { addr, .. } => addr.0,
            Shown::Hook | Shown::Nowhere => regs.rip,
        };
        // In a copy, no thread is in a call.
        Ok(Registers { orig_rax: task.in_call.unwrap_or(u64::MAX), rip, ..regs })
    }

    /// As much of the program's memory at an address as can be read without a gap, with the program's own
    /// text.
    pub fn read_program(&self, addr: Addr, len: usize) -> Vec<u8> {
        let mut bytes = self.traps.read(&self.space.memory, addr, len);
        let Some(text) = &self.space.text else { return bytes };
        let end = addr.saturating_add(bytes.len() as u64);
        let ours = text.ours().filter(|ours| ours.start < end && addr < ours.end);
        if let Some(own) = ours.map(|ours| ours.start).min() {
            bytes.truncate(usize::try_from(own.saturating_since(addr)).unwrap_or(0));
        }
        if let Err(error) = text.show(addr, &mut bytes) {
            tracing::warn!(%error, "the program's own text cannot be had");
        }
        bytes
    }

    /// What of the memory is bis's own, and what the program believes to be mapped. None: nobody has asked
    /// for it.
    pub fn text(&self) -> Option<&ProgramText> {
        self.space.text.as_ref()
    }

    /// Its x87 and vector registers, in the kernel's non-compacted layout.
    ///
    /// # Errors
    /// As [`Replica::registers`].
    pub fn extended(&self, tid: Tid) -> Result<Vec<u8>, TraceeError> {
        self.tasks.get(&tid).ok_or(TraceeError::Died(tid))?.stopped()?.xstate()
    }

    /// The driver's breakpoints and watches, with their counts.
    pub fn traps(&self) -> &Traps {
        &self.traps
    }

    /// Does this task stand in the middle of what is executed in place of an instruction of the program?
    pub fn is_within(&self, tid: Tid) -> bool {
        matches!(self.stands(tid), Shown::Within { .. } | Shown::Hook)
    }

    /// Where a task stands, in terms of the program.
    pub(super) fn stands(&self, tid: Tid) -> Shown {
        let Some(regs) = self.tasks.get(&tid).and_then(|task| task.regs().ok()) else {
            return Shown::Nowhere;
        };
        let Some(text) = &self.space.text else { return Shown::Program { addr: regs.ip() } };
        text.original_of(&regs, &self.space.hooks, |addr| self.space.memory.read_u64(addr).ok())
    }
}
