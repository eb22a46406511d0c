//! Which calls the agent's hooks may make without a stop, and what a hook must know of each.
//!
//! Most rows say it by themselves: a call that waits for nobody, whose memory its arguments' kinds describe,
//! and that the recorder need not know of. The exceptions in both directions are a column of the row.

use crate::model::{Blocks, How, Kind, Row, Size};
use crate::plan::Dir;

macro_rules! shapes {
    ($(#[$meta:meta])* pub enum $enum:ident { $($(#[$of:meta])* $name:ident,)* }) => {
        $(#[$meta])*
        pub enum $enum { $($(#[$of])* $name,)* }

        impl $enum {
            /// All of them by their names, each at its own number.
            pub const ALL: &[(&str, $enum)] = &[$((stringify!($name), $enum::$name),)*];
        }
    };
}

shapes! {
    /// What a hook has to find out when a call is made: calls whose memory depends on what is asked, or that
    /// can be tried without waiting. For each but the first, the hooks have a function of that name
    /// (`shapes.c`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(u8)]
    pub enum HookShape {
        /// Nothing.
        #[default]
        Plain,
        /// Only commands with plain arguments.
        Fcntl,
        /// Only a few requests of terminals, pipes and sockets.
        Ioctl,
        /// Waking, and waiting where the word has changed already.
        Futex,
        /// `flags` is the argument with the flags.
        Open,
        /// The argument that holds the timeout in milliseconds is 2.
        Poll,
        /// The argument that holds the timeout, or points to it (`epoll_pwait2`), is 3.
        Epoll,
        /// select and pselect6.
        Select,
        /// Reads into the vectors in argument 1.
        Vector,
        /// `flags` is the argument with the options; with WNOHANG, or where nobody else waits.
        Wait,
        /// `flags` is the argument with the flags of a message that is received, whose header is in argument
        /// 1; not MSG_TRUNC or MSG_ERRQUEUE.
        Message,
        /// `flags` is the argument with the flags, for one message without a header.
        Receive,
        /// `flags` is the argument with the flags of a message that is sent.
        Send,
        /// The argument that points to the timeout is 2, and to a mask of signals 3.
        Ppoll,
        /// Only options without pointers of their own.
        Sockopt,
        /// The name of the task, which capabilities there are, and names of memory.
        Prctl,
        /// What is written to is the descriptor in argument 2.
        Copy,
        /// `flags` is the argument with the flags, for several messages, whose headers are in argument 1.
        Messages,
        /// `flags` is the argument that says which limit is asked for: not that of the address space, of
        /// which the recorder knows what the program has set; and prlimit64 only where argument 2 is null.
        Rlimit,
        /// One that is refused as unknown (ENOSYS) whatever its arguments: the hook says so.
        Refused,
        /// Random bytes: many of them only where nobody waits for the task.
        Random,
        /// Not a new action for SIGSEGV, which the recorder wants to know.
        Sigaction,
        /// It changes the address space, in memory of which the recorder knows nothing, or what the kernel
        /// keeps of the task (`memory.c`).
        Memory,
        /// An exec of what is not there (ENOENT): the hook looks whether it is.
        Exec,
        /// A new file in memory, but for that of a sound server's clients.
        Memfd,
        /// It waits for a disk, which cannot be asked: only where nobody waits for the task.
        Disk,
    }
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

/// What a hook must know of a call beside its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    pub shape: HookShape,
    /// The argument that holds the flags, if the shape wants to know.
    pub flags: u8,
    /// It waits unless its descriptor is ready.
    pub waits: Option<HookWait>,
    /// It writes to the descriptor in its first argument (or where the shape says), so it matters what that
    /// is.
    pub writes: bool,
    /// It opens, or looks for, what this argument names.
    pub path: Option<u8>,
    /// The descriptor in this argument means something else afterwards.
    pub clears: Option<u8>,
    pub makes: Option<HookMakes>,
    /// It reads the descriptor in its first argument: the kernel may want memory that is aligned (O_DIRECT),
    /// which the log is not, and says EINVAL then.
    pub aligned: bool,
}

impl Rule {
    pub(crate) const PLAIN: Rule = Rule::of(HookShape::Plain);

    pub(crate) const fn of(shape: HookShape) -> Rule {
        Rule {
            shape,
            flags: 0,
            waits: None,
            writes: false,
            path: None,
            clears: None,
            makes: None,
            aligned: false,
        }
    }

    pub(crate) const fn flags(self, arg: u8) -> Rule {
        Rule { flags: arg, ..self }
    }

    pub(crate) const fn waits(self, waits: HookWait) -> Rule {
        Rule { waits: Some(waits), ..self }
    }

    pub(crate) const fn writes(self) -> Rule {
        Rule { writes: true, ..self }
    }

    pub(crate) const fn path(self, arg: u8) -> Rule {
        Rule { path: Some(arg), ..self }
    }

    pub(crate) const fn clears(self, arg: u8) -> Rule {
        Rule { clears: Some(arg), ..self }
    }

    pub(crate) const fn makes(self, makes: HookMakes) -> Rule {
        Rule { makes: Some(makes), ..self }
    }

    pub(crate) const fn aligned(self) -> Rule {
        Rule { aligned: true, ..self }
    }
}

/// Memory that the kernel may read, too, or of which it leaves parts alone.
pub(crate) const fn piece(arg: u8, size: Size) -> HookPiece {
    HookPiece { arg, size, reads: true }
}

impl HookPiece {
    /// All of it is written.
    pub(crate) const fn written(self) -> HookPiece {
        HookPiece { reads: false, ..self }
    }
}

/// What a row says of its hook.
#[derive(Clone, Copy, Debug)]
pub enum Hooked {
    /// Nothing: the rest of the row does. A hook makes a call of which the plan says all, whose memory its
    /// arguments' kinds describe, and that waits for nobody, or only for its descriptor.
    ByKinds,
    /// No hook makes it, although the rest of the row would allow that, for this reason.
    Not(&'static str),
    /// A hook makes it. Its memory is what the kinds describe.
    As(Rule),
    /// A hook makes it. Its memory is this, or what the shape knows.
    For(Rule, &'static [HookPiece]),
}

impl Row {
    pub(crate) const fn traced(self, why: &'static str) -> Row {
        Row { hooked: Hooked::Not(why), ..self }
    }

    pub(crate) const fn hooked(self, rule: Rule) -> Row {
        Row { hooked: Hooked::As(rule), ..self }
    }

    pub(crate) const fn hooked_for(self, rule: Rule, pieces: &'static [HookPiece]) -> Row {
        Row { hooked: Hooked::For(rule, pieces), ..self }
    }
}

/// A call that the hooks may make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hook {
    pub rule: Rule,
    /// At most three.
    pub pieces: Vec<HookPiece>,
}

/// What a hook must know of this call; none: it is always traced.
pub fn hook(row: &Row) -> Option<Hook> {
    let rule = match row.hooked {
        Hooked::Not(_) => return None,
        Hooked::For(rule, pieces) => return Some(Hook { rule, pieces: pieces.to_vec() }),
        Hooked::As(rule) => rule,
        Hooked::ByKinds if row.how != How::Plain || row.family.is_some() => return None,
        Hooked::ByKinds => match row.blocks {
            Blocks::Never => Rule::PLAIN,
            Blocks::ByFd => Rule::PLAIN.waits(HookWait::Input),
            Blocks::May | Blocks::ByFdIf(_) | Blocks::If(_) => return None,
        },
    };
    let mut pieces = Vec::new();
    for (arg, kind) in (0u8..).zip(row.args) {
        let (size, reads) = match kind.kind {
            Kind::Out(size) => (size, false),
            Kind::InOut(size) => (size, true),
            Kind::Via(Dir::Out | Dir::InOut) | Kind::Always(_) | Kind::Rem(_) => return None,
            _ => continue,
        };
        pieces.push(HookPiece { arg, size, reads });
    }
    (pieces.len() <= 3).then_some(Hook { rule, pieces })
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
            "execve",
            "memfd_create",
            "rseq",
            "set_robust_list",
            "set_tid_address",
            "arch_prctl",
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
            "execveat",
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
        assert_eq!(accept.rule.waits, Some(HookWait::Input));
        assert!(by_name("write").unwrap().pieces.is_empty());
    }
}
