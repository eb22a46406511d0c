//! A task is led through a round of its loop by single steps, to see what that writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::{Duration, Instant},
};

use bis_rewrite::{Pointers, Touch, touches};
use bis_trace::types::{Addr, Registers, Signal, Tid};
use bis_tracee::{Resume, Status, ours, place, siginfo::SigInfo, task, ticks::RESUME_FLAG};

use super::{Round, words_of};
use crate::{
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    places::Step,
    process::Process,
};

/// How long a task may compute, and how long that may take on a busy machine, until it comes to where it was.
const COMPUTES_MAX: Duration = Duration::from_micros(200);
const TAKES_MAX: Duration = Duration::from_millis(50);

/// How often it may come there with other registers: a function is called from several places in a loop.
const ARRIVALS_MAX: usize = 12;

/// How often a task passes its place on the way that is stepped: what a round writes may be what the one
/// after the next writes, too (memory is allocated by turns), and a round in a loop is not one of the loop
/// around it.
const PASSES: usize = 300;

/// How many instructions are looked at, and how much of the processor's time that may take. A round of an
/// interpreter has a few hundred.
const STEPS_MAX: usize = 2_000;
const STEPPING_MAX: Duration = Duration::from_millis(100);

/// The time is looked at now and then.
const TIME_EVERY: usize = 32;

/// Of instructions that write more bytes than these, nothing is kept.
const WRITE_MAX: u64 = 64;

/// How far below the stack pointer calls in a loop may write.
const CALLS_LEN: u64 = 4096;

/// Has a task come to where it was?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Again {
    /// With the same registers.
    Same,
    /// With others: they tell the rounds apart.
    Other,
    /// It has a report, or goes on from elsewhere.
    Elsewhere,
}

/// When a task was let go on, and how long it had had the processor then.
struct Begin {
    at: Instant,
    ran: Option<Duration>,
}

impl Begin {
    fn is_long_ago(&self, tid: Tid) -> bool {
        let ran = task::cpu_time(tid).zip(self.ran).map(|(now, then)| now.saturating_sub(then));
        ran.is_none_or(|ran| ran >= COMPUTES_MAX) || self.at.elapsed() >= TAKES_MAX
    }
}

/// How long the task and the calling thread, which take turns, have had the processor. On a busy machine,
/// much more time may go by.
fn spent(tid: Tid) -> Duration {
    [tid, ours::thread_id()].into_iter().filter_map(task::cpu_time).sum()
}

impl Domain {
    /// The task has been stopped in its computation: learns what the rounds of its loop write, if it is in
    /// one that its registers do not tell. [`Step::Elsewhere`]: something else has come first.
    pub fn learn_round(&mut self, tid: Tid) -> Result<Step> {
        let first = self.stopped(tid)?.regs()?;
        let at = first.ip();
        // In a trampoline of the dense text, registers are not the program's.
        if self.is_in_young_turn() || self.space.dense_place(at).is_some() {
            return Ok(Step::Done);
        }
        let events = self.journal.count();
        let Crew { memory, tasks, .. } = &mut self.process.crew;
        let Some(task) = tasks.get_mut(&tid) else { return Ok(Step::Elsewhere) };
        let is_told = |round: &mut Round| round.look_again(|addr| memory.read_u64(addr).ok());
        let is_known = task.rounds.at(at).is_some_and(is_told);
        if is_known || self.creeps || task.spin.is_over || !task.rounds.begin_try(events) {
            return Ok(Step::Done);
        }
        match self.lead_again(tid, &first)? {
            Again::Same if self.task(tid)?.rounds.may_spend(task::cpu_time(tid)) => {}
            Again::Same | Again::Other => return Ok(Step::Done),
            Again::Elsewhere => return Ok(Step::Elsewhere),
        }
        let began = spent(tid);
        let Some(round) = self.step_rounds(tid, &first)? else { return Ok(Step::Elsewhere) };
        let (places, words, took) = (round.places.len(), round.words.len(), spent(tid).saturating_sub(began));
        self.task(tid)?.rounds.learn(round, took);
        tracing::debug!(domain = %self.id, %tid, %at, places, words, ?took, "has come round");
        Ok(Step::Done)
    }

    /// Steps the task through rounds, until it stands at this place again. None: something else has come
    /// first.
    fn step_rounds(&mut self, tid: Tid, first: &Registers) -> Result<Option<Round>> {
        self.hush_for_steps(tid)?;
        let round = self.step_rounds_hushed(tid, first);
        self.unhush(tid)?;
        round
    }

