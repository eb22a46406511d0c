//! Signal numbers as the protocol has them: gdb's own, the same on every system (`include/gdb/signals.def`).
//! LLDB has the same packets, and takes the numbers in them for those of the system that it debugs.

use bis_trace::types::Signal;

/// gdb's name for a signal that it has no number for.
const UNKNOWN: u8 = 143;

/// The Linux numbers 0..=31, as gdb's. `SIGSTKFLT` (16) has none.
const GDB: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 10, 8, 9, 30, 11, 31, 13, 14, 15, UNKNOWN, 20, 19, 17, 18, 21, 22, 16, 24, 25, 26,
    27, 28, 23, 32, 12,
];

/// gdb's number of a signal.
#[must_use]
pub fn to_gdb(signal: Signal) -> u8 {
    match signal.0 {
        n @ 0..32 => GDB[usize::from(n)],
        32 => 77,
        n @ 33..=63 => n + 12,
        64 => 78,
        _ => UNKNOWN,
    }
}

/// The signal of gdb's number; none for 0 ("no signal") and for those that Linux does not have.
#[must_use]
pub fn from_gdb(number: u64) -> Option<Signal> {
    let number = u8::try_from(number).ok().filter(|n| *n != UNKNOWN)?;
    (1..=64).map(Signal).find(|signal| to_gdb(*signal) == number)
}

/// Whose numbers a client writes and reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Numbers {
    #[default]
    Gdb,
    Linux,
}

impl Numbers {
    /// The number of a signal.
    #[must_use]
    pub fn of(self, signal: Signal) -> u8 {
        match self {
            Numbers::Gdb => to_gdb(signal),
            Numbers::Linux => signal.0,
        }
    }

    /// The signal of a number; none for 0 and for those that Linux does not have.
    #[must_use]
    pub fn signal(self, number: u64) -> Option<Signal> {
        match self {
            Numbers::Gdb => from_gdb(number),
            Numbers::Linux => u8::try_from(number).ok().filter(|n| (1..=64).contains(n)).map(Signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_there_and_back() {
        for signal in (1..=64).map(Signal) {
            let back = from_gdb(u64::from(to_gdb(signal)));
            assert_eq!(back, (signal.0 != 16).then_some(signal));
        }
        assert_eq!(to_gdb(Signal::CHLD), 20);
        assert_eq!(to_gdb(Signal(34)), 46);
        assert_eq!((from_gdb(0), from_gdb(143), from_gdb(1000)), (None, None, None));
    }

    #[test]
    fn clients_differ() {
        assert_eq!((Numbers::Gdb.of(Signal::CHLD), Numbers::Linux.of(Signal::CHLD)), (20, 17));
        assert_eq!(Numbers::Gdb.signal(30), Some(Signal(10)));
        assert_eq!(Numbers::Linux.signal(10), Some(Signal(10)));
        assert_eq!((Numbers::Linux.signal(0), Numbers::Linux.signal(65)), (None, None));
    }
}
