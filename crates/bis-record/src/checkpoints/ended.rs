//! Threads that end while a checkpoint has them.
//!
//! A thread that has ended cannot be made again with its own id, which the C library keeps in many places,
//! without a privilege (CAP_CHECKPOINT_RESTORE). So the end of a thread that a checkpoint knows is an end for
//! others only. The recorder does all that the kernel does at an end: the word that the thread has named is
//! cleared, its robust futexes are given up, and the tasks that wait for them are woken. The trace has the
//! thread's end, and the thread is not among the tasks any more. But its kernel thread is parked in the
//! agent, with all signals blocked. Nobody traces it, so that nothing waits for it: an exec and the end of
//! the process take it along. When no checkpoint has it any more, it ends. The way back to a checkpoint that
//! has it takes it over again.
//!
//! The first thread of a process ends as ever: the kernel tells of the process's end by it.

use bis_agent::UNTRACED_SYSCALL;
use bis_syscalls::{Call, Handler, Receiver, row};
use bis_trace::{
    event::{MemWrite, Meta, TaskEnd},
    types::{Addr, Registers, Tid},
};
use bis_tracee::{TraceeError, handover::Parked, place, remote::Remote};

use super::held::{Checkpoint, Ended};
use crate::{
    calls::Entry,
    crew::with_slot,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    task::{Handle, Task, ToStop},
};

const FUTEX_WAKE: u64 = libc::FUTEX_WAKE as u64;

impl Domain {
    /// What calls come to that end threads, or concern threads that have ended for others.
    pub fn enter_ended(&mut self, tid: Tid, call: &Call) -> Result<Option<Entry>> {
        if let Some(Receiver::Thread(thread)) = row(call.nr).and_then(|row| row.receiver) {
            let name = Tid(call.i32(thread.into()));
            let is_meant = self.checkpoints.ended.values().any(|ended| ended.own_name == name);
            return Ok(is_meant.then_some(Entry::Done(-i64::from(libc::ESRCH))));
        }
        if self.call(tid)?.handler() != Some(Handler::Exit) {
            return Ok(None);
        }
        if self.comes_back(tid) {
            self.write_entry(tid)?;
            self.end_for_others(tid, call.args[0].to_le_bytes()[0])?;
            return Ok(Some(Entry::Undone));
        }
        if !self.checkpoints.ended.is_empty() {
            let pid = self.task(tid)?.pid;
            if self.tasks.values().all(|task| task.pid != pid || task.tid == tid) {
                // The process ends with it.
                self.recorder().end_ended(|_| true)?;
            }
        }
        Ok(None)
    }

    /// May a way back want this thread again?
    pub(super) fn comes_back(&self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        self.checkpoints.by_handle.values().any(|checkpoint| checkpoint.tasks.contains_key(&tid))
            && task.pid != tid
            && !task.own_fds
            && self.tasks.values().any(|other| other.pid == task.pid && other.tid != tid)
            && !self.session.traced.is_used()
    }

    /// The stopped thread ends as far as others see, with this code.
    pub(super) fn end_for_others(&mut self, tid: Tid, code: u8) -> Result<()> {
        self.ask_robust_list(tid);
        let robust = self.orphaned_futexes(tid);
        let cleared = self.cleared_word(tid);
        let had_waiters = |write: &MemWrite| {
            self.memory.read_u32(write.addr).is_ok_and(|value| value & libc::FUTEX_WAITERS != 0)
        };
        let mut wakes: Vec<Addr> =
            robust.iter().filter(|write| had_waiters(write)).map(|write| write.addr).collect();
        wakes.extend(cleared.iter().map(|write| write.addr));
        let mut writes: Vec<MemWrite> = robust.into_iter().chain(cleared).collect();
        writes.retain(|write| self.memory.write(write.addr, &write.data).is_ok());
        let waits = self.stopped(tid)?.shared_pending()?;
        with_slot(self, tid, |_, slot| {
            let mut remote = Remote::new(slot)?;
            // When it ends after all, that is nobody's business.
            remote.call(libc::SYS_set_tid_address, [0; 6])?;
            remote.call(libc::SYS_set_robust_list, [0, 24, 0, 0, 0, 0])?;
            for addr in wakes {
                remote.call(libc::SYS_futex, [addr.0, FUTEX_WAKE, 1, 0, 0, 0])?;
            }
            Ok(remote.finish()?)
        })?;
        let task = self.task(tid)?;
        let (pid, own_name, traits) = (task.pid, task.own_name, task.traits.clone());
        let Handle::Stopped(stopped) = std::mem::replace(&mut task.handle, Handle::Taken) else {
            return Err(RecordError::Bug { tid, what: "ends while it runs".into() });
        };
        let cores = self.session.affinities.of(tid);
        // Nobody would know of one that it meets when it has come back.
        place::clear_breakpoint(tid)?;
        let parked = Some(Parked::park(stopped)?);
        self.checkpoints.ended.insert(tid, Ended { parked, pid, own_name, traits, cores });
        self.gone(tid, TaskEnd::Exited(code), writes)?;
        if !waits.is_empty() {
            // One of the others may be the one to take a signal that was this one's until now: it looks when
            // it is stopped.
            let others: Vec<Tid> = self.tasks.keys().copied().collect();
            others.into_iter().try_for_each(|other| self.halt(other))?;
        }
        Ok(())
    }

