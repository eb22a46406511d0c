//! What the hooks are told before a task goes on, and whenever it changes: whether the task is alone, which
//! calls are left to be judged, whose the descriptors are, whether they may read the clock.

use std::{
    path::Path,
    sync::atomic::{Ordering, fence},
    time::Duration,
};

use bis_agent::hooks::state;
use bis_trace::types::{Addr, Tid};
use bis_tracee::{image, proc};

use super::{
    clock::{close, show},
    plain,
};
use crate::{
    Checksum, affinities, crew::with_slot, domain::Domain, error::Result, process::Process, task::Task,
};

const GETPPID: usize = libc::SYS_getppid as usize;
const FUTEX: usize = libc::SYS_futex as usize;
const GETCPU: usize = libc::SYS_getcpu as usize;

impl Domain {
    /// Has the hook that has left this call found that it would wait?
    pub fn take_tried(&mut self) -> bool {
        let Some(hooks) = &self.hooks else { return false };
        let tried = hooks.area.get(state::WAITS) != 0;
        if tried {
            hooks.area.set(state::WAITS, 0);
            let answered = hooks.area.get(state::ANSWERED);
            if self.tokens.holds_any() {
                self.tokens.linger.left(answered);
            } else {
                self.linger.note_run_out(answered);
            }
        }
        tried
    }

    /// Before a task goes on in its program: tells the hooks and the watch thread how things are.
    pub fn prepare(&mut self, tid: Tid) {
        let (alone, takes_turns) = (self.is_alone(), self.tasks.len() > 1 || self.holds_tokens());
        let stashed = self.tasks.get(&tid).is_some_and(|task| !task.signals.stash.is_empty());
        self.watched.takes_turns.store(takes_turns, Ordering::Relaxed);
        self.watched.is_awaited.store(stashed, Ordering::Relaxed);
        if let Some(core) = self.watched.seat.take_wanted() {
            self.core = self.session.cores.move_to(core, self.core);
            self.pin();
        }
        self.watched.seat.set_runner(tid);
        self.note_way_on(tid);
        self.show_sandbox(tid);
        // Its tracer hears of what it executes, and a hook's number would be one of its steps; or waits for
        // it to stop, which it could not in a hook.
        let is_told = self.session.traced.is_stepped(tid) || self.session.traced.is_asked(tid);
        let is_halted = self.tasks.get(&tid).is_some_and(|task| task.to_stop.is_halted());
        let Some(hooks) = &self.hooks else { return };
        // What is logged already has been logged as things were.
        if !hooks.area.has_log() {
            hooks.area.set(state::ALONE, alone.into());
        }
        hooks.area.set(state::STOP, (stashed || is_told || is_halted).into());
        hooks.area.set(state::CHANGES, self.change_limit(tid).0);
        let time = self.linger_time(tid);
        hooks.area.set(state::LINGER, time.as_nanos().try_into().unwrap_or(0));
        // A domain that has just told it something has asked it to stop, too, perhaps before that was unsaid.
        fence(Ordering::SeqCst);
        if self.session.views.has_news(self.id) || self.session.mail.has_news(self.id) {
            hooks.area.set(state::STOP, 1);
        }
    }

    /// How long may a call of this task wait in its hook before it is left for others?
    fn linger_time(&self, tid: Tid) -> Duration {
        let has_turn = |task: &Task| task.tid != tid && (task.standing.is_ready() || task.report.is_there());
        // Where tasks of its own wait for their turns, it gives way at once; and where turns are drawn.
        if !self.session.lingers || self.tasks.values().any(has_turn) {
            return Duration::ZERO;
        }
        match (self.holds_tokens(), self.tasks.len()) {
            (false, _) => self.linger.time(),
            (true, 1) => self.tokens.linger.time(),
            (true, _) => Duration::ZERO,
        }
    }

