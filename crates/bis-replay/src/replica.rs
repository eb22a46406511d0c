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
//! This file knows the events. How a task gets to an event's place is in [`crate::reach`]; what an outcome
//! does to memory is in [`crate::apply`]; threads, slots and turns are in [`crate::job`] and [`crate::run`].

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use bis_agent::hooks::{TEXT_BASE, entries};
use bis_rewrite::Predicate;
use bis_trace::{
    Events,
    event::{DomainEntry, Effect, Event, EventKind, Outcome, TaskEnd, Turn},
    types::{EventSeq, Registers, Signal, TickKind, Tid},
};
use bis_tracee::{
    Memory, Resume, Status, Stopped, TraceeError, balance, checksum, debug, maps, remote::Remote,
    siginfo::SigInfo, task as waiting, xlayout::Moved,
};

use crate::{
    apply::objects_of_others,
    areas::Piece,
    counted::{Counted, Until},
    divergence::{Brief, Divergence, Leave, RegisterDifference, call_name, compare},
    error::{Halt, ReplayError},
    host::Host,
    ours::{Exit, ProgramText, Shown},
    process::{self, Process},
    reach::{Going, Reach, found_text},
    scene::{Clues, Scene},
    seek,
    space::{Inherited, Space},
    task::{self, Found, Hooked, Interrupt, Place, Run, Task},
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
    /// The same, and the driver knows it.
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
    /// The same of every signal that takes effect.
    pub signals: bool,
    /// The same of the domain's end, as [`Replica::is_end`] has it.
    pub end: bool,
    /// The next event is done.
    pub each_event: bool,
    /// One instruction was executed, or an event is done.
    pub step: bool,
    /// Somebody asks.
    pub interrupt: Option<&'a Interrupt>,
}

/// Why a replica has stopped. All of its tasks are stopped then, and stand where the program would.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// An event is done that was a limit.
    Event(EventSeq),
    /// This task has executed one instruction.
    Stepped(Tid),
    /// This task is about to execute the instruction at a breakpoint.
    Point(Tid, u64),
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

/// What became of an event.
enum Flow {
    Done,
    /// It is done, and its task is gone.
    TaskGone,
    /// The replica stops before it is done.
    Stopped(Stop),
}

/// An event's number and task.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub seq: EventSeq,
    pub tid: Tid,
    /// The counts that the task makes until then.
    pub ticks: Option<u64>,
}

