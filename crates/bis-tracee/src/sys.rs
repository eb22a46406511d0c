//! The kernel's tracing interface as plain functions, and in the files below it what else of the kernel and
//! the processor is asked for by `unsafe` code. No policy: each function is one call.

mod files;
mod memory;
mod processor;

pub use files::*;
pub use memory::*;
pub use processor::*;

use std::{io, mem, ptr};

use bis_trace::types::{Addr, Registers, Signal, Tid};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit};

use crate::{
    error::{Result, TraceeError},
    siginfo::SigInfo,
};

const _: () = assert!(mem::size_of::<Registers>() == mem::size_of::<libc::user_regs_struct>());

/// The note type of the extended state in PTRACE_GETREGSET (`include/uapi/linux/elf.h`).
const NT_X86_XSTATE: usize = linux_raw_sys::elf_uapi::NT_X86_XSTATE as usize;

/// The note type of the general registers, in the order of `struct user_regs_struct`.
const NT_PRSTATUS: usize = linux_raw_sys::elf_uapi::NT_PRSTATUS as usize;

/// The note type of what FXSAVE saves: the legacy part.
const NT_PRFPREG: usize = linux_raw_sys::elf_uapi::NT_PRFPREG as usize;

/// The legacy part of the extended state, and the header behind it, bytes; x87 and SSE in the header's first
/// byte.
const LEGACY_LEN: usize = 512;
const HEADER_LEN: usize = 64;
const LEGACY_COMPONENTS: u8 = 3;

/// More than any XSAVE area: AVX-512 takes 2.7 KiB, AMX 11 KiB.
const XSTATE_BYTES_MAX: usize = 32 * 1024;

pub const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

/// For tasks that run by themselves until one of them asks for something: neither an exec nor an end stops.
pub const LIVE_OPTIONS: i32 = OPTIONS & !(libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEEXIT);

fn check(what: &'static str, tid: Tid, value: libc::c_long) -> Result<libc::c_long> {
    if value != -1 {
        return Ok(value);
    }
    let source = io::Error::last_os_error();
    if source.raw_os_error() == Some(libc::ESRCH) {
        return Err(TraceeError::Died(tid));
    }
    Err(TraceeError::Os { what, tid, source })
}

/// A ptrace request whose `addr` and `data` are plain numbers.
fn request(what: &'static str, request: libc::c_uint, tid: Tid, addr: usize, data: usize) -> Result<()> {
    // SAFETY: callers in this file use it only for requests that read neither pointer.
    let value = unsafe { libc::ptrace(request, tid.0, addr, data) };
    check(what, tid, value).map(drop)
}

/// A ptrace request that reads or fills `data`, which has the size that the kernel expects of it.
fn with_data<T>(
    what: &'static str,
    request: libc::c_uint,
    tid: Tid,
    addr: usize,
    data: &mut T,
) -> Result<libc::c_long> {
    // SAFETY: `data` is valid for the whole call; callers in this file pair each request with its kernel
    // type.
    let value = unsafe { libc::ptrace(request, tid.0, addr, ptr::from_mut(data)) };
    check(what, tid, value)
}

pub fn seize(tid: Tid) -> Result<()> {
    request("seize", libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize)
}

/// What a task reports from now on, and all that it makes: [`OPTIONS`] or [`LIVE_OPTIONS`]. It must be
/// stopped.
pub fn set_options(tid: Tid, options: i32) -> Result<()> {
    request("choose what it reports", libc::PTRACE_SETOPTIONS, tid, 0, options as usize)
}

pub fn interrupt(tid: Tid) -> Result<()> {
    request("interrupt", libc::PTRACE_INTERRUPT, tid, 0, 0)
}

pub fn detach(tid: Tid) -> Result<()> {
    detach_with(tid, None)
}

/// The task goes on without us, with this signal.
pub fn detach_with(tid: Tid, signal: Option<Signal>) -> Result<()> {
    request("detach", libc::PTRACE_DETACH, tid, 0, signal.map_or(0, |signal| usize::from(signal.0)))
}