    /// Another task has something to report, and this one, which runs, is not to wait in a hook any more.
    pub fn end_linger(&mut self, tid: Tid) -> Result<()> {
        let has_come = |task: &Task| task.tid != tid && task.report.is_there();
        let Some(hooks) = &self.process.hooks else { return Ok(()) };
        if hooks.area.get(state::LINGER) == 0 || !self.process.tasks.values().any(has_come) {
            return Ok(());
        }
        hooks.area.set(state::LINGER, 0);
        // The hook says that it waits after it has looked for how long it may. One that has looked and not
        // said so yet waits for its time, which is short.
        fence(Ordering::SeqCst);
        if hooks.area.get(state::LINGERS) == 0 {
            return Ok(());
        }
        self.linger.left(hooks.area.get(state::ANSWERED));
        self.interrupt(tid)
    }
}

impl Process {
    /// The task is gone, perhaps out of a hook.
    pub fn end_in_hook(&self) {
        if let Some(hooks) = &self.hooks
            && hooks.area.get(state::IN_HOOK) != 0
        {
            for word in
                [state::IN_HOOK, state::PHASE, state::WRITING, state::BAIL, state::EXIT_STOP, state::CUT]
            {
                hooks.area.set(word, 0);
            }
        }
    }

    /// The task has another current folder now: does it lie in /proc?
    pub fn show_folder(&self, tid: Tid) {
        if self.hooks.is_some() {
            self.show_folder_is(&proc::link(tid, "cwd").unwrap_or_default());
        }
    }

    /// The task has this current folder now: does it lie in /proc?
    pub fn show_folder_is(&self, folder: &Path) {
        if let Some(hooks) = &self.hooks {
            hooks.area.set(state::IN_PROC, folder.starts_with("/proc").into());
        }
    }

