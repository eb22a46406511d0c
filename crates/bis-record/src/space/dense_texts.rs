//! Which text of an address space counts, where its trampolines are, and what addresses in them mean to the
//! program. Data and lookups, like `patches.rs`; how the text comes there is in `hooks/dense.rs`.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bis_rewrite::{DenseMap, Place, SiteKind, clock_fault};
use bis_trace::types::{Addr, PAGE_LEN, prot};
use bis_tracee::maps::Mapping;

use super::patches::{ARENA_LEN, GUARDED, TextRange};
use crate::hooks::texts::{DenseFile, TextFile};

/// Trampolines of a dense text, where they are mapped.
#[derive(Clone, Debug)]
pub struct Pool {
    pub start: Addr,
    pub end: Addr,
    /// What is added to the file's own addresses.
    pub bias: u64,
    pub text: Arc<TextFile>,
    pub file: Arc<DenseFile>,
}

impl Pool {
    pub fn map(&self) -> &DenseMap {
        &self.file.entry.map
    }

    /// Where a task goes on that is to go on at `addr`, if that has given way.
    pub fn enter(&self, addr: Addr) -> Option<Addr> {
        self.map().enter(self.bias, addr.0).map(Addr)
    }
}

/// Where arenas would lie in its place.
pub fn chunks(pool: &Pool) -> impl Iterator<Item = Addr> + use<> {
    Addr::steps(pool.start..pool.end, ARENA_LEN as usize)
}

/// What counts in an address space.
#[derive(Clone, Debug, Default)]
pub struct DenseTexts {
    /// Text that is mapped from here on is to count.
    pub is_on: bool,
    /// How often the text has stopped to count.
    pub returns: u32,
    pub pools: Vec<Pool>,
    /// Ranges of text that count, with the number of their pool.
    pub texts: Vec<(Addr, Addr, usize)>,
    /// What `/proc/PID/maps` said of a text behind its addresses, with those.
    pub lines: Vec<(Range<Addr>, Vec<u8>)>,
}

impl DenseTexts {
    fn pool_at(&self, rip: Addr) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.start <= rip && rip < pool.end)
    }

    /// Is this address in trampolines of dense text?
    pub fn is_trampoline(&self, rip: Addr) -> bool {
        self.pool_at(rip).is_some()
    }

    /// What it means to stand there; none outside of the trampolines.
    pub fn place(&self, rip: Addr) -> Option<Place> {
        let pool = self.pool_at(rip)?;
        pool.map().place(pool.bias, rip.0)
    }

    /// Where a task goes on that is to go on at `rip`, if that has given way.
    pub fn enter(&self, rip: Addr) -> Option<Addr> {
        let (_, _, pool) = self.texts.iter().find(|(start, end, _)| *start <= rip && rip < *end)?;
        self.pools[*pool].enter(rip)
    }

    /// The instruction that the program has where a trampoline has a fault in its place.
    pub fn fault_at(&self, rip: Addr) -> Option<SiteKind> {
        let pool = self.pool_at(rip)?;
        let site = pool.map().original(pool.bias, rip.0)?.wrapping_sub(pool.bias);
        let sites = pool.map().sites();
        let site = sites.get(sites.binary_search_by_key(&site, |site| site.site).ok()?)?;
        (Addr(site.traced).wrapping_add(pool.bias) == rip && clock_fault(site.kind).is_some())
            .then_some(site.kind)
    }

    /// Does the site at this address lead to its hook?
    pub fn hooks(&self, site: Addr) -> bool {
        let Some((_, _, pool)) = self.texts.iter().find(|(start, end, _)| *start <= site && site < *end)
        else {
            return false;
        };
        let pool = &self.pools[*pool];
        let site = site.0.wrapping_sub(pool.bias);
        pool.map().sites().binary_search_by_key(&site, |known| known.site).is_ok()
    }

    /// Does any text of this range count?
    pub fn shows_any(&self, start: Addr, end: Addr) -> bool {
        self.texts.iter().any(|(from, to, _)| *from < end && start < *to)
    }

    /// Does all of this text count?
    pub fn is_whole(&self, range: &TextRange) -> bool {
        self.texts.iter().any(|(start, end, _)| *start <= range.start && range.end <= *end)
    }

    /// The name of the file that the program believes to be mapped there.
    pub fn path(&self, addr: Addr) -> Vec<u8> {
        let line = self.lines.iter().find(|(range, _)| range.contains(&addr));
        let name = line.and_then(|(_, line)| line.splitn(5, |byte| *byte == b' ').nth(4));
        name.unwrap_or_default().strip_suffix(b"\n").unwrap_or_default().to_vec()
    }

    /// What the program is to find in `/proc/PID/maps` instead of what is mapped.
    pub fn instead(&self) -> Vec<(Range<Addr>, Vec<u8>)> {
        let is_there = |line: &&(Range<Addr>, Vec<u8>)| self.shows_any(line.0.start, line.0.end);
        self.lines.iter().filter(is_there).cloned().collect()
    }

    /// The ranges of the trampolines.
    pub fn ranges(&self) -> impl Iterator<Item = Range<Addr>> {
        self.pools.iter().map(|pool| pool.start..pool.end)
    }

    /// The ranges of the trampolines, in pieces as long as an arena.
    pub fn chunks(&self) -> impl Iterator<Item = Addr> {
        self.pools.iter().flat_map(chunks)
    }

    /// This part of the address space shows something else now.
    pub fn forget(&mut self, start: Addr, end: Addr) {
        let cut = |(from, to, pool): (Addr, Addr, usize)| {
            [(from, to.min(start), pool), (from.max(end), to, pool)]
                .into_iter()
                .filter(|(from, to, _)| from < to)
        };
        self.texts = std::mem::take(&mut self.texts).into_iter().flat_map(cut).collect();
    }
}

