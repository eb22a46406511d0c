//! What a tracer is to hear of behind an event: it is kept with its tracee (`Tracee::due`) until that stands
//! there. What is kept, and what is told of it then, is decided here; `due.rs` sees when.

use bis_trace::types::{DomainId, Signal, Tid};

use super::{
    books::{Due, Mode, Tracee},
    tells::{EVENT_STOP, Tell},
};
use crate::calls::args::CLONE_VFORK;

const CLONE_UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
const CLONE_PTRACE: u64 = libc::CLONE_PTRACE as u64;
const CLONE_SIGNAL: u64 = libc::CSIGNAL as u64;
/// The signal of a child that was made by a fork.
const CHLD: u64 = libc::SIGCHLD as u64;

/// A task that a tracee has made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// The process of the new task, and its domain.
    pub pid: Tid,
    pub domain: DomainId,
    /// By the call of this number, with these flags.
    pub nr: u64,
    pub flags: u64,
}

impl Made {
    /// The event by which a tracer hears of it.
    fn event(&self) -> i32 {
        match self.flags {
            flags if flags & CLONE_VFORK != 0 => libc::PTRACE_EVENT_VFORK,
            flags if flags & CLONE_SIGNAL == CHLD => libc::PTRACE_EVENT_FORK,
            _ => libc::PTRACE_EVENT_CLONE,
        }
    }
}

impl Tracee {
    /// The tracee stands where its event has left it: the first of what is kept that its tracer still wants
    /// to hear of.
    pub(super) fn tell_next(&mut self) -> Option<Tell> {
        while let Some(due) = self.due.pop_front() {
            return Some(match due {
                Due::Event(event, message) => Tell::event(event, message),
                Due::Within(event, nr, message) => Tell::within(nr, event, message),
                Due::Exit(_) if self.mode != Mode::Syscall => continue,
                Due::Exit(nr) => self.tell_return(nr),
                Due::Trap => Tell::signal(Signal::TRAP),
                Due::Called => Tell::event(0, 0),
                Due::Begun => Tell::signal(Signal::STOP),
            });
        }
        self.debug.is_due.then_some(Tell::signal(Signal::TRAP))
    }

    /// The same, of a tracee in the middle of its vfork.
    pub(super) fn tell_in_vfork(&mut self) -> Option<Tell> {
        match self.due.pop_front() {
            Some(Due::Within(event, nr, message)) => Some(Tell::within(nr, event, message)),
            _ => None,
        }
    }

    /// The call of this number is over; of a vfork, its child goes on alone now (`child`, as the tracer calls
    /// it).
    pub(super) fn note_return(&mut self, nr: u64, child: Option<u64>) {
        if let Some(child) = child
            && self.wants(libc::PTRACE_O_TRACEVFORKDONE)
        {
            self.due.push_back(Due::Within(libc::PTRACE_EVENT_VFORK_DONE, nr, child));
        }
        // What it is told of in the call may change how it is to go on.
        if !self.is_exit_told {
            self.due.push_back(Due::Exit(nr));
        }
        self.note_instruction();
        (self.entered, self.is_exit_told, self.is_asked_by_filter) = (None, false, false);
    }

    /// The call at whose entry the tracee stood is not made.
    pub(super) fn note_skipped(&mut self) {
        self.due.extend((self.mode == Mode::Syscall).then_some(Due::Exit(u64::MAX)));
        self.is_behind_skipped = self.mode.is_step();
        (self.entered, self.is_asked_by_filter) = (None, false);
    }

    /// An instruction of the program is over.
    pub(super) fn note_instruction(&mut self) {
        if self.mode.is_step() {
            self.due.push_back(Due::Trap);
        }
    }

    /// The tracee has executed a program by the call of this number.
    pub(super) fn note_exec(&mut self, former: Tid, nr: u64) {
        let is_told = self.wants(libc::PTRACE_O_TRACEEXEC);
        if is_told {
            let message = u64::from(former.0.cast_unsigned());
            self.due.push_back(Due::Within(libc::PTRACE_EVENT_EXEC, nr, message));
        }
        self.due.push_back(Due::Exit(nr));
        // It is a signal, which comes behind the call.
        if !is_told && !self.is_seized {
            self.due.push_back(Due::Trap);
        }
    }

