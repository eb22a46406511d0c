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

impl Check {
    /// Something without which nothing can be recorded works.
    fn works(name: &'static str, found: String) -> Check {
        Check { name, ok: true, required: true, found, remedy: "" }
    }

    /// Such a thing does not work.
    fn fails(name: &'static str, found: String, remedy: &'static str) -> Check {
        Check { name, ok: false, required: true, found, remedy }
    }
}

/// Starts a process under trace and carries it through everything that a recording does to one, then kills
/// it.
fn try_tracing() -> Vec<Check> {
    let stopped = match try_starting() {
        Ok(stopped) => stopped,
        Err(failed) => return vec![failed],
    };
    let mut checks = vec![
        Check::works("ptrace", "a child can be traced".into()),
        Check::works("seccomp filters", "a traced filter works".into()),
    ];
    let tid = stopped.tid();
    let mut slot = Some(stopped);
    let prepared = Memory::open(tid).and_then(|memory| image::prepare_recorded(&mut slot, &memory));
    let mut writes = None;
    checks.push(match prepared {
        Ok(_) => {
            writes = Writes::begin(&mut slot, tid, Vec::new()).ok().flatten();
            Check::works("the agent", "mapped into a new process".into())
        }
        Err(error) => Check::fails("the agent", error.to_string(), "report this: it is a bug in bis"),
    });
    checks.push(try_handing_over(slot.take()));
    kill(tid);
    while sys::wait(Some(tid), true).is_ok() {}
    checks.push(written_pages(writes));
    checks
}

/// A process of ours, stopped under trace; or what does not work.
fn try_starting() -> Result<Stopped, Check> {
    spawn(true_program()).map_err(|error| match error {
        SpawnError::Child { .. } => {
            let remedy = "allow the seccomp system call (docker run --security-opt seccomp=unconfined)";
            Check::fails("seccomp filters", error.to_string(), remedy)
        }
        _ => {
            let remedy = "allow ptrace (docker run --cap-add=SYS_PTRACE; kernel.yama.ptrace_scope below 3)";
            Check::fails("ptrace", error.to_string(), remedy)
        }
    })
}

/// Another thread takes the process over, as after a fork, and kills it.
fn try_handing_over(stopped: Option<Stopped>) -> Check {
    const NAME: &str = "handing over a process";
    let Some(Ok(parked)) = stopped.map(Parked::park) else {
        return Check::fails(NAME, "not tried".into(), "see above");
    };
    let seized = std::thread::spawn(move || {
        parked.seize().map(|(stopped, _): (Stopped, bool)| {
            let found = format!("task {} changed its supervisor", stopped.tid());
            kill(stopped.tid());
            found
        })
    });
    match seized.join() {
        Ok(Ok(found)) => Check::works(NAME, found),
        Ok(Err(error)) => Check::fails(NAME, error.to_string(), "set kernel.yama.ptrace_scope to 1 or 0"),
        Err(_) => Check::fails(NAME, "a panic".into(), "report this"),
    }
}

/// Does the kernel tell which pages were written? `writes`: what has been found to tell it.
fn written_pages(writes: Option<Writes>) -> Check {
    Check {
        name: "written pages",
        ok: writes.is_some(),
        required: false,
        found: match writes {
            Some(writes) => format!("told by {}", writes.teller()),
            None => "the kernel does not tell which they are".into(),
        },
        remedy: "Linux 6.7 (in a container: allow userfaultfd), or CONFIG_MEM_SOFT_DIRTY; without, a loop that \
                 nothing near tells from its other rounds may be taken for an earlier one in replay",
    }
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
