//! A replica: one domain under replay, as data. It has no thread and no slot; whoever holds it, on the thread
//! that traces its process, lets it go on as far as it is wanted ([`Replica::advance`]), and may copy it
//! ([`Replica::checkpoint`]).
//!
//! Every task of the domain is stopped but while an event lets it run, and an event lets one task run at
//! most, to its next system call or fault. What is found there must be what the event says; then the event's
//! outcome is applied, and the task waits for its next event. A system call is never made: its task is sent
//! on with registers that skip it.
//!
//! On the way to an event's place the driver may stop the task as often as it likes: what is half done then
//! (a log that was put where the hooks find it, a search for a place) is in the [`Underway`] event, as data.
//! So a replica can be copied there, and the copy goes on where it stands.
//!
//! This file has the parts; how a replica goes on from event to event is in `replica/going.rs`, what becomes
//! true by an event in `replica/outcome.rs`, what must be as it was recorded in `replica/checks.rs`. How a
//! task gets to an event's place is in [`crate::reach`]; what an outcome does to memory is in
//! [`crate::apply`]; threads, slots and turns are in [`crate::job`] and [`crate::run`].

mod checks;
mod going;
mod outcome;
mod points;
mod shown;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bis_agent::hooks::TEXT_BASE;
use bis_trace::{
    Events, ReadAhead,
    event::{DomainEntry, Effect, Event, EventKind, Outcome, TaskEnd, Turn},
    types::{Addr, EventSeq, Tid},
};
use bis_tracee::{Memory, Stopped, balance, proc, task as waiting, xlayout::Moved};

pub(crate) use checks::{Mismatch, Who};
pub use points::Ahead;

use crate::{
    alarm::Recorded,
    error::Halt,
    going::Going,
    process::Process,
    space::{Inherited, Space},
    task::{Interrupt, Task},
    traps::Traps,
    world::World,
};

/// See the module's text. Its fields are dropped in order: the process ends when it does.
#[derive(Debug)]
pub struct Replica<'t> {
    pub(crate) world: &'t World<'t>,
    pub(crate) entry: &'t DomainEntry,
    pub(crate) space: Space,
    pub(crate) tasks: BTreeMap<Tid, Task>,
    pub(crate) process: Process,
    pub(crate) traps: Traps,
    pub(crate) cursor: Cursor<'t>,
    /// The number of the core on which it was recorded, where the trace says that.
    pub(crate) core: Option<usize>,
    pub(crate) is_attended: bool,
}

/// How far a replica has come in its domain's stream.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'t> {
    pub events: Events<'t>,
    /// The number of the current event in its stream, from 1.
    pub position: u64,
    /// The last event that is done, and its task.
    pub done: (EventSeq, Tid),
    /// When that was recorded: the time since the recording's begin, milliseconds.
    pub elapsed_ms: u64,
    pub recorded: Recorded,
    /// The signal that has ended a task, once it is done: the task still stands there until its end.
    pub fatal: Option<Arc<Event>>,
    /// The event that is next, or half done.
    pub underway: Option<Underway>,
    /// Its last task is gone.
    pub is_ended: bool,
}

/// Makes the recorded vector registers this processor's. Those that do not fit stay, and whoever sets them
/// says so.
fn move_registers(event: &mut Event, moved: &Moved) {
    let fit = |state: &mut Vec<u8>| {
        if let Some(there) = moved.state(state) {
            *state = there;
        }
    };
    if let EventKind::Pause(pause) = &mut event.kind {
        pause.extended = moved.extended(&pause.extended);
    }
    let Some(outcome) = event.outcome_mut() else { return };
    outcome.xstate.iter_mut().for_each(fit);
    for effect in &mut outcome.effects {
        match effect {
            Effect::NewTask { xstate, .. } => xstate.iter_mut().for_each(fit),
            Effect::SetTask { xstate, .. } => fit(xstate),
            _ => {}
        }
    }
}

/// An event that is not done.
#[derive(Clone, Debug)]
pub(crate) struct Underway {
    pub event: Arc<Event>,
    pub stage: Stage,
}

impl Underway {
    /// Has its task set out?
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self.stage, Stage::Fresh)
    }
}

/// How far an event has come.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Fresh,
    /// Its task is on the way to its place.
    Going(Box<Going>),
    /// Its task is at its place, which was compared. Nothing of the outcome is done.
    There,
    /// Its task is at its place, and the driver knows it.
    Told,
    /// Turns that end with it, and do not begin with it, have ended.
    Released,
}

/// How far a replica is to go on: until the first of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit<'a> {
    /// Every event up to this one is done.
    pub event: Option<EventSeq>,
    /// This event's task is at its place, and nothing of its outcome is done.
    pub before: Option<EventSeq>,
    /// The task of any signal that takes effect is at its place, and nothing of its outcome is done.
    pub signals: bool,
    /// The domain has come to its end, as [`Replica::is_end`] has it.
    pub end: bool,
    /// The next event is done.
    pub each_event: bool,
    /// One instruction was executed, or an event is done.
    pub step: bool,
    /// Somebody asks.
    pub interrupt: Option<&'a Interrupt>,
    /// A pause that is looked for counts as missed at once.
    pub gives_up: bool,
    /// Where nothing else ends it: does one of the driver's stops come before the next event?
    pub ahead: Ahead,
}

