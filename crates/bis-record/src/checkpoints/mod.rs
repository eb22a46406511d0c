//! Checkpoints that a program makes of itself, and its ways back to them (the Flashback paper).
//!
//! A checkpoint is a shadow of the process ([`bis_tracee::shadow`]), with what the kernel and the recorder know
//! of its tasks as plain values. The process goes back in place, because others know it by its number: what is
//! mapped becomes as it was (`layout.rs`), pages that differ from the shadow's are copied from it
//! (`content.rs`), tasks that have begun since end, and all others get the registers that they had; one that was
//! in a call makes it again.
//!
//! In the trace a way back is one event, the call that asks for it: its outcome has all of that, as effects and
//! bytes. So replay needs to know nothing of checkpoints, and a debugger moves through both branches.

mod content;
mod descriptors;
mod kernel;
mod layout;
mod restore;
mod take;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use bis_syscalls::{Call, own};
use bis_trace::{
    event::Effect,
    types::{Registers, Tid},
};
use bis_tracee::{shadow::Shadow, siginfo::SigInfo};

use crate::{domain::Domain, error::Result, space::AddressSpace, task::InCall};

use descriptors::Descriptors;
use kernel::Kernel;

/// The checkpoints of one domain, by their handles.
#[derive(Debug, Default)]
pub struct Checkpoints(BTreeMap<u64, Checkpoint>);

#[derive(Debug)]
struct Checkpoint {
    shadow: Shadow,
    /// The task that has made it.
    maker: Tid,
    tasks: BTreeMap<Tid, Kept>,
    /// What was known of the address space.
    space: AddressSpace,
    kernel: Kernel,
    descriptors: Descriptors,
    since: Since,
    /// How often the process has gone back to it, and in which way the last time.
    count: u64,
    how: u64,
}

/// What may make pages that the process still has in common with somebody other than the shadow's.
#[derive(Clone, Debug, Default)]
struct Since {
    /// The address space was copied again.
    is_copied: bool,
    /// What was mapped, moved or forgotten there. (A page of zeros that was only read is everybody's, and one
    /// that was moved shows what was elsewhere.)
    remapped: Vec<Range<u64>>,
}

impl Since {
    /// More ranges than this are not worth to be remembered.
    const RANGES_MAX: usize = 4096;

    fn remap(&mut self, range: Range<u64>) {
        let is_full = self.remapped.len() >= Since::RANGES_MAX;
        match self.remapped.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ if is_full => self.is_copied = true,
            _ => self.remapped.push(range),
        }
    }

    /// Is a page the same as the shadow's that both have in common with somebody?
    fn tells(&self, page: u64) -> bool {
        !self.is_copied && !self.remapped.iter().any(|range| range.contains(&page))
    }
}

/// A task as it was.
#[derive(Clone, Debug)]
struct Kept {
    /// In no system call: before one that it was in.
    regs: Registers,
    xstate: Vec<u8>,
    sigmask: u64,
    stash: VecDeque<SigInfo>,
    left_stack: Option<u64>,
}

impl Checkpoints {
    /// The address space is copied (by a fork, or for another checkpoint): from now on, a page may be one that
    /// nobody has written to since and differ from a shadow's all the same.
    pub fn note_copy(&mut self) {
        self.0.values_mut().for_each(|checkpoint| checkpoint.since.is_copied = true);
    }

    /// The address space changes by these effects.
    pub fn note(&mut self, effects: &[Effect]) {
        for checkpoint in self.0.values_mut() {
            for effect in effects {
                let (addr, len) = match *effect {
                    Effect::Map { addr, len, .. }
                    | Effect::Unmap { addr, len }
                    | Effect::Advise { addr, len, .. } => (addr, len),
                    Effect::Remap { addr, old_len, new_addr, new_len, .. } => {
                        checkpoint.since.remap(addr..addr.saturating_add(old_len));
                        (new_addr, new_len)
                    }
                    _ => continue,
                };
                checkpoint.since.remap(addr..addr.saturating_add(len));
            }
        }
    }
}

impl Domain {
    /// A task makes the call that is bis's own, for one of its operations on checkpoints.
    pub fn asked_of_checkpoints(&mut self, tid: Tid, state: InCall, call: &Call) -> Result<()> {
        let [operation, handle, how, ..] = call.args;
        match operation {
            own::CHECKPOINT => self.take_checkpoint(tid, state, handle),
            own::ROLLBACK => self.go_back(tid, state, (handle, how)),
            own::DISCARD => {
                let result = match self.checkpoints.0.remove(&handle) {
                    Some(checkpoint) => {
                        let shadow = checkpoint.shadow.pid();
                        drop(checkpoint);
                        self.reap(tid, shadow)?;
                        0
                    }
                    None => -i64::from(libc::EINVAL),
                };
                self.not_made(tid, state, result)
            }
            _ => {
                let how = self.checkpoints.0.get(&handle).map(|checkpoint| checkpoint.how.cast_signed());
                self.not_made(tid, state, how.unwrap_or(-i64::from(libc::EINVAL)))
            }
        }
    }

    /// A shadow has ended, and is its parent's to reap: who else would, only sees it end with the process.
    fn reap(&mut self, tid: Tid, shadow: Tid) -> Result<()> {
        let flags = u64::from((libc::__WALL | libc::WNOHANG).cast_unsigned());
        let shadow = u64::from(shadow.0.cast_unsigned());
        self.call_for(tid, libc::SYS_wait4, [shadow, 0, flags, 0, 0, 0]).map(drop)
    }
}
