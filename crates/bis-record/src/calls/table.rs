//! What the recorder does at the two ends of the calls that their rows (`bis_syscalls`) leave to it: a row
//! for each here, too, whose columns are what is special about the call.
//!
//! What is so of a call wherever it is made is a column of its row in `bis_syscalls`, for plain calls, too:
//! where its arguments lie (`arguments.rs`: what it moves, opens, makes or limits, and whom it sends a
//! signal), whether it is certain to wait, whether it sets a timer. Other files ask for these columns, and
//! know which call it is only where that is no property of a row:
//! - whom a wait is for, which `wait4` and `waitid` say in two ways (`traced/wanted.rs`);
//! - whether the kernel has the task in an exec, or in an end, while it is between the two ends of its call
//!   (`task.rs` `InCall::is_exec`, `checkpoints/ended.rs`, `calls/sandbox.rs`);
//! - a futex's word, which is written down before the call returns (`events.rs`);
//! - `close_range`, after which the hooks know no descriptor (`hooks/classes.rs`);
//! - `rseq`, which is refused, but not to a program that had it before it was found (`call.rs`);
//! - one request of `ioctl` (`calls/shown/reading.rs`), and `set_thread_area`, which only the 32-bit table
//!   has (`calls/narrow.rs`);
//! - a write, which chaos leaves to its hook where it goes to a regular file (`chaos.rs`), and the calls in
//!   whose places the kernel's clock functions are patched (`hooks/patching.rs`);
//! - the three calls that come another way than through a `syscall` of the program's (`calls/vsyscall.rs`).

use bis_syscalls::{Call, Handler};
use bis_trace::types::{Addr, Registers, Tid};

use super::{
    Entry,
    args::{CLONE_VFORK, CloneArgs, ExecArgs},
    entry::{Exit, Touches},
};
use crate::{crew::Crew, domain::Domain, error::Result, task::InCall};

