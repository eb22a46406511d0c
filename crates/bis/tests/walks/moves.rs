//! The moves of a walk, and which of them must lead back to where they began.

use std::{collections::BTreeMap, thread, time::Duration};

use bis_debug::{
    protocol::command::{Point, PointKind},
    session::{Why, place::Position},
};
use bis_trace::types::{Addr, EventSeq, Tid};
use bis_tracee::maps::Mapping;

use crate::{state::State, walk::Walk};

impl Walk<'_, '_> {
    fn a_task(&mut self) -> Tid {
        let threads = self.session.threads();
        if self.dice.below(4) == 0 {
            self.dice.one_of(&threads).unwrap_or(self.session.tid())
        } else if threads.contains(&self.session.tid()) {
            self.session.tid()
        } else {
            threads.first().copied().unwrap_or(self.session.tid())
        }
    }

    fn set_points(&mut self) -> Result<(), String> {
        self.clear_points();
        let mut points = Vec::new();
        let (codes, watches) = match self.dice.below(6) {
            0 => (1, 1),
            1 => (0, 1),
            2 => (1, 0),
            3 => (3, 0),
            4 => (2, 2),
            _ => (2, 0),
        };
        for _ in 0..codes {
            let code = self.facts.code.iter().filter(|(image, _)| *image == self.image);
            let code: Vec<u64> = code.map(|(_, addr)| *addr).collect();
            if let Some(addr) = self.dice.one_of(&code) {
                points.push((PointKind::Software, addr, 1));
            }
        }
        for _ in 0..watches {
            let data = self.facts.data.clone();
            if let Some(addr) = self.dice.one_of(&data) {
                let kind = self.dice.one_of(&[PointKind::Write, PointKind::Access, PointKind::Write]);
                points.push((kind.unwrap_or(PointKind::Write), addr, 8));
            }
        }
        for (kind, addr, size) in points {
            let point =
                Point { kind, addr: Addr(addr), size, conditions: vec![], commands: vec![], persist: false };
            self.session.points.insert(point.clone());
            self.note(&format!("{kind:?} point at {addr:#x}"));
            self.points.push(point);
        }
        Ok(())
    }

