//! How a task gets to where an event was recorded: to a system call, to an instruction that traps, to a
//! signal, to a place in the middle of its computation; and the check that it has come there and nowhere
//! else.

use std::{ops::Range, time::Instant};

use bis_agent::hooks::{SAFEPOINT, entries};
use bis_trace::{
    event::{Event, EventKind, Insn, Pause, PausePlace, SignalEvent, SignalPoint},
    types::{Addr, Registers, Signal, Tid},
};
use bis_tracee::{
    TraceeError,
    maps::{self, Mapping},
    place,
};

use crate::{
    counted::Counted,
    divergence::{Brief, Leave, call_name, compare},
    error::Halt,
    host::Host,
    replica::{Limit, Mismatch, Replica, Stop, Who},
    seek::Seek,
    task::{Found, Hooked, Interrupt, Place, Run, Task, fault_text, info_of},
};

/// What a task on its way to an event's place has with it.
#[derive(Clone, Debug)]
pub(crate) struct Going {
    /// The log that its hooks have to consume on the way.
    pub hooked: Option<Hooked>,
    pub search: Search,
}

/// A pause that is looked for by its state, and what the search has come to so far.
struct Wanted<'a> {
    who: Who,
    pause: &'a Pause,
    /// The log that is consumed at the place.
    hooked: Option<&'a Hooked>,
    /// As in [`How::loose`](crate::learnt::How::loose).
    loose: bool,
    skips: &'a mut u32,
    passed: &'a mut u64,
    looked_at: &'a mut Option<Box<Registers>>,
    in_vain: &'a mut InVain,
}

/// How the place is found.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// It stops by itself there.
    None,
    /// By its state.
    State {
        /// Set when the search has begun.
        seek: Option<Seek>,
        /// Places that fit, and are not it.
        skips: u32,
        /// How often it was there in another state, for a report.
        passed: u64,
        /// In which state it was there last.
        looked_at: Option<Box<Registers>>,
        in_vain: InVain,
    },
    /// By its count.
    Count {
        /// It has as many counts as it can be stopped at exactly.
        is_near: bool,
        /// It was asked to stop. Asked again between a count and its trap, it would not know the trap.
        is_asked: bool,
        seek: Option<Seek>,
    },
}

/// Arrivals one after another at a place where all is right but memory that only a sum is known of, and that
/// is the same each time: something on the stack that does not repeat (what an xsave left), and would be
/// looked for for ever.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InVain {
    sum: u64,
    times: u32,
}

impl InVain {
    /// So many do not come about by a program that waits for that memory to change: seconds of them.
    const TIMES_MAX: u32 = 20_000;

    /// It was there again; `sum`, if nothing else was wrong.
    fn count(&mut self, sum: Option<u64>) {
        match sum {
            Some(sum) if sum == self.sum => self.times += 1,
            sum => *self = InVain { sum: sum.unwrap_or(0), times: 0 },
        }
    }

    fn is_for_ever(self) -> bool {
        self.times >= Self::TIMES_MAX
    }
}

/// What letting a task go on has come to.
pub(crate) enum Reach {
    /// It is at the place of its event.
    There,
    /// It was stopped before.
    Stopped(Stop),
}

/// The same, before anybody has looked whether it is the place.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Gone {
    Place(Place),
    Stopped(Stop),
}

fn call_text(nr: u64, rip: Addr) -> String {
    format!("{} at {rip:#x}", call_name(nr))
}

pub(crate) fn found_text(place: &Place) -> String {
    match &place.found {
        Found::Call => call_text(place.regs.orig_rax, place.regs.ip()),
        Found::Fault(info) => fault_text(info.signal(), info, place.regs.ip()),
        Found::Safepoint => "a stop after the last hooked call".into(),
        Found::Breakpoint => format!("a breakpoint at {:#x}", place.regs.rip),
        Found::Tick => format!("a count at {:#x}", place.regs.rip),
        Found::Seen => format!("a look at its own text at {:#x}", place.regs.rip),
        Found::OtherCall => "a hooked call that is not the one in the log".into(),
        Found::Dead => "the task was killed".into(),
        Found::Point(_) | Found::Watched(_) | Found::Guarded(_) | Found::Stepped | Found::Interrupted => {
            format!("a stop for a debugger at {:#x}", place.regs.rip)
        }
    }
}

