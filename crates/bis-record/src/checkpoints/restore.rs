//! A domain goes back to a checkpoint.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use bis_agent::UNTRACED_SYSCALL;
use bis_syscalls::own;
use bis_trace::{
    event::{Backing, Effect, MemWrite, Outcome, WayBack},
    types::{Addr, RED_ZONE, Registers, Tid},
};
use bis_tracee::{
    Memory, Resume, Status, Stopped, TraceeError,
    bulk::Bulk,
    maps::Mapping,
    pagemap::PageMap,
    place,
    put_back::{Room, Rooms},
    remote::Remote,
    shadow::Shadow,
    siginfo::SigInfo,
};

use super::{
    by_itself::{ROOMS_OF_BOTH, WORTH_ROOMS, rooms_for},
    content::{Buffers, Own, Sides, in_runs, len_of},
    held::{Checkpoint, Kept},
    layout::{self, Step, mappings},
    shared,
};
use crate::{
    crew::{Crew, with_slot},
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    process::Process,
    space::TextRange,
    task::{Handle, InCall, Stacks, Standing, Task},
};

/// Bytes for each thread that are put back before what was different is told.
const RUN: u64 = 16 << 20;

impl Domain {
    /// The task asks to go back to this checkpoint, in this way.
    pub(super) fn go_back(&mut self, tid: Tid, state: InCall, (handle, how): (u64, u64)) -> Result<()> {
        let found = if how == own::RETRY { self.checkpoints.by_handle.remove(&handle) } else { None };
        let Some(mut checkpoint) = found else {
            return self.not_made(tid, state, -i64::from(libc::EINVAL));
        };
        let refused = self.halt_for_way_back(tid, &checkpoint)?;
        if let Some(errno) = refused {
            self.checkpoints.by_handle.insert(handle, checkpoint);
            return self.not_made(tid, state, -i64::from(errno));
        }
        let result = self.go_back_to(tid, state, &mut checkpoint, how);
        self.checkpoints.by_handle.insert(handle, checkpoint);
        result
    }

    /// Halts the other tasks, and looks whether the process can go back to this checkpoint. The number of the
    /// error why it cannot.
    fn halt_for_way_back(&mut self, tid: Tid, checkpoint: &Checkpoint) -> Result<Option<i32>> {
        if !checkpoint.tasks.contains_key(&tid) {
            return Ok(Some(libc::EPERM));
        }
        let others: Vec<Tid> = self.tasks.keys().copied().filter(|other| *other != tid).collect();
        for other in others {
            self.halt(other)?;
        }
        let is_there = |tid: &Tid| {
            let ends = |status| matches!(status, Status::Exit(_) | Status::Exited(_) | Status::Killed(_));
            self.tasks.get(tid).is_some_and(|task| !task.report.status().is_some_and(ends))
        };
        if !checkpoint.tasks.keys().all(|tid| is_there(tid) || self.can_come_back(*tid)) {
            return Ok(Some(libc::ESRCH));
        }
        let is_stopped = |task: &Task| matches!(task.handle, Handle::Stopped(_));
        let pid = self.task(tid)?.pid;
        // A process that shares the memory and has begun since is not this one's to end. It may be about to
        // leave: what has made it has gone on already when its exec is reported.
        let is_anothers = |task: &Task| task.pid != pid && !checkpoint.tasks.contains_key(&task.tid);
        let is_engaged = |task: &Task| {
            is_anothers(task)
                || task.report.has_newborn()
                || task.call.as_ref().is_some_and(InCall::has_made_child)
                || task.for_tracer.is_held()
        };
        if self.tasks.values().any(|task| !is_stopped(task) || is_engaged(task)) {
            return Ok(Some(libc::EBUSY));
        }
        // Shared memory that others may have, too, or that has a name, was not kept.
        let (now, then) = (mappings(tid)?, self.mappings_then(checkpoint)?);
        let steps = layout::steps(&now, &then, &self.left_alone(checkpoint));
        let is_kept = |mapping: &Mapping| shared::again(&checkpoint.shared, mapping).is_some();
        let is_lost = |step: &Step| matches!(step, Step::Map(mapping) if mapping.shared && !is_kept(mapping));
        Ok(steps.iter().any(is_lost).then_some(libc::EOPNOTSUPP))
    }

