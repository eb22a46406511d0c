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
    inner::Inner,
    memory,
    place::Position,
    searched::Wanted,
};
use crate::protocol::target::Targets;

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
    /// Where the user stands.
    user: Position,
    patience: Patience,
    wanted: Wanted,
    inner: Inner,
    targets: Targets,
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

/// The stretches of a search by several, by their numbers, the latest first: which of them are searched, and
/// what was found. It decides; the session starts the helpers and stops them.
struct Crew {
    /// The stretches from this one on have no helper yet.
    next: usize,
    /// Where the next helpers run.
    idle_cores: Vec<usize>,
    running: BTreeMap<usize, Helper>,
    /// The latest hit so far, and the number of its stretch.
    found: Option<(usize, Hit)>,
    failure: Option<Trouble>,
    /// There can be no further helper.
    is_refused: bool,
}

impl Crew {
    fn new(cores: Vec<usize>) -> Crew {
        let running = BTreeMap::new();
        Crew { next: 0, idle_cores: cores, running, found: None, failure: None, is_refused: false }
    }

    /// What is found from here on is of no use.
    fn is_given_up(&self) -> bool {
        self.failure.is_some() || self.is_refused
    }

    /// The core for a helper that is to search the stretch `next`; none: there is to be no helper now.
    fn core_for_next(&mut self) -> Option<usize> {
        let wants_one = self.found.is_none() && !self.is_given_up();
        self.idle_cores.pop_if(|_| wants_one)
    }

    /// A helper has come to its end. True: there is nothing in its stretch.
    fn hear(&mut self, number: usize, result: Result<Option<Hit>, Trouble>) -> bool {
        let Some(helper) = self.running.remove(&number) else { return false };
        self.idle_cores.push(helper.core);
        let known = self.found.as_ref().map(|(known, _)| *known);
        match result {
            Ok(None) => return true,
            Ok(Some(hit)) if known.is_none_or(|known| number < known) => self.found = Some((number, hit)),
            // A helper that was given up.
            Ok(Some(_)) => {}
            Err(_) if known.is_some_and(|known| known < number) => {}
            Err(trouble) => self.failure = Some(trouble),
        }
        false
    }

    /// The helpers whose answers do not matter any more: what is in front of a hit does not.
    fn needless(&self) -> impl Iterator<Item = &Helper> {
        let known = self.found.as_ref().map_or(usize::MAX, |(known, _)| *known);
        let is_needless = move |number: usize| self.is_given_up() || number > known;
        self.running.iter().filter(move |(number, _)| is_needless(**number)).map(|(_, helper)| helper)
    }

    fn outcome(self) -> Together {
        match (self.failure, self.found) {
            (Some(trouble), _) => {
                // Alone, the session comes to the same, or further.
                tracing::info!(trouble = trouble.text(), "a search by several has failed");
                Together::Never
            }
            (None, Some((_, hit))) => Together::Hit(hit),
            (None, None) if self.is_refused => Together::Never,
            (None, None) => Together::Nothing,
        }
    }
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
        let mut crew = Crew::new(cores);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            loop {
                while let Some(stretch) = open.get(crew.next)
                    && let Some(core) = crew.core_for_next()
                {
                    let task = match self.task(stretch, &wanted, core, free_memory) {
                        Ok(task) => task,
                        Err(trouble) => {
                            crew.failure = Some(trouble);
                            break;
                        }
                    };
                    let started = task.and_then(|task| start(scope, task, crew.next, &sender));
                    let Some(helper) = started else {
                        crew.is_refused = true;
                        break;
                    };
                    crew.running.insert(crew.next, helper);
                    crew.next += 1;
                }
                if crew.running.is_empty() {
                    break;
                }
                let Ok((number, result)) = receiver.recv() else { break };
                if crew.hear(number, result) {
                    let Stretch { from, end, .. } = open[number];
                    self.found_empty(&wanted, &from.position, end);
                }
                crew.needless().for_each(|helper| helper.stopper.ask());
            }
        });
        self.stopper.forget_helpers();
        if self.stopper.take() { Err(Trouble::Asked) } else { Ok(crew.outcome()) }
    }

    /// What a helper on this core needs for a stretch; none: the process cannot be handed to it.
    fn task(
        &self,
        stretch: &Stretch<'t>,
        wanted: &Wanted,
        core: usize,
        memory: u64,
    ) -> Result<Option<Task<'t>>, Trouble> {
        let Some(parcel) = stretch.from.send()? else { return Ok(None) };
        Ok(Some(Task {
            world: self.world,
            images: self.images.clone(),
            parcel,
            from: stretch.from.place(),
            end: stretch.end.clone(),
            user: self.position.clone(),
            patience: stretch.patience,
            wanted: wanted.clone(),
            inner: self.inner.clone(),
            targets: self.targets.clone(),
            stopper: self.stopper.helper(),
            core,
            memory,
        }))
    }

    /// How many copies of the process may run beside the checkpoints.
    fn room_for_copies(&self) -> usize {
        let room = self.history.room() / memory::resident(self.history.pid().unwrap_or(Tid(0))).max(1);
        usize::try_from(room).unwrap_or(usize::MAX)
    }
}

/// Starts the helper of the stretch with this number, which sends its answer; none: there can be no thread.
fn start<'scope, 't: 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    task: Task<'t>,
    number: usize,
    sender: &mpsc::Sender<(usize, Result<Option<Hit>, Trouble>)>,
) -> Option<Helper> {
    let (helper, sender) = (Helper { stopper: task.stopper.clone(), core: task.core }, sender.clone());
    let spawned = thread::Builder::new().name("helper".into()).spawn_scoped(scope, move || {
        // Nobody listens any more where the search was given up.
        let _ = sender.send((number, work_or_fail(task)));
    });
    match spawned {
        Ok(_) => Some(helper),
        Err(source) => {
            tracing::info!(%source, "no thread for a helper");
            None
        }
    }
}

/// A helper's work. One that panics says so: the session waits for its answer.
fn work_or_fail(task: Task<'_>) -> Result<Option<Hit>, Trouble> {
    // What the task holds is dropped with it, so nobody sees it half changed.
    catch_unwind(AssertUnwindSafe(|| work(task)))
        .unwrap_or_else(|_| Err(ReplayError::Machine("a search on another core has panicked".into()).into()))
}

fn work(task: Task<'_>) -> Result<Option<Hit>, Trouble> {
    let Task {
        world,
        images,
        parcel,
        from,
        end,
        user,
        patience,
        wanted,
        inner,
        targets,
        stopper,
        core,
        memory,
    } = task;
    balance::pin(Tid(0), core);
    let copy = parcel.take()?;
    balance::pin(copy.pid(), core);
    let mark = Mark::received(copy, from);
    let mut session = Session::helper((world, images), &mark, wanted, targets, stopper, memory)?;
    // Without it, a stretch that ends at a pause in a loop would have a stop in each round.
    session.inner = inner;
    session.position = user;
    session.last_hit(&mark, &end, patience)
}
