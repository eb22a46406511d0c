//! The life of tasks and domains: clone, fork and vfork; exec. Their ends are in `ends.rs`.
//!
//! A new task of the same address space (a thread, a vfork child) joins the domain. A new address space
//! (fork, exec) is a new domain with a supervisor thread of its own: the task is parked, and the other thread
//! takes it over (`bis_tracee::handover`). Only where exec leaves nobody behind does the same thread go on
//! with it.

use std::{mem, sync::Arc};

use bis_trace::{
    event::{Base, DomainEntry, Effect, EventKind, MemWrite, Meta, Outcome, Start, TaskEnd},
    types::{Addr, DomainId, Registers, Signal, Tid},
};
use bis_tracee::{
    Memory, Resume, Status, Stopped, TraceeError, handover::Parked, siginfo::SigInfo, task as tracee_task,
};

use crate::{
    births::{Child, Exec, Maker, Plan},
    calls::args::CloneArgs,
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    seed::{Fresh, Seed},
    signals::kept::Stash,
    task::{Deed, ForkChild, Handle, Named, Onward, Signals, StopsNext, Task, ToStop, parent_of},
};

impl Domain {
    // --- clone, fork, vfork

    /// The task's clone, fork or vfork has made a child; the call itself has not returned.
    /// With `parent_ends` it never will: the task was killed in it.
    pub fn new_task(&mut self, tid: Tid, child: Tid, parent_ends: bool) -> Result<Onward> {
        let status = match self.early.remove(&child) {
            Some(status) => status,
            None => tracee_task::wait_for(child)?,
        };
        let args = self.clone_args(
            self.tasks
                .get(&tid)
                .and_then(|t| t.call.as_ref())
                .ok_or_else(|| RecordError::Bug { tid, what: "a child without a call".into() })?,
        );
        tracing::debug!(domain = %self.id, %tid, %child, flags = format_args!("{:#x}", args.flags), "new task");
        let plan = args.birth().plan(status, parent_ends);
        match plan.child {
            Child::Dead { is_at_end: true } => self.let_go(child),
            Child::Dead { is_at_end: false } => {}
            Child::Here { .. } | Child::Elsewhere { .. } => self.bear(tid, child, &args, plan, status)?,
        }
        if matches!(plan.maker, Maker::Dies | Maker::Sleeps) {
            self.recorder().announce_child(tid)?;
        }
        if plan.maker == Maker::Sleeps && self.session.traced.is_used() && self.hold_at_vfork(tid)? {
            return Ok(Onward::Stays);
        }
        Ok(plan.maker.onward())
    }

    /// A child that lives has its place, and its maker's call knows of it.
    fn bear(&mut self, tid: Tid, child: Tid, args: &CloneArgs, plan: Plan, first: Status) -> Result<()> {
        if plan.begins_namespace {
            self.session.expect_namespaces();
        }
        let name = self.session.inside(tid, child);
        if !args.birth().is_thread {
            let maker = self.task(tid)?.pid;
            self.session.limits.inherit(maker, child);
            // Its maker may ask for its cores before its own supervisor has begun.
            self.session.note_process(child);
        }
        self.session.affinities.inherit(tid, child);
        let mut stopped = Stopped::adopt(child);
        if self.task(tid)?.for_tracer.goes_elsewhere() {
            let regs = self.sent_elsewhere(tid, &stopped.regs()?)?;
            stopped.set_regs(&regs)?;
        }
        for addr in args.told_maker() {
            let write = copy_out(&self.memory, addr, 4);
            self.call(tid)?.wrote(write);
        }
        let fork = match plan.child {
            Child::Here { is_thread, has_own_fds, has_reported } => {
                let kind = (is_thread, has_own_fds);
                self.new_task_here(tid, stopped, args, kind, Some(first).filter(|_| has_reported))?;
                self.tell_of_birth(tid, child, self.id, args)?;
                None
            }
            Child::Elsewhere { shares_fds } => Some(self.new_task_elsewhere(tid, stopped, args, shares_fds)?),
            Child::Dead { .. } => None,
        };
        self.call(tid)?.deed = Deed::made_task(name, fork);
        Ok(())
    }

