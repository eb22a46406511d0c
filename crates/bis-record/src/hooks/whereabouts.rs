//! Where a task stands, told in the program's own text: questions about trampolines, hooks and counts.

use std::{iter::once, ops::Range};

use bis_agent::{
    AGENT_BASE, AGENT_LEN,
    hooks::{AREA_BASE, AREA_LEN},
};
use bis_rewrite::{Place, STATUS_FLAGS};
use bis_trace::types::{Addr, Registers, Tid};

use crate::{error::Result, process::Process, space::ARENA_LEN};

impl Process {
    /// The program's own registers for a task in a trampoline: where it stands, and what a count has put
    /// aside.
    pub fn own_registers(&self, regs: &Registers) -> Registers {
        let mut own = Registers { rip: self.space.original_rip(regs.ip()).0, ..*regs };
        if let (Some(Place::Count { restore_rcx, flags_lost, .. }), Some(hooks)) =
            (self.space.dense_place(regs.ip()), &self.hooks)
        {
            if restore_rcx {
                own.rcx = hooks.area.count_rcx();
            }
            if flags_lost {
                own.eflags &= !STATUS_FLAGS;
            }
        }
        own
    }

    /// These registers, behind the call that the task is in: where its tracer wants it to go on, if it has
    /// said so.
    pub fn sent_elsewhere(&self, tid: Tid, regs: &Registers) -> Result<Registers> {
        let for_tracer = &self.task_ref(tid)?.for_tracer;
        if !for_tracer.goes_elsewhere() {
            return Ok(*regs);
        }
        let regs = for_tracer.behind_call(regs);
        Ok(Registers { rip: self.space.patched_rip(regs.ip()).0, ..regs })
    }

    /// The memory in the program's address space that is not the program's.
    pub fn ours(&self) -> Vec<Range<Addr>> {
        let scratch = self.space.scratch().ranges();
        if self.hooks.is_none() {
            return once(Addr::range(AGENT_BASE..AGENT_BASE + AGENT_LEN)).chain(scratch).collect();
        }
        let patches = self.space.patches();
        let arenas = patches.arenas.iter().map(|arena| arena.start..arena.start + ARENA_LEN);
        let arenas = arenas.chain(patches.dense.ranges());
        once(Addr::range(AGENT_BASE..AREA_BASE + AREA_LEN)).chain(arenas).chain(scratch).collect()
    }
}
