//! System calls that the supervisor makes in a task's name, through the agent's untraced instruction.
//!
//! [`Remote`] is a guard: it saves the registers when it begins and puts them back when it is finished or
//! dropped. It may begin at any stop at which the task would return to its program: after a system call's
//! exit, at a signal, at a first stop, and at a seccomp stop: there the pending call is skipped, and who
//! wants it made sets the registers to make it again.
//!
//! Several calls can be made with one stop where the filter lets them through, as in a recording: the agent
//! goes through a list of them ([`Remote::series`]). In replay, the filter lets some of those through.
//!
//! Where the filter stops every call, as in replay, a call costs two stops: its entry, and the int3 behind
//! it. Of calls that are made in a row ([`Remote::in_a_row`]) each costs one. Their instruction leads to
//! itself: the task comes from one call to the entry of another, which becomes the next of the row, or is
//! skipped.
//!
//! Meanwhile the task's signals are blocked: one that comes waits in the kernel, with all that it says, until
//! the guard is finished. Not the ones of faults: the call ends with an int3, and a blocked SIGTRAP would
//! cost the program its handler. Nor can SIGSTOP be blocked. Such a signal that somebody has sent is sent
//! again at the end; SIGSTOP is kept for whoever lets the task go on ([`keep_stops`]), or is sent again
//! where SIGCONT has not come since.

mod kept;
mod series;

use bis_agent::{ROW_SYSCALL, ROW_SYSCALL_END, UNTRACED_SYSCALL, UNTRACED_SYSCALL_END};
use bis_syscalls::errno::RESTARTS;
use bis_trace::types::{Addr, Registers, Signal, Tid};

pub(crate) use kept::stop_again;
pub use kept::{forget, keep_stops, take_cut_short, take_stop};
pub use series::{MADE, Planned, Returns, Series};

use crate::{
    error::{Result, TraceeError},
    proc::Fields,
    siginfo::SigInfo,
    sys,
    task::{self, Resume, Running, Status, Stopped, Undisturbed},
};

/// Registers for a call made at the agent's instruction, or at any `syscall` instruction `at`.
fn call_registers(saved: &Registers, at: Addr, nr: u64, args: [u64; 6]) -> Registers {
    let [rdi, rsi, rdx, r10, r8, r9] = args;
    // orig_rax of -1 skips a call in progress and keeps the kernel from restarting one.
    Registers { rip: at.0, rax: nr, orig_rax: u64::MAX, rdi, rsi, rdx, r10, r8, r9, ..*saved }.wide()
}

/// Where a task came that executed something of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executed {
    /// To its end, with these registers.
    Whole(Registers),
    /// To an instruction that faulted, with this signal.
    Faulted(Signal, Registers),
}

/// The signals that are blocked during a call: all but SIGILL, SIGTRAP, SIGBUS, SIGFPE and SIGSEGV.
const BLOCKED: u64 = !(1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10);

/// Is this what a call returns that a signal has interrupted? The kernel makes it again, by going back to its
/// instruction.
fn is_made_again(result: i64) -> bool {
    RESTARTS.contains(&result)
}

/// How calls are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Each by itself.
    Single,
    /// In a row: the next one begins it.
    Row,
    /// In a row, and the task stands at the entry of the next one.
    InRow,
}

/// A series of remote calls; see the module's text.
pub struct Remote<'a> {
    task: Option<&'a mut Option<Stopped>>,
    saved: Registers,
    sigmask: u64,
    /// Signals that came while a call was under way all the same, in order; they were not delivered.
    arrived: Vec<SigInfo>,
    /// The task that the last call made (clone, fork).
    new_task: Option<Tid>,
    /// The task was at the exit of a call, which the kernel makes again if it was interrupted.
    is_in_call: bool,
    way: Way,
    /// The task executes something of ours.
    running: Option<Running>,
    /// Where it begins with that, as long as nothing has faulted there.
    begins_at: Option<Addr>,
}

