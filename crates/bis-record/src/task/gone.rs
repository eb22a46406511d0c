//! A task leaves its domain.

use std::thread;

use bis_trace::event::MemWrite;
use bis_trace::{
    event::{EventKind, LastWay, Meta, Outcome, TaskEnd},
    types::{Signal, Tid},
};
use bis_tracee::{TraceeError, remote, task as tracee_task};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    task::{Handle, stack_pointer},
};

impl Domain {
    /// The task leaves the domain, where its last event has left it.
    pub fn gone(&mut self, tid: Tid, status: TaskEnd, writes: Vec<MemWrite>) -> Result<()> {
        self.gone_from(tid, LastWay::None, status, writes)
    }

    /// The task leaves the domain: its last event.
    pub fn gone_from(
        &mut self,
        tid: Tid,
        last_way: LastWay,
        status: TaskEnd,
        writes: Vec<MemWrite>,
    ) -> Result<()> {
        let outcome = Box::new(Outcome { writes, ..Outcome::default() });
        self.event(tid, EventKind::TaskExit { status, outcome, last_way })?;
        if self.session.options.checksum.is_some() {
            let left = self.tasks.get(&tid).and_then(stack_pointer);
            left.into_iter().for_each(|pointer| self.space.leave_stack(pointer));
        }
        remote::forget(tid);
        self.tell_end(tid, status);
        self.drop_call(tid);
        self.end_in_hook();
        let task = self.tasks.remove(&tid);
        // What is known of a process's first thread is so until the process has ended: it may be a zombie,
        // and another thread that execs has its id from then on.
        if task.as_ref().is_some_and(|task| task.pid != tid) {
            self.session.affinities.forget(tid);
        }
        if task.is_some_and(|task| task.own_fds) {
            let differ = self.tasks.values().any(|task| task.own_fds);
            self.set_fds_differ(differ);
        }
        self.turns.leave(tid);
        self.space.scratch_mut().forget(tid);
        let (domain, seq) = (self.id, self.session.writer.next_seq());
        Ok(self.session.writer.meta(&Meta::TaskEnd { domain, tid, status, seq })?)
    }

    /// Lets go of a task that is about to be ended by this signal, which its instruction will raise again.
    pub fn end_untraced(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        self.ask_robust_list(tid);
        let writes = self.last_writes(tid);
        let writes = self.changes(writes);
        self.release_tokens()?;
        let handle = std::mem::replace(&mut self.task(tid)?.handle, Handle::Taken);
        if let Handle::Stopped(stopped) = handle {
            match stopped.detach() {
                Ok(_) | Err(TraceeError::Died(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Its end is told to its parent only. Others of its namespace end before it.
        while tracee_task::is_alive(tid) {
            match tracee_task::wait_any(false) {
                Ok(Some((other, status))) => self.recorder().note(other, status),
                Ok(None) => thread::yield_now(),
                Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
            }
        }
        let writes = self.happened(writes);
        self.gone(tid, TaskEnd::Killed(signal), writes)
    }
}