    fn step_rounds_hushed(&mut self, tid: Tid, first: &Registers) -> Result<Option<Round>> {
        let began = spent(tid);
        let (mut places, mut before, mut rounds) = (BTreeSet::new(), BTreeMap::new(), 0);
        for step in 0..STEPS_MAX {
            let regs = self.stopped(tid)?.regs()?;
            let is_there = (regs.rip, regs.rsp) == (first.rip, first.rsp);
            rounds += usize::from(is_there && step > 0);
            let is_late =
                step % TIME_EVERY == TIME_EVERY - 1 && spent(tid).saturating_sub(began) >= STEPPING_MAX;
            if rounds == PASSES || is_late {
                break;
            }
            places.insert(regs.ip());
            let (_, writes) = self.touched(&regs);
            let few = writes.iter().filter(|range| range.end - range.start <= WRITE_MAX);
            for addr in few.flat_map(words_of) {
                if let Ok(word) = self.memory.read_u64(addr) {
                    before.entry(addr).or_insert(word);
                }
            }
            if self.step_hushed(tid)? == Step::Elsewhere {
                return Ok(None);
            }
        }
        Ok(Some(Round::of(places, &before, |addr| self.memory.read_u64(addr).ok())))
    }

    /// Lets the task go on until it is here again with these registers, for a little while.
    fn lead_again(&mut self, tid: Tid, first: &Registers) -> Result<Again> {
        let begin = Begin { at: Instant::now(), ran: task::cpu_time(tid) };
        for _ in 0..ARRIVALS_MAX {
            // A breakpoint in front of an instruction keeps the task from it.
            if self.step(tid)? == Step::Elsewhere {
                return Ok(Again::Elsewhere);
            }
            if self.stopped(tid)?.regs()?.rip != first.rip {
                self.hush_for_steps(tid)?;
                let has_come = self.lead_to(tid, first.ip(), &begin);
                self.unhush(tid)?;
                if !has_come? {
                    return Ok(Again::Elsewhere);
                }
            }
            let mut now = self.stopped(tid)?.regs()?;
            now.eflags = now.eflags & !RESUME_FLAG | first.eflags & RESUME_FLAG;
            if now == *first {
                return Ok(Again::Same);
            }
        }
        Ok(Again::Other)
    }

    /// Lets the task go on until it comes to this address. False: something else has come first, be it that
    /// it has taken too long; that is its report.
    fn lead_to(&mut self, tid: Tid, to: Addr, begin: &Begin) -> Result<bool> {
        self.task(tid)?.steps.interrupt();
        loop {
            place::set_breakpoint(self.stopped(tid)?, to)?;
            self.resume(tid, Resume::Cont)?;
            self.wait_shortly(tid, begin)?;
            let report = self.task(tid)?.report.status();
            if matches!(report, None | Some(Status::Exited(_) | Status::Killed(_))) {
                return Ok(false);
            }
            place::clear_breakpoint(tid)?;
            let stopped = self.stopped(tid)?;
            let has_come = report == Some(Status::Signal(Signal::TRAP))
                && SigInfo(stopped.siginfo()?).is_debug_exception();
            // It may have been stopped in the moment when it came there: the trap is on its way.
            let comes = stopped.pending()?.iter().any(|info| SigInfo(*info).is_debug_exception());
            if !has_come && (report != Some(Status::Trap) || !comes && begin.is_long_ago(tid)) {
                return Ok(false);
            }
            // The watch thread kicks on.
            self.task(tid)?.report.be_done();
            if has_come {
                return Ok(true);
            }
        }
    }

    /// Waits for this task's report, and asks for one when it has taken long enough.
    fn wait_shortly(&mut self, tid: Tid, begin: &Begin) -> Result<()> {
        const PAUSE: Duration = Duration::from_micros(20);
        while self.tasks.get(&tid).is_some_and(|task| !task.report.is_there()) {
            match task::wait_any(false) {
                Ok(Some((tid, status))) => self.recorder().note(tid, status),
                Ok(None) if begin.is_long_ago(tid) => {
                    self.interrupt(tid)?;
                    return self.wait_for_report(tid);
                }
                Ok(None) => std::thread::sleep(PAUSE),
                Err(source) => return Err(RecordError::Os { what: "wait for a task", source }),
            }
        }
        Ok(())
    }
}

impl Process {
    /// What the instruction reads and writes that the task stands at: of writes, what lasts.
    pub fn touched(&self, regs: &Registers) -> (Vec<Range<Addr>>, Vec<Range<Addr>>) {
        // A count of the dense text changes nothing of the program's.
        if self.space.dense_place(regs.ip()).is_some() {
            return (Vec::new(), Vec::new());
        }
        let (rip, general) = (regs.rip, regs.general());
        let pointers = Pointers { rip, general, fs_base: regs.fs_base, gs_base: regs.gs_base };
        let touched = touches(&self.memory.read_upto(Addr(rip), 15), &pointers);
        let calls = regs.sp().saturating_sub(CALLS_LEN)..regs.sp();
        let range = |touch: &Touch| Addr::range(touch.range.clone());
        let lasts = |touch: &&Touch| touch.is_write && !calls.contains(&Addr(touch.range.start));
        let reads = touched.iter().filter(|touch| touch.is_read).map(range).collect();
        (reads, touched.iter().filter(lasts).map(range).collect())
    }
}