/// Why a replica has stopped. All of its tasks are stopped then, and stand where the program would.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// An event is done that was a limit.
    Event(EventSeq),
    /// This task has executed one instruction.
    Stepped(Tid),
    /// This task is about to execute the instruction at a breakpoint.
    Point(Tid, Addr),
    /// This task is at a place at which it was to be stopped for a moment: not for the driver.
    Moment(Tid),
    /// This task has executed an instruction that touched watched bytes: the numbers of those in
    /// [`Replica::set_watches`].
    Watched(Tid, Vec<usize>),
    /// The task of this event is at its place, and nothing of its outcome is done: a limit.
    Before(EventSeq),
    /// It was asked to stop.
    Interrupted,
    /// Other domains must end these turns first.
    Turns(Vec<Turn>),
    /// The last event of the stream is done.
    End,
    /// The trace has no more of this stream.
    Cut,
}

/// What became of an event.
enum Flow {
    Done,
    /// It is done, and its task is gone.
    TaskGone,
    /// The replica stops before it is done.
    Stopped(Stop),
}

/// Has an image its hooks, which answer `cpuid`?
fn has_hooks(image: &Outcome) -> bool {
    image.effects.iter().any(|effect| matches!(effect, Effect::Map { addr: Addr(TEXT_BASE), .. }))
}

/// Is it a place in the middle of a computation?
fn is_pause(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Pause(_))
}

