//! The ends of children before their supervisors have heard of them.
//!
//! The kernel tells a parent of the end of a traced child when the tracer, the supervisor of the child, has
//! waited for it. That is a moment after a pidfd has become readable, and /proc says `Z`. A program that has
//! seen one of these asks by a wait that does not wait (WNOHANG), and expects to find the child.
//!
//! So at the entry of such a wait it is looked whether a child of the caller's process has ended unheard, and
//! the supervisors are given the time to hear of it. Whatever the program knew before its call has ended by
//! then. To look after the call would not be cheaper: it would have to be made twice. A hook makes such a
//! wait first, and leaves it to be traced where it has found nobody (`general.c`).
//!
//! That a child ends without a tracer (detached in its last stop) was tried in place of this. A child that is
//! killed may go through that stop before its supervisor has heard of it.

use bis_syscalls::Call;
use bis_trace::types::{Fd, Tid};
use bis_tracee::{
    proc::{self, Stat},
    sys, task, unheard,
};

use crate::{domain::Domain, error::Result, session::Session, task::Task};

/// Whose end a wait that does not wait asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sought {
    /// That of the child with this number, in the caller's eyes.
    Child(Tid),
    /// That of one of several children, or of one that a descriptor stands for.
    Any,
}

impl Sought {
    /// None: the call waits, or asks for no end. `waits`: whether to wait for whom a descriptor stands for
    /// waits, if the call does not say.
    fn of(call: &Call, waits: impl Fn(Fd) -> bool) -> Option<Sought> {
        let has = |flags: u32, flag: i32| flags & flag.cast_unsigned() != 0;
        let of_number = |number: i32| if number > 0 { Sought::Child(Tid(number)) } else { Sought::Any };
        match call.nr.cast_signed() {
            libc::SYS_wait4 => has(call.u32(2), libc::WNOHANG).then(|| of_number(call.i32(0))),
            libc::SYS_waitid => {
                let (kind, flags) = (call.u32(0), call.u32(3));
                let sought = if kind == libc::P_PID { of_number(call.i32(1)) } else { Sought::Any };
                let is_prompt =
                    || has(flags, libc::WNOHANG) || kind == libc::P_PIDFD && !waits(Fd::of_arg(call.args[1]));
                (has(flags, libc::WEXITED) && is_prompt()).then_some(sought)
            }
            _ => None,
        }
    }
}

impl Session {
    /// A child of the process that has ended, of which its supervisor has not heard.
    fn unheard_child(&self, pid: Tid, sought: Sought) -> Option<Tid> {
        let is_child = |child: Tid| {
            sys::ended_unheard(Some(child)).is_some()
                && Stat::of(child).is_ok_and(|stat| stat.parent() == Some(pid))
        };
        match sought {
            Sought::Child(child) => Some(child).filter(|child| is_child(*child)),
            // Nearly always, there is nobody at all.
            Sought::Any => {
                sys::ended_unheard(None)?;
                self.find_process(is_child)
            }
        }
    }
}

impl Domain {
    /// At the entry of a wait: if it does not wait, the ends of children that it asks for are heard of first.
    pub fn hear_of_ends(&mut self, tid: Tid, call: &Call) -> Result<()> {
        let waits = |fd| proc::open_flags(tid, fd).is_none_or(|flags| flags & libc::O_NONBLOCK == 0);
        let sought = match Sought::of(call, waits) {
            None => return Ok(()),
            Some(Sought::Child(number)) => Sought::Child(self.session.outside(tid, number)),
            Some(Sought::Any) => Sought::Any,
        };
        // The child's supervisor may be waiting for the stream that one of ours is writing to.
        let writes = |task: &Task| task.call.as_ref().is_some_and(|call| call.lock.held().is_some());
        if self.tasks.values().any(writes) {
            return Ok(());
        }
        let pid = self.task(tid)?.pid;
        let mut has_waited = false;
        while let Some(child) = self.session.unheard_child(pid, sought) {
            tracing::debug!(%tid, %child, "a wait comes before its child's end is heard of");
            if sys::has_report(child) {
                // We are its supervisor.
                let status = task::wait_for(child)?;
                self.recorder().note(child, status);
                continue;
            }
            if self.holds_tokens() {
                // Its supervisor may be waiting for one of them.
                self.write_entry(tid)?;
                self.release_tokens()?;
            }
            has_waited = true;
            if !unheard::wait_until_heard(child) {
                tracing::warn!(%tid, %child, "a child's end was not heard of in time");
                break;
            }
        }
        if has_waited { self.ensure_tokens() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(nr: i64, args: [i64; 6]) -> Option<Sought> {
        // The descriptor 8 has O_NONBLOCK.
        Sought::of(&Call { nr: nr.cast_unsigned(), args: args.map(i64::cast_unsigned) }, |fd| fd != Fd(8))
    }

    #[test]
    fn a_wait_that_does_not_wait_seeks_the_end_of_one_or_of_several() {
        let wait4 = |whom: i64, flags: i32| sought(libc::SYS_wait4, [whom, 0x1000, flags.into(), 0, 0, 0]);
        assert_eq!(wait4(7, libc::WNOHANG), Some(Sought::Child(Tid(7))));
        for several in [-1, 0, -7] {
            assert_eq!(wait4(several, libc::WNOHANG | libc::WUNTRACED), Some(Sought::Any));
        }
        assert_eq!(wait4(7, 0), None, "it waits");
        assert_eq!(sought(libc::SYS_pause, [0; 6]), None);
    }

    #[test]
    fn a_waitid_seeks_an_end_only_where_it_asks_for_ends() {
        let waitid_of = |kind: libc::idtype_t, whom: i64, flags: i32| {
            sought(libc::SYS_waitid, [kind.into(), whom, 0x1000, flags.into(), 0, 0])
        };
        let waitid = |kind, flags| waitid_of(kind, 7, flags);
        let prompt = libc::WEXITED | libc::WNOHANG;
        assert_eq!(waitid(libc::P_PID, prompt), Some(Sought::Child(Tid(7))));
        assert_eq!(waitid(libc::P_PID, libc::WEXITED), None, "it waits");
        assert_eq!(waitid(libc::P_PID, libc::WSTOPPED | libc::WNOHANG), None);
        for kind in [libc::P_ALL, libc::P_PGID, libc::P_PIDFD] {
            assert_eq!(waitid(kind, prompt), Some(Sought::Any));
        }
        assert_eq!(waitid(libc::P_PIDFD, libc::WEXITED), None, "it waits");
        assert_eq!(waitid_of(libc::P_PIDFD, 8, libc::WEXITED), Some(Sought::Any), "O_NONBLOCK");
    }
}
