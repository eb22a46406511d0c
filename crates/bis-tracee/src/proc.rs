//! What the kernel says of tasks below `/proc` (proc(5)): the one place that knows how these files are
//! written.
//!
//! A file there takes some 10 to 40 µs to read. Of a task that is gone, or that this process may not look at,
//! there is nothing.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt as _},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use bis_trace::types::{Fd, PAGE, Tid};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::ours;

/// A file or link of a task's folder.
pub fn path(tid: Tid, name: &str) -> PathBuf {
    format!("/proc/{tid}/{name}").into()
}

/// All of a file below `/proc`. The kernel makes it as it is read, and says no length before: whoever grows
/// a buffer from nothing, as [`fs::read`] does, asks it eight times for what one or two reads give.
///
/// # Errors
/// As opening and reading the file have them.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    /// The most that it gives at once of most files is a page.
    const ROOM: usize = 4 * 4096;
    let mut bytes = Vec::with_capacity(ROOM);
    // Not the file's own `read_to_end`, which asks for its length and position first.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// [`read`], as text.
///
/// # Errors
/// As [`read`], and where it is none.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Where a link of a task's folder leads: `exe`, `cwd`, `root`, those of `ns` and `fd`. None as well where
/// this process may not look.
pub fn link(tid: Tid, name: &str) -> Option<PathBuf> {
    fs::read_link(path(tid, name)).ok()
}

/// What is wrong with `/proc` as a whole; none: nothing is. It has to tell of this process's pid namespace,
/// whose numbers all other calls take. `unshare -p` leaves the one of the namespace outside in place.
pub fn what_is_wrong() -> Option<String> {
    let ours = std::process::id();
    let what = match fs::read_link("/proc/self") {
        Ok(shown) if shown == Path::new(&ours.to_string()) => return None,
        Ok(shown) => format!(
            "it shows those of another pid namespace (this is process {ours} here, and {} there)",
            shown.display()
        ),
        Err(error) => format!("nothing is mounted there that says which process this is: {error}"),
    };
    Some(what)
}

/// Is there such a task? One that has ended is there until it has been waited for.
pub fn exists(tid: Tid) -> bool {
    path(tid, "").exists()
}

/// The personality of a task (personality(2)); 0, which most have, where it cannot be read.
pub fn personality(tid: Tid) -> u32 {
    let text = read_text(path(tid, "personality")).unwrap_or_default();
    u32::from_str_radix(text.trim(), 16).unwrap_or(0)
}

/// The link that stands for a descriptor: to open it is to open the same file anew, to look at it is to look
/// at the file.
pub fn fd(tid: Tid, fd: Fd) -> PathBuf {
    path(tid, &format!("fd/{fd}"))
}

/// The link that stands for a descriptor of this process, under the name by which others find it, too.
pub fn own_fd(fd: &impl AsFd) -> PathBuf {
    path(ours::process_id(), &format!("fd/{}", fd.as_fd().as_raw_fd()))
}

/// Where this process finds the file that a task gives this name to a call, beside the descriptor `folder`
/// (or the current one). It leads through the task's folder, so it is no longer good when that is gone.
pub fn seen_by(tid: Tid, folder: Fd, name: &[u8]) -> PathBuf {
    let start = match (name.first(), folder) {
        (Some(b'/'), _) => path(tid, "root"),
        (_, Fd::CURRENT_FOLDER) => path(tid, "cwd"),
        (_, of_folder) => fd(tid, of_folder),
    };
    let below = &name[name.iter().take_while(|byte| **byte == b'/').count()..];
    if below.is_empty() { start } else { start.join(OsStr::from_bytes(below)) }
}

