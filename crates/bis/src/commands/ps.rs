//! `bis ps`: the processes of a recording as a tree, with what became of each. A process is made of domains:
//! the copy that a fork made of its parent, then one for each exec.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::Write,
};

use bis_trace::{
    Trace,
    event::{Base, DomainEntry, Meta, TaskEnd, WayBack},
    types::{DomainId, EventSeq, Signal, Tid},
};
use serde_json::json;

use crate::{args::Ps, commands::dump_text, failure::Result, folder, human, json, output, output::Table};

/// One task in one domain.
#[derive(Debug, Clone)]
struct Task {
    tid: Tid,
    from: EventSeq,
    end: Option<TaskEnd>,
}

/// One process from its fork (or the recording's begin) to its end.
#[derive(Debug)]
struct Process {
    pid: Tid,
    ppid: Tid,
    domains: Vec<DomainId>,
    /// The last exec's arguments; what a fork copied until then.
    argv: Vec<Vec<u8>>,
    /// How many programs it has run of which the trace says all. The one in which it was found running is
    /// one.
    exec_count: usize,
    tasks: Vec<Task>,
    event_count: u64,
    /// By which event it has gone back to a checkpoint of itself, and behind which event that was made.
    ways_back: Vec<(EventSeq, EventSeq)>,
    parent: Option<usize>,
    from: EventSeq,
}

impl Process {
    fn new(entry: &DomainEntry, parent: Option<usize>, argv: Vec<Vec<u8>>) -> Process {
        Process {
            pid: entry.pid,
            ppid: entry.ppid,
            domains: Vec::new(),
            argv,
            exec_count: 0,
            tasks: Vec::new(),
            event_count: 0,
            ways_back: Vec::new(),
            parent,
            from: entry.seq,
        }
    }

    /// How the process ended: its leader's end where that is known, else the last end of a task. None while
    /// it runs.
    fn end(&self) -> Option<TaskEnd> {
        let last = |tasks: &mut dyn DoubleEndedIterator<Item = &Task>| {
            tasks.rev().find_map(|task| {
                task.end.filter(|end| matches!(end, TaskEnd::Exited(_) | TaskEnd::Killed(_)))
            })
        };
        if self.tasks.iter().any(|task| task.end.is_none()) {
            return None;
        }
        last(&mut self.tasks.iter().filter(|task| task.tid == self.pid))
            .or_else(|| last(&mut self.tasks.iter()))
    }

    fn thread_count(&self) -> usize {
        self.tasks.iter().map(|task| task.tid).collect::<HashSet<_>>().len()
    }

    /// Its ways back, as lines: one for each checkpoint.
    fn shown_ways_back(&self) -> Vec<String> {
        /// More events than these are counted only.
        const SHOWN: usize = 4;
        let mut by_checkpoint: BTreeMap<EventSeq, Vec<EventSeq>> = BTreeMap::new();
        for (at, to) in &self.ways_back {
            by_checkpoint.entry(*to).or_default().push(*at);
        }
        let line = |(to, all): (&EventSeq, &Vec<EventSeq>)| {
            let (shown, rest) = all.split_at(all.len().min(SHOWN));
            let shown = shown.iter().map(EventSeq::to_string).collect::<Vec<_>>().join(", ");
            let plural = if all.len() == 1 { "" } else { "s" };
            match rest.len() {
                0 => format!("back to event {to}, by event{plural} {shown}"),
                more => format!("back to event {to}, by events {shown} and {more} more"),
            }
        };
        by_checkpoint.iter().map(line).collect()
    }

    fn shown_end(&self) -> String {
        self.end().map_or_else(|| "not seen".into(), dump_text::task_end)
    }
}

/// Puts the trace's entries together.
fn processes(metas: impl Iterator<Item = Meta>) -> Vec<Process> {
    let mut book = Book::default();
    metas.for_each(|meta| book.enter(meta));
    book.all
}

