//! Which signals wait for a task, what the kernel would do with them, and which is to come before the task
//! goes on: questions.

use bis_agent::hooks::state;
use bis_syscalls::{Call, Receiver, row};
use bis_trace::types::{Addr, Registers, Signal, Tid};
use bis_tracee::siginfo::{Disposition, SigInfo, bit, disposition, has_open, may_take};

use super::{
    asked::{Asked, Moment},
    kept::Carrier,
};
use crate::{crew::Crew, domain::Domain, error::Result, events::Recorder, task::Task};

impl Domain {
    /// While the task is stopped, could others do what it would see: threads, or processes that share memory
    /// with it?
    pub fn others_go_on(&self) -> bool {
        self.tasks.len() > 1 || self.holds_tokens()
    }

    /// Is there memory that others see when the task's process has ended: that of another process with the
    /// same address space, or shared memory?
    pub fn is_outlived(&self, tid: Tid) -> bool {
        let pid = self.tasks.get(&tid).map(|task| task.pid);
        self.holds_tokens() || self.tasks.values().any(|task| Some(task.pid) != pid)
    }
}

impl Recorder<'_> {
    /// What /proc says of the signal. It says the same for as long as no task of the domain has made a call:
    /// a timer that fires every 50 µs would leave the program no time if it were asked each time.
    pub fn kernels_disposition(&mut self, tid: Tid, signal: Signal) -> Disposition {
        let word = |at| self.hooks.as_ref().map_or(0, |hooks| hooks.area.get(at));
        let moment = Moment { events: self.journal.count(), logged: word(state::POS) };
        let computes =
            word(state::IN_HOOK) == 0 && self.tasks.get(&tid).is_some_and(|task| task.call.is_none());
        if let Some(asked) = self.asked.as_ref().filter(|_| computes)
            && let Some(disposition) = asked.answer(tid, signal, moment)
        {
            return disposition;
        }
        let disposition = disposition(tid, signal);
        self.asked = Some(Asked::new(tid, signal, moment, disposition));
        disposition
    }

    /// What the kernel will do with a signal for this task. The first process of a pid namespace gets none
    /// that it has no handler for, but for SIGKILL and SIGSTOP.
    pub fn disposition(&mut self, tid: Tid, signal: Signal) -> Result<Disposition> {
        let disposition = self.kernels_disposition(tid, signal);
        let stop = i32::from(signal.0) == libc::SIGSTOP;
        let default = matches!(disposition, Disposition::Fatal | Disposition::Stop);
        if default && signal != Signal::KILL && !stop {
            let pid = self.task(tid)?.pid;
            if self.session.is_init_inside(pid) {
                return Ok(Disposition::Ignore);
            }
        }
        Ok(disposition)
    }
}

impl Crew {
    /// The signals that the kernel has for this task and that are not blocked.
    pub fn deliverable(&self, tid: Tid) -> Result<Vec<SigInfo>> {
        let stopped = self.stopped_ref(tid)?;
        let pending = stopped.pending()?;
        if pending.is_empty() {
            return Ok(Vec::new());
        }
        let mask = stopped.sigmask()?;
        Ok(pending.into_iter().map(SigInfo).filter(|info| mask & bit(info.signal()) == 0).collect())
    }

