//! A place in the middle of a task's computation: what identifies it, and a breakpoint to find it again.
//!
//! Between two instructions, a task's state is its registers and its memory. Its registers and a well-chosen
//! part of its memory say where it is, unless it has been in exactly that state before; and then, all that it
//! works with being the same, it does the same from there.

use std::ops::Range;

use bis_rewrite::{Conditional, Span};
use bis_trace::{
    event::{MemWrite, RangeSum},
    types::{Addr, PAGE, RED_ZONE, Tid},
};
use xxhash_rust::xxh3::xxh3_64;

use crate::{error::Result, maps::Mapping, memory::Glance, remote::Remote, sys, task::Stopped, xsave};

const WORD: usize = 8;

/// How much of what a task has left behind below its stack's end a place is known by, bytes: it tells apart
/// rounds of a loop that waits, and shows again where a later function does not write all of its frame.
pub const LEFT_LEN: u64 = 4096;

/// Is this piece of memory one of those that were left behind below a stack that ends at `sp`?
pub fn is_left(piece: &MemWrite, sp: Addr) -> bool {
    let end = piece.addr.saturating_add(piece.data.len() as u64);
    sp.saturating_sub(LEFT_LEN) <= piece.addr && end <= sp.saturating_sub(RED_ZONE)
}

/// The sums of what these ranges (address, length) hold now; what cannot be read is left out.
pub fn look(glance: Glance<'_>, ranges: &[(Addr, u64)]) -> Vec<RangeSum> {
    let sum = |&(addr, len): &(Addr, u64)| {
        let data = glance.read_upto(addr, usize::try_from(len).unwrap_or(0));
        let len = data.len() as u64;
        (len > 0).then(|| RangeSum { addr, len, sum: xxh3_64(&data), is_stack: false })
    };
    ranges.iter().filter_map(sum).collect()
}

/// A range that does not hold what it held when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Other {
    pub range: RangeSum,
    /// The sum of what can be read there now.
    pub now: u64,
}

/// The first of these ranges that does not hold what it held. `read`: as much as can be read of memory.
pub fn first_other(read: impl Fn(Addr, usize) -> Vec<u8>, seen: &[RangeSum]) -> Option<Other> {
    /// More than [`look`] is ever asked for: a trace may say anything.
    const LEN_MAX: u64 = 1 << 20;
    seen.iter().copied().find_map(|range| {
        let data = read(range.addr, usize::try_from(range.len.min(LEN_MAX)).unwrap_or(0));
        let now = xxh3_64(&data);
        (data.len() as u64 != range.len || now != range.sum).then_some(Other { range, now })
    })
}

/// What of these ranges (address, length) can be read, where it is at least eight bytes: less cannot be a
/// condition.
pub fn read(glance: Glance<'_>, ranges: &[(Addr, u64)]) -> Vec<MemWrite> {
    let read = |&(addr, len): &(Addr, u64)| {
        let data = glance.read_upto(addr, usize::try_from(len).unwrap_or(0));
        (data.len() >= WORD).then_some(MemWrite { addr, data })
    };
    ranges.iter().filter_map(read).collect()
}

/// These, without what lies in one of the areas; pieces of less than eight bytes cannot be a condition and
/// are left out.
pub fn leave_out(held: Vec<MemWrite>, areas: &[Range<Addr>]) -> Vec<MemWrite> {
    let piece = |(held, addr, len): (&MemWrite, Addr, u64)| {
        let from = usize::try_from(addr - held.addr).ok()?;
        let data = held.data.get(from..)?.get(..usize::try_from(len).ok()?)?;
        (data.len() >= WORD).then(|| MemWrite { addr, data: data.to_vec() })
    };
    let pieces = |held: MemWrite| -> Vec<MemWrite> {
        let left = xsave::leave_out(vec![(held.addr, held.data.len() as u64)], areas);
        left.into_iter().filter_map(|(addr, len)| piece((&held, addr, len))).collect()
    };
    held.into_iter().flat_map(pieces).collect()
}

