//! A traced task as a value: [`Stopped`] or [`Running`], never both. Resuming consumes the stop, so nothing
//! can touch the registers of a task that runs.
//!
//! The wait of a supervisor goes through this file too. Waits are a matter of threads (`__WNOTHREAD`): each
//! supervisor thread sees only its own tasks.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt, io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bis_trace::types::{Registers, Signal, Tid};

pub use crate::sys::Resume;
use crate::{
    error::{Result, TraceeError},
    ours,
    proc::{self, Fields, Stat},
    siginfo::SigInfo,
    sys, unheard,
};

/// A task in a ptrace stop of the calling thread.
#[derive(Debug)]
pub struct Stopped {
    tid: Tid,
    /// Its general registers, once somebody has asked for them in this stop: nobody else changes them, and
    /// each question is a system call.
    regs: Cell<Option<Registers>>,
}

/// A task that runs, waits in the kernel, or is dead and not yet reported.
#[derive(Debug)]
pub struct Running {
    tid: Tid,
}

/// Why a task stopped, or how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// exit status, 0..=255: the task is gone.
    Exited(u8),
    /// The task is gone, killed by this signal.
    Killed(Signal),
    /// At the entry of a traced system call (SECCOMP_RET_TRACE).
    Seccomp,
    /// At the entry or exit of a system call, after [`Resume::Syscall`].
    Syscall,
    /// fork, vfork or clone made a new task.
    NewTask(Tid),
    /// An exec succeeded; the task's former thread id.
    Exec(Tid),
    /// The task is about to end; the wait status it will end with.
    Exit(i32),
    /// Stopped as its process is, by this signal.
    GroupStop(Signal),
    /// Stopped by PTRACE_INTERRUPT, or for the first time, or a group-stop ended.
    Trap,
    /// About to receive this signal.
    Signal(Signal),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Exited(code) => write!(f, "exited with status {code}"),
            Status::Killed(signal) => write!(f, "killed by {signal}"),
            Status::Seccomp => f.write_str("at the entry of a system call"),
            Status::Syscall => f.write_str("at the entry or exit of a system call"),
            Status::NewTask(tid) => write!(f, "made task {tid}"),
            Status::Exec(_) => f.write_str("exec"),
            Status::Exit(_) => f.write_str("about to end"),
            Status::GroupStop(signal) => write!(f, "stopped with its process by {signal}"),
            Status::Trap => f.write_str("interrupted"),
            Status::Signal(signal) => write!(f, "about to receive {signal}"),
        }
    }
}

/// Whether calls that a filter of ours has a trap for are told of as calls.
static SEES_TRAPPED: AtomicBool = AtomicBool::new(false);

/// From now on, a call that a filter of ours has a trap for is told of as the entry of a call: for replay,
/// where no filter is the program's own.
pub fn see_trapped_calls() {
    SEES_TRAPPED.store(true, Ordering::Relaxed);
}

/// If the signal SIGSYS, at which the task stands, is the trap of such a call, gives the task the registers
/// of that call's entry (the kernel has put the number back where the result comes to be). False: it is
/// another signal.
fn undo_trap(tid: Tid) -> bool {
    const SYS_SECCOMP: i32 = linux_raw_sys::general::SYS_SECCOMP.cast_signed();
    if !SEES_TRAPPED.load(Ordering::Relaxed) {
        return false;
    }
    let mut stopped = Stopped::adopt(tid);
    let is_trap = stopped.siginfo().is_ok_and(|info| SigInfo(info).code() == SYS_SECCOMP);
    let Some(regs) = stopped.regs().ok().filter(|_| is_trap) else { return false };
    let rax = i64::from(-libc::ENOSYS).cast_unsigned();
    stopped.set_regs(&Registers { orig_rax: regs.rax, rax, ..regs }).is_ok()
}

/// A signal number out of a wait status or a siginfo; the kernel has 1..=64.
fn signal(number: i32) -> Signal {
    Signal(u8::try_from(number).unwrap_or(0))
}

