//! What a client asks for, as a value.

use bis_trace::types::{Addr, Signal, Tid};

use super::{
    super::{features::Features, thread_id::ThreadId},
    parts::{
        Action, Environment, FileRequest, LldbCommand, Point, PointKind, SyscallCatch, ThreadAction, Transfer,
    },
};

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Anything that is not in this list; the answer is the empty packet.
    Unknown,
    /// `vMustReplyEmpty`: the answer is the empty packet too.
    MustReplyEmpty,

    // The session.
    /// `qSupported`.
    Supported(Features),
    /// `QStartNoAckMode`: behind the answer to this, packets are not acknowledged.
    StartNoAck,
    /// `!`
    ExtendedMode,
    /// `?`
    StopReason,
    /// `D`, `D;PID`; with LLDB's `D1` the program stays stopped.
    Detach { process: Option<Tid>, stay_stopped: bool },
    /// `k`, `vKill;PID`. The answer to `k`, which names no process, is the end of the connection.
    Kill(Option<Tid>),
    /// `R`: run from the beginning.
    Restart,
    /// `vRun;PROGRAM;ARGUMENT...`
    Run { program: Vec<u8>, arguments: Vec<Vec<u8>> },
    /// `vAttach;PID`
    Attach(Tid),
    /// `qAttached`, `qAttached:PID`
    Attached(Option<Tid>),
    /// `QNonStop`
    NonStop(bool),
    /// `vStopped`: the next stop, in non-stop mode.
    NextStop,
    /// `vCtrlC`: an interrupt in non-stop mode.
    Interrupt,

    // Threads.
    /// `Hg`: whose registers and memory the following packets are about.
    SelectThread(ThreadId),
    /// `Hc`: what the following `c`, `s`, `bc` and `bs` are about.
    SelectResumed(ThreadId),
    /// `T`: does the thread exist?
    IsAlive(ThreadId),
    /// `qC`
    CurrentThread,
    /// `qfThreadInfo`
    FirstThreads,
    /// `qsThreadInfo`
    MoreThreads,
    /// `qThreadExtraInfo,THREAD`
    ThreadExtraInfo(ThreadId),
    /// `qGetTLSAddr:THREAD,OFFSET,MAP`: where a thread's variable is. `map` is the address of the library's
    /// link map.
    TlsAddress { thread: ThreadId, offset: u64, map: u64 },
    /// `QThreadEvents`
    ThreadEvents(bool),
    /// `QThreadOptions`: option bits, and for whom (none: for all that are not named).
    ThreadOptions(Vec<(u64, Option<ThreadId>)>),

    // Registers. `thread` is LLDB's suffix; without, it is the thread of `Hg`.
    /// `g`
    ReadRegisters { thread: Option<ThreadId> },
    /// `G`
    WriteRegisters { data: Vec<u8>, thread: Option<ThreadId> },
    /// `p`
    ReadRegister { number: u64, thread: Option<ThreadId> },
    /// `P`
    WriteRegister { number: u64, data: Vec<u8>, thread: Option<ThreadId> },

    // Memory.
    /// `m`
    ReadMemory { addr: Addr, len: u64 },
    /// `x`: the answer is binary.
    ReadMemoryBinary { addr: Addr, len: u64 },
    /// `M`, `X`. Clients write nothing at all to learn whether `X` is known.
    WriteMemory { addr: Addr, data: Vec<u8> },
    /// `qSearch:memory`
    Search { addr: Addr, len: u64, pattern: Vec<u8> },
    /// `qCRC`
    Checksum { addr: Addr, len: u64 },

    // Breakpoints and watchpoints.
    /// `Z`. A point that is there already gets the new conditions and commands.
    InsertPoint(Point),
    /// `z`
    RemovePoint { kind: PointKind, addr: Addr, size: u64 },

    // Running.
    /// `vCont?`
    ResumeActions,
    /// `vCont`: the first action that fits a thread is the thread's; a thread that none fits stays stopped.
    Resume(Vec<ThreadAction>),
    /// `c`, `C`, `s`, `S`: the threads of `Hc` do this, from this address.
    ResumeSelected { action: Action, addr: Option<Addr> },
    /// `bc`
    ReverseContinue,
    /// `bs`
    ReverseStep,

    // Files and objects.
    /// `vFile`
    File(FileRequest),
    /// `qXfer`
    Transfer(Transfer),

    // Queries.
    /// `qOffsets`
    Offsets,
    /// `qSymbol::`: symbols can be asked for.
    SymbolsReady,
    /// `qSymbol:VALUE:NAME`: the answer to such a question; none: there is no such symbol.
    Symbol { name: String, value: Option<u64> },
    /// `qRcmd`: `monitor`.
    Monitor(String),
    /// `qRRCmd`: a command of rr, as Delve and the scripts of rr and Midas send it. `thread` is which thread
    /// the client looks at, if it says.
    RrCommand { name: String, thread: Option<Tid>, arguments: Vec<String> },

    // Settings.
    /// `QPassSignals`: signals that the program gets without a stop. Those that Linux does not have are left
    /// out.
    PassSignals(Vec<Signal>),
    /// `QProgramSignals`: signals that the program may get when it is resumed with one.
    ProgramSignals(Vec<Signal>),
    /// `QCatchSyscalls`
    CatchSyscalls(SyscallCatch),
    /// `QSetWorkingDir`; none: that of the server.
    SetWorkingDir(Option<Vec<u8>>),
    /// `QDisableRandomization`, LLDB's `QSetDisableASLR`
    DisableRandomization(bool),
    /// `QStartupWithShell`
    StartupWithShell(bool),
    /// `QEnvironment...`
    Environment(Environment),
    /// `QAgent`
    Agent(bool),

    /// What only LLDB sends.
    Lldb(LldbCommand),
}

impl Command {
    /// Does it let the program go on, or back, from where it is?
    #[must_use]
    pub fn is_resume(&self) -> bool {
        matches!(
            self,
            Command::Resume(_)
                | Command::ResumeSelected { .. }
                | Command::ReverseContinue
                | Command::ReverseStep
        )
    }

    /// Does it begin anew?
    #[must_use]
    pub fn is_run(&self) -> bool {
        matches!(self, Command::Run { .. } | Command::Restart)
    }
}
