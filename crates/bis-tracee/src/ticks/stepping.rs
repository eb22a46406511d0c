//! The source that single-steps: it sees each instruction before it is executed, and counts conditional
//! branches. Exact, and slow (about 25 µs an instruction): for tests. What it counts is what the hardware
//! source counts, so it stands for that where the processor has no counters, its skid included.
//!
//! It never stops a task where it is asked to, but a few branches later, by turns between none and
//! [`SKID_MAX`]: that is what a counter's interrupt does, and the logic that deals with it should meet all of
//! it.
//!
//! Some instructions are not stepped, because they would see the flag by which the processor is told to. For
//! `pushf` and `popf` a breakpoint behind them does, in a debug register that nobody else uses. `syscall`
//! leaves the flags in r11, and may change the mask of signals; the program's own stop at its entry by
//! themselves, that of the hooks at entry and exit.
//! Behind `iret`, which loads flags, too, the flag of the steps is taken out ([`has_trap_flag`]): what it
//! loads may say that a breakpoint at its end is passed.
//!
//! A step's trap is a SIGTRAP, and the kernel takes its handler away from a program that blocks it. So it is
//! unblocked for as long as the task runs. (The mask is the task's again whenever anybody else looks at it.)

use bis_agent::hooks;
use bis_trace::types::{Addr, Signal};

use super::{
    Stop, TickSource, has_trap_flag,
    instruction::{Class, LEN_MAX, class},
    take_trap_flag,
};
use crate::{
    error::Result,
    memory::Memory,
    place,
    siginfo::SigInfo,
    task::{Resume, Status, Stopped},
};

/// More conditional branches than one is ever stopped too late.
pub const SKID_MAX: u64 = 100;

const TRAP: u64 = 1 << (Signal::TRAP.0 - 1);

#[derive(Clone, Debug, Default)]
pub struct Stepping {
    count: u64,
    /// The task is to be stopped when it has so many; the skid is a part of it.
    stop_at: Option<u64>,
    /// How many stops were asked for: what the skid is drawn from.
    asked: u64,
    step: Step,
    /// The task was interrupted when its step was made and not told of.
    interrupted: bool,
    /// SIGTRAP is blocked in the program, and unblocked for the step.
    masked: bool,
}

/// What the task was resumed to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    /// Nothing that is not told of by itself.
    #[default]
    None,
    /// One instruction, which is a conditional branch or not.
    One {
        is_branch: bool,
        rip: Addr,
        /// The trap flag is the program's own afterwards, if it is set.
        has_flag: bool,
    },
    /// As far as the breakpoint behind an instruction.
    Behind {
        end: Addr,
    },
    /// The hooks' system call, to its entry; then to its exit.
    Entry,
    Exit,
    /// Nothing: the trap of the last step is on its way.
    Told,
}

impl Stepping {
    /// The task has executed what it was resumed for.
    fn done(&mut self) {
        if let Step::One { is_branch: true, rip, .. } = self.step {
            self.count += 1;
            // Two logs side by side tell where two runs part.
            tracing::trace!(count = self.count, rip = format_args!("{rip:#x}"), "branch");
        }
        self.step = Step::None;
    }

    fn clear_behind(&self, stopped: &Stopped) -> Result<()> {
        if matches!(self.step, Step::Behind { .. }) { place::clear_behind(stopped.tid()) } else { Ok(()) }
    }

    /// What others see of the task is what the program has.
    fn restore(&mut self, stopped: &Stopped) -> Result<()> {
        self.clear_behind(stopped)?;
        if std::mem::take(&mut self.masked) {
            set_trap_mask(stopped, TRAP)?;
        }
        Ok(())
    }
}

fn set_trap_mask(stopped: &Stopped, blocked: u64) -> Result<()> {
    let mask = stopped.sigmask()?;
    crate::sys::set_sigmask(stopped.tid(), mask & !TRAP | blocked)
}

impl TickSource for Stepping {
    fn skid(&self) -> u64 {
        SKID_MAX
    }

    fn begin(&mut self, _memory: &Memory) -> Result<()> {
        (self.count, self.stop_at) = (0, None);
        Ok(())
    }

    fn count(&mut self, _memory: &Memory) -> Result<u64> {
        Ok(self.count)
    }

