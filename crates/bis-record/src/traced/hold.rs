//! A tracee holds: it stays where it is until its tracer lets it go on. Others may go on meanwhile, and its
//! memory may be changed, so an event says where it is.

use bis_syscalls::{Call, may_block};
use bis_trace::{
    event::Outcome,
    types::{Registers, Signal, Tid},
};
use bis_tracee::{Status, ours, siginfo::SigInfo};

use super::{
    Held,
    books::{Change, Kind, State, Stop},
    shown,
    tells::{EVENT_STOP, Tell},
};
use crate::{calls::as_wide, domain::Domain, error::Result, process::Process};

/// si_code of a trap behind one instruction.
const TRAP_TRACE: i32 = libc::TRAP_TRACE;

/// What is kept as `siginfo_t` of a stop for no signal, which says who has stopped only when it is asked for.
pub(super) fn siginfo_of_stop(status: i32) -> [u8; 128] {
    let of_stop = status >> 16 == EVENT_STOP;
    siginfo(if of_stop { status >> 8 & 0x7f } else { libc::SIGTRAP }, status >> 8)
}

/// `siginfo_t` of a signal, as far as these say it.
fn siginfo(signal: i32, code: i32) -> [u8; 128] {
    let mut info = [0; 128];
    info[..4].copy_from_slice(&signal.to_le_bytes());
    info[8..12].copy_from_slice(&code.to_le_bytes());
    info
}

/// The SIGSTOP of an attach, which comes from the kernel natively, and here from the recorder: the task sees
/// it as another process, or as one outside of its namespace.
fn as_of_kernel(info: SigInfo) -> SigInfo {
    let is_of_attach = info.signal() == Signal::STOP
        && info.code() == libc::SI_TKILL
        && [ours::process_id(), Tid(0)].contains(&info.sender());
    if is_of_attach { SigInfo::of_kernel(Signal::STOP) } else { info }
}

impl Domain {
    /// The task stays where it is until its tracer lets it go on.
    pub(super) fn hold(&mut self, tid: Tid, held: Held, tell: Tell) -> Result<()> {
        let Tell { kind, status, message } = tell;
        self.describe_held(tid, kind)?;
        let is_place = held == Held::Place;
        let stopped = self.stopped(tid)?;
        let (regs, xstate, sigmask) = (stopped.regs()?, stopped.xstate()?, stopped.sigmask()?);
        let segments = stopped.segments()?;
        let is_watch = is_place && kind == Kind::Signal && self.session.traced.take_touch(tid);
        let trap = if is_watch { libc::TRAP_HWBKPT } else { TRAP_TRACE };
        let mut regs = self.own_registers(&regs);
        let stopped = self.stopped(tid)?;
        let siginfo = match (kind, held) {
            (Kind::Signal, Held::Report(Status::Signal(_))) => as_of_kernel(SigInfo(stopped.siginfo()?)).0,
            (Kind::Signal, Held::Fault(info)) => info.0,
            (Kind::Signal, Held::Place) => SigInfo(siginfo(status >> 8, trap)).at(regs.ip()).0,
            (Kind::Signal, _) => siginfo(status >> 8, trap),
            _ => siginfo_of_stop(status),
        };
        if let Some(call) = self.task(tid)?.call.as_ref() {
            regs = call.entry.as_own(&regs);
        }
        regs = shown::at_stop(kind, regs);
        if status >> 16 == EVENT_STOP {
            regs = self.as_interrupted(tid, kind, regs)?;
        }
        // Until the call is over, the task has what its tracer has put there in its tracer's eyes only.
        regs = self.task(tid)?.for_tracer.behind_call(&regs);
        let task = self.task(tid)?;
        task.standing.stop();
        task.for_tracer.hold(held);
        let change = Change::default();
        let is_waited = false;
        let stop =
            Stop { kind, status, is_waited, message, regs, xstate, sigmask, siginfo, segments, change };
        tracing::debug!(domain = %self.id, %tid, ?kind, status = format_args!("{status:#x}"), "holds");
        let tracer = self.session.traced.with(tid, |it| {
            it.state = State::Holds(Box::new(stop));
            it.stepped_from = None;
            // Also of what was asked just now: it is told by this.
            it.is_asked &= kind != Kind::Group;
            it.tracer
        });
        tracer.into_iter().for_each(|tracer| self.tell_tracer(tracer));
        Ok(())
    }

    /// While a task holds, others go on, and its memory may be changed: an event says where it is.
    fn describe_held(&mut self, tid: Tid, kind: Kind) -> Result<()> {
        // What hooks have logged becomes an event now, and the task may have computed since.
        let is_midway = self.task(tid)?.standing.is_midway();
        self.drain(tid)?;
        if matches!(kind, Kind::Entry { .. }) && self.task(tid)?.call.is_none() {
            let has_company = self.tasks.len() > 1 || self.space.shared().iter().next().is_some();
            let entry = self.stopped(tid)?.regs_at_call()?;
            return if has_company {
                self.recorder().say_set_back(tid, &entry, &entry, Outcome::default())
            } else {
                Ok(())
            };
        }
        if is_midway && self.task(tid)?.call.is_none() && self.in_hook(tid)?.is_none() {
            self.pause(tid, Vec::new())?;
        }
        self.task(tid)?.standing.describe();
        Ok(())
    }
}

impl Process {
    /// The registers of a task that its tracer has asked to stop, and that is in a call or about to make one
    /// which may wait.
    fn as_interrupted(&self, tid: Tid, kind: Kind, regs: Registers) -> Result<Registers> {
        if let Kind::Entry { nr, args, .. } = kind {
            let narrow = regs.is_narrow().then(|| as_wide(&self.translated(tid, &regs)));
            let waits = may_block(&narrow.unwrap_or(Call { nr, args }));
            return Ok(if waits { shown::interrupted_at_entry(regs) } else { regs });
        }
        let nr = self.task_ref(tid)?.call.as_ref().map(|call| call.entry.own_nr());
        Ok(nr.map_or(regs, |nr| shown::interrupted_in_call(nr, regs)))
    }
}
