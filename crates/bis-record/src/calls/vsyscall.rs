//! The vsyscall page: three functions at fixed addresses that old programs and static ones call for the time.
//! The kernel emulates them in a page fault. A filter stops the task there as at a system call, but nothing
//! stops it at the "exit", and the instruction pointer may not be changed (`emulate_vsyscall` in
//! `arch/x86/entry/vsyscall/vsyscall_64.c`). So the call is skipped, which makes the kernel return to the
//! caller, and its result is made here.

use std::time::{SystemTime, UNIX_EPOCH};

use bis_trace::{
    event::MemWrite,
    types::{Addr, Registers, Tid},
};

use crate::{domain::Domain, error::Result, task::InCall};

const PAGE: std::ops::Range<u64> = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;

/// Does this entry come from the vsyscall page?
pub fn is_vsyscall(entry: &Registers) -> bool {
    PAGE.contains(&entry.rip)
}

impl Domain {
    /// Answers a call through the vsyscall page.
    pub fn vsyscall(&mut self, tid: Tid, mut call: InCall) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let [first, second, ..] = call.entry.args();
        let (result, outputs): (u64, [(u64, Vec<u8>); 2]) = match call.entry.nr().cast_signed() {
            libc::SYS_gettimeofday => {
                let micros = u64::from(now.subsec_micros());
                let value = [now.as_secs().to_le_bytes(), micros.to_le_bytes()].concat();
                (0, [(first, value), (second, vec![0; 8])])
            }
            libc::SYS_time => {
                let value = now.as_secs().to_le_bytes().to_vec();
                (now.as_secs(), [(first, value), (0, Vec::new())])
            }
            // getcpu: the first core of the first node is as good as any, the task may move at any moment.
            _ => (0, [(first, vec![0; 4]), (second, vec![0; 4])]),
        };
        for (addr, data) in outputs {
            // The kernel sends SIGSEGV for a bad address; a program that does that on purpose gets nothing
            // here.
            if addr != 0 && self.memory.write(Addr(addr), &data).is_ok() {
                call.found.add_write(MemWrite { addr: Addr(addr), data });
            }
        }
        self.not_made(tid, call, result.cast_signed())
    }
}
