//! Signals: which take effect where, and how their frames get into the trace.
//!
//! The kernel decides what a signal does and builds the frame; we choose the moment, and it must be one that
//! replay can find again:
//!
//! - A fault comes from the task's own instruction and comes again in replay. (One that was sent, or that the kernel raises at the
//!   end of a call, is a signal like others.)
//! - A signal that interrupts a system call, or is pending when a call returns that can leave one pending (kill,
//!   sigprocmask, ...), takes effect right after that call's event.
//! - A signal for a handler that arrives in the middle of computation is kept back, and is delivered at the
//!   task's next call, before the call is made. Or, if that does not come soon,
//!   where the task is (`pause.rs`).
//! - A signal that ends the process may take effect anywhere: nothing follows. One that is ignored changes nothing that replay
//!   could see. So does one that stops the process, if that has one task; if it has several, or shares memory with others, they run in
//!   another order from there on, and it is kept back like one for a handler: until an event tells where the task is, or SIGCONT comes. (Whoever
//!   sends a stop and SIGCONT within the few microseconds in which we send it anew, may have the latter lost.)
//!
//! How a handler is called is in `frames.rs`, what is kept back in `stash.rs`.

mod answers;

use bis_agent::hooks::state;
use bis_syscalls::Call;
use bis_trace::{
    event::{EventKind, Insn, SignalEvent, SignalPoint},
    types::{Registers, Signal, Tid},
};
use bis_tracee::{
    Resume,
    cpu::{self, Chance},
    siginfo::{Disposition, SigInfo, disposition, has_open, is_stop},
};

use crate::{domain::Domain, error::Result};

pub use answers::Meeting;
use answers::{Answer, Arrival};

/// A signal's place in a set of them.
pub fn bit(signal: Signal) -> u64 {
    1 << (u32::from(signal.0).clamp(1, 64) - 1)
}

/// Has a task not moved between these? The kernel's note of the call that it was in does not matter.
fn is_same_place(before: &Registers, now: &Registers) -> bool {
    Registers { orig_rax: 0, ..*before } == Registers { orig_rax: 0, ..*now }
}

/// What /proc has said of a signal.
#[derive(Debug)]
pub struct Asked {
    tid: Tid,
    signal: Signal,
    /// How many events the domain had then, and how much had been logged since.
    moment: (u64, u64),
    disposition: Disposition,
}

impl Domain {
    /// The task is about to receive a signal.
    pub fn signal_stop(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        if info.is_fault() && !self.was_queued(&info) {
            return if self.fault_in_hook(tid)? { Ok(()) } else { self.fault(tid, &info) };
        }
        if signal == Signal::CONT && !self.is_carrier(tid, &info) {
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
        }
        if self.signal_in_hook(tid, &info)? {
            return Ok(());
        }
        let place = self.task(tid)?.expect_signal.take();
        let is_expected = match &place {
            Some(place) => is_same_place(place, &self.stopped(tid)?.regs()?),
            None => false,
        };
        let in_call = self.task(tid)?.call.is_some();
        let real = self.take_carried(tid, &info, in_call || is_expected)?;
        let is_due = real.is_some() && is_stop(signal);
        let info = real.unwrap_or(info);
        if self.is_carrier(tid, &info) {
            // It was overtaken; what it was sent for still waits in the stash.
            let task = self.task(tid)?;
            task.carries = None;
            task.standing.set_midway(task.call.is_none());
            task.standing.go_on();
            return Ok(());
        }
        let (is_storm, others_go_on) = (self.is_storm(tid, &info)?, self.others_go_on());
        let arrival = Arrival { in_call, is_expected, is_due, is_storm, others_go_on };
        self.task(tid)?.standing.set_midway(arrival.is_midway());
        let disposition = self.disposition(tid, signal)?;
        let answer = arrival.answer(disposition);
        tracing::debug!(domain = %self.id, %tid, %signal, ?disposition, ?answer, "signal");
        self.answer(tid, info, answer, place.filter(|_| is_expected))
    }

    /// The signal itself in the place of the one that was sent to bring it: one that had come while a hook waited in this call,
    /// or when it would have found a handler. None: `info` is no such signal, or its place is not here.
    fn take_carried(&mut self, tid: Tid, info: &SigInfo, is_told: bool) -> Result<Option<SigInfo>> {
        let signal = info.signal();
        let at = self.task(tid)?.stash.iter().position(|other| other.signal() == signal);
        // Where it has interrupted a call that is never made again, that call's event is written: the handler comes right after it.
        let due = is_told || self.kernels_disposition(tid, signal) != Disposition::Handler;
        let Some(at) = at.filter(|_| self.is_carrier(tid, info) && due) else { return Ok(None) };
        let Some(real) = self.task(tid)?.stash.remove(at) else { return Ok(None) };
        self.stopped(tid)?.set_siginfo(&real.0)?;
        self.task(tid)?.carries = None;
        Ok(Some(real))
    }

