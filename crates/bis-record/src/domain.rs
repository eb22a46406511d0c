//! A domain: one address space, its tasks, and the supervisor thread that owns it.
//!
//! The supervisor is an actor. It keeps one promise: at most one of its tasks executes program code at a time.
//! Tasks that wait in the kernel are not counted; what they report is looked at only when nobody runs, so an
//! event's effects on memory have a place in the order of events. Who runs next is in `schedule.rs`, what a
//! system call does in `call.rs`, signals in `signals.rs`, new tasks and domains and the ends of both in
//! `process.rs`. This file is what they all stand on: its tasks, and how they stop and go on.
//! What is written of it goes through `events.rs`.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io, mem,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bis_trace::types::{DomainId, Tid};
use bis_tracee::{Memory, Resume, Status, Stopped, ours, siginfo::SigInfo, task};

use crate::{
    calls::ShownText,
    chaos::Mood,
    error::{RecordError, Result},
    events::Journal,
    hooks::{Hooks, watch::Watched},
    seed::Seed,
    session::Session,
    signals::Asked,
    space::AddressSpace,
    surroundings::Surroundings,
    task::{Handle, InCall, Task},
    tokens::Tokens,
    turns::Turns,
};

pub struct Domain {
    pub session: Arc<Session>,
    pub id: DomainId,
    pub memory: Memory,
    pub journal: Journal,
    pub tasks: BTreeMap<Tid, Task>,
    /// The domain's first task, under whose name events of the domain itself go.
    pub first_tid: Tid,
    /// Whose turn it is.
    pub turns: Turns,
    /// Its tokens are given back at once if somebody wants them: its task only spins.
    pub gives_up: bool,
    /// With chaos: who gets no turn.
    pub mood: Mood,
    /// The running task makes a step of its own.
    pub creeps: bool,
    /// With chaos: who was asked to stop last, and how long it had had the processor then.
    pub had_run: Option<(Tid, Duration)>,
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
}
