//! How tasks go on, and what is heard of them: a task is resumed, and its supervisor waits for its report.
//! What a wait finds out beside that (a leader that ends without a word, a kick by the watch thread) is seen
//! to here. What a report means is another matter (`reports.rs`).

use std::{
    io, mem,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bis_trace::types::{StandardStream, Tid};
use bis_tracee::{Resume, Status, Stopped, TraceeError, remote, sys, task};

use crate::{
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    task::{Handle, InCall, Onward, StopsNext, Task, process_of},
};

/// With chaos: more than the kernel takes to let a task go on and stop it again.
const STEP_MIN: Duration = Duration::from_micros(10);

impl Domain {
    /// Lets a stopped task go on; it will report.
    ///
    /// A task that was killed in its stop stands in the one of its end by now, and would be let go on from
    /// there, with nobody having asked how far it had come. So where others see that, it is looked first:
    /// it has its report then.
    pub fn resume(&mut self, tid: Tid, how: Resume) -> Result<()> {
        if let Some(info) = remote::take_stop(tid) {
            let task = self.task(tid)?;
            task.signals.stash.keep(info);
            task.to_stop.stop_next(StopsNext::ForKept);
        }
        if how != Resume::Listen {
            self.obey_clock(tid)?;
        }
        if how == Resume::Cont {
            self.prepare(tid);
        }
        if self.is_outlived(tid) && sys::has_report(tid) {
            let status = task::wait_for(tid)?;
            self.recorder().note(tid, status);
            return Ok(());
        }
        if how != Resume::Listen {
            let is_halted = self.task(tid)?.to_stop.is_halted();
            self.session.halted.set(tid, is_halted);
        }
        let task = self.task(tid)?;
        let halts = task.to_stop.is_to_be_asked(how, !task.standing.is_midway());
        let signal = task.signals.coming.take_given();
        if how != Resume::Listen && task.call.is_none() {
            task.since_event.go_on();
        }
        task.standing.resume(how == Resume::Listen);
        match mem::replace(&mut task.handle, Handle::Taken) {
            Handle::Stopped(stopped) => {
                if halts {
                    stopped.ask()?;
                }
                task.handle = Handle::Running(stopped.resume(how, signal)?);
                Ok(())
            }
            other => Err(RecordError::Bug { tid, what: format!("cannot resume a task that is {other:?}") }),
        }
    }

    /// Carries out how a task goes on.
    pub fn go_onward(&mut self, tid: Tid, onward: Onward) -> Result<()> {
        match onward {
            Onward::Stays => Ok(()),
            Onward::Goes(how) => self.resume(tid, how),
            Onward::GoesAlone(how) => {
                self.resume(tid, how)?;
                self.wait_for_report(tid)
            }
        }
    }

    /// Waits until this task has something to report; what others report is taken down. It may have nothing
    /// to report any more: then another thread has taken its id over ([`Crew::is_taken_over`]).
    pub fn wait_for_report(&mut self, tid: Tid) -> Result<()> {
        while self.tasks.get(&tid).is_some_and(|task| !task.report.is_there()) {
            self.let_orphans_go(tid);
            match self.end_by_others(tid) {
                None => {
                    self.wait_once()?;
                    self.end_linger(tid)?;
                }
                Some(Status::Exec(_)) => return Ok(()),
                Some(status) if !task::is_alive(tid) => self.recorder().note(tid, status),
                Some(_) => self.wait_or_look()?,
            }
        }
        Ok(())
    }

    /// As [`Domain::wait_once`], but not for long: the task may be about to end without a word.
    fn wait_or_look(&mut self) -> Result<()> {
        const PAUSE: Duration = Duration::from_micros(100);
        match self.hear(false) {
            Ok(true) => {}
            Ok(false) => {
                self.look_after()?;
                std::thread::sleep(PAUSE);
            }
            Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
        }
        Ok(())
    }

    /// Waits for the next report of any task.
    pub fn wait_once(&mut self) -> Result<()> {
        self.let_forsaken_go();
        match self.hear(true) {
            Ok(true) => Ok(()),
            Ok(false) => Err(RecordError::Bug { tid: self.first_tid, what: "all tasks are lost".into() }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.look_after(),
            Err(source) => Err(RecordError::Os { what: "wait for a task", source }),
        }
    }

    /// Takes down the next report of any task, and waits for it with `block`. False: there is none.
    fn hear(&mut self, block: bool) -> io::Result<bool> {
        let session = Arc::clone(&self.session);
        loop {
            let unsettled = session.halted.before_wait(block)?;
            match task::wait_any(block && unsettled.is_none())? {
                Some((tid, status)) => {
                    self.recorder().note(tid, status);
                    return Ok(true);
                }
                None if unsettled.is_none() => return Ok(false),
                // It was killed meanwhile, and stands in its stop no more.
                None => {}
            }
        }
    }

    /// The first process of a pid namespace that is killed as it leaves a stop does not say so before all
    /// others of its namespace are gone, and they may wait for tokens that its domain holds.
    pub fn let_namespace_end(&mut self) -> Result<()> {
        let runs = |task: &&Task| !task.report.is_there() && matches!(task.handle, Handle::Running(_));
        let Some((tid, pid)) = self.tasks.values().find(runs).map(|task| (task.tid, task.pid)) else {
            return Ok(());
        };
        if self.holds_tokens() && self.session.is_init_inside(pid) && task::is_ending(pid) {
            self.drain(tid)?;
            self.release_tokens()?;
        }
        Ok(())
    }

    /// The watch thread has kicked the supervisor out of its wait: somebody may want the running task to
    /// stop.
    pub fn look_after(&mut self) -> Result<()> {
        self.let_namespace_end()?;
        self.hear_of_tracers()?;
        let (slow, turn) = self.watched.take_kick();
        if self.creeps {
            // It stops by itself. To be asked for it all the time would keep it from its step on a busy
            // machine.
            return Ok(());
        }
        let runs = |task: &&Task| task.call.is_none() && matches!(task.handle, Handle::Running(_));
        let Some(tid) = self.tasks.values().find(runs).map(|task| task.tid) else { return Ok(()) };
        let is_due =
            turn && (self.has_reason_to_pause(tid) || self.is_wanted_by_guide()) && self.note_progress(tid);
        if !(slow || is_due || self.is_to_be_looked_at(tid)) {
            return Ok(());
        }
        self.interrupt(tid)
    }

    /// Of the tasks that wait in a `pause` to write to standard output or error ([`Domain::lock_echo`]), one
    /// is to make its call where nobody writes there any more. If it has a handler to run instead, the next
    /// one is.
    pub fn wake_writer(&mut self) -> Result<()> {
        let waits_for = |task: &Task| task.call.as_ref()?.lock.awaited();
        if !self.tasks.values().any(|task| waits_for(task).is_some()) {
            return Ok(());
        }
        // One that does not sleep is on its way to its call.
        let sleeps = |task: &Task| {
            let is_told = task.call.as_ref().is_some_and(|call| !call.wait.is_known());
            !is_told && !task.report.is_there() && matches!(task.handle, Handle::Running(_))
        };
        for stream in StandardStream::ALL {
            let is_in_the_way = |task: &Task| match waits_for(task) {
                Some(waits_for) => waits_for == stream && !sleeps(task),
                None => task.call.as_ref().is_some_and(|call| call.lock.held() == Some(stream)),
            };
            let is_next = |tid: &Tid| self.tasks.get(tid).is_some_and(|task| waits_for(task) == Some(stream));
            if self.tasks.values().any(is_in_the_way) {
                continue;
            }
            let next = self.turns.iter().find(is_next);
            if let Some(tid) = next {
                self.call(tid)?.wait.be_over();
                match sys::interrupt(tid) {
                    // Its end is on its way.
                    Err(TraceeError::Died(_)) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// With chaos: notes how long the task has had the processor. False: it has not had it since it was last
    /// asked to stop. On a busy machine it may not come to its first instruction before the next short slice
    /// is over.
    fn note_progress(&mut self, tid: Tid) -> bool {
        if self.session.chaos.is_none() {
            return true;
        }
        let ran = task::cpu_time(tid).map(|ran| (tid, ran));
        let before = self.had_run.filter(|before| before.0 == tid);
        let has_run = ran.zip(before).is_none_or(|(ran, before)| ran.1.saturating_sub(before.1) > STEP_MIN);
        if has_run {
            self.had_run = ran;
        }
        has_run
    }

    /// The task was killed while it was stopped, in the middle of something: its end is on its way, and
    /// whatever it had reported before is not to be looked at any more.
    pub fn await_end(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        if !matches!(task.report.status(), Some(Status::Exited(_) | Status::Killed(_))) {
            task.report.be_done();
        }
        if matches!(task.handle, Handle::Stopped(_)) {
            match self.resume(tid, Resume::Cont) {
                Err(RecordError::Tracee(TraceeError::Died(dead))) if dead == tid => {}
                other => other?,
            }
        }
        self.wait_for_report(tid)
    }
}

impl Recorder<'_> {
    /// Takes down what a task that runs has to report already, if it has anything.
    pub fn note_if_reported(&mut self, tid: Tid) -> Result<()> {
        let runs = self.tasks.get(&tid).is_some_and(|task| matches!(task.handle, Handle::Running(_)));
        if runs && sys::has_report(tid) {
            let status = task::wait_for(tid)?;
            self.note(tid, status);
        }
        Ok(())
    }

    /// Takes down what a wait has reported.
    pub fn note(&mut self, tid: Tid, status: Status) {
        tracing::trace!(domain = %self.id, %tid, %status, "report");
        // We have asked it to stop, and nobody else.
        let is_ours = matches!(status, Status::GroupStop(_)) && self.session.traced.runs_alone(tid);
        let status = if is_ours { Status::Trap } else { status };
        self.watched.stops.fetch_add(1, Ordering::Relaxed);
        let is_halted = matches!(status, Status::GroupStop(_));
        let will_be = self.tasks.get(&tid).is_some_and(|task| task.to_stop.is_halted_behind(status));
        self.session.halted.set(tid, is_halted || will_be);
        if !(is_halted || will_be) {
            self.session.halted.forget_stop(tid);
        }
        // A thread that execs goes on under its leader's id; to us it is still the thread.
        let tid = match status {
            Status::Exec(former) if self.tasks.contains_key(&former) => {
                self.zombies.remove(&tid);
                former
            }
            _ => tid,
        };
        let Some(task) = self.tasks.get_mut(&tid) else {
            if matches!(status, Status::Exited(_) | Status::Killed(_)) {
                self.zombies.remove(&tid);
                self.process_status(tid, status);
            } else {
                self.early.insert(tid, status);
                if self.tasks.is_empty() {
                    self.let_go(tid);
                }
            }
            return;
        };
        task.standing.stop();
        task.to_stop.report(status);
        task.report.hear(status);
        task.handle = match mem::replace(&mut task.handle, Handle::Taken) {
            _ if matches!(status, Status::Exited(_) | Status::Killed(_)) => Handle::Taken,
            Handle::Running(running) => Handle::Stopped(running.stopped()),
            // One that was stopped was killed in its stop, and stops again on its way out.
            Handle::Stopped(_) | Handle::Taken | Handle::Dying => Handle::Stopped(Stopped::adopt(tid)),
        };
        self.take_points_out(tid);
        self.take_watches_out(tid);
    }
}

impl Crew {
    /// Lets a task go on to its end that is no part of the recording: it was killed before it did anything.
    pub fn let_go(&mut self, child: Tid) {
        self.early.remove(&child);
        match Stopped::adopt(child).resume(Resume::Cont, None) {
            Ok(_) | Err(TraceeError::Died(_)) => {}
            Err(error) => tracing::warn!(%child, %error, "not let go"),
        }
    }

    /// The kernel's own word on how a process has ended.
    pub fn process_status(&self, tid: Tid, status: Status) {
        match status {
            Status::Exited(code) => self.session.note_end_of_process(tid, code),
            Status::Killed(signal) => self.session.note_end_of_process(tid, 128 + signal.0),
            _ => {}
        }
    }

    /// What another thread of the process that this one leads has reported, of which this one ends, too: its
    /// own end, or an exec, which has taken its id over. It may not say so. If it is killed as it leaves a
    /// stop, the kernel keeps quiet about it until all others are gone; before an exec, for good.
    fn end_by_others(&self, tid: Tid) -> Option<Status> {
        let others = self.tasks.values().filter(|task| task.pid == tid && task.tid != tid);
        let ends = |task: &Task| {
            task.report.status().filter(|status| matches!(status, Status::Exit(_) | Status::Exec(_)))
        };
        others.filter_map(ends).min_by_key(|status| !matches!(status, Status::Exec(_)))
    }

    /// Has another thread of the process that this one leads executed a program, which is not handled yet?
    pub fn is_taken_over(&self, tid: Tid) -> bool {
        matches!(self.end_by_others(tid), Some(Status::Exec(_)))
    }

    /// Threads of this process that are about to end before anybody has told of them: their maker was killed
    /// in its clone, and the kernel keeps quiet about the first thread's end until they are gone.
    pub fn let_orphans_go(&mut self, first: Tid) {
        if self.early.is_empty() || self.tasks.get(&first).is_none_or(|task| task.pid != first) {
            return;
        }
        let ends = self.early.iter().filter(|(_, status)| matches!(status, Status::Exit(_)));
        let orphans: Vec<Tid> =
            ends.map(|(tid, _)| *tid).filter(|tid| process_of(*tid) == Some(first)).collect();
        for orphan in orphans {
            self.let_go(orphan);
        }
    }

    /// Threads that are about to end before anybody has told of them, and whose maker has ended in its clone:
    /// another thread of their process executes a program, and the kernel waits with that until they are
    /// gone.
    fn let_forsaken_go(&mut self) {
        if self.early.is_empty() {
            return;
        }
        let executes =
            |task: &Task| !task.report.is_there() && task.call.as_ref().is_some_and(InCall::is_exec);
        let is_forsaken = |tid: Tid| {
            let pid = process_of(tid);
            let mut others = self.tasks.values().filter(|task| Some(task.pid) == pid).peekable();
            others.peek().is_some() && others.all(executes)
        };
        let ends = self.early.iter().filter(|(_, status)| matches!(status, Status::Exit(_)));
        let forsaken: Vec<Tid> = ends.map(|(tid, _)| *tid).filter(|tid| is_forsaken(*tid)).collect();
        for thread in forsaken {
            self.let_go(thread);
        }
    }

    /// A call in progress will never return: lets go of what it holds.
    pub fn drop_call(&mut self, tid: Tid) {
        if let Some(call) = self.tasks.get_mut(&tid).and_then(|task| task.call.take())
            && let Some(stream) = call.lock.held()
        {
            self.session.stdio.unlock(stream, self.id);
        }
    }
}