/// The first eight bytes of these that memory does not hold, with where they are and what should be there.
/// None: it holds all of these bytes. `read`: as much as can be read of memory.
///
/// What an `xsavec` has left of MXCSR says nothing ([`xsave`]): it is written or not, and where the rest of
/// the area was overwritten since, nothing else tells that there was one.
pub fn first_difference<'a>(
    read: impl Fn(Addr, usize) -> Vec<u8>,
    held: impl IntoIterator<Item = &'a MemWrite>,
) -> Option<(Addr, u64)> {
    held.into_iter().find_map(|wanted| {
        let found = read(wanted.addr, wanted.data.len());
        if found == wanted.data {
            return None;
        }
        let word = |bytes: &[u8], at: usize| {
            let bytes = bytes.get(at..at + WORD)?;
            Some(u64::from_le_bytes(std::array::from_fn(|i| bytes[i])))
        };
        let is_left = |at: usize| {
            let is_mxcsr = |bytes: &[u8]| {
                word(bytes, at).is_some_and(|word| xsave::is_mxcsr((wanted.addr + at as u64).0, word))
            };
            is_mxcsr(&wanted.data) || found.len() >= at + WORD && is_mxcsr(&found)
        };
        // The last eight bytes may overlap those before.
        let last = wanted.data.len().saturating_sub(WORD);
        let mut places = (0..wanted.data.len()).step_by(WORD).map(|at| at.min(last));
        let at = places.find(|at| {
            let range = *at..(at + WORD).min(wanted.data.len());
            found.get(range.clone()) != wanted.data.get(range) && !is_left(*at)
        })?;
        Some((wanted.addr + at as u64, word(&wanted.data, at).unwrap_or_default()))
    })
}

/// The x87 and vector registers, out of the extended state as [`Stopped::xstate`] gives it: every offset is
/// as there (Intel SDM volume 1, 13.4), zeros stand for what says nothing about the program, and zeros at the
/// end are left out. What says where the last x87 instruction was is left out too: processors forget it at
/// times.
pub fn extended(xstate: &[u8]) -> Vec<u8> {
    /// Control, status and tags of the x87; MXCSR; x87 and SSE registers; AVX and AVX-512.
    const KEPT: [Range<usize>; 4] = [0..5, 24..28, 32..416, 576..Conditional::EXTENDED_MAX as usize];
    let mut kept = vec![0; xstate.len().min(usize::from(Conditional::EXTENDED_MAX))];
    for range in KEPT {
        let range = range.start.min(kept.len())..range.end.min(kept.len());
        kept[range.clone()].copy_from_slice(&xstate[range]);
    }
    let len = kept.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    kept.truncate(len);
    kept
}

/// Eight bytes of the x87 and vector registers that are not what they should be: their offset, and what they
/// should be; only such as a condition can look at. Both as [`extended`] gives them. `loose`: without those
/// that may be what an `xsavec` has left in memory, and a copy of too much has brought into a register (the
/// mask of the components that it found in use).
pub fn extended_difference(found: &[u8], wanted: &[u8], loose: bool) -> Option<(u16, u64)> {
    let is_left =
        |at: usize| loose && [found, wanted].iter().all(|bytes| xsave::is_mask(0, word_at(bytes, at)));
    let offsets = (32..416).chain(576..found.len().max(wanted.len())).step_by(8);
    let at = offsets.into_iter().find(|at| word_at(found, *at) != word_at(wanted, *at) && !is_left(*at))?;
    Some((u16::try_from(at).ok()?, word_at(wanted, at)))
}

/// Are these x87 and vector registers, as [`extended`] gives them, the same? `loose`: as for
/// [`extended_difference`].
pub fn is_same_extended(found: &[u8], wanted: &[u8], loose: bool) -> bool {
    let begin = |bytes: &[u8]| std::array::from_fn::<u8, 32, _>(|i| bytes.get(i).copied().unwrap_or(0));
    found == wanted
        || loose && begin(found) == begin(wanted) && extended_difference(found, wanted, true).is_none()
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes.get(at + i).copied().unwrap_or(0)))
}

/// Pages for the code of a breakpoint with a condition, which may begin anywhere in the first; one more is
/// for its data.
pub const CODE_PAGES: u64 = 2;

/// Maps what [`room`] has found, in the task: [`CODE_PAGES`] for code, and behind them a page for data.
/// `what` is for the error's text.
///
/// # Errors
/// Where something is mapped there, or the task was killed.
pub fn map_room(remote: &mut Remote<'_>, pages: Addr, what: &'static str) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let number = |value: i32| u64::from(value.cast_unsigned());
    let (code, data) = (CODE_PAGES * PAGE, pages + CODE_PAGES * PAGE);
    let (executable, writable) = (libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE);
    for (at, len, prot) in [(pages, code, executable), (data, PAGE, writable)] {
        let args = [at.0, len, number(prot), number(flags), u64::MAX, 0];
        remote.must(what, libc::SYS_mmap, args)?;
    }
    Ok(())
}

/// Where a jump in the span's place may lead, so that there is room for code and data between these mappings.
/// With `sure`, nothing leads into the span's middle.
pub fn room(mappings: &[Mapping], span: &Span, sure: bool) -> Option<Addr> {
    room_beside(mappings, &[], span, sure)
}

