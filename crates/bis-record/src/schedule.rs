//! Which task runs next. One task of a domain at a time executes program code:
//!
//! - The running task keeps its turn over system calls that return at once, until its time slice is over and
//!   another of at least its priority is ready. The slice is looked at when the task makes a call; one that
//!   makes none is stopped where it is (`pause.rs`). Where nobody else gets on, it loses its turn some
//!   instructions behind its call (`stuck.rs`).
//! - A call that may block is made, and the task gets a moment to come back (supervisor and task share a
//!   core, so a yield lets it run; not for a call that is known to wait). If it does not, the call is written
//!   down as entered, and the next ready task runs.
//! - Priorities order (the lower `nice` first, round robin among equals), and starve nobody: a task that has
//!   been ready for long has a turn before more urgent ones. They may spin until it has run.
//! - When all tasks wait in the kernel, the domain gives its run tokens back and sleeps until one reports.

use std::{
    io,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use bis_trace::types::{Addr, Tid};
use bis_tracee::{Status, ours, proc::Runnable, task};

use crate::{
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    process::Process,
    seed::Seed,
    task::{InCall, Task},
};

/// How often a task in a call that may block gets the core before it counts as blocked.
const MOMENTS: u32 = 2;

/// Where the core is crowded, the supervisor sleeps instead, for this long; and so often for longer, if the
/// task is still on its way. (Whoever wakes takes the core from the task: to wake takes some 15 microseconds,
/// and soon the task would not come to its end.)
const MOMENT: Duration = Duration::from_micros(20);
const LONG_MOMENT: Duration = Duration::from_micros(100);
const LONG_MOMENTS: u32 = 3;

impl Domain {
    /// Runs the domain to its end. Returns the seed of the one that its last task goes on in, if it does.
    pub fn run(&mut self) -> Result<Option<Seed>> {
        self.hold_if_due(self.first_tid)?;
        self.recorder().begin_guided()?;
        loop {
            if self.tasks.is_empty() {
                self.end()?;
                return self.recorder().end_guided().map(|()| None);
            }
            if self.is_to_stand() {
                self.stand()?;
                continue;
            }
            self.hear_of_tracers()?;
            if let Some(tid) = self.released() {
                self.recorder().settle(Some(tid))?;
                self.ensure_tokens()?;
                self.let_released_go(tid)?;
                continue;
            }
            if let Some(tid) = self.reported() {
                self.recorder().settle(Some(tid))?;
                self.ensure_tokens()?;
                let next = self.handle(tid)?;
                if next.is_some() {
                    return Ok(next);
                }
                continue;
            }
            self.wake_writer()?;
            if self.is_shared_in_time() && self.wait_a_moment()? {
                continue;
            }
            if let Some(tid) = self.choose() {
                let to_step = self.to_step_for_guide();
                let comes_first = self.tasks.get(&tid).is_some_and(|task| task.standing.comes_first());
                let tid = to_step.filter(|_| !comes_first).unwrap_or(tid);
                self.recorder().settle(Some(tid))?;
                self.yield_tokens(tid)?;
                if to_step == Some(tid) {
                    self.step_for_guide(tid)?;
                    continue;
                }
                if let Some(steps) = self.draw_steps(tid) {
                    self.creep_on(tid, steps)?;
                    continue;
                }
                if !self.lie_in_wait(tid)? {
                    continue;
                }
                self.go(tid)?;
                continue;
            }
            self.sleep()?;
        }
    }

    /// Is there anybody who could run while a task of ours waits in the kernel?
    fn is_shared_in_time(&self) -> bool {
        self.tasks.len() > 1 || self.holds_tokens()
    }

    /// A task whose report is to be handled: first the one that has run, then the one whose turn it is.
    fn reported(&self) -> Option<Tid> {
        // The first thread of its process, in whatever that was, has nothing to report any more.
        let is_silent = |tid: Tid| self.tasks.get(&tid).is_some_and(|task| !task.report.is_there());
        let has_taken_over =
            |task: &&Task| matches!(task.report.status(), Some(Status::Exec(_))) && is_silent(task.pid);
        // There may be hundreds of tasks, and mostly none of them has reported.
        if self.tasks.values().all(|task| !task.report.is_there()) {
            return None;
        }
        if let Some(task) = self.tasks.values().find(has_taken_over) {
            return Some(task.tid);
        }
        if let Some(task) = self.tasks.values().find(|task| task.standing.is_in_hook()) {
            return task.report.is_there().then_some(task.tid);
        }
        // What it has computed and logged is in no event yet. One that it has woken may have come out of its
        // call meanwhile.
        let runner = self.watched.seat.runner();
        if self.tasks.get(&runner).is_some_and(|task| task.report.is_there()) {
            return Some(runner);
        }
        if self.tasks.values().any(|task| task.standing.comes_first()) {
            return None;
        }
        let has_report = |tid: &Tid| self.tasks.get(tid).is_some_and(|task| task.report.is_there());
        self.turns.iter().find(has_report)
    }

    /// Collects reports that are there already. If there is none, the task that has just gone into a call
    /// gets a moment to come out again, or the one that has just been woken; true if anything was reported.
    fn wait_a_moment(&mut self) -> Result<bool> {
        let woken = self.woken.take();
        let front = self.turns.front().and_then(|tid| self.tasks.get(&tid));
        let is_fresh = |task: &&Task| {
            !task.standing.is_ready()
                && task.call.as_ref().is_some_and(|call| call.telling.is_untold() && !call.wait.is_known())
        };
        let woken = woken.and_then(|tid| self.tasks.get(&tid));
        let woken = woken.filter(|task| !task.standing.is_ready() && !task.report.is_there());
        let fresh = woken.or(front.filter(is_fresh)).map(|task| task.tid);
        for moment in 0.. {
            if self.recorder().collect()? {
                return Ok(true);
            }
            let Some(fresh) = fresh.filter(|_| moment < MOMENTS) else { return Ok(false) };
            if !self.session.cores.yield_now() {
                return self.recorder().sleep_a_moment(fresh);
            }
        }
        Ok(false)
    }

    /// The task that is to run: of the most urgent ready ones, the first in the order.
    fn choose(&mut self) -> Option<Tid> {
        if let Some(task) = self.tasks.values().find(|task| task.standing.is_in_hook()) {
            return task.standing.is_ready().then_some(task.tid);
        }
        if let Some(task) = self.tasks.values().find(|task| task.standing.comes_first()) {
            return Some(task.tid);
        }
        if self.is_execing_beside_others() {
            return None;
        }
        self.change_mood();
        self.lift_passed_over();
        let candidates = self.candidates();
        let now = Instant::now();
        let Some(chaos) = &self.session.chaos else {
            let front = self.turns.front().and_then(|front| self.tasks.get(&front));
            let is_front_ready = front.is_none_or(|task| task.standing.is_ready());
            if let [first, _, ..] = candidates[..]
                && self.turns.front() == Some(first)
                && self.turns.is_over(now)
                && self.lead_on_if_stuck(first, now)
            {
                return Some(first);
            }
            return self.turns.choose(&candidates, is_front_ready, now);
        };
        let first = *candidates.first()?;
        if !self.turns.is_draw_due(&candidates, now) {
            return Some(first);
        }
        let drawn = candidates.get(chaos.next(candidates.len())).copied().unwrap_or(first);
        self.turns.give(drawn, &candidates, chaos.turn(), now);
        Some(drawn)
    }

    /// The tasks that may have the next turn: the most urgent ready ones, in their order.
    fn candidates(&self) -> Vec<Tid> {
        let ready = |tid| self.tasks.get(&tid).filter(|task| task.standing.is_ready() && !self.is_held(task));
        let ready: Vec<&Task> = self.turns.iter().filter_map(ready).collect();
        // To ask is to read memory.
        let has_others = ready.len() > 1;
        let of = |task: &Task| {
            let is_idle = has_others && self.is_idle(task);
            Ready { tid: task.tid, is_idle, urgency: self.urgency(task) }
        };
        most_urgent(ready.into_iter().map(of).collect())
    }

    /// Tasks that more urgent ones have kept from running for long become the most urgent ones, each for a
    /// turn.
    fn lift_passed_over(&mut self) {
        let mut nices = self.tasks.values().map(|task| task.traits.nice);
        let first = nices.next();
        if self.session.chaos.is_some() || nices.all(|nice| Some(nice) == first) {
            return;
        }
        let (now, front) = (Instant::now(), self.turns.front());
        let over = self.turns.used(now) > self.turns.slice();
        for task in self.tasks.values_mut() {
            let has_had_turn = Some(task.tid) == front && (over || !task.passed_over.is_lifted());
            let waits = task.standing.is_ready() && !has_had_turn;
            task.passed_over.note(waits, now);
        }
    }

    /// Nobody is ready, or may run: waits until the kernel lets a task go on, or the watch thread kicks.
    fn sleep(&mut self) -> Result<()> {
        if let Some(front) = self.turns.front() {
            self.turns.give_way(front, Instant::now());
        }
        if !self.is_execing_beside_watchers() {
            self.release_tokens()?;
        }
        self.session.cores.leave(self.core);
        // Nobody runs of whom the watch thread could want anything.
        self.watched.takes_turns.store(false, Ordering::Relaxed);
        self.watched.is_awaited.store(false, Ordering::Relaxed);
        let holds = self.tasks.values().any(|task| task.standing.is_ready());
        let began = Instant::now();
        self.watched.holds.store(holds, Ordering::Relaxed);
        let result = self.wait_once();
        if holds && let Some(chaos) = &self.session.chaos {
            self.watched.holds.store(false, Ordering::Relaxed);
            chaos.count_idle(began.elapsed());
        }
        let core = self.enter_core();
        if core != self.core {
            self.core = core;
            self.pin();
        }
        result
    }

    /// Draws anew, when its time has come, who is starved; and for tasks that begin, whether they are held.
    pub fn change_mood(&mut self) {
        let Crew { session, tasks, .. } = &mut self.process.crew;
        let Some(chaos) = &session.chaos else { return };
        for task in tasks.values_mut() {
            task.with_chaos.begin(|| chaos.hold_at_birth());
        }
        if !self.mood.is_over() {
            return;
        }
        let (victim, time) = chaos.mood(tasks.len());
        let victim = victim.and_then(|(index, hard)| Some((*tasks.keys().nth(index)?, hard)));
        self.mood.begin(victim, time);
    }
}

impl Recorder<'_> {
    /// Before `next` does anything: whatever call another task is in has been entered.
    fn settle(&mut self, next: Option<Tid>) -> Result<()> {
        let pending = |task: &&Task| {
            Some(task.tid) != next && task.call.as_ref().is_some_and(|call| call.telling.is_untold())
        };
        if self.tasks.len() > 1 {
            let tids: Vec<Tid> = self.tasks.values().filter(pending).map(|task| task.tid).collect();
            for tid in tids {
                self.write_entry(tid)?;
            }
        }
        Ok(())
    }

    /// Takes down what has been reported already; true: something has.
    fn collect(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            match task::wait_any(false) {
                Ok(Some((tid, status))) => {
                    self.note(tid, status);
                    any = true;
                }
                Ok(None) => return Ok(any),
                Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
            }
        }
    }

    /// Sleeps until a task reports, or the one that has just gone into a call sleeps in it. True: something
    /// was reported.
    fn sleep_a_moment(&mut self, fresh: Tid) -> Result<bool> {
        let wait = || {
            let mut state = None;
            for _ in 0..=LONG_MOMENTS {
                match task::wait_any(true) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
                let state = state.get_or_insert_with(|| Runnable::of(fresh).ok());
                if !state.as_ref().is_some_and(Runnable::is_so) {
                    break;
                }
            }
            Ok(None)
        };
        match ours::kicked_after(MOMENT, LONG_MOMENT, wait) {
            Some(Ok(Some((tid, status)))) => {
                self.note(tid, status);
                self.collect()?;
                Ok(true)
            }
            // It counts as blocked where there is no such timer.
            Some(Ok(None)) | None => Ok(false),
            Some(Err(source)) => Err(RecordError::Os { what: "wait for a task", source }),
        }
    }
}

