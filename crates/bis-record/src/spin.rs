//! Tasks that spin: that look at memory again and again until another task changes it. On one core, such a task waits for a
//! turn that it keeps the other from having; its whole time slice is lost.
//!
//! Nothing but its computation tells such a task from one that works. So a task whose slice is over is stepped, now and
//! then. It spins if the steps bring it back to where it was and have changed nothing in memory; of its registers, one may
//! count ([`doing`]). From then on it is looked at early in its turns, and stopped if it is in that loop again. A task that
//! is found elsewhere has its turn as any other. Nor has one that spins a turn again before others, while what it looks at
//! stays as it was: it would find the same.
//!
//! What is decided here is when a turn ends, not what the stream says of it: the place is that of a pause (`pause.rs`).
//!
//! A task may spin for something that does not come for long. Where nothing has happened in its domain since it last gave
//! its turn away, and what it looks at has not changed, its turns become longer, up to a whole slice.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use bis_agent::hooks::state;
use bis_rewrite::{Pointers, Touch, touches};
use bis_trace::types::{Registers, Tid};
use bis_tracee::{ours, task};
use xxhash_rust::xxh3::Xxh3;

use crate::{domain::Domain, error::Result, steps::Step, task::Task};

/// How long a task that has spun is passed over, at most, if what it looks at does not change: its loop may end by its count.
const IDLE_MAX: Duration = Duration::from_millis(10);

/// How long a task that is known to spin computes until it is looked at: where its text counts, and where its place has to
/// be told by its state, which takes some milliseconds.
const SHORT: Duration = Duration::from_micros(200);
const SHORT_BY_STATE: Duration = Duration::from_millis(1);

/// How often a task is looked at for which a signal waits.
const SIGNAL_LOOK: Duration = Duration::from_millis(1);

/// How many single steps are made to find a loop.
const STEPS: usize = 80;

/// By how much a register that counts changes at most in a round.
const COUNT_MAX: u64 = 64;

/// How often a task is found outside of its loop until that is forgotten.
const ELSEWHERE_MAX: u32 = 16;

/// A task that did not spin is stepped again after this many slices at most.
const SKIPS_MAX: u32 = 15;

/// How far below the stack pointer calls in a loop may write.
const CALLS_LEN: u64 = 4096;

/// What is known of a task's spinning.
#[derive(Debug, Default)]
pub struct Spin {
    /// The loop in which it was found; none: it is not known to spin.
    known: Option<Loop>,
    /// How often it was found elsewhere since.
    elsewhere: u32,
    /// How many slices are skipped when it is stepped next and does not spin; how many are still to be skipped.
    skips: u32,
    skipping: u32,
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

/// What differs where something has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Around {
    /// How many events the domain has had that are not pauses or turns, and how many calls its hooks have made.
    events: u64,
    hooked: u64,
    /// What the loop looks at: xxh3.
    seen: u64,
}

/// A loop in which a task spins.
#[derive(Debug)]
struct Loop {
    /// The addresses of its instructions.
    places: Vec<u64>,
    /// The memory that it reads.
    reads: Vec<Range<u64>>,
}

/// A task before a single step, and what the instruction does.
struct Moment {
    rip: u64,
    general: [u64; 16],
    reads: Vec<Range<u64>>,
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

/// A task only looks if all registers are as they were one round ago; or one of them counts, and the round before was the same.
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

impl Domain {
    /// Might this task spin while others wait, so that it is to be looked at early?
    fn is_to_be_watched(&self, tid: Tid) -> bool {
        self.session.chaos.is_none()
            && self.tasks.get(&tid).is_some_and(|task| task.spin.known.is_some() && task.counter.is_none())
            && (self.tasks.len() > 1 || self.holds_tokens())
    }

    /// The task goes on: waits for its report. One that might spin is looked at meanwhile (`Domain::look_after`).
    pub fn wait_and_watch(&mut self, tid: Tid) -> Result<()> {
        if !self.is_to_be_watched(tid) {
            let has_signal = self.tasks.get(&tid).is_some_and(|task| !task.stash.is_empty());
            if !has_signal || !self.is_dense() || self.session.chaos.is_some() {
                return self.wait_for_report(tid);
            }
            // A timer's handler is not to wait for the watch thread's next look.
            return match ours::kicked_every(SIGNAL_LOOK, || self.wait_for_report(tid)) {
                Some(result) => result,
                None => self.wait_for_report(tid),
            };
        }
        let (turn, short) = (self.journal.count(), self.shortest());
        let task = self.task(tid)?;
        task.spin.idle = None;
        if task.spin.turn != turn {
            let length = task.spin.length.max(short);
            task.spin.begin(turn, task::cpu_time(tid), length);
        }
        match ours::kicked_every(SHORT, || self.wait_for_report(tid)) {
            Some(result) => result,
            None => self.wait_for_report(tid),
        }
    }

