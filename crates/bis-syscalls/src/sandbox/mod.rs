//! The program's own seccomp filters: what the kernel would answer to a call of a task that has them.
//!
//! The recorder never installs them. The kernel takes the strictest answer of all filters that a task has, so
//! one of the program's would come before the recorder's: calls would fail, or end the task, where nobody
//! could write it down, and the calls that the agent makes in the task's name would be judged as if they were
//! the program's. So filters are kept here, and each call is judged before it is made.
//!
//! A filter is a program of classic BPF over `struct seccomp_data` (man 2 seccomp). `check` refuses those
//! that the kernel refuses, `run` executes one. (There are crates that make such programs, and machines for
//! the newer BPF, which is another language; none that runs these.)

mod check;
mod run;

use std::sync::Arc;

use crate::errno::{EINVAL, ENOMEM};

/// A call as filters see it: `struct seccomp_data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The call's number.
    pub nr: u32,
    /// The address behind the instruction that made it.
    pub ip: u64,
    pub args: [u64; 6],
    pub table: Table,
}

/// The table that a call's number is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// That of 64-bit programs.
    Wide,
    /// That of 32-bit programs.
    Narrow,
}

impl Table {
    /// As filters are told it: AUDIT_ARCH_X86_64 or AUDIT_ARCH_I386.
    pub fn arch(self) -> u32 {
        match self {
            Table::Wide => 0xc000_003e,
            Table::Narrow => 0x4000_0003,
        }
    }

    /// What strict mode allows: read, write, exit, and the return from a handler.
    fn strict(self) -> [u32; 4] {
        match self {
            Table::Wide => [0, 1, 60, 15],
            Table::Narrow => [3, 4, 1, 119],
        }
    }
}

/// Bytes of `struct seccomp_data`.
const DATA_LEN: u32 = 64;

/// One instruction: `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Insn {
    pub code: u16,
    /// How many instructions a jump skips, where its condition holds.
    pub jt: u8,
    /// How many instructions a jump skips, where its condition does not hold.
    pub jf: u8,
    pub k: u32,
}

impl Insn {
    /// Bytes of an instruction in memory.
    pub const LEN: usize = 8;

    /// As it lies in memory.
    pub fn from_bytes(bytes: [u8; Insn::LEN]) -> Insn {
        let [a, b, jt, jf, k @ ..] = bytes;
        Insn { code: u16::from_le_bytes([a, b]), jt, jf, k: u32::from_le_bytes(k) }
    }

    /// As it lies in memory.
    pub fn to_bytes(self) -> [u8; Insn::LEN] {
        let ([a, b], [c, d, e, f]) = (self.code.to_le_bytes(), self.k.to_le_bytes());
        [a, b, self.jt, self.jf, c, d, e, f]
    }
}

/// The most instructions that a filter has.
pub const INSNS_MAX: usize = 4096;

/// The most that all filters of a task have, with four more for each filter.
const ALL_INSNS_MAX: usize = (1 << 18) / Insn::LEN;
const EXTRA: usize = 4;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is made. (LOG is this, too: what the kernel's log says is not the program's business.)
    Allow,
    /// It fails with this errno.
    Errno(i32),
    /// A tracer that wants to is asked, and is told this number; without one it fails with ENOSYS.
    Trace(u32),
    /// It is not made; the task gets SIGSYS, with this in si_errno.
    Trap(i32),
    /// The task ends, with SIGSYS where it is the last of its process.
    KillThread,
    /// Its process ends, with SIGSYS.
    KillProcess,
    /// Its process ends, with SIGKILL (strict mode).
    Sigkill,
}

mod action {
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x3_0000;
    pub const ERRNO: u32 = 0x5_0000;
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;

    /// Without the data.
    pub const MASK: u32 = 0xffff_0000;
}

const ENOSYS: i32 = 38;
const ERRNO_MAX: u32 = 4095;

/// What a filter's answer means to a task that has no listener.
fn verdict(answer: u32) -> Verdict {
    let data = answer & !action::MASK;
    match answer & action::MASK {
        action::ALLOW | action::LOG => Verdict::Allow,
        action::ERRNO => Verdict::Errno(i32::try_from(data.min(ERRNO_MAX)).unwrap_or(0)),
        action::TRACE => Verdict::Trace(data),
        action::USER_NOTIF => Verdict::Errno(ENOSYS),
        action::TRAP => Verdict::Trap(i32::try_from(data).unwrap_or(0)),
        action::KILL_THREAD => Verdict::KillThread,
        _ => Verdict::KillProcess,
    }
}

