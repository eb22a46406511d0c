//! How a replica goes on: from limit to limit, and from event to event.

use std::{sync::Arc, time::Duration};

use bis_trace::{
    event::{Event, EventKind, Turn},
    types::{Addr, EventSeq, Tid},
};
use bis_tracee::{TraceeError, task};

use super::{Ahead, Flow, Limit, Replica, Stage, Stop, Who, is_pause, outcome::outcome_of};
use crate::{
    alarm::Progress,
    apply::objects_of_others,
    error::Halt,
    going::Search,
    host::Host,
    ours::{Exit, Shown},
    reach::Reach,
    task::{Interrupt, Task},
};

impl Replica<'_> {
    /// Lets the replica go on, up to the first of its limits or traps.
    ///
    /// # Errors
    /// [`Halt::Failed`] with a divergence when a program did something else than it did when it was recorded:
    /// the task stands there, and can be looked at. The other kinds when trace or machine are at fault, or
    /// all is cancelled.
    pub fn advance(&mut self, host: &mut dyn Host, limit: &Limit<'_>) -> Result<Stop, Halt> {
        if !self.is_attended {
            return self.go_on(host, limit);
        }
        let stop = self.go_on_in_program(host, limit);
        if let Ok(Stop::Point(tid, _) | Stop::Stepped(tid)) = &stop
            && let Some((ours, place)) = self.place_of(*tid)
        {
            if matches!(stop, Ok(Stop::Stepped(_))) {
                self.traps.arrive(ours, place);
            }
            if let Some(task) = self.tasks.get_mut(tid) {
                task.told = Some(place);
            }
        }
        stop
    }

    /// As [`Replica::go_on`], for somebody who sees the program's own instructions only: a step is
    /// one of those, and whoever has been stopped in the middle of what is executed in place of one goes on
    /// behind it.
    fn go_on_in_program(&mut self, host: &mut dyn Host, limit: &Limit<'_>) -> Result<Stop, Halt> {
        let stop = self.go_on(host, limit)?;
        let tid = match &stop {
            Stop::Stepped(tid) | Stop::Watched(tid, _) => *tid,
            _ => return Ok(stop),
        };
        let mut touched = match &stop {
            Stop::Watched(_, pieces) => Some(pieces.clone()),
            _ => None,
        };
        if touched.is_some() {
            self.traps.trigger();
        }
        let memory_left = self.leave(tid, &mut touched, host, limit);
        self.traps.set_moment(&self.space.memory, &[])?;
        Ok(match (memory_left?, touched) {
            (None, Some(pieces)) => Stop::Watched(tid, pieces),
            // At an event everybody looks at what is watched anyway. (A hook touches what its call would
            // fill, and then leaves that to the kernel.)
            (Some(other), _) => other,
            (None, None) => Stop::Stepped(tid),
        })
    }

    /// Lets a task go on until it stands at an instruction of the program. Some: it was stopped by something
    /// else.
    fn leave(
        &mut self,
        tid: Tid,
        touched: &mut Option<Vec<usize>>,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Option<Stop>, Halt> {
        loop {
            let exit = match self.stands(tid) {
                Shown::Within { exit, .. } => exit,
                Shown::Hook => Exit::Step,
                Shown::Program { .. } | Shown::Nowhere => return Ok(None),
            };
            let moments = match exit {
                Exit::At(place) => vec![place],
                Exit::Instruction(addr) => self.space.places(addr),
                Exit::Return => {
                    let regs = self.tasks.get(&tid).ok_or(TraceeError::Died(tid))?.regs()?;
                    vec![self.space.memory.read_addr(regs.sp())?]
                }
                Exit::Step => Vec::new(),
            };
            let step = moments.is_empty();
            self.traps.set_moment(&self.space.memory, &moments)?;
            // Not to be interrupted, which is soon enough behind it: what was touched so far would be
            // forgotten.
            match self.go_on(host, &Limit { step, each_event: true, interrupt: None, ..*limit })? {
                Stop::Stepped(_) | Stop::Moment(_) => {}
                Stop::Watched(_, pieces) => {
                    // Whatever is touched in place of one instruction is one time.
                    if touched.is_none() {
                        self.traps.trigger();
                    }
                    touched.get_or_insert_default().extend(pieces);
                }
                stop => return Ok(Some(stop)),
            }
        }
    }

    fn go_on(&mut self, host: &mut dyn Host, limit: &Limit<'_>) -> Result<Stop, Halt> {
        loop {
            if limit.interrupt.is_some_and(Interrupt::is_asked) {
                return Ok(Stop::Interrupted);
            }
            let next = self.next_event()?.map(|event| event.seq);
            if let (Some(last), Some(next)) = (limit.event, next)
                && next > last
                && self.is_at_event()
            {
                return Ok(Stop::Event(self.cursor.done.0));
            }
            let Some(mut underway) = self.cursor.underway.take() else {
                return Ok(if self.cursor.is_ended { Stop::End } else { Stop::Cut });
            };
            let event = Arc::clone(&underway.event);
            let flow = self.event(&event, &mut underway.stage, host, limit);
            match flow {
                Ok(Flow::Done | Flow::TaskGone) => {}
                Ok(Flow::Stopped(stop)) => {
                    self.cursor.underway = Some(underway);
                    match stop {
                        Stop::Point(tid, addr) if self.count_silently(tid, addr, limit.ahead)? => continue,
                        stop => return Ok(stop),
                    }
                }
                Err(error) => {
                    self.cursor.underway = Some(underway);
                    return Err(error);
                }
            }
            if event.kind == EventKind::End {
                self.cursor.is_ended = true;
            }
            self.cursor.position += 1;
            // Turns are nobody's in particular: whoever was left somewhere still stands there.
            let is_own = !matches!(event.kind, EventKind::Token { .. } | EventKind::End);
            self.cursor.done = (event.seq, if is_own { event.tid } else { self.cursor.done.1 });
            self.cursor.elapsed_ms += event.lapse.ms();
            self.cursor.recorded.done(&event);
            if matches!(&event.kind, EventKind::Signal(signal) if signal.handler.is_none() && !signal.is_silent())
            {
                self.cursor.fatal = Some(Arc::clone(&event));
            }
            self.begin_count();
            if limit.each_event || limit.step {
                return Ok(Stop::Event(event.seq));
            }
        }
    }

    /// A task stands at a point. Is that one of whose arrivals the driver is not told? The task has been
    /// stopped there often, then, and from here on the program counts them by itself, if it can.
    fn count_silently(&mut self, tid: Tid, addr: Addr, ahead: Ahead) -> Result<bool, Halt> {
        let place = self.place_of(tid).map(|(_, place)| place);
        let Some(place) = place.filter(|place| self.traps.only_counts(*place).is_some()) else {
            return Ok(false);
        };
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.told = Some(place);
        }
        // Others are waited for, and may yet have to be counted themselves.
        if self.can_count(addr, &self.traps.told(), ahead)? {
            self.count_arrivals(addr, None, ahead)?;
        }
        Ok(true)
    }

    /// An event is done: arrivals are counted from here on.
    fn begin_count(&mut self) {
        if !self.is_attended {
            return;
        }
        let standing = self.place_of(self.cursor.done.1);
        self.traps.begin_count(standing);
        // What the driver knew of was another place.
        self.tasks.values_mut().for_each(|task| task.told = None);
    }

    /// What the search has come to that is underway, and what the task's way took when it was recorded; none:
    /// no pause is looked for, or the trace does not say times.
    pub(crate) fn search(&mut self) -> Result<Option<(Progress, Duration)>, Halt> {
        let Some((_, ours)) = self.next_task()?.filter(|_| self.world.trace.says_times()) else {
            return Ok(None);
        };
        let Some(underway) = &self.cursor.underway else { return Ok(None) };
        let Stage::Going(going) = &underway.stage else { return Ok(None) };
        let Search::State { stops, .. } = going.search else { return Ok(None) };
        let event = &underway.event;
        let ran = task::cpu_time(ours).unwrap_or_default();
        let progress = Progress { pause: event.seq, stops, ran };
        Ok(Some((progress, self.cursor.recorded.to(event))))
    }

    /// The pause that is looked for will not be found.
    pub(crate) fn give_up(&mut self, host: &mut dyn Host) -> Halt {
        match self.advance(host, &Limit { gives_up: true, each_event: true, ..Limit::default() }) {
            Err(halt) => halt,
            Ok(_) => self.inconsistent(self.cursor.done.0, "a pause is looked for no more".into()),
        }
    }

    fn event(
        &mut self,
        event: &Event,
        stage: &mut Stage,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Flow, Halt> {
        if self.cursor.is_ended {
            return self.last_releases(event, stage, host);
        }
        match &event.kind {
            EventKind::Token { acquired, released } => {
                return self.turns(event.seq, acquired, released, stage, host);
            }
            EventKind::End => return Ok(Flow::Done),
            _ => {}
        }
        let Some(mut task) = self.tasks.remove(&event.tid) else {
            return Err(self.inconsistent(event.seq, format!("task {} does not exist", event.tid)));
        };
        let flow = self.event_of(&mut task, event, stage, host, limit);
        // Also where it has diverged: somebody may want to look at it.
        if !matches!(flow, Ok(Flow::TaskGone)) {
            self.tasks.insert(event.tid, task);
        }
        flow
    }

    /// Are the branches counted that a task makes on its way to such an event? Where somebody looks on, that
    /// is done only where a place is found by them, as single steps take long, and arrivals cannot be counted
    /// meanwhile. At the other events the count is only checked, which a whole replay does.
    fn is_counted_to(&self, kind: &EventKind) -> bool {
        !self.is_attended || !self.world.ticks.counts_branches() || is_pause(kind)
    }

    fn event_of(
        &mut self,
        task: &mut Task,
        event: &Event,
        stage: &mut Stage,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Flow, Halt> {
        let who = Who { seq: event.seq, tid: event.tid, ticks: event.ticks };
        if matches!(stage, Stage::Fresh) {
            if self.is_counted_to(&event.kind) && (event.ticks.is_some() || is_pause(&event.kind)) {
                task.begin_ticks(self.world.ticks, &self.space.memory)?;
                if let Some(driver) = self.traps.count {
                    task.stop_at(&self.space.memory, Some(driver.at))?;
                }
            } else {
                task.end_ticks();
            }
            *stage = match self.set_out(task, who, &event.kind, host)? {
                Some(going) => Stage::Going(Box::new(going)),
                None => Stage::There,
            };
        }
        if let Stage::Going(going) = stage {
            match self.reach(task, who, event, going, host, limit)? {
                Reach::There => *stage = Stage::There,
                Reach::Stopped(stop) => return Ok(Flow::Stopped(stop)),
            }
        }
        if matches!(stage, Stage::There) {
            let is_limit = limit.before == Some(event.seq)
                || limit.signals && matches!(event.kind, EventKind::Signal(_))
                || limit.end && self.is_end(event, self.tasks.is_empty());
            if is_limit {
                *stage = Stage::Told;
                return Ok(Flow::Stopped(Stop::Before(event.seq)));
            }
        }
        if let Some(outcome) = outcome_of(&event.kind) {
            let turns = objects_of_others(&outcome.effects);
            if !turns.is_empty() && !host.have_come(&turns) {
                return Ok(Flow::Stopped(Stop::Turns(turns)));
            }
        }
        self.finish(task, who, event, host)
    }

    /// A domain may give its turns back after its last task.
    fn last_releases(&mut self, event: &Event, stage: &mut Stage, host: &mut dyn Host) -> Result<Flow, Halt> {
        match &event.kind {
            EventKind::Token { acquired, released } if acquired.is_empty() => {
                self.turns(event.seq, &[], released, stage, host)
            }
            _ => Err(self.inconsistent(event.seq, "the domain goes on after its end".into())),
        }
    }

    fn turns(
        &mut self,
        seq: EventSeq,
        acquired: &[Turn],
        released: &[Turn],
        stage: &mut Stage,
        host: &mut dyn Host,
    ) -> Result<Flow, Halt> {
        let release = |turn: &Turn, host: &mut dyn Host| {
            host.release(self.entry.domain, *turn, self.space.shows(turn.object))
                .map_err(|error| self.inconsistent(seq, error.to_string()))
        };
        let (own, others): (Vec<_>, Vec<_>) = released.iter().partition(|turn| acquired.contains(turn));
        if matches!(stage, Stage::Fresh) {
            // A turn that begins and ends here must begin first; others wait for nothing of ours.
            others.into_iter().try_for_each(|turn| release(turn, host))?;
            *stage = Stage::Released;
        }
        if !acquired.is_empty() && !host.have_come(acquired) {
            return Ok(Flow::Stopped(Stop::Turns(acquired.to_vec())));
        }
        own.into_iter().try_for_each(|turn| release(turn, host))?;
        Ok(Flow::Done)
    }
}
