//! A domain: one address space, its tasks, and the supervisor thread that owns it.
//!
//! The supervisor is an actor. It keeps one promise: at most one of its tasks executes program code at a time.
//! Tasks that wait in the kernel are not counted; what they report is looked at only when nobody runs, so an
//! event's effects on memory have a place in the order of events. Who runs next is in `schedule.rs`, what a
//! system call does in `call.rs`, signals in `signals.rs`, new tasks and domains and the ends of both in
//! `process.rs`. This file is what they all stand on: the tasks' states and the writing of events.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    io, mem,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bis_syscalls::Dir;
use bis_trace::{
    StreamWriter,
    event::{Event, EventKind, Lapse, MemWrite, Outcome, RangeSum},
    types::{DomainId, EventSeq, Registers, Tid},
};
use bis_tracee::{
    Memory, Resume, Status, Stopped, balance, checksum, maps, ours, siginfo::SigInfo, sys, task, xsave,
};

use crate::{
    calls::ShownText,
    chaos::Mood,
    error::{RecordError, Result},
    hooks::{Hooks, watch::Watched},
    seed::Seed,
    session::Session,
    signals::Asked,
    space::AddressSpace,
    surroundings::Surroundings,
    task::{Handle, InCall, Task},
    tokens::Tokens,
};

pub struct Domain {
    pub session: Arc<Session>,
    pub id: DomainId,
    pub memory: Memory,
    pub stream: StreamWriter,
    pub event_count: u64,
    pub tasks: BTreeMap<Tid, Task>,
    /// The domain's first task, under whose name events of the domain itself go.
    pub first_tid: Tid,
    /// The tasks in the order in which they get their turns.
    pub order: VecDeque<Tid>,
    /// When the task at the front of the order began its time slice.
    pub slice_start: Instant,
    /// How long that slice is.
    pub slice: Duration,
    /// Its tokens are given back at once if somebody wants them: its task only spins.
    pub gives_up: bool,
    /// How many events it has had that are neither pauses nor turns.
    pub happened: u64,
    /// With chaos: who gets no turn.
    pub mood: Mood,
    /// The running task makes a step of its own.
    pub creeps: bool,
    /// With chaos: who was asked to stop last, and how long it had had the processor then.
    pub had_run: Option<(Tid, Duration)>,
    /// When the domain's last event was written.
    pub last_event: Instant,
    /// The time since the recording's begin that its events have told of, milliseconds.
    pub told_ms: u64,
    /// What the watch thread knows of the domain.
    pub watched: Arc<Watched>,
    pub tokens: Tokens,
    pub space: AddressSpace,
    /// What its tasks are reading of address spaces.
    pub shown: Vec<ShownText>,
    /// None: every call is traced.
    pub hooks: Option<Hooks>,
    /// What memory held where a task was last paused.
    pub surroundings: Surroundings,
    /// Whose memory was last looked at for them, and how long it had had the processor then.
    pub looked_at: Option<(Tid, Duration)>,
    /// A task and the number of the domain's events when it had no good place first, and how long it had had the processor then.
    pub opaque: Option<((Tid, u64), Duration)>,
    /// Signals that look as if an instruction had raised them, but were sent or wait already.
    pub queued_faults: Vec<SigInfo>,
    /// What /proc said last of what a signal would do.
    pub asked: Option<Asked>,
    /// The slot of `session.cores` that this domain is pinned to.
    pub core: usize,
    /// Reports of tasks that we have not been told of yet.
    pub early: HashMap<Tid, Status>,
    /// Leaders that ended before their threads: the kernel reports them last.
    pub zombies: HashSet<Tid>,
}

const NR_FUTEX: u64 = 202;

/// Where the task's stack ends, as far as that is known.
pub fn stack_pointer(task: &Task) -> Option<u64> {
    match &task.handle {
        Handle::Stopped(stopped) => stopped.regs().ok().map(|regs| regs.rsp),
        _ => task.call.as_ref().map(|call| call.entry.rsp),
    }
}

impl Domain {
    /// Supervises the domain to its end. Returns the seed of the one that its last task goes on in, if it does.
    pub fn supervise(mut self) -> Result<Option<Seed>> {
        self.watched.seat.set_supervisor(ours::thread_id());
        self.run_or_show()
    }

