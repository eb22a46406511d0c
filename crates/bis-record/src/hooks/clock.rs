//! Reading the time without a stop: when the time stamp counter may be left readable in a domain, and what
//! that takes.
//!
//! The kernel's own clock functions read the time stamp counter, and so must the hooks that call them. But a
//! task in which `rdtsc` does not fault could read it unrecorded, and whether it faults can be changed only
//! by a system call, which costs ten times what the clock does. So it is left readable (the domain is *open*)
//! exactly as long as it is known that none of its executable memory has such an instruction:
//!
//! - All executable memory shows files, privately, and is not writable. Each place where a file has the bytes
//!   of `rdtsc` or `rdtscp`, at any alignment, is a patched run, or overwritten by an instruction that
//!   faults, or lies inside of another instruction that nothing leads into (`bis_rewrite::clock_at`), or in a
//!   page that cannot be executed without our being told (`guards.rs`). The vdso is overwritten in the same
//!   way.
//! - Where that is not so (code of a JIT compiler, an executable stack, a file of which not enough is known,
//!   text that becomes writable or is thrown away), the domain is *closed*, until its next exec: before any
//!   of its tasks goes on, `rdtsc` faults in it, and the hooks make system calls where they would read the
//!   counter. Nothing opens it again.
//! - A program that asks for `rdtsc` to be a fault closes its domain, and gets its own instructions back.
//!
//! Executable memory comes from calls that are traced, all of them; what they did is in their events'
//! effects, and those are looked at once, where events are written ([`loses_text`]). In replay `rdtsc` faults
//! everywhere: an instruction that was overlooked ends it with a report.

use bis_agent::hooks::{self, AREA_BASE, AREA_LEN, TEXT_BASE, state};
use bis_trace::{
    event::{Backing, Effect, Event, EventKind},
    types::{Addr, DomainId, PAGE, prot},
};

use crate::{
    hooks::Hooks,
    space::{AddressSpace, Clock},
};

// The agent uses neither of the crates that have these, and has its own.
const _: () = assert!(hooks::FALLBACK == bis_rewrite::FALLBACK as u64 && hooks::PAGE == PAGE);

/// Does this event leave executable memory of which nothing is known, where the clock is open until now?
pub fn loses_text(event: &Event, space: &AddressSpace) -> bool {
    let (EventKind::Syscall { outcome, .. } | EventKind::SyscallExit { outcome, .. }) = &event.kind else {
        return false;
    };
    let (patches, clock) = (space.patches(), space.clock());
    let ours =
        |addr: Addr| (TEXT_BASE..AREA_BASE + AREA_LEN).contains(&addr.0) || patches.is_trampoline(addr);
    let touches_vdso = |addr: Addr, end: Addr| clock.touches_vdso(&(addr..end));
    let is_bad = |effect: &Effect| match effect {
        Effect::Map { addr, .. } if ours(*addr) => false,
        Effect::Map { addr, len, prot, backing } => {
            let private = matches!(backing, Backing::File { .. });
            prot & prot::EXEC != 0
                && (!private || prot & prot::WRITE != 0 || !patches.shows(*addr, addr + len))
        }
        Effect::Protect { addr, len, prot } if patches.is_guard(*addr, *len, *prot) => false,
        Effect::Protect { addr, len, .. }
            if patches.guards.range(*addr..addr.saturating_add(*len)).next().is_some() =>
        {
            true
        }
        Effect::Protect { addr, len, prot } => {
            let changes = prot & prot::WRITE != 0 && touches_vdso(*addr, addr.saturating_add(*len));
            changes
                || prot & prot::EXEC != 0 && (prot & prot::WRITE != 0 || !patches.shows(*addr, addr + len))
        }
        // DONTFORK, DOFORK, KEEPONFORK
        Effect::Advise { advice: 10 | 11 | 19, .. } => false,
        // It may bring back what the file has.
        Effect::Advise { addr, len, .. } => {
            let end = addr.saturating_add(*len);
            patches.shows_any(*addr, end) || touches_vdso(*addr, end)
        }
        _ => false,
    };
    !clock.closed && outcome.effects.iter().any(is_bad)
}