/// The task that a stop's message names. None where the task that stopped was killed meanwhile: the message
/// is of its end then.
fn message_tid(tid: Tid) -> Option<Tid> {
    let message = sys::event_message(tid).ok().and_then(|m| i32::try_from(m).ok());
    let overtaken = sys::get_siginfo(tid).map_or(true, |info| SigInfo(info).is_of_exit_stop());
    message.filter(|_| !overtaken).map(Tid)
}

/// Is this the status of a task that has stopped with its process?
fn is_halt(status: i32) -> bool {
    const HALTS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    status >> 16 == libc::PTRACE_EVENT_STOP && HALTS.contains(&libc::WSTOPSIG(status))
}

/// A task, of whichever of our threads, has stopped, and its supervisor has not waited for that yet: is it
/// that the task has stopped with its process, or that it is stopped so no more? None: there is no such stop,
/// or one that says nothing of that.
pub fn reports_halt(tid: Tid) -> Option<bool> {
    let status = sys::stop_to_wait_for(tid)?;
    (status >> 16 == libc::PTRACE_EVENT_STOP).then(|| is_halt(status))
}

fn decode(tid: Tid, status: i32) -> Status {
    if libc::WIFEXITED(status) {
        return Status::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(0));
    }
    if libc::WIFSIGNALED(status) {
        return Status::Killed(signal(libc::WTERMSIG(status)));
    }
    let stop = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Status::Seccomp,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            // Nobody will be told who the child of a killed task is.
            message_tid(tid).map_or(Status::Trap, Status::NewTask)
        }
        libc::PTRACE_EVENT_EXEC => Status::Exec(message_tid(tid).unwrap_or(tid)),
        libc::PTRACE_EVENT_EXIT => {
            let message = sys::event_message(tid).unwrap_or(0);
            Status::Exit(i32::try_from(message & 0xffff).unwrap_or(0))
        }
        libc::PTRACE_EVENT_STOP if is_halt(status) => Status::GroupStop(signal(stop)),
        libc::PTRACE_EVENT_STOP => Status::Trap,
        _ if stop == libc::SIGSYS && undo_trap(tid) => Status::Seccomp,
        _ if stop == libc::SIGTRAP | 0x80 => Status::Syscall,
        _ => Status::Signal(signal(stop)),
    }
}

thread_local! {
    /// Reports that were waited for in the middle of something else and belong to the supervisor's loop.
    static PUT_BACK: RefCell<VecDeque<(Tid, Status)>> = const { RefCell::new(VecDeque::new()) };
}

/// Gives a report back: the next [`wait_any`] returns it.
pub fn put_back(tid: Tid, status: Status) {
    PUT_BACK.with_borrow_mut(|queue| queue.push_back((tid, status)));
}

/// As [`sys::wait`]. Where it is an end, whoever waits until that is heard of is told.
fn wait(tid: Option<Tid>, block: bool) -> io::Result<Option<(Tid, i32)>> {
    let waited = sys::wait(tid, block);
    if let Ok(Some((_, status))) = waited
        && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status))
    {
        unheard::tell();
    }
    waited
}

/// The next report of any task of this thread. `None`: with `block` false, nothing to report yet; with
/// `block` true, there is no task left.
///
/// # Errors
/// Whatever waitpid fails with, but for "no children"; with `block`, `Interrupted` where somebody kicked this
/// thread ([`crate::ours::kick`]).
pub fn wait_any(block: bool) -> io::Result<Option<(Tid, Status)>> {
    if let Some(report) = PUT_BACK.with_borrow_mut(VecDeque::pop_front) {
        return Ok(Some(report));
    }
    match wait(None, block) {
        Ok(report) => Ok(report.map(|(tid, status)| (tid, decode(tid, status)))),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whose report [`wait_any`] gives next; it waits for that with `block`.
///
/// # Errors
/// As those of [`wait_any`].
pub fn next_report(block: bool) -> io::Result<Option<Tid>> {
    let put_back = PUT_BACK.with_borrow(|queue| queue.front().map(|(tid, _)| *tid));
    if put_back.is_some() {
        return Ok(put_back);
    }
    match sys::next_to_wait_for(block) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        found => found,
    }
}

/// Has the task (or, by its first thread, the process) not ended? One that has, and is only not reaped yet,
/// is not alive.
pub fn is_alive(tid: Tid) -> bool {
    match Stat::of(tid) {
        Ok(stat) => stat.state().is_some_and(|state| !matches!(state, 'Z' | 'X')),
        Err(error) => error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH),
    }
}

