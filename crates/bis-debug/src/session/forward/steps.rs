//! Single steps of a task, and all steps in a range of instructions.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
};

use bis_replay::{Limit, Stop};
use bis_trace::types::{Addr, Signal, Tid};

use super::super::{
    Report, Session, Trouble, Why,
    follow::Further,
    place::{Leg, Position},
    range::{Exits, STEPS},
    trail::Due,
    way::Way,
};

impl Session<'_> {
    /// Lets a task execute one instruction, or as many as lie in this range. None: no task of this id.
    pub fn step(&mut self, tid: Tid, range: Option<(Addr, Addr)>) -> Report {
        match self.told_next.pop_front() {
            Some(report) => self.tell_now(report),
            None => self.moving(|session| session.step_range(tid, range)),
        }
    }

    /// As [`Session::step`], for a client that lets this task go on alone, as gdb does over a breakpoint: it
    /// wants to hear of no other. Those whose turn it is run first; `passed` are the signals that do not stop
    /// these. What happens to them otherwise is told when all go on: the task has its step then, and makes it
    /// later.
    pub fn step_alone(&mut self, tid: Tid, range: Option<(Addr, Addr)>, passed: BTreeSet<Signal>) -> Report {
        let is_others = |report: &Report| {
            use Why::{Breakpoint, Call, Fork, Signal, Watchpoint};
            report.tid != tid
                && matches!(
                    report.why,
                    Breakpoint { .. } | Watchpoint { .. } | Signal(_) | Call { .. } | Fork { .. }
                )
        };
        // Asked again for the step that was not made.
        let is_again = self.told_next.iter().all(is_others);
        let mut put_off = if is_again { mem::take(&mut self.told_next) } else { VecDeque::new() };
        self.passed_of_others = Some((tid, passed));
        let mut report = self.step(tid, range);
        self.passed_of_others = None;
        if is_others(&report) {
            self.tid = tid;
            put_off.push_back(mem::replace(&mut report, Report { tid, why: Why::Step }));
        }
        put_off.append(&mut self.told_next);
        self.told_next = put_off;
        report
    }

    pub(super) fn step_range(&mut self, tid: Tid, range: Option<(Addr, Addr)>) -> Result<Report, Trouble> {
        if let Some(end) = self.at_end(Some((tid, range)))? {
            return Ok(end);
        }
        // Points that were there stay: their arrivals go on being counted.
        let (points, counts) = (self.places_to_next(&self.live.replica), self.live.counts());
        self.live.replica.set_points_and_counts(&points, &counts)?;
        let watches = self.points.watches();
        self.live.replica.set_watches(&watches)?;
        self.live.replica.acknowledge();
        self.host.is_audible = true;
        let mut way = Way::new(self, &self.live, self.position.clone());
        let limit = Limit { signals: true, end: true, ..Limit::default() };
        let (mut exits, mut count) = (None, 0);
        loop {
            let from = self.position.clone();
            match self.step_live((tid, range), &limit, &mut way)? {
                Ok(()) => {}
                Err(report) => return Ok(report),
            }
            let (event, _) = self.live.replica.done();
            let base = if event == from.event { from } else { Position::at(event) };
            // Behind an event that is the step, nothing was executed.
            self.position = if self.live.replica.is_at_event() {
                Position::at(event)
            } else {
                base.then(Leg::Step { tid, n: 1 })
            };
            let registers = self.live.replica.registers(tid);
            let rip = registers.map_or(0, |registers| registers.rip);
            if let Some(why) = self.hooked_call(&self.live.replica, tid, Addr(rip)) {
                return Ok(Report { tid, why });
            }
            let in_range = range.is_some_and(|(start, end)| (start..end).contains(&Addr(rip)));
            if !in_range || self.points.breakpoints().contains(&Addr(rip)) {
                return Ok(Report { tid, why: Why::Step });
            }
            if self.stopper.take() {
                return Ok(Report { tid, why: Why::Interrupted });
            }
            count += 1;
            if count == STEPS {
                exits = range.and_then(|range| Exits::of(&self.live.replica, tid, range));
            }
            let Some(exits) = exits.clone() else { continue };
            let report = self.run_to_exit(exits)?;
            let rip = self.live.replica.registers(tid).map_or(0, |registers| registers.rip);
            let in_range = range.is_some_and(|(start, end)| (start..end).contains(&Addr(rip)));
            if report.why != Why::Step || !in_range {
                return Ok(report);
            }
            way = Way::new(self, &self.live, self.position.clone());
        }
    }

    /// One instruction of this task. The inner error is what stopped it before.
    fn step_live(
        &mut self,
        (tid, range): (Tid, Option<(Addr, Addr)>),
        limit: &Limit<'_>,
        way: &mut Way,
    ) -> Result<Result<(), Report>, Trouble> {
        loop {
            let mut event = self.peek()?;
            if event.is_none() && self.is_live() {
                if let Further::Stopped(report) = self.further(Some((tid, range)))? {
                    self.position = Position::at(self.live.replica.done().0);
                    return Ok(Err(report));
                }
                event = self.peek()?;
            }
            let before = event.as_ref().and_then(|event| event.caught_call(self));
            let is_own = event.as_ref().is_some_and(|event| event.tid == tid);
            let is_its_step = event.as_ref().is_some_and(|event| event.is_step);
            if !is_own {
                // Another task runs first: where arrivals are only counted, each would be a stop.
                let points = self.places_to_next(&self.live.replica);
                self.live.replica.set_points(&points)?;
            }
            let limit = Limit { step: is_own, each_event: true, before, ..*limit };
            let stop = match self.advance_live(&limit) {
                Ok(stop) => stop,
                Err(halt) => return Ok(Err(self.broken(halt))),
            };
            match stop {
                Stop::Stepped(_) => return Ok(Ok(())),
                Stop::Event(_) => {
                    if let Some(report) = self.at_event(way, event)? {
                        return Ok(Err(report));
                    }
                    // In the middle of what is executed in place of an instruction, that is not yet done.
                    if is_own && is_its_step && !self.live.replica.is_within(tid) {
                        return Ok(Ok(()));
                    }
                }
                Stop::Interrupted => {
                    self.stopper.interrupt.take();
                    if self.stopper.take() {
                        return Ok(Err(Report { tid, why: Why::Interrupted }));
                    }
                }
                // A breakpoint that the client does not have in now, or whose condition does not hold.
                stop => {
                    let is_step = is_own && matches!(stop, Stop::Watched(..));
                    if let Some(report) = self.at_stop(way, stop, &mut Due::Not)? {
                        return Ok(Err(report));
                    }
                    if is_step {
                        return Ok(Ok(()));
                    }
                }
            }
        }
    }

    /// Lets the live replica run until the task is at one of the exits ([`Why::Step`]), or something
    /// else comes that the user is told of.
    fn run_to_exit(&mut self, exits: Exits) -> Result<Report, Trouble> {
        self.exits = Some(exits);
        let report = self.run_on();
        self.exits = None;
        self.alarm.clear();
        let points = self.places_to_next(&self.live.replica);
        self.live.replica.set_points(&points)?;
        report
    }
}
