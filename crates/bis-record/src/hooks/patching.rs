//! Changing text: known sites when it is mapped, new ones when they trap.
//!
//! A patch is bytes like any others: the event that is being written holds them, with the mapping of a new
//! arena, and replay needs to know no more.

use std::{
    collections::HashMap,
    fs::File,
    ops::Range,
    os::unix::fs::MetadataExt,
    sync::{Arc, PoisonError},
};

use bis_agent::hooks::{AREA_BASE, state};
use bis_rewrite::{Hook, Run, SiteKind, Trampoline, clock_fault, trampoline};
use bis_trace::{
    event::{Backing, Effect, MemWrite, Outcome},
    ours::{self, AreaKind},
    types::{Addr, FileId, PAGE, TRAP_FLAG, Tid, prot},
};
use bis_tracee::{Stopped, address_limit, bulk::Bulk, maps, memory::Memory, remote::Remote, vdso::Vdso};

use super::texts::{TextFile, is_sought};
use crate::{
    crew::{Crew, with_slot},
    error::Result,
    process::Process,
    space::{ARENA_LEN, AddressSpace, Arena, Patch, PatchedByWrites, Patches, TextRange},
    task::Handle,
};

/// Where arenas are tried first: between the highest mapping and the stack's farthest end, where the kernel
/// puts nothing by itself, and behind the hooks, for programs that lie low.
const PLACES: [Addr; 2] = [Addr(0x7fff_f800_0000), Addr(0x7020_0000)];

/// Patches that are written together: trampolines lie side by side, and go into memory by one write; so do
/// the sites of a page.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) trampolines: Vec<MemWrite>,
    pub(super) sites: Vec<MemWrite>,
    pub(super) patches: Vec<Arc<Patch>>,
    pub(super) faults: Vec<ours::Fault>,
    /// What the text's pages hold until the batch is written: some pages have dozens of sites. None where a
    /// page cannot be read.
    pages: HashMap<Addr, Option<Vec<u8>>>,
}

impl Batch {
    /// Looks at all the pages at once in which these runs begin.
    fn look_at(&mut self, memory: Bulk<'_>, runs: &[Run], bias: u64) {
        let start = |run: &Run| Addr(run.start().wrapping_add(bias)).page_floor();
        let mut starts: Vec<Addr> = runs.iter().map(start).collect();
        starts.sort_unstable();
        starts.dedup();
        let pages = memory.read_pages(&starts);
        self.pages.extend(starts.into_iter().zip(pages));
    }

    /// In the order of their addresses, here and in replay the sites of a page are one write. They do not
    /// overlap.
    pub(super) fn sort(&mut self) {
        self.sites.sort_unstable_by_key(|site| site.addr);
    }

    /// The writes to sites: those of one page that was looked at are one, with what lies between them as it
    /// was.
    pub(super) fn site_writes(&self) -> Vec<MemWrite> {
        let mut merged = Vec::new();
        for group in self.sites.chunk_by(|one, next| one.addr.page_floor() == next.addr.page_floor()) {
            let (begin, last) = (group[0].addr, &group[group.len() - 1]);
            let start = begin.page_floor();
            let index = |addr: Addr| usize::try_from(addr - start).unwrap_or(usize::MAX);
            let page = self.pages.get(&start).and_then(Option::as_ref);
            let data =
                page.and_then(|page| page.get(index(begin)..index(last.addr + last.data.len() as u64)));
            let Some(mut data) = data.filter(|_| group.len() > 1).map(<[u8]>::to_vec) else {
                merged.extend_from_slice(group);
                continue;
            };
            for site in group {
                let from = usize::try_from(site.addr - begin).unwrap_or(0);
                data[from..from + site.data.len()].copy_from_slice(&site.data);
            }
            merged.push(MemWrite { addr: begin, data });
        }
        merged
    }

