//! What arguments say, as the kernel reads them, and where we find what they name.

use bis_syscalls::{Call, MakesTask, MovedBytes, OpenFlags, row};
use bis_trace::types::{Addr, Fd};
use bis_tracee::Memory;

use crate::births::Birth;

/// The lowest bits of an argument, as the kernel reads an int.
#[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of an int argument")]
pub(super) fn int(arg: u64) -> i32 {
    arg as i32
}

/// The fallocate modes COLLAPSE_RANGE and INSERT_RANGE: all that follows moves.
pub(super) const SHIFTS: u64 = 0x28;

pub const CLONE_VM: u64 = libc::CLONE_VM as u64;
pub const CLONE_VFORK: u64 = libc::CLONE_VFORK as u64;
const CLONE_FILES: u64 = libc::CLONE_FILES as u64;
const CLONE_PIDFD: u64 = libc::CLONE_PIDFD as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
const CLONE_PARENT_SETTID: u64 = libc::CLONE_PARENT_SETTID as u64;
const CLONE_CHILD_CLEARTID: u64 = libc::CLONE_CHILD_CLEARTID as u64;
const CLONE_NEWPID: u64 = libc::CLONE_NEWPID as u64;
const CLONE_CHILD_SETTID: u64 = libc::CLONE_CHILD_SETTID as u64;

/// The most buffers that one call takes (UIO_MAXIOV).
const BUFFERS_MAX: u64 = 1024;

/// The buffers of a write or writev, as (address, length), cut to what was written.
pub fn buffers(memory: &Memory, vector: bool, args: [u64; 6], written: u64) -> Vec<(Addr, u64)> {
    if !vector {
        return vec![(Addr(args[1]), written)];
    }
    pieces(memory, Addr(args[1]), args[2], written)
}

/// A read or write of a file: it moves bytes between the descriptor in argument 0 and memory, and does
/// nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileTransfer {
    pub reads: bool,
    /// Its memory is what an array of `struct iovec` names.
    pub is_vector: bool,
    /// Where in the file; none: at its position, which the call moves.
    pub at: Option<u64>,
}

impl FileTransfer {
    pub fn of(nr: u64, args: [u64; 6]) -> Option<FileTransfer> {
        let transfer = row(nr)?.transfer.filter(|it| it.flags.is_none())?;
        let is_vector = match transfer.memory {
            MovedBytes::Bytes => false,
            MovedBytes::Vector => true,
            MovedBytes::Message | MovedBytes::Descriptor { .. } => return None,
        };
        Some(FileTransfer { reads: transfer.reads, is_vector, at: transfer.given(args) })
    }

    /// Its memory, as (address, length).
    pub fn buffers(&self, memory: &Memory, args: [u64; 6]) -> Vec<(Addr, u64)> {
        buffers(memory, self.is_vector, args, if self.is_vector { u64::MAX } else { args[2] })
    }
}

/// The buffers that an array of `struct iovec` names, cut to `most` bytes.
pub fn pieces(memory: &Memory, array: Addr, count: u64, most: u64) -> Vec<(Addr, u64)> {
    let mut left = most;
    let mut ranges = Vec::new();
    for index in 0..count.min(BUFFERS_MAX) {
        let at = array + 16 * index;
        let (Ok(base), Ok(len)) = (memory.read_addr(at), memory.read_u64(at + 8)) else { break };
        let len = len.min(left);
        if len > 0 {
            ranges.push((base, len));
        }
        left -= len;
    }
    ranges
}

/// The buffers of a `struct msghdr`, cut to `most` bytes.
pub fn message_pieces(memory: &Memory, message: Addr, most: u64) -> Vec<(Addr, u64)> {
    /// Where it has its vector's address and length.
    const VECTOR: (u64, u64) = (16, 24);
    let word = |offset| memory.read_u64(message + offset).unwrap_or(0);
    pieces(memory, Addr(word(VECTOR.0)), word(VECTOR.1), most)
}

/// The flags (MSG_...) of a call that sends or receives a message; none for other calls.
pub fn message_flags(call: &Call) -> i32 {
    let transfer = row(call.nr).and_then(|row| row.transfer);
    transfer.map_or(0, |transfer| int(transfer.message_flags(call.args)))
}

/// The arguments of clone and its relatives, whichever was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneArgs {
    pub flags: u64,
    /// Where the process descriptor goes.
    pidfd: Addr,
    child_tid: Addr,
    parent_tid: Addr,
    /// What a thread's storage is to be.
    pub storage: Addr,
}

impl CloneArgs {
    /// Those of a call that makes no task ask for nothing, as do those of a `clone3` that cannot be read.
    pub fn of(call: &Call, memory: &Memory) -> CloneArgs {
        match row(call.nr).and_then(|row| row.makes) {
            Some(MakesTask::ByArguments) => {
                let [flags, _, parent_tid, child_tid, storage, _] = call.args;
                let [parent_tid, child_tid, storage] = [parent_tid, child_tid, storage].map(Addr);
                // One argument for two purposes, which exclude each other.
                CloneArgs { flags, pidfd: parent_tid, child_tid, parent_tid, storage }
            }
            Some(MakesTask::ByStruct) => {
                // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
                // tls.
                const LEN: usize = 64;
                let bytes = memory.read_upto(Addr(call.args[0]), LEN);
                let word = |index: usize| {
                    let word = bytes.get(8 * index..).and_then(|rest| rest.first_chunk());
                    word.map_or(0, |word| u64::from_le_bytes(*word))
                };
                let [pidfd, child_tid, parent_tid, storage] = [1, 2, 3, 7].map(|index| Addr(word(index)));
                CloneArgs { flags: word(0), pidfd, child_tid, parent_tid, storage }
            }
            Some(MakesTask::With(flags)) => CloneArgs { flags, ..CloneArgs::default() },
            None => CloneArgs::default(),
        }
    }