/// How a stopped task goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// To the next traced call, signal or event.
    Cont,
    /// To the entry or exit of a system call as well.
    Syscall,
    /// One instruction.
    Step,
    /// Not at all: it stays in its group-stop and reports when that ends.
    Listen,
}

pub fn resume(tid: Tid, how: Resume, signal: Option<Signal>) -> Result<()> {
    let req = match how {
        Resume::Cont => libc::PTRACE_CONT,
        Resume::Syscall => libc::PTRACE_SYSCALL,
        Resume::Step => libc::PTRACE_SINGLESTEP,
        Resume::Listen => libc::PTRACE_LISTEN,
    };
    request("resume", req, tid, 0, signal.map_or(0, |s| usize::from(s.0)))
}

/// The soft limit of a process's resource; none where it cannot be asked.
pub fn soft_limit(tid: Tid, resource: u32) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills `limit`, which lives, and reads nothing.
    let got = unsafe { libc::prlimit(tid.0, resource, ptr::null(), &raw mut limit) };
    (got == 0).then_some(limit.rlim_cur)
}

pub fn get_registers(tid: Tid) -> Result<Registers> {
    let mut regs = Registers::default();
    with_data("read the registers", libc::PTRACE_GETREGS, tid, 0, &mut regs)?;
    Ok(regs)
}

pub fn set_registers(tid: Tid, regs: &Registers) -> Result<()> {
    const WHAT: &str = "set the registers";
    let mut all = *regs;
    match with_data(WHAT, libc::PTRACE_SETREGS, tid, 0, &mut all) {
        Err(error) if is_refused(&error) => {}
        result => return result.map(drop),
    }
    // A program may give its segment registers what the kernel takes from no tracer, not even where it is
    // there already: a null selector with a privilege, a base in the kernel's half of the addresses
    // (`putreg` in arch/x86/kernel/ptrace.c). So these are set where they differ. They are the last ones.
    let len = std::mem::offset_of!(libc::user_regs_struct, fs_base);
    let mut general = libc::iovec { iov_base: ptr::from_mut(&mut all).cast(), iov_len: len };
    with_data(WHAT, libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &mut general)?;
    let now = get_registers(tid)?;
    let segments = |regs: &Registers| [regs.fs_base, regs.gs_base, regs.ds, regs.es, regs.fs, regs.gs];
    // All that a null selector says is its privilege, and for how long it is there is the kernel's choice.
    let is_null = |index: usize, value: u64| index >= 2 && value & !3 == 0;
    for (index, (wanted, found)) in segments(regs).into_iter().zip(segments(&now)).enumerate() {
        let are_null = is_null(index, wanted) && is_null(index, found);
        if wanted != found && !are_null {
            let offset = len + index * size_of::<u64>();
            // A 64-bit kernel: usize is as wide as the register.
            request(WHAT, libc::PTRACE_POKEUSER, tid, offset, wanted as usize)?;
        }
    }
    Ok(())
}

/// Does the kernel not take a value?
fn is_refused(error: &TraceeError) -> bool {
    matches!(error, TraceeError::Os { source, .. } if source.raw_os_error() == Some(libc::EIO))
}

/// What the kernel shows of a debug register; of the sixth, what the last debug exception was for.
pub fn get_debug_register(tid: Tid, index: usize) -> Result<u64> {
    let offset = std::mem::offset_of!(libc::user, u_debugreg) + index * size_of::<u64>();
    // SAFETY: for this request the library's function has the kernel write to a variable of its own, and
    // returns that.
    let value = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, tid.0, offset, 0usize) };
    check("read a debug register", tid, value).map(libc::c_long::cast_unsigned)
}

/// Sets debug register `index` (0..=3, 6, 7) of a stopped task.
pub fn set_debug_register(tid: Tid, index: usize, value: u64) -> Result<()> {
    let offset = std::mem::offset_of!(libc::user, u_debugreg) + index * size_of::<u64>();
    // A 64-bit kernel: usize is as wide as the register.
    request("set a debug register", libc::PTRACE_POKEUSER, tid, offset, value as usize)
}

