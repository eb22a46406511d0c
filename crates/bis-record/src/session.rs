//! One recording: what all domains share.

use std::{
    collections::HashSet,
    env, io, iter,
    os::unix::ffi::OsStrExt,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bis_trace::{
    ContentStore, KnownFiles, Writer,
    event::{Machine, Meta},
    steps::StepsWriter,
    types::{DomainId, EventSeq, Signal, TickKind, Tid},
};
use bis_tracee::{
    balance::Seat,
    cpu, cpuid_mode, features, guardian, handover, names,
    ours::{self, Came, Coming},
    outside, proc, sys, task,
    ticks::Ticks,
};

use crate::{
    Begins, Ended, Options,
    calls::{Cloning, Looked},
    chaos::{self, Chaos},
    cores::Cores,
    error::{RecordError, Result},
    hooks::{
        image::HookImage,
        texts::Texts,
        watch::{Watch, Watched},
    },
    mail::Mail,
    registry::Registry,
    stdio::Stdio,
    traced::Books,
    views::Views,
};

/// A signal that comes to us so soon after the program's end is the one that has ended it.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// How long what the program has left running is recorded on, unless that is wanted until its end: what would
/// have ended by itself in a moment does.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked then whether there is anything but supervisors that finish their work.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long what is killed then may take to end; a process that waits for a device may take for ever.
const KILL_MAX: Duration = Duration::from_secs(10);

/// How often what waits to be written is looked through: what was recorded longer ago than this and a second
/// is in the trace, also if we are killed.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// How long a supervisor may take to meet a failure that nobody's was: of a log that cannot be written it
/// hears with its next event.
const MEET_MAX: Duration = Duration::from_secs(2);

/// A supervisor needs little: its buffers are on the heap.
const STACK_BYTES: usize = 512 * 1024;

/// Who gets orphans where nobody else wants them.
const INIT: Tid = Tid(1);

#[derive(Debug, Default)]
struct Progress {
    /// Supervisor threads that have not ended.
    live: usize,
    root: Option<Tid>,
    exit_code: Option<u8>,
    ended: Option<Instant>,
    /// Came before there was a program to send it to.
    early: Option<Signal>,
    /// All processes that there were.
    processes: HashSet<Tid>,
    /// Those of them that stand in for a program outside.
    stand_ins: HashSet<Tid>,
    /// What the program has left running is not waited for any longer.
    is_over: bool,
    /// Since when that is being killed, and what it was.
    killed: Option<Instant>,
    left: Vec<(String, Tid)>,
    /// The stand-ins that were there when the programs outside were let go.
    go_on: Vec<(String, Tid)>,
    /// Why the recording ends though processes that the program has left are still there.
    cut: Option<String>,
    failure: Option<RecordError>,
    /// The failure was seen by nobody who supervises.
    is_nobodys: bool,
    looking: Looking,
    is_recorded: bool,
    refused: Vec<String>,
}

/// Whether somebody looks at what the recording fails with ([`crate::fault`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Looking {
    #[default]
    NotYet,
    Now,
    /// There is one fault to look at, the first.
    Over,
}

impl Progress {
    /// The processes of the recording that have not ended.
    fn still_there(&self) -> Vec<(String, Tid)> {
        let mut there: Vec<Tid> = self
            .processes
            .iter()
            .copied()
            .filter(|pid| Some(*pid) != self.root && task::is_alive(*pid))
            .collect();
        there.sort_unstable();
        there.into_iter().map(|pid| (proc::name(pid), pid)).collect()
    }

    /// Kills what the program has left running, as often as something is left: it may be about to fork. It is
    /// recorded to its end like everything else. False: it has not ended in time.
    fn kill_left(&mut self) -> bool {
        let there = self.still_there();
        if there.is_empty() {
            return true;
        }
        // What runs outside goes on, though its stand-in does not.
        outside::let_all_go();
        for (name, pid) in there {
            let _ = ours::send(pid, Signal::KILL);
            let list = if self.stand_ins.contains(&pid) { &mut self.go_on } else { &mut self.left };
            if !list.iter().any(|(_, known)| *known == pid) {
                list.push((name, pid));
            }
        }
        self.killed.get_or_insert_with(Instant::now).elapsed() < KILL_MAX
    }
}

