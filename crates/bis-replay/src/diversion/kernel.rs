//! What stands in for the kernel in a diversion. Memory is had from the kernel, in the copy; the time and who
//! the machine is, too. The recording says who the process is. Output is heard by the user. Whatever would
//! need another thread, or leave the copy, ends the diversion or does not exist.

use std::collections::{BTreeMap, BTreeSet};

use bis_trace::types::{Addr, NARROW_TABLE, Registers, StandardStream, Tid};
use bis_tracee::{TraceeError, remote::Remote, siginfo::SigInfo};

use super::Heard;
use crate::{
    allowed::{is_harmless, is_own},
    error::Halt,
    replica::Replica,
};

/// The most that is taken out of memory for one call that writes.
const OUTPUT_MAX: u64 = 1 << 20;
/// The most pieces of such a call.
const PIECES_MAX: u64 = 1024;

/// futex(2): what is asked, without the flags.
const FUTEX_COMMAND: u64 = libc::FUTEX_CMD_MASK.cast_unsigned() as u64;
const FUTEX_WAIT: u64 = libc::FUTEX_WAIT as u64;
const FUTEX_WAKE: u64 = libc::FUTEX_WAKE as u64;
const FUTEX_REQUEUE: u64 = libc::FUTEX_REQUEUE as u64;
const FUTEX_CMP_REQUEUE: u64 = libc::FUTEX_CMP_REQUEUE as u64;
const FUTEX_LOCK_PI: u64 = libc::FUTEX_LOCK_PI as u64;
const FUTEX_WAIT_BITSET: u64 = libc::FUTEX_WAIT_BITSET as u64;
const FUTEX_WAKE_BITSET: u64 = libc::FUTEX_WAKE_BITSET as u64;
const FUTEX_LOCK_PI2: u64 = libc::FUTEX_LOCK_PI2 as u64;

/// What becomes of a system call.
pub(super) enum Answer {
    Result(i64),
    /// It raises this signal.
    Signal(SigInfo),
    /// It ends the diversion: what the program does, for people.
    Over(String),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Kernel {
    pid: Tid,
    ppid: Tid,
    /// The end of the program's data segment, if it is known.
    brk: Option<Addr>,
    masks: BTreeMap<Tid, u64>,
    /// Calls of which the user has been told that there are none.
    told: BTreeSet<u64>,
}

fn error(errno: i32) -> Answer {
    Answer::Result(-i64::from(errno))
}

fn number(value: Tid) -> Answer {
    Answer::Result(value.0.into())
}

impl Kernel {
    pub(super) fn new(replica: &Replica<'_>) -> Kernel {
        Kernel {
            pid: replica.entry.pid,
            ppid: replica.entry.ppid,
            brk: replica.brk(),
            masks: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// What becomes of the call at whose entry the task stands.
    pub(super) fn answer(
        &mut self,
        replica: &mut Replica<'_>,
        tid: Tid,
        regs: &Registers,
        hear: &mut dyn FnMut(Heard),
    ) -> Result<Answer, Halt> {
        let (nr, args) = made(regs);
        Ok(match i64::try_from(nr).unwrap_or(-1) {
            libc::SYS_brk => Answer::Result(self.brk(replica, tid, Addr(args[0]))?.0.cast_signed()),
            libc::SYS_mmap if is_anonymous(args) => in_copy(replica, tid, nr, args)?,
            libc::SYS_munmap | libc::SYS_mprotect if is_own(Addr(args[0]), args[1]) => {
                in_copy(replica, tid, nr, args)?
            }
            libc::SYS_madvise if is_own(Addr(args[0]), args[1]) && is_harmless(args[2]) => {
                in_copy(replica, tid, nr, args)?
            }
            libc::SYS_mremap if is_own(Addr(args[0]), args[1]) && is_own(Addr(args[4]), args[2]) => {
                in_copy(replica, tid, nr, args)?
            }
            libc::SYS_clock_gettime
            | libc::SYS_clock_getres
            | libc::SYS_gettimeofday
            | libc::SYS_time
            | libc::SYS_times
            | libc::SYS_getrusage
            | libc::SYS_getrandom
            | libc::SYS_uname
            | libc::SYS_sysinfo
            | libc::SYS_getcpu
            | libc::SYS_getuid
            | libc::SYS_geteuid
            | libc::SYS_getgid
            | libc::SYS_getegid => in_copy(replica, tid, nr, args)?,
            libc::SYS_getpid => number(self.pid),
            libc::SYS_getppid => number(self.ppid),
            libc::SYS_gettid => number(tid),
            libc::SYS_sched_yield
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_rt_sigaction
            | libc::SYS_membarrier => Answer::Result(0),
            libc::SYS_rt_sigprocmask => self.mask(replica, tid, args),
            libc::SYS_write | libc::SYS_writev => match StandardStream::of(args[0]) {
                Some(stream) => output(replica, nr, (stream, Addr(args[1]), args[2]), hear),
                None => self.refuse(nr, hear),
            },
            libc::SYS_fstat if matches!(args[0], 0..=2) => terminal(replica, Addr(args[1])),
            libc::SYS_newfstatat if matches!(args[0], 0..=2) && is_empty(replica, Addr(args[1])) => {
                terminal(replica, Addr(args[2]))
            }
            libc::SYS_ioctl if matches!(args[0], 1 | 2) && args[1] == libc::TCGETS => {
                put(replica, Addr(args[2]), &[0; KERNEL_TERMIOS])
            }
            libc::SYS_futex => futex(replica, args),
            libc::SYS_kill => self.kill(tid, (args[0], args[0]), args[1]),
            libc::SYS_tkill => self.kill(tid, (self.pid.0.cast_unsigned().into(), args[0]), args[1]),
            libc::SYS_tgkill => self.kill(tid, (args[0], args[1]), args[2]),
            libc::SYS_exit | libc::SYS_exit_group => {
                Answer::Over(format!("wants to end the process ({})", name(nr)))
            }
            libc::SYS_rt_sigreturn => Answer::Over("returns from a signal's handler".into()),
            _ => self.refuse(nr, hear),
        })
    }

    fn refuse(&mut self, nr: u64, hear: &mut dyn FnMut(Heard)) -> Answer {
        if self.told.insert(nr) {
            hear(Heard::Refused(nr));
        }
        error(libc::ENOSYS)
    }

    /// The data segment is to end there. Where it ends then.
    fn brk(&mut self, replica: &mut Replica<'_>, tid: Tid, wanted: Addr) -> Result<Addr, Halt> {
        // A function that asks for memory in this way has others if there is none.
        let Some(now) = self.brk else { return Ok(Addr::NULL) };
        let up = |addr: Addr| addr.checked_page_ceil();
        let (Some(from), Some(to)) = (up(now), up(wanted)) else { return Ok(now) };
        let is_grown = wanted > now && is_own(from, to - from);
        let is_cut = wanted < now && !wanted.is_null() && {
            let last = now.saturating_sub(1);
            let maps = replica.maps()?;
            let segment = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&last));
            segment.is_some_and(|mapping| mapping.name.is_empty() && mapping.start <= wanted)
        };
        let done = if is_grown && to > from {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let args = [from.0, to - from, unsigned(prot), unsigned(flags), u64::MAX, 0];
            make(replica, tid, libc::SYS_mmap, args)? == from.0.cast_signed()
        } else if is_cut && to < from {
            make(replica, tid, libc::SYS_munmap, [to.0, from - to, 0, 0, 0, 0])? == 0
        } else {
            is_grown || is_cut
        };
        if done {
            self.brk = Some(wanted);
        }
        Ok(self.brk.unwrap_or(now))
    }

