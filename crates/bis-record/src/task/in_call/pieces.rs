//! Which memory a call touches, and where that lies during the call. A value.

use bis_syscalls::{Plan, When};
use bis_trace::types::Addr;

use crate::{slow::PageHashes, space::Place};

#[derive(Default, Debug)]
pub struct Pieces {
    plan: Plan,
    lie: Lie,
}

/// Where the pieces of the plan lie.
#[derive(Default, Debug)]
enum Lie {
    #[default]
    AtHome,
    /// At home; and here is what the call writes when it is interrupted, with what was there at its entry.
    AtHomeWithRest(Addr, Vec<u8>),
    InScratch(Vec<Place>),
    /// There is no plan: all memory is compared with what it was before the call.
    Compared(PageHashes),
}

impl Pieces {
    /// The pieces of this plan, at home.
    pub fn planned(plan: Plan) -> Pieces {
        Pieces { plan, lie: Lie::AtHome }
    }

    /// Nobody knows what the call writes: all memory was this before it.
    pub fn compared(before: PageHashes) -> Pieces {
        Pieces { plan: Plan::default(), lie: Lie::Compared(before) }
    }

    /// The call is made with its pieces at these places.
    pub fn move_to_scratch(&mut self, places: Vec<Place>) {
        self.lie = Lie::InScratch(places);
    }

    /// What was there at the call's entry, where it writes when it is interrupted.
    pub fn keep_rest(&mut self, addr: Addr, bytes: Vec<u8>) {
        self.lie = Lie::AtHomeWithRest(addr, bytes);
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where a piece of the plan lies during the call.
    pub fn place(&self, piece: usize) -> Addr {
        self.in_scratch(piece).map_or(self.home(piece), |place| place.addr)
    }

    /// Where the program has it.
    pub fn home(&self, piece: usize) -> Addr {
        Addr(self.plan.pieces[piece].home)
    }

    /// Its place in scratch memory, if the call's pieces lie there.
    pub fn in_scratch(&self, piece: usize) -> Option<&Place> {
        match &self.lie {
            Lie::InScratch(places) => Some(&places[piece]),
            _ => None,
        }
    }

    pub fn are_in_scratch(&self) -> bool {
        matches!(self.lie, Lie::InScratch(_))
    }

    /// All memory before the call, if it is compared.
    pub fn before(&self) -> Option<&PageHashes> {
        match &self.lie {
            Lie::Compared(before) => Some(before),
            _ => None,
        }
    }

    /// Where the call writes if it is interrupted (address, bytes), if what is there now is to be kept.
    pub fn rest_to_keep(&self) -> Option<(Addr, u64)> {
        let rest = self.plan.pieces.iter().find(|piece| piece.when == When::Interrupted);
        let rest = rest.filter(|_| matches!(self.lie, Lie::AtHome));
        rest.map(|piece| (Addr(piece.home), piece.len))
    }

    /// The call comes to its end: what was kept.
    pub fn take_rest(&mut self) -> Option<(Addr, Vec<u8>)> {
        match std::mem::take(&mut self.lie) {
            Lie::AtHomeWithRest(addr, bytes) => Some((addr, bytes)),
            other => {
                self.lie = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bis_syscalls::{Dir, Piece, Slot, Written};

    use super::*;

    fn pieces() -> Pieces {
        let piece = Piece {
            home: 0x1000,
            len: 16,
            dir: Dir::Out,
            slot: Slot::Arg(1),
            written: Written::All,
            when: When::Interrupted,
            fixed: false,
        };
        Pieces::planned(Plan { pieces: vec![piece] })
    }

    #[test]
    fn pieces_lie_at_home_until_they_are_moved() {
        let mut pieces = pieces();
        assert_eq!((pieces.place(0), pieces.home(0)), (Addr(0x1000), Addr(0x1000)));
        pieces.move_to_scratch(vec![Place { addr: Addr(0x9000), before: None }]);
        assert_eq!((pieces.place(0), pieces.home(0)), (Addr(0x9000), Addr(0x1000)));
        assert!(pieces.are_in_scratch() && pieces.in_scratch(0).is_some());
        assert_eq!(pieces.rest_to_keep(), None, "it is written to scratch");
    }

    #[test]
    fn a_rest_is_kept_once_and_taken_once() {
        let mut pieces = pieces();
        assert_eq!(pieces.take_rest(), None);
        assert_eq!(pieces.rest_to_keep(), Some((Addr(0x1000), 16)));
        pieces.keep_rest(Addr(0x1000), vec![7]);
        assert_eq!(pieces.rest_to_keep(), None);
        assert_eq!(pieces.place(0), Addr(0x1000));
        assert_eq!(pieces.take_rest(), Some((Addr(0x1000), vec![7])));
        assert_eq!(pieces.take_rest(), None);
    }

    #[test]
    fn scratch_memory_is_not_taken_for_a_rest() {
        let mut pieces = pieces();
        pieces.move_to_scratch(vec![Place { addr: Addr(0x9000), before: None }]);
        assert_eq!(pieces.take_rest(), None);
        assert!(pieces.are_in_scratch());
    }

    #[test]
    fn what_is_compared_has_no_plan() {
        let pieces = Pieces::compared(PageHashes::default());
        assert!(pieces.before().is_some() && pieces.plan().pieces.is_empty());
    }
}
