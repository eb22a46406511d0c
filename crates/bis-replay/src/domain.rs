//! The replay of one domain: its events in order, each checked against what the replayed tasks really do.
//!
//! Every task of the domain is stopped but while an event lets it run, and an event lets one task run at most,
//! to its next system call or fault. What is found there must be what the event says; then the event's outcome
//! is applied, and the task waits for its next event. A system call is never made: its task is sent on with
//! registers that skip it.
//!
//! This file knows the events. What an outcome does to memory is in [`crate::apply`]; threads, slots and turns are
//! in [`crate::job`] and [`crate::run`].

use std::{collections::HashMap, sync::Arc};

use bis_agent::hooks::entries;
use bis_trace::{
    event::{DomainEntry, Event, EventKind, Outcome, Turn},
    types::{EventSeq, Registers, Signal, Tid},
};
use bis_tracee::{
    Resume, Status, Stopped, TraceeError,
    balance::{self, Seat},
    checksum, maps,
    remote::Remote,
    siginfo::SigInfo,
    task,
};

use crate::{
    divergence::{Brief, Divergence, Leave, RegisterDifference, call_name, compare},
    error::{Halt, ReplayError},
    job::Held,
    reach::found_text,
    scene::{Clues, Scene},
    select::Extent,
    shared::Context,
    space::Space,
    stub::{self, Stub},
    task::{Found, Hooked, Place, Task},
};

/// Events between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// One domain under replay. Its fields are dropped in order: the process ends before
/// its slot is given back.
pub(crate) struct Domain<'scope, 'env> {
    pub context: Context<'scope, 'env>,
    pub entry: &'env DomainEntry,
    pub extent: Extent,
    pub space: Space,
    pub tasks: HashMap<Tid, Task>,
    pub stub: Stub<'env>,
    pub held: Held<'env>,
    /// The core that the thread and its tasks are pinned to.
    pub core: Option<usize>,
    /// The same, for who balances.
    pub seat: Arc<Seat>,
    /// The number of the current event in its stream, from 1.
    pub position: u64,
}

/// What a mismatch was, for the report.
pub(crate) struct Mismatch {
    pub expected: String,
    pub found: String,
    pub registers: Vec<RegisterDifference>,
    pub regs: Registers,
    pub fault: Option<(Signal, SigInfo)>,
    pub memory: Option<(u64, u64)>,
    pub killed: bool,
}

impl Mismatch {
    pub(crate) fn new(expected: String, found: String, regs: Registers) -> Mismatch {
        Mismatch { expected, found, registers: Vec::new(), regs, fault: None, memory: None, killed: false }
    }
}

/// Does the domain go on after an event?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    On,
    End,
}

impl Domain<'_, '_> {
    /// Replays the events that follow the first one.
    pub(crate) fn replay(
        &mut self,
        events: impl Iterator<Item = Result<Event, bis_trace::TraceError>>,
    ) -> Result<(), Halt> {
        let shared = self.context.shared;
        let mut ended = false;
        for event in events {
            let event = event?;
            if ended {
                // A domain may give its turns back after its last task.
                self.last_releases(&event)?;
                continue;
            }
            if shared.board.is_cancelled() {
                return Err(Halt::Cancelled);
            }
            self.position += 1;
            if self.position.is_multiple_of(PROGRESS_EVERY) {
                shared.add_events(PROGRESS_EVERY);
            }
            let seq = event.seq;
            ended = self.event(event)? == Flow::End;
            if matches!(self.extent, Extent::Until(last) if seq >= last) {
                ended = true;
                break;
            }
        }
        shared.add_events(self.position % PROGRESS_EVERY);
        if ended {
            return Ok(());
        }
        Err(Halt::Cut(format!(
            "the events of domain {} (process {}) end after the {}th",
            self.entry.domain, self.entry.pid, self.position
        )))
    }

    fn last_releases(&mut self, event: &Event) -> Result<(), Halt> {
        match &event.kind {
            EventKind::Token { acquired, released } if acquired.is_empty() => {
                self.turns(event.seq, &[], released)
            }
            _ => Err(self.inconsistent(event.seq, "the domain goes on after its end".into())),
        }
    }

