//! How far a recording has come: which of its processes there are, and why it ends.

use std::{
    collections::HashSet,
    sync::PoisonError,
    time::{Duration, Instant},
};

use bis_trace::types::{Signal, Tid};
use bis_tracee::{ours, outside, proc, sys, task};

use super::Session;
use crate::error::RecordError;

/// How long what is killed at the end may take to end; a process that waits for a device may take for ever.
const KILL_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Supervisor threads that have not ended.
    pub live: usize,
    pub root: Option<Tid>,
    pub exit_code: Option<u8>,
    pub ended: Option<Instant>,
    /// Came before there was a program to send it to.
    pub early: Option<Signal>,
    /// All processes that there were.
    pub processes: HashSet<Tid>,
    /// Those of them that stand in for a program outside.
    pub stand_ins: HashSet<Tid>,
    /// What the program has left running is not waited for any longer.
    pub is_over: bool,
    /// Since when that is being killed, and what it was.
    pub killed: Option<Instant>,
    pub left: Vec<(String, Tid)>,
    /// The stand-ins that were there when the programs outside were let go.
    pub go_on: Vec<(String, Tid)>,
    /// Why the recording ends though processes that the program has left are still there.
    pub cut: Option<String>,
    pub failure: Option<RecordError>,
    /// The failure was seen by nobody who supervises.
    pub is_nobodys: bool,
    pub looking: Looking,
    pub is_recorded: bool,
    pub refused: Vec<String>,
}

/// Whether somebody looks at what the recording fails with ([`crate::fault`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Looking {
    #[default]
    NotYet,
    Now,
    /// There is one fault to look at, the first.
    Over,
}

impl Looking {
    /// Somebody wants to look. False: somebody does already, or has.
    pub fn begin(&mut self) -> bool {
        let is_first = *self == Looking::NotYet;
        if is_first {
            *self = Looking::Now;
        }
        is_first
    }
}

/// What there is of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// None of its threads is alive.
    Ended,
    /// Some are, and we trace none of them. It may be another process, which has the number of one that has
    /// ended.
    Alive,
    /// We trace one that is alive. The first thread may have ended before the others, and is then traced no
    /// more ([`crate::ends`]).
    Traced,
}

impl Life {
    fn of(pid: Tid) -> Life {
        let alive: Vec<Tid> = proc::threads(pid).into_iter().filter(|tid| task::is_alive(*tid)).collect();
        match alive.is_empty() {
            true => Life::Ended,
            false if alive.into_iter().any(task::is_traced_here) => Life::Traced,
            false => Life::Alive,
        }
    }
}

/// What is to be done about what is traced here when a recording has failed.
#[derive(PartialEq, Eq, Debug)]
struct Remains {
    kill: Vec<Tid>,
    /// A process of the recording has still to end.
    is_left: bool,
}

fn kill(pid: Tid) {
    let _ = ours::send(pid, Signal::KILL);
}

impl Progress {
    /// This process is killed because the program has left it running; what is said of it at the end. It may
    /// be killed more than once.
    fn note_killed(&mut self, name: String, pid: Tid) {
        let list = if self.stand_ins.contains(&pid) { &mut self.go_on } else { &mut self.left };
        if !list.iter().any(|(_, known)| *known == pid) {
            list.push((name, pid));
        }
    }

    /// This process has ended; if it is the program itself, its status is ours.
    fn note_end(&mut self, pid: Tid, exit_code: u8, now: Instant) {
        if self.root == Some(pid) {
            (self.exit_code, self.ended) = (Some(exit_code), Some(now));
        }
    }

    /// The recording fails. The first failure is the one that is told.
    fn note_failure(&mut self, error: RecordError) {
        self.failure.get_or_insert(error);
        self.live = 0;
    }

    /// The processes that the program has left running.
    fn left_running(&self, life: impl Fn(Tid) -> Life) -> Vec<Tid> {
        let is_it = |pid: &Tid| Some(*pid) != self.root && life(*pid) == Life::Traced;
        let mut there: Vec<Tid> = self.processes.iter().copied().filter(is_it).collect();
        there.sort_unstable();
        there
    }

    /// What is traced here is to be killed, but for what stands in for programs outside: that goes by itself,
    /// with us.
    fn remains(&self, life: impl Fn(Tid) -> Life) -> Remains {
        let mut remains = Remains { kill: Vec::new(), is_left: false };
        for pid in self.processes.difference(&self.stand_ins) {
            let life = life(*pid);
            remains.is_left |= life != Life::Ended;
            remains.kill.extend((life == Life::Traced).then_some(*pid));
        }
        remains
    }

    /// Kills what is traced here. True: a process of the recording has still to end.
    pub fn kill_traced(&self) -> bool {
        let remains = self.remains(Life::of);
        remains.kill.into_iter().for_each(kill);
        remains.is_left
    }

    /// Kills what the program has left running, as often as something is left: it may be about to fork. It is
    /// recorded to its end like everything else. False: it has not ended in time.
    pub fn kill_left(&mut self) -> bool {
        let there = self.left_running(Life::of);
        if there.is_empty() {
            return true;
        }
        // What runs outside goes on, though its stand-in does not.
        outside::let_all_go();
        let names: Vec<String> = there.iter().map(|pid| proc::name(*pid)).collect();
        for (name, pid) in names.into_iter().zip(there) {
            kill(pid);
            self.note_killed(name, pid);
        }
        self.killed.get_or_insert_with(Instant::now).elapsed() < KILL_MAX
    }
}

impl Session {
    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// One failed domain ends the recording: its tasks are killed with its thread, and all the others' with
    /// the process; so nothing runs on unrecorded.
    pub(super) fn fail(&self, progress: &mut Progress, error: RecordError) {
        tracing::error!(%error, "the recording fails");
        progress.note_failure(error);
    }

