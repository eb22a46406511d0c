//! What to replay: everything, or what one process needs.
//!
//! A process is replayed from its last exec. If it never exec'd, its domain is a copy of its parent's, and so
//! the parent is replayed as far as the fork, and so on up to an exec. Domains that map the same shared
//! object are replayed together, whole: each waits for the turns of the others.
//!
//! Pure: facts in, a selection out.

use std::collections::{HashMap, HashSet};

use bis_trace::{
    event::DomainEntry,
    types::{DomainId, EventSeq, ObjectId, Tid},
};

use crate::error::ReplayError;

/// How much of a domain is replayed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Extent {
    /// Up to and with this event, which forks a domain that is wanted.
    Until(EventSeq),
    Whole,
}

/// What a trace's meta stream says, as far as it matters here.
#[derive(Clone, Default, Debug)]
pub(crate) struct Facts {
    pub domains: Vec<DomainEntry>,
    /// (domain, process) of tasks that joined a domain after its first one.
    pub tasks: Vec<(DomainId, Tid)>,
    pub shares: Vec<(ObjectId, DomainId)>,
    /// What somebody outside of the recording could change, as the trace says it.
    pub outside: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    /// Those that begin with an exec, in the order in which they began.
    pub roots: Vec<DomainId>,
    pub extents: HashMap<DomainId, Extent>,
    /// Those whose output is shown.
    pub heard: HashSet<DomainId>,
}

/// The domain in which a process was last.
fn last_domain(facts: &Facts, pid: Tid) -> Option<DomainId> {
    let own = facts.domains.iter().filter(|entry| entry.pid == pid).max_by_key(|entry| entry.seq);
    // A child made by vfork lives in its parent's domain until it execs.
    let lent = || facts.tasks.iter().rev().find(|(_, p)| *p == pid).map(|(domain, _)| *domain);
    own.map(|entry| entry.domain).or_else(lent)
}

fn pids(facts: &Facts) -> Vec<Tid> {
    let all = facts.domains.iter().map(|entry| entry.pid).chain(facts.tasks.iter().map(|(_, pid)| *pid));
    let mut pids: Vec<Tid> = all.collect();
    pids.sort();
    pids.dedup();
    pids
}

/// Everything that the domains in `extents` need to be replayed, added to it.
fn complete(facts: &Facts, extents: &mut HashMap<DomainId, Extent>) {
    let entries: HashMap<DomainId, &DomainEntry> = facts.domains.iter().map(|e| (e.domain, e)).collect();
    let mut objects_of: HashMap<DomainId, Vec<ObjectId>> = HashMap::new();
    let mut sharers: HashMap<ObjectId, Vec<DomainId>> = HashMap::new();
    for (object, domain) in &facts.shares {
        objects_of.entry(*domain).or_default().push(*object);
        sharers.entry(*object).or_default().push(*domain);
    }
    let mut work: Vec<DomainId> = extents.keys().copied().collect();
    while let Some(domain) = work.pop() {
        let fellows = objects_of.remove(&domain).unwrap_or_default();
        let fellows = fellows.iter().flat_map(|object| sharers.remove(object).unwrap_or_default());
        let mut wanted: Vec<(DomainId, Extent)> = fellows.map(|fellow| (fellow, Extent::Whole)).collect();
        if let Some((parent, at)) = entries.get(&domain).and_then(|entry| entry.base.copied_from()) {
            wanted.push((parent, Extent::Until(at)));
        }
        for (domain, extent) in wanted {
            let known = extents.get(&domain).copied();
            if known.is_none_or(|known| known < extent) {
                extents.insert(domain, extent);
                work.push(domain);
            }
        }
    }
}

/// A domain and those that have to be replayed beside it.
pub(crate) fn group(facts: &Facts, domain: DomainId) -> HashMap<DomainId, Extent> {
    let mut extents = HashMap::from([(domain, Extent::Whole)]);
    complete(facts, &mut extents);
    extents
}

