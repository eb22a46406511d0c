//! Files, times, ids, limits, and waiting.

use crate::Same::{Bytes, Places};
use crate::low::Low;
use crate::{Checked, Same};
use std::os::fd::{IntoRawFd, RawFd};

/// A descriptor that stays open; the tests end soon.
pub fn fd(fd: RawFd) -> u32 {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    u32::try_from(fd).unwrap()
}

/// A file with 100 bytes in it, open anew. The name is free.
pub fn file() -> u32 {
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &(0..100).collect::<Vec<u8>>(), 0).unwrap();
    fd(file.into_raw_fd())
}

/// A pipe that is empty, always with the same numbers.
fn pipe() -> [u32; 2] {
    let mut ends = [0; 2];
    // SAFETY: an array of two, and numbers that only this function uses.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        for (end, as_number) in ends.into_iter().zip([300, 301]) {
            libc::dup2(end, as_number);
            libc::close(end);
        }
    }
    [300, 301]
}

const AT_FDCWD: u32 = 0xffff_ff9c;
const NONE: u32 = 0;

pub fn run(c: &mut Checked) {
    stats(c);
    offsets(c);
    vectors(c);
    locks(c);
    times(c);
    waits(c);
    ids(c);
    limits(c);
    children(c);
}

fn stats(c: &mut Checked) {
    // Not root's, so that ids are not 0; and one that cannot be found.
    for path in ["/proc/self/exe", "/dev/null", "/etc/passwd", "/no such file"] {
        for nr in [106, 107, 195, 196] {
            c.call(nr, Bytes, |l| [l.text(path), l.space(96), 0, 0, 0, 0]);
        }
        c.call(300, Bytes, |l| [AT_FDCWD, l.text(path), l.space(96), 0, 0, 0]);
        c.call(383, Bytes, |l| [AT_FDCWD, l.text(path), 0, 0x7ff, l.space(256), 0]);
    }
    let open = file();
    for nr in [108, 197] {
        c.call(nr, Bytes, |l| [open, l.space(96), 0, 0, 0, 0]);
        c.call(nr, Bytes, |_| [open, 16, 0, 0, 0, 0]);
    }
    let large = file();
    c.call(194, Bytes, |_| [large, 0x1000, 3, 0, 0, 0]);
    // EOVERFLOW
    c.call(108, Bytes, |l| [large, l.space(96), 0, 0, 0, 0]);
    c.call(197, Bytes, |l| [large, l.space(96), 0, 0, 0, 0]);
    for path in ["/proc", "/sys", "/dev"] {
        c.call(99, Bytes, |l| [l.text(path), l.space(64), 0, 0, 0, 0]);
        c.call(268, Bytes, |l| [l.text(path), 84, l.space(84), 0, 0, 0]);
        c.call(268, Bytes, |l| [l.text(path), 88, l.space(88), 0, 0, 0]);
    }
    c.call(99, Places, |l| [l.text("/"), l.space(64), 0, 0, 0, 0]);
    c.call(100, Places, |l| [open, l.space(64), 0, 0, 0, 0]);
    c.call(269, Places, |l| [open, 84, l.space(84), 0, 0, 0]);
    c.call(122, Bytes, |l| [l.space(390), 0, 0, 0, 0, 0]);
}

