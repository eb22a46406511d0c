//! What gdb does first with threads beside the one that its user goes back with.
//!
//! gdb steps each thread over the breakpoint at which it has stopped before it resumes another one, and a
//! stop in any other thread meanwhile ends gdb: an assertion of its own fails. It does so on its way back as
//! well, where nothing is stepped over. So such a thread is said to have made its step, and stays where it
//! is. The resume that follows is the one that the user wants. It names no thread, if gdb lets all of them
//! go.

use bis_trace::types::{Signal, Tid};

use super::served::Served;
use crate::protocol::{Client, reply::Stop};

/// The stop that is gone back from, and what is known of the way.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The client's user has seen where the program stands, and nothing was resumed since.
    pub is_seen: bool,
    /// A thread is said to have made a step since then.
    has_pretended: bool,
    /// The thread that the next step back is of.
    pub meant: Option<Tid>,
}

impl Served<'_> {
    /// The answer to a step back that is none. gdb lets the thread go alone then, and wants to hear of all
    /// its signals. (Where the user has seen nothing, gdb goes back from a breakpoint whose condition it
    /// judges.)
    pub(super) fn pretend_step_back(&mut self) -> Option<Vec<u8>> {
        let tid = self.resumed?;
        let names_none = self.session.passed_signals.is_empty() && !self.passed_mostly.is_empty();
        let is_over = self.features.client() == Client::Gdb && names_none;
        if !is_over || !self.beside.is_seen {
            return None;
        }
        self.beside.has_pretended = true;
        (self.general, self.resumed) = (Some(tid), None);
        let mut registers = self.with_stop(tid);
        for (number, value) in &mut registers {
            let register = self.session.target().register(*number as u64);
            if register.is_some_and(|register| ["rip", "eip"].contains(&register.name.as_str())) {
                // Where it stands, it would have come to the breakpoint once more.
                decrement(value);
            }
        }
        let stop = Stop {
            signal: Some(Signal::TRAP),
            numbers: self.numbers(),
            thread: Some(self.thread(tid)),
            registers,
            ..Stop::default()
        };
        Some(stop.payload())
    }

    /// gdb asks whether a thread lives: it is about to go on with it where it has stepped the others.
    pub(super) fn asks_for(&mut self, tid: Tid) {
        if self.beside.has_pretended {
            self.beside.meant = Some(tid);
        }
    }

    /// The thread that a step back is of.
    pub(super) fn steps_back(&self) -> Tid {
        let threads = self.session.threads();
        let meant = self.beside.meant.filter(|tid| threads.contains(tid));
        self.resumed.or(meant).unwrap_or(self.session.tid())
    }
}

/// One less, as the bytes of a number.
fn decrement(value: &mut [u8]) {
    for byte in value {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn decremented() {
        let mut value = [0, 0, 1, 9];
        super::decrement(&mut value);
        assert_eq!(value, [0xff, 0xff, 0, 9]);
    }
}
