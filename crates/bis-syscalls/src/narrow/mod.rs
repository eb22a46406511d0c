//! Calls of 32-bit programs (`int 0x80`, the i386 table) said in the words of the x86-64 table.
//!
//! A 32-bit call is stopped at its entry. [`translate`] says what happens in its place: mostly an x86-64 call
//! with the same meaning (a [`Thunk`]), whose structures are laid out anew in a room of the task's memory;
//! afterwards [`Thunk::finish`] says what the 32-bit caller gets. So all that is known about x86-64 calls
//! holds for 32-bit programs too, and nothing has to be known twice.
//!
//! A pointer to memory that has the same layout in both tables (a buffer, a path, a signal set, a `pollfd`)
//! is passed on as it is. Only what differs lies in the room. The kernel then finds bad addresses of the
//! first kind by itself. A bad address of the second kind is found here when it is read, and by the recorder
//! when it writes what `finish` gave: the call's result is then EFAULT.
//!
//! Some calls cannot be made by the 64-bit table, because the kernel remembers by which table a call came:
//! the layout of signal frames, where mappings may lie, how positions in folders look. These the kernel makes
//! as the program made them ([`Translated::Own`]).
//!
//! What is not known is refused, never guessed. Like the rest of this crate the module does no IO.
//!
//! What a 32-bit program can notice: a file is always open with O_LARGEFILE, so `fcntl(F_GETFL)` shows it,
//! and files of more than 2 GiB do not fail. Devices whose `read` looks at the caller's table (`/dev/input`)
//! give the 64-bit layout.

mod fcntl;
mod files;
mod ids;
mod ioctl;
mod ipc;
mod ipc_shapes;
mod layout;
mod messages;
mod own;
mod poll;
mod process;
mod room;
mod siginfo;
mod signals;
mod sockets;
mod system;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod vectors;

use crate::errno::ENOSYS;
use crate::model::Call;
use crate::plan::Memory;
use room::{After, Back, Maker};
use table::How;

pub use room::{Own, ROOM_LEN};
pub use siginfo::{narrowed as siginfo_narrowed, widened as siginfo_widened};

/// A call of the i386 table, as its caller made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NarrowCall {
    /// The number in `eax`.
    pub nr: u32,
    /// ebx, ecx, edx, esi, edi, ebp.
    pub args: [u32; 6],
}

/// What happens in place of a 32-bit call.
#[derive(Clone, Debug)]
pub enum Translated {
    /// The kernel makes the program's own 32-bit call.
    Own(Own),
    /// This x86-64 call is made in its place.
    Thunk(Thunk),
    /// It is not made, and fails with this errno (positive). The text says why; it is for a note to the user.
    Refused(i32, &'static str),
    /// It is not made, and has this result, as the kernel itself would answer (a negated errno on failure).
    Done(i64),
}

/// An x86-64 call in place of a 32-bit one, and the way back.
///
/// For the recorder: write `content` at the room's address, make `call`, and hand its result to
/// [`Thunk::finish`]. Each thread that may be in a call needs a room of its own.
#[derive(Clone, Debug)]
pub struct Thunk {
    /// The number and arguments. Pieces that were laid out anew lie in the room.
    pub call: Call,
    /// What has to lie at the room's address before the call; at most [`ROOM_LEN`] bytes. Room for what the
    /// kernel writes is part of it.
    pub content: Vec<u8>,
    room: u64,
    back: Vec<Back>,
}

impl Thunk {
    /// The address of the room.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// After the call returned `result` (the kernel's: a negated errno on failure): the result for the 32-bit
    /// caller, and what must be written to its memory, as (address, bytes), in this order.
    ///
    /// The low 32 bits of the result belong into `eax`; it is negative only for an error. A result that asks
    /// for a restart (-516..=-512) is passed through. With it comes only what the kernel writes when it is
    /// interrupted: the time that was left of a wait. It must be written then too, because a restart from
    /// the beginning reads it, and a handler that runs first makes the result EINTR.
    ///
    /// A restart of -516 is one by `restart_syscall`. The kernel remembers that the call was a 64-bit one,
    /// and would continue it by number 219, which is another call in the i386 table. So the recorder must
    /// continue such a call itself.
    ///
    /// If what it gives cannot be written the result is EFAULT. `mem` must hold the room as the call left it.
    pub fn finish(&self, result: i64, mem: &dyn Memory) -> (i64, Vec<(u64, Vec<u8>)>) {
        let mut after = After::new(result, self.room, &self.content, mem);
        for back in &self.back {
            if let Err(errno) = back.run(&mut after) {
                return (-i64::from(errno), Vec::new());
            }
        }
        after.done()
    }
}

/// What happens in place of a 32-bit call. To be asked with the task stopped at the call's entry.
///
/// `room` is the address of [`ROOM_LEN`] bytes of the task's memory that are free for the call; it must be a
/// multiple of 16 and lie below 4 GiB.
pub fn translate(call: &NarrowCall, room: u64, mem: &dyn Memory) -> Translated {
    let Some(row) = table::row(call.nr) else { return Translated::Done(-i64::from(ENOSYS)) };
    let mut maker = Maker::new(call.args, room, mem);
    let made = match row.how {
        How::Plain(nr) => Ok(maker.plain(nr)),
        How::By(make) => make(&mut maker),
        How::Refused(errno, why) => return Translated::Refused(errno, why),
        How::Gone => return Translated::Done(-i64::from(ENOSYS)),
    };
    match made {
        Ok(call) => {
            let (content, back) = maker.into_parts();
            Translated::Thunk(Thunk { call, content, room, back })
        }
        Err(room::Other::Own(own)) => Translated::Own(own),
        Err(room::Other::Done(result)) => Translated::Done(result),
        Err(room::Other::Refused(errno, why)) => Translated::Refused(errno, why),
    }
}

/// The number of a call of the i386 table, with [`NARROW_TABLE`](crate::NARROW_TABLE) added.
pub fn number(name: &str) -> Option<u64> {
    let row = table::rows().find(|row| row.name == name)?;
    Some(crate::NARROW_TABLE | u64::from(row.nr))
}

/// The x86-64 number of a call that has the same arguments there; none where they are others.
pub fn same_as(nr: u64) -> Option<u64> {
    match table::row(crate::narrow_number(nr)?)?.how {
        How::Plain(wide) => Some(wide),
        _ => None,
    }
}

/// The name of a number of the i386 table, for messages; none for a number that it does not have.
pub fn name(nr: u32) -> Option<&'static str> {
    table::row(nr).map(|row| row.name)
}
