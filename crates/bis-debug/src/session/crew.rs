//! Several stretches of the past at once, each on a core of its own.
//!
//! What lies between two marks depends on nothing else, so copies of several marks run side by side, the
//! latest stretches first. Each copy is handed to a thread, which traces it and looks with a session of its
//! own. What the latest of them finds is the answer, and the others are given up.
//!
//! As many run as there are cores, and as fit into what checkpoints may take: each may come to need as much
//! memory as the process has. A process that shares memory with others is searched by the session alone.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
};

use bis_replay::{Parcel, ReplayError, World};
use bis_trace::types::{DomainId, Tid};
use bis_tracee::balance;

use super::{
    Session, Stopper, Trouble,
    backward::{Hit, Patience},
    history::{Mark, Place},
    memory,
    place::Position,
    searched::Wanted,
};
use crate::protocol::target::Target;

/// A stretch that is to be searched.
pub(super) struct Stretch<'t> {
    pub from: Mark<'t>,
    pub end: Position,
    pub patience: Patience,
}

/// What a helper needs.
struct Task<'t> {
    world: &'t World<'t>,
    images: Vec<DomainId>,
    parcel: Parcel<'t>,
    from: Place,
    end: Position,
    patience: Patience,
    wanted: Wanted,
    target: Target,
    stopper: Stopper,
    core: usize,
    /// What its checkpoints may take.
    memory: u64,
}

/// A helper that is at work.
struct Helper {
    stopper: Stopper,
    core: usize,
}

/// What has come of a search by several.
pub(super) enum Together {
    Hit(Hit),
    Nothing,
    /// It cannot be, or has failed.
    Never,
}

impl<'t> Session<'t> {
    /// The last hit in these stretches, the latest of which comes first.
    pub(super) fn search_together(&mut self, stretches: &[Stretch<'t>]) -> Result<Together, Trouble> {
        let wanted = self.wanted();
        let is_open =
            |stretch: &&Stretch<'_>| !self.searched.is_empty(&wanted, &stretch.from.position, &stretch.end);
        let open: Vec<&Stretch<'t>> = stretches.iter().filter(is_open).collect();
        let mut cores = balance::cores_of(&self.cores);
        let count = cores.len().min(self.room_for_copies()).min(open.len());
        if count < 2 || self.live.replica.own_core().is_some() {
            return Ok(Together::Never);
        }
        cores.truncate(count);
        let free_memory = self.history.budget().left(0) / (count as u64 + 1);
        tracing::debug!(stretches = open.len(), helpers = count, "several search");
        let (world, target) = (self.world, self.target.clone());
        let mut found: Option<(usize, Hit)> = None;
        let mut failure: Option<Trouble> = None;
        let mut is_refused = false;
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let mut running: BTreeMap<usize, Helper> = BTreeMap::new();
            let mut next = 0;
            loop {
                while found.is_none()
                    && failure.is_none()
                    && !is_refused
                    && let Some(stretch) = open.get(next)
                    && let Some(core) = cores.pop()
                {
                    let parcel = match stretch.from.send() {
                        Ok(Some(parcel)) => parcel,
                        Ok(None) => {
                            is_refused = true;
                            break;
                        }
                        Err(halt) => {
                            failure = Some(halt.into());
                            break;
                        }
                    };
                    let stopper = self.stopper.helper();
                    let task = Task {
                        world,
                        images: self.images.clone(),
                        parcel,
                        from: stretch.from.place(),
                        end: stretch.end.clone(),
                        patience: stretch.patience,
                        wanted: wanted.clone(),
                        target: target.clone(),
                        stopper: stopper.clone(),
                        core,
                        memory: free_memory,
                    };
                    let (sender, number) = (sender.clone(), next);
                    let spawned =
                        thread::Builder::new().name("helper".into()).spawn_scoped(scope, move || {
                            // Nobody listens any more where the search was given up.
                            let _ = sender.send((number, work_or_fail(task)));
                        });
                    if let Err(source) = spawned {
                        tracing::info!(%source, "no thread for a helper");
                        is_refused = true;
                        break;
                    }
                    running.insert(number, Helper { stopper, core });
                    next += 1;
                }
                if running.is_empty() {
                    break;
                }
                let Ok((number, result)) = receiver.recv() else { break };
                let Some(helper) = running.remove(&number) else { continue };
                cores.push(helper.core);
                match result {
                    Ok(None) => {
                        let Stretch { from, end, .. } = open[number];
                        self.searched.add_empty(&wanted, from.position.clone(), end.clone());
                    }
                    Ok(Some(hit)) if found.as_ref().is_none_or(|(known, _)| number < *known) => {
                        found = Some((number, hit));
                    }
                    // A helper that was given up.
                    Ok(Some(_)) => {}
                    Err(_) if found.as_ref().is_some_and(|(known, _)| *known < number) => {}
                    Err(trouble) => failure = Some(trouble),
                }
                // What is in front of a hit does not matter.
                let known = found.as_ref().map_or(usize::MAX, |(known, _)| *known);
                let is_over = failure.is_some() || is_refused;
                let idle = running.iter().filter(|(number, _)| is_over || **number > known);
                idle.for_each(|(_, helper)| helper.stopper.ask());
                if is_over && running.is_empty() {
                    break;
                }
            }
        });
        self.stopper.forget_helpers();
        if self.stopper.take() {
            return Err(Trouble::Asked);
        }
        match (failure, found) {
            (Some(trouble), _) => {
                // Alone, the session comes to the same, or further.
                tracing::info!(trouble = trouble.text(), "a search by several has failed");
                Ok(Together::Never)
            }
            (None, Some((_, hit))) => Ok(Together::Hit(hit)),
            (None, None) if is_refused => Ok(Together::Never),
            (None, None) => Ok(Together::Nothing),
        }
    }

    /// How many copies of the process may run beside the checkpoints.
    fn room_for_copies(&self) -> usize {
        let room = self.history.room() / memory::resident(self.history.pid().unwrap_or(Tid(0))).max(1);
        usize::try_from(room).unwrap_or(usize::MAX)
    }
}

/// A helper's work. One that panics says so: the session waits for its answer.
fn work_or_fail(task: Task<'_>) -> Result<Option<Hit>, Trouble> {
    // What the task holds is dropped with it, so nobody sees it half changed.
    catch_unwind(AssertUnwindSafe(|| work(task)))
        .unwrap_or_else(|_| Err(ReplayError::Machine("a search on another core has panicked".into()).into()))
}

fn work(task: Task<'_>) -> Result<Option<Hit>, Trouble> {
    let Task { world, images, parcel, from, end, patience, wanted, target, stopper, core, memory } = task;
    balance::pin(Tid(0), core);
    let copy = parcel.take()?;
    balance::pin(copy.pid(), core);
    let mark = Mark::received(copy, from);
    let mut session = Session::helper((world, images), &mark, wanted, target, stopper, memory)?;
    session.last_hit(&mark, &end, patience)
}
