//! A process of ours that works while a recording goes on, and after it: nothing of the recorded program's,
//! nor of the recorder's user, hangs on it, and nobody waits for it.
//!
//! It has a session of its own, so no signal of a terminal or of a group comes to it; it runs only when
//! nobody else wants the core, reads the disk only when nobody else does, and is the first that the kernel
//! ends when memory is short. It has no descriptor but those that it is given, so no reader waits for its
//! end, and `/` as its current folder, so no filesystem is kept busy by that. It is a child of a thread that
//! waits for it and for nothing else; when the recorder ends first, init gets it.

use std::{
    fs::File,
    io, mem,
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::{Command, Stdio},
    ptr, thread,
    time::Duration,
};

use crate::sys;

/// Begins to execute a command, which finds these files open under the numbers that they have here.
///
/// # Errors
/// Where there can be no more threads. That the command cannot be executed is in the log.
pub fn spawn(mut command: Command, files: Vec<File>) -> io::Result<()> {
    const IOPRIO_WHO_PROCESS: libc::c_long = 1;
    const IOPRIO_IDLE: libc::c_long = 3 << 13;
    let every_core =
        vec![u8::MAX; sys::get_affinity(crate::ours::thread_id()).map_or(128, |mask| mask.len())];
    let numbers: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let ready = move || {
        // SAFETY: async-signal-safe calls on plain numbers, and on memory that is there before the fork.
        unsafe {
            libc::setsid();
            // The recorder's threads may have one core, and be urgent.
            libc::sched_setaffinity(0, every_core.len(), every_core.as_ptr().cast());
            let none: libc::sched_param = mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none);
            libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
            let mut signals: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const signals, ptr::null_mut());
            // All the others, those too that we were started with and know nothing of. A kernel before 5.11
            // has no such call: then they stay.
            libc::syscall(
                libc::SYS_close_range,
                libc::STDERR_FILENO + 1,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            for number in &numbers {
                if libc::fcntl(*number, libc::F_SETFD, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the function makes async-signal-safe calls only.
    unsafe { command.pre_exec(ready) };
    let run = move || {
        let child = command.spawn();
        // They are the child's now.
        drop(files);
        match child.and_then(|mut child| child.wait()) {
            Ok(status) => tracing::debug!(%status, "a process in the background has ended"),
            Err(error) => tracing::warn!(%error, "failed to start a process in the background"),
        }
    };
    thread::Builder::new().name("background".into()).spawn(run).map(drop)
}

/// This process is such a one: the kernel ends it before others when memory is short, and it ends by itself
/// when it has lived for `life`, or when `is_wanted`, which is asked a few times a second, says no more.
///
/// # Errors
/// Where there can be no more threads.
pub fn live_no_longer_than(life: Duration, is_wanted: impl Fn() -> bool + Send + 'static) -> io::Result<()> {
    const LOOK_EVERY: Duration = Duration::from_millis(250);
    // Where that cannot be written, it is one like others.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let watch = move || {
        let mut left = life;
        while !left.is_zero() && is_wanted() {
            thread::sleep(LOOK_EVERY.min(left));
            left = left.saturating_sub(LOOK_EVERY);
        }
        std::process::exit(1);
    };
    thread::Builder::new().name("watch".into()).spawn(watch).map(drop)
}
