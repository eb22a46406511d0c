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
    siginfo::{SigInfo, is_stop},
};

use crate::{
    crew::Crew,
    domain::Domain,
    error::Result,
    signals::{Delivery, Meeting, OnTheWay},
};

impl Domain {
    /// At the entry of a call, or after an event: delivers a signal that was kept back, if there is one that
    /// is not blocked now. A call is undone; the task will make it when the handler has returned. True: the
    /// task goes on from here, or has a report that is to be looked at first.
    pub fn deliver_stashed(&mut self, tid: Tid, before: &Registers, point: SignalPoint) -> Result<bool> {
        let Some(info) = self.take_open(tid, |_| true)? else { return Ok(false) };
        self.disarm(tid)?;
        if self.task(tid)?.report.is_some() {
            self.task(tid)?.stash.put_first(info);
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
                task.stash.put_first(info);
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
        self.carry(tid, signal)?;
        self.resume(tid, Resume::Cont)?;
        loop {
            self.wait_for_report(tid)?;
            let report = self.task(tid)?.report;
            let arrived = match report {
                Some(Status::Signal(_)) => Some(SigInfo(self.stopped(tid)?.siginfo()?)),
                _ => None,
            };
            let found = arrived.map(|info| (info.signal(), self.is_carrier(tid, &info)));
            match OnTheWay::of(report, signal, found) {
                OnTheWay::Arrived => break,
                OnTheWay::Meets => {
                    if let Some(arrived) = arrived {
                        self.meet(tid, arrived)?;
                    }
                }
                OnTheWay::GoesOn => {}
                OnTheWay::Fails => {
                    self.task(tid)?.stash.put_first(info);
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
                task.inject = Some(found);
                let pid = task.pid;
                if is_stop(found) {
                    self.session.about_to_stop(tid);
                    self.session.traced.stops(pid);
                }
                Ok(())
            }
        }
    }
}

impl Crew {
    /// A stop or an end that was kept back comes when the call that is about to be made, or the event that is
    /// about to be written, says where the task is. True: the task goes on to it from here.
    fn carry_stop(&mut self, tid: Tid, info: SigInfo, point: SignalPoint) -> Result<bool> {
        let pending = self.stopped(tid)?.pending()?;
        if is_stop(info.signal()) && pending.iter().any(|info| SigInfo(*info).signal() == Signal::CONT) {
            // Sent again, it would take back what is to take it back.
            let pid = self.task(tid)?.pid;
            self.unstop(pid);
            return Ok(false);
        }
        self.task(tid)?.stash.put_first(info);
        self.carry(tid, info.signal())?;
        let is_there = point == SignalPoint::AfterEvent;
        if is_there {
            self.task(tid)?.standing.go_on();
        }
        Ok(is_there)
    }
}