    /// Does the memory have the run's bytes?
    fn matches(&mut self, memory: &Memory, run: &Run, start: Addr) -> bool {
        let len = usize::from(run.len());
        let (page, from) = (start.page_floor(), usize::try_from(start.page_offset()).unwrap_or(0));
        let read = || memory.read_vec(page, usize::try_from(PAGE).unwrap_or(0)).ok();
        let known = self.pages.entry(page).or_insert_with(read).as_ref();
        match known.and_then(|bytes| bytes.get(from..from + len)) {
            Some(bytes) => run.matches(bytes),
            // It goes on in the next one.
            None => run.matches(&memory.read_upto(start, len)),
        }
    }

    fn add(&mut self, at: Addr, bytes: &[u8]) {
        const INT3: u8 = 0xcc;
        if let Some(last) = self.trampolines.last_mut() {
            let end = last.addr + last.data.len() as u64;
            if let Some(gap) = at.checked_since(end).filter(|gap| *gap < 16) {
                last.data.extend(std::iter::repeat_n(INT3, usize::try_from(gap).unwrap_or(0)));
                last.data.extend(bytes);
                return;
            }
        }
        self.trampolines.push(MemWrite { addr: at, data: bytes.to_vec() });
    }
}

/// A transaction that fails at once, and is not worth another try: eax is 0, and the program goes on where it
/// deals with that.
fn without_transaction(made: Trampoline, at: u64) -> Option<Trampoline> {
    const EAX_0: [u8; 5] = [0xb8, 0, 0, 0, 0];
    const JUMP: u64 = 5;
    let (abort, jump) = (made.abort?, at + EAX_0.len() as u64);
    let site = made.places.first()?.0;
    // Alone in its run.
    if made.places.len() != 2 {
        return None;
    }
    let distance = i32::try_from(abort.wrapping_sub(jump + JUMP).cast_signed()).ok()?;
    let bytes = [&EAX_0[..], &[0xe9], &distance.to_le_bytes()].concat();
    let places = vec![(site, at), (abort, jump)];
    Some(Trampoline { bytes, traced: at, done: jump, places, ..made })
}

/// A trampoline whose own instruction, if it reads the time stamp counter, is a fault; and which needs no
/// hook for a transaction. None where that cannot be.
fn adapted(mut made: Trampoline, kind: SiteKind, at: u64) -> Option<Trampoline> {
    if kind == SiteKind::Xbegin {
        return without_transaction(made, at);
    }
    if let Some(fault) = clock_fault(kind) {
        let from = usize::try_from(made.traced - at).unwrap_or(0);
        made.bytes[from..from + fault.len()].copy_from_slice(fault);
    }
    Some(made)
}

/// The file that an outcome has mapped there.
fn kept_at(start: Addr, outcome: &Outcome) -> Option<FileId> {
    outcome.effects.iter().rev().find_map(|effect| match effect {
        Effect::Map { addr, backing: Backing::File { file, .. }, .. } if *addr == start => Some(*file),
        _ => None,
    })
}

/// What is in the text now besides bytes.
fn tell_patches(patches: &[Arc<Patch>], faults: Vec<ours::Fault>, outcome: &mut Outcome) {
    if !patches.is_empty() || !faults.is_empty() {
        let ours = outcome.ours();
        ours.patches.extend(patches.iter().filter_map(|patch| patch.said.clone()));
        ours.faults.extend(faults);
    }
}

/// Maps an arena at the first of these places that is free.
fn map_first(
    slot: &mut Option<Stopped>,
    mut candidates: impl Iterator<Item = Addr>,
    prot: u32,
) -> bis_tracee::Result<Option<Addr>> {
    let map = |remote: &mut Remote<'_>, start: Addr| -> bis_tracee::Result<bool> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let args = [start.0, ARENA_LEN, prot.into(), flags.cast_unsigned().into(), u64::MAX, 0];
        let mapped = address_limit::beside(remote, |remote| remote.call(libc::SYS_mmap, args))?;
        Ok(mapped == start.0.cast_signed())
    };
    let mut remote = Remote::new(slot)?;
    // The first one mostly is: to try takes less than to read what is mapped.
    let mut mapped = None;
    if let Some(start) = candidates.next()
        && map(&mut remote, start)?
    {
        mapped = Some(start);
    } else {
        let mappings = maps::read(remote.tid())?;
        let is_free = |start: &Addr| !mappings.iter().any(|m| m.start < *start + ARENA_LEN && *start < m.end);
        if let Some(start) = candidates.find(is_free)
            && map(&mut remote, start)?
        {
            mapped = Some(start);
        }
    }
    remote.finish()?;
    Ok(mapped)
}

