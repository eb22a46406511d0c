//! How the program has made a call. It does not change any more.

use bis_syscalls::{
    Call,
    errno::is_kernels_own,
    narrow::{Own, Thunk},
    sandbox::Table,
};
use bis_trace::types::{Addr, NARROW_TABLE, Registers};

#[derive(Debug)]
pub struct AsMade {
    nr: u64,
    /// The registers as the program made the call; as they would be in the 64-bit table, if it is of the
    /// other.
    regs: Registers,
    /// It is of the 32-bit table.
    narrow: Option<Narrow>,
}

/// A call of the 32-bit table (`calls/narrow.rs`).
#[derive(Debug)]
pub struct Narrow {
    /// The registers as the program made the call.
    pub outer: Registers,
    pub way: Way,
}

impl Narrow {
    /// A result in the register in which the program finds it. The kernel looks at those that ask for the
    /// call to be made again (`bis_syscalls::errno`) as they are.
    pub fn result(&self, result: i64) -> u64 {
        let is_again = is_kernels_own(result);
        let mask = if self.outer.is_narrow() && !is_again { u64::from(u32::MAX) } else { u64::MAX };
        result.cast_unsigned() & mask
    }
}

/// What the kernel makes of a call of the 32-bit table.
#[derive(Debug)]
pub enum Way {
    /// The program's own call.
    Own(Own),
    /// None.
    NotMade,
    /// One of the 64-bit table.
    Thunk(Box<Thunk>),
}

impl AsMade {
    /// A call of the 64-bit table.
    pub fn of(entry: &Registers) -> AsMade {
        AsMade { nr: entry.orig_rax, regs: *entry, narrow: None }
    }

    /// A narrow one, which the registers `entry` say as if it were of the 64-bit table.
    pub fn of_narrow(entry: Registers, narrow: Narrow) -> AsMade {
        AsMade { narrow: Some(narrow), ..AsMade::of(&entry) }
    }

    /// Its number in the 64-bit table.
    pub fn nr(&self) -> u64 {
        self.nr
    }

    /// The registers, as those of a call of the 64-bit table.
    pub fn regs(&self) -> Registers {
        self.regs
    }

    pub fn args(&self) -> [u64; 6] {
        self.regs.args()
    }

    pub fn ip(&self) -> Addr {
        self.regs.ip()
    }

    pub fn sp(&self) -> Addr {
        self.regs.sp()
    }

    /// The call of the 64-bit table that it is, or is known by.
    pub fn call(&self) -> Call {
        Call { nr: self.nr, args: self.args() }
    }

    /// It, if it is of the 32-bit table.
    pub fn narrow(&self) -> Option<&Narrow> {
        self.narrow.as_ref()
    }

    /// The call's number and registers as the program made it: what replay finds.
    pub fn told(&self) -> (u64, Registers) {
        match &self.narrow {
            Some(Narrow { outer, .. }) => (NARROW_TABLE | outer.orig_rax & u64::from(u32::MAX), *outer),
            None => (self.nr, self.regs),
        }
    }

    /// The number of the call in the table that the program has it from.
    pub fn own_nr(&self) -> u64 {
        self.narrow.as_ref().map_or(self.nr, |narrow| narrow.outer.orig_rax & u64::from(u32::MAX))
    }

    /// The task's registers while it is in the call, as a tracer among the program's processes is to see
    /// them: where another call is made in place of the program's, they are that one's.
    pub fn as_own(&self, regs: &Registers) -> Registers {
        let Some(Narrow { outer, way: Way::Thunk(_) }) = &self.narrow else { return *regs };
        let is_set_back = regs.orig_rax == u64::MAX;
        let back = if is_set_back { outer.before_call() } else { *outer };
        // The result, or that the call is to be made again by its restart block.
        let is_number = regs.rax == self.nr;
        Registers { rax: if is_number { back.rax } else { regs.rax }, ..back }
    }

    /// The table that the program has its number from.
    pub fn table(&self) -> Table {
        if self.narrow.is_some() { Table::Narrow } else { Table::Wide }
    }

    /// The registers of the task in front of the call.
    pub fn before(&self) -> Registers {
        self.told().1.before_call()
    }

    /// The program's own call of the 32-bit table, if the kernel makes that: its arguments are in other
    /// registers than `regs` says.
    pub fn own_narrow(&self) -> Option<&Own> {
        match &self.narrow {
            Some(Narrow { way: Way::Own(own), .. }) => Some(own),
            _ => None,
        }
    }

    /// Does the kernel make another call in place of the program's?
    pub fn is_thunk(&self) -> bool {
        matches!(&self.narrow, Some(Narrow { way: Way::Thunk(_), .. }))
    }

    /// A result of it, in the register in which the program finds it.
    pub fn result(&self, result: i64) -> u64 {
        self.narrow.as_ref().map_or(result.cast_unsigned(), |narrow| narrow.result(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow() -> (Registers, AsMade) {
        let outer = Registers { orig_rax: 4, rbx: 1, cs: 0x23, ..Registers::default() };
        let view = Registers { orig_rax: 1, rdi: 1, ..outer };
        (outer, AsMade::of_narrow(view, Narrow { outer, way: Way::NotMade }))
    }

    #[test]
    fn a_call_is_told_as_the_program_has_made_it() {
        let wide = AsMade::of(&Registers { orig_rax: 1, rdi: 7, ..Registers::default() });
        assert_eq!((wide.told().0, wide.own_nr(), wide.nr(), wide.args()[0]), (1, 1, 1, 7));
        assert_eq!(wide.table(), Table::Wide);
        let (outer, narrow) = narrow();
        assert_eq!(narrow.told(), (NARROW_TABLE | 4, outer));
        assert_eq!((narrow.own_nr(), narrow.nr(), narrow.args()[0]), (4, 1, 1));
        assert_eq!(narrow.table(), Table::Narrow);
    }

    #[test]
    fn a_32_bit_program_finds_its_result_in_half_a_register() {
        let (_, narrow) = narrow();
        assert_eq!(narrow.result(-2), 0xffff_fffe);
        assert_eq!(narrow.result(-512), u64::MAX - 511, "the kernel's own");
        assert_eq!(AsMade::of(&Registers::default()).result(-2), u64::MAX - 1);
    }
}
