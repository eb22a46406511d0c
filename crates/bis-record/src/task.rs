//! A task as its supervisor sees it.

mod by_hand;
mod core;
mod counter;
mod for_tracer;
mod gone;
mod in_call;
mod last_writes;
mod onward;
mod passed_over;
mod since_event;
mod stacks;
mod standing;
mod stepped;
mod timers;
mod undone;
mod waiting;

pub use counter::Counter;

pub use for_tracer::{Elsewhere, ForTracer};
pub use in_call::{AsMade, Deed, ForkChild, InCall, Narrow, Pieces, Way};
pub use onward::{IntoCall, Onward};
pub use passed_over::PassedOver;
pub use since_event::SinceEvent;
pub use stacks::Stacks;
pub use standing::Standing;
pub use stepped::Stepped;
pub use timers::Timers;
pub use undone::Undone;

use std::collections::BTreeMap;

use bis_trace::{
    event::MemWrite,
    types::{Addr, Registers, Signal, Tid},
};
use bis_tracee::{Running, Status, Stopped, debug::DebugRegisters, proc};

use crate::{
    calls::{Held, left_out::StandIn},
    chaos::Hold,
    places::{rounds::Rounds, spin::Spin},
    signals::{kept::Stash, segv::SegvAction},
};

/// Whether the task is ours to touch.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each task")]
pub enum Handle {
    Stopped(Stopped),
    Running(Running),
    /// Only inside of an operation, or after the task's end.
    Taken,
}

/// What the program has asked for where bis has set something else: it is told that it has it. Inherited by
/// children, and kept over exec but for `no_cpuid`.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Reading the time stamp counter is to be a fault.
    pub no_tsc: bool,
    /// The cpuid instruction is to be a fault.
    pub no_cpuid: bool,
    /// Whether it wants no address space randomisation; none: as bis itself was started.
    pub no_randomize: Option<bool>,
    /// Memory that can be read can be executed (READ_IMPLIES_EXEC). Gone with an exec.
    pub reads_execute: bool,
    /// No new privileges by exec. (The kernel may have been told the same for our filter's sake.)
    pub no_new_privs: bool,
    /// Its own seccomp filters.
    pub held: Held,
    /// It was found with restartable sequences, and registers those of new threads: it has them, as far as it
    /// knows. (A C library that has them in its first thread ends the program where it gets none in another.)
    /// Gone with an exec.
    pub has_rseq: bool,
}

/// What a task has from the task that has made it, a thread as well as the child of a fork.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// As the program set it: lower runs first.
    pub nice: i32,
    pub wishes: Wishes,
    /// `rdtsc` does not fault in it.
    pub reads_tsc: bool,
    /// What its process does at SIGSEGV; none: by default, or that is not known.
    pub segv: Option<SegvAction>,
}

impl Traits {
    /// What the task keeps in the image that it executes.
    pub fn after_exec(self) -> Traits {
        // A fresh image asks nothing of cpuid or of memory; whether it may read the counter is seen when it
        // is looked at.
        let wishes = Wishes { no_cpuid: false, reads_execute: false, has_rseq: false, ..self.wishes };
        let segv = self.segv.and_then(SegvAction::without_handler);
        Traits { nice: self.nice, wishes, reads_tsc: false, segv }
    }

    /// What a task has that this one makes by a clone with these flags.
    pub fn of_child(&self, flags: u64) -> Traits {
        let clears = flags & linux_raw_sys::general::CLONE_CLEAR_SIGHAND != 0;
        let segv = if clears { self.segv.and_then(SegvAction::without_handler) } else { self.segv };
        Traits { segv, ..self.clone() }
    }
}

