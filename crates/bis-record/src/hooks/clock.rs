//! Reading the time without a stop: when the time stamp counter may be left readable in a domain, and what that takes.
//!
//! The kernel's own clock functions read the time stamp counter, and so must the hooks that call them. But a task in
//! which `rdtsc` does not fault could read it unrecorded, and whether it faults can be changed only by a system
//! call, which costs ten times what the clock does. So it is left readable (the domain is *open*) exactly as long as it is
//! known that none of its executable memory has such an instruction:
//!
//! - All executable memory shows files, privately, and is not writable. Each place where a file has the bytes of `rdtsc`
//!   or `rdtscp`, at any alignment, is a patched run, or overwritten by an instruction that faults, or lies inside of
//!   another instruction that nothing leads into (`bis_rewrite::clock_at`), or in a page that cannot be executed without our
//!   being told (`guards.rs`). The vdso is overwritten in the same way.
//! - Where that is not so (code of a JIT compiler, an executable stack, a file of which not enough is known, text that
//!   becomes writable or is thrown away), the domain is *closed*, until its next exec: before any of its tasks goes on, `rdtsc`
//!   faults in it, and the hooks make system calls where they would read the counter. Nothing opens it again.
//! - A program that asks for `rdtsc` to be a fault closes its domain, and gets its own instructions back.
//!
//! Executable memory comes from calls that are traced, all of them; what they did is in their events' effects, and
//! those are looked at once, where events are written ([`loses_text`]). In replay `rdtsc` faults everywhere: an
//! instruction that was overlooked ends it with a report.

use std::fs::File;

use bis_agent::hooks::{AREA_BASE, AREA_LEN, TEXT_BASE, state};
use bis_rewrite::{Learned, SiteKind, clock_fault};
use bis_trace::{
    event::{Backing, Effect, Event, EventKind, Insn, MemWrite, Outcome},
    ours::Fault,
    types::{DomainId, Tid},
};
use bis_tracee::{image, vdso::Vdso};

use super::patching::Batch;
use crate::{
    domain::Domain,
    error::Result,
    hooks::Hooks,
    space::{AddressSpace, Clock, Patches, TextRange, clock_insn},
};

const EXEC: u32 = 4;
const WRITE: u32 = 2;

/// Does this event leave executable memory of which nothing is known, where the clock is open until now?
pub fn loses_text(event: &Event, space: &AddressSpace) -> bool {
    let (EventKind::Syscall { outcome, .. } | EventKind::SyscallExit { outcome, .. }) = &event.kind else {
        return false;
    };
    let (patches, clock) = (space.patches(), space.clock());
    let ours = |addr: u64| (TEXT_BASE..AREA_BASE + AREA_LEN).contains(&addr) || patches.is_trampoline(addr);
    let touches_vdso = |addr: u64, end: u64| clock.touches_vdso(&(addr..end));
    let is_bad = |effect: &Effect| match effect {
        Effect::Map { addr, .. } if ours(*addr) => false,
        Effect::Map { addr, len, prot, backing } => {
            let private = matches!(backing, Backing::File { .. });
            prot & EXEC != 0 && (!private || prot & WRITE != 0 || !patches.shows(*addr, addr + len))
        }
        Effect::Protect { addr, len, prot } if patches.is_guard(*addr, *len, *prot) => false,
        Effect::Protect { addr, len, .. }
            if patches.guards.range(*addr..addr.saturating_add(*len)).next().is_some() =>
        {
            true
        }
        Effect::Protect { addr, len, prot } => {
            let changes = prot & WRITE != 0 && touches_vdso(*addr, addr.saturating_add(*len));
            changes || prot & EXEC != 0 && (prot & WRITE != 0 || !patches.shows(*addr, addr + len))
        }
        // DONTFORK, DOFORK, KEEPONFORK
        Effect::Advise { advice: 10 | 11 | 19, .. } => false,
        // It may bring back what the file has.
        Effect::Advise { addr, len, .. } => {
            let end = addr.saturating_add(*len);
            patches.shows_any(*addr, end) || touches_vdso(*addr, end)
        }
        _ => false,
    };
    !clock.closed && outcome.effects.iter().any(is_bad)
}

/// Closes the clock of an address space: `rdtsc` is to fault in it.
pub fn close(id: DomainId, hooks: &Hooks, space: &mut AddressSpace, why: &str) {
    if !space.clock().closed {
        tracing::debug!(domain = %id, why, "the time stamp counter is not readable any more");
        space.clock_mut().closed = true;
        show(hooks, space.clock());
    }
}

/// Tells the hooks' area what the clock is.
fn show(hooks: &Hooks, clock: &Clock) {
    let open = !clock.closed;
    hooks.area.set(state::TICKS, open.into());
    let [clocks @ .., getcpu] = clock.functions;
    for (offset, function) in (state::CLOCKS..).step_by(8).zip(clocks) {
        hooks.area.set(offset, if open { function } else { 0 });
    }
    hooks.area.set(state::GETCPU, getcpu);
}

