//! Whether a call that waits does so in its hook for a while, although others may be able to run meanwhile. A
//! value.
//!
//! To leave a call is to stop twice, and to sleep and wake twice. Where others of the domain wait in the
//! kernel, too, nobody could run meanwhile: so the call waits in its hook, until one of them comes back. A
//! thread that has just woken another, and waits for it, would be stopped a third time for that.
//!
//! A server whose processes share memory answers a client, and waits for the client's next question. Given
//! away at once, the run tokens go to another process of the server, and come back with the answer. That
//! takes longer than a client on the same machine that is asked a short question (100 µs and more; 30 to 60).
//!
//! Only others can tell whether waiting pays: where it was in vain several times in a row, calls are left for
//! a while.

use std::time::Duration;

/// Longer than most clients take that answer at once, not longer than to give the tokens away and get them
/// back.
const FOR_TOKENS: Duration = Duration::from_micros(60);

/// Longer than most answers take. A call that is left after that begins anew, with all of its time.
const FOR_TURNS: Duration = Duration::from_millis(1);

/// After so many waits in vain, in a row, none are made for as many calls; each time that this happens before
/// one has paid, for twice as many.
const VAIN_MAX: u32 = 3;

/// For so many calls at most.
const REST_MAX: u32 = 256;

#[derive(Debug)]
pub struct Linger {
    /// How long a call waits in its hook.
    most: Duration,
    /// How many calls had something to say when the last one was left.
    answered: u64,
    /// Waits in vain since then.
    vain: u32,
    /// For how many calls none is made after the next waits in vain.
    next_rest: u32,
    /// Calls that are to be left before one waits again.
    rest: u32,
}

impl Linger {
    /// Waits while other domains want this one's tokens.
    pub fn for_tokens() -> Linger {
        Linger::new(FOR_TOKENS)
    }

    /// Waits while all others of the domain do.
    pub fn for_turns() -> Linger {
        Linger::new(FOR_TURNS)
    }

    fn new(most: Duration) -> Linger {
        Linger { most, answered: 0, vain: 0, next_rest: VAIN_MAX, rest: 0 }
    }

    /// How long the next call may wait.
    pub fn time(&self) -> Duration {
        if self.rest == 0 { self.most } else { Duration::ZERO }
    }

    /// A call has been left because it would wait; so many others before it had something to say.
    pub fn left(&mut self, answered: u64) {
        if self.rest > 0 {
            self.rest -= 1;
        } else if answered == self.answered {
            self.vain += 1;
        } else {
            (self.vain, self.next_rest) = (0, VAIN_MAX);
        }
        self.answered = answered;
        if self.vain == VAIN_MAX {
            (self.vain, self.rest) = (0, self.next_rest);
            self.next_rest = (2 * self.next_rest).min(REST_MAX);
        }
    }

    /// As [`Linger::left`], for a call that was left at no cost.
    pub fn note_run_out(&mut self, answered: u64) {
        if self.rest > 0 {
            self.left(answered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_stops_to_for_longer_each_time() {
        let mut linger = Linger::for_tokens();
        for rest in [3, 6, 12, 24, 48, 96, 192, 256, 256] {
            for _ in 0..VAIN_MAX {
                assert_eq!(linger.time(), FOR_TOKENS);
                linger.left(0);
            }
            for _ in 0..rest {
                assert_eq!(linger.time(), Duration::ZERO);
                linger.left(0);
            }
        }
        assert_eq!(linger.time(), FOR_TOKENS);
        linger.left(1);
        (0..VAIN_MAX).for_each(|_| linger.left(1));
        (0..VAIN_MAX).for_each(|_| linger.left(1));
        assert_eq!(linger.time(), FOR_TOKENS);
    }

    #[test]
    fn who_has_answers_between_goes_on() {
        let mut linger = Linger::for_tokens();
        for answered in 0..100 {
            // Each second one is in vain.
            linger.left(answered / 2);
            assert_eq!(linger.time(), FOR_TOKENS);
        }
    }

    #[test]
    fn who_has_waited_for_nobody_goes_on() {
        let mut linger = Linger::for_turns();
        for _ in 0..100 {
            linger.note_run_out(0);
            assert_eq!(linger.time(), FOR_TURNS);
        }
        (0..VAIN_MAX).for_each(|_| linger.left(0));
        (0..VAIN_MAX).for_each(|_| linger.note_run_out(0));
        assert_eq!(linger.time(), FOR_TURNS);
    }
}