/// The extended state in its standard form. A processor without XSAVE (before 2011, and some that virtual
/// machines emulate) has the legacy part of it, of which both components are said to be in use.
pub fn get_xstate(tid: Tid) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; XSTATE_BYTES_MAX];
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let what = "read the extended state";
    match with_data(what, libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &mut iov) {
        Err(error) if has_no_xsave(&error) => {
            iov.iov_len = LEGACY_LEN;
            with_data(what, libc::PTRACE_GETREGSET, tid, NT_PRFPREG, &mut iov)?;
            bytes.truncate(LEGACY_LEN + HEADER_LEN);
            bytes[LEGACY_LEN] = LEGACY_COMPONENTS;
        }
        result => {
            result?;
            bytes.truncate(iov.iov_len);
        }
    }
    Ok(bytes)
}

/// Does the kernel not know of any extended state?
fn has_no_xsave(error: &TraceeError) -> bool {
    matches!(error, TraceeError::Os { source, .. } if source.raw_os_error() == Some(libc::ENODEV))
}

pub fn set_xstate(tid: Tid, xstate: &[u8]) -> Result<()> {
    let mut iov = libc::iovec { iov_base: xstate.as_ptr().cast_mut().cast(), iov_len: xstate.len() };
    let what = "set the extended state";
    match with_data(what, libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, &mut iov) {
        Err(error) if has_no_xsave(&error) => {
            iov.iov_len = xstate.len().min(LEGACY_LEN);
            with_data(what, libc::PTRACE_SETREGSET, tid, NT_PRFPREG, &mut iov).map(drop)
        }
        result => result.map(drop),
    }
}

pub fn get_siginfo(tid: Tid) -> Result<[u8; 128]> {
    let mut info = [0u8; 128];
    with_data("read the signal", libc::PTRACE_GETSIGINFO, tid, 0, &mut info)?;
    Ok(info)
}

pub fn set_siginfo(tid: Tid, info: &[u8; 128]) -> Result<()> {
    let mut info = *info;
    with_data("set the signal", libc::PTRACE_SETSIGINFO, tid, 0, &mut info).map(drop)
}

pub fn get_sigmask(tid: Tid) -> Result<u64> {
    let mut mask = 0u64;
    with_data("read the signal mask", libc::PTRACE_GETSIGMASK, tid, 8, &mut mask)?;
    Ok(mask)
}

pub fn set_sigmask(tid: Tid, mask: u64) -> Result<()> {
    let mut mask = mask;
    with_data("set the signal mask", libc::PTRACE_SETSIGMASK, tid, 8, &mut mask).map(drop)
}

/// The request that reads an entry of a task's table of descriptors, and the one that sets it
/// (`arch/x86/include/uapi/asm/ptrace-abi.h`).
const PTRACE_GET_THREAD_AREA: libc::c_uint = 25;
const PTRACE_SET_THREAD_AREA: libc::c_uint = 26;

/// One of the descriptors that a task has for thread-local storage (`struct user_desc`).
pub fn get_thread_area(tid: Tid, entry: u32) -> Result<[u8; 16]> {
    let mut descriptor = [0u8; 16];
    with_data("read a descriptor", PTRACE_GET_THREAD_AREA, tid, entry as usize, &mut descriptor)?;
    Ok(descriptor)
}

pub fn set_thread_area(tid: Tid, entry: u32, descriptor: &[u8; 16]) -> Result<()> {
    let mut descriptor = *descriptor;
    with_data("set a descriptor", PTRACE_SET_THREAD_AREA, tid, entry as usize, &mut descriptor).map(drop)
}

pub fn event_message(tid: Tid) -> Result<u64> {
    let mut message = 0u64;
    with_data("read the event", libc::PTRACE_GETEVENTMSG, tid, 0, &mut message)?;
    Ok(message)
}

/// The option of prctl that says which address the kernel clears at the caller's end
/// (`include/uapi/linux/prctl.h`).
pub const PR_GET_TID_ADDRESS: u64 = linux_raw_sys::prctl::PR_GET_TID_ADDRESS as u64;

