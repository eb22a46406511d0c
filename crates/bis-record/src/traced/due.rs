//! What a tracer is to hear of behind an event: it is kept with its tracee until that stands there.

use bis_trace::types::{DomainId, Tid};

use super::{Held, behind::Made, books::Tracee};
use crate::{calls::args::CLONE_VFORK, crew::Crew, domain::Domain, error::Result, task::InCall};

impl Domain {
    /// A task stands where its event has left it. If its tracer is to hear of something, the task holds:
    /// true.
    pub fn hold_if_due(&mut self, tid: Tid) -> Result<bool> {
        let is_there = self.tasks.get(&tid).is_some_and(|task| {
            let stands = task.standing.is_ready() && !task.standing.is_midway();
            stands && task.call.is_none() && !task.report.is_there() && !task.for_tracer.is_held()
        });
        if !is_there {
            return Ok(false);
        }
        let next = self.session.traced.with_live(tid, Tracee::tell_next);
        let Some(tell) = next.flatten() else { return Ok(false) };
        self.hold(tid, Held::Place, tell)?;
        Ok(true)
    }

    /// The maker of a vfork's child, whose event is written, hears of it before it waits for the child. True:
    /// it holds.
    pub fn hold_at_vfork(&mut self, tid: Tid) -> Result<bool> {
        let due = self.session.traced.with_live(tid, Tracee::tell_in_vfork);
        let Some(tell) = due.flatten() else { return Ok(false) };
        self.hold(tid, Held::Vfork, tell)?;
        Ok(true)
    }
}

impl Crew {
    /// The call of a task is over, and its event is written.
    pub fn note_end_of_call(&mut self, tid: Tid, call: &InCall) {
        let flags = if call.deed.made().is_some() { self.clone_args(call).flags } else { 0 };
        let child = call.deed.made().filter(|_| flags & CLONE_VFORK != 0);
        let child = child.map(|child| u64::from(child.0.cast_unsigned()));
        self.session.traced.with_live(tid, |it| it.note_return(call.entry.own_nr(), child));
    }

    /// The call of a task has ended in front of a handler, and the program makes it again.
    pub fn call_is_cut(&self, tid: Tid) {
        self.session.traced.with_live(tid, |it| it.is_asked_by_filter = false);
    }

    /// An instruction that bis has executed for the program, or a hook, is over.
    pub fn note_end_of_instruction(&self, tid: Tid) {
        self.session.traced.with_live(tid, Tracee::note_instruction);
    }

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
        let made = Made { pid: child_pid, domain, nr, flags };
        let born = self.session.traced.with_live(tid, |it| it.note_birth(made, name));
        if let Some(tracee) = born.flatten() {
            self.session.traced.enter(child, tracee);
        }
    }

    /// A tracee has executed a program by the call of this number, and goes on in another domain.
    pub fn tell_exec(&mut self, former: Tid, tid: Tid, nr: u64, domain: DomainId) {
        self.session.traced.execed(former, tid, domain);
        self.session.traced.with_live(tid, |it| it.note_exec(former, nr));
    }
}
