//! What the driver watches: in debug registers as far as there is room, else by the pages that it is on.

use std::ops::Range;

use bis_trace::types::{Addr, PAGE};
use bis_tracee::debug::{self, Access, Triggered, Watch};

use super::Traps;
use crate::areas::{Areas, Piece};

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

/// Can this be watched by its page beside a jump in this text? What works near the stack pointer would fault
/// there in each round of a loop, which takes longer than the search does without a jump.
fn can_give_way(piece: &Piece, text: &Range<Addr>, sp: Addr) -> bool {
    let around = Addr(sp.0.saturating_sub(PAGE))..sp.saturating_add(PAGE);
    let Piece::Pages(area) = piece.without_register() else { return false };
    piece.has_register() && !area.is_on_pages_of(text) && !area.is_on_pages_of(&around)
}

impl Traps {
    /// What tasks watch beside what they need themselves, with so many debug registers at most.
    pub(crate) fn set_watches(&mut self, wanted: &[Piece], room: usize, is_at_event: bool) {
        if self.watches != wanted {
            self.fitting = fitting(wanted, room);
            (self.given_way, self.faults_left) = (None, None);
            self.areas = Areas::of(&self.fitting).with_text_of(&self.areas);
            self.watches = wanted.to_vec();
            self.triggers = 0;
            self.are_watches_late = !is_at_event;
        }
    }

    pub fn watches(&self) -> &[Piece] {
        &self.watches
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

    /// How many debug registers a search can have that jumps out of this text, for a pause with this stack
    /// pointer: those that are free, and those that there are where watches give way to it. None: the text is
    /// watched, or its page may be guarded.
    ///
    /// Other pages may be. An instruction that touches one of them faults and is executed alone, wherever it
    /// is; and where a watch stops a task among the copies of what has given way to a jump, the search puts
    /// it into the program's own text.
    pub(crate) fn room_for_jump(&self, text: &Range<Addr>, sp: Addr) -> Option<[usize; 2]> {
        let pages = text.start.page_floor()..text.end.page_ceil();
        let is_there = |piece: &Piece| match piece {
            Piece::Register(watch) => watch.access == Access::Execute,
            Piece::Pages(area) => area.is_on_pages_of(&pages),
        };
        if self.fitting.iter().any(is_there) {
            return None;
        }
        let registers: Vec<&Piece> = self.fitting.iter().filter(|piece| piece.has_register()).collect();
        let staying = registers.iter().filter(|piece| !can_give_way(piece, text, sp)).count();
        Some([registers.len(), staying].map(|used| debug::COUNT.saturating_sub(used)))
    }

    /// A search that jumps out of this text has so many debug registers from now on. Watches that had them
    /// are told of by their pages meanwhile, at the same instructions. After so many faults there, the task
    /// stops as [`Found::TooManyFaults`](crate::task::Found::TooManyFaults).
    pub(crate) fn give_way(&mut self, own: usize, (text, sp): (&Range<Addr>, Addr), faults: u64) {
        let used = self.in_registers().count();
        let mut missing = (used + own).saturating_sub(debug::COUNT);
        if missing == 0 {
            return;
        }
        let giving = |piece: &Piece| {
            if missing == 0 || !can_give_way(piece, text, sp) {
                return *piece;
            }
            missing -= 1;
            piece.without_register()
        };
        let fitting = self.fitting.iter().map(giving).collect();
        self.given_way = Some(std::mem::replace(&mut self.fitting, fitting));
        self.faults_left = Some(faults);
        self.areas = Areas::of(&self.fitting).with_text_of(&self.areas);
    }

    /// The search has no jump any more: watches have their registers back.
    pub(crate) fn end_giving_way(&mut self) {
        if let Some(fitting) = self.given_way.take() {
            self.faults_left = None;
            self.fitting = fitting;
            self.areas = Areas::of(&self.fitting).with_text_of(&self.areas);
        }
    }

    /// A guarded page was touched. Where watches have given way to a search: were these faults too many?
    pub(crate) fn count_fault(&mut self) -> bool {
        self.faults_left = self.faults_left.map(|left| left.saturating_sub(1));
        self.faults_left == Some(0)
    }

    /// Would the driver hear of an instruction that reads there, or would it at least fault?
    pub(crate) fn hears_reads(&self, range: &Range<Addr>) -> bool {
        let is_heard = |piece: &Piece| match piece {
            Piece::Register(watch) => {
                let end = watch.addr.saturating_add(watch.len.into());
                watch.access == Access::Any && watch.addr < range.end && range.start < end
            }
            Piece::Pages(area) => area.access == Access::Any && area.is_on_pages_of(range),
        };
        self.fitting.iter().any(is_heard)
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
}

#[cfg(test)]
mod tests {
    use bis_tracee::debug::{Access, Watch};

    use super::*;
    use crate::areas::Area;

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

    #[test]
    fn watches_give_way_to_a_jump_where_their_pages_can_be_guarded() {
        let watch = |addr, access| Piece::Register(Watch { addr: Addr(addr), len: 8, access });
        let area = |addr, access| Piece::Pages(Area { addr: Addr(addr), len: 64, access, unchanged: false });
        let (text, sp) = (Addr(0x8ffc)..Addr(0x9001), Addr(0x3_0800));
        let of = |wanted: &[Piece]| {
            let mut traps = Traps::default();
            traps.set_watches(wanted, debug::COUNT, true);
            traps
        };
        // One on the stack, and one on the text's page, keep their registers.
        let wanted = [0x3_0ff8, 0x9ff8, 0x2_0000].map(|addr| watch(addr, Access::Write));
        let mut traps = of(&wanted);
        assert_eq!(traps.room_for_jump(&text, sp), Some([1, 2]));
        traps.give_way(1, (&text, sp), 2);
        assert_eq!(traps.fitting, wanted);
        assert!(!traps.count_fault() && !traps.count_fault());
        traps.give_way(2, (&text, sp), 2);
        assert_eq!(traps.fitting, [wanted[0], wanted[1], wanted[2].without_register()]);
        assert!(!traps.areas.is_empty());
        assert!(!traps.count_fault() && traps.count_fault());
        traps.end_giving_way();
        assert_eq!(traps.fitting, wanted);
        assert!(traps.areas.is_empty());
        // Guarded pages are beside a jump where they are not its own.
        assert_eq!(of(&[area(0x2_0000, Access::Any)]).room_for_jump(&text, sp), Some([4, 4]));
        assert_eq!(of(&[area(0x9fc8, Access::Write)]).room_for_jump(&text, sp), None);
        assert_eq!(of(&[area(0x7fc8, Access::Write)]).room_for_jump(&text, sp), None);
        assert_eq!(of(&[watch(0x2_0000, Access::Execute)]).room_for_jump(&text, sp), None);
    }

    #[test]
    fn a_read_is_heard_of_on_all_of_a_guarded_page() {
        let hears = |piece: Piece, at: u64| {
            let mut traps = Traps::default();
            traps.set_watches(&[piece], debug::COUNT, true);
            traps.hears_reads(&(Addr(at)..Addr(at + 8)))
        };
        let watch = |access| Piece::Register(Watch { addr: Addr(0x1000), len: 8, access });
        assert!(hears(watch(Access::Any), 0x1007) && !hears(watch(Access::Any), 0x1008));
        assert!(!hears(watch(Access::Write), 0x1000));
        assert!(hears(watch(Access::Any).without_register(), 0x1ff0));
        assert!(!hears(watch(Access::Write).without_register(), 0x1000));
    }
}
