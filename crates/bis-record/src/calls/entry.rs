//! A call at its entry, where it is told what is to be done with it, and at its exit.

use bis_trace::{
    event::Outcome,
    types::{Addr, Tid},
};
use bis_tracee::Memory;

use crate::task::InCall;

/// What to do with a call at its entry.
pub enum Entry {
    /// Let the kernel make it.
    Make,
    /// Let the kernel make it and wait for it here; it waits for nobody.
    MakeAtOnce,
    /// It is not made; this is its result.
    Done(i64),
    /// The task stands in front of it again.
    Undone,
}

/// The tracee's memory as the table wants it.
pub struct Reader<'a>(pub &'a Memory);

impl bis_syscalls::Memory for Reader<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        self.0.read(Addr(addr), buf).is_ok()
    }
}

/// A call that the kernel has made, at its exit.
pub struct Exit<'a> {
    pub tid: Tid,
    pub call: &'a mut InCall,
    /// As the kernel returned it; it may be an error.
    pub result: i64,
    pub outcome: &'a mut Outcome,
}

impl Exit<'_> {
    pub fn args(&self) -> [u64; 6] {
        self.call.entry.args()
    }

    /// The result of a call that returns an address or a length.
    pub fn value(&self) -> u64 {
        self.result.cast_unsigned()
    }

    pub fn is_error(&self) -> bool {
        (-4095..0).contains(&self.result)
    }
}

/// The file or segment whose content a call changes, or shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touches {
    /// It writes to the file that its row in the table of all calls names, if that names one.
    Target,
    /// It changes that file's length.
    Length,
    /// It may change the content of a part of it, or move all that follows.
    Fallocated,
    /// It gives the file of its first argument blocks of another one's, if it is that ioctl.
    Cloned,
    /// It may cut the file that it opens.
    Opened,
    /// It maps a file.
    Mapped,
    /// It attaches a System V segment.
    Segment,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::AsMade;

    #[test]
    fn errors_are_told_from_addresses() {
        let mut call = InCall::new(AsMade::of(&Default::default()), Vec::new());
        let mut outcome = Outcome::default();
        let mut is_error =
            |result| Exit { tid: Tid(1), call: &mut call, result, outcome: &mut outcome }.is_error();
        assert!(is_error(-1) && is_error(-4095) && is_error(-512));
        assert!(!is_error(0) && !is_error(-4096) && !is_error(0x7fff_0000_0000));
    }
}
