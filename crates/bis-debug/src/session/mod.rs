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
mod backward;
mod broken;
mod calls;
mod climb;
mod crew;
pub mod diversion;
mod forward;
mod goal;
mod history;
pub mod intervals;
pub mod libraries;
mod look;
mod memory;
mod nearby;
mod others;
mod over;
mod passed;
pub mod place;
pub mod points;
pub mod processes;
mod range;
mod searched;
mod settle;
pub mod source;
mod strides;
mod trail;
mod travel;
mod unwritten;
mod window;

use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bis_replay::{Company, Halt, Interrupt, Limit, ReplayError, Replica, Solo, Stop, World, solo::Ear};
use bis_trace::{
    event::{DomainEntry, EventKind, TaskEnd},
    types::{Addr, DomainId, EventSeq, Signal, Tid},
};

use bis_tracee::balance;

use self::{
    alarm::Alarm,
    diversion::Aside,
    history::{History, Mark},
    memory::Budget,
    others::Others,
    place::Position,
    points::Points,
    searched::{Searched, Wanted},
};
use crate::{
    options::{Begin, DebugError, Listener, News, Which, check_format},
    protocol::{
        command::PointKind,
        target::{Offsets, Target},
    },
};

/// How long a replica runs before a checkpoint is made.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(400);

/// A replica with those that are replayed beside it.
#[derive(Debug)]
pub struct Live<'t> {
    pub replica: Replica<'t>,
    company: Company<'t>,
    /// Its domain's place among the images.
    image: usize,
    /// Why it cannot go on, if it cannot.
    broken: Option<Report>,
}

impl<'t> Live<'t> {
    fn new(replica: Replica<'t>, company: Company<'t>, image: usize) -> Live<'t> {
        Live { replica, company, image, broken: None }
    }
}

/// Stops a session that is at work, from another thread.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    is_asked: Arc<AtomicBool>,
    interrupt: Arc<Interrupt>,
    /// Those of the sessions that help it.
    helpers: Arc<Mutex<Vec<Stopper>>>,
}

impl Stopper {
    /// The session stops as soon as it can.
    pub fn ask(&self) {
        let helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_asked.store(true, Ordering::SeqCst);
        self.interrupt.ask();
        helpers.iter().for_each(Stopper::ask);
    }

    /// Whoever has asked does not want it any more. Nobody but they can tell: what is asked for before the
    /// session has begun with what it is to stop holds for that; what comes behind its end, for nothing.
    pub fn forget(&self) {
        self.is_asked.store(false, Ordering::SeqCst);
        self.interrupt.take();
    }

    /// One for a session that helps this one, which is asked when this one is.
    fn helper(&self) -> Stopper {
        let helper = Stopper::default();
        let mut helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        helpers.push(helper.clone());
        if self.is_asked.load(Ordering::SeqCst) {
            helper.ask();
        }
        helper
    }

    /// All of them are gone.
    fn forget_helpers(&self) {
        self.helpers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Has somebody asked, and is not answered yet?
    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    fn interrupt_of(&self) -> &Interrupt {
        &self.interrupt
    }

    fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::SeqCst)
    }
}

/// Why the user's program has stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    Breakpoint {
        is_hardware: bool,
    },
    Watchpoint {
        kind: PointKind,
        addr: Addr,
    },
    /// A step is done.
    Step,
    /// It is about to get this signal.
    Signal(Signal),
    /// The user has asked for it.
    Interrupted,
    /// It is in front of everything that was recorded.
    Begin,
    /// It is behind: the task that was last is about to end.
    End(Option<TaskEnd>),
    /// It has executed another program.
    Exec(Vec<u8>),
    /// It has entered a system call, or left it.
    Call {
        nr: u64,
        is_entry: bool,
    },
    /// It has made another process.
    Fork {
        pid: Tid,
        is_vfork: bool,
    },
    /// It is a new thread.
    ThreadBegins,
    /// The place was gone to.
    Arrived,
    /// The replica cannot go on: the text says why, in several lines.
    Broken(String),
}