impl<'a> Remote<'a> {
    /// Begins. `slot` holds the stopped task; it is empty only while a call is under way.
    ///
    /// # Errors
    /// As [`Stopped::regs`].
    pub fn new(slot: &'a mut Option<Stopped>) -> Result<Remote<'a>> {
        let stopped = slot.as_mut().expect("a remote call needs a stopped task");
        let (saved, sigmask) = (stopped.regs()?, stopped.sigmask()?);
        stopped.set_sigmask(BLOCKED)?;
        Ok(Remote {
            task: Some(slot),
            saved,
            sigmask,
            arrived: Vec::new(),
            new_task: None,
            is_in_call: false,
            way: Way::Single,
            running: None,
            begins_at: None,
        })
    }

    /// As [`Remote::new`], for calls in a row, in a task whose filter stops every call. Behind them the task
    /// stands at the entry of a call that is skipped ([`Remote::is_at_entry`]).
    ///
    /// # Errors
    /// As [`Stopped::regs`].
    pub fn in_a_row(slot: &'a mut Option<Stopped>) -> Result<Remote<'a>> {
        let mut remote = Remote::new(slot)?;
        remote.way = Way::Row;
        Ok(remote)
    }

    /// As [`Remote::new`], at the exit of a call, which stays in progress: if it was interrupted, the kernel
    /// makes it again when the task goes on. (It looks at the registers for that, wherever the task was
    /// stopped last.) Only for calls that do not wait themselves.
    ///
    /// # Errors
    /// As [`Stopped::regs`].
    pub fn within_call(slot: &'a mut Option<Stopped>) -> Result<Remote<'a>> {
        let mut remote = Remote::new(slot)?;
        remote.is_in_call = true;
        Ok(remote)
    }

    /// The registers as they were, and as they will be again.
    pub fn saved(&self) -> &Registers {
        &self.saved
    }

    /// The task in whose name calls are made.
    pub fn tid(&self) -> Tid {
        self.task.as_ref().and_then(|slot| slot.as_ref()).map_or(Tid(0), Stopped::tid)
    }

    /// Makes the call; the kernel's result, a negated errno in -4095..=-1 on failure.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub fn call(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        match self.way {
            Way::Single => self.call_at(Addr(UNTRACED_SYSCALL), Addr(UNTRACED_SYSCALL_END), nr, args),
            Way::Row | Way::InRow => self.call_in_row(nr, args),
        }
    }

    /// Like [`Remote::call`], at another `syscall; int3`, whose int3 is at `end`: for an address space that
    /// has no agent yet.
    pub fn call_at(&mut self, at: Addr, end: Addr, nr: i64, args: [u64; 6]) -> Result<i64> {
        let regs = call_registers(&self.saved, at, nr.cast_unsigned(), args);
        Ok(self.run_to_int3(&regs, end)?.result())
    }

    /// Lets the task go on with these registers to the int3 at `end`; those that it has there.
    fn run_to_int3(&mut self, regs: &Registers, end: Addr) -> Result<Registers> {
        match self.execute(regs, end)? {
            Executed::Whole(regs) => Ok(regs),
            Executed::Faulted(signal, regs) => {
                let found = format!("{signal} at {:#x}", regs.rip);
                Err(TraceeError::Unexpected { tid: self.tid(), doing: "making a remote call", found })
            }
        }
    }

    /// Lets the task execute something of ours, from these registers to the `int3` at `end`.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub fn execute(&mut self, regs: &Registers, end: Addr) -> Result<Executed> {
        self.begin(regs)?;
        self.end(end)
    }

    /// As [`Remote::execute`], but returns while the task executes that. Nothing else is done before
    /// [`Remote::end`].
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub fn begin(&mut self, regs: &Registers) -> Result<()> {
        let mut stopped = self.take_stopped();
        stopped.set_regs(regs)?;
        self.begins_at = Some(regs.ip());
        self.running = Some(stopped.resume(Resume::Cont, None)?);
        Ok(())
    }

