//! A domain: one address space, its tasks, and the supervisor thread that owns it.
//!
//! The supervisor is an actor. It keeps one promise: at most one of its tasks executes program code at a
//! time. Tasks that wait in the kernel are not counted; what they report is looked at only when nobody runs,
//! so an event's effects on memory have a place in the order of events.
//!
//! A domain is made of four things that lie in each other, and each finds what is below it as if it were its
//! own: the tasks (a [`Crew`]), the address space with our hooks (a [`Process`]), the events (a
//! [`Recorder`], which is made of the parts when it is wanted), and around them what only policies know:
//! turns, tokens, chaos, pauses. So the type that a method is written for says what it may know.
//!
//! This file names the parts, and says how they are reached. It decides nothing, and calls none of the files
//! that do. The loop that runs a domain is in `schedule.rs`; what a stop of a task means, in `reports.rs`,
//! which names the files that deal with it.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use bis_trace::{
    event::{EventKind, RangeSum},
    types::{DomainId, EventSeq, Tid},
};
use bis_tracee::Memory;

use crate::{
    calls::ShownText,
    chaos::Mood,
    checkpoints::held::Checkpoints,
    crew::Crew,
    error::Result,
    events::{Journal, Recorder},
    guided::Guided,
    linger::Linger,
    places::{surroundings::Surroundings, written::Written},
    process::Process,
    session::Session,
    space::AddressSpace,
    stuck::Stuck,
    task::Task,
    tokens::Tokens,
    turns::Turns,
};

pub struct Domain {
    pub process: Process,
    pub journal: Journal,
    /// What the program has kept of itself.
    pub checkpoints: Checkpoints,
    /// None: nobody says how far it goes on.
    pub guided: Option<Guided>,
    /// Whose turn it is.
    pub turns: Turns,
    /// Whether its turns all end in one place, and nobody gets on.
    pub stuck: Stuck,
    /// How often the domain has done something where others share memory with it, and how many calls its
    /// hooks had made when it gave its tokens back last.
    pub moves: u64,
    pub hooked_before: u64,
    /// The task that has its turn is led on for so many instructions, and loses it.
    pub led_on: Option<usize>,
    /// A task that has just been woken, and is to have its turn before the one that has done it goes on.
    pub woken: Option<Tid>,
    /// Whether calls wait in their hooks where all other tasks wait in the kernel.
    pub linger: Linger,
    pub tokens: Tokens,
    /// Its tokens are given back at once if somebody wants them: its task only spins, or gives its turn away.
    pub gives_up: bool,
    /// With chaos: which tasks get no turn.
    pub mood: Mood,
    /// The running task makes a step of its own.
    pub creeps: bool,
    /// With chaos: the task that was asked to stop last, and how long it had had the processor then.
    pub had_run: Option<(Tid, Duration)>,
    /// What its tasks are reading of address spaces.
    pub shown: Vec<ShownText>,
    /// What memory held where a task was last paused.
    pub surroundings: Surroundings,
    /// How long it took, the last time, to look at the state of a task that computes.
    pub look_took: Duration,
    /// Which pages its tasks have written to in front of pauses.
    pub written: Written,
    /// Whose memory was last looked at for them, and how long it had had the processor then.
    pub looked_at: Option<(Tid, Duration)>,
    /// A task and the number of the domain's events when it had no good place first, and how long it had had
    /// the processor then.
    pub opaque: Option<((Tid, u64), Duration)>,
}

impl Deref for Domain {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Domain {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl AsMut<Crew> for Domain {
    fn as_mut(&mut self) -> &mut Crew {
        &mut self.process.crew
    }
}

impl Domain {
    /// Of one task, which nothing has happened to yet.
    pub fn new(
        session: &Arc<Session>,
        id: DomainId,
        memory: Memory,
        space: AddressSpace,
        task: Task,
        core: usize,
    ) -> Domain {
        let turns = Turns::new(task.tid, session.options.slice);
        let crew = Crew::new(session, id, memory, task, core);
        Domain {
            process: Process { crew, space, hooks: None },
            journal: Journal::new(session.writer.stream(id), session.began),
            checkpoints: Checkpoints::default(),
            guided: None,
            turns,
            stuck: Stuck::new(Instant::now()),
            moves: 0,
            hooked_before: 0,
            led_on: None,
            woken: None,
            linger: Linger::for_turns(),
            tokens: Tokens::default(),
            gives_up: false,
            mood: Mood::default(),
            creeps: false,
            had_run: None,
            shown: Vec::new(),
            surroundings: Surroundings::default(),
            look_took: Duration::ZERO,
            written: Written::default(),
            looked_at: None,
            opaque: None,
        }
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
            process: &mut self.process,
            journal: &mut self.journal,
            checkpoints: &mut self.checkpoints,
            guided: &mut self.guided,
        }
    }

    /// Writes an event without checksums.
    pub fn event(&mut self, tid: Tid, kind: EventKind) -> Result<()> {
        self.recorder().event(tid, kind)
    }

    /// Writes an event with the checksums of memory before it.
    pub fn event_with(&mut self, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        self.recorder().event_with(tid, kind, sums)
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
