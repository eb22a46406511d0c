//! The making of a dense text: the file's executable segments, rewritten, and the trampolines that they lead
//! to.
//!
//! The trampolines begin with one 8-byte word for each kind of site, in the order of [`SiteKind::ALL`], with
//! its hook's address. Those words, and the words that counts use, are the only absolute addresses in all of
//! it.

use super::{DenseMap, DensePlan, count::Words, emit::Emitter, map::MapBuilder};
use crate::{
    run::{Error, SiteKind},
    trampoline::Builder,
};

/// The longest text that is rewritten, in bytes from its first address to its last.
const SPAN_MAX: u64 = 1 << 31;

/// Where everything is that a dense text needs. Addresses are those of the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DenseLayout {
    /// Where the trampolines are to lie: a multiple of the page size, within 2 GiB of all of the text.
    pub trampolines: u64,
    /// The word that is counted down: a multiple of 8 below 2 GiB. A count that takes it below zero traps.
    pub counter: u32,
    /// A word where a count that must keep the flags puts rcx: a multiple of 8 below 2 GiB. One for each
    /// address space, of which only one task runs at a time; one that is stopped inside of a count must be
    /// led out of it ([`crate::Place::Count`]) before another one runs. Memory of the program's own must not
    /// be there.
    pub save: u32,
    /// The hook of each kind of site that the options ask for.
    pub hooks: Vec<(SiteKind, u64)>,
    /// As [`crate::Hook::save`].
    pub hook_save: Option<u32>,
}

/// An executable segment of the file with counts in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The file's address of the first byte: a multiple of the page size.
    pub start: u64,
    /// The same byte's offset in the file: a multiple of the page size.
    pub offset: u64,
    /// All bytes, as the kernel maps them: whole pages. After the end of the file come zeroes.
    pub bytes: Vec<u8>,
}

/// A dense text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dense {
    /// The segments, by address.
    pub segments: Vec<Segment>,
    /// What is to lie at [`DenseLayout::trampolines`], readable and executable. Not padded to whole pages.
    pub trampolines: Vec<u8>,
    /// What addresses in the trampolines mean.
    pub map: DenseMap,
}

impl DensePlan<'_, '_> {
    /// Makes the text of a file that is loaded `bias` bytes above its own addresses.
    ///
    /// The result depends on `bias` and [`DenseLayout::trampolines`] by their difference only.
    ///
    /// # Errors
    /// If the trampolines are too far from the text or the text is too large, if a hook is missing that the
    /// options ask for, or a word is not where it must be.
    pub fn build(&self, bias: u64, layout: &DenseLayout) -> Result<Dense, Error> {
        let distance = layout.trampolines.wrapping_sub(bias);
        for word in [Some(layout.counter), Some(layout.save), layout.hook_save].into_iter().flatten() {
            if word % 8 != 0 || word > i32::MAX as u32 {
                return Err(Error::BadWord(word));
            }
        }
        let base = self.loads.0.first().map_or(0, |load| load.start);
        let end = self.loads.0.last().map_or(0, |load| load.start + load.len);
        if end - base > SPAN_MAX {
            return Err(Error::TooLarge(end - base));
        }
        let mut head = Vec::new();
        let mut slots = [0; SiteKind::ALL.len()];
        for (index, kind) in SiteKind::ALL.into_iter().enumerate() {
            let hook = layout.hooks.iter().find(|(one, _)| *one == kind);
            if hook.is_none() && self.options.hooks.has(kind) {
                return Err(Error::NoHook(kind));
            }
            slots[index] = distance.wrapping_add(head.len() as u64);
            head.extend(hook.map_or(0, |(_, address)| *address).to_le_bytes());
        }
        let mut bytes = Vec::with_capacity(head.len() + self.patches.len() * 28);
        bytes.extend(head);
        let mut emitter = Emitter {
            text: self.text,
            out: Builder { at: distance, bytes },
            words: Words { counter: layout.counter, save: layout.save },
            hook_save: layout.hook_save,
            slots,
            map: MapBuilder::new(base, distance, self.patches.len()),
        };
        let mut segments: Vec<Segment> = self.loads.0.iter().map(|load| self.original(load)).collect();
        for patch in &self.patches {
            let changed = emitter.patch(patch)?;
            let end = patch.start + u64::from(patch.len);
            let (number, load) = self.loads.find(patch.start, end).ok_or(Error::BadRun(patch.start))?;
            let at = (patch.start - load.start) as usize;
            segments[number].bytes[at..at + changed.len()].copy_from_slice(&changed);
        }
        let Emitter { out, map, .. } = emitter;
        let map = map.finish(out.bytes.len())?;
        Ok(Dense { segments, trampolines: out.bytes, map })
    }

    fn original(&self, load: &super::loads::Load) -> Segment {
        let file = self.text.file.data();
        let first = load.offset as usize;
        let mut bytes = file[first..file.len().min(first + load.len as usize)].to_vec();
        bytes.resize(load.len as usize, 0);
        Segment { start: load.start, offset: load.offset, bytes }
    }
}
