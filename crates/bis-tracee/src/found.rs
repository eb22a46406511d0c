//! A process that was found running, and is to be recorded from where it stands: all of its threads are
//! seized and stopped, and then it gets what a recorded process has from its exec on (the agent, the filter,
//! instructions that fault).
//!
//! Each thread is made to stand where only its program goes on: a call that the stop has interrupted is about
//! to be made again, from its beginning, and nobody stands in the vdso's functions, which are overwritten.
//! What the kernel would write to a thread's memory by itself ends: its restartable sequences are
//! unregistered, as a program has none when it is recorded from its exec on.
//!
//! Until [`Found::prepare`], nothing has changed: dropped before that, the process goes on by itself. From
//! then on it cannot go on without a supervisor, because a filter stays for ever.

use std::{collections::BTreeMap, fs, io};

use bis_agent::{AGENT_BASE, AGENT_LEN};
use bis_syscalls::errno::RESTARTS;
use bis_trace::types::{Addr, PAGE, Registers, Tid};

use crate::{
    address_limit,
    error::TraceeError,
    filter::{self, Mode, Refused},
    image,
    maps::{self, Mapping},
    memory::Memory,
    modes, ours, outer,
    proc::{self, Fields},
    remote::Remote,
    sys,
    task::{self, Resume, Running, Status, Stopped, Undisturbed},
    vdso,
};

/// More instructions than any function of a vdso executes, but for one that waits for the kernel's clock to
/// be set.
const STEPS_MAX: u32 = 1_000_000;

/// Why a process with a filter of its own cannot be recorded from where it is.
pub const OWN_FILTER: &str = "it has a seccomp filter of its own, which would answer before bis";

/// Why nothing can be recorded from where it is on this kernel.
pub const NO_TID_ADDRESS: &str =
    "this kernel does not tell what it clears at a thread's end (CONFIG_CHECKPOINT_RESTORE)";

#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    #[error("there is no process {0}")]
    NoProcess(Tid),
    /// The kernel lets nobody, or not us, trace it.
    #[error("process {pid} cannot be traced: {why}")]
    Refused { pid: Tid, why: String },
    #[error("cannot record process {pid}: {what}")]
    Unsupported { pid: Tid, what: String },
    #[error(transparent)]
    Tracee(#[from] TraceeError),
}

/// A thread of the process.
#[derive(Debug)]
pub struct Thread {
    pub stopped: Stopped,
    /// Its process is stopped (SIGSTOP): a caller that lets it go on must ask it first ([`Stopped::ask`]).
    pub is_halted: bool,
    /// The address that the kernel clears at its end (set_tid_address), or 0. Known once it is prepared.
    pub clear_tid: Addr,
}

/// What becomes of a found process that nobody takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Untaken {
    /// It goes on by itself.
    LetGo,
    /// It goes on, and the calling thread traces it as before.
    GoesOn,
    /// It has a supervisor, or comes to nothing.
    Nothing,
}

/// A process all of whose threads are stopped and traced by the calling thread.
#[derive(Debug)]
pub struct Found {
    pid: Tid,
    threads: Vec<Thread>,
    untaken: Untaken,
}

/// What it is once it is prepared, the first thread first.
#[derive(Debug)]
pub struct Prepared {
    pub threads: Vec<Thread>,
    /// The vdso, which is diverted.
    pub vdso: Option<vdso::Vdso>,
}

impl Drop for Found {
    fn drop(&mut self) {
        for Thread { stopped, is_halted, .. } in self.threads.drain(..) {
            let tid = stopped.tid();
            let how = if is_halted { Resume::Listen } else { Resume::Cont };
            let gone = match self.untaken {
                Untaken::LetGo => stopped.detach().map(drop),
                Untaken::GoesOn => stopped.resume(how, None).map(drop),
                Untaken::Nothing => Ok(()),
            };
            if let Err(error) = gone {
                tracing::debug!(%tid, %error, "not let go");
            }
        }
    }
}

/// A task that another one's status names.
fn field_of(tid: Tid, field: &str) -> Option<Tid> {
    Fields::of(tid)?.tid(field)
}

