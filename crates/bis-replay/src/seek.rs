//! Finding a place that only its state tells: a breakpoint where the task was, and a look at the task each
//! time it comes there.
//!
//! A stop takes microseconds, and a loop may pass the place a million times. So once a debug register has
//! stopped the task there in vain, the instructions at the place give way to a jump: the task itself compares
//! its registers, and what of its memory was different the last time, with what is wanted
//! ([`bis_rewrite::conditional`]), and stops only where they are the same. Meanwhile no other task of the
//! domain runs, so nobody sees that the text is another. Text that the program may write is protected from
//! that for as long; an instruction that writes it nevertheless finds the text that was there. One that reads
//! it is noticed, by debug registers, but too late: then the replay begins again and does without a jump
//! there.

use std::ops::Range;

use bis_rewrite::{Condition, Conditional, Span, conditional};
use bis_trace::{
    event::Pause,
    types::{Addr, PAGE, PAGE_LEN, Registers, Signal},
};
use bis_tracee::{
    Memory, TraceeError,
    debug::{Access, Watch},
    maps::{self, Mapping},
    place,
    remote::Remote,
    siginfo::SigInfo,
    ticks::RESUME_FLAG,
};

use crate::{
    spans::span_at,
    task::{Breakpoint, Found, Place, Task},
    traps::Traps,
};

/// The pages that can be written of a text that gives way to a jump, each with what it permits: a store there
/// is to be noticed. None: others may write one of them elsewhere.
fn pages_to_guard(text: &Range<Addr>, mappings: &[Mapping]) -> Option<Vec<(Addr, u64)>> {
    let mut guarded = Vec::new();
    for page in Addr::steps(text.start.page_floor()..text.end, PAGE_LEN) {
        match mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&page)) {
            Some(mapping) if mapping.shared => return None,
            Some(mapping) if mapping.prot & libc::PROT_WRITE.cast_unsigned() != 0 => {
                guarded.push((page, u64::from(mapping.prot)));
            }
            _ => {}
        }
    }
    Some(guarded)
}

/// The condition of a breakpoint at which a task is to have these registers, and stands with others now: what
/// is different now will be different most often, and is compared first.
fn condition_at(wanted: &Registers, found: &Registers) -> Condition {
    let (registers, found) = (wanted.general(), found.general());
    let different = (0..).zip(registers.iter().zip(found)).filter(|(_, (wanted, found))| *wanted != found);
    let first = different.map(|(register, _)| register).collect();
    Condition { registers, first, flags: wanted.eflags, ..Condition::default() }
}

/// What a condition compares at once.
const WORD: u64 = 8;

/// How many stops cost about as much as it does to put a jump into the text and to take it away.
const STOPS_OF_A_JUMP: u64 = 32;

/// How many stops cost about as much as a fault at a page that is guarded for the driver.
const STOPS_OF_A_FAULT: u64 = 4;

/// A breakpoint at the place that is looked for.
#[derive(Clone, Debug)]
pub(crate) enum Seek {
    /// A debug register.
    Register {
        /// How often it has stopped the task in vain.
        stops: u64,
        /// With how many stops a jump is tried in its place.
        next: u64,
    },
    Patched(Box<Patched>),
}

/// A breakpoint in the program's text.
#[derive(Clone, Debug)]
pub(crate) struct Patched {
    span: Span,
    made: Conditional,
    condition: Condition,
    code: Addr,
    /// The first of its pages.
    pages: Addr,
    /// Pages of the text that may be written when it is not there, with their protection.
    guarded: Vec<(Addr, u64)>,
    /// How often a debug register had stopped the task in vain, or what it had cost as much as.
    stops: u64,
}

