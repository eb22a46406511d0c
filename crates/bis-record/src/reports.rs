//! What is done about a report: one place says which part of the house it is for, carries out the answer how
//! the task goes on, and says what becomes of one that was killed under our hands meanwhile.

use bis_trace::types::{Signal, Tid};
use bis_tracee::{Resume, Status, TraceeError, ours};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    seed::Seed,
    task::{Handle, Onward},
};

impl Domain {
    /// Handles the report of a task. Returns the seed of the domain to go on with, where the last task of
    /// this one has exec'd.
    pub fn handle(&mut self, tid: Tid) -> Result<Option<Seed>> {
        let Some(status) = self.task(tid)?.report.take() else { return Ok(None) };
        let told = self.session.traced.is_used() && self.tasks.contains_key(&tid);
        let holds = |domain: &mut Domain| match domain.unhush(tid) {
            Ok(()) if told => domain.hold_if_told(tid, status),
            other => other.map(|()| false),
        };
        let stays = |()| Onward::Stays;
        let onward = match (holds(self), status) {
            (Err(error), _) => Err(error),
            (Ok(true), _) => Ok(Onward::Stays),
            (Ok(false), Status::Seccomp) if self.skip_call(tid) => Ok(Onward::Stays),
            (Ok(false), Status::Seccomp) => self.call_entry(tid),
            (Ok(false), Status::Syscall) => self.call_exit(tid).map(stays),
            (Ok(false), Status::Signal(Signal::TRAP)) => self.trap(tid),
            (Ok(false), Status::Signal(signal)) => self.signal_stop(tid, signal),
            (Ok(false), Status::NewTask(child)) => self.new_task(tid, child, false),
            (Ok(false), Status::Exit(wait_status)) => self.exit(tid, wait_status).map(stays),
            (Ok(false), Status::Exited(_) | Status::Killed(_)) => self.lost(tid, status).map(stays),
            (Ok(false), Status::GroupStop(signal)) => self.group_stop(tid, signal).map(stays),
            (Ok(false), Status::Trap) => self.go_from_look(tid).map(stays),
            (Ok(false), Status::Exec(_)) => return self.exec(tid),
        };
        let result = onward.and_then(|onward| self.go_onward(tid, onward));
        if result.is_ok()
            && status == Status::Seccomp
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            // It stands in front of that call no longer, or is in it.
            task.in_front = None;
        }
        let result = result.and_then(|()| if told { self.hold_if_due(tid).map(drop) } else { Ok(()) });
        // It was killed under our hands; the wait will say so.
        let dead = match &result {
            Err(RecordError::Tracee(TraceeError::Died(dead))) => Some(*dead),
            Err(error) if error.is_death_of(tid) => Some(tid),
            _ => None,
        };
        match dead {
            Some(dead) => self.died_in_a_stop(dead, tid, status)?,
            None => result?,
        }
        Ok(None)
    }

    /// A task has died while a stop of `tid` was looked after: its own, or another one's that had to do with
    /// it.
    fn died_in_a_stop(&mut self, dead: Tid, tid: Tid, status: Status) -> Result<()> {
        if let Some(task) = self.tasks.get_mut(&tid).filter(|_| dead != tid) {
            task.in_front = None;
        }
        tracing::debug!(%dead, of = %tid, %status, "died in a stop");
        let has_run = self.watched.seat.runner() == dead;
        if has_run {
            // Others of its process end before it says that it does.
            self.drain(dead)?;
            // Of a call that it has gone into, its registers do not tell any more; what it has stored before
            // is a part of what others see.
            self.write_entry(dead)?;
        }
        if let Some(task) = self.tasks.get_mut(&dead) {
            task.standing.stop();
            // It may have come to the stop of its end already.
            if !matches!(task.report.status(), Some(Status::Exit(_))) {
                task.handle = Handle::Dying;
            }
            self.recorder().announce_child(dead)?;
            self.drop_call(dead);
            if has_run {
                // What it has done comes before what others do.
                self.wait_for_report(dead)?;
            }
        } else if let Status::NewTask(child) = status
            && dead == child
        {
            // It ends with whoever made it, who will never see it.
            self.let_go(child);
        }
        Ok(())
    }

    /// The task holds for its tracer no longer.
    pub fn let_released_go(&mut self, tid: Tid) -> Result<()> {
        let onward = self.go_from_hold(tid);
        match onward.and_then(|onward| self.go_onward(tid, onward)) {
            Err(RecordError::Tracee(TraceeError::Died(dead))) if dead == tid => self.await_end(tid),
            Err(error) if error.is_death_of(tid) => self.await_end(tid),
            other => other,
        }
    }

    fn group_stop(&mut self, tid: Tid, signal: Signal) -> Result<()> {
        if self.session.traced.is_tracee(tid) && self.leave_hook_to_halt(tid)? {
            return Ok(());
        }
        let pid = self.task(tid)?.pid;
        self.halt_with_process(tid)?;
        self.resume(tid, Resume::Listen)?;
        self.hear_of_tracer_again(tid)?;
        // Say that the terminal's user pressed ^Z: the shell waits for us to stop, too.
        if tid == pid && self.session.is_root(pid) {
            ours::stop_with(pid, signal);
        }
        Ok(())
    }

    /// The task has stopped for the signal of a trap.
    pub fn trap(&mut self, tid: Tid) -> Result<Onward> {
        if self.trap_for_guide(tid)?
            || self.count_trap(tid)?
            || self.catch(tid)?
            || self.tell_step(tid)?
            || self.tell_touch(tid)?
        {
            Ok(Onward::Stays)
        } else {
            self.signal_stop(tid, Signal::TRAP)
        }
    }
}
