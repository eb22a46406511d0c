//! Which calls the agent's hooks may make without a stop, and what a hook must know of each.
//!
//! Most rows say it by themselves: a call that waits for nobody, whose memory its arguments' kinds describe, and that
//! the recorder need not know of. The lists here are the exceptions in both directions, each with its reason.
//! A call that is not here is traced.

use crate::model::{Blocks, Handler, How, Kind, Row, Size};
use crate::plan::Dir;

/// Calls whose memory depends on what is asked, or that can be tried without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HookShape {
    #[default]
    Plain,
    /// Only commands with plain arguments.
    Fcntl,
    /// Only a few requests of terminals, pipes and sockets.
    Ioctl,
    /// Waking, and waiting where the word has changed already.
    Futex,
    /// The argument that holds the flags.
    Open(u8),
    /// The argument that holds the timeout in milliseconds is 2.
    Poll,
    /// The argument that holds the timeout in milliseconds is 3.
    Epoll,
    /// The argument that holds the flags of a message; not MSG_TRUNC or MSG_ERRQUEUE.
    Message(u8),
}

/// What the first argument, a descriptor, must be ready for, or the call would wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookWait {
    Input,
    Output,
    /// There is no way to ask.
    Unknown,
}

/// Memory that a hooked call writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HookPiece {
    /// The argument that points to it.
    pub arg: u8,
    pub size: Size,
    /// The kernel reads it, too, or leaves parts of it alone.
    pub reads: bool,
}

/// A call that the hooks may make.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hook {
    pub shape: HookShape,
    /// At most three.
    pub pieces: Vec<HookPiece>,
    /// It waits unless its descriptor is ready.
    pub waits: Option<HookWait>,
    /// It writes to the descriptor in its first argument, so it matters what that is.
    pub writes: bool,
    /// It reads the descriptor in its first argument, or makes another of it: some are read by the recorder.
    pub reads: bool,
    /// It opens what this argument names.
    pub path: Option<u8>,
    /// The descriptor in this argument means something else afterwards.
    pub clears: Option<u8>,
}

/// Calls that the kinds describe, and that are traced all the same.
const TRACED: &[&str] = &[
    // What a relative path means; paths of /proc are looked at.
    "chdir",
    "fchdir",
    "chroot",
    "pivot_root",
    // Descriptors come and go without passing through a call that the hooks know.
    "close_range",
    "pidfd_getfd",
    "unshare",
    "setns",
    // It says whether the caller stands on that stack, and a hook stands on its own.
    "sigaltstack",
    // The recorder learns from them.
    "setpriority",
    "setrlimit",
    "prlimit64",
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    // Rare, and they end the machine or change all of it.
    "reboot",
    "kexec_load",
    "kexec_file_load",
    "swapon",
    "swapoff",
    "mount",
    "umount2",
    "init_module",
    "finit_module",
    "delete_module",
    // Memory or descriptors with a life of their own.
    "userfaultfd",
    "perf_event_open",
    "bpf",
    "memfd_secret",
    "process_madvise",
    "process_mrelease",
];

/// Calls with a handler of the recorder's that a hook does as well, for descriptors that concern nobody.
const HANDLED: &[Handler] = &[
    Handler::Write,
    Handler::Writev,
    Handler::Pwrite64,
    Handler::Pwritev,
    Handler::Open,
    Handler::SigAction,
];

/// Calls that show what a descriptor holds, and those that make another of it.
const READS: &[&str] = &["read", "pread64", "readv", "preadv", "preadv2", "dup", "dup2", "dup3", "fcntl"];