impl Patched {
    /// The processor remembers where the last x87 instruction was, and that may have been a copy of the
    /// program's.
    fn correct_x87(&self, task: &mut Task) -> Result<(), TraceeError> {
        const INSTRUCTION: Range<usize> = 8..16;
        let Some(stopped) = task.stopped.as_mut() else { return Ok(()) };
        let mut xstate = stopped.xstate()?;
        let Some(bytes) = xstate.get_mut(INSTRUCTION) else { return Ok(()) };
        let at = u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        let Some((original, _)) = self.made.copies.iter().find(|(_, copy)| *copy == at) else {
            return Ok(());
        };
        bytes.copy_from_slice(&original.to_le_bytes());
        stopped.set_xstate(&xstate)
    }

    fn take_away(&self, task: &mut Task, memory: &Memory, traps: &mut Traps) -> Result<(), TraceeError> {
        let start = self.span.start();
        traps.lift_moved(memory, &[])?;
        // It is not there any more if the program has mapped something else.
        if memory.read_upto(Addr(start), self.made.patch.len()) == self.made.patch {
            memory.write(Addr(start), self.span.bytes())?;
        }
        traps.put_moved(memory, &[]);
        self.correct_x87(task)?;
        task.own_watches.clear();
        traps.end_giving_way();
        task.is_watched = false;
        task.breakpoint = None;
        task.guarded = Addr::NULL..Addr::NULL;
        let mut remote = Remote::new(&mut task.stopped)?;
        for (page, prot) in &self.guarded {
            remote.must("protect text as before", libc::SYS_mprotect, [page.0, PAGE, *prot, 0, 0, 0])?;
        }
        let args = [self.pages.0, (place::CODE_PAGES + 1) * PAGE, 0, 0, 0, 0];
        remote.must("unmap the pages of a breakpoint", libc::SYS_munmap, args)?;
        remote.finish()
    }

    fn data(&self) -> Addr {
        self.pages + place::CODE_PAGES * PAGE
    }
}

/// So many watches, at most, that cover these at most 24 bytes, if possible without more than them. None:
/// more are needed.
fn watched(range: &Range<Addr>, room: usize) -> Option<Vec<Watch>> {
    let exact = Watch::cover(range.start, range.end - range.start, Access::Any);
    let words = Addr::steps(range.start - range.start.0 % 8..range.end, 8);
    let words = words.map(|addr| Watch { addr, len: 8, access: Access::Any }).collect();
    [exact, words].into_iter().find(|watches: &Vec<Watch>| watches.len() <= room)
}

impl Seek {
    /// Is this in the code that looks whether the task is there, where its registers are not the program's?
    pub(crate) fn is_looking(&self, rip: Addr) -> bool {
        let Seek::Patched(it) = self else { return false };
        let is_ours = (it.pages..it.pages + place::CODE_PAGES * PAGE).contains(&rip);
        is_ours && !it.made.copies.iter().any(|(_, copy)| *copy == rip.0)
    }

    /// The task is to be stopped and looked at by others, too: a breakpoint in the text gives way to a debug
    /// register.
    pub(crate) fn stand_aside(
        &mut self,
        task: &mut Task,
        memory: &Memory,
        pause: &Pause,
        traps: &mut Traps,
    ) -> Result<(), TraceeError> {
        let Seek::Patched(it) = self else { return Ok(()) };
        let regs = task.regs()?;
        let rip = it.made.copies.iter().find(|(_, copy)| *copy == regs.rip).map(|(original, _)| *original);
        if let Some(rip) = rip {
            task.set_regs(&Registers { rip, ..regs })?;
        }
        it.take_away(task, memory, traps)?;
        let has_point = traps.has_point_in(Addr(it.span.start())..Addr(it.span.end()));
        // In front of the jump, the task has not been looked at.
        *self = Self::begin(task, pause, true, rip.is_some())?;
        if has_point {
            // It may stop the task each time.
            self.delay_jump();
        }
        Ok(())
    }

    /// A jump is tried when it has cost as much to do without one.
    fn delay_jump(&mut self) {
        if let Seek::Register { next, .. } = self {
            *next = STOPS_OF_A_JUMP;
        }
    }

