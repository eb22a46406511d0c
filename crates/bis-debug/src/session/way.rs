//! What is known of the way that a replica has come: where it began, and what was counted since.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bis_replay::{Ahead, Piece};
use bis_trace::types::{Addr, EventSeq};

use super::{
    Session, Trouble,
    live::Live,
    place::{Leg, Position},
    points::{Points, Values},
};

/// See the module's text.
pub(super) struct Way {
    pub from: Position,
    arrivals: BTreeMap<Addr, u64>,
    triggers: u64,
    watches: Arc<[Piece]>,
    pub values: Values,
    /// How often a condition did not hold since this event, and where.
    falses: (EventSeq, BTreeMap<Addr, u64>),
    pub trail: Option<Trail>,
    /// The last event behind which the replica has stopped for nothing that the user was told of, since the
    /// way began.
    pub was_stopped_in: Option<EventSeq>,
    /// Behind this event nothing can be counted for marks.
    pub given_up: Option<EventSeq>,
    /// After so long a mark is due.
    pub wait: Duration,
}

/// What is counted on the way, for marks in a long computation ([`super::trail`]).
#[derive(Clone, Debug)]
pub(super) struct Trail {
    pub addr: Addr,
    /// The interval in which it is.
    pub event: EventSeq,
    /// Where it began, and how many arrivals there were then.
    pub from: Position,
    pub first: u64,
    /// The processor's time when it began.
    pub begun: Duration,
    /// The next mark that is there already, and its number of arrivals.
    pub ahead: Option<(Position, u64)>,
}

/// So many stops cost less than it does to let the program test a condition by itself.
const FALSES: u64 = 16;

impl Way {
    pub(super) fn new(session: &Session<'_>, live: &Live<'_>, from: Position) -> Way {
        let traps = live.replica.traps();
        let watches = session.points.watches();
        Way {
            from,
            arrivals: traps.all_counts(),
            triggers: if traps.watches() == &*watches { traps.triggers() } else { 0 },
            values: session.points.values(&live.replica),
            falses: (EventSeq(0), BTreeMap::new()),
            trail: None,
            was_stopped_in: None,
            given_up: None,
            wait: session.history.pace(),
            watches,
        }
    }

    /// The program tests no condition by itself any more.
    pub(super) fn forget_falses(&mut self) {
        self.falses = (EventSeq(0), BTreeMap::new());
    }

    /// The position of a replica that has stopped at a breakpoint.
    pub(super) fn at_point(&self, live: &Live<'_>, addr: Addr) -> Position {
        let (event, _) = live.replica.done();
        let traps = live.replica.traps();
        let arrivals = traps.arrivals(addr);
        if event == self.from.event && !traps.has_all_arrivals(addr) {
            let n = arrivals - self.arrivals.get(&addr).copied().unwrap_or(0);
            return self.from.then(Leg::Arrive { addr, n });
        }
        let begin = Position::at(event);
        if arrivals == 0 { begin } else { begin.then(Leg::Arrive { addr, n: arrivals }) }
    }

    /// The position of a replica that has stopped at a watchpoint.
    pub(super) fn at_watch(&self, live: &Live<'_>) -> Position {
        let (event, _) = live.replica.done();
        let traps = live.replica.traps();
        let watches = Arc::clone(&self.watches);
        if event == self.from.event && !traps.has_all_triggers() {
            let n = traps.triggers() - self.triggers;
            return self.from.then(Leg::Trigger { watches, n });
        }
        Position::at(event).then(Leg::Trigger { watches, n: traps.triggers() })
    }
}

impl<'t> Session<'t> {
    /// A replica has stopped at a breakpoint whose condition does not hold. Where that happens often between
    /// two events, the program tests it by itself from here on.
    pub(super) fn count_false(
        points: &Points,
        live: &mut Live<'t>,
        way: &mut Way,
        addr: Addr,
    ) -> Result<(), Trouble> {
        let (event, _) = live.replica.done();
        if way.falses.0 != event {
            way.falses = (event, BTreeMap::new());
        }
        let count = way.falses.1.entry(addr).or_default();
        *count += 1;
        // What the program cannot test is asked of it a few times only, as the text around may change.
        if *count >= FALSES
            && count.is_power_of_two()
            && let Some(predicate) = points.predicate(addr)
        {
            live.replica.count_where(addr, &predicate, Ahead::Event)?;
        }
        Ok(())
    }
}
