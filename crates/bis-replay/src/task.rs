//! A task of a replayed domain: what is known of it, and where it has stopped. How it is let run is in
//! `task/run.rs`, and while pages are guarded in `task/guarded.rs`.

mod changes;
mod due;
mod guarded;
mod interrupt;
mod mapped;
mod missing;
mod run;

use std::{collections::VecDeque, ops::Range};

use bis_agent::hooks::Places;
use bis_trace::types::{Addr, EventSeq, Registers, Signal, Tid};
use bis_tracee::{
    Memory, Stopped, TraceeError,
    debug::{DebugRegisters, Triggered, Watch},
    place,
    remote::Remote,
    siginfo::SigInfo,
    sys,
    ticks::{RESUME_FLAG, TRAP_FLAG, TickSource, Ticks},
};
use bytes::Bytes;

use self::due::Due;
pub(crate) use self::due::mapped_files;
pub use self::interrupt::Interrupt;
pub(crate) use self::missing::Missing;
use crate::divergence::{Brief, call_name};

/// Events of a task that are kept for a report.
const RECENT_MAX: usize = 5;

/// A task of a replica: always stopped while nobody runs it.
#[derive(Debug)]
pub struct Task {
    /// The thread id here; the recorded one is its key.
    pub ours: Tid,
    /// Empty once the task is dead.
    pub stopped: Option<Stopped>,
    /// The system call that it has entered and not left.
    pub in_call: Option<u64>,
    pub recent: VecDeque<(EventSeq, Brief)>,
    /// Where a search for a place stops it.
    pub breakpoint: Option<Breakpoint>,
    /// What that needs of debug registers: the breakpoint, or the bytes of the text that has given way.
    pub own_watches: Vec<Watch>,
    registers: DebugRegisters,
    /// Its driver knows that it is about to execute the instruction here: a breakpoint there does not stop it
    /// again.
    pub told: Option<Addr>,
    /// It stands at the entry of a system call, which is skipped, and has executed nothing since: a step from
    /// there is told of once before it is done.
    at_entry: bool,
    /// It has come to the count at which it is to stop, and its driver was told of something else there.
    owes_tick: bool,
    /// A trap of the program's own that came together with a watch: it comes when the task goes on.
    owes_trap: Option<SigInfo>,
    /// Pages that it may not write to for a while, although it may.
    pub guarded: Range<Addr>,
    /// Is its text watched by debug registers, for a breakpoint in it?
    pub is_watched: bool,
    /// A page that it cannot have where its next event is.
    pub missing: Option<Missing>,
    /// What counts how far it has come since its previous event.
    ticks: Option<Box<dyn TickSource>>,
    /// What its hooks have to consume before its next event.
    pub hooked: Option<Hooked>,
    /// What the hooks that consume a log now will yet change of the address space, in order.
    changes: VecDeque<Due>,
    /// Of a task of a 32-bit program that is kept without a thread: its thread-local storage.
    segments: Vec<[u8; 16]>,
}

/// A log of hooked calls.
#[derive(Clone, Debug)]
pub struct Hooked {
    pub alone: bool,
    pub log: Bytes,
}

/// A place at which a task stops though nothing happens there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breakpoint {
    /// Before the instruction at this address: a debug register.
    Register(u64),
    /// With this program counter, after an `int3` of ours.
    Int3(Addr),
}

/// Where a task stopped after it ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// At the entry of a system call; nothing of it was done.
    Call,
    /// Its own instruction raised a signal.
    Fault(SigInfo),
    /// At the end of a hook, with the registers that the program goes on with, but for rip.
    Safepoint,
    /// At the breakpoint of a search.
    Breakpoint,
    /// About to execute the instruction at a breakpoint of the driver's.
    Point(Addr),
    /// Behind an instruction that has touched bytes which the driver watches; the registers of the search
    /// come first in it. What it has touched of areas is in [`Traps::take_touched`].
    Watched(Triggered),
    /// Its instruction wants to touch a page that is guarded, here: only within [`Task::run`].
    Guarded(Addr),
    /// Behind an instruction that has touched a page which is guarded only so that a search for a place has
    /// debug registers: its jump takes longer than to do without.
    TooManyFaults,
    /// Behind the one instruction that it was let execute.
    Stepped,
    /// Somewhere, because somebody has asked it to stop.
    Interrupted,
    /// Where its tick source was asked to stop it.
    Tick,
    /// Behind an instruction that has read the text that is watched.
    Seen,
    /// In a hook, with another call than its log has.
    OtherCall,
    /// It was killed.
    Dead,
}

/// What a run came to, with the registers there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub found: Found,
    pub regs: Registers,
}