/// The processes of a trace, by what its entries have told so far. Process ids may be used again in a long
/// recording: a process is the newest one of its id that has begun.
#[derive(Default)]
struct Book {
    all: Vec<Process>,
    by_pid: HashMap<Tid, usize>,
    by_domain: HashMap<DomainId, usize>,
    /// A vfork child is a task of its parent's domain, and a process.
    place_of: HashMap<(DomainId, Tid), usize>,
}

impl Book {
    fn enter(&mut self, meta: Meta) {
        match meta {
            Meta::Domain(entry) => self.domain(&entry),
            Meta::Task { domain, tid, pid, seq } => self.task(domain, tid, pid, seq),
            Meta::TaskEnd { domain, tid, status, .. } => {
                if let Some(at) = self.place_of.get(&(domain, tid))
                    && let Some(task) = self.all[*at]
                        .tasks
                        .iter_mut()
                        .rev()
                        .find(|task| task.tid == tid && task.end.is_none())
                {
                    task.end = Some(status);
                }
            }
            Meta::DomainEnd { domain, event_count, .. } => {
                if let Some(at) = self.by_domain.get(&domain) {
                    self.all[*at].event_count += event_count;
                }
            }
            Meta::Note { seq, text } => {
                if let Some(way) = WayBack::of(&text)
                    && let Some(at) = self.by_pid.get(&way.pid)
                {
                    self.all[*at].ways_back.push((seq, way.to));
                }
            }
            _ => {}
        }
    }

    /// Its place among all.
    fn add(&mut self, entry: &DomainEntry, parent: Option<usize>, argv: Vec<Vec<u8>>) -> usize {
        self.all.push(Process::new(entry, parent, argv));
        self.by_pid.insert(entry.pid, self.all.len() - 1);
        self.all.len() - 1
    }

    /// A process has begun, or has executed a program.
    fn domain(&mut self, entry: &DomainEntry) {
        let known = self.by_pid.get(&entry.pid).copied();
        let at = match (entry.base.copied_from(), known) {
            (None, Some(at)) => at,
            (copied, _) => {
                let parent = self.by_pid.get(&entry.ppid).copied();
                let copied = copied.and_then(|(parent, _)| self.by_domain.get(&parent));
                let argv = copied.map(|at| self.all[*at].argv.clone()).unwrap_or_default();
                self.add(entry, parent, argv)
            }
        };
        self.by_domain.insert(entry.domain, at);
        self.place_of.insert((entry.domain, entry.tid), at);
        let process = &mut self.all[at];
        process.domains.push(entry.domain);
        process.tasks.push(Task { tid: entry.tid, from: entry.seq, end: None });
        if let Some(program) = entry.base.program() {
            process.argv = program.argv.to_vec();
            process.exec_count += 1;
        }
    }

    /// A task has joined a domain.
    fn task(&mut self, domain: DomainId, tid: Tid, pid: Tid, seq: EventSeq) {
        let Some(&host) = self.by_domain.get(&domain) else { return };
        let at = if self.all[host].pid == pid {
            host
        } else {
            // vfork: its parent's memory until it execs.
            let is_it = |at: &usize| self.all[*at].parent == Some(host) && self.all[*at].end().is_none();
            let known = self.by_pid.get(&pid).copied().filter(is_it);
            known.unwrap_or_else(|| {
                let Process { pid: ppid, ref argv, .. } = self.all[host];
                let argv = argv.clone();
                let base = Base::Fork { parent: domain, at: seq };
                self.add(&DomainEntry { domain, pid, ppid, tid, base, seq }, Some(host), argv)
            })
        };
        self.place_of.insert((domain, tid), at);
        self.all[at].tasks.push(Task { tid, from: seq, end: None });
    }
}

/// The order of the tree: parents before children, children in the order in which they began; with each its
/// branches, drawn.
fn tree(all: &[Process]) -> Vec<(usize, String)> {
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, process) in all.iter().enumerate() {
        children.entry(process.parent.filter(|parent| *parent < at)).or_default().push(at);
    }
    let mut order = Vec::new();
    // (process, its branch, what its children's branches begin with)
    let mut work: Vec<(usize, String, String)> = Vec::new();
    for root in children.get(&None).into_iter().flatten().rev() {
        work.push((*root, String::new(), String::new()));
    }
    while let Some((at, branch, stem)) = work.pop() {
        order.push((at, branch));
        let below = children.get(&Some(at)).map(Vec::as_slice).unwrap_or_default();
        for (i, child) in below.iter().enumerate().rev() {
            let (fork, stroke) = if i + 1 == below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            work.push((*child, format!("{stem}{fork}"), format!("{stem}{stroke}")));
        }
    }
    order
}

