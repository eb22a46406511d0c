//! What this machine allows: each thing that bis needs, tried for real.

use std::ffi::CString;

use bis_trace::types::{Fd, Tid};

use crate::{
    filter::Mode,
    handover::Parked,
    image,
    memory::Memory,
    proc,
    spawn::{Spawn, SpawnError, spawn},
    sys,
    task::Stopped,
    written::Writes,
};

/// The result of one trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// Recording is impossible without it.
    pub required: bool,
    pub found: String,
    /// What to do about it, when it is not `ok`.
    pub remedy: &'static str,
}

fn true_program() -> Spawn {
    Spawn::alone(CString::new("/proc/self/exe").expect("no NUL"), Mode::Record)
}

/// Starts a process under trace and carries it through everything that a recording does to one, then kills
/// it.
fn try_tracing() -> Vec<Check> {
    let mut checks = Vec::new();
    let mut push = |name, ok, found: String, remedy| {
        checks.push(Check { name, ok, required: true, found, remedy });
    };
    let stopped = match spawn(true_program()) {
        Ok(stopped) => stopped,
        Err(error @ SpawnError::Child { .. }) => {
            push(
                "seccomp filters",
                false,
                error.to_string(),
                "allow the seccomp system call (docker run --security-opt seccomp=unconfined)",
            );
            return checks;
        }
        Err(error) => {
            push(
                "ptrace",
                false,
                error.to_string(),
                "allow ptrace (docker run --cap-add=SYS_PTRACE; kernel.yama.ptrace_scope below 3)",
            );
            return checks;
        }
    };
    push("ptrace", true, "a child can be traced".into(), "");
    push("seccomp filters", true, "a traced filter works".into(), "");
    let tid = stopped.tid();
    let mut slot = Some(stopped);
    let prepared = Memory::open(tid).and_then(|memory| image::prepare_recorded(&mut slot, &memory));
    let mut writes = None;
    match prepared {
        Ok(_) => {
            push("the agent", true, "mapped into a new process".into(), "");
            writes = Writes::begin(&mut slot, tid, Vec::new()).ok().flatten();
        }
        Err(error) => push("the agent", false, error.to_string(), "report this: it is a bug in bis"),
    }
    match slot.take().map(Parked::park) {
        Some(Ok(parked)) => {
            // Another thread takes it over, as after a fork.
            let seized = std::thread::spawn(move || {
                parked.seize().map(|(stopped, _): (Stopped, bool)| {
                    let found = format!("task {} changed its supervisor", stopped.tid());
                    kill(stopped.tid());
                    found
                })
            });
            match seized.join() {
                Ok(Ok(found)) => push("handing over a process", true, found, ""),
                Ok(Err(error)) => push(
                    "handing over a process",
                    false,
                    error.to_string(),
                    "set kernel.yama.ptrace_scope to 1 or 0",
                ),
                Err(_) => push("handing over a process", false, "a panic".into(), "report this"),
            }
        }
        _ => push("handing over a process", false, "not tried".into(), "see above"),
    }
    kill(tid);
    while sys::wait(Some(tid), true).is_ok() {}
    checks.push(Check {
        name: "written pages",
        ok: writes.is_some(),
        required: false,
        found: match writes {
            Some(writes) => format!("told by {}", writes.teller()),
            None => "the kernel does not tell which they are".into(),
        },
        remedy: "Linux 6.7 (in a container: allow userfaultfd), or CONFIG_MEM_SOFT_DIRTY; without, a loop that \
                 nothing near tells from its other rounds may be taken for an earlier one in replay",
    });
    checks
}

fn kill(tid: Tid) {
    // It may be dead already, which is what we want.
    let _ = sys::tgkill(tid, tid, bis_trace::types::Signal::KILL);
}

/// All trials. Takes a few milliseconds, starts and kills one process.
///
/// Without the right `/proc` no process can be traced, and what fails then says nothing of the kernel or of
/// us: that is not tried.
pub fn checks() -> Vec<Check> {
    let mut checks = if proc::what_is_wrong().is_none() { try_tracing() } else { Vec::new() };
    let faulting = sys::has_cpuid_faulting();
    checks.push(Check {
        name: "CPUID faulting",
        ok: faulting,
        required: false,
        found: if faulting { "cpuid can be recorded" } else { "only cpuid in files is recorded, by hooks" }
            .into(),
        remedy: "none: recordings replay on machines with the same processor only; those without hooks run on \
                 one core, and may diverge where a program uses rdrand",
    });
    let kcmp = sys::same_open_file(Tid(i32::try_from(std::process::id()).unwrap_or(0)), Fd(0), 0);
    checks.push(Check {
        name: "kcmp",
        ok: kcmp.is_ok(),
        required: false,
        found: kcmp.map_or_else(|error| error.to_string(), |_| "open files can be compared".into()),
        remedy: "none needed: standard output is then recognised by its device and inode",
    });
    checks
}
