//! How a tracee that has held goes on.

use bis_syscalls::{INT80_INSN, SYSCALL_INSN};
use bis_trace::{
    event::SignalPoint,
    types::{Addr, Signal, Tid},
};
use bis_tracee::{
    Resume, Status,
    siginfo::{Disposition, SigInfo},
    sys,
};

use super::{Held, books::Tracee};
use crate::{
    births::Maker,
    crew::Crew,
    domain::Domain,
    error::Result,
    process::Process,
    task::{InCall, Onward, Task},
};

impl Domain {
    /// The task goes on from where it holds.
    pub fn go_from_hold(&mut self, tid: Tid) -> Result<Onward> {
        let released = self.session.traced.take_released(tid);
        if self.session.traced.with(tid, |it| it.is_asked) == Some(true) {
            // It was to stop again before this was heard.
            self.session.watch.call(self.id);
        }
        let Some((stop, signal, mode)) = released else { return Ok(Onward::Stays) };
        let Some(held) = self.task(tid)?.for_tracer.release() else { return Ok(Onward::Stays) };
        self.make_changes(tid, held, &stop)?;
        match held {
            Held::Report(Status::GroupStop(_)) if stop.leaves_group(mode) => {
                self.task(tid)?.standing.go_on();
            }
            Held::Report(status) => {
                let task = self.task(tid)?;
                task.report.leave(status);
                task.for_tracer.decide(stop.is_decided().then_some(signal));
            }
            Held::Place => {
                self.task(tid)?.standing.go_on();
                if let Some(signal) = signal {
                    let pid = self.task(tid)?.pid;
                    sys::tgkill(pid, tid, signal)?;
                    let regs = self.stopped(tid)?.regs()?;
                    self.task(tid)?.signals.coming.expect_at(regs);
                }
                self.hold_if_due(tid)?;
            }
            Held::Fault(info) => {
                let onward = self.go_from_fault(tid, &info, signal)?;
                if onward != Onward::Stays {
                    return Ok(onward);
                }
                self.hold_if_due(tid)?;
            }
            // As where nobody had wanted to hear of the child.
            Held::Vfork => return Ok(Maker::Sleeps.onward()),
        }
        Ok(Onward::Stays)
    }

    fn go_from_fault(&mut self, tid: Tid, info: &SigInfo, signal: Option<Signal>) -> Result<Onward> {
        let disposition = signal.map(|signal| self.recorder().kernels_disposition(tid, signal));
        let Some((signal, disposition)) = signal.zip(disposition) else {
            self.task(tid)?.standing.go_on();
            return Ok(Onward::Stays);
        };
        let info = info.of_signal(signal);
        match disposition {
            Disposition::Handler => self.deliver(tid, &info, SignalPoint::AfterEvent)?,
            Disposition::Fatal => return self.fatal(tid, &info, SignalPoint::AfterEvent),
            Disposition::Ignore => self.task(tid)?.standing.go_on(),
            Disposition::Stop => return self.suffer(tid, signal),
        }
        Ok(Onward::Stays)
    }
}

/// How a task is to go on in its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wanted {
    /// It is to stop with its process.
    is_halted: bool,
    /// Its tracer has asked it to stop.
    is_asked: bool,
    /// Its tracer lets it go on by one instruction.
    steps: bool,
}

/// Where a task is brought to a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Halt {
    /// Nowhere yet. One that is to stop with its process is asked for that where it can ([`Domain::resume`]).
    NotHere,
    /// Behind the hook in which it is.
    BehindHook,
    /// Before it executes anything.
    Here,
}

/// How far it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// To its next stop.
    Runs,
    /// To the end of the hook in which it is.
    InHook,
    /// By one instruction.
    One,
}

impl Wanted {
    /// Does it matter where the task stands?
    fn is_anything(self) -> bool {
        self.is_halted || self.is_asked || self.steps
    }

    fn halt(self, in_hook: bool) -> Halt {
        match (self.is_halted || self.is_asked, in_hook) {
            (true, true) => Halt::BehindHook,
            (true, false) if !self.is_halted => Halt::Here,
            _ => Halt::NotHere,
        }
    }

    fn step(self, in_hook: bool) -> Step {
        match (self.steps, in_hook) {
            (false, _) => Step::Runs,
            (true, true) => Step::InHook,
            (true, false) => Step::One,
        }
    }
}

