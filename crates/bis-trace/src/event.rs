//! The model of what a trace says: events of a domain, and entries of the meta stream.
//!
//! The idea that keeps replay small: an event does not say which rule recorded it, it says what the replayed
//! task must find at that place (registers, call number, signal) and what must become true after it
//! (operations on the address space, bytes, registers). Whoever replays needs to know nothing of any system
//! call. The order within one event is: the state before is checked; [`Outcome::effects`] in order;
//! [`Outcome::clones`] and [`Outcome::writes`] in order; registers. [`Outcome::ours`] changes nothing: it
//! tells what of the memory that was changed is not the program's.

mod effect;
mod meta;
mod signal;

pub use self::{
    effect::{Backing, CLONED_BYTES_MAX, Cloned, Effect, MemWrite, Prot},
    meta::{DomainEntry, FileEntry, Kept, Machine, Meta, OUTSIDE, Refusal, WayBack, When},
    signal::{SignalEvent, SignalPoint},
};
use bytes::Bytes;

use crate::{
    ours::Ours,
    types::{Addr, DomainId, EventSeq, ObjectId, Registers, Signal, StandardStream, Tid},
};

/// One event of one task of one domain.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    pub seq: EventSeq,
    pub tid: Tid,
    pub kind: EventKind,
    /// How many counts the task has made since its previous event, in the measure of the trace's tick source
    /// ([`Machine::tick_source`]). None where that does not count, or counted nothing that repeats: the event
    /// did not come of the task's running, or what came (a signal that ended it) may come anywhere. A pause
    /// has it in its place.
    pub ticks: Option<u64>,
    /// Checksums of memory before the event's outcome is applied (`record --checksum`); else empty.
    pub sums: Vec<RangeSum>,
    /// The time that had passed when it was written: since its stream's previous event, of the first one
    /// since the recording's begin. The sum over a stream is exact to a millisecond (to a second behind a
    /// very long wait).
    pub lapse: Lapse,
}

/// A stretch of time in the 16 bits that an event has room for: milliseconds, or seconds where it takes more
/// than half a minute. What does not fit goes to the event after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lapse(pub u16);

impl Lapse {
    /// In units of seconds.
    const SECONDS: u16 = 0x8000;

    /// The longest that is not longer than this.
    pub fn fitting(ms: u64) -> Lapse {
        let short = u16::try_from(ms).ok().filter(|ms| *ms < Self::SECONDS);
        let seconds = u16::try_from(ms / 1000).unwrap_or(u16::MAX).min(Self::SECONDS - 1);
        Lapse(short.unwrap_or(Self::SECONDS | seconds))
    }

    pub fn ms(self) -> u64 {
        let number = u64::from(self.0 & !Self::SECONDS);
        if self.0 < Self::SECONDS { number } else { number * 1000 }
    }
}

impl Event {
    /// Does its task stand at one place when it is done, from which counts begin? Not so for what belongs to
    /// the event after it, and for a signal that came anywhere.
    pub fn is_place(&self) -> bool {
        match &self.kind {
            EventKind::Hooked { .. } | EventKind::Token { .. } => false,
            EventKind::Signal(event) => event.point != SignalPoint::Anywhere,
            _ => true,
        }
    }

    /// What becomes true by this event, for the kinds that have an outcome.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.kind {
            EventKind::Start(start) => Some(&start.outcome),
            EventKind::Syscall { outcome, .. }
            | EventKind::SyscallExit { outcome, .. }
            | EventKind::TaskExit { outcome, .. } => Some(outcome),
            EventKind::Signal(signal) => signal.handler.as_ref(),
            EventKind::SyscallEnter { .. }
            | EventKind::Instruction { .. }
            | EventKind::Token { .. }
            | EventKind::End
            | EventKind::Pause(_)
            | EventKind::Hooked { .. } => None,
        }
    }

    /// What becomes true by this event, to be changed.
    pub fn outcome_mut(&mut self) -> Option<&mut Outcome> {
        match &mut self.kind {
            EventKind::Start(start) => Some(&mut start.outcome),
            EventKind::Syscall { outcome, .. }
            | EventKind::SyscallExit { outcome, .. }
            | EventKind::TaskExit { outcome, .. } => Some(outcome),
            EventKind::Signal(signal) => signal.handler.as_mut(),
            EventKind::SyscallEnter { .. }
            | EventKind::Instruction { .. }
            | EventKind::Token { .. }
            | EventKind::End
            | EventKind::Pause(_)
            | EventKind::Hooked { .. } => None,
        }
    }
}

