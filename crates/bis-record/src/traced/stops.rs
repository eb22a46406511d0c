//! Where a tracee holds, and how it goes on.

use std::mem::take;

use bis_agent::hooks::SAFEPOINT_END;
use bis_syscalls::{Call, may_block};
use bis_trace::{
    event::{EventKind, Outcome, SignalEvent, SignalPoint, TaskEnd},
    types::{DomainId, Registers, Signal, Tid},
};
use bis_tracee::{Resume, Status, ours, siginfo::SigInfo, sys};

use super::books::{Due, Kind, Mode, State, Stop, Tracee};
use crate::{
    calls::is_vsyscall,
    domain::Domain,
    error::Result,
    task::{Handle, InCall},
};

/// The instruction of a call.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

pub const EVENT_STOP: i32 = 128;
pub const EVENT_VFORK_DONE: i32 = 5;
pub const EVENT_SECCOMP: i32 = 7;
pub const O_TRACESECCOMP: i32 = 1 << EVENT_SECCOMP;
const SYSGOOD: i32 = 0x80;
const CHLD: Signal = Signal(17);
/// si_code of a trap behind one instruction.
const TRAP_TRACE: i32 = 2;
/// Results of calls that the kernel makes again: ERESTARTSYS, ERESTART_RESTARTBLOCK.
const RESTARTS_CALL: i64 = -512;
const RESTARTS_BLOCK: i64 = -516;
/// si_code of a trap behind a call, which need not have been made. (With PTRACE_SYSEMU_SINGLESTEP there is
/// none.)
const TRAP_BRKPT: i32 = 1;
const CLONE_UNTRACED: u64 = 0x80_0000;
const CLONE_PTRACE: u64 = 0x2000;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_SIGNAL: u64 = 0xff;

/// What is done with a tracee that goes on from where it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Its report is dealt with.
    Report(Status),
    /// An event describes its place: something else is told of it there, or it goes on in its program.
    Place,
    /// Its instruction has raised a signal, and an event says so.
    Fault(SigInfo),
    /// It goes on in its vfork.
    Vfork,
}

/// What becomes of something that a tracer is to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The task holds.
    Holds,
    /// It has a tracer, who has decided: this signal, or none.
    Decided(Option<Signal>),
    /// Nobody is to hear of it.
    Nobody,
}

/// What becomes of a call about which a filter wants the tracer to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The task holds in front of it.
    Holds,
    /// It is what the tracer has made of it.
    Answered,
    /// There is nobody to be asked.
    Nobody,
}

/// The wait status of a stop.
fn status_of(signal: i32, event: i32) -> i32 {
    event << 16 | signal << 8 | 0x7f
}

/// `siginfo_t` of a signal, as far as these say it.
fn siginfo(signal: i32, code: i32) -> [u8; 128] {
    let mut info = [0; 128];
    info[..4].copy_from_slice(&signal.to_le_bytes());
    info[8..12].copy_from_slice(&code.to_le_bytes());
    info
}

impl Domain {
    // --- to hold

    /// The task stays where it is until its tracer lets it go on.
    fn hold(&mut self, tid: Tid, held: Held, kind: Kind, status: i32, message: u64) -> Result<()> {
        self.describe_held(tid, kind)?;
        let stopped = self.stopped(tid)?;
        let (regs, xstate, sigmask) = (stopped.regs()?, stopped.xstate()?, stopped.sigmask()?);
        let siginfo = match (kind, held) {
            (Kind::Signal, Held::Report(Status::Signal(_))) => stopped.siginfo()?,
            (Kind::Signal, Held::Fault(info)) => info.0,
            (Kind::Signal, _) => siginfo(status >> 8, TRAP_TRACE),
            _ => siginfo(libc::SIGTRAP, status >> 8),
        };
        let mut regs = self.own_registers(&regs);
        if let Kind::Exit { nr } = kind {
            regs.orig_rax = nr;
        }
        if status >> 16 == EVENT_STOP {
            regs = self.as_interrupted(tid, kind, regs)?;
        }
        let task = self.task(tid)?;
        task.standing.stop();
        task.held = Some(held);
        let change = super::books::Change::default();
        let stop = Stop { kind, status, is_waited: false, message, regs, xstate, sigmask, siginfo, change };
        tracing::debug!(domain = %self.id, %tid, ?kind, status = format_args!("{status:#x}"), "holds");
        let tracer = self.session.traced.with(tid, |it| {
            it.state = State::Holds(Box::new(stop));
            it.tracer
        });
        tracer.into_iter().for_each(|tracer| self.tell_tracer(tracer));
        Ok(())
    }

