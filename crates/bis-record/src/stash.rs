//! Signals that are kept back until there is a place for them, and how they come to the task then: only the kernel can bring a task
//! to a signal stop, so another is sent that carries them there.

use bis_trace::{
    event::SignalPoint,
    types::{Registers, Signal, Tid},
};
use bis_tracee::{
    Resume, Status,
    siginfo::{Disposition, SigInfo, is_of_instructions, is_stop},
    sys,
};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    signals::{Meeting, bit},
    task::Handle,
};

/// si_code of a signal with a value (sigqueue).
const SI_QUEUE: i32 = -1;

impl Domain {
    /// Keeps a signal until there is a place for it. While one waits here, the kernel queues the next: of a timer that would be
    /// one after another, and the task would never be done with them.
    pub fn keep_back(&mut self, tid: Tid, info: SigInfo) -> Result<()> {
        let stash = &mut self.task(tid)?.stash;
        match stash.iter_mut().find(|other| other.is_queued_once_with(&info)) {
            Some(waiting) => *waiting = waiting.with_overruns_of(&info),
            None => stash.push_back(info),
        }
        Ok(())
    }

    /// While a timer's signal waits here, its next one is blocked until the task's next stop ([`Domain::unhush`]). On a busy machine
    /// a fast timer might otherwise stop the task each time before it has executed anything.
    ///
    /// No system call sees the mask: while something waits, hooks leave their calls to be traced ([`Domain::prepare`]), and a traced
    /// call stops before it is made. A task in a hook makes none there that could tell: the one that it is in has become a traced one, or has been
    /// made ([`Domain::signal_in_hook`]). But if there were another thread, the kernel would give it the signal.
    pub fn hush(&mut self, tid: Tid) -> Result<()> {
        if self.tasks.len() > 1 {
            return Ok(());
        }
        let task = self.task(tid)?;
        // One that an instruction raises while it is blocked would be the end of the process.
        let timers =
            task.stash.iter().filter(|info| info.is_of_timer() && !is_of_instructions(info.signal()));
        let timers = timers.fold(0, |mask, info| mask | bit(info.signal()));
        if timers == 0 || task.counter.is_some() || task.hushed.is_some() {
            return Ok(());
        }
        let mask = self.stopped(tid)?.sigmask()?;
        self.stopped(tid)?.set_sigmask(mask | timers)?;
        self.task(tid)?.hushed = Some(mask);
        Ok(())
    }

    /// The task has stopped: it has its own mask again.
    pub fn unhush(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        if let Some(mask) = task.hushed.take()
            && let Handle::Stopped(stopped) = &mut task.handle
        {
            stopped.set_sigmask(mask)?;
        }
        Ok(())
    }

    /// The process is to go on: stops that its tasks have not come to yet are none any more.
    pub fn unstop(&mut self, pid: Tid) {
        for task in self.tasks.values_mut().filter(|task| task.pid == pid) {
            task.stash.retain(|info| !is_stop(info.signal()));
        }
    }

    /// Sends a signal that only brings the task to a signal stop.
    pub fn carry(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        let task = self.task(tid)?;
        task.carries = Some(signal);
        match sys::carry(task.pid, tid, signal) {
            Err(error) if error.is_out_of_signals() => {
                let what = "has as many signals waiting as it may (ulimit -i; raise it)".into();
                Err(RecordError::Unsupported { tid, what })
            }
            other => Ok(other?),
        }
    }

    /// Is it the signal that we sent ourselves to bring a task to a signal stop? Where as many wait as may (RLIMIT_SIGPENDING), the
    /// kernel sends it all the same, but forgets what was to be told with it.
    pub fn is_carrier(&self, tid: Tid, info: &SigInfo) -> bool {
        let is_ours = info.code() == SI_QUEUE && info.value() == sys::carried_value();
        let carries = self.tasks.get(&tid).and_then(|task| task.carries);
        is_ours || carries == Some(info.signal()) && info.is_bare()
    }

