//! Signals: which take effect where, and how their frames get into the trace.
//!
//! The kernel decides what a signal does and builds the frame; we choose the moment, and it must be one that
//! replay can find again:
//!
//! - A fault comes from the task's own instruction and comes again in replay. (One that was sent, or that the
//!   kernel raises at the end of a call, is a signal like others.)
//! - A signal that interrupts a system call, or is pending when a call returns that can leave one pending
//!   (kill, sigprocmask, ...), takes effect right after that call's event.
//! - A signal for a handler that arrives in the middle of computation is kept back, and is delivered at the
//!   task's next call, before the call is made. Or, if that does not come soon,
//!   where the task is (`pause.rs`).
//! - A signal that ends the process may take effect anywhere: nothing follows. But where another process
//!   sees its memory, it is kept back until an event tells how far the task has come. SIGKILL cannot be: of
//!   that the event is written when the task is on its way out (`places/last.rs`).
//! - One that is ignored changes nothing that replay could see. So does one that stops the process, if that
//!   has one task; if it has several, or shares memory with others, they run in another order from there on,
//!   and it is kept back like one for a handler: until an event tells where the task is, or SIGCONT comes. It
//!   is not sent again, which would take back each SIGCONT that waits: in the signal stop of another signal,
//!   it takes that one's place (`Crew::carry`), and a SIGCONT that comes as late as that makes it none, as it
//!   does natively. Nor is a SIGCONT sent again that was kept back, which would take back each stop that
//!   waits.
//!
//! Which thread takes a signal of its process is in `first.rs`; how a handler is called, in `frames.rs`; what
//! is kept back, in `stash.rs`; how that is delivered later, in `delivery.rs`; which signals wait, and what
//! the kernel would do with them, in `waiting.rs`.

mod answers;
pub mod asked;
mod delivery;
mod fatal;
mod faults;
mod first;
mod frames;
pub mod kept;
pub mod segv;
mod stash;
mod waiting;

pub use answers::{Delivery, Meeting, OnTheWay};

use bis_trace::{
    event::{EventKind, Insn, SignalPoint},
    types::{Addr, Registers, Signal, Tid},
};
use bis_tracee::{
    cpu::{self, Chance},
    ours,
    siginfo::{Disposition, SigInfo},
};

use crate::{
    crew::Crew, domain::Domain, error::Result, events::Recorder, process::Process, task::Onward, traced::Told,
};
use answers::{Answer, Arrival};

/// Has a task not moved between these? The kernel's note of the call that it was in does not matter.
fn is_same_place(before: &Registers, now: &Registers) -> bool {
    Registers { orig_rax: 0, ..*before } == Registers { orig_rax: 0, ..*now }
}

impl Domain {
    /// The task is about to receive a signal.
    pub fn signal_stop(&mut self, tid: Tid, signal: Signal) -> Result<Onward> {
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        let info = self.recorder().as_of_kernel(tid, info)?;
        if info.is_fault() && !self.take_queued(&info) {
            return if self.answer_fault_in_hook(tid)? { Ok(Onward::Stays) } else { self.fault(tid, &info) };
        }
        if signal == Signal::CONT && !self.is_carrier(tid, &info) {
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
        }
        let is_neutral = self.is_neutral_carrier(tid, &info);
        if is_neutral {
            self.task(tid)?.signals.brought.arrive();
        }
        let in_call = self.task(tid)?.call.is_some();
        let place = self.task_ref(tid)?.signals.coming.expected();
        let is_expected = match &place {
            Some(place) => is_same_place(place, &self.stopped(tid)?.regs()?),
            None => false,
        };
        let is_told = in_call || is_expected;
        let is_of_first = !is_neutral && self.hand_to_first(tid, &info)?;
        let is_done = match (is_neutral, is_of_first) {
            (true, _) => !is_told && self.take_neutral_in_hook(tid)?,
            (false, true) => self.ignore_signal_in_hook(tid)?,
            (false, false) => self.keep_signal_in_hook(tid, &info)?,
        };
        if is_done {
            return Ok(Onward::Stays);
        }
        self.task(tid)?.signals.coming.expect_none();
        let real = match is_neutral {
            true => self.take_neutral(tid, is_told)?,
            false => self.recorder().take_carried(tid, &info, is_told)?,
        };
        let info = real.unwrap_or(info);
        let is_overtaken = is_neutral && real.is_none() || self.is_carrier(tid, &info);
        let is_due =
            real.is_some() && self.recorder().disposition(tid, info.signal())? != Disposition::Handler;
        if is_overtaken {
            // It was overtaken; what it was sent for still waits in the stash.
            let task = self.task(tid)?;
            task.signals.brought.arrive();
            task.standing.set_midway(task.call.is_none());
            task.standing.go_on();
            return Ok(Onward::Stays);
        }
        let (is_storm, others_go_on) = (self.is_storm(tid, &info)?, self.others_go_on());
        let is_outlived = self.is_outlived(tid);
        let arrival = Arrival { in_call, is_expected, is_due, is_storm, others_go_on, is_outlived };
        self.task(tid)?.standing.set_midway(arrival.is_midway());
        let told = match is_of_first {
            true => Told::Decided(None),
            false => self.tell_signal_if_traced(tid, &info, place)?,
        };
        let place = place.filter(|_| is_expected);
        match told {
            Told::Holds => Ok(Onward::Stays),
            Told::Decided(None) => self.answer(tid, info, Answer::Ignore, place),
            Told::Decided(Some(given)) if given != info.signal() => {
                self.arrive(tid, info.of_signal(given), arrival, place)
            }
            Told::Decided(Some(_)) | Told::Nobody => self.arrive(tid, info, arrival, place),
        }
    }

