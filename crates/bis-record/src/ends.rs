//! The ends of tasks: by exit, by a signal, with their whole process, or without a word; and the end of a
//! domain.
//!
//! What the kernel writes into memory that others still use when a task ends is in `task/last_writes.rs`; the
//! event that says so, in `task/gone.rs`.

use std::thread;

use bis_trace::{
    event::{EventKind, Meta, TaskEnd},
    types::{Signal, Tid},
};
use bis_tracee::{Resume, Status, TraceeError, task as tracee_task};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
};

impl Domain {
    /// The domain has no task left.
    pub fn end(&mut self) -> Result<()> {
        self.session.mail.leave(self.id);
        self.session.views.leave(self.id);
        self.release_tokens()?;
        self.return_borrowed()?;
        let ranges = self.space.shared_mut().take_all();
        let first = self.first_tid;
        self.event(first, EventKind::End)?;
        for range in ranges {
            self.session.registry.remove(range.object, self.id);
        }
        // Children of a clone in which its maker was killed: the kernel does not tell of them then.
        let unknown: Vec<Tid> = self.early.keys().copied().collect();
        for tid in unknown {
            self.let_go(tid);
        }
        while !self.zombies.is_empty() {
            self.wait_once()?;
        }
        self.journal.flush()?;
        self.session.cores.leave(self.core);
        let (domain, event_count) = (self.id, self.journal.count());
        let seq = self.session.writer.next_seq();
        Ok(self.session.writer.meta(&Meta::DomainEnd { domain, seq, event_count })?)
    }

    /// The task is about to end. It is let go at once, and followed until it is gone, so that what the kernel
    /// does for it has a place in the order of events.
    pub fn exit(&mut self, tid: Tid, wait_status: i32) -> Result<()> {
        let status = if libc::WIFSIGNALED(wait_status) {
            TaskEnd::Killed(Signal(u8::try_from(libc::WTERMSIG(wait_status)).unwrap_or(0)))
        } else {
            TaskEnd::Exited(u8::try_from(libc::WEXITSTATUS(wait_status)).unwrap_or(0))
        };
        let last_way = self.tell_last_place(tid, status)?;
        self.drain(tid)?;
        self.end_of_clone(tid)?;
        self.write_entry(tid)?;
        self.ask_robust_list(tid);
        let writes = self.last_writes(tid);
        let writes = self.changes(writes);
        let pid = self.task(tid)?.pid;
        let leads_others = tid == pid && self.tasks.values().any(|t| t.pid == pid && t.tid != tid);
        self.task(tid)?.signals.coming.withhold();
        if self.session.is_init_inside(pid) {
            // The kernel ends all others of its namespace first, and those may wait for what we hold.
            self.release_tokens()?;
        }
        self.resume(tid, Resume::Cont)?;
        if leads_others {
            // The kernel keeps it as a zombie until the last of its threads is gone; or one of them execs and
            // takes its id over, and it is never seen to end.
            while !self.task(tid)?.report.is_there() && !self.is_taken_over(tid) {
                if !tracee_task::is_alive(tid) {
                    self.zombies.insert(tid);
                    break;
                }
                match tracee_task::wait_any(false) {
                    Ok(Some((other, status))) => self.recorder().note(other, status),
                    Ok(None) => thread::yield_now(),
                    Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
                }
            }
        } else {
            self.wait_for_report(tid)?;
        }
        if let Some(end) = self.task(tid)?.report.take() {
            self.process_status(tid, end);
        }
        let writes = self.happened(writes);
        self.gone_from(tid, last_way, status, writes)
    }

    /// The task is gone without having said that it was about to (SIGKILL).
    pub fn lost(&mut self, tid: Tid, status: Status) -> Result<()> {
        let end = match status {
            Status::Exited(code) => TaskEnd::Exited(code),
            Status::Killed(signal) => TaskEnd::Killed(signal),
            _ => TaskEnd::Killed(Signal::KILL),
        };
        self.process_status(tid, status);
        let last_way = self.tell_call_in_front(tid, end)?;
        self.end_of_clone(tid)?;
        // Killed in front of a call as it was let go into it.
        self.write_entry(tid)?;
        let writes = self.last_writes(tid);
        let writes = self.happened(writes);
        self.gone_from(tid, last_way, end, writes)
    }

    /// The task ends; had it just made a child?
    pub fn end_of_clone(&mut self, tid: Tid) -> Result<()> {
        match self.task(tid)?.report.take_newborn() {
            Some(child) => match self.new_task(tid, child, true) {
                Err(RecordError::Tracee(TraceeError::Died(dead))) if dead == child => {
                    self.let_go(child);
                    Ok(())
                }
                // It ends, and goes nowhere.
                other => other.map(|_| ()),
            },
            None => self.recorder().announce_child(tid),
        }
    }
}
