//! One process of a recording, as somebody goes through it: forwards, backwards, to any place.
//!
//! The session has one live replica, which stands where the user does. It never runs a replica backwards: to
//! get back, it takes a copy of a checkpoint before ([`history`]) and runs that forward. Where it stands is a
//! [`place::Position`], which can be gone to again exactly. Searches backwards look at what lies between two
//! checkpoints, the latest first ([`backward`]).
//!
//! A process may execute several programs. Each of these *images* is a domain of its own; the session goes
//! from one to the next.
//!
//! What a user does to the program, in calls of functions say, is done to a copy of the replica
//! ([`diversion`]).
//!
//! What the program writes is heard when the user goes forward, not in searches.

pub mod alarm;
mod aside;
mod backward;
mod begin;
mod broken;
mod calls;
mod climb;
mod crew;
pub mod diversion;
mod events;
mod follow;
mod forward;
mod goal;
mod history;
mod image;
mod inner;
pub mod intervals;
mod journey;
mod kept;
mod lent;
pub mod libraries;
mod live;
mod look;
mod memory;
mod nearby;
mod onward;
mod others;
mod over;
mod passed;
pub mod place;
pub mod points;
pub mod processes;
mod range;
mod report;
mod run;
mod rung;
mod searched;
mod settle;
pub mod source;
mod stopper;
mod strides;
mod told;
mod trail;
mod travel;
mod unwritten;
mod way;
mod window;

use std::collections::{BTreeSet, VecDeque};

use bis_replay::{Halt, Limit, Replica, Solo, Stop, World};
use bis_trace::{
    event::DomainEntry,
    types::{Addr, DomainId, EventSeq, Signal, Tid},
};

pub(crate) use self::begin::offsets;
use self::{
    alarm::Alarm,
    aside::Aside,
    history::{History, Mark},
    live::Live,
    others::Others,
    place::Position,
    points::Points,
    searched::{Searched, Wanted},
};
pub use self::{
    report::{Catch, Report, Trouble, Why},
    stopper::Stopper,
};
use crate::{
    options::{Listener, News},
    protocol::target::{Target, Targets},
};

/// See the module's text.
pub struct Session<'t> {
    world: &'t World<'t>,
    /// The domains of the process, in order.
    images: Vec<DomainId>,
    host: Solo<'t>,
    others: Others<'t>,
    live: Live<'t>,
    position: Position,
    tid: Tid,
    history: History<'t>,
    searched: Searched,
    /// Places in front of which no event comes.
    inner: inner::Inner,
    /// What the last search has found.
    hits: Option<backward::Hits>,
    /// The instructions in front of some place where the user was.
    window: Option<window::Window<'t>>,
    /// From where the program comes to places that searches find.
    known: window::Known,
    /// Copies that were made on the way there.
    passed: passed::Passed<'t>,
    /// A position in it, and its number there.
    in_window: Option<(Position, usize)>,
    pub points: Points,
    targets: Targets,
    alarm: Alarm,
    /// Where this process's other threads may run: the kernel's mask.
    cores: Vec<u8>,
    stopper: Stopper,
    /// Signals that do not stop it.
    pub passed_signals: BTreeSet<Signal>,
    /// While one task is let go on alone, these signals of others do not stop it either.
    passed_of_others: Option<(Tid, BTreeSet<Signal>)>,
    pub caught_calls: Catch,
    /// Are forks told of?
    pub catches_forks: bool,
    /// Are begins of threads told of? (That of ends there is no word for, where all threads stop together.)
    pub tells_threads: bool,
    /// What the client is told when it goes on, and nothing moves for it: that the call has returned by which
    /// the program has begun; what has happened to another thread while one was let go on alone.
    told_next: VecDeque<Report>,
    /// A task runs through a range of instructions, and is to be stopped where it leaves it.
    exits: Option<range::Exits>,
    aside: Aside<'t>,
    /// The program that the trace is being made of, if it is.
    origin: source::Origin,
    /// Checkpoints that are made by themselves, for the user.
    intervals: intervals::Intervals,
    /// The address of the C library's fflush, if there is one.
    fflush: Option<Addr>,
    /// What breakpoints' commands have printed, and other news for the user.
    console: VecDeque<Vec<u8>>,
    /// The listener that is told of these instead.
    listener: Option<Listener>,
}

impl<'t> Session<'t> {
    /// How many checkpoints it has made for itself, what they take of memory, and what all of its kind may
    /// take, in bytes.
    pub fn checkpoints(&self) -> (usize, u64, u64) {
        let (count, used) = self.history.size();
        (count, used, self.history.budget().bound())
    }

    /// Is this domain one of the process's?
    pub fn has(&self, domain: DomainId) -> bool {
        self.images.contains(&domain)
    }

    pub fn world(&self) -> &'t World<'t> {
        self.world
    }