    /// The task's tracer hears of a signal, if it has one.
    fn tell_signal_if_traced(&mut self, tid: Tid, info: &SigInfo, place: Option<Registers>) -> Result<Told> {
        match self.session.traced.is_used() {
            true => self.tell_signal(tid, info, place),
            false => Ok(Told::Nobody),
        }
    }

    /// A signal has come to the task, and nobody else has anything to say to that.
    fn arrive(
        &mut self,
        tid: Tid,
        info: SigInfo,
        arrival: Arrival,
        place: Option<Registers>,
    ) -> Result<Onward> {
        let signal = info.signal();
        let disposition = self.recorder().disposition(tid, signal)?;
        let answer = arrival.answer(disposition);
        tracing::debug!(domain = %self.id, %tid, %signal, ?disposition, ?answer, "signal");
        self.answer(tid, info, answer, place)
    }

    /// Does what is to be done about a signal. `place`: it was expected where the task has these registers.
    fn answer(
        &mut self,
        tid: Tid,
        info: SigInfo,
        answer: Answer,
        place: Option<Registers>,
    ) -> Result<Onward> {
        match answer {
            Answer::Stop => return self.suffer(tid, info.signal()),
            Answer::End => return self.fatal(tid, &info, SignalPoint::Anywhere),
            Answer::EndCall => {
                // The call's event is what the task shows now, or has shown.
                if let Some(regs) = self.call(tid)?.wait.take_end() {
                    self.stopped(tid)?.set_regs(&regs)?;
                }
                self.finish_call(tid)?;
                self.deliver(tid, &info, SignalPoint::AfterEvent)?;
            }
            Answer::Deliver => self.deliver(tid, &info, SignalPoint::AfterEvent)?,
            Answer::Keep => {
                self.wait_for_place(tid, info)?;
                if self.task(tid)?.standing.is_ready() {
                    self.hush(tid)?;
                }
            }
            Answer::Ignore => {
                // It is not given to the task: before that goes on, another could set a handler.
                self.task(tid)?.standing.go_on();
                place.map_or(Ok(()), |place| self.expect_signal(tid, &place))?;
            }
            Answer::Later => self.wait_for_place(tid, info)?,
        }
        Ok(Onward::Stays)
    }

    /// Keeps a signal for which there is no place here. Perhaps one has waited long enough: the task stands
    /// here anyway.
    fn wait_for_place(&mut self, tid: Tid, info: SigInfo) -> Result<()> {
        self.keep_back(tid, info)?;
        if !self.pause_if_due(tid)? {
            self.task(tid)?.standing.go_on();
        }
        Ok(())
    }

