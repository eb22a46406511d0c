//! Stopping a task in the middle of its computation: because it is another's turn, or because a signal has come and the
//! task makes no call at which it could take it.
//!
//! Most events need none of this. A task that makes calls gives way and takes its signals at one of them, or at the end
//! of a hook. Only who computes for longer than a time slice while somebody waits is interrupted where it is. Its place
//! is recorded so that replay finds it again ([`Pause`]); after that event the task is a task like all others: another may
//! run, a signal be delivered.
//!
//! Where its text counts (`hooks/counts.rs`), it goes on to its next count, and has its place there: a number. Only if none
//! comes is it stopped by its state.
//!
//! The watch thread (`hooks/watch.rs`) sees that a domain has not stopped since its last look, and kicks the supervisor
//! out of its wait; the supervisor decides here whether there is a reason to stop its task.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use bis_agent::{
    AGENT_BASE,
    hooks::{AREA_BASE, AREA_LEN},
};
use bis_rewrite::{Place, Run, Span};
use bis_trace::{
    event::{EventKind, MemWrite, Pause, PausePlace, SignalPoint},
    types::{Registers, Signal, Tid},
};
use bis_tracee::{Memory, Resume, Status, TraceeError, maps, place, siginfo::SigInfo, sys, task, xsave};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::{
    base::open_mapped,
    domain::Domain,
    error::{RecordError, Result},
    hooks::texts::TextFile,
    task::{Handle, Task},
    views::View,
};

/// How long a task may compute without an event while a signal waits for it.
const SIGNAL_WAIT: Duration = Duration::from_millis(2);

/// How long it may where replay must stop each time it comes to the place: a loop of a nanosecond comes there ten million times in ten milliseconds.
const OPAQUE_MAX: Duration = Duration::from_millis(300);

/// With chaos: more than the kernel takes to let a task go on and stop it again.
const STEP_MIN: Duration = Duration::from_micros(10);

/// How many instructions a loop has, at most, in which a task is seen to wait.
const SPIN_MAX: usize = 40;

/// How many of the instructions that come next are asked which memory they use.
const INSTRUCTIONS: usize = 64;
const IN_A_ROW: usize = 16;

/// Bytes that are kept where an instruction or a register points, and at the top of the stack; and how much of the stack
/// is looked at.
const OPERAND_LEN: u64 = 16;
const POINTED_LEN: u64 = 32;
const TOP_LEN: u64 = 256;
const STACK_LEN: u64 = 4096;

/// More than the bytes that give way to a breakpoint.
const SPAN_MAX: u64 = 32;

/// Ranges that are looked at because something else points to them.
const SECOND_MAX: usize = 200;

/// What lies below the stack pointer is the program's own only this far (the red zone of the ABI).
const RED_ZONE: u64 = 128;

/// How well replay can look for a place.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Spot {
    /// A breakpoint with a condition can take the place of these instructions, into whose middle nothing leads.
    Sure(Span),
    /// A breakpoint with a condition can be there.
    Good,
    /// It must stop there each time.
    Bad,
}

/// What came of a single step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The task stands behind the instruction, in its program.
    Done,
    /// It stands at a system call or in a hook, and goes on from there; or something else has happened, which is its report.
    Elsewhere,
}

impl Domain {
    /// The watch thread has kicked the supervisor out of its wait: somebody may want the running task to stop.
    pub fn look_after(&mut self) -> Result<()> {
        self.let_namespace_end()?;
        let (slow, turn) = self.watched.take_kick();
        if self.creeps {
            // It stops by itself. To be asked for it all the time would keep it from its step on a busy machine.
            return Ok(());
        }
        let runs = |task: &&Task| task.call.is_none() && matches!(task.handle, Handle::Running(_));
        let Some(tid) = self.tasks.values().find(runs).map(|task| task.tid) else { return Ok(()) };
        if !(slow || turn && self.has_reason_to_pause(tid) && self.has_come_on(tid)) {
            return Ok(());
        }
        match sys::interrupt(tid) {
            // Its end is on its way.
            Err(TraceeError::Died(_)) => Ok(()),
            other => Ok(other?),
        }
    }

