//! Of whom a `wait4` or `waitid` wants to hear, and whether there is something to tell it.

use bis_syscalls::Call;
use bis_trace::types::{Addr, Tid};
use bis_tracee::proc;

use super::books::{State, Tracee};
use crate::{
    crew::Crew,
    task::{Handle, Task},
};

const WNOWAIT: u32 = libc::WNOWAIT as u32;
const WEXITED: u32 = libc::WEXITED as u32;

/// Of whom a wait wants to hear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whom {
    Anybody,
    Task(Tid),
    Group(i32),
}

/// A `wait4` or `waitid`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    whom: Whom,
    pub flags: u32,
    /// Where the status, or the `siginfo_t`, is to be written.
    pub at: Addr,
    pub usage: Addr,
    pub is_waitid: bool,
}

impl Wait {
    pub fn keeps(&self) -> bool {
        self.flags & WNOWAIT != 0
    }

    /// Does this wait want to hear of this tracee?
    pub fn is_meant(&self, tid: Tid, it: &Tracee) -> bool {
        let is_end = matches!(it.state, State::Ended(_));
        if is_end && self.is_waitid && self.flags & WEXITED == 0 {
            return false;
        }
        match self.whom {
            Whom::Anybody => true,
            Whom::Task(wanted) => wanted == tid,
            Whom::Group(group) => group_of(it.pid) == Some(group),
        }
    }
}

/// The process group of a process.
fn group_of(pid: Tid) -> Option<i32> {
    proc::Stat::of(pid).ok()?.group()
}

impl Crew {
    /// Has the task held for its tracer, which has let it go on since?
    pub fn is_let_go_by_tracer(&self, task: &Task) -> bool {
        let is_released = |it: &mut Tracee| matches!(it.state, State::Released(..));
        task.held.is_some() && self.session.traced.with(task.tid, is_released) == Some(true)
    }

    pub(super) fn wait_of(&self, tid: Tid, call: &Call) -> Option<Wait> {
        let task = |number: i32| Whom::Task(self.session.outside(tid, Tid(number)));
        let own = || Whom::Group(self.tasks.get(&tid).and_then(|task| group_of(task.pid)).unwrap_or(0));
        match call.nr.cast_signed() {
            libc::SYS_wait4 => {
                let whom = match call.i32(0) {
                    -1 => Whom::Anybody,
                    0 => own(),
                    number if number > 0 => task(number),
                    number => Whom::Group(number.saturating_neg()),
                };
                let [_, at, _, usage, ..] = call.args;
                Some(Wait { whom, flags: call.u32(2), at: Addr(at), usage: Addr(usage), is_waitid: false })
            }
            libc::SYS_waitid => {
                let whom = match call.u32(0) {
                    libc::P_ALL => Whom::Anybody,
                    libc::P_PID => task(call.i32(1)),
                    libc::P_PGID if call.i32(1) == 0 => own(),
                    libc::P_PGID => Whom::Group(call.i32(1)),
                    _ => return None,
                };
                Some(Wait {
                    whom,
                    flags: call.u32(3),
                    at: Addr(call.args[2]),
                    usage: Addr(call.args[4]),
                    is_waitid: true,
                })
            }
            _ => None,
        }
    }

    /// The wait that a task is in, of a process that traces others.
    pub(super) fn traced_wait(&mut self, tid: Tid) -> Option<(Tid, Wait)> {
        if !self.session.traced.is_used() {
            return None;
        }
        let task = self.tasks.get(&tid)?;
        let call = task.call.as_ref()?;
        let call = Call { nr: call.nr, args: call.entry.args() };
        Some((task.pid, self.wait_of(tid, &call)?))
    }

    /// Does the task wait in the kernel though there is a tracee to tell it of?
    pub(super) fn waits_in_vain(&mut self, tid: Tid) -> bool {
        let runs = |task: &Task| matches!(task.handle, Handle::Running(_));
        if !self.tasks.get(&tid).is_some_and(runs) {
            return false;
        }
        let Some((pid, wait)) = self.traced_wait(tid) else { return false };
        self.session.traced.has_report(pid, |tid, it| wait.is_meant(tid, it))
    }
}
