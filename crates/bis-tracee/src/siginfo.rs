//! Signals as the kernel describes them (`siginfo_t`), and what a process does with them.

use std::os::fd::RawFd;

use bis_trace::types::{Addr, Signal, Tid};

use crate::{memory::Memory, proc::Fields};

pub const SIGKILL: Signal = Signal(9);
pub const SIGSEGV: Signal = Signal(11);

/// A `siginfo_t`: 128 bytes as the kernel lays them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SigInfo(pub [u8; 128]);

/// The kernel keeps this much of one, bytes (`struct kernel_siginfo`); it need not read more of what a
/// program hands it.
const KEPT: usize = 48;

impl SigInfo {
    /// Of a signal that the kernel itself has sent, for no fault.
    pub fn of_kernel(signal: Signal) -> SigInfo {
        let mut info = [0; 128];
        info[..4].copy_from_slice(&i32::from(signal.0).to_le_bytes());
        info[8..12].copy_from_slice(&libc::SI_KERNEL.to_le_bytes());
        SigInfo(info)
    }

    /// As a program has it at `addr`, to send it. None: it is not there.
    pub fn read(memory: &Memory, addr: Addr) -> Option<SigInfo> {
        let mut info = SigInfo([0; 128]);
        memory.read(addr, &mut info.0[..KEPT]).ok().map(|()| info)
    }

    fn int(&self, at: usize) -> i32 {
        i32::from_le_bytes(std::array::from_fn(|i| self.0[at + i]))
    }

    pub fn signal(&self) -> Signal {
        Signal(u8::try_from(self.int(0)).unwrap_or(0))
    }

    /// si_code: positive when the kernel raised it.
    pub fn code(&self) -> i32 {
        self.int(8)
    }

    /// si_addr, for faults.
    pub fn addr(&self) -> Addr {
        Addr(u64::from_le_bytes(std::array::from_fn(|i| self.0[16 + i])))
    }

    /// This fault, at another address.
    #[must_use]
    pub fn at(&self, addr: Addr) -> SigInfo {
        let mut info = *self;
        info.0[16..24].copy_from_slice(&addr.0.to_le_bytes());
        info
    }

    /// This signal, sent by this process of this user.
    #[must_use]
    pub fn sent_by(&self, pid: Tid, user: u32) -> SigInfo {
        let mut info = *self;
        info.0[16..20].copy_from_slice(&pid.0.to_le_bytes());
        info.0[20..24].copy_from_slice(&user.to_le_bytes());
        info
    }

    /// Does it tell nothing but its number? (Or it comes from outside of a pid namespace, by root.)
    pub fn is_bare(&self) -> bool {
        [4, 8, 16, 20].iter().all(|at| self.int(*at) == 0)
    }

    /// This information, of another signal: a task that sends one may write anything there, and the kernel
    /// puts in the number.
    #[must_use]
    pub fn of_signal(&self, signal: Signal) -> SigInfo {
        let mut info = *self;
        info.0[..4].copy_from_slice(&i32::from(signal.0).to_le_bytes());
        info
    }

    /// Is it the same in all that the kernel keeps?
    pub fn is_same(&self, other: &SigInfo) -> bool {
        self.0[..KEPT] == other.0[..KEPT]
    }

