//! The report of a divergence: a replayed program did something else than it did when it was recorded.
//!
//! It is made for somebody who has to find out why: what was expected and what was found side by side, where
//! in which file the program stood, the code there, what it did before, and which of the known causes fits.

use std::fmt;

use bis_trace::{
    event::Insn,
    types::{DomainId, EventSeq, REGISTER_NAMES, Registers, Signal, Tid, narrow_number},
};

/// A register that is not what it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterDifference {
    pub name: &'static str,
    pub expected: u64,
    pub found: u64,
}

/// Where and how a replay left its recording. Its text is the whole report, of several lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    pub domain: DomainId,
    /// The recorded process.
    pub pid: Tid,
    /// Its command line; empty where the trace does not say it.
    pub command: String,
    pub tid: Tid,
    /// The event that was not met.
    pub seq: EventSeq,
    /// Its place in the domain's stream, from 1.
    pub position: u64,
    pub expected: String,
    pub found: String,
    /// Only those that differ.
    pub registers: Vec<RegisterDifference>,
    /// The file and offset that the program counter lies in.
    pub place: String,
    /// Instructions around the program counter, one a line; that at it is marked.
    pub code: Vec<String>,
    /// The task's events before, oldest first.
    pub recent: Vec<String>,
    /// Which of the known causes fits.
    pub cause: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = self;
        write!(f, "divergence at event {} (number {} of domain {}): ", d.seq, d.position, d.domain)?;
        write!(f, "task {} of process {}", d.tid, d.pid)?;
        if !d.command.is_empty() {
            write!(f, " ({})", d.command)?;
        }
        write!(f, " did something else than it did when it was recorded")?;
        write!(f, "\n  expected: {}\n  found:    {}", d.expected, d.found)?;
        if !d.registers.is_empty() {
            write!(f, "\n  {:<10} {:>18} {:>18}", "register", "expected", "found")?;
            for r in &d.registers {
                write!(f, "\n  {:<10} {:>#18x} {:>#18x}", r.name, r.expected, r.found)?;
            }
        }
        write!(f, "\n  place: {}", d.place)?;
        for (title, lines) in [("code", &d.code), ("the task's events before", &d.recent)] {
            if !lines.is_empty() {
                write!(f, "\n  {title}:")?;
                for line in lines {
                    write!(f, "\n    {line}")?;
                }
            }
        }
        write!(f, "\n  likely cause: {}", d.cause)
    }
}

/// Which registers a comparison leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    Nothing,
    /// The number of the system call in progress, where there may be none any more.
    OrigRax,
}

/// The registers that differ. Left out always: the trap and resume flags, which belong to whoever traces, and
/// the data segment selectors, which 64-bit code does not use.
pub(crate) fn compare(expected: &Registers, found: &Registers, leave: Leave) -> Vec<RegisterDifference> {
    const TRAP_AND_RESUME: u64 = 0x100 | 0x10000;
    // The kernel saves eflags in r11 at a system call; r11 is as good as eflags then, but for the resume
    // flag, which the processor clears in it.
    let masked = |name: &str, value: u64| if name == "eflags" { value & !TRAP_AND_RESUME } else { value };
    let skipped = |name: &str| {
        matches!(name, "ds" | "es" | "fs" | "gs") || (leave == Leave::OrigRax && name == "orig_rax")
    };
    let pairs = expected.words().into_iter().zip(found.words());
    REGISTER_NAMES
        .iter()
        .zip(pairs)
        .filter(|(name, (e, f))| !skipped(name) && masked(name, *e) != masked(name, *f))
        .map(|(name, (expected, found))| RegisterDifference { name, expected, found })
        .collect()
}

/// A system call's name and number, for people.
pub(crate) fn call_name(nr: u64) -> String {
    let number = narrow_number(nr).map_or(nr, u64::from);
    match bis_syscalls::name(nr) {
        Some(name) => format!("{name} (system call {number})"),
        None => format!("system call {number}"),
    }
}

/// An event in few bytes, so that the last ones can be named when it comes to a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Brief {
    Start,
    Call {
        nr: u64,
        result: i64,
    },
    Enter {
        nr: u64,
    },
    Exit {
        nr: u64,
        result: i64,
    },
    Signal(Signal),
    Instruction(Insn),
    /// System calls without a stop, up to the next event.
    Hooked(usize),
    Pause(u64),
}

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = |value: i64| match i32::try_from(-value) {
            Ok(errno @ 1..=4095) => match bis_syscalls::errno_name(errno) {
                Some(name) => format!("-{name}"),
                None => value.to_string(),
            },
            _ if value > 0xffff => format!("{value:#x}"),
            _ => value.to_string(),
        };
        match *self {
            Brief::Start => f.write_str("it began"),
            Brief::Call { nr, result: value } => write!(f, "{} = {}", call_name(nr), result(value)),
            Brief::Enter { nr } => write!(f, "{} was entered", call_name(nr)),
            Brief::Exit { nr, result: value } => write!(f, "{} returned {}", call_name(nr), result(value)),
            Brief::Signal(signal) => write!(f, "{signal} took effect"),
            Brief::Pause(rip) => write!(f, "paused at {rip:#x}"),
            Brief::Hooked(count) => write!(f, "then {count} hooked calls"),
            Brief::Instruction(insn) => f.write_str(insn.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_counts_is_compared() {
        let a = Registers { rax: 1, eflags: 0x10246, ds: 0, orig_rax: 5, ..Registers::default() };
        let b = Registers { rax: 2, eflags: 0x347, ds: 0x2b, orig_rax: u64::MAX, ..Registers::default() };
        let names = |leave| compare(&a, &b, leave).iter().map(|r| r.name).collect::<Vec<_>>();
        assert_eq!(names(Leave::Nothing), ["rax", "orig_rax", "eflags"]);
        assert_eq!(names(Leave::OrigRax), ["rax", "eflags"]);
        let b = Registers { eflags: 0x246, ds: 0x2b, ..a };
        assert_eq!(compare(&a, &b, Leave::Nothing), []);
    }

    #[test]
    fn briefs_are_readable() {
        assert_eq!(Brief::Call { nr: 0, result: -2 }.to_string(), "read (system call 0) = -ENOENT");
        assert_eq!(Brief::Exit { nr: 9999, result: 3 }.to_string(), "system call 9999 returned 3");
    }
}
