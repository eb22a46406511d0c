//! Stop replies: why the program does not run any more.

use std::fmt::Write as _;

use bis_trace::types::{Addr, Signal, Tid};

use super::{
    super::{command::PointKind, signal::Numbers, thread_id::ThreadId},
    Payload, hex_string, of_process, text,
};

/// A stop of a program that can go on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stop {
    /// What the thread would get. None: it was stopped by the client or another thread.
    pub signal: Option<Signal>,
    /// Whose number of the signal the client reads.
    pub numbers: Numbers,
    pub thread: Option<ThreadId>,
    pub reason: Option<Reason>,
    /// Registers (gdb's numbers, bytes) that the client is sure to ask for.
    pub registers: Vec<(usize, Vec<u8>)>,
    /// The processor that the thread is on.
    pub core: Option<u32>,
    /// What only LLDB reads.
    pub lldb: LldbStop,
}

/// Why a thread has stopped, if not for a signal of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// At a breakpoint that was put in by `Z0`. For clients with the feature `swbreak`.
    SoftwareBreakpoint,
    /// At one of `Z1`. For clients with the feature `hwbreak`.
    HardwareBreakpoint,
    /// At a watchpoint: which kind, and the address that was accessed.
    Watchpoint {
        kind: PointKind,
        addr: Addr,
    },
    /// Replay has come to its beginning, backwards.
    ReplayBegin,
    /// Replay has come to its end.
    ReplayEnd,
    /// The new process. For clients with `fork-events`; so are those of vfork and exec for theirs.
    Fork(ThreadId),
    Vfork(ThreadId),
    VforkDone,
    /// The path of the new program.
    Exec(Vec<u8>),
    /// The new thread; for threads whose options have it.
    Clone(ThreadId),
    /// The thread is new, and the client has asked by `QThreadEvents` to know.
    Created,
    SyscallEntry(u64),
    SyscallReturn(u64),
    /// The list of libraries has changed.
    Library,
}

/// LLDB's additions to a stop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LldbStop {
    /// The thread's name.
    pub name: Option<String>,
    pub reason: Option<LldbReason>,
    /// Says in words what has happened.
    pub description: Option<String>,
    /// All threads with their program counters, if the client has sent `QListThreadsInStopReply`.
    pub threads: Vec<(Tid, u64)>,
}

/// LLDB's word for why a thread has stopped. It needs none for what [`Reason`] tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LldbReason {
    Breakpoint,
    Watchpoint,
    /// A single step is done.
    Trace,
    Signal,
    Exception,
    Exec,
    /// Another thread has stopped the program: nothing has happened to this one.
    None,
}

impl LldbReason {
    /// As the protocol writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LldbReason::Breakpoint => "breakpoint",
            LldbReason::Watchpoint => "watchpoint",
            LldbReason::Trace => "trace",
            LldbReason::Signal => "signal",
            LldbReason::Exception => "exception",
            LldbReason::Exec => "exec",
            LldbReason::None => "none",
        }
    }
}

impl Reason {
    /// As the protocol writes it.
    fn pair(&self) -> String {
        match self {
            Reason::SoftwareBreakpoint => "swbreak:".to_owned(),
            Reason::HardwareBreakpoint => "hwbreak:".to_owned(),
            Reason::Watchpoint { kind, addr } => {
                let name = match kind {
                    PointKind::Read => "rwatch",
                    PointKind::Access => "awatch",
                    _ => "watch",
                };
                format!("{name}:{addr:x}")
            }
            Reason::ReplayBegin => "replaylog:begin".to_owned(),
            Reason::ReplayEnd => "replaylog:end".to_owned(),
            Reason::Fork(child) => format!("fork:{child}"),
            Reason::Vfork(child) => format!("vfork:{child}"),
            Reason::VforkDone => "vforkdone:".to_owned(),
            Reason::Exec(path) => format!("exec:{}", hex_string(path)),
            Reason::Clone(child) => format!("clone:{child}"),
            Reason::Created => "create:".to_owned(),
            Reason::SyscallEntry(number) => format!("syscall_entry:{number:x}"),
            Reason::SyscallReturn(number) => format!("syscall_return:{number:x}"),
            Reason::Library => "library:".to_owned(),
        }
    }
}

impl Stop {
    #[must_use]
    pub fn payload(&self) -> Payload {
        let mut said = format!("T{:02x}", self.signal.map_or(0, |signal| self.numbers.of(signal)));
        // Writing to a string does not fail.
        if let Some(thread) = self.thread {
            let _ = write!(said, "thread:{thread};");
        }
        if let Some(core) = self.core {
            let _ = write!(said, "core:{core:x};");
        }
        if let Some(reason) = &self.reason {
            let _ = write!(said, "{};", reason.pair());
        }
        for (number, value) in &self.registers {
            let _ = write!(said, "{number:02x}:{};", hex_string(value));
        }
        self.lldb.add(&mut said);
        said.into_bytes()
    }
}

