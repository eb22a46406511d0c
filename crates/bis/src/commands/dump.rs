//! `bis dump`: the events of all domains in their one order. Each domain's stream is opened when its turn
//! comes and closed at its end, so that memory holds one chunk for each domain that was alive at that place.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    io::Write,
};

use bis_agent::hooks::entries;
use bis_syscalls::row;
use bis_trace::{
    Trace, TraceError,
    event::{Event, EventKind, Meta, WayBack},
    types::{DomainId, EventSeq, Tid},
};

use serde_json::Value;

use crate::{
    args::{Dump, EventName},
    commands::dump_text::Text,
    failure::{Failure, Result},
    folder, json, output,
};

type Events<'a> = Box<dyn Iterator<Item = std::result::Result<Event, TraceError>> + 'a>;

/// Merges the streams of domains by their events' numbers.
pub struct Merged<'a> {
    trace: &'a Trace,
    /// Domains that have not begun, the next one last: (first event, domain).
    waiting: Vec<(u64, DomainId)>,
    open: HashMap<DomainId, (Option<Event>, Events<'a>)>,
    next: BinaryHeap<Reverse<(u64, DomainId)>>,
}

impl<'a> Merged<'a> {
    pub fn new(trace: &'a Trace, domains: impl Iterator<Item = DomainId>) -> Merged<'a> {
        let wanted: HashSet<DomainId> = domains.collect();
        let entries = trace.domains();
        let mut waiting: Vec<(u64, DomainId)> = entries
            .filter(|entry| wanted.contains(&entry.domain))
            .map(|entry| (entry.seq.0, entry.domain))
            .collect();
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        Merged { trace, waiting, open: HashMap::new(), next: BinaryHeap::new() }
    }

    /// Takes the next event of a stream into the merge; at the stream's end lets go of it.
    fn advance(&mut self, domain: DomainId, mut events: Events<'a>) -> std::result::Result<(), TraceError> {
        if let Some(event) = events.next().transpose()? {
            self.next.push(Reverse((event.seq.0, domain)));
            self.open.insert(domain, (Some(event), events));
        }
        Ok(())
    }

    fn step(&mut self) -> std::result::Result<Option<(DomainId, Event)>, TraceError> {
        while let Some((seq, domain)) = self.waiting.last().copied()
            && self.next.peek().is_none_or(|Reverse((first, _))| seq <= *first)
        {
            self.waiting.pop();
            let events: Events<'a> = Box::new(self.trace.events(domain));
            self.advance(domain, events)?;
        }
        let Some(Reverse((_, domain))) = self.next.pop() else { return Ok(None) };
        let Some((Some(event), events)) = self.open.remove(&domain) else { return Ok(None) };
        self.advance(domain, events)?;
        Ok(Some((domain, event)))
    }
}

impl Iterator for Merged<'_> {
    type Item = std::result::Result<(DomainId, Event), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Which process each task belongs to.
pub struct Processes {
    of_task: HashMap<(DomainId, Tid), Tid>,
}

impl Processes {
    pub fn of(trace: &Trace) -> Processes {
        let mut of_task = HashMap::new();
        for meta in trace.metas() {
            match meta {
                Meta::Domain(entry) => of_task.insert((entry.domain, entry.tid), entry.pid),
                Meta::Task { domain, tid, pid, .. } => of_task.insert((*domain, *tid), *pid),
                _ => None,
            };
        }
        Processes { of_task }
    }

    /// A task that the trace does not introduce is shown as its own process.
    pub fn pid(&self, domain: DomainId, tid: Tid) -> Tid {
        self.of_task.get(&(domain, tid)).copied().unwrap_or(tid)
    }

    /// The domains in which one of these processes or threads was.
    fn domains(&self, wanted: impl Fn(Tid, Tid) -> bool) -> HashSet<DomainId> {
        self.of_task
            .iter()
            .filter(|((_, tid), pid)| wanted(**pid, *tid))
            .map(|((domain, _), _)| *domain)
            .collect()
    }
}

fn name_of(kind: &EventKind) -> EventName {
    match kind {
        EventKind::Start(_) => EventName::Start,
        EventKind::Syscall { .. } => EventName::Syscall,
        EventKind::SyscallEnter { .. } => EventName::Enter,
        EventKind::SyscallExit { .. } => EventName::Exit,
        EventKind::Signal(_) => EventName::Signal,
        EventKind::Instruction { .. } => EventName::Instruction,
        EventKind::TaskExit { .. } => EventName::TaskExit,
        EventKind::Token { .. } => EventName::Token,
        EventKind::End => EventName::End,
        EventKind::Pause(_) => EventName::Pause,
        EventKind::Hooked { .. } => EventName::Hooked,
    }
}

fn call_of(kind: &EventKind) -> Option<u64> {
    match kind {
        EventKind::Syscall { nr, .. }
        | EventKind::SyscallEnter { nr, .. }
        | EventKind::SyscallExit { nr, .. } => Some(*nr),
        _ => None,
    }
}

/// The numbers of the calls that were asked for; none: all are meant.
#[derive(Default)]
pub struct Calls(HashSet<u64>);

impl Calls {
    pub fn wants(&self, nr: u64) -> bool {
        self.0.is_empty() || self.0.contains(&nr)
    }

