//! The lock of standard output or error, as a call has it that writes there (`stdio.rs`). A value.

use bis_trace::types::StandardStream;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Lock {
    /// The call does not write there.
    #[default]
    None,
    /// We hold it for the call.
    Held(StandardStream),
    /// A signal has interrupted the call before it wrote anything. If it is made again, it takes the lock
    /// again.
    GivenBack(StandardStream),
    /// Another task of the domain writes there. The call waits in a `pause` until it is its turn.
    Awaited(StandardStream),
}

impl Lock {
    /// We hold it from now on.
    pub fn hold(&mut self, stream: StandardStream) {
        *self = Lock::Held(stream);
    }

    /// The call is over, or is not made: the stream whose lock is to be let go of.
    pub fn let_go(&mut self) -> Option<StandardStream> {
        let held = self.held();
        if held.is_some() {
            *self = Lock::None;
        }
        held
    }

    /// The call is interrupted, and may be made again: the stream whose lock is to be let go of meanwhile.
    pub fn give_back(&mut self) -> Option<StandardStream> {
        let held = self.held()?;
        *self = Lock::GivenBack(held);
        Some(held)
    }

    pub fn held(&self) -> Option<StandardStream> {
        match self {
            Lock::Held(stream) => Some(*stream),
            _ => None,
        }
    }

    /// The stream whose lock the call is to take when it is made again.
    pub fn wanted(&self) -> Option<StandardStream> {
        match self {
            Lock::GivenBack(stream) | Lock::Awaited(stream) => Some(*stream),
            Lock::None | Lock::Held(_) => None,
        }
    }

    /// The stream that the call waits for.
    pub fn awaited(&self) -> Option<StandardStream> {
        match self {
            Lock::Awaited(stream) => Some(*stream),
            _ => None,
        }
    }

    pub fn is_awaited(&self) -> bool {
        self.awaited().is_some()
    }

    /// Does the call write to standard output or error?
    pub fn is_of_a_stream(&self) -> bool {
        *self != Lock::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StandardStream = StandardStream::Error;

    #[test]
    fn a_call_that_is_interrupted_takes_its_lock_again() {
        let mut lock = Lock::default();
        assert_eq!((lock.give_back(), lock.wanted()), (None, None));
        lock.hold(STREAM);
        assert_eq!((lock.held(), lock.wanted()), (Some(STREAM), None));
        assert_eq!((lock.give_back(), lock.give_back()), (Some(STREAM), None), "it is let go of once");
        assert_eq!((lock.held(), lock.wanted()), (None, Some(STREAM)));
        lock.hold(STREAM);
        assert_eq!((lock.let_go(), lock.let_go()), (Some(STREAM), None));
        assert!(!lock.is_of_a_stream());
    }

    #[test]
    fn a_call_that_waits_for_its_turn_goes_on_waiting_when_it_is_interrupted() {
        let mut lock = Lock::Awaited(STREAM);
        assert_eq!(lock.give_back(), None);
        assert_eq!((lock.awaited(), lock.wanted()), (Some(STREAM), Some(STREAM)));
        assert_eq!(lock.let_go(), None, "it does not hold it");
        assert!(lock.is_of_a_stream());
    }
}