    /// Somebody of another domain will have the same descriptors (CLONE_FILES), for ever.
    pub fn share_fds(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.fds_shared = true;
        }
        self.set_fds_differ(true);
    }

    /// A task with descriptors of its own joins the domain (vfork), or one that shared them is alone again.
    pub fn set_fds_differ(&mut self, differ: bool) {
        if let Some(hooks) = &mut self.hooks {
            let differ = differ || hooks.fds_shared;
            hooks.fds_differ = differ;
            hooks.area.forget_classes();
            hooks.area.set(state::NO_FDS, differ.into());
        }
    }

    /// Up to which address the hooks of this task may change its memory; null: they may not.
    fn change_limit(&self, tid: Tid) -> Addr {
        let Some(task) = self.tasks.get(&tid) else { return Addr::NULL };
        // A process that is killed in the middle of a hook may have changed what is not in the log: another
        // one with this memory would see that.
        let has_others = self.tasks.values().any(|other| other.pid != task.pid);
        // What can be read can be executed there; and steps must be the same in replay.
        if task.traits.wishes.reads_execute || has_others || self.session.steps.is_some() {
            return Addr::NULL;
        }
        self.space.below_what_grows().unwrap_or_default()
    }

    /// Before a task goes on: tells the hooks which of its calls are to be judged.
    pub fn show_sandbox(&mut self, tid: Tid) {
        let Process { crew, hooks: Some(hooks), .. } = self else { return };
        let Some(task) = crew.tasks.get(&tid) else { return };
        let mut judged = task.traits.wishes.held.judged;
        if !crew.session.is_root(task.pid) {
            // It may be an orphan by then (`Session::parent_shown`).
            judged[GETPPID / 64] |= 1 << (GETPPID % 64);
        }
        if crew.is_anybody_too_late(tid) {
            judged[FUTEX / 64] |= 1 << (FUTEX % 64);
        }
        let mut told = [0; 2];
        let asked = crew.session.affinities.of(tid);
        if let Some(mask) = asked.as_ref().filter(|asked| **asked != crew.session.cores.original) {
            // It is told of a core that was asked for (`Crew::told_core`).
            judged[GETCPU / 64] |= 1 << (GETCPU % 64);
            let begin = mask.iter().take(8).enumerate();
            let first = affinities::first_core(mask).map_or(0, |first| u64::from(first) + 1);
            told = [first, begin.fold(0, |bits, (at, byte)| bits | u64::from(*byte) << (8 * at))];
        }
        if hooks.told_cores != told {
            hooks.told_cores = told;
            hooks.area.set(state::CORE, told[0]);
            hooks.area.set(state::CORES, told[1]);
        }
        let all_traced = crew.session.options.checksum.is_some_and(|checksum| checksum >= Checksum::Calls);
        if all_traced || crew.session.traced.concerns(task.pid) {
            judged.fill(u64::MAX);
        }
        if hooks.judged != judged {
            hooks.judged = judged;
            for (offset, word) in (state::JUDGED..).step_by(8).zip(hooks.judged) {
                hooks.area.set(offset, word);
            }
            // Who has asked for its cores meanwhile has told the hooks so before that was unsaid.
            fence(Ordering::SeqCst);
            if crew.session.affinities.of(tid) != asked {
                self.show_sandbox(tid);
            }
        }
    }

    /// The hooks may have moved the end of the heap since it was looked at last.
    pub fn learn_heap(&mut self) {
        if let Some(brk) = self.hooks.as_ref().and_then(|hooks| plain::heap(&hooks.area)) {
            self.space.move_brk(Addr(brk));
        }
    }

    /// Tells the hooks where the heap ends: after it was moved without them.
    pub fn show_heap(&self) {
        if let Some(hooks) = &self.hooks {
            hooks.area.set(state::BRK, self.space.brk().0);
        }
    }

    /// Tells the hooks' area what the clock is; after it was made, and after each change.
    pub fn show_clock(&self) {
        if let Some(hooks) = &self.hooks {
            show(hooks, self.space.clock());
        }
    }

    /// May the domain's tasks read the time stamp counter?
    fn is_clock_open(&self) -> bool {
        self.hooks.is_some() && !self.space.clock().closed
    }

    /// From here on, nothing is known of the domain's executable memory: before any task goes on, `rdtsc`
    /// faults in it.
    pub fn close_clock(&mut self, why: &str) {
        if let Some(hooks) = &self.hooks {
            close(self.id, hooks, &mut self.space, why);
        }
    }

    /// An `rdtsc` has faulted: tells the hooks what the counter is from here on, if their domain is closed.
    /// Where branches are counted, replay would make others than a hook that asks.
    pub fn tell_counter(&self) {
        let Some(hooks) = self.hooks.as_ref().filter(|_| self.space.clock().closed) else { return };
        if hooks.area.get(state::COUNTED) != 0 {
            return;
        }
        let told = self.session.measure_counter().unwrap_or_default();
        // No task of the domain is in such a hook now: one of them has the turn, and has faulted.
        let words = [
            (state::COUNTER_AT, told.counter),
            (state::COUNTER_AT + 8, told.clock),
            (state::COUNTER_FOR, told.lasts),
            (state::COUNTER_RATE, told.rate),
        ];
        words.into_iter().for_each(|(word, value)| hooks.area.set(word, value));
    }

    /// At the end of an exec, when all of the image has been looked at: lets the task read the counter, or
    /// not.
    pub fn begin_clock(&mut self, tid: Tid) -> Result<()> {
        self.show_clock();
        let open = self.is_clock_open();
        with_slot(self, tid, |_, slot| Ok(image::set_tsc(slot, !open)?))?;
        self.task(tid)?.traits.reads_tsc = open;
        Ok(())
    }

    /// Before a task goes on: makes `rdtsc` fault in it, if the domain is closed by now.
    pub fn obey_clock(&mut self, tid: Tid) -> Result<()> {
        let closed = self.hooks.is_some() && self.space.clock().closed;
        let task = self.task(tid)?;
        // In a call, it stops again before it goes on in its program; with a signal, before it executes
        // anything.
        if closed && task.traits.reads_tsc && task.call.is_none() && !task.signals.coming.is_given() {
            task.traits.reads_tsc = false;
            with_slot(self, tid, |_, slot| Ok(image::set_tsc(slot, true)?))?;
        }
        Ok(())
    }
}
