//! Forward: until something happens that the user wants to know. What a stop is to the user is in
//! `forward/stops.rs`, single steps are in `forward/steps.rs`.

mod steps;
mod stops;

use bis_replay::{Limit, Stop};
use bis_trace::{
    event::{EventKind, TaskEnd},
    types::{Addr, Tid},
};

use super::{
    Report, Session, Trouble, Why, follow::Further, history::CHECKPOINT_EVERY, onward::EVENT_AWAITED,
    place::Position, points::Points, searched::Wanted, trail::Due, way::Way,
};

impl<'t> Session<'t> {
    /// Goes forward until something happens.
    ///
    /// # Errors
    /// Where the replica cannot go on; the session stays where it was if it can.
    pub fn go(&mut self) -> Report {
        match self.told_next.pop_front() {
            Some(report) => self.tell_now(report),
            None => self.moving(|session| session.forward(true)),
        }
    }

    /// The user has asked it to stop before it was let go: it stands where it stood.
    pub fn stay(&mut self, tid: Tid) -> Report {
        self.tid = self.alive(tid);
        Report { tid: self.tid, why: Why::Interrupted }
    }

    /// What was put off.
    fn tell_now(&mut self, report: Report) -> Report {
        self.tid = report.tid;
        report
    }

    /// What is heard of the program while the user goes forward; and what goes wrong becomes a report.
    pub(super) fn moving(
        &mut self,
        work: impl FnOnce(&mut Session<'t>) -> Result<Report, Trouble>,
    ) -> Report {
        self.told_next.clear();
        let report = work(self);
        self.alarm.clear();
        self.host.is_audible = false;
        let mut report = report.unwrap_or_else(|trouble| {
            let why = match &trouble {
                Trouble::Asked => Why::Interrupted,
                Trouble::Halt(_) => Why::Broken(trouble.text()),
            };
            Report { tid: self.tid, why }
        });
        report.tid = self.alive(report.tid);
        self.tid = report.tid;
        report
    }

    pub(super) fn forward(&mut self, is_audible: bool) -> Result<Report, Trouble> {
        if let Some(end) = self.at_end(None)? {
            return Ok(end);
        }
        self.host.is_audible = is_audible;
        self.run_on()
    }

    /// Lets the live replica run from where it stands until something happens that the user is told of.
    pub(super) fn run_on(&mut self) -> Result<Report, Trouble> {
        self.arm()?;
        self.live.replica.acknowledge();
        let mut way = Way::new(self, &self.live, self.position.clone());
        let mut due = Due::Not;
        self.alarm.set(CHECKPOINT_EVERY);
        loop {
            let each = due != Due::Not || self.looks_at_events();
            if let Some(report) = self.leg_forward(&mut way, each, &mut due)? {
                self.live.replica.end_counts()?;
                return Ok(report);
            }
        }
    }

    /// Does the user stand where the process ends, or where the replica cannot go on? There it stays. Where
    /// it executes the next program, that begins. Where the program still runs, it goes on first: for `step`,
    /// see [`Session::further`].
    fn at_end(&mut self, step: Option<(Tid, Option<(Addr, Addr)>)>) -> Result<Option<Report>, Trouble> {
        if let Some(report) = &self.live.broken {
            return Ok(Some(report.clone()));
        }
        if self.live.replica.next_event()?.is_none()
            && let Further::Stopped(report) = self.further(step)?
        {
            return Ok(Some(report));
        }
        let is_at_end = self.live.replica.is_at_end();
        let Some(event) = self.live.replica.next_event()? else {
            return Ok(Some(Report { tid: self.tid, why: Why::End(None) }));
        };
        let end = match &event.kind {
            EventKind::TaskExit { status, .. } if is_at_end => *status,
            _ => return Ok(None),
        };
        // A user who comes here backwards has passed the stop in front of this end.
        if let TaskEnd::Exec(domain) = end
            && let Some(image) = self.images.iter().position(|image| *image == domain)
        {
            return self.next_image(image).map(Some);
        }
        Ok(Some(Report { tid: self.tid, why: Why::End(Some(end)) }))
    }

    /// Lets the live replica run to its next stop. None: it is none for the user.
    fn leg_forward(
        &mut self,
        way: &mut Way,
        each_event: bool,
        due: &mut Due,
    ) -> Result<Option<Report>, Trouble> {
        let interrupt = self.stopper.interrupt.clone();
        let event = self.peek()?;
        let limit = Limit {
            signals: true,
            end: true,
            before: event.as_ref().and_then(|event| event.caught_call(self)),
            each_event,
            interrupt: Some(&interrupt),
            ..Limit::default()
        };
        let stop = self.advance_live(&limit);
        let stop = match stop {
            Ok(stop) => stop,
            Err(halt) => return Ok(Some(self.broken(halt))),
        };
        match stop {
            Stop::Interrupted => {
                interrupt.take();
                if self.stopper.take() {
                    return self.interrupted(way).map(Some);
                }
                *due = match self.next_due(*due, way) {
                    Err(Trouble::Asked) => return self.interrupted(way).map(Some),
                    due => due?,
                };
                self.alarm.set(if *due == Due::Not { way.wait } else { EVENT_AWAITED });
                Ok(None)
            }
            Stop::Event(_) => {
                if *due != Due::Not {
                    self.save_live()?;
                    *due = Due::Not;
                    way.wait = self.history.pace();
                    self.alarm.set(way.wait);
                }
                self.at_event(way, event)
            }
            stop => self.at_stop(way, stop, due),
        }
    }

    /// The user has asked it to stop, somewhere in a computation: the next place that has a name will do.
    fn interrupted(&mut self, way: &mut Way) -> Result<Report, Trouble> {
        let interrupt = self.stopper.interrupt.clone();
        self.alarm.set(EVENT_AWAITED);
        let limit = Limit {
            each_event: true,
            signals: true,
            end: true,
            interrupt: Some(&interrupt),
            ..Limit::default()
        };
        // The alarm rings once for all stops of which the user does not hear: they may come without end.
        loop {
            match self.advance_live(&limit)? {
                Stop::Event(event) => {
                    self.position = Position::at(event);
                    let tid = self.live.replica.done().1;
                    return Ok(Report { tid, why: Why::Interrupted });
                }
                Stop::Interrupted => {
                    interrupt.take();
                    return self.stop_nearby(way);
                }
                stop => {
                    if let Some(report) = self.at_stop(way, stop, &mut Due::Not)? {
                        return Ok(report);
                    }
                }
            }
        }
    }

    /// Goes forward to the end of the process, stopping nowhere.
    pub(super) fn run_to_end(&mut self) -> Result<Report, Trouble> {
        self.without_program(Session::run_to_end_of_trace)
    }

    fn run_to_end_of_trace(&mut self) -> Result<Report, Trouble> {
        let wanted = self.want(Wanted::only(Points::default()));
        let end = loop {
            match self.forward(false) {
                Ok(Report { why: Why::Exec(_), .. }) => {}
                end => break end,
            }
        };
        self.want(wanted);
        end
    }

    /// The position at which the process ends: its last task is about to.
    ///
    /// # Errors
    /// Where it cannot be gone to. The session stands there afterwards.
    pub fn end_position(&mut self) -> Result<Position, Trouble> {
        let (position, tid) = (self.position.clone(), self.tid);
        let end = self.run_to_end();
        let found = self.position.clone();
        self.settle(position)?;
        self.tid = tid;
        end.map(|_| found)
    }
}
