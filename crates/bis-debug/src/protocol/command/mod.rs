//! Commands: what a client asks for, as values. [`parse`] makes one of a packet's payload.
//!
//! The families have a file each: `memory`, `registers`, `points` (breakpoints and watchpoints), `resume`,
//! `query` (`q`), `set` (`Q`), `verbose` (`v`), `file` (`vFile`), `transfer` (`qXfer`) and `lldb` for what
//! only LLDB sends. Numbers are hexadecimal unless said otherwise; strings that travel as hexadecimal digits
//! are here as bytes or text.

mod file;
mod lldb;
mod memory;
mod points;
mod query;
mod registers;
mod resume;
mod set;
#[cfg(test)]
mod tests;
mod transfer;
mod verbose;

use bis_trace::types::Addr;
use bis_trace::types::{Signal, Tid};

use super::{
    Malformed,
    error::Problem,
    features::Features,
    signal::Numbers,
    text::{Parsed, Text},
    thread_id::ThreadId,
};

pub use file::{FileRequest, OpenFlags};
pub use lldb::LldbCommand;
pub use points::{Bytecode, Point, PointKind};
pub use resume::{Action, ThreadAction};
pub use set::{Environment, SyscallCatch};
pub use transfer::{Access, Object, Transfer};

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

/// The command of a packet's payload, from a client that has these numbers of signals.
///
/// # Errors
/// A known packet that does not parse; the answer is [`super::reply::Errors::sentence`] of it.
pub fn parse(payload: &[u8], numbers: Numbers) -> Result<Command, Malformed> {
    let Some((first, rest)) = payload.split_first() else { return Ok(Command::Unknown) };
    by_letter(*first, Text(rest), numbers).map_err(|problem| Malformed::new(payload, problem))
}

fn by_letter(letter: u8, mut text: Text, numbers: Numbers) -> Parsed<Command> {
    match letter {
        b'!' if text.is_empty() => Ok(Command::ExtendedMode),
        b'?' if text.is_empty() => Ok(Command::StopReason),
        b'D' => detach(text),
        b'k' => Ok(Command::Kill(None)),
        b'R' => Ok(Command::Restart),
        b'H' if text.skip("g") => Ok(Command::SelectThread(thread(text)?)),
        b'H' if text.skip("c") => Ok(Command::SelectResumed(thread(text)?)),
        b'T' => Ok(Command::IsAlive(thread(text)?)),
        b'g' | b'G' | b'p' | b'P' => registers::parse(letter, text),
        b'm' | b'M' | b'x' | b'X' => memory::parse(letter, text),
        b'z' | b'Z' => points::parse(letter, text),
        b'c' | b'C' | b's' | b'S' | b'b' => resume::parse(letter, text, numbers),
        b'v' => verbose::parse(text, numbers),
        b'q' => query::parse(text),
        b'Q' => set::parse(text, numbers),
        b'_' | b'j' => lldb::parse(letter, text),
        _ => Ok(Command::Unknown),
    }
}

/// A thread id, and nothing behind it.
fn thread(mut text: Text) -> Parsed<ThreadId> {
    let thread = ThreadId::parse(&mut text)?;
    text.end()?;
    Ok(thread)
}

/// A process id, and nothing behind it.
fn process(mut text: Text) -> Parsed<Tid> {
    const PROBLEM: &str = "the process id is not a positive hexadecimal number";
    let id = text.hex_id(PROBLEM)?;
    text.end()?;
    if id > 0 { Ok(Tid(id)) } else { Err(Problem(PROBLEM)) }
}

fn detach(mut text: Text) -> Parsed<Command> {
    let stay_stopped = text.skip("1");
    let process = if text.skip(";") { Some(process(text)?) } else { text.end().map(|()| None)? };
    Ok(Command::Detach { process, stay_stopped })
}