    /// Does what is to be done about a signal. `place`: it was expected where the task has these registers.
    fn answer(&mut self, tid: Tid, info: SigInfo, answer: Answer, place: Option<Registers>) -> Result<()> {
        match answer {
            Answer::EndCall => {
                // The call's event is what the task shows now, or has shown.
                if let Some(regs) = self.call(tid)?.set_back.take() {
                    self.stopped(tid)?.set_regs(&regs)?;
                }
                self.finish_call(tid)?;
                self.deliver(tid, &info, SignalPoint::AfterEvent)
            }
            Answer::Deliver => self.deliver(tid, &info, SignalPoint::AfterEvent),
            Answer::Keep => {
                self.wait_for_place(tid, info)?;
                if self.task(tid)?.standing.is_ready() {
                    self.hush(tid)?;
                }
                Ok(())
            }
            Answer::Ignore => {
                // It is not given to the task: before that goes on, another could set a handler.
                self.task(tid)?.standing.go_on();
                place.map_or(Ok(()), |place| self.expect_signal(tid, &place))
            }
            Answer::StopLater => self.wait_for_place(tid, info),
            Answer::Stop => self.suffer(tid, info.signal()),
            Answer::End => self.fatal(tid, &info, SignalPoint::Anywhere),
        }
    }

    /// Keeps a signal for which there is no place here. Perhaps one has waited long enough: the task stands here anyway.
    fn wait_for_place(&mut self, tid: Tid, info: SigInfo) -> Result<()> {
        self.keep_back(tid, info)?;
        if !self.interrupted(tid)? {
            self.task(tid)?.standing.go_on();
        }
        Ok(())
    }

    /// While the task is stopped, could others do what it would see: threads, or processes that share memory with it?
    pub fn others_go_on(&self) -> bool {
        self.tasks.len() > 1 || self.holds_tokens()
    }

    /// A process may send itself what looks like a fault (handlers of crashes do, to have the default action after all); and where
    /// a call has ended in a fault, as rt_sigreturn from a bad frame does, the kernel has queued it. No instruction
    /// raises such a one in replay.
    fn was_queued(&mut self, info: &SigInfo) -> bool {
        let at = self.queued_faults.iter().position(|queued| queued.is_same(info));
        at.map(|at| self.queued_faults.swap_remove(at)).is_some()
    }

    /// Such a call has succeeded (rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal): `signal` was sent, with the information at
    /// `addr`.
    pub fn leave_queue(&mut self, signal: u64, addr: u64) {
        // Without one, the kernel writes it: who has sent it.
        if addr != 0
            && let Some(info) = SigInfo::read(&self.memory, addr)
        {
            self.note_queued(&info.of_signal(Signal(u8::try_from(signal).unwrap_or(0))));
        }
    }

    /// Once only, as the kernel queues it.
    fn note_queued(&mut self, info: &SigInfo) {
        if info.is_fault() && !self.queued_faults.iter().any(|queued| queued.is_same(info)) {
            self.queued_faults.push(*info);
        }
    }

    /// Has a timer fired again before the handler of its signal, or of another, has returned? Then it waits, so that the
    /// program itself comes on between two handlers, however slow we are: it is delivered at the next call, or a few
    /// milliseconds later.
    fn is_storm(&mut self, tid: Tid, info: &SigInfo) -> Result<bool> {
        Ok(info.is_of_timer() && self.task(tid)?.has_returned)
    }

    /// What /proc says of the signal. It says the same for as long as no task of the domain has made a call: a timer that
    /// fires every 50 µs would leave the program no time if it were asked each time.
    pub fn kernels_disposition(&mut self, tid: Tid, signal: Signal) -> Disposition {
        let word = |at| self.hooks.as_ref().map_or(0, |hooks| hooks.area.get(at));
        let moment = (self.journal.count(), word(state::POS));
        let computes =
            word(state::IN_HOOK) == 0 && self.tasks.get(&tid).is_some_and(|task| task.call.is_none());
        if let Some(asked) = self.asked.as_ref().filter(|_| computes)
            && (asked.tid, asked.signal, asked.moment) == (tid, signal, moment)
        {
            return asked.disposition;
        }
        let disposition = disposition(tid, signal);
        self.asked = Some(Asked { tid, signal, moment, disposition });
        disposition
    }

    /// What the kernel will do with a signal for this task. The first process of a pid namespace gets none that it has no
    /// handler for, but for SIGKILL and SIGSTOP.
    pub fn disposition(&mut self, tid: Tid, signal: Signal) -> Result<Disposition> {
        let disposition = self.kernels_disposition(tid, signal);
        let stop = i32::from(signal.0) == libc::SIGSTOP;
        let default = matches!(disposition, Disposition::Fatal | Disposition::Stop);
        if default && signal != Signal::KILL && !stop {
            let pid = self.task(tid)?.pid;
            if self.session.is_init_inside(pid) {
                return Ok(Disposition::Ignore);
            }
        }
        Ok(disposition)
    }

