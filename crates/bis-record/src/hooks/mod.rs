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
pub mod makers;
mod need;
mod patching;
pub mod texts;
mod told;
mod translators;
pub mod watch;
mod whereabouts;

pub use begin::Inherited;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::{Arc, PoisonError},
};

use bis_agent::hooks::state;
use bis_tracee::area::Area;

use crate::{
    calls::CLONE_BYTES_MIN,
    session::Session,
    space::Patches,
    task::{Counter, Task},
};
use counts::Counts;
use watch::Watched;

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
}

impl Hooks {
    /// Hooks for an area whose classes are right if no file has begun to be watched since there were
    /// `mapped`.
    fn new(session: &Session, watched: &Watched, area: Area, patches: &Patches, mapped: u64) -> Hooks {
        let area = Arc::new(area);
        for (offset, word) in (state::OUTPUTS..).step_by(8).zip(session.stdio.inodes()) {
            area.set(offset, word);
        }
        for (offset, root) in (state::DEVICES..).step_by(8).zip(["/proc", "/sys"]) {
            area.set(offset, fs::metadata(root).map_or(0, |meta| meta.dev()));
        }
        area.set(state::CLONE_MIN, session.cloning.as_ref().map_or(0, |_| CLONE_BYTES_MIN));
        area.set(state::COUNTED, session.ticks.counts_branches().into());
        watched.set_hooks(Arc::clone(&area));
        // After that: who watches a file from here on finds the area.
        let is_new = session.watch.mapped() != mapped;
        session.watch.show_files(&area);
        if is_new {
            area.forget_files();
        }
        let arenas = patches.arenas.iter().map(|arena| arena.start);
        let arenas = arenas.chain(patches.dense.chunks()).collect();
        *watched.arenas.lock().unwrap_or_else(PoisonError::into_inner) = arenas;
        let counts = Counts::new(&area);
        Hooks { area, counts, fds_differ: false, fds_shared: false, judged: [0; 8] }
    }
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
