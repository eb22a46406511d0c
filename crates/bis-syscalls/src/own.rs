//! The one system call that is bis's own: by it a bis that runs inside of a recording finds out that it does,
//! and asks the recorder for what only the recorder can do; and a program makes checkpoints of itself and
//! goes back to them (`include/bis.h`). No kernel has it, so outside of a recording it fails with ENOSYS.
//!
//! Its first argument says what is asked. What the recorder answers is recorded like the result of any other
//! call.

/// Its number: far above the kernel's, and without the bit of the x32 calls.
pub const NUMBER: u64 = 0x0b15_0000;

/// Its name, for people.
pub const NAME: &str = "bis_ask";

/// "Is this recorded?" The second argument is a buffer, the third its length. The recorder writes the
/// absolute path of its trace there, with a zero byte, and returns [`YES`]. ENAMETOOLONG: the buffer is too
/// small.
pub const WHERE: u64 = 0;

/// "Execute this outside of the recording": the other arguments are those of execve. Returns only if that
/// fails; EPERM: the recorder cannot do that for this process.
pub const LEAVE: u64 = 1;

/// For the program that stands in for one outside: the descriptor by which it hears of it. EINVAL for all
/// others.
pub const CHANNEL: u64 = 2;

/// "Keep the process as it is now." The second argument is where to write the handle, eight bytes: a number
/// that no other checkpoint of the recording has. Returns 0; and again, after each time that the process has
/// gone back to it, how often it has by then. EAGAIN: a thread is where no event can tell of it, for a
/// moment; ENOMEM: the machine has no room; EFAULT.
pub const CHECKPOINT: u64 = 3;

/// "Go back." The second argument is a handle, the third [`RETRY`] or [`REPLAY`]. Does not return where
/// [`RETRY`] succeeds, and returns 0 where [`REPLAY`] does. EINVAL: this process has no such checkpoint, or
/// the third argument is something else; ESRCH: a thread of the checkpoint has ended; EOPNOTSUPP: shared
/// memory that it has is not mapped any more; EBUSY: a thread is in a call that cannot be left, or held by
/// its tracer; EIO: what was recorded since the checkpoint could not be executed again.
pub const ROLLBACK: u64 = 4;

/// "Forget it." The second argument is a handle. EINVAL: this process has no such checkpoint.
pub const DISCARD: u64 = 5;

/// "In which way did the process come back to it last?" The second argument is a handle. Returns 0 where it
/// has not yet, [`RETRY`] or [`REPLAY`]. EINVAL: this process has no such checkpoint.
pub const HOW: u64 = 6;

/// A way back: the process goes on, and may take another path.
pub const RETRY: u64 = 1;

/// A way back: what was recorded since the checkpoint is executed again, beside the process; then it goes on
/// where it was.
pub const REPLAY: u64 = 2;

/// What people call an operation of this call that its first argument names.
pub fn name_of(operation: u64) -> Option<&'static str> {
    Some(match operation {
        CHECKPOINT => "bis_checkpoint",
        ROLLBACK => "bis_rollback",
        DISCARD => "bis_discard",
        HOW => "bis_how",
        _ => return None,
    })
}

/// What [`WHERE`] returns, a result that nothing else gives.
pub const YES: u64 = 0x0062_6973;
