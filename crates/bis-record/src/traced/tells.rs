//! What a tracer is told where its tracee stops, and what of the tracee changes by that. It is decided by
//! the tracee as the books have it, and by what its supervisor has seen of it; `told.rs` asks, and carries it
//! out.

use std::mem::take;

use bis_trace::types::Signal;

use super::books::{Kind, Mode, STATUS_STEP, Stop, Tracee};

/// The event of a stop that a tracer has asked for, and of one of a whole process.
pub(super) const EVENT_STOP: i32 = libc::PTRACE_EVENT_STOP;
/// What tells stops at calls from other traps, for a tracer that wants it.
const SYSGOOD: i32 = 0x80;
/// The messages of stops at calls (PTRACE_EVENTMSG_SYSCALL_*).
const IN_FRONT: u64 = 1;
const BEHIND: u64 = 2;

/// The wait status of a stop.
fn status_of(signal: i32, event: i32) -> i32 {
    event << 16 | signal << 8 | 0x7f
}

/// What a tracer is told of a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tell {
    pub kind: Kind,
    /// What a wait tells of it.
    pub status: i32,
    pub message: u64,
}

impl Tell {
    /// Of this event (PTRACE_EVENT_*).
    pub fn event(event: i32, message: u64) -> Tell {
        Tell { kind: Kind::Event, status: status_of(libc::SIGTRAP, event), message }
    }

    /// Of such an event in the middle of the call of this number.
    pub fn within(nr: u64, event: i32, message: u64) -> Tell {
        Tell { kind: Kind::Within { nr }, ..Tell::event(event, message) }
    }

    pub fn signal(signal: Signal) -> Tell {
        Tell { kind: Kind::Signal, status: status_of(signal.0.into(), 0), message: 0 }
    }

    /// This signal has stopped the process of the tracee.
    pub fn group(signal: Signal, is_seized: bool) -> Tell {
        let event = if is_seized { EVENT_STOP } else { 0 };
        Tell { kind: Kind::Group, status: status_of(signal.0.into(), event), message: 0 }
    }
}

/// What becomes of a call about which a filter wants the tracer to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The task holds in front of it.
    Holds,
    /// It is what the tracer has made of it.
    Answered,
    /// There is nobody to be asked.
    Nobody,
}

/// A tracee that stands in front of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub nr: u64,
    pub args: [u64; 6],
    /// The program counter and the stack pointer.
    pub here: (u64, u64),
    /// The call was begun already, and the kernel makes it again.
    pub is_again: bool,
    /// The tracee is about to stop with its process.
    pub is_halted: bool,
}

impl Front {
    fn tell(&self, is_emulated: bool, status: i32, message: u64) -> Tell {
        let Front { nr, args, .. } = *self;
        Tell { kind: Kind::Entry { nr, args, is_emulated }, status, message }
    }

    /// A filter of the program's wants the tracer to hear of the call, and of this number.
    pub fn filtered(&self, data: u32) -> Tell {
        self.tell(false, status_of(libc::SIGTRAP, libc::PTRACE_EVENT_SECCOMP), data.into())
    }
}

/// What a SIGTRAP means for a tracee that was to execute one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepTrap {
    /// It has executed one.
    Made,
    /// It stands behind a call that was not made: that was the instruction.
    Skipped,
    /// So it does, but its tracer, who emulates calls, has heard of the call already: the step is the next
    /// instruction's.
    GoesOn,
    /// Nothing: it comes from elsewhere.
    Another,
}

impl StepTrap {
    /// `skipped`: it went on from behind a call that was not made, in this mode.
    pub fn of(code: i32, skipped: Option<Mode>) -> StepTrap {
        match (code, skipped) {
            (libc::TRAP_TRACE, _) => StepTrap::Made,
            (libc::TRAP_BRKPT, Some(Mode::EmulateStep)) => StepTrap::GoesOn,
            (libc::TRAP_BRKPT, Some(_)) => StepTrap::Skipped,
            _ => StepTrap::Another,
        }
    }
}

impl Tracee {
    fn call_status(&self) -> i32 {
        let good = if self.wants(libc::PTRACE_O_TRACESYSGOOD) { SYSGOOD } else { 0 };
        status_of(libc::SIGTRAP | good, 0)
    }

