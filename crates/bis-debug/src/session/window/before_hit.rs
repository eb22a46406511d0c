//! One step back from a place that a search has found, to the instruction from which the program came there
//! the last time.
//!
//! A client that judges a breakpoint's condition itself steps back from each of its hits, and searches on.
//! All hits are at one address, and mostly the same instruction is in front of it. Where a function begins,
//! that is the call of it, to which the return address leads: gdb has such a breakpoint of its own, to which
//! the dynamic linker comes from several calls, twice for each library. Then no window is needed:
//! the program counts how often it comes to that instruction up to the hit, and is stopped at the last time.
//! One step must lead to the hit from there; if it does not, it is a window's turn.

use bis_trace::types::{Addr, Registers, Tid};

use super::{
    super::{
        Session, Trouble,
        goal::Goal,
        history::Mark,
        place::{Leg, Position},
    },
    known::OneStep,
    one_step::Stepped,
    steps::{Name, Part, Window},
};

/// `call` with a distance: its first byte, and its length.
const CALL: u8 = 0xe8;
const CALL_LEN: usize = 5;

/// So many arrivals are stopped at one by one.
const ARRIVALS_FEW: u64 = 200;

/// Tries of a step that do not lead on: a stop at the place itself is one.
const TRIES_MAX: usize = 4;

impl<'t> Session<'t> {
    /// Lets the live replica stand one instruction of this task before where it stands, if a search has led
    /// there, and where the program comes from is known; its position.
    pub(in crate::session) fn position_before_hit(&mut self, tid: Tid) -> Result<Option<Position>, Trouble> {
        let is_hit = self.hits.as_ref().is_some_and(|hits| hits.end_at(&self.position));
        let is_in_window = self.window.as_ref().is_some_and(|window| window.end == self.position);
        if !is_hit || is_in_window {
            return Ok(None);
        }
        let Ok(registers) = self.live.replica.registers(tid) else { return Ok(None) };
        let own_end = self.exact(&self.position.clone())?;
        let end = self.name_of(&own_end);
        let call = self.direct_call_to(&registers).filter(|_| is_few(&end));
        let known = || self.known.before.get(&registers.ip()).copied();
        let Some(addr) = call.or_else(known) else { return Ok(None) };
        let Some(from) = self.mark_in_interval(&end)? else { return Ok(None) };
        let mut live = from.resume()?;
        // Elsewhere each arrival would be a stop, and in a loop there are millions. A call cannot be counted,
        // but each has led to the place.
        if call.is_none() && !live.replica.can_count(addr, &end.arrivals(), self.ahead(&live, &end))? {
            return Ok(None);
        }
        let count = self.arrivals_between(live, &from.position, addr, &end)?;
        if count == 0 {
            return Ok(None);
        }
        let Some((mark, name)) = self.go_to_arrival(&from, &end, addr, count)? else { return Ok(None) };
        if !self.is_one_step(tid, &mark, &name)? {
            tracing::debug!(%own_end, addr = format_args!("{addr:#x}"), "something else is in front of it");
            if call.is_none() {
                self.known.before.remove(&registers.ip());
            }
            return Ok(None);
        }
        let mut live = mark.resume()?;
        self.run_there(&mut live, &mark.position)?;
        self.live = live;
        self.known.last = Some(OneStep { from: mark.position.clone(), addr, to: own_end });
        Ok(Some(mark.position))
    }

    /// The call instruction that has led a task here, if the task stands where a function begins that was
    /// called by its address.
    fn direct_call_to(&self, registers: &Registers) -> Option<Addr> {
        let replica = &self.live.replica;
        let word = replica.read_program(registers.sp(), if registers.bits() == 64 { 8 } else { 4 });
        let mut bytes = [0; 8];
        bytes.get_mut(..word.len())?.copy_from_slice(&word);
        let to = Addr(u64::from_le_bytes(bytes));
        let from = Addr(to.0.checked_sub(CALL_LEN as u64)?);
        let call: [u8; CALL_LEN] = replica.read_program(from, CALL_LEN).try_into().ok()?;
        let [CALL, distance @ ..] = call else { return None };
        let distance = i64::from(i32::from_le_bytes(distance));
        (to.0.wrapping_add_signed(distance) == registers.ip().0).then_some(from)
    }

    /// The last mark in front of a position that is in the interval behind the position's event. There is one
    /// now, if the position is in such an interval.
    fn mark_in_interval(&mut self, end: &Position) -> Result<Option<Mark<'t>>, Trouble> {
        if end.legs.is_empty() {
            return Ok(None);
        }
        let image = self.image_of(end.event);
        let is_inside = |mark: &Mark<'t>| mark.position.event == end.event;
        if let Some(mark) = self.history.best_before(image, end).filter(is_inside) {
            return Ok(Some(mark));
        }
        let begin = Position::at(end.event);
        let mut live = self.travel(&begin)?;
        let mark = Mark::of(&mut live, begin)?;
        // The next steps back are near.
        mark.iter().for_each(|mark| self.history.add(mark.clone()));
        Ok(mark)
    }

    /// Does one instruction of this task lead from a mark to a position?
    fn is_one_step(&mut self, tid: Tid, mark: &Mark<'t>, end: &Position) -> Result<bool, Trouble> {
        let mut live = mark.resume()?;
        live.have_points(end, None)?;
        let Some(mut goal) = Goal::from(end, &live, &mark.position) else { return Ok(false) };
        let mut window = Window::new(mark.clone(), end.clone());
        for _ in 0..TRIES_MAX {
            match self.one_step_to(&mut live, &mut goal, &mut window)? {
                Stepped::Not => {}
                Stepped::There => return Ok(false),
                Stepped::Gone => {
                    let [step] = window.steps[..] else { return Ok(false) };
                    let is_whole = step.name == Name::Arrival && step.part == Part::All && step.tid == tid;
                    return Ok(is_whole && goal.pass_legs(&mut live)?);
                }
            }
        }
        Ok(false)
    }
}

/// Is a position one of the first arrivals somewhere behind its event?
fn is_few(position: &Position) -> bool {
    matches!(position.legs[..], [Leg::Arrive { n, .. }] if n <= ARRIVALS_FEW)
}
