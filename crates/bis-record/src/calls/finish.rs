//! The end of a call: its event, and what is done after it.

use bis_syscalls::{errno::RESTARTS, row};
use bis_trace::{
    event::{Outcome, SignalPoint},
    types::{EventSeq, Registers, Tid},
};

use super::{
    Exit,
    results::{EFAULT, ignores_lost_time},
    table::{learned, returns_from_handler},
};
use crate::{
    crew::Crew,
    domain::Domain,
    error::Result,
    events::Recorder,
    task::{InCall, Task},
};

/// The result of a call that a signal has interrupted, and that the program may make again.
pub const EINTR: i64 = -(libc::EINTR as i64);

impl Domain {
    /// Writes the event of the call that the task has returned from (or that a signal has interrupted for
    /// good): its registers are the call's result.
    pub fn finish_call(&mut self, tid: Tid) -> Result<()> {
        let Some(mut call) = self.task(tid)?.call.take() else { return Ok(()) };
        // A maker that is killed now leaves a child all the same ([`Recorder::announce_child`]).
        let found = call.has_untold_child().then(|| call.found.clone());
        let result = self.finish(tid, &mut call);
        if let Err(error) = &result
            && error.is_death_of(tid)
            && !call.telling.is_whole()
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            if let Some(found) = found {
                call.found = found;
            }
            // That it has come to this call is still to be told.
            task.call = Some(call);
        }
        result
    }

    fn finish(&mut self, tid: Tid, call: &mut InCall) -> Result<()> {
        self.task(tid)?.standing.go_on();
        let raw = self.stopped(tid)?.regs()?;
        if call.telling.is_whole() {
            return self.return_told(tid, call, &raw);
        }
        let result = self.own_result(call, raw.result());
        self.put_rest_back(call, result)?;
        let mut outcome = self.complete_outcome(tid, call, &raw, result)?;
        self.recorder().take_mail_of_call(tid, call, &mut outcome)?;
        if outcome.regs != raw {
            self.stopped(tid)?.set_regs(&outcome.regs)?;
        }
        let regs = outcome.regs;
        let seq = self.session.writer.next_seq();
        self.tell_output(call, result, seq, &mut outcome)?;
        let (kind, sums) = call.event(outcome);
        self.event_at(seq, tid, kind, sums)?;
        match (self.session.traced.is_used(), RESTARTS.contains(&result)) {
            (true, false) => self.note_end_of_call(tid, call),
            (true, true) => self.call_is_cut(tid),
            (false, _) => {}
        }
        call.telling.end();
        self.go_from_call(tid, call, seq, &regs)
    }

    /// The call has returned whose event was written before (vfork).
    fn return_told(&mut self, tid: Tid, call: &InCall, raw: &Registers) -> Result<()> {
        self.check_silent(tid, call, raw)?;
        // Its child may have had memory of ours mapped, and only the child's limit has grown.
        self.renew_limit(tid)?;
        let regs = self.sent_elsewhere(tid, raw)?;
        if regs != *raw {
            self.stopped(tid)?.set_regs(&regs)?;
        }
        self.task(tid)?.for_tracer.end_call();
        if self.session.traced.is_used() {
            self.note_end_of_call(tid, call);
        }
        // Only a fatal signal ends the wait of a vfork; all others are delivered when it returns.
        self.expect_signal(tid, &regs)
    }

    /// What the call has done: as the kernel has it, then what special calls make of it, and what follows
    /// from it for the hooks. The registers are those that the program is to find.
    fn complete_outcome(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        raw: &Registers,
        result: i64,
    ) -> Result<Outcome> {
        let mut outcome = self.recorder().bring_outcome(tid, call, raw)?;
        let (nr, args, after) = (call.entry.nr(), call.entry.args(), call.entry.ip());
        if let Some(handler) = call.handler() {
            self.leave(handler, &mut Exit { tid, call, result, outcome: &mut outcome })?;
        }
        if let Some(learn) = learned(nr) {
            learn(self, &mut Exit { tid, call, result, outcome: &mut outcome })?;
        }
        self.classify(tid, nr, args, result);
        if !RESTARTS.contains(&result) {
            self.learn_site(tid, nr, after, &mut outcome)?;
        }
        self.leave_narrow(tid, call, result, &mut outcome)?;
        // A return from a handler goes to where that says.
        if !returns_from_handler(call) {
            outcome.regs = self.sent_elsewhere(tid, &outcome.regs)?;
        }
        self.task(tid)?.for_tracer.end_call();
        outcome.regs.rip = self.space.patched_rip(outcome.regs.ip()).0;
        Ok(outcome)
    }

    /// A call's event is written: what is done after it.
    fn go_from_call(&mut self, tid: Tid, call: &mut InCall, seq: EventSeq, regs: &Registers) -> Result<()> {
        self.finish_unmapped()?;
        self.return_borrowed()?;
        if let Some(child) = call.deed.take_child() {
            self.send_off(tid, child, seq)?;
        }
        if self.task(tid)?.end_call(call) && self.deliver_stashed(tid, regs, SignalPoint::AfterEvent)? {
            return Ok(());
        }
        self.expect_signal_of(tid, &call.entry.call(), regs)
    }
}

impl Crew {
    /// What the call has written because we have interrupted it is as it was at its entry, where it has come
    /// to its end all the same: in the program's eyes nothing has interrupted it.
    fn put_rest_back(&self, call: &mut InCall, result: i64) -> Result<()> {
        let Some((addr, rest)) = call.pieces.take_rest() else { return Ok(()) };
        let is_interrupted = result == EINTR || RESTARTS.contains(&result);
        if !is_interrupted && self.memory.read_upto(addr, rest.len()) != rest {
            self.memory.write(addr, &rest)?;
        }
        Ok(())
    }
}

impl Task {
    /// The call is over. True: what was kept back is to be delivered here, not at the next
    /// call.
    ///
    /// After a return from a handler that is so because the mask may let it through. But a timer that fires
    /// as fast as its handlers run has to wait: the program itself comes on between two of them. A call that
    /// sets a timer may have put it out, and natively what has fired before comes before that returns: it,
    /// and one that the kernel has meanwhile, wait no longer.
    fn end_call(&mut self, call: &InCall) -> bool {
        let sets_timer = row(call.entry.nr()).is_some_and(|row| row.sets_timer);
        let returns = returns_from_handler(call);
        self.signals.timers.end_call(returns, sets_timer) || returns && self.signals.stash.has_sent()
    }
}

impl Recorder<'_> {
    /// What the kernel has done in a call that came back with these registers.
    fn bring_outcome(&mut self, tid: Tid, call: &mut InCall, raw: &Registers) -> Result<Outcome> {
        let mut brought = self.bring_results(tid, call, raw.result())?;
        let (clones, writes) = brought.take();
        let mut outcome = Outcome { clones, writes, regs: *raw, ..Outcome::default() };
        call.found.take().add_to(&mut outcome);
        if let Some(before) = call.pieces.before() {
            outcome.writes.append(&mut before.changes(tid, &self.memory)?);
        }
        if call.has_other_args() {
            let [rdi, rsi, rdx, r10, r8, r9] = call.entry.args();
            outcome.regs = Registers { rdi, rsi, rdx, r10, r8, r9, ..*raw };
        }
        // Without scratch memory, the kernel would have found that there is no place for a result.
        if brought.lost && !ignores_lost_time(call.entry.nr()) {
            outcome.regs.rax = EFAULT.cast_unsigned();
        }
        Ok(outcome)
    }
}
