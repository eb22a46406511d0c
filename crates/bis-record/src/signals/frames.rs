//! Calls of handlers. A handler's frame is written by letting the kernel deliver the signal under a single
//! step: the task stops again before the handler's first instruction, and the frame lies at the stack
//! pointer. Here the task is resumed and waited for where it stands: the stops on the way to the handler are
//! steps of one delivery, whose event is written between them, and nobody else has anything to say to them.

use bis_trace::{
    event::{EventKind, MemWrite, Outcome, RangeSum, SignalEvent, SignalPoint},
    types::{Addr, RED_ZONE, Registers, Signal, Tid, prot},
};
use bis_tracee::{
    Memory, Resume, Status,
    frame::Frame,
    maps::{self, Mapping},
    siginfo::{Disposition, SigInfo},
};

use crate::{calls::Exit, crew::Crew, domain::Domain, error::Result};

/// No frame of a signal is larger, bytes: with all that a processor has to save, it has some 12,000.
const FRAME_MAX: u64 = 1 << 15;

impl Domain {
    /// At the task's signal stop: its handler is called. And before the task executes anything, as the kernel
    /// does it, those of all else that is kept back and open, one on top of the other; but for timers':
    /// between two of these the program is to come on.
    pub fn deliver(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<()> {
        /// Somebody may send signals as fast as they are delivered.
        const ON_TOP_MAX: usize = 512;
        let mut called = self.call_handler(tid, info, point)?;
        for _ in 0..ON_TOP_MAX {
            let Some(regs) = called else { return Ok(()) };
            let Some(next) = self.take_open(tid, |info| !info.is_of_timer())? else { break };
            if self.recorder().disposition(tid, next.signal())? != Disposition::Handler {
                self.task(tid)?.signals.stash.put_first(next);
                if self.deliver_stashed(tid, &regs, SignalPoint::AfterEvent)? {
                    return Ok(());
                }
                break;
            }
            self.disarm(tid)?;
            if self.task(tid)?.report.is_there() {
                self.task(tid)?.signals.stash.put_first(next);
                return Ok(());
            }
            if !self.bring(tid, next)? {
                return Ok(());
            }
            called = self.call_handler(tid, &next, SignalPoint::AfterEvent)?;
        }
        match called {
            Some(regs) => self.expect_signal(tid, &regs),
            None => Ok(()),
        }
    }

    /// Lets the kernel call the handler, and records the frame. The registers where the handler begins; none:
    /// it was not called.
    fn call_handler(&mut self, tid: Tid, info: &SigInfo, point: SignalPoint) -> Result<Option<Registers>> {
        self.drain(tid)?;
        let sums = self.sums(tid)?;
        let before = self.stopped(tid)?.regs()?;
        let own = self.own_registers(&before);
        self.space.interrupt_at(own.ip());
        if own != before {
            // What the handler sees, and returns to, is the program's own.
            self.stopped(tid)?.set_regs(&own)?;
            if info.is_fault() && info.addr() == before.ip() {
                self.stopped(tid)?.set_siginfo(&info.at(own.ip()).0)?;
            }
        }
        self.task(tid)?.signals.coming.give(info.signal());
        self.resume(tid, Resume::Step)?;
        self.wait_for_report(tid)?;
        match self.task(tid)?.report.status() {
            Some(Status::Signal(Signal::TRAP)) => self.task(tid)?.report.be_done(),
            Some(Status::Signal(Signal::SEGV)) => {
                return self.tell_no_room(tid, info, point, before, sums).map(|()| None);
            }
            // The task was killed: that comes next.
            _ => return Ok(None),
        }
        let outcome = self.frame_at(tid, own.eflags)?;
        let (regs, handler) = (outcome.regs, Some(outcome));
        if point == SignalPoint::BeforeSyscall {
            self.task(tid)?.signals.undone.add((before.ip(), before.sp()));
        }
        let event = SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler };
        self.event_with(tid, EventKind::Signal(Box::new(event)), sums)?;
        self.session.traced.note_call_of_handler(tid);
        self.task(tid)?.standing.go_on();
        Ok(Some(regs))
    }

