//! The agent: the blob that bis maps at a fixed place into every address space that it records or replays,
//! and the one description of it that the supervisor has.
//!
//! It has two parts. The stub (`agent.S`) holds the instruction through which the supervisor makes system
//! calls in a task, the place where a task waits between two supervisors, and the entry by which it serves as
//! the replayer's stub; it is that of whichever bis runs. The [`hooks`] make the program's system calls
//! without a stop and log them; their text is kept in the trace, because replay must execute the very same.
#![forbid(unsafe_code)]

pub mod hooks;
mod shared;

pub use shared::{EXITED, KILLED, STOPPED};

mod symbols {
    #![allow(dead_code, reason = "the build lists every symbol of the blob")]
    include!(concat!(env!("OUT_DIR"), "/agent_symbols.rs"));
}

/// Where the agent's text is mapped: below 2 GiB so that any 64-bit program can reach it with a short jump,
/// below the shadow memory of the sanitizers (0x7fff8000), above all but the largest static programs' heaps.
pub const AGENT_BASE: u64 = 0x7000_0000;

/// Bytes reserved for the agent's text from [`AGENT_BASE`].
pub const AGENT_LEN: u64 = 0x1000;

/// Where in the agent's page the bytes of strings and structures are put to which arguments of our own calls
/// point. There are [`ARGUMENT_MAX`] bytes.
pub const ARGUMENT_AT: u64 = AGENT_BASE + 0x800;
pub const ARGUMENT_MAX: u64 = AGENT_BASE + AGENT_LEN - ARGUMENT_AT;

/// Where the recorder puts scratch memory for calls that may block: the range below the agent.
pub const SCRATCH_BASE: u64 = 0x6000_0000;

/// The end of the range of [`SCRATCH_BASE`].
pub const SCRATCH_END: u64 = AGENT_BASE;

/// Where memory of ours may be in a recorded address space, but for arenas and dense text, which replay has,
/// too: scratch memory, the agent, the hooks and their area.
pub const OURS: std::ops::Range<u64> = SCRATCH_BASE..hooks::AREA_BASE + hooks::AREA_LEN;

/// The `syscall` instruction for the supervisor's own calls, followed by an `int3`.
pub const UNTRACED_SYSCALL: u64 = symbols::UNTRACED;

/// What a seccomp filter sees as instruction pointer for [`UNTRACED_SYSCALL`]; also where its `int3` is.
pub const UNTRACED_SYSCALL_END: u64 = symbols::UNTRACED_END;

/// Where a series of the supervisor's own calls begins: its list is at rbx, and ends at r12. An entry is the
/// call's number, its six arguments, and what it must return for the series to go on.
pub const SERIES: u64 = symbols::SERIES;

/// Beside a call's number in a [`SERIES`]: it makes a descriptor, which stays in r13. The series goes on
/// whichever it is, unless it is an error.
pub const SERIES_MAKES: u64 = 1 << 32;
/// It has the descriptor in r13 as its first argument.
pub const SERIES_TAKES_FIRST: u64 = 2 << 32;
/// It has that as its fifth argument.
pub const SERIES_TAKES_FIFTH: u64 = 4 << 32;

/// What a seccomp filter sees as instruction pointer for the calls of a [`SERIES`].
pub const SERIES_SYSCALL_END: u64 = symbols::SERIES_END;

/// Where the `int3` is behind a [`SERIES`].
pub const SERIES_OUT: u64 = symbols::SERIES_OUT;

/// Where the list of a series may be put, in the agent's page: its text ends before it, and it ends where the
/// bytes of [`ARGUMENT_AT`] begin.
pub const SERIES_LIST: u64 = AGENT_BASE + 0x400;

/// Where a task loops in pause() while it has no supervisor.
pub const PARK: u64 = symbols::PARK;

/// What a seccomp filter sees as instruction pointer for the pause() of [`PARK`].
pub const PARK_END: u64 = symbols::PARK_END;

/// The `syscall` instruction of a call that is made in place of a 32-bit program's.
pub const NARROW_SYSCALL: u64 = symbols::NARROW;

/// Where a task stands behind it.
pub const NARROW_SYSCALL_END: u64 = symbols::NARROW_END;

/// Where a process puts its memory back, with registers as `agent.S` says, and its `int3`.
pub const PUT_BACK: u64 = symbols::PUT_BACK;
pub const PUT_BACK_END: u64 = symbols::PUT_BACK_END;
/// Copies some of a process's memory to where it shares it with the supervisor; and the int3 behind that.
pub const COPY_OUT: u64 = symbols::COPY_OUT;
pub const COPY_OUT_END: u64 = symbols::COPY_OUT_END;

/// The `syscall` instruction of calls that are made in a row: behind it, the result goes to rbx, and the task
/// comes back to it with another call, which stops in every mode.
pub const ROW_SYSCALL: u64 = symbols::ROW;

/// Where a task stands behind it.
pub const ROW_SYSCALL_END: u64 = symbols::ROW_END;

/// The address of a name for memory files, a string.
pub const MEMFD_NAME: u64 = symbols::MEMFD_NAME;

/// The agent's text, to be placed at [`AGENT_BASE`].
pub const TEXT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.bin"));

/// A static ELF executable that consists of the agent only; its entry is an `int3`.
pub const STUB_ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.elf"));

/// A static ELF executable: what a recorded process becomes in place of a program that is left out of the
/// recording.
pub const STAND_IN_ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stand_in.elf"));

const _: () = assert!(symbols::TEXT_BASE == AGENT_BASE);
const _: () = assert!(TEXT.len() as u64 <= SERIES_LIST - AGENT_BASE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_system_call_instructions_are_the_three_that_the_filters_know_and_two_that_stop() {
        let found: Vec<u64> = TEXT
            .windows(2)
            .enumerate()
            .filter(|(_, bytes)| *bytes == [0x0f, 0x05])
            .map(|(offset, _)| AGENT_BASE + offset as u64 + 2)
            .collect();
        assert_eq!(
            found,
            [UNTRACED_SYSCALL_END, SERIES_SYSCALL_END, PARK_END, NARROW_SYSCALL_END, ROW_SYSCALL_END]
        );
    }

    #[test]
    fn the_untraced_call_gives_control_back() {
        let offset = usize::try_from(UNTRACED_SYSCALL_END - AGENT_BASE).unwrap();
        assert_eq!(TEXT[offset], 0xcc);
    }
}
