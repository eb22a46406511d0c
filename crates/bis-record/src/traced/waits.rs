//! How a tracer waits for its tracees: `wait4` and `waitid`.
//!
//! The kernel knows the caller's children. What it does not know is that we hold a tracee, and who traces a
//! task that is no child of its tracer. So the books are asked first, whenever the call is made; while it
//! waits in the kernel, it is interrupted when there is something to tell, and asks again. Where the kernel
//! has nobody to wait for, and the books have, it waits in a `pause` in place of its own call.

use bis_syscalls::Call;
use bis_trace::types::{Registers, Tid};
use bis_tracee::proc;

use super::{books::Tracee, wanted::group_of};
use crate::{
    calls::{Entry, Exit},
    crew::Crew,
    domain::Domain,
    error::Result,
    process::Process,
    session::Session,
};

const CHILD: i64 = -(libc::ECHILD as i64);
const RUSAGE_LEN: usize = 144;

impl Process {
    /// A wait has come back without a child to tell of. True: it has tracees to wait for, and makes the call
    /// again.
    pub fn wait_for_tracees_again(&mut self, tid: Tid, regs: &Registers) -> Result<bool> {
        if regs.result() != CHILD {
            return Ok(false);
        }
        let Some((pid, wait)) = self.traced_wait(tid) else { return Ok(false) };
        forget_children(&self.session, pid);
        let has = self.session.traced.has_tracee(pid, |tid, it| wait.is_meant(tid, it, group_of));
        if !has || wait.is_prompt() {
            return Ok(false);
        }
        let rip = (self.space.again_rip(regs.ip()) - 2).0;
        let again = Registers { rip, rax: regs.orig_rax, orig_rax: u64::MAX, ..*regs };
        self.stopped(tid)?.set_regs(&again)?;
        self.call(tid)?.wait.be_for_tracees(*regs);
        self.task(tid)?.standing.go_on();
        Ok(true)
    }
}

impl Domain {
    /// The kernel makes a wait again that was interrupted.
    pub fn wait_again(&mut self, tid: Tid) -> Result<Entry> {
        let entry = self.tell_of_tracee(tid)?.map_or(Entry::Make, Entry::Done);
        if matches!(entry, Entry::Make) {
            self.pause_in_call(tid)?;
        }
        Ok(entry)
    }
}

impl Crew {
    pub fn enter_wait(&mut self, tid: Tid, _call: &Call) -> Result<Entry> {
        Ok(self.tell_of_tracee(tid)?.map_or(Entry::Make, Entry::Done))
    }

    /// The result of the wait that the task is about to make, if there is a tracee to tell of.
    fn tell_of_tracee(&mut self, tid: Tid) -> Result<Option<i64>> {
        let Some((pid, wait)) = self.traced_wait(tid) else { return Ok(None) };
        let is_meant = |tid: Tid, it: &Tracee| wait.is_meant(tid, it, group_of);
        let found = self.session.traced.take_report(pid, wait.keeps(), is_meant);
        let Some((tracee, status)) = found else { return Ok(None) };
        let name = self.session.inside(tid, tracee);
        let (whole, zeros) = (wait.told(name, status), vec![0; RUSAGE_LEN]);
        if !wait.at.is_null() && self.answer_with(tid, wait.at, whole).is_err() {
            return Ok(Some(-i64::from(libc::EFAULT)));
        }
        if !wait.usage.is_null() {
            let _ = self.answer_with(tid, wait.usage, zeros);
        }
        Ok(Some(wait.result(name)))
    }

    /// A wait has failed: where that is because the kernel knows no child, and there are tracees, nobody has
    /// anything to tell.
    pub fn fail_wait(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let call = it.call.entry.call();
        let pid = self.task(it.tid)?.pid;
        forget_children(&self.session, pid);
        if it.result == CHILD
            && let Some(wait) = self.wait_of(it.tid, &call)
            && self.session.traced.has_tracee(pid, |tid, it| wait.is_meant(tid, it, group_of))
        {
            it.outcome.regs.rax = 0;
        }
        Ok(())
    }
}

/// The kernel tells a tracer of the ends of its own children, perhaps before their supervisors have come
/// to say so here.
fn forget_children(session: &Session, tracer: Tid) {
    for tid in session.traced.of_tracer(tracer) {
        let is_child = session.traced.with(tid, |it| it.is_child);
        if is_child == Some(true) && !proc::exists(tid) {
            session.traced.remove(tid);
        }
    }
}
