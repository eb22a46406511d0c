//! Text that was patched before is patched by mapping it.
//!
//! To patch a text is to look at each of its known places, to write to dozens of its pages, of which the
//! process gets copies by that, and to say all of it in the trace. Without address space randomisation,
//! process after process maps the same text at the same place, with the same outcome. So the second time that
//! a text comes with all that its patches follow from ([`SetKey`]), a file is made of it: the text with its
//! patches, and their trampolines; and from then on that is mapped over the text and a part of the arena, in
//! recording and in replay. What the patches are is at the end of the same file, and known as one value to
//! all address spaces that have it ([`PatchSet`]).
//!
//! Small texts are not worth it, and large ones would be more to keep than all else: they are written to each
//! time, but what is written is found once ([`PatchedByWrites`]). Text that may change
//! with its file (a view) goes on showing that. The program sees its own file in `/proc/PID/maps`
//! ([`ShownText`]), and gets its own bytes before it can change them, as ever; where the kernel shows again
//! what is mapped (MADV_DONTNEED), they are written there.

use std::sync::Arc;

use bis_trace::{
    codec,
    event::{Backing, Effect, MemWrite, Outcome},
    ours,
    types::{Addr, PAGE, Tid, prot},
};
use bis_tracee::maps;

use super::{dense::map_pieces, patching::Batch};
use crate::{
    crew::with_slot,
    error::Result,
    process::Process,
    session::Session,
    space::{
        AddressSpace, KnownSet, PatchSet, Patched, PatchedByWrites, PatchedFile, SetKey, ShownText, TextRange,
    },
};

/// A text of which fewer places are known is written to.
const PLACES_MIN: usize = 32;

/// So is one with fewer pages that are patched, or which is longer, in bytes.
const PAGES_MIN: usize = 8;
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// The advices after which the file's pages show again: DONTNEED, DONTNEED_LOCKED, GUARD_REMOVE.
const SHOW_AGAIN: [u32; 3] = [4, 24, 103];

/// What has to be as it was for a batch to be all that there is of a text's patches.
#[derive(PartialEq, Eq)]
struct Standing {
    arenas: Vec<Addr>,
    effects: usize,
    guards: usize,
    is_closed: bool,
}

impl AddressSpace {
    fn set_standing(&self, arena: Addr, outcome: &Outcome) -> Standing {
        let arenas = self.patches().arenas.iter().filter(|other| other.start != arena);
        Standing {
            arenas: arenas.flat_map(|arena| [arena.start, arena.next()]).collect(),
            effects: outcome.effects.len(),
            guards: self.patches().guards.len(),
            is_closed: self.clock().closed,
        }
    }
}

impl Process {
    /// What is known of a text's sites is patched, as far as the bytes are there. `name` is that of the file,
    /// where it has just been mapped, readable and executable.
    pub(super) fn patch_known(
        &mut self,
        tid: Tid,
        range: &TextRange,
        name: Option<&[u8]>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let is_file = name.is_some_and(|name| is_worth_a_file(range, name));
        let key = match name {
            Some(_) if self.may_be_known(range) => self.set_key(tid, range, is_file, outcome)?,
            _ => None,
        };
        let Some((key, name)) = key.zip(name) else {
            let mut batch = Batch::default();
            self.patch_sites(tid, range, &mut batch, outcome)?;
            return self.write_batch(batch, outcome);
        };
        let known = match self.session.texts.sets.get(&key) {
            KnownSet::Written(patched) => {
                let kept = keep_set(&self.session, range, &key, patched);
                let known = kept.map_or(KnownSet::Refused, |kept| KnownSet::Kept(Arc::new(kept)));
                self.session.texts.sets.set(key.clone(), known.clone());
                known
            }
            known => known,
        };
        if let KnownSet::Kept(kept) = &known
            && self.map_set(tid, (range, name), &key, kept, outcome)?
        {
            return Ok(());
        }
        if let KnownSet::Same(known) = &known {
            let patches = self.space.patches_mut();
            patches.add_written_set(Arc::clone(&known.set));
            if let Some(arena) = patches.arena_at(key.arena) {
                arena.go_on_from(known.end);
                if is_file {
                    arena.align();
                }
            }
            return self.write_again(known, outcome);
        }
        let mut batch = Batch::default();
        let before = self.space.set_standing(key.arena, outcome);
        self.patch_sites(tid, range, &mut batch, outcome)?;
        batch.sort();
        if matches!(known, KnownSet::New) {
            let is_all = before == self.space.set_standing(key.arena, outcome);
            let known = if is_all { self.known_by(tid, range, &key, is_file, &batch) } else { None };
            self.session.texts.sets.set(key.clone(), known.unwrap_or(KnownSet::Refused));
        }
        if is_file {
            // The page is not shared with what comes next.
            self.space.patches_mut().arena_at(key.arena).map(crate::space::Arena::align);
        }
        self.write_batch(batch, outcome)
    }