    /// The tracee has made a task. Does its tracer hear of that? And the new tracee, if the tracer has that,
    /// too. `name` is what the tracer calls the new task.
    pub(super) fn note_birth(&mut self, made: Made, name: impl FnOnce(&Tracee) -> Tid) -> Option<Tracee> {
        let event = made.event();
        let is_told = made.flags & CLONE_UNTRACED == 0 && self.wants(1 << event);
        if is_told {
            let child = u64::from(name(self).0.cast_unsigned());
            self.due.push_back(Due::Within(event, made.nr, child));
        }
        (is_told || made.flags & CLONE_PTRACE != 0).then(|| {
            let begun = if self.is_seized { Due::Event(EVENT_STOP, 0) } else { Due::Begun };
            let (options, is_seized) = (self.options, self.is_seized);
            Tracee {
                options,
                is_seized,
                due: [begun].into(),
                ..Tracee::new(self.tracer, made.pid, made.domain)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::books::Kind, *};

    const NR: u64 = 39;
    const TRAP: i32 = 0x057f;

    fn tracee(mode: Mode, options: i32) -> Tracee {
        let options = u64::from(options.cast_unsigned());
        Tracee { mode, options, ..Tracee::new(Tid(1), Tid(2), DomainId(1)) }
    }

    /// All that the tracer hears of, which lets the tracee go on each time in the same way.
    fn all(it: &mut Tracee) -> Vec<(Kind, i32, u64)> {
        std::iter::from_fn(|| it.tell_next()).map(|it| (it.kind, it.status, it.message)).collect()
    }

    #[test]
    fn the_return_of_a_call_is_told_to_a_tracer_that_hears_of_calls_and_a_step_behind_it() {
        let exit = (Kind::Exit { nr: NR }, TRAP, 2);
        for (mode, told) in [
            (Mode::Cont, vec![]),
            (Mode::Syscall, vec![exit]),
            (Mode::Step, vec![(Kind::Signal, TRAP, 0)]),
            (Mode::EmulateStep, vec![(Kind::Signal, TRAP, 0)]),
        ] {
            let mut it = tracee(mode, 0);
            it.note_return(NR, None);
            assert_eq!(all(&mut it), told, "{mode:?}");
        }
        let mut it = Tracee { is_exit_told: true, ..tracee(Mode::Syscall, 0) };
        it.note_return(NR, None);
        assert_eq!(all(&mut it), [], "it was told before its signal");
        it.note_return(NR, None);
        assert_eq!(all(&mut it), [exit], "the next one is another call");
    }

    #[test]
    fn how_the_tracee_goes_on_when_it_stands_there_says_whether_its_tracer_hears_of_the_return() {
        let mut it = tracee(Mode::Cont, libc::PTRACE_O_TRACEVFORKDONE);
        it.note_return(NR, Some(7));
        let done = Tell::within(NR, libc::PTRACE_EVENT_VFORK_DONE, 7);
        assert_eq!(it.tell_next(), Some(done));
        it.mode = Mode::Syscall;
        assert_eq!(it.tell_next().map(|it| it.kind), Some(Kind::Exit { nr: NR }));
        let mut it = tracee(Mode::Cont, 0);
        it.note_return(NR, Some(7));
        assert_eq!(it.tell_next(), None);
    }

    #[test]
    fn a_return_forgets_at_which_entry_the_tracee_was_held() {
        let mut it = Tracee { entered: Some((1, 2)), is_asked_by_filter: true, ..tracee(Mode::Cont, 0) };
        it.note_return(NR, None);
        assert!(it.entered.is_none() && !it.is_asked_by_filter);
        let mut it = Tracee { entered: Some((1, 2)), is_asked_by_filter: true, ..tracee(Mode::Step, 0) };
        it.note_skipped();
        assert!(it.entered.is_none() && !it.is_asked_by_filter && it.is_behind_skipped);
    }

    #[test]
    fn a_call_that_is_not_made_comes_back_with_no_number() {
        let mut it = tracee(Mode::Syscall, 0);
        it.note_skipped();
        assert_eq!(all(&mut it), [(Kind::Exit { nr: u64::MAX }, TRAP, 2)]);
        assert!(!it.is_behind_skipped);
        let mut it = tracee(Mode::Cont, 0);
        it.note_skipped();
        assert_eq!(all(&mut it), []);
    }

    #[test]
    fn an_exec_is_an_event_or_a_trap_and_the_return_of_a_call() {
        let (trap, exit) = ((Kind::Signal, TRAP, 0), (Kind::Exit { nr: NR }, TRAP, 2));
        let event = (Kind::Within { nr: NR }, libc::PTRACE_EVENT_EXEC << 16 | TRAP, 5);
        for (options, is_seized, told) in [
            (libc::PTRACE_O_TRACEEXEC, false, vec![event, exit]),
            (libc::PTRACE_O_TRACEEXEC, true, vec![event, exit]),
            (0, false, vec![exit, trap]),
            (0, true, vec![exit]),
        ] {
            let mut it = Tracee { is_seized, ..tracee(Mode::Syscall, options) };
            it.note_exec(Tid(5), NR);
            assert_eq!(all(&mut it), told, "{options} {is_seized}");
        }
    }

    #[test]
    fn what_was_touched_is_told_behind_all_else() {
        let mut it = tracee(Mode::Step, 0);
        it.debug.is_due = true;
        it.note_return(NR, None);
        assert_eq!(it.due.len(), 2);
        assert!(it.tell_next().is_some() && it.due.is_empty());
        assert_eq!(it.tell_next(), Some(Tell::signal(Signal::TRAP)));
        it.debug.is_due = false;
        assert_eq!(it.tell_next(), None);
    }

    const FORK: u64 = CHLD;
    const VFORK: u64 = CLONE_VFORK | FORK;
    const ALL: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;

    fn birth(it: &mut Tracee, flags: u64) -> Option<Tracee> {
        let made = Made { pid: Tid(8), domain: DomainId(2), nr: NR, flags };
        it.note_birth(made, |_| Tid(4))
    }

    #[test]
    fn a_birth_is_told_by_its_own_event() {
        for (flags, event, option) in [
            (FORK, libc::PTRACE_EVENT_FORK, libc::PTRACE_O_TRACEFORK),
            (VFORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_O_TRACEVFORK),
            (0, libc::PTRACE_EVENT_CLONE, libc::PTRACE_O_TRACECLONE),
            (libc::SIGUSR1 as u64, libc::PTRACE_EVENT_CLONE, libc::PTRACE_O_TRACECLONE),
        ] {
            let mut it = tracee(Mode::Cont, option);
            assert!(birth(&mut it, flags).is_some(), "{event}");
            assert_eq!(it.tell_in_vfork(), Some(Tell::within(NR, event, 4)));
            let mut it = tracee(Mode::Cont, ALL & !option);
            assert!(birth(&mut it, flags).is_none() && it.due.is_empty(), "{event}");
        }
    }

    #[test]
    fn a_child_is_traced_where_its_maker_says_so_or_its_tracer() {
        let mut it = tracee(Mode::Cont, ALL);
        assert!(birth(&mut it, FORK | CLONE_UNTRACED).is_none() && it.due.is_empty());
        let mut it = tracee(Mode::Cont, 0);
        let child = birth(&mut it, FORK | CLONE_PTRACE).expect("its maker says so");
        assert!(it.due.is_empty(), "its tracer does not hear of the birth");
        assert_eq!((child.tracer, child.pid, child.domain), (it.tracer, Tid(8), DomainId(2)));
    }

    #[test]
    fn a_child_has_its_makers_options_and_begins_as_its_tracer_expects() {
        for (is_seized, begins) in [(false, Due::Begun), (true, Due::Event(EVENT_STOP, 0))] {
            let mut it = Tracee { is_seized, mode: Mode::Syscall, is_child: true, ..tracee(Mode::Cont, ALL) };
            let child = birth(&mut it, FORK).expect("it is told");
            assert_eq!((child.is_seized, child.options), (is_seized, it.options));
            assert_eq!((child.mode, child.is_child), (Mode::Cont, false));
            assert_eq!(child.due, [begins]);
        }
        assert_eq!(Tell::signal(Signal::STOP).status, 0x137f);
    }
}
