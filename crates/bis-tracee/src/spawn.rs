//! Starting a process under the calling thread's supervision: fork, seize, filter, exec.
//!
//! A replayer starts a process for each image of the trace. To copy its own page tables for that, and to
//! throw them away at the exec, would cost more than all else; so there the child runs in the replayer's
//! memory, on a stack of its own, until its exec.
//!
//! The order matters. The child may install its filter only when a tracer is there to answer it (without one
//! every call would fail with ENOSYS), so it first waits for a byte on a pipe. From the filter on, its calls
//! stop at the supervisor, which lets them through until the exec has succeeded. A failure before that comes
//! back through a second pipe that the exec closes.

use std::{
    ffi::CString,
    fs::File,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsRawFd, RawFd},
    ptr,
    sync::{Arc, mpsc},
    thread,
};

use bis_trace::types::{Fd, Signal, Tid};

use crate::{
    balance::Seat,
    error::{Result, TraceeError},
    filter::{self, Mode, Refused},
    ours, sys,
    task::{self, Resume, Running, Status, Stopped},
};

/// What to execute.
#[derive(Debug)]
pub enum Program {
    Path(CString),
    /// An open executable file.
    File(Arc<File>),
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
    /// For the mode of replay.
    pub refused: Refused,
    /// What the program has open, too, under the numbers that they have here.
    pub files: Vec<Arc<File>>,
    /// `rdtsc` and `rdtscp` fault in it from its begin.
    pub rdtsc_faults: bool,
}

impl Spawn {
    /// A program by its path, with no argument but that, and nothing else.
    pub(crate) fn alone(path: CString, mode: Mode) -> Spawn {
        Spawn {
            argv: vec![path.clone()],
            program: Program::Path(path),
            envp: vec![],
            cwd: None,
            file_limit: None,
            mode,
            refused: Refused::default(),
            files: vec![],
            rdtsc_faults: false,
        }
    }
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
    "enter the working directory",
    "make rdtsc fault",
    "give up new privileges",
    "install the seccomp filter (is seccomp allowed here?)",
    "execute the program",
];

#[repr(C)]
struct FilterProgram {
    len: u16,
    filter: *const filter::Instruction,
}

/// Bytes of the stack of a child in our memory.
const STACK_LEN: usize = 64 << 10;

/// Bytes of a set of signals, as the kernel has them.
const MASK_LEN: u64 = 8;

/// Everything that the child needs, laid out before the fork: after it, only system calls are made.
struct Prepared {
    /// The signals that are blocked in the program, where all are until shortly before its exec.
    mask: Option<u64>,
    path: *const libc::c_char,
    file: RawFd,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    cwd: *const libc::c_char,
    file_limit: Option<libc::rlimit>,
    filter: Vec<filter::Instruction>,
    parent: libc::pid_t,
    sigpipe: libc::sighandler_t,
    /// Standard streams that bis was started without are closed.
    closes_streams: bool,
    /// Those are open in the program, too.
    files: Vec<RawFd>,
    rdtsc_faults: bool,
    go: RawFd,
    failed: RawFd,
    /// Addresses are to be the same each time, where the kernel lets us say so.
    fixed: bool,
}

impl Prepared {
    /// It points to what `spec` has. The child's ends of the two pipes are `go` and `failed`.
    fn of(spec: &Spawn, [go, failed]: [RawFd; 2]) -> Prepared {
        Prepared {
            mask: None,
            path: if let Program::Path(path) = &spec.program { path.as_ptr() } else { ptr::null() },
            file: if let Program::File(file) = &spec.program { file.as_raw_fd() } else { -1 },
            argv: pointers(&spec.argv),
            envp: pointers(&spec.envp),
            cwd: spec.cwd.as_ref().map_or(ptr::null(), |cwd| cwd.as_ptr()),
            file_limit: spec.file_limit,
            filter: filter::program(spec.mode, &spec.refused),
            parent: std::process::id().cast_signed(),
            sigpipe: ours::inherited_sigpipe(),
            files: spec.files.iter().map(|file| file.as_raw_fd()).collect(),
            rdtsc_faults: spec.rdtsc_faults,
            closes_streams: !matches!(spec.mode, Mode::Replay(_)),
            go,
            failed,
            fixed: spec.mode != Mode::Watch,
        }
    }
}

