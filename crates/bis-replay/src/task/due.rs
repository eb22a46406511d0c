//! What hooks change of the address space, as their log says it. Values.

use bis_agent::hooks::{Change, entries};
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

/// The file that a hook maps.
pub(crate) fn mapped_file(change: &Change) -> Option<FileId> {
    Some(FileId(u32::try_from(change.file()?).unwrap_or(u32::MAX)))
}
