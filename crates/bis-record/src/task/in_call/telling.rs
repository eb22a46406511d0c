//! Which events of a call are written. A value.

use std::mem;

use bis_trace::event::RangeSum;

#[derive(Debug)]
pub enum Telling {
    /// None. The sums of memory before the call go with the first one.
    Nothing(Vec<RangeSum>),
    /// That of its entry.
    Entry,
    /// All, perhaps before it returns (vfork): its return says nothing new.
    Whole,
}

impl Telling {
    pub fn new(sums: Vec<RangeSum>) -> Telling {
        Telling::Nothing(sums)
    }

    /// Its entry is written now. The sums that go with that.
    pub fn enter(&mut self) -> Vec<RangeSum> {
        let sums = self.take_sums();
        *self = Telling::Entry;
        sums
    }

    /// The call's event is written.
    pub fn end(&mut self) {
        *self = Telling::Whole;
    }

    /// An event is written that has left the task in front of the call.
    pub fn begin_again(&mut self) {
        *self = Telling::Nothing(Vec::new());
    }

    /// The sums that go with the event that comes next.
    pub fn take_sums(&mut self) -> Vec<RangeSum> {
        match self {
            Telling::Nothing(sums) => mem::take(sums),
            Telling::Entry | Telling::Whole => Vec::new(),
        }
    }

    /// Is nothing of the call in the stream yet?
    pub fn is_untold(&self) -> bool {
        matches!(self, Telling::Nothing(_))
    }

    /// Is its entry written, and its return to come?
    pub fn is_entered(&self) -> bool {
        matches!(self, Telling::Entry)
    }

    /// Is its event written?
    pub fn is_whole(&self) -> bool {
        matches!(self, Telling::Whole)
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Addr;

    use super::*;

    fn sums() -> Vec<RangeSum> {
        vec![RangeSum { addr: Addr(0x1000), len: 0x1000, sum: 7, is_stack: false }]
    }

    #[test]
    fn the_first_event_of_a_call_has_its_sums() {
        let mut telling = Telling::new(sums());
        assert!(telling.is_untold());
        assert_eq!((telling.enter(), telling.take_sums()), (sums(), Vec::new()));
        assert!(telling.is_entered() && !telling.is_untold());
        let mut telling = Telling::new(sums());
        assert_eq!(telling.take_sums(), sums());
        // Its event may still not come to be written.
        assert!(telling.is_untold());
        telling.end();
        assert!(telling.is_whole() && !telling.is_entered() && !telling.is_untold());
    }

    #[test]
    fn a_call_that_is_made_once_more_has_no_entry() {
        let mut telling = Telling::new(sums());
        telling.enter();
        telling.begin_again();
        assert!(telling.is_untold() && telling.take_sums().is_empty());
    }
}
