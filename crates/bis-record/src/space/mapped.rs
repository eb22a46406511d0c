//! Mappings: the files behind them, and how far stacks may grow.

use std::{fs::File, os::unix::fs::MetadataExt};

use bis_trace::types::{Addr, Fd, PAGE, Tid};
use bis_tracee::{maps::Mapping, proc, sys};

/// Device and inode of what is mapped.
pub type Key = (u64, u64);

/// Where the stack's growth is not limited, replay maps this much of it.
const STACK_BYTES_MAX: u64 = 1 << 30;

/// The file behind a mapping. Its name may be gone or name another file by now, so the inode must agree.
pub fn open_mapped(tid: Tid, mapping: &Mapping) -> Option<File> {
    let by_range = proc::path(tid, &format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    if let Ok(file) = File::open(by_range) {
        return Some(file);
    }
    if !mapping.name.starts_with(b"/") {
        return None;
    }
    let file = File::open(proc::seen_by(tid, Fd::CURRENT_FOLDER, &mapping.name)).ok()?;
    (file.metadata().ok()?.ino() == mapping.inode).then_some(file)
}

/// The limit of the main thread's stack, bytes. None: there is no such task.
pub fn stack_limit(tid: Tid) -> Option<u64> {
    let limit = sys::soft_limit(tid, libc::RLIMIT_STACK)?;
    Some(limit.min(STACK_BYTES_MAX) & !(PAGE - 1))
}

/// As [`stack_limit`], and where that is not known, the most that there is.
pub fn stack_limit_or_most(tid: Tid) -> u64 {
    stack_limit(tid).unwrap_or(STACK_BYTES_MAX & !(PAGE - 1))
}

/// The lowest address to which a stack mapping could grow: its limit, or 1 MiB (the kernel's guard gap) above
/// the mapping below it.
pub fn stack_floor(mappings: &[Mapping], stack: &Mapping, limit: u64) -> Addr {
    let below = mappings.iter().filter(|m| m.end <= stack.start).map(|m| m.end).max().unwrap_or_default();
    stack.end.saturating_sub(limit).max(below + (1 << 20)).min(stack.start)
}

pub fn key_of_mapping(mapping: &Mapping) -> Key {
    (libc::makedev(mapping.device.0, mapping.device.1), mapping.inode)
}
