//! The one writer of a domain's events. Whatever is recorded goes through a [`Recorder`], which borrows the
//! parts of the domain that an event is made of, and decides nothing. It adds what belongs to each event:
//!
//! - before it, the log of the calls that hooks have made since the last one: an event of its own, of the
//!   task that ran ([`Recorder::drain`]);
//! - its number in the counts of its task (`ticks.rs`), and the time that has passed;
//! - checksums of memory, where they are wanted ([`Recorder::sums`]).
//!
//! And it says what follows from each event for whoever asks later: its task's place is described, its
//! domain's clock is closed where there is text now that nothing is known of. Calls in progress are events,
//! too, as soon as others may come before their return ([`Recorder::write_entries`]).

use std::{
    ops::{Deref, DerefMut, Range},
    thread,
    time::Instant,
};

use bis_agent::{
    OURS,
    hooks::{entries, state},
};
use bis_syscalls::{Dir, Handler};
use bis_trace::{
    StreamWriter,
    event::{Event, EventKind, Lapse, MemWrite, Outcome, PausePlace, RangeSum, SignalPoint},
    types::{Addr, EventSeq, Registers, Tid},
};
use bis_tracee::{
    balance, checksum,
    maps::{self, Extent, Mapping},
    xsave,
};

use crate::{
    Checksum,
    checkpoints::held::Checkpoints,
    crew::Crew,
    error::{RecordError, Result},
    guided::Guided,
    hooks::{clock, counter, plain},
    places::surroundings::saved_states,
    process::Process,
    task::{Handle, Task, stack_pointer, stack_pointers},
};

const NR_FUTEX: u64 = libc::SYS_futex as u64;

/// A domain's stream of events, and how far it has come.
pub struct Journal {
    stream: StreamWriter,
    count: u64,
    happened: u64,
    last_seq: EventSeq,
    last: Instant,
    /// When the recording began, and the time since then that the events have told of, milliseconds.
    began: Instant,
    told_ms: u64,
}

impl Journal {
    pub fn new(stream: StreamWriter, began: Instant) -> Journal {
        Journal {
            stream,
            count: 0,
            happened: 0,
            last_seq: EventSeq(0),
            last: Instant::now(),
            began,
            told_ms: 0,
        }
    }

    /// How many events the domain has had.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them were neither pauses nor turns.
    pub fn happened(&self) -> u64 {
        self.happened
    }

    /// The number of the last one.
    pub fn last_seq(&self) -> EventSeq {
        self.last_seq
    }

    /// When the last one was written.
    pub fn last(&self) -> Instant {
        self.last
    }

    /// An event of this kind is about to be written. True: it is one that something has happened in.
    fn count_event(&mut self, kind: &EventKind) -> bool {
        let happens =
            !matches!(kind, EventKind::Pause(_) | EventKind::Token { .. } | EventKind::Hooked { .. });
        self.count += 1;
        self.happened += u64::from(happens);
        self.last = Instant::now();
        happens
    }

    /// The time since the event before the last one, as far as one event can say it.
    fn lapse(&mut self) -> Lapse {
        let passed = self.last.saturating_duration_since(self.began);
        let ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let lapse = Lapse::fitting(ms.saturating_sub(self.told_ms));
        self.told_ms += lapse.ms();
        lapse
    }

    pub fn flush(&mut self) -> Result<()> {
        Ok(self.stream.flush()?)
    }
}

/// Is a task's number in its counts part of an event of this kind?
fn has_number(kind: &EventKind) -> bool {
    match kind {
        // The task does not stand at a place because of it.
        EventKind::Signal(event) => event.point != SignalPoint::Anywhere,
        EventKind::Syscall { .. } | EventKind::SyscallEnter { .. } | EventKind::Instruction { .. } => true,
        // A place that has no number by itself, in a text that counts.
        EventKind::Pause(pause) => pause.place == PausePlace::State,
        // A task that returns has not run since it entered; one that ends may have been killed anywhere.
        EventKind::Hooked { .. }
        | EventKind::Token { .. }
        | EventKind::Start(_)
        | EventKind::SyscallExit { .. }
        | EventKind::TaskExit { .. }
        | EventKind::End => false,
    }
}