    /// Is this a text whose patches are the same as those of another process, if that had the same?
    fn may_be_known(&self, range: &TextRange) -> bool {
        let patches = self.space.patches();
        let is_whole =
            [range.start.0, range.end.0, range.offset].into_iter().all(|at| at.is_multiple_of(PAGE));
        self.hooks.is_some()
            && is_whole
            // Where nothing is known, an arena may not be needed either.
            && range.file.places() > 0
            && !range.is_changed
            && !patches.dense.is_on
            && !patches.avoids_any()
            && !patches.overlaps(range.start, range.end)
            && !self.space.clock().forbidden
            && !self.space.views().overlaps(range.start, range.end)
    }

    /// The trampolines that are to be in a file begin on a page of their own.
    fn set_key(
        &mut self,
        tid: Tid,
        range: &TextRange,
        is_file: bool,
        outcome: &mut Outcome,
    ) -> Result<Option<SetKey>> {
        let is_closed = self.space.clock().closed;
        let Some(arena) = self.reach_by_arena(tid, range.start, outcome)? else { return Ok(None) };
        let arena = &mut self.space.patches_mut().arenas[arena];
        if is_file {
            arena.align();
        }
        Ok(Some(SetKey::new(range, (arena.start, arena.next()), is_closed)))
    }

    /// What has become of a text by a batch, which is about to be written. None: it has to be found each
    /// time.
    fn known_by(
        &mut self,
        tid: Tid,
        range: &TextRange,
        key: &SetKey,
        is_file: bool,
        batch: &Batch,
    ) -> Option<KnownSet> {
        let mut pages: Vec<Addr> = batch.sites.iter().map(|site| site.addr.page_floor()).collect();
        pages.dedup();
        let lies_in = |write: &MemWrite, start: Addr, end: Addr| {
            start <= write.addr && write.addr + write.data.len() as u64 <= end
        };
        let end = self.space.patches_mut().arena_at(key.arena)?.next();
        let is_inside = batch.sites.iter().all(|site| lies_in(site, range.start, range.end))
            && batch.trampolines.iter().all(|write| lies_in(write, key.at, end));
        if !is_inside {
            return None;
        }
        let set = Arc::new(PatchSet::new(range.start..range.end, &batch.patches, &batch.faults));
        let (sites, trampolines) = (batch.sites.clone(), batch.trampolines.clone());
        let faults = batch.faults.clone();
        if !is_file || pages.len() < PAGES_MIN {
            let merged = batch.site_writes();
            return Some(KnownSet::Same(Arc::new(PatchedByWrites {
                set,
                sites,
                merged,
                trampolines,
                faults,
                end,
            })));
        }
        let mappings = maps::read(tid).ok()?;
        let mapping = mappings.iter().find(|m| (m.start..m.end).contains(&range.start))?;
        Some(KnownSet::Written(Arc::new(Patched {
            set,
            sites,
            trampolines,
            faults,
            end,
            shown: ShownText {
                start: range.start,
                end: range.end,
                file: Arc::clone(&range.file),
                offset: range.offset,
                device: mapping.device,
                inode: mapping.inode,
                name: mapping.name.as_slice().into(),
            },
        })))
    }