    fn stop_at(&mut self, _stopped: &Stopped, _memory: &Memory, count: Option<u64>) -> Result<()> {
        let Some(count) = count else {
            self.stop_at = None;
            return Ok(());
        };
        // As spread as numbers are that are multiplied by the golden ratio; the same in every run.
        self.asked += 1;
        let skid = (self.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (SKID_MAX + 1);
        self.stop_at = Some(count + skid);
        Ok(())
    }

    fn stop_soon(&mut self, _stopped: &Stopped, _memory: &Memory) -> Result<Option<u64>> {
        Ok(None)
    }

    fn duplicate(&self) -> Option<Box<dyn TickSource>> {
        Some(Box::new(self.clone()))
    }

    fn resume(&mut self, stopped: &Stopped, memory: &Memory) -> Result<Resume> {
        if self.step == Step::Told {
            return Ok(Resume::Cont);
        }
        let regs = stopped.regs()?;
        let rip = regs.ip();
        let code = memory.read_upto(rip, LEN_MAX);
        let (class, len) = class(&code);
        if self.step == Step::Exit {
            return Ok(Resume::Syscall);
        }
        if class != Class::Call && stopped.sigmask()? & TRAP != 0 {
            set_trap_mask(stopped, 0)?;
            self.masked = true;
        }
        self.step = match class {
            Class::Call if rip.0 == hooks::SYSCALL => Step::Entry,
            // It stops by itself, at the entry of the call.
            Class::Call => Step::None,
            Class::Flags => {
                place::set_behind(stopped, rip + len)?;
                Step::Behind { end: rip + len }
            }
            Class::Branch | Class::Other => Step::One {
                is_branch: class == Class::Branch,
                rip,
                has_flag: has_trap_flag(&regs, &code, memory),
            },
        };
        Ok(match self.step {
            Step::One { .. } => Resume::Step,
            Step::Entry => Resume::Syscall,
            _ => Resume::Cont,
        })
    }

    fn stopped(&mut self, stopped: &mut Stopped, _memory: &Memory, status: Status) -> Result<Stop> {
        if status == Status::Syscall && matches!(self.step, Step::Entry | Step::Exit) {
            self.step = if self.step == Step::Entry { Step::Exit } else { Step::None };
            return Ok(Stop::Inside);
        }
        if matches!(self.step, Step::One { has_flag: false, .. }) {
            take_trap_flag(stopped)?;
        }
        let info = match status {
            Status::Signal(Signal::TRAP) => Some(SigInfo(stopped.siginfo()?)),
            _ => None,
        };
        if let Some(info) = info.filter(SigInfo::is_debug_exception) {
            self.restore(stopped)?;
            let is_done = match self.step {
                Step::One { rip, .. } => info.code() == libc::TRAP_TRACE || stopped.regs()?.ip() != rip,
                Step::Behind { end } => stopped.regs()?.ip() == end,
                Step::Told => true,
                Step::None | Step::Entry | Step::Exit => false,
            };
            if !is_done {
                // Nothing was executed: somebody's breakpoint has come before the instruction; or the kernel
                // tells of the end of a system call that was skipped, as of a step.
                let is_step = matches!(self.step, Step::One { .. });
                self.step = Step::None;
                let is_breakpoint = place::take_trigger(stopped)?;
                return Ok(if is_step && !is_breakpoint { Stop::Inside } else { Stop::Foreign });
            }
            let is_behind = matches!(self.step, Step::Behind { .. });
            self.done();
            if is_behind && place::take_trigger(stopped)? {
                // Somebody's breakpoint is at the same place.
                return Ok(Stop::Foreign);
            }
            if std::mem::take(&mut self.interrupted) {
                return Ok(Stop::Interrupted);
            }
            if self.stop_at.is_some_and(|at| self.count >= at) {
                self.stop_at = None;
                return Ok(Stop::Tick);
            }
            return Ok(Stop::Inside);
        }
        let is_on_its_way = || -> Result<bool> {
            Ok(stopped.pending()?.iter().any(|info| SigInfo(*info).is_debug_exception()))
        };
        if status == Status::Trap
            && matches!(self.step, Step::One { .. } | Step::Behind { .. } | Step::Told)
            && is_on_its_way()?
        {
            // Without this, the trap would come between whatever is done with the task and what it does then.
            // It must not be blocked before.
            self.clear_behind(stopped)?;
            // Where the machine is busy, it is interrupted once more before it comes to the trap.
            if self.step != Step::Told {
                self.done();
            }
            (self.step, self.interrupted) = (Step::Told, true);
            return Ok(Stop::Inside);
        }
        self.restore(stopped)?;
        self.step = Step::None;
        Ok(Stop::Foreign)
    }
}