pub struct Session {
    pub writer: Writer,
    /// Where steps are written, if they are wanted.
    pub steps: Option<StepsWriter>,
    pub began: Instant,
    pub options: Options,
    pub stdio: Stdio,
    pub cores: Arc<Cores>,
    /// Can this processor make `cpuid` fault?
    pub has_cpuid_faulting: bool,
    /// May calls wait in their hooks before tokens are given away (`tokens/linger.rs`)?
    pub lingers: bool,
    pub registry: Registry,
    /// The limit of open files that we were started with.
    pub file_limit: Option<libc::rlimit>,
    pub mail: Mail,
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
    /// How long it was looked who outside has what is mapped (`calls/outside.rs`).
    pub looked: Looked,
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

/// How a domain begins, and what becomes of it: what its supervisor's thread does.
pub trait Beginning: Send + 'static {
    /// What the thread is called.
    fn name(&self) -> String;

    /// In that thread, until there is nothing left to supervise.
    ///
    /// # Errors
    /// When the recording cannot go on.
    fn supervise(self, session: &Arc<Session>) -> Result<()>;
}

impl Session {
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
            has_cpuid_faulting: sys::has_cpuid_faulting(),
            lingers: options.chaos.is_none() && sys::has_epoll_pwait2(),
            registry: Registry::default(),
            file_limit: sys::raise_file_limit(),
            mail: Mail::default(),
            traced: Books::default(),
            views: Views::default(),
            hook_image: HookImage::new(
                if options.chaos.is_some() { &chaos::SHORTENED } else { &[] },
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
            looked: Looked::default(),
            next_domain: AtomicU32::new(1),
            next_checkpoint: AtomicU64::new(1),
            namespaces: AtomicBool::new(false),
            progress: Mutex::default(),
            changed: Condvar::new(),
        };
        let cwd = options.cwd.clone().or_else(|| env::current_dir().ok()).unwrap_or_default();
        session.writer.meta(&Meta::Machine(Box::new(Machine {
            bis_version: env!("CARGO_PKG_VERSION").into(),
            kernel: proc::setting("kernel/osrelease").unwrap_or_default(),
            cpu: cpu::brand(),
            cpuid_faulting: session.has_cpuid_faulting,
            core_count: u32::try_from(session.cores.count()).unwrap_or(u32::MAX),
            tick_source: session.ticks.kind().name().into(),
            hooks: options.hooks,
            checksums: options.checksum.is_some(),
            started_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(0)),
            argv: options.argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            cwd: cwd.as_os_str().as_bytes().to_vec(),
            xcr0: cpu::xcr0(),
            features: features::offered(options.cpu),
        })))?;
        Ok(session)
    }

    pub fn new_domain_id(&self) -> DomainId {
        DomainId(self.next_domain.fetch_add(1, Ordering::Relaxed))
    }

    /// A domain of this number begins in the calling thread, which settles on a core, of the slot that is
    /// returned. From here on it is looked whether it starves there.
    pub fn settle(&self, domain: DomainId) -> (usize, Arc<Watched>) {
        let core = self.cores.best(None);
        let watched = self.watch.of(domain);
        watched.seat.goes_to(self.cores.number(core));
        watched.seat.pin(iter::empty());
        (core, watched)
    }

    /// A domain with this seat goes on in the calling thread, with the one task that it has, on the core of
    /// this slot.
    pub fn settle_with(&self, seat: &Seat, task: Tid, slot: usize) {
        seat.set_runner(task);
        seat.goes_to(self.cores.number(slot));
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

    /// Runs the recording to its end; called once. `begin` starts the first domain.
    pub fn run(self: &Arc<Session>, coming: Coming, begin: impl FnOnce(&Arc<Session>)) -> Result<Ended> {
        // Before orphans come to us.
        let _ = self.reaper.set(guardian::begin_as_orphan().unwrap_or(INIT));
        if self.options.begins != Begins::WithCheckpoints {
            self.begins_recording();
        }
        self.listen(coming).map_err(|failure| self.cut_by(failure))?;
        self.watch.start(&self.cores, self.chaos.clone());
        begin(self);
        let mut progress = self.wait_for_the_look(self.wait_for_the_end());
        if progress.failure.is_some() || progress.cut.is_some() {
            // What is traced dies with us. Who should have taken these over does not come to it any more.
            handover::kill_parked();
        }
        if let Some(failure) = progress.failure.take() {
            return Err(self.cut_by(failure));
        }
        let exit_code = progress.exit_code.unwrap_or(0);
        let ended = Ended {
            exit_code,
            left: std::mem::take(&mut progress.left),
            go_on: std::mem::take(&mut progress.go_on),
            is_recorded: progress.is_recorded,
            refused: std::mem::take(&mut progress.refused),
        };
        let left = &ended.left;
        if !left.is_empty() {
            let names: Vec<String> =
                left.iter().map(|(name, pid)| format!("{name} (process {pid})")).collect();
            let text =
                format!("the program had ended; what it had left running was killed: {}", names.join(", "));
            self.note(self.writer.next_seq(), text)?;
        }
        if let Some(why) = progress.cut.take() {
            self.writer.meta(&Meta::Cut { why })?;
            self.writer.finish()?;
            return Ok(ended);
        }
        self.writer.meta(&Meta::End { exit_code, seq: self.writer.next_seq() })?;
        self.writer.finish()?;
        Ok(ended)
    }

    /// Ends the trace with the failure of its recording, which it returns.
    fn cut_by(&self, failure: RecordError) -> RecordError {
        let remedy = failure.remedy().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
        // The log may be what failed; then it says so itself.
        let _ = self.writer.meta(&Meta::Cut { why: format!("{failure}{remedy}") });
        let _ = self.writer.finish();
        failure
    }

    /// Waits until no supervisor is left, or the recording has failed. Meanwhile, writes what gets old: a
    /// supervisor whose tasks wait does nothing.
    fn wait_for_the_end(&self) -> MutexGuard<'_, Progress> {
        let mut flushed = Instant::now();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        while progress.live > 0 {
            let mut left = FLUSH_EVERY.saturating_sub(flushed.elapsed());
            let is_over = progress.is_over;
            if let Some(ended) = progress.ended.filter(|_| is_over || !self.options.wait) {
                let grace = if is_over { Duration::ZERO } else { GRACE.saturating_sub(ended.elapsed()) };
                if grace.is_zero() && !progress.kill_left() {
                    let why = "the program had ended; what it had left running was killed, and did not end";
                    (progress.cut, progress.live) = (Some(why.into()), 0);
                    break;
                }
                left = left.min(grace.max(LOOK_EVERY));
            }
            if !left.is_zero() {
                let woken = self.changed.wait_timeout(progress, left);
                progress = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            outside::reap();
            // It may wait for the disk, and supervisors must be able to end.
            drop(progress);
            let outcome = self.writer.flush_old();
            flushed = Instant::now();
            progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = outcome {
                progress.is_nobodys = true;
                self.fail(&mut progress, error.into());
            }
        }
        progress
    }

    /// Waits until nobody looks any more at what the recording has failed with.
    fn wait_for_the_look<'s>(&'s self, mut progress: MutexGuard<'s, Progress>) -> MutexGuard<'s, Progress> {
        let began = Instant::now();
        loop {
            let may_begin =
                progress.is_nobodys && self.options.on_fault.is_some() && began.elapsed() < MEET_MAX;
            let is_over = match progress.looking {
                Looking::NotYet => !may_begin,
                Looking::Now => false,
                Looking::Over => true,
            };
            if is_over {
                return progress;
            }
            let woken = self.changed.wait_timeout(progress, LOOK_EVERY);
            progress = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Somebody wants to look at a fault. False: at another one already.
    pub fn begin_look(&self) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = progress.looking == Looking::NotYet;
        if is_first {
            progress.looking = Looking::Now;
        }
        is_first
    }

    pub fn end_look(&self) {
        self.update(|progress| progress.looking = Looking::Over);
    }

    /// Starts the thread that gives the program the signals that are sent to us.
    fn listen(self: &Arc<Session>, mut coming: Coming) -> Result<()> {
        let session = Arc::clone(self);
        let listen = move || {
            while let Ok(came) = coming.wait() {
                session.pass_on(came);
            }
        };
        let thread = thread::Builder::new().name("signals".into()).stack_size(STACK_BYTES).spawn(listen);
        thread.map(drop).map_err(|source| RecordError::Os { what: "start a thread", source })
    }

    /// A signal has come to us. The terminal's come to the program as well; and so does what a process of the
    /// recording has sent to a group that both belong to. All else was meant for the program.
    fn pass_on(&self, Came { signal, sender }: Came) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let hangup = i32::from(signal.0) == libc::SIGHUP && ours::lead_session();
        if sender.is_some_and(|sender| progress.processes.contains(&sender)) {
            return;
        }
        match progress.root {
            // Only the processes that the program has left are still there: it does not wait for them, nor
            // need we.
            Some(_) if progress.exit_code.is_some() => {
                let ends =
                    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&signal.0.into());
                if ends && progress.ended.is_some_and(|at| at.elapsed() > SAME_SIGNAL) {
                    progress.is_over = true;
                    self.changed.notify_all();
                }
            }
            // What was found running is in another group: the terminal's do not come to it.
            Some(root) if sender.is_some() || hangup || self.options.begins.found().is_some() => {
                tracing::debug!(%signal, %root, "passed on");
                // It may have ended just now.
                let _ = ours::send(root, signal);
            }
            Some(_) => {}
            None => progress.early = Some(signal),
        }
    }

    /// Starts a supervisor thread for the domain that begins so.
    pub fn plant(self: &Arc<Session>, beginning: impl Beginning) {
        self.spawn(beginning.name(), |session| beginning.supervise(session));
    }

    /// Starts a thread of this name that supervises, as `work` does it.
    pub fn spawn(
        self: &Arc<Session>,
        name: String,
        work: impl FnOnce(&Arc<Session>) -> Result<()> + Send + 'static,
    ) {
        self.update(|progress| progress.live += 1);
        let session = Arc::clone(self);
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            cpuid_mode::as_tasks();
            let run = || work(&session);
            // A panic must end the recording, not leave everybody waiting for this thread.
            let result = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                Err(RecordError::Bug { tid: Tid(0), what: "a supervisor panicked".into() })
            });
            session.update(|progress| {
                progress.live = progress.live.saturating_sub(1);
                if let Err(error) = result {
                    session.fail(progress, error);
                }
            });
        });
        if let Err(source) = thread {
            let error = RecordError::Os { what: "start a supervisor thread", source };
            self.update(|progress| {
                progress.live = progress.live.saturating_sub(1);
                self.fail(progress, error);
            });
        }
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// One failed domain ends the recording: its tasks are killed with its thread, and all the others' with
    /// the process; so nothing runs on unrecorded.
    fn fail(&self, progress: &mut Progress, error: RecordError) {
        tracing::error!(%error, "the recording fails");
        progress.failure.get_or_insert(error);
        progress.live = 0;
    }

    pub fn set_root(&self, tid: Tid) {
        self.update(|progress| {
            progress.root = Some(tid);
            if let Some(signal) = progress.early.take() {
                let _ = ours::send(tid, signal);
            }
        });
    }

    /// There is something to record from here on.
    pub fn begins_recording(&self) {
        // Without it (an old kernel) orphans go to init, and Yama may then refuse us.
        let _ = sys::become_subreaper();
        self.update(|progress| progress.is_recorded = true);
    }

    /// A process asked for its first checkpoint, and did not get it.
    pub fn refuses(&self, why: String) {
        self.update(|progress| progress.refused.push(why));
    }

    /// Has the program ended?
    pub fn has_ended(&self) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).ended.is_some()
    }

    /// A process of the recording begins.
    pub fn process_begins(&self, pid: Tid) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).processes.insert(pid);
    }

    /// This process stands in for a program outside from now on.
    pub fn left_out(&self, pid: Tid) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).stand_ins.insert(pid);
    }

    /// Is this a process of the recording, or was it one?
    pub fn is_recorded(&self, pid: Tid) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).processes.contains(&pid)
    }

    /// A process has ended; if it is the program itself, its status is ours.
    pub fn process_ended(&self, pid: Tid, exit_code: u8) {
        self.update(|progress| {
            if progress.root == Some(pid) {
                progress.exit_code = Some(exit_code);
                progress.ended = Some(Instant::now());
            }
        });
    }

    /// The parent that this process has in its own eyes: an orphan of the recording has the one that it would
    /// have without us.
    pub fn parent_shown(&self, pid: Tid, parent: Tid) -> Tid {
        let is_orphan = parent == ours::process_id() && !self.is_root(pid);
        if is_orphan { self.reaper.get().copied().unwrap_or(INIT) } else { parent }
    }

    pub fn is_root(&self, pid: Tid) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).root == Some(pid)
    }

    /// Tells the user something about the recording, once it is looked at.
    pub fn note(&self, seq: EventSeq, text: String) -> Result<()> {
        tracing::info!("{text}");
        Ok(self.writer.meta(&Meta::Note { seq, text })?)
    }
}
