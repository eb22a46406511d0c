//! What `xsavec` has left in a task's memory.
//!
//! The dynamic linker saves the vector registers on the stack before it looks for a function, and so do other
//! runtimes. With `xsavec` only those components are written that the processor thinks are in use; of the
//! others, their place keeps what was there before, and a mask in the area's header says which are which
//! (Intel SDM volume 1, 13.10). Whether a component counts as in use depends on when the kernel last saved
//! and loaded it, so the area is not the same in replay. The program loads it back and cannot tell; whoever
//! compares memory can.

use bis_trace::types::Addr;
use std::ops::Range;

use crate::{Memory, cpu, error::Result, sys};

/// The legacy area, and the header behind it; an area begins at a multiple of `ALIGN`.
const LEGACY_LEN: usize = 512;
const HEADER_LEN: usize = 64;
const ALIGN: u64 = 64;

/// XCOMP_BV's mark of an area that `xsavec` (or `xsaves`) has written.
const COMPACTED: u64 = 1 << 63;

/// The components with a place in the legacy area.
const LEGACY: u64 = 3;

/// The areas of `xsavec` in this much memory from `start` on, in bytes: those whose header lies there.
#[must_use]
pub fn areas(memory: &Memory, start: Addr, len: usize) -> Vec<Range<Addr>> {
    let data = memory.read_upto(start, len);
    find(&data, start, cpu::xcr0(), component_len)
}

fn find(data: &[u8], start: Addr, enabled: u64, component_len: impl Fn(u32) -> u64) -> Vec<Range<Addr>> {
    let skip = usize::try_from(start.next_multiple_of(ALIGN) - start).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for (index, header) in (0u64..).zip(data.get(skip..).unwrap_or_default().chunks_exact(HEADER_LEN)) {
        // XCOMP_BV alone: the frame of a later call may lie over the rest of the header, and what is left of
        // the area is no more the same in replay for that.
        let layout = u64::from_le_bytes(std::array::from_fn(|i| header[8 + i]));
        let saved = layout & !COMPACTED;
        let is_header = layout & COMPACTED != 0 && saved != 0 && saved & !enabled == 0;
        if is_header {
            let at = start + skip as u64 + index * HEADER_LEN as u64;
            let others = (0..63).filter(|bit| saved & !LEGACY & 1 << bit != 0).map(&component_len);
            let begin = at.saturating_sub(LEGACY_LEN as u64);
            found.push(begin..at + HEADER_LEN as u64 + others.sum::<u64>());
        }
    }
    found
}

/// What an `xsavec` has left out of an area, which its hook would fill in (`hooks/saved.c` of the agent):
/// what those components have initially, by their offsets in the area, and the mask that the header has then.
/// `used`, `saved`: the masks that it has now. What lies behind a component of which `component` knows
/// nothing cannot be told, and stays as it is.
fn initial(
    used: u64,
    saved: u64,
    mxcsr_mask: u32,
    component: impl Fn(u32) -> [u32; 4],
) -> (Vec<(usize, Vec<u8>)>, u64) {
    const CONTROL: [u8; 2] = 0x37f_u16.to_le_bytes();
    let is_missing = |bit: u32| saved & !used & 1 << bit != 0;
    let (mut pieces, mut mask) = (Vec::new(), used | saved & LEGACY);
    if is_missing(0) {
        pieces.push((0, [&CONTROL[..], &[0; 22]].concat()));
        pieces.push((32, vec![0; 128]));
    }
    if is_missing(1) {
        pieces.push((24, [0x1f80, mxcsr_mask].map(u32::to_le_bytes).concat()));
        pieces.push((160, vec![0; 256]));
    }
    let mut at = LEGACY_LEN + HEADER_LEN;
    for bit in (2..63).filter(|bit| saved & 1 << bit != 0) {
        let [len, _, flags, _] = component(bit);
        if len == 0 {
            break;
        }
        let len = usize::try_from(len).unwrap_or(0);
        at = if flags & 2 != 0 { at.next_multiple_of(HEADER_LEN) } else { at };
        if is_missing(bit) {
            pieces.push((at, vec![0; len]));
        }
        at += len;
        mask |= 1 << bit;
    }
    (pieces, mask)
}

/// Does by hand what the hook behind an `xsavec` does with the area that this has written, however far the
/// hook has come. `xstate`: the extended state of the task (NT_X86_XSTATE).
///
/// # Errors
/// Where the area is not there.
pub fn fill_in(memory: &Memory, area: Addr, xstate: &[u8]) -> Result<()> {
    let header = area + LEGACY_LEN as u64;
    let (used, layout) = (memory.read_u64(header)?, memory.read_u64(header + 8)?);
    let mxcsr_mask =
        xstate.get(28..).and_then(|rest| rest.first_chunk()).map_or(0, |it| u32::from_le_bytes(*it));
    let (pieces, mask) = initial(used, layout & !COMPACTED, mxcsr_mask, cpu::component);
    for (at, data) in pieces {
        memory.write(area + at as u64, &data)?;
    }
    memory.write(header, &mask.to_le_bytes())
}

