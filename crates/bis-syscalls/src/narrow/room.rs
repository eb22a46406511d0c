//! The call in the making: the room that its pieces are laid out in, and the way back from there.

use super::layout::{Fields, signed, size};
use crate::errno::{EFAULT, EINTR, ENOMEM, is_kernels_own};
use crate::model::Call;
use crate::plan::Memory;

/// The length of the room in bytes. It holds 32,766 pointers of `execve`, which is more than command lines
/// have that `xargs` makes.
pub const ROOM_LEN: u64 = 0x40000;

/// A call that the kernel makes as the program made it.
///
/// Some of these change state that a replay must build again, and the row of `call` does not say so for them:
/// - `set_thread_area` and `get_thread_area` have the x86-64 numbers 205 and 211, of which the table says
///   that Linux itself answers ENOSYS, as it does to a 64-bit call. The kernel must make the 32-bit call; and
///   a replay must make `set_thread_area` too, with the entry number that the recording got, because the
///   thread's segment for TLS is not memory.
/// - `clone` with CLONE_SETTLS has the address of a `user_desc` where x86-64 has the thread's base address.
/// - `sigaction` and its kind have other layouts than the row's handler reads.
/// - The pieces of a plan name the registers of x86-64. A call that is made as it is has the same arguments
///   in others, and those of `mmap`, `clone` and `ipc` in another order, so no piece of it can be moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// The x86-64 number and arguments with the same meaning; this is what the recorder's table is asked for.
    /// It must not be given to the kernel. Structures behind its pointers still have the 32-bit layout.
    pub call: Call,
    /// What the kernel writes when the call succeeds, as (address, length). None: what the plan of `call`
    /// says is right as it is. Where this is given it replaces that plan.
    pub outputs: Option<Vec<(u64, u64)>>,
    /// Where the kernel stores the result proper (4 bytes) of a call that returns 0: `ipc(SHMAT)` stores
    /// the address of the mapping there. It is also in `outputs`.
    pub result_at: Option<u64>,
}

/// What happens where no x86-64 call is made.
pub(super) enum Other {
    Own(Own),
    Refused(i32, &'static str),
    /// The kernel's own answer.
    Done(i64),
}

/// The call fails with this errno, as it would in the kernel.
pub(super) fn fails<T>(errno: i32) -> Result<T, Other> {
    Err(Other::Done(-i64::from(errno)))
}

/// The call is one that cannot be translated.
pub(super) fn refused<T>(errno: i32, why: &'static str) -> Result<T, Other> {
    Err(Other::Refused(errno, why))
}

/// The x86-64 call, or why there is none.
pub(super) type Made = Result<Call, Other>;

/// With which results a piece is converted back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// Those that are no error.
    Success,
    /// Any result above 0.
    Positive,
    /// Any, restarts included.
    Always,
    /// EINTR and the kernel's restart codes.
    Interrupted,
}

impl When {
    fn holds(self, result: i64) -> bool {
        match self {
            When::Success => result >= 0,
            When::Positive => result > 0,
            When::Always => true,
            When::Interrupted => result == -i64::from(EINTR) || is_restart(result),
        }
    }
}

fn is_restart(result: i64) -> bool {
    is_kernels_own(result)
}

/// The 32-bit bytes of a structure, made from the 64-bit ones; or the errno that the call then has.
pub(super) type Shape = fn(&[u8]) -> Result<Vec<u8>, i32>;

/// A conversion that is more than one structure. Its numbers are addresses and lengths, as its maker said.
pub(super) type Convert = fn(&mut After<'_>, [u64; 4]) -> Result<(), i32>;

/// What is converted back after the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    when: When,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The `len` bytes at `from` in the room, for `to`. If it is `lazy`: only if the kernel wrote there.
    Piece {
        from: u64,
        len: u64,
        to: u64,
        shape: Shape,
        lazy: bool,
    },
    By {
        convert: Convert,
        numbers: [u64; 4],
    },
}

impl Back {
    pub(super) fn run(&self, after: &mut After<'_>) -> Result<(), i32> {
        if !self.when.holds(after.result) {
            return Ok(());
        }
        match self.step {
            Step::Piece { from, len, to, shape, lazy } => {
                let bytes = after.bytes(from, len)?;
                if !(lazy && after.before(from, len) == bytes) {
                    let narrow = shape(&bytes)?;
                    after.write(to, narrow);
                }
                Ok(())
            }
            Step::By { convert, numbers } => convert(after, numbers),
        }
    }
}

