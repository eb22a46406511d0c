//! The program's own seccomp: what it installs is kept here and never reaches the kernel, and each of its
//! calls is judged before it is made (`bis_syscalls::sandbox` says why, and what filters mean).
//!
//! - Filters belong to a task, go to its children and stay over exec: they are among its wishes.
//! - Calls of which a filter says, whatever their arguments, that they are made, stay with the hooks; all
//!   others are traced: the hooks are told which they are before a task goes on ([`Process::show_sandbox`]).
//!   What the vdso answers is no call.
//! - A call that fails is an event like that of any call that is not made. One that raises SIGSYS for a
//!   handler is one that leaves the registers as they were, and the signal right after it. A task that is to
//!   end gets a real filter that says so, and makes its call: the kernel ends it as it would have without us.
//!
//! - A call of the 32-bit table is judged as the program makes it, before one of the 64-bit table takes its
//!   place.
//!
//! Not done: a listener (SECCOMP_RET_USER_NOTIF), which is refused; the second look that the kernel takes at
//! a call that it restarts by itself (as restart_syscall).

pub mod held;

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::OnceLock,
};

use bis_agent::{AGENT_BASE, AGENT_LEN, TEXT};
use bis_syscalls::{
    Call, Handler, Vdso, row,
    sandbox::{Filter, INSNS_MAX, Insn, Question, Table, Verdict, is_action_available},
};
use bis_trace::{
    event::{MemWrite, Outcome, SignalPoint},
    types::{Addr, Registers, Signal, Tid},
};
use bis_tracee::{
    Resume, maps,
    proc::Fields,
    remote::Remote,
    siginfo::{Disposition, SigInfo, disposition},
    sys,
};
use held::Held;

use super::shown::OwnSeccomp;
use crate::{
    calls::Entry,
    crew::{Crew, with_slot},
    domain::Domain,
    error::Result,
    events::Recorder,
    process::Process,
    task::{InCall, Onward},
    traced::Asked,
};

const SIGSYS: Signal = Signal(31);
const MODE_STRICT: u32 = libc::SECCOMP_MODE_STRICT;
const MODE_FILTER: u32 = libc::SECCOMP_MODE_FILTER;

/// Operations of seccomp(2).
const SET_MODE_STRICT: u32 = libc::SECCOMP_SET_MODE_STRICT;
const SET_MODE_FILTER: u32 = libc::SECCOMP_SET_MODE_FILTER;
const GET_ACTION_AVAIL: u32 = libc::SECCOMP_GET_ACTION_AVAIL;
const GET_NOTIF_SIZES: u32 = libc::SECCOMP_GET_NOTIF_SIZES;

/// Flags of SET_MODE_FILTER.
mod flag {
    pub const TSYNC: u64 = libc::SECCOMP_FILTER_FLAG_TSYNC;
    pub const LOG: u64 = libc::SECCOMP_FILTER_FLAG_LOG;
    pub const SPEC_ALLOW: u64 = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    pub const NEW_LISTENER: u64 = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    pub const TSYNC_ESRCH: u64 = libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
}

/// Of `struct seccomp_notif`, `seccomp_notif_resp` and `seccomp_data`.
const NOTIF_SIZES: [u16; 3] = [80, 24, 64];

/// Clocks that the vdso knows: all but those of processes and threads (2, 3), and the alarm clocks.
const CLOCKS_OF_VDSO: [u64; 8] = [0, 1, 4, 5, 6, 7, 10, 11];

/// Can bis itself, and so everything that it starts, have no new privileges?
fn own_no_new_privs() -> bool {
    static OWN: OnceLock<bool> = OnceLock::new();
    *OWN.get_or_init(|| {
        Fields::of_this_thread().is_some_and(|status| status.number("NoNewPrivs", 10) == Some(1))
    })
}

/// Has the task CAP_SYS_ADMIN?
fn is_admin(tid: Tid) -> bool {
    const CAP_SYS_ADMIN: u32 = linux_raw_sys::general::CAP_SYS_ADMIN;
    let effective = Fields::of(tid).and_then(|status| status.number("CapEff", 16));
    effective.is_some_and(|caps| caps >> CAP_SYS_ADMIN & 1 != 0)
}

fn failed(errno: i32) -> Entry {
    Entry::Done(-i64::from(errno))
}

