//! What becomes true by an event, once its task is at the event's place.

use bis_agent::hooks::entries;
use bis_trace::{
    event::{Backing, Effect, Event, EventKind, Outcome},
    types::{Addr, EventSeq, PAGE, prot},
};
use bis_tracee::{Resume, Status, Stopped, TraceeError, image, remote::Remote, task as waiting};

use super::{Flow, Replica, Who};
use crate::{
    allowed::is_own,
    divergence::{Brief, call_name},
    error::Halt,
    host::Host,
    names::last_brk,
    ours::ProgramText,
    process,
    task::{Hooked, Task},
};

impl Replica<'_> {
    /// The task is at the event's place: the rest of the event.
    pub(super) fn finish(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &Event,
        host: &mut dyn Host,
    ) -> Result<Flow, Halt> {
        if !self.traps.counted().is_empty() {
            let counted = self.traps.take_counted(&self.space.memory)?;
            counted.iter().try_for_each(|counted| counted.end(task))?;
        }
        if touches_memory(event) {
            self.traps.disarm(&self.space.memory)?;
        }
        let version = self.space.text.as_ref().map(ProgramText::version);
        let flow = self.make_true(task, who, event, host)?;
        if self.space.text.as_ref().map(ProgramText::version) != version {
            // Instructions of the program are elsewhere now.
            let Replica { traps, space, .. } = self;
            traps.place(&space.memory, |addr| space.places(addr))?;
        }
        Ok(flow)
    }

    /// The event's outcome.
    fn make_true(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &Event,
        host: &mut dyn Host,
    ) -> Result<Flow, Halt> {
        let seq = event.seq;
        if self.space.text.is_some() {
            self.name_tasks(event);
        }
        if !matches!(event.kind, EventKind::Token { .. }) {
            // The log before it is used up.
            self.space.brk = self.space.hooked_brk.take().or(self.space.brk);
        }
        match &event.kind {
            EventKind::Syscall { nr, outcome, .. } => {
                self.check(task, who, &event.sums)?;
                self.check_echo(task, who, outcome)?;
                self.apply(task, seq, outcome, host)?;
                if i64::try_from(*nr) == Ok(libc::SYS_brk) {
                    self.space.brk = Some(Addr(outcome.regs.rax));
                }
                task.remember(seq, Brief::Call { nr: *nr, result: outcome.regs.result() });
            }
            EventKind::SyscallEnter { nr, .. } => {
                self.check(task, who, &event.sums)?;
                task.in_call = Some(*nr);
                task.remember(seq, Brief::Enter { nr: *nr });
            }
            EventKind::SyscallExit { nr, outcome } => {
                if task.in_call.take() != Some(*nr) {
                    return Err(
                        self.inconsistent(seq, format!("{} returns but was not entered", call_name(*nr)))
                    );
                }
                self.check(task, who, &event.sums)?;
                self.check_echo(task, who, outcome)?;
                self.apply(task, seq, outcome, host)?;
                task.remember(seq, Brief::Exit { nr: *nr, result: outcome.regs.result() });
            }
            EventKind::Signal(signal) => {
                self.check(task, who, &event.sums)?;
                if let Some(handler) = &signal.handler {
                    self.apply(task, seq, handler, host)?;
                }
                task.remember(seq, Brief::Signal(signal.signal));
            }
            EventKind::Instruction { insn, after, .. } => {
                self.check(task, who, &event.sums)?;
                task.set_regs(after)?;
                task.remember(seq, Brief::Instruction(*insn));
            }
            EventKind::Pause(pause) => {
                self.check(task, who, &event.sums)?;
                task.remember(seq, Brief::Pause(pause.regs.rip));
            }
            EventKind::Hooked { alone, log } => {
                self.space.hooked_brk = last_brk(log);
                let hooked = Hooked { alone: *alone, log: log.clone() };
                if task.hooked.replace(hooked).is_some() {
                    let what =
                        format!("two logs of hooked calls of task {} with nothing in between", who.tid);
                    return Err(self.inconsistent(seq, what));
                }
                task.remember(seq, Brief::Hooked(entries(log).count()));
            }
            EventKind::TaskExit { outcome, .. } => {
                self.end_task(task, seq, outcome, host)?;
                return Ok(Flow::TaskGone);
            }
            EventKind::Start(start) => {
                if self.cursor.position > 0 {
                    return Err(self.inconsistent(seq, "the domain begins twice".into()));
                }
                if let Some(vdso) = narrow_vdso(&start.outcome) {
                    image::place_narrow_vdso(&mut task.stopped, vdso)?;
                }
                self.apply(task, seq, &start.outcome, host)?;
                task.remember(seq, Brief::Start);
            }
            EventKind::Token { .. } | EventKind::End => unreachable!("done by others"),
        }
        Ok(Flow::Done)
    }

    /// The outcome of a task's end, and the end of the replay's task.
    fn end_task(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        outcome: &Outcome,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        self.apply_memory(task, seq, outcome, host)?;
        if self.tasks.is_empty() {
            // The last task's process is needed until the domain's end.
            return Ok(());
        }
        let mut remote = Remote::new(&mut task.stopped)?;
        match remote.call(libc::SYS_exit, [0; 6]) {
            Err(TraceeError::Died(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(self.inconsistent(seq, "a task did not end when it was told to".into())),
        }
        drop(remote);
        if task.ours != self.process.pid() {
            process::reap(task.ours);
            return Ok(());
        }
        // The process's first thread reports its end only when all others are gone: let it go, not more.
        match waiting::wait_for(task.ours)? {
            Status::Exit(_) => {
                Stopped::adopt(task.ours).resume(Resume::Cont, None)?;
            }
            status => waiting::put_back(task.ours, status),
        }
        Ok(())
    }
}

/// What becomes of memory and registers by an event, if that is more than registers alone.
pub(super) fn outcome_of(kind: &EventKind) -> Option<&Outcome> {
    match kind {
        EventKind::Syscall { outcome, .. }
        | EventKind::SyscallExit { outcome, .. }
        | EventKind::TaskExit { outcome, .. } => Some(outcome),
        EventKind::Signal(signal) => signal.handler.as_ref(),
        EventKind::Start(start) => Some(&start.outcome),
        _ => None,
    }
}

/// Where the kernel has mapped the vdso of a 32-bit image: text without a file that begins as a library does.
fn narrow_vdso(image: &Outcome) -> Option<Addr> {
    /// More than any kernel's has.
    const LEN_MAX: u64 = 16 * PAGE;
    let is_library = |addr: Addr| {
        image.writes.iter().any(|write| write.addr == addr && write.data.starts_with(b"\x7fELF"))
    };
    let vdso = |effect: &Effect| match effect {
        Effect::Map { addr, prot, backing: Backing::Anonymous, .. } => {
            let can_be = prot & prot::EXEC != 0 && addr.is_multiple_of(PAGE) && is_own(*addr, LEN_MAX);
            (can_be && is_library(*addr)).then_some(*addr)
        }
        _ => None,
    };
    image.effects.iter().filter(|_| image.regs.is_narrow()).find_map(vdso)
}

/// Does the event look at memory, or change it?
fn touches_memory(event: &Event) -> bool {
    let touches = |outcome: &Outcome| {
        !(outcome.effects.is_empty()
            && outcome.writes.is_empty()
            && outcome.clones.is_empty()
            && outcome.echo.is_none())
    };
    !event.sums.is_empty() || outcome_of(&event.kind).is_some_and(touches)
}