    /// At the entry of a call, or after an event: delivers a signal that was kept back, if there is one that is not blocked
    /// now. A call is undone; the task will make it when the handler has returned. True: the task goes on from here, or has a
    /// report that is to be looked at first.
    pub fn deliver_stashed(&mut self, tid: Tid, before: &Registers, point: SignalPoint) -> Result<bool> {
        let Some(info) = self.take_open(tid)? else { return Ok(false) };
        self.disarm(tid)?;
        if self.task(tid)?.report.is_some() {
            self.task(tid)?.stash.push_front(info);
            return Ok(true);
        }
        // The process may have changed its mind: as if the signal came now.
        match self.disposition(tid, info.signal())? {
            Disposition::Ignore => Ok(false),
            Disposition::Stop => self.carry_stop(tid, info, point),
            Disposition::Fatal => {
                self.stopped(tid)?.set_regs(before)?;
                let task = self.task(tid)?;
                task.stash.push_front(info);
                task.standing.go_on_midway();
                self.carry(tid, info.signal())?;
                Ok(true)
            }
            Disposition::Handler => {
                self.stopped(tid)?.set_regs(before)?;
                if self.bring(tid, info)? {
                    self.deliver(tid, &info, point)?;
                }
                Ok(true)
            }
        }
    }

    /// The first signal that was kept back and is not blocked.
    fn take_open(&mut self, tid: Tid) -> Result<Option<SigInfo>> {
        if self.task(tid)?.stash.is_empty() {
            return Ok(None);
        }
        let mask = self.stopped(tid)?.sigmask()?;
        let stash = &mut self.task(tid)?.stash;
        let at = stash.iter().position(|info| mask & bit(info.signal()) == 0);
        Ok(at.and_then(|at| stash.remove(at)))
    }

    /// A stop that was kept back comes when the call that is about to be made, or the event that is about to be written, says where
    /// the task is. True: the task goes on to it from here.
    fn carry_stop(&mut self, tid: Tid, info: SigInfo, point: SignalPoint) -> Result<bool> {
        let pending = self.stopped(tid)?.pending()?;
        if pending.iter().any(|info| SigInfo(*info).signal() == Signal::CONT) {
            // Sent again, it would take back what is to take it back.
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
            return Ok(false);
        }
        self.task(tid)?.stash.push_front(info);
        self.carry(tid, info.signal())?;
        let is_there = point == SignalPoint::AfterEvent;
        if is_there {
            self.task(tid)?.standing.go_on();
        }
        Ok(is_there)
    }

    /// Brings the task to the signal stop of a signal that has a handler. Only the kernel can; what the signal says is
    /// replaced there. False: the task was killed, or has stopped with its process, and the signal is tried again later.
    fn bring(&mut self, tid: Tid, info: SigInfo) -> Result<bool> {
        let signal = info.signal();
        self.carry(tid, signal)?;
        self.resume(tid, Resume::Cont)?;
        loop {
            self.wait_for_report(tid)?;
            match self.task(tid)?.report {
                Some(Status::Signal(_)) => {
                    let arrived = SigInfo(self.stopped(tid)?.siginfo()?);
                    if arrived.signal() == signal && self.is_carrier(tid, &arrived) {
                        break;
                    }
                    self.meet(tid, arrived)?;
                }
                // SIGCONT interrupts its target before it arrives there.
                Some(Status::Trap) => {}
                _ => {
                    self.task(tid)?.stash.push_front(info);
                    return Ok(false);
                }
            }
            self.task(tid)?.report = None;
            self.resume(tid, Resume::Cont)?;
        }
        let task = self.task(tid)?;
        (task.report, task.carries) = (None, None);
        self.stopped(tid)?.set_siginfo(&info.0)?;
        Ok(true)
    }

    /// On its way to the stop of one signal, the task has come to that of another.
    fn meet(&mut self, tid: Tid, arrived: SigInfo) -> Result<()> {
        let (found, is_carrier) = (arrived.signal(), self.is_carrier(tid, &arrived));
        if found == Signal::CONT && !is_carrier {
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
        }
        match Meeting::of(self.disposition(tid, found)?, is_carrier, self.others_go_on()) {
            Meeting::Drop => Ok(()),
            Meeting::Keep => self.keep_back(tid, arrived),
            Meeting::Give => {
                self.task(tid)?.inject = Some(found);
                Ok(())
            }
        }
    }
}
