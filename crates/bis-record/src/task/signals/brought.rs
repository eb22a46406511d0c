//! How a signal that was kept back comes to its task: another one is sent that carries the task to its stop,
//! at once or in the call that the task is about to make. A value.

use bis_trace::types::Signal;
use bis_tracee::siginfo::is_stop;

use crate::signals::kept::Carrier;

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Brought {
    /// Sent last, and not arrived.
    carrier: Option<Carrier>,
    /// It has interrupted a hook in its call. That is made as a traced one, and the signal is to find the
    /// task in it.
    for_call: Option<Signal>,
}

impl Brought {
    /// This one was sent ([`Crew::carry`](crate::crew::Crew::carry)).
    pub fn send(&mut self, carrier: Carrier) {
        self.carrier = Some(carrier);
    }

    /// The one that was sent has arrived, or the task has come to the stop of what it was sent for.
    pub fn arrive(&mut self) {
        self.carrier = None;
    }

    /// The one that was sent and has not arrived.
    pub fn carrier(&self) -> Option<Carrier> {
        self.carrier
    }

    /// This signal has interrupted the task's hook in its call.
    pub fn interrupt_call(&mut self, signal: Signal) {
        self.for_call = Some(signal);
    }

    /// A signal has come to the task, and it has interrupted no call of a hook.
    pub fn interrupt_nothing(&mut self) {
        self.for_call = None;
    }

    /// Is a signal to find the task in the call that it is about to make?
    pub fn is_for_call(&self) -> bool {
        self.for_call.is_some()
    }

    /// The task is about to make a call: the signal that is to find it there. It does so once.
    pub fn take_for_call(&mut self) -> Option<Signal> {
        self.for_call.take()
    }

    /// Stops are none any more.
    pub fn drop_stop(&mut self) {
        self.for_call = self.for_call.filter(|signal| !is_stop(*signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Signal = Signal(10);
    const STOP: Signal = Signal(20);

    #[test]
    fn a_signal_finds_the_task_in_one_call() {
        let mut it = Brought::default();
        it.interrupt_call(SENT);
        assert!(it.is_for_call());
        assert_eq!((it.take_for_call(), it.take_for_call()), (Some(SENT), None));
        it.interrupt_call(SENT);
        it.interrupt_nothing();
        assert!(!it.is_for_call());
    }

    #[test]
    fn a_stop_that_is_none_any_more_interrupts_no_call() {
        let mut it = Brought::default();
        it.interrupt_call(SENT);
        it.drop_stop();
        assert!(it.is_for_call());
        it.interrupt_call(STOP);
        it.drop_stop();
        assert!(!it.is_for_call());
    }

    #[test]
    fn what_was_sent_last_is_on_its_way_until_it_arrives() {
        let mut it = Brought::default();
        it.send(Carrier::Same(SENT));
        it.send(Carrier::Neutral(STOP));
        it.interrupt_call(SENT);
        assert_eq!(it.carrier(), Some(Carrier::Neutral(STOP)));
        it.drop_stop();
        assert_eq!(it.carrier(), Some(Carrier::Neutral(STOP)), "it comes all the same");
        it.arrive();
        assert_eq!(it.carrier(), None);
        assert!(it.is_for_call());
    }
}