impl Process {
    /// How a task goes on in its program. One that is to stop does so before it executes anything; any other
    /// stop on its way here has made the kernel forget that.
    pub fn set_out(&mut self, tid: Tid) -> Result<Resume> {
        let way = self.session.traced.with_live(tid, |it| (it.mode.is_step(), it.is_asked));
        let (steps, is_asked) = way.unwrap_or_default();
        let wanted = Wanted { is_halted: self.task(tid)?.to_stop.is_halted(), is_asked, steps };
        let in_hook = wanted.is_anything() && self.in_hook(tid)?.is_some();
        match wanted.halt(in_hook) {
            Halt::NotHere => {}
            // Its call has become a traced one, at which it stops, or it stops behind it. A hook without a
            // call does not look, or has looked, and the program may compute for long behind it: it is asked
            // again.
            Halt::BehindHook if !self.stop_behind_hook() => self.session.watch.call(self.id),
            Halt::BehindHook => {}
            Halt::Here => self.stopped(tid)?.ask()?,
        }
        match wanted.step(in_hook) {
            Step::Runs => Ok(Resume::Cont),
            Step::InHook => {
                // It leaves the instruction to us. The flags that it puts back would have that of a step.
                self.stop_in_hook();
                Ok(Resume::Cont)
            }
            Step::One => self.step_on(tid),
        }
    }

    /// How a task goes on by one instruction.
    fn step_on(&mut self, tid: Tid) -> Result<Resume> {
        // A call stops by itself, and the flag of a step would be seen in r11.
        let rip = self.stopped(tid)?.regs()?.rip;
        let stands = (Addr(rip), self.space.original_rip(Addr(rip)));
        self.session.traced.with_live(tid, |it| *it.stepped_from.get_or_insert(stands));
        let next = self.memory.read_upto(Addr(rip), 2);
        let is_call = [SYSCALL_INSN, INT80_INSN].iter().any(|call| next == call);
        Ok(if is_call { Resume::Cont } else { Resume::Step })
    }
}

impl Crew {
    /// A task that holds and may go on.
    pub fn released(&self) -> Option<Tid> {
        let runner = self.watched.seat.runner();
        if !self.session.traced.is_used() || self.tasks.values().any(|task| goes_before(task, runner)) {
            return None;
        }
        let mut released =
            self.tasks.values().filter(|task| !task.report.is_there() && self.is_let_go_by_tracer(task));
        released.next().map(|task| task.tid)
    }

    /// Skips the call at whose entry the task stands, if its tracer wants that it is not made. True: it was
    /// skipped.
    pub fn skip_call(&mut self, tid: Tid) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let skips = task.for_tracer.take_skip();
        if skips {
            task.standing.go_on();
            self.session.traced.with_live(tid, Tracee::note_skipped);
        }
        skips
    }
}

/// Is something about this task to be done before one that holds goes on? `runner`: the task that has run.
fn goes_before(task: &Task, runner: Tid) -> bool {
    // What the one that has run has computed is in no event yet.
    let has_run = task.tid == runner || task.standing.is_in_hook();
    // The event that tells of a new task has to come first.
    let has_untold_child = task.call.as_ref().is_some_and(InCall::has_untold_child);
    task.standing.comes_first() || task.report.is_there() && has_run || has_untold_child
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Registers;
    use bis_tracee::Stopped;

    use super::*;
    use crate::task::{AsMade, Deed};

    const NOTHING: Wanted = Wanted { is_halted: false, is_asked: false, steps: false };

    #[test]
    fn a_task_that_is_asked_to_stop_does_so_behind_its_hook_or_at_once() {
        let asked = Wanted { is_asked: true, ..NOTHING };
        assert_eq!((asked.halt(true), asked.halt(false)), (Halt::BehindHook, Halt::Here));
        assert_eq!((NOTHING.halt(true), NOTHING.halt(false)), (Halt::NotHere, Halt::NotHere));
    }

    #[test]
    fn a_task_that_stops_with_its_process_leaves_its_hook_and_is_not_asked_here() {
        for is_asked in [false, true] {
            let halted = Wanted { is_halted: true, is_asked, ..NOTHING };
            assert_eq!((halted.halt(true), halted.halt(false)), (Halt::BehindHook, Halt::NotHere));
        }
    }

    #[test]
    fn a_hook_is_not_stepped() {
        let steps = Wanted { steps: true, ..NOTHING };
        assert!(steps.is_anything() && !NOTHING.is_anything());
        assert_eq!((steps.step(true), steps.step(false)), (Step::InHook, Step::One));
        assert_eq!((NOTHING.step(true), NOTHING.step(false)), (Step::Runs, Step::Runs));
    }

    #[test]
    fn the_report_of_the_one_that_has_run_and_an_untold_child_come_first() {
        let task = || Task::new(Stopped::adopt(Tid(7)), Tid(7));
        assert!(!goes_before(&task(), Tid(7)));
        let mut reports = task();
        reports.report.hear(Status::Trap);
        assert!(goes_before(&reports, Tid(7)) && !goes_before(&reports, Tid(8)));
        let mut call = InCall::new(AsMade::of(&Registers::default()), Vec::new());
        call.deed = Deed::made_task(Tid(9), None);
        let mut makes = Task { call: Some(call), ..task() };
        assert!(goes_before(&makes, Tid(8)));
        makes.call.as_mut().expect("it is in a call").telling.end();
        assert!(!goes_before(&makes, Tid(8)));
    }
}