    /// What is told behind the call of this number.
    pub(super) fn tell_return(&self, nr: u64) -> Tell {
        Tell { kind: Kind::Exit { nr }, status: self.call_status(), message: BEHIND }
    }

    /// The tracee stands in front of a call. It may come to the same one more than once before that is made;
    /// its tracer hears of it once.
    pub(super) fn tell_front(&mut self, front: &Front) -> Option<Tell> {
        // One that is about to stop with its process does what it was asked for by that.
        if !front.is_halted && take(&mut self.is_asked) {
            return Some(front.tell(false, status_of(libc::SIGTRAP, EVENT_STOP), IN_FRONT));
        }
        let here = Some(front.here);
        let is_known = self.entered == here && !self.is_exit_told;
        let is_wanted = self.mode == Mode::Syscall || self.mode.emulates();
        if !is_wanted || is_known || front.is_again && !self.is_exit_told {
            return None;
        }
        (self.entered, self.is_exit_told) = (here, false);
        Some(front.tell(self.mode.emulates(), self.call_status(), IN_FRONT))
    }

    /// A filter wants the tracer to be asked about the call in front of which the tracee stands, here.
    pub(super) fn ask(&mut self, here: (u64, u64)) -> Asked {
        if !self.wants(libc::PTRACE_O_TRACESECCOMP) {
            return Asked::Nobody;
        }
        // The task may come here more than once before its call is made: memory is mapped for that.
        if self.is_asked_by_filter && self.entered == Some(here) {
            return Asked::Answered;
        }
        (self.entered, self.is_exit_told, self.is_asked_by_filter) = (Some(here), false, true);
        Asked::Holds
    }

    /// Does its tracer, who has heard of the call's entry, wait to hear that it comes back?
    fn is_return_awaited(&self) -> bool {
        self.mode == Mode::Syscall && self.entered.is_some() && !self.is_exit_told
    }

    /// The tracee stops in the middle of the call of this number, which the kernel makes again later: the
    /// tracer is told that it comes back, and of its entry anew.
    pub(super) fn tell_cut(&mut self, nr: u64) -> Option<Tell> {
        let is_awaited = self.is_return_awaited();
        self.is_exit_told = true;
        is_awaited.then(|| self.tell_return(nr))
    }

    /// The tracee has stopped for no signal: because it was asked to, or because it listens, and something
    /// has changed.
    pub(super) fn tell_trap(&mut self) -> Option<Tell> {
        let listens = self.is_seized && self.mode == Mode::Listen;
        (take(&mut self.is_asked) || listens).then_some(Tell::event(EVENT_STOP, 0))
    }

    /// The process of the tracee has stopped. A tracer whose tracee listens has heard of that, and hears of
    /// it again if it asks.
    pub(super) fn is_stop_news(&self) -> bool {
        self.mode != Mode::Listen || self.is_asked
    }

    /// The tracee is about to exit with this status.
    pub(super) fn tell_exit(&self, wait_status: i32) -> Option<Tell> {
        let message = u64::try_from(wait_status).unwrap_or(0);
        self.wants(libc::PTRACE_O_TRACEEXIT).then_some(Tell::event(libc::PTRACE_EVENT_EXIT, message))
    }

    /// The tracee is about to get a signal, in the call of this number if it is in one. That comes back
    /// first.
    pub(super) fn tell_signal(&mut self, signal: Signal, nr: Option<u64>) -> Tell {
        match nr.filter(|_| self.is_return_awaited()) {
            Some(nr) => {
                self.is_exit_told = true;
                self.tell_return(nr)
            }
            None => Tell::signal(signal),
        }
    }

    /// The tracee has executed the instruction that it was to: its debug registers say so.
    pub(super) fn note_step(&mut self) {
        let touched = if self.debug.is_due { self.debug.status } else { 0 };
        self.debug.status = touched | STATUS_STEP;
    }
}

impl Stop {
    /// Is it one for which the tracer has asked, or one of a whole process?
    pub(super) fn is_event_stop(&self) -> bool {
        self.status >> 16 == EVENT_STOP
    }

