//! Where the tasks of a replica are to stop for the driver, and what the program counts by itself on its way.

use std::collections::BTreeSet;

use bis_rewrite::Predicate;
use bis_trace::{
    event::{EventKind, PausePlace},
    types::{Addr, Registers, TRAP_FLAG, TickKind},
};
use bis_tracee::{debug, ticks};

use super::{Replica, is_pause};
use crate::{
    areas::Piece,
    counted::{Counted, Until},
    error::Halt,
    repeated,
    space::Space,
    spans::span_at,
    task::{Found, Run, Task},
    traps::Traps,
};

/// How far a replica may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ahead {
    /// As far as to the next event: what counts must not be in the way of the search for a pause.
    #[default]
    Event,
    /// The driver knows that it stops in front of the next event: the place of a pause is not looked for on
    /// the way, and anything may be counted there.
    Place,
}

/// An address where the program may count its arrivals by itself.
struct Countable {
    /// The instruction there repeats itself, and its rounds are counted.
    is_repeated: bool,
}

impl Replica<'_> {
    /// Where the tasks are to stop: whenever one is about to execute the instruction at one of these
    /// addresses.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn set_points(&mut self, points: &BTreeSet<Addr>) -> Result<(), Halt> {
        self.set_points_and_counts(points, &BTreeSet::new())
    }

    /// As [`Replica::set_points`]; at each of `counted` that is none of `points`, arrivals are only counted.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn set_points_and_counts(
        &mut self,
        points: &BTreeSet<Addr>,
        counted: &BTreeSet<Addr>,
    ) -> Result<(), Halt> {
        let is_at_event = self.is_at_event();
        let Replica { traps, space, .. } = self;
        let (all, silent) = (points | counted, counted - points);
        Ok(traps.set_points(&space.memory, &all, silent, is_at_event, |addr| space.places(addr))?)
    }

    /// From here to the next event, the program counts its arrivals at this address by itself; with
    /// `stop_at`, the task stops at that one of them, as at a breakpoint. There must be one of
    /// [`Replica::set_points`], and it stops the task no more. False: that cannot be here, and the breakpoint
    /// stays as it is. `ahead`: how far it goes meanwhile.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn count_arrivals(&mut self, addr: Addr, stop_at: Option<u64>, ahead: Ahead) -> Result<bool, Halt> {
        self.let_count(addr, Until { arrival: stop_at, condition: None }, ahead)
    }

    /// As [`Replica::count_arrivals`], and the task stops each time that the condition holds, or cannot be
    /// tested.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn count_where(&mut self, addr: Addr, condition: &Predicate, ahead: Ahead) -> Result<bool, Halt> {
        self.let_count(addr, Until { arrival: None, condition: Some(condition) }, ahead)
    }

    /// Has the program text that counts by itself?
    pub(crate) fn is_dense(&self) -> bool {
        self.world.ticks.kind() == TickKind::Software
    }

    /// Is the instruction not executed at its own address alone? Copies of moved instructions have counts
    /// beside them, or jumps of ours.
    fn is_moved(&self, addr: Addr) -> bool {
        self.space.places(addr) != [addr] || self.space.text.as_ref().is_some_and(|text| text.is_ours(addr))
    }

    /// Can the program count by itself how often it comes to this address, as far as its text tells, without
    /// being in the way of the search for the next event, which is a pause, or of counts at `beside`? (Else
    /// the task has to be stopped each time that it comes by.)
    ///
    /// # Errors
    /// As [`Replica::next_event`].
    pub fn can_count(&mut self, addr: Addr, beside: &BTreeSet<Addr>, ahead: Ahead) -> Result<bool, Halt> {
        Ok(self.countable(addr, beside, ahead)?.is_some())
    }

    /// What counts arrivals has branches of its own, and how far the task has come may be counted with them.
    fn may_count(&mut self) -> Result<bool, Halt> {
        let is_to_pause = self.next_event()?.is_some_and(|event| is_pause(&event.kind));
        Ok(!self.world.ticks.counts_branches() || !is_to_pause && self.is_attended)
    }

    /// What there is at an address where the program may count its arrivals. None: it cannot.
    fn countable(
        &mut self,
        addr: Addr,
        beside: &BTreeSet<Addr>,
        ahead: Ahead,
    ) -> Result<Option<Countable>, Halt> {
        if self.is_moved(addr) || !self.may_count()? {
            return Ok(None);
        }
        // Where the text counts, it stops the task by itself at the place of a pause.
        let is_dense = self.is_dense();
        let is_sought = |place| place == PausePlace::State || !is_dense;
        let sought = match self.next_event()?.map(|event| &event.kind) {
            Some(EventKind::Pause(pause)) if ahead == Ahead::Event && is_sought(pause.place) => {
                Some(pause.regs.ip())
            }
            _ => None,
        };
        let bits = self.tasks.values().find_map(|task| task.regs().ok()).map_or(64, |regs| regs.bits());
        let gives_way = |at: Addr| {
            let span = span_at(bits, at, |addr, len| self.read_program(addr, len));
            span.map(|span| at..Addr(span.end()))
        };
        let repeated = repeated::len(&self.read_program(addr, ticks::INSTRUCTION_LEN_MAX));
        let own = repeated.map(|len| addr..addr.saturating_add(len)).or_else(|| gives_way(addr));
        let Some(own) = own else { return Ok(None) };
        let is_in_the_way = |at: &Addr| {
            let other = gives_way(*at).unwrap_or(*at..at.saturating_add(1));
            own.start < other.end && other.start < own.end
        };
        let others = beside.iter().filter(|at| **at != addr);
        if sought.iter().chain(others).any(is_in_the_way) {
            return Ok(None);
        }
        self.traps.disarm(&self.space.memory)?;
        // Text that has given way to something of ours may be in the way, too.
        let len = (own.end - own.start) as usize;
        let is_own = self.space.memory.read_upto(addr, len) == self.read_program(addr, len);
        Ok(is_own.then_some(Countable { is_repeated: repeated.is_some() }))
    }

    fn let_count(&mut self, addr: Addr, until: Until<'_>, ahead: Ahead) -> Result<bool, Halt> {
        let Some((tid, _)) = self.next_task()? else { return Ok(false) };
        let base = self.traps.arrivals(addr);
        if !self.traps.has_point(addr)
            || self.traps.counted().iter().any(|counted| counted.covers(addr))
            || until.arrival.is_some_and(|stop_at| stop_at <= base)
        {
            return Ok(false);
        }
        let Some(Countable { is_repeated }) = self.countable(addr, &BTreeSet::new(), ahead)? else {
            tracing::debug!(%addr, ?ahead, "each arrival is a stop");
            return Ok(false);
        };
        let Some(task) = self.tasks.get_mut(&tid).filter(|task| task.stopped.is_some()) else {
            return Ok(false);
        };
        // A program that single-steps itself would trap in the middle of what counts.
        if task.regs()?.eflags & TRAP_FLAG != 0 {
            return Ok(false);
        }
        if is_repeated {
            let is_counted = self.traps.counts_rounds(addr);
            let can_be = until.condition.is_none() && !is_counted && !task.regs()?.is_narrow();
            if can_be {
                self.traps.count_rounds(addr, until.arrival);
            }
            return Ok(can_be);
        }
        let in_the_way: Vec<Addr> = self.traps.counted().iter().map(|counted| counted.place).collect();
        let counted = Counted::new(task, &self.space.memory, (addr, addr), base, until, &in_the_way)?;
        let is_counted = counted.is_some();
        if !is_counted {
            tracing::debug!(%addr, ?ahead, "no room to count: each arrival is a stop");
        }
        if let Some(counted) = counted {
            self.traps.add_counted(counted);
            // Where the last event has left this task is no arrival.
            if self.traps.standing == Some((task.ours, addr)) {
                task.told = Some(addr);
            }
        }
        Ok(is_counted)
    }

    /// The address behind an instruction that repeats itself, each round of which is an arrival. None: it is
    /// another one.
    #[must_use]
    pub fn behind_repeated(&self, addr: Addr) -> Option<Addr> {
        let len = repeated::len(&self.read_program(addr, ticks::INSTRUCTION_LEN_MAX))?;
        Some(addr.saturating_add(len))
    }

    /// The program counts nothing any more.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn end_counts(&mut self) -> Result<(), Halt> {
        self.traps.end_rounds();
        if self.traps.counted().is_empty() {
            return Ok(());
        }
        self.leave_counts()?;
        let counted = self.traps.take_counted(&self.space.memory)?;
        let Some(task) = self.tasks.values_mut().find(|task| task.stopped.is_some()) else { return Ok(()) };
        counted.iter().try_for_each(|counted| counted.end(task))?;
        Ok(())
    }

    /// As [`Replica::end_counts`], where only this task can stand in what counts, which is in the way of the
    /// search for its pause. Its arrivals are stops from here on.
    pub(crate) fn end_counts_with(&mut self, task: &mut Task) -> Result<(), Halt> {
        self.traps.disarm(&self.space.memory)?;
        end_counts_of(task, &self.space, &mut self.traps)?;
        let counted = self.traps.take_counted(&self.space.memory)?;
        counted.iter().try_for_each(|counted| counted.end(task))?;
        Ok(())
    }

    /// A task that was stopped in the middle of what counts stands in the program's own text then. It goes on
    /// being counted.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn leave_counts(&mut self) -> Result<(), Halt> {
        let is_inside = |rip: Addr| self.traps.counted().iter().any(|counted| counted.has(rip));
        let mut stopped = self.tasks.values().filter(|task| task.stopped.is_some());
        if !stopped.any(|task| task.regs().is_ok_and(|regs| is_inside(regs.ip()))) {
            return Ok(());
        }
        self.traps.disarm(&self.space.memory)?;
        for task in self.tasks.values_mut() {
            end_counts_of(task, &self.space, &mut self.traps)?;
        }
        Ok(())
    }

    /// Whatever the tasks touch of these bytes stops them. Of debug registers there are as many as the
    /// processor has, less one for the search for a place.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn set_watches(&mut self, watches: &[Piece]) -> Result<(), Halt> {
        let is_at_event = self.is_at_event();
        // A source that steps uses a register for instructions that it does not step over; and the search for
        // a place needs one.
        let room =
            if self.world.ticks.kind() == TickKind::Stepping { debug::COUNT - 2 } else { debug::COUNT };
        self.traps.set_watches(watches, room, is_at_event);
        Ok(())
    }
}