    /// Runs the domain; where that fails, it can be looked at.
    fn run_or_show(&mut self) -> Result<Option<Seed>> {
        match panic::catch_unwind(AssertUnwindSafe(|| self.run())) {
            Ok(result) => result.inspect_err(|error| self.show_fault(error)),
            Err(cause) => {
                let what = "a supervisor panicked".into();
                self.show_fault(&RecordError::Bug { tid: self.watched.seat.runner(), what });
                panic::resume_unwind(cause)
            }
        }
    }

    // --- tasks

    pub fn task(&mut self, tid: Tid) -> Result<&mut Task> {
        self.tasks.get_mut(&tid).ok_or_else(|| RecordError::Bug { tid, what: "an unknown task".into() })
    }

    pub fn call(&mut self, tid: Tid) -> Result<&mut InCall> {
        let call = self.task(tid)?.call.as_mut();
        call.ok_or_else(|| RecordError::Bug { tid, what: "no call is in progress".into() })
    }

    /// The stopped task. Only while its report is handled or it is ready.
    pub fn stopped(&mut self, tid: Tid) -> Result<&mut Stopped> {
        match &mut self.task(tid)?.handle {
            Handle::Stopped(stopped) => Ok(stopped),
            other => Err(RecordError::Bug { tid, what: format!("the task is not stopped: {other:?}") }),
        }
    }

    /// Runs `use_it` with the stopped task in a slot, as remote calls want it.
    pub fn with_slot<T>(
        &mut self,
        tid: Tid,
        use_it: impl FnOnce(&mut Domain, &mut Option<Stopped>) -> Result<T>,
    ) -> Result<T> {
        let handle = mem::replace(&mut self.task(tid)?.handle, Handle::Taken);
        let Handle::Stopped(stopped) = handle else {
            return Err(RecordError::Bug { tid, what: format!("the task is not stopped: {handle:?}") });
        };
        let mut slot = Some(stopped);
        let result = use_it(self, &mut slot);
        if let (Some(stopped), Some(task)) = (slot, self.tasks.get_mut(&tid)) {
            task.handle = Handle::Stopped(stopped);
        }
        result
    }

    /// Lets a stopped task go on; it will report.
    pub fn resume(&mut self, tid: Tid, how: Resume) -> Result<()> {
        if how != Resume::Listen {
            self.obey_clock(tid)?;
        }
        if how == Resume::Cont {
            self.prepare(tid);
        }
        let task = self.task(tid)?;
        let signal = task.inject.take();
        task.standing.resume(how == Resume::Listen);
        match mem::replace(&mut task.handle, Handle::Taken) {
            Handle::Stopped(stopped) => {
                if std::mem::take(&mut task.is_halted) {
                    stopped.ask()?;
                }
                task.handle = Handle::Running(stopped.resume(how, signal)?);
                Ok(())
            }
            other => Err(RecordError::Bug { tid, what: format!("cannot resume a task that is {other:?}") }),
        }
    }

    /// Takes down what a wait has reported.
    pub fn note(&mut self, tid: Tid, status: Status) {
        tracing::trace!(domain = %self.id, %tid, %status, "report");
        self.watched.stops.fetch_add(1, Ordering::Relaxed);
        // A thread that execs goes on under its leader's id; to us it is still the thread.
        let tid = match status {
            Status::Exec(former) if self.tasks.contains_key(&former) => {
                self.zombies.remove(&tid);
                former
            }
            _ => tid,
        };
        let Some(task) = self.tasks.get_mut(&tid) else {
            if matches!(status, Status::Exited(_) | Status::Killed(_)) {
                self.zombies.remove(&tid);
                self.process_status(tid, status);
            } else {
                self.early.insert(tid, status);
                if self.tasks.is_empty() {
                    self.let_go(tid);
                }
            }
            return;
        };
        task.standing.stop();
        task.is_asked &= status != Status::Trap;
        if let Some(Status::NewTask(child)) = task.report.replace(status) {
            task.newborn = Some(child);
        }
        task.handle = match mem::replace(&mut task.handle, Handle::Taken) {
            _ if matches!(status, Status::Exited(_) | Status::Killed(_)) => Handle::Taken,
            Handle::Running(running) => Handle::Stopped(running.stopped()),
            // One that was stopped was killed in its stop, and stops again on its way out.
            Handle::Stopped(_) | Handle::Taken => Handle::Stopped(Stopped::adopt(tid)),
        };
    }

