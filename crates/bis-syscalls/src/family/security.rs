//! Capabilities, keys, security modules, sandboxes, and what is refused because it would undo the recorder.

use super::words::*;
use crate::plan::{Count, Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(101, "ptrace", &[int("request"), int("pid"), ptr("addr"), ptr("data")], Never).by(Handler::Ptrace).note("served by the recorder, among the processes of the recording; not debug registers for instructions (ENOSPC), PTRACE_O_SUSPEND_SECCOMP (EPERM), writes to memory that is shared (EIO)"),
    call(125, "capget", &[via("header", INOUT), via("data", OUT)], Never).plan(capget),
    call(126, "capset", &[via("header", INOUT), inp("data")], Never).plan(capset),
    call(248, "add_key", &[path("type"), path("description"), inp("payload"), size("len"), int("keyring")], Never),
    call(249, "request_key", &[path("type"), path("description"), path("info"), int("keyring")], May),
    call(250, "keyctl", &[int("command"), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")], May).plan(keyctl),
    call(317, "seccomp", &[uint("operation"), hex("flags"), via("args", INOUT)], Never).by(Handler::Seccomp).plan(seccomp).note("a filter with a listener is refused with EINVAL, and SECCOMP_RET_USER_NOTIF said not to be there, as before Linux 5.0"),
    refused(321, "bpf", &[int("command"), ptr("attr"), uint("size")], EPERM, "maps can be mapped and change at any time; as without CAP_BPF"),
    call(444, "landlock_create_ruleset", &[inp("attr"), size("size"), hex("flags")], Never),
    call(445, "landlock_add_rule", &[fd("ruleset"), int("type"), inp("attr"), hex("flags")], Never),
    call(446, "landlock_restrict_self", &[fd("ruleset"), hex("flags")], Never),
    call(459, "lsm_get_self_attr", &[uint("attr"), via("contexts", OUT), always("size", Fixed(4)), hex("flags")], Never).plan(|b| sized(b, 1, 2)),
    call(460, "lsm_set_self_attr", &[uint("attr"), inp("context"), uint("size"), hex("flags")], Never),
    call(461, "lsm_list_modules", &[via("ids", OUT), always("size", Fixed(4)), hex("flags")], Never).plan(|b| sized(b, 0, 1)),
];

/// The header's version says how long the data is. With a version that it does not know the kernel writes its
/// own into the header.
fn capget(b: &mut Builder<'_>) -> Verdict {
    capset(b)?;
    match b.u32_at(b.call.args[0]) {
        Some(0x1998_0330) => b.out(1, 12),
        Some(0x2007_1026 | 0x2008_0522) => b.out(1, 24),
        _ => None,
    };
    Ok(())
}

/// The header is the version and a process id.
fn capset(b: &mut Builder<'_>) -> Verdict {
    b.fields(0, 8, Written::Ranges(&[(0, 4)]), When::Always);
    Ok(())
}

/// A buffer (argument `buf`) whose room is in memory (argument `len`), where the kernel stores what it used
/// or would need.
fn sized(b: &mut Builder<'_>, buf: u8, len: u8) -> Verdict {
    let room = b.u32_at(b.call.args[usize::from(len)]).unwrap_or(0);
    if let Some(piece) = b.always(len, 4) {
        let count = Count::Field { piece, offset: 0, width: 4 };
        b.fields(buf, room.into(), Written::Counted { count, unit: 1 }, When::Success);
    }
    Ok(())
}

/// GET_NOTIF_SIZES (3) writes three 2-byte sizes; the others only read.
fn seccomp(b: &mut Builder<'_>) -> Verdict {
    if b.call.u32(0) == 3 {
        b.out(2, 6);
    }
    Ok(())
}

fn keyctl(b: &mut Builder<'_>) -> Verdict {
    let ret = Written::Counted { count: Count::Ret, unit: 1 };
    let room = |i: usize| b.call.args[i].min(crate::plan::RW_MAX);
    match b.call.u32(0) {
        // DESCRIBE, READ, GET_SECURITY, DH_COMPUTE: the result is the length, whatever the room.
        6 | 11 | 17 | 23 => b.fields(2, room(3), ret, When::Success),
        // PKEY_QUERY.
        24 => b.inout(4, 48),
        // PKEY_ENCRYPT, PKEY_DECRYPT, PKEY_SIGN: the room is at 8 in `struct keyctl_pkey_params`.
        25..=27 => {
            let room = b.u32_at(b.call.args[1].wrapping_add(8)).unwrap_or(0);
            b.piece(Slot::Arg(4), b.call.args[4], room.into(), INOUT, ret, When::Success)
        }
        // CAPABILITIES.
        31 => b.fields(1, room(2), ret, When::Success),
        0..=5 | 7..=10 | 12..=16 | 18..=22 | 28..=30 | 32 => None,
        _ => return Err(Stop::Slow("unknown keyctl command")),
    };
    Ok(())
}
