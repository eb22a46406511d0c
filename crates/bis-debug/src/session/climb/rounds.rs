//! Copies that are made some rounds in front of a place. Programs go in rounds: how often a task comes to an
//! instruction is counted up to the end of a way, and a copy is made some times before the last.

use std::collections::BTreeMap;

use bis_replay::{Limit, Stop};
use bis_trace::types::Addr;

use super::super::{
    Session, Trouble,
    goal::{Done, Goal},
    live::Live,
    place::{Leg, Position},
    rung::Rung,
};

/// Rounds of a loop that are stepped through at once.
const ROUNDS_MAX: u64 = 32;

/// Stops for which nobody waits.
const STOPS_MAX: u64 = 2000;

/// Steps in the last rounds of a loop that are left.
pub(super) const STEPS_LEFT: u64 = 400;
/// What a window is to have at least.
const STEPS_MIN: u64 = 200;

/// What has come of counting how often tasks come to an address.
pub(super) enum Rounds<'t> {
    /// So often. The replica is at the end, or where it was to stay.
    All(u64, Live<'t>, Done),
    /// That takes too long to find out. So far it has come, and the end is behind.
    TooMany(Rung<'t>),
}

impl<'t> Session<'t> {
    /// The last rung may be many thousands of instructions away. Programs go in rounds: the last times that a
    /// task was about to execute what it is about to execute at the end are nearly always close.
    pub(super) fn last_rounds(&mut self, end: &Position, rungs: &mut Vec<Rung<'t>>) -> Result<(), Trouble> {
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        let last_arrivals = end.legs.iter().rposition(|leg| matches!(leg, Leg::Arrive { .. }));
        if let Some((at, Leg::Arrive { addr, n })) = last_arrivals.map(|at| (at, &end.legs[at])) {
            let (before, after) = (&end.legs[..at], &end.legs[at + 1..]);
            // The same loop, some rounds earlier; if they are behind the rung.
            let (mut live, goal) = last.resume(end)?;
            let left = goal.arrived(at, &mut live)?.map(|arrived| n.saturating_sub(arrived));
            let earlier = Position { event: end.event, legs: before.to_vec() };
            let rounds = |rounds: u64| earlier.then(Leg::Arrive { addr: *addr, n: n - rounds });
            let earlier = match left {
                Some(left) if left > 1 => Some(rounds((left / 40).clamp(1, ROUNDS_MAX))),
                Some(_) if !after.is_empty() => Some(rounds(0)),
                // Where these arrivals are counted from: much may be in front of that.
                Some(_) if last.done.is_in_first(at) => Some(earlier),
                _ => None,
            };
            let is_close = matches!(after, [] | [Leg::Step { .. }]);
            if let Some(earlier) = earlier {
                self.rung_at(rungs, end, earlier)?;
                if is_close {
                    return Ok(());
                }
            }
        } else if let [legs @ .., Leg::Step { .. }] = end.legs.as_slice() {
            // Where the steps begin.
            return self.rung_at(rungs, end, Position { event: end.event, legs: legs.to_vec() });
        }
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        let (mut live, mut goal) = last.resume(end)?;
        live.have_points(end, None)?;
        while self.toward(&mut live, &mut goal, &[], &Limit::default())?.is_some() {}
        let tid = match end.legs.last() {
            Some(Leg::Step { tid, .. }) => Some(*tid),
            None => Some(live.replica.done().1),
            Some(_) => live.replica.next_event()?.map(|event| event.tid),
        };
        let Some(tid) = tid else { return Ok(()) };
        // Only where a task has stood there surely begins an instruction: a point elsewhere would change what
        // the program does. A task that has ended stands nowhere.
        let Ok(mut addr) = live.replica.registers(tid).map(|registers| registers.ip()) else { return Ok(()) };
        if end.arrivals().contains(&addr) {
            return Ok(());
        }
        let ahead = self.ahead(&live, end);
        if !live.replica.can_count(addr, &end.arrivals(), ahead)? {
            // Mostly there is another address in the same loop.
            let frequent = self.frequent(&mut live, &end.arrivals(), ahead)?;
            addr = frequent.into_iter().find(|addr| !end.arrivals().contains(addr)).unwrap_or(addr);
        }
        drop(live);
        let Some(last) = rungs.last_mut() else { return Ok(()) };
        // The last arrival may be the end itself.
        let Some((count, ..)) = self.rounds(last, end, addr, None)?.filter(|(count, ..)| *count > 1) else {
            return Ok(());
        };
        let back = (count / 40).clamp(1, ROUNDS_MAX);
        let Some((_, mut live, done)) = self.rounds(last, end, addr, Some(count - back))? else {
            return Ok(());
        };
        rungs.extend(Self::rung_here(&mut live, done)?);
        Ok(())
    }

    /// A rung in front of one from which few steps lead to the end, some more rounds before; as far as
    /// `from`, another rung.
    ///
    /// `seen`: how often each address comes in those steps.
    pub(in crate::session) fn farther(
        &mut self,
        from: &mut Rung<'t>,
        end: &Position,
        seen: &BTreeMap<Addr, u64>,
    ) -> Result<Option<Rung<'t>>, Trouble> {
        let own = from.done.left(end);
        let steps: u64 = seen.values().sum();
        if steps == 0 || steps >= STEPS_MIN {
            return Ok(None);
        }
        // Where the way counts the rounds itself, their number is known.
        if let [before @ .., Leg::Arrive { addr, n }] = end.legs.as_slice()
            && let Some(often) = seen.get(addr).filter(|often| **often > OFTEN)
        {
            let Some(n) = n.checked_sub(STEPS_LEFT * often / steps).filter(|n| *n > 0) else {
                return Ok(None);
            };
            let (mut live, goal) = from.resume(end)?;
            let arrived = goal.arrived(before.len(), &mut live)?;
            if arrived.is_none_or(|arrived| arrived >= n) {
                return Ok(None);
            }
            let earlier =
                Position { event: end.event, legs: before.to_vec() }.then(Leg::Arrive { addr: *addr, n });
            return self.rung_from(from, end, earlier);
        }
        let mut begun = from.resume_without_counts(end)?;
        let ahead = self.ahead(&begun.0, end);
        let often = most_often(seen, |addr| Ok(begun.0.replica.can_count(addr, &own, ahead)?))?;
        let Some(addr) = often.into_iter().find(|addr| !own.contains(addr)) else {
            return Ok(None);
        };
        let Rounds::All(count, ..) = self.count_rounds(begun, end, addr, None)? else { return Ok(None) };
        let keep = STEPS_LEFT * seen[&addr] / steps;
        let Some(until) = count.checked_sub(keep).filter(|until| *until > 0) else { return Ok(None) };
        let Some((_, mut live, done)) = self.rounds(from, end, addr, Some(until))? else { return Ok(None) };
        Self::rung_here(&mut live, done)
    }

    /// How often tasks come to an address between a rung and the end; with `until`, the replica stays at that
    /// time. None: that would take too long to find out.
    pub(in crate::session) fn rounds(
        &mut self,
        rung: &mut Rung<'t>,
        end: &Position,
        addr: Addr,
        until: Option<u64>,
    ) -> Result<Option<(u64, Live<'t>, Done)>, Trouble> {
        let begun = rung.resume_without_counts(end)?;
        Ok(match self.count_rounds(begun, end, addr, until)? {
            Rounds::All(hits, live, done) => Some((hits, live, done)),
            Rounds::TooMany(_) => None,
        })
    }

    /// As `rounds`, of a replica that goes on from a rung, and counts nothing.
    pub(super) fn count_rounds(
        &mut self,
        (mut live, mut goal): (Live<'t>, Goal<'_>),
        end: &Position,
        addr: Addr,
        until: Option<u64>,
    ) -> Result<Rounds<'t>, Trouble> {
        live.have_points(end, Some(addr))?;
        let next = live.replica.next_event()?.map(|event| event.seq);
        // Only in the last interval is all that is counted in front of the end.
        let is_last = live.replica.done().0 >= end.event || next.is_none_or(|next| next >= end.event);
        let first = live.replica.traps().arrivals(addr);
        let ahead = self.ahead(&live, end);
        let by_itself =
            is_last && live.replica.count_arrivals(addr, until.map(|until| first + until), ahead)?;
        let (mut hits, mut stops) = (0, 0);
        tracing::debug!(%addr, by_itself, is_last, ?ahead, counts = ?live.counts(), %end, "rounds are to be counted");
        // Only who goes on from it knows that it is not at the end.
        let mut far: Option<Rung<'t>> = None;
        while let Some(stop) = self.toward(&mut live, &mut goal, &[], &Limit::default())? {
            let is_hit = matches!(stop, Stop::Point(_, at) if at == addr);
            hits += u64::from(is_hit);
            stops += 1;
            if is_hit && (by_itself || until == Some(hits)) {
                break;
            }
            if stops > STOPS_MAX && is_hit {
                if let Some(far) = far {
                    return Ok(Rounds::TooMany(far));
                }
                let copy = live.replica.checkpoint(&mut live.company)?;
                far = copy.map(|copy| Rung { copy, done: goal.done, image: live.image });
            }
        }
        if by_itself {
            let traps = live.replica.traps();
            let now = if end.legs.is_empty() { traps.arrivals_before(addr) } else { traps.arrivals(addr) };
            hits = now.saturating_sub(first);
        }
        live.replica.end_counts()?;
        tracing::debug!(addr = format_args!("{addr:#x}"), hits, by_itself, first, ?until, "rounds");
        Ok(Rounds::All(hits, live, goal.done))
    }
}

