//! What the kernel knows of a process beside its memory and registers, as far as a checkpoint has it: what
//! its signals do, its timers; and of a task: the stack of its handlers, what it does at the task's end.

use std::collections::BTreeMap;

use bis_trace::types::{Addr, Tid};
use bis_tracee::{Memory, Stopped, proc, remote::Remote, shadow::Shadow, siginfo::SigInfo, sys};

use super::held::{Kept, Kernel};
use crate::{
    crew::{Crew, with_slot},
    error::Result,
    events::Recorder,
    process::Process,
    space::Room,
};

/// The kernel's `struct sigaction` and `struct itimerval`, in bytes.
const ACTION_LEN: usize = 32;
const TIMER_LEN: usize = 32;

/// ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
const TIMERS: [u64; 3] = [0, 1, 2];

impl Kernel {
    /// Of a process, in the name of one of its tasks.
    pub(super) fn of(
        slot: &mut Option<Stopped>,
        memory: &Memory,
        buffer: Addr,
        has_timers: bool,
    ) -> Result<Kernel> {
        let pending = slot.as_ref().map_or_else(|| Ok(Vec::new()), Stopped::shared_pending)?;
        let pending = pending.into_iter().map(SigInfo).collect();
        let mut timers = [const { None }; 3];
        let mut made_timers = BTreeMap::new();
        if !has_timers {
            return Ok(Kernel { timers, made_timers, pending, buffer });
        }
        let mut remote = Remote::new(slot)?;
        for (timer, which) in timers.iter_mut().zip(TIMERS) {
            remote.call(libc::SYS_getitimer, [which, buffer.0, 0, 0, 0, 0])?;
            let value = memory.read_vec(buffer, TIMER_LEN)?;
            *timer = value.iter().any(|byte| *byte != 0).then(|| as_it_goes_on(value));
        }
        for id in proc::made_timers(remote.tid()) {
            if remote.call(libc::SYS_timer_gettime, [id, buffer.0, 0, 0, 0, 0])? == 0 {
                made_timers.insert(id, memory.read_vec(buffer, TIMER_LEN)?);
            }
        }
        remote.finish()?;
        Ok(Kernel { timers, made_timers, pending, buffer })
    }

    pub(super) fn has_timers(&self) -> bool {
        self.timers.iter().any(Option::is_some) || !self.made_timers.is_empty()
    }
}

/// An interval timer that can be set again. Between its signal and the moment in which somebody takes that,
/// the kernel says of one with an interval that nothing is left: it would not run.
fn as_it_goes_on(mut value: Vec<u8>) -> Vec<u8> {
    const LEFT: usize = TIMER_LEN / 2;
    if let Some(left) = value.get_mut(LEFT..).filter(|left| left.iter().all(|byte| *byte == 0)) {
        // A microsecond.
        left[LEFT / 2] = 1;
    }
    value
}

/// Those of the signals that waited then and do not wait now. Of most, one at a time may.
fn lost(then: &[SigInfo], now: &[SigInfo]) -> Vec<SigInfo> {
    const FIRST_QUEUED: u8 = 32;
    let is_there = |info: &SigInfo| match info.signal() {
        signal if signal.0 < FIRST_QUEUED => now.iter().any(|other| other.signal() == signal),
        _ => now.contains(info),
    };
    then.iter().filter(|info| !is_there(info)).copied().collect()
}

/// The signals that do something else than by default, a bit each.
fn changed_signals(tid: Tid) -> u64 {
    let fields = proc::Fields::of(tid);
    let mask = |name| fields.as_ref().and_then(|fields| fields.number(name, 16)).unwrap_or(0);
    mask("SigCgt") | mask("SigIgn")
}

