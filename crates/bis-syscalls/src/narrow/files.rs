//! Files: what is known about them, and offsets, which a 32-bit call has in two registers.

use super::layout::{Fields, Fresh, joined, low, low16};
use super::room::{Made, Maker, When, fails, made};
use crate::errno::{EINVAL, EOVERFLOW};

/// The size of the x86-64 `struct stat`.
const STAT: u64 = 144;
/// The size of the x86-64 `struct statfs`.
const STATFS: u64 = 120;
/// The size of the packed 32-bit `struct statfs64`, which its callers must give.
const STATFS64_NARROW: u32 = 84;

/// `stat` and its kind, which fill the oldest structure.
pub(super) fn stat(m: &mut Maker<'_>, nr: u64) -> Made {
    made(nr, [m.arg(0), m.out(m.raw(1), STAT, stat32)?])
}

/// `stat64` and its kind: the structure goes to argument `i`. The kernel leaves its padding alone.
pub(super) fn stat64(m: &mut Maker<'_>, nr: u64, i: usize) -> Made {
    let mut call = m.plain(nr);
    call.args[i] = m.space(STAT)?;
    m.back(
        When::Success,
        |after, [from, to, ..]| {
            let bytes = stat64_shape(&after.bytes(from, STAT)?);
            for (at, run) in [(0, &bytes[..8]), (12, &bytes[12..40]), (44, &bytes[44..])] {
                after.write(to + at, run.to_vec());
            }
            Ok(())
        },
        [call.args[i], m.arg(i), 0, 0],
    );
    Ok(call)
}

/// The `struct stat` of the oldest calls that still exist: 64 bytes. What does not fit is an error, but a
/// user or group is then "nobody".
pub(super) fn stat32(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    const SIZE_MAX: u64 = 0x7fff_ffff;
    let wide = Fields(bytes);
    let (inode, links, size) = (wide.u64(8), wide.u64(16), wide.u64(48));
    if inode > u32::MAX.into() || links > u16::MAX.into() || size > SIZE_MAX {
        return Err(EOVERFLOW);
    }
    let mut narrow = Fresh::new(64);
    narrow.u32(0, low(wide.u64(0)));
    narrow.u32(4, low(inode));
    narrow.u16(8, wide.u16(24));
    narrow.u16(10, low16(low(links)));
    narrow.u16(12, super::ids::short(wide.u32(28)));
    narrow.u16(14, super::ids::short(wide.u32(32)));
    narrow.u32(16, low(wide.u64(40)));
    narrow.u32(20, low(size));
    narrow.u32(24, low(wide.u64(56)));
    narrow.u32(28, low(wide.u64(64)));
    for (word, at) in (72..120).step_by(8).enumerate() {
        narrow.u32(32 + 4 * word, low(wide.u64(at)));
    }
    Ok(narrow.0)
}

/// `struct stat64`: 96 bytes, with no alignment of its 64-bit fields.
pub(super) fn stat64_shape(bytes: &[u8]) -> Vec<u8> {
    let wide = Fields(bytes);
    let mut narrow = Fresh::new(96);
    narrow.u64(0, wide.u64(0));
    narrow.u32(12, low(wide.u64(8)));
    narrow.u32(16, wide.u32(24));
    narrow.u32(20, low(wide.u64(16)));
    narrow.u32(24, wide.u32(28));
    narrow.u32(28, wide.u32(32));
    narrow.u64(32, wide.u64(40));
    narrow.u64(44, wide.u64(48));
    narrow.u32(52, low(wide.u64(56)));
    narrow.u64(56, wide.u64(64));
    for (word, at) in (72..120).step_by(8).enumerate() {
        narrow.u32(64 + 4 * word, low(wide.u64(at)));
    }
    narrow.u64(88, wide.u64(8));
    narrow.0
}

/// statfs and fstatfs.
pub(super) fn statfs(m: &mut Maker<'_>, nr: u64) -> Made {
    made(nr, [m.arg(0), m.out(m.raw(1), STATFS, statfs32)?])
}

/// statfs64 and fstatfs64: the second argument is the size of the structure, the third its address.
pub(super) fn statfs64(m: &mut Maker<'_>, nr: u64) -> Made {
    if m.raw(1) != STATFS64_NARROW {
        return fails(EINVAL);
    }
    made(nr, [m.arg(0), m.out(m.raw(2), STATFS, statfs64_shape)?])
}

/// The fields of `struct statfs` with their offsets, in the order of both layouts: type, block size, five
/// counts; then the name length, fragment size and flags.
const BLOCK_SIZE: usize = 8;
const FRAGMENT_SIZE: usize = 72;
const COUNTS: [usize; 5] = [16, 24, 32, 40, 48];

fn is_large(value: u64) -> bool {
    value > u32::MAX.into()
}