/// Is the task traced by a thread of this process?
pub fn is_traced_here(tid: Tid) -> bool {
    let tracer = Fields::of(tid).and_then(|status| status.tid("TracerPid")).filter(|tracer| tracer.0 != 0);
    tracer.is_some_and(|tracer| Fields::of(tracer).and_then(|of| of.tid("Tgid")) == Some(ours::process_id()))
}

/// How long the task has had a processor, as of when it last gave one up (or the kernel's clock last ticked
/// there). None where the kernel does not say.
pub fn cpu_time(tid: Tid) -> Option<Duration> {
    proc::processor_time(tid).map(|(ran, _)| ran)
}

/// Is the task on its way out of the kernel, from where nothing brings it back? (`PF_EXITING` of
/// `include/linux/sched.h`.)
pub fn is_ending(tid: Tid) -> bool {
    const EXITING: u64 = 4;
    Stat::of(tid).is_ok_and(|stat| stat.flags().is_some_and(|flags| flags & EXITING != 0))
}

/// Kills a task of ours that is all of its process, and hears of its end.
pub(crate) fn end(tid: Tid) {
    let _ = sys::tgkill(tid, tid, Signal::KILL);
    // It stops once more on its way out.
    while let Ok(status) = wait_for(tid) {
        if matches!(status, Status::Exited(_) | Status::Killed(_)) {
            break;
        }
        drop(Stopped::adopt(tid).resume(Resume::Cont, None));
    }
}

/// The next report of one task, waiting for it.
///
/// # Errors
/// [`TraceeError::Died`] where the task does not exist any more.
pub fn wait_for(tid: Tid) -> Result<Status> {
    let found = PUT_BACK
        .with_borrow_mut(|queue| queue.iter().position(|(t, _)| *t == tid).and_then(|at| queue.remove(at)));
    if let Some((_, status)) = found {
        return Ok(status);
    }
    let waited = loop {
        match wait(Some(tid), true) {
            // Somebody wonders why this takes so long. A first thread that was killed as it left a stop is
            // reported only after all its others, which may wait for us.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && is_alive(tid) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(TraceeError::Died(tid)),
            waited => break waited,
        }
    };
    match waited {
        Ok(Some((tid, status))) => Ok(decode(tid, status)),
        Ok(None) => Err(TraceeError::Died(tid)),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Err(TraceeError::Died(tid)),
        Err(source) => Err(TraceeError::Os { what: "wait for a task", tid, source }),
    }
}

impl Running {
    /// A task that the kernel attached for us (a new thread or child) or that was just seized.
    pub(crate) fn new(tid: Tid) -> Running {
        Running { tid }
    }

    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The task as stopped, after a wait has reported a stop of it. (For an ended task there is nothing to
    /// take: drop this value.)
    pub fn stopped(self) -> Stopped {
        Stopped::adopt(self.tid)
    }
}

/// Does the kernel take these registers, which are to take the place of `before`, as they are?
fn is_taken_whole(before: &Registers, regs: &Registers) -> bool {
    let checked = |r: &Registers| [r.eflags, r.cs, r.ss, r.ds, r.es, r.fs, r.gs, r.fs_base, r.gs_base];
    checked(before) == checked(regs)
}

/// All signals of a stopped task are blocked, until this is dropped, and the task, stopped again, has its own
/// mask back.
#[derive(Debug)]
pub struct Undisturbed {
    tid: Tid,
    mask: u64,
}

impl Undisturbed {
    /// # Errors
    /// [`TraceeError::Died`] where the task was killed meanwhile.
    pub fn begin(stopped: &mut Stopped) -> Result<Undisturbed> {
        let undisturbed = Undisturbed { tid: stopped.tid, mask: stopped.sigmask()? };
        stopped.set_sigmask(u64::MAX)?;
        Ok(undisturbed)
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        // A task that has died has no mask.
        let _ = sys::set_sigmask(self.tid, self.mask);
    }
}

impl Stopped {
    /// A task that a wait has just reported as stopped and that nobody holds a value of: a new one.
    pub fn adopt(tid: Tid) -> Stopped {
        Stopped { tid, regs: Cell::new(None) }
    }

    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// # Errors
    /// [`TraceeError::Died`] where the task was killed meanwhile; so for all functions here. (Registers that
    /// were read before are still told.)
    pub fn regs(&self) -> Result<Registers> {
        if let Some(regs) = self.regs.get() {
            return Ok(regs);
        }
        let regs = sys::get_registers(self.tid)?;
        self.regs.set(Some(regs));
        Ok(regs)
    }

