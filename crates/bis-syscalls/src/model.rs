//! What a row of the table says: the words for a system call's arguments, for whether it can block, and for
//! who records it. Plain data; how a row becomes a plan is in `plan.rs`, what the rows say in `family/`.

use crate::arguments::{LimitCall, MakesTask, Opens, Receiver, SleepFn, Transfer, Vdso};
use crate::hooks::Hooked;
use crate::plan::{Builder, Dir, Verdict};

/// A system call as a task is about to make it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The number in `rax`, of the x86-64 ABI.
    pub nr: u64,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
}

impl Call {
    /// Argument `i` (0..=5) as the kernel reads an `unsigned int`.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of an int argument")]
    pub fn u32(&self, i: usize) -> u32 {
        self.args[i] as u32
    }

    /// Argument `i` (0..=5) as the kernel reads an `int`.
    #[expect(clippy::cast_possible_wrap, reason = "the kernel's own reading of an int argument")]
    pub fn i32(&self, i: usize) -> i32 {
        self.u32(i) as i32
    }
}

/// A function of a family that adds a call's pieces of memory where its argument kinds cannot say them.
pub type PlanFn = fn(&mut Builder<'_>) -> Verdict;

/// One system call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub nr: u64,
    /// The kernel's name.
    pub name: &'static str,
    /// At most six.
    pub args: &'static [Arg],
    pub blocks: Blocks,
    pub how: How,
    /// What a reader of the support table should know; empty if there is nothing to say.
    pub note: &'static str,
    /// Gives the plan in place of the argument kinds.
    pub family: Option<PlanFn>,
    /// The file whose content or length it changes.
    pub target: Option<Target>,
    /// The bytes that it moves between a descriptor and memory.
    pub transfer: Option<Transfer>,
    /// The file that it opens by its name.
    pub opens: Option<Opens>,
    /// The task that it makes: where it says how.
    pub makes: Option<MakesTask>,
    /// Whom it sends a signal, where that may be the caller itself.
    pub receiver: Option<Receiver>,
    /// The limit that it is about.
    pub limit: Option<LimitCall>,
    /// It may end a timer whose signal has come already.
    pub sets_timer: bool,
    /// It takes signals that are blocked, and would take one that carries another.
    pub takes_signals: bool,
    /// Whether it is certain that it waits.
    pub sleep: Option<SleepFn>,
    /// When it fails, it may have done a part of what it is for.
    pub fails_halfway: bool,
    /// It gives no error where what is left of its time has no place to go (`poll_select_finish`).
    pub ignores_lost_time: bool,
    /// The vdso has a function for it.
    pub vdso: Option<Vdso>,
    /// Does the kernel make it again after a signal that interrupts it and has no handler, or one with
    /// SA_RESTART? Those that it never does are in signal(7).
    pub restarts: bool,
    /// Whether a hook may make it, and what that must know beside the rest of the row.
    pub hooked: Hooked,
}

/// The file whose content or length a call changes: which arguments (0..=5) say which file, and where in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    pub file: FileArg,
    pub start: Start,
    /// What is written comes from this descriptor, not from the program's memory.
    pub from: Option<u8>,
    /// What is written lies in a vector of buffers.
    pub is_vector: bool,
    /// Flags of which one (RWF_APPEND) says that the file's end is where it begins.
    pub flags: Option<u8>,
}

/// An argument that names a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileArg {
    Fd(u8),
    /// From the current folder on.
    Path(u8),
}

/// Where in its file a call begins to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At the descriptor's position, which the call moves.
    Position,
    /// At this argument; -1: at the position.
    Given(u8),
    /// At the number behind this pointer, which the call moves; none: at the position.
    Behind(u8),
}

impl Target {
    pub(crate) const fn fd(index: u8) -> Target {
        let (file, start) = (FileArg::Fd(index), Start::Position);
        Target { file, start, from: None, is_vector: false, flags: None }
    }

    pub(crate) const fn path(index: u8) -> Target {
        Target { file: FileArg::Path(index), ..Target::fd(index) }
    }

    pub(crate) const fn at(self, start: Start) -> Target {
        Target { start, ..self }
    }

