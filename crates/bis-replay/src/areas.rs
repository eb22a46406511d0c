//! Watched bytes that no debug register has room for.
//!
//! While a task runs, the pages of such an *area* may not be written, or not be touched at all. So the
//! instruction that wants to faults; its page is let go, the instruction is executed alone, and what it has
//! done to the area is looked at: of one that is watched for writes that is whether its bytes are others now,
//! of one that is watched for all accesses it is what the instruction says of itself. Then the page is
//! protected again, and the task goes on. Whoever stops the task finds the pages as the program has them.
//!
//! The driver's breakpoints in text that the program may write are guarded in the same way: an instruction
//! that writes to such a page is executed without them ([`Areas::set_text`]).
//!
//! What the kernel writes (the outcomes of events) does not fault: that is seen by whoever compares the bytes
//! at events.
//!
//! A program that works on such a page all the time, as on its stack, is some hundred times as slow there.
//! What is not on such a page runs as fast as ever.

use std::ops::Range;

use bis_rewrite::{Pointers, Touch, touches};
use bis_trace::types::{Addr, PAGE, Registers};
use bis_tracee::{
    Memory, Stopped, TraceeError,
    debug::{Access, Watch},
    maps::Mapping,
    remote::Remote,
};

/// Some of the bytes that are watched, and by what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A debug register. It stops a task at each access, also at a write that changes nothing.
    Register(Watch),
    /// The protection of pages: see the module's text.
    Pages(Area),
}

/// Bytes anywhere, of any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    pub addr: Addr,
    pub len: u64,
    /// [`Access::Write`] or [`Access::Any`].
    pub access: Access,
    /// Does a write that changes nothing stop a task, as a debug register would?
    pub unchanged: bool,
}

impl Piece {
    /// The same bytes, where no debug register is left: it stops a task at the same instructions.
    #[must_use]
    pub fn without_register(self) -> Piece {
        match self {
            Piece::Register(Watch { addr, len, access }) => {
                Piece::Pages(Area { addr, len: len.into(), access, unchanged: true })
            }
            area @ Piece::Pages(_) => area,
        }
    }

    pub(crate) fn has_register(&self) -> bool {
        matches!(self, Piece::Register(_))
    }
}

impl Area {
    /// Is any of it on a page that this range is on?
    pub(crate) fn is_on_pages_of(&self, range: &Range<Addr>) -> bool {
        let pages = self.pages();
        pages.start < range.end.page_ceil() && range.start.page_floor() < pages.end
    }

    fn range(&self) -> Range<Addr> {
        self.addr..self.addr.saturating_add(self.len)
    }

    /// Does it matter what is touched, also if it stays as it is?
    fn asks(&self) -> bool {
        self.unchanged || self.access == Access::Any
    }

    /// What of it is in a range.
    fn within(&self, range: &Range<Addr>) -> Option<Range<Addr>> {
        let own = self.range();
        let (start, end) = (own.start.max(range.start), own.end.min(range.end));
        (start < end).then_some(start..end)
    }

    /// The pages that it is on.
    fn pages(&self) -> Range<Addr> {
        let range = self.range();
        range.start.page_floor()..range.end.page_ceil()
    }
}

/// Pages with one protection, that may have another while a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    pages: Range<Addr>,
    /// The program's.
    own: u32,
    /// While a task runs.
    guard: u32,
}

/// The areas of an address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    /// With their numbers among all pieces.
    areas: Vec<(usize, Area)>,
    /// Where an `int3` is in text that the program may write.
    text: Vec<Addr>,
    /// None: the program's mappings may be others than when they were looked at.
    spans: Option<Vec<Span>>,
    is_guarded: bool,
    /// Pages that are let go for an instruction.
    freed: Vec<Freed>,
}

