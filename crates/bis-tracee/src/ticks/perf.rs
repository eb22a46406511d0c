//! The kernel's interface to one performance counter (`perf_event_open(2)`): as plain functions, one call
//! each. No policy.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, FromRawFd, RawFd},
};

use bis_trace::types::{Signal, Tid};

/// The first part of the kernel's `struct perf_event_attr`, as long as it was when it was introduced.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const ATTR_SIZE: u32 = 64;
const _: () = assert!(size_of::<Attr>() == ATTR_SIZE as usize);

/// PERF_TYPE_RAW.
pub const RAW: u32 = 4;

/// Bits of `flags`: the event is always on its counter, or in error; only what user code does, and no virtual
/// machine's.
const PINNED: u64 = 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const EXCLUDE_GUEST: u64 = 1 << 20;

/// More than is ever counted: a counter without interrupts that has the means for them.
const NEVER: u64 = 1 << 46;

/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// `_IOW('$', 4, u64)`.
const SET_PERIOD: libc::c_ulong = 0x4008_2404;

/// A counter of one task, which counts from when it is opened.
#[derive(Debug)]
pub struct Event(File);

impl Event {
    /// # Errors
    /// ENOENT, EOPNOTSUPP, ENODEV: there is no such counter here; EACCES, EPERM: it is not allowed; EINVAL:
    /// the machine's counters do not know the event; others as the kernel has them.
    pub fn open(tid: Tid, pmu: u32, config: u64) -> io::Result<Event> {
        let attr = Attr {
            kind: pmu,
            size: ATTR_SIZE,
            config,
            sample_period: NEVER,
            flags: PINNED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | EXCLUDE_GUEST,
            ..Attr::default()
        };
        // SAFETY: the kernel reads `size` bytes of `attr`; the rest are numbers. The descriptor returned is
        // new and ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_perf_event_open, &raw const attr, tid.0, -1, -1, CLOSE_ON_EXEC);
            let fd = i32::try_from(fd).unwrap_or(-1);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Event(File::from_raw_fd(fd))) }
        }
    }

    /// What it has counted.
    ///
    /// # Errors
    /// `UnexpectedEof` where somebody else has taken the counter away.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Its interrupts are this signal, to this task.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn signal(&self, tid: Tid, signal: Signal) -> io::Result<()> {
        #[repr(C)]
        struct Owner {
            kind: i32,
            tid: i32,
        }
        const F_SETSIG: i32 = linux_raw_sys::general::F_SETSIG as i32;
        const F_SETOWN_EX: i32 = linux_raw_sys::general::F_SETOWN_EX as i32;
        const F_OWNER_TID: i32 = linux_raw_sys::general::F_OWNER_TID as i32;
        let owner = Owner { kind: F_OWNER_TID, tid: tid.0 };
        let fd = self.0.as_raw_fd();
        // SAFETY: the kernel reads one `struct f_owner_ex`; the rest are numbers.
        let results = unsafe {
            [
                libc::fcntl(fd, F_SETOWN_EX, &raw const owner),
                libc::fcntl(fd, F_SETSIG, i32::from(signal.0)),
                libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC),
            ]
        };
        if results.contains(&-1) { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Interrupts after so many more, and then again; none: never.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn interrupt_after(&self, more: Option<u64>) -> io::Result<()> {
        let period = more.unwrap_or(NEVER).max(1);
        // SAFETY: the kernel reads one u64.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_PERIOD, &raw const period) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Is this `si_fd` its own?
    pub fn is(&self, fd: RawFd) -> bool {
        self.0.as_raw_fd() == fd
    }
}
