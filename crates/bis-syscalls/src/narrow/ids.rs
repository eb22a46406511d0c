//! The oldest calls know users and groups by 16 bits. 0xffff stands for "leave it as it is".

use super::layout::{Fields, low16, signed};
use super::room::{Made, Maker, When, fails, made};
use crate::errno::EINVAL;

/// The number of a user or group that has no 16-bit number.
const NOBODY: u16 = 65534;

/// The most groups that the kernel takes.
const GROUPS_MAX: u32 = 65536;

/// A user or group as a 16-bit number.
pub(super) fn short(id: u32) -> u16 {
    u16::try_from(id).unwrap_or(NOBODY)
}

/// A 16-bit number as a user or group.
fn long(id: u32) -> u64 {
    match low16(id) {
        u16::MAX => u32::MAX.into(),
        id => id.into(),
    }
}

/// getuid and its kind: the result is an id.
pub(super) fn got(m: &mut Maker<'_>, nr: u64) -> Made {
    m.back(
        When::Success,
        |after, _| {
            after.result = u32::try_from(after.result).map_or(NOBODY, short).into();
            Ok(())
        },
        [0; 4],
    );
    made(nr, [])
}

/// setuid and its kind: so many arguments from `first` on are ids.
pub(super) fn set(m: &mut Maker<'_>, nr: u64, first: usize, count: usize) -> Made {
    let mut call = m.plain(nr);
    for arg in &mut call.args[first..first + count] {
        *arg = long(super::layout::low(*arg));
    }
    Ok(call)
}

/// getresuid and getresgid: three ids go to memory.
pub(super) fn get_three(m: &mut Maker<'_>, nr: u64) -> Made {
    let mut call = m.plain(nr);
    for i in 0..3 {
        call.args[i] = m.out(m.raw(i), 4, shorts)?;
    }
    Ok(call)
}

fn shorts(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    Ok(bytes.chunks_exact(4).flat_map(|id| short(Fields(id).u32(0)).to_le_bytes()).collect())
}

/// As many as there are go to the list; with a size of 0 they are only counted. The room holds fewer than
/// the kernel's most.
pub(super) fn getgroups(m: &mut Maker<'_>) -> Made {
    let size = signed(m.raw(0)).cast_signed();
    let Ok(size) = u64::try_from(size) else { return fails(EINVAL) };
    let size = size.min(m.left() / 4);
    if size == 0 {
        return made(115, [0, 0]);
    }
    let list = m.space(4 * size)?;
    let numbers = [list, m.arg(1), 0, 0];
    m.back(
        When::Positive,
        |after, [from, to, ..]| {
            let groups = after.bytes(from, after.count().saturating_mul(4))?;
            after.write(to, shorts(&groups)?);
            Ok(())
        },
        numbers,
    );
    made(115, [size, list])
}

pub(super) fn setgroups(m: &mut Maker<'_>) -> Made {
    let size = m.raw(0);
    if size > GROUPS_MAX {
        return fails(EINVAL);
    }
    let list = m.read(m.arg(1), 2 * u64::from(size))?;
    let wide: Vec<u8> = list
        .chunks_exact(2)
        .flat_map(|id| super::layout::low(long(Fields(id).u16(0).into())).to_le_bytes())
        .collect();
    made(116, [size.into(), m.put(&wide)?])
}
