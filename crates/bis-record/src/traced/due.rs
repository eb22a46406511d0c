//! What a tracer is to hear of behind an event: it is kept with its tracee until that stands there.

use bis_trace::types::{DomainId, Tid};

use super::{
    Held,
    books::{Due, Kind, Mode, Tracee},
    heard::CHLD,
    hold::{EVENT_STOP, SYSGOOD, status_of},
};
use crate::{calls::args::CLONE_VFORK, crew::Crew, domain::Domain, error::Result, task::InCall};

const CLONE_UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
const CLONE_PTRACE: u64 = libc::CLONE_PTRACE as u64;
const CLONE_SIGNAL: u64 = libc::CSIGNAL as u64;

impl Domain {
    /// A task stands where its event has left it. If its tracer is to hear of something, the task holds:
    /// true.
    pub fn hold_if_due(&mut self, tid: Tid) -> Result<bool> {
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
                    Due::Within(event, nr, message) => {
                        (Kind::Within { nr }, status_of(libc::SIGTRAP, event), message)
                    }
                    Due::Exit(_) if it.mode != Mode::Syscall => continue,
                    Due::Exit(nr) => (Kind::Exit { nr }, status_of(libc::SIGTRAP | good, 0), 2),
                    Due::Trap => (Kind::Signal, status_of(libc::SIGTRAP, 0), 0),
                    Due::Called => (Kind::Event, status_of(libc::SIGTRAP, 0), 0),
                    Due::Begun => (Kind::Signal, status_of(libc::SIGSTOP, 0), 0),
                });
            }
            it.debug.is_due.then_some((Kind::Signal, status_of(libc::SIGTRAP, 0), 0))
        });
        let Some((kind, status, message)) = next.flatten() else { return Ok(false) };
        self.hold(tid, Held::Place, kind, status, message)?;
        Ok(true)
    }

    /// The maker of a vfork's child, whose event is written, hears of it before it waits for the child. True:
    /// it holds.
    pub fn hold_at_vfork(&mut self, tid: Tid) -> Result<bool> {
        let due = self.session.traced.with_live(tid, |it| match it.due.pop_front() {
            Some(Due::Within(event, nr, message)) => Some((event, nr, message)),
            _ => None,
        });
        let Some((event, nr, message)) = due.flatten() else { return Ok(false) };
        self.hold(tid, Held::Vfork, Kind::Within { nr }, status_of(libc::SIGTRAP, event), message)?;
        Ok(true)
    }
}

impl Crew {
    /// The call of a task is over, and its event is written.
    pub fn call_is_over(&mut self, tid: Tid, call: &InCall) {
        let flags = if call.made.is_some() { self.clone_args(call).flags } else { 0 };
        let is_vfork = flags & CLONE_VFORK != 0;
        self.session.traced.with_live(tid, |it| {
            if is_vfork && it.wants(libc::PTRACE_O_TRACEVFORKDONE) {
                let child = call.made.map_or(0, |made| u64::from(made.0.cast_unsigned()));
                it.due.push_back(Due::Within(libc::PTRACE_EVENT_VFORK_DONE, call.own_nr(), child));
            }
            // What it is told of in the call may change how it is to go on.
            if !it.is_exit_told {
                it.due.push_back(Due::Exit(call.own_nr()));
            }
            if it.mode.is_step() {
                it.due.push_back(Due::Trap);
            }
            (it.entered, it.is_exit_told, it.is_asked_by_filter) = (None, false, false);
        });
    }

    /// The call of a task has ended in front of a handler, and the program makes it again.
    pub fn call_is_cut(&self, tid: Tid) {
        self.session.traced.with_live(tid, |it| it.is_asked_by_filter = false);
    }

    /// An instruction that bis has executed for the program, or a hook, is over.
    pub fn instruction_is_over(&self, tid: Tid) {
        self.session.traced.with_live(tid, |it| {
            if it.mode.is_step() {
                it.due.push_back(Due::Trap);
            }
        });
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
        let born = self.session.traced.with_live(tid, |it| {
            let event = match flags {
                flags if flags & CLONE_VFORK != 0 => libc::PTRACE_EVENT_VFORK,
                flags if flags & CLONE_SIGNAL == u64::from(CHLD.0) => libc::PTRACE_EVENT_FORK,
                _ => libc::PTRACE_EVENT_CLONE,
            };
            let is_told = flags & CLONE_UNTRACED == 0 && it.wants(1 << event);
            if is_told {
                let child = u64::from(name(it).0.cast_unsigned());
                it.due.push_back(Due::Within(event, nr, child));
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

    /// A tracee has executed a program by the call of this number, and goes on in another domain.
    pub fn tell_exec(&mut self, former: Tid, tid: Tid, nr: u64, domain: DomainId) {
        self.session.traced.execed(former, tid, domain);
        self.session.traced.with_live(tid, |it| {
            let is_told = it.wants(libc::PTRACE_O_TRACEEXEC);
            if is_told {
                let message = u64::from(former.0.cast_unsigned());
                it.due.push_back(Due::Within(libc::PTRACE_EVENT_EXEC, nr, message));
            }
            it.due.push_back(Due::Exit(nr));
            // It is a signal, which comes behind the call.
            if !is_told && !it.is_seized {
                it.due.push_back(Due::Trap);
            }
        });
    }
}
