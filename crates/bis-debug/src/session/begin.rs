//! How a session begins: with a process of the recording, beside another session, or as a helper of one.

use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

use bis_replay::{Halt, Solo, World, solo::Ear};
use bis_trace::types::{DomainId, EventSeq, Tid};
use bis_tracee::balance;

use super::{
    Catch, Session, Stopper, Trouble,
    alarm::Alarm,
    aside::Aside,
    history::{History, Mark},
    image::begin_image,
    inner::Inner,
    intervals,
    live::Live,
    memory::Budget,
    others::Others,
    passed,
    place::Position,
    points::Points,
    processes::{self, images},
    searched::{Searched, Wanted},
    source,
};
use crate::{
    options::{Begin, DebugError, Which, check_format},
    protocol::target::{Offsets, Targets},
};

impl<'t> Session<'t> {
    /// A session at the begin of a process.
    ///
    /// # Errors
    /// Where there is no such process or place, or the trace or this machine is at fault.
    pub fn open(
        world: &'t World<'t>,
        which: &Which,
        ear: Option<Ear>,
        checkpoint_memory: Option<u64>,
    ) -> Result<Session<'t>, DebugError> {
        check_format(world.trace())?;
        let entry = which.entry(world.trace())?;
        let history = History::new(Budget::new(checkpoint_memory));
        Session::begin(world, images(world, entry), 0, (ear, Stopper::default()), history)
    }

    /// A session on the process of another domain, at the begin of that. Whoever stops this one stops that
    /// one, too.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn beside(&self, domain: DomainId) -> Result<Session<'t>, DebugError> {
        let life = processes::lives(self.world).into_iter().find(|life| life.has(domain));
        let images: Vec<DomainId> =
            life.map_or_else(|| vec![domain], |life| life.images.iter().map(|entry| entry.domain).collect());
        let image = images.iter().position(|image| *image == domain).unwrap_or(0);
        let history = History::new(Rc::clone(self.history.budget()));
        Session::begin(self.world, images, image, (None, self.stopper.clone()), history)
    }

    /// A session of a helper, which stands at a mark and looks for the same as another one.
    pub(super) fn helper(
        (world, images): (&'t World<'t>, Vec<DomainId>),
        mark: &Mark<'t>,
        wanted: Wanted,
        targets: Targets,
        stopper: Stopper,
        memory: u64,
    ) -> Result<Session<'t>, Trouble> {
        let alarm = Alarm::new(Arc::clone(&stopper.interrupt));
        let alarm = alarm.map_err(|source| Halt::Cut(format!("failed to start a thread: {source}")))?;
        let mut history = History::new(Budget::new(Some(memory)));
        history.add(mark.clone());
        let live = mark.resume()?;
        let mut session = Session::fresh(
            (world, images),
            Solo::new(world, None),
            (live, mark.position.clone()),
            history,
            targets,
            (alarm, stopper),
        );
        session.want(wanted);
        Ok(session)
    }

    fn begin(
        world: &'t World<'t>,
        images: Vec<DomainId>,
        image: usize,
        (ear, stopper): (Option<Ear>, Stopper),
        mut history: History<'t>,
    ) -> Result<Session<'t>, DebugError> {
        let alarm = Alarm::new(Arc::clone(&stopper.interrupt))
            .map_err(|source| DebugError::Io { what: "start a thread", source })?;
        // Together with its tasks: a stop across cores takes twenty times as long.
        let core = bis_tracee::sys::current_core();
        let cores = bis_tracee::sys::get_affinity(Tid(0)).unwrap_or_default();
        balance::pin(Tid(0), core);
        let mut host = Solo::new(world, ear);
        let (live, event) = begin_image(&mut host, &mut history, &images, image)?;
        let machine = world.trace().machine().cloned().unwrap_or_default();
        let targets = Targets::new(machine.xcr0 & bis_tracee::cpu::xcr0(), &offsets());
        let live = (live, Position::at(event));
        let session = Session::fresh((world, images), host, live, history, targets, (alarm, stopper));
        Ok(Session { cores, ..session })
    }

    /// One in which nothing has been asked for yet.
    fn fresh(
        (world, images): (&'t World<'t>, Vec<DomainId>),
        host: Solo<'t>,
        (live, position): (Live<'t>, Position),
        history: History<'t>,
        targets: Targets,
        (alarm, stopper): (Alarm, Stopper),
    ) -> Session<'t> {
        Session {
            world,
            images,
            host,
            others: Others::default(),
            tid: live.replica.done().1,
            live,
            position,
            history,
            searched: Searched::default(),
            inner: Inner::default(),
            hits: None,
            window: None,
            passed: passed::Passed::default(),
            in_window: None,
            points: Points::default(),
            targets,
            alarm,
            cores: Vec::new(),
            stopper,
            passed_signals: BTreeSet::new(),
            passed_of_others: None,
            known: super::window::Known::default(),
            caught_calls: Catch::None,
            catches_forks: false,
            tells_threads: false,
            told_next: VecDeque::new(),
            exits: None,
            aside: Aside::default(),
            origin: source::Origin::default(),
            intervals: intervals::Intervals::default(),
            fflush: None,
            console: VecDeque::new(),
            listener: None,
        }
    }

    /// Goes to where the session is to begin.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn go_to_begin(&mut self, begin: &Begin) -> Result<(), DebugError> {
        let trouble = |trouble: Trouble| match trouble {
            Trouble::Halt(halt) => DebugError::from(halt),
            Trouble::Asked => DebugError::Cut("interrupted".into()),
        };
        match begin {
            Begin::FirstExec => {}
            Begin::Event(event) => {
                if let Some(outside) = self.outside(EventSeq(*event)) {
                    return Err(DebugError::Outside(outside.with_way(|owner| format!("-p {owner}"))));
                }
                self.seek(&Position::at(EventSeq(*event))).map_err(trouble)?;
            }
            Begin::Place(position) => self.seek(position).map(drop).map_err(trouble)?,
            Begin::End => self.tid = self.run_to_end().map_err(trouble)?.tid,
            Begin::Divergence => {
                self.tid = self.run_to_end().map_err(trouble)?.tid;
                if self.live.broken.is_none() {
                    return Err(DebugError::NoDivergence);
                }
            }
        }
        Ok(())
    }

    /// The user goes on here, and not there any more: what holds for all processes comes along.
    pub fn take_over(&mut self, left: &mut Session<'t>) {
        self.host.take_ear(&mut left.host);
        self.passed_signals.clone_from(&left.passed_signals);
        self.caught_calls.clone_from(&left.caught_calls);
        self.catches_forks = left.catches_forks;
        self.console.append(&mut left.console);
        // A client puts its breakpoints in anew.
        self.points = Points::default();
    }
}

/// Where this processor keeps vector registers.
pub(crate) fn offsets() -> Offsets {
    let offset = |component: u32, default: usize| {
        let [_, ebx, _, _] = bis_tracee::cpu::component(component);
        if ebx == 0 { default } else { usize::try_from(ebx).unwrap_or(default) }
    };
    let default = Offsets::default();
    Offsets {
        ymm_high: offset(2, default.ymm_high),
        opmask: offset(5, default.opmask),
        zmm_high: offset(6, default.zmm_high),
        zmm_16_31: offset(7, default.zmm_16_31),
        pkru: offset(9, default.pkru),
    }
}