/// Does the count of a task begin anew with an event of this kind?
fn begins_count(kind: &EventKind) -> bool {
    match kind {
        EventKind::Hooked { .. } | EventKind::Token { .. } => false,
        EventKind::Signal(event) => event.point != SignalPoint::Anywhere,
        _ => true,
    }
}

/// Where a log of hooked calls has what they wrote to memory, as far as it is much.
fn contents(log: &[u8]) -> Vec<Range<usize>> {
    const MUCH: usize = 512;
    let found = entries(log).filter(|entry| entry.data.len() >= MUCH).map(|entry| {
        let start = entry.data.as_ptr().addr() - log.as_ptr().addr();
        start..start + entry.data.len()
    });
    found.collect()
}

/// Writes a domain's events: the process, and what is told of it.
pub struct Recorder<'a> {
    pub process: &'a mut Process,
    pub journal: &'a mut Journal,
    pub checkpoints: &'a mut Checkpoints,
    pub guided: &'a mut Option<Guided>,
}

impl Deref for Recorder<'_> {
    type Target = Process;

    fn deref(&self) -> &Process {
        self.process
    }
}

impl DerefMut for Recorder<'_> {
    fn deref_mut(&mut self) -> &mut Process {
        self.process
    }
}

impl AsMut<Crew> for Recorder<'_> {
    fn as_mut(&mut self) -> &mut Crew {
        &mut self.process.crew
    }
}