/// A stop, and whose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub tid: Tid,
    pub why: Why,
}

/// What a session cannot do.
#[derive(Debug)]
pub enum Trouble {
    /// The user has asked it to stop; it stands where it stood.
    Asked,
    Halt(Halt),
}

impl<E: Into<Halt>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Halt(error.into())
    }
}

impl Trouble {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Trouble::Asked => "interrupted".into(),
            Trouble::Halt(Halt::Failed(error)) => error.to_string(),
            Trouble::Halt(Halt::Cut(why)) => why.clone(),
            Trouble::Halt(Halt::Seen(event)) => {
                format!("the program has read its own text at event {event}, where a breakpoint of bis was")
            }
            Trouble::Halt(Halt::Cancelled) => "the replay was given up".into(),
        }
    }
}

/// System calls at which a session stops.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Catch {
    #[default]
    None,
    All,
    These(BTreeSet<u64>),
}

impl Catch {
    fn has(&self, nr: u64) -> bool {
        match self {
            Catch::None => false,
            Catch::All => true,
            Catch::These(calls) => calls.contains(&nr),
        }
    }
}

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
    /// What the last search has found.
    hits: Option<backward::Hits>,
    /// The instructions in front of some place where the user was.
    window: Option<window::Window<'t>>,
    /// Copies that were made on the way there.
    passed: passed::Passed<'t>,
    /// A position in it, and its number there.
    in_window: Option<(Position, usize)>,
    pub points: Points,
    target: Target,
    alarm: Alarm,
    /// Where this process's other threads may run: the kernel's mask.
    cores: Vec<u8>,
    stopper: Stopper,
    /// Signals that do not stop it.
    pub passed_signals: BTreeSet<Signal>,
    pub caught_calls: Catch,
    /// Are forks told of?
    pub catches_forks: bool,
    /// Are begins of threads told of? (That of ends there is no word for, where all threads stop together.)
    pub tells_threads: bool,
    /// The program has begun by a caught call, of whose return the client is told when it goes on.
    exec_return: Option<Report>,
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
    /// Who is told of these instead.
    listener: Option<Listener>,
}