    /// The replica that stands where the user does.
    pub fn replica(&self) -> &Replica<'t> {
        &self.live.replica
    }

    /// What the user sees: that, or a copy of it in which a function was called.
    fn shown(&self) -> &Replica<'t> {
        self.diversion().map_or(&self.live.replica, bis_replay::Diversion::replica)
    }

    /// The copy, if what is seen now is one.
    pub(super) fn diversion(&self) -> Option<&bis_replay::Diversion<'t>> {
        self.aside.diverted.as_ref().map(|diverted| &diverted.diversion)
    }

    /// Is what goes on a copy?
    pub fn is_diverted(&self) -> bool {
        self.aside.is_diverted()
    }

    /// Takes the session's breakpoints out of memory, for a caller that reads it as a whole.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn rest(&mut self) -> Result<(), Trouble> {
        self.live.replica.rest()?;
        Ok(())
    }

    /// What the registers are called, and where they are.
    pub fn target(&self) -> &Target {
        self.targets.of(&self.live.replica.registers(self.tid).unwrap_or_default())
    }

    /// Is it a 32-bit program?
    pub fn is_narrow(&self) -> bool {
        self.live.replica.registers(self.tid).is_ok_and(|registers| registers.is_narrow())
    }

    /// The task that stopped last.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// What is told of where the session begins.
    pub fn first_report(&self) -> Report {
        let arrived = Report { tid: self.tid, why: Why::Arrived };
        self.live.broken.clone().unwrap_or(arrived)
    }

    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The process.
    pub fn pid(&self) -> Tid {
        self.entry().pid
    }

    /// What the trace says of the program that runs now.
    pub fn entry(&self) -> &'t DomainEntry {
        self.live.replica.entry()
    }

    /// A thread that begins now may run anywhere, as the session's may not.
    pub fn free_threads(&self) -> impl FnOnce() + Send + use<> {
        let cores = self.cores.clone();
        move || {
            if let Err(error) = bis_tracee::sys::set_affinity(Tid(0), &cores) {
                tracing::debug!(%error, "a thread stays on the session's core");
            }
        }
    }

    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The next piece of news for the user.
    pub fn take_news(&mut self) -> Option<Vec<u8>> {
        self.console.pop_front()
    }

    /// News go there from now on, and not to the console.
    pub fn tell(&mut self, listener: Option<Listener>) {
        self.listener = listener;
    }

    fn say(&mut self, text: impl Into<Vec<u8>>) {
        let text = text.into();
        match self.listener {
            Some(listener) => listener(News::Said(&text)),
            None => self.console.push_back(text),
        }
    }

    /// What a breakpoint's command has printed in this task.
    pub fn printed(&mut self, tid: Tid, text: Vec<u8>) {
        let event = self.live.replica.done().0.0;
        match self.listener {
            Some(listener) => listener(News::Printed { tid: tid.0, event, text: &text }),
            None => self.say(text),
        }
    }

    /// News that is a line, or several.
    pub fn say_line(&mut self, text: &str) {
        self.say(format!("{text}\n"));
    }

    /// What stops the session is this from now on; gives what was.
    fn want(&mut self, wanted: Wanted) -> Wanted {
        let Wanted { points, passed_signals, caught_calls, catches_forks, tells_threads } = wanted;
        Wanted {
            points: std::mem::replace(&mut self.points, points),
            passed_signals: std::mem::replace(&mut self.passed_signals, passed_signals),
            caught_calls: std::mem::replace(&mut self.caught_calls, caught_calls),
            catches_forks: std::mem::replace(&mut self.catches_forks, catches_forks),
            tells_threads: std::mem::replace(&mut self.tells_threads, tells_threads),
        }
    }

    /// What a search stops at.
    fn wanted(&self) -> Wanted {
        Wanted {
            points: self.points.clone(),
            passed_signals: self.passed_signals.clone(),
            caught_calls: self.caught_calls.clone(),
            catches_forks: self.catches_forks,
            tells_threads: self.tells_threads,
        }
    }

    /// Which image an event belongs to.
    fn image_of(&self, event: EventSeq) -> usize {
        let began = |domain: &DomainId| self.world.entry(*domain).is_ok_and(|entry| entry.seq <= event);
        self.images.iter().rposition(began).unwrap_or(0)
    }

    /// Lets a replica run, and those that share memory with it as far as needed.
    fn advance(&mut self, live: &mut Live<'t>, limit: &Limit<'_>) -> Result<Stop, Halt> {
        let Session { host, points, others, .. } = self;
        others.advance(host, points, live, limit)
    }

    /// Keeps a mark of where this replica stands, if it is behind an event.
    fn save(&mut self, live: &mut Live<'t>) -> Result<(), Halt> {
        let (event, _) = live.replica.done();
        if !live.replica.is_at_event() || self.history.has_event(event) {
            return Ok(());
        }
        if let Some(mark) = Mark::of(live, Position::at(event))? {
            self.history.add(mark);
        }
        Ok(())
    }
}
