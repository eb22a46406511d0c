//! The program's own text: what a debugger shows where the replayed memory holds what bis has put there.
//!
//! The problem. A replayed process executes what the recorded one executed: text in which runs of
//! instructions have given way to jumps, trampolines with copies of those instructions, hooks, text that
//! counts. The user of a debugger knows none of it. The user asks for the bytes at an address, for the
//! instruction at which a task stands, and for the task to stop where an instruction of the program is about
//! to be executed.
//!
//! [`ProgramText`] answers. It is a value, fed with the outcomes of a domain's events in their order
//! ([`ProgramText::apply`]), cheap to clone, and knows nothing of processes. A forked child begins with a
//! clone of its parent's as of the event of the fork, an exec with a new one. Of a trace that does not say
//! what is bis's own ([`bis_trace::Trace::says_ours`]) it knows nothing: every address is shown as the
//! program's, with the bytes that are in memory.
//!
//! **Bytes** ([`ProgramText::show`]). They are exact for all text of files and for the vdso. Two limits: text
//! that the program moves with mremap is shown as it lies in memory, at its new place; and where text was
//! mapped writable from the start, and the program has stored over one of our jumps, the bytes from before
//! are shown. (A program that makes text writable later gets its own bytes back first.) Memory that the
//! program does not have is no matter of bytes but of [`ProgramText::is_ours`].
//!
//! **Where a task stands** ([`ProgramText::original`]). An instruction of the program ([`Shown::Program`]) is
//! named only where the task's whole state is that of a task of the unchanged program which is about to
//! execute that instruction. This is so in the text itself, at the begin of each copy, and at our jumps to a
//! copy and back from a trampoline, which change nothing ([`ProgramText::leads_to`]). Everywhere else the
//! answer is [`Shown::Within`]: a way to a hook has put an address into rcx or rdx; a count has changed its
//! word, perhaps flags and rcx; in the place of a function of the vdso there are other instructions.
//!
//! **Where to catch a task** ([`ProgramText::places`]). An instruction of the program is executed in the
//! text, if its bytes are there, or as a copy. All these addresses are the places of the instruction, and an
//! arrival at the instruction is an arrival at one of its places. An arrival passes exactly one place, once,
//! whatever way the task came:
//!
//! - *An instruction that has not moved*: the place is its address. So it is for an instruction that has
//!   given way to one that faults, in a page that cannot be executed (there the fault comes first, and the
//!   task arrives again after it), and for a branch in dense text that has another displacement only.
//! - *The first instruction of a run*: a task that comes to the run's start executes our jump there, then the
//!   copy. The copy is the place, and the jump is not, because the copy can be reached without the jump: in
//!   dense text a loop that leads to the start of its own run goes to the copy at once; the recorder puts a
//!   task there whose call it has undone. In a sparse run the jump is executed exactly as often as the copy;
//!   but one rule for all is simpler.
//! - *An instruction in the middle of a run* is reached from the one before it, or because the recorder puts
//!   a task there: both at its copy.
//! - *A site*: its copy begins with the way to the hook, and that begin is the place. The instruction itself
//!   stands further on (the trampoline's own copy, where the call is traced); a task that comes there has
//!   passed the place before.
//! - *Trampolines to which nothing leads any more*: text is changed while tasks are in trampolines, and these
//!   tasks go on there. The copies in them stay places. So an instruction may have several places, of which
//!   all but one are mostly idle.
//! - *A function of the vdso*: the place of its first instruction is its start. Its other instructions have
//!   no place: they are not executed.
//!
//! A system call that is made again after an interruption, or by an event that leaves the task in front of
//! its call, is a new arrival where the instruction has not moved, or where the event has changed the text;
//! it is none where the task goes on at the trampoline's own copy. A caller that wants one arrival for each
//! call catches events, not arrivals.
//!
//! A task that stands at a jump of ours ([`ProgramText::leads_to`]) is shown at an instruction and has not
//! arrived at its place yet. To step such a task by one instruction is to let it execute the jump first;
//! otherwise the step would execute nothing of the program.
//!
//! Events change places (a site is patched, text begins to count); [`ProgramText::version`] tells when to ask
//! again.

mod answers;
mod files;
mod restored;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fs::File, ops::Range, sync::Arc};

use bis_rewrite::DenseMap;
use bis_trace::{
    TraceError,
    event::{Effect, Outcome, Prot},
    ours::{Area, Diverted, Fault, Ours, Patch, RUN_BYTES_MAX},
    types::{Addr, FileId},
};

pub use answers::{Exit, HookedSite, Shown};
pub use files::{TextError, TextFiles};

/// The advices that throw private pages away: DONTNEED, DONTNEED_LOCKED, GUARD_INSTALL.
const DISCARDS: [u32; 3] = [4, 24, 102];

