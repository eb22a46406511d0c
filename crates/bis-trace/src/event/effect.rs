//! What becomes true of an address space by an event: operations, and bytes.

use crate::types::{Addr, DomainId, FileId, ObjectId, Registers, Tid};

/// Kernel protection bits: PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
pub type Prot = u32;

/// An operation on address spaces or tasks that replay must carry out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Map `len` bytes at exactly `addr`, replacing what was there.
    Map {
        addr: Addr,
        len: u64,
        prot: Prot,
        backing: Backing,
    },
    Unmap {
        addr: Addr,
        len: u64,
    },
    Protect {
        addr: Addr,
        len: u64,
        prot: Prot,
    },
    /// mremap: `old_len` may be 0 (a second mapping of shared pages); `keep` is MREMAP_DONTUNMAP.
    Remap {
        addr: Addr,
        old_len: u64,
        new_addr: Addr,
        new_len: u64,
        keep: bool,
    },
    /// madvise with an advice that changes content or inheritance (MADV_DONTNEED 4, MADV_REMOVE 9,
    /// MADV_DONTFORK 10, MADV_DOFORK 11, MADV_WIPEONFORK 18, MADV_KEEPONFORK 19, ...).
    Advise {
        addr: Addr,
        len: u64,
        advice: u32,
    },
    /// A shared object comes into being; turn 0 of its token belongs to this domain.
    NewObject {
        object: ObjectId,
        len: u64,
        content: Option<FileId>,
    },
    /// A call (not a store through a mapping) wrote to a shared object.
    WriteObject {
        object: ObjectId,
        offset: u64,
        data: Vec<u8>,
    },
    /// ftruncate or the like changed a shared object's length.
    ResizeObject {
        object: ObjectId,
        len: u64,
    },
    /// `len` bytes of a shared object from `offset` are zero now, and take no room; its length stays.
    ClearObject {
        object: ObjectId,
        offset: u64,
        len: u64,
    },
    /// A new task in this domain, which starts with these registers. Its extended state is that of the task
    /// that has made it, but where this says another: for the tasks of an image.
    NewTask {
        tid: Tid,
        regs: Registers,
        xstate: Option<Vec<u8>>,
    },
    /// Another task of this domain goes on from here, wherever it is: in no system call, with these registers
    /// and this extended state. (The domain goes back to a checkpoint of its own.)
    SetTask {
        tid: Tid,
        regs: Registers,
        xstate: Vec<u8>,
    },
    /// The task has this thread-local storage: a `struct user_desc`, whose first word is the number of its
    /// entry in the table of descriptors. Only 32-bit programs have such.
    Segment {
        tid: Tid,
        descriptor: [u8; 16],
    },
    /// A new domain with a copy of this address space. Its own stream has the rest.
    Fork {
        domain: DomainId,
        tid: Tid,
    },
}

/// What a mapping shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Private zero pages.
    Anonymous,
    /// Like [`Backing::Anonymous`], for a stack: in replay all of `Effect::Map` is there from the start.
    Stack,
    /// A private mapping of a kept file from `offset` bytes.
    File { file: FileId, offset: u64 },
    /// A shared object from `offset` bytes.
    Shared { object: ObjectId, offset: u64 },
}

/// Bytes that the kernel put into the task's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemWrite {
    pub addr: Addr,
    pub data: Vec<u8>,
}

/// The most that one [`Cloned`] may stand for, bytes.
pub const CLONED_BYTES_MAX: u64 = 1 << 20;

/// Bytes that the kernel put into the task's memory, and that are in the trace's `clones` file: blocks that
/// it has in common with the file from which the program read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cloned {
    pub addr: Addr,
    /// Where they begin in the `clones` file, bytes.
    pub offset: u64,
    /// Bytes, 1..=[`CLONED_BYTES_MAX`].
    pub len: u64,
    /// xxh3-64 of the bytes: the log's checksums do not cover them.
    pub sum: u64,
}
