//! The debug registers of one task as a value: what each of the four watches, and which of them have
//! triggered.
//!
//! A task has one owner of its debug registers. Whoever replays a task uses [`DebugRegisters`] for all of its
//! breakpoints and watchpoints; the recorder, which needs one or two for a moment, uses the functions of
//! [`crate::place`]. One task is not used with both.
//!
//! The kernel gives a new thread or process no debug registers (`flush_ptrace_hw_breakpoint`), so a copy of a
//! task begins with [`DebugRegisters::default`].

use crate::{error::Result, sys, task::Stopped};
use bis_trace::types::Addr;

/// The debug registers that hold addresses.
pub const COUNT: usize = 4;

/// What makes a debug register stop the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is about to execute the instruction at the address. The task stops before it.
    Execute,
    /// It has written some of the bytes.
    Write,
    /// It has read or written some of the bytes. (The processor has no register for reads alone.)
    Any,
}

/// Bytes that a debug register watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// A multiple of `len`.
    pub addr: Addr,
    /// 1, 2, 4 or 8; for [`Access::Execute`] 1.
    pub len: u8,
    pub access: Access,
}

impl Watch {
    pub fn execute(addr: Addr) -> Watch {
        Watch { addr, len: 1, access: Access::Execute }
    }

    /// The register's four bits in DR7: what it stops at, and the length (Intel SDM volume 3, 18.2.4).
    fn control(self) -> u64 {
        let access = match self.access {
            Access::Execute => return 0,
            Access::Write => 1,
            Access::Any => 3,
        };
        let len = match self.len {
            1 => 0,
            2 => 1,
            4 => 3,
            _ => 2,
        };
        len << 2 | access
    }

    /// What these addresses and this DR7 of somebody else's watch, in the registers' order; none: the kernel
    /// would take them for invalid.
    pub fn of_control(addrs: [u64; COUNT], control: u64) -> Option<[Option<Watch>; COUNT]> {
        let mut watches = [None; COUNT];
        for (index, (place, addr)) in watches.iter_mut().zip(addrs).enumerate() {
            if control >> (2 * index) & 3 == 0 {
                continue;
            }
            let bits = control >> (16 + 4 * index);
            let access = match bits & 3 {
                0 => Access::Execute,
                1 => Access::Write,
                3 => Access::Any,
                _ => return None,
            };
            let len = [1, 2, 8, 4][usize::from(bits >> 2 & 1 != 0) + 2 * usize::from(bits >> 3 & 1 != 0)];
            let is_whole = access != Access::Execute || len == 1;
            if !addr.is_multiple_of(len.into()) || !is_whole {
                return None;
            }
            *place = Some(Watch { addr: Addr(addr), len, access });
        }
        Some(watches)
    }

    /// The fewest watches that cover these bytes and no others: each is aligned to its length.
    pub fn cover(addr: Addr, len: u64, access: Access) -> Vec<Watch> {
        let end = addr.saturating_add(len);
        let mut at = addr;
        let mut watches = Vec::new();
        while at < end {
            let fits = |len: &u8| at.is_multiple_of(u64::from(*len)) && at + u64::from(*len) <= end;
            let len = [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
            watches.push(Watch { addr: at, len, access });
            at += u64::from(len);
        }
        watches
    }
}

/// Which registers have triggered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Triggered {
    /// Bit `n` for register `n`.
    registers: u8,
    is_step: bool,
}

/// In DR6: the exception came also because the trap flag was set.
const SINGLE_STEP: u64 = 1 << 14;

impl Triggered {
    /// As the lowest bits of DR6.
    pub fn bits(self) -> u8 {
        self.registers
    }

    pub fn any(self) -> bool {
        self.registers != 0
    }

    /// Is it the trap behind a single step, too? Said only by registers of which any is set.
    pub fn is_step(self) -> bool {
        self.is_step
    }

    /// Any of those from this one on?
    pub fn has_from(self, register: usize) -> bool {
        self.registers >> register != 0
    }

