//! The life of a domain's thread: it gets a process (a fresh stub for an exec, a copy of the parent's for a
//! fork), the state that the domain begins with, and a slot; then it replays the events; then all is given back,
//! whatever happened.

use std::{collections::HashMap, io, thread};

use bis_trace::{
    event::{Base, DomainEntry, Event, EventKind, Machine, Start},
    types::{DomainId, Tid},
};
use bis_tracee::{Memory, Stopped, balance, cpuid_mode, handover::Parked, image, sys};

use crate::{
    divergence::Brief,
    domain::Domain,
    error::{Halt, ReplayError},
    job::{Class, Ended, Held, Slot},
    select::Extent,
    shared::{Context, Shared},
    space::{Source, Space},
    stub::Stub,
    task::Task,
};

/// What a domain's thread needs of stack, bytes: nothing recursive runs on it.
const STACK_BYTES: usize = 512 * 1024;

/// A process that was copied from its parent's for a forked domain.
pub(crate) struct Copy<'env> {
    pub entry: &'env DomainEntry,
    pub extent: Extent,
    pub parked: Parked,
    /// The descriptors that the copy has, as its parent had them.
    pub open: HashMap<Source, u64>,
}

pub(crate) enum Begin<'env> {
    Exec { entry: &'env DomainEntry, extent: Extent, slot: Slot },
    Copy(Box<Copy<'env>>),
}

impl Begin<'_> {
    fn domain(&self) -> DomainId {
        match self {
            Begin::Exec { entry, .. } => entry.domain,
            Begin::Copy(copy) => copy.entry.domain,
        }
    }
}

/// Starts a domain's thread.
///
/// # Errors
/// Where there can be no more threads. The domain has not begun then.
pub(crate) fn start<'scope, 'env: 'scope>(
    context: Context<'scope, 'env>,
    begin: Begin<'env>,
) -> io::Result<()> {
    let name = format!("domain {}", begin.domain());
    let body = move || whole_life(context, begin);
    thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn_scoped(context.scope, body).map(drop)
}

/// Tells the others that the domain is at its end, even after a panic.
struct Farewell<'env> {
    shared: &'env Shared<'env>,
    domain: DomainId,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.board.cancel();
        }
        if let Some(echo) = &self.shared.echo {
            echo.leave(self.domain);
        }
        self.shared.leave(self.domain);
        self.shared.board.remove_active();
    }
}

fn whole_life<'scope, 'env: 'scope>(context: Context<'scope, 'env>, begin: Begin<'env>) {
    let shared = context.shared;
    let domain = begin.domain();
    let _farewell = Farewell { shared, domain };
    let result = match begin {
        Begin::Exec { entry, extent, slot } => from_exec(context, entry, extent, slot),
        Begin::Copy(copy) => from_copy(context, *copy),
    };
    match result {
        Ok(()) => shared.count_domain(),
        Err(Halt::Cancelled) => {}
        Err(Halt::Cut(why)) => {
            tracing::info!(%domain, why, "cut");
            shared.board.cut(why);
        }
        Err(Halt::Seen(pause)) => shared.board.end_with(Ended::Seen(pause)),
        Err(Halt::Failed(error)) => shared.board.fail(error),
    }
}

/// The first event of a stream.
fn first_event(
    entry: &DomainEntry,
    events: &mut impl Iterator<Item = Result<Event, bis_trace::TraceError>>,
) -> Result<(Event, Start), Halt> {
    let Some(event) = events.next() else {
        return Err(Halt::Cut(format!("domain {} (process {}) has no events", entry.domain, entry.pid)));
    };
    let mut event = event?;
    let kind = std::mem::replace(&mut event.kind, EventKind::End);
    match kind {
        EventKind::Start(start) if start.base == entry.base => Ok((event, *start)),
        _ => Err(Halt::Failed(ReplayError::Inconsistent {
            domain: entry.domain,
            seq: event.seq,
            what: "its first event does not say how it begins".into(),
        })),
    }
}