    /// Is one of these calls in the event? Those between two stops are one event.
    fn wants_of(&self, kind: &EventKind) -> bool {
        self.0.is_empty()
            || match kind {
                EventKind::Hooked { log, .. } => entries(log).any(|entry| self.wants(entry.nr.into())),
                kind => call_of(kind).is_some_and(|nr| self.wants(nr)),
            }
    }
}

/// What was asked for, checked.
struct Filter<'a> {
    args: &'a Dump,
    calls: Calls,
}

impl<'a> Filter<'a> {
    fn new(args: &'a Dump) -> Result<Filter<'a>> {
        let numbers = |name: &String| {
            let wide = bis_syscalls::rows().iter().find(|row| row.name == name).map(|row| row.nr);
            // A number stands for a call that the table does not have.
            let wide = wide.or_else(|| name.parse().ok().filter(|nr| row(*nr).is_none()));
            let found: Vec<u64> = wide.into_iter().chain(bis_syscalls::narrow::number(name)).collect();
            if found.is_empty() {
                return Err(Failure::usage(format!(
                    "there is no system call {name} (bis syscalls shows all)"
                )));
            }
            Ok(found)
        };
        let calls = args.call.iter().map(numbers).collect::<Result<Vec<_>>>()?;
        if args.from > args.to {
            let Dump { from, to, .. } = args;
            return Err(Failure::usage(format!(
                "there are no events from {from} to {to}: --to is before --from"
            )));
        }
        Ok(Filter { args, calls: Calls(calls.into_iter().flatten().collect()) })
    }

    fn of_task(&self, pid: Tid, tid: Tid) -> bool {
        (self.args.pid.is_empty() || self.args.pid.contains(&pid.0))
            && (self.args.tid.is_empty() || self.args.tid.contains(&tid.0))
    }

    fn wants(&self, event: &Event, pid: Tid) -> bool {
        (self.args.from..=self.args.to).contains(&event.seq.0)
            && self.of_task(pid, event.tid)
            && (self.args.kind.is_empty() || self.args.kind.contains(&name_of(&event.kind)))
            && self.calls.wants_of(&event.kind)
    }
}

/// The events by which a process goes back to a checkpoint of itself, each with the one behind which that was
/// made.
fn ways_back(trace: &Trace) -> HashMap<EventSeq, EventSeq> {
    let way = |meta: &Meta| match meta {
        Meta::Note { seq, text } => Some((*seq, WayBack::of(text)?.to)),
        _ => None,
    };
    trace.metas().filter_map(way).collect()
}

pub fn run(args: &Dump) -> Result<u8> {
    let filter = Filter::new(args)?;
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let processes = Processes::of(&trace);
    let domains = processes.domains(|pid, tid| filter.of_task(pid, tid));
    if domains.is_empty() && !(args.pid.is_empty() && args.tid.is_empty()) {
        return Err(Failure::usage("the trace has no such process or thread (bis ps --threads shows all)"));
    }
    let mut out = output::page();
    let mut text = Text::new(args.full, &filter.calls);
    text.ways_back = ways_back(&trace);
    let mut last = EventSeq(0);
    for item in Merged::new(&trace, domains.into_iter()) {
        let (domain, event) = match item {
            Ok(item) => item,
            Err(error) => {
                // What was good is shown first.
                out.flush()?;
                return Err(error.into());
            }
        };
        last = event.seq;
        if event.seq.0 > args.to {
            break;
        }
        let pid = processes.pid(domain, event.tid);
        // The text of a return needs the entry before it, which may itself not be wanted.
        text.see(domain, &event);
        if !filter.wants(&event, pid) {
            continue;
        }
        if args.json {
            let mut value = json::event(&event, domain.0, pid);
            if let Some(to) = text.ways_back.get(&event.seq) {
                value["back_to"] = to.0.into();
            }
            if let Some(calls) = value.get_mut("calls").and_then(Value::as_array_mut) {
                calls.retain(|call| call["nr"].as_u64().is_some_and(|nr| filter.calls.wants(nr)));
            }
            writeln!(out, "{value}")?;
        } else {
            text.write(&mut out, domain, pid, &event)?;
        }
    }
    out.flush()?;
    // Of some processes there may be none: that is an answer.
    if last.0 < args.from && args.pid.is_empty() && args.tid.is_empty() {
        return Err(Failure::usage(format!(
            "there are no events from {} on: the last one is {last}",
            args.from
        )));
    }
    Ok(0)
}
