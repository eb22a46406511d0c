//! What commands are made of: requests, points, actions and objects, as values.

use bis_trace::types::{Addr, Signal, Tid};

use super::super::thread_id::ThreadId;

/// A request about a file. A descriptor is the server's number for an open file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileRequest {
    Open {
        path: Vec<u8>,
        flags: OpenFlags,
        /// Permission bits, which are as on Linux.
        mode: u32,
    },
    Close {
        fd: i32,
    },
    Read {
        fd: i32,
        len: u64,
        offset: u64,
    },
    Write {
        fd: i32,
        offset: u64,
        data: Vec<u8>,
    },
    /// `fstat`
    StatFd {
        fd: i32,
    },
    /// `stat`: symbolic links are followed.
    Stat {
        path: Vec<u8>,
    },
    /// `lstat`
    StatLink {
        path: Vec<u8>,
    },
    Unlink {
        path: Vec<u8>,
    },
    ReadLink {
        path: Vec<u8>,
    },
    /// `setfs`: paths are as this process sees them; none: as the server does.
    SetFilesystem {
        process: Option<Tid>,
    },
    /// LLDB's `size`
    Size {
        path: Vec<u8>,
    },
    /// LLDB's `mode`
    Mode {
        path: Vec<u8>,
    },
    /// LLDB's `exists`
    Exists {
        path: Vec<u8>,
    },
    /// LLDB's `MD5`
    Md5 {
        path: Vec<u8>,
    },
}

/// How a file is to be opened, in the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFlags(pub u64);

impl OpenFlags {
    const ACCESS: u64 = 3;

    /// Will the file be written, created or cut?
    #[must_use]
    pub fn writes(self) -> bool {
        self.0 & (OpenFlags::ACCESS | 0x8 | 0x200 | 0x400) != 0
    }
}

/// A command of LLDB's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LldbCommand {
    /// `qHostInfo`
    HostInfo,
    /// `qProcessInfo`
    ProcessInfo,
    /// `qProcessInfoPID:PID`, the id in decimal.
    ProcessInfoOf(Tid),
    /// `qRegisterInfoN`; behind the last register the answer is an error.
    RegisterInfo(u64),
    /// `qMemoryRegionInfo:ADDR`; none: is it known?
    MemoryRegion(Option<u64>),
    /// `jThreadsInfo`
    ThreadsInfo,
    /// `jThreadExtendedInfo:JSON`
    ThreadExtendedInfo(String),
    /// `qThreadStopInfoTID`
    ThreadStopInfo(ThreadId),
    /// `QThreadSuffixSupported`
    ThreadSuffix,
    /// `QListThreadsInStopReply`
    ListThreadsInStops,
    /// `QSaveRegisterState`: the answer is a decimal number for the following.
    SaveRegisters { thread: Option<ThreadId> },
    /// `QRestoreRegisterState:NUMBER`
    RestoreRegisters { number: u64, thread: Option<ThreadId> },
    /// `qShlibInfoAddr`: where the address of the dynamic linker's `r_debug` is, in the program's dynamic
    /// section.
    SharedLibraryInfo,
    /// `qGetWorkingDir`
    WorkingDirectory,
    /// `qVAttachOrWaitSupported`
    AttachOrWait,
    /// `qSupportsDetachAndStayStopped`
    DetachAndStayStopped,
    /// `qWatchpointSupportInfo`
    WatchpointSupport,
    /// `qStructuredDataPlugins`
    StructuredDataPlugins,
    /// `qEcho:TEXT`: the answer is the packet itself.
    Echo(Vec<u8>),
    /// `QEnableErrorStrings`
    ErrorStrings,
    /// `qLaunchSuccess`
    LaunchSuccess,
    /// `jGetLoadedDynamicLibrariesInfos:JSON`
    LoadedLibraries(String),
    /// `_MSIZE,PERMISSIONS`
    Allocate { size: u64, permissions: String },
    /// `_mADDR`
    Free { addr: Addr },
}

/// What a point waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PointKind {
    /// `Z0`: execution; the server may change the text for it.
    Software,
    /// `Z1`: execution; the text stays as it is.
    Hardware,
    /// `Z2`: a write that changes the bytes.
    Write,
    /// `Z3`
    Read,
    /// `Z4`: a read or a write.
    Access,
}

impl PointKind {
    /// Is it a breakpoint, rather than a watchpoint?
    #[must_use]
    pub fn is_breakpoint(self) -> bool {
        matches!(self, PointKind::Software | PointKind::Hardware)
    }
}

/// An expression for the agent's interpreter.
pub type Bytecode = Vec<u8>;

/// A breakpoint or a watchpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    pub kind: PointKind,
    pub addr: Addr,
    /// The bytes that are watched; of a breakpoint, the length of the instruction that it replaces.
    pub size: u64,
    /// The point counts if one of them is not zero, or if there are none.
    pub conditions: Vec<Bytecode>,
    /// To be run where the point counts. The program then goes on: a point with commands does not stop it, as
    /// in gdbserver.
    pub commands: Vec<Bytecode>,
    /// The commands stay when the client has gone.
    pub persist: bool,
}

/// What a thread is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Runs, and gets this signal first.
    Continue(Option<Signal>),
    /// Executes one instruction, and gets this signal first.
    Step(Option<Signal>),
    /// Steps while it is in these addresses: `start <= rip < end`. At least one instruction.
    StepRange { start: Addr, end: Addr },
    /// Stops, in non-stop mode.
    Stop,
}

/// An action, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadAction {
    pub action: Action,
    /// None: every thread that no earlier action has named.
    pub threads: Option<ThreadId>,
}

/// At which system calls the program stops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyscallCatch {
    None,
    All,
    /// At these numbers.
    Only(Vec<u64>),
}

/// A change of the environment of programs that `vRun` starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Environment {
    /// `NAME=VALUE`
    Set(Vec<u8>),
    Unset(Vec<u8>),
    /// As when the server began.
    Reset,
}

/// What is read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// The target description; the annex is a file's name, at first `target.xml`.
    Features,
    Auxv,
    Threads,
    Libraries,
    /// The dynamic linker's list; the annex may say where to start.
    LibrariesSvr4,
    /// The path of the program; the annex is a process id in hexadecimal, or empty.
    ExecFile,
    MemoryMap,
    Siginfo,
    /// A table for `info os`; the annex is its name.
    OsData,
    /// Any other, by its name.
    Other(String),
}

/// Reading or writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    Read { offset: u64, len: u64 },
    Write { offset: u64, data: Vec<u8> },
}

/// A piece of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    pub object: Object,
    pub annex: String,
    pub access: Access,
}