/// Does the kernel answer it?
pub fn tells_tid_address() -> bool {
    let mut addr = 0u64;
    // SAFETY: the kernel fills `addr`, which lives, and reads nothing.
    unsafe { libc::syscall(libc::SYS_prctl, PR_GET_TID_ADDRESS, ptr::from_mut(&mut addr), 0, 0, 0) == 0 }
}

/// Has the kernel `epoll_pwait2` (5.11)?
pub fn has_epoll_pwait2() -> bool {
    let none = ptr::null::<libc::c_void>();
    // SAFETY: there is no such descriptor, so nothing is read or written.
    let value = unsafe { libc::syscall(libc::SYS_epoll_pwait2, -1, none, 0, none, none, 0) };
    value == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Where a thread has registered its restartable sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rseq {
    pub addr: Addr,
    pub len: u32,
    pub signature: u32,
}

/// The restartable sequences of a stopped thread. None: it has none, or the kernel (before 5.13) does not
/// tell.
pub fn rseq_of(tid: Tid) -> Option<Rseq> {
    #[repr(C)]
    struct Configuration {
        addr: u64,
        len: u32,
        signature: u32,
        flags: u32,
        unused: u32,
    }
    let mut told = Configuration { addr: 0, len: 0, signature: 0, flags: 0, unused: 0 };
    let len = mem::size_of::<Configuration>();
    with_data("ask for restartable sequences", libc::PTRACE_GET_RSEQ_CONFIGURATION, tid, len, &mut told)
        .ok()?;
    (told.addr != 0).then_some(Rseq { addr: Addr(told.addr), len: told.len, signature: told.signature })
}

/// The signals queued for the task alone (`shared` false) or for its process.
pub fn peek_pending(tid: Tid, shared: bool) -> Result<Vec<[u8; 128]>> {
    /// So many are asked for at a time.
    const MANY: usize = 32;
    #[repr(C)]
    struct Args {
        off: u64,
        flags: u32,
        nr: i32,
    }
    let mut all = Vec::new();
    loop {
        let mut args = Args { off: all.len() as u64, flags: u32::from(shared), nr: MANY as i32 };
        let mut infos = [[0u8; 128]; MANY];
        // SAFETY: the kernel writes at most `nr` siginfos of 128 bytes each to `data`, which has room for
        // them.
        let count = unsafe {
            libc::ptrace(
                libc::PTRACE_PEEKSIGINFO as libc::c_uint,
                tid.0,
                ptr::from_mut(&mut args),
                infos.as_mut_ptr(),
            )
        };
        let count = usize::try_from(check("read the pending signals", tid, count)?).unwrap_or(0);
        all.extend_from_slice(&infos[..count.min(MANY)]);
        if count < MANY {
            return Ok(all);
        }
    }
}

/// Do two tasks have the same of what `kind` names (kcmp(2))? `numbers` are what each has there, where they
/// have several. Errors where the kernel has no kcmp, or one of them is gone or has no such number.
fn have_same(kind: i32, (one, other): (Tid, Tid), numbers: (i64, i64)) -> io::Result<bool> {
    // SAFETY: kcmp takes plain numbers.
    let value = unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, kind, numbers.0, numbers.1) };
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value == 0) }
}

/// A raw wait status of one task traced by (or a child of) the calling thread; `None` with `block` false when
/// none is there, an error ECHILD when there is nothing to wait for, and EINTR when a signal came to this
/// thread.
pub fn wait(tid: Option<Tid>, block: bool) -> io::Result<Option<(Tid, i32)>> {
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    let found = unsafe { libc::waitpid(tid.map_or(-1, |t| t.0), &raw mut status, flags) };
    match found {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some((Tid(found), status))),
    }
}

