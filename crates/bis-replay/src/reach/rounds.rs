//! The rounds of a string instruction that repeats itself (`rep movsb`), where they are only counted.
//!
//! The processor counts such an instruction's rounds down in rcx, and a breakpoint or a step stops a task in
//! front of each: each is an arrival. There may be a million. So a task that has arrived at one goes through
//! all rounds at once, to the instruction behind, where rcx says how many there were. If an arrival in
//! between is wanted, rcx is made so much smaller beforehand, and what was taken from it is put back when
//! those rounds are over.
//!
//! A pause may be in front of a round that is not the first: a tracer of the recorded program's steps it, or
//! stops it, in the middle of such an instruction. The debug register of a search stops a task in front of
//! the first round alone, so from there it makes as many rounds as are missing ([`Replica::go_to_look`]).

use std::ops::Range;

use bis_trace::{
    event::Pause,
    types::{Addr, Registers},
};
use bis_tracee::ticks::{self, RESUME_FLAG};

use super::Gone;
use crate::{
    error::Halt,
    host::Host,
    repeated::Repeated,
    replica::{Limit, Replica, Stop, Who},
    task::{Found, Place, Run, Task},
};

/// Such an instruction that a task is about to make rounds of.
struct Rounds {
    /// Where it is, and where the next one is.
    at: Addr,
    behind: Addr,
    repeated: Repeated,
    /// How many it is let make at most, and what was taken from rcx for that.
    most: u64,
    hidden: u64,
}

impl Rounds {
    /// What a stop comes to: the registers that the task has there, and how many rounds it has made.
    fn made(&self, regs: &Registers) -> (Registers, u64) {
        let made = self.most.saturating_sub(regs.rcx);
        let mut regs = Registers { rcx: regs.rcx.wrapping_add(self.hidden), ..*regs };
        let is_behind = regs.ip() == self.behind;
        if is_behind && self.hidden > 0 && made == self.most && self.repeated.goes_on(regs.eflags) {
            regs.rip = self.at.0;
        }
        (regs, made)
    }
}

