//! What the kernel knows of a process beside its memory and registers, as far as a checkpoint has it: what
//! its signals do, the stack of its handlers, its timers.

use std::{collections::BTreeMap, fs};

use bis_trace::types::Tid;
use bis_tracee::{Memory, Stopped, proc, remote::Remote, shadow::Shadow};

use super::held::Kernel;
use crate::{domain::Domain, error::Result, space::Room};

/// The kernel's `struct sigaction`, `stack_t` and `struct itimerval`, in bytes.
const ACTION_LEN: usize = 32;
const ALT_STACK_LEN: usize = 24;
const TIMER_LEN: usize = 32;

/// ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
const TIMERS: [u64; 3] = [0, 1, 2];

impl Kernel {
    /// Of a process, in the name of one of its tasks.
    pub(super) fn of(slot: &mut Option<Stopped>, memory: &Memory, buffer: u64) -> Result<Kernel> {
        let mut remote = Remote::new(slot)?;
        let mut timers = [const { None }; 3];
        for (timer, which) in timers.iter_mut().zip(TIMERS) {
            remote.call(libc::SYS_getitimer, [which, buffer, 0, 0, 0, 0])?;
            let value = memory.read_vec(buffer, TIMER_LEN)?;
            *timer = value.iter().any(|byte| *byte != 0).then_some(value);
        }
        let mut made_timers = BTreeMap::new();
        for id in made_timers_of(remote.tid()) {
            if remote.call(libc::SYS_timer_gettime, [id, buffer, 0, 0, 0, 0])? == 0 {
                made_timers.insert(id, memory.read_vec(buffer, TIMER_LEN)?);
            }
        }
        remote.finish()?;
        Ok(Kernel { timers, made_timers, buffer })
    }
}

/// The timers that timer_create has made for a process.
fn made_timers_of(tid: Tid) -> Vec<u64> {
    let list = fs::read_to_string(proc::path(tid, "timers")).unwrap_or_default();
    list.lines().filter_map(|line| line.strip_prefix("ID:")?.trim().parse().ok()).collect()
}

/// The signals that do something else than by default, a bit each.
fn changed_signals(tid: Tid) -> u64 {
    let fields = proc::Fields::of(tid);
    let mask = |name| fields.as_ref().and_then(|fields| fields.number(name, 16)).unwrap_or(0);
    mask("SigCgt") | mask("SigIgn")
}

impl Domain {
    /// Scratch memory of the task. None: there is no room.
    pub(super) fn buffer(&mut self, tid: Tid) -> Result<Option<u64>> {
        const LEN: u64 = 64;
        loop {
            match self.space.scratch_mut().block(tid, LEN) {
                Room::At(base) => return Ok(Some(base)),
                Room::Map(base, len) => {
                    self.with_slot(tid, |domain, slot| domain.space.scratch_mut().map(slot, tid, base, len))?
                }
                Room::None => return Ok(None),
            }
        }
    }

    /// Signals do again what they did, handlers have their stack, and timers run on from where they were.
    pub(super) fn restore_kernel(
        &mut self,
        tid: Tid,
        maker: Tid,
        shadow: &mut Shadow,
        kernel: &Kernel,
    ) -> Result<()> {
        let buffer = kernel.buffer;
        let changed = changed_signals(tid) | changed_signals(shadow.pid());
        for signal in (1..=64u64).filter(|signal| changed & 1 << (signal - 1) != 0) {
            shadow.call(libc::SYS_rt_sigaction, [signal, 0, buffer, 8, 0, 0])?;
            let action = shadow.memory().read_vec(buffer, ACTION_LEN)?;
            self.memory.write(buffer, &action)?;
            self.call_for(tid, libc::SYS_rt_sigaction, [signal, buffer, 0, 8, 0, 0])?;
        }
        self.asked = None;
        if tid == maker {
            shadow.call(libc::SYS_sigaltstack, [0, buffer, 0, 0, 0, 0])?;
            let stack = shadow.memory().read_vec(buffer, ALT_STACK_LEN)?;
            self.memory.write(buffer, &stack)?;
            // Refused where it stands on it: then it has it.
            self.call_for(tid, libc::SYS_sigaltstack, [buffer, 0, 0, 0, 0, 0])?;
        }
        for (timer, which) in kernel.timers.iter().zip(TIMERS) {
            self.call_for(tid, libc::SYS_getitimer, [which, buffer, 0, 0, 0, 0])?;
            let runs = self.memory.read_vec(buffer, TIMER_LEN)?.iter().any(|byte| *byte != 0);
            if runs || timer.is_some() {
                let value = timer.clone().unwrap_or_else(|| vec![0; TIMER_LEN]);
                self.memory.write(buffer, &value)?;
                self.call_for(tid, libc::SYS_setitimer, [which, buffer, 0, 0, 0, 0])?;
            }
        }
        for id in made_timers_of(tid) {
            match kernel.made_timers.get(&id) {
                Some(value) => {
                    self.memory.write(buffer, value)?;
                    self.call_for(tid, libc::SYS_timer_settime, [id, 0, buffer, 0, 0, 0])?;
                }
                None => drop(self.call_for(tid, libc::SYS_timer_delete, [id, 0, 0, 0, 0, 0])?),
            }
        }
        Ok(())
    }
}
