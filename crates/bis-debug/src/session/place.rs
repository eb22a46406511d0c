//! Where a session stands: a position that can be gone to again.
//!
//! A *position* is the last event that is done, and how to go on from there: legs. Each leg is exact, because
//! a replica does the same each time: the n-th arrival of a task at an address, the n-th time that watched
//! bytes are touched, n instructions of a task, or the place of the next event with nothing of its outcome
//! done.
//!
//! A position is written so: `1234` (event 1234 is done); `1234+0x401136#5` (since then, a task is about to
//! execute 0x401136 for the fifth time); `+3i:77` (task 77 has executed three instructions more); `-2i` (two
//! steps before that).

use std::{fmt, str::FromStr, sync::Arc};

use bis_replay::{Area, Piece};
use bis_trace::types::{Addr, EventSeq, Tid};
use bis_tracee::debug::{Access, Watch};

/// A part of the way from one event to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leg {
    /// The n-th time from here that a task is about to execute this address.
    Arrive { addr: Addr, n: u64 },
    /// The n-th time from here that one of these is touched: behind the instruction.
    Trigger { watches: Arc<[Piece]>, n: u64 },
    /// This task executes so many instructions (others may run before it does).
    Step { tid: Tid, n: u64 },
    /// The task of this event, which is the next one, is at its place.
    Before(EventSeq),
    /// So many steps in front of another position, which a search has found by single steps. It is given its
    /// own way when that is needed.
    Back { n: u64, of: Arc<Position> },
}

/// See the module's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    pub event: EventSeq,
    pub legs: Vec<Leg>,
}

impl Position {
    pub fn at(event: EventSeq) -> Position {
        Position { event, legs: Vec::new() }
    }

    /// This position, and from there on this leg.
    #[must_use]
    pub fn then(&self, leg: Leg) -> Position {
        let mut position = self.clone();
        match (position.legs.last_mut(), &leg) {
            (Some(Leg::Step { tid, n }), Leg::Step { tid: other, n: more }) if tid == other => *n += more,
            (Some(Leg::Arrive { addr, n }), Leg::Arrive { addr: other, n: more }) if addr == other => {
                *n += more
            }
            _ => position.legs.push(leg),
        }
        position
    }

    /// How much of the way to this position is done at that one: how many legs, and how much of the next.
    /// None: it is behind this one, or the names do not tell.
    pub fn done_at(&self, other: &Position) -> Option<(usize, u64)> {
        if other.event != self.event {
            return (other.event < self.event).then_some((0, 0));
        }
        // The place of an event comes last.
        if let Some(Leg::Before(_)) = self.legs.first() {
            return Some((0, 0)).filter(|_| !matches!(other.legs.first(), Some(Leg::Before(_))));
        }
        let same = self.legs.iter().zip(&other.legs).take_while(|(own, other)| own == other).count();
        match (&other.legs[same..], self.legs.get(same)) {
            ([], _) => Some((same, 0)),
            ([last], Some(next)) => match (last, next) {
                (Leg::Arrive { addr: a, n }, Leg::Arrive { addr: b, n: all }) if a == b && n < all => {
                    Some((same, *n))
                }
                (Leg::Step { tid: a, n }, Leg::Step { tid: b, n: all }) if a == b && n < all => {
                    Some((same, *n))
                }
                (Leg::Trigger { watches: a, n }, Leg::Trigger { watches: b, n: all })
                    if a == b && n < all =>
                {
                    Some((same, *n))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// A text that is no place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no place: a place is an event's number (1234), or such a one as $_bis_place holds (1234+0x401136#5)"
)]
pub struct NoPlace(String);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.legs.first() {
            Some(Leg::Back { of, .. }) => write!(f, "{of}")?,
            _ => write!(f, "{}", self.event)?,
        }
        self.legs.iter().try_for_each(|leg| write!(f, "{leg}"))
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leg::Arrive { addr, n } => write!(f, "+{addr:#x}#{n}"),
            Leg::Trigger { watches, n } => {
                write!(f, "+w")?;
                for (number, watch) in watches.iter().enumerate() {
                    let comma = if number > 0 { "," } else { "" };
                    let (addr, len, access, by) = match watch {
                        Piece::Register(watch) => (watch.addr, watch.len.into(), watch.access, ""),
                        Piece::Pages(area) => (area.addr, area.len, area.access, "p"),
                    };
                    let access = if access == Access::Write { "w" } else { "a" };
                    write!(f, "{comma}{addr:#x}:{len}{access}{by}")?;
                }
                write!(f, "#{n}")
            }
            Leg::Step { tid, n } => write!(f, "+{n}i:{tid}"),
            Leg::Before(event) => write!(f, "+before:{event}"),
            Leg::Back { n, .. } => write!(f, "-{n}i"),
        }
    }
}

