//! The signals that the recorder's own process gets. Whoever started it believes it to be the program: so
//! what is sent to it is meant for the program, and when the program stops, it has to be seen to stop.
//!
//! The handlers only write what came to a pipe; what to do about it is for the reader there.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    os::fd::{AsRawFd, IntoRawFd},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bis_trace::types::{Fd, Signal, Tid};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    process::getpid,
    thread::gettid,
};

use crate::error::Result;

/// Of the signals that a program may be sent, those that we leave as they are: what cannot be caught, what
/// the C library has a handler for (33), SIGPIPE (our own writes fail instead), SIGCHLD (of our own tasks)
/// and SIGCONT (which lets us go on as it does the program).
const LEFT: [i32; 5] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE, libc::SIGCHLD, libc::SIGCONT];

/// The C library keeps this signal for ending threads, which we never do, and lets nobody catch it.
const CANCEL: i32 = 32;

/// What our own instructions may raise; then it is a bug of ours, which ends us as usual.
const FAULTS: [i32; 5] = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];

/// What would end or stop us, and what people send to programs: all but SIGKILL. A program may ignore SIGABRT
/// and send it to its group, which is ours.
fn caught() -> impl Iterator<Item = i32> {
    (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|signal| !LEFT.contains(signal))
}

/// Signal, si_code and si_pid, as the handler writes them.
const RECORD_BYTES: usize = 12;

static PIPE: AtomicI32 = AtomicI32::new(-1);

/// A signal that this process has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Came {
    pub signal: Signal,
    /// The process that sent it; none: the kernel, for the terminal.
    pub sender: Option<Tid>,
}

/// The signals as they come.
#[derive(Debug)]
pub struct Coming(File);

impl Coming {
    /// Waits for the next one.
    pub fn wait(&mut self) -> io::Result<Came> {
        let mut record = [0u8; RECORD_BYTES];
        self.0.read_exact(&mut record)?;
        let word = |at: usize| i32::from_le_bytes(std::array::from_fn(|i| record[at + i]));
        let sender = (word(4) <= 0).then(|| Tid(word(8)));
        Ok(Came { signal: Signal(u8::try_from(word(0)).unwrap_or(0)), sender })
    }
}

/// What the signals of [`FAULTS`] were to do before us (Rust's runtime tells of a stack that is used up).
static FAULT_ACTIONS: [OnceLock<libc::sigaction>; FAULTS.len()] = [const { OnceLock::new() }; FAULTS.len()];

extern "C" fn came(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let mut record = [0u8; RECORD_BYTES];
    // SAFETY: the kernel gives a valid siginfo; write and sigaction are async-signal-safe, and errno is put
    // back.
    unsafe {
        let (code, sender) = ((*info).si_code, (*info).si_pid());
        let fault = FAULTS.iter().position(|fault| *fault == signal).filter(|_| code > 0);
        if let Some(action) = fault.and_then(|at| FAULT_ACTIONS[at].get()) {
            // The instruction is executed again, and does what it would have done without us.
            libc::sigaction(signal, action, ptr::null_mut());
            return;
        }
        if signal == kick_signal() && code == libc::SI_TIMER {
            return;
        }
        // From ourselves: an abort, which comes again with the default action; a file that has become too
        // large, of which the write tells; a kick.
        if code <= 0 && sender == libc::getpid() {
            return;
        }
        record[..4].copy_from_slice(&signal.to_le_bytes());
        record[4..8].copy_from_slice(&code.to_le_bytes());
        record[8..].copy_from_slice(&sender.to_le_bytes());
        let errno = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), record.as_ptr().cast(), record.len());
        *libc::__errno_location() = errno;
    }
}

/// What SIGPIPE was to do when this process began.
static SIGPIPE_ACTION: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Which of the descriptors 0, 1 and 2 were closed then, one bit each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look_around() {
    for fd in 0..3 {
        // SAFETY: it takes plain numbers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
    // SAFETY: an all-zero sigaction is valid, and the kernel fills it.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
        {
            SIGPIPE_ACTION.store(libc::SIG_IGN, Ordering::Relaxed);
        }
    }
}

