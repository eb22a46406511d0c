//! Waiting for descriptors: poll, select, epoll, eventfd.

use super::words::*;
use crate::plan::{When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(7, "poll", &[via("fds", INOUT), uint("count"), int("timeout_ms")], If(poll_waits)).plan(poll).hooked_for(Rule::of(HookShape::Poll), &[piece(0, N32(1, 8))]),
    call(23, "select", &[int("count"), via("read", INOUT), via("write", INOUT), via("except", INOUT), always("timeout", Fixed(16))], May).ignores_lost_time().plan(select).hooked_for(Rule::of(HookShape::Select), &[]),
    call(213, "epoll_create", &[int("size")], Never),
    gone(214, "epoll_ctl_old"),
    gone(215, "epoll_wait_old"),
    call(232, "epoll_wait", &[fd("epfd"), out("events", Ret32(2, 12)), int("max"), int("timeout_ms")], If(epoll_waits)).never_restarted().hooked(Rule::of(HookShape::Epoll)),
    call(233, "epoll_ctl", &[fd("epfd"), int("op"), fd("fd"), inp("event")], Never),
    call(270, "pselect6", &[int("count"), via("read", INOUT), via("write", INOUT), via("except", INOUT), always("timeout", Fixed(16)), inp("mask")], May).ignores_lost_time().plan(select).hooked_for(Rule::of(HookShape::Select), &[]),
    call(271, "ppoll", &[via("fds", INOUT), uint("count"), always("timeout", Fixed(16)), inp("mask"), size("set_size")], May).ignores_lost_time().plan(poll).hooked_for(Rule::of(HookShape::Ppoll), &[piece(0, N32(1, 8)), piece(2, Fixed(16))]),
    call(281, "epoll_pwait", &[fd("epfd"), out("events", Ret32(2, 12)), int("max"), int("timeout_ms"), inp("mask"), size("set_size")], If(epoll_waits)).never_restarted().hooked(Rule::of(HookShape::Epoll)),
    call(284, "eventfd", &[uint("initial")], Never).hooked(Rule::PLAIN.makes(HookMakes::Harmless)),
    call(290, "eventfd2", &[uint("initial"), hex("flags")], Never).hooked(Rule::PLAIN.makes(HookMakes::Harmless)),
    call(291, "epoll_create1", &[hex("flags")], Never),
    call(441, "epoll_pwait2", &[fd("epfd"), out("events", Ret32(2, 12)), int("max"), inp("timeout"), inp("mask"), size("set_size")], May).never_restarted().hooked(Rule::of(HookShape::Epoll)),
];

/// Four times the kernel's default limit of descriptors; with more than the process's limit poll fails.
const FDS_MAX: u32 = 1 << 22;

fn poll_waits(call: &Call) -> bool {
    call.i32(2) != 0
}

fn epoll_waits(call: &Call) -> bool {
    call.i32(3) != 0
}

/// Only `revents`, the last 2 of each 8 bytes; also when a signal interrupts the call. ppoll's timeout is
/// the time left.
fn poll(b: &mut Builder<'_>) -> Verdict {
    if b.call.u32(1) > FDS_MAX {
        return Err(Stop::Slow("more descriptors than a process can have"));
    }
    let revents = Written::Every { stride: 8, offset: 6, len: 2 };
    b.fields(0, u64::from(b.call.u32(1)) * 8, revents, When::Always);
    if b.row.nr == 271 {
        b.always(2, 16);
    }
    Ok(())
}

/// The sets are whole 8-byte words. The kernel lowers the count to the size of the process's table of
/// descriptors, so that it may leave the end of a set alone. The timeout becomes the time left.
fn select(b: &mut Builder<'_>) -> Verdict {
    if let Ok(count) = u64::try_from(b.call.i32(0)) {
        for i in 1..=3 {
            b.inout(i, count.div_ceil(64) * 8);
        }
    }
    b.always(4, 16);
    Ok(())
}
