//! Calls that would undo what the recorder depends on, or tell the program of it: they get the answer that they
//! would get without bis.

use std::fs;

use bis_syscalls::{Call, Handler};
use bis_trace::{
    event::{MemWrite, Outcome},
    types::{Registers, Tid},
};

use crate::{call::Entry, domain::Domain, error::Result};

/// The child would be invisible to its tracer.
const CLONE_UNTRACED: u64 = 0x80_0000;

fn failed(errno: i32) -> Entry {
    Entry::Done(-i64::from(errno))
}

impl Domain {
    pub(super) fn enter_clone(&mut self, tid: Tid, handler: Handler, call: &Call) -> Result<Entry> {
        match handler {
            Handler::Clone if call.args[0] & CLONE_UNTRACED != 0 => {
                let regs = self.stopped(tid)?.regs()?;
                self.stopped(tid)?.set_regs(&Registers { rdi: regs.rdi & !CLONE_UNTRACED, ..regs })?;
                Ok(Entry::Make)
            }
            Handler::Clone3 => {
                let flags = self.memory.read_u64(call.args[0]).unwrap_or(0);
                Ok(if flags & CLONE_UNTRACED != 0 { failed(libc::EINVAL) } else { Entry::Make })
            }
            _ => Ok(Entry::Make),
        }
    }

    pub(super) fn enter_prctl(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        match call.i32(0) {
            // Our traps stay; the program may think what it likes.
            libc::PR_SET_TSC => Ok(Entry::Done(0)),
            libc::PR_GET_TSC => {
                let data = libc::PR_TSC_ENABLE.to_le_bytes().to_vec();
                if self.memory.write(call.args[1], &data).is_err() {
                    return Ok(failed(libc::EFAULT));
                }
                self.call(tid)?.writes.push(MemWrite { addr: call.args[1], data });
                Ok(Entry::Done(0))
            }
            // It would close /proc/PID/mem to us.
            libc::PR_SET_DUMPABLE => {
                let valid = call.args[1] <= 1;
                Ok(if valid { Entry::Done(0) } else { failed(libc::EINVAL) })
            }
            // A filter of the program's own would come before ours: as in a kernel without filters.
            libc::PR_SET_SECCOMP | libc::PR_GET_SECCOMP => Ok(failed(libc::EINVAL)),
            libc::PR_SET_MM => Ok(failed(libc::EPERM)),
            _ => Ok(Entry::Make),
        }
    }

    pub(super) fn enter_arch_prctl(&mut self, call: &Call) -> Result<Entry> {
        const ARCH_GET_CPUID: u64 = 0x1011;
        const ARCH_SET_CPUID: u64 = 0x1012;
        /// Permission for AMX state, which cpuid hides.
        const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
        /// Shadow stacks: 0x5001 to 0x5005.
        const ARCH_SHSTK: std::ops::RangeInclusive<u64> = 0x5001..=0x5005;
        Ok(match call.args[0] {
            ARCH_GET_CPUID => Entry::Done(1),
            ARCH_SET_CPUID => Entry::Done(0),
            ARCH_REQ_XCOMP_PERM => failed(libc::EINVAL),
            op if ARCH_SHSTK.contains(&op) => failed(libc::EINVAL),
            _ => Entry::Make,
        })
    }

    /// The task is pinned beside its supervisor; what the program asks for is remembered for when it asks back.
    pub(super) fn enter_setaffinity(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let target = if call.i32(0) == 0 { tid } else { Tid(call.i32(0)) };
        if !self.tasks.contains_key(&target) && fs::metadata(format!("/proc/{target}")).is_err() {
            return Ok(failed(libc::ESRCH));
        }
        let original = self.session.cores.original.clone();
        let len = usize::try_from(call.u32(1)).unwrap_or(0).min(original.len());
        let Ok(mut mask) = self.memory.read_vec(call.args[2], len) else { return Ok(failed(libc::EFAULT)) };
        mask.resize(original.len(), 0);
        mask.iter_mut().zip(&original).for_each(|(wanted, allowed)| *wanted &= allowed);
        if mask.iter().all(|byte| *byte == 0) {
            return Ok(failed(libc::EINVAL));
        }
        if let Some(task) = self.tasks.get_mut(&target) {
            task.affinity = Some(mask);
        }
        Ok(Entry::Done(0))
    }

    pub(super) fn leave_getaffinity(
        &mut self,
        tid: Tid,
        args: [u64; 6],
        result: i64,
        outcome: &mut Outcome,
    ) -> Result<()> {
        #[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of an int argument")]
        let target = if args[0] as i32 == 0 { tid } else { Tid(args[0] as i32) };
        let affinity = self.tasks.get(&target).and_then(|task| task.affinity.clone());
        let mut mask = affinity.unwrap_or_else(|| self.session.cores.original.clone());
        mask.resize(usize::try_from(result).unwrap_or(0), 0);
        self.put(args[2], mask, outcome)
    }
}
