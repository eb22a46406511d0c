//! Making an event's outcome true: output first, as long as memory still holds what went out; then the
//! effects, in order; then the bytes that the kernel wrote; then the registers.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use bis_trace::{
    event::{Backing, Echo, Effect, Outcome, Turn},
    types::{Addr, DomainId, EventSeq, ObjectId, Registers, Tid},
};
use bis_tracee::{Stopped, TraceeError, checksum, remote::Remote};

use crate::{
    echo::Reader,
    error::{Halt, ReplayError},
    host::Host,
    objects,
    replica::{Mismatch, Replica, Who},
    space::{self, EffectError, Source},
    task::Task,
};

/// No system call writes more bytes than this (MAX_RW_COUNT).
const CALL_BYTES_MAX: u64 = 0x7fff_f000;

/// Bytes of output that are taken out of a task's memory in one go.
const PIECE_LEN: u64 = 256 * 1024;

/// So many effects at most are carried out together: each may need a file that is open.
const TOGETHER_MAX: usize = 64;

const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// A child of ours, not of the process that it is a copy of: so whoever traces it can reap it for good.
const COPY: i32 = libc::CLONE_PARENT | libc::SIGCHLD;

/// Which of these are mappings of a file over which another one is mapped whole before anything but mappings
/// happens, by their places. (A patched text is mapped over the program's own.)
fn hidden(effects: &[Effect]) -> HashSet<usize> {
    let mut later = HashSet::new();
    let mut hidden = HashSet::new();
    for (index, effect) in effects.iter().enumerate().rev() {
        match effect {
            Effect::Map { addr, len, backing: Backing::File { .. }, .. } => {
                if !later.insert((*addr, *len)) {
                    hidden.insert(index);
                }
            }
            Effect::Map { .. } => {}
            _ => later.clear(),
        }
    }
    hidden
}