/// Runs before `main`, where Rust's runtime sets SIGPIPE to be ignored, whatever it was, and opens /dev/null
/// in the place of standard streams that are closed.
#[used]
// SAFETY: the section is one of pointers to functions without arguments, which the loader calls once; this
// one needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
static LOOK_AROUND: extern "C" fn() = look_around;

/// What SIGPIPE is to do in the program: ignored if it was when bis was started, else the default. Safe to be
/// called between fork and exec.
pub fn inherited_sigpipe() -> libc::sighandler_t {
    SIGPIPE_ACTION.load(Ordering::Relaxed)
}

/// Was this one of the descriptors 0, 1 and 2 closed when bis was started? The program gets it so. Safe to be
/// called between fork and exec.
pub fn was_closed(fd: Fd) -> bool {
    (0..3).contains(&fd.0) && CLOSED.load(Ordering::Relaxed) & 1 << fd.0 != 0
}

/// The signal by which a supervisor is called away from waiting.
fn kick_signal() -> i32 {
    libc::SIGRTMIN() + 5
}

/// Interrupts a blocking wait of a thread of this process, once [`catch_signals`] was called; one that is
/// gone does not matter. It may come a moment before the thread begins to wait, and is lost then: kick again.
pub fn kick(thread: Tid) {
    // SAFETY: tgkill takes plain numbers, and the signal has a handler.
    unsafe { libc::syscall(libc::SYS_tgkill, process_id().0, thread.0, kick_signal()) };
}

/// Runs `use_it`; until it returns, the calling thread is called away from waiting again and again. None:
/// there is no timer to do it with.
pub fn kicked_every<T>(period: Duration, use_it: impl FnOnce() -> T) -> Option<T> {
    kicked_after(period, period, use_it)
}

/// As [`kicked_every`], for the first time after `first`.
pub fn kicked_after<T>(first: Duration, period: Duration, use_it: impl FnOnce() -> T) -> Option<T> {
    thread_local! {
        static TIMER: Option<KickTimer> = KickTimer::new();
    }
    TIMER.with(|timer| {
        let timer = timer.as_ref()?;
        timer.set(first, period);
        let result = use_it();
        timer.set(Duration::ZERO, Duration::ZERO);
        Some(result)
    })
}

/// A timer that kicks the thread that has made it.
struct KickTimer(libc::timer_t);

impl KickTimer {
    fn new() -> Option<KickTimer> {
        let mut timer = ptr::null_mut();
        // SAFETY: a sigevent of zeroes is valid; both places are valid for the call.
        let value = unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = kick_signal();
            event.sigev_notify_thread_id = thread_id().0;
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        };
        (value == 0).then_some(KickTimer(timer))
    }

    /// 0: not any more.
    fn set(&self, first: Duration, period: Duration) {
        let [first, period] =
            [first, period].map(|time| libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() });
        let spec = libc::itimerspec { it_interval: period, it_value: first };
        // SAFETY: the timer exists, and `spec` is valid.
        unsafe { libc::timer_settime(self.0, 0, &raw const spec, ptr::null_mut()) };
    }
}

impl Drop for KickTimer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and nobody uses it any more.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// The calling process.
pub fn process_id() -> Tid {
    Tid(getpid().as_raw_pid())
}

/// The calling thread.
pub fn thread_id() -> Tid {
    Tid(gettid().as_raw_pid())
}

extern "C" fn outlived(_: i32) {}

/// From now on, this process outlives what a terminal sends for ^C and ^\: they are meant for a program that
/// it has started and waits for. Programs that it starts have the usual actions.
pub fn outlive_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the handler does nothing; SA_RESTART keeps our own calls whole.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            action.sa_sigaction = outlived as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

