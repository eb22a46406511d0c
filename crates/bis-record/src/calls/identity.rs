//! Calls that would undo what the recorder depends on, or tell the program of it: they get the answer that
//! they would get without bis.

use bis_syscalls::Call;
use bis_trace::{
    event::{MemWrite, Outcome},
    types::{Addr, Registers, Tid},
};
use bis_tracee::{
    modes::{ARCH_GET_CPUID, ARCH_SET_CPUID},
    ours::process_id,
    proc, sys,
};

use super::args::{CLONE_VM, CloneArgs, int};
use crate::{
    affinities,
    calls::{Entry, Exit},
    crew::Crew,
    error::Result,
    process::Process,
    task::{Deed, process_of},
};

/// The child would be invisible to its tracer.
const CLONE_UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// The personality that only asks.
const QUERY: u32 = u32::MAX;
const NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE as u32;
const READ_IMPLIES_EXEC: u32 = libc::READ_IMPLIES_EXEC as u32;

/// Was bis started without address space randomisation?
fn is_started_fixed() -> bool {
    proc::personality(process_id()) & NO_RANDOMIZE != 0
}

fn failed(errno: i32) -> Entry {
    Entry::Done(-i64::from(errno))
}

impl Process {
    pub(super) fn enter_clone(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        if call.args[0] & CLONE_UNTRACED != 0 {
            let is_narrow = self.call(tid)?.entry.own_narrow().is_some();
            let mut regs = self.stopped(tid)?.regs()?;
            // Where a call of either table has its first argument.
            let flags = if is_narrow { &mut regs.rbx } else { &mut regs.rdi };
            *flags &= !CLONE_UNTRACED;
            self.stopped(tid)?.set_regs(&regs)?;
        }
        Ok(if call.args[0] & CLONE_VM != 0 { Entry::Make } else { self.enter_copy(tid) })
    }

    pub(super) fn enter_clone3(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let flags = CloneArgs::of(call, &self.memory).flags;
        if flags & CLONE_UNTRACED != 0 {
            return Ok(failed(libc::EINVAL));
        }
        Ok(if flags & CLONE_VM != 0 { Entry::Make } else { self.enter_copy(tid) })
    }

    /// At the entry of a call that copies the process: it fails as for want of memory where the copy could
    /// not get what is ours in it.
    pub(super) fn enter_copy(&self, tid: Tid) -> Entry {
        if self.may_be_copied(tid) { Entry::Make } else { failed(libc::ENOMEM) }
    }