    /// Those of a task at the entry of a system call. A number with more than the kernel looks at is made
    /// what it is taken for.
    pub fn regs_at_call(&mut self) -> Result<Registers> {
        let made = self.regs()?;
        let regs = made.with_low_number();
        if regs != made {
            self.set_regs(&regs)?;
        }
        Ok(regs)
    }

    pub fn set_regs(&mut self, regs: &Registers) -> Result<()> {
        // The kernel does not take all bits of flags, segments and their bases as they are given; all else it
        // does. So registers that differ in nothing of these from what it has told are known.
        let is_known = self.regs.take().is_some_and(|before| is_taken_whole(&before, regs));
        sys::set_registers(self.tid, regs)?;
        self.regs.set(is_known.then_some(*regs));
        Ok(())
    }

    /// The extended state: x87, SSE, AVX, ... in the kernel's non-compacted layout.
    pub fn xstate(&self) -> Result<Vec<u8>> {
        sys::get_xstate(self.tid)
    }

    pub fn set_xstate(&mut self, xstate: &[u8]) -> Result<()> {
        sys::set_xstate(self.tid, xstate)
    }

    /// The descriptors that a task of a 32-bit program has for thread-local storage, each with the number of
    /// its entry in its first word (GDT_ENTRY_TLS_MIN and the next two of `arch/x86/include/asm/segment.h`).
    pub fn segments(&self) -> Result<Vec<[u8; 16]>> {
        (12..15).map(|entry| sys::get_thread_area(self.tid, entry)).collect()
    }

    /// Sets one of them. A segment register that has it gets another base by that.
    pub fn set_segment(&mut self, descriptor: &[u8; 16]) -> Result<()> {
        self.regs.set(None);
        let entry = u32::from_le_bytes([descriptor[0], descriptor[1], descriptor[2], descriptor[3]]);
        sys::set_thread_area(self.tid, entry, descriptor)
    }

    /// The signal that the task is about to receive (`siginfo_t`).
    pub fn siginfo(&self) -> Result<[u8; 128]> {
        let info = sys::get_siginfo(self.tid)?;
        // Killed in its stop, the task goes on by itself as far as its next one, on its way out. That has
        // information too, which is none of a signal; the report of it is still to come.
        if SigInfo(info).is_of_exit_stop() { Err(TraceeError::Died(self.tid)) } else { Ok(info) }
    }

    pub fn set_siginfo(&mut self, info: &[u8; 128]) -> Result<()> {
        sys::set_siginfo(self.tid, info)
    }

    /// The signals blocked, bit `n - 1` for signal `n`.
    pub fn sigmask(&self) -> Result<u64> {
        sys::get_sigmask(self.tid)
    }

    pub fn set_sigmask(&mut self, mask: u64) -> Result<()> {
        sys::set_sigmask(self.tid, mask)
    }

    /// The signals that wait for this task or its process, blocked ones included.
    pub fn pending(&self) -> Result<Vec<[u8; 128]>> {
        let mut all = self.own_pending()?;
        all.extend(self.shared_pending()?);
        Ok(all)
    }

    /// Those that wait for this task alone.
    pub fn own_pending(&self) -> Result<Vec<[u8; 128]>> {
        sys::peek_pending(self.tid, false)
    }

    /// Those that wait for any task of its process.
    pub fn shared_pending(&self) -> Result<Vec<[u8; 128]>> {
        sys::peek_pending(self.tid, true)
    }

