//! Programs that are left out of the recording: an exec of one starts it outside (`bis_tracee::outside`), and
//! the recorded process executes a stand-in instead, which waits for it.
//!
//! The exec is entered twice. The first time, the program is started, and the process gets what its stand-in
//! needs; the calls for that cost it the call that it is in, so it makes it again. The second time, it is
//! made an exec of the stand-in. A program that cannot be started fails as an exec does.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use bis_agent::{MEMFD_NAME, STAND_IN_ELF};
use bis_syscalls::own;
use bis_trace::types::{Addr, Fd, Registers, Tid};
use bis_tracee::{
    Memory, Stopped,
    lent::Lent,
    outside::{self, Outside},
    proc::{self, Fields},
    remote::Remote,
    sys,
};

use super::StandIn;
use crate::{
    calls::{Entry, Exit, args::ExecArgs},
    crew::{Crew, with_slot},
    domain::Domain,
    error::Result,
    process::Process,
};

/// The fields of /proc/PID/status that say what a process may do.
const MAY: [&str; 8] = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// Why a process of ours would not be what this one is. A program that is left out must not get out of a
/// sandbox.
fn why_not(pid: Tid, status: Option<&Fields>) -> Option<&'static str> {
    let own = Fields::of_this_thread();
    let is_other = |name: &str| {
        let field = |status: Option<&Fields>| Some(status?.text(name)?.to_owned());
        let its = field(status);
        its.is_none() || its != field(own.as_ref())
    };
    if MAY.iter().any(|name| is_other(name)) {
        return Some("its user, groups or capabilities are not those of bis");
    }
    let differs = |name: String| {
        let (its, ours) = (proc::link(pid, &name), proc::link(bis_tracee::ours::thread_id(), &name));
        its.is_none() || its != ours
    };
    if differs("root".into()) || NAMESPACES.iter().any(|name| differs(format!("ns/{name}"))) {
        return Some("it has a root folder or namespaces of its own");
    }
    None
}

