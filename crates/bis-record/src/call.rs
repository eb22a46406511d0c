//! A system call from its entry to its event.
//!
//! A task's call stops twice: at its entry (the seccomp filter) and at its exit. At the entry the table says
//! who records it and the plan which memory it will touch; a call that may block while others could run gets
//! scratch memory for its results. At the exit the plan says what was written, special calls add their
//! effects (`calls/`), and the event is written.
//!
//! A call that a signal interrupts stays in progress until it is known what the signal does. If the signal
//! has a handler, the call's event is written with the kernel's own result (-512 and the like). The program
//! never sees that, because the handler's frame comes right after. If the signal has none, the kernel makes
//! the call again by itself, and nothing was to be seen.

use std::{
    ops::ControlFlow::{Break, Continue},
    time::Instant,
};

use bis_agent::hooks::SAFEPOINT_END;
use bis_syscalls::{
    Call, HookWait, Hooked, How, Plan, Planned, Row, Sleep, errno::RESTARTS, is_never_restarted, may_block,
    own, plan, row,
};
use bis_trace::{
    event::SignalPoint,
    types::{Registers, Signal, Tid},
};
use bis_tracee::{Memory, Resume, siginfo::SigInfo};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    calls::{Entry, Reader, as_wide, finish::EINTR, is_vsyscall, not_made_yet, reads_much_of_a_file, steps},
    crew::{Crew, with_slot},
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    process::Process,
    signals::kept::Carrier,
    slow::PageHashes,
    space::{self, Room},
    task::{AsMade, InCall, IntoCall, Onward, Pieces, StopsNext},
};

/// What comes first at the entry of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// The call is made.
    Call,
    /// It is made, and this signal finds the task in it.
    CallWith(Signal),
    /// A signal that was kept back is delivered, if one is not blocked: the task makes the call when its
    /// handler has returned.
    Stashed,
}

impl First {
    /// `interrupts`: this signal was sent while the task's hook waited in this very call, so it has to find
    /// the task in the call. `overdue`: the signal of a timer that has fired again while its handler ran,
    /// which must not keep the call from being made for ever. A task cannot be set back to before a
    /// `vsyscall`.
    fn of(interrupts: Option<Signal>, overdue: Option<Signal>, may_block: bool, vsyscall: bool) -> First {
        match interrupts.or(overdue) {
            _ if vsyscall => First::Call,
            Some(signal) if may_block => First::CallWith(signal),
            Some(_) if overdue.is_some() => First::Call,
            _ => First::Stashed,
        }
    }
}

/// How a call has come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Return {
    /// With its result.
    Done,
    /// A signal has interrupted it, and the kernel makes it again by itself, if that has no handler.
    Restarts,
    /// Only we have interrupted it, and the kernel would not make it again. Without a tracer, a signal that
    /// is ignored, or that is the first thread's, would not have interrupted it, and nobody would have asked
    /// it to stop. So the task is set back to make it again.
    SetBack,
}

impl Return {
    fn of(
        result: i64,
        is_never_restarted: bool,
        is_interrupted_by_us: impl FnOnce() -> Result<bool>,
    ) -> Result<Return> {
        if RESTARTS.contains(&result) {
            return Ok(Return::Restarts);
        }
        let is_set_back = result == EINTR && is_never_restarted && is_interrupted_by_us()?;
        Ok(if is_set_back { Return::SetBack } else { Return::Done })
    }
}

impl Domain {
    /// The task stands at the entry of a system call.
    pub fn call_entry(&mut self, tid: Tid) -> Result<Onward> {
        let entry = self.stopped(tid)?.regs_at_call()?;
        if entry.rip == SAFEPOINT_END && self.hooks.is_some() {
            return self.safepoint(tid, &entry).map(|()| Onward::Stays);
        }
        self.task(tid)?.in_front = Some(entry);
        self.call_at(tid, entry)
    }