#[derive(Debug)]
pub struct Task {
    pub tid: Tid,
    /// What it calls itself: another number than `tid` in a pid namespace of its own.
    pub own_name: Tid,
    /// The process id (thread group).
    pub pid: Tid,
    pub handle: Handle,
    /// A stop, or the end, that the supervisor has seen and not handled yet.
    pub report: Option<Status>,
    /// The child of a report that came and was not handled before the task's end was reported.
    pub newborn: Option<Tid>,
    /// Whether it may go on, and whether others may before it does.
    pub standing: Standing,
    /// How long more urgent ones have had their turns.
    pub passed_over: PassedOver,
    pub call: Option<InCall>,
    /// Signals with handlers that came in the middle of computation: they are delivered at the next call.
    pub stash: Stash,
    /// The mask that it has, while it runs with more signals blocked.
    pub hushed: Option<u64>,
    pub undone: Undone,
    pub stacks: Stacks,
    pub timers: Timers,
    /// Its process is stopped, and it is to stop again: it was taken over, or is to leave a hook first.
    pub is_halted: bool,
    /// The signal that was sent last to bring it to a signal stop
    /// ([`Crew::carry`](crate::crew::Crew::carry)).
    pub carries: Option<Signal>,
    /// This one, in the stash, has interrupted a hook in its call.
    pub interrupts: Option<Signal>,
    /// Its descriptors are not those of the domain's other tasks.
    pub own_fds: bool,
    /// The kernel has a signal pending, which comes before the task executes anything: it has these registers
    /// then. (Or another thread gets it.)
    pub expect_signal: Option<Registers>,
    pub since_event: SinceEvent,
    /// The registers at the entry of a call, until what becomes of that is known: one that is killed
    /// meanwhile has come so far, whatever its registers are by then.
    pub in_front: Option<Registers>,
    /// We have asked it to stop, and it has not stopped for that yet.
    pub is_asked: bool,
    /// What its tracer watches, while that is in its debug registers.
    pub watches: DebugRegisters,
    /// To be given to the task when it is resumed.
    pub inject: Option<Signal>,
    /// The address that the kernel clears at the task's end (set_tid_address), or 0.
    pub clear_tid: Addr,
    /// The head of the robust futex list, or 0.
    pub robust_list: Addr,
    /// Its stack for handlers, as the kernel has it (a `stack_t`); none: it was not asked, or has changed
    /// since.
    pub alt_stack: Option<Vec<u8>>,
    /// In an exec: what the kernel writes if it succeeds. The memory is gone then.
    pub at_exec: Vec<MemWrite>,
    pub traits: Traits,
    /// What counts how far it has come; none: nothing does, or it has not run yet.
    pub counter: Option<Counter>,
    /// What steps it for the sake of its steps' registers, and those.
    pub steps: Stepped,
    /// With chaos: where it is to be stopped; how it is kept from its turn; whether that has not been drawn
    /// yet.
    pub ambush: Option<Ambush>,
    pub hold: Option<Hold>,
    pub is_new: bool,
    /// Its program is one that is left out of the recording.
    pub stand_in: Option<StandIn>,
    /// What is between it and its tracer, if another task of the program traces it.
    pub for_tracer: ForTracer,
    /// Whether it only waits for others when it computes.
    pub spin: Spin,
    /// What the loops write in which it was stopped.
    pub rounds: Rounds,
}

impl Task {
    pub fn new(stopped: Stopped, pid: Tid) -> Task {
        Task {
            tid: stopped.tid(),
            own_name: stopped.tid(),
            pid,
            handle: Handle::Stopped(stopped),
            report: None,
            newborn: None,
            standing: Standing::new(),
            passed_over: PassedOver::default(),
            call: None,
            stash: Stash::default(),
            hushed: None,
            undone: Undone::default(),
            stacks: Stacks::default(),
            timers: Timers::default(),
            is_halted: false,
            carries: None,
            since_event: SinceEvent::default(),
            in_front: None,
            is_asked: false,
            watches: DebugRegisters::default(),
            interrupts: None,
            own_fds: false,
            expect_signal: None,
            inject: None,
            clear_tid: Addr::NULL,
            robust_list: Addr::NULL,
            alt_stack: None,
            at_exec: Vec::new(),
            traits: Traits::default(),
            counter: None,
            steps: Stepped::default(),
            ambush: None,
            hold: None,
            is_new: true,
            stand_in: None,
            for_tracer: ForTracer::default(),
            spin: Spin::default(),
            rounds: Rounds::default(),
        }
    }
}

/// Where the task's stack ends, as far as that is known.
pub fn stack_pointer(task: &Task) -> Option<Addr> {
    match &task.handle {
        Handle::Stopped(stopped) => stopped.regs().ok().map(|regs| regs.sp()),
        _ => task.call.as_ref().map(|call| call.entry.sp()),
    }
}

/// Where the stacks of these tasks end, as far as that is known.
pub fn stack_pointers(tasks: &BTreeMap<Tid, Task>) -> Vec<Addr> {
    tasks.values().filter_map(stack_pointer).collect()
}

/// Breakpoints that wait for their task.
#[derive(Clone, Debug)]
pub struct Ambush {
    pub addrs: Vec<Addr>,
    /// They were set where an event has left the task: what they stop in front of has not been reached since.
    pub is_first: bool,
}

/// The process that a task belongs to.
pub fn process_of(tid: Tid) -> Option<Tid> {
    proc::Fields::of(tid)?.tid("Tgid")
}

/// The parent's process id, as the kernel sees it now.
pub fn parent_of(tid: Tid) -> Tid {
    bis_tracee::names::parent(tid).unwrap_or(Tid(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exec_keeps_what_the_process_asked_for_and_not_what_its_image_did() {
        let wishes = Wishes {
            no_tsc: true,
            no_cpuid: true,
            no_randomize: Some(true),
            reads_execute: true,
            no_new_privs: true,
            held: Held::default(),
            has_rseq: true,
        };
        let kept = Traits { nice: 5, wishes, reads_tsc: true, segv: None }.after_exec();
        assert_eq!((kept.nice, kept.reads_tsc), (5, false));
        let wishes = kept.wishes;
        assert!(wishes.no_tsc && wishes.no_new_privs && !wishes.no_cpuid && !wishes.reads_execute);
        assert!(!wishes.has_rseq);
        assert_eq!(wishes.no_randomize, Some(true));
    }
}