    /// Watches have given their registers to a jump, and the faults at their pages have cost as much as all
    /// stops before it. So it goes on with stops, twice as many until the next jump: where the task works on
    /// such a page, and seldom comes to the place, these are what takes it there.
    pub(crate) fn give_up_jump(
        &mut self,
        task: &mut Task,
        memory: &Memory,
        pause: &Pause,
        traps: &mut Traps,
    ) -> Result<(), TraceeError> {
        let Seek::Patched(it) = &*self else { return Ok(()) };
        let before = it.stops;
        if self.is_looking(task.regs()?.ip()) {
            // The next fault is one too many as well.
            return Ok(());
        }
        self.stand_aside(task, memory, pause, traps)?;
        tracing::debug!(task = %task.ours, before, "watches have their registers back");
        if let Seek::Register { stops, next } = self {
            (*stops, *next) = (before, 2 * before);
        }
        Ok(())
    }

    /// Sets the breakpoint. `task` is stopped anywhere in its program. `was_checked`: if that is the place,
    /// it was looked at in vain.
    pub(crate) fn begin(
        task: &mut Task,
        pause: &Pause,
        may_jump: bool,
        was_checked: bool,
    ) -> Result<Seek, TraceeError> {
        let regs = task.regs()?;
        // What a search before has left of the flag goes, too: a hypervisor that executes an instruction for
        // the task (cpuid) may leave it set behind that, where this place may be.
        let flag = if regs.rip == pause.regs.rip && was_checked { RESUME_FLAG } else { 0 };
        if regs.eflags & RESUME_FLAG != flag {
            task.set_regs(&Registers { eflags: regs.eflags & !RESUME_FLAG | flag, ..regs })?;
        }
        task.own_watches = vec![Watch::execute(pause.regs.ip())];
        task.breakpoint = Some(Breakpoint::Register(pause.regs.rip));
        Ok(Seek::Register { stops: 0, next: if may_jump { 1 } else { u64::MAX } })
    }

    /// What a search that stands aside has in the task's registers is taken away: it begins anew another
    /// time.
    pub(crate) fn put_off(task: &mut Task) {
        task.own_watches.clear();
        task.breakpoint = None;
    }

    /// The task stands at the place, in vain: puts the breakpoint into its text, if that is possible.
    fn patch(
        task: &mut Task,
        memory: &Memory,
        pause: &Pause,
        (traps, stops): (&mut Traps, u64),
    ) -> Result<Option<Seek>, TraceeError> {
        let start = pause.regs.rip;
        let span = span_at(pause.regs.bits(), Addr(start), |addr, len| traps.read(memory, addr, len));
        let Some(span) = span else {
            tracing::debug!(task = %task.ours, start = format_args!("{start:#x}"), "no jump can be there");
            return Ok(None);
        };
        let text = Addr(start)..Addr(span.end());
        // An instruction that reads the text is to be noticed.
        let sp = pause.regs.sp();
        let Some(rooms) = traps.room_for_jump(&text, sp) else { return Ok(None) };
        let watches = rooms.into_iter().find_map(|room| watched(&text, room));
        let Some(watches) = watches else { return Ok(None) };
        // A count of the driver's is in the text that would give way. (One behind it counts as ever.)
        if traps.counts_in(&text) {
            return Ok(None);
        }
        let mappings = maps::read(task.ours)?;
        let sure = span.bytes() == pause.span;
        let Some(code) = place::room_beside(&mappings, &task.to_be_mapped(), &span, sure) else {
            tracing::debug!(task = %task.ours, ?span, "no room for a jump");
            return Ok(None);
        };
        let pages = code.page_floor();
        let data = pages + place::CODE_PAGES * PAGE;
        let Some(guarded) = pages_to_guard(&text, &mappings) else { return Ok(None) };
        let condition = condition_at(&pause.regs, &task.regs()?);
        let Ok(made) = conditional(&span, code.0, data.0, &condition) else { return Ok(None) };
        // Breakpoints go along with their instructions; not with the first, which is the jump's place.
        let has_points = traps.has_point_in(text.clone());
        if has_points && !(guarded.is_empty() && traps.can_move(text.clone(), &made.copies)) {
            return Ok(None);
        }
        Seek::make_room(task, pages, &guarded)?;
        memory.write(code, &made.code)?;
        memory.write(data, &made.data)?;
        traps.lift_moved(memory, &made.copies)?;
        memory.write(Addr(start), &made.patch)?;
        traps.put_moved(memory, &made.copies);
        let stops = stops.max(STOPS_OF_A_JUMP);
        traps.give_way(watches.len(), (&text, sp), stops / STOPS_OF_A_FAULT);
        task.own_watches = watches;
        task.is_watched = true;
        tracing::debug!(task = %task.ours, ?span, "a jump takes the place of a breakpoint");
        task.breakpoint = Some(Breakpoint::Int3(Addr(made.hit)));
        Ok(Some(Seek::Patched(Box::new(Patched { span, made, condition, code, pages, guarded, stops }))))
    }