fn errno_of(error: &io::Error) -> i64 {
    -i64::from(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Domain {
    /// At the entry of an exec.
    pub fn enter_exec(&mut self, tid: Tid, exec: ExecArgs) -> Result<Entry> {
        if let Some(entry) = self.enter_left_out(tid, &exec)? {
            return Ok(entry);
        }
        if let Some(entry) = self.enter_unreadable(tid, &exec)? {
            return Ok(entry);
        }
        let pid = self.task(tid)?.pid;
        self.session.mail.begin_exec(pid);
        self.ask_robust_list(tid);
        let writes = self.orphaned_futexes(tid);
        self.task(tid)?.named.begin_exec(writes);
        self.session.limits.bare(pid);
        Ok(Entry::Make)
    }

    /// At the entry of an exec: what becomes of it, if its program is to be left out. None: it goes on as an
    /// exec.
    fn enter_left_out(&mut self, tid: Tid, exec: &ExecArgs) -> Result<Option<Entry>> {
        let (nr, entry) = (self.call(tid)?.entry.nr(), self.call(tid)?.entry.regs());
        let is_same =
            |stand_in: &StandIn| (stand_in.entry.rip, stand_in.entry.args()) == (entry.rip, entry.args());
        if let Some(stand_in) = self.task(tid)?.stand_in.filter(is_same) {
            self.enter_stand_in(tid, exec, stand_in)?;
            return Ok(None);
        }
        let is_asked = nr == own::NUMBER;
        let is_refused = is_asked.then_some(Entry::Done(-i64::from(libc::EPERM)));
        let Some((named, path)) = self.left_out_program(tid, exec, is_asked) else { return Ok(is_refused) };
        let pid = self.task(tid)?.pid;
        let status = Fields::of(tid);
        let is_confined = self
            .task(tid)?
            .traits
            .wishes
            .held
            .sandbox
            .is_there()
            .then_some("it has seccomp filters of its own");
        let shown = path.display();
        if let Some(why) = is_confined.or_else(|| why_not(tid, status.as_ref())) {
            let text =
                format!("process {pid} executes {shown}, which is not left out of the recording: {why}");
            self.session.note(self.session.writer.next_seq(), text)?;
            return Ok(is_refused);
        }
        match self.begin_outside(tid, exec, &named, status.as_ref())? {
            Ok((image, channel, blocked)) => {
                self.session.left_out(pid);
                self.session.note(
                    self.session.writer.next_seq(),
                    format!("process {pid} executes {shown}, which is left out of the recording"),
                )?;
                self.task(tid)?.stand_in = Some(StandIn { image, channel, entry, blocked });
                self.task(tid)?.call = None;
                self.undo(tid, &entry)?;
                Ok(Some(Entry::Undone))
            }
            Err(error) => Ok(Some(Entry::Done(errno_of(&error)))),
        }
    }
}

impl Process {
    /// An exec has come back.
    pub fn leave_exec(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let pid = self.task(it.tid)?.pid;
        self.session.mail.end_exec(pid);
        self.renew_limit(it.tid)?;
        self.leave_no_stand_in(it.tid)
    }
}

impl Crew {
    /// The program of an exec that is to be left out, if it is: what the task calls it, and where it is. With
    /// `is_asked`, any program is.
    fn left_out_program(&self, tid: Tid, exec: &ExecArgs, is_asked: bool) -> Option<(PathBuf, PathBuf)> {
        let patterns = &self.session.options.left_out;
        if !is_asked && patterns.is_empty() {
            return None;
        }
        let found = self.program(tid, exec)?;
        let path = fs::canonicalize(&found).ok()?;
        let is_program =
            fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        let named = named(tid, &found);
        let is_meant = is_asked || patterns.iter().any(|left| left.matches(&named, &path));
        (is_program && is_meant).then_some((named, path))
    }

    /// Starts the program. The descriptors of the stand-in's program and of its socket, and the signals that
    /// were blocked.
    fn begin_outside(
        &mut self,
        tid: Tid,
        exec: &ExecArgs,
        path: &Path,
        status: Option<&Fields>,
    ) -> Result<io::Result<(Fd, Fd, u64)>> {
        let outside = match self.outside_like(tid, exec, path, status)? {
            Ok(outside) => outside,
            Err(error) => return Ok(Err(error)),
        };
        let pid = self.task(tid)?.pid;
        with_slot(self, tid, |crew, slot| {
            let (image, channel, file) = match make_descriptors(slot, pid, &crew.memory)? {
                Ok(made) => made,
                Err(error) => return Ok(Err(error)),
            };
            let mask = |slot: &mut Option<Stopped>, mask| {
                slot.as_mut().map_or(Ok(()), |task| task.set_sigmask(mask))
            };
            mask(slot, u64::MAX)?;
            let outside = outside(file);
            let started = outside::start(&outside);
            let told = match &started {
                // The stand-in gets it.
                Ok(()) => keep_open(slot, channel),
                Err(_) => close_all(slot, &[image, channel]),
            };
            if started.is_err() || told.is_err() {
                mask(slot, outside.blocked)?;
            }
            told?;
            Ok(started.map(|()| (image, channel, outside.blocked)))
        })
    }

    /// The program outside, with all that it would have from the task that executes it; the socket's other
    /// end is still to come.
    fn outside_like(
        &mut self,
        tid: Tid,
        exec: &ExecArgs,
        path: &Path,
        status: Option<&Fields>,
    ) -> Result<io::Result<impl FnOnce(File) -> Outside + use<>>> {
        let pid = self.task(tid)?.pid;
        let blocked = self.stopped(tid)?.sigmask()?;
        let strings = |addr| -> Result<Vec<CString>> {
            let strings = self.memory.read_strings(addr)?;
            Ok(strings.into_iter().filter_map(|string| CString::new(string).ok()).collect())
        };
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
            return Ok(Err(io::Error::from_raw_os_error(libc::ENOENT)));
        };
        let (argv, envp) = (strings(exec.argv)?, strings(exec.envp)?);
        let traits = &self.task(tid)?.traits;
        let (nice, affinity) = (traits.nice, self.session.affinities.of(tid));
        let affinity = affinity.unwrap_or_else(|| self.session.cores.original.clone());
        let number = |name, radix| status.and_then(|status| status.number(name, radix)).unwrap_or(0);
        let umask = u32::try_from(number("Umask", 8)).unwrap_or(0o022);
        let ignored = number("SigIgn", 16);
        let (group, _) = outside::group_and_session(pid);
        let folder = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(proc::path(tid, "cwd"));
        let (cwd, files) = match folder.and_then(|cwd| Ok((cwd, outside::kept_files(pid)?))) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let mut limits = outside::limits(pid);
        if let (Some(own), Some(limit)) =
            (self.session.limits.own(pid), limits.get_mut(libc::RLIMIT_AS as usize))
        {
            (limit.rlim_cur, limit.rlim_max) = (own.soft, own.hard);
        }
        Ok(Ok(move |channel| Outside {
            path,
            argv,
            envp,
            cwd,
            files,
            group,
            umask,
            nice,
            affinity,
            limits,
            blocked,
            ignored,
            channel,
        }))
    }

    /// The exec of the stand-in has failed, and the program outside is killed.
    fn leave_no_stand_in(&mut self, tid: Tid) -> Result<()> {
        let Some(stand_in) = self.task(tid)?.stand_in.take() else { return Ok(()) };
        let fds = [stand_in.image, stand_in.channel];
        let closed = with_slot(self, tid, |_, slot| close_all(slot, &fds));
        self.stopped(tid)?.set_sigmask(stand_in.blocked)?;
        closed
    }

    /// The exec becomes one of the stand-in, with the same arguments and variables.
    fn enter_stand_in(&mut self, tid: Tid, exec: &ExecArgs, stand_in: StandIn) -> Result<()> {
        // Its end is an empty string.
        let empty = exec.name + self.memory.read_c_str(exec.name)?.len() as u64;
        let entry = self.call(tid)?.entry.regs();
        let regs = Registers {
            orig_rax: libc::SYS_execveat.cast_unsigned(),
            rdi: stand_in.image.arg(),
            rsi: empty.0,
            rdx: exec.argv.0,
            r10: exec.envp.0,
            r8: libc::AT_EMPTY_PATH as u64,
            ..entry
        };
        self.stopped(tid)?.set_regs(&regs)?;
        // If it fails, the program finds its own arguments.
        self.call(tid)?.asked.ask_otherwise();
        Ok(())
    }
}

/// The name under which the task knows the file that we find by this name.
fn named(tid: Tid, found: &Path) -> PathBuf {
    for (link, leads_to) in [("root", "/".into()), ("cwd", proc::link(tid, "cwd").unwrap_or_default())] {
        if let Ok(rest) = found.strip_prefix(proc::path(tid, link)) {
            return leads_to.join(rest);
        }
    }
    fs::canonicalize(found).unwrap_or_else(|_| found.to_owned())
}

/// An exec leaves this descriptor open from now on.
fn keep_open(slot: &mut Option<Stopped>, fd: Fd) -> Result<()> {
    let mut remote = Remote::new(slot)?;
    remote.call(libc::SYS_fcntl, [fd.arg(), libc::F_SETFD as u64, 0, 0, 0, 0])?;
    Ok(remote.finish()?)
}

fn close_all(slot: &mut Option<Stopped>, fds: &[Fd]) -> Result<()> {
    let mut remote = Remote::new(slot)?;
    for fd in fds {
        remote.call(libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
    }
    Ok(remote.finish()?)
}

/// The descriptors that the stand-in needs, made by the task itself: its program, and one end of a socket,
/// whose other end we get.
fn make_descriptors(
    slot: &mut Option<Stopped>,
    pid: Tid,
    memory: &Memory,
) -> Result<io::Result<(Fd, Fd, File)>> {
    let mut remote = Remote::new(slot)?;
    let made = make_with(&mut remote, pid, memory)?;
    remote.finish()?;
    Ok(made)
}

fn make_with(remote: &mut Remote<'_>, pid: Tid, memory: &Memory) -> Result<io::Result<(Fd, Fd, File)>> {
    /// Below what the program may use of its stack.
    const BELOW: u64 = 512;
    let failed =
        |errno: i64| Ok(Err(io::Error::from_raw_os_error(i32::try_from(-errno).unwrap_or(libc::EIO))));
    let cloexec = u64::from(libc::MFD_CLOEXEC);
    let image = remote.call(libc::SYS_memfd_create, [MEMFD_NAME, cloexec, 0, 0, 0, 0])?;
    let Some(image) = Fd::made(image) else { return failed(image) };
    let room = (remote.saved().rsp - BELOW) & !7;
    let lent = Lent::begin(memory, Addr(room), 8).ok();
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    let result = remote.call(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, room, 0, 0])?;
    let pair = memory.read_u64(Addr(room));
    lent.map_or(Ok(()), Lent::give_back)?;
    if result < 0 {
        remote.call(libc::SYS_close, [image.arg(), 0, 0, 0, 0, 0])?;
        return failed(result);
    }
    let pair = pair?;
    let (ours, channel) = (Fd::of_arg(pair), Fd::of_arg(pair >> 32));
    let filled = || -> io::Result<File> {
        // Not by its name: what is open for writing by one cannot be executed.
        sys::take_fd(pid, image)?.write_all(STAND_IN_ELF)?;
        sys::take_fd(pid, ours)
    };
    let filled = filled();
    remote.call(libc::SYS_close, [ours.arg(), 0, 0, 0, 0, 0])?;
    match filled {
        Ok(file) => Ok(Ok((image, channel, file))),
        Err(error) => {
            for fd in [image, channel] {
                remote.call(libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
            }
            Ok(Err(error))
        }
    }
}
