//! What a session stops at: breakpoints and watchpoints as a client has put them in, with their conditions.
//!
//! A condition is asked where the program stands: a breakpoint's before its instruction is executed, a
//! watchpoint's behind the instruction that has touched the bytes. A condition that cannot be evaluated
//! holds, so that nothing is missed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bis_replay::{Area, Piece, Predicate, Replica};
use bis_trace::types::{Addr, Tid};
use bis_tracee::debug::{Access, Watch};

use crate::protocol::{
    agent::{self, Limits, Look, Unreadable},
    command::{Point, PointKind},
    target::Targets,
};

/// Debug registers that watchpoints may have: one is left for the search for a place.
pub const WATCHES_MAX: usize = 3;

/// A watchpoint's key: its kind, address and length in bytes.
pub type WatchKey = (PointKind, Addr, u64);

/// A watchpoint, and what watches it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Watchpoint {
    key: WatchKey,
    conditions: Vec<Vec<u8>>,
    pieces: Vec<Piece>,
}

/// See the module's text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Points {
    breakpoints: BTreeMap<Addr, Point>,
    /// Where called functions return to, in memory in which nothing is executed. A client keeps those of
    /// calls that it has given up, and in the recording the program has its own bytes there.
    returns: BTreeSet<Addr>,
    watchpoints: Vec<Watchpoint>,
    /// Conditions that a client gives for writes to a range (address, length) by a command of its own. Where
    /// there is none, each write counts: somebody else watches these bytes of a larger range.
    watch_conditions: BTreeMap<(Addr, u64), Vec<Vec<u8>>>,
}

impl Points {
    /// Puts a point in, or gives one that is there its new conditions. The first watchpoints have debug
    /// registers, as far as these go; the others' pages are guarded.
    pub fn insert(&mut self, point: Point) {
        if point.kind.is_breakpoint() {
            self.breakpoints.insert(point.addr, point);
            return;
        }
        let key = (point.kind, point.addr, point.size);
        self.watchpoints.retain(|known| known.key != key);
        let access = if point.kind == PointKind::Write { Access::Write } else { Access::Any };
        let (addr, len) = (point.addr, point.size.max(1));
        let is_register = |piece: &(WatchKey, Piece)| matches!(piece.1, Piece::Register(_));
        let room = WATCHES_MAX.saturating_sub(self.pieces().filter(is_register).count());
        // More is not asked for than could fit.
        let fits = len <= 8 * WATCHES_MAX as u64;
        let registers = fits.then(|| Watch::cover(addr, len, access)).filter(|watches| watches.len() <= room);
        let pieces = match registers {
            Some(watches) => watches.into_iter().map(Piece::Register).collect(),
            None => vec![Piece::Pages(Area { addr, len, access, unchanged: false })],
        };
        self.watchpoints.push(Watchpoint { key, conditions: point.conditions, pieces });
    }

    pub fn remove(&mut self, kind: PointKind, addr: Addr, size: u64) {
        if kind.is_breakpoint() {
            self.breakpoints.remove(&addr);
        } else {
            self.watchpoints.retain(|known| known.key != (kind, addr, size));
        }
    }

    /// Writes to these bytes are told of only where one of these expressions is not zero; with none, all are.
    pub fn set_watch_conditions(&mut self, addr: Addr, len: u64, conditions: Vec<Vec<u8>>) {
        self.watch_conditions.insert((addr, len), conditions);
    }

    pub fn forget_watch_conditions(&mut self, addr: Addr, len: u64) {
        self.watch_conditions.remove(&(addr, len));
    }

    /// The conditions of a watchpoint for writes that a command has given: those of its very bytes, or else
    /// of ranges that it lies in.
    fn conditions_of_writes(&self, (kind, addr, len): WatchKey) -> Vec<Vec<u8>> {
        if kind != PointKind::Write {
            return Vec::new();
        }
        if let Some(conditions) = self.watch_conditions.get(&(addr, len)) {
            return conditions.clone();
        }
        let has = |at: Addr, bytes: u64| at <= addr && addr + len <= at.saturating_add(bytes);
        let around = self.watch_conditions.iter().filter(|((at, bytes), _)| has(*at, *bytes));
        let around: Vec<&Vec<Vec<u8>>> = around.map(|(_, conditions)| conditions).collect();
        // One without any stops each time.
        if around.iter().any(|conditions| conditions.is_empty()) {
            return Vec::new();
        }
        around.into_iter().flatten().cloned().collect()
    }

    /// Only a called function comes there.
    pub fn add_return(&mut self, addr: Addr) {
        self.returns.insert(addr);
    }

    pub fn is_return(&self, addr: Addr) -> bool {
        self.returns.contains(&addr)
    }

    /// Its watchpoints alone, without the conditions that a command of its own has given for them.
    pub fn only_watchpoints(&self) -> Points {
        Points { watchpoints: self.watchpoints.clone(), ..Points::default() }
    }

    /// The addresses of breakpoints in the recorded program.
    pub fn breakpoints(&self) -> BTreeSet<Addr> {
        self.breakpoints.keys().filter(|addr| !self.returns.contains(addr)).copied().collect()
    }

