//! fcntl: locks have three layouts; and commands have numbers of their own for locks with 64-bit offsets.

use super::layout::{Fields, Fresh, low, signed};
use super::room::{Made, Maker, Shape, When, made, refused};
use crate::errno::{EINVAL, EOVERFLOW};

const FCNTL: u64 = 72;

const OFFSET_MAX: u64 = 0x7fff_ffff;

pub(super) fn fcntl(m: &mut Maker<'_>) -> Made {
    match m.raw(1) {
        // F_GETLK, F_SETLK, F_SETLKW with 32-bit offsets.
        command @ 5..=7 => lock(m, command, flock_widened, flock_narrowed, 16),
        // F_GETLK64, F_SETLK64, F_SETLKW64.
        command @ 12..=14 => lock(m, command - 7, flock64_widened, flock64_narrowed, 24),
        // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW.
        command @ 36..=38 => lock(m, command, flock64_widened, flock64_narrowed, 24),
        // Numbers, and memory of one layout: owners (15 to 17), write hints (1035 to 1038).
        0..=4 | 8..=11 | 15..=17 | 1024..=1038 => Ok(m.plain(FCNTL)),
        _ => refused(EINVAL, "an fcntl command whose argument is not known"),
    }
}

fn lock(m: &mut Maker<'_>, command: u32, widen: fn(&[u8]) -> Vec<u8>, narrow: Shape, len: u64) -> Made {
    let wide = widen(&m.read(m.arg(2), len)?);
    let at = m.put(&wide)?;
    if matches!(command, 5 | 36) {
        m.piece(When::Success, at, 32, m.raw(2), narrow, false);
    }
    made(FCNTL, [m.arg(0), command.into(), at])
}

/// Of 16 bytes: type and whence (2 bytes each), start, length, process.
fn flock_widened(bytes: &[u8]) -> Vec<u8> {
    let narrow = Fields(bytes);
    let mut wide = Fresh::new(32);
    wide.put(0, &bytes[..4]);
    wide.u64(8, signed(narrow.u32(4)));
    wide.u64(16, signed(narrow.u32(8)));
    wide.u32(24, narrow.u32(12));
    wide.0
}

/// A start that does not fit is an error; a length is cut, because it may say "to the end".
fn flock_narrowed(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let wide = Fields(bytes);
    let (start, len) = (wide.u64(8), wide.u64(16));
    if start.cast_signed() > OFFSET_MAX.cast_signed() {
        return Err(EOVERFLOW);
    }
    let len = if len.cast_signed() > OFFSET_MAX.cast_signed() { OFFSET_MAX } else { len };
    let mut narrow = Fresh::new(16);
    narrow.put(0, &bytes[..4]);
    narrow.u32(4, low(start));
    narrow.u32(8, low(len));
    narrow.u32(12, wide.u32(24));
    Ok(narrow.0)
}

/// Of 24 bytes: the same with 64-bit offsets, which are not aligned.
fn flock64_widened(bytes: &[u8]) -> Vec<u8> {
    let mut wide = Fresh::new(32);
    wide.put(0, &bytes[..4]);
    wide.put(8, &bytes[4..24]);
    wide.0
}

fn flock64_narrowed(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    let mut narrow = Fresh::new(24);
    narrow.put(0, &bytes[..4]);
    narrow.put(4, &bytes[8..28]);
    Ok(narrow.0)
}