    /// Would this task, which has spun until it gave its turn away, only go on spinning?
    pub fn is_idle(&self, task: &Task) -> bool {
        let Some(since) = task.spin.idle else { return false };
        since.elapsed() < IDLE_MAX && task.spin.before.is_some_and(|before| before.seen == self.seen(task))
    }

    /// What the task's loop looks at, as it is now: xxh3.
    fn seen(&self, task: &Task) -> u64 {
        let mut seen = Xxh3::new();
        let reads = task.spin.known.as_ref().map_or(&[][..], |known| &known.reads);
        self.content(reads).iter().for_each(|bytes| seen.update(bytes));
        seen.digest()
    }

    fn shortest(&self) -> Duration {
        if self.is_dense() { SHORT } else { SHORT_BY_STATE }
    }

    /// The supervisor was called away from waiting for this task: is it time to look whether it spins?
    pub fn is_to_be_looked_at(&self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        if self.is_dense() && self.session.chaos.is_none() && self.is_awaited_by_signal(tid) {
            return true;
        }
        let is_due = || {
            let ran = task::cpu_time(tid).unwrap_or_default();
            ran.saturating_sub(task.spin.ran) >= task.spin.patience
        };
        self.is_to_be_watched(tid)
            && task.spin.turn == self.journal.count()
            && self.is_waited_for(task)
            && is_due()
    }

    /// Does anybody wait for this task's turn who would get it?
    fn is_waited_for(&self, task: &Task) -> bool {
        let mut others = self.tasks.values().filter(|other| other.tid != task.tid);
        others.any(|other| self.waits_for_turn(other) && self.urgency(other) <= self.urgency(task))
            || self.holds_tokens() && self.session.registry.is_wanted()
    }

    /// The task has been stopped in the middle of computation: does it spin? [`Step::Elsewhere`]: something else has come
    /// first.
    pub fn look_for_spin(&mut self, tid: Tid) -> Result<Step> {
        let is_slice_over = self.has_run(self.turns.slice());
        let (turn, cap) = (self.journal.count(), self.turns.slice());
        let rip = self.stopped(tid)?.regs()?.rip;
        let has_chaos = self.session.chaos.is_some();
        let task = self.task(tid)?;
        if task.counter.is_some() || has_chaos {
            return Ok(Step::Done);
        }
        let spin = &mut task.spin;
        if let Some(known) = &spin.known {
            if spin.is_over || known.places.contains(&rip) {
                (spin.is_over, spin.elsewhere) = (true, 0);
                // Until it comes to where it can have a place.
                spin.begin(turn, task::cpu_time(tid), SHORT);
            } else {
                spin.elsewhere += 1;
                if spin.elsewhere > ELSEWHERE_MAX {
                    *spin = Spin::default();
                } else {
                    let patience = (2 * spin.patience).min(cap);
                    spin.begin(turn, task::cpu_time(tid), patience);
                }
            }
            return Ok(Step::Done);
        }
        if !is_slice_over || spin.turn == turn {
            return Ok(Step::Done);
        }
        // Once in a slice.
        spin.turn = turn;
        if let Some(left) = spin.skipping.checked_sub(1) {
            spin.skipping = left;
            return Ok(Step::Done);
        }
        let task = self.task(tid)?;
        if task.stash.is_empty() && self.is_awaited_by_others(tid) {
            return self.find_loop(tid);
        }
        Ok(Step::Done)
    }