/// A file that is mapped and can be executed.
#[derive(Clone)]
pub struct NewText<'a> {
    pub range: Range<Addr>,
    /// Where in the file it begins.
    pub offset: u64,
    pub prot: u32,
    pub name: &'a [u8],
}

/// What the trace has of a text's file, and what is known of it.
pub type KnownText = (FileId, Arc<TextFile>);

impl AddressSpace {
    /// This part of the address space shows something else now.
    pub fn forget_text(&mut self, start: Addr, end: Addr) {
        self.patches_mut().forget(start, end);
    }
}

impl Process {
    /// Executable memory shows this file now: patches what is known of it.
    pub fn add_text(
        &mut self,
        tid: Tid,
        text: &NewText<'_>,
        file: &File,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if self.hooks.is_none() {
            return Ok(());
        }
        // A file without a name is one that the program has made for this.
        let is_named = file.metadata().is_ok_and(|meta| meta.nlink() > 0);
        let kept = match kept_at(text.range.start, outcome) {
            Some(kept) => Some(kept),
            None if is_named => Some(self.session.keep(file, b"")?),
            None => None,
        };
        let content = || self.session.writer.files().content(kept?);
        let known = self.session.texts.of_kept(file, kept, content).filter(|_| is_named);
        self.add_known_text(tid, text, kept.zip(known), outcome)
    }

    /// As [`Process::add_text`]; none: it is no program.
    pub fn add_known_text(
        &mut self,
        tid: Tid,
        text: &NewText<'_>,
        known: Option<KnownText>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let NewText { range: Range { start, end }, offset, prot, name } = text.clone();
        if self.hooks.is_none() {
            return Ok(());
        }
        let bias = known.as_ref().and_then(|(_, file)| file.bias(start, offset));
        let (Some((kept, file)), Some(bias)) = (known, bias) else {
            self.close_clock("a file that is no program has been mapped to be executed");
            return Ok(());
        };
        let range = TextRange { start, end, bias, offset, is_changed: false, file, kept };
        self.space.patches_mut().texts.push(range.clone());
        if self.space.patches().dense.is_on {
            self.map_dense(tid, &range, outcome)?;
        }
        let is_plain = prot == prot::READ_EXEC;
        self.patch_known(tid, &range, is_plain.then_some(name), outcome)
    }

    pub(super) fn patch_sites(
        &mut self,
        tid: Tid,
        range: &TextRange,
        batch: &mut Batch,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let runs = range.file.runs();
        let runs: Vec<Run> = runs.into_iter().filter(|run| Patches::lies_in(range, run)).collect();
        batch.look_at(Bulk::new(&self.memory, tid), &runs, range.bias);
        for run in runs.iter().filter(|run| clock_fault(run.kind()).is_none() && !is_sought(run.kind())) {
            self.patch(tid, run, range.bias, batch, outcome)?;
        }
        self.patch_chances(tid, range, range.offset, batch, outcome)?;
        self.patch_clocks(tid, range, range.offset, batch, outcome)
    }

    /// An instruction that is no system call has trapped: if it can be patched, it will be in all later
    /// address spaces. (Programs ask for such things as they start.)
    pub fn learn_instruction(&self, site: Addr) {
        let Some(text) = self.space.patches().text_at(site) else { return };
        text.file.learn(text.own(site), self.session.texts.cache());
    }