    fn call_at(&mut self, tid: Tid, entry: Registers) -> Result<Onward> {
        self.drain(tid)?;
        let tried = self.take_tried();
        self.task(tid)?.signals.coming.expect_none();
        if self.task(tid)?.call.is_some() {
            return self.call_again(tid);
        }
        let narrow = self.is_narrow(&entry).then(|| self.translated(tid, &entry));
        let own = Call { nr: entry.orig_rax, args: entry.args() };
        let call = narrow.as_ref().map_or(own, as_wide);
        let vsyscall = is_vsyscall(&entry);
        if self.do_first(tid, &call, &entry, narrow.is_some())? {
            return Ok(Onward::Stays);
        }
        let sums = if self.may_be_begun(&own) { Vec::new() } else { self.sums(tid)? };
        let state = match narrow.is_some() {
            true => not_made_yet(&entry, sums),
            false => InCall::new(AsMade::of(&entry), sums),
        };
        if vsyscall {
            return self.vsyscall(tid, state).map(|()| Onward::Stays);
        }
        // While the task stands in front of its own call: its tracer may be asked about that.
        let state = match self.judge(tid, state)? {
            Continue(state) => state,
            Break(onward) => return Ok(onward),
        };
        let (call, state) = match narrow {
            None => (call, state),
            Some(translated) => match self.enter_narrow(tid, &entry, translated, state.into_sums())? {
                Some(entered) => entered,
                None => return Ok(Onward::Stays),
            },
        };
        let Some((call, row, state)) = self.look_up(tid, &call, state)? else {
            return Ok(Onward::Stays);
        };
        let task = self.task(tid)?;
        task.call = Some(state);
        task.in_front = None;
        // From here on its place can be written down.
        task.standing.describe();
        self.begin_call(tid, &call, row, tried)
    }

    /// Does what comes before a call, at whose entry the task stands. True: there was something; the call is
    /// undone, and made anew behind that. `is_narrow`: `call` is what it is taken for.
    fn do_first(&mut self, tid: Tid, call: &Call, entry: &Registers, is_narrow: bool) -> Result<bool> {
        let vsyscall = is_vsyscall(entry);
        let task = self.task(tid)?;
        // A signal that is to find it in the call ends its wait anyway.
        if !vsyscall && may_block(call) && !task.signals.brought.is_for_call() && task.to_stop.take_asked() {
            // We asked it to stop when it stood here already. In the call, that would end its wait: what it
            // has moved by then would be its result. Before the call, it is a stop like any other.
            self.undo(tid, entry)?;
            return Ok(true);
        }
        if self.deliver_first(tid, call, entry, vsyscall)? {
            return Ok(true);
        }
        // A narrow one would be undone as the call that it is taken for.
        Ok(!vsyscall && !is_narrow && self.recorder().change_text(tid, call, entry)?)
    }

    /// The task makes its call, or what is done in its place. `tried`: a hook has tried it already.
    fn begin_call(&mut self, tid: Tid, call: &Call, row: &'static Row, tried: bool) -> Result<Onward> {
        self.note_wait(tid, call);
        if !gives_way(row) && row.sleep.is_none() {
            self.note_move(tid);
        }
        let blocks = self.blocks(tid, call)?;
        match self.enter_special(tid, call)? {
            Entry::Make => self.go_into(tid, call, row, blocks, tried),
            Entry::Undone => Ok(Onward::Stays),
            Entry::MakeAtOnce => Ok(Onward::GoesAlone(Resume::Syscall)),
            Entry::Done(result) => self.answer_in_place(tid, result),
        }
    }

    /// The call that the task is in is not made, and has this result.
    fn answer_in_place(&mut self, tid: Tid, result: i64) -> Result<Onward> {
        let state = self.task(tid)?.call.take();
        let state = state.ok_or_else(|| RecordError::Bug { tid, what: "no call".into() })?;
        self.not_made(tid, state, result).map(|()| Onward::Stays)
    }

    /// The kernel makes a call again that was interrupted, perhaps as restart_syscall.
    fn call_again(&mut self, tid: Tid) -> Result<Onward> {
        let call = self.call(tid)?;
        call.wait.be_made_again();
        let (lock, handler, made) = (call.lock.wanted(), call.handler(), call.entry.call());
        let blocks = may_block(&made) || self.waits_for_others(handler, &made);
        if let Some(handler) = handler
            && let Entry::Done(result) = (steps(handler).again)(self, tid)?
        {
            return self.answer_in_place(tid, result);
        }
        if let Some(stream) = lock {
            self.lock_echo(tid, stream)?;
        }
        self.way_into_call(tid, blocks && !self.is_alone())
    }

    /// At the entry of a call: delivers a signal that was kept back, if it comes first. True: the call is
    /// undone.
    fn deliver_first(&mut self, tid: Tid, call: &Call, entry: &Registers, vsyscall: bool) -> Result<bool> {
        let before = entry.before_call();
        let task = self.task(tid)?;
        let again = task.signals.undone.take((before.ip(), before.sp()));
        let timer = task.signals.stash.first().filter(|info| again && info.is_of_timer());
        let overdue = timer.map(SigInfo::signal);
        match First::of(task.signals.brought.take_for_call(), overdue, may_block(call), vsyscall) {
            First::Call => Ok(false),
            First::CallWith(signal) if Carrier::is_neutral_for(signal) => {
                self.stop_next(tid, StopsNext::ForInterrupting).map(|()| false)
            }
            First::CallWith(signal) => self.carry(tid, signal).map(|()| false),
            First::Stashed => self.deliver_stashed(tid, &before, SignalPoint::BeforeSyscall),
        }
    }