impl Recorder<'_> {
    /// Writes an event without checksums.
    pub fn event(&mut self, tid: Tid, kind: EventKind) -> Result<()> {
        self.event_with(tid, kind, Vec::new())
    }

    /// Writes an event with the checksums of memory before it.
    pub fn event_with(&mut self, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        if let (Some(guided), EventKind::Signal(_)) = (&mut self.guided, &kind) {
            guided.let_hear();
        }
        self.drain(tid)?;
        let seq = self.session.writer.next_seq();
        self.push(seq, tid, kind, sums)
    }

    /// Writes an event with a number that had to be known before.
    pub fn event_at(&mut self, seq: EventSeq, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        self.drain(tid)?;
        self.push(seq, tid, kind, sums)
    }

    /// Makes what the hooks have logged an event of the task that ran; before any other event is written.
    pub fn drain(&mut self, tid: Tid) -> Result<()> {
        let Some(hooks) = &self.hooks else { return Ok(()) };
        if !hooks.area.has_log() {
            return Ok(());
        }
        let runner = self.watched.seat.runner();
        if runner != tid && self.tasks.contains_key(&runner) {
            let what = format!("what task {runner} has logged would become an event of another");
            return Err(RecordError::Bug { tid, what });
        }
        if self.tasks.get(&tid).is_some_and(|task| task.since_event.has_log()) {
            // The first would have to be used up where no event is.
            let what = "a second log of hooked calls with no event since the first".into();
            return Err(RecordError::Bug { tid, what });
        }
        let alone = hooks.area.get(state::ALONE) != 0;
        let log = hooks.area.take_log();
        let changes = plain::changes(&log);
        self.checkpoints.note(&plain::effects(&changes));
        if let (Some(addr), Some(task)) = (plain::named_word(&changes), self.tasks.get_mut(&tid)) {
            task.named.set_clear_tid(addr);
        }
        let seq = self.session.writer.next_seq();
        self.push(seq, tid, EventKind::Hooked { alone, log }, Vec::new())
    }

    /// Writes an event, and nothing else.
    fn push(&mut self, seq: EventSeq, tid: Tid, kind: EventKind, sums: Vec<RangeSum>) -> Result<()> {
        let ticks = self.number(tid, &kind)?;
        self.keep_steps(tid, seq, &kind)?;
        let happens = self.journal.count_event(&kind);
        if happens {
            self.writes = None;
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.spin.is_over &= !happens;
            task.standing.describe();
            task.since_event.write(&kind);
        }
        if let EventKind::Syscall { outcome, .. } | EventKind::SyscallExit { outcome, .. } = &kind {
            self.checkpoints.note(&outcome.effects);
        }
        self.journal.last_seq = seq;
        let lapse = self.journal.lapse();
        let event = Event { seq, tid, kind, ticks, sums, lapse };
        let Process { crew, space, hooks } = &mut *self.process;
        if let Some(hooks) = hooks {
            plain::follow(&hooks.area, &event, space);
        }
        if let Some(hooks) = hooks
            && clock::loses_text(&event, space)
        {
            clock::close(crew.id, hooks, space, "there is executable memory that is no file's");
        }
        let content = match &event.kind {
            EventKind::Hooked { log, .. } => contents(log),
            _ => Vec::new(),
        };
        Ok(self.journal.stream.push_with(event, content)?)
    }

    /// The steps that have led a task to an event that is about to be written.
    fn keep_steps(&mut self, tid: Tid, seq: EventSeq, kind: &EventKind) -> Result<()> {
        let Crew { session, tasks, id, .. } = &mut self.process.crew;
        let Some(writer) = &session.steps else { return Ok(()) };
        let Some(task) = tasks.get_mut(&tid).filter(|_| !matches!(kind, EventKind::Token { .. })) else {
            return Ok(());
        };
        let stretch = task.steps.take();
        if !stretch.is_empty() {
            writer.push(*id, tid, seq, &stretch)?;
        }
        Ok(())
    }

    /// The number of an event that is about to be written. From here on is counted anew.
    fn number(&mut self, tid: Tid, kind: &EventKind) -> Result<Option<u64>> {
        let is_dense = self.space.patches().dense.is_on;
        let Process { crew, hooks, .. } = &mut *self.process;
        let mut task = crew.tasks.get_mut(&tid);
        let mut number = None;
        if has_number(kind)
            && let Some(counter) = counter(hooks, is_dense, task.as_deref_mut())
        {
            number = Some(counter.read(&crew.memory)?);
        }
        if begins_count(kind) {
            if let Some(counter) = counter(hooks, is_dense, task) {
                counter.begin_anew();
            }
            if let Some(hooks) = hooks.as_mut().filter(|_| is_dense) {
                hooks.counts.forget_stop();
            }
        }
        Ok(number)
    }

    /// Checksums of all memory that the program can change, if they are wanted. Bytes that only the kernel or
    /// a domain with the token may touch are stable here.
    pub fn sums(&mut self, tid: Tid) -> Result<Vec<RangeSum>> {
        let Some(checksum) = self.session.options.checksum else { return Ok(Vec::new()) };
        // Another task's call that is under way may have changed what is mapped; the stream says it at its
        // end.
        let changes = |task: &Task| {
            task.call.as_ref().is_some_and(|call| call.handler().is_some_and(Handler::changes_mappings))
        };
        if self.tasks.values().any(|task| task.tid != tid && changes(task)) {
            return Ok(Vec::new());
        }
        // While account is kept of writes, pages look touched that are not; a reader has them, from
        // then on.
        self.writes = None;
        let mappings = maps::read(tid)?;
        let mut stacks = self.stacks_in(tid, &mappings);
        let extents: Vec<Extent> = mappings.iter().map(Mapping::extent).collect();
        let saved = xsave::pages(&saved_states(&self.memory, &stacks, &extents));
        stacks.extend(self.space.old_stacks());
        let mut sums = Vec::new();
        // A file that another domain changes shows that at once; the stream says it at the next event's
        // outcome.
        let shows = |m: &Mapping| self.space.views().overlaps(m.start, m.end);
        for mapping in mappings.iter().filter(|m| checksum::is_summed(&m.extent()) && !shows(m)) {
            let top = top_of(mapping, &stacks, &mappings);
            let start = top.unwrap_or(mapping.start);
            if start == mapping.end {
                continue;
            }
            let sum = if top.is_some() { checksum::sum_stack } else { checksum::sum_mapped };
            for (start, len) in xsave::leave_out(vec![(start, mapping.end.saturating_since(start))], &saved) {
                sums.push(sum(tid, &self.memory, &mappings, start, len)?);
            }
        }
        if checksum == Checksum::All {
            for constant in mappings.iter().filter(|m| checksum::is_constant(m) && !shows(m)) {
                let len = constant.end - constant.start;
                sums.push(checksum::sum_mapped(tid, &self.memory, &mappings, constant.start, len)?);
            }
        }
        Ok(sums)
    }

    /// Where the stacks of the tasks end, and those that they have left and may go back to.
    fn stacks_in(&mut self, tid: Tid, mappings: &[Mapping]) -> Vec<Addr> {
        let is_away = |left: Addr, now: Addr| !mappings.iter().any(|m| is_in(m, left) && is_in(m, now));
        if let Some(task) = self.tasks.get_mut(&tid)
            && let Some(now) = stack_pointer(task).filter(|now| !OURS.contains(&now.0))
        {
            task.stacks.sum(now, is_away);
        }
        let mut stacks = stack_pointers(&self.tasks);
        // A task that is on another stack now, for a handler or for good, may go on where it has left this
        // one.
        let left = self.tasks.values().filter_map(|task| Some((task.stacks.left()?, stack_pointer(task)?)));
        stacks.extend(left.filter(|(left, now)| is_away(*left, *now)).map(|(left, _)| left));
        stacks
    }

    /// Makes calls that are in progress visible in the stream: from here on, other events come before their
    /// returns.
    pub fn write_entries(&mut self) -> Result<()> {
        if self.tasks.values().all(|task| task.call.as_ref().is_none_or(|call| !call.telling.is_untold())) {
            return Ok(());
        }
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            self.write_entry(tid)?;
        }
        Ok(())
    }

    /// As `write_entries`, for one task.
    pub fn write_entry(&mut self, tid: Tid) -> Result<()> {
        let Some(call) = self.tasks.get_mut(&tid).and_then(|task| task.call.as_mut()) else { return Ok(()) };
        if !call.telling.is_untold() {
            return Ok(());
        }
        let ((nr, entry), (kind, sums)) = (call.entry.told(), call.enter());
        let sums = self.write_early_words(tid, nr, entry, sums)?;
        self.event_with(tid, kind, sums)
    }

    /// Writes that a task which stands at the entry of a call, with the registers `entry`, is in front of the
    /// call that `next` says.
    pub fn say_set_back(
        &mut self,
        tid: Tid,
        entry: &Registers,
        next: &Registers,
        outcome: Outcome,
    ) -> Result<()> {
        let outcome = Box::new(Outcome { regs: next.before_call(), ..outcome });
        self.event(tid, EventKind::Syscall { nr: entry.orig_rax, entry: *entry, outcome })?;
        self.task(tid)?.standing.describe();
        Ok(())
    }

    /// The kernel writes the words of a priority-inheriting futex when it puts a task to sleep on it, not
    /// when the call returns. They get an event of their own before the call's entry: one that leaves the
    /// task in front of the same system call.
    ///
    /// Gives the checksums back if there was nothing to write.
    fn write_early_words(
        &mut self,
        tid: Tid,
        nr: u64,
        entry: Registers,
        sums: Vec<RangeSum>,
    ) -> Result<Vec<RangeSum>> {
        let Some(task) = self.tasks.get(&tid) else { return Ok(sums) };
        let call = task.call.as_ref();
        let is_futex = call.is_some_and(|call| call.entry.nr() == NR_FUTEX);
        let pieces = call.map_or(&[][..], |call| &call.pieces.plan().pieces).iter();
        let words = pieces.filter(|piece| piece.fixed && piece.dir != Dir::In && is_futex);
        let words: Vec<(Addr, u64)> = words.map(|piece| (Addr(piece.home), piece.len)).collect();
        if words.is_empty() || !matches!(task.handle, Handle::Running(_)) {
            return Ok(sums);
        }
        while !task.report.is_there() && balance::is_runnable(tid) {
            thread::yield_now();
        }
        let read = |(addr, len): (Addr, u64)| MemWrite {
            addr,
            data: self.memory.read_upto(addr, usize::try_from(len).unwrap_or(0)),
        };
        let writes = words.into_iter().map(read).collect();
        let outcome = Box::new(Outcome { regs: entry.before_call(), writes, ..Outcome::default() });
        self.event_with(tid, EventKind::Syscall { nr, entry, outcome }, sums)?;
        Ok(Vec::new())
    }
}