pub(super) fn statfs32(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    let blocks = [BLOCK_SIZE, FRAGMENT_SIZE, 16, 24, 32].iter().any(|at| is_large(wide.u64(*at)));
    // A count of files that is not known is all ones.
    let files = [40, 48].iter().any(|at| wide.u64(*at) != u64::MAX && is_large(wide.u64(*at)));
    if blocks || files {
        return Err(EOVERFLOW);
    }
    let mut narrow = Fresh::new(64);
    for (i, at) in [0, BLOCK_SIZE].iter().chain(&COUNTS).enumerate() {
        narrow.u32(4 * i, low(wide.u64(*at)));
    }
    narrow.u64(28, wide.u64(56));
    for (i, at) in [64, FRAGMENT_SIZE, 80].iter().enumerate() {
        narrow.u32(36 + 4 * i, low(wide.u64(*at)));
    }
    Ok(narrow.0)
}

pub(super) fn statfs64_shape(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    if is_large(wide.u64(BLOCK_SIZE)) || is_large(wide.u64(FRAGMENT_SIZE)) {
        return Err(EOVERFLOW);
    }
    let mut narrow = Fresh::new(84);
    narrow.u32(0, low(wide.u64(0)));
    narrow.u32(4, low(wide.u64(BLOCK_SIZE)));
    for (i, at) in COUNTS.iter().enumerate() {
        narrow.u64(8 + 8 * i, wide.u64(*at));
    }
    narrow.u64(48, wide.u64(56));
    for (i, at) in [64, FRAGMENT_SIZE, 80].iter().enumerate() {
        narrow.u32(56 + 4 * i, low(wide.u64(*at)));
    }
    Ok(narrow.0)
}

/// The offset is signed. Of a result that is too large the caller sees the low half, as in the kernel.
pub(super) fn lseek(m: &mut Maker<'_>) -> Made {
    made(8, [m.arg(0), m.long(1), m.arg(2)])
}

/// The offset comes high half first; the new position goes to memory, and the result is 0.
pub(super) fn llseek(m: &mut Maker<'_>) -> Made {
    let numbers = [m.arg(3), 0, 0, 0];
    m.back(
        When::Success,
        |after, [to, ..]| {
            let position = after.count();
            after.write(to, position.to_le_bytes().to_vec());
            after.result = 0;
            Ok(())
        },
        numbers,
    );
    made(8, [m.arg(0), joined(m.raw(2), m.raw(1)), m.arg(4)])
}

/// truncate and ftruncate: the length is signed.
pub(super) fn truncate(m: &mut Maker<'_>, nr: u64) -> Made {
    made(nr, [m.arg(0), m.long(1)])
}

/// truncate64 and ftruncate64.
pub(super) fn truncate64(m: &mut Maker<'_>, nr: u64) -> Made {
    made(nr, [m.arg(0), m.pair(1)])
}

/// pread64 and pwrite64.
pub(super) fn pread64(m: &mut Maker<'_>, nr: u64) -> Made {
    made(nr, [m.arg(0), m.arg(1), m.arg(2), m.pair(3)])
}

pub(super) fn readahead(m: &mut Maker<'_>) -> Made {
    made(187, [m.arg(0), m.pair(1), m.arg(3)])
}

pub(super) fn fadvise64(m: &mut Maker<'_>) -> Made {
    made(221, [m.arg(0), m.pair(1), m.arg(3), m.arg(4)])
}

pub(super) fn fadvise64_64(m: &mut Maker<'_>) -> Made {
    made(221, [m.arg(0), m.pair(1), m.pair(3), m.arg(5)])
}

pub(super) fn sync_file_range(m: &mut Maker<'_>) -> Made {
    made(277, [m.arg(0), m.pair(1), m.pair(3), m.arg(5)])
}

pub(super) fn fallocate(m: &mut Maker<'_>) -> Made {
    made(285, [m.arg(0), m.arg(1), m.pair(2), m.pair(4)])
}

pub(super) fn fanotify_mark(m: &mut Maker<'_>) -> Made {
    made(301, [m.arg(0), m.arg(1), m.pair(2), m.arg(4), m.arg(5)])
}

/// The offset behind the pointer has 4 bytes.
pub(super) fn sendfile(m: &mut Maker<'_>) -> Made {
    let mut call = m.plain(40);
    if m.raw(2) != 0 {
        let offset = super::layout::signed(m.read_u32(m.arg(2))?);
        call.args[2] = m.lazy(When::Always, &offset.to_le_bytes(), m.raw(2), super::time::narrow)?;
    }
    Ok(call)
}

/// The x86-64 table has only `umount2`.
pub(super) fn umount(m: &mut Maker<'_>) -> Made {
    made(166, [m.arg(0), 0])
}
