//! Starting a process under the calling thread's supervision: fork, seize, filter, exec.
//!
//! The order matters. The child may install its filter only when a tracer is there to answer it (without one
//! every call would fail with ENOSYS), so it first waits for a byte on a pipe. From the filter on, its calls
//! stop at the supervisor, which lets them through until the exec has succeeded. A failure before that comes
//! back through a second pipe that the exec closes.

use std::{
    ffi::CString,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    sync::mpsc,
    thread,
};

use bis_trace::types::{Signal, Tid};

use crate::{
    balance::Seat,
    error::{Result, TraceeError},
    filter::{self, Mode},
    ours, sys,
    task::{self, Resume, Running, Status, Stopped},
};

/// What to execute.
#[derive(Debug)]
pub enum Program {
    Path(CString),
    /// An open executable file.
    File(OwnedFd),
}

#[derive(Debug)]
pub struct Spawn {
    pub program: Program,
    pub argv: Vec<CString>,
    pub envp: Vec<CString>,
    pub cwd: Option<CString>,
    /// The limit of open files that the program gets; none: ours.
    pub file_limit: Option<libc::rlimit>,
    pub mode: Mode,
}

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The child could not get as far as the program.
    #[error("failed to {step}: {source}")]
    Child { step: &'static str, source: io::Error },
    #[error("failed to start a process: {0}")]
    Fork(#[source] io::Error),
    #[error(transparent)]
    Tracee(#[from] TraceeError),
}

/// The steps of the child, in order; a failed one is reported by its place here.
const STEPS: [&str; 5] = [
    "turn off address space randomisation (personality is refused: a container's seccomp profile?)",
    "enter the working directory",
    "give up new privileges",
    "install the seccomp filter (is seccomp allowed here?)",
    "execute the program",
];

#[repr(C)]
struct FilterProgram {
    len: u16,
    filter: *const filter::Instruction,
}

/// Everything that the child needs, laid out before the fork: after it, only system calls are made.
struct Prepared {
    path: *const libc::c_char,
    file: RawFd,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    cwd: *const libc::c_char,
    file_limit: Option<libc::rlimit>,
    filter: Vec<filter::Instruction>,
    parent: libc::pid_t,
    go: RawFd,
    failed: RawFd,
    /// Addresses are to be the same each time.
    fixed: bool,
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// Runs in the forked child; returns only the step that failed.
///
/// # Safety
/// Must run in a freshly forked child, and the pointers in `prepared` must be valid C strings and
/// null-terminated vectors of such. Only async-signal-safe calls are made.
unsafe fn child(prepared: &Prepared) -> (u8, i32) {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: as the function's contract says; each call gets what its manual asks for.
    unsafe {
        // Nobody traces it yet: if the supervisor is killed now, only this ends it. The end of the pipe would
        // not come, because this process, and whatever else is forked meanwhile, have the pipe's other end
        // too.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut byte = 0u8;
        if libc::getppid() != prepared.parent || libc::read(prepared.go, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(127);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        // Rust's runtime ignores SIGPIPE: the program gets it as we did. Our handlers are reset by exec.
        libc::signal(libc::SIGPIPE, ours::inherited_sigpipe());
        let old = if prepared.fixed { libc::personality(0xffff_ffff) } else { 0 };
        let fixed = (old | libc::ADDR_NO_RANDOMIZE).cast_unsigned().into();
        if prepared.fixed && (old == -1 || libc::personality(fixed) == -1) {
            return (0, errno());
        }
        if let Some(limit) = &prepared.file_limit {
            // Lowering a soft limit cannot fail.
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        if !prepared.cwd.is_null() && libc::chdir(prepared.cwd) != 0 {
            return (1, errno());
        }
        let program = FilterProgram {
            len: u16::try_from(prepared.filter.len()).unwrap_or(0),
            filter: prepared.filter.as_ptr(),
        };
        let install = || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        if install() != 0 {
            // Without CAP_SYS_ADMIN a filter may be had only by who gives up set-user-ID programs.
            if errno() != libc::EACCES {
                return (3, errno());
            }
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                return (2, errno());
            }
            if install() != 0 {
                return (3, errno());
            }
        }
        if prepared.path.is_null() {
            libc::execveat(
                prepared.file,
                c"".as_ptr(),
                prepared.argv.as_ptr().cast(),
                prepared.envp.as_ptr().cast(),
                libc::AT_EMPTY_PATH,
            );
        } else {
            libc::execve(prepared.path, prepared.argv.as_ptr(), prepared.envp.as_ptr());
        }
        (4, errno())
    }
}

fn fork_child(prepared: &Prepared) -> Result<Tid, SpawnError> {
    // Not libc's: that holds all of malloc's locks, and who gets nothing of its core in the middle of it
    // would keep everybody waiting, also the thread that sends it to another core.
    // SAFETY: the child only runs `child` and `_exit`: no allocation, no lock, no unwinding, and nothing that
    // asks libc for the thread's id.
    unsafe {
        match libc::syscall(libc::SYS_fork) {
            -1 => Err(SpawnError::Fork(io::Error::last_os_error())),
            0 => {
                let (step, errno) = child(prepared);
                let [a, b, c, d] = errno.to_le_bytes();
                let report = [step, a, b, c, d];
                libc::write(prepared.failed, report.as_ptr().cast(), report.len());
                libc::_exit(127)
            }
            pid => Ok(Tid(i32::try_from(pid).unwrap_or(-1))),
        }
    }
}

/// Forks in a thread of its own, which ends when `then` has returned: the child's parent is the first thread
/// of this process then. (A thread's wait for its tasks also finds its children, whoever traces them.)
fn fork_elsewhere<T>(
    prepared: &Prepared,
    then: impl FnOnce(Tid) -> Result<T, SpawnError>,
) -> Result<T, SpawnError> {
    struct Lent<'a>(&'a Prepared);
    // SAFETY: all that it points to outlives the thread, and nobody changes it.
    unsafe impl Send for Lent<'_> {}
    let lent = Lent(prepared);
    let (tell, told) = mpsc::channel();
    let (over, is_over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let fork = move || {
            let lent = lent;
            let _ = tell.send(fork_child(lent.0));
            let _ = is_over.recv();
        };
        thread::Builder::new().name("parent".into()).spawn_scoped(scope, fork).map_err(SpawnError::Fork)?;
        let tid = told.recv().unwrap_or_else(|_| Err(SpawnError::Fork(io::ErrorKind::Other.into())))?;
        let result = then(tid);
        drop(over);
        result
    })
}

/// As [`spawn_in`], for a supervisor that nobody sends to another core.
///
/// # Errors
/// As [`spawn_in`].
pub fn spawn(spec: &Spawn) -> Result<Stopped, SpawnError> {
    spawn_in(spec, &Seat::default())
}

/// Starts the program and returns it stopped at the exit of its execve: nothing of it has run yet. The
/// calling thread is its supervisor, and but with [`Mode::Watch`] its kernel parent. The new process is the
/// seat's runner before it runs at all: it may starve on its core before the exec.
///
/// # Errors
/// [`SpawnError::Child`] when the program could not be executed; the child is gone then.
pub fn spawn_in(spec: &Spawn, seat: &Seat) -> Result<Stopped, SpawnError> {
    let (go_read, go_write) = io::pipe().map_err(SpawnError::Fork)?;
    let (failed_read, failed_write) = io::pipe().map_err(SpawnError::Fork)?;
    let prepared = Prepared {
        path: if let Program::Path(path) = &spec.program { path.as_ptr() } else { ptr::null() },
        file: if let Program::File(file) = &spec.program { file.as_raw_fd() } else { -1 },
        argv: pointers(&spec.argv),
        envp: pointers(&spec.envp),
        cwd: spec.cwd.as_ref().map_or(ptr::null(), |cwd| cwd.as_ptr()),
        file_limit: spec.file_limit,
        filter: filter::program(spec.mode),
        parent: std::process::id().cast_signed(),
        go: go_read.as_raw_fd(),
        failed: failed_write.as_raw_fd(),
        fixed: spec.mode != Mode::Watch,
    };
    let pipes = Pipes { go_read, go_write, failed_read, failed_write };
    match spec.mode {
        Mode::Watch => fork_elsewhere(&prepared, |tid| executed(tid, pipes)),
        Mode::Record | Mode::Replay => {
            let tid = fork_child(&prepared)?;
            seat.set_runner(tid);
            executed(tid, pipes)
        }
    }
}

/// What the new process and its supervisor say to each other before the exec.
struct Pipes {
    go_read: PipeReader,
    go_write: PipeWriter,
    failed_read: PipeReader,
    failed_write: PipeWriter,
}

/// Seizes the new process, and brings it to the exit of its execve.
fn executed(tid: Tid, pipes: Pipes) -> Result<Stopped, SpawnError> {
    let Pipes { go_read, mut go_write, mut failed_read, failed_write } = pipes;
    drop((go_read, failed_write));
    if let Err(error) = sys::seize(tid) {
        // It waits for a word that nobody will say.
        sys::kill(tid, Signal::KILL)?;
        task::wait_for(tid)?;
        return Err(error.into());
    }
    go_write.write_all(&[1]).map_err(SpawnError::Fork)?;

    let mut running = Running::new(tid);
    loop {
        let status = task::wait_for(tid)?;
        let (how, signal) = match status {
            Status::Exited(_) | Status::Killed(_) => {
                let mut report = [0u8; 5];
                if failed_read.read_exact(&mut report).is_err() {
                    let source = io::Error::other(format!("the new process {status}"));
                    return Err(SpawnError::Child { step: "prepare the new process", source });
                }
                let [step, errno @ ..] = report;
                return Err(SpawnError::Child {
                    step: STEPS[usize::from(step).min(STEPS.len() - 1)],
                    source: io::Error::from_raw_os_error(i32::from_le_bytes(errno)),
                });
            }
            // The way out of execve: the registers set there stay.
            Status::Exec(_) => (Resume::Syscall, None),
            Status::Syscall => return Ok(running.stopped()),
            Status::Signal(signal) => (Resume::Cont, Some(signal)),
            _ => (Resume::Cont, None),
        };
        running = running.stopped().resume(how, signal)?;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        io::{BufRead, BufReader},
        process::{Command, Stdio},
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    fn spawn_path(path: &str, mode: Mode) -> Result<Stopped, SpawnError> {
        let path = CString::new(path).unwrap();
        let argv = vec![path.clone()];
        spawn(&Spawn { program: Program::Path(path), argv, envp: vec![], cwd: None, file_limit: None, mode })
    }

    #[test]
    fn a_program_stops_before_its_first_instruction_and_then_runs() {
        let stopped = spawn_path("/bin/true", Mode::Record).unwrap();
        let tid = stopped.tid();
        assert_eq!(stopped.regs().unwrap().rax, 0);
        let mut running = stopped.resume(Resume::Cont, None).unwrap();
        let mut calls = 0;
        loop {
            match task::wait_for(tid).unwrap() {
                Status::Exited(code) => {
                    assert_eq!(code, 0);
                    break;
                }
                Status::Seccomp => calls += 1,
                _ => {}
            }
            running = running.stopped().resume(Resume::Cont, None).unwrap();
        }
        assert!(calls > 5, "every call stops at the supervisor, found {calls}");
    }

    #[test]
    fn a_missing_program_is_an_error_with_its_cause() {
        let error = spawn_path("/nonexistent", Mode::Record).unwrap_err();
        let SpawnError::Child { step, source } = error else { panic!("{error}") };
        assert_eq!((step, source.raw_os_error()), ("execute the program", Some(libc::ENOENT)));
    }

    /// Set in the process that is killed.
    const KILLED: &str = "BIS_TEST_FORKS";

    /// The moment in which nobody traces the new process yet.
    #[test]
    fn a_new_process_ends_when_its_supervisor_is_killed_at_once() {
        if env::var_os(KILLED).is_some() {
            let ((go_read, _go_write), (_, failed_write)) = (io::pipe().unwrap(), io::pipe().unwrap());
            let prepared = Prepared {
                path: ptr::null(),
                file: -1,
                argv: pointers(&[]),
                envp: pointers(&[]),
                cwd: ptr::null(),
                file_limit: None,
                filter: Vec::new(),
                parent: std::process::id().cast_signed(),
                go: go_read.as_raw_fd(),
                failed: failed_write.as_raw_fd(),
                fixed: true,
            };
            println!("\nforked {}", fork_child(&prepared).unwrap());
            loop {
                thread::park();
            }
        }
        let name = "spawn::tests::a_new_process_ends_when_its_supervisor_is_killed_at_once";
        let mut supervisor = Command::new(env::current_exe().unwrap());
        supervisor.args(["--exact", "--nocapture", name]).env(KILLED, "1").stdout(Stdio::piped());
        let mut supervisor = supervisor.spawn().unwrap();
        let mut lines = BufReader::new(supervisor.stdout.take().unwrap()).lines();
        let tid = lines.find_map(|line| line.unwrap().strip_prefix("forked ").map(str::to_owned)).unwrap();
        let tid = Tid(tid.parse().unwrap());
        assert!(task::is_alive(tid));
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        let begun = Instant::now();
        while task::is_alive(tid) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{tid} is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
