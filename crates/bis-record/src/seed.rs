//! How a domain begins, whichever way: a [`Seed`] is all that the supervisor thread of a domain needs to
//! begin with it.
//!
//! The code that makes a seed has given the domain its number and its core, and has entered it in the
//! session's books (its shared memory, its views), because all this has a place in the order of the parent's
//! events. The thread takes the task over and writes the domain's first event. Where the task was killed
//! meanwhile there is no domain.
//!
//! Two ways differ. [`Seed::Exec`] holds a domain whose first event the previous supervisor has written. A
//! [`Fork`] is planted by `calls/fork.rs`, which is below this file and knows no seeds; so it is a
//! [`Beginning`](crate::session::Beginning) of its own, and the new thread makes a [`Seed::Fork`] of it.
//!
//! Going back to a checkpoint (`checkpoints/restore.rs`) needs no seed: the process gets its former state in
//! its place, and its domain and supervisor stay.

use std::sync::Arc;

use bis_trace::{
    event::{Base, Outcome, TaskEnd},
    types::{Signal, Tid},
};
use bis_tracee::{Memory, TraceeError, handover::Parked, ours};

use crate::{
    calls::Fork,
    crew::with_slot,
    domain::Domain,
    error::Result,
    found::ParkedImage,
    session::Session,
    task::{Handle, Named, Task, ToStop},
};

#[derive(Debug)]
pub enum Seed {
    /// The program itself, of which nothing is there yet.
    Program,
    /// An image of a process that runs already.
    Image(Tid),
    /// An image of one that was watched until it asked for its first checkpoint.
    Watched(Box<ParkedImage>),
    /// The child of a fork.
    Fork(Box<Fork>),
    /// A fresh image, made by an exec.
    Exec(Box<Fresh>),
}

/// A domain that has begun under the supervisor whose own task has made it: its first event is written.
pub struct Fresh {
    pub domain: Domain,
    /// Its one task, where another supervisor takes it over: the exec has left other tasks behind. None: the
    /// domain has it.
    pub parked: Option<Parked>,
}

impl std::fmt::Debug for Fresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fresh({})", self.domain.id)
    }
}

impl Seed {
    /// What the supervisor's thread is called.
    pub fn name(&self) -> String {
        match self {
            Seed::Program | Seed::Image(_) => "first".into(),
            Seed::Watched(_) => "image".into(),
            Seed::Fork(fork) => format!("domain {}", fork.id),
            Seed::Exec(fresh) => format!("domain {}", fresh.domain.id),
        }
    }

    /// The domain, with its task and its first event. None: the task was killed.
    pub fn begin(self, session: &Arc<Session>) -> Result<Option<Domain>> {
        match self {
            Seed::Program => Domain::first(session).map(Some),
            Seed::Image(pid) => Domain::from_found(session, pid).map(Some),
            Seed::Watched(image) => image.begin(session),
            Seed::Fork(fork) => fork.begin(session),
            Seed::Exec(fresh) => fresh.begin(session).map(Some),
        }
    }
}

impl Fork {
    fn begin(self, session: &Arc<Session>) -> Result<Option<Domain>> {
        let Fork { id, parked, core, ppid, parent, at, writes, clear_tid, traits, space, hooks } = self;
        let tid = parked.tid();
        let watched = session.watch.of(id);
        session.settle_with(&watched.seat, tid, core);
        let none = || {
            session.cores.leave(core);
            session.views.leave(id);
            Ok(None)
        };
        let outcome = Outcome { regs: *parked.regs(), writes, ..Outcome::default() };
        let (stopped, is_halted) = match session.halted.take_over(parked) {
            Ok(seized) => seized,
            Err(TraceeError::Died(_)) => return none(),
            Err(error) => return Err(error.into()),
        };
        let own_name = session.own_name(tid);
        let named = Named::with_clear_tid(clear_tid);
        let to_stop = ToStop::of_process(is_halted);
        let task = Task { named, traits, to_stop, own_name, ..Task::new(stopped, tid) };
        let memory = Memory::open(tid)?;
        let mut domain = Domain::new(session, id, memory, space, task, core);
        if let Some(hooks) = hooks {
            match with_slot(&mut domain, tid, |domain, slot| domain.inherit_hooks(slot, hooks)) {
                Err(error) if error.is_death_of(tid) => return none(),
                other => other?,
            }
        }
        if domain.is_told_its_core() {
            watched.seat.stay();
            // It may have been sent elsewhere meanwhile.
            if let Some(now) = watched.seat.core() {
                domain.core = session.cores.move_to(now, core);
            }
            session.settle_with(&watched.seat, tid, domain.core);
        }
        domain.recorder().start(ppid, Base::Fork { parent, at }, outcome)?;
        Ok(Some(domain))
    }
}

impl Fresh {
    fn begin(self, session: &Arc<Session>) -> Result<Domain> {
        let Fresh { mut domain, parked } = self;
        let Some(parked) = parked else {
            if domain.is_told_its_core() {
                domain.pin();
            }
            return Ok(domain);
        };
        let (tid, core) = (parked.tid(), domain.core);
        domain.watched.seat.set_supervisor(ours::thread_id());
        session.settle_with(&domain.watched.seat, tid, core);
        match session.halted.take_over(parked) {
            Ok((stopped, is_halted)) => {
                let task = domain.task(tid)?;
                task.handle = Handle::Stopped(stopped);
                task.to_stop = ToStop::of_process(is_halted);
            }
            Err(TraceeError::Died(_)) => domain.gone(tid, TaskEnd::Killed(Signal::KILL), Vec::new())?,
            Err(error) => return Err(error.into()),
        }
        Ok(domain)
    }
}