/// How a task is let run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub interrupt: Option<&'a Interrupt>,
    /// For one instruction only.
    pub step: bool,
    /// The program's hooks.
    pub hooks: Places,
}

impl Task {
    pub(crate) fn new(stopped: Stopped) -> Task {
        let recent = VecDeque::with_capacity(RECENT_MAX);
        // It may have been made in the middle of a remote call, whose mask of signals it has then.
        if let Err(error) = sys::set_sigmask(stopped.tid(), 0) {
            tracing::debug!(%error, "a new task keeps its mask of signals");
        }
        Task {
            ours: stopped.tid(),
            stopped: Some(stopped),
            in_call: None,
            recent,
            hooked: None,
            changes: VecDeque::new(),
            segments: Vec::new(),
            ticks: None,
            breakpoint: None,
            own_watches: Vec::new(),
            registers: DebugRegisters::default(),
            told: None,
            at_entry: false,
            owes_tick: false,
            owes_trap: None,
            guarded: Addr::NULL..Addr::NULL,
            is_watched: false,
            missing: None,
        }
    }

    /// All but its thread, for a copy. None: a copy cannot count on from here; with `is_counting` it would
    /// have to.
    pub(crate) fn freeze(&self, is_counting: bool) -> Option<Task> {
        let ticks = match &self.ticks {
            Some(source) if is_counting => Some(source.duplicate()?),
            _ => None,
        };
        Some(Task {
            ours: self.ours,
            stopped: None,
            in_call: self.in_call,
            recent: self.recent.clone(),
            breakpoint: self.breakpoint,
            own_watches: self.own_watches.clone(),
            registers: DebugRegisters::default(),
            told: self.told,
            at_entry: false,
            owes_tick: self.owes_tick,
            owes_trap: self.owes_trap,
            guarded: self.guarded.clone(),
            is_watched: self.is_watched,
            missing: self.missing,
            ticks,
            hooked: self.hooked.clone(),
            changes: self.changes.clone(),
            segments: self.segments_now(),
        })
    }

    /// The thread-local storage that it has as a task of a 32-bit program; nothing for others.
    fn segments_now(&self) -> Vec<[u8; 16]> {
        let stopped = self.stopped.as_ref();
        let narrow = stopped.filter(|stopped| stopped.regs().is_ok_and(|regs| regs.is_narrow()));
        narrow.and_then(|stopped| stopped.segments().ok()).unwrap_or_default()
    }

    /// The reverse, with this thread.
    pub(crate) fn thaw(&self, mut stopped: Stopped) -> Task {
        for descriptor in &self.segments {
            if let Err(error) = stopped.set_segment(descriptor) {
                tracing::debug!(%error, "a copied task has no thread-local storage");
            }
        }
        let ticks = self.ticks.as_ref().and_then(|source| source.duplicate());
        Task {
            in_call: self.in_call,
            recent: self.recent.clone(),
            hooked: self.hooked.clone(),
            changes: self.changes.clone(),
            ticks,
            breakpoint: self.breakpoint,
            own_watches: self.own_watches.clone(),
            told: self.told,
            guarded: self.guarded.clone(),
            is_watched: self.is_watched,
            missing: self.missing,
            ..Task::new(stopped)
        }
    }

    /// It is not on its way to an event any more, and will not be again: what stops it for one is forgotten.
    pub(crate) fn leave_events(&mut self) {
        (self.owes_tick, self.owes_trap) = (false, None);
        self.breakpoint = None;
        self.own_watches.clear();
        self.told = None;
        self.guarded = Addr::NULL..Addr::NULL;
        self.is_watched = false;
        self.missing = None;
        self.ticks = None;
        self.hooked = None;
        self.changes.clear();
    }

    /// Does nothing count it that cannot be copied?
    pub(crate) fn may_copy(&self) -> bool {
        self.ticks.as_ref().is_none_or(|source| source.duplicate().is_some())
    }

