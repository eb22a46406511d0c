//! The identification flag (ID, bit 21 of eflags), which a tracer cannot set.
//!
//! Whether a program can change that flag says whether the processor knows `cpuid`; runtimes of virtual
//! machines try it, and leave it set. It means nothing, but it is pushed with the other flags, and so gets
//! into memory.
//!
//! A task inherits it from the one that has made it. Where a debugger's copy of a thread is made by another
//! thread, the kernel keeps the flag as it is there, whatever registers are given to the copy
//! (`FLAG_MASK` in arch/x86/kernel/ptrace.c). So the task is let execute one `popfq`.

use bis_trace::types::{Addr, Registers};

use crate::{
    Memory, Result, Resume, Status, TraceeError,
    lent::Lent,
    siginfo::SigInfo,
    task::{self, Stopped},
};

/// The flag.
const ID: u64 = 1 << 21;

const POPFQ: [u8; 1] = [0x9d];

/// Lets a task that is to get these registers have their identification flag. Its other registers are
/// anything after that, and its memory is as before: meanwhile the instruction takes the place of the one at
/// `regs.rip`, and the flags that of the word at the end of the stack. Where there is no such memory, or no
/// instruction can be executed there, the flag stays as it is.
///
/// # Errors
/// Where the task is gone.
pub fn set(mut stopped: Stopped, memory: &Memory, regs: &Registers) -> Result<Stopped> {
    let now = stopped.regs()?;
    if (now.eflags ^ regs.eflags) & ID == 0 {
        return Ok(stopped);
    }
    let (code, word) = (regs.ip(), Addr(regs.rsp & !7));
    let flags = (now.eflags & !ID) | (regs.eflags & ID);
    let Ok(above) = Lent::with(memory, word, &flags.to_le_bytes()) else { return Ok(stopped) };
    if let Ok(instruction) = Lent::with(memory, code, &POPFQ) {
        stopped = execute(stopped, &Registers { rsp: word.0, ..*regs })?;
        instruction.give_back()?;
    }
    above.give_back()?;
    Ok(stopped)
}

/// Lets a task execute the instruction at which these registers stand. Where that faults (a task that has
/// jumped into memory which is none of text), it is left at that.
fn execute(mut stopped: Stopped, regs: &Registers) -> Result<Stopped> {
    let tid = stopped.tid();
    // No call is to be made again.
    stopped.set_regs(&Registers { orig_rax: u64::MAX, ..*regs })?;
    loop {
        let running = stopped.resume(Resume::Step, None)?;
        let status = task::wait_for(tid)?;
        if let Status::Exited(_) | Status::Killed(_) | Status::Exit(_) = status {
            task::put_back(tid, status);
            return Err(TraceeError::Died(tid));
        }
        stopped = running.stopped();
        // The step is done, or has faulted. At a signal from outside, which nobody is to get, it is still to
        // come.
        if matches!(status, Status::Signal(_)) && SigInfo(stopped.siginfo()?).is_fault() {
            return Ok(stopped);
        }
    }
}
