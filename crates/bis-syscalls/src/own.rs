//! The one system call that is bis's own: by it a bis that runs inside of a recording finds out that it does,
//! and asks the recorder for what only the recorder can do. No kernel has it, so outside of a recording it
//! fails with ENOSYS.
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

/// What [`WHERE`] returns, a result that nothing else gives.
pub const YES: u64 = 0x0062_6973;