    /// rt_sigprocmask: no signal is delivered in a diversion, so all that matters is what it says.
    fn mask(&mut self, replica: &Replica<'_>, tid: Tid, [how, set, old, ..]: [u64; 6]) -> Answer {
        const BLOCK: u64 = libc::SIG_BLOCK as u64;
        const UNBLOCK: u64 = libc::SIG_UNBLOCK as u64;
        let mask = self.masks.entry(tid).or_default();
        let before = *mask;
        if set != 0 {
            let Ok(set) = replica.space.memory.read_u64(Addr(set)) else { return error(libc::EFAULT) };
            *mask = match how {
                BLOCK => before | set,
                UNBLOCK => before & !set,
                _ => set,
            };
        }
        if old == 0 { Answer::Result(0) } else { put(replica, Addr(old), &before.to_le_bytes()) }
    }

    /// A signal is sent.
    fn kill(&self, tid: Tid, (pid, task): (u64, u64), signal: u64) -> Answer {
        let is = |number: u64, of: Tid| number == u64::from(of.0.cast_unsigned());
        if !is(pid, self.pid) || !is(task, self.pid) && !is(task, tid) {
            return error(libc::EPERM);
        }
        let Ok(signal @ 0..=64) = u8::try_from(signal) else { return error(libc::EINVAL) };
        if signal == 0 {
            return Answer::Result(0);
        }
        let mut info = [0; 128];
        info[0] = signal;
        info[8..12].copy_from_slice(&libc::SI_TKILL.to_le_bytes());
        info[16..20].copy_from_slice(&self.pid.0.to_le_bytes());
        Answer::Signal(SigInfo(info))
    }
}

/// `struct termios` of the kernel, bytes.
const KERNEL_TERMIOS: usize = 36;

fn unsigned(value: i32) -> u64 {
    value.cast_unsigned().into()
}

/// The call that is made with these registers, by the 64-bit table. Of a 32-bit program's, those are known
/// that have the same arguments there; others have a number that no table has.
fn made(regs: &Registers) -> (u64, [u64; 6]) {
    if !regs.is_narrow() {
        return (regs.orig_rax, regs.args());
    }
    let nr = NARROW_TABLE | regs.orig_rax;
    if nr == MMAP2 {
        let [addr, len, prot, flags, ..] = regs.args_of(nr);
        let fixed = unsigned(libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
        // Of files, there is nothing. And the program has no addresses above.
        let low = if flags & fixed == 0 { unsigned(libc::MAP_32BIT) } else { 0 };
        return (libc::SYS_mmap.cast_unsigned(), [addr, len, prot, flags | low, u64::MAX, 0]);
    }
    (bis_syscalls::narrow::same_as(nr).unwrap_or(nr), regs.args_of(nr))
}

fn name(nr: u64) -> &'static str {
    bis_syscalls::name(nr).unwrap_or("a system call")
}

/// `mmap2` of 32-bit programs, whose offset is in pages.
const MMAP2: u64 = NARROW_TABLE | 192;

/// Does mmap want memory, not a file, and where it may?
fn is_anonymous([addr, len, _, flags, ..]: [u64; 6]) -> bool {
    const KNOWN: i32 = libc::MAP_PRIVATE
        | libc::MAP_SHARED
        | libc::MAP_ANONYMOUS
        | libc::MAP_FIXED
        | libc::MAP_FIXED_NOREPLACE
        | libc::MAP_NORESERVE
        | libc::MAP_32BIT
        | libc::MAP_STACK
        | libc::MAP_POPULATE;
    let fixed = unsigned(libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
    flags & !unsigned(KNOWN) == 0
        && flags & unsigned(libc::MAP_ANONYMOUS) != 0
        && (flags & fixed == 0 || is_own(Addr(addr), len))
}

/// Makes a call in the copy.
fn make(replica: &mut Replica<'_>, tid: Tid, nr: i64, args: [u64; 6]) -> Result<i64, Halt> {
    replica.rest()?;
    let task = replica.tasks.get_mut(&tid).ok_or(TraceeError::Died(tid))?;
    let mut remote = Remote::new(&mut task.stopped)?;
    let result = remote.call(nr, args)?;
    remote.finish()?;
    Ok(result)
}

fn in_copy(replica: &mut Replica<'_>, tid: Tid, nr: u64, args: [u64; 6]) -> Result<Answer, Halt> {
    Ok(Answer::Result(make(replica, tid, nr.cast_signed(), args)?))
}

/// Puts an answer into the program's memory.
fn put(replica: &Replica<'_>, addr: Addr, bytes: &[u8]) -> Answer {
    match replica.space.put_own(addr, bytes) {
        Ok(()) => Answer::Result(0),
        Err(_) => error(libc::EFAULT),
    }
}

fn is_empty(replica: &Replica<'_>, addr: Addr) -> bool {
    replica.space.memory.read_upto(addr, 1) == [0]
}

/// Standard output is a terminal, as far as a diversion goes: so a library that has not used it yet will
/// write whole lines.
fn terminal(replica: &Replica<'_>, addr: Addr) -> Answer {
    const MODE_AT: usize = 24;
    const LEN: usize = 144;
    let mut stat = [0; LEN];
    stat[MODE_AT..MODE_AT + 4].copy_from_slice(&(libc::S_IFCHR | 0o620).to_le_bytes());
    put(replica, addr, &stat)
}

/// write and writev.
fn output(
    replica: &Replica<'_>,
    nr: u64,
    (stream, addr, len): (StandardStream, Addr, u64),
    hear: &mut dyn FnMut(Heard),
) -> Answer {
    let read = |addr: Addr, len: u64| {
        let len = usize::try_from(len.min(OUTPUT_MAX)).unwrap_or(0);
        replica.read_program(addr, len)
    };
    let bytes = if nr == libc::SYS_write.cast_unsigned() {
        read(addr, len)
    } else {
        let words = replica.read_program(addr, usize::try_from(len.min(PIECES_MAX) * 16).unwrap_or(0));
        let word = |at: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| at[i]));
        words.chunks_exact(16).flat_map(|piece| read(Addr(word(&piece[..8])), word(&piece[8..]))).collect()
    };
    if bytes.is_empty() && len > 0 {
        return error(libc::EFAULT);
    }
    let count = i64::try_from(bytes.len()).unwrap_or(0);
    hear(Heard::Output(stream, bytes));
    Answer::Result(count)
}

fn futex(replica: &Replica<'_>, [addr, op, value, timeout, ..]: [u64; 6]) -> Answer {
    let is_now = |value: u64| {
        let word = replica.space.memory.read_u32(Addr(addr));
        word.ok().map(|word| u64::from(word) == value & 0xffff_ffff)
    };
    match op & FUTEX_COMMAND {
        FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => Answer::Result(0),
        FUTEX_WAIT | FUTEX_WAIT_BITSET => match is_now(value) {
            None => error(libc::EFAULT),
            Some(false) => error(libc::EAGAIN),
            Some(true) if timeout != 0 => error(libc::ETIMEDOUT),
            Some(true) => Answer::Over(format!(
                "waits at {addr:#x} for what another thread would have to do (a lock that it holds, say), and those stand still"
            )),
        },
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
            Answer::Over(format!("waits for a lock at {addr:#x}, which another thread holds"))
        }
        _ => error(libc::ENOSYS),
    }
}