    /// The registers of a task that its tracer has asked to stop, and that is in a call or about to make one
    /// which may wait: as the kernel shows a call that it makes again afterwards.
    fn as_interrupted(&mut self, tid: Tid, kind: Kind, regs: Registers) -> Result<Registers> {
        const RESTART_SYSCALL: u64 = 219;
        let rax = |result: i64| result.cast_unsigned();
        if let Kind::Entry { nr, args, .. } = kind {
            let waits = may_block(&Call { nr, args });
            return Ok(if waits { Registers { rax: rax(RESTARTS_CALL), ..regs } } else { regs });
        }
        let Some(nr) = self.task(tid)?.call.as_ref().map(|call| call.nr) else { return Ok(regs) };
        if regs.orig_rax != u64::MAX {
            return Ok(regs);
        }
        // The kernel has set it back to in front of the call.
        let result = if regs.rax == RESTART_SYSCALL { RESTARTS_BLOCK } else { RESTARTS_CALL };
        Ok(Registers { rip: regs.rip + 2, rax: rax(result), orig_rax: nr, ..regs })
    }

    /// While a task holds, others go on, and its memory may be changed: an event says where it is.
    fn describe_held(&mut self, tid: Tid, kind: Kind) -> Result<()> {
        self.drain(tid)?;
        if matches!(kind, Kind::Entry { .. }) && self.task(tid)?.call.is_none() {
            let has_company = self.tasks.len() > 1 || self.space.shared().iter().next().is_some();
            let entry = self.stopped(tid)?.regs()?;
            return if has_company {
                self.say_set_back(tid, &entry, &entry, Outcome::default())
            } else {
                Ok(())
            };
        }
        if self.task(tid)?.standing.is_midway() && self.task(tid)?.call.is_none() {
            self.pause(tid, Vec::new())?;
        }
        self.task(tid)?.standing.describe();
        Ok(())
    }

    /// Writes that a task which stands at the entry of a call, with the registers `entry`, is in front of the
    /// call that `next` says.
    pub(super) fn say_set_back(
        &mut self,
        tid: Tid,
        entry: &Registers,
        next: &Registers,
        outcome: Outcome,
    ) -> Result<()> {
        let regs = Registers { rip: next.rip - 2, rax: next.orig_rax, orig_rax: u64::MAX, ..*next };
        let outcome = Box::new(Outcome { regs, ..outcome });
        self.event(tid, EventKind::Syscall { nr: entry.orig_rax, entry: *entry, outcome })?;
        self.task(tid)?.standing.describe();
        Ok(())
    }

    /// There is something to hear for this tracer.
    fn tell_tracer(&mut self, tracer: Tid) {
        // It may be waiting for a signal, too.
        let _ = ours::send(tracer, CHLD);
        if let Some(domain) = self.session.mail.target(tracer, || false) {
            self.session.watch.call(domain);
        }
    }

    // --- what tracers hear of