impl Process {
    /// Does a task execute a program, and does the kernel write something for it on its way to memory that
    /// other domains map, too? That is in order only if they do not go on meanwhile.
    fn is_execing_beside_watchers(&self) -> bool {
        let is_shared = |addr: Addr| self.space.shared().at(addr).is_some();
        let writes = |task: &Task| task.named.written_at_exec().any(is_shared);
        self.execing().any(writes)
    }
}

impl Crew {
    /// Does a task execute a program whose memory another process goes on with, and in which the kernel
    /// writes something for it on its way? That is in order only if nobody goes on meanwhile.
    fn is_execing_beside_others(&self) -> bool {
        let writes = |task: &&Task| task.named.written_at_exec().next().is_some();
        let execing = self.execing().find(writes);
        execing.is_some_and(|task| self.tasks.values().any(|it| it.pid != task.pid))
    }

    /// The tasks that the kernel has in an exec.
    fn execing(&self) -> impl Iterator<Item = &Task> {
        self.tasks
            .values()
            .filter(|task| !task.report.is_there() && task.call.as_ref().is_some_and(InCall::is_exec))
    }
}

/// A task that could run.
#[derive(Clone, Copy, Debug)]
struct Ready {
    tid: Tid,
    /// It would do nothing with a turn.
    is_idle: bool,
    /// Lower goes first.
    urgency: i32,
}

