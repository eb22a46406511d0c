//! Where processors keep the components of the extended state in its standard form (NT_X86_XSTATE): the same
//! for x87, SSE and AVX, and then as each maker likes. A trace from one maker's processor is replayed on
//! another's by moving them.
//!
//! Intel leaves the place of its bound registers free, whether there are any or not: AVX-512 begins at 1088.
//! AMD packs: it begins at 832 (both as their processors' cpuid leaf 13 says, Intel SDM volume 1, 13.5.2;
//! AMD64 APM volume 2, 11.5.5). A trace does not say which, but the length of its states does.

use std::ops::Range;

use crate::cpu;

/// The components: AVX, and three of AVX-512 (masks, upper halves, upper registers); their lengths in bytes.
const LENGTHS: [(u32, usize); 4] = [(2, 256), (5, 64), (6, 512), (7, 1024)];

/// The components of AVX-512 in XCR0.
const AVX_512: u64 = 0xe0;

/// The legacy area and the header, which are the same everywhere.
const FIXED: usize = 576;

/// Which components are in use (XSTATE_BV), in the header.
const IN_USE: usize = 512;

/// Where AVX-512 ends where Intel's layout is used.
const END_OF_INTELS: usize = 2688;

/// A processor's layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Where each of [`LENGTHS`] lies; none: there is none.
    offsets: [Option<usize>; LENGTHS.len()],
    /// Of the whole state, bytes.
    len: usize,
}

impl Layout {
    /// This processor's. None where it does not say.
    pub fn here() -> Option<Layout> {
        let xcr0 = cpu::xcr0();
        if xcr0 == 0 {
            // No XSAVE: the legacy part is all (`sys::get_xstate`).
            return Some(Layout { offsets: [None; LENGTHS.len()], len: FIXED });
        }
        let offset = |number: u32| {
            let [_, offset, ..] = cpu::component(number);
            let is_there = xcr0 & 1 << number != 0 && offset != 0;
            is_there.then(|| usize::try_from(offset).ok()).flatten()
        };
        let [_, len, ..] = cpu::component(0);
        let len = usize::try_from(len).ok().filter(|_| xcr0 != 0)?;
        Some(Layout { offsets: LENGTHS.map(|(number, _)| offset(number)), len })
    }

    /// That of the processor on which a state of `len` bytes was recorded, with these components turned on.
    pub fn of_recorded(xcr0: u64, len: usize) -> Layout {
        let packed = [576, 832, 896, 1408];
        let spread = [576, 1088, 1152, 1664];
        let is_packed = xcr0 & AVX_512 != 0 && len < END_OF_INTELS;
        let offsets = if is_packed { packed } else { spread };
        let is_there = |(number, len_of): (u32, usize), offset: usize| {
            (xcr0 & 1 << number != 0 && offset + len_of <= len).then_some(offset)
        };
        Layout { offsets: std::array::from_fn(|i| is_there(LENGTHS[i], offsets[i])), len }
    }
}

/// From one processor's layout to another's.
#[derive(Clone, Debug)]
pub struct Moved {
    from: Layout,
    to: Layout,
}

impl Moved {
    /// None: nothing is to be done.
    pub fn between(from: Layout, to: Layout) -> Option<Moved> {
        (from != to).then_some(Moved { from, to })
    }