    /// Looks a call up in the table, and plans it. None: it is not made, and that is written.
    fn look_up(
        &mut self,
        tid: Tid,
        call: &Call,
        mut state: InCall,
    ) -> Result<Option<(Call, &'static Row, InCall)>> {
        let call = match (call.nr, call.args) {
            (own::NUMBER, [own::LEAVE, path, argv, envp, ..]) => {
                Call { nr: libc::SYS_execve.cast_unsigned(), args: [path, argv, envp, 0, 0, 0] }
            }
            (own::NUMBER, [own::CHECKPOINT..=own::HOW, ..]) => {
                return self.asked_of_checkpoints(tid, state, call).map(|()| None);
            }
            (own::NUMBER, _) => return self.asked_of_us(tid, state, call).map(|()| None),
            _ => *call,
        };
        let Some(row) = row(call.nr) else {
            let text = format!("system call {} is not known to bis: refused (ENOSYS)", call.nr);
            self.session.note(self.session.writer.next_seq(), text)?;
            return self.not_made(tid, state, -i64::from(libc::ENOSYS)).map(|()| None);
        };
        tracing::trace!(domain = %self.id, %tid, name = row.name, "call");
        match row.how {
            // It has no meaning in the 64-bit table.
            How::Refused(_) if state.entry.own_narrow().is_some() => {}
            How::Refused(errno) => {
                let result = self.result_of_refused(tid, &call, errno)?;
                return self.not_made(tid, state, result).map(|()| None);
            }
            How::Recorder(handler) => state.set_handler(handler),
            How::Plain | How::Slow => {}
        }
        match self.planned(&call, row, &state.entry) {
            Planned::Plan(plan) => state.pieces = Pieces::planned(plan),
            Planned::Refuse(errno, reason) => {
                tracing::debug!(%tid, name = row.name, reason, "refused");
                return self.not_made(tid, state, -i64::from(errno)).map(|()| None);
            }
            Planned::Slow(reason) => {
                let text = format!("{} (task {tid}): {reason}; recorded by comparing all memory", row.name);
                self.session.note(self.session.writer.next_seq(), text)?;
                state.pieces = Pieces::compared(PageHashes::take(tid, &self.memory)?);
            }
        }
        Ok(Some((call, row, state)))
    }

    /// What special calls do before they are made, and what is to be done with the call then.
    fn enter_special(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        if let Some(entry) = self.enter_ended(tid, call)? {
            return Ok(entry);
        }
        if let Some(done @ Entry::Done(_)) = self.enter_shown(tid, call)? {
            return Ok(done);
        }
        let Some(handler) = self.call(tid)?.handler() else { return Ok(Entry::Make) };
        self.enter(tid, handler, call)
    }

    /// A call is about to be made by the kernel, with its memory where it may change: the last step at its
    /// entry.
    fn go_into(&mut self, tid: Tid, call: &Call, row: &Row, blocks: bool, tried: bool) -> Result<Onward> {
        // It would keep mappings apart that the kernel is to take for one.
        self.writes = None;
        let blocks = blocks && !self.is_alone();
        if blocks && !self.relocate(tid)? {
            return Ok(Onward::Stays);
        }
        if !blocks {
            self.keep_rest(tid)?;
        }
        self.shorten(tid, call)?;
        let is_known = tried || self.call(tid)?.pauses() || sleeps(&self.memory, row, call);
        let waits = blocks && is_known;
        self.call(tid)?.wait.be_known(waits);
        if waits && self.tasks.len() == 1 {
            // Others need not wait until the kernel has put it to sleep.
            self.release_tokens()?;
        }
        if gives_way(row) {
            self.turns.give_way(tid, Instant::now());
            // Nor does it keep other domains waiting.
            self.gives_up = true;
        }
        self.way_into_call(tid, blocks)
    }

    /// What the call writes when it is interrupted is kept as it is now: each look at the task interrupts it,
    /// and it goes on. (Where others of its process run meanwhile, it writes to scratch.)
    fn keep_rest(&mut self, tid: Tid) -> Result<()> {
        let Some((addr, len)) = self.call(tid)?.pieces.rest_to_keep() else { return Ok(()) };
        let rest = self.memory.read_upto(addr, usize::try_from(len).unwrap_or(0));
        self.call(tid)?.pieces.keep_rest(addr, rest);
        Ok(())
    }