impl Domain {
    /// Tells the hooks' area what the clock is; after it was made, and after each change.
    pub fn show_clock(&self) {
        if let Some(hooks) = &self.hooks {
            show(hooks, self.space.clock());
        }
    }

    /// May the domain's tasks read the time stamp counter?
    fn is_clock_open(&self) -> bool {
        self.hooks.is_some() && !self.space.clock().closed
    }

    /// From here on, nothing is known of the domain's executable memory: before any task goes on, `rdtsc` faults in it.
    pub fn close_clock(&mut self, why: &str) {
        if let Some(hooks) = &self.hooks {
            close(self.id, hooks, &mut self.space, why);
        }
    }

    /// At the end of an exec, when all of the image has been looked at: lets the task read the counter, or not.
    pub fn begin_clock(&mut self, tid: Tid) -> Result<()> {
        self.show_clock();
        let open = self.is_clock_open();
        self.with_slot(tid, |_, slot| Ok(image::set_tsc(slot, !open)?))?;
        self.task(tid)?.traits.reads_tsc = open;
        Ok(())
    }

    /// Before a task goes on: makes `rdtsc` fault in it, if the domain is closed by now.
    pub fn obey_clock(&mut self, tid: Tid) -> Result<()> {
        let closed = self.hooks.is_some() && self.space.clock().closed;
        let task = self.task(tid)?;
        // In a call, it stops again before it goes on in its program; with a signal, before it executes anything.
        if closed && task.traits.reads_tsc && task.call.is_none() && task.inject.is_none() {
            task.traits.reads_tsc = false;
            self.with_slot(tid, |_, slot| Ok(image::set_tsc(slot, true)?))?;
        }
        Ok(())
    }

    /// The program wants `rdtsc` to be a fault, in one of its tasks.
    pub fn forbid_clock(&mut self, outcome: &mut Outcome) -> Result<()> {
        self.close_clock("the program wants rdtsc to be a fault");
        self.undo_dense(0, u64::MAX, outcome)?;
        if self.hooks.is_none() {
            return Ok(());
        }
        self.space.clock_mut().forbidden = true;
        let sites = self.space.patches().clock_faults();
        let taken = sites.into_iter().flat_map(|site| self.space.patches_mut().take_faults(site..site + 1));
        for (site, original) in taken.collect::<Vec<_>>() {
            self.memory.write(site, &original)?;
            outcome.ours().own.push((site, original.len() as u64));
            outcome.writes.push(MemWrite { addr: site, data: original });
        }
        let patches = self.space.patches().within(0, u64::MAX);
        for patch in patches.iter().filter(|patch| clock_insn(patch.kind).is_some()) {
            self.unpatch(patch.start, patch.end, outcome)?;
        }
        Ok(())
    }

    /// Deals with everything in a new text that reads the counter, or might. What cannot be dealt with closes the domain.
    pub(super) fn patch_clocks(
        &mut self,
        tid: Tid,
        range: &TextRange,
        offset: u64,
        batch: &mut Batch,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if self.hooks.is_none() || self.space.clock().forbidden {
            return Ok(());
        }
        let len = range.end - range.start;
        let first = range.start.wrapping_sub(range.bias);
        let Some(found) = range.file.clocks(offset, len, first, self.session.texts.cache()) else {
            self.close_clock("a file's end in memory is not known");
            return Ok(());
        };
        let mut unsure = Vec::new();
        let in_dense = |site: u64| {
            let site = site.wrapping_add(range.bias);
            self.space.patches().dense.hooks(site)
        };
        let found: Vec<Learned> = found.into_iter().filter(|place| !in_dense(place.site())).collect();
        for place in found {
            let site = place.site();
            let is_done = match place {
                Learned::Inside { .. } => true,
                Learned::Run(run) => {
                    (Patches::lies_in(range, &run) && self.patch(tid, &run, range.bias, batch, outcome)?)
                        || self.fault_at(run.site().wrapping_add(range.bias), run.kind(), batch)
                }
                Learned::Clock { site, kind } => self.fault_at(site.wrapping_add(range.bias), kind, batch),
                Learned::Refused { reason, .. } => {
                    tracing::debug!(site = format_args!("{site:#x}"), %reason, "perhaps an rdtsc");
                    false
                }
            };
            if !is_done {
                unsure.push(site.wrapping_add(range.bias));
            }
        }
        if !unsure.is_empty() && !self.guard(tid, range, &unsure, outcome)? {
            self.close_clock("a file has what may be an rdtsc");
        }
        Ok(())
    }

