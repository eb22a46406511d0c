//! Steps of a stopped task before its place is written down, or instead: out of an instruction or a
//! trampoline in which it can have no place, or around a loop to see whether it turns. What would keep the
//! trap flag of a step goes by a breakpoint.

use bis_trace::types::{Addr, Signal, Tid};
use bis_tracee::{Resume, Status, place, siginfo::SigInfo, ticks};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

use crate::{domain::Domain, error::Result};

/// How many instructions a loop has, at most, in which a task is seen to wait.
const SPIN_MAX: usize = 40;

/// What came of a single step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The task stands behind the instruction, in its program.
    Done,
    /// It stands at a system call or in a hook, and goes on from there; or something else has happened, which
    /// is its report.
    Elsewhere,
}

impl Domain {
    /// A string instruction with a repeat prefix can be interrupted between two of its rounds, but a
    /// breakpoint stops in front of the first one only: that is no place that replay could find. Lets the
    /// task come to its end. False: something else has come first.
    pub fn leave_repetition(&mut self, tid: Tid) -> Result<bool> {
        loop {
            let rip = self.stopped(tid)?.regs()?.rip;
            let code = self.memory.read_upto(Addr(rip), 15);
            let it = Decoder::with_ip(self.space.bits(), &code, rip, DecoderOptions::NONE).decode();
            if !it.is_string_instruction() || !(it.has_rep_prefix() || it.has_repne_prefix()) {
                return Ok(true);
            }
            self.hush_for_steps(tid)?;
            let is_behind = self.run_behind(tid, &it);
            self.unhush(tid)?;
            if !is_behind? {
                return Ok(false);
            }
        }
    }

    /// Lets the task execute the instruction that it stands at, to its end, by a breakpoint behind it. False:
    /// something else has come first, which is its report.
    fn run_behind(&mut self, tid: Tid, it: &Instruction) -> Result<bool> {
        self.run_to(tid, Addr(it.next_ip()))
    }

    /// Lets the task, which will not wait on its way, go on to this address. False: something else has come
    /// first, which is its report.
    pub fn step_to(&mut self, tid: Tid, to: Addr) -> Result<bool> {
        self.hush_for_steps(tid)?;
        let is_there = self.run_to(tid, to);
        self.unhush(tid)?;
        is_there
    }

    fn run_to(&mut self, tid: Tid, to: Addr) -> Result<bool> {
        self.task(tid)?.steps.interrupt();
        loop {
            place::set_breakpoint(self.stopped(tid)?, to)?;
            self.resume(tid, Resume::Cont)?;
            self.wait_for_report(tid)?;
            let report = self.task(tid)?.report.status();
            // One that executes a program has ended it, of which the kernel says nothing.
            if matches!(report, None | Some(Status::Exited(_) | Status::Killed(_))) {
                return Ok(false);
            }
            place::clear_breakpoint(tid)?;
            let is_behind = report == Some(Status::Signal(Signal::TRAP))
                && SigInfo(self.stopped(tid)?.siginfo()?).is_debug_exception();
            // The watch thread kicks on.
            if !is_behind && report != Some(Status::Trap) {
                return Ok(false);
            }
            self.task(tid)?.report.be_done();
            if is_behind {
                return Ok(true);
            }
        }
    }

