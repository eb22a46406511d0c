//! The life of a domain's thread: it gets a process (a fresh stub for an exec, a copy of the parent's for a
//! fork), makes a replica of it, waits for a slot, and drives the replica to its end; then all is given back,
//! whatever happened.

use std::{fs::File, io, iter, os::fd::AsRawFd as _, sync::Arc, thread};

use bis_trace::{
    event::{DomainEntry, Turn},
    types::{DomainId, EventSeq, Fd, ObjectId, StandardStream, Tid},
};
use bis_tracee::{
    Stopped,
    balance::Seat,
    filter::{HookedChanges, Refused},
    handover::Parked,
    image::{self, Stub},
    modes, outer, sys,
};

use crate::{
    alarm::{Alarm, Patience},
    echo::Reader,
    error::{Halt, ReplayError},
    host::Host,
    job::{Class, Held, Slot},
    learnt::How,
    objects::Mapped,
    process::{Living, Process},
    replica::{Limit, Replica, Stop},
    retry::{self, Retries},
    select::Extent,
    shared::{Context, Shared},
    space::{Inherited, Source},
    world::World,
};

/// Events between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// What a domain's thread needs of stack, bytes: nothing recursive runs on it.
const STACK_BYTES: usize = 512 * 1024;

/// A process that was copied from its parent's for a forked domain.
pub(crate) struct Copy<'env> {
    pub entry: &'env DomainEntry,
    pub extent: Extent,
    pub parked: Parked,
    /// What the copy has of its parent's address space.
    pub inherited: Inherited,
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
    modes::counter_as_tasks();
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
        // The driver of the replica has looked after that.
        Err(Halt::Seen(pause)) => shared.board.fail(retry::seen_again(pause)),
        Err(Halt::Failed(error)) => shared.board.fail(error),
    }
}

/// An empty process for a domain that begins with an exec, traced by the calling thread, in this seat. Only
/// in one whose memory nobody watches, what hooks change of the address space may pass. Also, what it begins
/// with: it has files open that are likely to be mapped.
pub(crate) fn empty_process(
    world: &World<'_>,
    living: &Arc<Living>,
    seat: &Seat,
    changes: HookedChanges,
) -> Result<(Stopped, Process, Inherited), Halt> {
    let refused = Refused { then: world.machine.refused.clone(), now: outer::known().to_vec() };
    let last = world.mapped_last();
    let open = last.iter().map(|(file, opened)| (Source::File(*file), Fd(opened.as_raw_fd()))).collect();
    let files = last.into_iter().map(|(_, opened)| opened).collect();
    let stub = Stub { refused, changes, files, rdtsc_faults: true };
    let (mut stopped, _) = image::spawn_stub_in("bis-replay", seat, stub)?;
    let pid = stopped.as_ref().map(Stopped::tid).expect("a stub is stopped");
    let process = Process::new(pid, living);
    if world.machine.cpuid_faulting {
        image::make_cpuid_fault(&mut stopped).map_err(|error| {
            ReplayError::Machine(format!(
                "{error}; the trace was recorded where cpuid can be made to fault ({}), and can be replayed only \
                 on such a machine",
                world.machine.cpu
            ))
        })?;
        modes::cpuid_as_tasks();
    }
    let inherited = Inherited { open, ..Inherited::default() };
    Ok((stopped.expect("a finished remote call leaves the task stopped"), process, inherited))
}

fn from_exec<'scope, 'env: 'scope>(
    context: Context<'scope, 'env>,
    entry: &'env DomainEntry,
    extent: Extent,
    slot: Slot,
) -> Result<(), Halt> {
    let shared = context.shared;
    let held = Held::new(&shared.board, Some(slot));
    if entry.base.is_copy() {
        return Err(Halt::Failed(ReplayError::Inconsistent {
            domain: entry.domain,
            seq: entry.seq,
            what: "a copy of another domain begins by itself".into(),
        }));
    }
    let core = held.core();
    let seat = shared.seat(entry.domain);
    if let Some(core) = core {
        seat.set_core(core);
        seat.pin(iter::empty());
    }
    // A job's replica is never attended.
    let changes = HookedChanges::Pass;
    let begun = empty_process(shared.world, shared.board.living(), &seat, changes)?;
    let mut replica = Replica::new(shared.world, entry, begun)?;
    replica.read_ahead(&shared.ahead);
    Job::new(context, (replica, extent), held, (core, seat)).run()
}

