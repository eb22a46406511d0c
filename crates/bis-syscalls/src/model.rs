//! What a row of the table says: the words for a system call's arguments, for whether it can block, and for
//! who records it. Plain data; how a row becomes a plan is in `plan.rs`, what the rows say in `family/`.

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
    /// Memory that the kernel writes when a signal interrupts the call.
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

/// Who records a call.
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
    SchedGetaffinity,
    SchedSetaffinity,
    Open,
    Truncate,
    Ftruncate,
    Fallocate,
    Write,
    Writev,
    Pwrite64,
    Pwritev,
    Pwritev2,
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
}