    fn go_back_to(
        &mut self,
        tid: Tid,
        mut state: InCall,
        checkpoint: &mut Checkpoint,
        how: u64,
    ) -> Result<()> {
        // What hooks have changed since is noted with the checkpoint.
        self.drain(tid)?;
        self.end_newer(tid, &mut state, checkpoint)?;
        let back = self.bring_back(checkpoint)?;
        let mut outcome = Outcome::default();
        state.found.take().add_to(&mut outcome);
        self.restore_layout(tid, &mut state, checkpoint, &mut outcome)?;
        self.recorder().restore_shared(tid, &mut state, checkpoint, &mut outcome)?;
        self.recorder().restore_content(tid, &mut state, checkpoint, &mut outcome)?;
        self.recorder().restore_kernel(tid, &mut checkpoint.shadow, &checkpoint.kernel)?;
        self.restore_descriptors(tid, &checkpoint.shadow, &checkpoint.descriptors, checkpoint.kernel.buffer)?;
        self.tell_files(tid, checkpoint)?;
        checkpoint.count += 1;
        checkpoint.how = how;
        for (other, kept) in checkpoint.tasks.iter().filter(|(other, _)| **other != tid) {
            let regs = self.set_back(*other, kept, checkpoint)?;
            let (tid, xstate) = (*other, kept.xstate.clone());
            outcome.effects.push(match back.contains(&tid) {
                true => Effect::NewTask { tid, regs, xstate: Some(xstate) },
                false => Effect::SetTask { tid, regs, xstate },
            });
        }
        if let Some(kept) = checkpoint.tasks.get(&tid) {
            outcome.regs = self.set_back(tid, kept, checkpoint)?;
            outcome.xstate = Some(kept.xstate.clone());
        }
        for (other, kept) in &checkpoint.tasks {
            self.restore_named(*other, kept, checkpoint.kernel.buffer)?;
        }
        self.restore_pending(&checkpoint.kernel, &checkpoint.tasks)?;
        self.take_mail(&mut outcome)?;
        let (kind, sums) = state.event(outcome);
        self.event_with(tid, kind, sums)?;
        checkpoint.at = self.journal.last_seq();
        let way_back = WayBack { pid: self.task(tid)?.pid, to: checkpoint.made };
        self.session.note(checkpoint.at, way_back.to_string())?;
        self.return_borrowed()?;
        self.task(tid)?.standing.go_on();
        Ok(())
    }

    /// Ends the tasks that have begun since the checkpoint.
    fn end_newer(&mut self, tid: Tid, state: &mut InCall, checkpoint: &Checkpoint) -> Result<()> {
        let newer: Vec<Tid> =
            self.tasks.keys().copied().filter(|tid| !checkpoint.tasks.contains_key(tid)).collect();
        if newer.is_empty() {
            return Ok(());
        }
        let (kind, sums) = state.enter();
        self.event_with(tid, kind, sums)?;
        for other in newer {
            if self.comes_back(other) && !matches!(self.task(other)?.report.status(), Some(Status::Exit(_))) {
                // Another checkpoint has it.
                self.drop_call(other);
                self.end_for_others(other, 0)?;
                continue;
            }
            let task = self.task(other)?;
            task.signals.coming.withhold();
            let status = match task.report.status() {
                Some(Status::Exit(status)) => status,
                _ => {
                    task.report.be_done();
                    let regs = self.stopped(other)?.regs()?;
                    let exit = Registers {
                        rip: UNTRACED_SYSCALL,
                        rax: libc::SYS_exit.cast_unsigned(),
                        orig_rax: u64::MAX,
                        rdi: 0,
                        ..regs
                    };
                    self.stopped(other)?.set_regs(&exit.wide())?;
                    self.end_of(other, tid)?
                }
            };
            self.task(other)?.report.be_done();
            self.drop_call(other);
            self.exit(other, status)?;
        }
        Ok(())
    }