    /// Puts the program's own cpuid instructions back: they are to be faults now.
    pub fn unpatch_cpuid(&mut self, outcome: &mut Outcome) -> Result<()> {
        self.undo_dense(Addr::NULL, Addr::MAX, outcome)?;
        let patches = self.space.patches().within(Addr::NULL, Addr::MAX);
        for patch in patches.iter().filter(|patch| patch.kind == SiteKind::Cpuid) {
            self.unpatch(patch.start, patch.end, outcome)?;
        }
        Ok(())
    }

    /// Puts the program's own bytes back in this range; its calls there are traced from now on.
    pub fn unpatch(&mut self, start: Addr, end: Addr, outcome: &mut Outcome) -> Result<()> {
        self.undo_dense(start, end, outcome)?;
        for text in
            self.space.patches_mut().texts.iter_mut().filter(|text| text.start < end && start < text.end)
        {
            text.is_changed = true;
        }
        let patches = self.space.patches().within(start, end);
        let faults = self.space.patches_mut().take_faults(start..end);
        if self.space.patches().shows_any(start, end) {
            self.close_clock("text is about to change");
        }
        for (addr, data) in faults {
            self.memory.write(addr, &data)?;
            outcome.ours().own.push((addr, data.len() as u64));
            outcome.writes.push(MemWrite { addr, data });
        }
        for patch in &patches {
            self.memory.write(patch.start, &patch.original)?;
            outcome.ours().own.push((patch.start, patch.end - patch.start));
            outcome.writes.push(MemWrite { addr: patch.start, data: patch.original.clone() });
        }
        if !patches.is_empty() {
            self.space.forget_text(start, end);
        }
        Ok(())
    }

    /// At the exit of a call that was traced: if its instruction can be patched, it is from here on.
    /// (Not for a task that single-steps itself: `trap_flag.rs`.)
    pub fn learn_site(&mut self, tid: Tid, nr: u64, after: Addr, outcome: &mut Outcome) -> Result<()> {
        let site = after.wrapping_sub(2);
        if !self.session.hook_image.is_hooked(nr)
            || outcome.regs.eflags & TRAP_FLAG != 0
            || self.space.patches().is_trampoline(site)
            || self.space.patches().left.contains(&site)
        {
            return Ok(());
        }
        let Some(text) = self.space.patches().text_at(site).cloned() else { return Ok(()) };
        let run = text.file.learn(text.own(site), self.session.texts.cache());
        let Some(run) = run.filter(|run| Patches::lies_in(&text, run)) else {
            self.space.patches_mut().left.insert(site);
            return Ok(());
        };
        let start = text.mapped(run.start());
        if self.is_anybody_in(tid, start, start + u64::from(run.len())) {
            // It moves on, and the site comes up again.
            return Ok(());
        }
        let mut batch = Batch::default();
        if !self.patch(tid, &run, text.bias, &mut batch, outcome)? {
            self.space.patches_mut().left.insert(site);
        }
        self.write_batch(batch, outcome)
    }