    /// A tracee's child may be traced, too, and holds before it has done anything.
    fn tell_of_birth(&mut self, tid: Tid, child: Tid, domain: DomainId, args: &CloneArgs) -> Result<()> {
        if self.session.traced.is_used() {
            let nr = self.call(tid)?.entry.nr();
            let pid = if args.birth().is_thread { self.task(tid)?.pid } else { child };
            self.tell_birth(tid, child, pid, domain, nr, args.flags);
            if self.tasks.contains_key(&child) {
                self.hold_if_due(child)?;
            }
        }
        Ok(())
    }

    /// The child of a fork waits, stopped, until the event of its making is written.
    fn new_task_elsewhere(
        &mut self,
        tid: Tid,
        stopped: Stopped,
        args: &CloneArgs,
        shares_fds: bool,
    ) -> Result<ForkChild> {
        let child = stopped.tid();
        if self.segment_of_child(tid, child)?.is_some() {
            let what = "makes a 32-bit process by a clone that gives it thread-local storage".into();
            return Err(RecordError::Unsupported { tid, what });
        }
        if shares_fds {
            self.share_fds();
        }
        self.checkpoints.note_copy();
        let mut writes = Vec::new();
        if let Some(addr) = args.told_child() {
            let data = Memory::open(child)?.read_vec(addr, 4)?;
            let write = MemWrite { addr, data };
            // In memory that both share, it is written before the call has returned, as others see it.
            let is_shared = self.space.shared().at(write.addr).is_some();
            if is_shared { self.call(tid)?.found.add_write(write) } else { writes.push(write) }
        }
        let domain = self.session.new_domain_id();
        self.tell_of_birth(tid, child, domain, args)?;
        let (traits, clear_tid) = (self.task(tid)?.traits.of_child(args.flags), args.cleared_word());
        self.call(tid)?.found.add_effect(Effect::Fork { domain, tid: child });
        Ok(ForkChild { stopped, domain, writes, clear_tid, traits })
    }

    /// A task of this domain. `report`: its first stop, if that is of its own making.
    fn new_task_here(
        &mut self,
        tid: Tid,
        stopped: Stopped,
        args: &CloneArgs,
        (is_thread, own_fds): (bool, bool),
        report: Option<Status>,
    ) -> Result<()> {
        let child = stopped.tid();
        let regs = Registers { orig_rax: u64::MAX, ..stopped.regs()? };
        let parent = self.task(tid)?;
        let (parent_pid, traits) = (parent.pid, parent.traits.of_child(args.flags));
        let pid = if is_thread { parent_pid } else { child };
        if pid == child {
            self.session.note_process(pid);
        }
        if let Some(addr) = args.told_child() {
            let write = copy_out(&self.memory, addr, 4);
            self.call(tid)?.wrote(write);
        }
        let segment = self.segment_of_child(tid, child)?;
        let found = &mut self.call(tid)?.found;
        found.add_effect(Effect::NewTask { tid: child, regs, xstate: None });
        segment.into_iter().for_each(|segment| found.add_effect(segment));
        if own_fds {
            self.set_fds_differ(true);
        }
        let task = Task {
            named: Named::with_clear_tid(args.cleared_word()),
            traits,
            own_fds,
            own_name: self.session.own_name(child),
            ..Task::new(stopped, pid)
        };
        self.tasks.insert(child, task);
        self.session.mail.join(pid, self.id);
        self.turns.join(child);
        if let Some(status) = report {
            self.recorder().note(child, status);
        }
        let seq = self.session.writer.next_seq();
        Ok(self.session.writer.meta(&Meta::Task { domain: self.id, tid: child, pid, seq })?)
    }

    // --- exec