    /// With chaos: has the task had the processor since it was last asked to stop? On a busy machine it may not come to its
    /// first instruction before the next short slice is over.
    fn has_come_on(&mut self, tid: Tid) -> bool {
        if self.session.chaos.is_none() {
            return true;
        }
        let ran = task::cpu_time(tid).map(|ran| (tid, ran));
        let before = self.had_run.filter(|before| before.0 == tid);
        let has_run = ran.zip(before).is_none_or(|(ran, before)| ran.1.saturating_sub(before.1) > STEP_MIN);
        if has_run {
            self.had_run = ran;
        }
        has_run
    }

    /// Is it time that this task, which computes, stops for somebody else?
    pub fn has_reason_to_pause(&self, tid: Tid) -> bool {
        self.is_awaited_by_signal(tid) || self.is_awaited_by_others(tid)
    }

    fn is_awaited_by_signal(&self, tid: Tid) -> bool {
        self.tasks.get(&tid).is_some_and(|task| !task.stash.is_empty()) && self.has_run(SIGNAL_WAIT)
    }

    fn is_awaited_by_others(&self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        let waits = |other: &&Task| other.tid != tid && (other.ready || other.report.is_some());
        let turn_is_over = self.is_turn_over();
        let rival = |other: &Task| {
            let (theirs, ours) = (self.urgency(other), self.urgency(task));
            theirs < ours || (theirs == ours && turn_is_over)
        };
        let is_wanted = self.holds_tokens() && self.session.registry.is_wanted();
        (turn_is_over && is_wanted) || self.tasks.values().filter(waits).any(rival)
    }

    /// Has the running task had its time slice, and computed for all of it? (With chaos, slices are short, and computing
    /// without a call is no condition.)
    fn is_turn_over(&self) -> bool {
        match self.session.chaos {
            None => self.has_run(self.slice),
            Some(_) => self.slice_start.elapsed() >= self.slice,
        }
    }

    /// Has the running task computed for this long since its domain's last event?
    fn has_run(&self, time: Duration) -> bool {
        self.last_event.elapsed() >= time
    }

    /// The task has been interrupted where it makes no call and is in no hook. True: it has a place now, or something
    /// else has happened that is to be looked at.
    pub fn interrupted(&mut self, tid: Tid) -> Result<bool> {
        self.stop_here(tid, false)
    }

    /// The same for a task that may be `at_count`, where its tick source was asked to stop it.
    pub fn stop_here(&mut self, tid: Tid, at_count: bool) -> Result<bool> {
        if !self.is_to_stop(tid)? {
            return Ok(false);
        }
        if self.await_place(tid, at_count)?.is_none() {
            return Ok(false);
        }
        if self.task(tid)?.counter.is_some() {
            return self.pause_counted(tid, at_count);
        }
        // Who has read the word of the counts, and has not written it back, would undo what is written there now.
        loop {
            let rip = self.stopped(tid)?.regs()?.rip;
            let has_read =
                matches!(self.dense_place(rip), Some(Place::Count { taken: false, restore_rcx: true, .. }));
            if !has_read {
                break;
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(true);
            }
        }
        if self.stops_at_count(tid) {
            return Ok(false);
        }
        self.no_count_came();
        if !self.surroundings.is_known() {
            // Once more, to see what has changed meanwhile: that is what tells one pass of a loop from the next.
            self.look_wide(tid)?;
            return Ok(false);
        }
        let Some(span) = self.find_span(tid)? else { return Ok(true) };
        if span == Spot::Bad && !self.has_run(OPAQUE_MAX) && !self.spins(tid)? {
            let task = self.task(tid)?;
            return Ok(task.report.is_some() || task.ready);
        }
        let span = if let Spot::Sure(span) = span { span.bytes().to_vec() } else { Vec::new() };
        self.learn_loop(tid)?;
        let regs = self.pause(tid, span)?;
        if let Some(hooks) = self.hooks.as_mut().filter(|_| self.tasks.len() == 1) {
            hooks.counts.is_wanted = true;
        }
        self.go_from_pause(tid, &regs)
    }