    /// Has nothing interrupted this task's call but us? That is so where all signals that wait for it, and
    /// are not blocked, are ones that its process ignores or that the first thread gets. Where none waits, we
    /// have asked it to stop, or it was woken for one that another thread has taken.
    pub fn is_interrupted_by_us(&self, tid: Tid) -> Result<bool> {
        if self.task_ref(tid)?.to_stop.is_for_interrupting() {
            // A stop that was kept back, or the handler of SIGCONT, comes behind the call.
            return Ok(false);
        }
        let open = self.deliverable(tid)?;
        if open.is_empty() {
            return Ok(self.task_ref(tid)?.to_stop.is_asked() || self.tasks.len() > 1 && !has_open(tid));
        }
        for info in open {
            let is_ignored = disposition(tid, info.signal()) == Disposition::Ignore;
            if !is_ignored && self.first_for(tid, &info)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first thread of a task's process, if such a signal, which the task has taken or would take, is
    /// that one's to handle (`first.rs`).
    pub fn first_for(&self, tid: Tid, info: &SigInfo) -> Result<Option<Tid>> {
        let task = self.task_ref(tid)?;
        let (first, is_carried) =
            (task.pid, task.signals.brought.carrier() == Some(Carrier::Same(info.signal())));
        // Of one of which the kernel has kept nothing but the number, nobody knows whom it was sent to.
        if first == tid || is_carried || info.is_bare() || !info.is_of_process() {
            return Ok(None);
        }
        // One that its tracer holds is passed over natively, too; and one that waits for a signal would take
        // what carries it.
        let is_free = |task: &Task| {
            let call = task.call.as_ref().and_then(|call| row(call.entry.nr()));
            let waits = call.is_some_and(|row| row.takes_signals);
            task.pid == first
                && task.signals.brought.carrier().is_none()
                && !task.for_tracer.is_held()
                && !waits
        };
        let is_there = self.tasks.get(&first).is_some_and(is_free);
        let has_handler = || disposition(tid, info.signal()) == Disposition::Handler;
        Ok((is_there && has_handler() && may_take(first, info.signal())).then_some(first))
    }

    /// Once only, as the kernel queues it.
    fn note_queued(&mut self, info: &SigInfo) {
        if info.is_fault() && !self.queued_faults.iter().any(|queued| queued.is_same(info)) {
            self.queued_faults.push(*info);
        }
    }

    /// Takes this fault out of those that the kernel has queued. True: it was one of them.
    ///
    /// A process may send itself what looks like a fault (handlers of crashes do, to have the default action
    /// after all); and where a call has ended in a fault, as rt_sigreturn from a bad frame does, the kernel
    /// has queued it. No instruction raises such a one in replay.
    pub fn take_queued(&mut self, info: &SigInfo) -> bool {
        let at = self.queued_faults.iter().position(|queued| queued.is_same(info));
        at.map(|at| self.queued_faults.swap_remove(at)).is_some()
    }

    /// Such a call has succeeded (rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal): `signal` was sent,
    /// with the information at `addr`.
    pub fn leave_queue(&mut self, signal: u64, addr: Addr) {
        // Without one, the kernel writes it: who has sent it.
        if !addr.is_null()
            && let Some(info) = SigInfo::read(&self.memory, addr)
        {
            self.note_queued(&info.of_signal(Signal(u8::try_from(signal).unwrap_or(0))));
        }
    }

    /// The task stands where its event has left it, with these registers: is a signal to come before it goes
    /// on from there? So it is for one that was sent before whatever the event tells of.
    pub fn expect_signal(&mut self, tid: Tid, regs: &Registers) -> Result<()> {
        let open = self.deliverable(tid)?;
        open.iter().for_each(|info| self.note_queued(info));
        let coming = &mut self.task(tid)?.signals.coming;
        match open.is_empty() {
            true => coming.expect_none(),
            false => coming.expect_at(*regs),
        }
        Ok(())
    }

    /// As [`Crew::expect_signal`], after a call. That may have sent the task itself a signal of which the
    /// kernel kept nothing but the number (see [`Crew::is_carrier`]): so it may be with those that are sent
    /// with more than that, or by tgkill.
    pub fn expect_signal_of(&mut self, tid: Tid, call: &Call, regs: &Registers) -> Result<()> {
        self.expect_signal(tid, regs)?;
        let to_itself = match row(call.nr).and_then(|row| row.receiver) {
            Some(Receiver::Process(pid)) => call.i32(pid.into()) == self.task(tid)?.pid.0,
            Some(Receiver::Thread(thread)) => call.i32(thread.into()) == tid.0,
            None => false,
        };
        if to_itself && !self.task(tid)?.signals.coming.is_expected() && has_open(tid) {
            self.task(tid)?.signals.coming.expect_at(*regs);
        }
        Ok(())
    }
}
