//! Tick sources: what measures a task's progress between two of its events, so that a place in the middle of
//! its computation has a number. Which one a trace was made with stands in the trace ([`TickKind`]), and
//! replay uses the same.
//!
//! They are behind one trait, [`TickSource`]. Those that count conditional *branches* (hardware, stepping)
//! let a task be stopped anywhere, and can stop it at a number only roughly: the rest of the way is a matter
//! of breakpoints. The software source has the counts of the dense text: a task stands at a number only right
//! behind one, and it is stopped there exactly.
//!
//! A source counts one task (the software source: the tasks of one address space, of which one runs at a
//! time). It begins at an event and must come to the same number at the same place whenever the task runs
//! there from the same event, whoever else runs on the machine. It knows nothing of events, of what a stop
//! was for, of texts, or of the search for a place: that is the recorder's (`bis-record/places/ticks.rs`,
//! `hooks/counts.rs`) and the replayer's (`bis-replay/count.rs`).
//!
//! How a supervisor lets a task run that is counted: until a stop is [`Stop::Foreign`] or [`Stop::Tick`], ask
//! [`TickSource::resume`] how to resume it, do that, wait, and tell [`TickSource::stopped`] what the wait has
//! said. Every other way to resume a task must not make it execute its program's code, nor that of the hooks.
//! (Only where branches are counted. The text counts by itself: there, [`TickSource::resume`] is always to go
//! on, and only of a SIGTRAP [`TickSource::stopped`] has something to say.)

mod check;
mod cpu;
mod hardware;
mod instruction;
mod perf;
mod software;
mod stepping;

use std::fmt;

pub use bis_trace::types::TickKind;
use bis_trace::types::{Registers, Tid};
pub use software::Software;

use crate::{
    error::Result,
    memory::Memory,
    task::{Resume, Status, Stopped},
};

/// Bytes of the longest instruction.
pub use instruction::LEN_MAX as INSTRUCTION_LEN_MAX;

/// The flag by which the processor is told to step.
pub use bis_trace::types::TRAP_FLAG;

/// The flag by which the processor goes past a breakpoint in front of an instruction (RF of eflags); set
/// where one has stopped the task. Like the trap flag, it belongs to whoever traces.
pub const RESUME_FLAG: u64 = 0x1_0000;

/// Do these bytes begin with `pushf` or `popf`? Under a single step, those see or leave the flag by which the
/// processor is told to step.
pub fn is_of_flags(code: &[u8]) -> bool {
    instruction::class(code).0 == instruction::Class::Flags
}

/// Has the program itself set the trap flag, or is it about to, by the instruction that it stands at?
///
/// The kernel takes the flag of a single step out again, but not from a step over `popf` or `iret` on: it
/// takes the flag of the next steps for the program's own, shows it, and leaves it set. So whoever steps asks
/// this before the step, and takes the flag out behind it where the answer was no ([`take_trap_flag`]).
pub fn has_trap_flag(regs: &Registers, code: &[u8], memory: &Memory) -> bool {
    let is_loaded = || {
        let at = instruction::loaded_flags(code, regs.is_narrow());
        at.is_some_and(|at| memory.read_upto(regs.sp() + at, 2).get(1).is_some_and(|byte| byte & 1 != 0))
    };
    regs.eflags & TRAP_FLAG != 0 || is_loaded()
}

/// Takes out the trap flag that the kernel has left set after a step.
///
/// # Errors
/// Where the task was killed.
pub fn take_trap_flag(stopped: &mut Stopped) -> Result<()> {
    let regs = stopped.regs()?;
    if regs.eflags & TRAP_FLAG != 0 {
        stopped.set_regs(&Registers { eflags: regs.eflags & !TRAP_FLAG, ..regs })?;
    }
    Ok(())
}

/// What a stop of a counted task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A matter of the source alone: the task goes on.
    Inside,
    /// The count that was asked for has come; up to [`TickSource::skid`] more may have been made.
    Tick,
    /// Whatever the wait has said.
    Foreign,
    /// It was a matter of the source alone; but before, the task was interrupted, and the source has not told
    /// of it yet.
    Interrupted,
}

/// What counts for one task.
///
/// # Errors
/// All functions fail where the task was killed, or the kernel refuses what worked at the source's start-up
/// check.
pub trait TickSource: fmt::Debug + Send {
    /// A task that is to stop at a count stops at most so many counts later, never before.
    fn skid(&self) -> u64;

    /// The task stands where an event has left it: from here on is counted, from zero, and no count is asked
    /// for.
    fn begin(&mut self, memory: &Memory) -> Result<()>;

