//! Orphaned process groups: those of which no member has a parent in another group of the same session, a
//! shell for instance, who could let it go on once it is stopped. Where a group that has stopped members
//! becomes one, as a process ends, the kernel sends SIGHUP and SIGCONT to it (`kill_orphaned_pgrp` in its
//! `exit.c`). To the kernel, bis is the parent of the recording's orphans, and could. So it is looked here,
//! too (`groups.rs`), with the parents that processes have in their own eyes.

use std::collections::{BTreeSet, HashMap};

use bis_trace::types::{self, Tid};
use bis_tracee::{
    proc::{self, Stat},
    siginfo::is_pending,
};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{
    Session,
    groups::{self, Member},
};

fn group_of(tid: Tid) -> Option<i32> {
    Stat::of(tid).ok()?.group()
}

impl Session {
    /// A signal is about to stop this task with its process.
    pub fn about_to_stop(&self, tid: Tid) {
        let is_kept = || group_of(tid).is_none_or(|group| self.may_be_continued(group, tid));
        self.halted.note_stop(tid, is_kept());
        // Who ended while it was looked did not find it stopped: the kernel sends nothing then.
        self.halted.look(tid, is_kept());
    }

    /// A process has ended: stopped groups that have become orphaned by that go on.
    pub fn let_orphaned_go(&self) {
        let (mut known, mut orphaned) = (HashMap::new(), BTreeSet::new());
        for tid in self.halted.stopped() {
            let Some(group) = group_of(tid) else { continue };
            let is_kept = *known.entry(group).or_insert_with(|| self.may_be_continued(group, tid));
            // One whose supervisor has not heard yet that it goes on is not stopped any more.
            if self.halted.look(tid, is_kept) && !is_pending(tid, types::Signal::CONT) {
                orphaned.insert(group);
            }
        }
        for group in orphaned.into_iter().filter_map(Pid::from_raw).filter(|group| !group.is_init()) {
            tracing::debug!(group = group.as_raw_pid(), "a stopped process group is orphaned");
            for signal in [Signal::HUP, Signal::CONT] {
                // All of them may have ended meanwhile.
                let _ = kill_process_group(group, signal);
            }
        }
    }

    /// Has this process group a member whose parent is in another group of its session? `tid` is one of it:
    /// of most groups, its own parent is.
    fn may_be_continued(&self, group: i32, tid: Tid) -> bool {
        let of = |pid: Tid| {
            let stat = Stat::of(pid).ok()?;
            let parent = stat.parent().map(|parent| self.parent_shown(pid, parent));
            let is_dead = matches!(stat.state(), Some('Z' | 'X'));
            Some(Member { group: stat.group(), session: stat.session(), parent, is_dead })
        };
        groups::may_be_continued(group, tid, proc::processes, of)
    }
}