    /// Maps a text with all its patches over the program's own. False: it cannot be mapped.
    fn map_set(
        &mut self,
        tid: Tid,
        (range, name): (&TextRange, &[u8]),
        key: &SetKey,
        kept: &PatchedFile,
        outcome: &mut Outcome,
    ) -> Result<bool> {
        let PatchedFile { patched, file, path, text_len, trampolines_len, .. } = kept;
        let pieces = [(range.start, *text_len, 0, false), (key.at, *trampolines_len, *text_len, false)];
        let is_mapped = with_slot(self, tid, |process, slot| {
            Ok(map_pieces(slot, &process.memory, (file, path), &pieces)?)
        })?;
        if !is_mapped {
            tracing::debug!(path = %path.display(), "a patched text could not be mapped");
            return Ok(false);
        }
        for (addr, len, offset, _) in pieces {
            let backing = Backing::File { file: kept.kept, offset };
            outcome.effects.push(Effect::Map { addr, len, prot: prot::READ_EXEC, backing });
        }
        outcome.ours().patched.push(ours::PatchedText {
            addr: range.start,
            len: *text_len,
            file: range.kept,
            offset: range.offset,
            set: kept.kept,
            at: text_len + trampolines_len,
        });
        let shown = ShownText { name: name.into(), ..patched.shown.clone() };
        let patches = self.space.patches_mut();
        patches.add_set(Arc::clone(&patched.set), shown);
        if let Some(arena) = patches.arena_at(key.arena) {
            arena.go_on_from(patched.end);
            arena.align();
        }
        Ok(true)
    }

    /// An advice was given: the kernel may show again what is mapped.
    pub fn show_own_again(&mut self, range: (Addr, Addr), advice: u32, outcome: &mut Outcome) -> Result<()> {
        if SHOW_AGAIN.contains(&advice) { self.show_own_text(range, outcome) } else { Ok(()) }
    }

    /// The kernel shows again what is mapped in this range. Where that is a file of ours, the program's own
    /// bytes are written there; tasks may stand in the trampolines.
    pub fn show_own_text(&mut self, range: (Addr, Addr), outcome: &mut Outcome) -> Result<()> {
        for text in self.space.patches().shown_in(range.0, range.1) {
            let (from, to) = (text.start.max(range.0), text.end.min(range.1));
            let data = text.file.shown(text.offset + (from - text.start), to - from);
            self.memory.write(from, &data)?;
            outcome.ours().own.push((from, to - from));
            outcome.writes.push(MemWrite { addr: from, data });
            self.space.patches_mut().retire(from, to);
        }
        Ok(())
    }
}

/// Is this a text that is to be mapped from a file with its patches?
fn is_worth_a_file(range: &TextRange, name: &[u8]) -> bool {
    let len = range.end - range.start;
    len <= TEXT_BYTES_MAX
        && range.offset + len <= range.file.len().next_multiple_of(PAGE)
        && range.file.places() >= PLACES_MIN
        // Those are escaped in lists of mappings.
        && name.starts_with(b"/")
        && !name.contains(&b'\n')
}

/// Makes a kept file of a text with all its patches. None: that cannot be.
fn keep_set(
    session: &Session,
    range: &TextRange,
    key: &SetKey,
    patched: Arc<Patched>,
) -> Option<PatchedFile> {
    let text_len = range.end - range.start;
    let trampolines_len = (patched.end - key.at).next_multiple_of(PAGE);
    let mut bytes = range.file.shown(range.offset, text_len);
    let mut put = |writes: &[MemWrite], len: u64, base: Addr, from: u64| {
        bytes.resize(usize::try_from(len).ok()?, 0);
        for write in writes {
            let at = usize::try_from(write.addr - base + from).ok()?;
            bytes.get_mut(at..at + write.data.len())?.copy_from_slice(&write.data);
        }
        Some(())
    };
    put(&patched.sites, text_len, range.start, 0)?;
    put(&patched.trampolines, text_len + trampolines_len, key.at, text_len)?;
    let said = patched.set.patches().iter().filter_map(|patch| patch.said.clone()).collect();
    let said = ours::PatchSet { patches: said, faults: patched.faults.clone() };
    bytes.extend(codec::write_set(&said).ok()?);
    let files = session.writer.files();
    let failed = |error: &_| tracing::info!(%error, "a patched text is not kept");
    let kept = files.keep_bytes_for_all(&bytes).inspect_err(failed).ok()?.file;
    let ((_, file), path) = (files.content(kept)?, files.path(kept)?);
    Some(PatchedFile { patched, kept, file, path, text_len, trampolines_len })
}