/// One leg, without its `+`.
fn leg(text: &str) -> Option<Leg> {
    let number = |text: &str| text.parse::<u64>().ok();
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let counted = |text: &str| number(text).filter(|n| *n > 0);
    if let Some(event) = text.strip_prefix("before:") {
        return Some(Leg::Before(EventSeq(number(event)?)));
    }
    if let Some(watches) = text.strip_prefix('w') {
        let (watches, n) = watches.split_once('#')?;
        let watch = |text: &str| {
            let (addr, rest) = text.split_once(':')?;
            let (rest, is_area) = rest.strip_suffix('p').map_or((rest, false), |rest| (rest, true));
            let (len, access) = match rest.strip_suffix('w') {
                Some(len) => (len, Access::Write),
                None => (rest.strip_suffix('a')?, Access::Any),
            };
            if is_area {
                return Some(Piece::Pages(Area {
                    addr: Addr(hex(addr)?),
                    len: counted(len)?,
                    access,
                    unchanged: false,
                }));
            }
            let len = number(len).filter(|len| [1, 2, 4, 8].contains(len))?;
            let addr = hex(addr).filter(|addr| addr.is_multiple_of(len))?;
            Some(Piece::Register(Watch { addr: Addr(addr), len: u8::try_from(len).ok()?, access }))
        };
        let watches: Vec<Piece> = watches.split(',').map(watch).collect::<Option<_>>()?;
        return Some(Leg::Trigger { watches: watches.into(), n: counted(n)? });
    }
    if let Some((n, tid)) = text.split_once("i:") {
        return Some(Leg::Step { tid: Tid(tid.parse().ok()?), n: counted(n)? });
    }
    let (addr, n) = text.split_once('#').unwrap_or((text, "1"));
    Some(Leg::Arrive { addr: Addr(hex(addr)?), n: counted(n)? })
}

impl FromStr for Position {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Position, NoPlace> {
        let bad = || NoPlace(text.into());
        let end = text.find(['+', '-']).unwrap_or(text.len());
        let (event, mut rest) = text.split_at(end);
        let mut position = Position::at(EventSeq(event.parse().map_err(|_| bad())?));
        while let Some(sign) = rest.chars().next() {
            let after = &rest[1..];
            let end = after.find(['+', '-']).unwrap_or(after.len());
            let (part, later) = after.split_at(end);
            if sign == '-' {
                let n =
                    part.strip_suffix('i').and_then(|n| n.parse().ok()).filter(|n| *n > 0).ok_or_else(bad)?;
                let of = Arc::new(position);
                position = Position { event: of.event, legs: vec![Leg::Back { n, of }] };
            } else {
                position = position.then(leg(part).ok_or_else(bad)?);
            }
            rest = later;
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let at = Position::at(EventSeq(77));
        let arrive = Leg::Arrive { addr: Addr(0x7fff_f7fc_1000), n: 12 };
        let watches: Arc<[Piece]> = Arc::from([
            Piece::Register(Watch { addr: Addr(0x1000), len: 8, access: Access::Write }),
            Piece::Register(Watch { addr: Addr(0x2004), len: 4, access: Access::Any }),
            Piece::Pages(Area { addr: Addr(0x3001), len: 200, access: Access::Write, unchanged: false }),
        ]);
        let back = Leg::Back { n: 3, of: Arc::new(at.then(arrive.clone())) };
        for position in [
            at.clone(),
            at.then(arrive.clone()),
            at.then(Leg::Before(EventSeq(78))),
            at.then(arrive.clone())
                .then(Leg::Step { tid: Tid(9), n: 4 })
                .then(Leg::Trigger { watches, n: 2 }),
            at.then(back).then(arrive),
        ] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        assert_eq!(
            "5+0x10".parse(),
            Ok(Position::at(EventSeq(5)).then(Leg::Arrive { addr: Addr(16), n: 1 }))
        );
        for bad in
            ["", "x", "5+10#1", "5+0x10#0", "5+0x#1", "-", "+0x10#1", "5#1", "5+3i", "5-0i", "5+", "5+w#1"]
        {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_tell_what_comes_first() {
        let at = |text: &str| text.parse::<Position>().unwrap();
        for (end, mark, done) in [
            ("5", "4+0x10#3", Some((0, 0))),
            ("5", "5", Some((0, 0))),
            ("5", "5+0x10#1", None),
            ("5+0x10#9", "5+0x10#3", Some((0, 3))),
            ("5+0x10#9", "5+0x10#9", Some((1, 0))),
            ("5+0x10#9+0x20#1", "5+0x10#9", Some((1, 0))),
            ("5+0x10#9+0x20#1", "5+0x10#3", Some((0, 3))),
            ("5+0x10#9", "5+0x10#10", None),
            ("5+0x10#9", "5+0x20#1", None),
            ("5+0x10#9", "5+0x10#3+0x20#1", None),
            ("5+before:6", "5+0x10#3", Some((0, 0))),
            ("5+before:6", "5+before:6", None),
        ] {
            assert_eq!(at(end).done_at(&at(mark)), done, "{end} from {mark}");
        }
        let (arrive, more) = (Leg::Arrive { addr: Addr(16), n: 3 }, Leg::Arrive { addr: Addr(16), n: 4 });
        assert_eq!(at("5").then(arrive).then(more), at("5+0x10#7"));
    }

    #[test]
    fn steps_of_one_task_are_one_leg() {
        let step = |tid| Leg::Step { tid: Tid(tid), n: 1 };
        let position = Position::at(EventSeq(1)).then(step(5)).then(step(5)).then(step(6));
        assert_eq!(position.legs, [Leg::Step { tid: Tid(5), n: 2 }, step(6)]);
    }
}
