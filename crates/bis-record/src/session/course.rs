//! How long a recording is waited for, and what is done with a signal that comes to bis meanwhile: decisions
//! on how far it has come, which look at no process and no clock. `end.rs` and `signals.rs` carry them out.

use std::time::Duration;

use bis_trace::types::{Signal, Tid};

use super::progress::Looking;

/// How long what the program has left running is recorded on, unless that is wanted until its end: what would
/// have ended by itself in a moment does.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked then whether there is anything but supervisors that finish their work.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often what waits to be written is looked through: what was recorded longer ago than this and a second
/// is in the trace, also if we are killed.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// How long a supervisor may take to meet a failure that nobody's was: of a log that cannot be written it
/// hears with its next event.
const MEET_MAX: Duration = Duration::from_secs(2);

/// A signal that comes to us so soon after the program's end is the one that has ended it.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// A moment in which there are supervisors still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// How long ago the program has ended; none: it runs.
    pub ended: Option<Duration>,
    /// What the program has left running is recorded to its end.
    pub waits: bool,
    /// It is not waited for any longer.
    pub is_over: bool,
    /// How long ago what waits to be written was looked through.
    pub flushed: Duration,
}

impl Moment {
    /// How long what the program has left running has yet. None: as long as it wants.
    fn grace(&self) -> Option<Duration> {
        let ended = self.ended.filter(|_| self.is_over || !self.waits)?;
        Some(if self.is_over { Duration::ZERO } else { GRACE.saturating_sub(ended) })
    }

    /// Is what the program has left running to be killed now?
    pub fn kills_left(&self) -> bool {
        self.grace().is_some_and(|grace| grace.is_zero())
    }

    /// How long nothing is to be done but to wait for supervisors. None: what waits is to be written.
    pub fn pause(&self) -> Option<Duration> {
        let until_flush = FLUSH_EVERY.saturating_sub(self.flushed);
        let pause = self.grace().map_or(until_flush, |grace| until_flush.min(grace.max(LOOK_EVERY)));
        Some(pause).filter(|pause| !pause.is_zero())
    }
}

/// Has everybody seen what the recording has failed with who wants to? `is_met`: a supervisor may meet it
/// that has not yet, for so long.
pub(super) fn is_seen(looking: Looking, is_met: Option<Duration>) -> bool {
    match looking {
        Looking::NotYet => is_met.is_none_or(|since| since >= MEET_MAX),
        Looking::Now => false,
        Looking::Over => true,
    }
}

/// A signal that has come to us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub signal: Signal,
    /// A process has sent it; else the terminal has.
    pub is_sent: bool,
    /// That is one of the recording.
    pub is_from_inside: bool,
    /// We lead a session.
    pub leads_session: bool,
    /// The program was found running.
    pub is_found: bool,
}

/// What is done with a signal that has come to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Nothing: the program has it already, or has ended of it.
    Drop,
    /// The program gets it.
    PassOn(Tid),
    /// It gets it when there is a program.
    Keep,
    /// What the program has left running is not waited for any longer.
    EndAll,
}

