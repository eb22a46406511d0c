//! Addresses at which the program itself counts how often it comes there ([`bis_rewrite::countdown`]),
//! between two events: a place that is the millionth arrival is gone to at the program's own speed.
//!
//! A jump takes the place of the instructions there. It is taken away, with its pages, before anything
//! becomes of an event, and while anybody may look ([`crate::traps::Traps::disarm`]). Where it cannot be
//! (text that may be written, or that counts; a search for a place in it; no room), there is none, and a
//! breakpoint that stops each time does.

use std::ops::Range;

use bis_rewrite::{Conditional, Countdown, Predicate, Span, countdown};
use bis_trace::types::{Addr, PAGE, Registers};
use bis_tracee::{Memory, TraceeError, maps, place, remote::Remote};

use crate::{spans::span_at, task::Task};

/// When a task is to stop where it counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Until<'a> {
    /// At this arrival, which is later than those counted.
    pub arrival: Option<u64>,
    /// Each time that this holds.
    pub condition: Option<&'a Predicate>,
}

/// A countdown in the text of a process.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// The program's address, and where its instruction is.
    pub program: Addr,
    pub place: Addr,
    span: Span,
    made: Countdown,
    pages: Addr,
    /// What the word had at first, and the arrivals that had been counted then.
    initial: u64,
    base: u64,
}

impl Counted {
    /// Puts the pages of a countdown into the process of a task, but not its jump. `in_the_way`: what must
    /// stay where it is. None: there can be none here.
    pub(crate) fn new(
        task: &mut Task,
        memory: &Memory,
        (program, place): (Addr, Addr),
        base: u64,
        until: Until<'_>,
        in_the_way: &[Addr],
    ) -> Result<Option<Counted>, TraceeError> {
        let regs = task.regs()?;
        let span = span_at(regs.bits(), place, |addr, len| memory.read_upto(addr, len));
        let Some(span) = span else { return Ok(None) };
        let (end, rip) = (Addr(span.end()), regs.ip());
        if in_the_way.iter().any(|at| (place + 1..end).contains(at)) {
            return Ok(None);
        }
        let mappings = maps::read(task.ours)?;
        let may_change = |page: Addr| {
            let mapping = mappings.iter().find(|m| (m.start..m.end).contains(&page));
            mapping.is_none_or(|m| m.shared || m.prot & libc::PROT_WRITE.cast_unsigned() != 0)
        };
        if [place.page_floor(), (end - 1).page_floor()].into_iter().any(may_change) {
            return Ok(None);
        }
        let taken = task.to_be_mapped();
        let Some(code) = place::room_beside(&mappings, &taken, &span, false) else { return Ok(None) };
        let pages = code.page_floor();
        let data = pages + place::CODE_PAGES * PAGE;
        let condition = until.condition;
        let Ok(made) = countdown(&span, code.0, data.0, condition) else { return Ok(None) };
        // A task that stands behind the jump's begin goes on in the copies, if it stands between two of them.
        if (place + 1..end).contains(&rip) && inside(&made, rip.0).is_none() {
            return Ok(None);
        }
        let initial = until.arrival.map_or(u64::MAX, |stop_at| stop_at.saturating_sub(base));
        let mut remote = Remote::new(&mut task.stopped)?;
        place::map_room(&mut remote, pages, "map a page for a countdown")?;
        remote.finish()?;
        memory.write(code, &made.code)?;
        memory.write(data + Countdown::WORD, &initial.to_le_bytes())?;
        Ok(Some(Counted { program, place, span, made, pages, initial, base }))
    }

    fn data(&self) -> Addr {
        self.pages + place::CODE_PAGES * PAGE
    }

    /// The arrivals by now.
    pub(crate) fn arrivals(&self, memory: &Memory) -> Result<u64, TraceeError> {
        let word = memory.read_u64(self.data() + Countdown::WORD)?;
        Ok(self.base.wrapping_add(self.initial.wrapping_sub(word)))
    }