/// What happened.
#[expect(
    clippy::large_enum_variant,
    reason = "the large ones are the usual ones, and events live one at a time"
)]
#[derive(Clone, PartialEq, Debug)]
pub enum EventKind {
    /// The first event of every stream: where the domain's state comes from.
    Start(Box<Start>),
    /// A system call that was made and returned with no other event of the domain in between.
    Syscall { nr: u64, entry: Registers, outcome: Box<Outcome> },
    /// A system call was entered, and other events of the domain come before its return.
    SyscallEnter { nr: u64, entry: Registers },
    /// The return of the call that this task last entered.
    SyscallExit { nr: u64, outcome: Box<Outcome> },
    /// A signal took effect.
    Signal(Box<SignalEvent>),
    /// A trapped instruction whose result is not a function of the program's state.
    Instruction { insn: Insn, before: Registers, after: Registers },
    /// The task is gone. Its outcome holds what the kernel wrote on its way out (clear_child_tid, robust
    /// futexes); `outcome.regs` is meaningless.
    TaskExit { status: TaskEnd, outcome: Box<Outcome>, last_way: LastWay },
    /// Run tokens change hands. `tid` is the domain's first task. In replay, wait until each acquired
    /// object's turn has come; announce each released one.
    Token { acquired: Vec<Turn>, released: Vec<Turn> },
    /// The last event of a complete stream: every task of the domain is gone.
    End,
    /// The task was stopped between two instructions of its own, where it makes no call: it was another's
    /// turn, or a signal came (which is the next event then). In replay it stands there when this event is
    /// done.
    Pause(Box<Pause>),
    /// System calls that this task made without a stop, up to its next event: what the agent's hooks have
    /// logged (`bis_agent::hooks::entries`), never empty. In replay the log is put where the hooks find it,
    /// and the task has consumed all of it when it reaches its next event.
    Hooked {
        /// The calls could wait in their hooks, because nobody else was waiting for the task.
        alone: bool,
        /// Long, and wanted by several: it is not copied.
        log: Bytes,
    },
}

/// A place in the middle of a task's computation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    pub place: PausePlace,
    /// All general registers there.
    pub regs: Registers,
    /// The x87 and vector registers: the extended state (NT_X86_XSTATE, not compacted) with zeros for all
    /// that says nothing about the program, without the zeros at its end.
    pub extended: Vec<u8>,
    /// What some of the memory held there that the task works with.
    pub held: Vec<MemWrite>,
    /// Sums of more of that memory. Here, unlike elsewhere, a sum is xxh3 of the bytes.
    pub seen: Vec<RangeSum>,
    /// The instructions from there on that may give way to a jump while the place is looked for; empty: none
    /// may.
    pub span: Vec<u8>,
    /// Where a count of the text trapped: the program counter right behind its `int3`, in code that the
    /// program does not know. `regs` says where that is to the program. 0: the task was not stopped so.
    pub trap: u64,
}

/// How a place in the middle of computation is found again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PausePlace {
    /// By its state: it is the first place after the task's last event with these registers and these bytes.
    State,
    /// By the number of counts, in the measure of the trace's tick source ([`Machine::tick_source`]), that
    /// the task has made since its previous event that [is a place](Event::is_place). One task of a domain
    /// runs at a time, and each stands at an event when another does: so that is also what the domain has
    /// made since its own previous event. Registers and memory are as in a place by its state, less of the
    /// memory; the place is the first with this count at which they agree.
    Count(u64),
}

/// A state that a task must be in after an event, and how memory gets there.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// All general registers after the event.
    pub regs: Registers,
    /// The extended state (NT_X86_XSTATE, the kernel's non-compacted layout), where the event changed it.
    pub xstate: Option<Vec<u8>>,
    pub effects: Vec<Effect>,
    /// What the kernel put into memory and the trace has outside of its log; none overlaps another.
    pub clones: Vec<Cloned>,
    /// They come after the clones.
    pub writes: Vec<MemWrite>,
    /// What this call wrote to the program's original standard output or error.
    pub echo: Option<Echo>,
    /// What of the memory that the effects and writes have changed is bis's own. Traces of formats before 3
    /// do not say so ([`crate::Trace::says_ours`]).
    pub ours: Option<Box<Ours>>,
}

impl Outcome {
    /// To add to what is said to be bis's own.
    pub fn ours(&mut self) -> &mut Ours {
        self.ours.get_or_insert_default()
    }
}

/// Ranges of memory that went out to standard output or error, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo {
    pub stream: StandardStream,
    /// (address, length in bytes); the lengths add up to what the call wrote.
    pub ranges: Vec<(Addr, u64)>,
    /// xxh3-64 of what went out, all ranges in a row. 0: it is not known.
    pub sum: u64,
}

/// A turn of a shared object's run token; turns of one object are counted from 0 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    pub object: ObjectId,
    pub turn: u64,
}