    /// Is the thread there, or can it come back?
    pub(super) fn can_come_back(&self, tid: Tid) -> bool {
        self.checkpoints.ended.contains_key(&tid) && bis_tracee::task::is_alive(tid)
    }

    /// Takes the threads over again that this checkpoint has and that have ended since: they are tasks again,
    /// stopped. Returns their numbers.
    pub(super) fn bring_back(&mut self, checkpoint: &Checkpoint) -> Result<Vec<Tid>> {
        let mut back = Vec::new();
        for tid in checkpoint.tasks.keys().copied() {
            let Some(mut ended) = self.checkpoints.ended.remove(&tid) else { continue };
            let Some(parked) = ended.parked.take() else { continue };
            let (stopped, is_halted) = self.session.halted.take_over(parked)?;
            let (own_name, traits) = (ended.own_name, ended.traits.clone());
            let to_stop = ToStop::of_process(is_halted);
            let task = Task { own_name, traits, to_stop, ..Task::new(stopped, ended.pid) };
            self.tasks.insert(tid, task);
            if let Some(cores) = ended.cores.take() {
                self.session.affinities.set(tid, cores);
            }
            self.turns.join(tid);
            let seq = self.session.writer.next_seq();
            self.session.writer.meta(&Meta::Task { domain: self.id, tid, pid: ended.pid, seq })?;
            back.push(tid);
        }
        if !back.is_empty() {
            self.pin();
        }
        Ok(back)
    }
}

impl Recorder<'_> {
    /// Ends those threads that no checkpoint has any more.
    pub(super) fn end_unknown(&mut self) -> Result<()> {
        let known = |tid: Tid, recorder: &Recorder| {
            recorder.checkpoints.by_handle.values().any(|checkpoint| checkpoint.tasks.contains_key(&tid))
        };
        let unknown: Vec<Tid> =
            self.checkpoints.ended.keys().copied().filter(|tid| !known(*tid, self)).collect();
        self.end_ended(|tid| unknown.contains(&tid))
    }

    /// Ends those of the threads that have ended for others.
    fn end_ended(&mut self, is_meant: impl Fn(Tid) -> bool) -> Result<()> {
        let tids: Vec<Tid> = self.checkpoints.ended.keys().copied().filter(|tid| is_meant(*tid)).collect();
        for tid in tids {
            let Some(mut ended) = self.checkpoints.ended.remove(&tid) else { continue };
            let Some(parked) = ended.parked.take() else { continue };
            let end = || {
                let (mut stopped, _) = parked.seize()?;
                let regs = stopped.regs()?;
                stopped.set_sigmask(u64::MAX)?;
                stopped.set_regs(&Registers {
                    rip: UNTRACED_SYSCALL,
                    rax: libc::SYS_exit.cast_unsigned(),
                    orig_rax: u64::MAX,
                    rdi: 0,
                    ..regs
                })?;
                stopped.detach().map(drop)
            };
            match end() {
                Ok(()) | Err(TraceeError::Died(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