/// What is bis's own in an address space, and what the program has there. See the module's essay.
#[derive(Clone, Debug, Default)]
pub struct ProgramText {
    known: Arc<Known>,
    files: TextFiles,
    version: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    areas: Vec<Area>,
    /// What has given way to a jump, by its start. They do not overlap.
    patches: BTreeMap<Addr, Arc<Patch>>,
    /// Those whose text is gone, by start and trampoline.
    old: BTreeMap<(Addr, Addr), Arc<Patch>>,
    /// All, by their trampoline.
    trampolines: BTreeMap<Addr, Arc<Patch>>,
    faults: BTreeMap<Addr, Fault>,
    guards: BTreeMap<Addr, Prot>,
    diverted: BTreeMap<Addr, Arc<Diverted>>,
    pools: Vec<Pool>,
    /// By address. They do not overlap.
    dense: BTreeMap<Addr, Dense>,
    /// Text that shows a file with patches in it, by address. It stays so when the patches are overwritten.
    mapped: BTreeMap<Addr, Mapped>,
}

/// Trampolines of a dense text.
#[derive(Clone, Debug)]
struct Pool {
    range: Range<Addr>,
    bias: u64,
    map: Arc<DenseMap>,
}

/// A range of text that counts.
#[derive(Clone, Debug)]
struct Dense {
    end: Addr,
    /// The address of its trampolines.
    pool: Addr,
    id: FileId,
    file: Arc<File>,
    offset: u64,
}

/// A range of text that shows the program's own with patches in it.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    end: Addr,
    /// The program's own file, and from where on.
    id: FileId,
    offset: u64,
}

/// A range of text that shows another file than the program believes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Believed {
    pub range: Range<Addr>,
    /// What the program has there: this kept file from `offset`.
    pub file: FileId,
    pub offset: u64,
}

/// The range of whole pages that begins there.
fn pages(addr: Addr, len: u64) -> Range<Addr> {
    let end = addr.saturating_add(len);
    addr..end.checked_page_ceil().unwrap_or(Addr::MAX)
}

impl ProgramText {
    /// An address space of which nothing has been said yet. Those of one session share the files.
    pub fn new(files: TextFiles) -> ProgramText {
        ProgramText { files, ..ProgramText::default() }
    }

    /// A number that is another one after each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What an event has made true. `open` opens a kept file ([`bis_trace::Trace::open_file`]).
    ///
    /// # Errors
    /// Where a file of the trace that is needed cannot be opened, or is not what it should be.
    pub fn apply(
        &mut self,
        outcome: &Outcome,
        open: impl Fn(FileId) -> Result<File, TraceError>,
    ) -> Result<(), TextError> {
        let Outcome { effects, ours, .. } = outcome;
        if effects.is_empty() && ours.is_none() {
            return Ok(());
        }
        for effect in effects {
            self.effect(effect);
        }
        match ours {
            Some(ours) => self.add(ours, &open),
            None => Ok(()),
        }
    }

    fn change(&mut self) -> &mut Known {
        self.version += 1;
        Arc::make_mut(&mut self.known)
    }

    fn effect(&mut self, effect: &Effect) {
        match *effect {
            Effect::Map { addr, len, .. } | Effect::Unmap { addr, len } => {
                self.forget(&pages(addr, len));
            }
            Effect::Remap { addr, old_len, new_addr, new_len, keep } => {
                let (old_end, new_end) = (addr.saturating_add(old_len), new_addr.saturating_add(new_len));
                if addr == new_addr {
                    return self.forget(&(new_end..old_end));
                }
                self.forget(&(new_addr..new_end));
                if !keep {
                    self.forget(&(addr..old_end));
                }
            }
            Effect::Protect { addr, len, .. } => {
                let range = pages(addr, len);
                if self.known.guards.range(range.clone()).next().is_some() {
                    self.change().guards.retain(|page, _| !range.contains(page));
                }
            }
            Effect::Advise { addr, len, advice } if DISCARDS.contains(&advice) => {
                let range = pages(addr, len);
                if self.known.says_anything(&range) {
                    self.change().put_back(&range);
                }
            }
            Effect::Advise { .. }
            | Effect::NewObject { .. }
            | Effect::WriteObject { .. }
            | Effect::ResizeObject { .. }
            | Effect::ClearObject { .. }
            | Effect::NewTask { .. }
            | Effect::SetTask { .. }
            | Effect::Segment { .. }
            | Effect::Fork { .. } => {}
        }
    }

    /// The range shows something else now.
    fn forget(&mut self, range: &Range<Addr>) {
        if !range.is_empty() && self.known.says_anything(range) {
            self.change().forget(range);
        }
    }

