//! The places and bytes at which a replica stops for its driver: breakpoints in its text, debug registers,
//! and pages that are protected while a task runs ([`crate::areas`]). They have one owner, this; a search for
//! a place asks it for the registers that it needs.
//!
//! A breakpoint is an `int3` over the first byte of an instruction. It is put into memory before a task runs
//! ([`Traps::arm`]) and stays there; whoever shows memory hides it ([`Traps::hide`]), and whoever copies the
//! process, or changes what is mapped or written, takes all of them away first ([`Traps::disarm`]).
//!
//! Text that the program may write is guarded meanwhile: an instruction that writes to its page finds the
//! program's bytes there, and what it has written gets the `int3` again. In memory that is no text (yet)
//! there is none. (An instruction that only reads such text finds the `int3`.)
//!
//! A breakpoint is at an address of the program's own. Where the instruction has moved, the `int3` is at its
//! copy ([`crate::ours::ProgramText::places`]), and all that is said of it here is said by the program's
//! address.
//!
//! An *arrival* at an address is that a task is about to execute the instruction there. Arrivals at
//! breakpoints are counted since the last event, which gives places between events their numbers. An arrival
//! is counted when the task stops there: at the breakpoint, or behind a single step that leads there; not
//! when a watch or an interrupt stops it in front of a breakpoint, which it has yet to come to. Where an
//! event has left its own task is not an arrival: that place has the event for a name.

mod arrivals;
mod moved;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use bis_trace::types::{Addr, PAGE, Tid};
use bis_tracee::{Memory, TraceeError, maps::Mapping};

use crate::{
    areas::{Areas, Piece},
    counted::Counted,
};

const INT3: u8 = 0xcc;

/// So many stops at a place where arrivals are only counted are a reason to let the program count them: that
/// costs about as much.
const SILENT_STOPS: u32 = 64;

/// A count on a task's way to its next event at which the driver wants it to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountStop {
    pub at: u64,
    /// At which it is to stop after that, for the event's sake.
    pub then: Option<u64>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Traps {
    /// What the driver wants: the program's addresses.
    wanted: BTreeSet<Addr>,
    /// Those of them at which arrivals are only counted: the driver is told of none.
    silent: BTreeSet<Addr>,
    /// How often tasks were stopped there for that, in the present interval.
    silent_stops: BTreeMap<Addr, u32>,
    /// By the address of the `int3`.
    points: BTreeMap<Addr, Point>,
    /// Addresses at which the program counts by itself, in the present interval.
    counted: Vec<Counted>,
    /// Instructions that have given way to the jump of a search for a place, but for the first of them, and
    /// where they are executed instead.
    moved: Vec<(Addr, Addr)>,
    /// String instructions that repeat themselves, by the program's addresses, whose rounds are arrivals that
    /// are only counted; and the arrival of which the driver is told all the same.
    rounds: BTreeMap<Addr, Option<u64>>,
    is_armed: bool,
    /// The task of the next event is to stop at so many counts of its text.
    pub(crate) count: Option<CountStop>,
    watches: Vec<Piece>,
    /// The watches, with no more registers than there are for them.
    fitting: Vec<Piece>,
    /// Those that they are without a search that has some of the registers; none where no search has.
    given_way: Option<Vec<Piece>>,
    /// How many faults that may cost.
    faults_left: Option<u64>,
    /// Those of them that no debug register watches.
    pub(crate) areas: Areas,
    /// Which areas the last instruction has touched that was looked at.
    pub(crate) touched: Vec<usize>,
    /// What the program may do with the pages of breakpoints, as far as that was asked since these were
    /// mapped.
    pages: BTreeMap<Addr, Allowed>,
    /// How often tasks have come to each since the last event.
    arrivals: BTreeMap<Addr, u64>,
    /// How often tasks came to each between the last two events.
    before: BTreeMap<Addr, u64>,
    /// How often watches have triggered since then.
    triggers: u64,
    /// Those whose arrivals are counted only since they are there, which is later than the last event.
    late: BTreeSet<Addr>,
    /// So it is for the watches.
    are_watches_late: bool,
    /// Where the last event has left its task, if that has not run since.
    pub(crate) standing: Option<(Tid, Addr)>,
    /// For how long tasks have run since then.
    ran: Duration,
    /// The last arrival that was counted, if its task has not gone on to where nothing is counted.
    pub(crate) last: Option<(Tid, Addr)>,
    /// Calls of the 32-bit table have no events and fail: so it was in traces of older formats.
    pub(crate) int80_fails: bool,
}