impl Areas {
    pub(crate) fn of(pieces: &[Piece]) -> Areas {
        let area = |(number, piece): (usize, &Piece)| match piece {
            Piece::Pages(area) => Some((number, *area)),
            Piece::Register(_) => None,
        };
        Areas { areas: pieces.iter().enumerate().filter_map(area).collect(), ..Areas::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.areas.is_empty() && self.text.is_empty()
    }

    /// With the text of others.
    pub(crate) fn with_text_of(self, others: &Areas) -> Areas {
        Areas { text: others.text.clone(), ..self }
    }

    /// These bytes of the program's text, which it may write, are not what it has there.
    pub(crate) fn set_text(&mut self, text: Vec<Addr>) {
        if self.text != text {
            self.text = text;
            self.spans = None;
        }
    }

    /// Those of them that are on pages which were let go.
    pub(crate) fn freed_text(&self) -> Vec<Addr> {
        let is_freed = |addr: &&Addr| self.is_let_go(**addr);
        self.text.iter().filter(is_freed).copied().collect()
    }

    /// What is mapped may change.
    pub(crate) fn forget_mappings(&mut self) {
        self.spans = None;
    }

    /// Does a task fault at this address, because the page is guarded?
    pub(crate) fn is_guarded(&self, addr: Addr) -> bool {
        self.is_guarded && self.span(addr).is_some() && !self.is_let_go(addr)
    }

    /// The pages that are guarded while a task runs; none: that is not known yet.
    pub(crate) fn guarded_pages(&self) -> Option<impl Iterator<Item = Range<Addr>>> {
        let spans = self.spans.as_ref()?;
        Some(spans.iter().map(|span| span.pages.clone()))
    }

    /// Is this address on a page that was let go?
    pub(crate) fn is_let_go(&self, addr: Addr) -> bool {
        self.freed.iter().any(|freed| freed.has(addr))
    }

    fn span(&self, addr: Addr) -> Option<&Span> {
        self.spans.iter().flatten().find(|span| span.pages.contains(&addr))
    }

    /// Protects all pages before this task runs. Were calls made in its name for that?
    pub(crate) fn guard(
        &mut self,
        stopped: &mut Option<Stopped>,
        mappings: impl FnOnce() -> Result<Vec<Mapping>, TraceeError>,
    ) -> Result<bool, TraceeError> {
        if self.spans.is_none() {
            self.spans = Some(spans(&self.areas, &self.text, &mappings()?));
        }
        self.protect_all(stopped, true)
    }

    /// Gives them back. Were calls made in the task's name for that?
    pub(crate) fn free(&mut self, stopped: &mut Option<Stopped>) -> Result<bool, TraceeError> {
        self.protect_all(stopped, false)
    }

    fn protect_all(&mut self, stopped: &mut Option<Stopped>, is_guarded: bool) -> Result<bool, TraceeError> {
        self.is_guarded = is_guarded;
        self.freed.clear();
        let spans = self.spans.iter().flatten();
        let all = spans.map(|span| (span.pages.clone(), if is_guarded { span.guard } else { span.own }));
        protect(stopped, all)
    }

    /// Lets the page of this address go, for one instruction.
    pub(crate) fn let_go(
        &mut self,
        stopped: &mut Option<Stopped>,
        memory: &Memory,
        addr: Addr,
    ) -> Result<(), TraceeError> {
        let Some(span) = self.span(addr) else { return Ok(()) };
        let page = addr.page_floor();
        protect(stopped, [(page..page + PAGE, span.own)].into_iter())?;
        let freed = Freed { page, addr, guard: span.guard, held: self.held(memory, page)? };
        self.freed.push(freed);
        Ok(())
    }

    /// What a page holds of each area, by its place among them.
    fn held(&self, memory: &Memory, page: Addr) -> Result<Vec<(usize, Vec<u8>)>, TraceeError> {
        let mut held = Vec::new();
        for (at, (_, area)) in self.areas.iter().enumerate() {
            if let Some(range) = area.within(&(page..page.saturating_add(PAGE))) {
                let len = usize::try_from(range.end - range.start).unwrap_or(0);
                held.push((at, memory.read_vec(range.start, len)?));
            }
        }
        Ok(held)
    }

    /// The numbers of the areas that an instruction has touched, for which pages were let go. It is in these
    /// bytes, and its accesses are asked for only where they matter.
    pub(crate) fn touched(
        &self,
        memory: &Memory,
        (code, accesses): (Range<Addr>, &[Touch]),
    ) -> Result<Vec<usize>, TraceeError> {
        let mut touched = Vec::new();
        for Freed { page, addr, held, .. } in &self.freed {
            // What a vector of addresses leads to is in none of the accesses. To be executed is no access.
            let first = Touch { range: addr.0..(*addr + 1).0, is_read: true, is_write: false };
            let first = Some(first).filter(|_| !code.contains(addr));
            for ((at, before), (_, now)) in held.iter().zip(self.held(memory, *page)?) {
                let (number, area) = &self.areas[*at];
                let counts = |touch: &&Touch| {
                    (touch.is_write || area.access == Access::Any)
                        && area.within(&Addr::range(touch.range.clone())).is_some()
                };
                let is_touched = *before != now
                    || area.asks() && accesses.iter().chain(&first).any(|touch| counts(&touch));
                if is_touched && !touched.contains(number) {
                    touched.push(*number);
                }
            }
        }
        Ok(touched)
    }

    /// The pages that were let go are guarded again.
    pub(crate) fn guard_again(&mut self, stopped: &mut Option<Stopped>) -> Result<(), TraceeError> {
        let freed = self.freed.drain(..);
        protect(stopped, freed.map(|freed| (freed.page..freed.page + PAGE, freed.guard))).map(drop)
    }

    /// Have an instruction's accesses to be known, for it to be said what it has touched?
    pub(crate) fn asks_for_accesses(&self) -> bool {
        self.areas.iter().any(|(_, area)| area.asks())
    }
}

/// A page that was let go, with what it held of the areas.
#[derive(Clone, Debug)]
struct Freed {
    page: Addr,
    /// The first byte of it that was to be touched.
    addr: Addr,
    guard: u32,
    held: Vec<(usize, Vec<u8>)>,
}

impl Freed {
    fn has(&self, addr: Addr) -> bool {
        (self.page..self.page + PAGE).contains(&addr)
    }
}

/// Gives pages these protections. Were there any, and so calls made in the task's name?
pub(crate) fn protect(
    stopped: &mut Option<Stopped>,
    all: impl Iterator<Item = (Range<Addr>, u32)>,
) -> Result<bool, TraceeError> {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return Ok(false);
    }
    let mut remote = Remote::new(stopped)?;
    for (pages, prot) in all {
        let args = [pages.start.0, pages.end - pages.start, prot.into(), 0, 0, 0];
        remote.must("protect the pages of a watchpoint", libc::SYS_mprotect, args)?;
    }
    remote.finish()?;
    Ok(true)
}