    pub fn one_move(&mut self) -> Result<(), String> {
        match self.dice.below(13) {
            0 => {
                let tid = self.a_task();
                self.step(tid).map(drop)
            }
            1 => {
                let tid = self.a_task();
                self.back(tid).map(drop)
            }
            2 => {
                self.set_points()?;
                self.go().map(drop)
            }
            3 => {
                self.set_points()?;
                self.reverse().map(drop)
            }
            4 => self.go().map(drop),
            5 => self.reverse().map(drop),
            6 => {
                let places = self.facts.places.clone();
                match self.dice.one_of(&places) {
                    Some(place) => self.seek(&place),
                    None => Ok(()),
                }
            }
            7 => {
                let (first, end) = self.last;
                let event = EventSeq(first + self.dice.next() % (end - first).max(1));
                self.seek(&event.to_string())
            }
            8 => self.interrupted(),
            9 => self.back_and_step(),
            10 => self.steps_and_back(),
            11 => self.go_and_return(),
            _ => {
                // Down into a stretch of instructions, there and back.
                let tid = self.a_task();
                let forward = self.dice.below(4);
                for _ in 0..forward {
                    self.step(tid)?;
                }
                for _ in 0..self.dice.below(5) {
                    // It may have ended on the way.
                    if self.session.threads().contains(&tid) {
                        self.back(tid)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn interrupted(&mut self) -> Result<(), String> {
        self.clear_points();
        let stopper = self.session.stopper();
        let its_stopper = stopper.clone();
        let after = Duration::from_micros(self.dice.next() % 30_000);
        let asker = thread::spawn(move || {
            thread::sleep(after);
            its_stopper.ask();
        });
        let report = self.session.go();
        let _ = asker.join();
        // It may have come behind the end.
        stopper.forget();
        self.told("interrupt", &report)
    }

    /// The state now must be as before: as far as this task is concerned, and if it is the only one, in all.
    fn must_be(&self, tid: Tid, before: &State, what: &str) -> Result<(), String> {
        // A signal in the place of a call comes when the processor has put the two registers away that a call
        // loses.
        let lost = |state: &State| {
            let mut state = state.clone();
            state.tasks.values_mut().for_each(|(regs, _)| (regs.rcx, regs.r11) = (0, 0));
            state
        };
        // Other tasks may have run in between, and other processes that share memory.
        let is_shared = |mapping: &Mapping| mapping.shared && mapping.prot & 2 != 0;
        let has_tasks = before.tasks.len() > 1 || self.state.tasks.len() > 1;
        let has_others = has_tasks || self.session.maps().iter().any(is_shared);
        let only = |state: &State| match lost(state).tasks.get(&tid) {
            Some(task) if has_others => {
                State { tasks: BTreeMap::from([(tid, *task)]), memory: Vec::new(), bytes: BTreeMap::new() }
            }
            _ => lost(state),
        };
        match only(before).difference(&only(&self.state)) {
            None => Ok(()),
            Some(difference) => Err(format!("{what} does not lead to where it began:\n{difference}")),
        }
    }

    /// Is the task within a call? Then it is not where a step would leave it.
    fn is_in_call(&self, tid: Tid) -> bool {
        self.session.replica().in_call(tid).is_some()
    }

    fn back_and_step(&mut self) -> Result<(), String> {
        self.clear_points();
        let tid = self.a_task();
        if self.is_in_call(tid) {
            return Ok(());
        }
        if self.session.replica().is_within(tid) {
            return self.steps_and_back();
        }
        let (before, begin) = (self.state.clone(), self.session.position().clone());
        let image = self.session.image_domain(self.session.position().event);
        if self.back(tid)? == Why::Step
            && self.session.image_domain(self.session.position().event) == image
            && self.until_step(tid, Some(&begin))?
        {
            self.must_be(tid, &before, "a step back and a step")?;
        }
        Ok(())
    }

    fn rip(&self, tid: Tid) -> Option<u64> {
        self.state.tasks.get(&tid).map(|(registers, _)| registers.rip)
    }

    /// One step; signals that it comes by do not count, but one at this position, which is the end. False: it
    /// was no step.
    fn until_step(&mut self, tid: Tid, end: Option<&Position>) -> Result<bool, String> {
        for _ in 0..10 {
            let before = self.rip(tid);
            match self.step(tid)? {
                Why::Step => return Ok(true),
                Why::Signal(_) if end == Some(self.session.position()) => return Ok(true),
                // A call that a hook has made, and the signal comes behind that: the call is an instruction
                // that is done.
                Why::Signal(_) if self.rip(tid) != before => return Ok(true),
                Why::Signal(_) => {}
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn steps_and_back(&mut self) -> Result<(), String> {
        self.clear_points();
        let tid = self.a_task();
        if self.is_in_call(tid) {
            return Ok(());
        }
        // Within what is executed in place of an instruction, steps back lead to the begin of that: a step
        // from there leads where the first one has led.
        let is_within = self.session.replica().is_within(tid);
        let mut before = self.state.clone();
        let count = 1 + self.dice.below(12);
        for made in 0..count {
            if !self.until_step(tid, None)? {
                return Ok(());
            }
            if made == 0 && is_within {
                before = self.state.clone();
            }
        }
        for _ in 0..count {
            if self.back(tid)? != Why::Step {
                return Err("a step back over what was stepped forward is none".into());
            }
        }
        if is_within && !self.until_step(tid, None)? {
            return Err(
                "what was stepped forward from within an instruction is no step from its begin".into()
            );
        }
        self.must_be(tid, &before, &format!("{count} steps and as many back"))
    }

    fn go_and_return(&mut self) -> Result<(), String> {
        if self.points.is_empty() {
            self.set_points()?;
        }
        let is_stop =
            |why: &Why| matches!(why, Why::Breakpoint { .. } | Why::Watchpoint { .. } | Why::Signal(_));
        let why = self.go()?;
        if !is_stop(&why) {
            return Ok(());
        }
        let there = self.state.clone();
        let name = self.session.position().to_string();
        let back = self.reverse()?;
        if !is_stop(&back) && back != Why::Begin {
            return Ok(());
        }
        for _ in 0..3 {
            let why = self.go()?;
            if self.state == there {
                return Ok(());
            }
            if !is_stop(&why) {
                break;
            }
        }
        let difference = there.difference(&self.state).unwrap_or_default();
        Err(format!("going back from {name} and forward again does not lead there:\n{difference}"))
    }
}