    /// How the task goes into the call that it is in.
    fn way_into_call(&mut self, tid: Tid, in_background: bool) -> Result<Onward> {
        let call = self.call(tid)?;
        let (handler, is_entered) = (call.handler(), call.telling.is_entered());
        let is_about_space = handler.is_some_and(|handler| steps(handler).is_about_space);
        let (has_others, is_alone) = (self.tasks.len() > 1, self.is_alone());
        Ok(IntoCall { in_background, is_about_space, is_entered, has_others, is_alone }.onward())
    }

    /// Moves the call's pieces of memory to scratch. False: a block has to be mapped first, for which the
    /// call was undone; the task makes it again.
    fn relocate(&mut self, tid: Tid) -> Result<bool> {
        let call = self.call(tid)?;
        if call.pieces.plan().pieces.is_empty() || call.entry.own_narrow().is_some() {
            return Ok(true);
        }
        let (plan, entry, told) = (call.pieces.plan().clone(), call.entry.regs(), call.entry.told().1);
        match self.space.scratch_mut().room(tid, &plan) {
            Room::None => Ok(true),
            Room::At(_) => {
                let block = self.space.scratch_mut().block_of(tid);
                if let Some(block) = block
                    && let Some((places, regs)) = space::relocate(&plan, &block, tid, &self.memory, &entry)
                {
                    self.stopped(tid)?.set_regs(&regs)?;
                    self.call(tid)?.pieces.move_to_scratch(places);
                }
                Ok(true)
            }
            // It would be dropped here, and others know already that the task is in it.
            Room::Map(..) if !self.call(tid)?.telling.is_untold() => Ok(true),
            Room::Map(base, len) => {
                if let Some(stream) = self.call(tid)?.lock.let_go() {
                    self.session.stdio.unlock(stream, self.id);
                }
                let task = self.task(tid)?;
                (task.call, task.in_front) = (None, Some(told));
                with_slot(self, tid, |domain, slot| domain.space.scratch_mut().map(slot, tid, base, len))?;
                self.undo(tid, &told)?;
                Ok(false)
            }
        }
    }

    /// The task stands at the exit of its call.
    pub fn call_exit(&mut self, tid: Tid) -> Result<()> {
        let regs = self.stopped(tid)?.regs()?;
        if self.task(tid)?.call.is_none() {
            self.task(tid)?.standing.go_on();
            return Ok(());
        }
        let is_never_restarted = is_never_restarted(self.call(tid)?.entry.nr());
        let handler = self.call(tid)?.handler();
        let regs = self.wake_in_call(tid, regs)?;
        if let Some(handler) = handler
            && (steps(handler).stays)(self, tid, &regs)?
        {
            return Ok(());
        }
        let Some(regs) = self.finish_move(tid, regs)? else { return Ok(()) };
        match Return::of(regs.result(), is_never_restarted, || self.is_interrupted_by_us(tid))? {
            Return::Done => {
                let made = self.call(tid)?.entry.call();
                self.let_late_in(tid, &made, regs.result());
                self.finish_call(tid)
            }
            Return::Restarts => {
                // What comes next tells: a signal, a stop of the whole process, or the same call again. A
                // process that is stopped because it writes to its terminal must not keep others from writing
                // there.
                if let Some(stream) = self.call(tid)?.lock.give_back() {
                    self.session.stdio.unlock(stream, self.id);
                }
                let regs = Registers { rip: self.space.again_rip(regs.ip()).0, ..regs };
                self.stopped(tid)?.set_regs(&regs)?;
                self.task(tid)?.standing.go_on();
                Ok(())
            }
            Return::SetBack => self.make_again(tid, (regs.orig_rax, regs.args()), regs),
        }
    }
}

impl Process {
    /// May a hook have done a part of this call already? One that fails is made once more, and its event says
    /// how far it comes; but memory is as it left it when that is entered.
    fn may_be_begun(&self, call: &Call) -> bool {
        self.hooks.is_some() && row(call.nr).is_some_and(|row| row.fails_halfway)
    }
}

impl Recorder<'_> {
    /// At the entry of a call: its text counts from here on, or no longer, if that is due. True: the call is
    /// undone.
    fn change_text(&mut self, tid: Tid, call: &Call, entry: &Registers) -> Result<bool> {
        let begins = self.choose_dense(tid, call);
        if !begins && !self.choose_sparse(call) {
            return Ok(false);
        }
        if begins {
            // What was not told of does not count.
            let begun = self.begin_dense(tid, call.nr, entry);
            begun.inspect_err(|_| self.space.patches_mut().dense.is_on = false)?;
        } else {
            self.end_dense(tid, call.nr, entry)?;
        }
        Ok(true)
    }
}

