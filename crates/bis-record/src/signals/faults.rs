//! Instructions of the program that fault because the recorder wants them to (`rdtsc`, guarded text). The
//! kernel raises SIGSEGV for that, and where the task has blocked it, or its process ignores it, the kernel
//! first sets its action to the default and unblocks it: nobody could hold back a fault
//! (`force_sig_info_to_task` in its `signal.c`). The tracer hears of it afterwards. So what the program has
//! set is kept, and is set again where it is gone.

use bis_trace::types::{Addr, Signal, Tid};
use bis_tracee::{
    lent::Lent,
    remote::Remote,
    siginfo::{Disposition, bit, disposition},
};

use super::segv::SegvAction;
use crate::{
    calls::Exit,
    crew::{Crew, with_slot},
    error::Result,
    events::Recorder,
};

impl Crew {
    /// The program has asked for another action, or what it is.
    pub fn learn_segv_action(&mut self, it: &Exit<'_>) -> Result<()> {
        let [signal, new, old, ..] = it.args();
        if signal != u64::from(Signal::SEGV.0) || new == 0 {
            return Ok(());
        }
        // In the same place, the former one has been written over it.
        let is_known = it.call.entry.own_narrow().is_none() && old != new;
        let bytes = self.memory.read_vec(Addr(new), SegvAction::LEN).ok().filter(|_| is_known);
        let action = bytes.and_then(|bytes| SegvAction::of(bytes.try_into().ok()?));
        let pid = self.task(it.tid)?.pid;
        self.tasks.values_mut().filter(|task| task.pid == pid).for_each(|task| task.traits.segv = action);
        Ok(())
    }
}

impl Recorder<'_> {
    /// The task has faulted because we wanted it to: the program does again at SIGSEGV what it has set, and
    /// a task that has blocked it has.
    pub(super) fn give_back_segv(&mut self, tid: Tid) -> Result<()> {
        /// Below what a function may use without having it (the psABI's red zone).
        const BELOW: u64 = 256;
        let Some(action) = self.task(tid)?.traits.segv else { return Ok(()) };
        if disposition(tid, Signal::SEGV) == action.disposition() {
            return Ok(());
        }
        let place = Addr(self.stopped(tid)?.regs()?.rsp).saturating_sub(BELOW);
        let place = Addr(place.0 & !0xf);
        let args = [u64::from(Signal::SEGV.0), place.0, 0, 8, 0, 0];
        let made = with_slot(self, tid, |whole, slot| {
            let Ok(lent) = Lent::begin(&whole.memory, place, SegvAction::LEN) else { return Ok(None) };
            whole.memory.write(place, action.bytes())?;
            let mut remote = Remote::new(slot)?;
            let result = remote.call(libc::SYS_rt_sigaction, args)?;
            remote.finish()?;
            lent.give_back()?;
            Ok(Some(result))
        })?;
        let Some(result) = made else { return Ok(()) };
        tracing::debug!(domain = %self.id, %tid, result, "SIGSEGV has its action again");
        if action.disposition() == Disposition::Handler {
            // It was gone because the signal was blocked.
            let stopped = self.stopped(tid)?;
            let mask = stopped.sigmask()?;
            stopped.set_sigmask(mask | bit(Signal::SEGV))?;
        }
        self.asked = None;
        Ok(())
    }
}
