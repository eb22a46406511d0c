//! `sendmsg`, `recvmsg`, and those of several messages: headers, vectors, and control messages.
//!
//! A control message has a header of 12 bytes (length, level, type) and is aligned to 4 bytes; in the 64-bit
//! layout 16 and 8. Its data are the same, but for the times of the oldest timestamps. Addresses have one
//! layout, and stay where the program has them.
//!
//! How much room for control messages the 64-bit call gets decides how many descriptors a message may bring.
//! One control message fits exactly as it would have. For more than one there is room enough for the larger
//! headers; what then does not fit into the caller's room is cut, with MSG_CTRUNC, as the kernel does. If a
//! sender passes more descriptors than the caller has room for beside other messages, the process may get
//! descriptors that it does not hear of.

use super::layout::{Fields, Fresh, joined, low, narrowed, size};
use super::room::{After, Made, Maker, Other, When, fails, made, refused};
use super::time::Width;
use super::vectors::IOV_MAX;
use crate::errno::{EINVAL, EMSGSIZE, ENOBUFS, ENOMEM};

/// Sizes of headers: 32-bit, 64-bit.
const HEADER: u64 = 28;
const WIDE_HEADER: u64 = 56;
/// Sizes of headers in an array, with the length of each message.
const ELEMENT: u64 = 32;
const WIDE_ELEMENT: u64 = 64;

const CONTROL_HEADER: usize = 12;
const WIDE_CONTROL_HEADER: usize = 16;

const MSG_CTRUNC: u32 = 8;
const SOL_SOCKET: u32 = 1;
const MESSAGES_MAX: u32 = 1024;

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

pub(super) fn sendmsg(m: &mut Maker<'_>) -> Made {
    let (header, _) = m.header(m.raw(1), Way::Out)?;
    made(46, [m.arg(0), m.put(&header)?, m.arg(2)])
}

pub(super) fn recvmsg(m: &mut Maker<'_>) -> Made {
    let (header, kept) = m.header(m.raw(1), Way::In)?;
    let at = m.put(&header)?;
    m.back(When::Success, received, [at, m.arg(1), kept, 0]);
    made(47, [m.arg(0), at, m.arg(2)])
}

pub(super) fn sendmmsg(m: &mut Maker<'_>) -> Made {
    let (array, count) = m.elements(Way::Out)?;
    made(307, [m.arg(0), array, count, m.arg(3)])
}

pub(super) fn recvmmsg(m: &mut Maker<'_>, width: Width) -> Made {
    let timeout = m.timeout(4, width)?;
    let (array, count) = m.elements(Way::In)?;
    made(299, [m.arg(0), array, count, m.arg(3), timeout])
}

impl Maker<'_> {
    /// The 64-bit header for the 32-bit one at `addr`; what it points to is put into the room. Beside it what
    /// must be kept of the 32-bit one: the address of its control messages (high half) and the room for them.
    fn header(&mut self, addr: u32, way: Way) -> Result<(Vec<u8>, u64), Other> {
        let bytes = self.read(addr.into(), HEADER)?;
        let narrow = Fields(&bytes);
        let (vectors, control, control_len) = (narrow.u32(12), narrow.u32(16), narrow.u32(20));
        if vectors > IOV_MAX {
            return fails(EMSGSIZE);
        }
        let mut wide = Fresh::new(size(WIDE_HEADER));
        wide.u64(0, narrow.u32(0).into());
        wide.u32(8, narrow.u32(4));
        wide.u64(16, self.iovecs(narrow.u32(8), vectors)?);
        wide.u64(24, vectors.into());
        let (at, len) = match way {
            _ if control == 0 => (0, 0),
            _ if control_len.cast_signed() < 0 => return fails(ENOBUFS),
            Way::Out if control_len == 0 => (0, 0),
            Way::Out => self.control(control.into(), size(control_len.into()))?,
            Way::In => {
                let len = room_for(control_len.into());
                if len > self.left() {
                    return refused(ENOBUFS, "the control messages are too large for the room");
                }
                (self.space(len)?, len)
            }
        };
        wide.u64(32, at);
        wide.u64(40, len);
        wide.u32(48, narrow.u32(24));
        Ok((wide.0, joined(if control == 0 { 0 } else { control_len }, control)))
    }

    /// The control messages at `addr` in the 64-bit layout: where they lie, and their length.
    fn control(&mut self, addr: u64, len: usize) -> Result<(u64, u64), Other> {
        if u64::try_from(len).unwrap_or(u64::MAX) > self.left() {
            return refused(ENOBUFS, "the control messages are too large for the room");
        }
        let narrow = self.read(addr, u64::try_from(len).unwrap_or(0))?;
        let (mut at, mut wide) = (0, Vec::new());
        if len < CONTROL_HEADER {
            return fails(EINVAL);
        }
        while at < len {
            let header = Fields(&narrow[at..]);
            let own = size(header.u32(0).into());
            if own < CONTROL_HEADER || own > len - at {
                return fails(EINVAL);
            }
            let data = &narrow[at + CONTROL_HEADER..at + own];
            wide.resize(wide.len().next_multiple_of(8), 0);
            wide.extend(u64::try_from(WIDE_CONTROL_HEADER + data.len()).unwrap_or(0).to_le_bytes());
            wide.extend_from_slice(&narrow[at + 4..at + CONTROL_HEADER]);
            wide.extend_from_slice(data);
            at = (at + own).next_multiple_of(4);
        }
        let len = u64::try_from(wide.len().next_multiple_of(8)).unwrap_or(0);
        wide.resize(size(len), 0);
        Ok((self.put_or(&wide, ENOBUFS)?, len))
    }

    /// The array of messages in arguments 1 and 2, and how many there are. As many as the room holds: the
    /// calls may do less than they are asked for.
    fn elements(&mut self, way: Way) -> Result<(u64, u64), Other> {
        // Kept free for the array itself.
        let count = self.raw(2).min(MESSAGES_MAX);
        let mut array = Vec::new();
        let start = self.space(WIDE_ELEMENT * u64::from(count))?;
        for i in 0..count {
            let at = self.raw(1).wrapping_add(i * low(ELEMENT));
            let (header, kept) = match self.header(at, way) {
                Ok(made) => made,
                // The kernel tells of what was done before.
                Err(Other::Done(_) | Other::Refused(ENOMEM | ENOBUFS, _)) if i > 0 => break,
                Err(other) => return Err(other),
            };
            let wide = start + WIDE_ELEMENT * u64::from(i);
            let convert = if way == Way::In { element_received } else { element_sent };
            self.back(When::Positive, convert, [wide, at.into(), kept, i.into()]);
            array.extend([&header[..], &[0; 8]].concat());
        }
        let count = u64::try_from(array.len()).unwrap_or(0) / WIDE_ELEMENT;
        self.fill(start, &array);
        Ok((start, count))
    }
}