fn from_exec<'scope, 'env: 'scope>(
    context: Context<'scope, 'env>,
    entry: &'env DomainEntry,
    extent: Extent,
    slot: Slot,
) -> Result<(), Halt> {
    let shared = context.shared;
    let held = Held::new(&shared.board, Some(slot));
    let mut events = shared.trace.events(entry.domain);
    let (event, start) = first_event(entry, &mut events)?;
    if !matches!(start.base, Base::Exec { .. }) {
        return Err(Halt::Failed(ReplayError::Inconsistent {
            domain: entry.domain,
            seq: event.seq,
            what: "a copy of another domain begins by itself".into(),
        }));
    }
    let core = held.core();
    if let Some(core) = core {
        balance::pin(Tid(0), core);
    }
    let (mut stopped, memory) = image::spawn_stub("bis-replay")?;
    let pid = stopped.as_ref().map(Stopped::tid).expect("a stub is stopped");
    let stub = Stub::new(pid, &shared.board);
    image::make_instructions_fault(&mut stopped, shared.machine.cpuid_faulting).map_err(|error| {
        ReplayError::Machine(format!(
            "{error}; the trace was recorded where rdtsc and cpuid can be made to fault ({}), and can be replayed \
             only on such a machine",
            shared.machine.cpu
        ))
    })?;
    if shared.machine.cpuid_faulting {
        cpuid_mode::as_tasks();
    }
    let task = Task::new(stopped.expect("a finished remote call leaves the task stopped"));
    let space = Space { memory, open: HashMap::new() };
    let tasks = HashMap::new();
    let seat = shared.seat(entry.domain);
    let domain = Domain { context, entry, extent, space, tasks, stub, held, core, seat, position: 1 };
    begin(domain, task, &event, &start, events)
}

fn from_copy<'scope, 'env: 'scope>(context: Context<'scope, 'env>, copy: Copy<'env>) -> Result<(), Halt> {
    let Copy { entry, extent, parked, open } = copy;
    let shared = context.shared;
    let pid = parked.tid();
    // At once, slot or not: nobody else watches over it.
    let (stopped, _) = parked.seize().inspect_err(|_| shared.board.add_orphan(pid))?;
    let stub = Stub::new(pid, &shared.board);
    let memory = Memory::open(pid)?;
    let slot = shared.board.acquire(Class::Living).ok_or(Halt::Cancelled)?;
    let held = Held::new(&shared.board, Some(slot));
    let mut events = shared.trace.events(entry.domain);
    let (event, start) = first_event(entry, &mut events)?;
    let space = Space { memory, open };
    let tasks = HashMap::new();
    let seat = shared.seat(entry.domain);
    let domain = Domain { context, entry, extent, space, tasks, stub, held, core: None, seat, position: 1 };
    begin(domain, Task::new(stopped), &event, &start, events)
}

/// Puts the first task into the state that the domain begins with, and replays the rest.
fn begin<'scope, 'env: 'scope>(
    mut domain: Domain<'scope, 'env>,
    mut task: Task,
    event: &Event,
    start: &Start,
    events: impl Iterator<Item = Result<Event, bis_trace::TraceError>>,
) -> Result<(), Halt> {
    domain.apply(&mut task, event.seq, &start.outcome)?;
    task.remember(event.seq, Brief::Start);
    domain.tasks.insert(event.tid, task);
    domain.pin();
    domain.replay(events)
}

/// Runs all of a selection, and returns when every thread has ended.
pub(crate) fn run_all<'env>(shared: &'env Shared<'env>) {
    thread::scope(|scope| {
        let context = Context { scope, shared };
        for domain in &shared.selection.roots {
            let (Some(entry), Some(extent)) =
                (shared.entries.get(domain), shared.selection.extents.get(domain))
            else {
                continue;
            };
            let Some(slot) = shared.board.acquire(Class::New) else { break };
            if let Err(source) = start(context, Begin::Exec { entry, extent: *extent, slot }) {
                shared.board.fail(ReplayError::io("start a thread for a domain", source));
                break;
            }
        }
    });
}

/// Allows this process as many open files as it may have: each domain needs some, and each shared object one.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// The numbers of the cores that this process may use for a recording of `machine`: where nothing has recorded what `cpuid` says
/// of its core, the first one, on which the recording was.
pub(crate) fn usable_cores(machine: &Machine) -> Vec<usize> {
    let mut usable = balance::cores_of(&sys::get_affinity(Tid(0)).unwrap_or_default());
    if !machine.hooks && !machine.cpuid_faulting {
        usable.truncate(1);
    }
    if usable.is_empty() { vec![0] } else { usable }
}

/// The numbers of the cores for `jobs` slots, spread over those that this process may use. The last is taken first: it is the
/// one where the kernel has put this process, because it had room.
pub(crate) fn cores(jobs: usize, machine: &Machine) -> Vec<usize> {
    let usable = usable_cores(machine);
    let jobs = if jobs == 0 { usable.len() } else { jobs };
    let current = sys::current_core();
    let first = usable.iter().position(|core| Some(*core) == current).unwrap_or(0);
    (0..jobs).rev().map(|job| usable[(job + first) % usable.len()]).collect()
}
