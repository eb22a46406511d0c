//! A checkpoint is made.

use std::{collections::BTreeMap, io};

use bis_trace::{
    event::MemWrite,
    types::{Addr, Registers, Tid},
};
use bis_tracee::{Status, TraceeError, remote::Remote, shadow::Shadow, siginfo::SigInfo, sys};

use super::{
    held::{Checkpoint, Kept, Kernel, Since},
    table::Descriptors,
};
use crate::{
    crew::{Crew, with_slot},
    domain::Domain,
    error::{RecordError, Result},
    process::Process,
    task::{Handle, InCall},
};

/// What decides on the fate of memory in a fork, and what takes it back.
const DONT_FORK: u64 = libc::MADV_DONTFORK as u64;
const DO_FORK: u64 = libc::MADV_DOFORK as u64;
const WIPE_ON_FORK: u64 = libc::MADV_WIPEONFORK as u64;
const KEEP_ON_FORK: u64 = libc::MADV_KEEPONFORK as u64;

/// The kernel's `stack_t`, in bytes.
const ALT_STACK_LEN: usize = 24;

/// The highest byte of its flags, and what SS_AUTODISARM is of that.
const FLAGS_TOP: usize = 11;
const AUTODISARM_TOP: u8 = 0x80;

impl Domain {
    /// The task asks for a checkpoint, whose handle goes to `addr`.
    pub(super) fn take_checkpoint(&mut self, tid: Tid, mut state: InCall, addr: Addr) -> Result<()> {
        let handle = self.session.new_checkpoint();
        let data = handle.to_le_bytes().to_vec();
        if self.memory.write(addr, &data).is_err() {
            return self.not_made(tid, state, -i64::from(libc::EFAULT));
        }
        state.found.add_write(MemWrite { addr, data });
        let regs = Registers { rax: 0, orig_rax: u64::MAX, ..state.entry.regs() };
        let result = match self.checkpoint_of(tid, regs)? {
            Ok(checkpoint) => {
                self.checkpoints.note_copy();
                self.checkpoints.by_handle.insert(handle, checkpoint);
                0
            }
            Err(errno) => -i64::from(errno),
        };
        self.not_made(tid, state, result)?;
        if let Some(checkpoint) = self.checkpoints.by_handle.get_mut(&handle) {
            checkpoint.at = self.journal.last_seq();
            checkpoint.made = checkpoint.at;
        }
        Ok(())
    }

    /// The domain as it is, with `regs` for the task that asks. Else the number of an error.
    fn checkpoint_of(&mut self, tid: Tid, regs: Registers) -> Result<std::result::Result<Checkpoint, i32>> {
        let others: Vec<Tid> = self.tasks.keys().copied().filter(|other| *other != tid).collect();
        for other in &others {
            self.halt_for_checkpoint(*other)?;
        }
        let Some(buffer) = self.buffer(tid)? else { return Ok(Err(libc::ENOMEM)) };
        let mut tasks = BTreeMap::new();
        for (task, regs) in others.into_iter().map(|other| (other, None)).chain([(tid, Some(regs))]) {
            match self.keep(task, regs, Addr(buffer))? {
                Some(kept) => tasks.insert(task, kept),
                None => return Ok(Err(libc::EAGAIN)),
            };
        }
        let descriptors = Descriptors::of(tid);
        let mut shadow = match self.take_whole_shadow(tid, &descriptors)? {
            Ok(shadow) => shadow,
            Err(error) => return no_room(error.into()).map(Err),
        };
        let Some((shared, files)) = self.recorder().keep_shared(tid, &mut shadow)? else {
            self.end_shadow(tid, shadow)?;
            return Ok(Err(libc::ENOMEM));
        };
        let pid = self.task(tid)?.pid;
        let has_timers = !self.checkpoints.timeless.contains(&pid);
        let kernel =
            with_slot(self, tid, |domain, slot| Kernel::of(slot, &domain.memory, Addr(buffer), has_timers))?;
        if !kernel.has_timers() {
            self.checkpoints.timeless.insert(pid);
        }
        self.learn_heap();
        let space = self.space.clone();
        let (maker, since, count, how) = (tid, Since::default(), 0, 0);
        let at = self.journal.last_seq();
        Ok(Ok(Checkpoint {
            shadow,
            maker,
            tasks,
            space,
            kernel,
            shared,
            files,
            descriptors,
            since,
            count,
            how,
            made: at,
            at,
        }))
    }

    /// Brings a task to where what it has can be kept.
    fn halt_for_checkpoint(&mut self, tid: Tid) -> Result<()> {
        self.halt(tid)?;
        // It may have been stopped in the moment when it came to where it is waited for: the trap is on its
        // way, and would come in the middle of what is asked of it now.
        let task = self.task(tid)?;
        if !task.report.is_there() && task.call.is_none() && matches!(task.handle, Handle::Stopped(_)) {
            self.disarm(tid)?;
        }
        Ok(())
    }

    /// A copy of the process with all of its memory, also what the program wants no child of it to have.
    fn take_whole_shadow(
        &mut self,
        tid: Tid,
        descriptors: &Descriptors,
    ) -> Result<bis_tracee::Result<Shadow>> {
        self.advise_of_forks(tid, |advice| match advice {
            DONT_FORK => DO_FORK,
            WIPE_ON_FORK => KEEP_ON_FORK,
            other => other,
        })?;
        let shadow = with_slot(self, tid, |_, slot| Ok(Shadow::of(slot, &descriptors.others())));
        self.advise_of_forks(tid, |advice| advice)?;
        shadow
    }

