//! Stopping a task in the middle of its computation: because it is another's turn, or because a signal has
//! come and the task makes no call at which it could take it.
//!
//! Most events need none of this. A task that makes calls gives way and takes its signals at one of them, or
//! at the end of a hook. Only a task that computes for longer than a time slice while somebody waits is
//! interrupted where it is. Its place is recorded so that replay finds it again ([`Pause`]). After that event
//! another task may run, or a signal be delivered, as after any event.
//!
//! Where its text counts (`hooks/counts.rs`), it goes on to its next count, and has its place there: a
//! number. Only if none comes is it stopped by its state.
//!
//! The watch thread (`hooks/watch.rs`) sees that a domain has not stopped since its last look, and kicks the
//! supervisor out of its wait (`task/waiting.rs`). Whether there is a reason to stop the task is asked in
//! `reasons.rs`.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use bis_rewrite::{Place, Run, Span};
use bis_syscalls::SYSCALL_INSN;
use bis_trace::{
    event::{EventKind, MemWrite, Outcome, Pause, PausePlace, SignalPoint},
    types::{Addr, Registers, Tid},
};
use bis_tracee::{
    Glance, Memory, TraceeError,
    maps::{self, Extent, Mapping},
    pagemap::{Page, PageMap},
    place, task,
    ticks::RESUME_FLAG,
    xsave,
};
use iced_x86::{Decoder, DecoderOptions, OpKind};

use super::{
    nearby::{look_around, read_worth},
    surroundings::{Surroundings, saved_masks, saved_states, stacks_within, touched},
    written::Sees,
};
use crate::{
    crew::Crew,
    domain::Domain,
    error::Result,
    hooks::texts::TextFile,
    places::Step,
    process::Process,
    space::{AddressSpace, open_mapped},
    task::stack_pointers,
};

/// How long it may where replay must stop each time it comes to the place: a loop of a nanosecond comes there
/// ten million times in ten milliseconds.
const OPAQUE_MAX: Duration = Duration::from_millis(300);

/// How long a task has to have had the processor for a second look at its memory to tell what its loop
/// changes: several times what the kernel takes to let it go on and stop it again.
const COMPUTED_MIN: Duration = Duration::from_micros(50);

/// How long it has to have had it if nothing in memory has changed: its loop changes registers alone. Kicks
/// that come one after the other, or a hypervisor that gives the core away, count as `COMPUTED_MIN` too.
const UNCHANGED_MIN: Duration = Duration::from_millis(5);

/// How much of the stack is looked at, bytes.
const STACK_LEN: u64 = 4096;

/// How much of that a place has as it is, bytes: the replay can look for what it knows without a stop.
const STACK_HELD: u64 = 1024;

/// How well replay can look for a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spot {
    /// A breakpoint with a condition can take the place of these instructions, into whose middle nothing
    /// leads.
    Sure(Span),
    /// A breakpoint with a condition can be there.
    Good,
    /// It must stop there each time.
    Bad,
}

impl AddressSpace {
    /// Is this range not to be looked at, or says nothing of a place?
    fn is_left_out(&self, tid: Tid, range: &Range<Addr>) -> bool {
        self.is_shown_of_file(tid, range) || self.is_untouched(tid, range)
    }

    /// Does anything of this range show what a file has that may change?
    fn is_shown_of_file(&self, tid: Tid, range: &Range<Addr>) -> bool {
        let (start, end) = (range.start.page_floor(), range.end.page_ceil());
        self.views().overlaps(start, end)
            && !PageMap::open(tid)
                .and_then(|pages| pages.range(start, end))
                .is_ok_and(|pages| pages.into_iter().all(Page::is_own))
    }

    /// Is it shared memory that the task has not touched? The file system would find room for what is read.
    fn is_untouched(&self, tid: Tid, range: &Range<Addr>) -> bool {
        let (start, end) = (range.start.page_floor(), range.end.page_ceil());
        [start, end - 1].into_iter().any(|addr| self.shared().at(addr).is_some())
            && !PageMap::open(tid)
                .and_then(|pages| pages.range(start, end))
                .is_ok_and(|pages| pages.into_iter().all(Page::is_there))
    }