/// Has an image its hooks, which answer `cpuid`?
fn has_hooks(image: &Outcome) -> bool {
    image.effects.iter().any(|effect| matches!(effect, Effect::Map { addr: TEXT_BASE, .. }))
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
        let cursor = Cursor { events, position: 0, done, elapsed_ms: 0, underway: None, is_ended: false };
        let (tasks, traps) = (BTreeMap::new(), Traps::default());
        let mut replica = Replica { world, entry, space, tasks, process, traps, cursor, is_attended: false };
        let Some(first) = replica.next_event()? else {
            let what = format!("domain {} (process {}) has no events", entry.domain, entry.pid);
            return Err(Halt::Cut(what));
        };
        let (seq, tid) = (first.seq, first.tid);
        let hooks = match &first.kind {
            EventKind::Start(start) if start.base == entry.base => has_hooks(&start.outcome),
            _ => {
                let what = "its first event does not say how it begins".into();
                return Err(replica.inconsistent(seq, what));
            }
        };
        if !entry.base.is_copy() {
            replica.space.is_told_its_core = !hooks && !world.machine.cpuid_faulting;
        }
        // What it forks, threads and copies, is there, too: the kernel sees to that.
        if let Some(core) = replica.own_core() {
            balance::pin(stopped.tid(), core);
        }
        replica.tasks.insert(tid, Task::new(stopped));
        Ok(replica)
    }

    /// The number of the core on which its tasks have to run, if any will not do: the first one, where it was
    /// recorded.
    pub fn own_core(&self) -> Option<usize> {
        self.space.is_told_its_core.then(|| self.world.cores[0])
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

    /// How long its tasks have had a processor, all together. Of what the kernel does not tell: none.
    pub fn processor_time(&self) -> Duration {
        self.tasks.values().filter_map(|task| waiting::cpu_time(task.ours)).sum()
    }

    /// Where a count of the text would be in the way of the search for the next event, which is a pause.
    /// None: nowhere.
    ///
    /// # Errors
    /// As [`Replica::next_event`].
    pub fn sought(&mut self) -> Result<Option<Range<u64>>, Halt> {
        Ok(self.next_event()?.and_then(|event| match &event.kind {
            EventKind::Pause(pause) => Some(seek::text_about(pause)),
            _ => None,
        }))
    }

    /// The event that is underway, if its task has set out for it or stands at its place. True: at its place.
    pub fn underway(&self) -> Option<(&Event, bool)> {
        let underway = self.cursor.underway.as_ref().filter(|underway| underway.is_begun())?;
        Some((&underway.event, !matches!(underway.stage, Stage::Going(_))))
    }

    /// The number that this task has here, for who reads about it in /proc.
    pub fn our_task(&self, tid: Tid) -> Option<Tid> {
        self.tasks.get(&tid).map(|task| task.ours)
    }

    /// Is where this task stands the last of the arrivals that were counted?
    pub fn is_counted(&self, tid: Tid) -> bool {
        self.place_of(tid).is_some_and(|place| self.traps.last == Some(place))
    }

    /// Does this task stand where the last event has left it? That is no arrival.
    pub fn is_standing(&self, tid: Tid) -> bool {
        self.place_of(tid).is_some_and(|place| self.traps.standing == Some(place))
    }

    /// Where a task stands, or where the jumps of ours lead at which it does.
    fn place_of(&self, tid: Tid) -> Option<(Tid, u64)> {
        let task = self.tasks.get(&tid)?;
        Some((task.ours, self.led_to(task.regs().ok()?.rip)))
    }

    /// Where a jump of ours leads that is here: to the copy of an instruction of the program, or back from
    /// one. Else the same.
    pub(crate) fn led_to(&self, rip: u64) -> u64 {
        let Some(text) = &self.space.text else { return rip };
        let mut rip = rip;
        // A jump may lead to another; not in a circle.
        for _ in 0..4 {
            let Some(next) = text.leads_to(rip) else { break };
            rip = next;
        }
        rip
    }

    /// The driver knows where the last event has left its task: a breakpoint there does not stop that task.
    pub fn acknowledge(&mut self) {
        if let Some((ours, rip)) = self.traps.standing
            && let Some(task) = self.tasks.values_mut().find(|task| task.ours == ours)
        {
            task.told = Some(rip);
        }
    }

    /// The driver knows where this task has come to: a breakpoint there does not stop it again.
    pub fn acknowledge_arrival(&mut self, tid: Tid) {
        let place = self.place_of(tid).map(|(_, place)| place);
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.told = place;
        }
    }

    /// Is this task within a system call, and in which?
    pub fn in_call(&self, tid: Tid) -> Option<u64> {
        self.tasks.get(&tid).and_then(|task| task.in_call)
    }

    /// What is mapped in the replayed process.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn maps(&self) -> Result<Vec<maps::Mapping>, TraceeError> {
        let tid = self
            .tasks
            .values()
            .find(|task| task.stopped.is_some())
            .map_or(self.process.pid(), |task| task.ours);
        maps::read(tid)
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
        is_exit
            && (is_last
                || is_of_process(&event.kind)
                    && later.all(|event| event.is_ok_and(|event| is_plain(&event.kind))))
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

    /// Where the tasks are to stop: whenever one is about to execute the instruction at one of these
    /// addresses.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn set_points(&mut self, points: &BTreeSet<u64>) -> Result<(), Halt> {
        let is_at_event = self.is_at_event();
        let Replica { traps, space, .. } = self;
        let places = |addr| space.text.as_ref().map_or_else(|| vec![addr], |text| text.places(addr));
        Ok(traps.set_points(&space.memory, points, is_at_event, places)?)
    }

    /// From here to the next event, the program counts its arrivals at this address by itself; with
    /// `stop_at`, the task stops at that one of them, as at a breakpoint. There must be one of
    /// [`Replica::set_points`], and it stops the task no more. False: that cannot be here, and the breakpoint
    /// stays as it is.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn count_arrivals(&mut self, addr: u64, stop_at: Option<u64>) -> Result<bool, Halt> {
        self.let_count(addr, Until { arrival: stop_at, condition: None })
    }

    /// The same, and the task stops each time that the condition holds, or cannot be tested.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn count_where(&mut self, addr: u64, condition: &Predicate) -> Result<bool, Halt> {
        self.let_count(addr, Until { arrival: None, condition: Some(condition) })
    }

    fn let_count(&mut self, addr: u64, until: Until<'_>) -> Result<bool, Halt> {
        let Some((tid, _)) = self.next_task()? else { return Ok(false) };
        // What counts arrivals has branches of its own, and how far the task has come would be counted with
        // them.
        let is_to_pause = self.next_event()?.is_some_and(|event| is_pause(&event.kind));
        if self.world.ticks.counts_branches() && (is_to_pause || !self.is_attended) {
            return Ok(false);
        }
        let places = self.space.text.as_ref().map_or_else(|| vec![addr], |text| text.places(addr));
        let [place] = places[..] else { return Ok(false) };
        // Copies of moved instructions have counts beside them, or jumps of ours.
        let is_moved = place != addr || self.space.text.as_ref().is_some_and(|text| text.is_ours(place));
        let searched = match self.cursor.underway.as_ref().map(|underway| &underway.event.kind) {
            Some(EventKind::Pause(pause)) => Some(pause.regs.rip),
            _ => None,
        };
        let base = self.traps.arrivals(addr);
        if is_moved
            || !self.traps.has_point(addr)
            || searched == Some(place)
            || self.traps.counted().iter().any(|counted| counted.covers(place))
            || until.arrival.is_some_and(|stop_at| stop_at <= base)
        {
            return Ok(false);
        }
        self.traps.disarm(&self.space.memory)?;
        // Text that has given way to something of ours may be in the way, too.
        let near = self.space.memory.read_upto(place, 16);
        if self.read_program(place, 16) != near {
            return Ok(false);
        }
        let Some(task) = self.tasks.get_mut(&tid).filter(|task| task.stopped.is_some()) else {
            return Ok(false);
        };
        let counted = self.traps.counted().iter().map(|counted| counted.place);
        let in_the_way: Vec<u64> = counted.chain(searched).collect();
        let counted = Counted::new(task, &self.space.memory, (addr, place), base, until, &in_the_way)?;
        let is_counted = counted.is_some();
        if let Some(counted) = counted {
            self.traps.add_counted(counted);
            // Where the last event has left this task is no arrival.
            if self.traps.standing == Some((task.ours, place)) {
                task.told = Some(place);
            }
        }
        Ok(is_counted)
    }

    /// The program counts nothing any more.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn end_counts(&mut self) -> Result<(), Halt> {
        if self.traps.counted().is_empty() {
            return Ok(());
        }
        self.leave_counts()?;
        let counted = self.traps.take_counted(&self.space.memory)?;
        let Some(task) = self.tasks.values_mut().find(|task| task.stopped.is_some()) else { return Ok(()) };
        counted.iter().try_for_each(|counted| counted.end(task))?;
        Ok(())
    }

    /// A task that was stopped in the middle of what counts stands in the program's own text then. It goes on
    /// being counted.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn leave_counts(&mut self) -> Result<(), Halt> {
        if self.traps.counted().is_empty() {
            return Ok(());
        }
        self.traps.disarm(&self.space.memory)?;
        for task in self.tasks.values_mut() {
            end_counts_of(task, &self.space, &mut self.traps)?;
        }
        Ok(())
    }

    /// Whatever the tasks touch of these bytes stops them. Of debug registers there are as many as the
    /// processor has, less one for the search for a place.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn set_watches(&mut self, watches: &[Piece]) -> Result<(), Halt> {
        let is_at_event = self.is_at_event();
        // A source that steps uses a register for instructions that it does not step over; and the search for
        // a place needs one.
        let room =
            if self.world.ticks.kind() == TickKind::Stepping { debug::COUNT - 2 } else { debug::COUNT };
        self.traps.set_watches(watches, room, is_at_event);
        Ok(())
    }

    /// The registers of a task, as the program has them.
    ///
    /// # Errors
    /// Where there is no such task, or it is gone.
    pub fn registers(&self, tid: Tid) -> Result<Registers, TraceeError> {
        let task = self.tasks.get(&tid).ok_or(TraceeError::Died(tid))?;
        let regs = task::shown(&task.regs()?);
        let rip = match self.stands(tid) {
            Shown::Program { addr } | Shown::Within { addr, .. } => addr,
            Shown::Hook | Shown::Nowhere => regs.rip,
        };
        // In a copy, no thread is in a call.
        Ok(Registers { orig_rax: task.in_call.unwrap_or(u64::MAX), rip, ..regs })
    }

    /// As much of the program's memory at an address as can be read without a gap, with the program's own
    /// text.
    pub fn read_program(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = self.traps.read(&self.space.memory, addr, len);
        let Some(text) = &self.space.text else { return bytes };
        let end = addr.saturating_add(bytes.len() as u64);
        let own = text.ours().filter(|ours| ours.start < end && addr < ours.end).map(|ours| ours.start).min();
        if let Some(own) = own {
            bytes.truncate(usize::try_from(own.saturating_sub(addr)).unwrap_or(0));
        }
        if let Err(error) = text.show(addr, &mut bytes) {
            tracing::warn!(%error, "the program's own text cannot be had");
        }
        bytes
    }

    /// What of the memory is bis's own, and what the program believes to be mapped. None: nobody has asked
    /// for it.
    pub fn text(&self) -> Option<&ProgramText> {
        self.space.text.as_ref()
    }

    /// Its x87 and vector registers, in the kernel's non-compacted layout.
    ///
    /// # Errors
    /// As [`Replica::registers`].
    pub fn extended(&self, tid: Tid) -> Result<Vec<u8>, TraceeError> {
        self.tasks.get(&tid).ok_or(TraceeError::Died(tid))?.stopped()?.xstate()
    }

    /// The driver's breakpoints and watches, with their counts.
    pub fn traps(&self) -> &Traps {
        &self.traps
    }

    /// Lets the replica go on, up to the first of its limits or traps.
    ///
    /// # Errors
    /// [`Halt::Failed`] with a [`ReplayError::Divergence`] when a program did something else than it did when
    /// it was recorded: the task stands there, and can be looked at. The other kinds when trace or machine
    /// are at fault, or all is cancelled.
    pub fn advance(&mut self, host: &mut dyn Host, limit: &Limit<'_>) -> Result<Stop, Halt> {
        if !self.is_attended {
            return self.go_on(host, limit);
        }
        let stop = self.go_on_in_program(host, limit);
        if let Ok(Stop::Point(tid, _) | Stop::Stepped(tid)) = &stop
            && let Some((ours, place)) = self.place_of(*tid)
        {
            if matches!(stop, Ok(Stop::Stepped(_))) {
                self.traps.arrive(ours, place);
            }
            if let Some(task) = self.tasks.get_mut(tid) {
                task.told = Some(place);
            }
        }
        stop
    }

    /// The same as [`Replica::go_on`], for somebody who sees the program's own instructions only: a step is
    /// one of those, and whoever has been stopped in the middle of what is executed in place of one goes on
    /// behind it.
    fn go_on_in_program(&mut self, host: &mut dyn Host, limit: &Limit<'_>) -> Result<Stop, Halt> {
        let stop = self.go_on(host, limit)?;
        let tid = match &stop {
            Stop::Stepped(tid) | Stop::Watched(tid, _) => *tid,
            _ => return Ok(stop),
        };
        let mut touched = match &stop {
            Stop::Watched(_, pieces) => Some(pieces.clone()),
            _ => None,
        };
        if touched.is_some() {
            self.traps.trigger();
        }
        let memory_left = self.leave(tid, &mut touched, host, limit);
        self.traps.set_moment(&self.space.memory, &[])?;
        Ok(match (memory_left?, touched) {
            (None | Some(Stop::Event(_)), Some(pieces)) => Stop::Watched(tid, pieces),
            (Some(other), _) => other,
            (None, None) => Stop::Stepped(tid),
        })
    }

    /// Lets a task go on until it stands at an instruction of the program. Some: it was stopped by something
    /// else.
    fn leave(
        &mut self,
        tid: Tid,
        touched: &mut Option<Vec<usize>>,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Option<Stop>, Halt> {
        loop {
            let exit = match self.stands(tid) {
                Shown::Within { exit, .. } => exit,
                Shown::Hook => Exit::Step,
                Shown::Program { .. } | Shown::Nowhere => return Ok(None),
            };
            let moments = match exit {
                Exit::At(place) => vec![place],
                Exit::Instruction(addr) => {
                    self.space.text.as_ref().map(|text| text.places(addr)).unwrap_or_default()
                }
                Exit::Return => {
                    let regs = self.tasks.get(&tid).ok_or(TraceeError::Died(tid))?.regs()?;
                    vec![self.space.memory.read_u64(regs.rsp)?]
                }
                Exit::Step => Vec::new(),
            };
            let step = moments.is_empty();
            self.traps.set_moment(&self.space.memory, &moments)?;
            // Not to be interrupted, which is soon enough behind it: what was touched so far would be
            // forgotten.
            match self.go_on(host, &Limit { step, each_event: true, interrupt: None, ..*limit })? {
                Stop::Stepped(_) | Stop::Moment(_) => {}
                Stop::Watched(_, pieces) => {
                    // Whatever is touched in place of one instruction is one time.
                    if touched.is_none() {
                        self.traps.trigger();
                    }
                    touched.get_or_insert_default().extend(pieces);
                }
                stop => return Ok(Some(stop)),
            }
        }
    }

    /// Does this task stand in the middle of what is executed in place of an instruction of the program?
    pub fn is_within(&self, tid: Tid) -> bool {
        matches!(self.stands(tid), Shown::Within { .. } | Shown::Hook)
    }

    /// Where a task stands, in terms of the program.
    fn stands(&self, tid: Tid) -> Shown {
        let Some(regs) = self.tasks.get(&tid).and_then(|task| task.regs().ok()) else {
            return Shown::Nowhere;
        };
        let Some(text) = &self.space.text else { return Shown::Program { addr: regs.rip } };
        text.original_of(&regs, &self.space.hooks, |addr| self.space.memory.read_u64(addr).ok())
    }

    fn go_on(&mut self, host: &mut dyn Host, limit: &Limit<'_>) -> Result<Stop, Halt> {
        loop {
            if limit.interrupt.is_some_and(Interrupt::is_asked) {
                return Ok(Stop::Interrupted);
            }
            let next = self.next_event()?.map(|event| event.seq);
            if let (Some(last), Some(next)) = (limit.event, next)
                && next > last
                && self.is_at_event()
            {
                return Ok(Stop::Event(self.cursor.done.0));
            }
            let Some(mut underway) = self.cursor.underway.take() else {
                return Ok(if self.cursor.is_ended { Stop::End } else { Stop::Cut });
            };
            let event = Arc::clone(&underway.event);
            let flow = self.event(&event, &mut underway.stage, host, limit);
            match flow {
                Ok(Flow::Done | Flow::TaskGone) => {}
                Ok(Flow::Stopped(stop)) => {
                    self.cursor.underway = Some(underway);
                    return Ok(stop);
                }
                Err(error) => {
                    self.cursor.underway = Some(underway);
                    return Err(error);
                }
            }
            if event.kind == EventKind::End {
                self.cursor.is_ended = true;
            }
            self.cursor.position += 1;
            // Turns are nobody's in particular: whoever was left somewhere still stands there.
            let is_own = !matches!(event.kind, EventKind::Token { .. } | EventKind::End);
            self.cursor.done = (event.seq, if is_own { event.tid } else { self.cursor.done.1 });
            self.cursor.elapsed_ms += event.lapse.ms();
            self.begin_count();
            if limit.each_event || limit.step {
                return Ok(Stop::Event(event.seq));
            }
        }
    }

    /// An event is done: arrivals are counted from here on.
    fn begin_count(&mut self) {
        if !self.is_attended {
            return;
        }
        let standing = self.place_of(self.cursor.done.1);
        self.traps.begin_count(standing);
        // What the driver knew of was another place.
        self.tasks.values_mut().for_each(|task| task.told = None);
    }

    fn event(
        &mut self,
        event: &Event,
        stage: &mut Stage,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Flow, Halt> {
        if self.cursor.is_ended {
            return self.last_releases(event, stage, host);
        }
        match &event.kind {
            EventKind::Token { acquired, released } => {
                return self.turns(event.seq, acquired, released, stage, host);
            }
            EventKind::End => return Ok(Flow::Done),
            _ => {}
        }
        let Some(mut task) = self.tasks.remove(&event.tid) else {
            return Err(self.inconsistent(event.seq, format!("task {} does not exist", event.tid)));
        };
        let flow = self.event_of(&mut task, event, stage, host, limit);
        // Also where it has diverged: somebody may want to look at it.
        if !matches!(flow, Ok(Flow::TaskGone)) {
            self.tasks.insert(event.tid, task);
        }
        flow
    }

    /// Are the branches counted that a task makes on its way to such an event? Where somebody looks on, that
    /// is done only where a place is found by them, as single steps take long, and arrivals cannot be counted
    /// meanwhile. At the other events the count is only checked, which a whole replay does.
    fn is_counted_to(&self, kind: &EventKind) -> bool {
        !self.is_attended || !self.world.ticks.counts_branches() || is_pause(kind)
    }

    fn event_of(
        &mut self,
        task: &mut Task,
        event: &Event,
        stage: &mut Stage,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Flow, Halt> {
        let who = Who { seq: event.seq, tid: event.tid, ticks: event.ticks };
        if matches!(stage, Stage::Fresh) {
            if self.is_counted_to(&event.kind) && (event.ticks.is_some() || is_pause(&event.kind)) {
                task.begin_ticks(self.world.ticks, &self.space.memory)?;
            } else {
                task.end_ticks();
            }
            *stage = match self.set_out(task, who, &event.kind)? {
                Some(going) => Stage::Going(Box::new(going)),
                None => Stage::There,
            };
        }
        if let Stage::Going(going) = stage {
            match self.reach(task, who, event, going, host, limit)? {
                Reach::There => *stage = Stage::There,
                Reach::Stopped(stop) => return Ok(Flow::Stopped(stop)),
            }
        }
        if matches!(stage, Stage::There) {
            let is_limit = limit.before == Some(event.seq)
                || limit.signals && matches!(event.kind, EventKind::Signal(_))
                || limit.end && self.is_end(event, self.tasks.is_empty());
            if is_limit {
                *stage = Stage::Told;
                return Ok(Flow::Stopped(Stop::Before(event.seq)));
            }
        }
        if let Some(outcome) = outcome_of(&event.kind) {
            let turns = objects_of_others(&outcome.effects);
            if !turns.is_empty() && !host.have_come(&turns) {
                return Ok(Flow::Stopped(Stop::Turns(turns)));
            }
        }
        self.finish(task, who, event, host)
    }

    /// The task is at the event's place: the rest of the event.
    fn finish(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &Event,
        host: &mut dyn Host,
    ) -> Result<Flow, Halt> {
        if !self.traps.counted().is_empty() {
            let counted = self.traps.take_counted(&self.space.memory)?;
            counted.iter().try_for_each(|counted| counted.end(task))?;
        }
        if touches_memory(event) {
            self.traps.disarm(&self.space.memory)?;
        }
        let version = self.space.text.as_ref().map(ProgramText::version);
        let flow = self.make_true(task, who, event, host)?;
        if self.space.text.as_ref().map(ProgramText::version) != version {
            // Instructions of the program are elsewhere now.
            let Replica { traps, space, .. } = self;
            let places = |addr| space.text.as_ref().map_or_else(|| vec![addr], |text| text.places(addr));
            traps.place(&space.memory, places)?;
        }
        Ok(flow)
    }

    /// The event's outcome.
    fn make_true(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &Event,
        host: &mut dyn Host,
    ) -> Result<Flow, Halt> {
        let seq = event.seq;
        if self.space.text.is_some() {
            self.name_tasks(event);
        }
        match &event.kind {
            EventKind::Syscall { nr, outcome, .. } => {
                self.check(task, who, &event.sums)?;
                self.apply(task, seq, outcome, host)?;
                if i64::try_from(*nr) == Ok(libc::SYS_brk) {
                    self.space.brk = Some(outcome.regs.rax);
                }
                task.remember(seq, Brief::Call { nr: *nr, result: outcome.regs.result() });
            }
            EventKind::SyscallEnter { nr, .. } => {
                self.check(task, who, &event.sums)?;
                task.in_call = Some(*nr);
                task.remember(seq, Brief::Enter { nr: *nr });
            }
            EventKind::SyscallExit { nr, outcome } => {
                if task.in_call.take() != Some(*nr) {
                    return Err(
                        self.inconsistent(seq, format!("{} returns but was not entered", call_name(*nr)))
                    );
                }
                self.check(task, who, &event.sums)?;
                self.apply(task, seq, outcome, host)?;
                task.remember(seq, Brief::Exit { nr: *nr, result: outcome.regs.result() });
            }
            EventKind::Signal(signal) => {
                self.check(task, who, &event.sums)?;
                if let Some(handler) = &signal.handler {
                    self.apply(task, seq, handler, host)?;
                }
                task.remember(seq, Brief::Signal(signal.signal));
            }
            EventKind::Instruction { insn, after, .. } => {
                self.check(task, who, &event.sums)?;
                task.set_regs(after)?;
                task.remember(seq, Brief::Instruction(*insn));
            }
            EventKind::Pause(pause) => {
                self.check(task, who, &event.sums)?;
                task.remember(seq, Brief::Pause(pause.regs.rip));
            }
            EventKind::Hooked { alone, log } => {
                let hooked = Hooked { alone: *alone, log: log.clone() };
                if task.hooked.replace(hooked).is_some() {
                    let what =
                        format!("two logs of hooked calls of task {} with nothing in between", who.tid);
                    return Err(self.inconsistent(seq, what));
                }
                task.remember(seq, Brief::Hooked(entries(log).count()));
            }
            EventKind::TaskExit { outcome, .. } => {
                self.end_task(task, seq, outcome, host)?;
                return Ok(Flow::TaskGone);
            }
            EventKind::Start(start) => {
                if self.cursor.position > 0 {
                    return Err(self.inconsistent(seq, "the domain begins twice".into()));
                }
                self.apply(task, seq, &start.outcome, host)?;
                task.remember(seq, Brief::Start);
            }
            EventKind::Token { .. } | EventKind::End => unreachable!("done by others"),
        }
        Ok(Flow::Done)
    }

    /// A domain may give its turns back after its last task.
    fn last_releases(&mut self, event: &Event, stage: &mut Stage, host: &mut dyn Host) -> Result<Flow, Halt> {
        match &event.kind {
            EventKind::Token { acquired, released } if acquired.is_empty() => {
                self.turns(event.seq, &[], released, stage, host)
            }
            _ => Err(self.inconsistent(event.seq, "the domain goes on after its end".into())),
        }
    }

    fn turns(
        &mut self,
        seq: EventSeq,
        acquired: &[Turn],
        released: &[Turn],
        stage: &mut Stage,
        host: &mut dyn Host,
    ) -> Result<Flow, Halt> {
        let release = |turn: &Turn, host: &mut dyn Host| {
            host.release(*turn).map_err(|error| self.inconsistent(seq, error.to_string()))
        };
        let (own, others): (Vec<_>, Vec<_>) = released.iter().partition(|turn| acquired.contains(turn));
        if matches!(stage, Stage::Fresh) {
            // A turn that begins and ends here must begin first; others wait for nothing of ours.
            others.into_iter().try_for_each(|turn| release(turn, host))?;
            *stage = Stage::Released;
        }
        if !acquired.is_empty() && !host.have_come(acquired) {
            return Ok(Flow::Stopped(Stop::Turns(acquired.to_vec())));
        }
        own.into_iter().try_for_each(|turn| release(turn, host))?;
        Ok(Flow::Done)
    }

    /// At an event's place, before its outcome: is the task where it was by its counts, and is memory what it
    /// was, if these were recorded?
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
            let scene = Scene::new(self.world, &self.space.memory, task.ours);
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
    fn end_task(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        outcome: &Outcome,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        self.apply_memory(task, seq, outcome, host)?;
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
        if task.ours != self.process.pid() {
            process::reap(task.ours);
            return Ok(());
        }
        // The process's first thread reports its end only when all others are gone: let it go, not more.
        match waiting::wait_for(task.ours)? {
            Status::Exit(_) => {
                Stopped::adopt(task.ours).resume(Resume::Cont, None)?;
            }
            status => waiting::put_back(task.ours, status),
        }
        Ok(())
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
            _ => {}
        }
        if !mismatch.killed {
            mismatch.registers = compare(wanted, &place.regs, leave);
        }
        self.diverged(task, who, mismatch)
    }

    pub(crate) fn diverged(&self, task: &Task, who: Who, mismatch: Mismatch) -> Halt {
        let scene = Scene::new(self.world, &self.space.memory, task.ours);
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
            command: self.world.command(self.entry),
            tid: who.tid,
            seq: who.seq,
            // Of the event that is not done.
            position: self.cursor.position + 1,
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

/// A task that stands in the middle of what counts goes on in the program's own text.
fn end_counts_of(task: &mut Task, space: &Space, traps: &mut Traps) -> Result<(), Halt> {
    if task.stopped.is_none() {
        return Ok(());
    }
    // In front of the copies there is a dozen instructions, and a condition.
    const STEPS_MAX: usize = 1024;
    for _ in 0..STEPS_MAX {
        let regs = task.regs()?;
        if let Some(rip) = traps.counted().iter().find_map(|counted| counted.original(regs.rip)) {
            task.set_regs(&Registers { rip, ..regs })?;
            if traps.counted().iter().any(|counted| counted.place == rip) {
                stands_counted(task, traps, rip);
            }
            return Ok(());
        }
        if !traps.counted().iter().any(|counted| counted.has(regs.rip)) {
            return Ok(());
        }
        let place =
            task.run(&space.memory, traps, Run { interrupt: None, step: true, hooks: space.hooks })?;
        if let Found::Point(place) = place.found {
            stands_counted(task, traps, place);
            return Ok(());
        }
    }
    Ok(())
}

/// The task stands at a place, and that arrival was counted: a breakpoint there must not stop it again.
fn stands_counted(task: &mut Task, traps: &mut Traps, place: u64) {
    task.told = Some(place);
    traps.last = Some((task.ours, place));
}

/// Is it a place in the middle of a computation?
fn is_pause(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Pause(_))
}

/// What becomes of memory and registers by an event, if that is more than registers alone.
fn outcome_of(kind: &EventKind) -> Option<&Outcome> {
    match kind {
        EventKind::Syscall { outcome, .. }
        | EventKind::SyscallExit { outcome, .. }
        | EventKind::TaskExit { outcome, .. } => Some(outcome),
        EventKind::Signal(signal) => signal.handler.as_ref(),
        EventKind::Start(start) => Some(&start.outcome),
        _ => None,
    }
}

/// Does the event look at memory, or change it?
fn touches_memory(event: &Event) -> bool {
    let touches = |outcome: &Outcome| {
        !(outcome.effects.is_empty()
            && outcome.writes.is_empty()
            && outcome.clones.is_empty()
            && outcome.echo.is_none())
    };
    !event.sums.is_empty() || outcome_of(&event.kind).is_some_and(touches)
}
