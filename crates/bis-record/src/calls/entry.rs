//! A call at its entry: what is to be done with it.

use bis_tracee::Memory;

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
        self.0.read(addr, buf).is_ok()
    }
}
