//! How a call waits, and how it has ended if what it waits for does not come. A value.

use bis_syscalls::errno::RESTARTSYS;
use bis_trace::types::Registers;

#[derive(Default, Debug)]
pub struct Wait {
    is_known: bool,
    is_for_tracees: bool,
    end: Option<Registers>,
}

impl Wait {
    /// Whether the call is known to wait: a hook has tried it, its futex still has the value, or it waits for
    /// others to write.
    pub fn be_known(&mut self, is_known: bool) {
        self.is_known = is_known;
    }

    /// What it has waited for is there.
    pub fn be_over(&mut self) {
        self.is_known = false;
    }

    /// It has come back with these registers from the kernel, which knows of nobody to wait for. It is made
    /// again, and waits for tracees, in a `pause`. A signal that comes before finds a wait that it has
    /// interrupted.
    pub fn be_for_tracees(&mut self, regs: Registers) {
        self.is_for_tracees = true;
        self.be_set_back(Registers { rax: RESTARTSYS.cast_unsigned(), ..regs });
    }

    /// The task is set back, and is about to make the call again, because of us alone: it came back with
    /// EINTR, with a part of its bytes, or without a child to wait for where there are tracees. With these
    /// registers it shows the call to have ended, should a signal come first.
    pub fn be_set_back(&mut self, end: Registers) {
        self.end = Some(end);
    }

    /// The kernel makes the call again.
    pub fn be_made_again(&mut self) {
        self.end = None;
    }

    /// The registers with which the call has ended instead of being made again, if it was set back.
    pub fn take_end(&mut self) -> Option<Registers> {
        self.end.take()
    }

    pub fn is_known(&self) -> bool {
        self.is_known
    }

    pub fn is_for_tracees(&self) -> bool {
        self.is_for_tracees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_made_again_has_not_ended() {
        let mut wait = Wait::default();
        let end = Registers { rax: 5, ..Registers::default() };
        wait.be_set_back(end);
        wait.be_made_again();
        assert_eq!(wait.take_end(), None);
        wait.be_set_back(end);
        assert_eq!((wait.take_end(), wait.take_end()), (Some(end), None));
    }

    #[test]
    fn a_signal_interrupts_a_wait_for_tracees() {
        let mut wait = Wait::default();
        wait.be_for_tracees(Registers { rip: 3, ..Registers::default() });
        let end = wait.take_end().expect("it was set back");
        assert_eq!((end.result(), end.rip), (RESTARTSYS, 3));
        assert!(wait.is_for_tracees() && !wait.is_known());
    }
}
