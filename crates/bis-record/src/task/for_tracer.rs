//! What is between a task and its tracer, another task of the program: the task holds, and its tracer has
//! decided what becomes of its report or its call. A value; what the tracer sees is in the books
//! (`traced/books.rs`).

use std::mem;

use bis_trace::types::{Registers, Signal};

use crate::traced::Held;

/// What a call leaves alone, and a task finds behind it, as its tracer has set it at the entry. The task
/// makes its call where it stands; so these are put into its registers when the call is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// In the program's own text.
    rip: u64,
    /// rcx and r11, where the instruction of the call has changed them.
    changed: Option<(u64, u64)>,
}

impl Elsewhere {
    /// None: behind the call, as always.
    pub fn of(entry: &Registers, wanted: &Registers, is_narrow: bool) -> Option<Elsewhere> {
        let changed = (!is_narrow).then_some((wanted.rcx, wanted.r11));
        let is_as_always = wanted.rip == entry.rip && changed.is_none_or(|it| it == (entry.rcx, entry.r11));
        (!is_as_always).then_some(Elsewhere { rip: wanted.rip, changed })
    }

    /// These registers, as the task finds them.
    pub fn put(self, regs: &Registers) -> Registers {
        let (rcx, r11) = self.changed.unwrap_or((regs.rcx, regs.r11));
        Registers { rip: self.rip, rcx, r11, ..*regs }
    }
}

/// See the module's text.
#[derive(Default, Debug)]
pub struct ForTracer {
    held: Option<Held>,
    decided: Option<Option<Signal>>,
    is_skipped: bool,
    elsewhere: Option<Elsewhere>,
}

impl ForTracer {
    /// Its tracer has to let the task go on, and this is done then.
    pub fn hold(&mut self, held: Held) {
        self.held = Some(held);
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The tracer lets the task go on. None: it did not hold.
    pub fn release(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// The tracer, who has heard of the report that the task has, has decided about it: this signal, or none.
    /// None: it has decided nothing.
    pub fn decide(&mut self, decided: Option<Option<Signal>>) {
        self.decided = decided;
    }

    /// What the tracer has decided about the report that the task has. It holds for that one report.
    pub fn take_decision(&mut self) -> Option<Option<Signal>> {
        self.decided.take()
    }

    /// The tracer wants that the call at whose entry the task stands is not made.
    pub fn skip_call(&mut self) {
        self.is_skipped = true;
    }

    /// Is the call to be skipped? It is now.
    pub fn take_skip(&mut self) -> bool {
        mem::take(&mut self.is_skipped)
    }

    /// The tracer has said at the entry of a call where the task goes on behind that.
    pub fn go_elsewhere(&mut self, elsewhere: Option<Elsewhere>) {
        self.elsewhere = elsewhere;
    }

    /// Has the tracer said where the task goes on behind its call?
    pub fn goes_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// These registers, as the task finds them behind its call.
    pub fn behind_call(&self, regs: &Registers) -> Registers {
        self.elsewhere.map_or(*regs, |elsewhere| elsewhere.put(regs))
    }

    /// The call is over.
    pub fn end_call(&mut self) {
        self.elsewhere = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_task_that_holds_is_released_once() {
        let mut it = ForTracer::default();
        assert!(!it.is_held() && it.release().is_none());
        it.hold(Held::Place);
        assert!(it.is_held());
        assert_eq!((it.release(), it.release()), (Some(Held::Place), None));
    }

    #[test]
    fn a_decision_is_for_one_report() {
        let mut it = ForTracer::default();
        assert_eq!(it.take_decision(), None, "nobody has heard of the report");
        it.decide(Some(None));
        assert_eq!(it.take_decision(), Some(None), "no signal");
        assert_eq!(it.take_decision(), None);
        it.decide(Some(Some(Signal(10))));
        it.decide(None);
        assert_eq!(it.take_decision(), None, "the next stop was no report to decide about");
    }

    #[test]
    fn a_call_is_skipped_once() {
        let mut it = ForTracer::default();
        it.skip_call();
        assert!(it.take_skip() && !it.take_skip());
    }

    /// At the entry of a 64-bit call, which has put what it returns to into rcx and r11.
    fn entry() -> Registers {
        Registers { rip: 0x1002, rcx: 0x1002, r11: 0x246, rax: 39, ..Registers::default() }
    }

    #[test]
    fn what_a_tracer_sets_at_an_entry_is_found_behind_the_call_until_that_is_over() {
        let mut it = ForTracer::default();
        let behind = Registers { rax: 7, ..entry() };
        assert_eq!(it.behind_call(&behind), behind);
        let wanted = Registers { rip: 0x5000, rcx: 1, rax: 5, ..entry() };
        it.go_elsewhere(Elsewhere::of(&entry(), &wanted, false));
        assert!(it.goes_elsewhere());
        // The result is the call's.
        assert_eq!(it.behind_call(&behind), Registers { rip: 0x5000, rcx: 1, ..behind });
        it.end_call();
        assert!(!it.goes_elsewhere());
        assert_eq!(it.behind_call(&behind), behind);
    }

    #[test]
    fn a_32_bit_call_leaves_rcx_as_it_was_itself() {
        let wanted = Registers { rcx: 1, r11: 2, ..entry() };
        assert_eq!(Elsewhere::of(&entry(), &wanted, true), None);
        let elsewhere = Elsewhere::of(&entry(), &Registers { rip: 0x5000, ..wanted }, true).unwrap();
        assert_eq!(elsewhere.put(&entry()), Registers { rip: 0x5000, ..entry() });
    }

    proptest! {
        /// Whatever a tracer wants: the task finds those three registers so, and all others as its call has
        /// left them.
        #[test]
        fn a_task_finds_what_its_tracer_wanted(
            entry in prop::array::uniform27(any::<u64>()),
            behind in prop::array::uniform27(any::<u64>()),
            changed in prop::array::uniform3(prop::option::of(any::<u64>())),
        ) {
            let (entry, behind) = (Registers::from_words(entry), Registers::from_words(behind));
            let [rip, rcx, r11] = changed;
            let (rip, rcx) = (rip.unwrap_or(entry.rip), rcx.unwrap_or(entry.rcx));
            let wanted = Registers { rip, rcx, r11: r11.unwrap_or(entry.r11), ..entry };
            match Elsewhere::of(&entry, &wanted, false) {
                None => prop_assert_eq!(wanted, entry),
                Some(elsewhere) => {
                    let Registers { rip, rcx, r11, .. } = wanted;
                    prop_assert_eq!(elsewhere.put(&behind), Registers { rip, rcx, r11, ..behind });
                }
            }
        }
    }
}