fn from_copy<'scope, 'env: 'scope>(context: Context<'scope, 'env>, copy: Copy<'env>) -> Result<(), Halt> {
    let Copy { entry, extent, parked, inherited } = copy;
    let shared = context.shared;
    let pid = parked.tid();
    // At once, slot or not: nobody else watches over it.
    let (stopped, _) = parked.seize().inspect_err(|_| shared.board.add_orphan(pid))?;
    let process = Process::new(pid, shared.board.living());
    let slot = shared.board.acquire(Class::Living).ok_or(Halt::Cancelled)?;
    let held = Held::new(&shared.board, Some(slot));
    let mut replica = Replica::new(shared.world, entry, (stopped, process, inherited))?;
    replica.read_ahead(&shared.ahead);
    let seat = shared.seat(entry.domain);
    Job::new(context, (replica, extent), held, (None, seat)).run()
}

/// A replica on its way to its end. Its fields are dropped in order: the process ends before its slot is
/// given back.
struct Job<'scope, 'env> {
    replica: Replica<'env>,
    /// Where it may go back to.
    retries: Retries<'env>,
    /// How long it may look for a pause.
    patience: Patience,
    host: JobHost<'scope, 'env>,
    extent: Extent,
    /// The core that the thread and its tasks are pinned to.
    core: Option<usize>,
    /// The core's seat, for the thread that balances.
    seat: Arc<Seat>,
    /// So many of its events were told of.
    counted: u64,
}

