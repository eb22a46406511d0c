//! Which calls the agent's hooks may make without a stop, and what a hook must know of each.
//!
//! Most rows say it by themselves: a call that waits for nobody, whose memory its arguments' kinds describe,
//! and that the recorder need not know of. The lists here are the exceptions in both directions, each with
//! its reason. A call that is not here is traced.

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
    /// The argument that points to the timeout is 2, and to a mask of signals 3.
    Ppoll,
    /// The argument that holds the timeout, or points to it (`epoll_pwait2`), is 3.
    Epoll,
    /// select and pselect6.
    Select,
    /// Reads into the vectors in argument 1.
    Vector,
    /// The argument that holds the flags of a message that is received, whose header is in argument 1; not
    /// MSG_TRUNC or MSG_ERRQUEUE.
    Message(u8),
    /// The argument that holds the flags, for several messages, whose headers are in argument 1.
    Messages(u8),
    /// The argument that holds the flags, for one message without a header.
    Receive(u8),
    /// The argument that holds the flags of a message that is sent.
    Send(u8),
    /// The argument that holds the options; with WNOHANG, or where nobody else waits.
    Wait(u8),
    /// Only options without pointers of their own.
    SockOpt,
    /// The name of the task, and which capabilities there are.
    Prctl,
    /// What is written to is the descriptor in argument 2.
    Copy,
    /// The argument that says which limit is asked for: not that of the address space, of which the recorder
    /// knows what the program has set; and prlimit64 only where argument 2 is null.
    Rlimit(u8),
    /// One that is refused as unknown (ENOSYS) whatever its arguments: the hook says so.
    Refused,
    /// Random bytes: many of them only where nobody waits for the task.
    Random,
    /// It changes the address space, in memory of which the recorder knows nothing.
    Memory,
}

/// What the first argument, a descriptor, must be ready for, or the call would wait; or what else it may
/// wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookWait {
    Input,
    Output,
    /// It may not have O_NONBLOCK.
    Blocking,
    /// For its task's next turn, if others want one.
    Turn,
}

/// Descriptors that a call makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookMakes {
    /// The result is one that concerns nobody but the kernel: of a socket, an eventfd.
    Harmless,
    /// There are two, in the call's memory, that concern nobody but the kernel.
    Two,
    /// The result is one like the first argument.
    Copy,
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
    /// It writes to the descriptor in its first argument (or where the shape says), so it matters what that
    /// is.
    pub writes: bool,
    /// It opens what this argument names.
    pub path: Option<u8>,
    /// The descriptor in this argument means something else afterwards.
    pub clears: Option<u8>,
    pub makes: Option<HookMakes>,
    /// It reads the descriptor in its first argument: the kernel may want memory that is aligned (O_DIRECT),
    /// which the log is not, and says EINVAL then.
    pub aligned: bool,
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
    "setitimer",
    "alarm",
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
    Handler::Send,
    Handler::Open,
    Handler::SigAction,
    Handler::Ftruncate,
    Handler::Fallocate,
    // The recorder asks the kernel where it must know.
    Handler::SetRobustList,
    // Of a task that has asked for cores, it is judged, and so traced.
    Handler::Getcpu,
];