fn offsets(c: &mut Checked) {
    let open = file();
    for (offset, whence) in [(10, 0), (0xffff_fff6, 2), (0xffff_ffff, 0), (5, 9)] {
        c.call(19, Bytes, |_| [open, offset, whence, 0, 0, 0]);
    }
    c.call(140, Bytes, |l| [open, 5, 7, l.space(8), 0, 0]);
    // Of a position above 4 GiB.
    c.call(19, Bytes, |_| [open, 0, 1, 0, 0, 0]);
    c.call(140, Bytes, |_| [open, 0, 7, 16, 0, 0]);
    c.call(140, Bytes, |l| [open, 0xffff_ffff, 0xffff_ffff, l.space(8), 0, 0]);
    c.call(180, Bytes, |l| [open, l.space(20), 20, 90, 0, 0]);
    c.call(180, Bytes, |l| [open, l.space(20), 20, 0, 1, 0]);
    c.call(181, Bytes, |l| [open, l.put(b"abc"), 3, 20, 0, 0]);
    for nr in [93, 194] {
        c.call(nr, Bytes, |_| [open, 80, 0, 0, 0, 0]);
        c.call(nr, Bytes, |_| [open, 0xffff_ffff, 0xffff_ffff, 0, 0, 0]);
    }
    c.call(92, Bytes, |l| [l.text("/no such file"), 80, 0, 0, 0, 0]);
    c.call(193, Bytes, |l| [l.text("/no such file"), 80, 0, 0, 0, 0]);
    c.call(225, Bytes, |_| [open, 0, 0, 80, 0, 0]);
    c.call(250, Bytes, |_| [open, 0, 0, 80, 0, 0]);
    c.call(272, Bytes, |_| [open, 0, 0, 80, 0, 1]);
    c.call(272, Bytes, |_| [open, 0, 0, 80, 0, 100]);
    c.call(314, Bytes, |_| [open, 0, 0, 80, 0, 2]);
    c.call(324, Bytes, |_| [open, 1, 0, 0, 4096, 0]);
    c.call(324, Bytes, |_| [open, 0, 0, 0, 0, 0]);
    let null = fd(std::fs::File::options().write(true).open("/dev/null").unwrap().into_raw_fd());
    c.call(187, Bytes, |l| [null, open, l.words(&[4]), 10, 0, 0]);
    c.call(187, Bytes, |l| [null, 1000, l.words(&[4]), 10, 0, 0]);
    c.call(239, Bytes, |l| [null, open, l.words(&[4, 0]), 10, 0, 0]);
}

fn vectors(c: &mut Checked) {
    let open = file();
    let two = |l: &mut Low, len: u32| {
        let (a, b) = (l.space(10), l.space(10));
        l.words(&[a, 10, b, len])
    };
    c.call(145, Bytes, |l| [file(), two(l, 5), 2, 0, 0, 0]);
    c.call(145, Bytes, |l| [file(), two(l, 0x8000_0000), 2, 0, 0, 0]);
    c.call(145, Bytes, |_| [file(), 16, 2, 0, 0, 0]);
    c.call(145, Bytes, |l| [file(), two(l, 5), 1025, 0, 0, 0]);
    c.call(145, Bytes, |l| [file(), two(l, 5), 0, 0, 0, 0]);
    c.call(146, Bytes, |l| [file(), two(l, 5), 2, 0, 0, 0]);
    c.call(333, Bytes, |l| [open, two(l, 5), 2, 90, 0, 0]);
    c.call(334, Bytes, |l| [open, two(l, 5), 2, 90, 0, 0]);
    c.call(378, Bytes, |l| [file(), two(l, 5), 2, 0xffff_ffff, 0xffff_ffff, 0]);
    c.call(379, Bytes, |l| [open, two(l, 5), 2, 50, 0, 0]);
    c.call(316, Bytes, |l| [pipe()[1], two(l, 5), 2, 0, 0, 0]);
}

fn locks(c: &mut Checked) {
    for nr in [55, 221] {
        c.call(nr, Bytes, |l| [file(), 6, l.words(&[1, 10, 20, 0]), 0, 0, 0]);
        c.call(nr, Bytes, |l| [file(), 6, l.words(&[1, 0xffff_fff0, 20, 0]), 0, 0, 0]);
        c.call(nr, Bytes, |l| [file(), 5, l.words(&[1, 10, 20, 7]), 0, 0, 0]);
        c.call(nr, Bytes, |_| [file(), 1, 0, 0, 0, 0]);
        c.call(nr, Bytes, |_| [0, 3, 0, 0, 0, 0]);
        c.call(nr, Bytes, |l| [file(), 16, l.space(8), 0, 0, 0]);
        c.call(nr, Bytes, |_| [file(), 5, 16, 0, 0, 0]);
    }
    for command in [12, 13, 36, 37] {
        c.call(221, Bytes, |l| [file(), command, l.words(&[1, 10, 1, 20, 0, 0]), 0, 0, 0]);
    }
    // A conflict with a lock of another open file: one that begins above 4 GiB, and one that has no end.
    for (start, len) in [([10, 0], [20, 0]), ([0, 1], [0, 0]), ([10, 0], [0, 0]), ([10, 0], [0, 1])] {
        let path = tempfile::NamedTempFile::new().unwrap();
        let open = || fd(std::fs::File::options().read(true).write(true).open(&path).unwrap().into_raw_fd());
        let holder = open();
        c.call(221, Bytes, |l| {
            let lock = l.words(&[1, start[0], start[1], len[0], len[1], 0]);
            [holder, 37, lock, 0, 0, 0]
        });
        let asker = open();
        for command in [12, 36] {
            c.call(221, Bytes, |l| [asker, command, l.words(&[1, 0, 0, 0, 0, 0]), 0, 0, 0]);
        }
        c.call(221, Bytes, |l| [asker, 5, l.words(&[1, 0, 0, 0]), 0, 0, 0]);
    }
}