/// A call that is being translated.
pub(super) struct Maker<'a> {
    args: [u32; 6],
    room: u64,
    mem: &'a dyn Memory,
    content: Vec<u8>,
    back: Vec<Back>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(args: [u32; 6], room: u64, mem: &'a dyn Memory) -> Maker<'a> {
        Maker { args, room, mem, content: Vec::new(), back: Vec::new() }
    }

    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<Back>) {
        (self.content, self.back)
    }

    /// The same call with other arguments: one that a multiplexer (`socketcall`, `ipc`) stands for.
    pub(super) fn set_args(&mut self, args: [u32; 6]) {
        self.args = args;
    }

    /// Argument `i` as it is.
    pub(super) fn raw(&self, i: usize) -> u32 {
        self.args[i]
    }

    /// Argument `i` as the kernel reads a pointer, a size or an `int` of the 64-bit call.
    pub(super) fn arg(&self, i: usize) -> u64 {
        self.args[i].into()
    }

    /// Argument `i` as the kernel reads a signed `long`.
    pub(super) fn long(&self, i: usize) -> u64 {
        signed(self.args[i])
    }

    /// The 64-bit number in arguments `i` and `i + 1`, the low half first.
    pub(super) fn pair(&self, i: usize) -> u64 {
        super::layout::joined(self.args[i], self.args[i + 1])
    }

    /// The call with this number and the same arguments, which is what the kernel makes of most of them: an
    /// `int` is the low half of its register, and nothing else is signed.
    pub(super) fn plain(&self, nr: u64) -> Call {
        Call { nr, args: self.args.map(u64::from) }
    }

    /// `len` bytes of the program's memory.
    pub(super) fn read(&self, addr: u64, len: u64) -> Result<Vec<u8>, Other> {
        if len > ROOM_LEN {
            return refused(ENOMEM, "a structure is too large for the room");
        }
        let mut bytes = vec![0; size(len)];
        if self.mem.read(addr, &mut bytes) { Ok(bytes) } else { fails(EFAULT) }
    }

    pub(super) fn read_u32(&self, addr: u64) -> Result<u32, Other> {
        Ok(Fields(&self.read(addr, 4)?).u32(0))
    }

    /// Bytes that can still be put into the room, some of which may be lost to alignment.
    pub(super) fn left(&self) -> u64 {
        ROOM_LEN - u64::try_from(self.content.len().next_multiple_of(16)).unwrap_or(ROOM_LEN)
    }

    /// Puts bytes into the room, and says where they lie.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<u64, Other> {
        self.put_or(bytes, ENOMEM)
    }

    /// As `put`, with the errno for bytes that do not fit.
    pub(super) fn put_or(&mut self, bytes: &[u8], errno: i32) -> Result<u64, Other> {
        let at = self.content.len().next_multiple_of(16);
        if at + bytes.len() > size(ROOM_LEN) {
            return refused(errno, "the call's structures are too large for the room");
        }
        self.content.resize(at, 0);
        self.content.extend_from_slice(bytes);
        Ok(self.room + u64::try_from(at).unwrap_or(0))
    }

    /// Room for bytes that the kernel writes.
    pub(super) fn space(&mut self, len: u64) -> Result<u64, Other> {
        if len > ROOM_LEN {
            return refused(ENOMEM, "the call's structures are too large for the room");
        }
        self.put(&vec![0; size(len)])
    }

    /// Fills what [`Maker::space`] gave at `at`, from its beginning.
    pub(super) fn fill(&mut self, at: u64, bytes: &[u8]) {
        let at = size(at - self.room);
        self.content[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Room for a structure of `len` bytes that a successful call fills, and that then goes to `to` in its
    /// 32-bit shape.
    pub(super) fn out(&mut self, to: u32, len: u64, shape: Shape) -> Result<u64, Other> {
        let from = self.space(len)?;
        self.piece(When::Success, from, len, to, shape, false);
        Ok(from)
    }

    /// As `out`, for a pointer that may be null.
    pub(super) fn out_opt(&mut self, to: u32, len: u64, shape: Shape) -> Result<u64, Other> {
        if to == 0 { Ok(0) } else { self.out(to, len, shape) }
    }

    /// Room for a structure that the kernel may or may not write. It goes to `to` if it has changed.
    pub(super) fn lazy(&mut self, when: When, bytes: &[u8], to: u32, shape: Shape) -> Result<u64, Other> {
        let from = self.put(bytes)?;
        self.piece(when, from, u64::try_from(bytes.len()).unwrap_or(0), to, shape, true);
        Ok(from)
    }

    /// The `len` bytes at `from` go to `to` in their 32-bit shape.
    pub(super) fn piece(&mut self, when: When, from: u64, len: u64, to: u32, shape: Shape, lazy: bool) {
        self.back.push(Back { when, step: Step::Piece { from, len, to: to.into(), shape, lazy } });
    }

    /// After the call this conversion runs with these numbers.
    pub(super) fn back(&mut self, when: When, convert: Convert, numbers: [u64; 4]) {
        self.back.push(Back { when, step: Step::By { convert, numbers } });
    }
}

/// An x86-64 call with up to six arguments.
pub(super) fn made<const N: usize>(nr: u64, given: [u64; N]) -> Made {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&given);
    Ok(Call { nr, args })
}

/// A call that has returned.
pub(super) struct After<'a> {
    /// For the 32-bit caller.
    pub(super) result: i64,
    room: u64,
    content: &'a [u8],
    mem: &'a dyn Memory,
    writes: Vec<(u64, Vec<u8>)>,
}

impl<'a> After<'a> {
    pub(super) fn new(result: i64, room: u64, content: &'a [u8], mem: &'a dyn Memory) -> After<'a> {
        After { result, room, content, mem, writes: Vec::new() }
    }

    /// The result and what is to be written. A result that is no error is what fits into a register.
    pub(super) fn done(self) -> (i64, Vec<(u64, Vec<u8>)>) {
        let is_error = (-4095..0).contains(&self.result);
        (if is_error { self.result } else { self.result & 0xffff_ffff }, self.writes)
    }

    /// The result as a count of bytes or elements.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.result).unwrap_or(0)
    }

    /// `len` bytes of memory as it is now; more than the room has can never be wanted.
    pub(super) fn bytes(&self, addr: u64, len: u64) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; size(len.min(ROOM_LEN))];
        if self.mem.read(addr, &mut bytes) { Ok(bytes) } else { Err(EFAULT) }
    }

    /// What was laid out at `addr` before the call.
    pub(super) fn before(&self, addr: u64, len: u64) -> &'a [u8] {
        let at = size(addr.wrapping_sub(self.room));
        at.checked_add(size(len)).and_then(|end| self.content.get(at..end)).unwrap_or(&[])
    }

    pub(super) fn write(&mut self, to: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.writes.push((to, bytes));
        }
    }
}