    /// Waits until the task has executed what it has begun.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub fn end(&mut self, end: Addr) -> Result<Executed> {
        let mut running = self.running.take().expect("a task that executes something of ours");
        loop {
            let (mut stopped, status) = self.stop_of(running)?;
            match status {
                // The filters of replay let nothing through by itself: we vouch for this call.
                Status::Seccomp => {}
                Status::Signal(signal) => {
                    let (info, regs) = (SigInfo(stopped.siginfo()?), stopped.regs()?);
                    if self.is_of_program(info, &regs) {
                        running = stopped.resume(Resume::Cont, None)?;
                        continue;
                    }
                    if info.is_fault() {
                        let is_end = info.is_breakpoint() && regs.ip() == end + 1;
                        // A caller that looks at the task sees the program's registers once the guard is
                        // dropped.
                        self.put_stopped(stopped);
                        return Ok(if is_end {
                            Executed::Whole(regs)
                        } else {
                            Executed::Faulted(signal, regs)
                        });
                    }
                    self.arrived.push(info);
                }
                other => stopped = self.pass(stopped, other)?,
            }
            running = stopped.resume(Resume::Cont, None)?;
        }
    }

    /// Makes a call as one of a row.
    fn call_in_row(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        let mut stopped = self.take_stopped();
        let regs = call_registers(&self.saved, Addr(ROW_SYSCALL), nr.cast_unsigned(), args);
        let mut is_entered = self.way == Way::InRow;
        self.way = Way::Row;
        stopped.set_regs(&match is_entered {
            true => Registers { rip: ROW_SYSCALL_END, orig_rax: regs.rax, ..regs },
            false => regs,
        })?;
        self.begins_at = Some(Addr(ROW_SYSCALL)).filter(|_| !is_entered);
        loop {
            let status;
            (stopped, status) = self.next_stop(stopped)?;
            match status {
                Status::Seccomp if !is_entered => is_entered = true,
                Status::Seccomp if stopped.regs()?.rip == ROW_SYSCALL_END => {
                    let result = stopped.regs()?.rbx.cast_signed();
                    self.way = Way::InRow;
                    self.put_stopped(stopped);
                    return Ok(result);
                }
                Status::Signal(_) if self.is_of_program(SigInfo(stopped.siginfo()?), &stopped.regs()?) => {}
                other => {
                    let may_interrupt =
                        matches!(other, Status::Signal(_) | Status::GroupStop(_) | Status::Trap);
                    stopped = self.pass(stopped, other)?;
                    if may_interrupt && is_made_again(stopped.regs()?.result()) {
                        is_entered = false;
                    }
                }
            }
        }
    }

    /// Is this the fault of an instruction of the program? Where a task is asked to stop as that faults, it
    /// says first that it has stopped, and gets the signal as soon as it goes on, wherever that is. The
    /// program's instruction is executed again behind the call, and faults again. (Ours may fault where they
    /// begin, too: those do so twice.)
    fn is_of_program(&mut self, info: SigInfo, regs: &Registers) -> bool {
        info.is_fault()
            && info.signal() != Signal::TRAP
            && self.begins_at.take_if(|at| *at == regs.ip()).is_some()
    }

    fn take_stopped(&mut self) -> Stopped {
        let slot = self.task.as_mut().expect("a guard that is not finished");
        slot.take().expect("a stopped task")
    }

    fn put_stopped(&mut self, stopped: Stopped) {
        let slot = self.task.as_mut().expect("a guard that is not finished");
        **slot = Some(stopped);
    }

    /// Lets the task go on to its next stop.
    fn next_stop(&self, stopped: Stopped) -> Result<(Stopped, Status)> {
        self.stop_of(stopped.resume(Resume::Cont, None)?)
    }

    /// Waits for its next stop.
    fn stop_of(&self, running: Running) -> Result<(Stopped, Status)> {
        let tid = running.tid();
        let status = task::wait_for(tid)?;
        if !matches!(status, Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) {
            return Ok((running.stopped(), status));
        }
        if matches!(status, Status::Exit(_)) {
            // A caller that asks how far this task came means its program, and not this call.
            let _ = running.stopped().set_regs(&self.saved);
        }
        task::put_back(tid, status);
        Err(TraceeError::Died(tid))
    }

    /// A stop that is none of the call's own: remembers what is to be remembered of it. An error: the call
    /// does not get through.
    fn pass(&mut self, stopped: Stopped, status: Status) -> Result<Stopped> {
        let found = match status {
            Status::Signal(signal) => {
                let info = SigInfo(stopped.siginfo()?);
                if !info.is_fault() {
                    self.arrived.push(info);
                    return Ok(stopped);
                }
                format!("{signal} at {:#x}", stopped.regs()?.rip)
            }
            Status::GroupStop(_) | Status::Trap => return Ok(stopped),
            Status::NewTask(child) => {
                self.new_task = Some(child);
                return Ok(stopped);
            }
            other => other.to_string(),
        };
        let tid = stopped.tid();
        // A caller that looks at it sees the program's registers, not those of this call.
        self.put_stopped(stopped);
        Err(TraceeError::Unexpected { tid, doing: "making a remote call", found })
    }

    /// Does the task stand at the entry of a call, which is skipped when it goes on? A single step from there
    /// ends before an instruction is executed.
    pub fn is_at_entry(&self) -> bool {
        self.way == Way::InRow
    }

    /// Gives the task in whose name calls are made thread-local storage as 32-bit programs have it.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where the task ended meanwhile.
    pub fn set_segment(&mut self, descriptor: &[u8; 16]) -> Result<()> {
        match self.task.as_mut().and_then(|slot| slot.as_mut()) {
            Some(stopped) => stopped.set_segment(descriptor),
            None => Err(TraceeError::Died(Tid(0))),
        }
    }

    /// The task that the last call made (clone, fork), stopped before its first instruction, which is the
    /// agent's; set its registers before it runs.
    ///
    /// # Errors
    /// [`TraceeError::Unexpected`] where the last call made none.
    pub fn take_new_task(&mut self) -> Result<Stopped> {
        let Some(tid) = self.new_task.take() else {
            let tid = self.task.as_ref().and_then(|slot| slot.as_ref()).map_or(Tid(0), Stopped::tid);
            return Err(TraceeError::Unexpected { tid, doing: "making a task", found: "no new task".into() });
        };
        match task::wait_for(tid)? {
            status @ (Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) => {
                task::put_back(tid, status);
                Err(TraceeError::Died(tid))
            }
            _ => Ok(Stopped::adopt(tid)),
        }
    }

    /// Like [`Remote::call`], for a call that must not fail.
    pub fn must(&mut self, what: &'static str, nr: i64, args: [u64; 6]) -> Result<u64> {
        let result = self.call(nr, args)?;
        self.check(what, result)
    }

    /// What a call has returned that must not fail.
    ///
    /// # Errors
    /// [`TraceeError::Os`] where it has.
    pub fn check(&self, what: &'static str, result: i64) -> Result<u64> {
        if (-4095..0).contains(&result) {
            return Err(self.refused(what, result));
        }
        Ok(result.cast_unsigned())
    }

    /// The error of a call that has returned this.
    fn refused(&self, what: &'static str, result: i64) -> TraceeError {
        let errno = i32::try_from(-result).unwrap_or(0);
        TraceeError::Os { what, tid: self.tid(), source: std::io::Error::from_raw_os_error(errno) }
    }

    /// Puts the registers back (with `orig_rax` of -1: no call is in progress any more) and the signal mask,
    /// and ends. A guard that is dropped without, because something in between has failed, does the same.
    ///
    /// # Errors
    /// Where the task has died.
    pub fn finish(mut self) -> Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<()> {
        let Some(Some(stopped)) = self.task.take() else { return Ok(()) };
        let orig_rax = if self.is_in_call { self.saved.orig_rax } else { u64::MAX };
        let tid = stopped.tid();
        if let Err(error) = stopped.set_regs(&Registers { orig_rax, ..self.saved }) {
            // In the stop of its end it will show those of the call.
            kept::keep_cut_short(tid, self.saved);
            return Err(error);
        }
        stopped.set_sigmask(self.sigmask)?;
        for info in &self.arrived {
            match info.signal() {
                Signal::STOP => kept::stopped_by(tid, info)?,
                _ => {
                    let process = Fields::of(tid).and_then(|fields| fields.tid("Tgid"));
                    sys::send_again(process.ok_or(TraceeError::Died(tid))?, tid, info)?;
                }
            }
        }
        Ok(())
    }
}