    /// Lets the task go on. A task that was killed meanwhile counts as running: the next wait reports its
    /// end. Makes the task report again as soon as it is resumed, before it executes anything: as in a
    /// group-stop, if its process is stopped.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed.
    pub fn ask(&self) -> Result<()> {
        sys::interrupt(self.tid)
    }

    /// Lets the task go on. Where it was killed meanwhile, the next wait tells of that.
    ///
    /// # Errors
    /// [`TraceeError::Os`] where the kernel refuses.
    pub fn resume(self, how: Resume, signal: Option<Signal>) -> Result<Running> {
        match sys::resume(self.tid, how, signal) {
            Ok(()) | Err(TraceeError::Died(_)) => Ok(Running { tid: self.tid }),
            // Only who stands in a group-stop can be left in it. Whoever was killed there stands, a moment
            // later, in the stop that tells of its end, and the next wait says so.
            Err(error) if how == Resume::Listen && error.is_of_another_stop() => {
                Ok(Running { tid: self.tid })
            }
            Err(error) => Err(error),
        }
    }

    /// Lets the task go from this thread's tracing.
    pub fn detach(self) -> Result<Tid> {
        sys::detach(self.tid)?;
        Ok(self.tid)
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, thread};

    use super::*;
    use crate::{
        filter::Mode,
        spawn::{Spawn, spawn},
    };

    fn begun() -> Stopped {
        spawn(Spawn::alone(CString::new("/bin/true").unwrap(), Mode::Record)).unwrap()
    }

    /// Killed at a signal's stop, the task moves to the stop of its end before anybody waits for it: what the
    /// kernel says there must not be taken for a fault of the program.
    #[test]
    fn a_task_that_was_killed_in_its_stop_has_no_signal() {
        let stopped = begun();
        let tid = stopped.tid();
        sys::tgkill(tid, tid, Signal(10)).unwrap();
        let stopped = stopped.resume(Resume::Cont, None).unwrap().stopped();
        assert_eq!(wait_for(tid).unwrap(), Status::Signal(Signal(10)));
        assert_eq!(SigInfo(stopped.siginfo().unwrap()).signal(), Signal(10));
        sys::tgkill(tid, tid, Signal::KILL).unwrap();
        let end = loop {
            match stopped.siginfo() {
                Ok(info) => assert_eq!(SigInfo(info).signal(), Signal(10)),
                Err(error) => break error,
            }
        };
        assert!(matches!(end, TraceeError::Died(dead) if dead == tid), "{end}");
        // Past the moment in which it can be told nothing: the stop of its end.
        while sys::get_siginfo(tid).is_err() {
            thread::yield_now();
        }
        assert!(matches!(stopped.siginfo(), Err(TraceeError::Died(_))));
        assert_eq!(wait_for(tid).unwrap(), Status::Exit(9));
        drop(stopped.resume(Resume::Cont, None));
        assert_eq!(wait_for(tid).unwrap(), Status::Killed(Signal::KILL));
    }

    /// Killed in its group-stop, the task moves to the stop of its end, where there is no group-stop to be
    /// left in.
    #[test]
    fn a_task_that_was_killed_in_its_group_stop_cannot_be_left_in_it() {
        let stopped = begun();
        let tid = stopped.tid();
        sys::tgkill(tid, tid, Signal::STOP).unwrap();
        let stopped = stopped.resume(Resume::Cont, None).unwrap().stopped();
        assert_eq!(wait_for(tid).unwrap(), Status::Signal(Signal::STOP));
        let stopped = stopped.resume(Resume::Cont, Some(Signal::STOP)).unwrap().stopped();
        assert_eq!(wait_for(tid).unwrap(), Status::GroupStop(Signal::STOP));
        sys::tgkill(tid, tid, Signal::KILL).unwrap();
        while !sys::get_siginfo(tid).is_ok_and(|info| SigInfo(info).is_of_exit_stop()) {
            thread::yield_now();
        }
        let stopped = stopped.resume(Resume::Listen, None).unwrap().stopped();
        assert_eq!(wait_for(tid).unwrap(), Status::Exit(9));
        drop(stopped.resume(Resume::Cont, None));
        assert_eq!(wait_for(tid).unwrap(), Status::Killed(Signal::KILL));
    }
}