    pub(super) fn enter_prctl(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        match call.i32(0) {
            // Our traps stay, and become faults where the program wants them to.
            libc::PR_SET_TSC => {
                let no_tsc = call.i32(1) == libc::PR_TSC_SIGSEGV;
                if !no_tsc && call.i32(1) != libc::PR_TSC_ENABLE {
                    return Ok(failed(libc::EINVAL));
                }
                self.task(tid)?.traits.wishes.no_tsc = no_tsc;
                if no_tsc {
                    let mut restored = Outcome::default();
                    self.forbid_clock(&mut restored)?;
                    self.call(tid)?.found.add(restored);
                }
                Ok(Entry::Done(0))
            }
            libc::PR_GET_TSC => {
                let no_tsc = self.task(tid)?.traits.wishes.no_tsc;
                let mode = if no_tsc { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
                let data = mode.to_le_bytes().to_vec();
                if self.memory.write(Addr(call.args[1]), &data).is_err() {
                    return Ok(failed(libc::EFAULT));
                }
                self.call(tid)?.found.add_write(MemWrite { addr: Addr(call.args[1]), data });
                Ok(Entry::Done(0))
            }
            // It would close /proc/PID/mem to us.
            libc::PR_SET_DUMPABLE => {
                if call.args[1] > 1 {
                    return Ok(failed(libc::EINVAL));
                }
                self.space.set_dumpable(call.args[1] == 1);
                Ok(Entry::Done(0))
            }
            // As the kernel says it, where it is not ours (2: a set-user-id program).
            libc::PR_GET_DUMPABLE if !self.space.is_dumpable() => Ok(Entry::Done(0)),
            // It says how large a structure is, to everybody.
            libc::PR_SET_MM if call.i32(1) == libc::PR_SET_MM_MAP_SIZE => Ok(Entry::Make),
            libc::PR_SET_MM => Ok(failed(libc::EPERM)),
            _ => Ok(self.enter_prctl_seccomp(tid, call)?.unwrap_or(Entry::Make)),
        }
    }

    pub(super) fn enter_arch_prctl(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        /// Permission for AMX state, which cpuid hides.
        const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
        /// How many states the kernel knows (XFEATURE_MAX).
        const XFEATURES: u64 = 20;
        /// Shadow stacks: 0x5001 to 0x5005.
        const ARCH_SHSTK: std::ops::RangeInclusive<u64> = 0x5001..=0x5005;
        Ok(match call.args[0] {
            ARCH_GET_CPUID => Entry::Done(i64::from(!self.task(tid)?.traits.wishes.no_cpuid)),
            ARCH_SET_CPUID if !sys::has_cpuid_faulting() => failed(libc::ENODEV),
            ARCH_SET_CPUID => {
                self.task(tid)?.traits.wishes.no_cpuid = call.args[1] == 0;
                if call.args[1] == 0 {
                    let mut restored = Outcome::default();
                    self.unpatch_cpuid(&mut restored)?;
                    self.call(tid)?.found.add(restored);
                }
                Entry::Done(0)
            }
            ARCH_REQ_XCOMP_PERM if call.args[1] < XFEATURES => failed(libc::EOPNOTSUPP),
            ARCH_REQ_XCOMP_PERM => failed(libc::EINVAL),
            op if ARCH_SHSTK.contains(&op) => failed(libc::EINVAL),
            _ => Entry::Make,
        })
    }

    /// Programs that are exec'd stay without address space randomisation, whatever personality the task
    /// takes. Where it has that (many containers refuse to turn it off), the call is the program's.
    pub(super) fn enter_personality(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        if call.u32(0) != QUERY {
            if call.u32(0) & READ_IMPLIES_EXEC != 0 {
                self.close_clock("memory becomes executable that nobody asked for");
            }
            if proc::personality(tid) & NO_RANDOMIZE != 0 {
                let regs = self.stopped(tid)?.regs()?;
                self.stopped(tid)?
                    .set_regs(&Registers { rdi: regs.rdi | u64::from(NO_RANDOMIZE), ..regs })?;
            }
        }
        Ok(Entry::Make)
    }

    pub(super) fn learn_unshare(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let flags = int(it.args()[0]);
        if it.result != 0 {
            return Ok(());
        }
        if flags & libc::CLONE_NEWPID != 0 {
            self.session.expect_namespaces();
        }
        if flags & libc::CLONE_FILES != 0 && self.tasks.len() > 1 {
            self.task(it.tid)?.own_fds = true;
            self.set_fds_differ(true);
        }
        Ok(())
    }
}

impl Crew {
    /// The result is the personality before, with the bit as the program has set it.
    pub(super) fn leave_personality(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (call, outcome) = (&*it.call, &mut *it.outcome);
        let asked = call.entry.regs().rdi;
        outcome.regs.rdi = asked;
        if it.result < 0 {
            return Ok(());
        }
        let wishes = &mut self.task(it.tid)?.traits.wishes;
        if !wishes.no_randomize.unwrap_or_else(is_started_fixed) {
            outcome.regs.rax = it.result.cast_unsigned() & !u64::from(NO_RANDOMIZE);
        }
        if asked & u64::from(QUERY) != u64::from(QUERY) {
            wishes.no_randomize = Some(asked & u64::from(NO_RANDOMIZE) != 0);
            wishes.reads_execute = asked & u64::from(READ_IMPLIES_EXEC) != 0;
        }
        Ok(())
    }

    /// The task is pinned beside its supervisor, and so are all others of the recording; what the program
    /// asks for is remembered for when anybody asks back. Of a task outside, the kernel knows.
    pub(super) fn enter_setaffinity(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let target = if call.i32(0) == 0 { tid } else { self.session.outside(tid, Tid(call.i32(0))) };
        let original = self.session.cores.original.clone();
        let len = usize::try_from(call.u32(1)).unwrap_or(0).min(original.len());
        let Ok(mut mask) = self.memory.read_vec(Addr(call.args[2]), len) else {
            return Ok(failed(libc::EFAULT));
        };
        if target != tid && !self.is_pinned_by_us(target) {
            return Ok(Entry::Make);
        }
        mask.resize(original.len(), 0);
        mask.iter_mut().zip(&original).for_each(|(wanted, allowed)| *wanted &= allowed);
        if target != tid {
            // Whether the task may ask for another one's cores, the kernel says where it is asked for none.
            let regs = self.stopped(tid)?.regs()?;
            self.stopped(tid)?.set_regs(&Registers { rsi: 0, rdx: 0, ..regs })?;
            self.call(tid)?.deed = Deed::Cores(target, mask);
            return Ok(Entry::Make);
        }
        if mask.iter().all(|byte| *byte == 0) {
            return Ok(failed(libc::EINVAL));
        }
        self.session.affinities.set(target, mask);
        Ok(Entry::Done(0))
    }