/// All memory that a child in our memory uses. Where it is not known what has become of the child (a wait has
/// failed, say), the child may still read its arguments and stand on its stack. So this lies on the heap, and
/// is freed only when the child is known to have left our memory.
struct Lent {
    prepared: Prepared,
    stack: Vec<u128>,
    /// `prepared` points to its strings; boxed, so that it stays where it is.
    _spec: Box<Spawn>,
}

impl Lent {
    fn leak(spec: Spawn, ends: [RawFd; 2]) -> &'static mut Lent {
        let spec = Box::new(spec);
        let prepared = Prepared::of(&spec, ends);
        let stack = vec![0; STACK_LEN / size_of::<u128>()];
        Box::leak(Box::new(Lent { prepared, stack, _spec: spec }))
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// A system call that touches nothing of libc's, which may be another thread's: no errno.
///
/// # Safety
/// As the call's manual says.
unsafe fn bare(nr: i64, args: [u64; 5]) -> i64 {
    let [rdi, rsi, rdx, r10, r8] = args;
    let mut result = nr;
    // SAFETY: the kernel changes rax, rcx and r11 alone; memory is the caller's to know.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") rdi, in("rsi") rsi, in("rdx") rdx, in("r10") r10, in("r8") r8,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

const fn number(value: i32) -> u64 {
    value.cast_unsigned() as u64
}

fn address<T>(of: *const T) -> u64 {
    of.addr() as u64
}

/// As [`bare`], a `prctl`.
///
/// # Safety
/// As the call's manual says.
unsafe fn prctl(what: i32, args: [u64; 3]) -> i64 {
    // SAFETY: as the function's contract says.
    unsafe { bare(libc::SYS_prctl, [number(what), args[0], args[1], args[2], 0]) }
}

/// Runs in the new child; returns only the step that failed, and why.
///
/// # Safety
/// Must run in a freshly made child, and the pointers in `prepared` must be valid C strings and
/// null-terminated vectors of such. The child may share its maker's memory: only bare system calls are made.
unsafe fn child(prepared: &Prepared) -> (u8, i64) {
    // SAFETY: as the function's contract says.
    unsafe {
        await_tracer(prepared);
        be_as_asked(prepared);
        if let Err(failed) = enter_folder(prepared) {
            return (0, failed);
        }
        if prepared.rdtsc_faults {
            // An exec leaves it (`arch_setup_new_exec`, arch/x86/kernel/process.c).
            let failed = prctl(libc::PR_SET_TSC, [number(libc::PR_TSC_SIGSEGV), 0, 0]);
            if failed != 0 {
                return (1, failed);
            }
        }
        if let Some(mask) = &prepared.mask {
            let (how, mask) = (number(libc::SIG_SETMASK), address(&raw const *mask));
            bare(libc::SYS_rt_sigprocmask, [how, mask, 0, MASK_LEN, 0]);
        }
        if let Err(failed) = install_filter(prepared) {
            return failed;
        }
        (4, execute(prepared))
    }
}

/// Waits until the child is traced. It ends where its maker does meanwhile.
///
/// # Safety
/// As for [`child`].
unsafe fn await_tracer(prepared: &Prepared) {
    // SAFETY: each call gets what its manual asks for.
    unsafe {
        // Nobody traces it yet: if the supervisor is killed now, only this ends it. The end of the pipe would
        // not come, because this process, and whatever else is forked meanwhile, have the pipe's other end
        // too.
        prctl(libc::PR_SET_PDEATHSIG, [number(libc::SIGKILL), 0, 0]);
        let mut byte = 0u8;
        let read = [number(prepared.go), address(&raw mut byte), 1, 0, 0];
        if bare(libc::SYS_getppid, [0; 5]) != prepared.parent.into() || bare(libc::SYS_read, read) != 1 {
            bare(libc::SYS_exit_group, [127, 0, 0, 0, 0]);
        }
        prctl(libc::PR_SET_PDEATHSIG, [0; 3]);
    }
}

/// The streams, the action at SIGPIPE, the personality and the limit of descriptors become what the program
/// is to begin with.
///
/// # Safety
/// As for [`child`].
unsafe fn be_as_asked(prepared: &Prepared) {
    /// What rt_sigaction takes: the handler, flags, a way back, and signals.
    #[repr(C)]
    struct Action([u64; 4]);
    // SAFETY: each call gets what its manual asks for.
    unsafe {
        // Rust's runtime ignores SIGPIPE: the program gets it as we did. Our handlers are reset by exec.
        let action = Action([prepared.sigpipe as u64, 0, 0, 0]);
        for fd in (0..3).filter(|fd| prepared.closes_streams && ours::was_closed(Fd(*fd))) {
            bare(libc::SYS_close, [number(fd), 0, 0, 0, 0]);
        }
        for fd in &prepared.files {
            bare(libc::SYS_fcntl, [number(*fd), number(libc::F_SETFD), 0, 0, 0]);
        }
        bare(libc::SYS_rt_sigaction, [number(libc::SIGPIPE), address(&raw const action), 0, MASK_LEN, 0]);
        let personality = |persona: u64| bare(libc::SYS_personality, [persona, 0, 0, 0, 0]);
        if prepared.fixed {
            // Many containers refuse it (Docker's own filter does): addresses are random then.
            let old = personality(0xffff_ffff);
            if old >= 0 {
                personality(old.cast_unsigned() | number(libc::ADDR_NO_RANDOMIZE));
            }
        }
        if let Some(limit) = &prepared.file_limit {
            // Lowering a soft limit cannot fail.
            let limit = address(&raw const *limit);
            bare(libc::SYS_setrlimit, [libc::RLIMIT_NOFILE.into(), limit, 0, 0, 0]);
        }
    }
}

/// The program begins in its folder. What the kernel says where it cannot.
///
/// # Safety
/// As for [`child`].
unsafe fn enter_folder(prepared: &Prepared) -> Result<(), i64> {
    if prepared.cwd.is_null() {
        return Ok(());
    }
    // SAFETY: as for `child`: it is a C string.
    match unsafe { bare(libc::SYS_chdir, [address(prepared.cwd), 0, 0, 0, 0]) } {
        0 => Ok(()),
        failed => Err(failed),
    }
}

/// Installs the filter. The step that has failed, and what the kernel says, where it cannot be had.
///
/// # Safety
/// As for [`child`].
unsafe fn install_filter(prepared: &Prepared) -> Result<(), (u8, i64)> {
    // SAFETY: each call gets what its manual asks for; the program lives until they are made.
    unsafe {
        let program = FilterProgram {
            len: u16::try_from(prepared.filter.len()).unwrap_or(0),
            filter: prepared.filter.as_ptr(),
        };
        let filter = [u64::from(libc::SECCOMP_MODE_FILTER), address(&raw const program), 0];
        let mut installed = prctl(libc::PR_SET_SECCOMP, filter);
        // Without CAP_SYS_ADMIN a filter may be had only by a process that gives up set-user-ID programs.
        if installed == -i64::from(libc::EACCES) {
            let given_up = prctl(libc::PR_SET_NO_NEW_PRIVS, [1, 0, 0]);
            if given_up != 0 {
                return Err((2, given_up));
            }
            installed = prctl(libc::PR_SET_SECCOMP, filter);
        }
        match installed {
            0 => Ok(()),
            failed => Err((3, failed)),
        }
    }
}

/// Executes the program. It returns only what the kernel says where it cannot.
///
/// # Safety
/// As for [`child`].
unsafe fn execute(prepared: &Prepared) -> i64 {
    // SAFETY: as for `child`: they are C strings, and vectors of such.
    unsafe {
        let (argv, envp) = (address(prepared.argv.as_ptr()), address(prepared.envp.as_ptr()));
        if prepared.path.is_null() {
            let (file, name) = (number(prepared.file), address(c"".as_ptr()));
            bare(libc::SYS_execveat, [file, name, argv, envp, number(libc::AT_EMPTY_PATH)])
        } else {
            bare(libc::SYS_execve, [address(prepared.path), argv, envp, 0, 0])
        }
    }
}

/// All of a child's life before its exec.
///
/// # Safety
/// As for [`child`].
unsafe fn live(prepared: &Prepared) -> ! {
    // SAFETY: as the function's contract says.
    unsafe {
        let (step, failed) = child(prepared);
        let [a, b, c, d, ..] = failed.wrapping_neg().to_le_bytes();
        let report = [step, a, b, c, d];
        let written = [number(prepared.failed), address(report.as_ptr()), report.len() as u64, 0, 0];
        bare(libc::SYS_write, written);
        loop {
            bare(libc::SYS_exit_group, [127, 0, 0, 0, 0]);
        }
    }
}

fn new_child(made: i64) -> Result<Tid, SpawnError> {
    match made {
        -1 => Err(SpawnError::Fork(io::Error::last_os_error())),
        pid => Ok(Tid(i32::try_from(pid).unwrap_or(-1))),
    }
}

fn fork_child(prepared: &Prepared) -> Result<Tid, SpawnError> {
    // Not libc's: that holds all of malloc's locks, and a thread that gets nothing of its core in the middle
    // of it would keep everybody waiting, also the thread that sends it to another core. SAFETY: the child
    // only runs `live`: no allocation, no lock, no unwinding, and nothing of libc's.
    unsafe {
        match libc::syscall(libc::SYS_fork) {
            0 => live(prepared),
            made => new_child(made),
        }
    }
}

extern "C" fn begin_in_our_memory(prepared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller of `child_in_our_memory` lets it live for as long as the child is in our memory.
    unsafe { live(&*prepared.cast::<Prepared>()) }
}

/// Makes a child that is in this process's memory until its exec, or its end.
///
/// # Safety
/// `lent` must be left alone, and live, until the child is known to have got there.
unsafe fn child_in_our_memory(lent: &mut Lent) -> Result<Tid, SpawnError> {
    let Lent { prepared, stack, .. } = lent;
    let (all, mut mask) = (u64::MAX, 0u64);
    // Our handlers are not to run in the child: they would take it for the thread that has made it.
    // SAFETY: both sets are as long as the kernel reads and writes.
    unsafe {
        let how = number(libc::SIG_SETMASK);
        bare(libc::SYS_rt_sigprocmask, [how, address(&raw const all), address(&raw mut mask), MASK_LEN, 0]);
    }
    prepared.mask = Some(mask);
    let flags = libc::CLONE_VM | libc::SIGCHLD;
    // SAFETY: the stack is the child's alone, and aligned; the child runs `live` on it, which makes bare
    // system calls only, so it does not matter that the thread's libc state is shared.
    let made = unsafe {
        let top = stack.as_mut_ptr_range().end;
        libc::clone(begin_in_our_memory, top.cast(), flags, (&raw mut *prepared).cast())
    };
    let made = new_child(made.into());
    // SAFETY: as above.
    unsafe {
        bare(libc::SYS_rt_sigprocmask, [number(libc::SIG_SETMASK), address(&raw const mask), 0, MASK_LEN, 0]);
    }
    made
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
pub fn spawn(spec: Spawn) -> Result<Stopped, SpawnError> {
    spawn_in(spec, &Seat::default())
}

/// Starts the program and returns it stopped at the exit of its execve: nothing of it has run yet. The
/// calling thread is its supervisor, and with [`Mode::Replay`] its kernel parent. The new process is the
/// seat's runner before it runs at all: it may starve on its core before the exec.
///
/// # Errors
/// [`SpawnError::Child`] when the program could not be executed; the child is gone then.
pub fn spawn_in(spec: Spawn, seat: &Seat) -> Result<Stopped, SpawnError> {
    let (go_read, go_write) = io::pipe().map_err(SpawnError::Fork)?;
    let (failed_read, failed_write) = io::pipe().map_err(SpawnError::Fork)?;
    let ends = [go_read.as_raw_fd(), failed_write.as_raw_fd()];
    let pipes = Pipes { go_read, go_write, failed_read, failed_write };
    match spec.mode {
        Mode::Watch => fork_elsewhere(&Prepared::of(&spec, ends), |tid| executed(tid, pipes)),
        // Not by this thread: the program may make children for its parent (CLONE_PARENT), and what these say
        // to their own supervisors would come here.
        Mode::Record => fork_elsewhere(&Prepared::of(&spec, ends), |tid| {
            seat.set_runner(tid);
            executed(tid, pipes)
        }),
        Mode::Replay(_) => {
            let lent = Lent::leak(spec, ends);
            // SAFETY: nobody touches it, and it is freed only behind the exec.
            let tid = unsafe { child_in_our_memory(lent)? };
            seat.set_runner(tid);
            let stopped = executed(tid, pipes)?;
            // SAFETY: it was a box, and the child, which alone had pointers to it, has memory of its own.
            drop(unsafe { Box::from_raw(lent) });
            Ok(stopped)
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
        // Where it is another thread's child, there is nothing to wait for.
        let _ = task::wait_for(tid);
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
        spawn(spec(path, argv, mode))
    }

    fn spec(path: CString, argv: Vec<CString>, mode: Mode) -> Spawn {
        Spawn { argv, ..Spawn::alone(path, mode) }
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
        for mode in [Mode::Record, Mode::Replay(filter::HookedChanges::Stop)] {
            let error = spawn_path("/nonexistent", mode).unwrap_err();
            let SpawnError::Child { step, source } = error else { panic!("{error}") };
            assert_eq!((step, source.raw_os_error()), ("execute the program", Some(libc::ENOENT)));
        }
    }

    /// Set in the process that is killed.
    const KILLED: &str = "BIS_TEST_FORKS";

    /// The moment in which nobody traces the new process yet.
    #[test]
    fn a_new_process_ends_when_its_supervisor_is_killed_at_once() {
        if env::var_os(KILLED).is_some() {
            let ((go_read, _go_write), (_, failed_write)) = (io::pipe().unwrap(), io::pipe().unwrap());
            let ends = [go_read.as_raw_fd(), failed_write.as_raw_fd()];
            let lent = Lent::leak(
                spec(c"/bin/true".to_owned(), Vec::new(), Mode::Replay(filter::HookedChanges::Stop)),
                ends,
            );
            println!("\nforked {}", fork_child(&lent.prepared).unwrap());
            // SAFETY: it is never freed.
            println!("forked {}", unsafe { child_in_our_memory(lent) }.unwrap());
            loop {
                thread::park();
            }
        }
        let name = "spawn::tests::a_new_process_ends_when_its_supervisor_is_killed_at_once";
        let mut supervisor = Command::new(env::current_exe().unwrap());
        supervisor.args(["--exact", "--nocapture", name]).env(KILLED, "1").stdout(Stdio::piped());
        let mut supervisor = supervisor.spawn().unwrap();
        let mut lines = BufReader::new(supervisor.stdout.take().unwrap()).lines();
        let mut next = || {
            let tid =
                lines.find_map(|line| line.unwrap().strip_prefix("forked ").map(str::to_owned)).unwrap();
            Tid(tid.parse().unwrap())
        };
        let children = [next(), next()];
        assert!(children.into_iter().all(task::is_alive));
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        let begun = Instant::now();
        while children.into_iter().any(task::is_alive) {
            assert!(begun.elapsed() < Duration::from_secs(20), "one of {children:?} is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