    /// Lets a task that is about to end come to its end. Signals that come to it meanwhile, which may be the
    /// process's, are its heir's.
    fn end_of(&mut self, tid: Tid, heir: Tid) -> Result<i32> {
        loop {
            self.resume(tid, Resume::Cont)?;
            self.wait_for_report(tid)?;
            match self.task(tid)?.report.take() {
                Some(Status::Exit(status)) => return Ok(status),
                Some(Status::Exited(_) | Status::Killed(_)) | None => {
                    return Err(RecordError::Tracee(TraceeError::Died(tid)));
                }
                Some(Status::Signal(_)) => {
                    let info = SigInfo(self.stopped(tid)?.siginfo()?);
                    self.keep_back(heir, info)?;
                }
                // We have asked it to stop.
                Some(_) => {}
            }
        }
    }

    /// What is mapped becomes what was mapped.
    fn restore_layout(
        &mut self,
        tid: Tid,
        state: &mut InCall,
        checkpoint: &Checkpoint,
        outcome: &mut Outcome,
    ) -> Result<()> {
        self.learn_heap();
        let brk = checkpoint.space.brk();
        if brk != self.space.brk() {
            self.call_for(tid, libc::SYS_brk, [brk.0, 0, 0, 0, 0, 0])?;
            let change = self.space.move_brk(brk);
            self.show_heap();
            self.tell_heap(tid, change, outcome);
        }
        let (now, then) = (mappings(tid)?, self.mappings_then(checkpoint)?);
        let mut again = BTreeSet::new();
        for step in layout::steps(&now, &then, &self.left_alone(checkpoint)) {
            match step {
                Step::Unmap(range) => {
                    let args = [range.start.0, range.end - range.start, 0, 0, 0, 0];
                    self.call_for(tid, libc::SYS_munmap, args)?;
                    self.tell_unmapped(args, outcome)?;
                }
                Step::Protect(range, prot) => {
                    let args = [range.start.0, range.end - range.start, prot.into(), 0, 0, 0];
                    self.call_for(tid, libc::SYS_mprotect, args)?;
                    self.tell_protected(tid, args, outcome)?;
                }
                Step::Map(mapping) if mapping.shared => {
                    let parts = shared::again(&checkpoint.shared, &mapping).unwrap_or_default();
                    // All of it is there with its first part.
                    if parts.first().is_some_and(|first| again.insert(first.range.start)) {
                        self.map_shared_again(tid, &parts, state, (&checkpoint.shadow, outcome))?;
                    }
                }
                Step::Map(mapping) => self.map_again(tid, &mapping, outcome)?,
            }
        }
        Ok(())
    }

    /// Maps what is not mapped any more. Its bytes come with those of all others.
    fn map_again(&mut self, tid: Tid, mapping: &Mapping, outcome: &mut Outcome) -> Result<()> {
        let flags = u64::from((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED).cast_unsigned());
        let args = [mapping.start.0, mapping.len(), mapping.prot.into(), flags, u64::MAX, 0];
        let mapped = self.call_for(tid, libc::SYS_mmap, args)?;
        if mapped != mapping.start.0.cast_signed() {
            let what = format!("cannot have its memory at {:#x} back ({mapped})", mapping.start);
            return Err(RecordError::Unsupported { tid, what });
        }
        let (addr, len, prot) = (mapping.start, mapping.len(), mapping.prot);
        self.tell_unmapped([addr.0, len, 0, 0, 0, 0], outcome)?;
        outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
        Ok(())
    }