    /// sched_setaffinity has returned. Asked for no cores, the kernel refuses: with EINVAL, if there is such
    /// a task and its cores may be set.
    pub(super) fn leave_setaffinity(&mut self, it: &mut Exit<'_>) {
        let Some((target, mask)) = it.call.deed.cores() else { return };
        let Registers { rsi, rdx, .. } = it.call.entry.regs();
        it.outcome.regs = Registers { rsi, rdx, ..it.outcome.regs };
        if it.result == -i64::from(libc::EINVAL) && mask.iter().any(|byte| *byte != 0) {
            self.session.affinities.set(target, mask.to_vec());
            let domain = process_of(target).and_then(|pid| self.session.mail.target(pid, || false));
            domain.into_iter().for_each(|domain| self.session.watch.trace(domain, libc::SYS_getcpu));
            it.outcome.regs.rax = 0;
        }
    }

    /// Is this a task of the recording, or of bis itself? What is asked of that is not done.
    fn is_pinned_by_us(&self, tid: Tid) -> bool {
        let is_ours = |pid| pid == process_id() || self.session.is_recorded(pid);
        self.tasks.contains_key(&tid) || process_of(tid).is_some_and(is_ours)
    }

    /// getcpu: a task that is to run on certain cores runs on one of these as far as it can know.
    pub(super) fn leave_getcpu(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let addr = Addr(it.args()[0]);
        let Ok(core) = self.memory.read_u32(addr) else { return Ok(()) };
        match self.told_core(it.tid, core) {
            told if told != core => self.put(addr, told.to_le_bytes().into(), it.outcome),
            _ => Ok(()),
        }
    }

    /// The core that a task which runs on `core` is told: `rdpid` and `lsl` say the same.
    pub(crate) fn told_core(&self, tid: Tid, core: u32) -> u32 {
        let Some(mask) = self.session.affinities.of(tid) else { return core };
        affinities::told(&mask, core)
    }

    /// The cores that the program knows a task of the recording to run on, a bit each.
    pub(super) fn own_cores(&self, tid: Tid) -> Vec<u8> {
        self.session.affinities.of(tid).unwrap_or_else(|| self.session.cores.original.clone())
    }

    pub(super) fn leave_getaffinity(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let [number, _, addr, ..] = it.args();
        let target = if int(number) == 0 { it.tid } else { self.session.outside(it.tid, Tid(int(number))) };
        if !self.is_pinned_by_us(target) {
            return Ok(());
        }
        let mut mask = self.own_cores(target);
        mask.resize(usize::try_from(it.result).unwrap_or(0), 0);
        self.put(Addr(addr), mask, it.outcome)
    }

    /// getppid tells the parent that the program would have without bis.
    pub(super) fn show_parent(&mut self, it: &mut Exit<'_>) -> Result<()> {
        if let Ok(parent) = i32::try_from(it.result) {
            let pid = self.task(it.tid)?.pid;
            let shown = self.session.parent_shown(pid, Tid(parent));
            it.outcome.regs.rax = u64::try_from(shown.0).unwrap_or(0);
        }
        Ok(())
    }

    /// setpriority: the scheduler goes by it.
    pub(super) fn learn_priority(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let [which, number, nice, ..] = it.args().map(int);
        if it.result != 0 || which != libc::PRIO_PROCESS.cast_signed() {
            return Ok(());
        }
        let target = if number == 0 { it.tid } else { self.session.outside(it.tid, Tid(number)) };
        if let Some(task) = self.tasks.get_mut(&target) {
            task.traits.nice = nice.clamp(-20, 19);
        }
        Ok(())
    }
}
