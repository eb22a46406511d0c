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
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Command, ExitStatus},
    ptr,
    time::Duration,
};

use rustix::{
    process::Pid,
    termios::{self, OptionalActions, Termios},
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
        let (group, modes) = (termios::tcgetpgrp(&file).ok(), termios::tcgetattr(&file).ok());
        Some(Terminal { file, group, modes })
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
            put_in_front(self.file.as_fd(), group);
        }
        if let Some(modes) = &self.modes {
            // From the background, the terminal's driver would stop us for that.
            while_not_stopped(|| termios::tcsetattr(&self.file, OptionalActions::Drain, modes));
        }
    }
}

/// Makes a group the one in front. Async-signal-safe.
fn put_in_front(terminal: BorrowedFd<'_>, group: Pid) {
    while_not_stopped(|| termios::tcsetpgrp(terminal, group));
}

/// Makes a call on the terminal for which a process in the background is stopped otherwise.
fn while_not_stopped(call: impl FnOnce() -> rustix::io::Result<()>) {
    // SAFETY: both sets are valid for the calls; the mask is put back.
    unsafe {
        let (mut set, mut old): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old);
        // A terminal that has hung up needs nothing.
        let _ = call();
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
        // SAFETY: async-signal-safe calls on plain numbers, and on memory that is there before the fork. The
        // terminal stays open until its command has ended.
        unsafe {
            // The program's supervisor, whose thread's child this may be, has one core.
            libc::sched_setaffinity(0, every_core.len(), every_core.as_ptr().cast());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setpgid(0, 0);
            if let Some(kept) = kept {
                libc::fcntl(kept, libc::F_SETFD, 0);
            }
            if let Some(fd) = fd {
                put_in_front(BorrowedFd::borrow_raw(fd), rustix::process::getpid());
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
    let ended = child.and_then(|child| {
        let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
        wait(pid, is_wanted)
    });
    if let Some(terminal) = terminal {
        terminal.give_back();
    }
    ended
}

/// Waits for the end of a child. What stops it (^Z) is undone: nobody else could let it go on.
fn wait(pid: libc::pid_t, is_wanted: &dyn Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    let mut was_killed = false;
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED | libc::WNOHANG) } {
            0 => {}
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => continue,
            -1 => return Err(io::Error::last_os_error()),
            _ if libc::WIFSTOPPED(status) => {
                // SAFETY: plain numbers; the group is the child's own.
                unsafe { libc::kill(-pid, libc::SIGCONT) };
            }
            _ => return Ok((!was_killed).then(|| ExitStatus::from_raw(status))),
        }
        if !was_killed && !is_wanted() {
            was_killed = true;
            // SAFETY: as above.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
