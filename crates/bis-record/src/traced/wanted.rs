//! Which wait a task is in (`wait.rs`), and whether there is something to tell it.

use bis_syscalls::Call;
use bis_trace::types::Tid;
use bis_tracee::proc;

use super::{
    books::{State, Tracee},
    wait::Wait,
};
use crate::{
    crew::Crew,
    task::{Handle, Task},
};

/// The process group of a process.
pub(super) fn group_of(pid: Tid) -> Option<i32> {
    proc::Stat::of(pid).ok()?.group()
}

impl Crew {
    /// Has the task held for its tracer, which has let it go on since?
    pub fn is_let_go_by_tracer(&self, task: &Task) -> bool {
        let is_released = |it: &mut Tracee| matches!(it.state, State::Released(..));
        task.for_tracer.is_held() && self.session.traced.with(task.tid, is_released) == Some(true)
    }

    pub(super) fn wait_of(&self, tid: Tid, call: &Call) -> Option<Wait> {
        let own = || self.tasks.get(&tid).and_then(|task| group_of(task.pid)).unwrap_or(0);
        Wait::of(call, own, |number| self.session.outside(tid, number))
    }

    /// The wait that a task is in, of a process that traces others.
    pub(super) fn traced_wait(&self, tid: Tid) -> Option<(Tid, Wait)> {
        if !self.session.traced.is_used() {
            return None;
        }
        let task = self.tasks.get(&tid)?;
        let call = task.call.as_ref()?;
        let call = call.entry.call();
        Some((task.pid, self.wait_of(tid, &call)?))
    }

    /// Does the task wait in the kernel though there is a tracee to tell it of?
    pub(super) fn waits_in_vain(&self, tid: Tid) -> bool {
        let runs = |task: &Task| matches!(task.handle, Handle::Running(_));
        if !self.tasks.get(&tid).is_some_and(runs) {
            return false;
        }
        let Some((pid, wait)) = self.traced_wait(tid) else { return false };
        self.session.traced.has_report(pid, |tid, it| wait.is_meant(tid, it, group_of))
    }
}
