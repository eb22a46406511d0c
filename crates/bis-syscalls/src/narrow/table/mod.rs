//! The i386 table: every number with its name, and how it is translated. A number has one row.
//!
//! Rows with `plain` are the same call with the same arguments: this is what the kernel makes of most, too.

use std::sync::LazyLock;

use super::room::{Made, Maker};
use super::time::Width::{Old, Wide};
use super::{
    fcntl, files, ids, ioctl, ipc, messages, own, poll, process, signals, sockets, system, time, vectors,
};
use crate::errno::ENOSYS;

mod high;
mod low;

/// One number of the i386 table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) nr: u32,
    pub(super) name: &'static str,
    pub(super) how: How,
}

/// How a call is translated.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// It is this x86-64 call with the same arguments.
    Plain(u64),
    By(fn(&mut Maker<'_>) -> Made),
    Refused(i32, &'static str),
    /// The kernel has no such call (any more).
    Gone,
}

const fn plain(nr: u32, name: &'static str, wide: u64) -> Row {
    Row { nr, name, how: How::Plain(wide) }
}

const fn by(nr: u32, name: &'static str, make: fn(&mut Maker<'_>) -> Made) -> Row {
    Row { nr, name, how: How::By(make) }
}

const fn no(nr: u32, name: &'static str, why: &'static str) -> Row {
    Row { nr, name, how: How::Refused(ENOSYS, why) }
}

const fn gone(nr: u32, name: &'static str) -> Row {
    Row { nr, name, how: How::Gone }
}

// Why calls are refused.
const LISTS: &str = "the kernel would walk the list of mutexes in the 64-bit layout; C libraries do without";
const RARE: &str = "a rare call whose structures are not known for 32-bit programs";
const OLD: &str = "a call of the first Linux, with structures that nothing uses";
const NUMA: &str = "sets of memory nodes are not known for 32-bit programs; as on a kernel without NUMA";
const SEGMENTS: &str = "segments are state that replay does not rebuild";
const OTHERS: &str = "other processes are looked at by structures that are not known for 32-bit programs";
const AIO: &str = "the kernel writes completions at any time; as on a kernel without CONFIG_AIO";
const RINGS: &str = "the kernel writes the rings at any time; as on a kernel without CONFIG_IO_URING";
const KEYS: &str = "keys are not known for 32-bit programs; as on a kernel without CONFIG_KEYS";
const KERNEL: &str = "it is refused to 64-bit programs, too";

static BY_NUMBER: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
    let mut slots = Vec::new();
    for row in rows() {
        let at = usize::try_from(row.nr).unwrap_or(0);
        if slots.len() <= at {
            slots.resize(at + 1, None);
        }
        slots[at] = Some(row);
    }
    slots
});

/// All rows, by number.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    low::ROWS.iter().chain(high::ROWS)
}

/// The row of a number; none for one that the table does not have.
pub(super) fn row(nr: u32) -> Option<&'static Row> {
    usize::try_from(nr).ok().and_then(|nr| BY_NUMBER.get(nr).copied().flatten())
}
