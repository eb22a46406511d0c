//! The signals of a task that wait for a place where they can take effect: a value. What is done with them is
//! in `stash.rs` and `delivery.rs`.

use std::collections::VecDeque;

use bis_trace::types::Signal;
use bis_tracee::siginfo::{SigInfo, bit, is_of_instructions, is_stop};

/// The signal that was sent last to bring a task to a signal stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// It has the number of the signal that it brings the task to.
    Same(Signal),
    /// Its number means nothing: the signal takes its place in the stop. So it is with a stop (and with
    /// SIGCONT), of which the sending alone has effects: it takes back each SIGCONT (or stop) that waits
    /// (`prepare_signal` in the kernel's `signal.c`).
    Neutral(Signal),
}

impl Carrier {
    pub fn signal(self) -> Signal {
        match self {
            Carrier::Same(signal) | Carrier::Neutral(signal) => signal,
        }
    }

    /// Where a signal is brought to its task by another one that is sent: is that to be a neutral one?
    pub fn is_neutral_for(signal: Signal) -> bool {
        is_stop(signal) || signal == Signal::CONT
    }

    /// The number of a neutral one, for a task that blocks these signals and for which those wait alone.
    /// Nothing is executed before it arrives, so one that the task blocks is unblocked for that long, if
    /// there is no other; one that waits would come in its place. `is_queued`: of the real-time signals, of
    /// which the kernel queues each, so that none of the program's is dropped because of it. (The C libraries
    /// keep the first two for themselves, and programs hardly ever block these.)
    pub fn neutral(blocked: u64, waiting: u64, is_queued: bool) -> Signal {
        /// SIGURG, SIGWINCH, SIGCHLD, SIGIO, SIGUSR1, SIGUSR2.
        const CLASSIC: [u8; 6] = [23, 28, 17, 29, 10, 12];
        let all: Vec<u8> = if is_queued { (32..=64).collect() } else { CLASSIC.to_vec() };
        let free = |of: u64| all.iter().map(|number| Signal(*number)).find(|signal| of & bit(*signal) == 0);
        free(blocked | waiting).or_else(|| free(waiting)).unwrap_or(Signal(all[0]))
    }
}

/// Signals in the order in which they are to come.
#[derive(Clone, Default, Debug)]
pub struct Stash(VecDeque<SigInfo>);

impl Stash {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn first(&self) -> Option<&SigInfo> {
        self.0.front()
    }

    pub fn contains(&self, info: &SigInfo) -> bool {
        self.0.contains(info)
    }

    /// One more waits. Of a timer, of which the kernel queues one signal, one waits here, too: that which is
    /// there says how often the timer has fired.
    pub fn keep(&mut self, info: SigInfo) {
        match self.0.iter_mut().find(|other| other.is_queued_once_with(&info)) {
            Some(waiting) => *waiting = waiting.with_overruns_of(&info),
            None => self.0.push_back(info),
        }
    }

    /// This one comes before all others.
    pub fn put_first(&mut self, info: SigInfo) {
        self.0.push_front(info);
    }

    /// The first that `mask` does not block and that is wanted.
    pub fn take_open(&mut self, mask: u64, wanted: impl Fn(&SigInfo) -> bool) -> Option<SigInfo> {
        let at = self.0.iter().position(|info| is_open(info, mask) && wanted(info))?;
        self.0.remove(at)
    }

    /// The first with this number.
    pub fn take_of(&mut self, signal: Signal) -> Option<SigInfo> {
        let at = self.0.iter().position(|info| info.signal() == signal)?;
        self.0.remove(at)
    }

    /// Their process is to go on: stops are none any more.
    pub fn drop_stops(&mut self) {
        self.0.retain(|info| !is_stop(info.signal()));
    }

    pub fn has_open(&self, mask: u64) -> bool {
        self.0.iter().any(|info| is_open(info, mask))
    }

    pub fn has_stop(&self) -> bool {
        self.0.iter().any(|info| is_stop(info.signal()))
    }

