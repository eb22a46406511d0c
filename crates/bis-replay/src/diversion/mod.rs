//! A diversion: a copy of a replica that runs what was never recorded, a function that the user of a debugger
//! calls, say. It is thrown away afterwards, and the replica that it is a copy of knows nothing of it.
//!
//! The copy has the program's own text: the jumps to the hooks would lead to a log that says nothing of these
//! calls, and counts would trap. (The functions of the vdso stay what they are in every recorded process,
//! system calls.) One task runs, the one in which the function is called; the others stand still. Every
//! system call stops at us, as in any replayed process, and is answered by a stand-in for the kernel
//! ([`kernel`]): some are made in the copy, some answered, the rest does not exist. So a diversion can do as
//! little to this machine as a replay can.

mod kernel;

use std::ops::Range;

use bis_trace::types::{Addr, PAGE, Registers, Signal, StandardStream, Tid};
use bis_tracee::{TraceeError, cpu, features::Level, maps, remote::Remote, siginfo::SigInfo};

use crate::{
    company::Company,
    error::Halt,
    replica::Replica,
    task::{Found, Interrupt, Run},
    traps::Traps,
};
use kernel::{Answer, Kernel};

fn bits(flags: i32) -> u64 {
    flags.cast_unsigned().into()
}

/// si_code of a fault that has no address: the instruction is not allowed.
const GENERAL_PROTECTION: i32 = libc::SI_KERNEL;

/// See the module's text. Its process ends when it is dropped.
#[derive(Debug)]
pub struct Diversion<'t> {
    replica: Replica<'t>,
    kernel: Kernel,
    /// The files of its shared memory, which nobody else maps, are in it.
    _company: Company<'t>,
}

/// Why a task of a diversion has stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Paused {
    /// It is about to execute the instruction at a breakpoint.
    Point(Addr),
    /// It has touched watched bytes: the numbers of those in [`Replica::set_watches`].
    Watched(Vec<usize>),
    Stepped,
    /// It is about to get a signal, which its instruction has raised, or a call.
    Signal(SigInfo),
    Interrupted,
    /// It cannot go on. What it wants to do, for people: "it ...".
    Over(String),
}

/// What is heard of a diversion while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It has written this.
    Output(StandardStream, Vec<u8>),
    /// It has asked for a system call that it cannot have. Told once for each.
    Refused(u64),
}

/// How a task is let go on.
#[derive(Clone, Copy, Debug)]
pub struct Going<'a> {
    pub tid: Tid,
    /// For one instruction.
    pub step: bool,
    /// A breakpoint where it stands does not stop it.
    pub past: bool,
    pub interrupt: &'a Interrupt,
}

impl<'t> Replica<'t> {
    /// Makes a diversion of this replica, whose company this is. It is a copy, which nobody needs for
    /// anything else.
    ///
    /// # Errors
    /// Where the process is gone, or the program's own text cannot be had.
    pub fn divert(mut self, company: Company<'t>) -> Result<Diversion<'t>, Halt> {
        self.end_counts()?;
        self.traps.disarm(&self.space.memory)?;
        self.traps = Traps::default();
        let tids: Vec<Tid> = self.tasks().collect();
        for tid in tids {
            let registers = self.registers(tid)?;
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.leave_events();
                task.set_regs(&registers)?;
            }
        }
        self.put_text_back()?;
        let kernel = Kernel::new(&self);
        Ok(Diversion { replica: self, kernel, _company: company })
    }

    /// The program's own text is in memory again.
    fn put_text_back(&mut self) -> Result<(), Halt> {
        let Some(text) = self.space.text.take() else { return Ok(()) };
        for (addr, bytes) in text.originals()? {
            self.space.memory.write(addr, &bytes)?;
        }
        let task = self.tasks.values_mut().find(|task| task.stopped.is_some());
        let task = task.ok_or(TraceeError::Died(self.process.pid()))?;
        let mut remote = Remote::new(&mut task.stopped)?;
        for (page, prot) in text.guards() {
            let args = [page.0, PAGE, prot.into(), 0, 0, 0];
            remote.must("let text be executed", libc::SYS_mprotect, args)?;
        }
        remote.finish()?;
        self.space.text = Some(text.put_back());
        Ok(())
    }
}

