//! Whether a domain that holds run tokens waits a little before it gives them away. A value.
//!
//! A server whose processes share memory answers a client, and waits for the client's next question. Given
//! away at once, the tokens go to another process of the server, and come back with the answer: two stops,
//! and two supervisors that sleep and wake. That takes longer than a client on the same machine that is asked
//! a short question (100 µs and more; 30 to 60). So the call waits in its hook, for so long. Only others can
//! tell whether that pays: where nothing comes several times in a row, it is left for a while.

use std::time::Duration;

/// How long a call waits in its hook. Longer than most clients take that answer at once, not longer than to
/// give the tokens away and get them back.
const TIME: Duration = Duration::from_micros(60);

/// After so many waits in vain, in a row, none are made.
const VAIN_MAX: u32 = 3;

/// For so many calls.
const REST: u32 = 32;

#[derive(Debug, Default)]
pub struct Linger {
    /// How many calls had something to say when the last one was left.
    answered: u64,
    /// Waits in vain since then.
    vain: u32,
    /// Calls that are to be left before one waits again.
    rest: u32,
}

impl Linger {
    /// How long the next call may wait.
    pub fn time(&self) -> Duration {
        if self.rest == 0 { TIME } else { Duration::ZERO }
    }

    /// A call has been left because it would wait; so many others before it had something to say.
    pub fn left(&mut self, answered: u64) {
        if self.rest > 0 {
            self.rest -= 1;
        } else if answered == self.answered {
            self.vain += 1;
        } else {
            self.vain = 0;
        }
        self.answered = answered;
        if self.vain == VAIN_MAX {
            (self.vain, self.rest) = (0, REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_stops_to_and_tries_again_later() {
        let mut linger = Linger::default();
        for _ in 0..VAIN_MAX {
            assert_eq!(linger.time(), TIME);
            linger.left(0);
        }
        for _ in 0..REST {
            assert_eq!(linger.time(), Duration::ZERO);
            linger.left(0);
        }
        assert_eq!(linger.time(), TIME);
    }

    #[test]
    fn who_has_answers_between_goes_on() {
        let mut linger = Linger::default();
        for answered in 0..100 {
            // Each second one is in vain.
            linger.left(answered / 2);
            assert_eq!(linger.time(), TIME);
        }
    }
}
