//! Finding a place by its number, the counts of a tick source since the event before: the same for every
//! source.
//!
//! One that counts branches interrupts late by an unknown few, its skid; so it is asked to by as much
//! earlier, and from there a breakpoint at the place stops the task each time that it comes by, until the
//! count is right and registers and memory are, too. Between two conditional branches the task hardly comes
//! there twice; if it does, in a loop that has none, that comparison tells the two apart, or nothing can. A
//! task that has more counts than it should has missed its place, and is not let run on.
//!
//! The counts of dense text trap right behind themselves: that is the place, or the replay has diverged. The
//! replayed program executes the same text as the recorded one, at the same addresses: what its counts take
//! down, and where they trap, is all that there is to know of rewriting here.

use bis_rewrite::STATUS_FLAGS;
use bis_trace::{
    event::{EventKind, Pause, PausePlace},
    types::Registers,
};
use bis_tracee::place;

use crate::{
    divergence::{Leave, compare},
    error::Halt,
    going::{Going, Search},
    host::Host,
    ours::ProgramText,
    reach::{Gone, Reach},
    replica::{Limit, Mismatch, Replica, Stop, Who},
    seek::Seek,
    task::{Found, Hooked, Place, Task, found_text},
    traps::CountStop,
};

impl Replica<'_> {
    /// Lets the task run to where it was paused, `wanted` counts behind its previous event.
    pub(crate) fn reach_count(
        &mut self,
        task: &mut Task,
        who: Who,
        (pause, wanted): (&Pause, u64),
        going: &mut Going,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        let Some(skid) = task.skid() else {
            let what = "a place has a number, and the trace names no tick source".into();
            return Err(self.inconsistent(who.seq, what));
        };
        if self.is_dense() && wanted == 0 {
            return Err(self.inconsistent(who.seq, "a pause behind no count".into()));
        }
        let Going { hooked, search: Search::Count { is_near, is_asked, seek: slot } } = going else {
            return Err(self.inconsistent(who.seq, "a place is looked for in two ways".into()));
        };
        if !*is_near {
            let early = wanted.saturating_sub(skid);
            if early > 0
                && let Some(stop) =
                    self.come_near(task, who, (pause, wanted, early), is_asked, host, limit)?
            {
                return Ok(Reach::Stopped(stop));
            }
            *is_near = true;
            if self.is_dense()
                && let Some(stop) = self.leave_trap(task, who, pause, limit)?
            {
                return Ok(Reach::Stopped(stop));
            }
        }
        if slot.is_none() {
            if self.is_counted_place(task, pause, wanted, hooked.as_ref())? {
                return Ok(Reach::There);
            }
            if skid == 0 {
                let (found, regs) = (Found::Tick, task.regs()?);
                return Err(self.missed(task, who, pause, wanted, &Place { found, regs }));
            }
        }
        self.seek_count(task, who, (pause, wanted, hooked.as_ref()), slot, host, limit)
    }

    /// Lets the task run from a little before its place to that, by a breakpoint there.
    fn seek_count(
        &mut self,
        task: &mut Task,
        who: Who,
        (pause, wanted, hooked): (&Pause, u64, Option<&Hooked>),
        slot: &mut Option<Seek>,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        let seek = match slot.take() {
            Some(seek) => seek,
            None => {
                let seek = Seek::begin(task, pause, false, true)?;
                task.stop_at(&self.space.memory, Some(wanted + 1))?;
                seek
            }
        };
        let repeated = self.repeated_at(pause);
        let place = loop {
            let place = match self.go_to_look(task, who, (pause, repeated), host, limit)? {
                Gone::Place(place) => place,
                Gone::Stopped(stop) => {
                    *slot = Some(seek);
                    return Ok(Reach::Stopped(stop));
                }
            };
            if place.found != Found::Breakpoint || self.is_counted_place(task, pause, wanted, hooked)? {
                break place;
            }
        };
        seek.end(task, &self.space.memory, &place, &mut self.traps)?;
        if place.found == Found::Breakpoint {
            return Ok(Reach::There);
        }
        Err(self.missed(task, who, pause, wanted, &place))
    }

    /// Lets the task run to `early` counts, up to where it can be stopped exactly; or to a stop before.
    fn come_near(
        &mut self,
        task: &mut Task,
        who: Who,
        (pause, wanted, early): (&Pause, u64, u64),
        is_asked: &mut bool,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Option<Stop>, Halt> {
        if !std::mem::replace(is_asked, true) {
            let first = self.traps.count.map_or(early, |driver| driver.at.min(early));
            task.stop_at(&self.space.memory, Some(first))?;
        }
        let place = loop {
            match self.go(task, who, host, limit)? {
                Gone::Place(place) => break place,
                // The count's trap is a part of the instruction that is counted.
                Gone::Stopped(Stop::Stepped(_) | Stop::Moment(_))
                    if self.is_dense()
                        && task.regs()?.rip.wrapping_add(1) == pause.trap
                        && task.count(&self.space.memory)? == Some(wanted) => {}
                Gone::Stopped(stop) => return Ok(Some(stop)),
            }
        };
        self.must_be_near(task, who, pause, wanted, &place)?;
        Ok(None)
    }

    /// In text that counts, the task stands behind the count's trap, which the program does not have: it is
    /// put to where it stands in its own text. A stop: its driver wants to hear of that place.
    fn leave_trap(
        &mut self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        limit: &Limit<'_>,
    ) -> Result<Option<Stop>, Halt> {
        task.set_regs(&behind_count(&task.regs()?, &pause.regs))?;
        if limit.step && self.is_attended {
            return Ok(Some(Stop::Stepped(who.tid)));
        }
        Ok(self.traps.has_moments().then_some(Stop::Moment(who.tid)))
    }

    /// How often the text of the next event's task has counted since its last event. None: its text does not.
    ///
    /// # Errors
    /// As [`Replica::next_event`].
    pub fn counts(&mut self) -> Result<Option<u64>, Halt> {
        let Some((tid, _)) = self.next_task()? else { return Ok(None) };
        if !self.is_dense() || !self.space.text.as_ref().is_some_and(ProgramText::counts) {
            return Ok(None);
        }
        if self.is_at_event() {
            return Ok(Some(0));
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(None) };
        Ok(task.count(&self.space.memory)?)
    }

    /// On its way to the next event, the task stops once behind so many counts, more than it has now and less
    /// than it will have there: [`Stop::Interrupted`].
    ///
    /// # Errors
    /// As [`Replica::next_event`].
    pub fn stop_at_count(&mut self, at: u64) -> Result<(), Halt> {
        let then = match self.next_event()?.map(|event| &event.kind) {
            Some(EventKind::Pause(pause)) => match pause.place {
                PausePlace::Count(count) => Some(count),
                PausePlace::State => None,
            },
            _ => None,
        };
        self.traps.count = Some(CountStop { at, then });
        if !self.is_at_event()
            && let Some((tid, _)) = self.next_task()?
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            task.stop_at(&self.space.memory, Some(at))?;
        }
        Ok(())
    }

    /// The task has been stopped by a count's trap: was that for the driver? Then it stands where it goes on.
    pub(crate) fn leave_count(&mut self, task: &mut Task, who: Who) -> Result<bool, Halt> {
        let count = task.count(&self.space.memory)?;
        let Some(wanted) = self.traps.count.take_if(|wanted| Some(wanted.at) == count) else {
            return Ok(false);
        };
        let regs = task.regs()?;
        let behind = self.space.text.as_ref().and_then(|text| text.behind_trap(regs.ip() - 1));
        let Some((goes_on, are_lost)) = behind else {
            return Err(self.inconsistent(who.seq, format!("a count without a trap at {:#x}", regs.rip)));
        };
        let eflags = if are_lost { regs.eflags & !STATUS_FLAGS } else { regs.eflags };
        task.set_regs(&Registers { rip: goes_on.0, eflags, ..regs })?;
        task.stop_at(&self.space.memory, wanted.then)?;
        // Where it stands, it is not where it was, even if it has been there before.
        self.traps.standing.take_if(|(tid, _)| *tid == task.ours);
        self.traps.last = None;
        Ok(true)
    }

    /// The count is right: is all else, too?
    fn is_counted_place(
        &self,
        task: &mut Task,
        pause: &Pause,
        wanted: u64,
        hooked: Option<&Hooked>,
    ) -> Result<bool, Halt> {
        let memory = &self.space.memory;
        let (count, regs) = (task.count(memory)?, task.regs()?);
        if count != Some(wanted) || !compare(&pause.regs, &regs, Leave::OrigRax).is_empty() {
            tracing::trace!(count, wanted, "not the place");
            return Ok(false);
        }
        // What the task works with may be text in which the driver has breakpoints.
        let read = |addr, len| self.traps.read(memory, addr, len);
        let word = place::first_difference(read, &pause.held);
        let other = place::first_other(read, &pause.seen);
        let extended = task.extended()? == pause.extended;
        let log = self.log_is_used(hooked)?;
        tracing::debug!(?word, ?other, extended, log, "the place with its count and registers");
        Ok(word.is_none() && other.is_none() && extended && log)
    }

    /// The task was to be stopped a little before the place.
    fn must_be_near(
        &self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        wanted: u64,
        place: &Place,
    ) -> Result<(), Halt> {
        let is_elsewhere = self.is_dense() && pause.trap != 0 && pause.trap != place.regs.rip;
        if place.found == Found::Tick
            && !is_elsewhere
            && task.count(&self.space.memory)?.is_some_and(|count| count <= wanted)
        {
            return Ok(());
        }
        Err(self.missed(task, who, pause, wanted, place))
    }

    /// The task has come past its place, or to something else before.
    fn missed(&self, task: &mut Task, who: Who, pause: &Pause, wanted: u64, place: &Place) -> Halt {
        if place.found == Found::Dead {
            return self.elsewhere(task, who, expected(pause, wanted), place, &pause.regs, Leave::OrigRax);
        }
        let count = match task.count(&self.space.memory) {
            Ok(count) => count.unwrap_or(0),
            Err(error) => return error.into(),
        };
        let found = format!("{} after {count} counts", found_text(place));
        let mismatch = Mismatch::new(expected(pause, wanted), found, place.regs);
        let registers = compare(&pause.regs, &place.regs, Leave::OrigRax);
        self.diverged(task, who, Mismatch { registers, ..mismatch })
    }
}

/// The registers of a task that has been stopped by a count's trap, as the program has them behind the count:
/// it goes on elsewhere, and where nobody looks at the flags, they are those of a count that has not trapped.
fn behind_count(found: &Registers, wanted: &Registers) -> Registers {
    let differ = found.eflags ^ wanted.eflags;
    let are_lost = differ & !STATUS_FLAGS == 0 && wanted.eflags & STATUS_FLAGS == 0;
    let eflags = if are_lost { wanted.eflags } else { found.eflags };
    Registers { rip: wanted.rip, eflags, ..*found }
}

fn expected(pause: &Pause, wanted: u64) -> String {
    let trap = if pause.trap == 0 { String::new() } else { format!(", with its trap at {:#x}", pause.trap) };
    format!("a pause in the middle of computation at {:#x} after {wanted} counts{trap}", pause.regs.rip)
}