impl<'t> Replica<'t> {
    /// A domain before its first event. `stopped` is a process that has what its base says: nothing for an
    /// exec, its parent's memory for a fork, with what else is inherited.
    ///
    /// # Errors
    /// [`Halt::Cut`] where the trace has no events of it; else where the trace cannot be read, or the process
    /// is gone.
    pub(crate) fn new(
        world: &'t World<'t>,
        entry: &'t DomainEntry,
        (stopped, process, inherited): (Stopped, Process, Inherited),
    ) -> Result<Replica<'t>, Halt> {
        let has_text = inherited.text.is_some();
        let space = Space::new(Memory::open(stopped.tid())?, inherited);
        let done = (EventSeq(0), entry.tid);
        let events = world.trace.events(entry.domain);
        let events = if has_text { events } else { events.without_ours() };
        let cursor = Cursor {
            events,
            position: 0,
            done,
            elapsed_ms: 0,
            recorded: Recorded::default(),
            fatal: None,
            underway: None,
            is_ended: false,
        };
        let (tasks, mut traps) = (BTreeMap::new(), Traps::default());
        traps.int80_fails = !world.trace.tells_narrow_calls();
        let mut replica =
            Replica { world, entry, space, tasks, process, traps, cursor, core: None, is_attended: false };
        let Some(first) = replica.next_event()? else {
            let what = format!("domain {} (process {}) has no events", entry.domain, entry.pid);
            return Err(Halt::Cut(what));
        };
        let (seq, tid) = (first.seq, first.tid);
        let (hides_core, core) = match &first.kind {
            EventKind::Start(start) if start.base == entry.base => {
                (has_hooks(&start.outcome) && !start.has_own_cpuid, start.core)
            }
            _ => {
                let what = "its first event does not say how it begins".into();
                return Err(replica.inconsistent(seq, what));
            }
        };
        if !entry.base.is_copy() {
            replica.space.is_told_its_core = !hides_core && !world.machine.cpuid_faulting;
        }
        replica.core = core.map(usize::from);
        // What it forks, threads and copies, is there, too: the kernel sees to that.
        if let Some(core) = replica.own_core() {
            balance::pin(stopped.tid(), core);
        }
        replica.tasks.insert(tid, Task::new(stopped));
        Ok(replica)
    }

    /// From now on, its events are read ahead.
    pub(crate) fn read_ahead(&mut self, ahead: &'t ReadAhead<'t>) {
        self.cursor.events.read_ahead(ahead);
    }

    /// The number of the core on which its tasks have to run, if any will not do: where it was recorded. That
    /// is the first one where the trace does not say; where the replay may not use it, the first one is as
    /// good as any other.
    pub fn own_core(&self) -> Option<usize> {
        let recorded = self.core.filter(|core| self.world.cores.contains(core));
        self.space.is_told_its_core.then(|| recorded.unwrap_or(self.world.cores[0]))
    }

    /// Somebody looks at single places from now on, and wants them numbered.
    pub fn attend(&mut self) {
        self.is_attended = true;
    }

    pub fn entry(&self) -> &'t DomainEntry {
        self.entry
    }

    pub fn world(&self) -> &'t World<'t> {
        self.world
    }

    /// The process's memory, with breakpoints in it if a task has run since [`Replica::rest`].
    pub fn memory(&self) -> &Memory {
        &self.space.memory
    }

    /// Takes breakpoints out of memory: it is as it would be without a driver.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn rest(&mut self) -> Result<&Memory, Halt> {
        self.traps.disarm(&self.space.memory)?;
        Ok(&self.space.memory)
    }

    /// The last event that is done, and its task.
    pub fn done(&self) -> (EventSeq, Tid) {
        self.cursor.done
    }

    /// The last signal that was the end of its task.
    pub fn fatal(&self) -> Option<&Event> {
        self.cursor.fatal.as_deref()
    }

    /// When the last event was recorded that is done: the time since the recording's begin. None: the trace
    /// does not say.
    pub fn elapsed(&self) -> Option<Duration> {
        self.world.trace.says_times().then(|| Duration::from_millis(self.cursor.elapsed_ms))
    }

    /// How many events of the domain's stream are done.
    pub fn position(&self) -> u64 {
        self.cursor.position
    }

    /// The recorded ids of the tasks.
    pub fn tasks(&self) -> impl Iterator<Item = Tid> + '_ {
        self.tasks.keys().copied()
    }

    /// The tasks' own ids here.
    pub(crate) fn our_tasks(&self) -> impl Iterator<Item = Tid> + '_ {
        self.tasks.values().map(|task| task.ours)
    }

    /// The event that comes next, or is half done.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    pub fn next_event(&mut self) -> Result<Option<&Event>, Halt> {
        if self.cursor.underway.is_none()
            && let Some(event) = self.cursor.events.next()
        {
            let mut event = event?;
            if let Some(moved) = &self.world.moved {
                move_registers(&mut event, moved);
            }
            self.cursor.underway = Some(Underway { event: Arc::new(event), stage: Stage::Fresh });
        }
        Ok(self.cursor.underway.as_ref().map(|underway| &*underway.event))
    }

    /// The event that comes next, and the replica as it stands before that event.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    pub fn next_event_and_self(&mut self) -> Result<Option<(&Event, &Replica<'t>)>, Halt> {
        self.next_event()?;
        let replica = &*self;
        Ok(replica.cursor.underway.as_ref().map(|underway| (&*underway.event, replica)))
    }

    /// How long its tasks have had a processor, all together. Of what the kernel does not tell: none.
    pub fn processor_time(&self) -> Duration {
        self.tasks.values().filter_map(|task| waiting::cpu_time(task.ours)).sum()
    }

    /// How many pages its process has been given, since it was made: those that it has touched for the first
    /// time, and behind a copy also each one that it writes to. Of what the kernel does not tell: none.
    pub fn pages_given(&self) -> u64 {
        proc::minor_faults(self.process.pid()).unwrap_or(0)
    }

    /// The event that is underway, if its task has set out for it or stands at its place. True: at its place.
    pub fn underway(&self) -> Option<(&Event, bool)> {
        let underway = self.cursor.underway.as_ref().filter(|underway| underway.is_begun())?;
        Some((&underway.event, !matches!(underway.stage, Stage::Going(_))))
    }

    /// The number that this task has here, for a program that reads about it in /proc.
    pub fn our_task(&self, tid: Tid) -> Option<Tid> {
        self.tasks.get(&tid).map(|task| task.ours)
    }

    /// Is this the event, which is the next one, with which the domain ends? A signal or a call that ends a
    /// process ends its tasks one after the other; the first of these ends is meant, because all tasks can be
    /// looked at there. `is_last`: no other task is left.
    fn is_end(&self, event: &Event, is_last: bool) -> bool {
        let is_of_process = |kind: &EventKind| {
            let EventKind::TaskExit { status, .. } = kind else { return false };
            matches!(status, TaskEnd::Exited(_) | TaskEnd::Killed(_))
        };
        let is_plain = |kind: &EventKind| {
            is_of_process(kind) || matches!(kind, EventKind::Token { .. } | EventKind::End)
        };
        let is_exit = matches!(event.kind, EventKind::TaskExit { .. });
        let mut later = self.cursor.events.clone();
        let mut is_told = !self.world.goes_on;
        is_exit
            && (is_last
                || is_of_process(&event.kind)
                    && later.all(|event| {
                        event.is_ok_and(|event| {
                            is_told |= event.kind == EventKind::End;
                            is_plain(&event.kind)
                        })
                    })
                    && is_told)
    }

    /// Does the task stand there with whose end the domain ends?
    pub fn is_at_end(&self) -> bool {
        let is_last = self.tasks.len() <= 1;
        self.underway().is_some_and(|(event, is_there)| is_there && self.is_end(event, is_last))
    }

    /// The task that runs next, by its recorded id and the one that it has here. None: none does.
    pub fn next_task(&mut self) -> Result<Option<(Tid, Tid)>, Halt> {
        let Some(event) = self.next_event()? else { return Ok(None) };
        let tid = event.tid;
        Ok(self.tasks.get(&tid).map(|task| (tid, task.ours)))
    }

    /// Has no task run since the last event?
    pub fn is_at_event(&self) -> bool {
        self.cursor.underway.as_ref().is_none_or(|underway| !underway.is_begun())
    }
}