    /// The places of a component in both; its number.
    fn places(&self) -> impl Iterator<Item = (u32, Option<Range<usize>>, Option<Range<usize>>)> + '_ {
        let range = |offset: Option<usize>, len: usize| offset.map(|offset| offset..offset + len);
        (0..LENGTHS.len()).map(move |i| {
            let (number, len) = LENGTHS[i];
            (number, range(self.from.offsets[i], len), range(self.to.offsets[i], len))
        })
    }

    /// A whole state. None: it has something in use that the other processor has not.
    pub fn state(&self, state: &[u8]) -> Option<Vec<u8>> {
        let used = state.get(IN_USE..IN_USE + 8)?;
        let used = u64::from_le_bytes(std::array::from_fn(|i| used[i]));
        let mut moved = vec![0; self.to.len];
        moved.get_mut(..FIXED)?.copy_from_slice(state.get(..FIXED)?);
        let mut left = used & !3;
        for (number, from, to) in self.places().filter(|(number, ..)| used & 1 << number != 0) {
            moved.get_mut(to?)?.copy_from_slice(state.get(from?)?);
            left &= !(1 << number);
        }
        // What else there is says nothing to a program, but for the protection keys.
        moved.get_mut(IN_USE..IN_USE + 8)?.copy_from_slice(&(used & !left).to_le_bytes());
        Some(moved)
    }

    /// Moves what is kept of a state to know a place by ([`crate::place::extended`]): no header, and no
    /// zeros at its end.
    pub fn extended(&self, extended: &[u8]) -> Vec<u8> {
        let mut moved = extended[..extended.len().min(FIXED)].to_vec();
        for (_, from, to) in self.places() {
            let (Some(from), Some(to)) = (from, to) else { continue };
            let part = extended.get(from.start..from.end.min(extended.len())).unwrap_or_default();
            if part.iter().any(|byte| *byte != 0) {
                moved.resize(moved.len().max(to.start + part.len()), 0);
                moved[to.start..to.start + part.len()].copy_from_slice(part);
            }
        }
        let len = moved.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        moved.truncate(len);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(len: usize, used: u64, parts: &[(usize, u8, usize)]) -> Vec<u8> {
        let mut state = vec![0; len];
        state[IN_USE..IN_USE + 8].copy_from_slice(&used.to_le_bytes());
        for (at, byte, len) in parts {
            state[*at..at + len].fill(*byte);
        }
        state
    }

    #[test]
    fn a_state_is_moved_from_one_makers_layout_to_the_others() {
        let amd = Layout::of_recorded(0xe7, 2432);
        let intel = Layout::of_recorded(0xe7, 2696);
        let parts = |[avx, masks, upper, more]: [usize; 4]| {
            [(160, 1, 16), (avx, 2, 256), (masks, 3, 64), (upper, 4, 512), (more, 5, 1024)]
        };
        let (packed, spread) = (parts([576, 832, 896, 1408]), parts([576, 1088, 1152, 1664]));
        let (one, other) = (state(2432, 0xe7, &packed), state(2696, 0xe7, &spread));
        let there = Moved::between(amd.clone(), intel.clone()).unwrap();
        let back = Moved::between(intel, amd.clone()).unwrap();
        assert_eq!(there.state(&one).unwrap(), other);
        assert_eq!(back.state(&other).unwrap(), one);
        let kept = |state: &[u8]| crate::place::extended(state);
        assert_eq!(there.extended(&kept(&one)), kept(&other));
        assert_eq!(back.extended(&kept(&other)), kept(&one));
        assert!(Moved::between(amd.clone(), amd).is_none());
    }

    #[test]
    fn what_the_other_has_not_does_not_fit_where_it_is_in_use() {
        let (large, small) = (Layout::of_recorded(0xe7, 2432), Layout::of_recorded(7, 832));
        let moved = Moved::between(large, small).unwrap();
        assert_eq!(
            moved.state(&state(2432, 0x7, &[(576, 9, 256)])).unwrap(),
            state(832, 7, &[(576, 9, 256)])
        );
        assert_eq!(moved.state(&state(2432, 0x27, &[(832, 9, 64)])), None);
        assert_eq!(moved.state(&[1, 2, 3]), None);
        // Protection keys alone are left behind.
        assert_eq!(moved.state(&state(2440, 0x203, &[(2432, 9, 8)])).unwrap(), state(832, 3, &[]));
    }

    #[test]
    fn what_the_length_of_a_state_tells_is_true_of_this_processor() {
        let Some(here) = Layout::here() else { return };
        let again = Layout::of_recorded(cpu::xcr0(), here.len);
        assert_eq!(here.offsets, again.offsets, "of {} (XCR0 {:#x})", cpu::brand(), cpu::xcr0());
    }
}
