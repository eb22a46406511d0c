//! A program that goes on only as far as its guide lets it ([`crate::guide`]): what a domain knows of that.
//!
//! Breakpoints are `int3` in memory, and watches debug registers, only while a task executes the program:
//! they are put in when it goes on (`points.rs`), and taken out when it reports, before anybody looks at
//! memory. So nothing of them is in the trace, in a forked child, or in what the kernel reads of the program.
//! At one, the task gets a pause: the first of a domain's arrivals at an address since its last event has
//! that address and those registers, so replay cannot take another place for it.
//!
//! Where the program stands still (`stops.rs`), every task's place is described by events.

mod points;
mod stops;

use std::collections::BTreeMap;

use bis_trace::types::{Addr, Tid};
use bis_tracee::debug::{DebugRegisters, Triggered};

use crate::guide::{Guide, Points, Wish};

/// What a domain knows of its guide.
#[derive(Debug)]
pub struct Guided {
    guide: Guide,
    points: Points,
    /// What is in for the task that runs.
    armed: Option<Armed>,
    /// What was in for the task that has run last, and what has triggered.
    was_armed: Option<Armed>,
    /// This task executes one instruction.
    step: Option<Tid>,
    /// How many events the domain had had when the program went on.
    count: u64,
    /// The guide knows that this task stands at this address.
    told: Option<(Tid, u64)>,
    /// What the watched bytes held when the program went on.
    values: Vec<Vec<u8>>,
    /// The program is to stand still as soon as all tasks' places are described.
    is_due: bool,
    /// The guide has left.
    is_free: bool,
}

/// What is in for a task.
#[derive(Debug)]
struct Armed {
    tid: Tid,
    /// The bytes that have given way to an `int3`.
    bytes: BTreeMap<Addr, u8>,
    registers: DebugRegisters,
    triggered: Triggered,
    /// The signals that the task blocks: the kernel unblocks SIGTRAP where an `int3` meets it blocked.
    mask: u64,
}

impl Guided {
    /// The program stands in front of its first instruction.
    pub fn new(guide: Guide) -> Guided {
        Guided {
            guide,
            points: Points::default(),
            armed: None,
            was_armed: None,
            step: None,
            count: 0,
            told: None,
            values: Vec::new(),
            is_due: true,
            is_free: false,
        }
    }

    /// Something has happened that the guide hears of at once.
    pub fn let_hear(&mut self) {
        self.is_due = true;
    }

    /// Does the guide want the program to stop?
    fn is_asked(&self) -> bool {
        !self.is_free && self.guide.is_asking()
    }

    /// Is there nothing to be put in for a task that goes on?
    fn has_no_points(&self) -> bool {
        self.is_free || self.points.breakpoints.is_empty() && self.points.watches.is_empty()
    }

    /// The task goes on: the address of the breakpoint, if there is one still, at which the guide knows that
    /// it stood.
    fn take_told(&mut self, tid: Tid) -> Option<u64> {
        let told = self.told.take_if(|told| told.0 == tid).map(|(_, rip)| rip);
        told.filter(|rip| self.points.breakpoints.contains(&Addr(*rip)))
    }

    /// The task stands here, and the guide hears of it.
    fn tell_place(&mut self, tid: Tid, rip: u64) {
        self.told = Some((tid, rip));
        self.is_due = true;
    }

    /// Is the program, which could, to stand still now? It has had so many events; the task that was to make
    /// a step is there still, or not; and the watched bytes hold these values.
    fn is_to_stand(
        &self,
        count: u64,
        is_there: impl FnOnce(Tid) -> bool,
        values: impl FnOnce() -> Vec<Vec<u8>>,
    ) -> bool {
        if self.is_free {
            return false;
        }
        let each_event = self.points.each_event || self.step.is_some();
        let is_over = each_event && count > self.count || self.step.is_some_and(|tid| !is_there(tid));
        self.is_due || is_over || self.is_asked() || values() != self.values
    }

    /// The program has had so many events, and goes on as the guide wishes. True: to its end at once.
    fn follow(&mut self, wish: Wish, count: u64) -> bool {
        (self.is_due, self.step, self.count) = (false, None, count);
        let kills = wish == Wish::Kill;
        match wish {
            Wish::Run(wanted) => self.points = wanted,
            Wish::Step(tid, wanted) => (self.points, self.step) = (wanted, Some(tid)),
            // It stands still on.
            Wish::Write(..) => {}
            Wish::Free | Wish::Kill => self.is_free = true,
        }
        kills
    }
}

/// What a SIGTRAP means for the points that were in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Point {
    /// The task has come to a breakpoint, at this address.
    Breakpoint(u64),
    /// It has touched what is watched.
    Watch,
}