/// Does by hand what the hook behind an `fnstenv` or `fnsave` does with the environment that this has
/// written: where the last x87 instruction was and what it worked with is lost, unless an exception is
/// pending.
///
/// # Errors
/// Where the environment is not there.
pub fn take_place_out(memory: &Memory, environment: Addr) -> Result<()> {
    const STATUS: u64 = 4;
    const IS_PENDING: u32 = 1 << 7;
    /// Of the 28 bytes, and without the last two, which are always ones.
    const PLACE: u64 = 12;
    const PLACE_LEN: usize = 14;
    if memory.read_u32(environment + STATUS)? & IS_PENDING != 0 {
        return Ok(());
    }
    memory.write(environment + PLACE, &[0; PLACE_LEN])
}

/// May this word of a stack be what is left of an area of which another frame covers the rest: the mask of
/// the components that were in use (XSTATE_BV)? So may small numbers be that the program needs.
#[must_use]
pub fn is_mask(addr: u64, word: u64) -> bool {
    addr.is_multiple_of(ALIGN) && word <= MASK_MAX
}

/// So many words are from one that may be a mask to the next.
pub const WORDS_APART: usize = ALIGN as usize / 8;

/// All components that `xsavec` keeps on stacks.
const MASK_MAX: u64 = 0xff;

/// The words in this much of a stack from `start` on, in bytes, that are masks ([`is_mask`]) of something.
#[must_use]
pub fn masks(memory: &Memory, start: Addr, len: usize) -> Vec<Range<Addr>> {
    let first = start.next_multiple_of(ALIGN);
    let skip = usize::try_from(first - start).unwrap_or(usize::MAX);
    let data = memory.read_upto(start, len);
    let words = data.get(skip..).unwrap_or_default().chunks_exact(HEADER_LEN);
    let word = |piece: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| piece[i]));
    let masks = first.and_behind(HEADER_LEN).zip(words.map(word));
    masks.filter(|(at, word)| *word != 0 && is_mask(at.0, *word)).map(|(at, _)| at..at + 8).collect()
}

/// How much room a component has in an area, in bytes, with what may be left for its alignment.
fn component_len(bit: u32) -> u64 {
    u64::from(sys::cpuid(13, bit)[0]).next_multiple_of(ALIGN)
}

/// Is this word what is left of an area: MXCSR, and behind it the mask of the bits that it may have? It lies
/// 24 bytes behind the area's begin.
#[must_use]
pub fn is_mxcsr(addr: u64, word: u64) -> bool {
    const OFFSET: u64 = 24;
    // With denormals-are-zeros (bit 6) or without, and of AMD's processors with bit 17 (misaligned accesses).
    const MASKS: [u64; 3] = [0xffbf, 0xffff, 0x2_ffff];
    addr % ALIGN == OFFSET && MASKS.contains(&(word >> 32)) && word & 0xffff_0000 == 0
}

/// These ranges (address, length), without what lies in one of the areas, and without those that are empty.
#[must_use]
pub fn leave_out(mut ranges: Vec<(Addr, u64)>, areas: &[Range<Addr>]) -> Vec<(Addr, u64)> {
    ranges.retain(|(_, len)| *len > 0);
    for area in areas {
        let parts = |(addr, len): (Addr, u64)| {
            let end = addr.saturating_add(len);
            [addr..end.min(area.start), addr.max(area.end)..end]
        };
        let parts = ranges.into_iter().flat_map(parts).filter(|part| part.start < part.end);
        ranges = parts.map(|part| (part.start, part.end - part.start)).collect();
    }
    ranges
}

