//! Mounts, file systems as objects, and quotas.

use super::words::*;
use crate::plan::{Count, Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(155, "pivot_root", &[path("new"), path("old")], Never).traced("what a relative path means"),
    call(165, "mount", &[path("source"), path("target"), path("type"), hex("flags"), inp("data")], Never).traced("it changes all of the machine"),
    call(166, "umount2", &[path("target"), hex("flags")], Never).traced("it changes all of the machine"),
    call(179, "quotactl", &[hex("command"), path("special"), int("id"), via("addr", INOUT)], Never).plan(|b| quota(b, 0)),
    call(428, "open_tree", &[dirfd("dirfd"), path("path"), hex("flags")], Never),
    call(429, "move_mount", &[dirfd("from_dirfd"), path("from"), dirfd("to_dirfd"), path("to"), hex("flags")], Never),
    call(430, "fsopen", &[path("type"), hex("flags")], Never),
    call(431, "fsconfig", &[fd("fd"), uint("command"), path("key"), inp("value"), int("aux")], Never),
    call(432, "fsmount", &[fd("fd"), hex("flags"), hex("attr_flags")], Never),
    call(433, "fspick", &[dirfd("dirfd"), path("path"), hex("flags")], Never),
    call(442, "mount_setattr", &[dirfd("dirfd"), path("path"), hex("flags"), inp("attr"), size("size")], Never),
    call(443, "quotactl_fd", &[fd("fd"), hex("command"), int("id"), via("addr", INOUT)], Never).plan(|b| quota(b, 1)),
    call(457, "statmount", &[inp("request"), via("buf", OUT), size("size"), hex("flags")], Never).plan(statmount),
    call(458, "listmount", &[inp("request"), out("ids", Ret(2, 8)), size("count"), hex("flags")], Never),
    call(467, "open_tree_attr", &[dirfd("dirfd"), path("path"), hex("flags"), inp("attr"), size("size")], Never),
];

/// The command is the upper 24 bits of argument `at`; the address is argument 3.
fn quota(b: &mut Builder<'_>, at: usize) -> Verdict {
    match b.call.u32(at) >> 8 {
        // Q_GETFMT; Q_GETINFO; Q_GETQUOTA and Q_GETNEXTQUOTA.
        0x80_0004 => b.out(3, 4),
        0x80_0005 => b.inout(3, 24),
        0x80_0007 | 0x80_0009 => b.inout(3, 72),
        // Q_SYNC, Q_QUOTAON, Q_QUOTAOFF, Q_SETINFO, Q_SETQUOTA: read only.
        0x80_0001..=0x80_0003 | 0x80_0006 | 0x80_0008 => None,
        _ => return Err(Stop::Slow("unknown quotactl command")),
    };
    Ok(())
}

/// The answer begins with its own length, strings included.
fn statmount(b: &mut Builder<'_>) -> Verdict {
    let len = b.call.args[2].min(crate::plan::RW_MAX);
    // It is the call's only piece.
    let count = Count::Field { piece: 0, offset: 0, width: 4 };
    let written = Written::Counted { count, unit: 1 };
    b.piece(Slot::Arg(1), b.call.args[1], len, INOUT, written, When::Success);
    Ok(())
}