/// Which parts of the original files the dense files of a recording show in place of, by their names.
#[derive(Debug, Default)]
pub struct Originals(Mutex<HashMap<OsString, Vec<Original>>>);

#[derive(Debug)]
struct Original {
    /// Offsets in the dense file.
    part: Range<u64>,
    /// The mapping in whose place the part was mapped last, as the program believes it, and where in the
    /// original file the part begins.
    shown: Mapping,
    offset: u64,
}

impl Originals {
    /// This part of a dense file has been mapped in place of its original.
    pub fn set(&self, dense: &Path, part: Range<u64>, shown: &Mapping, offset: u64) {
        let Some(name) = dense.file_name() else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = all.entry(name.to_owned()).or_default();
        parts.retain(|known| known.part != part);
        parts.push(Original { part, shown: shown.clone(), offset });
    }

    /// What `/proc/PID/maps` would say behind the addresses of what a dense file with this path shows, from
    /// this offset on. None as well of its trampolines.
    pub fn line_of(&self, path: &[u8], offset: u64) -> Option<Vec<u8>> {
        let name = Path::new(OsStr::from_bytes(path)).file_name()?;
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(name)?.iter().rev().find(|known| known.part.contains(&offset))?;
        Some(line_of(&known.shown, known.offset + (offset - known.part.start)))
    }
}

/// What `/proc/PID/maps` says behind the addresses of text that is mapped as here, from this offset on.
pub fn line_of(shown: &Mapping, offset: u64) -> Vec<u8> {
    let (major, minor) = shown.device;
    let line = format!("r-xp {offset:08x} {major:02x}:{minor:02x} {} ", shown.inode);
    [line.as_bytes(), &shown.name, b"\n"].concat()
}

/// The mapping that shows this text, as it was before some of its pages became guards; none if it is not what
/// the program has mapped.
pub fn shown_text(mappings: &[Mapping], text: Range<Addr>, guards: &BTreeSet<Addr>) -> Option<Mapping> {
    let end = text.end.page_ceil();
    let is_guarded = |m: &Mapping| {
        let (from, to) = (m.start.max(text.start), m.end.min(end));
        m.prot == GUARDED && Addr::steps(from.page_floor()..to, PAGE_LEN).all(|page| guards.contains(&page))
    };
    let mut whole: Option<Mapping> = None;
    for piece in mappings.iter().filter(|m| m.start < end && text.start < m.end) {
        if piece.shared || piece.inode == 0 || piece.prot != prot::READ_EXEC && !is_guarded(piece) {
            return None;
        }
        // A guard may have become one with what is beside the text.
        let mut piece = piece.clone();
        if piece.prot != prot::READ_EXEC {
            let from = piece.start.max(text.start.page_floor());
            piece.offset += from - piece.start;
            (piece.start, piece.end) = (from, piece.end.min(end));
            piece.prot = prot::READ_EXEC;
        }
        whole = Some(match whole {
            None => piece,
            Some(before) if before.end == piece.start && before.inode == piece.inode => {
                Mapping { end: piece.end, ..before }
            }
            Some(_) => return None,
        });
    }
    whole.filter(|whole| whole.start <= text.start && text.end <= whole.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, prot: u32) -> Mapping {
        let (shared, offset, device) = (false, start - 0x1000, (8, 1));
        Mapping {
            start: Addr(start),
            end: Addr(end),
            prot,
            shared,
            offset,
            device,
            inode: 7,
            name: b"/bin/x".to_vec(),
        }
    }

    #[test]
    fn guards_are_part_of_a_text() {
        let (text, whole) = (Addr::range(0x4000..0x9000), mapping(0x4000, 0x9000, prot::READ_EXEC));
        let shown = |mappings: &[Mapping], guards: &[u64]| {
            shown_text(mappings, text.clone(), &guards.iter().copied().map(Addr).collect())
        };
        assert_eq!(shown(std::slice::from_ref(&whole), &[]), Some(whole.clone()));
        // In the middle, at the begin, and at the end, where it has become one with data behind it.
        let middle = [mapping(0x4000, 0x6000, prot::READ_EXEC), mapping(0x6000, 0x7000, GUARDED)];
        let middle = [&middle[..], &[mapping(0x7000, 0x9000, prot::READ_EXEC)]].concat();
        assert_eq!(shown(&middle, &[0x6000]), Some(whole.clone()));
        let ends = [mapping(0x2000, 0x5000, GUARDED), mapping(0x5000, 0x7000, prot::READ_EXEC)];
        let ends = [&ends[..], &[mapping(0x7000, 0xc000, GUARDED)]].concat();
        assert_eq!(shown(&ends, &[0x4000, 0x7000, 0x8000]), Some(whole));
        // What nobody guards was protected by the program; a hole, another file, and memory of others are
        // none of the file's text.
        assert_eq!(shown(&middle, &[]), None);
        assert_eq!(shown(&ends, &[0x4000, 0x7000]), None);
        assert_eq!(shown(&middle[1..], &[0x6000]), None);
        assert_eq!(shown(&[middle[0].clone(), middle[2].clone()], &[0x6000]), None);
        let other = Mapping { inode: 8, ..middle[2].clone() };
        assert_eq!(shown(&[middle[0].clone(), middle[1].clone(), other], &[0x6000]), None);
        let shared = Mapping { shared: true, ..mapping(0x4000, 0x9000, prot::READ_EXEC) };
        assert_eq!(shown(&[shared], &[]), None);
        assert_eq!(shown(&[], &[]), None);
    }
}