    /// The task stands in front of a handler: what the kernel has made for that. `eflags`: the flags that the
    /// task had before, and is to find again.
    fn frame_at(&mut self, tid: Tid, eflags: u64) -> Result<Outcome> {
        let regs = self.stopped(tid)?.regs()?;
        let frame = Frame::new(&self.memory, &regs);
        frame.restore_flags(eflags)?;
        let mut writes = Vec::new();
        for (addr, len) in frame.ranges() {
            let data = self.memory.read_vec(addr, usize::try_from(len).unwrap_or(0))?;
            writes.push(MemWrite { addr, data });
        }
        if self.session.options.checksum.is_some() && frame.is_on_alternate_stack() {
            // What is left there when the handler has returned is checked no more than what lies below any
            // stack.
            self.space.leave_stack(regs.sp());
        }
        let xstate = Some(self.stopped(tid)?.xstate()?);
        let mut outcome = Outcome { regs, xstate, writes, ..Outcome::default() };
        self.take_mail(&mut outcome)?;
        Ok(outcome)
    }

    /// The stack had no room for the frame. The signal is gone, and the kernel raises SIGSEGV in its place
    /// (`force_sigsegv`): in replay nothing raises it, it takes effect right after the event of the signal
    /// that had no room.
    fn tell_no_room(
        &mut self,
        tid: Tid,
        info: &SigInfo,
        point: SignalPoint,
        before: Registers,
        sums: Vec<RangeSum>,
    ) -> Result<()> {
        self.task(tid)?.report.be_done();
        let instead = SigInfo(self.stopped(tid)?.siginfo()?);
        let regs = self.stopped(tid)?.regs()?;
        let handler =
            Some(Outcome { regs, writes: torn_frame(&self.memory, tid, regs.sp())?, ..Outcome::default() });
        let event = SignalEvent { signal: info.signal(), siginfo: info.0.to_vec(), point, before, handler };
        self.event_with(tid, EventKind::Signal(Box::new(event)), sums)?;
        let pid = self.task(tid)?.pid;
        if self.recorder().kernels_disposition(tid, Signal::SEGV) == Disposition::Handler {
            self.deliver(tid, &instead, SignalPoint::AfterEvent)
        } else if self.session.is_init_inside(pid) {
            self.fatal_for_init(tid, &instead, SignalPoint::AfterEvent)
        } else {
            let onward = self.fatal(tid, &instead, SignalPoint::AfterEvent)?;
            self.go_onward(tid, onward)
        }
    }
}

impl Crew {
    /// A handler has returned.
    pub fn leave_sigreturn(&mut self, it: &mut Exit<'_>) -> Result<()> {
        it.outcome.xstate = Some(self.stopped(it.tid)?.xstate()?);
        // What was interrupted has its own.
        self.task(it.tid)?.named.forget_alt_stack();
        Ok(())
    }
}

/// What the kernel may have written of a frame before it came to where there was no room: all of the
/// stack below `rsp`, as far as a frame reaches.
fn torn_frame(memory: &Memory, tid: Tid, rsp: Addr) -> Result<Vec<MemWrite>> {
    let top = rsp.saturating_sub(RED_ZONE);
    let mappings = maps::read(tid)?;
    let is_stack = |mapping: &&Mapping| {
        (mapping.start..mapping.end).contains(&top) && mapping.prot & prot::WRITE != 0 && !mapping.shared
    };
    let Some(stack) = mappings.iter().find(is_stack) else { return Ok(Vec::new()) };
    let start = stack.start.max(top.saturating_sub(FRAME_MAX));
    let data = memory.read_vec(start, usize::try_from(top - start).unwrap_or(0))?;
    Ok(vec![MemWrite { addr: start, data }])
}
