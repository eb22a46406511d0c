//! A walk: a session on its way through a recording, and the looks at what it finds.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use bis_debug::{
    Which,
    protocol::command::Point,
    session::{Report, Session, Why, place::Position},
};
use bis_replay::World;
use bis_trace::{
    Trace,
    event::Base,
    types::{DomainId, Tid},
};

use crate::{
    number,
    program::Addresses,
    state::{State, is_loud},
    watchdog::Watchdog,
};

/// What is walked through, and how.
pub struct Plan<'a> {
    pub trace: &'a Path,
    pub is_forked: bool,
    pub addresses: &'a Addresses,
    pub moves: usize,
}

/// Numbers that only look random (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }

    pub fn one_of<T: Clone>(&mut self, things: &[T]) -> Option<T> {
        let at = self.below(things.len());
        things.get(at).cloned()
    }
}

/// What is known of a recording.
#[derive(Default)]
pub struct Facts {
    pub states: HashMap<String, State>,
    pub places: Vec<String>,
    /// In which program, because in another one it may be the middle of an instruction.
    pub code: Vec<(DomainId, u64)>,
    pub data: Vec<u64>,
    /// Which move has taken longest, with the looks at memory.
    pub longest: (Duration, String),
}

/// A session on its way.
pub struct Walk<'a, 't> {
    pub session: Session<'t>,
    pub facts: &'a mut Facts,
    pub dice: Dice,
    pub log: &'a mut String,
    pub watch: &'a Watchdog,
    pub points: Vec<Point>,
    pub state: State,
    /// Its present program.
    pub image: DomainId,
    pub is_loud: bool,
    /// The move that is underway.
    pub began: Instant,
    pub last: (u64, u64),
}

pub fn walk(
    plan: &Plan<'_>,
    seed: u64,
    facts: &mut Facts,
    log: &mut String,
    watch: &Watchdog,
) -> Result<(), String> {
    bis_replay::allow_many_files();
    let Plan { addresses, .. } = *plan;
    let trace = Trace::open(plan.trace).map_err(|error| error.to_string())?;
    let world = World::new(&trace).map_err(|error| error.to_string())?;
    let which = match number("BIS_WALK_PID").and_then(|pid| i32::try_from(pid).ok()) {
        Some(pid) => Which::Pid(pid),
        None if plan.is_forked => forked(&trace),
        None => Which::First,
    };
    let mut session = Session::open(&world, &which, None, None).map_err(|error| error.to_string())?;
    if let Ok(mut stopper) = watch.stopper.lock() {
        *stopper = Some(session.stopper());
    }
    // The same seed is to make the same moves, whatever other walks have seen.
    facts.places.clear();
    facts.data.clone_from(&addresses.data);
    let last = trace.domains().map(|entry| entry.seq.0).max().unwrap_or(0);
    let image = session.image_domain(session.position().event);
    facts.code = addresses.code.iter().map(|addr| (image, *addr)).collect();
    let first = session.first_event().0;
    let end = session.end_event().map_or(last.max(first) + 1000, |event| event.0);
    let state = State::of(&mut session)?;
    let mut walk = Walk {
        session,
        facts,
        dice: Dice(seed.wrapping_mul(0x1234_5678_9abc_def1)),
        log,
        watch,
        points: Vec::new(),
        state,
        image,
        is_loud: is_loud(),
        began: Instant::now(),
        last: (first, end),
    };
    walk.look("the begin")?;
    for _ in 0..plan.moves {
        walk.one_move()?;
    }
    Ok(())
}

/// The first process that was forked and has not executed anything.
fn forked(trace: &Trace) -> Which {
    let forked = trace.domains().filter(|entry| matches!(entry.base, Base::Fork { .. }));
    forked.min_by_key(|entry| entry.seq).map_or(Which::First, |entry| Which::Forked(entry.pid.0))
}

impl Walk<'_, '_> {
    pub fn note(&mut self, text: &str) {
        self.watch.moves.fetch_add(1, Ordering::SeqCst);
        let took = self.began.elapsed();
        self.began = Instant::now();
        if self.is_loud {
            eprintln!("{text} ({took:.1?})");
        }
        if took > self.facts.longest.0 {
            self.facts.longest = (took, text.into());
        }
        let _ = writeln!(self.log, "  {text}");
    }

    /// Compares what is seen with what was seen under this name.
    pub fn look(&mut self, what: &str) -> Result<(), String> {
        let name = self.session.position().to_string();
        let tid = self.session.tid();
        let rip = self.session.registers(tid).map_or(0, |(registers, _)| registers.rip);
        self.note(&format!("{what}: {name} (task {tid} at {rip:#x})"));
        let state = State::of(&mut self.session)?;
        if let Some(known) = self.facts.states.get(&name) {
            if let Some(difference) = known.difference(&state) {
                return Err(format!("{name} is not what it was:\n{difference}"));
            }
        } else {
            self.facts.states.insert(name.clone(), state.clone());
        }
        self.facts.places.push(name);
        let image = self.session.image_domain(self.session.position().event);
        if image != self.image {
            self.image = image;
            self.clear_points();
        }
        if let Some((registers, _)) = state.tasks.get(&tid) {
            if rip != 0 && self.facts.code.len() < 400 {
                self.facts.code.push((self.image, rip));
            }
            if self.facts.data.len() < 100 {
                self.facts.data.push(registers.rsp & !7);
            }
        }
        self.state = state;
        Ok(())
    }

    pub fn told(&mut self, what: &str, report: &Report) -> Result<(), String> {
        let what = format!("{what} -> {:?}", report.why);
        if let Why::Broken(text) = &report.why {
            self.note(&what);
            return Err(format!("the session is broken at {}: {text}", self.session.position()));
        }
        if report.why == Why::Interrupted && !what.starts_with("interrupt") {
            self.note(&what);
            return Err(format!("the session hangs on its way from {}", self.session.position()));
        }
        self.look(&what)
    }

    pub fn step(&mut self, tid: Tid) -> Result<Why, String> {
        let report = self.session.step(tid, None);
        self.told(&format!("step {tid}"), &report)?;
        Ok(report.why)
    }

    pub fn back(&mut self, tid: Tid) -> Result<Why, String> {
        let report = self.session.reverse_step(tid);
        self.told(&format!("step back {tid}"), &report)?;
        Ok(report.why)
    }

    pub fn go(&mut self) -> Result<Why, String> {
        let report = self.session.go();
        self.told("go", &report)?;
        Ok(report.why)
    }

    pub fn reverse(&mut self) -> Result<Why, String> {
        let report = self.session.reverse();
        self.told("go back", &report)?;
        Ok(report.why)
    }

    pub fn seek(&mut self, text: &str) -> Result<(), String> {
        let position: Position = text.parse().map_err(|error| format!("{text}: {error}"))?;
        self.watch.moves.fetch_add(1, Ordering::SeqCst);
        if self.is_loud {
            eprintln!("seek {text}");
        }
        match self.session.seek(&position) {
            Ok(_) => {}
            Err(trouble) => return Err(format!("{text} cannot be gone to: {}", trouble.text())),
        }
        self.look(&format!("seek {text}"))?;
        // The place may have got another name.
        if let Some(known) = self.facts.states.get(text)
            && let Some(difference) = known.difference(&self.state)
        {
            return Err(format!("{text} is not what it was when it was gone to:\n{difference}"));
        }
        Ok(())
    }

    pub fn clear_points(&mut self) {
        if !self.points.is_empty() {
            self.note("no points");
        }
        for point in std::mem::take(&mut self.points) {
            self.session.points.remove(point.kind, point.addr, point.size);
        }
    }
}
