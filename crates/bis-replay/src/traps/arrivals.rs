//! What is counted between two events: arrivals at breakpoints, and how often watches have triggered.

use std::{collections::BTreeMap, time::Duration};

use bis_trace::types::{Addr, Tid};

use super::Traps;
use crate::task::{Found, Place};

impl Traps {
    /// A task is about to execute the instruction whose place this is, to which it has come.
    pub(crate) fn arrive(&mut self, tid: Tid, place: Addr) {
        let Some(program) = self.program_at(place) else { return };
        // Of those that the program counts by itself it has been told.
        if !self.is_counted(place) {
            *self.arrivals.entry(program).or_default() += 1;
        }
        self.last = Some((tid, place));
    }

    /// A task was interrupted here. May it be that it has not gone on from where the last event has left it?
    /// Where there is a breakpoint, it surely has not.
    pub(crate) fn may_stand(&self, place: (Tid, Addr)) -> bool {
        self.standing == Some(place) && !self.stops_at(place.1)
    }

    /// Is there a breakpoint which stops each task that comes to this place?
    fn stops_at(&self, place: Addr) -> bool {
        self.program_at(place).is_some() && !self.is_counted(place)
    }

    /// A task has run, and come to this.
    pub(crate) fn ran(&mut self, tid: Tid, place: &Place) {
        // A task that stands before a breakpoint when it is interrupted has not gone on: that would have
        // stopped it.
        let is_there = match place.found {
            Found::Point(at) => self.standing == Some((tid, at)),
            Found::Interrupted => self.stops_at(place.regs.ip()),
            // It has not got beyond the instruction to which it had come.
            Found::Fault(_) => self.last == Some((tid, place.regs.ip())),
            _ => false,
        };
        if is_there {
            return;
        }
        self.standing.take_if(|(task, _)| *task == tid);
        self.last = None;
        if let Found::Point(at) = place.found
            && !self.is_moment(at)
        {
            self.arrive(tid, at);
        }
    }

    pub(crate) fn trigger(&mut self) {
        self.triggers += 1;
    }

    /// An event is done, which leaves its task there: from here on is counted.
    pub(crate) fn begin_count(&mut self, standing: Option<(Tid, Addr)>) {
        self.before = std::mem::take(&mut self.arrivals);
        self.rounds.clear();
        self.silent_stops.clear();
        self.triggers = 0;
        self.late.clear();
        self.are_watches_late = false;
        self.standing = standing;
        self.ran = Duration::ZERO;
        self.last = None;
    }

    pub(crate) fn add_time(&mut self, time: Duration) {
        self.ran += time;
    }

    /// For how long tasks have run since the last event, by the clock: that is not exact, and not the same
    /// another time.
    pub fn ran_for(&self) -> Duration {
        self.ran
    }

    /// How often tasks have arrived at this breakpoint since the last event, or since it is there.
    pub fn arrivals(&self, addr: Addr) -> u64 {
        self.arrivals.get(&addr).copied().unwrap_or(0)
    }

    /// How often tasks had arrived there between the last two events.
    pub fn arrivals_before(&self, addr: Addr) -> u64 {
        self.before.get(&addr).copied().unwrap_or(0)
    }

    /// Of all addresses where all arrivals since the last event were counted, and none are now by the program
    /// itself.
    pub fn all_arrivals(&self) -> BTreeMap<Addr, u64> {
        let is_counted = |addr: Addr| self.counted.iter().any(|counted| counted.program == addr);
        let whole = self.wanted.iter().filter(|addr| !self.late.contains(addr) && !is_counted(**addr));
        whole.map(|addr| (*addr, self.arrivals(*addr))).collect()
    }

    /// Of all breakpoints, whatever has been counted.
    pub fn all_counts(&self) -> BTreeMap<Addr, u64> {
        self.wanted.iter().map(|addr| (*addr, self.arrivals(*addr))).collect()
    }

    /// Are that all since the last event?
    pub fn has_all_arrivals(&self, addr: Addr) -> bool {
        self.has_point(addr) && !self.late.contains(&addr)
    }

    /// Are [`Traps::triggers`] all since the last event?
    pub fn has_all_triggers(&self) -> bool {
        !self.are_watches_late
    }

    /// How often watches have triggered since the last event.
    pub fn triggers(&self) -> u64 {
        self.triggers
    }
}