/// What a program may do with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Allowed {
    /// Not to execute it: no task comes to a breakpoint there, and it may be written as it likes.
    NoText,
    /// To execute it.
    Text,
    /// To execute and to write it.
    WritableText,
}

impl Allowed {
    fn of(page: Addr, mappings: &[Mapping]) -> Allowed {
        let has = |prot: u32, flag: i32| prot & flag.cast_unsigned() != 0;
        match mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&page)) {
            Some(mapping) if !has(mapping.prot, libc::PROT_EXEC) => Allowed::NoText,
            None => Allowed::NoText,
            Some(mapping) if has(mapping.prot, libc::PROT_WRITE) => Allowed::WritableText,
            Some(_) => Allowed::Text,
        }
    }
}

/// The page of an address.
fn page(addr: Addr) -> Addr {
    addr.page_floor()
}

/// An `int3`.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The program's address; none: only the moment wants it.
    program: Option<Addr>,
    /// A task is to be stopped here for a moment, and that is no arrival.
    is_moment: bool,
    /// Where the `int3` is: elsewhere while the instruction has given way to a jump that counts, or searches.
    at: Addr,
    /// The byte that it has taken the place of; none while it is not there.
    byte: Option<u8>,
}

impl Traps {
    /// A task stops when it is about to execute any of these addresses; of those in `silent`, which are among
    /// them, its driver is not told. Those that are new have no arrivals.
    ///
    /// `is_at_event`: no task has run since the last event.
    pub(crate) fn set_points(
        &mut self,
        memory: &Memory,
        wanted: &BTreeSet<Addr>,
        silent: BTreeSet<Addr>,
        is_at_event: bool,
        places: impl Fn(Addr) -> Vec<Addr>,
    ) -> Result<(), TraceeError> {
        self.silent = silent;
        if self.wanted == *wanted {
            return Ok(());
        }
        let new = wanted.difference(&self.wanted).copied();
        let new: Vec<Addr> = new.collect();
        if !is_at_event {
            self.late.extend(new);
        }
        self.late.retain(|addr| wanted.contains(addr));
        self.arrivals.retain(|addr, _| wanted.contains(addr));
        self.rounds.retain(|addr, _| wanted.contains(addr));
        self.wanted = wanted.clone();
        self.place(memory, places)
    }

    /// Puts the breakpoints where the program's instructions are now.
    pub(crate) fn place(
        &mut self,
        memory: &Memory,
        places: impl Fn(Addr) -> Vec<Addr>,
    ) -> Result<(), TraceeError> {
        self.disarm(memory)?;
        self.points.clear();
        for program in &self.wanted {
            for place in places(*program) {
                self.points.insert(
                    place,
                    Point { program: Some(*program), is_moment: false, at: place, byte: None },
                );
            }
        }
        Ok(())
    }

    /// A task is to be stopped there for a moment, or not any more.
    pub(crate) fn set_moment(&mut self, memory: &Memory, places: &[Addr]) -> Result<(), TraceeError> {
        let old = self.points.iter().filter(|(_, point)| point.is_moment).map(|(at, _)| *at);
        for at in old.collect::<Vec<Addr>>() {
            if let Some(point) = self.points.get_mut(&at).filter(|point| point.program.is_some()) {
                point.is_moment = false;
            } else {
                self.lift(memory, at)?;
                self.points.remove(&at);
            }
        }
        for at in places {
            let executed = self.copy_of(*at).unwrap_or(*at);
            let point = Point { program: None, is_moment: true, at: executed, byte: None };
            self.points.entry(*at).or_insert(point).is_moment = true;
            self.put_back(memory, *at);
        }
        Ok(())
    }

    /// Is there a breakpoint at this address of the program's?
    pub fn has_point(&self, addr: Addr) -> bool {
        self.wanted.contains(&addr)
    }

    /// Is a task to be stopped somewhere for a moment?
    pub(crate) fn has_moments(&self) -> bool {
        self.points.values().any(|point| point.is_moment)
    }

    /// Is a task to be stopped here for a moment?
    pub(crate) fn is_moment(&self, place: Addr) -> bool {
        self.points.get(&place).is_some_and(|point| point.is_moment)
    }

    /// The program's address of the breakpoint whose `int3` is here, or would be.
    pub(crate) fn program_at(&self, place: Addr) -> Option<Addr> {
        self.points.get(&place).and_then(|point| point.program)
    }

