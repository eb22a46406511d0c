//! A domain: one address space, its tasks, and the supervisor thread that owns it.
//!
//! The supervisor is an actor. It keeps one promise: at most one of its tasks executes program code at a
//! time. Tasks that wait in the kernel are not counted; what they report is looked at only when nobody runs,
//! so an event's effects on memory have a place in the order of events.
//!
//! This file names the parts that a domain is made of, and says how they are reached. It decides nothing, and
//! calls none of the files that do. The loop that runs a domain is in `schedule.rs`; what a stop of a task
//! means, in `reports.rs`, which names the files that deal with it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use bis_trace::{
    event::{EventKind, RangeSum},
    types::{DomainId, EventSeq, Tid},
};
use bis_tracee::{Memory, Status, Stopped, siginfo::SigInfo};

use crate::{
    calls::ShownText,
    chaos::Mood,
    checkpoints::held::Checkpoints,
    error::{RecordError, Result},
    events::{Journal, Recorder},
    guided::Guided,
    hooks::{Hooks, watch::Watched},
    places::surroundings::Surroundings,
    session::Session,
    signals::asked::Asked,
    space::AddressSpace,
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
    /// What the program has kept of itself.
    pub checkpoints: Checkpoints,
    /// None: nobody says how far it goes on.
    pub guided: Option<Guided>,
    /// What its tasks are reading of address spaces.
    pub shown: Vec<ShownText>,
    /// None: every call is traced.
    pub hooks: Option<Hooks>,
    /// What memory held where a task was last paused.
    pub surroundings: Surroundings,
    /// Whose memory was last looked at for them, and how long it had had the processor then.
    pub looked_at: Option<(Tid, Duration)>,
    /// A task and the number of the domain's events when it had no good place first, and how long it had had
    /// the processor then.
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

    /// Can nobody else run while the domain's task waits in the kernel: no other task, and no domain that
    /// waits for a token?
    pub fn is_alone(&self) -> bool {
        self.tasks.len() == 1 && !self.holds_tokens()
    }

    /// Is another domain waiting for what we hold?
    pub fn holds_tokens(&self) -> bool {
        self.tokens.holds_any()
    }

    // --- events

    /// What writes the domain's events.
    pub fn recorder(&mut self) -> Recorder<'_> {
        Recorder {
            id: self.id,
            session: &self.session,
            journal: &mut self.journal,
            memory: &self.memory,
            tasks: &mut self.tasks,
            space: &mut self.space,
            hooks: &mut self.hooks,
            watched: &self.watched,
            checkpoints: &mut self.checkpoints,
        }
    }

    /// Writes an event without checksums.
    pub fn event(&mut self, tid: Tid, kind: EventKind) -> Result<()> {
        self.event_with(tid, kind, Vec::new())
    }

    /// Writes an event with the checksums of memory before it.
    pub fn event_with(&mut self, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        if let (Some(guided), EventKind::Signal(_)) = (&mut self.guided, &kind) {
            guided.is_to_hear();
        }
        self.recorder().event(tid, kind, sums)
    }

    pub fn event_at(&mut self, seq: EventSeq, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        self.recorder().event_at(seq, tid, kind, sums)
    }

    pub fn drain(&mut self, tid: Tid) -> Result<()> {
        self.recorder().drain(tid)
    }

    pub fn sums(&mut self, tid: Tid) -> Result<Vec<RangeSum>> {
        self.recorder().sums(tid)
    }

    pub fn write_entries(&mut self) -> Result<()> {
        self.recorder().write_entries()
    }

    pub fn write_entry(&mut self, tid: Tid) -> Result<()> {
        self.recorder().write_entry(tid)
    }
}