/// What the kernel says of a call that a filter has caught.
fn siginfo((table, nr): (Table, u64), ip: Addr, data: i32) -> SigInfo {
    const CODE: i32 = linux_raw_sys::general::SYS_SECCOMP.cast_signed();
    let mut info = [0; 128];
    let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &i32::from(SIGSYS.0).to_le_bytes());
    put(4, &data.to_le_bytes());
    put(8, &CODE.to_le_bytes());
    put(16, &ip.0.to_le_bytes());
    put(24, &nr.to_le_bytes()[..4]);
    put(28, &table.arch().to_le_bytes());
    SigInfo(info)
}

impl Domain {
    // --- what becomes of its calls

    /// At the entry of a call that is new: asks the task's filters. Gives the call back if it is to be made;
    /// else how the task goes on.
    pub fn judge(&mut self, tid: Tid, state: InCall) -> Result<ControlFlow<Onward, InCall>> {
        if !self.task(tid)?.traits.wishes.held.sandbox.is_there() || self.is_of_vdso(tid, &state)? {
            return Ok(Continue(state));
        }
        let (table, (_, entry)) = (state.entry.table(), state.entry.told());
        let ip = self.space.original_rip(entry.ip());
        let nr = u32::try_from(entry.orig_rax & u64::from(u32::MAX)).unwrap_or(0);
        let args = match table {
            Table::Wide => entry.args(),
            Table::Narrow => super::narrow::made(&entry).args.map(u64::from),
        };
        let question = Question { nr, ip: ip.0, args, table };
        let verdict = self.task(tid)?.traits.wishes.held.sandbox.judge(&question);
        if verdict != Verdict::Allow {
            tracing::debug!(domain = %self.id, %tid, nr, ?verdict, "a filter of the program's own");
        }
        match verdict {
            Verdict::Allow => return Ok(Continue(state)),
            Verdict::Errno(errno) => self.not_made(tid, state, -i64::from(errno))?,
            Verdict::Trace(data) => match self.tell_filtered(tid, data)? {
                Asked::Holds => {}
                Asked::Answered => return Ok(Continue(state)),
                Asked::Nobody => self.not_made(tid, state, -i64::from(libc::ENOSYS))?,
            },
            Verdict::Trap(data) => return self.trap_call(tid, state, ip, data).map(Break),
            Verdict::KillThread => return self.end_by_filter(tid, state, false).map(Break),
            Verdict::KillProcess => return self.end_by_filter(tid, state, true).map(Break),
            Verdict::Sigkill => {
                let pid = self.task(tid)?.pid;
                let is_last = self.tasks.values().filter(|task| task.pid == pid).count() == 1;
                if !is_last {
                    return self.end_by_filter(tid, state, false).map(Break);
                }
                self.recorder().stand_in(tid, state)?;
                // It does not go on from here: there is nothing to wait for but its end.
                sys::kill(tid, Signal::KILL)?;
                self.wait_for_report(tid)?;
            }
        }
        Ok(Break(Onward::Stays))
    }

    /// SIGSYS in place of the call.
    fn trap_call(&mut self, tid: Tid, state: InCall, ip: Addr, data: i32) -> Result<Onward> {
        let is_blocked = self.stopped(tid)?.sigmask()? >> (SIGSYS.0 - 1) & 1 != 0;
        if is_blocked || disposition(tid, SIGSYS) != Disposition::Handler {
            // It cannot be kept from coming.
            return self.end_by_filter(tid, state, true);
        }
        let (table, (_, entry)) = (state.entry.table(), state.entry.told());
        let nr = entry.orig_rax;
        self.not_made(tid, state, nr.cast_signed())?;
        let regs = Registers { rax: nr, orig_rax: u64::MAX, ..entry };
        self.task(tid)?.signals.stash.put_first(siginfo((table, nr), ip, data));
        self.deliver_stashed(tid, &regs, SignalPoint::AfterEvent).map(|_| Onward::Stays)
    }

    /// Ends the task, or its process, as the kernel does it: by a filter.
    fn end_by_filter(&mut self, tid: Tid, state: InCall, process: bool) -> Result<Onward> {
        /// In the agent's page, behind its text: `struct sock_fprog`, and the one instruction.
        const AT: u64 = AGENT_BASE + AGENT_LEN - 32;
        const _: () = assert!(AGENT_BASE + TEXT.len() as u64 <= AT);
        const RETURN: u16 = libc::BPF_RET as u16;
        let before = state.entry.before();
        self.recorder().stand_in(tid, state)?;
        let answer = Insn { code: RETURN, jt: 0, jf: 0, k: if process { 1 << 31 } else { 0 } };
        let program = [&1u64.to_le_bytes()[..], &(AT + 16).to_le_bytes(), &answer.to_bytes()].concat();
        self.memory.write(Addr(AT), &program)?;
        with_slot(self, tid, |_, slot| {
            let mut remote = Remote::new(slot)?;
            let args = [SET_MODE_FILTER.into(), 0, AT, 0, 0, 0];
            remote.must("end a task by a seccomp filter", libc::SYS_seccomp, args)?;
            Ok(remote.finish()?)
        })?;
        self.stopped(tid)?.set_regs(&before)?;
        Ok(Onward::GoesAlone(Resume::Cont))
    }
}

