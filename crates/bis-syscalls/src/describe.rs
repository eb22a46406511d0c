//! A call as a line of text, from its registers alone: memory is not looked at, so a path is an address.

pub(crate) mod names;

use crate::errno::errno_name;
use crate::family::ioctl_name;
use crate::model::{Call, Kind, Names};
use std::fmt::Write;

/// The call as a line of text, like `openat(AT_FDCWD, 0x7f..., O_RDONLY|O_CLOEXEC, 0) = 3`. `ret` is the
/// kernel's result (a negated errno on failure); leave it out for a call that has not returned.
pub fn describe(call: &Call, ret: Option<i64>) -> String {
    let mut text = String::new();
    let narrow = crate::narrow_number(call.nr).and_then(crate::narrow::name);
    // A call of the other table is shown with the arguments' kinds where it has the same ones.
    let same = narrow.and_then(|_| crate::narrow::same_as(call.nr));
    match crate::row(same.unwrap_or(call.nr)) {
        Some(row) => {
            text.push_str(narrow.unwrap_or(row.name));
            text.push('(');
            for (i, arg) in row.args.iter().enumerate() {
                if i > 0 {
                    text.push_str(", ");
                }
                match (row.nr, i) {
                    (16, 1) => match ioctl_name(call.u32(1)) {
                        Some(name) => text.push_str(name),
                        None => put(&mut text, format_args!("{:#x}", call.u32(1))),
                    },
                    _ => show(&mut text, call, i, arg.kind),
                }
            }
            text.push(')');
        }
        None if call.nr == crate::own::NUMBER && crate::own::name_of(call.args[0]).is_some() => {
            let name = crate::own::name_of(call.args[0]).unwrap_or(crate::own::NAME);
            put(&mut text, format_args!("{name}({:#x})", call.args[1]));
        }
        None if call.nr == crate::own::NUMBER => {
            put(&mut text, format_args!("{}({}, {:#x})", crate::own::NAME, call.args[0], call.args[1]));
        }
        None => {
            let args: Vec<String> = call.args.iter().map(|arg| format!("{arg:#x}")).collect();
            match narrow {
                Some(name) => put(&mut text, format_args!("{name}({})", args.join(", "))),
                None => put(&mut text, format_args!("syscall_{}({})", call.nr, args.join(", "))),
            }
        }
    }
    match ret {
        None => {}
        Some(ret @ -4095..=-1) => {
            let errno = i32::try_from(-ret).unwrap_or(0);
            match errno_name(errno) {
                Some(name) => put(&mut text, format_args!(" = -1 {name}")),
                None => put(&mut text, format_args!(" = -1 errno {errno}")),
            }
        }
        // Addresses are far above any count or descriptor.
        Some(ret) if !(0..=0xffff_ffff).contains(&ret) => put(&mut text, format_args!(" = {ret:#x}")),
        Some(ret) => put(&mut text, format_args!(" = {ret}")),
    }
    text
}

fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(args);
}

#[expect(clippy::cast_possible_wrap, reason = "the kernel's own reading of the argument")]
fn show(text: &mut String, call: &Call, i: usize, kind: Kind) {
    let value = call.args[i];
    match kind {
        Kind::DirFd if call.i32(i) == -100 => text.push_str("AT_FDCWD"),
        Kind::Int | Kind::Fd | Kind::DirFd => put(text, format_args!("{}", call.i32(i))),
        Kind::Uint => put(text, format_args!("{}", call.u32(i))),
        Kind::Long => put(text, format_args!("{}", value as i64)),
        Kind::Size => put(text, format_args!("{value}")),
        Kind::Mode => put(text, format_args!("{:#o}", call.u32(i))),
        Kind::Sig => match usize::try_from(value).ok().and_then(|n| names::SIGNALS.get(n)) {
            Some(name) => text.push_str(name),
            None => put(text, format_args!("{value}")),
        },
        Kind::Names(names) => name(text, names, value),
        Kind::Hex => put(text, format_args!("{value:#x}")),
        _ if value == 0 => text.push_str("NULL"),
        _ => put(text, format_args!("{value:#x}")),
    }
}

fn name(text: &mut String, names: &Names, value: u64) {
    // These arguments are ints, with whatever in the upper half; but for mmap's, which are never so large.
    let mut left = value & 0xffff_ffff;
    if !names.bits {
        match names.names.iter().find(|(n, _)| *n == left) {
            Some((_, name)) => text.push_str(name),
            None => put(text, format_args!("{left:#x}")),
        }
        return;
    }
    let mut first = true;
    for &(bits, name) in names.names {
        if bits != 0 && left & bits == bits {
            if !first {
                text.push('|');
            }
            text.push_str(name);
            left &= !bits;
            first = false;
        }
    }
    if left != 0 || first {
        put(text, format_args!("{}{left:#x}", if first { "" } else { "|" }));
    }
}
