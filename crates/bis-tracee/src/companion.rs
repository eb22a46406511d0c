//! A process of ours that works while a recording waits: it replays what was recorded so far, perhaps with a
//! debugger at the terminal.
//!
//! The terminal's signals (^C) are meant for the debugger then, and not for the program, which knows nothing
//! of this. So the companion has a process group of its own, which is the one in front until it has ended.
//! It dies with the thread that has started it.

use std::{
    fs::{File, OpenOptions},
    io, mem,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Command, ExitStatus},
    ptr,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process_group, waitpid},
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};

use crate::sys;

/// How often it is looked whether it has ended, or is wanted no more.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where debuggers are spoken to: the terminal of this process, if it has one.
#[derive(Debug)]
pub struct Terminal {
    file: File,
    /// The group in front, before.
    group: Option<Pid>,
    modes: Option<Termios>,
}

impl Terminal {
    /// None: there is none.
    pub fn own() -> Option<Terminal> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Terminal { group: tcgetpgrp(&file).ok(), modes: tcgetattr(&file).ok(), file })
    }

    /// Its file, to be read from and written to.
    ///
    /// # Errors
    /// Where there are no more descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// As it was before.
    fn give_back(&self) {
        if let Some(group) = self.group {
            put_in_front(self.file.as_raw_fd(), group.as_raw_pid());
        }
        if let Some(modes) = &self.modes {
            // From the background, the terminal's driver would stop us for that.
            while_not_stopped(|| tcsetattr(&self.file, OptionalActions::Drain, modes));
        }
    }
}

/// Makes a group the one in front. Async-signal-safe.
fn put_in_front(fd: RawFd, group: libc::pid_t) {
    // SAFETY: plain numbers.
    while_not_stopped(|| unsafe { libc::tcsetpgrp(fd, group) });
}

/// Makes a call on the terminal for which a process in the background is stopped otherwise.
fn while_not_stopped<T>(call: impl FnOnce() -> T) {
    // SAFETY: both sets are valid for the calls; the mask is put back.
    unsafe {
        let (mut set, mut old): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old);
        // A terminal that has hung up needs nothing.
        call();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, ptr::null_mut());
    }
}

/// Runs a command to its end, at the terminal if one is given. It gets the descriptor `kept` by the same
/// number. None: it was killed, because `is_wanted` said no more.
///
/// # Errors
/// Where it cannot be started.
pub fn run(
    mut command: Command,
    terminal: Option<&Terminal>,
    kept: Option<BorrowedFd<'_>>,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let kept = kept.map(|fd| fd.as_raw_fd());
    let fd = terminal.map(|terminal| terminal.file.as_raw_fd());
    let every_core =
        vec![u8::MAX; sys::get_affinity(crate::ours::thread_id()).map_or(128, |mask| mask.len())];
    let ready = move || {
        // SAFETY: async-signal-safe calls on plain numbers, and on memory that is there before the fork.
        unsafe {
            // The program's supervisor, whose thread's child this may be, has one core.
            libc::sched_setaffinity(0, every_core.len(), every_core.as_ptr().cast());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setpgid(0, 0);
            if let Some(kept) = kept {
                libc::fcntl(kept, libc::F_SETFD, 0);
            }
            if let Some(fd) = fd {
                put_in_front(fd, libc::getpid());
            }
            let mut none: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the function makes async-signal-safe calls only.
    unsafe { command.pre_exec(ready) };
    let child = command.spawn();
    let ended = child.and_then(|child| wait(Pid::from_child(&child), is_wanted));
    if let Some(terminal) = terminal {
        terminal.give_back();
    }
    ended
}

/// Waits for the end of a child. What stops it (^Z) is undone: nobody else could let it go on.
fn wait(pid: Pid, is_wanted: &dyn Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    let mut was_killed = false;
    loop {
        // The group that gets signals is the child's own.
        match waitpid(Some(pid), WaitOptions::UNTRACED | WaitOptions::NOHANG) {
            Ok(None) => {}
            Ok(Some((_, status))) if status.stopped() => {
                let _ = kill_process_group(pid, Signal::CONT);
            }
            Ok(Some((_, status))) => {
                return Ok((!was_killed).then(|| ExitStatus::from_raw(status.as_raw())));
            }
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !was_killed && !is_wanted() {
            was_killed = true;
            let _ = kill_process_group(pid, Signal::KILL);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