impl Replica<'_> {
    /// The task has arrived at a place where only the rounds of a string instruction are counted: lets it
    /// make those. [`Found::Stepped`]: it stands somewhere else, and goes on. None: it cannot be done here,
    /// and each round is a stop.
    pub(super) fn pass_rounds(
        &mut self,
        task: &mut Task,
        (place, program, left): (Addr, Addr, Option<u64>),
        limit: &Limit<'_>,
    ) -> Result<Option<Place>, Halt> {
        let code = self.read_program(place, ticks::INSTRUCTION_LEN_MAX);
        let Some(repeated) = Repeated::of(64, &code).filter(|it| self.can_pass(place, *it)) else {
            return Ok(None);
        };
        let regs = task.regs()?;
        let rcx = regs.rcx;
        let most = left.map_or(rcx, |left| left.min(rcx)).min(self.unwatched_rounds(repeated, &regs));
        if most == 0 && rcx > 0 {
            return Ok(None);
        }
        let rounds = Rounds { at: place, behind: place + repeated.len, repeated, most, hidden: rcx - most };
        self.make_rounds(task, &rounds, Some(program), limit).map(Some)
    }

    /// Can a task make many rounds of this instruction at once?
    fn can_pass(&self, place: Addr, repeated: Repeated) -> bool {
        let behind = place.saturating_add(repeated.len);
        // Another moment is not to be missed.
        repeated.is_wide && !self.traps.has_moments() && self.space.places(behind) == [behind]
    }

    /// How many rounds touch no page that is watched, from these registers on: whoever watches pages looks at
    /// each round there.
    fn unwatched_rounds(&self, repeated: Repeated, regs: &Registers) -> u64 {
        if self.traps.areas.is_empty() {
            return u64::MAX;
        }
        let Some(guarded) = self.traps.areas.guarded_pages().filter(|_| repeated.is_flat) else { return 0 };
        guarded.map(|pages| repeated.rounds_before(regs, &pages)).min().unwrap_or(u64::MAX)
    }

    /// Lets the task make these rounds at once. `program`: its arrivals at them are counted here.
    fn make_rounds(
        &mut self,
        task: &mut Task,
        rounds: &Rounds,
        program: Option<Addr>,
        limit: &Limit<'_>,
    ) -> Result<Place, Halt> {
        let (place, behind, regs) = (rounds.at, rounds.behind, task.regs()?);
        let most = rounds.most;
        let memory = &self.space.memory;
        self.traps.lift(memory, place)?;
        self.traps.set_moment(memory, &[behind])?;
        // Last: where something fails, the program's own count is still in there.
        task.set_regs(&Registers { rcx: most, ..regs })?;
        let run = Run { interrupt: limit.interrupt, step: false, hooks: self.space.hooks };
        let stopped = task.run(memory, &mut self.traps, run);
        self.traps.set_moment(memory, &[])?;
        self.traps.put_back(memory, place);
        self.rounds_made(task, rounds, program, stopped?)
    }

    /// The task has stopped: it stands where it would have stood, and its arrivals are counted.
    fn rounds_made(
        &mut self,
        task: &mut Task,
        rounds: &Rounds,
        program: Option<Addr>,
        stopped: Place,
    ) -> Result<Place, Halt> {
        if stopped.found == Found::Dead {
            return Ok(stopped);
        }
        self.traps.look(&self.space.memory)?;
        let (regs, made) = rounds.made(&stopped.regs);
        if regs != stopped.regs {
            task.set_regs(&regs)?;
        }
        let is_there = regs.ip() == rounds.at;
        let found = match stopped.found {
            Found::Point(at) if at == rounds.behind => match is_there {
                true => Found::Point(rounds.at),
                // Nobody wants to know.
                false if self.traps.program_at(at).is_none() => Found::Stepped,
                false => stopped.found,
            },
            found => found,
        };
        // It had arrived for the first of them. Behind the last, it has not; and in front of another one only
        // when it stops there, or faults there.
        let faults = is_there && matches!(found, Found::Fault(_));
        if let Some(program) = program {
            self.traps.add_rounds(program, if faults { made } else { made.saturating_sub(1) });
        }
        if is_there && made == 0 && found == Found::Interrupted {
            task.told = Some(rounds.at);
            return Ok(Place { found, regs });
        }
        // Also where it stands there again, it is not where it was.
        self.traps.standing.take_if(|(tid, _)| *tid == task.ours);
        self.traps.last = Some((task.ours, rounds.at)).filter(|_| faults);
        self.traps.ran(task.ours, &Place { found, regs });
        Ok(Place { found, regs })
    }

    /// Does its driver hear of nothing while a task executes this text?
    fn is_alone(&self, task: &Task, text: Range<Addr>) -> bool {
        let traps = &self.traps;
        let is_stopped = traps.has_point_in(text.clone()) || traps.counts_in(&text);
        task.told.is_none() && !is_stopped && traps.watches().is_empty()
    }

    /// The instruction at a pause that is looked for, if it repeats itself.
    pub(crate) fn repeated_at(&self, pause: &Pause) -> Option<Repeated> {
        let code = self.traps.read(&self.space.memory, pause.regs.ip(), ticks::INSTRUCTION_LEN_MAX);
        Repeated::of(pause.regs.bits(), &code)
    }

    /// [`Replica::go`] for a search for a pause, with a breakpoint there. In front of an instruction that
    /// repeats itself, the task makes as many rounds as lead to the place, or one of them; where it stands
    /// then is told as a breakpoint.
    pub(crate) fn go_to_look(
        &mut self,
        task: &mut Task,
        who: Who,
        (pause, repeated): (&Pause, Option<Repeated>),
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Gone, Halt> {
        let regs = task.regs()?;
        let left = repeated.and_then(|it| Some((it, it.rounds_between(&regs, &pause.regs)?)));
        let Some((repeated, left)) = left.filter(|_| !limit.step) else {
            return self.go(task, who, host, limit);
        };
        let (at, behind) = (pause.regs.ip(), pause.regs.ip() + repeated.len);
        let place = if left > 1
            && self.is_alone(task, at..behind + 1)
            && self.can_pass(at, repeated)
            && left <= self.unwatched_rounds(repeated, &regs)
        {
            self.arm(task)?;
            let rounds = Rounds { at, behind, repeated, most: left, hidden: regs.rcx - left };
            self.make_rounds(task, &rounds, None, limit)?
        } else {
            match self.go(task, who, host, &Limit { step: true, ..*limit })? {
                Gone::Stopped(Stop::Stepped(_)) => Place { found: Found::Stepped, regs: task.regs()? },
                gone => return Ok(gone),
            }
        };
        match place.found {
            Found::Interrupted => return Ok(Gone::Stopped(Stop::Interrupted)),
            // It found what it looked for in a round before.
            Found::Stepped if place.regs.ip() != at => return self.go(task, who, host, limit),
            Found::Stepped | Found::Point(_) => {}
            _ => return Ok(Gone::Place(place)),
        }
        // The breakpoint is not to stop it where it stands.
        let regs = Registers { eflags: place.regs.eflags | RESUME_FLAG, ..place.regs };
        task.set_regs(&regs)?;
        Ok(Gone::Place(Place { found: Found::Breakpoint, regs }))
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{Addr, Registers};

    use super::{Repeated, Rounds};

    #[test]
    fn what_was_taken_from_the_count_is_put_back() {
        let of = |code: &[u8], eflags, rip, rcx| {
            let repeated = Repeated::of(64, code).unwrap();
            let rounds = Rounds { at: Addr(0x1000), behind: Addr(0x1002), repeated, most: 10, hidden: 5 };
            let (regs, made) = rounds.made(&Registers { rip, rcx, eflags, ..Registers::default() });
            (regs.rip, regs.rcx, made)
        };
        // All rounds were made: more are left. A fault, or somebody who interrupts it, in the middle.
        assert_eq!(of(&[0xf3, 0xa4], 0, 0x1002, 0), (0x1000, 5, 10));
        assert_eq!(of(&[0xf3, 0xa4], 0, 0x1000, 4), (0x1000, 9, 6));
        // repne scasb: found in the middle; found in the last round that it was let make; not yet found.
        assert_eq!(of(&[0xf2, 0xae], 0x40, 0x1002, 4), (0x1002, 9, 6));
        assert_eq!(of(&[0xf2, 0xae], 0x40, 0x1002, 0), (0x1002, 5, 10));
        assert_eq!(of(&[0xf2, 0xae], 0, 0x1002, 0), (0x1000, 5, 10));
    }
}
