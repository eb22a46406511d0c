//! Tasks that spin: that look at memory again and again until another task changes it. On one core, such a
//! task waits for a turn that it keeps the other from having; its whole time slice is lost.
//!
//! Nothing but its computation tells such a task from one that works. So a task whose slice is over is
//! stepped, now and then. It spins if the steps bring it back to where it was and have changed nothing in
//! memory; of its registers, one may count ([`doing`]). From then on it is looked at early in its turns, and
//! stopped if it is in that loop again. A task that is found elsewhere has its turn like any other; where
//! that was a whole slice, it is stepped again, because a task may spin at several places by turns (redis'
//! main thread waits for its helpers where they read, and where they write). And a task that spins gets no
//! turn before others while what it looks at stays as it was: it would find the same.
//!
//! What is decided here is when a turn ends, not what the stream says of it: the place is that of a pause
//! (`pause.rs`).
//!
//! This file holds what is known of a task's spinning, and tells from a few of its instructions what it does.
//! `questions.rs` asks whether it is time to look; `looking.rs` takes the steps.
//!
//! A task may spin for something that does not come for long. Where nothing has happened in its domain since
//! it last gave its turn away, and what it looks at has not changed, its turns become longer, up to a whole
//! slice.

mod looking;
mod questions;

use bis_trace::types::Addr;
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// How long a task that is known to spin computes until it is looked at: where its text counts, and where its
/// place has to be told by its state, which takes some milliseconds.
pub const SHORT: Duration = Duration::from_micros(200);
const SHORT_BY_STATE: Duration = Duration::from_millis(1);

/// By how much a register that counts changes at most in a round.
const COUNT_MAX: u64 = 64;

/// What is known of a task's spinning.
#[derive(Debug, Default)]
pub struct Spin {
    /// The loops in which it was found, the latest new one last; none: it is not known to spin.
    known: Vec<Loop>,
    /// Which of them it was in when it was found in one.
    current: usize,
    /// How often it was found elsewhere since.
    elsewhere: u32,
    /// How many slices are skipped when it is stepped next and does not spin; how many are still to be
    /// skipped.
    skips: u32,
    skipping: u32,
    /// The number of the domain's events when its slice was last found to be over.
    over_at: u64,
    /// The number of the domain's events when it was last looked at, or its turn began.
    turn: u64,
    /// How long it had had the processor then, and how long it may go on until it is looked at.
    ran: Duration,
    patience: Duration,
    /// How long its turns are.
    length: Duration,
    /// It was found in its loop, and is to stop.
    pub is_over: bool,
    /// How things were when it gave its turn away last.
    before: Option<Around>,
    /// Since when it has had no turn, because it has spun.
    idle: Option<Instant>,
}

impl Spin {
    /// The task goes on, in a turn that begins with this event of its domain or has begun with it.
    pub fn begin_turn(&mut self, turn: u64, shortest: Duration, ran: impl FnOnce() -> Option<Duration>) {
        self.idle = None;
        if self.turn != turn {
            let length = self.length.max(shortest);
            self.begin(turn, ran(), length);
        }
    }

    /// The task is looked at when it has had the processor for this long.
    pub fn begin(&mut self, turn: u64, ran: Option<Duration>, patience: Duration) {
        (self.turn, self.ran, self.patience) = (turn, ran.unwrap_or_default(), patience);
    }
}

/// What differs where something has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Around {
    /// How many events the domain has had that are not pauses or turns, and how many calls its hooks have
    /// made.
    events: u64,
    hooked: u64,
    /// What the loop looks at: xxh3.
    seen: u64,
}

/// A loop in which a task spins.
#[derive(Debug)]
struct Loop {
    /// The addresses of its instructions.
    places: Vec<Addr>,
    /// The memory that it reads.
    reads: Vec<Range<Addr>>,
}

/// A task before a single step, and what the instruction does.
struct Moment {
    rip: Addr,
    general: [u64; 16],
    reads: Vec<Range<Addr>>,
    changes_memory: bool,
}

const RSP: usize = 4;

/// What a task does, as far as its moments tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// The last so many instructions are a round of a loop that only looks.
    Spins(usize),
    /// It has come round a loop, and has done something in it.
    Works,
    Unknown,
}