impl Replica<'_> {
    pub(crate) fn effect_failed(&self, seq: EventSeq, what: String, error: EffectError) -> Halt {
        match error {
            EffectError::Forbidden(why) => self.inconsistent(seq, format!("it asks to {what}, but {why}")),
            EffectError::Failed(error @ ReplayError::OtherHooks) => Halt::Failed(error),
            EffectError::Failed(source) => {
                let (domain, source) = (self.entry.domain, Box::new(source));
                Halt::Failed(ReplayError::Effect { domain, seq, what, source })
            }
        }
    }

    /// All of an outcome.
    pub(crate) fn apply(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        outcome: &Outcome,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        self.apply_memory(task, seq, outcome, host)?;
        self.apply_registers(task, seq, outcome)
    }

    /// An outcome without its registers.
    pub(crate) fn apply_memory(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        outcome: &Outcome,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        if let Some(echo) = &outcome.echo {
            self.echo(seq, echo, host)?;
        }
        if !outcome.effects.is_empty() {
            outcome.effects.iter().flat_map(remapped).for_each(|range| self.traps.forget_pages(range));
            self.effects(task, seq, &outcome.effects, host)?;
        }
        let mut buffer = Vec::new();
        for cloned in &outcome.clones {
            let read = self.world.trace.read_cloned(cloned, &mut buffer);
            read.map_err(|error| Halt::Failed(error.into()))?;
            self.space.put(cloned.addr, &buffer).map_err(|error| {
                let what = format!("write {:#x} bytes at {:#x}", cloned.len, cloned.addr);
                self.effect_failed(seq, what, error)
            })?;
        }
        self.space.put_all(&outcome.writes).map_err(|error| {
            let pieces = outcome
                .writes
                .iter()
                .map(|write| format!("{:#x} bytes at {:#x}", write.data.len(), write.addr));
            let shown: Vec<String> = pieces.take(8).collect();
            let what = format!("write {} pieces ({})", outcome.writes.len(), shown.join(", "));
            self.effect_failed(seq, what, error)
        })?;
        let Some(text) = &mut self.space.text else { return Ok(()) };
        let trace = self.world.trace;
        text.apply(outcome, |file| trace.open_file(file)).map_err(|error| Halt::Failed(error.into()))
    }

    /// An outcome's registers only; a pending system call will not be made.
    pub(crate) fn apply_registers(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        outcome: &Outcome,
    ) -> Result<(), Halt> {
        if let Some(xstate) = &outcome.xstate {
            self.set_xstate(task, xstate)?;
        }
        task.set_regs(&outcome.regs)
            .map_err(|error| self.effect_failed(seq, "set the recorded registers".into(), error.into()))
    }

    fn set_xstate(&self, task: &mut Task, xstate: &[u8]) -> Result<(), Halt> {
        let stopped = task.stopped.as_mut().ok_or(TraceeError::Died(task.ours))?;
        match stopped.set_xstate(xstate) {
            Ok(()) => Ok(()),
            Err(error @ TraceeError::Died(_)) => Err(error.into()),
            Err(error) => {
                let machine = &self.world.machine;
                Err(Halt::Failed(ReplayError::Machine(format!(
                    "the recorded vector registers do not fit this processor ({error}); the trace was recorded on \
                     {} (XCR0 {:#x}, here {:#x}): replay it on such a machine",
                    machine.cpu,
                    machine.xcr0,
                    bis_tracee::cpu::xcr0()
                ))))
            }
        }
    }

    /// Has the call written to standard output or error what it wrote there when it was recorded? Nothing
    /// else may tell: the call's registers are the same, whatever is in its buffer.
    pub(crate) fn check_echo(&self, task: &Task, who: Who, outcome: &Outcome) -> Result<(), Halt> {
        let Some(echo) = outcome.echo.as_ref().filter(|echo| echo.sum != 0) else { return Ok(()) };
        let total = self.echo_len(who.seq, echo)?;
        let read = |addr, len| self.traps.read(&self.space.memory, addr, len);
        let sum = checksum::sum_in_a_row(read, &echo.ranges);
        if sum == echo.sum {
            return Ok(());
        }
        let expected = format!("{total} bytes written to {} with checksum {:#018x}", echo.stream, echo.sum);
        let mut mismatch = Mismatch::new(expected, format!("checksum {sum:#018x}"), task.regs()?);
        mismatch.memory = echo.ranges.first().map(|(addr, len)| (*addr, addr.saturating_add(*len)));
        Err(self.diverged(task, who, mismatch))
    }

    /// Bytes; no more than a call can write, whatever a trace says.
    fn echo_len(&self, seq: EventSeq, echo: &Echo) -> Result<u64, Halt> {
        let total = echo.ranges.iter().fold(0u64, |sum, (_, len)| sum.saturating_add(*len));
        if total > CALL_BYTES_MAX {
            return Err(self.inconsistent(seq, format!("one call wrote {total:#x} bytes")));
        }
        Ok(total)
    }

    fn echo(&self, seq: EventSeq, echo: &Echo, host: &mut dyn Host) -> Result<(), Halt> {
        if !host.hears(self.entry.domain) {
            return Ok(());
        }
        self.echo_len(seq, echo)?;
        let handed = |result: std::io::Result<Reader>| match result {
            Ok(Reader::There) => Ok(()),
            Ok(Reader::Gone) => Err(Halt::Cancelled),
            Err(source) => Err(Halt::Failed(ReplayError::io("write the program's output", source))),
        };
        for (addr, len) in &echo.ranges {
            let mut done = 0;
            while done < *len {
                let piece = PIECE_LEN.min(len - done);
                let at = addr.wrapping_add(done);
                let bytes = self.space.memory.read_vec(at, usize::try_from(piece).unwrap_or(0));
                let bytes = bytes.map_err(|error| {
                    self.effect_failed(seq, "read what the program wrote".into(), error.into())
                })?;
                handed(host.hear(seq, echo.stream, &bytes))?;
                done += piece;
            }
        }
        handed(host.heard(seq))
    }

    fn effects(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        effects: &[Effect],
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        task.in_its_name(|remote| self.effects_by(remote, seq, effects, host))
    }

    fn effects_by(
        &mut self,
        remote: &mut Remote<'_>,
        seq: EventSeq,
        effects: &[Effect],
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        let hidden = hidden(effects);
        let is_shown = |(index, effect)| (!hidden.contains(&index)).then_some(effect);
        let effects: Vec<&Effect> = effects.iter().enumerate().filter_map(is_shown).collect();
        let are_together =
            |one: &&Effect, next: &&Effect| space::is_single_call(one) && space::is_single_call(next);
        for effects in effects.chunk_by(are_together).flat_map(|group| group.chunks(TOGETHER_MAX)) {
            match effects {
                [other] if !space::is_single_call(other) => self.effect(remote, seq, other, host)?,
                calls => {
                    let made = self.space.change_together(remote, (self.world, &*host), calls);
                    made.map_err(|(index, error)| self.not_made(seq, calls[index], error, host))?;
                }
            }
        }
        Ok(())
    }

    fn effect(
        &mut self,
        remote: &mut Remote<'_>,
        seq: EventSeq,
        effect: &Effect,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        match effect {
            Effect::NewObject { .. }
            | Effect::WriteObject { .. }
            | Effect::ResizeObject { .. }
            | Effect::ClearObject { .. } => self.object_effect(effect, host),
            Effect::NewTask { tid, regs, xstate } => {
                return self.new_task(remote, (seq, *tid), regs, xstate.as_deref());
            }
            Effect::SetTask { tid, regs, xstate } => return self.set_task((seq, *tid), regs, xstate),
            Effect::Segment { tid, descriptor } => {
                return self.set_segment(remote, (seq, *tid), descriptor);
            }
            Effect::Fork { domain, .. } => return self.fork(remote, *domain, host),
            _ => self.space.change(remote, effect),
        }
        .map_err(|error| self.not_made(seq, effect, error, host))
    }

    fn not_made(&self, seq: EventSeq, effect: &Effect, error: EffectError, host: &dyn Host) -> Halt {
        if error.is_death() && host.is_cancelled() {
            return Halt::Cancelled;
        }
        self.effect_failed(seq, space::name_of(effect), error)
    }

    /// The task has these files open, to be mapped by its hooks.
    pub(crate) fn open_files(
        &mut self,
        task: &mut Task,
        seq: EventSeq,
        files: &BTreeSet<Source>,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        if self.space.has_open(files) {
            return Ok(());
        }
        task.in_its_name(|remote| {
            self.space.open_all(remote, (self.world, &*host), files).map_err(|error| {
                if error.is_death() && host.is_cancelled() {
                    return Halt::Cancelled;
                }
                self.effect_failed(seq, format!("map {} kept files in hooks", files.len()), error)
            })
        })
    }

    fn object_effect(&self, effect: &Effect, host: &mut dyn Host) -> Result<(), EffectError> {
        let io = |source| ReplayError::io("work on its file in memory", source);
        match effect {
            Effect::NewObject { object, len, content } => {
                let content = content.map(|file| self.world.trace.open_file(file)).transpose()?;
                let file = objects::make(*object, *len, content.as_ref()).map_err(io)?;
                host.add_object(*object, file).map_err(io)?;
            }
            Effect::WriteObject { object, offset, data } => {
                let file = host.object(*object).map_err(io)?;
                objects::write(&file, *offset, data).map_err(io)?;
            }
            Effect::ResizeObject { object, len } => {
                let file = host.object(*object).map_err(io)?;
                objects::resize(&file, *len).map_err(io)?;
            }
            Effect::ClearObject { object, offset, len } => {
                let file = host.object(*object).map_err(io)?;
                objects::clear(&file, *offset, *len).map_err(io)?;
            }
            _ => unreachable!("not an effect on an object"),
        }
        Ok(())
    }

    /// Makes a thread of the replayed process for a new task of the domain.
    fn new_task(
        &mut self,
        remote: &mut Remote<'_>,
        (seq, tid): (EventSeq, Tid),
        regs: &Registers,
        xstate: Option<&[u8]>,
    ) -> Result<(), Halt> {
        let failed = |error: EffectError| self.effect_failed(seq, format!("make task {tid}"), error);
        if self.tasks.contains_key(&tid) {
            return Err(failed(EffectError::Forbidden(format!("task {tid} exists already"))));
        }
        let mut task = Task::new(make_thread(remote).map_err(|error| failed(error.into()))?);
        if let Some(xstate) = xstate {
            self.set_xstate(&mut task, xstate)?;
        }
        task.set_regs(regs).map_err(|error| failed(error.into()))?;
        self.tasks.insert(tid, task);
        Ok(())
    }

    /// Another task goes on from elsewhere.
    fn set_task(&mut self, (seq, tid): (EventSeq, Tid), regs: &Registers, xstate: &[u8]) -> Result<(), Halt> {
        let Some(mut task) = self.tasks.remove(&tid) else {
            let error = EffectError::Forbidden("there is no such task, or it is the one that asks".into());
            return Err(self.effect_failed(seq, format!("set task {tid} back"), error));
        };
        let set = self.set_xstate(&mut task, xstate).and_then(|()| Ok(task.set_regs(regs)?));
        task.leave_events();
        task.in_call = None;
        self.tasks.insert(tid, task);
        set
    }

    /// A task of a 32-bit program gets thread-local storage: a new one, or the one that asks for it.
    fn set_segment(
        &mut self,
        remote: &mut Remote<'_>,
        (seq, tid): (EventSeq, Tid),
        descriptor: &[u8; 16],
    ) -> Result<(), Halt> {
        let set = match self.tasks.get_mut(&tid) {
            Some(task) => task.set_segment(descriptor),
            None => remote.set_segment(descriptor),
        };
        set.map_err(|error| {
            self.effect_failed(seq, format!("set the thread-local storage of task {tid}"), error.into())
        })
    }

    /// Copies the process for a domain that begins here, if that is wanted.
    fn fork(&mut self, remote: &mut Remote<'_>, domain: DomainId, host: &mut dyn Host) -> Result<(), Halt> {
        if !host.take_fork(domain) {
            return Ok(());
        }
        let child = copy_process(remote)?;
        host.forked(domain, child, self.space.inherited())
    }
}