    /// Replaces a run by a jump, once the batch is written. False: it has to stay as it is.
    pub(super) fn patch(
        &mut self,
        tid: Tid,
        run: &Run,
        bias: u64,
        batch: &mut Batch,
        outcome: &mut Outcome,
    ) -> Result<bool> {
        let start = Addr(run.start()).wrapping_add(bias);
        let end = start + u64::from(run.len());
        let patches = self.space.patches();
        if patches.overlaps(start, end) || patches.is_avoided(start, end) {
            return Ok(false);
        }
        if !batch.matches(&self.memory, run, start) {
            return Ok(false);
        }
        let Some(arena) = self.reach_by_arena(tid, start, outcome)? else { return Ok(false) };
        let patches = self.space.patches_mut();
        let arena = &mut patches.arenas[arena];
        let at = arena.next();
        let Some(slot) = arena.slot(run.kind()) else { return Ok(false) };
        let make = || {
            let save = u32::try_from(AREA_BASE + state::SAVED_RCX).ok();
            let made = trampoline(run, bias, at.0, Hook { slot: slot.0, save });
            let report = |error: &_| tracing::debug!(start = format_args!("{start:#x}"), %error, "a site stays as it is");
            let trampoline = adapted(made.inspect_err(report).ok()?, run.kind(), at.0)?;
            let place = (at, at + trampoline.bytes.len() as u64);
            let (original, site) = (run.bytes().to_vec(), Addr(run.site()).wrapping_add(bias));
            Patch { start, end, site, kind: run.kind(), trampoline, original, place, said: None }.told()
        };
        let Some(patch) = self.crew.session.texts.made.get((run.clone(), bias, at, slot), make) else {
            return Ok(false);
        };
        arena.take(patch.trampoline.bytes.len());
        batch.add(at, &patch.trampoline.bytes);
        batch.sites.push(MemWrite { addr: start, data: patch.trampoline.patch.clone() });
        batch.patches.push(Arc::clone(&patch));
        tracing::trace!(start = format_args!("{start:#x}"), at = format_args!("{at:#x}"), "patched");
        self.space.patches_mut().add(patch);
        Ok(true)
    }

    /// Lets the diverted functions of the vdso enter the hooks. They are no part of any file, and what they
    /// are is known: a system call and a return.
    pub fn patch_vdso(&mut self, tid: Tid, vdso: Option<&Vdso>, outcome: &mut Outcome) -> Result<()> {
        const RET: u8 = 0xc3;
        /// clock_gettime, gettimeofday, time, getcpu.
        const CLOCKS: [u32; 4] = [228, 96, 201, 309];
        let Some(vdso) = vdso else { return Ok(()) };
        if let Some(arena) = self.reach_by_arena(tid, vdso.start, outcome)? {
            self.copy_vdso(vdso, arena, outcome)?;
        }
        // All of them lie on one page, and so do the trampolines: they are read and written together.
        let (mut trampolines, mut sites) = (Vec::new(), Vec::new());
        let text = vdso.range();
        let now = self.memory.read_vec(text.start, usize::try_from(text.end - text.start).unwrap_or(0))?;
        for (site, nr) in vdso.sites.iter().copied() {
            let Some(arena) = self.reach_by_arena(tid, site, outcome)? else { break };
            let arena = &mut self.space.patches_mut().arenas[arena];
            let at = arena.next();
            let slot =
                if CLOCKS.contains(&nr) { Some(arena.clock_slot()) } else { arena.slot(SiteKind::Syscall) };
            let Some(slot) = slot else { break };
            let to = |target: Addr, from: Addr| {
                let distance = i32::try_from(target.wrapping_since(from).cast_signed()).unwrap_or(0);
                distance.to_le_bytes()
            };
            let (traced, done) = (at + 13, at + 15);
            let mut bytes = [&[0x48, 0x8d, 0x0d][..], &to(done, at + 7)].concat(); // lea rcx, [rip + done]
            bytes.extend([&[0xff, 0x25][..], &to(slot, at + 13)].concat()); // jmp [rip + slot]
            bytes.extend([0x0f, 0x05, RET]);
            let patch = [&[0xe9][..], &to(at, site + 5)].concat();
            arena.take(bytes.len());
            let place = (at, at + bytes.len() as u64);
            let from = usize::try_from(site - text.start).unwrap_or(usize::MAX);
            let Some(original) = now.get(from..from.saturating_add(patch.len())).map(<[u8]>::to_vec) else {
                continue;
            };
            trampolines.push(MemWrite { addr: at, data: bytes.clone() });
            sites.push(MemWrite { addr: site, data: patch.clone() });
            let places = vec![(site.0, at.0), (site.0 + 2, done.0)];
            let (traced, done) = (traced.0, done.0);
            let trampoline = Trampoline { bytes, patch, traced, done, abort: None, places };
            let (start, end, kind) = (site, site + 5, SiteKind::Syscall);
            let patch = Patch { start, end, site, kind, trampoline, original, place, said: None };
            let Some(patch) = patch.told() else { break };
            outcome.ours().patches.extend(patch.said.clone());
            self.space.patches_mut().add(Arc::new(patch));
        }
        for writes in [trampolines, sites] {
            self.memory.write_all(&writes)?;
            outcome.writes.extend(writes);
        }
        Ok(())
    }