    /// The jump is in the text, or not any more.
    pub(crate) fn put(&self, memory: &Memory, is_there: bool) -> Result<(), TraceeError> {
        memory.write(self.place, if is_there { &self.made.patch } else { self.span.bytes() })
    }

    /// Puts the program's bytes in the place of the jump, in what was read at `addr`.
    pub(crate) fn hide(&self, addr: Addr, bytes: &mut [u8]) {
        for (at, byte) in self.place.and_behind(1).zip(self.span.bytes()) {
            if let Some(place) =
                at.checked_since(addr).and_then(|at| bytes.get_mut(usize::try_from(at).ok()?))
            {
                *place = *byte;
            }
        }
    }

    /// Has the instruction here given way to its jump?
    pub(crate) fn covers(&self, place: Addr) -> bool {
        (self.place..Addr(self.span.end())).contains(&place)
    }

    /// Has any of this text given way to its jump?
    pub(crate) fn overlaps(&self, text: &Range<Addr>) -> bool {
        self.place < text.end && text.start < Addr(self.span.end())
    }

    /// Is this in its pages?
    pub(crate) fn has(&self, rip: Addr) -> bool {
        (self.pages..self.data() + PAGE).contains(&rip)
    }

    /// The registers of a task that it has stopped, as the program has them; none if this is another trap.
    pub(crate) fn at_hit(&self, memory: &Memory, regs: &Registers) -> Result<Option<Registers>, TraceeError> {
        if regs.rip != self.made.hit {
            return Ok(None);
        }
        let eflags = Conditional::flags(regs.eflags, memory.read_u64(self.data() + Countdown::FLAGS)?);
        Ok(Some(self.own(Registers { rip: self.place.0, eflags, ..*regs })))
    }

    /// The registers of a task whose condition cannot be tested: it stops, as if it held.
    pub(crate) fn at_fault(
        &self,
        memory: &Memory,
        regs: &Registers,
    ) -> Result<Option<Registers>, TraceeError> {
        if !self.made.condition.contains(&regs.rip) {
            return Ok(None);
        }
        let word = |at: u64| memory.read_u64(self.data() + at);
        let eflags = Conditional::flags(regs.eflags, word(Countdown::FLAGS)?);
        let (rax, rcx) = (word(Countdown::RAX)?, word(Countdown::RCX)?);
        Ok(Some(self.own(Registers { rip: self.place.0, eflags, rax, rcx, ..*regs })))
    }

    /// As the program has them: what counts is 64-bit code.
    fn own(&self, regs: Registers) -> Registers {
        if self.span.is_narrow() { regs.narrow() } else { regs }
    }

    /// Where a task goes on that has come to the middle of the instructions which have given way; `trap` is
    /// where it trapped.
    pub(crate) fn inside(&self, trap: u64) -> Option<u64> {
        inside(&self.made, trap)
    }

    /// Where a task goes on that stands at the place, and was counted.
    pub(crate) fn past(&self) -> Option<u64> {
        self.made.copies.first().map(|(_, copy)| *copy)
    }

    /// The program's own place for one in the pages, if the task stands between two of its instructions.
    pub(crate) fn original(&self, rip: Addr) -> Option<u64> {
        self.made.copies.iter().find(|(_, copy)| *copy == rip.0).map(|(original, _)| *original)
    }

    /// Takes the pages away. No task stands in them, and the jump is not in the text.
    pub(crate) fn end(&self, task: &mut Task) -> Result<(), TraceeError> {
        let mut remote = Remote::new(&mut task.stopped)?;
        let args = [self.pages.0, (place::CODE_PAGES + 1) * PAGE, 0, 0, 0, 0];
        remote.must("unmap the pages of a countdown", libc::SYS_munmap, args)?;
        remote.finish()
    }
}

/// Where the instruction at an address is executed that has given way to a countdown's jump, and is not the
/// first to have given way.
fn inside(made: &Countdown, addr: u64) -> Option<u64> {
    made.copies.iter().skip(1).find(|(original, _)| *original == addr).map(|(_, copy)| *copy)
}