    /// A task stands where it stood. Returns its registers.
    fn set_back(&mut self, tid: Tid, kept: &Kept, checkpoint: &Checkpoint) -> Result<Registers> {
        // Where it stood, there may be a patch by now.
        let rip = self.space.patched_rip(kept.regs.ip()).0;
        let rax = if tid == checkpoint.maker { checkpoint.count } else { kept.regs.rax };
        let regs = Registers { rip, rax, ..kept.regs };
        // Signals that have come meanwhile, and one that was about to be delivered, come all the same.
        let mut since: Vec<SigInfo> = self.task(tid)?.signals.stash.replace(&kept.stash).collect();
        if let Some(Status::Signal(_)) = self.task(tid)?.report.status() {
            let info = SigInfo(self.stopped(tid)?.siginfo()?);
            // What one was sent for that only carries is kept already.
            since.extend((!self.is_carrier(tid, &info)).then_some(info));
        }
        self.drop_call(tid);
        let stopped = self.stopped(tid)?;
        stopped.set_regs(&regs)?;
        stopped.set_xstate(&kept.xstate)?;
        stopped.set_sigmask(kept.sigmask)?;
        if self.task(tid)?.with_chaos.disarm() {
            place::set_breakpoints(self.stopped(tid)?, &[])?;
        }
        let task = self.task(tid)?;
        task.report.be_done();
        task.standing = Standing::new();
        task.signals.begin_again();
        task.to_stop.do_not_stop_next();
        task.stacks = Stacks::with_left(kept.left_stack);
        for info in since {
            if !self.task(tid)?.signals.stash.contains(&info) {
                self.keep_back(tid, info)?;
            }
        }
        Ok(regs)
    }
}

impl Recorder<'_> {
    /// Memory holds what it held. What is much has events of its own.
    fn restore_content(
        &mut self,
        tid: Tid,
        state: &mut InCall,
        checkpoint: &Checkpoint,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let lost = |source| RecordError::Os { what: "read the page map", source };
        let pages = PageMap::open(tid).map_err(lost)?;
        let shadow_pages = PageMap::open(checkpoint.shadow.pid()).map_err(lost)?;
        let (now, then) = (mappings(tid)?, self.mappings_then(checkpoint)?);
        // The shadow's text may have been patched otherwise.
        let patches = checkpoint.space.patches().within(Addr(0), Addr(u64::MAX));
        let within = |start: Addr, end: Addr| {
            let first = patches.partition_point(|patch| patch.end <= start);
            patches[first..].iter().take_while(move |patch| patch.start < end)
        };
        let own = |addr: Addr, bytes: &mut [u8]| {
            for patch in within(addr, addr + bytes.len() as u64) {
                for (at, byte) in patch.start.and_behind(1).zip(&patch.original) {
                    let index = usize::try_from(at.wrapping_since(addr)).unwrap_or(usize::MAX);
                    if let Some(place) = bytes.get_mut(index) {
                        *place = *byte;
                    }
                }
            }
        };
        let (pid, cores) = (self.task(tid)?.pid, Arc::clone(&self.session.cores));
        let mut buffers: Vec<Buffers> = (0..cores.count().max(1)).map(|_| Buffers::default()).collect();
        let unpin = || cores.unpin(Tid(0));
        let ranges = in_common(&layout::outside(&now, &self.left_alone(checkpoint)), &then);
        let source = Source { checkpoint, pid, pages: &pages, shadow_pages: &shadow_pages };
        let parts = source.sides(&self.memory)?.parts(&ranges, buffers.len(), &unpin).map_err(lost)?;
        let is_its_own =
            |part: &Range<Addr>| may_write(&now, part) && within(part.start, part.end).next().is_none();
        let (its_own, mut others): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_its_own);
        let is_worth_it = len_of(&its_own) >= WORTH_ROOMS;
        let by: By<'_> = (&mut buffers, &own, &unpin);
        if !is_worth_it || !self.restore_by_itself(tid, state, (source, &its_own), by, outcome)? {
            others.extend(its_own);
        }
        for run in in_runs(&others, buffers.len() as u64 * RUN) {
            let sides = source.sides(&self.memory)?;
            outcome.writes.extend(sides.restore(run, &own, &mut buffers, &unpin).map_err(lost)?);
            self.spill(tid, state, outcome)?;
        }
        // What lay below a stack pointer until now need not be the same in replay, even where it is as it
        // was.
        for (task, kept) in &checkpoint.tasks {
            let popped = self.popped_since(*task, kept, &now, checkpoint)?;
            self.memory.write_all(popped.as_slice())?;
            outcome.writes.extend(popped);
        }
        Ok(())
    }

    /// Lets the process put these parts back by itself. False: there are no rooms for it, and nothing is
    /// done.
    fn restore_by_itself(
        &mut self,
        tid: Tid,
        state: &mut InCall,
        (source, parts): (Source<'_>, &[Range<Addr>]),
        (buffers, own, unpin): By<'_>,
        outcome: &mut Outcome,
    ) -> Result<bool> {
        let cores = buffers.len();
        let shadow = &source.checkpoint.shadow;
        if let Some((rooms, mut each)) = self.share_rooms(tid, shadow)? {
            self.session.cores.unpin(shadow.pid());
            for run in in_runs(parts, cores as u64 * RUN) {
                let writes = with_slot(self, tid, |recorder, slot| {
                    let (sides, mut of_shadow) = (source.sides(&recorder.memory)?, shadow.slot());
                    let (mut remote, mut shadow) = (Remote::new(slot)?, Remote::new(&mut of_shadow)?);
                    let both = (&mut remote, &mut shadow);
                    let writes = sides.restore_by_both(run, both, &mut each, own, buffers, unpin)?;
                    shadow.finish()?;
                    remote.finish()?;
                    Ok(writes)
                })?;
                outcome.writes.extend(writes);
                self.spill(tid, state, outcome)?;
            }
            drop(each);
            self.leave_rooms(tid, rooms, shadow)?;
            return Ok(true);
        }
        let Some(rooms) = with_slot(self, tid, |_, slot| Ok(make_rooms(slot, cores)?))? else {
            return Ok(false);
        };
        for run in in_runs(parts, cores as u64 * RUN) {
            let writes = with_slot(self, tid, |recorder, slot| {
                let sides = source.sides(&recorder.memory)?;
                let mut remote = Remote::new(slot)?;
                let writes = sides.restore_by_itself(run, (&mut remote, &rooms), own, buffers, unpin)?;
                remote.finish()?;
                Ok(writes)
            })?;
            outcome.writes.extend(writes);
            self.spill(tid, state, outcome)?;
        }
        with_slot(self, tid, |_, slot| {
            let mut remote = Remote::new(slot)?;
            rooms.leave(&mut remote, None)?;
            Ok(remote.finish()?)
        })?;
        Ok(true)
    }
}