/// As [`room`], in none of the ranges that are `taken` besides.
pub fn room_beside(mappings: &[Mapping], taken: &[Range<Addr>], span: &Span, sure: bool) -> Option<Addr> {
    let is_free = |at: &Addr| {
        let start = at.page_floor();
        let end = start + (CODE_PAGES + 1) * PAGE;
        // Not the lowest pages, which nobody may map, nor the highest part, where the stack may have to grow.
        let next = mappings.partition_point(|m| m.end <= start);
        (0x1_0000..0x7fff_f7f0_0000).contains(&start.0)
            && mappings.get(next).is_none_or(|m| end <= m.start)
            && !taken.iter().any(|range| start < range.end && range.start < end)
    };
    span.places(sure).map(Addr).find(is_free)
}

/// How many breakpoints a task can have.
pub const BREAKPOINTS: usize = 4;

/// The task stops before it executes the instruction at `addr`, until [`clear_breakpoint`]: a debug register,
/// so the text stays as it is. Other tasks of the address space are not concerned.
///
/// # Errors
/// Where the task was killed, or the kernel gives no debug register.
pub fn set_breakpoint(stopped: &Stopped, addr: Addr) -> Result<()> {
    sys::set_debug_register(stopped.tid(), 7, 0)?;
    sys::set_debug_register(stopped.tid(), 0, addr.0)?;
    // Local enable of register 0; its type and length bits are zero: execution (Intel SDM volume 3, 18.2.4).
    sys::set_debug_register(stopped.tid(), 7, 1)
}

/// The task stops before it executes any of the instructions at these addresses (the first four count), like
/// [`set_breakpoint`].
///
/// # Errors
/// Where the task was killed, or the kernel gives no debug register.
pub fn set_breakpoints(stopped: &Stopped, addrs: &[Addr]) -> Result<()> {
    let tid = stopped.tid();
    sys::set_debug_register(tid, 7, 0)?;
    let mut enabled = 0;
    for (register, addr) in (0..BREAKPOINTS).zip(addrs) {
        sys::set_debug_register(tid, register, addr.0)?;
        enabled |= 1 << (2 * register);
    }
    sys::set_debug_register(tid, 7, enabled)
}

/// The debug register of [`set_behind`], which no other function here uses for a task that has it.
const BEHIND: usize = 3;

/// The task stops at this address, too, until [`clear_behind`]: a breakpoint beside those of
/// [`set_breakpoint`] and of up to three in [`set_breakpoints`].
///
/// # Errors
/// Where the task was killed, or the kernel gives no debug register.
pub fn set_behind(stopped: &Stopped, addr: Addr) -> Result<()> {
    let tid = stopped.tid();
    sys::set_debug_register(tid, BEHIND, addr.0)?;
    sys::set_debug_register(tid, 7, sys::get_debug_register(tid, 7)? | 1 << (2 * BEHIND))
}

/// No breakpoint of [`set_behind`] any more.
///
/// # Errors
/// Where the task was killed.
pub fn clear_behind(tid: Tid) -> Result<()> {
    sys::set_debug_register(
        tid,
        7,
        sys::get_debug_register(tid, 7)? & !(0xf << (16 + 4 * BEHIND) | 3 << (2 * BEHIND)),
    )
}

/// No breakpoint any more.
///
/// # Errors
/// Where the task was killed.
pub fn clear_breakpoint(tid: Tid) -> Result<()> {
    sys::set_debug_register(tid, 7, 0)
}

/// The task stops after it reads or writes data in these bytes, until [`clear_breakpoint`], instead of at a
/// breakpoint of [`set_breakpoint`]. The processor fetches instructions from them without that. Some bytes
/// more may be watched.
///
/// # Errors
/// Where the task was killed, or the kernel gives no debug registers.
pub fn watch(stopped: &Stopped, range: &Range<Addr>) -> Result<()> {
    /// Data is read or written (Intel SDM volume 3, 18.2.4).
    const ACCESSED: u64 = 3;
    sys::set_debug_register(stopped.tid(), 7, 0)?;
    let mut control = 0;
    for (index, (addr, len)) in pieces(range).into_iter().enumerate() {
        let len = [(1, 0), (2, 1), (4, 3), (8, 2)]
            .iter()
            .find(|(bytes, _)| *bytes == len)
            .map_or(0, |(_, bits)| *bits);
        sys::set_debug_register(stopped.tid(), index, addr.0)?;
        control |= 1 << (2 * index) | (len << 2 | ACCESSED) << (16 + 4 * index);
    }
    sys::set_debug_register(stopped.tid(), 7, control)
}

/// Did a debug register cause the task's last debug exception?
///
/// # Errors
/// Where the task was killed.
pub fn is_triggered(stopped: &Stopped) -> Result<bool> {
    Ok(sys::get_debug_register(stopped.tid(), 6)? & 0xf != 0)
}

