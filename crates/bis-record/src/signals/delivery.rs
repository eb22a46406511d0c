//! How a signal that was kept back comes to its task: only the kernel can bring a task to a signal stop, so
//! another signal is sent that carries the task there. On its way it meets other stops, and what each means
//! is decided as elsewhere (`answers.rs` `Meeting`); the task is resumed here, because it has not arrived
//! yet.

use bis_trace::{
    event::SignalPoint,
    types::{Registers, Signal, Tid},
};
use bis_tracee::{
    Resume, Status,
    siginfo::{Disposition, SigInfo, bit, is_stop, own_pending, shared_pending},
};

use super::kept::Carrier;
use crate::{
    domain::Domain,
    error::Result,
    signals::{Delivery, Meeting, OnTheWay},
    task::{StopsNext, Task},
};

impl Domain {
    /// At the entry of a call, or after an event: delivers a signal that was kept back, if there is one that
    /// is not blocked now. A call is undone; the task will make it when the handler has returned. True: the
    /// task goes on from here, or has a report that is to be looked at first.
    pub fn deliver_stashed(&mut self, tid: Tid, before: &Registers, point: SignalPoint) -> Result<bool> {
        let Some(info) = self.take_open(tid, |_| true)? else { return Ok(false) };
        self.disarm(tid)?;
        if self.task(tid)?.report.is_there() {
            self.task(tid)?.signals.stash.put_first(info);
            return Ok(true);
        }
        // The process may have changed its mind: as if the signal came now.
        let disposition = self.recorder().disposition(tid, info.signal())?;
        match Delivery::of(disposition, self.is_outlived(tid)) {
            Delivery::Drop => Ok(false),
            Delivery::Carry => self.carry_stop(tid, info, point),
            Delivery::End => {
                self.stopped(tid)?.set_regs(before)?;
                let task = self.task(tid)?;
                task.signals.stash.put_first(info);
                task.standing.go_on_midway();
                self.carry(tid, info.signal())?;
                Ok(true)
            }
            Delivery::Bring => {
                self.stopped(tid)?.set_regs(before)?;
                if self.bring(tid, info)? {
                    self.deliver(tid, &info, point)?;
                }
                Ok(true)
            }
        }
    }

    /// Brings the task to the signal stop of a signal that has a handler. Only the kernel can; what the
    /// signal says is replaced there. False: the task was killed, or has stopped with its process, and the
    /// signal is tried again later.
    pub(super) fn bring(&mut self, tid: Tid, info: SigInfo) -> Result<bool> {
        let signal = info.signal();
        let is_neutral = Carrier::is_neutral_for(signal);
        // It would be asked to stop each time that it goes on, before the signal comes.
        self.task(tid)?.to_stop.do_not_stop_next();
        self.carry(tid, signal)?;
        self.resume(tid, Resume::Cont)?;
        loop {
            self.wait_for_report(tid)?;
            let report = self.task(tid)?.report.status();
            let arrived = match report {
                Some(Status::Signal(_)) => Some(SigInfo(self.stopped(tid)?.siginfo()?)),
                _ => None,
            };
            let found = arrived.map(|info| match self.is_neutral_carrier(tid, &info) {
                true => (if is_neutral { signal } else { info.signal() }, is_neutral),
                false => (info.signal(), self.is_carrier(tid, &info)),
            });
            match OnTheWay::of(report, signal, found) {
                OnTheWay::Arrived => break,
                OnTheWay::Meets => {
                    if let Some(arrived) = arrived {
                        self.meet(tid, arrived)?;
                    }
                }
                OnTheWay::GoesOn => {}
                OnTheWay::Fails => {
                    self.task(tid)?.signals.stash.put_first(info);
                    return Ok(false);
                }
            }
            self.task(tid)?.report.be_done();
            self.resume(tid, Resume::Cont)?;
        }
        let task = self.task(tid)?;
        task.report.be_done();
        task.signals.brought.arrive();
        // Its carrier may have been unblocked for it.
        self.unhush(tid)?;
        self.stopped(tid)?.set_siginfo(&info.0)?;
        Ok(true)
    }

    /// On its way to the stop of one signal, the task has come to that of another.
    fn meet(&mut self, tid: Tid, arrived: SigInfo) -> Result<()> {
        if self.is_neutral_carrier(tid, &arrived) {
            // What it was sent for waits in the stash.
            return Ok(());
        }
        let (found, is_carrier) = (arrived.signal(), self.is_carrier(tid, &arrived));
        if found == Signal::CONT && !is_carrier {
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
        }
        match Meeting::of(
            self.recorder().disposition(tid, found)?,
            is_carrier,
            self.others_go_on(),
            self.is_outlived(tid),
        ) {
            Meeting::Drop => Ok(()),
            Meeting::Keep => self.keep_back(tid, arrived),
            Meeting::Give => {
                let task = self.task(tid)?;
                task.signals.coming.give(found);
                let pid = task.pid;
                if is_stop(found) {
                    self.session.about_to_stop(tid);
                    self.session.traced.note_stop(pid);
                }
                Ok(())
            }
        }
    }