impl Process {
    /// What is ours, or the program's text that it has not changed: it stays as it is.
    fn left_alone(&self, checkpoint: &Checkpoint) -> Vec<Range<Addr>> {
        let mut left = self.ours();
        let texts = self.space.patches().texts.iter().filter(|text| !text.is_changed);
        let then = &checkpoint.space.patches().texts;
        let shows = |text: &TextRange| (text.start, text.end, text.kept, text.offset);
        let is_old =
            |text: &&TextRange| then.iter().any(|then| !then.is_changed && shows(then) == shows(text));
        left.extend(texts.filter(is_old).map(|text| text.start..text.end));
        left
    }

    /// Rooms that a shadow has mapped as well as the process; none where they cannot.
    fn share_rooms(&mut self, tid: Tid, shadow: &Shadow) -> Result<Option<(Rooms, [Room; ROOMS_OF_BOTH])>> {
        let made = with_slot(self, tid, |process, slot| {
            let Some(hooks) = &process.hooks else { return Ok(None) };
            let mut of_shadow = shadow.slot();
            let (mut remote, mut copy) = (Remote::new(slot)?, Remote::new(&mut of_shadow)?);
            let made = Rooms::of_both(&hooks.area, (&mut remote, &mut copy), ROOMS_OF_BOTH as u64)?;
            copy.finish()?;
            remote.finish()?;
            Ok(made)
        })?;
        let Some(rooms) = made else { return Ok(None) };
        let each: [Room; ROOMS_OF_BOTH] = match rooms.each().try_into() {
            Ok(each) => each,
            Err(each) => {
                return Err(RecordError::Bug { tid, what: format!("there are {} rooms", each.len()) });
            }
        };
        let memory = shadow.memory()?;
        // The process may have got another area since.
        if each.iter().all(|room| room.is_in_copy(memory)) {
            return Ok(Some((rooms, each)));
        }
        drop(each);
        self.leave_rooms(tid, rooms, shadow)?;
        Ok(None)
    }
}

