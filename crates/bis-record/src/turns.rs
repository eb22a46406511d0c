//! Whose turn it is: the order of a domain's tasks, and the time slice of the one that has its turn. A value
//! that knows tasks by their ids. Which of them are ready, and which are the most urgent, is asked by the
//! scheduler (`schedule.rs`).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bis_trace::types::Tid;

/// How much of its time slice a task uses at least before it gives way at a call of its own: then it need not
/// be interrupted elsewhere.
const GIVES_WAY_AFTER: f64 = 0.4;

#[derive(Debug)]
pub struct Turns {
    /// The tasks in the order in which they get their turns. The first has its turn.
    order: VecDeque<Tid>,
    /// When its time slice began, and how long that is.
    since: Instant,
    slice: Duration,
}

impl Turns {
    pub fn new(first: Tid, slice: Duration) -> Turns {
        Turns { order: [first].into(), since: Instant::now(), slice }
    }

    pub fn iter(&self) -> impl Iterator<Item = Tid> + '_ {
        self.order.iter().copied()
    }

    /// The task that has its turn, or had it last.
    pub fn front(&self) -> Option<Tid> {
        self.order.front().copied()
    }

    pub fn join(&mut self, tid: Tid) {
        self.order.push_back(tid);
    }

    pub fn leave(&mut self, tid: Tid) {
        self.order.retain(|other| *other != tid);
    }

    /// All others get a turn before this task gets its next. If it has had its turn, that of the next one
    /// begins.
    pub fn give_way(&mut self, tid: Tid, now: Instant) {
        if self.front() == Some(tid) {
            self.begin(now);
        }
        if self.take(tid) {
            self.order.push_back(tid);
        }
    }

    fn move_to_front(&mut self, tid: Tid) {
        if self.take(tid) {
            self.order.push_front(tid);
        }
    }

    fn take(&mut self, tid: Tid) -> bool {
        let at = self.order.iter().position(|other| *other == tid);
        at.and_then(|at| self.order.remove(at)).is_some()
    }

    /// How long a time slice is.
    pub fn slice(&self) -> Duration {
        self.slice
    }

    /// How much of it is over.
    pub fn used(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The task at the front gets a time slice anew.
    pub fn begin(&mut self, now: Instant) {
        self.since = now;
    }

    /// Where turns are drawn: the next time, another task is.
    pub fn end(&mut self) {
        self.slice = Duration::ZERO;
    }

    /// Gives the turn to one of the `candidates`: ready tasks that nobody ready is more urgent than, in their
    /// order. The task at the front keeps it until it has used enough of its time slice and another candidate
    /// waits.
    pub fn choose(&mut self, candidates: &[Tid], is_front_ready: bool, now: Instant) -> Option<Tid> {
        let first = *candidates.first()?;
        if self.front() != Some(first) {
            // A task that has gone to sleep has had its turn: were it to keep its place, two tasks that sleep
            // and wake by turns would keep all others from running.
            if let Some(front) = self.front().filter(|_| !is_front_ready) {
                self.give_way(front, now);
            }
            self.begin(now);
            self.move_to_front(first);
            return Some(first);
        }
        let rival = candidates.get(1).copied();
        let Some(rival) = rival.filter(|_| self.is_over(now)) else { return Some(first) };
        self.give_way(first, now);
        self.begin(now);
        self.move_to_front(rival);
        Some(rival)
    }

    /// Has the task at the front used enough of its time slice, and is it to give way at a call of its own?
    pub fn is_over(&self, now: Instant) -> bool {
        self.used(now) > self.slice.mul_f64(GIVES_WAY_AFTER)
    }

    /// Is another task to be drawn of the candidates, where turns are drawn?
    pub fn is_draw_due(&self, candidates: &[Tid], now: Instant) -> bool {
        self.used(now) > self.slice || self.front() != candidates.first().copied()
    }

    /// Gives the turn to the one of the candidates that was drawn, for such a time.
    pub fn give(&mut self, drawn: Tid, candidates: &[Tid], slice: Duration, now: Instant) {
        (self.since, self.slice) = (now, slice);
        if let Some(first) = candidates.first() {
            self.give_way(*first, now);
        }
        self.move_to_front(drawn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(10);

    fn turns(tids: &[i32]) -> (Turns, Instant) {
        let mut turns = Turns::new(Tid(tids[0]), SLICE);
        tids[1..].iter().for_each(|tid| turns.join(Tid(*tid)));
        let now = turns.since;
        (turns, now)
    }

    fn order(turns: &Turns) -> Vec<i32> {
        turns.iter().map(|tid| tid.0).collect()
    }

    #[test]
    fn a_task_keeps_its_turn_until_its_slice_is_nearly_over_and_another_waits() {
        let (mut turns, now) = turns(&[1, 2, 3]);
        let all = [Tid(1), Tid(2), Tid(3)];
        assert_eq!(turns.choose(&all, true, now + SLICE / 5), Some(Tid(1)));
        assert_eq!(turns.choose(&[Tid(1)], true, now + 2 * SLICE), Some(Tid(1)), "there is no other");
        assert_eq!(turns.choose(&all, true, now + SLICE / 2), Some(Tid(2)));
        assert_eq!(order(&turns), [2, 3, 1]);
        let later = now + SLICE / 2 + SLICE / 5;
        assert_eq!(
            turns.choose(&[Tid(2), Tid(3), Tid(1)], true, later),
            Some(Tid(2)),
            "its slice began anew"
        );
    }

    #[test]
    fn who_is_given_way_to_has_a_slice_of_its_own() {
        let (mut turns, now) = turns(&[1, 2]);
        let late = now + SLICE;
        turns.give_way(Tid(1), late);
        let all = [Tid(2), Tid(1)];
        assert_eq!(turns.choose(&all, true, late), Some(Tid(2)));
        assert_eq!(turns.choose(&all, true, late + SLICE / 5), Some(Tid(2)));
        assert_eq!(turns.choose(&all, true, late + SLICE / 2), Some(Tid(1)));
    }

    #[test]
    fn a_task_that_sleeps_loses_its_place_and_one_that_is_less_urgent_does_not() {
        let (mut turns, now) = turns(&[1, 2, 3]);
        assert_eq!(turns.choose(&[Tid(2), Tid(3)], false, now), Some(Tid(2)));
        assert_eq!(order(&turns), [2, 3, 1]);
        assert_eq!(turns.choose(&[Tid(3)], true, now), Some(Tid(3)));
        assert_eq!(order(&turns), [3, 2, 1]);
    }

    #[test]
    fn two_tasks_that_wake_each_other_do_not_starve_a_third() {
        let (mut turns, now) = turns(&[1, 2, 3]);
        let mut had = Vec::new();
        for _ in 0..6 {
            // The one that ran has gone to sleep and woken the other of the two; the third is always ready.
            let ran = turns.front().unwrap_or(Tid(0));
            let ready: Vec<Tid> = turns.iter().filter(|tid| *tid != ran || ran == Tid(3)).collect();
            had.extend(turns.choose(&ready, ran == Tid(3), now + SLICE));
        }
        assert!(had.contains(&Tid(3)), "{had:?}");
    }

    #[test]
    fn turns_are_drawn_when_one_is_over_or_its_task_cannot_go_on() {
        let (mut turns, now) = turns(&[1, 2, 3]);
        let all = [Tid(1), Tid(2), Tid(3)];
        assert!(!turns.is_draw_due(&all, now) && turns.is_draw_due(&all[1..], now));
        turns.give(Tid(3), &all, SLICE / 2, now);
        assert_eq!(order(&turns), [3, 2, 1]);
        assert!(!turns.is_draw_due(&[Tid(3), Tid(2)], now) && turns.is_draw_due(&[Tid(3)], now + SLICE));
        turns.end();
        assert!(turns.is_draw_due(&[Tid(3)], now + Duration::from_nanos(1)));
    }

    #[test]
    fn nobody_ready_is_nobody_chosen() {
        let (mut turns, now) = turns(&[1, 2]);
        assert_eq!(turns.choose(&[], false, now), None);
        turns.leave(Tid(1));
        assert_eq!((turns.front(), order(&turns)), (Some(Tid(2)), vec![2]));
        turns.give_way(Tid(1), now);
        assert_eq!(order(&turns), [2], "a task that is gone does not come back");
    }
}
