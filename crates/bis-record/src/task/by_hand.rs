//! What a supervisor does by hand to a stopped task: sets it back to before its call, makes a call in its
//! name, writes to memory in the kernel's name; and the lock of standard output, which its call needs.

use bis_syscalls::errno::{RESTARTNOHAND, RESTARTSYS};
use bis_trace::{
    event::{MemWrite, Outcome},
    types::{Addr, Registers, StandardStream, Tid},
};
use bis_tracee::remote::Remote;

use crate::{
    crew::{Crew, with_slot},
    domain::Domain,
    error::Result,
    task::InCall,
};

impl Domain {
    /// Sets the task back to before its `syscall` instruction.
    pub fn undo(&mut self, tid: Tid, entry: &Registers) -> Result<()> {
        self.stopped(tid)?.set_regs(&entry.before_call())?;
        let task = self.task(tid)?;
        task.standing.go_on_midway();
        Ok(())
    }

    /// Takes the lock of standard output or error for the task's call. While another task of the domain is in
    /// a write there, or waits for that, the call waits in a `pause` in its own place: of two that wait in
    /// the kernel at the same time, nobody would know whose bytes it has taken first. It is made again when
    /// it is its turn ([`Domain::wake_writer`]).
    pub fn lock_echo(&mut self, tid: Tid, stream: StandardStream) -> Result<()> {
        let has_turn = self.call(tid)?.lock.is_awaited();
        let is_in_the_way = |call: &InCall| {
            call.lock.held() == Some(stream) || !has_turn && call.lock.awaited() == Some(stream)
        };
        let others = self.tasks.values().filter(|task| task.tid != tid);
        if others.filter_map(|task| task.call.as_ref()).any(is_in_the_way) {
            self.call(tid)?.await_lock(stream);
            return self.pause_in_call(tid);
        }
        if !self.session.stdio.try_lock(stream, self.id) {
            // A domain that waits here holds no token, so that the one that writes can come to an end.
            self.release_tokens()?;
            self.session.stdio.lock(stream, self.id);
            self.ensure_tokens()?;
        }
        self.call(tid)?.lock.hold(stream);
        Ok(())
    }
}

impl Crew {
    /// The kernel is about to make the task's call: it makes a `pause` in its place, if it is to wait for
    /// what only we know of.
    pub fn pause_in_call(&mut self, tid: Tid) -> Result<()> {
        if self.call(tid)?.pauses() {
            let regs = self.stopped(tid)?.regs()?;
            let pause = Registers { orig_rax: libc::SYS_pause.cast_unsigned(), ..regs };
            self.stopped(tid)?.set_regs(&pause)?;
        }
        Ok(())
    }

    /// What a call that has waited so has come back with, as the call itself would have: those that wait so
    /// are restarted after a handler with SA_RESTART, and a `pause` never is.
    pub fn wake_in_call(&mut self, tid: Tid, regs: Registers) -> Result<Registers> {
        let call = self.call(tid)?;
        if !call.pauses() || regs.result() != RESTARTNOHAND {
            return Ok(regs);
        }
        let own = Registers { rax: RESTARTSYS.cast_unsigned(), orig_rax: call.entry.nr(), ..regs };
        self.stopped(tid)?.set_regs(&own)?;
        Ok(own)
    }

    /// Makes a system call in the task's name, at any stop (at an entry, its own call is skipped by it).
    pub fn call_for(&mut self, tid: Tid, nr: i64, args: [u64; 6]) -> Result<i64> {
        with_slot(self, tid, |_, slot| {
            let mut remote = Remote::new(slot)?;
            let result = remote.call(nr, args)?;
            remote.finish()?;
            Ok(result)
        })
    }

    /// A write that the recorder itself makes in the name of the kernel.
    pub fn put(&self, addr: Addr, data: Vec<u8>, outcome: &mut Outcome) -> Result<()> {
        self.memory.write(addr, &data)?;
        outcome.writes.push(MemWrite { addr, data });
        Ok(())
    }
}