/// From now on, this process outlives the signals that are meant for its program, and tells of them. One that
/// it was started to ignore stays ignored, here and in the program.
pub fn catch_signals() -> io::Result<Coming> {
    let (read, write) = io::pipe()?;
    // A full pipe must not make a handler wait.
    fcntl_setfl(&write, OFlags::NONBLOCK)?;
    PIPE.store(write.into_raw_fd(), Ordering::Relaxed);
    for signal in caught() {
        // SAFETY: the handler is async-signal-safe; SA_RESTART keeps our own calls whole, and SA_ONSTACK lets
        // the handler run where the stack is used up.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut action);
            if action.sa_sigaction == libc::SIG_IGN && signal != kick_signal() {
                continue;
            }
            if let Some(at) = FAULTS.iter().position(|fault| *fault == signal) {
                let _ = FAULT_ACTIONS[at].set(action);
            }
            action.sa_sigaction = came as *const () as usize;
            // Many at once, one handler upon the other, have no room on an alternate stack: the kernel ends
            // us then with SIGSEGV.
            libc::sigfillset(&raw mut action.sa_mask);
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            if signal != kick_signal() {
                action.sa_flags |= libc::SA_RESTART;
            }
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
    catch_as(CANCEL, libc::SIGUSR1);
    Ok(Coming(File::from(std::os::fd::OwnedFd::from(read))))
}

/// A signal that the C library does not let anybody catch has the action of another one, from now on, unless
/// it is ignored.
fn catch_as(signal: i32, other: i32) {
    /// The kernel's `struct sigaction`, in words: the handler, flags, the way back, the mask.
    type Action = [usize; 4];
    let (mut own, mut action): (Action, Action) = ([0; 4], [0; 4]);
    let len = size_of::<u64>();
    // SAFETY: the kernel fills both, and reads one that it has given itself, with the C library's way back.
    unsafe {
        let none = ptr::null::<Action>();
        libc::syscall(libc::SYS_rt_sigaction, signal, none, &raw mut own, len);
        if own[0] == libc::SIG_DFL
            && libc::syscall(libc::SYS_rt_sigaction, other, none, &raw mut action, len) == 0
        {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, ptr::null_mut::<Action>(), len);
        }
    }
}

/// Does this process lead its session? Then the kernel tells of a hangup of the terminal to it alone.
pub fn lead_session() -> bool {
    // Not by rustix, here and below: its numbers of processes are never 0, but in a pid namespace that is
    // what the session and the group of a process are whose leaders are outside.
    // SAFETY: no arguments that matter.
    unsafe { libc::getsid(0) == process_id().0 }
}

/// The program (process `pid`) was stopped. Whoever waits for us with job control has to see it: stops this
/// process until SIGCONT, which the program will get too. Not where the program has gone into a group of its
/// own: then it is a shell, or whoever stopped it knows it by its own number. And not for a SIGSTOP in the
/// background, where another process of the recording may be the one that lets it go on.
pub fn stop_with(pid: Tid, signal: Signal) {
    let by_terminal = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&i32::from(signal.0));
    let Ok(terminal) = File::open("/dev/tty") else { return };
    // SAFETY: plain numbers, and a sigaction of zeroes is a valid one, with an empty mask.
    unsafe {
        let group = libc::getpgrp();
        let in_front = libc::tcgetpgrp(terminal.as_raw_fd()) == group;
        if libc::getpgid(pid.0) != group || !(by_terminal || in_front) {
            return;
        }
        // By the same signal: shells show which it was. Our handler would keep it from stopping us.
        let number = i32::from(signal.0);
        let mut handler: libc::sigaction = mem::zeroed();
        let mut default: libc::sigaction = mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        if by_terminal {
            libc::sigaction(number, &raw const default, &raw mut handler);
        }
        libc::raise(number);
        if by_terminal {
            libc::sigaction(number, &raw const handler, ptr::null_mut());
        }
    }
}

/// Sends a signal to a process, as `kill` does.
///
/// # Errors
/// [`crate::TraceeError::Died`] where it does not exist.
pub fn send(pid: Tid, signal: Signal) -> Result<()> {
    crate::sys::kill(pid, signal)
}