    fn event(&mut self, event: Event) -> Result<Flow, Halt> {
        let seq = event.seq;
        match event.kind {
            EventKind::Token { acquired, released } => {
                self.turns(seq, &acquired, &released)?;
                return Ok(Flow::On);
            }
            EventKind::End => return Ok(Flow::End),
            _ => {}
        }
        let Some(mut task) = self.tasks.remove(&event.tid) else {
            return Err(self.inconsistent(seq, format!("task {} does not exist", event.tid)));
        };
        self.take_seat(&task);
        let who = Who { seq, tid: event.tid, ticks: event.ticks };
        if event.ticks.is_some() || matches!(event.kind, EventKind::Pause(_)) {
            task.begin_ticks(self.context.shared.ticks, &self.space.memory)?;
        }
        match event.kind {
            EventKind::Syscall { nr, entry, outcome } => {
                self.reach_call(&mut task, who, nr, &entry)?;
                self.check(&mut task, who, &event.sums)?;
                self.apply(&mut task, seq, &outcome)?;
                task.remember(seq, Brief::Call { nr, result: outcome.regs.result() });
            }
            EventKind::SyscallEnter { nr, entry } => {
                self.reach_call(&mut task, who, nr, &entry)?;
                self.check(&mut task, who, &event.sums)?;
                task.in_call = Some(nr);
                task.remember(seq, Brief::Enter { nr });
            }
            EventKind::SyscallExit { nr, outcome } => {
                if task.in_call.take() != Some(nr) {
                    return Err(
                        self.inconsistent(seq, format!("{} returns but was not entered", call_name(nr)))
                    );
                }
                self.check(&mut task, who, &event.sums)?;
                self.apply(&mut task, seq, &outcome)?;
                task.remember(seq, Brief::Exit { nr, result: outcome.regs.result() });
            }
            EventKind::Signal(signal) => self.signal(&mut task, who, &signal, &event.sums)?,
            EventKind::Instruction { insn, before, after } => {
                self.reach_instruction(&mut task, who, insn, &before)?;
                self.check(&mut task, who, &event.sums)?;
                task.set_regs(&after)?;
                task.remember(seq, Brief::Instruction(insn));
            }
            EventKind::Pause(pause) => {
                self.reach_pause(&mut task, who, &pause)?;
                self.check(&mut task, who, &event.sums)?;
                task.remember(seq, Brief::Pause(pause.regs.rip));
            }
            EventKind::Hooked { alone, log } => {
                let count = entries(&log).count();
                if task.hooked.replace(Hooked { alone, log }).is_some() {
                    let what =
                        format!("two logs of hooked calls of task {} with nothing in between", who.tid);
                    return Err(self.inconsistent(seq, what));
                }
                task.remember(seq, Brief::Hooked(count));
            }
            EventKind::TaskExit { outcome, .. } => {
                self.end_task(task, seq, &outcome)?;
                return Ok(Flow::On);
            }
            EventKind::Start(_) => return Err(self.inconsistent(seq, "the domain begins twice".into())),
            EventKind::Token { .. } | EventKind::End => unreachable!("done above"),
        }
        self.tasks.insert(who.tid, task);
        Ok(Flow::On)
    }

    /// At an event's place, before its outcome: is the task where it was by its counts, and is memory what it was, if these
    /// were recorded?
    pub(crate) fn check(
        &self,
        task: &mut Task,
        who: Who,
        sums: &[bis_trace::event::RangeSum],
    ) -> Result<(), Halt> {
        self.check_ticks(task, who)?;
        if sums.is_empty() {
            return Ok(());
        }
        let mappings = maps::read(task.ours)?;
        for wanted in sums {
            let (addr, len) = (wanted.addr, wanted.len);
            let found = checksum::sum_mapped(task.ours, &self.space.memory, &mappings, addr, len)?;
            if found.sum == wanted.sum {
                continue;
            }
            let (start, end) = (wanted.addr, wanted.addr.saturating_add(wanted.len));
            let scene = Scene::new(self.context.shared, &self.space.memory, task.ours);
            let range = format!("memory {start:#x}-{end:#x} ({})", scene.place(start));
            let expected = format!("{range} with checksum {:#018x}", wanted.sum);
            let found = format!("checksum {:#018x}", found.sum);
            let mut mismatch = Mismatch::new(expected, found, task.regs()?);
            mismatch.memory = Some((start, end));
            return Err(self.diverged(task, who, mismatch));
        }
        Ok(())
    }