fn is_in(mapping: &Mapping, addr: Addr) -> bool {
    mapping.start <= addr && addr < mapping.end
}

/// Where the part of a mapping begins that its checksum is of, if one of these stacks ends in it. Below a
/// stack pointer is nothing that the program can rely on, and not all of it repeats: what xsave leaves there
/// says which vector registers the processor thinks are in use. A stack that has run over has such bytes in
/// all of its frames that were not written.
fn top_of(mapping: &Mapping, stacks: &[Addr], mappings: &[Mapping]) -> Option<Addr> {
    let is_run_over =
        |rsp: Addr| mappings.iter().find(|m| rsp < m.end).is_some_and(|m| m.start == mapping.start);
    let begin = |rsp: &Addr| match is_in(mapping, *rsp) {
        true => Some(rsp.page_ceil()),
        false => is_run_over(*rsp).then_some(mapping.end),
    };
    stacks.iter().filter_map(begin).max()
}

#[cfg(test)]
mod tests {
    use bis_trace::{
        event::SignalEvent,
        types::{Registers, Signal},
    };

    use super::*;

    fn signal(point: SignalPoint) -> EventKind {
        let (siginfo, before) = (Vec::new(), Registers::default());
        EventKind::Signal(Box::new(SignalEvent {
            signal: Signal::SEGV,
            siginfo,
            point,
            before,
            handler: None,
        }))
    }