impl Armed {
    /// The task has got SIGTRAP here, from an `int3` or not. None: not by these points.
    fn point(&self, tid: Tid, rip: u64, is_breakpoint: bool) -> Option<Point> {
        if self.tid != tid {
            return None;
        }
        let addr = rip.wrapping_sub(1);
        if is_breakpoint {
            return self.bytes.contains_key(&Addr(addr)).then_some(Point::Breakpoint(addr));
        }
        self.triggered.any().then_some(Point::Watch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use bis_trace::event::MemWrite;

    use super::*;
    use crate::guide::{Guiding, Stand};

    const TID: Tid = Tid(7);
    const AT: u64 = 0x1000;

    #[derive(Default)]
    struct Asks(AtomicBool);

    impl Guiding for Asks {
        fn next(&self, _: &Stand, _: &dyn Fn() -> bool) -> Wish {
            Wish::Free
        }

        fn is_asking(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn ended(&self) {}
    }

    fn points() -> Points {
        Points { breakpoints: vec![Addr(AT)], ..Points::default() }
    }

    /// A program that goes on, after ten events.
    fn guided(wish: Wish) -> (Guided, Arc<Asks>) {
        let asks = Arc::new(Asks::default());
        let mut guided = Guided::new(Guide::new(asks.clone()));
        assert!(guided.is_to_stand(0, |_| true, Vec::new), "it stands in front of its first instruction");
        assert!(!guided.follow(wish, 10));
        (guided, asks)
    }

    #[test]
    fn a_program_runs_until_something_has_happened_of_which_the_guide_is_to_hear() {
        let (mut guided, asks) = guided(Wish::Run(points()));
        assert!(!guided.is_to_stand(11, |_| false, Vec::new));
        asks.0.store(true, Ordering::Relaxed);
        assert!(guided.is_to_stand(11, |_| true, Vec::new));
        asks.0.store(false, Ordering::Relaxed);
        guided.tell_place(TID, AT);
        assert!(guided.is_to_stand(11, |_| true, Vec::new));
        assert!(!guided.follow(Wish::Run(points()), 11));
        assert!(!guided.is_to_stand(12, |_| true, Vec::new), "the guide has heard of it");
        guided.let_hear();
        assert!(guided.is_to_stand(12, |_| true, Vec::new));
    }

    #[test]
    fn a_guide_that_wants_each_event_hears_of_the_next_one() {
        let (guided, _) = guided(Wish::Run(Points { each_event: true, ..points() }));
        assert!(!guided.is_to_stand(10, |_| true, Vec::new) && guided.is_to_stand(11, |_| true, Vec::new));
    }

    #[test]
    fn a_step_is_over_when_it_has_an_event_or_when_its_task_is_gone() {
        let (guided, _) = guided(Wish::Step(TID, points()));
        assert_eq!(guided.step, Some(TID));
        assert!(!guided.is_to_stand(10, |_| true, Vec::new) && guided.is_to_stand(11, |_| true, Vec::new));
        assert!(guided.is_to_stand(10, |tid| tid != TID, Vec::new));
    }

    #[test]
    fn a_watched_value_that_has_changed_stops_the_program_whoever_has_written_it() {
        let (mut guided, _) = guided(Wish::Run(points()));
        guided.values = vec![vec![1, 2], vec![3]];
        assert!(!guided.is_to_stand(11, |_| true, || vec![vec![1, 2], vec![3]]));
        assert!(guided.is_to_stand(11, |_| true, || vec![vec![1, 2], vec![4]]));
        assert!(guided.is_to_stand(11, |_| true, || vec![vec![1, 2], vec![]]), "it is not mapped any more");
    }

    #[test]
    fn a_guide_that_has_left_is_asked_no_more() {
        for (wish, kills) in [(Wish::Free, false), (Wish::Kill, true)] {
            let (mut guided, asks) = guided(Wish::Step(TID, points()));
            assert_eq!(guided.follow(wish, 10), kills);
            asks.0.store(true, Ordering::Relaxed);
            guided.let_hear();
            assert!(!guided.is_asked() && guided.has_no_points());
            assert!(!guided.is_to_stand(20, |_| false, || vec![vec![1]]));
        }
    }

    #[test]
    fn what_a_guide_writes_leaves_its_points_as_they_are() {
        let (mut guided, _) = guided(Wish::Run(points()));
        let write = MemWrite { addr: Addr(AT), data: vec![1] };
        assert!(!guided.follow(Wish::Write(TID, write), 11));
        assert_eq!((guided.points.clone(), guided.step), (points(), None));
        assert!(!guided.has_no_points());
    }

    #[test]
    fn a_task_goes_past_a_breakpoint_once_of_which_the_guide_knows() {
        let (mut guided, _) = guided(Wish::Run(points()));
        assert_eq!(guided.take_told(TID), None);
        guided.tell_place(TID, AT);
        assert_eq!(guided.take_told(Tid(8)), None, "another task stops there");
        assert_eq!((guided.take_told(TID), guided.take_told(TID)), (Some(AT), None));
        guided.tell_place(TID, AT);
        assert!(!guided.follow(Wish::Run(Points::default()), 11));
        assert_eq!(guided.take_told(TID), None, "there is none any more");
    }

    #[test]
    fn a_trap_is_at_a_point_of_the_task_for_which_it_was_put_in() {
        let armed = Armed {
            tid: TID,
            bytes: [(Addr(AT), 0x90)].into(),
            registers: DebugRegisters::default(),
            triggered: Triggered::default(),
            mask: 0,
        };
        assert_eq!(armed.point(TID, AT + 1, true), Some(Point::Breakpoint(AT)));
        assert_eq!(armed.point(TID, AT, true), None, "an `int3` of the program's own");
        assert_eq!(armed.point(Tid(8), AT + 1, true), None);
        assert_eq!(armed.point(TID, AT + 1, false), None, "nothing was touched");
    }
}
