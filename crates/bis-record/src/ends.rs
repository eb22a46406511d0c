//! The ends of tasks: by exit, by a signal, with their whole process, or without a word.
//!
//! What the kernel writes into memory that others still use when a task goes, and which event says so. (The
//! end of a domain is in `schedule.rs`, with its loop.)

use bis_trace::{
    event::{EventKind, MemWrite, Meta, Outcome, TaskEnd},
    types::{Signal, Tid},
};
use bis_tracee::{Resume, Status, TraceeError, sys, task as tracee_task};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    task::{Handle, stack_pointer},
};

impl Domain {
    /// What the kernel writes when a task ends whose memory others still use: it clears the word that the
    /// task has named (set_tid_address) and marks the robust futexes that the task holds. Both are as the
    /// kernel's `mm_release` and `exit_robust_list` do it.
    pub fn last_writes(&mut self, tid: Tid) -> Vec<MemWrite> {
        let mut writes = self.orphaned_futexes(tid);
        writes.extend(self.cleared_word(tid));
        writes
    }

    /// Of these last writes, those that change something. Only before they happen.
    fn changes(&self, mut writes: Vec<MemWrite>) -> Vec<MemWrite> {
        let memory = |write: &MemWrite| self.memory.read_vec(write.addr, write.data.len());
        writes.retain(|write| memory(write).is_ok_and(|data| data != write.data));
        writes
    }

    /// Of these last writes, those that have happened. The memory may be gone, or not be writable: the kernel
    /// does not mind.
    pub fn happened(&self, mut writes: Vec<MemWrite>) -> Vec<MemWrite> {
        // With its last task the process's memory goes, and what it shares with others stays.
        let is_last = self.tasks.len() <= 1;
        let memory = |write: &MemWrite| self.memory.read_vec(write.addr, write.data.len());
        writes.retain(|write| memory(write).map_or(is_last, |data| data == write.data));
        writes
    }

    /// The word that it has named.
    pub fn cleared_word(&self, tid: Tid) -> Option<MemWrite> {
        let clear_tid = self.tasks.get(&tid)?.clear_tid;
        let is_read = clear_tid != 0 && self.tasks.len() > 1;
        is_read.then(|| MemWrite { addr: clear_tid, data: vec![0; 4] })
    }

    /// The robust futexes. Only while the task's memory is there.
    pub fn orphaned_futexes(&self, tid: Tid) -> Vec<MemWrite> {
        const FUTEX_WAITERS: u32 = 0x8000_0000;
        const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
        const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
        /// ROBUST_LIST_LIMIT.
        const ENTRIES_MAX: usize = 2048;
        let Some(task) = self.tasks.get(&tid) else { return Vec::new() };
        let (robust_list, name) = (task.robust_list, task.own_name);
        let mut writes = Vec::new();
        if robust_list != 0 {
            let word = |addr: u64| self.memory.read_u64(addr).unwrap_or(0);
            let (offset, pending) = (word(robust_list + 8), word(robust_list + 16));
            let mut entry = word(robust_list);
            let mut entries = vec![pending];
            while entry & !1 != robust_list && entry != 0 && entries.len() < ENTRIES_MAX {
                entries.push(entry);
                entry = word(entry & !1);
            }
            for entry in entries.into_iter().filter(|entry| *entry != 0) {
                let addr = (entry & !1).wrapping_add(offset);
                if let Ok(value) = self.memory.read_u32(addr)
                    && value & FUTEX_TID_MASK == name.0.cast_unsigned()
                {
                    let value = value & FUTEX_WAITERS | FUTEX_OWNER_DIED;
                    writes.push(MemWrite { addr, data: value.to_le_bytes().to_vec() });
                }
            }
        }
        writes
    }

    /// Where the task has its list of robust futexes, before the kernel forgets it. The hooks make
    /// set_robust_list without a word.
    pub fn ask_robust_list(&mut self, tid: Tid) {
        if let (Ok(head), Some(task)) = (sys::robust_list(tid), self.tasks.get_mut(&tid)) {
            task.robust_list = head;
        }
    }

