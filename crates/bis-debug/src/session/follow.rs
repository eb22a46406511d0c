//! A session on a program that still runs: its trace grows.
//!
//! The session looks at a replica of the trace, as every session does. Where that comes to the trace's end,
//! the program itself is let go on from there ([`super::source`]), up to where the user's points might stop
//! it; what it has done is in the trace then, and the replica follows. The program may be stopped more often
//! than the user wants: the replica decides what is a stop, and where it is none, the program goes on again.

use bis_replay::{Halt, Limit, Piece};
use bis_trace::{
    event::EventKind,
    types::{Addr, Tid},
};
use bis_tracee::debug::{self, Access, Watch};

use super::{
    Session,
    place::Position,
    processes::images,
    range::Exits,
    report::{Catch, Report, Trouble, Why},
    source::{Advance, LiveProgram, Onward},
};

/// What is larger cannot be watched by the processor's registers: each has eight bytes.
const AREA_MAX: u64 = 8 * debug::COUNT as u64;

/// What there is at the end of the trace.
pub(super) enum Further {
    /// More events.
    Events,
    /// Nothing more.
    Nothing,
    Stopped(Report),
}

impl Session<'_> {
    /// The trace grows, and this is the program that it is of.
    pub fn follow(&mut self, program: Option<LiveProgram>) {
        self.origin.program = program;
    }

    /// Lets the live program, if there is one, go on without the user.
    pub fn let_program_go(&mut self) {
        if let Some(program) = self.origin.program.take() {
            program.let_go();
        }
    }

    /// Is there a program that can go on where the trace ends?
    pub fn is_live(&self) -> bool {
        self.origin.program.is_some()
    }

    /// The user has gone somewhere else.
    pub fn leave_end(&mut self) {
        self.origin.is_behind = true;
    }

    /// Without its live program, for as long as nothing is to happen that has not happened yet.
    pub(super) fn without_program<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let program = self.origin.program.take();
        let result = work(self);
        self.origin.program = program;
        result
    }

    /// The replica stands at the end of the trace: lets the program go on from there. `step`: the user wants
    /// this task to make a step, or steps within these addresses.
    pub(super) fn further(&mut self, step: Option<(Tid, Option<(Addr, Addr)>)>) -> Result<Further, Trouble> {
        let Some(program) = self.origin.program.clone() else { return Ok(Further::Nothing) };
        if std::mem::take(&mut self.origin.is_interrupted) {
            return Ok(Further::Stopped(Report { tid: self.tid, why: Why::Interrupted }));
        }
        let onward = self.onward(step);
        tracing::debug!(?onward, "the program goes on");
        if std::mem::take(&mut self.origin.is_behind) {
            self.say_line("bis: the log ended here, and the program has gone on live.");
        }
        let stopper = self.stopper.clone();
        let advance = program.go_on(&onward, &|| stopper.is_asked());
        if stopper.take() {
            stopper.interrupt.take();
            self.origin.is_interrupted = true;
        }
        if advance.is_none() {
            self.origin.program = None;
            return Ok(Further::Nothing);
        }
        self.world.trace().follow().map_err(Halt::from)?;
        let first = self.images.first().copied().unwrap_or(self.entry().domain);
        self.images = images(self.world, self.world.entry(first).map_err(Halt::from)?);
        if self.live.replica.next_event()?.is_some() {
            return Ok(Further::Events);
        }
        // Asked before it has done anything, it stands where it stood.
        let report = Report { tid: self.tid, why: Why::Interrupted };
        let is_interrupted =
            advance == Some(Advance::Further) && std::mem::take(&mut self.origin.is_interrupted);
        Ok(if is_interrupted { Further::Stopped(report) } else { Further::Nothing })
    }

    /// Does the user stand where the program itself does: at the end of the trace, or at the place of the
    /// pause that is its last event?
    fn is_at_program(&mut self) -> Result<bool, Trouble> {
        if self.origin.program.is_none() || self.is_diverted() {
            return Ok(false);
        }
        let Some(event) = self.live.replica.next_event()? else { return Ok(true) };
        let tid = event.tid;
        let EventKind::Pause(pause) = &event.kind else { return Ok(false) };
        let rip = pause.regs.rip;
        let is_there = self.live.replica.registers(tid).is_ok_and(|registers| registers.rip == rip);
        let count = self.world.trace().event_count(self.entry().domain);
        Ok(is_there && count == self.live.replica.position() + 1)
    }

    /// Writes to the memory of the program itself, if the user stands where it does, and goes on to behind
    /// the event that tells of it. False: not there, or it cannot be written.
    pub(super) fn write_to_program(&mut self, tid: Tid, addr: Addr, bytes: &[u8]) -> Result<bool, Trouble> {
        if !self.is_at_program()? {
            return Ok(false);
        }
        let Some(program) = self.origin.program.clone() else { return Ok(false) };
        program.write(tid, addr, bytes);
        if !self.world.trace().follow().map_err(Halt::from)? {
            return Ok(false);
        }
        self.live.replica.set_points(&std::collections::BTreeSet::new())?;
        self.live.replica.set_watches(&[])?;
        while let Some(last) = self.live.replica.next_event()?.map(|event| event.seq) {
            let limit = Limit { event: Some(last), ..Limit::default() };
            self.advance_live(&limit)?;
        }
        self.position = Position::at(self.live.replica.done().0);
        Ok(true)
    }

    /// Where the trace ends, the program has been stopped at a breakpoint, in front of which the replica has
    /// not been: the event that tells of it came first. None: it stands at none, or the user knows.
    pub(super) fn unseen_point(&self) -> Option<(Tid, Addr)> {
        self.origin.program.as_ref()?;
        let (_, tid) = self.live.replica.done();
        let rip = self.live.replica.registers(tid).ok()?.ip();
        let is_new = self.points.breakpoints().contains(&rip) && !self.live.replica.is_told(tid);
        is_new.then_some((tid, rip))
    }

    /// Where the program is to stop.
    fn onward(&self, step: Option<(Tid, Option<(Addr, Addr)>)>) -> Onward {
        let register = |piece: &Piece| match piece {
            Piece::Register(watch) => vec![*watch],
            Piece::Pages(area) => Watch::cover(area.addr, area.len.min(AREA_MAX), area.access),
        };
        let pieces = self.points.watches();
        let is_large = |piece: &Piece| matches!(piece, Piece::Pages(area) if area.len > AREA_MAX);
        let watches: Vec<Watch> = pieces.iter().flat_map(register).collect();
        let is_rough = watches.len() > debug::COUNT || pieces.iter().any(is_large);
        let watches = watches.iter().take(debug::COUNT);
        let watches = watches.map(|watch| (watch.addr, watch.len, watch.access == Access::Any)).collect();
        let mut breakpoints: Vec<Addr> = self.points.breakpoints().into_iter().collect();
        let rip = |tid| self.live.replica.registers(tid).map_or(Addr::NULL, |registers| registers.ip());
        let mut stepped = step.map(|(tid, _)| tid);
        // To the places where the line can be left, unless the task stands at one.
        if let Some((tid, Some(range))) = step
            && let Some(exits) = Exits::of(&self.live.replica, tid, range)
            && !exits.places.contains(&rip(tid))
        {
            breakpoints.extend(exits.places);
            stepped = None;
        }
        let each_event =
            is_rough || self.caught_calls != Catch::None || self.catches_forks || self.tells_threads;
        Onward { breakpoints, watches, step: stepped, each_event, is_rough }
    }
}