    /// Overwrites an instruction by one of its length that faults. False: something else is there.
    fn fault_at(&mut self, site: u64, kind: SiteKind, batch: &mut Batch) -> bool {
        let (Some(fault), Some(insn)) = (clock_fault(kind), clock_insn(kind)) else { return false };
        let original = self.memory.read_upto(site, fault.len());
        let expected: &[u8] = if insn == Insn::Rdtsc { &[0x0f, 0x31] } else { &[0x0f, 0x01, 0xf9] };
        if original != expected || self.space.patches().overlaps(site, site + fault.len() as u64) {
            return false;
        }
        batch.sites.push(MemWrite { addr: site, data: fault.to_vec() });
        batch.faults.push(Fault { site, insn, original: original.clone() });
        self.space.patches_mut().add_fault(site, insn, original);
        true
    }

    /// Executable memory that a fresh image has: the program's, other than the vdso.
    pub(super) fn watch_image(&mut self, mapping: &bis_tracee::maps::Mapping, file: Option<&File>) {
        if mapping.prot & WRITE != 0 || file.is_none() {
            self.close_clock("the image has executable memory that is no file's");
        }
    }

    /// Puts the kernel's clock functions where the hooks can call them.
    pub(super) fn copy_vdso(&mut self, vdso: &Vdso, arena: usize, outcome: &mut Outcome) -> Result<()> {
        self.space.clock_mut().vdso = vdso.range();
        let arena = &mut self.space.patches_mut().arenas[arena];
        if !arena.has_room(vdso.range().end - vdso.start) {
            return Ok(());
        }
        let at = arena.next();
        let Some(copy) = vdso.copy_for(at) else {
            tracing::info!("the kernel's clock functions cannot be moved; they are made system calls");
            return Ok(());
        };
        arena.take(copy.bytes.len());
        let clock = self.space.clock_mut();
        clock.text = at..at + copy.bytes.len() as u64;
        clock.functions = copy.clocks;
        self.memory.write(at, &copy.bytes)?;
        outcome.writes.push(MemWrite { addr: at, data: copy.bytes });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::{
        event::Lapse,
        types::{EventSeq, FileId, PAGE},
    };

    use super::*;
    use crate::space::GUARDED;

    const TEXT: u64 = 0x40_0000;

    fn loses(effect: Effect, space: &AddressSpace) -> bool {
        let outcome = Box::new(Outcome { effects: vec![effect], ..Outcome::default() });
        let kind = EventKind::SyscallExit { nr: 0, outcome };
        let (sums, lapse) = (Vec::new(), Lapse::default());
        loses_text(&Event { seq: EventSeq(1), tid: Tid(1), kind, ticks: None, sums, lapse }, space)
    }

    fn map(prot: u32, backing: Backing) -> Effect {
        Effect::Map { addr: TEXT, len: PAGE, prot, backing }
    }

    #[test]
    fn memory_that_can_be_executed_and_is_no_known_text_loses_the_clock_once() {
        let mut space = AddressSpace::fresh(0, &[]);
        let file = || Backing::File { file: FileId(1), offset: 0 };
        assert!(!loses(map(WRITE, Backing::Anonymous), &space));
        assert!(loses(map(EXEC, Backing::Anonymous), &space));
        assert!(loses(map(EXEC, file()), &space), "nobody has looked at what the file has there");
        let protect = |addr, prot| Effect::Protect { addr, len: PAGE, prot };
        assert!(loses(protect(TEXT, EXEC), &space) && !loses(protect(TEXT, WRITE), &space));
        space.clock_mut().closed = true;
        assert!(!loses(map(EXEC, Backing::Anonymous), &space));
    }

    #[test]
    fn a_page_is_guarded_by_us_and_not_by_the_program() {
        let mut space = AddressSpace::fresh(0, &[]);
        space.patches_mut().guards.insert(TEXT);
        let protect = |len, prot| Effect::Protect { addr: TEXT, len, prot };
        assert!(!loses(protect(PAGE, GUARDED), &space));
        assert!(loses(protect(PAGE, WRITE), &space) && loses(protect(2 * PAGE, GUARDED), &space));
    }

    #[test]
    fn the_vdso_must_not_be_written_or_brought_back() {
        let mut space = AddressSpace::fresh(0, &[]);
        space.clock_mut().vdso = TEXT..TEXT + 2 * PAGE;
        let advise = |advice| Effect::Advise { addr: TEXT + PAGE, len: PAGE, advice };
        assert!(loses(advise(4), &space), "MADV_DONTNEED");
        assert!(!loses(advise(10), &space), "MADV_DONTFORK");
        assert!(loses(Effect::Protect { addr: TEXT + PAGE, len: PAGE, prot: WRITE }, &space));
        assert!(!loses(Effect::Protect { addr: TEXT + 2 * PAGE, len: PAGE, prot: WRITE }, &space));
    }
}
