//! select, poll, and their kind. A set of descriptors is an array of longs: the 64-bit kernel reads and
//! writes whole words of 8 bytes, and the caller may have 4 bytes less.

use super::layout::{Fields, Fresh, size};
use super::room::{After, Made, Maker, Other, When, fails, made};
use super::time::Width;
use crate::errno::{EFAULT, EINVAL};

/// More descriptors than this are not looked at; no process has so many open at once. Three sets of them fit
/// into the room.
const DESCRIPTORS_MAX: u32 = 1 << 19;

impl Maker<'_> {
    /// A set for `count` descriptors. The kernel does not look at descriptors that the process cannot have,
    /// so the end of the set need not be there.
    fn set(&mut self, addr: u32, count: u32) -> Result<u64, Other> {
        if addr == 0 {
            return Ok(0);
        }
        let bytes = self.readable(addr.into(), 4 * u64::from(count.div_ceil(32)));
        if bytes.is_empty() && count > 0 {
            return fails(EFAULT);
        }
        let len = u64::try_from(bytes.len()).unwrap_or(0);
        let mut wide = bytes;
        wide.resize(size(8 * u64::from(count.div_ceil(64))), 0);
        let from = self.put(&wide)?;
        self.back(When::Success, set_back, [from, len, addr.into(), 0]);
        Ok(from)
    }

    /// As many of `len` bytes as can be read, page by page.
    fn readable(&self, addr: u64, len: u64) -> Vec<u8> {
        let mut found = Vec::new();
        let (mut at, end) = (addr, addr + len);
        while at < end {
            let next = ((at | 0xfff) + 1).min(end);
            let Ok(bytes) = self.read(at, next - at) else { break };
            found.extend_from_slice(&bytes);
            at = next;
        }
        found
    }
}

/// Only the words of a set that have changed, since the kernel may not have looked at all of it.
fn set_back(after: &mut After<'_>, [from, len, to, _]: [u64; 4]) -> Result<(), i32> {
    let (old, new) = (after.before(from, len), after.bytes(from, len)?);
    let mut at = to;
    for (old, new) in old.chunks(4).zip(new.chunks(4)) {
        if old != new {
            after.write(at, new.to_vec());
        }
        at += 4;
    }
    Ok(())
}

pub(super) fn select(m: &mut Maker<'_>) -> Made {
    let count = descriptors(m)?;
    let sets = [m.set(m.raw(1), count)?, m.set(m.raw(2), count)?, m.set(m.raw(3), count)?];
    let [read, write, except] = sets;
    made(23, [count.into(), read, write, except, m.timeout(4, Width::Old)?])
}

fn descriptors(m: &Maker<'_>) -> Result<u32, Other> {
    let count = m.raw(0);
    if count.cast_signed() < 0 { fails(EINVAL) } else { Ok(count.min(DESCRIPTORS_MAX)) }
}

/// The first `select`: its five arguments lie in memory.
pub(super) fn old_select(m: &mut Maker<'_>) -> Made {
    let bytes = m.read(m.arg(0), 20)?;
    let mut args = [0; 6];
    for (i, arg) in args.iter_mut().take(5).enumerate() {
        *arg = Fields(&bytes).u32(4 * i);
    }
    m.set_args(args);
    select(m)
}

/// The sixth argument is a structure: the address of a signal set and its size, which must be 8.
pub(super) fn pselect6(m: &mut Maker<'_>, width: Width) -> Made {
    let count = descriptors(m)?;
    let mask = match m.arg(5) {
        0 => 0,
        at => {
            let narrow = m.read(at, 8)?;
            let mut wide = Fresh::new(16);
            wide.u64(0, Fields(&narrow).u32(0).into());
            wide.u64(8, Fields(&narrow).u32(4).into());
            m.put(&wide.0)?
        }
    };
    let sets = [m.set(m.raw(1), count)?, m.set(m.raw(2), count)?, m.set(m.raw(3), count)?];
    let [read, write, except] = sets;
    made(270, [count.into(), read, write, except, m.timeout(4, width)?, mask])
}

pub(super) fn ppoll(m: &mut Maker<'_>, width: Width) -> Made {
    made(271, [m.arg(0), m.arg(1), m.timeout(2, width)?, m.arg(3), m.arg(4)])
}