impl<'t> Diversion<'t> {
    /// The copy, to be looked at.
    pub fn replica(&self) -> &Replica<'t> {
        &self.replica
    }

    /// The copy, for breakpoints and watches to be set.
    pub fn replica_mut(&mut self) -> &mut Replica<'t> {
        &mut self.replica
    }

    /// Sets a task's registers, and its extended state if that is to be another.
    ///
    /// # Errors
    /// Where there is no such task, or the processor does not take these values.
    pub fn set_registers(
        &mut self,
        tid: Tid,
        registers: &Registers,
        extended: Option<&[u8]>,
    ) -> Result<(), Halt> {
        let task = self.replica.tasks.get_mut(&tid).ok_or(TraceeError::Died(tid))?;
        task.set_regs(registers)?;
        if let (Some(extended), Some(stopped)) = (extended, task.stopped.as_mut()) {
            stopped.set_xstate(extended)?;
        }
        Ok(())
    }

    /// Writes into the program's memory.
    ///
    /// # Errors
    /// Where nothing is mapped there, or what is there is not the program's.
    pub fn write(&mut self, addr: Addr, bytes: &[u8]) -> Result<(), Halt> {
        self.replica.rest()?;
        self.replica.space.put_own(addr, bytes)
    }

    /// Maps memory of nobody's that can be read, written and executed, at these pages, in place of nothing.
    ///
    /// # Errors
    /// Where something is mapped there.
    pub fn map(&mut self, range: Range<Addr>) -> Result<(), Halt> {
        const PROT: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        self.replica.rest()?;
        let task = self.replica.tasks.values_mut().find(|task| task.stopped.is_some());
        let task = task.ok_or(TraceeError::Died(self.replica.process.pid()))?;
        let mut remote = Remote::new(&mut task.stopped)?;
        let len = range.end.saturating_since(range.start);
        let args = [range.start.0, len, bits(PROT), bits(FLAGS), u64::MAX, 0];
        remote.must("map memory for the debugger", libc::SYS_mmap, args)?;
        remote.finish()?;
        self.replica.traps.areas.forget_mappings();
        Ok(())
    }

    /// Takes that away again.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn unmap(&mut self, range: Range<Addr>) -> Result<(), Halt> {
        self.replica.rest()?;
        let task = self.replica.tasks.values_mut().find(|task| task.stopped.is_some());
        let task = task.ok_or(TraceeError::Died(self.replica.process.pid()))?;
        let mut remote = Remote::new(&mut task.stopped)?;
        let len = range.end.saturating_since(range.start);
        remote.must("take the debugger's memory away", libc::SYS_munmap, [range.start.0, len, 0, 0, 0, 0])?;
        remote.finish()?;
        self.replica.traps.areas.forget_mappings();
        Ok(())
    }

    /// Lets one task go on until something happens.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn run(&mut self, going: &Going<'_>, hear: &mut dyn FnMut(Heard)) -> Result<Paused, Halt> {
        let mut past = going.past;
        loop {
            if going.interrupt.is_asked() {
                return Ok(Paused::Interrupted);
            }
            if let Some(paused) = self.run_once(going, std::mem::take(&mut past), hear)? {
                return Ok(paused);
            }
        }
    }

    /// None: it goes on.
    fn run_once(
        &mut self,
        going: &Going<'_>,
        past: bool,
        hear: &mut dyn FnMut(Heard),
    ) -> Result<Option<Paused>, Halt> {
        let Replica { tasks, traps, space, .. } = &mut self.replica;
        let task = tasks.get_mut(&going.tid).ok_or(TraceeError::Died(going.tid))?;
        let ours = task.ours;
        traps.arm(&space.memory, || maps::read(ours))?;
        let rip = task.regs()?.rip;
        let lifted = (past && traps.program_at(Addr(rip)).is_some()).then_some(rip);
        if let Some(addr) = lifted {
            traps.lift(&space.memory, Addr(addr))?;
        }
        let run = Run {
            interrupt: Some(going.interrupt),
            step: going.step || lifted.is_some(),
            hooks: space.hooks,
        };
        let place = task.run(&space.memory, traps, run)?;
        if let Some(addr) = lifted {
            traps.put_back(&space.memory, Addr(addr));
        }
        let is_within = self.replica.is_within(going.tid);
        Ok(match place.found {
            Found::Call => self.call(going, &place.regs, hear)?,
            Found::Fault(info) => self.fault(going, &place.regs, info)?,
            Found::Point(at) => Some(Paused::Point(self.replica.traps.program_at(at).unwrap_or(at))),
            Found::Watched(triggered) => Some(Paused::Watched(self.replica.traps.take_touched(0, triggered))),
            Found::Stepped => (going.step && !is_within).then_some(Paused::Stepped),
            Found::Interrupted => Some(Paused::Interrupted),
            Found::Dead => Some(Paused::Over("has ended the process".into())),
            Found::Safepoint
            | Found::Breakpoint
            | Found::Tick
            | Found::Seen
            | Found::OtherCall
            | Found::TooManyFaults
            | Found::Guarded(_) => {
                Some(Paused::Over(format!("has come to bis's own code at {:#x}", place.regs.rip)))
            }
        })
    }

    /// The task stands at the entry of a system call.
    fn call(
        &mut self,
        going: &Going<'_>,
        regs: &Registers,
        hear: &mut dyn FnMut(Heard),
    ) -> Result<Option<Paused>, Halt> {
        self.replica.traps.areas.forget_mappings();
        self.replica.traps.forget_all_pages();
        let result = match self.kernel.answer(&mut self.replica, going.tid, regs, hear)? {
            Answer::Result(result) => result,
            Answer::Over(why) => return Ok(Some(Paused::Over(why))),
            Answer::Signal(info) => {
                self.finish_call(going.tid, regs, 0)?;
                return Ok(Some(Paused::Signal(info)));
            }
        };
        self.finish_call(going.tid, regs, result)?;
        Ok(going.step.then_some(Paused::Stepped))
    }

    fn finish_call(&mut self, tid: Tid, regs: &Registers, result: i64) -> Result<(), Halt> {
        let task = self.replica.tasks.get_mut(&tid).ok_or(TraceeError::Died(tid))?;
        Ok(task.set_regs(&Registers { rax: result.cast_unsigned(), ..*regs })?)
    }

    /// An instruction has raised a signal. It may be one that is to be carried out here, or a breakpoint
    /// where nothing can be executed: that is how a called function returns to its caller.
    fn fault(&mut self, going: &Going<'_>, regs: &Registers, info: SigInfo) -> Result<Option<Paused>, Halt> {
        if self.replica.traps.has_point(regs.ip()) && info.addr() == regs.ip() {
            return Ok(Some(Paused::Point(regs.ip())));
        }
        let is_trapped = info.signal() == Signal::SEGV && info.code() == GENERAL_PROTECTION;
        let trapped = is_trapped.then(|| cpu::trapped_instruction(&self.replica.space.memory, regs.ip()));
        let Some((insn, len)) = trapped.flatten() else { return Ok(Some(Paused::Signal(info))) };
        let after = cpu::emulate(insn, len, regs, &[], Level::Native);
        let task = self.replica.tasks.get_mut(&going.tid).ok_or(TraceeError::Died(going.tid))?;
        task.set_regs(&after)?;
        Ok(going.step.then_some(Paused::Stepped))
    }
}