/// The process that traces it already, in words.
fn tracer_of(status: &Fields) -> Option<String> {
    let tracer = status.tid("TracerPid").filter(|tracer| tracer.0 != 0)?;
    Some(format!("{} (process {tracer}) traces it already", proc::name(tracer)))
}

/// Why the kernel does not let us trace it, in words.
fn refusal(source: &io::Error) -> String {
    match proc::setting("kernel/yama/ptrace_scope").as_deref().unwrap_or_default() {
        "3" => "this machine lets nobody trace a process (kernel.yama.ptrace_scope is 3)".into(),
        "2" => format!("{source} (kernel.yama.ptrace_scope is 2: only root may; try sudo)"),
        "1" => format!(
            "{source} (kernel.yama.ptrace_scope is 1: only a process's ancestors may; try sudo, or set it to 0)"
        ),
        _ => format!("{source} (it is another user's, or has more rights than bis; try sudo)"),
    }
}

impl Found {
    /// Seizes and stops all threads of a process.
    ///
    /// # Errors
    /// [`FoundError::NoProcess`], [`FoundError::Refused`]; [`FoundError::Unsupported`] for what cannot be
    /// recorded from where it stands. The process goes on then.
    pub fn seize(pid: Tid) -> Result<Found, FoundError> {
        let status = Fields::of(pid).ok_or(FoundError::NoProcess(pid))?;
        let leader = status.tid("Tgid").ok_or(FoundError::NoProcess(pid))?;
        let unsupported = |what: String| Err(FoundError::Unsupported { pid, what });
        if leader != pid {
            return unsupported(format!("it is a thread of process {leader}"));
        }
        let executable = fs::read_link(proc::path(pid, "exe"));
        if executable.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return unsupported(if task::is_alive(pid) {
                "it is the kernel's own, or its first thread has ended".into()
            } else {
                "it has ended".into()
            });
        }
        if let Some(why) = tracer_of(&status) {
            return Err(FoundError::Refused { pid, why });
        }
        if outer::has_more(&status) {
            return unsupported(OWN_FILTER.into());
        }
        let mut found = Found { pid, threads: Vec::new(), untaken: Untaken::LetGo };
        for child in found.stop_all()? {
            found.let_go(child)?;
        }
        Ok(found)
    }

    /// Stops all threads of a process that the calling thread traces already, and has let run with no filter
    /// but [`Mode::Watch`]'s: `asker` stands at the entry of a call, which it is to make again. The child
    /// processes that it has made meanwhile are traced as it was.
    ///
    /// # Errors
    /// [`FoundError::NoProcess`]: it has ended meanwhile; [`FoundError::Unsupported`]. It goes on then, and
    /// makes its call again.
    pub fn of_watched(pid: Tid, mut asker: Stopped) -> Result<(Found, Vec<Tid>), FoundError> {
        make_again(&mut asker)?;
        sys::interrupt(asker.tid())?;
        asker.resume(Resume::Cont, None)?;
        let mut found = Found { pid, threads: Vec::new(), untaken: Untaken::GoesOn };
        let children = found.stop_all()?;
        Ok((found, children))
    }

    /// Stops all of its threads. The tasks that they have made meanwhile.
    fn stop_all(&mut self) -> Result<Vec<Tid>, FoundError> {
        let pid = self.pid;
        let unsupported = |what: &str| Err(FoundError::Unsupported { pid, what: what.to_owned() });
        if !sys::tells_tid_address() {
            return unsupported(NO_TID_ADDRESS);
        }
        let mut made = Vec::new();
        // Those that run may make more.
        while let Some(tid) = proc::threads(pid).into_iter().find(|tid| !self.has(*tid)) {
            if let Some(thread) = self.stop(tid, &mut made)? {
                self.threads.push(thread);
            } else if tid == pid {
                return Err(FoundError::NoProcess(pid));
            }
        }
        let first = self.threads.first().ok_or(FoundError::NoProcess(pid))?;
        if first.stopped.regs()?.is_narrow() {
            return unsupported("it is a 32-bit program; bis records those from their beginning only");
        }
        Ok(made)
    }

    /// The thread's call, which it was about to make again, has this result instead.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed meanwhile.
    pub fn answer(&mut self, tid: Tid, result: i64) -> Result<(), TraceeError> {
        for thread in self.threads.iter_mut().filter(|thread| thread.stopped.tid() == tid) {
            let regs = thread.stopped.regs()?;
            let rax = result.cast_unsigned();
            thread.stopped.set_regs(&Registers { rip: regs.rip + SYSCALL_LEN, rax, ..regs })?;
        }
        Ok(())
    }

    fn has(&self, tid: Tid) -> bool {
        self.threads.iter().any(|thread| thread.stopped.tid() == tid)
    }

    /// Seizes one thread and stops it. None: it has ended. A signal that comes first takes effect: the thread
    /// stands at the first instruction of its handler then. The tasks that it makes meanwhile are noted.
    fn stop(&self, tid: Tid, made: &mut Vec<Tid>) -> Result<Option<Thread>, FoundError> {
        match sys::seize(tid) {
            Ok(()) => {}
            Err(TraceeError::Died(_)) => return Ok(None),
            // Made by a thread that was seized already: it is traced by itself.
            Err(_) if field_of(tid, "TracerPid") == Some(ours::thread_id()) => {}
            Err(TraceeError::Os { .. }) if !task::is_alive(tid) => return Ok(None),
            Err(TraceeError::Os { source, .. }) => {
                return Err(FoundError::Refused { pid: self.pid, why: refusal(&source) });
            }
            Err(error) => return Err(error.into()),
        }
        sys::interrupt(tid)?;
        let mut running = Running::new(tid);
        loop {
            let status = task::wait_for(tid)?;
            let signal = match status {
                Status::Exited(_) | Status::Killed(_) => return Ok(None),
                Status::Trap | Status::GroupStop(_) => {
                    let is_halted = matches!(status, Status::GroupStop(_));
                    return Ok(Some(Thread { stopped: running.stopped(), is_halted, clear_tid: Addr::NULL }));
                }
                Status::Signal(signal) => Some(signal),
                Status::NewTask(child) => {
                    made.push(child);
                    None
                }
                // It asks, too.
                Status::Seccomp => {
                    sys::interrupt(tid)?;
                    let mut stopped = running.stopped();
                    make_again(&mut stopped)?;
                    running = stopped.resume(Resume::Cont, None)?;
                    continue;
                }
                _ => None,
            };
            // Any stop is the one that was asked for.
            if !matches!(status, Status::Exit(_)) {
                sys::interrupt(tid)?;
            }
            running = running.stopped().resume(Resume::Cont, signal)?;
        }
    }

    /// A task that is traced because its maker is: a child process, of another address space, is not to be
    /// recorded.
    fn let_go(&self, child: Tid) -> Result<(), FoundError> {
        if field_of(child, "Tgid").is_none_or(|leader| leader == self.pid) {
            return Ok(());
        }
        match task::wait_for(child).and_then(|_| Stopped::adopt(child).detach()) {
            Ok(_) | Err(TraceeError::Died(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Tid {
        self.pid
    }

    /// Its threads.
    pub fn tids(&self) -> impl Iterator<Item = Tid> + '_ {
        self.threads.iter().map(|thread| thread.stopped.tid())
    }

    /// What it has mapped.
    ///
    /// # Errors
    /// Where it was killed meanwhile.
    pub fn mappings(&self) -> Result<Vec<Mapping>, FoundError> {
        Ok(maps::read(self.pid)?)
    }

    /// Makes it a recorded process, whose mappings leave room for what is ours ([`is_in_the_way`]). It cannot
    /// go on without a supervisor from here on.
    ///
    /// # Errors
    /// Where it was killed meanwhile.
    pub fn prepare(mut self, memory: &Memory) -> Result<Prepared, FoundError> {
        let mappings = self.mappings()?;
        let vdso = vdso::find(&mappings);
        let within = |rip: Addr| vdso.is_some_and(|vdso| vdso.start <= rip && rip < vdso.end);
        for thread in &mut self.threads {
            set_out_again(&mut thread.stopped)?;
        }
        let mut stepped = BTreeMap::new();
        let pid = self.pid;
        for thread in self.threads.drain(..) {
            let Thread { stopped, is_halted, .. } = thread;
            let tid = stopped.tid();
            let stopped = leave(stopped, memory, within)?;
            stepped.insert((tid != pid, tid), (stopped, is_halted));
        }
        self.untaken = Untaken::Nothing;
        let mut threads = Vec::new();
        let mut page = None;
        for (stopped, is_halted) in stepped.into_values() {
            let mut slot = Some(stopped);
            if page.is_none() {
                image::inject_agent(&mut slot, memory, &mappings)?;
                page = Some(make_page(&mut slot)?);
            }
            let clear_tid = match page {
                Some(page) => bind(&mut slot, memory, page)?,
                None => Addr::NULL,
            };
            let stopped = slot.expect("a finished remote call leaves the task stopped");
            threads.push(Thread { stopped, is_halted, clear_tid });
        }
        if let (Some(page), Some(last)) = (page, threads.pop()) {
            let mut slot = Some(last.stopped);
            let mut remote = Remote::new(&mut slot)?;
            let args = [page.0, PAGE, 0, 0, 0, 0];
            let what = "unmap a page";
            address_limit::beside(&mut remote, |remote| remote.must(what, libc::SYS_munmap, args))?;
            remote.finish()?;
            let stopped = slot.expect("a finished remote call leaves the task stopped");
            threads.push(Thread { stopped, ..last });
        }
        let vdso = vdso::divert(&mappings, memory)?;
        Ok(Prepared { threads, vdso })
    }
}

/// Does the mapping lie where what is ours will be?
pub fn is_in_the_way(mapping: &Mapping) -> bool {
    mapping.start < Addr(AGENT_BASE + AGENT_LEN) && Addr(AGENT_BASE) < mapping.end
}

/// The length of the instruction `syscall`.
const SYSCALL_LEN: u64 = 2;

/// The call at whose entry the thread stands is not made now, and is the first thing that it does then.
fn make_again(stopped: &mut Stopped) -> Result<(), TraceeError> {
    let regs = stopped.regs()?;
    let (rip, rax) = (regs.rip - SYSCALL_LEN, regs.orig_rax);
    stopped.set_regs(&Registers { rip, rax, orig_rax: u64::MAX, ..regs })
}

/// A call that the stop has interrupted is about to be made again, as the kernel would have it. (One that has
/// waited for a while, and would only wait for the rest, waits for the whole time again.)
fn set_out_again(stopped: &mut Stopped) -> Result<(), TraceeError> {
    let regs = stopped.regs()?;
    let mut now = Registers { orig_rax: u64::MAX, ..regs };
    if regs.orig_rax.cast_signed() >= 0 && RESTARTS.contains(&regs.result()) {
        now = Registers { rip: regs.rip - SYSCALL_LEN, rax: regs.orig_rax, ..now };
    }
    stopped.set_regs(&now)
}

/// Lets a thread leave the functions that are about to be overwritten, by single steps; no signal is
/// delivered meanwhile. In a restartable sequence it goes to where the sequence is given up, as after any
/// preemption.
fn leave(
    mut stopped: Stopped,
    memory: &Memory,
    within: impl Fn(Addr) -> bool,
) -> Result<Stopped, FoundError> {
    let tid = stopped.tid();
    let mut undisturbed = None;
    let mut steps = 0;
    while within(stopped.regs()?.ip()) {
        if undisturbed.is_none() {
            undisturbed = Some(Undisturbed::begin(&mut stopped)?);
        }
        steps += 1;
        if steps > STEPS_MAX {
            let found = "it does not leave the vdso".into();
            return Err(TraceeError::Unexpected { tid, doing: "attaching", found }.into());
        }
        let running = stopped.resume(Resume::Step, None)?;
        match task::wait_for(tid)? {
            status @ (Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) => {
                task::put_back(tid, status);
                return Err(TraceeError::Died(tid).into());
            }
            _ => stopped = running.stopped(),
        }
    }
    drop(undisturbed);
    if let Some(abort) = sequence(tid, memory, stopped.regs()?.ip()) {
        let regs = stopped.regs()?;
        stopped.set_regs(&Registers { rip: abort.0, ..regs })?;
    }
    Ok(stopped)
}

/// Where the restartable sequence (`struct rseq_cs`) is given up in whose middle the thread stands, if it
/// does.
fn sequence(tid: Tid, memory: &Memory, rip: Addr) -> Option<Addr> {
    const RSEQ_CS: u64 = 8;
    let area = sys::rseq_of(tid)?;
    let described = memory.read_addr(area.addr + RSEQ_CS).ok().filter(|addr| !addr.is_null())?;
    let word = |index: u64| memory.read_u64(described + 8 * index).ok();
    let (start, len, abort) = (Addr(word(1)?), word(2)?, Addr(word(3)?));
    (rip.wrapping_since(start) < len).then_some(abort)
}

/// A page of memory for what is passed to calls.
fn make_page(slot: &mut Option<Stopped>) -> Result<Addr, TraceeError> {
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let prot = (libc::PROT_READ | libc::PROT_WRITE).cast_unsigned().into();
    let mut remote = Remote::new(slot)?;
    let args = [0, PAGE, prot, FLAGS.cast_unsigned().into(), u64::MAX, 0];
    let page = address_limit::beside(&mut remote, |remote| remote.must("map a page", libc::SYS_mmap, args))?;
    remote.finish()?;
    Ok(Addr(page))
}

/// Makes one thread a recorded one: ends its restartable sequences, makes instructions fault, and puts it
/// under the filter. The address that the kernel clears at its end.
fn bind(slot: &mut Option<Stopped>, memory: &Memory, page: Addr) -> Result<Addr, TraceeError> {
    const RSEQ_FLAG_UNREGISTER: u64 = 1;
    const ADDR_NO_RANDOMIZE: u64 = libc::ADDR_NO_RANDOMIZE as u64;
    const ASK: u64 = 0xffff_ffff;
    const EACCES: i64 = -(libc::EACCES as i64);
    let tid = slot.as_ref().map(Stopped::tid).expect("a stopped task");
    let rseq = sys::rseq_of(tid);
    let mut remote = Remote::new(slot)?;
    let prctl = |option: i32| u64::from(option.cast_unsigned());
    remote.must(
        "find what is cleared at its end",
        libc::SYS_prctl,
        [sys::PR_GET_TID_ADDRESS, page.0, 0, 0, 0, 0],
    )?;
    let clear_tid = memory.read_addr(page)?;
    if let Some(area) = rseq {
        let args = [area.addr.0, area.len.into(), RSEQ_FLAG_UNREGISTER, area.signature.into(), 0, 0];
        remote.must("end its restartable sequences", libc::SYS_rseq, args)?;
    }
    // Programs that it executes are laid out as always in a recording, if that is not refused.
    let personality = remote.must("ask for its personality", libc::SYS_personality, [ASK, 0, 0, 0, 0, 0])?;
    let fixed = personality | ADDR_NO_RANDOMIZE;
    remote.call(libc::SYS_personality, [fixed, 0, 0, 0, 0, 0])?;
    // It may be that the processor cannot.
    remote.call(libc::SYS_arch_prctl, [modes::ARCH_SET_CPUID, 0, 0, 0, 0, 0])?;
    let instructions = filter::program(Mode::Record, &Refused::default());
    let mut bytes = vec![0u8; 16];
    bytes[..2].copy_from_slice(&u16::try_from(instructions.len()).unwrap_or(0).to_le_bytes());
    bytes[8..].copy_from_slice(&(page + 16).0.to_le_bytes());
    bytes.extend(instructions.iter().flat_map(|instruction| instruction.to_bytes()));
    memory.write(page, &bytes)?;
    let filter = u64::from(libc::SECCOMP_MODE_FILTER);
    let install = [prctl(libc::PR_SET_SECCOMP), filter, page.0, 0, 0, 0];
    if remote.call(libc::SYS_prctl, install)? == EACCES {
        // Without CAP_SYS_ADMIN a filter may be had only by a process that gives up set-user-ID programs.
        let give_up = [prctl(libc::PR_SET_NO_NEW_PRIVS), 1, 0, 0, 0, 0];
        remote.must("give up new privileges", libc::SYS_prctl, give_up)?;
        remote.must("install the seccomp filter", libc::SYS_prctl, install)?;
    }
    remote.finish()?;
    Ok(clear_tid)
}
