//! What a supervisor does by hand to a stopped task: sets it back to before its call, makes a call in its
//! name, writes to memory in the kernel's name; and the lock of standard output, which its call needs.

use bis_trace::{
    event::{MemWrite, Outcome},
    types::{Addr, Registers, Tid},
};
use bis_tracee::remote::Remote;

use crate::{domain::Domain, error::Result};

impl Domain {
    /// Sets the task back to before its `syscall` instruction.
    pub fn undo(&mut self, tid: Tid, entry: &Registers) -> Result<()> {
        let regs = Registers { rip: entry.rip - 2, rax: entry.orig_rax, orig_rax: u64::MAX, ..*entry };
        self.stopped(tid)?.set_regs(&regs)?;
        let task = self.task(tid)?;
        task.standing.go_on_midway();
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
    pub fn put(&self, addr: Addr, data: Vec<u8>, outcome: &mut Outcome) -> Result<()> {
        self.memory.write(addr, &data)?;
        outcome.writes.push(MemWrite { addr, data });
        Ok(())
    }
}
