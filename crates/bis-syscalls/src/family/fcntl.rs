//! fcntl: which commands take a pointer, and to what.

use super::words::*;
use crate::describe::names::FCNTL_COMMANDS;

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(72, "fcntl", &[fd("fd"), named("command", &FCNTL_COMMANDS), hex("arg")], If(waits)).plan(fcntl).hooked_for(Rule::of(HookShape::Fcntl), &[]),
];

/// F_SETLKW and F_OFD_SETLKW.
fn waits(call: &Call) -> bool {
    matches!(call.u32(1), 7 | 38)
}

fn fcntl(b: &mut Builder<'_>) -> Verdict {
    match b.call.u32(1) {
        // F_GETLK, F_OFD_GETLK: struct flock.
        5 | 36 => b.inout(2, 32),
        // F_GETOWN_EX; F_GETOWNER_UIDS: two 4-byte numbers.
        16 | 17 => b.out(2, 8),
        // F_GET_RW_HINT, F_GET_FILE_RW_HINT.
        1035 | 1037 => b.out(2, 8),
        // Numbers, or memory that is only read.
        0..=4 | 6..=15 | 37 | 38 | 1024..=1034 | 1036 | 1038 => None,
        _ => return Err(Stop::Slow("unknown fcntl command")),
    };
    Ok(())
}
