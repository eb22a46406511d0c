//! Descriptors and open files, ours and other processes'.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd},
    path::Path,
    ptr,
};

use bis_trace::types::{Fd, PAGE_LEN, Tid};
use rustix::{
    fs::{MemfdFlags, PROC_SUPER_MAGIC, memfd_create, statfs},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

use crate::ours::process_id;

/// An anonymous file in memory, close-on-exec.
pub fn memfd(name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?)
}

/// A descriptor of ours for what a process's descriptor `fd` means: the same open file, with the same
/// position.
///
/// # Errors
/// Where there is no such process or descriptor, it is not ours to trace, or the kernel is older than 5.6.
pub fn take_fd(pid: Tid, fd: Fd) -> io::Result<std::fs::File> {
    let pid = Pid::from_raw(pid.0).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, fd.0, PidfdGetfdFlags::empty())?.into())
}

/// The parent of a process, by its number out here. None: there is no such process, or the kernel is older
/// than 6.13 and does not say it this way.
pub fn parent_of_process(pid: Tid) -> Option<Tid> {
    /// The first version of `struct pidfd_info` of the kernel's headers.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        pid: u32,
        tgid: u32,
        ppid: u32,
        credentials: [u32; 8],
        exit_code: i32,
    }
    const _: () = assert!(size_of::<Info>() == 64);
    /// `_IOWR(0xFF, 11, struct pidfd_info)`.
    const PIDFD_GET_INFO: libc::c_ulong =
        3 << 30 | (size_of::<Info>() as libc::c_ulong) << 16 | 0xff << 8 | 11;
    /// The numbers are told whatever else is asked for, and say so.
    const PIDFD_INFO_PID: u64 = 1;
    let process = pidfd_open(Pid::from_raw(pid.0)?, PidfdFlags::empty()).ok()?;
    let mut info = Info { mask: PIDFD_INFO_PID, ..Info::default() };
    // SAFETY: the kernel writes no more than the number of bytes that the request names.
    let asked = unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    let is_told = asked == 0 && info.mask & PIDFD_INFO_PID != 0 && info.pid == pid.0.cast_unsigned();
    is_told.then(|| Tid(info.ppid.cast_signed()))
}

