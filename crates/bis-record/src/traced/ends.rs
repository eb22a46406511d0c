//! The ends of tracees and of tracers, and how a tracer lets a tracee go.

use bis_trace::{
    event::TaskEnd,
    types::{Signal, Tid},
};
use bis_tracee::sys;

use super::books::Mode;
use crate::crew::Crew;

impl Crew {
    /// A task has ended. Its tracer hears of that, and its own tracees have no tracer any more.
    pub fn tell_end(&mut self, tid: Tid, end: TaskEnd) {
        if !self.session.traced.is_used() {
            return;
        }
        let status = match end {
            TaskEnd::Exited(code) => i32::from(code) << 8,
            TaskEnd::Killed(signal) => signal.0.into(),
            TaskEnd::Dethreaded => 0,
            // It goes on.
            TaskEnd::Exec(_) => return,
        };
        if let Some(tracer) = self.session.traced.end(tid, status) {
            self.tell_tracer(tracer);
        }
        let pid = self.tasks.get(&tid).map(|task| task.pid);
        if let Some(pid) = pid
            && !self.tasks.values().any(|task| task.pid == pid && task.tid != tid)
        {
            self.let_tracees_go(pid);
        }
    }

    fn let_tracees_go(&mut self, tracer: Tid) {
        for tid in self.session.traced.of_tracer(tracer) {
            let is_killed = self.session.traced.with(tid, |it| it.wants(libc::PTRACE_O_EXITKILL));
            if is_killed == Some(true) {
                let _ = sys::kill_task(tid, Signal::KILL);
            }
            self.let_tracee_go(tid, Mode::Detached, None);
        }
    }

    /// The tracer of a task lets it go on; its supervisor is told.
    pub(super) fn let_tracee_go(&self, tid: Tid, mode: Mode, signal: Option<Signal>) {
        if let Some(domain) = self.session.traced.let_go(tid, mode, signal) {
            self.session.watch.call(domain);
        }
    }
}