impl Arrived {
    /// `root`: the program, if there is one. `ended`: how long ago it has ended.
    ///
    /// The terminal's signals come to the program as well; and so does what a process of the recording has
    /// sent to a group that both belong to. All else was meant for the program.
    pub fn answer(&self, root: Option<Tid>, ended: Option<Duration>) -> Answer {
        let number = i32::from(self.signal.0);
        let is_hangup = number == libc::SIGHUP && self.leads_session;
        match (root, ended) {
            _ if self.is_from_inside => Answer::Drop,
            (None, _) => Answer::Keep,
            // Only the processes that the program has left are still there: it does not wait for them, nor
            // need we.
            (Some(_), Some(ended)) => {
                let ends = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&number);
                if ends && ended > SAME_SIGNAL { Answer::EndAll } else { Answer::Drop }
            }
            // What was found running is in another group: the terminal's do not come to it.
            (Some(root), None) if self.is_sent || is_hangup || self.is_found => Answer::PassOn(root),
            (Some(_), None) => Answer::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOT: Tid = Tid(7);
    const INT: Signal = Signal(2);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The program has just ended.
    const ENDED: Moment =
        Moment { ended: Some(Duration::ZERO), waits: false, is_over: false, flushed: Duration::ZERO };

    #[test]
    fn what_the_program_has_left_running_has_a_moment_to_end_by_itself() {
        assert!(!ENDED.kills_left());
        assert!(!Moment { ended: Some(GRACE - ms(1)), ..ENDED }.kills_left());
        assert!(Moment { ended: Some(GRACE), ..ENDED }.kills_left());
        assert!(Moment { is_over: true, ..ENDED }.kills_left(), "but not where a signal says so");
    }

    #[test]
    fn nothing_is_killed_while_the_program_runs_or_all_is_wanted_to_its_end() {
        for is_over in [false, true] {
            let runs = Moment { ended: None, is_over, ..ENDED };
            assert!(!runs.kills_left(), "{is_over}");
        }
        let late = Moment { ended: Some(100 * GRACE), waits: true, ..ENDED };
        assert!(!late.kills_left());
        assert!(Moment { is_over: true, ..late }.kills_left());
    }

    #[test]
    fn what_waits_is_written_whatever_else_is_so() {
        for is_over in [false, true] {
            let moment = Moment { is_over, flushed: FLUSH_EVERY, ..ENDED };
            assert_eq!(moment.pause(), None);
            assert_eq!(Moment { ended: None, ..moment }.pause(), None);
        }
        let runs = Moment { ended: None, flushed: ms(100), ..ENDED };
        assert_eq!(runs.pause(), Some(FLUSH_EVERY - ms(100)));
    }

    #[test]
    fn what_is_killed_is_looked_at_often() {
        let killed = Moment { is_over: true, ..ENDED };
        assert_eq!(killed.pause(), Some(LOOK_EVERY));
        assert_eq!(Moment { flushed: FLUSH_EVERY - ms(1), ..killed }.pause(), Some(ms(1)));
        assert_eq!(Moment { ended: Some(GRACE - ms(100)), ..ENDED }.pause(), Some(ms(100)));
    }

    proptest! {
        /// Nobody sleeps past the moment at which something is to be done, and nobody is busy waiting.
        #[test]
        fn a_pause_ends_when_there_is_something_to_do(
            ended in prop::option::of(0..3000_u64),
            waits in any::<bool>(),
            is_over in any::<bool>(),
            flushed in 0..1000_u64,
        ) {
            let moment = Moment { ended: ended.map(ms), waits, is_over, flushed: ms(flushed) };
            let Some(pause) = moment.pause() else {
                prop_assert!(ms(flushed) >= FLUSH_EVERY);
                return Ok(());
            };
            prop_assert!(!pause.is_zero() && ms(flushed) + pause <= FLUSH_EVERY);
            let after = Moment { ended: ended.map(|at| ms(at) + pause), ..moment };
            if after.kills_left() {
                let is_exact = ended.map(ms).is_some_and(|ended| ended + pause == GRACE);
                prop_assert!(moment.kills_left() || pause <= LOOK_EVERY || is_exact);
            }
        }
    }

    #[test]
    fn a_failure_of_nobodys_waits_for_a_supervisor_that_meets_it_but_not_for_long() {
        assert!(is_seen(Looking::NotYet, None));
        assert!(
            !is_seen(Looking::NotYet, Some(MEET_MAX - ms(1))) && is_seen(Looking::NotYet, Some(MEET_MAX))
        );
        for is_met in [None, Some(Duration::ZERO), Some(MEET_MAX)] {
            assert!(!is_seen(Looking::Now, is_met), "whoever looks may take as long as it wants");
            assert!(is_seen(Looking::Over, is_met));
        }
    }

    /// Of the terminal.
    const CAME: Arrived =
        Arrived { signal: INT, is_sent: false, is_from_inside: false, leads_session: false, is_found: false };

    #[test]
    fn what_was_sent_to_us_was_meant_for_the_program() {
        assert_eq!(CAME.answer(Some(ROOT), None), Answer::Drop, "the terminal's come to it as well");
        let sent = Arrived { is_sent: true, ..CAME };
        assert_eq!(sent.answer(Some(ROOT), None), Answer::PassOn(ROOT));
        let inside = Arrived { is_from_inside: true, ..sent };
        assert_eq!(inside.answer(Some(ROOT), None), Answer::Drop, "it was sent to our group");
        let found = Arrived { is_found: true, ..CAME };
        assert_eq!(found.answer(Some(ROOT), None), Answer::PassOn(ROOT));
    }

    #[test]
    fn a_terminal_that_hangs_up_says_so_to_the_one_that_leads_its_session_alone() {
        let leads = Arrived { leads_session: true, ..CAME };
        assert_eq!(leads.answer(Some(ROOT), None), Answer::Drop);
        let hangup = Arrived { signal: Signal(1), ..leads };
        assert_eq!(hangup.answer(Some(ROOT), None), Answer::PassOn(ROOT));
        assert_eq!(Arrived { leads_session: false, ..hangup }.answer(Some(ROOT), None), Answer::Drop);
    }

    #[test]
    fn a_signal_waits_for_a_program_that_is_not_there_yet() {
        assert_eq!(CAME.answer(None, None), Answer::Keep);
        assert_eq!(Arrived { is_from_inside: true, ..CAME }.answer(None, None), Answer::Drop);
    }

    #[test]
    fn after_the_programs_end_a_signal_ends_what_it_has_left_unless_it_has_ended_the_program() {
        let late = Some(SAME_SIGNAL + ms(1));
        for number in [1, 2, 3, 15] {
            let came = Arrived { signal: Signal(number), ..CAME };
            assert_eq!(came.answer(Some(ROOT), late), Answer::EndAll, "{number}");
            assert_eq!(came.answer(Some(ROOT), Some(SAME_SIGNAL)), Answer::Drop, "{number}");
            let inside = Arrived { is_from_inside: true, ..came };
            assert_eq!(inside.answer(Some(ROOT), late), Answer::Drop, "{number}");
        }
        let other = Arrived { signal: Signal(10), is_sent: true, ..CAME };
        assert_eq!(other.answer(Some(ROOT), late), Answer::Drop, "nobody is there to get it");
    }
}
