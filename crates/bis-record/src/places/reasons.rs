//! What waits for the running task, and whether that is a reason to stop it: questions, which change nothing.

use std::time::{Duration, Instant};

use bis_trace::types::Tid;

use crate::{chaos::Hold, crew::Crew, domain::Domain, task::Task};

/// How long a task may compute without an event while a signal waits for it; where its text counts, to stop
/// it costs little.
const SIGNAL_WAIT: Duration = Duration::from_millis(2);
const SIGNAL_WAIT_COUNTED: Duration = Duration::from_micros(500);

/// How many times as long as a look at its state takes a task may compute, and how long at most.
const LOOKS: u32 = 10;
const SLICE_MAX: Duration = Duration::from_millis(50);

/// How long a turn has lasted, with chaos, in which a task may be led on.
const LED_ON_MIN: Duration = Duration::from_millis(5);

/// What a task has to say for its having the turn.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// Lower goes first.
    urgency: i32,
    /// It is the most urgent one because it was passed over; only until its turn is over.
    is_lifted: bool,
    /// It has been ready for too long.
    is_passed_over: bool,
}

impl Claim {
    /// Is the running task to stop for the one with this claim?
    fn beats(&self, running: &Claim, is_turn_over: bool) -> bool {
        self.urgency < running.urgency
            || is_turn_over && (self.urgency == running.urgency || running.is_lifted || self.is_passed_over)
    }
}

/// How long a task may compute while others wait. To look at the state of a large program takes milliseconds,
/// and in vain if the task makes a call in time: it may compute for several times as long.
fn slice(slice: Duration, look_took: Duration) -> Duration {
    slice.max((LOOKS * look_took).min(SLICE_MAX))
}

impl Domain {
    /// Is it time that this task, which computes, stops for somebody else?
    pub fn has_reason_to_pause(&self, tid: Tid) -> bool {
        self.is_awaited_by_signal(tid) || self.is_awaited_by_others(tid)
    }

    /// Has a signal been kept back for this task, which has computed for long since?
    pub fn is_awaited_by_signal(&self, tid: Tid) -> bool {
        let wait = if self.space.is_dense() { SIGNAL_WAIT_COUNTED } else { SIGNAL_WAIT };
        self.tasks.get(&tid).is_some_and(|task| !task.signals.stash.is_empty()) && self.has_run(wait)
    }

    /// Does another task, or another domain, wait for what this task would give up if it stopped?
    pub fn is_awaited_by_others(&self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        let is_over = self.is_turn_over(task);
        let ours = Claim {
            urgency: self.urgency(task),
            is_lifted: task.passed_over.is_lifted(),
            is_passed_over: false,
        };
        let claim = |other: &Task| Claim {
            urgency: self.urgency(other),
            is_lifted: other.passed_over.is_lifted(),
            is_passed_over: self.session.chaos.is_none() && self.is_passed_over(other),
        };
        let waits = |other: &&Task| other.tid != tid && self.waits_for_turn(other);
        let is_wanted = self.holds_tokens() && self.session.registry.is_wanted();
        (is_over && is_wanted)
            || self.tasks.values().filter(waits).any(|other| claim(other).beats(&ours, is_over))
    }

    /// Has the running task had its time slice, and computed for all of it? (With chaos, slices are short,
    /// and computing without a call is no condition.)
    fn is_turn_over(&self, task: &Task) -> bool {
        match self.session.chaos {
            None => task.spin.is_over || self.has_run(slice(self.turns.slice(), self.look_took)),
            Some(_) => self.turns.used(Instant::now()) >= self.turns.slice(),
        }
    }

    /// Has the running task computed for this long since its domain's last event?
    pub fn has_run(&self, time: Duration) -> bool {
        self.journal.last().elapsed() >= time
    }

    /// With chaos: is the turn too young as yet for a task to be led on in it, to learn more of its place?
    /// Short turns that are drawn are to be short.
    pub fn is_in_young_turn(&self) -> bool {
        self.session.chaos.is_some() && !self.has_run(LED_ON_MIN)
    }

    /// Lower goes first: what the program has asked for, or with chaos, whether the task is starved. There,
    /// being nice is no reason to wait: a task that spins for a lock that a nicer task holds would wait for
    /// ever.
    pub fn urgency(&self, task: &Task) -> i32 {
        const STARVED: i32 = 100;
        match self.session.chaos {
            None if task.passed_over.is_lifted() => i32::MIN,
            None => task.traits.nice,
            Some(_) if self.is_starved(task) => STARVED,
            Some(_) => 0,
        }
    }

    /// Has a task that is ready, or about to be, been kept from running for too long?
    pub fn is_passed_over(&self, task: &Task) -> bool {
        task.passed_over.is_for_long(self.journal.last(), Instant::now())
    }

    /// Why this task gets a turn only where no other can: what it was made to wait for, if it is; true: not
    /// even then.
    fn starves(&self, task: &Task) -> Option<bool> {
        task.with_chaos.kept().and_then(Hold::starves).max(self.mood.starves(task.tid))
    }

    /// Is it this task that gets a turn only where no other can?
    pub fn is_starved(&self, task: &Task) -> bool {
        self.session.chaos.is_some() && self.starves(task).is_some()
    }

    /// Is it this task that gets no turn at all?
    pub fn is_held(&self, task: &Task) -> bool {
        self.session.chaos.as_ref().is_some_and(|chaos| self.starves(task) == Some(true) && chaos.may_idle())
    }
}

impl Crew {
    /// Would this task do something if it had the running one's turn?
    pub fn waits_for_turn(&self, other: &Task) -> bool {
        other.report.is_there()
            || other.standing.is_ready() && !self.is_idle(other)
            || self.is_let_go_by_tracer(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Claim = Claim { urgency: 0, is_lifted: false, is_passed_over: false };
    const NICE: Claim = Claim { urgency: 10, ..PLAIN };

    #[test]
    fn a_look_that_takes_long_is_put_off() {
        let ms = Duration::from_millis;
        assert_eq!(slice(ms(10), Duration::ZERO), ms(10));
        assert_eq!(slice(ms(10), ms(1)), ms(10));
        assert_eq!(slice(ms(10), ms(2)), ms(20));
        assert_eq!(slice(ms(10), ms(100)), SLICE_MAX);
        assert_eq!(slice(ms(80), ms(100)), ms(80));
    }

    #[test]
    fn among_equals_a_turn_ends_with_its_time() {
        assert!(!PLAIN.beats(&PLAIN, false) && PLAIN.beats(&PLAIN, true));
    }

    #[test]
    fn a_more_urgent_task_does_not_wait_and_a_less_urgent_one_waits_for_long() {
        assert!(PLAIN.beats(&NICE, false));
        assert!(!NICE.beats(&PLAIN, true));
        let passed_over = Claim { is_passed_over: true, ..NICE };
        assert!(passed_over.beats(&PLAIN, true) && !passed_over.beats(&PLAIN, false));
    }

    #[test]
    fn a_task_that_was_lifted_is_the_most_urgent_one_for_a_turn() {
        let lifted = Claim { urgency: i32::MIN, is_lifted: true, ..NICE };
        assert!(lifted.beats(&PLAIN, false));
        assert!(!PLAIN.beats(&lifted, false) && PLAIN.beats(&lifted, true));
    }
}