    /// The outcome of a task's end, and the end of the replay's task.
    fn end_task(&mut self, mut task: Task, seq: EventSeq, outcome: &Outcome) -> Result<(), Halt> {
        self.apply_memory(&mut task, seq, outcome)?;
        if self.tasks.is_empty() {
            // The last task's process is needed until the domain's end.
            return Ok(());
        }
        let mut remote = Remote::new(&mut task.stopped)?;
        match remote.call(libc::SYS_exit, [0; 6]) {
            Err(TraceeError::Died(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(self.inconsistent(seq, "a task did not end when it was told to".into())),
        }
        drop(remote);
        if task.ours != self.stub.pid() {
            stub::reap(task.ours);
            return Ok(());
        }
        // The process's first thread reports its end only when all others are gone: let it go, not more.
        match task::wait_for(task.ours)? {
            Status::Exit(_) => {
                Stopped::adopt(task.ours).resume(Resume::Cont, None)?;
            }
            status => task::put_back(task.ours, status),
        }
        Ok(())
    }

    fn turns(&mut self, seq: EventSeq, acquired: &[Turn], released: &[Turn]) -> Result<(), Halt> {
        let board = &self.context.shared.board;
        let release = |turn: &Turn| {
            let done = board.objects(|all| all.release(*turn));
            done.map_err(|error| self.inconsistent(seq, error.to_string()))
        };
        // A turn that begins and ends here must begin first; others wait for nothing of ours.
        released.iter().filter(|turn| !acquired.contains(turn)).try_for_each(release)?;
        self.await_turns(seq, acquired)?;
        let release = |turn: &Turn| {
            let done = board.objects(|all| all.release(*turn));
            done.map_err(|error| self.inconsistent(seq, error.to_string()))
        };
        released.iter().filter(|turn| acquired.contains(turn)).try_for_each(release)?;
        self.pin();
        Ok(())
    }

    /// Waits until all these turns have come.
    pub(crate) fn await_turns(&mut self, seq: EventSeq, turns: &[Turn]) -> Result<(), Halt> {
        self.held.await_turns(turns).map_err(|halt| match halt {
            Halt::Cut(why) => Halt::Cut(format!("domain {} stops at event {seq}: {why}", self.entry.domain)),
            other => other,
        })
    }

    /// This task is about to run.
    fn take_seat(&mut self, task: &Task) {
        if let Some(core) = self.seat.take_wanted() {
            self.held.move_to(core);
            self.pin();
            balance::pin(task.ours, core);
        }
        if let Some(core) = self.core {
            self.seat.runs(task.ours, core);
        }
    }

    /// Keeps the thread and its tasks on the slot's core.
    pub(crate) fn pin(&mut self) {
        let core = self.held.core();
        if core.is_none() || core == self.core {
            return;
        }
        self.core = core;
        let tasks = self.tasks.values().map(|task| task.ours);
        for tid in tasks.chain([Tid(0)]) {
            balance::pin(tid, core.unwrap_or(0));
        }
    }

    pub(crate) fn inconsistent(&self, seq: EventSeq, what: String) -> Halt {
        Halt::Failed(ReplayError::Inconsistent { domain: self.entry.domain, seq, what })
    }

    pub(crate) fn must_equal(
        &self,
        task: &Task,
        who: Who,
        expected: String,
        wanted: &Registers,
        regs: &Registers,
        leave: Leave,
    ) -> Result<(), Halt> {
        let registers = compare(wanted, regs, leave);
        if registers.is_empty() {
            return Ok(());
        }
        let found = if registers.iter().any(|r| r.name == "rip") {
            format!("the same, but at {:#x}", regs.rip)
        } else {
            "the same, with other registers".into()
        };
        Err(self.diverged(task, who, Mismatch { registers, ..Mismatch::new(expected, found, *regs) }))
    }

    /// The task came to stop for another reason than it should.
    pub(crate) fn elsewhere(
        &self,
        task: &Task,
        who: Who,
        expected: String,
        place: &Place,
        wanted: &Registers,
        leave: Leave,
    ) -> Halt {
        let mut mismatch = Mismatch::new(expected, found_text(place), place.regs);
        match &place.found {
            Found::Dead => mismatch.killed = true,
            Found::Fault(info) => mismatch.fault = Some((info.signal(), *info)),
            Found::Call
            | Found::Safepoint
            | Found::Breakpoint
            | Found::Tick
            | Found::Seen
            | Found::OtherCall => {}
        }
        if !mismatch.killed {
            mismatch.registers = compare(wanted, &place.regs, leave);
        }
        self.diverged(task, who, mismatch)
    }

    pub(crate) fn diverged(&self, task: &Task, who: Who, mismatch: Mismatch) -> Halt {
        let scene = Scene::new(self.context.shared, &self.space.memory, task.ours);
        let rip = mismatch.regs.rip;
        let clues = Clues {
            registers: &mismatch.registers,
            fault: mismatch.fault,
            memory: mismatch.memory,
            killed: mismatch.killed,
        };
        let cause = scene.cause(&mismatch.regs, &clues);
        let alive = !mismatch.killed;
        Halt::Failed(ReplayError::Divergence(Box::new(Divergence {
            domain: self.entry.domain,
            pid: self.entry.pid,
            command: self.context.shared.command(self.entry),
            tid: who.tid,
            seq: who.seq,
            position: self.position,
            expected: mismatch.expected,
            found: mismatch.found,
            registers: mismatch.registers,
            place: if alive { scene.place(rip) } else { "unknown".into() },
            code: if alive { scene.code(rip) } else { Vec::new() },
            recent: task.recent.iter().map(|(seq, brief)| format!("{seq}  {brief}")).collect(),
            cause,
        })))
    }
}

/// An event's number and task.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub seq: EventSeq,
    pub tid: Tid,
    /// The counts that the task makes until then.
    pub ticks: Option<u64>,
}
