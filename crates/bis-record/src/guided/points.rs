//! The guide's points in a task that goes on.

use std::collections::BTreeMap;

use bis_trace::types::{Addr, Signal, Tid};
use bis_tracee::{
    Memory, Stopped,
    debug::{self, Access, DebugRegisters, Triggered, Watch},
};

use super::{Armed, Guided, Point};
use crate::{domain::Domain, error::Result, events::Recorder, guide::Watched, task::Handle};

const INT3: u8 = 0xcc;

impl Watched {
    fn register(&self) -> Watch {
        let access = if self.reads { Access::Any } else { Access::Write };
        Watch { addr: self.addr, len: self.len, access }
    }
}

impl Guided {
    /// The guide's breakpoints are put into memory. Where nothing is mapped, or the program itself has one,
    /// none is.
    fn put_in(&self, memory: &Memory) -> BTreeMap<Addr, u8> {
        let mut bytes = BTreeMap::new();
        for addr in self.points.breakpoints.iter().copied() {
            if let Some(byte) = memory.read_upto(addr, 1).first().filter(|byte| **byte != INT3)
                && memory.write(addr, &[INT3]).is_ok()
            {
                bytes.insert(addr, *byte);
            }
        }
        bytes
    }

    fn arm(&mut self, stopped: &Stopped, memory: &Memory) -> Result<()> {
        if self.has_no_points() {
            return Ok(());
        }
        let mut registers = DebugRegisters::default();
        if !self.points.watches.is_empty() {
            let mut wanted = [None; debug::COUNT];
            for (place, watch) in wanted.iter_mut().zip(&self.points.watches) {
                *place = Some(watch.register());
            }
            registers.write(stopped, &wanted)?;
        }
        let (tid, mask, bytes) = (stopped.tid(), stopped.sigmask()?, self.put_in(memory));
        self.armed = Some(Armed { tid, bytes, registers, triggered: Triggered::default(), mask });
        Ok(())
    }

    /// The task has reported: its points are taken out.
    fn disarm(&mut self, tid: Tid, memory: &Memory, stopped: Option<&Stopped>) {
        let Some(mut armed) = self.armed.take_if(|armed| armed.tid == tid) else { return };
        for (addr, byte) in &armed.bytes {
            // The program may have mapped or written something else.
            if memory.read_upto(*addr, 1).first() == Some(&INT3) {
                let _ = memory.write(*addr, &[*byte]);
            }
        }
        // A task that ends needs neither.
        if let Some(stopped) = stopped {
            armed.triggered = armed.registers.take_triggered(stopped).unwrap_or_default();
            let _ = armed.registers.write(stopped, &[None; debug::COUNT]);
        }
        self.was_armed = Some(armed);
    }
}

impl Domain {
    /// Does the guide want the program to stop?
    pub fn is_wanted_by_guide(&self) -> bool {
        self.guided.as_ref().is_some_and(Guided::is_asked)
    }
}

impl Recorder<'_> {
    /// A task is about to execute the program: the guide's points are put in.
    pub fn arm(&mut self, tid: Tid) -> Result<()> {
        let Some(guided) = &mut self.guided else { return Ok(()) };
        guided.was_armed = None;
        if let Some(task) = self.process.crew.tasks.get(&tid)
            && let Handle::Stopped(stopped) = &task.handle
        {
            guided.arm(stopped, &self.process.crew.memory)?;
        }
        Ok(())
    }

    /// A task has reported.
    pub fn take_points_out(&mut self, tid: Tid) {
        if let Some(guided) = &mut self.guided {
            let crew = &self.process.crew;
            let stopped = crew.tasks.get(&tid).and_then(|task| match &task.handle {
                Handle::Stopped(stopped) => Some(stopped),
                _ => None,
            });
            guided.disarm(tid, &crew.memory, stopped);
        }
    }

    /// The task has got SIGTRAP. True: because it has come to a breakpoint of the guide's, to which it is set
    /// back, or has touched what is watched. Both are told once.
    pub(super) fn take_point(&mut self, tid: Tid, is_breakpoint: bool) -> Result<bool> {
        let mut regs = self.stopped(tid)?.regs()?;
        let Some(armed) = self.guided.as_mut().and_then(|guided| guided.was_armed.take()) else {
            return Ok(false);
        };
        match armed.point(tid, regs.rip, is_breakpoint) {
            None => Ok(false),
            Some(Point::Watch) => Ok(true),
            Some(Point::Breakpoint(addr)) => {
                regs.rip = addr;
                let stopped = self.stopped(tid)?;
                stopped.set_regs(&regs)?;
                if armed.mask & 1 << (Signal::TRAP.0 - 1) != 0 {
                    stopped.set_sigmask(armed.mask)?;
                }
                Ok(true)
            }
        }
    }
}
