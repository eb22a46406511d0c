//! Reports of a session as stop replies, and in words.

use bis_trace::{
    event::TaskEnd,
    types::{Signal, Tid, narrow_number},
};

use super::served::Served;
use crate::{
    protocol::{
        Client, ThreadId,
        reply::{self, Reason, Stop},
    },
    session::{Report, Why},
};

/// A call's number in the program's own table, as clients name it.
fn number(nr: u64) -> u64 {
    narrow_number(nr).map_or(nr, u64::from)
}

/// How a process has ended, for people.
pub(super) fn end_text(end: TaskEnd, pid: Tid) -> String {
    match end {
        TaskEnd::Exited(code) => format!("bis: process {pid} ends here: it exited with status {code}"),
        TaskEnd::Killed(signal) => format!("bis: process {pid} ends here: {signal} killed it"),
        TaskEnd::Exec(_) | TaskEnd::Dethreaded => format!("bis: process {pid} executes another program here"),
    }
}

/// What people are told of a process that has made another one.
pub(super) fn fork_text(pid: Tid, child: Tid, is_vfork: bool) -> String {
    if is_vfork {
        format!(
            "bis: process {pid} makes process {child} here, which has its memory until it executes a program"
        )
    } else {
        format!("bis: process {pid} makes process {child} here; `process {child}` goes to that one")
    }
}

/// The stop reply for a report.
pub(super) fn reply(client: &Served<'_>, report: &Report) -> Vec<u8> {
    if client.session.threads().is_empty() {
        return reply::exited(0, client.is_multiprocess().then(|| client.pid()));
    }
    let trap = Some(Signal::TRAP);
    let has = |feature| client.features.has(feature);
    let is_delve = client.features.client() == Client::Delve;
    let (signal, reason) = match &report.why {
        Why::Breakpoint { is_hardware: false } => {
            (trap, has("swbreak").then_some(Reason::SoftwareBreakpoint))
        }
        Why::Breakpoint { is_hardware: true } => (trap, has("hwbreak").then_some(Reason::HardwareBreakpoint)),
        Why::Watchpoint { kind, addr } => (trap, Some(Reason::Watchpoint { kind: *kind, addr: *addr })),
        Why::Step => (trap, None),
        Why::Signal(signal) => (Some(*signal), None),
        Why::Interrupted => (Some(Signal(2)), None),
        // Delve knows the two ends by rr's signals alone. At a trap where it has no breakpoint it goes on.
        Why::Begin => (trap.filter(|_| !is_delve), Some(Reason::ReplayBegin)),
        Why::End(_) if is_delve => (Some(Signal::KILL), Some(Reason::ReplayEnd)),
        Why::End(_) => (trap, Some(Reason::ReplayEnd)),
        Why::Exec(path) => (trap, has("exec-events").then(|| Reason::Exec(path.clone()))),
        Why::Call { nr, is_entry: true } => (trap, Some(Reason::SyscallEntry(number(*nr)))),
        Why::Call { nr, is_entry: false } => (trap, Some(Reason::SyscallReturn(number(*nr)))),
        Why::Fork { pid, is_vfork: false } => {
            (trap, has("fork-events").then(|| Reason::Fork(ThreadId::full(*pid, *pid))))
        }
        Why::Fork { pid, is_vfork: true } => {
            (trap, has("vfork-events").then(|| Reason::Vfork(ThreadId::full(*pid, *pid))))
        }
        Why::ThreadBegins => (trap, Some(Reason::Created)),
        // LLDB goes on by itself behind a stop without a signal.
        Why::Arrived if client.is_lldb() && report.tid == client.last.tid => (trap, None),
        Why::Arrived => (None, None),
        Why::Broken(_) => (Some(Signal(6)), None),
    };
    let stop = Stop {
        signal,
        numbers: client.numbers(),
        thread: Some(client.thread(report.tid)),
        reason,
        registers: client.with_stop(report.tid),
        lldb: client.lldb_stop(report),
        core: None,
    };
    stop.payload()
}