impl<'t> Session<'t> {
    /// A session at the begin of a process.
    ///
    /// # Errors
    /// Where there is no such process or place, or the trace or this machine is at fault.
    pub fn open(
        world: &'t World<'t>,
        which: &Which,
        ear: Option<Ear>,
        checkpoint_memory: Option<u64>,
    ) -> Result<Session<'t>, DebugError> {
        check_format(world.trace())?;
        let entry = which.entry(world.trace())?;
        let history = History::new(Budget::new(checkpoint_memory));
        Session::begin(world, images(world, entry), 0, (ear, Stopper::default()), history)
    }

    /// A session on the process of another domain, at the begin of that. Whoever stops this one stops that
    /// one, too.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn beside(&self, domain: DomainId) -> Result<Session<'t>, DebugError> {
        let life = processes::lives(self.world).into_iter().find(|life| life.has(domain));
        let images: Vec<DomainId> =
            life.map_or_else(|| vec![domain], |life| life.images.iter().map(|entry| entry.domain).collect());
        let image = images.iter().position(|image| *image == domain).unwrap_or(0);
        let history = History::new(Rc::clone(self.history.budget()));
        Session::begin(self.world, images, image, (None, self.stopper.clone()), history)
    }

    /// How many checkpoints it has made for itself, what they take of memory, and what all of its kind may
    /// take, in bytes.
    pub fn checkpoints(&self) -> (usize, u64, u64) {
        let (count, used) = self.history.size();
        (count, used, self.history.budget().bound())
    }

    /// The user goes on here, and not there any more: what holds for all processes comes along.
    pub fn take_over(&mut self, left: &mut Session<'t>) {
        self.host.take_ear(&mut left.host);
        self.passed_signals.clone_from(&left.passed_signals);
        self.caught_calls.clone_from(&left.caught_calls);
        self.catches_forks = left.catches_forks;
        self.console.append(&mut left.console);
        // A client puts its breakpoints in anew.
        self.points = Points::default();
    }

    /// Is this domain one of the process's?
    pub fn has(&self, domain: DomainId) -> bool {
        self.images.contains(&domain)
    }

    /// A session of a helper, which stands at a mark and looks for the same as another one.
    fn helper(
        (world, images): (&'t World<'t>, Vec<DomainId>),
        mark: &Mark<'t>,
        wanted: Wanted,
        target: Target,
        stopper: Stopper,
        memory: u64,
    ) -> Result<Session<'t>, Trouble> {
        let alarm = Alarm::new(Arc::clone(&stopper.interrupt));
        let alarm = alarm.map_err(|source| Halt::Cut(format!("failed to start a thread: {source}")))?;
        let mut history = History::new(Budget::new(Some(memory)));
        history.add(mark.clone());
        let live = mark.resume()?;
        let session = Session::fresh(
            (world, images),
            Solo::new(world, None),
            (live, mark.position.clone()),
            history,
            target,
            (alarm, stopper),
        );
        let Wanted { points, passed_signals, caught_calls, catches_forks, tells_threads } = wanted;
        Ok(Session { points, passed_signals, caught_calls, catches_forks, tells_threads, ..session })
    }

    fn begin(
        world: &'t World<'t>,
        images: Vec<DomainId>,
        image: usize,
        (ear, stopper): (Option<Ear>, Stopper),
        mut history: History<'t>,
    ) -> Result<Session<'t>, DebugError> {
        let alarm = Alarm::new(Arc::clone(&stopper.interrupt))
            .map_err(|source| DebugError::Io { what: "start a thread", source })?;
        // Together with its tasks: a stop across cores takes twenty times as long.
        let core = bis_tracee::sys::current_core().unwrap_or(0);
        let cores = bis_tracee::sys::get_affinity(Tid(0)).unwrap_or_default();
        balance::pin(Tid(0), core);
        let mut host = Solo::new(world, ear);
        let (live, event) = begin_image(&mut host, &mut history, &images, image)?;
        let machine = world.trace().machine().cloned().unwrap_or_default();
        let target = Target::new(machine.xcr0 & bis_tracee::cpu::xcr0(), &offsets());
        let live = (live, Position::at(event));
        let session = Session::fresh((world, images), host, live, history, target, (alarm, stopper));
        Ok(Session { cores, ..session })
    }

    /// One in which nothing has been asked for yet.
    fn fresh(
        (world, images): (&'t World<'t>, Vec<DomainId>),
        host: Solo<'t>,
        (live, position): (Live<'t>, Position),
        history: History<'t>,
        target: Target,
        (alarm, stopper): (Alarm, Stopper),
    ) -> Session<'t> {
        Session {
            world,
            images,
            host,
            others: Others::default(),
            tid: live.replica.done().1,
            live,
            position,
            history,
            searched: Searched::default(),
            hits: None,
            window: None,
            passed: passed::Passed::default(),
            in_window: None,
            points: Points::default(),
            target,
            alarm,
            cores: Vec::new(),
            stopper,
            passed_signals: BTreeSet::new(),
            caught_calls: Catch::None,
            catches_forks: false,
            tells_threads: false,
            exec_return: None,
            exits: None,
            aside: Aside::default(),
            origin: source::Origin::default(),
            intervals: intervals::Intervals::default(),
            fflush: None,
            console: VecDeque::new(),
            listener: None,
        }
    }

    /// Goes to where the session is to begin.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn go_to_begin(&mut self, begin: &Begin) -> Result<(), DebugError> {
        let trouble = |trouble: Trouble| match trouble {
            Trouble::Halt(halt) => DebugError::from(halt),
            Trouble::Asked => DebugError::Cut("interrupted".into()),
        };
        match begin {
            Begin::FirstExec => {}
            Begin::Event(event) => {
                self.seek(&Position::at(EventSeq(*event))).map_err(trouble)?;
            }
            Begin::Place(text) => {
                let position: Position = text.parse().map_err(DebugError::NoPlace)?;
                self.seek(&position).map_err(trouble)?;
            }
            Begin::End => self.tid = self.run_to_end().map_err(trouble)?.tid,
            Begin::Divergence => {
                self.tid = self.run_to_end().map_err(trouble)?.tid;
                if self.live.broken.is_none() {
                    return Err(DebugError::NoDivergence);
                }
            }
        }
        Ok(())
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

    /// Takes the session's breakpoints out of memory, for who reads it as a whole.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn rest(&mut self) -> Result<(), Trouble> {
        self.live.replica.rest()?;
        Ok(())
    }

    /// What the registers are called, and where they are.
    pub fn target(&self) -> &Target {
        &self.target
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

    /// Lets a replica run, and who shares memory with it as far as needed.
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

/// The programs that a process executes one after the other, from this one on.
fn images(world: &World<'_>, first: &DomainEntry) -> Vec<DomainId> {
    let mut images: Vec<&DomainEntry> =
        world.domains().filter(|entry| entry.pid == first.pid && entry.seq >= first.seq).collect();
    images.sort_by_key(|entry| entry.seq);
    // A number may come again for another process.
    let is_next = |entry: &&&DomainEntry| entry.domain == first.domain || !entry.base.is_copy();
    images.iter().filter(is_next).map(|entry| entry.domain).collect()
}

/// A replica behind the first event of an image, of which a checkpoint is kept.
fn begin_image<'t>(
    host: &mut Solo<'t>,
    history: &mut History<'t>,
    images: &[DomainId],
    image: usize,
) -> Result<(Live<'t>, EventSeq), Halt> {
    let domain = images.get(image).copied().unwrap_or(DomainId(0));
    let mut replica = host.begin(domain)?;
    if let Some(core) = replica.own_core() {
        balance::pin(Tid(0), core);
    }
    replica.attend();
    let each = Limit { each_event: true, ..Limit::default() };
    let stop = host.advance(&mut replica, &each, &mut |_, _| {})?;
    let Stop::Event(event) = stop else {
        return Err(Halt::Cut(format!("the program of domain {domain} does not begin ({stop:?})")));
    };
    let company = std::mem::take(&mut host.company);
    let mut live = Live::new(replica, company, image);
    if let Some(mark) = Mark::of(&mut live, Position::at(event))? {
        history.add(mark);
    }
    Ok((live, event))
}

/// Where this processor keeps vector registers.
pub(crate) fn offsets() -> Offsets {
    let offset = |component: u32, default: usize| {
        let [_, ebx, _, _] = bis_tracee::cpu::component(component);
        if ebx == 0 { default } else { usize::try_from(ebx).unwrap_or(default) }
    };
    let default = Offsets::default();
    Offsets {
        ymm_high: offset(2, default.ymm_high),
        opmask: offset(5, default.opmask),
        zmm_high: offset(6, default.zmm_high),
        zmm_16_31: offset(7, default.zmm_16_31),
        pkru: offset(9, default.pkru),
    }
}

/// What ends a task for good, of an event that does.
fn end_of(kind: &EventKind) -> Option<TaskEnd> {
    match kind {
        EventKind::TaskExit { status, .. } => Some(*status),
        _ => None,
    }
}

/// An error that is not of the program's making.
fn unexpected(stop: &Stop) -> Trouble {
    Trouble::Halt(Halt::Failed(ReplayError::Machine(format!(
        "a replica has stopped where it should not: {stop:?}"
    ))))
}