/// Where a domain's state comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Start {
    pub base: Base,
    /// The task's registers and memory at the domain's first instruction. For a fork, `outcome.effects` is
    /// empty, and `outcome.writes` holds what the kernel wrote into the child only.
    pub outcome: Outcome,
    /// Its text may have `cpuid` instructions that nobody sees, which say on which core they are executed.
    /// (So has one without hooks on a processor that cannot make `cpuid` fault, of which this does not tell.)
    pub has_own_cpuid: bool,
    /// The number of the core on which all its tasks were, below 65,535, and have to be when it is replayed:
    /// `cpuid` tells them. None: any will do; or, where `cpuid` tells, it was the first one.
    pub core: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Base {
    /// A fresh address space; the effects of the outcome build all of it.
    Exec { path: Vec<u8>, argv: Vec<Vec<u8>>, envp: Vec<Vec<u8>>, cwd: Vec<u8> },
    /// A copy of `parent`'s address space as of its event `at` (the event that has the `Effect::Fork`).
    Fork { parent: DomainId, at: EventSeq },
    /// A process as it stood when it was found running. The effects of the outcome build its address space,
    /// and make all of its tasks but the first; the writes are what its memory held. `path` and the rest are
    /// as they were then; `auxv` is what the kernel once told the program of itself and the machine
    /// (/proc/PID/auxv).
    Image { path: Vec<u8>, argv: Vec<Vec<u8>>, envp: Vec<Vec<u8>>, cwd: Vec<u8>, auxv: Vec<u8> },
}

/// The program that a base is an image of.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub path: &'a Vec<u8>,
    pub argv: &'a [Vec<u8>],
    pub envp: &'a [Vec<u8>],
    pub cwd: &'a [u8],
}

impl Base {
    /// The program, where the base itself says it. A copy has its parent's.
    pub fn program(&self) -> Option<Program<'_>> {
        match self {
            Base::Exec { path, argv, envp, cwd } | Base::Image { path, argv, envp, cwd, .. } => {
                Some(Program { path, argv, envp, cwd })
            }
            Base::Fork { .. } => None,
        }
    }

    /// The domain that this is a copy of, and the event at which it was copied. None: the domain can be
    /// replayed by itself.
    pub fn copied_from(&self) -> Option<(DomainId, EventSeq)> {
        match self {
            Base::Fork { parent, at } => Some((*parent, *at)),
            Base::Exec { .. } | Base::Image { .. } => None,
        }
    }

    pub fn is_copy(&self) -> bool {
        self.copied_from().is_some()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insn {
    Rdtsc,
    Rdtscp,
    Cpuid,
    Rdrand,
    Rdseed,
    Rdpid,
    /// It fails at once.
    Xbegin,
    /// What it leaves out is filled in. Never an event of its own.
    Xsavec,
    /// With a selector in a register.
    Lsl,
    /// And `fnsave`: what a switch of tasks may lose is left out. Never an event of its own.
    Fnstenv,
}

impl Insn {
    pub const ALL: [Insn; 10] = [
        Insn::Rdtsc,
        Insn::Rdtscp,
        Insn::Cpuid,
        Insn::Rdrand,
        Insn::Rdseed,
        Insn::Rdpid,
        Insn::Xbegin,
        Insn::Xsavec,
        Insn::Lsl,
        Insn::Fnstenv,
    ];

    /// As assemblers write it.
    pub fn name(self) -> &'static str {
        match self {
            Insn::Rdtsc => "rdtsc",
            Insn::Rdtscp => "rdtscp",
            Insn::Cpuid => "cpuid",
            Insn::Rdrand => "rdrand",
            Insn::Rdseed => "rdseed",
            Insn::Rdpid => "rdpid",
            Insn::Xbegin => "xbegin",
            Insn::Xsavec => "xsavec",
            Insn::Lsl => "lsl",
            Insn::Fnstenv => "fnstenv",
        }
    }
}

/// How a task left its domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskEnd {
    /// exit or exit_group, 0..=255.
    Exited(u8),
    Killed(Signal),
    /// It went on in another domain by exec.
    Exec(DomainId),
    /// Another thread of the process called exec.
    Dethreaded,
}

/// Where a task came to in its program before it ended, if others see what it stored on that way. Replay lets
/// it go there before it ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LastWay {
    /// Where its last event has left it.
    #[default]
    None,
    /// To the end of the last hooked call in the log before this event.
    Log,
    /// Into the next call of a hook, which it did not log.
    Call,
}

/// A checksum of a range of memory; zero pages and pages not present are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeSum {
    pub addr: Addr,
    pub len: u64,
    /// Sum over the non-zero 4 KiB pages of xxh3(page) keyed by the page's address.
    pub sum: u64,
    /// It is of a stack: words at multiples of 64 that are less than 256 count as zero.
    pub is_stack: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lapses_lose_nothing_but_what_the_next_one_says() {
        for ms in [0, 1, 999, 0x7fff, 0x8000, 65_535, 65_536, 3_600_000, 32_767_000, 32_768_999, u64::MAX] {
            let told = Lapse::fitting(ms).ms();
            assert!(told <= ms, "{ms}");
            let is_least = if ms < 0x8000 { ms == told } else { ms - told < 1000 || told == 32_767_000 };
            assert!(is_least, "{ms}: {told}");
        }
    }
}
