//! What may be changed of a replayed address space, whoever asks for it: an effect of a trace, a hook, or
//! what a diversion runs.

use bis_agent::{AGENT_BASE, AGENT_LEN};
use bis_trace::types::Addr;

/// The first address that no program can have: 56 bits with page tables of five levels, where a program that
/// asks for an address beyond 47 bits gets it. With four levels the kernel refuses what is beyond.
const USER_END: Addr = Addr(1 << 56);
/// The advices that change content or inheritance, all of them harmless to others: DONTNEED, REMOVE,
/// DONTFORK, DOFORK, WIPEONFORK, KEEPONFORK, DONTNEED_LOCKED, GUARD_INSTALL, GUARD_REMOVE.
const ADVICES: [u32; 9] = [4, 9, 10, 11, 18, 19, 24, 102, 103];

/// Why this is no range of the program's own; none: it is one.
pub(crate) fn not_own(addr: Addr, len: u64) -> Option<String> {
    let end = addr.checked_add(len).and_then(|end| end.checked_page_ceil());
    let outside = end.is_none_or(|end| end > USER_END);
    let ours = end.is_some_and(|end| addr < Addr(AGENT_BASE + AGENT_LEN) && Addr(AGENT_BASE) < end);
    let whose = if ours { "bis's own memory" } else { "no memory of a program" };
    (outside || ours).then(|| format!("{len:#x} bytes at {addr:#x} are {whose}"))
}

/// Is this a range of the program's own?
pub(crate) fn is_own(addr: Addr, len: u64) -> bool {
    not_own(addr, len).is_none()
}

/// Is this an advice that does no harm to others?
pub(crate) fn is_harmless(advice: u64) -> bool {
    u32::try_from(advice).is_ok_and(|advice| ADVICES.contains(&advice))
}

#[cfg(test)]
mod tests {
    use bis_trace::types::PAGE;

    use super::*;

    #[test]
    fn the_agents_page_and_the_kernels_half_are_not_the_programs() {
        for (addr, len) in [
            (AGENT_BASE, 1),
            (AGENT_BASE - 1, 2),
            (AGENT_BASE + AGENT_LEN - 1, 1),
            (0, USER_END.0),
            (AGENT_BASE - PAGE, PAGE + 1),
            (u64::MAX, 1),
            (u64::MAX - 100, 50),
            ((USER_END - PAGE).0, PAGE + 1),
        ] {
            assert!(!is_own(Addr(addr), len), "{addr:#x} {len:#x}");
        }
        for (addr, len) in
            [(0, 1), (AGENT_BASE - PAGE, PAGE), (AGENT_BASE + AGENT_LEN, PAGE), ((USER_END - 1).0, 1)]
        {
            assert!(is_own(Addr(addr), len), "{addr:#x} {len:#x}");
        }
    }

    #[test]
    fn the_advices_that_harm_the_machine_are_not_allowed() {
        // MADV_HWPOISON and MADV_SOFT_OFFLINE.
        assert!(is_harmless(4) && !is_harmless(100) && !is_harmless(101) && !is_harmless(4 + (1 << 32)));
    }
}