    /// Is there still a reason to stop this task, which has stopped?
    pub fn is_to_stop(&mut self, tid: Tid) -> Result<bool> {
        let mask = self.stopped(tid)?.sigmask()?;
        let is_open = |info: &SigInfo| mask & (1 << (u32::from(info.signal().0).clamp(1, 64) - 1)) == 0;
        // A signal that is blocked now (the handler of the one before runs) is no reason.
        let by_signal = self.is_awaited_by_signal(tid) && self.task(tid)?.stash.iter().any(is_open);
        Ok(by_signal || self.is_awaited_by_others(tid))
    }

    /// The same for a task that is counted, and has a place where it stands.
    fn pause_counted(&mut self, tid: Tid, at_count: bool) -> Result<bool> {
        if !at_count && !self.leave_repetition(tid)? {
            return Ok(true);
        }
        let regs = self.pause(tid, Vec::new())?;
        self.go_from_pause(tid, &regs)
    }

    /// A pause is written: the task takes the signal that it was stopped for, or waits for its turn.
    pub fn go_from_pause(&mut self, tid: Tid, regs: &Registers) -> Result<bool> {
        if !self.deliver_stashed(tid, regs, SignalPoint::AfterEvent)? {
            self.task(tid)?.ready = true;
        }
        Ok(true)
    }

    /// A string instruction with a repeat prefix can be interrupted between two of its rounds, but a breakpoint stops in
    /// front of the first one only: that is no place that replay could find. Lets the task come to its end.
    /// False: something else has come first.
    fn leave_repetition(&mut self, tid: Tid) -> Result<bool> {
        loop {
            let rip = self.stopped(tid)?.regs()?.rip;
            let code = self.memory.read_upto(rip, 15);
            let it = Decoder::with_ip(64, &code, rip, DecoderOptions::NONE).decode();
            if !it.is_string_instruction() || !(it.has_rep_prefix() || it.has_repne_prefix()) {
                return Ok(true);
            }
            if !self.run_behind(tid, &it)? {
                return Ok(false);
            }
        }
    }

    /// Lets the task execute the instruction that it stands at, to its end, by a breakpoint behind it. False: something
    /// else has come first, which is its report.
    fn run_behind(&mut self, tid: Tid, it: &Instruction) -> Result<bool> {
        loop {
            place::set_breakpoint(self.stopped(tid)?, it.next_ip())?;
            self.resume(tid, Resume::Cont)?;
            self.wait_for_report(tid)?;
            let report = self.task(tid)?.report;
            if matches!(report, Some(Status::Exited(_) | Status::Killed(_))) {
                return Ok(false);
            }
            place::clear_breakpoint(tid)?;
            let is_behind = report == Some(Status::Signal(Signal::TRAP))
                && SigInfo(self.stopped(tid)?.siginfo()?).is_debug_exception();
            // The watch thread kicks on.
            if !is_behind && report != Some(Status::Trap) {
                return Ok(false);
            }
            self.task(tid)?.report = None;
            if is_behind {
                return Ok(true);
            }
        }
    }