    /// Waits until this task has something to report; what others report is taken down.
    pub fn wait_for_report(&mut self, tid: Tid) -> Result<()> {
        while self.tasks.get(&tid).is_some_and(|task| task.report.is_none()) {
            self.let_orphans_go(tid);
            match self.end_of_others(tid) {
                None => self.wait_once()?,
                Some(status) if !task::is_alive(tid) => self.note(tid, status),
                Some(_) => self.wait_or_look()?,
            }
        }
        Ok(())
    }

    /// As [`Domain::wait_once`], but not for long: the task may be about to end without a word.
    fn wait_or_look(&mut self) -> Result<()> {
        const PAUSE: Duration = Duration::from_micros(100);
        match task::wait_any(false) {
            Ok(Some((tid, status))) => self.note(tid, status),
            Ok(None) => {
                self.look_after()?;
                std::thread::sleep(PAUSE);
            }
            Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
        }
        Ok(())
    }

    /// Waits for the next report of any task.
    pub fn wait_once(&mut self) -> Result<()> {
        match task::wait_any(true) {
            Ok(Some((tid, status))) => {
                self.note(tid, status);
                Ok(())
            }
            Ok(None) => Err(RecordError::Bug { tid: self.first_tid, what: "all tasks are lost".into() }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.look_after(),
            Err(source) => Err(RecordError::Os { what: "wait for a task", source }),
        }
    }

    // --- events

    /// Writes an event with the next number.
    pub fn event(&mut self, tid: Tid, kind: EventKind) -> Result<()> {
        self.drain(tid)?;
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, kind, Vec::new())
    }

    pub fn event_at(&mut self, seq: EventSeq, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        self.drain(tid)?;
        self.push(seq, tid, kind, sums)
    }

