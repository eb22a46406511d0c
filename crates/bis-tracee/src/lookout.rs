//! Processes that run by themselves, and are only watched: until one of them makes the call that is bis's own
//! and asks for a checkpoint. Their filter ([`Mode::Watch`](crate::filter::Mode)) stops that call alone;
//! beside it, they stop for a moment where they make a task, and where they get a signal.
//!
//! A process that asks is taken out of the lookout, with all of its threads, and is a [`Found`] process from
//! there on; the others are watched as before. When it is over they are let go: then that call has no answer,
//! as without us.

use std::{collections::BTreeSet, io};

use bis_syscalls::own;
use bis_trace::types::{Registers, Tid};

use crate::{
    error::{Result, TraceeError},
    found::{self, Found, FoundError},
    memory::Memory,
    proc::Fields,
    spawn::{Spawn, SpawnError, spawn},
    sys,
    task::{self, Resume, Status, Stopped},
};

/// All that the calling thread watches: a program and what it has begun.
#[derive(Debug)]
pub struct Lookout {
    root: Tid,
    tasks: BTreeSet<Tid>,
    /// How many filters a task has that has none of its own.
    filters: u64,
}

/// What has happened.
#[derive(Debug)]
pub enum Seen {
    /// A task, which stands at the entry of its call, asks for a checkpoint.
    Asks(Box<Stopped>),
    /// The program itself has ended: its exit status, or 128 plus the signal that has killed it.
    Ended(u8),
    /// Somebody kicked the thread ([`crate::ours::kick`]).
    Kicked,
    /// There is nobody to be watched any more.
    Nobody,
}

fn filters_of(fields: Option<Fields>) -> u64 {
    fields.and_then(|fields| fields.number("Seccomp_filters", 10)).unwrap_or(0)
}

impl Lookout {
    /// Starts the program, which runs as soon as [`Lookout::wait`] is called.
    ///
    /// # Errors
    /// As [`spawn`].
    pub fn start(spec: Spawn) -> Result<Lookout, SpawnError> {
        let stopped = spawn(spec)?;
        let root = stopped.tid();
        sys::set_options(root, sys::LIVE_OPTIONS)?;
        stopped.resume(Resume::Cont, None)?;
        let filters = filters_of(Fields::of_this_thread()) + 1;
        Ok(Lookout { root, tasks: BTreeSet::from([root]), filters })
    }

    /// The program's process.
    pub fn root(&self) -> Tid {
        self.root
    }

