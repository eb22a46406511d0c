//! A recording runs to its end: until no supervisor is left, or it has failed, or what the program has left
//! running is not waited for any longer.

use std::{
    mem,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bis_trace::event::Meta;
use bis_tracee::{guardian, handover, ours::Coming, outside};

use super::{
    INIT, Session,
    course::{LOOK_EVERY, Moment, is_seen},
    progress::{Looking, Progress},
};
use crate::{
    Begins, Ended,
    error::{RecordError, Result},
};

/// How long it is waited for what is killed as the recording fails: it dies with us all the same.
const KILLED_MAX: Duration = Duration::from_secs(1);

impl Session {
    /// Runs the recording to its end; called once. `begin` starts the first domain.
    pub fn run(self: &Arc<Session>, coming: Coming, begin: impl FnOnce(&Arc<Session>)) -> Result<Ended> {
        // Before orphans come to us.
        let _ = self.reaper.set(guardian::begin_as_orphan().unwrap_or(INIT));
        if self.options.begins != Begins::WithCheckpoints {
            self.begin_recording();
        }
        self.listen(coming).map_err(|failure| self.cut_by(failure))?;
        self.watch.start(&self.cores, self.chaos.clone());
        begin(self);
        let mut progress = self.wait_for_the_look(self.wait_for_the_end());
        if progress.failure.is_some() || progress.cut.is_some() {
            // The supervisors that should have taken these over do not come to it any more.
            handover::kill_parked();
            progress = self.wait_for_the_killed(progress);
        }
        if let Some(failure) = progress.failure.take() {
            return Err(self.cut_by(failure));
        }
        let exit_code = progress.exit_code.unwrap_or(0);
        let ended = Ended {
            exit_code,
            left: mem::take(&mut progress.left),
            go_on: mem::take(&mut progress.go_on),
            is_recorded: progress.is_recorded,
            refused: mem::take(&mut progress.refused),
        };
        let left = &ended.left;
        if !left.is_empty() {
            let names: Vec<String> =
                left.iter().map(|(name, pid)| format!("{name} (process {pid})")).collect();
            let text =
                format!("the program had ended; what it had left running was killed: {}", names.join(", "));
            self.note(self.writer.next_seq(), text)?;
        }
        if let Some(why) = progress.cut.take() {
            self.writer.meta(&Meta::Cut { why })?;
            self.writer.finish()?;
            return Ok(ended);
        }
        self.writer.meta(&Meta::End { exit_code, seq: self.writer.next_seq() })?;
        self.writer.finish()?;
        Ok(ended)
    }

    /// Ends the trace with the failure of its recording, which it returns.
    fn cut_by(&self, failure: RecordError) -> RecordError {
        let remedy = failure.remedy().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
        // The log may be what failed; then it says so itself.
        let _ = self.writer.meta(&Meta::Cut { why: format!("{failure}{remedy}") });
        let _ = self.writer.finish();
        failure
    }

    /// Waits until no supervisor is left, or the recording has failed. Meanwhile, writes what gets old: a
    /// supervisor whose tasks wait does nothing.
    fn wait_for_the_end(&self) -> MutexGuard<'_, Progress> {
        let mut flushed = Instant::now();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        while progress.live > 0 {
            let moment = Moment {
                ended: progress.ended.map(|ended| ended.elapsed()),
                waits: self.options.wait,
                is_over: progress.is_over,
                flushed: flushed.elapsed(),
            };
            if moment.kills_left() && !progress.kill_left() {
                let why = "the program had ended; what it had left running was killed, and did not end";
                (progress.cut, progress.live) = (Some(why.into()), 0);
                break;
            }
            if let Some(pause) = moment.pause() {
                let woken = self.changed.wait_timeout(progress, pause);
                progress = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            outside::reap();
            // It may wait for the disk, and supervisors must be able to end.
            drop(progress);
            let outcome = self.writer.flush_old();
            flushed = Instant::now();
            progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = outcome {
                progress.is_nobodys = true;
                self.fail(&mut progress, error.into());
            }
        }
        progress
    }

    /// Waits for so long, or until nobody else works for the recording: the caller is a thread of
    /// [`Session::spawn`].
    pub fn wait_for_nobody_else(&self, at_most: Duration) {
        let began = Instant::now();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        while progress.live > 1 {
            let Some(left) = at_most.checked_sub(began.elapsed()) else { return };
            progress = self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until what is traced has been killed: it would die with us, but a moment later, and whoever
    /// hears that the recording has failed may begin the next one at once.
    fn wait_for_the_killed<'s>(&'s self, mut progress: MutexGuard<'s, Progress>) -> MutexGuard<'s, Progress> {
        let began = Instant::now();
        while progress.kill_traced() && began.elapsed() < KILLED_MAX {
            let woken = self.changed.wait_timeout(progress, Duration::from_millis(1));
            progress = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress
    }

    /// Waits until nobody looks any more at what the recording has failed with.
    fn wait_for_the_look<'s>(&'s self, mut progress: MutexGuard<'s, Progress>) -> MutexGuard<'s, Progress> {
        let began = Instant::now();
        loop {
            let may_be_met = progress.is_nobodys && self.options.on_fault.is_some();
            if is_seen(progress.looking, may_be_met.then(|| began.elapsed())) {
                return progress;
            }
            let woken = self.changed.wait_timeout(progress, LOOK_EVERY);
            progress = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Somebody wants to look at a fault. False: at another one already.
    pub fn begin_look(&self) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).looking.begin()
    }

    pub fn end_look(&self) {
        self.update(|progress| progress.looking = Looking::Over);
    }
}
