//! The processes of a recording: when each of them lives, and which programs it executes.

use bis_replay::World;
use bis_trace::{
    event::{DomainEntry, Meta},
    types::{DomainId, EventSeq, Tid},
};

/// One process, from the fork or exec with which its recording begins, to its end.
#[derive(Clone, Debug)]
pub struct Life<'t> {
    /// Its domains, in order: one for each program that it executes.
    pub images: Vec<&'t DomainEntry>,
    /// None: the recording does not say where it ends.
    pub end: Option<EventSeq>,
}

impl<'t> Life<'t> {
    pub fn first(&self) -> &'t DomainEntry {
        self.images[0]
    }

    pub fn has(&self, domain: DomainId) -> bool {
        self.images.iter().any(|entry| entry.domain == domain)
    }

    /// The program that it executes at an event; the first one where it has not begun.
    pub fn at(&self, event: EventSeq) -> &'t DomainEntry {
        self.images.iter().rev().find(|entry| entry.seq <= event).unwrap_or(&self.images[0])
    }
}

/// All of them, in the order in which they begin.
pub fn lives<'t>(world: &World<'t>) -> Vec<Life<'t>> {
    let trace = world.trace();
    let mut entries: Vec<&DomainEntry> = trace.domains().collect();
    entries.sort_by_key(|entry| entry.seq);
    let mut lives: Vec<Life<'t>> = Vec::new();
    for entry in entries {
        // A number may come again, for another process.
        let known = lives.iter_mut().rev().find(|life| life.first().pid == entry.pid);
        match known.filter(|_| !entry.base.is_copy()) {
            Some(life) => life.images.push(entry),
            None => lives.push(Life { images: vec![entry], end: None }),
        }
    }
    for meta in trace.metas() {
        let Meta::DomainEnd { domain, seq, .. } = meta else { continue };
        let life =
            lives.iter_mut().find(|life| life.images.last().is_some_and(|last| last.domain == *domain));
        if let Some(life) = life {
            life.end = Some(*seq);
        }
    }
    lives
}

/// The process of this number that lives at an event; else the one that lived last before, or lives first.
pub fn life_at<'t>(world: &World<'t>, pid: Tid, event: EventSeq) -> Option<Life<'t>> {
    let mut all: Vec<Life<'t>> = lives(world).into_iter().filter(|life| life.first().pid == pid).collect();
    let index = all.iter().rposition(|life| life.first().seq <= event).unwrap_or(0);
    (index < all.len()).then(|| all.swap_remove(index))
}

/// Whose event this is.
pub fn owner(world: &World<'_>, event: EventSeq) -> Option<Tid> {
    let trace = world.trace();
    let has = |entry: &&DomainEntry| {
        let mut events = trace.events(entry.domain).map_while(Result::ok).map(|event| event.seq);
        entry.seq <= event && events.find(|seq| *seq >= event) == Some(event)
    };
    trace.domains().find(has).map(|entry| entry.pid)
}

/// The process in whose memory this one lives, made by vfork, until it executes a program.
pub fn lender(world: &World<'_>, pid: Tid) -> Option<Tid> {
    let domain = world.trace().metas().find_map(|meta| match meta {
        Meta::Task { domain, pid: whose, .. } if *whose == pid => Some(*domain),
        _ => None,
    })?;
    world.entry(domain).ok().map(|entry| entry.pid)
}

/// The programs that a process executes one after the other, from this one on.
pub(super) fn images(world: &World<'_>, first: &DomainEntry) -> Vec<DomainId> {
    let mut images: Vec<&DomainEntry> =
        world.domains().filter(|entry| entry.pid == first.pid && entry.seq >= first.seq).collect();
    images.sort_by_key(|entry| entry.seq);
    // A number may come again for another process.
    let is_next = |entry: &&&DomainEntry| entry.domain == first.domain || !entry.base.is_copy();
    images.iter().filter(is_next).map(|entry| entry.domain).collect()
}