/// Lets a task that stands at the entry of a call, which is skipped, go on with these registers to the entry
/// of the call that they make. Its signals wait meanwhile, and nothing of what it executes can fault.
///
/// # Errors
/// [`TraceeError::Died`] where the task ended meanwhile.
pub fn go_to_call(slot: &mut Option<Stopped>, regs: &Registers) -> Result<()> {
    let mut stopped = slot.take().expect("a stopped task");
    let tid = stopped.tid();
    let undisturbed = Undisturbed::begin(&mut stopped)?;
    stopped.set_regs(regs)?;
    let mut halts = None;
    loop {
        let running = stopped.resume(Resume::Cont, None)?;
        let status = task::wait_for(tid)?;
        if let Status::Exited(_) | Status::Killed(_) | Status::Exit(_) = status {
            task::put_back(tid, status);
            return Err(TraceeError::Died(tid));
        }
        stopped = running.stopped();
        match status {
            Status::Seccomp => break,
            Status::Signal(Signal::STOP) => halts = Some(SigInfo(stopped.siginfo()?)),
            Status::GroupStop(_) | Status::Trap => {}
            other => {
                let found = other.to_string();
                *slot = Some(stopped);
                return Err(TraceeError::Unexpected { tid, doing: "going to a call", found });
            }
        }
    }
    drop(undisturbed);
    *slot = Some(stopped);
    halts.map_or(Ok(()), |info| kept::stopped_by(tid, &info))
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // Whatever led here is what is told; a task that has died meanwhile needs nothing.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use bis_agent::ARGUMENT_AT;
    use bis_trace::types::{Fd, PAGE};

    use super::*;
    use crate::{
        filter::Mode,
        image,
        memory::Memory,
        spawn::{Spawn, spawn},
        task::Undisturbed,
    };

    const PLACE: u64 = 0x10_0000;

    fn mmap(at: u64, returns: u64) -> Planned {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let flags = flags.cast_unsigned().into();
        let returns = Returns::This(returns);
        Planned { nr: libc::SYS_mmap, args: [at, PAGE, 3, flags, u64::MAX, 0], returns }
    }

    /// One task whose filter stops every call, and one whose filter lets ours through.
    fn both_modes() -> [(Option<Stopped>, Memory); 2] {
        let spec = Spawn::alone(CString::new("/bin/true").unwrap(), Mode::Record);
        let stopped = spawn(spec).unwrap();
        let memory = Memory::open(stopped.tid()).unwrap();
        let mut recorded = Some(stopped);
        image::prepare_recorded(&mut recorded, &memory).unwrap();
        [image::spawn_stub("bis-remote").unwrap(), (recorded, memory)]
    }

    fn end(slot: Option<Stopped>) {
        let tid = slot.expect("it is stopped still").tid();
        sys::kill(tid, Signal::KILL).unwrap();
        let _ = task::wait_for(tid);
    }

    #[test]
    fn calls_of_a_series_have_the_descriptor_that_one_before_them_has_made() {
        for (mut slot, memory) in both_modes() {
            let mut remote = Remote::new(&mut slot).unwrap();
            let tid = remote.tid();
            let descriptors = || crate::proc::fds(tid).unwrap().len();
            let open = |name: &[u8]| {
                memory.write(Addr(ARGUMENT_AT), name).unwrap();
                let args = [Fd::CURRENT_FOLDER.arg(), ARGUMENT_AT, 0, 0, 0, 0];
                Planned { nr: libc::SYS_openat, args, returns: Returns::Descriptor }
            };
            let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE).cast_unsigned().into();
            let map = |at: u64| {
                let args = [at, PAGE, 1, flags, MADE, 0];
                Planned { nr: libc::SYS_mmap, args, returns: Returns::This(at) }
            };
            let close =
                Planned { nr: libc::SYS_close, args: [MADE, 0, 0, 0, 0, 0], returns: Returns::This(0) };
            let before = descriptors();
            // So many that the descriptor goes from one list to the next.
            let maps = (0..40).map(|n| map(PLACE + n * PAGE));
            let calls: Vec<Planned> = [open(b"/bin/true\0")].into_iter().chain(maps).chain([close]).collect();
            assert_eq!(remote.series(&memory, &calls).unwrap().made, calls.len());
            assert_eq!(memory.read_vec(Addr(PLACE + 39 * PAGE), 4).unwrap(), b"\x7fELF");
            assert_eq!(descriptors(), before);
            // It is said which one it is, where the series ends early.
            let calls = [open(b"/bin/true\0"), map(PLACE), close];
            let Series { made, descriptor, .. } = remote.series(&memory, &calls).unwrap();
            assert_eq!((made, descriptors()), (1, before + 1));
            assert_eq!(remote.call(close.nr, [descriptor.unwrap().arg(), 0, 0, 0, 0, 0]).unwrap(), 0);
            assert_eq!(descriptors(), before);
            // None is made.
            let calls = [open(b"/no/such/file\0"), map(PLACE + 50 * PAGE)];
            let series = remote.series(&memory, &calls).unwrap();
            assert_eq!(series, Series { made: 0, result: -i64::from(libc::ENOENT), descriptor: None });
            remote.finish().unwrap();
            end(slot);
        }
    }

    #[test]
    fn a_series_ends_with_the_first_call_that_returns_something_else() {
        for (mut slot, memory) in both_modes() {
            let before = slot.as_ref().unwrap().regs().unwrap();
            let mut remote = Remote::new(&mut slot).unwrap();
            let calls = [0, 1, 2].map(|n| mmap(PLACE + n * PAGE, PLACE + n * PAGE));
            let Series { made, result, .. } = remote.series(&memory, &calls).unwrap();
            assert_eq!((made, result), (3, (PLACE + 2 * PAGE).cast_signed()));
            memory.write(Addr(PLACE), &[1; 3 * PAGE as usize]).unwrap();
            // The second one is refused, and nobody comes to the third.
            let calls = [3, 0, 4].map(|n| mmap(PLACE + n * PAGE, PLACE + n * PAGE));
            let Series { made, result, .. } = remote.series(&memory, &calls).unwrap();
            assert_eq!((made, result), (1, -i64::from(libc::EEXIST)));
            assert!(memory.read_u32(Addr(PLACE + 4 * PAGE)).is_err());
            assert!(remote.must_all("map", &memory, &calls).is_err());
            assert_eq!(remote.series(&memory, &[]).unwrap().made, 0);
            // More than there is room for at once.
            let many: Vec<Planned> = (10..50).map(|n| mmap(PLACE + n * PAGE, PLACE + n * PAGE)).collect();
            remote.must_all("map", &memory, &many).unwrap();
            remote.finish().unwrap();
            let after = slot.as_ref().unwrap().regs().unwrap();
            assert_eq!(after, Registers { orig_rax: u64::MAX, ..before });
            end(slot);
        }
    }

    #[test]
    fn calls_in_a_row_return_what_single_ones_do() {
        for (mut slot, memory) in both_modes() {
            let before = slot.as_ref().unwrap().regs().unwrap();
            let tid = i64::from(slot.as_ref().unwrap().tid().0);
            let mut remote = Remote::in_a_row(&mut slot).unwrap();
            assert!(!remote.is_at_entry());
            assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid);
            assert!(remote.is_at_entry());
            let Planned { nr, args, .. } = mmap(PLACE, PLACE);
            assert_eq!(remote.call(nr, args).unwrap(), PLACE.cast_signed());
            assert_eq!(remote.call(nr, args).unwrap(), -i64::from(libc::EEXIST));
            // PTRACE_TRACEME of one that is traced.
            assert_eq!(remote.call(libc::SYS_ptrace, [0; 6]).unwrap(), -i64::from(libc::EPERM));
            assert_eq!(remote.call(libc::SYS_prctl, [0; 6]).unwrap(), -i64::from(libc::EINVAL));
            assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid);
            // The numbers of calls that no filter stops.
            let file = remote.call(libc::SYS_memfd_create, [bis_agent::MEMFD_NAME, 0, 0, 0, 0, 0]).unwrap();
            for number in [335, 336] {
                let args = [file.cast_unsigned(), number, 0, 0, 0, 0];
                assert_eq!(remote.call(libc::SYS_dup2, args).unwrap(), number.cast_signed());
            }
            assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid);
            remote.finish().unwrap();
            assert_eq!(memory.read_u32(Addr(PLACE)).unwrap(), 0);
            let after = slot.as_ref().unwrap().regs().unwrap();
            assert_eq!(after, Registers { orig_rax: u64::MAX, ..before });
            // Calls by themselves behind a row, and a row behind those.
            let mut remote = Remote::new(&mut slot).unwrap();
            assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid);
            remote.finish().unwrap();
            let mut remote = Remote::in_a_row(&mut slot).unwrap();
            assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid);
            remote.finish().unwrap();
            end(slot);
        }
    }

    #[test]
    fn a_call_of_a_row_that_a_signal_interrupts_is_made_again() {
        let (mut slot, _memory) = image::spawn_stub("bis-remote").unwrap();
        let tid = slot.as_ref().unwrap().tid();
        let mut remote = Remote::in_a_row(&mut slot).unwrap();
        assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid.0.into());
        // A fork with a signal before it is begun anew by the kernel.
        sys::kill(tid, Signal::STOP).unwrap();
        let flags = u64::from((libc::CLONE_PARENT | libc::SIGCHLD).cast_unsigned());
        let made = remote.call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]).unwrap();
        let child = remote.take_new_task().unwrap();
        assert_eq!(made, child.tid().0.into());
        assert_eq!(remote.arrived.len(), 1);
        assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), tid.0.into());
        drop(remote);
        end(Some(child));
        end(slot);
    }

    #[test]
    fn a_call_that_faults_leaves_registers_and_mask_as_they_were() {
        let spec = Spawn::alone(CString::new("/bin/true").unwrap(), Mode::Record);
        let stopped = spawn(spec).unwrap();
        let (tid, regs, mask) = (stopped.tid(), stopped.regs().unwrap(), stopped.sigmask().unwrap());
        let mut slot = Some(stopped);
        let mut remote = Remote::new(&mut slot).unwrap();
        let error = remote.call_at(Addr(16), Addr(18), libc::SYS_getpid, [0; 6]).unwrap_err();
        assert!(matches!(error, TraceeError::Unexpected { .. }), "{error}");
        drop(remote);
        let mut stopped = slot.expect("it is stopped still");
        assert_eq!(stopped.regs().unwrap(), Registers { orig_rax: u64::MAX, ..regs });
        assert_eq!(stopped.sigmask().unwrap(), mask);
        let undisturbed = Undisturbed::begin(&mut stopped).unwrap();
        assert_ne!(stopped.sigmask().unwrap(), mask);
        drop(undisturbed);
        assert_eq!(stopped.sigmask().unwrap(), mask);
        sys::kill(tid, Signal::KILL).unwrap();
    }
    #[test]
    fn signals_that_are_sent_during_a_call_come_behind_it() {
        let (mut slot, _memory) = image::spawn_stub("bis-remote").unwrap();
        let tid = slot.as_ref().unwrap().tid();
        let mut remote = Remote::new(&mut slot).unwrap();
        // What a fault would be, sent; and one that can be blocked.
        for signal in [Signal::SEGV, Signal::TRAP, Signal(15)] {
            sys::kill(tid, signal).unwrap();
        }
        assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), i64::from(tid.0));
        assert_eq!(remote.call(libc::SYS_gettid, [0; 6]).unwrap(), i64::from(tid.0));
        remote.finish().unwrap();
        let mut stopped = slot.unwrap();
        let mut found = Vec::new();
        for _ in 0..3 {
            let running = stopped.resume(Resume::Cont, None).unwrap();
            assert!(matches!(task::wait_for(tid).unwrap(), Status::Signal(_)));
            stopped = running.stopped();
            let info = SigInfo(stopped.siginfo().unwrap());
            assert_eq!(info.sender(), crate::ours::process_id());
            found.push(info.signal());
        }
        found.sort_unstable();
        assert_eq!(found, [Signal::TRAP, Signal::SEGV, Signal(15)]);
        sys::kill(tid, Signal::KILL).unwrap();
        let _ = task::wait_for(tid);
    }
}