/// Room in the 64-bit layout for what `len` bytes hold in the 32-bit one.
fn room_for(len: u64) -> u64 {
    // A message with a timestamp is the shortest that grows most: from 20 bytes to 32.
    len + 4 + 12 * (len / 20).saturating_sub(1)
}

/// What `recvmsg` gave: the header at `at` in the room belongs to the one at `to`.
fn received(after: &mut After<'_>, [at, to, kept, _]: [u64; 4]) -> Result<(), i32> {
    let bytes = after.bytes(at, WIDE_HEADER)?;
    let wide = Fields(&bytes);
    let mut flags = wide.u32(48);
    let used = after.bytes(wide.u64(32), wide.u64(40))?;
    let (control, is_cut) = control_narrowed(&used, size(low(kept).into()));
    if is_cut {
        flags |= MSG_CTRUNC;
    }
    let len = low(u64::try_from(control.len()).unwrap_or(0));
    after.write(kept >> 32, control);
    if wide.u64(0) != 0 {
        after.write(to + 4, bytes[8..12].to_vec());
    }
    after.write(to + 20, [len, flags].into_iter().flat_map(u32::to_le_bytes).collect());
    Ok(())
}

/// Of message number `i` the length, if it was handled.
fn element_sent(after: &mut After<'_>, [at, to, _, i]: [u64; 4]) -> Result<(), i32> {
    if after.count() > i {
        let len = after.bytes(at + WIDE_HEADER, 4)?;
        after.write(to + HEADER, len);
    }
    Ok(())
}

fn element_received(after: &mut After<'_>, numbers: [u64; 4]) -> Result<(), i32> {
    element_sent(after, numbers)?;
    if after.count() > numbers[3] { received(after, numbers) } else { Ok(()) }
}

/// The control messages in the 32-bit layout, at most `room` bytes; and whether something was cut.
fn control_narrowed(wide: &[u8], room: usize) -> (Vec<u8>, bool) {
    let (mut at, mut narrow) = (0, Vec::new());
    while at + WIDE_CONTROL_HEADER <= wide.len() {
        let header = Fields(&wide[at..]);
        let own = size(header.u64(0));
        if own < WIDE_CONTROL_HEADER || own > wide.len() - at {
            break;
        }
        let data = data_narrowed(header.u32(8), header.u32(12), &wide[at + WIDE_CONTROL_HEADER..at + own]);
        let left = room - narrow.len();
        if left < CONTROL_HEADER {
            return (narrow, true);
        }
        let len = (CONTROL_HEADER + data.len()).min(left);
        narrow.extend(low(u64::try_from(len).unwrap_or(0)).to_le_bytes());
        narrow.extend_from_slice(&wide[at + 8..at + WIDE_CONTROL_HEADER]);
        narrow.extend_from_slice(&data[..len - CONTROL_HEADER]);
        if len < CONTROL_HEADER + data.len() {
            return (narrow, true);
        }
        narrow.resize(narrow.len().next_multiple_of(4).min(room), 0);
        at = (at + own).next_multiple_of(8);
    }
    (narrow, false)
}

/// SCM_TIMESTAMP, SCM_TIMESTAMPNS and SCM_TIMESTAMPING of the old kind are longs.
fn data_narrowed(level: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    match (level, kind) {
        (SOL_SOCKET, 29 | 35 | 37) => narrowed(data),
        _ => data.to_vec(),
    }
}