fn times(c: &mut Checked) {
    c.call(13, Places, |l| [l.space(4), 0, 0, 0, 0, 0]);
    c.call(13, Places, |_| [NONE; 6]);
    c.call(78, Places, |l| [l.space(8), l.space(8), 0, 0, 0, 0]);
    for (nr, len) in [(265, 8), (403, 16)] {
        c.call(nr, Places, |l| [1, l.space(len), 0, 0, 0, 0]);
        c.call(nr, Bytes, |l| [77, l.space(len), 0, 0, 0, 0]);
    }
    for (nr, len) in [(266, 8), (406, 16)] {
        c.call(nr, Bytes, |l| [1, l.space(len), 0, 0, 0, 0]);
        c.call(nr, Bytes, |_| [1, 0, 0, 0, 0, 0]);
    }
    c.call(161, Bytes, |l| [0, l.space(8), 0, 0, 0, 0]);
    c.call(423, Bytes, |l| [0, l.space(16), 0, 0, 0, 0]);
    c.call(162, Bytes, |l| [l.words(&[0, 1000]), l.space(8), 0, 0, 0, 0]);
    c.call(162, Bytes, |l| [l.words(&[0, 1_000_000_000]), l.space(8), 0, 0, 0, 0]);
    c.call(162, Bytes, |l| [l.words(&[0xffff_ffff, 0]), l.space(8), 0, 0, 0, 0]);
    c.call(267, Bytes, |l| [1, 0, l.words(&[0, 1000]), l.space(8), 0, 0]);
    // The upper half of the nanoseconds is padding.
    c.call(407, Bytes, |l| [1, 0, l.words(&[0, 0, 1000, 7]), l.space(16), 0, 0]);
    c.call(104, Bytes, |l| {
        // SAFETY: a time of zeros, which disarms it.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &std::mem::zeroed(), std::ptr::null_mut()) };
        [0, l.words(&[0, 0, 100, 0]), l.space(16), 0, 0, 0]
    });
    c.call(105, Places, |l| [0, l.space(16), 0, 0, 0, 0]);
    c.call(104, Places, |l| [0, 0, l.space(16), 0, 0, 0]);
    // SAFETY: a call without pointers.
    let timerfd = || fd(unsafe { libc::timerfd_create(1, 0) });
    c.call(325, Bytes, |l| [timerfd(), 0, l.words(&[7, 0, 1000, 0]), l.space(16), 0, 0]);
    c.call(326, Bytes, |l| [timerfd(), l.space(16), 0, 0, 0, 0]);
    c.call(411, Bytes, |l| [timerfd(), 0, l.words(&[7, 0, 0, 9, 1000, 0, 0, 9]), l.space(32), 0, 0]);
    c.call(410, Bytes, |l| [timerfd(), l.space(32), 0, 0, 0, 0]);
    // SIGEV_SIGNAL with a value, SIGEV_NONE, and one that does not exist.
    for notify in [0, 1, 9] {
        let event = |l: &mut Low| {
            let event = l.put(&[0; 64]);
            l.write(event.into(), &[5, 0, 0, 0, 10, 0, 0, 0, notify]);
            event
        };
        c.call(259, Places, |l| [1, event(l), l.space(4), 0, 0, 0]);
    }
    let timer = || {
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: zeros are a value of it.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_NONE;
        // SAFETY: both are ours.
        assert_eq!(unsafe { libc::timer_create(1, &raw mut event, &raw mut timer) }, 0);
        u32::try_from(timer.addr()).unwrap()
    };
    c.call(260, Bytes, |l| [timer(), 0, l.words(&[1, 2, 1000, 0]), l.space(16), 0, 0]);
    c.call(261, Bytes, |l| [timer(), l.space(16), 0, 0, 0, 0]);
    c.call(408, Bytes, |l| [timer(), l.space(32), 0, 0, 0, 0]);
    c.call(409, Bytes, |l| [timer(), 0, l.words(&[1, 0, 2, 8, 1000, 0, 0, 0]), l.space(32), 0, 0]);
    let path = tempfile::NamedTempFile::new().unwrap();
    let path = path.path().to_str().unwrap();
    let old = |c: &mut Checked| c.call(106, Places, |l| [l.text(path), l.space(64), 0, 0, 0, 0]);
    c.call(30, Bytes, |l| [l.text(path), l.words(&[1000, 2000]), 0, 0, 0, 0]);
    c.call(271, Bytes, |l| [l.text(path), l.words(&[1000, 1, 2000, 2]), 0, 0, 0, 0]);
    c.call(299, Bytes, |l| [AT_FDCWD, l.text(path), l.words(&[1000, 1, 2000, 2]), 0, 0, 0]);
    c.call(320, Bytes, |l| [AT_FDCWD, l.text(path), l.words(&[1000, 0x3fff_fffe, 7, 0x3fff_ffff]), 0, 0, 0]);
    c.call(412, Bytes, |l| {
        [AT_FDCWD, l.text(path), l.words(&[1000, 0, 0x3fff_fffe, 5, 7, 0, 1, 5]), 0, 0, 0]
    });
    c.call(320, Bytes, |l| [AT_FDCWD, l.text(path), 0, 0, 0, 0]);
    old(c);
}