    /// What a task has reported: is its tracer to hear of it before anything is done about it? True: it
    /// holds.
    pub fn holds_at(&mut self, tid: Tid, status: Status) -> Result<bool> {
        let told = match status {
            Status::Seccomp => self.tell_entry(tid)?,
            Status::Trap => self.tell_trap(tid)?,
            Status::GroupStop(signal) => self.tell_group_stop(tid, signal)?,
            Status::Exit(wait_status) => self.tell_exit(tid, wait_status)?,
            _ => Told::Nobody,
        };
        Ok(told == Told::Holds)
    }

    fn decided(&mut self, tid: Tid) -> Option<Option<Signal>> {
        self.tasks.get_mut(&tid).and_then(|task| task.passed.take())
    }

    fn tell_entry(&mut self, tid: Tid) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        let regs = self.stopped(tid)?.regs()?;
        if regs.rip == SAFEPOINT_END && self.hooks.is_some() || is_vsyscall(&regs) {
            return Ok(Told::Nobody);
        }
        let has_call = self.task(tid)?.call.is_some();
        let here = Some((regs.rip, regs.rsp));
        let told = self.session.traced.with_live(tid, |it| {
            let entry = |is_emulated| Kind::Entry { nr: regs.orig_rax, args: regs.args(), is_emulated };
            it.is_asked_by_filter = false;
            if take(&mut it.is_asked) {
                return Some((entry(false), status_of(libc::SIGTRAP, EVENT_STOP)));
            }
            let is_known = it.entered == here && !it.is_exit_told;
            let is_wanted = it.mode == Mode::Syscall || it.mode.emulates();
            if !is_wanted || is_known || has_call && !it.is_exit_told {
                return None;
            }
            (it.entered, it.is_exit_told) = (here, false);
            let kind = entry(it.mode.emulates());
            let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
            Some((kind, status_of(libc::SIGTRAP | good, 0)))
        });
        let Some((kind, status)) = told.flatten() else { return Ok(Told::Nobody) };
        self.hold(tid, Held::Report(Status::Seccomp), kind, status, 1)?;
        Ok(Told::Holds)
    }

    /// A filter of the program's own wants the tracer to be asked about the call that the task stands in
    /// front of, and told this number.
    pub fn tell_filtered(&mut self, tid: Tid, data: u32) -> Result<Asked> {
        let regs = self.stopped(tid)?.regs()?;
        let asked = self.session.traced.with_live(tid, |it| {
            if !it.wants(O_TRACESECCOMP) {
                return Asked::Nobody;
            }
            if take(&mut it.is_asked_by_filter) {
                return Asked::Answered;
            }
            it.is_asked_by_filter = true;
            (it.entered, it.is_exit_told) = (Some((regs.rip, regs.rsp)), false);
            Asked::Holds
        });
        let asked = asked.unwrap_or(Asked::Nobody);
        if asked == Asked::Holds {
            let kind = Kind::Entry { nr: regs.orig_rax, args: regs.args(), is_emulated: false };
            let status = status_of(libc::SIGTRAP, EVENT_SECCOMP);
            self.hold(tid, Held::Report(Status::Seccomp), kind, status, data.into())?;
        }
        Ok(asked)
    }

    fn tell_trap(&mut self, tid: Tid) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        if self.in_hook(tid)?.is_some() {
            return Ok(Told::Nobody);
        }
        if self.tell_interrupted(tid)? {
            return Ok(Told::Holds);
        }
        let is_wanted = self.session.traced.with_live(tid, |it| {
            let listens = it.mode == Mode::Listen;
            take(&mut it.is_asked) || it.is_seized && listens
        });
        if is_wanted != Some(true) {
            return Ok(Told::Nobody);
        }
        let in_call = self.task(tid)?.call.is_some();
        self.task(tid)?.standing.set_midway(!in_call);
        self.hold(tid, Held::Report(Status::Trap), Kind::Event, status_of(libc::SIGTRAP, EVENT_STOP), 0)?;
        Ok(Told::Holds)
    }

    /// Its tracer has asked a task to stop that is in a call, and hears of calls: the call comes back, to be
    /// made again later, and that is the stop. True: it holds.
    fn tell_interrupted(&mut self, tid: Tid) -> Result<bool> {
        let Some(nr) = self.task(tid)?.call.as_ref().map(|call| call.nr) else { return Ok(false) };
        let told = self.session.traced.with_live(tid, |it| {
            let is_exit = it.mode == Mode::Syscall && it.entered.is_some() && !it.is_exit_told;
            // Its entry is told anew.
            it.is_exit_told |= it.is_asked;
            let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
            let is_it = it.is_asked && is_exit;
            it.is_asked &= !is_it;
            is_it.then_some(status_of(libc::SIGTRAP | good, 0))
        });
        let Some(status) = told.flatten() else { return Ok(false) };
        self.hold(tid, Held::Report(Status::Trap), Kind::Exit { nr }, status, 2)?;
        Ok(true)
    }

    fn tell_group_stop(&mut self, tid: Tid, signal: Signal) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        let seized = self.session.traced.with_live(tid, |it| {
            it.is_asked = false;
            // Who listens has heard of it.
            (it.mode != Mode::Listen).then_some(it.is_seized)
        });
        let Some(is_seized) = seized.flatten() else { return Ok(Told::Nobody) };
        self.stops_in_hook(tid)?;
        let event = if is_seized { EVENT_STOP } else { 0 };
        let held = Held::Report(Status::GroupStop(signal));
        self.hold(tid, held, Kind::Group, status_of(signal.0.into(), event), 0)?;
        Ok(Told::Holds)
    }

    fn tell_exit(&mut self, tid: Tid, wait_status: i32) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        if self.session.traced.with_live(tid, |it| it.wants(libc::PTRACE_O_TRACEEXIT)) != Some(true) {
            return Ok(Told::Nobody);
        }
        let (held, status) =
            (Held::Report(Status::Exit(wait_status)), status_of(libc::SIGTRAP, libc::PTRACE_EVENT_EXIT));
        let message = u64::try_from(wait_status).unwrap_or(0);
        self.hold(tid, held, Kind::Event, status, message)?;
        Ok(Told::Holds)
    }

    /// The task is about to get a signal, in a call (`in_call`) or not. `place`: it was expected where the
    /// task has these registers.
    pub fn tell_signal(&mut self, tid: Tid, info: &SigInfo, place: Option<Registers>) -> Result<Told> {
        if let Some(decided) = self.decided(tid) {
            return Ok(Told::Decided(decided));
        }
        let (in_call, signal) = (self.task(tid)?.call.is_some(), info.signal());
        let held = Held::Report(Status::Signal(signal));
        let nr = self.task(tid)?.call.as_ref().map_or(0, |call| call.nr);
        let told = self.session.traced.with_live(tid, |it| {
            let is_exit = in_call && it.mode == Mode::Syscall && it.entered.is_some() && !it.is_exit_told;
            let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
            if is_exit {
                it.is_exit_told = true;
                return (Kind::Exit { nr }, status_of(libc::SIGTRAP | good, 0), 2);
            }
            (Kind::Signal, status_of(signal.0.into(), 0), 0)
        });
        let Some((kind, status, message)) = told else { return Ok(Told::Nobody) };
        self.hold(tid, held, kind, status, message)?;
        // As it is found when it goes on.
        self.task(tid)?.expect_signal = place;
        if !in_call {
            let regs = self.stopped(tid)?.regs()?;
            self.task(tid)?.expect_signal = Some(regs);
        }
        if info.is_fault() {
            self.queued_faults.push(*info);
        }
        Ok(Told::Holds)
    }

    /// The task's own instruction has raised a signal. True: it holds.
    pub fn tell_fault(&mut self, tid: Tid, info: &SigInfo, before: &Registers) -> Result<bool> {
        if !self.session.traced.is_tracee(tid) {
            return Ok(false);
        }
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        self.say_fault(tid, info, before, SignalPoint::Fault, sums)?;
        self.task(tid)?.standing.describe();
        let status = status_of(info.signal().0.into(), 0);
        self.hold(tid, Held::Fault(*info), Kind::Signal, status, 0)?;
        Ok(true)
    }

    /// A signal that has called no handler, and has changed nothing.
    fn say_fault(
        &mut self,
        tid: Tid,
        info: &SigInfo,
        before: &Registers,
        point: SignalPoint,
        sums: Vec<bis_trace::event::RangeSum>,
    ) -> Result<()> {
        let handler = Some(Outcome { regs: *before, ..Outcome::default() });
        let (signal, siginfo) = (info.signal(), info.0.to_vec());
        let event = SignalEvent { signal, siginfo, point, before: *before, handler };
        self.event_with(tid, EventKind::Signal(Box::new(event)), sums)
    }

    /// The task has stopped for the trap behind an instruction that its tracer has let it execute. True: it
    /// holds.
    pub fn tell_step(&mut self, tid: Tid) -> Result<bool> {
        if self.session.traced.with_live(tid, |it| it.mode.is_step()) != Some(true) {
            return Ok(false);
        }
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        let skipped = self.session.traced.with_live(tid, |it| (take(&mut it.is_behind_skipped), it.mode));
        match info.code() {
            TRAP_TRACE => {}
            TRAP_BRKPT if skipped == Some((true, Mode::EmulateStep)) => {
                self.task(tid)?.standing.go_on();
                return Ok(true);
            }
            TRAP_BRKPT if matches!(skipped, Some((true, _))) => {}
            _ => return Ok(false),
        }
        self.task(tid)?.standing.set_midway(true);
        self.hold(tid, Held::Place, Kind::Signal, status_of(libc::SIGTRAP, 0), 0)?;
        Ok(true)
    }

    /// The call of a task is over, and its event is written.
    pub fn call_is_over(&mut self, tid: Tid, call: &InCall) {
        let flags = if call.made.is_some() { self.clone_args(call).flags } else { 0 };
        let is_vfork = call.made.is_some() && is_vfork(call.nr, flags);
        self.session.traced.with_live(tid, |it| {
            if is_vfork && it.wants(libc::PTRACE_O_TRACEVFORKDONE) {
                let child = call.made.map_or(0, |made| u64::from(made.0.cast_unsigned()));
                it.due.push_back(Due::Event(EVENT_VFORK_DONE, child));
            }
            if it.mode == Mode::Syscall && !it.is_exit_told {
                it.due.push_back(Due::Exit(call.nr));
            }
            if it.mode.is_step() {
                it.due.push_back(Due::Trap);
            }
            (it.entered, it.is_exit_told) = (None, false);
        });
    }

    /// An instruction that bis has executed for the program is over.
    pub fn instruction_is_over(&self, tid: Tid) {
        self.session.traced.with_live(tid, |it| {
            if it.mode.is_step() {
                it.due.push_back(Due::Trap);
            }
        });
    }

    /// A task stands where its event has left it: is its tracer to hear of something? True: it holds.
    pub fn holds_due(&mut self, tid: Tid) -> Result<bool> {
        let is_there = self.tasks.get(&tid).is_some_and(|task| {
            let stands = task.standing.is_ready() && !task.standing.is_midway();
            stands && task.call.is_none() && task.report.is_none() && task.held.is_none()
        });
        if !is_there {
            return Ok(false);
        }
        let next = self.session.traced.with_live(tid, |it| {
            while let Some(due) = it.due.pop_front() {
                let good = if it.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
                return Some(match due {
                    Due::Event(event, message) => (Kind::Event, status_of(libc::SIGTRAP, event), message),
                    Due::Exit(_) if it.mode != Mode::Syscall => continue,
                    Due::Exit(nr) => (Kind::Exit { nr }, status_of(libc::SIGTRAP | good, 0), 2),
                    Due::Trap => (Kind::Signal, status_of(libc::SIGTRAP, 0), 0),
                    Due::Begun => (Kind::Signal, status_of(libc::SIGSTOP, 0), 0),
                });
            }
            None
        });
        let Some((kind, status, message)) = next.flatten() else { return Ok(false) };
        self.hold(tid, Held::Place, kind, status, message)?;
        Ok(true)
    }

    // --- births and ends

    /// A tracee has made a task: does its tracer trace that, too, and hear of it?
    pub fn tell_birth(
        &mut self,
        tid: Tid,
        child: Tid,
        child_pid: Tid,
        domain: DomainId,
        nr: u64,
        flags: u64,
    ) {
        let name = |it: &Tracee| self.session.inside(it.tracer, child);
        let born = self.session.traced.with_live(tid, |it| {
            let event = match flags {
                _ if is_vfork(nr, flags) => libc::PTRACE_EVENT_VFORK,
                _ if nr.cast_signed() == libc::SYS_fork => libc::PTRACE_EVENT_FORK,
                flags if flags & CLONE_SIGNAL == u64::from(CHLD.0) => libc::PTRACE_EVENT_FORK,
                _ => libc::PTRACE_EVENT_CLONE,
            };
            let is_told = flags & CLONE_UNTRACED == 0 && it.wants(1 << event);
            if is_told {
                let child = u64::from(name(it).0.cast_unsigned());
                it.due.push_back(Due::Event(event, child));
            }
            (is_told || flags & CLONE_PTRACE != 0).then(|| {
                let begun = if it.is_seized { Due::Event(EVENT_STOP, 0) } else { Due::Begun };
                let (options, is_seized) = (it.options, it.is_seized);
                let due = [begun].into();
                Tracee { options, is_seized, due, ..Tracee::new(it.tracer, child_pid, domain) }
            })
        });
        if let Some(tracee) = born.flatten() {
            self.session.traced.enter(child, tracee);
        }
    }

    /// The maker of a vfork's child, whose event is written, hears of it before it waits for the child. True:
    /// it holds.
    pub fn holds_at_vfork(&mut self, tid: Tid) -> Result<bool> {
        let due = self.session.traced.with_live(tid, |it| match it.due.pop_front() {
            Some(Due::Event(event, message)) => Some((event, message)),
            _ => None,
        });
        let Some((event, message)) = due.flatten() else { return Ok(false) };
        self.hold(tid, Held::Vfork, Kind::Event, status_of(libc::SIGTRAP, event), message)?;
        Ok(true)
    }

    /// A tracee has executed a program, and goes on in another domain.
    pub fn tell_exec(&mut self, former: Tid, tid: Tid, domain: DomainId) {
        self.session.traced.execed(former, tid, domain);
        let nr = libc::SYS_execve.cast_unsigned();
        self.session.traced.with_live(tid, |it| {
            if it.wants(libc::PTRACE_O_TRACEEXEC) {
                it.due.push_back(Due::Event(libc::PTRACE_EVENT_EXEC, u64::from(former.0.cast_unsigned())));
            } else if !it.is_seized {
                it.due.push_back(Due::Trap);
            }
            if it.mode == Mode::Syscall {
                it.due.push_back(Due::Exit(nr));
            }
        });
    }

    /// A task has ended. Its tracer hears of that, and its own tracees have no tracer any more.
    pub fn tell_end(&mut self, tid: Tid, end: TaskEnd) {
        if !self.session.traced.is_used() {
            return;
        }
        let status = match end {
            TaskEnd::Exited(code) => i32::from(code) << 8,
            TaskEnd::Killed(signal) => signal.0.into(),
            TaskEnd::Dethreaded => 0,
            // It goes on.
            TaskEnd::Exec(_) => return,
        };
        let tracer = self.session.traced.with_live(tid, |it| {
            it.state = State::Ended(status);
            (it.tracer, it.is_child || it.mode == Mode::Detached)
        });
        match tracer {
            Some((_, true)) => self.session.traced.remove(tid),
            Some((tracer, false)) => self.tell_tracer(tracer),
            None => {}
        }
        let pid = self.tasks.get(&tid).map(|task| task.pid);
        if let Some(pid) = pid
            && !self.tasks.values().any(|task| task.pid == pid && task.tid != tid)
        {
            self.let_tracees_go(pid);
        }
    }

    fn let_tracees_go(&mut self, tracer: Tid) {
        for tid in self.session.traced.of_tracer(tracer) {
            let is_killed = self.session.traced.with(tid, |it| it.wants(libc::PTRACE_O_EXITKILL));
            if is_killed == Some(true) {
                let _ = sys::kill_task(tid, Signal::KILL);
            }
            self.let_tracee_go(tid, Mode::Detached, None);
        }
    }

    // --- to go on

    /// The tracer of a task lets it go on; its supervisor is told.
    pub(super) fn let_tracee_go(&self, tid: Tid, mode: Mode, signal: Option<Signal>) {
        let domain = self.session.traced.with(tid, |it| {
            it.mode = mode;
            it.state = match std::mem::replace(&mut it.state, State::Runs) {
                State::Holds(stop) => State::Released(stop, signal),
                other => other,
            };
            (it.domain, matches!(it.state, State::Released(..)))
        });
        match domain {
            Some((domain, true)) => self.session.watch.call(domain),
            Some((_, false)) if mode == Mode::Detached => self.session.traced.remove(tid),
            _ => {}
        }
    }

    /// Whatever others have asked of the domain's tasks for their tracers' sake, or told its tracers. Changes
    /// nothing that an event would have to say.
    pub fn hear_of_tracers(&mut self) -> Result<()> {
        if !self.session.traced.is_used() || !self.watched.take_news() {
            return Ok(());
        }
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            let is_asked = self.session.traced.with_live(tid, |it| it.is_asked && it.state == State::Runs);
            if is_asked == Some(true) || self.waits_in_vain(tid) {
                self.ask_to_stop(tid)?;
            }
        }
        Ok(())
    }

    fn ask_to_stop(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        match &task.handle {
            Handle::Running(_) => {
                task.is_asked = true;
                match sys::interrupt(tid) {
                    Err(bis_tracee::TraceeError::Died(_)) => {}
                    other => other?,
                }
            }
            Handle::Stopped(stopped) if task.held.is_none() => stopped.ask()?,
            _ => {}
        }
        Ok(())
    }

    /// A task that holds and may go on.
    pub fn released(&self) -> Option<Tid> {
        if !self.session.traced.is_used() || self.tasks.values().any(|task| task.standing.comes_first()) {
            return None;
        }
        // The event that tells of a new task has to come first.
        let makes = |call: &InCall| call.made.is_some() && !call.silent;
        if self.tasks.values().any(|task| task.call.as_ref().is_some_and(makes)) {
            return None;
        }
        let is_released = |tid: &Tid| {
            self.session.traced.with(*tid, |it| matches!(it.state, State::Released(..))) == Some(true)
        };
        let mut held = self.tasks.values().filter(|task| task.held.is_some() && task.report.is_none());
        held.find_map(|task| is_released(&task.tid).then_some(task.tid))
    }

    /// The task goes on from where it holds.
    pub fn go_from_hold(&mut self, tid: Tid) -> Result<()> {
        let released =
            self.session.traced.with(tid, |it| match std::mem::replace(&mut it.state, State::Runs) {
                State::Released(stop, signal) => Some((stop, signal, it.mode)),
                other => {
                    it.state = other;
                    None
                }
            });
        if self.session.traced.with(tid, |it| it.is_asked) == Some(true) {
            // It was to stop again before this was heard.
            self.session.watch.call(self.id);
        }
        let Some((stop, signal, mode)) = released.flatten() else { return Ok(()) };
        let Some(held) = self.task(tid)?.held.take() else { return Ok(()) };
        if mode == Mode::Detached {
            self.session.traced.remove(tid);
        }
        self.make_changes(tid, held, &stop)?;
        match held {
            Held::Report(Status::GroupStop(_)) if mode != Mode::Listen && mode != Mode::Detached => {
                self.task(tid)?.standing.go_on();
            }
            Held::Report(status) => {
                let task = self.task(tid)?;
                task.report = Some(status);
                // Behind its call, it has not come to the signal yet that has interrupted it; and the entry
                // of one that is made again is still to be told.
                let is_asked = matches!(stop.kind, Kind::Entry { .. }) && stop.status >> 16 == EVENT_STOP;
                let is_decided = !is_asked && !matches!(stop.kind, Kind::Exit { .. });
                task.passed = is_decided.then_some(signal);
            }
            Held::Place => {
                self.task(tid)?.standing.go_on();
                if let Some(signal) = signal {
                    let pid = self.task(tid)?.pid;
                    sys::tgkill(pid, tid, signal)?;
                    let regs = self.stopped(tid)?.regs()?;
                    self.task(tid)?.expect_signal = Some(regs);
                }
                self.holds_due(tid)?;
            }
            Held::Fault(info) => self.go_from_fault(tid, &info, signal)?,
            Held::Vfork => self.resume(tid, Resume::Syscall)?,
        }
        Ok(())
    }

    fn go_from_fault(&mut self, tid: Tid, info: &SigInfo, signal: Option<Signal>) -> Result<()> {
        use bis_tracee::siginfo::Disposition;
        let Some(signal) = signal else {
            self.task(tid)?.standing.go_on();
            return Ok(());
        };
        let info = info.of_signal(signal);
        match self.kernels_disposition(tid, signal) {
            Disposition::Handler => self.deliver(tid, &info, SignalPoint::AfterEvent),
            Disposition::Fatal => self.fatal(tid, &info, SignalPoint::AfterEvent),
            Disposition::Ignore => {
                self.task(tid)?.standing.go_on();
                Ok(())
            }
            Disposition::Stop => self.suffer(tid, signal),
        }
    }

    /// Does the tracer want that the call at whose entry the task stands is not made? Then that is so.
    pub fn skips_call(&mut self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let skips = take(&mut task.is_skipped);
        if skips {
            task.standing.go_on();
            self.session.traced.with_live(tid, |it| {
                it.due.extend((it.mode == Mode::Syscall).then_some(Due::Exit(u64::MAX)));
                it.is_behind_skipped = it.mode.is_step();
                it.entered = None;
            });
        }
        skips
    }

    /// How a task goes on in its program. One that is to stop does so before it executes anything; any other
    /// stop on its way here has made the kernel forget that.
    pub fn way_on(&mut self, tid: Tid) -> Result<Resume> {
        let way = self.session.traced.with_live(tid, |it| (it.mode, it.is_asked));
        if let Some((_, true)) = way {
            match self.in_hook(tid)? {
                // Its call has become a traced one, at which it stops, or it stops behind it.
                Some(_) => self.stop_behind_hook(),
                None => self.stopped(tid)?.ask()?,
            }
        }
        if !way.is_some_and(|(mode, _)| mode.is_step()) {
            return Ok(Resume::Cont);
        }
        // A call stops by itself, and the flag of a step would be seen in r11.
        let rip = self.stopped(tid)?.regs()?.rip;
        let is_call = self.memory.read_upto(rip, 2) == SYSCALL;
        Ok(if is_call { Resume::Cont } else { Resume::Step })
    }
}

fn is_vfork(nr: u64, flags: u64) -> bool {
    nr.cast_signed() == libc::SYS_vfork || flags & CLONE_VFORK != 0 && nr.cast_signed() != libc::SYS_fork
}
