//! Cases whose memory the kinds of their arguments describe: attributes, ids, clocks, limits, names.

use crate::Want::{Errno, Success};
use crate::{Arena, Checked};
use libc::*;
use std::os::fd::{AsRawFd, IntoRawFd};

pub fn fd(file: &impl AsRawFd) -> u64 {
    u64::try_from(file.as_raw_fd()).unwrap()
}

pub fn run(c: &mut Checked) {
    files(c);
    ids(c);
    clocks(c);
    system(c);
}

fn files(c: &mut Checked) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = dir.join("file");
    std::fs::write(&path, b"some bytes of a file").unwrap();
    std::os::unix::fs::symlink("somewhere", dir.join("link")).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let folder = std::fs::File::open(dir).unwrap();
    let (name, link) = (path.to_str().unwrap(), dir.join("link").to_str().unwrap().to_owned());
    let f = fd(&file);
    let here = (-100_i64).cast_unsigned();
    for nr in [SYS_stat, SYS_lstat] {
        c.call(nr, Success, |a| [a.text(name), a.room(144), 0, 0, 0, 0]);
    }
    c.call(SYS_stat, Errno(ENOENT), |a| [a.text("/nowhere/at/all"), a.room(144), 0, 0, 0, 0]);
    c.call(SYS_fstat, Success, |a| [f, a.room(144), 0, 0, 0, 0]);
    c.call(SYS_newfstatat, Success, |a| [here, a.text(name), a.room(144), 0, 0, 0]);
    c.call(SYS_statx, Success, |a| [here, a.text(name), 0, 0xfff, a.room(256), 0]);
    c.call(SYS_statfs, Success, |a| [a.text(name), a.room(120), 0, 0, 0, 0]);
    c.call(SYS_fstatfs, Success, |a| [f, a.room(120), 0, 0, 0, 0]);
    c.call(SYS_readlink, Success, |a| [a.text(&link), a.room(64), 64, 0, 0, 0]);
    c.call(SYS_readlinkat, Success, |a| [here, a.text(&link), a.room(64), 4, 0, 0]);
    c.call(SYS_getcwd, Success, |a| [a.room(4096), 4096, 0, 0, 0, 0]);
    c.call(SYS_pread64, Success, |a| [f, a.room(64), 64, 5, 0, 0]);
    c.call(SYS_preadv, Success, |a| {
        let (one, two) = (a.room(3), a.room(30));
        [f, a.words(&[one, 3, two, 30]), 2, 0, 0, 0]
    });
    c.call(SYS_preadv2, Success, |a| {
        let (one, two) = (a.room(9), a.room(9));
        [f, a.words(&[one, 9, 0, 0, two, 9]), 3, 2, 0, 0]
    });
    for nr in [SYS_getdents64, SYS_getdents] {
        c.call(nr, Success, |a| {
            // SAFETY: it is our descriptor.
            unsafe { lseek(folder.as_raw_fd(), 0, SEEK_SET) };
            [fd(&folder), a.room(4096), 4096, 0, 0, 0]
        });
    }
    c.call(SYS_name_to_handle_at, Errno(EOVERFLOW), |a| {
        [here, a.text(name), a.put(&[0; 8]), a.room(8), 0, 0]
    });
    c.call(SYS_copy_file_range, Success, |a| [f, a.words(&[0]), f, a.words(&[100]), 4, 0]);
    c.call(SYS_sendfile, Success, |a| [memory_file(), f, a.words(&[2]), 4, 0, 0]);
    c.call(SYS_getxattr, Errno(ENODATA), |a| [a.text(name), a.text("user.none"), a.room(9), 9, 0, 0]);
    c.call(SYS_listxattr, Success, |a| [a.text(name), a.room(400), 400, 0, 0, 0]);
    c.call(SYS_cachestat, Success, |a| [f, a.words(&[0, 4096]), a.room(40), 0, 0, 0]);
}