    pub fn birth(&self) -> Birth {
        let has = |flag: u64| self.flags & flag != 0;
        Birth {
            is_here: has(CLONE_VM),
            is_thread: has(CLONE_THREAD),
            shares_fds: has(CLONE_FILES),
            is_awaited: has(CLONE_VFORK),
            is_init: has(CLONE_NEWPID),
        }
    }

    /// The word that the kernel clears when the child ends, or null.
    pub fn cleared_word(&self) -> Addr {
        if self.flags & CLONE_CHILD_CLEARTID != 0 { self.child_tid } else { Addr::NULL }
    }

    /// Where the kernel writes the child's number in the child's memory.
    pub fn told_child(&self) -> Option<Addr> {
        (self.flags & CLONE_CHILD_SETTID != 0).then_some(self.child_tid)
    }

    /// Where it writes to its maker's memory: the child's number, and its process descriptor.
    pub fn told_maker(&self) -> impl Iterator<Item = Addr> {
        let number = (self.flags & CLONE_PARENT_SETTID != 0).then_some(self.parent_tid);
        let descriptor = (self.flags & CLONE_PIDFD != 0).then_some(self.pidfd);
        number.into_iter().chain(descriptor)
    }
}

/// The arguments of a call that opens a file by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenArgs {
    /// The folder's descriptor, from which a relative name leads on.
    pub folder: Fd,
    pub name: Addr,
    pub flags: i32,
}

impl OpenArgs {
    pub fn of(call: &Call, memory: &Memory) -> Option<OpenArgs> {
        let opens = row(call.nr)?.opens?;
        let arg = |index: u8| call.args[usize::from(index)];
        Some(OpenArgs {
            folder: opens.folder.map_or(Fd::CURRENT_FOLDER, |folder| Fd::of_arg(arg(folder))),
            name: Addr(arg(opens.path)),
            flags: match opens.flags {
                OpenFlags::In(index) => int(arg(index)),
                OpenFlags::Behind(pointer) => memory.read_u64(Addr(arg(pointer))).map_or(0, int),
                OpenFlags::Always(flags) => flags,
            },
        })
    }
}

/// The arguments of an exec, whichever was called.
#[derive(Clone, Copy, Debug)]
pub struct ExecArgs {
    /// The folder's descriptor, from which a relative name leads on.
    pub folder: Fd,
    pub name: Addr,
    pub argv: Addr,
    pub envp: Addr,
}

impl ExecArgs {
    pub fn of_execve(call: &Call) -> ExecArgs {
        let [name, argv, envp] = std::array::from_fn(|i| Addr(call.args[i]));
        ExecArgs { folder: Fd::CURRENT_FOLDER, name, argv, envp }
    }

    pub fn of_execveat(call: &Call) -> ExecArgs {
        let [name, argv, envp] = std::array::from_fn(|i| Addr(call.args[i + 1]));
        ExecArgs { folder: Fd::of_arg(call.args[0]), name, argv, envp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(flags: u64) -> CloneArgs {
        CloneArgs { flags, pidfd: Addr(1), child_tid: Addr(2), parent_tid: Addr(3), storage: Addr(4) }
    }

    #[test]
    fn a_thread_is_a_task_of_its_makers_domain_and_nobody_waits_for_it() {
        // As the C library makes one.
        let thread = with(0x003d_0f00).birth();
        assert!(thread.is_here && thread.is_thread && thread.shares_fds);
        assert!(!thread.is_awaited && !thread.is_init);
    }

    #[test]
    fn a_fork_begins_a_domain_and_a_vfork_does_not() {
        let (fork, vfork) = (with(libc::SIGCHLD as u64).birth(), with(CLONE_VM | CLONE_VFORK).birth());
        assert!(!fork.is_here && !fork.shares_fds && !fork.is_awaited);
        assert!(vfork.is_here && vfork.is_awaited && !vfork.is_thread && !vfork.shares_fds);
    }

    #[test]
    fn a_namespace_is_begun_by_a_process_of_its_own() {
        let first = with(CLONE_NEWPID | libc::SIGCHLD as u64).birth();
        assert!(first.is_init && !first.is_here);
    }

    #[test]
    fn the_kernel_writes_what_it_is_asked_for() {
        let none = with(0);
        assert_eq!(
            (none.cleared_word(), none.told_child(), none.told_maker().count()),
            (Addr::NULL, None, 0)
        );
        let all = with(CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | CLONE_PARENT_SETTID | CLONE_PIDFD);
        assert_eq!((all.cleared_word(), all.told_child()), (Addr(2), Some(Addr(2))));
        assert_eq!(all.told_maker().collect::<Vec<_>>(), [Addr(3), Addr(1)]);
    }
}