impl<'scope, 'env> Job<'scope, 'env> {
    /// A replica that is to be driven so far, with its slot, its core, and its seat.
    fn new(
        context: Context<'scope, 'env>,
        (replica, extent): (Replica<'env>, Extent),
        held: Held<'env>,
        (core, seat): (Option<usize>, Arc<Seat>),
    ) -> Job<'scope, 'env> {
        let (shared, domain) = (context.shared, replica.entry().domain);
        let alarm = shared.alarm(domain);
        let retries = Retries::new(shared, domain, Arc::clone(&alarm));
        let host = JobHost { context, held, alarm, is_entangled: false, heard: EventSeq(0) };
        Job { host, replica, retries, patience: Patience::default(), extent, core, seat, counted: 0 }
    }

    fn run(mut self) -> Result<(), Halt> {
        self.pin();
        let is_whole = loop {
            match self.drive() {
                Ok(is_whole) => break is_whole,
                Err(halt) => self.retry(halt)?,
            }
        };
        self.count_events(0);
        if is_whole {
            return Ok(());
        }
        let entry = self.replica.entry();
        Err(Halt::Cut(format!(
            "the events of domain {} (process {}) end after the {}th",
            entry.domain,
            entry.pid,
            self.replica.position()
        )))
    }

    /// Lets the replica go on to its end. False: the trace has not all of it.
    fn drive(&mut self) -> Result<bool, Halt> {
        let shared = self.host.context.shared;
        loop {
            if shared.board.is_cancelled() {
                return Err(Halt::Cancelled);
            }
            self.retries.keep(&mut self.replica)?;
            self.take_seat()?;
            let alarm = Arc::clone(&self.host.alarm);
            let each = Limit { each_event: true, interrupt: Some(&alarm.interrupt), ..Limit::default() };
            let stop = self.replica.advance(&mut self.host, &each);
            if std::mem::take(&mut self.host.is_entangled) {
                self.retries.forget();
            }
            match stop? {
                Stop::Event(seq) => {
                    self.retries.note_come(&self.replica);
                    self.count_events(PROGRESS_EVERY);
                    if matches!(self.extent, Extent::Until(last) if seq >= last) {
                        return Ok(true);
                    }
                    // A fork may have given the slot to others.
                    self.pin();
                }
                Stop::Turns(turns) => self.await_turns(&turns)?,
                Stop::End => return Ok(true),
                Stop::Cut => return Ok(false),
                Stop::Interrupted => {
                    alarm.interrupt.take();
                    match self.retries.interrupted()? {
                        Some(changed) => self.go_back(changed)?,
                        None => self.look_at_search()?,
                    }
                }
                Stop::Stepped(_)
                | Stop::Point(..)
                | Stop::Watched(..)
                | Stop::Before(_)
                | Stop::Moment(_) => {}
            }
        }
    }

    /// It was stopped while it looks for a pause. Where that is in vain, that is a divergence like others.
    fn look_at_search(&mut self) -> Result<(), Halt> {
        if !self.host.alarm.is_search_long() {
            return Ok(());
        }
        let Some((progress, recorded)) = self.replica.search()? else {
            self.host.alarm.end_search();
            return Ok(());
        };
        if self.patience.note_progress(progress, recorded) {
            return Err(self.replica.give_up(&mut self.host));
        }
        self.host.alarm.begin_search();
        Ok(())
    }

    /// The replica cannot go on. If a place may have been taken for another, or a jump was seen, there is
    /// another try.
    fn retry(&mut self, halt: Halt) -> Result<(), Halt> {
        if self.host.is_cancelled() {
            return Err(Halt::Cancelled);
        }
        let changed = self.retries.learn(halt)?;
        self.go_back(changed)
    }

    /// This pause, which is behind, is to be looked for in another way.
    fn go_back(&mut self, changed: EventSeq) -> Result<(), Halt> {
        self.host.heard = self.host.heard.max(self.replica.done().0);
        self.host.alarm.end_search();
        self.replica = self.retries.before(changed, &self.replica)?;
        self.core = None;
        self.pin();
        Ok(())
    }

    /// Tells of events, if there are so many new ones.
    fn count_events(&mut self, least: u64) {
        let new = self.replica.position().saturating_sub(self.counted);
        if new >= least {
            self.host.context.shared.add_events(new);
            self.counted += new;
        }
    }

    /// Waits until all these turns have come.
    fn await_turns(&mut self, turns: &[Turn]) -> Result<(), Halt> {
        let seq = self.replica.next_event()?.map_or(EventSeq(0), |event| event.seq);
        let domain = self.replica.entry().domain;
        self.host.held.await_turns(turns).map_err(|halt| match halt {
            Halt::Cut(why) => Halt::Cut(format!("domain {domain} stops at event {seq}: {why}")),
            other => other,
        })?;
        self.pin();
        Ok(())
    }

    /// The replica's next task is about to run.
    fn take_seat(&mut self) -> Result<(), Halt> {
        let Some((_, ours)) = self.replica.next_task()? else { return Ok(()) };
        if let Some(core) = self.seat.take_wanted() {
            self.host.held.move_to(core);
            self.pin();
        }
        self.seat.set_runner(ours);
        Ok(())
    }

    /// Keeps the thread and its tasks on the slot's core, or on the replica's own.
    fn pin(&mut self) {
        let own = self.replica.own_core();
        if own.is_some() {
            self.seat.stay();
        }
        let held = own.or(self.host.held.core());
        // It may have been sent elsewhere just before it was told to stay.
        let is_there = |core| held == self.core && (own.is_none() || self.seat.core() == Some(core));
        let Some(core) = held.filter(|core| !is_there(*core)) else { return };
        self.core = held;
        self.seat.set_core(core);
        let tasks: Vec<Tid> = self.replica.our_tasks().collect();
        self.seat.pin(tasks.iter().copied());
    }
}

/// What is around a job's replica: the other jobs.
struct JobHost<'scope, 'env> {
    context: Context<'scope, 'env>,
    held: Held<'env>,
    alarm: Arc<Alarm>,
    /// Others have seen what the replica does: it cannot be undone any more.
    is_entangled: bool,
    /// What the program writes was shown up to this event.
    heard: EventSeq,
}

impl Host for JobHost<'_, '_> {
    fn is_cancelled(&self) -> bool {
        self.context.shared.board.is_cancelled()
    }

    fn how(&self, pause: EventSeq) -> How {
        self.context.shared.search().learnt.of(pause)
    }

    fn begin_pause(&mut self, domain: DomainId, pause: EventSeq) {
        let shared = self.context.shared;
        shared.begin_pause(domain, pause);
        // A replay that has all right places does not go anywhere for ever.
        if shared.is_guessing {
            self.alarm.begin_search();
        }
    }

    fn end_pause(&mut self, domain: DomainId) {
        self.context.shared.end_pause(domain);
        self.alarm.end_search();
    }

    fn have_come(&self, turns: &[Turn]) -> bool {
        self.context.shared.board.have_come(turns)
    }