    fn add(
        &mut self,
        ours: &Ours,
        open: &impl Fn(FileId) -> Result<File, TraceError>,
    ) -> Result<(), TextError> {
        let files = self.files.clone();
        let known = self.change();
        for (addr, len) in &ours.own {
            let range = *addr..addr.saturating_add(*len);
            known.put_back(&range);
            known.cut_dense(&range);
        }
        known.areas.extend(&ours.areas);
        for part in &ours.diverted {
            known.diverted.insert(part.addr, Arc::new(part.clone()));
        }
        for pool in &ours.pools {
            let range = pool.addr..pool.addr.saturating_add(pool.len);
            known.pools.push(Pool { range, bias: pool.bias, map: files.map(pool.map, open)? });
        }
        for text in &ours.dense {
            let range = text.addr..text.addr.saturating_add(text.len);
            if range.is_empty() {
                continue;
            }
            known.put_back(&range);
            known.cut_dense(&range);
            let file = files.original(text.file, open)?;
            let (end, pool, id, offset) = (range.end, text.pool, text.file, text.offset);
            known.dense.insert(text.addr, Dense { end, pool, id, file, offset });
        }
        for text in &ours.patched {
            let range = text.addr..text.addr.saturating_add(text.len);
            if range.is_empty() {
                continue;
            }
            known.put_back(&range);
            known.cut_dense(&range);
            known.cut_mapped(&range);
            let mapped = Mapped { end: range.end, id: text.file, offset: text.offset };
            known.mapped.insert(text.addr, mapped);
            let set = files.set(text.set, text.at, open)?;
            known.add_patches(&set.patches, &set.faults);
        }
        known.add_patches(&ours.patches, &ours.faults);
        known.guards.extend(ours.guards.iter().map(|guard| (guard.page.page_floor(), guard.prot)));
        Ok(())
    }
}

impl Known {
    fn mapped_in(&self, range: &Range<Addr>) -> impl Iterator<Item = (&Addr, &Mapped)> + use<'_> {
        let start = range.start;
        self.mapped.range(..range.end).rev().take_while(move |(_, text)| start < text.end)
    }

    /// This range shows no file of ours any more; around it, it goes on.
    fn cut_mapped(&mut self, range: &Range<Addr>) {
        let touched: Vec<Addr> = self.mapped_in(range).map(|(start, _)| *start).collect();
        for start in touched {
            let Some(text) = self.mapped.remove(&start) else { continue };
            for (from, to) in [(start, text.end.min(range.start)), (start.max(range.end), text.end)] {
                if from < to {
                    let offset = text.offset.wrapping_add(from - start);
                    self.mapped.insert(from, Mapped { end: to, offset, ..text });
                }
            }
        }
    }

    /// The patches that have a byte in this range.
    fn patches_in(&self, range: &Range<Addr>) -> impl Iterator<Item = &Arc<Patch>> + use<'_> {
        let start = range.start;
        let first = start.saturating_sub(RUN_BYTES_MAX as u64 - 1);
        self.patches.range(first..range.end).map(|(_, patch)| patch).filter(move |patch| start < patch.end())
    }

    fn dense_in(&self, range: &Range<Addr>) -> impl Iterator<Item = (&Addr, &Dense)> + use<'_> {
        let start = range.start;
        self.dense.range(..range.end).rev().take_while(move |(_, text)| start < text.end)
    }

    fn add_patches(&mut self, patches: &[Arc<Patch>], faults: &[Fault]) {
        for patch in patches {
            self.put_back(&(patch.start..patch.end()));
            self.patches.insert(patch.start, Arc::clone(patch));
            self.trampolines.insert(patch.trampoline, Arc::clone(patch));
        }
        for fault in faults {
            self.faults.insert(fault.site, fault.clone());
        }
    }

    fn says_anything(&self, range: &Range<Addr>) -> bool {
        self.patches_in(range).next().is_some()
            || self.faults.range(range.clone()).next().is_some()
            || self.guards.range(range.clone()).next().is_some()
            || self.diverted.range(range.clone()).next().is_some()
            || self.dense_in(range).next().is_some()
            || self.mapped_in(range).next().is_some()
    }

    /// The range shows something else now.
    fn forget(&mut self, range: &Range<Addr>) {
        self.put_back(range);
        self.cut_dense(range);
        self.cut_mapped(range);
        self.guards.retain(|page, _| !range.contains(page));
        self.diverted.retain(|addr, _| !range.contains(addr));
    }

    /// There are no patches and faults in this range any more. Tasks may stand in the trampolines.
    fn put_back(&mut self, range: &Range<Addr>) {
        let gone: Vec<Arc<Patch>> = self.patches_in(range).cloned().collect();
        for patch in gone {
            self.patches.remove(&patch.start);
            self.old.insert((patch.start, patch.trampoline), patch);
        }
        let faults: Vec<Addr> = self.faults.range(range.clone()).map(|(site, _)| *site).collect();
        for site in faults {
            self.faults.remove(&site);
        }
    }

    /// No text counts in this range any more; around it, it goes on.
    fn cut_dense(&mut self, range: &Range<Addr>) {
        let touched: Vec<Addr> = self.dense_in(range).map(|(start, _)| *start).collect();
        for start in touched {
            let Some(text) = self.dense.remove(&start) else { continue };
            for (from, to) in [(start, text.end.min(range.start)), (start.max(range.end), text.end)] {
                if from < to {
                    let offset = text.offset.wrapping_add(from - start);
                    self.dense.insert(from, Dense { end: to, offset, ..text.clone() });
                }
            }
        }
    }
}