/// # Errors
/// [`ReplayError::UnknownPid`].
pub(crate) fn select(facts: &Facts, pid: Option<Tid>) -> Result<Selection, ReplayError> {
    let (extents, heard) = match pid {
        None => {
            let all = facts.domains.iter().map(|entry| entry.domain);
            (all.clone().map(|domain| (domain, Extent::Whole)).collect(), all.collect())
        }
        Some(pid) => {
            let domain =
                last_domain(facts, pid).ok_or_else(|| ReplayError::UnknownPid { pid, known: pids(facts) })?;
            (group(facts, domain), HashSet::from([domain]))
        }
    };
    let is_root = |entry: &&DomainEntry| !entry.base.is_copy() && extents.contains_key(&entry.domain);
    let mut roots: Vec<(EventSeq, DomainId)> =
        facts.domains.iter().filter(is_root).map(|entry| (entry.seq, entry.domain)).collect();
    roots.sort();
    Ok(Selection { roots: roots.into_iter().map(|(_, domain)| domain).collect(), extents, heard })
}

#[cfg(test)]
mod tests {
    use bis_trace::event::Base;

    use super::*;

    const EXEC: Base = Base::Exec { path: vec![], argv: vec![], envp: vec![], cwd: vec![] };

    fn entry(domain: u32, pid: i32, base: Base, seq: u64) -> DomainEntry {
        let tid = Tid(pid);
        DomainEntry { domain: DomainId(domain), pid: tid, ppid: Tid(1), tid, base, seq: EventSeq(seq) }
    }

    fn fork(parent: u32, at: u64) -> Base {
        Base::Fork { parent: DomainId(parent), at: EventSeq(at) }
    }

    /// A shell (10) forks 11, which forks 12 and execs; 12 never execs; 13 shares an object with 12.
    fn facts() -> Facts {
        Facts {
            domains: vec![
                entry(1, 10, EXEC, 1),
                entry(2, 11, fork(1, 20), 21),
                entry(3, 12, fork(2, 30), 31),
                entry(4, 11, EXEC, 40),
                entry(5, 13, fork(1, 50), 51),
            ],
            tasks: vec![(DomainId(1), Tid(10)), (DomainId(1), Tid(14))],
            shares: vec![],
            outside: vec![],
        }
    }

    fn check(facts: &Facts, pid: i32, roots: &[u32], expected: &[(u32, Extent)]) {
        let selection = select(facts, Some(Tid(pid))).unwrap();
        assert_eq!(selection.roots, roots.iter().copied().map(DomainId).collect::<Vec<_>>());
        let expected: HashMap<_, _> = expected.iter().map(|(d, e)| (DomainId(*d), *e)).collect();
        assert_eq!(selection.extents, expected);
    }

    const fn until(seq: u64) -> Extent {
        Extent::Until(EventSeq(seq))
    }

    #[test]
    fn a_process_needs_its_last_exec_only() {
        check(&facts(), 11, &[4], &[(4, Extent::Whole)]);
    }

    #[test]
    fn a_process_without_exec_needs_its_ancestors_as_far_as_the_forks() {
        check(&facts(), 12, &[1], &[(3, Extent::Whole), (2, until(30)), (1, until(20))]);
    }

    #[test]
    fn who_shares_memory_comes_along_whole_with_what_it_needs() {
        let mut facts = facts();
        facts.shares = vec![(ObjectId(1), DomainId(3)), (ObjectId(1), DomainId(5))];
        let expected = [(3, Extent::Whole), (5, Extent::Whole), (2, until(30)), (1, until(50))];
        check(&facts, 12, &[1], &expected);
        assert_eq!(select(&facts, Some(Tid(12))).unwrap().heard, HashSet::from([DomainId(3)]));
    }

    #[test]
    fn a_vfork_child_is_found_in_its_parents_domain() {
        check(&facts(), 14, &[1], &[(1, Extent::Whole)]);
    }

    #[test]
    fn an_unknown_process_is_an_error_that_lists_the_known_ones() {
        let error = select(&facts(), Some(Tid(99))).unwrap_err();
        assert_eq!(error.to_string(), "the trace has no process 99; it has 10, 11, 12, 13, 14");
    }

    #[test]
    fn everything_is_everything() {
        let selection = select(&facts(), None).unwrap();
        assert_eq!((selection.roots, selection.extents.len()), (vec![DomainId(1), DomainId(4)], 5));
    }

    #[test]
    fn a_parent_that_is_its_own_child_does_no_harm() {
        let facts = Facts { domains: vec![entry(1, 1, fork(1, 5), 1)], ..Facts::default() };
        check(&facts, 1, &[], &[(1, Extent::Whole)]);
    }
}