    /// Leaves of private mappings of files that may change what the program itself has written there: stores
    /// through a shared mapping of the file are seen in the other pages at once, and in replay later.
    fn keep_own_pages(&self, tid: Tid, mappings: &mut Vec<Extent>) -> Result<()> {
        if self.views().is_empty() {
            return Ok(());
        }
        let os = |source| TraceeError::Os { what: "read the page map", tid, source };
        let pages = PageMap::open(tid).map_err(os)?;
        let mut kept = Vec::new();
        for mapping in mappings.drain(..) {
            let (start, end) = (mapping.range.start, mapping.range.end);
            if !self.views().overlaps(start, end) {
                kept.push(mapping);
            } else if mapping.is_writable() && !mapping.shared {
                let own = |start, end| kept.push(Extent { range: start..end, ..mapping });
                pages.each_run(start, end, Page::is_own, own).map_err(os)?;
            }
        }
        *mappings = kept;
        Ok(())
    }
}

impl Domain {
    /// The task has been interrupted where it makes no call and is in no hook. True: it has a place now, or
    /// something else has happened that is to be looked at.
    pub fn pause_if_due(&mut self, tid: Tid) -> Result<bool> {
        let rip = self.stopped(tid)?.regs()?.ip();
        if self.space.is_left_by_hook(rip) {
            return Ok(false);
        }
        if self.look_for_spin(tid)? == Step::Elsewhere {
            return Ok(true);
        }
        if !self.is_to_stop(tid)? {
            return Ok(false);
        }
        if self.task(tid)?.counter.is_some() {
            return self.pause_counted(tid);
        }
        if self.leave_count(tid)? == Step::Elsewhere {
            return Ok(true);
        }
        if self.stop_at_count(tid)? {
            return Ok(false);
        }
        let began = Instant::now();
        let is_paused = self.pause_by_state(tid)?;
        self.look_took = began.elapsed();
        Ok(is_paused)
    }

    /// A task that has loaded the word of the counts and not stored it yet would overwrite our new value:
    /// steps it past the store.
    fn leave_count(&mut self, tid: Tid) -> Result<Step> {
        loop {
            let rip = self.stopped(tid)?.regs()?.ip();
            let has_read = matches!(
                self.space.dense_place(rip),
                Some(Place::Count { taken: false, restore_rcx: true, .. })
            );
            if !has_read {
                return Ok(Step::Done);
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(Step::Elsewhere);
            }
        }
    }

    /// [`Domain::pause_if_due`] for a task that is to stop, and comes to no count: it has its place by its
    /// state, once enough is known of that.
    fn pause_by_state(&mut self, tid: Tid) -> Result<bool> {
        let (sp, ran) = (self.stopped(tid)?.regs()?.sp(), task::cpu_time(tid));
        let was_looked_at = ran.is_none() || self.looked_at.is_some_and(|(looked, _)| looked == tid);
        let knows_left = self.hooks.is_none() || was_looked_at || self.surroundings.knows_left(sp);
        if !self.surroundings.is_known() || !knows_left {
            // Once more, to see what has changed meanwhile: that is what tells one pass of a loop from the
            // next.
            if self.writes.is_none() {
                self.begin_to_see_writes(tid)?;
            }
            self.look_wide(tid)?;
            self.looked_at = ran.map(|ran| (tid, ran));
            return Ok(false);
        }
        if !self.has_computed_since_look(tid)? {
            return Ok(false);
        }
        match self.see_what_it_writes(tid)? {
            Sees::NotYet => {
                self.looked_at = ran.map(|ran| (tid, ran));
                return Ok(false);
            }
            Sees::Perhaps if self.learn_round(tid)? == Step::Elsewhere => return Ok(true),
            Sees::Perhaps | Sees::All => {}
        }
        self.looked_at = None;
        let Some(span) = self.find_span(tid)? else { return Ok(true) };
        if span == Spot::Bad && !self.note_opaque(tid) && !self.step_to_same_state(tid)? {
            let task = self.task(tid)?;
            return Ok(task.report.is_there() || task.standing.is_ready());
        }
        let span = if let Spot::Sure(span) = span { span.bytes().to_vec() } else { Vec::new() };
        self.learn_loop(tid)?;
        let regs = self.pause(tid, span)?;
        let is_alone = self.tasks.len() == 1;
        // Code that is made at run time would not count, whatever the text does.
        let Process { space, hooks, .. } = &mut self.process;
        if let Some(hooks) = hooks
            && space.patches().text_at(space.patches().original(regs.ip())).is_some()
        {
            hooks.counts.need.count_pause();
            hooks.counts.is_wanted |= is_alone;
            if hooks.counts.need.is_first() {
                self.foresee_need(tid);
            }
        }
        self.go_from_pause(tid, &regs)
    }