    /// The task leaves the domain: its last event.
    pub fn gone(&mut self, tid: Tid, status: TaskEnd, writes: Vec<MemWrite>) -> Result<()> {
        let outcome = Box::new(Outcome { writes, ..Outcome::default() });
        self.event(tid, EventKind::TaskExit { status, outcome })?;
        if self.session.options.checksum.is_some() {
            let left = self.tasks.get(&tid).and_then(stack_pointer);
            left.into_iter().for_each(|pointer| self.space.leave_stack(pointer));
        }
        self.tell_end(tid, status);
        self.drop_call(tid);
        self.end_in_hook();
        if self.tasks.remove(&tid).is_some_and(|task| task.own_fds) {
            let differ = self.tasks.values().any(|task| task.own_fds);
            self.set_fds_differ(differ);
        }
        self.turns.leave(tid);
        self.space.scratch_mut().forget(tid);
        let (domain, seq) = (self.id, self.session.writer.next_seq());
        Ok(self.session.writer.meta(&Meta::TaskEnd { domain, tid, status, seq })?)
    }

    /// The task is about to end. It is let go at once, and followed until it is gone, so that what the kernel
    /// does for it has a place in the order of events.
    pub fn exit(&mut self, tid: Tid, wait_status: i32) -> Result<()> {
        let status = if libc::WIFSIGNALED(wait_status) {
            TaskEnd::Killed(Signal(u8::try_from(libc::WTERMSIG(wait_status)).unwrap_or(0)))
        } else {
            TaskEnd::Exited(u8::try_from(libc::WEXITSTATUS(wait_status)).unwrap_or(0))
        };
        self.tell_last_place(tid, status)?;
        self.drain(tid)?;
        self.end_of_clone(tid)?;
        self.write_entry(tid)?;
        self.ask_robust_list(tid);
        let writes = self.last_writes(tid);
        let writes = self.changes(writes);
        let pid = self.task(tid)?.pid;
        let leads_others = tid == pid && self.tasks.values().any(|t| t.pid == pid && t.tid != tid);
        self.task(tid)?.inject = None;
        if self.session.is_init_inside(pid) {
            // The kernel ends all others of its namespace first, and those may wait for what we hold.
            self.release_tokens()?;
        }
        self.resume(tid, Resume::Cont)?;
        if leads_others {
            // The kernel keeps it as a zombie until the last of its threads is gone; or one of them execs and
            // takes its id over, and it is never seen to end.
            while self.task(tid)?.report.is_none() && !self.is_execing(pid) {
                if !tracee_task::is_alive(tid) {
                    self.zombies.insert(tid);
                    break;
                }
                match tracee_task::wait_any(false) {
                    Ok(Some((other, status))) => self.note(other, status),
                    Ok(None) => sys::yield_now(),
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
        self.gone(tid, status, writes)
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
                Ok(Some((other, status))) => self.note(other, status),
                Ok(None) => sys::yield_now(),
                Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
            }
        }
        let writes = self.happened(writes);
        self.gone(tid, TaskEnd::Killed(signal), writes)
    }

    /// Has a thread of this process reported an exec that is not handled yet?
    fn is_execing(&self, pid: Tid) -> bool {
        self.tasks.values().any(|task| task.pid == pid && matches!(task.report, Some(Status::Exec(_))))
    }

    /// The task is gone without having said that it was about to (SIGKILL).
    pub fn lost(&mut self, tid: Tid, status: Status) -> Result<()> {
        let end = match status {
            Status::Exited(code) => TaskEnd::Exited(code),
            Status::Killed(signal) => TaskEnd::Killed(signal),
            _ => TaskEnd::Killed(Signal::KILL),
        };
        self.process_status(tid, status);
        self.drain(tid)?;
        self.end_of_clone(tid)?;
        let writes = self.last_writes(tid);
        let writes = self.happened(writes);
        self.gone(tid, end, writes)
    }

    /// The task ends; had it just made a child?
    pub fn end_of_clone(&mut self, tid: Tid) -> Result<()> {
        match self.task(tid)?.newborn.take() {
            Some(child) => match self.new_task(tid, child, true) {
                Err(RecordError::Tracee(TraceeError::Died(dead))) if dead == child => {
                    self.let_go(child);
                    Ok(())
                }
                other => other,
            },
            None => self.announce_child(tid),
        }
    }
}