    /// The task's own instruction raised a signal.
    fn fault(&mut self, tid: Tid, info: &SigInfo) -> Result<Onward> {
        let signal = info.signal();
        let before = self.stopped(tid)?.regs()?;
        // A general protection fault: the kernel says neither code nor address.
        if signal == Signal::SEGV
            && info.code() == libc::SI_KERNEL
            && let Some((insn, len)) = self.trapped_instruction(before.ip())
            && !self.is_forbidden(tid, insn)?
        {
            let chance = self.space.patches().fault_bytes(before.ip()).and_then(Chance::decode);
            let after = match chance {
                Some(chance) => chance.emulate(&before, |core| self.told_core(tid, core)),
                None => {
                    cpu::emulate(insn, len, &before, &self.session.hook_image.cpuid, self.session.options.cpu)
                }
            };
            match insn {
                Insn::Cpuid => self.learn_instruction(before.ip()),
                Insn::Rdtsc | Insn::Rdtscp => self.tell_counter(),
                _ => {}
            }
            self.stopped(tid)?.set_regs(&after)?;
            self.recorder().give_back_segv(tid)?;
            self.task(tid)?.standing.go_on();
            self.note_end_of_instruction(tid);
            self.event(tid, EventKind::Instruction { insn, before, after })?;
            // In a loop of these, a signal that was kept back has no other place. One behind a step of its
            // tracer's comes after that.
            if !self.session.traced.is_stepped(tid) {
                self.deliver_stashed(tid, &after, SignalPoint::AfterEvent)?;
            }
            return Ok(Onward::Stays);
        }
        if signal == Signal::SEGV && self.recorder().unguard(tid, info, &before)? {
            self.recorder().give_back_segv(tid)?;
            return Ok(Onward::Stays);
        }
        if self.step_out_of_trampoline(tid, info, &before)? || self.tell_fault(tid, info, &before)? {
            return Ok(Onward::Stays);
        }
        if self.recorder().kernels_disposition(tid, signal) == Disposition::Handler {
            self.deliver(tid, info, SignalPoint::Fault)?;
            return Ok(Onward::Stays);
        }
        let pid = self.task(tid)?.pid;
        if self.session.is_init_inside(pid) {
            self.fatal_for_init(tid, info, SignalPoint::Fault)?;
            return Ok(Onward::Stays);
        }
        self.fatal(tid, info, SignalPoint::Fault)
    }
}

impl Recorder<'_> {
    /// What the recorder sends to a process group in the kernel's place (`session/orphaned.rs`), or hands on
    /// to the program, comes from the kernel in the program's eyes.
    fn as_of_kernel(&mut self, tid: Tid, info: SigInfo) -> Result<SigInfo> {
        let is_ours = [Signal::HUP, Signal::CONT].contains(&info.signal())
            && info.code() == libc::SI_USER
            && info.sender() == ours::process_id();
        if !is_ours {
            return Ok(info);
        }
        let info = SigInfo::of_kernel(info.signal());
        self.stopped(tid)?.set_siginfo(&info.0)?;
        Ok(info)
    }

    /// The signal itself in the place of the one that was sent to bring it: one that had come while a hook
    /// waited in this call, or when it would have found a handler. None: `info` is no such signal, or its
    /// place is not here.
    fn take_carried(&mut self, tid: Tid, info: &SigInfo, is_told: bool) -> Result<Option<SigInfo>> {
        let signal = info.signal();
        // Where it has interrupted a call that is never made again, that call's event is written: the handler
        // comes right after it.
        let due = is_told || self.kernels_disposition(tid, signal) != Disposition::Handler;
        if !due || !self.is_carrier(tid, info) {
            return Ok(None);
        }
        let Some(real) = self.task(tid)?.signals.stash.take_of(signal) else { return Ok(None) };
        self.stopped(tid)?.set_siginfo(&real.0)?;
        self.task(tid)?.signals.brought.arrive();
        Ok(Some(real))
    }
}

impl Process {
    /// The instruction of the program at `rip` that faults because we want it to, and its length.
    fn trapped_instruction(&self, rip: Addr) -> Option<(Insn, u64)> {
        let patched = self.space.patches().fault_at(rip);
        patched.or_else(|| cpu::trapped_instruction(&self.memory, rip))
    }
}

impl Crew {
    /// Has a timer fired again before the handler of its signal, or of another, has returned? Then it waits,
    /// so that the program itself comes on between two handlers, however slow we are: it is delivered at the
    /// next call, or a few milliseconds later.
    fn is_storm(&self, tid: Tid, info: &SigInfo) -> Result<bool> {
        Ok(info.is_of_timer() && self.task_ref(tid)?.signals.timers.are_to_wait())
    }

    /// Has the program asked for this instruction to be a fault?
    fn is_forbidden(&self, tid: Tid, insn: Insn) -> Result<bool> {
        let wishes = &self.task_ref(tid)?.traits.wishes;
        Ok(match insn {
            Insn::Cpuid => wishes.no_cpuid,
            Insn::Rdtsc | Insn::Rdtscp => wishes.no_tsc,
            _ => false,
        })
    }
}
