//! A task of a replayed domain, and what became of it when it was let run.

mod changes;

use std::{
    collections::VecDeque,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
};

use bis_agent::hooks::{Change, Places};
use bis_trace::types::{Addr, EventSeq, Registers, Signal, Tid};
use bis_tracee::{
    Memory, Resume, Status, Stopped, TraceeError,
    debug::{DebugRegisters, Triggered, Watch},
    maps, place,
    siginfo::SigInfo,
    sys, task,
    ticks::{self, Stop, TickSource, Ticks},
};

use crate::{areas, counted::Counted, divergence::Brief, traps::Traps};

/// Events of a task that are kept for a report.
const RECENT_MAX: usize = 5;

/// The trap and the resume flag of eflags: they belong to whoever traces.
const TRAP_FLAG: u64 = 0x100;
const RESUME_FLAG: u64 = 0x1_0000;

/// A fault's code where the page is there, and its protection forbids the access (SEGV_ACCERR).
const ACCESS_DENIED: i32 = 2;

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
    /// It stands at the entry of a system call, and nothing was done with it since.
    at_entry: bool,
    /// It has come to the count at which it is to stop, and its driver was told of something else there.
    owes_tick: bool,
    /// Pages that it may not write to for a while, although it may.
    pub guarded: Range<Addr>,
    /// Is its text watched by debug registers, for a breakpoint in it?
    pub is_watched: bool,
    /// What counts how far it has come since its previous event.
    ticks: Option<Box<dyn TickSource>>,
    /// What its hooks have to consume before its next event.
    pub hooked: Option<Hooked>,
    /// What the hooks that consume a log now will yet change of the address space, in order.
    changes: VecDeque<Change>,
}

/// A log of hooked calls.
#[derive(Clone, Debug)]
pub struct Hooked {
    pub alone: bool,
    pub log: Vec<u8>,
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

/// What comes of a stop.
#[expect(clippy::large_enum_variant, reason = "it is looked at as soon as it is made")]
enum Next {
    /// It goes on: the stop was not for anybody.
    On,
    At(Place),
}

impl Next {
    fn at(found: Found, regs: Registers) -> Next {
        Next::At(Place { found, regs })
    }
}

/// Where a task stands before it is let run.
struct Begin<'a> {
    regs: Registers,
    /// The bytes of the instruction there, if it is to execute that alone.
    instruction: &'a [u8],
}

/// A way to stop a replica from another thread: [`Interrupt::ask`].
#[derive(Debug, Default)]
pub struct Interrupt {
    is_asked: AtomicBool,
    /// The task that runs, or 0.
    running: AtomicI32,
}

impl Interrupt {
    /// The signal that brings a task to a stop. No signal of this kind reaches a replayed program.
    const SIGNAL: Signal = Signal(16);