/// A task that stands in the middle of what counts goes on in the program's own text.
fn end_counts_of(task: &mut Task, space: &Space, traps: &mut Traps) -> Result<(), Halt> {
    if task.stopped.is_none() {
        return Ok(());
    }
    // In front of the copies there is a dozen instructions, and a condition.
    const STEPS_MAX: usize = 1024;
    for _ in 0..STEPS_MAX {
        let regs = task.regs()?;
        if let Some(rip) = traps.counted().iter().find_map(|counted| counted.original(regs.ip())) {
            task.set_regs(&Registers { rip, ..regs })?;
            if traps.counted().iter().any(|counted| counted.place == Addr(rip)) {
                note_counted_place(task, traps, Addr(rip));
            }
            return Ok(());
        }
        if !traps.counted().iter().any(|counted| counted.has(regs.ip())) {
            return Ok(());
        }
        let place =
            task.run(&space.memory, traps, Run { interrupt: None, step: true, hooks: space.hooks })?;
        if let Found::Point(place) = place.found {
            note_counted_place(task, traps, place);
            return Ok(());
        }
    }
    Ok(())
}

/// The task stands at a place, and that arrival was counted: a breakpoint there must not stop it again.
fn note_counted_place(task: &mut Task, traps: &mut Traps, place: Addr) {
    task.told = Some(place);
    traps.last = Some((task.ours, place));
}