/// The calling thread runs as soon as it can, whoever else wants its core: the lowest real-time priority,
/// which what it begins does not inherit (sched(7)).
///
/// # Errors
/// EPERM: that needs `CAP_SYS_NICE`, or an RLIMIT_RTPRIO that is not 0.
pub fn run_at_once() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` is valid for the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What there is to wait for of this task, or of any; it is left there. None, with WNOHANG: nothing.
fn peek(tid: Option<Tid>, flags: i32) -> io::Result<Option<libc::siginfo_t>> {
    let (kind, id) = match tid {
        Some(tid) => {
            let id = libc::id_t::try_from(tid.0).map_err(|_| io::Error::from_raw_os_error(libc::ECHILD))?;
            (libc::P_PID, id)
        }
        None => (libc::P_ALL, 0),
    };
    let flags = flags | libc::WNOWAIT | libc::__WALL;
    // SAFETY: a siginfo of zeroes is valid, and the kernel fills it; without a report it leaves the pid zero,
    // which no task has.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        if libc::waitid(kind, id, &raw mut info, flags) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((info.si_pid() != 0).then_some(info))
    }
}

/// The task of which this tells.
fn of_task(info: &libc::siginfo_t) -> Tid {
    // SAFETY: `peek` has it from waitid, which has filled this in.
    Tid(unsafe { info.si_pid() })
}

/// Is there a wait status of this task, traced by the calling thread, that [`wait`] has not given yet?
pub fn has_report(tid: Tid) -> bool {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::__WNOTHREAD;
    matches!(peek(Some(tid), flags), Ok(Some(_)))
}

/// Of which task [`wait`] without a number gives the status; it is left there. With `block`, waits until
/// there is one.
///
/// # Errors
/// As those of [`wait`].
pub fn next_to_wait_for(block: bool) -> io::Result<Option<Tid>> {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::__WNOTHREAD;
    let found = peek(None, flags | if block { 0 } else { libc::WNOHANG })?;
    Ok(found.as_ref().map(of_task))
}

/// The wait status of the stop of a task, traced by whichever of our threads, that nobody has waited for yet.
pub fn stop_to_wait_for(tid: Tid) -> Option<i32> {
    let info = peek(Some(tid), libc::WSTOPPED | libc::WNOHANG).ok()??;
    // SAFETY: waitid has filled it in.
    let status = unsafe { info.si_status() };
    Some(status << 8 | 0x7f)
}

/// A task that has ended, and that one of our threads has to wait for: this one, or any. A first thread is
/// none before all others of its process are gone.
pub fn ended_unheard(tid: Option<Tid>) -> Option<Tid> {
    let found = peek(tid, libc::WEXITED | libc::WNOHANG).ok()?;
    found.as_ref().map(of_task)
}

/// How large a file this process may make, bytes (RLIMIT_FSIZE). To go beyond is a signal that kills.
pub fn file_size_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(libc::RLIM_INFINITY)
}

pub fn tgkill(tgid: Tid, tid: Tid, signal: Signal) -> Result<()> {
    // SAFETY: tgkill takes plain numbers.
    let value = unsafe { libc::syscall(libc::SYS_tgkill, tgid.0, tid.0, i32::from(signal.0)) };
    check("send a signal", tid, value).map(drop)
}

/// Sends a signal to a task of whatever process.
pub fn kill_task(tid: Tid, signal: Signal) -> Result<()> {
    // SAFETY: tkill takes plain numbers.
    let value = unsafe { libc::syscall(libc::SYS_tkill, tid.0, i32::from(signal.0)) };
    check("send a signal", tid, value).map(drop)
}

/// What a signal of ours to a task carries (si_value), so that we know it again. Its sender does not tell: in
/// a pid namespace of its own, a task is not told who we are.
pub fn carried_value() -> u64 {
    u64::from(std::process::id()) << 32 | 0x6269_7321
}

/// As [`carried_value`], of a signal whose number means nothing: another signal takes its place in the stop.
pub fn neutral_value() -> u64 {
    carried_value() + 1
}

/// Sends a signal to a task that only brings it to a signal stop: there, `value` is found in it, which is
/// [`carried_value`] or [`neutral_value`].
pub fn carry(tgid: Tid, tid: Tid, signal: Signal, value: u64) -> Result<()> {
    let mut info = [0u8; 128];
    info[..4].copy_from_slice(&i32::from(signal.0).to_le_bytes());
    info[8..12].copy_from_slice(&libc::SI_QUEUE.to_le_bytes());
    info[16..20].copy_from_slice(&std::process::id().to_le_bytes());
    info[24..32].copy_from_slice(&value.to_le_bytes());
    queue_signal(tgid, tid, &info)
}

/// Sends a signal again that a task was about to get, with all that was said of it. But one of `kill` or
/// `tgkill` is told of as queued (SI_QUEUE): the kernel lets those be sent under their sender's number only
/// (kernel/signal.c: do_rt_tgsigqueueinfo).
pub fn send_again(tgid: Tid, tid: Tid, info: &SigInfo) -> Result<()> {
    let mut bytes = info.0;
    if info.code() >= 0 || info.code() == libc::SI_TKILL {
        bytes[8..12].copy_from_slice(&libc::SI_QUEUE.to_le_bytes());
    }
    queue_signal(tgid, tid, &bytes)
}

fn queue_signal(tgid: Tid, tid: Tid, info: &[u8; 128]) -> Result<()> {
    let signal = i32::from_le_bytes(std::array::from_fn(|at| info[at]));
    // SAFETY: the kernel reads a siginfo_t, which is 128 bytes.
    let value = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, tgid.0, tid.0, signal, info.as_ptr()) };
    check("send a signal", tid, value).map(drop)
}

/// Sends a signal to the process of a task, as `kill` does.
pub fn kill(tid: Tid, signal: Signal) -> Result<()> {
    // SAFETY: kill takes plain numbers.
    let value = unsafe { libc::kill(tid.0, i32::from(signal.0)) };
    check("send a signal", tid, i64::from(value)).map(drop)
}

/// The CPUs that a task may run on, as the kernel's bit mask in bytes. `Tid(0)` is the calling thread.
pub fn get_affinity(tid: Tid) -> Result<Vec<u8>> {
    let mut mask = vec![0u8; 1024];
    // SAFETY: the kernel writes at most the given length.
    let value = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid.0, mask.len(), mask.as_mut_ptr()) };
    let len = usize::try_from(check("read the CPU affinity", tid, value)?).unwrap_or(0);
    mask.truncate(len);
    Ok(mask)
}

/// The number of the core that the calling thread runs on.
pub fn current_core() -> usize {
    rustix::thread::sched_getcpu()
}

/// The reverse of [`get_affinity`].
pub fn set_affinity(tid: Tid, mask: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads the given length.
    let value = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid.0, mask.len(), mask.as_ptr()) };
    check("set the CPU affinity", tid, value).map(drop)
}

/// The orphans of our tree become children of this process instead of init's.
pub fn become_subreaper() -> io::Result<()> {
    // Any process, which the call does not look at, means that this one becomes it.
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Raises this process's soft limit of open files to the hard one: a supervisor has a few for each process.
/// Returns the limit as it was, which recorded programs should get back.
pub fn raise_file_limit() -> Option<libc::rlimit> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok()?;
    // As the kernel's structure: the program's process sets it between its fork and its exec.
    let word = |limit: Option<u64>| limit.unwrap_or(libc::RLIM_INFINITY);
    Some(libc::rlimit { rlim_cur: word(limit.current), rlim_max: word(limit.maximum) })
}

/// Where the task's list of robust futexes begins, in its memory; 0: it has none.
pub fn robust_list(tid: Tid) -> io::Result<u64> {
    let (mut head, mut len) = (0u64, 0usize);
    // SAFETY: both places are valid for the call.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, tid.0, &raw mut head, &raw mut len) };
    if result == 0 { Ok(head) } else { Err(io::Error::last_os_error()) }
}

/// Lets the C library's allocator have no more arenas than there are processors, at least two. It has eight
/// times as many by default, and each keeps what the supervisors that use it had in hand at their busiest
/// moment: 6 MB with a hundred processes.
#[cfg(target_env = "gnu")]
pub fn few_arenas() {
    let count = std::thread::available_parallelism().map_or(2, |count| count.get().clamp(2, 64));
    if let Ok(count) = libc::c_int::try_from(count) {
        // SAFETY: it takes numbers only; where it does not know this one, all stays as it is.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
    }
}

/// Other allocators are left as they are.
#[cfg(not(target_env = "gnu"))]
pub fn few_arenas() {}