    /// The counts since [`TickSource::begin`]. The task does not run in its program now; it may be in the
    /// kernel.
    fn count(&mut self, memory: &Memory) -> Result<u64>;

    /// The task is to stop when there are so many counts, more than there are now; or with none, not to stop
    /// at a count any more. Holds for one [`Stop::Tick`], or until it is asked for another or begins anew.
    fn stop_at(&mut self, stopped: &Stopped, memory: &Memory, count: Option<u64>) -> Result<()>;

    /// The task, which was interrupted, is to stop at the next place that has a number. None: it stands at
    /// one, as it does wherever branches are counted. Else it has been asked to stop at this count, as by
    /// [`TickSource::stop_at`].
    fn stop_soon(&mut self, stopped: &Stopped, memory: &Memory) -> Result<Option<u64>>;

    /// The task is about to go on in its program: how it is to be resumed, without a signal.
    fn resume(&mut self, stopped: &Stopped, memory: &Memory) -> Result<Resume>;

    /// A source for a copy of the task, which stands where the task stands and has the same memory. None: a
    /// copy's counts cannot begin anywhere but where this source's did.
    fn duplicate(&self) -> Option<Box<dyn TickSource>>;

    /// The task has reported after that. It is not called for a task that is gone, nor for one on its way
    /// out.
    fn stopped(&mut self, stopped: &mut Stopped, memory: &Memory, status: Status) -> Result<Stop>;
}

/// A source that single-steps, for one task.
pub fn stepping() -> Box<dyn TickSource> {
    Box::new(stepping::Stepping::default())
}

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TicksError {
    /// This version does not have it.
    #[error("failed to count with the tick source {0}: this version of bis has none of that kind")]
    Unknown(String),
    #[error(
        "failed to count branches by the processor: this machine has no performance counters for it (in most virtual \
         machines there are none; the host decides); use --ticks=auto"
    )]
    NoCounters,
    #[error(
        "failed to count branches by the processor: the kernel does not allow it; set \
         /proc/sys/kernel/perf_event_paranoid to 1 or less, allow perf_event_open to this container, or use --ticks=auto"
    )]
    NotAllowed,
    /// `vendor`, `family` and `model` are what `cpuid` says.
    #[error(
        "failed to count branches by the processor: bis does not know the counters of this one ({vendor}, family {family}, \
         model {model}); use --ticks=auto"
    )]
    UnknownProcessor { vendor: String, family: u32, model: u32 },
    /// The counter is there, and is not to be trusted.
    #[error("failed to count branches by the processor ({processor}): {what}; or use --ticks=auto")]
    Wrong { processor: &'static str, what: String },
    #[error("failed to open a performance counter: {0}; use --ticks=auto")]
    Kernel(String),
}

/// The source of one recording or replay, from which each task gets its own.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    kind: TickKind,
    /// Of the hardware source only.
    hardware: Option<hardware::Setup>,
}

impl Ticks {
    /// Checks that the source can be used here. That takes milliseconds at most.
    ///
    /// # Errors
    /// Where it cannot; the text says why, and what to do.
    pub fn begin(kind: TickKind) -> Result<Ticks, TicksError> {
        let hardware = match kind {
            TickKind::State | TickKind::Software | TickKind::Stepping => None,
            TickKind::Hardware => Some(hardware::Setup::begin()?),
        };
        Ok(Ticks { kind, hardware })
    }

    /// The source with this name, for a trace that names it.
    ///
    /// # Errors
    /// As for [`Ticks::begin`].
    pub fn named(name: &str) -> Result<Ticks, TicksError> {
        Ticks::begin(TickKind::named(name).ok_or_else(|| TicksError::Unknown(name.into()))?)
    }

    pub fn kind(self) -> TickKind {
        self.kind
    }

    /// Does it count the branches that the processor makes, those of the hooks included?
    pub fn counts_branches(self) -> bool {
        matches!(self.kind, TickKind::Hardware | TickKind::Stepping)
    }

    /// A task's own source, for one that is replayed or whose branches are counted; none if nothing is
    /// counted. (Of the dense text's word, the recorder has one for each address space:
    /// [`Software::mapped`].)
    ///
    /// # Errors
    /// Where the kernel gives this task no counter.
    pub fn of(self, tid: Tid) -> Result<Option<Box<dyn TickSource>>> {
        Ok(match (self.kind, self.hardware) {
            (TickKind::Software, _) => Some(Box::new(software::Software::remote())),
            (TickKind::Stepping, _) => Some(Box::new(stepping::Stepping::default())),
            (TickKind::Hardware, Some(setup)) => Some(Box::new(hardware::Hardware::open(setup, tid)?)),
            _ => None,
        })
    }
}