/// Closes the clock of an address space: `rdtsc` is to fault in it.
pub fn close(id: DomainId, hooks: &Hooks, space: &mut AddressSpace, why: &str) {
    if !space.clock().closed {
        tracing::debug!(domain = %id, why, "the time stamp counter is not readable any more");
        space.clock_mut().closed = true;
        show(hooks, space.clock());
    }
}

/// Tells the hooks' area what the clock is.
pub fn show(hooks: &Hooks, clock: &Clock) {
    let open = !clock.closed;
    hooks.area.set(state::TICKS, open.into());
    let [clocks @ .., getcpu] = clock.functions;
    for (offset, function) in (state::CLOCKS..).step_by(8).zip(clocks) {
        hooks.area.set(offset, if open { function } else { 0 });
    }
    hooks.area.set(state::GETCPU, getcpu);
}

#[cfg(test)]
mod tests {
    use bis_trace::{
        event::{Lapse, Outcome},
        types::{EventSeq, FileId, PAGE, Tid},
    };

    use super::*;
    use crate::space::GUARDED;

    const TEXT: u64 = 0x40_0000;

    fn loses(effect: Effect, space: &AddressSpace) -> bool {
        let outcome = Box::new(Outcome { effects: vec![effect], ..Outcome::default() });
        let kind = EventKind::SyscallExit { nr: 0, outcome };
        let (sums, lapse) = (Vec::new(), Lapse::default());
        loses_text(&Event { seq: EventSeq(1), tid: Tid(1), kind, ticks: None, sums, lapse }, space)
    }

    fn map(prot: u32, backing: Backing) -> Effect {
        Effect::Map { addr: Addr(TEXT), len: PAGE, prot, backing }
    }

    #[test]
    fn memory_that_can_be_executed_and_is_no_known_text_loses_the_clock_once() {
        let mut space = AddressSpace::fresh(Addr(0), &[]);
        let file = || Backing::File { file: FileId(1), offset: 0 };
        assert!(!loses(map(prot::WRITE, Backing::Anonymous), &space));
        assert!(loses(map(prot::EXEC, Backing::Anonymous), &space));
        assert!(loses(map(prot::EXEC, file()), &space), "nobody has looked at what the file has there");
        let protect = |addr, prot| Effect::Protect { addr, len: PAGE, prot };
        assert!(
            loses(protect(Addr(TEXT), prot::EXEC), &space)
                && !loses(protect(Addr(TEXT), prot::WRITE), &space)
        );
        space.clock_mut().closed = true;
        assert!(!loses(map(prot::EXEC, Backing::Anonymous), &space));
    }

    #[test]
    fn a_page_is_guarded_by_us_and_not_by_the_program() {
        let mut space = AddressSpace::fresh(Addr(0), &[]);
        space.patches_mut().guards.insert(Addr(TEXT));
        let protect = |len, prot| Effect::Protect { addr: Addr(TEXT), len, prot };
        assert!(!loses(protect(PAGE, GUARDED), &space));
        assert!(loses(protect(PAGE, prot::WRITE), &space) && loses(protect(2 * PAGE, GUARDED), &space));
    }

    #[test]
    fn the_vdso_must_not_be_written_or_brought_back() {
        let mut space = AddressSpace::fresh(Addr(0), &[]);
        space.clock_mut().vdso = Addr(TEXT)..Addr(TEXT + 2 * PAGE);
        let advise = |advice| Effect::Advise { addr: Addr(TEXT + PAGE), len: PAGE, advice };
        assert!(loses(advise(4), &space), "MADV_DONTNEED");
        assert!(!loses(advise(10), &space), "MADV_DONTFORK");
        assert!(loses(Effect::Protect { addr: Addr(TEXT + PAGE), len: PAGE, prot: prot::WRITE }, &space));
        assert!(!loses(
            Effect::Protect { addr: Addr(TEXT + 2 * PAGE), len: PAGE, prot: prot::WRITE },
            &space
        ));
    }
}