    /// Does one wait to which its task is brought by a neutral carrier?
    pub fn has_neutral(&self) -> bool {
        self.0.iter().any(|info| Carrier::is_neutral_for(info.signal()))
    }

    /// The first of those that `mask` does not block.
    pub fn neutral(&self, mask: u64) -> Option<SigInfo> {
        let is_wanted = |info: &&SigInfo| is_open(info, mask) && Carrier::is_neutral_for(info.signal());
        self.0.iter().find(is_wanted).copied()
    }

    /// Does one wait that no timer has sent?
    pub fn has_sent(&self) -> bool {
        self.0.iter().any(|info| !info.is_of_timer())
    }

    /// The signals of timers, a bit each, that may be blocked for a while. One that an instruction raises
    /// while it is blocked would be the end of the process.
    pub fn timers(&self) -> u64 {
        let timers = self.0.iter().filter(|info| info.is_of_timer() && !is_of_instructions(info.signal()));
        timers.fold(0, |mask, info| mask | bit(info.signal()))
    }

    /// What the program that the task executes now has of them: those that `mask` blocks, but for what was
    /// sent by a timer of `timer_create`, which ends with its program; and stops. One that is open and is no
    /// stop was for a handler, and the program has none of these any more.
    #[must_use]
    pub fn over_exec(self, mask: u64) -> Stash {
        let stays =
            |info: &SigInfo| is_stop(info.signal()) || !is_open(info, mask) && info.code() != libc::SI_TIMER;
        Stash(self.0.into_iter().filter(stays).collect())
    }

    /// Puts these in its place, and gives what was there, in its order.
    pub fn replace(&mut self, with: &Stash) -> impl Iterator<Item = SigInfo> + use<> {
        std::mem::replace(&mut self.0, with.0.clone()).into_iter()
    }
}

