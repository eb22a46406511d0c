//! The recorder's side of the hooks: what a domain does so that its tasks' system calls need not stop.
//!
//! The hooks log the calls that they make; the log becomes an event of the running task right before the
//! task's next event ([`Recorder::drain`](crate::events::Recorder::drain)). One log for each domain is
//! enough, because one of its tasks runs at a time and the log is taken at every event.
//!
//! This file holds what a domain has of hooks. How it comes to them is in `begin.rs`, what they are told in
//! `told.rs`, and how a task that stops inside of a hook is led out of it in `inside.rs`.

mod begin;
mod chance;
mod classes;
pub mod clock;
mod clock_text;
pub mod counts;
pub mod dense;
mod guards;
pub mod image;
mod inside;
pub mod kept_files;
pub mod makers;
mod need;
mod patching;
pub mod plain;
mod pools;
mod sets;
pub mod texts;
mod told;
mod translators;
mod trap_flag;
pub mod watch;
mod whereabouts;

pub use begin::Inherited;
pub use patching::NewText;

use std::sync::Arc;

use bis_tracee::area::Area;

use crate::task::{Counter, Task};
use counts::Counts;

/// The hooks of one domain.
#[derive(Debug)]
pub struct Hooks {
    pub area: Arc<Area>,
    pub counts: Counts,
    /// Not all tasks have the same descriptors.
    pub fds_differ: bool,
    /// Somebody of another domain has the same descriptors.
    pub fds_shared: bool,
    /// The calls that are left to be judged (`calls/sandbox.rs`), as the area has them.
    pub judged: [u64; 8],
    /// The cores that the program is told of, as the area has them: [`state::CORE`], [`state::CORES`].
    pub told_cores: [u64; 2],
}

/// The counter for a task, if it has one: the domain's, where its text counts (`is_dense`).
pub fn counter<'a>(
    hooks: &'a mut Option<Hooks>,
    is_dense: bool,
    task: Option<&'a mut Task>,
) -> Option<&'a mut Counter> {
    match hooks {
        Some(hooks) if is_dense => Some(&mut hooks.counts.counter),
        _ => task?.counter.as_mut(),
    }
}