    pub fn set_root(&self, tid: Tid) {
        self.update(|progress| {
            progress.root = Some(tid);
            if let Some(signal) = progress.early.take() {
                let _ = ours::send(tid, signal);
            }
        });
    }

    /// There is something to record from here on.
    pub fn begin_recording(&self) {
        // Without it (an old kernel) orphans go to init, and Yama may then refuse us.
        let _ = sys::become_subreaper();
        self.update(|progress| progress.is_recorded = true);
    }

    /// A process asked for its first checkpoint, and did not get it.
    pub fn note_refusal(&self, why: String) {
        self.update(|progress| progress.refused.push(why));
    }

    /// Has the program ended?
    pub fn has_ended(&self) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).ended.is_some()
    }

    /// A process of the recording begins.
    pub fn note_process(&self, pid: Tid) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).processes.insert(pid);
    }

    /// This process stands in for a program outside from now on.
    pub fn left_out(&self, pid: Tid) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).stand_ins.insert(pid);
    }

    /// Is this a process of the recording, or was it one?
    pub fn is_recorded(&self, pid: Tid) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).processes.contains(&pid)
    }

    /// A process that is one of the recording, or was, and of which this is so.
    pub fn find_process(&self, is_it: impl Fn(Tid) -> bool) -> Option<Tid> {
        // To ask may take a call for each of them: nobody waits for the lock meanwhile.
        let processes: Vec<Tid> = {
            let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.processes.iter().copied().collect()
        };
        processes.into_iter().find(|pid| is_it(*pid))
    }

    /// A process has ended; if it is the program itself, its status is ours.
    pub fn note_end_of_process(&self, pid: Tid, exit_code: u8) {
        self.limits.forget(pid);
        self.affinities.forget(pid);
        self.let_orphaned_go();
        self.update(|progress| progress.note_end(pid, exit_code, Instant::now()));
    }

    pub fn is_root(&self, pid: Tid) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).root == Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_is_looked_at_and_no_other() {
        let mut looking = Looking::default();
        assert!(looking.begin() && looking == Looking::Now);
        assert!(!looking.begin() && looking == Looking::Now);
        looking = Looking::Over;
        assert!(!looking.begin() && looking == Looking::Over);
    }

    /// The program itself is 7, its daemons are 5 and 9, and 8 stands in for a program outside. The number 6
    /// belongs to a process that is none of the recording any more.
    fn there() -> (Progress, impl Fn(Tid) -> Life) {
        let processes = [4, 5, 6, 7, 8, 9].map(Tid).into();
        let progress =
            Progress { root: Some(Tid(7)), processes, stand_ins: [Tid(8)].into(), ..Progress::default() };
        let life = |pid: Tid| match pid.0 {
            4 => Life::Ended,
            6 => Life::Alive,
            _ => Life::Traced,
        };
        (progress, life)
    }

    #[test]
    fn what_the_program_has_left_running_is_not_the_program_and_is_traced() {
        let (progress, life) = there();
        assert_eq!(progress.left_running(life), [Tid(5), Tid(8), Tid(9)]);
    }

    #[test]
    fn what_is_traced_is_killed_when_a_recording_fails_and_all_that_is_alive_is_waited_for() {
        let (progress, life) = there();
        let mut remains = progress.remains(life);
        remains.kill.sort_unstable();
        assert_eq!(remains, Remains { kill: vec![Tid(5), Tid(7), Tid(9)], is_left: true });
        let left = |life| progress.remains(move |pid| if pid == Tid(6) { life } else { Life::Ended });
        assert_eq!(left(Life::Alive), Remains { kill: Vec::new(), is_left: true });
        assert_eq!(left(Life::Ended), Remains { kill: Vec::new(), is_left: false });
    }

    #[test]
    fn what_is_killed_more_than_once_is_named_once_and_what_runs_outside_goes_on() {
        let mut progress = Progress { stand_ins: [Tid(8)].into(), ..Progress::default() };
        for (name, pid) in [("daemon", 7), ("browser", 8), ("renamed", 7), ("browser", 8), ("daemon", 9)] {
            progress.note_killed(name.into(), Tid(pid));
        }
        assert_eq!(progress.left, [("daemon".into(), Tid(7)), ("daemon".into(), Tid(9))]);
        assert_eq!(progress.go_on, [("browser".into(), Tid(8))]);
    }

    #[test]
    fn the_status_of_the_program_is_that_of_its_first_process() {
        let mut progress = Progress { root: Some(Tid(7)), ..Progress::default() };
        let now = Instant::now();
        progress.note_end(Tid(8), 3, now);
        assert_eq!((progress.exit_code, progress.ended), (None, None));
        progress.note_end(Tid(7), 4, now);
        assert_eq!((progress.exit_code, progress.ended), (Some(4), Some(now)));
        let mut progress = Progress::default();
        progress.note_end(Tid(7), 4, now);
        assert_eq!(progress.exit_code, None, "there is no program yet");
    }

    #[test]
    fn the_first_failure_is_the_one_that_is_told_and_nobody_is_waited_for() {
        let bug = |what: &str| RecordError::Bug { tid: Tid(7), what: what.into() };
        let mut progress = Progress { live: 2, ..Progress::default() };
        progress.note_failure(bug("one"));
        progress.live += 1;
        progress.note_failure(bug("other"));
        assert_eq!(progress.live, 0);
        let failure = progress.failure.expect("it fails").to_string();
        assert!(failure.contains("one") && !failure.contains("other"), "{failure}");
    }
}
