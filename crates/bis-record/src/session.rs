//! One recording: what all domains share. Its supervisors' threads are in `session/threads.rs`, its end in
//! `session/end.rs`, the signals that come to bis in `session/signals.rs`.

mod counter;
mod course;
mod end;
mod groups;
mod orphaned;
mod progress;
mod signals;
mod threads;

use std::{
    collections::BTreeSet,
    env, io, iter,
    os::unix::ffi::OsStrExt,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bis_trace::{
    ContentStore, KnownFiles, Writer,
    event::{Machine, Meta},
    steps::StepsWriter,
    types::{DomainId, EventSeq, TickKind, Tid},
};
use bis_tracee::{balance::Seat, cpu, features, names, ours, outer, proc, sys, ticks::Ticks};

use self::{counter::Counter, progress::Progress};
pub use self::{counter::Told, threads::Beginning};
use crate::{
    Begins, Options,
    affinities::Affinities,
    calls::{Cloning, Looks},
    chaos::{self, Chaos},
    cores::Cores,
    error::Result,
    halted::Halted,
    hooks::{
        image::HookImage,
        kept_files::KeptFiles,
        texts::Texts,
        watch::{Watch, Watched},
    },
    latecomers::Latecomers,
    limits::Limits,
    mail::Mail,
    registry::Registry,
    stdio::Stdio,
    traced::Books,
    views::Views,
};

/// The process that gets orphans where nobody else wants them.
const INIT: Tid = Tid(1);

pub struct Session {
    pub writer: Writer,
    /// Where steps are written, if they are wanted.
    pub steps: Option<StepsWriter>,
    pub began: Instant,
    pub options: Options,
    pub stdio: Stdio,
    pub cores: Arc<Cores>,
    /// What is known of the time stamp counter, for who may not read it.
    counter: Mutex<Counter>,
    /// Can this processor make `cpuid` fault?
    pub has_cpuid_faulting: bool,
    /// May calls wait in their hooks before tokens are given away (`tokens/linger.rs`)?
    pub lingers: bool,
    pub registry: Registry,
    /// The limit of open files that we were started with.
    pub file_limit: Option<libc::rlimit>,
    pub limits: Limits,
    pub affinities: Affinities,
    pub halted: Halted,
    pub mail: Mail,
    /// How often a domain that shares memory with others has done something else than to wait for them.
    pub moves: AtomicU64,
    /// Who comes too late for locks in shared memory.
    pub latecomers: Arc<Latecomers>,
    /// Which of its tasks trace others of them.
    pub traced: Books,
    pub views: Views,
    /// What is put into every address space, and what is known of texts.
    pub hook_image: HookImage,
    pub texts: Texts,
    /// Draws who runs when, if that is wanted.
    pub chaos: Option<Arc<Chaos>>,
    pub ticks: Ticks,
    pub watch: Arc<Watch>,
    reaper: OnceLock<Tid>,
    /// None: what is read is copied.
    pub cloning: Option<Cloning>,
    /// A file of /proc was opened that shows an address space (`calls/shown.rs`).
    pub shown: AtomicBool,
    /// The calls of the 32-bit table that were refused, and are noted (`calls/narrow.rs`).
    pub refused: Mutex<BTreeSet<u32>>,
    /// A mapping of Go's counters was refused, and is noted (`calls/compilers.rs`).
    pub counters_refused: AtomicBool,
    /// The files that hooks may map.
    pub kept_files: KeptFiles,
    /// For what it is to be looked who outside has it (`calls/outside.rs`).
    pub looks: Looks,
    next_domain: AtomicU32,
    next_checkpoint: AtomicU64,
    /// Has a process of the recording a pid namespace of its own?
    namespaces: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// Lets the trace share what others have. A recording can do without.
fn share(writer: &Writer, options: &Options) {
    let failed = |what: &'static str| move |error: &io::Error| tracing::info!(%error, what);
    let store = options.stores.iter().find_map(|dir| {
        let store = ContentStore::open(dir, &options.trace_dir);
        store.inspect_err(failed("nothing is shared with other traces")).ok()
    });
    let known = options.known_files.as_ref().and_then(|dir| {
        let known = KnownFiles::open(dir, sys::is_at_rest);
        known.inspect_err(failed("what content files have is not remembered")).ok()
    });
    if let Some(store) = &store {
        store.sweep_daily();
    }
    writer.files().share(store, known);
}

impl Session {
    /// How the time stamp counter is told by a clock from here on; none: it cannot be.
    pub fn measure_counter(&self) -> Option<Told> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner).measure_now()
    }

    pub fn new(options: &Options) -> Result<Session> {
        sys::few_arenas();
        let ticks = Ticks::begin(options.ticks)?;
        let writer = match options.begins {
            _ if options.checksum.is_some() => Writer::create_for_stacks(&options.trace_dir)?,
            Begins::WithProgram => Writer::create(&options.trace_dir)?,
            Begins::WithCheckpoints | Begins::WithProcess(_) => {
                Writer::create_for_images(&options.trace_dir)?
            }
        };
        share(&writer, options);
        let cloning = options.cloning.then(|| writer.clones().map(Cloning::new)).flatten();
        let steps =
            options.steps.map(|events| StepsWriter::create(&options.trace_dir, events)).transpose()?;
        let session = Session {
            writer,
            steps,
            began: Instant::now(),
            cloning,
            options: options.clone(),
            stdio: Stdio::of(options.begins.found()),
            cores: Arc::new(Cores::new()),
            counter: Mutex::new(Counter::begin(sys::both_clocks())),
            has_cpuid_faulting: sys::has_cpuid_faulting(),
            lingers: options.chaos.is_none() && sys::has_epoll_pwait2(),
            registry: Registry::default(),
            file_limit: sys::raise_file_limit(),
            limits: Limits::default(),
            affinities: Affinities::default(),
            halted: Halted::default(),
            mail: Mail::default(),
            moves: AtomicU64::new(0),
            latecomers: Arc::new(Latecomers::new(Instant::now())),
            traced: Books::default(),
            views: Views::default(),
            hook_image: HookImage::new(
                &if options.chaos.is_some() { chaos::traced() } else { Vec::new() },
                options.cpu,
            ),
            ticks,
            chaos: options.chaos.map(|seed| Arc::new(Chaos::new(seed))),
            texts: Texts::new(
                options.site_cache.as_ref(),
                (options.ticks == TickKind::Software).then_some(options.text_bytes_max),
            ),
            watch: Arc::default(),
            reaper: OnceLock::new(),
            shown: AtomicBool::new(false),
            refused: Mutex::default(),
            counters_refused: AtomicBool::new(false),
            kept_files: KeptFiles::default(),
            looks: Looks::default(),
            next_domain: AtomicU32::new(1),
            next_checkpoint: AtomicU64::new(1),
            namespaces: AtomicBool::new(false),
            progress: Mutex::default(),
            changed: Condvar::new(),
        };
        session.writer.meta(&Meta::Machine(Box::new(session.machine()?)))?;
        Ok(session)
    }

    /// What the trace says of the machine and of how it is recorded.
    fn machine(&self) -> Result<Machine> {
        let options = &self.options;
        let cwd = options.cwd.clone().or_else(|| env::current_dir().ok()).unwrap_or_default();
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Machine {
            bis_version: env!("CARGO_PKG_VERSION").into(),
            kernel: proc::setting("kernel/osrelease").unwrap_or_default(),
            cpu: cpu::brand(),
            cpuid_faulting: self.has_cpuid_faulting,
            core_count: u32::try_from(self.cores.count()).unwrap_or(u32::MAX),
            tick_source: self.ticks.kind().name().into(),
            hooks: options.hooks,
            checksums: options.checksum.is_some(),
            started_s: started.map_or(0, |passed| i64::try_from(passed.as_secs()).unwrap_or(0)),
            argv: options.argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            cwd: cwd.as_os_str().as_bytes().to_vec(),
            xcr0: cpu::xcr0(),
            features: features::offered(options.cpu),
            refused: outer::refusals()?,
        })
    }

    pub fn new_domain_id(&self) -> DomainId {
        DomainId(self.next_domain.fetch_add(1, Ordering::Relaxed))
    }

    /// A domain of this number begins in the calling thread, which settles on a core, of the slot that is
    /// returned. From here on it is looked whether it starves there.
    pub fn settle(&self, domain: DomainId) -> (usize, Arc<Watched>) {
        let core = self.cores.best(None);
        let watched = self.watch.of(domain);
        watched.seat.set_core(self.cores.number(core));
        watched.seat.pin(iter::empty());
        (core, watched)
    }

    /// A domain with this seat goes on in the calling thread, with the one task that it has, on the core of
    /// this slot.
    pub fn settle_with(&self, seat: &Seat, task: Tid, slot: usize) {
        seat.set_runner(task);
        seat.set_core(self.cores.number(slot));
        seat.pin(iter::once(task));
    }

    /// A number that no other checkpoint has.
    pub fn new_checkpoint(&self) -> u64 {
        self.next_checkpoint.fetch_add(1, Ordering::Relaxed)
    }

    /// From here on, what tasks call each other may not be their ids.
    pub fn expect_namespaces(&self) {
        self.namespaces.store(true, Ordering::Release);
    }

    /// Is this task the first of a pid namespace?
    pub fn is_init_inside(&self, tid: Tid) -> bool {
        self.namespaces.load(Ordering::Acquire) && names::is_init_inside(tid)
    }

    /// What `observer` calls a task.
    pub fn inside(&self, observer: Tid, tid: Tid) -> Tid {
        let there = self.namespaces.load(Ordering::Acquire);
        there.then(|| names::inside(observer, tid)).flatten().unwrap_or(tid)
    }

    /// What a task calls itself.
    pub fn own_name(&self, tid: Tid) -> Tid {
        let there = self.namespaces.load(Ordering::Acquire);
        there.then(|| names::own(tid)).flatten().unwrap_or(tid)
    }

    /// Whom a task means by this number.
    pub fn outside(&self, observer: Tid, number: Tid) -> Tid {
        /// More than any task has.
        const NOBODY: Tid = Tid(i32::MAX);
        if !self.namespaces.load(Ordering::Acquire) {
            return number;
        }
        names::outside(observer, number).unwrap_or(NOBODY)
    }

    /// The parent that this process has in its own eyes: an orphan of the recording has the one that it would
    /// have without us.
    pub fn parent_shown(&self, pid: Tid, parent: Tid) -> Tid {
        let is_orphan = parent == ours::process_id() && !self.is_root(pid);
        if is_orphan { self.reaper.get().copied().unwrap_or(INIT) } else { parent }
    }

    /// Tells the user something about the recording, once it is looked at.
    pub fn note(&self, seq: EventSeq, text: String) -> Result<()> {
        tracing::info!("{text}");
        Ok(self.writer.meta(&Meta::Note { seq, text })?)
    }
}