fn is_open(info: &SigInfo, mask: u64) -> bool {
    mask & bit(info.signal()) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signal as the kernel tells of it: `code` says how it was sent, `word` is the first one behind that.
    fn info(signal: i32, code: i32, words: [i32; 2]) -> SigInfo {
        let mut bytes = [0; 128];
        for (at, word) in [(0, signal), (8, code), (16, words[0]), (20, words[1])] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        SigInfo(bytes)
    }

    fn sent(signal: i32, by: i32) -> SigInfo {
        info(signal, libc::SI_USER, [by, 0])
    }

    fn timer(signal: i32, id: i32, overruns: i32) -> SigInfo {
        info(signal, libc::SI_TIMER, [id, overruns])
    }

    fn stash(signals: &[SigInfo]) -> Stash {
        let mut stash = Stash::default();
        signals.iter().for_each(|info| stash.keep(*info));
        stash
    }

    fn all(mut stash: Stash) -> Vec<SigInfo> {
        stash.replace(&Stash::default()).collect()
    }

    #[test]
    fn a_classic_signal_waits_once_and_a_real_time_one_as_often_as_it_was_sent() {
        let [user, real] = [libc::SIGUSR1, 40];
        let kept = stash(&[sent(user, 1), sent(real, 2), sent(user, 3), sent(real, 4)]);
        assert_eq!(all(kept), [sent(user, 1), sent(real, 2), sent(real, 4)]);
        // For the process and for the thread, the kernel has a queue each.
        let to_thread = info(user, libc::SI_TKILL, [1, 0]);
        assert_eq!(all(stash(&[sent(user, 1), to_thread])), [sent(user, 1), to_thread]);
    }

    #[test]
    fn a_timer_that_runs_out_again_is_counted_in_the_signal_that_waits() {
        let kept = all(stash(&[timer(40, 7, 0), timer(40, 8, 0), timer(40, 7, 2)]));
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0], timer(40, 7, 0).with_overruns_of(&timer(40, 7, 2)));
        assert_eq!(kept[1], timer(40, 8, 0));
    }

    #[test]
    fn what_is_blocked_waits_on_and_what_is_open_comes_in_its_order() {
        let [first, second, third] = [sent(libc::SIGUSR1, 1), sent(libc::SIGUSR2, 2), sent(40, 3)];
        let mut kept = stash(&[first, second, third]);
        let mask = bit(Signal(10));
        assert!(kept.has_open(mask) && !kept.has_open(u64::MAX));
        assert_eq!(kept.take_open(mask, |_| true), Some(second));
        assert_eq!(kept.take_open(mask, |info| info.signal() != Signal(40)), None);
        assert_eq!(kept.take_open(0, |_| true), Some(first));
        assert_eq!(kept.take_of(Signal(10)), None);
        assert_eq!(kept.take_of(Signal(40)), Some(third));
        assert!(kept.is_empty());
    }

    #[test]
    fn a_neutral_signal_is_one_that_arrives_and_takes_nothing_from_the_program() {
        let of = |blocked, waiting| Carrier::neutral(blocked, waiting, true);
        let all_but = |signal| !bit(Signal(signal));
        assert_eq!(
            (of(0, 0), of(bit(Signal(32)), 0), of(0, bit(Signal(32)))),
            (Signal(32), Signal(33), Signal(33))
        );
        assert_eq!(of(all_but(50), 0), Signal(50));
        // All are blocked: one that does not wait already is unblocked.
        assert_eq!(of(u64::MAX, bit(Signal(32))), Signal(33));
        assert_eq!(Carrier::neutral(bit(Signal(23)), 0, false), Signal(28));
        assert!(Carrier::is_neutral_for(Signal(20)) && !Carrier::is_neutral_for(Signal(10)));
    }

    #[test]
    fn a_process_that_goes_on_has_no_stops_any_more() {
        let mut kept = stash(&[sent(libc::SIGTSTP, 1), sent(libc::SIGUSR1, 1), sent(libc::SIGSTOP, 1)]);
        assert!(kept.has_stop());
        assert_eq!(kept.neutral(bit(Signal(20))).map(|info| info.signal()), Some(Signal(19)));
        kept.drop_stops();
        assert!(!kept.has_stop() && !kept.has_neutral() && kept.neutral(0).is_none());
        kept.keep(sent(libc::SIGCONT, 1));
        assert!(kept.has_neutral() && kept.neutral(bit(Signal::CONT)).is_none());
        assert_eq!(kept.take_of(Signal::CONT), Some(sent(libc::SIGCONT, 1)));
        assert_eq!(all(kept), [sent(libc::SIGUSR1, 1)]);
    }

    #[test]
    fn a_program_that_is_executed_has_what_was_blocked_and_stops() {
        let [stop, user, alarm] = [sent(libc::SIGSTOP, 1), sent(libc::SIGUSR1, 1), sent(libc::SIGALRM, 1)];
        let kept = stash(&[stop, user, alarm, timer(40, 7, 0), timer(41, 8, 0)]);
        let blocked = bit(Signal(14)) | bit(Signal(40));
        assert_eq!(all(kept.clone().over_exec(blocked)), [stop, alarm]);
        assert_eq!(all(kept.over_exec(0)), [stop]);
    }

    #[test]
    fn only_timers_are_held_up_and_none_that_an_instruction_may_raise() {
        let kept = stash(&[timer(libc::SIGALRM, 1, 0), timer(libc::SIGSEGV, 2, 0), sent(libc::SIGUSR1, 1)]);
        assert_eq!(kept.timers(), bit(Signal(14)));
        assert!(kept.has_sent() && !stash(&[timer(40, 1, 0)]).has_sent());
    }

    #[test]
    fn what_was_kept_before_comes_back_in_place_of_what_is_there() {
        let before = stash(&[sent(libc::SIGUSR1, 1)]);
        let mut now = stash(&[sent(libc::SIGUSR2, 2)]);
        now.put_first(sent(libc::SIGHUP, 3));
        assert_eq!(now.first(), Some(&sent(libc::SIGHUP, 3)));
        let meanwhile: Vec<SigInfo> = now.replace(&before).collect();
        assert_eq!(meanwhile, [sent(libc::SIGHUP, 3), sent(libc::SIGUSR2, 2)]);
        assert!(now.contains(&sent(libc::SIGUSR1, 1)) && !now.contains(&sent(libc::SIGUSR2, 2)));
    }
}
