//! Steps that calls share: a task is set back to before its call, a call is not made, standard output is
//! locked.

use bis_trace::{
    event::{EventKind, MemWrite, Outcome},
    types::{Registers, Tid},
};
use bis_tracee::remote::Remote;

use crate::{domain::Domain, error::Result, task::InCall};

impl Domain {
    /// Sets the task back to before its `syscall` instruction.
    pub fn undo(&mut self, tid: Tid, entry: &Registers) -> Result<()> {
        let regs = Registers { rip: entry.rip - 2, rax: entry.orig_rax, orig_rax: u64::MAX, ..*entry };
        self.stopped(tid)?.set_regs(&regs)?;
        let task = self.task(tid)?;
        task.standing.go_on_midway();
        Ok(())
    }

    /// Ends a call that the kernel never sees.
    pub fn not_made(&mut self, tid: Tid, call: InCall, result: i64) -> Result<()> {
        // What the processor's syscall instruction does to rcx and r11 has been done at the entry.
        let regs = Registers { rax: result.cast_unsigned(), orig_rax: u64::MAX, ..call.entry };
        self.stopped(tid)?.set_regs(&regs)?;
        if self.session.traced.is_used() {
            self.call_is_over(tid, &call);
        }
        let InCall { writes, effects, ours, .. } = call;
        let mut outcome = Outcome { regs, writes, effects, ours, ..Outcome::default() };
        self.take_mail(&mut outcome)?;
        let (nr, entry, outcome) = (call.nr, call.entry, Box::new(outcome));
        let kind = if call.entered {
            EventKind::SyscallExit { nr, outcome }
        } else {
            EventKind::Syscall { nr, entry, outcome }
        };
        self.event_with(tid, kind, call.sums)?;
        self.return_borrowed()?;
        self.task(tid)?.standing.go_on();
        Ok(())
    }

    /// Takes the lock of standard output or error for the task's call.
    pub fn lock_echo(&mut self, tid: Tid, number: u8) -> Result<()> {
        if !self.session.stdio.try_lock(number, self.id) {
            // Whoever waits here holds no token, so that the one who writes can come to an end.
            self.release_tokens()?;
            self.session.stdio.lock(number, self.id);
            self.ensure_tokens()?;
        }
        self.call(tid)?.echo = Some(number);
        Ok(())
    }

    /// Makes a system call in the task's name, at any stop (at an entry, its own call is skipped by it).
    pub fn call_for(&mut self, tid: Tid, nr: i64, args: [u64; 6]) -> Result<i64> {
        self.with_slot(tid, |_, slot| {
            let mut remote = Remote::new(slot)?;
            let result = remote.call(nr, args)?;
            remote.finish()?;
            Ok(result)
        })
    }

    /// A write that the recorder itself makes in the name of the kernel.
    pub fn put(&self, addr: u64, data: Vec<u8>, outcome: &mut Outcome) -> Result<()> {
        self.memory.write(addr, &data)?;
        outcome.writes.push(MemWrite { addr, data });
        Ok(())
    }
}