    pub(crate) const fn from(self, fd: u8) -> Target {
        Target { from: Some(fd), ..self }
    }

    pub(crate) const fn vector(self) -> Target {
        Target { is_vector: true, ..self }
    }

    pub(crate) const fn flags(self, index: u8) -> Target {
        Target { flags: Some(index), ..self }
    }

    /// Where a call with these arguments says that it begins to write, if it says so by itself.
    pub fn given(&self, args: [u64; 6]) -> Option<u64> {
        match self.start {
            Start::Given(index) => Some(args[usize::from(index)]).filter(|at| *at != u64::MAX),
            Start::Position | Start::Behind(_) => None,
        }
    }

    /// The pointer to where it begins to write, if it is given one.
    pub fn behind(&self, args: [u64; 6]) -> Option<u64> {
        match self.start {
            Start::Behind(index) => Some(args[usize::from(index)]).filter(|pointer| *pointer != 0),
            Start::Position | Start::Given(_) => None,
        }
    }

    /// Does a call with these arguments write at the file's end, whatever its descriptor says?
    pub fn appends(&self, args: [u64; 6]) -> bool {
        const RWF_APPEND: u64 = 0x10;
        self.flags.is_some_and(|index| args[usize::from(index)] & RWF_APPEND != 0)
    }
}

/// A named argument.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    pub name: &'static str,
    pub kind: Kind,
}

/// What an argument is: how it is shown, and which memory is behind it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A signed 32-bit number.
    Int,
    /// An unsigned 32-bit number.
    Uint,
    /// A signed 64-bit number: offsets, times.
    Long,
    /// An unsigned 64-bit number: sizes, counts.
    Size,
    /// A number that reads best in hexadecimal: flags, addresses that are not followed.
    Hex,
    /// A file mode, octal.
    Mode,
    /// A file descriptor.
    Fd,
    /// A file descriptor or AT_FDCWD.
    DirFd,
    /// A signal number.
    Sig,
    /// A number with names.
    Names(&'static Names),
    /// A path or name that the kernel reads.
    Path,
    /// Memory that the kernel only reads, with no pointer to memory that it writes.
    In,
    /// Memory that the kernel writes on success, and does not read.
    Out(Size),
    /// Memory that the kernel reads, and writes on success; or writes at most as much as said.
    InOut(Size),
    /// Memory that the kernel may write whatever the result is.
    Always(Size),
    /// Memory that the kernel writes when anything interrupts the call; also where the call goes on after
    /// that, and ends as if nothing had: a recorder interrupts it more often.
    Rem(Size),
    /// Memory whose shape a function of the family knows.
    Via(Dir),
    /// A pointer that is kept, not followed, or followed in a way that the recorder knows.
    Ptr,
}

/// The size in bytes of the memory behind a pointer argument, and how much of it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Always this many, all written.
    Fixed(u64),
    /// Argument `.0` (64 bits) times `.1`, all written.
    Arg(u8, u64),
    /// Argument `.0` (32 bits unsigned) times `.1`, all written.
    Arg32(u8, u64),
    /// Room for argument `.0` (64 bits) times `.1`; written is the call's result times `.1`.
    Ret(u8, u64),
    /// As `Ret`, with the low 32 bits of the argument; a negative one means no room.
    Ret32(u8, u64),
    /// Room for the 32-bit number at argument `.0`; written is what that number is after the call.
    Deref(u8),
}

/// Names for numbers, for showing them.
#[derive(Debug)]
pub struct Names {
    /// Whether the number is a set of bits (else one value).
    pub bits: bool,
    pub names: &'static [(u64, &'static str)],
}

/// Whether a call can wait for something that another task does.
#[derive(Clone, Copy, Debug)]
pub enum Blocks {
    Never,
    May,
    /// If the descriptor in the first argument can.
    ByFd,
    /// If the descriptor in the first argument can and the function says so.
    ByFdIf(fn(&Call) -> bool),
    /// If the function says so.
    If(fn(&Call) -> bool),
}

