//! getrlimit, setrlimit and prlimit64 of the address space: the program sets and sees a limit of its own,
//! and the kernel's has room for what is ours beside it (`bis_tracee::address_limit`). Where it is set, the
//! kernel makes the call with its own values; whether it may be set, and what else is wrong, it says itself.
//!
//! A process that is limited from outside of the recording while it runs has the kernel's limit like
//! everybody, and is told what it had before.

use bis_agent::ARGUMENT_AT;
use bis_syscalls::{Call, row};
use bis_trace::types::{Addr, Registers, Tid};
use bis_tracee::{
    address_limit::{self, Limit},
    maps,
    remote::Remote,
};

use super::args::int;
use crate::{
    calls::{Entry, Exit},
    crew::{Crew, with_slot},
    error::Result,
    process::Process,
    space::without,
    task::{Deed, process_of},
};

/// Whom such a call concerns (0: the caller's process), and where it has the new limit and the old one.
struct Asked {
    number: Tid,
    new: Addr,
    old: Addr,
}

impl Asked {
    /// None: it is about something else.
    fn of(nr: u64, args: [u64; 6]) -> Option<Asked> {
        let limit = row(nr)?.limit?;
        let arg = |index: Option<u8>| index.map_or(0, |index| args[usize::from(index)]);
        let asked = Asked {
            number: Tid(int(arg(limit.process))),
            new: Addr(arg(limit.new)),
            old: Addr(arg(limit.old)),
        };
        (int(arg(Some(limit.resource))) == libc::RLIMIT_AS.cast_signed()).then_some(asked)
    }
}

/// What the kernel's limit becomes where the program sets `new`, in place of `own`, which the kernel has as
/// `now`, beside so many bytes of ours. None: the kernel refuses it by itself.
fn for_kernel(new: Limit, own: Limit, now: Limit, ours: u64) -> Option<Limit> {
    if new.soft > new.hard {
        return None;
    }
    let hard = new.with_headroom().hard;
    // A hard limit that is raised needs privileges, and one that is not is not to.
    Some(new.and(ours, if new.hard > own.hard { hard } else { hard.min(now.hard) }))
}

impl Process {
    /// How many bytes of a process's address space are ours.
    fn mapped_of_ours(&self, tid: Tid, pid: Tid) -> Result<u64> {
        let Some((_, ours)) = self.ours_of(tid, pid) else { return Ok(0) };
        let of = |mapping: &maps::Mapping| {
            let own: u64 =
                without(mapping.start..mapping.end, &ours).iter().map(|part| part.end - part.start).sum();
            mapping.len() - own
        };
        Ok(maps::read(pid)?.iter().map(of).sum())
    }

    /// At the entry of one that may set a limit.
    pub(super) fn enter_limit(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let Some(asked) = Asked::of(call.nr, call.args).filter(|asked| !asked.new.is_null()) else {
            return Ok(Entry::Make);
        };
        let Some(pid) = self.limited(tid, asked.number) else { return Ok(Entry::Make) };
        let bytes = self.memory.read_upto(asked.new, Limit::LEN);
        let (Some(new), Some(now)) = (Limit::from_bytes(&bytes), Limit::of(pid)) else {
            return Ok(Entry::Make);
        };
        let own = self.session.limits.own(pid).unwrap_or(now);
        let ours = if new.is_there() { self.mapped_of_ours(tid, pid)? } else { 0 };
        let Some(limit) = for_kernel(new, own, now, ours) else { return Ok(Entry::Make) };
        self.memory.write(Addr(ARGUMENT_AT), &limit.to_bytes())?;
        let regs = self.stopped(tid)?.regs()?;
        let mut args = regs.args();
        if let Some(new) = row(call.nr).and_then(|row| row.limit?.new) {
            args[usize::from(new)] = ARGUMENT_AT;
        }
        let [_, rsi, rdx, ..] = args;
        let regs = Registers { rsi, rdx, ..regs };
        self.stopped(tid)?.set_regs(&regs)?;
        self.call(tid)?.deed = Deed::Limit(pid, new);
        Ok(Entry::Make)
    }

    /// The kernel's limit for the task's process is what it should be, whatever was mapped meanwhile.
    pub fn renew_limit(&mut self, tid: Tid) -> Result<()> {
        let pid = self.task(tid)?.pid;
        let (Some(own), Some(now)) = (self.session.limits.own(pid), Limit::of(pid)) else { return Ok(()) };
        let limit = own.and(self.mapped_of_ours(tid, pid)?, now.hard);
        if limit == now || limit.set(pid) {
            return Ok(());
        }
        with_slot(self, tid, |_, slot| {
            let mut remote = Remote::new(slot)?;
            address_limit::set_by(&mut remote, limit)?;
            Ok(remote.finish()?)
        })
    }