    /// Is the report of the tracee, which goes on from here, decided by the signal that its tracer gives it?
    /// Behind its call, it has not come to the signal yet that has interrupted it; and the entry of a call
    /// that is made again is still to be told.
    pub(super) fn is_decided(&self) -> bool {
        let is_asked = matches!(self.kind, Kind::Entry { .. }) && self.is_event_stop();
        !is_asked && !matches!(self.kind, Kind::Exit { .. })
    }

    /// Does the tracee, which goes on from here in this mode, leave its process stopped and run alone?
    pub(super) fn leaves_group(&self, mode: Mode) -> bool {
        self.kind == Kind::Group && mode != Mode::Listen && mode != Mode::Detached
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{DomainId, Registers, Tid};
    use proptest::prelude::*;

    use super::*;

    const HERE: (u64, u64) = (0x1000, 0x7000);
    const FRONT: Front =
        Front { nr: 39, args: [1, 2, 3, 4, 5, 6], here: HERE, is_again: false, is_halted: false };
    const TRAP: i32 = 0x057f;
    const GOOD: i32 = 0x857f;
    const STOPPED: i32 = 128 << 16 | TRAP;

    fn tracee(mode: Mode) -> Tracee {
        Tracee { mode, ..Tracee::new(Tid(1), Tid(2), DomainId(1)) }
    }

    fn options(options: i32) -> u64 {
        u64::from(options.cast_unsigned())
    }

    fn entry(is_emulated: bool) -> Kind {
        Kind::Entry { nr: FRONT.nr, args: FRONT.args, is_emulated }
    }

    fn stop(tell: Tell) -> Stop {
        Stop {
            kind: tell.kind,
            status: tell.status,
            is_waited: false,
            message: tell.message,
            regs: Registers::default(),
            xstate: Vec::new(),
            sigmask: 0,
            siginfo: [0; 128],
            segments: Vec::new(),
            change: super::super::books::Change::default(),
        }
    }

    #[test]
    fn a_call_is_told_to_a_tracer_that_hears_of_calls_once() {
        for mode in [Mode::Cont, Mode::Step, Mode::Listen, Mode::Detached] {
            assert_eq!(tracee(mode).tell_front(&FRONT), None, "{mode:?}");
        }
        let mut it = tracee(Mode::Syscall);
        let told = Tell { kind: entry(false), status: TRAP, message: 1 };
        assert_eq!(it.tell_front(&FRONT), Some(told));
        assert_eq!(it.tell_front(&FRONT), None, "it comes here again before the call is made");
        let elsewhere = Front { here: (HERE.0, HERE.1 - 16), ..FRONT };
        assert_eq!(it.tell_front(&elsewhere), Some(told), "a handler makes a call by the same instruction");
    }

    #[test]
    fn who_emulates_calls_is_told_that_the_call_is_not_made() {
        for mode in [Mode::Emulate, Mode::EmulateStep] {
            assert_eq!(tracee(mode).tell_front(&FRONT).map(|it| it.kind), Some(entry(true)));
        }
    }

    #[test]
    fn stops_at_calls_are_told_from_traps_where_that_is_wanted() {
        let good = || Tracee { options: options(libc::PTRACE_O_TRACESYSGOOD), ..tracee(Mode::Syscall) };
        assert_eq!(good().tell_front(&FRONT).map(|it| it.status), Some(GOOD));
        assert_eq!(good().tell_return(39), Tell { kind: Kind::Exit { nr: 39 }, status: GOOD, message: 2 });
        let mut asked = Tracee { is_asked: true, ..good() };
        assert_eq!(asked.tell_front(&FRONT).map(|it| it.status), Some(STOPPED), "that is no stop at a call");
    }

    #[test]
    fn a_call_that_comes_back_to_be_made_again_is_told_twice() {
        let mut it = tracee(Mode::Syscall);
        assert!(it.tell_front(&FRONT).is_some());
        let again = Front { is_again: true, ..FRONT };
        assert_eq!(it.tell_front(&again), None, "it has not come back");
        assert_eq!(it.tell_cut(39).map(|it| it.kind), Some(Kind::Exit { nr: 39 }));
        assert_eq!(it.tell_cut(39), None, "it has come back already");
        assert_eq!(it.tell_front(&again).map(|it| it.kind), Some(entry(false)));
        assert_eq!(tracee(Mode::Syscall).tell_cut(39), None, "nobody has heard of its entry");
    }

    #[test]
    fn a_task_that_is_asked_to_stop_does_so_in_front_of_its_call_unless_its_process_stops_it() {
        let asked = || Tracee { is_asked: true, ..tracee(Mode::Cont) };
        let mut it = asked();
        assert_eq!(it.tell_front(&FRONT), Some(Tell { kind: entry(false), status: STOPPED, message: 1 }));
        assert!(!it.is_asked && it.entered.is_none(), "the entry is still to be told");
        let mut it = asked();
        assert_eq!(it.tell_front(&Front { is_halted: true, ..FRONT }), None);
        assert!(it.is_asked);
    }

    #[test]
    fn a_filters_question_is_asked_once_for_each_call() {
        let mut it = tracee(Mode::Cont);
        assert_eq!(it.ask(HERE), Asked::Nobody);
        it.options = options(libc::PTRACE_O_TRACESECCOMP);
        assert_eq!((it.ask(HERE), it.ask(HERE)), (Asked::Holds, Asked::Answered));
        assert_eq!(it.ask((HERE.0, HERE.1 - 16)), Asked::Holds);
        let told = FRONT.filtered(0xffff_0007);
        assert_eq!((told.status, told.message), (7 << 16 | TRAP, 0xffff_0007));
        it.mode = Mode::Syscall;
        assert_eq!(
            it.tell_front(&Front { here: (HERE.0, HERE.1 - 16), ..FRONT }),
            None,
            "it has heard of it"
        );
    }

    #[test]
    fn a_trap_is_told_where_it_was_asked_for_and_where_a_seized_task_listens() {
        assert_eq!(tracee(Mode::Cont).tell_trap(), None);
        let mut asked = Tracee { is_asked: true, ..tracee(Mode::Cont) };
        assert_eq!(asked.tell_trap(), Some(Tell { kind: Kind::Event, status: STOPPED, message: 0 }));
        assert_eq!(asked.tell_trap(), None);
        let listens = Tracee { is_seized: true, ..tracee(Mode::Listen) };
        assert!(listens.clone().tell_trap().is_some());
        assert_eq!(Tracee { is_seized: false, ..listens.clone() }.tell_trap(), None);
        assert_eq!(Tracee { mode: Mode::Cont, ..listens }.tell_trap(), None);
    }

    #[test]
    fn a_stop_of_the_process_is_told_again_only_to_a_tracer_that_asks() {
        assert!(tracee(Mode::Cont).is_stop_news() && !tracee(Mode::Listen).is_stop_news());
        assert!(Tracee { is_asked: true, ..tracee(Mode::Listen) }.is_stop_news());
        assert_eq!(Tell::group(Signal::STOP, true).status, 128 << 16 | 0x137f);
        assert_eq!(Tell::group(Signal::STOP, false).status, 0x137f);
    }

    #[test]
    fn an_exit_is_told_to_a_tracer_that_wants_it() {
        let mut it = tracee(Mode::Cont);
        assert_eq!(it.tell_exit(0x300), None);
        it.options = options(libc::PTRACE_O_TRACEEXIT);
        let told = Tell { kind: Kind::Event, status: 6 << 16 | TRAP, message: 0x300 };
        assert_eq!(it.tell_exit(0x300), Some(told));
    }

    #[test]
    fn a_signal_comes_behind_the_call_that_it_has_interrupted() {
        let mut it = tracee(Mode::Syscall);
        assert_eq!(it.tell_signal(Signal(10), Some(39)), Tell::signal(Signal(10)), "no entry was told");
        assert!(it.tell_front(&FRONT).is_some());
        assert_eq!(it.tell_signal(Signal(10), None), Tell::signal(Signal(10)));
        assert_eq!(it.tell_signal(Signal(10), Some(39)).kind, Kind::Exit { nr: 39 });
        assert_eq!(it.tell_signal(Signal(10), Some(39)), Tell::signal(Signal(10)));
        assert_eq!(Tell::signal(Signal(10)).status, 0x0a7f);
    }

    #[test]
    fn a_step_is_over_behind_an_instruction_and_behind_a_call_that_was_not_made() {
        assert_eq!(StepTrap::of(libc::TRAP_TRACE, None), StepTrap::Made);
        assert_eq!(StepTrap::of(libc::TRAP_TRACE, Some(Mode::EmulateStep)), StepTrap::Made);
        assert_eq!(StepTrap::of(libc::TRAP_BRKPT, None), StepTrap::Another, "a breakpoint of the tracer's");
        assert_eq!(StepTrap::of(libc::TRAP_BRKPT, Some(Mode::Step)), StepTrap::Skipped);
        assert_eq!(StepTrap::of(libc::TRAP_BRKPT, Some(Mode::EmulateStep)), StepTrap::GoesOn);
        assert_eq!(StepTrap::of(libc::TRAP_HWBKPT, Some(Mode::Step)), StepTrap::Another);
    }

    #[test]
    fn a_step_says_of_itself_and_of_what_it_has_touched() {
        let mut it = tracee(Mode::Step);
        it.debug.status = 1;
        it.note_step();
        assert_eq!(it.debug.status, STATUS_STEP, "the tracer has heard of that");
        (it.debug.status, it.debug.is_due) = (1, true);
        it.note_step();
        assert_eq!(it.debug.status, STATUS_STEP | 1);
    }

    #[test]
    fn the_tracers_signal_decides_about_a_signal_and_not_about_what_is_told_in_front_of_it() {
        let it = tracee(Mode::Syscall);
        assert!(stop(Tell::signal(Signal(10))).is_decided());
        assert!(!stop(it.tell_return(39)).is_decided());
        assert!(stop(FRONT.filtered(1)).is_decided());
        let asked = Tracee { is_asked: true, ..tracee(Mode::Cont) }.tell_front(&FRONT);
        assert!(!stop(asked.expect("it was asked")).is_decided());
        assert!(stop(Tell::event(EVENT_STOP, 0)).is_decided());
    }

    #[test]
    fn a_task_leaves_its_stopped_process_unless_it_listens_or_nobody_traces_it_any_more() {
        let group = stop(Tell::group(Signal::STOP, true));
        assert!(group.leaves_group(Mode::Cont) && group.leaves_group(Mode::Step));
        assert!(!group.leaves_group(Mode::Listen) && !group.leaves_group(Mode::Detached));
        assert!(!stop(Tell::signal(Signal::STOP)).leaves_group(Mode::Cont));
    }

    /// What may happen to a tracee in and around a call.
    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Front { at: u64, is_again: bool },
        Cut,
        Signal { in_call: bool },
        Asks,
        GoesOn(Mode),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        let modes = [Mode::Cont, Mode::Syscall, Mode::Step, Mode::Emulate, Mode::EmulateStep];
        prop_oneof![
            4 => (0..2_u64, any::<bool>()).prop_map(|(at, is_again)| Happens::Front { at, is_again }),
            2 => Just(Happens::Cut),
            2 => any::<bool>().prop_map(|in_call| Happens::Signal { in_call }),
            1 => Just(Happens::Asks),
            2 => prop::sample::select(modes.to_vec()).prop_map(Happens::GoesOn),
        ]
    }

