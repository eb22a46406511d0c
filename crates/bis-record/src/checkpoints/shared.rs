//! Shared memory in checkpoints: what only this process maps comes back, what others map as well is theirs,
//! too, and stays.
//!
//! A fork does not copy shared memory. So a copy of what it holds is made at the checkpoint, in the shadow's
//! own memory, beside the mapping, which the shadow keeps: so the object stays, whatever the process unmaps,
//! and the way back is made through the shadow's mapping. That costs a copy of all that the memory holds, at
//! each checkpoint, whether it changes or not.
//!
//! Only memory without a name is kept: anonymous, of a memfd, of a System V segment. A file with a name in a
//! file system is found by others by that, and what files contain is not the process's state.

use std::{io, ops::Range};

use bis_trace::{
    event::{Effect, MemWrite, Outcome},
    types::{Addr, ObjectId, PAGE, PAGE_LEN, Tid, prot},
};
use bis_tracee::{maps::Mapping, pagemap::PageMap, proc, shadow::Shadow};

use super::{
    content::pieces,
    files::KeptFile,
    held::{Checkpoint, KeptShared},
    layout::{self, mappings},
};
use crate::{
    calls::is_mapped_outside,
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    session::Session,
    space::{Key, key_of_mapping},
    task::InCall,
};

/// Bytes that are copied, or compared, in one go.
const PIECE: usize = 1 << 20;

/// Is it memory, and no file that others find by its name?
fn has_no_name(mapping: &Mapping) -> bool {
    mapping.name.ends_with(b" (deleted)")
}

fn is_anonymous(mapping: &Mapping) -> bool {
    mapping.name == b"/dev/zero (deleted)"
}

fn lost(source: io::Error) -> RecordError {
    RecordError::Os { what: "look at shared memory", source }
}

impl KeptShared {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Where the copy of the byte at this address is.
    fn copied(&self, addr: Addr) -> Addr {
        self.copy.start + (addr - self.range.start)
    }

    /// Which parts of the object are in memory, as the shadow's mapping shows it (mincore(2)): all others are
    /// zeros.
    fn present(&self, shadow: &mut Shadow) -> Result<Vec<Range<Addr>>> {
        let (start, len) = (self.range.start, self.len());
        // The kernel says of pages of shared memory that are swapped out that they are not there.
        if proc::may_be_swapped() {
            return Ok(vec![self.range.clone()]);
        }
        let table = self.copy.start + len;
        if shadow.call(libc::SYS_mincore, [start.0, len, table.0, 0, 0, 0])? != 0 {
            return Ok(vec![self.range.clone()]);
        }
        let count = usize::try_from(len / PAGE).unwrap_or(0);
        let table = shadow.memory()?.read_vec(table, count)?;
        let mut found: Vec<Range<Addr>> = Vec::new();
        for (at, _) in start.and_behind(PAGE_LEN).zip(&table).filter(|(_, byte)| **byte & 1 != 0) {
            match found.last_mut() {
                Some(last) if last.end == at => last.end += PAGE,
                _ => found.push(at..at + PAGE),
            }
        }
        Ok(found)
    }

    /// Copies what the object holds. False: there is no room.
    fn fill(&self, shadow: &mut Shadow) -> Result<bool> {
        let present = self.present(shadow)?;
        let bulk = shadow.bulk()?;
        let mut data = Vec::new();
        for part in present.into_iter().flat_map(in_pieces) {
            let len = usize::try_from(part.end - part.start).unwrap_or(0);
            bulk.read_upto(part.start, len, &mut data);
            let write = MemWrite { addr: self.copied(part.start), data: std::mem::take(&mut data) };
            if bulk.write_all(std::slice::from_ref(&write)).is_err() {
                return Ok(false);
            }
            data = write.data;
        }
        Ok(true)
    }

    /// The parts in which the object may hold something, or held something then.
    fn possibly_different(&self, shadow: &mut Shadow) -> Result<Vec<Range<Addr>>> {
        let mut parts = self.present(shadow)?;
        parts.extend(self.held_then(shadow)?);
        parts.sort_by_key(|part| part.start);
        let mut joined: Vec<Range<Addr>> = Vec::new();
        for part in parts {
            match joined.last_mut() {
                Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                _ => joined.push(part),
            }
        }
        Ok(joined.into_iter().flat_map(in_pieces).collect())
    }

