//! How a tracee that has held goes on.

use bis_syscalls::{INT80_INSN, SYSCALL_INSN};
use bis_trace::{
    event::SignalPoint,
    types::{Addr, Signal, Tid},
};
use bis_tracee::{
    Resume, Status,
    siginfo::{Disposition, SigInfo},
    sys,
};

use super::{Held, books::Tracee};
use crate::{
    births::Maker,
    crew::Crew,
    domain::Domain,
    error::Result,
    process::Process,
    task::{InCall, Onward, Task},
};

impl Domain {
    /// The task goes on from where it holds.
    pub fn go_from_hold(&mut self, tid: Tid) -> Result<Onward> {
        let released = self.session.traced.take_released(tid);
        if self.session.traced.with(tid, |it| it.is_asked) == Some(true) {
            // It was to stop again before this was heard.
            self.session.watch.call(self.id);
        }
        let Some((stop, signal, mode)) = released else { return Ok(Onward::Stays) };
        let Some(held) = self.task(tid)?.for_tracer.release() else { return Ok(Onward::Stays) };
        self.make_changes(tid, held, &stop)?;
        match held {
            Held::Report(Status::GroupStop(_)) if stop.leaves_group(mode) => {
                self.task(tid)?.standing.go_on();
            }
            Held::Report(status) => {
                let task = self.task(tid)?;
                task.report = Some(status);
                task.for_tracer.decide(stop.is_decided().then_some(signal));
            }
            Held::Place => {
                self.task(tid)?.standing.go_on();
                if let Some(signal) = signal {
                    let pid = self.task(tid)?.pid;
                    sys::tgkill(pid, tid, signal)?;
                    let regs = self.stopped(tid)?.regs()?;
                    self.task(tid)?.expect_signal = Some(regs);
                }
                self.hold_if_due(tid)?;
            }
            Held::Fault(info) => {
                let onward = self.go_from_fault(tid, &info, signal)?;
                if onward != Onward::Stays {
                    return Ok(onward);
                }
                self.hold_if_due(tid)?;
            }
            // As where nobody had wanted to hear of the child.
            Held::Vfork => return Ok(Maker::Sleeps.onward()),
        }
        Ok(Onward::Stays)
    }

    fn go_from_fault(&mut self, tid: Tid, info: &SigInfo, signal: Option<Signal>) -> Result<Onward> {
        let disposition = signal.map(|signal| self.recorder().kernels_disposition(tid, signal));
        let Some((signal, disposition)) = signal.zip(disposition) else {
            self.task(tid)?.standing.go_on();
            return Ok(Onward::Stays);
        };
        let info = info.of_signal(signal);
        match disposition {
            Disposition::Handler => self.deliver(tid, &info, SignalPoint::AfterEvent)?,
            Disposition::Fatal => return self.fatal(tid, &info, SignalPoint::AfterEvent),
            Disposition::Ignore => self.task(tid)?.standing.go_on(),
            Disposition::Stop => return self.suffer(tid, signal),
        }
        Ok(Onward::Stays)
    }
}

impl Process {
    /// How a task goes on in its program. One that is to stop does so before it executes anything; any other
    /// stop on its way here has made the kernel forget that.
    pub fn way_on(&mut self, tid: Tid) -> Result<Resume> {
        let way = self.session.traced.with_live(tid, |it| (it.mode, it.is_asked));
        let is_halted = self.task(tid)?.is_halted;
        if is_halted || matches!(way, Some((_, true))) {
            match self.in_hook(tid)? {
                // Its call has become a traced one, at which it stops, or it stops behind it. A hook without
                // a call does not look, or has looked, and the program may compute for long behind it: it is
                // asked again.
                Some(_) if !self.stop_behind_hook() => self.session.watch.call(self.id),
                Some(_) => {}
                // One that is to stop with its process is asked for that where it can ([`Domain::resume`]).
                None if is_halted => {}
                None => self.stopped(tid)?.ask()?,
            }
        }
        if !way.is_some_and(|(mode, _)| mode.is_step()) {
            return Ok(Resume::Cont);
        }
        if self.in_hook(tid)?.is_some() {
            // It leaves the instruction to us. The flags that it puts back would have that of a step.
            self.stop_in_hook();
            return Ok(Resume::Cont);
        }
        // A call stops by itself, and the flag of a step would be seen in r11.
        let rip = self.stopped(tid)?.regs()?.rip;
        let stands = (Addr(rip), self.space.original_rip(Addr(rip)));
        self.session.traced.with_live(tid, |it| *it.stepped_from.get_or_insert(stands));
        let next = self.memory.read_upto(Addr(rip), 2);
        let is_call = [SYSCALL_INSN, INT80_INSN].iter().any(|call| next == call);
        Ok(if is_call { Resume::Cont } else { Resume::Step })
    }
}

impl Crew {
    /// A task that holds and may go on.
    pub fn released(&self) -> Option<Tid> {
        if !self.session.traced.is_used() || self.tasks.values().any(|task| task.standing.comes_first()) {
            return None;
        }
        // What the one that has run has computed is in no event yet.
        let runner = self.watched.seat.runner();
        let reports = |task: &Task| task.tid == runner || task.standing.is_in_hook();
        if self.tasks.values().any(|task| task.report.is_some() && reports(task)) {
            return None;
        }
        // The event that tells of a new task has to come first.
        if self.tasks.values().any(|task| task.call.as_ref().is_some_and(InCall::has_untold_child)) {
            return None;
        }
        let mut released =
            self.tasks.values().filter(|task| task.report.is_none() && self.is_let_go_by_tracer(task));
        released.next().map(|task| task.tid)
    }

    /// Skips the call at whose entry the task stands, if its tracer wants that it is not made. True: it was
    /// skipped.
    pub fn skip_call(&mut self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let skips = task.for_tracer.take_skip();
        if skips {
            task.standing.go_on();
            self.session.traced.with_live(tid, Tracee::note_skipped);
        }
        skips
    }
}