    /// Can a copy of the task's process get the hooks' area that is to be its own? Not if the process is
    /// above a hard limit that we cannot raise.
    pub(super) fn may_be_copied(&self, tid: Tid) -> bool {
        self.hooks.is_none() || address_limit::can_be_lifted(tid)
    }
}

impl Crew {
    /// The process of the recording that a task means.
    fn limited(&self, tid: Tid, number: Tid) -> Option<Tid> {
        let target = if number == Tid(0) { tid } else { self.session.outside(tid, number) };
        if let Some(task) = self.tasks.get(&target) {
            return Some(task.pid);
        }
        process_of(target).filter(|pid| self.session.mail.is_member(*pid))
    }

    /// It has succeeded.
    pub(super) fn leave_limit(&mut self, it: &mut Exit<'_>) -> Result<()> {
        if let Some(asked) = Asked::of(it.call.entry.nr(), it.args()).filter(|asked| !asked.old.is_null())
            && let Some(pid) = self.limited(it.tid, asked.number)
            && let Some(own) = self.session.limits.own(pid)
        {
            self.put(asked.old, own.to_bytes(), it.outcome)?;
        }
        if let Some((pid, limit)) = it.call.deed.limit() {
            self.session.limits.set(pid, limit);
        }
        self.fail_limit(it)
    }

    /// It has returned, whatever it has done: the task has its own arguments again.
    pub(super) fn fail_limit(&mut self, it: &mut Exit<'_>) -> Result<()> {
        if it.call.deed.limit().is_some() {
            let Registers { rsi, rdx, .. } = it.call.entry.regs();
            it.outcome.regs = Registers { rsi, rdx, ..it.outcome.regs };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limit(soft: u64, hard: u64) -> Limit {
        Limit { soft: soft * MIB, hard: hard * MIB }
    }

    #[test]
    fn calls_are_asked_about_the_address_space_alone() {
        let of = |nr: i64, args: [u64; 4]| {
            let [a, b, c, d] = args;
            let asked = Asked::of(nr.cast_unsigned(), [a, b, c, d, 0, 0])?;
            Some((asked.number.0, asked.new.0, asked.old.0))
        };
        let address_space = libc::RLIMIT_AS.into();
        assert_eq!(of(libc::SYS_getrlimit, [address_space, 7, 8, 9]), Some((0, 0, 7)));
        assert_eq!(of(libc::SYS_setrlimit, [address_space, 7, 8, 9]), Some((0, 7, 0)));
        assert_eq!(of(libc::SYS_prlimit64, [5, address_space, 7, 8]), Some((5, 7, 8)));
        assert_eq!(of(libc::SYS_prlimit64, [address_space, libc::RLIMIT_DATA.into(), 7, 8]), None);
        assert_eq!(of(libc::SYS_setrlimit, [libc::RLIMIT_STACK.into(), 7, 8, 9]), None);
        assert_eq!(of(libc::SYS_read, [address_space, 7, 8, 9]), None);
    }

    #[test]
    fn the_kernel_decides_who_may_raise_a_hard_limit() {
        let (own, now) = (limit(10, 20), limit(14, 20).with_headroom());
        let set = |new: Limit| for_kernel(new, own, now, 3 * MIB).unwrap();
        assert_eq!(set(limit(5, 20)), Limit { soft: 8 * MIB, ..now });
        // It is raised, whatever room there is.
        assert!(set(limit(5, 21)).hard > now.hard);
        assert!(set(limit(5, 19)).hard < now.hard);
        assert_eq!(for_kernel(limit(6, 5), own, now, 0), None);
    }

    #[test]
    fn a_hard_limit_of_bis_itself_is_not_raised_where_the_programs_is_not() {
        let now = limit(20, 20);
        assert_eq!(for_kernel(limit(5, 10), now, now, 3 * MIB), Some(limit(8, 20)));
        assert_eq!(for_kernel(limit(19, 20), now, now, 3 * MIB), Some(limit(20, 20)));
        // The next time, too.
        let own = limit(5, 10);
        assert_eq!(for_kernel(limit(4, 10), own, limit(8, 20), 3 * MIB), Some(limit(7, 20)));
    }
}