impl Recorder<'_> {
    /// Signals do again what they did, and timers run on from where they were.
    pub(super) fn restore_kernel(&mut self, tid: Tid, shadow: &mut Shadow, kernel: &Kernel) -> Result<()> {
        let buffer = kernel.buffer;
        let changed = changed_signals(tid) | changed_signals(shadow.pid());
        for signal in (1..=64u64).filter(|signal| changed & 1 << (signal - 1) != 0) {
            shadow.call(libc::SYS_rt_sigaction, [signal, 0, buffer.0, 8, 0, 0])?;
            let action = shadow.memory()?.read_vec(buffer, ACTION_LEN)?;
            self.memory.write(buffer, &action)?;
            self.call_for(tid, libc::SYS_rt_sigaction, [signal, buffer.0, 0, 8, 0, 0])?;
        }
        self.asked = None;
        let pid = self.task(tid)?.pid;
        if !kernel.has_timers() && self.checkpoints.timeless.contains(&pid) {
            return Ok(());
        }
        self.checkpoints.note_timer();
        for (timer, which) in kernel.timers.iter().zip(TIMERS) {
            self.call_for(tid, libc::SYS_getitimer, [which, buffer.0, 0, 0, 0, 0])?;
            let runs = self.memory.read_vec(buffer, TIMER_LEN)?.iter().any(|byte| *byte != 0);
            if runs || timer.is_some() {
                let value = timer.clone().unwrap_or_else(|| vec![0; TIMER_LEN]);
                self.memory.write(buffer, &value)?;
                self.call_for(tid, libc::SYS_setitimer, [which, buffer.0, 0, 0, 0, 0])?;
            }
        }
        for id in proc::made_timers(tid) {
            match kernel.made_timers.get(&id) {
                Some(value) => {
                    self.memory.write(buffer, value)?;
                    self.call_for(tid, libc::SYS_timer_settime, [id, 0, buffer.0, 0, 0, 0])?;
                }
                None => drop(self.call_for(tid, libc::SYS_timer_delete, [id, 0, 0, 0, 0, 0])?),
            }
        }
        Ok(())
    }
}

impl Process {
    /// Scratch memory of the task. None: there is no room.
    pub(super) fn buffer(&mut self, tid: Tid) -> Result<Option<u64>> {
        const LEN: u64 = 128;
        loop {
            match self.space.scratch_mut().block(tid, LEN) {
                Room::At(base) => return Ok(Some(base.0)),
                Room::Map(base, len) => with_slot(self, tid, |process, slot| {
                    process.space.scratch_mut().map(slot, tid, base, len)
                })?,
                Room::None => return Ok(None),
            }
        }
    }
}

impl Crew {
    /// Signals that waited in the kernel, and were taken since, wait again. (A task may send itself any
    /// signal with all that it says, and the first one the process.)
    pub(super) fn restore_pending(&mut self, kernel: &Kernel, tasks: &BTreeMap<Tid, Kept>) -> Result<()> {
        let buffer = kernel.buffer;
        for (tid, kept) in tasks {
            let now = self.stopped(*tid)?.own_pending()?.into_iter().map(SigInfo).collect::<Vec<_>>();
            let pid = self.task(*tid)?.pid;
            let (own, process) = (self.session.own_name(*tid), self.session.own_name(pid));
            let [own_id, process_id] = [own, process].map(|tid| u64::from(tid.0.cast_unsigned()));
            for info in lost(&kept.pending, &now) {
                self.memory.write(buffer, &info.0)?;
                let args = [process_id, own_id, info.signal().0.into(), buffer.0, 0, 0];
                self.call_for(*tid, libc::SYS_rt_tgsigqueueinfo, args)?;
            }
            if pid != *tid {
                continue;
            }
            let now = self.stopped(*tid)?.shared_pending()?.into_iter().map(SigInfo).collect::<Vec<_>>();
            for info in lost(&kernel.pending, &now) {
                self.memory.write(buffer, &info.0)?;
                let args = [process_id, info.signal().0.into(), buffer.0, 0, 0, 0];
                self.call_for(*tid, libc::SYS_rt_sigqueueinfo, args)?;
            }
        }
        Ok(())
    }

    /// A task that stands where it stood has its stack for handlers, and names for its end what it named.
    pub(super) fn restore_named(&mut self, tid: Tid, kept: &Kept, buffer: Addr) -> Result<()> {
        const ROBUST_LIST_LEN: u64 = 24;
        if let Some(stack) = &kept.alt_stack
            && self.task(tid)?.named.alt_stack() != Some(stack)
        {
            self.task(tid)?.named.forget_alt_stack();
            self.memory.write(buffer, stack)?;
            // Refused where it stands on it: then it has it.
            self.call_for(tid, libc::SYS_sigaltstack, [buffer.0, 0, 0, 0, 0, 0])?;
        }
        if sys::robust_list(tid).is_ok_and(|head| head != kept.robust_list.0) {
            self.call_for(tid, libc::SYS_set_robust_list, [kept.robust_list.0, ROBUST_LIST_LEN, 0, 0, 0, 0])?;
        }
        let named = &mut self.task(tid)?.named;
        named.set_robust_list(kept.robust_list);
        if named.clear_tid() != kept.clear_tid {
            named.set_clear_tid(kept.clear_tid);
            self.call_for(tid, libc::SYS_set_tid_address, [kept.clear_tid.0, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}
