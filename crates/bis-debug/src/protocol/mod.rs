//! The gdb remote serial protocol, as gdb 13 to 16, LLDB 14 and later, Delve and CodeLLDB speak it.
//!
//! The way of a request: bytes from the client go into a [`packet::Decoder`], which yields packets; a
//! packet's payload becomes a [`command::Command`] ([`command::parse`]); the server acts on the command and
//! makes the payload of the answer with the functions of [`reply`]; [`packet::encode`] frames it. [`target`]
//! is the register file as clients see it, [`agent`] runs the bytecode of breakpoint conditions and commands.
//!
//! The policy for what is not understood: a packet that is not known is [`command::Command::Unknown`], and
//! the answer is the empty packet, which is how the protocol says "not supported"; a packet that is known and
//! does not parse is a [`Malformed`] with a sentence for the client, and the answer is an error. Neither ends
//! the session, and no input makes this module panic or use memory without bound.
//!
//! What is deliberately absent: processes, files, sockets, and the state of a session (which thread is
//! selected, what the client supports). The server keeps those.

pub mod agent;
pub mod command;
mod crc;
mod error;
mod features;
pub mod packet;
pub mod reply;
mod signal;
pub mod target;
mod text;
mod thread_id;

pub use crc::Crc;
pub use error::Malformed;
pub use features::{Client, Feature, Features};
pub use signal::{Numbers, from_gdb, to_gdb};
pub use thread_id::{ThreadId, Which};