    /// Notes that replay could not put a breakpoint with a condition where the task is. True: it has computed
    /// for long since the first such place without an event in between. On a busy machine, much time may go
    /// by before it leaves such a loop.
    fn note_opaque(&mut self, tid: Tid) -> bool {
        let Some(now) = task::cpu_time(tid) else { return self.has_run(OPAQUE_MAX) };
        let (since, is_long) = stays_opaque(self.opaque, (tid, self.journal.count()), now);
        self.opaque = Some(since);
        is_long
    }

    /// Has the task computed since its memory was looked at? A signal or a kick may come before it has
    /// executed anything.
    fn has_computed_since_look(&mut self, tid: Tid) -> Result<bool> {
        let Some((_, then)) = self.looked_at.filter(|looked| looked.0 == tid) else { return Ok(true) };
        let Some(now) = task::cpu_time(tid) else { return Ok(true) };
        has_computed(now.saturating_sub(then), || Ok(self.around(tid)?.differs_from(&self.surroundings)))
    }

    /// Is there still a reason to stop this task, which has stopped?
    pub fn is_to_stop(&self, tid: Tid) -> Result<bool> {
        let mask = self.stopped_ref(tid)?.sigmask()?;
        // A signal that is blocked now (the handler of the one before runs) is no reason.
        let by_signal = self.is_awaited_by_signal(tid) && self.task_ref(tid)?.signals.stash.has_open(mask);
        Ok(by_signal || self.is_awaited_by_others(tid) || self.is_wanted_by_guide())
    }

    /// [`Domain::pause_if_due`] for a task whose branches are counted: it has a place where it stands.
    fn pause_counted(&mut self, tid: Tid) -> Result<bool> {
        if !self.leave_repetition(tid)? {
            return Ok(true);
        }
        let regs = self.pause(tid, Vec::new())?;
        self.go_from_pause(tid, &regs)
    }

    /// A pause is written: the task takes the signal that it was stopped for, or waits for its turn.
    pub fn go_from_pause(&mut self, tid: Tid, regs: &Registers) -> Result<bool> {
        self.give_up_spinning(tid)?;
        if !self.deliver_stashed(tid, regs, SignalPoint::AfterEvent)? {
            self.task(tid)?.standing.go_on();
        }
        Ok(true)
    }

    /// Goes on for a few instructions, if need be, to one at which replay can put a breakpoint with a
    /// condition. Then, the instructions there, if they are known to be entered at their beginning alone,
    /// else nothing. None: the task's report is to be looked at first.
    pub fn find_span(&mut self, tid: Tid) -> Result<Option<Spot>> {
        /// Many places may be left alone together.
        const STEPS: usize = 16;
        let mappings = maps::read(tid)?;
        if !self.leave_trampoline(tid)? {
            return Ok(None);
        }
        for round in 0..2 * STEPS {
            if !self.leave_repetition(tid)? {
                return Ok(None);
            }
            let rip = self.stopped(tid)?.regs()?.ip();
            let memory = self.memory.read_upto(rip, 2 * Run::MAX);
            let in_count = matches!(self.space.dense_place(rip), Some(Place::Count { .. }));
            if !in_count
                && let Some(span) = Span::begin(self.space.bits(), rip.0, &memory)
                && !self.is_entered(&span)
            {
                if place::room(&mappings, &span, false).is_some() {
                    return Ok(Some(Spot::Good));
                }
                // What a file says is known once all of it has been looked through, which takes a tenth of a
                // second for the largest: there, some steps further on is mostly a place that does without.
                if (round >= STEPS || self.is_in_small_file(tid, rip, &mappings))
                    && self.is_sure(tid, &span, &mappings)
                    && place::room(&mappings, &span, true).is_some()
                {
                    return Ok(Some(Spot::Sure(span)));
                }
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(None);
            }
        }
        Ok(Some(Spot::Bad))
    }

    /// Does the file say that nothing leads into the middle of these instructions?
    pub fn is_sure(&self, tid: Tid, span: &Span, mappings: &[Mapping]) -> bool {
        let (start, end) = (Addr(span.start()), Addr(span.end()));
        if span.is_narrow() {
            return false;
        }
        let patched = self.space.patches().overlaps(start, end);
        // Where a handler has interrupted the program, it may go on by any way it likes.
        if patched || self.space.is_interrupted_in(start + 1..end) {
            return false;
        }
        let Some((file, bias)) = self.text_at(tid, start, mappings) else { return false };
        file.span_at(start.0.wrapping_sub(bias)).is_some_and(|known| known.bytes() == span.bytes())
    }