    /// Finds an arena that reaches this address, or maps one: its index; none where there is no room for one.
    pub(super) fn reach_by_arena(
        &mut self,
        tid: Tid,
        addr: Addr,
        outcome: &mut Outcome,
    ) -> Result<Option<usize>> {
        if self.hooks.is_none() {
            return Ok(None);
        }
        if let Some(index) = self.space.patches().arenas.iter().position(|arena| arena.reaches(addr)) {
            return Ok(Some(index));
        }
        let near = [addr.saturating_sub(0x100_0000), addr.saturating_add(0x4000_0000)];
        let candidates = PLACES.into_iter().chain(near).map(|at| Addr(at.0 & !(ARENA_LEN - 1)));
        // A few neighbours of each: other arenas may be there.
        let candidates = candidates.flat_map(|at| (0..8).map(move |n| at + n * ARENA_LEN));
        let candidates = candidates.filter(|at| Arena::new(*at).reaches(addr));
        let prot = prot::READ_EXEC;
        let Some(start) = with_slot(self, tid, |_, slot| Ok(map_first(slot, candidates, prot)?))? else {
            return Ok(None);
        };
        outcome.effects.push(Effect::Map { addr: start, len: ARENA_LEN, prot, backing: Backing::Anonymous });
        let area = ours::Area { addr: start, len: ARENA_LEN, kind: AreaKind::Arena };
        outcome.ours().areas.push(area);
        let arena = Arena::new(start);
        let data = Arena::slots();
        self.memory.write(start, &data)?;
        outcome.writes.push(MemWrite { addr: start, data });
        self.space.patches_mut().arenas.push(arena);
        self.watched.arenas.lock().unwrap_or_else(PoisonError::into_inner).push(start);
        Ok(Some(self.space.patches().arenas.len() - 1))
    }
}

impl Crew {
    /// Does another task go on there, whatever happens? One that is stopped there; one whose call is still to
    /// be made, or to be made again, which goes on at the instruction that it stands behind; and one whose
    /// return was told beforehand.
    fn is_anybody_in(&self, tid: Tid, start: Addr, end: Addr) -> bool {
        let is_within = |rip: Addr| start < rip && rip < end;
        self.tasks.values().filter(|task| task.tid != tid).any(|task| match (&task.call, &task.handle) {
            (Some(call), _) if call.telling.is_whole() => is_within(call.entry.ip()),
            (Some(_), Handle::Stopped(stopped)) => {
                stopped.regs().is_ok_and(|regs| start <= regs.ip() && regs.ip() <= end)
            }
            (None, Handle::Stopped(stopped)) => stopped.regs().is_ok_and(|regs| is_within(regs.ip())),
            _ => false,
        })
    }

    /// Writes trampolines, then what leads to them.
    pub(super) fn write_batch(&self, mut batch: Batch, outcome: &mut Outcome) -> Result<()> {
        batch.sort();
        self.memory.write_all(&batch.trampolines)?;
        self.memory.write_all(&batch.site_writes())?;
        outcome.writes.extend([batch.trampolines, batch.sites].into_iter().flatten());
        tell_patches(&batch.patches, batch.faults, outcome);
        Ok(())
    }

    /// The same again.
    pub(super) fn write_again(&self, known: &PatchedByWrites, outcome: &mut Outcome) -> Result<()> {
        self.memory.write_all(&known.trampolines)?;
        self.memory.write_all(&known.merged)?;
        outcome.writes.extend([&known.trampolines, &known.sites].into_iter().flatten().cloned());
        tell_patches(known.set.patches(), known.faults.clone(), outcome);
        Ok(())
    }
}