/// Asks the kernel something about an open file, or has it do something; its answer, a count. The request is
/// one whose size is that of `what`.
pub(crate) fn ask<T>(of: &std::fs::File, request: u32, what: &mut T) -> io::Result<usize> {
    assert_eq!(request >> 16 & 0x3fff, size_of::<T>() as u32, "another request's structure");
    // SAFETY: the request has the size of the structure that it is for in it, which is this one's; what the
    // structure points to is as long as it says, and borrowed by the caller.
    let answer = unsafe { libc::ioctl(of.as_raw_fd(), request.into(), ptr::from_mut(what)) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// The open file behind our own descriptor `fd`, which somebody else has given us, as a descriptor of its
/// own. What we start does not get the one given, unless it is a standard one.
///
/// # Errors
/// Where there is no such descriptor.
pub fn adopt_fd(fd: RawFd) -> io::Result<std::fs::File> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: plain numbers; a descriptor that dup makes is new and ours.
    let own = unsafe {
        let own = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1);
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(own)
    };
    if fd > libc::STDERR_FILENO {
        // SAFETY: plain numbers; close-on-exec changes nothing for this process.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(own.into())
}

/// Lets `len` bytes of `to` from `at` on have the blocks of `from` at `offset`; numbers in whole blocks.
///
/// # Errors
/// Where the filesystem cannot do it: it is not the same, has no such thing, or the range is not aligned or
/// not there.
pub fn clone_range(
    from: &std::fs::File,
    offset: u64,
    len: u64,
    to: &std::fs::File,
    at: u64,
) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // `struct file_clone_range`: the source's descriptor, its offset, the length, the offset to go to.
    let range = [i64::from(from.as_raw_fd()).cast_unsigned(), offset, len, at];
    // SAFETY: the kernel reads `range`, which lives during the call.
    let done = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether it is certain that no process has this file open for writing now, or mapped so: the kernel gives a
/// lease for reading to its owner only then. `file` is open for reading, by a description of its own.
#[must_use]
pub fn is_at_rest(file: &std::fs::File) -> bool {
    use std::os::fd::AsRawFd;
    const F_SETSIG: i32 = linux_raw_sys::general::F_SETSIG as i32;
    let fd = file.as_raw_fd();
    // SAFETY: fcntl on a descriptor of ours, with numbers. A program that opens the file for writing while
    // the lease is there waits until it is not, and we are told by a signal that means nothing to us.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGCHLD) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

/// Has a process this file open for writing now, or mapped so, as far as the kernel tells: it refuses a lease
/// for reading for that (or because one is being broken). `file` is open for reading, by a description of its
/// own.
#[must_use]
pub fn is_open_for_writing(file: &std::fs::File) -> bool {
    !is_at_rest(file) && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

/// Is this a file of a /proc, wherever that is mounted?
pub fn is_on_procfs(path: &Path) -> bool {
    statfs(path).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC)
}

/// For kcmp(2): the descriptors of a task.
const KCMP_FILE: i32 = 0;

/// Do descriptor `fd` of task `tid` and our own descriptor `ours` name the same open file? Errors where the
/// kernel has no kcmp.
pub fn same_open_file(tid: Tid, fd: Fd, ours: RawFd) -> io::Result<bool> {
    super::have_same(KCMP_FILE, (process_id(), tid), (ours.into(), fd.0.into()))
}

/// Do the descriptors with the number `fd` of two tasks name the same open file? Errors where the kernel has
/// no kcmp, or one of them has no such descriptor.
pub fn share_open_file(one: Tid, other: Tid, fd: Fd) -> io::Result<bool> {
    super::have_same(KCMP_FILE, (one, other), (fd.0.into(), fd.0.into()))
}

/// Sends a descriptor of ours through a unix socket (SCM_RIGHTS), with one byte.
///
/// # Errors
/// As sendmsg(2).
pub fn send_fd(socket: &std::fs::File, file: &std::fs::File) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)), "there is room for one descriptor");
    sendmsg(socket, &[io::IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// All bytes of a file, for as long as this process lives. Pages are read when they are looked at, and the
/// kernel may forget them again. Whoever makes the file shorter meanwhile makes reads beyond its new end
/// fatal: so only for programs and libraries, which are replaced and not rewritten.
#[derive(Clone, Copy, Debug)]
pub struct MappedFile(&'static [u8]);

impl MappedFile {
    pub fn bytes(self) -> &'static [u8] {
        self.0
    }

    /// This part of it has been looked at, and will hardly be again: the whole pages in it are ours no
    /// longer, until they are looked at. What is no part of the file is left alone.
    pub fn forget(self, part: &[u8]) {
        let within = self.0.as_ptr_range();
        let asked = part.as_ptr_range();
        if !(within.start <= asked.start && asked.end <= within.end) {
            return;
        }
        let (start, end) =
            ((asked.start as usize).next_multiple_of(PAGE_LEN), asked.end as usize & !(PAGE_LEN - 1));
        if start < end {
            let skipped = start - asked.start as usize;
            // SAFETY: these pages lie in a private mapping of a file that nobody writes to, made by
            // `map_file`: whoever looks at them again finds what the file has there, which is what they hold.
            unsafe {
                libc::madvise(asked.start.add(skipped).cast_mut().cast(), end - start, libc::MADV_DONTNEED);
            }
        }
    }
}

/// Maps a file, to be read.
///
/// # Errors
/// Where the file cannot be mapped: it is empty, or no regular file.
pub fn map_file(file: &std::fs::File) -> io::Result<MappedFile> {
    use std::os::fd::AsRawFd;
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    // SAFETY: a new private mapping at an address of the kernel's choice; it is never unmapped, so the slice
    // may live for ever.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(MappedFile(std::slice::from_raw_parts(at.cast(), len)))
    }
}
