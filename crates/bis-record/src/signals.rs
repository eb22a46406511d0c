//! Signals: which take effect where, and how their frames get into the trace.
//!
//! The kernel decides what a signal does and builds the frame; we choose the moment, and it must be one that
//! replay can find again:
//!
//! - A fault comes from the task's own instruction and comes again in replay.
//! - A signal that interrupts a system call, or is pending when a call returns that can leave one pending (kill,
//!   sigprocmask, ...), takes effect right after that call's event.
//! - A signal for a handler that arrives in the middle of computation is kept back, and is delivered at the
//!   task's next call, before the call is made. Or, if that does not come soon,
//!   where the task is (`pause.rs`).
//! - A signal that ends the process may take effect anywhere: nothing follows. One that is ignored changes nothing that replay
//!   could see. So does one that stops the process, if that has one task; if it has several, they run in another order from
//!   there on, and it is kept back like one for a handler: until an event tells where the task is, or SIGCONT comes. (Whoever
//!   sends a stop and SIGCONT within the few microseconds in which we send it anew, may have the latter lost.)
//!
//! A handler's frame is written by letting the kernel deliver the signal under a single step: the task stops
//! again before the handler's first instruction, and the frame lies at the stack pointer.

use bis_agent::hooks::state;
use bis_syscalls::Call;
use bis_trace::{
    event::{EventKind, Insn, MemWrite, Outcome, RangeSum, SignalEvent, SignalPoint},
    types::{Registers, Signal, Tid},
};
use bis_tracee::{
    Resume, Status,
    cpu::{self, Chance},
    maps::{self, Mapping},
    siginfo::{
        Disposition, SigInfo, disposition, frame_ranges, has_open, is_on_alternate_stack, is_stop,
        restore_flags,
    },
    sys,
};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    nearby::RED_ZONE,
};

/// si_code of a signal with a value (sigqueue).
const SI_QUEUE: i32 = -1;

fn bit(signal: Signal) -> u64 {
    1 << (u32::from(signal.0).clamp(1, 64) - 1)
}

/// No frame of a signal is larger, bytes: with all that a processor has to save, it has some 12,000.
const FRAME_MAX: u64 = 1 << 15;

