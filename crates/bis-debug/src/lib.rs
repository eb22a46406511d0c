//! The debugger's side of bis: what a gdb, LLDB or Delve client says, what it is answered, and how that is
//! found out.
//!
//! [`protocol`] is the gdb remote serial protocol: bytes in, commands out; replies in, bytes out. It knows
//! nothing of processes or of replay. [`session`] is one process of a recording, which can be gone through
//! forwards and backwards; it knows nothing of packets. [`server`] has a client on one side and a session on
//! the other.
#![forbid(unsafe_code)]

mod options;
pub mod pack;
mod profile;
pub mod protocol;
mod server;
pub mod session;
mod steps;

pub use options::{Begin, DebugError, Executable, Listener, News, Options, Which};
pub use profile::{Profile, profile};
pub use server::{Server, Standing};
pub use session::source::{Advance, LiveProgram, Onward, Source};
pub use steps::{Compared, Step, StepDifference, compare, steps};

/// The text of gdb's own commands (when, seek, ...), for `gdb -x` and `bis gdbinit`.
pub fn gdb_script() -> &'static str {
    concat!(
        include_str!("gdb_script.gdb"),
        "\n",
        include_str!("gdb_queries.gdb"),
        "\n",
        include_str!("gdb_dap.gdb")
    )
}
