//! Calls that a replica makes on its way to a position, step by step, and that it need not go through: what
//! is wanted is what lies closely in front of the position.
//!
//! A call is known by what it does: the stack grows by one word, which is the address behind the instruction.
//! When a replica has been in a call for some steps, it runs to where that returns. If it comes to the
//! position first, the position is within the call, and the replica goes on from where it was.

use std::time::{Duration, Instant};

use bis_replay::{Limit, Stop};
use bis_trace::types::{Addr, Registers, Tid};

use super::{Session, Trouble, goal::Goal, live::Live, place::Position, rung::Rung};

/// Steps in a call before it is gone over, at least and at most: in between, as many as take as long as a
/// copy and a run.
const STEPS_INSIDE: u64 = 32;
const STEPS_INSIDE_MAX: u64 = 2000;

/// The longest instruction, bytes.
const INSTRUCTION_MAX: u64 = 15;

/// Stops on the way to where a call returns for which nobody waits.
const STOPS_MAX: u64 = 200;

/// A call in which a replica is.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Where it returns to.
    to: Addr,
    /// The stack pointer when it began.
    rsp: Addr,
    /// How many steps were done then.
    since: u64,
}

/// The calls that a task has made on its way and that have not returned, the outermost first.
#[derive(Debug)]
pub(super) struct Calls {
    tid: Option<Tid>,
    calls: Vec<Call>,
    steps: u64,
    /// Since when they are looked at; how many were gone over, and how long that took.
    begun: Instant,
    overs: u32,
    over_time: Duration,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            tid: None,
            calls: Vec::new(),
            steps: 0,
            begun: Instant::now(),
            overs: 0,
            over_time: Duration::ZERO,
        }
    }
}

/// A task that is about to make a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub tid: Tid,
    pub registers: Registers,
}

impl Standing {
    /// Whose step is the next. None: nobody's.
    pub(super) fn of(live: &mut Live<'_>) -> Result<Option<Standing>, Trouble> {
        let Some(tid) = live.replica.next_event()?.map(|event| event.tid) else { return Ok(None) };
        Ok(live.replica.registers(tid).ok().map(|registers| Standing { tid, registers }))
    }
}

impl Calls {
    /// The task that has stood there has made a step, and stands here.
    pub(super) fn stepped(&mut self, before: Option<Standing>, now: Option<Standing>, live: &Live<'_>) {
        self.steps += 1;
        let (Some(before), Some(now)) = (before, now) else { return };
        if before.tid != now.tid || self.tid != Some(now.tid) {
            self.tid = Some(now.tid);
            self.calls.clear();
        }
        let (from, rsp) = (before.registers.ip(), now.registers.sp());
        self.calls.retain(|call| call.rsp >= rsp);
        let behind = from + 1..=from.saturating_add(INSTRUCTION_MAX);
        if before.tid != now.tid
            || before.registers.rsp.checked_sub(8) != Some(rsp.0)
            || behind.contains(&now.registers.ip())
        {
            return;
        }
        let word = live.replica.read_program(rsp, 8);
        let to = word.try_into().map(|word| Addr(u64::from_le_bytes(word)));
        if let Some(to) = to.ok().filter(|to| behind.contains(to)) {
            self.calls.push(Call { to, rsp, since: self.steps });
        }
    }

    /// After how many steps a call takes long: a large process is slow to copy.
    fn steps_inside(&self) -> u64 {
        let stepped = self.begun.elapsed().saturating_sub(self.over_time);
        let step = (stepped / u32::try_from(self.steps.max(1)).unwrap_or(u32::MAX)).as_nanos().max(1);
        let over = self.over_time.as_nanos() / u128::from(self.overs.max(1));
        u64::try_from(over / step).unwrap_or(u64::MAX).clamp(STEPS_INSIDE, STEPS_INSIDE_MAX)
    }

    /// The outermost of those that take long. It is not one of them any more.
    fn take_long(&mut self) -> Option<Call> {
        let inside = self.steps_inside();
        let at = self.calls.iter().position(|call| self.steps >= call.since + inside)?;
        Some(self.calls.remove(at))
    }
}

/// What has become of a call that takes long.
pub(super) enum Over<'t> {
    /// There is none.
    None,
    /// The replica stands behind it; and stood there, within it.
    Returned(Rung<'t>),
    /// The position is within it. The replica stands where it stood, as this copy does.
    Within(Rung<'t>),
}

impl<'t> Session<'t> {
    /// Runs to where a call returns that takes long, if there is one.
    pub(super) fn go_over(
        &mut self,
        live: &mut Live<'t>,
        goal: &mut Goal<'_>,
        calls: &mut Calls,
        end: &Position,
    ) -> Result<Over<'t>, Trouble> {
        let Some(tid) = calls.tid.filter(|_| !goal.is_stepping()) else { return Ok(Over::None) };
        let Some(call) = calls.take_long() else { return Ok(Over::None) };
        let begun = Instant::now();
        let Some(copy) = live.replica.checkpoint(&mut live.company)? else { return Ok(Over::None) };
        let mut rung = Rung { copy, done: goal.done, image: live.image };
        let counts = live.counts();
        live.have_points(end, Some(call.to))?;
        let mut stops = 0;
        let has_returned = loop {
            let Some(stop) = self.toward(live, goal, &[], &Limit::default())? else { break false };
            if matches!(stop, Stop::Point(at, addr) if at == tid && addr == call.to)
                && live.replica.registers(tid).is_ok_and(|registers| registers.sp() > call.rsp)
            {
                break true;
            }
            stops += 1;
            if stops > STOPS_MAX {
                break false;
            }
        };
        tracing::debug!(to = format_args!("{:#x}", call.to), has_returned, "over a call");
        calls.overs += 1;
        calls.over_time += begun.elapsed();
        if !has_returned {
            let (before, Goal { done, .. }) = rung.resume(end)?;
            (*live, goal.done) = (before, done);
            return Ok(Over::Within(rung));
        }
        live.replica.end_counts()?;
        goal.ask_anew();
        live.replica.set_points_and_counts(&end.arrivals(), &counts)?;
        Ok(Over::Returned(rung))
    }
}