    /// The task's own instruction raised a signal.
    fn fault(&mut self, tid: Tid, info: &SigInfo) -> Result<()> {
        let signal = info.signal();
        let before = self.stopped(tid)?.regs()?;
        // A general protection fault: the kernel says neither code nor address.
        if signal == Signal::SEGV
            && info.code() == 0x80
            && let Some((insn, len)) = self.trapped_instruction(before.rip)
            && !self.is_forbidden(tid, insn)?
        {
            let chance = self.space.patches().fault_bytes(before.rip).and_then(Chance::decode);
            let after = match chance {
                Some(chance) => chance.emulate(&before),
                None => cpu::emulate(insn, len, &before, &self.session.hook_image.cpuid),
            };
            if insn == Insn::Cpuid {
                self.learn_instruction(before.rip);
            }
            self.stopped(tid)?.set_regs(&after)?;
            self.task(tid)?.standing.go_on();
            return self.event(tid, EventKind::Instruction { insn, before, after });
        }
        if signal == Signal::SEGV && self.unguard(tid, info, &before)? {
            return Ok(());
        }
        if self.kernels_disposition(tid, signal) == Disposition::Handler {
            return self.deliver(tid, info, SignalPoint::Fault);
        }
        let pid = self.task(tid)?.pid;
        if self.session.is_init_inside(pid) {
            return self.fatal_for_init(tid, info, SignalPoint::Fault);
        }
        self.fatal(tid, info, SignalPoint::Fault)
    }

    /// The instruction of the program at `rip` that faults because we want it to, and its length.
    fn trapped_instruction(&self, rip: u64) -> Option<(Insn, u64)> {
        let patched = self.space.patches().fault_at(rip);
        patched.or_else(|| cpu::trapped_instruction(&self.memory, rip))
    }

    /// Has the program asked for this instruction to be a fault?
    fn is_forbidden(&mut self, tid: Tid, insn: Insn) -> Result<bool> {
        let wishes = &self.task(tid)?.traits.wishes;
        Ok(match insn {
            Insn::Cpuid => wishes.no_cpuid,
            Insn::Rdtsc | Insn::Rdtscp => wishes.no_tsc,
            _ => false,
        })
    }

    pub fn fatal(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
        let before = self.stopped(tid)?.regs()?;
        let event =
            SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler: None };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        self.suffer(tid, info.signal())
    }

    /// The first process of a pid namespace has raised a signal that ends it; but as long as somebody traces it, the
    /// kernel does not let that happen, and would have the instruction raise it again for ever.
    pub fn fatal_for_init(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
        let signal = info.signal();
        let before = self.stopped(tid)?.regs()?;
        let event = SignalEvent { signal, siginfo: info.0.to_vec(), point, before, handler: None };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        if info.is_breakpoint() {
            self.stopped(tid)?.set_regs(&Registers { rip: before.rip - 1, ..before })?;
        }
        self.end_untraced(tid, signal)
    }

    /// The signal stops or ends the task's process. At once: before the task's next turn, another could set a
    /// handler.
    fn suffer(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        self.task(tid)?.inject = Some(signal);
        self.resume(tid, Resume::Cont)?;
        self.wait_for_report(tid)
    }

    /// The task stands where its event has left it, with these registers: is a signal to come before it goes on from there?
    /// So it is for one that was sent before whatever the event tells of.
    pub fn expect_signal(&mut self, tid: Tid, regs: &Registers) -> Result<()> {
        let open = self.deliverable(tid)?;
        open.iter().for_each(|info| self.note_queued(info));
        self.task(tid)?.expect_signal = (!open.is_empty()).then_some(*regs);
        Ok(())
    }

    /// The same after a call. That may have sent the task itself a signal of which the kernel kept nothing but the number (see
    /// [`Domain::is_carrier`]): so it may be with those that are sent with more than that, or by tgkill.
    pub fn expect_signal_of(&mut self, tid: Tid, call: &Call, regs: &Registers) -> Result<()> {
        self.expect_signal(tid, regs)?;
        let to_itself = match call.nr.cast_signed() {
            libc::SYS_rt_sigqueueinfo => call.i32(0) == self.task(tid)?.pid.0,
            libc::SYS_tkill => call.i32(0) == tid.0,
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => call.i32(1) == tid.0,
            _ => false,
        };
        if to_itself && self.task(tid)?.expect_signal.is_none() && has_open(tid) {
            self.task(tid)?.expect_signal = Some(*regs);
        }
        Ok(())
    }

    /// The signals that the kernel has for this task and that are not blocked.
    fn deliverable(&mut self, tid: Tid) -> Result<Vec<SigInfo>> {
        let stopped = self.stopped(tid)?;
        let pending = stopped.pending()?;
        if pending.is_empty() {
            return Ok(Vec::new());
        }
        let mask = stopped.sigmask()?;
        Ok(pending.into_iter().map(SigInfo).filter(|info| mask & bit(info.signal()) == 0).collect())
    }

    /// Has nothing interrupted this task's call but us? That is so where all signals that wait for it, and are not blocked, are ones
    /// that its process ignores, and where none waits and we have asked it to stop.
    pub fn is_interrupted_by_us(&mut self, tid: Tid) -> Result<bool> {
        let open = self.deliverable(tid)?;
        if open.is_empty() {
            return Ok(self.task(tid)?.is_asked);
        }
        Ok(open.iter().all(|info| disposition(tid, info.signal()) == Disposition::Ignore))
    }
}