/// Takes what the kernel says of debug registers other than that of [`set_behind`]: it keeps what it has said
/// of one exception until the next. True: one of them has caused the last one.
///
/// # Errors
/// Where the task was killed.
pub fn take_trigger(stopped: &Stopped) -> Result<bool> {
    let triggered = sys::get_debug_register(stopped.tid(), 6)? & ((1 << BEHIND) - 1) != 0;
    if triggered {
        sys::set_debug_register(stopped.tid(), 6, 0)?;
    }
    Ok(triggered)
}

/// At most four pieces (address, length) that debug registers can watch, which cover these at most 24 bytes,
/// if possible without more than them.
fn pieces(range: &Range<Addr>) -> Vec<(Addr, u64)> {
    const REGISTERS: usize = 4;
    let exact = |mut at: Addr| {
        let mut pieces = Vec::new();
        while at < range.end {
            let fits = |len: &u64| at.is_multiple_of(*len) && at + len <= range.end;
            let len = [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
            pieces.push((at, len));
            at += len;
        }
        pieces
    };
    let pieces = exact(range.start);
    if pieces.len() <= REGISTERS {
        return pieces;
    }
    let first = range.start - range.start.0 % 8;
    Addr::steps(first..range.end, 8).map(|at| (at, 8)).take(REGISTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_xsavec_may_have_left_in_a_register_is_overlooked_only_where_that_is_asked_for() {
        let lane = |at: usize, value: u64| {
            let mut bytes = vec![0; 416];
            bytes[160..168].copy_from_slice(&0x7fff_f7dc_7740_u64.to_le_bytes());
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            bytes
        };
        let (mask, other, pointer) = (lane(264, 2), lane(264, 0), lane(264, 0x7fff_f7dc_7740));
        assert!(is_same_extended(&mask, &mask, false) && !is_same_extended(&mask, &other, false));
        assert!(is_same_extended(&mask, &other, true) && is_same_extended(&other[..200], &mask, true));
        assert!(!is_same_extended(&pointer, &mask, true) && !is_same_extended(&mask, &pointer, true));
        assert!(!is_same_extended(&lane(24, 2), &lane(24, 0), true), "MXCSR");
        assert_eq!(extended_difference(&mask, &other, false), Some((264, 0)));
        assert_eq!(extended_difference(&mask, &other, true), None);
        assert_eq!(extended_difference(&mask, &pointer, true), Some((264, 0x7fff_f7dc_7740)));
    }

    #[test]
    fn the_first_word_that_differs_is_found_but_for_what_xsavec_left_of_mxcsr() {
        const LEFT: u64 = 0x2_ffff_0000_1f80;
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let differ = |wanted: &[u64], found: &[u64]| {
            let held = [MemWrite { addr: Addr(0x1000), data: bytes(wanted) }];
            first_difference(|_, len| bytes(found)[..len.min(8 * found.len())].to_vec(), &held)
        };
        assert_eq!(differ(&[1, 2, 3, 4], &[1, 2, 3, 4]), None);
        assert_eq!(differ(&[1, 2, 3, 4, 5], &[1, 2, 3, 7, 6]), Some((Addr(0x1018), 4)));
        for (wanted, found) in [(LEFT, 0), (7, LEFT)] {
            assert_eq!(differ(&[1, 2, 3, wanted], &[1, 2, 3, found]), None);
            assert_eq!(differ(&[1, 2, 3, wanted, 5], &[1, 2, 3, found, 6]), Some((Addr(0x1020), 5)));
            assert_eq!(
                differ(&[1, wanted], &[1, found]),
                Some((Addr(0x1008), wanted)),
                "it is elsewhere in an area"
            );
        }
        // Memory that is not there differs.
        assert_eq!(differ(&[1, 2, 3, LEFT], &[1, 2]), Some((Addr(0x1010), 3)));
        // Less than eight bytes at the end.
        let held = [MemWrite { addr: Addr(0x1000), data: vec![1; 12] }];
        let found = |_, _| [vec![1; 11], vec![2]].concat();
        assert_eq!(first_difference(found, &held), Some((Addr(0x1004), 0x0101_0101_0101_0101)));
    }

    #[test]
    fn watched_pieces_cover_all_and_fit_the_registers() {
        for start in 0x1000..0x1008 {
            for len in 5..=24 {
                let range = Addr(start)..Addr(start + len);
                let pieces = pieces(&range);
                assert!(pieces.len() <= 4, "{range:x?}");
                let covered = |byte: u64| pieces.iter().any(|(at, len)| (at.0..at.0 + len).contains(&byte));
                assert!((range.start.0..range.end.0).all(covered), "{range:x?}: {pieces:x?}");
                assert!(pieces.iter().all(|(at, len)| at.is_multiple_of(*len)));
            }
        }
    }
}