    #[test]
    fn a_stack_is_summed_from_its_pointer_on_and_not_at_all_where_it_has_run_over() {
        let mapping = |start, end| Mapping {
            start: Addr(start),
            end: Addr(end),
            prot: 3,
            shared: false,
            offset: 0,
            device: (0, 0),
            inode: 0,
            name: Vec::new(),
        };
        let mappings = [mapping(0x1000, 0x4000), mapping(0x8000, 0xa000)];
        let top = |stacks: &[Addr]| top_of(&mappings[1], stacks, &mappings);
        assert_eq!(top(&[Addr(0x2000)]), None, "the other one's");
        assert_eq!(top(&[Addr(0x8001)]), Some(Addr(0x9000)));
        assert_eq!(top(&[Addr(0x8001), Addr(0x9100)]), Some(Addr(0xa000)), "the highest one's");
        assert_eq!(top(&[Addr(0x7ff0)]), Some(Addr(0xa000)), "it has run over");
    }

    #[test]
    fn a_turn_or_a_log_neither_has_a_number_nor_begins_the_count_anew() {
        let turn = EventKind::Token { acquired: Vec::new(), released: Vec::new() };
        let log = EventKind::Hooked { alone: true, log: Default::default() };
        for kind in [turn, log, signal(SignalPoint::Anywhere)] {
            assert!(!has_number(&kind) && !begins_count(&kind), "{kind:?}");
        }
    }

    #[test]
    fn a_return_has_no_number_because_its_task_has_not_run_since_it_entered() {
        let exit = EventKind::SyscallExit { nr: 0, outcome: Box::default() };
        assert!(!has_number(&exit) && begins_count(&exit));
        let enter = EventKind::SyscallEnter { nr: 0, entry: Registers::default() };
        assert!(has_number(&enter) && begins_count(&enter));
        assert!(has_number(&signal(SignalPoint::Fault)) && begins_count(&signal(SignalPoint::Fault)));
    }
}