    /// Maps the pages that a jump leads to, and guards those of its text that can be written.
    fn make_room(task: &mut Task, pages: Addr, guarded: &[(Addr, u64)]) -> Result<(), TraceeError> {
        let mut remote = Remote::new(&mut task.stopped)?;
        place::map_room(&mut remote, pages, "map a page for a breakpoint")?;
        for (page, prot) in guarded {
            let args = [page.0, PAGE, prot & !u64::from(libc::PROT_WRITE.cast_unsigned()), 0, 0, 0];
            remote.must("protect the text of a breakpoint", libc::SYS_mprotect, args)?;
        }
        remote.finish()?;
        if let (Some((first, _)), Some((last, _))) = (guarded.first(), guarded.last()) {
            task.guarded = *first..*last + PAGE;
        }
        Ok(())
    }

    /// The registers that the task has at the breakpoint, for those that it was found with.
    pub(crate) fn true_registers(&self, memory: &Memory, regs: Registers) -> Result<Registers, TraceeError> {
        match self {
            Seek::Register { .. } => Ok(regs),
            Seek::Patched(it) => {
                let eflags = Conditional::flags(regs.eflags, memory.read_u64(it.data() + 8)?);
                let regs = Registers { rip: it.span.start(), eflags, ..regs };
                Ok(if it.span.is_narrow() { regs.narrow() } else { regs })
            }
        }
    }

    /// The task stands at the breakpoint, and it is not the place: lets it go on past it. What was different
    /// becomes a part of the condition, so that it will not be stopped for that again. `loose`: as in
    /// [`How::loose`](crate::learnt::How::loose).
    pub(crate) fn pass(
        &mut self,
        task: &mut Task,
        memory: &Memory,
        (pause, loose): (&Pause, bool),
        traps: &mut Traps,
    ) -> Result<(), TraceeError> {
        let it = match self {
            Seek::Patched(it) => it,
            Seek::Register { stops, next } => {
                *stops += 1;
                if stops < next {
                    return Ok(());
                }
                // Other code may come to be there, or room for a jump.
                *next = 2 * *stops;
                if let Some(patched) = Self::patch(task, memory, pause, (traps, *stops))? {
                    *self = patched;
                }
                return Ok(());
            }
        };
        let data = it.data();
        let Patched { span, made, condition, code, .. } = &mut **it;
        let regs = task.regs()?;
        let held = pause.held.iter().filter(|piece| !(loose && place::is_left(piece, pause.regs.sp())));
        let word = place::first_difference(|addr, len| traps.read(memory, addr, len), held);
        let is_new = if let Some(word) = word {
            // The program itself would see the driver's breakpoints, and counts; and the driver would hear of
            // what it reads.
            let range = word.0..word.0 + WORD;
            let is_plain =
                !traps.has_point_in(range.clone()) && !traps.counts_in(&range) && !traps.hears_reads(&range);
            is_plain && condition.words.len() < Conditional::CHECKS_MAX && {
                condition.words.push((word.0.0, word.1));
                true
            }
        } else if condition.extended.len() < Conditional::CHECKS_MAX && is_x86_feature_detected!("xsave") {
            let different = place::extended_difference(&task.extended()?, &pause.extended, loose);
            condition.extended.extend(different);
            different.is_some()
        } else {
            false
        };
        if is_new && let Ok(new) = conditional(span, code.0, data.0, condition) {
            // The first two words are the program's.
            memory.write(data + 16, new.data.get(16..).unwrap_or_default())?;
            traps.lift_moved(memory, &[])?;
            memory.write(*code, &new.code)?;
            traps.put_moved(memory, &new.copies);
            task.breakpoint = Some(Breakpoint::Int3(Addr(new.hit)));
            *made = new;
        }
        task.set_regs(&Registers { rip: made.miss, ..regs })
    }

