//! Sockets: addresses with in-out lengths, options, and messages with vectors, addresses and control data.

use super::words::*;
use crate::describe::names::{MSG_FLAGS, SOCKET_FAMILIES};
use crate::plan::{Count, Slot, When, Written};

const LEN: Size = Fixed(4);

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(41, "socket", &[named("family", &SOCKET_FAMILIES), hex("type"), int("protocol")], Never).hooked(Rule::PLAIN.makes(HookMakes::Harmless)),
    call(42, "connect", &[fd("fd"), inp("addr"), int("len")], ByFd).hooked(Rule::PLAIN.waits(HookWait::Blocking).clears(0)),
    call(43, "accept", &[fd("fd"), inout("addr", Deref(2)), inout("len", LEN)], ByFd).hooked(Rule::PLAIN.waits(HookWait::Input).makes(HookMakes::Harmless)),
    call(44, "sendto", &[fd("fd"), inp("buf"), size("len"), named("flags", &MSG_FLAGS), inp("addr"), int("addr_len")], ByFdIf(waits3)).by(Handler::Send).moves(Transfer::WRITE.flags(3)).hooked(Rule::of(HookShape::Send).flags(3).writes().waits(HookWait::Output)),
    call(45, "recvfrom", &[fd("fd"), out("buf", Ret(2, 1)), size("len"), named("flags", &MSG_FLAGS), inout("addr", Deref(5)), inout("addr_len", LEN)], ByFdIf(waits3)).moves(Transfer::READ.flags(3)).plan(recvfrom).hooked(Rule::of(HookShape::Receive).flags(3)),
    call(46, "sendmsg", &[fd("fd"), inp("msg"), named("flags", &MSG_FLAGS)], ByFdIf(waits2)).by(Handler::Send).moves(Transfer::WRITE.of(MovedBytes::Message).flags(2)).hooked(Rule::of(HookShape::Send).flags(2).writes().waits(HookWait::Output)),
    call(47, "recvmsg", &[fd("fd"), via("msg", INOUT), named("flags", &MSG_FLAGS)], ByFdIf(waits2)).moves(Transfer::READ.of(MovedBytes::Message).flags(2)).plan(recvmsg).note("descriptors passed in control data are recorded as the numbers that they got").hooked_for(Rule::of(HookShape::Message).flags(2).waits(HookWait::Input), &[]),
    call(48, "shutdown", &[fd("fd"), int("how")], Never),
    call(49, "bind", &[fd("fd"), inp("addr"), int("len")], Never),
    call(50, "listen", &[fd("fd"), int("backlog")], Never),
    call(51, "getsockname", &[fd("fd"), inout("addr", Deref(2)), inout("len", LEN)], Never),
    call(52, "getpeername", &[fd("fd"), inout("addr", Deref(2)), inout("len", LEN)], Never),
    call(53, "socketpair", &[named("family", &SOCKET_FAMILIES), hex("type"), int("protocol"), always("fds", Fixed(8))], Never).note("the numbers of the descriptors are written before the sockets are made, which may fail").hooked(Rule::PLAIN.makes(HookMakes::Two)),
    call(54, "setsockopt", &[fd("fd"), int("level"), int("name"), inp("value"), int("len")], Never).plan(setsockopt).hooked_for(Rule::of(HookShape::Sockopt), &[]),
    call(55, "getsockopt", &[fd("fd"), int("level"), int("name"), via("value", INOUT), always("len", LEN)], Never).plan(getsockopt).hooked_for(Rule::of(HookShape::Sockopt), &[piece(3, Deref(4)), piece(4, Fixed(4))]),
    call(288, "accept4", &[fd("fd"), inout("addr", Deref(2)), inout("len", LEN), hex("flags")], ByFd).hooked(Rule::PLAIN.waits(HookWait::Input).makes(HookMakes::Harmless)),
    call(299, "recvmmsg", &[fd("fd"), via("msgs", INOUT), uint("count"), named("flags", &MSG_FLAGS), always("timeout", Fixed(16))], ByFdIf(waits3)).plan(recvmmsg).hooked_for(Rule::of(HookShape::Messages).flags(3).waits(HookWait::Input), &[]),
    call(307, "sendmmsg", &[fd("fd"), via("msgs", INOUT), uint("count"), named("flags", &MSG_FLAGS)], ByFdIf(waits3)).plan(sendmmsg).hooked_for(Rule::of(HookShape::Send).flags(3).writes().waits(HookWait::Output), &[piece(1, N32(2, 64))]),
];

/// Not MSG_DONTWAIT in the flags, argument 2.
fn waits2(call: &Call) -> bool {
    call.u32(2) & 0x40 == 0
}

/// The size of `struct sockaddr_storage`, more than which the kernel does not take or give.
const ADDR_MAX: u64 = 128;
/// The most messages that one call handles (UIO_MAXIOV).
const MSGS_MAX: u64 = 1024;
const MSGHDR: u64 = 56;
const MMSGHDR: u64 = 64;
const MSG_TRUNC: u32 = 0x20;

fn recvfrom(b: &mut Builder<'_>) -> Verdict {
    b.by_kinds();
    // With MSG_TRUNC the result is the length of the message, and a TCP socket writes none of it.
    if b.call.u32(3) & MSG_TRUNC != 0 {
        b.soften(Slot::Arg(1));
    }
    // The kernel finds out that the address's length is negative when it has received (EINVAL).
    if b.call.args[4] != 0 && b.u32_at(b.call.args[5]).is_some_and(|len| len.cast_signed() < 0) {
        b.soften(Slot::Arg(1));
        b.written_always(Slot::Arg(1));
    }
    Ok(())
}