    /// Writes an event, and nothing else.
    pub fn push(&mut self, seq: EventSeq, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        let ticks = self.ticks_of_event(tid, &kind)?;
        self.event_count += 1;
        if !matches!(kind, EventKind::Pause(_) | EventKind::Token { .. } | EventKind::Hooked { .. }) {
            self.happened += 1;
            self.tasks.get_mut(&tid).into_iter().for_each(|task| task.spin.is_over = false);
        }
        self.last_event = Instant::now();
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.standing.describe();
            // Turns are the domain's, and lead no task anywhere.
            task.has_log = match kind {
                EventKind::Hooked { .. } => true,
                EventKind::Token { .. } => task.has_log,
                _ => false,
            };
        }
        let lapse = self.lapse();
        let event = Event { seq, tid, kind, ticks, sums, lapse };
        self.watch_text(&event);
        Ok(self.stream.push(&event)?)
    }

    /// The time since the last event, as far as the next one can say it.
    fn lapse(&mut self) -> Lapse {
        let passed = self.last_event.saturating_duration_since(self.session.began);
        let ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let lapse = Lapse::fitting(ms.saturating_sub(self.told_ms));
        self.told_ms += lapse.ms();
        lapse
    }

    /// Makes calls that are in progress visible in the stream: from here on, other events come before their
    /// returns.
    pub fn write_entries(&mut self) -> Result<()> {
        if self.tasks.values().all(|task| task.call.as_ref().is_none_or(|call| call.entered)) {
            return Ok(());
        }
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            self.write_entry(tid)?;
        }
        Ok(())
    }

    /// The same for one task.
    pub fn write_entry(&mut self, tid: Tid) -> Result<()> {
        let Some(call) = self.tasks.get_mut(&tid).and_then(|task| task.call.as_mut()) else { return Ok(()) };
        if call.entered || call.silent {
            return Ok(());
        }
        call.entered = true;
        let (nr, entry, sums) = (call.nr, call.entry, mem::take(&mut call.sums));
        let sums = self.write_early_words(tid, nr, entry, sums)?;
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, EventKind::SyscallEnter { nr, entry }, sums)
    }

    /// The kernel writes the words of a priority-inheriting futex when it puts a task to sleep on it, not when the
    /// call returns. They get an event of their own before the call's entry: one that leaves the task in front of
    /// the same system call.
    /// Gives the checksums back if there was nothing to write.
    fn write_early_words(
        &mut self,
        tid: Tid,
        nr: u64,
        entry: Registers,
        sums: Vec<RangeSum>,
    ) -> Result<Vec<RangeSum>> {
        let Some(task) = self.tasks.get(&tid) else { return Ok(sums) };
        let call = task.call.as_ref();
        let pieces = call.map_or(&[][..], |call| &call.plan.pieces).iter();
        let words = pieces.filter(|piece| piece.fixed && piece.dir != Dir::In && nr == NR_FUTEX);
        let words: Vec<(u64, u64)> = words.map(|piece| (piece.home, piece.len)).collect();
        if words.is_empty() || !matches!(task.handle, Handle::Running(_)) {
            return Ok(sums);
        }
        while task.report.is_none() && balance::is_runnable(tid) {
            sys::yield_now();
        }
        let read = |(addr, len): (u64, u64)| MemWrite {
            addr,
            data: self.memory.read_upto(addr, usize::try_from(len).unwrap_or(0)),
        };
        let writes = words.into_iter().map(read).collect();
        let regs = Registers { rip: entry.rip - 2, rax: nr, orig_rax: u64::MAX, ..entry };
        let outcome = Box::new(Outcome { regs, writes, ..Outcome::default() });
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, EventKind::Syscall { nr, entry, outcome }, sums)?;
        Ok(Vec::new())
    }

    /// Where the stacks of the tasks end, as far as that is known.
    pub fn stack_pointers(&self) -> Vec<u64> {
        self.tasks.values().filter_map(stack_pointer).collect()
    }

    /// Checksums of all memory that the program can change, if they are wanted. Bytes that only the kernel or a
    /// domain with the token may touch are stable here.
    pub fn sums(&mut self, tid: Tid) -> Result<Vec<RangeSum>> {
        if !self.session.options.checksum {
            return Ok(Vec::new());
        }
        let mappings = maps::read(tid)?;
        let mut stacks = self.stack_pointers();
        let saved = self.saved_states(&mappings);
        stacks.extend(self.space.old_stacks());
        // A task in a handler on a stack of its own goes on where that has interrupted it.
        let is_in = |m: &maps::Mapping, addr: u64| m.start <= addr && addr < m.end;
        let left = self.tasks.values().filter_map(|task| Some((task.left_stack?, stack_pointer(task)?)));
        let is_away = |(left, now): &(u64, u64)| !mappings.iter().any(|m| is_in(m, *left) && is_in(m, *now));
        stacks.extend(left.filter(is_away).map(|(left, _)| left));
        let mut sums = Vec::new();
        // A file that another domain changes shows that at once; the stream says it at the next event's outcome.
        let shows = |m: &maps::Mapping| self.space.views().overlaps(m.start, m.end);
        for mapping in mappings.iter().filter(|m| checksum::is_summed(m) && !shows(m)) {
            // Below a stack pointer is nothing that the program can rely on, and not all of it repeats: what xsave
            // leaves there says which vector registers the processor thinks are in use. A stack that has run over has
            // such bytes in all of its frames that were not written.
            let is_run_over =
                |rsp: u64| mappings.iter().find(|m| rsp < m.end).is_some_and(|m| m.start == mapping.start);
            let begin = |rsp: &u64| match is_in(mapping, *rsp) {
                true => Some(rsp.next_multiple_of(4096)),
                false => is_run_over(*rsp).then_some(mapping.end),
            };
            let start = stacks.iter().filter_map(begin).max().unwrap_or(mapping.start);
            if start == mapping.end {
                continue;
            }
            for (start, len) in xsave::leave_out(vec![(start, mapping.end.saturating_sub(start))], &saved) {
                sums.push(checksum::sum_mapped(tid, &self.memory, &mappings, start, len)?);
            }
        }
        Ok(sums)
    }
}
