//! A task is let go on until something comes of it: past the breakpoints at which its driver knows that it
//! stands.

use std::{ops::Range, time::Instant};

use bis_trace::types::{Addr, Registers, TRAP_FLAG, Tid};
use bis_tracee::{
    TraceeError,
    maps::{self, Mapping},
};

use crate::{
    counted::Counted,
    error::Halt,
    host::Host,
    replica::{Limit, Replica, Stop, Who},
    task::{Found, Interrupt, Place, Run, Task},
};

/// What letting a task go on has come to, before anybody has looked whether it is its event's place.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Gone {
    Place(Place),
    Stopped(Stop),
}

impl Replica<'_> {
    /// Lets the task go on until something comes of the program, or of a search for a place, or of the
    /// driver.
    pub(crate) fn go(
        &mut self,
        task: &mut Task,
        who: Who,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Gone, Halt> {
        if limit.interrupt.is_some_and(Interrupt::is_asked) {
            return Ok(Gone::Stopped(Stop::Interrupted));
        }
        let mut lifted = self.leave_told(task)?;
        self.arm(task)?;
        if let Some(addr) = lifted {
            self.traps.lift(&self.space.memory, addr)?;
        }
        loop {
            let mut place = self.run_to_stop(task, lifted.take(), limit)?;
            while let Found::Point(at) = place.found
                && let Some((program, left)) = self.traps.only_counts(at)
            {
                let passed =
                    if limit.step { None } else { self.pass_rounds(task, (at, program, left), limit)? };
                let Some(passed) = passed else {
                    if !limit.step && self.traps.count_silent_stop(program) {
                        return Ok(Gone::Stopped(Stop::Point(who.tid, program)));
                    }
                    lifted = Some(at);
                    break;
                };
                place = passed;
            }
            if let Some(at) = lifted {
                if limit.interrupt.is_some_and(Interrupt::is_asked) {
                    task.told = Some(at);
                    return Ok(Gone::Stopped(Stop::Interrupted));
                }
                self.traps.lift(&self.space.memory, at)?;
                continue;
            }
            let stop = match place.found {
                Found::Tick if self.leave_count(task, who)? => Stop::Interrupted,
                Found::Point(place) => {
                    match self.traps.program_at(place).filter(|_| !self.traps.is_moment(place)) {
                        Some(program) => Stop::Point(who.tid, program),
                        None => Stop::Moment(who.tid),
                    }
                }
                Found::Watched(triggered) => {
                    Stop::Watched(who.tid, self.traps.take_touched(task.own_watches.len(), triggered))
                }
                Found::Stepped if limit.step => Stop::Stepped(who.tid),
                // Past a breakpoint.
                Found::Stepped => continue,
                Found::Interrupted => Stop::Interrupted,
                Found::Dead if host.is_cancelled() => return Err(Halt::Cancelled),
                _ => return Ok(Gone::Place(place)),
            };
            return Ok(Gone::Stopped(stop));
        }
    }

    /// Puts the driver's breakpoints into memory.
    pub(super) fn arm(&mut self, task: &Task) -> Result<(), Halt> {
        let mappings = || mappings_of_program(task.ours, &task.guarded);
        Ok(self.traps.arm(&self.space.memory, mappings)?)
    }

    /// The task stands where it goes on from: past what the driver was told of there, and past code of ours.
    /// What is answered is the breakpoint that is to be lifted for its first instruction.
    fn leave_told(&self, task: &mut Task) -> Result<Option<Addr>, Halt> {
        let regs = task.regs()?;
        let mut rip = regs.ip();
        // A program that single-steps itself traps behind our jump.
        let led = if regs.eflags & TRAP_FLAG == 0 { self.led_to(rip) } else { rip };
        if led != rip {
            // To execute our jump is to go there.
            task.set_regs(&Registers { rip: led.0, ..regs })?;
            rip = led;
        }
        // It may have been interrupted in the copies of what has given way, in front of the instruction of
        // which the driver was told.
        let own = self.traps.original_of(rip).unwrap_or(rip);
        let told = task.told.take().filter(|told| *told == own && self.traps.program_at(*told).is_some());
        // Where the program counts by itself, it goes on behind that; and in the copies of what has given
        // way.
        let past = told.and_then(|told| {
            self.traps.counted().iter().find(|counted| counted.place == told).and_then(Counted::past)
        });
        let inside = || self.traps.copy_of(rip).map(|copy| copy.0);
        if let Some(rip) = past.or_else(inside) {
            task.set_regs(&Registers { rip, ..task.regs()? })?;
        }
        Ok(told.filter(|_| past.is_none()))
    }

    /// Lets the task run once. `lifted`: a breakpoint that was taken away, for one instruction.
    fn run_to_stop(
        &mut self,
        task: &mut Task,
        lifted: Option<Addr>,
        limit: &Limit<'_>,
    ) -> Result<Place, Halt> {
        let hooks = self.space.hooks;
        let run = Run { interrupt: limit.interrupt, step: limit.step || lifted.is_some(), hooks };
        // A replay of all has no use for it, and to look at the clock may be a fault there (`modes.rs`).
        let begin = self.is_attended.then(Instant::now);
        let mut place = task.run(&self.space.memory, &mut self.traps, run)?;
        if let Some(begin) = begin {
            self.traps.add_time(begin.elapsed());
        }
        self.traps.look(&self.space.memory)?;
        let standing = (task.ours, place.regs.ip());
        if place.found == Found::Interrupted && lifted.is_none() && self.traps.may_stand(standing) {
            // Has it not gone on, or come by again? One instruction more, and it has.
            let run = Run { interrupt: None, step: true, hooks };
            place = task.run(&self.space.memory, &mut self.traps, run)?;
            if place.found == Found::Stepped && !limit.step {
                place.found = Found::Interrupted;
            }
            self.traps.standing = None;
        }
        if place.found == Found::Interrupted && lifted.is_some() {
            // It was to execute one instruction, and has not: a trap behind that would have come first.
            task.told = lifted;
        } else {
            self.traps.ran(task.ours, &place);
        }
        if let Some(addr) = lifted {
            self.traps.put_back(&self.space.memory, addr);
        }
        Ok(place)
    }
}

/// What is mapped, without the protection of text by which a search for a place guards its jump.
fn mappings_of_program(ours: Tid, guarded: &Range<Addr>) -> Result<Vec<Mapping>, TraceeError> {
    let mut mappings = maps::read(ours)?;
    for mapping in mappings.iter_mut().filter(|mapping| guarded.contains(&mapping.start)) {
        mapping.prot |= libc::PROT_WRITE.cast_unsigned();
    }
    Ok(mappings)
}