type Enter = fn(&mut Domain, Tid, &Call) -> Result<Entry>;
type Again = fn(&mut Domain, Tid) -> Result<Entry>;
type Stays = fn(&mut Domain, Tid, &Registers) -> Result<bool>;
pub type Leave = fn(&mut Domain, &mut Exit<'_>) -> Result<()>;

/// The row of a call.
#[derive(Clone, Copy)]
pub struct Steps {
    /// Does it wait until another task has done something, whatever the table of all calls says?
    pub waits: fn(&Crew, &Call) -> bool,
    /// It copies the caller's address space: nobody may change that from the call's begin on, until it is
    /// known where the copy is. Or it changes what is mapped there: nobody may copy that before its event.
    pub is_about_space: bool,
    /// The file or segment whose content it changes, or shows.
    pub touches: Touches,
    /// At its entry.
    pub enter: Enter,
    /// Where the kernel makes it again that was interrupted.
    pub again: Again,
    /// It has come back with these registers: true: it is not over, and the task makes it once more.
    pub stays: Stays,
    /// At its exit, where it has succeeded.
    pub leave: Leave,
    /// At its exit, where it has failed.
    pub failed: Leave,
    /// It returns from a signal's handler, to where that was called: what it returns says nothing of how it
    /// went, and what the handler has kept back may come.
    pub returns_from_handler: bool,
}

const PLAIN: Steps = Steps {
    waits: |_, _| false,
    is_about_space: false,
    touches: Touches::Target,
    enter: |_, _, _| Ok(Entry::Make),
    again: |_, _| Ok(Entry::Make),
    stays: |_, _, _| Ok(false),
    leave: |_, _| Ok(()),
    failed: |_, _| Ok(()),
    returns_from_handler: false,
};

const REFUSED: Steps = Steps { enter: |_, _, _| Ok(Entry::Done(-i64::from(libc::ENOSYS))), ..PLAIN };

const WRITE: Steps = Steps { enter: Domain::enter_write, leave: Domain::leave_write, ..PLAIN };

/// A transfer that may wait for somebody; into a shared object it is not made.
const TRANSFER: Steps = Steps { enter: |domain, tid, call| domain.enter_transfer(tid, call, false), ..PLAIN };

/// One that does not wait where it reads from a regular file.
const COPY: Steps = Steps {
    enter: |domain, tid, call| domain.enter_transfer(tid, call, true),
    leave: Domain::leave_transfer,
    ..PLAIN
};

const LENGTH: Steps = Steps {
    touches: Touches::Length,
    enter: |domain, tid, call| domain.enter_truncate(tid, call),
    leave: |domain, it| domain.leave_truncate(it).map(drop),
    ..PLAIN
};

/// It changes what is mapped, or what may be done there.
const SPACE: Steps = Steps { is_about_space: true, ..PLAIN };

/// It makes a task, by copying the caller's memory or by sharing it, and may wait for it.
const COPIES: Steps = Steps {
    waits: |crew, call| CloneArgs::of(call, &crew.memory).flags & CLONE_VFORK != 0,
    is_about_space: true,
    ..PLAIN
};

const EXEC: Steps = Steps {
    waits: |_, _| true,
    leave: |domain, it| domain.leave_exec(it),
    failed: |domain, it| domain.leave_exec(it),
    ..PLAIN
};

/// Until it is on its way out, nobody else goes on: another thread of a process that ends would be killed in
/// the middle of what it does.
const EXIT: Steps =
    Steps { enter: |domain, tid, _| domain.write_entry(tid).map(|()| Entry::MakeAtOnce), ..PLAIN };

/// The row of the calls of this handler.
#[rustfmt::skip]
pub fn steps(handler: Handler) -> Steps {
    use Handler as H;
    match handler {
        H::Mmap => Steps { touches: Touches::Mapped, enter: |domain, tid, call| domain.enter_mmap(tid, call), leave: Domain::leave_mmap, failed: Domain::fail_mmap, ..SPACE },
        H::Munmap => Steps { enter: Domain::enter_munmap, leave: |domain, it| domain.leave_munmap(it.tid, it.args(), it.outcome), ..SPACE },
        H::Mprotect => Steps { enter: |domain, tid, call| domain.enter_mprotect(tid, call), leave: |domain, it| domain.tell_protected(it.tid, it.args(), it.outcome), failed: |domain, it| domain.fail_mprotect(it.tid, it.args(), it.outcome), ..SPACE },
        H::Mremap => Steps { enter: |domain, tid, call| domain.enter_mremap(tid, call), leave: Domain::leave_mremap, failed: Domain::fail_mremap, ..SPACE },
        H::Brk => Steps { leave: |domain, it| domain.leave_brk(it), ..SPACE },
        H::Madvise => Steps { enter: |domain, tid, call| domain.enter_madvise(tid, call), leave: |domain, it| domain.leave_madvise(it), failed: |domain, it| domain.fail_madvise(it), ..SPACE },
        H::RemapFilePages | H::PkeyMprotect => REFUSED,
        H::Shmat => Steps { touches: Touches::Segment, enter: |domain, tid, call| domain.enter_shmat(tid, call), leave: Domain::leave_shmat, ..SPACE },
        H::Shmdt => Steps { leave: Domain::leave_shmdt, ..SPACE },

        H::Clone => Steps { enter: |domain, tid, call| domain.enter_clone(tid, call), ..COPIES },
        H::Clone3 => Steps { enter: |domain, tid, call| domain.enter_clone3(tid, call), ..COPIES },
        H::Fork => Steps { enter: |domain, tid, _| Ok(domain.enter_copy(tid)), ..COPIES },
        H::Vfork => Steps { is_about_space: false, ..COPIES },
        H::Execve => Steps { enter: |domain, tid, call| domain.enter_exec(tid, ExecArgs::of_execve(call)), ..EXEC },
        H::Execveat => Steps { enter: |domain, tid, call| domain.enter_exec(tid, ExecArgs::of_execveat(call)), ..EXEC },
        H::Exit | H::ExitGroup => EXIT,
        H::SetTidAddress => Steps { leave: |domain, it| { domain.task(it.tid)?.named.set_clear_tid(Addr(it.args()[0])); Ok(()) }, ..PLAIN },
        H::SetRobustList => Steps { leave: |domain, it| { domain.task(it.tid)?.named.set_robust_list(Addr(it.args()[0])); Ok(()) }, ..PLAIN },

        H::ArchPrctl => Steps { enter: |domain, tid, call| domain.enter_arch_prctl(tid, call), ..PLAIN },
        H::Prctl => Steps { enter: |domain, tid, call| domain.enter_prctl(tid, call), ..PLAIN },
        H::Seccomp => Steps { enter: |domain, tid, call| domain.enter_seccomp(tid, call), ..PLAIN },
        H::Personality => Steps { enter: |domain, tid, call| domain.enter_personality(tid, call), leave: |domain, it| domain.leave_personality(it), ..PLAIN },
        H::SchedSetaffinity => Steps { enter: |domain, tid, call| domain.enter_setaffinity(tid, call), leave: |domain, it| { domain.leave_setaffinity(it); Ok(()) }, failed: |domain, it| { domain.leave_setaffinity(it); Ok(()) }, ..PLAIN },
        H::Getcpu => Steps { leave: |domain, it| domain.leave_getcpu(it), ..PLAIN },
        H::SchedGetaffinity => Steps { leave: |domain, it| domain.leave_getaffinity(it), ..PLAIN },
        H::Getrlimit | H::Setrlimit | H::Prlimit => Steps { enter: |domain, tid, call| domain.enter_limit(tid, call), leave: |domain, it| domain.leave_limit(it), failed: |domain, it| domain.fail_limit(it), ..PLAIN },
        H::ProcessVmWritev => Steps { enter: Domain::enter_process_vm_writev, leave: |domain, it| domain.leave_process_vm_writev(it), ..PLAIN },

        H::Open => Steps { touches: Touches::Opened, enter: Domain::enter_open, leave: Domain::leave_open, ..PLAIN },
        H::Truncate | H::Ftruncate => LENGTH,
        H::Fallocate => Steps { touches: Touches::Fallocated, leave: Domain::leave_fallocate, ..LENGTH },
        H::MemfdCreate => Steps { enter: |domain, tid, call| domain.enter_memfd(tid, call), ..PLAIN },
        H::Send => Steps { enter: |domain, tid, call| domain.enter_send(tid, call), ..PLAIN },
        H::Write | H::Writev | H::Pwrite64 | H::Pwritev | H::Pwritev2 => WRITE,
        H::Sendfile | H::CopyFileRange => COPY,
        H::Splice | H::Tee | H::Vmsplice => TRANSFER,
        H::Ioctl => Steps { touches: Touches::Cloned, enter: |domain, tid, call| Ok(domain.enter_ioctl(tid, call)), leave: Domain::leave_ioctl, ..PLAIN },

        H::SigReturn => Steps { leave: |domain, it| domain.leave_sigreturn(it), returns_from_handler: true, ..PLAIN },
        H::SigAction => Steps { leave: |domain, it| domain.learn_segv_action(it), ..PLAIN },
        H::RtSigqueueinfo | H::PidfdSendSignal => Steps { leave: |domain, it| { domain.leave_queue(it.args()[1], Addr(it.args()[2])); Ok(()) }, ..PLAIN },
        H::RtTgsigqueueinfo => Steps { leave: |domain, it| { domain.leave_queue(it.args()[2], Addr(it.args()[3])); Ok(()) }, ..PLAIN },
        H::Ptrace => Steps { enter: |domain, tid, call| domain.enter_ptrace(tid, call), ..PLAIN },
        H::Wait => Steps { enter: |domain, tid, call| { domain.hear_of_ends(tid, call)?; domain.enter_wait(tid, call) }, again: |domain, tid| domain.wait_again(tid), stays: |domain, tid, regs| domain.wait_for_tracees_again(tid, regs), failed: |domain, it| domain.fail_wait(it), ..PLAIN },
        // What is special about these is not done at their two ends: their signals come like others, and the
        // kernel restarts by itself.
        H::Kill | H::Tkill | H::Tgkill | H::RestartSyscall | H::ProcessVmReadv => PLAIN,
    }
}

/// Does this call return from a signal's handler?
pub fn returns_from_handler(call: &InCall) -> bool {
    call.handler().is_some_and(|handler| steps(handler).returns_from_handler)
}

/// What the recorder learns from a call whose plan says all that it does to the program's memory: at its
/// exit, whether it has succeeded or not.
#[rustfmt::skip]
pub fn learned(nr: u64) -> Option<Leave> {
    Some(match nr.cast_signed() {
        libc::SYS_getppid => |domain, it| domain.show_parent(it),
        libc::SYS_setpriority => |domain, it| domain.learn_priority(it),
        libc::SYS_chdir | libc::SYS_fchdir => |domain, it| { if it.result == 0 { domain.show_folder(it.tid); } Ok(()) },
        libc::SYS_setns => |domain, it| { if it.result == 0 { domain.session.expect_namespaces(); } Ok(()) },
        libc::SYS_setitimer | libc::SYS_alarm | libc::SYS_timer_create => |domain, _| { domain.checkpoints.note_timer(); Ok(()) },
        libc::SYS_epoll_ctl => |domain, it| { domain.learn_edges(it); Ok(()) },
        libc::SYS_sigaltstack => |domain, it| { domain.task(it.tid)?.named.forget_alt_stack(); Ok(()) },
        libc::SYS_unshare => |domain, it| domain.learn_unshare(it),
        _ => return None,
    })
}

impl Crew {
    /// Does this call wait until another task has done something, whatever the table of all calls says?
    pub fn waits_for_others(&self, handler: Option<Handler>, call: &Call) -> bool {
        handler.is_some_and(|handler| (steps(handler).waits)(self, call))
    }
}

impl Domain {
    /// At the entry of a call of this handler.
    pub fn enter(&mut self, tid: Tid, handler: Handler, call: &Call) -> Result<Entry> {
        let steps = steps(handler);
        if let Some(object) = self.touched_object(tid, steps.touches, call) {
            self.borrow_object(tid, object)?;
        }
        (steps.enter)(self, tid, call)
    }

    /// At the exit of a call of this handler that was made.
    pub fn leave(&mut self, handler: Handler, it: &mut Exit<'_>) -> Result<()> {
        let steps = steps(handler);
        if it.is_error() && !steps.returns_from_handler {
            return (steps.failed)(self, it);
        }
        self.tell_views(steps.touches, it)?;
        (steps.leave)(self, it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_process_and_what_maps_is_about_the_address_space() {
        use Handler as H;
        let is_about_space = |handler: &H| steps(*handler).is_about_space;
        let makes = [H::Fork, H::Clone, H::Clone3];
        let maps = [H::Mmap, H::Munmap, H::Mprotect, H::Mremap, H::Brk, H::Madvise, H::Shmat, H::Shmdt];
        assert!(makes.iter().chain(&maps).all(is_about_space));
        // The child of a vfork shares its parent's memory.
        assert!(![H::Vfork, H::Execve, H::Wait].iter().any(is_about_space));
    }
}