/// What comes more often is likely in a loop.
pub(super) const OFTEN: u64 = 2;

/// How many of the addresses that come equally often, and so are likely in the same loop, are wanted.
const OF_A_LOOP: usize = 2;

/// How many of them are asked about.
const ASKED_OF_A_LOOP: usize = 12;

/// The addresses that come often, the most frequent first; of those that come equally often, few.
/// Last come those of loops in which the program can count at none of its addresses.
pub(super) fn most_often(
    seen: &BTreeMap<Addr, u64>,
    mut can_count: impl FnMut(Addr) -> Result<bool, Trouble>,
) -> Result<Vec<Addr>, Trouble> {
    let mut often: Vec<(u64, Addr)> = seen.iter().map(|(addr, hits)| (*hits, *addr)).collect();
    often.retain(|(hits, _)| *hits > OFTEN);
    often.sort_unstable_by(|a, b| b.cmp(a));
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for of_a_loop in often.chunk_by(|(one, _), (other, _)| one == other) {
        let known = first.len();
        for (_, addr) in of_a_loop.iter().take(ASKED_OF_A_LOOP) {
            if can_count(*addr)? {
                first.push(*addr);
            }
            if first.len() == known + OF_A_LOOP {
                break;
            }
        }
        if first.len() == known {
            last.extend(of_a_loop.iter().take(OF_A_LOOP).map(|(_, addr)| *addr));
        }
    }
    first.append(&mut last);
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(all: &[(u64, u64)]) -> BTreeMap<Addr, u64> {
        all.iter().map(|(addr, hits)| (Addr(*addr), *hits)).collect()
    }

    fn often(all: &[(u64, u64)], can_count: &[u64]) -> Vec<u64> {
        let often = most_often(&seen(all), |addr| Ok(can_count.contains(&addr.0)));
        often.unwrap().into_iter().map(|addr| addr.0).collect()
    }

    #[test]
    fn of_a_loop_come_those_that_can_be_counted() {
        let all = [(1, 9), (2, 9), (3, 9), (4, 9), (5, 2), (6, 7), (7, 7)];
        assert_eq!(often(&all, &[1, 2, 6, 7]), [2, 1, 7, 6]);
        assert_eq!(often(&all, &[1, 7]), [1, 7]);
    }

    #[test]
    fn where_none_can_be_counted_few_come_last() {
        let all = [(1, 9), (2, 9), (3, 9), (6, 7), (7, 7)];
        assert_eq!(often(&all, &[6]), [6, 3, 2]);
        assert_eq!(often(&all, &[]), [3, 2, 7, 6]);
    }
}
