//! The company of a replica that is driven alone: the domains that share memory with it, and the files of
//! what they share.
//!
//! They are replicas too, and are let go on only where the driven one waits for a turn of theirs: always the
//! one whose next event comes first in the trace's order, by one event, until the turn has come. So where
//! they stand depends only on where the driven one stands, whatever the way that led there; and a checkpoint
//! of the driven one is a checkpoint of all.
//!
//! Most of the time they stand still. One that has not moved since it was kept is not kept again, and one
//! that was kept gets a process of its own only when it goes on: a company that is copied often costs a fork
//! for each of its domains that has moved.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
};

use bis_trace::types::{DomainId, EventSeq};

use crate::{
    checkpoint::Kept,
    error::{Halt, ReplayError},
    objects::Objects,
    replica::Replica,
    select::{self, Extent},
    world::World,
};

/// See the module's text.
#[derive(Debug, Default)]
pub struct Company<'t> {
    pub(crate) objects: Objects,
    /// Which domains are in it, and how much of them is needed.
    extents: Rc<HashMap<DomainId, Extent>>,
    /// Those of whom the driven one is a copy, and itself: what is the program's own in their text is known.
    shown: Rc<BTreeSet<DomainId>>,
    /// Those that have begun.
    members: BTreeMap<DomainId, Member<'t>>,
    /// The driven one waits for a turn that has not come: where the others stand has no name.
    pub(crate) is_underway: bool,
}

/// What of a company is known where nobody is in it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    extents: HashMap<DomainId, Extent>,
    shown: BTreeSet<DomainId>,
    over: BTreeSet<DomainId>,
}

type SharedKept<'t> = Rc<RefCell<Kept<'t>>>;

#[derive(Debug)]
enum Member<'t> {
    /// It has a process. It may have been kept where it stands.
    Here(Box<Replica<'t>>, Option<SharedKept<'t>>),
    /// It stands where this was kept.
    Kept(SharedKept<'t>),
    /// All of its events that are needed are done, or it is driven.
    Over,
}

impl<'t> Company<'t> {
    /// The company of a domain that has not begun.
    pub(crate) fn of(world: &World<'t>, domain: DomainId) -> Company<'t> {
        let mut shown = BTreeSet::new();
        let mut next = Some(domain);
        while let Some(domain) = next.filter(|domain| shown.insert(*domain)) {
            let copied = world.known(domain).and_then(|entry| entry.base.copied_from());
            next = copied.map(|(parent, _)| parent);
        }
        let extents = select::group(&world.facts_now(), domain);
        Company { extents: Rc::new(extents), shown: Rc::new(shown), ..Company::default() }
    }

    /// What is known of it, if there is nobody in it, and nothing that is shared.
    pub(crate) fn facts(&self) -> Option<Facts> {
        let is_over = |member: &Member<'t>| matches!(member, Member::Over);
        let is_alone = self.objects.is_empty() && !self.is_underway && self.members.values().all(is_over);
        is_alone.then(|| Facts {
            extents: (*self.extents).clone(),
            shown: (*self.shown).clone(),
            over: self.members.keys().copied().collect(),
        })
    }

    /// A company of which that is known.
    pub(crate) fn alone(facts: Facts) -> Company<'t> {
        Company {
            extents: Rc::new(facts.extents),
            shown: Rc::new(facts.shown),
            members: facts.over.into_iter().map(|domain| (domain, Member::Over)).collect(),
            ..Company::default()
        }
    }

    /// Is what it has of text to be known?
    pub(crate) fn is_shown(&self, domain: DomainId) -> bool {
        self.shown.contains(&domain)
    }

    /// Is this domain, which somebody forks, in the company, and has it not begun?
    pub(crate) fn wants(&self, domain: DomainId) -> bool {
        self.extents.contains_key(&domain) && !self.members.contains_key(&domain)
    }

    /// The domain whose next event comes first, of those that are not blocked.
    pub(crate) fn next(
        &mut self,
        world: &World<'t>,
        blocked: &BTreeSet<DomainId>,
    ) -> Result<Option<DomainId>, Halt> {
        let mut first: Option<(EventSeq, DomainId)> = None;
        for domain in self.extents.keys().filter(|domain| !blocked.contains(domain)) {
            let next = match self.members.get_mut(domain) {
                Some(Member::Here(replica, _)) => replica.next_event()?.map(|event| event.seq),
                Some(Member::Kept(kept)) => kept.borrow().next_event(),
                Some(Member::Over) => None,
                // Others begin when they are forked.
                None => {
                    let entry = world.known(*domain);
                    entry.filter(|entry| !entry.base.is_copy()).map(|entry| entry.seq)
                }
            };
            let next = next.map(|next| (next, *domain));
            first = [first, next].into_iter().flatten().min();
        }
        Ok(first.map(|(_, domain)| domain))
    }

    /// Takes a member out, to be let go on. None: it has not begun, or is over.
    pub(crate) fn take(&mut self, domain: DomainId) -> Result<Option<Box<Replica<'t>>>, Halt> {
        Ok(match self.members.remove(&domain) {
            Some(Member::Here(replica, _)) => Some(replica),
            Some(Member::Kept(kept)) => Some(Box::new(kept.borrow_mut().resume(&self.objects)?)),
            Some(Member::Over) | None => None,
        })
    }

    /// Takes a member out that is driven from now on.
    pub(crate) fn leave(&mut self, domain: DomainId) -> Result<Option<Box<Replica<'t>>>, Halt> {
        let replica = self.take(domain)?;
        Ok(replica.inspect(|_| self.end(domain)))
    }

    /// A member stands somewhere else, or has begun.
    pub(crate) fn put(&mut self, replica: Box<Replica<'t>>) {
        let domain = replica.entry().domain;
        let (done, _) = replica.done();
        if matches!(self.extents.get(&domain), Some(Extent::Until(last)) if done >= *last) {
            self.end(domain);
        } else {
            self.members.insert(domain, Member::Here(replica, None));
        }
    }

    /// Nothing more is needed of this domain.
    pub(crate) fn end(&mut self, domain: DomainId) {
        self.members.insert(domain, Member::Over);
    }

    /// The company as it is now, to be gone on with later. None: one of them cannot be copied here.
    pub(crate) fn checkpoint(&mut self) -> Result<Option<Company<'t>>, Halt> {
        if self.is_underway {
            return Ok(None);
        }
        for member in self.members.values_mut() {
            let Member::Here(replica, known) = member else { continue };
            if known.is_none() {
                // A copy has to know what comes next.
                replica.next_event()?;
                let Some(kept) = replica.keep()? else { return Ok(None) };
                *known = Some(Rc::new(RefCell::new(kept)));
            }
        }
        self.copy().map(Some)
    }

    /// A company that goes on from where this one was kept.
    pub(crate) fn resume(&self) -> Result<Company<'t>, Halt> {
        self.copy()
    }

    fn copy(&self) -> Result<Company<'t>, Halt> {
        let copy = |(domain, member): (&DomainId, &Member<'t>)| {
            let member = match member {
                Member::Kept(kept) | Member::Here(_, Some(kept)) => Member::Kept(Rc::clone(kept)),
                Member::Here(_, None) | Member::Over => Member::Over,
            };
            (*domain, member)
        };
        let objects =
            self.objects.copy().map_err(|source| ReplayError::io("copy a shared object", source))?;
        Ok(Company {
            objects,
            extents: Rc::clone(&self.extents),
            shown: Rc::clone(&self.shown),
            members: self.members.iter().map(copy).collect(),
            is_underway: false,
        })
    }
}
