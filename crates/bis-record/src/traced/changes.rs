//! What a tracer has changed in a tracee, as the tracee's own stream says it.

use bis_trace::{
    event::{Effect, EventKind, MemWrite, Outcome, SignalEvent, SignalPoint},
    types::{Registers, Signal, Tid},
};
use bis_tracee::{Status, siginfo::SigInfo};

use super::{
    Held,
    books::{Change, Kind, Stop},
    shown::{self, Changed},
};
use crate::{
    crew::Crew,
    domain::Domain,
    error::Result,
    events::Recorder,
    process::Process,
    task::{Elsewhere, InCall},
};

impl Domain {
    /// A tracee goes on: what its tracer has changed is done, and written.
    pub(super) fn make_changes(&mut self, tid: Tid, held: Held, stop: &Stop) -> Result<()> {
        if stop.change.siginfo && matches!(held, Held::Report(Status::Signal(_)) | Held::Fault(_)) {
            self.stopped(tid)?.set_siginfo(&stop.siginfo)?;
        }
        let writes = self.session.traced.take_writes(self.id);
        let is_emulated = matches!(stop.kind, Kind::Entry { is_emulated: true, .. });
        if is_emulated {
            return self.recorder().change_call(tid, stop, writes);
        }
        let Change { regs, xstate, segments, .. } = stop.change;
        if !(regs || xstate || segments || !writes.is_empty()) {
            return Ok(());
        }
        if matches!(stop.kind, Kind::Entry { .. }) {
            return self.recorder().change_call(tid, stop, writes);
        }
        if self.task(tid)?.call.is_some() {
            // What the task shows now is how its call has ended.
            if let Some(regs) = self.call(tid)?.wait.take_end() {
                self.stopped(tid)?.set_regs(&regs)?;
            }
            self.finish_call(tid)?;
        }
        let before = self.stopped(tid)?.regs()?;
        let in_signal = matches!(held, Held::Report(_) | Held::Fault(_));
        let next = shown::behind_stop(&before, self.changed(&before, stop), in_signal);
        self.stopped(tid)?.set_regs(&next)?;
        let mut outcome = self.changed_memory(tid, stop, writes)?;
        let regs = self.stopped(tid)?.regs()?;
        outcome.regs = regs;
        let mut siginfo = SigInfo([0; 128]).of_signal(Signal::TRAP);
        if let Held::Fault(info) = held {
            siginfo = info;
        }
        let (signal, siginfo) = (siginfo.signal(), siginfo.0.to_vec());
        let (point, handler) = (SignalPoint::AfterEvent, Some(outcome));
        let event = SignalEvent { signal, siginfo, point, before, handler };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        let task = self.task(tid)?;
        task.standing.describe();
        task.signals.coming.expect_at(regs);
        Ok(())
    }
}

impl Recorder<'_> {
    /// Writes what the tracer has changed at the entry of a call: it is another call now, or none.
    fn change_call(&mut self, tid: Tid, stop: &Stop, writes: Vec<MemWrite>) -> Result<()> {
        if self.task(tid)?.call.is_some() {
            // One that is made again. It has ended in front of itself.
            let call = self.task(tid)?.call.take();
            let entry = self.stopped(tid)?.regs_at_call()?;
            if let Some(call) = call {
                self.end_in_front(tid, call, &entry)?;
            }
        }
        let entry = self.stopped(tid)?.regs_at_call()?;
        let changed = self.changed(&entry, stop);
        let is_emulated = matches!(stop.kind, Kind::Entry { is_emulated: true, .. });
        let is_narrow = self.is_narrow(&entry);
        let next = match Changed::of(&entry, &changed, is_emulated, is_narrow) {
            Changed::Made(next) => {
                if stop.change.regs {
                    let elsewhere = Elsewhere::of(&entry, &changed, is_narrow);
                    self.task(tid)?.for_tracer.go_elsewhere(elsewhere);
                }
                let outcome = self.changed_memory(tid, stop, writes)?;
                self.stopped(tid)?.set_regs(&next)?;
                // The place at whose entry its tracer has heard of it may have another stack pointer now.
                let here = (next.rip, next.rsp);
                self.session.traced.with_live(tid, |it| it.entered = it.entered.map(|_| here));
                return self.say_set_back(tid, &entry, &next, outcome);
            }
            Changed::NotMade(next) => next,
        };
        self.task(tid)?.for_tracer.end_call();
        let outcome = self.changed_memory(tid, stop, writes)?;
        // The event of the call that is not made has its outcome.
        let next = Registers { rip: self.space.patched_rip(next.ip()).0, ..next };
        self.stopped(tid)?.set_regs(&next)?;
        let regs = Registers { orig_rax: u64::MAX, ..next };
        let (nr, outcome) = (entry.orig_rax, Box::new(Outcome { regs, ..outcome }));
        self.event(tid, EventKind::Syscall { nr, entry, outcome })?;
        let task = self.task(tid)?;
        task.standing.describe();
        task.for_tracer.skip_call();
        Ok(())
    }

    fn end_in_front(&mut self, tid: Tid, mut call: InCall, entry: &Registers) -> Result<()> {
        let (kind, _) = call.event(Outcome { regs: entry.before_call(), ..Outcome::default() });
        self.event(tid, kind)
    }
}

impl Process {
    /// The registers that the tracer wants, of those that it may have.
    fn changed(&self, before: &Registers, stop: &Stop) -> Registers {
        if !stop.change.regs {
            return *before;
        }
        shown::set(stop.kind, before, &self.own_registers(before), &stop.regs)
    }
}

impl Crew {
    fn changed_memory(&mut self, tid: Tid, stop: &Stop, writes: Vec<MemWrite>) -> Result<Outcome> {
        let mut outcome = Outcome { writes, ..Outcome::default() };
        // What is there already is there again.
        outcome.writes.retain(|piece| self.memory.write(piece.addr, &piece.data).is_ok());
        if stop.change.xstate {
            self.stopped(tid)?.set_xstate(&stop.xstate)?;
            outcome.xstate = Some(self.stopped(tid)?.xstate()?);
        }
        if stop.change.segments {
            for descriptor in &stop.segments {
                self.stopped(tid)?.set_segment(descriptor)?;
                outcome.effects.push(Effect::Segment { tid, descriptor: *descriptor });
            }
        }
        Ok(outcome)
    }
}