    /// Did the task fault because of the breakpoint alone? Then it goes on as it should: past a condition
    /// that read what is not mapped yet; or with a write to the text, of which the breakpoint is taken away
    /// for that.
    pub(crate) fn forgive(
        &mut self,
        task: &mut Task,
        memory: &Memory,
        pause: &Pause,
        (info, regs): (SigInfo, &Registers),
        traps: &mut Traps,
    ) -> Result<bool, TraceeError> {
        let Seek::Patched(it) = self else { return Ok(false) };
        if info.signal() == Signal::SEGV && task.guarded.contains(&info.addr()) {
            let original = it.made.copies.iter().find(|(_, copy)| *copy == regs.rip);
            let rip = original.map_or(regs.rip, |(original, _)| *original);
            let was_checked = original.is_some();
            task.set_regs(&Registers { rip, ..*regs })?;
            it.take_away(task, memory, traps)?;
            tracing::debug!(task = %task.ours, "the program writes where a breakpoint is");
            *self = Self::begin(task, pause, true, was_checked)?;
            self.delay_jump();
            return Ok(true);
        }
        if !(it.made.checks..it.made.hit).contains(&regs.rip) {
            return Ok(false);
        }
        task.set_regs(&Registers { rip: it.made.miss, ..*regs })?;
        Ok(true)
    }

    /// Takes the breakpoint away. A task that stands at it has its `true_registers` set before.
    pub(crate) fn end(
        self,
        task: &mut Task,
        memory: &Memory,
        place: &Place,
        traps: &mut Traps,
    ) -> Result<(), TraceeError> {
        task.breakpoint = None;
        if place.found == Found::Dead {
            traps.end_giving_way();
            return Ok(());
        }
        match self {
            Seek::Register { .. } => {
                task.own_watches.clear();
                Ok(())
            }
            Seek::Patched(it) => it.take_away(task, memory, traps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, prot: u32, shared: bool) -> Mapping {
        let (start, name) = (Addr(start), Vec::new());
        Mapping { start, end: start + 2 * PAGE, prot, shared, offset: 0, device: (0, 0), inode: 0, name }
    }

    #[test]
    fn the_pages_of_a_text_that_can_be_written_are_guarded() {
        let of = |mappings: &[Mapping]| pages_to_guard(&(Addr(0x1ffe)..Addr(0x3002)), mappings);
        let (reads, writes) = (mapping(0x1000, 5, false), mapping(0x3000, 7, false));
        assert_eq!(of(&[reads.clone(), writes.clone()]), Some(vec![(Addr(0x3000), 7)]));
        assert_eq!(of(std::slice::from_ref(&reads)), Some(Vec::new()));
        let writes_all = mapping(0x1000, 7, false);
        assert_eq!(of(&[writes_all]), Some(vec![(Addr(0x1000), 7), (Addr(0x2000), 7)]));
        assert_eq!(of(&[reads, mapping(0x3000, 5, true)]), None, "others may write it");
    }

    #[test]
    fn what_differs_now_is_compared_first() {
        let wanted = Registers { rbx: 1, eflags: 2, ..Registers::default() };
        let condition = condition_at(&wanted, &Registers::default());
        assert_eq!((condition.registers, condition.flags), (wanted.general(), 2));
        assert_eq!(condition.first.len(), 1);
        assert!(condition_at(&wanted, &wanted).first.is_empty());
    }
}
