//! Which task traces which, and where a tracee stands: what tracers and tracees, which have different
//! supervisors, have to know of each other.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::{
    event::MemWrite,
    types::{Addr, DomainId, Registers, Signal, Tid},
};
use bis_tracee::debug::{self, Watch};

/// As a tracee goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    #[default]
    Cont,
    /// To the entry or exit of a call.
    Syscall,
    /// For one instruction.
    Step,
    /// To the entry of a call, which is not made (PTRACE_SYSEMU).
    Emulate,
    /// To the entry of a call, which is not made, or for one instruction.
    EmulateStep,
    /// Not at all, until its process goes on.
    Listen,
    /// For ever: nobody traces it any more.
    Detached,
}

impl Mode {
    /// How a tracee goes on whose tracer makes this request. None: it does not go on by that, or not by that
    /// alone (PTRACE_LISTEN).
    pub fn of_request(request: u32) -> Option<Mode> {
        Some(match request {
            libc::PTRACE_CONT => Mode::Cont,
            libc::PTRACE_SYSCALL => Mode::Syscall,
            libc::PTRACE_SINGLESTEP => Mode::Step,
            libc::PTRACE_SYSEMU => Mode::Emulate,
            libc::PTRACE_SYSEMU_SINGLESTEP => Mode::EmulateStep,
            libc::PTRACE_DETACH => Mode::Detached,
            _ => return None,
        })
    }

    /// Is the tracee to stop behind an instruction?
    pub fn is_step(self) -> bool {
        matches!(self, Mode::Step | Mode::EmulateStep)
    }

    /// Is a call that it comes to left to its tracer?
    pub fn emulates(self) -> bool {
        matches!(self, Mode::Emulate | Mode::EmulateStep)
    }
}

/// At what of a tracee its tracer stops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// In front of a call. One that is emulated is not made, whatever its tracer does.
    Entry { nr: u64, args: [u64; 6], is_emulated: bool },
    /// Behind a call.
    Exit { nr: u64 },
    /// At a signal that it is about to get.
    Signal,
    /// Its process was stopped.
    Group,
    /// Something else that the tracer wants to hear of (PTRACE_EVENT_*).
    Event,
    /// Such an event in the middle of a call: a birth, an exec.
    Within { nr: u64 },
}

/// What is to be told of a tracee once what it does is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// The event of this number, and its message.
    Event(i32, u64),
    /// One in the middle of the call of the second number.
    Within(i32, u64, u64),
    /// The call of this number has come back.
    Exit(u64),
    /// One instruction was executed, or a program.
    Trap,
    /// It stands in front of a signal's handler, and was to make one step.
    Called,
    /// It has begun, traced by somebody who knows nothing of PTRACE_SEIZE.
    Begun,
}

/// The bits of DR6 that are always set, or, those of them that are clear, say something by that.
pub const STATUS_RESERVED: u64 = 0xffff_0ff0;

/// The bit of DR6 for the trap behind one instruction (BS).
pub const STATUS_STEP: u64 = 0x4000;

/// The debug registers that a tracer has set in a tracee.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DebugState {
    pub addrs: [u64; debug::COUNT],
    /// What the last debug exception was: DR6, without the bits that are always set there.
    pub status: u64,
    /// DR7.
    pub control: u64,
    /// What they watch.
    pub watches: [Option<Watch>; debug::COUNT],
    /// The tracee has touched what is watched, and its tracer has not heard of it yet.
    pub is_due: bool,
}

impl DebugState {
    pub fn is_used(&self) -> bool {
        self.watches.iter().any(Option::is_some)
    }

    /// These addresses and this control instead. False: they are not valid.
    pub fn set(&mut self, addrs: [u64; debug::COUNT], control: u64) -> bool {
        let watches = Watch::of_control(addrs, control);
        if let Some(watches) = watches {
            *self = DebugState { addrs, control, watches, ..*self };
        }
        watches.is_some()
    }
}