/// The most urgent of those that have something to do, or of all where none has; in the order in which they
/// are.
fn most_urgent(mut ready: Vec<Ready>) -> Vec<Tid> {
    if !ready.iter().all(|task| task.is_idle) {
        ready.retain(|task| !task.is_idle);
    }
    let best = ready.iter().map(|task| task.urgency).min();
    ready.into_iter().filter(|task| Some(task.urgency) == best).map(|task| task.tid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(tid: i32, is_idle: bool, urgency: i32) -> Ready {
        Ready { tid: Tid(tid), is_idle, urgency }
    }

    #[test]
    fn of_the_most_urgent_ones_the_order_is_kept() {
        let tasks = vec![ready(3, false, 5), ready(1, false, 0), ready(4, false, 0)];
        assert_eq!(most_urgent(tasks), [Tid(1), Tid(4)]);
        assert_eq!(most_urgent(Vec::new()), []);
    }

    #[test]
    fn who_has_nothing_to_do_has_a_turn_only_where_nobody_has() {
        // Even where it is the more urgent one.
        assert_eq!(most_urgent(vec![ready(1, true, -5), ready(2, false, 0)]), [Tid(2)]);
        assert_eq!(most_urgent(vec![ready(1, true, 0), ready(2, true, 0)]), [Tid(1), Tid(2)]);
        assert_eq!(most_urgent(vec![ready(1, true, 0)]), [Tid(1)]);
    }
}
