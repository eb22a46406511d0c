//! System calls that the supervisor makes in a task's name, through the agent's untraced instruction.
//!
//! [`Remote`] is a guard: it saves the registers when it begins and puts them back when it is finished or
//! dropped. It may begin at any stop at which the task would return to its program: after a system call's
//! exit, at a signal, at a first stop, and at a seccomp stop: there the pending call is skipped, and who
//! wants it made sets the registers to make it again.
//!
//! Meanwhile the task's signals are blocked: one that comes waits in the kernel, with all that it says, until
//! the guard is finished. Not the ones of faults: the call ends with an int3, and a blocked SIGTRAP would
//! cost the program its handler. Nor can SIGSTOP be blocked. Such a signal that somebody has sent is sent
//! again at the end.

use bis_agent::{UNTRACED_SYSCALL, UNTRACED_SYSCALL_END};
use bis_trace::types::{Addr, Registers, Signal, Tid};

use crate::{
    error::{Result, TraceeError},
    proc::Fields,
    siginfo::SigInfo,
    sys,
    task::{self, Resume, Status, Stopped, Undisturbed},
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
        })
    }

    /// The same at the exit of a call, which stays in progress: if it was interrupted, the kernel makes it
    /// again when the task goes on. (It looks at the registers for that, wherever the task was stopped last.)
    /// Only for calls that do not wait themselves.
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
        self.call_at(Addr(UNTRACED_SYSCALL), Addr(UNTRACED_SYSCALL_END), nr, args)
    }

    /// Like [`Remote::call`], at another `syscall; int3`, whose int3 is at `end`: for an address space that
    /// has no agent yet.
    pub fn call_at(&mut self, at: Addr, end: Addr, nr: i64, args: [u64; 6]) -> Result<i64> {
        let regs = call_registers(&self.saved, at, nr.cast_unsigned(), args);
        match self.execute(&regs, end)? {
            Executed::Whole(regs) => Ok(regs.result()),
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
        let slot = self.task.as_mut().expect("a guard that is not finished");
        let mut stopped = slot.take().expect("a stopped task");
        stopped.set_regs(regs)?;
        let tid = stopped.tid();

        loop {
            let running = stopped.resume(Resume::Cont, None)?;
            let status = task::wait_for(tid)?;
            stopped = match status {
                Status::Exited(_) | Status::Killed(_) | Status::Exit(_) => {
                    if matches!(status, Status::Exit(_)) {
                        // Whoever asks how far this task came means its program, and not this call.
                        let _ = running.stopped().set_regs(&self.saved);
                    }
                    task::put_back(tid, status);
                    return Err(TraceeError::Died(tid));
                }
                _ => running.stopped(),
            };
            match status {
                // The filters of replay let nothing through by itself: we vouch for this call.
                Status::Seccomp => {}
                Status::Signal(found) => {
                    let info = SigInfo(stopped.siginfo()?);
                    let regs = stopped.regs()?;
                    let is_end = found == Signal::TRAP && info.is_breakpoint() && regs.ip() == end + 1;
                    if is_end || info.is_fault() {
                        // Whoever looks at the task sees the program's registers once the guard is dropped.
                        **slot = Some(stopped);
                        return Ok(if is_end {
                            Executed::Whole(regs)
                        } else {
                            Executed::Faulted(found, regs)
                        });
                    }
                    self.arrived.push(info);
                }
                Status::GroupStop(_) | Status::Trap => {}
                Status::NewTask(child) => self.new_task = Some(child),
                other => {
                    let found = other.to_string();
                    **slot = Some(stopped);
                    return Err(TraceeError::Unexpected { tid, doing: "making a remote call", found });
                }
            }
        }
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
        if (-4095..0).contains(&result) {
            let tid = self.task.as_ref().and_then(|slot| slot.as_ref()).map(Stopped::tid);
            let errno = i32::try_from(-result).unwrap_or(0);
            return Err(TraceeError::Os {
                what,
                tid: tid.expect("a call that returned leaves the task stopped"),
                source: std::io::Error::from_raw_os_error(errno),
            });
        }
        Ok(result.cast_unsigned())
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
        stopped.set_regs(&Registers { orig_rax, ..self.saved })?;
        stopped.set_sigmask(self.sigmask)?;
        let tid = stopped.tid();
        for info in &self.arrived {
            match info.signal() {
                Signal::STOP => sys::kill(tid, Signal::STOP)?,
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
    let mut is_halted = false;
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
            Status::Signal(Signal::STOP) => is_halted = true,
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
    if is_halted { sys::kill(tid, Signal::STOP) } else { Ok(()) }
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

    use super::*;
    use crate::{
        filter::Mode,
        image,
        spawn::{Program, Spawn, spawn},
        task::Undisturbed,
    };

    #[test]
    fn a_call_that_faults_leaves_registers_and_mask_as_they_were() {
        let path = CString::new("/bin/true").unwrap();
        let (argv, program) = (vec![path.clone()], Program::Path(path));
        let stopped =
            spawn(Spawn { program, argv, envp: vec![], cwd: None, file_limit: None, mode: Mode::Record })
                .unwrap();
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
