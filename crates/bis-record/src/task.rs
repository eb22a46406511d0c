//! A task as its supervisor sees it.

mod by_hand;
mod core;
mod counter;
mod for_tracer;
mod gone;
mod in_call;
mod last_writes;
mod named;
mod onward;
mod passed_over;
mod report;
mod signals;
mod since_event;
mod stacks;
mod standing;
mod stepped;
mod to_stop;
mod too_late;
mod traits;
mod waiting;
mod with_chaos;

pub use counter::Counter;

pub use for_tracer::{Elsewhere, ForTracer};
pub use in_call::{AsMade, Deed, ForkChild, InCall, Narrow, Pieces, Way};
pub use named::Named;
pub use onward::{IntoCall, Onward};
pub use passed_over::PassedOver;
pub use report::Report;
pub use signals::Signals;
pub use since_event::SinceEvent;
pub use stacks::Stacks;
pub use standing::Standing;
pub use stepped::Stepped;
pub use to_stop::{StopsNext, ToStop};
pub use too_late::{LASTS, TooLate};
pub use traits::{Traits, Wishes};
pub use with_chaos::{Caught, WithChaos};

use std::collections::BTreeMap;

use bis_trace::types::{Addr, Registers, Tid};
use bis_tracee::{Running, Stopped, debug::DebugRegisters, proc};

use crate::{
    calls::left_out::StandIn,
    latecomers::Latecomer,
    places::{rounds::Rounds, spin::Spin},
};

/// Whether the task is ours to touch.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each task")]
pub enum Handle {
    Stopped(Stopped),
    Running(Running),
    /// Only inside of an operation, or after the task's end.
    Taken,
    /// It was killed in the middle of an operation: the report of its end is on its way.
    Dying,
}

#[derive(Debug)]
pub struct Task {
    pub tid: Tid,
    /// What it calls itself: another number than `tid` in a pid namespace of its own.
    pub own_name: Tid,
    /// The process id (thread group).
    pub pid: Tid,
    pub handle: Handle,
    pub report: Report,
    /// Whether it may go on, and whether others may before it does.
    pub standing: Standing,
    /// How long more urgent ones have had their turns.
    pub passed_over: PassedOver,
    /// Whether it comes too late for a lock, again and again.
    pub too_late: TooLate,
    /// It does, for one in memory that processes share.
    pub latecomer: Option<Latecomer>,
    pub call: Option<InCall>,
    /// What there is of signals for it.
    pub signals: Signals,
    /// Why it is to stop before it goes on in its program.
    pub to_stop: ToStop,
    pub stacks: Stacks,
    /// Its descriptors are not those of the domain's other tasks.
    pub own_fds: bool,
    pub since_event: SinceEvent,
    /// The registers at the entry of a call, until what becomes of that is known: one that is killed
    /// meanwhile has come so far, whatever its registers are by then.
    pub in_front: Option<Registers>,
    /// What its tracer watches, while that is in its debug registers.
    pub watches: DebugRegisters,
    /// What it has named to the kernel.
    pub named: Named,
    pub traits: Traits,
    /// What counts how far it has come; none: nothing does, or it has not run yet.
    pub counter: Option<Counter>,
    /// What steps it for the sake of its steps' registers, and those.
    pub steps: Stepped,
    /// What chaos does to it.
    pub with_chaos: WithChaos,
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
            report: Report::default(),
            standing: Standing::new(),
            passed_over: PassedOver::default(),
            too_late: TooLate::default(),
            latecomer: None,
            call: None,
            signals: Signals::default(),
            to_stop: ToStop::default(),
            stacks: Stacks::default(),
            since_event: SinceEvent::default(),
            in_front: None,
            watches: DebugRegisters::default(),
            own_fds: false,
            named: Named::default(),
            traits: Traits::default(),
            counter: None,
            steps: Stepped::default(),
            with_chaos: WithChaos::default(),
            stand_in: None,
            for_tracer: ForTracer::default(),
            spin: Spin::default(),
            rounds: Rounds::default(),
        }
    }
}

impl Task {
    /// Does it stand in its program, with nothing to be done before it goes on?
    pub fn is_plain(&self) -> bool {
        self.call.is_none()
            && !self.standing.is_midway()
            && !self.standing.is_in_hook()
            && !self.signals.coming.is_any()
            && self.signals.stash.is_empty()
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

/// The process that a task belongs to.
pub fn process_of(tid: Tid) -> Option<Tid> {
    proc::Fields::of(tid)?.tid("Tgid")
}

/// The parent's process id, as the kernel sees it now.
pub fn parent_of(tid: Tid) -> Tid {
    bis_tracee::names::parent(tid).unwrap_or(Tid(0))
}