    /// Is there an `int3` in this range?
    pub(crate) fn has_point_in(&self, range: Range<Addr>) -> bool {
        self.points.range(range).next().is_some()
    }

    /// Has any of this text given way to a jump to what counts?
    pub(crate) fn counts_in(&self, text: &Range<Addr>) -> bool {
        self.counted.iter().any(|counted| counted.overlaps(text))
    }

    /// Where the program counts by itself.
    pub(crate) fn counted(&self) -> &[Counted] {
        &self.counted
    }

    pub(crate) fn add_counted(&mut self, counted: Counted) {
        self.counted.push(counted);
    }

    /// Up to the next event, the rounds of the string instruction at this address are only counted, but for
    /// this arrival.
    pub(crate) fn count_rounds(&mut self, program: Addr, stop_at: Option<u64>) {
        self.rounds.insert(program, stop_at);
    }

    /// Are they, and is that arrival still to come?
    pub(crate) fn counts_rounds(&self, program: Addr) -> bool {
        let is_to_come = |stop_at: u64| stop_at > self.arrivals(program);
        self.rounds.get(&program).is_some_and(|stop_at| stop_at.is_none_or(is_to_come))
    }

    /// Each round is a stop again.
    pub(crate) fn end_rounds(&mut self) {
        self.rounds.clear();
    }

    /// Is an arrival at this place only counted? The program's address then, and how many arrivals later its
    /// driver is told of one, if of any.
    pub(crate) fn only_counts(&self, place: Addr) -> Option<(Addr, Option<u64>)> {
        let program = self.program_at(place).filter(|_| !self.is_moment(place))?;
        let left = match self.rounds.get(&program) {
            Some(stop_at) => stop_at.map(|stop_at| stop_at.saturating_sub(self.arrivals(program))),
            None if self.silent.contains(&program) => None,
            None => return None,
        };
        (left != Some(0)).then_some((program, left))
    }

    /// A task was stopped at this point. True, once in an interval: it is one of the silent ones, and has
    /// stopped tasks often by now.
    pub(crate) fn count_silent_stop(&mut self, program: Addr) -> bool {
        if !self.silent.contains(&program) {
            return false;
        }
        let stops = self.silent_stops.entry(program).or_default();
        *stops = stops.saturating_add(1);
        *stops == SILENT_STOPS
    }

    /// The points of whose arrivals the driver is told.
    pub(crate) fn told(&self) -> BTreeSet<Addr> {
        &self.wanted - &self.silent
    }

    /// So many more arrivals, of which the last leads on.
    pub(crate) fn add_rounds(&mut self, program: Addr, rounds: u64) {
        *self.arrivals.entry(program).or_default() += rounds;
    }

    /// Nothing is counted by the program any more; what was, to be taken away.
    pub(crate) fn take_counted(&mut self, memory: &Memory) -> Result<Vec<Counted>, TraceeError> {
        self.disarm(memory)?;
        self.look(memory)?;
        self.silent_stops.clear();
        Ok(std::mem::take(&mut self.counted))
    }

    /// Asks the program what it has counted.
    pub(crate) fn look(&mut self, memory: &Memory) -> Result<(), TraceeError> {
        for counted in &self.counted {
            self.arrivals.insert(counted.program, counted.arrivals(memory)?);
        }
        Ok(())
    }

    fn is_counted(&self, place: Addr) -> bool {
        self.counted.iter().any(|counted| counted.place == place)
    }

    /// Where the `int3` is of the breakpoint whose trap has this program counter, if there is one.
    pub(crate) fn trap_of(&self, rip: Addr) -> Option<Addr> {
        let at = rip.wrapping_sub(1);
        let is_it = |point: &Point| point.at == at && point.byte.is_some();
        if self.points.get(&at).is_some_and(is_it) {
            return Some(at);
        }
        if self.counted.is_empty() && self.moved.is_empty() {
            return None;
        }
        self.points.iter().find(|(_, point)| is_it(point)).map(|(place, _)| *place)
    }

    /// The mappings in this range are others now.
    pub(crate) fn forget_pages(&mut self, range: Range<Addr>) {
        self.pages.retain(|page, _| !(page.saturating_add(PAGE) > range.start && *page < range.end));
    }

    /// All mappings may be others now.
    pub(crate) fn forget_all_pages(&mut self) {
        self.pages.clear();
    }

