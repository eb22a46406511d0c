//! The short words in which rows are written.

pub(super) use crate::hooks::Hooked;
pub(super) use crate::model::{
    Arg, Blocks, Call, Handler, How, Kind, Names, PlanFn, Row, Size,
    Start::{Behind, Given},
    Target,
};
pub(super) use crate::plan::Dir;

pub(super) use crate::errno::*;
pub(super) use crate::hooks::{HookMakes, HookShape, HookWait, Rule, piece};
pub(super) use crate::plan::{Builder, Stop, Verdict};
pub(super) use Blocks::{ByFd, ByFdIf, If, May, Never};
pub(super) use Size::{Arg as N, Arg32 as N32, Deref, Fixed, Ret, Ret32};

pub(super) const IN: Dir = Dir::In;
pub(super) const OUT: Dir = Dir::Out;
pub(super) const INOUT: Dir = Dir::InOut;

const fn a(name: &'static str, kind: Kind) -> Arg {
    Arg { name, kind }
}

macro_rules! words {
    ($($f:ident $k:ident),*) => {$(pub(super) const fn $f(name: &'static str) -> Arg { a(name, Kind::$k) })*};
}
words!(int Int, uint Uint, long Long, size Size, hex Hex, mode Mode, fd Fd, dirfd DirFd, sig Sig, path Path,
    inp In, ptr Ptr);

macro_rules! sized {
    ($($f:ident $k:ident),*) => {$(
        pub(super) const fn $f(name: &'static str, size: Size) -> Arg { a(name, Kind::$k(size)) }
    )*};
}
sized!(out Out, inout InOut, always Always, rem Rem);

pub(super) const fn via(name: &'static str, dir: Dir) -> Arg {
    a(name, Kind::Via(dir))
}

pub(super) const fn named(name: &'static str, names: &'static Names) -> Arg {
    a(name, Kind::Names(names))
}

/// A call that the plan says all about.
pub(super) const fn call(nr: u64, name: &'static str, args: &'static [Arg], blocks: Blocks) -> Row {
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
pub(super) const fn refused(
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
pub(super) const fn gone(nr: u64, name: &'static str) -> Row {
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
    pub(super) const fn by(mut self, handler: Handler) -> Row {
        self.how = How::Recorder(handler);
        self
    }

    pub(super) const fn to(mut self, target: Target) -> Row {
        self.target = Some(target);
        self
    }

    /// Its result is EINTR whatever the signal does that has interrupted it.
    pub(super) const fn never_restarted(mut self) -> Row {
        self.restarts = false;
        self
    }

    pub(super) const fn plan(mut self, family: PlanFn) -> Row {
        self.family = Some(family);
        self
    }

    pub(super) const fn note(mut self, note: &'static str) -> Row {
        self.note = note;
        self
    }
}

/// Not MSG_DONTWAIT (0x40) in the flags, argument 3.
pub(super) fn waits3(call: &Call) -> bool {
    call.u32(3) & 0x40 == 0
}