/// Makes a thread of the process in whose name `remote` makes calls.
pub(crate) fn make_thread(remote: &mut Remote<'_>) -> Result<Stopped, TraceeError> {
    let flags = u64::from(THREAD.cast_unsigned());
    remote.must("make a thread", libc::SYS_clone, [flags, 0, 0, 0, 0, 0])?;
    remote.take_new_task()
}

/// Copies that process: its memory and the one task.
pub(crate) fn copy_process(remote: &mut Remote<'_>) -> Result<Stopped, TraceeError> {
    let flags = u64::from(COPY.cast_unsigned());
    remote.must("copy the replayed process", libc::SYS_clone, [flags, 0, 0, 0, 0, 0])?;
    remote.take_new_task()
}

/// The first turns of the shared objects that are mapped here and were made elsewhere. A domain maps an
/// object before it has its first turn with it, so no turn of its own tells that another has come to the
/// place where it makes it.
pub(crate) fn objects_of_others(effects: &[Effect]) -> Vec<Turn> {
    let mapped = effects.iter().filter_map(|effect| match effect {
        Effect::Map { backing: Backing::Shared { object, .. }, .. } => Some(*object),
        _ => None,
    });
    let is_made = |made: &ObjectId| {
        effects.iter().any(|effect| matches!(effect, Effect::NewObject { object, .. } if object == made))
    };
    mapped.filter(|object| !is_made(object)).map(|object| Turn { object, turn: 0 }).collect()
}

/// Where an effect changes what is mapped, or with which protection.
fn remapped(effect: &Effect) -> Vec<Range<Addr>> {
    let range = |addr: Addr, len: u64| addr..addr.saturating_add(len);
    match *effect {
        Effect::Map { addr, len, .. } | Effect::Unmap { addr, len } | Effect::Protect { addr, len, .. } => {
            vec![range(addr, len)]
        }
        Effect::Remap { addr, old_len, new_addr, new_len, .. } => {
            vec![range(addr, old_len), range(new_addr, new_len)]
        }
        Effect::Advise { .. }
        | Effect::NewObject { .. }
        | Effect::WriteObject { .. }
        | Effect::ResizeObject { .. }
        | Effect::ClearObject { .. }
        | Effect::NewTask { .. }
        | Effect::SetTask { .. }
        | Effect::Segment { .. }
        | Effect::Fork { .. } => Vec::new(),
    }
}
