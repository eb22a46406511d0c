//! Where a task stands, told in the program's own text: questions about trampolines, hooks and counts.

use std::{iter::once, ops::Range};

use bis_agent::{
    AGENT_BASE, AGENT_LEN,
    hooks::{self, AREA_BASE, AREA_LEN},
};
use bis_rewrite::{Place, STATUS_FLAGS};
use bis_trace::types::{Addr, Registers};

use crate::{domain::Domain, space::ARENA_LEN};

impl Domain {
    /// Is this an address of the hooks, or of what they call?
    pub fn is_in_hooks(&self, rip: Addr) -> bool {
        hooks::is_inside(rip.0)
            || self.space.clock().text.contains(&rip)
            || self.space.patches().is_on_the_way(rip)
    }

    /// Is the task about to make a call that its hook has left to us? A handler that came now would return to
    /// before the hook. Where that takes longer than a timer does (a task that is stepped), the call would
    /// never be made.
    pub fn is_left_by_hook(&self, rip: Addr) -> bool {
        self.space.patches().is_left(rip)
    }

    /// Before a signal's frame is built: the address that the program knows.
    pub fn original_rip(&self, rip: Addr) -> Addr {
        self.space.patches().original(rip)
    }

    /// Where a task goes on that is to go on there.
    pub fn patched_rip(&self, rip: Addr) -> Addr {
        self.space.patches().enter(rip)
    }

    /// Where a task has to stand whose interrupted call the kernel is to make again.
    pub fn again_rip(&self, rip: Addr) -> Addr {
        self.space.patches().again(rip)
    }

    /// Does the domain's text count?
    pub fn is_dense(&self) -> bool {
        self.space.patches().dense.is_on
    }

    /// What it means to stand there, in trampolines of dense text.
    pub fn dense_place(&self, rip: Addr) -> Option<Place> {
        self.space.patches().dense.place(rip)
    }

    /// The program's own registers for a task in a trampoline: where it stands, and what a count has put
    /// aside.
    pub fn own_registers(&self, regs: &Registers) -> Registers {
        let mut own = Registers { rip: self.original_rip(regs.ip()).0, ..*regs };
        if let (Some(Place::Count { restore_rcx, flags_lost, .. }), Some(hooks)) =
            (self.dense_place(regs.ip()), &self.hooks)
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