pub fn memory_file() -> u64 {
    // SAFETY: the name is a string.
    let fd = unsafe { memfd_create(c"truth".as_ptr(), 0) };
    u64::try_from(fd).unwrap()
}

fn ids(c: &mut Checked) {
    for nr in [SYS_getresuid, SYS_getresgid] {
        c.call(nr, Success, |a| [a.room(4), a.room(4), a.room(4), 0, 0, 0]);
    }
    c.call(SYS_getgroups, Success, |a| [64, a.room(256), 0, 0, 0, 0]);
    c.call(SYS_capget, Success, |a| [a.put(&header(0x2008_0522)), a.room(24), 0, 0, 0, 0]);
    c.call(SYS_capget, Success, |a| [a.put(&header(0x1998_0330)), a.room(12), 0, 0, 0, 0]);
    c.call(SYS_capget, Errno(EINVAL), |a| [a.put(&header(7)), a.room(24), 0, 0, 0, 0]);
    c.call(SYS_prctl, Success, |a| [16, a.room(16), 0, 0, 0, 0]);
    c.call(SYS_prctl, Success, |a| [37, a.room(4), 0, 0, 0, 0]);
    c.call(SYS_prctl, Success, |a| [2, a.room(4), 0, 0, 0, 0]);
    c.call(SYS_prctl, Success, |a| [25, a.room(4), 0, 0, 0, 0]);
    c.call(SYS_arch_prctl, Success, |a| [0x1003, a.room(8), 0, 0, 0, 0]);
    c.call(SYS_get_robust_list, Success, |a| [0, a.room(8), a.room(8), 0, 0, 0]);
}

fn header(version: u32) -> [u8; 8] {
    u64::from(version).to_le_bytes()
}

fn clocks(c: &mut Checked) {
    c.call(SYS_clock_gettime, Success, |a| [1, a.room(16), 0, 0, 0, 0]);
    c.call(SYS_clock_getres, Success, |a| [0, a.room(16), 0, 0, 0, 0]);
    c.call(SYS_gettimeofday, Success, |a| [a.room(16), a.room(8), 0, 0, 0, 0]);
    c.call(SYS_time, Success, |a| [a.room(8), 0, 0, 0, 0, 0]);
    c.call(SYS_times, Success, |a| [a.room(32), 0, 0, 0, 0, 0]);
    c.call(SYS_getitimer, Success, |a| [0, a.room(32), 0, 0, 0, 0]);
    c.call(SYS_setitimer, Success, |a| [0, a.words(&[0; 4]), a.room(32), 0, 0, 0]);
    c.call(SYS_nanosleep, Success, |a| [a.words(&[0, 1000]), a.room(16), 0, 0, 0, 0]);
    c.call(SYS_clock_nanosleep, Success, |a| [1, 0, a.words(&[0, 1000]), a.room(16), 0, 0]);
    c.call(SYS_adjtimex, Success, |a| [a.put(&[0; 208]), 0, 0, 0, 0, 0]);
    c.call(SYS_clock_adjtime, Success, |a| [0, a.put(&[0; 208]), 0, 0, 0, 0]);
    // SAFETY: no pointers.
    let timer = u64::try_from(unsafe { timerfd_create(CLOCK_MONOTONIC, 0) }).unwrap();
    c.call(SYS_timerfd_settime, Success, |a| [timer, 0, a.words(&[0, 0, 100, 0]), a.room(32), 0, 0]);
    c.call(SYS_timerfd_gettime, Success, |a| [timer, a.room(32), 0, 0, 0, 0]);
    c.call(SYS_timer_create, Success, |a| {
        let event = a.words(&[0, 1 << 32, 0, 0, 0, 0, 0, 0]);
        [1, event, a.room(4), 0, 0, 0]
    });
    let mut id: i32 = 0;
    // SAFETY: a null event is SIGALRM; `id` has room for the kernel's timer id.
    assert_eq!(unsafe { syscall(SYS_timer_create, CLOCK_MONOTONIC, 0_usize, &raw mut id) }, 0);
    let id = u64::try_from(id).unwrap();
    c.call(SYS_timer_settime, Success, |a| [id, 0, a.words(&[0, 0, 1000, 0]), a.room(32), 0, 0]);
    c.call(SYS_timer_gettime, Success, |a| [id, a.room(32), 0, 0, 0, 0]);
}