    /// Steps the task, to see whether it does nothing but look whether something has changed. True: single
    /// steps have brought it back to exactly the registers that it had.
    pub fn step_to_same_state(&mut self, tid: Tid) -> Result<bool> {
        let first = self.stopped(tid)?.regs()?;
        let extended = place::extended(&self.stopped(tid)?.xstate()?);
        for _ in 0..SPIN_MAX {
            match self.step(tid)? {
                Step::Done if self.stopped(tid)?.regs()? == first => {
                    return Ok(place::extended(&self.stopped(tid)?.xstate()?) == extended);
                }
                Step::Done => {}
                Step::Elsewhere => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Lets the task execute one instruction of its own.
    ///
    /// An instruction that stores the flags would store the trap flag of the step with them; it is left to a
    /// breakpoint behind it. So is `popf`: after a step over it, the kernel takes the trap flag of the next
    /// for the program's own. So it does after `iret`, and there that flag is taken out: a breakpoint where
    /// it goes to would be passed, if the flags that it loads say so. A system call would store the trap flag
    /// in r11: it is not made here.
    pub fn step(&mut self, tid: Tid) -> Result<Step> {
        self.hush_for_steps(tid)?;
        let step = self.step_hushed(tid);
        self.unhush(tid)?;
        step
    }

    /// As [`Domain::step`], for a task that is hushed for steps.
    pub fn step_hushed(&mut self, tid: Tid) -> Result<Step> {
        self.task(tid)?.steps.interrupt();
        let begin = self.stopped(tid)?.regs()?;
        let code = self.memory.read_upto(begin.ip(), 15);
        let it = Decoder::with_ip(self.space.bits(), &code, begin.rip, DecoderOptions::NONE).decode();
        let is_done = match it.mnemonic() {
            Mnemonic::Syscall => {
                let task = self.task(tid)?;
                task.standing.go_on_midway();
                return Ok(Step::Elsewhere);
            }
            Mnemonic::Pushf
            | Mnemonic::Pushfd
            | Mnemonic::Pushfq
            | Mnemonic::Popf
            | Mnemonic::Popfd
            | Mnemonic::Popfq => self.run_behind(tid, &it)?,
            _ => {
                let has_flag = ticks::has_trap_flag(&begin, &code, &self.memory);
                // The watch thread may have asked for a stop. It comes before the step is made, or before its
                // trap is told of; that comes then, without another step.
                loop {
                    self.resume(tid, Resume::Step)?;
                    self.wait_for_report(tid)?;
                    if self.task(tid)?.report.status() != Some(Status::Trap) {
                        break;
                    }
                    self.task(tid)?.report.be_done();
                }
                if let None | Some(Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) =
                    self.task(tid)?.report.status()
                {
                    return Ok(Step::Elsewhere);
                }
                if !has_flag {
                    ticks::take_trap_flag(self.stopped(tid)?)?;
                }
                let is_done = self.task(tid)?.report.status() == Some(Status::Signal(Signal::TRAP))
                    && SigInfo(self.stopped(tid)?.siginfo()?).is_debug_exception();
                if is_done {
                    self.task(tid)?.report.be_done();
                }
                is_done
            }
        };
        if !is_done {
            return Ok(Step::Elsewhere);
        }
        let regs = self.stopped(tid)?.regs()?;
        if self.space.is_in_hooks(regs.ip()) {
            let task = self.task(tid)?;
            task.standing.go_on_in_hook();
            return Ok(Step::Elsewhere);
        }
        Ok(Step::Done)
    }

    /// Lets a task that stands in a trampoline of dense text come out of it. False: something else has come
    /// first.
    ///
    /// In the middle of a count, a register of the program's may be kept where another task's would be, too.
    /// And a program may jump to the address in a handler's frame: it must find the program there, not the
    /// middle of a jump.
    pub fn leave_trampoline(&mut self, tid: Tid) -> Result<bool> {
        /// About as many instructions as the longest trampoline has. A loop may never leave it: then its
        /// place is there, but not in a count; and a timer must not come before the steps are made.
        const STEPS: usize = 16;
        for _ in 0..STEPS {
            let rip = self.stopped(tid)?.regs()?.ip();
            if self.space.dense_place(rip).is_none() {
                break;
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The task is not waited for any more: no trap may come between it and what happens next. Afterwards it
    /// may have a report.
    pub fn disarm(&mut self, tid: Tid) -> Result<()> {
        if !self.task(tid)?.with_chaos.disarm() {
            return Ok(());
        }
        place::clear_breakpoint(tid)?;
        // It may have been stopped for something else in the moment when it came there: the trap is on its
        // way.
        while self.stopped(tid)?.pending()?.iter().any(|info| SigInfo(*info).is_debug_exception()) {
            let was_midway = self.task(tid)?.standing.is_midway();
            self.resume(tid, Resume::Cont)?;
            self.wait_for_report(tid)?;
            let is_trap = match self.task(tid)?.report.status() {
                Some(Status::Signal(Signal::TRAP)) => {
                    SigInfo(self.stopped(tid)?.siginfo()?).is_debug_exception()
                }
                // The watch thread wants it to stop.
                Some(Status::Trap) => true,
                _ => false,
            };
            let task = self.task(tid)?;
            task.standing.set_midway(was_midway);
            if !is_trap {
                return Ok(());
            }
            task.report.be_done();
            task.standing.go_on();
        }
        Ok(())
    }
}
