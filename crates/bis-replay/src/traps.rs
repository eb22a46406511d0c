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

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use bis_trace::types::{Addr, PAGE, Tid};
use bis_tracee::{
    Memory, TraceeError,
    debug::{self, Access, Triggered, Watch},
    maps::Mapping,
};

use crate::{
    areas::{Areas, Piece},
    counted::Counted,
    task::{Found, Place},
};

const INT3: u8 = 0xcc;

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

/// These, of which only so many are watched by registers.
fn fitting(wanted: &[Piece], mut room: usize) -> Vec<Piece> {
    let fitting = |piece: &Piece| match piece {
        Piece::Register(_) if room == 0 => piece.without_register(),
        Piece::Register(_) => {
            room -= 1;
            *piece
        }
        Piece::Pages(_) => *piece,
    };
    wanted.iter().map(fitting).collect()
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

    /// What tasks watch beside what they need themselves, with so many debug registers at most.
    pub(crate) fn set_watches(&mut self, wanted: &[Piece], room: usize, is_at_event: bool) {
        if self.watches != wanted {
            self.fitting = fitting(wanted, room);
            self.areas = Areas::of(&self.fitting).with_text_of(&self.areas);
            self.watches = wanted.to_vec();
            self.triggers = 0;
            self.are_watches_late = !is_at_event;
        }
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

    /// Can all breakpoints in this text, which is to give way to a search's jump, go along into these copies
    /// of its instructions? False: one is on the first of them, or on none.
    pub(crate) fn can_move(&self, text: Range<Addr>, copies: &[(u64, u64)]) -> bool {
        let has_copy = |at: &Addr| copies.iter().skip(1).any(|(original, _)| *original == at.0);
        self.points.range(text).all(|(at, _)| has_copy(at))
    }

    /// Takes away the breakpoints on these instructions, and on those that have given way to a search's jump.
    pub(crate) fn lift_moved(&mut self, memory: &Memory, copies: &[(u64, u64)]) -> Result<(), TraceeError> {
        let of_copies = copies.iter().skip(1).map(|(original, _)| Addr(*original));
        let all: Vec<Addr> = self.moved.iter().map(|(original, _)| *original).chain(of_copies).collect();
        all.into_iter().try_for_each(|at| self.lift(memory, at))
    }

    /// These instructions have given way to a search's jump and are executed as copies, but for the first,
    /// whose address is the jump's own; without copies, none is any more. Breakpoints on them, which were
    /// lifted, are put to where they are executed.
    pub(crate) fn put_moved(&mut self, memory: &Memory, copies: &[(u64, u64)]) {
        let old = std::mem::take(&mut self.moved);
        self.moved = copies.iter().skip(1).map(|(original, copy)| (Addr(*original), Addr(*copy))).collect();
        let new = self.moved.clone();
        for at in old.iter().chain(&new).map(|(original, _)| *original) {
            let executed = self.copy_of(at).unwrap_or(at);
            if let Some(point) = self.points.get_mut(&at) {
                point.at = executed;
                self.put_back(memory, at);
            }
        }
    }

    /// Where the instruction at an address is executed that has given way to a jump which counts or searches,
    /// and is not the first to have given way to that.
    pub(crate) fn copy_of(&self, addr: Addr) -> Option<Addr> {
        let moved = self.moved.iter().find(|(original, _)| *original == addr).map(|(_, copy)| *copy);
        moved.or_else(|| self.counted.iter().find_map(|counted| counted.inside(addr.0)).map(Addr))
    }

    /// The program's own place for one among the copies of what has given way to a jump that counts or
    /// searches.
    pub(crate) fn original_of(&self, rip: Addr) -> Option<Addr> {
        let moved = self.moved.iter().find(|(_, copy)| *copy == rip).map(|(original, _)| *original);
        moved.or_else(|| self.counted.iter().find_map(|counted| counted.original(rip)).map(Addr))
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

    /// So many more arrivals, of which the last leads on.
    pub(crate) fn add_rounds(&mut self, program: Addr, rounds: u64) {
        *self.arrivals.entry(program).or_default() += rounds;
    }

    /// Nothing is counted by the program any more; what was, to be taken away.
    pub(crate) fn take_counted(&mut self, memory: &Memory) -> Result<Vec<Counted>, TraceeError> {
        self.disarm(memory)?;
        self.look(memory)?;
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

    pub fn watches(&self) -> &[Piece] {
        &self.watches
    }

    /// Would a trap with this program counter be a breakpoint's? Where its `int3` is.
    pub(crate) fn is_trap(&self, rip: Addr) -> Option<Addr> {
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

    /// The debug registers of a task that needs some itself: those first, then as many of ours as there is
    /// room for.
    pub(crate) fn registers(&self, own: &[Watch]) -> [Option<Watch>; debug::COUNT] {
        let mut registers = [None; debug::COUNT];
        let driver = self.in_registers().map(|(_, watch)| watch);
        for (register, watch) in registers.iter_mut().zip(own.iter().chain(driver)) {
            *register = Some(*watch);
        }
        registers
    }

    /// How many debug registers are left for a search that jumps out of the program's text. None: pages are
    /// guarded, or text is watched.
    pub(crate) fn room_beside_watches(&self) -> Option<usize> {
        let is_of_data =
            |piece: &Piece| matches!(piece, Piece::Register(watch) if watch.access != Access::Execute);
        let are_of_data = self.fitting.iter().all(is_of_data);
        debug::COUNT.checked_sub(self.fitting.len()).filter(|_| are_of_data)
    }

    /// Would the driver hear of an instruction that reads there?
    pub(crate) fn hears_reads(&self, range: &Range<Addr>) -> bool {
        let is_of_reads = |piece: &Piece| match piece {
            Piece::Register(watch) => watch.access == Access::Any,
            Piece::Pages(_) => true,
        };
        self.watched_in(range).into_iter().any(|number| is_of_reads(&self.fitting[number]))
    }

    /// What debug registers watch for the driver, with the numbers that it knows.
    fn in_registers(&self) -> impl Iterator<Item = (usize, &Watch)> {
        self.fitting.iter().enumerate().filter_map(|(number, piece)| match piece {
            Piece::Register(watch) => Some((number, watch)),
            Piece::Pages(_) => None,
        })
    }

    /// The numbers of what was touched by the instruction behind which a task has stopped that uses so many
    /// debug registers for itself.
    pub(crate) fn take_touched(&mut self, own: usize, triggered: Triggered) -> Vec<usize> {
        let mut numbers = std::mem::take(&mut self.touched);
        let of_registers = (own..debug::COUNT).zip(self.in_registers());
        numbers.extend(of_registers.filter(|(at, _)| triggered.has(*at)).map(|(_, (number, _))| number));
        numbers.sort_unstable();
        numbers
    }

    /// The numbers of what is watched there, and is written or looked at by something that is no instruction
    /// of the program's: the memory gets another content.
    pub(crate) fn watched_in(&self, range: &Range<Addr>) -> Vec<usize> {
        let is_there = |piece: &Piece| {
            let (addr, len) = match piece {
                Piece::Register(Watch { access: Access::Execute, .. }) => return false,
                Piece::Register(watch) => (watch.addr, watch.len.into()),
                Piece::Pages(area) => (area.addr, area.len),
            };
            addr < range.end && range.start < addr.saturating_add(len)
        };
        let numbers = self.fitting.iter().enumerate().filter(|(_, piece)| is_there(piece));
        numbers.map(|(number, _)| number).collect()
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

    /// A task is about to execute the instruction whose place this is, to which it has come.
    pub(crate) fn arrive(&mut self, tid: Tid, place: Addr) {
        let Some(program) = self.program_at(place) else { return };
        // Of those that the program counts by itself it has been told.
        if !self.is_counted(place) {
            *self.arrivals.entry(program).or_default() += 1;
        }
        self.last = Some((tid, place));
    }

    /// A task was interrupted here. May it be that it has not gone on from where the last event has left it?
    /// Where there is a breakpoint, it surely has not.
    pub(crate) fn may_stand(&self, place: (Tid, Addr)) -> bool {
        self.standing == Some(place) && !self.stops_at(place.1)
    }

    /// Is there a breakpoint which stops each task that comes to this place?
    fn stops_at(&self, place: Addr) -> bool {
        self.program_at(place).is_some() && !self.is_counted(place)
    }

    /// A task has run, and come to this.
    pub(crate) fn ran(&mut self, tid: Tid, place: &Place) {
        // A task that stands before a breakpoint when it is interrupted has not gone on: that would have
        // stopped it.
        let is_there = match place.found {
            Found::Point(at) => self.standing == Some((tid, at)),
            Found::Interrupted => self.stops_at(place.regs.ip()),
            // It has not got beyond the instruction to which it had come.
            Found::Fault(_) => self.last == Some((tid, place.regs.ip())),
            _ => false,
        };
        if is_there {
            return;
        }
        self.standing.take_if(|(task, _)| *task == tid);
        self.last = None;
        if let Found::Point(at) = place.found
            && !self.is_moment(at)
        {
            self.arrive(tid, at);
        }
    }

    pub(crate) fn trigger(&mut self) {
        self.triggers += 1;
    }

    /// An event is done, which leaves its task there: from here on is counted.
    pub(crate) fn begin_count(&mut self, standing: Option<(Tid, Addr)>) {
        self.before = std::mem::take(&mut self.arrivals);
        self.rounds.clear();
        self.triggers = 0;
        self.late.clear();
        self.are_watches_late = false;
        self.standing = standing;
        self.ran = Duration::ZERO;
        self.last = None;
    }

    pub(crate) fn add_time(&mut self, time: Duration) {
        self.ran += time;
    }

    /// For how long tasks have run since the last event, by the clock: that is not exact, and not the same
    /// another time.
    pub fn ran_for(&self) -> Duration {
        self.ran
    }

    /// How often tasks have arrived at this breakpoint since the last event, or since it is there.
    pub fn arrivals(&self, addr: Addr) -> u64 {
        self.arrivals.get(&addr).copied().unwrap_or(0)
    }

    /// How often tasks had arrived there between the last two events.
    pub fn arrivals_before(&self, addr: Addr) -> u64 {
        self.before.get(&addr).copied().unwrap_or(0)
    }

    /// Of all addresses where all arrivals since the last event were counted, and none are now by the program
    /// itself.
    pub fn all_arrivals(&self) -> BTreeMap<Addr, u64> {
        let is_counted = |addr: Addr| self.counted.iter().any(|counted| counted.program == addr);
        let whole = self.wanted.iter().filter(|addr| !self.late.contains(addr) && !is_counted(**addr));
        whole.map(|addr| (*addr, self.arrivals(*addr))).collect()
    }

    /// Of all breakpoints, whatever has been counted.
    pub fn all_counts(&self) -> BTreeMap<Addr, u64> {
        self.wanted.iter().map(|addr| (*addr, self.arrivals(*addr))).collect()
    }

    /// Are that all since the last event?
    pub fn has_all_arrivals(&self, addr: Addr) -> bool {
        self.has_point(addr) && !self.late.contains(&addr)
    }

    /// Are [`Traps::triggers`] all since the last event?
    pub fn has_all_triggers(&self) -> bool {
        !self.are_watches_late
    }

    /// How often watches have triggered since the last event.
    pub fn triggers(&self) -> u64 {
        self.triggers
    }
}

#[cfg(test)]
mod tests {
    use bis_tracee::debug::{Access, Watch};

    use super::*;

    #[test]
    fn what_has_no_register_is_watched_by_its_page_under_the_same_number() {
        let watch = |addr| Piece::Register(Watch { addr, len: 8, access: Access::Write });
        let wanted = [watch(Addr(0x1000)), watch(Addr(0x2000)), watch(Addr(0x3000))];
        let mut traps = Traps::default();
        traps.set_watches(&wanted, 2, true);
        assert_eq!(traps.watches(), wanted);
        let registers: Vec<(usize, Addr)> =
            traps.in_registers().map(|(number, watch)| (number, watch.addr)).collect();
        assert_eq!(registers, [(0, Addr(0x1000)), (1, Addr(0x2000))]);
        assert_eq!(fitting(&wanted, 2)[2], wanted[2].without_register());
        assert!(!traps.areas.is_empty());
        traps.set_watches(&wanted[..2], 2, true);
        assert!(traps.areas.is_empty());
    }
}
