//! What all replicas of one trace know, whoever drives them: the trace, what it says of itself, and its kept
//! files. It does not change, but for what is found out once.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    sync::{Arc, Mutex, PoisonError},
};

use bis_trace::{
    Ending, Trace,
    event::{DomainEntry, EventKind, FileEntry, Machine, Meta, OUTSIDE},
    shown,
    types::{DomainId, EventSeq, FileId, ObjectId, TickKind, Tid},
};
use bis_tracee::{
    balance, sys,
    ticks::Ticks,
    xlayout::{Layout, Moved},
};
use rustix::fs::StatVfsMountFlags;

use crate::{error::ReplayError, objects, select::Facts};

/// A trace as something that can be replayed.
#[derive(Debug)]
pub struct World<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) machine: Machine,
    pub(crate) ticks: Ticks,
    /// The numbers of the cores that the replay may use, one at least: those of the thread that has made
    /// this.
    pub(crate) cores: Vec<usize>,
    pub(crate) entries: HashMap<DomainId, DomainEntry>,
    pub(crate) facts: Facts,
    /// The objects that no domain but one ever has, if that can be known.
    of_one_domain: HashSet<ObjectId>,
    /// Is the program still being recorded? What its trace ends with may not be its end.
    pub(crate) goes_on: bool,
    /// How the recorded vector registers become this processor's. None: they are as they are here.
    pub(crate) moved: Option<Moved>,
    /// Copies in memory of kept files, where the trace's own may not be executed.
    copies: Mutex<HashMap<FileId, Arc<File>>>,
    /// What was mapped last, the newest first: the next process is likely to map it, too.
    opened: Mutex<Vec<(FileId, Arc<File>)>>,
}

/// So many kept files stay open: what a compiler and all that it starts map. Each takes a moment of each new
/// process.
const OPENED_MAX: usize = 64;

/// The numbers of the cores that the calling thread may use.
fn usable_cores() -> Vec<usize> {
    let usable = balance::cores_of(&sys::get_affinity(Tid(0)).unwrap_or_default());
    if usable.is_empty() { vec![0] } else { usable }
}

/// How vector registers are moved that were recorded on `machine`: the trace's first state shows how long
/// they are.
fn moved(trace: &Trace, machine: &Machine, domains: &[DomainEntry]) -> Option<Moved> {
    let first = trace.events(domains.first()?.domain).without_ours().next()?.ok()?;
    let EventKind::Start(start) = first.kind else { return None };
    let recorded = Layout::of_recorded(machine.xcr0, start.outcome.xstate?.len());
    Moved::between(recorded, Layout::here()?)
}

/// What a trace says of its domains and of what they share.
fn facts_of(trace: &Trace) -> Facts {
    let mut facts = Facts::default();
    for meta in trace.metas() {
        match meta {
            Meta::Domain(entry) => facts.domains.push(entry.clone()),
            Meta::Task { domain, pid, .. } => facts.tasks.push((*domain, *pid)),
            Meta::Note { text, .. } => facts.outside.extend(text.strip_prefix(OUTSIDE).map(str::to_owned)),
            Meta::Share { object, domain } => facts.shares.push((*object, *domain)),
            _ => {}
        }
    }
    facts
}

fn objects_of_one_domain(shares: &[(ObjectId, DomainId)]) -> HashSet<ObjectId> {
    let mut domains: HashMap<ObjectId, Option<DomainId>> = HashMap::new();
    for (object, domain) in shares {
        let known = domains.entry(*object).or_insert(Some(*domain));
        if *known != Some(*domain) {
            *known = None;
        }
    }
    domains.into_iter().filter_map(|(object, domain)| domain.map(|_| object)).collect()
}