/// What a hook must know of this call; none: it is always traced.
pub fn hook(row: &Row) -> Option<Hook> {
    if TRACED.contains(&row.name) {
        return None;
    }
    let mut hook = Hook { reads: READS.contains(&row.name), ..Hook::default() };
    match row.name {
        "fcntl" => return Some(Hook { shape: HookShape::Fcntl, ..hook }),
        "ioctl" => return Some(Hook { shape: HookShape::Ioctl, ..hook }),
        "futex" => return Some(Hook { shape: HookShape::Futex, ..hook }),
        "poll" => {
            let pieces = vec![HookPiece { arg: 0, size: Size::Arg32(1, 8), reads: true }];
            return Some(Hook { shape: HookShape::Poll, pieces, ..hook });
        }
        "epoll_wait" | "epoll_pwait" => hook.shape = HookShape::Epoll,
        "recvfrom" => (hook.shape, hook.waits) = (HookShape::Message(3), Some(HookWait::Input)),
        "getsockopt" => {
            let piece = |arg, size| HookPiece { arg, size, reads: true };
            hook.pieces = vec![piece(3, Size::Deref(4)), piece(4, Size::Fixed(4))];
            return Some(hook);
        }
        "open" => (hook.shape, hook.path) = (HookShape::Open(1), Some(0)),
        "creat" => return None,
        "openat" => (hook.shape, hook.path) = (HookShape::Open(2), Some(1)),
        "openat2" => return None,
        "close" => hook.clears = Some(0),
        "dup2" | "dup3" => hook.clears = Some(1),
        "sendmsg" => (hook.writes, hook.waits) = (true, Some(HookWait::Output)),
        "sendto" | "write" | "pwrite64" | "writev" | "pwritev" => {
            (hook.writes, hook.waits) = (true, Some(HookWait::Output));
        }
        "connect" => hook.waits = Some(HookWait::Unknown),
        "sched_yield" => return Some(Hook { waits: Some(HookWait::Unknown), ..hook }),
        "rt_sigprocmask" | "getrandom" => {}
        _ => match row.blocks {
            Blocks::Never => {}
            Blocks::ByFd => hook.waits = Some(HookWait::Input),
            _ => return None,
        },
    }
    match row.how {
        How::Plain => {}
        How::Recorder(handler) if HANDLED.contains(&handler) => {}
        _ => return None,
    }
    if row.family.is_some() && !["recvfrom"].contains(&row.name) {
        return None;
    }
    for (arg, kind) in (0u8..).zip(row.args) {
        let (size, reads) = match kind.kind {
            Kind::Out(size) => (size, false),
            Kind::InOut(size) => (size, true),
            Kind::Via(Dir::Out | Dir::InOut) | Kind::Always(_) | Kind::Rem(_) => return None,
            _ => continue,
        };
        hook.pieces.push(HookPiece { arg, size, reads });
    }
    (hook.pieces.len() <= 3).then_some(hook)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_name(name: &str) -> Option<Hook> {
        hook(crate::rows().iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no call {name}")))
    }

    #[test]
    fn what_programs_call_most_is_hooked() {
        for name in [
            "read",
            "write",
            "pread64",
            "pwrite64",
            "writev",
            "open",
            "openat",
            "close",
            "stat",
            "fstat",
            "lstat",
            "newfstatat",
            "statx",
            "lseek",
            "access",
            "faccessat",
            "faccessat2",
            "readlink",
            "readlinkat",
            "getdents64",
            "fcntl",
            "ioctl",
            "poll",
            "epoll_wait",
            "epoll_pwait",
            "epoll_ctl",
            "sendto",
            "recvfrom",
            "sendmsg",
            "accept",
            "accept4",
            "getsockopt",
            "getsockname",
            "getpid",
            "getppid",
            "gettid",
            "getuid",
            "clock_gettime",
            "gettimeofday",
            "time",
            "times",
            "getcpu",
            "futex",
            "sched_yield",
            "getrandom",
            "rt_sigprocmask",
            "rt_sigaction",
            "getrusage",
            "sysinfo",
            "uname",
            "umask",
            "unlink",
            "rename",
            "mkdir",
            "dup",
            "dup2",
            "pipe2",
            "socket",
            "getcwd",
            "fsync",
            "getxattr",
        ] {
            assert!(by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_the_recorder_must_see_is_not() {
        for name in [
            "mmap",
            "munmap",
            "brk",
            "clone",
            "clone3",
            "fork",
            "vfork",
            "execve",
            "exit",
            "exit_group",
            "kill",
            "tgkill",
            "rt_sigreturn",
            "rt_sigsuspend",
            "wait4",
            "pause",
            "nanosleep",
            "prlimit64",
            "ptrace",
            "io_uring_setup",
            "rseq",
            "truncate",
            "ftruncate",
            "close_range",
            "chdir",
            "process_vm_readv",
            "set_robust_list",
            "prctl",
            "shmat",
            "sched_setaffinity",
            "setns",
            "recvmmsg",
        ] {
            assert_eq!(by_name(name), None, "{name}");
        }
    }

    #[test]
    fn memory_follows_from_the_kinds() {
        let piece = |arg, size, reads| HookPiece { arg, size, reads };
        assert_eq!(by_name("read").unwrap().pieces, [piece(1, Size::Ret(2, 1), false)]);
        assert_eq!(by_name("newfstatat").unwrap().pieces, [piece(2, Size::Fixed(144), false)]);
        let accept = by_name("accept4").unwrap();
        assert_eq!(accept.pieces, [piece(1, Size::Deref(2), true), piece(2, Size::Fixed(4), true)]);
        assert_eq!(accept.waits, Some(HookWait::Input));
        assert!(by_name("write").unwrap().pieces.is_empty());
    }
}