    /// Is the text at this address that of a file which is soon looked through?
    fn is_in_small_file(&self, tid: Tid, rip: Addr, mappings: &[Mapping]) -> bool {
        const BYTES: u64 = 4 << 20;
        self.text_at(tid, rip, mappings).is_some_and(|(file, _)| file.len() <= BYTES)
    }

    /// The file whose text the program executes at this address, and what is added to the file's own
    /// addresses.
    fn text_at(&self, tid: Tid, rip: Addr, mappings: &[Mapping]) -> Option<(Arc<TextFile>, u64)> {
        if let Some(text) = self.space.patches().text_at(rip) {
            return Some((Arc::clone(&text.file), text.bias));
        }
        let mapping = mappings.iter().find(|m| m.start <= rip && rip < m.end && m.inode != 0)?;
        let file = self.session.texts.of(&open_mapped(tid, mapping)?, None)?;
        let bias = file.bias(mapping.start, mapping.offset)?;
        Some((file, bias))
    }

    /// The instructions at the place where the task stands, or a few further on, if a breakpoint with a
    /// condition can be there: what [`Domain::pause`] wants to know of them. None: there can be none, or the
    /// task has a report.
    pub fn find_place(&mut self, tid: Tid) -> Result<Option<Vec<u8>>> {
        Ok(match self.find_span(tid)? {
            Some(Spot::Sure(span)) => Some(span.bytes().to_vec()),
            Some(Spot::Good) => Some(Vec::new()),
            Some(Spot::Bad) | None => None,
        })
    }

    /// Looks at the memory of a stopped task: which words have changed since the last look.
    pub fn look_wide(&mut self, tid: Tid) -> Result<Vec<MemWrite>> {
        let now = self.around(tid)?;
        let mut changed = now.changed_since(&self.surroundings);
        let left = now.left_since(&self.surroundings);
        let before = std::mem::replace(&mut self.surroundings, now);
        self.surroundings.remember(before, &changed);
        changed.extend(left);
        Ok(changed)
    }

    /// The memory of a stopped task, as far as a place is known by it.
    fn around(&mut self, tid: Tid) -> Result<Surroundings> {
        let regs = self.stopped(tid)?.regs()?;
        let mut stacks = stack_pointers(&self.tasks);
        stacks.extend(self.space.old_stacks());
        // Of shared memory, what nobody else may change now.
        let is_ours = |m: &Extent| {
            let range = self.space.shared().at(m.range.start);
            !m.shared || range.is_some_and(|range| self.tokens.holds(range.object))
        };
        let mut mappings = maps::writable(tid)?;
        self.space.keep_own_pages(tid, &mut mappings)?;
        let all = mappings.clone();
        mappings.retain(is_ours);
        let mappings = touched(tid, mappings);
        let saved = |ranges: &[(Addr, u64)]| self.saved_on_stacks(&all, ranges);
        // Where text is not patched, what an xsavec has left there does not repeat.
        let left = left_below(&all, regs.sp()).filter(|_| self.hooks.is_some());
        Ok(Surroundings::look(
            (&self.memory, Glance::new(&self.memory, tid)),
            &regs,
            &stacks,
            saved,
            &mappings,
            left,
            self.written.pages(),
        ))
    }