impl Recorder<'_> {
    /// Writes down that the task stands in a call out of which it does not come.
    fn stand_in(&mut self, tid: Tid, mut state: InCall) -> Result<()> {
        state.set_handler(Handler::Exit);
        let task = self.task(tid)?;
        task.call = Some(state);
        task.standing.describe();
        self.write_entry(tid)
    }
}

impl Process {
    // --- what the program asks for

    /// prctl, for the options that concern seccomp; none for all others.
    pub(super) fn enter_prctl_seccomp(&mut self, tid: Tid, call: &Call) -> Result<Option<Entry>> {
        Ok(match call.i32(0) {
            libc::PR_SET_SECCOMP => Some(match call.u32(1) {
                MODE_STRICT => self.be_strict(tid)?,
                MODE_FILTER => self.add_filter(tid, 0, Addr(call.args[2]))?,
                _ => failed(libc::EINVAL),
            }),
            libc::PR_GET_SECCOMP => {
                Some(Entry::Done(self.task(tid)?.traits.wishes.held.sandbox.mode().into()))
            }
            libc::PR_SET_NO_NEW_PRIVS => {
                // The kernel refuses anything else by itself.
                if call.args[1..5] == [1, 0, 0, 0] {
                    self.task(tid)?.traits.wishes.no_new_privs = true;
                }
                None
            }
            libc::PR_GET_NO_NEW_PRIVS if call.args[1..5] == [0; 4] => {
                Some(Entry::Done(self.has_no_new_privs(tid)?.into()))
            }
            _ => None,
        })
    }

    /// seccomp(operation, flags, args)
    pub(super) fn enter_seccomp(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let [_, flags, addr, ..] = call.args;
        let flags = flags & u64::from(u32::MAX);
        match call.u32(0) {
            SET_MODE_STRICT if flags == 0 && addr == 0 => self.be_strict(tid),
            SET_MODE_FILTER => self.add_filter(tid, flags, Addr(addr)),
            GET_ACTION_AVAIL if flags == 0 => Ok(match self.memory.read_u32(Addr(addr)) {
                Ok(answer) if is_action_available(answer) => Entry::Done(0),
                Ok(_) => failed(libc::EOPNOTSUPP),
                Err(_) => failed(libc::EFAULT),
            }),
            GET_NOTIF_SIZES if flags == 0 => {
                let data: Vec<u8> = NOTIF_SIZES.iter().flat_map(|size| size.to_le_bytes()).collect();
                if self.memory.write(Addr(addr), &data).is_err() {
                    return Ok(failed(libc::EFAULT));
                }
                self.call(tid)?.found.add_write(MemWrite { addr: Addr(addr), data });
                Ok(Entry::Done(0))
            }
            _ => Ok(failed(libc::EINVAL)),
        }
    }

    fn be_strict(&mut self, tid: Tid) -> Result<Entry> {
        let mut sandbox = self.task(tid)?.traits.wishes.held.sandbox.clone();
        if let Err(errno) = sandbox.be_strict() {
            return Ok(failed(errno));
        }
        self.task(tid)?.traits.wishes.held = Held::new(sandbox);
        // The kernel forbids it, too.
        self.task(tid)?.traits.wishes.no_tsc = true;
        let mut restored = Outcome::default();
        self.forbid_clock(&mut restored)?;
        self.call(tid)?.found.add(restored);
        Ok(Entry::Done(0))
    }

    /// Was the call made in the vdso, which without us would have made none?
    fn is_of_vdso(&self, tid: Tid, state: &InCall) -> Result<bool> {
        let could_be = match row(state.entry.nr()).and_then(|row| row.vdso) {
            None => false,
            Some(Vdso::Always) => true,
            Some(Vdso::OfClock) => CLOCKS_OF_VDSO.contains(&state.entry.args()[0]),
        };
        if !could_be {
            return Ok(false);
        }
        let ip = self.space.original_rip(state.entry.ip());
        // A browser asks for the time in each of its sandboxes all the while.
        if self.space.clock().is_of_vdso(ip) {
            return Ok(true);
        }
        let mappings = maps::read(tid)?;
        Ok(mappings.iter().any(|m| m.name == b"[vdso]" && (m.start..m.end).contains(&ip)))
    }
}