/// The pages of areas on which a task can do what is watched for, and those of text on which it can write.
fn spans(areas: &[(usize, Area)], text: &[Addr], mappings: &[Mapping]) -> Vec<Span> {
    let write = libc::PROT_WRITE.cast_unsigned();
    let of_text = |addr: &Addr| Area { addr: *addr, len: 1, access: Access::Write, unchanged: false };
    let areas: Vec<Area> = areas.iter().map(|(_, area)| *area).chain(text.iter().map(of_text)).collect();
    let mut bounds: Vec<Addr> =
        areas.iter().flat_map(|area| [area.pages().start, area.pages().end]).collect();
    bounds.extend(mappings.iter().flat_map(|mapping| [mapping.start, mapping.end]));
    bounds.sort_unstable();
    bounds.dedup();
    let mut spans: Vec<Span> = Vec::new();
    for pair in bounds.windows(2) {
        let pages = pair[0]..pair[1];
        let is_on = |area: &Area| area.pages().contains(&pages.start);
        let mut on = areas.iter().filter(|area| is_on(area)).peekable();
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&pages.start));
        let (Some(_), Some(mapping)) = (on.peek(), mapping) else { continue };
        let own = mapping.prot;
        let guard = if on.any(|area| area.access == Access::Any) { 0 } else { own & !write };
        if guard == own {
            continue;
        }
        match spans.last_mut() {
            Some(last) if last.pages.end == pages.start && (last.own, last.guard) == (own, guard) => {
                last.pages.end = pages.end;
            }
            _ => spans.push(Span { pages, own, guard }),
        }
    }
    spans
}

