//! Arrays of `struct iovec`: address and length, 4 bytes each.

use super::layout::{Fields, signed};
use super::room::{Made, Maker, Other, fails, made};
use crate::errno::EINVAL;

/// The most elements that the kernel takes.
pub(super) const IOV_MAX: u32 = 1024;

impl Maker<'_> {
    /// The 64-bit layout of `count` elements at `addr`. A length that is negative as a 32-bit number
    /// stays negative, so the kernel refuses it.
    pub(super) fn iovecs(&mut self, addr: u32, count: u32) -> Result<u64, Other> {
        let bytes = self.iovec_bytes(addr, count)?;
        self.put(&bytes)
    }

    fn iovec_bytes(&self, addr: u32, count: u32) -> Result<Vec<u8>, Other> {
        if count > IOV_MAX {
            return fails(EINVAL);
        }
        let narrow = self.read(addr.into(), 8 * u64::from(count))?;
        let elements = narrow.chunks_exact(8).map(Fields);
        Ok(elements
            .flat_map(|element| [u64::from(element.u32(0)), signed(element.u32(4))])
            .flat_map(u64::to_le_bytes)
            .collect())
    }
}

/// readv, writev, vmsplice: the array is argument 1, its length argument 2.
pub(super) fn plain(m: &mut Maker<'_>, nr: u64) -> Made {
    let mut call = m.plain(nr);
    call.args[1] = m.iovecs(m.raw(1), m.raw(2))?;
    Ok(call)
}

/// preadv and pwritev, with `flags` also the second kind of them. On x86-64 the position lies in one
/// register; all ones mean the current one.
pub(super) fn positioned(m: &mut Maker<'_>, nr: u64, has_flags: bool) -> Made {
    let flags = if has_flags { m.arg(5) } else { 0 };
    made(nr, [m.arg(0), m.iovecs(m.raw(1), m.raw(2))?, m.arg(2), m.pair(3), 0, flags])
}

/// process_vm_readv and process_vm_writev: two arrays, of which the second says addresses in the memory of
/// another process.
pub(super) fn remote(m: &mut Maker<'_>, nr: u64) -> Made {
    let (own, others) = (m.iovecs(m.raw(1), m.raw(2))?, m.iovecs(m.raw(3), m.raw(4))?);
    made(nr, [m.arg(0), own, m.arg(2), others, m.arg(4), m.arg(5)])
}