fn waits(c: &mut Checked) {
    // A word that is not what is waited for, and one that nobody wakes.
    c.call(240, Bytes, |l| [l.words(&[1]), 128, 2, l.words(&[5, 0]), 0, 0]);
    c.call(240, Bytes, |l| [l.words(&[1]), 128, 1, l.words(&[0, 1000]), 0, 0]);
    c.call(240, Bytes, |l| [l.words(&[1]), 128 + 9, 1, l.words(&[1, 0]), 0, 0xffff_ffff]);
    c.call(240, Bytes, |l| [l.words(&[1]), 128 + 1, 5, 0, 0, 0]);
    c.call(240, Bytes, |l| [l.words(&[1]), 128 + 4, 0, 7, l.words(&[1]), 1]);
    c.call(422, Bytes, |l| [l.words(&[1]), 128, 1, l.words(&[0, 0, 1000, 3]), 0, 0]);
    let readable = || {
        let [read, write] = pipe();
        crate::make(&bis_syscalls::Call {
            nr: 1,
            args: [write.into(), b"x".as_ptr().addr() as u64, 1, 0, 0, 0],
        });
        read
    };
    let set = |l: &mut Low, fd: u32| {
        let mut words = vec![0; usize::try_from(fd / 32 + 1).unwrap()];
        words[usize::try_from(fd / 32).unwrap()] = 1 << (fd % 32);
        l.words(&words)
    };
    for nr in [142, 308] {
        c.call(nr, Bytes, |l| {
            let fd = readable();
            [fd + 1, set(l, fd), 0, set(l, fd), l.words(&[0, 0]), 0]
        });
        c.call(nr, Bytes, |l| {
            let [fd, _] = pipe();
            [fd + 1, set(l, fd), 0, 0, l.words(&[0, 100]), 0]
        });
        c.call(nr, Bytes, |l| [40, l.words(&[0, 0]), l.words(&[0, 0xff]), 0, l.words(&[0, 0]), 0]);
        c.call(nr, Bytes, |l| [0xffff_ffff, l.words(&[0, 0]), 0, 0, l.words(&[0, 0]), 0]);
        c.call(nr, Bytes, |l| [0, 0, 0, 0, l.words(&[0, 100]), 0]);
        c.call(nr, Places, |l| {
            let fd = readable();
            // A time from which any wait, long or short, changes the same bytes.
            [fd + 1, set(l, fd), 0, 0, l.words(&[100, 0]), 0]
        });
        c.call(nr, Bytes, |l| {
            let fd = readable();
            [0x7fff_ffff, set(l, fd), 0, 0, l.words(&[0, 0]), 0]
        });
    }
    c.call(413, Bytes, |l| {
        let fd = readable();
        let mask = l.words(&[0, 0]);
        [fd + 1, set(l, fd), 0, 0, l.words(&[0, 0, 0, 9]), l.words(&[mask, 8])]
    });
    c.call(308, Bytes, |l| {
        let mask = l.words(&[0, 0]);
        [0, 0, 0, 0, l.words(&[0, 0]), l.words(&[mask, 4])]
    });
    c.call(82, Bytes, |l| {
        let fd = readable();
        let (set, time) = (set(l, fd), l.words(&[0, 0]));
        [l.words(&[fd + 1, set, 0, 0, time]), 0, 0, 0, 0, 0]
    });
    for (nr, time) in [(309, &[0, 100][..]), (414, &[0, 0, 100, 1][..])] {
        c.call(nr, Bytes, |l| [l.words(&[readable(), 1]), 1, l.words(&[0, 0, 0, 0]), l.words(&[0, 0]), 8, 0]);
        c.call(nr, Bytes, |l| [l.words(&[pipe()[0], 1]), 1, l.words(time), 0, 0, 0]);
    }
    c.call(168, Bytes, |l| [l.words(&[readable(), 1]), 1, 0, 0, 0, 0]);
}

