//! A task whose steps are recorded (`record --steps`): what steps it, and its registers since its last event.

use bis_trace::{steps::Stretch, types::Registers};
use bis_tracee::ticks::TickSource;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Stepped {
    /// Made when the task is first stepped.
    source: Option<Box<dyn TickSource>>,
    stretch: Stretch,
    /// It has gone on by other means since its last event: what it does up to the next one is not recorded.
    is_broken: bool,
}

impl Stepped {
    pub fn source(&mut self, new: impl FnOnce() -> Box<dyn TickSource>) -> &mut dyn TickSource {
        &mut **self.source.get_or_insert_with(new)
    }

    /// The task stands here, before it is stepped or behind a step.
    pub fn push(&mut self, regs: &Registers) {
        if !self.is_broken {
            self.stretch.push(regs);
        }
    }

    /// The task goes on without being stepped.
    pub fn interrupt(&mut self) {
        self.is_broken = true;
    }

    /// An event is written: what has led to it, and from here on it is recorded anew.
    pub fn take(&mut self) -> Stretch {
        self.is_broken = false;
        std::mem::take(&mut self.stretch)
    }
}