    /// si_value, for signals that were queued.
    pub fn value(&self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.0[24 + i]))
    }

    /// si_fd, for signals of a descriptor of ours that has something to tell.
    pub fn descriptor(&self) -> RawFd {
        self.int(24)
    }

    /// si_pid, for signals that somebody sent.
    pub fn sender(&self) -> Tid {
        Tid(self.int(16))
    }

    /// Did a timer send it (timer_create, setitimer, alarm)?
    pub fn is_of_timer(&self) -> bool {
        [14, 26, 27].contains(&self.signal().0) && self.code() == libc::SI_KERNEL
            || self.code() == libc::SI_TIMER
    }

    /// si_timerid and si_sigval, for signals of a timer_create: the kernel queues only one of each.
    fn timer(&self) -> Option<(i32, u64)> {
        (self.code() == libc::SI_TIMER).then(|| (self.int(16), self.value()))
    }

    /// Would the kernel not queue the one while the other waits? So it is for two of a timer, and for two of
    /// a classic signal, but for one that was sent to the process and one that was sent to the thread: each
    /// of these has a queue of its own (signal(7)). That shows in how they were sent.
    pub fn is_queued_once_with(&self, other: &SigInfo) -> bool {
        let same = self.signal() == other.signal();
        same && match (self.timer(), other.timer()) {
            (None, None) => self.signal().0 < 32 && self.code() == other.code(),
            (one, other) => one == other,
        }
    }

    /// This signal, of a timer that has run out once more, and as often as `later` says besides, before its
    /// signal was delivered (si_overrun). Any other signal stays as it is.
    #[must_use]
    pub fn with_overruns_of(&self, later: &SigInfo) -> SigInfo {
        let mut info = *self;
        if self.timer().is_some() && self.timer() == later.timer() {
            let overruns = self.int(20).saturating_add(later.int(20)).saturating_add(1);
            info.0[20..24].copy_from_slice(&overruns.to_le_bytes());
        }
        info
    }

    /// Did the task's own instruction raise it? (Then it comes at the same place in replay.)
    pub fn is_fault(&self) -> bool {
        let sync = is_of_instructions(self.signal());
        // SI_KERNEL (0x80) counts: general protection faults and int3 have it.
        sync && self.code() > 0
    }

    /// Is it no signal at all, but what the kernel says of the stop of a task that is about to end?
    pub(crate) fn is_of_exit_stop(&self) -> bool {
        self.signal() == Signal::TRAP && self.code() == libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8
    }

    /// Was it a debug exception? The kernel tells by the code whether it was a breakpoint of a debug register
    /// (TRAP_HWBKPT) or something else, but not reliably: at times TRAP_BRKPT comes for such a one.
    pub fn is_debug_exception(&self) -> bool {
        self.signal() == Signal::TRAP && (libc::TRAP_BRKPT..=libc::TRAP_HWBKPT).contains(&self.code())
    }

    /// Was it sent to a process, and not to one of its threads? Of the kernel's own signals and of timers,
    /// which do not say so, this is what a terminal sends, and SIGCHLD.
    pub fn is_of_process(&self) -> bool {
        const OF_TERMINAL: [i32; 8] = [
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGHUP,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
            libc::SIGWINCH,
            libc::SIGCONT,
        ];
        match self.code() {
            libc::SI_USER => true,
            libc::SI_KERNEL => OF_TERMINAL.contains(&i32::from(self.signal().0)),
            code => self.signal() == Signal::CHLD && (libc::CLD_EXITED..=libc::CLD_CONTINUED).contains(&code),
        }
    }

    /// Was it an `int3`?
    pub fn is_breakpoint(&self) -> bool {
        self.signal() == Signal::TRAP && self.code() == 0x80
    }
}

/// What a process does with a signal, from the kernel's own account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    Handler,
    Ignore,
    /// Ends the process.
    Fatal,
    /// Stops the process.
    Stop,
}

/// Sets of signals as `/proc/TID/status` names them.
fn signal_sets<const N: usize>(tid: Tid, names: [&str; N]) -> [u64; N] {
    let status = Fields::of(tid);
    names.map(|name| status.as_ref().and_then(|status| status.number(name, 16)).unwrap_or(0))
}

/// Does any signal wait for this task that it does not block? Also one of which the kernel has kept nothing
/// but the number, because as many waited as may: of such `PTRACE_PEEKSIGINFO` does not tell. Reads
/// `/proc/TID/status`.
pub fn has_open(tid: Tid) -> bool {
    let [own, shared, blocked] = signal_sets(tid, ["SigPnd", "ShdPnd", "SigBlk"]);
    (own | shared) & !blocked != 0
}

/// Does this signal wait for the task or its process? Reads `/proc/TID/status`.
pub fn is_pending(tid: Tid, signal: Signal) -> bool {
    signal_sets(tid, ["SigPnd", "ShdPnd"]).iter().any(|set| set & bit(signal) != 0)
}

/// The signals that wait for this task alone, a bit each. Reads `/proc/TID/status`.
pub fn own_pending(tid: Tid) -> u64 {
    let [own] = signal_sets(tid, ["SigPnd"]);
    own
}

/// Those that wait for its process. Reads `/proc/TID/status`.
pub fn shared_pending(tid: Tid) -> u64 {
    let [shared] = signal_sets(tid, ["ShdPnd"]);
    shared
}