    /// Puts the breakpoints into memory. Where there is no text, there is none: it would be in data, which
    /// the program reads, and writes.
    pub(crate) fn arm(
        &mut self,
        memory: &Memory,
        mappings: impl Fn() -> Result<Vec<Mapping>, TraceeError>,
    ) -> Result<(), TraceeError> {
        if self.is_armed {
            return Ok(());
        }
        self.is_armed = true;
        if self.points.keys().any(|at| !self.pages.contains_key(&page(*at))) {
            let mappings = mappings()?;
            let pages = self.points.keys().map(|at| page(*at));
            self.pages = pages.map(|page| (page, Allowed::of(page, &mappings))).collect();
        }
        for counted in &self.counted {
            counted.put(memory, true)?;
        }
        let counted: BTreeSet<Addr> = self.counted.iter().map(|counted| counted.place).collect();
        let executed: Vec<Addr> = self.points.keys().map(|at| self.copy_of(*at).unwrap_or(*at)).collect();
        let points = self.points.iter_mut().zip(executed);
        for ((addr, point), executed) in points.filter(|((addr, _), _)| !counted.contains(addr)) {
            point.at = executed;
            if self.pages.get(&page(*addr)) == Some(&Allowed::NoText) {
                continue;
            }
            let mut found = [0];
            if memory.read(point.at, &mut found).is_ok() && memory.write(point.at, &[INT3]).is_ok() {
                point.byte = Some(found[0]);
            }
        }
        let may_be_written = |at: &&Addr| self.pages.get(&page(**at)) == Some(&Allowed::WritableText);
        self.areas.set_text(self.points.keys().filter(may_be_written).copied().collect());
        Ok(())
    }

    /// Takes those away that are on pages which a task is let write to, for one instruction. What was taken
    /// away is to be put back.
    pub(crate) fn lift_freed(&mut self, memory: &Memory) -> Result<Vec<Addr>, TraceeError> {
        let mut freed = self.areas.freed_text();
        freed.retain(|at| self.points.get(at).is_some_and(|point| point.byte.is_some()));
        for at in &freed {
            self.lift(memory, *at)?;
        }
        Ok(freed)
    }

    /// Takes them away.
    pub(crate) fn disarm(&mut self, memory: &Memory) -> Result<(), TraceeError> {
        self.areas.forget_mappings();
        if !self.is_armed {
            return Ok(());
        }
        self.is_armed = false;
        for point in self.points.values_mut() {
            if let Some(byte) = point.byte.take() {
                memory.write(point.at, &[byte])?;
            }
        }
        self.counted.iter().try_for_each(|counted| counted.put(memory, false))
    }

    /// Takes one away, for its instruction to be executed.
    pub(crate) fn lift(&mut self, memory: &Memory, addr: Addr) -> Result<(), TraceeError> {
        if let Some(point) = self.points.get_mut(&addr)
            && let Some(original) = point.byte.take()
        {
            memory.write(point.at, &[original])?;
        }
        Ok(())
    }

    /// Puts it back.
    pub(crate) fn put_back(&mut self, memory: &Memory, addr: Addr) {
        if !self.is_armed || self.is_counted(addr) {
            return;
        }
        if self.pages.get(&page(addr)) == Some(&Allowed::NoText) {
            return;
        }
        if let Some(point) = self.points.get_mut(&addr).filter(|point| point.byte.is_none()) {
            let mut found = [0];
            if memory.read(point.at, &mut found).is_ok() && memory.write(point.at, &[INT3]).is_ok() {
                point.byte = Some(found[0]);
            }
        }
    }

    /// As much of memory at an address as can be read without a gap, as it is without breakpoints.
    pub(crate) fn read(&self, memory: &Memory, addr: Addr, len: usize) -> Vec<u8> {
        let mut bytes = memory.read_upto(addr, len);
        self.hide(addr, &mut bytes);
        bytes
    }

    /// Puts the program's bytes in the place of breakpoints, in what was read from memory at `addr`.
    pub(crate) fn hide(&self, addr: Addr, bytes: &mut [u8]) {
        let end = addr.saturating_add(bytes.len() as u64);
        for (at, point) in self.points.range(addr..end) {
            if let (Some(byte), Ok(offset)) =
                (point.byte.filter(|_| point.at == *at), usize::try_from(at - addr))
            {
                bytes[offset] = byte;
            }
        }
        if self.is_armed {
            self.counted.iter().for_each(|counted| counted.hide(addr, bytes));
        }
    }
}
