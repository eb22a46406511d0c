//! How a task gets to a pause that is known by its state: the first place with the registers and the memory
//! that were recorded.

use std::time::Duration;

use bis_trace::{
    event::Pause,
    types::{Registers, TickKind},
};
use bis_tracee::place::{self, Other};

use super::{Gone, Reach};
use crate::{
    divergence::{Leave, compare},
    error::Halt,
    going::{Going, InVain, Search},
    host::Host,
    learnt::How,
    repeated::Repeated,
    replica::{Ahead, Limit, Mismatch, Replica, Stop, Who},
    seek::Seek,
    task::{Found, Hooked, Interrupt, Place, Task},
};

/// A pause that is looked for by its state, and what the search has come to so far.
struct Wanted<'a> {
    who: Who,
    pause: &'a Pause,
    /// What the way took when it was recorded, where the trace says it.
    recorded: Option<Duration>,
    /// The instruction there, if it repeats itself.
    repeated: Option<Repeated>,
    /// The log that is consumed at the place.
    hooked: Option<&'a Hooked>,
    /// As in [`How::loose`](crate::learnt::How::loose).
    loose: bool,
    skips: &'a mut u32,
    passed: &'a mut u64,
    stops: &'a mut u64,
    looked_at: &'a mut Option<Box<Registers>>,
    in_vain: &'a mut InVain,
    /// What was different there the last time, for a report.
    differed: Option<String>,
}

/// What a search for a pause has come to.
enum Sought {
    Found(Place),
    Missed(Place),
    Stopped(Stop),
}

/// What a stop on the way is to a search for a pause.
enum Looked {
    Ended(Sought),
    /// A fault that the search itself has brought about.
    Forgiven,
    /// It is not the place; there the task had these registers.
    Passed(Registers),
}

/// What a report says of a pause that was looked for in vain. `passed`: how often the task was at its place
/// in another state.
fn expected_pause(pause: &Pause, passed: u64) -> String {
    format!(
        "a pause in the middle of computation at {:#x}, where it was {passed} times with other memory or registers",
        pause.regs.rip
    )
}

