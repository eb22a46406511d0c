//! A task is let run until it stops for somebody: for its event, for a search, for a driver. What a stop is,
//! is asked of the source of its counts first.

use bis_syscalls::INT80_INSN;
use bis_trace::types::{Addr, Registers, Signal};
use bis_tracee::{
    Memory, Resume, Status, TraceeError,
    debug::Triggered,
    siginfo::SigInfo,
    task,
    ticks::{self, RESUME_FLAG, Stop},
};

use super::{Breakpoint, Found, Interrupt, Place, Run, TRAP_FLAG, Task};
use crate::traps::Traps;

/// A fault's code where the page is there, and its protection forbids the access (SEGV_ACCERR).
const ACCESS_DENIED: i32 = 2;

/// What comes of a stop.
#[expect(clippy::large_enum_variant, reason = "it is looked at as soon as it is made")]
pub(super) enum Next {
    /// It goes on: the stop was not for anybody.
    On,
    At(Place),
}

impl Next {
    pub(super) fn at(found: Found, regs: Registers) -> Next {
        Next::At(Place { found, regs })
    }
}

/// Where a task stands before it is let run.
struct Begin<'a> {
    regs: Registers,
    /// The bytes of the instruction there, if it is to execute that alone.
    instruction: &'a [u8],
}

impl Task {
    pub(super) fn run_once(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        let begin = self.regs()?;
        let instruction =
            if run.step { memory.read_upto(Addr(begin.rip), ticks::INSTRUCTION_LEN_MAX) } else { Vec::new() };
        let has_flag = run.step && ticks::has_trap_flag(&begin, &instruction, memory);
        let begin = Begin { regs: begin, instruction: &instruction };
        let mut place = self.run_from(&begin, memory, traps, run)?;
        if run.step
            && !has_flag
            && place.found != Found::Dead
            && let Some(stopped) = self.stopped.as_mut()
        {
            ticks::take_trap_flag(stopped)?;
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
        if let Some(info) = self.owes_trap.take() {
            return Ok(Place { found: Found::Fault(info), regs: begin.regs });
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
                (None, Status::Seccomp, _) => self.at_call(begin, memory, traps, run)?,
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
            interrupt.runs(Some(self.ours));
        }
        let running = stopped.resume(how, None)?;
        let status = task::wait_for(self.ours);
        if let Some(interrupt) = run.interrupt {
            interrupt.runs(None);
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
            && traps.trap_of(stopped.regs()?.ip()).is_some();
        // A count's trap and a breakpoint of the driver's behind it look the same to a source.
        let Some(source) = self.ticks.as_mut().filter(|_| !is_point) else { return Ok(None) };
        let stop = source.stopped(stopped, memory, status)?;
        // A source that steps takes the exceptions with which debug registers speak.
        if stop != Stop::Foreign && is_trap && info.is_some_and(|info| info.is_debug_exception()) {
            let triggered = self.registers.take_triggered(stopped)?;
            if let Some(found) = found_by(triggered, self.own_watches.len(), self.is_watched) {
                self.owes_tick = stop == Stop::Tick;
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
    fn at_call(
        &mut self,
        begin: &Begin<'_>,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Next, TraceeError> {
        let stopped = self.stopped_mut()?;
        let mut regs = stopped.regs_at_call()?;
        let may_be_int80 = traps.int80_fails && regs.rcx != regs.rip;
        if may_be_int80 && memory.read_upto(regs.ip() - 2, INT80_INSN.len()) == INT80_INSN {
            let rax = i64::from(-libc::ENOSYS).cast_unsigned();
            stopped.set_regs(&Registers { rax, orig_rax: u64::MAX, ..regs })?;
            return Ok(Next::On);
        }
        let has_own = begin.regs.eflags & TRAP_FLAG != 0;
        if run.step && !has_own && !regs.is_narrow() && regs.r11 & TRAP_FLAG != 0 {
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
            && let Some(next) = self.at_debug_exception(begin, was_at_entry, (info, &regs), memory, run)?
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
        (info, regs): (SigInfo, &Registers),
        memory: &Memory,
        run: Run<'_>,
    ) -> Result<Option<Next>, TraceeError> {
        let triggered = self.registers.take_triggered(self.stopped()?)?;
        let is_done = run.step && !(was_at_entry && regs.rip == begin.regs.rip);
        // The program single-steps itself: the trap is its own as well, and the next one comes behind the
        // next instruction.
        let is_own = begin.regs.eflags & TRAP_FLAG != 0 && !was_at_entry;
        let stepped = if is_own { Found::Fault(info) } else { Found::Stepped };
        let stepped = Some(stepped).filter(|_| is_done && !triggered.any());
        if let Some(found) = found_by(triggered, self.own_watches.len(), self.is_watched).or(stepped) {
            if run.step {
                correct_pushed(memory, begin, regs)?;
            }
            // One exception tells of both; the program's own trap comes behind what has stopped it.
            let is_own = is_own || !run.step && self.ticks.is_none();
            if is_own && triggered.is_step() && matches!(found, Found::Watched(_)) {
                self.owes_trap = Some(info);
            }
            return Ok(Some(Next::at(found, *regs)));
        }
        // The end of a system call that was skipped is told of as of a step.
        Ok((run.step && !triggered.any()).then_some(Next::On))
    }

    /// It has come to an `int3`: of a jump that counts or searches, or to a breakpoint of the driver's.
    /// None: to another one.
    fn at_int3(
        &mut self,
        begin: &Begin<'_>,
        at: &Registers,
        memory: &Memory,
        traps: &Traps,
    ) -> Result<Option<Next>, TraceeError> {
        if let Some((regs, is_hit)) = at_jump(traps, memory, at)? {
            self.set_regs(&regs)?;
            return Ok(Some(if is_hit { Next::at(Found::Point(regs.ip()), regs) } else { Next::On }));
        }
        let Some(addr) = traps.trap_of(at.ip()) else { return Ok(None) };
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

/// What debug registers say that have triggered, of which the task needs so many itself: for the text that is
/// watched, if any is. That comes first, because what was found with a jump in that text is not to be
/// believed.
fn found_by(triggered: Triggered, own: usize, is_watched: bool) -> Option<Found> {
    if is_watched && (0..own).any(|register| triggered.has(register)) {
        return Some(Found::Seen);
    }
    triggered.has_from(own).then_some(Found::Watched(triggered))
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

/// The registers that a task goes on with, or stops with (true), whose trap belongs to a jump that counts, or
/// searches.
fn at_jump(
    traps: &Traps,
    memory: &Memory,
    regs: &Registers,
) -> Result<Option<(Registers, bool)>, TraceeError> {
    for counted in traps.counted() {
        if let Some(regs) = counted.at_hit(memory, regs)? {
            return Ok(Some((regs, true)));
        }
    }
    // It has come to the middle of what has given way to a jump.
    let copy = traps.copy_of(regs.ip().wrapping_sub(1));
    Ok(copy.map(|copy| (Registers { rip: copy.0, ..*regs }, false)))
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
