//! What the kernel knows of a process beside its memory and registers, as far as a checkpoint has it: what its
//! signals do, the stack of its handlers, its timers.

use bis_agent::{AGENT_BASE, AGENT_LEN};
use bis_trace::types::Tid;
use bis_tracee::{Memory, Stopped, proc, remote::Remote, shadow::Shadow};

use crate::{domain::Domain, error::Result};

/// Where calls made in a task's name have their arguments and results: in the agent's page, behind its text.
const BUFFER: u64 = AGENT_BASE + AGENT_LEN - 0x100;

/// The kernel's `struct sigaction`, `stack_t` and `struct itimerval`, in bytes.
const ACTION_LEN: usize = 32;
const ALT_STACK_LEN: usize = 24;
const TIMER_LEN: usize = 32;

/// ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
const TIMERS: [u64; 3] = [0, 1, 2];

#[derive(Debug)]
pub(super) struct Kernel {
    /// What is left of each interval timer, and its interval; none: it does not run.
    timers: [Option<Vec<u8>>; 3],
}

impl Kernel {
    /// Of a process, in the name of one of its tasks.
    pub(super) fn of(slot: &mut Option<Stopped>, _pid: Tid, memory: &Memory) -> Result<Kernel> {
        let mut remote = Remote::new(slot)?;
        let mut timers = [const { None }; 3];
        for (timer, which) in timers.iter_mut().zip(TIMERS) {
            remote.call(libc::SYS_getitimer, [which, BUFFER, 0, 0, 0, 0])?;
            let value = memory.read_vec(BUFFER, TIMER_LEN)?;
            *timer = value.iter().any(|byte| *byte != 0).then_some(value);
        }
        remote.finish()?;
        Ok(Kernel { timers })
    }
}

/// The signals that do something else than by default, a bit each.
fn changed_signals(tid: Tid) -> u64 {
    let fields = proc::Fields::of(tid);
    let mask = |name| fields.as_ref().and_then(|fields| fields.number(name, 16)).unwrap_or(0);
    mask("SigCgt") | mask("SigIgn")
}

impl Domain {
    /// Signals do again what they did, handlers have their stack, and timers run on from where they were.
    pub(super) fn restore_kernel(&mut self, tid: Tid, shadow: &mut Shadow, kernel: &Kernel) -> Result<()> {
        let changed = changed_signals(tid) | changed_signals(shadow.pid());
        for signal in (1..=64u64).filter(|signal| changed & 1 << (signal - 1) != 0) {
            shadow.call(libc::SYS_rt_sigaction, [signal, 0, BUFFER, 8, 0, 0])?;
            let action = shadow.memory().read_vec(BUFFER, ACTION_LEN)?;
            self.memory.write(BUFFER, &action)?;
            self.call_for(tid, libc::SYS_rt_sigaction, [signal, BUFFER, 0, 8, 0, 0])?;
        }
        self.asked = None;
        shadow.call(libc::SYS_sigaltstack, [0, BUFFER, 0, 0, 0, 0])?;
        let stack = shadow.memory().read_vec(BUFFER, ALT_STACK_LEN)?;
        self.memory.write(BUFFER, &stack)?;
        // Refused where it stands on it: then it has it.
        self.call_for(tid, libc::SYS_sigaltstack, [BUFFER, 0, 0, 0, 0, 0])?;
        for (timer, which) in kernel.timers.iter().zip(TIMERS) {
            self.call_for(tid, libc::SYS_getitimer, [which, BUFFER, 0, 0, 0, 0])?;
            let runs = self.memory.read_vec(BUFFER, TIMER_LEN)?.iter().any(|byte| *byte != 0);
            if runs || timer.is_some() {
                let value = timer.clone().unwrap_or_else(|| vec![0; TIMER_LEN]);
                self.memory.write(BUFFER, &value)?;
                self.call_for(tid, libc::SYS_setitimer, [which, BUFFER, 0, 0, 0, 0])?;
            }
        }
        Ok(())
    }
}