/// What a hook must know of this call; none: it is always traced.
pub fn hook(row: &Row) -> Option<Hook> {
    if TRACED.contains(&row.name) {
        return None;
    }
    if let Some(hook) = shaped(row.name) {
        return Some(hook);
    }
    let mut hook = Hook { makes: makes(row.name), ..Hook::default() };
    match row.name {
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => hook.shape = HookShape::Epoll,
        "recvfrom" => hook.shape = HookShape::Receive(3),
        "open" => (hook.shape, hook.path) = (HookShape::Open(1), Some(0)),
        "openat" => (hook.shape, hook.path) = (HookShape::Open(2), Some(1)),
        "creat" | "openat2" => return None,
        "close" => hook.clears = Some(0),
        "dup2" | "dup3" => hook.clears = Some(1),
        "sendto" => {
            (hook.shape, hook.writes, hook.waits) = (HookShape::Send(3), true, Some(HookWait::Output))
        }
        "sendmsg" => {
            (hook.shape, hook.writes, hook.waits) = (HookShape::Send(2), true, Some(HookWait::Output))
        }
        "write" | "pwrite64" | "writev" | "pwritev" => {
            (hook.writes, hook.waits) = (true, Some(HookWait::Output));
        }
        "ftruncate" | "fallocate" => hook.writes = true,
        "connect" => (hook.waits, hook.clears) = (Some(HookWait::Blocking), Some(0)),
        "rt_sigprocmask" => {}
        "getrandom" => hook.shape = HookShape::Random,
        "read" | "pread64" => (hook.waits, hook.aligned) = (Some(HookWait::Input), true),
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

/// Calls whose memory a shape knows, or a few words here.
fn shaped(name: &str) -> Option<Hook> {
    let piece = |arg, size| HookPiece { arg, size, reads: true };
    let waits = Some(HookWait::Input);
    let (shape, pieces) = match name {
        "fcntl" => (HookShape::Fcntl, vec![]),
        "ioctl" => (HookShape::Ioctl, vec![]),
        "futex" => (HookShape::Futex, vec![]),
        "prctl" => (HookShape::Prctl, vec![]),
        "mmap" | "munmap" | "mprotect" | "brk" | "madvise" => (HookShape::Memory, vec![]),
        "select" | "pselect6" => (HookShape::Select, vec![]),
        "poll" => (HookShape::Poll, vec![piece(0, Size::Arg32(1, 8))]),
        "ppoll" => (HookShape::Ppoll, vec![piece(0, Size::Arg32(1, 8)), piece(2, Size::Fixed(16))]),
        "setsockopt" => (HookShape::SockOpt, vec![]),
        "getsockopt" => (HookShape::SockOpt, vec![piece(3, Size::Deref(4)), piece(4, Size::Fixed(4))]),
        // What there is to tell is written only if there is a child to tell of.
        "wait4" => (HookShape::Wait(2), vec![piece(1, Size::Fixed(4)), piece(3, Size::Fixed(144))]),
        "waitid" => (HookShape::Wait(3), vec![piece(2, Size::Fixed(128)), piece(4, Size::Fixed(144))]),
        "readv" | "preadv" | "preadv2" => {
            return Some(Hook { shape: HookShape::Vector, waits, aligned: true, ..Hook::default() });
        }
        "getrlimit" => {
            (HookShape::Rlimit(0), vec![HookPiece { arg: 1, size: Size::Fixed(16), reads: false }])
        }
        "prlimit64" => {
            (HookShape::Rlimit(1), vec![HookPiece { arg: 3, size: Size::Fixed(16), reads: false }])
        }
        // Each thread asks for it as it begins.
        "rseq" => (HookShape::Refused, vec![]),
        "recvmmsg" => return Some(Hook { shape: HookShape::Messages(3), waits, ..Hook::default() }),
        "recvmsg" => return Some(Hook { shape: HookShape::Message(2), waits, ..Hook::default() }),
        "sendmmsg" => {
            // Of each message's header, the kernel writes the length that was sent.
            let pieces = vec![piece(1, Size::Arg32(2, 64))];
            let waits = Some(HookWait::Output);
            return Some(Hook { shape: HookShape::Send(3), pieces, waits, writes: true, ..Hook::default() });
        }
        "sendfile" => {
            let pieces = vec![piece(2, Size::Fixed(8))];
            return Some(Hook { pieces, waits: Some(HookWait::Output), writes: true, ..Hook::default() });
        }
        "copy_file_range" => {
            let pieces = vec![piece(1, Size::Fixed(8)), piece(3, Size::Fixed(8))];
            return Some(Hook { shape: HookShape::Copy, pieces, writes: true, ..Hook::default() });
        }
        "sched_yield" => return Some(Hook { waits: Some(HookWait::Turn), ..Hook::default() }),
        _ => return None,
    };
    Some(Hook { shape, pieces, ..Hook::default() })
}

/// The descriptors that a call makes of which it is known what they are.
fn makes(name: &str) -> Option<HookMakes> {
    match name {
        "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "timerfd_create" | "inotify_init"
        | "inotify_init1" => Some(HookMakes::Harmless),
        "pipe" | "pipe2" | "socketpair" => Some(HookMakes::Two),
        "dup" | "dup2" | "dup3" => Some(HookMakes::Copy),
        _ => None,
    }
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
            "readv",
            "preadv2",
            "recvmsg",
            "recvmmsg",
            "sendmmsg",
            "prlimit64",
            "rseq",
            "set_robust_list",
            "select",
            "pselect6",
            "ppoll",
            "epoll_pwait2",
            "setsockopt",
            "getpeername",
            "wait4",
            "waitid",
            "prctl",
            "sendfile",
            "copy_file_range",
            "ftruncate",
            "mmap",
            "brk",
        ] {
            assert!(by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_the_recorder_must_see_is_not() {
        for name in [
            "mremap",
            "pkey_mprotect",
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
            "pause",
            "nanosleep",
            "ptrace",
            "io_uring_setup",
            "truncate",
            "close_range",
            "chdir",
            "process_vm_readv",
            "shmat",
            "set_tid_address",
            "setrlimit",
            "sched_setaffinity",
            "setns",
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