    /// The task has a new address space, and, if it was not the leader of its process, the leader's thread
    /// id.
    pub fn exec(&mut self, former: Tid) -> Result<Option<Seed>> {
        let id = self.session.new_domain_id();
        let pid = self.task(former)?.pid;
        let tid = pid;
        let ppid = parent_of(tid);
        let runner = self.watched.seat.runner();
        if runner != former && self.tasks.get(&runner).is_some_and(|task| task.pid == pid) {
            // It was ended as it ran. What it has logged comes before all else that happens to the process.
            self.drain(runner)?;
        }
        self.write_entry(former)?;
        let nr = self
            .task(former)?
            .call
            .as_ref()
            .map_or(libc::SYS_execve.cast_unsigned(), |call| call.entry.own_nr());
        let traits = self.task(former)?.traits.clone().after_exec();
        let stand_in = self.task(former)?.stand_in;
        let (stash, is_halted) = self.take_over_exec(former, pid)?;
        self.session.affinities.execed(former, pid);
        self.leave_image(former, pid, id)?;
        let Some(stopped) = self.come_out_of_exec(tid)? else { return Ok(None) };
        let stash = stash.over_exec(stopped.sigmask()?);
        let core = if self.tasks.is_empty() { self.core } else { self.session.cores.best(None) };
        let session = Arc::clone(&self.session);
        if session.traced.is_used() {
            self.tell_exec(former, tid, nr, id);
        }
        // Who looks at the old seat has nobody to send elsewhere any more.
        self.watched.seat.set_runner(Tid(0));
        // A stop that was kept back comes before the program executes anything: its `Start` says where it is.
        let mut to_stop = ToStop::of_process(is_halted);
        if stash.has_stop() {
            to_stop.stop_next(StopsNext::ForKept);
        }
        let signals = Signals { stash, ..Signals::default() };
        let own_name = session.own_name(pid);
        let task = Task { traits, stand_in, own_name, signals, to_stop, ..Task::new(stopped, pid) };
        let mut domain = match Domain::from_exec(&session, id, task, ppid, core) {
            Err(RecordError::Tracee(TraceeError::Died(_))) => return Ok(None),
            Err(error) if error.is_death_of(tid) => return Ok(None),
            other => other?,
        };
        session.cores.stay(domain.core);
        if self.tasks.is_empty() {
            // This thread goes on as its supervisor, on the core to which it was sent meanwhile.
            if let Some(core) = self.watched.seat.take_wanted()
                && !domain.is_told_its_core()
            {
                domain.core = session.cores.move_to(core, domain.core);
            }
            domain.watched.seat.set_core(session.cores.number(domain.core));
            self.end()?;
            return Ok(Some(Seed::Exec(Box::new(Fresh { domain, parked: None }))));
        }
        self.hand_over(domain, tid)?;
        Ok(None)
    }

    /// The tasks of the process end in this domain, and the one that executes begins the domain `heir`.
    fn leave_image(&mut self, former: Tid, pid: Tid, heir: DomainId) -> Result<()> {
        let others: Vec<Tid> =
            self.tasks.values().filter(|t| t.pid == pid && t.tid != former).map(|t| t.tid).collect();
        for other in others {
            self.gone(other, TaskEnd::Dethreaded, Vec::new())?;
        }
        let at_exec = self.tasks.get_mut(&former).map(|task| task.named.end_exec());
        let mut writes = at_exec.unwrap_or_default();
        writes.extend(self.cleared_word(former));
        let writes = self.happened(writes);
        self.gone(former, TaskEnd::Exec(heir), writes)
    }
}

