//! What hooks change of the address space, as their log says it. Values.

use bis_agent::hooks::{self, Change, entries};
use bis_trace::types::{Fd, FileId};

/// What a hook will change.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub change: Change,
    /// Of a file that it maps: the task's own descriptor.
    pub fd: Option<Fd>,
}

impl Due {
    /// The arguments with which the call is made.
    pub fn args(&self) -> [u64; 6] {
        let mut args = self.change.args();
        if let Some(fd) = self.fd {
            args[4] = fd.arg();
        }
        args
    }
}

/// What a log of hooked calls changes of the address space, in order.
pub(crate) fn changes(log: &[u8]) -> impl Iterator<Item = Change> + '_ {
    entries(log).filter_map(|entry| entry.change()).filter(Change::is_made_again)
}

/// The files that hooks map, and where in their log the number of each is.
pub(crate) fn mapped_files(log: &[u8]) -> impl Iterator<Item = (u64, FileId)> + '_ {
    hooks::mapped_files(log).map(|(at, file)| (at, file_of(file)))
}

fn file_of(number: u64) -> FileId {
    FileId(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The file that a hook maps.
pub(crate) fn mapped_file(change: &Change) -> Option<FileId> {
    change.file().map(file_of)
}