    proptest! {
        /// Whatever comes: a call is told to have come back only after its entry was told, and once.
        #[test]
        fn each_return_that_is_told_has_an_entry_that_was_told(
            all in prop::collection::vec(happens(), 0..40),
        ) {
            let mut it = tracee(Mode::Syscall);
            let mut is_open = false;
            for what in all {
                let told = match what {
                    Happens::Front { at, is_again } => {
                        it.tell_front(&Front { here: (at, at), is_again, ..FRONT })
                    }
                    Happens::Cut => it.tell_cut(39),
                    Happens::Signal { in_call } => Some(it.tell_signal(Signal(10), in_call.then_some(39))),
                    Happens::Asks => {
                        it.is_asked = true;
                        None
                    }
                    Happens::GoesOn(mode) => {
                        it.mode = mode;
                        None
                    }
                };
                let Some(told) = told else { continue };
                match told.kind {
                    // A stop that was asked for tells of no entry.
                    Kind::Entry { .. } if told.status == STOPPED => {}
                    Kind::Entry { is_emulated, .. } => {
                        prop_assert_eq!(is_emulated, it.mode.emulates());
                        is_open = true;
                    }
                    Kind::Exit { .. } => {
                        prop_assert!(is_open && it.mode == Mode::Syscall);
                        is_open = false;
                    }
                    other => prop_assert_eq!(other, Kind::Signal),
                }
            }
        }
    }
}