    pub fn has(self, register: usize) -> bool {
        self.registers & 1 << register != 0
    }
}

/// What a task's debug registers hold.
#[derive(Clone, Debug, Default)]
pub struct DebugRegisters {
    set: [Option<Watch>; COUNT],
}

impl DebugRegisters {
    /// What they watch.
    pub fn watches(&self) -> &[Option<Watch>; COUNT] {
        &self.set
    }

    /// Makes them watch this, if they do not yet.
    ///
    /// # Errors
    /// Where the task was killed, or the kernel gives no debug register.
    pub fn write(&mut self, stopped: &Stopped, wanted: &[Option<Watch>; COUNT]) -> Result<()> {
        if self.set == *wanted {
            return Ok(());
        }
        let tid = stopped.tid();
        // An address may be changed only while its register is off: the kernel checks it against the length
        // that it has.
        sys::set_debug_register(tid, 7, 0)?;
        self.set = [None; COUNT];
        let mut control = 0;
        for (index, watch) in wanted.iter().enumerate() {
            let Some(watch) = watch else { continue };
            sys::set_debug_register(tid, index, watch.addr.0)?;
            control |= 1 << (2 * index) | watch.control() << (16 + 4 * index);
        }
        if control != 0 {
            sys::set_debug_register(tid, 7, control)?;
        }
        self.set = *wanted;
        Ok(())
    }

    /// Those that have triggered since the last time that this was asked.
    ///
    /// # Errors
    /// Where the task was killed.
    pub fn take_triggered(&self, stopped: &Stopped) -> Result<Triggered> {
        if self.set.iter().all(Option::is_none) {
            return Ok(Triggered::default());
        }
        let status = sys::get_debug_register(stopped.tid(), 6)?;
        let triggered = (0..COUNT).filter(|at| status & 1 << at != 0 && self.set[*at].is_some());
        let registers = triggered.fold(0, |bits, at| bits | 1 << at);
        // The kernel keeps what it has said of one exception until the next.
        if status != 0 {
            sys::set_debug_register(stopped.tid(), 6, 0)?;
        }
        Ok(Triggered { registers, is_step: status & SINGLE_STEP != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_are_exact_and_aligned() {
        for addr in 0x1000..0x1010 {
            for len in 1..=24 {
                let watches = Watch::cover(Addr(addr), len, Access::Write);
                let mut at = addr;
                for watch in &watches {
                    assert_eq!(watch.addr, Addr(at));
                    assert!(watch.addr.is_multiple_of(u64::from(watch.len)));
                    at += u64::from(watch.len);
                }
                assert_eq!(at, addr + len);
            }
        }
        assert_eq!(Watch::cover(Addr(0x1000), 8, Access::Any).len(), 1);
    }

    #[test]
    fn controls_are_those_of_the_manual() {
        let control = |len, access| Watch { addr: Addr(0), len, access }.control();
        assert_eq!(control(1, Access::Execute), 0);
        assert_eq!(control(1, Access::Write), 0b0001);
        assert_eq!(control(2, Access::Write), 0b0101);
        assert_eq!(control(4, Access::Any), 0b1111);
        assert_eq!(control(8, Access::Any), 0b1011);
    }

    #[test]
    fn what_is_written_to_registers_is_read_from_them() {
        for (index, len) in [1, 2, 4, 8].into_iter().enumerate() {
            for access in [Access::Write, Access::Any] {
                let watch = Watch { addr: Addr(0x1008), len, access };
                let control = 1 << (2 * index) | watch.control() << (16 + 4 * index);
                let mut wanted = [None; COUNT];
                wanted[index] = Some(watch);
                assert_eq!(Watch::of_control([0x1008; COUNT], control), Some(wanted));
            }
        }
        assert_eq!(Watch::of_control([1; COUNT], 0), Some([None; COUNT]));
        // Not aligned; a port; an instruction of two bytes.
        for bits in [0b0101, 0b0010, 0b0100] {
            assert_eq!(Watch::of_control([1; COUNT], 1 | bits << 16), None);
        }
    }
}