/// How strict an answer is: the lowest wins.
fn rank(answer: u32) -> i32 {
    (answer & action::MASK).cast_signed()
}

/// Is this what filters may answer (SECCOMP_GET_ACTION_AVAIL)? A listener is not to be had, so its action is
/// not.
pub fn is_action_available(answer: u32) -> bool {
    use action::{ALLOW, ERRNO, KILL_PROCESS, KILL_THREAD, LOG, TRACE, TRAP};
    [KILL_PROCESS, KILL_THREAD, TRAP, ERRNO, TRACE, LOG, ALLOW].contains(&answer)
}

/// A filter that the kernel would take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter(Vec<Insn>);

impl Filter {
    /// Checks a program.
    ///
    /// # Errors
    /// EINVAL, where the kernel would not take it.
    pub fn new(program: Vec<Insn>) -> Result<Filter, i32> {
        if check::is_good(&program) { Ok(Filter(program)) } else { Err(EINVAL) }
    }

    /// What it says of a call.
    pub fn run(&self, question: &Question) -> u32 {
        run::run(&self.0, question)
    }

    /// What it says of every call of this number, whatever its arguments; none where it looks at them.
    fn of_number(&self, nr: u32) -> Option<u32> {
        run::of_number(&self.0, nr)
    }
}

/// What a task is held to: nothing (the default), strict mode, or filters.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    is_strict: bool,
    /// The newest last.
    filters: Vec<Arc<Filter>>,
}

impl Sandbox {
    /// Does every call of the task have to be judged?
    pub fn is_there(&self) -> bool {
        self.is_strict || !self.filters.is_empty()
    }

    /// As `prctl(PR_GET_SECCOMP)` and /proc say it: 0, 1 for strict mode, 2 for filters.
    pub fn mode(&self) -> u32 {
        if self.is_strict { 1 } else { 2 * u32::from(!self.filters.is_empty()) }
    }

    /// How many filters there are.
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    /// Are there no filters?
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Enters strict mode.
    ///
    /// # Errors
    /// EINVAL, where there are filters.
    pub fn be_strict(&mut self) -> Result<(), i32> {
        if self.is_empty() {
            self.is_strict = true;
            return Ok(());
        }
        Err(EINVAL)
    }

    /// Adds a filter.
    ///
    /// # Errors
    /// EINVAL in strict mode; ENOMEM, where all filters together are too long.
    pub fn add(&mut self, filter: Filter) -> Result<(), i32> {
        if self.is_strict {
            return Err(EINVAL);
        }
        let all: usize = self.filters.iter().map(|older| older.0.len() + EXTRA).sum();
        if filter.0.len() + all > ALL_INSNS_MAX {
            return Err(ENOMEM);
        }
        self.filters.push(Arc::new(filter));
        Ok(())
    }

    /// Has `other` all filters that this one has, and perhaps more? Then its owner may make this one's owner
    /// have the same (SECCOMP_FILTER_FLAG_TSYNC).
    pub fn is_ancestor_of(&self, other: &Sandbox) -> bool {
        let is_same = |(a, b): (&Arc<Filter>, &Arc<Filter>)| Arc::ptr_eq(a, b);
        !self.is_strict
            && self.filters.len() <= other.filters.len()
            && self.filters.iter().zip(&other.filters).all(is_same)
    }

    /// What becomes of this call.
    pub fn judge(&self, question: &Question) -> Verdict {
        if self.is_strict {
            let allowed = question.table.strict().contains(&question.nr);
            return if allowed { Verdict::Allow } else { Verdict::Sigkill };
        }
        let answers = self.filters.iter().rev().map(|filter| filter.run(question));
        verdict(strictest(answers))
    }

    /// Is every call of this number of the 64-bit table made, whatever its arguments?
    pub fn always_allows(&self, nr: u64) -> bool {
        let Ok(nr) = u32::try_from(nr) else { return false };
        if self.is_strict {
            return Table::Wide.strict().contains(&nr);
        }
        let answers: Option<Vec<u32>> =
            self.filters.iter().rev().map(|filter| filter.of_number(nr)).collect();
        answers.is_some_and(|answers| verdict(strictest(answers.into_iter())) == Verdict::Allow)
    }
}

/// Of answers, the newest filter's first: the first of the strictest.
fn strictest(answers: impl Iterator<Item = u32>) -> u32 {
    answers.fold(action::ALLOW, |least, answer| if rank(answer) < rank(least) { answer } else { least })
}

#[cfg(test)]
mod tests;
