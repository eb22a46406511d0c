//! What supervisors hear of each other's tasks for their tracers' sake.

use bis_trace::types::{Signal, Tid};
use bis_tracee::ours;

use super::books::State;
use crate::{
    crew::Crew,
    error::Result,
    task::{Handle, Task},
};

const CHLD: Signal = Signal(17);

impl Crew {
    /// There is something to hear for this tracer.
    pub(super) fn tell_tracer(&mut self, tracer: Tid) {
        // It may be waiting for a signal, too.
        let _ = ours::send(tracer, CHLD);
        if let Some(domain) = self.session.mail.target(tracer, || false) {
            self.session.watch.call(domain);
        }
    }

    /// Whatever others have asked of the domain's tasks for their tracers' sake, or told its tracers. Changes
    /// nothing that an event would have to say.
    pub fn hear_of_tracers(&mut self) -> Result<()> {
        if !self.session.traced.is_used() || !self.watched.take_news() {
            return Ok(());
        }
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            let is_asked = self.session.traced.with_live(tid, |it| it.is_asked && it.state == State::Runs);
            // One that stands in a hook is to come out of that first.
            let runs = |task: &Task| task.to_stop.is_halted() && matches!(task.handle, Handle::Running(_));
            let has_halted = self.tasks.get(&tid).is_some_and(runs);
            if is_asked == Some(true) || has_halted || self.waits_in_vain(tid) {
                self.ask_to_stop(tid)?;
            }
        }
        Ok(())
    }

    /// A task listens now. If its tracer has asked it to stop before it did, the kernel asks it only now: a
    /// request to a task that stands in a stop is kept for when it runs.
    pub fn hear_of_tracer_again(&mut self, tid: Tid) -> Result<()> {
        let is_asked = self.session.traced.with_live(tid, |it| it.is_asked);
        if is_asked == Some(true) { self.ask_to_stop(tid) } else { Ok(()) }
    }

    fn ask_to_stop(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        match &task.handle {
            Handle::Running(_) => self.interrupt(tid),
            Handle::Stopped(stopped) if !task.for_tracer.is_held() => Ok(stopped.ask()?),
            _ => Ok(()),
        }
    }
}
