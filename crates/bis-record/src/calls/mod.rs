//! The calls that the table leaves to the recorder: what is done at their entry ([`Domain::enter`]) and at their
//! exit ([`Domain::leave`]), by family.

mod args;
mod cloned;
mod entry;
mod failed;
mod identity;
pub mod left_out;
mod memory;
mod nested;
mod objects;
mod ours;
mod output;
mod outside;
mod remote_memory;
mod results;
mod sandbox;
mod shortened;
mod shown;
mod steps;
mod unreadable;
mod views;
mod vsyscall;

pub use cloned::{CLONE_BYTES_MIN, Cloning};
pub use entry::{Entry, Reader};
pub use outside::Looked;
pub use results::reads_much_of_a_file;
pub use sandbox::held::Held;
pub use shown::{ShownText, is_shown};
pub use vsyscall::is_vsyscall;

use bis_syscalls::{Call, Handler};
use bis_trace::{event::Outcome, types::Tid};

use crate::{domain::Domain, error::Result, task::InCall};

impl Domain {
    /// Does this call wait until another task has done something, whatever the table says?
    pub fn waits_for_others(&self, handler: Handler, call: &Call) -> bool {
        use Handler::{Clone, Clone3, Execve, Execveat, Vfork};
        const CLONE_VFORK: u64 = 0x4000;
        match handler {
            Execve | Execveat | Vfork => true,
            Clone => call.args[0] & CLONE_VFORK != 0,
            Clone3 => self.memory.read_u64(call.args[0]).is_ok_and(|flags| flags & CLONE_VFORK != 0),
            _ => false,
        }
    }

    /// At the entry of a call of this handler.
    pub fn enter(&mut self, tid: Tid, handler: Handler, call: &Call) -> Result<Entry> {
        use Handler as H;
        if matches!(handler, H::Munmap | H::Mprotect | H::Madvise | H::Mremap)
            && let Some(entry) = self.enter_over_ours(tid, handler, call)?
        {
            return Ok(entry);
        }
        match handler {
            H::Madvise => self.enter_madvise(tid, call),
            H::Mmap => self.enter_mmap(tid, call),
            H::Shmat => self.enter_shmat(tid, call),
            H::RemapFilePages | H::PkeyMprotect => Ok(Entry::Done(-i64::from(libc::ENOSYS))),
            H::Clone | H::Clone3 => self.enter_clone(tid, handler, call),
            H::Exit | H::ExitGroup => {
                self.write_entry(tid)?;
                Ok(Entry::Make)
            }
            H::Prctl => self.enter_prctl(tid, call),
            H::ArchPrctl => self.enter_arch_prctl(tid, call),
            H::Seccomp => self.enter_seccomp(tid, call),
            H::Personality => self.enter_personality(tid, call),
            H::SchedSetaffinity => self.enter_setaffinity(tid, call),
            H::ProcessVmWritev => self.enter_process_vm_writev(tid, call),
            H::Write | H::Writev | H::Pwrite64 | H::Pwritev | H::Pwritev2 => self.enter_write(tid, call),
            H::Sendfile | H::Splice | H::Tee | H::Vmsplice | H::CopyFileRange => {
                self.enter_transfer(tid, handler, call)
            }
            H::Truncate | H::Ftruncate | H::Fallocate => self.enter_truncate(tid, call),
            H::Open => self.enter_open(tid, call),
            H::Ioctl => Ok(self.enter_ioctl(tid, call)),
            H::Execve | H::Execveat => {
                if let Some(entry) = self.enter_left_out(tid, handler, call)? {
                    return Ok(entry);
                }
                if let Some(entry) = self.enter_unreadable(tid, handler, call)? {
                    return Ok(entry);
                }
                let pid = self.task(tid)?.pid;
                self.session.mail.begin_exec(pid);
                self.ask_robust_list(tid);
                let writes = self.orphaned_futexes(tid);
                self.task(tid)?.at_exec = writes;
                Ok(Entry::Make)
            }
            _ => Ok(Entry::Make),
        }
    }

    /// At the exit of a call of this handler that was made; `result` may be an error.
    pub fn leave(
        &mut self,
        tid: Tid,
        handler: Handler,
        call: &mut InCall,
        result: i64,
        outcome: &mut Outcome,
    ) -> Result<()> {
        use Handler as H;
        let args = call.entry.args();
        if handler == H::SigReturn {
            // Its "result" is whatever rax was where the signal came.
            outcome.xstate = Some(self.stopped(tid)?.xstate()?);
            return Ok(());
        }
        if matches!(handler, H::Execve | H::Execveat) {
            let pid = self.task(tid)?.pid;
            self.session.mail.end_exec(pid);
            self.leave_no_stand_in(tid)?;
        }
        if (-4095..0).contains(&result) {
            if handler == H::Madvise {
                // The advice may have been another one (`enter_madvise`).
                outcome.regs.rdx = call.entry.rdx;
            }
            return self.leave_failed(tid, handler, args, outcome);
        }
        self.tell_views(tid, handler, call, result, outcome)?;
        match handler {
            H::Mmap => self.leave_mmap(tid, args, result.cast_unsigned(), outcome),
            H::Munmap => self.leave_munmap(args, outcome),
            H::Mprotect => self.leave_mprotect(tid, args, outcome),
            H::Mremap => self.leave_mremap(tid, args, result.cast_unsigned(), outcome),
            H::Brk => self.leave_brk(tid, result.cast_unsigned(), outcome),
            H::Madvise => self.leave_madvise(args, call, outcome),
            H::Shmat => self.leave_shmat(tid, call, result.cast_unsigned(), outcome),
            H::Shmdt => self.leave_shmdt(args, outcome),
            H::Ftruncate | H::Truncate | H::Fallocate => self.leave_truncate(tid, handler, call, outcome),
            H::Write | H::Writev | H::Pwrite64 | H::Pwritev | H::Pwritev2 => {
                self.leave_write(tid, call, result, outcome)
            }
            H::Sendfile | H::CopyFileRange => self.leave_transfer(tid, call, result, outcome),
            H::Ioctl => self.leave_ioctl(tid, call, outcome),
            H::Open => self.leave_open(tid, call, i32::try_from(result).unwrap_or(-1), outcome),
            H::SetTidAddress => {
                self.task(tid)?.clear_tid = args[0];
                Ok(())
            }
            H::SetRobustList => {
                self.task(tid)?.robust_list = args[0];
                Ok(())
            }
            H::RtSigqueueinfo | H::PidfdSendSignal => {
                self.leave_queue(args[1], args[2]);
                Ok(())
            }
            H::RtTgsigqueueinfo => {
                self.leave_queue(args[2], args[3]);
                Ok(())
            }
            H::Personality => self.leave_personality(tid, call, result, outcome),
            H::SchedGetaffinity => self.leave_getaffinity(tid, args, result, outcome),
            H::ProcessVmWritev => self.leave_process_vm_writev(tid, args, result, outcome),
            _ => Ok(()),
        }
    }
}