    /// A stop or an end that was kept back comes when the call that is about to be made, or the event that is
    /// about to be written, says where the task is. True: the task goes on to it from here.
    fn carry_stop(&mut self, tid: Tid, info: SigInfo, point: SignalPoint) -> Result<bool> {
        self.task(tid)?.signals.stash.put_first(info);
        match (Carrier::is_neutral_for(info.signal()), point) {
            (false, _) => self.carry(tid, info.signal())?,
            (true, SignalPoint::AfterEvent) => self.carry_to_place(tid, info.signal())?,
            // The event comes first ([`Domain::come_to_stop`]).
            (true, SignalPoint::AfterHook) => {}
            (true, _) => self.stop_next(tid, StopsNext::ForKept)?,
        }
        let is_there = point == SignalPoint::AfterEvent;
        if is_there {
            self.task(tid)?.standing.go_on();
        }
        Ok(is_there)
    }

    /// The task is in a call, or where its event has left it, and is brought to this signal there. If
    /// something else comes first and the task goes on, the signal has no place any more, and waits for the
    /// next one.
    fn carry_to_place(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        if self.task(tid)?.call.is_none() {
            let regs = self.stopped(tid)?.regs()?;
            self.task(tid)?.signals.coming.expect_at(regs);
        }
        self.carry(tid, signal)
    }

    /// A stop or SIGCONT that was kept back comes to the task in the call that it is about to make, or right
    /// behind it. Nothing is sent: the call could take it, block it, or see it. The task is asked to stop,
    /// and does so before it executes anything else.
    pub fn stop_next(&mut self, tid: Tid, why: StopsNext) -> Result<()> {
        self.task(tid)?.to_stop.stop_next(why);
        Ok(())
    }

    /// The task has been asked to stop, and stands in a call, or where its event has left it: here a stop or
    /// SIGCONT comes to it that was kept back. True: the task goes on to it.
    pub fn come_to_stop(&mut self, tid: Tid) -> Result<bool> {
        let Some(info) = self.take_open(tid, |info| Carrier::is_neutral_for(info.signal()))? else {
            return Ok(false);
        };
        let disposition = self.recorder().disposition(tid, info.signal())?;
        if matches!(disposition, Disposition::Stop | Disposition::Handler) {
            return self.carry_stop(tid, info, SignalPoint::AfterEvent);
        }
        self.task(tid)?.signals.stash.put_first(info);
        Ok(false)
    }

    /// The stop or SIGCONT that was kept back and has its place here, in the stop of the signal that was sent
    /// for it ([`Crew::carry`]). None: it is no more to come, or not here. `is_told`: the task is in a call,
    /// or where its event has left it.
    pub(super) fn take_neutral(&mut self, tid: Tid, is_told: bool) -> Result<Option<SigInfo>> {
        if self.hear_of_cont(tid)? {
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
        }
        if !is_told {
            return Ok(None);
        }
        let Some(info) = self.take_open(tid, |info| Carrier::is_neutral_for(info.signal()))? else {
            return Ok(None);
        };
        let disposition = self.recorder().disposition(tid, info.signal())?;
        if !matches!(disposition, Disposition::Stop | Disposition::Handler) {
            self.task(tid)?.signals.stash.put_first(info);
            return Ok(None);
        }
        self.stopped(tid)?.set_siginfo(&info.0)?;
        Ok(Some(info))
    }

    /// Has SIGCONT been sent to the task's process since it was sent the last stop? It waits then, or another
    /// task has come to its stop, and that has not been looked at. A stop that is sent takes back each
    /// SIGCONT that waits. But one that the other task had taken before that was sent earlier, and nobody can
    /// tell: it counts all the same, because a stop that is lost does less harm than one that nothing ends.
    fn hear_of_cont(&mut self, tid: Tid) -> Result<bool> {
        let cont = bit(Signal::CONT);
        if (own_pending(tid) | shared_pending(tid)) & cont != 0 {
            return Ok(true);
        }
        let pid = self.task(tid)?.pid;
        let is_other = |task: &&Task| task.pid == pid && task.tid != tid;
        let others: Vec<Tid> = self.tasks.values().filter(is_other).map(|task| task.tid).collect();
        for other in others {
            self.recorder().note_if_reported(other)?;
            let has_taken = self.task(other)?.report.status() == Some(Status::Signal(Signal::CONT));
            if has_taken || own_pending(other) & cont != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