impl Crew {
    /// The result of a call that its row refuses with this error.
    fn result_of_refused(&self, tid: Tid, call: &Call, errno: i32) -> Result<i64> {
        let has_rseq = self.task_ref(tid)?.traits.wishes.has_rseq;
        let is_had = has_rseq && call.nr == libc::SYS_rseq.cast_unsigned();
        Ok(if is_had { 0 } else { -i64::from(errno) })
    }

    /// What memory a call touches that was made so.
    fn planned(&self, call: &Call, row: &Row, made: &AsMade) -> Planned {
        match row.how {
            // What it writes is known already.
            _ if made.own_narrow().is_some_and(|own| own.outputs.is_some()) => Planned::Plan(Plan::default()),
            How::Slow => Planned::Slow("its table row says so"),
            _ => plan(call, &Reader(&self.memory)),
        }
    }

    /// May the call that the task is in wait for others?
    fn blocks(&mut self, tid: Tid, call: &Call) -> Result<bool> {
        let state = self.call(tid)?;
        let handler = state.handler();
        let waits = may_block(call) && !reads_much_of_a_file(tid, call, state.pieces.plan());
        Ok(waits || self.waits_for_others(handler, call))
    }
}

/// Does a task that makes this call want others to run?
fn gives_way(row: &Row) -> bool {
    matches!(row.hooked, Hooked::For(rule, _) if rule.waits == Some(HookWait::Turn))
}

/// Is it certain that this call waits? It is where its futex has the value that it names, which nobody
/// changes while we have our turn, but for those outside of the recording; and where it sleeps for a time
/// from now on, or until one that is yet to come. The kernel's timer adds some 50 microseconds to the
/// shortest sleep. (Go's runtime has a thread that sleeps all the time.)
fn sleeps(memory: &Memory, row: &Row, call: &Call) -> bool {
    let (clock, time) = match row.sleep.and_then(|sleep| sleep(call, &Reader(memory))) {
        None => return false,
        Some(Sleep::UntilWoken) => return true,
        Some(Sleep::For(seconds, nanoseconds)) => return (seconds, nanoseconds) != (0, 0),
        Some(Sleep::Until(clock, seconds, nanoseconds)) => (clock, (seconds, nanoseconds)),
    };
    // With clocks that are the process's own, or of a namespace of time, this may be wrong, which costs a
    // moment.
    let clock = match clock {
        libc::CLOCK_REALTIME => ClockId::Realtime,
        libc::CLOCK_MONOTONIC => ClockId::Monotonic,
        libc::CLOCK_BOOTTIME => ClockId::Boottime,
        _ => return false,
    };
    let now = clock_gettime(clock);
    (now.tv_sec, now.tv_nsec) < time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_interrupted_a_hook_finds_the_task_in_its_call_if_that_may_wait() {
        let signal = Some(Signal::KILL);
        assert_eq!(First::of(signal, None, true, false), First::CallWith(Signal::KILL));
        assert_eq!(First::of(signal, None, false, false), First::Stashed);
        assert_eq!(First::of(None, None, true, false), First::Stashed);
    }

    #[test]
    fn a_timer_that_fires_again_in_its_handler_lets_one_call_be_made() {
        let timer = Some(Signal(14));
        assert_eq!(First::of(None, timer, false, false), First::Call);
        assert_eq!(First::of(None, timer, true, false), First::CallWith(Signal(14)));
        assert_eq!(First::of(Some(Signal::KILL), timer, false, false), First::Call);
    }

    #[test]
    fn a_vsyscall_is_made_whatever_waits() {
        for interrupts in [None, Some(Signal::KILL)] {
            assert_eq!(First::of(interrupts, None, true, true), First::Call);
        }
    }

    #[test]
    fn a_call_that_only_we_have_interrupted_is_made_again_where_the_kernel_would_not() {
        let of = |result, never, by_us| Return::of(result, never, || Ok(by_us)).unwrap();
        assert_eq!(of(EINTR, true, true), Return::SetBack);
        assert_eq!(of(EINTR, true, false), Return::Done);
        // The program gets what the kernel has decided; nobody asks who has interrupted it.
        let unasked = Return::of(EINTR, false, || panic!("asked")).unwrap();
        assert_eq!((unasked, of(0, true, true)), (Return::Done, Return::Done));
        for result in RESTARTS {
            assert_eq!(of(result, true, true), Return::Restarts);
        }
    }
}
