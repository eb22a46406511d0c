//! One traced task and address space: registers, memory, remote system calls, the agent's injection. All
//! ptrace of bis is here, behind safe names; policy (what to record, whom to run) is not.
//!
//! Start at [`task`] for the states of a task, [`remote`] for calls in its name, [`image`] for fresh address
//! spaces, [`handover`] for changing the supervisor, [`lookout`] for
//! programs that are not recorded yet, [`ticks`] for what counts a task's progress.

pub mod address_limit;
pub mod area;
pub mod background;
pub mod balance;
pub mod bulk;
pub mod checksum;
pub mod companion;
pub mod cpu;
pub mod debug;
pub mod doctor;
pub mod error;
pub mod features;
pub mod filter;
pub mod found;
pub mod frame;
pub mod guardian;
pub mod handover;
pub mod identification;
pub mod image;
pub mod lent;
mod log_rooms;
pub mod lookout;
pub mod maps;
pub mod memory;
pub mod memory_limit;
pub mod modes;
pub mod names;
pub mod nested;
pub mod ours;
pub mod outer;
pub mod outside;
pub mod pagemap;
pub mod place;
pub mod proc;
pub mod put_back;
pub mod remote;
pub mod shadow;
pub mod siginfo;
pub mod spawn;
pub mod sys;
pub mod task;
pub mod ticks;
pub mod unheard;
pub mod vdso;
pub mod written;
pub mod xlayout;
pub mod xsave;

pub use error::{Result, TraceeError};
pub use memory::{Glance, Memory, Usable};
pub use task::{Resume, Running, Status, Stopped};