impl Replica<'_> {
    /// The task is about to leave for its next event. None: that needs nothing of it.
    pub(crate) fn set_out(&self, task: &mut Task, who: Who, kind: &EventKind) -> Result<Option<Going>, Halt> {
        let (end_stop, search) = match kind {
            EventKind::Syscall { nr, .. } | EventKind::SyscallEnter { nr, .. } => {
                (*nr == SAFEPOINT, Search::None)
            }
            EventKind::Instruction { .. } => (false, Search::None),
            EventKind::Pause(pause) => (
                false,
                match pause.place {
                    PausePlace::State => Search::State {
                        seek: None,
                        skips: 0,
                        passed: 0,
                        looked_at: None,
                        in_vain: InVain::default(),
                    },
                    PausePlace::Count(_) => Search::Count { is_near: false, is_asked: false, seek: None },
                },
            ),
            EventKind::Signal(event) => match event.point {
                SignalPoint::Fault | SignalPoint::BeforeSyscall => (false, Search::None),
                SignalPoint::AfterHook => (true, Search::None),
                SignalPoint::AfterEvent => {
                    return Ok(Some(Going { hooked: None, search: Search::None }));
                }
                SignalPoint::Anywhere => return Ok(None),
            },
            _ => return Ok(None),
        };
        if let (Some(nr), Search::None) = (task.in_call, &search) {
            let what = format!("task {} runs on although {} did not return", who.tid, call_name(nr));
            return Err(self.inconsistent(who.seq, what));
        }
        let hooked = self.begin_log(task, who, end_stop)?;
        Ok(Some(Going { hooked, search }))
    }

    /// Lets the task go on to the event's place.
    pub(crate) fn reach(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &Event,
        going: &mut Going,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        match &event.kind {
            EventKind::Pause(pause) => match pause.place {
                PausePlace::Count(count) => self.reach_count(task, who, (pause, count), going, host, limit),
                PausePlace::State => self.reach_pause(task, who, pause, going, host, limit),
            },
            EventKind::Signal(signal) if signal.point == SignalPoint::AfterEvent => {
                let (regs, expected) = (task.regs()?, signal_text(signal));
                self.must_equal(task, who, expected, &signal.before, &regs, Leave::OrigRax)?;
                Ok(Reach::There)
            }
            kind => {
                let place = match self.go(task, who, host, limit)? {
                    Gone::Place(place) => place,
                    Gone::Stopped(stop) => return Ok(Reach::Stopped(stop)),
                };
                if place.found != Found::Dead {
                    self.check_log(task, who, going.hooked.as_ref(), &place)?;
                }
                match kind {
                    EventKind::Syscall { nr, entry, .. } | EventKind::SyscallEnter { nr, entry } => {
                        self.must_be_call(task, who, *nr, entry, &place)?;
                    }
                    EventKind::Instruction { insn, before, .. } => {
                        self.must_be_instruction(task, who, *insn, before, &place)?;
                    }
                    EventKind::Signal(signal) => self.must_be_signal(task, who, signal, place)?,
                    _ => return Err(self.inconsistent(who.seq, "nothing runs to such an event".into())),
                }
                Ok(Reach::There)
            }
        }
    }

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
        let mut rip = task.regs()?.ip();
        let led = self.led_to(rip);
        if led != rip {
            // To execute our jump is to go there.
            task.set_regs(&Registers { rip: led.0, ..task.regs()? })?;
            rip = led;
        }
        let told = task.told.take().filter(|told| *told == rip && self.traps.program_at(*told).is_some());
        let mut lifted = told;
        // Where the program counts by itself, it goes on behind that; and in the copies of what has given
        // way.
        let past = told.and_then(|told| {
            self.traps.counted().iter().find(|counted| counted.place == told).and_then(Counted::past)
        });
        let inside = || self.traps.counted().iter().find_map(|counted| counted.inside(rip.0));
        if past.is_some() {
            lifted = None;
        }
        if let Some(rip) = past.or_else(inside) {
            task.set_regs(&Registers { rip, ..task.regs()? })?;
        }
        let (ours, guarded) = (task.ours, task.guarded.clone());
        self.traps.arm(&self.space.memory, || mappings_of_program(ours, &guarded))?;
        if let Some(addr) = lifted {
            self.traps.lift(&self.space.memory, addr)?;
        }
        let hooks = self.space.hooks;
        loop {
            let run = Run { interrupt: limit.interrupt, step: limit.step || lifted.is_some(), hooks };
            let begin = Instant::now();
            let mut place = task.run(&self.space.memory, &mut self.traps, run)?;
            self.traps.add_time(begin.elapsed());
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
            let is_interrupted = place.found == Found::Interrupted;
            if is_interrupted && lifted.is_some() {
                // It was to execute one instruction, and has not: a trap behind that would have come first.
                task.told = lifted;
            } else {
                self.traps.ran(task.ours, &place);
            }
            if let Some(addr) = lifted.take() {
                self.traps.put_back(&self.space.memory, addr);
            }
            return Ok(match place.found {
                Found::Point(place) => Gone::Stopped(
                    match self.traps.program_at(place).filter(|_| !self.traps.is_moment(place)) {
                        Some(program) => Stop::Point(who.tid, program),
                        None => Stop::Moment(who.tid),
                    },
                ),
                Found::Watched(triggered) => {
                    let touched = self.traps.take_touched(task.own_watches.len(), triggered);
                    Gone::Stopped(Stop::Watched(who.tid, touched))
                }
                Found::Stepped if limit.step => Gone::Stopped(Stop::Stepped(who.tid)),
                // Past a breakpoint.
                Found::Stepped => continue,
                Found::Interrupted => Gone::Stopped(Stop::Interrupted),
                Found::Dead if host.is_cancelled() => return Err(Halt::Cancelled),
                _ => Gone::Place(place),
            });
        }
    }

    /// Puts the hooked calls that come before the task's next event where the hooks find them.
    fn begin_log(&self, task: &mut Task, who: Who, end_stop: bool) -> Result<Option<Hooked>, Halt> {
        let hooked = task.hooked.take();
        if let Some(hooked) = &hooked {
            self.space.put_log(hooked, end_stop).map_err(|error| {
                let what = format!("put {:#x} bytes of hooked calls where they belong", hooked.log.len());
                self.effect_failed(who.seq, what, error)
            })?;
            task.begin_log(hooked);
        }
        Ok(hooked)
    }

    /// Have the hooks consumed all of the log?
    fn check_log(&self, task: &Task, who: Who, hooked: Option<&Hooked>, place: &Place) -> Result<(), Halt> {
        let Some(hooked) = hooked else { return Ok(()) };
        let used = usize::try_from(self.space.log_used()?).unwrap_or(usize::MAX);
        if used == hooked.log.len() {
            return Ok(());
        }
        let next = entries(hooked.log.get(used..).unwrap_or_default()).next();
        let expected = match next {
            Some(entry) => format!("{} in its hook", call_name(entry.nr.into())),
            None => "the end of the log of hooked calls".into(),
        };
        Err(self.diverged(task, who, Mismatch::new(expected, found_text(place), place.regs)))
    }

    /// Is the log used up?
    pub(crate) fn log_is_used(&self, hooked: Option<&Hooked>) -> Result<bool, Halt> {
        Ok(match hooked {
            None => true,
            Some(hooked) => self.space.log_used()? == hooked.log.len() as u64,
        })
    }

    /// Lets the task run to where it was interrupted in the middle of its computation: the first place with
    /// the state that was recorded, after all hooked calls of its log.
    fn reach_pause(
        &mut self,
        task: &mut Task,
        who: Who,
        pause: &Pause,
        going: &mut Going,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        let how = host.how(who.seq);
        let Going { hooked, search: Search::State { seek: slot, skips, passed, looked_at, in_vain } } = going
        else {
            return Err(self.inconsistent(who.seq, "a place is looked for in two ways".into()));
        };
        let (hooked, loose) = (hooked.as_ref(), how.loose);
        let mut wanted = Wanted { who, pause, hooked, loose, skips, passed, looked_at, in_vain };
        if slot.is_none() {
            host.begin_pause(self.entry.domain, who.seq);
            *wanted.skips = how.skips;
            let regs = task.regs()?;
            if self.is_wanted(task, &mut wanted, &regs)? {
                host.end_pause(self.entry.domain);
                return Ok(Reach::There);
            }
            *wanted.looked_at = Some(Box::new(regs));
        }
        let mut seek = match slot.take() {
            Some(seek) => {
                // Stopped on its way by something else, it may have come to the very place; from there it may
                // be led on by a jump of ours, past the breakpoint.
                let regs = task.regs()?;
                let is_new = |at: &Registers| !compare(at, &regs, Leave::OrigRax).is_empty();
                if regs.rip == pause.regs.rip && wanted.looked_at.as_deref().is_none_or(is_new) {
                    if self.is_wanted(task, &mut wanted, &regs)? {
                        let place = Place { found: Found::Breakpoint, regs };
                        seek.end(task, &self.space.memory, &place)?;
                        host.end_pause(self.entry.domain);
                        return Ok(Reach::There);
                    }
                    *wanted.passed += 1;
                    *wanted.looked_at = Some(Box::new(regs));
                    Seek::begin(task, pause, !how.no_jump, true)?
                } else {
                    seek
                }
            }
            None => Seek::begin(task, pause, !how.no_jump, true)?,
        };
        let reached = self.seek_pause(task, &mut wanted, &mut seek, host, limit)?;
        // Text is not protected any more for the sake of the search.
        self.traps.areas.forget_mappings();
        match reached {
            Sought::Found(place) => {
                seek.end(task, &self.space.memory, &place)?;
                host.end_pause(self.entry.domain);
                Ok(Reach::There)
            }
            Sought::Missed(place) => {
                seek.end(task, &self.space.memory, &place)?;
                let expected = format!(
                    "a pause in the middle of computation at {:#x}, where it was {passed} times with other memory or \
                     registers",
                    pause.regs.rip
                );
                Err(self.elsewhere(task, who, expected, &place, &pause.regs, Leave::OrigRax))
            }
            Sought::Stopped(stop) => {
                seek.stand_aside(task, &self.space.memory, pause)?;
                *slot = Some(seek);
                Ok(Reach::Stopped(stop))
            }
        }
    }

    fn seek_pause(
        &mut self,
        task: &mut Task,
        wanted: &mut Wanted<'_>,
        seek: &mut Seek,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Sought, Halt> {
        let (who, pause) = (wanted.who, wanted.pause);
        if limit.step {
            seek.stand_aside(task, &self.space.memory, pause)?;
        }
        // The driver wants it to stop, and it stands in the code that looks whether it is there.
        let mut leaving = None;
        let mut last = None;
        loop {
            let gone = match leaving {
                None => self.go(task, who, host, limit)?,
                Some(_) => self.go(task, who, host, &Limit { step: true, ..Limit::default() })?,
            };
            let place = match (gone, leaving.take()) {
                (Gone::Stopped(stop), left) => {
                    // A breakpoint that it has come to is counted, and must be told of; who asked, still
                    // asks.
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
            let memory = &self.space.memory;
            if let Found::Fault(info) = place.found
                && seek.forgive(task, memory, pause, info, &place.regs)?
            {
                self.traps.areas.forget_mappings();
                continue;
            }
            if place.found == Found::Seen {
                return Err(Halt::Seen(who.seq));
            }
            if place.found != Found::Breakpoint {
                return Ok(Sought::Missed(place));
            }
            let regs = seek.true_registers(memory, place.regs)?;
            if self.is_wanted(task, wanted, &regs)? {
                task.set_regs(&regs)?;
                return Ok(Sought::Found(place));
            }
            *wanted.passed += 1;
            if wanted.in_vain.is_for_ever() {
                return Ok(Sought::Missed(place));
            }
            last = Some(regs);
            seek.pass(task, &self.space.memory, pause, &self.traps)?;
            self.traps.areas.forget_mappings();
            if leaving.is_none() && limit.interrupt.is_some_and(Interrupt::is_asked) {
                leaving = Some(Stop::Interrupted);
            }
        }
    }

    /// Is it the place, and not one of those that only look so?
    fn is_wanted(&self, task: &mut Task, wanted: &mut Wanted<'_>, regs: &Registers) -> Result<bool, Halt> {
        let Wanted { who, pause, .. } = *wanted;
        let memory = &self.space.memory;
        if !compare(&pause.regs, regs, Leave::OrigRax).is_empty()
            || who.ticks.is_some() && task.count(memory)? != who.ticks
        {
            return Ok(false);
        }
        // What the task works with may be text in which the driver has breakpoints.
        let read = |addr, len| self.traps.read(memory, addr, len);
        let word = place::first_difference(read, &pause.held);
        let other = if wanted.loose { None } else { place::first_other(read, &pause.seen) };
        if word.is_some() || other.is_some() {
            tracing::debug!(?word, ?other, "the memory is not as it was");
        }
        let same_memory = word.is_none() && other.is_none();
        let extended = task.extended()? == pause.extended;
        let log = self.log_is_used(wanted.hooked)?;
        tracing::debug!(same_memory, extended, log, "the place with its registers");
        wanted.in_vain.count(other.filter(|_| word.is_none() && extended && log).map(|other| other.now));
        if !(same_memory && extended && log) {
            return Ok(false);
        }
        if *wanted.skips > 0 {
            *wanted.skips -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    fn must_be_call(
        &self,
        task: &Task,
        who: Who,
        nr: u64,
        entry: &Registers,
        place: &Place,
    ) -> Result<(), Halt> {
        let expected = || call_text(nr, entry.ip());
        let wanted = if nr == SAFEPOINT { Found::Safepoint } else { Found::Call };
        if place.found != wanted || place.regs.orig_rax != nr {
            return Err(self.elsewhere(task, who, expected(), place, entry, Leave::Nothing));
        }
        self.must_equal(task, who, expected(), entry, &place.regs, Leave::Nothing)
    }

    fn must_be_instruction(
        &self,
        task: &Task,
        who: Who,
        insn: Insn,
        before: &Registers,
        place: &Place,
    ) -> Result<(), Halt> {
        let expected = || format!("{} at {:#x}", Brief::Instruction(insn), before.rip);
        // A trapped instruction is a general protection fault, which has no address.
        let trapped =
            matches!(place.found, Found::Fault(info) if info.signal() == Signal::SEGV && info.code() == 0x80);
        if !trapped {
            return Err(self.elsewhere(task, who, expected(), place, before, Leave::OrigRax));
        }
        self.must_equal(task, who, expected(), before, &place.regs, Leave::OrigRax)
    }

    /// The task has stopped where a signal took effect that came while it ran.
    fn must_be_signal(
        &self,
        task: &mut Task,
        who: Who,
        event: &SignalEvent,
        mut place: Place,
    ) -> Result<(), Halt> {
        let expected = || signal_text(event);
        match event.point {
            SignalPoint::Fault => {
                let Some(wanted) = info_of(&event.siginfo) else {
                    return Err(self.inconsistent(who.seq, "a signal's information is not 128 bytes".into()));
                };
                let expected = || fault_text(event.signal, &wanted, event.before.ip());
                let same = matches!(place.found, Found::Fault(info)
                    if info.signal() == event.signal && info.code() == wanted.code() && info.addr() == wanted.addr());
                if !same {
                    return Err(self.elsewhere(task, who, expected(), &place, &event.before, Leave::OrigRax));
                }
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)
            }
            SignalPoint::BeforeSyscall => {
                if place.found != Found::Call {
                    let expected = format!("{} before the system call", expected());
                    return Err(self.elsewhere(task, who, expected, &place, &event.before, Leave::OrigRax));
                }
                // Back before the `syscall` instruction, which is two bytes long.
                place.regs.rip = place.regs.rip.wrapping_sub(2);
                place.regs.rax = place.regs.orig_rax;
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
                Ok(task.set_regs(&place.regs)?)
            }
            SignalPoint::AfterHook => {
                if place.found != Found::Safepoint {
                    let expected = format!("{} after a hooked call", expected());
                    return Err(self.elsewhere(task, who, expected, &place, &event.before, Leave::OrigRax));
                }
                place.regs.rax = self.space.safepoint_rax()?;
                (place.regs.rip, place.regs.rcx) = (event.before.rip, event.before.rip);
                self.must_equal(task, who, expected(), &event.before, &place.regs, Leave::OrigRax)?;
                Ok(task.set_regs(&place.regs)?)
            }
            SignalPoint::AfterEvent | SignalPoint::Anywhere => Ok(()),
        }
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

/// What a search for a pause has come to.
enum Sought {
    Found(Place),
    Missed(Place),
    Stopped(Stop),
}

fn signal_text(event: &SignalEvent) -> String {
    format!("{} at {:#x}", event.signal, event.before.rip)
}