/// The signals that this task blocks, a bit each. Reads `/proc/TID/status`.
pub fn blocked(tid: Tid) -> u64 {
    let [blocked] = signal_sets(tid, ["SigBlk"]);
    blocked
}

/// Would the kernel give this task a signal that its process is sent? It lives, and does not block it. Reads
/// `/proc/TID/status`.
pub fn may_take(tid: Tid, signal: Signal) -> bool {
    let Some(status) = Fields::of(tid) else { return false };
    let lives = status.text("State").is_some_and(|state| !state.starts_with(['Z', 'X']));
    lives && status.number("SigBlk", 16).is_some_and(|blocked| blocked & bit(signal) == 0)
}

/// Reads `/proc/TID/status`: about 20 µs. SIGKILL and SIGSTOP included.
pub fn disposition(tid: Tid, signal: Signal) -> Disposition {
    let [caught, ignored] = signal_sets(tid, ["SigCgt", "SigIgn"]);
    let bit = 1u64 << (u32::from(signal.0).clamp(1, 64) - 1);
    if caught & bit != 0 {
        return Disposition::Handler;
    }
    if ignored & bit != 0 {
        return Disposition::Ignore;
    }
    match i32::from(signal.0) {
        libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => Disposition::Ignore,
        _ if is_stop(signal) => Disposition::Stop,
        _ => Disposition::Fatal,
    }
}

/// A signal's place in a set of them.
pub fn bit(signal: Signal) -> u64 {
    1 << (u32::from(signal.0).clamp(1, 64) - 1)
}

/// Can an instruction raise this signal?
pub fn is_of_instructions(signal: Signal) -> bool {
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV].contains(&signal.0.into())
}

/// Does this signal stop a process that does nothing about it, and SIGCONT take it back (signal(7))?
pub fn is_stop(signal: Signal) -> bool {
    [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signal, code, timer or sender, overruns, value.
    fn info(signal: i32, code: i32, id: i32, overruns: i32, value: i32) -> SigInfo {
        let mut info = SigInfo([0; 128]);
        for (at, word) in [(0, signal), (8, code), (16, id), (20, overruns), (24, value)] {
            info.0[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        info
    }

    #[test]
    fn the_kernel_queues_one_of_a_classic_signal_and_one_of_a_timer() {
        let once = |a: SigInfo, b: SigInfo| a.is_queued_once_with(&b);
        assert!(once(info(10, libc::SI_USER, 1, 0, 2), info(10, libc::SI_USER, 3, 0, 4)));
        assert!(!once(info(10, libc::SI_USER, 1, 0, 0), info(10, libc::SI_TKILL, 1, 0, 0)));
        assert!(!once(info(10, libc::SI_TIMER, 1, 0, 2), info(10, libc::SI_USER, 3, 0, 4)));
        assert!(!once(info(10, 0, 1, 0, 0), info(12, 0, 1, 0, 0)));
        assert!(!once(info(40, libc::SI_QUEUE, 1, 0, 2), info(40, libc::SI_QUEUE, 1, 0, 2)));
        assert!(once(info(40, libc::SI_TIMER, 1, 0, 2), info(40, libc::SI_TIMER, 1, 7, 2)));
        assert!(!once(info(40, libc::SI_TIMER, 1, 0, 2), info(40, libc::SI_TIMER, 2, 0, 2)));
        assert!(!once(info(40, libc::SI_TIMER, 1, 0, 2), info(40, libc::SI_QUEUE, 1, 0, 2)));
    }

    #[test]
    fn what_runs_out_while_its_signal_waits_is_an_overrun() {
        let waits = info(40, libc::SI_TIMER, 1, 3, 2);
        assert_eq!(
            waits.with_overruns_of(&info(40, libc::SI_TIMER, 1, 5, 2)),
            info(40, libc::SI_TIMER, 1, 9, 2)
        );
        let full = info(40, libc::SI_TIMER, 1, i32::MAX, 2);
        assert_eq!(full.with_overruns_of(&waits), full);
        let sent = info(10, 0, 1, 0, 0);
        assert_eq!(sent.with_overruns_of(&info(10, 0, 2, 0, 0)), sent);
    }
}
