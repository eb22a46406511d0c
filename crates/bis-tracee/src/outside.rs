//! Programs that are left out of the recording. A recorded process cannot get rid of its filter, so such a
//! program is a fresh process of ours, made as the recorded one would have become; the recorded one executes
//! the stand-in (`bis-agent/src/stand_in.c`), which waits for it.
//!
//! Between the two is a *keeper*, the program's parent: a process without anything but a socket to the
//! stand-in. It sends the program the signals that the stand-in is told of, tells the stand-in when the
//! program stops or ends, and waits for the orphans of what the program has started. When the stand-in is
//! killed, or dies with the recorder, the program is killed too; only the end of a recording lets it go
//! ([`let_all_go`]).

use std::{
    ffi::{CString, c_char},
    fs::File,
    io::{self, Read},
    mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    sync::{Mutex, OnceLock, PoisonError},
};

use bis_agent::{EXITED, KILLED, STOPPED};
use bis_trace::types::{Fd, Tid};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::proc;

const SIGNALS_MAX: i32 = 64;

/// A program to be started outside, and all that it inherits.
#[derive(Debug)]
pub struct Outside {
    pub path: CString,
    pub argv: Vec<CString>,
    pub envp: Vec<CString>,
    pub cwd: File,
    /// Its descriptors: their numbers there, and ours for them.
    pub files: Vec<(Fd, File)>,
    pub group: Tid,
    pub umask: u32,
    pub nice: i32,
    pub affinity: Vec<u8>,
    pub limits: Vec<libc::rlimit>,
    /// Bits of signals, the first one being signal 1.
    pub blocked: u64,
    pub ignored: u64,
    /// The keeper's end of the socket.
    pub channel: File,
}

/// Keepers that have not been waited for; they are this process's children.
static KEEPERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A pipe that has something to read once all programs are let go.
fn life() -> io::Result<&'static (OwnedFd, OwnedFd)> {
    static LIFE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();
    if LIFE.get().is_none() {
        let (read, write) = io::pipe()?;
        let _ = LIFE.set((read.into(), write.into()));
    }
    LIFE.get().ok_or_else(|| io::Error::other("no pipe"))
}

/// The limits of a process, in the order of their numbers.
pub fn limits(tid: Tid) -> Vec<libc::rlimit> {
    let one = |resource| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid for the call, and nothing is set.
        let found = unsafe { libc::prlimit(tid.0, resource, ptr::null(), &raw mut limit) };
        (found == 0).then_some(limit)
    };
    (0..=libc::RLIMIT_RTTIME).map_while(one).collect()
}

/// The process group and the session of a process.
pub fn group_and_session(tid: Tid) -> (Tid, Tid) {
    // SAFETY: plain numbers.
    unsafe { (Tid(libc::getpgid(tid.0)), Tid(libc::getsid(tid.0))) }
}

/// Is this our own session, whose groups a program of ours can join?
pub fn is_own_session(session: Tid) -> bool {
    group_and_session(Tid(0)).1 == session
}

/// What the keeper and the program need, laid out before the fork: after it, only system calls are made.
struct Prepared {
    path: *const c_char,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    cwd: RawFd,
    /// Numbers there, and ours, which the child changes to ones that are in nobody's way.
    files: Vec<(Fd, RawFd)>,
    /// Above all numbers there.
    high: RawFd,
    channel: RawFd,
    life: RawFd,
    report: RawFd,
}

/// Starts the program. The error is the one with which its exec has failed.
///
/// # Errors
/// Where there can be no keeper, or the program cannot be executed.
pub fn start(outside: &Outside) -> io::Result<()> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (read, write) = io::pipe()?;
    let highest = outside.files.iter().map(|(number, _)| *number).max().map_or(0, |number| number.0);
    let mut prepared = Prepared {
        path: outside.path.as_ptr(),
        argv: pointers(&outside.argv),
        envp: pointers(&outside.envp),
        cwd: outside.cwd.as_raw_fd(),
        files: outside.files.iter().map(|(number, file)| (*number, file.as_raw_fd())).collect(),
        high: highest.max(libc::STDERR_FILENO) + 1,
        channel: outside.channel.as_raw_fd(),
        life: life()?.0.as_raw_fd(),
        report: write.as_raw_fd(),
    };
    // SAFETY: the child makes system calls only, on memory that was laid out before, and ends. All signals
    // are blocked meanwhile, so that no handler of ours runs in it; the mask is put back.
    unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let first = libc::fork();
        if first == 0 {
            // The child of a child that is gone: no supervisor finds it when it waits for its tasks.
            let keeper = libc::fork();
            if keeper == 0 {
                keep(&mut prepared, outside);
            }
            libc::_exit(i32::from(keeper < 0));
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, ptr::null_mut());
        if first < 0 {
            return Err(error);
        }
        let mut status = 0;
        while libc::waitpid(first, &raw mut status, libc::__WALL) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        if status != 0 {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
    }
    drop(write);
    // The keeper's id, and the program's error if its exec has failed.
    let mut told = Vec::new();
    File::from(OwnedFd::from(read)).read_to_end(&mut told)?;
    let number = |at: usize| Some(i32::from_ne_bytes(told.get(at..at + 4)?.try_into().ok()?));
    let mut keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    keepers.extend(number(0).and_then(Pid::from_raw));
    match (number(0), number(4)) {
        (Some(_), None) => Ok(()),
        (_, Some(errno)) => Err(io::Error::from_raw_os_error(errno)),
        (None, _) => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
    }
}