/// The whole pages that these areas lie in: checksums are of whole pages.
#[must_use]
pub fn pages(areas: &[Range<Addr>]) -> Vec<Range<Addr>> {
    let page = |area: &Range<Addr>| area.start.page_floor()..area.end.page_ceil();
    areas.iter().map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(words: [u64; 3]) -> Vec<u8> {
        let mut data = vec![0xee; 640];
        data.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        data.extend([0; 40]);
        data.extend([0xee; 700]);
        data
    }

    fn area(start: u64, end: u64) -> Range<Addr> {
        Addr(start)..Addr(end)
    }

    #[test]
    fn an_area_is_known_by_its_header() {
        let lens = |bit| if bit == 2 { 256 } else { 1000 };
        let areas = |words| find(&header(words), Addr(0x7ff0_0000), 0b1110_0111, lens);
        let one = |words| match areas(words).as_slice() {
            [area] => (area.start, area.end - area.start),
            other => panic!("{other:?}"),
        };
        assert_eq!(one([0b10, COMPACTED | 0b111, 0]), (Addr(0x7ff0_0080), 512 + 64 + 256));
        assert_eq!(one([0, COMPACTED | 0b10, 0]), (Addr(0x7ff0_0080), 512 + 64));
        assert_eq!(
            one([0x7fff_f7e4_a89f, COMPACTED | 0b111, 1]).0,
            Addr(0x7ff0_0080),
            "written over beside it"
        );
        assert!(areas([0, COMPACTED | 0b1_0000_0000, 0]).is_empty(), "a component that there is not");
        assert!(areas([0b10, 0b111, 0]).is_empty(), "not compacted");
        assert!(areas([0b10, COMPACTED, 0]).is_empty(), "of nothing");
        assert!(find(&[], Addr(1), 7, lens).is_empty());
    }

    #[test]
    fn what_xsavec_writes_is_found() {
        if !std::arch::is_x86_feature_detected!("xsavec") {
            return;
        }
        #[repr(align(64))]
        struct Area([u8; 16384]);
        let mut area = Box::new(Area([0; 16384]));
        // SAFETY: the area is aligned and longer than all components together (AMX's, the largest, has 8
        // KiB).
        unsafe { std::arch::x86_64::_xsavec64(area.0.as_mut_ptr(), 0b111) };
        let start = Addr(area.0.as_ptr().addr() as u64);
        let found = find(&area.0, start, cpu::xcr0(), component_len);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].start, start);
    }

    #[test]
    fn masks_are_small_words_at_the_places_of_headers() {
        let stack: Vec<u64> = (0..32).map(|i| [0xa2, 7, 0x7fff_0000, 0][i / 8]).collect();
        let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let own = Memory::open(bis_trace::types::Tid(std::process::id().cast_signed())).expect("own memory");
        let start = Addr(bytes.as_ptr().addr() as u64);
        let expected: Vec<Addr> = (0..bytes.len() as u64)
            .step_by(8)
            .filter(|at| (start + at).is_multiple_of(ALIGN))
            .filter(|at| matches!(stack[usize::try_from(at / 8).unwrap()], 0xa2 | 7))
            .map(|at| start + at)
            .collect();
        assert!(!expected.is_empty() || !start.is_multiple_of(8));
        let found: Vec<Addr> = masks(&own, start, bytes.len()).iter().map(|range| range.start).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_left_of_a_range_beside_areas_pages_is_whole_pages() {
        let areas = [area(0x7f_e100, 0x7f_ea80), area(0x7f_3f80, 0x7f_4040)];
        let left = leave_out(vec![(Addr(0x7f_2000), 0xd000)], &pages(&areas));
        assert_eq!(left, [(Addr(0x7f_2000), 0x1000), (Addr(0x7f_5000), 0x9000)]);
    }

    #[test]
    fn ranges_are_cut() {
        let areas = [area(10, 20), area(30, 40)];
        assert_eq!(leave_out(vec![(Addr(0), 50)], &areas), [(Addr(0), 10), (Addr(20), 10), (Addr(40), 10)]);
        assert_eq!(
            leave_out(vec![(Addr(12), 3), (Addr(15), 10), (Addr(60), 1)], &areas),
            [(Addr(20), 5), (Addr(60), 1)]
        );
        assert_eq!(leave_out(vec![(Addr(0), 50), (Addr(70), 0)], &[]), [(Addr(0), 50)]);
    }

    #[test]
    fn what_is_filled_in_is_what_xsave_writes() {
        if !std::arch::is_x86_feature_detected!("xsavec") {
            return;
        }
        #[repr(align(64))]
        struct Area([u8; 4096]);
        let (mut packed, mut whole) = (Area([0xee; 4096]), Area([0xee; 4096]));
        packed.0[512..576].fill(0);
        whole.0[512..576].fill(0);
        // SAFETY: both areas have room for x87, SSE and AVX, and headers of zeros.
        unsafe {
            std::arch::x86_64::_xsavec64(packed.0.as_mut_ptr(), 0b111);
            std::arch::x86_64::_xsave64(whole.0.as_mut_ptr(), 0b111);
        }
        let word = |area: &Area, at: usize| u64::from_le_bytes(area.0[at..at + 8].try_into().unwrap());
        let saved = word(&packed, 520) & !COMPACTED;
        let mxcsr_mask = u32::from_le_bytes(whole.0[28..32].try_into().unwrap());
        // Whatever it has left out: as if it had been all of what it may.
        for used in [word(&packed, 512), word(&whole, 512) & 0b11] {
            let mut filled = Area(packed.0);
            let (pieces, mask) = initial(used, saved, mxcsr_mask, cpu::component);
            pieces.iter().for_each(|(at, data)| filled.0[*at..at + data.len()].copy_from_slice(data));
            assert_eq!(mask, saved);
            if used == word(&packed, 512) {
                assert_eq!(filled.0[..2], whole.0[..2]);
                assert_eq!(filled.0[24..416], whole.0[24..416]);
                assert_eq!(filled.0[576..832], whole.0[576..832]);
            }
            assert!(filled.0[832..].iter().all(|byte| *byte == 0xee));
        }
        let strange = initial(0, 0b1_0100, 0, |bit| [if bit == 2 { 256 } else { 0 }, 0, 0, 0]);
        assert_eq!(strange, (vec![(576, vec![0; 256])], 0b100));
    }
}