impl Crew {
    fn leave_rooms(&mut self, tid: Tid, rooms: Rooms, shadow: &Shadow) -> Result<()> {
        with_slot(self, tid, |_, slot| {
            let mut of_shadow = shadow.slot();
            let (mut remote, mut copy) = (Remote::new(slot)?, Remote::new(&mut of_shadow)?);
            rooms.leave(&mut remote, Some(&mut copy))?;
            copy.finish()?;
            Ok(remote.finish()?)
        })
    }

    /// The part of a task's stack that it had then and has not now.
    fn popped_since(
        &self,
        tid: Tid,
        kept: &Kept,
        mappings: &[Mapping],
        checkpoint: &Checkpoint,
    ) -> Result<Option<MemWrite>> {
        let (then, now) = (kept.regs.sp(), self.stopped_ref(tid)?.regs()?.sp());
        let is_in = |mapping: &&Mapping| mapping.start <= then && then < mapping.end;
        let Some(stack) = mappings.iter().find(is_in) else { return Ok(None) };
        let end = if now < stack.start || now >= stack.end { stack.end } else { now };
        let begin = then.saturating_sub(RED_ZONE).max(stack.start);
        if begin >= end || stack.shared {
            return Ok(None);
        }
        let len = usize::try_from(end - begin).unwrap_or(0);
        Ok(Some(MemWrite { addr: begin, data: checkpoint.shadow.memory()?.read_vec(begin, len)? }))
    }
}

/// Whether a process may write there, as what is mapped says.
fn may_write(mappings: &[Mapping], part: &Range<Addr>) -> bool {
    let behind = mappings.partition_point(|mapping| mapping.end <= part.start);
    mappings.get(behind).is_some_and(|mapping| mapping.prot & libc::PROT_WRITE.cast_unsigned() != 0)
}

/// Rooms for the process to put its memory back by itself; none where there is no place or no descriptor for
/// them.
fn make_rooms(slot: &mut Option<Stopped>, cores: usize) -> bis_tracee::Result<Option<Rooms>> {
    let mut remote = Remote::new(slot)?;
    let rooms = match Rooms::make(&mut remote, rooms_for(cores)) {
        Err(TraceeError::OutOfFiles(_) | TraceeError::Os { .. }) => None,
        made => Some(made?),
    };
    remote.finish()?;
    Ok(rooms)
}

/// The buffers of each thread, what is changed of a shadow's bytes, and how a thread begins.
type By<'a> = (&'a mut [Buffers], Own<'a>, &'a (dyn Fn() + Sync));

/// What a process's memory is put back from.
#[derive(Clone, Copy)]
struct Source<'a> {
    checkpoint: &'a Checkpoint,
    pid: Tid,
    pages: &'a PageMap,
    shadow_pages: &'a PageMap,
}

impl<'a> Source<'a> {
    fn sides(self, memory: &'a Memory) -> Result<Sides<'a>> {
        Ok(Sides {
            memory: Bulk::new(memory, self.pid),
            pages: self.pages,
            shadow: self.checkpoint.shadow.bulk()?,
            shadow_pages: self.shadow_pages,
            since: &self.checkpoint.since,
        })
    }
}

/// The private memory that both have, in pieces that threads share among them.
fn in_common(now: &[Mapping], then: &[Mapping]) -> Vec<Range<Addr>> {
    const LEN: u64 = 16 << 20;
    let pairs = now.iter().flat_map(|now| {
        let first = then.partition_point(|then| then.end <= now.start);
        let rest = then.get(first..).unwrap_or_default().iter();
        rest.take_while(|then| then.start < now.end).map(move |then| (now, then))
    });
    let common = pairs.filter(|(now, then)| !now.shared && !then.shared);
    let ranges = common.map(|(now, then)| now.start.max(then.start)..now.end.min(then.end));
    let pieces = ranges.filter(|range| range.start < range.end).flat_map(|Range { start, end }| {
        let step = usize::try_from(LEN).unwrap_or(usize::MAX);
        Addr::steps(start..end, step).map(move |at| at..end.min(at + LEN))
    });
    pieces.collect()
}