    pub(crate) fn remember(&mut self, seq: EventSeq, brief: Brief) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((seq, brief));
    }

    pub(crate) fn regs(&self) -> Result<Registers, TraceeError> {
        self.stopped.as_ref().ok_or(TraceeError::Died(self.ours))?.regs()
    }

    /// Sets the registers; a system call at whose entry the task stands will not be made.
    pub(crate) fn set_regs(&mut self, regs: &Registers) -> Result<(), TraceeError> {
        let stopped = self.stopped.as_mut().ok_or(TraceeError::Died(self.ours))?;
        stopped.set_regs(&Registers { orig_rax: u64::MAX, ..*regs })
    }

    /// Makes calls in a row in its name. Where that fails, it is not there any more.
    ///
    /// # Errors
    /// Those of the work; [`TraceeError::Died`] where the task ended meanwhile.
    pub(crate) fn in_its_name<E: From<TraceeError>>(
        &mut self,
        work: impl FnOnce(&mut Remote<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut slot = self.stopped.take();
        if slot.is_none() {
            return Err(TraceeError::Died(self.ours).into());
        }
        let mut remote = Remote::in_a_row(&mut slot)?;
        work(&mut remote)?;
        // It stands at the entry of the call behind the row.
        let is_at_entry = remote.is_at_entry();
        remote.finish()?;
        self.stopped = slot;
        self.at_entry |= is_at_entry;
        Ok(())
    }

    /// Gives it thread-local storage as 32-bit programs have it.
    pub(crate) fn set_segment(&mut self, descriptor: &[u8; 16]) -> Result<(), TraceeError> {
        self.stopped_mut()?.set_segment(descriptor)
    }

    /// Its x87 and vector registers, as a pause has them.
    pub(crate) fn extended(&self) -> Result<Vec<u8>, TraceeError> {
        Ok(place::extended(&self.stopped()?.xstate()?))
    }

    pub(crate) fn stopped(&self) -> Result<&Stopped, TraceeError> {
        self.stopped.as_ref().ok_or(TraceeError::Died(self.ours))
    }

    fn stopped_mut(&mut self) -> Result<&mut Stopped, TraceeError> {
        self.stopped.as_mut().ok_or(TraceeError::Died(self.ours))
    }

    /// The task stands where its previous event has left it, and its next is looked for: counts from here on.
    pub(crate) fn begin_ticks(&mut self, ticks: Ticks, memory: &Memory) -> Result<(), TraceeError> {
        if self.ticks.is_none() {
            self.ticks = ticks.of(self.ours)?;
        }
        self.ticks.as_mut().map_or(Ok(()), |source| source.begin(memory))
    }

    /// Nothing counts it any more.
    pub(crate) fn end_ticks(&mut self) {
        self.ticks = None;
    }

    /// Its counts since then; none if nothing counts it.
    pub(crate) fn count(&mut self, memory: &Memory) -> Result<Option<u64>, TraceeError> {
        self.ticks.as_mut().map(|source| source.count(memory)).transpose()
    }

    /// How many counts late it may stop, if it is counted.
    pub(crate) fn skid(&self) -> Option<u64> {
        self.ticks.as_ref().map(|source| source.skid())
    }

    /// It is to stop when it has so many counts, as [`Found::Tick`]; none: at no count.
    pub(crate) fn stop_at(&mut self, memory: &Memory, count: Option<u64>) -> Result<(), TraceeError> {
        let stopped = self.stopped.as_ref().ok_or(TraceeError::Died(self.ours))?;
        self.ticks.as_mut().map_or(Ok(()), |source| source.stop_at(stopped, memory, count))
    }
}

/// These registers as a debugger shows them.
#[must_use]
pub(crate) fn shown(regs: &Registers) -> Registers {
    Registers { eflags: regs.eflags & !(TRAP_FLAG | RESUME_FLAG), ..*regs }
}

/// A signal and what the kernel said about it, as in an event.
pub(crate) fn info_of(bytes: &[u8]) -> Option<SigInfo> {
    Some(SigInfo(bytes.try_into().ok()?))
}

/// What a fault is in words.
pub(crate) fn fault_text(signal: Signal, info: &SigInfo, rip: Addr) -> String {
    format!("{signal} (si_code {}, address {:#x}) raised at {rip:#x}", info.code(), info.addr())
}

/// What a call is in words, by its number and where it is made.
pub(crate) fn call_text(nr: u64, rip: Addr) -> String {
    format!("{} at {rip:#x}", call_name(nr))
}

/// What a task has come to, in words.
pub(crate) fn found_text(place: &Place) -> String {
    match &place.found {
        Found::Call => call_text(place.regs.orig_rax, place.regs.ip()),
        Found::Fault(info) => fault_text(info.signal(), info, place.regs.ip()),
        Found::Safepoint => "a stop after the last hooked call".into(),
        Found::Breakpoint => format!("a breakpoint at {:#x}", place.regs.rip),
        Found::Tick => format!("a count at {:#x}", place.regs.rip),
        Found::Seen => format!("a look at its own text at {:#x}", place.regs.rip),
        Found::OtherCall => "a hooked call that is not the one in the log".into(),
        Found::Dead => "the task was killed".into(),
        Found::Point(_)
        | Found::Watched(_)
        | Found::Guarded(_)
        | Found::TooManyFaults
        | Found::Stepped
        | Found::Interrupted => {
            format!("a stop for a debugger at {:#x}", place.regs.rip)
        }
    }
}
