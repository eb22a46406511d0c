//! Debug registers that a tracer has set in a tracee: data at which it is to stop.
//!
//! They are in the processor only while the tracee executes its program: they are put in when it goes on, and
//! taken out when it reports, because the recorder uses the same registers for places of its own. What has
//! triggered is noted in the session's books then, and told where the tracee stands (`told.rs`), or at its
//! next event if that is no place to tell it. What a tracee writes while the recorder lets it make single
//! steps, and what the kernel writes for it, triggers nothing.

use bis_trace::types::Tid;
use bis_tracee::debug;

use crate::{crew::Crew, error::Result, task::Handle};

impl Crew {
    /// A task is about to execute the program: what its tracer watches is put in.
    pub fn put_watches_in(&mut self, tid: Tid) -> Result<()> {
        if !self.session.traced.is_used() {
            return Ok(());
        }
        let watches = self.session.traced.with_live(tid, |it| it.debug.is_used().then_some(it.debug.watches));
        let Some(watches) = watches.flatten() else { return Ok(()) };
        let task = self.task(tid)?;
        if let Handle::Stopped(stopped) = &task.handle {
            task.watches.write(stopped, &watches)?;
        }
        Ok(())
    }

    /// A task has reported.
    pub fn take_watches_out(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if task.watches.watches().iter().all(Option::is_none) {
            return;
        }
        let Handle::Stopped(stopped) = &task.handle else { return };
        // A task that was killed meanwhile needs neither.
        let triggered = task.watches.take_triggered(stopped).unwrap_or_default();
        let _ = task.watches.write(stopped, &[None; debug::COUNT]);
        if triggered.any() {
            self.session.traced.with_live(tid, |it| {
                it.debug.status = triggered.bits().into();
                it.debug.is_due = true;
            });
        }
    }
}