/// A task only looks if all registers are as they were one round ago; or one of them counts, and the round
/// before was the same.
fn doing(moments: &[Moment]) -> Doing {
    let Some(last) = moments.len().checked_sub(1) else { return Doing::Unknown };
    let now = &moments[last];
    let is_again = |then: &Moment| then.rip == now.rip && then.general[RSP] == now.general[RSP];
    let Some(len) = (1..=last).find(|len| is_again(&moments[last - len])) else { return Doing::Unknown };
    let round = |n: usize| &moments[last - n * len..last - (n - 1) * len];
    let idles = |round: &[Moment]| !round.iter().any(|moment| moment.changes_memory);
    if !idles(round(1)) || round(1).iter().all(|moment| moment.reads.is_empty()) {
        return Doing::Works;
    }
    let changed = |from: &Moment, to: &Moment| -> Vec<(usize, u64)> {
        let steps = to.general.iter().zip(&from.general).map(|(to, from)| to.wrapping_sub(*from));
        steps.enumerate().filter(|(_, step)| *step != 0).collect()
    };
    let steps = changed(&moments[last - len], now);
    match steps.as_slice() {
        [] => Doing::Spins(len),
        [(_, by)] if *by <= COUNT_MAX || by.wrapping_neg() <= COUNT_MAX => {
            let Some(begin) = last.checked_sub(2 * len).map(|at| &moments[at]) else { return Doing::Unknown };
            if begin.rip != now.rip {
                return Doing::Unknown;
            }
            let is_same = changed(begin, &moments[last - len]) == steps && idles(round(2));
            let reads = |n: usize| round(n).iter().map(|moment| moment.reads.clone()).collect::<Vec<_>>();
            if is_same && reads(1) == reads(2) { Doing::Spins(len) } else { Doing::Works }
        }
        _ => Doing::Works,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(rip: u64, rax: u64, rbx: u64, reads: &[u64], changes_memory: bool) -> Moment {
        let mut general = [0; 16];
        (general[0], general[3]) = (rax, rbx);
        let reads = reads.iter().map(|addr| Addr::range(*addr..addr + 8)).collect();
        Moment { rip: Addr(rip), general, reads, changes_memory }
    }

    type Round = fn(u64) -> (u64, u64, u64, bool);

    /// Rounds of two instructions; `each` says what is in the registers, what is read, and whether memory
    /// changes.
    fn moments(rounds: u64, each: impl Fn(u64) -> (u64, u64, u64, bool)) -> Vec<Moment> {
        let both = |n: u64| {
            let (rax, rbx, read, changes) = each(n);
            [moment(0x10, rax, rbx, &[read], false), moment(0x14, rax, rbx, &[], changes)]
        };
        (0..rounds).flat_map(both).chain([moment(0x10, each(rounds).0, each(rounds).1, &[], false)]).collect()
    }

    #[test]
    fn a_loop_that_changes_nothing_spins_also_where_it_counts() {
        assert_eq!(doing(&moments(0, |_| (1, 2, 0x1000, false))), Doing::Unknown);
        assert_eq!(doing(&moments(1, |_| (1, 2, 0x1000, false))), Doing::Spins(2));
        // One that counts is only known by two rounds.
        assert_eq!(doing(&moments(1, |n| (n, 2, 0x1000, false))), Doing::Unknown);
        assert_eq!(doing(&moments(2, |n| (n, 2, 0x1000, false))), Doing::Spins(2));
        assert_eq!(doing(&moments(2, |n| (100 - n, 2, 0x1000, false))), Doing::Spins(2));
    }

    #[test]
    fn a_loop_that_works_does_not_spin() {
        let works: [Round; 5] = [
            // It changes memory; two registers; looks elsewhere each time; counts in no simple way.
            |_| (1, 2, 0x1000, true),
            |n| (n, n * n, 0x1000, false),
            |n| (n, 2, 0x1000 + 8 * n, false),
            |n| (n * 1000, 2, 0x1000, false),
            |n| (n * n, 2, 0x1000, false),
        ];
        for (at, each) in works.into_iter().enumerate() {
            assert_eq!(doing(&moments(2, each)), Doing::Works, "{at}");
        }
    }

    #[test]
    fn a_loop_that_looks_at_nothing_waits_for_nobody() {
        let delay = |n| [moment(0x10, n, 0, &[], false), moment(0x14, n, 0, &[], false)];
        assert_eq!(doing(&(0..4).flat_map(delay).collect::<Vec<_>>()), Doing::Works);
    }
}
