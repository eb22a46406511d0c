//! A task of a replayed domain, and what became of it when it was let run.

use std::{collections::VecDeque, ops::Range};

use bis_agent::hooks;
use bis_trace::types::{EventSeq, Registers, Signal, Tid};
use bis_tracee::{
    Memory, Resume, Status, Stopped, TraceeError, place,
    siginfo::SigInfo,
    task,
    ticks::{Stop, TickSource, Ticks},
};

use crate::divergence::Brief;

/// Events of a task that are kept for a report.
const RECENT_MAX: usize = 5;

/// A task between two of its events: always stopped, in the state that its last event left.
pub(crate) struct Task {
    /// The thread id here; the recorded one is its key.
    pub ours: Tid,
    /// Empty once the task is dead.
    pub stopped: Option<Stopped>,
    /// The system call that it has entered and not left.
    pub in_call: Option<u64>,
    pub recent: VecDeque<(EventSeq, Brief)>,
    /// Where it stops beside.
    pub breakpoint: Option<Breakpoint>,
    /// Pages that it may not write to for a while, although it may.
    pub guarded: Range<u64>,
    /// Is some text watched by debug registers? A task has those for a breakpoint or for this.
    pub is_watched: bool,
    /// What counts how far it has come since its previous event.
    ticks: Option<Box<dyn TickSource>>,
    /// What its hooks have to consume before its next event.
    pub hooked: Option<Hooked>,
}

/// A log of hooked calls.
pub(crate) struct Hooked {
    pub alone: bool,
    pub log: Vec<u8>,
}

/// A place at which a task stops though nothing happens there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Breakpoint {
    /// Before the instruction at this address: a debug register.
    Register(u64),
    /// With this program counter, after an `int3` of ours.
    Int3(u64),
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
    /// At the breakpoint.
    Breakpoint,
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

impl Task {
    pub(crate) fn new(stopped: Stopped) -> Task {
        let recent = VecDeque::with_capacity(RECENT_MAX);
        Task {
            ours: stopped.tid(),
            stopped: Some(stopped),
            in_call: None,
            recent,
            hooked: None,
            ticks: None,
            breakpoint: None,
            guarded: 0..0,
            is_watched: false,
        }
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

    /// Its x87 and vector registers, as a pause has them.
    pub(crate) fn extended(&self) -> Result<Vec<u8>, TraceeError> {
        Ok(place::extended(&self.stopped()?.xstate()?))
    }

    pub(crate) fn stopped(&self) -> Result<&Stopped, TraceeError> {
        self.stopped.as_ref().ok_or(TraceeError::Died(self.ours))
    }

    /// The task stands where its previous event has left it, and its next is looked for: counts from here on.
    pub(crate) fn begin_ticks(&mut self, ticks: Ticks, memory: &Memory) -> Result<(), TraceeError> {
        if self.ticks.is_none() {
            self.ticks = ticks.of(self.ours)?;
        }
        self.ticks.as_mut().map_or(Ok(()), |source| source.begin(memory))
    }

    /// Its counts since then; none if nothing counts it.
    pub(crate) fn count(&mut self, memory: &Memory) -> Result<Option<u64>, TraceeError> {
        self.ticks.as_mut().map(|source| source.count(memory)).transpose()
    }

    /// How many counts late it may stop, if it is counted.
    pub(crate) fn skid(&self) -> Option<u64> {
        self.ticks.as_ref().map(|source| source.skid())
    }

    /// It is to stop when it has so many counts, as [`Found::Tick`].
    pub(crate) fn stop_at(&mut self, memory: &Memory, count: u64) -> Result<(), TraceeError> {
        let stopped = self.stopped.as_ref().ok_or(TraceeError::Died(self.ours))?;
        self.ticks.as_mut().map_or(Ok(()), |source| source.stop_at(stopped, memory, Some(count)))
    }

    /// Lets the task run to its next system call or fault. Signals that somebody sends it meanwhile are dropped:
    /// those of the recording are not delivered but written.
    pub(crate) fn run(&mut self, memory: &Memory) -> Result<Place, TraceeError> {
        loop {
            let stopped = self.stopped.take().ok_or(TraceeError::Died(self.ours))?;
            let how = match &mut self.ticks {
                Some(source) => source.resume(&stopped, memory)?,
                None => Resume::Cont,
            };
            let running = stopped.resume(how, None)?;
            let status = task::wait_for(self.ours)?;
            if let Status::Exited(_) | Status::Killed(_) | Status::Exit(_) = status {
                // Reaped by whoever cleans up the process.
                task::put_back(self.ours, status);
                return Ok(Place { found: Found::Dead, regs: Registers::default() });
            }
            let breakpoint = self.breakpoint;
            let stopped = self.stopped.insert(running.stopped());
            if let Some(source) = &mut self.ticks {
                match source.stopped(stopped, memory, status)? {
                    Stop::Inside | Stop::Interrupted => continue,
                    Stop::Tick => return Ok(Place { found: Found::Tick, regs: stopped.regs()? }),
                    Stop::Foreign => {}
                }
            }
            match status {
                Status::Seccomp => {
                    let regs = stopped.regs()?;
                    let found = if regs.rip == hooks::SAFEPOINT_END { Found::Safepoint } else { Found::Call };
                    return Ok(Place { found, regs });
                }
                Status::Signal(signal) => {
                    let info = SigInfo(stopped.siginfo()?);
                    let stopped_at = stopped.regs()?;
                    if info.signal() == signal && is_breakpoint(breakpoint, info, stopped_at) {
                        return Ok(Place { found: Found::Breakpoint, regs: stopped_at });
                    }
                    if self.is_watched && info.is_debug_exception() && place::is_triggered(stopped)? {
                        return Ok(Place { found: Found::Seen, regs: stopped_at });
                    }
                    if info.is_fault() && info.signal() == signal {
                        let mut regs = stopped_at;
                        if self.guarded.contains(&info.addr()) {
                            return Ok(Place { found: Found::Fault(info), regs });
                        }
                        if (hooks::COPY..hooks::COPY_FAULT).contains(&regs.rip) {
                            // As when it was recorded: the pointer is the program's mistake.
                            regs.rip = hooks::COPY_FAULT;
                            stopped.set_regs(&regs)?;
                            continue;
                        }
                        if regs.rip == hooks::DIVERGED + 1 {
                            return Ok(Place { found: Found::OtherCall, regs });
                        }
                        return Ok(Place { found: Found::Fault(info), regs });
                    }
                    tracing::debug!(task = %self.ours, %signal, "a signal from outside is dropped");
                }
                _ => {}
            }
        }
    }
}

/// Is this trap the breakpoint's?
fn is_breakpoint(breakpoint: Option<Breakpoint>, info: SigInfo, regs: Registers) -> bool {
    match breakpoint {
        Some(Breakpoint::Register(addr)) => info.is_debug_exception() && regs.rip == addr,
        Some(Breakpoint::Int3(rip)) => info.is_breakpoint() && regs.rip == rip,
        None => false,
    }
}

/// A signal and what the kernel said about it, as in an event.
pub(crate) fn info_of(bytes: &[u8]) -> Option<SigInfo> {
    Some(SigInfo(bytes.try_into().ok()?))
}

/// What a fault is in words.
pub(crate) fn fault_text(signal: Signal, info: &SigInfo, rip: u64) -> String {
    format!("{signal} (si_code {}, address {:#x}) raised at {rip:#x}", info.code(), info.addr())
}
