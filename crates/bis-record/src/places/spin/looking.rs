//! A task is stepped to see whether it spins, and gives its turn away if it does.

use std::{ops::Range, time::Instant};

use bis_trace::types::{Addr, Registers, Tid};
use bis_tracee::task;

use super::{Around, Doing, Loop, Moment, SHORT, Spin, doing};
use crate::{domain::Domain, error::Result, places::Step, process::Process};

/// How many single steps are made to find a loop.
const STEPS: usize = 80;

/// How many loops are known of a task, at most.
const LOOPS_MAX: usize = 4;

/// How often a task is found outside of its loops until they are forgotten.
const ELSEWHERE_MAX: u32 = 16;

/// A task that did not spin is stepped again after this many slices at most.
const SKIPS_MAX: u32 = 15;

impl Domain {
    /// The task has been stopped in the middle of computation: does it spin? [`Step::Elsewhere`]: something
    /// else has come first.
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
        let found = spin.known.iter().position(|known| known.places.contains(&Addr(rip)));
        if spin.is_over || found.is_some() {
            (spin.is_over, spin.elsewhere) = (true, 0);
            spin.current = found.unwrap_or(spin.current);
            // Until it comes to where it can have a place.
            spin.begin(turn, task::cpu_time(tid), SHORT);
            return Ok(Step::Done);
        }
        if !spin.known.is_empty() {
            spin.elsewhere += 1;
            if spin.elsewhere > ELSEWHERE_MAX {
                *spin = Spin::default();
            } else {
                let patience = (2 * spin.patience).min(cap);
                spin.begin(turn, task::cpu_time(tid), patience);
            }
        }
        if !is_slice_over || spin.over_at == turn {
            return Ok(Step::Done);
        }
        // Once in a slice.
        spin.over_at = turn;
        if let Some(left) = spin.skipping.checked_sub(1) {
            spin.skipping = left;
            return Ok(Step::Done);
        }
        let task = self.task(tid)?;
        if task.signals.stash.is_empty() && self.is_awaited_by_others(tid) {
            return self.find_loop(tid);
        }
        Ok(Step::Done)
    }

    /// Steps the task, and remembers the loop in which it spins, if it does. It is none that is known.
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
            let is_own = self.space.dense_place(regs.ip()).is_none();
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
            let mut known = std::mem::take(&mut spin.known);
            if known.len() == LOOPS_MAX {
                known.remove(0);
            }
            known.push(Loop { places, reads });
            *spin = Spin { current: known.len() - 1, known, is_over: true, ..Spin::default() };
        } else {
            spin.skips = (2 * spin.skips + 1).min(SKIPS_MAX);
            spin.skipping = spin.skips;
        }
        tracing::debug!(domain = %self.id, %tid, ?found, took = ?began.elapsed(), "looked for a spinning loop");
        Ok(Step::Done)
    }

    /// The task stands at a pause. If it was stopped because it spins, all others have their turns before it.
    pub fn give_up_spinning(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        if !std::mem::take(&mut task.spin.is_over) {
            return Ok(());
        }
        let seen = self.tasks.get(&tid).map_or(0, |task| self.seen(task));
        let hooked = self.hooked();
        let now = Some(Around { events: self.journal.happened(), hooked, seen });
        let (short, slice) = (self.shortest(), self.turns.slice());
        let spin = &mut self.task(tid)?.spin;
        spin.length = if spin.before == now { (2 * spin.length).clamp(short, slice) } else { short };
        (spin.before, spin.idle) = (now, Some(Instant::now()));
        self.gives_up = true;
        self.turns.give_way(tid, Instant::now());
        Ok(())
    }
}

impl Process {
    /// The task before it executes an instruction, and what of memory that may change for good.
    fn moment(&self, regs: &Registers) -> (Moment, Vec<Range<Addr>>) {
        let (reads, writes) = self.touched(regs);
        (Moment { reads, ..moment_of(regs) }, writes)
    }
}

fn moment_of(regs: &Registers) -> Moment {
    Moment { rip: regs.ip(), general: regs.general(), reads: Vec::new(), changes_memory: false }
}
