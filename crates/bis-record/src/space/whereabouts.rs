//! What it means to stand at an address: in the program's own text, in its trampolines, in the hooks.

use bis_agent::hooks;
use bis_rewrite::Place;
use bis_trace::types::Addr;

use super::AddressSpace;

impl AddressSpace {
    /// Where a task has to stand whose interrupted call the kernel is to make again.
    pub fn again_rip(&self, rip: Addr) -> Addr {
        self.patches().again(rip)
    }

    /// What it means to stand there, in trampolines of dense text.
    pub fn dense_place(&self, rip: Addr) -> Option<Place> {
        self.patches().dense.place(rip)
    }

    /// Does the domain's text count?
    pub fn is_dense(&self) -> bool {
        self.patches().dense.is_on
    }

    /// Is this an address of the hooks, or of what they call?
    pub fn is_in_hooks(&self, rip: Addr) -> bool {
        hooks::is_inside(rip.0) || self.clock().text.contains(&rip) || self.patches().is_on_the_way(rip)
    }

    /// Is the task about to make a call that its hook has left to us? A handler that came now would return to
    /// before the hook. Where that takes longer than a timer does (a task that is stepped), the call would
    /// never be made.
    pub fn is_left_by_hook(&self, rip: Addr) -> bool {
        self.patches().is_left(rip)
    }

    /// Before a signal's frame is built: the address that the program knows.
    pub fn original_rip(&self, rip: Addr) -> Addr {
        self.patches().original(rip)
    }

    /// Where a task goes on that is to go on there.
    pub fn patched_rip(&self, rip: Addr) -> Addr {
        self.patches().enter(rip)
    }
}