fn system(c: &mut Checked) {
    c.call(SYS_uname, Success, |a| [a.room(390), 0, 0, 0, 0, 0]);
    c.call(SYS_sysinfo, Success, |a| [a.room(112), 0, 0, 0, 0, 0]);
    c.call(SYS_getrlimit, Success, |a| [7, a.room(16), 0, 0, 0, 0]);
    c.call(SYS_prlimit64, Success, |a| [0, 7, 0, a.room(16), 0, 0]);
    c.call(SYS_getrusage, Success, |a| [0, a.room(144), 0, 0, 0, 0]);
    c.call(SYS_getcpu, Success, |a| [a.room(4), a.room(4), 0, 0, 0, 0]);
    c.call(SYS_sched_getparam, Success, |a| [0, a.room(4), 0, 0, 0, 0]);
    c.call(SYS_sched_getattr, Success, |a| [0, a.room(64), 64, 0, 0, 0]);
    c.call(SYS_sched_getaffinity, Success, |a| [0, 128, a.room(128), 0, 0, 0]);
    c.call(SYS_sched_rr_get_interval, Success, |a| [0, a.room(16), 0, 0, 0, 0]);
    c.call(SYS_getrandom, Success, |a| [a.room(8), 8, 0, 0, 0, 0]);
    c.call(SYS_get_mempolicy, Success, |a| [a.room(4), a.room(128), 1024, 0, 0, 0]);
    let mask = |a: &mut Arena| a.put(&[0; 8]);
    c.call(SYS_rt_sigprocmask, Success, |a| [0, mask(a), a.room(8), 8, 0, 0]);
    c.call(SYS_rt_sigpending, Success, |a| [a.room(8), 8, 0, 0, 0, 0]);
    c.call(SYS_rt_sigaction, Success, |a| [10, 0, a.room(32), 8, 0, 0]);
    c.call(SYS_sigaltstack, Success, |a| [0, a.room(24), 0, 0, 0, 0]);
    c.call(SYS_rt_sigtimedwait, Errno(EAGAIN), |a| [mask(a), a.room(128), a.words(&[0, 0]), 8, 0, 0]);
    c.call(SYS_pipe, Success, |a| [a.room(8), 0, 0, 0, 0, 0]);
    c.call(SYS_pipe2, Success, |a| [a.room(8), 0o4000, 0, 0, 0, 0]);
    let file = std::fs::File::open("/proc/self/status").unwrap().into_raw_fd();
    c.call(SYS_read, Success, |a| [u64::try_from(file).unwrap(), a.room(100), 100, 0, 0, 0]);
    // SAFETY: a private anonymous mapping of one page.
    let page = unsafe { mmap(std::ptr::null_mut(), 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    let page = page.expose_provenance() as u64;
    c.call(SYS_mincore, Success, |a| [page, 8192, a.room(2), 0, 0, 0]);
    c.call(SYS_move_pages, Success, |a| [0, 1, a.words(&[page]), 0, a.room(4), 0]);
    c.call(SYS_lsm_list_modules, Success, |a| [a.room(256), a.words(&[256]), 0, 0, 0, 0]);
    c.call(SYS_lsm_list_modules, Errno(E2BIG), |a| [a.room(4), a.words(&[4]), 0, 0, 0, 0]);
}

#[expect(non_upper_case_globals, reason = "the kernel's name, which libc does not have yet")]
const SYS_cachestat: i64 = 451;
#[expect(non_upper_case_globals, reason = "the kernel's name, which libc does not have yet")]
const SYS_lsm_list_modules: i64 = 461;
