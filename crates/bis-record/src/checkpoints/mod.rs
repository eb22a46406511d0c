//! Checkpoints that a program makes of itself, and its ways back to them (the Flashback paper).
//!
//! A checkpoint is a shadow of the process ([`bis_tracee::shadow`]), with what the kernel and the recorder
//! know of its tasks as plain values. The process goes back in place, because others know it by its number:
//! what is mapped becomes as it was (`layout.rs`), pages that differ from the shadow's are copied from it
//! (`content.rs`), tasks that have begun since end, and all others get the registers that they had; one that
//! was in a call makes it again.
//!
//! In the trace a way back is one event, the call that asks for it: its outcome has all of that, as effects
//! and bytes. So replay needs to know nothing of checkpoints, and a debugger moves through both branches.
//!
//! The other way back, by which what has happened since is only executed again, is `replayed.rs`.

mod by_itself;
mod content;
mod descriptors;
mod ended;
mod files;
pub mod held;
mod kernel;
mod layout;
pub mod replayed;
mod restore;
mod shared;
mod table;
mod take;

use bis_syscalls::{Call, own};
use bis_trace::types::{Addr, Tid};

use crate::{domain::Domain, error::Result, task::InCall};

impl Domain {
    /// A task makes the call that is bis's own, for one of its operations on checkpoints.
    pub fn asked_of_checkpoints(&mut self, tid: Tid, state: InCall, call: &Call) -> Result<()> {
        let [operation, handle, how, ..] = call.args;
        match operation {
            own::CHECKPOINT => self.take_checkpoint(tid, state, Addr(handle)),
            own::ROLLBACK if how == own::REPLAY => self.replay_since(tid, state, handle),
            own::ROLLBACK => self.go_back(tid, state, (handle, how)),
            own::DISCARD => {
                let result = match self.checkpoints.by_handle.remove(&handle) {
                    Some(checkpoint) => {
                        self.end_shadow(tid, checkpoint.shadow)?;
                        self.recorder().end_unknown()?;
                        0
                    }
                    None => -i64::from(libc::EINVAL),
                };
                self.not_made(tid, state, result)
            }
            _ => {
                let how =
                    self.checkpoints.by_handle.get(&handle).map(|checkpoint| checkpoint.how.cast_signed());
                self.not_made(tid, state, how.unwrap_or(-i64::from(libc::EINVAL)))
            }
        }
    }
}