/// How a call is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// The plan says all: make the call and record what it wrote.
    Plain,
    /// The recorder does something special; the plan still gives the plain memory that the call writes.
    Recorder(Handler),
    /// The recorder makes the call fail with this errno, without making it.
    Refused(i32),
    /// What the call writes is not known: all memory is compared.
    Slow,
}

/// The calls that the recorder carries out specially.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Handler {
    Mmap,
    Munmap,
    Mprotect,
    PkeyMprotect,
    Mremap,
    Brk,
    Madvise,
    RemapFilePages,
    Shmat,
    Shmdt,
    Clone,
    Clone3,
    Fork,
    Vfork,
    Execve,
    Execveat,
    Exit,
    ExitGroup,
    SigReturn,
    SigAction,
    SetTidAddress,
    SetRobustList,
    ArchPrctl,
    Prctl,
    Seccomp,
    Personality,
    RestartSyscall,
    ProcessVmReadv,
    ProcessVmWritev,
    Getcpu,
    SchedGetaffinity,
    SchedSetaffinity,
    Getrlimit,
    Setrlimit,
    Prlimit,
    Open,
    Truncate,
    Ftruncate,
    Fallocate,
    MemfdCreate,
    Write,
    Writev,
    Pwrite64,
    Pwritev,
    Pwritev2,
    Send,
    Sendfile,
    Splice,
    Tee,
    Vmsplice,
    CopyFileRange,
    Ioctl,
    Kill,
    Tkill,
    Tgkill,
    RtSigqueueinfo,
    RtTgsigqueueinfo,
    PidfdSendSignal,
    Ptrace,
    Wait,
}

impl Handler {
    /// Does the call change what is mapped, or how?
    pub fn changes_mappings(self) -> bool {
        use Handler::{
            Brk, Madvise, Mmap, Mprotect, Mremap, Munmap, PkeyMprotect, RemapFilePages, Shmat, Shmdt,
        };
        matches!(
            self,
            Mmap | Munmap | Mprotect | PkeyMprotect | Mremap | Brk | Madvise | RemapFilePages | Shmat | Shmdt
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{row, rows};

    fn arg(row: &Row, index: u8) -> &Arg {
        &row.args[usize::from(index)]
    }

    #[test]
    fn a_target_is_said_by_arguments_of_the_right_kinds() {
        let mut count = 0;
        for (row, target) in rows().iter().filter_map(|row| Some((row, row.target?))) {
            let is_fd = |index: u8| matches!(arg(row, index).kind, Kind::Fd);
            let is_right = match target.file {
                FileArg::Fd(index) => is_fd(index),
                FileArg::Path(index) => matches!(arg(row, index).kind, Kind::Path),
            } && match target.start {
                Start::Position => true,
                Start::Given(index) => matches!(arg(row, index).kind, Kind::Long | Kind::Hex),
                Start::Behind(index) => matches!(arg(row, index).kind, Kind::InOut(Size::Fixed(8))),
            } && target.from.is_none_or(is_fd)
                && target.is_vector == row.args.iter().any(|arg| arg.name == "iov")
                && target.flags.is_none_or(|index| arg(row, index).name == "flags");
            assert!(is_right, "{}: {target:?}", row.name);
            count += 1;
        }
        assert_eq!(count, 13);
    }

    #[test]
    fn a_write_begins_where_its_row_says() {
        let target =
            |nr: i64| row(nr.cast_unsigned()).and_then(|row| row.target).expect("a call that writes");
        let args = [3, 0x1000, 8, 4096, 0, 0];
        let pwrite = target(libc::SYS_pwrite64);
        assert_eq!((pwrite.given(args), pwrite.behind(args)), (Some(4096), None));
        let splice = target(libc::SYS_splice);
        assert_eq!((splice.given(args), splice.behind(args)), (None, Some(4096)));
        assert_eq!(splice.behind([3, 0, 4, 0, 8, 0]), None, "no pointer");
        let pwritev2 = target(libc::SYS_pwritev2);
        assert_eq!(pwritev2.given([3, 0x1000, 1, u64::MAX, 0, 0]), None, "-1 is the position");
        assert!(pwritev2.appends([3, 0x1000, 1, 0, 0, 0x10]) && !pwrite.appends([3, 0x1000, 1, 0, 0, 0x10]));
    }
}