/// Waits for the keepers that have ended; they are children of this process, of none of its threads in
/// particular.
pub fn reap() {
    let mut keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    keepers.retain(|keeper| matches!(waitpid(Some(*keeper), WaitOptions::NOHANG), Ok(None)));
}

/// From here on, programs that run outside go on whatever becomes of us and of their stand-ins.
pub fn let_all_go() {
    let Ok((_, write)) = life() else { return };
    // The pipe has room for one byte.
    let _ = rustix::io::write(write, &[0]);
}

unsafe fn tell(fd: RawFd, number: i32) {
    // SAFETY: four bytes of ours.
    unsafe { libc::write(fd, (&raw const number).cast(), mem::size_of::<i32>()) };
}

/// The keeper. It has all signals blocked.
///
/// # Safety
/// In a freshly forked process, which it ends.
unsafe fn keep(prepared: &mut Prepared, outside: &Outside) -> ! {
    // SAFETY: system calls on plain numbers and on memory of ours.
    unsafe {
        // A signal to the whole group is for the program, not for its keeper.
        libc::setpgid(0, 0);
        tell(prepared.report, libc::getpid());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        let mut children: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut children);
        libc::sigaddset(&raw mut children, libc::SIGCHLD);
        let ended = libc::signalfd(-1, &raw const children, libc::SFD_CLOEXEC);
        let program = libc::fork();
        if program == 0 {
            let errno = execute(prepared, outside);
            tell(prepared.report, errno);
            libc::_exit(127);
        }
        if program < 0 {
            tell(prepared.report, libc::EAGAIN);
            libc::_exit(1);
        }
        let (channel, life) = (prepared.channel, prepared.life);
        close_but([channel, life, ended]);
        let mut polled =
            [channel, life, ended].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        loop {
            if tell_of(program, channel) {
                // Poll passes over it.
                polled[0].fd = -1;
            }
            libc::poll(polled.as_mut_ptr(), 3, -1);
            if polled[1].revents & libc::POLLIN != 0 {
                // Let go.
                libc::_exit(0);
            }
            if polled[2].revents != 0 {
                let mut info = [0u8; 128];
                libc::read(ended, info.as_mut_ptr().cast(), info.len());
            }
            if polled[1].revents != 0 {
                // The recorder is dead, and so is the stand-in.
                if polled[0].fd >= 0 {
                    libc::kill(program, libc::SIGKILL);
                }
                libc::_exit(0);
            }
            if polled[0].revents != 0 && !pass_on(channel, program, outside.group) {
                libc::kill(program, libc::SIGKILL);
                polled[0].fd = -1;
            }
        }
    }
}

/// Waits for the keeper's children that have stopped or ended, and tells the stand-in of the program, which
/// is one of them. True: the program has ended. The others are orphans of what it has started: they are the
/// keeper's to wait for until the recording ends, and without children it ends itself.
unsafe fn tell_of(program: libc::pid_t, channel: RawFd) -> bool {
    let mut has_ended = false;
    // SAFETY: system calls on plain numbers and on memory of ours.
    unsafe {
        loop {
            let mut status = 0;
            match libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) {
                -1 => libc::_exit(0),
                0 => return has_ended,
                found if found != program => continue,
                _ => {}
            }
            let message = if libc::WIFSTOPPED(status) {
                [STOPPED, libc::WSTOPSIG(status).cast_unsigned()]
            } else if libc::WIFSIGNALED(status) {
                [KILLED, libc::WTERMSIG(status).cast_unsigned()]
            } else {
                [EXITED, libc::WEXITSTATUS(status).cast_unsigned()]
            };
            libc::send(channel, message.as_ptr().cast(), mem::size_of_val(&message), libc::MSG_NOSIGNAL);
            has_ended |= !libc::WIFSTOPPED(status);
        }
    }
}