impl<'t> World<'t> {
    /// # Errors
    /// Where this machine cannot count what the trace's places are counted in.
    pub fn new(trace: &'t Trace) -> Result<World<'t>, ReplayError> {
        let facts = facts_of(trace);
        // A trace that names none was made by hand; there is nothing to count in it.
        let ticks = trace.machine().map_or("", |machine| &machine.tick_source);
        let ticks = if ticks.is_empty() { Ticks::begin(TickKind::State)? } else { Ticks::named(ticks)? };
        let machine = trace.machine().cloned().unwrap_or_default();
        let entries = facts.domains.iter().map(|entry| (entry.domain, entry.clone())).collect();
        let cores = usable_cores();
        let moved = moved(trace, &machine, &facts.domains);
        let is_whole = matches!(trace.ended(), Ending::Complete { .. });
        let of_one_domain = if is_whole { objects_of_one_domain(&facts.shares) } else { HashSet::new() };
        Ok(World {
            trace,
            machine,
            ticks,
            cores,
            entries,
            facts,
            of_one_domain,
            goes_on: false,
            moved,
            copies: Mutex::default(),
            opened: Mutex::default(),
        })
    }

    /// This world, of a trace that is still written if `goes_on`.
    #[must_use]
    pub fn that_goes_on(self, goes_on: bool) -> World<'t> {
        World { goes_on, ..self }
    }

    /// Does no domain but one ever have this object? Known of traces that are whole; of one that somebody
    /// still writes nothing is.
    pub(crate) fn is_of_one_domain(&self, object: ObjectId) -> bool {
        self.of_one_domain.contains(&object)
    }

    /// Does the trace say all of its domains and of what they share?
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.trace.ended(), Ending::Complete { .. })
    }

    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// What the trace says of a domain.
    ///
    /// # Errors
    /// Where it has none of this number.
    pub fn entry(&self, domain: DomainId) -> Result<&DomainEntry, ReplayError> {
        self.known(domain).ok_or_else(|| ReplayError::Inconsistent {
            domain,
            seq: EventSeq(0),
            what: "the trace does not say how it begins".into(),
        })
    }

    /// What the trace says of a domain, if it says anything.
    pub(crate) fn known(&self, domain: DomainId) -> Option<&DomainEntry> {
        let known = self.entries.get(&domain);
        // One that has begun since the trace was opened ([`Trace::follow`]).
        known.or_else(|| self.trace.domains().find(|entry| entry.domain == domain))
    }

    /// The kept files.
    pub fn files(&self) -> impl Iterator<Item = &FileEntry> {
        self.trace.metas().filter_map(|meta| match meta {
            Meta::File(entry) => Some(entry),
            _ => None,
        })
    }

    /// All domains, in the order in which they began.
    pub fn domains(&self) -> impl Iterator<Item = &DomainEntry> {
        self.trace.domains()
    }

    /// What the trace says by now, also where it has grown since this was made.
    pub(crate) fn facts_now(&self) -> Facts {
        facts_of(self.trace)
    }

    /// The command line of a domain's process: its own, or that of the ancestor that it is a copy of; as text
    /// for one line.
    pub fn command(&self, entry: &DomainEntry) -> String {
        let mut base = &entry.base;
        // No chain of copies is longer than there are domains, whatever the trace says.
        for _ in 0..=self.trace.domains().count() {
            if let Some(program) = base.program() {
                let words: Vec<_> = program.argv.iter().map(|word| shown::text(word)).collect();
                return words.join(" ");
            }
            match base.copied_from().and_then(|(parent, _)| self.known(parent)) {
                Some(entry) => base = &entry.base,
                None => break,
            }
        }
        String::new()
    }

    /// A kept file as something that can be mapped executable.
    pub(crate) fn mappable(&self, file: FileId) -> Result<Arc<File>, ReplayError> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let mut opened = opened();
            let place = opened.iter().position(|(kept, _)| *kept == file);
            place.map(|place| {
                opened[..=place].rotate_right(1);
                Arc::clone(&opened[0].1)
            })
        };
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let new = self.open_mappable(file)?;
        let mut opened = opened();
        opened.truncate(OPENED_MAX - 1);
        opened.insert(0, (file, Arc::clone(&new)));
        Ok(new)
    }

    /// The files that were mapped last, open.
    pub(crate) fn mapped_last(&self) -> Vec<(FileId, Arc<File>)> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn open_mappable(&self, file: FileId) -> Result<Arc<File>, ReplayError> {
        let opened = self.trace.open_file(file)?;
        let noexec =
            rustix::fs::fstatvfs(&opened).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOEXEC));
        if !noexec {
            return Ok(Arc::new(opened));
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.get(&file) {
            return Ok(copy.clone());
        }
        let copy = objects::copy_of(file, &opened)
            .map_err(|source| ReplayError::io(format!("copy kept file {file} into memory"), source))?;
        let copy = Arc::new(copy);
        copies.insert(file, copy.clone());
        Ok(copy)
    }
}
