//! A crew: the tasks of one address space, and what they are reached by.
//!
//! What asks or changes tasks alone is a method of the crew, wherever it is written: it cannot know what the
//! address space holds of ours, no event, and no policy. Above it are a [`Process`](crate::process::Process),
//! a [`Recorder`](crate::events::Recorder), and a [`Domain`](crate::domain::Domain), each with what is below.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use bis_trace::types::{DomainId, Tid};
use bis_tracee::{
    Memory, Status, Stopped, TraceeError, siginfo::SigInfo, sys, task::is_alive, written::Writes,
};

use crate::{
    error::{RecordError, Result},
    hooks::watch::Watched,
    session::Session,
    signals::asked::Asked,
    task::{Handle, InCall, Task},
};

pub struct Crew {
    pub session: Arc<Session>,
    /// The domain that it is the crew of.
    pub id: DomainId,
    pub memory: Memory,
    pub tasks: BTreeMap<Tid, Task>,
    /// The domain's first task, under whose name events of the domain itself go.
    pub first_tid: Tid,
    /// What the watch thread knows of the domain.
    pub watched: Arc<Watched>,
    /// The slot of `session.cores` that all are pinned to.
    pub core: usize,
    /// Signals that look as if an instruction had raised them, but were sent or wait already.
    pub queued_faults: Vec<SigInfo>,
    /// What /proc said last of what a signal would do.
    pub asked: Option<Asked>,
    /// Reports of tasks that we have not been told of yet.
    pub early: HashMap<Tid, Status>,
    /// While it is asked what the tasks write between two stops.
    pub writes: Option<Writes>,
    /// Leaders that ended before their threads: the kernel reports them last.
    pub zombies: HashSet<Tid>,
}

impl Crew {
    /// Of one task, the first.
    pub fn new(session: &Arc<Session>, id: DomainId, memory: Memory, task: Task, core: usize) -> Crew {
        Crew {
            session: Arc::clone(session),
            id,
            memory,
            first_tid: task.tid,
            tasks: [(task.tid, task)].into(),
            watched: session.watch.of(id),
            core,
            queued_faults: Vec::new(),
            asked: None,
            early: HashMap::new(),
            writes: None,
            zombies: HashSet::new(),
        }
    }

    pub fn task(&mut self, tid: Tid) -> Result<&mut Task> {
        self.tasks.get_mut(&tid).ok_or_else(|| unknown(tid))
    }

    /// As [`Crew::task`], for a question.
    pub fn task_ref(&self, tid: Tid) -> Result<&Task> {
        self.tasks.get(&tid).ok_or_else(|| unknown(tid))
    }

    /// Asks a task that runs to stop.
    pub fn interrupt(&mut self, tid: Tid) -> Result<()> {
        self.task(tid)?.to_stop.ask();
        match sys::interrupt(tid) {
            // Its end is on its way.
            Err(TraceeError::Died(_)) => Ok(()),
            other => Ok(other?),
        }
    }

    pub fn call(&mut self, tid: Tid) -> Result<&mut InCall> {
        let call = self.task(tid)?.call.as_mut();
        call.ok_or_else(|| RecordError::Bug { tid, what: "no call is in progress".into() })
    }

    /// The stopped task. Only while its report is handled or it is ready.
    pub fn stopped(&mut self, tid: Tid) -> Result<&mut Stopped> {
        match self.task(tid)? {
            Task { handle: Handle::Stopped(stopped), .. } => Ok(stopped),
            task => Err(not_stopped(task)),
        }
    }

    /// As [`Crew::stopped`], for a question.
    pub fn stopped_ref(&self, tid: Tid) -> Result<&Stopped> {
        match self.task_ref(tid)? {
            Task { handle: Handle::Stopped(stopped), .. } => Ok(stopped),
            task => Err(not_stopped(task)),
        }
    }
}

fn unknown(tid: Tid) -> RecordError {
    RecordError::Bug { tid, what: "an unknown task".into() }
}

/// Why there is nobody to ask or change.
fn not_stopped(task: &Task) -> RecordError {
    let is_told = matches!(task.report.status(), Some(Status::Exited(_) | Status::Killed(_)));
    match &task.handle {
        Handle::Dying => TraceeError::Died(task.tid).into(),
        // Its end is told, or on its way.
        Handle::Taken if is_told || !is_alive(task.tid) => TraceeError::Died(task.tid).into(),
        other => RecordError::Bug { tid: task.tid, what: format!("the task is not stopped: {other:?}") },
    }
}

/// Runs `use_it` with a stopped task of the crew in a slot, as remote calls want it, and with what the crew
/// is a part of.
pub fn with_slot<W: AsMut<Crew>, T>(
    whole: &mut W,
    tid: Tid,
    use_it: impl FnOnce(&mut W, &mut Option<Stopped>) -> Result<T>,
) -> Result<T> {
    whole.as_mut().stopped(tid)?;
    let handle = mem::replace(&mut whole.as_mut().task(tid)?.handle, Handle::Taken);
    let Handle::Stopped(stopped) = handle else {
        return Err(RecordError::Bug { tid, what: "it has just been stopped".into() });
    };
    let mut slot = Some(stopped);
    let result = use_it(whole, &mut slot);
    if let Some(task) = whole.as_mut().tasks.get_mut(&tid) {
        task.handle = slot.map_or(Handle::Dying, Handle::Stopped);
    }
    result
}

impl AsMut<Crew> for Crew {
    fn as_mut(&mut self) -> &mut Crew {
        self
    }
}
