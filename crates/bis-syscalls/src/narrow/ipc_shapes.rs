//! The structures of System V IPC. Each begins with the owner and permissions: 36 bytes in the 32-bit layout,
//! 48 in the 64-bit one. Times are two words there, and one long here.

use super::layout::{Fields, Fresh, low};

/// The length of a 32-bit structure, and the 64-bit one for it.
pub(super) type Set = (u64, fn(&[u8]) -> Vec<u8>);

pub(super) const SEMAPHORES: u64 = 104;
pub(super) const QUEUE: u64 = 120;
pub(super) const SEGMENT: u64 = 112;
pub(super) const LIMITS: u64 = 72;
pub(super) const USE: u64 = 48;

/// Of the 32-bit structures.
const SEMAPHORES_NARROW: usize = 64;
const QUEUE_NARROW: usize = 88;
const SEGMENT_NARROW: usize = 84;

/// What IPC_SET reads: user, group and mode; and of a queue how many bytes it holds.
pub(super) const SEMAPHORE_SET: Set = (64, |bytes| permissions_widened(bytes, 104).0);
pub(super) const SEGMENT_SET: Set = (84, |bytes| permissions_widened(bytes, 112).0);
pub(super) const QUEUE_SET: Set = (88, |bytes| {
    let mut wide = permissions_widened(bytes, 120);
    wide.u64(88, Fields(bytes).u32(68).into());
    wide.0
});

/// Key, user, group, creator's user and group; mode (2 bytes there, 4 here); sequence number.
fn permissions_widened(bytes: &[u8], len: usize) -> Fresh {
    let mut wide = Fresh::new(len);
    wide.put(0, &bytes[..20]);
    wide.u32(20, Fields(bytes).u16(20).into());
    wide
}

fn permissions_narrowed(bytes: &[u8], len: usize) -> Fresh {
    let wide = Fields(bytes);
    let mut narrow = Fresh::new(len);
    narrow.put(0, &bytes[..20]);
    narrow.u16(20, wide.u16(20));
    narrow.u16(24, wide.u16(24));
    narrow
}

/// A time as two words, the low one first.
fn times(narrow: &mut Fresh, wide: Fields<'_>, offsets: &[(usize, usize)]) {
    for &(to, from) in offsets {
        narrow.u64(to, wide.u64(from));
    }
}

pub(super) fn semaphores(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    let mut narrow = permissions_narrowed(bytes, SEMAPHORES_NARROW);
    times(&mut narrow, wide, &[(36, 48), (44, 64)]);
    narrow.u32(52, low(wide.u64(80)));
    Ok(narrow.0)
}

pub(super) fn queue(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    let mut narrow = permissions_narrowed(bytes, QUEUE_NARROW);
    times(&mut narrow, wide, &[(36, 48), (44, 56), (52, 64)]);
    for (to, from) in [(60, 72), (64, 80), (68, 88)] {
        narrow.u32(to, low(wide.u64(from)));
    }
    narrow.put(72, &bytes[96..104]);
    Ok(narrow.0)
}

pub(super) fn segment(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    let mut narrow = permissions_narrowed(bytes, SEGMENT_NARROW);
    narrow.u32(36, low(wide.u64(48)));
    times(&mut narrow, wide, &[(40, 56), (48, 64), (56, 72)]);
    narrow.put(64, &bytes[80..88]);
    narrow.u32(72, low(wide.u64(88)));
    Ok(narrow.0)
}

/// Five longs and four that are not used. The largest segment is told as what an `int` holds.
pub(super) fn limits(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    const INT_MAX: u64 = 0x7fff_ffff;
    let wide = Fields(bytes);
    let mut narrow = Fresh::new(36);
    narrow.u32(0, low(wide.u64(0).min(INT_MAX)));
    for word in 1..9 {
        narrow.u32(4 * word, low(wide.u64(8 * word)));
    }
    Ok(narrow.0)
}

/// An `int` and five longs.
pub(super) fn usage(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    let mut narrow = Fresh::new(24);
    for word in 0..6 {
        narrow.u32(4 * word, low(wide.u64(8 * word)));
    }
    Ok(narrow.0)
}