impl Replica<'_> {
    /// Lets the task run to where it was interrupted in the middle of its computation: the first place with
    /// the state that was recorded, after all hooked calls of its log.
    pub(super) fn reach_pause(
        &mut self,
        task: &mut Task,
        who: Who,
        (pause, recorded): (&Pause, Option<Duration>),
        going: &mut Going,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        let how = host.how(who.seq);
        let Going { hooked, search: Search::State { seek: slot, skips, passed, stops, looked_at, in_vain } } =
            going
        else {
            return Err(self.inconsistent(who.seq, "a place is looked for in two ways".into()));
        };
        // Places that are to be skipped must be counted from the begin.
        if limit.ahead == Ahead::Place && how.skips == 0 {
            if slot.take().is_some() {
                Seek::put_off(task);
                host.end_pause(self.entry.domain);
            }
            return self.go_unsought(task, who, pause, host, limit);
        }
        if limit.gives_up {
            let expected = expected_pause(pause, *passed);
            return Err(self.given_up(task, who, pause, expected, slot.take())?);
        }
        // Nobody who looks for the pause has counts at its place; they would hide it. Others, whose text is
        // behind it, were promised that they stay.
        let place = pause.regs.ip();
        if self.traps.counts_in(&(place..place.saturating_add(1))) {
            self.end_counts_with(task)?;
        }
        let mut wanted = Wanted {
            who,
            pause,
            recorded,
            repeated: self.repeated_at(pause),
            hooked: hooked.as_ref(),
            loose: how.loose,
            skips,
            passed,
            stops,
            looked_at,
            in_vain,
            differed: None,
        };
        self.search_pause(task, &mut wanted, slot, how, host, limit)
    }

    /// Looks for the pause, or goes on with that.
    fn search_pause(
        &mut self,
        task: &mut Task,
        wanted: &mut Wanted<'_>,
        slot: &mut Option<Seek>,
        how: How,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        let is_there = slot.is_none() && {
            host.begin_pause(self.entry.domain, wanted.who.seq);
            *wanted.skips = how.skips;
            self.stands_there(task, wanted)?
        };
        let seek = match is_there {
            true => None,
            false => {
                let may_jump = !how.no_jump && self.may_jump(wanted);
                self.begin_seek(task, wanted, slot.take(), may_jump)?
            }
        };
        let Some(mut seek) = seek else {
            host.end_pause(self.entry.domain);
            return Ok(Reach::There);
        };
        let sought = self.seek_pause(task, wanted, &mut seek, host, limit)?;
        // Text is not protected any more for the sake of the search.
        self.traps.areas.forget_mappings();
        if matches!(sought, Sought::Found(_)) {
            host.end_pause(self.entry.domain);
        }
        self.end_search(task, wanted, seek, sought, slot)
    }

    /// Is the task at the place before any search has begun?
    fn stands_there(&self, task: &mut Task, wanted: &mut Wanted<'_>) -> Result<bool, Halt> {
        let regs = task.regs()?;
        let is_there = self.compare_place(task, wanted, &regs)?;
        if !is_there {
            *wanted.looked_at = Some(Box::new(regs));
        }
        Ok(is_there)
    }

    /// May a jump take the task to the code that looks for the place? Else a debug register stops it there.
    fn may_jump(&self, wanted: &Wanted<'_>) -> bool {
        // A source that steps needs a debug register, too.
        let is_room = self.traps.watches().is_empty() || self.world.ticks.kind() != TickKind::Stepping;
        // A jump would see a task in front of the first round alone.
        is_room && wanted.repeated.is_none()
    }

    /// What a search has come to. Where it is to go on later, it is left in `slot`.
    fn end_search(
        &mut self,
        task: &mut Task,
        wanted: &Wanted<'_>,
        mut seek: Seek,
        sought: Sought,
        slot: &mut Option<Seek>,
    ) -> Result<Reach, Halt> {
        let (who, pause) = (wanted.who, wanted.pause);
        match sought {
            Sought::Found(place) => {
                seek.end(task, &self.space.memory, &place, &mut self.traps)?;
                Ok(Reach::There)
            }
            Sought::Missed(place) => {
                seek.end(task, &self.space.memory, &place, &mut self.traps)?;
                let differed = wanted.differed.as_ref().map(|what| format!(" (at last: {what})"));
                let expected = expected_pause(pause, *wanted.passed) + &differed.unwrap_or_default();
                Err(self.elsewhere(task, who, expected, &place, &pause.regs, Leave::OrigRax))
            }
            Sought::Stopped(stop) => {
                seek.stand_aside(task, &self.space.memory, pause, &mut self.traps)?;
                *slot = Some(seek);
                Ok(Reach::Stopped(stop))
            }
        }
    }

    /// Nobody wants to look for the pause any longer: what there is to say of that.
    fn given_up(
        &mut self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        expected: String,
        seek: Option<Seek>,
    ) -> Result<Halt, Halt> {
        let place = Place { found: Found::Interrupted, regs: task.regs()? };
        if let Some(seek) = seek {
            seek.end(task, &self.space.memory, &place, &mut self.traps)?;
        }
        let found = format!("a computation that goes on and on, now at {:#x}", place.regs.rip);
        let mut mismatch = Mismatch::new(expected, found, place.regs);
        mismatch.registers = compare(&pause.regs, &place.regs, Leave::OrigRax);
        Ok(self.diverged(task, who, mismatch))
    }

    /// Lets the task go on to a stop of its driver's, which comes before the pause.
    fn go_unsought(
        &mut self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        match self.go(task, who, host, limit)? {
            Gone::Stopped(stop) => Ok(Reach::Stopped(stop)),
            Gone::Place(place) => {
                let expected = format!("a place in front of a pause at {:#x}", pause.regs.rip);
                Err(self.elsewhere(task, who, expected, &place, &pause.regs, Leave::OrigRax))
            }
        }
    }

    /// A search, begun, or taken up where its driver has stopped the task for something else; none: the task
    /// stands at the very place, where the search has ended.
    fn begin_seek(
        &mut self,
        task: &mut Task,
        wanted: &mut Wanted<'_>,
        underway: Option<Seek>,
        may_jump: bool,
    ) -> Result<Option<Seek>, Halt> {
        let pause = wanted.pause;
        let Some(seek) = underway else { return Ok(Some(Seek::begin(task, pause, may_jump, true)?)) };
        // Stopped on its way, it may have come to the very place; from there it may be led on by a jump of
        // ours, past the breakpoint.
        let regs = task.regs()?;
        let is_new = |at: &Registers| !compare(at, &regs, Leave::OrigRax).is_empty();
        if regs.rip != pause.regs.rip || !wanted.looked_at.as_deref().is_none_or(is_new) {
            return Ok(Some(seek));
        }
        if self.compare_place(task, wanted, &regs)? {
            let place = Place { found: Found::Breakpoint, regs };
            seek.end(task, &self.space.memory, &place, &mut self.traps)?;
            return Ok(None);
        }
        *wanted.passed += 1;
        *wanted.looked_at = Some(Box::new(regs));
        Ok(Some(Seek::begin(task, pause, may_jump, true)?))
    }

    fn seek_pause(
        &mut self,
        task: &mut Task,
        wanted: &mut Wanted<'_>,
        seek: &mut Seek,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Sought, Halt> {
        let (who, pause, repeated) = (wanted.who, wanted.pause, wanted.repeated);
        if limit.step {
            seek.stand_aside(task, &self.space.memory, pause, &mut self.traps)?;
        }
        // The driver wants it to stop, and it stands in the code that looks whether it is there.
        let mut leaving = None;
        let mut last = None;
        loop {
            let gone = match leaving {
                None => self.go_to_look(task, who, (pause, repeated), host, limit)?,
                Some(_) => self.go(task, who, host, &Limit { step: true, ..Limit::default() })?,
            };
            let place = match (gone, leaving.take()) {
                (Gone::Stopped(stop), left) => {
                    // A breakpoint that it has come to is counted, and must be told of; a caller that asked,
                    // still asks.
                    let is_counted = matches!(stop, Stop::Point(..) | Stop::Watched(..));
                    let stop = left.filter(|_| !is_counted).unwrap_or(stop);
                    if seek.is_looking(task.regs()?.ip()) {
                        leaving = Some(stop);
                        continue;
                    }
                    if let Some(last) = last {
                        *wanted.looked_at = Some(Box::new(last));
                    }
                    return Ok(Sought::Stopped(stop));
                }
                (Gone::Place(place), left) => {
                    leaving = left;
                    place
                }
            };
            match self.look_at(task, wanted, seek, place)? {
                Looked::Ended(sought) => return Ok(sought),
                Looked::Forgiven => {}
                Looked::Passed(regs) => {
                    last = Some(regs);
                    if leaving.is_none() && limit.interrupt.is_some_and(Interrupt::is_asked) {
                        leaving = Some(Stop::Interrupted);
                    }
                }
            }
        }
    }

    /// What a stop on the way is to a search.
    fn look_at(
        &mut self,
        task: &mut Task,
        wanted: &mut Wanted<'_>,
        seek: &mut Seek,
        place: Place,
    ) -> Result<Looked, Halt> {
        let (pause, memory) = (wanted.pause, &self.space.memory);
        *wanted.stops += 1;
        if let Found::Fault(info) = place.found
            && seek.forgive(task, memory, pause, (info, &place.regs), &mut self.traps)?
        {
            self.traps.areas.forget_mappings();
            return Ok(Looked::Forgiven);
        }
        if place.found == Found::TooManyFaults {
            seek.give_up_jump(task, memory, pause, &mut self.traps)?;
            self.traps.areas.forget_mappings();
            return Ok(Looked::Forgiven);
        }
        if place.found == Found::Seen {
            return Err(Halt::Seen(wanted.who.seq));
        }
        if place.found != Found::Breakpoint {
            return Ok(Looked::Ended(Sought::Missed(place)));
        }
        let regs = seek.true_registers(memory, place.regs)?;
        if self.compare_place(task, wanted, &regs)? {
            task.set_regs(&regs)?;
            return Ok(Looked::Ended(Sought::Found(place)));
        }
        *wanted.passed += 1;
        if wanted.in_vain.look_at_clock(wanted.recorded) {
            return Ok(Looked::Ended(Sought::Missed(place)));
        }
        seek.pass(task, &self.space.memory, (pause, wanted.loose), &mut self.traps)?;
        self.traps.areas.forget_mappings();
        Ok(Looked::Passed(regs))
    }

    /// Is it the place, and not one of those that only look so? What differs is noted in `wanted`.
    fn compare_place(
        &self,
        task: &mut Task,
        wanted: &mut Wanted<'_>,
        regs: &Registers,
    ) -> Result<bool, Halt> {
        let Wanted { who, pause, .. } = *wanted;
        let memory = &self.space.memory;
        let registers = compare(&pause.regs, regs, Leave::OrigRax);
        if let Some(first) = registers.first() {
            let what = format!("{} was {:#x}, not {:#x}", first.name, first.found, first.expected);
            tracing::debug!(event = %who.seq, what, "the place with other registers");
            wanted.differed = Some(what);
            return Ok(false);
        }
        if who.ticks.is_some() && task.count(memory)? != who.ticks {
            wanted.differed = Some("its count".into());
            return Ok(false);
        }
        // What the task works with may be text in which the driver has breakpoints.
        let read = |addr, len| self.traps.read(memory, addr, len);
        let held = pause.held.iter();
        let held = held.filter(|piece| !(wanted.loose && place::is_left(piece, pause.regs.sp())));
        let word = place::first_difference(read, held);
        let other = if wanted.loose { None } else { place::first_other(read, &pause.seen) };
        if word.is_some() || other.is_some() {
            let now = word.map(|(at, _)| read(at, size_of::<u64>()));
            tracing::debug!(event = %who.seq, ?word, ?now, ?other, "the memory is not as it was");
        }
        let now = task.extended()?;
        let extended = place::is_same_extended(&now, &pause.extended, wanted.loose);
        let log = self.log_is_used(wanted.hooked)?;
        let is_left = |other: &Other| other.range.addr.saturating_add(other.range.len) == pause.regs.sp();
        // What there are sums of is compared in order, and this comes last.
        let is_only_left = word.is_none() && extended && log && other.as_ref().is_some_and(is_left);
        let other = other.filter(|_| !(is_only_left && wanted.in_vain.count_left()));
        let same_memory = word.is_none() && other.is_none();
        tracing::debug!(event = %who.seq, same_memory, extended, log, "the place with its registers");
        wanted.in_vain.count(other.filter(|_| word.is_none() && extended && log).map(|other| other.now));
        if !(same_memory && extended && log) {
            wanted.differed = Some(match (word, other) {
                (Some((at, value)), _) => format!("the memory at {at:#x} was not {value:#x}"),
                (None, Some(other)) => format!("memory within {:?}", other.range),
                (None, None) if !extended => {
                    let longest = now.len().max(pause.extended.len());
                    let at = (0..longest).find(|at| now.get(*at) != pause.extended.get(*at)).unwrap_or(0);
                    let byte = |of: &[u8]| of.get(at).copied().unwrap_or(0);
                    let (now, was) = (byte(&now), byte(&pause.extended));
                    format!(
                        "floating-point or vector registers: byte {at} of the xsave area was {now:#x}, not {was:#x}"
                    )
                }
                (None, None) => "the log of hooked calls was not used up".into(),
            });
            return Ok(false);
        }
        if *wanted.skips > 0 {
            *wanted.skips -= 1;
            return Ok(false);
        }
        Ok(true)
    }
}
