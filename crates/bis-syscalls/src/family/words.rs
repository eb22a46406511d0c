//! The short words in which rows are written.

pub(super) use crate::hooks::Hooked;
pub(super) use crate::model::{
    Arg, Blocks, Call, Handler, How, Kind, Names, PlanFn, Row, Size,
    Start::{Behind, Given},
    Target,
};
pub(super) use crate::plan::Dir;

pub(super) use crate::arguments::{
    LimitCall, MakesTask, MovedBytes, OpenFlags, Opens, Receiver, Sleep, SleepFn, Transfer, Vdso,
};
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
        transfer: None,
        makes: None,
        opens: None,
        receiver: None,
        limit: None,
        sets_timer: false,
        sleep: None,
        fails_halfway: false,
        ignores_lost_time: false,
        vdso: None,
        takes_signals: false,
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
    Row { how: How::Refused(errno), note, ..call(nr, name, args, Never) }
}

/// A number that this kernel has no call for any more (or never had), so that it answers ENOSYS by itself.
pub(super) const fn gone(nr: u64, name: &'static str) -> Row {
    call(nr, name, &[], Never).note("Linux 6.18 itself answers ENOSYS")
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

    pub(super) const fn moves(mut self, transfer: Transfer) -> Row {
        self.transfer = Some(transfer);
        self
    }

    pub(super) const fn makes(mut self, makes: MakesTask) -> Row {
        self.makes = Some(makes);
        self
    }

    pub(super) const fn opens(mut self, opens: Opens) -> Row {
        self.opens = Some(opens);
        self
    }

    pub(super) const fn sends_to(mut self, receiver: Receiver) -> Row {
        self.receiver = Some(receiver);
        self
    }

    pub(super) const fn limits(mut self, limit: LimitCall) -> Row {
        self.limit = Some(limit);
        self
    }

    pub(super) const fn sets_timer(mut self) -> Row {
        self.sets_timer = true;
        self
    }

    pub(super) const fn takes_signals(mut self) -> Row {
        self.takes_signals = true;
        self
    }

    pub(super) const fn sleeps(mut self, sleep: SleepFn) -> Row {
        self.sleep = Some(sleep);
        self
    }

    pub(super) const fn fails_halfway(mut self) -> Row {
        self.fails_halfway = true;
        self
    }

    pub(super) const fn ignores_lost_time(mut self) -> Row {
        self.ignores_lost_time = true;
        self
    }

    pub(super) const fn in_vdso(mut self, vdso: Vdso) -> Row {
        self.vdso = Some(vdso);
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
