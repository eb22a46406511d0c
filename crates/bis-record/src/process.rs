//! A process as it is recorded: its crew of tasks, what is known of its address space beyond what the kernel
//! says of it, and the hooks in it.
//!
//! What needs these alone is a method of the process, wherever it is written: it writes no event, and decides
//! nothing about turns, tokens and pauses, which it cannot know. What is the crew's is found here, too.

use std::ops::{Deref, DerefMut};

use bis_trace::types::{Registers, Tid};

use crate::{crew::Crew, error::Result, hooks::Hooks, space::AddressSpace};

pub struct Process {
    pub crew: Crew,
    pub space: AddressSpace,
    /// None: every call is traced.
    pub hooks: Option<Hooks>,
}

impl Process {
    /// Where is the task in a hook, if it is in one?
    pub fn in_hook(&self, tid: Tid) -> Result<Option<Registers>> {
        if self.hooks.is_none() {
            return Ok(None);
        }
        let regs = self.stopped_ref(tid)?.regs()?;
        Ok(self.space.is_in_hooks(regs.ip()).then_some(regs))
    }
}

impl Deref for Process {
    type Target = Crew;

    fn deref(&self) -> &Crew {
        &self.crew
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Crew {
        &mut self.crew
    }
}

impl AsMut<Crew> for Process {
    fn as_mut(&mut self) -> &mut Crew {
        &mut self.crew
    }
}
