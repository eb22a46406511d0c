//! A fault of a recording, for somebody to look at: the process in whose supervisor it was found, as it
//! stands there.
//!
//! Its tasks are stopped where they are. They do not go on, because nothing would be recorded of that any
//! more.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bis_trace::types::{Addr, Registers, Tid};
use bis_tracee::{Memory, TraceeError, proc, sys, task};

use crate::{
    error::RecordError,
    events::Recorder,
    process::Process,
    session::Session,
    task::{Handle, Task},
};

/// How long a task may take to stop.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Is given each fault, on the thread of the supervisor that has found it. The recording ends when it
/// returns.
#[derive(Clone)]
pub struct OnFault(Arc<dyn Fn(&Fault<'_>) + Send + Sync>);

impl OnFault {
    pub fn new(show: impl Fn(&Fault<'_>) + Send + Sync + 'static) -> OnFault {
        OnFault(Arc::new(show))
    }
}

impl fmt::Debug for OnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnFault")
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Fault<'d> {
    error: &'d RecordError,
    pid: Tid,
    memory: &'d Memory,
    tasks: Vec<Standing>,
}

/// A task, with its general registers and its extended state.
#[derive(Debug)]
struct Standing {
    tid: Tid,
    registers: Registers,
    extended: Vec<u8>,
}

impl Fault<'_> {
    pub fn error(&self) -> &RecordError {
        self.error
    }

    pub fn pid(&self) -> Tid {
        self.pid
    }

    /// Those of its tasks that stand; the one that it is about is the first.
    pub fn tasks(&self) -> impl Iterator<Item = Tid> + '_ {
        self.tasks.iter().map(|task| task.tid)
    }

    /// A task's general registers and its extended state, in the kernel's layout.
    pub fn registers(&self, tid: Tid) -> Option<(&Registers, &[u8])> {
        let task = self.tasks.iter().find(|task| task.tid == tid)?;
        Some((&task.registers, &task.extended))
    }

    /// As much of its memory from an address on as is mapped without a gap.
    pub fn read(&self, addr: Addr, len: usize) -> Vec<u8> {
        self.memory.read_upto(addr, len)
    }

    /// Its auxiliary vector.
    pub fn auxv(&self) -> Vec<u8> {
        proc::read(proc::path(self.pid, "auxv")).unwrap_or_default()
    }

    /// Its executable.
    pub fn executable(&self) -> Option<PathBuf> {
        proc::executable(self.pid)
    }
}

impl Recorder<'_> {
    /// The domain cannot be recorded any more: shows it to whoever wants to look.
    pub fn show_fault(&mut self, error: &RecordError) {
        let Some(OnFault(show)) = self.session.options.on_fault.clone() else { return };
        self.stop_all();
        let first = match error {
            RecordError::Bug { tid, .. } | RecordError::Unsupported { tid, .. } => *tid,
            _ => self.watched.seat.runner(),
        };
        let mut tasks: Vec<Standing> = self.tasks.values().filter_map(|task| self.standing(task)).collect();
        tasks.sort_by_key(|task| task.tid != first);
        if tasks.is_empty() {
            tracing::info!(domain = %self.id, "no task is left that could be looked at");
            return;
        }
        if self.session.begin_look() {
            let _look = Look(&self.session);
            show(&Fault { error, pid: self.first_tid, memory: &self.memory, tasks });
        }
    }

    /// Stops the tasks that run or wait in the kernel, as far as they do.
    fn stop_all(&mut self) {
        let began = Instant::now();
        let runs = |task: &&Task| matches!(task.handle, Handle::Running(_));
        for tid in self.tasks.values().filter(runs).map(|task| task.tid) {
            // Its end may be on its way.
            let _: Result<(), TraceeError> = sys::interrupt(tid);
        }
        while self.tasks.values().any(|task| runs(&task)) && began.elapsed() < STOP_MAX {
            match task::wait_any(false) {
                Ok(Some((tid, status))) => self.note(tid, status),
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Err(_) => return,
            }
        }
    }
}

impl Process {
    /// Where a task stands, in the program's own text; in a hook it stands where it stands.
    fn standing(&self, task: &Task) -> Option<Standing> {
        let Handle::Stopped(stopped) = &task.handle else { return None };
        let (registers, extended) = (stopped.regs().ok()?, stopped.xstate().ok()?);
        Some(Standing { tid: task.tid, registers: self.own_registers(&registers), extended })
    }
}

/// Somebody looks at a fault. The recording ends when it is dropped.
struct Look<'s>(&'s Session);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.0.end_look();
    }
}
