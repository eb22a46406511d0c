//! What the driver watches: in debug registers as far as there is room, else by the pages that it is on.

use std::ops::Range;

use bis_trace::types::Addr;
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

impl Traps {
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
