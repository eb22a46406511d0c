//! What arguments say, as the kernel reads them, and where we find what they name.

use bis_syscalls::{Call, MovedBytes, row};
use bis_trace::types::{Addr, Fd};
use bis_tracee::Memory;

/// The lowest bits of an argument, as the kernel reads an int.
#[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of an int argument")]
pub(super) fn int(arg: u64) -> i32 {
    arg as i32
}

/// The fallocate modes COLLAPSE_RANGE and INSERT_RANGE: all that follows moves.
pub(super) const SHIFTS: u64 = 0x28;

pub const CLONE_VM: u64 = libc::CLONE_VM as u64;
pub const CLONE_VFORK: u64 = libc::CLONE_VFORK as u64;

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

/// The flags (`CLONE_...`) with which a call makes a task. None of them where it makes none, and where those
/// of a `clone3` cannot be read.
pub fn clone_flags(call: &Call, memory: &Memory) -> u64 {
    match call.nr.cast_signed() {
        libc::SYS_clone => call.args[0],
        libc::SYS_clone3 => memory.read_u64(Addr(call.args[0])).unwrap_or(0),
        libc::SYS_vfork => CLONE_VM | CLONE_VFORK,
        _ => 0,
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