    /// The parts of the object that held something then.
    fn held_then(&self, shadow: &Shadow) -> Result<Vec<Range<Addr>>> {
        let mut parts = Vec::new();
        let pages = PageMap::open(shadow.pid()).map_err(lost)?;
        let end = self.copied(self.range.end);
        let back = |addr: Addr| self.range.start + (addr - self.copy.start);
        let found = |from, to| parts.push(back(from)..back(to));
        pages.each_run(self.copy.start, end, |page| page.is_there(), found).map_err(lost)?;
        Ok(parts)
    }

    /// What the object holds otherwise now, as the pieces that it held then; and whether it is shorter now.
    fn differences(&self, shadow: &mut Shadow, part: Range<Addr>) -> Result<(Vec<MemWrite>, bool)> {
        let (mut now, mut then, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        let len = usize::try_from(part.end - part.start).unwrap_or(0);
        let bulk = shadow.bulk()?;
        bulk.read_upto(part.start, len, &mut now);
        bulk.read_upto(self.copied(part.start), len, &mut then);
        pieces(part.start, &now, &then, &mut writes);
        Ok((writes, now.len() < then.len()))
    }
}

/// The shadow's mapping of an object can be written, whatever the program may do there: until this is ended,
/// or dropped.
struct Writable<'a> {
    shadow: &'a mut Shadow,
    kept: &'a KeptShared,
    is_opened: bool,
}

impl Writable<'_> {
    /// None: nothing can be stored through this mapping.
    fn begin<'a>(shadow: &'a mut Shadow, kept: &'a KeptShared) -> Result<Option<Writable<'a>>> {
        let mut writable = Writable { shadow, kept, is_opened: false };
        if kept.prot & prot::WRITE == 0 {
            if writable.protect(prot::READ | prot::WRITE)? != 0 {
                return Ok(None);
            }
            writable.is_opened = true;
        }
        Ok(Some(writable))
    }

    fn end(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_opened) {
            self.protect(self.kept.prot)?;
        }
        Ok(())
    }

    fn protect(&mut self, prot: u32) -> Result<i64> {
        let args = [self.kept.range.start.0, self.kept.len(), prot.into(), 0, 0, 0];
        Ok(self.shadow.call(libc::SYS_mprotect, args)?)
    }
}

impl Drop for Writable<'_> {
    fn drop(&mut self) {
        // Whatever led here is what is told; a shadow that was killed needs nothing.
        let _ = self.close();
    }
}

fn in_pieces(Range { start, end }: Range<Addr>) -> impl Iterator<Item = Range<Addr>> {
    Addr::steps(start..end, PIECE).map(move |at| at..end.min(at + PIECE as u64))
}

impl Domain {
    /// Maps an object again of which a part is mapped no more: anonymous memory that nobody else has, so that
    /// other memory with the same content is as good.
    pub(super) fn map_shared_again(
        &mut self,
        tid: Tid,
        parts: &[&KeptShared],
        state: &mut InCall,
        (shadow, outcome): (&Shadow, &mut Outcome),
    ) -> Result<()> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
        let flags = u64::from((libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED).cast_unsigned());
        let (addr, len) = (first.range.start, last.range.end - first.range.start);
        let prot = prot::READ | prot::WRITE;
        let mapped = self.call_for(tid, libc::SYS_mmap, [addr.0, len, prot.into(), flags, u64::MAX, 0])?;
        if mapped != addr.0.cast_signed() {
            let what = format!("cannot have its shared memory at {addr:#x} back ({mapped})");
            return Err(RecordError::Unsupported { tid, what });
        }
        self.tell_unmapped([addr.0, len, 0, 0, 0, 0], outcome)?;
        let object = self.map_new_shared(tid, (addr.0, len, prot), outcome)?;
        for kept in parts {
            for part in kept.held_then(shadow)?.into_iter().flat_map(in_pieces) {
                let len = usize::try_from(part.end - part.start).unwrap_or(0);
                let data = shadow.memory()?.read_vec(kept.copied(part.start), len)?;
                self.memory.write(part.start, &data)?;
                outcome.effects.push(Effect::WriteObject { object, offset: part.start - addr, data });
                self.recorder().spill(tid, state, outcome)?;
            }
            if kept.prot != prot {
                let args = [kept.range.start.0, kept.len(), kept.prot.into(), 0, 0, 0];
                self.call_for(tid, libc::SYS_mprotect, args)?;
                self.tell_protected(tid, args, outcome)?;
            }
        }
        Ok(())
    }
}