impl Crew {
    pub(super) fn has_no_new_privs(&self, tid: Tid) -> Result<bool> {
        Ok(self.task_ref(tid)?.traits.wishes.no_new_privs || own_no_new_privs())
    }

    /// As /proc is to show it, for a task of this domain.
    pub(super) fn own_seccomp(&self, tid: Tid) -> Option<OwnSeccomp> {
        let wishes = &self.tasks.get(&tid)?.traits.wishes;
        let no_new_privs = wishes.no_new_privs || own_no_new_privs();
        let sandbox = &wishes.held.sandbox;
        Some(OwnSeccomp { mode: sandbox.mode(), filters: sandbox.len(), no_new_privs })
    }

    /// The filter of a `struct sock_fprog`.
    fn read_filter(&mut self, tid: Tid, addr: Addr) -> Result<std::result::Result<Filter, i32>> {
        let (Ok(len), Ok(from)) = (self.memory.read_u32(addr), self.memory.read_u64(addr.wrapping_add(8)))
        else {
            return Ok(Err(libc::EFAULT));
        };
        let len = usize::from(u16::try_from(len & 0xffff).unwrap_or(0));
        if len == 0 || len > INSNS_MAX {
            return Ok(Err(libc::EINVAL));
        }
        if !self.has_no_new_privs(tid)? && !is_admin(tid) {
            return Ok(Err(libc::EACCES));
        }
        let Ok(bytes) = self.memory.read_vec(Addr(from), len * Insn::LEN) else {
            return Ok(Err(libc::EFAULT));
        };
        let insns = bytes.chunks_exact(Insn::LEN).filter_map(|bytes| bytes.try_into().ok());
        Ok(Filter::new(insns.map(Insn::from_bytes).collect()))
    }

    fn add_filter(&mut self, tid: Tid, flags: u64, addr: Addr) -> Result<Entry> {
        use flag::{LOG, NEW_LISTENER, SPEC_ALLOW, TSYNC, TSYNC_ESRCH};
        if flags & NEW_LISTENER != 0 {
            let seq = self.session.writer.next_seq();
            let text =
                "a seccomp filter with a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER) is refused (EINVAL)";
            self.session.note(seq, format!("{text} (task {tid})"))?;
        }
        if flags & !(TSYNC | LOG | SPEC_ALLOW | TSYNC_ESRCH) != 0 {
            return Ok(failed(libc::EINVAL));
        }
        let filter = match self.read_filter(tid, addr)? {
            Ok(filter) => filter,
            Err(errno) => return Ok(failed(errno)),
        };
        let task = self.task(tid)?;
        let (pid, older) = (task.pid, task.traits.wishes.held.sandbox.clone());
        let mut sandbox = older.clone();
        if let Err(errno) = sandbox.add(filter) {
            return Ok(failed(errno));
        }
        let held = Held::new(sandbox);
        if flags & TSYNC != 0 {
            let no_new_privs = self.task(tid)?.traits.wishes.no_new_privs;
            let mut others = self.tasks.values().filter(|other| other.pid == pid && other.tid != tid);
            if let Some(stranger) =
                others.find(|other| !other.traits.wishes.held.sandbox.is_ancestor_of(&older))
            {
                let name = i64::from(stranger.own_name.0);
                return Ok(if flags & TSYNC_ESRCH != 0 { failed(libc::ESRCH) } else { Entry::Done(name) });
            }
            for other in self.tasks.values_mut().filter(|other| other.pid == pid) {
                other.traits.wishes.held = held.clone();
                other.traits.wishes.no_new_privs |= no_new_privs;
            }
        }
        self.task(tid)?.traits.wishes.held = held;
        Ok(Entry::Done(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_call_is_told_as_the_kernel_tells_it() {
        let info = siginfo((Table::Wide, 63), Addr(0x1234_5678_9abc), 5);
        assert_eq!((info.signal(), info.code(), info.addr()), (SIGSYS, 1, Addr(0x1234_5678_9abc)));
        assert_eq!(info.value(), 0xc000_003e_0000_003f);
        assert!(!info.is_fault());
    }
}