    fn release(&mut self, domain: DomainId, turn: Turn, mapped: Mapped) -> io::Result<()> {
        self.is_entangled = true;
        let shared = self.context.shared;
        let is_over = match mapped {
            Mapped::Now => false,
            _ if shared.world.is_of_one_domain(turn.object) => true,
            Mapped::NoMore => shared.unmap(domain, turn.object),
            Mapped::Never => false,
        };
        shared.board.end_turn(turn, is_over)
    }

    fn object(&self, object: ObjectId) -> io::Result<Arc<File>> {
        self.context.shared.board.objects(|all| all.file(object))
    }

    fn add_object(&mut self, object: ObjectId, file: File) -> io::Result<()> {
        self.is_entangled = true;
        self.context.shared.board.add_object(object, file)
    }

    fn hears(&self, domain: DomainId) -> bool {
        let shared = self.context.shared;
        shared.echo.is_some() && shared.selection.heard.contains(&domain)
    }

    fn hear(&mut self, seq: EventSeq, stream: StandardStream, bytes: &[u8]) -> io::Result<Reader> {
        if seq <= self.heard {
            return Ok(Reader::There);
        }
        let echo = self.context.shared.echo.as_ref();
        let reader = echo.map_or(Ok(Reader::There), |echo| echo.put(seq.0, stream, bytes));
        self.look_at(reader)
    }

    fn heard(&mut self, seq: EventSeq) -> io::Result<Reader> {
        if seq <= self.heard {
            return Ok(Reader::There);
        }
        let echo = self.context.shared.echo.as_ref();
        let reader = echo.map_or(Ok(Reader::There), |echo| echo.done(seq.0));
        self.look_at(reader)
    }

    fn take_fork(&mut self, domain: DomainId) -> bool {
        let shared = self.context.shared;
        shared.selection.extents.contains_key(&domain)
            && shared.world.entries.contains_key(&domain)
            && shared.board.begin_once(domain)
    }

    /// The copy's own thread gets it.
    fn forked(&mut self, domain: DomainId, child: Stopped, inherited: Inherited) -> Result<(), Halt> {
        self.is_entangled = true;
        let (context, shared) = (self.context, self.context.shared);
        let board = &shared.board;
        let pid = child.tid();
        let (Some(extent), Some(entry)) =
            (shared.selection.extents.get(&domain), shared.world.entries.get(&domain))
        else {
            board.add_orphan(pid);
            return Ok(());
        };
        board.living().add(pid);
        let parked = match Parked::park(child) {
            Ok(parked) => parked,
            Err(error) => {
                board.add_orphan(pid);
                return Err(error.into());
            }
        };
        let copy = Copy { entry, extent: *extent, parked, inherited };
        board.add_active();
        if let Err(source) = start(context, Begin::Copy(Box::new(copy))) {
            board.remove_active();
            board.add_orphan(pid);
            return Err(Halt::Failed(ReplayError::io("start a thread for a forked domain", source)));
        }
        if board.is_crowded() {
            self.held.let_others()?;
        }
        Ok(())
    }
}

impl JobHost<'_, '_> {
    /// Where nobody reads our output any more, all ends.
    fn look_at(&self, reader: io::Result<Reader>) -> io::Result<Reader> {
        if matches!(reader, Ok(Reader::Gone)) {
            self.context.shared.board.cancel();
        }
        reader
    }
}

/// Runs all of a selection, and returns when every thread has ended.
pub(crate) fn run_all<'env>(shared: &'env Shared<'env>) {
    thread::scope(|scope| {
        let context = Context { scope, shared };
        for domain in &shared.selection.roots {
            let (Some(entry), Some(extent)) =
                (shared.world.entries.get(domain), shared.selection.extents.get(domain))
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
pub fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// The numbers of the cores for `jobs` slots, spread over those that this process may use. The last is taken
/// first: it is the one where the kernel has put this process, because it had room.
pub(crate) fn cores(jobs: usize, world: &World<'_>) -> Vec<usize> {
    let usable = &world.cores;
    let jobs = if jobs == 0 { usable.len() } else { jobs };
    let current = sys::current_core();
    let first = usable.iter().position(|core| *core == current).unwrap_or(0);
    (0..jobs).rev().map(|job| usable[(job + first) % usable.len()]).collect()
}