    /// Brings a task that waits in the kernel to a stop, if it does. What it reports then is handled when its
    /// turn comes.
    pub(super) fn halt(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        // The parent of a vfork sleeps until its child, which may be a task of ours, has gone on.
        let may_stop = task.call.as_ref().is_none_or(|call| !call.has_made_child());
        if task.report.is_there() || !may_stop || !matches!(task.handle, Handle::Running(_)) {
            return Ok(());
        }
        match sys::interrupt(tid) {
            Ok(()) => self.task(tid)?.to_stop.ask(),
            // Its end is on its way.
            Err(TraceeError::Died(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.wait_for_report(tid)
    }
}

impl Process {
    /// Says again what the program has said about forks of its memory, or something else instead: a shadow
    /// has all of it.
    fn advise_of_forks(&mut self, tid: Tid, instead: impl Fn(u64) -> u64) -> Result<()> {
        for (addr, len, advice) in self.space.fork_advice().to_vec() {
            // What it was said of may be gone.
            self.call_for(tid, libc::SYS_madvise, [addr.0, len, instead(advice), 0, 0, 0])?;
        }
        Ok(())
    }
}

impl Crew {
    /// Ends a shadow. It is its parent's to reap: another process that would, only sees it end with the
    /// process.
    pub(super) fn end_shadow(&mut self, tid: Tid, shadow: Shadow) -> Result<()> {
        let shadow = {
            let name = self.session.own_name(shadow.pid());
            drop(shadow);
            name
        };
        let flags = u64::from((libc::__WALL | libc::WNOHANG).cast_unsigned());
        let shadow = u64::from(shadow.0.cast_unsigned());
        self.call_for(tid, libc::SYS_wait4, [shadow, 0, flags, 0, 0, 0]).map(drop)
    }

    /// A stopped task as it is; with `regs` where it is in the call that asks. None: it is where that cannot
    /// be told, or is about to end.
    fn keep(&mut self, tid: Tid, regs: Option<Registers>, buffer: Addr) -> Result<Option<Kept>> {
        let task = self.task(tid)?;
        // One that has executed another program is about to leave the domain, with which it shared memory.
        let is_leaving = matches!(
            task.report.status(),
            Some(Status::Exit(_) | Status::Exited(_) | Status::Killed(_) | Status::Exec(_))
        );
        let Handle::Stopped(stopped) = &task.handle else { return Ok(None) };
        let regs = match (regs, &task.call) {
            (Some(regs), _) => regs,
            (None, Some(call)) if call.has_made_child() => return Ok(None),
            (None, Some(call)) => call.entry.before(),
            (None, None) if task.standing.is_midway() || task.report.is_there() => return Ok(None),
            (None, None) => Registers { orig_rax: u64::MAX, ..stopped.regs()? },
        };
        // What its tracer, who is recorded too, has been told of it cannot be taken back.
        if is_leaving || task.for_tracer.is_held() {
            return Ok(None);
        }
        let sigmask = task.signals.own_mask.behind(stopped.sigmask()?);
        let pending = stopped.own_pending()?.into_iter().map(SigInfo).collect();
        let (xstate, stash, left_stack) = (stopped.xstate()?, task.signals.stash.clone(), task.stacks.left());
        let clear_tid = task.named.clear_tid();
        let robust_list = sys::robust_list(tid).unwrap_or(task.named.robust_list().0);
        let alt_stack = self.alt_stack(tid, buffer)?;
        Ok(Some(Kept {
            regs,
            xstate,
            sigmask,
            pending,
            stash,
            left_stack,
            alt_stack,
            clear_tid,
            robust_list: Addr(robust_list),
        }))
    }

    /// The task's stack for handlers, as the kernel has it (a `stack_t`). None: it stands where it cannot be
    /// asked for that.
    fn alt_stack(&mut self, tid: Tid, buffer: Addr) -> Result<Option<Vec<u8>>> {
        let task = self.task(tid)?;
        if let Some(stack) = task.named.alt_stack() {
            return Ok(Some(stack.clone()));
        }
        // A call that was interrupted is made again by the kernel.
        let is_in_call = match (&task.call, task.report.status()) {
            (None, None) => false,
            (Some(_), Some(Status::Syscall)) => true,
            _ => return Ok(None),
        };
        let result = with_slot(self, tid, |_, slot| {
            let mut remote = if is_in_call { Remote::within_call(slot)? } else { Remote::new(slot)? };
            let result = remote.call(libc::SYS_sigaltstack, [0, buffer.0, 0, 0, 0, 0])?;
            remote.finish()?;
            Ok(result)
        })?;
        if result != 0 {
            return Ok(None);
        }
        let stack = self.memory.read_vec(buffer, ALT_STACK_LEN)?;
        // It stays so until the task asks for another one, or returns from a handler; but not where each
        // handler takes it away.
        if stack.get(FLAGS_TOP).is_some_and(|flags| flags & AUTODISARM_TOP == 0) {
            self.task(tid)?.named.know_alt_stack(stack.clone());
        }
        Ok(Some(stack))
    }
}

/// What the program is told where the machine has no room.
fn no_room(error: RecordError) -> Result<i32> {
    let errno = match &error {
        RecordError::Tracee(TraceeError::Os { source, .. }) => source.raw_os_error(),
        _ => None,
    };
    match errno {
        Some(errno @ (libc::EAGAIN | libc::ENOMEM)) => {
            tracing::debug!(error = %io::Error::from_raw_os_error(errno), "no checkpoint");
            Ok(errno)
        }
        _ => Err(error),
    }
}