    /// Waits for what is to be seen.
    ///
    /// # Errors
    /// Whatever the kernel refuses.
    pub fn wait(&mut self) -> Result<Seen> {
        loop {
            let (tid, status) = match task::wait_any(true) {
                Ok(Some(report)) => report,
                Ok(None) => return Ok(Seen::Nobody),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Seen::Kicked),
                Err(source) => {
                    return Err(TraceeError::Os { what: "wait for a task", tid: self.root, source });
                }
            };
            self.tasks.insert(tid);
            match self.handle(tid, status) {
                Ok(None) | Err(TraceeError::Died(_)) => {}
                Ok(Some(seen)) => return Ok(seen),
                Err(error) => return Err(error),
            }
        }
    }

    fn handle(&mut self, tid: Tid, status: Status) -> Result<Option<Seen>> {
        let mut stopped = Stopped::adopt(tid);
        let (how, signal) = match status {
            Status::Exited(_) | Status::Killed(_) => {
                self.tasks.remove(&tid);
                let code = match status {
                    Status::Killed(signal) => 128 + signal.0,
                    Status::Exited(code) => code,
                    _ => 0,
                };
                return Ok((tid == self.root).then_some(Seen::Ended(code)));
            }
            Status::Seccomp => {
                let regs = stopped.regs()?;
                if regs.rdi == own::CHECKPOINT {
                    return Ok(Some(Seen::Asks(Box::new(stopped))));
                }
                let is_of_checkpoints = own::name_of(regs.rdi).is_some();
                let errno = if is_of_checkpoints { libc::EINVAL } else { libc::ENOSYS };
                refuse(&mut stopped, errno)?;
                (Resume::Cont, None)
            }
            Status::NewTask(made) => {
                self.tasks.insert(made);
                (Resume::Cont, None)
            }
            Status::Signal(signal) => (Resume::Cont, Some(signal)),
            Status::GroupStop(_) => (Resume::Listen, None),
            Status::Trap | Status::Syscall | Status::Exec(_) | Status::Exit(_) => (Resume::Cont, None),
        };
        stopped.resume(how, signal)?;
        Ok(None)
    }

    /// Takes the process of a task that asks out of the lookout. None: it is gone.
    ///
    /// # Errors
    /// [`FoundError::Unsupported`] where it cannot be recorded from where it is; the task has an error for
    /// its answer then, and goes on.
    pub fn take(&mut self, mut asker: Stopped) -> Result<Option<Found>, FoundError> {
        let tid = asker.tid();
        let Some((status, pid)) = Fields::of(tid).and_then(|s| s.tid("Tgid").map(|pid| (s, pid))) else {
            return Ok(None);
        };
        let shares = |other: &&Tid| {
            sys::share_memory(tid, **other).unwrap_or_else(|_| is_seen_by(&asker, **other).unwrap_or(false))
        };
        let mut sharing = self.tasks.iter().filter(shares);
        let is_alone = sharing.all(|other| Fields::of(*other).and_then(|s| s.tid("Tgid")) == Some(pid));
        let refusal = if !is_alone {
            Some((libc::EBUSY, "another process shares its memory"))
        } else if filters_of(Some(status)) > self.filters {
            Some((libc::EOPNOTSUPP, found::OWN_FILTER))
        } else if !sys::tells_tid_address() {
            Some((libc::EOPNOTSUPP, found::NO_TID_ADDRESS))
        } else {
            None
        };
        if let Some((errno, what)) = refusal {
            refuse(&mut asker, errno)?;
            asker.resume(Resume::Cont, None)?;
            return Err(FoundError::Unsupported { pid, what: what.into() });
        }
        let (found, children) = Found::of_watched(pid, asker)?;
        for tid in found.tids() {
            self.tasks.remove(&tid);
        }
        self.tasks.extend(children);
        Ok(Some(found))
    }

    /// The process goes on as before, with the number of an error for the task that has asked.
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed meanwhile.
    pub fn give_back(&mut self, mut found: Found, asker: Tid, errno: i32) -> Result<()> {
        self.tasks.extend(found.tids());
        found.answer(asker, -i64::from(errno))
    }

    /// Nobody is watched any more.
    pub fn let_all_go(&mut self) {
        while let Some(tid) = self.tasks.pop_first() {
            match let_go(tid) {
                Ok(made) => self.tasks.extend(made),
                Err(error) => tracing::debug!(%tid, %error, "not let go"),
            }
        }
    }
}

/// The call at whose entry the task stands fails.
fn refuse(stopped: &mut Stopped, errno: i32) -> Result<()> {
    let regs = stopped.regs()?;
    let rax = (-i64::from(errno)).cast_unsigned();
    stopped.set_regs(&Registers { rax, orig_rax: u64::MAX, ..regs })
}

/// Lets a task go as soon as it stands. What it was about to get, it gets. The task that it has just made.
fn let_go(tid: Tid) -> Result<Option<Tid>> {
    sys::interrupt(tid)?;
    let (signal, made) = match task::wait_for(tid)? {
        Status::Exited(_) | Status::Killed(_) => return Ok(None),
        Status::Signal(signal) => (Some(signal), None),
        Status::NewTask(made) => (None, Some(made)),
        _ => (None, None),
    };
    sys::detach_with(tid, signal)?;
    Ok(made)
}
/// Does another task have the stopped one's address space, as what it holds tells? For where the kernel has
/// no kcmp for us, as in many containers: what is written below the stack of one is there for the other.
fn is_seen_by(stopped: &Stopped, other: Tid) -> Result<bool> {
    /// Below what a function may use without moving its stack pointer.
    const BELOW: u64 = 1024;
    let place = stopped.regs()?.sp() - BELOW;
    let (own, others) = (Memory::open(stopped.tid())?, Memory::open(other)?);
    let before = own.read_u64(place)?;
    let mut is_seen = true;
    for word in [!before, before] {
        own.write(place, &word.to_le_bytes())?;
        is_seen &= others.read_u64(place).is_ok_and(|found| found == word);
    }
    Ok(is_seen)
}
