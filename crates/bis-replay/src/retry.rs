//! Going back in `replay -a`: where a place that is found by its state was taken for another, the domain
//! begins again at a checkpoint in front of it, and not everybody at the begin of everything.
//!
//! Checkpoints are made in front of such places, and only as long as no replay of all has shown that the
//! right ones are found. They cost little: one is made only when what has passed since the one before is many
//! times what that has cost, and there are few of them. Whatever others have seen of the domain cannot be
//! undone (a process that it has forked, a turn that it has ended), so its checkpoints are forgotten then,
//! and a domain with shared memory has none. Without one, all begins again.
//!
//! A wrong guess may lead the program into a loop for ever. So it is given up after some time.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bis_trace::{
    event::{EventKind, PausePlace},
    types::{DomainId, EventSeq},
};

use crate::{
    alarm::Alarm,
    checkpoint::Kept,
    error::{Halt, ReplayError},
    job::Ended,
    objects::Objects,
    replica::Replica,
    shared::Shared,
    trial_limit,
};

/// How many checkpoints a domain has, and all together: the pauses that are suspected are the last ones.
const KEPT_MAX: usize = 4;
const KEPT_ALL_MAX: usize = 64;

/// The next checkpoint is made when so many times the last one's cost has passed, and no sooner than this.
const COSTS_BETWEEN: u32 = 50;
const BETWEEN_MIN: Duration = Duration::from_millis(50);

/// A checkpoint in front of a pause.
struct Way<'t> {
    kept: Kept<'t>,
    /// That pause.
    seq: EventSeq,
    /// How many events were done.
    position: u64,
    made: Instant,
}

/// Something is tried until the domain has come past where it has diverged.
struct Trial {
    /// How many events are done there.
    position: u64,
}

/// Where a domain may go back to.
pub(crate) struct Retries<'t> {
    domain: DomainId,
    /// The last one last.
    ways: VecDeque<Way<'t>>,
    /// When the next one may be made.
    next: Option<Instant>,
    trial: Option<Trial>,
    alarm: Arc<Alarm>,
    shared: &'t Shared<'t>,
}

/// A jump was seen where none was.
pub(crate) fn seen_again(pause: EventSeq) -> ReplayError {
    ReplayError::Machine(format!("a jump was seen at event {pause} where none was"))
}

impl<'t> Retries<'t> {
    /// `alarm`: the domain's.
    pub(crate) fn new(shared: &'t Shared<'t>, domain: DomainId, alarm: Arc<Alarm>) -> Retries<'t> {
        Retries { domain, ways: VecDeque::new(), next: None, trial: None, alarm, shared }
    }

    /// Makes a checkpoint where the replica stands, if that is in front of a place that may be taken for
    /// another, and there is room.
    pub(crate) fn keep(&mut self, replica: &mut Replica<'t>) -> Result<(), Halt> {
        if !self.shared.is_guessing || !replica.is_at_event() {
            return Ok(());
        }
        let Some(event) = replica.next_event()? else { return Ok(()) };
        let is_guess = matches!(&event.kind, EventKind::Pause(pause) if pause.place == PausePlace::State);
        let seq = event.seq;
        if !is_guess || replica.space.shows_objects() || self.ways.iter().any(|way| way.seq == seq) {
            return Ok(());
        }
        // Last, because a look at the clock may be a fault (`modes.rs`), and this is asked at each event.
        if self.next.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        if self.ways.len() == KEPT_MAX {
            self.drop_first();
        }
        if self.shared.kept.fetch_add(1, Ordering::Relaxed) >= KEPT_ALL_MAX {
            self.shared.kept.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let began = Instant::now();
        let kept = replica.keep();
        let made = Instant::now();
        self.next = Some(made + BETWEEN_MIN.max((made - began) * COSTS_BETWEEN));
        match kept {
            Ok(Some(kept)) => {
                let position = replica.position();
                self.ways.push_back(Way { kept, seq, position, made });
            }
            other => {
                self.shared.kept.fetch_sub(1, Ordering::Relaxed);
                other?;
            }
        }
        Ok(())
    }

    fn drop_first(&mut self) {
        if self.ways.pop_front().is_some() {
            self.shared.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// What the domain has done is known to others.
    pub(crate) fn forget(&mut self) {
        while !self.ways.is_empty() {
            self.drop_first();
        }
    }

    /// The replica has done an event.
    pub(crate) fn note_come(&mut self, replica: &Replica<'_>) {
        if self.trial.as_ref().is_some_and(|trial| replica.position() > trial.position) {
            self.trial = None;
            self.alarm.set_trial(None);
            self.shared.search().note_come(self.domain);
        }
    }

    /// It was interrupted. If that is because it has followed a guess for too long: the pause that is looked
    /// for otherwise from now on.
    pub(crate) fn interrupted(&mut self) -> Result<Option<EventSeq>, Halt> {
        if self.trial.is_none() || !self.alarm.is_trial_over() {
            return Ok(None);
        }
        let changed = self.shared.learn(|search, found| search.go_on(self.domain, found))?;
        Ok(Some(changed))
    }

    /// Learns from a failure: the pause that is looked for otherwise from now on. A failure that no place
    /// explains is returned.
    pub(crate) fn learn(&self, halt: Halt) -> Result<EventSeq, Halt> {
        match halt {
            Halt::Failed(ReplayError::Divergence(divergence)) => {
                tracing::info!(%divergence, "perhaps a place was taken for another");
                Ok(self.shared.learn(|search, found| search.diverged(divergence, found))?)
            }
            Halt::Seen(pause) => match self.shared.learn(|search, _| search.without_jump(pause)) {
                true => Ok(pause),
                false => Err(Halt::Seen(pause)),
            },
            other => Err(other),
        }
    }

    /// A replica that stands at the last checkpoint in front of a pause, in place of this one.
    ///
    /// # Errors
    /// [`Halt::Cancelled`] where there is none: all begins again.
    pub(crate) fn before(&mut self, pause: EventSeq, replica: &Replica<'t>) -> Result<Replica<'t>, Halt> {
        while self.ways.back().is_some_and(|way| way.seq > pause) {
            self.ways.pop_back();
            self.shared.kept.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(way) = self.ways.back_mut() else {
            self.shared.board.end_with(Ended::Again);
            return Err(Halt::Cancelled);
        };
        tracing::info!(
            domain = %self.domain,
            from = %way.seq,
            events = way.position,
            learnt = self.shared.search().learnt.to_text(),
            "the domain goes back"
        );
        let back = way.kept.resume(&Objects::default())?;
        self.shared.go_back(self.domain, way.seq);
        let (position, now) = (replica.position(), Instant::now());
        let until = now + trial_limit(now - way.made);
        let position = self.trial.as_ref().map_or(position, |trial| trial.position.max(position));
        way.made = now;
        self.trial = None;
        // A replica that only looks for the same place in a slower way has all the time that it takes.
        let is_trying = self.shared.search().is_trying(self.domain);
        self.trial = is_trying.then_some(Trial { position });
        self.alarm.set_trial(is_trying.then_some(until));
        Ok(back)
    }
}

impl Drop for Retries<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}