/// A process as rr shows it. The first one has no parent in the recording; a status below zero is a signal;
/// and one whose end was not seen counts as killed.
fn line_of_rr(process: &Process) -> String {
    let ppid = process.parent.map_or_else(|| "--".into(), |_| process.ppid.to_string());
    let exit = match process.end() {
        Some(TaskEnd::Exited(code)) => i32::from(code),
        Some(TaskEnd::Killed(signal)) => -i32::from(signal.0),
        _ => -i32::from(Signal::KILL.0),
    };
    let command = match process.exec_count {
        0 => "(forked without exec)".to_owned(),
        _ => process.argv.iter().map(|arg| human::text(arg)).collect::<Vec<_>>().join(" "),
    };
    format!("{}\t{ppid}\t{exit}\t{command}", process.pid)
}

pub fn run(args: &Ps) -> Result<u8> {
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let mut all = processes(trace.metas().cloned());
    count_unfinished(&trace, &mut all);
    let mut out = output::page();
    if args.rr {
        writeln!(out, "PID\tPPID\tEXIT\tCMD")?;
        for process in &all {
            writeln!(out, "{}", line_of_rr(process))?;
        }
    } else if args.json {
        for process in &all {
            let tasks: Vec<_> = process
                .tasks
                .iter()
                .map(|task| json!({"tid": task.tid.0, "from": task.from.0, "end": task.end.map(json::task_end)}))
                .collect();
            let way = |(at, to): &(EventSeq, EventSeq)| json!({"by": at.0, "to": to.0});
            let value = json!({
                "pid": process.pid.0, "ppid": process.ppid.0, "from": process.from.0,
                "domains": process.domains.iter().map(|domain| domain.0).collect::<Vec<_>>(),
                "argv": process.argv.iter().map(|arg| json::text(arg)).collect::<Vec<_>>(),
                "execs": process.exec_count, "threads": process.thread_count(), "events": process.event_count,
                "end": process.end().map(json::task_end), "tasks": tasks,
                "ways_back": process.ways_back.iter().map(way).collect::<Vec<_>>(),
            });
            writeln!(out, "{value}")?;
        }
    } else {
        let mut table = Table::new(["PID", "PARENT", "THREADS", "EVENTS", "END", "COMMAND"], &[0, 1, 2, 3]);
        let room = human::room(60);
        for (at, branch) in tree(&all) {
            let process = &all[at];
            let forked = if process.exec_count == 0 { " (forked)" } else { "" };
            let command = format!("{branch}{}{forked}", human::command_line(&process.argv));
            table.push([
                process.pid.to_string(),
                process.ppid.to_string(),
                process.thread_count().to_string(),
                human::count(process.event_count),
                process.shown_end(),
                human::shortened(&command, room),
            ]);
            for line in process.shown_ways_back() {
                let none = String::new;
                table.push([none(), none(), none(), none(), none(), line]);
            }
            if args.threads {
                for task in &process.tasks {
                    let end = task.end.map_or_else(|| "not seen".into(), dump_text::task_end);
                    let what = format!("thread {}, from event {}", task.tid, task.from);
                    table.push([String::new(), String::new(), String::new(), String::new(), end, what]);
                }
            }
        }
        table.write(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}

/// Adds the events of domains whose end is not in the trace (it was cut short), from the log's chunks.
fn count_unfinished(trace: &Trace, all: &mut [Process]) {
    let ended: HashSet<DomainId> = trace
        .metas()
        .filter_map(|meta| match meta {
            Meta::DomainEnd { domain, .. } => Some(*domain),
            _ => None,
        })
        .collect();
    for stats in trace.chunk_stats() {
        if !ended.contains(&stats.stream)
            && let Some(process) = all.iter_mut().find(|process| process.domains.contains(&stats.stream))
        {
            process.event_count += stats.event_count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(domain: u32, pid: i32, ppid: i32, seq: u64, name: &str) -> Meta {
        let base =
            Base::Exec { path: name.into(), argv: vec![name.into()], envp: Vec::new(), cwd: b"/".to_vec() };
        entry(domain, pid, ppid, seq, base)
    }

    fn entry(domain: u32, pid: i32, ppid: i32, seq: u64, base: Base) -> Meta {
        let (pid, ppid) = (Tid(pid), Tid(ppid));
        Meta::Domain(DomainEntry { domain: DomainId(domain), pid, ppid, tid: pid, base, seq: EventSeq(seq) })
    }

    fn end(domain: u32, tid: i32, status: TaskEnd, seq: u64) -> Meta {
        Meta::TaskEnd { domain: DomainId(domain), tid: Tid(tid), status, seq: EventSeq(seq) }
    }

    #[test]
    fn a_shell_its_forked_child_and_a_vforked_one() {
        let fork = Base::Fork { parent: DomainId(1), at: EventSeq(4) };
        let metas = vec![
            exec(1, 10, 9, 1, "sh"),
            entry(2, 11, 10, 5, fork),
            end(2, 11, TaskEnd::Exec(DomainId(3)), 6),
            exec(3, 11, 10, 7, "ls"),
            Meta::Task { domain: DomainId(3), tid: Tid(12), pid: Tid(11), seq: EventSeq(8) },
            end(3, 12, TaskEnd::Exited(0), 9),
            end(3, 11, TaskEnd::Exited(2), 10),
            Meta::DomainEnd { domain: DomainId(3), seq: EventSeq(11), event_count: 40 },
            Meta::Task { domain: DomainId(1), tid: Tid(13), pid: Tid(13), seq: EventSeq(12) },
            end(1, 13, TaskEnd::Exec(DomainId(4)), 13),
            exec(4, 13, 10, 14, "cc"),
        ];
        let all = processes(metas.into_iter());
        let shown: Vec<String> = tree(&all)
            .iter()
            .map(|(at, branch)| {
                let p = &all[*at];
                let line = human::command_line(&p.argv);
                format!("{branch}{} {line} {} {} {}", p.pid, p.thread_count(), p.event_count, p.shown_end())
            })
            .collect();
        assert_eq!(shown, ["10 sh 1 0 not seen", "├─ 11 ls 2 40 exit 2", "└─ 13 cc 1 0 not seen"]);
    }

    #[test]
    fn ways_back_are_shown_by_their_checkpoints() {
        let note = |seq, to| {
            let text = WayBack { pid: Tid(10), to: EventSeq(to) }.to_string();
            Meta::Note { seq: EventSeq(seq), text }
        };
        let other = Meta::Note { seq: EventSeq(7), text: "went back to a checkpoint: it rains".into() };
        let backs = [20, 22, 24, 26, 28, 30].map(|seq| note(seq, 12));
        let metas = [exec(1, 10, 9, 1, "sh"), note(9, 5), other].into_iter().chain(backs);
        let shown = processes(metas)[0].shown_ways_back();
        assert_eq!(
            shown,
            ["back to event 5, by event 9", "back to event 12, by events 20, 22, 24, 26 and 2 more"]
        );
    }

    #[test]
    fn an_id_that_is_used_again_is_another_process() {
        let fork = |at| Base::Fork { parent: DomainId(1), at: EventSeq(at) };
        let metas = vec![
            exec(1, 10, 9, 1, "sh"),
            entry(2, 11, 10, 3, fork(2)),
            end(2, 11, TaskEnd::Exited(0), 4),
            entry(3, 11, 10, 6, fork(5)),
            end(3, 11, TaskEnd::Exited(1), 7),
        ];
        let all = processes(metas.into_iter());
        let ends: Vec<String> = all.iter().map(Process::shown_end).collect();
        assert_eq!(ends, ["not seen", "exit 0", "exit 1"]);
    }
}