/// PROT_WRITE.
const WRITE: u32 = 2;

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
        let mut info = SigInfo(self.stopped(tid)?.siginfo()?);
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
        let expected = match &place {
            Some(place) => is_same_place(place, &self.stopped(tid)?.regs()?),
            None => false,
        };
        let in_call = self.task(tid)?.call.is_some();
        let stashed = self.task(tid)?.stash.iter().position(|other| other.signal() == signal);
        let due = in_call || self.kernels_disposition(tid, signal) != Disposition::Handler;
        let carried = stashed.filter(|_| self.is_carrier(tid, &info) && due);
        if let Some(at) = carried
            && let Some(real) = self.task(tid)?.stash.remove(at)
        {
            // It had come while a hook waited in this call, or when it would have found a handler.
            self.stopped(tid)?.set_siginfo(&real.0)?;
            self.task(tid)?.carries = None;
            info = real;
        }
        if self.is_carrier(tid, &info) {
            // It was overtaken; what it was sent for still waits in the stash.
            let task = self.task(tid)?;
            task.carries = None;
            task.midway = task.call.is_none();
            task.ready = true;
            return Ok(());
        }
        let is_due = carried.is_some() && is_stop(signal);
        self.task(tid)?.midway = !in_call && !expected && !is_due;
        let disposition = self.disposition(tid, signal)?;
        tracing::debug!(domain = %self.id, %tid, %signal, ?disposition, expected, "signal");
        match disposition {
            Disposition::Handler if in_call => {
                // It interrupted the call: the call's event is what the task shows now.
                self.finish_call(tid)?;
                self.deliver(tid, &info, SignalPoint::AfterEvent)
            }
            Disposition::Handler if expected && !self.is_storm(tid, &info)? => {
                self.deliver(tid, &info, SignalPoint::AfterEvent)
            }
            Disposition::Handler => {
                self.keep_back(tid, info)?;
                // Perhaps one has waited long enough: the task stands here anyway.
                if !self.interrupted(tid)? {
                    self.task(tid)?.ready = true;
                }
                Ok(())
            }
            Disposition::Ignore => {
                // It is not given to the task: before that goes on, another could set a handler.
                self.task(tid)?.ready = true;
                match place.filter(|_| expected) {
                    Some(place) => self.expect_signal(tid, &place),
                    None => Ok(()),
                }
            }
            Disposition::Stop if !in_call && !expected && self.tasks.len() > 1 && !is_due => {
                // What it has computed comes before what others do meanwhile: it has a place first, as for a handler.
                self.keep_back(tid, info)?;
                if !self.interrupted(tid)? {
                    self.task(tid)?.ready = true;
                }
                Ok(())
            }
            Disposition::Stop => self.suffer(tid, signal),
            Disposition::Fatal => self.fatal(tid, &info, SignalPoint::Anywhere),
        }
    }

    /// Keeps a signal until there is a place for it. While one waits here, the kernel queues the next: of a timer that would be
    /// one after another, and the task would never be done with them.
    pub fn keep_back(&mut self, tid: Tid, info: SigInfo) -> Result<()> {
        let stash = &mut self.task(tid)?.stash;
        match stash.iter_mut().find(|other| other.is_queued_once_with(&info)) {
            Some(waiting) => *waiting = waiting.with_overruns_of(&info),
            None => stash.push_back(info),
        }
        Ok(())
    }

    /// Sends a signal that only brings the task to a signal stop.
    pub fn carry(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        let task = self.task(tid)?;
        task.carries = Some(signal);
        match sys::carry(task.pid, tid, signal) {
            Err(error) if error.is_out_of_signals() => {
                let what = "has as many signals waiting as it may (ulimit -i; raise it)".into();
                Err(RecordError::Unsupported { tid, what })
            }
            other => Ok(other?),
        }
    }

    /// Is it the signal that we sent ourselves to bring a task to a signal stop? Where as many wait as may (RLIMIT_SIGPENDING), the
    /// kernel sends it all the same, but forgets what was to be told with it.
    fn is_carrier(&self, tid: Tid, info: &SigInfo) -> bool {
        let is_ours = info.code() == SI_QUEUE && info.value() == sys::carried_value();
        let carries = self.tasks.get(&tid).and_then(|task| task.carries);
        is_ours || carries == Some(info.signal()) && info.is_bare()
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
        let mut info = SigInfo([0; 128]);
        if addr == 0 || self.memory.read(addr, &mut info.0).is_err() {
            return;
        }
        let info = info.of_signal(Signal(u8::try_from(signal).unwrap_or(0)));
        if info.is_fault() {
            self.queued_faults.push(info);
        }
    }

    /// The process is to go on: stops that its tasks have not come to yet are none any more.
    fn unstop(&mut self, pid: Tid) {
        for task in self.tasks.values_mut().filter(|task| task.pid == pid) {
            task.stash.retain(|info| !is_stop(info.signal()));
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
        let moment = (self.event_count, word(state::POS));
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
    fn disposition(&mut self, tid: Tid, signal: Signal) -> Result<Disposition> {
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
            let hooks = self.hooks.as_ref();
            let chance = hooks.and_then(|hooks| Chance::decode(hooks.patches.fault_bytes(before.rip)?));
            let after = match chance {
                Some(chance) => chance.emulate(&before),
                None => cpu::emulate(insn, len, &before),
            };
            if insn == Insn::Cpuid {
                self.learn_instruction(before.rip);
            }
            self.stopped(tid)?.set_regs(&after)?;
            self.task(tid)?.ready = true;
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
        let patched = self.hooks.as_ref().and_then(|hooks| hooks.patches.fault_at(rip));
        patched.or_else(|| cpu::trapped_instruction(&self.memory, rip))
    }

    /// Has the program asked for this instruction to be a fault?
    fn is_forbidden(&mut self, tid: Tid, insn: Insn) -> Result<bool> {
        let wishes = &self.task(tid)?.wishes;
        Ok(match insn {
            Insn::Cpuid => wishes.no_cpuid,
            Insn::Rdtsc | Insn::Rdtscp => wishes.no_tsc,
            _ => false,
        })
    }

    fn fatal(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
        let before = self.stopped(tid)?.regs()?;
        let event =
            SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler: None };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        self.suffer(tid, info.signal())
    }

    /// The first process of a pid namespace has raised a signal that ends it; but as long as somebody traces it, the
    /// kernel does not let that happen, and would have the instruction raise it again for ever.
    fn fatal_for_init(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
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

    /// At the task's signal stop: lets the kernel call the handler, and records the frame.
    fn deliver(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        let before = self.stopped(tid)?.regs()?;
        let own = self.own_registers(&before);
        self.interrupted_at.insert(own.rip);
        if own != before {
            // What the handler sees, and returns to, is the program's own.
            self.stopped(tid)?.set_regs(&own)?;
            if info.is_fault() && info.addr() == before.rip {
                self.stopped(tid)?.set_siginfo(&info.at(own.rip).0)?;
            }
        }
        self.task(tid)?.inject = Some(info.signal());
        self.resume(tid, Resume::Step)?;
        self.wait_for_report(tid)?;
        match self.task(tid)?.report {
            Some(Status::Signal(Signal::TRAP)) => self.task(tid)?.report = None,
            Some(Status::Signal(Signal::SEGV)) => return self.no_room(tid, info, point, before, sums),
            // The task was killed: that comes next.
            _ => return Ok(()),
        }
        let regs = self.stopped(tid)?.regs()?;
        restore_flags(&self.memory, regs.rsp, own.eflags)?;
        let mut writes = Vec::new();
        for (addr, len) in frame_ranges(&self.memory, regs.rsp) {
            let data = self.memory.read_vec(addr, usize::try_from(len).unwrap_or(0))?;
            writes.push(MemWrite { addr, data });
        }
        if self.session.options.checksum && is_on_alternate_stack(&self.memory, regs.rsp) {
            // What is left there when the handler has returned is checked no more than what lies below any stack.
            if !self.old_stacks.contains(&regs.rsp) {
                self.old_stacks.push(regs.rsp);
            }
            // Unless it was there already: then its frame lies right below.
            if own.rsp.wrapping_sub(regs.rsp) > FRAME_MAX {
                self.task(tid)?.left_stack = Some(own.rsp);
            }
        }
        let xstate = Some(self.stopped(tid)?.xstate()?);
        let mut outcome = Outcome { regs, xstate, writes, ..Outcome::default() };
        self.take_mail(&mut outcome)?;
        let handler = Some(outcome);
        self.task(tid)?.undone = (point == SignalPoint::BeforeSyscall).then_some((before.rip, before.rsp));
        let event = SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler };
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, EventKind::Signal(Box::new(event)), sums)?;
        self.task(tid)?.ready = true;
        self.expect_signal(tid, &regs)
    }

    /// The stack had no room for the frame. The signal is gone, and the kernel raises SIGSEGV in its place (`force_sigsegv`):
    /// in replay nothing raises it, it takes effect right after the event of the signal that had no room.
    fn no_room(
        &mut self,
        tid: Tid,
        info: &SigInfo,
        point: SignalPoint,
        before: Registers,
        sums: Vec<RangeSum>,
    ) -> Result<()> {
        self.task(tid)?.report = None;
        let instead = SigInfo(self.stopped(tid)?.siginfo()?);
        let regs = self.stopped(tid)?.regs()?;
        let handler = Some(Outcome { regs, writes: self.torn_frame(tid, regs.rsp)?, ..Outcome::default() });
        let event = SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler };
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, EventKind::Signal(Box::new(event)), sums)?;
        let pid = self.task(tid)?.pid;
        if self.kernels_disposition(tid, Signal::SEGV) == Disposition::Handler {
            self.deliver(tid, &instead, SignalPoint::AfterEvent)
        } else if self.session.is_init_inside(pid) {
            self.fatal_for_init(tid, &instead, SignalPoint::AfterEvent)
        } else {
            self.fatal(tid, &instead, SignalPoint::AfterEvent)
        }
    }

    /// What the kernel may have written of a frame before it came to where there was no room: all of the stack below `rsp`,
    /// as far as a frame reaches.
    fn torn_frame(&self, tid: Tid, rsp: u64) -> Result<Vec<MemWrite>> {
        let top = rsp.saturating_sub(RED_ZONE);
        let mappings = maps::read(tid)?;
        let is_stack = |mapping: &&Mapping| {
            (mapping.start..mapping.end).contains(&top) && mapping.prot & WRITE != 0 && !mapping.shared
        };
        let Some(stack) = mappings.iter().find(is_stack) else { return Ok(Vec::new()) };
        let start = stack.start.max(top.saturating_sub(FRAME_MAX));
        let data = self.memory.read_vec(start, usize::try_from(top - start).unwrap_or(0))?;
        Ok(vec![MemWrite { addr: start, data }])
    }

    /// The task stands where its event has left it, with these registers: is a signal to come before it goes on from there?
    /// So it is for one that was sent before whatever the event tells of.
    pub fn expect_signal(&mut self, tid: Tid, regs: &Registers) -> Result<()> {
        let open = self.deliverable(tid)?;
        for info in open.iter().filter(|info| info.is_fault()) {
            if !self.queued_faults.iter().any(|queued| queued.is_same(info)) {
                self.queued_faults.push(*info);
            }
        }
        self.task(tid)?.expect_signal = (!open.is_empty()).then_some(*regs);
        Ok(())
    }

    /// The same after a call that has succeeded. It may have sent the task itself a signal of which the kernel kept nothing but the
    /// number (see [`Domain::is_carrier`]): those that are sent with more than that, or by tgkill.
    pub fn expect_signal_of(&mut self, tid: Tid, call: &Call, regs: &Registers) -> Result<()> {
        self.expect_signal(tid, regs)?;
        let pid = self.task(tid)?.pid;
        let to_itself = match call.nr.cast_signed() {
            libc::SYS_tkill | libc::SYS_rt_sigqueueinfo => [pid.0, tid.0].contains(&call.i32(0)),
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

    /// Are all signals that wait for this task, and are not blocked, ones that its process ignores?
    pub fn only_ignored_pending(&mut self, tid: Tid) -> Result<bool> {
        let open = self.deliverable(tid)?;
        Ok(!open.is_empty() && open.iter().all(|info| disposition(tid, info.signal()) == Disposition::Ignore))
    }

    /// At the entry of a call: delivers a signal that was kept back, if there is one that is not blocked now. The
    /// call is undone; the task will make it when the handler has returned.
    pub fn deliver_stashed(&mut self, tid: Tid, before: &Registers, point: SignalPoint) -> Result<bool> {
        if self.task(tid)?.stash.is_empty() {
            return Ok(false);
        }
        let mask = self.stopped(tid)?.sigmask()?;
        let task = self.task(tid)?;
        let Some(at) = task.stash.iter().position(|info| mask & bit(info.signal()) == 0) else {
            return Ok(false);
        };
        let Some(info) = task.stash.remove(at) else { return Ok(false) };
        self.disarm(tid)?;
        if self.task(tid)?.report.is_some() {
            self.task(tid)?.stash.push_front(info);
            return Ok(true);
        }
        let signal = info.signal();
        // The process may have changed its mind: as if the signal came now.
        let now = self.disposition(tid, signal)?;
        if now == Disposition::Ignore {
            return Ok(false);
        }
        let pid = self.task(tid)?.pid;
        if is_stop(signal) && now == Disposition::Stop {
            let pending = self.stopped(tid)?.pending()?;
            if pending.iter().any(|info| SigInfo(*info).signal() == Signal::CONT) {
                // Sent again, it would take back what is to take it back.
                self.unstop(pid);
                return Ok(false);
            }
            // It comes when the call that is about to be made, or the event that is about to be written, says where the task is.
            self.task(tid)?.stash.push_front(info);
            self.carry(tid, signal)?;
            let is_there = point == SignalPoint::AfterEvent;
            self.task(tid)?.ready |= is_there;
            return Ok(is_there);
        }
        self.stopped(tid)?.set_regs(before)?;
        if now != Disposition::Handler {
            let task = self.task(tid)?;
            task.stash.push_front(info);
            (task.midway, task.ready) = (true, true);
            self.carry(tid, signal)?;
            return Ok(true);
        }
        // Only the kernel can bring a task to a signal stop; what the signal says is replaced there.
        self.carry(tid, signal)?;
        self.resume(tid, Resume::Cont)?;
        loop {
            self.wait_for_report(tid)?;
            match self.task(tid)?.report {
                Some(Status::Signal(_)) => {}
                // SIGCONT interrupts its target before it arrives there.
                Some(Status::Trap) => {
                    self.task(tid)?.report = None;
                    self.resume(tid, Resume::Cont)?;
                    continue;
                }
                // Killed, or stopped with its process: the signal is tried again later.
                _ => {
                    self.task(tid)?.stash.push_front(info);
                    return Ok(true);
                }
            }
            let arrived = SigInfo(self.stopped(tid)?.siginfo()?);
            if arrived.signal() == signal && self.is_carrier(tid, &arrived) {
                break;
            }
            let found = arrived.signal();
            match self.disposition(tid, found)? {
                Disposition::Handler if self.is_carrier(tid, &arrived) => {}
                Disposition::Handler => self.keep_back(tid, arrived)?,
                Disposition::Ignore => {}
                // It goes first.
                Disposition::Fatal | Disposition::Stop => self.task(tid)?.inject = Some(found),
            }
            self.task(tid)?.report = None;
            self.resume(tid, Resume::Cont)?;
        }
        let task = self.task(tid)?;
        (task.report, task.carries) = (None, None);
        self.stopped(tid)?.set_siginfo(&info.0)?;
        self.deliver(tid, &info, point)?;
        Ok(true)
    }
}
