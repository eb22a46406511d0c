//! ioctl: a table of its own, by request. The size and direction that many request numbers carry are a
//! convention that drivers break, so they are not trusted: a request that is not here is slow.

use super::words::*;
use crate::plan::{Count, Slot, When, Written};
use Shape::{Fields, In, InOut, Out};

mod requests;

pub(crate) use requests::REQUESTS;

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(16, "ioctl", &[fd("fd"), hex("request"), hex("arg")], If(waits)).by(Handler::Ioctl).plan(ioctl).note("by a table of requests; a request that is not in it takes the slow path").hooked_for(Rule::of(HookShape::Ioctl), &[]),
];

/// An ioctl request.
pub(crate) struct Request {
    pub(crate) nr: u32,
    pub(crate) name: &'static str,
    shape: Shape,
}

/// What the argument of a request is.
#[derive(Clone, Copy)]
enum Shape {
    /// A number, or memory that is only read and holds no pointers to what is written.
    In,
    /// Memory of so many bytes, all written.
    Out(u64),
    /// Memory of so many bytes, read and perhaps written.
    InOut(u64),
    /// What a function says.
    Fields(fn(&mut Builder<'_>)),
    /// What a function says, of requests of which not all are known.
    Judged(fn(&mut Builder<'_>) -> Verdict),
    /// Known, but not in its shape.
    Slow(&'static str),
    /// Must not reach the kernel.
    Refuse(i32, &'static str),
}

/// The requests that wait: TCSETSW, TCSETSF, TCSETAW, TCSETAF, TCSBRK, TCSBRKP, TCXONC, TCSETSW2, TCSETSF2
/// (until output has drained), TIOCMIWAIT, VT_WAITACTIVE; FIFREEZE.
fn waits(call: &Call) -> bool {
    matches!(
        call.u32(1),
        0x5403
            | 0x5404
            | 0x5407
            | 0x5408
            | 0x5409
            | 0x540a
            | 0x5425
            | 0x402c_542c
            | 0x402c_542d
            | 0x545c
            | 0x5607
            | 0xc004_5877
    )
}

/// The name of a request.
pub(crate) fn name(nr: u32) -> Option<&'static str> {
    REQUESTS.iter().find(|r| r.nr == nr).map(|r| r.name)
}

fn ioctl(b: &mut Builder<'_>) -> Verdict {
    let nr = b.call.u32(1);
    let shape = match REQUESTS.iter().find(|r| r.nr == nr) {
        Some(request) => request.shape,
        None => by_type(nr),
    };
    match shape {
        In => {}
        Out(len) => drop(b.out(2, len)),
        InOut(len) => drop(b.inout(2, len)),
        Fields(f) => f(b),
        Shape::Judged(f) => return f(b),
        Shape::Slow(why) => return Err(Stop::Slow(why)),
        Shape::Refuse(errno, why) => return Err(Stop::Refuse(errno, why)),
    }
    Ok(())
}

/// Requests of which only the driver is known, by the second byte.
fn by_type(nr: u32) -> Shape {
    match (nr >> 8 & 0xff, nr & 0xff) {
        // PIDFD_GET_INFO: the structure has grown, and the kernel does go by the size in the request.
        (0xff, 11) if nr >> 30 == 3 => InOut(u64::from(nr >> 16 & 0x3fff)),
        (0xaa, 0) => Shape::Refuse(ENOTTY, "userfaultfd by its device; as the call"),
        (0xae, _) => Shape::Refuse(ENOTTY, "a virtual machine's memory changes at any time"),
        (0x64, _) => Shape::Slow("a graphics driver's request"),
        // The wireless extensions' odd numbers ask (IW_IS_GET in `wireless.h`), the even ones set; not so the
        // drivers' own, from SIOCIWFIRSTPRIV on.
        (0x8b, even @ 0..0xe0) if even & 1 == 0 && nr >> 16 == 0 => In,
        _ => Shape::Slow("unknown ioctl request"),
    }
}

/// SIOCGIFCONF: `struct ifconf` is the buffer's length in bytes (int), then at 8 its address. A null address
/// asks for the length.
fn ifconf(b: &mut Builder<'_>) {
    let at = b.call.args[2];
    let (Some(len), Some(addr)) = (b.u32_at(at), b.u64_at(at.wrapping_add(8))) else { return };
    let Some(conf) = b.fields(2, 16, Written::Ranges(&[(0, 4)]), When::Success) else { return };
    let count = Count::Field { piece: conf, offset: 0, width: 4 };
    let slot = Slot::In { piece: conf, offset: 8 };
    b.piece(slot, addr, len.into(), INOUT, Written::Counted { count, unit: 1 }, When::Success);
}

/// Where `struct ifreq` and `struct iwreq` hold a pointer, behind the interface's name.
const DATA: u64 = 16;

/// SIOCETHTOOL: the pointer in `struct ifreq` leads to a structure that begins with a command of its own
/// (`include/uapi/linux/ethtool.h`).
fn ethtool(b: &mut Builder<'_>) -> Verdict {
    let at = b.call.args[2];
    let addr = b.u64_at(at.wrapping_add(DATA)).unwrap_or(0);
    // Where nothing can be read, the kernel fails.
    let Some(command) = b.u32_at(addr) else { return Ok(()) };
    let len = match command {
        // GSET, GDRVINFO, GWOL
        0x1 => 44,
        0x3 => 196,
        0x5 => 20,
        // GMSGLVL, GLINK, GRXCSUM, GTXCSUM, GSG, GTSO, GUFO, GGSO, GFLAGS, GPFLAGS, GGRO: a number
        0x7 | 0xa | 0x14 | 0x16 | 0x18 | 0x1e | 0x21 | 0x23 | 0x25 | 0x27 | 0x2b => 8,
        // GCOALESCE, GRINGPARAM, GPAUSEPARAM, GCHANNELS, GET_TS_INFO, GEEE
        0xe => 92,
        0x10 | 0x3c => 36,
        0x12 => 16,
        0x41 => 44,
        0x44 => 40,
        // GPERMADDR: at 4 the room for the address
        0x20 => 8 + u64::from(b.u32_at(addr.wrapping_add(4)).unwrap_or(0)),
        // GLINKSETTINGS: at 15 the words of each of three masks behind it; the kernel answers a wrong number
        // with the right one, and no masks.
        0x4c => 48 + 12 * u64::from(b.bytes::<1>(addr.wrapping_add(15)).map_or(0, |[words]| words & 0x7f)),
        _ => return Err(Stop::Slow("an ethtool command whose structure is not known")),
    };
    if let Some(ifreq) = b.inout(2, 40) {
        b.piece(Slot::In { piece: ifreq, offset: DATA }, addr, len, INOUT, Written::All, When::Success);
    }
    Ok(())
}

/// A request of the wireless extensions that is answered by a pointer, its room (16 bits, in bytes), and
/// flags: `struct iw_point` in `struct iwreq`.
fn iw_point(b: &mut Builder<'_>) {
    let at = b.call.args[2];
    let addr = b.u64_at(at.wrapping_add(DATA)).unwrap_or(0);
    let room = b.bytes(at.wrapping_add(DATA + 8)).map_or(0, u16::from_le_bytes);
    if let Some(request) = b.inout(2, 32) {
        let slot = Slot::In { piece: request, offset: DATA };
        b.piece(slot, addr, room.into(), INOUT, Written::All, When::Success);
    }
}

/// FS_IOC_FIEMAP: 32 bytes, of which at 24 the room in extents, then extents of 56 bytes.
fn fiemap(b: &mut Builder<'_>) {
    let room = b.u32_at(b.call.args[2].wrapping_add(24)).unwrap_or(0);
    b.always(2, 32 + u64::from(room) * 56);
}

/// FIDEDUPERANGE: 24 bytes, of which at 16 the number of destinations (16 bits), then 32 bytes for each.
fn dedupe(b: &mut Builder<'_>) {
    let count = b.u32_at(b.call.args[2].wrapping_add(16)).unwrap_or(0) & 0xffff;
    b.always(2, 24 + u64::from(count) * 32);
}

/// FS_IOC_MEASURE_VERITY: 4 bytes, of which at 2 the room for the digest (16 bits), then the digest.
fn measure(b: &mut Builder<'_>) {
    let room = b.u32_at(b.call.args[2]).unwrap_or(0) >> 16;
    b.always(2, 4 + u64::from(room));
}
