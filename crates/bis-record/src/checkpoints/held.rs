//! What is kept of a process: the checkpoints of a domain as values.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use bis_trace::{
    event::Effect,
    types::{Addr, EventSeq, ObjectId, Registers, Tid},
};
use bis_tracee::{handover::Parked, shadow::Shadow, siginfo::SigInfo};

use super::{files::KeptFile, table::Descriptors};
use crate::{
    signals::kept::Stash,
    space::{AddressSpace, Key},
    task::Traits,
};

/// The checkpoints of one domain.
#[derive(Debug, Default)]
pub struct Checkpoints {
    pub(super) by_handle: BTreeMap<u64, Checkpoint>,
    /// Which shared objects no process outside of the recording was seen to map.
    pub(super) alone: BTreeMap<ObjectId, bool>,
    /// The threads that have ended for others, and are in a checkpoint.
    pub(super) ended: BTreeMap<Tid, Ended>,
    /// The processes that have no timer: they had none when the kernel was asked, and none was made since.
    pub(super) timeless: BTreeSet<Tid>,
}

#[derive(Debug)]
pub(super) struct Checkpoint {
    pub shadow: Shadow,
    /// The task that has made it.
    pub maker: Tid,
    pub tasks: BTreeMap<Tid, Kept>,
    /// What was known of the address space.
    pub space: AddressSpace,
    pub kernel: Kernel,
    /// The shared memory that only this process maps.
    pub shared: Vec<KeptShared>,
    /// The files that it may write to by its memory.
    pub files: Vec<KeptFile>,
    pub descriptors: Descriptors,
    pub since: Since,
    /// How often the process has gone back to it, and in which way the last time.
    pub count: u64,
    pub how: u64,
    /// The event of its making.
    pub made: EventSeq,
    /// The event with which it has returned last: that of its making, or of the last way back to it.
    pub at: EventSeq,
}

/// What may make pages that the process still has in common with somebody other than the shadow's.
#[derive(Clone, Debug, Default)]
pub(super) struct Since {
    /// The address space was copied again.
    is_copied: bool,
    /// What was mapped, moved or forgotten there. (A page of zeros that was only read is everybody's, and one
    /// that was moved shows what was elsewhere.)
    remapped: Vec<Range<Addr>>,
}

impl Since {
    /// More ranges than this are not worth to be remembered.
    const RANGES_MAX: usize = 4096;

    fn remap(&mut self, range: Range<Addr>) {
        let is_full = self.remapped.len() >= Since::RANGES_MAX;
        match self.remapped.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ if is_full => self.is_copied = true,
            _ => self.remapped.push(range),
        }
    }

    /// Is a page the same as the shadow's that both have in common with somebody?
    pub fn tells(&self, page: Addr) -> bool {
        !self.is_copied && !self.remapped.iter().any(|range| range.contains(&page))
    }
}

/// What the kernel knows of the process beside its memory and registers.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What is left of each interval timer, and its interval; none: it does not run.
    pub timers: [Option<Vec<u8>>; 3],
    /// What is left of the timers that timer_create has made, by their ids.
    pub made_timers: BTreeMap<u64, Vec<u8>>,
    /// The signals that wait for any task of the process.
    pub pending: Vec<SigInfo>,
    /// Where calls made in the name of the process and of its shadow have their arguments and results:
    /// scratch memory of the task that has made the checkpoint.
    pub buffer: Addr,
}

/// A task as it was.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// In no system call: before one that it was in.
    pub regs: Registers,
    pub xstate: Vec<u8>,
    pub sigmask: u64,
    /// The signals that wait in the kernel for it alone.
    pub pending: Vec<SigInfo>,
    pub stash: Stash,
    pub left_stack: Option<Addr>,
    /// Its stack for handlers (a `stack_t`); none: that could not be asked.
    pub alt_stack: Option<Vec<u8>>,
    /// What the kernel clears at its end, and where it has its robust futexes: addresses, or 0.
    pub clear_tid: Addr,
    pub robust_list: Addr,
}

/// A shared mapping whose content is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeptShared {
    pub range: Range<Addr>,
    /// As the kernel knows the object. The shadow maps it, so no other one has this name meanwhile.
    pub key: Key,
    /// The object's byte at the range's begin.
    pub offset: u64,
    pub prot: u32,
    pub is_anonymous: bool,
    /// The memory of the shadow's own with the copy; behind it there is a byte for each of its pages.
    pub copy: Range<Addr>,
}

/// A thread that has ended for others.
#[derive(Debug)]
pub(super) struct Ended {
    /// Taken by whoever goes on with it.
    pub parked: Option<Parked>,
    pub pid: Tid,
    pub own_name: Tid,
    pub traits: Traits,
    /// The cores that were asked for it.
    pub cores: Option<Vec<u8>>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        // It ends with its process.
        if let Some(parked) = self.parked.take() {
            parked.leave();
        }
    }
}

impl Checkpoints {
    /// A task makes a timer.
    pub fn note_timer(&mut self) {
        self.timeless.clear();
    }

    /// The address space is copied (by a fork, or for another checkpoint): from now on, a page may be one
    /// that nobody has written to since and differ from a shadow's all the same.
    pub fn note_copy(&mut self) {
        self.by_handle.values_mut().for_each(|checkpoint| checkpoint.since.is_copied = true);
    }

    /// The address space changes by these effects.
    pub fn note(&mut self, effects: &[Effect]) {
        for checkpoint in self.by_handle.values_mut() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_common_tell_nothing_where_something_else_was_mapped_or_after_a_copy() {
        let mut since = Since::default();
        assert!(since.tells(Addr(0x5000)));
        since.remap(Addr(0x4000)..Addr(0x6000));
        since.remap(Addr(0x6000)..Addr(0x7000));
        since.remap(Addr(0x9000)..Addr(0x9000));
        assert_eq!(since.remapped, vec![Addr::range(0x4000..0x7000); 1]);
        assert!(!since.tells(Addr(0x5000)) && !since.tells(Addr(0x6000)) && since.tells(Addr(0x7000)));
        for at in 0..2 * Since::RANGES_MAX as u64 {
            since.remap(Addr(at << 20)..Addr((at << 20) + 0x1000));
        }
        assert!(since.is_copied && since.remapped.len() == Since::RANGES_MAX && !since.tells(Addr(0x7000)));
    }
}