    /// Does the task do nothing but look whether something has changed? Single steps bring it back to exactly the
    /// registers that it has now.
    fn spins(&mut self, tid: Tid) -> Result<bool> {
        let first = self.stopped(tid)?.regs()?;
        let extended = place::extended(&self.stopped(tid)?.xstate()?);
        for _ in 0..SPIN_MAX {
            match self.step(tid)? {
                Step::Done if self.stopped(tid)?.regs()? == first => {
                    return Ok(place::extended(&self.stopped(tid)?.xstate()?) == extended);
                }
                Step::Done => {}
                Step::Elsewhere => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Lets the task execute one instruction of its own.
    ///
    /// An instruction that stores the flags would store the trap flag of the step with them; it is left to a breakpoint
    /// behind it. So is one that loads them: after a step over it, the kernel takes the trap flag of the next for the
    /// program's own. A system call would store it in r11: it is not made here.
    pub fn step(&mut self, tid: Tid) -> Result<Step> {
        let rip = self.stopped(tid)?.regs()?.rip;
        let it = Decoder::with_ip(64, &self.memory.read_upto(rip, 15), rip, DecoderOptions::NONE).decode();
        let is_done = match it.mnemonic() {
            Mnemonic::Syscall => {
                let task = self.task(tid)?;
                (task.midway, task.ready) = (true, true);
                return Ok(Step::Elsewhere);
            }
            Mnemonic::Pushf
            | Mnemonic::Pushfd
            | Mnemonic::Pushfq
            | Mnemonic::Popf
            | Mnemonic::Popfd
            | Mnemonic::Popfq => self.run_behind(tid, &it)?,
            _ => {
                // The watch thread may have asked for a stop. It comes before the step is made, or before its trap is told of;
                // that comes then, without another step.
                loop {
                    self.resume(tid, Resume::Step)?;
                    self.wait_for_report(tid)?;
                    if self.task(tid)?.report != Some(Status::Trap) {
                        break;
                    }
                    self.task(tid)?.report = None;
                }
                let is_done = self.task(tid)?.report == Some(Status::Signal(Signal::TRAP))
                    && SigInfo(self.stopped(tid)?.siginfo()?).is_debug_exception();
                if is_done {
                    self.task(tid)?.report = None;
                }
                is_done
            }
        };
        if !is_done {
            return Ok(Step::Elsewhere);
        }
        let regs = self.stopped(tid)?.regs()?;
        if self.is_in_hooks(regs.rip) {
            let task = self.task(tid)?;
            (task.midway, task.ready, task.in_hook) = (true, true, true);
            return Ok(Step::Elsewhere);
        }
        Ok(Step::Done)
    }

    /// Lets a task that stands in a trampoline of dense text come out of it: in the middle of a count, a register of the program's may
    /// be where another task's would be, too; and who takes the address in a handler's frame for one to jump to must find the
    /// program there, not the middle of a jump. False: something else has come first.
    fn leave_trampoline(&mut self, tid: Tid) -> Result<bool> {
        /// About as many instructions as the longest trampoline has. A loop may never leave it: then its place is there, but not
        /// in a count; and a timer must not come before the steps are made.
        const STEPS: usize = 16;
        for _ in 0..STEPS {
            let rip = self.stopped(tid)?.regs()?.rip;
            if self.dense_place(rip).is_none() {
                break;
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on for a few instructions, if need be, to one at which replay can put a breakpoint with a condition. Then, the
    /// instructions there, if they are known to be entered at their beginning alone, else nothing. None: the task's report is
    /// to be looked at first.
    fn find_span(&mut self, tid: Tid) -> Result<Option<Spot>> {
        /// Many places may be left alone together.
        const STEPS: usize = 16;
        let mappings = maps::read(tid)?;
        if !self.leave_trampoline(tid)? {
            return Ok(None);
        }
        for _ in 0..STEPS {
            if !self.leave_repetition(tid)? {
                return Ok(None);
            }
            let rip = self.stopped(tid)?.regs()?.rip;
            let memory = self.memory.read_upto(rip, 2 * Run::MAX);
            let in_count = matches!(self.dense_place(rip), Some(Place::Count { .. }));
            if !in_count
                && let Some(span) = Span::begin(rip, &memory)
                && !self.is_entered(&span)
            {
                if place::room(&mappings, &span, false).is_some() {
                    return Ok(Some(Spot::Good));
                }
                if self.is_sure(tid, &span) && place::room(&mappings, &span, true).is_some() {
                    return Ok(Some(Spot::Sure(span)));
                }
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(None);
            }
        }
        Ok(Some(Spot::Bad))
    }

    /// Does a branch not far behind these instructions lead into their middle? Whoever comes there traps in replay, which
    /// takes too long in a loop.
    fn is_entered(&self, span: &Span) -> bool {
        const CODE_LEN: usize = 256;
        let code = self.memory.read_upto(span.start(), CODE_LEN);
        let middle = span.start() + 1..span.end();
        let mut decoder = Decoder::with_ip(64, &code, span.start(), DecoderOptions::NONE);
        std::iter::from_fn(|| decoder.can_decode().then(|| decoder.decode())).any(|it| {
            it.op_count() == 1
                && it.op0_kind() == OpKind::NearBranch64
                && middle.contains(&it.near_branch64())
        })
    }

    /// Does the file say that nothing leads into the middle of these instructions?
    fn is_sure(&self, tid: Tid, span: &Span) -> bool {
        let (start, end) = (span.start(), span.end());
        let patched = self.hooks.as_ref().is_some_and(|hooks| hooks.patches.overlaps(start, end));
        // Where a handler has interrupted the program, it may go on by any way it likes.
        if patched || self.interrupted_at.range(start + 1..end).next().is_some() {
            return false;
        }
        let Some((file, bias)) = self.text_at(tid, start) else { return false };
        file.span_at(start.wrapping_sub(bias)).is_some_and(|known| known.bytes() == span.bytes())
    }

    /// The file whose text the program executes at this address, and what is added to the file's own addresses.
    fn text_at(&self, tid: Tid, rip: u64) -> Option<(Arc<TextFile>, u64)> {
        if let Some(text) = self.hooks.as_ref().and_then(|hooks| hooks.patches.text_at(rip)) {
            return Some((Arc::clone(&text.file), text.bias));
        }
        let mappings = maps::read(tid).ok()?;
        let mapping = mappings.iter().find(|m| m.start <= rip && rip < m.end && m.inode != 0)?;
        let file = self.session.texts.of(&open_mapped(tid, mapping)?)?;
        let bias = file.bias(mapping.start, mapping.offset)?;
        Some((file, bias))
    }

    /// With chaos, now and then: for how many instructions the task gets a turn.
    pub fn draw_steps(&self, tid: Tid) -> Option<usize> {
        let chaos = self.session.chaos.as_ref()?;
        let task = self.tasks.get(&tid)?;
        let is_plain = task.call.is_none()
            && !task.midway
            && task.expect_signal.is_none()
            && !task.in_hook
            && task.inject.is_none()
            && task.stash.is_empty();
        let others = self.tasks.len() > 1 || self.holds_tokens();
        if is_plain && others { chaos.steps() } else { None }
    }

    /// [`Domain::creep`], for a task that may be killed meanwhile.
    pub fn creep_on(&mut self, tid: Tid, steps: usize) -> Result<()> {
        match self.creep(tid, steps) {
            Err(RecordError::Tracee(TraceeError::Died(dead))) if dead == tid => {
                // Its end is on its way.
                if matches!(self.task(tid)?.handle, Handle::Stopped(_)) {
                    self.resume(tid, Resume::Cont)?;
                }
                self.wait_for_report(tid)
            }
            other => other,
        }
    }

    /// Gives the task a turn of so many instructions; it ends with a pause, or with whatever comes first.
    fn creep(&mut self, tid: Tid, steps: usize) -> Result<()> {
        self.begin_ticks(tid)?;
        self.prepare(tid);
        for _ in 0..steps {
            self.creeps = true;
            let step = self.step(tid);
            self.creeps = false;
            if step? == Step::Elsewhere {
                return Ok(());
            }
        }
        let Some(span) = self.find_span(tid)? else { return Ok(()) };
        let span = if let Spot::Sure(span) = span { span.bytes().to_vec() } else { Vec::new() };
        self.pause(tid, span)?;
        self.task(tid)?.ready = true;
        // Somebody else is drawn.
        self.slice = Duration::ZERO;
        Ok(())
    }

    /// The instructions at the place where the task stands, or a few further on, if a breakpoint with a condition can be there:
    /// what [`Domain::pause`] wants to know of them. None: there can be none, or the task has a report.
    pub fn find_place(&mut self, tid: Tid) -> Result<Option<Vec<u8>>> {
        Ok(match self.find_span(tid)? {
            Some(Spot::Sure(span)) => Some(span.bytes().to_vec()),
            Some(Spot::Good) => Some(Vec::new()),
            Some(Spot::Bad) | None => None,
        })
    }

    /// Writes down where the task stands.
    pub fn pause(&mut self, tid: Tid, span: Vec<u8>) -> Result<Registers> {
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        let regs = self.stopped(tid)?.regs()?;
        let xstate = self.stopped(tid)?.xstate()?;
        let extended = place::extended(&xstate);
        let count = self.ticks(tid)?;
        // What has changed comes first: it is what differs. Where there is a number, few places are left to tell apart.
        let mut held = if count.is_none() { self.look_wide(tid)? } else { Vec::new() };
        held.extend(look_around(&self.memory, &regs, &self.views));
        let saved = self.saved_states(&maps::read(tid)?);
        let held = place::leave_out(held, &saved);
        let mut seen = place::look(&self.memory, &xsave::leave_out(vec![(regs.rsp, STACK_LEN)], &saved));
        if count.is_none() {
            seen.extend(self.surroundings.sums());
        }
        tracing::debug!(domain = %self.id, %tid, rip = format_args!("{:#x}", regs.rip), "pause");
        let pause = Pause {
            place: count.map_or(PausePlace::State, PausePlace::Count),
            regs,
            extended,
            held,
            seen,
            span,
        };
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, EventKind::Pause(Box::new(pause)), sums)?;
        Ok(regs)
    }
}

/// What the memory around a place holds: the top of the stack, what registers point to, what the next instructions
/// will use, and what all these point to in turn. Two passes of a loop that differ in nothing of all that will hardly
/// differ in anything.
fn look_around(memory: &Memory, regs: &Registers, views: &[View]) -> Vec<MemWrite> {
    let [rdi, rsi, rdx, r10, r8, r9] = regs.args();
    let pointers = [
        regs.rax, regs.rbx, regs.rcx, rdx, rsi, rdi, regs.rbp, r8, r9, r10, regs.r11, regs.r12, regs.r13,
        regs.r14, regs.r15,
    ];
    let pointed = pointers.into_iter().map(|addr| (addr, POINTED_LEN));
    let used = operands(memory, regs).into_iter().map(|addr| (addr, OPERAND_LEN));
    let first = [(regs.rsp, TOP_LEN)].into_iter().chain(used).chain(pointed);
    let first = place::read(memory, &worth_reading(first.collect(), regs, views));
    let words = first.iter().flat_map(|held| held.data.chunks_exact(8));
    let words = words.map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])));
    // What looks like the address of something a program has: aligned, above the lowest pages.
    let looks = |word: &u64| word.is_multiple_of(8) && (0x1_0000..0x7fff_ffff_f000).contains(word);
    let second: Vec<(u64, u64)> = words.filter(looks).map(|addr| (addr, POINTED_LEN)).collect();
    let mut second = worth_reading(second, regs, views);
    second.retain(|range| first.iter().all(|held| held.addr != range.0));
    second.truncate(SECOND_MAX);
    let mut held = first;
    held.extend(place::read(memory, &second));
    held
}

/// Those of these ranges that say something, and will say it in replay.
fn worth_reading(mut ranges: Vec<(u64, u64)>, regs: &Registers, views: &[View]) -> Vec<(u64, u64)> {
    // What lies below the stack is whatever was left there.
    let stale = regs.rsp.saturating_sub(1 << 20)..regs.rsp.saturating_sub(RED_ZONE);
    // Where replay puts its breakpoint.
    let patched = regs.rip..regs.rip.saturating_add(SPAN_MAX);
    // The agent's own memory is not the same in replay.
    let ours = AGENT_BASE..AREA_BASE + AREA_LEN;
    ranges.retain(|(addr, len)| {
        let end = addr.saturating_add(*len);
        let is_apart = |range: &Range<u64>| end <= range.start || range.end <= *addr;
        // Stores through a shared mapping of the file are seen here at once, and in replay later.
        [&stale, &patched, &ours].into_iter().all(is_apart)
            && views.iter().all(|view| is_apart(&(view.start..view.end)))
    });
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

/// The addresses in memory that the next instructions use, as far as the registers say them now, on all ways that the
/// program may go.
pub fn operands(memory: &Memory, regs: &Registers) -> Vec<u64> {
    const CODE_LEN: usize = 160;
    let mut found = Vec::new();
    let mut ways = VecDeque::from([regs.rip]);
    let mut been = BTreeSet::new();
    let mut left = INSTRUCTIONS;
    while let Some(way) = ways.pop_front() {
        let code = memory.read_upto(way, CODE_LEN);
        let mut decoder = Decoder::with_ip(64, &code, way, DecoderOptions::NONE);
        for count in 0.. {
            if count == IN_A_ROW {
                ways.push_back(decoder.ip());
                break;
            }
            if left == 0 || !decoder.can_decode() {
                break;
            }
            let it = decoder.decode();
            if it.is_invalid() || !been.insert(it.ip()) {
                break;
            }
            left -= 1;
            found.extend(operand(&it, regs));
            let flow = it.flow_control();
            let is_near = it.op_count() == 1 && it.op0_kind() == OpKind::NearBranch64;
            if is_near && matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                ways.push_back(it.near_branch_target());
            }
            if matches!(
                flow,
                FlowControl::UnconditionalBranch
                    | FlowControl::Return
                    | FlowControl::IndirectBranch
                    | FlowControl::Exception
            ) {
                break;
            }
        }
    }
    found
}

/// The address that an instruction reads or writes by a memory operand of the usual kind.
fn operand(it: &Instruction, regs: &Registers) -> Option<u64> {
    let has_memory = (0..it.op_count()).any(|op| it.op_kind(op) == OpKind::Memory);
    if !has_memory {
        return None;
    }
    if it.is_ip_rel_memory_operand() {
        return Some(it.ip_rel_memory_address());
    }
    let value = |register: Register| {
        Some(match register {
            Register::None => 0,
            Register::RAX => regs.rax,
            Register::RBX => regs.rbx,
            Register::RCX => regs.rcx,
            Register::RDX => regs.rdx,
            Register::RSI => regs.rsi,
            Register::RDI => regs.rdi,
            Register::RBP => regs.rbp,
            Register::RSP => regs.rsp,
            Register::R8 => regs.r8,
            Register::R9 => regs.r9,
            Register::R10 => regs.r10,
            Register::R11 => regs.r11,
            Register::R12 => regs.r12,
            Register::R13 => regs.r13,
            Register::R14 => regs.r14,
            Register::R15 => regs.r15,
            _ => return None,
        })
    };
    let base = match it.segment_prefix() {
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        _ => 0,
    };
    let index = value(it.memory_index())?.wrapping_mul(u64::from(it.memory_index_scale()));
    Some(
        base.wrapping_add(value(it.memory_base())?)
            .wrapping_add(index)
            .wrapping_add(it.memory_displacement64()),
    )
}
