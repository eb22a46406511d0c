//! Signals that are kept back until there is a place for them, and the signal that is sent to bring a task to
//! a signal stop. How a kept signal comes to its task then is in `delivery.rs`.

use bis_trace::types::{Signal, Tid};
use bis_tracee::{
    siginfo::{SigInfo, bit, blocked, own_pending},
    sys,
};

use super::kept::Carrier;
use crate::{
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    task::Handle,
};

impl Domain {
    /// Keeps a signal until there is a place for it. While one waits here, the kernel queues the next: of a
    /// timer that would be one after another, and the task would never be done with them.
    pub fn keep_back(&mut self, tid: Tid, info: SigInfo) -> Result<()> {
        self.task(tid)?.signals.stash.keep(info);
        Ok(())
    }
}

impl Crew {
    /// While a timer's signal waits here, its next one is blocked until the task's next stop
    /// ([`Crew::unhush`]); where its counts are had by steps, until it has made some of them. On a busy
    /// machine a fast timer might otherwise stop the task each time before it has executed anything.
    ///
    /// No system call sees the mask: while something waits, hooks leave their calls to be traced
    /// ([`Domain::prepare`]), and a traced call stops before it is made. A task in a hook makes none there
    /// that could tell: the one that it is in has become a traced one, or has been made
    /// ([`Domain::keep_signal_in_hook`]). But if there were another thread, the kernel would give that the
    /// signal.
    pub fn hush(&mut self, tid: Tid) -> Result<()> {
        if self.tasks.len() > 1 {
            return Ok(());
        }
        let task = self.task(tid)?;
        let timers = task.signals.stash.timers();
        if timers == 0 || task.signals.own_mask.is_kept() {
            return Ok(());
        }
        let mask = self.stopped(tid)?.sigmask()?;
        self.stopped(tid)?.set_sigmask(mask | timers)?;
        self.task(tid)?.signals.own_mask.keep(mask);
        Ok(())
    }

    /// As [`Crew::hush`], for steps of the recorder's own, and for breakpoints of it that the task comes to
    /// at once: the trap of one must not find SIGTRAP blocked, because the kernel would take its handler away
    /// from the program then, and unblock it (`force_sig_info_to_task` in its `signal.c`). One that waits to
    /// be let through stays where it is.
    pub fn hush_for_steps(&mut self, tid: Tid) -> Result<()> {
        self.hush(tid)?;
        let stopped = self.stopped(tid)?;
        let mask = stopped.sigmask()?;
        let waits =
            |pending: &[[u8; 128]]| pending.iter().any(|info| SigInfo(*info).signal() == Signal::TRAP);
        if mask & bit(Signal::TRAP) == 0 || waits(&stopped.pending()?) {
            return Ok(());
        }
        stopped.set_sigmask(mask & !bit(Signal::TRAP))?;
        self.task(tid)?.signals.own_mask.keep(mask);
        Ok(())
    }

    /// The task has stopped: it has its own mask again.
    pub fn unhush(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        if let Some(mask) = task.signals.own_mask.take()
            && let Handle::Stopped(stopped) = &mut task.handle
        {
            stopped.set_sigmask(mask)?;
        }
        Ok(())
    }

    /// The process is to go on: stops that its tasks have not come to yet are none any more.
    pub fn unstop(&mut self, pid: Tid) {
        for task in self.tasks.values_mut().filter(|task| task.pid == pid) {
            task.signals.drop_stops();
            if !task.signals.stash.has_neutral() {
                task.to_stop.do_not_stop_next();
            }
        }
    }

    /// Sends a signal that only brings the task to the signal stop of `signal`, which is in the stash.
    pub fn carry(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        match Carrier::is_neutral_for(signal) {
            true => self.carry_neutral(tid),
            false => self.send_carrier(tid, Carrier::Same(signal)),
        }
    }

    /// As [`Crew::carry`], for a stop or SIGCONT. A task that is stopped stands at the place for it, and
    /// executes nothing before it arrives. Of what comes meanwhile, the kernel knows in that stop how it
    /// bears on a stop: a SIGCONT that is sent then makes it none (`ptrace_signal` and `do_signal_stop` in
    /// its `signal.c`). A task that runs is to come out of its call. Where it blocks all signals that could
    /// bring it to that, what is kept comes at its next place.
    fn carry_neutral(&mut self, tid: Tid) -> Result<()> {
        let is_stopped = matches!(self.task(tid)?.handle, Handle::Stopped(_));
        let mask = if is_stopped { self.stopped(tid)?.sigmask()? } else { blocked(tid) };
        // A timer's may be blocked when the task goes on ([`Crew::hush`]).
        let (unusable, waiting) = (mask | self.task(tid)?.signals.stash.timers(), own_pending(tid));
        for is_queued in [true, false] {
            let signal = Carrier::neutral(unusable, waiting, is_queued);
            if mask & bit(signal) != 0 && is_stopped {
                self.stopped(tid)?.set_sigmask(mask & !bit(signal))?;
                self.task(tid)?.signals.own_mask.keep(mask);
            }
            match self.send_carrier(tid, Carrier::Neutral(signal)) {
                // Of a classic one, the kernel sends the number all the same.
                Err(RecordError::Unsupported { .. }) if is_queued => {}
                other => return other,
            }
        }
        Ok(())
    }

    fn send_carrier(&mut self, tid: Tid, carrier: Carrier) -> Result<()> {
        let task = self.task(tid)?;
        task.signals.brought.send(carrier);
        let value = match carrier {
            Carrier::Same(_) => sys::carried_value(),
            Carrier::Neutral(_) => sys::neutral_value(),
        };
        match sys::carry(task.pid, tid, carrier.signal(), value) {
            Err(error) if error.is_out_of_signals() => {
                let what = "has as many signals waiting as it may (ulimit -i; raise it)".into();
                Err(RecordError::Unsupported { tid, what })
            }
            other => Ok(other?),
        }
    }

    /// Is it a signal that we sent ourselves to bring a task to a signal stop? Where as many wait as may
    /// (RLIMIT_SIGPENDING), the kernel sends it all the same, but forgets what was to be told with it.
    pub fn is_carrier(&self, tid: Tid, info: &SigInfo) -> bool {
        let is_ours = info.code() == libc::SI_QUEUE && info.value() == sys::carried_value();
        let carries = self.tasks.get(&tid).and_then(|task| task.signals.brought.carrier());
        let is_bare = carries == Some(Carrier::Same(info.signal())) && info.is_bare();
        is_ours || is_bare || self.is_neutral_carrier(tid, info)
    }

    /// Is it one whose number means nothing?
    pub fn is_neutral_carrier(&self, tid: Tid, info: &SigInfo) -> bool {
        let is_ours = info.code() == libc::SI_QUEUE && info.value() == sys::neutral_value();
        let carries = self.tasks.get(&tid).and_then(|task| task.signals.brought.carrier());
        is_ours || carries == Some(Carrier::Neutral(info.signal())) && info.is_bare()
    }

    /// The first signal that was kept back, is not blocked, and is `wanted`.
    pub fn take_open(&mut self, tid: Tid, wanted: impl Fn(&SigInfo) -> bool) -> Result<Option<SigInfo>> {
        if self.task(tid)?.signals.stash.is_empty() {
            return Ok(None);
        }
        let mask = self.stopped(tid)?.sigmask()?;
        Ok(self.task(tid)?.signals.stash.take_open(mask, wanted))
    }
}