/// Sends the program the signal that the stand-in tells of. False: the stand-in is gone.
unsafe fn pass_on(channel: RawFd, program: libc::pid_t, group: Tid) -> bool {
    const OF_TERMINAL: [i32; 6] =
        [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH, libc::SIGCONT];
    let mut message = [0i32; 2];
    // SAFETY: system calls on plain numbers and on memory of ours.
    unsafe {
        let len = libc::recv(channel, message.as_mut_ptr().cast(), mem::size_of_val(&message), 0);
        if len < 8 {
            return false;
        }
        let [signal, code] = message;
        // The terminal's signals come to the program by themselves, if it is in the stand-in's group.
        let is_of_terminal = code == libc::SI_KERNEL && OF_TERMINAL.contains(&signal);
        if !is_of_terminal || libc::getpgid(program) != group.0 {
            libc::kill(program, signal);
        }
    }
    true
}

/// Closes all descriptors but these.
unsafe fn close_but(mut kept: [RawFd; 3]) {
    kept.sort_unstable();
    let mut from = 0;
    // SAFETY: plain numbers; what is closed is a copy that nobody uses.
    unsafe {
        for fd in kept {
            if fd > from {
                libc::syscall(libc::SYS_close_range, from, fd - 1, 0);
            }
            from = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, from, u32::MAX, 0);
    }
}

/// Becomes the program; returns the error of the exec.
///
/// # Safety
/// In a freshly forked process.
unsafe fn execute(prepared: &mut Prepared, outside: &Outside) -> i32 {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: system calls on plain numbers and on memory that was laid out before the fork.
    unsafe {
        // The group of another session cannot be joined: then it gets one of its own.
        if libc::setpgid(0, outside.group.0) != 0 {
            libc::setsid();
        }
        libc::umask(outside.umask);
        libc::setpriority(libc::PRIO_PROCESS, 0, outside.nice);
        libc::syscall(libc::SYS_sched_setaffinity, 0, outside.affinity.len(), outside.affinity.as_ptr());
        if libc::fchdir(prepared.cwd) != 0 {
            return errno();
        }
        // Out of the way of the numbers there, before anything is closed.
        let high = prepared.high;
        for (_, ours) in &mut prepared.files {
            *ours = libc::fcntl(*ours, libc::F_DUPFD_CLOEXEC, high);
            if *ours < 0 {
                return errno();
            }
        }
        prepared.report = libc::fcntl(prepared.report, libc::F_DUPFD_CLOEXEC, high);
        libc::syscall(libc::SYS_close_range, 0, high - 1, 0);
        for (number, ours) in &prepared.files {
            if libc::dup2(*ours, number.0) < 0 {
                return errno();
            }
        }
        // We have inherited some that are not closed by exec.
        libc::syscall(libc::SYS_close_range, high, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        for (limit, resource) in outside.limits.iter().zip(0..) {
            libc::setrlimit(resource, limit);
        }
        for signal in 1..=SIGNALS_MAX {
            let is_ignored = outside.ignored & (1 << (signal - 1)) != 0;
            // The kernel's own struct: handler, flags, restorer, mask. The C library keeps two signals to
            // itself.
            let action = [if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL }, 0, 0, 0];
            libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), ptr::null_mut::<usize>(), 8);
        }
        let blocked = outside.blocked;
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const blocked,
            ptr::null_mut::<u64>(),
            8,
        );
        libc::execve(prepared.path, prepared.argv.as_ptr(), prepared.envp.as_ptr());
        errno()
    }
}

/// The descriptors of a process that an exec keeps, each as one of ours.
///
/// # Errors
/// Where one cannot be taken.
pub fn kept_files(tid: Tid) -> io::Result<Vec<(Fd, File)>> {
    let mut files = Vec::new();
    for fd in proc::fds(tid)? {
        let flags = proc::open_flags(tid, fd).ok_or(io::ErrorKind::NotFound)?;
        if flags & libc::O_CLOEXEC == 0 {
            files.push((fd, crate::sys::take_fd(tid, fd)?));
        }
    }
    Ok(files)
}