fn ids(c: &mut Checked) {
    for nr in [24, 47, 49, 50, 199, 200, 201, 202] {
        c.call(nr, Bytes, |_| [NONE; 6]);
    }
    for nr in [165, 171, 209, 211] {
        c.call(nr, Bytes, |l| [l.space(4), l.space(4), l.space(4), 0, 0, 0]);
    }
    for nr in [70, 71, 164, 170] {
        c.call(nr, Bytes, |_| [0xffff, 0xffff, 0xffff, 0, 0, 0]);
    }
    for nr in [138, 139] {
        c.call(nr, Bytes, |_| [0xffff, 0, 0, 0, 0, 0]);
    }
    c.call(182, Bytes, |l| [l.text("/no such file"), 0, 0, 0, 0, 0]);
    c.call(95, Bytes, |_| [file(), 0xffff, 0xffff, 0, 0, 0]);
    c.call(80, Bytes, |_| [NONE; 6]);
    c.call(80, Bytes, |l| [64, l.space(128), 0, 0, 0, 0]);
    c.call(80, Bytes, |l| [0xffff_ffff, l.space(128), 0, 0, 0, 0]);
    c.call(205, Bytes, |l| [64, l.space(256), 0, 0, 0, 0]);
}

fn limits(c: &mut Checked) {
    for resource in 0..16 {
        for nr in [76, 191] {
            c.call(nr, Bytes, |l| [resource, l.space(8), 0, 0, 0, 0]);
        }
    }
    c.call(75, Bytes, |l| [4, l.words(&[0xffff_ffff, 0xffff_ffff]), 0, 0, 0, 0]);
    c.call(75, Bytes, |l| [4, l.words(&[10, 5]), 0, 0, 0, 0]);
    c.call(340, Bytes, |l| [0, 7, 0, l.space(16), 0, 0]);
    c.call(77, Places, |l| [0xffff_ffff, l.space(72), 0, 0, 0, 0]);
    c.call(43, Places, |l| [l.space(16), 0, 0, 0, 0, 0]);
    c.call(116, Places, |l| [l.space(64), 0, 0, 0, 0, 0]);
    for len in [0, 3, 4, 8, 12, 60, 128, 260] {
        c.call(242, Bytes, |l| [0, len, l.space(264), 0, 0, 0]);
    }
    c.call(172, Places, |l| [40, l.space(4), 0, 0, 0, 0]);
    c.call(172, Bytes, |l| [16, l.space(16), 0, 0, 0, 0]);
}

/// A child that has exited with status 3.
fn child() -> u32 {
    // SAFETY: the child makes one system call and nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends the child.
        unsafe { libc::_exit(3) };
    }
    u32::try_from(child).unwrap()
}

fn children(c: &mut Checked) {
    let same: Same = Places;
    c.call(7, same, |l| [child(), l.space(4), 0, 0, 0, 0]);
    c.call(114, same, |l| [child(), l.space(4), 0, l.space(72), 0, 0]);
    c.call(114, same, |_| [child(), 0, 0, 0, 0, 0]);
    c.call(284, same, |l| [1, child(), l.space(128), 4, l.space(72), 0]);
    c.call(284, same, |_| [1, child(), 0, 4, 0, 0]);
    // Nobody to wait for.
    c.call(114, Bytes, |l| [0xffff_ffff, l.space(4), 1, l.space(72), 0, 0]);
    c.call(284, Bytes, |l| [0, 0, l.space(128), 5, l.space(72), 0]);
}