    /// Writes down where the task stands.
    pub fn pause(&mut self, tid: Tid, span: Vec<u8>) -> Result<Registers> {
        if !self.task(tid)?.spin.is_over {
            self.note_move(tid);
        }
        self.drain(tid)?;
        let regs = self.stopped(tid)?.regs()?;
        if is_set_back(&regs, &self.memory) {
            let rax = i64::from(-libc::ENOSYS).cast_unsigned();
            let entry = Registers { rip: behind_call(&regs), orig_rax: regs.rax, rax, ..regs };
            self.recorder().say_set_back(tid, &entry, &entry, Outcome::default())?;
            return Ok(regs);
        }
        let sums = self.sums(tid)?;
        let xstate = self.stopped(tid)?.xstate()?;
        let extended = place::extended(&xstate);
        // In text that counts, only the places behind a count have a number (`hooks/counts.rs`).
        let count = if self.space.is_dense() { None } else { self.ticks(tid)? };
        // What has changed comes first: it is what differs. Where there is a number, few places are left to
        // tell apart.
        let is_left_out = |range: &Range<Addr>| self.space.is_left_out(tid, range);
        let words = self.tasks.get(&tid).map_or(Vec::new(), |task| task.rounds.words(regs.ip()));
        let mut held = read_worth(Glance::new(&self.memory, tid), &regs, words, is_left_out);
        if count.is_none() {
            // Kicks may come so close together that the task has not come round in between: what tells one
            // pass from the next is among what had changed before, or lies near the end of the stack.
            let mut more = self.surroundings.changed().to_vec();
            held.extend(self.look_wide(tid)?);
            more.retain(|(addr, len)| self.surroundings.covers((*addr, *addr + *len)));
            more.push((regs.sp(), STACK_HELD));
            held.extend(place::read(Glance::new(&self.memory, tid), &more));
        }
        let is_left_out = |range: &Range<Addr>| self.space.is_left_out(tid, range);
        held.extend(look_around(Glance::new(&self.memory, tid), &regs, is_left_out));
        let pieces = held.iter().map(|piece| (piece.addr, piece.data.len() as u64));
        let ranges: Vec<(Addr, u64)> = pieces.chain([(regs.sp(), STACK_LEN)]).collect();
        let mappings = maps::writable(tid)?;
        let saved = self.saved_on_stacks(&mappings, &ranges);
        let held = place::leave_out(held, &saved);
        let mut seen = place::look(
            Glance::new(&self.memory, tid),
            &xsave::leave_out(vec![(regs.sp(), STACK_LEN)], &saved),
        );
        if count.is_none() {
            seen.extend(self.surroundings.sums());
        }
        let (pieces, words) = (held.len(), held.iter().map(|piece| piece.data.len() / 8).sum::<usize>());
        tracing::debug!(domain = %self.id, %tid, rip = format_args!("{:#x}", regs.rip), pieces, words, "pause");
        let pause = Pause {
            place: count.map_or(PausePlace::State, PausePlace::Count),
            regs,
            extended,
            held,
            seen,
            span,
            trap: 0,
        };
        self.event_with(tid, EventKind::Pause(Box::new(pause)), sums)?;
        Ok(regs)
    }
}

/// Does the task stand in front of a call that it has begun, and that was undone? What the instruction leaves
/// in two registers is there already: no pause would be found in replay, but the call's entry is.
fn is_set_back(regs: &Registers, memory: &Memory) -> bool {
    let has_flags = (regs.r11 ^ regs.eflags) & !RESUME_FLAG == 0;
    has_flags
        && regs.rcx == behind_call(regs)
        && memory.read_upto(regs.ip(), SYSCALL_INSN.len()) == SYSCALL_INSN
}

fn behind_call(regs: &Registers) -> u64 {
    regs.rip.wrapping_add(SYSCALL_INSN.len() as u64)
}

impl Process {
    /// Does a branch near these instructions lead into their middle? Whoever comes there traps in replay,
    /// which takes too long in a loop.
    pub fn is_entered(&self, span: &Span) -> bool {
        /// A loop that a compiler has unrolled may be some hundred bytes long.
        const CODE_LEN: u64 = 4096;
        let middle = span.start() + 1..span.end();
        let code = self.memory.read_upto(Addr(span.start()), CODE_LEN as usize);
        let mut decoder = Decoder::with_ip(self.space.bits(), &code, span.start(), DecoderOptions::NONE);
        let is_entered_from_behind = std::iter::from_fn(|| decoder.can_decode().then(|| decoder.decode()))
            .any(|it| {
                it.op_count() == 1
                    && matches!(it.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32)
                    && middle.contains(&it.near_branch_target())
            });
        let (start, far) = (Addr(span.start()), Addr(span.start().saturating_sub(CODE_LEN)));
        // The page before may not be there.
        let before = [far, far.max(start.page_floor())].into_iter().find_map(|from| {
            let len = usize::try_from(start - from).unwrap_or(0);
            Some(self.memory.read_upto(from, len)).filter(|read| read.len() == len)
        });
        let before = before.unwrap_or_default();
        is_entered_from_behind || may_lead_into(&before, &middle)
    }
}

/// Could any of these bytes begin a branch into the middle of a span right behind them? Where instructions
/// begin is not known in this direction.
fn may_lead_into(before: &[u8], middle: &Range<u64>) -> bool {
    let is_within = |from: i64| u64::try_from(from).is_ok_and(|to| middle.contains(&to));
    let begin = middle.start.wrapping_sub(1 + before.len() as u64).cast_signed();
    (0..before.len()).any(|at| {
        let relative = |len: usize| {
            let bytes = before.get(at + len..)?.first_chunk::<4>()?;
            begin.checked_add_unsigned((at + len + 4) as u64)?.checked_add(i32::from_le_bytes(*bytes).into())
        };
        let to = match before[at..] {
            [0x70..=0x7f | 0xeb | 0xe0..=0xe3, by, ..] => begin
                .checked_add_unsigned(at as u64 + 2)
                .and_then(|next| next.checked_add(by.cast_signed().into())),
            [0xe8 | 0xe9, ..] => relative(1),
            [0x0f, 0x80..=0x8f, ..] => relative(2),
            _ => None,
        };
        to.is_some_and(is_within)
    })
}

