//! Orphaned process groups: those of which no member has a parent in another group of the same session, a
//! shell for instance, who could let it go on once it is stopped. Where a group that has stopped members
//! becomes one, as a process ends, the kernel sends SIGHUP and SIGCONT to it (`kill_orphaned_pgrp` in its
//! `exit.c`). To the kernel, bis is the parent of the recording's orphans, and could. So it is looked here,
//! too, with the parents that processes have in their own eyes.

use std::collections::BTreeSet;

use bis_trace::types::{self, Tid};
use bis_tracee::{
    proc::{self, Fields, Stat},
    siginfo::bit,
};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Session;

/// Has SIGCONT been sent to the task's process, of which its supervisor has not heard yet?
fn is_continued(tid: Tid) -> bool {
    let sets = ["SigPnd", "ShdPnd"];
    let pending = Fields::of(tid).map(|fields| sets.map(|set| fields.number(set, 16).unwrap_or(0)));
    pending.is_some_and(|sets| sets.iter().any(|set| set & bit(types::Signal::CONT) != 0))
}

impl Session {
    /// A signal is about to stop this task with its process.
    pub fn about_to_stop(&self, tid: Tid) {
        self.halted.stops(tid, self.may_be_continued(tid));
    }

    /// A process has stopped, or one has ended: stopped groups that have become orphaned by that go on.
    pub fn let_orphaned_go(&self) {
        let forsaken = self.halted.forsaken(|tid| self.may_be_continued(tid));
        let group = |tid: Tid| Stat::of(tid).ok().filter(|_| !is_continued(tid))?.group();
        let groups: BTreeSet<i32> = forsaken.into_iter().filter_map(group).collect();
        for group in groups.into_iter().filter_map(Pid::from_raw).filter(|group| !group.is_init()) {
            tracing::debug!(group = group.as_raw_pid(), "a stopped process group is orphaned");
            for signal in [Signal::HUP, Signal::CONT] {
                // All of them may have ended meanwhile.
                let _ = kill_process_group(group, signal);
            }
        }
    }

    /// Has the process group of this task a member whose parent is in another group of its session?
    fn may_be_continued(&self, tid: Tid) -> bool {
        let Some(group) = Stat::of(tid).ok().and_then(|stat| stat.group()) else { return true };
        let is_kept = |pid: Tid| {
            let member = Stat::of(pid).ok().filter(|stat| stat.group() == Some(group));
            let Some(member) = member.filter(|stat| !matches!(stat.state(), Some('Z' | 'X'))) else {
                return false;
            };
            let Some(parent) = member.parent() else { return false };
            let parent = self.parent_shown(pid, parent);
            // The first process of all is nobody's shell.
            if parent.0 <= 1 {
                return false;
            }
            Stat::of(parent)
                .is_ok_and(|parent| parent.group() != Some(group) && parent.session() == member.session())
        };
        // Of most groups, it is the one that has stopped itself.
        is_kept(tid) || proc::processes().into_iter().any(is_kept)
    }
}