/// What tells a file from all others, as long as it is there: device and inode. Of a link, where it leads.
/// Whoever serves the file (a FUSE server, which may have stopped, or one behind a network) is not asked.
pub fn identity(file: impl AsRef<Path>) -> Option<(u64, u64)> {
    let found = statx(CWD, file.as_ref(), AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some((libc::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}

/// The words with which a task's program was started, as they are in its memory now.
pub fn command_line(tid: Tid) -> Vec<OsString> {
    let line = read(path(tid, "cmdline")).unwrap_or_default();
    let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
    words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

/// A setting of the kernel's, by its path below `/proc/sys`; none: this kernel has it not.
pub fn setting(name: &str) -> Option<String> {
    let text = read_text(Path::new("/proc/sys").join(name)).ok()?;
    Some(text.trim_end().to_owned())
}

/// The program that a task executes. Where the program was removed, the path ends with " (deleted)".
pub fn executable(tid: Tid) -> Option<PathBuf> {
    link(tid, "exe")
}

/// What a task calls itself: 15 bytes at most.
pub fn name(tid: Tid) -> String {
    let name = read_text(path(tid, "comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The entries of a folder that are numbers.
fn numbers(folder: PathBuf) -> io::Result<Vec<i32>> {
    let names = fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn tids(folder: PathBuf) -> Vec<Tid> {
    numbers(folder).unwrap_or_default().into_iter().map(Tid).collect()
}

/// All processes of which this one may know.
pub fn processes() -> Vec<Tid> {
    tids("/proc".into())
}

/// The threads of a process, also those that have ended and are not reaped.
pub fn threads(pid: Tid) -> Vec<Tid> {
    tids(path(pid, "task"))
}

/// The descriptors of a task.
///
/// # Errors
/// Where the task is gone, or this process may not look at it.
pub fn fds(tid: Tid) -> io::Result<Vec<Fd>> {
    Ok(numbers(path(tid, "fd"))?.into_iter().map(Fd).collect())
}

/// The flags with which a descriptor was opened (`O_*` of open(2)), with `O_CLOEXEC` if it is closed at an
/// exec.
pub fn open_flags(tid: Tid, fd: Fd) -> Option<i32> {
    let flags = Fields::of_fd(tid, fd)?.number("flags", 8)?;
    i32::try_from(flags).ok()
}

/// Is this descriptor open for writing? The link's own mode says so (`proc_fd_link` in fs/proc/fd.c): that is
/// asked for faster than the flags, and touches no file.
pub fn is_open_for_writing(tid: Tid, fd: Fd) -> bool {
    const OWNER_WRITES: u32 = 0o200;
    fs::symlink_metadata(self::fd(tid, fd)).is_ok_and(|link| link.mode() & OWNER_WRITES != 0)
}

/// A file that says one thing a line, with a name and a colon before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fields(String);

impl Fields {
    /// `/proc/TID/status`.
    pub fn of(tid: Tid) -> Option<Fields> {
        read_text(path(tid, "status")).ok().map(Fields)
    }

    /// `/proc/thread-self/status`, of the thread that asks.
    pub fn of_this_thread() -> Option<Fields> {
        read_text("/proc/thread-self/status").ok().map(Fields)
    }

    /// The first lines of `/proc/TID/fdinfo/FD`, which all descriptors have: in one go, because it is asked
    /// of each descriptor at each checkpoint.
    pub fn of_fd(tid: Tid, fd: Fd) -> Option<Fields> {
        let mut bytes = [0; 256];
        let len = File::open(path(tid, &format!("fdinfo/{fd}"))).ok()?.read(&mut bytes).ok()?;
        let whole = bytes[..len].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        String::from_utf8(bytes[..whole].to_vec()).ok().map(Fields)
    }

    /// `/proc/PID/smaps_rollup`: the kernel looks at each of the process's pages for it.
    pub fn of_memory(pid: Tid) -> Option<Fields> {
        read_text(path(pid, "smaps_rollup")).ok().map(Fields)
    }

    /// `/proc/meminfo`.
    pub fn of_machine() -> Option<Fields> {
        read_text("/proc/meminfo").ok().map(Fields)
    }

    /// What stands behind this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim())
    }

    /// What stands behind this name as a number, in decimals (10), as masks are written (16), or as the flags
    /// of descriptors are (8).
    pub fn number(&self, name: &str, radix: u32) -> Option<u64> {
        u64::from_str_radix(self.text(name)?, radix).ok()
    }

    /// What stands there as an amount of memory, in bytes.
    pub fn memory(&self, name: &str) -> Option<u64> {
        self.text(name)?.strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb * 1024)
    }

    /// What stands behind this name as a task's id.
    pub fn tid(&self, name: &str) -> Option<Tid> {
        self.text(name)?.parse().ok().map(Tid)
    }
}

/// Whether a thread runs or could, for whoever asks several times: to open the file costs three times what
/// it costs to read it.
#[derive(Debug)]
pub struct Runnable(File);

impl Runnable {
    /// # Errors
    /// As opening the file has them.
    pub fn of(tid: Tid) -> io::Result<Runnable> {
        File::open(path(tid, &format!("task/{tid}/stat"))).map(Runnable)
    }

    /// Does it run, or could it now? One that is gone does not.
    pub fn is_so(&self) -> bool {
        // Number, name and state are in front: no name is longer than 64 bytes.
        let mut bytes = [0; 128];
        let len = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let name_end = bytes[..len].windows(2).rposition(|pair| pair == b") ");
        name_end.is_some_and(|at| bytes.get(at + 2) == Some(&b'R'))
    }
}

/// A thread's `stat`, from its third field on: the second is a name, which may hold anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat(String);

impl Stat {
    /// # Errors
    /// As reading the file has them.
    pub fn of(tid: Tid) -> io::Result<Stat> {
        // For `/proc/TID/stat` the kernel adds up the times of all threads of the process.
        read_text(path(tid, &format!("task/{tid}/stat"))).map(Stat)
    }

    /// A field by its number in proc(5), which counts from 1.
    fn field(&self, number: usize) -> Option<&str> {
        const FIRST: usize = 3;
        let (_, rest) = self.0.rsplit_once(") ")?;
        rest.split_whitespace().nth(number.checked_sub(FIRST)?)
    }

    /// `R` for a task that runs or could, `Z` for one that has ended and is not reaped, ...
    pub fn state(&self) -> Option<char> {
        self.field(3)?.chars().next()
    }

    /// Its process's parent; 0: that is outside of our pid namespace.
    pub fn parent(&self) -> Option<Tid> {
        self.field(4)?.parse().ok().map(Tid)
    }

    /// The number of its process group.
    pub fn group(&self) -> Option<i32> {
        self.field(5)?.parse().ok()
    }

    /// The number of its session.
    pub fn session(&self) -> Option<i32> {
        self.field(6)?.parse().ok()
    }

    /// `PF_*` of the kernel's `include/linux/sched.h`.
    pub fn flags(&self) -> Option<u64> {
        self.field(9)?.parse().ok()
    }

    /// How nice it is: -20 to 19.
    pub fn nice(&self) -> Option<i32> {
        self.field(19)?.parse().ok()
    }
}

/// How long a task has had a processor, and how long it has waited for one, as of when it last gave one up
/// (or the kernel's clock last ticked there): `/proc/TID/schedstat`. None where the kernel does not say.
pub fn processor_time(tid: Tid) -> Option<(Duration, Duration)> {
    let text = read_text(path(tid, "schedstat")).ok()?;
    let mut words = text.split_whitespace();
    let mut time = || words.next()?.parse().ok().map(Duration::from_nanos);
    Some((time()?, time()?))
}

/// How many pages the kernel has given a process without reading any (minor faults, of all its threads),
/// since the process was made. None: it is gone.
pub fn minor_faults(pid: Tid) -> Option<u64> {
    Stat(read_text(path(pid, "stat")).ok()?).field(10)?.parse().ok()
}

/// The fields of a process's `statm`, in bytes; none if it is gone.
fn statm<const N: usize>(pid: Tid) -> Option<[u64; N]> {
    let text = read_text(path(pid, "statm")).ok()?;
    let mut pages = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    let mut fields = [0; N];
    for field in &mut fields {
        *field = pages.next()? * PAGE;
    }
    Some(fields)
}

/// How many bytes a process has mapped; none if it is gone.
pub fn mapped(pid: Tid) -> Option<u64> {
    statm(pid).map(|[mapped]| mapped)
}

/// How many bytes of a process are in memory that are not of files, also those that it has together with
/// others; none if it is gone.
pub fn resident(pid: Tid) -> Option<u64> {
    statm(pid).map(|[_, resident, of_files]| resident.saturating_sub(of_files))
}

/// The timers that `timer_create` has made for a process, by their numbers.
pub fn made_timers(pid: Tid) -> Vec<u64> {
    let list = read_text(path(pid, "timers")).unwrap_or_default();
    list.lines().filter_map(|line| line.strip_prefix("ID:")?.trim().parse().ok()).collect()
}

/// Is anything swapped out on this machine, as far as one knows?
pub fn may_be_swapped() -> bool {
    read_text("/proc/swaps").map_or(true, |list| list.lines().count() > 1)
}

/// A System V segment of shared memory (`proc_sysvipc_shm(5)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its identifier, which its mappings have for an inode.
    pub id: u32,
    /// The process that has made it.
    pub creator: Tid,
    /// Nothing of it is in memory, or swapped: nobody has ever touched it.
    pub is_untouched: bool,
}

/// The System V segments that there are in this process's namespace.
pub fn segments() -> Vec<Segment> {
    segments_in(&read_text("/proc/sysvipc/shm").unwrap_or_default())
}

fn segments_in(list: &str) -> Vec<Segment> {
    const ID: usize = 1;
    const CREATOR: usize = 4;
    list.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let id = fields.get(ID)?.parse().ok()?;
            let creator = Tid(fields.get(CREATOR)?.parse().ok()?);
            Some(Segment { id, creator, is_untouched: fields.ends_with(&["0", "0"]) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_by_their_columns() {
        let list = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n\
             \x20        0          3   600                  4096   812   812      1  1000  1000  1000  1000 1763900000          0 1763900000                  4096                     0\n\
             \x20  1234567      32770   666                524288   900   901      0     0     0     0     0          0          0 1763900001                     0                     0\n";
        let segment = |id, creator, is_untouched| Segment { id, creator: Tid(creator), is_untouched };
        assert_eq!(segments_in(list), [segment(3, 812, false), segment(32770, 900, true)]);
        assert_eq!(segments_in(""), []);
        assert_eq!(segments_in("head\n1 2\n"), []);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        let fields = Fields("MemTotal:       16303968 kB\nHugePages_Total:       0\n".into());
        assert_eq!(fields.memory("MemTotal"), Some(16303968 << 10));
        assert_eq!(fields.memory("HugePages_Total"), None);
        let own = resident(Tid(std::process::id().cast_signed())).unwrap();
        assert!(own > 0 && own < mapped(Tid(std::process::id().cast_signed())).unwrap());
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let fields = Fields("Name:\tx: y\nTgid:\t41\nSigBlk:\t00000000000000ff\nTracerPid:\t7\n".into());
        assert_eq!(fields.text("Name"), Some("x: y"));
        assert_eq!((fields.tid("Tgid"), fields.tid("Tg"), fields.tid("Name")), (Some(Tid(41)), None, None));
        assert_eq!(fields.number("SigBlk", 16), Some(0xff));
        assert_eq!(fields.number("TracerPid", 10), Some(7));
    }

    #[test]
    fn a_name_does_not_hide_what_is_behind_it() {
        let stat = Stat("77 (a) R (b) ) S 1 77 77 0 -1 4194308 1".into());
        assert_eq!((stat.state(), stat.flags(), stat.nice()), (Some('S'), Some(0x40_0004), None));
        let stat = Stat("1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 20 -5 1".into());
        assert_eq!(stat.nice(), Some(-5));
        assert_eq!((Stat(String::new()).state(), Stat("1 (x) ".into()).flags()), (None, None));
    }

    #[test]
    fn a_name_is_found_as_its_task_finds_it() {
        let seen = |folder, name: &[u8]| seen_by(Tid(7), folder, name);
        assert_eq!(seen(Fd(3), b"/etc/passwd"), Path::new("/proc/7/root/etc/passwd"));
        assert_eq!(seen(Fd::CURRENT_FOLDER, b"//"), Path::new("/proc/7/root"));
        assert_eq!(seen(Fd::CURRENT_FOLDER, b"a/b"), Path::new("/proc/7/cwd/a/b"));
        assert_eq!(seen(Fd(3), b"a"), Path::new("/proc/7/fd/3/a"));
        assert_eq!(seen(Fd(3), b""), Path::new("/proc/7/fd/3"));
        let me = ours::process_id();
        assert_eq!(identity(seen_by(me, Fd::CURRENT_FOLDER, b"/")), identity("/"));
        assert_eq!(identity("/no such file"), None);
    }

    #[test]
    fn this_process_is_known() {
        let me = crate::ours::thread_id();
        let process = Fields::of_this_thread().and_then(|fields| fields.tid("Tgid")).unwrap();
        assert!(threads(process).contains(&me) && processes().contains(&process));
        assert_eq!(executable(process), std::env::current_exe().ok());
        let file = fs::File::open("/dev/null").unwrap();
        let number = Fd(std::os::fd::AsRawFd::as_raw_fd(&file));
        assert!(fds(process).unwrap().contains(&number) && fs::read_link(fd(process, number)).is_ok());
        assert_eq!(fs::read_link(own_fd(&file)).ok(), Some("/dev/null".into()));
        assert_eq!(command_line(process), std::env::args_os().collect::<Vec<_>>());
        assert!(setting("kernel/osrelease").is_some() && setting("kernel/no_such_setting").is_none());
        assert_eq!(open_flags(process, number).map(|flags| flags & libc::O_ACCMODE), Some(libc::O_RDONLY));
        assert_eq!(Stat::of(me).unwrap().state(), Some('R'));
        assert!(Runnable::of(me).unwrap().is_so());
        assert!(processor_time(me).is_some());
    }

    #[test]
    fn a_thread_that_sleeps_or_has_ended_could_not_run() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let state = Runnable::of(Tid(i32::try_from(child.id()).unwrap())).unwrap();
        while state.is_so() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!state.is_so(), "its file is open, and says nothing");
    }
}
