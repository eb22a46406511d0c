//! What a stop of the live replica is to the user who goes forward.

use bis_replay::{Halt, Stop};
use bis_trace::{
    event::{EventKind, TaskEnd},
    types::{Addr, EventSeq, Tid},
};

use super::super::{
    Catch, Report, Session, Trouble, Why,
    events::end_of,
    follow::Further,
    place::{Leg, Position},
    points::Asker,
    range::Exits,
    report::unexpected,
    told::{Told, call_of},
    trail::Due,
    way::Way,
};
use crate::protocol::command::PointKind;

impl Session<'_> {
    /// At a stop that is no event.
    pub(super) fn at_stop(
        &mut self,
        way: &mut Way,
        stop: Stop,
        due: &mut Due,
    ) -> Result<Option<Report>, Trouble> {
        match stop {
            Stop::Point(tid, addr) => self.at_point(way, tid, addr, due),
            Stop::Watched(tid, pieces) => self.at_watch(way, tid, &pieces, due),
            Stop::Before(event) => self.before(event),
            Stop::Cut if let Some((tid, addr)) = self.unseen_point() => {
                self.live.replica.acknowledge_arrival(tid);
                self.at_stop(way, Stop::Point(tid, addr), due)
            }
            Stop::Cut if self.is_live() => match self.further(None)? {
                Further::Events => Ok(None),
                Further::Nothing => self.at_stop(way, Stop::End, due),
                Further::Stopped(report) => {
                    self.position = Position::at(self.live.replica.done().0);
                    Ok(Some(report))
                }
            },
            Stop::End | Stop::Cut => {
                self.position = Position::at(self.live.replica.done().0);
                Ok(Some(Report { tid: self.tid, why: Why::End(None) }))
            }
            stop => Err(unexpected(&stop)),
        }
    }

    /// A task stands at a point: a breakpoint of the user's, or another place that was asked for.
    fn at_point(
        &mut self,
        way: &mut Way,
        tid: Tid,
        addr: Addr,
        due: &mut Due,
    ) -> Result<Option<Report>, Trouble> {
        let asker = &mut Asker { replica: &self.live.replica, targets: &self.targets, tid };
        let (why, printed) = match self.points.breakpoint_at(addr, asker) {
            None => (self.hooked_call(&self.live.replica, tid, addr), Vec::new()),
            Some(point) => {
                let printed = asker.print(&point.commands);
                let is_hardware = point.kind == PointKind::Hardware;
                let stops = point.commands.is_empty();
                (stops.then_some(Why::Breakpoint { is_hardware }), printed)
            }
        };
        if !printed.is_empty() {
            self.printed(tid, printed);
        }
        let is_exit = |exits: &Exits| exits.tid == tid && exits.places.contains(&addr);
        let why = why.or_else(|| self.exits.as_ref().is_some_and(is_exit).then_some(Why::Step));
        let Some(why) = why else {
            if !self.mark_at_point(way, addr, due)? {
                Self::count_false(&self.points, &mut self.live, way, addr)?;
            }
            return Ok(None);
        };
        self.position = way.at_point(&self.live, addr);
        Ok(Some(Report { tid, why }))
    }

    /// A task has touched pieces of memory that are watched.
    fn at_watch(
        &mut self,
        way: &mut Way,
        tid: Tid,
        pieces: &[usize],
        due: &mut Due,
    ) -> Result<Option<Report>, Trouble> {
        let asker = &mut Asker { replica: &self.live.replica, targets: &self.targets, tid };
        let (found, now) = self.points.watchpoint(Some(pieces), &way.values, asker);
        way.values = now;
        let Some((kind, addr)) = found else {
            self.mark_at_stop(way, way.at_watch(&self.live), due)?;
            return Ok(None);
        };
        self.position = way.at_watch(&self.live);
        Ok(Some(Report { tid, why: Why::Watchpoint { kind, addr } }))
    }

    /// A task stands where a signal takes effect, or where the image ends.
    fn before(&mut self, seq: EventSeq) -> Result<Option<Report>, Trouble> {
        let Some(event) = self.live.replica.next_event()? else { return Ok(None) };
        let tid = event.tid;
        let (signal, end) = match &event.kind {
            EventKind::Signal(signal) if signal.is_silent() => return Ok(None),
            EventKind::Signal(signal) => (Some(signal.signal), None),
            kind => (None, end_of(kind)),
        };
        let nr = call_of(&event.kind);
        let position = Position { event: self.live.replica.done().0, legs: vec![Leg::Before(seq)] };
        if let Some(nr) = nr {
            self.position = position;
            return Ok(Some(Report { tid, why: Why::Call { nr, is_entry: true } }));
        }
        if let Some(signal) = signal {
            let of_others = self.passed_of_others.as_ref().filter(|(alone, _)| *alone != tid);
            if self.passed_signals.contains(&signal)
                || of_others.is_some_and(|(_, passed)| passed.contains(&signal))
            {
                return Ok(None);
            }
            self.position = position;
            return Ok(Some(Report { tid, why: Why::Signal(signal) }));
        }
        if let Some(TaskEnd::Exec(domain)) = end
            && let Some(image) = self.images.iter().position(|image| *image == domain)
        {
            return self.next_image(image).map(Some);
        }
        self.position = position;
        Ok(Some(Report { tid, why: Why::End(end) }))
    }

    /// The process goes on in another program.
    pub(super) fn next_image(&mut self, image: usize) -> Result<Report, Trouble> {
        self.have_image(image)?;
        let call = self.caught_exec();
        let entry = self.world.entry(self.images[image]).map_err(Halt::from)?;
        let position = Position::at(entry.seq);
        self.live = self.travel(&position)?;
        self.position = position;
        let tid = self.live.replica.done().1;
        self.told_next.extend(call.map(|nr| Report { tid, why: Why::Call { nr, is_entry: false } }));
        let path = self.executable_of(entry.domain).unwrap_or_default();
        Ok(Report { tid, why: Why::Exec(path) })
    }

    /// The call by which the program is about to execute another one, if calls like it are caught.
    fn caught_exec(&self) -> Option<u64> {
        let registers = self.live.replica.registers(self.live.replica.tasks().next()?).ok()?;
        let is_exec = |nr: &u64| [libc::SYS_execve, libc::SYS_execveat].contains(&nr.cast_signed());
        [registers.rax, registers.orig_rax].into_iter().filter(is_exec).find(|nr| self.caught_calls.has(*nr))
    }

    /// An event is done.
    pub(super) fn at_event(&mut self, way: &mut Way, event: Option<Told>) -> Result<Option<Report>, Trouble> {
        let (seq, tid) = self.live.replica.done();
        self.keep_in_intervals()?;
        if self.points.has_watchpoints() {
            let asker = &mut Asker { replica: &self.live.replica, targets: &self.targets, tid };
            let (found, now) = self.points.watchpoint(None, &way.values, asker);
            way.values = now;
            if let Some((kind, addr)) = found {
                self.position = Position::at(seq);
                if let Some(who) = self.others.take_change() {
                    self.say_line(&who);
                }
                return Ok(Some(Report { tid, why: Why::Watchpoint { kind, addr } }));
            }
        }
        if self.caught_calls != Catch::None {
            // Calls of text that was patched by the event, and those that come up to the next one.
            self.live.replica.next_event()?;
            let points = self.places_to_next(&self.live.replica);
            self.live.replica.set_points(&points)?;
        }
        let Some((tid, why)) = event.and_then(|event| event.why(self, tid)) else { return Ok(None) };
        self.position = Position::at(seq);
        Ok(Some(Report { tid, why }))
    }
}
