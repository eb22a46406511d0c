//! What remote calls leave behind for the thread that makes them: a stop that came to the task meanwhile, and
//! the program's registers of a task that was killed in one. Of each task there is hardly ever any.

use std::{cell::RefCell, collections::HashMap};

use bis_trace::types::{Registers, Signal, Tid};

use crate::{
    error::Result,
    siginfo::{SigInfo, is_pending},
    sys,
};

thread_local! {
    /// The registers of tasks that were killed while they stood in calls made in their name by this thread.
    static CUT_SHORT: RefCell<HashMap<Tid, Registers>> = RefCell::default();

    /// The SIGSTOP that came to a task in calls made in its name by this thread; none: such a one is sent
    /// again.
    static STOPS: RefCell<Option<HashMap<Tid, SigInfo>>> = const { RefCell::new(None) };
}

/// SIGSTOP that comes to a task in calls made in its name by this thread is kept from now on, and whoever
/// lets the task go on asks for it ([`take_stop`]). To send it again is to lose a SIGCONT that comes just
/// then: the kernel takes back each one that waits when a stop is sent.
pub fn keep_stops() {
    STOPS.with_borrow_mut(|stops| *stops = Some(HashMap::new()));
}

/// The SIGSTOP that was kept for this task, if there is one. It is taken away.
pub fn take_stop(tid: Tid) -> Option<SigInfo> {
    STOPS.with_borrow_mut(|stops| stops.as_mut()?.remove(&tid))
}

/// The task is gone: whatever was kept of it means nothing any more.
pub fn forget(tid: Tid) {
    let _ = (take_stop(tid), take_cut_short(tid));
}

/// SIGSTOP has come to this task: keeps it, or sends it again.
pub(super) fn stopped_by(tid: Tid, info: &SigInfo) -> Result<()> {
    let is_kept = STOPS.with_borrow_mut(|stops| match stops {
        Some(stops) => {
            stops.insert(tid, *info);
            true
        }
        None => false,
    });
    if is_kept { Ok(()) } else { stop_again(tid) }
}

/// The program's registers of a task that this thread found killed in a call made in its name, which can be
/// put back no more.
pub fn take_cut_short(tid: Tid) -> Option<Registers> {
    CUT_SHORT.with_borrow_mut(|cut| cut.remove(&tid))
}

/// The task was killed in a call made in its name, and these are its program's registers.
pub(super) fn keep_cut_short(tid: Tid, program: Registers) {
    CUT_SHORT.with_borrow_mut(|cut| cut.insert(tid, program));
}

/// The task's process was sent SIGSTOP while something was done in its name, and all its other signals were
/// blocked. A SIGCONT that waits was sent after that: the kernel takes back each one that waits when a stop
/// is sent. So the process goes on.
pub(crate) fn stop_again(tid: Tid) -> Result<()> {
    if is_pending(tid, Signal::CONT) { Ok(()) } else { sys::kill(tid, Signal::STOP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_kept_until_its_task_goes_on_or_is_gone() {
        let (stop, [one, other]) = (SigInfo::of_kernel(Signal::STOP), [Tid(i32::MAX), Tid(i32::MAX - 1)]);
        assert!(take_stop(one).is_none(), "none is kept before somebody wants that");
        keep_stops();
        stopped_by(one, &stop).unwrap();
        stopped_by(other, &stop).unwrap();
        assert_eq!((take_stop(one), take_stop(one)), (Some(stop), None));
        keep_cut_short(other, Registers { rax: 7, ..Registers::default() });
        assert_eq!(take_cut_short(one), None);
        forget(other);
        assert!(take_stop(other).is_none() && take_cut_short(other).is_none());
    }
}