/// A tracee that holds, as its tracer sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Stop {
    pub kind: Kind,
    /// What a wait tells of it.
    pub status: i32,
    pub is_waited: bool,
    pub message: u64,
    pub regs: Registers,
    pub xstate: Vec<u8>,
    pub sigmask: u64,
    pub siginfo: [u8; 128],
    /// The descriptors of thread-local storage that 32-bit programs have.
    pub segments: Vec<[u8; 16]>,
    /// What the tracer has changed.
    pub change: Change,
}

/// What a tracer has changed in a tracee, beside its memory.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Change {
    pub regs: bool,
    pub xstate: bool,
    pub siginfo: bool,
    pub segments: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum State {
    Runs,
    Holds(Box<Stop>),
    /// Its tracer lets it go on, and its supervisor has not heard of it yet.
    Released(Box<Stop>, Option<Signal>),
    /// With this status, which nobody has waited for.
    Ended(i32),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Tracee {
    /// The tracing process.
    pub tracer: Tid,
    /// The process of the tracee.
    pub pid: Tid,
    /// The kernel tells the tracer of its end: it is the tracer's child.
    pub is_child: bool,
    pub domain: DomainId,
    pub is_seized: bool,
    /// PTRACE_O_*.
    pub options: u64,
    pub mode: Mode,
    pub state: State,
    pub due: VecDeque<Due>,
    /// Where it stood, and where that is in the program's own text, when it went on for one instruction.
    pub stepped_from: Option<(Addr, Addr)>,
    /// It is to stop wherever it is (PTRACE_INTERRUPT).
    pub is_asked: bool,
    /// Its tracer has been told that its process has stopped, and no signal has stopped that anew since.
    pub is_stop_told: bool,
    /// The program counter and the stack pointer at the entry that it was last held at.
    pub entered: Option<(u64, u64)>,
    /// Its call, which may be made again, was told to have come back.
    pub is_exit_told: bool,
    /// It goes on by one instruction from behind a call that was not made.
    pub is_behind_skipped: bool,
    /// Its tracer has been asked about the call that it stands in front of (`entered`), because a filter
    /// wants that.
    pub is_asked_by_filter: bool,
    pub debug: DebugState,
    /// It has another tracer already, and goes on from the stop in which the former one has let it go for
    /// ever.
    pub was_left: bool,
}

impl Tracee {
    pub fn new(tracer: Tid, pid: Tid, domain: DomainId) -> Tracee {
        Tracee {
            tracer,
            pid,
            is_child: false,
            domain,
            is_seized: false,
            options: 0,
            mode: Mode::Cont,
            state: State::Runs,
            due: VecDeque::new(),
            stepped_from: None,
            is_asked: false,
            is_stop_told: false,
            entered: None,
            is_exit_told: false,
            is_behind_skipped: false,
            is_asked_by_filter: false,
            debug: DebugState::default(),
            was_left: false,
        }
    }

    pub fn wants(&self, option: i32) -> bool {
        self.options & u64::from(option.cast_unsigned()) != 0
    }

    /// Is this process its tracer, and has not let it go for ever?
    pub fn is_traced_by(&self, tracer: Tid) -> bool {
        self.tracer == tracer && self.mode != Mode::Detached
    }

    /// The stop in which it holds.
    pub fn stop(&mut self) -> Option<&mut Stop> {
        match &mut self.state {
            State::Holds(stop) => Some(stop),
            _ => None,
        }
    }

    /// What a wait has to tell of it; `keeps` leaves it to be told again.
    fn report(&mut self, keeps: bool) -> Option<i32> {
        match &mut self.state {
            State::Holds(stop) if !stop.is_waited => {
                stop.is_waited = !keeps;
                Some(stop.status)
            }
            State::Ended(status) => Some(*status),
            _ => None,
        }
    }

    fn has_report(&self) -> bool {
        match &self.state {
            State::Holds(stop) => !stop.is_waited,
            State::Ended(_) => true,
            _ => false,
        }
    }
}

/// All tracees of the recording, by their ids.
#[derive(Debug, Default)]
pub struct Books {
    tracees: Mutex<BTreeMap<Tid, Tracee>>,
    /// What tracers have written to the memory of domains, and no event says yet: the next of their tracees
    /// that goes on has one.
    writes: Mutex<HashMap<DomainId, Vec<MemWrite>>>,
    is_used: AtomicBool,
}

impl Books {
    /// Does a tracer of the program's let the task go on for one instruction?
    pub fn is_stepped(&self, tid: Tid) -> bool {
        self.is_used() && self.with_live(tid, |it| it.mode.is_step()) == Some(true)
    }

    /// Has a tracer of the program's asked the task to stop, wherever it is?
    pub fn is_asked(&self, tid: Tid) -> bool {
        self.with_live(tid, |it| it.is_asked) == Some(true)
    }

    /// A signal is about to stop this process.
    pub fn note_stop(&self, pid: Tid) {
        if self.is_used() {
            self.lock(|all| {
                all.values_mut().filter(|it| it.pid == pid).for_each(|it| it.is_stop_told = false)
            });
        }
    }

    /// Has its tracer let the task go on alone, while its process is stopped? Whatever stops it then, the
    /// kernel says that it has stopped with its process.
    pub fn runs_alone(&self, tid: Tid) -> bool {
        let runs = |it: &mut Tracee| it.is_stop_told && !it.is_asked && it.mode != Mode::Listen;
        self.is_used() && self.with_live(tid, |it| it.state == State::Runs && runs(it)) == Some(true)
    }

    /// Does a tracer of the program's have it stopped where it touches some data?
    pub fn is_watched(&self, tid: Tid) -> bool {
        self.with_live(tid, |it| it.debug.is_used()) == Some(true)
    }

    /// Does a tracer of the program's have it stopped?
    pub fn is_stopped(&self, tid: Tid) -> bool {
        self.with_live(tid, |it| it.stop().is_some() || it.mode == Mode::Listen) == Some(true)
    }

    /// Is the tracer to hear that the tracee has touched what is watched? It does now.
    pub fn take_touch(&self, tid: Tid) -> bool {
        self.with_live(tid, |it| std::mem::take(&mut it.debug.is_due)) == Some(true)
    }

    /// Has there ever been a tracee? One load.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    fn lock<T>(&self, use_it: impl FnOnce(&mut BTreeMap<Tid, Tracee>) -> T) -> T {
        use_it(&mut self.tracees.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A task has a tracer from here on. False: it has one already.
    pub fn enter(&self, tid: Tid, tracee: Tracee) -> bool {
        self.is_used.store(true, Ordering::Release);
        self.lock(|tracees| {
            let is_over = |it: &Tracee| matches!(it.state, State::Ended(_)) || it.mode == Mode::Detached;
            let is_free = tracees.get(&tid).is_none_or(is_over);
            if is_free {
                // Its supervisor may not have heard yet that the former tracer has let it go.
                let former = tracees.remove(&tid).map(|it| it.state);
                let left = former.filter(|state| matches!(state, State::Released(..)));
                let was_left = left.is_some();
                let state = left.unwrap_or_else(|| tracee.state.clone());
                tracees.insert(tid, Tracee { state, was_left, ..tracee });
            }
            is_free
        })
    }

    /// The tracer of a task lets it go on. The domain whose supervisor is to hear of that; none: it does not
    /// hold. One that does not, and is let go for ever, is forgotten.
    pub fn let_go(&self, tid: Tid, mode: Mode, signal: Option<Signal>) -> Option<DomainId> {
        self.lock(|tracees| {
            let it = tracees.get_mut(&tid)?;
            it.mode = mode;
            it.state = match std::mem::replace(&mut it.state, State::Runs) {
                State::Holds(stop) => State::Released(stop, signal),
                other => other,
            };
            let domain = matches!(it.state, State::Released(..)).then_some(it.domain);
            if domain.is_none() && mode == Mode::Detached {
                tracees.remove(&tid);
            }
            domain
        })
    }

    /// The supervisor of a tracee that was let go on hears of it: from what stop, with what signal, and how
    /// it goes on. A task that is let go for ever is forgotten, unless it has another tracer by now.
    pub fn take_released(&self, tid: Tid) -> Option<(Box<Stop>, Option<Signal>, Mode)> {
        self.lock(|tracees| {
            let it = tracees.get_mut(&tid)?;
            let (stop, signal) = match std::mem::replace(&mut it.state, State::Runs) {
                State::Released(stop, signal) => (stop, signal),
                other => {
                    it.state = other;
                    return None;
                }
            };
            let mode = if std::mem::take(&mut it.was_left) { Mode::Detached } else { it.mode };
            if it.mode == Mode::Detached {
                tracees.remove(&tid);
            }
            Some((stop, signal, mode))
        })
    }

    /// A task has ended with this status. The tracer that is to hear of it from us; none: it has none, or
    /// hears of it from the kernel, and then it is forgotten.
    pub fn end(&self, tid: Tid, status: i32) -> Option<Tid> {
        self.lock(|tracees| {
            let it = tracees.get_mut(&tid).filter(|it| !matches!(it.state, State::Ended(_)))?;
            it.state = State::Ended(status);
            let tracer = (!it.is_child && it.mode != Mode::Detached).then_some(it.tracer);
            if tracer.is_none() {
                tracees.remove(&tid);
            }
            tracer
        })
    }

    /// What is known of a tracee. None: nobody traces the task.
    pub fn with<T>(&self, tid: Tid, use_it: impl FnOnce(&mut Tracee) -> T) -> Option<T> {
        if !self.is_used() {
            return None;
        }
        self.lock(|tracees| tracees.get_mut(&tid).map(use_it))
    }

    /// As [`Books::with`], for a tracee that has not ended.
    pub fn with_live<T>(&self, tid: Tid, use_it: impl FnOnce(&mut Tracee) -> T) -> Option<T> {
        self.with(tid, |it| (!matches!(it.state, State::Ended(_))).then(|| use_it(it))).flatten()
    }

    pub fn is_tracee(&self, tid: Tid) -> bool {
        self.with_live(tid, |_| ()).is_some()
    }

    /// Does anybody trace a task of this process, or does this process trace?
    pub fn concerns(&self, pid: Tid) -> bool {
        self.is_used() && self.lock(|all| all.values().any(|it| it.pid == pid || it.tracer == pid))
    }

    fn with_writes<T>(&self, use_it: impl FnOnce(&mut HashMap<DomainId, Vec<MemWrite>>) -> T) -> T {
        use_it(&mut self.writes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A tracer writes to the memory of a domain.
    pub fn write(&self, domain: DomainId, piece: MemWrite) {
        self.with_writes(|writes| writes.entry(domain).or_default().push(piece));
    }

    /// What tracers have written there, in order, for the event that says so.
    pub fn take_writes(&self, domain: DomainId) -> Vec<MemWrite> {
        self.with_writes(|writes| writes.remove(&domain).unwrap_or_default())
    }

    /// What is at `addr` of a domain's memory, which holds `bytes` there, with all that was written.
    pub fn overlay(&self, domain: DomainId, addr: Addr, bytes: &mut [u8]) {
        self.with_writes(|writes| {
            let pieces = writes.get(&domain).into_iter().flatten();
            for (at, byte) in pieces.flat_map(|piece| piece.addr.and_behind(1).zip(&piece.data)) {
                let offset = usize::try_from(at.wrapping_since(addr)).unwrap_or(usize::MAX);
                if let Some(place) = bytes.get_mut(offset) {
                    *place = *byte;
                }
            }
        });
    }

    /// The kernel has called a handler: a step ends in front of its first instruction.
    pub fn note_call_of_handler(&self, tid: Tid) {
        self.with_live(tid, |it| {
            if it.mode.is_step() {
                it.due.push_back(Due::Called);
            }
        });
    }

    /// Do all of these tasks hold?
    pub fn hold_all(&self, tids: &[Tid]) -> bool {
        let holds = |tid: &Tid| self.with(*tid, |it| matches!(it.state, State::Holds(_))) == Some(true);
        tids.iter().all(holds)
    }

    pub fn remove(&self, tid: Tid) {
        self.lock(|tracees| tracees.remove(&tid));
    }

    /// A thread that execs goes on under its process's id, in another domain.
    pub fn execed(&self, former: Tid, tid: Tid, domain: DomainId) {
        self.lock(|tracees| {
            if let Some(mut tracee) = tracees.remove(&former) {
                tracee.domain = domain;
                (tracee.entered, tracee.is_asked_by_filter) = (None, false);
                tracee.debug = DebugState::default();
                tracees.insert(tid, tracee);
            }
        });
    }

    /// The tracees of a process.
    pub fn of_tracer(&self, pid: Tid) -> Vec<Tid> {
        if !self.is_used() {
            return Vec::new();
        }
        let of = |tracees: &mut BTreeMap<Tid, Tracee>| {
            tracees.iter().filter(|(_, it)| it.tracer == pid).map(|(tid, _)| *tid).collect()
        };
        self.lock(of)
    }

    /// What a tracer's wait for those whom `is_meant` names has to tell: of whom, and what. One that has
    /// ended is forgotten then.
    pub fn take_report(
        &self,
        tracer: Tid,
        keeps: bool,
        is_meant: impl Fn(Tid, &Tracee) -> bool,
    ) -> Option<(Tid, i32)> {
        self.lock(|tracees| {
            let found = tracees.iter_mut().find_map(|(tid, it)| {
                let is_it = it.tracer == tracer && is_meant(*tid, it);
                is_it.then(|| it.report(keeps)).flatten().map(|status| (*tid, status))
            })?;
            if !keeps && tracees.get(&found.0).is_some_and(|it| matches!(it.state, State::Ended(_))) {
                tracees.remove(&found.0);
            }
            Some(found)
        })
    }

    pub fn has_report(&self, tracer: Tid, is_meant: impl Fn(Tid, &Tracee) -> bool) -> bool {
        self.lock(|all| {
            all.iter().any(|(tid, it)| it.tracer == tracer && is_meant(*tid, it) && it.has_report())
        })
    }

    /// Is there anybody whom such a wait of the tracer could tell of?
    pub fn has_tracee(&self, tracer: Tid, is_meant: impl Fn(Tid, &Tracee) -> bool) -> bool {
        self.is_used()
            && self.lock(|all| all.iter().any(|(tid, it)| it.is_traced_by(tracer) && is_meant(*tid, it)))
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    const TRACER: Tid = Tid(1);
    const TRACEE: Tid = Tid(2);

    pub fn holds(status: i32) -> State {
        State::Holds(Box::new(Stop {
            kind: Kind::Signal,
            status,
            is_waited: false,
            message: 0,
            regs: Registers::default(),
            xstate: Vec::new(),
            sigmask: 0,
            siginfo: [0; 128],
            segments: Vec::new(),
            change: Change::default(),
        }))
    }

    #[test]
    fn a_request_says_how_a_tracee_goes_on() {
        let of = |requests: [u32; 3]| requests.map(Mode::of_request);
        let asked = of([libc::PTRACE_CONT, libc::PTRACE_SYSCALL, libc::PTRACE_SINGLESTEP]);
        assert_eq!(asked, [Some(Mode::Cont), Some(Mode::Syscall), Some(Mode::Step)]);
        let asked = of([libc::PTRACE_SYSEMU, libc::PTRACE_SYSEMU_SINGLESTEP, libc::PTRACE_DETACH]);
        assert_eq!(asked, [Some(Mode::Emulate), Some(Mode::EmulateStep), Some(Mode::Detached)]);
        // A tracee that listens stays where it is.
        assert_eq!(of([libc::PTRACE_LISTEN, libc::PTRACE_GETREGS, libc::PTRACE_SEIZE]), [None; 3]);
    }

    #[test]
    fn a_stop_is_told_once_and_an_end_is_the_last_that_is_told() {
        let books = Books::default();
        assert!(!books.is_used() && !books.is_tracee(TRACEE));
        assert!(books.enter(TRACEE, Tracee::new(TRACER, TRACEE, DomainId(1))));
        assert!(!books.enter(TRACEE, Tracee::new(Tid(3), TRACEE, DomainId(1))));
        assert_eq!(books.take_report(TRACER, false, |_, _| true), None);
        books.with(TRACEE, |it| it.state = holds(7));
        assert_eq!(books.take_report(Tid(3), false, |_, _| true), None);
        assert_eq!(books.take_report(TRACER, true, |_, _| true), Some((TRACEE, 7)));
        assert_eq!(books.take_report(TRACER, false, |_, _| true), Some((TRACEE, 7)));
        assert!(!books.has_report(TRACER, |_, _| true) && books.has_tracee(TRACER, |_, _| true));
        books.with(TRACEE, |it| it.state = State::Ended(9));
        assert!(!books.is_tracee(TRACEE));
        assert_eq!(books.take_report(TRACER, false, |tid, _| tid != TRACEE), None);
        assert_eq!(books.take_report(TRACER, false, |_, _| true), Some((TRACEE, 9)));
        assert!(!books.has_tracee(TRACER, |_, _| true));
    }

    #[test]
    fn who_is_traced_anew_as_it_is_let_go_keeps_the_new_tracer() {
        let books = Books::default();
        let seized = || Tracee::new(TRACER, TRACEE, DomainId(1));
        assert!(books.enter(TRACEE, seized()));
        books.with(TRACEE, |it| it.state = holds(7));
        assert_eq!(books.let_go(TRACEE, Mode::Detached, None), Some(DomainId(1)));
        // The new tracer comes before the supervisor hears of the former one.
        assert!(books.enter(TRACEE, Tracee::new(Tid(3), TRACEE, DomainId(1))));
        let released = books.take_released(TRACEE).expect("it was let go");
        assert_eq!((released.0.status, released.1, released.2), (7, None, Mode::Detached));
        assert!(books.is_tracee(TRACEE) && books.take_released(TRACEE).is_none());
        // And after it.
        books.with(TRACEE, |it| it.state = holds(8));
        assert_eq!(books.let_go(TRACEE, Mode::Detached, Some(Signal(9))), Some(DomainId(1)));
        let (_, signal, mode) = books.take_released(TRACEE).expect("it was let go");
        assert_eq!((signal, mode), (Some(Signal(9)), Mode::Detached));
        assert!(!books.is_tracee(TRACEE) && books.enter(TRACEE, seized()));
    }

    #[test]
    fn who_is_let_go_while_it_runs_is_forgotten_at_once() {
        let books = Books::default();
        assert!(books.enter(TRACEE, Tracee::new(TRACER, TRACEE, DomainId(1))));
        assert_eq!(books.let_go(TRACEE, Mode::Detached, None), None);
        assert!(!books.is_tracee(TRACEE));
    }

    #[test]
    fn an_end_is_told_to_a_tracer_that_does_not_hear_of_it_from_the_kernel() {
        let books = Books::default();
        let child = Tracee { is_child: true, ..Tracee::new(TRACER, TRACEE, DomainId(1)) };
        assert!(books.enter(TRACEE, child.clone()));
        assert_eq!(books.end(TRACEE, 9), None);
        assert!(!books.has_report(TRACER, |_, _| true));
        assert!(books.enter(TRACEE, Tracee { is_child: false, ..child }));
        assert_eq!((books.end(TRACEE, 9), books.end(TRACEE, 9)), (Some(TRACER), None));
        assert_eq!(books.take_report(TRACER, false, |_, _| true), Some((TRACEE, 9)));
    }

    #[test]
    fn a_tracee_that_execs_is_the_same_one() {
        let books = Books::default();
        books.enter(Tid(5), Tracee { options: 3, ..Tracee::new(TRACER, TRACEE, DomainId(1)) });
        books.execed(Tid(5), TRACEE, DomainId(2));
        assert!(!books.is_tracee(Tid(5)));
        assert_eq!(books.with(TRACEE, |it| (it.options, it.domain)), Some((3, DomainId(2))));
    }
}
