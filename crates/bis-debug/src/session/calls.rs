//! System calls that hooks have made. They are no events, so they are caught where the program's own
//! instruction is: a task that comes to the `syscall` enters the call, and one that comes to the instruction
//! behind it has returned. Which call it is, and whether it is one of those at all, is in the hooks' log.

use std::collections::BTreeSet;

use bis_replay::Replica;
use bis_syscalls::SYSCALL_INSN;
use bis_trace::types::{Addr, Tid};

use super::{Catch, Session, Why};

impl Session<'_> {
    /// Where breakpoints have to be, for what the user wants to know: those that the user has, and where
    /// hooked calls are caught; and where a task leaves a range of instructions that it is to run through.
    pub(super) fn places(&self, replica: &Replica<'_>) -> BTreeSet<Addr> {
        let mut places = self.own_places();
        if self.caught_calls != Catch::None {
            places.extend(calls_of(replica));
        }
        places
    }

    /// As `places`, up to the next event: hooked calls are caught only where the log up to there has one that
    /// is. A program makes millions of them, and each would be two stops.
    pub(super) fn places_to_next(&self, replica: &Replica<'_>) -> BTreeSet<Addr> {
        let mut places = self.own_places();
        if self.caught_calls != Catch::None && replica.may_make_hooked_call(|nr| self.caught_calls.has(nr)) {
            places.extend(calls_of(replica));
        }
        places
    }

    fn own_places(&self) -> BTreeSet<Addr> {
        let mut places = self.points.breakpoints();
        places.extend(self.exits.iter().flat_map(|exits| &exits.places));
        places
    }

    /// The hooked call that a task enters or has left by coming to this address, if it is caught.
    pub(super) fn hooked_call(&self, replica: &Replica<'_>, tid: Tid, addr: Addr) -> Option<Why> {
        if self.caught_calls == Catch::None {
            return None;
        }
        let is_call = |addr: Addr| replica.read_program(addr, SYSCALL_INSN.len()) == SYSCALL_INSN;
        let registers = replica.registers(tid).ok()?;
        if is_call(addr) {
            let nr = replica.hooked_call().filter(|nr| *nr == registers.rax && self.caught_calls.has(*nr))?;
            return Some(Why::Call { nr, is_entry: true });
        }
        // A hooked call leaves in rcx where its hook has gone on.
        let site = replica.text()?.hooked_site(Addr(registers.rcx))?;
        let is_return = site.insn.is_none() && site.addr.checked_add(SYSCALL_INSN.len() as u64) == Some(addr);
        let nr = is_return.then(|| replica.last_hooked_call()).flatten()?;
        self.caught_calls.has(nr).then_some(Why::Call { nr, is_entry: false })
    }
}

/// Where tasks enter hooked calls, and where they return from them.
fn calls_of(replica: &Replica<'_>) -> BTreeSet<Addr> {
    let sites = replica.text().into_iter().flat_map(|text| text.hooked_sites().collect::<Vec<_>>());
    sites.flat_map(|site| [site, site + SYSCALL_INSN.len() as u64]).collect()
}