    /// The addresses of breakpoints in a copy of the program, in which functions are called.
    pub fn breakpoints_and_returns(&self) -> BTreeSet<Addr> {
        self.breakpoints.keys().copied().collect()
    }

    pub fn has_watchpoints(&self) -> bool {
        !self.watchpoints.is_empty()
    }

    fn pieces(&self) -> impl Iterator<Item = (WatchKey, Piece)> + '_ {
        self.watchpoints.iter().flat_map(|point| point.pieces.iter().map(|piece| (point.key, *piece)))
    }

    /// What has to be watched.
    pub fn watches(&self) -> Arc<[Piece]> {
        self.pieces().map(|(_, piece)| piece).collect()
    }

    /// Is there a breakpoint whose condition holds?
    pub fn breakpoint_at(&self, addr: Addr, asker: &mut Asker<'_, '_>) -> Option<&Point> {
        let point = self.breakpoints.get(&addr)?;
        asker.holds(&point.conditions).then_some(point)
    }

    /// Does a breakpoint here stop each time?
    pub fn is_plain(&self, addr: Addr) -> bool {
        self.breakpoints
            .get(&addr)
            .is_some_and(|point| point.conditions.is_empty() && point.commands.is_empty())
    }

    /// The condition of a breakpoint, if it has one and only stops where that holds, as the program can test
    /// it by itself.
    pub fn predicate(&self, addr: Addr) -> Option<Predicate> {
        let point = self.breakpoints.get(&addr).filter(|point| !point.conditions.is_empty())?;
        agent::compile(&point.conditions, addr)
    }

    /// What the watched bytes hold now.
    pub fn values(&self, replica: &Replica<'_>) -> Values {
        let read = |point: &Watchpoint| {
            let (_, addr, len) = point.key;
            (point.key, replica.read_program(addr, usize::try_from(len).unwrap_or(0)))
        };
        Values(self.watchpoints.iter().map(read).collect())
    }

    /// The watchpoint that is to be told of, after these pieces were touched (none: by a system call), the
    /// first of its bytes that has changed, and what all bytes hold now. (A client takes each watchpoint that
    /// has this byte for one that was hit: their common begin would name those beside it, too.)
    pub fn watchpoint(
        &self,
        touched: Option<&[usize]>,
        before: &Values,
        asker: &mut Asker<'_, '_>,
    ) -> (Option<(PointKind, Addr)>, Values) {
        let now = self.values(asker.replica);
        let touched: Option<BTreeSet<WatchKey>> = touched.map(|touched| {
            let piece = |number: &usize| self.pieces().nth(*number).map(|(key, _)| key);
            touched.iter().filter_map(piece).collect()
        });
        let is_told = |point: &&Watchpoint| {
            let changed = before.0.get(&point.key) != now.0.get(&point.key);
            let touched = touched.as_ref().map(|touched| touched.contains(&point.key));
            match point.key.0 {
                PointKind::Read => touched == Some(true) && !changed,
                PointKind::Access => touched == Some(true) || changed,
                _ => changed,
            }
        };
        let found = self.watchpoints.iter().filter(is_told).find(|point| {
            asker.holds(&point.conditions) && asker.holds(&self.conditions_of_writes(point.key))
        });
        let touched = found.map(|Watchpoint { key: key @ (kind, addr, _), .. }| {
            let bytes = |values: &Values| values.0.get(key).cloned().unwrap_or_default();
            let first = bytes(before).iter().zip(&bytes(&now)).position(|(then, now)| then != now);
            (*kind, *addr + first.unwrap_or(0) as u64)
        });
        (touched, now)
    }
}

/// The bytes of watchpoints at some moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Values(BTreeMap<WatchKey, Vec<u8>>);

/// Evaluates expressions where a task stands.
pub struct Asker<'a, 't> {
    pub replica: &'a Replica<'t>,
    pub targets: &'a Targets,
    pub tid: Tid,
}

impl Asker<'_, '_> {
    /// Is there no condition, or one that holds?
    fn holds(&mut self, conditions: &[Vec<u8>]) -> bool {
        conditions.is_empty()
            || conditions.iter().any(|code| {
                agent::run(code, self, &Limits::default()).map_or(true, |outcome| outcome.holds())
            })
    }

    /// What these commands print.
    pub fn print(&mut self, commands: &[Vec<u8>]) -> Vec<u8> {
        let run = |code: &Vec<u8>| match agent::run(code, self, &Limits::default()) {
            Ok(outcome) => outcome.output,
            Err(fault) => format!("bis: a breakpoint's command failed: {fault}\n").into_bytes(),
        };
        commands.iter().flat_map(run).collect()
    }
}

impl Look for Asker<'_, '_> {
    fn register(&mut self, number: u16) -> Option<u64> {
        let registers = self.replica.registers(self.tid).ok()?;
        self.targets.of(&registers).value(number.into(), &registers, &[])
    }

    fn memory(&mut self, addr: Addr, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let bytes = self.replica.read_program(addr, buffer.len());
        if bytes.len() != buffer.len() {
            return Err(Unreadable);
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }
}