    /// The replica stops soon, or when it is told to go on the next time.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        let tid = self.running.load(Ordering::SeqCst);
        if tid != 0 {
            // It may have ended, and its number hardly is another's so soon: its tracer has not reaped it.
            let _ = sys::kill_task(Tid(tid), Interrupt::SIGNAL);
        }
    }

    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// It was asked, and is not any more.
    pub fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::SeqCst)
    }
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
            ticks: None,
            breakpoint: None,
            own_watches: Vec::new(),
            registers: DebugRegisters::default(),
            told: None,
            at_entry: false,
            owes_tick: false,
            guarded: Addr::NULL..Addr::NULL,
            is_watched: false,
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
            guarded: self.guarded.clone(),
            is_watched: self.is_watched,
            ticks,
            hooked: self.hooked.clone(),
            changes: self.changes.clone(),
        })
    }

    /// The reverse, with this thread.
    pub(crate) fn thaw(&self, stopped: Stopped) -> Task {
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
            ..Task::new(stopped)
        }
    }

    /// It is not on its way to an event any more, and will not be again: what stops it for one is forgotten.
    pub(crate) fn leave_events(&mut self) {
        self.breakpoint = None;
        self.own_watches.clear();
        self.told = None;
        self.guarded = Addr::NULL..Addr::NULL;
        self.is_watched = false;
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

    /// It is to stop when it has so many counts, as [`Found::Tick`].
    pub(crate) fn stop_at(&mut self, memory: &Memory, count: u64) -> Result<(), TraceeError> {
        let stopped = self.stopped.as_ref().ok_or(TraceeError::Died(self.ours))?;
        self.ticks.as_mut().map_or(Ok(()), |source| source.stop_at(stopped, memory, Some(count)))
    }

    /// Lets the task run to its next system call or fault, or to what its driver stops it for. Signals that
    /// somebody sends it meanwhile are dropped: those of the recording are not delivered but written.
    pub(crate) fn run(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        if traps.areas.is_empty() {
            return self.run_once(memory, traps, run);
        }
        let ours = self.ours;
        self.at_entry = false;
        traps.areas.guard(&mut self.stopped, || maps::read(ours))?;
        let place = self.run_guarded(memory, traps, run)?;
        if self.stopped.is_some() && place.found != Found::Dead {
            self.at_entry = false;
            traps.areas.free(&mut self.stopped)?;
        }
        Ok(place)
    }

    /// The same, while pages of watched bytes are guarded.
    fn run_guarded(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        loop {
            let place = self.run_once(memory, traps, run)?;
            let Found::Guarded(addr) = place.found else { return Ok(place) };
            let place = self.touch(memory, traps, (addr, run))?;
            if place.found != Found::Dead {
                traps.areas.guard_again(&mut self.stopped)?;
            }
            match place.found {
                Found::Stepped if run.step => return Ok(place),
                Found::Stepped if run.interrupt.is_some_and(Interrupt::is_asked) => {
                    return Ok(Place { found: Found::Interrupted, ..place });
                }
                Found::Stepped => {}
                _ => return Ok(place),
            }
        }
    }

    /// The task is about to execute an instruction that wants to touch a guarded page, at `addr`: lets it,
    /// and looks what comes of it. [`Found::Stepped`]: nothing that is watched.
    fn touch(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        (addr, run): (Addr, Run<'_>),
    ) -> Result<Place, TraceeError> {
        traps.areas.let_go(&mut self.stopped, memory, addr)?;
        // The program reads and writes there as if there were no breakpoints.
        let mut lifted = traps.lift_freed(memory)?;
        let touched = self.touch_freed(memory, traps, (run, &mut lifted));
        lifted.into_iter().for_each(|at| traps.put_back(memory, at));
        touched
    }

    /// The same, with that page let go. `lifted`: the breakpoints that were taken away for it.
    fn touch_freed(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        (run, lifted): (Run<'_>, &mut Vec<Addr>),
    ) -> Result<Place, TraceeError> {
        loop {
            let begin = self.regs()?;
            // What tests a condition, or counts, is not the program; copies of its instructions are.
            let is_other = |counted: &Counted| {
                counted.has(Addr(begin.rip)) && counted.original(Addr(begin.rip)).is_none()
            };
            let is_own = !traps.counted().iter().any(is_other);
            let code = memory.read_upto(Addr(begin.rip), ticks::INSTRUCTION_LEN_MAX);
            let accesses =
                if traps.areas.asks_for_accesses() { areas::accesses(&code, &begin) } else { Vec::new() };
            let mut place = loop {
                let place = self.run_once(memory, traps, Run { interrupt: None, step: true, ..run })?;
                // It may touch several pages.
                let Found::Guarded(other) = place.found else { break place };
                traps.areas.let_go(&mut self.stopped, memory, other)?;
                lifted.extend(traps.lift_freed(memory)?);
            };
            if !matches!(place.found, Found::Stepped | Found::Watched(_)) {
                return Ok(place);
            }
            let bytes = begin.ip()..begin.ip() + code.len() as u64;
            let touched = traps.areas.touched(memory, (bytes, &accesses))?;
            if is_own && !touched.is_empty() {
                traps.touched = touched;
                if place.found == Found::Stepped {
                    place.found = Found::Watched(Triggered::default());
                }
            }
            // An instruction that repeats itself touches the same page again.
            let goes_on = place.found == Found::Stepped && place.regs.rip == begin.rip && !run.step;
            if !goes_on || run.interrupt.is_some_and(Interrupt::is_asked) {
                return Ok(place);
            }
        }
    }

    fn run_once(&mut self, memory: &Memory, traps: &mut Traps, run: Run<'_>) -> Result<Place, TraceeError> {
        let begin = self.regs()?;
        let instruction =
            if run.step { memory.read_upto(Addr(begin.rip), ticks::INSTRUCTION_LEN_MAX) } else { Vec::new() };
        let has_flag = run.step && has_trap_flag(&begin, &instruction, memory);
        let begin = Begin { regs: begin, instruction: &instruction };
        let mut place = self.run_from(&begin, memory, traps, run)?;
        // From a step over `popf` on, the kernel takes the flag of each step for the program's own.
        if run.step
            && !has_flag
            && place.found != Found::Dead
            && let Some(stopped) = self.stopped.as_mut()
        {
            let regs = stopped.regs()?;
            if regs.eflags & TRAP_FLAG != 0 {
                stopped.set_regs(&Registers { eflags: regs.eflags & !TRAP_FLAG, ..regs })?;
            }
            place.regs.eflags &= !TRAP_FLAG;
        }
        Ok(place)
    }

    fn run_from(
        &mut self,
        begin: &Begin<'_>,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        if std::mem::take(&mut self.owes_tick) {
            return Ok(Place { found: Found::Tick, regs: begin.regs });
        }
        loop {
            let was_at_entry = std::mem::take(&mut self.at_entry);
            let status = self.let_go_on(memory, traps, run)?;
            if let Status::Exited(_) | Status::Killed(_) | Status::Exit(_) = status {
                // Reaped by whoever cleans up the process.
                task::put_back(self.ours, status);
                return Ok(Place { found: Found::Dead, regs: Registers::default() });
            }
            let info = match status {
                Status::Signal(_) => Some(SigInfo(self.stopped()?.siginfo()?)),
                _ => None,
            };
            let next = match (self.ask_source((status, info), memory, traps, run)?, status, info) {
                (Some(next), ..) => next,
                (None, Status::Seccomp, _) => self.at_call(traps, run)?,
                (None, Status::Signal(signal), Some(info)) => {
                    self.at_signal((signal, info), begin, was_at_entry, memory, traps, run)?
                }
                _ => Next::On,
            };
            if let Next::At(place) = next {
                return Ok(place);
            }
        }
    }

    /// Lets it run to its next stop, which this is, or its end.
    fn let_go_on(&mut self, memory: &Memory, traps: &Traps, run: Run<'_>) -> Result<Status, TraceeError> {
        let stopped = self.stopped.take().ok_or(TraceeError::Died(self.ours))?;
        self.registers.write(&stopped, &traps.registers(&self.own_watches))?;
        let how = match &mut self.ticks {
            Some(source) => source.resume(&stopped, memory)?,
            None => Resume::Cont,
        };
        let how = if run.step && how == Resume::Cont { Resume::Step } else { how };
        if let Some(interrupt) = run.interrupt {
            interrupt.running.store(self.ours.0, Ordering::SeqCst);
        }
        let running = stopped.resume(how, None)?;
        let status = task::wait_for(self.ours);
        if let Some(interrupt) = run.interrupt {
            interrupt.running.store(0, Ordering::SeqCst);
        }
        let status = status?;
        if !matches!(status, Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) {
            self.stopped = Some(running.stopped());
        }
        Ok(status)
    }

    /// What a stop is to the source of its counts. None: nothing.
    fn ask_source(
        &mut self,
        (status, info): (Status, Option<SigInfo>),
        memory: &Memory,
        traps: &Traps,
        run: Run<'_>,
    ) -> Result<Option<Next>, TraceeError> {
        let stopped = self.stopped.as_mut().ok_or(TraceeError::Died(self.ours))?;
        let is_trap = status == Status::Signal(Signal::TRAP);
        let is_point = is_trap
            && info.is_some_and(|info| info.is_breakpoint())
            && traps.is_trap(stopped.regs()?.ip()).is_some();
        // A count's trap and a breakpoint of the driver's behind it look the same to a source.
        let Some(source) = self.ticks.as_mut().filter(|_| !is_point) else { return Ok(None) };
        let stop = source.stopped(stopped, memory, status)?;
        // A source that steps takes the exceptions with which debug registers speak.
        if stop != Stop::Foreign && is_trap && info.is_some_and(|info| info.is_debug_exception()) {
            let triggered = self.registers.take_triggered(stopped)?;
            let is_drivers = triggered.has_from(self.own_watches.len());
            if is_drivers || self.is_watched && triggered.any() {
                self.owes_tick = stop == Stop::Tick;
                let found = if is_drivers { Found::Watched(triggered) } else { Found::Seen };
                return Ok(Some(Next::at(found, stopped.regs()?)));
            }
        }
        let found = match stop {
            Stop::Inside if run.step => Found::Stepped,
            // A source that steps lets it run for one instruction at a time: nobody could interrupt that.
            Stop::Inside | Stop::Interrupted if is_trap && run.interrupt.is_some_and(Interrupt::is_asked) => {
                Found::Interrupted
            }
            Stop::Inside | Stop::Interrupted => return Ok(Some(Next::On)),
            Stop::Tick => Found::Tick,
            Stop::Foreign => return Ok(None),
        };
        Ok(Some(Next::at(found, stopped.regs()?)))
    }

    /// It stands at the entry of a call.
    fn at_call(&mut self, traps: &mut Traps, run: Run<'_>) -> Result<Next, TraceeError> {
        let stopped = self.stopped_mut()?;
        let mut regs = stopped.regs()?;
        if run.step && regs.r11 & TRAP_FLAG != 0 {
            // The processor has put the flags there, with that of the step.
            regs.r11 &= !TRAP_FLAG;
            stopped.set_regs(&regs)?;
        }
        if let Some(next) = self.at_change(&regs, traps, run)? {
            return Ok(next);
        }
        self.at_entry = true;
        let found = if regs.rip == run.hooks.safepoint_end { Found::Safepoint } else { Found::Call };
        Ok(Next::at(found, regs))
    }

    /// It has got a signal.
    fn at_signal(
        &mut self,
        (signal, info): (Signal, SigInfo),
        begin: &Begin<'_>,
        was_at_entry: bool,
        memory: &Memory,
        traps: &Traps,
        run: Run<'_>,
    ) -> Result<Next, TraceeError> {
        let regs = self.regs()?;
        if info.is_debug_exception()
            && signal == Signal::TRAP
            && let Some(next) = self.at_debug_exception(begin, was_at_entry, &regs, memory, run)?
        {
            return Ok(next);
        }
        if info.signal() == signal && is_breakpoint(self.breakpoint, info, regs) {
            return Ok(Next::at(Found::Breakpoint, regs));
        }
        if info.is_breakpoint()
            && let Some(next) = self.at_int3(begin, &regs, memory, traps)?
        {
            return Ok(next);
        }
        if info.is_fault() && info.signal() == signal {
            return self.at_fault(info, regs, memory, traps, run);
        }
        if run.interrupt.is_some_and(Interrupt::is_asked) {
            return Ok(Next::at(Found::Interrupted, regs));
        }
        tracing::debug!(task = %self.ours, %signal, "a signal from outside is dropped");
        Ok(Next::On)
    }

    /// A debug register has triggered, or a step is done. None: neither of them.
    fn at_debug_exception(
        &mut self,
        begin: &Begin<'_>,
        was_at_entry: bool,
        regs: &Registers,
        memory: &Memory,
        run: Run<'_>,
    ) -> Result<Option<Next>, TraceeError> {
        let triggered = self.registers.take_triggered(self.stopped()?)?;
        let is_done = run.step && !(was_at_entry && regs.rip == begin.regs.rip);
        let is_drivers = triggered.has_from(self.own_watches.len());
        if is_drivers || is_done && !triggered.any() {
            if run.step {
                correct_pushed(memory, begin, regs)?;
            }
            let found = if is_drivers { Found::Watched(triggered) } else { Found::Stepped };
            return Ok(Some(Next::at(found, *regs)));
        }
        if self.is_watched && triggered.any() {
            return Ok(Some(Next::at(Found::Seen, *regs)));
        }
        // The end of a system call that was skipped is told of as of a step.
        Ok((run.step && !triggered.any()).then_some(Next::On))
    }

    /// It has come to an `int3`: where the program counts by itself, or to a breakpoint of the driver's.
    /// None: to another one.
    fn at_int3(
        &mut self,
        begin: &Begin<'_>,
        at: &Registers,
        memory: &Memory,
        traps: &Traps,
    ) -> Result<Option<Next>, TraceeError> {
        if let Some((regs, is_hit)) = at_counted(traps, memory, at)? {
            self.set_regs(&regs)?;
            return Ok(Some(if is_hit { Next::at(Found::Point(regs.ip()), regs) } else { Next::On }));
        }
        let Some(addr) = traps.is_trap(at.ip()) else { return Ok(None) };
        let mut regs = Registers { rip: addr.0, ..*at };
        if begin.regs.ip() == addr {
            // The task has not gone on. A debug register there, which it had passed, must not stop it again.
            regs.eflags |= begin.regs.eflags & RESUME_FLAG;
        }
        self.set_regs(&regs)?;
        Ok(Some(Next::at(Found::Point(addr), regs)))
    }

    /// Its instruction has faulted.
    fn at_fault(
        &mut self,
        info: SigInfo,
        mut regs: Registers,
        memory: &Memory,
        traps: &Traps,
        run: Run<'_>,
    ) -> Result<Next, TraceeError> {
        // That first: what it has put into the text is gone then, and what areas guard is guarded still.
        if self.guarded.contains(&info.addr()) {
            return Ok(Next::at(Found::Fault(info), regs));
        }
        if info.signal() == Signal::SEGV
            && info.code() == ACCESS_DENIED
            && traps.areas.is_guarded(info.addr())
        {
            return Ok(Next::at(Found::Guarded(info.addr()), regs));
        }
        if (run.hooks.copy..run.hooks.copy_fault).contains(&regs.rip) {
            // As when it was recorded: the pointer is the program's mistake.
            regs.rip = run.hooks.copy_fault;
            self.stopped_mut()?.set_regs(&regs)?;
            return Ok(Next::On);
        }
        if let Some(regs) = at_condition(traps, memory, &regs)? {
            self.set_regs(&regs)?;
            return Ok(Next::at(Found::Point(regs.ip()), regs));
        }
        if let Some(rip) = traps.counted().iter().find_map(|counted| counted.original(regs.ip())) {
            regs.rip = rip;
            self.stopped_mut()?.set_regs(&regs)?;
        }
        let is_other = regs.rip == run.hooks.diverged + 1;
        Ok(Next::at(if is_other { Found::OtherCall } else { Found::Fault(info) }, regs))
    }
}

/// Has the program itself set the trap flag, or is it about to, by this instruction?
fn has_trap_flag(regs: &Registers, instruction: &[u8], memory: &Memory) -> bool {
    let is_popped = || {
        let is_popf = ticks::is_of_flags(instruction) && !is_pushf(instruction);
        is_popf && memory.read_upto(regs.sp(), 2).get(1).is_some_and(|byte| byte & 1 != 0)
    };
    regs.eflags & TRAP_FLAG != 0 || is_popped()
}

/// Is this, which is one of `pushf` and `popf`, the first?
fn is_pushf(code: &[u8]) -> bool {
    code.iter().find(|byte| matches!(byte, 0x9c | 0x9d)) == Some(&0x9c)
}

/// A `pushf` that was single-stepped has pushed the flag of the step, which is in nothing that the program
/// can see.
fn correct_pushed(memory: &Memory, begin: &Begin<'_>, regs: &Registers) -> Result<(), TraceeError> {
    if !ticks::is_of_flags(begin.instruction)
        || !is_pushf(begin.instruction)
        || begin.regs.eflags & TRAP_FLAG != 0
        || regs.rip == begin.regs.rip
    {
        return Ok(());
    }
    let mut pushed = [0; 2];
    memory.read(regs.sp(), &mut pushed)?;
    pushed[1] &= !1;
    memory.write(regs.sp(), &pushed)
}

/// These registers as a debugger shows them.
#[must_use]
pub(crate) fn shown(regs: &Registers) -> Registers {
    Registers { eflags: regs.eflags & !(TRAP_FLAG | RESUME_FLAG), ..*regs }
}

/// The registers that a task goes on with, or stops with (true), whose trap belongs to a place at which the
/// program counts by itself.
fn at_counted(
    traps: &Traps,
    memory: &Memory,
    regs: &Registers,
) -> Result<Option<(Registers, bool)>, TraceeError> {
    for counted in traps.counted() {
        if let Some(regs) = counted.at_hit(memory, regs)? {
            return Ok(Some((regs, true)));
        }
        if let Some(rip) = counted.inside(regs.rip.wrapping_sub(1)) {
            return Ok(Some((Registers { rip, ..*regs }, false)));
        }
    }
    Ok(None)
}

/// The registers that a task stops with which has faulted in a condition.
fn at_condition(traps: &Traps, memory: &Memory, regs: &Registers) -> Result<Option<Registers>, TraceeError> {
    for counted in traps.counted() {
        if let Some(regs) = counted.at_fault(memory, regs)? {
            return Ok(Some(regs));
        }
    }
    Ok(None)
}

/// Is this trap the breakpoint's?
fn is_breakpoint(breakpoint: Option<Breakpoint>, info: SigInfo, regs: Registers) -> bool {
    match breakpoint {
        Some(Breakpoint::Register(addr)) => info.is_debug_exception() && regs.rip == addr,
        Some(Breakpoint::Int3(rip)) => info.is_breakpoint() && regs.rip == rip.0,
        None => false,
    }
}

/// A signal and what the kernel said about it, as in an event.
pub(crate) fn info_of(bytes: &[u8]) -> Option<SigInfo> {
    Some(SigInfo(bytes.try_into().ok()?))
}

/// What a fault is in words.
pub(crate) fn fault_text(signal: Signal, info: &SigInfo, rip: Addr) -> String {
    format!("{signal} (si_code {}, address {:#x}) raised at {rip:#x}", info.code(), info.addr())
}
