//! What counts how far a task has come: one for each task, or one for all tasks of a domain whose text is
//! dense.

use std::mem;

use bis_tracee::{Memory, ticks::TickSource};

use crate::error::Result;

/// What counts: for one task, or for all tasks of a domain whose text is dense.
#[derive(Debug)]
pub struct Counter {
    source: Box<dyn TickSource>,
    /// Nobody for whom it counts has gone on since the last event.
    is_fresh: bool,
}

impl Counter {
    pub fn new(source: Box<dyn TickSource>) -> Counter {
        Counter { source, is_fresh: true }
    }

    /// The counts since the last event.
    pub fn read(&mut self, memory: &Memory) -> Result<u64> {
        if self.is_fresh { Ok(0) } else { Ok(self.source.count(memory)?) }
    }

    /// Somebody goes on for whom it counts: from an event on, it counts from here.
    pub fn go_on(&mut self, memory: &Memory) -> Result<()> {
        if mem::take(&mut self.is_fresh) {
            self.source.begin(memory)?;
        }
        Ok(())
    }

    pub fn source(&mut self) -> &mut dyn TickSource {
        &mut *self.source
    }

    /// An event is written.
    pub fn begin_anew(&mut self) {
        self.is_fresh = true;
    }
}