impl Crew {
    pub fn saved_on_stacks(&self, mappings: &[Extent], ranges: &[(Addr, u64)]) -> Vec<Range<Addr>> {
        let stacks = stacks_within(stack_pointers(&self.tasks), ranges);
        let mut saved = saved_states(&self.memory, &stacks, mappings);
        saved.extend(saved_masks(&self.memory, &stacks, mappings));
        saved
    }
}

/// What of a stack lies below its end, and in the same private mapping: address and length.
fn left_below(mappings: &[Extent], sp: Addr) -> Option<(Addr, u64)> {
    let stack = mappings.iter().find(|m| m.range.contains(&sp) && !m.shared)?;
    let start = sp.saturating_sub(place::LEFT_LEN).max(stack.range.start);
    (start < sp).then_some((start, sp - start))
}

/// Where a task was when it came to a place that replay could not put a breakpoint at: the task, and the
/// number of the event before; and how long it had computed then.
type Opaque = ((Tid, u64), Duration);

/// It is in such a place again, between these events: since when, and whether it has computed for long there.
fn stays_opaque(before: Option<Opaque>, here: (Tid, u64), now: Duration) -> (Opaque, bool) {
    match before.filter(|(place, _)| *place == here) {
        Some((_, since)) => ((here, since), now.saturating_sub(since) >= OPAQUE_MAX),
        None => ((here, now), false),
    }
}

/// Does a second look at a task's memory tell what its loop changes, after it has run for so long? What has
/// changed is asked only where that matters.
fn has_computed(ran: Duration, is_changed: impl FnOnce() -> Result<bool>) -> Result<bool> {
    Ok(ran >= UNCHANGED_MIN || ran > COMPUTED_MIN && is_changed()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opaque_place_is_left_only_by_another_task_or_an_event() {
        let (here, begin) = ((Tid(1), 7), Duration::from_secs(1));
        let (since, is_long) = stays_opaque(None, here, begin);
        assert_eq!((since, is_long), ((here, begin), false));
        let almost = begin + OPAQUE_MAX - Duration::from_nanos(1);
        assert_eq!(stays_opaque(Some(since), here, almost), (since, false));
        assert_eq!(stays_opaque(Some(since), here, begin + OPAQUE_MAX), (since, true));
        for elsewhere in [(Tid(2), 7), (Tid(1), 8)] {
            let later = begin + 2 * OPAQUE_MAX;
            assert_eq!(stays_opaque(Some(since), elsewhere, later), ((elsewhere, later), false));
        }
    }

    #[test]
    fn branches_in_front_of_a_span_that_lead_into_it_are_seen() {
        // A span of five bytes at 0x1000, and what is in front of it.
        let leads = |before: &[u8]| may_lead_into(before, &(0x1001..0x1005));
        let nops = [0x90; 8];
        assert!(!leads(&nops) && !leads(&[]));
        for (by, is_into) in [(8, false), (9, true), (12, true), (13, false)] {
            assert_eq!(leads(&[&[0x72, by][..], &nops].concat()), is_into, "{by}");
            assert_eq!(leads(&[&[0xe9, by, 0, 0, 0][..], &nops].concat()), is_into, "{by}");
            assert_eq!(leads(&[&[0x0f, 0x85, by, 0, 0, 0][..], &nops].concat()), is_into, "{by}");
        }
        assert!(!leads(&[0xe9, 1, 0, 0]) && !leads(&[0x72]));
    }

    #[test]
    fn memory_is_looked_at_only_where_it_matters() {
        let unasked = || panic!("memory is looked at");
        assert!(has_computed(UNCHANGED_MIN, unasked).unwrap());
        assert!(!has_computed(COMPUTED_MIN, unasked).unwrap());
        let between = COMPUTED_MIN + Duration::from_nanos(1);
        assert!(has_computed(between, || Ok(true)).unwrap());
        assert!(!has_computed(between, || Ok(false)).unwrap());
    }
}
