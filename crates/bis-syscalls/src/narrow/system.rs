//! The machine's memory, and limits of resources.

use super::layout::{Fields, Fresh, low, low16};
use super::room::{Made, Maker, made};

/// A limit that does not limit, in the 32-bit layout.
const INFINITY: u32 = u32::MAX;
/// A limit that does not limit, in the oldest call, whose limits are signed.
const OLD_INFINITY: u32 = 0x7fff_ffff;

/// A page is the largest unit in which memory is told.
const UNIT_MAX: u32 = 4096;

pub(super) fn sysinfo(m: &mut Maker<'_>) -> Made {
    made(99, [m.out(m.raw(0), 112, sysinfo_shape)?])
}

/// Uptime, three loads, six sizes of memory, processes, two sizes, and the unit of the sizes. Where bytes do
/// not fit the unit grows up to a page.
pub(super) fn sysinfo_shape(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    const MEMORY: [usize; 8] = [32, 40, 48, 56, 64, 72, 88, 96];
    let wide = Fields(bytes);
    let mut unit = wide.u32(104);
    let mut shift = 0;
    let is_large = |at: usize| wide.u64(at) > u32::MAX.into();
    // The whole memory, the whole swap.
    if is_large(32) || is_large(64) {
        while unit != 0 && unit < UNIT_MAX {
            unit <<= 1;
            shift += 1;
        }
    }
    let mut narrow = Fresh::new(64);
    for word in 0..4 {
        narrow.u32(4 * word, low(wide.u64(8 * word)));
    }
    for (at, to) in MEMORY.into_iter().zip([16, 20, 24, 28, 32, 36, 44, 48]) {
        narrow.u32(to, low(wide.u64(at) >> shift));
    }
    narrow.u16(40, low16(wide.u32(80)));
    narrow.u32(52, unit);
    Ok(narrow.0)
}

fn limits(bytes: &[u8], infinity: u32) -> Result<Vec<u8>, i32> {
    let both = bytes.chunks_exact(8).map(|limit| Fields(limit).u64(0));
    Ok(both.flat_map(|limit| low(limit.min(infinity.into())).to_le_bytes()).collect())
}

pub(super) fn getrlimit(m: &mut Maker<'_>) -> Made {
    made(97, [m.arg(0), m.out(m.raw(1), 16, |bytes| limits(bytes, INFINITY))?])
}

pub(super) fn old_getrlimit(m: &mut Maker<'_>) -> Made {
    made(97, [m.arg(0), m.out(m.raw(1), 16, |bytes| limits(bytes, OLD_INFINITY))?])
}

pub(super) fn setrlimit(m: &mut Maker<'_>) -> Made {
    let bytes = m.read(m.arg(1), 8)?;
    let both = [Fields(&bytes).u32(0), Fields(&bytes).u32(4)];
    let wide = both.map(|limit| if limit == INFINITY { u64::MAX } else { limit.into() });
    let wide: Vec<u8> = wide.into_iter().flat_map(u64::to_le_bytes).collect();
    made(160, [m.arg(0), m.put(&wide)?])
}