impl Recorder<'_> {
    /// Writes the event of a clone that has made a child and has not returned. After a vfork the parent
    /// sleeps until its child execs or exits, but its event must come before the child's, which shares its
    /// memory; and a parent that is killed before its call returns leaves a child all the same. The result is
    /// known: the child's id.
    pub fn announce_child(&mut self, tid: Tid) -> Result<()> {
        let Some(call) = self.tasks.get_mut(&tid).and_then(|task| task.call.as_mut()) else { return Ok(()) };
        let Some(made) = call.deed.made().filter(|_| !call.telling.is_whole()) else { return Ok(()) };
        let (_, entry) = call.entry.told();
        let rax = u64::from(made.0.cast_unsigned());
        let regs = self.sent_elsewhere(tid, &Registers { rax, orig_rax: u64::MAX, ..entry })?;
        let mut outcome = Outcome { regs, ..Outcome::default() };
        let call = self.call(tid)?;
        call.found.take().add_to(&mut outcome);
        let ((kind, sums), fork) = (call.event(outcome), call.deed.take_child());
        call.telling.end();
        let seq = self.session.writer.next_seq();
        self.event_at(seq, tid, kind, sums)?;
        if let Some(fork) = fork {
            self.send_off(tid, fork, seq)?;
        }
        Ok(())
    }

    /// Writes the domain's first event.
    pub fn start(&mut self, ppid: Tid, base: Base, outcome: Outcome) -> Result<()> {
        let (domain, tid) = (self.id, self.first_tid);
        let seq = self.session.writer.next_seq();
        let pid = self.task(tid)?.pid;
        self.session.note_process(pid);
        let entry = DomainEntry { domain, pid, ppid, tid, base: base.clone(), seq };
        self.session.writer.meta(&Meta::Domain(entry))?;
        for tid in self.tasks.keys().copied().filter(|other| *other != tid) {
            self.session.writer.meta(&Meta::Task { domain, tid, pid, seq })?;
        }
        let core = self.is_told_its_core().then(|| self.session.cores.number(self.core));
        let core = core.and_then(|core| u16::try_from(core).ok()).filter(|core| *core < u16::MAX);
        let start = Start { base, outcome, has_own_cpuid: self.space.has_own_cpuid(), core };
        self.event_at(seq, tid, EventKind::Start(Box::new(start)), Vec::new())
    }
}

impl Crew {
    /// Signals that are kept back for a task that has executed a program, with stops of its process that
    /// other threads have taken, which end now; and whether it is to stop with its process anyway. (SIGTSTP
    /// and the like, which another thread has taken, may have been for a handler: nobody can ask any more.)
    fn take_over_exec(&mut self, former: Tid, pid: Tid) -> Result<(Stash, bool)> {
        let others = self.tasks.values_mut().filter(|task| task.pid == pid && task.tid != former);
        let stops: Vec<SigInfo> =
            others.filter_map(|other| other.signals.stash.take_of(Signal::STOP)).collect();
        let task = self.task(former)?;
        stops.into_iter().for_each(|stop| task.signals.stash.keep(stop));
        Ok((mem::take(&mut task.signals.stash), task.to_stop.is_halted()))
    }

    /// Lets a task go on to the exit of its execve: the first place where registers that we set stay. None:
    /// it was killed before.
    fn come_out_of_exec(&mut self, tid: Tid) -> Result<Option<Stopped>> {
        let running = Stopped::adopt(tid).resume(Resume::Syscall, None)?;
        let status = tracee_task::wait_for(tid)?;
        match Exec::of(status) {
            Exec::Done => return Ok(Some(running.stopped())),
            Exec::Gone => self.process_status(tid, status),
            Exec::Ending => {
                tracing::debug!(%tid, %status, "no exit of execve");
                let _running = running.stopped().resume(Resume::Cont, None)?;
                while let Ok(status) = tracee_task::wait_for(tid) {
                    self.process_status(tid, status);
                }
            }
        }
        Ok(None)
    }

    /// A whole domain with one stopped task goes to another thread.
    fn hand_over(&mut self, mut domain: Domain, tid: Tid) -> Result<()> {
        let handle = mem::replace(&mut domain.task(tid)?.handle, Handle::Taken);
        let Handle::Stopped(stopped) = handle else {
            return Err(RecordError::Bug { tid, what: "the new domain's task is not stopped".into() });
        };
        let parked = match Parked::park(stopped) {
            Ok(parked) => parked,
            Err(TraceeError::Died(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.session.plant(Seed::Exec(Box::new(Fresh { domain, parked: Some(parked) })));
        Ok(())
    }
}

fn copy_out(memory: &Memory, addr: Addr, len: usize) -> Option<MemWrite> {
    memory.read_vec(addr, len).ok().map(|data| MemWrite { addr, data })
}
