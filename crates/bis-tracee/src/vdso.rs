//! The vdso's functions read the clock without a system call, so nothing would record them: in a recorded
//! process each is overwritten with the system call that it stands for. The hooks may call a copy of what was
//! there.

mod narrow;

use bis_trace::types::Addr;
use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use bis_rewrite::{SiteKind, clock_bytes, clock_fault};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::{error::Result, maps::Mapping, memory::Memory};

/// Exported function and system call number. `__vdso_getrandom` has a contract of its own; it answers ENOSYS,
/// at which callers go to the system call.
const FUNCTIONS: [(&str, Option<u32>); 6] = [
    ("__vdso_clock_gettime", Some(228)),
    ("__vdso_gettimeofday", Some(96)),
    ("__vdso_time", Some(201)),
    ("__vdso_getcpu", Some(309)),
    ("__vdso_clock_getres", Some(229)),
    ("__vdso_getrandom", None),
];

fn code(nr: Option<u32>) -> Vec<u8> {
    match nr {
        // mov $nr, %eax; syscall; ret
        Some(nr) => [&[0xb8][..], &nr.to_le_bytes(), &[0x0f, 0x05, 0xc3]].concat(),
        // mov $-ENOSYS, %rax; ret
        None => [&[0x48, 0xc7, 0xc0][..], &(-libc::ENOSYS).to_le_bytes(), &[0xc3]].concat(),
    }
}

/// Where in a diverted function its `syscall` instruction is.
const SYSCALL_AT: u64 = 5;

/// The numbers of the functions of [`Vdso::clocks`], in its order.
const CLOCKS: [u32; 4] = [228, 96, 201, 309];

/// A vdso that was diverted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vdso {
    pub start: Addr,
    /// The address of each `syscall` instruction that is there now, and the call's number; each is followed
    /// by a `ret`, and by at least two bytes of the old function that nobody executes.
    pub sites: Vec<(Addr, u32)>,
    /// What was there before.
    image: Vec<u8>,
    /// Where the text begins in it, and ends.
    text: (u64, u64),
    /// Where clock_gettime, gettimeofday, time and getcpu are in it.
    clocks: [u64; 4],
    /// Where it holds other bytes now: address, length, and whether a function begins there.
    changed: Vec<(Addr, u64, bool)>,
}

/// A copy of a vdso's text that can be called as C functions are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockText {
    pub bytes: Vec<u8>,
    /// The addresses of clock_gettime, gettimeofday, time and getcpu; what they return instead of making a
    /// system call ends in [`bis_rewrite::FALLBACK`].
    pub clocks: [u64; 4],
}

impl Vdso {
    /// Where it is.
    pub fn range(&self) -> Range<Addr> {
        self.start..self.start + self.image.len() as u64
    }

    /// What was overwritten: each address with the bytes that were there, and whether a function begins there
    /// that was diverted. Else it is in the rest of one, where nobody comes. In the order in which it was
    /// done.
    pub fn changed(&self) -> impl Iterator<Item = (Addr, &[u8], bool)> {
        self.changed.iter().filter_map(|(addr, len, is_function)| {
            let from = usize::try_from(addr - self.start).ok()?;
            Some((*addr, self.image.get(from..from + usize::try_from(*len).ok()?)?, *is_function))
        })
    }

    /// The kernel's own text, to lie at `at`, within 2 GiB of the vdso: it reads the pages beside the vdso
    /// from there. None if it cannot be moved for sure.
    pub fn copy_for(&self, at: Addr) -> Option<ClockText> {
        // Process after process has the same vdso, and its copy at the same place.
        static LAST: Mutex<Option<(Vdso, Addr, Option<ClockText>)>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, copy)) = last.as_ref().filter(|(vdso, place, _)| vdso == self && *place == at) {
            return copy.clone();
        }
        let copy = self.make_copy_for(at);
        *last = Some((self.clone(), at, copy.clone()));
        copy
    }

    fn make_copy_for(&self, at: Addr) -> Option<ClockText> {
        let (from, to) = self.text;
        let part = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
        let Range { start, end } = self.range();
        let text = self.image.get(part.clone())?;
        let moved = bis_rewrite::moved(text, (start + from).0, start.0..end.0, at.0)?;
        if self.clocks.contains(&0) {
            return None;
        }
        let mut bytes = self.image.clone();
        bytes[part].copy_from_slice(&moved);
        Some(ClockText { bytes, clocks: self.clocks.map(|clock| at.0 + clock) })
    }
}

/// The vdso among `mappings`, if there is one.
pub fn find(mappings: &[Mapping]) -> Option<&Mapping> {
    mappings.iter().find(|mapping| mapping.name == b"[vdso]")
}

/// Overwrites the functions of the vdso among `mappings`, if there is one, and whatever else reads the time
/// stamp counter there.
///
/// # Errors
/// Where its memory cannot be read or written.
pub fn divert(mappings: &[Mapping], memory: &Memory) -> Result<Option<Vdso>> {
    let Some(vdso) = find(mappings) else { return Ok(None) };
    let image = memory.read_vec(vdso.start, usize::try_from(vdso.len()).unwrap_or(0))?;
    let Ok(file) = object::File::parse(&*image) else { return Ok(None) };
    if !file.is_64() {
        return narrow::divert(vdso.start, &image, &file, memory).map(Some);
    }
    let (mut sites, mut clocks, mut changed) = (Vec::new(), [0; CLOCKS.len()], Vec::new());
    // Each process that begins has this done to it: it is one write.
    let mut now = image.clone();
    let put = |at: u64, bytes: &[u8], now: &mut [u8]| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let end = at.saturating_add(bytes.len());
        // A symbol that lies elsewhere is none of a function.
        now.get_mut(at..end).map(|place| place.copy_from_slice(bytes)).is_some()
    };
    for symbol in file.dynamic_symbols() {
        let known = FUNCTIONS.iter().find(|(name, _)| symbol.name() == Ok(name));
        if let Some((_, nr)) = known {
            // The image is linked at 0.
            let start = vdso.start + symbol.address();
            let code = code(*nr);
            if !put(symbol.address(), &code, &mut now) {
                continue;
            }
            let change = (start, code.len() as u64, true);
            if !changed.contains(&change) {
                changed.push(change);
            }
            let Some(nr) = *nr else { continue };
            let site = (start + SYSCALL_AT, nr);
            if symbol.size() >= SYSCALL_AT + 5 && !sites.contains(&site) {
                sites.push(site);
            }
            if let Some(place) = CLOCKS.iter().position(|clock| *clock == nr) {
                clocks[place] = symbol.address();
            }
        }
    }
    let text = file.section_by_name(".text").map_or((0, 0), |s| (s.address(), s.address() + s.size()));
    // Nobody executes the rest of the functions; if somebody does, it is a fault.
    for at in clock_bytes(&now) {
        let kind = if now[at + 1] == 0x31 { SiteKind::Rdtsc } else { SiteKind::Rdtscp };
        let (addr, fault) = (vdso.start + at as u64, clock_fault(kind).unwrap_or_default());
        put(at as u64, fault, &mut now);
        changed.push((addr, fault.len() as u64, false));
    }
    let from = changed.iter().map(|(addr, ..)| *addr).min().unwrap_or(vdso.start);
    let to = changed.iter().map(|(addr, len, _)| addr + len).max().unwrap_or(from);
    let part = |addr: Addr| usize::try_from(addr - vdso.start).unwrap_or(0);
    memory.write(from, &now[part(from)..part(to)])?;
    Ok(Some(Vdso { start: vdso.start, sites, image, text, clocks, changed }))
}