impl LldbStop {
    fn add(&self, said: &mut String) {
        if !self.threads.is_empty() {
            let list =
                |one: fn(&(Tid, u64)) -> String| self.threads.iter().map(one).collect::<Vec<_>>().join(",");
            let _ = write!(said, "threads:{};", list(|(tid, _)| format!("{:x}", tid.0)));
            let _ = write!(said, "thread-pcs:{};", list(|(_, pc)| format!("{pc:x}")));
        }
        if let Some(name) = &self.name {
            let _ = write!(said, "hexname:{};", hex_string(name.as_bytes()));
        }
        if let Some(reason) = self.reason {
            let _ = write!(said, "reason:{};", reason.name());
        }
        if let Some(description) = &self.description {
            let _ = write!(said, "description:{};", hex_string(description.as_bytes()));
        }
    }
}

/// A process has exited. Its id is for clients with [`super::super::Features::multiprocess`].
#[must_use]
pub fn exited(code: u8, process: Option<Tid>) -> Payload {
    text(format_args!("W{code:02x}{}", of_process(process)))
}

/// A process was killed by a signal.
#[must_use]
pub fn killed(signal: Signal, numbers: Numbers, process: Option<Tid>) -> Payload {
    text(format_args!("X{:02x}{}", numbers.of(signal), of_process(process)))
}

/// A thread has exited, and the client has asked by `QThreadEvents` to know.
#[must_use]
pub fn thread_exited(code: u8, thread: ThreadId) -> Payload {
    text(format_args!("w{code:02x};{thread}"))
}

/// No thread is left of those that were resumed. For clients with the feature `no-resumed`.
#[must_use]
pub fn no_resumed() -> Payload {
    text("N")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stop: Stop, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&stop.payload()), expected);
    }

    #[test]
    fn a_reason_is_a_pair() {
        let child = ThreadId::full(Tid(2), Tid(2));
        let check = |reason: Reason, expected: &str| {
            let thread = Some(ThreadId::full(Tid(1), Tid(0x1f)));
            let stop = Stop { signal: Some(Signal::TRAP), thread, reason: Some(reason), ..Stop::default() };
            check(stop, &format!("T05thread:p1.1f;{expected};"));
        };
        check(Reason::SoftwareBreakpoint, "swbreak:");
        check(Reason::HardwareBreakpoint, "hwbreak:");
        check(Reason::Watchpoint { kind: PointKind::Write, addr: Addr(0x7fff) }, "watch:7fff");
        check(Reason::Watchpoint { kind: PointKind::Read, addr: Addr(1) }, "rwatch:1");
        check(Reason::Watchpoint { kind: PointKind::Access, addr: Addr(1) }, "awatch:1");
        check(Reason::ReplayBegin, "replaylog:begin");
        check(Reason::ReplayEnd, "replaylog:end");
        check(Reason::Fork(child), "fork:p2.2");
        check(Reason::Vfork(child), "vfork:p2.2");
        check(Reason::VforkDone, "vforkdone:");
        check(Reason::Exec(b"/a".to_vec()), "exec:2f61");
        check(Reason::Clone(child), "clone:p2.2");
        check(Reason::Created, "create:");
        check(Reason::SyscallEntry(59), "syscall_entry:3b");
        check(Reason::SyscallReturn(1), "syscall_return:1");
        check(Reason::Library, "library:");
    }

    #[test]
    fn registers_and_what_lldb_reads() {
        check(Stop::default(), "T00");
        let lldb = LldbStop {
            name: Some("a;b".to_owned()),
            reason: Some(LldbReason::Breakpoint),
            description: Some("x".to_owned()),
            threads: vec![(Tid(1), 0x400), (Tid(10), 0x500)],
        };
        let registers = vec![(6, vec![1, 2]), (0x10, vec![0xff])];
        let stop = Stop { signal: Some(Signal::SEGV), core: Some(12), registers, lldb, ..Stop::default() };
        let of_linux = Stop { signal: Some(Signal::CHLD), numbers: Numbers::Linux, ..Stop::default() };
        check(of_linux, "T11");
        let lldb = "threads:1,a;thread-pcs:400,500;hexname:613b62;reason:breakpoint;description:78;";
        check(stop, &format!("T0bcore:c;06:0102;10:ff;{lldb}"));
    }

    #[test]
    fn ends() {
        let check = |payload: Payload, expected: &str| assert_eq!(payload, expected.as_bytes());
        check(exited(3, None), "W03");
        check(exited(255, Some(Tid(0x1f))), "Wff;process:1f");
        check(killed(Signal::CHLD, Numbers::Gdb, Some(Tid(1))), "X14;process:1");
        check(thread_exited(0, ThreadId::full(Tid(1), Tid(2))), "w00;p1.2");
        check(no_resumed(), "N");
    }
}