/// The memory that an instruction touches which is about to be executed with these registers, as far as it
/// says. `code`: what is there.
pub(crate) fn accesses(code: &[u8], regs: &Registers) -> Vec<Touch> {
    let (rip, general) = (regs.rip, regs.general());
    touches(code, &Pointers { rip, general, fs_base: regs.fs_base, gs_base: regs.gs_base })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, prot: u32) -> Mapping {
        let (device, name) = ((0, 0), Vec::new());
        Mapping { start: Addr(start), end: Addr(end), prot, shared: false, offset: 0, device, inode: 0, name }
    }

    fn area(addr: u64, len: u64, access: Access) -> Area {
        Area { addr: Addr(addr), len, access, unchanged: false }
    }

    fn span(pages: Range<u64>, own: u32, guard: u32) -> Span {
        Span { pages: Addr::range(pages), own, guard }
    }

    #[test]
    fn only_pages_that_can_be_touched_are_guarded() {
        let maps = [mapping(0x1000, 0x3000, 3), mapping(0x3000, 0x4000, 1), mapping(0x6000, 0x9000, 3)];
        let check = |areas: &[Area], wanted: &[Span]| {
            let areas: Vec<(usize, Area)> = areas.iter().copied().enumerate().collect();
            assert_eq!(spans(&areas, &[], &maps), wanted);
        };
        // Of text, what can be written.
        assert_eq!(
            spans(&[], &[0x1800, 0x3001, 0x6000, 0x5000].map(Addr), &maps),
            [span(0x1000..0x2000, 3, 1), span(0x6000..0x7000, 3, 1)]
        );
        check(&[area(0x1ff8, 16, Access::Write)], &[span(0x1000..0x3000, 3, 1)]);
        check(&[area(0x2ff8, 16, Access::Write)], &[span(0x2000..0x3000, 3, 1)]);
        check(&[area(0x2ff8, 16, Access::Any)], &[span(0x2000..0x3000, 3, 0), span(0x3000..0x4000, 1, 0)]);
        check(&[area(0x4000, 0x2000, Access::Any)], &[]);
        let both = [area(0x6000, 8, Access::Any), area(0x6ff8, 0x1000, Access::Write)];
        check(&both, &[span(0x6000..0x7000, 3, 0), span(0x7000..0x8000, 3, 1)]);
    }

    #[test]
    fn instructions_say_what_they_touch() {
        let regs = Registers {
            rip: 0x1000,
            rax: 0x10,
            rsi: 0x5000,
            rdi: 0x6000,
            rsp: 0x7000,
            fs_base: 0x9000,
            ..Registers::default()
        };
        let check = |code: &[u8], wanted: &[(Range<u64>, bool)]| {
            let mut found = accesses(code, &regs);
            found.sort_by_key(|touch| touch.range.start);
            let wanted = wanted.iter().map(|(range, is_write)| Touch {
                range: range.clone(),
                is_read: !*is_write,
                is_write: *is_write,
            });
            assert_eq!(found, wanted.collect::<Vec<Touch>>(), "{code:x?}");
        };
        // push rax
        check(&[0x50], &[(0x6ff8..0x7000, true)]);
        // movsb
        check(&[0xa4], &[(0x5000..0x5001, false), (0x6000..0x6001, true)]);
        // mov eax,[rip+0x10]
        check(&[0x8b, 0x05, 0x10, 0, 0, 0], &[(0x1016..0x101a, false)]);
        // mov rax,fs:[0x28]
        check(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], &[(0x9028..0x9030, false)]);
        // lea rax,[rsi]
        check(&[0x48, 0x8d, 0x06], &[]);
        // mov [rsi+rax*2],dil
        check(&[0x40, 0x88, 0x3c, 0x46], &[(0x5020..0x5021, true)]);
    }
}
