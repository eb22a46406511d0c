//! What may be done about the time in an address space: whether its text may read the time stamp counter, and
//! where the kernel's clock functions are. What changes it, and why, is in `hooks/clock.rs`.

use bis_trace::types::Addr;
use std::ops::Range;

/// The clock of an address space that has hooks.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// `rdtsc` faults in all tasks, before they go on.
    pub closed: bool,
    /// The program's own instructions stay: they are to be faults.
    pub forbidden: bool,
    /// The copy of the vdso.
    pub text: Range<Addr>,
    /// The functions in it: clock_gettime, gettimeofday, time; and getcpu, which does not read the counter.
    pub functions: [u64; 4],
    /// Where the vdso is.
    pub vdso: Range<Addr>,
}

impl Clock {
    /// Does the kernel's image with the clock's functions lie here? A program that moves it away has nobody
    /// call it.
    pub fn is_of_vdso(&self, address: Addr) -> bool {
        self.vdso.contains(&address)
    }

    /// Is any of the vdso in this range?
    pub fn touches_vdso(&self, range: &Range<Addr>) -> bool {
        range.start < self.vdso.end && self.vdso.start < range.end
    }
}
