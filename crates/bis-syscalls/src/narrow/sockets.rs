//! Sockets: the multiplexer `socketcall`, and the options whose values have two layouts.

use super::layout::{Fields, Fresh, low};
use super::messages;
use super::room::{Made, Maker, When, fails, made, refused};
use super::time::Width;
use crate::errno::{EINVAL, ENOPROTOOPT};

/// How many arguments the calls of `socketcall` have, by number from 1 on.
const ARGUMENTS: [u64; 20] = [3, 3, 3, 2, 3, 3, 3, 4, 4, 4, 6, 6, 2, 5, 5, 3, 3, 4, 5, 4];

/// The call's number, and the address of its arguments.
pub(super) fn socketcall(m: &mut Maker<'_>) -> Made {
    let number = m.raw(0);
    let index = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1);
    let Some(count) = ARGUMENTS.get(index) else { return fails(EINVAL) };
    let bytes = m.read(m.arg(1), 4 * count)?;
    let mut args = [0; 6];
    for (i, arg) in args.iter_mut().enumerate() {
        *arg = Fields(&bytes).u32(4 * i);
    }
    m.set_args(args);
    match number {
        1 => Ok(m.plain(41)),
        2 => Ok(m.plain(49)),
        3 => Ok(m.plain(42)),
        4 => Ok(m.plain(50)),
        5 => Ok(m.plain(43)),
        6 => Ok(m.plain(51)),
        7 => Ok(m.plain(52)),
        8 => Ok(m.plain(53)),
        // send and recv are sendto and recvfrom without an address.
        9 | 11 => Ok(m.plain(44)),
        10 | 12 => Ok(m.plain(45)),
        13 => Ok(m.plain(48)),
        14 => setsockopt(m),
        15 => getsockopt(m),
        16 => messages::sendmsg(m),
        17 => messages::recvmsg(m),
        18 => Ok(m.plain(288)),
        19 => messages::recvmmsg(m, Width::Old),
        _ => messages::sendmmsg(m),
    }
}

const SOL_IP: u32 = 0;
const SOL_SOCKET: u32 = 1;
const SOL_IPV6: u32 = 41;
const SOL_SCTP: u32 = 132;
const SOL_PACKET: u32 = 263;

/// What the value of an option is.
enum Value {
    /// It has one layout.
    Same,
    /// A time of two longs.
    Time,
    /// A socket filter: a count, and the address of the instructions.
    Filter,
    /// A number of 4 bytes, and then so many `sockaddr_storage`, which are aligned to longs.
    Addresses(u64),
    /// Not known.
    Unknown,
}

fn value(level: u32, name: u32) -> Value {
    match (level, name) {
        // SO_RCVTIMEO, SO_SNDTIMEO.
        (SOL_SOCKET, 20 | 21) => Value::Time,
        // SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF.
        (SOL_SOCKET, 26 | 51) => Value::Filter,
        // MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP; those of a source; MCAST_MSFILTER.
        (SOL_IP | SOL_IPV6, 42 | 45) => Value::Addresses(1),
        (SOL_IP | SOL_IPV6, 43 | 44 | 46 | 47) => Value::Addresses(2),
        (SOL_IP | SOL_IPV6, 48) => Value::Unknown,
        // Tables of rules.
        (SOL_IP, 64..=67 | 96..=99 | 128..=131) | (SOL_IPV6, 64..=69) => Value::Unknown,
        (SOL_SCTP, _) | (SOL_PACKET, 22) => Value::Unknown,
        _ => Value::Same,
    }
}

const UNKNOWN: &str = "a socket option whose value's layout is not known";

pub(super) fn setsockopt(m: &mut Maker<'_>) -> Made {
    let (at, len) = (m.arg(3), m.raw(4));
    let wide = match value(m.raw(1), m.raw(2)) {
        Value::Unknown => return refused(ENOPROTOOPT, UNKNOWN),
        Value::Time if len >= 8 => super::layout::widened(&m.read(at, 8)?),
        Value::Filter if len >= 8 => {
            let narrow = m.read(at, 8)?;
            let mut wide = Fresh::new(16);
            wide.put(0, &narrow[..2]);
            wide.u64(8, Fields(&narrow).u32(4).into());
            wide.0
        }
        Value::Addresses(count) if u64::from(len) >= 4 + 128 * count => {
            let narrow = m.read(at, 4 + 128 * count)?;
            [&narrow[..4], &[0; 4], &narrow[4..]].concat()
        }
        // Too short for its kind, which the kernel finds too.
        Value::Time | Value::Filter | Value::Addresses(_) => return fails(EINVAL),
        Value::Same => return Ok(m.plain(54)),
    };
    let len = u64::try_from(wide.len()).unwrap_or(0);
    made(54, [m.arg(0), m.arg(1), m.arg(2), m.put(&wide)?, len])
}

pub(super) fn getsockopt(m: &mut Maker<'_>) -> Made {
    match value(m.raw(1), m.raw(2)) {
        // What is asked with a filter's name is the filter itself.
        Value::Same | Value::Filter => Ok(m.plain(55)),
        Value::Time => time(m),
        Value::Addresses(_) | Value::Unknown => refused(ENOPROTOOPT, UNKNOWN),
    }
}

/// The kernel gives as much of the time as there is room for, and says how much that is.
fn time(m: &mut Maker<'_>) -> Made {
    let room = m.read_u32(m.arg(4))?;
    if room.cast_signed() < 0 {
        return fails(EINVAL);
    }
    let (value, len) = (m.space(16)?, m.put(&16_u32.to_le_bytes())?);
    let numbers = [value, m.arg(3), m.arg(4), room.min(8).into()];
    m.back(
        When::Success,
        |after, [value, to, len_to, len]| {
            let mut time = super::layout::narrowed(&after.bytes(value, 16)?);
            time.truncate(super::layout::size(len));
            after.write(to, time);
            after.write(len_to, low(len).to_le_bytes().to_vec());
            Ok(())
        },
        numbers,
    );
    made(55, [m.arg(0), m.arg(1), m.arg(2), value, len])
}