impl Recorder<'_> {
    /// Keeps the content of the shared memory that only this process maps, and how the files are that it has
    /// mapped. None: there is no room.
    pub(super) fn keep_shared(
        &mut self,
        tid: Tid,
        shadow: &mut Shadow,
    ) -> Result<Option<(Vec<KeptShared>, Vec<KeptFile>)>> {
        let (mut kept, mut files) = (Vec::new(), Vec::new());
        if self.space.shared().is_empty() {
            return Ok(Some((kept, files)));
        }
        let pages = PageMap::open(tid).map_err(lost)?;
        let ours = self.ours();
        let is_ours = |mapping: &Mapping| ours.iter().any(|range| range.contains(&mapping.start));
        for mapping in mappings(tid)? {
            if !mapping.shared || is_ours(&mapping) {
                continue;
            }
            if !has_no_name(&mapping) {
                files.extend(KeptFile::of(&mapping, shadow, &pages)?);
                continue;
            }
            let key = key_of_mapping(&mapping);
            if !self.maps_alone(key, shadow.pid()) {
                continue;
            }
            let (range, len) = (mapping.start..mapping.end, mapping.len());
            let room = len + (len / PAGE).next_multiple_of(PAGE);
            let prot = u64::from(prot::READ | prot::WRITE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let flags = u64::from(flags.cast_unsigned());
            let args = [0, room, prot, flags, u64::MAX, 0];
            let start = shadow.call_beside_limit(libc::SYS_mmap, args)?;
            let Ok(start) = u64::try_from(start) else { return Ok(None) };
            let (is_anonymous, copy) = (is_anonymous(&mapping), Addr(start)..Addr(start + room));
            let Mapping { prot, offset, .. } = mapping;
            let found = KeptShared { range, key, offset, prot, is_anonymous, copy };
            if !found.fill(shadow)? {
                return Ok(None);
            }
            kept.push(found);
        }
        Ok(Some((kept, files)))
    }

    /// Does no other process map this object, beside our shadows, of which `shadow` may be too new to be
    /// known? As far as the kernel tells us.
    fn maps_alone(&mut self, key: Key, shadow: Tid) -> bool {
        let registry = &self.session.registry;
        let Some(object) = registry.find(key).filter(|object| registry.is_alone(*object, self.id)) else {
            return false;
        };
        let Recorder { process, checkpoints, .. } = self;
        let shadows: Vec<Tid> =
            checkpoints.by_handle.values().map(|checkpoint| checkpoint.shadow.pid()).collect();
        let is_ours = |pid: Tid| pid == shadow || process.session.is_recorded(pid) || shadows.contains(&pid);
        let look = || !is_mapped_outside(key, is_ours);
        *checkpoints.alone.entry(object).or_insert_with(look)
    }

    /// Shared memory that only this process maps holds again what it held.
    pub(super) fn restore_shared(
        &mut self,
        tid: Tid,
        state: &mut InCall,
        checkpoint: &mut Checkpoint,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for kept in &checkpoint.shared {
            // Where it is mapped no more, there is another one in its place, which has its content.
            let Some(object) = self.session.registry.find(kept.key) else { continue };
            if !self.maps_alone(kept.key, checkpoint.shadow.pid()) {
                let at = kept.range.start;
                let what =
                    format!("another process maps the shared memory at {at:#x} by now, which stays as it is");
                remark(&self.session, format!("task {tid} went back to a checkpoint; {what}"))?;
                continue;
            }
            let Some(mut writable) = Writable::begin(&mut checkpoint.shadow, kept)? else { continue };
            let is_cut = self.restore_object(tid, state, (object, &mut writable), outcome)?;
            writable.end()?;
            if is_cut {
                let at = kept.range.start;
                let what = format!("the shared memory at {at:#x} was made shorter since, and stays so");
                remark(&self.session, format!("task {tid} went back to a checkpoint; {what}"))?;
            }
        }
        Ok(())
    }

    /// This object holds again what it held. True: it is shorter now.
    fn restore_object(
        &mut self,
        tid: Tid,
        state: &mut InCall,
        (object, writable): (ObjectId, &mut Writable<'_>),
        outcome: &mut Outcome,
    ) -> Result<bool> {
        let Writable { kept, shadow, .. } = writable;
        let mut is_cut = false;
        for part in kept.possibly_different(shadow)? {
            let (writes, is_short) = kept.differences(shadow, part)?;
            is_cut |= is_short;
            shadow.bulk()?.write_all(&writes)?;
            outcome.effects.extend(writes.into_iter().map(|MemWrite { addr, data }| {
                let offset = kept.offset + (addr - kept.range.start);
                Effect::WriteObject { object, offset, data }
            }));
            self.spill(tid, state, outcome)?;
        }
        Ok(is_cut)
    }
}

impl Crew {
    /// Says which of the files that the process had mapped were written to since.
    pub(super) fn tell_files(&self, tid: Tid, checkpoint: &mut Checkpoint) -> Result<()> {
        let descriptors = &checkpoint.descriptors;
        let is_known = |file| descriptors.are_of_written(tid, file);
        for kept in &mut checkpoint.files {
            if let Some(name) = kept.tell_written(&checkpoint.shadow, is_known)? {
                remark(
                    &self.session,
                    format!(
                        "task {tid} went back to a checkpoint; {name}, which it has mapped, was written to since, and stays as it is"
                    ),
                )?;
            }
        }
        Ok(())
    }

    /// The mappings of the process that a shadow is a copy of: without those that hold copies.
    pub(super) fn mappings_then(&self, checkpoint: &Checkpoint) -> Result<Vec<Mapping>> {
        let mappings = mappings(checkpoint.shadow.pid())?;
        let copies: Vec<Range<Addr>> = checkpoint.shared.iter().map(|kept| kept.copy.clone()).collect();
        Ok(if copies.is_empty() { mappings } else { layout::outside(&mappings, &copies) })
    }
}

fn remark(session: &Session, text: String) -> Result<()> {
    session.note(session.writer.next_seq(), text)
}

/// All parts of the object that this was a mapping of, if that can be mapped again: it is anonymous, and was
/// mapped once, from its begin.
pub(super) fn again<'a>(kept: &'a [KeptShared], mapping: &Mapping) -> Option<Vec<&'a KeptShared>> {
    let found = kept.iter().find(|kept| kept.range.contains(&mapping.start) && mapping.shared)?;
    let parts: Vec<&KeptShared> = kept.iter().filter(|other| other.key == found.key).collect();
    let follows = |one: &KeptShared, next: &KeptShared| {
        one.range.end == next.range.start && one.offset + one.len() == next.offset
    };
    let is_once = parts.first()?.offset == 0 && parts.windows(2).all(|pair| follows(pair[0], pair[1]));
    (found.is_anonymous && is_once).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: Addr, end: Addr, offset: u64, inode: u64) -> KeptShared {
        let copy = start + 0x10_0000..end + 0x10_0000;
        KeptShared { range: start..end, key: (1, inode), offset, prot: 3, is_anonymous: true, copy }
    }

    fn mapping(start: Addr, end: Addr) -> Mapping {
        let name = b"/dev/zero (deleted)".to_vec();
        Mapping { start, end, prot: 3, shared: true, offset: 0, device: (0, 1), inode: 7, name }
    }

    #[test]
    fn an_object_is_mapped_again_as_a_whole_if_it_was_mapped_once() {
        let all = [
            kept(Addr(0x1000), Addr(0x2000), 0, 7),
            kept(Addr(0x2000), Addr(0x4000), 0x1000, 7),
            kept(Addr(0x4000), Addr(0x5000), 0, 8),
        ];
        let whole = vec![&all[0], &all[1]];
        assert_eq!(again(&all, &mapping(Addr(0x3000), Addr(0x4000))), Some(whole));
        assert_eq!(again(&all, &mapping(Addr(0x4000), Addr(0x5000))), Some(vec![&all[2]]));
        assert_eq!(again(&all, &mapping(Addr(0x6000), Addr(0x7000))), None);
        // A second mapping, or one of a part.
        let twice = [kept(Addr(0x1000), Addr(0x2000), 0, 7), kept(Addr(0x5000), Addr(0x6000), 0, 7)];
        assert_eq!(again(&twice, &mapping(Addr(0x1000), Addr(0x2000))), None);
        assert_eq!(
            again(&[kept(Addr(0x1000), Addr(0x2000), 0x1000, 7)], &mapping(Addr(0x1000), Addr(0x2000))),
            None
        );
    }
}