fn recvmsg(b: &mut Builder<'_>) -> Verdict {
    let written = Written::Ranges(&[(8, 4), (40, 8), (48, 4)]);
    if let Some(hdr) = b.fields(1, MSGHDR, written, When::Success) {
        b.message(hdr, b.call.args[1], 0, b.call.u32(2), None);
    }
    Ok(())
}

fn recvmmsg(b: &mut Builder<'_>) -> Verdict {
    let count = u64::from(b.call.u32(2)).min(MSGS_MAX);
    let written = Written::Counted { count: Count::Ret, unit: MMSGHDR };
    if let Some(array) = b.fields(1, count * MMSGHDR, written, When::Success) {
        for i in 0..b.call.u32(2).min(1024) {
            b.message(array, b.call.args[1], u64::from(i) * MMSGHDR, b.call.u32(3), Some(i));
        }
    }
    b.always(4, 16);
    Ok(())
}

/// Only each message's `msg_len`: the rest of `struct mmsghdr` is input.
fn sendmmsg(b: &mut Builder<'_>) -> Verdict {
    let count = u64::from(b.call.u32(2)).min(MSGS_MAX);
    let written = Written::Every { stride: MMSGHDR, offset: MSGHDR, len: 4 };
    b.fields(1, count * MMSGHDR, written, When::Success);
    Ok(())
}

impl Builder<'_> {
    /// What a `struct msghdr` at `at` bytes of piece `parent` (whose home is `home`) points to. `index` is
    /// its place in an array of messages, each of which has its own count of bytes.
    fn message(&mut self, parent: usize, home: u64, at: u64, flags: u32, index: Option<u32>) {
        let base = home.wrapping_add(at);
        let Some(hdr) = self.bytes::<56>(base) else { return };
        let word = |o: usize| hdr[o..o + 8].try_into().map_or(0, u64::from_le_bytes);
        let name_len = word(8) & 0xffff_ffff;
        let slot = |offset: u64| Slot::In { piece: parent, offset: at + offset };
        let field = |offset: u64| match index {
            Some(above) => Count::FieldIf { above, piece: parent, offset: at + offset },
            None => Count::Field { piece: parent, offset: at + offset, width: 4 },
        };
        let (when, data) = match index {
            Some(i) => (When::Above(i), field(MSGHDR)),
            None => (When::Success, Count::Ret),
        };
        let counted = |count| Written::Counted { count, unit: 1 };
        self.piece(slot(0), word(0), name_len.min(ADDR_MAX), INOUT, counted(field(8)), when);
        // There is padding between control messages, which the kernel skips; and it may fail after some.
        let control_when = if index.is_some() { when } else { When::Always };
        let control_len = word(40).min(i32::MAX.unsigned_abs().into());
        self.piece(slot(32), word(32), control_len, INOUT, counted(field(40)), control_when);
        let (iov, count) = (word(16), word(24));
        if count > super::vectors::IOV_MAX {
            return;
        }
        if let Some(array) = self.piece(slot(16), iov, count * 16, IN, Written::Nothing, when) {
            let dir = if flags & MSG_TRUNC == 0 { OUT } else { INOUT };
            self.iov(array, iov, count, index.unwrap_or(0), data, when, dir);
        }
    }
}

const SOL_IP: u32 = 0;
const SOL_SOCKET: u32 = 1;
const SOL_TCP: u32 = 6;
const SOL_IPV6: u32 = 41;
const SOL_PACKET: u32 = 263;
const SOL_XDP: u32 = 283;

/// The length is in bytes, but for SO_GET_FILTER (26), where it counts instructions of 8 bytes.
fn getsockopt(b: &mut Builder<'_>) -> Verdict {
    let (level, name) = (b.call.u32(1), b.call.u32(2));
    match (level, name) {
        (SOL_TCP, 35) => return Err(Stop::Refuse(ENOPROTOOPT, "TCP_ZEROCOPY_RECEIVE remaps memory")),
        (SOL_IP, 128..=131) => return Err(Stop::Slow("ebtables options hold pointers")),
        _ => {}
    }
    let unit = if (level, name) == (SOL_SOCKET, 26) { 8 } else { 1 };
    let room = b.u32_at(b.call.args[4]).unwrap_or(0);
    let Some(len) = b.always(4, 4) else { return Ok(()) };
    if room > i32::MAX.unsigned_abs() {
        return Ok(());
    }
    let count = Count::Field { piece: len, offset: 0, width: 4 };
    // A few write, and fail then (IPT_SO_GET_INFO).
    b.fields(3, u64::from(room) * unit, Written::Counted { count, unit }, When::Always);
    Ok(())
}

fn setsockopt(b: &mut Builder<'_>) -> Verdict {
    match (b.call.u32(1), b.call.u32(2)) {
        (SOL_PACKET, 5 | 13) | (SOL_XDP, _) => {
            Err(Stop::Refuse(ENOPROTOOPT, "the kernel writes a mapped packet ring at any time"))
        }
        // The counters of the rules that there were.
        (SOL_IP | SOL_IPV6, 64) | (SOL_IP, 96 | 128..=131) => {
            Err(Stop::Slow("tables of rules hold pointers"))
        }
        _ => Ok(()),
    }
}