    /// Steps the task, and remembers the loop in which it spins, if it does.
    fn find_loop(&mut self, tid: Tid) -> Result<Step> {
        let began = Instant::now();
        let mut moments = Vec::new();
        let mut found = Doing::Unknown;
        for _ in 0..STEPS {
            let regs = self.stopped(tid)?.regs()?;
            let (mut moment, writes) = self.moment(&regs);
            let before = self.content(&writes);
            moments.push(moment_of(&regs));
            // In a trampoline of the dense text, registers are not the program's.
            let is_own = self.dense_place(regs.rip).is_none();
            found = if is_own { doing(&moments) } else { Doing::Unknown };
            if found != Doing::Unknown {
                break;
            }
            if self.step(tid)? == Step::Elsewhere {
                return Ok(Step::Elsewhere);
            }
            moment.changes_memory = self.content(&writes) != before;
            if let Some(last) = moments.last_mut() {
                *last = moment;
            }
        }
        let spin = &mut self.task(tid)?.spin;
        if let Doing::Spins(len) = found {
            let round = moments.iter().rev().skip(1).take(len);
            let places = round.clone().map(|moment| moment.rip).collect();
            let reads = round.flat_map(|moment| moment.reads.clone()).collect();
            *spin = Spin { known: Some(Loop { places, reads }), is_over: true, ..Spin::default() };
        } else {
            spin.skips = (2 * spin.skips + 1).min(SKIPS_MAX);
            spin.skipping = spin.skips;
        }
        tracing::debug!(domain = %self.id, %tid, ?found, took = ?began.elapsed(), "looked for a spinning loop");
        Ok(Step::Done)
    }

    /// The task before it executes an instruction, and what of memory that may change for good.
    fn moment(&self, regs: &Registers) -> (Moment, Vec<Range<u64>>) {
        let mut moment = moment_of(regs);
        // A count of the dense text changes nothing of the program's.
        if self.dense_place(regs.rip).is_some() {
            return (moment, Vec::new());
        }
        let (rip, general) = (regs.rip, regs.general());
        let pointers = Pointers { rip, general, fs_base: regs.fs_base, gs_base: regs.gs_base };
        let touched = touches(&self.memory.read_upto(rip, 15), &pointers);
        let calls = regs.rsp.saturating_sub(CALLS_LEN)..regs.rsp;
        let (writes, reads): (Vec<Touch>, Vec<Touch>) = touched.into_iter().partition(|touch| touch.is_write);
        let lasts = |touch: &Touch| !calls.contains(&touch.range.start);
        moment.reads = reads.into_iter().map(|touch| touch.range).collect();
        (moment, writes.into_iter().filter(lasts).map(|touch| touch.range).collect())
    }

    fn content(&self, ranges: &[Range<u64>]) -> Vec<Vec<u8>> {
        let read = |range: &Range<u64>| {
            self.memory.read_upto(range.start, usize::try_from(range.end - range.start).unwrap_or(0))
        };
        ranges.iter().map(read).collect()
    }

    /// The task stands at a pause. If it was stopped because it spins, all others have their turns before it.
    pub fn give_up_spinning(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        if !std::mem::take(&mut task.spin.is_over) {
            return Ok(());
        }
        let seen = self.tasks.get(&tid).map_or(0, |task| self.seen(task));
        let hooked = self.hooks.as_ref().map_or(0, |hooks| hooks.area.get(state::COUNT));
        let now = Some(Around { events: self.journal.happened(), hooked, seen });
        let (short, slice) = (self.shortest(), self.turns.slice());
        let spin = &mut self.task(tid)?.spin;
        spin.length = if spin.before == now { (2 * spin.length).clamp(short, slice) } else { short };
        (spin.before, spin.idle) = (now, Some(Instant::now()));
        self.gives_up = true;
        self.turns.give_way(tid);
        // Who is in front now begins.
        self.turns.begin(Instant::now());
        Ok(())
    }
}

fn moment_of(regs: &Registers) -> Moment {
    Moment { rip: regs.rip, general: regs.general(), reads: Vec::new(), changes_memory: false }
}

impl Spin {
    /// The task is looked at when it has had the processor for this long.
    fn begin(&mut self, turn: u64, ran: Option<Duration>, patience: Duration) {
        (self.turn, self.ran, self.patience) = (turn, ran.unwrap_or_default(), patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(rip: u64, rax: u64, rbx: u64, reads: &[u64], changes_memory: bool) -> Moment {
        let mut general = [0; 16];
        (general[0], general[3]) = (rax, rbx);
        let reads = reads.iter().map(|addr| *addr..addr + 8).collect();
        Moment { rip, general, reads, changes_memory }
    }

    type Round = fn(u64) -> (u64, u64, u64, bool);

    /// Rounds of two instructions; `each` says what is in the registers, what is read, and whether memory changes.
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
