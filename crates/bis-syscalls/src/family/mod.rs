//! The rows of the table, a file for each family of calls, with the functions that know the memory of those
//! calls whose arguments' kinds are not enough. Here is only what the families share: the short words in
//! which rows are written.

use crate::hooks::Hooked;
use crate::model::{
    Arg, Blocks, Call, Handler, How, Kind, Names, PlanFn, Row, Size,
    Start::{Behind, Given},
    Target,
};
use crate::plan::Dir;

pub(crate) use crate::errno::*;
pub(crate) use crate::hooks::{HookMakes, HookShape, HookWait, Rule, piece};
pub(crate) use crate::plan::{Builder, Stop, Verdict};
pub(crate) use Blocks::{ByFd, ByFdIf, If, May, Never};
pub(crate) use Size::{Arg as N, Arg32 as N32, Deref, Fixed, Ret, Ret32};

pub(crate) const IN: Dir = Dir::In;
pub(crate) const OUT: Dir = Dir::Out;
pub(crate) const INOUT: Dir = Dir::InOut;

const fn a(name: &'static str, kind: Kind) -> Arg {
    Arg { name, kind }
}

macro_rules! words {
    ($($f:ident $k:ident),*) => {$(pub(crate) const fn $f(name: &'static str) -> Arg { a(name, Kind::$k) })*};
}
words!(int Int, uint Uint, long Long, size Size, hex Hex, mode Mode, fd Fd, dirfd DirFd, sig Sig, path Path,
    inp In, ptr Ptr);

macro_rules! sized {
    ($($f:ident $k:ident),*) => {$(
        pub(crate) const fn $f(name: &'static str, size: Size) -> Arg { a(name, Kind::$k(size)) }
    )*};
}
sized!(out Out, inout InOut, always Always, rem Rem);

pub(crate) const fn via(name: &'static str, dir: Dir) -> Arg {
    a(name, Kind::Via(dir))
}

pub(crate) const fn named(name: &'static str, names: &'static Names) -> Arg {
    a(name, Kind::Names(names))
}

/// A call that the plan says all about.
pub(crate) const fn call(nr: u64, name: &'static str, args: &'static [Arg], blocks: Blocks) -> Row {
    Row {
        nr,
        name,
        args,
        blocks,
        how: How::Plain,
        note: "",
        family: None,
        target: None,
        restarts: true,
        hooked: Hooked::ByKinds,
    }
}

/// A call that is refused.
pub(crate) const fn refused(
    nr: u64,
    name: &'static str,
    args: &'static [Arg],
    errno: i32,
    note: &'static str,
) -> Row {
    let how = How::Refused(errno);
    Row {
        nr,
        name,
        args,
        blocks: Never,
        how,
        note,
        family: None,
        target: None,
        restarts: true,
        hooked: Hooked::ByKinds,
    }
}

/// A number that this kernel has no call for any more (or never had), so that it answers ENOSYS by itself.
pub(crate) const fn gone(nr: u64, name: &'static str) -> Row {
    let note = "Linux 6.18 itself answers ENOSYS";
    Row {
        nr,
        name,
        args: &[],
        blocks: Never,
        how: How::Plain,
        note,
        family: None,
        target: None,
        restarts: true,
        hooked: Hooked::ByKinds,
    }
}

impl Row {
    const fn by(mut self, handler: Handler) -> Row {
        self.how = How::Recorder(handler);
        self
    }

    const fn to(mut self, target: Target) -> Row {
        self.target = Some(target);
        self
    }

    /// Its result is EINTR whatever the signal does that has interrupted it.
    const fn never_restarted(mut self) -> Row {
        self.restarts = false;
        self
    }

    const fn plan(mut self, family: PlanFn) -> Row {
        self.family = Some(family);
        self
    }

    const fn note(mut self, note: &'static str) -> Row {
        self.note = note;
        self
    }
}

mod fcntl;
mod files;
mod futex;
mod ioctl;
mod ipc;
mod links;
mod memory;
mod mounts;
mod poll;
mod prctl;
mod process;
mod sched;
mod security;
mod signals;
mod sockets;
mod system;
mod time;
mod vectors;

/// The rows of all families, in no order.
pub(crate) static FAMILIES: &[&[Row]] = &[
    fcntl::ROWS,
    files::ROWS,
    futex::ROWS,
    ioctl::ROWS,
    ipc::ROWS,
    links::ROWS,
    memory::ROWS,
    mounts::ROWS,
    poll::ROWS,
    prctl::ROWS,
    process::ROWS,
    sched::ROWS,
    security::ROWS,
    signals::ROWS,
    sockets::ROWS,
    system::ROWS,
    time::ROWS,
    vectors::ROWS,
];

/// Not MSG_DONTWAIT (0x40) in the flags, argument 3.
pub(crate) fn waits3(call: &Call) -> bool {
    call.u32(3) & 0x40 == 0
}

pub(crate) use ioctl::{REQUESTS as IOCTL_REQUESTS, name as ioctl_name};
