//! A task as its supervisor sees it.

mod by_hand;
mod core;
mod counter;
mod for_tracer;
mod gone;
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
pub use onward::{IntoCall, Onward};
pub use passed_over::PassedOver;
pub use since_event::SinceEvent;
pub use stacks::Stacks;
pub use standing::Standing;
pub use stepped::Stepped;
pub use timers::Timers;
pub use undone::Undone;

use std::collections::BTreeMap;

use bis_syscalls::{
    Handler, Plan,
    errno::is_kernels_own,
    narrow::{Own, Thunk},
    sandbox::Table,
};
use bis_trace::{
    event::{Effect, MemWrite, RangeSum},
    ours::Ours,
    types::{Addr, DomainId, EventSeq, NARROW_TABLE, Registers, Signal, StandardStream, Tid},
};
use bis_tracee::{Running, Status, Stopped, address_limit::Limit, debug::DebugRegisters, proc};

use crate::{
    calls::{Held, left_out::StandIn},
    chaos::Hold,
    places::{rounds::Rounds, spin::Spin},
    signals::{kept::Stash, segv::SegvAction},
    slow::PageHashes,
    space::Place,
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

/// The child of a fork, from the fork's event to its handover.
#[derive(Debug)]
pub struct ForkChild {
    pub stopped: Stopped,
    pub domain: DomainId,
    pub writes: Vec<MemWrite>,
    pub clear_tid: Addr,
    pub traits: Traits,
}

/// A system call between its entry and its event.
#[derive(Debug)]
pub struct InCall {
    pub nr: u64,
    /// The registers as the program made the call; as they would be in the 64-bit table, if it is of the
    /// other.
    pub entry: Registers,
    /// It is of the 32-bit table.
    pub narrow: Option<Narrow>,
    pub plan: Plan,
    /// Where the pieces of the plan lie during the call; none: at home.
    pub places: Option<Vec<Place>>,
    /// The kernel was asked for fewer bytes than the program asks for.
    pub shortened: bool,
    /// The bytes that it had moved when it was set back to be made again for the rest.
    pub moved: u64,
    /// What is left then of a call that names its bytes in pieces. The first of them is asked for.
    pub pieces: Vec<(Addr, u64)>,
    pub handler: Option<Handler>,
    /// It is known to wait: a hook has tried it, its futex still has the value, or it waits for others to
    /// write.
    pub waits: bool,
    /// Its `SyscallEnter` is written.
    pub entered: bool,
    /// Its event is written already (vfork); its return says nothing new.
    pub silent: bool,
    /// The number of its event, where it had to be known before (fork).
    pub seq: Option<EventSeq>,
    pub sums: Vec<RangeSum>,
    /// Effects found on the way.
    pub effects: Vec<Effect>,
    pub writes: Vec<MemWrite>,
    /// What of these is ours.
    pub ours: Option<Box<Ours>>,
    /// Where it writes when it is interrupted, and what was there at its entry.
    pub rest: Option<(Addr, Vec<u8>)>,
    /// All memory before the call, for the slow path.
    pub before: Option<PageHashes>,
    /// It writes to standard output or error, whose lock we hold.
    pub echo: Option<StandardStream>,
    /// The stream of a call that was interrupted before it wrote anything and may be made again, or that
    /// waits for another task to have written there: meanwhile we do not hold the lock for it.
    pub echo_again: Option<StandardStream>,
    /// The task has been set back, and is about to make the call again, because of us alone: it came back
    /// with EINTR, with a part of its bytes, or without a child to wait for where there are tracees. With
    /// these registers it shows the call to have ended, should a signal come first.
    pub set_back: Option<Registers>,
    /// It waits in a `pause`, for what the kernel does not know of: tracees, or its turn to write to standard
    /// output or error (`echo_again`).
    pub pauses: bool,
    pub child: Option<ForkChild>,
    /// The task that it has made, as its maker calls it: the result of the call.
    pub made: Option<Tid>,
    /// The limit of its address space that a process is to have in the program's eyes.
    pub limit: Option<(Tid, Limit)>,
    /// The cores that another task is to have in the program's eyes, as a bit mask, if the kernel would let
    /// this one ask for some.
    pub cores: Option<(Tid, Vec<u8>)>,
}

/// A call of the 32-bit table (`calls/narrow.rs`).
#[derive(Debug)]
pub struct Narrow {
    /// The registers as the program made the call.
    pub outer: Registers,
    pub way: Way,
}

impl Narrow {
    /// A result in the register in which the program finds it. The kernel looks at those that ask for the
    /// call to be made again (`bis_syscalls::errno`) as they are.
    pub fn result(&self, result: i64) -> u64 {
        let is_again = is_kernels_own(result);
        let mask = if self.outer.is_narrow() && !is_again { u64::from(u32::MAX) } else { u64::MAX };
        result.cast_unsigned() & mask
    }
}

/// What the kernel makes of a call of the 32-bit table.
#[derive(Debug)]
pub enum Way {
    /// The program's own call.
    Own(Own),
    /// None.
    NotMade,
    /// One of the 64-bit table.
    Thunk(Box<Thunk>),
}

impl InCall {
    /// The call of a narrow one, which the registers `entry` say as if it were of the 64-bit table.
    pub fn narrow(entry: Registers, narrow: Narrow, sums: Vec<RangeSum>) -> InCall {
        InCall { narrow: Some(narrow), ..InCall::new(&entry, sums) }
    }

    /// Does it execute a program?
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Some(Handler::Execve | Handler::Execveat))
    }

    /// The call's number and registers as the program made it: what replay finds.
    pub fn told(&self) -> (u64, Registers) {
        match &self.narrow {
            Some(Narrow { outer, .. }) => (NARROW_TABLE | outer.orig_rax & u64::from(u32::MAX), *outer),
            None => (self.nr, self.entry),
        }
    }

    /// The number of the call in the table that the program has it from.
    pub fn own_nr(&self) -> u64 {
        self.narrow.as_ref().map_or(self.nr, |narrow| narrow.outer.orig_rax & u64::from(u32::MAX))
    }

    /// The task's registers while it is in the call, as a tracer among the program's processes is to see
    /// them: where another call is made in place of the program's, they are that one's.
    pub fn as_own(&self, regs: &Registers) -> Registers {
        let Some(Narrow { outer, way: Way::Thunk(_) }) = &self.narrow else { return *regs };
        let is_set_back = regs.orig_rax == u64::MAX;
        let back = if is_set_back { outer.before_call() } else { *outer };
        // The result, or that the call is to be made again by its restart block.
        let is_number = regs.rax == self.nr;
        Registers { rax: if is_number { back.rax } else { regs.rax }, ..back }
    }

    /// The table that the program has its number from.
    pub fn table(&self) -> Table {
        if self.narrow.is_some() { Table::Narrow } else { Table::Wide }
    }

    /// The registers of the task in front of the call.
    pub fn before(&self) -> Registers {
        self.told().1.before_call()
    }

    /// The program's own call of the 32-bit table, if the kernel makes that: its arguments are in other
    /// registers than `entry` says.
    pub fn own_narrow(&self) -> Option<&Own> {
        match &self.narrow {
            Some(Narrow { way: Way::Own(own), .. }) => Some(own),
            _ => None,
        }
    }

    /// Where a piece of the plan lies during the call.
    pub fn place(&self, piece: usize) -> Addr {
        self.places.as_deref().map_or(self.home(piece), |places| places[piece].addr)
    }

    /// Where the program has it.
    pub fn home(&self, piece: usize) -> Addr {
        Addr(self.plan.pieces[piece].home)
    }

    /// A call at its entry, of which nothing is known yet but the registers, and the sums of memory before
    /// it.
    pub fn new(entry: &Registers, sums: Vec<RangeSum>) -> InCall {
        InCall {
            nr: entry.orig_rax,
            entry: *entry,
            narrow: None,
            plan: Plan::default(),
            places: None,
            shortened: false,
            moved: 0,
            pieces: Vec::new(),
            handler: None,
            waits: false,
            entered: false,
            silent: false,
            seq: None,
            sums,
            effects: Vec::new(),
            writes: Vec::new(),
            ours: None,
            before: None,
            echo: None,
            echo_again: None,
            set_back: None,
            pauses: false,
            child: None,
            made: None,
            limit: None,
            cores: None,
            rest: None,
        }
    }
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
